//! The JSON API: the result of each endpoint. Every answer is checked against the OpenAPI document.

use serde_json::{Value, json};

use super::document::Document;
use crate::support::http::{HttpServer, Response};
use crate::support::{eventually, in_time};

/// A server with generators of several kinds, and its OpenAPI document, which checks each answer.
struct Api {
    server: HttpServer,
    document: Document,
}

impl Api {
    fn start(words: &[&str]) -> Api {
        let server = HttpServer::start(words);
        let document = Document::of(&server);
        Api { server, document }
    }

    #[track_caller]
    fn ask(&self, line: &str, body: &str) -> Response {
        let response = self.server.ask_with(line, &[], body);
        self.document.check(line, &response);
        response
    }

    /// Sends a request, and returns the JSON of its answer, which must have this status.
    #[track_caller]
    fn json(&self, status: u16, line: &str, body: &str) -> Value {
        let response = self.ask(line, body);
        assert_eq!(response.status, status, "{line} {body}: {response:?}");
        response.json()
    }

    /// Sends a request, and returns the detail of its problem, which must have this status.
    #[track_caller]
    fn problem(&self, status: u16, line: &str, body: &str) -> String {
        self.json(status, line, body)["detail"].as_str().unwrap().to_owned()
    }
}

const GENERATORS: [&str; 10] = [
    "--generator",
    "tweets twitter",
    "--generator",
    "trace uuid7",
    "--generator",
    "code twitter format base62",
    "--generator",
    "shop layout time:41@1ms server-id:5 tenant:4? counter:12",
    "--generator",
    "short sequence format base62 pad 7",
];

