//! What the server tells of itself beside INFO.

mod latency;
mod memory;
mod slowlog;
