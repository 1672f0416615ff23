//! Threads that serve connections (`io-threads`).
//!
//! A connection costs system calls and little else, and waking another thread costs more than answering. So each thread
//! has its own runtime, a connection stays on one thread, and the threads share no queue: only a new connection is
//! handed over, once. The threads do share the issuer, where a draw exchanges one word, so IDs stay strictly ordered
//! over all threads.
//!
//! A new connection goes to the thread with the fewest. Round robin is not enough: of clients that connect in pairs and
//! leave one by one, all that stay would be on one thread.
//!
//! # Why the threads have no listeners
//!
//! With `SO_REUSEPORT` each thread could accept its own connections, without a hand-over. But:
//!
//! - The kernel chooses the thread by a hash of addresses and ports. A pool's 10 or 50 connections stay for days, and
//!   would be spread unevenly without a remedy.
//! - A connection in the backlog of a busy thread waits for that thread although others are free, and the backlog of a
//!   thread that ends is lost.
//! - A second server that is started on the same port by mistake would start and take a share of the clients.
//! - Unix sockets do not support it.
//!
//! It would save the hand-over, which is paid once a connection. Measured, that is a tenth of the server's CPU time to
//! accept a client, answer one `PING` and close it (12 µs of 124).
//!
//! The thread that starts the server is the first of them: with one thread, the default, nothing is handed over.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use super::threads;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of the calling thread among those that serve connections; 0 for any other thread.
pub fn current() -> usize {
    NUMBER.get()
}

/// Sets the number of the calling thread.
pub fn set_current(number: usize) {
    NUMBER.set(number);
}

/// Creates a runtime for one thread.
///
/// # Errors
///
/// Fails if the system has no descriptor left for it.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The most threads in the pool of [`blocking_runtime`].
const BLOCKING_THREADS: usize = 8;

/// Creates a runtime for one thread whose tasks open stores. Files and certificates are read, and names of hosts are
/// looked up, on threads of its pool.
///
/// Tokio panics if a pool has no thread and the system refuses one. Threads of this pool do not end, so work waits for
/// one of them instead. There are few: a disk that hangs may block each of them.
///
/// # Errors
///
/// Fails if the system has no thread for the pool or no descriptor left.
pub fn blocking_runtime() -> io::Result<Runtime> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(Duration::MAX)
        .build()?;
    threads::check_room()?;
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

/// All threads that serve connections, and the number of connections on each. Dropping it ends the threads that it
/// started, and the tasks that still run there.
#[derive(Debug)]
pub struct IoThreads {
    /// The runtimes of all threads but the first.
    others: Vec<Handle>,
    /// The number of connections on each thread, by thread number.
    live: Vec<Arc<AtomicUsize>>,
    /// The thread of the last connection.
    last: AtomicUsize,
    end: watch::Sender<()>,
}

impl IoThreads {
    /// Starts `count - 1` threads; the caller's thread is the first.
    ///
    /// # Errors
    ///
    /// Fails if the system has no thread left, or no descriptor for its runtime.
    pub fn start(count: usize) -> io::Result<IoThreads> {
        let (end, _) = watch::channel(());
        let live = (0..count.max(1)).map(|_| Arc::default()).collect();
        let mut started = IoThreads { others: Vec::new(), live, last: AtomicUsize::new(0), end };
        for number in 1..count {
            let runtime = runtime()?;
            started.others.push(runtime.handle().clone());
            let mut ended = started.end.subscribe();
            threads::spawn(format!("getid-io-{number}"), move || {
                set_current(number);
                // An error means that the sender was dropped, which also ends the thread.
                let _ = runtime.block_on(ended.changed());
                // Blocking work, such as a command that writes a file, must not keep the process alive.
                runtime.shutdown_background();
            })?;
        }
        Ok(started)
    }

    /// Returns the number of threads that serve connections.
    pub fn count(&self) -> usize {
        self.others.len() + 1
    }

