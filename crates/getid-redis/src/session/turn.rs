//! The result of one read: replies to write, the number of IDs they need, and what the shell must do afterwards.
//!
//! Replies without IDs are encoded at once into the turn's own bytes; a [`ReplyPiece`] only gives the order of the
//! pieces. So a turn is three flat buffers that are reused, and a run of `GETID` is one entry.
//!
//! Requests for named generators and sequences are separate (`named`, `sequences`), and cost nothing in a turn without
//! them.
//!
//! Invariant: `draws` is the sum of all counts in `replies`, and the [`ReplyPiece::Encoded`] lengths sum up to
//! `encoded.len()`.

use getid_core::server::{CounterDeclaration, CounterKind, SequenceRequest};
use getid_core::{Format, Layout, NamedGenerator, Number};

use super::draws::Draws;
use super::effect::Effect;
use super::named::{DRAWS_MAX, NamedDraw, NamedReply, NamedTurn, ReplyForm, TEXT_FRAME_BYTES};
use super::sequences::{self, SequenceDraw, SequenceReply, SequenceTurn};
use super::tally::TurnTally;
use crate::acl::{Denial, Proof};
use crate::command::Verb;
use crate::resp::{self, Decoder, ErrorKind, ErrorReply, Protocol, ProtocolError, Value};

/// Maximum number of IDs of a turn before it ends, without those of the command that exceeds the bound.
///
/// An ID costs up to 26 bytes on the wire (`$19`, the digits, two line ends), so the output of a turn stays below (8192
/// + `id-mgetid-max`) * 26 bytes: 216 KB with the default of 100.
pub const TURN_IDS_MAX: u32 = 8192;

/// A turn holds at most one part in this many of the layout's capacity in `id-max-wait-ms`: 78 ms of the default's
/// 5000.
///
/// A turn draws all of its IDs at once, and is refused as a whole if they would take longer than `id-max-wait-ms` while
/// others wait. In small turns a long pipeline waits as often as it must, and several dozen of them can wait side by
/// side.
const TURNS_A_WAIT: u64 = 64;

/// Returns the maximum number of IDs of a turn with this layout, at least 1: [`TURN_IDS_MAX`], or less if the layout
/// holds few IDs per second.
pub fn turn_ids_max(layout: Layout, max_wait_ms: u64) -> u32 {
    ids_max_at(layout.capacity_per_s(), max_wait_ms)
}

fn ids_max_at(capacity_per_s: u64, max_wait_ms: u64) -> u32 {
    // A product above a u64 is far above the bound too.
    let ids = capacity_per_s.saturating_mul(max_wait_ms) / (1000 * TURNS_A_WAIT);
    u32::try_from(ids).unwrap_or(u32::MAX).clamp(1, TURN_IDS_MAX)
}

/// Returns the cost of one of this generator's IDs in IDs of the unnamed generator, of which a turn holds `ids_max`.
/// The cost keeps a turn's texts within the size of [`TURN_IDS_MAX`], and its draw within what the generator can soon
/// give.
///
/// The widest text in digits is that of a `nanoid`, a prefix of 64 bytes and 128 characters: 200 bytes on the wire,
/// which count as 8 IDs.
pub(super) fn named_cost(generator: &NamedGenerator, ids_max: u32, max_wait_ms: u64) -> u32 {
    let own_max = generator.capacity_per_s().map_or(TURN_IDS_MAX, |per_s| ids_max_at(per_s, max_wait_ms));
    let text = text_cost(generator.is_integer(), generator.id_bytes_max(), generator.declaration().format());
    text.max(ids_max.div_ceil(own_max))
}

/// Cost of a sealed ID, in IDs of the unnamed generator: a seal takes about 2 us, which is 64 IDs of a large `MGETID`.
pub(super) const SEALED_COST: u32 = 64;

/// Returns the cost of one of this counter's IDs, in IDs of the unnamed generator. A sequence is never short of values.
pub(super) fn counter_cost(counter: &CounterDeclaration) -> u32 {
    let format = match counter.kind() {
        CounterKind::Sequence(format) => format.as_ref(),
        CounterKind::Serial(_) => None,
    };
    text_cost(counter.is_integer(), counter.id_bytes_max(), format)
}

