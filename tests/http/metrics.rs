//! `GET /metrics`: INFO's values in Prometheus's formats, and access to them.

#![allow(clippy::float_cmp, reason = "whole numbers are exact")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use getid_server::metrics::export::{Conversion, Export, Series, UNNAMED, families};
use getid_server::metrics::table::{SECTIONS, ValueSource};

use crate::support::http::{HttpServer, request};
use crate::support::prometheus::Prometheus;
use crate::support::{PATIENCE, Wire, eventually, folder, free_port, program};

const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const ACCEPT_OPEN: &str = "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// Returns the text of a scrape, which must have the status 200.
fn scrape(server: &HttpServer, headers: &[&str]) -> String {
    let response = server.ask_with("GET /metrics", headers, "");
    assert_eq!(response.status, 200, "{}", response.text());
    response.text()
}

/// Returns the value of each sample by `name{labels}`.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut samples = BTreeMap::new();
    for line in lines {
        let (name, value) = line.rsplit_once(' ').expect(line);
        let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(samples.insert(name.to_owned(), value).is_none(), "{name} appears twice");
    }
    samples
}

/// Returns the fields of INFO, with each part of a line as `line: part`.
fn fields(wire: &mut Wire) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    for line in wire.ask_bulk("INFO everything").lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        fields.insert(name.to_owned(), value.to_owned());
        for (part, value) in value.split(',').filter_map(|part| part.split_once('=')) {
            fields.insert(format!("{name}: {part}"), value.to_owned());
        }
    }
    fields
}

fn converted(value: &str, conversion: Conversion) -> f64 {
    let number = || value.parse::<f64>().unwrap_or_else(|_| panic!("{value} is no number"));
    match conversion {
        Conversion::Plain => number(),
        Conversion::Ms => number() / 1e3,
        Conversion::Us => number() / 1e6,
        Conversion::OneIf(word) => f64::from(value == word),
        Conversion::OneUnless(word) => f64::from(value != word),
    }
}

fn named(series: &Series, owner: Option<(&str, &str)>) -> String {
    let labels: Vec<_> =
        owner.into_iter().chain(series.label).map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    if labels.is_empty() { series.family.to_owned() } else { format!("{}{{{}}}", series.family, labels.join(",")) }
}

/// Returns all values that are in INFO and in `/metrics`: the field, the sample, and the conversion.
fn pairs(info: &BTreeMap<String, String>) -> Vec<(String, String, Conversion)> {
    let mut pairs = Vec::new();
    let mut add = |export: &Export, field: String, owner: Option<(&str, &str)>| {
        if let Export::Series(series) = export
            && series.source.is_none()
            && info.contains_key(&field)
        {
            pairs.push((field, named(series, owner), series.conversion));
        }
    };
    for metric in SECTIONS.iter().flat_map(|section| section.metrics) {
        if let Export::Parts { label, parts } = metric.export {
            let owners: Vec<_> = info
                .keys()
                .filter(|name| !name.contains(':'))
                .filter_map(|name| name.strip_prefix(metric.name))
                .collect();
            for owner in owners {
                for part in parts {
                    add(&part.export, format!("{}{owner}: {}", metric.name, part.name), Some((label, owner)));
                }
            }
        } else if matches!(metric.source, ValueSource::Generator(_)) {
            let owners: Vec<_> = info
                .keys()
                .filter(|name| !name.contains(':'))
                .filter_map(|name| name.strip_prefix("generator_"))
                .collect();
            for owner in owners {
                add(&metric.export, format!("generator_{owner}: {}", metric.name), Some(("generator", owner)));
            }
        } else {
            add(&metric.export, metric.name.to_owned(), None);
        }
    }
    pairs
}

/// Returns the number of samples that lie between INFO's values before and after, or an error with the first other one.
fn compare(
    before: &BTreeMap<String, String>,
    exported: &BTreeMap<String, f64>,
    after: &BTreeMap<String, String>,
) -> Result<usize, String> {
    // Values that may rise and fall between two readings.
    let restless =
        ["used_memory", "client_buffers_bytes", "client_recent_max_output_buffer", "client_recent_max_input_buffer"];
    let mut compared = 0;
    for (field, sample, conversion) in pairs(before) {
        let own =
            *exported.get(&sample).ok_or_else(|| format!("{field} is not exported as {sample}:\n{exported:#?}"))?;
        // The scrape itself is a connection to the HTTP port.
        if restless.contains(&field.as_str()) || field.starts_with("http_") {
            continue;
        }
        let ends = [before, after].map(|info| converted(&info[&field], conversion));
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        // INFO truncates to its unit, and recent rates fall from sample to sample.
        let slack = if field.contains("ms") || field.contains("rate_") { 0.02 } else { 1e-9 };
        if own < low - slack || own > high + slack {
            return Err(format!("{field} is {low} to {high}, and {sample} is {own}"));
        }
        compared += 1;
    }
    Ok(compared)
}

