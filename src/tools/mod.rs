//! What the command line's tools share.
//!
//! `getid ping`, `get`, `verify` and `bench` reach a server by one client, so that a server is named, trusted and
//! logged in to in one way, and read its replies by one reader. Whose IDs they are is a `subject`'s to say, for
//! `decode`, `span` and `layout` too. Sockets and clocks are in `client`, `bench/load`, `bench/usage` and
//! `verify/load`; the rest are functions of their arguments. What a command line says is `cli`'s.

pub(crate) mod address;
pub(crate) mod at_limit;
pub(crate) mod bench;
pub(crate) mod client;
pub(crate) mod counted;
pub(crate) mod decoded;
pub(crate) mod explanation;
pub(crate) mod paint;
pub(crate) mod paste;
mod picture;
pub(crate) mod recognition;
pub(crate) mod replies;
pub(crate) mod subject;
pub(crate) mod verify;
