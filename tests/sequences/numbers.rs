//! Numbers without gaps in a SQLite file, by many clients at once, over restarts and a restored backup.
//!
//! `GETID_NUMBER_PAIRS` sets how many numbers each client reserves and commits, and `GETID_NUMBER_STORE` the address of
//! an empty store. The rate is printed: `cargo test --release --test sequences -- --nocapture many_clients`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use getid_core::server::ledger::{LedgerQuery, NumberAct, NumberAnswer, NumberRefusal, NumberRequest, NumberState};
use getid_core::server::{CivilTime, CounterDeclaration, Key};
use getid_engine::generators::sequence::{CounterOpening, NumberError, SequenceNotes, SequenceSettings, Sequences};
use getid_store::sql::{Store, TableKind, open};
use getid_system::clock::SystemClock;
use getid_text::store_url::StoreUrl;

use crate::support;

const CLIENTS: usize = 100;

fn store(path: &Path) -> Box<dyn Store> {
    let url = StoreUrl::parse(&format!("sqlite:{}", path.display())).unwrap();
    open(&url, TableKind::Native, Path::new("."), 0).unwrap()
}

/// Starts a server with its notes in this folder.
fn start(dir: &Path, files: &[&str]) -> Arc<Sequences> {
    start_with(dir, files.iter().map(|file| store(&dir.join(file))).collect())
}

fn start_with(dir: &Path, stores: Vec<Box<dyn Store>>) -> Arc<Sequences> {
    let settings = SequenceSettings { wait_ms: 60_000, ..SequenceSettings::default() };
    let notes = SequenceNotes::in_file(dir.join("notes.sqlite"));
    Sequences::start(stores, settings, notes, Box::new(SystemClock::new())).unwrap()
}

fn declared(name: &str) -> Arc<CounterDeclaration> {
    let words = [name, "serial", "R-{n:6}", "gapless"];
    Arc::new(CounterDeclaration::parse(&words, |_| Ok(())).unwrap().unwrap())
}

fn opening(declaration: &CounterDeclaration) -> CounterOpening {
    let getid_core::server::CounterKind::Serial(serial) = declaration.kind() else { panic!("a serial") };
    CounterOpening {
        spec: serial.spec(),
        declaration: declaration.shared_text().into(),
        reset: declaration.reset(),
        is_serial: true,
        from_unix_ms: i64::MIN,
        until_unix_ms: i64::MAX,
        series: None,
    }
}

async fn send(sequences: &Sequences, request: &str, act: NumberAct) -> Result<NumberAnswer, NumberError> {
    send_to(sequences, "i", request, act).await
}

async fn send_to(
    sequences: &Sequences,
    name: &str,
    request: &str,
    act: NumberAct,
) -> Result<NumberAnswer, NumberError> {
    let declaration = declared(name);
    let ask = NumberRequest {
        key: Key::new(name).unwrap(),
        declaration: Arc::clone(&declaration),
        stamp: CivilTime::FIRST,
        user: "default".to_owned(),
        is_admin: true,
        request: request.to_owned(),
        act,
    };
    sequences.number(ask, opening(&declaration)).await
}

const RESERVE: NumberAct = NumberAct::Reserve { due_s: 60, commits: false };

async fn text(sequences: &Sequences, request: &str) -> String {
    send(sequences, request, RESERVE).await.unwrap().text
}

/// Returns the numbers and the state of each row.
async fn states(sequences: &Arc<Sequences>) -> Vec<(i64, i64, NumberState)> {
    states_of(sequences, "i").await
}

async fn states_of(sequences: &Arc<Sequences>, name: &str) -> Vec<(i64, i64, NumberState)> {
    let mut query = LedgerQuery { name: name.to_owned(), limit: 1000, ..LedgerQuery::default() };
    let mut states = Vec::new();
    loop {
        let page = sequences.ledger(query.clone()).await.unwrap();
        states.extend(page.rows.iter().map(|row| (row.number, row.last, row.state)));
        let Some(next) = page.next else { return states };
        query.after = next;
    }
}

