//! Numbers without gaps over HTTP: their states and their ledger, and requests that a hostile client sends.

use serde_json::{Value, json};

use super::document::Document;
use crate::support::eventually;
use crate::support::http::HttpServer;

/// A server with the gapless generator `invoice`, and `ticket`, which has no ledger.
fn start() -> HttpServer {
    let invoice = "invoice serial R{yyyy}-{n:6} zone UTC reset never gapless";
    HttpServer::start(&["--generator", invoice, "--generator", "ticket serial T{n:4}"])
}

/// A server and its document, for requests whose answers must fit the document.
struct Numbers {
    server: HttpServer,
    document: Document,
}

impl Numbers {
    fn start() -> Numbers {
        Numbers::of(start())
    }

    fn of(server: HttpServer) -> Numbers {
        let document = Document::of(&server);
        Numbers { server, document }
    }

    /// Returns the status and the body of the answer.
    fn ask(&self, line: &str, headers: &[&str], body: &str) -> (u16, Value) {
        let response = self.server.ask_with(line, headers, body);
        self.document.check(line, &response);
        (response.status, response.json())
    }

    /// Sends a request about a number of `invoice`, which must succeed.
    #[track_caller]
    fn post(&self, act: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(&format!("POST /v1/numbers/invoice/{act}"), &[], &body.to_string());
        assert_eq!(status, 200, "{act} {body}: {answer}");
        answer
    }

    /// Returns the texts and states of a page, and its `next`.
    fn page(&self, query: &str) -> (Vec<(String, String)>, Value) {
        let (status, answer) = self.ask(&format!("GET /v1/numbers/invoice/ledger{query}"), &[], "");
        assert_eq!(status, 200, "{query}: {answer}");
        let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
        let rows = answer["numbers"].as_array().unwrap();
        (rows.iter().map(|row| (text(row, "text"), text(row, "state"))).collect(), answer["next"].clone())
    }
}

/// Returns the text of a number without its year.
fn number(text: &Value) -> &str {
    text.as_str().unwrap().split_once('-').unwrap().1
}

#[test]
fn a_number_is_reserved_and_settled_and_each_is_in_the_ledger() {
    let numbers = Numbers::start();
    let reserve = |request: &str| numbers.post("reserve", &json!({ "request": request, "due_s": 60 }))["text"].clone();
    assert_eq!([number(&reserve("a")), number(&reserve("b")), number(&reserve("a"))], ["000001", "000002", "000001"]);
    for _ in 0..2 {
        let committed = numbers.post("commit", &json!({ "request": "a" }));
        assert_eq!(committed, json!({ "request": "a", "state": "committed" }), "a repeated request changes nothing");
    }
    assert_eq!(numbers.post("release", &json!({ "request": "b" }))["state"], "released");
    assert_eq!(number(&reserve("c")), "000002", "a released number is given again");
    let why = json!({ "request": "c", "reason": "printed on a torn sheet, \u{e9}" });
    assert_eq!(numbers.post("void", &why)["state"], "void");
    let text = reserve("d");
    let settle = json!({ "text": text, "state": "committed", "reason": "found in the archive" });
    assert_eq!(numbers.post("settle", &settle), json!({ "text": text, "state": "committed" }));
    reserve("e");

    let (_, all) = numbers.ask("GET /v1/numbers/invoice/ledger", &[], "");
    let rows = all["numbers"].as_array().unwrap();
    assert_eq!((rows.len(), &all["next"]), (4, &Value::Null), "{all}");
    assert_eq!((&rows[0]["number"], &rows[0]["last"], &rows[0]["request"]), (&json!("1"), &json!("1"), &json!("a")));
    assert_eq!((&rows[1]["reason"], &rows[1]["state"]), (&why["reason"], &json!("void")));
    assert_eq!((&rows[3]["state"], &rows[3]["overdue"]), (&json!("reserved"), &json!(false)));
    assert!(rows[3]["due"].is_string() && rows[0]["due"].is_null(), "{all}");
    let (mut paged, mut next) = (Vec::new(), String::new());
    loop {
        let (rows, more) = numbers.page(&format!("?limit=3{next}"));
        paged.extend(rows);
        let Some(cursor) = more.as_str() else { break };
        let escaped: Vec<_> = cursor.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let escaped = escaped.concat();
        next = format!("&after={escaped}");
    }
    let states: Vec<_> = paged.iter().map(|(_, state)| state.as_str()).collect();
    assert_eq!(states, ["committed", "void", "committed", "reserved"]);
    assert_eq!(numbers.page("?state=void").0.len(), 1);
}

