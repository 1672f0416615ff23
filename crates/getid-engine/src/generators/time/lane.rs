//! The words that threads share to draw without the lock. `getid_core`'s `lane.rs` defines their meaning, and why old
//! ones do no harm.
//!
//! This module defines the order in which they are read and written: see [`SharedLane`].
//!
//! Invariant: only the holder of the lock writes the lane's words, and only while the lane is closed.

use getid_core::server::checks::{Fault, planted};
use getid_core::server::{Lane, Position};
use getid_core::{Layout, Reservation};

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::sync::{AtomicU64, thread_number};
use getid_system::clock::Clock;

/// Number of attempts of a draw to exchange the position before it takes the lock.
const TRIES: u32 = 64;

/// Number of threads with a counter each for their IDs; further threads share one.
const COUNTERS: usize = 32;

/// A value in cache lines of its own: two, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// The words of one issuer.
///
/// - A drawing thread reads the clock, then the position (acquire), then the lane, and exchanges the position (acquire
///   and release).
/// - A holder of the lock sets the closed bit (acquire and release), so each exchange lies before that or fails; writes
///   the lane; then stores the position (release). A thread that loads this position finds the lane that belongs to it,
///   or a later one. It finds a later one only after the bit was set, and then its exchange succeeds only if the lane
///   was opened again at the same position.
///
/// The lane's words are read and written without an order of their own. On any processor, a successful exchange uses:
///
/// - No words of an earlier lane than the position's: that position was stored behind its lane's words, and each
///   exchange since then passes them on.
/// - No words of a later lane than the one in which the exchange succeeds: the exchange releases what its thread has
///   read, the closing bit comes behind it and acquires that, and only then are words written. If the bit were set by a
///   relaxed step, a processor might show the new words first.
#[derive(Debug)]
pub(super) struct SharedLane {
    below_tick_bits: u32,
    random_bits: u32,
    position: CachePadded<AtomicU64>,
    words: CachePadded<LaneWords>,
    /// Number of IDs that lanes gave, by [`thread_number`]; all later threads share the last counter.
    given: [CachePadded<AtomicU64>; COUNTERS + 1],
}

/// A [`Lane`], and the furthest that a draw by any lane has ended past the beginning of R's ms.
#[derive(Debug, Default)]
struct LaneWords {
    from_boot_ns: AtomicU64,
    until_boot_ns: AtomicU64,
    offset_ns: AtomicU64,
    below: AtomicU64,
    borrow: AtomicU64,
    piece_max: AtomicU64,
    ahead: AtomicU64,
}

impl SharedLane {
    /// Makes a closed lane.
    pub(super) fn new(layout: Layout) -> SharedLane {
        SharedLane {
            below_tick_bits: layout.shard_bits() + layout.random_bits(),
            random_bits: layout.random_bits(),
            position: CachePadded(AtomicU64::new(Position::NONE.word())),
            words: CachePadded::default(),
            given: std::array::from_fn(|_| CachePadded::default()),
        }
    }

    /// Draws all `n` IDs, if the lane is open and allows it.
    #[inline]
    pub(super) fn draw(&self, clock: &impl Clock, n: u32) -> Option<Reservation> {
        let position = &self.position.0;
        // Before the position is loaded, so that it is never later than R is when the exchange succeeds.
        let boot_ns = clock.boot_ns();
        let mut at = position.load(Acquire);
        for _ in 0..TRIES {
            let drawn = self.lane().draw(Position::of_word(at), boot_ns, n)?;
            match position.compare_exchange_weak(at, drawn.position.word(), AcqRel, Acquire) {
                Ok(_) => {
                    self.note(n, drawn.ahead);
                    return Some(drawn.reservation);
                }
                Err(other) => at = other,
            }
        }
        None
    }

    #[inline]
    fn note(&self, n: u32, ahead: u64) {
        if let Some(own) = self.given[..COUNTERS].get(thread_number()) {
            // Only this thread writes it.
            own.0.store(own.0.load(Relaxed) + u64::from(n), Relaxed);
        } else {
            self.count_shared(n);
        }
        // Nearly always it is no further than before, and then nothing is written.
        if ahead > self.words.0.ahead.load(Relaxed) {
            self.note_ahead(ahead);
        }
    }

    #[cold]
    fn count_shared(&self, n: u32) {
        self.given[COUNTERS].0.fetch_add(u64::from(n), Relaxed);
    }

    #[cold]
    fn note_ahead(&self, ahead: u64) {
        self.words.0.ahead.fetch_max(ahead, Relaxed);
    }

    /// Returns the lane as it is loaded, perhaps partly before a change and partly after it.
    #[inline]
    fn lane(&self) -> Lane {
        let words = &self.words.0;
        Lane {
            below_tick_bits: self.below_tick_bits,
            random_bits: self.random_bits,
            from_boot_ns: words.from_boot_ns.load(Relaxed),
            until_boot_ns: words.until_boot_ns.load(Relaxed),
            offset_ns: words.offset_ns.load(Relaxed),
            below: words.below.load(Relaxed),
            borrow: words.borrow.load(Relaxed),
            piece_max: words.piece_max.load(Relaxed),
        }
    }

    /// Closes the lane, and returns its position; `None`: it was closed already. Only under the lock.
    pub(super) fn close(&self) -> Option<Position> {
        let position = &self.position.0;
        // Under the lock no other thread opens it.
        if Position::of_word(position.load(Relaxed)).is_closed() {
            return None;
        }
        let bit = if planted(Fault::HolderLeavesTheLaneOpen) { 0 } else { Position::NONE.word() };
        Some(Position::of_word(position.fetch_or(bit, AcqRel)))
    }

    /// Opens the closed lane. Only under the lock.
    pub(super) fn open(&self, position: Position, lane: &Lane) {
        let words = &self.words.0;
        words.from_boot_ns.store(lane.from_boot_ns, Relaxed);
        words.until_boot_ns.store(lane.until_boot_ns, Relaxed);
        words.offset_ns.store(lane.offset_ns, Relaxed);
        words.below.store(lane.below, Relaxed);
        words.borrow.store(lane.borrow, Relaxed);
        words.piece_max.store(lane.piece_max, Relaxed);
        self.position.0.store(position.word(), Release);
    }

    /// Returns the number of IDs that lanes have given in this life, except draws that are just being counted.
    pub(super) fn given(&self) -> u64 {
        self.given.iter().map(|counter| counter.0.load(Relaxed)).sum()
    }

    /// Returns the furthest that any lane went ahead: see [`getid_core::server::LaneDraw`].
    pub(super) fn ahead(&self) -> u64 {
        self.words.0.ahead.load(Relaxed)
    }
}
