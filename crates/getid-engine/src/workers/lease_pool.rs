//! One worker pool: its records in memory, and its requests to the store.
//!
//! The pool keeps each lease as it last read or wrote it, so a renewal is one write. Other servers lease from the same
//! pool, so the copy may be outdated. A write names the stamp that it replaces; a conflict returns the current record.
//!
//! A record older than the copy in memory shows that the store lost its last writes. The pool then reopens: it leases
//! nothing until every lease that may have been lost is over. For this, each server writes the pool's record about once
//! a second while leases change.

mod instances;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use getid_core::server::worker::{
    ChosenLease, InstanceRequest, Lease, LeaseRefusal, LeaseRequest, LeaseState, NoLease, POOL_SIZE_MAX, PoolRules,
    PoolState, TokenDigest, choose, choose_for_instance,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::counts::LivePoolCounts;
use super::error::WorkerError;
use super::record::{PoolRecord, lease_text, pool_text, read_lease, read_pool};
use super::{GrantedLease, Host, LeaseToken, LeaseView, PoolView};
use getid_store::records::{DamagedRow, Key, LIST_MAX, RecordRow, RecordStore, RecordStoreError, Stamp, WriteResult};

/// Shortest interval between two reads of the pool's record, and between two lists of its leases.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Number of attempts of a request when other servers write in between.
const ATTEMPTS: usize = 24;

/// Number of reads of the pool's record in one look. If the store still goes back after them, the request is refused as
/// busy.
const ROUNDS: usize = 4;

/// Number of write conflicts of a request after which all leases are listed again.
const CONFLICTS: usize = 2;

type StoredLease = (Lease, Stamp);

pub(super) use self::instances::stored_name;

/// A request for an id.
enum IdRequest<'a> {
    Token(LeaseRequest<'a>),
    Instance(InstanceRequest<'a>),
}

impl IdRequest<'_> {
    fn choose<'a>(
        &self,
        rules: &PoolRules,
        pool: &PoolState,
        leases: impl Iterator<Item = (u32, Option<&'a Lease>)> + Clone,
        now_ms: u64,
    ) -> Result<ChosenLease, NoLease> {
        match self {
            IdRequest::Token(asked) => choose(rules, pool, leases, asked, now_ms),
            IdRequest::Instance(asked) => choose_for_instance(rules, pool, leases, asked, now_ms),
        }
    }

    /// Returns true if the lease is of the holder that requests one.
    fn is_of_holder(&self, lease: &Lease) -> bool {
        match self {
            IdRequest::Token(asked) => lease.token == asked.token,
            IdRequest::Instance(asked) => lease.is_of_instance(asked.name),
        }
    }
}

/// State and operations of one worker pool.
pub(super) struct LeasePool {
    name: String,
    rules: PoolRules,
    store: Arc<dyn RecordStore>,
    host: Arc<dyn Host>,
    known: Mutex<PoolMemory>,
    /// Wakes the requests that wait for an id in use.
    freed: Notify,
    /// Held during a read of the whole pool.
    looking: tokio::sync::Mutex<()>,
    /// Held while an instance gets its id.
    pub(super) distributing: Arc<tokio::sync::Mutex<()>>,
    pub(super) counts: LivePoolCounts,
}

#[derive(Default)]
struct PoolMemory {
    record: Option<(PoolRecord, Stamp)>,
    /// Highest beat of the pool's record, and longest reach of its leases, ever seen.
    beat: u64,
    longest_ms: u64,
    leases: BTreeMap<u32, WorkerIdState>,
    is_listed: bool,
    went_back: bool,
    /// Whether leases have changed since the pool's record was written.
    is_dirty: bool,
    looked_at: Option<Instant>,
    /// Begin and end of the last list.
    list_begun_at: Option<Instant>,
    listed_at: Option<Instant>,
}

/// State of one worker id.
#[derive(Default)]
struct WorkerIdState {
    kept: Option<StoredLease>,
    /// Whether a request is using this id.
    is_busy: bool,
    /// Whether its record is unreadable. Such an id is not leased.
    is_broken: bool,
}

impl PoolMemory {
    /// Returns true if the pool was read after `since`, or within [`LOOK_EVERY`] without `since`.
    fn is_fresh(&self, since: Option<Instant>) -> bool {
        let is_recent = match since {
            Some(since) => self.looked_at.is_some_and(|at| at >= since),
            None => is_recent(self.looked_at),
        };
        self.is_listed && !self.went_back && is_recent
    }

