//! Leaf's paths: their answers are those of Leaf's own server.

#![cfg(feature = "sqlite")]

use nix::sys::signal::Signal;

use crate::recorded::{self, ok};
use crate::support::http::HttpServer;
use crate::support::{Server, folder, free_port, refused};

/// Starts a server in this time zone, and returns it with its folder.
fn start_in_zone(zone: &str, words: &[&str]) -> (HttpServer, tempfile::TempDir) {
    let (dir, port) = (folder(), free_port());
    let text = port.to_string();
    let all = [&["--http-port", &text, "--http-bind", "127.0.0.1"], words].concat();
    let server = Server::try_start_in(dir.path(), &all, |command| {
        command.env("TZ", zone);
    });
    (HttpServer { server: server.expect("started"), port }, dir)
}

const NO_SUCH_KEY: &str = r#""message":"Result{id=-2, status=EXCEPTION}""#;
const NOTHING_LEFT: &str = r#""message":"Result{id=-3, status=EXCEPTION}""#;
const NOT_READY: &str = r#""message":"Result{id=-1, status=EXCEPTION}""#;

#[test]
fn recorded_conversations_match_byte_for_byte() {
    let (server, _dir) = start_in_zone("Asia/Shanghai", &["--http-api", "leaf"]);
    let mut redis = server.server.connect();
    ok(&mut redis, "SEQUENCE CREATE orders");
    ok(&mut redis, "SEQUENCE CREATE short max 1");
    recorded::play(&server, include_str!("recorded/leaf.txt"));
}

#[test]
fn a_snowflake_key_is_the_generator_of_that_name_or_the_only_one_of_leafs_layout() {
    let server = HttpServer::start(&["--http-api", "leaf", "--generator", "orders", "leaf", "worker", "39"]);
    let mut http = server.connect();
    let mut id = |key: &str| {
        let response = http.ask(&format!("GET /api/snowflake/get/{key}"), &[], "");
        assert_eq!((response.status, response.header("content-type")), (200, Some("text/plain;charset=UTF-8")));
        response.text()
    };
    let named = id("orders");
    let decoded = server.ask(&format!("GET /decodeSnowflakeId?snowflakeId={named}")).json();
    assert_eq!(decoded["workerId"], "39", "{named} {decoded}");
    let number: u64 = named.parse().unwrap();
    assert_eq!(decoded["sequenceId"], (number & 4095).to_string());
    let other: u64 = id("whatever").parse().unwrap();
    assert!(number < other && id("orders").parse::<u64>().unwrap() > other, "one generator for all keys");
    let decoded_by_api = server.ask(&format!("GET /v1/ids/{other}?generator=orders")).json();
    let ahead_ms = decoded_by_api["readings"][0]["ahead_ms"].as_i64().unwrap();
    assert!(ahead_ms.abs() < 3_600_000, "the ID has Leaf's layout: {decoded_by_api}");
    assert_eq!(server.ask("GET /api/snowflake/get/").status, 404);
}

#[test]
fn a_key_that_can_have_no_sequence_is_logged_once() {
    let mut server = HttpServer::start(&["--http-api", "leaf"]);
    for key in ["%E8%AE%A2%E5%8D%95", "%E8%AE%A2%E5%8D%95", "shop%2Fpay", "orders"] {
        let answered = server.ask(&format!("GET /api/segment/get/{key}"));
        assert!(answered.text().contains(NO_SUCH_KEY), "{key}: {}", answered.text());
    }
    let line = server.server.wait_log("Leaf's key '订单' cannot be served: a name has 1 to 128 bytes");
    assert!(line.contains("A-Z a-z 0-9 _ . : - { } #, blanks inside, @ between { and }"), "{line}");
    // The stop of the server ends the hour and logs its count.
    server.server.signal(Signal::SIGTERM);
    server.server.wait_log("2 more within 3600 s without a line of their own: requests of Leaf's");
    let log = server.server.log_so_far();
    assert_eq!(log.matches("cannot be served: a name has").count(), 1, "{log}");
}

#[test]
fn a_snowflake_key_without_a_generator_is_refused_as_in_leaf() {
    for (words, message) in [("", NOT_READY), ("--generator a leaf --generator b leaf", NO_SUCH_KEY)] {
        let words: Vec<_> = ["--http-api", "leaf"].into_iter().chain(words.split_whitespace()).collect();
        let answer = HttpServer::start(&words).ask("GET /api/snowflake/get/test");
        assert!(answer.status == 500 && answer.text().contains(message), "{words:?}: {answer:?}");
    }
    let words = ["--requirepass", "secret", "--http-api", "leaf", "--generator", "tweets", "twitter"];
    assert_eq!(HttpServer::start(&words).ask("GET /api/snowflake/get/test").status, 401, "the login comes first");
}

#[test]
fn a_snowflake_key_of_texts_is_refused_and_draws_nothing() {
    let words = ["--http-api", "leaf", "--generator", "order", "serial", "O{n:4}", "reset", "never"];
    let server = HttpServer::start(&[&words[..], &["--generator", "trace", "uuid7"]].concat());
    for key in ["order", "trace"] {
        let answer = server.ask(&format!("GET /api/snowflake/get/{key}"));
        assert!(answer.status == 500 && answer.text().contains(NO_SUCH_KEY), "{key}: {answer:?}");
    }
    assert_eq!(server.ask("POST /v1/ids/order").json()["ids"][0], "O0001");
}

