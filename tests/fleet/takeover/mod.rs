//! Takeovers by real servers on real databases: kill -9 under load, a holder that stalls, a clean stop, a network cut,
//! a store that stops, and a store that is restored to an older state.
//!
//! Each test ends with the judge: no ID repeats, and no ID is smaller than an ID given before its request. Tests print
//! figures. `GETID_FLEET_LONG=1` runs as many takeovers and as long pauses as those in `docs/fleet.md`.

mod etcd;
pub(crate) mod fleet;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::backend::{Backend, restore, save};
use crate::support::mariadb::MariadbServer;
use crate::support::postgres::PostgresServer;
use crate::support::scenarios::{scenarios, selected_scenarios};
use crate::support::{eventually, getid, program};
use fleet::{Client, Fleet, SERVER_ID, init, median};

type Story = fn(&mut dyn Backend);

const STORIES: &[(&str, Story)] = scenarios![
    Story;
    killed_again_and_again,
    stopped,
    stands_still,
    cable_is_cut,
    store_stops,
    store_goes_back,
];

/// Runs all stories on a store, each with no claims at first.
fn play_all(store: &mut dyn Backend) {
    for story in selected_scenarios(&store.url(), STORIES) {
        store.clear();
        story(store);
    }
}

fn is_long() -> bool {
    std::env::var_os("GETID_FLEET_LONG").is_some()
}

fn two(store: &dyn Backend) -> Fleet {
    init(&store.url());
    Fleet::start(&[store.url(), store.url()], &[])
}

fn killed_again_and_again(store: &mut dyn Backend) {
    killed(store, if is_long() { 20 } else { 2 });
}

/// The holder is killed under load, `rounds` times.
pub(crate) fn killed(store: &dyn Backend, rounds: usize) {
    let mut fleet = two(store);
    let mut holder = fleet.holder();
    let load = fleet.load(4);
    let mut times = Vec::new();
    for _ in 0..rounds {
        let before = load.count();
        eventually("a load", || load.count() > before + 1000);
        let killed = Instant::now();
        fleet.kill(holder);
        times.push(load.first_of_others(holder, killed, &mut fleet) - killed);
        fleet.start_again(holder);
        holder = fleet.holder();
    }
    let ahead_ms = load.judge();
    let median = median(&mut times);
    println!("figure: kill -9, {} takeovers: median {median:?}, max {:?}", times.len(), times.last().unwrap());
    println!("figure: at most {ahead_ms} ms ahead of the clock");
}

/// A clean stop: the other server does not wait for silence.
fn stopped(store: &mut dyn Backend) {
    let mut fleet = two(store);
    let mut holder = fleet.holder();
    let load = fleet.load(4);
    let (mut times, mut clean) = (Vec::new(), 0);
    for _ in 0..if is_long() { 20 } else { 2 } {
        let before = load.count();
        eventually("a load", || load.count() > before + 1000);
        // A standby that has seen a beat of the claim need not wait in case the store went back.
        std::thread::sleep(Duration::from_secs(1));
        let begin = Instant::now();
        fleet.server(holder).signal(Signal::SIGTERM);
        times.push(load.first_of_others(holder, begin, &mut fleet) - begin);
        let is_clean = fleet.server(holder).wait().success();
        if !is_clean {
            // The store stalled meanwhile.
            fleet.server(holder).wait_log("the last save failed: claim store ");
        }
        clean += usize::from(is_clean);
        fleet.start_again(holder);
        holder = fleet.holder();
    }
    load.judge();
    assert!(clean > 0, "no stop was clean");
    let median = median(&mut times);
    println!("figure: clean stop, {} takeovers: median {median:?}, max {:?}", times.len(), times.last().unwrap());
}

/// The holder stalls. Requests sent meanwhile get their answers afterwards, but never an older ID.
fn stands_still(store: &mut dyn Backend) {
    let mut fleet = two(store);
    let load = fleet.load(4);
    for seconds in if is_long() { &[1, 5, 20][..] } else { &[1, 4][..] } {
        let holder = fleet.holder();
        let before = load.count();
        eventually("a load", || load.count() > before + 1000);
        let begin = Instant::now();
        fleet.server(holder).signal(Signal::SIGSTOP);
        let pause = Duration::from_secs(*seconds);
        let mut late = Client::default();
        if pause > Duration::from_secs(3) {
            let first = load.first_of_others(holder, begin, &mut fleet);
            println!("figure: SIGSTOP, IDs again after {:?}", first - begin);
            std::thread::sleep(pause.saturating_sub(begin.elapsed()));
            // The new holder has given IDs before this request.
            late.send(fleet.port(holder), 1).unwrap();
        } else {
            std::thread::sleep(pause);
        }
        let largest = load.largest();
        fleet.server(holder).signal(Signal::SIGCONT);
        if pause > Duration::from_secs(3) {
            let message = late.answers(1, Duration::from_secs(20)).unwrap();
            match &message[..] {
                [Err(message)] => {
                    assert!(message.starts_with("-LOADING") || message.starts_with("-MISCONF"), "{message}");
                }
                [Ok(id)] => assert!(*id > largest, "an older ID came late: {id}"),
                _ => panic!("no answer: {message:?}"),
            }
        }
    }
    fleet.holder();
    load.judge();
}

