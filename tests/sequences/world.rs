//! Servers, clients and the oracle: no value repeats, and each is above all replies before its request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use getid_core::server::{Run, SequenceRefusal, SequenceRequest};
use getid_engine::generators::sequence::{SequenceNotes, SequenceSettings, Sequences};
use getid_store::sql::Store;
use getid_system::clock::Clock;
use getid_text::name_hash::hash_of;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The runtime's time, which is paused in these tests.
pub(crate) struct PausedClock(Instant);

impl Clock for PausedClock {
    fn boot_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).expect("a short test") + 1_000_000_000
    }

    fn wall_unix_us(&self) -> i64 {
        1_700_000_000_000_000 + i64::try_from(self.0.elapsed().as_micros()).expect("a short test")
    }
}

/// A server's sequences, with their driver on the test's runtime.
pub(crate) struct Server {
    pub(crate) sequences: Arc<Sequences>,
    driver: JoinHandle<()>,
}

pub(crate) fn settings() -> SequenceSettings {
    SequenceSettings { ride_out_s: 5, ..SequenceSettings::default() }
}

impl Server {
    pub(crate) fn start(stores: Vec<Box<dyn Store>>) -> Server {
        Server::start_with(stores, settings(), SequenceNotes::default())
    }

    pub(crate) fn start_with(stores: Vec<Box<dyn Store>>, settings: SequenceSettings, notes: SequenceNotes) -> Server {
        let clock = Box::new(PausedClock(Instant::now()));
        let sequences = Sequences::on(Handle::current(), stores, settings, notes, clock);
        let own = Arc::clone(&sequences);
        Server { sequences, driver: tokio::spawn(async move { own.run().await }) }
    }

    /// Ends it as `kill -9` does: statements that it has sent may still be done.
    pub(crate) fn kill(self) {
        self.driver.abort();
    }

    pub(crate) async fn stop(self) -> getid_engine::generators::sequence::StopReport {
        let stopped = self.sequences.stop(Duration::from_secs(2)).await;
        self.driver.await.expect("the driver has ended well");
        stopped
    }

    /// Draws as a turn does: takes the values in memory, and waits for the rest.
    pub(crate) async fn draw(&self, name: &str, asks: &[SequenceRequest]) -> (Vec<Run>, Result<(), SequenceRefusal>) {
        draw(&self.sequences, name, asks).await
    }

    /// Sends an `INCR`.
    pub(crate) async fn incr(&self, name: &str) -> Result<i64, SequenceRefusal> {
        let (runs, result) = self.draw(name, &[SequenceRequest { values: 1, times: 1 }]).await;
        result.map(|()| runs[0].last_of(0))
    }

    /// Sends this number of `INCR`s in one pipeline, and returns their values in order.
    pub(crate) async fn pipeline(&self, name: &str, times: u32) -> Vec<i64> {
        let (runs, result) = self.draw(name, &[SequenceRequest { values: 1, times }]).await;
        result.expect("no refusal");
        values_of(&runs)
    }
}

pub(crate) async fn draw(
    sequences: &Arc<Sequences>,
    name: &str,
    asks: &[SequenceRequest],
) -> (Vec<Run>, Result<(), SequenceRefusal>) {
    let hash = hash_of(name.as_bytes());
    let (mut runs, mut left) = (Vec::new(), Vec::new());
    if let Err(refusal) =
        sequences.try_draw(sequences.clock_ms(), hash, name, &mut asks.iter().copied(), &mut runs, &mut left)
    {
        return (runs, Err(refusal));
    }
    if left.is_empty() {
        return (runs, Ok(()));
    }
    let deadline = Instant::now() + Duration::from_millis(sequences.wait_ms());
    let result = sequences.draw(hash, name, left, deadline, &mut runs).await;
    (runs, result)
}

/// Returns all values of some runs.
pub(crate) fn values_of(runs: &[Run]) -> Vec<i64> {
    let each = |run: &Run| {
        let (first, increment) = (run.first, i64::from(run.increment));
        (0..i64::from(run.times) * i64::from(run.values)).map(move |nth| first + nth * increment)
    };
    runs.iter().flat_map(each).collect()
}

/// Records all values given.
#[derive(Clone, Default)]
pub(crate) struct Oracle(Arc<Mutex<ValueSeen>>);

#[derive(Default)]
struct ValueSeen {
    given: BTreeMap<String, BTreeSet<i64>>,
    /// Largest value in a reply, by server and sequence.
    replied: BTreeMap<(usize, String), i64>,
    pub(crate) refused: BTreeMap<String, u64>,
}

impl Oracle {
    /// Returns the lower bound of a reply to a request that is sent now.
    pub(crate) fn asks(&self, server: usize, name: &str) -> i64 {
        let seen = self.0.lock().expect("no test has panicked");
        seen.replied.get(&(server, name.to_owned())).copied().unwrap_or(i64::MIN)
    }

    pub(crate) fn replied(&self, server: usize, name: &str, above: i64, values: &[i64], seed: u64) {
        let mut all = self.0.lock().expect("no test has panicked");
        let mut last = above;
        for &value in values {
            assert!(value > last, "seed {seed}: {name} on server {server}: {value} comes after {last}");
            last = value;
            let is_new = all.given.entry(name.to_owned()).or_default().insert(value);
            assert!(is_new, "seed {seed}: {name} on server {server}: {value} twice");
        }
        let replied = all.replied.entry((server, name.to_owned())).or_insert(i64::MIN);
        *replied = (*replied).max(last);
    }

    pub(crate) fn refused(&self, refusal: &SequenceRefusal) {
        let word = format!("{refusal:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        *self.0.lock().expect("no test has panicked").refused.entry(word).or_default() += 1;
    }

    pub(crate) fn refusals(&self) -> BTreeMap<String, u64> {
        self.0.lock().expect("no test has panicked").refused.clone()
    }

    pub(crate) fn given(&self, name: &str) -> usize {
        self.0.lock().expect("no test has panicked").given.get(name).map_or(0, BTreeSet::len)
    }
}
