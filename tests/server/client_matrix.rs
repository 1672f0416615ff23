//! The matrix of real clients: each at its defaults, unmodified, runs the same list of checks against the real process.
//!
//! A row is a client and a way to use it. Its script in `tests/clients/` prints `version NAME X.Y`, then `ok CHECK` for
//! each check, and fails at the first broken check. A test asserts that exactly the checks of its row were printed.
//! `ROWS` lists the checks that a client cannot do, with the reason; the table in docs/clients.md has the same text.
//!
//! Scripts read the addresses of the servers from `MATRIX_PORT`, `MATRIX_TLS_PORT` (the same server),
//! `MATRIX_PASSWORD_PORT` (another, with the password `MATRIX_PASSWORD`) and `MATRIX_CA` (the certificate authority);
//! all are on 127.0.0.1. Further arguments of a script are names of checks; then only those are run.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::program::{fails, finish, run};
use crate::support::tls::Files;
use crate::support::{self, PATIENCE, Server, Wire, eventually, free_port};

/// Checks of a row, unless it gives a reason why not:
/// - `connect`: with a database and a name, PING, ECHO, INFO, CLIENT, CONFIG GET, in the row's version of RESP
/// - `getid`: 1024 IDs, singly, as the language's integers (JavaScript: as strings), with all digits
/// - `mgetid`: 100 IDs at once
/// - `error`: surfaces as the library's own server error, and the connection stays usable
/// - `pipeline`, `multi`: a thousand GETID without and within MULTI, and errors among them
/// - `pool`: 50 connections at once draw 20,000 IDs, ascending on each, none twice
/// - `reconnect`: after CLIENT KILL, automatically where that is the default, else on request
/// - `password`: a wrong and a missing one are refused in the server's words; the right one is accepted, with and
///   without a user name
/// - `tls`: a thousand GETID by TLS; a certificate of an unknown authority is refused
const CHECKS: [&str; 10] =
    ["connect", "getid", "mgetid", "error", "pipeline", "multi", "pool", "reconnect", "password", "tls"];

struct Row {
    /// The client's name in the table of docs/clients.md.
    client: &'static str,
    mode: &'static str,
    /// Checks that the client cannot do, with the reason.
    without: &'static [(&'static str, &'static str)],
    /// Whether a file of this repository fixes its version; otherwise the machine's packages decide.
    pinned: bool,
}

const fn row(client: &'static str, mode: &'static str, pinned: bool) -> Row {
    Row { client, mode, without: &[], pinned }
}

const ROWS: [Row; 21] = [
    row("redis-py", "sync, RESP3 (its default)", true),
    row("redis-py", "sync, RESP2", true),
    row("redis-py", "asyncio, RESP3 (its default)", true),
    row("redis-py", "asyncio, RESP2", true),
    row("valkey-py", "sync", true),
    row("valkey-py", "asyncio", true),
    row("ioredis", "RESP3 (its default)", true),
    row("ioredis", "RESP2", true),
    row("node-redis", "RESP3 (its default)", true),
    row("node-redis", "RESP2", true),
    row("redis", "Rust, blocking", true),
    row("redis", "Rust, tokio, RESP3", true),
    row("fred", "Rust, RESP2 (its default)", true),
    row("fred", "Rust, RESP3", true),
    row("phpredis", "PHP", false),
    row("redis-rb", "Ruby", false),
    row("Redis.pm", "Perl", false),
    Row { without: &[("tls", "hiredis has it from 1.0 on")], ..row("hiredis", "C", false) },
    row("redis-cli", "", false),
    Row {
        without: &[
            ("error", "it ends at the first one"),
            ("multi", "it sends one command over and over"),
            ("reconnect", "it ends when a connection is lost"),
        ],
        ..row("redis-benchmark", "", false)
    },
    Row {
        without: &[
            ("getid", "it draws no IDs"),
            ("mgetid", "it draws no IDs"),
            ("error", "it sends only what it knows"),
            ("pipeline", "it draws no IDs"),
            ("multi", "it draws no IDs"),
            ("pool", "one connection a scrape"),
            ("reconnect", "one connection a scrape"),
        ],
        ..row("prometheus-redis-exporter", "", false)
    },
];

fn find_row(client: &str, mode: &str) -> &'static Row {
    ROWS.iter().find(|row| (row.client, row.mode) == (client, mode)).expect("a row of the table")
}

