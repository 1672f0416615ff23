//! Draws of named generators, each from its own line, under the R, B and watermark of all.
//!
//! An added line begins past R + B and past the start of this life, so that it repeats no ID of its name.
//!
//! A save holds the declarations of all lines that existed when it was wanted. A line gives nothing before such a save
//! has succeeded: so every ID has a record of its declaration.

use super::{Mint, WAIT_MS_MAX};
use crate::checks::{Fault, any_planted, planted};
use crate::limits::BorrowPolicy;
use crate::line::{Line, LineSpec};
use crate::refusal::{Blocked, Overload, Refusal};
use crate::scheme::Reservation;
use crate::status::LineStatus;
use crate::time::{Slot, Tick};

impl Mint {
    /// Adds a line, and returns its index: 0, 1, ... in the order of adding, fixed for the life.
    ///
    /// The line gives nothing before a save has succeeded that [`Mint::due_save`] returns from now on, and whose
    /// record holds the declaration. A line added before the life's first ID begins where the life does, later at R +
    /// B: in its first unit that begins there or later.
    ///
    /// Lines are never removed. A generator that is no longer configured is not drawn from, and its position stays in
    /// the saved point. If it returns with the same declaration, it is drawn from again.
    ///
    /// # Panics
    ///
    /// Panics if a number of `spec` is out of its documented range.
    pub fn add_line(&mut self, spec: LineSpec) -> usize {
        let mut line = Line::new(spec, self.layout.epoch());
        line.start_at(self.start_of_line());
        line.limit_pieces(self.max_borrow_ms);
        self.lines.all.push(line);
        // Its declaration has to be saved.
        self.save_from = Slot(0);
        self.lines.all.len() - 1
    }

    /// Returns the start of a line that is added now.
    pub(super) fn start_of_line(&self) -> Tick {
        let now = self.clock.at(0);
        if self.is_fresh() {
            return if planted(Fault::LineStartsAtClock) { now } else { self.start.position };
        }
        if planted(Fault::LineAddedAtClock) {
            return now;
        }
        // The largest B by which this life may have given IDs, under this name too.
        let max_borrow_ms = self.highest_borrow_limit_ms.max(self.max_borrow_ms);
        self.start.position.max(now.plus_ms(max_borrow_ms))
    }

    /// Returns the number of lines whose declarations the save in flight must hold, those with the lowest indices.
    /// [`Mint::due_save`] sets it.
    pub fn lines_in_save(&self) -> usize {
        self.lines.in_save()
    }

    /// Reserves slots of a line, as [`Mint::draw`] does: slots (`unit << counter_bits | counter`) and count are the
    /// line's own. [`Mint::is_save_due`] holds for it too.
    ///
    /// # Errors
    ///
    /// Fails with [`Blocked`], and no slot is used. [`Refusal::EndOfTime`] and [`Refusal::BeforeEpoch`] concern only
    /// this line.
    ///
    /// # Panics
    ///
    /// Panics if there is no such line.
    #[inline]
    pub fn draw_line(&mut self, boot_ns: u64, line: usize, n: u32, begun: bool) -> Result<Reservation, Blocked> {
        let now_ns = self.clock.advance_ns(boot_ns);
        let ceiling = self.ceiling_of_line(now_ns, line);
        let drawn = &mut self.lines.all[line];
        if (1..=drawn.piece_max()).contains(&n)
            && let Some(reservation) = drawn.reserve(now_ns, n, ceiling)
        {
            self.note_given(line, n);
            return Ok(reservation);
        }
        self.draw_line_near_a_bound(now_ns, line, n, begun)
    }

    #[inline]
    fn ceiling_of_line(&self, now_ns: u64, line: usize) -> Tick {
        if self.lines.is_declared(line) { self.ceiling(Tick::of_ns(now_ns)) } else { Tick(0) }
    }

    #[inline]
    fn note_given(&mut self, line: usize, n: u32) {
        let position = self.lines.all[line].position();
        if self.lines.note_given(position, n) {
            self.save_from = Slot(0);
        }
        debug_assert!(any_planted() || position <= self.watermark.lowest(), "given units begin before the watermark");
    }

