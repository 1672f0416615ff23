//! The HTTP port of the built binary, as people, probes, scrapers and programs use it.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test is one story from beginning to end")]

mod api;
mod basics;
mod bounds;
mod coding;
mod conformance;
mod cosid;
mod document;
mod examples;
mod guard;
mod idempotency;
mod in_process;
mod leaf;
mod login;
mod metrics;
mod numbers;
mod page;
mod permissions;
mod probes;
mod recorded;
mod seals;
mod standby;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod tinyid;
