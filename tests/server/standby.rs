//! Replies of a server that waits for the claim of its server-id. The test sets the claim's status; `tests/fleet` has
//! tests with a store and another server.

use std::path::PathBuf;
use std::sync::Arc;

use getid_config::{Config, Sources};
use getid_core::server::CounterDeclaration;
use getid_core::{Epoch, Layout};
use getid_engine::claim::Identity;
use getid_engine::claim::status::{ClaimRole, ClaimStatus, ClaimView, TakeoverStatus};
use getid_engine::generators::Generators;
use getid_redis::acl::Origin;
use getid_server::connection::LocalClient;
use getid_server::registry::{ConnectionAddr, SocketInfo};
use getid_server::settings::session_settings;
use getid_server::{Process, Server};
use getid_system::clock::SystemClock;
use getid_system::io_threads::runtime;

use crate::support::standby::{WHY, standby};
use crate::turns::log;
use getid_engine::fixtures::roomy_issuer;

fn holder() -> ClaimStatus {
    ClaimStatus {
        role: ClaimRole::Holder,
        why: String::new(),
        ride_through_ms: 1_480,
        beats: 7,
        takeovers: 1,
        last_takeover: Some(TakeoverStatus {
            at_unix_ms: 1_700_000_004_000,
            cause: "its holder host-a was\nsilent for 2.0 s".to_owned(),
            took_ms: 2_140,
        }),
        ..standby()
    }
}

/// A server with this claim status, and a client of it.
struct ClaimTestServer {
    runtime: tokio::runtime::Runtime,
    claim: Arc<ClaimView>,
    client: LocalClient,
}

impl ClaimTestServer {
    fn new(status: ClaimStatus) -> ClaimTestServer {
        let runtime = runtime().expect("a runtime");
        let layout = Layout::new(Epoch::default(), 2, 9, 10).expect("a layout");
        let receipt = CounterDeclaration::parse(&["receipt", "serial", "R{n:6}", "gapless"], |_| Ok(()));
        let receipt = receipt.expect("a serial").expect("a declaration");
        let config = Config { layout, counters: vec![Arc::new(receipt)], ..Config::default() };
        let issuer = roomy_issuer(&runtime, SystemClock::new(), Identity { server_id: 3, layout }, 60_000);
        let process = Process {
            run_id: String::new(),
            config_file: String::new(),
            sources: Sources::default(),
            started_in: PathBuf::new(),
            executable: String::new(),
            tcp_port: 0,
            announced: None,
        };
        let settings = Arc::new(session_settings(&config).expect("the default settings"));
        let claim = Arc::new(ClaimView::default());
        claim.publish(status);
        let generators = Generators::new(issuer);
        generators.set_claim(Arc::clone(&claim));
        let server = Server::new(config, settings, generators, process, 1, None, log());
        let end = || ConnectionAddr::Unix(Arc::default());
        let ends = SocketInfo { peer: end(), local: end(), fd: 0 };
        let client = LocalClient::new(&server, Origin::ThisMachine, ends).expect("a client");
        ClaimTestServer { runtime, claim, client }
    }

    fn ask(&mut self, line: &str) -> String {
        let reply = self.runtime.block_on(self.client.ask(format!("{line}\r\n").as_bytes()));
        String::from_utf8(reply.expect("an answer").bytes).expect("text")
    }
}

#[test]
fn a_standby_refuses_ids_and_values() {
    let mut server = ClaimTestServer::new(standby());
    for line in [
        "INCR orders",
        "INCRBY orders 7",
        "SEQUENCE NEXT orders",
        "IDREADY",
        "NUMBER RESERVE receipt REQUEST r",
        "NUMBER COMMIT receipt r",
        "NUMBER RELEASE receipt r",
        "NUMBER VOID receipt r REASON x",
    ] {
        assert_eq!(server.ask(line), format!("-LOADING {WHY}\r\n"), "{line}");
    }
    assert_eq!(server.ask("ENCODEID - TIME 2016-01-01"), format!("-LOADING {WHY}\r\n"));
    for (line, begins) in [
        ("PING", "+PONG"),
        ("ENCODEID - TIME 2016-01-01 FORCE", ":"),
        ("DECODEID 1", "%"),
        ("CONFIG GET server-id", "%1"),
        ("CLIENT ID", ":"),
        ("SEQUENCE INFO orders", "-ERR sequences are off"),
        // A standby shows ledgers, and settles numbers for operators.
        ("NUMBER LEDGER receipt", "-ERR sequences are off"),
        ("NUMBER SETTLE receipt R000001 VOID REASON x", "-ERR sequences are off"),
    ] {
        let reply = server.ask(line);
        assert!(reply.starts_with(begins), "{line}: {reply}");
    }
    // After the takeover the next request is served.
    server.claim.publish(holder());
    assert_eq!(server.ask("IDREADY"), "+READY\r\n");
    assert!(server.ask("INCR orders").starts_with("-ERR sequences are off"));
}

