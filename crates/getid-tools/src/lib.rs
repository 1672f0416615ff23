//! Code that the command line's tools share: a client, a reader of replies, and the judge of IDs.
//!
//! `getid ping`, `get`, `verify` and `bench` reach a server by one [`client`], so naming, trust and login of a server
//! are the same in all tools, and one reader parses all [`replies`]. A [`subject`] determines whose IDs a tool handles,
//! for `decode`, `span` and `layout` too. [`verify`] judges IDs, [`bench`](mod@bench) measures a load, a [`ledger`] is
//! exported and audited, and an [`explanation`] is the text of `getid layout`. The program parses the command line.
//!
//! Invariants: a reply of any length is read in bounded memory. Sockets and clocks are in [`client`], `bench::load`,
//! `bench::usage` and `verify::load`; the rest is pure, so tests plant each fault without a server.

pub mod address;
pub mod at_limit;
pub mod bench;
pub mod client;
pub mod counted;
pub mod decoded;
pub mod explanation;
pub mod ledger;
pub mod paint;
pub mod paste;
mod picture;
pub mod recognition;
pub mod replies;
pub mod subject;
pub mod verify;
pub mod words;
