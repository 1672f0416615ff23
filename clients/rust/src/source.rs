//! Sequence, worker, and the methods that they share.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::client::{Handle, Process};
use crate::core::{Caller, Span, Started, Supply};
use crate::error::{Error, Result, check_count, check_timeout};
use crate::layout::Layout;
use crate::sequence::SequenceStats;
use crate::worker::WorkerStats;

/// Source of IDs: a [`Sequence`], a [`Worker`], or a fake of them, so that programs can take either.
///
/// ```
/// use getid_client::{FakeClient, IdSource};
///
/// fn order_number(ids: &dyn IdSource) -> getid_client::Result<String> {
///     Ok(format!("A-{}", ids.next()?))
/// }
///
/// let orders = FakeClient::new(41).sequence("orders")?;
/// assert_eq!(order_number(&orders)?, "A-41");
/// # Ok::<(), getid_client::Error>(())
/// ```
pub trait IdSource: Send + Sync {
    /// Returns the next value, waiting for at most the client's time-out.
    fn next(&self) -> Result<i64>;
    /// Returns the next value, waiting for at most `timeout`.
    fn next_timeout(&self, timeout: Duration) -> Result<i64>;
    /// Returns `n` values, 1 to 1,000,000, ascending.
    fn take(&self, n: usize) -> Result<Vec<i64>>;
    /// Returns the next value if it is in memory, else none. Never waits.
    fn try_next(&self) -> Result<Option<i64>>;
    /// Returns a future of the next value.
    fn next_async(&self) -> NextId;
    /// Waits until `n` values, 1 to 1,000,000, are in memory, or a worker id is leased.
    fn warm_up(&self, n: usize) -> Result<()>;
}

/// What a sequence and a worker have in common.
#[derive(Clone)]
pub(crate) struct Supplier {
    handle: Arc<Handle>,
    index: usize,
    name: Arc<str>,
}

impl Supplier {
    pub(crate) fn new(handle: Arc<Handle>, index: usize, name: &str) -> Supplier {
        Supplier { handle, index, name: name.into() }
    }

    #[inline]
    fn next(&self, timeout: Option<Duration>) -> Result<i64> {
        let process = self.handle.process()?;
        let value = process.state().fast(self.index);
        match value {
            Some(value) => Ok(value),
            None => self.next_slowly(timeout),
        }
    }

    #[cold]
    #[inline(never)]
    fn next_slowly(&self, timeout: Option<Duration>) -> Result<i64> {
        self.take(1, timeout).map(|values| values[0])
    }

    fn take(&self, n: u64, timeout: Option<Duration>) -> Result<Vec<i64>> {
        let deadline = Instant::now() + timeout.map_or(Ok(self.handle.timeout()), check_timeout)?;
        let mut values = Vec::with_capacity(usize::try_from(n).unwrap_or(0));
        while (values.len() as u64) < n {
            let process = self.handle.process()?;
            let started = process.state().start(self.index, n - values.len() as u64, Caller::Blocking)?;
            let spans = self.finish(process, started, deadline)?;
            values.extend(spans.into_iter().flat_map(Span::values));
        }
        Ok(values)
    }

    fn warm_up(&self, n: usize) -> Result<()> {
        let n = check_count(n)?;
        let deadline = Instant::now() + self.handle.timeout();
        let process = self.handle.process()?;
        let started = process.state().warm_up(self.index, n)?;
        self.finish(process, started, deadline).map(drop)
    }

    /// Waits for a call that was queued. Returns its values, none if it is to be started again.
    fn finish(&self, process: &Arc<Process>, started: Started, deadline: Instant) -> Result<Vec<Span>> {
        let (id, signal) = match started {
            Started::Done(spans) => {
                self.start_due_job(process, true);
                return Ok(spans);
            }
            Started::Waiting(id, signal) => (id, signal),
        };
        if let Some(signal) = signal {
            process.wait(self.index, &signal, deadline);
        }
        let mut state = process.state();
        let result = state.poll(self.index, id, None);
        result.unwrap_or_else(|| Err(state.leave(self.index, id)))
    }

