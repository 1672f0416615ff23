//! Tests of getid's own tables on a database server that is killed, paused, cut off or locked: named scenarios, each in
//! an empty database of one server.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use getid_store::sql::{StoreError, TableKind};

use crate::db::{Creation, Db, ask, create, creation, db, is_over_time, range, store};
use crate::support::backend::{SqlBackend, while_locked};
use crate::support::scenarios::{scenarios, selected_scenarios};
use crate::support::{PATIENCE, eventually};

type Scenario = fn(&mut dyn SqlBackend);

const SCENARIOS: &[(&str, Scenario)] = scenarios![
    Scenario;
    killed_under_load,
    the_reply_to_a_commit_is_lost,
    a_request_is_lost,
    it_stands_still,
    a_statement_that_was_let_go,
    a_session_that_is_ended,
    a_row_that_another_transaction_has_locked,
    the_tables_are_made_once,
];

/// Runs all scenarios on a database server.
pub(crate) fn check_all(server: &mut dyn SqlBackend) {
    for scenario in selected_scenarios(&server.url(), SCENARIOS) {
        server.clear();
        scenario(server);
    }
}

/// The values that all clients of a test reserved, each value once.
#[derive(Default)]
pub(crate) struct GivenRanges {
    pub(crate) values: Mutex<BTreeSet<i64>>,
}

impl GivenRanges {
    #[track_caller]
    pub(crate) fn add(&self, first: i64, last: i64) {
        self.add_all(first..=last);
    }

    #[track_caller]
    pub(crate) fn add_all(&self, mut new: impl Iterator<Item = i64>) {
        let mut values = self.values.lock().unwrap();
        let twice = new.find(|value| !values.insert(*value));
        assert_eq!(twice, None, "it was given before");
    }

    pub(crate) fn max(&self) -> i64 {
        self.values.lock().unwrap().last().copied().unwrap_or(0)
    }

    pub(crate) fn count(&self) -> usize {
        self.values.lock().unwrap().len()
    }
}

/// Reserves three values at a time until `stop`, and reconnects after each unknown outcome. Returns the number of
/// unknown outcomes.
fn works_through(url: &str, given: &GivenRanges, stop: &AtomicBool) -> u32 {
    let mut unknown = 0;
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut db) = Db::of(&*store(url, TableKind::Native)) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            match db.try_reserve(&[ask("orders", 3)]) {
                Ok(answers) => {
                    let (first, last) = range(answers[0].as_ref().unwrap());
                    given.add(first, last);
                }
                Err(StoreError::Unknown(_)) => {
                    unknown += 1;
                    break;
                }
                Err(error) if is_over_time(&error) => {}
                Err(StoreError::Refused(message) | StoreError::Locked(message)) => panic!("{message}"),
            }
        }
    }
    unknown
}

fn killed_under_load(server: &mut dyn SqlBackend) {
    let url = server.url();
    db(&url).create("orders", "");
    let (given, stop) = (GivenRanges::default(), AtomicBool::new(false));
    let lost = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| works_through(&url, &given, &stop))).collect();
        for round in 0..2 {
            let before = given.max();
            eventually("values under load", || given.max() > before + 300);
            server.kill();
            let at_end = given.max();
            server.start_again();
            let next = next_of_orders(server);
            assert!(next > at_end, "round {round}: {at_end} was given, and the row is at {next}");
        }
        let before = given.max();
        eventually("values after the last start", || given.max() > before + 300);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>()
    });
    assert!(lost >= 2, "each kill cut statements: {lost}");
    // Missing values belong to statements with an unknown outcome: at most one reservation each.
    let missing = given.max() - i64::try_from(given.count()).unwrap();
    assert!(missing <= i64::from(lost) * 3, "{missing} values are missing after {lost} unknown outcomes");
}

fn next_of_orders(server: &dyn SqlBackend) -> i64 {
    server.sql("SELECT next FROM getid_sequence WHERE name = 'orders'").parse().unwrap()
}

/// The database commits, but the reply is lost.
fn the_reply_to_a_commit_is_lost(server: &mut dyn SqlBackend) {
    db(&server.url()).create("orders", "");
    let (proxy, url) = server.proxy();
    let given = GivenRanges::default();
    for round in 1..=3 {
        let mut client = db(&url);
        let answers = client.try_reserve(&[ask("orders", 10)]).unwrap();
        let (first, last) = range(answers[0].as_ref().unwrap());
        given.add(first, last);
        let version = answers[0].as_ref().unwrap().row.version;
        proxy.drop_replies(true);
        let error = client.try_reserve(&[ask("orders", 10)]).unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
        assert_eq!(proxy.dropped(), round, "it was a reply that got lost");
        proxy.drop_replies(false);
        let error = client.try_reserve(&[ask("orders", 10)]).unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "the connection is used no more: {error:?}");
        // The whole packet has one reply, so the reply comes after the COMMIT.
        assert_eq!(next_of_orders(server), last + 11, "the statement without a reply was committed");
        let got = db(&url).reserve("orders", 10).unwrap();
        assert_eq!((got.first, got.row.version), (last + 11, version + 2), "and is not given again");
        given.add(got.first, got.last);
        // The rest of an earlier reservation is not taken back, because its version is old.
        assert!(!db(&server.url()).give_back(&answers[0].as_ref().unwrap().row, first + 5));
    }
}

