//! Clients in cluster mode (`cluster-emulation yes`): the holder of a claim is the master of all slots.
//!
//! The libraries are real. Their programs in `tests/clients/cluster.*` repeat a round (`GETID -`, `INCR`, a pipeline, a
//! transaction) for as long as they run. They print `id getid ID` after each round, or `error TEXT`.
//! `GETID_CLUSTER_ROUNDS=10` repeats each takeover, and prints the times of docs/fleet.md.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::sentinel::{DEFAULT_TIMEOUT, Drawing, Fleet, Killed, NEVER_SILENT, command, gives_ids};
use crate::support::{Server, Wire, eventually, folder, getid};

/// Words of a server with sequences of its own, which emulates a cluster.
const CLUSTER: [&str; 6] =
    ["--cluster-emulation", "yes", "--sequence-store", "sqlite:own.db", "--sequence-create", "on-first-use"];

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port)
}

/// Starts a holder of server-id 0 and a standby, which list each other as peers.
fn pair(fleet: &Fleet) -> [Server; 2] {
    let holder = fleet.start("host-a", "0", &CLUSTER);
    eventually("the server gives IDs", || gives_ids(&holder));
    let standby = fleet.start("host-b", "0", &CLUSTER);
    eventually("the standby refers clients to the holder", || moved(&standby, "GETID") == moved_to(0, &holder));
    let servers = [holder, standby];
    let peers = servers.each_ref().map(address).join(" ");
    for server in &servers {
        assert_eq!(server.connect().ask(&format!("CONFIG SET announce-peers \"{peers}\"")), "+OK");
    }
    servers
}

fn moved(server: &Server, request: &str) -> String {
    server.connect().ask(request)
}

fn moved_to(slot: u16, server: &Server) -> String {
    format!("-MOVED {slot} {}", address(server))
}

