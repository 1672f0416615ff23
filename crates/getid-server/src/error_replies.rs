//! Error replies to requests that the engine refuses.

use getid_core::server::SequenceRefusal;
use getid_core::server::worker::{LeaseRefusal, NoLease};
use getid_engine::claim::status::StandbyRefusal;
use getid_engine::generators::CounterRefusal;
use getid_engine::generators::sequence::{NumberError, RequestError, SequenceError};
use getid_engine::workers::WorkerError;
use getid_redis::resp::{ErrorKind, ErrorReply};

/// Returns the error reply of a standby.
pub fn of_standby(refusal: &StandbyRefusal) -> ErrorReply {
    let kind = if refusal.is_waiting { ErrorKind::Standby } else { ErrorKind::Unavailable };
    ErrorReply::new(kind, refusal.to_string())
}

/// Returns the error reply to a request for IDs of the counter `name`.
pub fn of_counter(refusal: &CounterRefusal, name: &str) -> ErrorReply {
    match refusal {
        CounterRefusal::Clock(refusal) => refusal.into(),
        CounterRefusal::Sequence(refusal) => ErrorReply::of_sequence(refusal, name),
    }
}

/// Returns the error reply to a request about the sequence `name`.
pub fn of_sequence(error: &SequenceError, name: &str) -> ErrorReply {
    ErrorReply::new(kind_of(error), error.of(name))
}

/// Returns the error reply to a request about a number of the generator `name`. `subject` is the request, or the text
/// of a number that is settled by hand.
pub fn of_number(error: &NumberError, name: &str, subject: &str) -> ErrorReply {
    let kind = match error {
        NumberError::Refused(refusal) => return ErrorReply::of_number(refusal, name, subject),
        NumberError::Counter(refusal) => return ErrorReply::of_sequence(refusal, name),
        NumberError::Unsupported(_) => ErrorKind::Conflict,
        NumberError::Busy { .. } | NumberError::Late { .. } | NumberError::Unknown(_) => ErrorKind::Unavailable,
    };
    ErrorReply::new(kind, error.of(name, subject))
}

/// Returns the error reply to a request about a store of sequences.
pub fn of_sequence_store(error: &SequenceError) -> ErrorReply {
    ErrorReply::new(kind_of(error), error.of_store())
}

/// Returns the error reply to a command with a request key, whose store has not answered it.
pub fn of_request(error: &RequestError) -> ErrorReply {
    let kind = match error {
        RequestError::SeveralStores { .. } | RequestError::ForeignTable => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    ErrorReply::new(kind, error.to_string())
}

/// Returns the error reply to a draw from a sequence, or from the counter `name`.
#[cold]
pub fn of_counter_draw(refusal: &SequenceRefusal, name: &str) -> ErrorReply {
    match refusal {
        SequenceRefusal::AtMax { max } => ErrorReply::new(
            ErrorKind::Conflict,
            format!(
                "ERR generator '{name}' has no more numbers now: its template holds at most {max}. 'overflow grow' in its \
                 declaration allows longer numbers"
            ),
        ),
        refusal => ErrorReply::of_sequence(refusal, name),
    }
}

fn kind_of(error: &SequenceError) -> ErrorKind {
    match error {
        SequenceError::Refused(refusal) => refusal.into(),
        SequenceError::Exists(_)
        | SequenceError::Lower { .. }
        | SequenceError::TooMany { .. }
        | SequenceError::MaxBelow { .. } => ErrorKind::Conflict,
        SequenceError::Not(_) => ErrorKind::Invalid,
        SequenceError::Unknown(_) => ErrorKind::Unavailable,
    }
}

/// Returns the error reply to a request about worker ids.
pub fn of_workers(error: &WorkerError) -> ErrorReply {
    let kind = match error {
        WorkerError::NoSuchPool { .. } | WorkerError::NotLeased { .. } => ErrorKind::NotFound,
        WorkerError::Lease { why: LeaseRefusal::LastAhead { .. }, .. }
        | WorkerError::GuardTooLong { .. }
        | WorkerError::NotNew { .. } => ErrorKind::Invalid,
        WorkerError::NoLease { why: NoLease::Exhausted { .. } | NoLease::OtherKind { .. }, .. }
        | WorkerError::Lease { .. } => ErrorKind::Conflict,
        WorkerError::NoLease { why: NoLease::NotOpen { .. }, .. }
        | WorkerError::Busy
        | WorkerError::Store { .. }
        | WorkerError::Unknown { .. }
        | WorkerError::Record { .. } => ErrorKind::Unavailable,
    };
    ErrorReply::new(kind, error.to_string())
}
