//! `/livez` and `/readyz`: the answers for supervisors and load balancers, and which clients get the reason.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;

use nix::sys::signal::Signal;

use crate::support::fake_clock::FakeClock;
use crate::support::http::{Http, HttpServer, request};
use crate::support::{PATIENCE, Server, eventually, free_port};

/// A short lead, so that a failing disk is noticed within half a second.
const SHORT: [&str; 4] = ["--id-max-borrow-ms", "500", "--id-watermark-lead-ms", "400"];

const LOGIN: &str = "Authorization: Bearer secret";

/// 2024 was the last year of the kind `baidu`: such a generator always refuses.
const ENDED: [&str; 4] = ["--generator", "old baidu", "--generator", "tweets twitter"];

#[track_caller]
fn ready(server: &HttpServer, query: &str, headers: &[&str]) -> (u16, String) {
    let response = server.ask_with(&format!("GET /readyz{query}"), headers, "");
    (response.status, response.text())
}

fn is_ready(server: &HttpServer) -> bool {
    ready(server, "", &[]) == (200, "ready\n".to_owned())
}

/// A folder in place of the temporary file of a save makes each save fail, as a full disk does.
#[test]
fn logged_in_clients_get_the_reason_of_a_full_disk() {
    let server =
        HttpServer::start(&[&SHORT[..], &["--requirepass", "secret", "--generator", "tweets twitter"]].concat());
    assert!(is_ready(&server));
    let obstacle = server.server.dir.join("getid-0.state.tmp");
    while fs::create_dir_all(obstacle.join("x")).is_err() {}
    // IDs move the watermark. The server is ready while some IDs are left.
    eventually("the server is not ready", || {
        server.ask_with("POST /v1/ids/-?count=100", &[LOGIN], "");
        !is_ready(&server)
    });
    assert_eq!(ready(&server, "", &[]), (503, "not ready: no ids are given now; log in for the reason\n".to_owned()));
    let (status, text) = ready(&server, "", &[LOGIN]);
    assert!(status == 503 && text.starts_with("not ready: MISCONF state can't be saved: cannot write "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let (status, text) = ready(&server, "?verbose", &[LOGIN]);
    let lines: Vec<_> = text.lines().collect();
    assert!(status == 503 && lines[0].starts_with("[-]- MISCONF state can't be saved: cannot write "), "{text}");
    assert!(lines[1].starts_with("[-]tweets MISCONF ") && lines[1].ends_with(" (not checked)"), "{text}");
    assert_eq!(lines.last(), Some(&"not ready"), "{text}");
    assert_eq!(server.ask("GET /livez").text(), "ok\n", "the process is alive");

    fs::remove_dir_all(&obstacle).unwrap();
    eventually("the server is ready again", || is_ready(&server));
}

#[test]
#[ignore = "needs libfaketime"]
fn an_absurd_clock_makes_a_server_unready_until_it_is_right() {
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let words = ["--http-port", &port.to_string(), "--http-bind", "127.0.0.1"];
    let server = HttpServer { server: clock.start(dir.path(), &words), port };
    assert!(is_ready(&server));
    clock.set(180 * 365 * 86_400);
    eventually("the server is not ready", || !is_ready(&server));
    // The default user needs no password, so every client on this machine gets the reason.
    let (status, text) = ready(&server, "", &[]);
    assert!(status == 503 && text.starts_with("not ready: MISCONF clock reads 22"), "{text}");
    clock.set(0);
    eventually("the server is ready again", || is_ready(&server));
}

#[test]
fn the_named_generators_are_checked() {
    let server = HttpServer::start(&[&ENDED[..], &["--http-ready", "tweets"]].concat());
    assert!(is_ready(&server), "the named generator gives IDs");
    let mut wire = server.server.connect();
    assert_eq!(wire.ask("CONFIG SET http-ready \"tweets old\""), "+OK");
    let (status, text) = ready(&server, "", &[]);
    assert!(status == 503 && text.starts_with("not ready: old: ") && text.lines().count() == 1, "{text}");
    // The store is opened concurrently.
    let (mut status, mut text) = (0, String::new());
    eventually("the store is up", || {
        (status, text) = ready(&server, "?verbose", &[]);
        text.contains("[+]store sqlite:")
    });
    assert_eq!(status, 503, "{text}");
    let begins = ["[+]- gives ids (not checked)", "[-]old ", "[+]tweets gives ids", "[+]store sqlite:", "not ready"];
    assert_eq!(text.lines().count(), begins.len(), "{text}");
    for (line, begin) in text.lines().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
    }
    assert_eq!(text.matches("(not checked)").count(), 2, "the unnamed generator and the store: {text}");
    // A client without a login gets the name of the generator, but not the reason.
    assert_eq!(wire.ask("CONFIG SET requirepass secret"), "+OK");
    let expected = "not ready: no ids are given now by old; log in for the reason\n".to_owned();
    assert_eq!(ready(&server, "", &[]), (503, expected));
    let refused = wire.ask("CONFIG SET http-ready unknown");
    assert!(refused.contains("http-ready names 'unknown', which no generator line declares"), "{refused}");
    assert_eq!(wire.ask("CONFIG SET http-ready \"\""), "+OK");
    assert!(is_ready(&server), "the unnamed generator counts again");
}

#[test]
fn details_need_a_login_with_the_right_to_info() {
    let user = "--user=app on >secret2 -@all +ping";
    let server = HttpServer::start(&["--requirepass", "secret", user]);
    let asked = |headers: &[&str]| {
        let response = server.ask_with("GET /readyz?verbose", headers, "");
        (response.status, response.json()["code"].as_str().map(str::to_owned))
    };
    assert_eq!(asked(&[]), (401, Some("NOAUTH".to_owned())));
    assert_eq!(asked(&["Authorization: Bearer wrong"]), (401, Some("WRONGPASS".to_owned())));
    assert_eq!(asked(&["Authorization: Bearer app:secret2"]), (403, Some("NOPERM".to_owned())));
    let (status, text) = ready(&server, "?verbose&standby=ok", &[LOGIN]);
    assert!(status == 200 && text.starts_with("[+]- gives ids\n") && text.ends_with("\nready\n"), "{text}");
    // A wrong login is refused on the plain probe too, because it is a mistake in the probe's configuration.
    assert_eq!(ready(&server, "", &["Authorization: Bearer wrong"]).0, 401);
    assert_eq!(ready(&server, "", &["Authorization: Bearer app:secret2"]), (200, "ready\n".to_owned()));
}

#[test]
fn a_foreign_page_gets_one_line() {
    let server = HttpServer::start(&[]);
    let host = "Host: rebound.example";
    assert_eq!(ready(&server, "", &[host]), (200, "ready\n".to_owned()), "a balancer may use any name");
    assert_eq!(ready(&server, "?verbose", &[host]).0, 421);
    assert_eq!(server.server.connect().ask("CONFIG SET http-host rebound.example"), "+OK");
    assert_eq!(ready(&server, "?verbose", &[host]).0, 200);
}

#[test]
fn without_http_open_probes_need_a_login() {
    let server = HttpServer::start(&["--requirepass", "secret", "--http-open", ""]);
    for path in ["/livez", "/readyz"] {
        let refused = server.ask(&format!("GET {path}"));
        assert_eq!((refused.status, refused.header("content-type")), (401, Some("application/problem+json")));
        assert!(refused.text().contains("http-open does not name probes"), "{refused:?}");
        assert!(refused.header("www-authenticate").is_some());
        assert_eq!(server.ask_with(&format!("GET {path}"), &[LOGIN], "").status, 200);
    }
    let mut wire = server.server.connect();
    assert_eq!((wire.ask("AUTH secret"), wire.ask("CONFIG SET http-open probes")), ("+OK".into(), "+OK".into()));
    assert!(is_ready(&server));
}

#[test]
fn unknown_parameters_are_refused() {
    let server = HttpServer::start(&[]);
    for (line, status) in [
        ("GET /readyz?verbos", 400),
        ("GET /readyz?verbose=1", 400),
        ("GET /readyz?standby=no", 400),
        ("GET /readyz?standby", 400),
        ("GET /readyz?standby=ok&standby=ok", 400),
        ("GET /livez?verbose", 400),
        ("POST /readyz", 405),
        ("GET /readyz/", 404),
        ("GET /readyz?standby=ok", 200),
        ("GET /livez?", 200),
    ] {
        assert_eq!(server.ask(line).status, status, "{line}");
    }
    // HEAD has the same head without a body.
    let mut http = server.connect();
    for path in ["/livez", "/readyz", "/readyz?verbose"] {
        http.send(request(&format!("HEAD {path}"), &[], "").as_bytes());
        let head = http.head().unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/plain; charset=utf-8")), "{path}");
    }
    assert_eq!(http.ask("GET /livez", &[], "").text(), "ok\n", "and no body after the heads");
}

/// A client that does not read its replies delays the stop.
#[test]
fn a_server_that_stops_is_not_ready() {
    let HttpServer { mut server, port } = HttpServer::start(&["--shutdown-timeout", "60"]);
    let mut stuck = server.connect();
    // The sender runs until the server, which reads no more, has ended.
    let sender = thread::spawn(move || while stuck.try_send("MGETID 100\r\n".repeat(1000)).is_ok() {});
    server.wait_stuck(1);
    let mut open = Http::connect(port);
    assert_eq!(open.ask("GET /readyz", &[], "").text(), "ready\n");
    let mut half = Http::connect(port);
    half.send(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n");
    server.signal(Signal::SIGTERM);
    // The first log line reports the signal. The stop begins with this line.
    server.wait_log("stopping: no new clients");
    // A later request may find the connection closed. No request is answered with "ready".
    let is_left = |http: &mut Http, rest: &[u8]| {
        let _ = http.stream.write_all(rest);
        let answer = http.try_response();
        answer.is_err()
            || answer
                .is_ok_and(|answer| (answer.status, answer.text().as_str()) == (503, "not ready: the server stops\n"))
    };
    assert!(is_left(&mut half, b"\r\n"));
    assert!(is_left(&mut open, request("GET /readyz", &[], "").as_bytes()));
    if let Ok(mut late) = TcpStream::connect(("127.0.0.1", port)).map(Http::on) {
        assert!(is_left(&mut late, request("GET /readyz", &[], "").as_bytes()));
    }
    server.signal(Signal::SIGINT);
    assert_eq!(server.wait().code(), Some(0));
    sender.join().unwrap();
}

/// Returns this machine's address on its network, without sending anything.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").expect("a machine with a network");
    socket.local_addr().unwrap().ip()
}

#[test]
#[ignore = "needs an address of this machine beside loopback"]
fn protected_mode_answers_probes_without_details() {
    let dir = tempfile::tempdir().unwrap();
    let server = start_with_http(dir.path(), &[&ENDED[..], &["--http-ready", "old"]].concat());
    let asked = |line: &str, headers: &[&str]| {
        let mut stream = TcpStream::connect(SocketAddr::new(own_address(), server.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request(line, &[headers, &["Connection: close"]].concat(), "").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let status: u16 = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect(&text);
        (status, text.split("\r\n\r\n").nth(1).unwrap().to_owned())
    };
    let expected = "not ready: no ids are given now by old; log in for the reason\n".to_owned();
    assert_eq!(asked("GET /readyz", &[]), (503, expected));
    assert_eq!(asked("GET /livez", &[]), (200, "ok\n".to_owned()));
    assert_eq!(asked("GET /readyz?verbose", &[]).0, 403);
    assert_eq!(asked("GET /readyz?verbose", &["Authorization: Bearer x"]).0, 403);
    assert_eq!(asked("POST /v1/ids/-", &[]).0, 403);
    let mut wire = server.server.connect();
    assert_eq!(wire.ask("CONFIG SET http-open \"\""), "+OK");
    assert_eq!((asked("GET /livez", &[]).0, asked("GET /readyz", &[]).0), (403, 403));
}

/// Starts a server whose HTTP port other machines reach, with the protected mode of a server without `bind`.
fn start_with_http(dir: &Path, words: &[&str]) -> HttpServer {
    let port = free_port();
    let text = port.to_string();
    let all = [&["--http-port", &text, "--http-bind", "0.0.0.0"], words].concat();
    HttpServer { server: Server::start_in(dir, &all), port }
}
