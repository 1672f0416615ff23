//! `getid claim release` and `getid claim take`: end the claim of a holder.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write};

use clap::Args;

use crate::cli::claim_store::{ClaimStore, ClaimStoreArgs, ClaimStoreError, UnusableRecord, new_stamp};
use crate::cli::exit::{Cause, CliError, EXIT_FAILED, EXIT_NEGATIVE, ToolError};
use crate::cli::holders::{
    HolderError, MovedRecord, check_unclaimed, describe_holder, describe_release, freed, timeout_ms, timeout_words,
};
use crate::cli::record_text::{duration, push_line};
use getid_engine::claim::RecordLocation;
use getid_engine::claim::fleet::{ClaimRecord, Holding, ReleaseReason};
use getid_store::records::{Key, RecordRow, WriteResult};

pub(super) const RELEASE_EXAMPLES: &str = "\
Example:
  getid claim release 3 --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/getid";

pub(super) const TAKE_EXAMPLES: &str = "\
Examples:
  getid claim take 3 --config /etc/getid/getid.conf
  getid claim take 3 --store etcd://10.0.0.1/getid --yes";

/// Largest number of attempts to write a claim whose holder beats between the read and the write.
const TAKES_MAX: u32 = 20;

#[derive(Args)]
pub(super) struct ClaimReleaseArgs {
    /// The server-id
    #[arg(value_name = "ID")]
    pub(super) server_id: u32,
    #[command(flatten)]
    pub(super) at: ClaimStoreArgs,
}

#[derive(Args)]
pub(super) struct ClaimTakeArgs {
    /// The server-id
    #[arg(value_name = "ID")]
    pub(super) server_id: u32,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) at: ClaimStoreArgs,
}

/// Reason why a claim is not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimChangeError {
    #[error(transparent)]
    Store(#[from] ClaimStoreError),
    #[error(
        "{shown}: there is no record of server-id {server_id}. If the server-id never gave an ID, run `getid cluster init \
         --new {server_id}`; if it has a state file, run `getid state move`"
    )]
    NoRecord { shown: String, server_id: u32 },
    #[error(transparent)]
    Unusable(#[from] UnusableRecord),
    #[error(transparent)]
    Moved(#[from] MovedRecord),
    #[error(transparent)]
    Held(#[from] HolderError),
    #[error("server-id {0} has no holder: any standby takes it at once")]
    NoHolder(u32),
    #[error("{0}")]
    NewRecord(Cause),
    #[error(
        "server-id {0}: another process wrote the record at the same time: its holder beats again, or a standby has taken \
         the claim; `getid claim show {0}` shows the holder"
    )]
    WrittenMeanwhile(u32),
    #[error("server-id {server_id} is held by {holder} now, which has just taken it")]
    TakenMeanwhile { server_id: u32, holder: String },
    #[error("server-id {0} was released at the same time")]
    ReleasedMeanwhile(u32),
    #[error(
        "server-id {0}: its holder wrote the record {TAKES_MAX} times, each time between a read and a write of this tool; \
         the store is too slow from here"
    )]
    TooSlow(u32),
    #[error("{risks}\nThere is no terminal for the question: add --yes to confirm")]
    NoTerminal { risks: String },
    #[error("nothing was changed")]
    Declined,
}

impl ToolError for ClaimChangeError {
    fn exit_code(&self) -> u8 {
        match self {
            ClaimChangeError::Store(_) | ClaimChangeError::NoTerminal { .. } => EXIT_FAILED,
            _ => EXIT_NEGATIVE,
        }
    }
}

/// Returns the claim of a server-id. Fails if there is no record, if it is damaged, or if it was moved.
fn read_usable_claim(store: &ClaimStore, server_id: u32) -> Result<(RecordRow, ClaimRecord), ClaimChangeError> {
    let Some((row, claim)) = store.claim(server_id)? else {
        return Err(ClaimChangeError::NoRecord { shown: store.shown().to_owned(), server_id });
    };
    let claim = claim.map_err(|error| store.unusable(server_id, error))?;
    if let Some(mark) = claim.mark {
        return Err(MovedRecord { here: RecordLocation::of_store(store.shown()), server_id, mark }.into());
    }
    Ok((row, claim))
}

