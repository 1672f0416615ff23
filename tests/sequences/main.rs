//! Sequences and their driver over a simulated database, in paused time: the layers between requests and a store.
//!
//! The machine of one sequence has its own simulation in `getid-core`. This one covers the registry, the queue,
//! deadlines, connections, changes by other servers, and the stop. A failing story prints its seed: `GETID_SIM_SEED=123
//! cargo test --test sequences -- --nocapture one_seed`. `GETID_SEQUENCE_STORIES` sets how many stories are played.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod database;
mod ends;
mod losses;
mod lost;
mod memory;
mod numbers;
mod ranges;
mod scenes;
mod stories;
#[path = "../support/mod.rs"]
mod support;
mod world;
