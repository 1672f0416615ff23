//! How many beats does a claim store take, and how late are they?
//!
//! Each server has a claim and its own connection. Like a holder, it writes its record repeatedly, each time by a
//! compare with its last write. Beats are due at equal distances, and those of the servers are spread over the
//! interval. A beat counts from its due time, whatever the state of the previous one. Without a rate, each server
//! writes as soon as it has the last answer.
//!
//! This does not measure the reads of standbys (ten a second each), or a store during a failover.
//!
//! `cargo build --profile dist --example claims`, then `claims URL SERVERS BEATS_PER_SECOND SECONDS`; 0 a second means
//! as fast as possible. It prints one line of JSON. `benches/claims` starts an etcd, runs this, and measures its CPU
//! time.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use getid_store::records::etcd::EtcdStore;
use getid_store::records::{Key, RecordRow, RecordStore, RecordStoreError, Stamp, WriteResult};
use getid_text::store_url::{StoreKind, StoreUrl};
use hdrhistogram::Histogram;
use tokio::time::{Instant, sleep_until};

/// Length of a claim's record with a few named generators, bytes.
const TEXT_BYTES: usize = 600;

/// Deadline of a call: longer than any beat of a measurement takes.
const DEADLINE: Duration = Duration::from_secs(30);

/// The load of each server.
#[derive(Clone, Copy)]
struct Load {
    begins: Instant,
    ends: Instant,
    /// Time between two beats of a server.
    every: Option<Duration>,
}

struct Tally {
    latencies_us: Histogram<u64>,
    ended: Instant,
}

/// Returns a histogram for every possible latency of a call.
fn histogram() -> Result<Histogram<u64>, String> {
    Histogram::new_with_max(10 * 60 * 1_000_000, 3).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match measure(&words) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("claims: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(words: &[String]) -> Result<String, String> {
    let [url, servers, rate, seconds] = words else {
        return Err("expected: URL SERVERS BEATS_PER_SECOND SECONDS".to_owned());
    };
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("{text}: {error}"));
    let (servers, rate, seconds) = (number(servers)?.max(1), number(rate)?, number(seconds)?.max(1));
    let url = StoreUrl::parse(url).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let (begins, tallies) = runtime.block_on(async {
        let stores = (0..servers).map(|_| open(&url)).collect::<Result<Vec<_>, _>>()?;
        // All servers are connected, and have their claims, before the measurement.
        let mut stamps = Vec::new();
        for (server, store) in (0..).zip(&stores) {
            stamps.push(take(store.as_ref(), server).await.map_err(|error| error.to_string())?);
        }
        let begins = Instant::now() + Duration::from_millis(200);
        let every = (rate > 0).then(|| Duration::from_secs(1) * servers / rate);
        let load = Load { begins, ends: begins + Duration::from_secs(seconds.into()), every };
        let holders = (0..).zip(stores).zip(stamps).map(|((server, store), stamp)| {
            let offset = every.map_or(Duration::ZERO, |every| every * server / servers);
            tokio::spawn(hold(store, server, stamp, Load { begins: load.begins + offset, ..load }))
        });
        let holders: Vec<_> = holders.collect();
        let mut tallies = Vec::new();
        for holder in holders {
            let tally = holder.await.map_err(|error| error.to_string())?;
            tallies.push(tally.map_err(|error| error.to_string())?);
        }
        Ok::<_, String>((begins, tallies))
    })?;
    // Late beats are done after the end.
    let ended = tallies.iter().map(|tally| tally.ended).max().unwrap_or(begins);
    let took = ended.saturating_duration_since(begins).as_secs_f64();
    let mut all = histogram()?;
    for tally in &tallies {
        all.add(&tally.latencies_us).map_err(|error| error.to_string())?;
    }
    let at = |share: f64| all.value_at_quantile(share);
    Ok(serde_json::json!({
        "servers": servers, "seconds": seconds, "beats": all.len(),
        "took_seconds": took,
        "p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999), "max_us": all.max(),
    })
    .to_string())
}

fn open(url: &StoreUrl) -> Result<Arc<dyn RecordStore>, String> {
    match url.kind() {
        StoreKind::Etcd(address) => Ok(Arc::new(EtcdStore::new(address, url.shown(), DEADLINE))),
        _ => {
            getid_store::sql::open_records(url, std::path::Path::new("."), DEADLINE).map_err(|error| error.to_string())
        }
    }
}

fn row(server: u32, beat: u64) -> RecordRow {
    RecordRow { stamp: Stamp { writer: u128::from(server) + 1, beat }, text: "x".repeat(TEXT_BYTES) }
}

/// Writes the first record of a server, whatever the store contains.
async fn take(store: &dyn RecordStore, server: u32) -> Result<Stamp, RecordStoreError> {
    let key = Key::of_claim(server);
    let mut found = store.read(&key).await?.map(|row| row.stamp);
    loop {
        let new = row(server, found.map_or(1, |stamp| stamp.beat + 1));
        match store.write(&key, found, &new).await? {
            WriteResult::Done => return Ok(new.stamp),
            WriteResult::Conflict(now) => found = now.map(|row| row.stamp),
        }
    }
}

async fn hold(
    store: Arc<dyn RecordStore>,
    server: u32,
    mut stamp: Stamp,
    load: Load,
) -> Result<Tally, RecordStoreError> {
    let key = Key::of_claim(server);
    let failed = |error: String| RecordStoreError::Refused(error);
    let mut latencies_us = histogram().map_err(failed)?;
    let mut due = load.begins;
    while due < load.ends {
        sleep_until(due).await;
        let new = row(server, stamp.beat + 1);
        match store.write(&key, Some(stamp), &new).await? {
            WriteResult::Done => stamp = new.stamp,
            WriteResult::Conflict(found) => return Err(failed(format!("{key} was somebody else's: {found:?}"))),
        }
        let us = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
        latencies_us.saturating_record(us);
        due = load.every.map_or_else(Instant::now, |every| due + every);
    }
    Ok(Tally { latencies_us, ended: Instant::now() })
}
