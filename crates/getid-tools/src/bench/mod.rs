//! The parts of `getid bench`: the load, the CPU time of both sides, the limit of the run, and the report.
//!
//! A load generator must cost less than the server, or it measures itself. So requests are built once, and replies are
//! counted, not decoded (`tools/replies.rs`). Sockets, clocks and threads are in `load` and `usage`; the rest is pure.

mod curve;
mod limit;
pub mod load;
pub mod report;
pub mod usage;
mod workload;

pub use curve::{CurveMark, CurvePoint, csv, svg};
pub use limit::{Limit, Share};
pub use workload::{Workload, WorkloadError};
