//! Decision about a request before it runs: it is refused, held, queued in `MULTI`, or run.

use super::client::{ClientState, PermissionError};
use super::commands::Call;
use super::transaction::{Transaction, is_login};
use super::turn::{Breach, Turn};
use crate::acl::Context;
use crate::command::{Command, CommandFlags, Verb, Vocabulary};
use crate::resp::{Args, ErrorKind, ErrorReply};

/// Maximum number of arguments of a command that takes any number of them.
///
/// Each argument is looked up or copied while other clients wait, and no use here needs more.
const ARGS_MAX: usize = 4096;

/// Maximum size of a request whose command does not return an argument (`ECHO` and `PING` do), in bytes as sent.
const ARGS_BYTES_MAX: usize = 64 * 1024;

/// Size of replies to a client that has not logged in after which a turn ends, bytes.
const UNAUTHENTICATED_BYTES_MAX: usize = 2 * 1024;

/// Error of a client that must log in and has not.
const NOT_LOGGED_IN: ErrorReply = ErrorReply::fixed(ErrorKind::NotLoggedIn, "NOAUTH Authentication required.");

/// Reason why a request gets an error before it is run or queued.
#[derive(Debug)]
pub(super) enum RequestRejection {
    /// The request is HTTP.
    Http,
    /// The request is invalid; `error` is the reply.
    Invalid { command: Option<&'static Command>, error: ErrorReply },
    /// The user may not run the command.
    NotAllowed(Box<PermissionError>),
}

impl RequestRejection {
    #[cold]
    pub(super) fn answer(self, transaction: &mut Transaction, client: &mut ClientState, turn: &mut Turn) {
        match self {
            RequestRejection::Http => close_http(turn),
            RequestRejection::Invalid { command, error } => {
                reject(transaction, client, command, &error, turn);
                // A client that has not logged in gets few bytes per turn.
                turn.ended |= !client.is_authenticated() && turn.encoded().len() >= UNAUTHENTICATED_BYTES_MAX;
            }
            RequestRejection::NotAllowed(refused) => refuse(transaction, client, *refused, turn),
        }
    }
}

/// Returns the command of a request, if it can be run or queued. For an incomplete request, `args` are the arguments so
/// far, of which the last may be cut, and `len` is their final number.
#[inline]
fn check(
    transaction: &Transaction,
    client: &ClientState,
    args: Args<'_>,
    len: usize,
) -> Result<&'static Command, RequestRejection> {
    let command = match client.settings.vocabulary.resolve(args) {
        Err(_) if is_http(args) => return Err(RequestRejection::Http),
        // HTTP whose method is also a command, such as TIME: only HTTP ends a first line like this.
        Ok(_) if client.has_run_no_command() && args.len() == len && ends_as_http(args) => {
            return Err(RequestRejection::Http);
        }
        Ok(command) => command,
        Err(error) => return Err(RequestRejection::Invalid { command: None, error }),
    };
    let because = |error: ErrorReply| Err(RequestRejection::Invalid { command: Some(command), error });
    let command = if command.accepts(len) {
        command
    } else {
        match Vocabulary::of_unnamed(command, args).filter(|row| row.accepts(len)) {
            Some(row) => row,
            None => return because(command.arity_error()),
        }
    };
    if !client.is_authenticated() && !command.flags.has(CommandFlags::NO_AUTH) {
        return because(NOT_LOGGED_IN);
    }
    if transaction.is_queueing() && command.flags.has(CommandFlags::NO_MULTI) {
        return because("ERR Command not allowed inside a transaction".into());
    }
    client.check(command, args).map_err(RequestRejection::NotAllowed)?;
    if command.needs_claim
        && let Some(error) = client.redirect(command, args)
    {
        return because(error);
    }
    if client.is_limited_to_pubsub() && !is_allowed_to_subscribers(command) {
        return because(subscriber_error(command));
    }
    if len > ARGS_MAX { because(too_many_args(command, len)) } else { Ok(command) }
}

/// Returns true if a subscribed client may send this command in RESP2.
fn is_allowed_to_subscribers(command: &Command) -> bool {
    let is_about_connection = matches!(command.verb, Verb::Ping | Verb::Quit | Verb::Reset);
    is_about_connection || (command.flags.has(CommandFlags::PUBSUB) && command.verb != Verb::Publish)
}

#[cold]
fn subscriber_error(command: &Command) -> ErrorReply {
    format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.full_name
    )
    .into()
}

