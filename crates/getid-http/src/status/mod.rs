//! The server's status, its history and its details: the data of the page.
//!
//! The types are serialized as they are, and `/openapi.json` has their derived schemas: a doc comment of a field is its
//! description there.
//!
//! - `now` has the server's state at one moment, gathered at most once a second for all viewers.
//! - `history` has the last ten minutes and the last day, noted once a second, with viewers or without.
//! - `details` has data that changes more slowly, and the reader's rights.
//! - `notices` has sentences: why no IDs are given, remedies, and what needs attention soon.
//!
//! Invariant: outside text (names, addresses, a database's messages) has a bounded length.

mod details;
mod history;
mod notices;
mod now;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior};

pub(super) use self::details::{Details, GeneratorDetails, SharedDetails, check_generator_access, details_of};
use self::history::{GeneratorCharts, History, HistoryPoint, POINTS_OF_STEP, RecentRates};
use self::now::Status;
use getid_server::Server;

/// The most viewers at a time.
pub(super) const VIEWERS_MAX: usize = 32;

/// State that all viewers of the page share.
pub(super) struct PageState {
    history: Mutex<History>,
    charts: Mutex<GeneratorCharts>,
    latest: Cached<Status>,
    /// Details that are equal for all readers.
    common: Cached<SharedDetails>,
    /// The latest event, for all viewers.
    pub(super) event: watch::Sender<Arc<str>>,
    pub(super) viewers: Arc<Semaphore>,
    /// Interval at which the history gets a point and viewers get an event.
    step: Duration,
}

/// A gathered value that requests share until it is too old.
struct Cached<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Cached<T> {
    fn default() -> Cached<T> {
        Cached(Mutex::default())
    }
}

impl<T> Cached<T> {
    fn keep(&self, value: Arc<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), value));
    }

    /// Returns the value; gathers another one if it is as old as `age_max`.
    fn get(&self, age_max: Duration, gather: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref() {
            Some((at, value)) if at.elapsed() < age_max => Arc::clone(value),
            _ => {
                let value = Arc::new(gather());
                *kept = Some((Instant::now(), Arc::clone(&value)));
                value
            }
        }
    }
}

/// A server at one moment, with the last ten minutes.
#[derive(JsonSchema, Serialize)]
pub(super) struct StatusWithHistory<'a> {
    #[serde(flatten)]
    status: &'a Status,
    /// The last ten minutes, the oldest second first.
    history: RecentRates,
}

impl PageState {
    /// Creates the state of the page with the current counters. Must be called before the first client connects.
    pub(super) fn new(server: &Server, step: Duration) -> PageState {
        PageState {
            history: Mutex::new(History::since(HistoryPoint::of(server), step)),
            charts: Mutex::default(),
            latest: Cached::default(),
            common: Cached::default(),
            event: watch::Sender::new(Arc::from("")),
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
            step,
        }
    }

    /// Notes the counters each second and sends the status to the viewers, until the server stops.
    pub(super) async fn run(&self, server: &Server) {
        let mut ticks = tokio::time::interval_at(Instant::now() + self.step, self.step);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut points = 0;
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    self.note(server);
                    if points % POINTS_OF_STEP == 0 {
                        let given = GeneratorCharts::given(server);
                        self.charts.lock().unwrap_or_else(PoisonError::into_inner).note(given);
                    }
                    points = (points + 1) % POINTS_OF_STEP;
                }
                () = server.stop_requested() => return,
            }
        }
    }

    fn note(&self, server: &Server) {
        let point = self.history.lock().unwrap_or_else(PoisonError::into_inner).note(&HistoryPoint::of(server));
        if self.event.receiver_count() > 0 {
            let status = Arc::new(Status::of(server, point));
            self.event.send_replace(status_event(&serde_json::to_string(&*status).unwrap_or_default()));
            self.latest.keep(status);
        }
    }

    /// Returns the details of the generator with this name; `None` if there is none.
    pub(super) fn generator(&self, server: &Server, name: &str) -> Option<GeneratorDetails> {
        let chart = self.charts.lock().unwrap_or_else(PoisonError::into_inner).of(name);
        GeneratorDetails::of(chart, server, name)
    }

    /// Returns the details that are equal for all readers, gathered at most once in a step.
    pub(super) fn common(&self, server: &Server) -> Arc<SharedDetails> {
        self.common.get(self.step, || {
            let day = self.history.lock().unwrap_or_else(PoisonError::into_inner).day();
            SharedDetails::of(day, server)
        })
    }

    /// Returns the current status with the last ten minutes, as JSON.
    pub(super) fn whole(&self, server: &Server) -> String {
        let (history, point) = {
            let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            (history.rates(), history.last())
        };
        let status = self.latest.get(self.step, || Status::of(server, point));
        serde_json::to_string(&StatusWithHistory { status: &status, history }).unwrap_or_default()
    }
}

/// Returns a server-sent event with a status. JSON has no line ends.
pub(super) fn status_event(json: &str) -> Arc<str> {
    format!("event: status\ndata: {json}\n\n").into()
}
