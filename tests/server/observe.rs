//! What a server reports of itself: command and error statistics, SLOWLOG, LATENCY, MONITOR, MEMORY.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::support::{NARROW, PATIENCE, SHORT_LEAD, Server, Wire, eventually, words};

/// Named generators: one without a practical limit, one of 2,000 IDs a second, and one with a field.
const NAMED: &str = "--generator tweets twitter --generator narrow:ms layout time:41@1ms server-id:2 counter:1 \
                     --generator lua redis-lua one-server 0";

/// Events of 20 ms are recorded.
const NOTED: &str = "--latency-monitor-threshold 20 --slowlog-log-slower-than 20000";

/// A decoded reply.
#[derive(Clone, Debug, PartialEq)]
enum Reply {
    Text(String),
    Integer(i64),
    List(Vec<Reply>),
    Null,
}

impl Reply {
    fn list(&self) -> &[Reply] {
        match self {
            Reply::List(list) => list,
            other => panic!("{other:?} is no list"),
        }
    }

    fn integer(&self) -> i64 {
        match self {
            Reply::Integer(integer) => *integer,
            other => panic!("{other:?} is no integer"),
        }
    }

    fn text(&self) -> &str {
        match self {
            Reply::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }

    /// Returns the value behind a name in a list of names and values.
    fn field(&self, name: &str) -> &Reply {
        let pair = self.list().chunks(2).find(|pair| pair[0] == Reply::Text(name.to_owned()));
        &pair.unwrap_or_else(|| panic!("no {name} in {self:?}"))[1]
    }
}

fn reply(wire: &mut Wire) -> Reply {
    let line = wire.line();
    let number = || line[1..].parse::<i64>().unwrap_or_else(|_| panic!("{line}"));
    match line.as_bytes().first() {
        Some(b':') => Reply::Integer(number()),
        Some(b'*') => Reply::List((0..number()).map(|_| reply(wire)).collect()),
        Some(b'$') if line == "$-1" => Reply::Null,
        Some(b'$') => {
            let mut text = String::new();
            while i64::try_from(text.len()).expect("short") < number() + 2 {
                let line = wire.line();
                text += &line;
                // Verbatim text has its own line ends.
                if !line.ends_with('\n') {
                    text += "\r\n";
                }
            }
            Reply::Text(text.strip_suffix("\r\n").unwrap_or_default().to_owned())
        }
        _ => Reply::Text(line),
    }
}

fn ask(wire: &mut Wire, line: &str) -> Reply {
    wire.send(format!("{line}\r\n"));
    reply(wire)
}

/// Returns a field of an INFO section.
fn info(wire: &mut Wire, section: &str, name: &str) -> Option<String> {
    let text = wire.ask_bulk(&format!("INFO {section}"));
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
}

/// Returns the calls, the rejected calls and the failed calls of a command.
fn counts(wire: &mut Wire, command: &str) -> (u64, u64, u64) {
    let Some(line) = info(wire, "commandstats", &format!("cmdstat_{command}")) else { return (0, 0, 0) };
    let field = |name: &str| -> u64 {
        let value = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {line}"))
    };
    (field("calls"), field("rejected_calls"), field("failed_calls"))
}

fn errors(wire: &mut Wire, code: &str) -> u64 {
    let line = info(wire, "errorstats", &format!("errorstat_{code}"));
    line.map_or(0, |line| line.strip_prefix("count=").and_then(|count| count.parse().ok()).expect("a count"))
}

#[test]
fn every_command_and_error_is_counted() {
    for threads in ["1", "2"] {
        let server = Server::start(&["--io-threads", threads]);
        let mut wire = server.connect();
        assert_eq!(counts(&mut wire, "getid"), (0, 0, 0));
        // The harness sent some to check readiness.
        let (pings, ..) = counts(&mut wire, "ping");
        let mut other = server.connect();
        for wire in [&mut wire, &mut other] {
            // By the fast path, decoded and inline; with errors of all kinds between them.
            let mut sent = b"*1\r\n$5\r\nGETID\r\n".repeat(100);
            sent.extend(b"*2\r\n$6\r\nMGETID\r\n$1\r\n3\r\n".repeat(10));
            sent.extend(
                b"getid\r\nPING\r\nPING x\r\nPING\r\nGETID x\r\nMGETID\r\nMGETID 0\r\nMGETID abc\r\nNOSUCH\r\n",
            );
            sent.extend(b"PING a b\r\nMULTI\r\nGETID\r\nPING\r\nMGETID 2\r\nMGETID 101\r\nEXEC\r\n");
            sent.extend(b"MULTI\r\nGETID\r\nGETID x\r\nEXEC\r\nEXEC\r\nCLIENT NOSUCH\r\nCLIENT INFO x\r\n");
            sent.extend(b"DECODEID x\r\nLATENCY GRAPH x\r\nECHO end\r\n");
            wire.send(sent);
            while wire.line() != "end" {}
        }
        let wire = &mut wire;
        assert_eq!(counts(wire, "getid"), (2 * 102, 4, 0));
        assert_eq!(counts(wire, "mgetid"), (2 * 14, 2, 6));
        assert_eq!(counts(wire, "ping"), (pings + 2 * 5, 0, 2));
        assert_eq!(counts(wire, "multi"), (4, 0, 0));
        assert_eq!(counts(wire, "exec"), (6, 0, 4));
        assert_eq!(counts(wire, "client|info"), (0, 2, 0));
        assert_eq!(counts(wire, "decodeid"), (2, 0, 2));
        assert_eq!(counts(wire, "latency|graph"), (2, 0, 2), "the error of an effect");
        assert_eq!(counts(wire, "echo"), (2, 0, 0));
        // GETID x, MGETID, 0, abc, NOSUCH, PING a b, 101, GETID x, EXEC, CLIENT NOSUCH, INFO x, DECODEID, GRAPH.
        assert_eq!(errors(wire, "ERR"), 2 * 13);
        assert_eq!(errors(wire, "EXECABORT"), 2);
        assert_eq!(wire.info("total_error_replies"), (2 * 14).to_string());
        // Every call is in the histogram.
        for command in ["getid", "mgetid", "ping"] {
            let histogram = ask(wire, &format!("LATENCY HISTOGRAM {command}"));
            let histogram = histogram.field(command);
            let calls = histogram.field("calls").integer();
            assert_eq!(u64::try_from(calls).expect("calls"), counts(wire, command).0);
            let bounds = histogram.field("histogram_usec").list();
            assert_eq!(bounds.last(), Some(&Reply::Integer(calls)), "{histogram:?}");
        }
        let percentiles = info(wire, "latencystats", "latency_percentiles_usec_getid").expect("a line");
        let values: Vec<f64> = percentiles
            .split(',')
            .zip(["p50=", "p99=", "p99.9="])
            .map(|(part, name)| part.strip_prefix(name).and_then(|value| value.parse().ok()).expect("a number"))
            .collect();
        assert!(values.len() == 3 && values.is_sorted(), "{percentiles}");
    }
}

#[test]
fn ids_of_named_generators_are_counted_as_ids() {
    for threads in ["1", "2"] {
        let server = Server::start(&words(&format!("{NAMED} --io-threads {threads}")));
        let mut wire = server.connect();
        let mut sent = b"*2\r\n$5\r\nGETID\r\n$6\r\ntweets\r\n".repeat(100);
        sent.extend(b"GETID\r\nMGETID 5 tweets\r\nGETID tweets\r\nGETID lua shard 7\r\nGETID lua shard 7\r\n");
        sent.extend(b"MULTI\r\nGETID tweets\r\nMGETID 2 tweets\r\nEXEC\r\n");
        sent.extend(b"GETID nosuch\r\nGETID lua\r\nMGETID 3 lua shard x\r\nECHO end\r\n");
        wire.send(sent);
        while wire.line() != "end" {}
        let wire = &mut wire;
        assert_eq!(counts(wire, "getid"), (100 + 1 + 1 + 2 + 1 + 2, 0, 2));
        assert_eq!(counts(wire, "mgetid"), (3, 0, 1));
        assert_eq!(errors(wire, "ERR"), 3);
        let line = |wire: &mut Wire, name| info(wire, "generators", name).expect(name);
        let tweets = line(wire, "generator_tweets");
        assert!(tweets.starts_with("kind=twitter,issued=109,waited=0,refused=0,ahead_ms="), "{tweets}");
        let days: i64 = tweets.rsplit_once("days_left=").and_then(|(_, days)| days.parse().ok()).expect(&tweets);
        assert!((10_000..26_000).contains(&days), "{tweets}");
        assert!(line(wire, "generator_lua").starts_with("kind=redis-lua,issued=2,"));
        assert!(line(wire, "generator_narrow/ms").starts_with("kind=layout,issued=0,"));
        assert_eq!(wire.info("ids_issued"), "1");
        // Every call is in the histogram.
        for command in ["getid", "mgetid"] {
            let histogram = ask(wire, &format!("LATENCY HISTOGRAM {command}"));
            let calls = histogram.field(command).field("calls").integer();
            assert_eq!(u64::try_from(calls).expect("calls"), counts(wire, command).0);
            let bounds = histogram.field(command).field("histogram_usec").list();
            assert_eq!(bounds.last(), Some(&Reply::Integer(calls)), "{histogram:?}");
        }
    }
}

#[test]
fn refused_ids_and_logins_are_counted() {
    let server = Server::start(&words(&format!("{NARROW} {SHORT_LEAD} --id-borrow-policy error --requirepass secret")));
    let mut wire = server.connect();
    assert!(wire.ask("GETID").starts_with("-NOAUTH"));
    assert!(wire.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    let mut refused = 0;
    while refused < 100 {
        wire.send("GETID\r\n".repeat(100));
        refused += (0..100).filter(|_| wire.line().starts_with("-BUSY")).count();
    }
    assert_eq!(errors(&mut wire, "BUSY"), refused as u64);
    assert_eq!(errors(&mut wire, "WRONGPASS"), 1);
    // One is the harness's readiness check.
    assert_eq!(errors(&mut wire, "NOAUTH"), 2);
    let (_, rejected, failed) = counts(&mut wire, "getid");
    assert_eq!((rejected, failed), (1, refused as u64));
    assert_eq!(counts(&mut wire, "auth").2, 1);
}

#[test]
fn info_and_memory_of_a_fresh_server() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let mut sections = |words: &str| -> String {
        let text = wire.ask_bulk(&format!("INFO {words}"));
        let titles: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        titles.join(" ")
    };
    let default = "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace Generator Sequences";
    let all = "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats \
               Cluster Keyspace Generator Sequences";
    assert_eq!(sections(""), default);
    assert_eq!(sections("DEFAULT"), default);
    assert_eq!(sections("all"), all);
    assert_eq!(sections("everything"), all);
    assert_eq!(sections("default latencystats commandstats"), all);
    assert_eq!(sections("commandstats SERVER nosuch"), "Server Commandstats");
    // There are no named generators.
    assert_eq!(sections("generators server"), "Server Generators");
    assert_eq!(sections("nosuch"), "");

    let text = wire.ask_bulk("INFO all");
    let fields: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    for name in [
        "instantaneous_input_kbps",
        "instantaneous_output_kbps",
        "total_writes_processed",
        "used_cpu_sys_main_thread",
        "used_cpu_user_main_thread",
        "total_system_memory",
        "used_memory_startup",
        "mem_fragmentation_ratio",
        "keyspace_hits",
        "evicted_keys",
        "expired_keys",
        "master_repl_offset",
        "rdb_changes_since_last_save",
        "client_recent_max_input_buffer",
    ] {
        assert_eq!(fields.iter().filter(|field| **field == name).count(), 1, "{name}");
    }
    let mut sorted = fields.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), fields.len(), "a field is there twice");
    assert_ne!(wire.info("used_memory_startup"), "0");

    let stats = ask(&mut wire, "MEMORY STATS");
    assert!(stats.field("total.allocated").integer() > 1 << 20);
    assert_eq!(stats.field("keys.count").integer(), 0);
    assert!(ask(&mut wire, "MEMORY DOCTOR").text().contains("nothing to worry about"));
}

