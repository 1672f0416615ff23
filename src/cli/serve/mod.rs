//! `getid serve`: from the words of a command line to a server, and to its exit code.
//!
//! There are three steps, one file each. `words` finds the sources of the configuration, `startup` turns them into a
//! value that can be run, and `lifecycle` runs it: open, serve, drain, last save. `check-config` shares the first two.

mod access;
mod error;
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

use std::process::ExitCode;

use getid_server::logging;
use getid_system::allocator;

/// Runs a server until it is stopped. `words` are the words after `serve`.
pub fn run(words: Vec<String>) -> ExitCode {
    allocator::return_large_buffers();
    match lifecycle::prepare(words).and_then(lifecycle::PreparedServer::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::stderr::print(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
