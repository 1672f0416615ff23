//! The Redis protocol of getid, pure: bytes to requests, replies to bytes.
//!
//! No dependency of the crate has a clock, file, socket, thread or `async`. The server re-exports [`resp`].

pub mod acl;
pub mod command;
pub mod resp;
pub mod session;
pub mod stats;
