//! The pure parts of `getid bench`: requests as bytes, who was the limit, and its curve as CSV and SVG.
//!
//! A load generator must cost less than the server it measures, or it measures itself. So requests are made once, and
//! replies are not decoded but counted (`tools/replies.rs`). Sockets, clocks and threads are in `cli/bench`.

mod curve;
mod limit;
mod workload;

pub use curve::{Mark, Point, csv, svg};
pub use limit::{Limit, Share};
pub use workload::{Workload, WorkloadError};
