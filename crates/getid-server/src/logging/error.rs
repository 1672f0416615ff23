//! Errors of starting the log.

use std::io;
use std::path::PathBuf;

/// Why the log could not be started, or its file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log file cannot be opened.
    #[error("can't open the log file {}: {error}", path.display())]
    Open {
        /// The file's absolute path.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// A thread of the log cannot be started.
    #[error("can't start the thread that writes the log: {error}. Raise the limit of processes (ulimit -u, TasksMax=)")]
    Thread {
        /// The operating system's error.
        error: io::Error,
    },
    /// The process already has a log.
    #[error("the process already has a log")]
    AlreadyStarted,
}
