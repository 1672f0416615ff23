//! The fleet: servers that share claims in a store, and the stores that keep them.
//!
//! Many of these tests need a real database or etcd and are ignored by default. `gate` has one short test of each
//! store, for the landing gate:
//!
//! ```text
//! cargo test --test fleet -- --ignored gate::
//! cargo test --test fleet -- --ignored
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test is one story from beginning to end")]

mod claim;
#[cfg(all(feature = "fleet", feature = "sqlite", feature = "postgres"))]
mod cluster;
mod contract;
#[cfg(feature = "fleet")]
mod etcd;
mod faulty;
#[cfg(all(feature = "fleet", feature = "sqlite", feature = "mysql", feature = "postgres"))]
mod gate;
#[cfg(all(feature = "fleet", feature = "sqlite", feature = "postgres"))]
mod sentinel;
#[cfg(all(feature = "sqlite", feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(all(feature = "fleet", feature = "http", feature = "sqlite"))]
mod standby;
#[path = "../support/mod.rs"]
mod support;
#[cfg(all(feature = "fleet", feature = "mysql", feature = "postgres"))]
mod takeover;
