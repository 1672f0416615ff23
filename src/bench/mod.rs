//! The pure parts of `getid bench`: requests as bytes, replies counted, and who was the limit.
//!
//! A load generator must cost less than the server it measures, or it measures itself. So requests are made once, and
//! replies are not decoded but counted. Sockets, clocks and threads are in `cli/bench`.

mod limit;
mod replies;
mod workload;

pub use limit::{Limit, Share};
pub use replies::{ErrorReplies, NotAReply, Replies};
pub use workload::{Workload, WorkloadError};