    #[cold]
    fn draw_line_near_a_bound(
        &mut self,
        now_ns: u64,
        line: usize,
        n: u32,
        begun: bool,
    ) -> Result<Reservation, Blocked> {
        assert!(n > 0, "a draw of no ids");
        let available = self.available_of_line(now_ns, line, n, begun).inspect_err(|blocked| {
            if matches!(blocked, Blocked::Watermark | Blocked::Refused(Refusal::Save { .. })) {
                let needed = self.lines.all[line].begin_with(now_ns, 1);
                if self.lines.want(needed) {
                    self.save_from = Slot(0);
                }
            }
        })?;
        let ceiling = self.ceiling_of_line(now_ns, line);
        // There is room: `available_of_line` has checked it.
        let reservation = self.lines.all[line].reserve(now_ns, available, ceiling).ok_or(Blocked::Watermark)?;
        self.note_given(line, available);
        Ok(reservation)
    }

    /// Checks whether a draw of one ID of a line would be served, without drawing.
    ///
    /// # Errors
    ///
    /// Fails as [`Mint::draw_line`] does.
    pub fn can_draw_line(&self, boot_ns: u64, line: usize) -> Result<(), Blocked> {
        self.available_of_line(self.clock.read_ns(boot_ns), line, 1, false).map(drop)
    }

    /// Returns how many slots a draw would get, at least one.
    fn available_of_line(&self, now_ns: u64, line: usize, n: u32, begun: bool) -> Result<u32, Blocked> {
        self.check_open()?;
        let now = Tick::of_ns(now_ns);
        let drawn = &self.lines.all[line];
        if drawn.is_before_epoch(now_ns) {
            let reference_unix_ms = now.unix_ms(self.layout.epoch());
            let epoch_unix_ms = drawn.epoch_unix_ms();
            return Err(Blocked::Refused(Refusal::BeforeEpoch { reference_unix_ms, epoch_unix_ms }));
        }
        if u64::from(n) > drawn.room(now_ns, Tick::END) {
            return Err(Blocked::Refused(Refusal::EndOfTime { last_unix_ms: drawn.last_unix_ms() }));
        }
        let piece = n.min(drawn.piece_max());
        let in_limit = drawn.room(now_ns, Tick(now.0 + self.max_borrow_ms));
        if in_limit < u64::from(piece) && self.limits.policy == BorrowPolicy::Error && !begun {
            let ahead_ms = drawn.begin_with(now_ns, piece).ms_since(now);
            return Err(Blocked::Refused(Refusal::Busy { ahead_ms, max_borrow_ms: self.max_borrow_ms }));
        }
        if in_limit == 0 {
            let sensible = piece.min(drawn.slots_in(WAIT_MS_MAX.min(self.max_borrow_ms)));
            let last = drawn.begin_with(now_ns, sensible);
            let until_boot_ns = self.boot_ns_below(Tick(last.0 + 1));
            return Err(Blocked::Borrow { until_boot_ns });
        }
        match drawn.room(now_ns, self.ceiling_of_line(now_ns, line)) {
            0 => Err(self.watermark.blocked()),
            room => Ok(u32::try_from(room).map_or(piece, |room| room.min(piece))),
        }
    }

    /// Returns the time until a line's first free slot is within the borrow limit, ms; 0: it is.
    pub fn late_ms_line(&self, boot_ns: u64, line: usize) -> u64 {
        self.lines.all[line].ahead_ms(Tick(self.clock.at(boot_ns).0 + self.max_borrow_ms))
    }

    /// Returns the largest reservation of one draw of a line: half of B.
    pub fn line_piece_max(&self, line: usize) -> u32 {
        self.lines.all[line].piece_max()
    }

    /// Returns the refusal of a draw of a line that would have to wait too long.
    pub fn overload_line(&self, line: usize, overload: Overload) -> Refusal {
        let Overload { wait_ms, max_wait_ms, late_ms, asked_per_s } = overload;
        self.too_late(late_ms, max_wait_ms).unwrap_or_else(|| {
            let capacity_per_s = self.lines.all[line].capacity_per_s();
            Refusal::NamedOverload { wait_ms, max_wait_ms, asked_per_s, capacity_per_s }
        })
    }

    /// Returns a line's state for INFO.
    pub fn line_status(&self, boot_ns: u64, line: usize) -> LineStatus {
        let status = &self.lines.all[line];
        LineStatus {
            ids_issued: status.count(),
            next: status.next(),
            ahead_ms: status.ahead_ms(self.clock.at(boot_ns)),
            last_unix_ms: status.last_unix_ms(),
            capacity_per_s: status.capacity_per_s(),
            is_declared: self.lines.is_declared(line),
        }
    }
}