#[test]
fn the_days_that_are_left_are_reported() {
    let mut server = Server::start(&["--generator", "old", "baidu", "--generator", "new", "twitter"]);
    server.wait_log("near the end of their time: 'old' (ended, 2024-11-20T13:24:16.000Z). After it");
    server.wait_log("2 named generators: 'old' (baidu, ended), 'new' (twitter, ");
    let mut wire = server.connect();
    let left: i64 = wire.info("layout_days_left").parse().expect("days");
    assert!((40_000..51_000).contains(&left), "{left}");
}

#[test]
fn a_generator_that_refuses_is_reported() {
    let server = Server::start(&["--generator", "old", "baidu", "--generator", "trace", "uuid4"]);
    let mut wire = server.connect();
    wire.send("GETID\r\nGETID old\r\nGETID old\r\nMGETID 3 old\r\nMGETID 2 trace\r\nECHO end\r\n");
    assert!(wire.line().starts_with(':'));
    let refusal = wire.line();
    assert!(refusal.starts_with("-MISCONF"), "{refusal}");
    assert_eq!([wire.line(), wire.line()], [&*refusal, &*refusal]);
    while wire.line() != "end" {}
    assert_eq!(counts(&mut wire, "getid"), (3, 0, 2));
    assert_eq!(counts(&mut wire, "mgetid"), (2, 0, 1));
    assert_eq!(errors(&mut wire, "MISCONF"), 3);
    let old = info(&mut wire, "generators", "generator_old").expect("a line");
    assert!(old.starts_with("kind=baidu,issued=0,waited=0,refused=1,"), "they make one draw: {old}");
    assert!(old.contains(",days_left=-"), "{old}");
    let trace = info(&mut wire, "generators", "generator_trace").expect("a line");
    assert_eq!(trace.split_once(",rate=").expect("a rate").0, "kind=uuid4,issued=2,waited=0,refused=0,ahead_ms=0");
    assert!(!trace.contains("days_left"), "{trace}");
    assert_eq!(["draws_refused", "refusing"].map(|name| wire.info(name)), ["0", "no"]);
    let why = refusal.strip_prefix('-').expect("an error");
    let advice = ask(&mut wire, "LATENCY DOCTOR");
    assert!(advice.text().contains(&format!("Generators give no IDs now: 'old' ({why}).")), "{advice:?}");
    let generators = ask(&mut wire, "GENERATORS");
    let [old, trace] = generators.list() else { panic!("{generators:?}") };
    for (field, text) in [
        ("name", "old"),
        ("kind", "baidu"),
        ("layout", "time:28@1s worker:22 counter:13"),
        ("epoch", "2016-05-19T16:00:00.000Z"),
        ("ends", "2024-11-20T13:24:16.000Z"),
        ("refusing", why),
    ] {
        assert_eq!(old.field(field).text(), text, "{generators:?}");
    }
    assert_eq!(old.field("capacity_per_sec").integer(), 8192);
    assert_eq!([trace.field("name").text(), trace.field("refusing").text()], ["trace", "no"]);
    for field in ["format", "epoch", "capacity_per_sec", "ends", "position"] {
        assert_eq!(trace.field(field), &Reply::Null, "{field}");
    }
}

