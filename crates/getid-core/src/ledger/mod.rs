//! Numbers without gaps: a ledger has the state of each number of a counter, from 1 to the highest.
//!
//! A number is handed out to a *request*, a text that its client chooses. It is reserved first, and then committed,
//! released for another request, or void with a reason. A store keeps the ledger, and changes it and the counter in one
//! transaction. So a number is in one state, whichever server or client stops.
//!
//! Invariants: every number from 1 to the highest of a period is in exactly one state. A number belongs to one request
//! at most. No clock changes a state.

mod machine;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

pub use self::machine::{
    CounterView, GeneratorLedger, GeneratorWrite, Ledger, LedgerWrites, RequestHandle, SettledRequest, WrittenNumber,
    place_in_text,
};
use crate::sequence::Key;
use crate::serial::{CivilTime, CounterDeclaration};

/// Longest request, bytes.
pub const REQUEST_BYTES_MAX: usize = 128;

/// Longest reason, bytes.
pub const REASON_BYTES_MAX: usize = 200;

/// Time in s after which a reserved number is overdue, unless its request has another time.
pub const DUE_S_DEFAULT: u32 = 3_600;

/// Longest time in s after which a reserved number is overdue: a year.
pub const DUE_S_MAX: u32 = 31_622_400;

/// State of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberState {
    /// The number is reserved for a request, which has not settled it.
    Reserved,
    /// The number is used.
    Committed,
    /// The request has returned the number, and another request may get it.
    Released,
    /// The number is not used, and never will be: the reason explains it.
    Void,
    /// A store that went back has lost the state of the number. An administrator settles it.
    Unclear,
}

impl NumberState {
    /// All states.
    pub const ALL: [NumberState; 5] =
        [NumberState::Reserved, NumberState::Committed, NumberState::Released, NumberState::Void, NumberState::Unclear];

    /// Returns the word of it, in commands, tables and exports.
    pub const fn word(self) -> &'static str {
        match self {
            NumberState::Reserved => "reserved",
            NumberState::Committed => "committed",
            NumberState::Released => "released",
            NumberState::Void => "void",
            NumberState::Unclear => "unclear",
        }
    }

    /// Returns the state of a word.
    pub fn of_word(word: &str) -> Option<NumberState> {
        NumberState::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// What a client does with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberAct {
    /// Hands a number out: that of the request if it has one, else the lowest released one of the period, else the
    /// next.
    Reserve {
        /// Time in s after which the reserved number is overdue.
        due_s: u32,
        /// Whether the number is committed at once.
        commits: bool,
    },
    /// Commits the number of the request.
    Commit,
    /// Returns the number of the request, for another request.
    Release,
    /// Marks the number of the request as not used.
    Void {
        /// Why it is not used.
        reason: String,
    },
    /// Settles a number without its request. It cannot release it.
    Settle {
        /// The number, as it was handed out.
        text: String,
        /// Whether the number is committed. Else it becomes void.
        commits: bool,
        /// Why it is settled so.
        reason: String,
    },
    /// Makes all numbers up to `last` void that are not handed out, in one row: `SEQUENCE RAISE`.
    Raise {
        /// Last void number.
        last: i64,
        /// Why they are not used.
        reason: String,
    },
}

/// A request about a number of a generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberRequest {
    /// Key of the counter of the present period. Only [`NumberAct::Reserve`] depends on its period. For an act on the
    /// number of a request its series may be empty: then the number may be of any series.
    pub key: Key,
    /// Declaration of the generator, which writes the text of a number.
    pub declaration: Arc<CounterDeclaration>,
    /// The present time in the zone of the declaration.
    pub stamp: CivilTime,
    /// ACL user that sends the request.
    pub user: String,
    /// Whether the user may act for the requests of others.
    pub is_admin: bool,
    /// The request, 1 to [`REQUEST_BYTES_MAX`] bytes; empty for [`NumberAct::Settle`].
    pub request: String,
    /// What is done.
    pub act: NumberAct,
}

/// Answer to a [`NumberRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberAnswer {
    /// The number as text, as it was handed out.
    pub text: String,
    /// State of the number after the request.
    pub state: NumberState,
    /// Whether the request has changed something. A repeated request changes nothing.
    pub is_changed: bool,
}

/// A question for rows of a ledger, in the order of series, period and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerQuery {
    /// Name of the generator.
    pub name: String,
    /// Only this series.
    pub series: Option<String>,
    /// Only this period, as in the key of a counter.
    pub period: Option<String>,
    /// Only numbers in this state.
    pub state: Option<NumberState>,
    /// Cursor of an earlier page; empty for the first.
    pub after: String,
    /// Most rows of the page.
    pub limit: u32,
}

/// A row of a ledger. A range of void or unclear numbers is one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRow {
    /// Key of the counter.
    pub key: Key,
    /// First number of the row.
    pub number: i64,
    /// Last number of the row: the same, except for a range.
    pub last: i64,
    /// The number as text; that of the first of a range.
    pub text: String,
    /// State of the number.
    pub state: NumberState,
    /// Since when, in Unix ms by the database's clock.
    pub since_unix_ms: i64,
    /// From when a reserved number is overdue, in Unix ms; 0 in another state.
    pub due_unix_ms: i64,
    /// The request that has the number, or had it last; empty if there was none.
    pub request: String,
    /// User of the request.
    pub user: String,
    /// Why the number is in the state; may be empty.
    pub reason: String,
}

