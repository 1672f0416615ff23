//! A mint, a store and clocks, shared by threads.
//!
//! The maker has no thread. The caller for which the mint wants a save writes it, about once a second, seconds ahead of
//! need. Meanwhile the other callers continue below the old watermark, and wait for the save's end only if they reach
//! it.
//!
//! A call holds the lock of the state while it reserves slots, and composes their IDs without it. No call holds two
//! locks. Only the caller with a wanted save locks the store: the mint wants no other save until the end of that one is
//! reported.

use alloc::borrow::ToOwned as _;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::Clock;
use super::error::{MakeError, OpenError, SaveError};
use super::store::{Disk, StateFile};
use crate::clock_event::JUMP_MS_MAX;
use crate::layout::{Id, Layout};
use crate::limits::Limits;
use crate::mint::Mint;
use crate::refusal::{Blocked, Refusal};
use crate::save_point::SavePoint;
use crate::scheme::{Reservation, Scheme};
use crate::status::Status;
use crate::time::Tick;
use crate::watermark::SAVE_SLACK_MS;

/// Longest interval between two readings of the wall clock while calls come, ns.
const SAMPLE_EVERY_NS: u64 = 100_000_000;

/// Time without an ID after which a call ends with an error, ms: since it began, or since its last ID. The first save
/// that it does itself does not count.
const WAIT_MS_MAX: u64 = 5000;

/// Distance of the first free slot past the borrow limit above which a call does not wait, ms. At 90 % of real speed
/// that time arrives within [`WAIT_MS_MAX`].
const LATE_MS_MAX: u64 = 4000;

/// Most IDs of one call: 8 MiB.
pub(super) const IDS_MAX: u32 = 1 << 20;

/// Pause of a start without a state file, or with a copy of one, before it reads the clock.
///
/// Without a record IDs begin at R + B, past all IDs of a life that has ended. But a maker whose file is deleted while
/// it runs notices that only at its next save. Until then it may give IDs up to its last watermark, R + B + 200 ms with
/// the R of that save. After this pause, R + B is past that too.
const LOST_LIFE_PAUSE: Duration = Duration::from_millis(SAVE_SLACK_MS + 50);

/// Implementation of [`FileMaker`](super::FileMaker), over any clock and disk.
#[derive(Debug)]
pub(super) struct Maker<C, D> {
    /// The process that opened it. A forked child has a copy of this value, and gives no IDs from it.
    pid: u32,
    clock: C,
    scheme: Scheme,
    path: PathBuf,
    state: Mutex<MintState>,
    /// Notified when a save has ended.
    saved: Condvar,
    store: Mutex<StateFile<D>>,
}

/// The state with which a life begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MakerStart {
    /// The point that the last life left.
    pub(super) found: Option<SavePoint>,
    /// Whether the file may be a copy of one that another maker still uses
    /// ([`LockedFolder::is_copy`](super::store::LockedFolder)).
    pub(super) is_copy: bool,
    pub(super) accepts_clock_ahead: bool,
    /// All new IDs must be past this one.
    pub(super) past: Option<Id>,
}

impl MakerStart {
    /// Returns the point at which the mint begins.
    fn point(&self, layout: Layout, limits: Limits, wall_unix_ms: i64) -> Result<Option<SavePoint>, OpenError> {
        let found = self.found.map(SavePoint::clamped);
        let found = match self.past {
            None => found,
            Some(past) => Some(begin_past(found.unwrap_or(SavePoint::NOTHING), past, layout, limits)?),
        };
        Ok(found.map(|point| {
            let wall = layout.epoch().tick_at(wall_unix_ms).unwrap_or_default();
            let far = point.watermark.max(point.reference).plus_ms(JUMP_MS_MAX);
            let believes = self.accepts_clock_ahead && wall > far && !point.is_nothing();
            SavePoint { reference: if believes { wall } else { point.reference }, ..point }
        }))
    }
}

/// Returns `found`, moved past `id` if it is not past it yet, and past all IDs that the maker of `id` may have given by
/// the same clock.
fn begin_past(found: SavePoint, id: Id, layout: Layout, limits: Limits) -> Result<SavePoint, OpenError> {
    let max_borrow_ms = found.max_borrow_ms.max(limits.clamped().max_borrow_ms);
    let watermark = layout.split(id).tick.plus_ms(1 + max_borrow_ms + SAVE_SLACK_MS);
    if watermark == Tick::END {
        return Err(OpenError::NoIdsPast { id, last_unix_ms: layout.last_unix_ms() });
    }
    if watermark <= found.watermark {
        return Ok(found);
    }
    // A lower R would put the watermark beyond the borrow limit: calls would wait until time has reached it.
    let reference = found.reference.max(Tick(watermark.0.saturating_sub(max_borrow_ms)));
    Ok(SavePoint { watermark, reference, max_borrow_ms })
}

