//! Threads that serve connections (`io-threads`).
//!
//! A connection costs system calls and little else, and a wake-up of another thread costs more than answering. So each
//! thread has a runtime of its own, a connection stays on one thread from its first byte to its last, and the threads
//! share no queue: only a new connection is handed over, once. What they do share is the issuer, where a draw
//! exchanges one word, so IDs stay strictly ordered over all of them.
//!
//! A new connection goes to the thread that serves the fewest. In turn would not do: of clients that come in pairs and
//! leave one by one, those that stay would all be on one thread.
//!
//! # Why the threads have no listeners of their own
//!
//! With `SO_REUSEPORT` each thread could accept for itself, and nothing would be handed over. But:
//!
//! - The kernel chooses the thread by a hash of addresses and ports. Of the 10 or 50 connections of a pool, which stay
//!   for days, one thread then has far more than another, and nobody can even that out.
//! - A connection in the backlog of a thread that is busy waits for that thread, though others are free; and what is in
//!   the backlog of one that is gone is lost.
//! - A second server that is started on the same port by mistake would start, and take its share of the clients.
//! - Unix sockets know no such thing.
//!
//! The gain would be the hand-over, which is paid once a connection. Measured, that is a tenth of the CPU time that the
//! server takes to accept a client, answer one `PING` and close it (12 µs of 124).
//!
//! The thread that starts the server is the first of them: with one, which is the default, nothing is handed over at
//! all.

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

/// Threads of the pool of [`blocking_runtime`] at most.
const BLOCKING_THREADS: usize = 8;

/// A runtime for one thread whose tasks open stores: files, certificates and names of hosts are read on threads of its
/// pool.
///
/// Tokio panics where a pool has no thread and the system gives none. Threads of this pool do not end, so that work
/// waits for one of them instead. There are few: a disk that hangs may hold each for as long as it does.
///
/// # Errors
///
/// When the system gives no thread for the pool, or no descriptor.
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

/// All of them, and how much each has to do. Dropping it tells those that it has started to end, and with them whatever
/// still runs there.
#[derive(Debug)]
pub struct IoThreads {
    /// The runtimes of all but the first.
    others: Vec<Handle>,
    /// How many connections each serves, by its number.
    live: Vec<Arc<AtomicUsize>>,
    /// Where the last connection went.
    last: AtomicUsize,
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
        let live = (0..count.max(1)).map(|_| Arc::default()).collect();
        let mut started = IoThreads { others: Vec::new(), live, last: AtomicUsize::new(0), end };
        for number in 1..count {
            let runtime = runtime()?;
            started.others.push(runtime.handle().clone());
            let mut ended = started.end.subscribe();
            threads::spawn(format!("getid-io-{number}"), move || {
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
        self.others.len() + 1
    }

    /// Whether the next connection stays on the calling thread.
    pub fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// Chooses a thread for a new connection, has `begin` run there, and then the task that it gives. Must be called on
    /// the first thread.
    pub fn spawn<F>(&self, begin: impl FnOnce() -> Option<F> + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let number = self.with_fewest();
        let place = self.place(number);
        // A task of its own, so that the memory of what begins it is not kept for as long as the connection stays.
        let begin = move || drop(begin().map(|task| tokio::spawn(place.hold(task))));
        match number.checked_sub(1).and_then(|at| self.others.get(at)) {
            Some(other) => drop(other.spawn(async move { begin() })),
            None => begin(),
        }
    }

    /// Runs a connection's task on the calling thread, which is to be one of these.
    pub fn spawn_here(&self, task: impl Future<Output = ()> + Send + 'static) {
        if self.is_alone() {
            // Nothing to count, and the task needs no more memory than its own.
            drop(tokio::spawn(task));
        } else {
            drop(tokio::spawn(self.place(current()).hold(task)));
        }
    }

    /// The thread with the fewest connections; of several, the next in turn.
    fn with_fewest(&self) -> usize {
        let (last, count) = (self.last.load(Relaxed), self.live.len());
        let in_turn = (1..=count).map(|step| (last + step) % count);
        let number = in_turn.min_by_key(|&number| self.live[number].load(Relaxed)).unwrap_or(0);
        self.last.store(number, Relaxed);
        number
    }

    /// One connection more for this thread.
    fn place(&self, number: usize) -> Place {
        let live = self.live.get(number).map(Arc::clone).unwrap_or_default();
        live.fetch_add(1, Relaxed);
        Place(live)
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        // Not joined: the last connection may be what drops this, and then a thread would wait for itself.
        self.end.send_replace(());
    }
}

/// A connection's place on its thread. Dropping it gives the place back, after a panic too.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// The task with its place, until it ends.
    fn hold<F: Future<Output = ()>>(self, task: F) -> impl Future<Output = ()> + use<F> {
        // Boxed: an `async` block that awaits what it has captured has room for it twice.
        let mut task = Box::pin(task);
        poll_fn(move |cx| {
            let _held = &self;
            task.as_mut().poll(cx)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Begins a task that says which thread it is on, and ends when the sender that is returned is dropped.
    fn connect(threads: &IoThreads, tell: &mpsc::UnboundedSender<usize>) -> oneshot::Sender<()> {
        let (stay, left) = oneshot::channel();
        let tell = tell.clone();
        threads.spawn(move || {
            Some(async move {
                tell.send(current()).expect("the test listens");
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
    fn connections_spread_evenly_whoever_leaves() {
        on_two_threads(|threads| async move {
            let (tell, mut told) = mpsc::unbounded_channel();
            let mut all = Vec::new();
            for number in [1, 0, 1, 0, 1, 0, 1, 0] {
                all.push(connect(&threads, &tell));
                assert_eq!(told.recv().await, Some(number), "in turn, while none leaves");
            }
            let mut number = 0;
            all.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            until_live(&threads, &[4, 0]).await;
            for _ in 0..4 {
                all.push(connect(&threads, &tell));
                assert_eq!(told.recv().await, Some(1), "the thread that they left");
            }
            assert_eq!(live(&threads), [4, 4]);
            drop(all);
            until_live(&threads, &[0, 0]).await;
        });
    }

    #[test]
    fn a_place_is_given_back_after_a_panic_and_by_what_never_becomes_a_task() {
        on_two_threads(|threads| async move {
            threads.spawn(|| None::<std::future::Ready<()>>);
            threads.spawn(|| Some(async { panic!("as a connection might") }));
            threads.spawn_here(async { panic!("as a connection might") });
            until_live(&threads, &[0, 0]).await;
        });
    }
}
