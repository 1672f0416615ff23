//! A generator's own state, under the lock that all share: the queue of draws that wait for its IDs, its demand, and
//! its counters. The mint decides which IDs may be given.

use std::sync::Arc;
use std::task::Waker;

use getid_core::server::checks::{Fault, planted};
use getid_core::{Blocked, Mint, NamedGenerator, Overload, Refusal, Reservation, Slot};

use super::demand::Demand;
use super::queue::{DrawNotAdmitted, FairQueue};
use super::wait_slot::WaitSlot;

/// Source of a generator's IDs.
#[derive(Clone, Copy, Debug)]
pub(super) enum SourceSlots {
    /// The mint's own slots: the unnamed generator.
    Slots,
    /// The mint's line with this index.
    Line(usize),
    /// A kind without time: its IDs are only counted, and always available.
    Count(u64),
    /// None: the generator was redeclared.
    Retired,
}

#[derive(Debug)]
pub(super) struct IdSource {
    place: SourceSlots,
    pub(super) queue: FairQueue<Arc<WaitSlot>>,
    demand: Demand,
    /// Number of draws that had to wait.
    pub(super) waits: u64,
    /// Total duration of these waits, ns.
    pub(super) waited_ns: u64,
    /// Number of refused draws.
    pub(super) refusals: u64,
    /// Number of IDs of the refused draws.
    refused_ids: u64,
}

impl IdSource {
    /// Makes a source without requests before `boot_ns`.
    pub(super) fn new(place: SourceSlots, ids_per_s: u64, max_wait_ms: u64, boot_ns: u64) -> IdSource {
        IdSource {
            place,
            queue: FairQueue::new(ids_per_s, max_wait_ms),
            demand: Demand::new(boot_ns),
            waits: 0,
            waited_ns: 0,
            refusals: 0,
            refused_ids: 0,
        }
    }

    pub(super) fn place(&self) -> SourceSlots {
        self.place
    }

    #[inline]
    pub(super) fn draw(&mut self, mint: &mut Mint, boot_ns: u64, n: u32, begun: bool) -> Result<Reservation, Blocked> {
        match &mut self.place {
            SourceSlots::Slots => mint.draw(boot_ns, n, begun),
            SourceSlots::Line(line) => mint.draw_line(boot_ns, *line, n, begun),
            SourceSlots::Count(given) => {
                if let Some(refusal) = mint.standby() {
                    return Err(Blocked::Refused(refusal.clone()));
                }
                let count = *given;
                *given = given.wrapping_add(u64::from(n));
                Ok(Reservation { first: Slot(0), count, len: n })
            }
            SourceSlots::Retired => Err(Blocked::Refused(Refusal::Redeclared)),
        }
    }

    pub(super) fn can_draw(&self, mint: &Mint, boot_ns: u64) -> Result<(), Blocked> {
        match self.place {
            SourceSlots::Slots => mint.can_draw(boot_ns),
            SourceSlots::Line(line) => mint.can_draw_line(boot_ns, line),
            SourceSlots::Count(_) => mint.standby().map_or(Ok(()), |refusal| Err(Blocked::Refused(refusal.clone()))),
            SourceSlots::Retired => Err(Blocked::Refused(Refusal::Redeclared)),
        }
    }

    /// Returns the number of IDs given in this life.
    pub(super) fn issued(&self, mint: &Mint, boot_ns: u64) -> u64 {
        match self.place {
            SourceSlots::Slots => mint.ids_issued(),
            SourceSlots::Line(line) => mint.line_status(boot_ns, line).ids_issued,
            SourceSlots::Count(given) => given,
            SourceSlots::Retired => 0,
        }
    }

    /// Checks whether a draw of `n` may wait.
    pub(super) fn admit(&self, mint: &Mint, boot_ns: u64, n: u32) -> Result<(), Refusal> {
        let late_ms = match self.place {
            SourceSlots::Slots => mint.late_ms(boot_ns),
            SourceSlots::Line(line) => mint.late_ms_line(boot_ns, line),
            SourceSlots::Count(_) | SourceSlots::Retired => 0,
        };
        let Err(DrawNotAdmitted { wait_ms, max_wait_ms }) = self.queue.admit(n, late_ms) else { return Ok(()) };
        let queued = self.queue.queued() + u64::from(n);
        let asked_per_s = self.demand.at(boot_ns, self.settled(mint, boot_ns), queued);
        let overload = Overload { wait_ms, max_wait_ms, late_ms, asked_per_s };
        Err(match self.place {
            SourceSlots::Line(line) => mint.overload_line(line, overload),
            SourceSlots::Slots | SourceSlots::Count(_) | SourceSlots::Retired => mint.overload(overload),
        })
    }

    /// Counts a refused draw, which misses `n` IDs.
    pub(super) fn note_refused(&mut self, n: u32) {
        self.refusals += 1;
        self.refused_ids = self.refused_ids.saturating_add(u64::from(n));
    }

    /// Returns why a draw of one ID would be refused now, if so; and whether it would wait for a save.
    pub(super) fn refusing(&self, mint: &Mint, boot_ns: u64) -> (Option<Refusal>, bool) {
        let next_draw = self.can_draw(mint, boot_ns);
        let awaits_save = next_draw == Err(Blocked::Watermark);
        let refusing = match next_draw {
            Err(Blocked::Refused(refusal)) => Some(refusal),
            // A draw that is not served at once is refused if it would wait too long.
            Ok(()) | Err(Blocked::Watermark | Blocked::Borrow { .. }) => self.admit(mint, boot_ns, 1).err(),
        };
        (refusing, awaits_save)
    }

    /// Refuses all waiting draws. The caller wakes the wakers once the lock is released.
    pub(super) fn refuse_waiting(&mut self, refusal: &Refusal, wakers: &mut Vec<Waker>) {
        while let Some((ticket, missing, _)) = self.queue.eldest() {
            self.note_refused(missing);
            wakers.extend(self.queue.leave(ticket).and_then(|slot| slot.end(Err(refusal.clone()))));
        }
    }

    /// Stops giving IDs permanently.
    pub(super) fn retire(&mut self, wakers: &mut Vec<Waker>) {
        if planted(Fault::RedeclaredGoesOn) {
            return;
        }
        self.place = SourceSlots::Retired;
        self.refuse_waiting(&Refusal::Redeclared, wakers);
    }

    /// Samples the demand, about ten times a second.
    pub(super) fn sample(&mut self, mint: &Mint, boot_ns: u64) {
        let settled = self.settled(mint, boot_ns);
        self.demand.sample(boot_ns, settled, self.queue.queued());
    }

    pub(super) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Returns the number of IDs given or refused since the start.
    fn settled(&self, mint: &Mint, boot_ns: u64) -> u64 {
        self.issued(mint, boot_ns).saturating_add(self.refused_ids)
    }
}

/// A generator that had a name in this life.
pub(super) struct IssuerNamed {
    pub(super) generator: Arc<NamedGenerator>,
    pub(super) source: IdSource,
}
