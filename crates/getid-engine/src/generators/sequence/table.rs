//! The sequences in memory, by name.
//!
//! A request finds its sequence by the hash that was computed when it was read, under the lock of one shard of 256. A
//! sequence is here from the first request until it has been unused for long; one that only the store knows costs
//! nothing.
//!
//! A million may be here, so one is 184 bytes with its name, and 200 with its share of the table. The entries of a
//! shard are a dense list of chunks: there is no allocation for each, none moves when the list grows, and chunks are
//! released as the list gets shorter. A hash table has their places in the list.
//!
//! Elsewhere: the use of an entry ([`super::Sequences`]), and its removal ([`super::sweep`]).
//!
//! Invariants: a name is here once, in the shard of its hash; `count` is the number of all; all chunks but the last are
//! full.

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

/// Maximum number of sequences in memory: a fifth of a gigabyte, if their names have 22 bytes at most.
pub(super) const ENTRIES_MAX: usize = 1 << 20;

/// Maximum number of names that may not exist as sequences, since clients can invent them: 128 names of each turn of
/// 1,024 clients, whose rows are being looked up or created.
pub(super) const UNKNOWN_MAX: usize = 1 << 17;

/// Result of a waiting draw.
pub(super) type DrawResult = Result<Vec<Run>, SequenceRefusal>;

/// One sequence in memory. What a draw needs is at the beginning, side by side.
#[repr(C)]
pub(super) struct SequenceEntry {
    pub(super) flags: SequenceFlags,
    pub(super) key: Key,
    pub(super) sequence: Sequence<oneshot::Sender<DrawResult>>,
    /// Rare fields, only where one of them is needed.
    pub(super) rare: Option<Box<RareFields>>,
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

/// Number of entries in a chunk: 3 KB.
const CHUNK: usize = 16;

/// Share of free places in the hash table, as a divisor, above which it shrinks.
const SHRINK_BELOW: usize = 4;

/// A part of the sequences, under one lock.
#[derive(Default)]
pub(super) struct Shard {
    /// Places of the entries in the list, by hash.
    places: HashTable<u32>,
    chunks: Vec<Vec<SequenceEntry>>,
    /// Number of values given by sequences that have left memory.
    pub(super) given_by_removed: u64,
}

/// Splits a place into the number of its chunk, and its index there.
#[inline]
fn split(place: u32) -> (usize, usize) {
    let place = place as usize;
    (place / CHUNK, place % CHUNK)
}

impl Shard {
    /// Returns the entry with this hash for which `is_it` returns true.
    #[inline]
    pub(super) fn find_mut(
        &mut self,
        hash: u64,
        is_it: impl FnMut(&SequenceEntry) -> bool,
    ) -> Option<&mut SequenceEntry> {
        let place = self.place_of(hash, is_it)?;
        self.get_mut(place)
    }

    #[inline]
    fn place_of(&self, hash: u64, mut is_it: impl FnMut(&SequenceEntry) -> bool) -> Option<u32> {
        self.places.find(hash, |&place| at(&self.chunks, place).is_some_and(&mut is_it)).copied()
    }

    #[inline]
    fn get_mut(&mut self, place: u32) -> Option<&mut SequenceEntry> {
        let (chunk, index) = split(place);
        self.chunks.get_mut(chunk)?.get_mut(index)
    }

    /// Returns all entries.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SequenceEntry> {
        self.chunks.iter_mut().flatten()
    }

    fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// Adds an entry, which has this hash.
    fn push(&mut self, hash: u64, entry: SequenceEntry) {
        // At most `entries_max`, which is below.
        let place = u32::try_from(self.len()).unwrap_or(u32::MAX);
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push(entry);
        }
        let Shard { places, chunks, .. } = self;
        places.insert_unique(hash, place, |&place| at(chunks, place).map_or(0, SequenceEntry::hash));
    }

    /// Removes the entry at this place, to which the last one moves.
    fn remove(&mut self, place: u32) -> Option<SequenceEntry> {
        let last_place = u32::try_from(self.len().checked_sub(1)?).ok()?;
        let hash = at(&self.chunks, place)?.hash();
        if let Ok(found) = self.places.find_entry(hash, |&found| found == place) {
            found.remove();
        }
        let mut entry = self.chunks.last_mut()?.pop()?;
        if self.chunks.last().is_some_and(Vec::is_empty) {
            self.chunks.pop();
        }
        if place != last_place {
            if let Some(moved) = self.places.find_mut(entry.hash(), |&moved| moved == last_place) {
                *moved = place;
            }
            std::mem::swap(&mut entry, self.get_mut(place)?);
        }
        Some(entry)
    }

    /// Releases memory after many entries have left.
    fn shrink(&mut self) {
        let Shard { places, chunks, .. } = self;
        if places.len() < places.capacity() / SHRINK_BELOW {
            places.shrink_to(2 * places.len(), |&place| at(chunks, place).map_or(0, SequenceEntry::hash));
            chunks.shrink_to(2 * chunks.len());
        }
    }
}

