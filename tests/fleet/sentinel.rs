//! Clients in Sentinel mode, without a balancer: they have a list of servers, and find the holder of a claim by
//! `SENTINEL`.
//!
//! The libraries are real. Their programs in `tests/clients/sentinel.*` draw IDs for as long as they run, and print
//! `id NAME ID` or `error TEXT` after each request, as an application that repeats a failed request does.
//! `GETID_SENTINEL_ROUNDS=10` repeats each takeover, and prints the times of docs/fleet.md.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::postgres::PostgresServer;
use crate::support::program::run;
use crate::support::{PATIENCE, Server, Wire, eventually, folder, getid, in_time};

/// Servers of one fleet, whose claims are in one store.
pub(crate) struct Fleet {
    /// Has the store, if it is a file.
    _dir: tempfile::TempDir,
    store: String,
    timeout_ms: &'static str,
}

/// Time-out for tests in which no holder is silent, however slow the machine is.
pub(crate) const NEVER_SILENT: &str = "60000";

/// The default of `claim-timeout-ms`.
pub(crate) const DEFAULT_TIMEOUT: &str = "2000";

impl Fleet {
    /// Creates a fleet with the server-ids 0 and 1, in a file of this machine.
    pub(crate) fn new(timeout_ms: &'static str) -> Fleet {
        let dir = folder();
        let store = format!("sqlite:{}", dir.path().join("claims").display());
        Fleet::at(dir, store, timeout_ms)
    }

    fn at(dir: tempfile::TempDir, store: String, timeout_ms: &'static str) -> Fleet {
        run(getid().args(["cluster", "init", "--store", &store, "--new", "0-1"]), "");
        Fleet { _dir: dir, store, timeout_ms }
    }

    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    pub(crate) fn start(&self, name: &str, server_id: &str, words: &[&str]) -> Server {
        let of_fleet = ["--claim-store", &self.store, "--claim-timeout-ms", self.timeout_ms];
        let own = [&of_fleet[..], &["--server-id", server_id, "--instance-name", name]].concat();
        Server::start(&[&own[..], words].concat())
    }

    /// Starts a holder of server-id 0, and a standby that has seen its claim.
    fn pair(&self) -> [Server; 2] {
        let holder = self.holder("host-a", "0");
        let standby = self.start("host-b", "0", &[]);
        eventually("the standby names the holder", || master(&standby, "getid") == Some(holder.port));
        [holder, standby]
    }

    /// Starts a server, and waits until it gives IDs.
    fn holder(&self, name: &str, server_id: &str) -> Server {
        let server = self.start(name, server_id, &[]);
        eventually("the server gives IDs", || gives_ids(&server));
        server
    }
}

pub(crate) fn gives_ids(server: &Server) -> bool {
    server.connect().ask("GETID").starts_with(':')
}

/// Returns the port of the master of this name, as a server names it.
fn master(server: &Server, name: &str) -> Option<u16> {
    let mut wire = server.connect();
    let lines = array(&mut wire, &format!("SENTINEL get-master-addr-by-name {name}"))?;
    assert_eq!(lines[0], "127.0.0.1");
    Some(lines[1].parse().unwrap())
}

/// Sends a command, and returns the bulk strings of its reply, nested ones too; `None` for the null array.
fn array(wire: &mut Wire, command: &str) -> Option<Vec<String>> {
    wire.send(format!("{command}\r\n"));
    let reply = String::from_utf8(wire.reply()).unwrap();
    assert!(reply.starts_with('*'), "{command}: {reply}");
    if reply == "*-1\r\n" {
        return None;
    }
    Some(reply.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect())
}

/// Returns the value after `field`.
fn field<'a>(fields: &'a [String], field: &str) -> &'a str {
    fields.iter().position(|name| name == field).map(|at| fields[at + 1].as_str()).unwrap()
}

