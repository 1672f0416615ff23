//! The sequences that are in memory, by name.
//!
//! A request finds its sequence with the hash that was computed when it was read, under the lock of one shard of 64. A
//! sequence is here from the first request for it until nobody has asked for it for long; what the store alone knows
//! costs nothing.
//!
//! Not here: what is done with one ([`super::Sequences`]), and when one leaves ([`super::sweep`]).
//!
//! Invariants: a name is here once, in the shard that its hash says; `count` is the number of all.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use getid_core::{Key, Reset, Run, STORES_MAX, Sequence, SequenceRefusal, Spec};
use hashbrown::HashTable;
use tokio::sync::oneshot;

use crate::sql::Begun;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::text::name_hash::hash_of;

/// How many locks there are.
pub(super) const SHARDS: usize = 64;

/// Sequences in memory at most: a third of a gigabyte.
pub(super) const ENTRIES_MAX: usize = 1 << 20;

/// Names of which it is not known whether there is such a sequence, at most. Clients make them up.
pub(super) const UNKNOWN_MAX: usize = 10_000;

/// What one that waits is told.
pub(super) type Told = Result<Vec<Run>, SequenceRefusal>;

/// One sequence in memory.
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) sequence: Sequence<oneshot::Sender<Told>>,
    /// Only where one of them is needed.
    pub(super) rare: Option<Box<Rare>>,
    pub(super) flags: Flags,
}

/// What few sequences have.
#[derive(Default)]
pub(super) struct Rare {
    /// A period's counter: what its row begins with.
    pub(super) opens: Option<Opens>,
    /// It was handed on for its stores to note that its period has begun.
    pub(super) has_noted_begun: bool,
    /// It is noted that its row was begun: should the row be gone, it is not begun again.
    pub(super) is_begun: bool,
    /// With several stores: the rows of all stores were read, or noted, before a value was given.
    pub(super) is_compared: bool,
    /// How many times a row was found altered. A comparison that began before the last time is of rows as they were.
    pub(super) alterations: u32,
    /// Increment and offset of the rows, with several stores.
    pub(super) rows: [Option<(u32, u32)>; STORES_MAX],
}

/// The counter of a generator: how its row is created, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opens {
    /// What it begins with.
    pub spec: Spec,
    /// The generator's declaration, as all servers have it.
    pub declaration: Arc<str>,
    /// How often the counter begins again.
    pub reset: Reset,
    /// Whether it is a serial number, and no sequence in a format.
    pub is_serial: bool,
    /// When the period begins and ends, Unix ms. The row is begun within an hour of it by the store's own clock.
    pub from_unix_ms: i64,
    /// Exclusive.
    pub until_unix_ms: i64,
}

/// What is known of a sequence here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    /// It is in the queue of those that want a fetch, or in the one of those that want it later.
    pub(super) is_wished: bool,
    /// A fetch is under way.
    pub(super) is_fetching: bool,
    /// The store has said that there is such a row.
    pub(super) is_known: bool,
    /// Its statement was refused together with others: it goes alone.
    pub(super) is_alone: bool,
    /// How near its end has been told: 0, 80 or 95 percent.
    pub(super) warned: u8,
}

impl Entry {
    fn new(key: Key, now_ms: u64) -> Entry {
        Entry { key, sequence: Sequence::new(now_ms), rare: None, flags: Flags::default() }
    }

    /// Of its key.
    pub(super) fn hash(&self) -> u64 {
        hash_of(self.key.as_str().as_bytes())
    }

    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The period that is drawn from, with when it begins, Unix ms; `None` after the first time, and if it is none.
    pub(super) fn take_begun(&mut self) -> Option<(i64, Begun)> {
        let rare = self.rare.as_deref_mut()?;
        let opens = rare.opens.as_ref().filter(|opens| opens.is_serial && !rare.has_noted_begun)?;
        let begun = Begun { key: self.key.clone(), declaration: opens.declaration.to_string() };
        let from_unix_ms = opens.from_unix_ms;
        rare.has_noted_begun = true;
        (!begun.key.period().is_empty()).then_some((from_unix_ms, begun))
    }

