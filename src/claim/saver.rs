//! The thread that saves.
//!
//! A save blocks for as long as the disk takes. It has a thread of its own, made when the store is opened and kept:
//! threads that are shared can all be busy with something else, and one that is made when it is needed cannot be made
//! at the limit of processes. Both would look like a disk that does not answer.
//!
//! Results come back by a channel that needs no runtime; a caller that stops waiting leaves the result there.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

/// A thread that does one thing after the other, and ends when this is dropped and the last of them is done.
#[derive(Debug)]
pub(crate) struct SaverThread {
    work: mpsc::Sender<Work>,
}

type Work = Box<dyn FnOnce() + Send>;

impl SaverThread {
    pub(crate) fn start() -> io::Result<SaverThread> {
        let (work, todo) = mpsc::channel::<Work>();
        thread::Builder::new().name("getid-saver".to_owned()).spawn(move || {
            for work in todo {
                work();
            }
        })?;
        Ok(SaverThread { work })
    }

    /// Has `work` done, which must not panic; what it returns can be waited for, or not.
    ///
    /// No bound on what waits to be done: the store has one thing done at a time.
    pub(crate) fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> oneshot::Receiver<R> {
        let (done, answer) = oneshot::channel();
        // Where the thread is gone, so is `done` now, and the answer says so.
        let _ = self.work.send(Box::new(move || {
            let _ = done.send(work());
        }));
        answer
    }
}
