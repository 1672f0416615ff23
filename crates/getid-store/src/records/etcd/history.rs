//! Compaction of etcd's history, and the size of its database.
//!
//! etcd keeps every old value of a key until it is compacted, and takes no writes once its database reaches its quota.
//! A fleet writes twice a second for each server, so an etcd without compaction fills up. A server compacts as the API
//! server of Kubernetes does. In each round it writes one key that all servers of the fleet write, by a comparison with
//! its value a round ago. One of several servers succeeds, and compacts up to the revision of its previous round. So
//! nothing younger than a round is dropped. getid reads no old revision and watches none; other users of the same etcd
//! must not need older ones.
//!
//! A compaction frees pages of the database's file, which etcd reuses. The file does not shrink.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::MemberFailure;
use super::gateway::ExpectedValue;
use super::{ANSWER_BYTES_MAX, EtcdStore, GatewayRequest, RequestKind, error_of, gateway, share_of};
use crate::records::{Key, RecordRow, RecordStoreError, Stamp, StoreSize, WriteResult};

/// Number of revisions without a compaction that trigger a warning: 21 hours of one server, more than an hour of 16.
const NEVER_COMPACTED_REVISIONS: u64 = 150_000;

/// Length of a history above which it is not compacted hourly: over four hours of 32 servers.
const LONG_REVISIONS: u64 = 1_000_000;

/// State of a server's compaction rounds.
#[derive(Debug)]
pub struct CompactionRounds {
    writer: u128,
    /// Stamp of the key in the previous round.
    stamp: Option<Stamp>,
    /// Revision of the store in the previous round.
    revision: Option<u64>,
}

impl CompactionRounds {
    /// Creates the state before the first round. `writer`: a number that no other process has, not 0.
    pub fn new(writer: u128) -> CompactionRounds {
        CompactionRounds { writer, stamp: None, revision: None }
    }
}

impl EtcdStore {
    /// Returns the interval of a server's compactions (`compact-every-s`); `None` for never.
    pub fn compact_every(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.compact_every_s)).filter(|every| !every.is_zero())
    }

    /// Returns the size of the database: that of the member with the largest file.
    ///
    /// # Errors
    ///
    /// Fails if no member answers.
    pub async fn size(&self) -> Result<StoreSize, RecordStoreError> {
        let end = self.end();
        let (mut largest, mut failed) = (None, Vec::new());
        for (index, member) in self.members.iter().enumerate() {
            let by = share_of(end, self.members.len() - index);
            match self.status_of(member, by).await {
                Ok(status) => largest = largest.max(status.size()),
                Err(failure) => failed.push(failure),
            }
        }
        largest.ok_or_else(|| error_of(super::summary(failed), RequestKind::Read))
    }

    /// Runs a round, and returns the revision up to which it compacted. `None` if another server compacts, or in the
    /// first round.
    ///
    /// # Errors
    ///
    /// [`RecordStoreError::Refused`] if the user has no permission, with the remedy.
    pub async fn compact(&self, rounds: &mut CompactionRounds) -> Result<Option<u64>, RecordStoreError> {
        let beat = rounds.stamp.map_or(1, |stamp| stamp.beat.saturating_add(1).min(Stamp::BEAT_MAX));
        let text = rounds.revision.map_or_else(String::new, |revision| format!("compact to {revision}\n"));
        let new = RecordRow { stamp: Stamp { writer: rounds.writer, beat }, text };
        let expect = rounds.stamp.map_or(ExpectedValue::Absent, ExpectedValue::Stamp);
        let (written, revision) = self.replace(&Key::of_compaction(), expect, &new).await?;
        let before = rounds.revision.replace(revision);
        match written {
            WriteResult::Done => rounds.stamp = Some(new.stamp),
            WriteResult::Conflict(found) => {
                rounds.stamp = found.map(|row| row.stamp);
                return Ok(None);
            }
        }
        let Some(before) = before.filter(|&before| before > 0 && before <= revision) else { return Ok(None) };
        // A repeated compaction has no effect.
        let request = GatewayRequest::new(gateway::COMPACT, gateway::compact(before));
        match self.ask(RequestKind::Read, request, ANSWER_BYTES_MAX, self.end()).await {
            // Another program compacts too.
            Ok(_) | Err(MemberFailure::Compacted(_)) => Ok(Some(before)),
            Err(failure) => Err(error_of(failure, RequestKind::Read)),
        }
    }

    /// Returns the warning that this etcd is not compacted: a revision can be read that would long be gone otherwise.
    pub(super) async fn history_warning(&self, end: Instant) -> Option<String> {
        let answer = self.read_at(None, end).await.ok()?;
        let revision = gateway::revision_of(&answer)?;
        let old = if revision > LONG_REVISIONS { revision - LONG_REVISIONS } else { 1 };
        if revision < NEVER_COMPACTED_REVISIONS || self.read_at(Some(old), end).await.is_err() {
            return None;
        }
        Some(format!(
            "the last {} revisions are not compacted: its database grows to --quota-backend-bytes, and then accepts no \
             beat of any server; start its members with --auto-compaction-mode=periodic --auto-compaction-retention=1h",
            revision - old + 1
        ))
    }

    async fn read_at(&self, revision: Option<u64>, end: Instant) -> Result<bytes::Bytes, MemberFailure> {
        let request = GatewayRequest::new(gateway::READ, gateway::read_at(&self.prefix, &Key::of_cluster(), revision));
        self.ask(RequestKind::Read, request, ANSWER_BYTES_MAX, end).await
    }
}
