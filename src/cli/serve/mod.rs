//! `getid serve`: from words on a command line to a server, and back to an exit code.
//!
//! Three steps, one file each: `words` says where the configuration comes from, `startup` makes of it a value that can
//! be run, and `lifecycle` runs it: open, serve, drain, last save. `check-config` shares the first two.

mod access;
mod fleet;
mod keeper_thread;
mod lifecycle;
pub(super) mod memory;
mod messages;
mod notifier;
pub(super) mod pid_file;
mod sequences;
mod signals;
pub(super) mod startup;
mod supervision;
mod surroundings;
mod words;
mod workers;

use std::fmt::Display;
use std::process::ExitCode;

use crate::logging;
use crate::system::allocator;

/// Runs a server until it is told to stop. `words` are what follows `serve`.
pub fn run(words: Vec<String>) -> ExitCode {
    allocator::give_large_buffers_back();
    match lifecycle::prepare(words).and_then(lifecycle::Prepared::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            logging::stderr::print(&text);
            ExitCode::FAILURE
        }
    }
}

/// Why a server did not start, or did not end well: for standard error.
struct Failure(String);

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

/// Logs an error that does not matter to clients: as in Redis, the server serves all the same.
fn warn_on_error<E: Display>(what: &str, result: Result<(), E>) {
    if let Err(error) = result {
        tracing::warn!("{what}: {error}");
    }
}
