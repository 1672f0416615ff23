//! An active server and a standby, as clients, probes, balancers and operators see them.

use std::process::Command;

use crate::support::haproxy::HaProxy;
use crate::support::http::HttpServer;
use crate::support::program::run;
use crate::support::prometheus::Prometheus;
use crate::support::{config_get, eventually, free_port, getid, in_time};

/// Servers of one fleet, whose claims are in a file of this machine.
struct Fleet {
    dir: tempfile::TempDir,
}

impl Fleet {
    /// Creates a fleet with these server-ids.
    fn new(ids: &[&str]) -> Fleet {
        let fleet = Fleet { dir: tempfile::tempdir().unwrap() };
        let store = fleet.store();
        let message = run(getid().args(["cluster", "init", "--store", &store]).args(ids), "");
        assert!(message.contains(", created"), "{message}");
        fleet
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.dir.path().join("claims.sqlite").display())
    }

    /// Starts a server with this name and its own folder. It stays the holder while it stalls.
    fn start(&self, name: &str, words: &[&str]) -> HttpServer {
        self.start_with_timeout(name, "60000", words)
    }

    /// Starts a server whose claim another server takes after `timeout_ms` of silence.
    fn start_with_timeout(&self, name: &str, timeout_ms: &str, words: &[&str]) -> HttpServer {
        let store = self.store();
        // Both servers run on this machine.
        let own = ["--claim-store", &store, "--instance-name", name, "--id-machine-claim", "no"];
        HttpServer::start(&[&own[..], &["--claim-timeout-ms", timeout_ms], words].concat())
    }
}

/// The server-id, and a sequence store in each server's own folder.
const ID: [&str; 4] = ["--server-id", "1", "--sequence-store", "sqlite:orders.sqlite"];

fn gives_ids(server: &HttpServer) -> bool {
    server.server.connect().ask("GETID").starts_with(':')
}

fn readyz(server: &HttpServer, query: &str) -> (u16, String) {
    let response = server.ask(&format!("GET /readyz{query}"));
    (response.status, response.text())
}

/// Starts a holder and its standby.
fn pair(fleet: &Fleet) -> [HttpServer; 2] {
    let holder = fleet.start("host-a", &ID);
    eventually("the first server gives IDs", || gives_ids(&holder));
    let standby = fleet.start("host-b", &ID);
    eventually("the standby names the holder", || standby.server.connect().ask("GETID").contains("host-a"));
    [holder, standby]
}

#[test]
fn a_standby_reports_it_and_takes_over_from_a_stopped_holder() {
    let fleet = Fleet::new(&["--new", "1"]);
    let [holder, mut standby] = pair(&fleet);
    let mut wire = standby.server.connect();
    let refused = wire.ask("GETID");
    let expected = "-LOADING standby for server-id 1: held by host-a";
    assert!(refused.starts_with(expected), "{refused}");
    // The reply may end with the holder's time of silence.
    let refused = wire.ask("MGETID 3");
    assert!(refused.starts_with(expected), "{refused}");
    assert_eq!(wire.ask("INCR orders").split(' ').next(), Some("-LOADING"));
    assert_eq!(wire.ask("PING"), "+PONG");
    assert_eq!(wire.info("rdb_last_bgsave_status"), "ok", "a standby has no failed save");
    assert!(standby.ask("GET /metrics").text().contains("getid_watermark_last_save_ok 1\n"));
    assert_eq!((wire.info("role"), wire.info("claim_role")), ("standby".to_owned(), "standby".to_owned()));
    assert_eq!((wire.info("claim_holder"), wire.info("server_id")), ("host-a".to_owned(), "1".to_owned()));
    let (status, text) = readyz(&standby, "");
    assert!(status == 503 && text.starts_with("not ready: standby for server-id 1: held by host-a"), "{text}");
    assert_eq!(readyz(&standby, "?standby=ok").0, 200);
    let refused = standby.ask("POST /v1/ids/-");
    assert_eq!(
        (refused.status, refused.header("retry-after"), &refused.json()["code"]),
        (503, Some("1"), &"LOADING".into())
    );

    let mut active = holder.server.connect();
    assert_eq!((active.info("role"), active.info("claim_role")), ("master".to_owned(), "holder".to_owned()));
    assert_eq!((active.info("claim_holder"), readyz(&holder, "")), ("host-a".to_owned(), (200, "ready\n".to_owned())));
    let ride_ms: u64 = active.info("claim_ride_through_ms").parse().unwrap();
    assert!((1..=45_000).contains(&ride_ms), "{ride_ms}");
    let last = active.id();
    drop(active);

    assert!(holder.server.stop().success());
    eventually("the standby takes over", || gives_ids(&standby));
    assert!(wire.id() > last, "above all IDs of the other server");
    assert_eq!((wire.info("role"), wire.info("claim_takeovers")), ("master".to_owned(), "1".to_owned()));
    assert_eq!(readyz(&standby, ""), (200, "ready\n".to_owned()));
    assert!(wire.info("claim_last_takeover_cause").contains("host-a"), "{}", wire.info("claim_last_takeover_cause"));
    let metrics = standby.ask("GET /metrics").text();
    for line in ["getid_claim_standby 0\n", "getid_claim_held 1\n", "getid_claim_takeovers_total 1\n"] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    let log = standby.server.wait_log("host-a");
    assert!(log.contains("server-id 1"), "{log}");
}

