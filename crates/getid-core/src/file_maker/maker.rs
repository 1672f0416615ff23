//! A mint, a store and clocks, shared by threads.
//!
//! There is no thread beside the callers': the one for which the mint wants a save does it, about once a second,
//! seconds ahead of need. The others go on below the old watermark meanwhile, and wait for the save's end only where
//! they have reached it.
//!
//! Order of locks: `making`, then `store`; and back to `making` while the store is held, which is sound because only
//! the caller that a save was wanted of holds both, and the mint wants none until that one has reported its end.

use alloc::borrow::ToOwned as _;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::Clock;
use super::error::{MakeError, OpenError, SaveError};
use super::store::{Disk, Store};
use crate::clock_event::JUMP_MS_MAX;
use crate::layout::Id;
use crate::limits::Limits;
use crate::mint::Mint;
use crate::refusal::{Blocked, Refusal};
use crate::save_point::SavePoint;
use crate::scheme::{Reservation, Scheme};
use crate::status::Status;

/// How often the wall clock is looked at, ns, as far as calls come.
const SAMPLE_EVERY_NS: u64 = 100_000_000;

/// A call that would wait longer than this for its first ID is refused, ms.
const WAIT_MS_MAX: u64 = 5000;

/// The most IDs that room is made for before they are there.
const ROOM_IDS_MAX: u32 = 1 << 16;

/// What [`FileMaker`](super::FileMaker) is made of.
#[derive(Debug)]
pub(super) struct Maker<C, D> {
    /// The process that opened it. A child that it forks has a copy of all this, and gives nothing of it.
    pid: u32,
    clock: C,
    scheme: Scheme,
    path: PathBuf,
    making: Mutex<Making>,
    store: Mutex<Store<D>>,
}

#[derive(Debug)]
struct Making {
    mint: Mint,
    /// Boot time from which on the wall clock is to be looked at, ns.
    sample_from_ns: u64,
    /// Why the last save failed.
    save_error: Option<Arc<SaveError>>,
}

impl Making {
    /// Looks at the wall clock where it is time to. Says whether a save may be due.
    fn sample(&mut self, clock: &impl Clock, boot_ns: u64) -> bool {
        // A boot-time clock that went back is looked at, too.
        if boot_ns < self.sample_from_ns && self.sample_from_ns - boot_ns <= SAMPLE_EVERY_NS {
            return self.mint.is_save_due();
        }
        let interval_ns = (self.mint.sample_interval_ms() * 1_000_000).min(SAMPLE_EVERY_NS);
        self.sample_from_ns = boot_ns.saturating_add(interval_ns);
        // What happened is in the mint's status.
        let _ = self.mint.sample(clock.reading());
        true
    }

    fn error_of(&self, refusal: Refusal) -> MakeError {
        match (refusal, &self.save_error) {
            (Refusal::Clock(fault), _) => MakeError::Clock(fault),
            (Refusal::Busy { ahead_ms, max_borrow_ms }, _) => MakeError::Busy { ahead_ms, max_borrow_ms },
            (Refusal::EndOfTime { last_unix_ms }, _) => MakeError::EndOfTime { last_unix_ms },
            (Refusal::Save { .. } | Refusal::ClaimLost(_), Some(error)) => MakeError::Save(Arc::clone(error)),
            (refusal, _) => MakeError::Refused(refusal),
        }
    }
}

/// A panic of another thread may have left anything.
fn panicked<T>(_: PoisonError<T>) -> MakeError {
    MakeError::Panicked
}

