//! The part of a turn that draws from sequences.
//!
//! As with named generators, it is separate from the turn's other replies and costs nothing in a turn without it. A
//! turn draws from each sequence once, at whatever position its commands are. So it keeps each sequence with its name
//! and hash, and links its requests in the order of commands. The drawn values are in this order too, and each reply
//! takes its values from the front.
//!
//! Elsewhere: checks of names (`commands/sequences.rs`), and the source of the values.
//!
//! Invariants: each sequence has one draw; the replies of a draw, linked from `first` to `last`, are in the order of
//! commands.

use std::sync::Arc;

use getid_core::server::{CivilTime, CounterDeclaration, CounterKind, Run, SequenceRequest};
use getid_core::{Format, Notation};
use getid_seal::Sealer;

use super::benchmark;
use super::named::write_sealed;
use super::tally::ErrorCode;
use crate::command::{Verb, no_code};
use crate::resp::{self, ErrorKind, ErrorReply, IdWriter, Protocol};

/// Maximum number of sequences in one turn; a turn with this many ends.
pub(super) const DRAWS_MAX: usize = 128;

/// Size of the hash table of draws, one place for each value of a byte. At least half of the places are free, so that a
/// search is short.
const PLACES: usize = 256;

const _: () = assert!(PLACES >= 2 * DRAWS_MAX);

/// Number of replies for which a turn keeps memory, 10 KB: of a pipeline in which every request differs from the one
/// before.
const REPLIES_KEPT: usize = 512;

/// End of a linked list of replies.
const END: u32 = u32::MAX;

/// A turn's draw from one sequence.
#[derive(Clone, Copy, Debug)]
pub struct SequenceDraw {
    /// Hash of its name.
    pub hash: u64,
    /// Place of the counter that draws from it among those of the session's settings, if any.
    pub(super) counter: Option<usize>,
    /// Range of its name in `names`.
    name: (usize, usize),
    /// Indices of its first and last reply.
    first: u32,
    last: u32,
}

impl SequenceDraw {
    /// Returns true if the draw is for a counter.
    pub fn is_counter(&self) -> bool {
        self.counter.is_some()
    }
}

/// One command, or several equal ones, that get values of a sequence. Each is answered with its last value; a command
/// for a counter with all of them.
#[derive(Clone, Copy, Debug)]
pub struct SequenceReply {
    /// Index of the turn's sequence draw.
    pub draw: u32,
    /// The command.
    pub verb: Verb,
    /// Number of commands, and number of values for each of them.
    pub ask: SequenceRequest,
    /// Index of the draw's next reply.
    next: u32,
}

/// Sequence draws and replies of a turn.
#[derive(Debug, Default)]
pub(super) struct SequenceTurn {
    draws: Vec<SequenceDraw>,
    /// Names of all draws, concatenated.
    names: String,
    pub(super) replies: Vec<SequenceReply>,
    /// By hash: the number of a draw plus 1, or 0. A draw whose place is taken has the next free one.
    places: Vec<u8>,
}

impl SequenceTurn {
    pub(super) fn clear(&mut self) {
        self.draws.clear();
        self.names.clear();
        self.places.clear();
        self.places.resize(PLACES, 0);
        self.replies.clear();
        if self.replies.capacity() > 2 * REPLIES_KEPT {
            self.replies.shrink_to(REPLIES_KEPT);
        }
    }

    pub(super) fn shrink(&mut self) {
        self.draws.shrink_to_fit();
        self.names.shrink_to_fit();
        self.replies.shrink_to_fit();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let names = self.names.capacity() + self.places.capacity();
        let draws = self.draws.capacity() * size_of::<SequenceDraw>();
        names + draws + self.replies.capacity() * size_of::<SequenceReply>()
    }

    pub(super) fn draws(&self) -> &[SequenceDraw] {
        &self.draws
    }

    pub(super) fn name(&self, draw: &SequenceDraw) -> &str {
        &self.names[draw.name.0..draw.name.1]
    }

    /// Returns the draw from the sequence of this name.
    #[inline]
    pub(super) fn find(&self, hash: u64, name: &[u8]) -> Option<usize> {
        let mut place = place_of(hash);
        loop {
            let draw = usize::from(*self.places.get(place)?).checked_sub(1)?;
            let known = self.draws.get(draw)?;
            if known.hash == hash && self.name(known).as_bytes() == name {
                return Some(draw);
            }
            place = (place + 1) % PLACES;
        }
    }

