//! The Redis protocol of getid, pure: bytes to requests, replies to bytes.
//!
//! No clock, file, socket, thread or `async`: the crate depends on nothing that has them. The server re-exports [`resp`].

pub mod resp;
