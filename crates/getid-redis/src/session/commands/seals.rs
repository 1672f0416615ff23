//! `SEALID` and `OPENID`: an ID as a text that reveals nothing of it, and back.
//!
//! Both need the keys alone. So they work on a standby, and while no IDs are given. Only `OPENID` reveals an ID: no
//! other command takes a sealed text. `SEALID` confirms a guess. So each is a right of its own.

use getid_core::server::CounterKind;
use getid_seal::Sealer;

use super::unknown::unknown_generator;
use super::{Call, CommandReply, CommandResult};
use crate::command::quoted;
use crate::resp::{ErrorKind, ErrorReply, Value, parse_integer};

/// Implements `SEALID name id`.
pub(super) fn seal(call: &mut Call<'_>) -> CommandResult {
    let id = call.arg(2);
    let sealer = sealer_at(call, 1)?;
    let number = parse_integer(id).and_then(|id| u64::try_from(id).ok());
    let text = number.and_then(|number| sealer.seal(number).ok()).ok_or_else(|| {
        let (id, name) = (quoted(id), sealer.name());
        format!("ERR '{id}' is not an id of generator '{name}': expected a decimal number of at most 63 bits")
    })?;
    Ok(CommandReply::Value(Value::bulk(text)))
}

/// Implements `OPENID name text`.
pub(super) fn open(call: &mut Call<'_>) -> CommandResult {
    let text = call.arg(2);
    let sealer = sealer_at(call, 1)?;
    let opened = sealer.open(text).map_err(|error| format!("ERR '{}' {error}", quoted(text)))?;
    Ok(CommandReply::Value(Value::Integer(i64::try_from(opened.id).unwrap_or(i64::MAX))))
}

/// Returns the sealer of the generator that the argument at `at` names.
fn sealer_at<'a>(call: &'a mut Call<'_>, at: usize) -> Result<&'a Sealer, ErrorReply> {
    let name = call.arg(at);
    if call.client.settings.sealers.find(name).is_none() {
        return Err(no_sealer(call, name));
    }
    call.client.settings.sealers.find(name).ok_or_else(|| not_sealed(&quoted(name), true))
}

/// Returns the error of a name without a sealer.
#[cold]
fn no_sealer(call: &mut Call<'_>, name: &[u8]) -> ErrorReply {
    let settings = &call.client.settings;
    let clock = settings.generators.find(name).and_then(|place| settings.generators.get(place));
    let counter = settings.counters.find(name).and_then(|place| settings.counters.get(place));
    let is_integer = match (clock, counter) {
        (Some(clock), _) => clock.1.declaration().is_integer(),
        (None, Some(counter)) => matches!(counter.kind(), CounterKind::Sequence(None)),
        (None, None) => return unknown_generator(call, name),
    };
    not_sealed(&quoted(name), is_integer)
}

/// Returns the error of a generator that is not sealed: the steps that seal it, or that its IDs are texts.
#[cold]
fn not_sealed(name: &str, is_integer: bool) -> ErrorReply {
    let text = if is_integer {
        format!(
            "ERR generator '{name}' is not sealed. Make a key file (one line: 0 and 64 hex digits, mode 600), add \
             'seal key-file PATH' to the generator's line, and send SIGHUP to the server"
        )
    } else {
        format!("ERR generator '{name}' is not sealed, and cannot be: its ids are texts")
    };
    ErrorReply::new(ErrorKind::Conflict, text)
}
