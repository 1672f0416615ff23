//! One client's side of the protocol: bytes in, a [`Turn`] out; a turn and its IDs in, bytes out.
//!
//! A client may send a thousand requests before it reads a reply. Taken one by one, each would cost a visit to the issuer
//! and a write to the socket. So [`Session::read`] takes all complete requests that a read brought, settles everything
//! about them that does not need IDs, and says how many IDs the rest needs; those are drawn in one step, and
//! [`Session::write`] puts everything in order. Bounds on a turn make several of a greedy pipeline.
//!
//! There is no clock, no socket and no other connection here. What a command needs of them, it asks for by an
//! [`Effect`], and the turn ends there:
//!
//! ```text
//! loop {
//!     used = session.read(input, turn)             again at once while turn.more, even with no input left
//!     session.write(turn, draw(turn.draws), output)
//!     if let Some(effect) = turn.effect.take() { session.reply(answer(effect), output) }
//!     if turn.close { write output and end }
//! }
//! ```
//!
//! Not here: what commands do (`client`), the queue of `MULTI` (`transaction`), how requests are cut out of the input
//! ([`crate::resp`]).
//!
//! Invariant: every request gets exactly one reply, in the order of requests, and each turn's replies are written with the
//! IDs drawn for that turn before the next one is read.

mod acl;
mod client;
mod client_view;
mod clients;
mod diagnose;
mod draws;
mod effect;
mod fast_path;
mod reply_mode;
mod settings;
mod tally;
mod transaction;
mod turn;

use std::sync::Arc;

use client::Client;
pub use client::NAME_BYTES_MAX;
pub use client_view::ClientView;
pub use draws::Draws;
pub use effect::{
    AclEffect, AclFileEffect, ClientFilter, ClientKill, ClientKind, Effect, LatencyAsk, MemoryAsk, Pause, Shutdown,
    SlowLogAsk, Unblock, WaitingEffect,
};
use getid_core::{Id, Reservation, Scheme};
pub use settings::Settings;
pub use tally::{Calls, ErrorCode, Noted, TURN_NS_MAX, Tally, Timing};
pub use transaction::TRANSACTION_BYTES_MAX;
use transaction::{Transaction, is_login};
pub use turn::{Breach, Reply, TURN_BYTES_MAX, TURN_IDS_MAX, Turn, turn_ids_max};

use crate::acl::{Context, Origin};
use crate::command::{Command, Flags, Verb};
use crate::resp::{self, Args, Decoded, Decoder, IdWriter, Protocol, ProtocolError, Value};

/// One client's protocol state.
#[derive(Debug)]
pub struct Session {
    decoder: Decoder,
    transaction: Transaction,
    client: Client,
    /// Whether the answer to the last turn's effect is not wanted.
    answer_muted: bool,
    /// The request that arrives is refused and passed over: why. Boxed, for it is rare.
    refused: Option<Box<Refused>>,
}

impl Session {
    /// The session of connection number `id`.
    pub fn new(id: u64, settings: Arc<Settings>) -> Session {
        Session {
            decoder: Decoder::default(),
            transaction: Transaction::default(),
            client: Client::new(id, settings),
            answer_muted: false,
            refused: None,
        }
    }

    /// The same for a client from elsewhere, which may do less without a login.
    #[must_use]
    pub fn from(mut self, origin: Origin) -> Session {
        self.client.set_origin(origin);
        self
    }

    /// Logs in as a user whom the client has shown to be by other means than a password, such as a certificate. False, and
    /// nothing changes, if there is no such user or it is off.
    pub fn log_in_as(&mut self, name: &str) -> bool {
        self.client.log_in_as(name)
    }

    /// Whether the user it logged in as is gone: nothing more is answered.
    pub fn has_lost_user(&self) -> bool {
        self.client.has_lost_user
    }

    /// What others may see of it.
    pub fn view(&self) -> &ClientView {
        &self.client.view
    }

    /// The same if it may have changed since the last call, for those who are shown it.
    #[inline]
    pub fn take_changed_view(&mut self) -> Option<&ClientView> {
        self.client.view.take_changed()
    }