#[test]
fn metrics_equal_info() {
    let words =
        ["--generator", "orders", "twitter", "--generator", "trace", "uuid7", "--sequence-create", "on-first-use"];
    let server = HttpServer::start(&words);
    let mut wire = server.server.connect();
    for request in
        ["MGETID 100", "MGETID 7 orders", "GETID trace", "INCRBY invoices 3", "INCR customers", "NOSUCH", "GETID a b c"]
    {
        wire.send(format!("{request}\r\n"));
        wire.reply();
    }
    // Other values may rise and fall between two readings on a slow machine, too: then the comparison is repeated.
    let mut last = String::new();
    let end = Instant::now() + PATIENCE;
    let (exported, after, compared) = loop {
        assert!(Instant::now() < end, "{last}");
        let before = fields(&mut wire);
        let exported = samples(&scrape(&server, &[]));
        let after = fields(&mut wire);
        match compare(&before, &exported, &after) {
            Ok(compared) => break (exported, after, compared),
            Err(error) => last = error,
        }
    };
    assert!(compared > 100, "{compared}");

    for (sample, value) in [
        ("getid_ids_issued_total{generator=\"(unnamed)\"}", 100.0),
        ("getid_ids_issued_total{generator=\"orders\"}", 7.0),
        ("getid_ids_issued_total{generator=\"trace\"}", 1.0),
        ("getid_generator_info{generator=\"orders\",kind=\"twitter\"}", 1.0),
        ("getid_sequence_given_total{sequence=\"invoices\"}", 3.0),
        ("getid_sequence_last_value{sequence=\"customers\"}", 1.0),
        ("getid_sequences_unlisted", 0.0),
        ("getid_commands_total{command=\"mgetid\"}", 2.0),
        ("getid_command_duration_seconds_count{command=\"mgetid\"}", 2.0),
        ("getid_command_duration_seconds_bucket{le=\"+Inf\",command=\"mgetid\"}", 2.0),
        ("getid_refusing{generator=\"(unnamed)\"}", 0.0),
        ("getid_refusing{generator=\"orders\"}", 0.0),
        ("getid_claim_held", 1.0),
        ("getid_watermark_last_save_ok", 1.0),
        ("getid_store_up{store=\"0\"}", 1.0),
        ("getid_layout_field_width{field=\"shard\"}", 9.0),
    ] {
        assert_eq!(exported.get(sample), Some(&value), "{sample}");
    }
    // Times that INFO has as milliseconds since another epoch, or as text.
    let now = exported["getid_time_seconds"];
    assert!((now - exported["getid_reference_timestamp_seconds"]).abs() < 60.0, "{exported:?}");
    assert!((exported["getid_position_timestamp_seconds"] - now).abs() < 60.0, "{exported:?}");
    assert!(exported["getid_watermark_timestamp_seconds"] > exported["getid_position_timestamp_seconds"]);
    // A save may end between the two readings.
    assert!((now - exported["getid_watermark_last_save_timestamp_seconds"]).abs() < 60.0, "{exported:?}");
    let end = exported[&format!("getid_layout_end_timestamp_seconds{{generator=\"{UNNAMED}\"}}")];
    let days: f64 = after["layout_days_left"].parse().unwrap();
    assert!(((end - now) / 86_400.0 - days).abs() < 2.0, "{end} {days}");
}

