//! Sealed IDs over HTTP: the same texts as on the Redis port, and paths that a hostile client sends.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::document::Document;
use crate::support::http::{Http, HttpServer, request};
use crate::support::{folder, seal_key_file};

/// A server with the sealed generators `order` and `code`, and `tweets`, which is not sealed.
fn start() -> (HttpServer, TempDir) {
    let dir = folder();
    let keys = seal_key_file(dir.path());
    let order = format!("order twitter seal key-file {keys}");
    let code = format!("code sequence seal key-file {keys} alphabet base62 answer sealed");
    let words = ["--generator", &order, "--generator", &code, "--generator", "tweets twitter"];
    let server = HttpServer::start(&[&words[..], &["--sequence-create", "on-first-use"]].concat());
    (server, dir)
}

#[test]
fn ids_are_sealed_and_opened_as_on_the_redis_port() {
    let (server, _dir) = start();
    let document = Document::of(&server);
    let ask = |line: &str| -> Value {
        let response = server.ask(line);
        document.check(line, &response);
        assert_eq!(response.status, 200, "{line}: {response:?}");
        response.json()
    };
    let expected = json!({ "generator": "order", "id": "1", "text": "3rTGUx6w9tqZ", "key": 0 });
    assert_eq!(ask("GET /v1/seal/order/1"), expected);
    assert_eq!(ask("GET /v1/open/order/3rTGUx6w9tqZ"), expected);
    assert_eq!(ask("GET /v1/open/ord%65r/%33rTGUx6w9tqZ"), expected, "a path may be escaped");

    let id = server.ask("POST /v1/ids/order").json()["ids"][0].as_str().unwrap().to_owned();
    let sealed = ask(&format!("GET /v1/seal/order/{id}"));
    let text = sealed["text"].as_str().unwrap();
    assert_eq!(ask(&format!("GET /v1/open/order/{text}")), sealed);
    let mut wire = server.server.connect();
    wire.send(format!("SEALID order {id}\r\nOPENID order {text}\r\n"));
    assert_eq!(String::from_utf8_lossy(&wire.reply()), format!("$12\r\n{text}\r\n"));
    assert_eq!(String::from_utf8_lossy(&wire.reply()), format!(":{id}\r\n"));

    let code = server.ask("POST /v1/ids/code").json()["ids"][0].as_str().unwrap().to_owned();
    assert_eq!(ask(&format!("GET /v1/open/code/{code}"))["id"], "1", "the answer of a sealed sequence is its text");
    let mut http = server.connect();
    http.send(request("HEAD /v1/seal/order/1", &[], "").as_bytes());
    let head = http.head().unwrap();
    assert_eq!((head.status, head.header("cache-control")), (200, Some("no-store")));
}

#[test]
fn each_wrong_request_has_its_sentence() {
    let (server, _dir) = start();
    let document = Document::of(&server);
    for (status, line, part) in [
        (404, "GET /v1/seal/ordr/1", "did you mean 'order'?"),
        (404, "GET /v1/open/nope/3rTGUx6w9tqZ", "no generator 'nope'"),
        (409, "GET /v1/seal/tweets/1", "'tweets' is not sealed"),
        (409, "GET /v1/open/tweets/3rTGUx6w9tqZ", "'tweets' is not sealed"),
        (400, "GET /v1/seal/order/x", "'x' is not an id of generator 'order'"),
        (400, "GET /v1/seal/order/-1", "'-1' is not an id of generator 'order'"),
        (400, "GET /v1/seal/order/9223372036854775808", "at most 63 bits"),
        (400, "GET /v1/open/order/3rTGUx6w9tq", "has 11 bytes, must have 12 characters"),
        (400, "GET /v1/open/order/3rTGUx6w9tql", "'L' would be one: capitals and small letters differ"),
        (400, "GET /v1/open/order/zzzzzzzzzzzz", "is not a sealed text"),
        (400, "GET /v1/open/order/RsdaDSVrvUeR", "is sealed by key 7, and the key file has only 0"),
        (400, "GET /v1/open/order/4KQXqquLUMtW", "is not sealed by key 0 of generator order"),
        (400, "GET /v1/seal/order/1?key=1", "unknown query parameter 'key'"),
    ] {
        let response = server.ask(line);
        document.check(line, &response);
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(response.status, status, "{line}: {detail}");
        assert!(detail.contains(part), "{line}: {detail}");
    }
    for (status, line, part) in [
        (404, "GET /v1/seal/order", "use GET /v1/seal/{name}/{id} (seal an ID)"),
        (404, "GET /v1/open/order/", "use GET /v1/open/{name}/{text} (open a sealed ID)"),
        (404, "GET /v1/open/order/a/b", "unknown path"),
        (405, "POST /v1/seal/order/1", "it supports GET /v1/seal/{name}/{id} (seal an ID)"),
        (405, "PUT /v1/open/order/1", "it supports GET /v1/open/{name}/{text} (open a sealed ID)"),
        (405, "DELETE /v1/open/order/1", "it supports GET /v1/open/{name}/{text}"),
    ] {
        let response = server.ask(line);
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(response.status, status, "{line}: {detail}");
        assert!(detail.contains(part), "{line}: {detail}");
    }
}

