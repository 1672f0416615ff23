//! Fakes for unit tests of programs: the same methods without a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result, check_count, check_name, check_timeout};
use crate::layout::Layout;
use crate::sequence::{SequenceOptions, other_options};
use crate::source::{IdSource, NextId};
use crate::worker::WorkerOptions;

/// Time of a fake worker's first ID, in milliseconds after the layout's epoch.
const START_MS: i64 = 1000;

/// Fake of [`Client`](crate::Client) for unit tests of programs. Clones are the same client.
///
/// Sequences count up from the number that it was made with. Workers make IDs with worker id 0, from a time one second
/// after the layout's epoch.
///
/// ```
/// use getid_client::FakeClient;
///
/// let orders = FakeClient::new(1).sequence("orders")?;
/// assert_eq!((orders.next()?, orders.next()?), (1, 2));
/// # Ok::<(), getid_client::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FakeClient {
    start: i64,
    state: Arc<Mutex<FakeState>>,
}

#[derive(Debug, Default)]
struct FakeState {
    is_closed: bool,
    error: Option<Error>,
    sequences: HashMap<String, (SequenceOptions, FakeSequence)>,
    workers: HashMap<String, (Layout, WorkerOptions, FakeWorker)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeState {
    fn check(&mut self) -> Result<()> {
        if self.is_closed { Err(Error::Closed) } else { self.error.take().map_or(Ok(()), Err) }
    }
}

impl FakeClient {
    /// Makes a client whose sequences count up from `start`.
    pub fn new(start: i64) -> FakeClient {
        FakeClient { start, state: Arc::default() }
    }

    /// Returns the fake sequence of a name, the same object each time.
    pub fn sequence(&self, name: &str) -> Result<FakeSequence> {
        self.sequence_with(name, SequenceOptions::default())
    }

    /// Returns the fake sequence of a name. The options have no effect, but their ranges are checked.
    pub fn sequence_with(&self, name: &str, options: SequenceOptions) -> Result<FakeSequence> {
        check_name("name", name)?;
        options.check()?;
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(Error::Closed);
        }
        let made = || FakeSequence(FakeSource::new(&self.state, self.start, None));
        let (found, object) = state.sequences.entry(name.to_owned()).or_insert_with(|| (options, made()));
        if *found == options { Ok(object.clone()) } else { Err(other_options("sequence", name)) }
    }

    /// Returns the fake worker of a pool, the same object each time.
    pub fn worker(&self, pool: &str, layout: Layout) -> Result<FakeWorker> {
        self.worker_with(pool, layout, WorkerOptions::default())
    }

    // The signature is that of `Client`.
    #[allow(clippy::needless_pass_by_value)]
    /// Returns the fake worker of a pool. The options have no effect, but their ranges are checked.
    pub fn worker_with(&self, pool: &str, layout: Layout, options: WorkerOptions) -> Result<FakeWorker> {
        check_name("pool", pool)?;
        options.check()?;
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(Error::Closed);
        }
        let made = || FakeWorker(FakeSource::new(&self.state, 0, Some(layout)));
        let entry = state.workers.entry(pool.to_owned());
        let (found, found_options, object) = entry.or_insert_with(|| (layout, options.clone(), made()));
        let is_same = *found == layout && *found_options == options;
        if is_same { Ok(object.clone()) } else { Err(other_options("worker pool", pool)) }
    }

    /// Makes the next call of an object fail with `error`, such as `Error::Unavailable("down".into())`.
    pub fn fail(&self, error: Error) {
        lock(&self.state).error = Some(error);
    }

    /// Does nothing. Fails if the client is closed.
    pub fn discard(&self) -> Result<()> {
        lock(&self.state).check()
    }

    /// Makes all later calls fail with [`Error::Closed`]. Returns true.
    pub fn close(&self) -> Result<bool> {
        lock(&self.state).is_closed = true;
        Ok(true)
    }

    /// Makes all later calls fail with [`Error::Closed`]. Returns true.
    pub fn close_timeout(&self, timeout: Duration) -> Result<bool> {
        check_timeout(timeout)?;
        self.close()
    }
}