/// Every family of the table is exported, except those without a sample on a server without TLS, refusals and errors.
#[test]
fn every_family_is_exported() {
    let pool = ["--worker-pool", "orders size 8 lease 30s"];
    let server = HttpServer::start(
        &[
            &pool[..],
            &["--generator", "orders", "twitter", "--generator", "receipt serial R{n:6} gapless"],
            &["--sequence-create", "on-first-use"],
        ]
        .concat(),
    );
    let mut wire = server.server.connect();
    assert_eq!(wire.ask("INCR invoices"), ":1");
    // The counts of ledgers are read by a task.
    eventually("the ledger is counted", || scrape(&server, &[]).contains("getid_numbers_overdue{"));
    assert!(wire.ask("NOSUCH").starts_with("-ERR"));
    let text = scrape(&server, &[]);
    let exported: BTreeSet<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let all: BTreeSet<_> = families().iter().map(|family| family.name).collect();
    // A sequence without values in memory has no last reserved value.
    let may_be_missing = ["getid_tls_certificate_end_timestamp_seconds", "getid_sequence_reserved_until"];
    // Families of a claim in a cluster store, which `standby` tests.
    let is_of_a_fleet = |name: &str| name.starts_with("getid_claim_") && name != "getid_claim_held";
    let may_be_missing = |name: &str| may_be_missing.contains(&name) || is_of_a_fleet(name);
    let missing: Vec<_> = all.difference(&exported).filter(|name| !may_be_missing(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(exported.difference(&all).count(), 0, "each comes from a row of the table");
}

#[test]
fn accept_selects_the_format() {
    let server = HttpServer::start(&[]);
    for (accept, media) in [("Accept: */*", PLAIN), (ACCEPT_OPEN, OPEN), ("Accept: text/html", PLAIN)] {
        let response = server.ask_with("GET /metrics", &[accept], "");
        assert_eq!((response.status, response.header("content-type")), (200, Some(media)), "{accept}");
        assert_eq!(response.header("vary"), Some("Accept, Accept-Encoding"));
        assert_eq!(response.text().ends_with("# EOF\n"), media == OPEN, "{accept}");
    }
    let names = |text: &str| -> BTreeSet<String> { samples(text).into_keys().collect() };
    let plain = names(&scrape(&server, &[]));
    let open = names(&scrape(&server, &[ACCEPT_OPEN]));
    assert!(open.is_superset(&plain), "{:?}", plain.difference(&open).collect::<Vec<_>>());
    let mut http = server.connect();
    http.send(request("HEAD /metrics", &[], "").as_bytes());
    assert_eq!(http.head().unwrap().status, 200);
    assert_eq!(server.ask("POST /metrics").status, 405);
}

/// A user with the right to INFO may read `/metrics`.
#[test]
fn metrics_need_the_right_to_info() {
    let server = HttpServer::start(&["--requirepass", "secret"]);
    let mut wire = server.server.connect();
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    assert_eq!(wire.ask("ACL SETUSER scraper on >scraping -@all +info"), "+OK");
    assert_eq!(wire.ask("ACL SETUSER drawer on >drawing -@all +getid"), "+OK");
    let status = |headers: &[&str]| server.ask_with("GET /metrics", headers, "").status;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&["Authorization: Bearer scraper:wrong"]), 401);
    assert_eq!(status(&["Authorization: Bearer drawer:drawing"]), 403);
    assert_eq!(status(&["Authorization: Bearer scraper:scraping"]), 200);
    // The same login by Basic.
    assert_eq!(status(&["Authorization: Basic c2NyYXBlcjpzY3JhcGluZw=="]), 200);
    assert_eq!(wire.ask("CONFIG SET http-open \"probes metrics\""), "+OK");
    assert_eq!(status(&[]), 200);
    assert_eq!(status(&["Host: 192.0.2.7:7880"]), 200);
    assert_eq!(status(&["Host: page.example"]), 421, "a foreign page cannot read it in a browser");
    assert_eq!(wire.ask("CONFIG SET http-host page.example"), "+OK");
    assert_eq!(status(&["Host: page.example"]), 200);
    assert_eq!(wire.ask("CONFIG SET http-open probes"), "+OK");
    assert_eq!(status(&[]), 401);
}

/// A thousand sequences are exported one by one, and the others together.
#[test]
fn many_sequences_are_bounded() {
    const MORE: usize = 1_200;
    let server = HttpServer::start(&["--sequence-create", "on-first-use"]);
    let mut wire = server.server.connect();
    for number in 0..MORE {
        wire.send(format!("INCRBY s:{number} 2\r\n"));
    }
    (0..MORE).for_each(|_| assert_eq!(wire.line(), ":2"));
    // Values may be fetched ahead between the lines of a scrape.
    let mut exported = BTreeMap::new();
    eventually("the parts sum up to the total", || {
        exported = samples(&scrape(&server, &[]));
        let left = exported.iter().filter(|(name, _)| name.starts_with("getid_sequence_left{sequence="));
        left.map(|(_, value)| *value).sum::<f64>() + exported["getid_sequences_unlisted_held"]
            == exported["getid_sequences_held"]
    });
    let of = |family: &str| -> Vec<f64> {
        let start = format!("{family}{{sequence=");
        exported.iter().filter(|(name, _)| name.starts_with(&start)).map(|(_, value)| *value).collect()
    };
    assert_eq!(of("getid_sequence_given_total").len(), 1_000);
    assert_eq!(exported["getid_sequences_in_memory"], 1_200.0);
    assert_eq!(exported["getid_sequences_unlisted"], 200.0);
    assert_eq!(exported["getid_sequences_given_total"], 2_400.0);
    assert_eq!(
        of("getid_sequence_given_total").iter().sum::<f64>() + exported["getid_sequences_unlisted_given"],
        2_400.0
    );
}