/// State behind a maker's lock.
#[derive(Debug)]
struct MintState {
    mint: Mint,
    /// Whether a call is writing the file.
    is_saving: bool,
    /// Boot time of the next reading of the wall clock, ns.
    sample_from_ns: u64,
    /// Error of the last save.
    save_error: Option<Arc<SaveError>>,
}

impl MintState {
    /// Reads the wall clock if it is time. Returns whether a save may be due.
    fn sample(&mut self, clock: &impl Clock, boot_ns: u64) -> bool {
        // A boot-time clock that went back causes a reading too.
        if boot_ns < self.sample_from_ns && self.sample_from_ns - boot_ns <= SAMPLE_EVERY_NS {
            return self.mint.is_save_due();
        }
        let interval_ns = (self.mint.sample_interval_ms() * 1_000_000).min(SAMPLE_EVERY_NS);
        self.sample_from_ns = boot_ns.saturating_add(interval_ns);
        // The events are also in the mint's status.
        let _ = self.mint.sample(clock.reading());
        true
    }

    fn error_of(&self, refusal: Refusal) -> MakeError {
        let has_time = refusal.is_overload();
        match (refusal, &self.save_error) {
            (Refusal::Clock(fault), _) => MakeError::Clock(fault),
            (Refusal::Busy { ahead_ms, max_borrow_ms }, _) if has_time => MakeError::Busy { ahead_ms, max_borrow_ms },
            (Refusal::Busy { ahead_ms, .. }, _) => MakeError::Ahead { ahead_ms },
            (Refusal::EndOfTime { last_unix_ms }, _) => MakeError::EndOfTime { last_unix_ms },
            (Refusal::Save { .. } | Refusal::ClaimLost(_), Some(error)) => MakeError::Save(Arc::clone(error)),
            // Other refusals concern named generators, claim stores and queues, which a maker has not, or a closed
            // mint.
            (refusal, _) => unreachable!("a maker's mint has refused: {refusal:?}"),
        }
    }
}

/// Converts a poisoned lock: a panic of another thread may have left any state.
fn panicked<T>(_: PoisonError<T>) -> MakeError {
    MakeError::Panicked
}

impl<C: Clock, D: Disk> Maker<C, D> {
    /// Begins at `start`, and writes the found point, so that an unwritable disk is detected now.
    ///
    /// No time of the clock is written before the first ID: a clock that is wrong until it is set leaves no trace.
    pub(super) fn begin(
        clock: C,
        scheme: Scheme,
        limits: Limits,
        mut store: StateFile<D>,
        start: MakerStart,
    ) -> Result<Maker<C, D>, OpenError> {
        if start.found.is_none() || start.is_copy {
            clock.sleep(LOST_LIFE_PAUSE);
        }
        let layout = scheme.layout();
        let reading = clock.reading();
        let point = start.point(layout, limits, reading.wall_unix_ms)?;
        store.save(start.found.unwrap_or(SavePoint::NOTHING)).map_err(OpenError::Save)?;
        let mint = Mint::new(layout, limits, point, reading);
        let state = MintState { mint, is_saving: false, sample_from_ns: 0, save_error: None };
        let path = store.path().to_owned();
        let (state, store) = (Mutex::new(state), Mutex::new(store));
        Ok(Maker { pid: process::id(), clock, scheme, path, state, saved: Condvar::new(), store })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Fails in a fork, whose process number differs. Each call checks: the system does not notify a forked process.
    ///
    /// Process numbers are reused, and each namespace has its own: see the top of `file_maker`.
    fn check_process(&self) -> Result<(), MakeError> {
        let pid = process::id();
        if pid == self.pid { Ok(()) } else { Err(MakeError::Forked { opened_by: self.pid, pid }) }
    }

    fn state(&self) -> Result<MutexGuard<'_, MintState>, MakeError> {
        self.state.lock().map_err(panicked)
    }

    pub(super) fn status(&self) -> Result<Status, MakeError> {
        // In a fork, another thread may have held the lock: there it is never released.
        self.check_process()?;
        Ok(self.state()?.mint.status(self.clock.boot_ns()))
    }

    pub(super) fn next(&self) -> Result<Id, MakeError> {
        let Reservation { first, count, .. } = self.reserve(1, false)?;
        Ok(self.scheme.id(first, count))
    }

    pub(super) fn next_many(&self, n: u32) -> Result<Vec<Id>, MakeError> {
        if n > IDS_MAX {
            return Err(MakeError::TooMany { n, max: IDS_MAX });
        }
        let mut ids = Vec::with_capacity(n as usize);
        let mut left = n;
        while left > 0 {
            let reservation = self.reserve(left, left < n)?;
            left -= reservation.len;
            ids.extend(self.scheme.ids(reservation));
        }
        Ok(ids)
    }