    /// What it goes by.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.client.settings
    }

    /// Goes by other settings from the next read on. Who has authenticated remains so; if the user is gone, the next read
    /// ends the connection.
    ///
    /// A turn is written by the settings it was read by: not between [`Session::read`] and [`Session::write`].
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.client.set_settings(settings);
    }

    /// Holds requests from the next read on, or does so no longer (`CLIENT PAUSE`); see [`Turn::held`].
    #[inline]
    pub fn set_pause(&mut self, pause: Option<Pause>) {
        self.client.pause = pause;
    }

    /// Lets the next read try so many passwords ([`Turn::logins_held`]): how fast that may go is for the shell to say.
    pub fn give_leave(&mut self, logins: u32) {
        self.client.give_leave(logins);
    }

    /// How many of those were not tried yet. They stay its own while `EXEC` still has commands to run, which may take several
    /// turns; else they are taken back.
    pub fn settle_leave(&mut self) -> u32 {
        if !self.transaction.is_running() {
            return self.client.take_leave_back();
        }
        self.client.leave()
    }

    /// `MONITOR` was refused: it does not monitor after all.
    pub fn take_monitoring_back(&mut self) {
        self.client.view.monitors = false;
    }

    /// Whether `EXEC` still has commands to run.
    pub fn is_in_exec(&self) -> bool {
        self.transaction.is_running()
    }

    /// Takes complete requests of `input`, as many as the turn's bounds allow, and returns how many bytes they were.
    ///
    /// `input` begins with the first byte that was not used yet. See [`Turn`] for what to do next; `turn` is emptied first.
    pub fn read(&mut self, input: &[u8], turn: &mut Turn) -> usize {
        turn.clear(self.client.settings.turn_ids_max);
        let Session { decoder, transaction, client, refused, .. } = self;
        turn.muted = client.reply_mode.is_muted();
        if client.is_special {
            if client.has_lost_user {
                turn.close = true;
                return input.len();
            }
            turn.has_access_news = true;
        }
        let mut used = 0;
        while !turn.close {
            if turn.is_full() || turn.effect.is_some() || turn.ended {
                turn.more = transaction.is_running() || used < input.len();
                break;
            }
            if let Some((command, args)) = transaction.next() {
                // Settings may have changed since it was queued.
                if client.may_run(command, args) {
                    client.perform(command, args, turn);
                } else {
                    client.deny(command, Context::Multi, turn);
                    turn.push_error(client.refusal_in_exec(command));
                }
                transaction.end_if_done();
                if !transaction.is_running() {
                    client.view.set_last_command("exec");
                    if turn.tally.is_watched() {
                        client.show_exec(turn);
                    }
                }
                client.view.queued = transaction.queued();
                if !client.reply_mode.is_plain() {
                    settle(transaction, client, turn);
                }
                continue;
            }
            let rest = &input[used..];
            if client.takes_fast_path()
                && !turn.tally.is_watched()
                && decoder.is_between_requests()
                && !transaction.is_queueing()
            {
                let (count, bytes) = fast_path::leading_getids(rest, turn.ids_left());
                if count > 0 {
                    client.getids(count, turn);
                    used += bytes;
                    continue;
                }
            }
            match decoder.decode(rest, &client.limits) {
                Ok(Decoded::Request { used: bytes }) => {
                    take(transaction, client, decoder.args(rest), turn);
                    if turn.held {
                        turn.more = true;
                        break;
                    }
                    used += bytes;
                }
                Ok(Decoded::Skip { used: bytes }) => {
                    used += bytes;
                    turn.count_skipped();
                }
                Ok(Decoded::Large { bytes }) => {
                    let found = check_large(transaction, client, decoder.args(rest), decoder.args_declared(), bytes);
                    if let Err(why) = found {
                        *refused = Some(Box::new(why));
                        decoder.skip();
                    }
                }
                Ok(Decoded::Dropped { used: bytes }) => used += bytes,
                Ok(Decoded::Skipped { used: bytes }) => {
                    used += bytes;
                    if let Some(why) = refused.take() {
                        why.answer(transaction, client, turn);
                    }
                }
                Ok(Decoded::Incomplete { wanted }) => {
                    turn.wanted = wanted;
                    break;
                }
                Err(error) => {
                    turn.push_protocol_error(error);
                    turn.close = true;
                    let is_too_large = error == ProtocolError::RequestTooBig;
                    turn.broken = Some(if is_too_large { Breach::TooLarge } else { Breach::Protocol });
                }
            }
            if !client.reply_mode.is_plain() {
                settle(transaction, client, turn);
            }
        }
        self.answer_muted = turn.muted;
        // Whatever stands behind QUIT or a broken request is nobody's any more.
        if turn.close { input.len() } else { used }
    }

    /// Appends the turn's replies, in order.
    ///
    /// `drawn` has exactly the IDs of `turn.draws`, ascending; or it is the text of an error reply (without `-`), which then stands
    /// in place of each reply that needs IDs, while all others are as they are.
    ///
    /// # Panics
    ///
    /// When `drawn` has another number of IDs, which would be the caller's bug.
    pub fn write(&self, turn: &Turn, drawn: Result<&[Reservation], &str>, output: &mut Vec<u8>) {
        let mut encoded = turn.encoded();
        let mut piece = |len: usize| {
            let (piece, rest) = encoded.split_at(len);
            encoded = rest;
            piece
        };
        match drawn {
            Ok(reservations) => {
                let mut ids = Ids::new(&self.client.settings.scheme, reservations);
                let (mut integers, mut bulks) = (IdWriter::integers(), IdWriter::bulks());
                output.reserve(turn.encoded().len() + turn.draws.ids() as usize * resp::ID_BYTES_MAX);
                assert_eq!(ids.left, u64::from(turn.draws.ids()), "a turn is written with the IDs it asked for");
                for &reply in turn.replies() {
                    match reply {
                        // A single one has no neighbours to gain by.
                        Reply::Integers { count: 1 } => ids.each(1, |id| resp::write_id(id.get(), output)),
                        Reply::Integers { count } => ids.each(count, |id| integers.write(id.get(), output)),
                        Reply::Bulks { count } => {
                            resp::write_array_header(count as usize, output);
                            ids.each(count, |id| bulks.write(id.get(), output));
                        }
                        Reply::Unheard { count } => ids.each(count, |_| ()),
                        Reply::Encoded { len } => output.extend_from_slice(piece(len)),
                    }
                }
            }
            Err(text) => {
                for &reply in turn.replies() {
                    match reply {
                        Reply::Integers { count } => (0..count).for_each(|_| resp::write_error(text, output)),
                        Reply::Bulks { .. } => resp::write_error(text, output),
                        Reply::Unheard { .. } => {}
                        Reply::Encoded { len } => output.extend_from_slice(piece(len)),
                    }
                }
            }
        }
    }

    /// Appends the shell's answer to an effect, in the client's protocol.
    pub fn reply(&mut self, answer: &Value, output: &mut Vec<u8>) {
        if !self.answer_muted {
            resp::encode(answer, self.client.view.protocol, output);
        }
    }

    /// Writes the next reply that needs IDs, as far as `drawn` goes, and what stands before it, and takes all that off the
    /// turn and off `drawn`. For clients that get their replies one by one; what is left is written by [`Session::write`].
    pub fn write_next(&self, turn: &mut Turn, drawn: &mut Vec<Reservation>, output: &mut Vec<u8>) {
        let mut ids = Ids::new(&self.client.settings.scheme, drawn);
        while let Some((reply, piece)) = turn.take_next(u32::try_from(ids.left).unwrap_or(u32::MAX)) {
            match reply {
                Reply::Encoded { .. } => {
                    output.extend_from_slice(&piece);
                    continue;
                }
                Reply::Integers { count } => ids.each(count, |id| resp::write_id(id.get(), output)),
                Reply::Unheard { count } => ids.each(count, |_| ()),
                Reply::Bulks { count } => {
                    let mut bulks = IdWriter::bulks();
                    resp::write_array_header(count as usize, output);
                    ids.each(count, |id| bulks.write(id.get(), output));
                }
            }
            break;
        }
        let left = ids.into_rest();
        *drawn = left;
    }

    /// The protocol to answer an effect in piece by piece, as [`Session::reply`] does in one; `None`: it is not wanted.
    pub fn answers_in(&self) -> Option<Protocol> {
        (!self.answer_muted).then_some(self.client.view.protocol)
    }

    /// Whether the client has logged in, or need not.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.client.is_authenticated()
    }

    /// Gives back what memory it can, for a connection that went quiet; returns how much it still holds, in bytes, where
    /// that is worth counting.
    #[inline]
    pub fn release_memory(&mut self) -> usize {
        if self.decoder.is_quiet() && self.transaction.is_quiet() { 0 } else { self.release_more() }
    }

    #[inline(never)]
    fn release_more(&mut self) -> usize {
        self.decoder.release_memory();
        self.transaction.release_memory();
        if self.decoder.is_between_requests() && !self.transaction.is_open() { 0 } else { self.memory_bytes() }
    }

    /// Bytes of memory held for requests that are not complete, and behind `MULTI`; 0 where that is little.
    pub fn memory_bytes(&self) -> usize {
        let bytes = self.decoder.memory_bytes() + self.transaction.memory_bytes();
        if bytes > QUIET_BYTES { bytes } else { 0 }
    }
}