#[test]
fn holder_and_standby_name_the_masters_of_all_server_ids() {
    let fleet = Fleet::new(NEVER_SILENT);
    let [holder, standby] = fleet.pair();
    let other = fleet.holder("host-c", "1");
    for server in [&holder, &standby, &other] {
        eventually("a younger list of claims", || master(server, "getid-1") == Some(other.port));
        assert_eq!(master(server, "getid-0"), Some(holder.port));
        let mut wire = server.connect();
        let names = array(&mut wire, "SENTINEL masters").unwrap();
        let mut names: Vec<_> = names.chunks(40).map(|fields| (field(fields, "name"), field(fields, "port"))).collect();
        names.sort_unstable();
        let (own, holder, other) = (if server.port == other.port { &other } else { &holder }, &holder, &other);
        let [own, holder, other] = [own, holder, other].map(|server| server.port.to_string());
        assert_eq!(names, [("getid", own.as_str()), ("getid-0", holder.as_str()), ("getid-1", other.as_str())]);
    }
    assert_eq!(master(&other, "getid"), Some(other.port));

    // The other servers that answer for a name; `getid` has another meaning at host-c.
    let sentinels = |server: &Server, name: &str| -> Vec<u16> {
        let rows = array(&mut server.connect(), &format!("SENTINEL sentinels {name}")).unwrap();
        // Predis reads the third and the fifth value by position.
        rows.chunks(28).map(|row| (&row[3], &row[5])).map(|(_, port)| port.parse().unwrap()).collect()
    };
    assert_eq!((sentinels(&holder, "getid"), sentinels(&standby, "getid")), (vec![], vec![holder.port]));
    assert_eq!(sentinels(&standby, "getid-1"), [holder.port, other.port]);
    assert_eq!(array(&mut standby.connect(), "SENTINEL replicas getid"), Some(vec![]));
    let quorum = |server: &Server| server.connect().ask("SENTINEL ckquorum getid-1");
    let reached = "usable Sentinels. Quorum and failover authorization can be reached";
    assert_eq!((quorum(&holder), quorum(&standby)), (format!("+OK 2 {reached}"), format!("+OK 3 {reached}")));
    // A server has the same id in both commands.
    let id = holder.connect().ask_bulk("SENTINEL myid");
    let master = array(&mut standby.connect(), "SENTINEL master getid").unwrap();
    assert_eq!((field(&master, "runid"), id.len(), field(&master, "flags")), (id.as_str(), 40, "master"));

    // A claim without a holder has no master.
    assert!(other.stop().success());
    eventually("host-c is gone", || self::master(&standby, "getid-1").is_none());
    let refused = standby.connect().ask("SENTINEL master getid-1");
    assert_eq!(refused, "-ERR No such master with that name: no server holds this server-id now");
}

#[test]
fn a_server_alone_answers_with_the_address_at_which_its_client_reached_it() {
    let server = Server::start(&["--server-id", "3", "--bind", "127.0.0.1 127.0.0.2"]);
    for ip in ["127.0.0.1", "127.0.0.2"] {
        let mut wire = Wire::new(std::net::TcpStream::connect((ip, server.port)).unwrap());
        for name in ["getid", "getid-3"] {
            let address = array(&mut wire, &format!("SENTINEL get-master-addr-by-name {name}"));
            assert_eq!(address, Some(vec![ip.to_owned(), server.port.to_string()]));
        }
        assert_eq!(array(&mut wire, "SENTINEL get-master-addr-by-name getid-0"), None);
        let master = array(&mut wire, "SENTINEL master getid").unwrap();
        assert_eq!((field(&master, "port"), field(&master, "ip")), (server.port.to_string().as_str(), ip));
    }
}