/// Cost of a short code for each [`SQIDS_CHARS`] characters, in IDs of the unnamed generator. A code of the
/// library's own alphabet takes about 2 us, and so those of a turn [`TURN_NS_MAX`]. The time grows with the length,
/// whether `pad` or a small alphabet makes the code long: one of 64 characters takes 5.5 times as long.
const SQIDS_COST: u32 = 64;

/// Characters of a Sqid of 63 bits in the library's own alphabet.
const SQIDS_CHARS: usize = 12;

/// Returns the cost of an ID with this format and this size on the wire, in IDs of the unnamed generator, at least 1.
fn text_cost(is_integer: bool, id_bytes_max: usize, format: Option<&Format>) -> u32 {
    if let Some(format) = format.filter(|format| !format.is_ordered()) {
        let chars = id_bytes_max.saturating_sub(format.prefix.len());
        return SQIDS_COST * u32::try_from(chars.div_ceil(SQIDS_CHARS)).unwrap_or(1);
    }
    let bytes = if is_integer { 0 } else { id_bytes_max + TEXT_FRAME_BYTES };
    u32::try_from(bytes.div_ceil(ID_WIRE_BYTES_MAX)).unwrap_or(u32::MAX).max(1)
}

/// Maximum size of an ID of the unnamed generator on the wire, bytes: `$19`, the digits, two line ends.
const ID_WIRE_BYTES_MAX: usize = 26;

/// Maximum size of a turn's encoded replies before it ends, without those of the command that exceeds the bound, bytes.
///
/// The largest single replies are `ECHO` of a large argument, whose sender sent as much, and `COMMAND DOCS`.
pub const TURN_BYTES_MAX: usize = 64 * 1024;

/// Maximum size of a turn's encoded replies to a client that must log in and has not, bytes. A pipeline of `HELLO` is
/// answered with twenty times its size.
pub(super) const UNAUTHENTICATED_TURN_BYTES_MAX: usize = 2 * 1024;

/// Maximum duration of a turn's commands before it ends, without the one that exceeds the bound, ns.
///
/// A small reply may have cost much: a bound on bytes alone would let a pipeline of such commands block a thread for
/// seconds.
pub const TURN_NS_MAX: u64 = 250_000;

/// Capacity that a turn keeps for the next one. The rest of a single large reply is released.
const TURN_BYTES_KEPT: usize = 4 * TURN_BYTES_MAX;

/// Minimum size that a suppressed reply counts, bytes: the request may have cost much with a short reply, as `AUTH`
/// does.
const SUPPRESSED_BYTES_MIN: usize = 64;

/// Size that an empty request counts, bytes.
const SKIPPED_BYTES: usize = 8;

/// One piece of output, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyPiece {
    /// `count` commands that each get one ID as an integer.
    Integers {
        /// Number of commands, at least 1.
        count: u32,
    },
    /// One command that gets an array of `count` IDs as bulk strings.
    Bulks {
        /// Number of IDs, at least 1.
        count: u32,
    },
    /// `count` IDs whose replies `CLIENT REPLY` suppresses. They are drawn, as Redis would run the command.
    Suppressed {
        /// Number of IDs, at least 1.
        count: u32,
    },
    /// The reply with this number in [`Turn::named_reply`].
    Named {
        /// Number of the reply, from 0.
        at: usize,
    },
    /// The reply with this number in [`Turn::sequence_replies`].
    Sequence {
        /// Number of the reply, from 0.
        at: usize,
    },
    /// Several sequence replies that `CLIENT REPLY` suppresses.
    SuppressedSequences {
        /// Number of the first reply.
        from: usize,
        /// Number after that of the last reply.
        to: usize,
    },
    /// The next `len` bytes of the turn's encoded bytes.
    Encoded {
        /// Number of bytes.
        len: usize,
    },
}

/// Fault of a client's input that ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The input is not a request.
    Protocol,
    /// The request is larger than `client-query-buffer-limit`.
    TooLarge,
    /// The input is a line of HTTP: `POST` or `Host:`.
    Http,
}

