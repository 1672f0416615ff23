//! The page: its headers, the data of its stream, the number of its viewers, and the end of a stream.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use getid_core::{Epoch, Layout};
use getid_engine::claim::Identity;
use getid_engine::claim::fleet::ClaimRecord;
use getid_engine::claim::listing::ClaimLister;
use getid_engine::claim::status::ClaimView;
use getid_store::records::Key;
use getid_store::records::memory::MemoryStore;
use serde_json::{Value, json};

use crate::document::Document;
use crate::in_process::{InProcess, quick};
use crate::support::http::{Http, HttpServer, request};
use crate::support::program::finish;
use crate::support::{Server, binary, eventually, free_port};

/// The largest number of viewers.
const VIEWERS_MAX: usize = 32;

/// Opens a stream and reads its head.
fn look(port: u16, headers: &[&str]) -> Http {
    let mut viewer = Http::connect(port);
    viewer.send(request("GET /v1/status/stream", headers, "").as_bytes());
    let head = viewer.head().expect("a head");
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
    viewer
}

/// Returns the next event, as name and data, or `None` after the last one.
fn event(viewer: &mut Http) -> Option<(String, Value)> {
    Some(parsed(viewer.chunk().expect("a chunk")?))
}

fn parsed(chunk: Vec<u8>) -> (String, Value) {
    let text = String::from_utf8(chunk).expect("text");
    let (name, data) = text.strip_prefix("event: ").and_then(|rest| rest.split_once("\ndata: ")).expect(&text);
    assert!(data.ends_with("\n\n") && data.trim_end().lines().count() == 1, "{text}");
    (name.to_owned(), serde_json::from_str(data).expect("JSON"))
}

/// Reads a stream to its end and returns the reason in its last event. A closed connection may have none.
fn end(viewer: &mut Http) -> Option<Value> {
    let mut last = None;
    loop {
        match viewer.chunk() {
            Ok(Some(chunk)) => last = Some(parsed(chunk)),
            Ok(None) => break,
            Err(error) => {
                assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "the stream has not ended");
                break;
            }
        }
    }
    last.filter(|(name, _)| name == "end").map(|(_, data)| data)
}

