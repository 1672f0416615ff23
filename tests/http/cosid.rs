//! The paths of CosId's proxy server: their answers are those of that server.

#![cfg(feature = "sqlite")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use getid_config::HttpApi;
use getid_engine::claim::status::ClaimView;
use getid_system::clock::wall_unix_ms;

use crate::in_process::{InProcess, quick};
use crate::recorded::{self, ok};
use crate::support::http::{HttpServer, Response};
use crate::support::program::run;
use crate::support::standby::{WHY, standby};
use crate::support::{folder, free_port, refused};

/// Returns the status and the `code` of a failure, and checks that its `msg` has this text.
#[track_caller]
fn failure(response: &Response, text: &str) -> (u16, String) {
    let body = response.json();
    assert!(body["msg"].as_str().is_some_and(|msg| msg.contains(text)), "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/json"), "{response:?}");
    assert!(body["errors"].as_array().is_some_and(Vec::is_empty), "{response:?}");
    (response.status, body["code"].as_str().unwrap().to_owned())
}

#[test]
fn recorded_conversations_match_byte_for_byte() {
    let server = HttpServer::start(&["--http-api", "cosid"]);
    recorded::play(&server, include_str!("recorded/cosid.txt"));
}

const POOLS: [&str; 4] =
    ["--worker-pool", "shop size 1024 lease 5m longest 10m", "--worker-pool", "small size 2 lease 5m"];

/// Starts a server with machine ids for two namespaces, and with these further words.
fn start_with_machines(words: &[&str]) -> HttpServer {
    let server = HttpServer::start(&[&["--http-api", "cosid"], words, &POOLS[..]].concat());
    let mut redis = server.server.connect();
    for pool in ["shop", "small"] {
        ok(&mut redis, &format!("WORKERID INIT {pool} NEW"));
    }
    server
}

/// Parameters of a request for a machine id of ten bits.
const SHORT_GUARD: &str = "machineBit=10&stable=false&safeGuardDuration=PT5M";

#[test]
fn recorded_conversations_about_machine_ids_match_byte_for_byte() {
    recorded::play(&start_with_machines(&[]), include_str!("recorded/cosid_machines.txt"));
}

#[test]
fn machine_ids_are_those_of_cosids_scripts() {
    let server = start_with_machines(&[]);
    let mut redis = server.server.connect();
    let now = wall_unix_ms();
    // `machine_id_distribute.lua` and `machine_id_guard.lua`.
    let script = "EVALSHA abb225fa62a528a2bd6ba2b023aaeb3f832c8a18 1 {shop}";
    assert_eq!(redis.ask(&format!("{script} a 1023 {now} {}", now - 300_000)), "*2");
    assert_eq!(redis.line(), ":0");
    assert!(redis.line()[1..].parse::<i64>().unwrap() >= now);
    let mut http = server.connect();
    let state = http.ask(&format!("POST /machines/shop?instanceId=a&{SHORT_GUARD}"), &[], "").json();
    assert!(state["machineId"] == 0 && state["lastTimeStamp"].as_i64() >= Some(now), "{state}");
    let state = http.ask(&format!("POST /machines/shop?instanceId=b&{SHORT_GUARD}"), &[], "").json();
    assert_eq!(state["machineId"], 1);
    let now = wall_unix_ms();
    let guard = "EVALSHA d3f3370f1163c867dbeea875b97779b29266f0fe 1 {shop}";
    assert_eq!(redis.ask(&format!("{guard} b {now}")), ":1");
    assert_eq!(http.ask("DELETE /machines/shop?instanceId=b&stable=false", &[], "").status, 200);
    assert_eq!(redis.ask(&format!("{guard} b {now}")), ":0");
    // A stable instance keeps its id, however short the duration is.
    let stable = "machineBit=10&stable=true&safeGuardDuration=PT5M";
    let state = http.ask(&format!("POST /machines/shop?instanceId=c&{stable}"), &[], "").json();
    let leases = server.ask(&format!("GET /v1/workers/shop/leases?from={}&limit=1", state["machineId"])).json();
    assert_eq!(
        (&leases["leases"][0]["name"], &leases["leases"][0]["state"]),
        (&"c".into(), &"kept".into()),
        "{leases}"
    );
}

