//! Tests of the tools of a fleet's record, over a store in memory.

use std::sync::Arc;

use getid_core::{Declaration, Layout, SavePoint, no_dates};

use super::forget::{ForgetGeneratorArgs, forget};
use super::init::{ClusterInitArgs, init};
use super::show::{ClusterShowArgs, show};
use crate::cli::claim_store::ClaimStore;
use crate::cli::claim_store::testing::*;
use getid_config::Config;
use getid_engine::claim::{Mark, RecordLocation};
use getid_store::records::Key;

fn declared(words: &str) -> Arc<Declaration> {
    Arc::new(Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).unwrap())
}

fn config() -> Config {
    Config { generators: vec![declared("tweets twitter datacenter 3 worker 1")], ..Config::default() }
}

fn run_init(words: &str, config: &Config, store: &ClaimStore) -> Result<String, String> {
    let args: ClusterInitArgs = parse_args(words)?;
    output_of(|out| init(&args, config, store, NOW, out))
}

fn run_show(words: &str, store: &ClaimStore) -> Result<String, String> {
    let args: ClusterShowArgs = parse_args(words)?;
    output_of(|out| show(&args, store, out))
}

fn run_forget(words: &str, store: &ClaimStore) -> Result<String, String> {
    let args: ForgetGeneratorArgs = parse_args(words)?;
    output_of(|out| forget(&args, store, NOW, out))
}

/// Options that make the whole configuration count, as `--config FILE` does.
const CONFIG: &str = "--config fleet.conf";

#[test]
fn init_creates_the_record_once_and_compares_later() {
    let (memory, store) = empty();
    let refused = run_show("", &store).unwrap_err();
    let none =
        "memory: there is no fleet record here; if address and prefix are right, `getid cluster init` creates it";
    assert_eq!(refused, none);

    let lines = "  epoch      1420041600000 (2014-12-31T16:00:00.000Z)\n  \
           id-range   2: server-ids 0 to 3\n  \
           auto       2-3\n  \
           generator  tweets layout time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657\n";
    let made = run_init("--auto 2-3 --new 0", &config(), &store).unwrap();
    let (head, rest) = made.split_once('\n').unwrap();
    assert_eq!(head, "cluster: memory, created");
    assert!(rest.contains("auto       2-3\n  generator  tweets "), "{made} as {lines}");
    assert!(rest.ends_with("  new        server-id 0: a record was created for its first start\n"));
    assert!(stored_claim(&memory, 0).is_never_used());

    // A repeated run changes nothing, with and without a configuration.
    let record = memory.get(&Key::of_cluster());
    for words in [format!("--auto 2-3 --new 0 {CONFIG}"), "--new 0".to_owned(), String::new()] {
        let again = run_init(&words, &config(), &store).unwrap();
        assert!(again.starts_with("cluster: memory, unchanged\n"), "{again}");
        assert_eq!(again.contains("server-id 0: it has a record already, which is unchanged"), !words.is_empty());
        assert_eq!(memory.get(&Key::of_cluster()), record);
    }
    // A later run adds server-ids and generators.
    let more = Config { generators: vec![declared("doc objectid")], ..Config::default() };
    let added = run_init(&format!("--auto 1 {CONFIG}"), &more, &store).unwrap();
    assert!(added.starts_with("cluster: memory, changed\n") && added.contains("  auto       1-3\n"), "{added}");
    assert!(added.contains("  generator  tweets ") && added.contains("  generator  doc "), "{added}");

    put(&memory, &held(1));
    let shown = run_show("", &store).unwrap();
    assert!(
        shown.starts_with("cluster: memory\n") && shown.ends_with("1 held, 1 free, 0 moved, 0 unusable\n"),
        "{shown}"
    );
    let json: serde_json::Value = serde_json::from_str(&run_show("--json", &store).unwrap()).unwrap();
    assert_eq!((&json["auto"], &json["id_range"], &json["claims"]["held"]), (&"1-3".into(), &2.into(), &1.into()));
}

#[test]
fn init_refuses_another_fleet() {
    let (memory, store) = empty();
    run_init("", &config(), &store).unwrap();
    let record = memory.get(&Key::of_cluster());
    let layout = Layout::new(getid_core::Epoch::DEFAULT, 10, 11, 0).unwrap();
    let wide = Config { layout, ..Config::default() };
    let other = Config { generators: vec![declared("tweets uuid7")], ..Config::default() };
    for (config, expected) in [
        (&wide, "id-range is 10, and this fleet's is 2"),
        (&other, "generator 'tweets' is declared here as 'uuid7', and in this fleet as"),
    ] {
        let refused = run_init(CONFIG, config, &store).unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
        assert_eq!(memory.get(&Key::of_cluster()), record);
    }
}

