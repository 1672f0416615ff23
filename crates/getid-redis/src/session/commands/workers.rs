//! `WORKERID`: worker ids for programs that make IDs themselves.

use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, SYNTAX};
use crate::command::quoted;
use crate::resp::{ErrorKind, ErrorReply, parse_integer};
use crate::session::effect::Effect;
use crate::session::worker_effect::{WorkerEffect, WorkerWord};

/// Default number of leases in one `LIST`.
const LIST_COUNT: u32 = 100;
/// Maximum number of leases in one `LIST`.
const LIST_COUNT_MAX: u32 = 1_000;

/// Maximum length of a holder's name, bytes.
const NAME_BYTES_MAX: usize = getid_core::server::worker::HOLDER_NAME_BYTES_MAX;

/// Maximum length of a pool's name, bytes, so that an error does not quote more.
const POOL_BYTES_MAX: usize = 64;

/// Implements `WORKERID LEASE pool [NAME instance] [TTL seconds]`.
pub(super) fn lease(call: &mut Call<'_>) -> CommandResult {
    let pool = pool(call)?;
    let (mut name, mut ttl_ms) = (None, None);
    let mut words = call.args.iter().skip(3);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(SYNTAX)?;
        if word.eq_ignore_ascii_case(b"name") && name.is_none() {
            name = Some(holder(value)?);
        } else if word.eq_ignore_ascii_case(b"ttl") && ttl_ms.is_none() {
            ttl_ms = Some(ttl(value)?);
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(effect(WorkerEffect::Lease { pool, name: name.unwrap_or_default(), ttl_ms }))
}

/// Checks the name of a holder.
fn holder(name: &[u8]) -> Result<String, ErrorReply> {
    let is_plain = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic) && name != b"-";
    let text = str::from_utf8(name).ok().filter(|_| is_plain);
    text.map(str::to_owned).ok_or_else(|| {
        format!(
            "ERR '{}' cannot be the NAME: it has 1 to {NAME_BYTES_MAX} bytes of printable ASCII without a blank, and \
             is not '-'",
            quoted(name)
        )
        .into()
    })
}

fn ttl(text: &[u8]) -> Result<u64, ErrorReply> {
    let seconds = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    let ms = u64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1000));
    let is_allowed =
        |ms: &u64| (getid_core::server::worker::LEASE_MS_MIN..=getid_core::server::worker::LEASE_MS_MAX).contains(ms);
    ms.filter(is_allowed).ok_or_else(|| {
        let max = getid_core::server::worker::LEASE_MS_MAX / 1000;
        format!("ERR TTL is {seconds}, must be 1 to {max} seconds").into()
    })
}

/// Implements `WORKERID RENEW pool id token [LAST unix-ms]`.
pub(super) fn renew(call: &mut Call<'_>) -> CommandResult {
    let (pool, id, token, last_ms) = lease_args(call)?;
    Ok(effect(WorkerEffect::Renew { pool, id, token, last_ms }))
}

/// Implements `WORKERID RELEASE pool id token [LAST unix-ms]`.
pub(super) fn release(call: &mut Call<'_>) -> CommandResult {
    let (pool, id, token, last_ms) = lease_args(call)?;
    Ok(effect(WorkerEffect::Release { pool, id, token, last_ms }))
}

fn lease_args(call: &Call<'_>) -> Result<(String, u32, WorkerWord, Option<u64>), ErrorReply> {
    let (pool, id) = (pool(call)?, worker_id(call)?);
    let token = call.arg(4);
    if token.len() != WorkerWord::BYTES {
        let text = format!(
            "WRONGTOKEN worker id {id} of pool '{pool}': the token has {} bytes, must be the {} hex digits that \
             WORKERID LEASE returned",
            token.len(),
            WorkerWord::BYTES
        );
        return Err(ErrorReply::new(ErrorKind::Conflict, text));
    }
    let last_ms = match (call.args.get(5), call.args.get(6), call.args.len()) {
        (None, ..) => None,
        (Some(word), Some(last), 7) if word.eq_ignore_ascii_case(b"last") => {
            let last = parse_integer(last).ok_or(NOT_AN_INTEGER)?;
            Some(u64::try_from(last).map_err(|_| format!("ERR LAST is {last}, must be Unix time in milliseconds"))?)
        }
        _ => return Err(SYNTAX),
    };
    Ok((pool, id, WorkerWord::new(token), last_ms))
}

/// Implements `WORKERID LIST pool [CURSOR id] [COUNT n]`.
pub(super) fn list(call: &mut Call<'_>) -> CommandResult {
    let pool = pool(call)?;
    let (mut from, mut count) = (0, LIST_COUNT);
    let mut words = call.args.iter().skip(3);
    while let Some(word) = words.next() {
        let value = parse_integer(words.next().ok_or(SYNTAX)?).ok_or(NOT_AN_INTEGER)?;
        if word.eq_ignore_ascii_case(b"cursor") {
            from = u32::try_from(value).map_err(|_| "ERR invalid cursor")?;
        } else if word.eq_ignore_ascii_case(b"count") {
            let max = i64::from(LIST_COUNT_MAX);
            count = u32::try_from(value.min(max)).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(effect(WorkerEffect::List { pool, from, count }))
}

/// Implements `WORKERID INFO pool`.
pub(super) fn info(call: &mut Call<'_>) -> CommandResult {
    Ok(effect(WorkerEffect::Info { pool: pool(call)? }))
}

/// Implements `WORKERID INIT pool NEW`.
pub(super) fn init(call: &mut Call<'_>) -> CommandResult {
    let pool = pool(call)?;
    if !call.arg(3).eq_ignore_ascii_case(b"new") {
        return Err(SYNTAX);
    }
    Ok(effect(WorkerEffect::Init { pool }))
}

/// Implements `WORKERID REVOKE pool id`.
pub(super) fn revoke(call: &mut Call<'_>) -> CommandResult {
    Ok(effect(WorkerEffect::Revoke { pool: pool(call)?, id: worker_id(call)? }))
}

fn pool(call: &Call<'_>) -> Result<String, ErrorReply> {
    pool_named(call.arg(2))
}

/// Checks the name of a pool.
pub(super) fn pool_named(name: &[u8]) -> Result<String, ErrorReply> {
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let is_name = (1..=POOL_BYTES_MAX).contains(&name.len()) && name.iter().all(is_known);
    let text = str::from_utf8(name).ok().filter(|_| is_name);
    text.map(str::to_owned).ok_or_else(|| {
        let shown = quoted(name);
        format!("ERR no worker pool can have the name '{shown}': it has 1 to {POOL_BYTES_MAX} of A-Z a-z 0-9 _ . -")
            .into()
    })
}

fn worker_id(call: &Call<'_>) -> Result<u32, ErrorReply> {
    let id = parse_integer(call.arg(3)).ok_or(NOT_AN_INTEGER)?;
    let max = getid_core::server::worker::POOL_SIZE_MAX - 1;
    let known = u32::try_from(id).ok().filter(|id| *id <= max);
    known.ok_or_else(|| format!("ERR {id} is not a worker id: expected 0 to {max}").into())
}

pub(super) fn effect(effect: WorkerEffect) -> CommandReply {
    CommandReply::Effect(Effect::Worker(effect))
}
