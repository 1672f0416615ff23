//! One client's side of the protocol: bytes in, a [`Turn`] out; a turn and its IDs in, bytes out.
//!
//! A client may send a thousand requests before it reads a reply. One by one, each would cost a visit to the issuer and
//! a write to the socket. So the session takes all complete requests of a read at once, and their IDs are drawn in one
//! step: see [`Session`]. It has no clock, no socket and no access to other connections. A command that needs them
//! returns an [`Effect`].
//!
//! Invariant: every request gets exactly one reply, in the order of requests, and each turn's replies are written with
//! the IDs drawn for that turn before the next one is read.

mod benchmark;
mod client;
mod client_view;
mod commands;
mod draws;
mod effect;
mod fast_path;
mod named;
mod number_effect;
mod reply_mode;
mod request;
mod request_effect;
mod reservations;
mod scripts;
mod sequence_effect;
mod sequences;
mod settings;
mod shown;
mod subscriptions;
mod tally;
mod transaction;
mod turn;
mod worker_effect;

use std::sync::Arc;

use client::ClientState;
pub use client::NAME_BYTES_MAX;
pub use client_view::ClientView;
use commands::{Call, show_exec};
pub use commands::{NO_SUCH_MASTER, REQUESTS_OFF, SEQUENCES_OFF, no_generator};
pub use draws::Draws;
pub use effect::{
    AclEffect, ClientEffect, ClientFilter, ClientKill, ClientKind, ConfigEffect, Effect, IdsEffect, IntrospectEffect,
    MasterName, Pause, SentinelEffect, Shutdown, Unblock,
};
use getid_core::Reservation;
use getid_core::server::CounterDeclaration;
pub use named::{NamedDraw, NamedDrawResults, NamedPart, NamedReply, ReplyForm};
pub use number_effect::{LedgerPageRequest, NumberAction, NumberEffect};
use request::RequestRejection;
pub use request_effect::{
    RequestEffect, RequestForm, RequestSource, counter_reply, named_reply, range_reply, unnamed_reply,
};
use reservations::TurnIds;
pub use scripts::MachineScript;
pub use sequence_effect::{
    EndTime, HashFields, HashQuery, KeyProperty, KeyScan, KeysEffect, ScriptEffect, SequenceEffect, SeriesCursor,
    SeriesReader, SetCondition, SetReply, SetSequence, TtlForm,
};
pub use sequences::{
    CounterPeriod, FailedCalls, SequenceDraw, SequenceDrawResults, SequencePart, SequenceReply, drop_front,
};
pub use settings::{
    ClusterSettings, EXPIRING_NAMES_MAX, ExpiringNames, NamePatternError, SequenceCommandSettings, Settings,
};
pub use tally::{Calls, ErrorCode, SlowCommand, Timing, TurnTally};
pub use transaction::TRANSACTION_BYTES_MAX;
use transaction::Transaction;
use turn::RemovedPiece;
use turn::UNAUTHENTICATED_TURN_BYTES_MAX;
pub use turn::{Breach, DrawSource, ReplyPiece, TURN_BYTES_MAX, TURN_IDS_MAX, TURN_NS_MAX, Turn, turn_ids_max};
pub use worker_effect::{WorkerEffect, WorkerWord};

use crate::acl::{Origin, Proof};
use crate::command::{SERIES_WORD, Verb, split_series};
use crate::resp::{self, Args, DecodeStep, Decoder, ErrorReply, IdWriter, Protocol, ProtocolError, Value};

/// Draws of a turn beside the IDs of the unnamed generator.
pub struct ExtraDraws<'a> {
    /// Draws from named generators, one for each named draw.
    pub named: &'a mut NamedDrawResults,
    /// Draws from sequences, one for each sequence draw.
    pub sequences: &'a mut SequenceDrawResults,
    /// Source of random bits that cannot be guessed.
    pub noise: &'a mut dyn FnMut() -> u128,
}

/// One client's protocol state.
///
/// [`Session::read`] takes all complete requests that a read brought, does everything that needs no IDs, and returns
/// the number of IDs for the rest. [`Session::write`] writes all replies in order. Bounds on a turn divide a greedy
/// pipeline into several turns; an effect ends the turn. The caller's loop:
///
/// ```text
/// loop {
///     used = session.read(input, turn)             again at once while turn.more, even with no input left
///     session.write(turn, draw(turn.draws), output)     write_beside() if there are draws beside the unnamed one
///     if let Some(effect) = turn.effect.take() { session.reply(answer(effect), output) }
///     if turn.close { write output and end }
/// }
/// ```
#[derive(Debug)]
pub struct Session {
    /// Decoder of an incomplete request. Otherwise the turn's decoder is used: most connections have nothing to decode
    /// most of the time.
    unfinished: Option<Box<Decoder>>,
    transaction: Transaction,
    client: ClientState,
    /// Reason why the request in arrival is refused and skipped. Boxed, since it is rare.
    refused: Option<Box<RequestRejection>>,
}