#[test]
fn the_page_is_one_file_that_cannot_be_framed_or_changed() {
    let server = HttpServer::start(&[]);
    let page = server.ask("GET /");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").expect("a policy");
    for part in [
        "default-src 'none'",
        "style-src 'sha256-",
        "script-src 'sha256-",
        "connect-src 'self'",
        "img-src data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.split("; ").any(|own| own.starts_with(part)), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    let foreign = |name: &&(String, String)| name.0.starts_with("access-control") || name.0 == "set-cookie";
    assert_eq!(page.headers.iter().find(foreign), None);
    // Under a host name that is not configured, the page is served, which can log in then, but no data of the server.
    let by_name = |line: &str| server.ask_with(line, &["Host: ids.example.com"], "").status;
    assert_eq!((by_name("GET /"), by_name("GET /v1/status"), by_name("GET /v1/status/stream")), (200, 421, 421));
}

/// Texts that a page could mistake for markup, script or events.
const HOSTILE: &[&str] = &[
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\"'`${alert(1)}&lt;",
    "\u{202e}txt.exe\u{2066}",
    "a\r\n\r\nevent: end",
    "\u{0}\u{1b}[2J\u{2028}\u{feff}",
];

/// Sends a command whose arguments may contain any bytes, and returns its reply.
fn ask(server: &HttpServer, args: &[&str]) -> String {
    let mut redis = server.server.connect();
    redis.send(format!("*{}\r\n", args.len()));
    for arg in args {
        redis.send(format!("${}\r\n{arg}\r\n", arg.len()));
    }
    redis.line()
}

#[test]
fn the_status_has_the_given_ids_and_values() {
    let server = HttpServer::start(&["--generator", "tweets twitter", "--sequence-create", "on-first-use"]);
    let mut redis = server.server.connect();
    redis.ids(7);
    assert_eq!(redis.ask("INCRBY orders 37"), ":37");
    let response = server.ask("GET /v1/status");
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let status = response.json();
    assert_eq!(status["giving"], json!({ "state": "giving", "reason": null, "remedy": null }));
    assert_eq!((&status["server"]["version"], &status["notices"]), (&json!(env!("CARGO_PKG_VERSION")), &json!([])));
    assert_eq!((&status["ids"]["issued"], &status["borrow"]["limit_ms"]), (&json!(7), &json!(3000)));
    assert_eq!((&status["claim"]["cluster"], &status["clients"]["over_http"]), (&json!(null), &json!(1)));
    let tweets = &status["generators"]["busiest"][0];
    assert_eq!(
        (&status["generators"]["count"], &tweets["name"], &tweets["kind"]),
        (&json!(1), &json!("tweets"), &json!("twitter"))
    );
    let orders = &status["sequences"]["busiest"][0];
    assert_eq!((&orders["name"], &orders["last"]), (&json!("orders"), &json!("37")));
    assert_eq!(status["sequences"]["stores"][0]["state"], "up");
    let lengths =
        ["ids_per_s", "values_per_s", "refused_per_s"].map(|name| status["history"][name].as_array().unwrap().len());
    assert!(lengths.iter().all(|&length| length == lengths[0]), "{status}");
}

#[test]
fn foreign_texts_stay_texts() {
    // Folders and users can have these names; sequences cannot.
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("<img src=x onerror=alert(1)>\n\nevent: end\u{202e}");
    fs::create_dir(&dir).unwrap();
    let port = free_port();
    let words = ["--http-port", &port.to_string(), "--http-bind", "127.0.0.1", "--sequence-create", "on-first-use"];
    let server = HttpServer { server: Server::start_in(&dir, &words), port };
    for name in HOSTILE {
        let refused = ask(&server, &["INCR", name]);
        assert!(refused.contains("cannot be the name of a sequence"), "{name}: {refused}");
    }
    // `event` asserts that the data is one line.
    let (name, status) = event(&mut look(server.port, &[])).unwrap();
    assert_eq!((name.as_str(), &status["sequences"]["busiest"]), ("status", &json!([])));
    assert_eq!(status["claim"]["folder"], dir.to_str().unwrap());
    let page = server.ask("GET /?alert(1)").text();
    assert!(page.contains("<script>") && !page.contains("alert(1)") && !page.contains(dir.to_str().unwrap()));
}

#[test]
fn the_stream_has_the_history_first_and_then_each_step() {
    let server = InProcess::start(quick(), |_| {});
    let mut viewer = look(server.port, &[]);
    let mut commands = server.commands();
    let (name, first) = event(&mut viewer).unwrap();
    assert_eq!((name.as_str(), first["history"].is_object()), ("status", true));
    eventually("a step in which IDs were given", || {
        assert!(commands.ask("MGETID 50").starts_with("*50"));
        let (name, event) = event(&mut viewer).unwrap();
        assert_eq!((name.as_str(), &event["history"]), ("status", &Value::Null));
        event["rate"]["ids_per_s"].as_u64() > Some(0)
    });
    let of_all = server.ask("GET /v1/status").json();
    let rates = of_all["history"]["ids_per_s"].as_array().unwrap();
    assert!(rates.iter().any(|rate| rate.as_u64() > Some(0)), "a later client gets it, too: {of_all}");
}

#[test]
fn the_page_needs_the_right_to_info() {
    let server = HttpServer::start(&["--requirepass", "secret", "--user", "blind on >x ~* +@all -info"]);
    for path in ["/v1/status", "/v1/status/stream", "/v1/status/details", "/v1/status/generators/-"] {
        let line = format!("GET {path}");
        let anonymous = server.ask(&line);
        assert_eq!((anonymous.status, anonymous.json()["code"].as_str()), (401, Some("NOAUTH")), "{path}");
        assert!(anonymous.header("www-authenticate").is_some());
        let wrong = server.ask_with(&line, &["Authorization: Bearer default:wrong"], "");
        assert_eq!((wrong.status, wrong.json()["code"].as_str()), (401, Some("WRONGPASS")), "{path}");
        let blind = server.ask_with(&line, &["Authorization: Bearer blind:x"], "");
        assert_eq!((blind.status, blind.json()["code"].as_str()), (403, Some("NOPERM")), "{path}");
        let elsewhere = server.ask_with(&line, &["Authorization: Bearer secret", "Sec-Fetch-Site: cross-site"], "");
        assert_eq!(elsewhere.status, 403, "{path}");
    }
    let own = ["Authorization: Bearer secret", "Sec-Fetch-Site: same-origin"];
    assert_eq!(server.ask_with("GET /v1/status", &own, "").status, 200);
    assert!(event(&mut look(server.port, &own)).is_some());
    // The page itself contains no data of the server.
    assert_eq!(server.ask("GET /").status, 200);
}

#[test]
fn the_stream_ends_when_its_viewer_loses_the_right() {
    let server = InProcess::start(quick(), |_| {});
    let mut commands = server.commands();
    for user in ["watch", "ops"] {
        assert_eq!(commands.ask(&format!("ACL SETUSER {user} on >x +info")), "+OK");
    }
    let mut deleted = look(server.port, &["Authorization: Bearer watch:x"]);
    assert_eq!(commands.ask("ACL DELUSER watch"), ":1");
    end(&mut deleted);
    let ops = ["Authorization: Bearer ops:x"];
    let mut forbidden = look(server.port, &ops);
    assert_eq!(commands.ask("ACL SETUSER ops -info"), "+OK");
    assert_eq!(end(&mut forbidden).unwrap()["code"], "NOPERM");
    assert_eq!(commands.ask("ACL SETUSER ops +info"), "+OK");
    let mut renamed = look(server.port, &ops);
    assert_eq!(commands.ask("ACL SETUSER ops <x >y"), "+OK");
    // Redis keeps a login after a change of the password. HTTP checks the login of each request, and of each event.
    assert_eq!(end(&mut renamed).unwrap()["code"], "WRONGPASS");
    let mut killed = look(server.port, &[]);
    assert_eq!(commands.ask("CLIENT KILL TYPE normal SKIPME yes").get(..1), Some(":"));
    end(&mut killed);
    let mut last = look(server.port, &[]);
    drop(server);
    end(&mut last);
}

#[test]
fn the_number_of_viewers_is_bounded() {
    let server = InProcess::start(quick(), |_| {});
    let mut viewers: Vec<_> = (0..VIEWERS_MAX).map(|_| look(server.port, &[])).collect();
    let late = server.ask("GET /v1/status/stream");
    assert_eq!(late.status, 503, "{late:?}");
    assert!(late.text().contains("32 viewers"), "{late:?}");
    assert_eq!(server.ask("GET /v1/status").status, 200);
    // Each viewer gets its events, and a viewer that leaves makes room for another one.
    assert!(viewers.iter_mut().all(|viewer| event(viewer).is_some() && event(viewer).is_some()));
    viewers.pop();
    eventually("a place is free", || {
        let mut viewer = server.connect();
        viewer.send(request("GET /v1/status/stream", &[], "").as_bytes());
        viewer.head().expect("a head").status == 200
    });
}

#[test]
fn a_pause_is_shown_while_it_lasts() {
    let server = InProcess::start(quick(), |_| {});
    let mut viewer = look(server.port, &[]);
    let mut commands = server.commands();
    // The pause also holds the command that checks the viewer's right.
    assert_eq!(commands.ask("CLIENT PAUSE 100000 ALL"), "+OK");
    let state = |viewer: &mut Http| event(viewer).unwrap().1["giving"]["state"].as_str().unwrap().to_owned();
    eventually("the pause is shown", || state(&mut viewer) == "paused");
    for _ in 0..3 {
        assert_eq!(state(&mut viewer), "paused");
    }
    assert_eq!(commands.ask("CLIENT UNPAUSE"), "+OK");
    eventually("the pause is over", || state(&mut viewer) == "giving");
}

#[test]
fn a_refusal_is_shown_with_its_remedy() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, away) = (parent.path().join("state"), parent.path().join("away"));
    fs::create_dir(&dir).unwrap();
    let port = free_port();
    let words = ["--http-port", &port.to_string(), "--http-bind", "127.0.0.1", "--id-max-borrow-ms", "500"];
    let words = [&words[..], &["--id-watermark-lead-ms", "400"]].concat();
    let server = HttpServer { server: Server::start_in(&dir, &words), port };
    fs::rename(&dir, &away).unwrap();
    let mut redis = server.server.connect();
    eventually("the server refuses", || redis.ask("GETID").starts_with("-MISCONF claim lost"));
    let giving = server.ask("GET /v1/status").json()["giving"].clone();
    assert_eq!(giving["state"], "refusing");
    assert!(giving["reason"].as_str().unwrap().starts_with("MISCONF claim lost: the folder"), "{giving}");
    assert!(giving["remedy"].as_str().unwrap().starts_with("Put the state folder back"), "{giving}");
    fs::rename(&away, &dir).unwrap();
    eventually("the server gives IDs again", || redis.ask("GETID").starts_with(':'));
}

