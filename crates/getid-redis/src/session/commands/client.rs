//! `CLIENT`: commands about this connection are done here. Commands about others are parsed in Redis's order, with
//! Redis's errors, and become an effect.

use std::sync::Arc;

use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, OK, SYNTAX};
use crate::resp::{ErrorReply, Value, parse_integer, write_id};
use crate::session::client::NAME_BYTES_MAX;
use crate::session::effect::{ClientEffect, ClientFilter, ClientKill, ClientKind, Effect, Pause, Unblock};
use crate::session::reply_mode::ReplyOption;

/// Implements `CLIENT ID`.
pub(super) fn id(call: &mut Call<'_>) -> CommandResult {
    let id = call.client.view.id;
    call.turn.push_with(|out| write_id(id, out));
    Ok(CommandReply::Pushed)
}

/// Implements `CLIENT GETNAME`.
pub(super) fn get_name(call: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Value(match &*call.client.view.names.name {
        "" => Value::Null,
        name => Value::from(name),
    }))
}

/// Implements `CLIENT SETNAME name`.
pub(super) fn set_name(call: &mut Call<'_>) -> CommandResult {
    call.client.view.names_mut().name = client_name(call.arg(2))?;
    Ok(OK)
}

/// Implements `CLIENT SETINFO LIB-NAME|LIB-VER value`.
pub(super) fn set_info(call: &mut Call<'_>) -> CommandResult {
    let (option, value) = (call.arg(2), call.arg(3));
    let what = str::from_utf8(option).unwrap_or_default();
    let names = if option.eq_ignore_ascii_case(b"lib-name") {
        &mut call.client.view.names_mut().lib_name
    } else if option.eq_ignore_ascii_case(b"lib-ver") {
        &mut call.client.view.names_mut().lib_version
    } else {
        return Err(Call::error_quoting("ERR Unrecognized option '", option, "'"));
    };
    *names = checked_name(value, what)?;
    Ok(OK)
}

/// Implements `CLIENT NO-EVICT ON|OFF`.
pub(super) fn no_evict(call: &mut Call<'_>) -> CommandResult {
    call.client.view.no_evict = on_or_off(call.arg(2))?;
    Ok(OK)
}

/// Implements `CLIENT NO-TOUCH ON|OFF`.
pub(super) fn no_touch(call: &mut Call<'_>) -> CommandResult {
    call.client.view.no_touch = on_or_off(call.arg(2))?;
    Ok(OK)
}

/// Implements `CLIENT REPLY ON|OFF|SKIP`.
pub(super) fn reply(call: &mut Call<'_>) -> CommandResult {
    let words = [("on", ReplyOption::On), ("off", ReplyOption::Off), ("skip", ReplyOption::Skip)];
    let option = named(&words, call.arg(2)).ok_or(SYNTAX)?;
    call.client.reply_mode.set(option);
    if option != ReplyOption::On {
        return Ok(CommandReply::Pushed);
    }
    call.turn.unmute_unless(false);
    Ok(OK)
}

/// `CLIENT TRACKING ON|OFF [option ...]`: always off. `+OK` to `ON` would promise messages that are never sent.
pub(super) fn tracking(call: &mut Call<'_>) -> CommandResult {
    let mut options = call.args.iter().skip(3);
    while let Some(option) = options.next() {
        let is = |names: &[&str]| names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(option));
        if is(&["redirect"]) {
            parse_integer(options.next().ok_or(SYNTAX)?).ok_or(NOT_AN_INTEGER)?;
        } else if is(&["prefix"]) {
            options.next().ok_or(SYNTAX)?;
        } else if !is(&["bcast", "optin", "optout", "noloop"]) {
            return Err(SYNTAX);
        }
    }
    if on_or_off(call.arg(2))? {
        return Err("ERR CLIENT TRACKING cannot be ON: there are no keys whose changes could be tracked".into());
    }
    Ok(OK)
}

/// `CLIENT TRACKINGINFO`: always reports off.
pub(super) fn tracking_info(_: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Value(Value::map([
        ("flags", Value::Set(vec![Value::from("off")])),
        ("redirect", Value::Integer(-1)),
        ("prefixes", Value::Array(Vec::new())),
    ])))
}

/// Implements `CLIENT GETREDIR`.
pub(super) fn get_redir(_: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Encoded(b":-1\r\n"))
}

/// Implements `CLIENT CACHING YES|NO`.
pub(super) fn caching(_: &mut Call<'_>) -> CommandResult {
    Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
        .into())
}

/// Implements `CLIENT LIST [TYPE kind | ID id ...]`.
pub(super) fn list(call: &mut Call<'_>) -> CommandResult {
    let filter = match (call.args.get(2), call.args.get(3)) {
        (None, _) => ClientFilter::All,
        (Some(option), Some(name)) if call.args.len() == 4 && option.eq_ignore_ascii_case(b"type") => {
            ClientFilter::Kind(kind(name)?)
        }
        (Some(option), Some(_)) if option.eq_ignore_ascii_case(b"id") => {
            let ids: Option<Vec<i64>> = call.args.iter().skip(3).map(parse_integer).collect();
            let ids = ids.ok_or("ERR Invalid client ID")?;
            // No connection has a negative number.
            ClientFilter::Ids(ids.into_iter().filter_map(|id| u64::try_from(id).ok()).collect())
        }
        _ => return Err(SYNTAX),
    };
    Ok(effect(ClientEffect::List(filter)))
}

