//! `MULTI`, `EXEC` and related commands, none of which is queued itself.

use getid_core::server::{NameWord, is_sequence_name};

use super::sequences::not_a_name;
use super::{Call, CommandReply, CommandResult, OK};
use crate::resp::{ErrorKind, ErrorReply, write_array_header};

/// Implements `MULTI`.
pub(super) fn multi(call: &mut Call<'_>) -> CommandResult {
    if call.transaction.is_queueing() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.transaction.begin();
    Ok(OK)
}

/// `EXEC`: writes the head of the array. The session runs the commands one by one, which may take several turns.
pub(super) fn exec(call: &mut Call<'_>) -> CommandResult {
    if !call.transaction.is_queueing() {
        return Err("ERR EXEC without MULTI".into());
    }
    if call.transaction.has_failed() {
        call.transaction.discard();
        let text = "EXECABORT Transaction discarded because of previous errors.";
        return Err(ErrorReply::fixed(ErrorKind::Invalid, text));
    }
    // The transaction began before this server was demoted.
    if call.transaction.needs_claim()
        && let Some(error) = call.client.redirect(call.command, call.args)
    {
        call.transaction.discard();
        return Err(error);
    }
    let len = call.transaction.run();
    call.turn.push_with(|out| write_array_header(len, out));
    Ok(CommandReply::Pushed)
}

/// Implements `DISCARD`.
pub(super) fn discard(call: &mut Call<'_>) -> CommandResult {
    if !call.transaction.is_queueing() {
        return Err("ERR DISCARD without MULTI".into());
    }
    call.transaction.discard();
    Ok(OK)
}

/// `WATCH key ...`: refused. Every key is a sequence or may become one. `EXEC` cannot detect a change of it, since
/// other servers give its values too. A client that compares and sets would give values twice.
pub(super) fn watch(call: &mut Call<'_>) -> CommandResult {
    if call.transaction.is_queueing() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let Some(name) = str::from_utf8(call.arg(1)).ok().filter(|name| is_sequence_name(name)) else {
        return Err(not_a_name(call.arg(1)));
    };
    let word = NameWord(name);
    Err(format!(
        "ERR WATCH is refused to a sequence such as '{name}': EXEC cannot detect whether other clients and servers have \
         taken values since. Instead: INCR {word} takes the next value, INCRBY {word} n takes n, without MULTI"
    )
    .into())
}

/// Implements `UNWATCH`.
pub(super) fn unwatch(_: &mut Call<'_>) -> CommandResult {
    Ok(OK)
}
