//! The limits of the HTTP port: connections, time, sizes, and ambiguous request heads.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use getid_http::PortBounds;
use getid_server::metrics::Counter;
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};

use crate::in_process::{InProcess, quick};
use crate::support::http::{Http, HttpServer, request};
use crate::support::{eventually, in_time};

/// Returns a field of INFO's section Http.
fn http_info(server: &HttpServer, field: &str) -> u64 {
    let info = server.server.connect().ask_bulk("INFO http");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {field} in {info}")).trim().parse().unwrap()
}

/// Sends these bytes and returns the problem, after which the connection must end.
#[track_caller]
fn refused(server: &HttpServer, bytes: &[u8]) -> (u16, String) {
    let mut http = server.connect();
    http.send(bytes);
    let response = http.response();
    assert_eq!(response.header("connection"), Some("close"), "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    let problem = response.json();
    assert_eq!(problem["status"], response.status);
    assert!(http.is_closed());
    (response.status, problem["detail"].as_str().unwrap().to_owned())
}

#[test]
fn a_head_that_could_be_read_in_two_ways_is_refused_and_the_connection_ends() {
    let server = HttpServer::start(&[]);
    let post =
        |fields: &str, body: &str| format!("POST /v1/ids/- HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n{body}");
    let smuggled = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let cases = [
        (400, "together", post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n")),
        (400, "together", post("Transfer-Encoding: chunked\r\nContent-Length: 5", &format!("0\r\n\r\n{smuggled}"))),
        (400, "Content-Length", post("Content-Length: 0\r\nContent-Length: 5", "hello")),
        (400, "Content-Length", post("Content-Length: 0\r\nContent-Length: 0", smuggled)),
        (400, "Content-Length", post("Content-Length: +0", "")),
        (400, "Transfer-Encoding", post("Transfer-Encoding: xchunked", "0\r\n\r\n")),
        (400, "Transfer-Encoding", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "0\r\n\r\n")),
        (400, "a field", post("Transfer-Encoding : chunked", "0\r\n\r\n")),
        (400, "second line", post("X: y\r\n folded", "")),
        (400, "a field", post("X: a\0b", "")),
        (400, "CR LF", "GET /livez HTTP/1.1\nHost: localhost\n\n".to_owned()),
        (400, "CR LF", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: y\n\r\n".to_owned()),
        (400, "Host", "GET /livez HTTP/1.1\r\n\r\n".to_owned()),
        (400, "two fields Host", "GET /livez HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned()),
        (400, "differs from", "GET http://a/livez HTTP/1.1\r\nHost: b\r\n\r\n".to_owned()),
        (400, "Host is not", "GET /livez HTTP/1.1\r\nHost: user@localhost\r\n\r\n".to_owned()),
        (400, "Host is not", "GET http://user@localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned()),
        (400, "path", "GET /\u{fc} HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "Transfer-Encoding", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()),
        (505, "HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        (505, "version", "GET / HTTP/1.2\r\nHost: a\r\n\r\n".to_owned()),
        (505, "version", "GET / HTTP/3\r\nHost: a\r\n\r\n".to_owned()),
        (400, "Redis", "*1\r\n$4\r\nPING\r\n".to_owned()),
        (400, "Redis", "PING\r\n".to_owned()),
        (400, "TLS", "\x16\x03\x01\x02\0".to_owned()),
        (400, "first line", "\0\0\0\0".to_owned()),
        (400, "first line", "GET /\r\n".to_owned()),
        (417, "Expect", post("Expect: 200-ok\r\nContent-Length: 2", "{}")),
        (414, "8 KiB", format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000))),
        (431, "16 KiB", format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(17_000))),
        (431, "64 fields", format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(64))),
    ];
    for (status, part, bytes) in &cases {
        let (got, detail) = refused(&server, bytes.as_bytes());
        assert_eq!((got, detail.contains(part)), (*status, true), "{bytes:?}: {detail}");
    }
    assert_eq!(http_info(&server, "http_requests_malformed"), cases.len() as u64);
}

#[test]
fn unambiguous_heads_are_answered() {
    let server = HttpServer::start(&[]);
    let mut http = server.connect();
    for head in [
        "GET /livez HTTP/1.1\r\nHost: localhost:7880\r\n\r\n",
        "\r\nGET /livez HTTP/1.1\r\nHost: [::1]:1\r\n\r\n",
        "GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /v1/ids/- HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n\
         2;x=y\r\n{}\r\n0\r\n\r\n",
    ] {
        http.send(head.as_bytes());
        let response = http.response();
        assert_eq!(response.status, 200, "{head:?}: {response:?}");
    }
    // A head that arrives byte by byte, followed by the first byte of the next head.
    for byte in b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nG" {
        http.send(&[*byte]);
    }
    assert_eq!(http.response().text(), "ok\n");
    http.send(b"ET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(http.response().text(), "ok\n");
    // HTTP/1.0 closes its connection unless a header keeps it open.
    http.send(b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(http.response().text(), "ok\n");
    http.send(b"GET /livez HTTP/1.0\r\n\r\n");
    assert_eq!(http.response().text(), "ok\n");
    assert!(http.is_closed());
}

#[test]
fn requests_in_a_pipeline_are_answered_in_their_order_and_a_bad_one_ends_it() {
    let server = HttpServer::start(&[]);
    let mut http = server.connect();
    let ids = request("POST /v1/ids/-", &[], "");
    let probe = request("GET /livez", &[], "");
    let many: String = (0..100).map(|n| if n % 2 == 0 { ids.as_str() } else { probe.as_str() }).collect();
    http.send(format!("{many}GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n{probe}").as_bytes());
    for n in 0..100 {
        let response = http.response();
        assert_eq!((response.status, response.text() == "ok\n"), (200, n % 2 == 1), "{n}");
    }
    assert_eq!(http.response().status, 400);
    assert!(http.is_closed());
}

#[test]
fn odd_chunks_end_the_connection() {
    let server = HttpServer::start(&[]);
    let head = "POST /v1/ids/- HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
                Content-Type: application/json\r\n\r\n";
    for chunks in ["0x2\r\n{}\r\n0\r\n\r\n", "2\n{}\n0\n\n", "2\r\n{}0\r\n\r\n", "0\r\nX: y\r\n\r\n", "fffffffff\r\n"] {
        let (status, detail) = refused(&server, format!("{head}{chunks}").as_bytes());
        assert_eq!((status, detail.contains("chunks")), (400, true), "{chunks:?}: {detail}");
    }
}

#[test]
fn a_body_has_a_bound() {
    let server = HttpServer::start(&[]);
    let large = "x".repeat(65_537);
    // A body with a larger Content-Length is not read, and a chunked one is read up to the limit. The answer comes
    // before the end of the body.
    let head = "POST /v1/ids/- HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    assert_eq!(refused(&server, format!("{head}Content-Length: 65537\r\n\r\n").as_bytes()).0, 413);
    assert_eq!(refused(&server, format!("{head}Content-Length: 65537\r\n\r\n{large}").as_bytes()).0, 413);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n10001\r\n{large}\r\n0\r\n\r\n");
    assert_eq!(refused(&server, chunked.as_bytes()).0, 413);
    assert_eq!(http_info(&server, "http_bodies_too_large"), 3);
    let fits = format!("{head}Content-Length: 65536\r\n\r\n{}", &large[1..]);
    let mut http = server.connect();
    http.send(fits.as_bytes());
    assert_ne!(http.response().status, 413);
    // A client that sends `Expect: 100-continue` gets an interim response.
    let mut http = server.connect();
    http.send(format!("{head}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n").as_bytes());
    assert_eq!(http.head().unwrap().status, 100);
    http.send(b"{}");
    assert_eq!(http.response().status, 200);
}

/// A time limit that has passed at the first sweep of a client.
const MOMENT: Duration = Duration::from_millis(50);

/// The unit tests of `slots` test the time of each phase.
#[test]
fn a_request_that_is_late_is_answered() {
    let late = |bounds: PortBounds, counter: Counter, sent: &str, status: u16, part: &str| {
        let server = InProcess::start(bounds, |_| {});
        let mut commands = server.commands();
        assert_eq!(commands.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
        let mut slow = server.connect();
        slow.send(sent.as_bytes());
        let response = slow.response();
        assert_eq!((response.status, response.header("connection")), (status, Some("close")), "{response:?}");
        assert!(response.text().contains(part), "{response:?}");
        assert!(slow.is_closed());
        assert_eq!(server.counted(counter), 1);
    };
    let head = PortBounds { head: MOMENT, ..quick() };
    late(head, Counter::HttpHeadsLate, "GET /livez HTTP/1.1\r\nHost: loc", 408, "head of the request");
    let body = PortBounds { body: MOMENT, ..quick() };
    let half = request("POST /v1/ids/-", &["Content-Length: 10"], "{");
    late(body, Counter::HttpBodiesLate, &half, 408, "body of the request did not arrive within 0.05 s");
    let answer = PortBounds { answer: MOMENT, ..quick() };
    late(answer, Counter::HttpAnswersLate, &request("POST /v1/ids/-", &[], ""), 503, "CLIENT PAUSE");
}

#[test]
fn an_idle_connection_is_closed_and_a_stream_is_not() {
    let server = InProcess::start(quick(), |config| config.http.timeout_s = 1);
    let mut fresh = server.connect();
    // The server may close a connection before its first request if the test stalls meanwhile.
    let connected = |line: &str| {
        in_time("an answer", || {
            let mut http = server.connect();
            let is_sent = http.stream.write_all(request(line, &[], "").as_bytes()).is_ok();
            (is_sent && http.head().is_ok_and(|head| head.status == 200)).then_some(http)
        })
    };
    let mut viewer = connected("GET /v1/status/stream");
    let mut used = connected("HEAD /livez");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        assert!(viewer.chunk().unwrap().is_some());
    }
    assert!(fresh.is_closed() && used.is_closed());
    assert!(server.counted(Counter::HttpIdleClosed) >= 2);
    assert!(viewer.chunk().unwrap().is_some());
}

#[test]
fn the_connection_that_was_idle_longest_makes_room() {
    let server = HttpServer::start(&["--http-max-clients", "4"]);
    let mut all: Vec<Http> = (0..4).map(|_| server.connect()).collect();
    for http in &mut all {
        assert_eq!(http.ask("GET /livez", &[], "").status, 200);
    }
    // The first connection is used again, and is not the longest idle one any more.
    assert_eq!(all[0].ask("GET /livez", &[], "").status, 200);
    assert_eq!(server.ask("GET /livez").status, 200);
    assert!(all[1].is_closed());
    assert_eq!(all[0].ask("GET /livez", &[], "").status, 200);
    assert!(http_info(&server, "http_connections_evicted") >= 1);
    assert_eq!(http_info(&server, "http_connections_refused"), 0);
    // A flood of idle connections does not exclude other clients.
    let flood: Vec<Http> = (0..200).map(|_| server.connect()).collect();
    eventually("a client is served", || {
        let mut http = server.connect();
        // A connection without a request counts as idle, too.
        let is_sent = http.stream.write_all(request("GET /livez", &[], "").as_bytes()).is_ok();
        is_sent && http.try_response().is_ok_and(|response| response.status == 200)
    });
    eventually("the flood is closed", || http_info(&server, "http_connected_clients") <= 5);
    drop(flood);
}

#[test]
fn clients_are_refused_only_if_all_connections_are_busy() {
    let server = HttpServer::start(&["--http-max-clients", "3"]);
    let mut wire = server.server.connect();
    assert_eq!(wire.ask("CLIENT PAUSE 60000 ALL"), "+OK");
    let mut held: Vec<Http> = (0..3).map(|_| server.connect()).collect();
    for http in &mut held {
        http.send(request("POST /v1/ids/-", &[], "").as_bytes());
    }
    eventually("all are held", || wire.ask_bulk("CLIENT LIST").matches("lib-name=http").count() == 3);
    eventually("a client is refused", || {
        let mut http = server.connect();
        http.send(request("GET /livez", &[], "").as_bytes());
        http.try_response().is_ok_and(|response| {
            assert!(response.status == 503 || response.status == 200, "{response:?}");
            response.status == 503
                && response.header("retry-after") == Some("1")
                && response.json()["detail"].as_str().unwrap().contains("http-max-clients")
        })
    });
    // Each client of a burst is refused, too.
    server.server.signal(Signal::SIGSTOP);
    let mut burst: Vec<Http> = (0..64).map(|_| server.connect()).collect();
    for http in &mut burst {
        http.send(request("GET /livez", &[], "").as_bytes());
    }
    server.server.signal(Signal::SIGCONT);
    for http in &mut burst {
        assert_eq!(http.response().status, 503);
    }
    assert_eq!(wire.ask("CLIENT UNPAUSE"), "+OK");
    for http in &mut held {
        assert_eq!(http.response().status, 200);
    }
    assert_eq!(server.ask("GET /livez").status, 200);
}

#[test]
fn a_request_ends_with_its_client() {
    let server = HttpServer::start(&[]);
    let mut wire = server.server.connect();
    assert_eq!(wire.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    let mut http = server.connect();
    http.send(request("POST /v1/ids/-", &[], "").as_bytes());
    eventually("the request is held", || wire.ask_bulk("CLIENT LIST").contains("lib-name=http"));
    drop(http);
    eventually("the request has ended with its client", || !wire.ask_bulk("CLIENT LIST").contains("lib-name=http"));
    assert_eq!(wire.ask("CLIENT UNPAUSE"), "+OK");
}

#[test]
fn a_stop_answers_running_requests_and_closes_idle_connections() {
    let mut server = HttpServer::start(&[]);
    let mut idle = server.connect();
    assert_eq!(idle.ask("GET /livez", &[], "").status, 200);
    let mut half = server.connect();
    half.send(b"GET /livez HTTP/1.1\r\n");
    let mut fresh = server.connect();
    eventually("all clients are connected", || http_info(&server, "http_connected_clients") == 3);
    server.server.signal(Signal::SIGTERM);
    assert!(idle.is_closed() && fresh.is_closed() && half.is_closed());
    assert!(server.server.wait().success());
    // The next server can bind the port at once.
    let again = HttpServer::start_at(server.port, &[]);
    assert_eq!(again.ask("GET /livez").status, 200);
}

#[test]
fn a_client_that_sends_and_never_reads_is_held_back() {
    let server = InProcess::start(quick(), |config| config.client_output_timeout_s = 1);
    let mut greedy = server.connect().stream;
    // The client sends until the server stops reading.
    let requests = request("GET /nothing", &[], "").repeat(1000);
    while greedy.write_all(requests.as_bytes()).is_ok() {}
    eventually("the connection is closed", || server.counted(Counter::OutputTimeoutClosed) == 1);
    assert_eq!(server.ask("GET /livez").status, 200);
}

#[test]
fn unread_answers_count_as_memory_until_their_client_is_gone() {
    // The limit has room for four responses of 200 KB; a socket's buffer holds little of one.
    let bounds = PortBounds { stuck: MOMENT, large_kib: 1024, ..quick() };
    let server = InProcess::start(bounds, |config| config.id_mgetid_max = 10_000);
    let greedy: Vec<_> = (0..12)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_recv_buffer_size(2048).unwrap();
            socket.connect(&SocketAddr::from(([127, 0, 0, 1], server.port)).into()).unwrap();
            let mut stream = TcpStream::from(socket);
            stream.write_all(request("POST /v1/ids/-?count=10000", &[], "").as_bytes()).unwrap();
            stream
        })
        .collect();
    eventually("all requests are answered", || {
        server.counted(Counter::HttpAnswered) + server.counted(Counter::HttpFailed) >= greedy.len() as u64
    });
    assert!(server.counted(Counter::HttpFailed) > 0);
    // Closing a client that reads nothing frees memory for another client.
    let mut all = server.connect();
    let answered = in_time("there is room again", || {
        Some(all.ask("POST /v1/ids/-?count=10000", &[], "")).filter(|response| response.status == 200)
    });
    assert_eq!(answered.json()["ids"].as_array().unwrap().len(), 10_000);
    assert_eq!(all.ask("GET /livez", &[], "").status, 200);
    assert!(greedy.into_iter().any(|stream| Http::on(stream).try_response().is_err()), "a client is closed");
}

/// HTTP buffers count in `maxmemory-clients`. Above it the server closes the largest connections, even before a login
/// is checked.
#[test]
fn connections_with_large_buffers_are_closed() {
    let words = ["--requirepass", "secret", "--maxmemory-clients", "1mb"];
    let mut server = HttpServer::start(&words);
    let mut watch = server.server.connect();
    assert_eq!(watch.ask("AUTH secret"), "+OK");
    let idle: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let head = "POST /v1/ids/- HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 60001\r\n\r\n";
    let body = [head.as_bytes(), &b" ".repeat(60_000)[..]].concat();
    let mut open: Vec<_> = (0..30).map(|_| server.connect()).collect();
    for http in &mut open {
        // The connection may be closed meanwhile.
        let _ = http.stream.write_all(&body);
    }
    eventually("the largest are closed", || watch.info_number("evicted_clients") >= 15);
    eventually("the rest fits", || watch.info_number("client_buffers_bytes") <= 1 << 20);
    assert!(watch.info_number("client_buffers_bytes") > 100_000, "open connections are counted");
    server.server.wait_log("the HTTP client at 127.0.0.1:");
    // Connections with small buffers stay open.
    for mut http in idle {
        http.send(request("GET /livez", &[], "").as_bytes());
        assert_eq!(http.response().status, 200);
    }
    drop(open);
    eventually("all buffers are released", || watch.info_number("client_buffers_bytes") < 1000);
}

#[test]
fn slow_bodies_do_not_block_other_requests() {
    let server = HttpServer::start(&[]);
    let body = format!(
        "{}{}",
        request("POST /v1/ids/-", &["Content-Type: application/json", "Content-Length: 9000"], ""),
        " ".repeat(8000)
    );
    let slow: Vec<_> = (0..150)
        .map(|_| {
            let mut client = server.connect();
            client.send(body.as_bytes());
            client
        })
        .collect();
    // Requests without memory for their body are refused; the others wait.
    eventually("some are refused", || http_info(&server, "http_requests_5xx") > 0);
    assert_eq!(server.ask("GET /openapi.json").status, 200);
    assert_eq!(server.ask("GET /metrics").status, 200);
    drop(slow);
}
