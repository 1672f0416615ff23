//! `getid check-config`: the report of a start, without the start.

use std::process::ExitCode;

use super::output::complain;

/// Checks the configuration that `getid serve` with the same words would use.
pub(super) fn run(words: &[String]) -> ExitCode {
    let _ = words;
    complain("check-config is not wired in this build");
    ExitCode::FAILURE
}