#[test]
fn the_status_is_as_documented() {
    let words = ["--generator", "tweets twitter", "--generator", "trace uuid7", "--sequence-create", "on-first-use"];
    let more = ["--generator", "bill serial {n:6}", "--worker-pool", "batch size 8 lease 30s"];
    let server = HttpServer::start(&[&words[..], &more].concat());
    assert_eq!(ask(&server, &["INCR", "orders"]), ":1");
    let document = Document::of(&server);
    let of_generators = ["-", "tweets", "bill"].map(|name| format!("/generators/{name}"));
    for path in ["", "/details", "/sequences"].into_iter().chain(of_generators.iter().map(String::as_str)) {
        let line = format!("GET /v1/status{path}");
        document.check(&line, &server.ask(&line));
    }
}

#[test]
fn the_details_have_only_permitted_actions() {
    let words =
        ["--generator", "tweets twitter", "--generator", "shop.orders twitter", "--generator", "bill serial {n:6}"];
    let users = ["--requirepass", "secret", "--user", "shop on >x ~shop* +info +getid +incr +sequence|raise"];
    let words = [&words[..], &users, &["--sequence-create", "on-first-use"]].concat();
    let server = HttpServer::start(&words);
    let mut redis = server.server.connect();
    assert_eq!(redis.ask("AUTH secret"), "+OK");
    for name in ["shop:1", "other"] {
        assert_eq!(redis.ask(&format!("INCR {name}")), ":1");
    }
    assert_eq!(redis.ask("ACL LOG RESET"), "+OK");
    let reader = |login: &str| {
        let details = server.ask_with("GET /v1/status/details", &[&format!("Authorization: Bearer {login}")], "");
        assert_eq!(details.status, 200, "{details:?}");
        details.json()["reader"].clone()
    };
    assert_eq!(
        reader("shop:x"),
        json!({
            "user": "shop",
            "may": ["getid", "incr", "sequence|raise"],
            "generators": ["-", "shop.orders"],
            "sequences": ["shop:1"],
            "sequences_to_raise": ["shop:1"],
        })
    );
    let all = reader("default:secret");
    assert_eq!(all["generators"], json!(["-", "shop.orders", "tweets", "bill"]));
    assert_eq!((all["may"].as_array().unwrap().len(), &all["sequences"]), (11, &json!(["other", "shop:1"])));
    // The list of a user's rights is made without an attempt to use them.
    assert_eq!(redis.ask("ACL LOG"), "*0");
    // Actions that are not offered are also refused.
    let shop = |line: &str| server.ask_with(line, &["Authorization: Bearer shop:x"], "").status;
    assert_eq!((shop("POST /v1/ids/shop.orders"), shop("POST /v1/ids/tweets")), (200, 403));
    assert_eq!((shop("POST /v1/sequences/new"), shop("GET /v1/ids/1")), (403, 403));
    assert_eq!((shop("POST /v1/sequences/shop:1/values"), shop("POST /v1/sequences/other/values")), (200, 403));
    let log =
        server.ask_with("GET /v1/status/details", &["Authorization: Bearer default:secret"], "").json()["log"].clone();
    assert!(
        log.as_array()
            .unwrap()
            .iter()
            .any(|line| line["text"].as_str().unwrap().contains("Ready to accept connections")),
        "{log}"
    );
}

