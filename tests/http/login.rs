//! Logins over HTTP: the users of the Redis port, by Basic and Bearer, with the same limits and the same ends.

use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::{ClientConnection, StreamOwned, pki_types::ServerName};

use crate::support::http::{Http, HttpServer, request};
use crate::support::tls::{Files, Pair, TlsDialer};
use crate::support::{PATIENCE, eventually, free_port};

const USERS: &[&str] = &["--user", "app on >secret ~* +getid +mgetid +ping", "--user", "none on >pw ~* +ping"];

#[test]
fn users_are_those_of_the_redis_port() {
    let server = HttpServer::start(&[USERS, &["--requirepass", "admin"]].concat());
    let mut http = server.connect();
    let mut ask = |login: &str| {
        let fields = if login.is_empty() { vec![] } else { vec![login] };
        let response = http.ask("POST /v1/ids/-", &fields, "");
        let code = if response.status == 200 { None } else { response.json()["code"].as_str().map(str::to_owned) };
        if response.status == 401 {
            assert!(response.header("www-authenticate").is_some_and(|scheme| scheme.starts_with("Basic ")));
        }
        (response.status, code.unwrap_or_default())
    };
    let yes = (200, String::new());
    let no = |status: u16, code: &str| (status, code.to_owned());
    // Without a login, then with several logins on one connection: no login outlives its request.
    assert_eq!(ask(""), no(401, "NOAUTH"));
    assert_eq!(ask("Authorization: Bearer app:secret"), yes);
    assert_eq!(ask(""), no(401, "NOAUTH"));
    assert_eq!(ask("Authorization: Basic YXBwOnNlY3JldA=="), yes);
    assert_eq!(ask("Authorization: Bearer none:pw"), no(403, "NOPERM"));
    assert_eq!(ask("Authorization: Bearer app:secret"), yes);
    assert_eq!(ask("Authorization: Bearer app:wrong"), no(401, "WRONGPASS"));
    assert_eq!(ask("Authorization: Bearer admin"), yes);
    assert_eq!(ask("Authorization: Bearer default:admin"), yes);
    assert_eq!(ask("Authorization: basic OmFkbWlu"), yes);
    for malformed in ["Digest x", "Basic", "Basic !", "Bearer", "secret"] {
        assert_eq!(ask(&format!("Authorization: {malformed}")), no(401, ""), "{malformed}");
    }
    assert_eq!(ask(""), no(401, "NOAUTH"));
}

