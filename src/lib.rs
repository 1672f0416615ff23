//! A Redis-protocol server that hands out unique, time-ordered 64-bit IDs.

#[expect(clippy::result_large_err, reason = "an error ends its subcommand, so its size costs nothing")]
pub mod cli;