#[test]
fn the_slow_log_has_the_request_as_sent() {
    let server = Server::start(&["--slowlog-log-slower-than", "0", "--slowlog-max-len", "5"]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("CLIENT SETNAME me"), "+OK");
    assert_eq!(ask(&mut wire, "SLOWLOG RESET").text(), "+OK");
    let long = "x".repeat(200);
    assert!(wire.ask("AUTH hidden").starts_with("-ERR"));
    assert!(wire.ask("HELLO 2 AUTH default hidden").starts_with('*'));
    while wire.line() != "modules" {}
    assert_eq!(wire.line(), "*0");
    wire.id();
    wire.ids(2);
    assert_eq!(ask(&mut wire, &format!("ECHO {long}")), Reply::Text(long.clone()));
    assert!(wire.ask("NOSUCH").starts_with("-ERR"));
    assert!(wire.ask("GETID x").starts_with("-ERR"));
    // EXEC has no entry.
    wire.send("MULTI\r\nPING\r\nEXEC\r\n");
    assert_eq!([wire.line(), wire.line(), wire.line(), wire.line()], ["+OK", "+QUEUED", "*1", "+PONG"]);
    let slow = ask(&mut wire, "SLOWLOG GET");
    let entries = slow.list();
    let args =
        |entry: &Reply| -> Vec<String> { entry.list()[3].list().iter().map(|arg| arg.text().to_owned()).collect() };
    let cut = format!("{}... (72 more bytes)", "x".repeat(128));
    assert_eq!(
        entries.iter().map(args).collect::<Vec<_>>(),
        [vec!["PING"], vec!["MULTI"], vec!["ECHO", &cut], vec!["MGETID", "2"], vec!["GETID"]]
    );
    let ids: Vec<i64> = entries.iter().map(|entry| entry.list()[0].integer()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1] + 1), "{ids:?}");
    let me = wire.stream().local_addr().expect("an address").to_string();
    for entry in entries {
        assert_eq!(entry.list()[4].text(), me);
        assert_eq!(entry.list()[5].text(), "me");
        assert!(entry.list()[1].integer() > 1_700_000_000);
    }
    assert_eq!(ask(&mut wire, "SLOWLOG LEN").integer(), 5, "SLOWLOG GET pushed another one out");
    assert_eq!(ask(&mut wire, "SLOWLOG GET 1").list().len(), 1);
    assert_eq!(ask(&mut wire, "SLOWLOG GET -1").list().len(), 5);

    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let mut wire = server.connect();
    assert!(wire.ask("AUTH hidden").starts_with("-ERR"));
    assert!(wire.ask("AUTH me hidden").starts_with("-WRONGPASS"));
    assert!(wire.ask("HELLO 9 AUTH me hidden").starts_with("-NOPROTO"));
    // A mistyped name, missing quotes or a missing value.
    for words in
        ["requirepas hidden", "requirepass a hidden", "timeout requirepass hidden", "hz 10 REQUIREPASS x hidden"]
    {
        assert!(wire.ask(&format!("CONFIG SET {words}")).starts_with("-ERR"), "{words}");
    }
    let slow = format!("{:?}", ask(&mut wire, "SLOWLOG GET"));
    assert!(slow.contains("(redacted)") && !slow.contains("hidden"), "{slow}");

    let server = Server::start(&["--slowlog-log-slower-than", "-1"]);
    let mut wire = server.connect();
    wire.id();
    wire.ask_bulk("INFO");
    assert_eq!(ask(&mut wire, "SLOWLOG LEN").integer(), 0);
}

