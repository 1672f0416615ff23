//! The sequences in memory, by name.
//!
//! A request finds its sequence by the hash that was computed when it was read, under the lock of one shard of 256. A
//! sequence is here from the first request until it has been unused for long; one that only the store knows costs
//! nothing.
//!
//! Elsewhere: the use of an entry ([`super::Sequences`]), and its removal ([`super::sweep`]).
//!
//! Invariants: a name is here once, in the shard of its hash; `count` is the number of all.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use getid_core::server::{Key, Reset, Run, STORES_MAX, Sequence, SequenceRefusal, Spec};
use hashbrown::HashTable;
use tokio::sync::oneshot;

use getid_store::sql::{BegunPeriod, SeriesBounds};
use getid_text::name_hash::hash_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of shards, each with a lock. A sweep holds it for each 4,096 of [`ENTRIES_MAX`] sequences: a millisecond.
pub(super) const SHARDS: usize = 256;

/// Maximum number of sequences in memory: a third of a gigabyte.
pub(super) const ENTRIES_MAX: usize = 1 << 20;

/// Maximum number of names that may not exist as sequences, since clients can invent them: 128 names of each turn of
/// 1,024 clients, whose rows are being looked up or created.
pub(super) const UNKNOWN_MAX: usize = 1 << 17;

/// Result of a waiting draw.
pub(super) type DrawResult = Result<Vec<Run>, SequenceRefusal>;

/// One sequence in memory.
pub(super) struct SequenceEntry {
    pub(super) key: Key,
    pub(super) sequence: Sequence<oneshot::Sender<DrawResult>>,
    /// Rare fields, only where one of them is needed.
    pub(super) rare: Option<Box<RareFields>>,
    pub(super) flags: SequenceFlags,
}

/// Fields that few sequences have.
#[derive(Default)]
pub(super) struct RareFields {
    /// For the counter of a period, the creation of its row.
    pub(super) counter_opening: Option<CounterOpening>,
    /// Whether the begin of its period was passed on to the stores.
    pub(super) has_noted_begun: bool,
    /// Whether the notes show that its row was begun. A missing row is then not begun again.
    pub(super) is_begun: bool,
    /// With several stores: whether the rows of all stores were read, or noted, before a value was given.
    pub(super) is_compared: bool,
    /// Number of times a row was found altered. A comparison that began before the last time is outdated.
    pub(super) alterations: u32,
    /// Increment and offset of the rows, with several stores.
    pub(super) rows: [Option<(u32, u32)>; STORES_MAX],
}

/// The counter of a generator: how its row is created, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterOpening {
    /// Options of the new row.
    pub spec: Spec,
    /// The generator's declaration, as all servers have it.
    pub declaration: Arc<str>,
    /// Interval at which the counter begins again.
    pub reset: Reset,
    /// Whether it is a serial number, as opposed to a sequence in a format.
    pub is_serial: bool,
    /// Begin of the period, Unix ms. The row is begun within an hour of the period by the store's own clock.
    pub from_unix_ms: i64,
    /// End of the period, exclusive, Unix ms.
    pub until_unix_ms: i64,
    /// Bounds of the generator's keys, if it has a series for each key.
    pub series: Option<SeriesBounds>,
}

/// Flags of a sequence in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SequenceFlags {
    /// Whether it is in one of the fetch queues, for now or for later.
    pub(super) is_queued: bool,
    /// Whether a fetch is running.
    pub(super) is_fetching: bool,
    /// Whether the store has confirmed its row.
    pub(super) is_known: bool,
    /// Whether its statement was refused together with others, so that the next one is for it alone.
    pub(super) is_alone: bool,
    /// Last logged share of used values: 0, 80 or 95 percent.
    pub(super) warned: u8,
}

impl SequenceEntry {
    fn new(key: Key, now_ms: u64) -> SequenceEntry {
        SequenceEntry { key, sequence: Sequence::new(now_ms), rare: None, flags: SequenceFlags::default() }
    }

    /// Returns the hash of its key.
    pub(super) fn hash(&self) -> u64 {
        hash_of(self.key.as_str().as_bytes())
    }

    pub(super) fn rare(&mut self) -> &mut RareFields {
        self.rare.get_or_insert_default()
    }

    /// Returns its period and the period's begin in Unix ms, at the first draw; `None` afterwards, and for an entry
    /// without a period.
    pub(super) fn take_begun(&mut self) -> Option<(i64, BegunPeriod)> {
        let rare = self.rare.as_deref_mut()?;
        let counter_opening = rare
            .counter_opening
            .as_ref()
            .filter(|counter_opening| counter_opening.is_serial && !rare.has_noted_begun)?;
        let (from_unix_ms, declaration) = (counter_opening.from_unix_ms, counter_opening.declaration.to_string());
        rare.has_noted_begun = true;
        // A period begins for all keys of its generator.
        let key = Key::of_period(self.key.name(), self.key.period())?;
        Some((from_unix_ms, BegunPeriod { key, declaration }))
    }

