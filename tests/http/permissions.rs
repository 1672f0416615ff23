//! Permissions: random users send the same requests over both ports, and get the same verdicts.

use std::collections::BTreeMap;

use base64::Engine as _;

use super::document::Document;
use crate::support::http::{Http, HttpServer, request};
use crate::support::{Wire, folder, seal_key_file};

/// An HTTP request with its body, and the commands whose permission it needs: all commands separated by ` & `, and one
/// of those separated by ` | `.
const CASES: [(&str, &str, &str); 44] = [
    ("POST /v1/ids/-", "", "GETID"),
    ("POST /v1/ids/-?count=2", "", "MGETID 2"),
    ("POST /v1/ids/tweets", "", "GETID tweets"),
    ("POST /v1/ids/trace?count=3", "", "MGETID 3 trace"),
    ("POST /v1/ids/bill?key=acme", "", "GETID bill key acme"),
    ("POST /v1/ids/bill?key=other&count=2", "", "MGETID 2 bill key other"),
    ("GET /v1/ids/1", "", "DECODEID 1"),
    ("GET /v1/ids/1?generator=tweets", "", "DECODEID 1 tweets"),
    ("GET /v1/spans?from=1500000000000&to=now", "", "IDSPAN 1500000000000 now"),
    ("GET /v1/spans?from=1500000000000&to=now&generator=trace", "", "IDSPAN 1500000000000 now trace"),
    ("GET /v1/encode/tweets?time=now&force", "", "ENCODEID tweets TIME now FORCE"),
    ("GET /v1/seal/secret/1", "", "SEALID secret 1"),
    ("GET /v1/open/secret/3rTGUx6w9tqZ", "", "OPENID secret 3rTGUx6w9tqZ"),
    ("GET /v1/generators", "", "GENERATORS"),
    ("GET /v1/generators/tweets", "", "GENERATORS"),
    ("GET /v1/sequences", "", "SEQUENCE LIST"),
    ("GET /v1/sequences/orders", "", "SEQUENCE INFO orders"),
    ("POST /v1/sequences/orders", "", "SEQUENCE CREATE orders"),
    ("PATCH /v1/sequences/orders", r#"{"last":1}"#, "SEQUENCE RAISE orders 1"),
    ("PATCH /v1/sequences/invoices", r#"{"cache":10}"#, "SEQUENCE ALTER invoices cache 10"),
    ("POST /v1/sequences/orders/values", "", "INCR orders"),
    ("POST /v1/sequences/invoices/values?count=2", "", "SEQUENCE NEXT invoices COUNT 2"),
    ("POST /v1/sequences/invoices/values?above=0", "", "SEQUENCE NEXT invoices COUNT 1 ABOVE 0"),
    ("POST /v1/sequences/tweets/values", "", "INCR tweets"),
    // The generator has no series for keys, so nothing is reserved.
    ("POST /v1/numbers/bill/reserve", r#"{"request":"r","key":"k"}"#, "NUMBER RESERVE bill REQUEST r KEY k"),
    ("POST /v1/numbers/bill/commit", r#"{"request":"r"}"#, "NUMBER COMMIT bill r"),
    ("POST /v1/numbers/bill/release", r#"{"request":"r","key":"k"}"#, "NUMBER RELEASE bill r KEY k"),
    ("POST /v1/numbers/bill/void", r#"{"request":"r","reason":"x"}"#, "NUMBER VOID bill r REASON x"),
    (
        "POST /v1/numbers/bill/settle",
        r#"{"text":"B1","state":"void","reason":"x"}"#,
        "NUMBER SETTLE bill B1 VOID REASON x",
    ),
    ("GET /v1/numbers/bill/ledger", "", "NUMBER LEDGER bill"),
    ("GET /v1/workers/orders", "", "WORKERID INFO orders"),
    ("GET /v1/workers/orders/leases", "", "WORKERID LIST orders"),
    ("POST /v1/workers/orders/leases", "", "WORKERID LEASE orders"),
    ("POST /v1/workers/orders/leases/7/renew", SHOWN, "WORKERID RENEW orders 7 00000000000000000000000000000000"),
    ("POST /v1/workers/orders/leases/7/release", SHOWN, "WORKERID RELEASE orders 7 00000000000000000000000000000000"),
    ("POST /v1/workers/invoices/leases/7/revoke", "", "WORKERID REVOKE invoices 7"),
    ("GET /v1/status", "", "INFO cluster"),
    ("GET /v1/status/stream", "", "INFO cluster"),
    ("GET /v1/status/details", "", "INFO cluster"),
    ("GET /v1/status/generators/-", "", "INFO cluster & GENERATORS | GETID"),
    ("GET /v1/status/generators/tweets", "", "INFO cluster & GENERATORS | GETID tweets"),
    ("GET /v1/status/sequences", "", "INFO cluster & SEQUENCE LIST"),
    ("GET /metrics", "", "INFO cluster"),
    ("GET /readyz?verbose", "", "INFO cluster"),
];

/// A token of the right form that is not valid.
const SHOWN: &str = r#"{"token":"00000000000000000000000000000000"}"#;

const USERS: u64 = 140;

/// Rules, of which each user gets some in a random order.
const RULES: [&str; 50] = [
    "+@all",
    "-@all",
    "+@all",
    "allcommands",
    "nocommands",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@fast",
    "-@slow",
    "+@dangerous",
    "-@dangerous",
    "+@keyspace",
    "-@admin",
    "+getid",
    "-getid",
    "+mgetid",
    "-mgetid",
    "+decodeid",
    "-idspan",
    "+sealid",
    "+openid",
    "-openid",
    "+incr",
    "-incr",
    "+sequence",
    "-sequence",
    "+sequence|info",
    "-sequence|create",
    "+sequence|next",
    "+workerid",
    "-workerid",
    "+workerid|lease",
    "+generators",
    "+number",
    "~bill",
    "+info",
    "-info",
    "~*",
    "~orders",
    "~o*",
    "~tweets",
    "~bill",
    "~bill/ACME",
    "%R~invoices",
    "%W~*",
    "resetkeys",
    "\"(+incr ~orders)\"",
    "\"(+@all %R~tweets)\"",
];

/// A deterministic random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// The verdict on a request: the code of the refusal, or `allowed`.
type Verdict = String;

fn verdict_of(code: &str) -> Verdict {
    let is_refusal = ["NOPERM", "NOAUTH", "WRONGPASS"].contains(&code);
    if is_refusal { code.to_owned() } else { "allowed".to_owned() }
}

/// Returns the verdict of the next reply.
fn of_resp(wire: &mut Wire) -> Verdict {
    let reply = String::from_utf8_lossy(&wire.reply()).into_owned();
    verdict_of(reply.strip_prefix('-').and_then(|error| error.split(' ').next()).unwrap_or_default())
}

/// Returns the verdict of the next replies, which answer `commands` as in [`CASES`].
fn of_commands(wire: &mut Wire, commands: &str) -> Verdict {
    let verdicts = commands.split(" & ").map(|some| {
        let some: Vec<_> = some.split(" | ").map(|_| of_resp(wire)).collect();
        some.iter().find(|verdict| *verdict == "allowed").unwrap_or(&some[0]).clone()
    });
    let verdicts: Vec<_> = verdicts.collect();
    verdicts.iter().find(|verdict| *verdict != "allowed").unwrap_or(&verdicts[0]).clone()
}

/// Returns the verdict of the next response, which answers `line`. The body of a stream is not read.
fn of_http(http: &mut Http, line: &str) -> Verdict {
    let mut response = http.head().unwrap();
    if response.status == 200 && is_stream(line) {
        return verdict_of("");
    }
    response.body = http.body(&response).unwrap();
    let is_problem = response.header("content-type") == Some("application/problem+json");
    let problem = if is_problem { response.json() } else { serde_json::Value::Null };
    let code = problem["code"].as_str().unwrap_or_default().to_owned();
    let status = match code.as_str() {
        "NOPERM" => 403,
        "NOAUTH" | "WRONGPASS" => 401,
        _ => response.status,
    };
    assert_eq!(response.status, status, "{line}: {response:?}");
    assert!(![401, 403].contains(&status) || verdict_of(&code) != "allowed", "{line}: {response:?}");
    verdict_of(&code)
}

fn is_stream(line: &str) -> bool {
    line.ends_with("stream")
}

/// A user: its rules, whether it logs in, and its password.
struct User {
    name: String,
    rules: Vec<&'static str>,
    password: &'static str,
    logs_in: bool,
}

fn user(seed: u64) -> User {
    let mut dice = Dice(seed);
    dice.0 = dice.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // A user that does not log in is the default user.
    let logs_in = dice.below(10) > 0;
    let mut rules = vec![if dice.below(16) == 0 { "off" } else { "on" }];
    let kind = dice.below(16);
    rules.push(if kind == 0 { "nopass" } else { ">secret" });
    if dice.below(3) == 0 {
        rules.push("~*");
    }
    for _ in 0..dice.below(9) {
        let rule = RULES[dice.below(RULES.len())];
        // A key pattern after `~*` is an error.
        if rule.starts_with(['~', '%']) {
            rules.retain(|rule| *rule != "~*");
        }
        rules.push(rule);
    }
    let password = if dice.below(20) == 0 { "wrong" } else { "secret" };
    if !logs_in && dice.below(2) == 0 {
        rules.push("nopass");
    }
    User { name: if logs_in { format!("u{seed}") } else { "default".to_owned() }, rules, password, logs_in }
}

/// The number of answers for each case and verdict.
type Seen = BTreeMap<(&'static str, Verdict), usize>;

fn compare(server: &HttpServer, user: &User, seen: &mut Seen) {
    let User { name, rules, password, logs_in } = user;
    let mut wire = server.server.connect();
    let refused = logs_in.then(|| {
        wire.send(format!("AUTH {name} {password}\r\n"));
        of_resp(&mut wire)
    });
    let refused = refused.filter(|verdict| verdict != "allowed");
    let login = format!("{name}:{password}");
    let header = if rules.len() % 2 == 0 {
        format!("Authorization: Bearer {login}")
    } else {
        format!("Authorization: Basic {}", base64::engine::general_purpose::STANDARD.encode(login))
    };
    let header: Vec<&str> = logs_in.then_some(header.as_str()).into_iter().collect();
    // A wrong login is answered late, so one case is enough.
    let cases = if refused.is_none() { &CASES[..] } else { &CASES[..1] };
    if refused.is_none() {
        let commands =
            cases.iter().flat_map(|(_, _, commands)| commands.split(" & ").flat_map(|some| some.split(" | ")));
        wire.send(commands.flat_map(|command| [command, "\r\n"]).collect::<String>());
    }
    let ask = |line: &str, body: &str| request(line, &header, body);
    let mut http = server.connect();
    let requests = cases.iter().filter(|(line, ..)| !is_stream(line)).map(|(line, body, _)| ask(line, body));
    http.send(requests.collect::<String>().as_bytes());
    for (line, _, command) in cases {
        let expected = refused.clone().unwrap_or_else(|| of_commands(&mut wire, command));
        let found = if is_stream(line) {
            let mut own = server.connect();
            own.send(ask(line, "").as_bytes());
            of_http(&mut own, line)
        } else {
            of_http(&mut http, line)
        };
        assert_eq!(found, expected, "{line} and {command}, of {name} with {rules:?}, by {header:?}");
        *seen.entry((line, found)).or_default() += 1;
    }
}

#[test]
fn random_users_may_the_same_on_both_ports() {
    let dir = folder();
    let secret = format!("secret twitter seal key-file {}", seal_key_file(dir.path()));
    let (bill, receipt) = ("bill serial B-{key}-{n:6}", "receipt serial B{n:6} gapless");
    let generators =
        ["tweets twitter", "trace uuid7", bill, receipt, &secret].map(|line| ["--generator", line]).concat();
    let server = HttpServer::start(&generators);
    let mut admin = server.server.connect();
    for line in ["SEQUENCE CREATE orders", "SEQUENCE CREATE invoices", "ACL SETUSER admin on >admin ~* +@all"] {
        assert_eq!(admin.ask(line), "+OK", "{line}");
    }
    assert_eq!(admin.ask("AUTH admin admin"), "+OK");
    let mut seen = Seen::new();
    for seed in 0..USERS {
        let user = user(seed);
        let set = admin.ask(&format!("ACL SETUSER {} reset {}", user.name, user.rules.join(" ")));
        assert_eq!(set, "+OK", "{:?}", user.rules);
        compare(&server, &user, &mut seen);
    }
    // Each verdict occurs, and at least twice.
    for (line, ..) in CASES {
        for verdict in ["allowed", "NOPERM"] {
            assert!(seen.get(&(line, verdict.to_owned())) >= Some(&2), "{line}: {seen:?}");
        }
    }
    for verdict in ["NOAUTH", "WRONGPASS"] {
        let times: usize = seen.iter().filter(|((_, own), _)| own == verdict).map(|(_, times)| times).sum();
        assert!(times >= 3, "{verdict}: {seen:?}");
    }
}

/// `INFO` alone gives no access to a generator's data, log lines, or claims of other servers.
#[test]
fn the_right_to_info_shows_no_more_than_the_status() {
    let words = ["--generator", "tweets twitter", "--generator", "shop.bill serial {n:6}", "--requirepass", "secret"];
    let server = HttpServer::start(&words);
    let mut admin = server.server.connect();
    assert_eq!(admin.ask("AUTH secret"), "+OK");
    for (rules, generators, has_log) in [
        ("+info", [403, 403, 403, 403], false),
        ("+info +generators", [200, 200, 200, 404], false),
        ("+info +getid ~shop*", [200, 403, 200, 403], false),
        ("+info +config|get", [403, 403, 403, 403], true),
    ] {
        assert_eq!(admin.ask(&format!("ACL SETUSER viewer reset on >x {rules}")), "+OK");
        let ask = |path: &str| server.ask_with(&format!("GET {path}"), &["Authorization: Bearer viewer:x"], "");
        let found =
            ["-", "tweets", "shop.bill", "unknown"].map(|name| ask(&format!("/v1/status/generators/{name}")).status);
        assert_eq!(found, generators, "{rules}");
        let details = ask("/v1/status/details").json();
        let may = details["reader"]["may"].as_array().unwrap().contains(&"config|get".into());
        assert_eq!((details["log"].is_array(), may), (has_log, has_log), "{rules}: {details}");
    }
}

/// Every endpoint with a command is in the cases above.
#[test]
fn every_endpoint_is_compared() {
    let document = Document::of(&HttpServer::start(&[]));
    let asked = |method: &str, path: &str| {
        CASES.iter().any(|(line, ..)| {
            let (own, target) = line.split_once(' ').unwrap();
            let found = document.operation(own, target).map(|(path, _)| path);
            own.eq_ignore_ascii_case(method) && found.as_deref() == Some(path)
        })
    };
    for (path, methods) in document.0["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation.get("x-getid-commands").is_none() || asked(method, path), "{method} {path}");
        }
    }
}
