//! `getid state`.

use std::process::ExitCode;

use super::output::complain;

/// Arguments of `getid state`.
#[derive(clap::Args)]
pub struct StateArgs {}

#[expect(clippy::needless_pass_by_value, reason = "the signature is agreed on")]
/// Shows or advances the state.
pub fn run(args: StateArgs) -> ExitCode {
    let StateArgs {} = args;
    complain("state is not wired in this build");
    ExitCode::FAILURE
}
