//! `getid claim release` and `getid claim take`: end the claim of a holder.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write};

use clap::Args;

use super::{check_unclaimed, describe_holder, describe_release, freed, unusable_record};
use crate::cli::claim_store::{ClaimStore, ClaimStoreArgs, new_stamp};
use crate::cli::sequence::ToolError;
use crate::cli::state::texts::{duration, push_line};
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

/// Returns the claim of a server-id. Fails if there is no record, if it is damaged, or if it was moved.
pub(in crate::cli) fn read_usable_claim(
    store: &ClaimStore,
    server_id: u32,
) -> Result<(RecordRow, ClaimRecord), ToolError> {
    let Some((row, claim)) = store.claim(server_id)? else {
        return Err(ToolError::Negative(format!(
            "{}: there is no record of server-id {server_id}. If the server-id never gave an ID, run \
             `getid cluster init --new {server_id}`; if it has a state file, run `getid state move`",
            store.shown()
        )));
    };
    let claim = claim.map_err(|error| ToolError::Negative(unusable_record(store, server_id, &error)))?;
    if let Some(mark) = &claim.mark {
        let remedy = mark.remedy(server_id, &RecordLocation::of_store(store.shown()));
        return Err(ToolError::Negative(format!(
            "{}: server-id {server_id}: {mark}. To go on, {remedy}",
            store.shown()
        )));
    }
    Ok((row, claim))
}

pub(super) fn release(
    args: &ClaimReleaseArgs,
    store: &ClaimStore,
    now_unix_ms: i64,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
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
    check_unclaimed(store, server_id, &row, &claim, &why).map_err(ToolError::Negative)?;
    let new = freed(&claim, ReleaseReason::Operator, 1, now_unix_ms)
        .to_row(new_stamp(0).writer)
        .map_err(|error| ToolError::Negative(error.to_string()))?;
    match store.write(&Key::of_claim(server_id), Some(row.stamp), &new)? {
        WriteResult::Done => {}
        WriteResult::Conflict(_) => {
            return Err(ToolError::Negative(format!(
                "server-id {server_id}: another process wrote the record at the same time: its holder beats again, or a \
                 standby has taken the claim; `getid claim show {server_id}` shows the holder"
            )));
        }
    }
    writeln!(out, "server-id {server_id}: {}", store.shown())?;
    let silent = super::timeout_words(&claim);
    out.write_all(line("released", &format!("{holder} was silent for {silent}; any server may take it")).as_bytes())?;
    Ok(())
}

pub(super) fn take(
    args: &ClaimTakeArgs,
    store: &ClaimStore,
    now_unix_ms: i64,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let server_id = args.server_id;
    let (row, claim) = read_usable_claim(store, server_id)?;
    let Some(holder) = claim.holder().cloned() else {
        return Err(ToolError::Negative(format!("server-id {server_id} has no holder: any standby takes it at once")));
    };
    if !args.yes {
        confirm(&risks(server_id, &claim), io::stdin().is_terminal(), &mut io::stdin().lock())?;
    }
    let (mut row, mut claim) = (row, claim);
    for _ in 0..TAKES_MAX {
        let new = freed(&claim, ReleaseReason::Operator, 1, now_unix_ms)
            .to_row(new_stamp(0).writer)
            .map_err(|error| ToolError::Negative(error.to_string()))?;
        if store.write(&Key::of_claim(server_id), Some(row.stamp), &new)? == WriteResult::Done {
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
                let found = describe_holder(found);
                return Err(ToolError::Negative(format!(
                    "server-id {server_id} is held by {found} now, which has just taken it"
                )));
            }
            None => return Err(ToolError::Negative(format!("server-id {server_id} was released at the same time"))),
        }
    }
    Err(ToolError::Negative(format!(
        "server-id {server_id}: its holder wrote the record {TAKES_MAX} times, each time between a read and a write of \
         this tool; the store is too slow from here"
    )))
}

fn line(name: &str, value: &str) -> String {
    let mut text = String::new();
    push_line(&mut text, name, &value);
    text
}

/// Returns the text about what taking a claim away risks, and what it does not.
pub(super) fn risks(server_id: u32, claim: &ClaimRecord) -> String {
    let holder = claim.holder().map(describe_holder).unwrap_or_default();
    let hold = duration(super::timeout_ms(claim) * 3 / 4);
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
pub(super) fn confirm(risks: &str, is_terminal: bool, answer: &mut impl io::BufRead) -> Result<(), ToolError> {
    if !is_terminal {
        return Err(ToolError::Failed(format!("{risks}\nThere is no terminal for the question: add --yes to confirm")));
    }
    let mut err = io::stderr().lock();
    write!(err, "{risks}\nTake the claim away? Type yes: ")?;
    err.flush()?;
    let mut line = String::new();
    answer.take(64).read_line(&mut line)?;
    if line.trim() == "yes" { Ok(()) } else { Err(ToolError::Negative("nothing was changed".to_owned())) }
}