/// A page of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerPage {
    /// The rows.
    pub rows: alloc::vec::Vec<LedgerRow>,
    /// Cursor of the next page; `None` after the last.
    pub next: Option<String>,
}

/// Numbers of a generator by their state, and its requests, for metrics. At most [`COUNTED_MAX`] rows of a state are
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerCounts {
    /// Reserved numbers.
    pub reserved: u64,
    /// Reserved numbers that are overdue.
    pub overdue: u64,
    /// Released numbers of the newest period.
    pub released: u64,
    /// Numbers that an administrator must settle.
    pub unclear: u64,
    /// Requests, each with a row that stays for ever.
    pub requests: u64,
    /// Requests that have released their numbers for other requests.
    pub released_requests: u64,
}

/// Most rows of a state that [`LedgerCounts`] counts.
pub const COUNTED_MAX: u32 = 100_000;

/// Why a request about a number was refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberRefusal {
    /// No number belongs to the request.
    UnknownRequest,
    /// The request was made by another user.
    OtherUser,
    /// The number is in a state that the request cannot leave.
    Settled {
        /// The number as text.
        text: String,
        /// Its state.
        state: NumberState,
    },
    /// The request has a number of another series.
    OtherSeries {
        /// The series of its number.
        series: String,
    },
    /// No number has this text.
    UnknownText,
    /// The counter has no more numbers.
    AtMax {
        /// The highest number that its template holds.
        max: i64,
    },
    /// The generator has given numbers without a ledger, so it cannot become gapless.
    NotFromTheStart {
        /// The counter that has given some.
        key: Key,
    },
    /// Another number of the generator has the text that the next number would have.
    TextTaken {
        /// The text.
        text: String,
    },
    /// Too many requests of the generator have released their numbers.
    TooManyReleased {
        /// Most of them (`request-max`).
        max: u64,
    },
    /// The counter is past the number up to which it should be raised.
    Lower {
        /// The last number that is handed out.
        last: i64,
    },
}

impl NumberRefusal {
    /// Returns the error's code and sentence. `subject` is the request, or the text of a number that is settled by
    /// hand.
    pub fn of(&self, name: &str, subject: &str) -> String {
        match self {
            NumberRefusal::UnknownRequest => format!(
                "ERR no number of generator '{name}' belongs to request '{subject}': NUMBER RESERVE {name} REQUEST r \
                 reserves one for request r"
            ),
            NumberRefusal::OtherUser => format!(
                "NOPERM request '{subject}' of generator '{name}' belongs to another user: choose another request, or act \
                 for it as a user with the right 'number|settle'"
            ),
            // The number itself may have another request, and another state.
            NumberRefusal::Settled { text, state: NumberState::Released } => format!(
                "ERR request '{subject}' of generator '{name}' has released its number '{text}', and gets no other: \
                 choose another request"
            ),
            NumberRefusal::Settled { text, state } => {
                let why = match state {
                    NumberState::Reserved => "NUMBER COMMIT, RELEASE or VOID of its request settles it",
                    NumberState::Committed | NumberState::Void | NumberState::Released => {
                        "a settled number stays as it is"
                    }
                    NumberState::Unclear => "only NUMBER SETTLE changes it",
                };
                format!("ERR number '{text}' of generator '{name}' is {}: {why}", state.word())
            }
            NumberRefusal::OtherSeries { series } => format!(
                "ERR request '{subject}' has a number of the key '{series}' of generator '{name}': send KEY {series}, or \
                 choose another request"
            ),
            NumberRefusal::UnknownText => format!(
                "ERR no number of generator '{name}' has the text '{subject}': NUMBER LEDGER {name} lists its numbers"
            ),
            NumberRefusal::AtMax { max } => format!(
                "ERR generator '{name}' has no more numbers now: its template holds at most {max}. 'overflow grow' in its \
                 declaration allows longer numbers"
            ),
            NumberRefusal::NotFromTheStart { key } => format!(
                "ERR generator '{name}' cannot become gapless: its counter '{key}' has given numbers without a ledger. \
                 Declare another name with gapless, or remove the word from this one"
            ),
            NumberRefusal::TextTaken { text } => format!(
                "ERR generator '{name}' has no more numbers now: the next one would be '{text}', and another number \
                 has that text since an earlier declaration. Give its template another prefix"
            ),
            NumberRefusal::TooManyReleased { max } => format!(
                "ERR generator '{name}' has {max} requests that released their numbers, and each keeps its row: NUMBER \
                 COMMIT or VOID of the request settles it, and a larger 'request-max' allows more"
            ),
            NumberRefusal::Lower { last } => {
                format!("ERR numbers never go back: counter of generator '{name}' is at {last}")
            }
        }
    }
}
