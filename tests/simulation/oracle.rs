//! Who sees every ID of every life, and says what is wrong with them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use getid::id::checks::Checks;
use getid::id::{Reservation, Scheme, Tick};

/// Clones are the same oracle. It judges one server-id: IDs of two can't be the same once each wears its own.
#[derive(Clone, Default)]
pub(crate) struct Oracle(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The largest ID in any reply.
    replied_max: u64,
    /// The latest tick in any reply.
    tick_max: Tick,
    ids: u64,
    /// All IDs, as ranges that have been seen to ascend: one per reservation.
    ranges: Vec<(u64, u64)>,
    hash: u64,
    broken: Option<String>,
}

/// What was known when a request was made.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    replied_max: u64,
}

impl Oracle {
    /// A request goes out.
    pub(crate) fn ask(&self) -> Asked {
        Asked { replied_max: self.state().replied_max }
    }

    /// Its reply came. `ceiling`: R + B at the time of the reply.
    pub(crate) fn reply<K: Checks>(
        &self,
        asked: Asked,
        scheme: &Scheme,
        n: u32,
        drawn: &[Reservation],
        ceiling: Tick,
    ) -> Vec<u64> {
        let layout = scheme.layout();
        let mut state = self.state();
        let mut ids = Vec::with_capacity(n as usize);
        let mut last = asked.replied_max;
        for &reservation in drawn {
            let from = ids.len();
            for id in scheme.ids_with::<K>(reservation) {
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
            state.ranges.push((ids[from], last));
        }
        if ids.len() != n as usize {
            state.report(|| format!("{} ids for {n}", ids.len()));
        }
        state.ids += u64::from(n);
        state.replied_max = state.replied_max.max(last);
        ids
    }

    /// Something is wrong; the first of it is kept.
    pub(crate) fn report(&self, what: impl FnOnce() -> String) {
        self.state().report(what);
    }

    /// Each tick in a reply so far is smaller.
    pub(crate) fn tick_end(&self) -> Tick {
        let state = self.state();
        if state.ids == 0 { Tick(0) } else { Tick(state.tick_max.0 + 1) }
    }

    /// Ticks grow by this from now on: the epoch was moved back.
    pub(crate) fn shift_ticks(&self, ms: u64) {
        let mut state = self.state();
        state.tick_max.0 += ms;
    }

    pub(crate) fn ids(&self) -> u64 {
        self.state().ids
    }

    /// Stands for all IDs in the order of their replies.
    pub(crate) fn hash(&self) -> u64 {
        self.state().hash
    }

    /// No ID came twice, and nothing else was wrong.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let mut state = self.state();
        let mut ranges = std::mem::take(&mut state.ranges);
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            if pair[1].0 <= pair[0].1 {
                state.report(|| format!("promise 1: {:?} and {:?} overlap", pair[0], pair[1]));
            }
        }
        state.ranges = ranges;
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
