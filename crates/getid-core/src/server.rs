//! The state machines of the server getid: generators, sequences, claims and leases.
//!
//! They are pure, as the rest of the crate: times and bytes come in, and what to do goes out. The server carries it out
//! with threads, disks and stores. The names here may change with any version of getid.
//!
//! - draws: [`Lane`] and [`Position`] draw without the lock of a [`Mint`](crate::Mint); [`NamedGenerators`] are those
//!   with layouts of their own
//! - [`Sequence`] gives values out of a [`Segment`] that a store has reserved; [`Serial`] and [`Template`] make serial
//!   numbers of them; [`beat`] detects a store that lost writes
//! - [`claim`] is the right of one server to one server-id, in a store that servers share
//! - [`request_key`] is the decision that gives a repeated request the IDs of the first one
//! - [`worker`] leases worker ids to other programs
//!
//! | word | meaning |
//! |---|---|
//! | **slot** | tick and shard as one number, `tick << shard_bits \| shard` |
//! | **life** | the time from a start of the server to its end |
//! | **R**, the reference clock | the time by which IDs are made: follows the wall clock W, and never goes back once an ID was given |
//! | **P**, the position | the first tick without an ID |
//! | **B**, the borrow limit | how far ticks may be ahead of R; to **borrow** is to give a slot whose tick is ahead of R |
//! | **watermark** | a tick, exclusive: every tick given is below it, and it is on disk before. A life after a crash begins there, or later |
//! | **L**, the lead | how far the watermark is kept ahead of P |
//! | **save point** | the content of a save: watermark, R and the largest B of the life |
//! | **line** | the position of a named generator: unit and counter as one number, with an epoch and a unit of its own |
//! | **lane** | the part of the mint that a draw needs in the normal case: such a draw takes no lock |
//! | **segment**, **run** | a range of a sequence's values that this server has reserved; values out of it for one request, or several alike |
//! | **beat**, **round** | a number that each server of a shared store adds to; a question that all of them answer by a beat, after the store may have lost writes |
//! | **pool**, **lease** | worker ids for other programs; the right to make IDs with one of them in an interval of milliseconds |

#[doc(hidden)]
pub use crate::checks;
pub use crate::clock::ReferenceClock;
pub use crate::clock_event::JUMP_MS_MAX;
pub use crate::composer::{Composer, request_bits};
pub use crate::declaration::{
    Change, NAME_BYTES_MAX, OPTIONS, RESERVED_NAME, SEAL, WORDS_MAX, is_name, is_reserved_name,
};
pub use crate::kind::kind_words;
pub use crate::lane::{Lane, LaneDraw, Position};
pub use crate::line::LineSpec;
pub use crate::named::NamedGenerators;
pub use crate::printable::is_unprintable;
pub use crate::scheme::IdBatch8;
pub use crate::sequence::{
    CACHE_DEFAULT, END_UNIX_MS_MAX, EndChange, EndCondition, EndDecision, Fetch, FetchVerdict, Fetched, INCREMENT_MAX,
    Key, NameWord, RESERVED_MAX, Remainder, RowEnd, Run, SEQUENCE_NAME_RULE, SERIES_BYTES_MAX, SERIES_RULE, STORES_MAX,
    Segment, Sequence, SequencePolicy, SequenceRefusal, SequenceRequest, SequenceStatus, Series, Spec, SpecError,
    VALUE_MAX, WaitPolicy, WaiterId, is_sequence_name, is_series,
};
pub use crate::serial::{
    COUNTER_KINDS, CheckDigit, CivilDay, CivilTime, CounterDeclaration, CounterError, CounterKind, CounterReading,
    FiscalStart, FiscalYears, GAPLESS, NamedCounters, ReleasedNumbers, Reset, Serial, SeriesRules, Template,
    TemplateError, UnknownZone, ZoneCheck, counter_doc,
};
pub use crate::slots::Slots;
pub use crate::status::{LineStatus, Status};
pub use crate::time::NS_PER_MS;
pub use crate::watermark::SAVE_SLACK_MS;
#[doc(inline)]
pub use crate::{beat, claim, ledger, request_key, worker};