#[test]
fn a_request_for_a_machine_id_that_cannot_be_served_names_the_remedy() {
    let server = start_with_machines(&[]);
    let mut http = server.connect();
    let long = "i".repeat(2000);
    for (path, status, text) in [
        ("other?instanceId=a", 500, "no such worker pool 'other'"),
        ("%E8%AE%A2?instanceId=a", 400, "worker pool"),
        ("a%2Fb?instanceId=a", 400, "worker pool"),
        ("shop?instanceId=", 400, "cosid.machine.instance-id"),
        (&format!("shop?instanceId={long}"), 400, "cosid.machine.instance-id"),
    ] {
        let answer = http.ask(&format!("POST /machines/{path}&{SHORT_GUARD}"), &[], "");
        assert_eq!(failure(&answer, text), (status, "500".to_owned()), "{path}");
    }
    let hour = "machineBit=10&stable=false&safeGuardDuration=PT1H";
    let answer = http.ask(&format!("POST /machines/shop?instanceId=a&{hour}"), &[], "");
    assert_eq!(failure(&answer, "safe-guard-duration"), (400, "500".to_owned()));
    let answer = http.ask(&format!("POST /machines/shop?instanceId=%00%ff&{SHORT_GUARD}"), &[], "");
    assert_eq!(failure(&answer, "instanceId must be UTF-8"), (400, "500".to_owned()));
    // Any characters name an instance.
    for instance in ["%00", "a%0d%0aSet-Cookie:%20x", "%E8%AE%A2", "a|b"] {
        let answer = http.ask(&format!("POST /machines/shop?instanceId={instance}&{SHORT_GUARD}"), &[], "");
        assert_eq!(answer.status, 200, "{instance}: {answer:?}");
    }
    // A pool that was never declared as new has no ids yet.
    let server = HttpServer::start(&[&["--http-api", "cosid"], &POOLS[..]].concat());
    let answer = server.ask(&format!("POST /machines/shop?instanceId=a&{SHORT_GUARD}"));
    assert_eq!(failure(&answer, "leases nothing before"), (503, "503".to_owned()));
}

#[test]
fn machine_ids_need_rights_to_the_script_and_its_key() {
    let user = ["user", "shop", "--user", "shop", "on", "~{shop}", "+evalsha"];
    let server = start_with_machines(&user);
    let mut http = server.connect();
    assert_eq!(http.ask(&format!("POST /machines/shop?instanceId=a&{SHORT_GUARD}"), &[], "").status, 200);
    for line in [
        &format!("POST /machines/small?instanceId=a&{SHORT_GUARD}"),
        "PATCH /machines/small?instanceId=a&stable=false&safeGuardDuration=PT5M",
        "DELETE /machines/small?instanceId=a&stable=false",
        "PATCH /segments/shop/order?step=1",
    ] {
        assert_eq!(failure(&http.ask(line, &[], ""), "permission"), (403, "403".to_owned()), "{line}");
    }
}

#[test]
#[ignore = "needs a JDK, version 11 or later"]
fn javas_own_client_makes_the_calls_of_cosid_proxy() {
    let server = start_with_machines(&[]);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/CosidProxy.java");
    let printed = run(Command::new("java").arg(program).arg(format!("http://127.0.0.1:{}", server.port)), "");
    let expected = "segments: 2000 ids, 2000 different, above 1000: true\n\
        never created: 500 500\n\
        machines differ: true, one instance keeps its own: true\n\
        guard after revert: 400 M-03\n\
        revert after revert: 400 M-02\n\
        a stable instance keeps its own: true\n\
        all taken: 400 M-01\n\
        no such namespace: 400 M-02\n";
    assert_eq!(printed, expected);
}