impl Row {
    /// Returns the checks that the script must print, in this order.
    fn checks(&self) -> Vec<&'static str> {
        let has = |check: &&str| self.without.iter().all(|(without, _)| without != check);
        CHECKS.iter().copied().filter(has).collect()
    }

    /// Returns its line in the table, without the version.
    fn cells(&self) -> [String; 3] {
        let list: Vec<String> = self.without.iter().map(|(check, why)| format!("`{check}`: {why}")).collect();
        [self.client.to_owned(), self.mode.to_owned(), list.join("; ")]
    }
}

/// Returns the rows of the table in docs/clients.md: client, mode, version, and missing checks.
fn documented_table() -> Vec<[String; 4]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/clients.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let table = text.split_once("| client | used as | version | without |\n").expect("the table").1;
    let cells = |line: &str| -> [String; 4] {
        let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        cells.try_into().expect("four cells")
    };
    table.lines().skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

#[test]
fn the_table_in_the_documents_is_this_one() {
    let shown = documented_table();
    let cells: Vec<[String; 3]> =
        shown.iter().map(|[client, mode, _, without]| [client.clone(), mode.clone(), without.clone()]).collect();
    assert_eq!(cells, ROWS.each_ref().map(Row::cells));
    for [client, _, version, _] in shown {
        let numbers = version.split('.').map(str::parse::<u32>);
        assert!(numbers.clone().count() >= 2 && numbers.clone().all(|number| number.is_ok()), "{client}: {version}");
    }
}

#[test]
fn omitted_checks_exist_and_have_a_reason() {
    for row in &ROWS {
        for (check, why) in row.without {
            assert!(CHECKS.contains(check) && !why.is_empty(), "{}: {check}", row.client);
        }
    }
}

/// Servers that a row needs.
struct Servers {
    plain: Server,
    tls_port: u16,
    locked: Server,
    files: Files,
}

const PASSWORD: &str = "correct-horse";

impl Servers {
    fn start() -> Servers {
        let files = Files::new();
        let (plain, tls_port) = files.start("no", &[]);
        Servers { plain, tls_port, locked: Server::start(&["--requirepass", PASSWORD]), files }
    }

    fn ca(&self) -> PathBuf {
        self.files.dir.path().join("ca.crt")
    }

    /// Passes the servers' addresses to a script in environment variables.
    fn set_env(&self, command: &mut Command) {
        command
            .env("MATRIX_PORT", self.plain.port.to_string())
            .env("MATRIX_TLS_PORT", self.tls_port.to_string())
            .env("MATRIX_PASSWORD_PORT", self.locked.port.to_string())
            .env("MATRIX_PASSWORD", PASSWORD)
            .env("MATRIX_CA", self.ca());
    }

    /// Asserts that no client caused a panic or a protocol error, and that the row's checks had the effect they need.
    fn judge(&self, row: &Row) {
        let mut wire = self.plain.connect();
        assert_eq!(wire.info("connection_panics"), "0");
        assert_eq!(wire.info("protocol_error_connections"), "0");
        let mut number = |field: &str| wire.info_number(field);
        if row.checks().contains(&"pool") {
            assert!(number("clients_peak") >= 50, "fifty connections at once");
            assert!(number("ids_issued") >= 20_000);
        }
        if row.checks().contains(&"tls") {
            assert!(number("tls_handshakes") >= 1);
        }
    }
}

/// Compares the printed checks with the row's, and the printed version with the one in docs/clients.md.
fn judge(row: &Row, printed: &str) {
    let [client, mode, ..] = row.cells();
    let mut lines = printed.lines();
    let version = lines.next().and_then(|line| line.strip_prefix(&format!("version {client} ")));
    let version = version.unwrap_or_else(|| panic!("no version of {client}:\n{printed}"));
    let expected: Vec<String> = row.checks().iter().map(|check| format!("ok {check}")).collect();
    assert_eq!(lines.collect::<Vec<_>>(), expected, "{client} {mode}");
    println!("{client} {version} {mode}");
    let shown = documented_table().into_iter().find(|cells| cells[..2] == [client.clone(), mode.clone()]);
    let [_, _, shown, _] = shown.expect("a line in the table");
    assert!(
        !row.pinned || shown == version,
        "docs/clients.md names {client} {shown}; the installed version is {version}"
    );
}

