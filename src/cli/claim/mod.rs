//! `getid claim`: the right to each server-id, as a claim store records it.
//!
//! A tool writes claims without a holder, and replaces exactly the record that it has read. So a tool can end a claim,
//! and never holds one. A holder is alive if it beats: the tools watch a claim for its time-out, as a standby does.

mod change;
mod show;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::change::{ClaimReleaseArgs, ClaimTakeArgs, RELEASE_EXAMPLES, TAKE_EXAMPLES};
pub(super) use self::show::{ClaimListing, ListError, list_claims};
use self::show::{ClaimShowArgs, SHOW_EXAMPLES};
use super::claim_store::{CLAIM_STORE_HELP, ClaimStore, ClaimStoreArgs};
use super::exit::CliError;
use super::output::print;
use getid_system::clock::wall_unix_ms;

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

pub(super) fn run(args: &ClaimArgs) -> Result<ExitCode, CliError> {
    let opened = |at: &ClaimStoreArgs| at.open(&at.config()?);
    print(|out| match &args.command {
        ClaimCommand::Show(args) => show::show(args, &opened(&args.at)?, wall_unix_ms(), out),
        ClaimCommand::Release(args) => change::release(args, &opened(&args.at)?, wall_unix_ms(), out),
        ClaimCommand::Take(args) => change::take(args, &opened(&args.at)?, wall_unix_ms(), out),
        ClaimCommand::Schema(args) => Ok(schema(&opened(&args.at)?, out)?),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn schema(store: &ClaimStore, out: &mut dyn Write) -> io::Result<()> {
    match store.schema().trim_end() {
        "" => writeln!(out, "-- {}: needs no table", store.shown()),
        schema => writeln!(out, "{schema}"),
    }
}
