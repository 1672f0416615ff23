//! The thread that saves.
//!
//! A save blocks for as long as the disk takes. It has its own thread, which starts when the store is opened and stays.
//! A shared thread can be busy, and a thread started on demand fails at the limit of processes. Both would look like a
//! disk that does not answer.
//!
//! Results return by a channel that needs no runtime. If a caller stops waiting, its result stays in the channel.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

/// A thread that runs closures one after the other. It ends when this value is dropped and the last closure is done.
#[derive(Debug)]
pub(super) struct SaverThread {
    work: mpsc::Sender<SaverTask>,
}

type SaverTask = Box<dyn FnOnce() + Send>;

impl SaverThread {
    pub(super) fn start() -> io::Result<SaverThread> {
        let (work, todo) = mpsc::channel::<SaverTask>();
        thread::Builder::new().name("getid-saver".to_owned()).spawn(move || {
            for work in todo {
                work();
            }
        })?;
        Ok(SaverThread { work })
    }

    /// Runs `work`, which must not panic, on the thread. The caller may wait for its result.
    ///
    /// The queue has no bound: the store runs one closure at a time.
    pub(super) fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> oneshot::Receiver<R> {
        let (done, answer) = oneshot::channel();
        // If the thread has ended, `done` is dropped, and the receiver reports an error.
        let _ = self.work.send(Box::new(move || {
            let _ = done.send(work());
        }));
        answer
    }
}
