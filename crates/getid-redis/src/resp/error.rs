//! Error replies, and the cause that each reports.
//!
//! The text of an error reply is for people and for clients of Redis, which match some of the texts. Code of getid
//! branches on the [`ErrorKind`], so a text can get clearer without a change of behaviour elsewhere. Both are made in
//! one place: a text alone is the reply to an invalid request, and every other cause is named.

use std::borrow::Cow;

use getid_core::Refusal;
use getid_core::server::SequenceRefusal;
use getid_core::server::ledger::NumberRefusal;

/// Cause of an error reply: one variant for each that some code treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is invalid, or the server does not support it.
    Invalid,
    /// The number of arguments is wrong.
    Arity,
    /// There is no command of this name. It may be removed or renamed by `rename-command`.
    UnknownCommand,
    /// The command requires a login.
    NotLoggedIn,
    /// User and password do not match, or the user is disabled.
    WrongPassword,
    /// The user may not run the command, or not on this key.
    NoPermission,
    /// The generator, the worker pool or the lease does not exist.
    NotFound,
    /// The sequence does not exist, or was dropped.
    NoSuchSequence,
    /// The server has no store for sequences.
    SequencesOff,
    /// The request is valid, and conflicts with the state of what it names: a sequence at its maximum, or whose row
    /// cannot be used; a value below the present one; a name that is taken; a generator of another server; a number too
    /// wide for its format; a lease that has ended.
    Conflict,
    /// The request was made before with other arguments.
    OtherArguments,
    /// Other writers changed the sequence's row in a table of Tinyid at every attempt to write it. Tinyid's clients
    /// know this error.
    Contended,
    /// The server cannot serve the request now: a clock, a disk, a store, a limit or a stop prevents it.
    Unavailable,
    /// The server waits for the claim to its server-id.
    Standby,
}

/// An error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply {
    /// Cause of the error.
    pub kind: ErrorKind,
    /// Code and text without the `-`, such as `ERR syntax error`. It may quote a client's input, of any bytes.
    pub text: Cow<'static, [u8]>,
}

impl ErrorReply {
    /// Returns an error reply with a constant text.
    pub const fn fixed(kind: ErrorKind, text: &'static str) -> ErrorReply {
        ErrorReply { kind, text: Cow::Borrowed(text.as_bytes()) }
    }

    /// Returns an error reply.
    pub fn new(kind: ErrorKind, text: String) -> ErrorReply {
        ErrorReply { kind, text: Cow::Owned(text.into_bytes()) }
    }

    /// Returns the error reply to a request about a number of the generator `name`. `subject` is the request, or the
    /// text of a number that is settled by hand.
    pub fn of_number(refusal: &NumberRefusal, name: &str, subject: &str) -> ErrorReply {
        ErrorReply::new(refusal.into(), refusal.of(name, subject))
    }

    /// Returns the error reply to a request for values of the sequence or the generator `name`.
    pub fn of_sequence(refusal: &SequenceRefusal, name: &str) -> ErrorReply {
        ErrorReply::new(refusal.into(), refusal.of(name))
    }
}

impl From<&NumberRefusal> for ErrorKind {
    fn from(refusal: &NumberRefusal) -> ErrorKind {
        match refusal {
            NumberRefusal::UnknownRequest | NumberRefusal::UnknownText => ErrorKind::NotFound,
            NumberRefusal::OtherUser => ErrorKind::NoPermission,
            NumberRefusal::Settled { .. }
            | NumberRefusal::OtherSeries { .. }
            | NumberRefusal::AtMax { .. }
            | NumberRefusal::TextTaken { .. }
            | NumberRefusal::TooManyReleased { .. }
            | NumberRefusal::Lower { .. }
            | NumberRefusal::NotFromTheStart { .. } => ErrorKind::Conflict,
        }
    }
}

impl From<&SequenceRefusal> for ErrorKind {
    fn from(refusal: &SequenceRefusal) -> ErrorKind {
        match refusal {
            SequenceRefusal::NoSuch | SequenceRefusal::NoSeries | SequenceRefusal::Dropped { .. } => {
                ErrorKind::NoSuchSequence
            }
            SequenceRefusal::Ended { .. }
            | SequenceRefusal::AtMax { .. }
            | SequenceRefusal::TooManySeries { .. }
            | SequenceRefusal::BadRow(_) => ErrorKind::Conflict,
            SequenceRefusal::Contended(_) => ErrorKind::Contended,
            SequenceRefusal::TooLarge { .. } => ErrorKind::Invalid,
            SequenceRefusal::NotGiven { .. }
            | SequenceRefusal::NotAbove { .. }
            | SequenceRefusal::WentBack
            | SequenceRefusal::Lost { .. }
            | SequenceRefusal::Newer { .. }
            | SequenceRefusal::Busy { .. }
            | SequenceRefusal::Store(_)
            | SequenceRefusal::Unconfirmed { .. }
            | SequenceRefusal::Closed => ErrorKind::Unavailable,
        }
    }
}

impl From<&Refusal> for ErrorReply {
    fn from(refusal: &Refusal) -> ErrorReply {
        let is_standby = matches!(refusal, Refusal::Standby(_));
        ErrorReply::new(if is_standby { ErrorKind::Standby } else { ErrorKind::Unavailable }, refusal.to_string())
    }
}

/// Makes the reply to an invalid request.
impl From<&'static str> for ErrorReply {
    fn from(text: &'static str) -> ErrorReply {
        debug_assert!(text.starts_with("ERR "), "an error with a code of its own has a kind: {text}");
        ErrorReply::fixed(ErrorKind::Invalid, text)
    }
}

/// Makes the reply to an invalid request.
impl From<String> for ErrorReply {
    fn from(text: String) -> ErrorReply {
        ErrorReply::from(text.into_bytes())
    }
}

/// Makes the reply to an invalid request.
impl From<Vec<u8>> for ErrorReply {
    fn from(text: Vec<u8>) -> ErrorReply {
        debug_assert!(text.starts_with(b"ERR "), "an error with a code of its own has a kind");
        ErrorReply { kind: ErrorKind::Invalid, text: Cow::Owned(text) }
    }
}

impl AsRef<[u8]> for ErrorReply {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}
