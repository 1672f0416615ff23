//! Access of tools to a claim store: which store, its reads and writes, and how long a record is silent.
//!
//! A tool works step by step, and each call of the store has a deadline of its own. A write whose answer was lost is
//! sent again unchanged. It names the record that it replaces, so it takes effect at most once, and the record found
//! afterwards shows whether it did.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use getid_core::claim::{ClaimSnapshot, Clocks, Watch};
use tokio::runtime::Runtime;

use super::claim::unusable_record;
use super::output::print_error;
use super::server_args::TIMEOUT_MS_DEFAULT;
use super::state::texts::duration;
use getid_config::{Config, Sources, read_store_password};
use getid_engine::claim::RecordError;
use getid_engine::claim::fleet::{ClaimRecord, ClusterRecord};
use getid_server::config_files::RealFiles;
use getid_server::state_dir::Dir;
#[cfg(feature = "fleet")]
use getid_store::records::etcd::EtcdStore;
use getid_store::records::{
    CLAIMS, DamagedRow, Key, LIST_MAX, RecordPage, RecordRow, RecordStore, RecordStoreError, Stamp, WriteResult,
};
use getid_system::clock::{Clock as _, SystemClock};
use getid_system::io_threads;
use getid_text::printable::printable;
use getid_text::store_url::{StoreKind, StoreUrl};

/// Help text about the options that name a claim store.
pub(super) const CLAIM_STORE_HELP: &str = "\
The claim store is named by --store: etcd://HOST,HOST/PREFIX, postgres://USER@HOST/DATABASE?password-file=PATH or
mysql://... Without it, it is that of a server with the same configuration (--config FILE) and environment
(GETID_CLAIM_STORE). A password in a command line shows in `ps`; password-file=PATH, a file and the environment do not.";

/// Largest number of attempts of a write whose answer was lost, and the pause between them.
const WRITES_MAX: u32 = 4;
const WRITE_PAUSE: Duration = Duration::from_millis(300);

/// Pause between two looks at watched records.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// Time-out above which a watch is announced on standard error first, ms.
const WATCH_ANNOUNCE_MS: u64 = 3000;

/// Time that a watch may take in addition to the time-outs. Time in which the store does not answer does not count as
/// silence.
const WATCH_GRACE: Duration = Duration::from_secs(15);

/// Largest number of watched records that are read one by one; more are listed.
const WATCHED_ONE_BY_ONE_MAX: usize = 8;

/// Longest time-out accepted from a record, ms: the maximum of the directive.
pub(super) const TIMEOUT_MS_MAX: u64 = 600_000;

/// Flags that select a claim store.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Claim store")]
pub(super) struct ClaimStoreArgs {
    /// Address of the claim store [default: claim-store of the configuration]
    #[arg(long, value_name = "URL")]
    pub(super) store: Option<String>,
    /// The servers' configuration file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Milliseconds for each call of the store [default: 10000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(super) store_timeout_ms: Option<u64>,
}

impl ClaimStoreArgs {
    /// Returns the configuration of a server that starts with the same file and environment, and this store.
    pub(super) fn config(&self) -> Result<Config, String> {
        if let Some(url) = &self.store {
            parse_url("--store", url)?;
        }
        let words = self.store.iter().flat_map(|url| ["--claim-store".to_owned(), url.clone()]).collect();
        let sources =
            Sources { file: self.config.clone(), environment: std::env::vars_os().collect(), words, host_name: None };
        // Warnings are for the operator who starts the server.
        Config::load(&sources, &RealFiles).map(|(config, _)| config).map_err(|report| report.sentences())
    }

    /// Returns the selected store, without a request to it.
    pub(super) fn open(&self, config: &Config) -> Result<ClaimStore, String> {
        let url = config.claim.store.as_ref().ok_or(
            "no claim store is configured: claim-store is file; name one with --store etcd://..., postgres://... or \
             mysql://..., or with --config FILE",
        )?;
        open_url(url, config, self.deadline())
    }

