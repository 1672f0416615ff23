//! Sequences: named counters that are kept in a store, reserved ahead in segments, and given out of memory.
//!
//! A [`Sequence`] is what one server knows of one of them: the segments that it holds, how fast they are used, who
//! waits, and whether the store is being asked. It is a value without a clock or a store: time and the store's answers
//! come in, values and wishes go out. So thousands of lives with stores that die, lose replies or go back are simulated
//! in seconds.
//!
//! Invariant: a value is given only out of a segment that the store has confirmed as this server's, and at most once;
//! each value is larger than all that were given before.

mod key;
mod machine;
mod rate;
mod refusal;
mod segment;
mod spec;
mod waiting;

pub use key::{Key, SEQUENCE_NAME_RULE, is_sequence_name};
pub use machine::{
    Fetch, Fetched, Remainder, STORES_MAX, Sequence, SequencePolicy, SequenceStatus, Taken as FetchTaken,
};
pub use refusal::SequenceRefusal;
pub use segment::{Ask, Run, Segment};
pub use spec::{CACHE_DEFAULT, INCREMENT_MAX, RESERVED_MAX, Spec, SpecError, VALUE_MAX, WaitPolicy};
pub use waiting::Waiter;
