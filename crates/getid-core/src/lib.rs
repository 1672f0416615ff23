//! Unique 63-bit integers that ascend with time: the ID core of the server getid. Pure, except for the feature `std`.
#![doc = include_str!("../README.md")]
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | **layout** | the widths of server-id, shard and random in an ID, in bits; they sum to 21 |
//! | **epoch** | the instant at which ticks start to count |
//! | **tick** | whole milliseconds since the epoch; an ID has 42 bits of it |
//! | **shard** | the counter inside one tick |
//! | **slot** | tick and shard as one number, `tick << shard_bits \| shard` |
//! | **scheme** | layout, server-id and random cycle together: what never changes in a life |
//! | **random cycle** | a shuffled order of all random values, visited again and again, one step for each ID |
//! | **draw**, **reservation** | taking n IDs in one call; the consecutive slots that it has taken |
//! | **life** | the time from a start of the server to its end |
//! | **R**, the reference clock | the time by which IDs are made: follows the wall clock W, and never goes back once an ID was given |
//! | **P**, the position | the first tick without an ID |
//! | **B**, the borrow limit | how far ticks may be ahead of R; to **borrow** is to give a slot whose tick is ahead of R |
//! | **watermark** | a tick, exclusive: every tick given is below it, and it is on disk before. A life after a crash begins there, or later |
//! | **L**, the lead | how far the watermark is kept ahead of P |
//! | **save point** | what a save stores: watermark, R and the largest B of the life |
//! | **claim** | the right to give IDs with one server-id; only its holder may save |
//! | **line** | where a named generator is: unit and counter as one number, with an epoch and a unit of its own |
//! | **mint** | slots, lines, R, borrow limit and watermark policy as one value |
//! | **lane** | the part of the mint that a draw needs in the normal case: such a draw takes no lock |
//! | **sequence**, **segment**, **run** | a named counter that a store keeps; a range of it that this server has reserved; values out of it for one request, or several alike |
//! | **beat**, **round** | a number that each server of a shared store adds to; a question that all of them answer by a beat, after the store may have lost writes |
//! | **pool**, **lease** | worker ids for other programs; the right to make IDs with one of them in an interval of milliseconds |
//! | **refusal** | why no ID is given now, as one sentence |

#![no_std]

extern crate alloc;
// Planted faults are kept for each thread.
#[cfg(any(test, feature = "planted-faults", feature = "std"))]
extern crate std;

#[cfg(all(feature = "std", not(unix)))]
compile_error!(
    "the feature `std` of getid-core needs a Unix system: build without it, and keep a `Mint`'s state yourself"
);

mod advice;
pub mod beat;
#[doc(hidden)]
pub mod checks;
pub mod claim;
mod clock;
mod clock_event;
mod composer;
mod declaration;
mod fields;
#[cfg(feature = "std")]
mod file_maker;
mod format;
mod kind;
mod lane;
mod layout;
mod limits;
mod line;
mod mint;
mod named;
mod printable;
mod refusal;
mod save_point;
mod scheme;
mod sequence;
mod serial;
mod slots;
mod status;
mod time;
mod unit;
mod watermark;
pub mod worker;

pub use advice::{Evenness, IDS_PER_S_MAX, MODULUS_MAX, NoProposal, Proposal, SERVERS_MAX, evenness, propose};
pub use clock::{Reading, ReferenceClock};
pub use clock_event::{ClockEvent, ClockFault, JUMP_MS_MAX, Severity};
pub use composer::{Composer, request_bits};
pub use declaration::{
    Change, Declaration, DeclarationError, EpochError, EpochParser, FIELD_NAME_BYTES_MAX, NAME_BYTES_MAX, OPTIONS,
    RESERVED_NAME, WORDS_MAX, is_name, is_reserved_name, no_dates,
};
pub use fields::{
    Field, FieldLayout, FieldsError, ID_BITS_MAX, INTEGER_BITS_MAX, RANDOM_BITS_MAX, Role, SLOT_BITS_MAX,
    VALUE_BITS_MAX,
};
#[cfg(feature = "std")]
pub use file_maker::{FileMaker, FileMakerOptions, LockHolder, LockLoss, MakeError, OpenError, RecordError, SaveError};
pub use format::{Format, PAD_MAX, PREFIX_BYTES_MAX, Radix};
pub use kind::{GREGORIAN_UNIX_MS, KINDS, Kind, Shape, kind_words};
pub use lane::{Lane, LaneDraw, Position};
pub use layout::{Id, LOW_BITS, Layout, LayoutError, Parts};
pub use limits::{BorrowPolicy, Limits};
pub use line::LineSpec;
pub use mint::Mint;
pub use named::{NamedGenerator, NamedGenerators, RequestField};
pub use printable::is_unprintable;
pub use refusal::{Blocked, Overload, Refusal};
pub use save_point::SavePoint;
pub use scheme::{IdBatch8, RandomCycle, Reservation, Scheme};
pub use sequence::{
    CACHE_DEFAULT, Fetch, FetchVerdict, Fetched, INCREMENT_MAX, Key, RESERVED_MAX, Remainder, Run, SEQUENCE_NAME_RULE,
    STORES_MAX, Segment, Sequence, SequencePolicy, SequenceRefusal, SequenceRequest, SequenceStatus, Spec, SpecError,
    VALUE_MAX, WaitPolicy, WaiterId, is_sequence_name,
};
pub use serial::{
    COUNTER_KINDS, CheckDigit, CivilTime, CounterDeclaration, CounterError, CounterKind, CounterReading, NamedCounters,
    Reset, Serial, TEMPLATE_BYTES_MAX, Template, TemplateError, UnknownZone, ZoneCheck,
};
pub use slots::Slots;
pub use status::{LineStatus, Status};
pub use time::{Epoch, Slot, Tick, UtcMs};
pub use unit::Unit;
pub use watermark::SAVE_SLACK_MS;
