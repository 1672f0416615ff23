//! Code that the command line's tools share.
//!
//! `getid ping`, `get`, `verify` and `bench` reach a server by one client, so naming, trust and login of a server are
//! the same in all tools. One reader parses all replies. A `subject` determines whose IDs a tool handles, for `decode`,
//! `span` and `layout` too. Sockets and clocks are in `client`, `bench/load`, `bench/usage` and `verify/load`; the rest
//! is pure. Parsing of the command line is in `cli`.

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
