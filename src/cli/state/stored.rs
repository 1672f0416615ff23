//! `getid state show` and `getid state advance` for a record in a claim store.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use getid_core::SavePoint;

use super::advance::{AdvanceArgs, AdvancePlan, OldRecord, describe_written, plan};
use super::config::{CommandOutput, StateConfig};
use super::error::StateError;
use crate::cli::claim::{ClaimListing, ListError, list_claims};
use crate::cli::claim_store::{ClaimLookup, ClaimStore, TIMEOUT_MS_MAX, WatchOutcome, new_stamp};
use crate::cli::holders::{MovedRecord, check_unclaimed, freed};
use crate::cli::record_text::push_line;
use getid_engine::claim::envelope::{salvaged_mark, salvaged_number};
use getid_engine::claim::fleet::{ClaimRecord, ClusterRecord, ReleaseReason};
use getid_engine::claim::{Mark, RecordError, RecordLocation};
use getid_store::records::{DamagedRow, Key, RecordRow, WriteResult};
use getid_text::printable::printable;

/// Beats that an advance adds to a record: more than any server counts in a life. So a server that has noted a beat of
/// a store that went back accepts this one.
pub(super) const ADVANCE_BEATS: u64 = 1 << 32;

pub(super) fn show(
    store: &ClaimStore,
    server_id: Option<u32>,
    json: bool,
    now_unix_ms: i64,
) -> Result<CommandOutput, StateError> {
    let ClaimListing { entries, is_usable } = list_claims(store, server_id, false)?;
    if json {
        let list: Vec<_> = entries.iter().map(|entry| entry.to_json(now_unix_ms)).collect();
        return Ok(CommandOutput { text: format!("{:#}\n", serde_json::Value::Array(list)), good: is_usable });
    }
    if entries.is_empty() {
        return Err(ListError::NoRecord { shown: store.shown().to_owned(), server_id }.into());
    }
    let texts: Vec<_> = entries.iter().map(|entry| entry.to_text(now_unix_ms)).collect();
    Ok(CommandOutput { text: texts.join("\n"), good: is_usable })
}

pub(super) fn advance(
    args: &AdvanceArgs,
    store: &ClaimStore,
    now_unix_ms: i64,
    configured: &StateConfig,
) -> Result<String, StateError> {
    let server_id = args.server_id(configured)?;
    let shown = store.shown();
    let fleet = store.cluster()?.map(|(_, fleet)| fleet);
    let found = match store.find(server_id)? {
        ClaimLookup::Claim(found) => *found,
        ClaimLookup::Missing => return recreate_record(args, store, server_id, (configured, fleet), None, now_unix_ms),
        ClaimLookup::Unreadable(bad) => {
            return recreate_record(args, store, server_id, (configured, fleet), Some(&bad), now_unix_ms);
        }
    };
    let (row, claim) = found;
    let mark = match &claim {
        Ok(claim) => claim.mark.clone(),
        Err(_) => salvaged_mark(row.text.as_bytes()),
    };
    if let Some(mark) = mark {
        return Err(moved_error(mark, shown, server_id));
    }
    let before = old_record(&row, &claim, shown, server_id)?;
    let AdvancePlan { floor, record } = plan(args, &before, server_id, (configured, fleet.as_ref()), now_unix_ms)?;
    args.check_distance(&record, now_unix_ms)?;
    let stop = "so it must be stopped first, as its next beat would be refused";
    let found = match claim {
        Ok(claim) => {
            check_unclaimed(store, server_id, &row, &claim, stop)?;
            claim
        }
        Err(_) => silent_record(store, server_id, &row, &record, configured, now_unix_ms)?,
    };
    let mut new = freed(&found, ReleaseReason::Advanced, ADVANCE_BEATS, now_unix_ms);
    new.record = record;
    let new_row = new.to_row(new_stamp(0).writer).map_err(StateError::new_record)?;
    let copy = before.copy_aside(server_id, now_unix_ms)?;
    if let WriteResult::Conflict(_) = store.write(&Key::of_claim(server_id), Some(row.stamp), &new_row)? {
        return Err(StateError::Conflict { shown: shown.to_owned(), server_id });
    }
    Ok(describe_advance(shown, &before, copy, floor, &new, now_unix_ms))
}

fn moved_error(mark: Mark, shown: &str, server_id: u32) -> StateError {
    MovedRecord { here: RecordLocation::of_store(shown), server_id, mark }.into()
}