/// A server that has lost its folder reports that it refuses, and that it has lost its claim.
#[test]
fn a_refusing_server_reports_it() {
    let server = refusing();
    let exported = samples(&scrape(&server, &[]));
    assert_eq!(exported["getid_claim_held"], 0.0);
    assert_eq!(exported["getid_watermark_last_save_ok"], 0.0);
    assert_eq!(exported["getid_refusing{generator=\"orders\"}"], 1.0);
}

/// Returns a server whose folder is gone.
fn refusing() -> HttpServer {
    let words = ["--generator", "orders", "twitter", "--id-max-borrow-ms", "500", "--id-watermark-lead-ms", "400"];
    let server = HttpServer::start(&words);
    remove(&server);
    let mut wire = server.server.connect();
    eventually("the server refuses", || wire.ask("GETID").starts_with("-MISCONF"));
    let mut wire = server.server.connect();
    eventually("INFO has the refusal", || wire.info("refusing").starts_with("MISCONF claim lost"));
    server
}

/// Deletes the server's folder, in which the server may create a file at the same time.
fn remove(server: &HttpServer) {
    eventually("the folder is removed", || std::fs::remove_dir_all(&server.server.dir).is_ok());
}

/// A folder whose name has all characters that a label escapes.
#[test]
fn labels_are_escaped() {
    let server = oddly_named(&[]);
    let text = scrape(&server, &[]);
    assert!(text.contains("state_dir=") && text.contains(r#"odd \"name\" \\ \n ü"#), "{text}");
}

fn oddly_named(words: &[&str]) -> HttpServer {
    let above = Box::leak(Box::new(folder()));
    let dir = above.path().join("odd \"name\" \\ \n ü");
    std::fs::create_dir(&dir).unwrap();
    let port = free_port().to_string();
    let all = [&["--http-port", &port, "--http-bind", "127.0.0.1"], words].concat();
    HttpServer { server: crate::support::Server::start_in(&dir, &all), port: port.parse().unwrap() }
}

#[test]
#[ignore = "needs promtool"]
fn promtool_finds_nothing() {
    let check = |text: &str| program::run(Command::new("promtool").args(["check", "metrics"]), text);
    let mut words = Vec::new();
    let names: Vec<String> = (0..300).map(|number| format!("a-{number}_B.c:{number}")).collect();
    let kinds = ["twitter", "uuid4", "uuid7", "sonyflake", "objectid", "leaf"];
    for (name, kind) in names.iter().zip(kinds.iter().cycle()) {
        words.extend(["--generator", name, kind]);
    }
    words.extend(["--sequence-create", "on-first-use"]);
    let many = oddly_named(&words);
    let mut wire = many.server.connect();
    for name in &names {
        wire.send(format!("GETID {name}\r\nINCR s:{name}\r\n"));
        let id = wire.reply();
        assert_ne!(id[0], b'-', "{name}: {}", String::from_utf8_lossy(&id));
        assert_eq!(wire.line(), ":1");
    }
    assert!(wire.ask("NOSUCH").starts_with("-ERR"));
    for server in [HttpServer::start(&[]), many, refusing()] {
        let text = scrape(&server, &[]);
        assert!(samples(&text).len() > 150);
        assert_eq!(check(&text), "", "promtool objects");
    }
    // promtool objects to a wrong name.
    let mut wrong = Command::new("sh");
    wrong.args(["-c", "printf '# TYPE getid_milliseconds gauge\\ngetid_milliseconds 1\\n' | promtool check metrics"]);
    assert!(program::fails(&mut wrong).contains("milliseconds"));
}

/// Starts a proxy that adds `Accept: text/plain`, because Prometheus always prefers OpenMetrics.
fn plain_only(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            std::thread::spawn(move || forward(stream, to));
        }
    });
    port
}

fn forward(mut stream: TcpStream, to: u16) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let text = String::from_utf8(head).ok()?;
    let is_kept = |line: &&str| {
        let line = line.to_ascii_lowercase();
        !line.starts_with("accept") && !line.starts_with("connection") && !line.is_empty()
    };
    let mut lines: Vec<_> = text.split("\r\n").filter(is_kept).collect();
    lines.extend(["Accept: text/plain", "Connection: close", "", ""]);
    let mut server = TcpStream::connect(("127.0.0.1", to)).ok()?;
    server.write_all(lines.join("\r\n").as_bytes()).ok()?;
    let mut response = Vec::new();
    server.read_to_end(&mut response).ok()?;
    stream.write_all(&response).ok()
}

