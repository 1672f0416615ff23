//! Limits on clients that take no replies, send too much, or are no clients at all.

#![allow(missing_docs, reason = "a test file")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Server, Wire};
use socket2::{Domain, Socket, Type};

/// The most that a server may hold for a client that does not read: one turn of IDs and what was gathered before.
const OUTPUT_BYTES_MAX: usize = 400_000;

/// Waits until `is_so`.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < common::PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks for a hundred million IDs and reads none, until the server reads no further or closes.
fn send_and_never_read(stream: &mut impl Write) {
    let request = b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n".repeat(1000);
    for _ in 0..1000 {
        if stream.write_all(&request).is_err() {
            return;
        }
    }
    panic!("the server read on although nobody takes its replies");
}

fn never_reading_tcp(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server accepts");
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    send_and_never_read(&mut stream);
    stream
}

/// A field of the one client in CLIENT LIST that is not the asking one.
fn other_client(wire: &mut Wire, field: &str) -> Option<usize> {
    let list = wire.ask_bulk("CLIENT LIST");
    let line = list.lines().find(|line| !line.contains(" cmd=client|list "))?;
    line.split(' ').find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='))?.parse().ok()
}

#[test]
fn who_takes_no_reply_is_cut_off_over_tcp() {
    let mut server = Server::start(&["--client-output-timeout", "2"]);
    let mut wire = server.connect();
    let stuck = never_reading_tcp(&server);
    let waiting = other_client(&mut wire, "omem").expect("it is connected");
    assert!((1..OUTPUT_BYTES_MAX).contains(&waiting), "{waiting} bytes wait");
    assert!(other_client(&mut wire, "tot-mem") < Some(2 * OUTPUT_BYTES_MAX));
    assert!(wire.ask_bulk("CLIENT LIST").contains(" events=w "));
    let most: usize = wire.info("client_recent_max_output_buffer").parse().expect("a number");
    assert!((1..OUTPUT_BYTES_MAX).contains(&most), "{most} bytes wait");
    eventually("it is cut off", || wire.info("client_output_timeout_disconnections") == "1");
    eventually("it is gone", || wire.info("connected_clients") == "1");
    assert_eq!(wire.info("client_output_buffer_limit_disconnections"), "0");
    server.wait_log("bytes of output waiting: nothing was taken of it within client-output-timeout 2 s");
    wire.id();
    drop(stuck);
}

#[test]
fn who_takes_no_reply_is_cut_off_on_a_unix_socket() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("getid.sock");
    let server = Server::start(&["--client-output-timeout", "1", "--unixsocket", path.to_str().expect("text")]);
    let mut stuck = UnixStream::connect(&path).expect("the server accepts");
    stuck.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    send_and_never_read(&mut stuck);
    let mut wire = server.connect();
    eventually("it is cut off", || wire.info("client_output_timeout_disconnections") == "1");
    // What was sent before is still there to be read, and then the end.
    stuck.set_read_timeout(Some(common::PATIENCE)).expect("a timeout");
    let mut got = Vec::new();
    // Closed with requests unread: a reset, behind all that came.
    let _ = stuck.read_to_end(&mut got);
    assert!(got.starts_with(b"*100\r\n$18\r\n"));
}

#[test]
fn a_slow_reader_is_not_cut_off() {
    let server = Server::start(&["--client-output-timeout", "1"]);
    // A small window, so that it is the server that holds what is not read, and not the kernel.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a size");
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], server.port)).into()).expect("the server accepts");
    let mut slow = TcpStream::from(socket);
    slow.set_read_timeout(Some(common::PATIENCE)).expect("a timeout");
    let mut sender = slow.try_clone().expect("a second handle");
    let count = 300;
    let asks = std::thread::spawn(move || sender.write_all(&b"MGETID 100\r\n".repeat(count)).expect("sent"));
    // 750 KB in five times as long as a client may take nothing.
    let mut piece = vec![0; 16 * 1024];
    let (mut got, begun) = (0, Instant::now());
    let all = count * (b"*100\r\n".len() + 100 * b"$18\r\n144182182078840832\r\n".len());
    while got < all {
        std::thread::sleep(Duration::from_millis(100));
        let len = slow.read(&mut piece).expect("it is served");
        assert!(len > 0, "it was cut off after {got} bytes, {:?}", begun.elapsed());
        got += len;
    }
    asks.join().expect("it was taken");
    assert!(begun.elapsed() > Duration::from_secs(2), "that was not slow");
    assert_eq!(server.connect().info("client_output_timeout_disconnections"), "0");
}

#[test]
fn over_the_hard_limit_is_cut_off_at_once() {
    let limit = ["--client-output-buffer-limit", "normal", "100", "0", "0", "--client-output-timeout", "0"];
    let mut server = Server::start(&limit);
    let _stuck = never_reading_tcp(&server);
    let mut wire = server.connect();
    eventually("it is cut off", || wire.info("client_output_buffer_limit_disconnections") == "1");
    assert_eq!(wire.info("client_output_timeout_disconnections"), "0");
    server.wait_log("the hard limit of client-output-buffer-limit is 100 bytes");
}

