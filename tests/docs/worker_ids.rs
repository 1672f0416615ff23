//! The programs of `examples/worker-ids`, each with the real library and the built binary.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::program::run;
use crate::support::proxy::{Proxy, Tap, Target};
use crate::support::{PATIENCE, Server, cargo, folder, free_port, in_time};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/worker-ids").join(name)
}

/// Starts a server with an open pool and leases of 30 s.
fn server(words: &[&str]) -> (Server, TempDir) {
    server_of("orders size 1024 lease 30s", words)
}

/// Starts a server with an open pool, which is declared as new.
fn server_of(pool: &str, words: &[&str]) -> (Server, TempDir) {
    let dir = folder();
    let server = Server::start_in(dir.path(), &[&["--worker-pool", pool], words].concat());
    let mut wire = server.connect();
    wire.send("WORKERID INIT orders NEW\r\n");
    assert_eq!(wire.reply(), b"+OK\r\n");
    (server, dir)
}

/// Runs a program, which makes a thousand IDs and gives its worker id back.
#[track_caller]
fn check(command: &mut Command, server: &Server, verdict: &str) {
    let output = command.env("GETID_PORT", server.port.to_string()).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}\n{complaints}", output.status);
    let last = printed.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("worker id ") && last.ends_with(&format!(": 1000 different IDs, ascending: {verdict}")),
        "{printed}"
    );
    let info = server.connect().info("worker_pool_orders");
    assert!(info.contains("leased=0,") && info.contains("leases=1,") && info.contains("releases=1,"), "{info}");
}

fn driver(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

fn python_path() -> String {
    std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Copies Node's program and its driver to a folder. Node searches packages only in the folders above a script.
fn node_folder() -> TempDir {
    let packages = std::env::var_os("GETID_TEST_NODE_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let dir = tempfile::tempdir_in(packages).expect("GETID_TEST_NODE_DIR is a folder");
    for script in [example("node_worker.mjs"), driver("worker_race.mjs")] {
        std::fs::copy(&script, dir.path().join(script.file_name().expect("a name"))).expect("copied");
    }
    dir
}

#[test]
#[ignore = "needs python3 with redis and snowflake-id (its path in GETID_TEST_PYTHON)"]
fn python() {
    check(Command::new(python_path()).arg(example("python_worker.py")), &server(&[]).0, "True");
}

#[test]
#[ignore = "needs node with redis and @sapphire/snowflake (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node() {
    let dir = node_folder();
    check(Command::new("node").arg(dir.path().join("node_worker.mjs")), &server(&[]).0, "true");
}

#[test]
#[ignore = "needs crates of crates.io"]
fn rust() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ci/rust");
    let mut command = cargo();
    command.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(example("rust/Cargo.toml"));
    check(command.env("CARGO_TARGET_DIR", target), &server(&[]).0, "true");
}

#[test]
#[ignore = "needs java, version 17 or later"]
fn java() {
    let port = free_port().to_string();
    let (server, _dir) = server(&["--http-port", &port]);
    let mut command = Command::new("java");
    command.arg(example("JavaWorker.java")).env("GETID_URL", format!("http://127.0.0.1:{port}"));
    check(&mut command, &server, "true");
}

/// A language's program around its example. It makes IDs on its own thread and obeys the lines on its standard input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    Node,
    Rust,
    Java,
}

struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
    _dir: Option<TempDir>,
}