#[test]
fn the_slow_log_and_monitors_have_the_names_of_generators() {
    let server = Server::start(&words(&format!("{NAMED} --slowlog-log-slower-than 0")));
    let mut monitor = server.connect();
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    let mut wire = server.connect();
    let sent =
        ["GETID tweets", "GETID tweets", "GETID tweets", "MGETID 2 tweets", "GETID lua shard 7", "getid", "GETID"];
    wire.send(format!("{}\r\nECHO end\r\n", sent.join("\r\n")));
    while wire.line() != "end" {}
    for words in sent {
        assert_eq!(shown(&mut monitor), format!("[0 127.0.0.1] \"{}\"", words.replace(' ', "\" \"")));
    }
    let slow = ask(&mut wire, "SLOWLOG GET");
    let args = |entry: &Reply| -> String {
        let args: Vec<_> = entry.list()[3].list().iter().map(Reply::text).collect();
        args.join(" ")
    };
    let logged: Vec<_> = slow.list().iter().rev().map(args).filter(|words| words.contains("GETID")).collect();
    assert_eq!(
        logged,
        ["GETID tweets", "GETID tweets", "GETID tweets", "MGETID 2 tweets", "GETID lua shard 7", "GETID", "GETID"]
    );
}

#[test]
fn waiting_for_a_named_generator_is_reported() {
    let server = Server::start(&words(&format!("{NAMED} {SHORT_LEAD} {NOTED}")));
    let mut wire = server.connect();
    // 200 IDs are free. Each later draw waits until time has advanced by 50 ms.
    for _ in 0..8 {
        wire.send("MGETID 100 narrow:ms\r\n");
        assert_eq!(wire.line(), "*100");
        (0..200).for_each(|_| _ = wire.line());
    }
    let slow = ask(&mut wire, "SLOWLOG GET 1");
    let args = slow.list()[0].list()[3].list().iter().map(Reply::text).collect::<Vec<_>>();
    assert_eq!(args, ["MGETID", "100", "narrow:ms"]);
    let latest = ask(&mut wire, "LATENCY LATEST");
    let names: Vec<&str> = latest.list().iter().map(|event| event.list()[0].text()).collect();
    assert!(names.contains(&"draw-wait") && names.contains(&"fast-command"), "{names:?}");
    let line = info(&mut wire, "generators", "generator_narrow/ms").expect("a line");
    assert!(line.starts_with("kind=layout,issued=800,waited=") && !line.contains("waited=0,"), "{line}");
    let unnamed = ["draws_waited", "draws_refused", "ids_issued"].map(|name| wire.info(name));
    assert_eq!(unnamed, ["0"; 3]);
    let advice = ask(&mut wire, "LATENCY DOCTOR");
    assert!(advice.text().contains("of generators: 'narrow:ms' (2000 IDs a second, "), "{advice:?}");
    assert!(!advice.text().contains("at the borrow limit") && !advice.text().contains("'tweets'"), "{advice:?}");
}

