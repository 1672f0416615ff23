//! The examples of README and docs/clients.md, run with the built binary: each language's client, and `haproxy` in
//! front of two servers.
//!
//! They need programs besides a Rust toolchain, so they are ignored by default. A test fails if its program is missing,
//! because a skipped test must not look as if it had passed.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use getid_core::{Id, Layout, Tick};

use crate::support::haproxy::HaProxy;
#[cfg(feature = "http")]
use crate::support::http::{Http, HttpServer};
use crate::support::program::fails;
use crate::support::{Server, Wire, eventually, folder, free_port};

#[test]
#[ignore = "needs python3 with redis (its path in GETID_TEST_PYTHON)"]
fn python() {
    let python = std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    check(Command::new(python).arg(client("python_client.py")), "1000 different IDs, ascending: True");
}

#[test]
#[ignore = "needs python3 with redis (its path in GETID_TEST_PYTHON)"]
fn python_with_a_list_of_servers_of_which_one_is_down() {
    let server = Server::start(&["--server-id", "2"]);
    let ports = format!("{},{}", free_port(), server.port);
    let python = std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).arg(client("python_several.py")).env("GETID_PORTS", ports).output();
    let output = output.expect("python runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(printed, "1000 different IDs, from servers [2]\n", "{complaints}");
}

#[test]
#[ignore = "needs node with redis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node_redis() {
    let script = beside_node_modules("node_redis.mjs");
    check(Command::new("node").arg(&script.path), "1000 different IDs, ascending: true");
}

#[test]
#[ignore = "needs node with ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn ioredis() {
    let script = beside_node_modules("ioredis.mjs");
    check(Command::new("node").arg(&script.path), "1000 different IDs, ascending: true");
}

#[test]
#[ignore = "needs php with phpredis"]
fn php() {
    check(Command::new("php").arg(client("php_client.php")), "1000 different IDs, ascending: yes");
}

#[test]
#[ignore = "needs ruby with redis"]
fn ruby() {
    check(Command::new("ruby").arg(client("ruby_client.rb")), "1000 different IDs, ascending: true");
}

/// Debian's package of redigo is a folder of sources, which Go without modules reads.
#[test]
#[ignore = "needs go and redigo (Debian: golang-go, golang-github-gomodule-redigo-dev)"]
fn go() {
    let cache = folder();
    let mut go = Command::new("go");
    go.arg("run").arg(client("go_client.go")).env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode");
    check(go.env("GOCACHE", cache.path()), "1000 different IDs, ascending: true");
}

/// Cargo builds examples with the tests, so this one needs no other program.
#[test]
fn rust() {
    check(&mut rust_example("getid", "rust_client"), "1000 IDs, ascending: true");
}

/// Returns the command that runs an example of one of our packages.
fn rust_example(package: &str, name: &str) -> Command {
    let test = std::env::current_exe().expect("this test");
    let built = test.parent().and_then(Path::parent).expect("target/<profile>").join("examples").join(name);
    if built.exists() {
        return Command::new(built);
    }
    // `cargo test --test docs` builds no examples.
    let mut command = crate::support::cargo();
    command.args(["run", "--quiet", "--locked", "--offline", "--package", package, "--example", name]);
    command
}