/// The request is lost, which a client cannot distinguish from a lost reply.
fn a_request_is_lost(server: &mut dyn SqlBackend) {
    db(&server.url()).create("orders", "");
    let (proxy, url) = server.proxy();
    let mut client = db(&url);
    assert_eq!(range(&client.reserve("orders", 10).unwrap()), (1, 10));
    proxy.drop_requests(true);
    let error = client.try_reserve(&[ask("orders", 10)]).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    let error = client.try_create(&create("others", "")).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    proxy.drop_requests(false);
    assert_eq!(range(&db(&url).reserve("orders", 10).unwrap()), (11, 20));
    assert_eq!(db(&url).row("others"), None);
}

/// A caller drops a statement, and the database runs it later.
fn it_stands_still(server: &mut dyn SqlBackend) {
    const SHORT: Duration = Duration::from_millis(100);
    let url = server.url();
    db(&url).create("orders", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store(&url, TableKind::Native);
        let mut connection = store.connect().await.unwrap();
        let asks = [ask("orders", 10)];
        let first = connection.reserve(&asks).await.unwrap().remove(0).unwrap();
        assert_eq!(range(&first), (1, 10));
        server.pause();
        let late = tokio::time::timeout(SHORT, connection.reserve(&asks)).await;
        assert!(late.is_err(), "the database does not answer");
        // The error comes at once, although the database stalls.
        let error = tokio::time::timeout(PATIENCE, connection.reserve(&asks)).await.unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
        let error = tokio::time::timeout(PATIENCE, connection.row(&asks[0].key)).await.unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
        let late = tokio::time::timeout(SHORT, store.connect()).await;
        assert!(late.is_err(), "a new connection is not accepted either");
        drop(connection);
        server.resume();
        let mut connection = tokio::time::timeout(PATIENCE, store.connect()).await.unwrap().unwrap();
        let next = connection.reserve(&asks).await.unwrap().remove(0).unwrap();
        assert!([11, 21].contains(&next.first), "the lost statement was done or not: {next:?}");
        let after = connection.reserve(&asks).await.unwrap().remove(0).unwrap();
        assert!(after.first > next.last);
    });
}

/// A caller drops a statement at any point. Its connection then runs nothing inside the unfinished transaction.
fn a_statement_that_was_let_go(server: &mut dyn SqlBackend) {
    let url = server.url();
    db(&url).create("orders", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store(&url, TableKind::Native);
        let (mut made, mut let_go, mut refused) = (0_u32, 0, 0);
        while made < 3 {
            for _ in 0..3 {
                let mut connection = store.connect().await.unwrap();
                // A dropped creation may still be executed, so no name is used twice.
                let new = create(&format!("s{}", made + let_go + refused), "");
                // The creation proceeds for this number of messages.
                let created = polled(connection.create(&new), 1 + let_go / 3).await;
                let after = connection.reserve(&[ask("orders", 1)]).await;
                match creation(created, &after) {
                    Creation::Made => made += 1,
                    Creation::LetGo => let_go += 1,
                    Creation::Refused => refused += 1,
                }
            }
            assert!(let_go + refused < 300, "no creation completes");
        }
        assert!(let_go > 2, "{let_go}: there are several moments to drop it");
        let mut connection = store.connect().await.unwrap();
        assert!(connection.count().await.unwrap() > Some(made.into()), "and 'orders'");
        assert!(connection.reserve(&[ask("orders", 1)]).await.unwrap()[0].is_ok(), "no lock stays behind");
    });
}

/// Polls a future at most `times` times, and returns its outcome if it has one.
async fn polled<T>(future: impl Future<Output = T>, mut times: u32) -> Option<T> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => {
            times = times.saturating_sub(1);
            if times == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

fn a_session_that_is_ended(server: &mut dyn SqlBackend) {
    let mut client = db(&server.url());
    client.create("orders", "");
    server.end_sessions_of_getid();
    let error = client.try_reserve(&[ask("orders", 1)]).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    assert_eq!(range(&db(&server.url()).reserve("orders", 1).unwrap()), (1, 1));
}

/// The statement fails after a second, and the connection stays usable.
fn a_row_that_another_transaction_has_locked(server: &mut dyn SqlBackend) {
    let mut client = db(&server.url());
    client.create("orders", "");
    client.create("others", "");
    let locks = "BEGIN; UPDATE getid_sequence SET cache = 5 WHERE name = 'others'";
    while_locked(server, locks, || {
        let error = client.try_reserve(&[ask("orders", 1), ask("others", 1)]).unwrap_err();
        assert!(is_over_time(&error) && error.to_string().contains("another transaction has"), "{error:?}");
        assert_eq!(range(&client.reserve("orders", 1).unwrap()), (1, 1), "nothing of the batch was done");
    });
    assert_eq!(range(&client.reserve("others", 1).unwrap()), (1, 1));
}

/// Several servers start at once with an empty database.
fn the_tables_are_made_once(server: &mut dyn SqlBackend) {
    for _ in 0..3 {
        server.clear();
        let url = server.url();
        let uuids: BTreeSet<String> = std::thread::scope(|scope| {
            let openers: Vec<_> = (0..6).map(|_| scope.spawn(|| db(&url).info().uuid.clone())).collect();
            openers.into_iter().map(|opener| opener.join().unwrap()).collect()
        });
        assert_eq!(uuids.len(), 1, "{uuids:?}");
    }
}
