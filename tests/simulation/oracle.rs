//! The oracle sees every ID of every life, and reports violations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use getid_core::{Epoch, NamedGenerator, Reservation, Scheme, Tick};

use crate::named::{ReplyEnds, Series};

/// Number of an ID's bits below its tick.
const LOW_BITS: u32 = 21;

/// The oracle. Clones share their state. It judges one server-id: IDs of two can't be equal once each contains its own.
#[derive(Clone, Default)]
pub(crate) struct Oracle(Arc<Mutex<State>>);

/// The IDs of one server, in the order of its replies. Two servers with one server-id (a folder that is created again
/// under the first) give different IDs, but not in one order.
#[derive(Clone, Default)]
pub(crate) struct Line {
    unnamed: Arc<AtomicU64>,
    named: ReplyEnds,
}

#[derive(Default)]
struct State {
    /// Largest ID in any reply.
    replied_max: u64,
    /// Latest tick in any reply.
    tick_max: Tick,
    ids: u64,
    named_ids: u64,
    given: Vec<GivenRun>,
    named: Series,
    hash: u64,
    broken: Option<String>,
}

/// One reservation. Slots are those of the widest shard, so that they compare in any layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GivenRun {
    slots: (u64, u64),
    ids: (u64, u64),
}

/// The bounds at the time of a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestBounds {
    replied_max: u64,
}

impl Oracle {
    /// Returns the line of a server that starts now.
    pub(crate) fn line(&self) -> Line {
        let line = Line::default();
        self.catch_up(&line);
        line
    }

    /// From here on `line`'s server must give IDs past all others.
    pub(crate) fn catch_up(&self, line: &Line) {
        let state = self.state();
        line.unnamed.store(state.replied_max, Relaxed);
        state.named.store_ends(&line.named);
    }

    /// Records that a request is sent.
    pub(crate) fn ask(line: &Line) -> RequestBounds {
        RequestBounds { replied_max: line.unnamed.load(Relaxed) }
    }

    /// Records its reply. `ceiling`: R + B at the time of the reply.
    pub(crate) fn reply(
        &self,
        asked: RequestBounds,
        line: &Line,
        scheme: &Scheme,
        n: u32,
        drawn: &[Reservation],
        ceiling: Tick,
    ) -> Vec<u64> {
        let layout = scheme.layout();
        let unit = LOW_BITS - layout.shard_bits();
        let mut state = self.state();
        let mut ids = Vec::with_capacity(n as usize);
        let mut last = asked.replied_max;
        for &reservation in drawn {
            let from = ids.len();
            for id in scheme.ids(reservation) {
                if id.get() <= last {
                    state.report(|| format!("promise 2: {id} came after {last}"));
                }
                last = id.get();
                let parts = layout.split(id);
                if parts.server != scheme.server_id() {
                    state.report(|| format!("{id} wears the bits of server {}", parts.server));
                }
                if parts.tick >= ceiling {
                    state.report(|| format!("{id} has {:?}, not below {ceiling:?}", parts.tick));
                }
                state.tick_max = state.tick_max.max(parts.tick);
                state.hash = (state.hash ^ id.get()).wrapping_mul(0x100_0000_01b3);
                ids.push(id.get());
            }
            let slots = (reservation.first.0, reservation.first.0 + u64::from(reservation.len));
            state.given.push(GivenRun { slots: (slots.0 << unit, slots.1 << unit), ids: (ids[from], last) });
        }
        if ids.len() != n as usize {
            state.report(|| format!("{} ids for {n}", ids.len()));
        }
        state.ids += u64::from(n);
        state.replied_max = state.replied_max.max(last);
        line.unnamed.fetch_max(last, Relaxed);
        ids
    }

    /// Records that a request to a named generator is sent.
    pub(crate) fn ask_named(line: &Line, name: &str) -> RequestBounds {
        RequestBounds { replied_max: line.named.of(name) }
    }

    /// Records the reply of a named generator.
    pub(crate) fn reply_named(
        &self,
        asked: RequestBounds,
        line: &Line,
        generator: &NamedGenerator,
        n: u32,
        drawn: &[Reservation],
        ceiling_unix_ms: i64,
    ) {
        let mut state = self.state();
        let wrong = state.named.reply(generator, (asked.replied_max, &line.named), drawn, ceiling_unix_ms);
        if let Err(what) = wrong {
            state.report(|| what);
        }
        let ids: u32 = drawn.iter().map(|reservation| reservation.len).sum();
        if ids != n {
            state.report(|| format!("{ids} ids for {n}"));
        }
        for reservation in drawn {
            state.hash = (state.hash ^ reservation.first.0).wrapping_mul(0x100_0000_01b3);
        }
        state.named_ids += u64::from(n);
    }

    /// Reports a violation; the first one is kept.
    pub(crate) fn report(&self, what: impl FnOnce() -> String) {
        self.state().report(what);
    }

    /// Returns the exclusive bound of all ticks in replies so far, and of the beginnings of all units.
    pub(crate) fn tick_end(&self, epoch: Epoch) -> Tick {
        let state = self.state();
        let unnamed = if state.tick_max == Tick(0) { Tick(0) } else { Tick(state.tick_max.0 + 1) };
        state.named.end_unix_ms().and_then(|unix_ms| epoch.tick_at(unix_ms)).map_or(unnamed, |named| named.max(unnamed))
    }

    /// Shifts ticks by this from now on: the epoch was moved back.
    pub(crate) fn shift_ticks(&self, ms: u64) {
        let mut state = self.state();
        if state.tick_max > Tick(0) {
            state.tick_max.0 += ms;
        }
    }

    /// Allows IDs at or past `tick` to repeat: no existing record covers them. Returns whether there were any.
    pub(crate) fn forget_from(&self, tick: Tick, epoch: Epoch) -> bool {
        let mut state = self.state();
        let named = state.named.forget_from(if tick == Tick(0) { i64::MIN } else { tick.unix_ms(epoch) });
        let slot = tick.0 << LOW_BITS;
        let any = state.ids > 0 && state.tick_max >= tick;
        if any {
            state.given.retain(|given| given.slots.1 <= slot);
            state.replied_max = state.replied_max.min(slot.saturating_sub(1));
            state.tick_max = state.tick_max.min(Tick(tick.0.saturating_sub(1)));
        }
        any || named
    }

    pub(crate) fn ids(&self) -> u64 {
        self.state().ids
    }

    /// Returns the number of IDs of named generators.
    pub(crate) fn named_ids(&self) -> u64 {
        self.state().named_ids
    }

    /// Returns a hash of all IDs in the order of their replies.
    pub(crate) fn hash(&self) -> u64 {
        self.state().hash
    }

    /// Checks that no ID came twice, no slot was used twice, and no violation was reported.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let mut state = self.state();
        let mut given = std::mem::take(&mut state.given);
        given.sort_unstable();
        for pair in given.windows(2) {
            if pair[1].slots.0 < pair[0].slots.1 {
                state.report(|| format!("promise 1: the slots of {:?} and {:?} overlap", pair[0], pair[1]));
            }
            if pair[1].ids.0 <= pair[0].ids.1 {
                state.report(|| format!("promise 1: {:?} and {:?} overlap", pair[0], pair[1]));
            }
        }
        state.given = given;
        if let Err(what) = state.named.verdict() {
            state.report(|| what);
        }
        state.broken.clone().map_or(Ok(()), Err)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn report(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(what());
        }
    }
}