    /// Forgets the state of its rows in several stores: one of them was altered.
    pub(super) fn forget_lanes(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.rows = Default::default();
            rare.is_compared = false;
            rare.alterations = rare.alterations.wrapping_add(1);
        }
    }

    /// Returns true if it can leave memory, as far as the driver is concerned.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.flags.is_queued && !self.flags.is_fetching
    }
}

/// A part of the sequences, under one lock. They are boxed, so that a growing table moves pointers.
#[derive(Default)]
pub(super) struct Shard {
    entries: HashTable<Box<SequenceEntry>>,
    /// Number of values given by sequences that have left memory.
    pub(super) given_by_removed: u64,
}

impl Deref for Shard {
    type Target = HashTable<Box<SequenceEntry>>;

    #[inline]
    fn deref(&self) -> &HashTable<Box<SequenceEntry>> {
        &self.entries
    }
}

impl DerefMut for Shard {
    #[inline]
    fn deref_mut(&mut self) -> &mut HashTable<Box<SequenceEntry>> {
        &mut self.entries
    }
}

/// All sequences in memory.
pub(super) struct Table {
    shards: Box<[Mutex<Shard>]>,
    count: AtomicUsize,
    unknown: AtomicUsize,
    entries_max: usize,
}

/// Reason why a name is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InsertError {
    /// The name is invalid.
    Name,
    /// The table has [`ENTRIES_MAX`] entries.
    Entries,
    /// The table has [`UNKNOWN_MAX`] unconfirmed names.
    Unknown,
}

impl Table {
    pub(super) fn new(entries_max: usize) -> Table {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Table { shards, count: AtomicUsize::new(0), unknown: AtomicUsize::new(0), entries_max }
    }

    /// Returns the number of sequences in memory.
    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    #[inline]
    pub(super) fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Bits that a shard's table does not use: it uses the lowest ones and the highest seven.
        let index = usize::try_from(hash >> 48).unwrap_or_default() % SHARDS;
        // A draw that ended in a panic has left a sequence that gives fewer values than it could, never the same ones
        // twice.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the shard with this number, below [`SHARDS`].
    pub(super) fn nth_shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a sequence by its name, in its shard.
    #[inline]
    pub(super) fn find<'a>(shard: &'a mut Shard, hash: u64, name: &str) -> Option<&'a mut Box<SequenceEntry>> {
        shard.find_mut(hash, |entry| entry.key.as_str() == name)
    }

    /// Adds a sequence that is not in the table.
    #[cold]
    pub(super) fn insert<'a>(
        &self,
        shard: &'a mut Shard,
        hash: u64,
        name: &str,
        now_ms: u64,
    ) -> Result<&'a mut Box<SequenceEntry>, InsertError> {
        let key = Key::parse(name).ok_or(InsertError::Name)?;
        if self.count() >= self.entries_max {
            return Err(InsertError::Entries);
        }
        if self.unknown.load(Relaxed) >= UNKNOWN_MAX {
            return Err(InsertError::Unknown);
        }
        self.count.fetch_add(1, Relaxed);
        self.unknown.fetch_add(1, Relaxed);
        let entry = Box::new(SequenceEntry::new(key, now_ms));
        Ok(shard.insert_unique(hash, entry, |entry| entry.hash()).into_mut())
    }

    /// Notes that the store has confirmed the row.
    pub(super) fn note_known(&self, entry: &mut SequenceEntry) {
        if !entry.flags.is_known {
            entry.flags.is_known = true;
            self.unknown.fetch_sub(1, Relaxed);
        }
    }

    /// Removes the sequences for which `leaves` returns true. Returns their number.
    pub(super) fn remove_where(&self, shard: &mut Shard, mut leaves: impl FnMut(&mut SequenceEntry) -> bool) -> usize {
        let (mut removed, mut unknown, mut given) = (0, 0, 0);
        shard.retain(|entry| {
            let goes = leaves(entry);
            removed += usize::from(goes);
            given += if goes { entry.sequence.used() } else { 0 };
            unknown += usize::from(goes && !entry.flags.is_known);
            !goes
        });
        shard.given_by_removed += given;
        self.count.fetch_sub(removed, Relaxed);
        self.unknown.fetch_sub(unknown, Relaxed);
        removed
    }

    /// Removes the sequence with this hash, if `leaves` returns true.
    pub(super) fn remove(&self, shard: &mut Shard, hash: u64, mut leaves: impl FnMut(&mut SequenceEntry) -> bool) {
        let Ok(mut found) = shard.find_entry(hash, |entry| entry.hash() == hash) else { return };
        if leaves(found.get_mut()) {
            let (entry, _) = found.remove();
            shard.given_by_removed += entry.sequence.used();
            self.count.fetch_sub(1, Relaxed);
            self.unknown.fetch_sub(usize::from(!entry.flags.is_known), Relaxed);
        }
    }
}