/// The holder does not reach the store any more, but clients reach both servers.
fn cable_is_cut(store: &mut dyn Backend) {
    let [first, second] = [(), ()].map(|()| store.proxy());
    let (proxies, urls) = ([first.0, second.0], [first.1, second.1]);
    init(&store.url());
    let mut fleet = Fleet::start(&urls, &[]);
    let load = fleet.load(4);
    for _ in 0..if is_long() { 10 } else { 2 } {
        let holder = fleet.holder();
        let before = load.count();
        eventually("a load", || load.count() > before + 1000);
        let begin = Instant::now();
        proxies[holder].cut(true);
        let first = load.first_of_others(holder, begin, &mut fleet);
        println!("figure: cable cut, IDs again after {:?}", first - begin);
        let message = fleet.try_get_id(holder).unwrap_err();
        assert!(message.starts_with("-MISCONF") || message.starts_with("-LOADING"), "{message}");
        proxies[holder].cut(false);
        // It takes the claim again if the other server stalled meanwhile.
        eventually("the server is a standby", || {
            fleet.try_get_id(holder).map_or_else(|message| message.starts_with("-LOADING"), |_| true)
        });
    }
    load.judge();
}

/// The store stops for longer than any server may give IDs, and starts again unchanged.
fn store_stops(store: &mut dyn Backend) {
    let mut fleet = two(store);
    let load = fleet.load(4);
    fleet.holder();
    eventually("a load", || load.count() > 1000);
    store.kill();
    let stopped = Instant::now();
    // The holder, one of the two servers, reports it.
    eventually("the holder's time is over", || {
        let message = [fleet.try_get_id(0), fleet.try_get_id(1)];
        let is_over =
            |message: &Result<u64, String>| message.as_ref().is_err_and(|message| message.starts_with("-MISCONF"));
        message.iter().all(Result::is_err) && message.iter().any(is_over)
    });
    println!("figure: the store stopped, IDs for {:?} more", stopped.elapsed());
    std::thread::sleep(Duration::from_secs(if is_long() { 60 } else { 3 }));
    store.start_again();
    let began = Instant::now();
    fleet.holder();
    println!("figure: the store is back, IDs after {:?}", began.elapsed());
    load.judge();
}

/// The store stops and starts again with an older state: no server gives an ID until an operator sets the position.
fn store_goes_back(store: &mut dyn Backend) {
    let mut fleet = two(store);
    let load = fleet.load(4);
    fleet.holder();
    eventually("a load", || load.count() > 1000);
    store.kill();
    let old = tempfile::tempdir().unwrap();
    save(store, old.path());
    store.start_again();
    let begin = load.count();
    fleet.holder();
    eventually("a load after the copy", || load.count() > begin + 5000);
    std::thread::sleep(Duration::from_secs(5));
    store.kill();
    std::thread::sleep(Duration::from_secs(if is_long() { 60 } else { 3 }));
    restore(store, old.path());
    store.start_again();
    for at in [0, 1] {
        fleet.server(at).wait_log("went back");
    }
    for at in [0, 1] {
        // The log may be ahead of replies, which still have the store's earlier error.
        eventually("clients get the error", || {
            let message = fleet.try_get_id(at).unwrap_err();
            assert!(message.starts_with('-'), "no answer: {message}");
            message.starts_with("-MISCONF") && message.contains("went back")
        });
    }
    let past = load.largest().to_string();
    let advance = ["state", "advance", "--store", &store.url(), "--server-id", SERVER_ID, "--past-id", &past];
    program::run(getid().args(advance), "");
    fleet.holder();
    load.judge();
}

#[test]
#[ignore = "needs postgresql"]
fn on_postgres() {
    play_all(&mut PostgresServer::start(&[]));
}

#[test]
#[ignore = "needs mariadb"]
fn on_mariadb() {
    play_all(&mut MariadbServer::start(&[]));
}