/// Every hostile path is refused with a short answer, and the connection and the server work on.
#[test]
fn hostile_paths_are_refused_with_a_short_answer() {
    let (server, _dir) = start();
    let mut http = server.connect();
    let long = |len: usize| "9".repeat(len);
    let paths = [
        long(256),
        long(6000),
        "%39".repeat(2000),
        "%C3%A4".repeat(256),
        "%01".repeat(12),
        "%00".to_owned(),
        "%0d%0aX:%20y".to_owned(),
        "%ff".to_owned(),
        "%".to_owned(),
        "%2".to_owned(),
        "%zz".to_owned(),
        "%2f..%2f..%2fetc%2fpasswd".to_owned(),
        "%252e".to_owned(),
        "3rTGUx6w9tqZ%00".to_owned(),
        "%E2%80%AE3rTGUx6w9tqZ".to_owned(),
    ];
    for path in &paths {
        for line in [
            format!("GET /v1/open/order/{path}"),
            format!("GET /v1/seal/order/{path}"),
            format!("GET /v1/open/{path}/3rTGUx6w9tqZ"),
            format!("GET /v1/seal/{path}/1"),
        ] {
            let shown = &line[..line.len().min(60)];
            let response = http.ask(&line, &[], "");
            assert!([400, 404].contains(&response.status), "{shown}: {response:?}");
            assert!(response.body.len() < 1000, "{shown}: {} bytes", response.body.len());
            let is_plain = |char: char| !char.is_control() && char != '\u{202e}';
            assert!(response.text().chars().all(is_plain), "{shown}: {response:?}");
        }
    }
    // The head of a request has a bound, too.
    let mut other = server.connect();
    other.send(format!("GET /v1/open/order/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", long(1 << 20)).as_bytes());
    assert!(matches!(other.response().status, 400..=499));
    assert_is_well(&mut http);
}

fn assert_is_well(http: &mut Http) {
    assert_eq!(http.ask("GET /v1/open/order/3rTGUx6w9tqZ", &[], "").json()["id"], "1");
}

/// `SEALID` and `OPENID` are rights of their own: a user who may read everything has neither.
#[test]
fn only_the_rights_of_their_own_seal_and_open() {
    let (server, _dir) = start();
    let mut admin = server.server.connect();
    for (rules, statuses) in [
        ("+@read +@fast ~*", [403, 403]),
        ("+@all -@dangerous ~*", [403, 403]),
        ("+sealid ~ord*", [200, 403]),
        ("+openid ~order", [403, 200]),
        ("+openid ~code", [403, 403]),
        ("+@all ~*", [200, 200]),
    ] {
        assert_eq!(admin.ask(&format!("ACL SETUSER viewer reset on >x {rules}")), "+OK");
        let ask = |line: &str| server.ask_with(line, &["Authorization: Bearer viewer:x"], "").status;
        let found = ["GET /v1/seal/order/1", "GET /v1/open/order/3rTGUx6w9tqZ"].map(ask);
        assert_eq!(found, statuses, "{rules}");
    }
}

/// Without the right to open, no path shows the value of a sealed sequence.
#[test]
fn the_value_of_a_sealed_sequence_needs_the_right_to_open() {
    let (server, _dir) = start();
    let document = Document::of(&server);
    for _ in 0..340 {
        assert_eq!(server.ask("POST /v1/ids/code?count=100").status, 200);
    }
    let mut admin = server.server.connect();
    assert_eq!(admin.ask("ACL SETUSER viewer reset on >x ~* +@all -openid -sealid"), "+OK");
    let ask = |line: &str| {
        let response = server.ask_with(line, &["Authorization: Bearer viewer:x"], "");
        document.check(line, &response);
        response
    };
    for line in ["GET /v1/sequences/code", "POST /v1/sequences/code/values?count=2"] {
        let response = ask(line);
        assert_eq!(response.status, 403, "{line}: {response:?}");
        assert!(response.text().contains("the value of a sealed sequence needs the right 'openid'"), "{response:?}");
    }
    for line in ["GET /v1/sequences", "GET /v1/status/sequences"] {
        let listed = ask(line).json()["sequences"].clone();
        assert_eq!((&listed[0]["name"], &listed[0]["next"]), (&json!("code"), &Value::Null), "{line}: {listed}");
    }
    assert_eq!(ask("GET /v1/status/generators/code").json()["counter"]["last"], Value::Null);
    assert_eq!(ask("GET /v1/generators/code").json()["seal"], "sealed");
    assert_eq!(ask("GET /v1/generators/order").json()["seal"], "integer");
    assert_eq!(ask("GET /v1/generators/tweets").json()["seal"], Value::Null);
    let busiest = ask("GET /v1/status").json();
    assert!(!busiest.to_string().contains("\"last\":\"34000\""), "{busiest}");
    assert_eq!(server.ask("GET /v1/sequences/code").json()["last"], "34000");
}
