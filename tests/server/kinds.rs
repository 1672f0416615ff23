//! Every kind of ID over the wire: unique, in order where the kind promises it, and readable by its own libraries.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::Server;
use crate::support::program::run_for;

/// Words behind `--generator NAME`, and whether the IDs ascend.
const KINDS: [(&str, bool); 23] = [
    ("fork", true),
    ("twitter", true),
    ("leaf", true),
    ("keets", true),
    ("discord", true),
    ("sonyflake", true),
    ("sonyflake2", true),
    ("baidu time:30 worker:20 epoch 1735689600000", true),
    ("redis-lua one-server 0", true),
    ("icicle", true),
    ("chronos one-server 0", true),
    ("pd one-server 0", true),
    ("js53", true),
    ("timestamp-ms one-server 0", true),
    ("timestamp-us one-server 0", true),
    ("uuid1", false),
    ("uuid4", false),
    ("uuid6", true),
    ("uuid7", true),
    ("objectid", true),
    ("objectid-decimal", true),
    ("ksuid", true),
    ("hibernate", false),
];

/// Layouts of declared fields, and formats.
const OTHERS: [(&str, bool); 5] = [
    (
        "layout time:39@1ms idc:2 server-id:7 business:4 counter:7 epoch 2016-01-01T00:00:00+08:00 idc 1 business 3 \
         counter-start 0..9",
        true,
    ),
    ("layout time:41@1ms server-id:5 counter:8 random:9 epoch 2020-01-01T00:00:00Z format base62 prefix O-", true),
    ("layout time:40@100us counter:10 noise:13 epoch 2026-01-01T00:00:00Z one-server 0 format base32", true),
    // The widest layout.
    ("layout time:41@1ms server-id:10 counter:12 noise:97", true),
    ("layout time:41@1ms server-id:10 counter:12 noise:97 format base58", true),
];

/// Options with which a draw above the kind's capacity waits.
const PATIENT: [&str; 4] = ["--id-max-wait-ms", "3600000", "--loglevel", "warning"];

/// Starts a server with these generators, named `g0`, `g1` and so on.
fn serve<'a>(declarations: impl IntoIterator<Item = &'a str>) -> Server {
    let words =
        declarations.into_iter().enumerate().map(|(at, declaration)| format!("--generator g{at} {declaration}"));
    let words = words.collect::<Vec<_>>().join(" ");
    Server::start(&PATIENT.into_iter().chain(words.split_whitespace()).collect::<Vec<_>>())
}

/// Returns the words of a request of this kind behind the generator's name.
fn request(declaration: &str) -> &'static [&'static str] {
    if declaration.starts_with("redis-lua") { &["shard", "53"] } else { &[] }
}

/// Draws `count` IDs of a generator in hundreds, as texts.
fn draw(port: u16, generator: usize, count: usize, request: &[&str]) -> Vec<String> {
    let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
    let mut connection = client.get_connection().expect("connected");
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let mut pipe = redis::pipe();
        for _ in 0..(count - ids.len()).div_ceil(100).min(10) {
            pipe.cmd("MGETID").arg(100).arg(format!("g{generator}")).arg(request);
        }
        ids.extend(pipe.query::<Vec<Vec<String>>>(&mut connection).expect("IDs").into_iter().flatten());
    }
    ids
}

/// Returns true if the IDs ascend. Texts of one width ascend as bytes; decimal numbers ascend by length, then as bytes.
fn ascend(ids: &[String]) -> bool {
    ids.is_sorted_by(|a, b| (a.len(), a) < (b.len(), b))
}

/// Draws `each` IDs of a generator on each of `connections`, and asserts that they are unique and in order.
fn check(port: u16, generator: usize, (declaration, is_ordered): (&str, bool), connections: usize, each: usize) {
    let request = request(declaration);
    let draw_each = move || draw(port, generator, each, request);
    let clients: Vec<_> = (0..connections).map(|_| std::thread::spawn(draw_each)).collect();
    let mut all = HashSet::with_capacity(connections * each);
    let mut drawn = 0;
    for client in clients {
        let ids = client.join().expect("the client ends well");
        assert!(!is_ordered || ascend(&ids), "{declaration}: in order on each connection");
        drawn += ids.len();
        all.extend(ids);
    }
    assert!(drawn >= connections * each);
    assert_eq!(all.len(), drawn, "{declaration}: an ID was issued twice");
}

#[test]
fn ids_of_each_kind_are_unique_and_in_order() {
    let kinds = || KINDS.into_iter().chain(OTHERS);
    let server = serve(kinds().map(|(declaration, _)| declaration));
    let port = server.port;
    std::thread::scope(|scope| {
        for (at, kind) in kinds().enumerate() {
            scope.spawn(move || check(port, at, kind, 2, 300));
        }
    });
}

#[test]
#[ignore = "needs the release binary: a million of each takes too long without optimization"]
fn a_million_ids_of_each_kind_over_fifty_connections_are_unique_and_in_order() {
    for kind in KINDS.into_iter().chain(OTHERS) {
        // This kind issues a thousand IDs a second: a million would take a quarter of an hour.
        let is_slow = kind.0.starts_with("timestamp-ms");
        let (connections, each) = if is_slow { (10, 1000) } else { (50, 20_000) };
        check(serve([kind.0]).port, 0, kind, connections, each);
    }
}

