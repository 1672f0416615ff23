//! A Redis-protocol server that hands out unique, time-ordered 64-bit IDs.

pub mod acl;
pub mod claim;
pub mod cli;
pub mod command;
pub mod config;
pub mod generators;
#[cfg(feature = "http")]
pub mod http;
pub mod logging;
pub mod metrics;
pub mod records;
pub use getid_redis::resp;
pub mod server;
pub mod session;
pub mod sql;
pub mod stats;
pub(crate) mod sync;
pub mod system;
pub mod text;
pub(crate) mod tools;
pub mod workers;