#[test]
fn permitted_actions_of_each_sequence_are_listed() {
    let users = ["--user", "shop on >x ~shop* +info +incr +sequence|list", "--user", "blind on >x ~* +@all -info"];
    let server = HttpServer::start(&users);
    for name in ["shop:1", "other"] {
        assert_eq!(ask(&server, &["SEQUENCE", "CREATE", name]), "+OK");
    }
    let list = |headers: &[&str]| server.ask_with("GET /v1/status/sequences", headers, "");
    let shop = list(&["Authorization: Bearer shop:x"]).json();
    let of = |name: &str, may_count: bool| {
        json!({
            "name": name, "next": "1", "increment": 1, "cache": 100, "may_count": may_count, "may_raise": false,
            "ends": null,
        })
    };
    assert_eq!(shop, json!({ "sequences": [of("other", false), of("shop:1", true)], "has_more": false }));
    let all = list(&[]).json();
    assert_eq!((&all["sequences"][0]["may_count"], &all["sequences"][1]["may_raise"]), (&json!(true), &json!(true)));
    assert_eq!(list(&["Authorization: Bearer blind:x"]).status, 403);
    assert_eq!(list(&["Sec-Fetch-Site: cross-site"]).status, 403);
}

/// The page's sentences name commands of the program in quotes.
#[test]
fn commands_of_the_program_that_the_page_names_exist() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/getid-http/src");
    let mut named = BTreeSet::new();
    for file in ["page", "status"].iter().flat_map(|folder| fs::read_dir(sources.join(folder)).unwrap()) {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for after in text.split(['\'', '`']).filter_map(|quoted| quoted.strip_prefix("getid ")) {
            let is_name = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
            named.insert(after.split_whitespace().take_while(is_name).collect::<Vec<_>>().join(" "));
        }
    }
    // The empty name comes from `getid ${version}`.
    named.remove("");
    assert!(["claim show", "state advance"].iter().all(|known| named.contains(*known)), "{named:?}");
    for words in named {
        let help = Command::new(binary()).args(words.split(' ')).arg("--help").output().unwrap();
        assert!(help.status.success(), "getid {words}: {}", String::from_utf8_lossy(&help.stderr));
    }
}

