//! Sequences: named counters in a store, reserved ahead in segments, and given from memory.
//!
//! A [`Sequence`] is one server's state of one of them: its segments, their rate of use, its waiting draws, and its
//! fetch. It has no clock and no store: time and the store's answers are arguments, values and fetches are results. So
//! thousands of lives with stores that die, lose replies or go back are simulated in seconds.
//!
//! Invariant: a value is given only from a segment that the store has confirmed as this server's, and at most once.
//! Each value is larger than all given before.

mod key;
mod machine;
mod rate;
mod refusal;
mod segment;
mod series;
mod spec;
mod waiting;

pub use key::{Key, NameWord, SEQUENCE_NAME_RULE, SERIES_BYTES_MAX, is_sequence_name, is_series};
pub use machine::{Fetch, FetchVerdict, Fetched, Remainder, STORES_MAX, Sequence, SequencePolicy, SequenceStatus};
pub use refusal::SequenceRefusal;
pub use segment::{Run, Segment, SequenceRequest};
pub use series::{SERIES_RULE, Series};
pub use spec::{CACHE_DEFAULT, INCREMENT_MAX, RESERVED_MAX, Spec, SpecError, VALUE_MAX, WaitPolicy};
pub use waiting::WaiterId;
