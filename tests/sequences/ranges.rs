//! Ranges for clients with a supply of their own: ascending after a change of the server, and whole up to the max.

use std::sync::Arc;
use std::time::Duration;

use getid_core::server::{Key, Run, SequenceRefusal, SequenceRequest, Spec, VALUE_MAX};
use getid_engine::generators::sequence::{CreateOptions, RangeRequest, SequenceError};
use getid_text::name_hash::hash_of;
use tokio::time::sleep;

use crate::database::Database;
use crate::world::{Server, draw};

fn orders() -> Key {
    Key::new("orders").unwrap()
}

async fn range(server: &Server, values: u32, above: Option<i64>) -> Result<Run, SequenceRefusal> {
    match server.sequences.next_range(&orders(), RangeRequest { values, above }).await {
        Ok(run) => Ok(run),
        Err(SequenceError::Refused(refusal)) => Err(refusal),
        Err(error) => panic!("{error:?}"),
    }
}

/// Starts this many servers on these databases, and opens their stores.
async fn servers(count: usize, databases: &[Arc<Database>]) -> Vec<Server> {
    let stores = || databases.iter().map(|database| database.store(true)).collect();
    let all: Vec<_> = (0..count).map(|_| Server::start(stores())).collect();
    sleep(Duration::from_secs(3)).await;
    all
}