impl Session {
    /// Makes the session of connection number `id`.
    pub fn new(id: u64, settings: Arc<Settings>) -> Session {
        Session {
            unfinished: None,
            transaction: Transaction::default(),
            client: ClientState::new(id, settings),
            refused: None,
        }
    }

    /// Sets the origin of the client. A client from another machine may do less without a login.
    #[must_use]
    pub fn from(mut self, origin: Origin) -> Session {
        self.client.set_origin(origin);
        self
    }

    /// Sets the initial protocol of a client without a socket, and its library's name. Such a client cannot go to
    /// another server.
    #[must_use]
    pub fn speaking(mut self, protocol: Protocol, library: &str) -> Session {
        self.client.follows_redirects = false;
        self.client.set_protocol(protocol);
        self.client.view.names_mut().lib_name = library.into();
        self
    }

    /// Logs in as a user that the client has proved by other means than a password, such as a certificate. Returns
    /// false, without a change, if the user does not exist or is off.
    pub fn log_in_as(&mut self, name: &str) -> bool {
        self.client.log_in_as(name)
    }

    /// Withdraws the login of a turn if its user no longer accepts it, because its password was replaced meanwhile.
    /// Call it once the login is visible to other connections and the session has the latest settings. Then a change of
    /// the password that ends the user's connections leaves none with the old password.
    pub fn confirm_login(&mut self, proof: &Proof) {
        self.client.confirm_login(proof);
    }

    /// Resets the login of a client that has not run a command, by the current settings.
    pub fn begin_again(&mut self) {
        self.client.forget_login();
    }

    /// Returns true if the user is deleted or the login was withdrawn. Nothing more is answered.
    pub fn has_lost_user(&self) -> bool {
        self.client.has_lost_user
    }

    /// Returns the session's public state.
    pub fn view(&self) -> &ClientView {
        &self.client.view
    }

    /// Returns the session's public state if it may have changed since the last call.
    #[inline]
    pub fn take_changed_view(&mut self) -> Option<&ClientView> {
        self.client.view.take_changed()
    }

