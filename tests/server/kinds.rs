//! Every kind of ID over the wire: unique, in order where the kind promises it, and readable by its own libraries.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use crate::client_matrix::rust_clients;
use crate::support::Server;
use crate::support::postgres::PostgresServer;
use crate::support::program::run_for;

/// Words behind `--generator NAME`, and whether the IDs ascend.
const KINDS: [(&str, bool); 32] = [
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
    ("instagram", true),
    ("mastodon one-server 0", true),
    ("yitter", true),
    ("tsid", true),
    ("trace64", false),
    ("ulid prefix user_", true),
    ("typeid prefix user", true),
    ("xid", true),
    ("nanoid", false),
];

/// Layouts of declared fields, and formats.
const OTHERS: [(&str, bool); 8] = [
    (
        "layout time:39@1ms idc:2 server-id:7 business:4 counter:7 epoch 2016-01-01T00:00:00+08:00 idc 1 business 3 \
         counter-start 0..9",
        true,
    ),
    ("layout time:41@1ms server-id:5 counter:8 random:9 epoch 2020-01-01T00:00:00Z format base62 prefix O-", true),
    ("nanoid alphabet base58 length 12 prefix n-", false),
    ("tsid time:41 node:8 counter:14 format integer", true),
    ("snowflake datacenter 3 format hex prefix T", true),
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
fn draw(port: u16, generator: &str, count: usize, request: &[&str]) -> Vec<String> {
    let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
    let mut connection = client.get_connection().expect("connected");
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let mut pipe = redis::pipe();
        for _ in 0..(count - ids.len()).div_ceil(100).min(10) {
            pipe.cmd("MGETID").arg(100).arg(generator).arg(request);
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
    let name = format!("g{generator}");
    let draw_each = || draw(port, &name, each, request);
    let mut all = HashSet::with_capacity(connections * each);
    let mut drawn = 0;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..connections).map(|_| scope.spawn(draw_each)).collect();
        for client in clients {
            let ids = client.join().expect("the client ends well");
            assert!(!is_ordered || ascend(&ids), "{declaration}: in order on each connection");
            drawn += ids.len();
            all.extend(ids);
        }
    });
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
    let v4 = draw(server.port, "g0", COUNT, &[]);
    Bits::of(v4.iter().map(|id| number_of(id)), v4_mask).check("uuid4", v4_mask);
    let v7 = draw(server.port, "g1", COUNT, &[]);
    Bits::of(v7.iter().map(|id| number_of(id)), LOW_62).check("uuid7", LOW_62);
    let noise = draw(server.port, "g2", COUNT, &[]);
    let mask = (1 << 15) - 1;
    Bits::of(noise.iter().map(|id| id.parse().expect("a number")), mask).check("noise", mask);
}

#[test]
fn the_checks_of_randomness_find_a_counter() {
    let caught = std::panic::catch_unwind(|| Bits::of(0..4000, 0xffff).check("a counter", 0xffff));
    assert!(caught.is_err());
}

/// Generators whose IDs libraries read, and the libraries of Python and of Node.js. `tests/clients/kinds.py` and
/// `kinds.mjs` print a line for each.
const LIBRARIES: [(&str, &str, &str); 23] = [
    ("tweets twitter", "snowflake-id", "@sapphire/snowflake"),
    ("flakes snowflake", "snowflake-id", "@sapphire/snowflake"),
    ("chat discord", "snowflake-id", "@sapphire/snowflake"),
    ("v1 uuid1", "uuid", "uuid"),
    ("v4 uuid4", "uuid", "uuid"),
    ("v6 uuid6", "uuid", "uuid"),
    ("v7 uuid7", "uuid", "uuid"),
    ("user-v7 uuid7 prefix user_", "uuid", "uuid"),
    ("document objectid", "pymongo", "bson"),
    ("ulids ulid", "python-ulid", "ulid"),
    ("ksuids ksuid", "svix-ksuid", "ksuid"),
    ("user-ksuids ksuid prefix user_", "pksuid", "ksuid"),
    ("tsids tsid", "tsidpy", "tsid-ts"),
    ("tsid-integers tsid format integer", "tsidpy", "tsid-ts"),
    ("accounts typeid prefix user_account", "typeid-python", "typeid-js"),
    ("bare typeid", "typeid-python", "typeid-js"),
    ("xids xid", "epyxid", "xid-ts"),
    ("nano nanoid", "nanoid", "nanoid"),
    ("codes nanoid alphabet 0123456789abcdef length 20", "nanoid", "nanoid"),
    ("photos instagram", "snowflake-id-toolkit", "snowflakify"),
    ("toots mastodon one-server 363", "Mastodon.py", "snowflakify"),
    ("drift yitter worker 43 one-server 363", "snowflake-id-toolkit", "snowflakify, simple-flakeid"),
    ("spans trace64", "opentelemetry-sdk", "@opentelemetry/sdk-trace-base"),
];

