//! `CONFIG SET`, `REWRITE` and `RESETSTAT` on a running server: each setting changes one behaviour and no other.
//!
//! TLS is tested in `tls`, `id-max-clock-jump-ms` (which needs a clock that jumps) in `core/mint.rs`.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use crate::support::{self, Server, Wire, eventually};
use getid_config::directive::{ChangeMode, Directive};
use nix::sys::signal::Signal;

#[track_caller]
fn set(wire: &mut Wire, pairs: &str) {
    assert_eq!(wire.ask(&format!("CONFIG SET {pairs}")), "+OK", "{pairs}");
}

fn get(wire: &mut Wire, name: &str) -> String {
    assert_eq!(wire.ask(&format!("CONFIG GET {name}")), "*2", "{name}");
    let lines: Vec<_> = (0..4).map(|_| wire.line()).collect();
    assert_eq!(lines[1], name);
    lines[3].clone()
}

/// Directives whose effect another test file shows. A new directive is in neither list and fails the test below.
const TESTED_ELSEWHERE: [&str; 34] = [
    "acllog-max-len",
    "client-output-timeout",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "latency-monitor-threshold",
    "client-output-buffer-limit",
    "tls-cert-file",
    "tls-key-file",
    "tls-ca-cert-file",
    "tls-auth-clients",
    "tls-ca-cert-dir",
    "tls-auth-clients-user",
    "tls-protocols",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-prefer-server-ciphers",
    "tls-session-caching",
    "tls-session-cache-size",
    "tls-session-cache-timeout",
    "id-max-clock-jump-ms",
    "sequence-create",
    "sequence-max",
    "request-max",
    "sequence-expire",
    "sequence-cache",
    "sequence-wait-ms",
    "sequence-policy",
    "sequence-incrby-max",
    "sequence-delete",
    "http-timeout",
    "http-open",
    "http-ready",
    "http-host",
    "announce-peers",
];

const TESTED_HERE: [&str; 17] = [
    "maxmemory-clients",
    "auth-timeout",
    "tcp-keepalive",
    "timeout",
    "maxclients",
    "protected-mode",
    "requirepass",
    "hz",
    "shutdown-timeout",
    "loglevel",
    "client-query-buffer-limit",
    "proto-max-bulk-len",
    "id-mgetid-max",
    "id-max-borrow-ms",
    "id-watermark-lead-ms",
    "id-borrow-policy",
    "id-max-wait-ms",
];

#[test]
fn every_setting_that_can_change_has_its_test() {
    let tested: BTreeSet<_> = TESTED_HERE.iter().chain(&TESTED_ELSEWHERE).copied().collect();
    let rows = Directive::ALL.iter().filter(|row| ![ChangeMode::AtStart, ChangeMode::Reload].contains(&row.change));
    assert_eq!(rows.map(|row| row.name).collect::<BTreeSet<_>>(), tested);
}

/// Names and patterns of `CONFIG GET` have bounds, so that other clients do not wait for it. Each directive is returned
/// once.
#[test]
fn settings_are_shown_within_bounds_and_change_whole_or_not_at_all() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    assert_eq!(wire.ask(&format!("CONFIG GET {}{}", "h? ".repeat(32), "HZ ".repeat(992))), "*2");
    assert_eq!([wire.line(), wire.line(), wire.line(), wire.line()], ["$2", "hz", "$2", "10"]);
    let refusal = "-ERR CONFIG GET takes at most 1024 names of 16384 bytes in all, 32 patterns among them";
    for names in ["x ".repeat(1025), "*".repeat(16_385), "h? ".repeat(33)] {
        assert_eq!(wire.ask(&format!("CONFIG GET {names}")), refusal);
    }
    let too_long = "-ERR a pattern has at most 1024 bytes, and this one has 1025";
    for command in ["CONFIG GET", "COMMAND LIST FILTERBY PATTERN"] {
        assert_eq!(wire.ask(&format!("{command} {}", "*".repeat(1025))), too_long);
    }
    set(&mut wire, "timeout 100 HZ 20");
    assert!(wire.ask("CONFIG SET timeout 200 hz 30 maxclients 0").starts_with("-ERR CONFIG SET failed"));
    let found = ["timeout", "hz", "maxclients"].map(|name| get(&mut wire, name));
    assert_eq!(found, ["100", "20", "10000"]);
}