#[test]
fn thresholds_change_and_statistics_are_reset_while_it_runs() {
    let server = Server::start(&["--slowlog-log-slower-than", "-1"]);
    let (mut wire, mut other) = (server.connect(), server.connect());
    wire.id();
    other.id();
    assert_eq!(wire.ask("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2"), "+OK");
    other.id();
    other.id();
    other.id();
    let slow = ask(&mut wire, "SLOWLOG GET");
    assert_eq!(slow.list().len(), 2);
    assert!(slow.list().iter().all(|entry| entry.list()[3] == Reply::List(vec![Reply::Text("GETID".into())])));
    assert_eq!(wire.ask("CONFIG SET requirepass hidden"), "+OK");
    assert_eq!(wire.ask("CONFIG SET requirepass ''"), "+OK");
    let slow = format!("{:?}", ask(&mut wire, "SLOWLOG GET"));
    assert!(slow.contains("(redacted)") && !slow.contains("hidden"), "{slow}");
    assert_eq!(wire.ask("ACL SETUSER bob on >hidden +ping"), "+OK");
    let slow = format!("{:?}", ask(&mut wire, "SLOWLOG GET"));
    assert!(slow.contains("(redacted)") && !slow.contains("hidden") && !slow.contains("bob"), "{slow}");
    assert_eq!(wire.ask("CONFIG SET slowlog-log-slower-than -1"), "+OK");
    assert_eq!(ask(&mut wire, "SLOWLOG RESET").text(), "+OK");
    other.id();
    assert_eq!(ask(&mut wire, "SLOWLOG LEN").integer(), 0);

    assert!(wire.ask("NOSUCH").starts_with("-ERR"));
    assert_eq!(counts(&mut wire, "getid").0, 6);
    assert_eq!(wire.ask("CONFIG RESETSTAT"), "+OK");
    assert_eq!(counts(&mut wire, "getid").0, 0);
    assert_eq!(errors(&mut wire, "ERR"), 0);
    other.id();
    assert_eq!(counts(&mut wire, "getid").0, 1);
    let histogram = ask(&mut wire, "LATENCY HISTOGRAM getid");
    assert_eq!(histogram.field("getid").field("calls").integer(), 1);

    // Commands that the user has no right to are counted too.
    assert_eq!(other.ask("AUTH bob hidden"), "+OK");
    assert!(other.ask("GETID").starts_with("-NOPERM"));
    assert_eq!(counts(&mut wire, "getid"), (1, 1, 0));
    assert_eq!(errors(&mut wire, "NOPERM"), 1);
}

