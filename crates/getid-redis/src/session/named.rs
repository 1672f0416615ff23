//! The part of a turn that draws from named generators.
//!
//! It is separate from the turn's other replies, which only refer to it by position. So a turn without named generators
//! does no work for them, and any other turn draws from each generator once.
//!
//! Invariant: the `ids` of a draw are the sum of the counts of its replies.

use getid_core::{NamedGenerator, Reservation};
use getid_seal::Sealer;

use crate::command::too_wide;
use crate::resp::{self, ErrorReply, IdWriter};

/// Maximum number of generators in one turn; a turn with this many ends.
pub(super) const DRAWS_MAX: usize = 64;

/// Number of replies for which a turn keeps memory, 24 KB: of a pipeline in which every request differs from the one
/// before.
const REPLIES_KEPT: usize = 512;

/// Maximum size of the frame around a text ID on the wire, bytes: `$128`, two line ends.
pub(super) const TEXT_FRAME_BYTES: usize = 8;

/// A turn's draw from one named generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedDraw {
    /// The generator's index in the server's registry.
    pub generator: usize,
    /// Number of IDs to draw.
    pub ids: u32,
    /// The generator's place among those of the session's settings.
    pub(super) place: usize,
    /// Cost of one of this generator's IDs for the turn's bound, in IDs of the unnamed generator.
    pub(super) cost: u32,
}

/// One command, or several equal ones, that get IDs of a named generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedReply {
    /// Index of the turn's named draw.
    pub draw: usize,
    /// Number of IDs, at least 1.
    pub count: u32,
    /// Form of the IDs in the reply.
    pub form: ReplyForm,
    /// The request's field values, placed in the ID.
    pub(super) request: u128,
}

/// Form in which IDs are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// Each ID to a command of its own.
    Each,
    /// As bulk strings in an array, to one command.
    Array,
    /// Not returned, since `CLIENT REPLY` suppresses the replies.
    Suppressed,
}

/// Named draws and replies of a turn.
#[derive(Debug, Default)]
pub(super) struct NamedTurn {
    pub(super) draws: Vec<NamedDraw>,
    pub(super) replies: Vec<NamedReply>,
}

impl NamedTurn {
    pub(super) fn clear(&mut self) {
        self.draws.clear();
        self.replies.clear();
        if self.replies.capacity() > 2 * REPLIES_KEPT {
            self.replies.shrink_to(REPLIES_KEPT);
        }
    }

    pub(super) fn shrink(&mut self) {
        self.draws.shrink_to_fit();
        self.replies.shrink_to_fit();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.draws.capacity() * size_of::<NamedDraw>() + self.replies.capacity() * size_of::<NamedReply>()
    }
}

/// Slots drawn for the named draws of a turn, in their order. Made once and reused.
#[derive(Debug, Default)]
pub struct NamedDrawResults {
    parts: Vec<NamedPart>,
    /// Number of parts of this turn; the others keep their memory.
    used: usize,
}

/// Slots drawn for one named draw.
#[derive(Debug, Default)]
pub struct NamedPart {
    /// The slots, ascending.
    pub reservations: Vec<Reservation>,
    /// Error that replaces each remaining reply, if there are no more.
    pub refused: Option<ErrorReply>,
    /// Number of `GETID` and of `MGETID` that got an error because a number has more digits than its format.
    pub too_wide: [u32; 2],
    /// Index of the next ID's reservation.
    at: usize,
    taken: u32,
}

impl NamedDrawResults {
    /// Clears it for this many draws.
    pub fn begin(&mut self, draws: usize) {
        if self.parts.len() < draws {
            self.parts.resize_with(draws, NamedPart::default);
        }
        self.used = draws;
        for part in &mut self.parts[..draws] {
            part.reservations.clear();
            (part.refused, part.too_wide, part.at, part.taken) = (None, [0; 2], 0, 0);
        }
    }

    /// Returns the part of the draw with this number.
    pub fn part(&mut self, draw: usize) -> Option<&mut NamedPart> {
        self.parts[..self.used].get_mut(draw)
    }

    /// Returns the parts of all draws.
    pub fn parts(&self) -> &[NamedPart] {
        &self.parts[..self.used]
    }

    /// Releases unneeded memory.
    pub fn shrink(&mut self) {
        self.parts.truncate(self.used);
        self.parts.shrink_to_fit();
        self.parts.iter_mut().for_each(|part| part.reservations.shrink_to_fit());
    }

    /// Returns the memory held, bytes.
    pub fn memory_bytes(&self) -> usize {
        let own = self.parts.capacity() * size_of::<NamedPart>();
        own + self.parts.iter().map(NamedPart::memory_bytes).sum::<usize>()
    }
}

impl NamedPart {
    /// Returns the number of IDs left.
    pub fn left(&self) -> u32 {
        let drawn: u32 = self.reservations[self.at.min(self.reservations.len())..].iter().map(|drawn| drawn.len).sum();
        drawn - self.taken
    }

    /// Removes the taken slots, so that only the rest remains.
    pub(super) fn forget_taken(&mut self) {
        self.reservations.drain(..self.at);
        if let Some(first) = self.reservations.first_mut() {
            first.drop_front(self.taken);
        }
        (self.at, self.taken) = (0, 0);
    }

    fn memory_bytes(&self) -> usize {
        let refused = self.refused.as_ref().map_or(0, |error| error.text.len());
        self.reservations.capacity() * size_of::<Reservation>() + refused
    }