    /// Adds a draw from a sequence that has none yet. There are fewer than [`DRAWS_MAX`].
    pub(super) fn add(&mut self, hash: u64, name: &str, counter: Option<usize>) -> usize {
        debug_assert!(self.draws.len() < DRAWS_MAX && self.find(hash, name.as_bytes()).is_none());
        let start = self.names.len();
        self.names.push_str(name);
        self.draws.push(SequenceDraw { hash, counter, name: (start, self.names.len()), first: END, last: END });
        let mut place = place_of(hash);
        while self.places[place] != 0 {
            place = (place + 1) % PLACES;
        }
        // At most 128.
        self.places[place] = u8::try_from(self.draws.len()).unwrap_or(u8::MAX);
        self.draws.len() - 1
    }

    /// Adds a reply, and returns its number.
    pub(super) fn push(&mut self, draw: usize, verb: Verb, ask: SequenceRequest) -> usize {
        let at = self.replies.len();
        let [number, number_of_draw] = [at, draw].map(|number| u32::try_from(number).unwrap_or(END));
        self.replies.push(SequenceReply { draw: number_of_draw, verb, ask, next: END });
        let draw = &mut self.draws[draw];
        match self.replies.get_mut(draw.last as usize) {
            Some(last) => last.next = number,
            None => draw.first = number,
        }
        draw.last = number;
        at
    }

    /// Returns the requests of a draw in order; equal neighbours are merged.
    pub(super) fn asks(&self, draw: &SequenceDraw) -> impl Iterator<Item = SequenceRequest> {
        let mut next = draw.first;
        std::iter::from_fn(move || {
            let first = self.replies.get(next as usize)?;
            let mut ask = first.ask;
            next = first.next;
            while let Some(more) = self.replies.get(next as usize).filter(|more| more.ask.values == ask.values) {
                ask.times += more.ask.times;
                next = more.next;
            }
            Some(ask)
        })
    }
}

#[inline]
fn place_of(hash: u64) -> usize {
    usize::from(hash.to_le_bytes()[0])
}

/// Removes the first `times` commands from `asks`.
pub fn drop_front(asks: &mut Vec<SequenceRequest>, mut times: u32) {
    let whole = asks.iter().take_while(|ask| {
        let is_whole = ask.times <= times;
        times -= if is_whole { ask.times } else { 0 };
        is_whole
    });
    let whole = whole.count();
    asks.drain(..whole);
    if let Some(first) = asks.first_mut() {
        first.times -= times;
    }
}

/// Values drawn for the sequence draws of a turn, in their order. Made once and reused.
#[derive(Debug, Default)]
pub struct SequenceDrawResults {
    parts: Vec<SequencePart>,
    /// Number of parts of this turn; the others keep their memory.
    used: usize,
}

/// The sequence of a counter in one period.
#[derive(Clone, Debug)]
pub struct CounterPeriod {
    /// Key of the sequence, as text.
    pub key: Arc<str>,
    /// Hash of the key.
    pub hash: u64,
    /// Date parts that the template shows.
    pub stamp: CivilTime,
}

impl CounterPeriod {
    /// Returns the key of its series; empty if it has none.
    fn series(&self) -> &str {
        let rest = self.key.split('@').next().unwrap_or_default();
        rest.split_once('/').map_or("", |(_, series)| series)
    }
}

/// Commands that were answered with an error instead of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedCalls {
    /// The command.
    pub verb: Verb,
    /// Number of its calls.
    pub calls: u32,
    /// Cause of the error.
    pub kind: ErrorKind,
    /// First word of the error.
    pub code: ErrorCode,
}

/// Values drawn for one sequence draw.
#[derive(Debug, Default)]
pub struct SequencePart {
    /// Values, in the order of the asks.
    pub runs: Vec<Run>,
    /// The asks that wait for their values, in order.
    pub left: Vec<SequenceRequest>,
    /// Error of the remaining replies, if there are no more values. Replies take the existing values first.
    pub refused: Option<ErrorReply>,
    /// For a serial number, the period of its counter.
    pub period: Option<CounterPeriod>,
    /// Commands that were answered with an error.
    pub failed: Vec<FailedCalls>,
    /// Run of the next reply's value, and number of commands that were served from it.
    at: usize,
    taken: u32,
}

impl SequenceDrawResults {
    /// Clears it for this many draws.
    #[inline]
    pub fn begin(&mut self, draws: usize) {
        if self.parts.len() < draws {
            self.parts.resize_with(draws, SequencePart::default);
        }
        self.used = draws;
        self.parts[..draws].iter_mut().for_each(SequencePart::clear);
    }

    /// Returns the part of the draw with this number.
    pub fn part(&mut self, draw: usize) -> Option<&mut SequencePart> {
        self.parts[..self.used].get_mut(draw)
    }

    /// Returns the parts of all draws.
    pub fn parts(&self) -> &[SequencePart] {
        &self.parts[..self.used]
    }

    /// Returns the parts of all draws for a change.
    pub fn parts_mut(&mut self) -> &mut [SequencePart] {
        &mut self.parts[..self.used]
    }

