//! The ID core of getid: unique 63-bit integers that ascend with time, given by up to 2^21 servers that never speak to
//! each other.
//!
//! It is pure: no I/O, no clock, no async, no threads (`no_std`, with `alloc`). Readings of clocks come in as
//! arguments, and what is to be written to disk goes out as a value; so years of lives, crashes and wrong clocks are
//! simulated in seconds. The server `getid` puts a lock, a disk and a protocol around it.
//!
//! What an ID says:
//!
//! ```
//! use getid_core::{Id, Layout};
//!
//! let layout = Layout::default();
//! let parts = layout.split(Id::new(728_097_619_968_529_384).expect("63 bits"));
//! assert_eq!((parts.server, parts.shard, parts.random), (1, 4, 1000));
//! assert_eq!(parts.tick.unix_ms(layout.epoch()), 1_767_225_600_000);
//! assert_eq!(layout.compose(parts).get(), 728_097_619_968_529_384);
//! ```
//!
//! Giving IDs:
//!
//! ```
//! use getid_core::{Id, Layout, Limits, Mint, RandomCycle, Reading, Scheme};
//!
//! // `ms` after the start, by the wall clock and by a clock that is never set.
//! let at = |ms: i64| Reading { wall_unix_ms: 1_767_225_600_000 + ms, boot_ns: 1_000_000 * (1 + ms.unsigned_abs()) };
//!
//! let layout = Layout::default();
//! // Of a real server the cycle is shuffled, and what the last life saved is passed in instead of `None`.
//! let cycle = RandomCycle::new((0..1024).collect()).expect("a permutation");
//! let scheme = Scheme::new(layout, 1, cycle).expect("server-id 1 has room in 2 bits");
//! let mut mint = Mint::new(layout, Limits::default(), None, at(0));
//!
//! // No ID before a first save: here the point would be written to disk, and synced.
//! let point = mint.wanted_save(at(0).boot_ns).expect("a first save");
//! mint.saved(point);
//!
//! let reservation = mint.draw(at(10).boot_ns, 3, false).expect("three slots");
//! let ids: Vec<Id> = scheme.ids(reservation).collect();
//! assert!(ids.is_sorted() && ids.len() == 3);
//! assert_eq!(layout.split(ids[0]).server, 1);
//! ```
//!
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
//! | **claim** | the right to give IDs with one server-id; who holds it may save |
//! | **line** | where a named generator is: unit and counter as one number, with an epoch and a unit of its own |
//! | **mint** | slots, lines, R, borrow limit and watermark policy as one value |
//! | **lane** | what a draw needs of the mint while nothing is special: it is drawn by without the lock |
//! | **sequence**, **segment**, **run** | a named counter that a store keeps; a range of it that this server has reserved; values out of it for one request, or several alike |
//! | **pool**, **lease** | worker ids for other programs; the right to make IDs with one of them in an interval of milliseconds |
//! | **refusal** | why no ID is given now, as one sentence |

#![no_std]

extern crate alloc;
// What tests plant is kept by thread.
#[cfg(any(test, feature = "planted-faults"))]
extern crate std;

mod advice;
#[doc(hidden)]
pub mod checks;
pub mod claim;
mod clock;
mod clock_event;
mod composer;
mod declaration;
mod fields;
mod format;
mod kind;
mod lane;
mod layout;
mod limits;
mod line;
mod mint;
mod named;
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
    Change, Declaration, DeclarationError, EpochParser, FIELD_NAME_BYTES_MAX, NAME_BYTES_MAX, OPTIONS, WORDS_MAX,
    is_name, no_dates,
};
pub use fields::{
    Field, FieldLayout, FieldsError, ID_BITS_MAX, INTEGER_BITS_MAX, RANDOM_BITS_MAX, Role, SLOT_BITS_MAX,
    VALUE_BITS_MAX,
};
pub use format::{Format, PAD_MAX, PREFIX_BYTES_MAX, Radix};
pub use kind::{GREGORIAN_UNIX_MS, KINDS, Kind, Shape, kind_words};
pub use lane::{Lane, LaneDraw, Position};
pub use layout::{Id, LOW_BITS, Layout, LayoutError, Parts};
pub use limits::{BorrowPolicy, Limits};
pub use line::LineSpec;
pub use mint::Mint;
pub use named::{NamedGenerator, NamedGenerators, RequestField};
pub use refusal::{Blocked, Overload, Refusal};
pub use save_point::SavePoint;
pub use scheme::{Eight, RandomCycle, Reservation, Scheme};
pub use sequence::{
    Ask, CACHE_DEFAULT, Fetch, FetchTaken, Fetched, INCREMENT_MAX, Key, RESERVED_MAX, Remainder, Run, STORES_MAX,
    Segment, Sequence, SequencePolicy, SequenceRefusal, SequenceStatus, Spec, SpecError, VALUE_MAX, WaitPolicy, Waiter,
};
pub use serial::{
    COUNTER_KINDS, CheckDigit, CounterDeclaration, CounterError, CounterKind, NamedCounters, Reset, Serial, Stamp,
    TEMPLATE_BYTES_MAX, Template, TemplateError, ZoneCheck,
};
pub use slots::Slots;
pub use status::{LineStatus, Status};
pub use time::{Epoch, Slot, Tick, UtcMs};
pub use unit::Unit;
pub use watermark::SAVE_SLACK_MS;