impl Program {
    /// Starts the program with the server's port: for Java, the HTTP port.
    fn start(language: Language, port: u16) -> Program {
        let (mut command, dir) = match language {
            Language::Python => {
                let mut command = Command::new(python_path());
                command.env("PYTHONDONTWRITEBYTECODE", "1").arg(driver("worker_race.py")).arg(example(""));
                (command, None)
            }
            Language::Node => {
                let dir = node_folder();
                let mut command = Command::new("node");
                command.arg(dir.path().join("worker_race.mjs"));
                (command, Some(dir))
            }
            Language::Rust => {
                let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ci/rust");
                let mut command = cargo();
                command.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(driver("rust/Cargo.toml"));
                command.args(["--", "worker-race"]).env("CARGO_TARGET_DIR", target);
                (command, None)
            }
            Language::Java => {
                let dir = folder();
                let sources = [example("JavaWorker.java"), driver("WorkerRace.java")];
                run(Command::new("javac").arg("-d").arg(dir.path()).args(sources), "");
                let mut command = Command::new("java");
                command.arg("-cp").arg(dir.path()).arg("WorkerRace");
                command.env("GETID_URL", format!("http://127.0.0.1:{port}"));
                (command, Some(dir))
            }
        };
        command.env("GETID_PORT", port.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
        let stdout = child.stdout.take().expect("piped");
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|l| line.send(l)));
        Program { child, lines, _dir: dir }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("sent");
    }

    /// Returns what follows `word` on the next line, which must begin with it.
    #[track_caller]
    fn read(&self, word: &str) -> String {
        // Cargo may build the program first.
        let line = self.lines.recv_timeout(PATIENCE * 10).expect("a line in time");
        line.strip_prefix(word).unwrap_or_else(|| panic!("{line:?} instead of {word:?}")).trim().to_owned()
    }

    /// Draws an ID, and returns the results of all draws so far.
    #[track_caller]
    fn probe(&mut self) -> Probe {
        self.send("probe");
        let line = self.read("probed");
        let [late, newest_ms, refusal] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{line}"));
        Probe { late: number(late), newest_ms: number(newest_ms), refusal: refusal.to_owned() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Probe {
    /// IDs that were drawn after `close()` had returned.
    late: u64,
    /// The time of the newest ID, Unix ms; 0 if there is none.
    newest_ms: u64,
    refusal: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Lease,
    Renew,
    Release,
}

/// The form of each request over RESP and over HTTP.
const REQUESTS: [(&str, Request); 6] = [
    ("\r\nLEASE\r\n", Request::Lease),
    ("\r\nRENEW\r\n", Request::Renew),
    ("\r\nRELEASE\r\n", Request::Release),
    ("/leases HTTP/1.1\r\n", Request::Lease),
    ("/renew HTTP/1.1\r\n", Request::Renew),
    ("/release HTTP/1.1\r\n", Request::Release),
];

/// A proxy between a program and the server: it records requests, holds a reply, and shifts times.
#[derive(Default)]
struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeskState {
    /// Bytes of each connection since its last complete request.
    unread: HashMap<usize, String>,
    requests: Vec<(Request, Instant)>,
    /// The request of each connection that has no reply yet.
    pending: HashMap<usize, Request>,
    /// Times just before replies to renewals were passed on.
    renewed: Vec<Instant>,
    /// The kind of request whose next reply is held until the test releases it.
    holds: Option<Request>,
    held: Option<usize>,
    is_reply_here: bool,
    /// Apparent distance of the server's clock ahead of the program's, ms.
    shift_ms: i64,
}

impl DeskState {
    fn count(&self, kind: Request) -> usize {
        self.requests.iter().filter(|(request, _)| *request == kind).count()
    }
}

impl Desk {
    fn set(&self, change: impl FnOnce(&mut DeskState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, mut find: impl FnMut(&DeskState) -> Option<T>) -> T {
        let state = self.state.lock().unwrap();
        let (state, _) = self.changed.wait_timeout_while(state, PATIENCE, |state| find(state).is_none()).unwrap();
        find(&state).unwrap_or_else(|| panic!("not in time: {what}"))
    }
}

impl Tap for Desk {
    fn request(&self, connection: usize, bytes: &mut [u8]) {
        self.set(|state| {
            move_times(bytes, -state.shift_ms);
            state.unread.entry(connection).or_default().push_str(&String::from_utf8_lossy(bytes));
            while let Some(request) = next_request(state.unread.entry(connection).or_default()) {
                state.requests.push((request, Instant::now()));
                state.pending.insert(connection, request);
                if state.holds.take_if(|holds| *holds == request).is_some() {
                    state.held = Some(connection);
                }
            }
        });
    }

    fn reply(&self, connection: usize, bytes: &mut [u8]) {
        let mut state = self.state.lock().unwrap();
        move_times(bytes, state.shift_ms);
        while state.held == Some(connection) {
            state.is_reply_here = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap();
        }
        if state.pending.remove(&connection) == Some(Request::Renew) {
            state.renewed.push(Instant::now());
        }
    }
}

/// Removes the bytes up to the end of the first request, and returns that request.
fn next_request(unread: &mut String) -> Option<Request> {
    let find = |(word, request): &(&str, Request)| Some((unread.find(word)? + word.len(), *request));
    let (end, request) = REQUESTS.iter().filter_map(find).min_by_key(|(end, _)| *end)?;
    unread.drain(..end);
    Some(request)
}

/// Shifts each number of 13 digits, which is always a time in Unix ms.
fn move_times(bytes: &mut [u8], by_ms: i64) {
    for word in bytes.chunk_by_mut(|one, next| one.is_ascii_alphanumeric() == next.is_ascii_alphanumeric()) {
        if word.len() == 13 && word.iter().all(u8::is_ascii_digit) {
            let time_ms: i64 = str::from_utf8(word).unwrap().parse().unwrap();
            word.copy_from_slice((time_ms + by_ms).to_string().as_bytes());
        }
    }
}

/// Starts a server with leases of 3 s, a program, and a proxy between them.
fn start(language: Language, shift_ms: i64) -> (Server, TempDir, Arc<Desk>, Program) {
    let http_port = free_port();
    let (server, dir) = server_of("orders size 1024 lease 3s", &["--http-port", &http_port.to_string()]);
    let desk = Arc::new(Desk::default());
    desk.set(|state| state.shift_ms = shift_ms);
    let port = if language == Language::Java { http_port } else { server.port };
    let tap: Arc<dyn Tap> = Arc::clone(&desk) as Arc<dyn Tap>;
    let proxy = Proxy::tapped(Target::Port(port), tap);
    let program = Program::start(language, proxy.port);
    (server, dir, desk, program)
}

/// A worker is closed while the reply to a request is held. It gives no ID afterwards, and gives its worker id back
/// once the reply is there. The next program with the same name gets the id, and the milliseconds after all IDs.
fn check_close(language: Language, held: Request) {
    let (server, _dir, desk, mut program) = start(language, 0);
    let id = program.read("leased");
    in_time("an ID", || (program.probe().newest_ms > 0).then_some(()));
    desk.set(|state| state.holds = Some(held));
    let mut wire = server.connect();
    if held == Request::Lease {
        // The revoked worker leases again.
        wire.send(format!("WORKERID REVOKE orders {id}\r\n"));
        wire.reply();
    }
    desk.wait("a reply that is held", |state| state.is_reply_here.then_some(()));
    program.send("close");
    program.read("refused");
    let releases = desk.state.lock().unwrap().count(Request::Release);
    desk.set(|state| state.held = None);
    program.read("closed");
    let probe = program.probe();
    assert_eq!(probe.late, 0, "IDs after close(), {probe:?}");
    assert!(probe.refusal.ends_with("this worker is closed"), "{probe:?}");
    assert_eq!(releases, 0, "the id is given back after the held reply");
    let info = wire.info("worker_pool_orders");
    assert!(info.contains("leased=0,"), "{info}");

    wire.send("WORKERID LEASE orders NAME race\r\n");
    let reply = String::from_utf8(wire.reply()).unwrap();
    let lines: Vec<&str> = reply.split("\r\n").collect();
    let not_before: u64 = lines[4].trim_start_matches(':').parse().unwrap();
    assert_eq!(lines[1], format!(":{id}"), "{reply}");
    assert!(not_before > probe.newest_ms, "from {not_before} on, after {probe:?}");
}

const HOUR_MS: i64 = 3_600_000;

/// A program whose clock is an hour wrong sends at most one request a second, and reports the error and its remedy. It
/// makes IDs as soon as the clock is right.
fn check_clock(language: Language) {
    let (_server, _dir, desk, mut program) = start(language, -HOUR_MS);
    program.read("leased");
    let (requests, renewed) = desk.wait("three renewals", |state| {
        let all = &state.requests;
        (state.count(Request::Renew) >= 3).then(|| (all.clone(), state.renewed.clone()))
    });
    let sent_at: Vec<Instant> =
        requests.iter().filter(|(what, _)| *what == Request::Renew).map(|(_, at)| *at).collect();
    for (next, reply) in sent_at[1..].iter().zip(renewed) {
        // A timer of Node may be a millisecond early.
        assert!(*next - reply >= Duration::from_millis(990), "{:?} after a reply", *next - reply);
    }
    let probe = program.probe();
    let (_, ahead) = probe.refusal.split_once("this machine's clock is at least ").expect(&probe.refusal);
    let (seconds, rest) = ahead.split_once(" s ahead of the server's").expect(&probe.refusal);
    let seconds: f64 = seconds.parse().expect(&probe.refusal);
    assert!((3500.0..3600.0).contains(&seconds) && rest.contains("timedatectl set-ntp true"), "{probe:?}");
    assert_eq!(probe.newest_ms, 0, "{probe:?}");
    desk.set(|state| state.shift_ms = 0);
    in_time("an ID", || (program.probe().newest_ms > 0).then_some(()));

    // With a clock that is behind, the lease is kept until the clock reaches it: a third of the rest would be 20
    // minutes.
    let (_server, _dir, desk, mut program) = start(language, HOUR_MS);
    program.read("leased");
    desk.wait("two renewals", |state| (state.renewed.len() >= 2).then_some(()));
    let probe = program.probe();
    assert!(probe.refusal.contains(" s behind the first time that an ID may have. Set the clock"), "{probe:?}");
    assert_eq!(probe.newest_ms, 0, "{probe:?}");
}

#[test]
#[ignore = "needs python3 with redis and snowflake-id (its path in GETID_TEST_PYTHON)"]
fn python_gives_no_id_after_close() {
    check_close(Language::Python, Request::Renew);
    check_close(Language::Python, Request::Lease);
}

#[test]
#[ignore = "needs python3 with redis and snowflake-id (its path in GETID_TEST_PYTHON)"]
fn python_names_a_wrong_clock() {
    check_clock(Language::Python);
}

/// A fork copies the worker and its worker id, but not its thread.
#[test]
#[ignore = "needs python3 with redis and snowflake-id (its path in GETID_TEST_PYTHON)"]
fn python_gives_no_id_in_a_fork() {
    let (server, _dir, _desk, mut program) = start(Language::Python, 0);
    program.read("leased");
    program.send("fork");
    for what in ["next()", "close()"] {
        let refusal = program.read("forked");
        assert!(refusal.contains("make a Worker after the fork"), "{what}: {refusal}");
    }
    let info = server.connect().info("worker_pool_orders");
    assert!(info.contains("releases=0,"), "{info}");
}

#[test]
#[ignore = "needs node with redis and @sapphire/snowflake (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node_gives_no_id_after_close() {
    check_close(Language::Node, Request::Renew);
    check_close(Language::Node, Request::Lease);
}

#[test]
#[ignore = "needs node with redis and @sapphire/snowflake (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node_names_a_wrong_clock() {
    check_clock(Language::Node);
}

#[test]
#[ignore = "needs crates of crates.io, and minutes to build them"]
fn rust_gives_no_id_after_close() {
    check_close(Language::Rust, Request::Renew);
    check_close(Language::Rust, Request::Lease);
}

#[test]
#[ignore = "needs crates of crates.io, and minutes to build them"]
fn rust_names_a_wrong_clock() {
    check_clock(Language::Rust);
}

#[test]
#[ignore = "needs a JDK, version 17 or later"]
fn java_gives_no_id_after_close() {
    check_close(Language::Java, Request::Renew);
    check_close(Language::Java, Request::Lease);
}

#[test]
#[ignore = "needs a JDK, version 17 or later"]
fn java_names_a_wrong_clock() {
    check_clock(Language::Java);
}
