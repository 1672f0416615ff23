//! Changes of settings and users: one after the other, on a thread that may wait for the disk.
//!
//! A file may hang (a network file system, a dying disk), and clients may request a thousand changes meanwhile. So one
//! thread, started before the first client, makes all of them; a bounded number of clients wait for their turn, for a
//! bounded time. A client whose turn does not come gets an error with the obstacle. Nothing else uses that thread: IDs,
//! saves and other commands continue.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use crate::system::threads;

/// Maximum wait of a change for the previous one, and then for its own end. A healthy disk takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of waiting changes.
const WAITING_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(super) struct Changes {
    /// Queue of the thread; `None` if the system provided no thread.
    jobs: Option<mpsc::Sender<Job>>,
    turn: Arc<Semaphore>,
    waiting: AtomicUsize,
    doing: Arc<Mutex<Option<Doing>>>,
}

#[derive(Clone, Copy, Debug)]
struct Doing {
    what: &'static str,
    since: Instant,
}

/// Reason why a change was not made, or may not have been. `Display` is the error reply without its `-`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ChangeError {
    #[error(
        "BUSY {what} has waited for its file for {for_s} s, and changes are made one by one. Try again when that disk answers"
    )]
    Behind { what: &'static str, for_s: u64 },
    #[error("BUSY {WAITING_MAX} changes wait for {what} already. Try again when it is done")]
    TooMany { what: &'static str },
    #[error(
        "BUSY {what} has waited for its file for {for_s} s. It is made when the disk answers, or fails then; the log says which"
    )]
    Slow { what: &'static str, for_s: u64 },
    #[error("ERR {what} ran into a bug, which the log tells; nothing may have been changed")]
    Panicked { what: &'static str },
    #[error(
        "ERR there is no thread for changes: the limit of processes was reached at the start (ulimit -u, TasksMax=)"
    )]
    NoThread,
}

impl Changes {
    /// Starts the thread, which ends when the value is dropped.
    pub(super) fn start() -> Changes {
        let (jobs, queue) = mpsc::channel::<Job>();
        let run = move || {
            for job in queue {
                // The panic itself logs the error; the next change begins with the current state.
                let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
            }
        };
        let started = threads::spawn("getid-changes", run);
        if let Err(error) = &started {
            tracing::error!("no thread for changes of settings, which are refused now: {error}");
        }
        Changes {
            jobs: started.is_ok().then_some(jobs),
            turn: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            doing: Arc::default(),
        }
    }

    /// Makes a change when its turn comes. It is made, or fails, even if its client has gone by then.
    pub(super) async fn make<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ChangeError> {
        let jobs = self.jobs.as_ref().ok_or(ChangeError::NoThread)?;
        let in_the_way = || self.lock().map_or((what, 0), |doing| (doing.what, doing.since.elapsed().as_secs()));
        let waiting = Waiting::new(&self.waiting).ok_or_else(|| ChangeError::TooMany { what: in_the_way().0 })?;
        let turn = timeout(PATIENCE, Arc::clone(&self.turn).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let (what, for_s) = in_the_way();
            return Err(ChangeError::Behind { what, for_s });
        };
        drop(waiting);
        *self.lock() = Some(Doing { what, since: Instant::now() });
        let (done, end) = oneshot::channel();
        let doing = Arc::clone(&self.doing);
        let runtime = tokio::runtime::Handle::current();
        let job = Box::new(move || {
            // Dropped in any case, so that the next one can begin.
            let _turn = turn;
            let _end = Ends(doing);
            let _inside = runtime.enter();
            // The receiver may be gone.
            let _ = done.send(work());
        });
        // The thread ends only with `jobs`.
        let _ = jobs.send(job);
        match timeout(PATIENCE, end).await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(_)) => Err(ChangeError::Panicked { what }),
            Err(_) => Err(ChangeError::Slow { what, for_s: PATIENCE.as_secs() }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Doing>> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the waiting changes.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn new(count: &AtomicUsize) -> Option<Waiting<'_>> {
        let waiting = Waiting(count);
        (count.fetch_add(1, Relaxed) < WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

struct Ends(Arc<Mutex<Option<Doing>>>);

impl Drop for Ends {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a change that lasts until the returned sender is dropped.
    fn hanging(changes: &Arc<Changes>) -> (mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), ChangeError>>) {
        let (end, ended) = mpsc::channel::<()>();
        let changes = Arc::clone(changes);
        let made = tokio::spawn(async move { changes.make("CONFIG REWRITE", move || _ = ended.recv()).await });
        (end, made)
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_hangs_costs_its_own_change_and_a_wait_with_a_bound() {
        let changes = Arc::new(Changes::start());
        let (end, first) = hanging(&changes);
        tokio::task::yield_now().await;
        let begun = Instant::now();
        let error = changes.make("CONFIG SET", || ()).await.unwrap_err();
        assert_eq!(begun.elapsed(), PATIENCE);
        assert_eq!(
            error.to_string(),
            "BUSY CONFIG REWRITE has waited for its file for 5 s, and changes are made one by one. Try again when that disk \
             answers"
        );
        assert!(matches!(first.await.unwrap(), Err(ChangeError::Slow { what: "CONFIG REWRITE", for_s: 5 })));
        // The disk answers.
        drop(end);
        tokio::time::resume();
        assert_eq!(changes.make("CONFIG SET", || 7).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_waiting_changes_is_bounded() {
        let changes = Arc::new(Changes::start());
        let (end, _first) = hanging(&changes);
        tokio::task::yield_now().await;
        let waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| {
                let changes = Arc::clone(&changes);
                tokio::spawn(async move { changes.make("CONFIG SET", || ()).await })
            })
            .collect();
        while changes.waiting.load(Relaxed) < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        let error = changes.make("ACL LOAD", || ()).await.unwrap_err();
        assert_eq!(error, ChangeError::TooMany { what: "CONFIG REWRITE" });
        for waiting in waiting {
            assert!(matches!(waiting.await.unwrap(), Err(ChangeError::Behind { .. })));
        }
        assert_eq!(changes.waiting.load(Relaxed), 0);
        drop(end);
    }

    #[tokio::test]
    async fn one_at_a_time_and_a_bug_is_one_changes_own() {
        let changes = Arc::new(Changes::start());
        let running = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (changes, running) = (Arc::clone(&changes), Arc::clone(&running));
                let work = move || {
                    let others = running.fetch_add(1, Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                    running.fetch_sub(1, Relaxed);
                    others
                };
                tokio::spawn(async move { changes.make("CONFIG SET", work).await })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Ok(0));
        }
        let error = changes.make::<()>("ACL SAVE", || panic!("planted")).await.unwrap_err();
        assert_eq!(error, ChangeError::Panicked { what: "ACL SAVE" });
        assert_eq!(changes.make("ACL SAVE", || 1).await, Ok(1));
    }
}
