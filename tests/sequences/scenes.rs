//! Promises about sequences, one scene each, by name.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use getid_core::server::{Key, Reset, SequenceRefusal, SequenceRequest, Spec};
use getid_engine::generators::sequence::{
    CounterOpening, CreateOptions, SequenceError, SequenceNotes, SequenceSettings,
};
use getid_store::sql::{RowState, SeriesBounds};
use getid_text::name_hash::hash_of;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::database::{Database, Faults};
use crate::world::{Server, draw, settings, values_of};

fn key(name: &str) -> Key {
    Key::parse(name).unwrap()
}

fn database(rows: &[(&str, &[&str])]) -> Arc<Database> {
    let database = Database::new(7);
    for (name, words) in rows {
        database.put(name, words);
    }
    database
}

#[tokio::test(start_paused = true)]
async fn values_come_in_order_and_a_clean_stop_leaves_no_gap() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(false)]);
    assert_eq!(server.incr("orders").await, Ok(1));
    assert_eq!(server.pipeline("orders", 500).await, (2..=501).collect::<Vec<_>>());
    let (runs, result) = server
        .draw("orders", &[SequenceRequest { values: 10, times: 2 }, SequenceRequest { values: 1, times: 1 }])
        .await;
    assert_eq!((result, values_of(&runs)), (Ok(()), (502..=522).collect()));
    assert!(database.next("orders") > 523, "something is held");
    let stopped = server.stop().await;
    assert!(stopped.given_back > 0 && stopped.lost == 0, "{stopped:?}");
    assert_eq!(database.next("orders"), 523);
    let server = Server::start(vec![database.store(false)]);
    assert_eq!(server.incr("orders").await, Ok(523));
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_the_gap_is_what_the_status_shows() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(false)]);
    let last = *server.pipeline("orders", 1000).await.last().unwrap();
    sleep(Duration::from_secs(1)).await;
    let status = server.sequences.status_of(hash_of(b"orders"), "orders").unwrap();
    assert_eq!(status.asked, 0);
    server.kill();
    let server = Server::start(vec![database.store(false)]);
    let first = server.incr("orders").await.unwrap();
    assert_eq!(first - last - 1, i64::try_from(status.left).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_missing_sequence_is_an_error_and_remembered_for_a_second() {
    let database = database(&[]);
    let server = Server::start(vec![database.store(false)]);
    for _ in 0..50 {
        assert_eq!(server.incr("orders").await, Err(SequenceRefusal::NoSuch));
    }
    assert_eq!(database.state().reservations, 1, "it is remembered");
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(server.sequences.totals().in_memory, 0, "and forgotten");
    let made =
        server.sequences.create(key("orders"), Spec::default(), Some(41), CreateOptions::default()).await.unwrap();
    assert_eq!(made.last, 41);
    assert_eq!(server.incr("orders").await, Ok(42), "no verdict is kept about a created sequence");
    assert_eq!(server.incr("a//b").await.unwrap_err().of("a//b").split(':').next(), Some("ERR sequence 'a//b'"));
}

#[tokio::test(start_paused = true)]
async fn names_that_are_made_up_are_bounded() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(false)]);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12_000 {
        let sequences = Arc::clone(&server.sequences);
        tasks.spawn(async move {
            let ask = [SequenceRequest { values: 1, times: 1 }];
            crate::world::draw(&sequences, &format!("no:{number}"), &ask).await.1.unwrap_err()
        });
    }
    for refusal in tasks.join_all().await {
        assert_eq!(refusal, SequenceRefusal::NoSuch);
    }
    assert!(server.sequences.totals().in_memory <= 4_096, "the number of kept verdicts is bounded");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(server.sequences.totals().in_memory, 0);
    assert_eq!(server.incr("orders").await, Ok(1));
    // Clients that end before they wait.
    let (ask, mut runs, mut left) = ([SequenceRequest { values: 1, times: 1 }], Vec::new(), Vec::new());
    let mut refused = |number: usize| {
        let name = format!("no:{number}");
        let (now_ms, hash) = (server.sequences.clock_ms(), hash_of(name.as_bytes()));
        server.sequences.try_draw(now_ms, hash, &name, &mut ask.into_iter(), &mut runs, &mut left).is_err()
    };
    assert_eq!((0..150_000).find(|number| refused(*number)), Some(1 << 17));
    sleep(Duration::from_mins(11)).await;
    assert_eq!(server.sequences.totals().in_memory, 0);
}