async fn stop(sequences: Arc<Sequences>) {
    sequences.stop(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_have_numbers_without_gaps() {
    let dir = support::folder();
    let pairs: usize = std::env::var("GETID_NUMBER_PAIRS").map_or(4, |pairs| pairs.parse().unwrap());
    let sequences = match std::env::var("GETID_NUMBER_STORE") {
        Ok(url) => {
            let store = open(&StoreUrl::parse(&url).unwrap(), TableKind::Native, Path::new("."), 0).unwrap();
            start_with(dir.path(), vec![store])
        }
        Err(_) => start(dir.path(), &["a.sqlite"]),
    };
    // The store is open, and the counter begun.
    send(&sequences, "first", NumberAct::Reserve { due_s: 60, commits: true }).await.unwrap();
    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let sequences = Arc::clone(&sequences);
            tokio::spawn(async move {
                let mut texts = Vec::new();
                for n in 0..pairs {
                    let request = format!("{client}-{n}");
                    texts.push(text(&sequences, &request).await);
                    send(&sequences, &request, NumberAct::Commit).await.unwrap();
                }
                let request = format!("{client}-released");
                text(&sequences, &request).await;
                send(&sequences, &request, NumberAct::Release).await.unwrap();
                texts
            })
        })
        .collect();
    let mut committed = BTreeSet::new();
    for client in clients {
        for text in client.await.unwrap() {
            assert!(committed.insert(text.clone()), "{text} twice");
        }
    }
    println!("{} numbers reserved and committed in {:?}, by {CLIENTS} clients", committed.len(), began.elapsed());
    let rows = states(&sequences).await;
    let numbers: Vec<i64> = rows.iter().map(|row| row.0).collect();
    assert_eq!(numbers, (1..=i64::try_from(rows.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(rows.iter().filter(|row| row.2 == NumberState::Committed).count(), CLIENTS * pairs + 1);
    let counts = sequences.ledger_counts("i").await.unwrap();
    assert_eq!(counts.released, (rows.len() - CLIENTS * pairs - 1) as u64);
    stop(sequences).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_hands_out_no_number_again() {
    use NumberState::{Committed, Reserved, Unclear};
    let dir = support::folder();
    let sequences = start(dir.path(), &["a.sqlite"]);
    for request in ["a", "b", "c"] {
        text(&sequences, request).await;
    }
    send(&sequences, "a", NumberAct::Commit).await.unwrap();
    send(&sequences, "b", NumberAct::Release).await.unwrap();
    sequences.backup(dir.path(), "copy.sqlite").await.unwrap();
    assert_eq!([text(&sequences, "d").await, text(&sequences, "e").await], ["R-000002", "R-000004"]);
    stop(sequences).await;
    let sequences = start(dir.path(), &["a.sqlite"]);
    assert_eq!(text(&sequences, "d").await, "R-000002", "a restart changes nothing");
    stop(sequences).await;
    std::fs::rename(dir.path().join("copy.sqlite"), dir.path().join("a.sqlite")).unwrap();
    let sequences = start(dir.path(), &["a.sqlite"]);
    assert_eq!(text(&sequences, "f").await, "R-000005");
    let expected = [(1, 1, Committed), (2, 2, Unclear), (3, 3, Unclear), (4, 4, Unclear), (5, 5, Reserved)];
    assert_eq!(states(&sequences).await, expected);
    let refused = send(&sequences, "c", NumberAct::Commit).await.unwrap_err();
    let unclear = NumberRefusal::Settled { text: "R-000003".to_owned(), state: Unclear };
    assert_eq!(refused, NumberError::Refused(unclear));
    let settle =
        NumberAct::Settle { text: "R-000004".to_owned(), commits: true, reason: "the invoice was sent".to_owned() };
    assert_eq!(send(&sequences, "", settle).await.unwrap().state, Committed);
    stop(sequences).await;
}

/// A request of another generator completes a ledger that gets none.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_completes_the_ledgers_of_quiet_counters() {
    use NumberState::Unclear;
    let dir = support::folder();
    let sequences = start(dir.path(), &["a.sqlite"]);
    for request in ["a", "b"] {
        send_to(&sequences, "quiet", request, RESERVE).await.unwrap();
    }
    text(&sequences, "a").await;
    sequences.backup(dir.path(), "copy.sqlite").await.unwrap();
    send_to(&sequences, "quiet", "c", RESERVE).await.unwrap();
    stop(sequences).await;
    std::fs::rename(dir.path().join("copy.sqlite"), dir.path().join("a.sqlite")).unwrap();
    let sequences = start(dir.path(), &["a.sqlite"]);
    assert_eq!(text(&sequences, "b").await, "R-000002");
    let expected = [(1, 1, Unclear), (2, 2, Unclear), (3, 3, Unclear)];
    for _ in 0..6_000 {
        if states_of(&sequences, "quiet").await == expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(states_of(&sequences, "quiet").await, expected);
    stop(sequences).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_whose_row_is_lost_continues_above_a_raise() {
    use NumberState::{Reserved, Void};
    let dir = support::folder();
    let sequences = start(dir.path(), &["a.sqlite"]);
    assert_eq!([text(&sequences, "a").await, text(&sequences, "b").await], ["R-000001", "R-000002"]);
    stop(sequences).await;
    let file = rusqlite::Connection::open(dir.path().join("a.sqlite")).unwrap();
    file.execute("DELETE FROM getid_sequence", []).unwrap();
    drop(file);
    let sequences = start(dir.path(), &["a.sqlite"]);
    let refused = send(&sequences, "c", RESERVE).await.unwrap_err().of("i", "c");
    assert!(refused.contains("SEQUENCE RAISE i N"), "{refused}");
    let raise = |last| NumberAct::Raise { last, reason: "moved".to_owned() };
    let lower = send(&sequences, "", raise(1)).await.unwrap_err();
    assert_eq!(lower, NumberError::Refused(NumberRefusal::Lower { last: 2 }));
    let marked = send(&sequences, "c", RESERVE).await.unwrap_err().of("i", "c");
    assert!(marked.contains("SEQUENCE RAISE"), "{marked}");
    send(&sequences, "", raise(9)).await.unwrap();
    assert_eq!(text(&sequences, "c").await, "R-000010");
    assert_eq!(states(&sequences).await, [(1, 1, Reserved), (2, 2, Reserved), (3, 9, Void), (10, 10, Reserved)]);
    stop(sequences).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_store_keeps_a_ledger() {
    let dir = support::folder();
    let sequences = start(dir.path(), &["a.sqlite", "b.sqlite"]);
    let refused = send(&sequences, "a", RESERVE).await.unwrap_err();
    assert!(matches!(&refused, NumberError::Unsupported(why) if why.contains("2 sequence-stores")), "{refused:?}");
    stop(sequences).await;
}
