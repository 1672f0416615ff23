//! `getid verify` with a small server that breaks one promise at a time. Each fault must be found, and no other.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use getid_core::server::{Composer, request_bits};
use getid_core::{Declaration, Epoch, Layout, Parts, RandomCycle, Role, Tick, no_dates};
use nix::time::{ClockId, clock_gettime};

use crate::support::{Server, eventually, folder};

/// Number of the ID at which a single fault occurs.
const FAULT_AT: u64 = 70;

/// A fault of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// One ID repeats.
    Duplicate,
    /// The first two IDs of one reply are swapped.
    Inversion,
    /// One ID has another server's number.
    ServerId,
    /// Each connection has its own stock of IDs, as with a cache in between.
    Stock,
    /// Only even random values, or noise.
    Skew,
    /// The clock is an hour ahead.
    Clock,
    /// One MGETID returns one ID too few.
    Short,
    /// Every hundredth request is refused.
    Busy,
    /// Every connection is closed after 200 requests.
    Cut,
}

/// A fake server with a server-id, and its position.
struct Fake {
    fault: Fault,
    server: u32,
    /// The generator of the IDs; `None` is the unnamed generator.
    named: Option<(Declaration, Composer)>,
    next_slot: u64,
    ids: u64,
    /// The last ID given.
    last: String,
}

impl Fake {
    fn id(&self, slot: u64) -> String {
        let value = match self.fault {
            Fault::Skew => self.ids % 512 * 2,
            _ => self.ids.wrapping_mul(389) % 1024,
        };
        let Some((declaration, composer)) = &self.named else {
            let layout = Layout::default();
            let stray = self.fault == Fault::ServerId && self.ids == FAULT_AT;
            let parts = Parts {
                tick: Tick(slot >> layout.shard_bits()),
                server: if stray { 3 } else { self.server },
                shard: (slot & 511) as u32,
                random: value as u32,
            };
            return layout.compose(parts).get().to_string();
        };
        // Noise: unordered numbers with `value` in the lowest bits.
        let noise = u128::from(self.ids).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 3;
        let noise = (noise & !1023) | u128::from(value);
        let fields = declaration.layout().fields();
        let values: Vec<u64> = fields.iter().filter(|field| field.role == Role::Request).map(|_| 5).collect();
        let request = request_bits(declaration.layout(), &values).unwrap();
        let mut text = Vec::new();
        assert!(declaration.write(composer.number(slot, self.ids, noise, request), &mut text));
        String::from_utf8(text).unwrap()
    }

    fn ids(&mut self, n: u64) -> Vec<String> {
        let ahead_ms = if self.fault == Fault::Clock { 3_600_000 } else { 0 };
        let unix_ms = wall_unix_ms() + ahead_ms;
        let now = match &self.named {
            None => Epoch::DEFAULT.tick_at(unix_ms).unwrap().0 << Layout::default().shard_bits(),
            Some((declaration, _)) => {
                let layout = declaration.layout();
                layout.tick_at(i128::from(unix_ms) * 1_000_000).unwrap_or(0) << layout.counter_bits()
            }
        };
        self.next_slot = self.next_slot.max(now);
        let mut ids = Vec::new();
        for _ in 0..n {
            ids.push(self.id(self.next_slot));
            self.next_slot += 1;
            self.ids += 1;
        }
        if self.fault == Fault::Duplicate && self.ids > FAULT_AT {
            self.fault = Fault::None;
            ids[0].clone_from(&self.last);
        }
        if self.fault == Fault::Inversion && self.ids > FAULT_AT {
            self.fault = Fault::None;
            ids.swap(0, 1);
        }
        if self.fault == Fault::Short && self.ids > FAULT_AT {
            self.fault = Fault::None;
            ids.pop();
        }
        self.last = ids.last().cloned().unwrap_or_default();
        ids
    }
}

fn wall_unix_ms() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000
}

/// Serves on its own port until the test process ends.
fn fake(fault: Fault, server: u32) -> SocketAddr {
    fake_of(Fake { fault, server, named: None, next_slot: 0, ids: 0, last: String::new() })
}

