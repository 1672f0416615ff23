//! Threads that serve connections (`io-threads`).
//!
//! A connection costs system calls and little else, and a wake-up of another thread costs more than answering. So each
//! thread has a runtime of its own, a connection stays on one thread from its first byte to its last, and the threads
//! share no queue: only a new connection is handed over, once, in turn. What they do share is the issuer, whose lock is
//! held for tens of nanoseconds, so IDs stay strictly ordered over all of them.
//!
//! The thread that starts the server is the first of them: with one, which is the default, nothing is handed over at
//! all.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// The number of the calling thread among those that serve connections; 0 for any other.
pub fn current() -> usize {
    NUMBER.get()
}

/// Makes the calling thread the one of this number.
pub fn set_current(number: usize) {
    NUMBER.set(number);
}

/// A runtime for one thread.
///
/// # Errors
///
/// When the system gives no descriptor for it.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The threads besides the one that accepts. Dropping it tells them to end, and with them whatever still runs there.
#[derive(Debug)]
pub struct IoThreads {
    handles: Vec<Handle>,
    next: AtomicUsize,
    end: watch::Sender<()>,
}

impl IoThreads {
    /// Starts `count - 1` threads; the caller's is the first.
    ///
    /// # Errors
    ///
    /// When the system gives no thread, or no descriptor for its runtime.
    pub fn start(count: usize) -> io::Result<IoThreads> {
        let (end, _) = watch::channel(());
        let mut started = IoThreads { handles: Vec::new(), next: AtomicUsize::new(0), end };
        for number in 1..count {
            let runtime = runtime()?;
            started.handles.push(runtime.handle().clone());
            let mut ended = started.end.subscribe();
            std::thread::Builder::new().name(format!("getid-io-{number}")).spawn(move || {
                set_current(number);
                // An error means that the sender is gone, which is the end as well.
                let _ = runtime.block_on(ended.changed());
                // Blocking work, such as a file that a command writes, must not keep the process alive.
                runtime.shutdown_background();
            })?;
        }
        Ok(started)
    }

    /// How many threads serve connections.
    pub fn count(&self) -> usize {
        self.handles.len() + 1
    }

    /// Whether the next connection stays on the calling thread.
    pub fn is_alone(&self) -> bool {
        self.handles.is_empty()
    }

    /// Runs a new connection's task on the thread whose turn it is. Must be called on the first thread.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let turn = self.next.fetch_add(1, Relaxed) % self.count();
        match self.handles.get(turn) {
            Some(other) => drop(other.spawn(task)),
            None => drop(tokio::spawn(task)),
        }
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        // Not joined: the last connection may be what drops this, and then a thread would wait for itself.
        self.end.send_replace(());
    }
}
