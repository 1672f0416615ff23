//! `getid serve`.

use std::process::ExitCode;

use super::output::complain;

#[expect(clippy::needless_pass_by_value, reason = "the server keeps them")]
/// Runs the server until it is told to stop.
pub fn run(words: Vec<String>) -> ExitCode {
    let _ = words;
    complain("serve is not wired in this build");
    ExitCode::FAILURE
}