#[tokio::test(start_paused = true)]
async fn a_client_that_alternates_between_servers_sees_ascending_values() {
    for words in [&[][..], &["cache", "0"], &["increment", "10", "offset", "3"], &["cache", "1"]] {
        let database = Database::new(1);
        database.put("orders", words);
        let all = servers(2, std::slice::from_ref(&database)).await;
        let mut last = 0;
        for round in 0..200_u32 {
            let server = &all[usize::try_from(round % 2).unwrap()];
            let values = 1 + round * 7 % 150;
            let run = range(server, values, Some(last)).await.unwrap();
            assert!(run.first > last, "{words:?}: {run:?} is not above {last}");
            assert_eq!(run.values, values);
            last = run.last_of(0);
            // Another client, without an order of its own.
            server.incr("orders").await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_no_server_has_had_skips_nothing_and_stops_no_one() {
    let database = Database::new(1);
    database.put("orders", &[]);
    let all = servers(1, std::slice::from_ref(&database)).await;
    all[0].pipeline("orders", 10).await;
    sleep(Duration::from_secs(1)).await;
    let (next, reservations) = (database.next("orders"), database.state().reservations);
    for nonsense in [VALUE_MAX, next, next + 1, VALUE_MAX - 1].repeat(25) {
        let refusal = range(&all[0], 100, Some(nonsense)).await.unwrap_err();
        assert_eq!(refusal, SequenceRefusal::NotGiven { above: nonsense });
        assert!(
            refusal.of("orders").starts_with("TRYAGAIN sequence 'orders': its store has not given "),
            "{refusal:?}"
        );
    }
    assert_eq!((database.next("orders"), database.state().reservations), (next, reservations));
    assert_eq!(all[0].incr("orders").await, Ok(11), "the held values are there");
    // The largest value that the server has reserved, which is plausible: all it holds is skipped.
    assert_eq!(range(&all[0], 1, Some(next - 1)).await.map(|run| run.first), Ok(next));
}

/// The largest value that a server has reserved is plausible, and not an error: it costs what the server holds.
#[tokio::test(start_paused = true)]
async fn the_row_moves_by_one_reservation_for_each_request_and_others_go_on() {
    let database = Database::new(1);
    database.put("orders", &[]);
    let all = servers(1, std::slice::from_ref(&database)).await;
    let mut last = all[0].incr("orders").await.unwrap();
    for _ in 0..50 {
        sleep(Duration::from_secs(1)).await;
        let (next, reservations) = (database.next("orders"), database.state().reservations);
        let (own, other) = tokio::join!(range(&all[0], 1, Some(next - 1)), all[0].incr("orders"));
        assert!(own.unwrap().first >= next && other.unwrap() > last);
        last = all[0].incr("orders").await.unwrap();
        assert!(database.state().reservations - reservations <= 1);
        assert!(database.next("orders") - next <= 110, "the cache, and what was requested");
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_of_a_missing_or_ended_sequence_gets_its_refusal() {
    let database = Database::new(1);
    let all = servers(1, std::slice::from_ref(&database)).await;
    assert_eq!(range(&all[0], 1, Some(5)).await, Err(SequenceRefusal::NoSuch));
    database.put("orders", &[]);
    all[0].sequences.drop_sequence(&orders()).await.unwrap();
    assert!(matches!(range(&all[0], 1, Some(5)).await, Err(SequenceRefusal::Dropped { .. })));
    database.state().is_down = true;
    let store = range(&all[0], 1, Some(5)).await.unwrap_err();
    assert!(matches!(store, SequenceRefusal::Store(_)), "{store:?}");
}

/// The segments of several stores come in turn. A range of the store that is behind is skipped, and the next one comes
/// from another store, at the latest.
#[tokio::test(start_paused = true)]
async fn of_several_stores_the_one_that_is_behind_costs_one_range_for_each_request() {
    let databases = [Database::new(1), Database::new(2)];
    databases[0].put("orders", &["increment", "2", "offset", "1", "cache", "10"]);
    databases[1].put("orders", &["increment", "2", "offset", "2", "cache", "10", "start", "10000"]);
    let all = servers(2, &databases).await;
    let mut last = 0;
    let mut refused = 0;
    for round in 0..40 {
        let before: Vec<u64> = databases.iter().map(|database| database.state().reservations).collect();
        match range(&all[round % 2], 1, Some(last)).await {
            Ok(run) => {
                assert!(run.first > last);
                last = run.last_of(0);
            }
            Err(SequenceRefusal::NotAbove { above, first }) => {
                assert!(above == last && first <= last);
                refused += 1;
            }
            Err(refusal) => panic!("{refusal:?}"),
        }
        let fetches = databases.iter().zip(before).map(|(database, before)| database.state().reservations - before);
        assert!(fetches.sum::<u64>() <= 3, "a fetch in flight, one more, and one ahead");
    }
    assert!(last > 10_000 && refused <= 4, "at {last}, {refused} refused");
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_was_in_flight_is_not_the_only_one() {
    // A poll may hold a connection until the slow reply is there: in some of these phases it does not.
    let mut in_flight = 0;
    for phase_ms in (0..1_000).step_by(50) {
        let database = Database::new(1);
        database.put("orders", &["cache", "10"]);
        let all = servers(2, std::slice::from_ref(&database)).await;
        for server in &all {
            server.incr("orders").await.unwrap();
        }
        sleep(Duration::from_millis(1_000 + phase_ms)).await;
        // A slow fetch here, of values below those that the other server reserves while the reply is on its way.
        let next = database.next("orders");
        database.state().latency = Duration::from_millis(800);
        let slow = {
            let sequences = Arc::clone(&all[0].sequences);
            let ask = [SequenceRequest { values: 50, times: 1 }];
            tokio::spawn(async move { draw(&sequences, "orders", &ask).await })
        };
        while database.next("orders") == next {
            sleep(Duration::from_millis(1)).await;
        }
        database.state().latency = Duration::from_millis(2);
        let last = range(&all[1], 40, None).await.unwrap().last_of(0);
        let status = all[0].sequences.status_of(hash_of(b"orders"), "orders").unwrap();
        in_flight += u32::from(status.asked > 0);
        let run = range(&all[0], 1, Some(last)).await.unwrap();
        assert!(run.first > last, "{run:?} is not above {last}");
        slow.await.unwrap().1.unwrap();
    }
    assert!(in_flight > 5, "{in_flight}");
}

#[tokio::test(start_paused = true)]
async fn near_the_max_a_range_has_the_values_that_are_left() {
    for cache in ["0", "10", "100"] {
        let database = Database::new(1);
        database.put("orders", &["max", "25", "cache", cache]);
        let all = servers(1, std::slice::from_ref(&database)).await;
        let mut given = Vec::new();
        let refusal = loop {
            match range(&all[0], 10, None).await {
                Ok(run) => given.push((run.first, run.values)),
                Err(refusal) => break refusal,
            }
        };
        assert_eq!((given, refusal), (vec![(1, 10), (11, 10), (21, 5)], SequenceRefusal::AtMax { max: 25 }), "{cache}");
    }
}

/// A client with a local supply returns values for a minute after it requested them, and does not learn of a drop.
#[tokio::test(start_paused = true)]
async fn a_fresh_sequence_waits_for_servers_and_for_supplies_of_clients() {
    for (is_shared, expected_ms) in [(true, 65_000), (false, 60_000)] {
        let database = Database::new(1);
        let server = Server::start(vec![database.store(is_shared)]);
        sleep(Duration::from_secs(3)).await;
        let how = CreateOptions { is_fresh: true, ..CreateOptions::default() };
        server.sequences.create(orders(), Spec::default(), None, how).await.unwrap();
        assert_eq!(database.state().fresh_after_ms, Some(expected_ms));
    }
}
