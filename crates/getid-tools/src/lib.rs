//! Code that the command line's tools share.
//!
//! `getid ping`, `get`, `verify` and `bench` reach a server by one client, so naming, trust and login of a server are
//! the same in all tools. One reader parses all replies. A `subject` determines whose IDs a tool handles, for `decode`,
//! `span` and `layout` too. Sockets and clocks are in `client`, `bench/load`, `bench/usage` and `verify/load`; the rest
//! is pure. Parsing of the command line is in `cli`.

pub mod address;
pub mod at_limit;
pub mod bench;
pub mod client;
pub mod counted;
pub mod decoded;
pub mod explanation;
pub mod paint;
pub mod paste;
mod picture;
pub mod recognition;
pub mod replies;
pub mod subject;
pub mod verify;
