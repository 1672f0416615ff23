//! Named threads, and errors that name the limit if the system refuses one.

use std::time::Duration;
use std::{fs, io, thread};

/// How many times, 1 ms apart, to check whether Linux still lists an ended thread.
const CHECKS_MAX: usize = 100;

/// Starts a thread.
///
/// # Errors
///
/// Fails if the system refuses a thread. The error names the limit that was reached.
pub fn spawn(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(run).map(drop).map_err(|error| too_few(&error))
}

/// Checks whether there is room for one more thread, by starting one. It has ended when this returns.
///
/// # Errors
///
/// Those of [`spawn`].
pub(crate) fn check_room() -> io::Result<()> {
    let entry = || fs::canonicalize("/proc/thread-self");
    let thread = thread::Builder::new().name("getid-room".to_owned()).spawn(entry).map_err(|error| too_few(&error))?;
    if let Ok(Ok(entry)) = thread.join() {
        // Linux counts a thread for a moment after it was joined.
        for _ in 0..CHECKS_MAX {
            if !entry.exists() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

fn too_few(error: &io::Error) -> io::Error {
    let sentence = format!("{error}; raise the limit of processes (ulimit -u, TasksMax=)");
    io::Error::new(error.kind(), sentence)
}