/// A client of the HTTP port cannot follow `MOVED`, the answer to clients in cluster mode.
#[test]
fn clients_over_http_are_not_referred_to_the_holder() {
    let fleet = Fleet::new(&["--new", "1"]);
    let words = [&ID[..], &["--cluster-emulation", "yes"]].concat();
    let holder = fleet.start("host-a", &words);
    eventually("the first server gives IDs", || gives_ids(&holder));
    let standby = fleet.start("host-b", &words);
    let moved = format!("-MOVED 0 127.0.0.1:{}", holder.server.port);
    eventually("the standby refers to the holder", || standby.server.connect().ask("GETID") == moved);
    let refused = standby.ask("POST /v1/ids/-");
    assert_eq!((refused.status, &refused.json()["code"]), (503, &"LOADING".into()));
}

/// SHUTDOWN is refused only if unsaved IDs would be lost; a standby has none.
#[test]
fn a_standby_has_nothing_to_lose_by_shutdown() {
    let fleet = Fleet::new(&["--new", "1"]);
    let [_holder, mut standby] = pair(&fleet);
    standby.server.connect().send("SHUTDOWN\r\n");
    assert_eq!(standby.server.wait().code(), Some(0));
}

/// The shipped alert rules raise nothing on healthy servers: two standbys and an idle server, before and after a
/// takeover.
#[test]
#[ignore = "needs Prometheus"]
fn prometheus_has_no_alerts_for_healthy_servers() {
    let fleet = Fleet::new(&["--new", "1"]);
    // A hold of 45 s, which no pause of this machine exceeds.
    let start = |name| {
        fleet.start(name, &[&ID[..], &["--id-max-borrow-ms", "45000", "--id-watermark-lead-ms", "45000"]].concat())
    };
    let holder = start("host-a");
    eventually("the first server gives IDs", || gives_ids(&holder));
    let standbys = ["host-b", "host-c"].map(start);
    for standby in &standbys {
        eventually("the standby names the holder", || standby.server.connect().ask("GETID").contains("host-a"));
    }
    let idle = HttpServer::start(&[]);
    let prometheus = Prometheus::start(&[
        ("holder", holder.port, ""),
        ("standby-b", standbys[0].port, ""),
        ("standby-c", standbys[1].port, ""),
        ("idle", idle.port, ""),
    ]);
    let wait_for_series = |query: &str, count: usize| {
        eventually(&format!("{query}: {count}"), || prometheus.query(query).len() == count);
    };
    wait_for_series("getid_watermark_last_save_ok == 1", 4);
    wait_for_series("getid_claim_standby == 1", 2);
    wait_for_series("ALERTS", 0);
    assert!(holder.server.stop().success());
    eventually("a standby takes over", || standbys.iter().any(gives_ids));
    wait_for_series("getid_claim_standby == 0", 1);
    wait_for_series("getid_claim_standby == 1", 1);
    // An alert that fires proves that Prometheus evaluates the rules.
    eventually("the folder is removed", || std::fs::remove_dir_all(&idle.server.dir).is_ok());
    eventually("the alert comes", || {
        idle.server.connect().ask("GETID");
        prometheus.query("ALERTS{alertname=\"GetidClaimLost\", job=\"idle\", alertstate=\"firing\"}").len() == 1
    });
    wait_for_series("ALERTS{job!=\"idle\"}", 0);
    wait_for_series("count_over_time(ALERTS{job!=\"idle\", alertstate=\"firing\"}[1h])", 0);
}

