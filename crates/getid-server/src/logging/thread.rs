//! Starts the log's threads.

use std::thread;

use super::error::LogError;

pub(super) fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<(), LogError> {
    let thread = thread::Builder::new().name(format!("getid-{name}")).spawn(run);
    thread.map(drop).map_err(|error| LogError::Thread { error })
}