/// Writes a claim without its holder. Returns whether the record was unchanged until then.
fn write_freed(
    store: &ClaimStore,
    row: &RecordRow,
    claim: &ClaimRecord,
    now_unix_ms: i64,
) -> Result<bool, ClaimChangeError> {
    let new = freed(claim, ReleaseReason::Operator, 1, now_unix_ms);
    let new = new.to_row(new_stamp(0).writer).map_err(|error| ClaimChangeError::NewRecord(error.into()))?;
    let key = Key::of_claim(claim.record.identity.server_id);
    Ok(store.write(&key, Some(row.stamp), &new)? == WriteResult::Done)
}

pub(super) fn release(
    args: &ClaimReleaseArgs,
    store: &ClaimStore,
    now_unix_ms: i64,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let server_id = args.server_id;
    let (row, claim) = read_usable_claim(store, server_id)?;
    let holder = match &claim.holding {
        Holding::Held(holder) => describe_holder(holder),
        Holding::Free(free) => {
            writeln!(out, "server-id {server_id}: {}", store.shown())?;
            out.write_all(line("free", &format!("already: {}", describe_release(free))).as_bytes())?;
            return Ok(());
        }
    };
    let why = format!(
        "so it is not released: stop that server, which releases it; or run `getid claim take {server_id}`, which prints \
         the risks"
    );
    check_unclaimed(store, server_id, &row, &claim, &why).map_err(ClaimChangeError::from)?;
    if !write_freed(store, &row, &claim, now_unix_ms)? {
        return Err(ClaimChangeError::WrittenMeanwhile(server_id).into());
    }
    writeln!(out, "server-id {server_id}: {}", store.shown())?;
    let silent = timeout_words(&claim);
    out.write_all(line("released", &format!("{holder} was silent for {silent}; any server may take it")).as_bytes())?;
    Ok(())
}

pub(super) fn take(
    args: &ClaimTakeArgs,
    store: &ClaimStore,
    now_unix_ms: i64,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let server_id = args.server_id;
    let (mut row, mut claim) = read_usable_claim(store, server_id)?;
    let holder = claim.holder().cloned().ok_or(ClaimChangeError::NoHolder(server_id))?;
    if !args.yes {
        confirm(&risks(server_id, &claim), io::stdin().is_terminal(), &mut io::stdin().lock())?;
    }
    for _ in 0..TAKES_MAX {
        if write_freed(store, &row, &claim, now_unix_ms)? {
            writeln!(out, "server-id {server_id}: {}", store.shown())?;
            let text = format!("from {}; a standby takes it at once", describe_holder(&holder));
            out.write_all(line("taken", &text).as_bytes())?;
            return Ok(());
        }
        // The holder has beaten between the read and the write.
        (row, claim) = read_usable_claim(store, server_id)?;
        match claim.holder() {
            Some(found) if found.instance == holder.instance => {}
            Some(found) => {
                let holder = describe_holder(found);
                return Err(ClaimChangeError::TakenMeanwhile { server_id, holder }.into());
            }
            None => return Err(ClaimChangeError::ReleasedMeanwhile(server_id).into()),
        }
    }
    Err(ClaimChangeError::TooSlow(server_id).into())
}

fn line(name: &str, value: &str) -> String {
    let mut text = String::new();
    push_line(&mut text, name, &value);
    text
}

/// Returns the text about what taking a claim away risks, and what it does not.
pub(super) fn risks(server_id: u32, claim: &ClaimRecord) -> String {
    let holder = claim.holder().map(describe_holder).unwrap_or_default();
    let hold = duration(timeout_ms(claim) * 3 / 4);
    format!(
        "server-id {server_id} is held by {holder}.\n\
         No ID is given twice, whatever happens: what {holder} saves is refused from now on, and the next holder begins \
         past all that it saved.\n\
         The order is at risk: {holder} may give IDs until its next beat, for {hold} at most, that are smaller than those \
         of the next holder.\n\
         Where {holder} can be stopped, stop it instead: then its claim is free at once, and the order is kept."
    )
}

/// Asks for a confirmation at the terminal. Fails without a terminal, or if the answer is not `yes`.
pub(super) fn confirm(risks: &str, is_terminal: bool, answer: &mut impl io::BufRead) -> Result<(), CliError> {
    if !is_terminal {
        return Err(ClaimChangeError::NoTerminal { risks: risks.to_owned() }.into());
    }
    let mut err = io::stderr().lock();
    write!(err, "{risks}\nTake the claim away? Type yes: ")?;
    err.flush()?;
    let mut line = String::new();
    answer.take(64).read_line(&mut line)?;
    if line.trim() == "yes" { Ok(()) } else { Err(ClaimChangeError::Declined.into()) }
}