/// Kinds without a library here. Where their systems publish IDs, `layout-vectors.json` of the core has them.
const ROWLESS: [&str; 15] = [
    "fork",
    "leaf",
    "keets",
    "sonyflake",
    "sonyflake2",
    "baidu",
    "redis-lua",
    "icicle",
    "chronos",
    "pd",
    "js53",
    "timestamp-ms",
    "timestamp-us",
    "objectid-decimal",
    "hibernate",
];

#[test]
fn libraries_of_two_languages_read_each_kind() {
    let words = LIBRARIES.map(|(declaration, ..)| declaration.split(' ').nth(1).expect("a kind"));
    for kind in getid_core::KINDS.iter().filter(|kind| kind.word != "layout") {
        assert_ne!(words.contains(&kind.word), ROWLESS.contains(&kind.word), "{}", kind.word);
    }
}

#[test]
fn the_page_names_each_library_with_its_version() {
    let read = |path: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a file");
    let (python, node) = (read("tests/clients/requirements.txt"), read("tests/clients/package.json"));
    let page = read("docs/evidence.md");
    for (_, in_python, in_node) in LIBRARIES {
        let version = python.lines().find_map(|line| line.strip_prefix(in_python)?.strip_prefix("=="));
        let is_found = version.is_none_or(|version| page.contains(&format!("{in_python} {version}")));
        assert!(is_found, "{in_python} {version:?}");
        for library in in_node.split(", ") {
            let (_, rest) = node.split_once(&format!("\"{library}\": \"")).expect("a package");
            let version = rest.split('"').next().expect("a version");
            assert!(page.contains(&format!("{library} {version}")), "{library} {version}");
        }
    }
}

/// Starts a server with server-id 363, whose datacenter and worker are 11, with these generators.
fn serve_libraries() -> Server {
    let words = LIBRARIES.map(|(declaration, ..)| format!("--generator {declaration}")).join(" ");
    let words = format!("--server-id 363 --id-range 10 --shard-range 9 --random-range 2 {words}");
    Server::start(&words.split_whitespace().collect::<Vec<_>>())
}

