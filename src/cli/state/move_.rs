//! `getid state move`: moves a record to another place.
//!
//! If servers started with two records of one server-id, IDs would repeat. So a move has three writes, each under the
//! claim of its record. The source is marked `moving-to`, the target is written if it is empty, and the source is
//! marked `moved-to`. Between two writes no server can start that could not before, and at most one record has no mark.
//! After an interruption, the same command finds the marks and does the rest.
//!
//! The source stays, marked. Only a move back replaces it.

use std::path::{Path, PathBuf};

use clap::Args;
use getid_core::SavePoint;

use super::config::{StateConfig, save};
use super::error::StateError;
use crate::cli::claim_store::{ClaimStore, fleet_layout, new_stamp};
use crate::cli::holders::{MovedRecord, check_unclaimed, freed};
use crate::cli::record_text::{describe, push_line};
use crate::cli::tool_config::ToolConfigError;
use getid_engine::claim::fleet::{ClaimRecord, FreeClaim, Holding, ReleaseReason};
use getid_engine::claim::lock::{FileNames, LockedFolder};
use getid_engine::claim::{Identity, Mark, MarkedRecord, Record, RecordLocation};
use getid_store::records::{Key, RecordRow, WriteResult};

pub(super) const MOVE_EXAMPLES: &str = "\
A place is a folder (DIR, or file:PATH) or a claim store (etcd://..., postgres://..., mysql://...).

Examples:
  getid state move --server-id 0 --from /var/lib/getid --to etcd://10.0.0.1/getid
  getid state move --server-id 0 --from etcd://10.0.0.1/getid --to file:/var/lib/getid
  getid state move --server-id 0 --from etcd://10.0.0.1/getid \\
    --to postgres://getid@db/ids?password-file=/etc/getid/db";

#[derive(Args)]
pub(super) struct MoveArgs {
    /// The server of the record
    #[arg(long, value_name = "N")]
    server_id: u32,
    /// Where it is
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Where it is to be
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// The server's configuration file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

/// The next step of a move. A crash may come before each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoveStep {
    MarkMoving,
    Put,
    MarkMoved,
}

/// One end of a move, with the claim of a folder's record.
enum MoveEnd {
    Folder(Box<LockedFolder>),
    Store(Box<StoreMoveEnd>),
}

struct StoreMoveEnd {
    store: ClaimStore,
    key: Key,
    server_id: u32,
    /// The record as last read or written.
    row: Option<RecordRow>,
    claim: Option<ClaimRecord>,
    /// Time-out for a record from a folder, which has none.
    timeout_ms: u64,
}

pub(super) fn move_(args: &MoveArgs, configured: &StateConfig, now_unix_ms: i64) -> Result<String, StateError> {
    let server_id = args.server_id;
    let (from, to) = (MoveEnd::open(&args.from, "--from", false, server_id, configured)?, &args.to);
    let from_place = from.place();
    if is_same(&from_place, to) {
        return Err(StateError::SamePlace(from_place));
    }
    let to = MoveEnd::open(to, "--to", true, server_id, configured)?;
    Move { server_id, from, to, now_unix_ms }.run(&mut |_| Ok(()))
}

/// Whether a place is the one that an argument names, because its lock must not be taken twice.
fn is_same(place: &RecordLocation, argument: &str) -> bool {
    match (place.folder(), folder_of(argument)) {
        (Some(dir), Some(other)) => dir == other || std::fs::canonicalize(&other).is_ok_and(|other| other == dir),
        _ => false,
    }
}

/// Returns the folder that an argument names; `None` for an address.
fn folder_of(argument: &str) -> Option<PathBuf> {
    let is_path = argument.starts_with(['/', '.']) || !argument.contains(':');
    let path = argument.strip_prefix("file:").or(is_path.then_some(argument))?;
    Some(PathBuf::from(path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path)))
}

