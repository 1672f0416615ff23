//! The built binary on real sockets, files and clocks: what clients and operators see of it.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test is one story from beginning to end")]

mod access;
mod advance;
mod basics;
mod client_command;
mod client_matrix;
mod clock_faults;
mod cosid;
mod counters;
mod disk;
mod ends;
mod files;
mod generators;
mod keys;
mod kinds;
mod limits;
mod lives;
mod log;
mod named;
mod numbers;
mod observe;
mod pods;
mod power;
mod reload;
mod requests;
mod rough;
mod seals;
mod sequence_clients;
mod sequences;
mod sequences_reports;
mod sequences_store;
mod series;
mod settings;
mod standby;
mod startup;
#[path = "../support/mod.rs"]
mod support;
mod systemd;
mod tls;
mod turns;
mod workers;
