//! Commands about the connection itself: its user, its protocol, and its end.

use super::client::client_name;
use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, OK, SYNTAX};
use crate::acl::DEFAULT_USER;
use crate::command::REDIS_VERSION;
use crate::resp::{ErrorKind, ErrorReply, Protocol, Value, parse_integer, write_array_header, write_bulk};

const WRONG_PASSWORD: ErrorReply =
    ErrorReply::fixed(ErrorKind::WrongPassword, "WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD_SET: ErrorReply = ErrorReply::fixed(
    ErrorKind::Invalid,
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration \
     is correct?",
);
const HELLO_NEEDS_AUTH: ErrorReply = ErrorReply::fixed(
    ErrorKind::NotLoggedIn,
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option \
     can be used to authenticate the client and select the RESP protocol version at the same time",
);

/// Implements `PING [message]`.
pub(super) fn ping(call: &mut Call<'_>) -> CommandResult {
    match call.args.get(1) {
        // A message, since a plain reply could be mistaken for one.
        message if call.client.is_limited_to_pubsub() && call.args.len() <= 2 => {
            let message = message.unwrap_or_default();
            call.turn.push_with(|out| {
                write_array_header(2, out);
                write_bulk(b"pong", out);
                write_bulk(message, out);
            });
            Ok(CommandReply::Pushed)
        }
        None => Ok(CommandReply::Encoded(b"+PONG\r\n")),
        Some(_) if call.args.len() > 2 => Err(call.command.arity_error()),
        Some(_) => echo(call),
    }
}

/// Implements `ECHO message`.
pub(super) fn echo(call: &mut Call<'_>) -> CommandResult {
    let message = call.arg(1);
    call.turn.push_with(|out| write_bulk(message, out));
    Ok(CommandReply::Pushed)
}

/// Implements `QUIT`.
pub(super) fn quit(call: &mut Call<'_>) -> CommandResult {
    call.turn.close = true;
    Ok(OK)
}

/// `RESET`. As in Redis, the values of `CLIENT SETINFO` remain.
pub(super) fn reset(call: &mut Call<'_>) -> CommandResult {
    call.transaction.discard();
    call.client.reset(call.turn);
    call.turn.unmute_unless(call.client.reply_mode.is_muted());
    Ok(CommandReply::Encoded(b"+RESET\r\n"))
}

/// Implements `SELECT index`.
pub(super) fn select(call: &mut Call<'_>) -> CommandResult {
    let index = parse_integer(call.arg(1)).ok_or(NOT_AN_INTEGER)?;
    if i32::try_from(index).is_err() {
        let (least, most) = (i32::MIN, i32::MAX);
        return Err(format!("ERR value is out of range, value must between {least} and {most}").into());
    }
    match u32::try_from(index) {
        Ok(index) if index < call.client.settings.databases => {
            call.client.view.database = index;
            Ok(OK)
        }
        _ => Err("ERR DB index is out of range".into()),
    }
}

/// Implements `AUTH [user] password`.
pub(super) fn auth(call: &mut Call<'_>) -> CommandResult {
    let (user, password) = match (call.args.get(1), call.args.get(2), call.args.len()) {
        // Only in this form may a user believe that the password matters.
        (Some(_), None, _) if call.client.settings.users.default_user().is_nopass() => {
            return Err(NO_PASSWORD_SET);
        }
        (Some(password), None, _) => (DEFAULT_USER.as_bytes(), password),
        (Some(user), Some(password), 3) => (user, password),
        _ => return Err(SYNTAX),
    };
    log_in(call, user, password)?;
    Ok(OK)
}

/// Implements `HELLO [version [AUTH user password] [SETNAME name]]`.
pub(super) fn hello(call: &mut Call<'_>) -> CommandResult {
    let protocol = call.args.get(1).map(protocol).transpose()?;
    if let Some([user, password]) = hello_options(call)? {
        log_in(call, user, password)?;
    }
    // As in Redis, a connection whose user needs no login is not enough.
    if !call.client.is_logged_in() {
        return Err(HELLO_NEEDS_AUTH);
    }
    if let Some(protocol) = protocol {
        call.client.set_protocol(protocol);
    }
    let view = &call.client.view;
    Ok(CommandReply::Value(Value::map([
        ("server", Value::from("redis")),
        ("version", Value::from(REDIS_VERSION)),
        ("proto", Value::Integer(if view.protocol == Protocol::Resp3 { 3 } else { 2 })),
        ("id", Value::Integer(view.id.cast_signed())),
        ("mode", Value::from(call.client.settings.mode())),
        ("role", Value::from(call.client.settings.role())),
        ("modules", Value::Array(Vec::new())),
    ])))
}

fn protocol(version: &[u8]) -> Result<Protocol, ErrorReply> {
    match parse_integer(version) {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err(ErrorReply::fixed(ErrorKind::Invalid, "NOPROTO unsupported protocol version")),
        None => Err("ERR Protocol version is not an integer or out of range".into()),
    }
}

/// Parses the options of `HELLO` in Redis's order, and returns user and password. A name takes effect as soon as it is
/// read, even if the password turns out to be wrong.
fn hello_options<'a>(call: &mut Call<'a>) -> Result<Option<[&'a [u8]; 2]>, ErrorReply> {
    let mut login = None;
    let mut at = 2;
    while let Some(option) = call.args.get(at) {
        match (call.args.get(at + 1), call.args.get(at + 2)) {
            (Some(user), Some(password)) if option.eq_ignore_ascii_case(b"auth") => {
                login = Some([user, password]);
                at += 3;
            }
            (Some(name), _) if option.eq_ignore_ascii_case(b"setname") => {
                call.client.view.names_mut().name = client_name(name)?;
                at += 2;
            }
            _ => return Err(Call::error_quoting("ERR Syntax error in HELLO option '", option, "'")),
        }
    }
    Ok(login)
}

/// Logs in. A failure leaves the login as it was, as in Redis.
fn log_in(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<(), ErrorReply> {
    let word = call.arg(0);
    if call.client.log_in(user, password, word, call.turn) { Ok(()) } else { Err(WRONG_PASSWORD) }
}