/// The result of one read. Made once per connection and reused for each read.
#[derive(Debug, Default)]
pub struct Turn {
    /// Number of IDs that the replies need, by kind of generator.
    pub draws: Draws,
    /// Number of commands that ran. As in Redis's `total_commands_processed`, rejected ones do not count, and queued
    /// ones count when `EXEC` runs them.
    pub commands: u32,
    /// Action of the shell after it has written this turn; its answer follows by
    /// [`Session::reply`](super::Session::reply).
    pub effect: Option<Effect>,
    /// Whether the connection ends once this turn (and the answer to its effect) is written.
    pub close: bool,
    /// Fault of the client's input that ends the connection, if any.
    pub broken: Option<Breach>,
    /// Whether to call [`Session::read`](super::Session::read) again with the rest of the input, which may be empty,
    /// before a wait for more bytes: the turn ended at a bound or at an effect.
    pub more: bool,
    /// Whether the first remaining request waits for the end of `CLIENT PAUSE`. `more` is set too, but another read is
    /// useless before that.
    pub held: bool,
    /// Requests refused for lack of permission or a wrong password, for `ACL LOG`. Nearly always empty.
    pub denials: Vec<Denial>,
    /// Number of logins in the first remaining request that lack permits: [`Turn::held`] is set too. See
    /// [`Session::permit_logins`](super::Session::permit_logins).
    pub logins_held: u32,
    /// Whether there are denials, or a login that other connections must see before it is answered, or permits to log
    /// in, or a new subscription.
    pub has_rare_work: bool,
    /// Whether the client has subscribed to a channel or pattern: it gets messages from the write of this turn on.
    pub has_subscribed: bool,
    /// The login that ends the turn. No later request is read before other connections can see the client's user and
    /// [`Session::confirm_login`](super::Session::confirm_login) was called: the password may have been replaced since.
    pub login: Option<Proof>,
    /// Minimum number of missing bytes before another read is useful; a hint, 0 if `more` or `close` is set.
    pub wanted: usize,
    /// Counts and times, for INFO and monitors.
    pub tally: TurnTally,
    /// Kind of the last error reply, by which a caller in this process branches. The server sets it for a refused draw
    /// and an effect.
    pub error: Option<ErrorKind>,
    /// Whether replies are suppressed.
    pub(super) muted: bool,
    /// Whether the turn ends here: after a login, or because the next request is muted and this one is not, or the
    /// reverse.
    pub(super) ended: bool,
    /// Maximum number of IDs, without those of the command that exceeds the bound.
    ids_max: u32,
    replies: Vec<ReplyPiece>,
    encoded: Vec<u8>,
    /// Size of suppressed replies, bytes, which counts for the turn's bound.
    suppressed_bytes: usize,
    /// Named draws and replies. Stale, from another turn, unless `draws.named` is above 0.
    named: NamedTurn,
    /// Sequence draws and replies. Stale, from another turn, unless `draws.sequences` is above 0.
    sequences: SequenceTurn,
    /// Decoder for requests, shared between sessions while none is incomplete.
    pub(super) decoder: Option<Box<Decoder>>,
    /// Whether the last request draws from a named generator or a sequence, and a repetition of it would be handled in
    /// the same way.
    pub(super) is_repeatable: bool,
}

/// Source of IDs or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawSource {
    /// The unnamed generator.
    Unnamed,
    /// The generator of the named draw with this number.
    Named(usize),
    /// The sequence of the sequence draw with this number.
    Sequence(usize),
}

/// A piece removed from the front of a turn.
pub(super) enum RemovedPiece {
    /// Encoded bytes.
    Encoded(Vec<u8>),
    /// IDs of the unnamed generator.
    Unnamed(ReplyPiece),
    /// IDs of a named generator, and its place among those of the session's settings.
    Named(NamedReply, usize),
    /// Values of a sequence, and whether they are returned to the client.
    Sequence(SequenceReply, bool),
}

impl Turn {
    /// Returns the replies, in order.
    pub fn replies(&self) -> &[ReplyPiece] {
        &self.replies
    }

    /// Returns the draws from named generators, each generator once.
    pub fn named_draws(&self) -> &[NamedDraw] {
        if self.draws.named == 0 { &[] } else { &self.named.draws }
    }

    /// Returns a named generator's reply by its number.
    pub fn named_reply(&self, at: usize) -> Option<NamedReply> {
        self.named.replies.get(at).copied()
    }

