//! `getid claim`: the right to each server-id, as a claim store records it.
//!
//! A tool writes claims without a holder, and replaces exactly the record that it has read. So a tool can end a claim,
//! and never holds one. A holder is alive if it beats: the tools watch a claim for its time-out, as a standby does.

mod change;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::change::{ClaimReleaseArgs, ClaimTakeArgs, RELEASE_EXAMPLES, TAKE_EXAMPLES};
pub(super) use self::show::{ClaimListing, list_claims};
use self::show::{ClaimShowArgs, SHOW_EXAMPLES};
use super::claim_store::{CLAIM_STORE_HELP, ClaimStore, ClaimStoreArgs, TIMEOUT_MS_MAX, WatchOutcome};
use super::sequence::{ToolError, run_and_report};
use super::state::texts::duration;
use getid_engine::claim::fleet::{ClaimHolder, ClaimRecord, FreeClaim, Holding, ReleaseReason};
use getid_store::records::{RecordRow, Stamp};
use getid_system::clock::wall_unix_ms;
use getid_text::printable::printable_up_to;
use getid_text::shell::shell_word;
use getid_text::store_url::for_command;

/// Arguments of `getid claim`.
#[derive(Args)]
pub(super) struct ClaimArgs {
    #[command(subcommand)]
    command: ClaimCommand,
}

#[derive(Subcommand)]
enum ClaimCommand {
    /// Show the holders of server-ids, since when, and how far their IDs may have come
    ///
    /// With --watch it watches for a time-out and shows which holders beat. Exits 1 if there is no record, or a record
    /// that no server can take.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{SHOW_EXAMPLES}"))]
    Show(ClaimShowArgs),
    /// End the claim of a holder that has been silent for its whole time-out
    ///
    /// The tool watches for that time first. It does not end the claim of a holder that beats. A standby takes over in
    /// the same way by itself.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{RELEASE_EXAMPLES}"))]
    Release(ClaimReleaseArgs),
    /// End the claim of a holder that beats, so that a standby takes it at once
    ///
    /// No ID is given twice: the store refuses later saves of the old holder, and the next holder begins past all saved
    /// positions. The order of IDs is at risk: the old holder may give smaller IDs than the new one until its next
    /// beat, and for three quarters of its time-out if it cannot reach the store.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{TAKE_EXAMPLES}"))]
    Take(ClaimTakeArgs),
    /// Print the SQL that creates the table of a claim store, for a user with that right; does not connect
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{SCHEMA_EXAMPLES}"))]
    Schema(ClaimSchemaArgs),
}

const SCHEMA_EXAMPLES: &str = "\
Example:
  getid claim schema --store postgres://getid@db/ids | psql -U postgres ids";

#[derive(Args)]
struct ClaimSchemaArgs {
    #[command(flatten)]
    at: ClaimStoreArgs,
}

pub(super) fn run(args: &ClaimArgs) -> ExitCode {
    let opened = |at: &ClaimStoreArgs| at.open(&at.config()?);
    run_and_report(|out| match &args.command {
        ClaimCommand::Show(args) => show::show(args, &opened(&args.at)?, wall_unix_ms(), out),
        ClaimCommand::Release(args) => change::release(args, &opened(&args.at)?, wall_unix_ms(), out),
        ClaimCommand::Take(args) => change::take(args, &opened(&args.at)?, wall_unix_ms(), out),
        ClaimCommand::Schema(args) => schema(&opened(&args.at)?, out),
    })
}

fn schema(store: &ClaimStore, out: &mut dyn Write) -> Result<(), ToolError> {
    match store.schema().trim_end() {
        "" => writeln!(out, "-- {}: needs no table", store.shown())?,
        schema => writeln!(out, "{schema}")?,
    }
    Ok(())
}

/// Checks that a claim has no holder: it is free, or its holder was silent for its whole time-out. Otherwise fails with
/// a sentence that names the holder, followed by `why`.
pub(super) fn check_unclaimed(
    store: &ClaimStore,
    server_id: u32,
    row: &RecordRow,
    claim: &ClaimRecord,
    why: &str,
) -> Result<(), String> {
    let Some(holder) = claim.holder() else { return Ok(()) };
    let timeout_ms = timeout_ms(claim);
    let watched = store.watch(&BTreeMap::from([(server_id, (row.clone(), timeout_ms))]))?;
    match watched.get(&server_id) {
        Some(WatchOutcome::Silent(_)) => Ok(()),
        _ => {
            Err(format!("server-id {server_id} is held by {}, which wrote it just now, {why}", describe_holder(holder)))
        }
    }
}

/// Time-out of a record's holder, ms.
pub(super) fn timeout_ms(claim: &ClaimRecord) -> u64 {
    claim.timeout_ms.clamp(1, TIMEOUT_MS_MAX)
}

/// Describes a holder by name, address and host.
pub(super) fn describe_holder(holder: &ClaimHolder) -> String {
    let shown = |text: &str| printable_up_to(text, 200);
    let name = if holder.name.is_empty() { "a server without a name".to_owned() } else { shown(&holder.name) };
    let places: Vec<_> = [&holder.address, &holder.host]
        .into_iter()
        .filter(|place| !place.is_empty() && **place != holder.name)
        .map(|place| shown(place))
        .collect();
    if places.is_empty() { name } else { format!("{name} ({})", places.join(", ")) }
}

/// Describes why a claim has no holder.
pub(super) fn describe_release(freed: &FreeClaim) -> String {
    let by = if freed.by.is_empty() { "its holder".to_owned() } else { printable_up_to(&freed.by, 200) };
    match freed.why {
        ReleaseReason::New => "no server ever held it".to_owned(),
        ReleaseReason::Stopped => format!("{by} stopped"),
        ReleaseReason::Clock => format!("{by} released it, because its clock was absurd"),
        ReleaseReason::Operator => format!("an operator took it from {by}"),
        ReleaseReason::Advanced => "it was advanced by an operator".to_owned(),
        ReleaseReason::Moved => "it was moved here".to_owned(),
    }
}

/// Returns this claim without a holder, as the next record to write.
pub(super) fn freed(claim: &ClaimRecord, why: ReleaseReason, beats: u64, now_unix_ms: i64) -> ClaimRecord {
    let by = match &claim.holding {
        Holding::Held(holder) => holder.name.clone(),
        Holding::Free(freed) => freed.by.clone(),
    };
    let beat = claim.beat.saturating_add(beats).min(Stamp::BEAT_MAX);
    let holding = Holding::Free(FreeClaim { why, by, since_unix_ms: now_unix_ms });
    ClaimRecord { beat, holding, ..claim.clone() }
}

/// Returns the error for a record that cannot be used, with the remedy.
pub(in crate::cli) fn unusable_record(store: &ClaimStore, server_id: u32, error: &impl std::fmt::Display) -> String {
    format!(
        "{}: cannot use the record of server-id {server_id}: {error}; to continue, run `getid state advance --store {} \
         --server-id {server_id} --past-id ID`, ID being the largest in any table",
        store.shown(),
        shell_word(&for_command(store.shown()))
    )
}

/// Formats a claim's time-out.
pub(super) fn timeout_words(claim: &ClaimRecord) -> String {
    duration(timeout_ms(claim))
}