#[test]
fn server_ids_belong_to_servers_or_to_auto() {
    let (memory, store) = fleet();
    put(&memory, &free(1));
    let config = Config::default();
    for (words, expected) in [
        ("--auto 4", "--auto: server-id 4 does not fit id-range 2: at most 3"),
        ("--new 0,7", "--new: server-id 7 does not fit id-range 2: at most 3"),
        (
            "--auto 0-2",
            "--auto: there is already a record of server-id 1, which servers name in their configuration: omit it",
        ),
        (
            "--new 2-3",
            "--new: 'server-id auto' may take server-id 3, so no server may name it in its configuration; the first \
             holder creates its record",
        ),
        ("--auto 2 --new 2", "--new: 'server-id auto' may take server-id 2"),
    ] {
        let refused = run_init(words, &config, &store).unwrap_err();
        assert!(refused.starts_with(expected), "{words}: {refused}");
    }
    assert!(run_init("--auto 4-", &config, &store).unwrap_err().contains("must be server-ids such as 4-31,40"));
    assert_eq!(stored_claim(&memory, 1), free(1));
    assert!(memory.get(&Key::of_claim(0)).is_none() && memory.get(&Key::of_claim(2)).is_none());
    // A server-id of `auto` may have a record, and may be listed again.
    put(&memory, &free(3));
    assert!(run_init("--auto 2-3", &config, &store).is_ok());
}

#[test]
fn a_record_that_cannot_be_read_is_refused() {
    let (memory, store) = fleet();
    let mut row = memory.get(&Key::of_cluster()).unwrap();
    row.text = row.text.replace("auto 3", "auto 1");
    memory.set(Key::of_cluster(), Some(row));
    let refused = run_show("", &store).unwrap_err();
    assert!(refused.starts_with("memory: cannot use the record 'cluster': its checksum is"), "{refused}");
    assert_eq!(run_init("", &Config::default(), &store).unwrap_err(), refused);
}

#[test]
fn a_generator_is_forgotten_once_no_server_has_it() {
    let (memory, store) = empty();
    assert!(
        run_forget("tweets", &store)
            .unwrap_err()
            .ends_with("there is no fleet record here, so there is nothing to forget")
    );
    let config = config();
    run_init(&format!("--new 0 {CONFIG}"), &config, &store).unwrap();
    let with_tweets = |claim: getid_engine::claim::fleet::ClaimRecord| {
        let declarations = claim.record.declarations.with(&config.generators, 0, |_| 0).unwrap();
        claim.with_declarations(Arc::new(declarations))
    };
    let moved = Mark::MovedTo(RecordLocation::of_store("etcd://b"));
    put(&memory, &getid_engine::claim::fleet::ClaimRecord { mark: Some(moved), ..with_tweets(free(2)) });
    put(&memory, &with_tweets(free(3)));
    let beats = BeatThread::of(&memory, with_tweets(held(1)));

    let id = "--past-id 1992648317203087360";
    for (words, expected) in [
        ("tweet".to_owned(), "no generator 'tweet' in this fleet: it has tweets"),
        (
            "tweets".to_owned(),
            "generator 'tweets' gives IDs by the clock: name the largest in any table with --past-id ID",
        ),
        ("tweets --past-id x".to_owned(), "--past-id x: generator 'tweets' gives no such IDs (tweets "),
        (
            format!("tweets {id}"),
            "server-id 1 is held by host-a (10.1.0.7:7890, a.example), which wrote it just now, so the generator may \
             still give IDs: stop that server",
        ),
    ] {
        let refused = run_forget(&words, &store).unwrap_err();
        assert!(refused.starts_with(expected), "{words}: {refused}");
    }
    assert!(stored_claim(&memory, 3).record.declarations.find("tweets").is_some(), "a refusal has written");
    drop(beats);
    let text = run_forget(&format!("tweets {id}"), &store).unwrap();
    assert!(text.contains("  forgotten  server-id 1: must begin past 1992648317203087360\n"), "{text}");
    assert!(text.ends_with("  forgotten  'tweets': servers may declare it differently\n"), "{text}");
    for server_id in [1, 3] {
        let claim = stored_claim(&memory, server_id);
        assert!(claim.holder().is_none() && claim.record.declarations.find("tweets").is_none());
        assert_eq!(claim.record.declarations.forgotten()[0].past_id, "1992648317203087360");
        assert_ne!(claim.record.point, SavePoint::NOTHING);
    }
    assert!(stored_claim(&memory, 2).record.declarations.find("tweets").is_some(), "it went elsewhere");
    let other = Config { generators: vec![declared("tweets uuid7")], ..Config::default() };
    assert!(run_init(CONFIG, &other, &store).is_ok());
}