#[test]
fn segments_are_those_of_cosids_redis_keys() {
    let server = HttpServer::start(&["--http-api", "cosid"]);
    let mut redis = server.server.connect();
    assert_eq!(redis.ask("SETNX cosid:{shop.order}.adder 1000"), ":1");
    assert_eq!(redis.ask("INCRBY cosid:{shop.order}.adder 10"), ":1010");
    let mut http = server.connect();
    assert_eq!(http.ask("POST /segments/distributor/shop/order?offset=0&step=10", &[], "").status, 200);
    assert_eq!(http.ask("PATCH /segments/shop/order?step=100", &[], "").text(), "1110");
    assert_eq!(redis.ask("INCRBY cosid:{shop.order}.adder 10"), ":1120");
    // A namespace with a dot has the key that CosId gives it.
    assert_eq!(http.ask("POST /segments/distributor/shop/eu.order?offset=5&step=10", &[], "").status, 200);
    assert_eq!(http.ask("PATCH /segments/shop.eu/order?step=1", &[], "").text(), "6");
}

#[test]
fn a_segment_without_a_distributor_is_an_error_unless_first_use_creates_it() {
    let server = HttpServer::start(&["--http-api", "cosid"]);
    let answer = server.ask("PATCH /segments/shop/order?step=10");
    assert_eq!(failure(&answer, "no such sequence 'cosid:{shop.order}.adder'"), (500, "500".to_owned()));

    let server = HttpServer::start(&["--http-api", "cosid", "--sequence-create", "on-first-use"]);
    assert_eq!(server.ask("PATCH /segments/shop/order?step=10").text(), "10");
}

#[test]
fn names_that_no_sequence_can_have_are_refused() {
    let server = HttpServer::start(&["--http-api", "cosid"]);
    let mut http = server.connect();
    let long = "n".repeat(128);
    for name in ["a%2Fb", "%E8%AE%A2", "%ff", "a%0D%0Ab", "%00", "a;b", &long] {
        for line in [
            format!("POST /segments/distributor/shop/{name}?offset=0&step=10"),
            format!("PATCH /segments/shop/{name}?step=10"),
        ] {
            let answer = http.ask(&line, &[], "");
            assert_eq!(failure(&answer, "1 to 128 bytes"), (400, "500".to_owned()), "{line}");
        }
    }
    let answer = http.ask("PATCH /segments/shop/%zz?step=10", &[], "");
    assert_eq!(failure(&answer, "404 NOT_FOUND"), (500, "500".to_owned()));
    // The namespace cannot reach another one's sequence without the right to its name.
    assert_eq!(http.ask("POST /segments/distributor/a%7D/b?offset=0&step=10", &[], "").status, 200);
    assert_eq!(server.server.connect().ask("EXISTS cosid:{a}.b}.adder"), ":1");
}

#[test]
fn a_segment_has_all_of_its_numbers_or_none() {
    let server = HttpServer::start(&["--http-api", "cosid"]);
    let mut redis = server.server.connect();
    ok(&mut redis, "SEQUENCE CREATE cosid:{shop.far}.adder increment 2");
    ok(&mut redis, "SEQUENCE CREATE cosid:{shop.short}.adder max 15");
    let mut http = server.connect();
    let answer = http.ask("PATCH /segments/shop/far?step=10", &[], "");
    assert_eq!(failure(&answer, "are 2 apart"), (500, "500".to_owned()));
    assert_eq!(http.ask("PATCH /segments/shop/short?step=10", &[], "").text(), "10");
    let answer = http.ask("PATCH /segments/shop/short?step=10", &[], "");
    assert_eq!(failure(&answer, "had 5 values left below its max"), (500, "500".to_owned()));
    let answer = http.ask("PATCH /segments/shop/short?step=1", &[], "");
    assert_eq!(failure(&answer, "max"), (500, "500".to_owned()));
    let answer = http.ask("POST /segments/distributor/shop/high?offset=9000000000000000001&step=10", &[], "");
    assert_eq!(failure(&answer, "9000000000000000000"), (400, "500".to_owned()));
}

#[test]
fn with_several_stores_there_are_no_segments() {
    let dir = folder();
    let stores = ["a", "b"].map(|name| format!("sqlite:{}", dir.path().join(name).display()));
    let words = ["--http-api", "cosid", "--sequence-create", "on-first-use"];
    let mut server =
        HttpServer::start(&[&words[..], &["--sequence-store", &stores[0], "--sequence-store", &stores[1]]].concat());
    server.server.wait_log("http-api cosid gives no segments");
    let answer = server.ask("PATCH /segments/shop/order?step=10");
    assert_eq!(failure(&answer, "are 2 apart"), (500, "500".to_owned()));
}