/// Runs a row's script to the end.
fn script(row: &Row, mut command: Command) {
    let servers = Servers::start();
    servers.set_env(&mut command);
    let output = finish(&mut command, "", support::program::PATIENCE, false);
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{printed}\n{complaints}", output.status);
    judge(row, &printed);
    servers.judge(row);
}

fn clients(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

fn python(client: &str, mode: &str, words: &[&str]) {
    let python = std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    command.arg(clients("python.py")).args(words);
    script(find_row(client, mode), command);
}

#[test]
#[ignore = "needs python3 with redis and valkey (its path in GETID_TEST_PYTHON)"]
fn redis_py_sync() {
    python("redis-py", "sync, RESP3 (its default)", &["redis", "sync"]);
}

#[test]
#[ignore = "needs python3 with redis and valkey (its path in GETID_TEST_PYTHON)"]
fn redis_py_sync_resp2() {
    python("redis-py", "sync, RESP2", &["redis", "sync", "2"]);
}

#[test]
#[ignore = "needs python3 with redis and valkey (its path in GETID_TEST_PYTHON)"]
fn redis_py_asyncio() {
    python("redis-py", "asyncio, RESP3 (its default)", &["redis", "asyncio"]);
}

#[test]
#[ignore = "needs python3 with redis and valkey (its path in GETID_TEST_PYTHON)"]
fn redis_py_asyncio_resp2() {
    python("redis-py", "asyncio, RESP2", &["redis", "asyncio", "2"]);
}

#[test]
#[ignore = "needs python3 with redis and valkey (its path in GETID_TEST_PYTHON)"]
fn valkey_py_sync() {
    python("valkey-py", "sync", &["valkey", "sync"]);
}

#[test]
#[ignore = "needs python3 with redis and valkey (its path in GETID_TEST_PYTHON)"]
fn valkey_py_asyncio() {
    python("valkey-py", "asyncio", &["valkey", "asyncio"]);
}

fn node(client: &str, mode: &str, name: &str, words: &[&str]) {
    let dir = std::env::var("GETID_TEST_NODE_DIR").expect("GETID_TEST_NODE_DIR is where node_modules is");
    assert!(Path::new(&dir).join("node_modules/redis").exists(), "{dir}/node_modules has no redis");
    let mut command = Command::new("node");
    command.arg(clients(name)).args(words);
    script(find_row(client, mode), command);
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn ioredis() {
    node("ioredis", "RESP3 (its default)", "ioredis.mjs", &[]);
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn ioredis_resp2() {
    node("ioredis", "RESP2", "ioredis.mjs", &["2"]);
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node_redis() {
    node("node-redis", "RESP3 (its default)", "node_redis.mjs", &[]);
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node_redis_resp2() {
    node("node-redis", "RESP2", "node_redis.mjs", &["2"]);
}

fn rust(client: &str, mode: &str, word: &str) {
    let mut command = Command::new(rust_clients());
    command.arg(word);
    script(find_row(client, mode), command);
}

/// Builds the package of the Rust clients, which this package does not depend on, and returns its program.
pub(crate) fn rust_clients() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ci/rust");
    let mut build = crate::support::cargo();
    build.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(clients("rust/Cargo.toml"));
    build.env("CARGO_TARGET_DIR", &target);
    let output = finish(&mut build, "", Duration::from_mins(10), false);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug/client-matrix")
}

#[test]
#[ignore = "needs the crates redis and fred, and minutes to build them"]
fn rust_redis() {
    rust("redis", "Rust, blocking", "redis");
}

#[test]
#[ignore = "needs the crates redis and fred, and minutes to build them"]
fn rust_redis_tokio() {
    rust("redis", "Rust, tokio, RESP3", "redis-tokio");
}

#[test]
#[ignore = "needs the crates redis and fred, and minutes to build them"]
fn rust_fred() {
    rust("fred", "Rust, RESP2 (its default)", "fred");
}

#[test]
#[ignore = "needs the crates redis and fred, and minutes to build them"]
fn rust_fred_resp3() {
    rust("fred", "Rust, RESP3", "fred-resp3");
}

#[test]
#[ignore = "needs php with phpredis"]
fn php() {
    let mut command = Command::new("php");
    command.arg(clients("php_redis.php"));
    script(find_row("phpredis", "PHP"), command);
}

#[test]
#[ignore = "needs ruby with redis"]
fn ruby() {
    let mut command = Command::new("ruby");
    command.arg(clients("ruby_redis.rb"));
    script(find_row("redis-rb", "Ruby"), command);
}

#[test]
#[ignore = "needs perl with Redis and IO::Socket::SSL"]
fn perl() {
    let mut command = Command::new("perl");
    command.arg(clients("perl_redis.pl"));
    script(find_row("Redis.pm", "Perl"), command);
}

#[test]
#[ignore = "needs gcc and libhiredis-dev"]
fn hiredis() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("hiredis");
    let options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread"];
    run(Command::new("gcc").args(options).arg(clients("hiredis.c")).arg("-o").arg(&program).arg("-lhiredis"), "");
    script(find_row("hiredis", "C"), Command::new(program));
}

/// Output of a row that this process runs itself, in the format of a script.
struct ClientReport(String);

impl ClientReport {
    fn new(client: &str, version: &str) -> ClientReport {
        ClientReport(format!("version {client} {version}\n"))
    }

    fn ok(&mut self, check: &str) {
        self.0 += &["ok ", check, "\n"].concat();
    }
}

/// Returns the version from the first line of `--version`: `redis-cli 7.0.15`.
fn version_of(program: &str) -> String {
    let output = run(Command::new(program).arg("--version"), "");
    output.split_whitespace().nth(1).unwrap_or_else(|| panic!("{program}: {output}")).to_owned()
}

fn tool(program: &str, port: u16, words: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-p", &port.to_string()]).args(words.split(' '));
    command
}

/// Returns the output of `redis-cli` for a command.
fn cli(port: u16, words: &str) -> String {
    run(&mut tool("redis-cli", port, words), "")
}

#[track_caller]
fn ascending(lines: &str, count: usize) -> Vec<u64> {
    let ids: Vec<u64> = lines.lines().map(|line| line.parse().expect("an ID")).collect();
    assert_eq!(ids.len(), count);
    assert!(ids.is_sorted_by(|a, b| a < b), "not ascending");
    ids
}

#[test]
#[ignore = "needs redis-cli and redis-benchmark"]
fn redis_cli() {
    let row = find_row("redis-cli", "");
    let servers = Servers::start();
    let port = servers.plain.port;
    let mut report = ClientReport::new("redis-cli", &version_of("redis-cli"));

    assert_eq!(cli(port, "-n 3 PING"), "PONG\n");
    assert!(cli(port, "CLIENT INFO").contains(" resp=2") && cli(port, "-3 CLIENT INFO").contains(" resp=3"));
    report.ok("connect");

    let ids = ascending(&cli(port, "-r 1024 GETID"), 1024);
    assert_eq!(ids.iter().map(|id| id % 1024).collect::<HashSet<_>>().len(), 1024, "lost digits");
    report.ok("getid");

    ascending(&cli(port, "MGETID 100"), 100);
    report.ok("mgetid");

    let output = run(&mut redis_cli_at(port), "CLIENT ID\nMGETID 101\nNOSUCH\nGETID\nCLIENT ID\n");
    let lines: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 5, "{output}");
    assert_eq!(lines[1], "ERR parameters error! argv[1] = 101");
    assert!(lines[2].starts_with("ERR unknown command 'NOSUCH'"), "{output}");
    assert!(lines[3].parse::<u64>().is_ok() && lines[0] == lines[4], "the connection was not kept: {output}");
    report.ok("error");

    let before = issued(&servers.plain);
    let output = run(&mut tool("redis-cli", port, "--pipe"), &"GETID\r\n".repeat(1000));
    assert!(output.contains("errors: 0, replies: 1000"), "{output}");
    assert_eq!(issued(&servers.plain) - before, 1000);
    report.ok("pipeline");

    let output = run(&mut redis_cli_at(port), &format!("MULTI\n{}EXEC\n", "GETID\n".repeat(1000)));
    assert!(output.starts_with("OK\nQUEUED\n"), "{output}");
    ascending(&output.replace("OK\n", "").replace("QUEUED\n", ""), 1000);
    let output = run(&mut redis_cli_at(port), "MULTI\nGETID\nMGETID\nEXEC\nGETID\n");
    assert!(output.contains("EXECABORT"), "{output}");
    report.ok("multi");

    // Its pool is fifty processes, each with all of its requests in one pipeline.
    let mut sessions: Vec<Session> = (0..50).map(|_| Session::start(port)).collect();
    for session in &mut sessions {
        assert_eq!(session.ask("PING"), "PONG");
    }
    for session in &mut sessions {
        session.send(&"GETID\n".repeat(400));
    }
    let mut all = HashSet::new();
    for session in &mut sessions {
        let ids: Vec<u64> = (0..400).map(|_| session.line().parse().expect("an ID")).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "not ascending");
        all.extend(ids);
    }
    assert_eq!(all.len(), 20_000, "an ID came twice");
    drop(sessions);
    report.ok("pool");

    let mut session = Session::start(port);
    let (before, last) = (session.ask("CLIENT ID"), session.ask("GETID").parse::<u64>().expect("an ID"));
    assert_eq!(servers.plain.connect().ask(&format!("CLIENT KILL ID {before}")), ":1");
    // A lost request reveals the closed connection: `redis-cli` prints an error and reconnects for the next one.
    session.send("PING\n");
    assert!(session.ask("GETID").parse::<u64>().is_ok_and(|id| id > last), "redis-cli does not reconnect");
    assert_ne!(session.ask("CLIENT ID"), before);
    report.ok("reconnect");

    let locked = servers.locked.port;
    assert!(cli(locked, "GETID").contains("NOAUTH"));
    assert!(cli(locked, "-a wrong GETID").contains("WRONGPASS"));
    assert!(cli(locked, "--user default --pass wrong GETID").contains("WRONGPASS"));
    for who in [format!("-a {PASSWORD}"), format!("--user default --pass {PASSWORD}")] {
        ascending(&cli(locked, &format!("--no-auth-warning {who} GETID")), 1);
    }
    report.ok("password");

    let ca = servers.ca();
    let ca = ca.to_str().expect("a path");
    ascending(&cli(servers.tls_port, &format!("--tls --cacert {ca} -r 1000 GETID")), 1000);
    let output = fails(&mut tool("redis-cli", servers.tls_port, "--tls GETID"));
    assert!(output.contains("certificate verify failed"), "{output}");
    report.ok("tls");

    judge(row, &report.0);
    servers.judge(row);
}

fn redis_cli_at(port: u16) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &port.to_string()]);
    command
}