impl MoveEnd {
    fn open(
        argument: &str,
        flag: &'static str,
        makes: bool,
        server_id: u32,
        configured: &StateConfig,
    ) -> Result<MoveEnd, StateError> {
        if let Some(dir) = folder_of(argument) {
            if makes {
                configured.dir(Some(&dir))?.make().map_err(ToolConfigError::from)?;
            }
            let dir = std::fs::canonicalize(&dir).map_err(|error| StateError::FolderArgument { flag, dir, error })?;
            return MoveEnd::folder(&dir, server_id);
        }
        let store = configured.open_store(flag, argument)?;
        Ok(MoveEnd::store(store, server_id, configured.config.claim.timeout_ms))
    }

    fn folder(dir: &Path, server_id: u32) -> Result<MoveEnd, StateError> {
        let locked = LockedFolder::lock(dir, FileNames::of(server_id))?;
        Ok(MoveEnd::Folder(Box::new(locked)))
    }

    fn store(store: ClaimStore, server_id: u32, timeout_ms: u64) -> MoveEnd {
        let key = Key::of_claim(server_id);
        MoveEnd::Store(Box::new(StoreMoveEnd { store, key, server_id, row: None, claim: None, timeout_ms }))
    }

    fn place(&self) -> RecordLocation {
        match self {
            MoveEnd::Folder(locked) => RecordLocation::of_folder(locked.dir()),
            MoveEnd::Store(end) => RecordLocation::of_store(end.store.shown()),
        }
    }

    /// Reads the record at this end.
    fn read(&mut self) -> Result<Option<MarkedRecord>, StateError> {
        match self {
            MoveEnd::Folder(locked) => {
                let record = locked.read()?.map(|bytes| MarkedRecord::parse(&bytes)).transpose();
                record.map_err(|error| StateError::UnusableFile { path: locked.state_path(), error })
            }
            MoveEnd::Store(end) => {
                let found = end.store.claim(end.server_id)?;
                let (row, claim) = found.map_or((None, None), |(row, claim)| (Some(row), Some(claim)));
                (end.row, end.claim) = (row, None);
                let Some(claim) = claim else { return Ok(None) };
                let claim = claim.map_err(|error| StateError::UnusableRecord {
                    shown: end.store.shown().to_owned(),
                    server_id: end.server_id,
                    error,
                    remedy: "`getid state show` shows the remedy",
                })?;
                let found = MarkedRecord { record: claim.record.clone(), mark: claim.mark.clone() };
                end.claim = Some(claim);
                Ok(Some(found))
            }
        }
    }

    /// Fails if a server holds the claim. A folder is locked by this process already.
    fn check_unclaimed(&self, why: &str) -> Result<(), StateError> {
        match self {
            MoveEnd::Folder(_) => Ok(()),
            MoveEnd::Store(end) => match (&end.row, &end.claim) {
                (Some(row), Some(claim)) => Ok(check_unclaimed(&end.store, end.server_id, row, claim, why)?),
                _ => Ok(()),
            },
        }
    }

    /// Whether the record at this end may be replaced: there is none, it was moved from here to `other`, or its claim
    /// was never used.
    fn is_open_to(&self, found: Option<&MarkedRecord>, other: &RecordLocation) -> bool {
        let is_never_used = match self {
            MoveEnd::Folder(_) => false,
            MoveEnd::Store(end) => end.claim.as_ref().is_some_and(ClaimRecord::is_never_used),
        };
        match found {
            None => true,
            Some(MarkedRecord { mark: Some(mark), .. }) => *mark == Mark::MovedTo(other.clone()),
            Some(MarkedRecord { mark: None, .. }) => is_never_used,
        }
    }

    /// Returns the record as this end stores it.
    fn fit_record(&self, record: &Record) -> Result<Record, StateError> {
        match self {
            MoveEnd::Folder(_) => Ok(record.clone()),
            MoveEnd::Store(end) => end.fit_record(record),
        }
    }