#[test]
fn a_generator_is_explained_with_its_chart() {
    let words = ["--generator", "tweets twitter", "--generator", "feed redis-lua one-server 0"];
    let counters = [
        ["--generator", "bill serial INV-{yyyy}-{n:6} zone UTC"],
        ["--generator", "tenant serial T-{key}-{n:6} keys-max 5"],
        ["--sequence-create", "on-first-use"],
    ]
    .concat();
    let server = HttpServer::start(&[&words[..], &counters].concat());
    assert!(ask(&server, &["GETID", "bill"]).starts_with('$'));
    let of = |name: &str| server.ask(&format!("GET /v1/status/generators/{name}"));
    let own = of("-").json();
    assert_eq!((&own["explanation"]["bits"], &own["counter"]), (&json!(63), &json!(null)));
    assert_eq!(of("tweets").json()["explanation"]["capacity_per_s"], json!(4_096_000));
    assert_eq!(of("feed").json()["request_fields"], json!(["shard"]));
    let bill = of("bill").json();
    assert_eq!((&bill["explanation"], &bill["counter"]["template"]), (&json!(null), &json!("INV-{yyyy}-{n:6}")));
    assert_eq!((&bill["counter"]["keys"], &bill["counter"]["keys_max"]), (&json!(null), &json!(null)));
    assert_eq!(of("tenant").json()["counter"]["keys"], json!(null));
    for key in ["a", "b"] {
        assert!(ask(&server, &["GETID", "tenant", "key", key]).starts_with('$'));
    }
    let tenant = of("tenant").json();
    assert_eq!((&tenant["counter"]["keys"], &tenant["counter"]["keys_max"]), (&json!(2), &json!(5)));
    assert_eq!((&bill["counter"]["last"], &bill["counter"]["reset"]), (&json!("1"), &json!("year")));
    assert!(bill["counter"]["sequence"].as_str().unwrap().starts_with("bill@Y2"), "{bill}");
    let status = server.ask("GET /v1/status").json();
    let row =
        status["generators"]["busiest"].as_array().unwrap().iter().find(|own| own["name"] == "bill").unwrap().clone();
    assert_eq!((&row["last"], &row["issued"]), (&json!("1"), &json!(1)));
    let unknown = of("tweetz");
    let detail = unknown.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(unknown.status, 404);
    assert!(detail.contains("no generator 'tweetz' is declared"), "{detail}");
    for (path, status) in [
        (format!("/v1/status/generators/{}", "x".repeat(300)), 400),
        ("/v1/status/generators/%3Cimg%20src%3Dx%3E".to_owned(), 404),
        ("/v1/status/generators/%ff".to_owned(), 400),
        ("/v1/status/generators/-?x=1".to_owned(), 400),
        ("/v1/status/details?x=1".to_owned(), 400),
        ("/v1/status/generators/".to_owned(), 404),
    ] {
        assert_eq!(server.ask(&format!("GET {path}")).status, status, "{path}");
    }
    assert_eq!(server.ask("POST /v1/status/details").status, 405);
}