    /// Returns a named generator's reply by its number, and its generator's place among those of the session's
    /// settings.
    pub(super) fn named_reply_and_place(&self, at: usize) -> (NamedReply, usize) {
        let reply = self.named.replies[at];
        (reply, self.named.draws[reply.draw].place)
    }

    /// Returns the draws from sequences, each sequence once.
    #[inline]
    pub fn sequence_draws(&self) -> &[SequenceDraw] {
        if self.draws.sequences == 0 { &[] } else { self.sequences.draws() }
    }

    /// Returns the name of a draw's sequence.
    pub fn sequence_name(&self, draw: &SequenceDraw) -> &str {
        self.sequences.name(draw)
    }

    /// Returns the requests of a sequence draw, in the order of commands.
    pub fn sequence_asks(&self, draw: &SequenceDraw) -> impl Iterator<Item = SequenceRequest> {
        self.sequences.asks(draw)
    }

    /// Returns the replies of sequences, by the numbers in [`Turn::replies`].
    pub fn sequence_replies(&self) -> &[SequenceReply] {
        if self.draws.sequences == 0 { &[] } else { &self.sequences.replies }
    }

    /// Returns true if there is nothing to draw and nothing to write.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Returns the bytes that [`ReplyPiece::Encoded`] pieces are cut from.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Empties the turn for the next read, which draws about `ids_max` IDs at most. Keeps the buffers.
    pub(super) fn clear(&mut self, ids_max: u32) {
        self.ids_max = ids_max;
        self.draws = Draws::default();
        self.commands = 0;
        self.effect = None;
        self.close = false;
        self.broken = None;
        self.more = false;
        self.held = false;
        self.logins_held = 0;
        self.wanted = 0;
        self.tally.clear();
        self.error = None;
        self.muted = false;
        self.ended = false;
        if self.has_rare_work {
            // These are rare: no memory is kept for them.
            self.denials = Vec::new();
            self.login = None;
            self.has_subscribed = false;
            self.has_rare_work = false;
        }
        self.replies.clear();
        self.encoded.clear();
        self.suppressed_bytes = 0;
        if self.encoded.capacity() > TURN_BYTES_KEPT {
            self.encoded.shrink_to(TURN_BYTES_MAX);
        }
    }

    /// Releases memory that its replies do not need.
    pub fn shrink(&mut self) {
        self.decoder = None;
        self.replies.shrink_to_fit();
        self.encoded.shrink_to_fit();
        self.tally.shrink();
        self.named.shrink();
        self.sequences.shrink();
    }

    /// Releases the memory of a large request.
    #[inline]
    pub fn release_memory(&mut self) {
        if let Some(decoder) = self.decoder.as_mut().filter(|decoder| !decoder.is_quiet()) {
            decoder.release_memory();
        }
    }

    /// Returns the memory of its replies, bytes.
    pub fn memory_bytes(&self) -> usize {
        let own = self.replies.capacity() * size_of::<ReplyPiece>() + self.encoded.capacity();
        let decoder = self.decoder.as_ref().map_or(0, |decoder| size_of::<Decoder>() + decoder.memory_bytes());
        own + decoder + self.tally.memory_bytes() + self.named.memory_bytes() + self.sequences.memory_bytes()
    }

    /// Returns the source of the next reply that needs IDs and the number of its IDs, at most `most` of a run of single
    /// ones. For a sequence, the number is that of commands. `None`: there are none left to draw.
    pub fn next_ids(&self, most: u32) -> Option<(DrawSource, u32)> {
        self.replies.iter().find_map(|reply| match *reply {
            ReplyPiece::Integers { count } | ReplyPiece::Suppressed { count } => {
                Some((DrawSource::Unnamed, count.min(most)))
            }
            ReplyPiece::Bulks { count } => Some((DrawSource::Unnamed, count)),
            ReplyPiece::Named { at } => {
                let NamedReply { draw, count, form, .. } = self.named.replies[at];
                Some((DrawSource::Named(draw), if form == ReplyForm::Array { count } else { count.min(most) }))
            }
            ReplyPiece::Sequence { at } | ReplyPiece::SuppressedSequences { from: at, .. } => {
                let SequenceReply { draw, ask, .. } = self.sequences.replies[at];
                Some((DrawSource::Sequence(draw as usize), ask.times.min(most)))
            }
            ReplyPiece::Encoded { .. } => None,
        })
    }

