//! The command line: one subcommand, one file.

mod output;
pub mod state;
