//! Checks README, ARCHITECTURE and the other pages against the binary, the examples and the sources.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod arrows;
mod container;
mod examples;
mod fleet_examples;
mod in_process;
mod language;
mod manual;
#[path = "../../packaging/manual/pages/mod.rs"]
mod manual_pages;
mod monitoring;
mod readme;
mod sealed;
mod shape;
#[path = "../support/mod.rs"]
mod support;
mod walk;
mod walks;
mod worker_ids;