    /// Releases unneeded memory.
    pub fn shrink(&mut self) {
        self.parts.truncate(self.used);
        self.parts.shrink_to_fit();
        for part in &mut self.parts {
            part.runs.shrink_to_fit();
            part.left.shrink_to_fit();
            part.failed.shrink_to_fit();
        }
    }

    /// Returns the memory held, bytes.
    pub fn memory_bytes(&self) -> usize {
        let own = self.parts.capacity() * size_of::<SequencePart>();
        own + self.parts.iter().map(SequencePart::memory_bytes).sum::<usize>()
    }

    /// Takes the values of a suppressed reply.
    pub(super) fn skip(&mut self, reply: &SequenceReply) {
        if let Some(part) = self.part(reply.draw as usize) {
            part.each(reply.ask.times, |_| ());
        }
    }

    /// Appends one reply, or several equal ones, of the sequence that `name` returns.
    #[inline]
    pub(super) fn write<'a>(&mut self, reply: &SequenceReply, name: impl FnOnce() -> &'a str, output: &mut Vec<u8>) {
        self.part(reply.draw as usize).expect("there is a part for each draw").write(reply, name, output);
    }
}

impl SequencePart {
    #[inline]
    fn clear(&mut self) {
        self.runs.clear();
        self.left.clear();
        (self.at, self.taken) = (0, 0);
        if self.refused.is_some() {
            self.refused = None;
        }
        self.failed.clear();
        self.period = None;
    }

    /// Forgets the period, so that the rest is drawn from a newer one. Returns false if values of this period are still
    /// to be written.
    pub fn forget_period(&mut self) -> bool {
        let is_unused = self.runs.is_empty();
        if is_unused {
            self.period = None;
        }
        is_unused
    }

    /// Returns true if values are still to be drawn.
    pub fn waits(&self) -> bool {
        self.refused.is_none() && !self.left.is_empty()
    }

    /// Returns the number of commands whose values are drawn.
    pub fn available(&self) -> u32 {
        self.runs.get(self.at..).unwrap_or_default().iter().map(|run| run.times).sum::<u32>() - self.taken
    }

    /// Returns the front of the remaining asks, for at most `times` commands. [`drop_front`] removes it once it is
    /// drawn.
    pub fn left_of(&self, mut times: u32) -> Vec<SequenceRequest> {
        let mut asks = Vec::new();
        for ask in &self.left {
            let part = SequenceRequest { times: ask.times.min(times), ..*ask };
            if part.times == 0 {
                break;
            }
            times -= part.times;
            asks.push(part);
        }
        asks
    }

    /// Removes the taken values, so that only the rest remains.
    pub(super) fn forget_taken(&mut self) {
        self.runs.drain(..self.at);
        if let Some(first) = self.runs.first_mut().filter(|_| self.taken > 0) {
            let skipped = u64::from(self.taken) * u64::from(first.values) * u64::from(first.increment);
            first.first = first.first.saturating_add_unsigned(skipped);
            first.times -= self.taken;
        }
        (self.at, self.taken) = (0, 0);
    }

    fn memory_bytes(&self) -> usize {
        let refused = self.refused.as_ref().map_or(0, |error| error.text.len());
        let asked = self.left.capacity() * size_of::<SequenceRequest>();
        self.runs.capacity() * size_of::<Run>() + asked + refused
    }

    /// Calls `write` with the last value of each of the next `times` commands. Returns how many of them have none.
    #[inline]
    fn each(&mut self, mut times: u32, mut write: impl FnMut(u64)) -> u32 {
        while times > 0 {
            let Some(run) = self.runs.get(self.at) else { return times };
            let end = self.taken + times.min(run.times - self.taken);
            // No value is below 0.
            (self.taken..end).for_each(|nth| write(run.last_of(nth).unsigned_abs()));
            times -= end - self.taken;
            self.taken = end;
            if end == run.times {
                (self.at, self.taken) = (self.at + 1, 0);
            }
        }
        0
    }