    pub(super) fn deadline(&self) -> Duration {
        Duration::from_millis(self.store_timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT))
    }
}

/// Parses an address given with a flag.
pub(super) fn parse_url(flag: &str, url: &str) -> Result<StoreUrl, String> {
    StoreUrl::parse(url).map_err(|error| {
        let help = error.help().map(|help| format!(" ({help})"));
        format!("{flag}: {error}{}", help.unwrap_or_default())
    })
}

/// Opens the store of an address as a server with this configuration would.
pub(super) fn open_url(url: &StoreUrl, config: &Config, deadline: Duration) -> Result<ClaimStore, String> {
    let here = std::env::current_dir().map_err(|error| format!("the working folder: {error}"))?;
    let environment: Vec<_> = std::env::vars_os().collect();
    let dir = match Dir::find(config, &environment, &here) {
        Ok(dir) => dir.path,
        Err(report) if matches!(url.kind(), StoreKind::Sqlite { .. }) => return Err(report.sentences()),
        Err(_) => here,
    };
    let mut url = url.clone();
    read_store_password(&mut url, &RealFiles).map_err(|error| format!("'{}': {error}", url.shown()))?;
    url.resolve_paths(&dir);
    ClaimStore::new(open_record_store(&url, &dir, deadline)?, url.shown())
}

/// Returns the record store of this address, without a request to it. Each call ends within `deadline`.
///
/// # Errors
///
/// Fails if this program was built without support for such stores.
pub(in crate::cli) fn open_record_store(
    url: &StoreUrl,
    dir: &Path,
    deadline: Duration,
) -> Result<Arc<dyn RecordStore>, String> {
    match url.kind() {
        #[cfg(feature = "fleet")]
        StoreKind::Etcd(address) => Ok(Arc::new(EtcdStore::new(address, url.shown(), deadline))),
        #[cfg(not(feature = "fleet"))]
        StoreKind::Etcd(_) => {
            Err(format!("'{}' is etcd: this getid was built without the feature 'fleet'", url.shown()))
        }
        StoreKind::Sqlite { .. } | StoreKind::Mysql(_) | StoreKind::Postgres(_) => {
            getid_store::sql::open_records(url, dir, deadline).map_err(|error| error.to_string())
        }
    }
}

/// A claim store, and the runtime of its calls.
pub(super) struct ClaimStore {
    runtime: Runtime,
    store: Arc<dyn RecordStore>,
    /// The address in the servers' configuration, without a password. For a file it differs from the address of the
    /// records.
    shown: String,
}

/// A claim's row, and its record or why it cannot be used.
pub(super) type ClaimRead = (RecordRow, Result<ClaimRecord, RecordError>);

/// The state of a claim's key in a store.
pub(super) enum ClaimLookup {
    /// There is no row.
    Missing,
    /// There is a record.
    Claim(Box<ClaimRead>),
    /// There is a row that is no record.
    Unreadable(DamagedRow),
}

/// All claims of a store.
#[derive(Default)]
pub(super) struct Claims {
    /// Rows by server-id.
    pub(super) rows: BTreeMap<u32, RecordRow>,
    /// Rows that are no records.
    pub(super) bad: Vec<DamagedRow>,
}

impl Claims {
    /// Returns the server-ids that have a row, readable or not.
    pub(super) fn server_ids(&self) -> BTreeSet<u32> {
        self.rows.keys().copied().chain(self.bad.iter().filter_map(DamagedRow::server_id)).collect()
    }
}

/// Result of watching a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchOutcome {
    /// The record did not change for its whole time-out, ms.
    Silent(u64),
    /// The record was written; this is the new row.
    Written(Option<RecordRow>),
}

impl ClaimStore {
    pub(super) fn new(store: Arc<dyn RecordStore>, shown: &str) -> Result<ClaimStore, String> {
        let runtime = io_threads::blocking_runtime();
        let runtime = runtime.map_err(|error| format!("cannot wait for the network: {error}"))?;
        Ok(ClaimStore { runtime, store, shown: shown.to_owned() })
    }

