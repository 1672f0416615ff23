//! Unique 63-bit integers that ascend with time: the ID core of the server getid.
//!
//! | to | use |
//! |---|---|
#![cfg_attr(feature = "std", doc = "| make IDs in this process | [`FileMaker`] |")]
#![cfg_attr(not(feature = "std"), doc = "| make IDs in this process | `FileMaker`, of the feature `std` |")]
//! | read an ID of getid, compose one, find those of a span of time | [`Layout`], [`Id`], [`Parts`], [`Epoch`] |
//! | read and write IDs of other systems: snowflakes, UUIDs, `objectid` | [`Declaration`], [`KINDS`] |
//! | define a layout, or choose one for a load | [`FieldLayout`], [`propose`], [`evenness`] |
//! | write numbers as text that sorts as they do | [`Format`] |
//! | make IDs with a clock and a disk of your own | [`Mint`], [`Scheme`] |
//! | read the server's state machines | [`server`] |
#![doc = include_str!("../README.md")]
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
mod alphabet;
#[doc(hidden)]
pub mod beat;
#[doc(hidden)]
pub mod checks;
#[doc(hidden)]
pub mod claim;
mod clock;
mod clock_event;
mod composer;
mod declaration;
mod encode;
mod fields;
#[cfg(feature = "std")]
mod file_maker;
mod format;
mod kind;
mod lane;
mod layout;
#[doc(hidden)]
pub mod ledger;
mod limits;
mod line;
mod mint;
mod named;
mod number;
mod printable;
mod radix;
mod recognition;
mod refusal;
#[doc(hidden)]
pub mod request_key;
mod save_point;
mod scheme;
mod sequence;
mod serial;
pub mod server;
mod slots;
mod sqids;
mod status;
mod time;
mod unit;
mod watermark;
#[doc(hidden)]
pub mod worker;

pub use advice::{
    CounterStart, Evenness, IDS_PER_S_MAX, MODULUS_MAX, NoProposal, Proposal, QuietEvenness, SERVERS_MAX, evenness,
    propose,
};
pub use alphabet::{ALPHABET_CHARS_MAX, Alphabet, AlphabetError};
pub use clock::Reading;
pub use clock_event::{ClockEvent, ClockFault, Severity};
pub use declaration::{
    Declaration, DeclarationError, EpochError, EpochParser, SEAL_ALPHABET_CHARS_MIN, SealDeclaration, SealMistake,
    no_dates,
};
pub use encode::{EncodeError, Fill};
pub use fields::{
    Field, FieldLayout, FieldNotation, FieldsError, ID_BITS_MAX, INTEGER_BITS_MAX, NOISE_BITS_MAX, RANDOM_BITS_MAX,
    Role, SLOT_BITS_MAX, VALUE_BITS_MAX,
};
#[cfg(feature = "std")]
pub use file_maker::{FileMaker, FileMakerOptions, LockHolder, LockLoss, MakeError, OpenError, RecordError, SaveError};
pub use format::{Format, Notation, PAD_MAX, PREFIX_BYTES_MAX};
pub use kind::{KINDS, Kind, Shape};
pub use layout::{Id, LOW_BITS, Layout, LayoutError, Parts};
pub use limits::{BorrowPolicy, Limits};
pub use mint::Mint;
pub use named::{NamedGenerator, RequestField};
pub use number::Number;
pub use radix::Radix;
pub use recognition::{KIND_READINGS_MAX, KindReader, KindReaders, KindReading, NearestForms, most_plausible};
pub use refusal::{Blocked, Overload, Refusal};
pub use save_point::SavePoint;
pub use scheme::{RandomCycle, Reservation, Scheme};
pub use sqids::{SqidsCode, SqidsError};
pub use time::{Epoch, Slot, Tick, UtcMs};
pub use unit::Unit;
