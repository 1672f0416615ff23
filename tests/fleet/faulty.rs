//! A record store that fails as real ones do, and a machine whose clocks a test sets.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use getid_store::records::memory::MemoryStore;
use getid_store::records::{
    DamagedRow, Key, RecordFuture, RecordPage, RecordRow, RecordStore, RecordStoreError, RecordStoreInfo, Stamp,
    WriteResult,
};
use getid_system::clock::Clock;
use tokio::time::Instant;

/// The outcome of the next calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlantedFault {
    /// Calls succeed.
    Not,
    /// Calls are not sent.
    Away,
    /// Writes are executed, but no call returns an answer.
    LosesReplies,
    /// Calls are lost, with an unknown outcome.
    LosesRequests,
    /// The store refuses, as it refuses a wrong password.
    Refuses,
    /// Calls never return.
    Hangs,
}

/// A store in memory that fails as its test sets it.
pub(crate) struct FaultyStore {
    pub(crate) memory: MemoryStore,
    fails: Mutex<PlantedFault>,
    /// The number of calls that still fail.
    left: AtomicU32,
    pub(crate) writes: AtomicU64,
}

impl FaultyStore {
    pub(crate) fn new() -> Arc<FaultyStore> {
        Arc::new(FaultyStore {
            memory: MemoryStore::default(),
            fails: Mutex::new(PlantedFault::Not),
            left: AtomicU32::new(0),
            writes: AtomicU64::new(0),
        })
    }

    /// Lets all calls fail in this way from now on.
    pub(crate) fn fail(&self, fails: PlantedFault) {
        self.fail_times(fails, u32::MAX);
    }

    /// Lets the next `times` calls fail in this way.
    pub(crate) fn fail_times(&self, fails: PlantedFault, times: u32) {
        *self.fails.lock().unwrap() = fails;
        self.left.store(times, Relaxed);
    }

    pub(crate) fn claim(&self, server_id: u32) -> Option<RecordRow> {
        self.memory.get(&Key::of_claim(server_id))
    }

    async fn fate(&self) -> PlantedFault {
        let fails = *self.fails.lock().unwrap();
        if fails == PlantedFault::Not || self.left.load(Relaxed) == 0 {
            return PlantedFault::Not;
        }
        if self.left.load(Relaxed) != u32::MAX {
            self.left.fetch_sub(1, Relaxed);
        }
        if fails == PlantedFault::Hangs {
            std::future::pending::<()>().await;
        }
        fails
    }
}

fn failure(fails: PlantedFault) -> RecordStoreError {
    match fails {
        PlantedFault::Refuses => {
            RecordStoreError::Refused("password authentication failed; set the right one".to_owned())
        }
        PlantedFault::Away => RecordStoreError::Away("connection refused".to_owned()),
        _ => RecordStoreError::Unknown("the connection broke".to_owned()),
    }
}

impl RecordStore for FaultyStore {
    fn shown(&self) -> &'static str {
        "test://store"
    }

    fn read<'a>(&'a self, key: &'a Key) -> RecordFuture<'a, Option<RecordRow>> {
        Box::pin(async move {
            match self.fate().await {
                PlantedFault::Not => self.memory.read(key).await,
                fails => Err(failure(fails)),
            }
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> RecordFuture<'a, RecordPage> {
        Box::pin(async move {
            match self.fate().await {
                PlantedFault::Not => self.memory.list(prefix, after, limit).await,
                fails => Err(failure(fails)),
            }
        })
    }

    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a RecordRow) -> RecordFuture<'a, WriteResult> {
        Box::pin(async move {
            self.writes.fetch_add(1, Relaxed);
            match self.fate().await {
                PlantedFault::Not => self.memory.write(key, expect, new).await,
                fails => {
                    if fails == PlantedFault::LosesReplies {
                        let _ = self.memory.write(key, expect, new).await;
                    }
                    Err(failure(fails))
                }
            }
        })
    }

    fn mend<'a>(&'a self, key: &'a Key, bad: &'a DamagedRow, new: &'a RecordRow) -> RecordFuture<'a, bool> {
        self.memory.mend(key, bad, new)
    }

    fn info(&self) -> RecordFuture<'_, RecordStoreInfo> {
        self.memory.info()
    }
}

/// A machine's clocks: they follow the (paused) time of the test, and the wall clock can be set.
#[derive(Clone)]
pub(crate) struct TestClock {
    began: Instant,
    wall_off_ms: Arc<AtomicI64>,
}

/// The wall clock's time at the start: 2026-11-21.
const BEGAN_UNIX_MS: i64 = 1_795_219_200_000;

impl TestClock {
    pub(crate) fn new() -> TestClock {
        TestClock { began: Instant::now(), wall_off_ms: Arc::default() }
    }

    pub(crate) fn set_wall_off_ms(&self, off_ms: i64) {
        self.wall_off_ms.store(off_ms, Relaxed);
    }

    /// Returns the time since the start of the test, in ms.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap()
    }
}

impl Clock for TestClock {
    fn boot_ns(&self) -> u64 {
        // A reading of 0 means that the clock cannot be read.
        u64::try_from(self.began.elapsed().as_nanos()).unwrap() + 1_000_000_000
    }

    fn wall_unix_us(&self) -> i64 {
        let elapsed_us = i64::try_from(self.began.elapsed().as_micros()).unwrap();
        (BEGAN_UNIX_MS + self.wall_off_ms.load(Relaxed)) * 1000 + elapsed_us
    }
}