    /// Reserves up to `n` slots, at least one. `begun`: whether the call has already received some.
    fn reserve(&self, n: u32, begun: bool) -> Result<Reservation, MakeError> {
        self.check_process()?;
        let mut state = self.state()?;
        let mut boot_ns = self.clock.boot_ns();
        let mut began_boot_ns = boot_ns;
        let (mut has_saved, mut is_blocked) = (false, false);
        loop {
            if state.sample(&self.clock, boot_ns) || is_blocked {
                // A save is due before the first ID, then about once a second, seconds ahead of need.
                if let Some(point) = state.mint.due_save(boot_ns) {
                    state = self.save(state, point)?;
                    if !std::mem::replace(&mut has_saved, true) {
                        // However slow the disk is, a call that is alone gets its IDs.
                        began_boot_ns = self.clock.boot_ns();
                    }
                }
            }
            // After a save the draw uses the time before it. So there is room however long the save took, unless other
            // threads have read a later time meanwhile.
            match state.mint.draw(boot_ns, n, begun) {
                Ok(reservation) => return Ok(reservation),
                Err(blocked) => state = self.wait(state, blocked, began_boot_ns, begun)?,
            }
            boot_ns = self.clock.boot_ns();
            is_blocked = true;
        }
    }

    /// Writes `point` while other threads continue, and reports the result.
    fn save<'a>(
        &'a self,
        mut state: MutexGuard<'a, MintState>,
        point: SavePoint,
    ) -> Result<MutexGuard<'a, MintState>, MakeError> {
        state.is_saving = true;
        drop(state);
        let result = self.store.lock().map_err(panicked)?.save(point);
        let mut state = self.state()?;
        state.is_saving = false;
        self.saved.notify_all();
        match result {
            Ok(()) => {
                state.mint.saved(point);
                state.save_error = None;
            }
            Err(error) => {
                let text = Arc::from(error.to_string());
                match error {
                    SaveError::Io { .. } => state.mint.save_failed(text),
                    SaveError::Lost { .. } => state.mint.claim_lost(text),
                }
                state.save_error = Some(Arc::new(error));
            }
        }
        Ok(state)
    }

    /// Waits for the end of what blocks a draw, while other threads continue; until [`WAIT_MS_MAX`] after
    /// `began_boot_ns`.
    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, MintState>,
        blocked: Blocked,
        began_boot_ns: u64,
        begun: bool,
    ) -> Result<MutexGuard<'a, MintState>, MakeError> {
        let boot_ns = self.clock.boot_ns();
        let waited = Duration::from_nanos(boot_ns.saturating_sub(began_boot_ns));
        let left = Duration::from_millis(WAIT_MS_MAX).saturating_sub(waited);
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        match blocked {
            Blocked::Refused(refusal) => Err(state.error_of(refusal)),
            // A caller whose save has panicked reports no end of it.
            Blocked::Watermark if self.store.is_poisoned() => Err(MakeError::Panicked),
            Blocked::Watermark if left.is_zero() => {
                Err(MakeError::SlowDisk { waited_ms, lead_ms: state.mint.limits().lead_ms })
            }
            Blocked::Watermark if state.is_saving => self.clock.wait(&self.saved, state, left).map_err(panicked),
            // This caller must save.
            Blocked::Watermark => Ok(state),
            Blocked::Borrow { until_boot_ns } => {
                let late_ms = state.mint.late_ms(boot_ns);
                if late_ms > LATE_MS_MAX && !begun {
                    // The file's time is past the clock's.
                    let ahead_ms = state.mint.limits().max_borrow_ms.saturating_add(late_ms);
                    return Err(MakeError::Ahead { ahead_ms });
                }
                if left.is_zero() {
                    let capacity_per_s = self.scheme.layout().capacity_per_s();
                    return Err(MakeError::Overload { waited_ms, capacity_per_s });
                }
                drop(state);
                self.clock.sleep(Duration::from_nanos(until_boot_ns.saturating_sub(boot_ns)).min(left));
                self.state()
            }
        }
    }

    /// Writes where this life has ended. Without it the next start waits for up to 200 ms.
    ///
    /// Does nothing if there is nothing to write, or it must not be written, as in a fork or after a panic.
    pub(super) fn close(&mut self) -> Result<(), SaveError> {
        if self.check_process().is_ok()
            && let (Ok(state), Ok(store)) = (self.state.get_mut(), self.store.get_mut())
            && let Some(point) = state.mint.close()
        {
            return store.save(point);
        }
        Ok(())
    }

    /// Returns the store, if this process may use it.
    pub(super) fn store(&mut self) -> Option<&mut StateFile<D>> {
        self.check_process().ok()?;
        self.store.get_mut().ok()
    }
}