/// The example program in getid-core's README, which makes IDs in its own process.
struct Maker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Maker {
    fn command(file: &Path) -> Command {
        let mut command = rust_example("getid-core", "maker");
        command.arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn start(file: &Path) -> Maker {
        let mut child = Maker::command(file).spawn().expect("the example runs");
        let stdout = child.stdout.take().expect("piped");
        Maker { child, lines: BufReader::new(stdout).lines() }
    }

    fn ids(&mut self, count: usize) -> Vec<Id> {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{count}").expect("sent");
        let ids: Vec<Id> = self.lines.by_ref().take(count).map(|line| id_of(&line.expect("a line"))).collect();
        assert_eq!(ids.len(), count, "the example has ended");
        ids
    }
}

fn id_of(line: &str) -> Id {
    line.parse().ok().and_then(Id::new).unwrap_or_else(|| panic!("no ID: {line}"))
}

impl Drop for Maker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_second_copy_of_the_maker_does_not_start() {
    let folder = folder();
    let file = folder.path().join("ids.state");
    let mut first = Maker::start(&file);
    let before = first.ids(1)[0];
    let refusal = fails(&mut Maker::command(&file));
    let holder = first.child.id();
    let remedy = "stop it, or give this process another file and another server-id";
    let expected = format!(
        "process {holder} (as its container numbers it, if it is in one), or a child of it, has {} open: {remedy}\n",
        file.display()
    );
    // With `cargo run` in between the process id is the same, because cargo becomes the example by exec.
    assert_eq!(refusal, expected);
    assert!(first.ids(1)[0] > before, "the first process continues");
}

/// A crash leaves no lock, and a watermark above every ID.
#[test]
fn the_next_start_of_the_maker_repeats_no_id() {
    let folder = folder();
    let file = folder.path().join("ids.state");
    let mut maker = Maker::start(&file);
    let ids = maker.ids(5000);
    assert!(ids.is_sorted_by(|one, next| one < next));
    drop(maker);
    let state = std::fs::read_to_string(&file).expect("saved before the first ID");
    let watermark = state.lines().find_map(|line| line.strip_prefix("watermark ")?.split(' ').next()?.parse().ok());
    let watermark: u64 = watermark.expect("a number");
    let tick = |id: Id| Layout::default().split(id).tick;
    assert!(tick(ids[4999]) < Tick(watermark));
    let mut maker = Maker::start(&file);
    let next = maker.ids(1)[0];
    assert!(next > ids[4999] && tick(next) >= Tick(watermark));

    // A clean stop: the end of the program's input.
    drop(maker.child.stdin.take());
    assert!(maker.child.wait().expect("its status").success());
    assert!(Maker::start(&file).ids(1)[0] > next);
}

#[test]
fn the_example_of_kinds_has_every_kind_and_matches_the_readme() {
    let output = rust_example("getid-core", "kinds").output().expect("the example runs");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{printed}");
    for kind in getid_core::KINDS {
        assert!(printed.lines().any(|line| line.starts_with(&format!("{:<16} ", kind.word))), "{}", kind.word);
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/getid-core/README.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, shown) = page.split_once("--example kinds\n...\n").expect("the session");
    let (shown, _) = shown.split_once("```").expect("its end");
    for part in shown.split("...\n").filter(|part| !part.is_empty()) {
        assert!(printed.contains(part), "{part}");
    }
}

/// Runs an example with its own server. It prints an ID, three IDs, and a verdict on a thousand more.
#[track_caller]
fn check(command: &mut Command, verdict: &str) {
    let server = Server::start(&[]);
    let before = server.connect().id();
    let output = command.env("GETID_PORT", server.port.to_string()).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{printed}\n{complaints}", output.status);

    let ids = numbers(&printed);
    assert!(ids.len() >= 4, "an ID, three IDs and a verdict: {printed}");
    assert!(ids[0] > before, "{before}, then {printed}");
    assert!(ids[..4].is_sorted_by(|a, b| a < b), "exact, and ascending: {printed}");
    assert_eq!(printed.lines().last(), Some(verdict), "{printed}");
    assert_eq!(server.connect().info("ids_issued"), "1005", "all of them came from this server");
}

/// Returns the numbers in a text with at least 15 digits.
fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|char: char| !char.is_ascii_digit()).filter(|word| word.len() >= 15);
    words.map(|word| word.parse().expect("63 bits")).collect()
}

fn client(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clients").join(name)
}