#[test]
fn a_standby_takes_over_from_a_killed_holder() {
    let fleet = Fleet::new(&["--new", "1"]);
    let start = |name| fleet.start_with_timeout(name, "500", &ID);
    let mut servers = vec![start("host-a"), start("host-b")];
    // A server that stalls longer than the time-out loses its claim: the holder is the server that gives an ID.
    let give = |servers: &[HttpServer]| {
        in_time("an ID", || {
            servers.iter().enumerate().find_map(|(at, server)| {
                let reply = server.server.connect().ask("GETID");
                Some((at, reply.strip_prefix(':')?.parse::<u64>().ok()?))
            })
        })
    };
    let (holder, last) = in_time("a holder, and a standby that has seen its record", || {
        let (holder, last) = give(&servers);
        let role = servers[1 - holder].server.connect().info("claim_role");
        (role == "standby").then_some((holder, last))
    });
    servers.remove(holder).server.kill();
    assert!(give(&servers).1 > last, "above all IDs of the other server");
    eventually("the takeover has a cause", || {
        let info = servers[0].server.connect().ask_bulk("INFO claim");
        info.lines().any(|line| line.starts_with("claim_last_takeover_cause:") && line.contains("silent"))
    });
}

#[test]
fn a_server_without_a_server_id_pretends_none() {
    let fleet = Fleet::new(&["--auto", "3"]);
    let first = fleet.start("host-a", &["--server-id", "auto"]);
    eventually("the first server takes the only server-id", || gives_ids(&first));
    assert_eq!(first.server.connect().info("server_id"), "3");
    assert_eq!(first.server.connect().id() >> 19 & 3, 3);
    let second = fleet.start("host-b", &["--server-id", "auto"]);
    let mut wire = second.server.connect();
    eventually("the second server has read the store", || !wire.info("claim_product").is_empty());
    assert_eq!((wire.info("server_id"), wire.info("claim_server_id")), ("none".to_owned(), "none".to_owned()));
    assert!(wire.ask("GETID").starts_with("-LOADING standby"), "no IDs without a server-id");
    assert_eq!((config_get(&second.server, "server-id"), readyz(&second, "").0), ("auto".to_owned(), 503));
    assert_eq!(second.ask("GET /v1/status").json()["server"]["server_id"], serde_json::Value::Null);
    assert!(first.server.stop().success());
    eventually("the second server takes the released server-id", || gives_ids(&second));
    assert_eq!((wire.info("server_id"), wire.id() >> 19 & 3), ("3".to_owned(), 3));
}

/// Clients know the LOADING error, and continue with another server.
#[test]
#[ignore = "needs python3 with redis (its path in GETID_TEST_PYTHON)"]
fn redis_py_reports_a_standby_as_loading() {
    const SCRIPT: &str = "\
import os, redis
standby, holder = (redis.Redis(port=int(port)) for port in os.environ['PORTS'].split(','))
try:
    standby.execute_command('GETID')
except redis.exceptions.BusyLoadingError as error:
    print('loading:', error)
print(standby.ping(), holder.execute_command('GETID') > 0)
";
    let fleet = Fleet::new(&["--new", "1"]);
    let [holder, standby] = pair(&fleet);
    let python = std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let ports = format!("{},{}", standby.server.port, holder.server.port);
    let message = run(Command::new(python).args(["-c", SCRIPT]).env("PORTS", ports), "");
    assert!(message.starts_with("loading: standby for server-id 1: held by host-a"), "{message}");
    assert!(message.ends_with("True True\n"), "{message}");
}

/// `examples/fleet/haproxy.cfg`: clients always reach the holder of the claim.
#[test]
#[ignore = "needs haproxy"]
fn haproxy_follows_the_claim() {
    let fleet = Fleet::new(&["--new", "1"]);
    let [holder, standby] = pair(&fleet);
    let ports = [
        ("7899", free_port()),
        ("7890", holder.server.port),
        ("7880", holder.port),
        ("7891", standby.server.port),
        ("7881", standby.port),
    ];
    let proxy = HaProxy::of("fleet/haproxy.cfg", &ports);
    // HAProxy considers a server up until its first check, and has no server while the holder stalls.
    let name = || in_time("an answer", || reply_field(&proxy, "INFO", "claim_instance_name:"));
    let id = || in_time("an answer", || reply_field(&proxy, "GETID", ":")?.parse::<u64>().ok());
    eventually("HAProxy leaves the standby", || (0..20).all(|_| proxy.can_issue_id()));
    assert!((0..20).all(|_| name() == "host-a"));
    let last = id();
    assert!(holder.server.stop().success());
    eventually("HAProxy finds the new holder", || (0..20).all(|_| proxy.can_issue_id()));
    assert!((0..20).all(|_| name() == "host-b"));
    assert!(id() > last);
}

/// Returns the rest of the first reply line to `command` that begins with `before`, or `None` if the connection ends.
fn reply_field(proxy: &HaProxy, command: &str, before: &str) -> Option<String> {
    let mut wire = proxy.connect();
    wire.try_send(format!("{command}\r\n")).ok()?;
    let mut lines = (0..1000).map_while(|_| wire.try_line().ok());
    lines.find_map(|line| line.strip_prefix(before).map(str::to_owned))
}
