//! What stands behind `CLIENT`, where it is about other connections: filters and options, read in Redis's order with
//! Redis's errors.

use super::client::{OPTION_BYTES_MAX, SYNTAX};
use super::effect::{ClientFilter, ClientKill, ClientKind};
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