/// Memory of a session that is not worth counting, bytes.
const QUIET_BYTES: usize = 4096;

/// After a request of a client that has `CLIENT REPLY` not simply on.
#[cold]
fn settle(transaction: &Transaction, client: &mut Client, turn: &mut Turn) {
    if turn.muted {
        turn.forget_replies();
    }
    // What holds for EXEC holds for all it runs.
    if !transaction.is_running() {
        client.reply_mode.next_request();
    }
    turn.ended = client.reply_mode.is_muted() != turn.muted;
}

/// Most arguments of a command that takes any number of them.
///
/// There are no keys here, so nobody needs more; each is looked up or copied while others wait.
const ARGS_MAX: usize = 4096;

/// Largest request of a command that does not send an argument back (`ECHO` and `PING` do), in bytes as sent.
const ARGS_BYTES_MAX: usize = 64 * 1024;

/// Replies to a client that has not logged in, bytes, after which a turn ends.
const STRANGER_BYTES_MAX: usize = 2 * 1024;

/// Why a request is answered by an error before it is run or queued.
#[derive(Debug)]
enum Refused {
    /// It is HTTP.
    Http,
    /// It cannot be run: the reply.
    Because { command: Option<&'static Command>, text: Vec<u8> },
    /// Its user may not run it.
    NotAllowed(&'static Command),
}

impl Refused {
    #[cold]
    fn answer(self, transaction: &mut Transaction, client: &mut Client, turn: &mut Turn) {
        match self {
            Refused::Http => close_http(turn),
            Refused::Because { command, text } => {
                reject(transaction, client, command, &text, turn);
                // Who is not logged in is owed little at a time.
                turn.ended |= !client.is_authenticated() && turn.encoded().len() >= STRANGER_BYTES_MAX;
            }
            Refused::NotAllowed(command) => refuse(transaction, client, command, turn),
        }
    }
}

/// The command that a request asks for, if it can be run or queued. Of a request that is not complete, `args` are those so
/// far, the last one perhaps cut short, and `len` is how many there will be.
#[inline]
fn check(transaction: &Transaction, client: &Client, args: Args<'_>, len: usize) -> Result<&'static Command, Refused> {
    let command = match client.settings.vocabulary.resolve(args) {
        Err(_) if is_http(args) => return Err(Refused::Http),
        // By a name that is a command too, such as TIME: nothing else ends a first line so.
        Ok(_) if client.has_said_nothing() && args.len() == len && ends_as_http(args) => return Err(Refused::Http),
        Ok(command) => command,
        Err(text) => return Err(Refused::Because { command: None, text }),
    };
    let because = |text: &[u8]| Err(Refused::Because { command: Some(command), text: text.to_vec() });
    if !command.accepts(len) {
        return because(command.arity_error().as_bytes());
    }
    if !client.is_authenticated() && !command.flags.has(Flags::NO_AUTH) {
        return because(b"NOAUTH Authentication required.");
    }
    if transaction.is_queueing() && command.flags.has(Flags::NO_MULTI) {
        return because(b"ERR Command not allowed inside a transaction");
    }
    if !client.may_run(command, args) {
        return Err(Refused::NotAllowed(command));
    }
    if len > ARGS_MAX { because(too_many_args(command, len).as_bytes()) } else { Ok(command) }
}

/// Whether it answers with what it was sent.
fn sends_back(command: &Command) -> bool {
    matches!(command.verb, Verb::Echo | Verb::Ping)
}

/// The reply to a command with more than [`ARGS_MAX`] arguments.
#[cold]
fn too_many_args(command: &Command, len: usize) -> String {
    if sends_back(command) {
        return command.arity_error();
    }
    format!("ERR too many arguments for '{}' command: {len}, and it takes at most {ARGS_MAX}", command.full_name)
}

/// Whether a request is wanted that is going to have `bytes` bytes or more: what will be refused need not be kept.
#[cold]
fn check_large(
    transaction: &Transaction,
    client: &Client,
    args: Args<'_>,
    len: usize,
    bytes: usize,
) -> Result<(), Refused> {
    let command = check(transaction, client, args, len)?;
    let sends_back = sends_back(command);
    let text = if sends_back && len > 2 {
        command.arity_error()
    } else if !sends_back && bytes > ARGS_BYTES_MAX {
        format!(
            "ERR arguments of '{}' command are too large: it takes at most {ARGS_BYTES_MAX} bytes",
            command.full_name
        )
    } else {
        return Ok(());
    };
    Err(Refused::Because { command: Some(command), text: text.into_bytes() })
}

/// One request: rejected, held, queued, or run.
#[inline]
fn take(transaction: &mut Transaction, client: &mut Client, args: Args<'_>, turn: &mut Turn) {
    let command = match check(transaction, client, args, args.len()) {
        Ok(command) => command,
        Err(refused) => return refused.answer(transaction, client, turn),
    };
    if client.holds(command, transaction) {
        turn.held = true;
        return;
    }
    if command.flags.has(Flags::NO_AUTH) || command.verb == Verb::Exec {
        let logins = if transaction.is_queueing() {
            if command.verb == Verb::Exec { transaction.logins() } else { 0 }
        } else {
            u32::from(is_login(command, args))
        };
        if logins > client.leave() {
            turn.held = true;
            turn.logins_held = logins;
            return;
        }
    }
    match command.verb {
        Verb::Multi | Verb::Exec | Verb::Discard => transact(transaction, client, command, args, turn),
        Verb::Watch if transaction.is_queueing() => {
            let begun = client.begin(command, turn);
            turn.push_error("ERR WATCH inside MULTI is not allowed");
            client.end(begun, command, args, turn);
            client.show(command, args, turn);
        }
        Verb::Reset => {
            transaction.discard();
            client.perform(command, args, turn);
        }
        Verb::Quit => client.perform(command, args, turn),
        _ if transaction.is_queueing() => match transaction.push(command, args, client.settings.request_bytes_max) {
            Ok(()) => {
                client.view.set_last_command(command.full_name);
                turn.tally.end_lap();
                turn.push(b"+QUEUED\r\n");
            }
            Err(error) => {
                turn.tally.rejected(command.verb);
                turn.push_error(error.to_string());
            }
        },
        _ => return client.perform(command, args, turn),
    }
    client.view.queued = transaction.queued();
}

/// Whether this is a line of an HTTP request that can carry commands in its body, as in Redis.
///
/// A web page can make a browser send `SHUTDOWN` to a server on its own machine as the body of a `POST`, or of a request by
/// any other method; this line, or the header that every request has, comes before it.
#[cold]
fn is_http(args: Args<'_>) -> bool {
    let name = args.name();
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") || ends_as_http(args)
}

/// Whether it ends as the first line of an HTTP request does, with a method, a target and `HTTP/1.1`.
#[cold]
fn ends_as_http(args: Args<'_>) -> bool {
    let last = args.get(args.len().saturating_sub(1)).unwrap_or_default();
    args.len() >= 3 && last.len() == b"HTTP/1.x".len() && last[..7].eq_ignore_ascii_case(b"HTTP/1.")
}

#[cold]
fn close_http(turn: &mut Turn) {
    turn.close = true;
    turn.broken = Some(Breach::Http);
}

/// Answers a request that can't be run or queued. A transaction fails by it; `EXEC` itself ends one.
#[cold]
fn reject(
    transaction: &mut Transaction,
    client: &mut Client,
    command: Option<&'static Command>,
    text: &[u8],
    turn: &mut Turn,
) {
    if let Some(command) = command {
        turn.tally.rejected(command.verb);
    }
    if command.is_some_and(|command| command.verb == Verb::Exec) {
        transaction.discard();
        // Redis leaves the code out when it is ERR.
        let reason = text.strip_prefix(b"ERR ").unwrap_or(text);
        turn.push_error([b"EXECABORT Transaction discarded because of: ", reason].concat());
    } else {
        transaction.fail();
        turn.push_error(text);
    }
    client.view.queued = transaction.queued();
}

/// Answers a request that its user may not make.
#[cold]
fn refuse(transaction: &mut Transaction, client: &mut Client, command: &'static Command, turn: &mut Turn) {
    let context = if transaction.is_queueing() { Context::Multi } else { Context::TopLevel };
    client.deny(command, context, turn);
    client.view.set_last_command(command.full_name);
    reject(transaction, client, Some(command), client.refusal_of(command).as_bytes(), turn);
}

/// `MULTI`, `EXEC` and `DISCARD`.
fn transact(
    transaction: &mut Transaction,
    client: &mut Client,
    command: &'static Command,
    args: Args<'_>,
    turn: &mut Turn,
) {
    let begun = client.begin(command, turn);
    match command.verb {
        Verb::Multi if transaction.is_queueing() => turn.push_error("ERR MULTI calls can not be nested"),
        Verb::Multi => {
            transaction.begin();
            turn.push(client::OK);
        }
        verb if !transaction.is_queueing() => {
            turn.push_error(if verb == Verb::Exec { "ERR EXEC without MULTI" } else { "ERR DISCARD without MULTI" });
        }
        Verb::Exec if transaction.has_failed() => {
            transaction.discard();
            turn.push_error("EXECABORT Transaction discarded because of previous errors.");
        }
        Verb::Exec => {
            let len = transaction.run();
            turn.push_with(|out| resp::write_array_header(len, out));
        }
        _ => {
            transaction.discard();
            turn.push(client::OK);
        }
    }
    // EXEC is shown behind the commands it runs.
    client.end(begun, command, args, turn);
    if !transaction.is_running() {
        client.show(command, args, turn);
    }
}

/// The IDs of a turn, taken off its reservations from the front.
struct Ids<'a> {
    scheme: &'a Scheme,
    /// What is left of the first reservation.
    current: Reservation,
    rest: std::slice::Iter<'a, Reservation>,
    /// How many IDs are left altogether.
    left: u64,
}

impl<'a> Ids<'a> {
    fn new(scheme: &'a Scheme, reservations: &'a [Reservation]) -> Ids<'a> {
        let left = reservations.iter().map(|reservation| u64::from(reservation.len)).sum();
        let current = Reservation { first: getid_core::Slot(0), count: 0, len: 0 };
        Ids { scheme, current, rest: reservations.iter(), left }
    }

    /// What was not taken.
    fn into_rest(self) -> Vec<Reservation> {
        let current = (self.current.len > 0).then_some(self.current);
        current.into_iter().chain(self.rest.copied()).collect()
    }

    /// Calls `write` with each of the next `count` IDs.
    #[inline]
    fn each(&mut self, mut count: u32, mut write: impl FnMut(Id)) {
        self.left -= u64::from(count);
        while count > 0 {
            if self.current.len == 0 {
                self.current = *self.rest.next().expect("the sum of all lengths was checked");
            }
            let taken = Reservation { len: count.min(self.current.len), ..self.current };
            self.scheme.ids(taken).for_each(&mut write);
            self.current.first.0 += u64::from(taken.len);
            self.current.count = self.current.count.wrapping_add(u64::from(taken.len));
            self.current.len -= taken.len;
            count -= taken.len;
        }
    }
}
