//! `SEALID` and `OPENID`: an ID as a text that reveals nothing of it, and back.
//!
//! Both need the keys alone. So they work on a standby, and while no IDs are given. Only `OPENID` reveals an ID: no
//! other command takes a sealed text, and its rights are its own.

use getid_seal::Sealer;

use super::ids::unknown_generator;
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
    let settings = &call.client.settings;
    if settings.sealers.find(name).is_none() {
        let is_known = settings.generators.find(name).is_some() || settings.counters.find(name).is_some();
        return Err(if is_known { not_sealed(&quoted(name)) } else { unknown_generator(call, name) });
    }
    call.client.settings.sealers.find(name).ok_or_else(|| not_sealed(&quoted(name)))
}

#[cold]
fn not_sealed(name: &str) -> ErrorReply {
    let text = format!(
        "ERR generator '{name}' is not sealed. Add 'seal key-file /etc/getid/{name}.keys' to its line in the \
         configuration, and send SIGHUP to the server"
    );
    ErrorReply::new(ErrorKind::Conflict, text)
}
