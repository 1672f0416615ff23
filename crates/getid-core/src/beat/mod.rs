//! Beats: how the servers of a shared store notice that it lost writes, before any of them reserves from it again.
//!
//! A database that fails over to a replica, or that is restored from a dump, loses its last writes. The server whose
//! reservations are lost can see it; the other servers cannot, and would give its values again. So each server has a
//! row in the store, and adds 1 to its beat there, regularly and with each reservation. The module has no clock and no
//! connection: answers are arguments, and the next ask is a return value. The rules:
//!
//! 1. A reservation is done only if the server's row is live and its beat is not below the one that the server noted. A
//!    store only ever goes back to a state that it had. So a beat that is not below its note proves that the store has
//!    all reservations of that server.
//! 2. A server is *in doubt* at its start, after a broken connection, a failed statement, and when another instance of
//!    the database answers. It then starts a round, and reserves nothing before the round is complete.
//! 3. The store's counter of rounds is the number of the latest round. A server acknowledges it with its next beat,
//!    that is by a write which rule 1 guards. A server whose beat is too low first compares its notes with all rows,
//!    raises the rows that are too low, and only then writes its beat.
//! 4. A round is complete when each server that the notes of its starter, or the table, call live has acknowledged it.
//!    The starter beats once more after it has seen that: if the store went back in between, that beat fails.
//! 5. A server stops being live when it leaves, or when its beat stood still for [`STILL_MS`] while the observer was
//!    not in doubt. A server that the starter's notes call live at the beginning of a doubt does not age in that doubt:
//!    it holds the store until it beats again, or until an operator releases it.
//! 6. A server that notes call live, and that the table lacks or has as gone with a lower beat, is put back into the
//!    table as live, so that servers without such a note wait for it as well.
//! 7. A process that finds its row written by another process takes a new nonce: the folder of its notes was copied.

mod member;
mod row;

pub use self::member::{AwaitedServer, Credentials, Member, MemberTask, NotedServer, STILL_MS};
pub use self::row::{BeatAnswer, BeatChanges, BeatKind, BeatRequest, Nonce, RestoredServer, ServerRow, ServerState};