    /// Whether it can leave memory, as far as the driver knows.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.flags.is_wished && !self.flags.is_fetching
    }
}

/// A part of them, under one lock. They are boxed, so that a table that grows moves pointers.
#[derive(Default)]
pub(super) struct Shard {
    entries: HashTable<Box<Entry>>,
    /// Values that were given of sequences that have left.
    pub(super) given_of_gone: u64,
}

impl Deref for Shard {
    type Target = HashTable<Box<Entry>>;

    #[inline]
    fn deref(&self) -> &HashTable<Box<Entry>> {
        &self.entries
    }
}

impl DerefMut for Shard {
    #[inline]
    fn deref_mut(&mut self) -> &mut HashTable<Box<Entry>> {
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

/// Why a name finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// It cannot be a name.
    Name,
    /// There are [`ENTRIES_MAX`].
    Entries,
    /// There are [`UNKNOWN_MAX`].
    Unknown,
}

impl Table {
    pub(super) fn new(entries_max: usize) -> Table {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Table { shards, count: AtomicUsize::new(0), unknown: AtomicUsize::new(0), entries_max }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    #[inline]
    pub(super) fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Bits that the table of a shard does not look at: it uses the lowest and the highest seven.
        let index = usize::try_from(hash >> 48).unwrap_or_default() % SHARDS;
        // A draw that ended in a panic has left a sequence that gives less than it could, never the same again.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same by number, below [`SHARDS`].
    pub(super) fn nth_shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds one by its name, in its shard.
    #[inline]
    pub(super) fn find<'a>(shard: &'a mut Shard, hash: u64, name: &str) -> Option<&'a mut Box<Entry>> {
        shard.find_mut(hash, |entry| entry.key.as_str() == name)
    }

    /// Puts a new one in, which is not there.
    #[cold]
    pub(super) fn insert<'a>(
        &self,
        shard: &'a mut Shard,
        hash: u64,
        name: &str,
        now_ms: u64,
    ) -> Result<&'a mut Box<Entry>, NoRoom> {
        let key = Key::parse(name).ok_or(NoRoom::Name)?;
        if self.count() >= self.entries_max {
            return Err(NoRoom::Entries);
        }
        if self.unknown.load(Relaxed) >= UNKNOWN_MAX {
            return Err(NoRoom::Unknown);
        }
        self.count.fetch_add(1, Relaxed);
        self.unknown.fetch_add(1, Relaxed);
        let entry = Box::new(Entry::new(key, now_ms));
        Ok(shard.insert_unique(hash, entry, |entry| entry.hash()).into_mut())
    }

    /// The store has said that there is such a row.
    pub(super) fn note_known(&self, entry: &mut Entry) {
        if !entry.flags.is_known {
            entry.flags.is_known = true;
            self.unknown.fetch_sub(1, Relaxed);
        }
    }

    /// Takes out those for which `leaves` says so.
    pub(super) fn remove_where(&self, shard: &mut Shard, mut leaves: impl FnMut(&mut Entry) -> bool) -> usize {
        let (mut removed, mut unknown, mut given) = (0, 0, 0);
        shard.retain(|entry| {
            let goes = leaves(entry);
            removed += usize::from(goes);
            given += if goes { entry.sequence.used() } else { 0 };
            unknown += usize::from(goes && !entry.flags.is_known);
            !goes
        });
        shard.given_of_gone += given;
        self.count.fetch_sub(removed, Relaxed);
        self.unknown.fetch_sub(unknown, Relaxed);
        removed
    }

    /// Takes the one with this hash out, if `leaves` says so.
    pub(super) fn remove(&self, shard: &mut Shard, hash: u64, mut leaves: impl FnMut(&mut Entry) -> bool) {
        let Ok(mut found) = shard.find_entry(hash, |entry| entry.hash() == hash) else { return };
        if leaves(found.get_mut()) {
            let (entry, _) = found.remove();
            shard.given_of_gone += entry.sequence.used();
            self.count.fetch_sub(1, Relaxed);
            self.unknown.fetch_sub(usize::from(!entry.flags.is_known), Relaxed);
        }
    }
}
