//! What is kept about time spent: how long commands take, which were slow, when something held others up, when
//! IDs were refused.
//!
//! Pure: times come in as numbers, and replies (SLOWLOG, LATENCY, INFO latencystats) are made from these values
//! elsewhere. Everything here has a bound: buckets, samples an event, entries, bytes an entry.

mod events;
mod histogram;
mod refusals;
mod slowlog;

pub use events::{Event, Events, SAMPLES_MAX, Sample, Spread};
pub use histogram::{BUCKETS, Histogram, bucket_of};
pub use refusals::{RefusalNews, Refusals};
pub use slowlog::{ARG_BYTES_MAX, ARGS_MAX, Entry, SlowLog, trimmed};