/// An attacker's names wait in a queue of their own, for one of its turns at a time.
#[tokio::test(start_paused = true)]
async fn a_client_that_invents_names_stops_no_other() {
    const TURN: usize = 128;
    const TURNS: usize = 8;
    let database = database(&[("orders", &["cache", "0"])]);
    let settings = SequenceSettings { creates_on_first_use: true, ..settings() };
    let server = Server::start_with(vec![database.store(false)], settings, SequenceNotes::default());
    let (ask, is_over) = ([SequenceRequest { values: 1, times: 1 }], Arc::new(AtomicBool::new(false)));
    let mut attackers = JoinSet::new();
    for client in 0..8 {
        let sequences = Arc::clone(&server.sequences);
        attackers.spawn(async move {
            for turn in 0..TURNS {
                let mut draws = JoinSet::new();
                for name in 0..TURN {
                    let (sequences, name) = (Arc::clone(&sequences), format!("x:{client}:{turn}:{name}"));
                    draws.spawn(async move { draw(&sequences, &name, &ask).await });
                }
                for (runs, result) in draws.join_all().await {
                    assert_eq!((values_of(&runs), result), (vec![1], Ok(())));
                }
            }
        });
    }
    let mut others = JoinSet::new();
    let known: fn(i64) -> String = |_| "orders".to_owned();
    let new: fn(i64) -> String = |nth| format!("new:{nth}");
    for (name, statements_max) in [(known, 4), (new, 14)] {
        let (sequences, database, is_over) = (Arc::clone(&server.sequences), Arc::clone(&database), is_over.clone());
        others.spawn(async move {
            let mut served = 0;
            while !is_over.load(Relaxed) {
                let before = database.state().statements;
                let (runs, result) = draw(&sequences, &name(served), &ask).await;
                assert_eq!((runs.len(), result), (1, Ok(())));
                let statements = database.state().statements - before;
                assert!(statements <= statements_max, "{} waited for {statements} statements", name(served));
                served += 1;
            }
            served
        });
    }
    attackers.join_all().await;
    is_over.store(true, Relaxed);
    assert!(others.join_all().await.iter().all(|served| *served > 2));
    assert!(database.state().statements < 200, "names that wait together share a statement");
}

/// Starts a server that creates rows on first use, with an empty database.
fn creating_server(is_shared: bool) -> (Arc<Database>, Server) {
    let database = database(&[]);
    let settings = SequenceSettings { creates_on_first_use: true, ..settings() };
    let server = Server::start_with(vec![database.store(is_shared)], settings, SequenceNotes::default());
    (database, server)
}