/// Replaces a record that its store has lost, or a row that is no record (`bad`). The new record lies past the named
/// ID, and past all that the last holder may still give.
fn recreate_record(
    args: &AdvanceArgs,
    store: &ClaimStore,
    server_id: u32,
    (configured, fleet): (&StateConfig, Option<ClusterRecord>),
    bad: Option<&DamagedRow>,
    now_unix_ms: i64,
) -> Result<String, StateError> {
    let shown = store.shown();
    let Some(fleet) = fleet else {
        return Err(StateError::NoFleetForAdvance { shown: shown.to_owned(), server_id });
    };
    if let Some(mark) = bad.and_then(|bad| salvaged_mark(&bad.text)) {
        return Err(moved_error(mark, shown, server_id));
    }
    let before = bad.map_or(OldRecord::Nothing, |bad| {
        let (bytes, error) = (bad.text.clone(), printable(&bad.what).into_owned());
        OldRecord::Unusable { bytes, error, is_ours: true }
    });
    let AdvancePlan { floor, record } = plan(args, &before, server_id, (configured, Some(&fleet)), now_unix_ms)?;
    args.check_distance(&record, now_unix_ms)?;
    let claim = ClaimRecord::new(record.identity, configured.config.claim.timeout_ms, now_unix_ms);
    let new = ClaimRecord { record, ..freed(&claim, ReleaseReason::Advanced, ADVANCE_BEATS, now_unix_ms) };
    let new_row = new.to_row(new_stamp(0).writer).map_err(StateError::new_record)?;
    let copy = before.copy_aside(server_id, now_unix_ms)?;
    let key = Key::of_claim(server_id);
    let is_done = match bad {
        Some(bad) => store.mend(&key, bad, &new_row)?,
        None => store.write(&key, None, &new_row)? == WriteResult::Done,
    };
    if !is_done {
        return Err(StateError::Conflict { shown: shown.to_owned(), server_id });
    }
    Ok(describe_advance(shown, &before, copy, floor, &new, now_unix_ms))
}

fn describe_advance(
    shown: &str,
    before: &OldRecord,
    copy: Option<PathBuf>,
    floor: SavePoint,
    new: &ClaimRecord,
    now_unix_ms: i64,
) -> String {
    let mut text = format!("server-id {}: {shown}\n", new.record.identity.server_id);
    push_line(&mut text, "before", &before.describe(now_unix_ms));
    if let Some(copy) = copy {
        push_line(&mut text, "copy", &copy.display());
    }
    describe_written(&mut text, before, floor, &new.record, now_unix_ms);
    push_line(
        &mut text,
        "beat",
        &format_args!("{}: servers that have noted a later beat accept the store again", new.beat),
    );
    text
}

impl OldRecord {
    /// Keeps a copy of a record that cannot be read.
    fn copy_aside(&self, server_id: u32, now_unix_ms: i64) -> Result<Option<PathBuf>, StateError> {
        match self {
            OldRecord::Unusable { bytes, .. } => copy_aside(bytes, server_id, now_unix_ms).map(Some),
            OldRecord::Nothing | OldRecord::Record(_) => Ok(None),
        }
    }
}

/// Keeps a copy of a record that cannot be read, in the working folder.
fn copy_aside(bytes: &[u8], server_id: u32, now_unix_ms: i64) -> Result<PathBuf, StateError> {
    let path = PathBuf::from(format!("claim-{server_id}.before-{now_unix_ms}"));
    let path = std::path::absolute(&path).unwrap_or(path);
    let written = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    match written {
        Ok(()) => Ok(path),
        Err(error) => Err(StateError::Copy { what: format!("the record in {}", path.display()), error }),
    }
}

fn old_record(
    row: &RecordRow,
    claim: &Result<ClaimRecord, RecordError>,
    shown: &str,
    server_id: u32,
) -> Result<OldRecord, StateError> {
    match claim {
        Ok(claim) => Ok(OldRecord::Record(claim.record.clone())),
        Err(error @ RecordError::Version { .. }) => Err(StateError::UnusableRecord {
            shown: shown.to_owned(),
            server_id,
            error: error.clone(),
            remedy: "use the getid that wrote it",
        }),
        Err(error) => {
            Ok(OldRecord::Unusable { bytes: row.text.clone().into_bytes(), error: error.to_string(), is_ours: true })
        }
    }
}

/// Returns a damaged record once it was silent for the time-out that can be read from it. A holder would write a whole
/// record with its next beat.
fn silent_record(
    store: &ClaimStore,
    server_id: u32,
    row: &RecordRow,
    record: &getid_engine::claim::Record,
    configured: &StateConfig,
    now_unix_ms: i64,
) -> Result<ClaimRecord, StateError> {
    let salvaged_ms = salvaged_number(row.text.as_bytes(), "timeout-ms ", TIMEOUT_MS_MAX);
    let timeout_ms = salvaged_ms.max(configured.config.claim.timeout_ms);
    let watched = store.watch(&BTreeMap::from([(server_id, (row.clone(), timeout_ms))]))?;
    if watched.get(&server_id) != Some(&WatchOutcome::Silent(timeout_ms)) {
        return Err(StateError::NotSilent { shown: store.shown().to_owned(), server_id });
    }
    let new = ClaimRecord::new(record.identity, timeout_ms, now_unix_ms);
    Ok(ClaimRecord { beat: row.stamp.beat, ..new })
}

#[cfg(test)]
mod tests;