    /// Appends one reply, or several equal ones, of the sequence that `name` returns.
    #[inline]
    fn write<'a>(&mut self, reply: &SequenceReply, name: impl FnOnce() -> &'a str, output: &mut Vec<u8>) {
        let SequenceRequest { times, .. } = reply.ask;
        let missing = if times == 1 {
            // A single value gains nothing from a writer of runs.
            self.each(1, |value| resp::write_id(value, output))
        } else {
            let mut writer = IdWriter::integers();
            output.reserve(times as usize * resp::ID_BYTES_MAX);
            self.each(times, |value| writer.write(value, output))
        };
        if missing > 0 && !self.write_note(reply.verb, name(), missing, output) {
            self.write_refused(reply.verb, missing, output);
        }
    }

    /// Appends one reply, or several equal ones, with a counter's IDs.
    pub(super) fn write_ids(
        &mut self,
        reply: &SequenceReply,
        counter: &CounterDeclaration,
        sealer: Option<&Sealer>,
        output: &mut Vec<u8>,
    ) {
        let SequenceRequest { values, times } = reply.ask;
        let period = self.period.clone();
        let shown = period.as_ref().map(|period| (period.stamp, period.series()));
        let (mut left, mut id) = (times, Vec::new());
        while left > 0 {
            let Some(run) = self.runs.get(self.at) else { break };
            let first =
                run.first.saturating_add_unsigned(u64::from(self.taken) * u64::from(values) * u64::from(run.increment));
            let increment = i64::from(run.increment);
            self.taken += 1;
            left -= 1;
            if self.taken == run.times {
                (self.at, self.taken) = (self.at + 1, 0);
            }
            let start = output.len();
            if reply.verb == Verb::MGetId {
                resp::write_array_header(values as usize, output);
            }
            for value in (0..i64::from(values)).map(|nth| first.saturating_add(nth * increment)) {
                if let Some(sealer) = sealer {
                    write_sealed(value, sealer, output);
                    continue;
                }
                id.clear();
                if !write_id(counter, shown, value, reply.verb, &mut id, output) {
                    output.truncate(start);
                    let error = too_many_digits(counter, value);
                    resp::write_error(&error, output);
                    self.note_failed(reply.verb, 1, &error);
                    break;
                }
            }
        }
        if left > 0 {
            self.write_refused(reply.verb, left, output);
        }
    }

    #[cold]
    fn note_failed(&mut self, verb: Verb, times: u32, error: &ErrorReply) {
        let (kind, code) = (error.kind, ErrorCode::of(&error.text));
        match self.failed.iter_mut().find(|failed| (failed.verb, failed.kind) == (verb, kind)) {
            Some(failed) => failed.calls += times,
            None => self.failed.push(FailedCalls { verb, calls: times, kind, code }),
        }
    }

    /// Appends the replies that `redis-benchmark` gets instead of the refusal. Returns false for other requests.
    #[cold]
    fn write_note(&self, verb: Verb, name: &str, times: u32, output: &mut Vec<u8>) -> bool {
        let Some(note) = self.refused.as_ref().and_then(|error| benchmark::incr_reply(verb, name, error)) else {
            return false;
        };
        (0..times).for_each(|_| resp::encode(&note, Protocol::Resp2, output));
        true
    }

    #[cold]
    fn write_refused(&mut self, verb: Verb, times: u32, output: &mut Vec<u8>) {
        let error = self.refused.take().expect("a turn is written with the values it requested");
        (0..times).for_each(|_| resp::write_error(&error, output));
        self.note_failed(verb, times, &error);
        self.refused = Some(error);
    }
}

/// Appends one ID of a counter, which shows a time and the key of a series. Returns false if it has more digits than
/// its format.
fn write_id(
    counter: &CounterDeclaration,
    shown: Option<(CivilTime, &str)>,
    value: i64,
    verb: Verb,
    id: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> bool {
    if verb == Verb::GetId && matches!(counter.kind(), CounterKind::Sequence(None)) {
        resp::write_id(value.unsigned_abs(), output);
        return true;
    }
    let is_written = write_counter_text(counter, shown, value, id);
    if is_written {
        resp::write_bulk(id, output);
    }
    is_written
}

/// Appends the text of one ID of a counter. Returns false if it has more digits than its format.
pub(super) fn write_counter_text(
    counter: &CounterDeclaration,
    shown: Option<(CivilTime, &str)>,
    value: i64,
    id: &mut Vec<u8>,
) -> bool {
    match (counter.kind(), shown) {
        (CounterKind::Sequence(None), _) => {
            id.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            true
        }
        (CounterKind::Sequence(Some(format)), _) => format.write(value.unsigned_abs().into(), id),
        (CounterKind::Serial(serial), Some((stamp, series))) => serial.write(stamp, series, value, id),
        // A serial number is always drawn from a period.
        (CounterKind::Serial(_), None) => false,
    }
}

#[cold]
pub(super) fn too_many_digits(counter: &CounterDeclaration, value: i64) -> ErrorReply {
    let name = counter.name();
    if let CounterKind::Sequence(Some(Format { notation: Notation::Sqids(_), .. })) = counter.kind() {
        return no_code(name, value);
    }
    let text = format!(
        "ERR generator '{name}' is at {value}, which has more digits than its format has room for. Declare a new \
         generator with more, or this one with 'overflow grow', which gives up the order of its texts"
    );
    ErrorReply::new(ErrorKind::Conflict, text)
}