#[test]
#[ignore = "needs Prometheus"]
fn a_real_prometheus_reads_both_formats_and_evaluates_the_rules() {
    let server = HttpServer::start(&[
        "--requirepass",
        "secret",
        "--generator",
        "orders",
        "twitter",
        "--sequence-create",
        "on-first-use",
        "--id-max-borrow-ms",
        "500",
        "--id-watermark-lead-ms",
        "400",
    ]);
    let mut wire = server.server.connect();
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    assert_eq!(wire.ask("ACL SETUSER scraper on >scraping -@all +info"), "+OK");
    wire.send("MGETID 70\r\nMGETID 5 orders\r\nINCRBY invoices 12\r\n");
    (0..3).for_each(|_| drop(wire.reply()));

    let login = "    basic_auth: {username: scraper, password: scraping}\n";
    let plain = plain_only(server.port);
    let prometheus = Prometheus::start(&[("open", server.port, login), ("plain", plain, login)]);
    for job in ["open", "plain"] {
        eventually("the server is scraped", || prometheus.one(&format!("up{{job=\"{job}\"}}")) == Some(1.0));
        for (query, field) in [
            ("getid_ids_issued_total{generator=\"(unnamed)\", JOB}", "ids_issued"),
            ("getid_ids_issued_total{generator=\"orders\", JOB}", "generator_orders: issued"),
            ("getid_sequence_given_total{sequence=\"invoices\", JOB}", "sequence_invoices: given"),
            ("getid_sequence_left{sequence=\"invoices\", JOB}", "sequence_invoices: left"),
            ("getid_clients_max{JOB}", "maxclients"),
            ("getid_watermark_saves_total{JOB}", "watermark_saves"),
            ("getid_borrow_limit_seconds{JOB} * 1000", "borrow_limit_ms"),
            ("getid_layout_capacity_per_second{JOB}", "capacity_per_sec"),
            ("getid_commands_total{command=\"mgetid\", JOB}", "cmdstat_mgetid: calls"),
            ("getid_command_duration_seconds_count{command=\"mgetid\", JOB}", "cmdstat_mgetid: calls"),
            ("getid_command_duration_seconds_bucket{command=\"mgetid\", le=\"+Inf\", JOB}", "cmdstat_mgetid: calls"),
        ] {
            let query = query.replace("JOB", &format!("job=\"{job}\""));
            eventually(&format!("{query} is {field}"), || {
                let expected: f64 = fields(&mut wire)[field].parse().unwrap();
                prometheus.one(&query) == Some(expected)
            });
        }
        eventually("the version is exported", || {
            let version = prometheus.query(&format!("getid_build_info{{job=\"{job}\"}}"));
            version.first().is_some_and(|(labels, _)| labels["version"] == env!("CARGO_PKG_VERSION"))
        });
    }
    // Prometheus has the metrics of both formats.
    eventually("both jobs have metrics", || prometheus.query("count by (job) ({__name__=~\"getid_.*\"})").len() == 2);

    every_panel_is_a_query(&prometheus);

    // The alert of a late scrape ends with the next scrape.
    eventually("there is no alert", || prometheus.query("ALERTS").is_empty());
    remove(&server);
    eventually("the alerts come", || {
        wire.send("GETID\r\n");
        wire.reply();
        let alerts = prometheus.query("ALERTS{alertstate=\"firing\"}");
        let names: BTreeSet<_> = alerts.iter().map(|(labels, _)| labels["alertname"].as_str().unwrap()).collect();
        names.contains("GetidClaimLost") && names.contains("GetidSavesFailing")
    });
}

/// Asserts that each query of the dashboard is valid, and has a result where one is required.
fn every_panel_is_a_query(prometheus: &Prometheus) {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/getid.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries: Vec<_> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(queries.len() > 40, "{}", queries.len());
    for query in queries {
        let query = query.replace("$__rate_interval", "2s").replace("$job", ".*").replace("$instance", ".*");
        // This server has no claim in a cluster store.
        let is_of_a_fleet = query.contains("getid_claim_") && !query.contains("getid_claim_held");
        let may_be_none =
            is_of_a_fleet || query.contains(" > 0") || query.contains(" == 1") || query.contains("errors");
        eventually(&format!("{query} has a result"), || !prometheus.query(&query).is_empty() || may_be_none);
    }
}
