//! The history that etcd keeps, and how large it lets its database become.
//!
//! etcd keeps each value that a key ever had until somebody compacts it, and takes no writes once its database is as
//! large as its quota. A fleet writes twice a second for each server, so an etcd that nobody compacts fills up. A
//! server compacts as the API server of Kubernetes does: in each round it writes one key that all servers of the fleet
//! write, by a compare with what it saw there a round ago. Of several servers one succeeds, and compacts up to the
//! revision that it saw in its round before. So nothing younger than a round goes away. getid reads no old revision and
//! watches none; who else uses the same etcd must not need older ones.
//!
//! A compaction frees pages of the database's file, which etcd fills again. The file does not become smaller by it.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;
use super::gateway::Expected;
use super::{ANSWER_BYTES_MAX, Asked, Does, EtcdStore, error_of, gateway, share_of};
use crate::records::{Key, RecordStoreError, Row, Stamp, StoreSize, Written};

/// So many revisions without a compaction say that nobody compacts: 21 hours of one server, more than an hour of 16.
const NEVER_COMPACTED_REVISIONS: u64 = 150_000;

/// A history of so many revisions is longer than any that is compacted once an hour: over four hours of 32 servers.
const LONG_REVISIONS: u64 = 1_000_000;

/// What a server remembers of its rounds.
#[derive(Debug)]
pub struct Rounds {
    writer: u128,
    /// What the key of rounds had in the round before.
    stamp: Option<Stamp>,
    /// The revision of the store in the round before.
    revision: Option<u64>,
}

impl Rounds {
    /// Those of a process that had none. `writer`: a number that no other process ever had, not 0.
    pub fn new(writer: u128) -> Rounds {
        Rounds { writer, stamp: None, revision: None }
    }
}

impl EtcdStore {
    /// How often a server compacts (`compact-every-s`); `None`: never.
    pub fn compact_every(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.compact_every_s)).filter(|every| !every.is_zero())
    }

    /// The size of the database: that of the member whose file is the largest.
    ///
    /// # Errors
    ///
    /// No member answers.
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
        largest.ok_or_else(|| error_of(super::summary(failed), Does::Read))
    }

    /// A round: the revision up to which this server has compacted; `None`: another server's turn, or the first round.
    ///
    /// # Errors
    ///
    /// [`RecordStoreError::Refused`]: the user may not compact, with the remedy.
    pub async fn compact(&self, rounds: &mut Rounds) -> Result<Option<u64>, RecordStoreError> {
        let beat = rounds.stamp.map_or(1, |stamp| stamp.beat.saturating_add(1).min(Stamp::BEAT_MAX));
        let text = rounds.revision.map_or_else(String::new, |revision| format!("compact to {revision}\n"));
        let new = Row { stamp: Stamp { writer: rounds.writer, beat }, text };
        let expect = rounds.stamp.map_or(Expected::Absent, Expected::Stamp);
        let (written, revision) = self.replace(&Key::of_compaction(), expect, &new).await?;
        let before = rounds.revision.replace(revision);
        match written {
            Written::Done => rounds.stamp = Some(new.stamp),
            Written::Conflict(found) => {
                rounds.stamp = found.map(|row| row.stamp);
                return Ok(None);
            }
        }
        let Some(before) = before.filter(|&before| before > 0 && before <= revision) else { return Ok(None) };
        // Done twice it is the same.
        let request = Asked::new(gateway::COMPACT, gateway::compact(before));
        match self.ask(Does::Read, request, ANSWER_BYTES_MAX, self.end()).await {
            // Something else compacts too.
            Ok(_) | Err(Failure::Compacted(_)) => Ok(Some(before)),
            Err(failure) => Err(error_of(failure, Does::Read)),
        }
    }

    /// The warning that nobody compacts this etcd, as far as its answers show it: a revision can be read that would be
    /// compacted long ago.
    pub(super) async fn history_warning(&self, end: Instant) -> Option<String> {
        let answer = self.read_at(None, end).await.ok()?;
        let revision = gateway::revision_of(&answer)?;
        let old = if revision > LONG_REVISIONS { revision - LONG_REVISIONS } else { 1 };
        if revision < NEVER_COMPACTED_REVISIONS || self.read_at(Some(old), end).await.is_err() {
            return None;
        }
        Some(format!(
            "nobody has compacted the last {} revisions: its database grows up to --quota-backend-bytes, and then takes no \
             beat of any server; start its members with --auto-compaction-mode=periodic --auto-compaction-retention=1h",
            revision - old + 1
        ))
    }

    async fn read_at(&self, revision: Option<u64>, end: Instant) -> Result<bytes::Bytes, Failure> {
        let request = Asked::new(gateway::READ, gateway::read_at(&self.prefix, &Key::of_cluster(), revision));
        self.ask(Does::Read, request, ANSWER_BYTES_MAX, end).await
    }
}