/// Copies a script to the folder of the packages that it imports, because Node searches only there.
fn beside_node_modules(name: &str) -> Script {
    let dir = std::env::var_os("GETID_TEST_NODE_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let packages = dir.join("node_modules");
    assert!(
        packages.is_dir(),
        "{} is no folder: set GETID_TEST_NODE_DIR to where `npm install redis ioredis` was run",
        packages.display()
    );
    let path = dir.join(format!("{}-{name}", std::process::id()));
    std::fs::copy(client(name), &path).expect("copied");
    Script { path }
}

/// A copied script, which is removed with the test.
struct Script {
    path: PathBuf,
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
#[ignore = "needs haproxy"]
fn haproxy_spreads_clients_and_leaves_a_dead_server() {
    let servers = [Server::start(&["--server-id", "0"]), Server::start(&["--server-id", "1"])];
    let proxy = proxy_of(servers[0].port, servers[1].port);

    // Both servers get requests, and no ID repeats.
    let mut wires: Vec<Wire> = (0..4).map(|_| proxy.connect()).collect();
    let mut ids: Vec<u64> = (0..400).map(|draw| wires[draw % 4].id()).collect();
    let mut seen_servers: Vec<u64> = ids.iter().map(|id| id >> 19 & 3).collect();
    seen_servers.sort_unstable();
    seen_servers.dedup();
    assert_eq!(seen_servers, [0, 1]);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 400);

    // One server is killed: after a few checks all IDs come from the other one.
    let [dead, _alive] = servers;
    dead.kill();
    eventually("HAProxy leaves a dead server", || (0..10).all(|_| proxy.can_issue_id()));
    assert_eq!(proxy.server_id(), 1);
}

/// One server answers but gives no IDs, as with a full disk. `haproxy` checks for IDs, so every request goes to the
/// other server.
#[test]
#[ignore = "needs haproxy"]
fn haproxy_leaves_a_server_that_gives_no_ids() {
    let short = ["--id-max-borrow-ms", "500", "--id-watermark-lead-ms", "400"];
    let servers = [Server::start(&[&short[..], &["--server-id", "0"]].concat()), Server::start(&["--server-id", "1"])];
    let proxy = proxy_of(servers[0].port, servers[1].port);
    // A folder in place of the temporary file makes each save fail.
    while std::fs::create_dir_all(servers[0].dir.join("getid-0.state.tmp/x")).is_err() {}
    let mut sick = servers[0].connect();
    eventually("the server gives no more IDs", || sick.ask("GETID").starts_with("-MISCONF"));
    assert_eq!(sick.ask("PING"), "+PONG", "the server is still alive");
    // Two failed checks, a second apart, exclude the server.
    eventually("HAProxy leaves a server that gives no IDs", || (0..10).all(|_| proxy.can_issue_id()));
    let healthy = (0..200).filter(|_| proxy.server_id() == 1).count();
    assert_eq!(healthy, 200);

    // The server is included again automatically.
    std::fs::remove_dir_all(servers[0].dir.join("getid-0.state.tmp")).expect("removed");
    eventually("HAProxy takes it back", || proxy.server_id() == 0);
}

/// Over HTTP, where `haproxy` checks `/readyz`.
#[test]
#[cfg(feature = "http")]
#[ignore = "needs haproxy"]
fn haproxy_leaves_a_server_that_is_not_ready_over_http() {
    let words = ["--id-max-borrow-ms", "500", "--id-watermark-lead-ms", "400", "--server-id"];
    let servers = ["0", "1"].map(|id| HttpServer::start(&[&words[..], &[id]].concat()));
    let ports = [("7889", free_port()), ("7880", servers[0].port), ("7881", servers[1].port)];
    let proxy = HaProxy::of("haproxy_http.cfg", &ports);
    let server_id = || {
        let answer = Http::connect(proxy.port).ask("POST /v1/ids/-", &[], "");
        if answer.status != 200 {
            return None;
        }
        let id: u64 = answer.json()["ids"][0].as_str().and_then(|id| id.parse().ok()).expect("an id");
        Some(id >> 19 & 3)
    };
    eventually("both get requests", || server_id() == Some(0));
    eventually("both get requests", || server_id() == Some(1));
    // A folder in the place of the file that a save writes.
    while std::fs::create_dir_all(servers[0].server.dir.join("getid-0.state.tmp/x")).is_err() {}
    eventually("HAProxy leaves a server that gives no IDs", || (0..10).all(|_| server_id() == Some(1)));
    assert_eq!(servers[0].ask("GET /livez").status, 200, "the server is still alive");
    std::fs::remove_dir_all(servers[0].server.dir.join("getid-0.state.tmp")).expect("removed");
    eventually("HAProxy takes it back", || server_id() == Some(0));
}

/// Starts HAProxy with `examples/haproxy.cfg` and the ports of this test.
fn proxy_of(first: u16, second: u16) -> HaProxy {
    HaProxy::of("haproxy.cfg", &[("7899", free_port()), ("7890", first), ("7891", second)])
}
