//! Buffers of connections that have work. An idle connection holds none, so that ten thousand idle clients cost little.

use std::cell::RefCell;

use getid_core::Reservation;

use crate::metrics::WorkTotals;
use getid_redis::session::{NamedDrawResults, SequenceDrawResults, Turn, Unblock};

/// Size of one read: 16 KiB, as Redis's. A thousand `GETID` as arrays are 14 KB.
pub(super) const READ_BYTES: usize = 16 * 1024;

/// Size of one read of a client that must log in and has not: the largest request that it may send.
const UNAUTHENTICATED_READ_BYTES: usize = 8 * 1024;

/// Size up to which replies of several turns are gathered before they are written, bytes.
pub(super) const FLUSH_BYTES: usize = 64 * 1024;

/// Size up to which the beginning of a request is copied out of the buffer, bytes, so that a client that sends slowly
/// costs only its input; a larger one keeps the buffer.
const REST_COPIED_MAX: usize = 8 * 1024;

/// Size above which a buffer is returned to the system rather than kept for the next connection.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Number of buffers kept for the next connection with work, per thread.
const KEPT_BUFFERS_MAX: usize = 64;

/// Number of these that may be large. A thread usually needs one: others come from clients that waited.
const KEPT_LARGE_MAX: usize = 2;

/// Maximum size of each of the others, bytes: room for a read, and for its replies.
const KEPT_SMALL_BYTES_MAX: usize = 24 * 1024;

/// Maximum memory that a thread keeps, bytes; `maxmemory-clients` does not count it. A large buffer has input, output,
/// and encoded replies of a turn.
pub const KEPT_POOL_BYTES_MAX: usize =
    KEPT_LARGE_MAX * 3 * KEPT_BYTES_MAX + (KEPT_BUFFERS_MAX - KEPT_LARGE_MAX) * KEPT_SMALL_BYTES_MAX;

thread_local! {
    // Boxed, so that a read that has to wait moves a pointer instead of the whole.
    #[expect(clippy::vec_box, reason = "buffers travel as one pointer")]
    static KEPT: RefCell<Vec<Box<Buffers>>> = const { RefCell::new(Vec::new()) };
}

/// The beginning of an incomplete request. Boxed where it is kept, since most connections have none.
#[derive(Debug)]
pub(super) struct Rest(Vec<u8>);

impl Rest {
    /// Returns the memory held, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity()
    }
}

/// Buffers of a connection from one read to the last answer to it.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) input: Vec<u8>,
    /// Size of the input that has become turns, bytes.
    pub(super) used: usize,
    pub(super) output: Vec<u8>,
    pub(super) turn: Turn,
    pub(super) drawn: Vec<Reservation>,
    pub(super) named: NamedDrawResults,
    pub(super) sequences: SequenceDrawResults,
    /// Set by `CLIENT UNBLOCK`, which ends the wait of the whole input read so far, even in several turns.
    pub(super) unblocked: Option<Unblock>,
    /// Work done since the last count.
    pub(super) work: WorkTotals,
    /// Memory of an answer that is being written piece by piece, bytes.
    pub(super) answer_bytes: usize,
    /// Whether a generator or a sequence refused a draw of the turn.
    pub(super) is_refused: bool,
    /// Time since which other clients wait for this one, in ns, as far as it is known to have more work than IDs.
    pub(super) busy_since_ns: Option<u64>,
}

impl Buffers {
    /// Returns buffers for one read: those of an earlier connection, if any are kept.
    pub(super) fn take() -> Box<Buffers> {
        KEPT.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Empties the buffers for the next read. A turn is emptied by the read of the next one.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.input.clear();
        self.used = 0;
        self.output.clear();
        self.unblocked = None;
        self.busy_since_ns = None;
    }

    pub(super) fn give_back(mut self: Box<Self>) {
        self.clear();
        self.turn.release_memory();
        if self.input.capacity() > KEPT_BYTES_MAX {
            self.input = Vec::new();
        }
        if self.output.capacity() > KEPT_BYTES_MAX {
            self.output = Vec::new();
        }
        KEPT.with_borrow_mut(|kept| {
            let is_small = || self.memory_bytes() <= KEPT_SMALL_BYTES_MAX;
            if kept.len() < KEPT_LARGE_MAX || kept.len() < KEPT_BUFFERS_MAX && is_small() {
                kept.push(self);
            }
        });
    }

    /// Puts the beginning of a request, left over from the last read, in front of the next.
    #[inline]
    pub(super) fn resume(&mut self, rest: &mut Option<Box<Rest>>) {
        if let Some(rest) = rest {
            if rest.0.len() > REST_COPIED_MAX {
                std::mem::swap(&mut self.input, &mut rest.0);
            } else {
                self.input.extend_from_slice(&rest.0);
            }
        }
        // Doubling, so that a large request is copied a bounded number of times, and costs at most twice its size.
        self.input.reserve(READ_BYTES.max(self.input.len()));
    }

    /// Prepares a read for a client that must log in: with a smaller buffer of its own.
    #[cold]
    pub(super) fn resume_unauthenticated(&mut self, rest: Option<&Rest>) {
        let rest = rest.map_or(&[][..], |rest| &rest.0);
        self.input = Vec::with_capacity(UNAUTHENTICATED_READ_BYTES.max(rest.len() + 1));
        self.input.extend_from_slice(rest);
    }

    /// Leaves unused input to the connection, for `resume`.
    #[inline]
    pub(super) fn suspend(&mut self, rest: &mut Option<Box<Rest>>) {
        if self.used < self.input.len() {
            self.suspend_rest(rest);
        } else if rest.is_some() {
            *rest = None;
        }
    }

    #[cold]
    fn suspend_rest(&mut self, rest: &mut Option<Box<Rest>>) {
        if self.input.len() - self.used > REST_COPIED_MAX {
            self.input.drain(..self.used);
            *rest = Some(Box::new(Rest(std::mem::take(&mut self.input))));
        } else if rest.is_none() {
            // Otherwise the read brought nothing, and the rest is unchanged.
            *rest = Some(Box::new(Rest(self.input[self.used..].to_vec())));
        }
    }

    /// Reduces the buffers to the minimum for a connection that has to wait.
    #[cold]
    pub(super) fn park(&mut self) {
        let rest = self.input[self.used..].to_vec();
        self.used = 0;
        let input = std::mem::replace(&mut self.input, rest);
        let mut output = Vec::new();
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, &mut output);
        } else {
            self.output.shrink_to_fit();
        }
        self.turn.shrink();
        self.drawn.shrink_to_fit();
        self.named.shrink();
        self.sequences.shrink();
        Box::new(Buffers { input, output, ..Buffers::default() }).give_back();
    }

    /// Returns the memory held, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let drawn = self.drawn.capacity() * size_of::<Reservation>();
        let extra = self.named.memory_bytes() + self.sequences.memory_bytes();
        let bytes = self.input.capacity() + self.output.capacity() + self.turn.memory_bytes();
        size_of::<Buffers>() + bytes + drawn + extra + self.answer_bytes
    }
}
