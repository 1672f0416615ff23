//! Text for people and from people, in one form for the server and its tools.
//!
//! Text from outside must not do harm where it is shown: [`printable`] escapes it before it reaches a log, a report or
//! a terminal, and a [`StoreUrl`](store_url::StoreUrl) is shown without its password. [`glob`] matches patterns at a
//! bounded cost. [`host_port`] parses addresses of servers. [`percent`] writes and reads percent escapes.
//! [`timestamp`] and [`zone`] parse times; [`plural`], [`shell`] and [`suggest`] write nouns with a number, words for a
//! shell, and the word that was probably meant. [`name_hash`] hashes names.
//!
//! Invariants: escaped text stays on one line and cannot control a terminal; no error contains a password. The crate is
//! pure: the caller passes the current time.

pub mod glob;
pub mod host_port;
pub mod name_hash;
pub mod percent;
pub mod plural;
pub mod printable;
pub mod shell;
pub mod store_url;
pub mod suggest;
pub mod timestamp;
pub mod zone;
