//! Lost stores, rows and replies: no sequence begins at its start again, and rows with the same values give nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use getid_core::server::{Key, SequenceRefusal, Spec};
use getid_engine::generators::sequence::{CreateOptions, SequenceNotes, SequenceSettings};
use tokio::time::sleep;

use super::database::Database;
use super::world::{Server, settings};

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// Creates as `SEQUENCE CREATE` does.
const BY_HAND: CreateOptions = CreateOptions { above_dropped: true, is_fresh: false };

fn on_first_use() -> SequenceSettings {
    SequenceSettings { creates_on_first_use: true, ..settings() }
}

/// Returns a value, as soon as the stores are open.
async fn value(server: &Server, name: &str) -> i64 {
    for _ in 0..1_000 {
        if let Ok(value) = server.incr(name).await {
            return value;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("'{name}' gives nothing: {:?}", server.incr(name).await);
}

/// Returns the refusal, as soon as the stores are open; no value may come before it.
async fn refusal(server: &Server, name: &str) -> String {
    for _ in 0..1_000 {
        match server.incr(name).await {
            Ok(value) => panic!("'{name}' gives {value}"),
            Err(SequenceRefusal::Busy { .. } | SequenceRefusal::Unconfirmed { .. }) => {}
            // An earlier server was killed: it counts as gone after a minute.
            Err(SequenceRefusal::Store(reason)) if reason.contains("SEQUENCE STORES CONFIRM") => {}
            Err(refusal) => return refusal.of(name),
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("'{name}' is not refused: {:?}", server.incr(name).await);
}

#[tokio::test(start_paused = true)]
async fn a_sequence_that_is_noted_and_lost_goes_on_above_the_notes() {
    for by_raise in [false, true] {
        let database = Database::new(1);
        database.put("orders", &[]);
        let dir = crate::support::folder();
        let notes = || SequenceNotes::in_file(dir.path().join("notes"));
        let server = Server::start_with(vec![database.store(true)], settings(), notes());
        let mut last = 0;
        for _ in 0..300 {
            last = value(&server, "orders").await;
        }
        server.kill();
        database.state().rows.clear();
        // An INCR does not begin it, whatever 'sequence-create' is.
        let server = Server::start_with(vec![database.store(true)], on_first_use(), notes());
        let reason = refusal(&server, "orders").await;
        assert!(reason.starts_with("MISCONF sequence 'orders': sim://database has no row of it"), "{reason}");
        assert!(reason.contains("'SEQUENCE RAISE orders N'") && !reason.contains("CREATE"), "{reason}");
        assert!(database.state().rows.is_empty());
        if by_raise {
            server.sequences.raise(&key("orders"), 5, true).await.unwrap();
        } else {
            server.sequences.create(key("orders"), Spec::default(), None, BY_HAND).await.unwrap();
        }
        let next = value(&server, "orders").await;
        assert!(next > last, "{next} after {last}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_one_of_two_stores_lost_begins_above_the_other_row() {
    let stores = |kept: &Arc<Database>, other: &Arc<Database>| vec![kept.store(true), other.store(true)];
    let (kept, lost) = (Database::new(1), Database::new(2));
    let server = Server::start(stores(&kept, &lost));
    sleep(Duration::from_secs(1)).await;
    server.sequences.create(key("orders"), Spec::default(), None, BY_HAND).await.unwrap();
    let mut given = BTreeSet::new();
    // Until the kept row is above all values. Only notes have the values of the other row beyond that.
    while given.len() < 1_000 || given.last().is_some_and(|last| kept.next("orders") <= *last) {
        assert!(given.insert(value(&server, "orders").await));
    }
    server.kill();
    // A server without notes, and an empty database in place of one that had as many values as the other.
    let empty = Database::new(3);
    let server = Server::start(stores(&kept, &empty));
    sleep(Duration::from_secs(70)).await;
    let at = kept.next("orders");
    server.sequences.create(key("orders"), Spec::default(), None, BY_HAND).await.unwrap();
    assert!(empty.next("orders") >= at, "{} is below {at}", empty.next("orders"));
    assert_eq!((empty.next("orders") % 2, kept.next("orders") % 2), (0, 1), "the values differ");
    for _ in 0..1_000 {
        let value = value(&server, "orders").await;
        assert!(given.insert(value), "{value} twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_is_not_begun_while_another_store_is_down() {
    let (here, down) = (Database::new(1), Database::new(2));
    down.state().is_down = true;
    let server = Server::start(vec![here.store(true), down.store(true)]);
    sleep(Duration::from_secs(1)).await;
    server.sequences.create(key("orders"), Spec::default(), None, BY_HAND).await.unwrap_err();
    assert!(here.state().rows.is_empty(), "the other one may have it");
}

/// Rows of two stores have the same values, each created where the other store was not named. None of the servers,
/// which name the stores in opposite orders, gives a value.
#[tokio::test(start_paused = true)]
async fn rows_of_all_stores_are_compared_before_the_first_value() {
    let databases = [Database::new(1), Database::new(2)];
    for database in &databases {
        database.put("two", &["increment", "2", "offset", "1"]);
    }
    let [a, b] = &databases;
    for stores in [vec![a.store(true), b.store(true)], vec![b.store(true), a.store(true)]] {
        let server = Server::start(stores);
        let reason = refusal(&server, "two").await;
        assert!(reason.contains("sequence 'two': its rows disagree: increment 2 offset 1"), "{reason}");
        server.kill();
    }
}

/// A second, empty store beside one that has counted by 1: a row that an INCR would begin there would overlap with it.
#[tokio::test(start_paused = true)]
async fn a_second_store_gives_nothing_that_the_first_one_gave() {
    let (first, second) = (Database::new(1), Database::new(2));
    let server = Server::start_with(vec![first.store(true)], on_first_use(), SequenceNotes::default());
    let mut given = BTreeSet::new();
    for _ in 0..1_000 {
        assert!(given.insert(value(&server, "orders").await));
    }
    server.kill();
    for life in 0..6 {
        let mut stores = vec![first.store(true), second.store(true)];
        if life % 2 == 1 {
            stores.reverse();
        }
        let server = Server::start_with(stores, on_first_use(), SequenceNotes::default());
        // The previous server was killed.
        sleep(Duration::from_secs(70)).await;
        for _ in 0..50 {
            if let Ok(value) = server.incr("orders").await {
                assert!(given.insert(value), "{value} twice, in life {life}");
            }
            sleep(Duration::from_millis(50)).await;
        }
        server.kill();
    }
    // The error names the remedy, and it helps.
    let server =
        Server::start_with(vec![first.store(true), second.store(true)], on_first_use(), SequenceNotes::default());
    let reason = refusal(&server, "orders").await;
    assert!(reason.contains("its rows disagree") && reason.contains("'SEQUENCE ALTER'"), "{reason}");
    server.sequences.alter(&key("orders"), vec!["increment".to_owned(), "2".to_owned()]).await.unwrap();
    for _ in 0..1_000 {
        let value = value(&server, "orders").await;
        assert!(given.insert(value), "{value} twice");
    }
}

/// A store without an answer does not count as agreement, unless this server has noted its row.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_no_agreement_without_a_note() {
    let (here, there) = (Database::new(1), Database::new(2));
    let dir = crate::support::folder();
    let notes = || SequenceNotes::in_file(dir.path().join("notes"));
    let stores = || vec![here.store(true), there.store(true)];
    let server = Server::start_with(stores(), settings(), notes());
    sleep(Duration::from_secs(70)).await;
    server.sequences.create(key("orders"), Spec::default(), None, BY_HAND).await.unwrap();
    // From both stores.
    for _ in 0..2_000 {
        value(&server, "orders").await;
    }
    server.kill();
    there.state().is_down = true;
    let new = Server::start(stores());
    sleep(Duration::from_secs(70)).await;
    let reason = refusal(&new, "orders").await;
    assert!(reason.contains("before the first value of 'orders' its rows in all stores are compared"), "{reason}");
    new.kill();
    let known = Server::start_with(stores(), settings(), notes());
    value(&known, "orders").await;
}

/// The reply to a COMMIT is lost: the row exists, and no client gets the error that it does not. The value that was
/// reserved with it may not be given.
#[tokio::test(start_paused = true)]
async fn a_row_whose_creation_was_not_answered_is_looked_up() {
    for is_created in [true, false] {
        let database = Database::new(1);
        database.state().creations_lost = Some(is_created);
        let server = Server::start_with(vec![database.store(true)], on_first_use(), SequenceNotes::default());
        sleep(Duration::from_secs(1)).await;
        let values = if is_created { [Ok(2), Ok(3)] } else { [Ok(1), Ok(2)] };
        assert_eq!([server.incr("new").await, server.incr("new").await], values, "created: {is_created}");
    }
}
