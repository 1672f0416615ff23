//! Ends of sequences: `EXPIRE` with each `INCR`, other servers, and what comes after the end.

use std::sync::Arc;
use std::time::Duration;

use getid_core::server::{EndChange, EndCondition, Key, SequenceRefusal};
use getid_engine::generators::sequence::{SequenceError, SequenceNotes, SequenceSettings, Sequences};
use tokio::time::sleep;

use crate::database::Database;
use crate::world::{Server, settings};

const NAME: &str = "orders:2026-11-27";

fn key() -> Key {
    Key::new(NAME).unwrap()
}

/// Sets the end this many ms from now, as `EXPIRE` does.
async fn expire(sequences: &Arc<Sequences>, ms: i64) -> Result<Option<bool>, SequenceError> {
    let change = EndChange { unix_ms: sequences.unix_ms() + ms, condition: EndCondition::default() };
    sequences.expire(&key(), change).await
}

fn ended<T>(result: &Result<T, SequenceRefusal>) -> bool {
    matches!(result, Err(SequenceRefusal::Ended { .. }))
}

async fn server(database: &Arc<Database>) -> Server {
    let server = Server::start(vec![database.store(true)]);
    sleep(Duration::from_secs(3)).await;
    server
}

#[tokio::test(start_paused = true)]
async fn incr_and_expire_in_each_request_write_the_end_once() {
    let database = Database::new(7);
    database.put(NAME, &["cache", "1000"]);
    let server = server(&database).await;
    assert_eq!(server.incr(NAME).await, Ok(1));
    assert_eq!(expire(&server.sequences, 86_400_000).await, Ok(Some(true)));
    sleep(Duration::from_secs(2)).await;
    let generation = database.state().rows[&key()].generation;
    for value in 2..500 {
        assert_eq!(server.incr(NAME).await, Ok(value), "the change of the end leaves no gap here");
        assert_eq!(expire(&server.sequences, 86_400_000).await, Ok(Some(true)));
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(database.state().rows[&key()].generation, generation, "the end was written again");
    assert_eq!(expire(&server.sequences, 60_000).await, Ok(Some(true)));
    assert_eq!(database.state().rows[&key()].generation, generation + 1, "another end is written");
    assert_eq!(server.incr(NAME).await, Ok(500));
}

#[tokio::test(start_paused = true)]
async fn no_server_gives_a_value_after_the_end_and_persist_continues_above() {
    let database = Database::new(7);
    database.put(NAME, &[]);
    let (a, b) = (server(&database).await, server(&database).await);
    let before = [a.incr(NAME).await.unwrap(), b.incr(NAME).await.unwrap()];
    assert_eq!(expire(&a.sequences, 5_000).await, Ok(Some(true)));
    sleep(Duration::from_secs(3)).await;
    for server in [&a, &b] {
        assert!(server.incr(NAME).await.is_ok(), "the end has not come");
        let end = server.sequences.end_of(&key()).await.unwrap().unwrap();
        assert!(end > 0 && end <= server.sequences.unix_ms() + 2_000, "{end}");
    }
    let highest = database.next(NAME);
    // In memory the values end as well as the servers know the clock of the store.
    sleep(Duration::from_millis(2_100)).await;
    for _ in 0..5 {
        for server in [&a, &b] {
            assert!(ended(&server.incr(NAME).await));
            let again = expire(&server.sequences, 60_000).await;
            assert!(matches!(again, Err(SequenceError::Refused(SequenceRefusal::Ended { .. }))), "{again:?}");
            let raised = server.sequences.raise(&key(), 5_000, false).await;
            assert!(matches!(raised, Err(SequenceError::Refused(SequenceRefusal::Ended { .. }))), "{raised:?}");
        }
        sleep(Duration::from_millis(700)).await;
    }
    let view = b.sequences.find(&key()).await.unwrap().expect("it is there");
    assert!(view.ended_unix_ms.is_some() && view.last >= before[1], "{view:?}");
    assert_eq!(database.next(NAME), highest, "an ended row reserves nothing");
    assert_eq!(b.sequences.persist(&key()).await, Ok(Some(true)));
    assert_eq!(b.sequences.persist(&key()).await, Ok(Some(false)));
    let first = b.incr(NAME).await.unwrap();
    assert!(first > view.last && first < highest, "{first} is not of the values that this server kept");
    sleep(Duration::from_secs(3)).await;
    assert!(a.incr(NAME).await.unwrap() >= highest);
}

#[tokio::test(start_paused = true)]
async fn a_first_use_and_its_end_are_one_after_the_other() {
    let database = Database::new(7);
    let settings = SequenceSettings { creates_on_first_use: true, ..settings() };
    let server = Server::start_with(vec![database.store(true)], settings, SequenceNotes::default());
    sleep(Duration::from_secs(3)).await;
    assert_eq!(expire(&server.sequences, 60_000).await, Ok(None), "there is none yet");
    assert_eq!(server.incr(NAME).await, Ok(1));
    assert_eq!(expire(&server.sequences, -1).await, Ok(Some(true)));
    assert!(ended(&server.incr(NAME).await), "an end that is not after now is now");
    assert_eq!(server.sequences.persist(&Key::new("other").unwrap()).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn the_end_is_in_each_of_several_stores() {
    let databases = [Database::new(7), Database::new(8)];
    databases[0].put(NAME, &["increment", "2", "offset", "1"]);
    databases[1].put(NAME, &["increment", "2", "offset", "2"]);
    let server = Server::start(databases.iter().map(|database| database.store(true)).collect());
    sleep(Duration::from_secs(3)).await;
    assert!(server.incr(NAME).await.is_ok());
    assert_eq!(expire(&server.sequences, 5_000).await, Ok(Some(true)));
    for database in &databases {
        assert!(database.state().rows[&key()].ends_unix_ms > 0);
    }
    assert!(server.incr(NAME).await.is_ok());
    sleep(Duration::from_millis(5_100)).await;
    assert!(ended(&server.incr(NAME).await));
    assert_eq!(server.sequences.persist(&key()).await, Ok(Some(true)));
    assert!(server.incr(NAME).await.is_ok());
}
