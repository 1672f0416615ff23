//! `getid serve`: from the words of a command line to a server, and to its exit code.
//!
//! There are three steps, one file each. `words` finds the sources of the configuration, `startup` turns them into a
//! value that can be run, and `lifecycle` runs it: open, serve, drain, last save. `check-config` shares the first two.

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

use getid_server::logging;
use getid_system::allocator;

/// Runs a server until it is stopped. `words` are the words after `serve`.
pub fn run(words: Vec<String>) -> ExitCode {
    allocator::return_large_buffers();
    match lifecycle::prepare(words).and_then(lifecycle::PreparedServer::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ServeError(text)) => {
            logging::stderr::print(&text);
            ExitCode::FAILURE
        }
    }
}

/// The error for standard error about a server that did not start, or did not end well.
struct ServeError(String);

impl<E: Display> From<E> for ServeError {
    fn from(error: E) -> Self {
        ServeError(error.to_string())
    }
}

/// Logs an error that does not affect clients: as in Redis, the server keeps serving.
fn warn_on_error<E: Display>(what: &str, result: Result<(), E>) {
    if let Err(error) = result {
        tracing::warn!("{what}: {error}");
    }
}