    /// Returns the pool record to write, or `None` if the stored one is current.
    fn wanted(&self, rules: &PoolRules, now_ms: u64) -> Option<PoolState> {
        let Some((record, _)) = self.record.filter(|_| !self.went_back) else {
            let before = PoolState { opens_ms: 0, longest_ms: self.longest_ms };
            return Some(PoolState::opened(rules, Some(&before), now_ms));
        };
        record.pool.with(rules).or_else(|| self.is_dirty.then_some(record.pool))
    }

    /// Notes that the store returned an older record than before.
    fn go_back(&mut self) {
        self.went_back = true;
        self.forget_leases();
    }

    fn forget_leases(&mut self) {
        self.is_listed = false;
        self.leases.retain(|_, entry| entry.is_busy);
        self.leases.values_mut().for_each(|entry| entry.kept = None);
    }
}

fn is_recent(at: Option<Instant>) -> bool {
    at.is_some_and(|at| at.elapsed() < LOOK_EVERY)
}

/// Returns the stamp of a write that replaces a record with the beat `beat`.
fn next_stamp(beat: u64) -> Stamp {
    // The writer is random, so no two writes have the same stamp, whatever the store lost in between.
    Stamp { writer: rand::random(), beat: beat.saturating_add(1).min(Stamp::BEAT_MAX) }
}

impl LeasePool {
    pub(super) fn new(name: String, rules: PoolRules, store: Arc<dyn RecordStore>, host: Arc<dyn Host>) -> LeasePool {
        LeasePool {
            name,
            rules,
            store,
            host,
            known: Mutex::default(),
            freed: Notify::new(),
            looking: tokio::sync::Mutex::default(),
            distributing: Arc::default(),
            counts: LivePoolCounts::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, PoolMemory> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool_key(&self) -> Result<Key, WorkerError> {
        self.key(format!("worker/{}", self.name))
    }

    fn lease_key(&self, id: u32) -> Result<Key, WorkerError> {
        self.key(format!("worker/{}/{id}", self.name))
    }

    fn key(&self, text: String) -> Result<Key, WorkerError> {
        Key::new(text).ok_or_else(|| WorkerError::NoSuchPool { pool: self.name.clone() })
    }

    /// Leases an id.
    pub(super) async fn lease(&self, name: &str, ttl_ms: Option<u64>) -> Result<GrantedLease, WorkerError> {
        let token = LeaseToken::random();
        let asked = IdRequest::Token(LeaseRequest { name, ttl_ms, token: token.digest() });
        let (id, lease) = self.grant(&asked).await?;
        Ok(GrantedLease::new(id, &token, &lease))
    }

    /// Leases an id that is free, and stores the lease.
    async fn grant(&self, asked: &IdRequest<'_>) -> Result<(u32, Lease), WorkerError> {
        let mut conflicts = 0;
        let begun = Instant::now();
        for _ in 0..ATTEMPTS {
            // A store that went back grants no new lease.
            self.look_since(Some(begun)).await?;
            let (ChosenLease { id, lease }, expect, busy) = match self.take(asked) {
                Ok(taken) => taken,
                Err(NoLease::Exhausted { .. }) if self.list_again().await? => continue,
                Err(why) => {
                    self.counts.no_lease(&why);
                    return Err(WorkerError::NoLease { pool: self.name.clone(), why });
                }
            };
            let stamp = next_stamp(expect.map_or(0, |stamp| stamp.beat));
            let row = RecordRow { stamp, text: lease_text(&self.name, id, &lease, stamp) };
            match self.write(&self.lease_key(id)?, expect, &row).await? {
                WriteResult::Done => {
                    self.keep(id, lease.clone(), stamp);
                    self.counts.leased();
                    return Ok((id, lease));
                }
                WriteResult::Conflict(found) => {
                    // The record found is that of an earlier attempt, which was done late, or the instance's lease by
                    // another server.
                    if let Some(lease) = self.found(id, found.as_ref()).filter(|lease| asked.is_of_holder(lease)) {
                        self.counts.leased();
                        return Ok((id, lease));
                    }
                }
            }
            drop(busy);
            conflicts += 1;
            if conflicts % CONFLICTS == 0 {
                self.list_again().await?;
            }
        }
        Err(WorkerError::Busy)
    }

    /// Renews a lease.
    pub(super) async fn renew(&self, id: u32, token: TokenDigest, last_ms: Option<u64>) -> Result<Lease, WorkerError> {
        let renewed = |lease: &Lease, now_ms| lease.renewed(&self.rules, id, token, last_ms, now_ms);
        let lease = self.change(id, false, &renewed).await?;
        self.counts.renewed();
        Ok(lease)
    }

    /// Releases a lease.
    pub(super) async fn release(&self, id: u32, token: TokenDigest, last_ms: Option<u64>) -> Result<(), WorkerError> {
        let released = |lease: &Lease, now_ms| lease.released(token, last_ms, now_ms);
        self.change(id, false, &released).await?;
        self.counts.released();
        Ok(())
    }

    /// Ends a lease at an operator's request.
    pub(super) async fn revoke(&self, id: u32) -> Result<Lease, WorkerError> {
        let revoked = |lease: &Lease, now_ms| Ok(lease.revoked(now_ms));
        let lease = self.change(id, true, &revoked).await?;
        self.counts.revoked();
        Ok(lease)
    }

    /// Opens the pool on an operator's assurance that no id of it was ever leased.
    pub(super) async fn open_new(&self) -> Result<(), WorkerError> {
        for _ in 0..ATTEMPTS {
            // Other servers may have leased a moment ago, so both are read after the request arrived.
            self.look_since(Some(Instant::now())).await?;
            let _alone = self.looking.lock().await;
            self.list().await?;
            let (found, leased) = {
                let known = self.known();
                let has_lease = |entry: &&WorkerIdState| entry.kept.is_some() || entry.is_broken;
                (known.record.filter(|_| !known.went_back), known.leases.values().filter(has_lease).count())
            };
            let Some((PoolRecord { pool, .. }, stamp)) = found else { continue };
            let now_ms = self.host.now_ms();
            let opened = pool.opened_as_new(stamp.beat, leased, now_ms);
            let opened = opened.map_err(|why| WorkerError::NotNew { pool: self.name.clone(), why })?;
            let Some(pool) = opened else { return Ok(()) };
            let record = PoolRecord { pool, written_ms: now_ms };
            let next = next_stamp(stamp.beat);
            let row = RecordRow { stamp: next, text: pool_text(&self.name, &record, next) };
            match self.write(&self.pool_key()?, Some(stamp), &row).await? {
                WriteResult::Done => {
                    self.wrote_pool(record, next);
                    return Ok(());
                }
                WriteResult::Conflict(row) => self.found_pool(row)?,
            }
        }
        Err(WorkerError::Busy)
    }

    /// Changes one lease. With `is_from_store`, reads its record from the store first instead of using the copy in
    /// memory.
    async fn change(
        &self,
        id: u32,
        is_from_store: bool,
        with: &(dyn Fn(&Lease, u64) -> Result<Lease, LeaseRefusal> + Sync),
    ) -> Result<Lease, WorkerError> {
        if id >= POOL_SIZE_MAX {
            return Err(self.refused(id, LeaseRefusal::WrongToken));
        }
        let key = self.lease_key(id)?;
        let mut must_read = is_from_store;
        let mut is_read = false;
        for _ in 0..ATTEMPTS {
            self.look().await?;
            let _busy = self.occupy(id).await;
            if must_read {
                let row = self.read(&key).await?;
                self.found(id, row.as_ref());
                (must_read, is_read) = (false, true);
            }
            let kept = self.known().leases.get(&id).and_then(|entry| entry.kept.clone());
            let (lease, stamp) = match kept {
                Some(kept) => kept,
                None if is_read && is_from_store => {
                    return Err(WorkerError::NotLeased { pool: self.name.clone(), id });
                }
                None if is_read => return Err(self.refused(id, LeaseRefusal::WrongToken)),
                None => {
                    must_read = true;
                    continue;
                }
            };
            let new = match with(&lease, self.host.now_ms()) {
                Ok(new) if is_read && new == lease => return Ok(lease),
                Ok(new) => new,
                Err(why) if is_read => return Err(self.refused(id, why)),
                Err(_) => {
                    // Another server may have renewed it, or leased the id again.
                    must_read = true;
                    continue;
                }
            };
            let next = next_stamp(stamp.beat);
            let row = RecordRow { stamp: next, text: lease_text(&self.name, id, &new, next) };
            match self.write(&key, Some(stamp), &row).await? {
                WriteResult::Done => {
                    self.keep(id, new.clone(), next);
                    return Ok(new);
                }
                WriteResult::Conflict(found) => {
                    self.found(id, found.as_ref());
                    is_read = true;
                }
            }
        }
        Err(WorkerError::Busy)
    }

    fn refused(&self, id: u32, why: LeaseRefusal) -> WorkerError {
        self.counts.refused();
        WorkerError::Lease { pool: self.name.clone(), id, why }
    }

    /// Returns a page of leases in the order of their ids, and the first id of the next page.
    pub(super) async fn leases(&self, from: u32, count: usize) -> Result<(Option<u32>, Vec<LeaseView>), WorkerError> {
        self.look().await?;
        self.list_again().await?;
        let now_ms = self.host.now_ms();
        let known = self.known();
        let mut page = known.leases.range(from..).filter_map(|(id, entry)| Some((*id, &entry.kept.as_ref()?.0)));
        let leases = page.by_ref().take(count).map(|(id, lease)| LeaseView::new(id, lease, now_ms)).collect();
        Ok((page.next().map(|(id, _)| id), leases))
    }

    /// Returns the pool's state after a look at the store, which includes the leases of other servers.
    pub(super) async fn looked_at(&self) -> Result<PoolView, WorkerError> {
        self.look().await?;
        self.list_again().await?;
        Ok(self.view())
    }

    /// Returns the pool's state in memory, without a store call.
    pub(super) fn view(&self) -> PoolView {
        let now_ms = self.host.now_ms();
        let known = self.known();
        let kept = known.leases.range(..self.rules.size).filter_map(|(_, entry)| entry.kept.as_ref());
        let count = kept.filter(|(lease, _)| lease.is_live(now_ms)).count();
        let leased = u32::try_from(count).unwrap_or(u32::MAX);
        PoolView {
            name: self.name.clone(),
            rules: self.rules,
            store: self.store.shown().to_owned(),
            is_known: known.is_listed,
            leased,
            opens_ms: known.record.map_or(0, |(record, _)| record.pool.opens_ms),
            counts: self.counts.snapshot(),
        }
    }

    /// Does the store work that is due without a request. A new pool opens only when its record is written.
    pub(super) async fn look_if_due(&self) -> Result<(), WorkerError> {
        let is_due = {
            let known = self.known();
            known.is_dirty || known.went_back || !known.is_listed
        };
        if is_due { self.look().await } else { Ok(()) }
    }

    /// Ensures that the pool's record and all leases are in memory, and at most [`LOOK_EVERY`] old.
    async fn look(&self) -> Result<(), WorkerError> {
        self.look_since(None).await
    }

    /// Ensures that the pool is in memory as of `since`, or at most [`LOOK_EVERY`] old without it. Waiting requests
    /// share one read.
    async fn look_since(&self, since: Option<Instant>) -> Result<(), WorkerError> {
        if self.known().is_fresh(since) {
            return Ok(());
        }
        let _alone = self.looking.lock().await;
        for _ in 0..ROUNDS {
            if self.known().is_fresh(since) {
                return Ok(());
            }
            let begun = Instant::now();
            self.look_at_pool().await?;
            if !self.known().is_listed {
                self.list().await?;
            }
            self.known().looked_at = Some(begun);
        }
        if self.known().is_fresh(since) { Ok(()) } else { Err(WorkerError::Busy) }
    }

    async fn look_at_pool(&self) -> Result<(), WorkerError> {
        let key = self.pool_key()?;
        for _ in 0..ATTEMPTS {
            let (wanted, expect, beat, was_dirty) = {
                let mut known = self.known();
                let wanted = known.wanted(&self.rules, self.host.now_ms());
                // The next write covers later changes.
                let was_dirty = std::mem::take(&mut known.is_dirty);
                (wanted, known.record.map(|(_, stamp)| stamp), known.beat, was_dirty)
            };
            let Some(pool) = wanted else {
                let row = self.read(&key).await?;
                self.found_pool(row)?;
                if self.known().went_back {
                    continue;
                }
                return Ok(());
            };
            let stamp = next_stamp(beat.max(expect.map_or(0, |stamp| stamp.beat)));
            let record = PoolRecord { pool, written_ms: self.host.now_ms() };
            let row = RecordRow { stamp, text: pool_text(&self.name, &record, stamp) };
            let written = self.write(&key, expect, &row).await;
            self.known().is_dirty |= was_dirty && !matches!(written, Ok(WriteResult::Done));
            match written? {
                WriteResult::Done => {
                    self.wrote_pool(record, stamp);
                    return Ok(());
                }
                WriteResult::Conflict(row) => {
                    let had = self.known().record.is_some();
                    self.found_pool(row)?;
                    let known = self.known();
                    let is_right = known.record.is_some_and(|(record, _)| record.pool.with(&self.rules).is_none());
                    // Another server has just written the record. The next write, within a second, adds what it lacks.
                    if is_right && !known.went_back && (had || !was_dirty) {
                        return Ok(());
                    }
                }
            }
        }
        Err(WorkerError::Busy)
    }

    fn wrote_pool(&self, record: PoolRecord, stamp: Stamp) {
        let mut known = self.known();
        let is_opened = known.record.is_none_or(|(before, _)| before.pool.opens_ms != record.pool.opens_ms);
        known.record = Some((record, stamp));
        known.beat = known.beat.max(stamp.beat);
        known.longest_ms = known.longest_ms.max(record.pool.longest_ms);
        let went_back = std::mem::take(&mut known.went_back);
        drop(known);
        if went_back {
            tracing::error!(
                "worker pool '{}': its store {} has lost its last writes; no id is leased for {} ms, until all \
                 leases that it may have lost are over; check whether the store was restored or failed over",
                self.name,
                self.store.shown(),
                record.pool.opens_ms.saturating_sub(record.written_ms)
            );
        } else if is_opened && record.pool.opens_ms <= record.written_ms {
            tracing::info!(
                "worker pool '{}' is open in {}: an operator declared that no id of it was ever leased",
                self.name,
                self.store.shown()
            );
        } else if is_opened {
            tracing::info!(
                "worker pool '{name}' is new in {}: it leases ids in {} ms, when all leases that an earlier pool of \
                 this name may have given are over; if there were none, 'getid worker init {name} --new' opens it at \
                 once",
                self.store.shown(),
                record.pool.opens_ms.saturating_sub(record.written_ms),
                name = self.name
            );
        }
    }

    /// Takes over the pool's record as read from the store.
    fn found_pool(&self, row: Option<RecordRow>) -> Result<(), WorkerError> {
        let mut known = self.known();
        let Some(row) = row else {
            known.record = None;
            if known.beat > 0 {
                known.go_back();
            }
            return Ok(());
        };
        let record = read_pool(&self.name, &row.text)
            .map_err(|error| WorkerError::Record { key: format!("worker/{}", self.name), reason: error.to_string() })?;
        let is_reopened = known.record.is_some_and(|(before, _)| before.pool.opens_ms != record.pool.opens_ms);
        if row.stamp.beat < known.beat {
            known.go_back();
        } else if is_reopened {
            // Another server noticed that the store went back.
            known.forget_leases();
        }
        known.beat = known.beat.max(row.stamp.beat);
        known.longest_ms = known.longest_ms.max(record.pool.longest_ms);
        known.record = Some((record, row.stamp));
        Ok(())
    }

    /// Lists all leases again. Returns false if the last list is at most [`LOOK_EVERY`] old.
    async fn list_again(&self) -> Result<bool, WorkerError> {
        if is_recent(self.known().listed_at) {
            return Ok(false);
        }
        let _alone = self.looking.lock().await;
        if !is_recent(self.known().listed_at) {
            self.list().await?;
        }
        Ok(true)
    }

    async fn list(&self) -> Result<(), WorkerError> {
        let begun = Instant::now();
        let prefix = format!("worker/{}/", self.name);
        let mut missing: HashMap<u32, u64> = {
            let known = self.known();
            let kept = known.leases.iter().filter_map(|(id, entry)| Some((*id, entry.kept.as_ref()?.1.beat)));
            kept.collect()
        };
        let mut after = String::new();
        loop {
            let listed = self.store.list(&prefix, &after, LIST_MAX).await.map_err(|error| self.failed(error))?;
            for bad in &listed.bad {
                let id = bad.key.trim().strip_prefix(&prefix).and_then(|id| id.parse().ok());
                let Some(id) = id.filter(|id: &u32| *id < POOL_SIZE_MAX) else { continue };
                missing.remove(&id);
                self.found_bad(id, bad);
            }
            let rows = listed.rows;
            let is_last = rows.len() < LIST_MAX;
            if let Some((key, _)) = rows.last() {
                key.as_str().clone_into(&mut after);
            }
            for (key, row) in rows {
                let number = key.as_str().strip_prefix(&prefix).and_then(|id| id.parse().ok());
                let Some(id) = number.filter(|id: &u32| *id < POOL_SIZE_MAX) else { continue };
                let before = missing.remove(&id);
                if before.is_some_and(|beat| row.stamp.beat < beat) {
                    self.known().go_back();
                }
                self.found_newer(id, &row);
            }
            if is_last {
                break;
            }
        }
        let mut known = self.known();
        if !missing.is_empty() {
            known.go_back();
        }
        known.is_listed = !known.went_back;
        known.list_begun_at = Some(begun);
        known.listed_at = Some(Instant::now());
        Ok(())
    }

    /// Notes a row that is no valid record. Its id is not leased.
    fn found_bad(&self, id: u32, bad: &DamagedRow) {
        let mut known = self.known();
        let entry = known.leases.entry(id).or_default();
        entry.kept = None;
        if !std::mem::replace(&mut entry.is_broken, true) {
            tracing::error!(
                "{}: {}; this id is not leased; restore the record, or remove it while no program has a lease of the \
                 id",
                self.store.shown(),
                bad.what
            );
        }
    }

    /// Takes over a record that was read while other requests may have written it.
    fn found_newer(&self, id: u32, row: &RecordRow) {
        let read = read_lease(&self.name, id, &row.text);
        let mut known = self.known();
        let entry = known.leases.entry(id).or_default();
        if entry.kept.as_ref().is_some_and(|(_, stamp)| stamp.beat >= row.stamp.beat) {
            return;
        }
        let was_broken = std::mem::replace(&mut entry.is_broken, read.is_err());
        match read {
            Ok(lease) => entry.kept = Some((lease, row.stamp)),
            Err(error) => {
                entry.kept = None;
                if !was_broken {
                    tracing::error!(
                        "the record 'worker/{}/{id}' in {} is unusable: {error}; this id is not leased; restore \
                         the record, or remove it while no program has a lease of the id",
                        self.name,
                        self.store.shown()
                    );
                }
            }
        }
    }

    /// Takes over the record of an id that only this request uses, and returns its lease.
    fn found(&self, id: u32, row: Option<&RecordRow>) -> Option<Lease> {
        let before = self.known().leases.get(&id).and_then(|entry| Some(entry.kept.as_ref()?.1.beat));
        match row {
            Some(row) => {
                if before.is_some_and(|beat| row.stamp.beat < beat) {
                    self.known().go_back();
                }
                self.found_newer(id, row);
            }
            None if before.is_some() => self.known().go_back(),
            None => {}
        }
        self.known().leases.get(&id).and_then(|entry| Some(entry.kept.as_ref()?.0.clone()))
    }

    /// Takes over a lease that was just written.
    fn keep(&self, id: u32, lease: Lease, stamp: Stamp) {
        let mut known = self.known();
        known.leases.entry(id).or_default().kept = Some((lease, stamp));
        known.is_dirty = true;
    }

    /// Chooses an id for a program, and reserves it for this request.
    fn take(&self, asked: &IdRequest<'_>) -> Result<(ChosenLease, Option<Stamp>, BusyIdGuard<'_>), NoLease> {
        let now_ms = self.host.now_ms();
        let mut known = self.known();
        let Some((record, _)) = known.record.filter(|_| !known.went_back) else {
            return Err(NoLease::NotOpen { opens_ms: now_ms.saturating_add(self.rules.longest_ms), now_ms });
        };
        let leases = known.leases.iter().map(|(id, entry)| {
            let kept = entry.kept.as_ref().filter(|_| !entry.is_busy && !entry.is_broken);
            (*id, kept.map(|(lease, _)| lease))
        });
        let chosen = asked.choose(&self.rules, &record.pool, leases, now_ms)?;
        let entry = known.leases.entry(chosen.id).or_default();
        entry.is_busy = true;
        let expect = entry.kept.as_ref().map(|(_, stamp)| *stamp);
        let id = chosen.id;
        Ok((chosen, expect, BusyIdGuard { pool: self, id }))
    }

    /// Waits until the id is not in use, and reserves it for this request.
    async fn occupy(&self, id: u32) -> BusyIdGuard<'_> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            {
                let mut known = self.known();
                let entry = known.leases.entry(id).or_default();
                if !entry.is_busy {
                    entry.is_busy = true;
                    return BusyIdGuard { pool: self, id };
                }
            }
            freed.await;
        }
    }