/// Returns the nodes of `CLUSTER NODES`: port and flags, with the other fields checked.
fn nodes(server: &Server) -> Vec<(u16, String)> {
    let text = server.connect().ask_bulk("CLUSTER NODES");
    let node = |line: &str| {
        let fields: Vec<_> = line.split(' ').collect();
        assert!(fields[0].len() == 40 && fields[0].bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
        let port = fields[1].strip_prefix("127.0.0.1:").and_then(|rest| rest.strip_suffix("@0")).unwrap();
        assert_eq!(fields.get(8) == Some(&"0-16383"), fields[2].ends_with("master"), "{line}");
        (port.parse().unwrap(), fields[2].to_owned())
    };
    text.lines().map(node).collect()
}

#[test]
fn holder_and_standby_name_the_same_master_and_replicas() {
    let fleet = Fleet::new(NEVER_SILENT);
    let [holder, standby] = pair(&fleet);
    let of = |server: &Server, command: &str| {
        let mut wire = server.connect();
        wire.send(format!("{command}\r\n"));
        String::from_utf8(wire.reply()).unwrap()
    };
    for command in ["CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER INFO"] {
        assert_eq!(of(&holder, command), of(&standby, command));
    }
    let (a, b) = (holder.port, standby.port);
    assert_eq!(nodes(&holder), [(a, "myself,master".to_owned()), (b, "slave".to_owned())]);
    assert_eq!(nodes(&standby), [(a, "master".to_owned()), (b, "myself,slave".to_owned())]);
    let id = |server: &Server| server.connect().ask_bulk("CLUSTER MYID");
    assert!(standby.connect().ask_bulk("CLUSTER NODES").starts_with(&id(&holder)));
    let mut wire = standby.connect();
    assert_eq!((wire.info("cluster_enabled"), wire.info("redis_mode")), ("1".to_owned(), "cluster".to_owned()));

    // Replicas have the order of the list, with a server that is down before the one that answers.
    for server in [&holder, &standby] {
        let list = format!("127.0.0.1:1 {}", address(&standby));
        assert_eq!(server.connect().ask(&format!("CONFIG SET announce-peers \"{list}\"")), "+OK");
    }
    let ports = |server: &Server| nodes(server).into_iter().map(|(port, _)| port).collect::<Vec<_>>();
    assert_eq!([ports(&holder), ports(&standby)], [[a, 1, b], [a, 1, b]]);

    // A new holder is the master at once. No record names the former one, and the list does not.
    assert!(holder.stop().success());
    eventually("the standby takes over", || gives_ids(&standby));
    assert_eq!(nodes(&standby), [(b, "myself,master".to_owned()), (1, "slave".to_owned())]);
}

/// Requests that a standby refuses, with the slot of their first key.
const REFUSED: [(&str, u16); 23] = [
    ("GETID", 0),
    ("MGETID 2", 0),
    ("GETID tweets", 9738),
    ("MGETID 2 tweets", 9738),
    ("GETID - REQUEST r", 13775),
    ("INCR orders", 105),
    ("INCRBY orders 2", 105),
    ("HINCRBY orders cur 2", 105),
    ("SEQUENCE NEXT orders", 105),
    ("EVALSHA 4d15273b16b10c15e1d9202cbe93c959ab7d250b 1 orders 1", 105),
    (
        "EVAL \"\\n                    return redis.call('INCRBY', KEYS[1], ARGV[1])\\n                    \" 1 orders 1",
        105,
    ),
    ("ENCODEID - TIME now", 13775),
    ("NUMBER RESERVE bill REQUEST r", 4653),
    ("NUMBER COMMIT bill r", 4653),
    ("NUMBER RELEASE bill r", 4653),
    ("NUMBER VOID bill r REASON x", 4653),
    ("WORKERID LEASE pool", 785),
    ("WORKERID RENEW pool 1 3f0c4e0a6f5c2f7d0f6f0d0a4a1b9c33", 785),
    ("WORKERID RELEASE pool 1 3f0c4e0a6f5c2f7d0f6f0d0a4a1b9c33", 785),
    ("WORKERID LIST pool", 785),
    ("WORKERID INFO pool", 785),
    ("WORKERID INIT pool NEW", 785),
    ("WORKERID REVOKE pool 1", 785),
];

/// What a standby answers itself in any mode.
const ANSWERED: [&str; 7] = [
    "PING",
    "GET orders",
    "EXISTS orders",
    "SEQUENCE LIST",
    "IDREADY",
    "DECODEID 7",
    "ENCODEID - TIME 2016-01-01 FORCE",
];

#[test]
fn each_command_that_needs_the_claim_is_among_those_that_a_standby_refuses() {
    for command in getid_redis::command::rows().filter(|command| command.needs_claim) {
        let words = command.full_name.split('|');
        let is_tested =
            |request: &str| request.to_ascii_lowercase().split(' ').take(words.clone().count()).eq(words.clone());
        assert!(REFUSED.iter().any(|(request, _)| is_tested(request)), "{}", command.full_name);
    }
}

#[test]
fn a_standby_refers_to_the_holder_what_it_refuses_and_nothing_else() {
    let fleet = Fleet::new(NEVER_SILENT);
    let declared = [
        &CLUSTER[2..],
        &["--generator", "tweets twitter", "--generator", "bill serial B{n:6} gapless"],
        &["--worker-pool", "pool size 16 lease 30s"],
    ]
    .concat();
    let holder = fleet.start("host-a", "0", &declared);
    eventually("the server gives IDs", || gives_ids(&holder));
    let plain = fleet.start("host-b", "0", &declared);
    let emulating = fleet.start("host-c", "0", &[&CLUSTER[..2], &declared].concat());
    eventually("host-c refers clients to the holder", || moved(&emulating, "GETID") == moved_to(0, &holder));
    eventually("host-b names the holder", || plain.connect().ask("GETID").contains("host-a"));
    for (request, slot) in REFUSED {
        let refused = plain.connect().ask(request);
        assert!(refused.starts_with("-LOADING standby for server-id 0: held by host-a"), "{request}: {refused}");
        assert_eq!(moved(&emulating, request), moved_to(slot, &holder), "{request}");
    }
    for request in ANSWERED {
        let answers = [&plain, &emulating].map(|server| server.connect().ask(request));
        assert_eq!(answers[0].replace("host-b", "host-c"), answers[1], "{request}");
        assert!(!answers[1].starts_with("-MOVED"), "{request}");
    }
}

#[test]
fn a_server_alone_is_a_cluster_of_one_node() {
    let server = Server::start(&CLUSTER);
    assert_eq!(nodes(&server), [(server.port, "myself,master".to_owned())]);
    let mut wire = server.connect();
    assert_eq!((wire.ask("INCR orders"), wire.ask("INCR foo")), (":1".to_owned(), ":1".to_owned()));
    assert_eq!(
        (wire.ask("CLUSTER COUNTKEYSINSLOT 105"), wire.ask("CLUSTER COUNTKEYSINSLOT 1")),
        (":1".into(), ":0".into())
    );
    wire.send("CLUSTER GETKEYSINSLOT 12182 10\r\nCLUSTER GETKEYSINSLOT 105 0\r\n");
    assert_eq!(String::from_utf8(wire.reply()).unwrap(), "*1\r\n$3\r\nfoo\r\n");
    assert_eq!(String::from_utf8(wire.reply()).unwrap(), "*0\r\n");
    let announced = Server::start(&[&CLUSTER[..], &["--announce-address", "ids.example.com:7000"]].concat());
    let line = announced.connect().ask_bulk("CLUSTER NODES");
    assert!(line.contains(" ids.example.com:7000@0,ids.example.com myself,master - "), "{line}");
}

/// The holder has the announced address in its claim, where a standby reads it.
#[test]
fn an_announced_address_goes_into_the_claim() {
    let fleet = Fleet::new(NEVER_SILENT);
    let words = [&CLUSTER[..], &["--announce-address", "[FD00::7]:7000"]].concat();
    let holder = fleet.start("host-a", "0", &words);
    eventually("the server gives IDs", || gives_ids(&holder));
    let standby = fleet.start("host-b", "0", &CLUSTER);
    eventually("the standby has the address", || {
        standby.connect().ask_bulk("INFO claim").contains("claim_holder_address:[fd00::7]:7000\r\n")
    });
    eventually("it refers clients there", || moved(&standby, "INCR orders") == "-MOVED 105 fd00::7:7000");
    let refused = holder.connect().ask("CONFIG SET announce-address 10.1.0.7");
    assert!(refused.contains("can't set immutable config"), "{refused}");
}

/// A holder that clients reach only by its Unix socket is the master of no cluster.
#[test]
fn a_holder_without_an_address_is_reported_with_the_remedy() {
    let fleet = Fleet::new(NEVER_SILENT);
    let dir = folder();
    let socket = dir.path().join("getid.socket");
    let mut holder = getid();
    holder.args(["serve", "--port", "0", "--server-id", "0", "--instance-name", "host-a", "--unixsocket"]).arg(&socket);
    holder.args(["--claim-store", fleet.store(), "--dir"]).arg(dir.path());
    let _holder = Killed(holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    // Otherwise the other server may take the claim first.
    eventually("the holder listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let mut own = Wire::connect_unix(&socket);
    eventually("the holder gives IDs", || own.ask("GETID").starts_with(':'));
    let standby = fleet.start("host-b", "0", &CLUSTER);
    let mut wire = standby.connect();
    let expected =
        "-CLUSTERDOWN the holder of server-id 0, host-a, has announced no address; set announce-address there";
    eventually("the standby knows the holder", || wire.ask("CLUSTER SLOTS") == expected);
    assert_eq!([wire.ask("CLUSTER SHARDS"), wire.ask("CLUSTER NODES")], [expected, expected]);
    assert!(wire.ask_bulk("CLUSTER INFO").contains("cluster_state:fail\r\ncluster_slots_assigned:0\r\n"));
    assert!(wire.ask("GETID").starts_with("-LOADING standby for server-id 0: held by host-a"));
}

/// Another server-id of the same fleet is another cluster.
#[test]
fn each_server_id_is_a_cluster_of_its_own() {
    let fleet = Fleet::new(NEVER_SILENT);
    let [holder, standby] = pair(&fleet);
    let other = fleet.start("host-c", "1", &CLUSTER);
    eventually("host-c gives IDs", || gives_ids(&other));
    assert_eq!(nodes(&other), [(other.port, "myself,master".to_owned())]);
    let of_pair = |server: &Server| nodes(server).into_iter().map(|(port, _)| port).collect::<Vec<_>>();
    assert_eq!([of_pair(&holder), of_pair(&standby)], [[holder.port, standby.port], [holder.port, standby.port]]);
}

/// A library in cluster mode, by its program.
struct Library<'a>(&'a dyn Fn() -> Command);

impl Library<'_> {
    /// Repeats rounds over a takeover. Returns the time from the fault, or from the moment at which the demoted holder
    /// runs again, to the end of the next round.
    fn outlives(&self, fault: Fault) -> Duration {
        let fleet = Fleet::new(DEFAULT_TIMEOUT);
        let [holder, standby] = pair(&fleet);
        // A program that needs no second address finds the other server by CLUSTER SLOTS.
        let (first, second) = if fault == Fault::Kill { (&holder, &standby) } else { (&standby, &holder) };
        let mut command = (self.0)();
        command.env("NODES", format!("{},{}", address(first), address(second)));
        let mut rounds = Drawing::begin(command);
        let holder = match fault {
            Fault::Kill => {
                holder.kill();
                None
            }
            Fault::Demotion => {
                holder.signal(Signal::SIGSTOP);
                eventually("the standby takes over", || gives_ids(&standby));
                holder.signal(Signal::SIGCONT);
                Some(holder)
            }
        };
        let begun = Instant::now();
        rounds.next_id_of(&standby);
        let time = begun.elapsed();
        (0..10).for_each(|_| rounds.next_id());
        drop(holder);
        time
    }

    fn check(&self) {
        let rounds = std::env::var("GETID_CLUSTER_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
        for fault in [Fault::Kill, Fault::Demotion] {
            let mut times: Vec<_> = (0..rounds).map(|_| self.outlives(fault)).collect();
            times.sort();
            println!("{fault:?}: median {:?}, {:?} to {:?}", times[rounds / 2], times[0], times[rounds - 1]);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// `kill -9` of the holder.
    Kill,
    /// The holder stops for longer than its time-out, and then lives on.
    Demotion,
}

#[test]
#[ignore = "needs python3 with redis (its path in GETID_TEST_PYTHON)"]
fn redis_py_goes_on_in_cluster_mode() {
    let python = || std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    Library(&|| command(python(), "cluster.py", &[])).check();
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn ioredis_goes_on_in_cluster_mode() {
    Library(&|| command("node", "cluster.mjs", &["ioredis"])).check();
}

#[test]
#[ignore = "needs node with redis and ioredis (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node_redis_goes_on_in_cluster_mode() {
    Library(&|| command("node", "cluster.mjs", &["node-redis"])).check();
}

#[test]
#[ignore = "needs ruby with redis"]
fn redis_rb_goes_on_in_cluster_mode() {
    Library(&|| command("ruby", "cluster.rb", &[])).check();
}

#[test]
#[ignore = "needs php with redis"]
fn phpredis_goes_on_in_cluster_mode() {
    Library(&|| command("php", "cluster.php", &[])).check();
}