    /// Removes the first reply, as far as IDs are left: `left` returns their number for each source.
    pub(super) fn take_next(&mut self, left: impl Fn(DrawSource) -> u32) -> Option<RemovedPiece> {
        let unnamed = left(DrawSource::Unnamed);
        let first = *self.replies.first()?;
        let (taken, is_whole) = match first {
            ReplyPiece::Encoded { len } => {
                self.replies.remove(0);
                return Some(RemovedPiece::Encoded(self.encoded.drain(..len).collect()));
            }
            ReplyPiece::Named { at } => return self.take_next_named(at, left),
            ReplyPiece::Sequence { at } => return self.take_next_of_sequence(at, true, left),
            ReplyPiece::SuppressedSequences { from, .. } => return self.take_next_of_sequence(from, false, left),
            ReplyPiece::Integers { count } => (ReplyPiece::Integers { count: count.min(unnamed) }, count <= unnamed),
            ReplyPiece::Suppressed { count } => {
                (ReplyPiece::Suppressed { count: count.min(unnamed) }, count <= unnamed)
            }
            ReplyPiece::Bulks { count } if count <= unnamed => (first, true),
            ReplyPiece::Bulks { .. } => return None,
        };
        let (ReplyPiece::Integers { count } | ReplyPiece::Suppressed { count } | ReplyPiece::Bulks { count }) = taken
        else {
            return None;
        };
        if count == 0 {
            return None;
        }
        self.draws.unnamed -= count;
        if is_whole {
            self.replies.remove(0);
        } else if let Some(ReplyPiece::Integers { count: left } | ReplyPiece::Suppressed { count: left }) =
            self.replies.first_mut()
        {
            *left -= count;
        }
        Some(RemovedPiece::Unnamed(taken))
    }

    fn take_next_named(&mut self, at: usize, left: impl Fn(DrawSource) -> u32) -> Option<RemovedPiece> {
        let reply = &mut self.named.replies[at];
        let draw = &mut self.named.draws[reply.draw];
        let left = left(DrawSource::Named(reply.draw));
        let count = if reply.form == ReplyForm::Array && left < reply.count { 0 } else { reply.count.min(left) };
        if count == 0 {
            return None;
        }
        let taken = RemovedPiece::Named(NamedReply { count, ..*reply }, draw.place);
        draw.ids -= count;
        reply.count -= count;
        if reply.count == 0 {
            self.replies.remove(0);
        }
        Some(taken)
    }

    fn take_next_of_sequence(
        &mut self,
        at: usize,
        is_sent: bool,
        left: impl Fn(DrawSource) -> u32,
    ) -> Option<RemovedPiece> {
        let reply = &mut self.sequences.replies[at];
        let times = reply.ask.times.min(left(DrawSource::Sequence(reply.draw as usize)));
        if times == 0 {
            return None;
        }
        let mut taken = *reply;
        taken.ask.times = times;
        reply.ask.times -= times;
        if reply.ask.times == 0 {
            match &mut self.replies[0] {
                ReplyPiece::SuppressedSequences { from, to } if *from + 1 < *to => *from += 1,
                _ => {
                    self.replies.remove(0);
                }
            }
        }
        Some(RemovedPiece::Sequence(taken, is_sent))
    }

    /// Suppresses the replies. Their IDs are still drawn.
    pub(super) fn suppress_replies(&mut self) {
        // They count, since they were made, and a turn that is never full delays other clients.
        self.suppressed_bytes += self.encoded.len() + SUPPRESSED_BYTES_MIN;
        self.encoded.clear();
        self.replies.clear();
        if self.draws.unnamed > 0 {
            self.replies.push(ReplyPiece::Suppressed { count: self.draws.unnamed });
        }
        if self.draws.named > 0 {
            self.named.replies.clear();
            for (draw, NamedDraw { ids: count, .. }) in self.named.draws.iter().copied().enumerate() {
                self.replies.push(ReplyPiece::Named { at: draw });
                self.named.replies.push(NamedReply { draw, count, form: ReplyForm::Suppressed, request: Number::ZERO });
            }
        }
        if self.draws.sequences > 0 {
            self.replies.push(ReplyPiece::SuppressedSequences { from: 0, to: self.sequences.replies.len() });
        }
    }