    /// Returns the store's address without a password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn schema(&self) -> String {
        self.store.schema()
    }

    pub(super) fn read(&self, key: &Key) -> Result<Option<RecordRow>, String> {
        self.runtime.block_on(self.store.read(key)).map_err(|error| self.failed(&error))
    }

    /// Returns a sentence for each unsound property of the store.
    pub(super) fn warnings(&self) -> Result<Vec<String>, String> {
        let about = self.runtime.block_on(self.store.info()).map_err(|error| self.failed(&error))?;
        Ok(about.warnings)
    }

    /// Returns the record that all servers share; `None` if it was never made.
    pub(super) fn cluster(&self) -> Result<Option<(RecordRow, ClusterRecord)>, String> {
        let Some(row) = self.read(&Key::of_cluster())? else { return Ok(None) };
        let record = ClusterRecord::parse(row.text.as_bytes()).map_err(|error| {
            format!(
                "{}: cannot use the record 'cluster': {error}; restore it from a backup of the store, or delete it there \
                 and run `getid cluster init` with the configuration of the servers (the records of claims stay)",
                self.shown()
            )
        })?;
        Ok(Some((row, record)))
    }

    /// Reads the row of a server-id.
    pub(super) fn find(&self, server_id: u32) -> Result<ClaimLookup, String> {
        match self.runtime.block_on(self.store.read(&Key::of_claim(server_id))) {
            Ok(None) => Ok(ClaimLookup::Missing),
            Ok(Some(row)) => {
                let claim = ClaimRecord::of_row(&row, server_id);
                Ok(ClaimLookup::Claim(Box::new((row, claim))))
            }
            Err(RecordStoreError::Damaged(bad)) => Ok(ClaimLookup::Unreadable(*bad)),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Returns the claim of a server-id. Fails if its row is no record.
    pub(super) fn claim(&self, server_id: u32) -> Result<Option<ClaimRead>, String> {
        match self.find(server_id)? {
            ClaimLookup::Missing => Ok(None),
            ClaimLookup::Claim(claim) => Ok(Some(*claim)),
            ClaimLookup::Unreadable(bad) => Err(unusable_record(self, server_id, &bad)),
        }
    }

    /// Returns all claims, ascending.
    pub(super) fn claims(&self) -> Result<Claims, String> {
        let mut claims = Claims::default();
        let mut after = String::new();
        loop {
            let page = self.runtime.block_on(self.store.list(CLAIMS, &after, LIST_MAX));
            let RecordPage { rows, bad } = page.map_err(|error| self.failed(&error))?;
            claims.bad.extend(bad);
            let Some((last, _)) = rows.last() else { return Ok(claims) };
            last.as_str().clone_into(&mut after);
            claims.rows.extend(rows.into_iter().filter_map(|(key, row)| Some((key.server_id()?, row))));
        }
    }

    /// Returns the message about a row that is left out.
    pub(super) fn left_out(&self, bad: &DamagedRow) -> String {
        match bad.server_id() {
            Some(server_id) => unusable_record(self, server_id, bad),
            None => format!("{}: {}; it is left out: delete that row", self.shown(), printable(&bad.what)),
        }
    }

    /// Replaces a row that is no record by `new`. An unknown outcome is settled.
    pub(super) fn mend(&self, key: &Key, bad: &DamagedRow, new: &RecordRow) -> Result<bool, String> {
        let mended = self.runtime.block_on(self.store.mend(key, bad, new));
        match mended {
            Ok(done) => Ok(done),
            Err(RecordStoreError::Unknown(error)) => match self.runtime.block_on(self.store.read(key)) {
                Ok(Some(found)) if found.stamp == new.stamp => Ok(true),
                _ => Err(format!(
                    "{}: {error}. It is unknown whether {key} was written; run the command again once the store answers",
                    self.shown()
                )),
            },
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Writes `new` if the record has the stamp `expect`. An unknown outcome is settled.
    pub(super) fn write(&self, key: &Key, expect: Option<Stamp>, new: &RecordRow) -> Result<WriteResult, String> {
        let mut unknown: Option<RecordStoreError> = None;
        for _ in 0..WRITES_MAX {
            match self.runtime.block_on(self.store.write(key, expect, new)) {
                Ok(WriteResult::Conflict(Some(found))) if found.stamp == new.stamp => return Ok(WriteResult::Done),
                Ok(WriteResult::Conflict(found)) if unknown.is_some() => {
                    // The answer was lost, and another writer has written since: before this write, or after it.
                    let now = found.map_or_else(|| "gone".to_owned(), |found| format!("at {}", found.stamp));
                    return Err(format!(
                        "{}: another process wrote {key}, it is {now}; check it, then run the command again",
                        self.shown()
                    ));
                }
                Ok(written) => return Ok(written),
                Err(error @ RecordStoreError::Unknown(_)) => unknown = Some(error),
                Err(error) if unknown.is_none() => return Err(self.failed(&error)),
                Err(_) => {}
            }
            self.runtime.block_on(async { tokio::time::sleep(WRITE_PAUSE).await });
        }
        let error = unknown.map_or_else(String::new, |error| error.to_string());
        Err(format!(
            "{}: {error}. It is unknown whether {key} was written; run the command again once the store answers",
            self.shown()
        ))
    }

    /// Watches held claims, each until it is written or was silent for its time-out, ms.
    pub(super) fn watch(
        &self,
        claims: &BTreeMap<u32, (RecordRow, u64)>,
    ) -> Result<BTreeMap<u32, WatchOutcome>, String> {
        let longest_ms = claims.values().map(|(_, timeout_ms)| *timeout_ms).max().unwrap_or(0);
        if longest_ms > WATCH_ANNOUNCE_MS {
            print_error(&format!("watching for up to {}, the longest time-out", duration(longest_ms)));
        }
        self.runtime.block_on(self.watch_all(claims, Duration::from_millis(longest_ms) * 2 + WATCH_GRACE))
    }

    async fn watch_all(
        &self,
        claims: &BTreeMap<u32, (RecordRow, u64)>,
        at_most: Duration,
    ) -> Result<BTreeMap<u32, WatchOutcome>, String> {
        let clock = SystemClock::new();
        let began = clocks(clock);
        let watch = |row: &RecordRow, timeout_ms: u64| Watch::new(began, seen(row, timeout_ms));
        let mut left: BTreeMap<u32, Watch> =
            claims.iter().map(|(id, (row, timeout_ms))| (*id, watch(row, *timeout_ms))).collect();
        let mut done = BTreeMap::new();
        let mut failed = None;
        let ends = tokio::time::Instant::now() + at_most;
        while !left.is_empty() {
            if tokio::time::Instant::now() > ends {
                return Err(failed.unwrap_or_else(|| {
                    format!("{}: the store answers too slowly to determine whether a holder is silent", self.shown())
                }));
            }
            tokio::time::sleep(READ_PAUSE).await;
            let sent = clocks(clock);
            let found = match self.read_claims(&left).await {
                Ok(found) => found,
                Err(error) => {
                    failed = Some(self.failed(&error));
                    for watch in left.values_mut() {
                        watch.failed(sent);
                    }
                    continue;
                }
            };
            let now = clocks(clock);
            left.retain(|id, watch| {
                let row = found.get(id);
                let timeout_ms = watch.seen().timeout_ms;
                let Some(row) = row.filter(|row| row.stamp == watch.stamp()) else {
                    done.insert(*id, WatchOutcome::Written(row.cloned()));
                    return false;
                };
                watch.saw(sent, now, seen(row, timeout_ms));
                if watch.is_silent() {
                    done.insert(*id, WatchOutcome::Silent(timeout_ms));
                }
                !watch.is_silent()
            });
        }
        Ok(done)
    }

    /// Returns the current records of these claims.
    async fn read_claims(&self, claims: &BTreeMap<u32, Watch>) -> Result<BTreeMap<u32, RecordRow>, RecordStoreError> {
        let mut found = BTreeMap::new();
        if claims.len() <= WATCHED_ONE_BY_ONE_MAX {
            for &server_id in claims.keys() {
                let row = self.store.read(&Key::of_claim(server_id)).await?;
                found.extend(row.map(|row| (server_id, row)));
            }
            return Ok(found);
        }
        let mut after = String::new();
        loop {
            let page = self.store.list(CLAIMS, &after, LIST_MAX).await?;
            let Some((last, _)) = page.rows.last() else { return Ok(found) };
            last.as_str().clone_into(&mut after);
            found.extend(page.rows.into_iter().filter_map(|(key, row)| Some((key.server_id()?, row))));
        }
    }

    fn failed(&self, error: &RecordStoreError) -> String {
        format!("{}: {error}", self.shown())
    }
}

/// Returns a stamp that no other write has.
pub(super) fn new_stamp(beat: u64) -> Stamp {
    Stamp { writer: rand::random::<u128>().max(1), beat: beat.min(Stamp::BEAT_MAX) }
}

fn clocks(clock: SystemClock) -> Clocks {
    Clocks { boot_ns: clock.boot_ns(), raw_ns: clock.raw_ns(), wall_ms: clock.wall_unix_ms() }
}

/// Returns a record as a watch sees it: only its stamp and its time-out matter.
fn seen(row: &RecordRow, timeout_ms: u64) -> ClaimSnapshot {
    let (holder, point) = (Some(row.stamp.writer), getid_core::SavePoint::NOTHING);
    ClaimSnapshot { stamp: row.stamp, holder, timeout_ms, point, is_this_folder: false, is_moved: false }
}

/// Helpers of the tools' tests: a store in memory with claims in it, and holders that beat.
#[cfg(test)]
pub(super) mod testing {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use clap::FromArgMatches;
    use getid_core::{Layout, SavePoint};

    use super::*;
    use crate::cli::sequence::ToolError;
    use getid_engine::claim::Identity;
    use getid_engine::claim::fleet::{ClaimHolder, Holding, IdRanges};
    use getid_store::records::memory::MemoryStore;

    /// Time of these tests, 2026-11-21T00:00:00Z, in Unix ms.
    pub(in crate::cli) const NOW: i64 = 1_795_219_200_000;

    /// The instance of the holder in [`held`].
    pub(in crate::cli) const HOLDER: u128 = 0x1234;

    /// Parses these words as the arguments of a tool.
    pub(in crate::cli) fn parse_args<A: Args + FromArgMatches>(words: &str) -> Result<A, String> {
        let command = A::augment_args(clap::Command::new("tool"));
        let matches = command.try_get_matches_from(std::iter::once("tool").chain(words.split_whitespace()));
        matches.and_then(|matches| A::from_arg_matches(&matches)).map_err(|error| error.to_string())
    }

    /// Returns a store with the record of a fleet of four server-ids, of which `auto` may take 3.
    pub(in crate::cli) fn fleet() -> (Arc<MemoryStore>, ClaimStore) {
        let (memory, store) = empty();
        let record = ClusterRecord::new(Layout::default(), IdRanges::parse("3").unwrap());
        memory.set(Key::of_cluster(), Some(record.to_row(new_stamp(1)).unwrap()));
        (memory, store)
    }

    pub(in crate::cli) fn empty() -> (Arc<MemoryStore>, ClaimStore) {
        let memory = Arc::new(MemoryStore::default());
        (Arc::clone(&memory), ClaimStore::new(memory, "memory").unwrap())
    }

    /// Returns a free claim with a watermark 2.5 s ahead of [`NOW`].
    pub(in crate::cli) fn free(server_id: u32) -> ClaimRecord {
        let layout = Layout::default();
        let tick = |ms| layout.epoch().tick_at(NOW + ms).unwrap();
        let mut claim = ClaimRecord::new(Identity { server_id, layout }, 20, NOW);
        claim.record.point = SavePoint { watermark: tick(2500), reference: tick(0), max_borrow_ms: 3000 };
        claim.beat = 7;
        claim
    }

    /// Returns a claim as of [`free`], held by host-a, with a time-out of 20 ms.
    pub(in crate::cli) fn held(server_id: u32) -> ClaimRecord {
        let holder = ClaimHolder {
            instance: HOLDER,
            name: "host-a".to_owned(),
            host: "a.example".to_owned(),
            address: "10.1.0.7:7890".to_owned(),
            since_unix_ms: NOW - 60_000,
            ..ClaimHolder::default()
        };
        ClaimRecord { holding: Holding::Held(holder), ..free(server_id) }
    }

    /// Puts a claim into the store.
    pub(in crate::cli) fn put(memory: &MemoryStore, claim: &ClaimRecord) {
        memory.set(Key::of_claim(claim.record.identity.server_id), Some(row_of(claim)));
    }

    fn row_of(claim: &ClaimRecord) -> RecordRow {
        let writer = claim.holder().map_or(1, |holder| holder.instance);
        claim.to_row(writer).unwrap()
    }

    /// Returns a server-id's claim in the store.
    #[track_caller]
    pub(in crate::cli) fn stored_claim(memory: &MemoryStore, server_id: u32) -> ClaimRecord {
        let row = memory.get(&Key::of_claim(server_id)).expect("a record");
        ClaimRecord::of_row(&row, server_id).expect("a readable claim")
    }

    /// A thread that beats as the claim's holder until this value is dropped.
    pub(in crate::cli) struct BeatThread(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

    impl BeatThread {
        pub(in crate::cli) fn of(memory: &Arc<MemoryStore>, mut claim: ClaimRecord) -> BeatThread {
            // With the longest time-out, a slow thread never counts as silent. After its end the short time-out applies
            // again.
            let timeout_ms = std::mem::replace(&mut claim.timeout_ms, TIMEOUT_MS_MAX);
            put(memory, &claim);
            let ends = Arc::new(AtomicBool::new(false));
            let (memory, end) = (Arc::clone(memory), Arc::clone(&ends));
            let thread = thread::spawn(move || {
                loop {
                    let ends = end.load(Relaxed);
                    let expect = row_of(&claim).stamp;
                    claim.beat += 1;
                    if ends {
                        claim.timeout_ms = timeout_ms;
                    }
                    let key = Key::of_claim(claim.record.identity.server_id);
                    if memory.write_now(&key, Some(expect), &row_of(&claim)) != WriteResult::Done || ends {
                        return;
                    }
                    thread::sleep(Duration::from_millis(2));
                }
            });
            BeatThread(ends, Some(thread))
        }
    }

    impl Drop for BeatThread {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
            self.1.take().map(thread::JoinHandle::join);
        }
    }

    /// Returns what a tool printed, or the error with which it ended.
    pub(in crate::cli) fn output_of(
        work: impl FnOnce(&mut dyn std::io::Write) -> Result<(), ToolError>,
    ) -> Result<String, String> {
        let mut out = Vec::new();
        let result = work(&mut out);
        let text = String::from_utf8(out).unwrap();
        match result {
            Ok(()) => Ok(text),
            Err(ToolError::Negative(error) | ToolError::Failed(error)) => Err(text + &error),
            Err(ToolError::Print(error)) => panic!("{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::testing::*;
    use super::*;
    use getid_store::records::memory::MemoryStore;
    use getid_store::records::{RecordFuture, RecordStoreInfo};

    /// A store that loses the answers of writes, both of writes that took effect and of writes that did not.
    struct LossyStore {
        store: Arc<MemoryStore>,
        writes: AtomicU32,
        lost: u32,
        takes_effect: bool,
    }

    impl RecordStore for LossyStore {
        fn shown(&self) -> &'static str {
            "lossy"
        }
        fn read<'a>(&'a self, key: &'a Key) -> RecordFuture<'a, Option<RecordRow>> {
            self.store.read(key)
        }
        fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> RecordFuture<'a, RecordPage> {
            self.store.list(prefix, after, limit)
        }
        fn mend<'a>(&'a self, key: &'a Key, bad: &'a DamagedRow, new: &'a RecordRow) -> RecordFuture<'a, bool> {
            self.store.mend(key, bad, new)
        }
        fn write<'a>(
            &'a self,
            key: &'a Key,
            expect: Option<Stamp>,
            new: &'a RecordRow,
        ) -> RecordFuture<'a, WriteResult> {
            Box::pin(async move {
                let is_lost = self.writes.fetch_add(1, Relaxed) < self.lost;
                if !is_lost || self.takes_effect {
                    let written = self.store.write_now(key, expect, new);
                    if !is_lost {
                        return Ok(written);
                    }
                }
                Err(RecordStoreError::Unknown("no answer".to_owned()))
            })
        }
        fn info(&self) -> RecordFuture<'_, RecordStoreInfo> {
            self.store.info()
        }
    }

    fn lossy(lost: u32, takes_effect: bool) -> (Arc<MemoryStore>, ClaimStore) {
        let store = Arc::new(MemoryStore::default());
        put(&store, &free(1));
        let lossy = LossyStore { store: Arc::clone(&store), writes: AtomicU32::new(0), lost, takes_effect };
        // Pauses between attempts take no real time.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        (store, ClaimStore { runtime, store: Arc::new(lossy), shown: "lossy".to_owned() })
    }

    /// A write whose answer is lost takes effect once, whether the first attempt did or not.
    #[test]
    fn a_lost_answer_is_settled() {
        let key = Key::of_claim(1);
        for takes_effect in [true, false] {
            let (memory, store) = lossy(2, takes_effect);
            let expect = memory.get(&key).map(|row| row.stamp);
            let mut next = free(1);
            next.beat += 1;
            let new = next.to_row(99).unwrap();
            assert_eq!(store.write(&key, expect, &new), Ok(WriteResult::Done));
            assert_eq!(memory.get(&key), Some(new), "{takes_effect}");
        }
        let (memory, store) = lossy(u32::MAX, false);
        let expect = memory.get(&key).map(|row| row.stamp);
        let error = store.write(&key, expect, &held(1).to_row(HOLDER).unwrap()).unwrap_err();
        assert_eq!(
            error,
            "lossy: no answer. It is unknown whether claim/1 was written; run the command again once the store answers"
        );
    }

    /// After a lost answer another writer's record makes the outcome unknown.
    #[test]
    fn a_lost_answer_that_cannot_be_settled() {
        let key = Key::of_claim(1);
        let (memory, store) = lossy(1, false);
        let mut other = free(1);
        other.beat = 20;
        put(&memory, &other);
        let error = store.write(&key, None, &held(1).to_row(HOLDER).unwrap()).unwrap_err();
        assert!(error.contains("another process wrote claim/1, it is at beat 20 of"), "{error}");
    }

    #[test]
    fn many_claims_are_watched_concurrently() {
        let (memory, store) = fleet();
        let beats = BeatThread::of(&memory, held(0));
        let mut watched = BTreeMap::from([(0, (memory.get(&Key::of_claim(0)).unwrap(), TIMEOUT_MS_MAX))]);
        // More than are read one by one, so they are listed.
        for server_id in 1..30 {
            let layout = getid_core::Layout::new(getid_core::Epoch::DEFAULT, 5, 6, 10).unwrap();
            let mut claim = held(0);
            claim.record.identity = getid_engine::claim::Identity { server_id, layout };
            put(&memory, &claim);
            watched.insert(server_id, (memory.get(&Key::of_claim(server_id)).unwrap(), 20));
        }
        memory.set(Key::of_claim(29), None);
        let found = store.watch(&watched).unwrap();
        drop(beats);
        assert!(matches!(found[&0], WatchOutcome::Written(Some(_))));
        assert_eq!(found[&29], WatchOutcome::Written(None));
        assert!((1..29).all(|id| found[&id] == WatchOutcome::Silent(20)));
    }
}