#[test]
fn over_the_soft_limit_is_cut_off_after_its_seconds() {
    let limit = ["--client-output-buffer-limit", "normal", "0", "100", "2", "--client-output-timeout", "0"];
    let mut server = Server::start(&limit);
    let _stuck = never_reading_tcp(&server);
    let mut wire = server.connect();
    assert_eq!(wire.info("client_output_buffer_limit_disconnections"), "0", "not at once");
    eventually("it is cut off", || wire.info("client_output_buffer_limit_disconnections") == "1");
    server.wait_log("the soft limit of client-output-buffer-limit is 100 bytes for 2 s");
}

#[test]
fn limits_can_be_changed_while_a_client_waits_and_counters_reset() {
    let server = Server::start(&["--client-output-timeout", "0"]);
    let mut wire = server.connect();
    let _timed = never_reading_tcp(&server);
    assert_eq!(wire.ask("CONFIG SET client-output-timeout 1"), "+OK");
    eventually("it is cut off", || wire.info("client_output_timeout_disconnections") == "1");
    assert_eq!(wire.ask("CONFIG SET client-output-timeout 0"), "+OK");
    let _limited = never_reading_tcp(&server);
    assert_eq!(wire.ask("CONFIG SET client-output-buffer-limit \"normal 100 0 0\""), "+OK");
    eventually("it is cut off", || wire.info("client_output_buffer_limit_disconnections") == "1");
    assert_eq!(wire.ask("CONFIG RESETSTAT"), "+OK");
    assert_eq!(wire.info("client_output_timeout_disconnections"), "0");
    assert_eq!(wire.info("client_output_buffer_limit_disconnections"), "0");
}

#[test]
fn a_request_over_the_query_buffer_limit_is_counted_and_logged() {
    let mut server = Server::start(&["--client-query-buffer-limit", "1mb"]);
    let mut large = server.connect();
    large.send("*2\r\n$4\r\nECHO\r\n$2000000\r\n");
    assert_eq!(large.rest(), "");
    let mut wire = server.connect();
    assert_eq!(wire.info("client_query_buffer_limit_disconnections"), "1");
    assert_eq!(wire.info("protocol_error_connections"), "1");
    server.wait_log("its request is larger than client-query-buffer-limit");
}

#[test]
fn http_closes_with_a_warning_once_a_minute() {
    let mut server = Server::start(&[]);
    for line in ["POST / HTTP/1.1\r\n", "host: example.com\r\n", "GET / HTTP/1.1\r\nHost: example.com\r\nSHUTDOWN\r\n"]
    {
        let mut browser = server.connect();
        browser.send(line);
        let rest = browser.rest();
        assert!(rest.is_empty() || rest.starts_with("-ERR unknown command 'GET'"), "{rest}");
    }
    let mut wire = server.connect();
    assert_eq!(wire.info("cross_protocol_disconnections"), "3");
    server.wait_log(
        "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to getid.",
    );
    assert_eq!(server.count_log("SECURITY ATTACK"), 1);
}

#[test]
fn maxclients_is_lowered_to_what_the_open_files_leave() {
    let dir = tempfile::tempdir().expect("a folder");
    let started = Server::try_start_in(dir.path(), &[], |command| {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n 60 && exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
        limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        *command = limited;
    });
    let mut server = started.unwrap_or_else(|log| panic!("{log}"));
    server.wait_log("maxclients 10000 needs more open files than the limit allows: maxclients is 28 now");
    let mut wires: Vec<Wire> = (0..28).map(|_| server.connect()).collect();
    assert_eq!(wires[0].info("maxclients"), "28");
    eventually("all are connected", || wires[0].info("connected_clients") == "28");
    assert_eq!(server.connect().rest(), "-ERR max number of clients reached\r\n");
    assert_eq!(wires[0].info("rejected_connections"), "1");
    assert_eq!(wires[0].info("accept_errors"), "0");
}

#[test]
fn without_descriptors_accepting_backs_off_and_goes_on_by_itself() {
    let mut server = Server::start(&[]);
    let mut wire = server.connect();
    wire.id();
    let set_open_files = |soft: &str| {
        let status = Command::new("prlimit").args(["--pid", &server.pid().to_string(), soft]).status();
        assert!(status.expect("prlimit of util-linux").success());
    };
    set_open_files("--nofile=4:");
    // The kernel takes the connection; the server can't.
    let mut later = server.connect();
    eventually("accept fails", || wire.info("accept_errors").parse::<u64>().is_ok_and(|n| n >= 2));
    wire.id();
    set_open_files("--nofile=1000:");
    assert_eq!(later.ask("PING"), "+PONG");
    server.wait_log("accepting a client failed");
    server.wait_log("clients can be accepted again");
    assert_eq!(server.count_log("accepting a client failed"), 1);
}