#[test]
fn ids_are_numbers_or_texts_of_the_generators() {
    let words = ["--http-api", "cosid", "--generator", "tweets", "twitter", "--generator", "trace", "uuid7"];
    let order = ["--generator", "order", "serial", "O{n:4}", "reset", "never"];
    let server = HttpServer::start(&[&words[..], &order].concat());
    let mut http = server.connect();
    let mut number = |path: &str| {
        let response = http.ask(&format!("GET {path}"), &[], "");
        assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")), "{path}");
        response.text().parse::<u64>().unwrap()
    };
    let (first, second) = (number("/ids"), number("/ids"));
    assert!(first < second);
    assert!(number("/ids/tweets") < number("/ids/tweets"));
    for (path, chars) in [("/ids/as-string", 18), ("/ids/as-string/tweets", 19), ("/ids/as-string/trace", 36)] {
        let response = server.ask(&format!("GET {path}"));
        let kind = response.header("content-type");
        assert_eq!((response.status, kind), (200, Some("text/plain;charset=UTF-8")), "{path}");
        assert_eq!(response.text().len(), chars, "{path}");
    }
    // A text is no number, and none was drawn.
    for name in ["order", "trace"] {
        let answer = server.ask(&format!("GET /ids/{name}"));
        assert_eq!(failure(&answer, "request /ids/as-string/"), (400, "500".to_owned()), "{name}");
    }
    assert_eq!(server.ask("GET /ids/as-string/order").text(), "O0001");
    for path in ["/ids/tweetz", "/ids/as-string/tweetz"] {
        let answer = server.ask(&format!("GET {path}"));
        assert_eq!(failure(&answer, "did you mean 'tweets'?"), (400, "500".to_owned()), "{path}");
    }
    let answer = HttpServer::start(&["--http-api", "cosid"]).ask("GET /ids/tweets");
    assert_eq!(failure(&answer, "no generator 'tweets'"), (400, "500".to_owned()));
}

#[test]
fn without_the_directive_there_are_no_such_paths() {
    let server = HttpServer::start(&[]);
    for line in ["POST /segments/distributor/a/b?offset=0&step=1", "PATCH /segments/a/b?step=1", "GET /ids"] {
        let response = server.ask(line);
        let kind = response.header("content-type");
        assert_eq!((response.status, kind), (404, Some("application/problem+json")), "{line}");
    }
}

#[test]
fn a_user_of_its_own_needs_no_password_and_has_its_permissions() {
    let words = ["--requirepass", "other", "--http-api", "cosid", "user", "shop"];
    let user = ["--user", "shop", "on", ">secret", "~cosid:{shop.*", "+setnx", "+sequence|next", "+getid"];
    let server = HttpServer::start(&[&words[..], &user].concat());
    let mut http = server.connect();
    assert_eq!(http.ask("POST /segments/distributor/shop/order?offset=0&step=10", &[], "").status, 200);
    assert_eq!(http.ask("PATCH /segments/shop/order?step=10", &[], "").text(), "10");
    assert_eq!(http.ask("GET /ids", &[], "").status, 200);
    // The path ignores the login header, because its user is configured.
    let wrong = ["Authorization: Bearer default:wrong"];
    assert_eq!(http.ask("PATCH /segments/shop/order?step=10", &wrong, "").text(), "20");
    for line in ["POST /segments/distributor/other/order?offset=0&step=10", "PATCH /segments/other/order?step=10"] {
        let refused = http.ask(line, &[], "");
        assert_eq!(failure(&refused, "permission"), (403, "403".to_owned()), "{line}");
    }
    let mut redis = server.server.connect();
    ok(&mut redis, "AUTH other");
    let stats = redis.ask_bulk("INFO commandstats");
    for counted in ["cmdstat_setnx:calls=1,", "cmdstat_sequence|next:calls=2,", "rejected_calls=1,"] {
        assert!(stats.contains(counted), "{counted} is not in {stats}");
    }
    // Changes of the user take effect at once, on a connection that has drawn before.
    ok(&mut redis, "ACL SETUSER shop -sequence|next");
    assert_eq!(failure(&http.ask("PATCH /segments/shop/order?step=10", &[], ""), "permission").0, 403);
    ok(&mut redis, "ACL SETUSER shop off");
    let off = server.connect().ask("PATCH /segments/shop/order?step=10", &[], "");
    assert_eq!(failure(&off, "the user 'shop' of http-api"), (503, "503".to_owned()));
}