    /// Counts a request without a reply, such as an empty line, which takes time too.
    pub(super) fn count_skipped(&mut self) {
        self.suppressed_bytes += SKIPPED_BYTES;
    }

    /// Ends the suppression of replies, unless `muted`.
    pub(super) fn unmute_unless(&mut self, muted: bool) {
        if self.muted && !muted {
            self.suppress_replies();
            self.muted = false;
        }
    }

    /// Ends the turn with a login.
    pub(super) fn end_with_login(&mut self, proof: Proof) {
        self.login = Some(proof);
        self.has_rare_work = true;
        self.ended = true;
    }

    /// Notes a subscription.
    pub(super) fn note_subscription(&mut self) {
        self.has_subscribed = true;
        self.has_rare_work = true;
    }

    /// Adds a refusal. A repetition of the last one is counted, so that a pipeline of them is one entry.
    pub(super) fn deny(&mut self, denial: Denial) {
        self.has_rare_work = true;
        match self.denials.last_mut() {
            Some(last) if last.is_like(&denial) => last.count += 1,
            _ => self.denials.push(denial),
        }
    }

    /// Returns true if a bound is reached, with `bytes_max` for encoded replies.
    pub(super) fn is_full(&self, bytes_max: usize) -> bool {
        self.draws.unnamed >= self.ids_max
            || self.encoded.len() + self.suppressed_bytes >= bytes_max
            || self.tally.spent_ns() >= TURN_NS_MAX
            || self.tally.shown_bytes() >= TURN_BYTES_MAX
    }

    /// Adds `more` commands that each get one ID as an integer.
    pub(super) fn push_each_id(&mut self, more: u32) {
        self.draws.unnamed += more;
        if let Some(ReplyPiece::Integers { count }) = self.replies.last_mut() {
            *count += more;
        } else {
            self.replies.push(ReplyPiece::Integers { count: more });
        }
    }

    /// Returns the number of IDs left before the bound.
    pub(super) fn ids_left(&self) -> u32 {
        self.ids_max.saturating_sub(self.draws.unnamed)
    }

    /// Adds a command that gets `count` IDs as bulk strings.
    pub(super) fn push_ids(&mut self, count: u32) {
        debug_assert!(count > 0, "a count was checked when it was read");
        self.draws.unnamed += count;
        self.replies.push(ReplyPiece::Bulks { count });
    }

    /// Adds commands that get `reply.count` IDs of the generator at `place` together; sets `reply.draw`. Calls `cost`
    /// ([`named_cost`]) at the generator's first command of the turn.
    pub(super) fn push_named(
        &mut self,
        [place, generator]: [usize; 2],
        mut reply: NamedReply,
        cost: impl FnOnce() -> u32,
    ) {
        if self.draws.named == 0 {
            self.named.clear();
        }
        let NamedTurn { draws, replies } = &mut self.named;
        reply.draw = draws.iter().position(|draw| draw.place == place).unwrap_or_else(|| {
            draws.push(NamedDraw { generator, ids: 0, place, cost: cost() });
            draws.len() - 1
        });
        let draw = &mut draws[reply.draw];
        draw.ids += reply.count;
        let cost = draw.cost.saturating_mul(reply.count);
        self.draws.named = u32::try_from(draws.len()).unwrap_or(u32::MAX);
        // One bound for all draws: the share of named generators is not available to the unnamed one.
        self.ids_max = if draws.len() < DRAWS_MAX { self.ids_max.saturating_sub(cost) } else { 0 };
        match (self.replies.last(), replies.last_mut()) {
            (Some(ReplyPiece::Named { .. }), Some(last))
                if reply.form == ReplyForm::Each && NamedReply { count: reply.count, ..*last } == reply =>
            {
                last.count += reply.count;
            }
            _ => {
                self.replies.push(ReplyPiece::Named { at: replies.len() });
                replies.push(reply);
            }
        }
    }

    /// Returns the turn's draw from the sequence of this name, if any.
    #[inline]
    pub(super) fn find_sequence(&self, hash: u64, name: &[u8]) -> Option<usize> {
        if self.draws.sequences == 0 { None } else { self.sequences.find(hash, name) }
    }

