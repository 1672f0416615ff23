//! The Redis side of getid as pure code: what a client's bytes mean, and which bytes answer them.
//!
//! A client may send requests cut anywhere, a thousand at once, or hostile ones. [`resp`] turns bytes into requests and
//! replies into bytes; [`command`] is the table of commands; [`acl`] has users and their rights. A
//! [`Session`](session::Session) joins them: all complete requests of a read become one [`Turn`](session::Turn). What
//! needs the server becomes an [`Effect`](session::Effect). [`stats`] measures durations.
//!
//! Invariant: every request gets exactly one reply, in the order of requests. Times and bytes are arguments: the crate
//! has no clock, file, socket, thread or `async`.

pub mod acl;
pub mod command;
pub mod resp;
pub mod session;
pub mod stats;