#[test]
fn the_key_of_a_request_reserves_too() {
    let numbers = Numbers::start();
    let line = "POST /v1/numbers/invoice/reserve";
    let (status, answer) = numbers.ask(line, &["Idempotency-Key: \"order 77\""], "");
    assert_eq!((status, &answer["request"]), (200, &json!("order 77")), "{answer}");
    assert_eq!(numbers.ask(line, &["Idempotency-Key: \"order 77\""], r#"{"request":"order 77"}"#).1, answer);
    let (status, other) = numbers.ask(line, &["Idempotency-Key: \"order 77\""], r#"{"request":"order 78"}"#);
    assert_eq!(status, 400, "{other}");
    let (status, committed) = numbers.ask("POST /v1/ids/invoice", &["Idempotency-Key: \"order 79\""], "");
    assert_eq!((status, number(&committed["ids"][0])), (200, "000002"), "reserved and committed: {committed}");
}

#[test]
fn a_number_of_a_series_is_settled_with_its_key() {
    let bill = "bill serial B-{key}-{n:6} zone UTC gapless";
    let server = HttpServer::start(&["--generator", bill, "--generator", "ticket serial T{n:4}"]);
    let numbers = Numbers::of(server);
    for (status, line, body, part) in [
        (200, "POST /v1/numbers/bill/reserve", r#"{"request":"a","key":"acme"}"#, "B-ACME-000001"),
        (404, "POST /v1/numbers/bill/commit", r#"{"request":"a","key":"other"}"#, "belongs to request 'a'"),
        (400, "POST /v1/numbers/bill/commit", r#"{"request":"a","key":"a/b"}"#, "cannot be a key"),
        (200, "POST /v1/numbers/bill/commit", r#"{"request":"a","key":"acme"}"#, "committed"),
        (200, "POST /v1/numbers/bill/reserve", r#"{"request":"b","key":"acme"}"#, "B-ACME-000002"),
        (200, "POST /v1/numbers/bill/void", r#"{"request":"b","reason":"torn","key":"acme"}"#, "void"),
        // Each remedy is a request that works.
        (
            400,
            "POST /v1/numbers/bill/reserve",
            r#"{"request":"c"}"#,
            r#"POST /v1/numbers/bill/reserve with {"request": "r", "key": "ACME"}"#,
        ),
        (409, "POST /v1/ids/bill", "", "POST /v1/ids/bill?key=ACME with the header Idempotency-Key: \"r\" gives"),
        (409, "POST /v1/numbers/ticket/commit", r#"{"request":"c"}"#, "POST /v1/ids/ticket gives one"),
    ] {
        let (found, answer) = numbers.ask(line, &[], body);
        let text = answer["detail"].as_str().map_or_else(|| answer.to_string(), str::to_owned);
        assert_eq!((found, text.contains(part)), (status, true), "{line} {body}: {text}");
    }
    let remedy = numbers.ask("POST /v1/ids/bill?key=ACME", &["Idempotency-Key: \"r\""], "");
    assert_eq!((remedy.0, &remedy.1["ids"][0]), (200, &json!("B-ACME-000003")));
}

#[test]
fn each_wrong_request_has_its_sentence() {
    let numbers = Numbers::start();
    numbers.post("reserve", &json!({ "request": "r" }));
    numbers.post("commit", &json!({ "request": "r" }));
    let long = "r".repeat(129);
    let long = format!(r#"{{"request":"{long}"}}"#);
    for (status, line, body, part) in [
        (404, "invoice/commit", r#"{"request":"nope"}"#, "POST /v1/numbers/invoice/reserve with {\"request\": \"r\"}"),
        (404, "invoice/settle", r#"{"text":"R9","state":"void","reason":"x"}"#, "GET /v1/numbers/invoice/ledger lists"),
        (404, "nope/commit", r#"{"request":"r"}"#, "no generator 'nope'"),
        (409, "invoice/release", r#"{"request":"r"}"#, "is committed: a settled number stays as it is"),
        (409, "ticket/reserve", r#"{"request":"r"}"#, "is not gapless"),
        (400, "invoice/reserve", "", "the body has no 'request'"),
        (400, "invoice/reserve", "{}", "the body has no 'request'"),
        (400, "invoice/reserve", r#"{"request":""}"#, "field 'request' is the text '', expected a text of 1 to 128"),
        (400, "invoice/reserve", &long, "expected a text of 1 to 128 characters"),
        (400, "invoice/reserve", r#"{"request":7}"#, "field 'request' is 7, expected a text"),
        (400, "invoice/reserve", r#"{"request":"r","due_s":0}"#, "field 'due_s' is 0, expected an integer of 1 to"),
        (409, "invoice/reserve", r#"{"request":"r","key":"acme"}"#, "has no series"),
        (400, "invoice/reserve", r#"{"request":"r","REQUEST":"s"}"#, "unknown field 'REQUEST'"),
        (400, "invoice/commit", r#"{"request":"a\nb"}"#, "without control characters"),
        (400, "invoice/commit", r#"{"request":"r","reason":"x"}"#, "unknown field 'reason'"),
        (400, "invoice/commit", "", "field 'request' is missing"),
        (400, "invoice/void", r#"{"request":"r"}"#, "field 'reason' is missing"),
        (400, "invoice/void", r#"{"request":"r","reason":"a\u0000"}"#, "without control characters"),
        (400, "invoice/settle", r#"{"text":"R1","state":"released","reason":"x"}"#, "one of the texts committed, void"),
        (400, "invoice/commit", "{", "the body is not valid JSON"),
        (400, "invoice/commit", "[]", "the body is an array, expected an object"),
        (400, "invoice/commit", r#"{"request":"a","request":"b"}"#, "field 'request' is repeated"),
    ] {
        let (found, answer) = numbers.ask(&format!("POST /v1/numbers/{line}"), &[], body);
        let detail = answer["detail"].as_str().unwrap();
        assert_eq!(found, status, "{line} {body}: {detail}");
        assert!(detail.contains(part), "{line} {body}: {detail}");
    }
    for (query, part) in [
        ("?state=open", "expected one of the texts reserved, committed, released, void, unclear"),
        ("?limit=1001", "expected an integer of 1 to 1000"),
        ("?period=2026-11", "cannot be the PERIOD"),
        ("?after=%ff", "must be UTF-8"),
        ("?cursor=1", "unknown query parameter 'cursor'"),
        ("?key=acme", "has no series"),
    ] {
        let (status, answer) = numbers.ask(&format!("GET /v1/numbers/invoice/ledger{query}"), &[], "");
        let expected = if query == "?key=acme" { 409 } else { 400 };
        assert_eq!((status, answer["detail"].as_str().unwrap().contains(part)), (expected, true), "{query}: {answer}");
    }
    for (status, line) in [
        (405, "GET /v1/numbers/invoice/reserve"),
        (405, "PUT /v1/numbers/invoice/commit"),
        (405, "POST /v1/numbers/invoice/ledger"),
        (404, "POST /v1/numbers/invoice"),
        (404, "POST /v1/numbers/invoice/expire"),
    ] {
        assert_eq!(numbers.server.ask(line).status, status, "{line}");
    }
}

/// Every hostile request is refused with a short answer, and changes nothing.
#[test]
fn hostile_requests_are_refused_with_a_short_answer() {
    let numbers = Numbers::start();
    let mut http = numbers.server.connect();
    let deep = format!("{{\"request\":{}", "[".repeat(20_000));
    let long = format!("{{\"request\":\"{}\"}}", "r".repeat(60_000));
    let wide = format!("{{{}}}", (0..3000).map(|at| format!("\"f{at}\":1")).collect::<Vec<_>>().join(","));
    let bodies =
        [deep.as_str(), &long, &wide, "null", "\"r\"", "\u{0}", "{\"request\":\"\\u0085\"}", "{\"request\":null}"];
    for act in ["reserve", "commit", "release", "void", "settle"] {
        for body in bodies {
            let shown = &body[..body.len().min(30)];
            let response = http.ask(&format!("POST /v1/numbers/invoice/{act}"), &[], body);
            assert_eq!(response.status, 400, "{act} {shown:?}: {response:?}");
            assert!(response.body.len() < 1000, "{act} {shown:?}: {} bytes", response.body.len());
            assert!(response.text().chars().all(|char| !char.is_control() && char != '\u{202e}'), "{response:?}");
        }
        for name in ["%00", "%0d%0aX", "%ff", "a%2fb", &"n".repeat(6000)] {
            let response = http.ask(&format!("POST /v1/numbers/{name}/{act}"), &[], r#"{"request":"r"}"#);
            assert!([400, 404].contains(&response.status), "{act} of {}: {response:?}", &name[..name.len().min(20)]);
        }
    }
    let large = "x".repeat(65 * 1024);
    assert_eq!(numbers.server.ask_with("POST /v1/numbers/invoice/reserve", &[], &large).status, 413);
    assert_eq!(numbers.page(""), (Vec::new(), Value::Null), "nothing was reserved");
}

/// The details of the page have the counts of each ledger, which a task reads.
#[test]
fn the_details_count_the_numbers_of_each_ledger() {
    let numbers = Numbers::start();
    let zeros = json!([{
        "generator": "invoice", "reserved": 0, "overdue": 0, "released": 0, "unclear": 0, "requests": 0,
        "requests_released": 0
    }]);
    eventually("the ledger is counted", || numbers.ask("GET /v1/status/details", &[], "").1["ledgers"] == zeros);
}

/// A user settles the requests of others only with the right to `NUMBER SETTLE`, and sees them only with it.
#[test]
fn requests_of_others_need_the_right_to_settle() {
    let numbers = Numbers::start();
    numbers.post("reserve", &json!({ "request": "theirs" }));
    let mut admin = numbers.server.server.connect();
    assert_eq!(admin.ask("ACL SETUSER clerk on >x ~invoice +@all -number|settle"), "+OK");
    let login = ["Authorization: Bearer clerk:x"];
    for act in ["reserve", "commit", "release"] {
        let (status, answer) =
            numbers.ask(&format!("POST /v1/numbers/invoice/{act}"), &login, r#"{"request":"theirs"}"#);
        assert_eq!((status, &answer["code"]), (403, &json!("NOPERM")), "{act}: {answer}");
    }
    let settle = r#"{"text":"R2026-000001","state":"void","reason":"x"}"#;
    assert_eq!(numbers.ask("POST /v1/numbers/invoice/settle", &login, settle).0, 403);
    let (_, ledger) = numbers.ask("GET /v1/numbers/invoice/ledger", &login, "");
    assert_eq!((&ledger["numbers"][0]["request"], &ledger["numbers"][0]["state"]), (&Value::Null, &json!("reserved")));
    assert_eq!(admin.ask("ACL SETUSER clerk +number|settle"), "+OK");
    let (_, ledger) = numbers.ask("GET /v1/numbers/invoice/ledger", &login, "");
    assert_eq!(ledger["numbers"][0]["request"], "theirs");
}