    /// Returns the settings in use.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.client.settings
    }

    /// Replaces the settings from the next read on. An authenticated client remains authenticated; if its user was
    /// deleted, the next read ends the connection.
    ///
    /// Must not be called between [`Session::read`] and [`Session::write`], since a turn is written with the settings
    /// it was read with.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.client.set_settings(settings);
    }

    /// Sets or ends a pause of requests from the next read on (`CLIENT PAUSE`); see [`Turn::held`].
    #[inline]
    pub fn set_pause(&mut self, pause: Option<Pause>) {
        self.client.pause = pause;
    }

    /// Allows the next read to try this many passwords ([`Turn::logins_held`]). The server limits their rate.
    pub fn permit_logins(&mut self, logins: u32) {
        self.client.permit_logins(logins);
    }

    /// Returns the number of unused permits for passwords. The session keeps them while `EXEC` still has commands to
    /// run, which may take several turns; otherwise it loses them.
    pub fn unused_permits(&mut self) -> u32 {
        if !self.transaction.is_running() {
            return self.client.withdraw_permits();
        }
        self.client.login_permits()
    }

    /// Resets the monitor state after `MONITOR` was refused.
    pub fn stop_monitoring(&mut self) {
        self.client.view.monitors = false;
    }

    /// Returns true if `EXEC` still has commands to run.
    pub fn is_in_exec(&self) -> bool {
        self.transaction.is_running()
    }

    /// Takes complete requests from `input`, as many as the turn's bounds allow, and returns their length in bytes.
    ///
    /// `input` begins with the first unused byte. See [`Turn`] for the next step; `turn` is emptied first.
    pub fn read(&mut self, input: &[u8], turn: &mut Turn) -> usize {
        turn.clear(self.client.settings.turn_ids_max);
        turn.muted = self.client.reply_mode.is_muted();
        if self.client.is_special {
            if self.client.has_lost_user {
                turn.close = true;
                return input.len();
            }
            turn.has_rare_work = true;
        }
        let bytes_max = if self.is_authenticated() { TURN_BYTES_MAX } else { UNAUTHENTICATED_TURN_BYTES_MAX };
        let mut used = 0;
        while !turn.close {
            if turn.is_full(bytes_max) || turn.effect.is_some() || turn.ended {
                turn.more = self.transaction.is_running() || used < input.len();
                break;
            }
            if self.transaction.is_running() {
                self.run_queued(turn);
            } else if used == input.len() && self.unfinished.is_none() {
                turn.wanted = 1;
                break;
            } else if let Some(bytes) = self.read_request(&input[used..], turn) {
                used += bytes;
            } else {
                break;
            }
            if !self.client.reply_mode.is_plain() {
                self.end_request(turn);
            }
        }
        self.client.is_answer_muted = turn.muted;
        // Requests after QUIT or a broken request are not answered.
        if turn.close { input.len() } else { used }
    }

    /// Takes one request, or a run of plain `GETID` or of equal `INCR`, and returns their length in bytes. Returns
    /// `None` if the input has no complete request, or the turn must hold it.
    #[inline]
    fn read_request(&mut self, input: &[u8], turn: &mut Turn) -> Option<usize> {
        if self.client.takes_fast_path()
            && !turn.tally.is_watched()
            && self.unfinished.is_none()
            && !self.transaction.is_queueing()
        {
            let (count, bytes) = fast_path::leading_getids(input, turn.ids_left());
            if count > 0 {
                self.client.getids(count, turn);
                return Some(bytes);
            }
            if let Some((spans, used)) = fast_path::leading_incr(input)
                && let Some(command) = self.client.plain_incr()
            {
                let Session { transaction, client, .. } = self;
                Call { command, args: Args::new(input, &spans), client, transaction, turn }.run();
                let repeated =
                    if turn.is_repeatable { client.repeats(&input[..used], &input[used..], turn) } else { 0 };
                return Some(used + repeated);
            }
            if let Some((count, bytes)) = fast_path::leading_mgetid(input)
                && self.client.mgetid(count, turn)
            {
                return Some(bytes);
            }
        }
        let mut decoder = self.unfinished.take().or_else(|| turn.decoder.take()).unwrap_or_default();
        let used = self.decode_request(&mut decoder, input, turn);
        if decoder.is_between_requests() {
            turn.decoder = Some(decoder);
        } else {
            self.unfinished = Some(decoder);
        }
        used
    }

    /// Takes one request through the decoder, and returns its length in bytes, or `None` as [`Session::read_request`]
    /// does.
    #[inline]
    fn decode_request(&mut self, decoder: &mut Decoder, input: &[u8], turn: &mut Turn) -> Option<usize> {
        let Session { transaction, client, refused, .. } = self;
        match decoder.decode(input, &client.limits()) {
            Ok(DecodeStep::Request { used }) => {
                request::take(transaction, client, decoder.args(input), turn);
                if turn.held {
                    turn.more = true;
                    return None;
                }
                if turn.is_repeatable {
                    return Some(used + client.repeats(&input[..used], &input[used..], turn));
                }
                Some(used)
            }
            Ok(DecodeStep::Skip { used }) => {
                turn.count_skipped();
                Some(used)
            }
            Ok(DecodeStep::Large { bytes }) => {
                let len = decoder.args_declared();
                if let Err(why) = request::check_large(transaction, client, decoder.args(input), len, bytes) {
                    *refused = Some(Box::new(why));
                    decoder.skip();
                }
                Some(0)
            }
            Ok(DecodeStep::Dropped { used }) => Some(used),
            Ok(DecodeStep::Skipped { used }) => {
                if let Some(why) = refused.take() {
                    why.answer(transaction, client, turn);
                }
                Some(used)
            }
            Ok(DecodeStep::Incomplete { wanted }) => {
                turn.wanted = wanted;
                None
            }
            Err(error) => {
                turn.push_protocol_error(error);
                turn.close = true;
                let is_too_large = error == ProtocolError::RequestTooBig;
                turn.broken = Some(if is_too_large { Breach::TooLarge } else { Breach::Protocol });
                Some(0)
            }
        }
    }

    /// Runs the next command of `EXEC`.
    #[inline(never)]
    fn run_queued(&mut self, turn: &mut Turn) {
        let Session { transaction, client, .. } = self;
        let Some(mut queue) = transaction.take_queue() else { return transaction.discard() };
        if let Some((command, args)) = queue.next() {
            // The user's rules may have changed since it was queued.
            match client.check(command, args) {
                Ok(()) => Call { command, args, client, transaction, turn }.run(),
                Err(refused) => {
                    let error = client.deny_in_exec(*refused, turn);
                    turn.push_error(&error);
                }
            }
        }
        transaction.put_back(queue);
        if !transaction.is_running() {
            client.view.set_last_command("exec");
            if turn.tally.is_watched() {
                show_exec(client, turn);
            }
        }
        client.view.queued = transaction.queued();
    }

    /// Updates the reply mode after a request of a client that has used `CLIENT REPLY`.
    #[cold]
    fn end_request(&mut self, turn: &mut Turn) {
        if turn.muted {
            turn.suppress_replies();
        }
        // The mode of EXEC applies to all commands that it runs.
        if !self.transaction.is_running() {
            self.client.reply_mode.next_request();
        }
        turn.ended |= self.client.reply_mode.is_muted() != turn.muted;
    }

    /// Appends the turn's replies, in order.
    ///
    /// `drawn` has exactly the IDs of `turn.draws`, ascending. Or it is an error, which replaces each reply that needs
    /// IDs; all others remain.
    ///
    /// # Panics
    ///
    /// If `drawn` has another number of IDs, or the turn has draws from named generators or sequences. Both are errors
    /// of the caller.
    pub fn write(&self, turn: &Turn, drawn: Result<&[Reservation], &ErrorReply>, output: &mut Vec<u8>) {
        self.write_with(turn, drawn, output, |_, _| unreachable!("a turn with extra draws"));
    }

    /// Appends the replies of a turn that draws from named generators or sequences: `extra` has the values or a
    /// refusal for each of them.
    ///
    /// # Panics
    ///
    /// As [`Session::write`].
    #[inline(never)]
    pub fn write_with_extra(
        &self,
        turn: &Turn,
        drawn: Result<&[Reservation], &ErrorReply>,
        extra: &mut ExtraDraws<'_>,
        output: &mut Vec<u8>,
    ) {
        self.write_with(turn, drawn, output, |reply, output| match reply {
            ReplyPiece::Named { at } => {
                let (reply, place) = turn.named_reply_and_place(at);
                self.write_named_reply(reply, place, extra.named, extra.noise, output);
            }
            ReplyPiece::Sequence { at } => {
                self.write_values(turn, &turn.sequence_replies()[at], extra.sequences, output);
            }
            ReplyPiece::SuppressedSequences { from, to } => {
                turn.sequence_replies()[from..to].iter().for_each(|reply| extra.sequences.skip(reply));
            }
            ReplyPiece::Integers { .. }
            | ReplyPiece::Bulks { .. }
            | ReplyPiece::Suppressed { .. }
            | ReplyPiece::Encoded { .. } => {}
        });
    }

    /// Appends the reply to a command that draws from a sequence.
    #[inline]
    fn write_values(&self, turn: &Turn, reply: &SequenceReply, values: &mut SequenceDrawResults, output: &mut Vec<u8>) {
        let draw = turn.sequence_draws().get(reply.draw as usize);
        match draw.and_then(|draw| self.client.settings.counters.get(draw.counter?)) {
            None => values.write(reply, || draw.map_or("", |draw| turn.sequence_name(draw)), output),
            Some(counter) => {
                let part = values.part(reply.draw as usize).expect("there is a part for each draw");
                let sealer = self.client.settings.sealers.answering(counter.name());
                part.write_ids(reply, counter, sealer, output);
            }
        }
    }

    /// Returns the counter that a draw is for, if any.
    pub fn counter_of(&self, draw: &SequenceDraw) -> Option<&Arc<CounterDeclaration>> {
        self.client.settings.counters.get(draw.counter?)
    }

    fn write_named_reply(
        &self,
        reply: NamedReply,
        place: usize,
        named: &mut NamedDrawResults,
        noise: &mut dyn FnMut() -> u128,
        output: &mut Vec<u8>,
    ) {
        let (_, generator) =
            self.client.settings.generators.get(place).expect("a turn is written by the settings it was read by");
        let part = named.part(reply.draw).expect("there is a part for each draw");
        match self.client.settings.sealers.answering(generator.declaration().name()) {
            Some(sealer) => part.write_sealed(reply, generator, sealer, output),
            None => part.write(reply, generator, noise, output),
        }
    }

    /// Returns a named generator's reply by its number in the turn, and the request's words from the generator's name
    /// on.
    pub fn named_reply(&self, turn: &Turn, at: usize) -> Option<(NamedReply, Vec<Vec<u8>>)> {
        let (reply, place) = turn.named_reply_and_place(at);
        let (_, generator) = self.client.settings.generators.get(place)?;
        let mut words = vec![generator.declaration().name().into()];
        for field in generator.request_fields() {
            words.extend([field.name.clone().into(), field.value(reply.request).to_string().into()]);
        }
        Some((reply, words))
    }

    #[inline]
    fn write_with(
        &self,
        turn: &Turn,
        drawn: Result<&[Reservation], &ErrorReply>,
        output: &mut Vec<u8>,
        mut write_with_extra: impl FnMut(ReplyPiece, &mut Vec<u8>),
    ) {
        let mut encoded = turn.encoded();
        let mut piece = |len: usize| {
            let (piece, rest) = encoded.split_at(len);
            encoded = rest;
            piece
        };
        match drawn {
            Ok(reservations) => {
                let mut ids = TurnIds::new(&self.client.settings.scheme, reservations);
                // Made only when first needed: its eight lines would cost more than a GETID.
                let (mut integers, mut bulks) = (None, None);
                output.reserve(turn.encoded().len() + turn.draws.unnamed as usize * resp::ID_BYTES_MAX);
                assert_eq!(ids.left, u64::from(turn.draws.unnamed), "a turn is written with the IDs it requested");
                for &reply in turn.replies() {
                    match reply {
                        // A single ID gains nothing from a writer of runs.
                        ReplyPiece::Integers { count: 1 } => ids.each(1, |id| resp::write_id(id.get(), output)),
                        ReplyPiece::Integers { count } => {
                            let lines = integers.get_or_insert_with(IdWriter::integers);
                            ids.write_run(count, lines, output);
                        }
                        ReplyPiece::Bulks { count } => {
                            resp::write_array_header(count as usize, output);
                            ids.write_run(count, bulks.get_or_insert_with(IdWriter::bulks), output);
                        }
                        ReplyPiece::Suppressed { count } => ids.each(count, |_| ()),
                        ReplyPiece::Named { .. }
                        | ReplyPiece::Sequence { .. }
                        | ReplyPiece::SuppressedSequences { .. } => {
                            write_with_extra(reply, output);
                        }
                        ReplyPiece::Encoded { len } => output.extend_from_slice(piece(len)),
                    }
                }
            }
            Err(error) => {
                for &reply in turn.replies() {
                    match reply {
                        ReplyPiece::Integers { count } => (0..count).for_each(|_| resp::write_error(error, output)),
                        ReplyPiece::Bulks { .. } => resp::write_error(error, output),
                        ReplyPiece::Suppressed { .. } => {}
                        ReplyPiece::Named { .. }
                        | ReplyPiece::Sequence { .. }
                        | ReplyPiece::SuppressedSequences { .. } => {
                            write_with_extra(reply, output);
                        }
                        ReplyPiece::Encoded { len } => output.extend_from_slice(piece(len)),
                    }
                }
            }
        }
    }

    /// Appends the shell's answer to an effect, in the client's protocol.
    pub fn reply(&mut self, answer: &Value, output: &mut Vec<u8>) {
        if !self.client.is_answer_muted {
            resp::encode(answer, self.client.view.protocol, output);
        }
    }

    /// Writes the next reply that needs IDs, as far as `drawn` and `extra` suffice, and everything before it. Removes
    /// them from the turn, `drawn` and `extra`. For clients that get their replies one by one; [`Session::write`] or
    /// [`Session::write_with_extra`] writes the rest.
    pub fn write_next(
        &self,
        turn: &mut Turn,
        drawn: &mut Vec<Reservation>,
        extra: &mut ExtraDraws<'_>,
        output: &mut Vec<u8>,
    ) {
        let mut ids = TurnIds::new(&self.client.settings.scheme, drawn);
        let unnamed = u32::try_from(ids.left).unwrap_or(u32::MAX);
        while let Some(taken) = turn.take_next(|source| match source {
            DrawSource::Unnamed => unnamed,
            DrawSource::Named(draw) => extra.named.parts().get(draw).map_or(0, NamedPart::left),
            DrawSource::Sequence(draw) => extra.sequences.parts().get(draw).map_or(0, SequencePart::available),
        }) {
            match taken {
                RemovedPiece::Encoded(piece) => {
                    output.extend_from_slice(&piece);
                    continue;
                }
                RemovedPiece::Named(reply, place) => {
                    self.write_named_reply(reply, place, extra.named, extra.noise, output);
                    extra.named.part(reply.draw).into_iter().for_each(NamedPart::forget_taken);
                }
                RemovedPiece::Sequence(reply, is_sent) => {
                    if is_sent {
                        self.write_values(turn, &reply, extra.sequences, output);
                    } else {
                        extra.sequences.skip(&reply);
                    }
                    extra.sequences.part(reply.draw as usize).into_iter().for_each(SequencePart::forget_taken);
                }
                RemovedPiece::Unnamed(ReplyPiece::Integers { count }) => {
                    ids.each(count, |id| resp::write_id(id.get(), output));
                }
                RemovedPiece::Unnamed(ReplyPiece::Bulks { count }) => {
                    let mut bulks = IdWriter::bulks();
                    resp::write_array_header(count as usize, output);
                    ids.write_run(count, &mut bulks, output);
                }
                RemovedPiece::Unnamed(ReplyPiece::Suppressed { count }) => ids.each(count, |_| ()),
                // All other replies are taken as other variants.
                RemovedPiece::Unnamed(_) => {}
            }
            break;
        }
        let left = ids.into_rest();
        *drawn = left;
    }

    /// Returns the words of a request that draws from a sequence.
    pub fn sequence_request(turn: &Turn, reply: &SequenceReply) -> Vec<Vec<u8>> {
        let Some(draw) = turn.sequence_draws().get(reply.draw as usize) else { return Vec::new() };
        let name: Vec<u8> = turn.sequence_name(draw).into();
        let values = || reply.ask.values.to_string().into_bytes();
        match reply.verb {
            Verb::IncrBy => vec![b"INCRBY".into(), name, values()],
            Verb::HIncrBy => vec![b"HINCRBY".into(), name, commands::HASH_FIELD.into(), values()],
            Verb::GetId => with_series(vec![b"GETID".into()], name),
            Verb::MGetId => with_series(vec![b"MGETID".into(), values()], name),
            _ => vec![b"INCR".into(), name],
        }
    }

    /// Appends a message to the client, once for each channel and pattern of its subscriptions that matches `channel`.
    /// Must not be called between a request and its reply.
    pub fn deliver(&self, channel: &[u8], message: &[u8], output: &mut Vec<u8>) {
        self.client.deliver(channel, message, output);
    }

    /// Returns the protocol in which to answer an effect piece by piece, where [`Session::reply`] answers at once;
    /// `None` if the answer is suppressed.
    pub fn answers_in(&self) -> Option<Protocol> {
        (!self.client.is_answer_muted).then_some(self.client.view.protocol)
    }

    /// Returns true if the client has logged in, or needs no login.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.client.is_authenticated()
    }

    /// Returns true if the client's user may run the command with this full name, such as `sequence|raise`: with `key`
    /// as its first key, or, without one, with at least some key. Runs nothing and logs no denial.
    pub fn may_run(&self, command: &str, key: Option<&[u8]>) -> bool {
        self.client.may_run(command, key)
    }

    /// Releases unneeded memory of a connection that became quiet. Returns the bytes still held, or 0 if they are few.
    #[inline]
    pub fn release_memory(&mut self) -> usize {
        if self.unfinished.is_none() && self.transaction.is_quiet() && !self.client.view.is_subscribed() {
            0
        } else {
            self.release_more()
        }
    }

    #[inline(never)]
    fn release_more(&mut self) -> usize {
        self.transaction.release_memory();
        if self.unfinished.is_none() && !self.transaction.is_open() && !self.client.view.is_subscribed() {
            0
        } else {
            self.memory_bytes()
        }
    }

    /// Returns the memory of incomplete requests and of the queue of `MULTI`, bytes; 0 if it is little.
    pub fn memory_bytes(&self) -> usize {
        let decoder = self.unfinished.as_ref().map_or(0, |decoder| decoder.memory_bytes());
        let bytes = decoder + self.transaction.memory_bytes() + self.client.subscription_bytes();
        if bytes > QUIET_BYTES { bytes } else { 0 }
    }
}

/// Appends the words for a generator's name, or for its name and the key of a series.
fn with_series(mut words: Vec<Vec<u8>>, name: Vec<u8>) -> Vec<Vec<u8>> {
    match split_series(&name) {
        Some((generator, key)) => words.extend([generator.to_vec(), SERIES_WORD.into(), key.to_vec()]),
        None => words.push(name),
    }
    words
}

/// Memory of a session that is not counted, bytes.
const QUIET_BYTES: usize = 4096;
