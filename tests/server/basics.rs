//! The built binary on real sockets, as seen by a client, a load balancer and an operator.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::support::{PATIENCE, Server, Wire, free_port, getid};
use nix::sys::signal::Signal;

/// Layout in which 100,000 IDs do not reach the borrow limit.
const WIDE: [&str; 8] = ["--id-range", "1", "--shard-range", "19", "--random-range", "1", "--loglevel", "warning"];

#[test]
fn getid_and_mgetid_as_the_fork_answers_them() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let first = wire.id();
    let second = wire.id();
    assert!(second > first);
    let many = wire.ids(100);
    assert!(many.is_sorted_by(|a, b| a < b));
    assert!(many[0] > second);
    assert_eq!(wire.ask("MGETID 101"), "-ERR parameters error! argv[1] = 101");
    assert_eq!(wire.ask("MGETID 0"), "-ERR parameters error! argv[1] = 0");
    assert_eq!(wire.ask("MGETID -1"), "-ERR parameters error! argv[1] = -1");
    assert_eq!(wire.ask("MGETID abc"), "-ERR value is not an integer or out of range");
    assert_eq!(wire.ask("MGETID"), "-ERR wrong number of arguments for 'mgetid' command");
    assert_eq!(wire.ask("GETID x"), "-ERR wrong number of arguments for 'getid' command");
    assert!(wire.id() > many[99], "errors cost no connection and no order");
}

#[test]
fn ids_carry_the_server_and_the_time() {
    let server = Server::start(&["--server-id", "3"]);
    let mut wire = server.connect();
    let id = wire.id();
    assert_eq!(id >> 19 & 3, 3, "the server-id is in bits 19 and 20");
    wire.send(format!("DECODEID {id}\r\n"));
    assert_eq!(wire.line(), "*14", "the last is the map of kinds");
    let fields: Vec<String> = (0..12)
        .map(|_| {
            let head = wire.line();
            if head.starts_with('$') { wire.line() } else { head }
        })
        .collect();
    assert_eq!(fields[0], "time");
    assert!(fields[1].ends_with('Z'), "{fields:?}");
    assert_eq!(fields[4..6], ["server_id".to_owned(), ":3".to_owned()]);
    let mut wire = server.connect();
    assert_eq!(wire.info("server_id"), "3");
    assert_eq!(wire.info("id_range"), "2");
    assert_eq!(wire.info("shard_range"), "9");
    assert_eq!(wire.info("random_range"), "10");
}

#[test]
fn ids_over_fifty_connections_are_unique_and_in_order_on_each() {
    let server = Server::start(&WIDE);
    let port = server.port;
    let clients: Vec<_> = (0..50)
        .map(|client| std::thread::spawn(move || if client % 2 == 0 { draw_pipelined(port) } else { draw_mixed(port) }))
        .collect();
    let mut all = Vec::new();
    for client in clients {
        let ids = client.join().expect("the client ends well");
        assert!(ids.is_sorted_by(|a, b| a < b), "in order on each connection");
        all.extend(ids);
    }
    assert!(all.len() >= 100_000, "{}", all.len());
    let drawn = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), drawn, "an ID was issued twice");
    assert!(all.iter().all(|id| id >> 20 & 1 == 0), "the server-id is 0 in all");
}

/// Draws 2,000 IDs in pipelines of 500 `GETID`.
fn draw_pipelined(port: u16) -> Vec<u64> {
    let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
    let mut connection = client.get_connection().expect("connected");
    let mut ids = Vec::new();
    for _ in 0..4 {
        let mut pipe = redis::pipe();
        for _ in 0..500 {
            pipe.cmd("GETID");
        }
        ids.extend(pipe.query::<Vec<u64>>(&mut connection).expect("ids"));
    }
    ids
}

/// Draws 2,020 IDs, singly and in hundreds.
fn draw_mixed(port: u16) -> Vec<u64> {
    let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
    let mut connection = client.get_connection().expect("connected");
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(redis::cmd("GETID").query::<u64>(&mut connection).expect("an id"));
        ids.extend(redis::cmd("MGETID").arg(100).query::<Vec<u64>>(&mut connection).expect("ids"));
    }
    ids
}

#[test]
fn with_more_threads_ids_stay_unique_and_ordered() {
    let server = Server::start(&[&WIDE[..], &["--io-threads", "3"]].concat());
    let port = server.port;
    let last = std::sync::atomic::AtomicU64::new(0);
    let all = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..9 {
            scope.spawn(|| {
                let mut wire = Wire::connect(port);
                for round in 0..300 {
                    let floor = last.load(std::sync::atomic::Ordering::SeqCst);
                    let ids = if round % 3 == 0 { wire.ids(100) } else { vec![wire.id()] };
                    assert!(ids[0] > floor, "{} came after the reply with {floor}", ids[0]);
                    last.fetch_max(ids[ids.len() - 1], std::sync::atomic::Ordering::SeqCst);
                    all.lock().expect("no panic").extend(ids);
                }
            });
        }
    });
    let mut all = all.into_inner().expect("no panic");
    let drawn = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), drawn), (9 * (100 * 100 + 200), 9 * (100 * 100 + 200)));
    let mut wire = server.connect();
    assert_eq!(wire.info("ids_issued"), drawn.to_string());
    // The harness sends commands too.
    assert!(wire.info("total_commands_processed").parse::<usize>().expect("a number") >= 9 * 300);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn an_id_requested_after_another_reply_is_larger_on_any_connection() {
    let server = Server::start(&[]);
    let mut wires: Vec<Wire> = (0..5).map(|_| server.connect()).collect();
    let mut last = 0;
    for round in 0..500 {
        let id = wires[round % 5].id();
        assert!(id > last, "{id} came after {last}");
        last = id;
    }
}