#[test]
fn limits_of_requests_change_between_two_requests_of_one_client() {
    let server = Server::start(&[]);
    let (mut wire, mut other) = (server.connect(), server.connect());
    assert!(other.ask("MGETID 101").starts_with("-ERR parameters error!"));
    wire.send("CONFIG SET id-mgetid-max 101\r\nMGETID 101\r\n");
    assert_eq!((wire.line(), wire.line()), ("+OK".to_owned(), "*101".to_owned()));
    assert_eq!(other.ids(101).len(), 101);
    drop(wire);
    let mut wire = server.connect();
    // In a transaction too: queued commands run under the settings at EXEC.
    wire.send("MULTI\r\nCONFIG SET id-mgetid-max 5\r\nMGETID 6\r\nEXEC\r\n");
    let lines: Vec<_> = (0..6).map(|_| wire.line()).collect();
    assert_eq!(lines, ["+OK", "+QUEUED", "+QUEUED", "*2", "+OK", "-ERR parameters error! argv[1] = 6"]);

    set(&mut wire, "proto-max-bulk-len 1mb");
    other.send("*1\r\n$1048577\r\n");
    assert_eq!(other.line(), "-ERR Protocol error: invalid bulk length");
    set(&mut wire, "proto-max-bulk-len 2mb");
    let mut other = server.connect();
    let argument = "x".repeat(1_048_577);
    other.send(format!("*2\r\n$4\r\nECHO\r\n${}\r\n{argument}\r\n", argument.len()));
    assert_eq!(other.line(), "$1048577");
    assert_eq!(other.line(), argument);
    // A request of the same size closes the connection once the limit is below it.
    set(&mut wire, "client-query-buffer-limit 1mb");
    other.stream().write_all(format!("*2\r\n$4\r\nECHO\r\n${}\r\n{argument}\r\n", argument.len()).as_bytes()).ok();
    wire.wait_info("connected_clients", "1");
}

#[test]
fn a_new_password_applies_to_later_clients() {
    let server = Server::start(&[]);
    let (mut wire, mut old) = (server.connect(), server.connect());
    old.id();
    set(&mut wire, "requirepass first");
    old.id();
    let mut new = server.connect();
    assert!(new.ask("GETID").starts_with("-NOAUTH"));
    assert!(new.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(new.ask("AUTH first"), "+OK");
    set(&mut wire, "requirepass second");
    new.id();
    let mut newer = server.connect();
    assert!(newer.ask("AUTH first").starts_with("-WRONGPASS"));
    // Another setting leaves the password as it is.
    set(&mut wire, "id-mgetid-max 7");
    assert!(newer.ask("AUTH first").starts_with("-WRONGPASS"));
    // As in Redis, a client without a login may run commands once there is no password.
    set(&mut wire, "requirepass \"\"");
    newer.id();
    let long = "x".repeat(513);
    let reply = wire.ask(&format!("CONFIG SET timeout 5 requirepass {long}"));
    let expected = "-ERR CONFIG SET failed (possibly related to argument 'requirepass') - must have 1 to 512 bytes";
    assert_eq!((reply.as_str(), get(&mut wire, "timeout").as_str()), (expected, "0"));
    server.connect().id();
}

/// Returns this machine's address on its network; nothing is sent.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").expect("a machine with a network");
    socket.local_addr().unwrap().ip()
}

#[test]
#[ignore = "needs an address of this machine beside loopback"]
fn protected_mode_closes_and_opens_for_other_machines() {
    let mut server = Server::start(&["--bind", "0.0.0.0"]);
    server.wait_log("bind accepts other machines and no password is needed");
    let mut wire = server.connect();
    let address = SocketAddr::new(own_address(), server.port);
    let reply = |inline: &str| {
        let stream = TcpStream::connect(address).unwrap();
        let mut line = String::new();
        (&stream).write_all(format!("{inline}\r\n").as_bytes()).ok();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stream), &mut line).unwrap();
        line
    };
    // With bind alone all clients are served, and none changes the server without a login.
    assert!(reply("GETID").starts_with(':'));
    for allowed in ["INFO", "CONFIG GET *", "ROLE", "CLIENT SETNAME x", "CLIENT ID", "HELLO 3", "COMMAND", "ACL WHOAMI"]
    {
        assert!(reply(allowed).starts_with(['$', '*', '+', ':', '%']), "{allowed}");
    }
    for refused in ["CONFIG SET maxclients 1", "SHUTDOWN", "CLIENT LIST", "ACL SETUSER x on nopass +@all", "MONITOR"] {
        assert!(reply(refused).starts_with("-DENIED "), "{refused}");
    }
    assert!(reply("AUTH default x\r\nSHUTDOWN").starts_with("+OK"));
    // Setting the same value again changes nothing.
    assert_eq!(get(&mut wire, "protected-mode"), "guarded");
    set(&mut wire, "protected-mode guarded");
    assert!(reply("GETID").starts_with(':') && reply("MONITOR").starts_with("-DENIED "));
    assert_eq!(wire.ask("CONFIG SET maxclients 100"), "+OK");
    set(&mut wire, "protected-mode yes");
    assert!(reply("GETID").starts_with("-DENIED"));
    set(&mut wire, "requirepass secret");
    assert!(reply("GETID").starts_with("-NOAUTH"));
    set(&mut wire, "requirepass \"\"");
    assert!(reply("GETID").starts_with("-DENIED"));
    set(&mut wire, "protected-mode no");
    assert!(reply("GETID").starts_with(':'));
    server.wait_log("protected-mode is no now: clients on other machines may run every command");
    assert_eq!(reply("CONFIG SET maxclients 99"), "+OK\r\n");
    assert!(wire.ask("PING") == "+PONG");
}