#[test]
fn waiting_for_ids_is_reported() {
    let server = Server::start(&words(&format!("{NARROW} {SHORT_LEAD} {NOTED}")));
    let mut wire = server.connect();
    // From the second on, each draw waits until time has advanced by 50 ms.
    for _ in 0..8 {
        wire.ids(50);
    }
    let slow = ask(&mut wire, "SLOWLOG GET 1");
    let entry = slow.list()[0].list();
    assert_eq!(entry[3], Reply::List(vec![Reply::Text("MGETID".into()), Reply::Text("50".into())]));
    assert!(entry[2].integer() >= 20_000);
    let latest = ask(&mut wire, "LATENCY LATEST");
    let names: Vec<&str> = latest.list().iter().map(|event| event.list()[0].text()).collect();
    assert!(names.contains(&"draw-wait") && names.contains(&"fast-command"), "{names:?}");
    let event = latest.list().iter().find(|event| event.list()[0].text() == "draw-wait").expect("it").list();
    assert!(event[2].integer() >= 20 && event[3].integer() >= event[2].integer());
    let history = ask(&mut wire, "LATENCY HISTORY draw-wait");
    assert!(!history.list().is_empty());
    assert!(history.list().iter().all(|sample| sample.list()[1].integer() >= 20), "{history:?}");
    let advice = ask(&mut wire, "LATENCY DOCTOR");
    assert!(advice.text().contains("draw-wait: "), "{advice:?}");
    assert!(advice.text().contains("Clients waited at the borrow limit"), "{advice:?}");
    let graph = ask(&mut wire, "LATENCY GRAPH draw-wait");
    assert!(graph.text().starts_with("draw-wait - high "), "{graph:?}");
    // The histogram includes the wait: most of these calls took tens of milliseconds.
    let histogram = ask(&mut wire, "LATENCY HISTOGRAM mgetid");
    let bounds = histogram.field("mgetid").field("histogram_usec").list();
    assert!(bounds[bounds.len() - 2].integer() >= 20_000, "{histogram:?}");
    assert_eq!(ask(&mut wire, "LATENCY RESET draw-wait nothing").integer(), 1);
    assert_eq!(ask(&mut wire, "LATENCY HISTORY draw-wait"), Reply::List(Vec::new()));
}