/// Like [`fake`], with a generator of this name, kind and options.
fn fake_named(fault: Fault, words: &str, server: u32) -> SocketAddr {
    let words: Vec<&str> = words.split(' ').collect();
    let mut declaration = Declaration::parse(&words, no_dates).unwrap();
    declaration.draw_missing(|_, _| 0x0123_4567_89ab_cdef);
    let random = declaration.layout().bits_of(Role::Random);
    let cycle = (random > 0).then(|| RandomCycle::new((0..1 << random).map(|n| n ^ 1).collect()).unwrap());
    let value = |name: &str| declaration.drawn_value(name);
    let composer = Composer::new(declaration.layout(), server, value, cycle).unwrap();
    let named = Some((declaration, composer));
    fake_of(Fake { fault, server, named, next_slot: 0, ids: 0, last: String::new() })
}

fn fake_of(fake: Fake) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let fake = Arc::new(Mutex::new(fake));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let fake = Arc::clone(&fake);
            thread::spawn(move || serve(&stream.unwrap(), &fake));
        }
    });
    address
}

fn serve(stream: &TcpStream, fake: &Mutex<Fake>) -> Option<()> {
    stream.set_nodelay(true).unwrap();
    let fault = fake.lock().unwrap().fault;
    let mut input = BufReader::new(stream);
    let mut output: &TcpStream = stream;
    let mut stock = Vec::new();
    for request in 0.. {
        let words = read_request(&mut input)?;
        let reply = match words[0].as_str() {
            "PING" => "+PONG\r\n".to_owned(),
            _ if fault == Fault::Busy && request % 100 == 50 => "-BUSY ids are too far ahead\r\n".to_owned(),
            _ if fault == Fault::Cut && request == 200 => {
                stream.shutdown(Shutdown::Both).unwrap();
                return None;
            }
            "GETID" if fault == Fault::Stock => {
                if stock.is_empty() {
                    stock = fake.lock().unwrap().ids(50);
                    stock.reverse();
                }
                format!(":{}\r\n", stock.pop()?)
            }
            "GETID" => {
                let mut fake = fake.lock().unwrap();
                let id = fake.ids(1).remove(0);
                match &fake.named {
                    Some((declaration, _)) if !declaration.is_integer() => format!("${}\r\n{id}\r\n", id.len()),
                    _ => format!(":{id}\r\n"),
                }
            }
            "MGETID" => {
                let ids = fake.lock().unwrap().ids(words[1].parse().unwrap());
                ids.iter().fold(format!("*{}\r\n", ids.len()), |text, id| text + &format!("${}\r\n{id}\r\n", id.len()))
            }
            other => panic!("{other}"),
        };
        output.write_all(reply.as_bytes()).ok()?;
    }
    None
}

fn read_request(input: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|&len| len > 0)?;
    let count: usize = line.trim()[1..].parse().unwrap();
    let mut words = Vec::new();
    for _ in 0..count {
        line.clear();
        input.read_line(&mut line).ok()?;
        let mut word = vec![0; line.trim()[1..].parse::<usize>().unwrap() + 2];
        input.read_exact(&mut word).ok()?;
        words.push(String::from_utf8(word).unwrap().trim().to_owned());
    }
    Some(words)
}

fn verify(args: &str, servers: &[SocketAddr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_getid"))
        .arg("verify")
        .args(args.split_whitespace())
        .args(servers.iter().map(ToString::to_string))
        .env_clear()
        .output()
        .unwrap()
}

/// Runs with `--json`, and compares the exit code and the violated checks.
#[track_caller]
fn check(args: &str, servers: &[SocketAddr], code: i32, violated: &[&str]) -> serde_json::Value {
    let output = verify(&format!("--json {args}"), servers);
    judged(args, &output, code, violated)
}

#[track_caller]
fn judged(what: &str, output: &Output, code: i32, violated: &[&str]) -> serde_json::Value {
    let shown = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{what}: {shown}"));
    let found: Vec<&str> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["count"] != 0)
        .map(|check| check["check"].as_str().unwrap())
        .collect();
    assert_eq!(found, violated, "{what}: {shown}");
    assert_eq!(output.status.code(), Some(code), "{what}: {shown}");
    assert_eq!(report["ok"], code != 1);
    report
}