fn issued(server: &Server) -> u64 {
    server.connect().info("ids_issued").parse().expect("a number")
}

/// A `redis-cli` process that takes one command after another.
struct Session {
    child: Child,
    stdin: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Session {
    fn start(port: u16) -> Session {
        let mut command = redis_cli_at(port);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("redis-cli is installed");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Session { child, stdin, lines: BufReader::new(stdout) }
    }

    fn send(&mut self, text: &str) {
        self.stdin.write_all(text.as_bytes()).expect("sent");
    }

    /// Returns its next line that is not empty.
    fn line(&mut self) -> String {
        let mut line = String::new();
        while line.trim().is_empty() {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).expect("a line"), 0, "redis-cli has ended");
        }
        line.trim().to_owned()
    }

    fn ask(&mut self, words: &str) -> String {
        self.send(&format!("{words}\n"));
        self.line()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs redis-cli and redis-benchmark"]
fn redis_benchmark() {
    let row = find_row("redis-benchmark", "");
    let servers = Servers::start();
    let mut report = ClientReport::new("redis-benchmark", &version_of("redis-benchmark"));
    // The benchmark counts replies and prints their rate; the server's counter shows that they were IDs.
    let load = |port: u16, words: &str, least: u64, server: &Server| {
        let before = issued(server);
        let output = run(&mut tool("redis-benchmark", port, words), "");
        assert!(output.contains("requests per second") && !output.contains("rror"), "{words}: {output}");
        assert!(issued(server) - before >= least, "{words}: too few IDs");
    };
    let (plain, port) = (&servers.plain, servers.plain.port);
    load(port, "-n 100 -q -3 --dbnum 3 PING", 0, plain);
    report.ok("connect");
    load(port, "-n 1024 -c 1 -q GETID", 1024, plain);
    report.ok("getid");
    load(port, "-n 100 -q MGETID 100", 10_000, plain);
    report.ok("mgetid");
    load(port, "-n 20000 -P 1000 -c 1 -q GETID", 20_000, plain);
    report.ok("pipeline");
    load(port, "-n 20000 -c 50 --threads 2 -q GETID", 20_000, plain);
    report.ok("pool");
    let locked = servers.locked.port;
    for (words, refusal) in [("-q GETID", "NOAUTH"), ("-a wrong -q GETID", "WRONGPASS")] {
        let output = finish(&mut tool("redis-benchmark", locked, words), "", support::program::PATIENCE, false);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(refusal), "{words}: {text}");
    }
    let with_password = tool("redis-benchmark", locked, &format!("-a {PASSWORD} -n 1000 -q GETID"));
    let mut with_password = with_password;
    let output = run(&mut with_password, "");
    assert!(output.contains("requests per second"), "{output}");
    report.ok("password");
    let ca = servers.ca();
    let ca = ca.to_str().expect("a path");
    load(servers.tls_port, &format!("--tls --cacert {ca} -n 1000 -q GETID"), 1000, plain);
    report.ok("tls");
    judge(row, &report.0);
    servers.judge(row);
}