    /// Whether the next connection stays on the calling thread.
    pub fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// Chooses a thread for a new connection, runs `begin` there, and then the task that it returns. Must be called on
    /// the first thread.
    pub fn spawn<F>(&self, begin: impl FnOnce() -> Option<F> + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let number = self.with_fewest();
        let place = self.place(number);
        // The connection is a task of its own, so that the memory of `begin` is freed before the connection ends.
        let begin = move || drop(begin().map(|task| tokio::spawn(place.hold(task))));
        match number.checked_sub(1).and_then(|at| self.others.get(at)) {
            Some(other) => drop(other.spawn(async move { begin() })),
            None => begin(),
        }
    }

    /// Runs a connection's task on the calling thread, which must be one of these.
    pub fn spawn_here(&self, task: impl Future<Output = ()> + Send + 'static) {
        if self.is_alone() {
            // Nothing needs counting, and the task needs no memory beyond its own.
            drop(tokio::spawn(task));
        } else {
            drop(tokio::spawn(self.place(current()).hold(task)));
        }
    }

    /// Returns the thread with the fewest connections; of several, the next in turn.
    fn with_fewest(&self) -> usize {
        let (last, count) = (self.last.load(Relaxed), self.live.len());
        let in_turn = (1..=count).map(|step| (last + step) % count);
        let number = in_turn.min_by_key(|&number| self.live[number].load(Relaxed)).unwrap_or(0);
        self.last.store(number, Relaxed);
        number
    }

    /// Counts one more connection on this thread.
    fn place(&self, number: usize) -> ThreadSlot {
        let live = self.live.get(number).map(Arc::clone).unwrap_or_default();
        live.fetch_add(1, Relaxed);
        ThreadSlot(live)
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        // Threads are not joined: the last connection may drop this, and then a thread would wait for itself.
        self.end.send_replace(());
    }
}

/// A connection's place on its thread. Dropping it releases the place, also after a panic.
struct ThreadSlot(Arc<AtomicUsize>);

impl ThreadSlot {
    /// Runs the task, and holds its place until it ends.
    fn hold<F: Future<Output = ()>>(self, task: F) -> impl Future<Output = ()> + use<F> {
        // Boxed, because an `async` block that awaits a captured future has room for it twice.
        let mut task = Box::pin(task);
        poll_fn(move |cx| {
            let _held = &self;
            task.as_mut().poll(cx)
        })
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Begins a task that sends its thread's number, and ends when the returned sender is dropped.
    fn connect(threads: &IoThreads, sender: &mpsc::UnboundedSender<usize>) -> oneshot::Sender<()> {
        let (stay, left) = oneshot::channel();
        let sender = sender.clone();
        threads.spawn(move || {
            Some(async move {
                sender.send(current()).expect("the receiver lives");
                let _ = left.await;
            })
        });
        stay
    }

    fn live(threads: &IoThreads) -> Vec<usize> {
        threads.live.iter().map(|live| live.load(Relaxed)).collect()
    }

    async fn until_live(threads: &IoThreads, expected: &[usize]) {
        while live(threads) != expected {
            tokio::task::yield_now().await;
        }
    }

    fn on_two_threads<F: Future<Output = ()>>(test: impl FnOnce(IoThreads) -> F) {
        let threads = IoThreads::start(2).expect("threads");
        runtime().expect("a runtime").block_on(test(threads));
    }

    #[test]
    fn connections_spread_evenly_whichever_close() {
        on_two_threads(|threads| async move {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            let mut all = Vec::new();
            for number in [1, 0, 1, 0, 1, 0, 1, 0] {
                all.push(connect(&threads, &sender));
                assert_eq!(receiver.recv().await, Some(number), "in turn while all stay");
            }
            let mut number = 0;
            all.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            until_live(&threads, &[4, 0]).await;
            for _ in 0..4 {
                all.push(connect(&threads, &sender));
                assert_eq!(receiver.recv().await, Some(1), "the thread that the closed connections left");
            }
            assert_eq!(live(&threads), [4, 4]);
            drop(all);
            until_live(&threads, &[0, 0]).await;
        });
    }

    #[test]
    fn a_slot_is_released_after_a_panic_and_if_no_task_starts() {
        on_two_threads(|threads| async move {
            threads.spawn(|| None::<std::future::Ready<()>>);
            threads.spawn(|| Some(async { panic!("as a connection might") }));
            threads.spawn_here(async { panic!("as a connection might") });
            until_live(&threads, &[0, 0]).await;
        });
    }
}