/// Runs a script, and asserts that it has checked each generator.
fn check_libraries(script: &mut Command, library: impl Fn(&(&str, &'static str, &'static str)) -> &'static str) {
    let server = serve_libraries();
    // Libraries return times without a zone in that of the machine.
    let script = script.env("TZ", "UTC").env("GETID_PORT", server.port.to_string());
    let output = run_for(script, Duration::from_mins(2));
    let lines = LIBRARIES.map(|row| format!("ok {} {}", row.0.split(' ').next().expect("a name"), library(&row)));
    assert_eq!(output.lines().collect::<Vec<_>>(), lines);
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

#[test]
#[ignore = "needs python3 with the libraries of tests/clients/requirements.txt (GETID_TEST_PYTHON)"]
fn python_libraries_and_the_server_read_each_other() {
    let python = std::env::var_os("GETID_TEST_PYTHON").expect("GETID_TEST_PYTHON");
    check_libraries(Command::new(python).arg(script("kinds.py")), |row| row.1);
}

#[test]
#[ignore = "needs node with the libraries of tests/clients/package.json (GETID_TEST_NODE_DIR)"]
fn node_libraries_and_the_server_read_each_other() {
    let dir = std::env::var_os("GETID_TEST_NODE_DIR").expect("GETID_TEST_NODE_DIR");
    let copy = Path::new(&dir).join("kinds.mjs");
    std::fs::copy(script("kinds.mjs"), &copy).expect("copied");
    check_libraries(Command::new("node").arg(copy), |row| row.2);
}

/// Returns the fields of an ID by DECODEID.
fn decode(server: &Server, generator: &str, id: &str) -> HashMap<String, String> {
    let client = redis::Client::open(("127.0.0.1", server.port)).expect("an address");
    let mut connection = client.get_connection().expect("connected");
    let decoded = redis::cmd("DECODEID").arg(id).arg(generator).query(&mut connection);
    decoded.unwrap_or_else(|error| panic!("{generator} {id}: {error}"))
}

/// The arithmetic that Instagram and Mastodon published, as functions of PostgreSQL.
const FUNCTIONS: &str = "
    CREATE SEQUENCE photos_id_seq;
    CREATE FUNCTION next_id(shard_id bigint) RETURNS bigint LANGUAGE sql AS $$
        SELECT (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23
            | shard_id << 10 | nextval('photos_id_seq') % 1024 $$;
    CREATE SEQUENCE toots_id_seq;
    CREATE FUNCTION timestamp_id(table_name text) RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE ms bigint := floor(extract(epoch FROM now()) * 1000);
        BEGIN
            RETURN ms << 16 | (('x' || left(md5(table_name || 'secret' || ms), 4))::bit(16)::int
                + nextval(table_name || '_id_seq')) & 65535;
        END $$;";

/// Fields of an ID by DECODEID, and the SQL of each.
type Columns = &'static [(&'static str, &'static str)];

/// Name of a generator, a call of a function, and the fields of its IDs.
const ROWS: [(&str, &str, Columns); 2] = [
    (
        "photos",
        "next_id(363)",
        &[("unix_ms", "(id >> 23) + 1314220021721"), ("shard", "id >> 10 & 8191"), ("counter", "id & 1023")],
    ),
    ("toots", "timestamp_id('toots')", &[("unix_ms", "id >> 16"), ("counter", "id & 65535")]),
];

#[test]
#[ignore = "needs postgresql"]
fn functions_of_postgresql_and_the_server_read_each_other() {
    let postgres = PostgresServer::start(&[]);
    postgres.psql(FUNCTIONS);
    let server = serve_libraries();
    for (generator, call, fields) in ROWS {
        let made = postgres.psql(&format!("SELECT {call} FROM generate_series(1, 50) ORDER BY 1"));
        for ids in [made.lines().map(str::to_owned).collect(), draw(server.port, generator, 50, &[])] {
            let columns = fields.iter().map(|field| field.1).collect::<Vec<_>>().join(", ");
            let values = ids.join(", ");
            let read = postgres.psql(&format!("SELECT {columns} FROM unnest(ARRAY[{values}]) AS id ORDER BY id"));
            assert_eq!(read.lines().count(), ids.len());
            for (id, line) in ids.iter().zip(read.lines()) {
                let decoded = decode(&server, generator, id);
                for ((name, _), value) in fields.iter().zip(line.split('|')) {
                    assert_eq!(decoded[*name], value, "{name} of {id}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs the crate idgenerator, and minutes to build it"]
fn ids_of_the_crate_idgenerator_are_read() {
    let program = rust_clients();
    let begin = unix_ms();
    let made = run_for(Command::new(program).arg("yitter"), Duration::from_mins(1));
    // The generator takes two of the following milliseconds for a hundred IDs.
    let times = begin..=unix_ms() + 2;
    let server = serve_libraries();
    assert_eq!(made.lines().count(), 100);
    for id in made.lines() {
        let decoded = decode(&server, "drift", id);
        assert_eq!(decoded["worker"], "43");
        assert!(times.contains(&decoded["unix_ms"].parse::<u128>().expect("a number")), "{decoded:?}");
    }
}

fn unix_ms() -> u128 {
    UNIX_EPOCH.elapsed().expect("a time").as_millis()
}

/// Starts a server with short codes of sequences and of a clock, and runs the script with them.
fn codes_read_by(script: &mut Command) -> String {
    let generators = "--sequence-create on-first-use --id-mgetid-max 100 --generator short sequence format sqids \
        --generator long sequence format sqids pad 10 prefix O- \
        --generator plain sequence format sqids alphabet base58 --generator clock fork format sqids";
    let server = Server::start(&generators.split_whitespace().collect::<Vec<_>>());
    run_for(script.env("GETID_PORT", server.port.to_string()), Duration::from_mins(2))
}

#[test]
#[ignore = "needs python3 with redis and sqids (GETID_TEST_PYTHON)"]
fn sqids_of_python_reads_the_codes() {
    let python = std::env::var_os("GETID_TEST_PYTHON").expect("GETID_TEST_PYTHON");
    assert_eq!(codes_read_by(Command::new(python).arg(script("short_codes.py"))), "ok sqids\n");
}

#[test]
#[ignore = "needs node with redis and sqids (GETID_TEST_NODE_DIR)"]
fn sqids_of_node_reads_the_codes() {
    let dir = std::env::var_os("GETID_TEST_NODE_DIR").expect("GETID_TEST_NODE_DIR");
    let copy = Path::new(&dir).join("short_codes.mjs");
    std::fs::copy(script("short_codes.mjs"), &copy).expect("copied");
    assert_eq!(codes_read_by(Command::new("node").arg(copy)), "ok sqids\n");
}

/// A short code is the number's, whatever a text costs a turn.
#[test]
fn short_codes_are_given_and_read_back() {
    let words = "--sequence-create on-first-use --id-mgetid-max 10000 --generator short sequence format sqids \
        --generator clock fork format sqids prefix c_";
    let server = Server::start(&words.split_whitespace().collect::<Vec<_>>());
    let client = redis::Client::open(("127.0.0.1", server.port)).expect("an address");
    let mut connection = client.get_connection().expect("connected");
    let mut run = |words: &str| {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().expect("a command"));
        command.arg(words.collect::<Vec<_>>());
        command.query::<redis::Value>(&mut connection).map_err(|error| error.to_string())
    };
    let text = |value: &redis::Value| redis::from_redis_value_ref::<String>(value).expect("a text");
    assert_eq!(run("GETID short").map(|value| text(&value)), Ok("Uk".to_owned()));
    let fields = run("DECODEID Uk short").expect("an ID");
    assert!(format!("{fields:?}").contains("int(1)"), "{fields:?}");
    // Texts of another number's length, of several numbers, and the number itself.
    for wrong in ["86Rf07", "aho1e", "1", "Uk-"] {
        let error = run(&format!("DECODEID {wrong} short")).expect_err(wrong);
        assert!(error.contains("expected an id of format sqids"), "{error}");
    }
    let error = run("IDSPAN 2026-01-01 2026-01-02 clock").expect_err("no span");
    assert!(error.contains("those of sqids are not in the order of their times"), "{error}");
    // A large request is answered by one reply, and its texts differ.
    let redis::Value::Array(many) = run("MGETID 10000 clock").expect("IDs") else { panic!("an array") };
    let texts: HashSet<String> = many.iter().map(text).collect();
    assert_eq!(texts.len(), 10_000);
    assert!(texts.iter().all(|text| text.starts_with("c_") && text.len() <= 14));
}

#[test]
#[ignore = "needs python3 with redis and python-stdnum (GETID_TEST_PYTHON)"]
fn stdnum_of_python_agrees_with_the_check_digits() {
    const RULES: [&str; 6] = ["luhn", "damm", "verhoeff", "mod11-2", "mod97", "mod37-36"];
    let python = std::env::var_os("GETID_TEST_PYTHON").expect("GETID_TEST_PYTHON");
    let generators = RULES.map(|rule| format!("--generator {rule} serial Inv-{{n:18}}-{{{rule}}}")).join(" ");
    let references = "--generator rf serial {rf}INV{n:18} --generator short-rf serial {rf}53900{n:7}";
    let words = format!("--id-mgetid-max 100 {generators} {references}");
    let server = Server::start(&words.split_whitespace().collect::<Vec<_>>());
    let mut script = Command::new(python);
    script.arg(self::script("check_digits.py")).env("GETID_PORT", server.port.to_string());
    let lines = RULES.into_iter().chain(["rf"]).map(|rule| format!("ok {rule}\n"));
    assert_eq!(run_for(&mut script, Duration::from_mins(2)), lines.collect::<String>());
}