/// Returns the error for a command with more than [`ARGS_MAX`] arguments.
#[cold]
fn too_many_args(command: &Command, len: usize) -> ErrorReply {
    if command.sends_back {
        return command.arity_error();
    }
    format!("ERR too many arguments for '{}' command: {len}, and it takes at most {ARGS_MAX}", command.full_name).into()
}

/// Checks a request that will have at least `bytes` bytes, so that a request that will be refused is not buffered.
#[cold]
pub(super) fn check_large(
    transaction: &Transaction,
    client: &ClientState,
    args: Args<'_>,
    len: usize,
    bytes: usize,
) -> Result<(), RequestRejection> {
    let command = check(transaction, client, args, len)?;
    let error = if command.sends_back && len > 2 {
        command.arity_error()
    } else if !command.sends_back && bytes > ARGS_BYTES_MAX {
        format!(
            "ERR arguments of '{}' command are too large: it takes at most {ARGS_BYTES_MAX} bytes",
            command.full_name
        )
        .into()
    } else {
        return Ok(());
    };
    Err(RequestRejection::Invalid { command: Some(command), error })
}

/// Rejects, holds, queues or runs one request.
#[inline]
pub(super) fn take(transaction: &mut Transaction, client: &mut ClientState, args: Args<'_>, turn: &mut Turn) {
    let command = match check(transaction, client, args, args.len()) {
        Ok(command) => command,
        Err(refused) => return refused.answer(transaction, client, turn),
    };
    if client.holds(command, transaction) {
        turn.held = true;
        return;
    }
    if command.flags.has(CommandFlags::NO_AUTH) || command.verb == Verb::Exec {
        let logins = if transaction.is_queueing() {
            if command.verb == Verb::Exec { transaction.logins() } else { 0 }
        } else {
            u32::from(is_login(command, args))
        };
        if logins > client.login_permits() {
            turn.held = true;
            turn.logins_held = logins;
            return;
        }
    }
    if transaction.is_queueing() && !command.runs_at_once {
        match transaction.push(command, args, client.settings.request_bytes_max) {
            Ok(()) => {
                client.view.set_last_command(command.full_name);
                turn.tally.end_lap();
                turn.push(b"+QUEUED\r\n");
            }
            Err(error) => {
                turn.tally.rejected(command.verb);
                turn.push_error(&error.to_string().into());
            }
        }
        client.view.queued = transaction.queued();
        return;
    }
    Call { command, args, client, transaction, turn }.run();
    if command.runs_at_once {
        client.view.queued = transaction.queued();
    }
}

/// Returns true if this is a line of an HTTP request that can carry commands in its body, as in Redis.
///
/// A web page can make a browser send `SHUTDOWN` to a server on its own machine as the body of a `POST`, or of a
/// request by any other method; this line, or the header that every request has, comes before it.
#[cold]
fn is_http(args: Args<'_>) -> bool {
    let name = args.name();
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") || ends_as_http(args)
}

/// Returns true if it ends as the first line of an HTTP request does, with a method, a target and `HTTP/1.1`.
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

/// Answers a request that cannot be run or queued. It makes a transaction fail; for `EXEC`, it ends the transaction.
#[cold]
fn reject(
    transaction: &mut Transaction,
    client: &mut ClientState,
    command: Option<&'static Command>,
    error: &ErrorReply,
    turn: &mut Turn,
) {
    if let Some(command) = command {
        turn.tally.rejected(command.verb);
    }
    if command.is_some_and(|command| command.verb == Verb::Exec) {
        transaction.discard();
        // Redis omits the code if it is ERR.
        let reason = error.text.strip_prefix(b"ERR ").unwrap_or(&error.text);
        let text = [b"EXECABORT Transaction discarded because of: ", reason].concat();
        turn.push_error(&ErrorReply { text: text.into(), kind: error.kind });
    } else {
        transaction.fail();
        turn.push_error(error);
    }
    client.view.queued = transaction.queued();
}

/// Answers a request that its user may not run.
#[cold]
fn refuse(transaction: &mut Transaction, client: &mut ClientState, refused: PermissionError, turn: &mut Turn) {
    let context = if transaction.is_queueing() { Context::Multi } else { Context::TopLevel };
    let command = refused.command;
    let error = client.deny(refused, context, turn);
    client.view.set_last_command(command.full_name);
    reject(transaction, client, Some(command), &error, turn);
}