/// `CLIENT KILL addr:port`, or `CLIENT KILL option value ...`. An option that comes twice counts the last time, as in
/// Redis.
pub(super) fn kill(call: &mut Call<'_>) -> CommandResult {
    if call.args.len() == 3 {
        let kill = ClientKill { is_old_form: true, addr: Some(call.arg(2).to_vec()), ..ClientKill::default() };
        return Ok(effect(ClientEffect::Kill(Box::new(kill))));
    }
    let mut kill = ClientKill { skips_own: true, ..ClientKill::default() };
    let mut options = call.args.iter().skip(2);
    while let Some(option) = options.next() {
        let value = options.next().ok_or(SYNTAX)?;
        match option.to_ascii_lowercase().as_slice() {
            b"id" => {
                let id = parse_integer(value).filter(|&id| id > 0).and_then(|id| u64::try_from(id).ok());
                kill.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
            }
            b"type" => kill.kind = Some(kind(value)?),
            b"addr" => kill.addr = Some(value.to_vec()),
            b"laddr" => kill.laddr = Some(value.to_vec()),
            b"user" if call.client.settings.users.get(value).is_none() => {
                return Err(Call::error_quoting("ERR No such user '", value, "'"));
            }
            b"user" => kill.user = Some(String::from_utf8_lossy(value).into_owned()),
            b"skipme" => kill.skips_own = named(&[("yes", true), ("no", false)], value).ok_or(SYNTAX)?,
            _ => return Err(SYNTAX),
        }
    }
    Ok(effect(ClientEffect::Kill(Box::new(kill))))
}

/// `CLIENT PAUSE timeout [WRITE|ALL]`, the timeout in milliseconds.
pub(super) fn pause(call: &mut Call<'_>) -> CommandResult {
    let modes = [("all", Pause::All), ("write", Pause::Write)];
    let holds = match call.args.get(3) {
        _ if call.args.len() > 4 => return Err(call.wrong_number("CLIENT")),
        None => Pause::All,
        Some(mode) => named(&modes, mode).ok_or("ERR CLIENT PAUSE mode must be WRITE or ALL")?,
    };
    let timeout = parse_integer(call.arg(2)).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout_ms = u64::try_from(timeout).map_err(|_| "ERR timeout is negative")?;
    Ok(effect(ClientEffect::Pause { timeout_ms, holds }))
}

/// Implements `CLIENT UNBLOCK id [TIMEOUT|ERROR]`.
pub(super) fn unblock(call: &mut Call<'_>) -> CommandResult {
    let reasons = [("timeout", Unblock::Timeout), ("error", Unblock::Error)];
    let how = match call.args.get(3) {
        _ if call.args.len() > 4 => return Err(call.wrong_number("CLIENT")),
        None => Unblock::Timeout,
        Some(how) => named(&reasons, how).ok_or("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")?,
    };
    let id = parse_integer(call.arg(2)).ok_or(NOT_AN_INTEGER)?;
    Ok(effect(ClientEffect::Unblock { id, how }))
}

pub(super) fn effect(effect: ClientEffect) -> CommandReply {
    CommandReply::Effect(Effect::Client(effect))
}

/// Returns the meaning of a word, in any letter case.
fn named<T: Copy>(words: &[(&'static str, T)], word: &[u8]) -> Option<T> {
    words.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(word)).map(|&(_, meaning)| meaning)
}

fn on_or_off(word: &[u8]) -> Result<bool, ErrorReply> {
    named(&[("on", true), ("off", false)], word).ok_or(SYNTAX)
}

fn kind(name: &[u8]) -> Result<ClientKind, ErrorReply> {
    let known = [
        ("normal", ClientKind::Normal),
        ("master", ClientKind::Master),
        ("replica", ClientKind::Replica),
        ("slave", ClientKind::Replica),
        ("pubsub", ClientKind::PubSub),
    ];
    named(&known, name).ok_or_else(|| Call::error_quoting("ERR Unknown client type '", name, "'"))
}

/// Checks a client's name from `CLIENT SETNAME` or `HELLO`.
pub(super) fn client_name(name: &[u8]) -> Result<Arc<str>, ErrorReply> {
    checked_name(name, "Client names")
}

/// Checks that a name fits into a line of `CLIENT LIST`: printable ASCII without blanks.
fn checked_name(name: &[u8], what: &str) -> Result<Arc<str>, ErrorReply> {
    match str::from_utf8(name) {
        Ok(_) if name.len() > NAME_BYTES_MAX => {
            Err(format!("ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes.").into())
        }
        Ok(text) if name.iter().all(u8::is_ascii_graphic) => Ok(Arc::from(text)),
        _ => Err(format!("ERR {what} cannot contain spaces, newlines or special characters.").into()),
    }
}