/// Returns the entry at a place.
#[inline]
fn at(chunks: &[Vec<SequenceEntry>], place: u32) -> Option<&SequenceEntry> {
    let (chunk, index) = split(place);
    chunks.get(chunk)?.get(index)
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

    /// Reads the entries with these hashes into the processor's cache, those that are here.
    ///
    /// A lock waits for all reads before it, so a turn's draws would wait for memory one after the other. A prefetch is
    /// not waited for.
    pub(super) fn prefetch(&self, hashes: impl Iterator<Item = u64>) {
        for hash in hashes {
            let shard = self.shard(hash);
            // Of the few that share the hash's highest bits, any does.
            if let Some(entry) = shard.places.find(hash, |_| true).and_then(|&place| at(&shard.chunks, place)) {
                prefetch(entry);
            }
        }
    }

    /// Finds a sequence by its name, in its shard.
    #[inline]
    pub(super) fn find<'a>(shard: &'a mut Shard, hash: u64, name: &str) -> Option<&'a mut SequenceEntry> {
        shard.find_mut(hash, |entry| entry.key.as_bytes() == name.as_bytes())
    }

    /// Adds a sequence that is not in the table.
    #[cold]
    pub(super) fn insert(&self, shard: &mut Shard, hash: u64, name: &str, now_ms: u64) -> Result<(), InsertError> {
        let key = Key::parse(name).ok_or(InsertError::Name)?;
        if self.count() >= self.entries_max {
            return Err(InsertError::Entries);
        }
        if self.unknown.load(Relaxed) >= UNKNOWN_MAX {
            return Err(InsertError::Unknown);
        }
        self.count.fetch_add(1, Relaxed);
        self.unknown.fetch_add(1, Relaxed);
        shard.push(hash, SequenceEntry::new(key, now_ms));
        Ok(())
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
        let (mut place, mut removed) = (0, 0);
        while let Some(entry) = shard.get_mut(place) {
            if leaves(entry) {
                self.remove_at(shard, place);
                removed += 1;
            } else {
                place += 1;
            }
        }
        shard.shrink();
        removed
    }

    /// Removes the sequence with this hash, if `leaves` returns true.
    pub(super) fn remove(&self, shard: &mut Shard, hash: u64, leaves: impl FnOnce(&mut SequenceEntry) -> bool) {
        let Some(place) = shard.place_of(hash, |entry| entry.hash() == hash) else { return };
        if shard.get_mut(place).is_some_and(leaves) {
            self.remove_at(shard, place);
        }
    }

    fn remove_at(&self, shard: &mut Shard, place: u32) {
        let Some(entry) = shard.remove(place) else { return };
        shard.given_by_removed += entry.sequence.used();
        self.count.fetch_sub(1, Relaxed);
        self.unknown.fetch_sub(usize::from(!entry.flags.is_known), Relaxed);
    }
}

/// Reads what a draw needs of an entry into the processor's cache.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "a pipeline of 16 or 100 INCRs of 20,000 names takes an eighth less processor time")]
fn prefetch(entry: &SequenceEntry) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    let line = std::ptr::from_ref(entry).cast::<i8>();
    // SAFETY: a prefetch is a hint. It reads nothing into a register, and an address without memory is no fault.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(line);
        _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(64));
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_entry: &SequenceEntry) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(number: u32) -> String {
        format!("counter:{number:012}")
    }

    #[test]
    fn a_sequence_with_its_name_is_small() {
        assert!(size_of::<SequenceEntry>() <= 184, "{}", size_of::<SequenceEntry>());
    }

    #[test]
    fn names_are_found_while_others_come_and_go() {
        let table = Table::new(ENTRIES_MAX);
        let find = |name: &str| {
            let hash = hash_of(name.as_bytes());
            Table::find(&mut table.shard(hash), hash, name).is_some_and(|entry| entry.key.as_str() == name)
        };
        let insert = |number: u32| {
            let name = name_of(number);
            let hash = hash_of(name.as_bytes());
            let mut shard = table.shard(hash);
            table.insert(&mut shard, hash, &name, 0).unwrap();
            table.note_known(Table::find(&mut shard, hash, &name).unwrap());
        };
        (0..10_000).for_each(insert);
        assert_eq!(table.count(), 10_000);
        // A third leaves, in the order of the list, and single ones in any order.
        for index in 0..SHARDS {
            let third = |entry: &mut SequenceEntry| entry.hash().is_multiple_of(3);
            table.remove_where(&mut table.nth_shard(index), third);
        }
        let is_left = |number: u32| !hash_of(name_of(number).as_bytes()).is_multiple_of(3);
        (0..10_000).for_each(|number| assert_eq!(find(&name_of(number)), is_left(number), "{number}"));
        for number in (0..10_000).step_by(7) {
            let hash = hash_of(name_of(number).as_bytes());
            table.remove(&mut table.shard(hash), hash, |_| true);
        }
        let is_left = |number: u32| is_left(number) && !number.is_multiple_of(7);
        (0..10_000).for_each(|number| assert_eq!(find(&name_of(number)), is_left(number), "{number}"));
        let left = (0..10_000).filter(|&number| is_left(number)).count();
        let listed: usize = (0..SHARDS).map(|index| table.nth_shard(index).iter_mut().count()).sum();
        assert_eq!((table.count(), listed), (left, left));
        for index in 0..SHARDS {
            let mut shard = table.nth_shard(index);
            table.remove_where(&mut shard, |_| true);
            assert_eq!((shard.len(), shard.chunks.len()), (0, 0), "no chunk is kept");
            assert!(shard.places.capacity() < 16, "the hash table has shrunk");
        }
        insert(0);
        assert!(find(&name_of(0)) && table.count() == 1);
    }
}
