//! Many lives from seeds: every fault in every order, and no value is given twice.

use std::sync::Arc;
use std::time::Duration;

use getid_core::server::{Key, SequenceRefusal, SequenceRequest};
use getid_engine::generators::sequence::{SequenceNotes, SequenceSettings};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::database::{Database, Faults};
use crate::support::Random;
use crate::world::{Oracle, Server, draw, settings, values_of};

const NAMES: [&str; 4] = ["plain", "zero", "one", "odd"];

#[test]
fn no_value_twice_in_any_story() {
    let stories = std::env::var("GETID_SEQUENCE_STORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let mut refusals = std::collections::BTreeMap::<String, u64>::new();
    let mut given = 0;
    for seed in 0..stories {
        let oracle = play(seed);
        oracle.refusals().into_iter().for_each(|(word, count)| *refusals.entry(word).or_default() += count);
        given += NAMES.iter().map(|name| oracle.given(name)).sum::<usize>();
    }
    println!("{given} values; {refusals:?}");
    // A story without values, or without refusals, proves nothing.
    assert!(given > 1_000 * usize::try_from(stories).unwrap(), "{given}");
    assert!(["Busy", "Store"].iter().all(|word| refusals.contains_key(*word)), "{refusals:?}");
}

#[test]
fn one_seed() {
    if let Some(seed) = std::env::var("GETID_SIM_SEED").ok().and_then(|text| text.parse().ok()) {
        play(seed);
    }
}

fn play(seed: u64) -> Oracle {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(story(seed))
}

async fn story(seed: u64) -> Oracle {
    let mut random = Random(seed);
    let oracle = Oracle::default();
    let database = Database::new(random.next());
    database.put("plain", &[]);
    database.put("zero", &["cache", "0"]);
    database.put("one", &["cache", "1"]);
    database.put("odd", &["increment", "7", "offset", "3", "start", "1000", "cache", "20"]);
    let servers = random.within(1, 2);
    let is_shared = servers > 1 || random.one_in(2);
    let dir = crate::support::folder();
    let notes = |server: usize| SequenceNotes::in_file(dir.path().join(server.to_string()));
    let mut tasks = JoinSet::new();
    for server in 0..usize::try_from(servers).unwrap() {
        let (database, oracle, random) = (Arc::clone(&database), oracle.clone(), Random(random.next()));
        let notes = notes(server);
        tasks.spawn(async move { lives(server, database, is_shared, notes, oracle, random, seed).await });
    }
    let chaos = tokio::spawn(chaos(Arc::clone(&database), is_shared, Random(random.next())));
    tasks.join_all().await;
    chaos.abort();
    // After all faults have ended, all requests are served.
    {
        let mut state = database.state();
        state.faults = Faults::default();
        (state.is_down, state.is_stopped, state.latency) = (false, false, Duration::from_millis(1));
    }
    // By then, statements of killed servers are done.
    sleep(Duration::from_secs(10)).await;
    let start = |server| Server::start_with(vec![database.store(is_shared)], settings(), notes(server));
    // A killed server blocks the store until it runs again: it may have had values that the store lost.
    let others: Vec<Server> = (1..usize::try_from(servers).unwrap()).map(start).collect();
    let server = start(0);
    sleep(Duration::from_secs(10)).await;
    for other in others {
        other.stop().await;
    }
    for name in NAMES {
        let value = server.incr(name).await.unwrap_or_else(|refusal| panic!("seed {seed}: {name}: {refusal:?}"));
        oracle.replied(9, name, i64::MIN, &[value], seed);
    }
    sleep(Duration::from_secs(10)).await;
    let left: u64 = server.sequences.statuses(100).iter().map(|(_, status)| status.left).sum();
    let stopped = server.stop().await;
    assert_eq!((stopped.given_back, stopped.lost), (left, 0), "seed {seed}: a clean stop");
    oracle
}

/// Lives of one server, which is killed and stopped repeatedly, with its clients.
async fn lives(
    server: usize,
    database: Arc<Database>,
    is_shared: bool,
    notes: SequenceNotes,
    oracle: Oracle,
    mut random: Random,
    seed: u64,
) {
    for _ in 0..random.within(2, 6) {
        let settings = SequenceSettings { wait_ms: random.pick(&[100, 1_000]), ..settings() };
        let own = Server::start_with(vec![database.store(is_shared)], settings, notes.clone());
        let mut clients = JoinSet::new();
        for _ in 0..random.within(1, 6) {
            let (sequences, oracle) = (Arc::clone(&own.sequences), oracle.clone());
            let mut random = Random(random.next());
            clients.spawn(async move {
                loop {
                    client(server, &sequences, &oracle, &mut random, seed).await;
                }
            });
        }
        sleep(Duration::from_millis(random.within(500, 15_000))).await;
        if random.one_in(4) {
            let name = random.pick(&NAMES);
            let last = database.next(name) + i64::try_from(random.skewed(12)).unwrap();
            // Any answer will do: the store may be down.
            let _ = own.sequences.raise(&Key::new(name).unwrap(), last, false).await;
            sleep(Duration::from_millis(random.skewed(12))).await;
        }
        if random.one_in(2) {
            clients.shutdown().await;
            own.kill();
        } else {
            let stopping = tokio::spawn(own.stop());
            sleep(Duration::from_millis(random.skewed(8))).await;
            clients.shutdown().await;
            stopping.await.unwrap();
        }
        sleep(Duration::from_millis(random.skewed(12))).await;
    }
}

async fn client(
    server: usize,
    sequences: &Arc<getid_engine::generators::sequence::Sequences>,
    oracle: &Oracle,
    random: &mut Random,
    seed: u64,
) {
    let name = random.pick(&NAMES);
    let ask = |random: &mut Random| SequenceRequest {
        values: u32::try_from(if random.one_in(3) { random.skewed(8) } else { 1 }).unwrap(),
        times: u32::try_from(if random.one_in(3) { random.skewed(7) } else { 1 }).unwrap(),
    };
    let asks: Vec<SequenceRequest> = (0..random.within(1, 3)).map(|_| ask(random)).collect();
    // `cache 0` is in order over all servers.
    let place = if name == "zero" { 100 } else { server };
    let above = oracle.asks(place, name);
    let draw = draw(sequences, name, &asks);
    let given = if random.one_in(20) {
        let Ok(given) = tokio::time::timeout(Duration::from_millis(random.skewed(9)), draw).await else { return };
        given
    } else {
        draw.await
    };
    let (runs, result) = given;
    oracle.replied(place, name, above, &values_of(&runs), seed);
    match result {
        Ok(()) => {
            let asked: u64 = asks.iter().map(|ask| u64::from(ask.values) * u64::from(ask.times)).sum();
            assert_eq!(values_of(&runs).len() as u64, asked, "seed {seed}: all requested values");
        }
        Err(refusal) => {
            oracle.refused(&refusal);
            if refusal == SequenceRefusal::Closed {
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    sleep(Duration::from_millis(random.skewed(7))).await;
}

/// Makes faults happen in the database, for a time.
async fn chaos(database: Arc<Database>, is_shared: bool, mut random: Random) {
    let mut replica = database.state().replica();
    loop {
        let none = Faults::default();
        {
            let mut state = database.state();
            // An asynchronous replica lags by as long as a fault lasts.
            if is_shared && random.one_in(10) {
                state.fail_over(&replica);
            }
            replica = state.replica();
            (state.is_down, state.is_stopped, state.faults) = (false, false, none);
            state.latency = Duration::from_millis(random.pick(&[0, 1, 5, 50, 700]));
            match random.below(8) {
                0 => state.is_down = true,
                1 => state.is_stopped = true,
                2 => state.faults = Faults { lost_after: 300, ..none },
                3 => state.faults = Faults { lost_before: 300, ..none },
                4 => state.faults = Faults { refused: 300, ..none },
                5 => state.faults = Faults { late: 300, ..none },
                6 => state.faults = Faults { lost_after: 100, lost_before: 100, refused: 100, late: 100 },
                _ => {}
            }
        }
        sleep(Duration::from_millis(random.skewed(13))).await;
    }
}
