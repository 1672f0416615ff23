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

use getid_redis::resp::{ErrorKind, ErrorReply};
use getid_system::threads;

/// Maximum wait of a change for the previous one, and then for its own end. A healthy disk takes milliseconds.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of waiting changes.
const WAITING_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(super) struct ChangeQueue {
    /// Queue of the thread; `None` if the system provided no thread.
    jobs: Option<mpsc::Sender<Job>>,
    turn: Arc<Semaphore>,
    waiting: AtomicUsize,
    running: Arc<Mutex<Option<RunningChange>>>,
}

#[derive(Clone, Copy, Debug)]
struct RunningChange {
    what: &'static str,
    since: Instant,
}

/// Reason why a change was not made, or may not have been. `Display` is the error reply without its `-`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ChangeError {
    #[error(
        "BUSY {what} has waited {for_s} s for its file, and changes run one at a time. Try again when the disk answers"
    )]
    Behind { what: &'static str, for_s: u64 },
    #[error("BUSY {WAITING_MAX} changes already wait for {what}. Try again when it is done")]
    TooMany { what: &'static str },
    #[error(
        "BUSY {what} has waited {for_s} s for its file. It succeeds or fails when the disk answers, and the log \
         reports which"
    )]
    Slow { what: &'static str, for_s: u64 },
    #[error("ERR {what} failed because of a bug, which the log reports. Check whether the change was made")]
    Panicked { what: &'static str },
    #[error(
        "ERR there is no thread for changes: the limit of processes was reached at the start. Raise it (ulimit -u, \
         TasksMax=) and restart"
    )]
    NoThread,
}

impl From<ChangeError> for ErrorReply {
    fn from(error: ChangeError) -> ErrorReply {
        ErrorReply::new(ErrorKind::Unavailable, error.to_string())
    }
}

impl ChangeQueue {
    /// Starts the thread, which ends when the value is dropped.
    pub(super) fn start() -> ChangeQueue {
        let (jobs, queue) = mpsc::channel::<Job>();
        let run = move || {
            for job in queue {
                // The panic itself logs the error; the next change begins with the current state.
                let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
            }
        };
        let started = threads::spawn("getid-changes", run);
        if let Err(error) = &started {
            tracing::error!("the thread for changes of settings cannot be started, and changes are refused: {error}");
        }
        ChangeQueue {
            jobs: started.is_ok().then_some(jobs),
            turn: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            running: Arc::default(),
        }
    }

    /// Makes a change when its turn comes. It is made, or fails, even if its client has gone by then.
    pub(super) async fn make<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ChangeError> {
        let jobs = self.jobs.as_ref().ok_or(ChangeError::NoThread)?;
        let running_change =
            || self.lock().map_or((what, 0), |running| (running.what, running.since.elapsed().as_secs()));
        let waiting =
            ChangeSlot::new(&self.waiting).ok_or_else(|| ChangeError::TooMany { what: running_change().0 })?;
        let turn = timeout(CHANGE_TIMEOUT, Arc::clone(&self.turn).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let (what, for_s) = running_change();
            return Err(ChangeError::Behind { what, for_s });
        };
        drop(waiting);
        *self.lock() = Some(RunningChange { what, since: Instant::now() });
        let (done, end) = oneshot::channel();
        let running = Arc::clone(&self.running);
        let runtime = tokio::runtime::Handle::current();
        let job = Box::new(move || {
            // Dropped in any case, so that the next one can begin.
            let _turn = turn;
            let _end = RunningChangeGuard(running);
            let _inside = runtime.enter();
            // The receiver may be gone.
            let _ = done.send(work());
        });
        // The thread ends only with `jobs`.
        let _ = jobs.send(job);
        match timeout(CHANGE_TIMEOUT, end).await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(_)) => Err(ChangeError::Panicked { what }),
            Err(_) => Err(ChangeError::Slow { what, for_s: CHANGE_TIMEOUT.as_secs() }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<RunningChange>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the waiting changes.
struct ChangeSlot<'a>(&'a AtomicUsize);

impl ChangeSlot<'_> {
    fn new(count: &AtomicUsize) -> Option<ChangeSlot<'_>> {
        let waiting = ChangeSlot(count);
        (count.fetch_add(1, Relaxed) < WAITING_MAX).then_some(waiting)
    }
}

impl Drop for ChangeSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

struct RunningChangeGuard(Arc<Mutex<Option<RunningChange>>>);

impl Drop for RunningChangeGuard {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a change that lasts until the returned sender is dropped.
    fn hanging(changes: &Arc<ChangeQueue>) -> (mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), ChangeError>>) {
        let (end, ended) = mpsc::channel::<()>();
        let changes = Arc::clone(changes);
        let made = tokio::spawn(async move { changes.make("CONFIG REWRITE", move || _ = ended.recv()).await });
        (end, made)
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_file_delays_other_changes_for_a_bounded_time() {
        let changes = Arc::new(ChangeQueue::start());
        let (end, first) = hanging(&changes);
        tokio::task::yield_now().await;
        let begun = Instant::now();
        let error = changes.make("CONFIG SET", || ()).await.unwrap_err();
        assert_eq!(begun.elapsed(), CHANGE_TIMEOUT);
        assert_eq!(
            error.to_string(),
            "BUSY CONFIG REWRITE has waited 5 s for its file, and changes run one at a time. Try again when the disk answers"
        );
        assert!(matches!(first.await.unwrap(), Err(ChangeError::Slow { what: "CONFIG REWRITE", for_s: 5 })));
        // The disk answers.
        drop(end);
        tokio::time::resume();
        assert_eq!(changes.make("CONFIG SET", || 7).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_waiting_changes_is_bounded() {
        let changes = Arc::new(ChangeQueue::start());
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
    async fn changes_run_one_at_a_time_and_a_panic_fails_only_its_own_change() {
        let changes = Arc::new(ChangeQueue::start());
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
