//! The parts of `getid bench`: the load, the CPU time of both sides, the limit of the run, and the report.
//!
//! A load generator must cost less than the server, or it measures itself. So requests are built once, and replies are
//! counted, not decoded (`tools/replies.rs`). Sockets, clocks and threads are in `load` and `usage`; the rest is pure.

mod curve;
mod limit;
pub(crate) mod load;
pub(crate) mod report;
pub(crate) mod usage;
mod workload;

pub(crate) use curve::{CurveMark, CurvePoint, csv, svg};
pub(crate) use limit::{Limit, Share};
pub(crate) use workload::Workload;