#[test]
fn ids_are_drawn_and_decoded() {
    let api = Api::start(&GENERATORS);
    let drawn = |line: &str, body: &str| -> Vec<String> {
        let ids = api.json(200, line, body)["ids"].as_array().unwrap().clone();
        ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let one = drawn("POST /v1/ids/-", "").remove(0);
    assert_eq!(drawn("POST /v1/ids/-?count=100", "").len(), 100);
    assert_eq!(drawn("POST /v1/ids/tweets?count=2", "").len(), 2);
    let shop = drawn("POST /v1/ids/shop", r#"{"fields":{"tenant":7}}"#).remove(0);
    let code = drawn("POST /v1/ids/%63ode", "").remove(0);
    assert_eq!(code.len(), 11, "{code}");

    let decoded = api.json(200, &format!("GET /v1/ids/{one}?generator=-"), "");
    let fields = &decoded["readings"][0]["fields"];
    assert_eq!(fields.as_array().unwrap().iter().map(|own| own["bits"].as_u64().unwrap()).sum::<u64>(), 63);
    let number = fields.as_array().unwrap().iter().fold(0_u64, |number, field| {
        number << field["bits"].as_u64().unwrap() | field["value"].as_str().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(number.to_string(), one, "the fields are the whole ID");
    let mut wire = api.server.server.connect();
    wire.send(format!("DECODEID {one}\r\n"));
    let reply = String::from_utf8_lossy(&wire.reply()).into_owned();
    assert!(reply.contains(decoded["readings"][0]["time"].as_str().unwrap()), "{reply}");

    let decoded = api.json(200, &format!("GET /v1/ids/{shop}?generator=shop"), "");
    let reading = &decoded["readings"][0];
    assert_eq!((reading["generator"].as_str(), reading["kind"].as_str()), (Some("shop"), Some("layout")));
    assert_eq!(reading["fields"][2], json!({ "name": "tenant", "bits": 4, "value": "7", "text": null }));
    let names: Vec<_> = api.json(200, &format!("GET /v1/ids/{one}"), "")["readings"].as_array().unwrap().clone();
    assert!(names.len() >= 3 && names[0]["generator"].is_null(), "the newest reading comes first: {names:?}");
    let trace = drawn("POST /v1/ids/trace", "").remove(0);
    let decoded = api.json(200, &format!("GET /v1/ids/{trace}"), "");
    assert_eq!(decoded["readings"].as_array().unwrap().len(), 1, "no other kind reads it: {decoded}");
    let counted = api.json(200, "GET /v1/ids/0000001?generator=short", "");
    let value = json!([{ "name": "value", "bits": null, "value": "1", "text": null }]);
    assert_eq!(counted["readings"][0]["fields"], value);

    let encode = |query: &str| api.json(200, &format!("GET /v1/encode/{query}"), "")["id"].as_str().unwrap().to_owned();
    let tweet = "tweets?time=2022-06-28T16:07:40.105Z&fields=datacenter:11,worker:26&force";
    assert_eq!(encode(tweet), "1541815603606036480");
    assert_eq!(encode(&format!("{tweet}&highest")), "1541815603606040575");
    assert_eq!(encode("-?time=2017-03-06T09:37:01.966Z&fields=random:546"), "144182182078841378");

    let span = api.json(200, "GET /v1/spans?from=2026-01-01&to=2100-01-01", "");
    let [lowest, highest] = ["lowest", "highest"].map(|name| span[name].as_str().unwrap().parse::<u64>().unwrap());
    assert!((lowest..=highest).contains(&one.parse().unwrap()), "{span}");
    let span = api.json(200, "GET /v1/spans?from=2026-01-01T00:00:00%2B08:00&to=now&generator=trace", "");
    assert_eq!(span["lowest"].as_str().unwrap().len(), 36);

    let all = api.json(200, "GET /v1/generators", "");
    let names: Vec<_> = all["generators"].as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["code", "shop", "trace", "tweets", "short"]);
    let tweets = api.json(200, "GET /v1/generators/tweets", "");
    assert_eq!((&tweets["capacity_per_sec"], &tweets["evenness"]), (&json!(4_096_000), &json!(QUIET_TWEETS)));
    assert_eq!(api.json(200, "GET /v1/generators/trace", "")["evenness"], Value::Null);
}

/// Evenness of the kind `twitter`.
const QUIET_TWEETS: &str = "even with counter-start 0..1023";

/// An ID of another system is read by the kinds that no generator declares.
#[test]
fn ids_of_other_systems_are_decoded() {
    let api = Api::start(&["--generator", "tweets", "twitter"]);
    let decoded = |id: &str| api.json(200, &format!("GET /v1/ids/{id}"), "");
    let uuid = decoded("0a010203-0000-1000-8000-00c80000000f");
    assert_eq!(uuid["readings"], json!([]), "{uuid}");
    let kinds: Vec<_> = uuid["kinds"].as_array().unwrap().clone();
    let hibernate = kinds.iter().find(|own| own["kind"] == "hibernate").unwrap_or_else(|| panic!("{uuid}"));
    assert_eq!(hibernate["description"], "Hibernate's CustomVersionOneStrategy");
    let address = json!({ "name": "address", "bits": 32, "value": "167838211", "text": "10.1.2.3" });
    assert_eq!(hibernate["fields"][1], address);
    let given = api.json(200, "POST /v1/ids/tweets", "")["ids"][0].as_str().unwrap().to_owned();
    let tweet = decoded(&given);
    assert_eq!((&tweet["readings"][0]["generator"], &tweet["kinds"][0]["kind"]), (&json!("tweets"), &json!("leaf")));
    assert!(tweet["kinds"].as_array().unwrap().iter().all(|own| own["kind"] != "twitter"), "{tweet}");
    for generator in ["tweets", "-"] {
        let named = api.json(200, &format!("GET /v1/ids/{given}?generator={generator}"), "");
        assert_eq!(named["kinds"], json!([]), "{named}");
    }
    let wrong = api.problem(400, "GET /v1/ids/58bd2dbd00000000050000", "");
    assert!(wrong.contains("objectid: 24 characters of 0-9a-f, but this has 22"), "{wrong}");
}

/// Without a generator's name, recent readings come before older ones, and readings without a time last.
#[test]
fn texts_of_generators_over_sequences_are_decoded() {
    let api = Api::start(&[
        "--generator",
        "order",
        "serial",
        "ORD{yyyyMMdd}-{n:6}",
        "zone",
        "UTC",
        "--generator",
        "day serial {yyyyMMdd}{n:3} zone Asia/Shanghai",
        "--generator",
        "code sequence format base62 pad 11",
        "--generator",
        "lot serial L/{n:4}{mod97}",
        "--generator",
        "ancient twitter epoch 0",
        "--generator",
        "tweets twitter",
    ]);
    api.ask("POST /v1/sequences/code", "");
    let given = |name: &str| api.json(200, &format!("POST /v1/ids/{name}"), "")["ids"][0].as_str().unwrap().to_owned();
    let readings = |id: &str| -> Vec<Value> {
        let id = id.replace('/', "%2F");
        api.json(200, &format!("GET /v1/ids/{id}"), "")["readings"].as_array().unwrap().clone()
    };
    for (name, kind, has_time) in
        [("order", "serial", true), ("day", "serial", true), ("code", "sequence", false), ("lot", "serial", false)]
    {
        let id = given(name);
        let all = readings(&id);
        let own = all.iter().find(|own| own["generator"] == name).unwrap_or_else(|| panic!("{id}: {all:?}"));
        assert_eq!((own["kind"].as_str(), own["fields"][0]["value"].as_str()), (Some(kind), Some("1")), "{id}: {own}");
        assert_eq!(own["time"].is_string(), has_time, "{id}: {own}");
        let day_ms = 24 * 3_600_000;
        assert!(!has_time || (-day_ms..=0).contains(&own["ahead_ms"].as_i64().unwrap()), "{id}: {own}");
        let named = api.json(200, &format!("GET /v1/ids/{}?generator={name}", id.replace('/', "%2F")), "");
        assert_eq!(named["readings"][0]["fields"], own["fields"], "{id}");
        let mut wire = api.server.server.connect();
        wire.send(format!("DECODEID {id}\r\n"));
        assert!(String::from_utf8_lossy(&wire.reply()).contains(&format!("\r\n{name}\r\n")), "{id}");
    }
    // All generators read it: the generator that gave it comes first, and the generator with the oldest epoch last.
    let all = readings(&given("tweets"));
    let names: Vec<_> = all.iter().map(|own| own["generator"].as_str().unwrap_or("-")).collect();
    assert_eq!((names.first(), names.last()), (Some(&"tweets"), Some(&"ancient")), "{all:?}");
    assert!(names.contains(&"-"), "{names:?}");
    assert!(api.problem(400, "GET /v1/ids/ORD20261325-000001", "").contains("is not an id"));
    let wrong = api.problem(400, "GET /v1/ids/ORD20261325-000001?generator=order", "");
    assert!(wrong.contains("expected a text of the template ORD{yyyyMMdd}-{n:6}"), "{wrong}");
    let wrong = api.problem(400, "GET /v1/ids/L%2F000195?generator=lot", "");
    assert!(
        wrong.contains("'L/000195' is not an id of generator 'lot': its check digits ({mod97}) do not match"),
        "{wrong}"
    );
}

#[test]
fn a_generator_of_another_server_is_a_conflict() {
    let api = Api::start(&["--generator", "ts chronos one-server 3", "--id-range", "2", "--server-id", "1"]);
    for line in ["POST /v1/ids/ts", "POST /v1/ids/ts?count=2"] {
        assert!(api.problem(409, line, "").contains("belongs to server-id 3"), "{line}");
    }
}

/// `-` is the unnamed generator, and clients remove dots from a path. No sequence can have such a name.
#[test]
fn no_sequence_gets_a_name_that_a_path_cannot_express() {
    let api = Api::start(&["--sequence-create", "on-first-use"]);
    for line in ["POST /v1/sequences/-", "POST /v1/sequences/%2e%2e", "POST /v1/sequences/."] {
        assert!(api.problem(400, line, "").contains("cannot be the name of a sequence: it has"), "{line}");
    }
    let mut redis = api.server.server.connect();
    for request in ["SEQUENCE CREATE -", "SET . 7", "INCR ..", "INCRBY - 3", "INCR -"] {
        let reply = redis.ask(request);
        assert!(reply.contains("cannot be the name of a sequence: it has"), "{request}: {reply}");
    }
    assert_eq!(redis.ask("INCR ..."), ":1");
}

#[test]
fn errors_name_the_request_that_helps() {
    let api = Api::start(&["--generator", "order twitter", "--generator", "lua redis-lua one-server 0"]);
    for (status, line, text) in [
        (404, "POST /v1/sequences/nope/values", "'POST /v1/sequences/nope' makes it"),
        (404, "GET /v1/sequences/nope", "'POST /v1/sequences/nope' makes it"),
        (409, "POST /v1/sequences/order/values", "'order' is a generator; use POST /v1/ids/order"),
        (400, "POST /v1/ids/lua", r#"0 to 4095: POST /v1/ids/lua with {"fields": {"shard": 0}}"#),
        (400, "GET /v1/ids/order", "POST /v1/ids/order returns IDs of a generator named 'order'"),
        (400, "GET /v1/ids/unknown", "POST /v1/ids/unknown returns IDs"),
        (400, "GET /v1/ids/-", "POST /v1/ids/- returns IDs of the unnamed generator"),
    ] {
        let detail = api.problem(status, line, "");
        assert!(detail.contains(text), "{line}: {detail}");
    }
    api.ask("POST /v1/sequences/full", r#"{"max": 1}"#);
    api.ask("POST /v1/sequences/full/values", "");
    let full = api.problem(409, "POST /v1/sequences/full/values", "");
    assert!(full.contains(r#"'PATCH /v1/sequences/full with {"max": N}' gives it more"#), "{full}");
    let ids = "unknown path: use POST /v1/ids/{name} (get IDs of a generator) or GET /v1/ids/{name} (decode an ID)";
    for (status, line, text) in [
        (404, "POST /v1/ids", ids),
        (404, "GET /v1/ids/", ids),
        (404, "POST /v1/id/-", ids),
        (404, "GET /metric", "use GET /metrics (get the metrics for Prometheus)"),
        (404, "GET /v1/sequences/", ": use /v1/sequences;"),
        (404, "GET /something/else", "unknown path; /openapi.json lists all paths"),
        (405, "GET /v1/sequences/a/values", "it supports POST /v1/sequences/{name}/values (get the next values"),
        (405, "DELETE /v1/ids/-", "it supports POST /v1/ids/{name}"),
    ] {
        let response = api.server.ask(line);
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(response.status, status, "{line}: {detail}");
        assert!(detail.contains(text), "{line}: {detail}");
    }
}

#[test]
fn errors_of_requests_for_ids_name_the_fault() {
    let api = Api::start(&[&GENERATORS[..], &["--sequence-store", "none"]].concat());
    for (status, line, body, text) in [
        (400, "POST /v1/ids/-?count=101", "", "'count' of the query is '101', expected an integer of 1 to 100"),
        (400, "POST /v1/ids/-?cont=1", "", "did you mean 'count'?"),
        (400, "POST /v1/ids/-", r#"{"fields":{"x":1}}"#, "has no request fields"),
        (400, "POST /v1/ids/shop", "", "needs a value for its field 'tenant'"),
        (400, "POST /v1/ids/shop", r#"{"fields":{"tenant":16}}"#, "takes 0 to 15"),
        (400, "POST /v1/ids/shop", r#"{"fields":{"tenant":-1}}"#, "field 'fields.tenant' is -1"),
        (400, "POST /v1/ids/shop", r#"{"fields":{"tennant":1}}"#, "takes no field 'tennant'"),
        (400, "POST /v1/ids/shop", r#"{"tenant":1}"#, "unknown field 'tenant'; expected one of: fields"),
        (404, "POST /v1/ids/tweetz", "", "did you mean 'tweets'?"),
        (404, "POST /v1/ids/tweetz?count=2", "", "did you mean 'tweets'?"),
        (400, "POST /v1/ids/a%2Fb", "", "cannot be the name of a generator"),
        (400, "POST /v1/ids/%ff", "", "the path is invalid"),
        (400, "POST /v1/ids/a%00%0d%0ab", "", "cannot be the name of a generator"),
        (404, "POST /v1/ids/short", "", "sequences are off"),
        (400, "GET /v1/ids/abc", "", "is not an id"),
        (
            400,
            &format!("GET /v1/ids/{}?generator=tweets", "0".repeat(256)),
            "",
            "expected a text of 1 to 255 characters",
        ),
        (400, &format!("POST /v1/ids/{}", "a".repeat(129)), "", "1 to 128"),
        (400, "GET /v1/ids/-1", "", "is not an id"),
        (400, "GET /v1/ids/9223372036854775808?generator=-", "", "it is at most 9223372036854775807"),
        (
            400,
            "GET /v1/ids/018f2f6e-7b1a-7c3e-8000-000000000000?generator=-",
            "",
            "the ID is not one of the unnamed generator",
        ),
        (400, "GET /v1/ids/1?generator=trace", "", "expected a UUID of version 7"),
        (404, "GET /v1/ids/1?generator=unknown", "", "no generator 'unknown'"),
        (400, "GET /v1/ids/1?generator=", "", "'generator' of the query is empty"),
        (400, "GET /v1/spans?from=now", "", "the query has no 'to'"),
        (400, "GET /v1/spans?from=now&to=x", "", "'x'"),
        (400, "GET /v1/spans?from=now&to=2020-01-01", "", "the span ends before"),
        (400, "GET /v1/spans?from=1900-01-01T00:00:00Z&to=now", "", "before the first time"),
        (400, "GET /v1/spans?from=now&to=now&generator=short", "", "holds no time"),
        (400, "GET /v1/encode/tweets", "", "the query has no 'time'"),
        (400, "GET /v1/encode/tweets?time=x", "", "'x' is not a time"),
        (409, "GET /v1/encode/tweets?time=2050-01-01", "", "generator 'tweets' itself gives ids from"),
        (409, "GET /v1/encode/tweets?time=2016-01-01&fields=worker:9", "", "field 'worker' of generator 'tweets' is 0"),
        (400, "GET /v1/encode/tweets?time=now&force=1", "", "'force' of the query is '1', expected no value"),
        (400, "GET /v1/encode/tweets?time=now&fields=worker", "", "expected field:value"),
        (400, "GET /v1/encode/tweets?time=now&fields=worker:1,", "", "expected field:value"),
        (400, "GET /v1/encode/tweets?time=now&fields=worker:32", "", "takes 0 to 31"),
        (400, "GET /v1/encode/tweets?time=now&fields=FORCE:HIGHEST", "", "fields"),
        (400, "GET /v1/encode/tweets?time=now&fields=force:1", "", "which is not a field and its value in digits"),
        (
            400,
            "GET /v1/encode/tweets?time=now&fields=HIGHEST:1",
            "",
            "has 'HIGHEST:1', which is not a field and its value in digits",
        ),
        (404, "GET /v1/encode/tweetz?time=now", "", "did you mean 'tweets'?"),
        (400, "GET /v1/encode/short?time=now", "", "holds no time"),
        (404, "GET /v1/generators/tweetz", "", "did you mean 'tweets'?"),
        (404, "GET /v1/sequences", "", "sequences are off"),
        (404, "POST /v1/sequences/orders/values", "", "sequences are off"),
    ] {
        let detail = api.problem(status, line, body);
        assert!(detail.contains(text), "{line} {body}: {detail}");
    }
}

/// The answers are the same as on a server with generators.
#[test]
fn without_generators_every_name_is_unknown() {
    let api = Api::start(&[]);
    let detail = "no generator 'nope'. Declare it with a line 'generator nope <kind>' in the configuration";
    for line in [
        "POST /v1/ids/nope",
        "POST /v1/ids/nope?count=2",
        "GET /v1/ids/1?generator=nope",
        "GET /v1/spans?from=now&to=now&generator=nope",
        "GET /v1/encode/nope?time=now",
    ] {
        let found = api.problem(404, line, "");
        assert!(found.starts_with(detail), "{line}: {found}");
    }
    let found = api.problem(400, "POST /v1/ids/a%2Fb", "");
    assert!(found.contains("cannot be the name of a generator"), "{found}");
}

#[test]
fn remedies_are_requests_for_every_name() {
    let api = Api::start(&[]);
    for (path, name) in
        [("%7Ba%7D%20%23b", "{a} #b"), ("%7Ba@b%7D", "{a@b}"), ("makes", "makes"), ("SEQUENCE%20LIST", "SEQUENCE LIST")]
    {
        let detail = api.problem(404, &format!("POST /v1/sequences/{path}/values"), "");
        assert!(
            detail.starts_with(&format!("no such sequence '{name}': 'POST /v1/sequences/{path}' makes it")),
            "{detail}"
        );
        assert_eq!(api.ask(&format!("POST /v1/sequences/{path}"), "").status, 201, "{name}");
    }
}

#[test]
fn sequences_are_made_counted_and_changed() {
    let api = Api::start(&[]);
    let made = api.ask("POST /v1/sequences/orders", "");
    assert_eq!((made.status, made.header("location")), (201, Some("/v1/sequences/orders")));
    let options = r#"{"start":"1000","increment":10,"offset":3.0,"cache":5,"max":1093,"policy":"error"}"#;
    assert_eq!(api.ask("POST /v1/sequences/odd:one", options).status, 201);
    assert_eq!(api.json(200, "POST /v1/sequences/orders/values", ""), json!({ "values": ["1"] }));
    let path = "/v1/sequences/%7Ba.b%7D%20%23c";
    let made = api.ask(&format!("POST {path}"), "");
    assert_eq!((made.status, made.header("location")), (201, Some(path)));
    assert_eq!(api.json(200, &format!("POST {path}/values"), ""), json!({ "values": ["1"] }));
    assert_eq!(api.json(200, &format!("GET {path}"), "")["name"], "{a.b} #c");
    assert_eq!(api.json(200, "POST /v1/sequences/orders/values?count=3", ""), json!({ "values": ["2", "3", "4"] }));
    assert_eq!(api.server.server.connect().ask("INCR orders"), ":5", "it is the same sequence");
    assert_eq!(api.json(200, "POST /v1/sequences/orders/values?above=50", ""), json!({ "values": ["51"] }));
    assert_eq!(
        api.json(200, "POST /v1/sequences/orders/values?above=9&count=2", ""),
        json!({ "values": ["52", "53"] })
    );
    assert_eq!(api.ask("POST /v1/sequences/short", r#"{"max":5}"#).status, 201);
    assert_eq!(api.json(200, "POST /v1/sequences/short/values?count=3", ""), json!({ "values": ["1", "2", "3"] }));
    assert_eq!(api.json(200, "POST /v1/sequences/short/values?count=3", ""), json!({ "values": ["4", "5"] }));
    assert_eq!(
        api.json(200, "POST /v1/sequences/odd:one/values?count=3", ""),
        json!({ "values": ["1003", "1013", "1023"] })
    );

    let sequence = api.json(200, "GET /v1/sequences/odd:one", "");
    for (name, value) in [
        ("last", json!("1023")),
        ("start", json!("1000")),
        ("increment", json!(10)),
        ("offset", json!(3)),
        ("max", json!("1093")),
        ("policy", json!("error")),
        ("last_given_here", json!("1023")),
    ] {
        assert_eq!(sequence[name], value, "{sequence}");
    }
    assert_eq!(sequence["rows"][0]["state"], "live");

    assert_eq!(
        api.json(200, "PATCH /v1/sequences/odd:one", r#"{"last":1083}"#),
        json!({ "name": "odd:one", "effective_in_s": 0 })
    );
    // With `policy error` a request is refused (503) until the store has answered.
    let next_value = || {
        in_time("the store has answered", || {
            let response = api.ask("POST /v1/sequences/odd:one/values", "");
            (response.status != 503).then_some(response)
        })
    };
    assert_eq!(next_value().json(), json!({ "values": ["1093"] }));
    let at_max = next_value();
    assert_eq!(at_max.status, 409, "{at_max:?}");
    assert!(at_max.json()["detail"].as_str().unwrap().contains("has no more values"), "{at_max:?}");
    api.json(200, "PATCH /v1/sequences/odd:one", r#"{"max":"9000000000000000000","cache":0}"#);
    assert_eq!(next_value().json(), json!({ "values": ["1103"] }));
    assert_eq!(api.json(200, "GET /v1/sequences/odd:one", "")["cache"], 0);
}

#[test]
fn sequences_are_listed_page_by_page() {
    let api = Api::start(&["--sequence-create", "on-first-use"]);
    let mut wire = api.server.server.connect();
    for number in 0..25 {
        wire.ask(&format!("INCR s{number:02}"));
    }
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = api.json(200, &format!("GET /v1/sequences?limit=10{after}"), "");
        let own = page["sequences"].as_array().unwrap();
        names.extend(own.iter().map(|own| own["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(names, (0..25).map(|number| format!("s{number:02}")).collect::<Vec<_>>());
    let found = api.json(200, "GET /v1/sequences?match=s%3F3", "");
    assert_eq!(found["sequences"].as_array().unwrap().len(), 3, "{found}");
    // A pattern may be equal to a word of the command.
    for name in ["count", "CURSOR"] {
        wire.ask(&format!("INCR {name}"));
        let found = api.json(200, &format!("GET /v1/sequences?match={name}"), "");
        assert_eq!(found["sequences"][0]["name"], name, "{found}");
    }
}

#[test]
fn errors_of_requests_for_sequences_name_the_fault() {
    let api = Api::start(&["--generator", "tweets twitter", "--sequence-incrby-max", "50"]);
    api.ask("POST /v1/sequences/orders", r#"{"start":10}"#);
    for (status, line, body, text) in [
        (404, "GET /v1/sequences/unknown", "", "no such sequence 'unknown'"),
        (404, "POST /v1/sequences/unknown/values", "", "no such sequence 'unknown'"),
        (404, "POST /v1/sequences/unknown/values?count=2", "", "no such sequence 'unknown'"),
        (404, "PATCH /v1/sequences/unknown", r#"{"last":1}"#, "no such sequence 'unknown'"),
        (409, "POST /v1/sequences/orders", "", "is there already"),
        (409, "PATCH /v1/sequences/orders", r#"{"last":1}"#, "never goes back"),
        (409, "POST /v1/sequences/tweets/values", "", "is a generator"),
        (409, "POST /v1/sequences/tweets", "", "is a generator"),
        (400, "POST /v1/sequences/a%20", "", "cannot be the name of a sequence"),
        (400, "POST /v1/sequences/a%1b%5b2J%0a", "", r"'a\u{1b}[2J\n' cannot be the name of a sequence"),
        (400, "POST /v1/sequences/a%2Fb/values", "", "cannot be the name of a sequence"),
        (400, "POST /v1/sequences/orders/values?count=51", "", "expected an integer of 1 to 50"),
        (400, "POST /v1/sequences/orders/values?count=0", "", "expected an integer of 1 to 50"),
        (400, "POST /v1/sequences/orders/values?above=-1", "", "expected an integer of 0 to 9000000000000000000"),
        (400, "POST /v1/sequences/orders/values?above=9000000000000000001", "", "expected an integer of 0 to"),
        (503, "POST /v1/sequences/orders/values?above=4711", "", "its store has not given 4711 to any server yet"),
        (400, "POST /v1/sequences/orders/values", "{}", "send no body"),
        (400, "PATCH /v1/sequences/orders", "", "names nothing to change"),
        (400, "PATCH /v1/sequences/orders", r#"{"last":50,"cache":1}"#, "two changes"),
        (400, "PATCH /v1/sequences/orders", r#"{"start":50}"#, "unknown field 'start'"),
        (400, "POST /v1/sequences/new", r#"{"start":-1}"#, "field 'start' is -1, expected"),
        (400, "POST /v1/sequences/new", r#"{"start":"1e3"}"#, "start is '1e3'"),
        (400, "POST /v1/sequences/new", r#"{"start":"9000000000000000001"}"#, "start is '9000000000000000001'"),
        (400, "POST /v1/sequences/new", r#"{"max":1,"start":2}"#, "below the first value"),
        (400, "POST /v1/sequences/new", r#"{"increment":0}"#, "expected an integer of 1 to 1000000"),
        (400, "POST /v1/sequences/new", r#"{"increment":2,"offset":3}"#, "offset is '3'"),
        (400, "POST /v1/sequences/new", r#"{"policy":"WAIT"}"#, "expected one of the texts wait, error"),
        (400, "POST /v1/sequences/new", r#"{"fresh":"yes"}"#, "expected true or false"),
        (400, "GET /v1/sequences?limit=0", "", "expected an integer of 1 to 1000"),
        (400, "GET /v1/sequences?after=a&after=b", "", "more than once"),
    ] {
        let detail = api.problem(status, line, body);
        assert!(detail.contains(text), "{line} {body}: {detail}");
    }
    assert_eq!(
        api.json(200, "GET /v1/sequences", "")["sequences"].as_array().unwrap().len(),
        1,
        "no sequence was created"
    );
}

#[test]
fn invalid_bodies_are_refused_by_name() {
    let api = Api::start(&[]);
    let line = "POST /v1/sequences/orders";
    for (status, body, text) in [
        (400, r#"{"start":"#, "EOF while parsing a value at line 1 column 9"),
        (400, "not json", "expected ident at line 1 column 2"),
        (400, r#"{"start":1,"start":2}"#, "field 'start' is repeated"),
        (400, "null", "the body is null, expected an object"),
        (400, "[]", "the body is an array, expected an object"),
        (400, "\"text\"", "the body is the text 'text', expected an object"),
        (400, "{} {}", "trailing characters"),
        (400, "{\"\u{202e}\\u0007\":1}", "unknown field '\\u{202e}\\u{7}'"),
        (400, "{\"\u{7}\":1}", "control character"),
    ] {
        let detail = api.problem(status, line, body);
        assert!(detail.contains(text), "{body}: {detail}");
    }
    let deep = format!("{{\"start\":{}", "[".repeat(60_000));
    assert!(api.problem(400, line, &deep).contains("recursion limit"));
    let edge = format!("{{\"start\":1{}}}", " ".repeat((64 << 10) - 11));
    assert_eq!((edge.len(), api.ask(line, &edge).status), (64 << 10, 201));
    assert!(api.problem(413, line, &format!("{edge} ")).contains("64 KiB"));
    let large = api.server.connect().ask(line, &["Content-Type: application/json", "Content-Length: 1000000"], "");
    assert_eq!(large.status, 413, "refused before the body: {large:?}");
    let chunks = format!("{:x}\r\n{}\r\n0\r\n\r\n", 70_000, "1".repeat(70_000));
    let large =
        api.server.connect().ask(line, &["Content-Type: application/json", "Transfer-Encoding: chunked"], &chunks);
    assert_eq!(large.status, 413, "{large:?}");
    let kind = api.server.ask_with(line, &["Content-Type: text/plain"], "{}");
    assert_eq!(kind.status, 415);
    let other = api.server.ask_with("POST /v1/ids/-", &["Content-Type: application/json; charset=utf-8"], "{}");
    assert_eq!(other.status, 200, "{other:?}");
}

#[test]
fn a_renamed_command_has_no_endpoint() {
    let api = Api::start(&["--rename-command", "MGETID", "ids", "--rename-command", "INCR", ""]);
    assert!(api.problem(403, "POST /v1/ids/-?count=2", "").contains("'rename-command'"));
    assert_eq!(api.ask("POST /v1/ids/-", "").status, 200);
    assert!(api.problem(403, "POST /v1/sequences/orders/values", "").contains("the command INCR"));
}

/// Every endpoint refuses unknown parameters, except the page, which is opened by links, and the paths for probes and
/// scrapers, which have their own tests.
#[test]
fn every_endpoint_refuses_unknown_parameters() {
    let api = Api::start(&[]);
    let paths = api.document.0["paths"].as_object().unwrap().iter();
    for (path, methods) in paths.filter(|(path, _)| !["/", "/readyz", "/metrics"].contains(&path.as_str())) {
        for method in methods.as_object().unwrap().keys() {
            let target = path.replace("{name}", "x").replace("{id}", "1");
            let line = format!("{} {target}?surely-unknown=1", method.to_uppercase());
            let detail = api.problem(400, &line, "");
            assert!(detail.contains("surely-unknown"), "{line}: {detail}");
        }
    }
}

#[test]
fn worker_ids_are_leased_and_renewed() {
    let api = Api::start(&["--worker-pool", "orders size 2 lease 1s longest 1s"]);
    let shown = |granted: &Value, last: u64| json!({ "token": granted["token"], "last": last }).to_string();
    let mut granted = Value::Null;
    // The pool opens after a second, which is the lease time.
    eventually("a lease that is renewed and released", || {
        let leased = api.ask("POST /v1/workers/orders/leases", r#"{"name":"api-1","ttl_s":1}"#);
        if leased.status != 201 {
            assert!([409, 503].contains(&leased.status), "{leased:?}");
            return false;
        }
        granted = leased.json();
        assert_eq!(granted["lease_ms"], 1000);
        let of_id = format!("POST /v1/workers/orders/leases/{}", granted["id"]);
        let last = granted["not_before"].as_u64().unwrap();
        let renewed = api.ask(&format!("{of_id}/renew"), &shown(&granted, last));
        if renewed.status != 200 {
            assert_eq!(renewed.status, 409, "{renewed:?}");
            return false;
        }
        assert!(renewed.json()["not_after"].as_u64() >= granted["not_after"].as_u64());
        api.ask(&format!("{of_id}/release"), &shown(&granted, last)).status == 200
    });
    let of_id = format!("POST /v1/workers/orders/leases/{}", granted["id"]);
    let refused = api.json(409, &format!("{of_id}/renew"), &shown(&granted, 1));
    assert_eq!(refused["code"], "EXPIRED", "{refused}");
    let wrong = json!({ "token": "0".repeat(32) }).to_string();
    assert_eq!(api.json(409, &format!("{of_id}/renew"), &wrong)["code"], "WRONGTOKEN");
    assert!(api.json(200, &format!("{of_id}/revoke"), "")["not_after"].as_u64() > Some(0));

    let listed = api.json(200, "GET /v1/workers/orders/leases?limit=2", "");
    let own = listed["leases"].as_array().unwrap().iter().find(|lease| lease["id"] == granted["id"]);
    let own = own.unwrap_or_else(|| panic!("{listed}"));
    assert_eq!((own["name"].as_str(), own["state"].as_str()), (Some("api-1"), Some("released")), "{listed}");
    let pool = api.json(200, "GET /v1/workers/orders", "");
    assert_eq!((pool["size"].as_u64(), pool["lease_ms"].as_u64()), (Some(2), Some(1000)));
    let none = api.problem(404, "GET /v1/workers/others", "");
    assert!(none.starts_with("no such worker pool 'others'"), "{none}");
    let bad = api.problem(400, "POST /v1/workers/orders/leases/x/renew", &wrong);
    assert_eq!(bad, "'x' in the path is not a worker id, expected a number");
    let bad = api.problem(400, "POST /v1/workers/orders/leases", r#"{"ttl_s":0}"#);
    assert_eq!(bad, "field 'ttl_s' is 0, expected an integer of 1 to 86400");
    assert_eq!(api.ask(&format!("{of_id}/renew"), r#"{"token":"short"}"#).status, 400);
}
