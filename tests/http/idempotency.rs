//! `Idempotency-Key` on the endpoints that give IDs: the same answer again, other arguments, and wrong keys.

use std::process::Command;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use super::document::Document;
use crate::support::http::HttpServer;

const KEY: &str = "Idempotency-Key: \"8e03978e-40d5-43dd-bc93-6894a57f9324\"";

/// A server with a generator of each sort, and a sequence.
fn start() -> HttpServer {
    let generators =
        ["tweets twitter", "trace uuid7", "lua redis-lua one-server 0", "order serial SO{n:6}", "ticket sequence"];
    let words: Vec<&str> = generators.iter().flat_map(|generator| ["--generator", generator]).collect();
    HttpServer::start(&[&words[..], &["--sequence-create", "on-first-use"]].concat())
}

/// Asks and returns the status and the body, which must fit the document.
fn ask(server: &HttpServer, document: &Document, line: &str, headers: &[&str], body: &str) -> (u16, Value) {
    let response = server.ask_with(line, headers, body);
    document.check(line, &response);
    (response.status, response.json())
}

#[test]
fn a_repeated_request_gets_the_same_answer() {
    let server = start();
    let document = Document::of(&server);
    let fields = r#"{"fields":{"shard":5}}"#;
    for (line, body) in [
        ("POST /v1/ids/-", ""),
        ("POST /v1/ids/-?count=3&for=60", ""),
        ("POST /v1/ids/tweets", ""),
        ("POST /v1/ids/trace?count=100", ""),
        ("POST /v1/ids/lua", fields),
        ("POST /v1/ids/order?count=2", ""),
        ("POST /v1/ids/ticket", ""),
        ("POST /v1/sequences/feed:42/values", ""),
        ("POST /v1/sequences/feed:42/values?count=3", ""),
    ] {
        // The key is another one for each line: the answer of a known key with another count would be 422.
        let key = format!("Idempotency-Key: \"{}\"", line.replace('"', ""));
        let (status, first) = ask(&server, &document, line, &[&key], body);
        assert_eq!(status, 200, "{line}: {first}");
        assert_eq!(ask(&server, &document, line, &[&key], body), (200, first.clone()), "{line}");
        let (_, other) = ask(&server, &document, line, &[], body);
        assert_ne!(other, first, "{line}: without the key it is a new request");
    }
}