#[test]
fn the_claims_of_a_fleet_are_listed() {
    let layout = Layout::new(Epoch::default(), 2, 9, 10).unwrap();
    let store = Arc::new(MemoryStore::default());
    let claim = ClaimRecord::new(Identity { server_id: 2, layout }, 2000, 1_795_000_000_000);
    store.write_now(&Key::of_claim(2), None, &claim.to_row(1).unwrap());
    let view = Arc::new(ClaimView::default());
    view.set_lister(ClaimLister::new(store));
    let server = InProcess::start_with(quick(), |_| {}, Some(&view));
    let details = server.ask("GET /v1/status/details");
    Document(server.ask("GET /openapi.json").json()).check("GET /v1/status/details", &details);
    let details = details.json();
    let fleet = &details["fleet"];
    assert_eq!((&fleet["error"], &fleet["has_more"]), (&json!(null), &json!(false)));
    assert_eq!(
        fleet["claims"],
        json!([{
            "server_id": 2, "state": "free", "name": "", "host": "", "address": "", "since": "2026-11-18T11:06:40.000Z",
            "written_ms_ago": null, "timeout_ms": 2000,
        }])
    );
}

#[test]
fn minutes_of_the_day_and_steps_of_charts_are_noted() {
    let server = InProcess::start(quick(), |_| {});
    let mut commands = server.commands();
    eventually("a minute, and a step with IDs", || {
        assert!(commands.ask("MGETID 50").starts_with("*50"));
        let some = |of: &Value| of.as_array().unwrap().iter().any(|given| given.as_u64() > Some(0));
        let day = server.ask("GET /v1/status/details").json()["day"].clone();
        let chart = server.ask("GET /v1/status/generators/-").json()["chart"]["given"].clone();
        some(&day["ids_per_s"]) && some(&day["ids_per_s_max"]) && some(&chart)
    });
}

/// `tests/clients/page.mjs` starts and stops the server itself, and removes its folder. Its screenshots are in
/// target/page.
#[test]
#[ignore = "needs chromium, and node with playwright-core and axe-core (GETID_TEST_NODE_DIR)"]
fn people_see_each_state_in_a_real_browser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("node");
    command
        .arg(root.join("tests/clients/page.mjs"))
        .env("GETID_BINARY", binary())
        .env("GETID_DIR", dir.path())
        .env("GETID_SHOTS", root.join("target/page"))
        .env("GETID_PORT", free_port().to_string())
        .env("GETID_HTTP_PORT", free_port().to_string());
    let output = finish(&mut command, "", Duration::from_mins(10), false);
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(printed, "ok page\n", "{complaints}");
}