#[test]
fn role_is_reported_at_once_everywhere() {
    let mut server = ClaimTestServer::new(standby());
    for (status, word) in [(standby(), "standby"), (holder(), "master"), (standby(), "standby")] {
        server.claim.publish(status);
        let bulk = format!("${}\r\n{word}\r\n", word.len());
        assert_eq!(server.ask("ROLE"), format!("*3\r\n{bulk}:0\r\n*0\r\n"));
        assert!(server.ask("HELLO 3").contains(&format!("$4\r\nrole\r\n{bulk}")));
        assert!(server.ask("INFO replication").contains(&format!("\r\nrole:{word}\r\n")));
    }
    // A change of settings keeps it.
    assert_eq!(server.ask("CONFIG SET timeout 7"), "+OK\r\n");
    assert!(server.ask("ROLE").contains("standby"));
}

#[test]
fn info_reports_the_whole_claim() {
    let mut server = ClaimTestServer::new(standby());
    let lines = |server: &mut ClaimTestServer| -> Vec<String> {
        server.ask("INFO claim").lines().filter(|line| line.starts_with("claim_")).map(str::to_owned).collect()
    };
    let of_standby = lines(&mut server);
    for line in [
        "claim_role:standby",
        "claim_server_id:3",
        "claim_store:postgres://getid:***@db/ids",
        "claim_holder:host-a",
        "claim_holder_address:10.1.0.7:7890",
        "claim_holder_since:1700000000",
        "claim_holder_until:1700000001",
        &format!("claim_why:{WHY}"),
        "claim_not_eligible:no",
        "claim_timeout_ms:2000",
        "claim_ride_through_ms:0",
        "claim_error:no",
    ] {
        assert!(of_standby.iter().any(|own| own == line), "{line} is not in {of_standby:#?}");
    }
    assert!(!of_standby.iter().any(|line| line.starts_with("claim_last_takeover")), "{of_standby:#?}");
    server.claim.publish(holder());
    let of_holder = lines(&mut server);
    for line in [
        "claim_role:holder",
        "claim_why:no",
        "claim_ride_through_ms:1480",
        "claim_beats:7",
        "claim_takeovers:1",
        "claim_last_takeover_time:1700000004",
        "claim_last_takeover_ms:2140",
        "claim_last_takeover_cause:its holder host-a was\\nsilent for 2.0 s",
    ] {
        assert!(of_holder.iter().any(|own| own == line), "{line} is not in {of_holder:#?}");
    }
    assert!(server.ask("INFO").contains("# Claim\r\n") && server.ask("INFO generator").contains("\r\nclaim:held\r\n"));
}

#[test]
fn without_a_server_id_no_field_has_one() {
    let none = ClaimStatus {
        server_id: None,
        holder: None,
        why: "standby: server-id is auto, and none is free".to_owned(),
        ..standby()
    };
    let mut server = ClaimTestServer::new(none);
    assert!(server.ask("INFO server").contains("\r\nserver_id:none\r\n"));
    let claim = server.ask("INFO claim");
    assert!(claim.contains("\r\nclaim_server_id:none\r\n") && claim.contains("\r\nclaim_holder:none\r\n"), "{claim}");
    assert_eq!(server.ask("INCR orders"), "-LOADING standby: server-id is auto, and none is free\r\n");
    assert!(server.ask("DECODEID 1").starts_with('%') && !server.ask("IDSPAN 2026-01-01 2026-01-02").starts_with('-'));
    // Before the first status there is a reason too.
    let mut silent = ClaimTestServer::new(ClaimStatus::default());
    assert_eq!(silent.ask("INCR orders"), "-LOADING standby: the claim store has not answered yet\r\n");
}
