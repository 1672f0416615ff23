//! Access by network address, and requests that a foreign web page can make a browser send.

use std::net::{IpAddr, TcpStream, UdpSocket};

use crate::support::http::{Http, HttpServer, Response, request};
use crate::support::{free_port, refused};

#[track_caller]
fn assert_refused(response: &Response, status: u16, part: &str) {
    assert_eq!(response.status, status, "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    assert!(response.json()["detail"].as_str().unwrap().contains(part), "{response:?}");
}

/// Foreign host names may resolve to this server. Only addresses, localhost and the names in `http-host` are accepted.
#[test]
fn without_a_login_the_host_must_be_known() {
    let server = HttpServer::start(&["--http-host", "ids.internal"]);
    let mut http = server.connect();
    let mut ask = |host: &str| http.ask("POST /v1/ids/-", &[&format!("Host: {host}")], "");
    for known in [
        "localhost",
        "LOCALHOST:7880",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:80",
        "10.1.2.3",
        "[::1]",
        "[::1]:7880",
        "ids.internal",
        "IDS.internal.:1",
    ] {
        assert_eq!(ask(known).status, 200, "{known}");
    }
    for elsewhere in
        ["evil.example", "ids.internal.evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""]
    {
        assert_refused(&ask(elsewhere), 421, "http-host");
    }
    // Probes answer under all names, because they reveal nothing.
    assert_eq!(http.ask("GET /livez", &["Host: evil.example"], "").status, 200);
    // The request line may name the host as well. It must be the one in the Host header.
    http.send(b"POST http://evil.example/v1/ids/- HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n");
    assert_refused(&http.response(), 421, "http-host");
}

/// A page at a foreign name can send any header, but does not know a password.
#[test]
fn a_login_without_a_secret_does_not_make_a_host_known() {
    let server = HttpServer::start(&["--user", "app on >secret ~* +@all", "--user", "open on nopass ~* +@all"]);
    let mut http = server.connect();
    let mut ask = |login: &str| {
        http.ask("POST /v1/ids/-", &["Host: evil.example", &format!("Authorization: Bearer {login}")], "")
    };
    assert_eq!(ask("app:secret").status, 200);
    assert_eq!(ask("app:wrong").status, 401);
    assert_eq!(ask("unknown:x").status, 401);
    for login in ["default:x", "x", "open:", "open:secret"] {
        assert_refused(&ask(login), 421, "http-host");
    }
}

#[test]
fn a_foreign_page_changes_nothing() {
    let server = HttpServer::start(&["--http-host", "ids.internal"]);
    let mut http = server.connect();
    let mut ask = |fields: &[&str]| http.ask("POST /v1/ids/-", fields, "");
    for own in [
        &["Origin: http://localhost:7880", "Host: localhost:7880"][..],
        // A proxy in front terminates TLS.
        &["Origin: https://localhost:7880", "Host: localhost:7880"],
        // The proxy has another name or another port.
        &["Origin: https://ids.internal", "Host: localhost:7880"],
        &["Origin: https://ids.internal:8443", "Host: ids.internal"],
        &["Sec-Fetch-Site: same-origin"],
        &["Sec-Fetch-Site: none"],
    ] {
        assert_eq!(ask(own).status, 200, "{own:?}");
    }
    for elsewhere in [
        &["Origin: null"][..],
        &["Origin: http://evil.example"],
        &["Origin: http://localhost:1", "Host: localhost:7880"],
        &["Origin: http://localhost", "Host: localhost:7880"],
        &["Origin: ftp://localhost", "Host: localhost"],
        &["Origin: http://localhost.evil.example", "Host: localhost"],
        &["Origin: http://ids.internal.evil.example"],
        &["Origin: http://localhost@evil.example", "Host: localhost"],
        &["Origin: "],
        &["Sec-Fetch-Site: cross-site"],
        &["Sec-Fetch-Site: same-site"],
    ] {
        assert_refused(&ask(elsewhere), 403, "another site");
    }
    // A read is allowed from any origin, because browsers do not show its answer to a foreign page.
    let read = http.ask("GET /openapi.json", &["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"], "");
    assert_eq!(read.status, 200);
    assert_eq!(read.header("cross-origin-resource-policy"), Some("same-origin"));
    assert_eq!(read.header("access-control-allow-origin"), None);
}

#[test]
fn a_change_comes_with_json_or_with_nothing() {
    let server = HttpServer::start(&[]);
    let ask = |kind: &str, body: &str| {
        let kind = format!("Content-Type: {kind}");
        server.ask_with("POST /v1/ids/-", &[&kind], body)
    };
    assert_eq!(ask("application/json", "{}").status, 200);
    assert_eq!(ask("Application/JSON; charset=utf-8", "{}").status, 200);
    assert_eq!(ask("text/plain", "").status, 200);
    // Content types that a form can send, or a script without a preflight request.
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", ""]
    {
        assert_refused(&ask(kind, "{}"), 415, "application/json");
    }
    let mut http = server.connect();
    http.send(b"POST /v1/ids/- HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
    assert_refused(&http.response(), 415, "application/json");
}

#[test]
fn a_body_that_is_compressed_is_refused_before_it_is_read() {
    let server = HttpServer::start(&[]);
    let ask = |coding: &str, body: &str| {
        let coding = format!("Content-Encoding: {coding}");
        server.ask_with("POST /v1/ids/-", &[&coding], body)
    };
    assert_eq!(ask("identity", "{}").status, 200);
    assert_eq!(ask("gzip", "").status, 200, "an empty body is the same in every coding");
    for coding in ["gzip", "br", "identity, gzip", "x\u{e9}"] {
        let response = ask(coding, "{}");
        assert_refused(&response, 415, "send it uncompressed");
        assert_eq!(response.header("accept-encoding"), Some("identity"), "{coding}");
    }
}

#[test]
fn cors_methods_are_refused_without_cors_headers() {
    let server = HttpServer::start(&[]);
    let preflight = ["Origin: http://evil.example", "Access-Control-Request-Method: POST"];
    for line in
        ["OPTIONS /v1/ids/-", "OPTIONS *", "OPTIONS /nothing", "TRACE /", "TRACE /livez", "PUT /livez", "FOO /livez"]
    {
        let response = server.ask_with(line, &preflight[..if line.starts_with('O') { 2 } else { 0 }], "");
        assert_eq!(response.status, 405, "{line}: {response:?}");
        assert!(response.header("allow").is_some(), "{line}");
        assert!(!response.headers.iter().any(|(name, _)| name.starts_with("access-control")), "{line}");
    }
    let mut http = server.connect();
    http.send(b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n");
    assert_eq!(http.response().status, 405);
}

#[test]
fn every_answer_has_the_security_headers() {
    let server = HttpServer::start(&[]);
    for line in ["GET /livez", "GET /nothing", "POST /v1/ids/-", "OPTIONS /", "GET /openapi.json"] {
        let response = server.ask(line);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(response.header(name), Some(value), "{line}");
        }
        assert_eq!(response.header("set-cookie"), None, "{line}");
    }
}

/// Returns an address of this machine that is not loopback.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Connecting a UDP socket sends nothing; it selects the source address.
    socket.connect("192.0.2.1:9").expect("a route out of this machine");
    socket.local_addr().unwrap().ip()
}

/// Starts a server on all addresses, and connects to it from an address that is not loopback.
fn from_outside(words: &[&str]) -> (HttpServer, Http) {
    let port = free_port();
    let server = HttpServer::start_at(port, &[&["--http-bind", "0.0.0.0"], words].concat());
    let outside = TcpStream::connect((own_address(), port)).unwrap();
    assert!(!outside.peer_addr().unwrap().ip().is_loopback());
    (server, Http::on(outside))
}

#[test]
fn the_protected_mode_is_that_of_the_redis_port() {
    let probes = |http: &mut Http| {
        assert_eq!(http.ask("GET /livez", &[], "").status, 200);
        assert_eq!(http.ask("GET /readyz", &[], "").status, 200);
    };
    // Without a password only this machine may connect.
    let (server, mut outside) = from_outside(&["--protected-mode", "yes"]);
    probes(&mut outside);
    for line in ["POST /v1/ids/-", "GET /v1/generators", "GET /nothing", "GET /metrics"] {
        assert_refused(&outside.ask(line, &[], ""), 403, "protected mode");
    }
    assert_eq!(server.ask("POST /v1/ids/-").status, 200);
    // With a password other machines may connect.
    let (_server, mut outside) = from_outside(&["--protected-mode", "yes", "--requirepass", "secret"]);
    probes(&mut outside);
    assert_eq!(outside.ask("POST /v1/ids/-", &[], "").status, 401);
    assert_eq!(outside.ask("POST /v1/ids/-", &["Authorization: Bearer secret"], "").status, 200);
    // Guarded: every machine gets IDs, but only this machine may change the server.
    let (_server, mut outside) = from_outside(&["--protected-mode", "guarded"]);
    probes(&mut outside);
    assert_eq!(outside.ask("POST /v1/ids/-", &[], "").status, 200);
    // Without protected mode every machine may connect.
    let (_server, mut outside) = from_outside(&["--protected-mode", "no"]);
    assert_eq!(outside.ask("POST /v1/ids/-", &[], "").status, 200);
}

#[test]
fn only_open_paths_are_open_to_all() {
    let (_server, mut outside) = from_outside(&["--protected-mode", "yes", "--http-open", "metrics"]);
    assert_refused(&outside.ask("GET /livez", &[], ""), 403, "protected mode");
    assert_ne!(outside.ask("GET /metrics", &[], "").status, 403);
    // Similar paths are not open.
    for path in ["/metrics/", "//metrics", "/metrics/../v1/generators", "/%6detrics", "/livez%2f"] {
        let response = outside.ask(&format!("GET {path}"), &[], "");
        assert_eq!(response.status, 403, "{path}");
    }
    let pipeline = [request("GET /metrics", &[], ""), request("GET /v1/generators", &[], "")].concat();
    outside.send(pipeline.as_bytes());
    assert_ne!(outside.response().status, 403);
    assert_eq!(outside.response().status, 403);
}

#[test]
fn an_invalid_name_is_refused_at_the_start() {
    let dir = crate::support::folder();
    let error = refused(dir.path(), &["--http-port", "1", "--http-host", "ids.internal:80"], |_| {});
    assert!(error.contains("http-host"), "{error}");
}