    fn mark(&mut self, found: &Record, mark: Mark, now_unix_ms: i64) -> Result<(), StateError> {
        match self {
            MoveEnd::Folder(locked) => {
                let record = Record { owner: locked.owner(), ..found.clone() };
                save(locked, &MarkedRecord { record, mark: Some(mark) }.to_text())
            }
            MoveEnd::Store(end) => {
                let Some(claim) = &end.claim else {
                    let from = RecordLocation::of_store(end.store.shown());
                    return Err(StateError::NothingToMove { from, server_id: end.server_id });
                };
                let mut claim = freed(claim, ReleaseReason::Moved, 1, now_unix_ms);
                claim.mark = Some(mark);
                end.write(claim)
            }
        }
    }

    fn put(&mut self, record: &Record, beat: u64, now_unix_ms: i64) -> Result<(), StateError> {
        match self {
            MoveEnd::Folder(locked) => {
                locked.raise_term_above(record.owner.term);
                save(locked, &Record { owner: locked.owner(), ..record.clone() }.to_text())
            }
            MoveEnd::Store(end) => {
                let there = end.row.as_ref().map_or(0, |row| row.stamp.beat);
                let holding = Holding::Free(FreeClaim {
                    why: ReleaseReason::Moved,
                    by: String::new(),
                    since_unix_ms: now_unix_ms,
                });
                let timeout_ms = end.timeout_ms;
                let beat = there.max(beat).saturating_add(1);
                end.write(ClaimRecord { record: record.clone(), beat, timeout_ms, holding, mark: None })
            }
        }
    }

    /// Returns the beat that a record in another store must exceed, and the time-out.
    fn claim(&self) -> Option<(u64, u64)> {
        match self {
            MoveEnd::Folder(_) => None,
            MoveEnd::Store(end) => end.claim.as_ref().map(|claim| (claim.beat, claim.timeout_ms)),
        }
    }
}

impl StoreMoveEnd {
    fn write(&mut self, claim: ClaimRecord) -> Result<(), StateError> {
        let row = claim.to_row(new_stamp(0).writer).map_err(StateError::new_record)?;
        let expect = self.row.as_ref().map(|row| row.stamp);
        match self.store.write(&self.key, expect, &row)? {
            WriteResult::Done => {
                (self.row, self.claim) = (Some(row), Some(claim));
                Ok(())
            }
            WriteResult::Conflict(_) => {
                Err(StateError::Conflict { shown: self.store.shown().to_owned(), server_id: self.server_id })
            }
        }
    }

    /// Returns the record as a server of this fleet would continue it.
    fn fit_record(&self, record: &Record) -> Result<Record, StateError> {
        let (shown, server_id) = (self.store.shown().to_owned(), self.server_id);
        let Some((_, cluster)) = self.store.cluster()? else { return Err(StateError::NoFleet(shown)) };
        if cluster.auto.contains(server_id) {
            return Err(StateError::AutoServerId { shown, server_id, auto: cluster.auto });
        }
        let layout = record.identity.layout;
        let bits = cluster.id_range;
        if layout.server_bits() != bits && !record.point.is_nothing() {
            return Err(StateError::OtherIdRange { shown, fleet: bits, record: layout.server_bits() });
        }
        let identity = Identity { server_id, layout: fleet_layout(&cluster, layout)? };
        if !identity.layout.has_server(server_id) {
            return Err(StateError::OutsideFleet { shown, server_id, bits });
        }
        let fitted = match record.adopted_by(identity) {
            Ok(fitted) => fitted,
            Err(error) => return Err(StateError::OtherEpoch { shown, error }),
        };
        match cluster.joined_by(identity.layout, fitted.declarations.generators(), &[]) {
            Ok(_) => Ok(fitted),
            Err(error) => Err(StateError::OtherDeclarations { shown, error }),
        }
    }
}