#[tokio::test]
async fn the_async_redis_crate_in_both_protocols() {
    let server = Server::start(&[]);
    for protocol in ["", "?protocol=resp3"] {
        let url = format!("redis://127.0.0.1:{}/{protocol}", server.port);
        let client = redis::Client::open(url).expect("a url");
        let config = redis::AsyncConnectionConfig::new();
        let config = config.set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.expect("connected");
        let first: u64 = redis::cmd("GETID").query_async(&mut connection).await.expect("an id");
        let many: Vec<u64> = redis::cmd("MGETID").arg(10).query_async(&mut connection).await.expect("ids");
        assert!(many[0] > first);
        let error = redis::cmd("MGETID").arg(1000).query_async::<Vec<u64>>(&mut connection).await.expect_err("over");
        assert!(error.to_string().contains("parameters error! argv[1] = 1000"), "{error}");
        let (one, more): (u64, Vec<u64>) = redis::pipe()
            .atomic()
            .cmd("GETID")
            .cmd("MGETID")
            .arg(2)
            .query_async(&mut connection)
            .await
            .expect("a transaction");
        assert!(more[0] > one && one > many[9]);
    }
}

#[test]
fn sigterm_and_sigint_finish_replies_and_exit_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start(&[]);
        let mut wire = server.connect();
        wire.id();
        server.signal(signal);
        assert_eq!(wire.rest(), "");
        assert_eq!(server.wait().code(), Some(0));
        assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err(), "the port is closed");
    }
}

#[test]
fn shutdown_ends_the_server_without_a_reply() {
    let mut server = Server::start(&[]);
    let mut wire = server.connect();
    wire.send("SHUTDOWN\r\n");
    assert_eq!(wire.rest(), "");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn several_addresses_and_a_unix_socket() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("getid.sock");
    let socket = path.to_str().expect("a path");
    let server = Server::start(&[
        "--bind",
        "127.0.0.1",
        "-::1",
        "-2001:db8::1",
        "--unixsocket",
        socket,
        "--unixsocketperm",
        "770",
    ]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("PING"), "+PONG");
    let mut unix = std::os::unix::net::UnixStream::connect(&path).expect("connected");
    unix.write_all(b"PING\r\nCLIENT LIST\r\n").expect("sent");
    unix.shutdown(Shutdown::Write).expect("half closed");
    let mut reply = String::new();
    unix.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with("+PONG\r\n"), "{reply}");
    assert!(reply.contains(&format!("addr={socket}:0")), "{reply}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o770);
    assert_eq!(server.stop().code(), Some(0));
    assert!(!path.exists(), "the socket is removed at the end");
}

#[test]
fn a_start_that_fails_reports_the_reason_and_exits_1() {
    let dir = tempfile::tempdir().expect("a folder");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = busy.local_addr().expect("its address").port().to_string();
    for (words, expected) in [
        (vec!["--port", &port, "--bind", "127.0.0.1"], "could not listen on 127.0.0.1"),
        (vec!["--dir", "/nonexistent/folder/too"], "/nonexistent/folder"),
        (vec!["--shard-range", "10"], "must be 21"),
        (vec!["--no-such-directive", "1"], "no-such-directive"),
        (vec!["/nonexistent/getid.conf"], "/nonexistent/getid.conf"),
    ] {
        let mut command = getid();
        let free = free_port().to_string();
        command.arg("serve").args(&words).current_dir(dir.path()).env("GETID_DIR", dir.path());
        if !words.contains(&"--port") {
            command.args(["--port", &free]);
        }
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
    }
}

#[test]
fn a_password_is_required() {
    let server = Server::start(&["--requirepass", "open sesame"]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("GETID"), "-NOAUTH Authentication required.");
    assert!(wire.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(wire.ask("AUTH \"open sesame\""), "+OK");
    wire.id();
}

#[test]
fn requests_in_tiny_pieces_and_a_large_argument() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    for byte in b"*1\r\n$5\r\nGETID\r\n" {
        wire.send([*byte]);
    }
    assert!(wire.line().starts_with(':'));
    let large = "x".repeat(1_000_000);
    wire.send(format!("*2\r\n$4\r\nECHO\r\n${}\r\n{large}\r\n", large.len()));
    assert_eq!(wire.line(), "$1000000");
    assert_eq!(wire.line(), large);
    assert_eq!(wire.ask("PING"), "+PONG");
}
