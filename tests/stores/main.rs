//! Tests of the stores of sequences: one suite of scenarios for all of them, and tests of each database's own
//! behaviour.
//!
//! `contract` tests what `getid_store::sql` promises of every store with getid's own tables, and `faults` what a
//! database server does when it fails. SQLite's contract always runs. Tests that need a database server's programs are
//! ignored by default. `gate` has one short test of each, for the landing gate:
//!
//! ```text
//! cargo test --test stores -- --ignored gate::
//! cargo test --test stores -- --ignored
//! ```

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test is one story from beginning to end")]

mod beats;
mod child;
mod contract;
mod db;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod faults;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod gate;
mod holders;
mod lives;
#[cfg(feature = "mysql")]
mod mysql;
mod numbers;
#[cfg(feature = "postgres")]
mod postgres;
mod requests;
mod sqlite;
#[path = "../support/mod.rs"]
mod support;