#[test]
#[ignore = "needs prometheus-redis-exporter"]
fn prometheus_redis_exporter() {
    let row = find_row("prometheus-redis-exporter", "");
    let servers = Servers::start();
    let output = run(Command::new(EXPORTER).arg("-version"), "");
    let version = output.split("Redis Metrics Exporter ").nth(1).and_then(|rest| rest.split(['-', '+', ' ']).next());
    let mut report = ClientReport::new(EXPORTER, version.expect("its version"));
    let mut wire = servers.plain.connect();
    assert_eq!(wire.ask("CONFIG SET slowlog-log-slower-than 0"), "+OK");
    // Enough draws to take a microsecond together, the resolution of INFO.
    for _ in 0..200 {
        wire.id();
    }
    wire.ids(100);
    assert!(wire.ask("NOSUCH").starts_with("-ERR unknown command"));
    let address = format!("redis://127.0.0.1:{}", servers.plain.port);

    // First at its defaults, then with all of its options.
    let more = ["-export-client-list", "-include-system-metrics", "-include-config-metrics"];
    for words in [&[][..], &more] {
        let mut exporter = Exporter::start(&address, words);
        exporter.scrape();
        let metrics = exporter.scrape();
        exporter.has_no_error();
        assert_eq!(shown(&metrics, "redis_up"), "1");
        assert_eq!(shown(&metrics, "redis_exporter_last_scrape_error{err=\"\"}"), "0");
        for name in [
            "redis_connected_clients",
            "redis_commands_processed_total",
            "redis_connections_received_total",
            "redis_memory_used_bytes",
            "redis_memory_used_rss_bytes",
            "redis_net_input_bytes_total",
            "redis_net_output_bytes_total",
            "redis_config_maxclients",
            "redis_commands_duration_seconds_total{cmd=\"getid\"}",
            "redis_commands_duration_seconds_total{cmd=\"info\"}",
            "redis_slowlog_length",
            "redis_slowlog_last_id",
            "redis_errors_total{err=\"ERR\"}",
        ] {
            assert!(value(&metrics, name) > 0.0, "{name}");
        }
        for name in ["redis_uptime_in_seconds", "redis_last_slow_execution_duration_seconds", "redis_blocked_clients"] {
            assert!(value(&metrics, name) >= 0.0, "{name}");
        }
        assert_eq!(shown(&metrics, "redis_commands_total{cmd=\"getid\"}"), "200");
        assert_eq!(shown(&metrics, "redis_commands_total{cmd=\"mgetid\"}"), "1");
        assert!(value(&metrics, "redis_commands_total{cmd=\"info\"}") >= 1.0);
        assert!(metrics.contains("\nredis_instance_info{"));
        assert!(metrics.contains("\nredis_latency_percentiles_usec{cmd=\"getid\""));
        assert_eq!(words.is_empty(), !metrics.contains("\nredis_connected_clients_details{"));
    }
    report.ok("connect");

    let address = format!("redis://127.0.0.1:{}", servers.locked.port);
    let mut control = servers.locked.connect();
    assert_eq!(control.ask(&format!("AUTH {PASSWORD}")), "+OK");
    // The user of docs/access.md.
    let page = include_str!("../../docs/access.md");
    let line = page.lines().find_map(|line| line.strip_prefix("user watcher ")).expect("the line");
    assert_eq!(control.ask(&format!("ACL SETUSER exporter >scrape {line}")), "+OK");
    for words in [
        &["-redis.password", PASSWORD][..],
        &["-redis.user", "default", "-redis.password", PASSWORD],
        &["-redis.user", "exporter", "-redis.password", "scrape", "-export-client-list"],
    ] {
        let mut exporter = Exporter::start(&address, words);
        assert_eq!(shown(&exporter.scrape(), "redis_up"), "1", "{words:?}");
        exporter.has_no_error();
    }
    assert_eq!(control.ask("ACL LOG"), "*0", "nothing was refused, even if the exporter ignores errors");
    for (words, refusal) in [(&["-redis.password", "wrong"][..], "WRONGPASS"), (&[], "NOAUTH")] {
        let mut exporter = Exporter::start(&address, words);
        assert!(!exporter.scrape().contains("\nredis_uptime_in_seconds "), "{words:?}");
        assert!(exporter.log().iter().any(|line| line.contains(refusal)), "{words:?}: {:#?}", exporter.log());
    }
    report.ok("password");

    let address = format!("rediss://127.0.0.1:{}", servers.tls_port);
    let ca = servers.ca();
    let mut exporter = Exporter::start(&address, &["-tls-ca-cert-file", ca.to_str().expect("a path")]);
    assert_eq!(shown(&exporter.scrape(), "redis_up"), "1");
    exporter.has_no_error();
    let mut stranger = Exporter::start(&address, &[]);
    assert_eq!(shown(&stranger.scrape(), "redis_up"), "0");
    report.ok("tls");

    judge(row, &report.0);
    servers.judge(row);
}