    /// Wakes the background thread for a job that is due. Without a thread, a blocking call does the job itself.
    fn start_due_job(&self, process: &Arc<Process>, is_blocking: bool) {
        let due = process.state().sources[self.index].calls.due;
        if due.is_some_and(|due| due <= process.clock().now()) && !process.kick() && is_blocking {
            process.help(self.index);
        }
    }

    fn try_next(&self) -> Result<Option<i64>> {
        let process = self.handle.process()?;
        let value = process.state().try_next(self.index);
        self.start_due_job(process, false);
        value
    }
}

macro_rules! source_methods {
    ($type:ident) => {
        impl $type {
            /// Returns the next value, out of memory in nearly all calls, else waiting for at most the client's
            /// time-out.
            #[inline]
            pub fn next(&self) -> Result<i64> {
                self.0.next(None)
            }

            /// Returns the next value, waiting for at most `timeout`.
            pub fn next_timeout(&self, timeout: Duration) -> Result<i64> {
                self.0.next(Some(timeout))
            }

            /// Returns `n` values, 1 to 1,000,000, ascending.
            pub fn take(&self, n: usize) -> Result<Vec<i64>> {
                self.0.take(check_count(n)?, None)
            }

            /// Returns `n` values, 1 to 1,000,000, ascending, waiting for at most `timeout`.
            pub fn take_timeout(&self, n: usize, timeout: Duration) -> Result<Vec<i64>> {
                self.0.take(check_count(n)?, Some(timeout))
            }

            /// Returns the next value if it is in memory, else none. Never waits, and starts the request.
            pub fn try_next(&self) -> Result<Option<i64>> {
                self.0.try_next()
            }

            /// Returns a future of the next value, for any executor. It ends with the client's time-out. Dropped before
            /// its end it leaves a gap at most.
            pub fn next_async(&self) -> NextId {
                let deadline = Instant::now() + self.0.handle.timeout();
                NextId(Progress::Draw { supplier: self.0.clone(), deadline, waiting: None })
            }

            /// Name of the object.
            pub fn name(&self) -> &str {
                &self.0.name
            }
        }

        impl IdSource for $type {
            fn next(&self) -> Result<i64> {
                $type::next(self)
            }

            fn next_timeout(&self, timeout: Duration) -> Result<i64> {
                $type::next_timeout(self, timeout)
            }

            fn take(&self, n: usize) -> Result<Vec<i64>> {
                $type::take(self, n)
            }

            fn try_next(&self) -> Result<Option<i64>> {
                $type::try_next(self)
            }

            fn next_async(&self) -> NextId {
                $type::next_async(self)
            }

            fn warm_up(&self, n: usize) -> Result<()> {
                self.0.warm_up(n)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($type)).field(&self.0.name).finish()
            }
        }
    };
}

/// Values of one sequence, each given once, ascending in this object. Made by [`Client::sequence`].
///
/// Clones are the same object. A value that a program takes and does not use leaves a gap.
///
/// [`Client::sequence`]: crate::Client::sequence
#[derive(Clone)]
pub struct Sequence(pub(crate) Supplier);

source_methods!(Sequence);

impl Sequence {
    /// Waits until `n` values, 1 to 1,000,000, are in memory. Does nothing with [`SequenceOptions::fresh`].
    ///
    /// [`SequenceOptions::fresh`]: crate::SequenceOptions::fresh
    pub fn warm_up(&self, n: usize) -> Result<()> {
        self.0.warm_up(n)
    }

    /// Returns the counters of this object.
    pub fn stats(&self) -> Result<SequenceStats> {
        let mut state = self.0.handle.process()?.state();
        let source = &mut state.sources[self.0.index];
        match &mut source.supply {
            Supply::Sequence(sequence) => Ok(sequence.stats(source.calls.failures)),
            Supply::Worker(_) => unreachable!("an object keeps its kind"),
        }
    }
}