#[test]
fn a_sound_server_passes_single_batched_and_pipelined() {
    for (ids, args) in
        [(500, ""), (1000, "-P 16"), (20_000, "--batch 100 --pipeline 4"), (2000, "-c 1 -P 64 --exclusive")]
    {
        let report = check(&format!("-n {ids} {args}"), &[fake(Fault::None, 2)], 0, &[]);
        assert_eq!(report["ids"], ids);
        assert_eq!(report["servers"][0]["server_id"], 2);
        assert!(report["servers"][0]["lowest"].is_string());
        assert_eq!(report["servers"][0]["evenness"]["exact"], true);
        assert!(report["latency_ms"]["p50"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn several_servers_pass_together_and_a_run_ends_in_time() {
    let servers = [0, 1, 2, 3].map(|server| fake(Fault::None, server));
    // If the machine stalls, a run may end before its first request.
    eventually("a run in which all servers give IDs", || {
        let report = check("-c 2 --seconds 0.3 --server-id 0,1,2,3", &servers, 0, &[]);
        report["servers"].as_array().unwrap().iter().all(|server| server["ids"].as_u64() > Some(10))
    });
}

#[test]
fn each_planted_fault_is_caught() {
    check("-c 1 -n 300", &[fake(Fault::Duplicate, 0)], 1, &["duplicate", "connection-order", "real-time-order"]);
    check("-c 1 -n 300 -b 10", &[fake(Fault::Inversion, 0)], 1, &["connection-order"]);
    check("-c 4 -n 2000", &[fake(Fault::Stock, 0)], 1, &["real-time-order"]);
    check("-c 4 -n 20000 -b 100 -P 4", &[fake(Fault::Skew, 0)], 1, &["evenness"]);
    check("-c 4 -n 300", &[fake(Fault::Clock, 0)], 1, &["clock"]);
    check("-c 4 -n 300 -b 10", &[fake(Fault::Short, 0)], 1, &["reply"]);
}

#[test]
fn a_planted_server_id_is_caught() {
    // An ID with a higher server number is also above the next ID of its tick.
    let output = verify("-c 1 -n 300 --json", &[fake(Fault::ServerId, 0)]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["checks"][3]["check"], &report["checks"][3]["count"]), (&"server-id".into(), &1.into()));
    assert_eq!(output.status.code(), Some(1));

    check("-n 200 --server-id 1", &[fake(Fault::None, 2)], 1, &["server-id"]);
    // Two servers with one number give the same IDs, or soon will.
    let output = verify("-n 200 --json", &[fake(Fault::None, 2), fake(Fault::None, 2)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("have the same server-id 2"));
}

#[test]
fn the_text_report_has_the_findings() {
    let output = verify("-c 2 -n 200", &[fake(Fault::None, 1)]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["ids         200 (", "latency ms  p50 ", "server-id 1: 200 ids", "no id twice", "no violation\n"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Standard error is no terminal here, so there is no progress bar.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let output = verify("-c 2 -n 300", &[fake(Fault::Clock, 1)]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("VIOLATED 300 times") && text.contains("ms ahead of the clock"), "{text}");
}

#[test]
fn refusals_are_counted_and_are_no_violation() {
    let report = check("-c 2 -n 1000 -P 8", &[fake(Fault::Busy, 0)], 0, &[]);
    assert!(report["error_replies"]["BUSY ids are too far ahead"].as_u64() >= Some(5), "{report}");
}

#[test]
fn broken_connections_fail_the_run_unless_tolerated() {
    let report = check("-c 2 --seconds 5 -P 4", &[fake(Fault::Cut, 0)], 2, &[]);
    assert_eq!(report["disconnects"].as_array().unwrap().len(), 2);
    assert!(report["ids"].as_u64() >= Some(300), "{report}");
    check("-c 2 --seconds 5 -P 4 --tolerate-disconnects --exclusive", &[fake(Fault::Cut, 0)], 0, &[]);
}

#[test]
fn runs_before_and_after_a_crash_are_checked_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (before, after, damaged) = (file("before"), file("after"), file("damaged"));
    let address = fake(Fault::None, 0);
    check(&format!("-n 400 -P 4 --record {before}"), &[address], 0, &[]);
    let report =
        check(&format!("-n 400 -b 20 --record {after} --against {before} --after --modulus 64"), &[address], 0, &[]);
    assert_eq!(report["earlier_ids"], 400);

    // Both records, and then one of them as if its run had happened twice.
    let report = check(&format!("-n 400 --against {before} --against {after}"), &[address], 0, &[]);
    assert_eq!(report["earlier_ids"], 800);
    let report = check(&format!("-n 100 --against {before} --against {before}"), &[address], 1, &["duplicate"]);
    assert_eq!(report["checks"][0]["count"], 400);

    // The clock was set back by an hour, and the server followed it.
    let later = fake(Fault::Clock, 0);
    check(&format!("-n 100 --clock-tolerance-ms 4000000 --record {before}"), &[later], 0, &[]);
    let report = check(&format!("-n 100 --against {before} --after"), &[address], 1, &["after-earlier"]);
    assert_eq!(report["checks"][6]["count"], 100);

    // A damaged file, a truncated file and a foreign file are named, and so is another layout.
    let bytes = std::fs::read(&after).unwrap();
    for (content, reason) in [
        ([&bytes[..40], &[bytes[40] ^ 1], &bytes[41..]].concat(), "damaged"),
        (bytes[..bytes.len() - 1].to_vec(), "cut short"),
        (b"ids\n".repeat(100), "no record"),
    ] {
        std::fs::write(&damaged, content).unwrap();
        let output = verify(&format!("-n 100 --against {damaged}"), &[address]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&damaged) && text.contains(reason), "{text}");
        assert_eq!(output.status.code(), Some(2));
    }
    let output = verify(&format!("-n 100 --id-range 3 --shard-range 8 --against {after}"), &[address]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("layout 2/9/10"), "{output:?}");
}

#[test]
fn invalid_runs_exit_with_code_2() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (args, reason) in [
        (unused.to_string(), "refused"),
        ("nonsense".to_owned(), "HOST:PORT"),
        ("--server-id 1,2 127.0.0.1:1".to_owned(), "2 server-ids for 1 server"),
        ("--seconds 0".to_owned(), "must be more than 0"),
        ("--after".to_owned(), "--against"),
        ("--layout sequence --against x --after 127.0.0.1:1 127.0.0.1:2".to_owned(), "one server's at a time"),
        ("/nonexistent/getid.sock".to_owned(), "No such file"),
    ] {
        let output = verify(&args, &[]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(reason), "{args}: {output:?}");
        assert_eq!(output.status.code(), Some(2), "{args}");
    }
}

/// Runs `verify` with `--layout` as one argument and the other words split.
fn verify_named(declaration: &str, args: &str, servers: &[SocketAddr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_getid"))
        .args(["verify", "--layout", &format!("generator {declaration}")])
        .args(args.split_whitespace())
        .args(servers.iter().map(ToString::to_string))
        .env_clear()
        .output()
        .unwrap()
}

#[track_caller]
fn check_named(declaration: &str, args: &str, servers: &[SocketAddr], violated: &[&str]) -> serde_json::Value {
    let output = verify_named(declaration, &format!("--json {args}"), servers);
    judged(declaration, &output, i32::from(!violated.is_empty()), violated)
}

const KINDS: [&str; 18] = [
    "g twitter",
    "g fork server-id:2",
    "g sonyflake",
    "g discord",
    "g js53 counter-start 0..9",
    "g timestamp-us one-server 1",
    "g pd one-server 1",
    "g leaf format base62 prefix L-",
    "g layout time:41@1ms server-id:4 counter:8 random:10",
    "g layout time:32@1s server-id:8 counter:20 noise:40 epoch 1420041600000",
    "g uuid1",
    "g uuid4",
    "g uuid6",
    "g uuid7",
    "g objectid",
    "g ksuid",
    "g layout time:41@1ms server-id:10 counter:12 noise:97",
    "g hibernate",
];

#[test]
fn correct_servers_of_every_kind_pass() {
    for declaration in KINDS {
        let server = fake_named(Fault::None, declaration, 1);
        let report = check_named(declaration, "-c 3 -n 600 -P 4", &[server], &[]);
        assert_eq!((&report["ids"], &report["generator"]), (&600.into(), &"g".into()), "{report}");
        check_named(declaration, "-c 3 -n 6000 -b 50", &[server], &[]);
    }
    let lua = "lua redis-lua one-server 1";
    check_named(lua, "-n 1000 --field shard=5", &[fake_named(Fault::None, lua, 1)], &[]);
}

#[test]
fn faults_against_the_promises_of_a_kind_are_found() {
    let ordered = ["g twitter", "g uuid6", "g uuid7", "g objectid-decimal", "g leaf format base36", "g discord"];
    let repeat = ["duplicate", "connection-order", "real-time-order"];
    for declaration in ordered {
        check_named(declaration, "-c 1 -n 300", &[fake_named(Fault::Duplicate, declaration, 1)], &repeat);
        check_named(
            declaration,
            "-c 1 -n 300 -b 10",
            &[fake_named(Fault::Inversion, declaration, 1)],
            &["connection-order"],
        );
        check_named(declaration, "-c 4 -n 300", &[fake_named(Fault::Clock, declaration, 1)], &["clock"]);
        check_named(declaration, "-c 4 -n 300 -b 10", &[fake_named(Fault::Short, declaration, 1)], &["reply"]);
    }
    for declaration in ["g uuid1", "g hibernate", "g uuid4"] {
        check_named(declaration, "-c 1 -n 300", &[fake_named(Fault::Duplicate, declaration, 1)], &["duplicate"]);
        // These kinds promise no order.
        check_named(declaration, "-c 1 -n 300 -b 10", &[fake_named(Fault::Inversion, declaration, 1)], &[]);
        let violated: &[&str] = if declaration == "g uuid4" { &[] } else { &["clock"] };
        check_named(declaration, "-c 4 -n 300", &[fake_named(Fault::Clock, declaration, 1)], violated);
    }
    for declaration in ["g uuid4", "g uuid7", "g layout time:40@1ms server-id:4 counter:8 noise:10"] {
        check_named(declaration, "-c 4 -n 40000 -b 100", &[fake_named(Fault::Skew, declaration, 1)], &["evenness"]);
    }
    // Two servers have one number, in the server-id or in a value that each server draws itself.
    for declaration in ["g twitter", "g objectid"] {
        let servers = [fake_named(Fault::None, declaration, 2), fake_named(Fault::None, declaration, 2)];
        let output = verify_named(declaration, "-n 200 -c 1 --json", &servers);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("have the same "), "{output:?}");
    }
    check_named("g twitter", "-n 100 -c 1 --server-id 3", &[fake_named(Fault::None, "g twitter", 2)], &["server-id"]);
    // A text of another kind is not a valid reply.
    check_named("g uuid7", "-n 10 -c 1", &[fake_named(Fault::None, "g uuid4", 2)], &["reply"]);
    check_named("g twitter", "-n 10 -c 1", &[fake_named(Fault::None, "g twitter format hex", 2)], &["reply"]);
}

#[test]
fn the_report_of_a_named_generator() {
    let output = verify_named("trace uuid7", "-n 1000", &[fake_named(Fault::None, "trace uuid7", 0)]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "GETID trace over 10 connections",
        ": 1,000 ids\n  lowest    01",
        "server-id                           not judged",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    let output =
        verify_named("lua redis-lua", "-n 100 -b 10 --field shard=5", &[fake_named(Fault::None, "lua redis-lua", 0)]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("MGETID 10 lua shard 5 over"), "{text}");
    assert!(text.contains("not judged, for nothing random is in the lowest bits"), "{text}");
    for (declaration, args, expected) in [
        ("lua redis-lua", "", "the field 'shard' comes with each request: --field shard=VALUE"),
        ("trace uuid4", "--against x --after", "--after: these IDs do not ascend"),
        ("trace uuid7", "--server-id 1", "--server-id: these IDs do not contain a server-id"),
        ("trace uuid4", "--field shard", "must be NAME=VALUE"),
        ("trace uuid5", "", "'uuid5' is not a kind of generator"),
    ] {
        let output = verify_named(declaration, args, &[]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
    let output = verify("--field shard=1", &[]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the unnamed generator has no such field"), "{output:?}");
}

/// The server keeps its promises for every kind, across a kill.
#[test]
fn the_server_passes_for_every_kind_before_and_after_a_kill() {
    let dir = folder();
    let file = |name: String| dir.path().join(name).display().to_string();
    let named: Vec<String> =
        KINDS.iter().enumerate().map(|(n, kind)| kind.replacen('g', &format!("g{n}"), 1)).collect();
    let mut words = vec!["--server-id", "1"];
    for declaration in &named {
        words.push("--generator");
        words.extend(declaration.split(' '));
    }
    // A kind without a server-id field needs a fleet of one server.
    let words: Vec<&str> = [&words[..], &["--id-range", "1", "--shard-range", "10"]].concat();
    for life in 0..2 {
        let server = Server::start_in(dir.path(), &words);
        let address = [SocketAddr::from(([127, 0, 0, 1], server.port))];
        for (n, declaration) in named.iter().enumerate() {
            let ordered = !["uuid1", "uuid4", "hibernate"].iter().any(|kind| declaration.contains(kind));
            let record = format!("-c 4 -n 1000 -b 20 --record {}", file(format!("{n}.{life}")));
            let against = format!("--against {} {}", file(format!("{n}.0")), if ordered { "--after" } else { "" });
            let args = if life == 0 { record } else { format!("{record} {against}") };
            check_named(declaration, &args, &address, &[]);
            check_named(declaration, "-c 4 -n 200 -P 4", &address, &[]);
        }
    }
}
