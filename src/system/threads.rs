//! Threads with a name, and what to do when the system gives none.

use std::io;
use std::thread;

/// Starts a thread.
///
/// # Errors
///
/// When the system gives none. The error names the limit that was reached.
pub fn spawn(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(run).map(drop).map_err(|error| {
        let sentence = format!("{error}; raise the limit of processes (ulimit -u, TasksMax=)");
        io::Error::new(error.kind(), sentence)
    })
}