/// IDs of a leased worker id, unique over all programs, ascending in this object. Made by [`Client::worker`].
///
/// Clones are the same object.
///
/// [`Client::worker`]: crate::Client::worker
#[derive(Clone)]
pub struct Worker(pub(crate) Supplier);

source_methods!(Worker);

impl Worker {
    /// Waits until a worker id is leased.
    pub fn warm_up(&self) -> Result<()> {
        self.0.warm_up(1)
    }

    /// Layout of the IDs.
    pub fn layout(&self) -> Result<Layout> {
        match &self.0.handle.process()?.state().sources[self.0.index].supply {
            Supply::Worker(worker) => Ok(worker.layout()),
            Supply::Sequence(_) => unreachable!("an object keeps its kind"),
        }
    }

    /// Returns the counters of this object.
    pub fn stats(&self) -> Result<WorkerStats> {
        let state = self.0.handle.process()?.state();
        let source = &state.sources[self.0.index];
        match &source.supply {
            Supply::Worker(worker) => Ok(worker.stats(source.calls.failures)),
            Supply::Sequence(_) => unreachable!("an object keeps its kind"),
        }
    }
}

/// Future of the next value of a source. Made by [`IdSource::next_async`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct NextId(Progress);

enum Progress {
    Ready(Option<Result<i64>>),
    Draw { supplier: Supplier, deadline: Instant, waiting: Option<(Arc<Process>, u64)> },
}

impl fmt::Debug for NextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextId").finish_non_exhaustive()
    }
}

impl NextId {
    pub(crate) fn ready(result: Result<i64>) -> NextId {
        NextId(Progress::Ready(Some(result)))
    }
}

impl Future for NextId {
    type Output = Result<i64>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<i64>> {
        let result = match &mut self.0 {
            Progress::Ready(result) => result.take().unwrap_or(Err(Error::Closed)),
            Progress::Draw { supplier, deadline, waiting } => match poll_draw(supplier, *deadline, waiting, context) {
                Poll::Ready(result) => result,
                Poll::Pending => return Poll::Pending,
            },
        };
        self.0 = Progress::Ready(None);
        Poll::Ready(result)
    }
}

fn poll_draw(
    supplier: &Supplier,
    deadline: Instant,
    waiting: &mut Option<(Arc<Process>, u64)>,
    context: &Context<'_>,
) -> Poll<Result<i64>> {
    let process = supplier.handle.process()?;
    loop {
        let spans = match waiting {
            // A child of `fork` starts the call again: the first one waits in its parent.
            Some((waited, _)) if !Arc::ptr_eq(waited, process) => {
                std::mem::forget(waiting.take());
                continue;
            }
            Some((_, id)) => match process.state().poll(supplier.index, *id, Some(context.waker())) {
                Some(result) => {
                    *waiting = None;
                    result?
                }
                None => return Poll::Pending,
            },
            None => {
                let caller = Caller::Task(context.waker(), deadline);
                let started = process.state().start(supplier.index, 1, caller)?;
                match started {
                    Started::Done(spans) => {
                        supplier.start_due_job(process, false);
                        spans
                    }
                    Started::Waiting(id, _) => {
                        if !process.kick() {
                            process.state().leave(supplier.index, id);
                            let message = "the background thread cannot be started: use next() without async".into();
                            return Poll::Ready(Err(Error::Unavailable(message)));
                        }
                        *waiting = Some((Arc::clone(process), id));
                        return Poll::Pending;
                    }
                }
            }
        };
        if let Some(value) = spans.into_iter().flat_map(Span::values).next() {
            return Poll::Ready(Ok(value));
        }
    }
}

impl Drop for NextId {
    fn drop(&mut self) {
        if let Progress::Draw { supplier, waiting, .. } = &mut self.0
            && let Some((process, id)) = waiting.take()
        {
            // In a child of `fork` the parent's lock may be held for ever.
            if supplier.handle.process().is_ok_and(|current| Arc::ptr_eq(current, &process)) {
                process.state().leave(supplier.index, id);
            }
        }
    }
}
