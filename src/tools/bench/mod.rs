//! What `getid bench` does: the load, the CPU time it and the server used, who was the limit, and the report.
//!
//! A load generator must cost less than the server it measures, or it measures itself. So requests are made once, and
//! replies are not decoded but counted (`tools/replies.rs`). Sockets, clocks and threads are in `load` and `usage`; the
//! rest is pure.

mod curve;
mod limit;
pub(crate) mod load;
pub(crate) mod report;
pub(crate) mod usage;
mod workload;

pub(crate) use curve::{Mark, Point, csv, svg};
pub(crate) use limit::{Limit, Share};
pub(crate) use workload::Workload;
