//! The Redis protocol of getid, pure: bytes to requests, replies to bytes.
//!
//! No clock, file, socket, thread or `async`: no dependency of the crate has them. The server re-exports [`resp`].

pub mod resp;