#[test]
fn events_are_off_by_default() {
    let server = Server::start(&words(&format!("{NARROW} {SHORT_LEAD}")));
    let mut wire = server.connect();
    for _ in 0..2 {
        wire.ids(100);
    }
    assert_eq!(ask(&mut wire, "LATENCY LATEST"), Reply::List(Vec::new()));
    assert!(ask(&mut wire, "LATENCY DOCTOR").text().contains("latency-monitor-threshold is 0"));
    let server = Server::start(&["--latency-monitor-threshold", "100000"]);
    let mut wire = server.connect();
    wire.id();
    assert!(ask(&mut wire, "LATENCY DOCTOR").text().starts_with("Nothing took 100000 ms"));
}

/// Returns a line of MONITOR without its time and its port.
fn shown(wire: &mut Wire) -> String {
    let line = wire.line();
    let (time, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
    let is_time = time.strip_prefix('+').and_then(|time| time.split_once('.')).is_some_and(|(s, us)| {
        s.len() == 10 && us.len() == 6 && (s.to_owned() + us).bytes().all(|byte| byte.is_ascii_digit())
    });
    assert!(is_time, "{line}");
    let (client, args) = rest.split_once("] ").unwrap_or_else(|| panic!("{line}"));
    let (place, port) = client.rsplit_once(':').unwrap_or_else(|| panic!("{line}"));
    assert!(port.parse::<u16>().is_ok(), "{line}");
    format!("{place}] {args}")
}

/// Each command is written to every monitor at the cost of other clients, so the number of monitors is bounded.
#[test]
fn the_number_of_monitors_is_limited() {
    let server = Server::start(&[]);
    let mut monitors: Vec<Wire> = (0..64).map(|_| server.connect()).collect();
    for monitor in &mut monitors {
        assert_eq!(monitor.ask("MONITOR"), "+OK");
    }
    let mut late = server.connect();
    assert_eq!(
        late.ask("MONITOR"),
        "-ERR 64 clients run MONITOR, which is the maximum; CLIENT LIST shows them with the flag O"
    );
    // The refused client continues as a normal client and is not a monitor.
    assert!(late.ask_bulk("CLIENT INFO").contains(" flags=N "));
    assert_eq!(late.info("monitors"), "64");
    drop(monitors.pop());
    late.wait_info("monitors", "63");
    assert_eq!(late.ask("MONITOR"), "+OK");
}

#[test]
fn monitors_see_every_command() {
    for threads in ["1", "2"] {
        let server = Server::start(&["--io-threads", threads]);
        let mut wire = server.connect();
        let mut monitor = server.connect();
        monitor.send("MONITOR\r\nPING self\r\n");
        assert_eq!([monitor.line(), monitor.line(), monitor.line()], ["+OK", "$4", "self"]);
        assert_eq!(shown(&mut monitor), r#"[0 127.0.0.1] "PING" "self""#);
        wire.send(b"*1\r\n$5\r\nGETID\r\n*1\r\n$5\r\ngetid\r\nMGETID 2\r\nECHO \"a\\r\\xff\\\"\"\r\n");
        wire.send(b"AUTH hidden\r\nAUTH me hidden\r\nHELLO 9 AUTH me hidden\r\nHELLO 2 AUTH me hidden\r\nSELECT 3\r\n");
        wire.send(b"NOSUCH\r\nGETID x\r\nCONFIG GET port\r\nCLIENT LIST\r\nMULTI\r\nPING\r\nGETID\r\nEXEC\r\nEXEC\r\n");
        wire.send(b"INFO server\r\nRESET\r\nCLIENT ID\r\n");
        for expected in [
            r#"[0 127.0.0.1] "GETID""#,
            r#"[0 127.0.0.1] "getid""#,
            r#"[0 127.0.0.1] "MGETID" "2""#,
            r#"[0 127.0.0.1] "ECHO" "a\r\xff\"""#,
            r#"[0 127.0.0.1] "AUTH" "(redacted)""#,
            r#"[0 127.0.0.1] "AUTH" "(redacted)" "(redacted)""#,
            r#"[0 127.0.0.1] "HELLO" "9" "AUTH" "(redacted)" "(redacted)""#,
            r#"[0 127.0.0.1] "HELLO" "2" "AUTH" "(redacted)" "(redacted)""#,
            r#"[3 127.0.0.1] "SELECT" "3""#,
            r#"[3 127.0.0.1] "MULTI""#,
            r#"[3 127.0.0.1] "PING""#,
            r#"[3 127.0.0.1] "GETID""#,
            r#"[3 127.0.0.1] "EXEC""#,
            r#"[3 127.0.0.1] "EXEC""#,
            r#"[3 127.0.0.1] "INFO" "server""#,
            r#"[0 127.0.0.1] "RESET""#,
            r#"[0 127.0.0.1] "CLIENT" "ID""#,
        ] {
            assert_eq!(shown(&mut monitor), expected);
        }
        let mut other = server.connect();
        let list = other.ask_bulk("CLIENT LIST");
        assert_eq!(list.lines().filter(|line| line.contains(" flags=O ")).count(), 1, "{list}");
        assert_eq!(other.info("monitors"), "1");
        // RESET ends it.
        assert_eq!(shown(&mut monitor), r#"[0 127.0.0.1] "INFO""#);
        assert_eq!(monitor.ask("RESET"), "+RESET");
        assert_eq!(other.ask("PING"), "+PONG");
        other.wait_info("monitors", "0");
        assert_eq!(monitor.ask("PING"), "+PONG");
        // QUIT ends it too.
        assert_eq!(monitor.ask("MONITOR"), "+OK");
        assert_eq!(other.ask("PING"), "+PONG");
        assert_eq!(shown(&mut monitor), r#"[0 127.0.0.1] "PING""#);
        monitor.send("QUIT\r\n");
        assert!(monitor.rest().starts_with("+OK\r\n"));
        other.wait_info("monitors", "0");
    }
}

#[test]
fn a_monitor_that_does_not_read_is_dropped() {
    let mut server = Server::start(&["--loglevel", "notice"]);
    let mut slow = server.connect();
    assert_eq!(slow.ask("MONITOR"), "+OK");
    let mut quick = server.connect();
    assert_eq!(quick.ask("MONITOR"), "+OK");
    let lines = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&lines);
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match crate::support::read(quick.stream(), &mut buffer) {
                Ok(0) => return,
                Ok(len) => _ = lines.fetch_add(buffer[..len].split(|&byte| byte == b'\n').count() - 1, Relaxed),
                Err(error) => panic!("{error}"),
            }
        }
    });
    let mut wire = server.connect();
    let mut pings = 0;
    eventually("the monitor is dropped", || {
        let word = "x".repeat(1000);
        wire.send(format!("PING {word}\r\n").repeat(1000));
        for _ in 0..1000 {
            assert_eq!([wire.line(), wire.line()], ["$1000".to_owned(), word.clone()]);
        }
        pings += 1000;
        // The sender waits, so that the reading monitor never falls behind by a full queue, however slow its thread.
        eventually("the monitor saw every command", || seen.load(Relaxed) >= pings);
        wire.info("monitors_dropped") != "0"
    });
    server.wait_log("does not keep up with MONITOR and is closed");
    // The connection is closed with its unread output.
    slow.stream().set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut rest = Vec::new();
    match slow.stream().read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock),
    }
    assert_eq!(wire.info("monitors"), "1", "the one that reads stays");
    assert_eq!(server.stop().code(), Some(0));
    reader.join().expect("it read");
}

#[test]
fn a_large_command_closes_no_monitor() {
    let server = Server::start(&[]);
    let mut monitor = server.connect();
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    let mut wire = server.connect();
    let zeros = "\0".repeat(128 << 10);
    wire.send(format!("*2\r\n$4\r\nECHO\r\n${}\r\n{zeros}\r\n", zeros.len()));
    assert_eq!((wire.line(), wire.line().len()), (format!("${}", zeros.len()), zeros.len()));
    let line = monitor.line();
    assert!(line.ends_with(r#"\x00... (65541 more bytes)""#), "{}", &line[line.len() - 80..]);
    assert_eq!(wire.info("monitors_dropped"), "0");
    assert_eq!(wire.info("monitors"), "1");
}
