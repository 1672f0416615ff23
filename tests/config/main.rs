//! The configuration: files, environment and command line in, a configuration or a report out; and its changes by
//! CONFIG SET and SIGHUP.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod announce;
mod change;
mod claim;
mod load;
mod reload;
mod seals;