    /// Returns true if this draw from a sequence is a counter's.
    #[inline]
    pub(super) fn is_counter_draw(&self, draw: usize) -> bool {
        self.sequences.draws()[draw].is_counter()
    }

    /// Adds a draw from a sequence that has none in this turn.
    #[inline]
    pub(super) fn add_sequence(&mut self, hash: u64, name: &str, counter: Option<usize>) -> usize {
        if self.draws.sequences == 0 {
            self.sequences.clear();
        }
        let draw = self.sequences.add(hash, name, counter);
        self.draws.sequences += 1;
        if self.draws.sequences as usize >= sequences::DRAWS_MAX {
            self.ids_max = 0;
        }
        draw
    }

    /// Adds a command that gets `values` values of a sequence. It counts as one ID, since its answer is one number.
    #[inline]
    pub(super) fn push_sequence(&mut self, draw: usize, verb: Verb, values: u32) {
        let Turn { sequences: SequenceTurn { replies, .. }, .. } = self;
        if let (Some(ReplyPiece::Sequence { .. }), Some(last)) = (self.replies.last(), replies.last_mut())
            && (last.draw as usize, last.verb, last.ask.values) == (draw, verb, values)
        {
            last.ask.times += 1;
        } else {
            let at = self.sequences.push(draw, verb, SequenceRequest { values, times: 1 });
            self.replies.push(ReplyPiece::Sequence { at });
        }
        self.ids_max = self.ids_max.saturating_sub(1);
    }

    /// Repeats the last request `times` times, and returns its command. Only if [`Turn::is_repeatable`].
    pub(super) fn repeat(&mut self, times: u32) -> Verb {
        if let Some(ReplyPiece::Sequence { at }) = self.replies.last() {
            let last = &mut self.sequences.replies[*at];
            last.ask.times += times;
            self.ids_max = self.ids_max.saturating_sub(times);
            return last.verb;
        }
        if let Some(&last) = self.named.replies.last() {
            let NamedDraw { place, generator, cost, .. } = self.named.draws[last.draw];
            self.push_named([place, generator], NamedReply { count: times, ..last }, || cost);
        }
        Verb::GetId
    }

    /// Returns how often the last request may be repeated before the turn's bound.
    pub(super) fn repeats_left(&self) -> u32 {
        let cost = match self.replies.last() {
            Some(ReplyPiece::Named { at }) => self.named.draws[self.named.replies[*at].draw].cost,
            _ => 1,
        };
        self.ids_left().div_ceil(cost)
    }

    /// Counts IDs for the turn's bound.
    pub(super) fn count_ids(&mut self, ids: u32) {
        self.ids_max = self.ids_max.saturating_sub(ids);
    }

    /// Counts the work of a request with a small reply, in bytes of the turn's bound.
    pub(super) fn count_work(&mut self, bytes: usize) {
        self.suppressed_bytes += bytes;
    }

    /// Adds the bytes that `encode` appends.
    pub(super) fn push_with(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let before = self.encoded.len();
        encode(&mut self.encoded);
        let added = self.encoded.len() - before;
        if let Some(ReplyPiece::Encoded { len }) = self.replies.last_mut() {
            *len += added;
        } else if added > 0 {
            self.replies.push(ReplyPiece::Encoded { len: added });
        }
    }

    /// Adds bytes that are RESP already.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.push_with(|out| out.extend_from_slice(bytes));
    }

    /// Adds an error.
    pub(super) fn push_error(&mut self, error: &ErrorReply) {
        self.count_error(error);
        self.push_with(|out| resp::write_error(error, out));
    }

    fn count_error(&mut self, error: &ErrorReply) {
        self.tally.error(&error.text);
        self.error = Some(error.kind);
    }

    /// Adds the reply to a broken request, which may be empty.
    pub(super) fn push_protocol_error(&mut self, error: ProtocolError) {
        let before = self.encoded.len();
        self.push_with(|out| error.write_reply(out));
        if self.encoded.len() > before {
            self.tally.error(b"ERR ");
        }
    }

    /// Adds a reply that has a structure, or that differs between the protocols.
    pub(super) fn push_value(&mut self, value: &Value, protocol: Protocol) {
        if let Value::Error(error) = value {
            self.count_error(error);
        }
        self.push_with(|out| resp::encode(value, protocol, out));
    }
}