/// A name that is used once costs one statement, and leaves no value to give back.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_used_once_costs_one_statement() {
    let (database, server) = creating_server(false);
    sleep(Duration::from_secs(1)).await;
    let before = database.state().statements;
    assert_eq!(server.incr("new").await, Ok(1));
    sleep(Duration::from_secs(1)).await;
    assert_eq!((database.next("new"), database.state().statements - before), (2, 1));
    assert_eq!(server.incr("new").await, Ok(2));
    assert!(database.next("new") > 100, "the second use fetches ahead");
    assert_eq!(server.incr("new").await, Ok(3));
    assert_eq!(database.state().reservations, 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_request_makes_it_where_that_is_allowed_up_to_the_limit() {
    for stores in [1, 2] {
        let databases: Vec<_> = (0..stores).map(Database::new).collect();
        let settings = SequenceSettings { creates_on_first_use: true, rows_max: 2, cache: 7, ..settings() };
        let stores = databases.iter().map(|database| database.store(true)).collect();
        let server = Server::start_with(stores, settings, SequenceNotes::default());
        assert!(server.incr("a").await.is_ok());
        assert!(server.incr("b").await.is_ok());
        assert!(server.incr("c").await.is_err());
        assert!(databases.iter().all(|database| database.state().rows.len() == 2));
        assert!(databases[0].state().rows.values().all(|row| row.spec.cache == 7));
        server.sequences.drop_sequence(&key("a")).await.unwrap();
        assert!(matches!(server.incr("a").await, Err(SequenceRefusal::Dropped { .. })), "it is not created again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_reported_and_reconnected() {
    let database = database(&[("orders", &[])]);
    database.state().is_down = true;
    let server = Server::start(vec![database.store(true)]);
    sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    let refusal = server.incr("orders").await.unwrap_err();
    assert_eq!(refusal.of("orders"), "MISCONF sequence store sim://database: connection refused");
    assert!(began.elapsed() < Duration::from_millis(10), "no request waits for it: {:?}", began.elapsed());
    assert_eq!(server.sequences.stores()[0].is_up, Some(false));
    sleep(Duration::from_mins(1)).await;
    database.state().is_down = false;
    sleep(Duration::from_secs(6)).await;
    assert_eq!(server.incr("orders").await, Ok(1));
    assert_eq!(server.sequences.stores()[0].is_up, Some(true));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_memory_is_given_while_the_store_is_away_for_a_while() {
    let database = database(&[("orders", &["cache", "1000"])]);
    let server = Server::start(vec![database.store(true)]);
    server.pipeline("orders", 10).await;
    sleep(Duration::from_millis(500)).await;
    database.state().is_down = true;
    for _ in 0..100 {
        sleep(Duration::from_millis(10)).await;
        server.incr("orders").await.unwrap();
    }
    // Past `sequence-ride-out-s` its value could be below one that another server gave after a RAISE there.
    sleep(Duration::from_secs(5)).await;
    assert!(matches!(server.incr("orders").await, Err(SequenceRefusal::Unconfirmed { ride_out_s: 5, .. })));
    database.state().is_down = false;
    sleep(Duration::from_secs(6)).await;
    assert_eq!(server.incr("orders").await, Ok(111), "nothing was changed meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_raise_elsewhere_holds_here_within_the_confirm_time() {
    let database = database(&[("orders", &["cache", "1000"])]);
    let here = Server::start(vec![database.store(true)]);
    let there = Server::start(vec![database.store(true)]);
    here.pipeline("orders", 10).await;
    sleep(Duration::from_secs(2)).await;
    let raised = there.sequences.raise(&key("orders"), 5_000, false).await.unwrap();
    assert_eq!(raised.effective_in_s, 5);
    assert!(there.incr("orders").await.unwrap() > 5_000);
    sleep(Duration::from_millis(1_200)).await;
    assert!(here.incr("orders").await.unwrap() > 5_000);
    // A server that cannot read the raise gives nothing by then.
    database.state().is_stopped = true;
    here.incr("orders").await.unwrap();
    sleep(Duration::from_secs(6)).await;
    assert!(here.incr("orders").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_lost_costs_its_range_and_no_more() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(true)]);
    assert_eq!(server.incr("orders").await, Ok(1));
    sleep(Duration::from_secs(1)).await;
    let (before, statements) = (database.next("orders"), database.state().reservations);
    database.state().faults = Faults { lost_after: 1000, ..Faults::default() };
    let refused = server.draw("orders", &[SequenceRequest { values: 5_000, times: 1 }]).await.1.unwrap_err();
    assert!(matches!(refused, SequenceRefusal::Store(_)), "{refused:?}");
    let asked = database.state().reservations - statements;
    assert!((1..=5).contains(&asked), "a pause, and each one longer: {asked}");
    assert!(
        database.next("orders") - before <= i64::try_from(asked).unwrap() * 5_500,
        "only the waiting requests' values: {} by {asked}",
        database.next("orders") - before
    );
    database.state().faults = Faults::default();
    sleep(Duration::from_secs(6)).await;
    // It has failed for so long that the first request does not wait, but causes another attempt.
    let _ = server.draw("orders", &[SequenceRequest { values: 5_000, times: 1 }]).await;
    sleep(Duration::from_millis(100)).await;
    let (runs, result) = server.draw("orders", &[SequenceRequest { values: 5_000, times: 1 }]).await;
    assert_eq!(result, Ok(()));
    assert!(runs[0].first >= before, "values that may have been reserved are never given");
}

#[tokio::test(start_paused = true)]
async fn no_more_than_four_statements_are_abandoned() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(true)]);
    server.incr("orders").await.unwrap();
    database.state().is_stopped = true;
    for _ in 0..60 {
        let _ = server.draw("orders", &[SequenceRequest { values: 1_000, times: 1 }]).await;
        sleep(Duration::from_secs(1)).await;
        assert!(server.sequences.stores()[0].abandoned <= 4, "{:?}", server.sequences.stores());
    }
    database.state().is_stopped = false;
    sleep(Duration::from_secs(6)).await;
    assert_eq!(server.sequences.stores()[0].abandoned, 0);
    assert!(server.incr("orders").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_locked_holds_up_no_other_for_long() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let database = Database::new(3);
    for name in &names {
        database.put(name, &["cache", "0"]);
    }
    let server = Server::start(vec![database.store(true)]);
    for name in &names {
        server.incr(name).await.unwrap();
    }
    database.state().locked = vec![key("n7")];
    let mut tasks = tokio::task::JoinSet::new();
    for name in names.clone() {
        let sequences = Arc::clone(&server.sequences);
        tasks.spawn(async move {
            let mut given = 0;
            for _ in 0..10 {
                given += u32::from(
                    crate::world::draw(&sequences, &name, &[SequenceRequest { values: 1, times: 1 }]).await.1.is_ok(),
                );
                sleep(Duration::from_millis(500)).await;
            }
            (name, given)
        });
    }
    for (name, given) in tasks.join_all().await {
        let expected = if name == "n7" { 0..=0 } else { 8..=10 };
        assert!(expected.contains(&given), "{name}: {given} of 10");
    }
}

#[tokio::test(start_paused = true)]
async fn with_cache_0_one_statement_serves_all_earlier_requests() {
    let database = database(&[("orders", &["cache", "0"])]);
    database.state().latency = Duration::from_millis(10);
    let server = Server::start(vec![database.store(false)]);
    server.incr("orders").await.unwrap();
    let before = database.state().reservations;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let sequences = Arc::clone(&server.sequences);
        tasks.spawn(async move {
            let (runs, result) =
                crate::world::draw(&sequences, "orders", &[SequenceRequest { values: 1, times: 1 }]).await;
            result.unwrap();
            runs[0].first
        });
    }
    let mut given = tasks.join_all().await;
    given.sort_unstable();
    assert_eq!(given, (2..=101).collect::<Vec<_>>());
    assert!(database.state().reservations - before <= 2);
    assert_eq!(database.next("orders"), 102, "and nothing is held");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_leaves_and_one_that_waits_too_long_gets_busy() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(true)]);
    server.incr("orders").await.unwrap();
    database.state().latency = Duration::from_millis(1_100);
    let asks = [SequenceRequest { values: 2_000, times: 1 }];
    let began = Instant::now();
    let refusal = server.draw("orders", &asks).await.1.unwrap_err();
    assert_eq!((refusal, began.elapsed().as_millis()), (SequenceRefusal::Busy { waited_ms: 1_000 }, 1_000));
    let waiting = || server.sequences.status_of(hash_of(b"orders"), "orders").unwrap().waiting;
    let draw = tokio::time::timeout(Duration::from_millis(100), server.draw("orders", &asks));
    assert!(draw.await.is_err());
    assert_eq!(waiting(), 0);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(server.draw("orders", &asks).await.1, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn several_sequences_of_a_turn_are_fetched_at_once() {
    let database = database(&[("a", &[]), ("b", &[]), ("c", &[])]);
    database.state().latency = Duration::from_millis(300);
    let server = Server::start(vec![database.store(true)]);
    sleep(Duration::from_secs(2)).await;
    let deadline = Instant::now() + Duration::from_secs(1);
    let mut runs = [Vec::new(), Vec::new(), Vec::new()];
    let [a, b, c] = &mut runs;
    let draw = |name, runs| {
        let hash = hash_of(str::as_bytes(name));
        server.sequences.draw(hash, name, vec![SequenceRequest { values: 1, times: 1 }], deadline, runs)
    };
    let (a, b, c) = (draw("a", a), draw("b", b), draw("c", c));
    let began = Instant::now();
    assert_eq!((a.await, b.await, c.await), (Ok(()), Ok(()), Ok(())));
    assert!(began.elapsed() < Duration::from_millis(700), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn with_several_stores_one_may_be_down_and_values_ascend() {
    let databases = [Database::new(1), Database::new(2)];
    let stores = || databases.iter().map(|database| database.store(true)).collect();
    let server = Server::start(stores());
    sleep(Duration::from_millis(100)).await;
    server.sequences.create(key("orders"), Spec::default(), None, CreateOptions::default()).await.unwrap();
    let (mut last, mut given) = (0, Vec::new());
    for round in 0..40 {
        for (index, database) in databases.iter().enumerate() {
            // A store that is reachable again is noticed within 5 s: only then may the other one fail.
            database.state().is_down = round / 10 == index + 1 && round % 10 < 8;
        }
        sleep(Duration::from_secs(3)).await;
        for value in server.pipeline("orders", 60).await {
            assert!(value > last, "{value} comes after {last}");
            last = value;
            given.push(value);
        }
    }
    assert!(given.iter().any(|value| value % 2 == 0) && given.iter().any(|value| value % 2 == 1), "both have given");
    let stopped = server.stop().await;
    assert_eq!(stopped.given_back, 0, "with several stores nothing goes back");
    let server = Server::start(stores());
    sleep(Duration::from_millis(100)).await;
    assert!(!given.contains(&server.incr("orders").await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn rows_that_disagree_are_refused_until_an_alter_makes_them_fit() {
    let databases = [Database::new(1), Database::new(2)];
    for database in &databases {
        database.put("orders", &["increment", "2", "offset", "1"]);
    }
    let server = Server::start(databases.iter().map(|database| database.store(true)).collect());
    sleep(Duration::from_millis(100)).await;
    let mut given = Vec::new();
    let mut refused = 0;
    for _ in 0..200 {
        sleep(Duration::from_millis(1_100)).await;
        match server.draw("orders", &[SequenceRequest { values: 10_000, times: 50 }]).await {
            (runs, Ok(())) => given.push(runs[0].first),
            (_, Err(refusal)) => {
                assert!(refusal.of("orders").contains("its rows disagree: increment 2 offset 1"), "{refusal:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    server.sequences.alter(&key("orders"), vec!["increment".to_owned(), "3".to_owned()]).await.unwrap();
    for _ in 0..30 {
        sleep(Duration::from_millis(1_100)).await;
        let (runs, result) = server.draw("orders", &[SequenceRequest { values: 10_000, times: 50 }]).await;
        assert_eq!(result, Ok(()));
        given.push(runs[0].first);
    }
    let count = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), count);
    for database in &databases {
        let state = database.state();
        assert_eq!(state.rows[&key("orders")].state, RowState::Live);
    }
    databases[1].state().is_down = true;
    sleep(Duration::from_secs(3)).await;
    let refused = server.sequences.alter(&key("orders"), vec!["increment".to_owned(), "4".to_owned()]).await;
    assert!(matches!(refused, Err(SequenceError::Refused(SequenceRefusal::Store(_)))), "every store must answer");
}

/// Another server, which polls changes once a second, draws while the increment is altered: it refuses nothing.
#[tokio::test(start_paused = true)]
async fn an_alter_of_the_increment_is_no_refusal_of_another_server() {
    let databases = [Database::new(1), Database::new(2)];
    let start = || Server::start(databases.iter().map(|database| database.store(true)).collect());
    let (altering, drawing) = (start(), start());
    // A starting server waits for the notes of those before it.
    sleep(Duration::from_secs(70)).await;
    altering.sequences.create(key("orders"), Spec::default(), None, CreateOptions::default()).await.unwrap();
    let mut given = BTreeSet::new();
    for increment in 2..12 {
        let orders = key("orders");
        let alter = altering.sequences.alter(&orders, vec!["increment".to_owned(), increment.to_string()]);
        let draws = async {
            for _ in 0..200 {
                for server in [&drawing, &altering] {
                    let (runs, result) = server.draw("orders", &[SequenceRequest { values: 100, times: 1 }]).await;
                    assert_eq!(result, Ok(()), "increment {increment}");
                    for value in values_of(&runs) {
                        assert!(given.insert(value), "{value} twice, with increment {increment}");
                    }
                }
                sleep(Duration::from_millis(7)).await;
            }
        };
        let (altered, ()) = tokio::join!(alter, draws);
        altered.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn cache_0_with_several_stores_is_refused() {
    let databases = [Database::new(1), Database::new(2)];
    for database in &databases {
        database.put("orders", &["cache", "0"]);
    }
    let server = Server::start(databases.iter().map(|database| database.store(true)).collect());
    sleep(Duration::from_millis(100)).await;
    assert!(server.incr("orders").await.unwrap_err().of("orders").contains("its cache is 0, which needs one store"));
    let spec = Spec { cache: 0, ..Spec::default() };
    let refused = server.sequences.create(key("more"), spec, None, CreateOptions::default()).await.unwrap_err();
    assert!(refused.of("more").contains("cache 0 needs one sequence-store"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_went_back_is_refused_marked_and_goes_on_after_a_confirmation() {
    let database = database(&[("orders", &[])]);
    let dir = crate::support::folder();
    let notes = || SequenceNotes::in_file(dir.path().join("notes"));
    let server = Server::start_with(vec![database.store(true)], settings(), notes());
    server.pipeline("orders", 300).await;
    sleep(Duration::from_secs(1)).await;
    let had = database.next("orders");
    server.kill();
    // An old copy is restored.
    database.state().rows.get_mut(&key("orders")).unwrap().next = 101;
    let server = Server::start_with(vec![database.store(true)], settings(), notes());
    assert_eq!(server.incr("orders").await, Err(SequenceRefusal::WentBack));
    sleep(Duration::from_millis(100)).await;
    let row = database.state().rows[&key("orders")].clone();
    assert!(row.state == RowState::WentBack && row.next >= had, "{row:?}");
    // Another server, which has noted nothing, refuses it as well.
    let other = Server::start(vec![database.store(true)]);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(other.incr("orders").await, Err(SequenceRefusal::WentBack));
    server.sequences.confirm(&key("orders"), false).await.unwrap();
    assert!(server.incr("orders").await.unwrap() >= had);
    sleep(Duration::from_secs(2)).await;
    assert!(other.incr("orders").await.unwrap() >= had);
}

/// Of several servers the first reader marks the row with the values that it had. Servers that had more report it
/// before the confirmation, and need no second one. A restarted server has it in its notes.
#[tokio::test(start_paused = true)]
async fn one_confirmation_is_enough_for_all_servers() {
    for is_started_again in [false, true] {
        let database = database(&[("orders", &[])]);
        let dir = crate::support::folder();
        let start = || {
            let notes = SequenceNotes::in_file(dir.path().join("notes"));
            Server::start_with(vec![database.store(true)], settings(), notes)
        };
        let first = Server::start(vec![database.store(true)]);
        first.incr("orders").await.unwrap();
        let mut most = start();
        sleep(Duration::from_secs(3)).await;
        most.pipeline("orders", 3000).await;
        sleep(Duration::from_secs(1)).await;
        let had = database.next("orders");
        if is_started_again {
            most.kill();
            most = start();
            sleep(Duration::from_secs(3)).await;
        }
        database.state().rows.get_mut(&key("orders")).unwrap().next = 1;
        while first.incr("orders").await.is_ok() {}
        sleep(Duration::from_millis(100)).await;
        let marked = database.state().rows[&key("orders")].clone();
        assert!(marked.state == RowState::WentBack && marked.next <= had, "{marked:?} and {had}");
        while most.incr("orders").await.is_ok() {}
        sleep(Duration::from_millis(100)).await;
        first.sequences.confirm(&key("orders"), false).await.unwrap();
        sleep(Duration::from_secs(2)).await;
        for server in [&most, &first] {
            assert!(server.incr("orders").await.unwrap() >= had);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_goes_back_while_it_is_used_is_refused() {
    for is_shared in [false, true] {
        let database = database(&[("orders", &[])]);
        let server = Server::start(vec![database.store(is_shared)]);
        server.pipeline("orders", 300).await;
        sleep(Duration::from_secs(1)).await;
        database.state().rows.get_mut(&key("orders")).unwrap().next = 101;
        let mut refused = None;
        for _ in 0..100 {
            let asks = [SequenceRequest { values: 1, times: 10_000 }];
            if let Err(refusal) = server.draw("orders", &asks).await.1 {
                refused = Some(refusal);
                break;
            }
        }
        assert_eq!(refused, Some(SequenceRefusal::WentBack));
    }
}

/// Separate rows take a statement each, unless missing ones are created together.
#[tokio::test(start_paused = true)]
async fn a_thousand_new_names_at_once_are_all_made() {
    let (database, server) = creating_server(true);
    sleep(Duration::from_millis(100)).await;
    let mut all = JoinSet::new();
    for n in 0..1000 {
        let sequences = Arc::clone(&server.sequences);
        all.spawn(async move {
            let (runs, result) =
                draw(&sequences, &format!("new:{n}"), &[SequenceRequest { values: 1, times: 1 }]).await;
            result.map(|()| values_of(&runs))
        });
    }
    for value in all.join_all().await {
        assert_eq!(value, Ok(vec![1]));
    }
    // And by an operator's tool, with a connection for each name.
    let mut all = JoinSet::new();
    for n in 0..1000 {
        let (sequences, key) = (Arc::clone(&server.sequences), key(&format!("made:{n}")));
        all.spawn(async move { sequences.create(key, Spec::default(), None, CreateOptions::default()).await });
    }
    for made in all.join_all().await {
        assert!(made.is_ok(), "{made:?}");
    }
    assert_eq!(database.state().rows.len(), 2000);
}

#[tokio::test(start_paused = true)]
async fn one_store_by_two_addresses_is_refused() {
    let databases = [Database::new(7), Database::new(7)];
    let server = Server::start(databases.iter().map(|database| database.store(true)).collect());
    sleep(Duration::from_secs(1)).await;
    let stores = server.sequences.stores();
    let reason: Vec<&str> = stores.iter().filter_map(|store| store.reason.as_deref()).collect();
    let [reason] = reason[..] else { panic!("{stores:?}") };
    let shown = &stores[0].shown;
    assert!(reason.contains(&format!("{shown}: this is the same store as {shown} (uuid uuid-7)")), "{reason}");
    let error =
        server.sequences.create(key("orders"), Spec::default(), None, CreateOptions::default()).await.unwrap_err();
    assert!(error.of("orders").contains("name each store once"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn only_a_mark_can_be_confirmed() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(true)]);
    server.incr("orders").await.unwrap();
    let before = database.state().rows[&key("orders")].clone();
    let error = server.sequences.confirm(&key("orders"), false).await.unwrap_err();
    assert!(error.of("orders").contains("sequence 'orders': it is not marked"), "{}", error.of("orders"));
    assert_eq!(database.state().rows[&key("orders")].generation, before.generation);
}

#[tokio::test(start_paused = true)]
async fn another_database_at_the_same_address_is_no_store_of_ours() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(true)]);
    server.incr("orders").await.unwrap();
    {
        let mut state = database.state();
        state.uuid = "another".to_owned();
        state.is_down = true;
    }
    sleep(Duration::from_secs(2)).await;
    database.state().is_down = false;
    sleep(Duration::from_secs(10)).await;
    let refusal = server.incr("orders").await.unwrap_err();
    assert!(refusal.of("orders").contains("a different database answers now"), "{refusal:?}");
}

#[tokio::test(start_paused = true)]
async fn idle_sequences_leave_memory_and_what_they_held_goes_back() {
    let database = database(&[("orders", &[]), ("busy", &[])]);
    let server = Server::start(vec![database.store(false)]);
    server.pipeline("orders", 5).await;
    for _ in 0..800 {
        sleep(Duration::from_secs(1)).await;
        server.incr("busy").await.unwrap();
    }
    assert_eq!(server.sequences.totals().in_memory, 1);
    assert_eq!(database.next("orders"), 6, "held values were given back");
    assert_eq!(server.incr("orders").await, Ok(6));
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_a_fetch_under_way_gives_nothing_of_that_sequence_back() {
    let database = database(&[("orders", &[]), ("other", &[])]);
    let server = Server::start(vec![database.store(true)]);
    for _ in 0..2 {
        server.incr("orders").await.unwrap();
        server.incr("other").await.unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    let before = database.next("orders");
    database.state().faults = Faults { late: 1000, ..Faults::default() };
    let sequences = Arc::clone(&server.sequences);
    let asks = [SequenceRequest { values: 5_000, times: 1 }];
    let waiting = tokio::spawn(async move { crate::world::draw(&sequences, "orders", &asks).await.1 });
    sleep(Duration::from_millis(20)).await;
    database.state().faults = Faults::default();
    let stopped = server.sequences.stop(Duration::from_secs(1)).await;
    assert_eq!(waiting.await.unwrap(), Err(SequenceRefusal::Closed));
    assert!(stopped.lost > 0 && stopped.given_back == 0, "the time is over: {stopped:?}");
    sleep(Duration::from_secs(10)).await;
    assert!(database.next("orders") >= before + 5_000, "its end belongs to a fetch with an unknown outcome");
}

/// Returns the counter of a generator, at any time.
fn opens(reset: Reset) -> CounterOpening {
    let declaration = format!("serial {{n:6}} reset {}", reset.word()).into();
    CounterOpening {
        spec: Spec::default(),
        declaration,
        reset,
        is_serial: true,
        from_unix_ms: i64::MIN,
        until_unix_ms: i64::MAX,
        series: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_in_an_older_period_than_another_one_gets_the_newer() {
    let database = database(&[]);
    let [ahead, behind] = [(); 2].map(|()| Server::start(vec![database.store(true)]));
    sleep(Duration::from_secs(2)).await;
    let open = |server: &Server, name: &str, opens| {
        server.sequences.open_period(hash_of(name.as_bytes()), name, opens).unwrap();
    };
    open(&behind, "a@D20260101", opens(Reset::Day));
    assert_eq!(behind.incr("a@D20260101").await, Ok(1));
    open(&ahead, "a@D20260102", opens(Reset::Day));
    assert_eq!(ahead.incr("a@D20260102").await, Ok(1));
    // Values in memory were reserved before; nothing more is reserved.
    let mut refused = None;
    for _ in 0..10_000 {
        if let Err(refusal) = behind.incr("a@D20260101").await {
            refused = Some(refusal);
            break;
        }
    }
    assert_eq!(refused, Some(SequenceRefusal::Newer { period: "D20260102".into() }));
    open(&behind, "a@D20260102", opens(Reset::Day));
    assert!(behind.incr("a@D20260102").await.unwrap() > 1);
    // Another declaration is refused, until the store's is replaced.
    let other = CounterOpening { declaration: "serial X{n:6} reset day".into(), ..opens(Reset::Day) };
    open(&behind, "b@D20260102", opens(Reset::Day));
    behind.incr("b@D20260102").await.unwrap();
    open(&ahead, "b@D20260102", other.clone());
    let refusal = ahead.incr("b@D20260102").await.unwrap_err().of("b");
    assert!(refusal.contains("'serial {n:6} reset day'") && refusal.contains("'serial X{n:6} reset day'"), "{refusal}");
    ahead.sequences.declare(key("b@D20260102"), other).await.unwrap();
    assert!(ahead.incr("b@D20260102").await.unwrap() > 1);
}

/// The period and the number of keys are the generator's, on all servers; the values are those of each key.
#[tokio::test(start_paused = true)]
async fn the_keys_of_a_generator_share_its_period_and_their_bound() {
    let database = database(&[]);
    let [ahead, behind] = [(); 2].map(|()| Server::start(vec![database.store(true)]));
    sleep(Duration::from_secs(2)).await;
    let bounds = |may_begin| Some(SeriesBounds { max: 3, may_begin });
    let open = |server: &Server, name: &str, may_begin| {
        let opens = CounterOpening { series: bounds(may_begin), ..opens(Reset::Day) };
        server.sequences.open_period(hash_of(name.as_bytes()), name, opens).unwrap();
    };
    for (server, name) in [(&behind, "a/A@20260101"), (&behind, "a/B@20260101"), (&ahead, "a/B@20260102")] {
        open(server, name, true);
        assert_eq!(server.incr(name).await, Ok(1), "{name}");
    }
    // One key has begun the next day, so no key begins in the older one.
    open(&behind, "a/C@20260101", true);
    assert_eq!(behind.incr("a/C@20260101").await, Err(SequenceRefusal::Newer { period: "20260102".into() }));
    open(&behind, "a/C@20260102", true);
    assert_eq!(behind.incr("a/C@20260102").await, Ok(1));
    open(&ahead, "a/C@20260102", true);
    assert!(ahead.incr("a/C@20260102").await.unwrap() > 1);
    // A fourth key is refused on each server, and the others continue.
    for server in [&ahead, &behind] {
        open(server, "a/D@20260102", true);
        assert_eq!(server.incr("a/D@20260102").await, Err(SequenceRefusal::TooManySeries { max: 3 }));
        assert_eq!(server.sequences.keys_of("a"), Some(3));
    }
    open(&ahead, "a/A@20260102", true);
    assert_eq!(ahead.incr("a/A@20260102").await, Ok(1));
    // A declared key is created on one server, and then gives numbers on the other one.
    open(&ahead, "b/A@20260102", false);
    open(&behind, "b/A@20260102", false);
    assert_eq!(ahead.incr("b/A@20260102").await, Err(SequenceRefusal::NoSeries));
    let declared = CounterOpening { series: bounds(false), ..opens(Reset::Day) };
    behind.sequences.create_series(key("b/A@20260102"), declared).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(ahead.incr("b/A@20260102").await, Ok(1));
    open(&behind, "b/A@20260102", false);
    assert!(behind.incr("b/A@20260102").await.unwrap() > 1);
}

/// A server whose clock is days ahead gets nothing, and does not affect the others.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_far_ahead_moves_no_other_server() {
    // The simulated store's clock is at the beginning of 1970.
    let database = database(&[]);
    let [right, ahead] = [(); 2].map(|()| Server::start(vec![database.store(true)]));
    sleep(Duration::from_secs(2)).await;
    let day = 86_400_000;
    let of_day = |from_unix_ms| CounterOpening { from_unix_ms, until_unix_ms: from_unix_ms + day, ..opens(Reset::Day) };
    let draw = async |server: &Server, name: &str, from_unix_ms| {
        server.sequences.open_period(hash_of(name.as_bytes()), name, of_day(from_unix_ms)).unwrap();
        server.incr(name).await
    };
    assert_eq!(draw(&right, "a@D19700101", 0).await, Ok(1));
    assert!(draw(&ahead, "a@D19700103", 2 * day).await.is_err());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(database.state().generators["a"].newest, "D19700101");
    assert_eq!(draw(&right, "a@D19700101", 0).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_period_is_begun_only_near_it_by_the_stores_clock() {
    // The simulated store's clock is at the beginning of 1970.
    let database = database(&[]);
    let server = Server::start(vec![database.store(true)]);
    sleep(Duration::from_millis(100)).await;
    let (hour, day) = (3_600_000, 86_400_000);
    let opens = |from_unix_ms, until_unix_ms| CounterOpening { from_unix_ms, until_unix_ms, ..opens(Reset::Day) };
    let cases = [("a@D19691231", opens(-day, 0), true), ("a@D19700101", opens(0, day), true)];
    let far = [("a@D19700102", opens(day, 2 * day), false), ("b@D19691230", opens(-2 * day, -hour - 1000), false)];
    for (name, opens, is_begun) in cases.into_iter().chain(far) {
        server.sequences.open_period(hash_of(name.as_bytes()), name, opens).unwrap();
        match server.incr(name).await {
            Ok(value) => assert!(is_begun && value == 1, "{name}: {value}"),
            Err(refusal) => {
                assert!(!is_begun && refusal.of(name).contains("its period has not begun"), "{name}: {refusal:?}");
            }
        }
    }
}

/// Of two stores of one server one is lost: its row begins above all values of both.
#[tokio::test(start_paused = true)]
async fn one_of_several_stores_that_is_lost_gives_nothing_again() {
    let dir = crate::support::folder();
    let notes = || SequenceNotes::in_file(dir.path().join("notes"));
    let mut seen = BTreeSet::new();
    let kept = Database::new(7);
    for life in 0..4 {
        let other = Database::new(8 + life);
        let server = Server::start_with(vec![kept.store(false), other.store(false)], settings(), notes());
        sleep(Duration::from_millis(100)).await;
        for _ in 0..200 {
            server.sequences.open_period(hash_of(b"num"), "num", opens(Reset::Never)).unwrap();
            let value = server.incr("num").await.unwrap();
            assert!(seen.insert(value), "{value} twice, in life {life}");
        }
        server.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn a_counter_whose_row_is_lost_while_it_is_used_is_refused() {
    let database = database(&[]);
    let dir = crate::support::folder();
    let server =
        Server::start_with(vec![database.store(true)], settings(), SequenceNotes::in_file(dir.path().join("notes")));
    let draw = || {
        server.sequences.open_period(hash_of(b"num"), "num", opens(Reset::Never)).unwrap();
        server.draw("num", &[SequenceRequest { values: 1, times: 10_000 }])
    };
    assert_eq!(draw().await.1, Ok(()));
    sleep(Duration::from_secs(1)).await;
    database.state().rows.clear();
    let mut refused = None;
    for _ in 0..100 {
        if let Err(refusal) = draw().await.1 {
            refused = Some(refusal);
            break;
        }
    }
    assert!(matches!(refused, Some(SequenceRefusal::Lost { .. })), "{refused:?}");
    assert!(database.state().rows.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_set_within_what_is_held_costs_no_statement() {
    let database = database(&[("orders", &["cache", "1000"])]);
    let server = Server::start(vec![database.store(false)]);
    server.pipeline("orders", 10).await;
    sleep(Duration::from_secs(1)).await;
    let before = database.state().statements;
    server.sequences.raise(&key("orders"), 10, false).await.unwrap();
    server.sequences.raise(&key("orders"), 500, false).await.unwrap();
    assert_eq!(server.sequences.last_given_now(hash_of(b"orders"), "orders"), Some(500));
    assert_eq!(database.state().statements, before);
    assert_eq!(server.incr("orders").await, Ok(501));
    let lower = server.sequences.raise(&key("orders"), 400, false).await.unwrap_err();
    assert!(lower.of("orders").starts_with("ERR a sequence never goes back: 'orders' is at "), "{lower:?}");
    server.sequences.raise(&key("orders"), 100_000, false).await.unwrap();
    assert_eq!(server.incr("orders").await, Ok(100_001));
    server.stop().await;
    let server = Server::start(vec![database.store(false)]);
    server.sequences.raise(&key("orders"), 100_001, false).await.unwrap();
    assert_eq!(server.incr("orders").await, Ok(100_002), "where it is already, nothing changes");
}

#[tokio::test(start_paused = true)]
async fn a_raise_below_reserved_values_holds_for_their_server() {
    let database = database(&[("orders", &[])]);
    let here = Server::start(vec![database.store(true)]);
    let there = Server::start(vec![database.store(true)]);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(here.incr("orders").await, Ok(1));
    assert!(there.incr("orders").await.unwrap() > 1);
    let last = database.next("orders") - 1;
    for last in [50, last] {
        there.sequences.raise(&key("orders"), last, true).await.unwrap();
        sleep(Duration::from_millis(1_200)).await;
        assert!(here.incr("orders").await.unwrap() > last, "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_raises_within_what_the_own_store_has_reserved() {
    let database = database(&[("orders", &[])]);
    let server = Server::start(vec![database.store(false)]);
    assert_eq!(server.incr("orders").await, Ok(1));
    let at_once = server.sequences.raise(&key("orders"), 50, true).await;
    assert!(at_once.is_ok() && server.incr("orders").await.unwrap() > 50, "{at_once:?}");
    sleep(Duration::from_secs(1)).await;
    let given = server.incr("orders").await.unwrap();
    server.sequences.raise(&key("orders"), given + 10, true).await.unwrap();
    assert_eq!(server.incr("orders").await, Ok(given + 11));
    let lower = server.sequences.raise(&key("orders"), given, true).await.unwrap_err();
    assert_eq!(lower.of("orders"), format!("ERR a sequence never goes back: 'orders' is at {}", given + 11));
}

#[tokio::test(start_paused = true)]
async fn no_raise_of_a_missing_row_succeeds() {
    let database = database(&[]);
    let server = Server::start(vec![database.store(false)]);
    for confirms in [false, true] {
        let refused = server.sequences.raise(&key("orders"), 50, confirms).await.unwrap_err();
        assert!(refused.of("orders").starts_with("ERR no such sequence 'orders'"), "{refused:?}");
    }
}