impl<C: Clock, D: Disk> Maker<C, D> {
    /// Begins where `found` says, and writes that, so that a disk which takes nothing is found now.
    ///
    /// Nothing of the clock is written before the first ID: one that is wrong until somebody sets it leaves no trace.
    pub(super) fn begin(
        clock: C,
        scheme: Scheme,
        limits: Limits,
        mut store: Store<D>,
        found: Option<SavePoint>,
        accepts_clock_ahead: bool,
    ) -> Result<Maker<C, D>, OpenError> {
        store.save(found.unwrap_or(SavePoint::NOTHING)).map_err(OpenError::Save)?;
        let layout = scheme.layout();
        let reading = clock.reading();
        let found = found.map(|point| {
            let wall = layout.epoch().tick_at(reading.wall_unix_ms).unwrap_or_default();
            let far = point.watermark.max(point.reference).plus_ms(JUMP_MS_MAX);
            let believes = accepts_clock_ahead && wall > far && !point.is_nothing();
            SavePoint { reference: if believes { wall } else { point.reference }, ..point }
        });
        let mint = Mint::new(layout, limits, found, reading);
        let making = Making { mint, sample_from_ns: 0, save_error: None };
        let path = store.path().to_owned();
        Ok(Maker { pid: process::id(), clock, scheme, path, making: Mutex::new(making), store: Mutex::new(store) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// A fork finds its own process number changed. It is asked each time: nothing tells a process that it is one.
    fn check_process(&self) -> Result<(), MakeError> {
        let pid = process::id();
        if pid == self.pid { Ok(()) } else { Err(MakeError::Forked { opened_by: self.pid, pid }) }
    }

    fn making(&self) -> Result<MutexGuard<'_, Making>, MakeError> {
        self.making.lock().map_err(panicked)
    }

    pub(super) fn status(&self) -> Result<Status, MakeError> {
        // In a fork, another thread may have held the lock: nobody lets go of it there.
        self.check_process()?;
        Ok(self.making()?.mint.status(self.clock.boot_ns()))
    }

    pub(super) fn next(&self) -> Result<Id, MakeError> {
        let mut id = None;
        self.draw(1, |reservation| id = Some(self.scheme.id(reservation.first, reservation.count)))?;
        Ok(id.expect("a draw of one ID gives one, or an error"))
    }

    pub(super) fn next_many(&self, n: u32) -> Result<Vec<Id>, MakeError> {
        let mut ids = Vec::with_capacity(n.min(ROOM_IDS_MAX) as usize);
        self.draw(n, |reservation| ids.extend(self.scheme.ids(reservation)))?;
        Ok(ids)
    }

    /// `n` slots, in ascending pieces.
    fn draw(&self, n: u32, mut take: impl FnMut(Reservation)) -> Result<(), MakeError> {
        self.check_process()?;
        let mut making = self.making()?;
        let mut left = n;
        let mut is_blocked = false;
        while left > 0 {
            let boot_ns = self.clock.boot_ns();
            if making.sample(&self.clock, boot_ns) || is_blocked {
                // Before the first ID, then about once a second, seconds ahead of need.
                if let Some(point) = making.mint.wanted_save(boot_ns) {
                    making = self.save(making, point)?;
                }
            }
            match making.mint.draw(boot_ns, left, left < n) {
                Ok(reservation) => {
                    left -= reservation.len;
                    is_blocked = false;
                    take(reservation);
                }
                Err(blocked) => {
                    is_blocked = true;
                    making = self.wait(making, boot_ns, blocked, left < n)?;
                }
            }
        }
        Ok(())
    }

    /// Writes `point` while other threads go on, and reports how that ended.
    fn save<'a>(
        &'a self,
        making: MutexGuard<'a, Making>,
        point: SavePoint,
    ) -> Result<MutexGuard<'a, Making>, MakeError> {
        // Locked before the others go on, so that those who wait for this save wait for it.
        let mut store = self.store.lock().map_err(panicked)?;
        drop(making);
        let result = store.save(point);
        let mut making = self.making()?;
        match result {
            Ok(()) => {
                making.mint.saved(point);
                making.save_error = None;
            }
            Err(error) => {
                let text = Arc::from(error.to_string());
                match error {
                    SaveError::Io { .. } => making.mint.save_failed(text),
                    SaveError::Lost { .. } => making.mint.claim_lost(text),
                }
                making.save_error = Some(Arc::new(error));
            }
        }
        Ok(making)
    }

    /// Waits for what a draw is blocked by, while other threads go on.
    fn wait<'a>(
        &'a self,
        making: MutexGuard<'a, Making>,
        boot_ns: u64,
        blocked: Blocked,
        begun: bool,
    ) -> Result<MutexGuard<'a, Making>, MakeError> {
        match blocked {
            Blocked::Refused(refusal) => return Err(making.error_of(refusal)),
            // A save is under way, and has the store; or one is wanted, of this caller.
            Blocked::Watermark => {
                drop(making);
                drop(self.store.lock().map_err(panicked)?);
            }
            Blocked::Borrow { until_boot_ns } => {
                Self::check_wait(&making, boot_ns, begun)?;
                drop(making);
                self.clock.sleep(Duration::from_nanos(until_boot_ns.saturating_sub(boot_ns)));
            }
        }
        self.making()
    }

    /// A call that has to wait for time does so for seconds at most.
    fn check_wait(making: &Making, boot_ns: u64, begun: bool) -> Result<(), MakeError> {
        let late_ms = making.mint.late_ms(boot_ns);
        if begun || late_ms <= WAIT_MS_MAX {
            return Ok(());
        }
        // A file that says more than the clock.
        let max_borrow_ms = making.mint.limits().max_borrow_ms;
        Err(MakeError::Busy { ahead_ms: max_borrow_ms.saturating_add(late_ms), max_borrow_ms })
    }

    /// Writes where this life has ended. The next one would do without, and wait for up to 200 ms.
    ///
    /// Does nothing where there is nothing to write, or it must not be written, as in a fork or after a panic.
    pub(super) fn close(&mut self) -> Result<(), SaveError> {
        if self.check_process().is_ok()
            && let (Ok(making), Ok(store)) = (self.making.get_mut(), self.store.get_mut())
            && let Some(point) = making.mint.close()
        {
            return store.save(point);
        }
        Ok(())
    }

    /// The store, where this process may use it.
    pub(super) fn store(&mut self) -> Option<&mut Store<D>> {
        self.check_process().ok()?;
        self.store.get_mut().ok()
    }
}