#[derive(Debug, Clone)]
struct FakeSource {
    client: Arc<Mutex<FakeState>>,
    /// Next value of a sequence, or number of IDs that a worker made.
    next: Arc<Mutex<i64>>,
    layout: Option<Layout>,
}

impl FakeSource {
    fn new(client: &Arc<Mutex<FakeState>>, start: i64, layout: Option<Layout>) -> FakeSource {
        FakeSource { client: Arc::clone(client), next: Arc::new(Mutex::new(start)), layout }
    }

    fn take(&self, n: usize) -> Result<Vec<i64>> {
        let n = check_count(n)?;
        lock(&self.client).check()?;
        let mut next = lock(&self.next);
        let first = *next;
        *next += n.cast_signed();
        Ok((first..*next).map(|number| self.value(number)).collect())
    }

    fn value(&self, number: i64) -> i64 {
        let Some(layout) = self.layout else { return number };
        let first = (START_MS + layout.unit_ms - 1) / layout.unit_ms;
        let counter = (number & ((1 << layout.counter) - 1)).cast_unsigned();
        layout.compose(first + (number >> layout.counter), 0, counter)
    }
}

macro_rules! fake_source {
    ($type:ident, $of:literal) => {
        #[doc = concat!("Fake of [`", $of, "`](crate::", $of, "). Clones are the same object.")]
        #[derive(Debug, Clone)]
        pub struct $type(FakeSource);

        impl $type {
            /// Returns the next value.
            pub fn next(&self) -> Result<i64> {
                self.0.take(1).map(|values| values[0])
            }

            /// Returns the next value.
            pub fn next_timeout(&self, timeout: Duration) -> Result<i64> {
                check_timeout(timeout)?;
                self.next()
            }

            /// Returns `n` values, 1 to 1,000,000, ascending.
            pub fn take(&self, n: usize) -> Result<Vec<i64>> {
                self.0.take(n)
            }

            /// Returns the next value.
            pub fn try_next(&self) -> Result<Option<i64>> {
                self.next().map(Some)
            }

            /// Returns a future that is ready.
            pub fn next_async(&self) -> NextId {
                NextId::ready(self.next())
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
                check_count(n)?;
                lock(&self.0.client).check()
            }
        }
    };
}

fake_source!(FakeSequence, "Sequence");
fake_source!(FakeWorker, "Worker");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fake_counts_and_fails_as_it_is_asked_to() {
        let client = FakeClient::new(7);
        let orders = client.sequence("orders").unwrap();
        assert_eq!(orders.take(3).unwrap(), [7, 8, 9]);
        assert_eq!(client.sequence("orders").unwrap().next().unwrap(), 10);
        assert!(client.sequence_with("orders", SequenceOptions::default().fresh(true)).is_err());
        client.fail(Error::Unavailable("down".into()));
        assert_eq!(orders.try_next(), Err(Error::Unavailable("down".into())));
        assert_eq!(orders.try_next(), Ok(Some(11)));
        assert!(client.close().unwrap());
        assert_eq!(orders.next(), Err(Error::Closed));
        assert!(client.sequence("orders").is_err());
    }

    #[test]
    fn a_fake_worker_starts_a_second_after_the_epoch() {
        let worker = FakeClient::new(1).worker("orders", Layout::SONYFLAKE).unwrap();
        let ids = worker.take(257).unwrap();
        let first = Layout::SONYFLAKE.parts(ids[0]).unwrap();
        assert_eq!((first.unix_ms, first.worker, first.counter), (1_409_529_601_000, 0, 0));
        assert_eq!(Layout::SONYFLAKE.parts(ids[256]).unwrap().unix_ms, 1_409_529_601_010);
        assert!(ids.is_sorted_by(|a, b| a < b));
    }
}