#[test]
fn maxclients_is_raised_and_lowered_within_the_systems_limit() {
    let server = Server::start(&["--maxclients", "2"]);
    let (mut wire, mut second) = (server.connect(), server.connect());
    second.id();
    let _operators = server.take_operators_places();
    let refused = "-ERR max number of clients reached";
    assert_eq!(server.connect().line(), refused);
    set(&mut wire, "maxclients 3");
    let mut third = server.connect();
    third.id();
    set(&mut wire, "maxclients 1");
    third.id();
    assert_eq!(server.connect().line(), refused);
    assert_eq!(wire.info("maxclients"), "1");

    let reply = wire.ask("CONFIG SET timeout 5 maxclients 4294967295");
    let expected = "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to \
                    handle the specified number of clients, try with ";
    let room: u32 = reply.strip_prefix(expected).unwrap_or_else(|| panic!("{reply}")).parse().unwrap();
    assert_eq!((get(&mut wire, "maxclients"), get(&mut wire, "timeout")), ("1".to_owned(), "0".to_owned()));
    set(&mut wire, &format!("maxclients {room}"));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    // In addition to clients: 16 operators, 16 spare, and the server's own files.
    assert!((u64::from(room) + 32..u64::from(room) + 100).contains(&soft), "{soft} for {room} clients");
}

#[test]
fn a_timeout_closes_existing_clients() {
    let server = Server::start(&[]);
    let (mut wire, mut idle) = (server.connect(), server.connect());
    idle.id();
    set(&mut wire, "timeout 1");
    assert_eq!(idle.rest(), "", "the server closes without a reply");
    // A client that sends too slowly is closed as well.
    eventually("the closed connection is counted", || {
        let mut other = server.connect();
        let _ = other.try_send("INFO stats\r\nQUIT\r\n");
        let lines = other.try_lines();
        let count = lines.iter().find_map(|line| line.strip_prefix("idle_closed_connections:"));
        count.is_some_and(|count| count != "0")
    });
}

