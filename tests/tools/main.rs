//! Tests of the other subcommands: `getid ping`, `get`, `decode`, `state`, `verify`, `bench`, and Redis's own tools.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic, and its numbers are small")]

mod bench_tool;
mod cli;
mod cli_redis;
mod fleet;
mod layouts;
#[path = "../../benches/null_server.rs"]
mod null_server;
mod numbers;
mod reach;
mod seals;
mod sequences;
mod state;
#[path = "../support/mod.rs"]
mod support;
mod verify;
