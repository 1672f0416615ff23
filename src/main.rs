//! The `getid` binary: all its code is in the library, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    getid::cli::run()
}