#[test]
fn without_a_user_the_paths_need_a_login() {
    let mut server = HttpServer::start(&["--requirepass", "secret", "--http-api", "cosid"]);
    server.server.wait_log("http-api cosid names no user, and the default user needs a password");
    let mut http = server.connect();
    for line in
        ["POST /segments/distributor/shop/order?offset=0&step=10", "PATCH /segments/shop/order?step=1", "GET /ids"]
    {
        let refused = http.ask(line, &[], "");
        assert_eq!(failure(&refused, "Authorization"), (401, "401".to_owned()), "{line}");
        assert!(refused.header("www-authenticate").is_some_and(|scheme| scheme.starts_with("Basic ")));
    }
    let login = ["Authorization: Bearer secret"];
    assert_eq!(http.ask("POST /segments/distributor/shop/order?offset=0&step=10", &login, "").status, 200);
    assert_eq!(http.ask("PATCH /segments/shop/order?step=1", &login, "").text(), "1");
    let error = refused(folder().path(), &["--http-api", "cosid", "user", "shop"], |_| {});
    assert!(error.contains("http-api") && error.contains("shop"), "{error}");
}

#[test]
fn a_server_without_sequences_names_the_reason() {
    let mut server = HttpServer::start(&["--http-api", "cosid", "--sequence-store", "none"]);
    server.server.wait_log("http-api cosid has no values");
    for line in ["POST /segments/distributor/shop/order?offset=0&step=10", "PATCH /segments/shop/order?step=10"] {
        assert_eq!(failure(&server.ask(line), "sequences are off"), (500, "500".to_owned()), "{line}");
    }
    assert_eq!(server.ask("GET /ids").status, 200);

    // No database answers at this store's address.
    let store = format!("mysql://getid:x@127.0.0.1:{}/ids", free_port());
    let words = ["--http-api", "cosid", "--sequence-store", &store, "--sequence-wait-ms", "50"];
    let server = HttpServer::start(&[&words[..], &POOLS].concat());
    for line in [
        "POST /segments/distributor/shop/order?offset=0&step=10",
        "PATCH /segments/shop/order?step=10",
        &format!("POST /machines/shop?instanceId=a&{SHORT_GUARD}"),
        "PATCH /machines/shop?instanceId=a&stable=false&safeGuardDuration=PT5M",
        "DELETE /machines/shop?instanceId=a&stable=false",
    ] {
        let answer = server.ask(line);
        assert_eq!(failure(&answer, "store"), (503, "503".to_owned()), "{line}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

#[test]
fn a_standby_gives_no_values() {
    let claim = Arc::new(ClaimView::default());
    claim.publish(standby());
    let on = Some(HttpApi::default());
    let server = InProcess::start_with(quick(), |config| config.http.apis.cosid = on, Some(&claim));
    let answer = server.ask("PATCH /segments/shop/order?step=10");
    assert_eq!(failure(&answer, WHY), (503, "503".to_owned()));
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[test]
fn a_page_of_another_site_changes_nothing() {
    let server = HttpServer::start(&["--http-api", "cosid"]);
    let create = "POST /segments/distributor/shop/order?offset=0&step=10";
    for header in ["Origin: http://elsewhere.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        assert_eq!(server.ask_with(create, &[header], "").status, 403, "{header}");
    }
    // A site whose name was made to resolve to this server.
    let own = ["Host: elsewhere.example", "Origin: http://elsewhere.example"];
    assert_eq!(server.ask_with(create, &own, "").status, 421);
    assert_eq!(server.server.connect().ask("EXISTS cosid:{shop.order}.adder"), ":0");
    // A program names any host, and no origin.
    assert_eq!(server.ask_with(create, &own[..1], "").status, 200);
}

#[test]
fn a_large_body_is_not_read() {
    let server = HttpServer::start(&["--http-api", "cosid"]);
    let mut http = server.connect();
    http.send(
        b"POST /segments/distributor/shop/order?offset=0&step=10 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{",
    );
    let answer = http.response();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{answer:?}");
}