#[test]
fn logins_end_as_on_the_redis_port() {
    let server = HttpServer::start(USERS);
    let mut wire = server.server.connect();
    let mut http = server.connect();
    let login = ["Authorization: Bearer app:secret"];
    let status = |http: &mut Http| http.ask("POST /v1/ids/-", &login, "").status;
    assert_eq!(status(&mut http), 200);
    // The password is changed.
    assert_eq!(wire.ask("ACL SETUSER app resetpass >other"), "+OK");
    assert_eq!(status(&mut http), 401);
    assert_eq!(wire.ask("ACL SETUSER app >secret"), "+OK");
    assert_eq!(status(&mut http), 200);
    // The user loses a right.
    assert_eq!(wire.ask("ACL SETUSER app -mgetid -getid"), "+OK");
    assert_eq!(status(&mut http), 403);
    assert_eq!(wire.ask("ACL SETUSER app +mgetid +getid"), "+OK");
    assert_eq!(status(&mut http), 200);
    assert_eq!(wire.ask("ACL SETUSER app off"), "+OK");
    assert_eq!(status(&mut http), 401);
    assert_eq!(wire.ask("ACL SETUSER app on"), "+OK");
    assert_eq!(status(&mut http), 200);
    // Deleting a user closes its connections, and so does CLIENT KILL.
    assert_eq!(wire.ask("ACL DELUSER app"), ":1");
    assert!(http.is_closed());
    let mut http = server.connect();
    assert_eq!(status(&mut http), 401);
    assert_eq!(wire.ask("ACL SETUSER app on >secret ~* +@all"), "+OK");
    assert_eq!(status(&mut http), 200);
    assert_eq!(wire.ask("CLIENT KILL USER app"), ":1");
    assert!(http.is_closed());
    eventually("no connection of the user is left", || !wire.ask_bulk("CLIENT LIST").contains("lib-name=http"));
    // CLIENT KILL also closes a connection with a held request.
    assert_eq!(wire.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    let mut held = server.connect();
    held.send(request("POST /v1/ids/-", &login, "").as_bytes());
    eventually("the request is held", || wire.ask_bulk("CLIENT LIST").contains("flags=b"));
    assert_eq!(wire.ask("CLIENT KILL USER app"), ":1");
    assert!(held.try_response().is_err());
    assert_eq!(wire.ask("CLIENT UNPAUSE"), "+OK");
    // A password is set for the default user.
    let mut open = server.connect();
    assert_eq!(open.ask("POST /v1/ids/-", &[], "").status, 200);
    assert_eq!(wire.ask("CONFIG SET requirepass new"), "+OK");
    assert_eq!(open.ask("POST /v1/ids/-", &[], "").status, 401);
}

#[test]
fn a_user_without_a_password_needs_none() {
    let server = HttpServer::start(&["--requirepass", "admin", "--user", "open on nopass ~* +getid"]);
    let ask = |login: &str| server.ask_with("POST /v1/ids/-", &[&format!("Authorization: Bearer {login}")], "").status;
    assert_eq!((ask("open:"), ask("open:anything"), ask("open")), (200, 200, 401));
    assert_eq!(server.ask("POST /v1/ids/-").status, 401);
}

/// Refusals over HTTP are reported like refusals on the Redis port.
#[test]
fn refusals_are_in_acl_log_in_the_metrics_and_in_the_log() {
    let mut server = HttpServer::start(USERS);
    let mut wire = server.server.connect();
    let ask = |server: &HttpServer, login: &str| {
        server.ask_with("POST /v1/ids/-", &[&format!("Authorization: Bearer {login}")], "").status
    };
    assert_eq!(ask(&server, "app:wrong"), 401);
    assert_eq!(ask(&server, "none:pw"), 403);
    let stats = wire.ask_bulk("INFO stats");
    assert!(stats.contains("acl_access_denied_auth:1\r\n") && stats.contains("acl_access_denied_cmd:1\r\n"), "{stats}");
    wire.send("ACL LOG\r\n");
    let log = String::from_utf8_lossy(&wire.reply()).into_owned();
    for part in ["auth", "getid", "lib-name=http", "none"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    server.server.wait_log("login failed");
    server.server.wait_log("logged in");
    // No part of a name starts a new log line.
    let forged = "Authorization: Basic eFxuCjIwMjYgYXVkaXQ6IGZvcmdlZDp4";
    assert_eq!(server.ask_with("POST /v1/ids/-", &[forged], "").status, 401);
    eventually("the login is logged", || server.server.count_log("login failed") == 2);
    assert!(!server.server.log_so_far().lines().any(|line| line.starts_with("2026 audit")));
}

/// Wrong logins of a connection delay its answers more and more, over its requests. Other clients do not wait.
#[test]
fn guessing_is_slow_over_http_as_well() {
    let server = HttpServer::start(&["--requirepass", "secret"]);
    let mut wire = server.server.connect();
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    let begun = Instant::now();
    let mut guesser = server.connect();
    // The answers to all of them take more than 90 s.
    guesser.send(request("POST /v1/ids/-", &["Authorization: Bearer guess"], "").repeat(100).as_bytes());
    for _ in 0..5 {
        assert_eq!(guesser.response().status, 401);
    }
    // The delays are 10, 20, 40, 80 and 160 ms.
    assert!(begun.elapsed() >= Duration::from_millis(310), "{:?}", begun.elapsed());
    for _ in 0..20 {
        assert_eq!(server.ask("GET /livez").status, 200);
        assert_eq!(server.ask_with("POST /v1/ids/-", &["Authorization: Bearer secret"], "").status, 200);
        assert!(wire.ask("GETID").starts_with(':'));
    }
    let denied: u32 = wire.info("acl_access_denied_auth").parse().unwrap();
    assert!((5..100).contains(&denied), "{denied}");
}

/// Starts a server with TLS on its HTTP port, and returns it with the port.
fn start_tls(files: &Files, auth_clients: &str, words: &[&str]) -> (crate::support::Server, u16) {
    let port = free_port();
    let text = port.to_string();
    let all = [&["--http-port", &text, "--http-bind", "127.0.0.1", "--http-tls", "yes"], words].concat();
    (files.start(auth_clients, &all).0, port)
}

/// Sends requests over TLS and returns all answers as text.
fn ask_tls(files: &Files, shows: Option<&Pair>, port: u16, protocols: &[&[u8]], bytes: &str) -> io::Result<String> {
    let mut dial = TlsDialer::new(&files.authority);
    dial.shows = shows;
    let mut config = (*dial.config()).clone();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let session = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(session, socket);
    stream.write_all(bytes.as_bytes())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => return Err(error),
        _ => {}
    }
    let mut text = String::from_utf8_lossy(&answer).into_owned();
    if let Some(protocol) = stream.conn.alpn_protocol() {
        let _ = write!(text, "\n{}", String::from_utf8_lossy(protocol));
    }
    Ok(text)
}

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const ID: &str = "POST /v1/ids/- HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

#[test]
fn over_tls_a_certificate_is_a_login() {
    let files = Files::new();
    let words = ["--tls-auth-clients-user", "CN", "--requirepass", "x", "--user", "app on >secret ~* +getid"];
    let (mut server, port) = start_tls(&files, "optional", &words);
    let app = files.authority.client_named("app");
    let unknown = files.authority.client_named("unknown");
    let status = |shows, bytes: &str| ask_tls(&files, shows, port, &[], bytes).unwrap()[9..12].to_owned();
    assert_eq!(status(None, ID), "401");
    assert_eq!(status(Some(&app), ID), "200");
    // As on the Redis port: a certificate without a user of its name requires a login.
    assert_eq!(status(Some(&unknown), ID), "401");
    // A login in a header takes precedence over the certificate.
    assert_eq!(status(Some(&app), &ID.replacen("\r\n\r\n", "\r\nAuthorization: Bearer app:wrong\r\n\r\n", 1)), "401");
    // Several requests on one connection.
    let both = format!("{}{ID}", ID.replace("Connection: close\r\n", ""));
    assert_eq!(ask_tls(&files, Some(&app), port, &[], &both).unwrap().matches("HTTP/1.1 200 OK").count(), 2);
    server.wait_log("logged in");
}

#[test]
fn tls_negotiates_the_protocol_and_reloads_certificates() {
    let files = Files::new();
    let (mut server, port) = start_tls(&files, "no", &[]);
    let ok = ask_tls(&files, None, port, &[b"h2", b"http/1.1"], LIVEZ).unwrap();
    assert!(ok.starts_with("HTTP/1.1 200 OK") && ok.ends_with("\nhttp/1.1"), "{ok}");
    assert!(ask_tls(&files, None, port, &[b"h2"], LIVEZ).is_err());
    // A plain HTTP client gets an error that names https. Silent connections delay no other client.
    let silent: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let mut plain = Http::connect(port);
    plain.send(LIVEZ.as_bytes());
    let refused = plain.response();
    assert_eq!((refused.status, refused.header("connection")), (400, Some("close")), "{refused:?}");
    assert!(refused.json()["detail"].as_str().unwrap().contains("write https://"), "{refused:?}");
    assert!(plain.is_closed());
    // A client that sends neither TLS nor HTTP gets a TLS alert.
    let mut odd = Http::connect(port);
    odd.send(b"\x00\x01\x02\x03\x04\x05\r\n\r\n");
    assert!(odd.try_response().is_err());
    let mut wire = server.connect();
    eventually("each failed handshake counts, also the one with h2", || wire.info("tls_handshakes_failed") == "3");
    assert!(ask_tls(&files, None, port, &[], LIVEZ).unwrap().starts_with("HTTP/1.1 200 OK"));
    drop(silent);
    // After a reload, the certificate is signed by an authority that the client does not trust.
    let others = Files::new();
    for name in ["server.crt", "server.key"] {
        files.write(name, &std::fs::read_to_string(others.path(name)).unwrap());
    }
    server.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("the new certificate is in use", || ask_tls(&files, None, port, &[], LIVEZ).is_err());
    assert!(ask_tls(&others, None, port, &[], LIVEZ).unwrap().starts_with("HTTP/1.1 200 OK"));
    server.log_so_far();
}