/// A holder that clients reach only by its Unix socket has no address for the clients of another server.
#[test]
fn a_holder_without_an_address_is_reported_with_the_remedy() {
    let fleet = Fleet::new(NEVER_SILENT);
    let dir = folder();
    let socket = dir.path().join("getid.socket");
    let mut holder = getid();
    holder.args(["serve", "--port", "0", "--server-id", "0", "--instance-name", "host-a", "--unixsocket"]).arg(&socket);
    holder.args(["--claim-store", &fleet.store, "--dir"]).arg(dir.path());
    let holder = Killed(holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    eventually("the holder listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let mut own = Wire::connect_unix(&socket);
    eventually("the holder gives IDs", || own.ask("GETID").starts_with(':'));
    let mut standby = fleet.start("host-b", "0", &[]);
    let mut wire = standby.connect();
    eventually("the standby names the holder", || wire.info("claim_holder") == "host-a");
    let expected = "server-id 0 is held by host-a, which has not announced an address that clients can connect to; set \
                    announce-address there";
    for _ in 0..3 {
        assert_eq!(wire.ask("SENTINEL get-master-addr-by-name getid"), "*-1");
        assert_eq!(wire.ask("SENTINEL master getid-0"), format!("-ERR {expected}"));
    }
    assert_eq!(own.ask("SENTINEL get-master-addr-by-name getid"), "*-1");
    let masters = array(&mut wire, "SENTINEL masters").unwrap();
    assert_eq!(masters, Vec::<String>::new());
    standby.wait_log(expected);
    assert_eq!(standby.count_log("a client asked for the holder's address"), 1);
    drop(holder);
}

/// A process that ends with the test.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A holder that stops longer than its time-out is demoted, and lives on.
#[test]
fn a_demoted_server_closes_its_clients_and_each_server_publishes_the_new_master() {
    let fleet = Fleet::new("5000");
    let [old, new] = fleet.pair();
    let other = fleet.holder("host-c", "1");
    let subscribe = |server: &Server, words: &str| {
        let mut wire = server.connect();
        wire.send(format!("{words}\r\n"));
        (0..words.split(' ').count() - 1).for_each(|_| drop(wire.reply()));
        wire
    };
    let mut subscribers = [&old, &new].map(|server| subscribe(server, "SUBSCRIBE +switch-master"));
    let mut by_pattern = subscribe(&new, "PSUBSCRIBE [-+]sl*e");
    let mut at_other = subscribe(&other, "SUBSCRIBE +switch-master");
    let mut left = subscribe(&new, "SUBSCRIBE +switch-master +slave");
    left.send("UNSUBSCRIBE\r\n");
    (0..2).for_each(|_| drop(left.reply()));
    // What a server has answered is known to its watcher before the next change.
    eventually("host-c names host-a", || master(&other, "getid-0") == Some(old.port));
    let mut listener = old.connect();
    let mut drawing_listener = old.connect();
    for wire in [&mut listener, &mut drawing_listener] {
        wire.send("HELLO 3\r\n");
        // Its last field is an empty list of modules.
        while wire.line() != "*0" {}
        assert_eq!(wire.ask("SUBSCRIBE other"), ">3");
        (0..5).for_each(|_| drop(wire.line()));
    }
    assert!(drawing_listener.ask("GETID").starts_with(':'));
    let mut monitor = old.connect();
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    let mut idle = old.connect();
    let last = idle.id();
    let [old_port, new_port] = [old.port, new.port];

    old.signal(Signal::SIGSTOP);
    eventually("the standby takes over", || gives_ids(&new));
    idle.send("GETID\r\n");
    old.signal(Signal::SIGCONT);
    // The request is answered if the server has learned of it before it closes: otherwise it is not executed.
    let rest = idle.try_lines();
    assert!(rest.len() <= 1 && rest.iter().all(|line| line.starts_with('-')), "{rest:?}");
    assert_eq!(drawing_listener.rest(), "", "it draws IDs too");
    let switched = |name| format!("{name} 127.0.0.1 {old_port} 127.0.0.1 {new_port}");
    for wire in &mut subscribers {
        for name in ["getid", "getid-0"] {
            let text = switched(name);
            assert_eq!(message(wire), ["message", "+switch-master", text.as_str()]);
        }
    }
    assert_eq!(message(&mut at_other), ["message", "+switch-master", switched("getid-0").as_str()]);
    let text = format!("slave 127.0.0.1:{old_port} 127.0.0.1 {old_port} @ getid 127.0.0.1 {new_port}");
    assert_eq!(message(&mut by_pattern), ["pmessage", "[-+]sl*e", "+slave", text.as_str()]);
    assert_eq!(left.ask("ECHO x"), "$1", "no message after UNSUBSCRIBE");
    // Subscribers and monitors are still connected, and a new client learns the new master here too.
    assert_eq!(subscribers[0].ask("PING"), "*2");
    assert_eq!(listener.ask("PING"), "+PONG");
    assert_eq!(master(&old, "getid"), Some(new.port));
    assert!(monitor.line().contains("\"GETID\""));
    assert!(new.connect().id() > last);
}

fn message(wire: &mut Wire) -> Vec<String> {
    let reply = String::from_utf8(wire.reply()).unwrap();
    reply.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

/// A holder that is cut off from the claim store does not name itself, once another server may hold the claim.
#[test]
#[ignore = "needs postgresql"]
fn a_holder_without_its_store_names_no_master() {
    let mut postgres = PostgresServer::start(&["fsync = off"]);
    let fleet = Fleet::at(folder(), postgres.url(), DEFAULT_TIMEOUT);
    let holder = fleet.holder("host-a", "0");
    let standby = fleet.start("host-b", "0", &[]);
    eventually("the standby names the holder", || master(&standby, "getid") == Some(holder.port));
    let mut idle = holder.connect();
    assert!(idle.id() > 0);
    postgres.stop_immediate();
    eventually("the hold ends", || master(&holder, "getid").is_none());
    let refused = holder.connect().ask("SENTINEL master getid");
    assert!(refused.contains("held it until the claim store stopped answering"), "{refused}");
    assert!(holder.connect().ask("SENTINEL ckquorum getid").starts_with('-'));
    // A standby that is blind too does not send clients back.
    eventually("the standby names no master", || master(&standby, "getid").is_none());
    let refused = standby.connect().ask("SENTINEL master getid");
    assert!(refused.contains("host-a was silent for the time after which another server takes over"), "{refused}");
    assert_eq!(idle.rest(), "", "its clients look for another holder");
    postgres.start_again();
    eventually("one of the two gives IDs again", || gives_ids(&holder) || gives_ids(&standby));
    eventually("both name the same master", || {
        let named = master(&holder, "getid");
        named.is_some() && named == master(&standby, "getid")
    });
    assert!(holder.connect().ask("SENTINEL ckquorum getid").starts_with("+OK"));
}

/// A library in Sentinel mode, by its program.
struct Library {
    command: fn() -> Command,
    /// Whether it leaves a holder that has stopped, and still has its connections, because another server published
    /// that it is demoted.
    follows_events: bool,
}

fn program_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Returns a command that runs a program with these words.
pub(crate) fn command(interpreter: impl AsRef<std::ffi::OsStr>, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(program_of(program)).args(words);
    command
}

fn redis_py() -> Command {
    let python = std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    command(python, "sentinel.py", &[])
}

/// Builds the program of redigo, and returns a command that runs it.
fn redigo() -> Command {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ci");
    std::fs::create_dir_all(&target).unwrap();
    let built = target.join(format!("sentinel-{}", std::process::id()));
    let mut go = Command::new("go");
    go.env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode").args(["build", "-o"]).arg(&built);
    run(go.arg(program_of("sentinel.go")), "");
    let program = target.join("sentinel");
    // Tests at the same time build the same program.
    std::fs::rename(built, &program).unwrap();
    Command::new(program)
}

const REDIS_PY: Library = Library { command: redis_py, follows_events: false };
const IOREDIS: Library = Library { command: || command("node", "sentinel.mjs", &["ioredis"]), follows_events: false };
const IOREDIS_EVENTS: Library =
    Library { command: || command("node", "sentinel.mjs", &["ioredis-events"]), follows_events: true };
const NODE_REDIS: Library =
    Library { command: || command("node", "sentinel.mjs", &["node-redis"]), follows_events: true };
const REDIS_RB: Library = Library { command: || command("ruby", "sentinel.rb", &[]), follows_events: false };
const PHPREDIS: Library = Library { command: || command("php", "sentinel.php", &["phpredis"]), follows_events: false };
const PREDIS: Library = Library { command: || command("php", "sentinel.php", &["predis"]), follows_events: false };
const REDIGO: Library = Library { command: redigo, follows_events: false };

/// A running program that draws IDs.
pub(crate) struct Drawing {
    _program: Killed,
    lines: mpsc::Receiver<String>,
    seen: Vec<String>,
    last: u64,
}

impl Library {
    fn command(&self, servers: &[&Server]) -> Command {
        let mut command = (self.command)();
        let sentinels: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        command.env("SENTINELS", sentinels.join(","));
        command
    }

    /// Starts to draw IDs of server-id 0, and waits for some.
    fn draw(&self, servers: &[&Server]) -> Drawing {
        let mut command = self.command(servers);
        command.args(["draw", "getid"]);
        Drawing::begin(command)
    }

    /// Draws one ID of each server-id, by its name.
    fn find(&self) {
        let fleet = Fleet::new(NEVER_SILENT);
        let servers = [fleet.holder("host-a", "0"), fleet.holder("host-b", "1")];
        for order in [[&servers[0], &servers[1]], [&servers[1], &servers[0]]] {
            let printed = run(self.command(&order).args(["find", "getid-0", "getid-1"]), "");
            let ids: Vec<_> = printed.lines().map(|line| line.rsplit_once(' ').unwrap()).collect();
            let found = ids.into_iter().map(|(name, id)| (name, id.parse::<u64>().unwrap() >> 19 & 3));
            assert_eq!(found.collect::<Vec<_>>(), [("id getid-0", 0), ("id getid-1", 1)], "{printed}");
        }
    }

    /// Draws IDs over a `kill -9` of the holder. Returns the time from it to the next ID.
    fn outlives_a_killed_holder(&self, fleet: &Fleet) -> Duration {
        let [holder, standby] = fleet.pair();
        let mut drawing = self.draw(&[&holder, &standby]);
        holder.kill();
        let begun = Instant::now();
        drawing.next_id_of(&standby);
        begun.elapsed()
    }

    /// Draws IDs over the demotion of a holder that has stopped for a while and then lives on. Returns the time from
    /// the takeover, or from the moment at which the old holder runs again, to the next ID.
    fn leaves_a_demoted_holder(&self, fleet: &Fleet) -> Duration {
        let [holder, standby] = fleet.pair();
        let mut drawing = self.draw(&[&standby, &holder]);
        holder.signal(Signal::SIGSTOP);
        eventually("the standby takes over", || gives_ids(&standby));
        let begun = Instant::now();
        if !self.follows_events {
            holder.signal(Signal::SIGCONT);
        }
        drawing.next_id_of(&standby);
        let time = begun.elapsed();
        if self.follows_events {
            holder.signal(Signal::SIGCONT);
        }
        (0..20).for_each(|_| drawing.next_id());
        time
    }

    /// Runs a takeover in the rounds of `GETID_SENTINEL_ROUNDS`, and prints the times.
    fn rounds(&self, what: &str, takeover: fn(&Library, &Fleet) -> Duration) {
        let rounds = std::env::var("GETID_SENTINEL_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
        let mut times: Vec<_> = (0..rounds).map(|_| takeover(self, &Fleet::new(DEFAULT_TIMEOUT))).collect();
        times.sort();
        println!("{what}: median {:?}, {:?} to {:?}", times[rounds / 2], times[0], times[rounds - 1]);
    }

    fn check(&self) {
        self.find();
        self.rounds("kill -9 of the holder", Library::outlives_a_killed_holder);
        self.rounds("demotion of a holder that lives", Library::leaves_a_demoted_holder);
    }
}

impl Drawing {
    /// Starts the program, and waits for some IDs.
    pub(crate) fn begin(mut command: Command) -> Drawing {
        let mut program = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(program.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut drawing = Drawing { _program: Killed(program), lines, seen: Vec::new(), last: 0 };
        (0..5).for_each(|_| drawing.next_id());
        drawing
    }

    /// Waits for the next ID, which is larger than all before.
    pub(crate) fn next_id(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|error| panic!("no ID ({error}):\n{}", self.seen.join("\n")));
            self.seen.push(line.clone());
            if let Some(id) = line.strip_prefix("id getid ") {
                let id = id.parse().unwrap();
                assert!(id > self.last, "{id} after {}", self.last);
                self.last = id;
                return;
            }
        }
    }

    /// Waits for an ID that `server` gave.
    pub(crate) fn next_id_of(&mut self, server: &Server) {
        let first =
            in_time("an ID of the new holder", || server.connect().ask("GETID").strip_prefix(':')?.parse().ok());
        while self.last <= first {
            self.next_id();
        }
    }
}

#[test]
#[ignore = "needs python3 with redis (its path in GETID_TEST_PYTHON)"]
fn redis_py_goes_on_without_a_balancer() {
    REDIS_PY.check();
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn ioredis_goes_on_without_a_balancer() {
    IOREDIS.check();
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn ioredis_with_its_failover_detector_goes_on_without_a_balancer() {
    IOREDIS_EVENTS.check();
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node_redis_goes_on_without_a_balancer() {
    NODE_REDIS.check();
}

#[test]
#[ignore = "needs ruby with redis"]
fn redis_rb_goes_on_without_a_balancer() {
    REDIS_RB.check();
}

#[test]
#[ignore = "needs php with redis"]
fn phpredis_goes_on_without_a_balancer() {
    PHPREDIS.check();
}

#[test]
#[ignore = "needs php with predis"]
fn predis_goes_on_without_a_balancer() {
    PREDIS.check();
}

#[test]
#[ignore = "needs go with redigo"]
fn redigo_goes_on_without_a_balancer() {
    REDIGO.check();
}

/// Claims in a database, as servers of several machines have them.
#[test]
#[ignore = "needs python3 with redis (its path in GETID_TEST_PYTHON), postgresql"]
fn redis_py_goes_on_with_claims_in_postgres() {
    let postgres = PostgresServer::start(&["fsync = off"]);
    REDIS_PY.outlives_a_killed_holder(&Fleet::at(folder(), postgres.url(), DEFAULT_TIMEOUT));
}
