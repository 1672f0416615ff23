//! What stands behind `CLIENT`, where it is about other connections: filters and options, read in Redis's order with
//! Redis's errors.

use super::client::{NOT_AN_INTEGER, OPTION_BYTES_MAX, SYNTAX};
use super::effect::{ClientFilter, ClientKill, ClientKind, Effect, Pause, Unblock};
use super::reply_mode::Wanted;
use crate::command::quote;
use crate::resp::{Args, parse_integer};

/// `CLIENT LIST [TYPE kind | ID id ...]`
pub(super) fn filter(args: Args<'_>) -> Result<ClientFilter, Vec<u8>> {
    let Some(option) = args.get(2) else { return Ok(ClientFilter::All) };
    match args.get(3) {
        Some(name) if args.len() == 4 && option.eq_ignore_ascii_case(b"type") => kind(name).map(ClientFilter::Kind),
        Some(_) if option.eq_ignore_ascii_case(b"id") => {
            let ids: Option<Vec<i64>> = args.iter().skip(3).map(parse_integer).collect();
            let ids = ids.ok_or(b"ERR Invalid client ID")?;
            // No connection has a negative one.
            Ok(ClientFilter::Ids(ids.into_iter().filter_map(|id| u64::try_from(id).ok()).collect()))
        }
        _ => Err(SYNTAX.into()),
    }
}

/// `CLIENT KILL addr:port`, or `CLIENT KILL option value ...`. An option that comes twice counts the last time, as in Redis.
pub(super) fn kill(args: Args<'_>, knows_user: impl Fn(&[u8]) -> bool) -> Result<ClientKill, Vec<u8>> {
    if args.len() == 3 {
        let addr = args.get(2).map(<[u8]>::to_vec);
        return Ok(ClientKill { is_old_form: true, addr, ..ClientKill::default() });
    }
    let mut kill = ClientKill { skips_own: true, ..ClientKill::default() };
    let mut options = args.iter().skip(2);
    while let Some(option) = options.next() {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        let value = options.next().ok_or(SYNTAX)?;
        if is(b"id") {
            let id = parse_integer(value).filter(|&id| id > 0).and_then(|id| u64::try_from(id).ok());
            kill.id = Some(id.ok_or(b"ERR client-id should be greater than 0")?);
        } else if is(b"type") {
            kill.kind = Some(kind(value)?);
        } else if is(b"addr") {
            kill.addr = Some(value.to_vec());
        } else if is(b"laddr") {
            kill.laddr = Some(value.to_vec());
        } else if is(b"user") {
            if !knows_user(value) {
                return Err([b"ERR No such user '", quote(value, OPTION_BYTES_MAX), b"'"].concat());
            }
            kill.user = Some(String::from_utf8_lossy(value).into_owned());
        } else if is(b"skipme") {
            kill.skips_own = match value {
                value if value.eq_ignore_ascii_case(b"yes") => true,
                value if value.eq_ignore_ascii_case(b"no") => false,
                _ => return Err(SYNTAX.into()),
            };
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok(kill)
}

/// `CLIENT PAUSE timeout [WRITE|ALL]`, the timeout in milliseconds.
pub(super) fn pause(args: Args<'_>) -> Result<Effect, Vec<u8>> {
    let holds = match args.get(3) {
        _ if args.len() > 4 => return Err(wrong_number("CLIENT", args)),
        None => Pause::All,
        Some(mode) if mode.eq_ignore_ascii_case(b"all") => Pause::All,
        Some(mode) if mode.eq_ignore_ascii_case(b"write") => Pause::Write,
        Some(_) => return Err(b"ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
    };
    let timeout = args.get(2).and_then(parse_integer).ok_or(b"ERR timeout is not an integer or out of range")?;
    let timeout_ms = u64::try_from(timeout).map_err(|_| b"ERR timeout is negative")?;
    Ok(Effect::ClientPause { timeout_ms, holds })
}

/// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`
pub(super) fn unblock(args: Args<'_>) -> Result<Effect, Vec<u8>> {
    let how = match args.get(3) {
        _ if args.len() > 4 => return Err(wrong_number("CLIENT", args)),
        None => Unblock::Timeout,
        Some(how) if how.eq_ignore_ascii_case(b"timeout") => Unblock::Timeout,
        Some(how) if how.eq_ignore_ascii_case(b"error") => Unblock::Error,
        Some(_) => return Err(b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
    };
    let id = args.get(2).and_then(parse_integer).ok_or(NOT_AN_INTEGER)?;
    Ok(Effect::ClientUnblock { id, how })
}

/// `CLIENT REPLY ON|OFF|SKIP`
pub(super) fn reply(word: &[u8]) -> Option<Wanted> {
    let words = [("on", Wanted::On), ("off", Wanted::Off), ("skip", Wanted::Skip)];
    words.into_iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(word)).map(|(_, wanted)| wanted)
}

/// `CLIENT TRACKING ON|OFF [option ...]`: it is off, and stays so. `+OK` to `ON` would promise messages that never come.
pub(super) fn tracking(args: Args<'_>) -> Result<(), Vec<u8>> {
    let mut options = args.iter().skip(3);
    while let Some(option) = options.next() {
        let is = |names: &[&str]| names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(option));
        if is(&["redirect"]) {
            parse_integer(options.next().ok_or(SYNTAX)?).ok_or(NOT_AN_INTEGER)?;
        } else if is(&["prefix"]) {
            options.next().ok_or(SYNTAX)?;
        } else if !is(&["bcast", "optin", "optout", "noloop"]) {
            return Err(SYNTAX.into());
        }
    }
    match args.get(2) {
        Some(word) if word.eq_ignore_ascii_case(b"off") => Ok(()),
        Some(word) if word.eq_ignore_ascii_case(b"on") => {
            Err(b"ERR CLIENT TRACKING cannot be ON: there are no keys here whose changes could be told".into())
        }
        _ => Err(SYNTAX.into()),
    }
}

/// Redis's text where an option has too much behind it; the subcommand as it was written.
pub(super) fn wrong_number(container: &str, args: Args<'_>) -> Vec<u8> {
    let name = quote(args.get(1).unwrap_or_default(), OPTION_BYTES_MAX);
    let help = format!("'. Try {container} HELP.");
    [b"ERR unknown subcommand or wrong number of arguments for '", name, help.as_bytes()].concat()
}

fn kind(name: &[u8]) -> Result<ClientKind, Vec<u8>> {
    let known = [
        ("normal", ClientKind::Normal),
        ("master", ClientKind::Master),
        ("replica", ClientKind::Replica),
        ("slave", ClientKind::Replica),
        ("pubsub", ClientKind::PubSub),
    ];
    let found = known.into_iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
    found
        .map(|(_, kind)| kind)
        .ok_or_else(|| [b"ERR Unknown client type '", quote(name, OPTION_BYTES_MAX), b"'"].concat())
}