/// Returns the timer of the server's end of a connection: its kind, `02` for keep-alive, and its expiry in ticks. The
/// table may lack a connection while others open and close.
fn timer(server: &Server, client: &TcpStream) -> Option<(String, u64)> {
    let ends = format!("0100007F:{:04X} 0100007F:{:04X}", server.port, client.local_addr().unwrap().port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let line = table.lines().find(|line| line.contains(&ends))?;
    let timer = line.split_whitespace().nth(5).unwrap().split_once(':').unwrap();
    Some((timer.0.to_owned(), u64::from_str_radix(timer.1, 16).unwrap()))
}

#[test]
fn tcp_keepalive_applies_to_new_connections() {
    let server = Server::start(&["--tcp-keepalive", "0"]);
    let mut before = server.connect();
    before.id();
    set(&mut before, "tcp-keepalive 1000");
    let mut after = server.connect();
    after.id();
    let ticks_per_s = 100;
    eventually("a keep-alive timer", || {
        timer(&server, after.stream())
            .is_some_and(|(kind, left)| kind == "02" && (900 * ticks_per_s..=1000 * ticks_per_s).contains(&left))
    });
    eventually("the older connection has no timer", || {
        timer(&server, before.stream()).is_some_and(|(kind, _)| kind == "00")
    });
}

#[test]
fn hz_sets_the_interval_of_rates() {
    let server = Server::start(&["--hz", "1"]);
    let mut wire = server.connect();
    set(&mut wire, "hz 500");
    // A rate is the mean of sixteen samples. With the old setting two rises and falls take 34 s; this test waits for 20
    // s.
    let mut has_rate = |pings: usize| {
        wire.send(format!("{}INFO stats\r\n", "PING\r\n".repeat(pings)));
        assert!((0..=pings).all(|_| wire.line().starts_with(['+', '$'])));
        !wire.lines_until_empty().contains("instantaneous_ops_per_sec:0\r\n")
    };
    let first_pause = Duration::from_millis(50);
    let (mut changes, mut pause) = (0, first_pause);
    eventually("a rate comes and goes twice", || {
        let comes = changes % 2 == 0;
        if !comes {
            // INFO counts as a request: it has to leave the samples, however late they are taken.
            std::thread::sleep(pause);
            pause *= 2;
        }
        if has_rate(if comes { 10_000 } else { 0 }) == comes {
            (changes, pause) = (changes + 1, first_pause);
        }
        changes == 4
    });
    assert_eq!(wire.info("hz"), "500");
}

#[test]
fn a_stop_uses_the_shutdown_timeout_in_force() {
    let mut server = Server::start(&["--shutdown-timeout", "1000"]);
    let mut stuck = server.connect();
    set(&mut stuck, "shutdown-timeout 1");
    // 10 MB of replies: more than the system buffers for a client that reads none.
    stuck.send("MGETID 100\r\n".repeat(4000));
    server.wait_stuck(1);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    server.wait_log("1 client did not read all replies within shutdown-timeout 1 s");
}

#[test]
fn loglevel_applies_to_later_lines() {
    let mut server = Server::start(&["--loglevel", "warning"]);
    let mut wire = server.connect();
    set(&mut wire, "timeout 50");
    set(&mut wire, "loglevel notice timeout 60");
    server.wait_log("names=\"loglevel, timeout\"");
    assert_eq!(server.count_log("audit: CONFIG SET"), 1);
    set(&mut wire, "loglevel warning");
    set(&mut wire, "loglevel debug");
    drop(wire);
    server.wait_log(" disconnected");
    // A change to a quieter level is logged by the level before.
    assert_eq!(server.count_log("audit: CONFIG SET"), 3);
}

#[test]
fn borrowing_uses_the_limits_in_force() {
    let narrow = ["--shard-range", "0", "--random-range", "19"];
    let server =
        Server::start(&[&narrow[..], &["--id-max-borrow-ms", "300", "--id-watermark-lead-ms", "300"]].concat());
    let mut wire = server.connect();
    let first = wire.id();
    // A start begins 300 ms ahead of the clock. That is the limit until the time of the configured one has passed.
    set(&mut wire, "id-borrow-policy error id-max-borrow-ms 100 id-watermark-lead-ms 100");
    assert!(wire.id() > first);
    eventually("the new limit is in force", || wire.info_number("borrow_ms") == 0);
    // From here on at most 100 IDs are free at once, at 1000 a second.
    let busy = (0..100).find_map(|_| {
        let reply = wire.ask("MGETID 50");
        if reply == "*50" {
            (0..100).for_each(|_| drop(wire.line()));
        }
        reply.starts_with("-BUSY").then_some(reply)
    });
    let busy = busy.expect("more than time lets");
    assert!(busy.starts_with("-BUSY ids are ") && busy.ends_with("id-max-borrow-ms allows 100"), "{busy}");
    // A client that waits at the limit is served when the limit rises.
    set(&mut wire, "id-borrow-policy wait");
    let mut waiting = server.connect();
    waiting.send("GETID\r\n");
    set(&mut wire, "id-max-borrow-ms 600000 id-watermark-lead-ms 60000");
    let reply = waiting.line();
    let id: u64 = reply.strip_prefix(':').unwrap_or_else(|| panic!("{reply}")).parse().unwrap();
    assert!(id > first);
    assert!(wire.id() > id);
    assert_eq!(wire.info("borrow_limit_ms"), "600000");
    eventually("a watermark as far ahead", || {
        let [watermark, reference] = ["watermark", "reference"].map(|name| wire.info_number(name));
        watermark - reference > 50_000
    });
    // After the limit is lowered again, IDs continue from their position.
    set(&mut wire, "id-max-borrow-ms 3000 id-watermark-lead-ms 1000");
    assert!(wire.id() > id);
    let last = wire.id();
    let dir = server.dir.clone();
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(dir.join("getid-0.state"), copy.path().join("getid-0.state")).unwrap();
    server.kill();
    // The record contains the longer limit: the next life begins past it, and waits for nothing.
    let again = Server::start_in(copy.path(), &[&narrow[..], &["--id-max-borrow-ms", "600000"]].concat());
    assert!(again.connect().id() > last);
}

#[test]
fn a_borrow_limit_taken_back_before_the_first_id_leaves_no_trace() {
    let mut server = Server::start(&[]);
    let mut wire = server.connect();
    set(&mut wire, "id-max-borrow-ms 600000");
    server.wait_log("id-max-borrow-ms is 600000 now and was 3000 at the start");
    // The keeper has applied the limit: a position stored by it would be minutes ahead.
    let saves = wire.info_number("watermark_saves");
    set(&mut wire, "id-watermark-lead-ms 60000");
    eventually("a save by the new lead", || wire.info_number("watermark_saves") > saves);
    set(&mut wire, "id-max-borrow-ms 3000 id-watermark-lead-ms 3000 id-borrow-policy error");
    eventually("an ID is issued", || wire.ask("GETID").starts_with(':'));
    let ahead_ms = wire.info_number("borrow_ms");
    assert!(ahead_ms <= 3000, "{ahead_ms}");
}

#[test]
fn without_a_state_file_ids_run_no_further_ahead_than_the_next_start_begins() {
    // So few IDs a second that any machine gets ahead of the clock.
    let narrow = ["--shard-range", "3", "--random-range", "16"];
    let words = [&narrow[..], &["--id-state", "none", "--id-max-borrow-ms", "5000"]].concat();
    let server = Server::start(&words);
    let mut wire = server.connect();
    set(&mut wire, "id-max-borrow-ms 4000");
    set(&mut wire, "id-max-borrow-ms 5000");
    let reply = wire.ask("CONFIG SET timeout 77 id-max-borrow-ms 600000 id-watermark-lead-ms 60000");
    assert!(
        reply.starts_with(
            "-ERR CONFIG SET failed (possibly related to argument 'id-max-borrow-ms') - must be at most 5000, as at the \
             start, while id-state is none: "
        ) && reply.ends_with("To raise it, change the configuration and restart"),
        "{reply}"
    );
    assert_eq!(wire.info("borrow_limit_ms"), "5000");
    assert_eq!(wire.ask("CONFIG GET timeout"), "*2");
    assert_eq!([wire.line(), wire.line(), wire.line(), wire.line()], ["$7", "timeout", "$1", "0"]);
    // Draws as far ahead as permitted, then kills the server.
    set(&mut wire, "id-borrow-policy error id-mgetid-max 10000");
    let mut last = wire.id();
    loop {
        let reply = wire.ask("MGETID 10000");
        if reply.starts_with("-BUSY") {
            break;
        }
        assert_eq!(reply, "*10000");
        for _ in 0..10_000 {
            wire.line();
            last = wire.line().parse().unwrap();
        }
        if wire.info_number("borrow_ms") >= 4500 {
            break;
        }
    }
    server.kill();
    let again = Server::start(&words);
    assert!(again.connect().id() > last);
}

fn start_with(file: &Path, dir: &Path, words: &[&str]) -> Server {
    Server::try_start_in(dir, words, |command| {
        // `getid serve FILE --port ...`: the file comes first.
        let args: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        let mut fresh = support::getid();
        fresh.arg(&args[0]).arg(file).args(&args[1..]);
        fresh
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        *command = fresh;
    })
    .unwrap_or_else(|log| panic!("{log}"))
}

#[test]
fn a_rewritten_file_starts_the_next_server() {
    let folder = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let file = folder.path().join("getid.conf");
    std::fs::write(&file, "# ours\ntimeout 7\ninclude more.conf\n").unwrap();
    std::fs::write(folder.path().join("more.conf"), "hz 20\n").unwrap();
    let relative = |command: &mut std::process::Command| {
        let args: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        let mut fresh = support::getid();
        fresh.arg(&args[0]).arg("getid.conf").args(&args[1..]).current_dir(folder.path());
        fresh
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        *command = fresh;
    };
    let mut server =
        Server::try_start_in(state.path(), &["--maxclients", "50"], relative).unwrap_or_else(|log| panic!("{log}"));
    let mut wire = server.connect();
    set(&mut wire, "timeout 9 requirepass \"a b\" maxclients 60");
    assert_eq!(wire.ask("CONFIG REWRITE"), "+OK");
    server.wait_log("the environment or the command line sets other values for maxclients");
    // Settings from the tests' environment are removed before the comparison.
    let others = ["id-machine-claim no\n", "sequence-wait-ms 15000\n"];
    let read = || others.iter().fold(std::fs::read_to_string(&file).unwrap(), |text, line| text.replace(line, ""));
    let text = read();
    let expected = format!(
        "# ours\ntimeout 9\ninclude more.conf\n\n# Generated by CONFIG REWRITE\nport {}\nmaxclients 60\nrequirepass \"a b\"\ndir {}\n",
        server.port,
        state.path().display()
    );
    assert_eq!(text, expected);
    assert_eq!(wire.ask("CONFIG REWRITE"), "+OK");
    assert_eq!(read(), expected);
    let rewritten = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(rewritten, 2, "no temporary file is left");

    // A broken file is left as it is.
    std::fs::write(&file, format!("{expected}prot 1\n")).unwrap();
    let reply = wire.ask("CONFIG REWRITE");
    assert!(reply.starts_with("-ERR Rewriting config file: ") && reply.contains("prot"), "{reply}");
    assert!(std::fs::read_to_string(&file).unwrap().ends_with("prot 1\n"));
    std::fs::write(&file, &expected).unwrap();
    assert_eq!(server.stop().code(), Some(0));

    std::fs::copy(folder.path().join("more.conf"), state.path().join("more.conf")).unwrap();
    let text = expected.replace("include more.conf", &format!("include {}/more.conf", folder.path().display()));
    std::fs::write(&file, text).unwrap();
    let server = start_with(&file, state.path(), &[]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("AUTH \"a b\""), "+OK");
    let found = ["timeout", "hz", "maxclients"].map(|name| get(&mut wire, name));
    assert_eq!(found, ["9", "20", "60"]);
}

#[test]
fn resetstat_resets_the_counters() {
    let server = Server::start(&["--io-threads", "2", "--maxclients", "3"]);
    let mut wires = vec![server.connect()];
    // The connection of the readiness check may still count.
    eventually("no other client is connected", || wires[0].info("connected_clients") == "1");
    wires.extend((0..2).map(|_| server.connect()));
    for wire in &mut wires {
        for _ in 0..20 {
            wire.id();
        }
    }
    // The places reserved for operators on this machine are taken first.
    let operators = server.take_operators_places();
    server.connect().line();
    drop(operators);
    let wire = &mut wires[0];
    wire.wait_info("connected_clients", "3");
    let (issued, peak) = (wire.info("ids_issued"), wire.info("clients_peak"));
    assert_eq!(wire.info("rejected_connections"), "1");
    assert_eq!(wire.ask("CONFIG RESETSTAT"), "+OK");
    let text = wire.ask_bulk("INFO stats");
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name}")).parse::<u64>().unwrap()
    };
    // As in Redis, the reset is the first command that counts.
    assert_eq!(field("total_commands_processed"), 1);
    assert_eq!(field("total_net_input_bytes"), "CONFIG RESETSTAT\r\n".len() as u64);
    assert_eq!(field("total_net_output_bytes"), 5);
    assert_eq!((field("total_connections_received"), field("rejected_connections")), (0, 0));
    assert_eq!((wire.info("ids_issued"), wire.info("clients_peak")), (issued, peak));
    wires[1].id();
    eventually("both commands are counted", || wires[0].info_number("total_commands_processed") >= 4);
}

#[test]
fn shutdown_fails_when_the_state_cannot_be_saved_unless_forced() {
    for last_word in ["SHUTDOWN FORCE", "SHUTDOWN NOSAVE"] {
        let mut server = Server::start(&[]);
        let mut wire = server.connect();
        wire.id();
        // The folder is removed; the next save fails.
        std::fs::rename(&server.dir, server.dir.with_extension("gone")).unwrap();
        wire.wait_info("watermark_last_save_status", "err");
        assert_eq!(wire.ask("SHUTDOWN"), "-ERR Errors trying to SHUTDOWN. Check logs.");
        assert_eq!(wire.ask("PING"), "+PONG");
        wire.send(format!("{last_word}\r\n"));
        assert_eq!(server.wait().code(), Some(1), "the exit code reports the failed save");
        std::fs::rename(server.dir.with_extension("gone"), &server.dir).unwrap();
    }
}