    async fn read(&self, key: &Key) -> Result<Option<RecordRow>, WorkerError> {
        self.store.read(key).await.map_err(|error| self.failed(error))
    }

    /// Writes a record. If the outcome is unknown, settles it by a read.
    async fn write(&self, key: &Key, expect: Option<Stamp>, row: &RecordRow) -> Result<WriteResult, WorkerError> {
        let reason = match self.store.write(key, expect, row).await {
            Ok(written) => return Ok(written),
            Err(RecordStoreError::Unknown(reason)) => reason,
            Err(error) => return Err(self.failed(error)),
        };
        match self.store.read(key).await {
            Ok(Some(found)) if found.stamp == row.stamp => Ok(WriteResult::Done),
            // A write that is not yet done fails once another write comes first, so the request begins again.
            Ok(found) => Ok(WriteResult::Conflict(found)),
            Err(_) => {
                self.counts.failed();
                Err(WorkerError::Unknown { reason })
            }
        }
    }

    fn failed(&self, error: RecordStoreError) -> WorkerError {
        self.counts.failed();
        match error {
            RecordStoreError::Unknown(reason) | RecordStoreError::Away(reason) | RecordStoreError::Refused(reason) => {
                WorkerError::Store { reason }
            }
            error @ RecordStoreError::Damaged(_) => WorkerError::Store { reason: error.to_string() },
        }
    }
}

/// An id in use by one request. Dropping it frees the id.
struct BusyIdGuard<'a> {
    pool: &'a LeasePool,
    id: u32,
}

impl Drop for BusyIdGuard<'_> {
    fn drop(&mut self) {
        let mut known = self.pool.known();
        if let Some(entry) = known.leases.get_mut(&self.id) {
            entry.is_busy = false;
            if entry.kept.is_none() && !entry.is_broken {
                known.leases.remove(&self.id);
            }
        }
        drop(known);
        self.pool.freed.notify_waiters();
    }
}

impl LeaseView {
    fn new(id: u32, lease: &Lease, now_ms: u64) -> LeaseView {
        let state = match lease.state {
            LeaseState::Released => "released",
            LeaseState::Kept => "kept",
            _ if now_ms >= lease.not_after_ms => "over",
            LeaseState::Revoked => "revoked",
            LeaseState::Held => "held",
        };
        LeaseView {
            id,
            name: lease.name.clone(),
            state,
            not_before_ms: lease.not_before_ms,
            not_after_ms: lease.not_after_ms,
            ttl_ms: lease.ttl_ms,
        }
    }
}