struct Move {
    server_id: u32,
    from: MoveEnd,
    to: MoveEnd,
    now_unix_ms: i64,
}

impl Move {
    /// Does the remaining steps, and returns the report. `before` may stop it before each step.
    fn run(mut self, before: &mut dyn FnMut(MoveStep) -> Result<(), StateError>) -> Result<String, StateError> {
        let (server_id, from, to) = (self.server_id, self.from.place(), self.to.place());
        if from == to {
            return Err(StateError::SamePlace(from));
        }
        let Some(MarkedRecord { record, mark }) = self.from.read()? else {
            return Err(StateError::NothingToMove { from, server_id });
        };
        let has_begun = match mark {
            Some(Mark::MovedTo(place)) if place == to => return Ok(self.report(&record, "already moved")),
            Some(Mark::MovingTo(place)) if place == to => true,
            Some(mark) => return Err(MovedRecord { here: from, server_id, mark }.into()),
            None => false,
        };
        let fitted = self.to.fit_record(&record)?;
        let found = self.to.read()?;
        let is_open = self.to.is_open_to(found.as_ref(), &from);
        let has_arrived =
            has_begun && !is_open && found.as_ref().is_some_and(|found| is_continuation(&found.record, &fitted));
        if !is_open && !has_arrived {
            return Err(self.occupied_error(found, has_begun));
        }
        if !has_begun {
            self.from.check_unclaimed("so it must be stopped first")?;
            before(MoveStep::MarkMoving)?;
            self.from.mark(&record, Mark::MovingTo(to.clone()), self.now_unix_ms)?;
        }
        if !has_arrived {
            before(MoveStep::Put)?;
            let (beat, timeout_ms) = self.from.claim().unwrap_or((0, 0));
            if let (MoveEnd::Store(end), true) = (&mut self.to, timeout_ms > 0) {
                end.timeout_ms = timeout_ms;
            }
            self.to.put(&fitted, beat, self.now_unix_ms)?;
        }
        before(MoveStep::MarkMoved)?;
        self.from.mark(&record, Mark::MovedTo(to), self.now_unix_ms)?;
        Ok(self.report(&record, if has_begun { "moved: an earlier move was completed" } else { "moved" }))
    }

    /// Returns the error about a target whose record may not be replaced.
    fn occupied_error(&self, found: Option<MarkedRecord>, has_begun: bool) -> StateError {
        let (server_id, from, to) = (self.server_id, self.from.place(), self.to.place());
        match found.and_then(|found| found.mark) {
            Some(mark) => MovedRecord { here: to, server_id, mark }.into(),
            None if has_begun => StateError::OtherRecord { from, to, server_id },
            None => StateError::Occupied { to, server_id },
        }
    }

    fn report(&self, record: &Record, done: &str) -> String {
        let to = self.to.place();
        let mut text = format!("server-id {}: {done}\n", self.server_id);
        push_line(&mut text, "from", &format_args!("{}: its record stays there, marked", self.from.place()));
        push_line(&mut text, "to", &to);
        let SavePoint { watermark, .. } = record.point;
        if record.point.is_nothing() {
            push_line(&mut text, "ids", &"none was given");
        } else {
            push_line(&mut text, "watermark", &describe(watermark, record.identity.layout, self.now_unix_ms));
        }
        let next = match to.folder() {
            Some(dir) => format!("start the server with claim-store file and dir {}", dir.display()),
            None => format!("start the server with claim-store {to}"),
        };
        push_line(&mut text, "next", &next);
        text
    }
}

/// Whether record `there` lies at or past record `here`, in ticks of its own layout: a server that continues there
/// repeats no ID.
fn is_continuation(there: &Record, here: &Record) -> bool {
    here.point.is_nothing()
        || here.adopted_by(there.identity).is_ok_and(|here| here.point.watermark <= there.point.watermark)
}

#[cfg(test)]
mod tests;