#[test]
fn every_kind_is_here() {
    let words = KINDS.map(|(declaration, _)| declaration.split(' ').next().expect("a word"));
    for kind in getid_core::KINDS.iter().filter(|kind| kind.word != "layout") {
        assert!(words.contains(&kind.word), "{} has no case", kind.word);
    }
}

/// Statistics of the bits of many IDs in sequence.
struct Bits {
    ones: u64,
    runs: u64,
    count: u64,
    last: Option<bool>,
    /// Number of ones at each bit position.
    at: [u64; 128],
    ids: u64,
}

impl Bits {
    fn of(ids: impl Iterator<Item = u128>, mask: u128) -> Bits {
        let mut bits = Bits { ones: 0, runs: 0, count: 0, last: None, at: [0; 128], ids: 0 };
        for id in ids {
            bits.ids += 1;
            for place in (0..128).filter(|place| mask >> place & 1 == 1) {
                let bit = id >> place & 1 == 1;
                bits.count += 1;
                bits.ones += u64::from(bit);
                bits.at[place] += u64::from(bit);
                bits.runs += u64::from(bits.last != Some(bit));
                bits.last = Some(bit);
            }
        }
        bits
    }

    /// Monobit and runs tests (NIST SP 800-22, sections 2.1 and 2.3), with bounds of six standard deviations. Chance
    /// fails one of these 250 figures once in two million runs.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn check(&self, what: &str, mask: u128) {
        let near = |found: u64, expected: f64, deviation: f64, figure: &str| {
            let off = (found as f64 - expected) / deviation;
            assert!(off.abs() < 6.0, "{what}: {figure} is {found}, {off:.1} deviations from {expected}");
        };
        let n = self.count as f64;
        near(self.ones, n / 2.0, n.sqrt() / 2.0, "the number of ones");
        let share = self.ones as f64 / n;
        let product = share * (1.0 - share);
        near(self.runs, 2.0 * n * product, 2.0 * n.sqrt() * product, "the number of runs");
        let ids = self.ids as f64;
        for place in (0..128).filter(|place| mask >> place & 1 == 1) {
            near(self.at[place], ids / 2.0, ids.sqrt() / 2.0, &format!("the number of ones at bit {place}"));
        }
    }
}

fn number_of(uuid: &str) -> u128 {
    u128::from_str_radix(&uuid.replace('-', ""), 16).expect("a UUID")
}

#[test]
fn uuid4_and_noise_are_random() {
    const LOW_62: u128 = (1 << 62) - 1;
    const COUNT: usize = 4000;
    let v4_mask = !(0xf << 76 | 0b11 << 62);
    let noisy = "layout time:40@1ms server-id:3 counter:5 noise:15 epoch 2026-01-01T00:00:00Z";
    let server = serve(["uuid4", "uuid7", noisy]);
    let v4 = draw(server.port, 0, COUNT, &[]);
    Bits::of(v4.iter().map(|id| number_of(id)), v4_mask).check("uuid4", v4_mask);
    let v7 = draw(server.port, 1, COUNT, &[]);
    Bits::of(v7.iter().map(|id| number_of(id)), LOW_62).check("uuid7", LOW_62);
    let noise = draw(server.port, 2, COUNT, &[]);
    let mask = (1 << 15) - 1;
    Bits::of(noise.iter().map(|id| id.parse().expect("a number")), mask).check("noise", mask);
}

#[test]
fn the_checks_of_randomness_find_a_counter() {
    let caught = std::panic::catch_unwind(|| Bits::of(0..4000, 0xffff).check("a counter", 0xffff));
    assert!(caught.is_err());
}

/// Starts a server with a generator for each parser, and runs the script with the IDs.
fn read_by(script: &mut Command) -> String {
    let generators = "--server-id 363 --id-range 10 --shard-range 9 --random-range 2 \
        --generator tweets twitter --generator chat discord --generator v1 uuid1 --generator v4 uuid4 \
        --generator v6 uuid6 --generator v7 uuid7 --generator document objectid";
    let server = Server::start(&generators.split_whitespace().collect::<Vec<_>>());
    run_for(script.env("GETID_PORT", server.port.to_string()), Duration::from_mins(2))
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

#[test]
#[ignore = "needs python3 with redis, pymongo and snowflake-id (GETID_TEST_PYTHON)"]
fn python_libraries_read_the_ids() {
    let python = std::env::var_os("GETID_TEST_PYTHON").expect("GETID_TEST_PYTHON");
    let output = read_by(Command::new(python).arg(script("kinds.py")));
    assert_eq!(output, "ok snowflake-id\nok uuid\nok bson\n");
}

#[test]
#[ignore = "needs node with redis, @sapphire/snowflake, bson and uuid (GETID_TEST_NODE_DIR)"]
fn node_libraries_read_the_ids() {
    let dir = std::env::var_os("GETID_TEST_NODE_DIR").expect("GETID_TEST_NODE_DIR");
    let copy = Path::new(&dir).join("kinds.mjs");
    std::fs::copy(script("kinds.mjs"), &copy).expect("copied");
    let output = read_by(Command::new("node").arg(copy));
    assert_eq!(output, "ok @sapphire/snowflake\nok uuid\nok bson\n");
}