#[test]
fn a_head_request_consumes_a_value_like_any_method() {
    let server = HttpServer::start(&["--http-api", "leaf"]);
    ok(&mut server.server.connect(), "SEQUENCE CREATE orders");
    let mut http = server.connect();
    http.send(b"HEAD /api/segment/get/orders HTTP/1.1\r\nHost: x\r\n\r\n");
    let head = http.head().unwrap();
    assert_eq!((head.status, head.header("content-length")), (200, Some("1")));
    assert_eq!(http.ask("GET /api/segment/get/orders", &[], "").text(), "2");
}

#[test]
fn without_the_directive_there_are_no_such_paths() {
    let server = HttpServer::start(&[]);
    let mut http = server.connect();
    for line in ["GET /api/segment/get/orders", "GET /api/snowflake/get/a", "GET /decodeSnowflakeId?snowflakeId=1"] {
        let response = http.ask(line, &[], "");
        assert_eq!(
            (response.status, response.header("content-type")),
            (404, Some("application/problem+json")),
            "{line}"
        );
    }
}

#[test]
fn missing_sequences_have_leafs_numbers() {
    let server = HttpServer::start(&["--http-api", "leaf", "--sequence-store", "none"]);
    let answer = server.ask("GET /api/segment/get/orders");
    assert!(answer.status == 500 && answer.text().contains(NOT_READY), "{answer:?}");

    let server = HttpServer::start(&["--http-api", "leaf"]);
    let mut redis = server.server.connect();
    ok(&mut redis, "SEQUENCE CREATE orders");
    ok(&mut redis, "SEQUENCE DROP orders");
    let answer = server.ask("GET /api/segment/get/orders");
    assert!(answer.status == 500 && answer.text().contains(NO_SUCH_KEY), "{answer:?}");

    // No database answers at this store's address.
    let store = format!("mysql://getid:x@127.0.0.1:{}/ids", free_port());
    let words = ["--http-api", "leaf", "--sequence-store", &store, "--sequence-wait-ms", "50"];
    let server = HttpServer::start(&words);
    let answer = server.ask("GET /api/segment/get/orders");
    assert!(answer.status == 500 && answer.text().contains(NOTHING_LEFT), "{answer:?}");
}

#[test]
fn a_user_of_its_own_needs_no_password_and_has_its_permissions() {
    let words = ["--requirepass", "other", "--http-api", "leaf", "user", "shop"];
    let user = ["--user", "shop", "on", ">secret", "~orders*", "+incr", "+getid"];
    let server = HttpServer::start(&[&words[..], &user].concat());
    let mut redis = server.server.connect();
    ok(&mut redis, "AUTH other");
    for name in ["orders", "refunds"] {
        ok(&mut redis, &format!("SEQUENCE CREATE {name}"));
    }
    let mut http = server.connect();
    assert_eq!(http.ask("GET /api/segment/get/orders", &[], "").text(), "1");
    // The path ignores the login header, because its user is configured.
    assert_eq!(http.ask("GET /api/segment/get/orders", &["Authorization: Bearer default:wrong"], "").text(), "2");
    let refused = http.ask("GET /api/segment/get/refunds", &[], "");
    assert_eq!((refused.status, refused.json()["error"].as_str()), (403, Some("Forbidden")), "{refused:?}");
    assert!(refused.text().contains("'shop'") || refused.text().contains("ermission"), "{refused:?}");
    let refused = http.ask("GET /decodeSnowflakeId?snowflakeId=1", &[], "");
    assert_eq!(refused.status, 403, "{refused:?}");

    // Changes of the user take effect at once, on a connection that has drawn before.
    ok(&mut redis, "ACL SETUSER shop ~refunds");
    assert_eq!(http.ask("GET /api/segment/get/refunds", &[], "").text(), "1");
    ok(&mut redis, "ACL SETUSER shop off");
    let off = server.connect().ask("GET /api/segment/get/orders", &[], "");
    assert!(off.status == 500 && off.text().contains(NOT_READY), "{off:?}");
    ok(&mut redis, "ACL SETUSER shop on");
    assert_eq!(server.connect().ask("GET /api/segment/get/orders", &[], "").text(), "3");
}

#[test]
fn without_a_user_the_paths_need_a_login() {
    let server = HttpServer::start(&["--requirepass", "secret", "--http-api", "leaf"]);
    let mut redis = server.server.connect();
    ok(&mut redis, "AUTH secret");
    ok(&mut redis, "SEQUENCE CREATE orders");
    let mut http = server.connect();
    let refused = http.ask("GET /api/segment/get/orders", &[], "");
    assert_eq!((refused.status, refused.json()["error"].as_str()), (401, Some("Unauthorized")), "{refused:?}");
    assert!(refused.header("www-authenticate").is_some_and(|scheme| scheme.starts_with("Basic ")));
    assert_eq!(http.ask("GET /decodeSnowflakeId?snowflakeId=1", &[], "").status, 401);
    let wrong = http.ask("GET /api/segment/get/orders", &["Authorization: Bearer wrong"], "");
    assert_eq!(wrong.status, 401, "{wrong:?}");
    let login = ["Authorization: Bearer secret"];
    assert_eq!(http.ask("GET /api/segment/get/orders", &login, "").text(), "1");
    assert_eq!(http.ask("GET /decodeSnowflakeId?snowflakeId=1", &login, "").status, 200);
}

#[test]
fn a_user_that_is_not_there_is_an_error_at_the_start() {
    let error = refused(folder().path(), &["--http-api", "leaf", "user", "shop"], |_| {});
    assert!(error.contains("http-api") && error.contains("shop"), "{error}");
    let server = HttpServer::start(&["--http-api", "leaf", "user", "default"]);
    assert_eq!(server.ask("GET /decodeSnowflakeId?snowflakeId=1").status, 200);
}
