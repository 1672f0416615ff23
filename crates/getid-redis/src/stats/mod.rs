//! Statistics of time: durations of commands, slow commands, and events that delayed clients.
//!
//! The module is pure: times are arguments, and the replies of SLOWLOG, LATENCY and INFO latencystats are formatted
//! elsewhere. Everything has a bound: buckets, samples of an event, entries, bytes of an entry.

mod events;
mod histogram;
mod slowlog;

pub use events::{LatencyEvent, LatencyEvents, LatencySample, LatencySpread, SAMPLES_MAX};
pub use histogram::{BUCKETS, Histogram, bucket_of};
pub use slowlog::{ARG_BYTES_MAX, ARGS_MAX, SlowLog, SlowLogEntry, trimmed};