    /// Calls `write` with slot and number of each of the next `count` IDs, until it returns false; all of them are
    /// taken.
    #[inline]
    fn each(&mut self, mut count: u32, mut write: impl FnMut(u64, u64) -> bool) {
        let mut has_room = true;
        while count > 0 {
            let drawn = self.reservations.get(self.at).expect("a turn is written with the IDs it requested");
            let taken = count.min(drawn.len - self.taken);
            let mut ids = (0..taken).map(|id| u64::from(self.taken + id));
            has_room = has_room && ids.all(|id| write(drawn.first.0 + id, drawn.count.wrapping_add(id)));
            self.taken += taken;
            count -= taken;
            if self.taken == drawn.len {
                self.at += 1;
                self.taken = 0;
            }
        }
    }

    /// Appends the errors of a reply whose draw was refused. Returns false if it was not.
    fn write_refused(&self, reply: NamedReply, output: &mut Vec<u8>) -> bool {
        let Some(error) = &self.refused else { return false };
        let errors = match reply.form {
            ReplyForm::Each => reply.count,
            ReplyForm::Array => 1,
            ReplyForm::Suppressed => 0,
        };
        (0..errors).for_each(|_| resp::write_error(error, output));
        true
    }

    /// Appends one reply, or several equal ones, with sealed texts. A sealed generator has no noise.
    pub(super) fn write_sealed(
        &mut self,
        reply: NamedReply,
        generator: &NamedGenerator,
        sealer: &Sealer,
        output: &mut Vec<u8>,
    ) {
        let NamedReply { count, form, request, .. } = reply;
        if self.write_refused(reply, output) {
            return;
        }
        if form == ReplyForm::Suppressed {
            return self.each(count, |_, _| true);
        }
        if form == ReplyForm::Array {
            resp::write_array_header(count as usize, output);
        }
        output.reserve(count as usize * (sealer.text_chars() + TEXT_FRAME_BYTES));
        self.each(count, |slot, nth| {
            write_sealed(generator.number(slot, nth, 0, request), sealer, output);
            true
        });
    }

    /// Appends one reply, or several equal ones.
    pub(super) fn write(
        &mut self,
        reply: NamedReply,
        generator: &NamedGenerator,
        noise: &mut dyn FnMut() -> u128,
        output: &mut Vec<u8>,
    ) {
        let NamedReply { count, form, request, .. } = reply;
        if self.write_refused(reply, output) {
            return;
        }
        let has_noise = generator.has_noise();
        let mut number = |slot, nth| generator.number(slot, nth, if has_noise { noise() } else { 0 }, request);
        let start = output.len();
        if form == ReplyForm::Suppressed {
            return self.each(count, |_, _| true);
        }
        if form == ReplyForm::Array {
            resp::write_array_header(count as usize, output);
        }
        if generator.is_integer() {
            // A single ID gains nothing from a writer of runs.
            if (count, form) == (1, ReplyForm::Each) {
                return self.each(1, |slot, nth| {
                    resp::write_id(u64::try_from(number(slot, nth)).unwrap_or(u64::MAX), output);
                    true
                });
            }
            let mut writer = if form == ReplyForm::Array { IdWriter::bulks() } else { IdWriter::integers() };
            output.reserve(count as usize * resp::ID_BYTES_MAX);
            self.each(count, |slot, nth| {
                // An integer has at most 63 bits.
                writer.write(u64::try_from(number(slot, nth)).unwrap_or(u64::MAX), output);
                true
            });
            return;
        }
        let (mut writer, mut errors) = (TextWriter::new(generator), 0);
        output.reserve(count as usize * (generator.id_bytes_max() + TEXT_FRAME_BYTES));
        self.each(count, |slot, nth| {
            let number = number(slot, nth);
            if writer.write(number, output) {
                return true;
            }
            if form == ReplyForm::Array {
                output.truncate(start);
            }
            resp::write_error(too_wide(generator, number), output);
            errors += 1;
            form == ReplyForm::Each
        });
        self.too_wide[usize::from(form == ReplyForm::Array)] += errors;
    }
}

/// Appends a sealed ID as a bulk string. The integers of a sealed generator have at most 63 bits.
pub(super) fn write_sealed(number: impl TryInto<u64>, sealer: &Sealer, output: &mut Vec<u8>) {
    let number = number.try_into().unwrap_or(u64::MAX);
    match sealer.seal(number) {
        Ok(text) => resp::write_bulk(text.as_bytes(), output),
        Err(error) => resp::write_error(ErrorReply::from(format!("ERR {error}")), output),
    }
}

/// Writer of one generator's text IDs as bulk strings.
struct TextWriter<'a> {
    generator: &'a NamedGenerator,
    /// Length of the last ID; nearly always the next one has the same.
    len: usize,
}

impl TextWriter<'_> {
    fn new(generator: &NamedGenerator) -> TextWriter<'_> {
        TextWriter { generator, len: generator.id_bytes_max() }
    }

    /// Appends one ID. Returns false, without output, if the format has no room for it.
    #[inline]
    fn write(&mut self, number: u128, output: &mut Vec<u8>) -> bool {
        let start = output.len();
        loop {
            resp::write_bulk_header(self.len, output);
            let text = output.len();
            if !self.generator.declaration().write(number, output) {
                output.truncate(start);
                return false;
            }
            let len = output.len() - text;
            if len == self.len {
                break;
            }
            // Writes it again after a header of the right length.
            self.len = len;
            output.truncate(start);
        }
        output.extend_from_slice(b"\r\n");
        true
    }
}