#[test]
fn other_arguments_are_unprocessable() {
    let server = start();
    let document = Document::of(&server);
    for (first, other, body) in [
        ("POST /v1/ids/-", "POST /v1/ids/-?count=2", ["", ""]),
        ("POST /v1/ids/lua", "POST /v1/ids/lua", [r#"{"fields":{"shard":5}}"#, r#"{"fields":{"shard":6}}"#]),
        ("POST /v1/sequences/a/values", "POST /v1/sequences/a/values?count=2", ["", ""]),
    ] {
        assert_eq!(ask(&server, &document, first, &[KEY], body[0]).0, 200, "{first}");
        let (status, problem) = ask(&server, &document, other, &[KEY], body[1]);
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!((status, detail.contains("with other arguments")), (422, true), "{other}: {problem}");
    }
    // Another user, and another generator, have requests of their own.
    let mut admin = server.server.connect();
    assert_eq!(admin.ask("ACL SETUSER shop on >x ~* +@all"), "+OK");
    assert_eq!(ask(&server, &document, "POST /v1/ids/-?count=2", &[KEY, "Authorization: Bearer shop:x"], "").0, 200);
    assert_eq!(ask(&server, &document, "POST /v1/ids/tweets?count=2", &[KEY], "").0, 200);
}

#[test]
fn a_wrong_key_is_refused_and_gives_nothing() {
    let server = start();
    let document = Document::of(&server);
    let long = format!("Idempotency-Key: \"{}\"", "k".repeat(129));
    let huge = format!("Idempotency-Key: {}", "k".repeat(7000));
    let lines = ["POST /v1/ids/ticket", "POST /v1/sequences/feed/values"];
    for (headers, part) in [
        (&["Idempotency-Key: order-77"][..], "expected a text in double quotes, such as \"order-77\""),
        (&["Idempotency-Key:"], "is empty"),
        (&["Idempotency-Key: \"\""], "is empty, expected 1 to 128 characters"),
        (&["Idempotency-Key: \"a"], "expected a text in double quotes"),
        (&["Idempotency-Key: \"a\", \"b\""], "expected a text in double quotes"),
        (&[KEY, KEY], "is repeated; send it once"),
        (&["Idempotency-Key: \"\u{e9}\""], "expected a text in double quotes"),
        (&["Idempotency-Key: \"a\tb\""], "expected a text in double quotes"),
        (&[long.as_str()], "has 129 characters"),
        (&[huge.as_str()], "expected a text in double quotes"),
    ] {
        for line in lines {
            let (status, problem) = ask(&server, &document, line, headers, "");
            let detail = problem["detail"].as_str().unwrap();
            assert!(status == 400 && detail.contains(part) && detail.len() < 400, "{line} {headers:?}: {problem}");
        }
    }
    for (line, part) in [
        ("POST /v1/ids/ticket?for=60", "the request has none"),
        ("POST /v1/ids/ticket?for=59", "expected an integer of 60 to"),
        ("POST /v1/sequences/feed/values?for=60", "the request has none"),
    ] {
        let (status, problem) = ask(&server, &document, line, &[], "");
        assert_eq!((status, problem["detail"].as_str().unwrap().contains(part)), (400, true), "{line}: {problem}");
    }
    let (status, problem) = ask(&server, &document, "POST /v1/ids/tweets?count=101", &[KEY], "");
    assert_eq!(status, 400, "{problem}");
    // A field of the body is no option of the command.
    for field in ["REQUEST", "request", "For", "key"] {
        let body = json!({ "fields": { field: "7" } }).to_string();
        let (status, problem) = ask(&server, &document, "POST /v1/ids/lua", &[], &body);
        let expected = format!("unknown field '{field}' of generator 'lua'");
        assert_eq!((status, &problem["detail"]), (400, &json!(expected)), "{problem}");
    }
    assert_eq!(ask(&server, &document, lines[0], &[], "").1, json!({ "ids": ["1"] }), "nothing was given");
    assert_eq!(ask(&server, &document, lines[1], &[], "").1, json!({ "values": ["1"] }), "nothing was given");
}

/// Of two requests of one key, the one that comes while the other is under way gets 409.
#[test]
fn a_key_has_one_request_at_a_time() {
    let server = start();
    let mut admin = server.server.connect();
    assert_eq!(admin.ask("CLIENT PAUSE 600000 ALL"), "+OK");
    let (sender, answers) = mpsc::channel();
    for _ in 0..2 {
        let (sender, mut http) = (sender.clone(), server.connect());
        thread::spawn(move || sender.send(http.ask("POST /v1/ids/-", &[KEY], "")));
    }
    let refused = answers.recv().unwrap();
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.text().contains("is under way; repeat this one in a second"), "{refused:?}");
    assert_eq!(admin.ask("CLIENT UNPAUSE"), "+OK");
    let first = answers.recv().unwrap();
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(server.ask_with("POST /v1/ids/-", &[KEY], "").body, first.body);
}

/// Runs a program that repeats a request, and compares the two lines that it prints.
fn check_program(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1] && lines[0].starts_with("{\"ids\":["), "{text}");
}

#[test]
#[ignore = "needs curl"]
fn curl_repeats_a_request() {
    let server = start();
    let url = format!("http://127.0.0.1:{}/v1/ids/order?count=2", server.port);
    let ask = format!("curl -sS --fail-with-body -X POST -H 'Idempotency-Key: \"curl-1\"' '{url}' && echo");
    check_program(Command::new("sh").args(["-c", &format!("{ask} && {ask}")]));
}

const HTTPX: &str = "
import sys, httpx
with httpx.Client(base_url=sys.argv[1]) as client:
    for _ in range(2):
        answer = client.post('/v1/ids/order', params={'count': 2}, headers={'Idempotency-Key': '\"httpx-1\"'})
        answer.raise_for_status()
        print(answer.text)
    assert client.post('/v1/ids/order', headers={'Idempotency-Key': '\"httpx-1\"'}).status_code == 422
    assert client.post('/v1/ids/order', headers={'Idempotency-Key': 'httpx-1'}).status_code == 400
";

#[test]
#[ignore = "needs python3 with httpx (its path in GETID_TEST_PYTHON)"]
fn httpx_repeats_a_request() {
    let server = start();
    let python = std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    check_program(Command::new(python).args(["-c", HTTPX, &format!("http://127.0.0.1:{}", server.port)]));
}