const EXPORTER: &str = "prometheus-redis-exporter";

/// Returns the value of a metric as text, by its name and labels.
#[track_caller]
fn shown<'a>(metrics: &'a str, name: &str) -> &'a str {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no metric {name}:\n{metrics}"))
}

#[track_caller]
fn value(metrics: &str, name: &str) -> f64 {
    shown(metrics, name).parse().unwrap_or_else(|_| panic!("{name}: no number"))
}

/// A running exporter at its most detailed log level.
struct Exporter {
    child: Child,
    port: u16,
    lines: mpsc::Receiver<String>,
    log: Vec<String>,
    scrapes: usize,
}

impl Exporter {
    fn start(address: &str, words: &[&str]) -> Exporter {
        let port = free_port();
        let mut command = Command::new(EXPORTER);
        command.env("REDIS_ADDR", address).args(["-debug", "-web.listen-address", &format!("127.0.0.1:{port}")]);
        let mut child = command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it is installed");
        let stderr = child.stderr.take().expect("piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        eventually("the exporter serves", || {
            assert!(child.try_wait().expect("its status").is_none(), "the exporter has ended");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Exporter { child, port, lines, log: Vec::new(), scrapes: 0 }
    }

    fn scrape(&mut self) -> String {
        self.scrapes += 1;
        let mut wire = Wire::connect(self.port);
        wire.send("GET /metrics HTTP/1.0\r\n\r\n");
        let mut page = String::new();
        wire.stream().read_to_string(&mut page).expect("the page in time");
        assert!(page.starts_with("HTTP/1.0 200"), "{page}");
        page
    }

    /// Returns all log lines up to the end of the last scrape: they arrive by another way than the page.
    fn log(&mut self) -> &[String] {
        let is_end = |line: &&String| line.contains("scrapeRedisHost() done");
        while self.log.iter().filter(is_end).count() < self.scrapes {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.log.push(line),
                Err(error) => panic!("the end of scrape {} is not logged ({error}): {:#?}", self.scrapes, self.log),
            }
        }
        &self.log
    }

    /// Asserts that no line has an error level or reports an error of a command.
    fn has_no_error(&mut self) {
        let log = self.log();
        // The text of INFO is logged too.
        let lines = log.iter().filter(|line| !line.contains("msg=\"info: ") && !line.contains("result: ["));
        let is_error = |line: &&String| {
            ["level=error", "level=warn", "level=fatal", " err: ", "err="].iter().any(|word| line.contains(word))
        };
        let errors: Vec<&String> = lines.filter(is_error).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
