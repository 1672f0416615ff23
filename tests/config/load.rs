//! The configuration from outside: files in, a configuration or a report out.
//!
//! A mistake is a pair of files in `tests/config/mistakes`: an operator's file, and the exact report for it. After a
//! change of texts, `GETID_TEST_BLESS=1 cargo test --test config load::` writes new reports; read the difference.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use getid_config::directive::Directive;
use getid_config::ignored::{IGNORED_DIRECTIVES, find};
use getid_config::{
    BindAddr, BorrowPolicy, Config, ConfigReport, FILE_BYTES_MAX, FILES_MAX, Files, GENERATORS_MAX, INCLUDE_DEPTH_MAX,
    LogLevel, ServerIdSource, Sources, StateKind, Warning, quote,
};
use getid_redis::acl::Protection;
use getid_server::config_files::RealFiles;
use getid_server::state_dir::Dir;
use getid_text::glob::Pattern;
use proptest::prelude::*;

type Loaded = Result<(Config, Vec<Warning>), ConfigReport>;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/mistakes");

/// Files of a folder, under their names in it, so that reports are the same on every machine.
struct In(&'static str);

impl Files for In {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        RealFiles.read(&Path::new(self.0).join(path), bytes_max)
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let paths = RealFiles.matching(&format!("{}/{pattern}", self.0))?;
        Ok(paths.iter().map(|path| path.strip_prefix(self.0).unwrap().to_owned()).collect())
    }
}

/// Files in memory.
struct Thought<F>(F);

impl<F: Fn(&str) -> Option<Vec<u8>>> Files for Thought<F> {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = (self.0)(path.to_str().unwrap()).ok_or(io::ErrorKind::NotFound)?;
        bytes.truncate(bytes_max + 1);
        Ok(bytes)
    }

    fn matching(&self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok((0..10_000).map(|number| PathBuf::from(format!("{number}.conf"))).collect())
    }
}

fn load(name: &str, bytes: &[u8], environment: &[(&str, &str)], words: &[&str]) -> Loaded {
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    let sources = Sources { file: Some(PathBuf::from(name)), environment, words, host_name: None };
    Config::load(&sources, &Thought(|path: &str| (path == name).then(|| bytes.to_vec())))
}

fn conf(text: &str) -> Loaded {
    load("t.conf", text.as_bytes(), &[], &[])
}

fn toml(text: &str) -> Loaded {
    load("t.toml", text.as_bytes(), &[], &[])
}

/// Asserts that the configuration loads without a warning.
fn good(loaded: Loaded) -> Config {
    let (config, warnings) = loaded.unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(warnings, []);
    config
}

/// Returns the report without its first line.
fn bad(loaded: Loaded) -> String {
    match loaded {
        Ok(_) => panic!("loads"),
        Err(report) => {
            let report = report.to_string();
            let (first, rest) = report.split_once('\n').unwrap();
            let is_in_file = rest.contains("Reading the configuration file");
            let what = if is_in_file { "CONFIG FILE" } else { "CONFIGURATION" };
            assert_eq!(first, format!("*** FATAL {what} ERROR ***"));
            rest.to_owned()
        }
    }
}

fn check_mistake(path: &Path, bless: bool) -> Result<(), String> {
    let sources = Sources { file: path.file_name().map(PathBuf::from), ..Sources::default() };
    let report = match Config::load(&sources, &In(DATA)) {
        Ok(_) => return Err(format!("{}: loads", path.display())),
        Err(report) => report.to_string(),
    };
    let expected_path = path.with_extension(if path.extension().unwrap() == "toml" { "toml.err" } else { "err" });
    if bless {
        fs::write(&expected_path, &report).unwrap();
    }
    let expected = fs::read_to_string(&expected_path).unwrap_or_default();
    if report == expected { Ok(()) } else { Err(format!("{}:\n{report}\nbut expected:\n{expected}", path.display())) }
}

#[test]
fn each_mistake_gets_its_report() {
    let bless = std::env::var_os("GETID_TEST_BLESS").is_some();
    let mut paths: Vec<_> = fs::read_dir(DATA).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let is_input = path.extension().is_some_and(|extension| extension == "conf" || extension == "toml");
        is_input && !path.file_name().unwrap().to_str().unwrap().starts_with("fork-")
    });
    paths.sort();
    assert!(paths.len() >= 50, "{} mistakes", paths.len());
    let wrong: Vec<_> = paths.iter().filter_map(|path| check_mistake(path, bless).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_report_shows_a_password() {
    for entry in fs::read_dir(DATA).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "err") {
            assert!(!fs::read_to_string(&path).unwrap().contains("hunter"), "{}", path.display());
        }
    }
    let (config, _) = conf("requirepass hunter2").unwrap();
    assert_eq!(config.requirepass.as_deref(), Some("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
    for report in [
        bad(load("t.conf", b"", &[], &["--requirepass", "hunter2", "hunter3"])),
        bad(load("t.conf", b"", &[], &["--requirepas=hunter2"])),
        bad(load("t.conf", b"", &[], &["--user", "bob", ">hunter2", "hunter3"])),
        bad(load("t.conf", b"", &[], &["--user", "bob", "<hunter2"])),
        bad(load("t.conf", b"", &[("GETID_USER", "bob >hunter2 hunter3")], &[])),
        bad(load("t.conf", b"", &[("GETID_REQUIREPAS", "hunter2")], &[])),
    ] {
        assert!(!report.contains("hunter"), "{report}");
    }
}

fn documented(name: &'static str) -> (Config, String) {
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    let sources = Sources { file: Some(PathBuf::from(name)), ..Sources::default() };
    (good(Config::load(&sources, &In(FOLDER))), fs::read_to_string(Path::new(FOLDER).join(name)).unwrap())
}

/// Returns the tables at the end of the documented TOML file, without comment marks.
fn generator_tables() -> String {
    let (_, text) = documented("getid.toml");
    let (_, tables) = text.split_once("#[generator.").unwrap();
    format!("[generator.{}", tables.replace("\n#", "\n"))
}

/// Returns the lines that set something, or would without their `#`.
fn directives(text: &str) -> Vec<&str> {
    let lines =
        text.split("[generator.").next().unwrap_or_default().lines().map(|line| line.strip_prefix('#').unwrap_or(line));
    lines.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase() || first == '[')).collect()
}

#[test]
fn the_documented_files_are_the_built_in_values() {
    assert_eq!(documented("getid.conf").0, Config::default());
    assert_eq!(documented("getid.toml").0, Config::default());
}

#[test]
fn the_documented_files_show_every_directive_and_no_other() {
    for (name, file) in [("t.conf", "getid.conf"), ("t.toml", "getid.toml")] {
        let (_, text) = documented(file);
        let shown: Vec<_> = directives(&text)
            .iter()
            .map(|line| line.trim_start_matches('[').split([' ', ']']).next().unwrap().to_owned())
            .filter(|word| !["normal", "replica", "pubsub"].contains(&word.as_str()))
            .collect();
        for row in Directive::ALL.iter().filter(|row| row.name != "generator" || file == "getid.conf") {
            assert!(shown.iter().any(|word| word == row.name), "{file} does not show {}", row.name);
        }
        for word in &shown {
            assert!(Directive::find(word).is_some(), "{file} shows {word}");
        }
        // Each line behind a '#' is valid by itself.
        for line in text.lines().filter_map(|line| line.strip_prefix('#')) {
            let word = line.split(' ').next().unwrap();
            // Directives that read a file need that file.
            if Directive::find(word).is_some_and(|row| !["include", "requirepass-file"].contains(&row.name)) {
                let loaded = load(name, line.as_bytes(), &[], &[]);
                assert!(loaded.is_ok(), "{line}: {}", bad(loaded));
            }
        }
    }
}

#[test]
fn both_syntaxes_show_the_same_values() {
    for row in Directive::ALL.iter().filter(|row| row.name != "include") {
        let values = [("t.conf", "getid.conf"), ("t.toml", "getid.toml")].map(|(name, file)| {
            let (_, text) = documented(file);
            let lines = directives(&text);
            let own = lines.iter().filter(|line| line.split(' ').next() == Some(row.name));
            let mut text = own.copied().collect::<Vec<_>>().join("\n");
            if (row.name, file) == ("generator", "getid.toml") {
                text = generator_tables();
            }
            load(name, text.as_bytes(), &[], &[]).map(|(config, _)| config).map_err(|report| report.problems().len())
        });
        assert_eq!(values[0], values[1], "{}", row.name);
    }
}

/// A word without a value has a form in each kind of source.
#[test]
fn gapless_is_declared_in_each_form() {
    const WORDS: &str = "receipt serial R{n:6} gapless released void";
    let table = |is_gapless: bool| {
        let released = if is_gapless { "released = 'void'" } else { "" };
        toml(&format!(
            "[generator.receipt]\nkind = 'serial'\ntemplate = 'R{{n:6}}'\ngapless = {is_gapless}\n{released}"
        ))
    };
    let words: Vec<&str> = std::iter::once("--generator").chain(WORDS.split(' ')).collect();
    for loaded in [
        conf(&format!("generator {WORDS}")),
        table(true),
        load("t.conf", b"", &[("GETID_GENERATOR", WORDS)], &[]),
        load("t.conf", b"", &[], &words),
    ] {
        let (config, _) = loaded.unwrap();
        assert_eq!(config.counters[0].words().join(" "), WORDS);
    }
    assert_eq!(table(false).unwrap().0.counters[0].words().join(" "), "receipt serial R{n:6}");
}

#[test]
fn the_built_in_text_of_a_row_is_the_built_in_value() {
    for row in Directive::ALL.iter().filter(|row| !row.default.is_empty()) {
        let (mut config, _) = conf(&format!("{} {}", row.name, row.default)).unwrap();
        config.bind_given = false;
        config.server_id_from = ServerIdSource::Default;
        assert_eq!(config, Config::default(), "{}", row.name);
    }
}

#[test]
fn values_of_config_get_read_back() {
    let text = "bind 10.0.0.1 -::1\nport 7000\nunixsocket \"/a b\"\nunixsocketperm 770\nmaxclients 5\nrequirepass \"x y\"\n\
                id-generator random-range 8 server-id 3 id-range 4\nid-epoch 2020-01-01T00:00:00Z\nloglevel warning\n\
                client-output-buffer-limit replica 1 2 3 normal 1k 1kb 5\ndir /tmp\nprotected-mode yes\ntimeout 7";
    let config = good(conf(text));
    let shown: Vec<_> =
        config.get(&[pattern("*")]).into_iter().filter(|(name, _)| Directive::find(name).is_some()).collect();
    assert!(shown.len() > 45);
    let lines: Vec<_> = shown.iter().filter(|(name, _)| !["id-generator"].contains(name)).collect();
    let lines = lines.iter().map(|(name, value)| match Directive::find(name).unwrap().words().1 {
        1 => format!("{name} {}", quote(value.as_bytes())),
        _ if value.is_empty() => format!("{name} \"\""),
        _ => format!("{name} {value}"),
    });
    assert_eq!(good(conf(&lines.collect::<Vec<_>>().join("\n"))), config);
}

#[test]
fn both_ends_of_every_range_fit_and_one_more_does_not() {
    for row in Directive::ALL {
        let range = row.range();
        let mut words = range.split(' ');
        let (Some(Ok(min)), Some(to)) = (words.next().map(str::parse::<i128>), words.next()) else { continue };
        if range.contains("octal") {
            continue;
        }
        let max = if to == "to" { words.next().unwrap().parse().unwrap() } else { i128::from(i64::MAX) };
        for (value, fits) in [(min, true), (max, true), (min - 1, false), (max + 1, false)] {
            let out_of_range = conf(&format!("{} {value}", row.name)).is_err_and(|report| {
                let report = report.to_string();
                report.contains("out of range")
                    || report.contains(" bytes; must be ")
                    || report.contains("not a memory")
            });
            assert_eq!(!out_of_range, fits, "{} {value}", row.name);
        }
    }
}

#[test]
fn the_forks_file_starts_getid_with_one_warning_for_each_reason_why_directives_have_no_meaning() {
    let sources = Sources { file: Some(PathBuf::from("fork-redis.conf")), ..Sources::default() };
    let (config, warnings) = Config::load(&sources, &In(DATA)).unwrap_or_else(|report| panic!("{report}"));
    let text = fs::read_to_string(Path::new(DATA).join("fork-redis.conf")).unwrap();
    let mut meaningless: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    meaningless.retain(|word| find(word).is_some());
    meaningless.sort_unstable();
    meaningless.dedup();
    // The number of such directives in the fork.
    assert_eq!(meaningless.len(), 41);
    let mut warned: Vec<_> = warnings.iter().flat_map(|warning| warning.subject.split(", ")).collect();
    warned.sort_unstable();
    assert_eq!(warned, meaningless);
    assert_eq!(warnings.len(), 4);
    let first = warnings[0].to_string();
    assert!(first.starts_with("fork-redis.conf:15: save, stop-writes-on-bgsave-error, "), "{first}");
    assert!(
        first.ends_with(": accepted, but have no effect: getid writes no snapshots and no append-only file"),
        "{first}"
    );
    assert!(warnings.iter().all(|warning| !warning.to_string().contains("hunter2")));
    let expected = Config {
        bind: vec![BindAddr { ip: "0.0.0.0".parse().unwrap(), optional: false }],
        bind_given: true,
        timeout_s: 30,
        tcp_keepalive_s: 0,
        pidfile: Some(PathBuf::from("/var/run/redis.pid")),
        dir: Some(PathBuf::from("/home/redis/")),
        server_id_from: ServerIdSource::Number,
        ..Config::default()
    };
    assert_eq!(config, expected);
    assert_eq!(config.protection(), Protection::Commands);
}

#[test]
fn commented_out_lines_of_the_fork_load_too() {
    let config = good(conf(
        "unixsocket /tmp/redis.sock\nunixsocketperm 755\nrequirepass foobared\nrename-command CONFIG \"\"\n\
         rename-command FLUSHALL b840fc02\nsyslog-enabled no\nsyslog-ident redis\nsyslog-facility local0",
    ));
    assert_eq!(config.unixsocketperm, Some(0o755));
    let renamed = [("CONFIG", ""), ("FLUSHALL", "b840fc02")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(config.rename_commands, renamed);
}

#[test]
fn every_redis_directive_is_accepted_once_with_any_value() {
    let lines: Vec<_> = IGNORED_DIRECTIVES.iter().map(|row| format!("{} a b c\n{} d", row.name, row.name)).collect();
    let (config, warnings) = conf(&lines.join("\n")).unwrap();
    let mut reasons: Vec<_> = IGNORED_DIRECTIVES.iter().map(|row| row.reason.text()).collect();
    reasons.dedup();
    assert_eq!(warnings.len(), reasons.len());
    assert!(warnings.iter().all(|warning| warning.to_string().len() < 500), "{warnings:?}");
    assert_eq!(config, Config::default());
    // Modules of Redis 8.
    let (_, warnings) = conf("search-timeout 500\nts-num-threads 3\nsearch-timeout 1").unwrap();
    let shown_warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown_warnings,
        ["t.conf:1: search-timeout, ts-num-threads: accepted, but have no effect: getid loads no modules"]
    );
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let environment = [("GETID_PORT", "2"), ("GETID_HZ", "20"), ("HOME", "/")];
    let words = ["--port", "3", "--bind", "127.0.0.1", "-::1", "--loglevel=debug", "--logfile", ""];
    let config = good(load("t.conf", b"port 1\nhz 30\ntimeout 40\nlogfile x", &environment, &words));
    assert_eq!((config.port, config.hz, config.timeout_s), (3, 20, 40));
    assert_eq!(config.bind, Config::default().bind);
    assert!(config.bind_given && config.protection() == Protection::Commands);
    assert_eq!(config.loglevel, LogLevel::Debug);
    assert_eq!(config.logfile, None);
    let words = ["--ID-Generator", "server-id 3 id-range 2", "--rename-command", "CONFIG", ""];
    let config = good(load("t.conf", b"rename-command PING PONG", &[("GETID_BIND", "::1 *")], &words));
    assert_eq!((config.server_id, config.bind.len(), config.rename_commands.len()), (3, 2, 2));
}

/// Returns the findings of [`Config::load_and_compare`], a line each.
fn overridden(name: &str, text: &str, environment: &[(&str, &str)], words: &[&str]) -> String {
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    let sources = Sources { file: Some(PathBuf::from(name)), environment, words, host_name: Some("a-3".to_owned()) };
    let files = Thought(|path: &str| (path == name).then(|| text.as_bytes().to_vec()));
    let (_, _, found) = Config::load_and_compare(&sources, &files).unwrap_or_else(|report| panic!("{report}"));
    found.iter().map(|line| line.to_string() + "\n").collect()
}

#[test]
fn a_line_that_is_not_in_force_is_named_with_what_wins() {
    let check = |text: &str, environment: &[(&str, &str)], words: &[&str], expected: &str| {
        assert_eq!(overridden("t.conf", text, environment, words), expected, "{text} {environment:?} {words:?}");
    };
    let port = ("GETID_PORT", "7891");
    check("port 7890", &[port], &[], "t.conf:1: port: not in force: environment (GETID_PORT=7891) wins\n");
    check("port 7890", &[port], &["--port", "1"], "t.conf:1: port: not in force: command line (--port 1) wins\n");
    check("port 1\nport 7891", &[port], &[], "");
    check("port 7891\nport 1", &[port], &[], "t.conf:2: port: not in force: environment (GETID_PORT=7891) wins\n");
    check("", &[port], &[], "");
    check("bind 127.0.0.1 ::1", &[("GETID_BIND", "127.0.0.1 ::1")], &[], "");
    check(
        "daemonize yes",
        &[],
        &["--daemonize", "no"],
        "t.conf:1: daemonize: not in force: command line (--daemonize no) wins\n",
    );
    check(
        "id-generator server-id 1 id-range 2",
        &[("GETID_SERVER_ID", "auto-ordinal")],
        &[],
        "t.conf:1: server-id: not in force: environment (GETID_SERVER_ID=auto-ordinal) wins\n",
    );
    check("server-id 3", &[("GETID_SERVER_ID", "auto-ordinal")], &[], "");
    // Classes that the stronger line does not name keep their limits.
    let limits = "client-output-buffer-limit normal 5 5 5\nclient-output-buffer-limit pubsub 1 1 1";
    let normal = ("GETID_CLIENT_OUTPUT_BUFFER_LIMIT", "normal 1 1 1");
    let wins = "environment (GETID_CLIENT_OUTPUT_BUFFER_LIMIT=normal 1 1 1) wins";
    check(limits, &[normal], &[], &format!("t.conf:1: client-output-buffer-limit: not in force: {wins}\n"));
    check("sequence-store sqlite:a", &[("GETID_SEQUENCE_STORE", "sqlite:a")], &[], "");
    check(
        "sequence-store sqlite:a",
        &[("GETID_SEQUENCE_STORE", "sqlite:b")],
        &[],
        "t.conf:1: sequence-store: not in force: environment (GETID_SEQUENCE_STORE (hidden)) wins\n",
    );
    // Directives that add up override nothing, and no password is shown.
    check("generator a twitter", &[("GETID_GENERATOR", "b uuid7")], &[], "");
    let found = overridden("t.conf", "requirepass hunter2", &[("GETID_REQUIREPASS", "hunter3")], &[]);
    assert!(found.starts_with("t.conf:1: requirepass: ") && !found.contains("hunter"), "{found}");
    let found = overridden("t.toml", "hz = 20", &[], &["--hz", "30"]);
    assert_eq!(found, "t.toml:1: hz: not in force: command line (--hz 30) wins\n");
}

#[test]
fn a_word_of_the_command_line_may_be_a_line() {
    let words = ["--port 22302", "--bind localhost", "--logfile=a b", "--daemonize no", "--syslog-ident \"a b\""];
    let config = good(load("t.conf", b"daemonize yes", &[], &words));
    assert_eq!((config.port, config.syslog_ident.as_str()), (22302, "a b"));
    assert_eq!(config.bind, [BindAddr { ip: "127.0.0.1".parse().unwrap(), optional: false }]);
    assert_eq!(config.logfile, Some(PathBuf::from("a b")));
    let report = bad(load("t.conf", b"", &[], &["--requirepass \"hunter2"]));
    assert!(report.contains(">>> 'requirepass (hidden)'") && !report.contains("hunter"), "{report}");
    assert!(bad(load("t.conf", b"daemonize no", &[], &["--daemonize yes"])).contains("stays in the foreground"));
}

/// Returns the proposal of a report behind these words, up to the quote.
fn proposed(report: &str, before: &str) -> String {
    report.split_once(before).expect(report).1.split_once('\'').unwrap().0.to_owned()
}

/// The proposal of a report, pasted below the other lines, is valid.
#[test]
fn the_layout_that_a_report_proposes_is_one() {
    for (text, expected) in [
        ("server-id 9", "id-range 4 shard-range 7 random-range 10"),
        ("server-id 9\nid-range 2\nshard-range 9\nrandom-range 10", "id-range 4 shard-range 7 random-range 10"),
        ("server-id 9\nid-range 10", "id-range 10 shard-range 1 random-range 10"),
        ("shard-range 12", "id-range 2 shard-range 12 random-range 7"),
        ("id-range 12\nshard-range 9", "id-range 12 shard-range 9 random-range 0"),
        ("id-range 21", "id-range 21 shard-range 0 random-range 0"),
        ("id-range 15\nrandom-range 15", "id-range 15 shard-range 1 random-range 5"),
        ("id-range 1", "id-range 1 shard-range 10 random-range 10"),
        ("server-id 2097151", "id-range 21 shard-range 0 random-range 0"),
        ("id-generator server-id 4 id-range 2", "id-range 3 shard-range 8 random-range 10"),
    ] {
        let report = bad(conf(text));
        let line = report.split_once("'id-generator id-range ").expect(&report).1.split_once('\'').unwrap().0;
        assert_eq!(format!("id-range {line}"), expected, "{text}");
        good(conf(&format!("{text}\nid-generator id-range {line}")));
    }
    // The replaced line had the server's number: the proposal keeps it.
    let line = proposed(&bad(toml("server-id = 9")), "each with its own server-id, in place of the present lines, '");
    assert_eq!(good(toml(&format!("server-id = 9\n{line}"))).server_id, 9);
    for text in ["id-generator = \"server-id 4 id-range 2\"", "id-range = 2\nserver-id = 4"] {
        let line = proposed(&bad(toml(text)), "each with its own server-id, in place of the present lines, '");
        assert_eq!(line, "id-generator = \"server-id 4 id-range 3 shard-range 8 random-range 10\"");
        assert_eq!(good(toml(&line)).server_id, 4);
    }
    let line = proposed(&bad(toml("id-range = 1")), "write on all servers, in place of the present lines, '");
    assert_eq!(line, "id-generator = \"id-range 1 shard-range 10 random-range 10\"");
}

/// No line of a file overrides a stronger source.
#[test]
fn a_layout_is_proposed_for_the_source_that_wins() {
    for name in ["t.conf", "t.toml"] {
        let file: &[u8] = if name == "t.conf" { b"server-id 9" } else { b"server-id = 9" };
        let report = bad(load(name, file, &[("GETID_ID_RANGE", "2")], &[]));
        let words = proposed(&report, "in place of the variables that set widths, GETID_ID_GENERATOR='");
        assert_eq!(words, "id-range 4 shard-range 7 random-range 10");
        assert_eq!(good(load(name, file, &[("GETID_ID_GENERATOR", &words)], &[])).server_id, 9);

        let report = bad(load(name, file, &[], &["--id-range", "2"]));
        let line = proposed(&report, "write on all servers, after the other arguments, '");
        let words: Vec<_> = ["--id-range", "2"].into_iter().chain(line.split(' ')).collect();
        assert_eq!(good(load(name, file, &[], &words)).server_id, 9);
    }
    let report = bad(load("t.conf", b"", &[("GETID_ID_GENERATOR", "server-id 4 id-range 2")], &[]));
    let words = proposed(
        &report,
        "set on all servers, each with its own server-id, in place of the variables that set widths, GETID_ID_GENERATOR='",
    );
    assert_eq!(good(load("t.conf", b"", &[("GETID_ID_GENERATOR", &words)], &[])).server_id, 4);
}

#[test]
fn mistakes_on_the_command_line_are_reported() {
    let check = |words: &[&str], expected: &str| assert_eq!(bad(load("t.conf", b"", &[], words)), expected);
    check(
        &["--port", "x"],
        "Reading the command line\n>>> '--port x'\ncommand line: port: 'x' is not a whole number; must be 0 to 65535\n",
    );
    check(
        &["port", "7000"],
        "Reading the command line\n>>> 'port'\ncommand line: must be a directive, such as --port 7890\n",
    );
    check(
        &["--port", "--hz", "5"],
        "Reading the command line\n>>> '--port'\ncommand line: port: no value given, must be one value\n",
    );
    check(
        &["--daemonise", "no"],
        "Reading the command line\n>>> '--daemonise no'\ncommand line: daemonise: neither getid nor Redis knows this \
         directive\n    help: did you mean 'daemonize'?\n",
    );
}

#[test]
fn mistakes_in_the_environment_are_reported() {
    let check =
        |variable: (&str, &str), expected: &str| assert_eq!(bad(load("t.conf", b"", &[variable], &[])), expected);
    check(
        ("GETID_SERVER_ID", "four"),
        "Reading the environment\n>>> 'GETID_SERVER_ID=four'\nenvironment: server-id: 'four' is not a whole number; must be 0 \
         to 2097151, or auto or auto-ordinal\n",
    );
    check(
        ("GETID_SERVERID", "1"),
        "Reading the environment\n>>> 'GETID_SERVERID=(hidden)'\nenvironment: GETID_SERVERID: no directive has this name\n    help: \
         did you mean GETID_SERVER_ID?\n",
    );
    check(
        ("GETID_COLOUR", "red"),
        "Reading the environment\n>>> 'GETID_COLOUR=(hidden)'\nenvironment: GETID_COLOUR: no directive has this name\n    help: \
         variables that start with GETID_ set directives; unset this one if it is not meant for getid\n",
    );
}

#[test]
fn variables_of_container_platforms_are_ignored() {
    let environment = [
        ("GETID_PORT", "tcp://10.0.0.7:7890"),
        ("GETID_SERVICE_HOST", "10.0.0.7"),
        ("GETID_SERVICE_PORT", "7890"),
        ("GETID_SERVICE_PORT_REDIS", "7890"),
        ("GETID_PORT_7890_TCP", "tcp://10.0.0.7:7890"),
        ("GETID_PORT_7890_TCP_ADDR", "10.0.0.7"),
        ("GETID_ORDERS_PORT", "tcp://10.0.0.8:7890"),
        ("GETID_ORDERS_PORT_7890_UDP_PROTO", "udp"),
        ("GETID_NAME", "/app/getid"),
        ("GETID_ENV_PATH", "/bin"),
        ("GETID_VERSION", "1.0"),
        ("GETID_URL", "getid://127.0.0.1:7890"),
        ("GETID_TEST_BLESS", "1"),
        ("GETIDX", "1"),
    ];
    assert_eq!(good(load("t.conf", b"", &environment, &[])), Config::default());
}

#[test]
fn toml_sets_the_same_values() {
    let config = good(toml(
        "bind = [\"10.0.0.1\", \"-::1\"]\nport = 0x1ed2\nunixsocketperm = 0o770\nsyslog-enabled = true\nlogfile = \"a b\"\n\
         rename-command = [\"CONFIG ''\", [\"PING\", \"PO NG\"]]\nid-epoch = 2020-01-01T00:00:00Z\nid-generator = \"server-id 1\"\n\
         client-output-buffer-limit = { normal = \"1mb 1mb 1\" }\nmaxclients = 1_000\nrequirepass = \"a 'b\"\n",
    ));
    let same = good(conf(
        "bind 10.0.0.1 -::1\nport 7890\nunixsocketperm 770\nsyslog-enabled yes\nlogfile 'a b'\nrename-command CONFIG ''\n\
         rename-command PING 'PO NG'\nid-epoch 1577836800000\nserver-id 1\nclient-output-buffer-limit normal 1mb 1mb 1\n\
         maxclients 1000\nrequirepass \"a 'b\"",
    ));
    assert_eq!(config, same);
}

#[test]
fn every_source_declares_generators() {
    let expected = good(conf(
        "generator tweets twitter\ngenerator shop.eu layout time:39@1ms idc:2 server-id:7 counter:7 idc 1 prefix 'a;b' \
         counter-start 0..9 epoch 2016-01-01T00:00:00+08:00\ngenerator lua:1 redis-lua one-server 0",
    ));
    let lines = [
        "tweets twitter",
        "shop.eu layout time:39@1ms epoch 1451577600000 idc:2 server-id:7 counter:7 idc 1 prefix 'a;b' counter-start 0..9",
        "lua:1 redis-lua one-server 0",
    ];
    for separator in ["\n", "; ", ";\r\n\n"] {
        let environment = [("GETID_GENERATOR", &*lines.join(separator))];
        assert_eq!(good(load("t.conf", b"", &environment, &[])), expected, "{separator}");
    }
    let mut words = vec!["--generator", lines[0], "--generator"];
    words.extend(["shop.eu", "layout", "time:39@1ms", "idc:2", "server-id:7", "counter:7", "epoch", "1451577600000"]);
    words.extend(["idc", "1", "counter-start", "0..9", "prefix", "a;b", "--generator=lua:1", "redis-lua"]);
    words.extend(["one-server", "0"]);
    assert_eq!(good(load("t.conf", b"", &[], &words)), expected);
    let tables = "[generator.tweets]\nkind = 'twitter'\n[generator.\"shop.eu\"]\nidc = 0x1\n\
                  layout = ['time:39@1ms', 'idc:2', 'server-id:7', 'counter:7']\nprefix = 'a;b'\n\
                  epoch = 2016-01-01T00:00:00+08:00\nkind = 'layout'\ncounter-start = '0..9'\n\
                  [generator]\n'lua:1' = \"redis-lua one-server 0\"\n";
    assert_eq!(good(toml(tables)), expected);
    let array = lines.map(|line| format!("{line:?}")).join(",");
    assert_eq!(good(toml(&format!("generator = [{array}]"))), expected);
    // The declarations of all sources form one list.
    let given = load("t.conf", b"generator a uuid7", &[("GETID_GENERATOR", "b uuid6")], &["--generator", "c", "uuid4"]);
    let names: Vec<_> = good(given).generators.iter().map(|one| one.name().to_owned()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(good(load("t.conf", b"", &[("GETID_GENERATOR", "")], &[])), Config::default());
}

#[test]
fn every_source_declares_sequences_and_serials() {
    let expected = good(conf(
        "generator short sequence format base62 pad 7\ngenerator invoice serial 'INV{yyyyMMdd}-{n:6}' zone UTC\n\
         generator bill serial FY{fiscal-year}-{n:6} zone UTC fiscal-start 04-06 fiscal-name end",
    ));
    let bill = "bill serial FY{fiscal-year}-{n:6} fiscal-name end fiscal-start 04-06 reset fiscal-year zone UTC";
    let invoice = "invoice serial \"INV{yyyyMMdd}-{n:6}\" reset day zone UTC";
    let lines = ["short sequence pad 7 format base62", invoice, bill];
    assert_eq!(good(load("t.conf", b"", &[("GETID_GENERATOR", &lines.join(";"))], &[])), expected);
    let words = ["--generator", lines[0], "--generator", "invoice", "serial", "INV{yyyyMMdd}-{n:6}", "zone", "UTC"];
    let words: Vec<_> = words.into_iter().chain(["--generator", bill]).collect();
    assert_eq!(good(load("t.conf", b"", &[], &words)), expected);
    let tables = "[generator.short]\npad = 7\nkind = 'sequence'\nformat = 'base62'\n[generator.invoice]\nzone = 'UTC'\n\
                  template = 'INV{yyyyMMdd}-{n:6}'\nkind = 'serial'\n[generator.bill]\nkind = 'serial'\n\
                  template = 'FY{fiscal-year}-{n:6}'\nfiscal-start = '04-06'\nfiscal-name = 'end'\nzone = 'UTC'\n";
    assert_eq!(good(toml(tables)), expected);
    let shown = expected.get(&[pattern("generator")]);
    let expected = "short sequence format base62 pad 7\ninvoice serial INV{yyyyMMdd}-{n:6} zone UTC\n\
                    bill serial FY{fiscal-year}-{n:6} zone UTC fiscal-start 04-06 fiscal-name end";
    assert_eq!(shown, [("generator", expected.to_owned())]);
    let (_, warnings) = conf("generator i serial {yy}{n:6} zone UTC").unwrap();
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let expected = "t.conf:1: generator i: shows years by two digits: its texts repeat after a hundred years";
    assert_eq!(warnings, [expected]);
}

#[test]
fn generators_with_series_are_declared_in_all_forms_and_warned_of() {
    let line = "invoice serial 'INV-{key}-{yyyy}-{n:5}' zone UTC key-case exact keys declared keys-max 7";
    let expected = good(conf(&format!("generator {line}")));
    let tables = "[generator.invoice]\nkind = 'serial'\ntemplate = 'INV-{key}-{yyyy}-{n:5}'\nzone = 'UTC'\n\
                  key-case = 'exact'\nkeys = 'declared'\nkeys-max = 7\n";
    assert_eq!(good(toml(tables)), expected);
    assert_eq!(good(load("t.conf", b"", &[("GETID_GENERATOR", line)], &[])), expected);
    let warnings = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| format!("generator {line}")).collect();
        conf(&lines.join("\n")).unwrap().1.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&["a serial A-{key}-{n:5}", "b serial B-{key}-{n:5}", "c serial A-{n:5}"]), [""; 0]);
    let begins =
        "begins with its key, which may be digits: a program that reads its texts as integers reads the key alone";
    assert_eq!(warnings(&["a serial {key}-{n:5}"]), [format!("t.conf:1: generator a: {begins}")]);
    let meets = |line, name, other| {
        format!(
            "t.conf:{line}: generator {name}: can give texts that generator {other} gives too: begin one of them with other \
             letters"
        )
    };
    assert_eq!(warnings(&["a serial A-{key}-{n:5}", "b serial A-X{key}-{n:5}"]), [meets(2, "b", "a")]);
    assert_eq!(warnings(&["a serial A-{key}-{n:5}", "b serial A-X-{n:5}"]), [meets(1, "a", "b")]);
    assert_eq!(warnings(&["a serial A{n:5}", "b serial A{n:5}"]), [""; 0], "without keys the operator sees it");
    assert_eq!(warnings(&["a serial A{n:5} gapless", "b serial A{n:5}"]), [meets(1, "a", "b")]);
    assert_eq!(
        warnings(&["a serial A{n:5}", "b serial A{n:5} gapless", "c serial C{n:5} gapless"]),
        [meets(2, "b", "a")]
    );
    // The search is bounded.
    let many: Vec<_> = (0..200).map(|at| format!("g{at} serial X{{key}}-{{n:5}} overflow grow")).collect();
    assert!(warnings(&many.iter().map(String::as_str).collect::<Vec<_>>()).len() < 200);
}

#[test]
fn config_get_shows_generators_as_they_can_be_declared() {
    let text = "generator b uuid7\ngenerator a twitter epoch 2016-01-01T00:00:00Z format hex prefix '#'";
    let config = good(conf(text));
    let shown = config.get(&[pattern("generator")]);
    let expected = "b uuid7\na twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1451606400000 format hex pad 16 \
                    prefix \"#\"";
    assert_eq!(shown, [("generator", expected.to_owned())]);
    assert_eq!(good(load("t.conf", b"", &[("GETID_GENERATOR", expected)], &[])), config);
}

#[test]
fn there_is_a_bound_on_generators() {
    let lines = |count| (0..count).map(|at| format!("generator g{at} uuid7")).collect::<Vec<_>>().join("\n");
    assert_eq!(good(conf(&lines(GENERATORS_MAX))).generators.len(), GENERATORS_MAX);
    let report = bad(conf(&lines(GENERATORS_MAX + 9)));
    let expected = "Reading the configuration file, at line 1001\n>>> 'generator g1000 uuid7'\nt.conf:1001: generator: there \
                    are more than 1000 generators, must be at most 1000\n";
    assert_eq!(report, expected);
}

#[test]
fn doubtful_declarations_of_generators_cause_warnings() {
    let text =
        "generator a twitter worker 3 datacenter 1\ngenerator b leaf worker 3 one-server 0\ngenerator c uuid1 node 5";
    let (_, warnings) = conf(text).unwrap();
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let expected = [
        "t.conf:1: generator a: datacenter and worker are set by hand: servers with the same values give the same IDs",
        "t.conf:3: generator c: node is set by hand: servers with the same value give the same IDs",
    ];
    assert_eq!(warnings, expected);
    let text = "generator a serial SO{MMdd}-{n:6} zone UTC\ngenerator b serial SO{week}-{n:6} zone UTC overflow grow\n\
                generator c serial SO{yyyyMMdd}-{n:6} zone UTC reset year\n\
                generator d serial SO{yy}{quarter}-{n:6} zone UTC\n\
                generator e serial SO{fiscal-year}{MM}-{n:6} zone UTC fiscal-start 04-06 reset fiscal-year";
    let (_, warnings) = conf(text).unwrap();
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let expected = [
        "t.conf:1: generator a: shows a day without its year, so its counter never restarts (reset never), and it \
         ends at 999999: did you mean {yyyy}{MM}{dd}?",
        "t.conf:2: generator b: shows a week without its year, so its counter never restarts (reset never): did you \
         mean {week-year}{week}?",
        "t.conf:4: generator d: shows years by two digits: its texts repeat after a hundred years",
    ];
    assert_eq!(warnings, expected);
    let many: Vec<_> = (0..15).map(|at| format!("generator g{at} leaf worker 3")).collect();
    let (_, warnings) = conf(&many.join("\n")).unwrap();
    assert_eq!(warnings.len(), 10);
    let expected = "worker is set by hand: servers with the same value give the same IDs; and the same applies to 5 other generators";
    assert_eq!(warnings[9].sentence, expected);
}

#[test]
fn the_last_line_wins_and_others_add_up() {
    let config = good(conf("PORT 1\nport 2\nid-borrow-policy error\nid-state none\n\n  # port 3\n\thz\t5\t\r\n"));
    assert_eq!((config.port, config.hz), (2, 5));
    assert_eq!((config.id_borrow_policy, config.id_state), (BorrowPolicy::Error, StateKind::None));
    let config = good(conf("id-generator random-range 11 shard-range 8\nid-generator server-id 3"));
    assert_eq!((config.layout.shard_bits(), config.layout.random_bits(), config.server_id), (8, 11, 3));
}

#[test]
fn addresses_are_those_of_redis() {
    let check = |line: &str, expected: &str| {
        let config = good(conf(&format!("{line}\nunixsocket s")));
        assert_eq!(config.get(&[pattern("bind")]), [("bind", expected.to_owned())], "{line}");
    };
    check("bind *", "0.0.0.0");
    check("bind * -::*", "0.0.0.0 -::");
    check("bind \"\"", "");
    check("bind \"127.0.0.1 ::1\"", "127.0.0.1 ::1");
    check("", "127.0.0.1 -::1");
}

#[test]
fn protected_mode_follows_bind_unless_it_is_set() {
    let table = [
        ("", Protection::Connections, "yes"),
        ("bind 0.0.0.0", Protection::Commands, "guarded"),
        ("bind 0.0.0.0\nprotected-mode yes", Protection::Connections, "yes"),
        ("bind 0.0.0.0\nprotected-mode no", Protection::Nothing, "no"),
        ("bind 0.0.0.0\nprotected-mode Guarded", Protection::Commands, "guarded"),
        ("protected-mode no", Protection::Nothing, "no"),
        ("protected-mode guarded", Protection::Commands, "guarded"),
    ];
    for (text, expected, shown) in table {
        let config = good(conf(text));
        assert_eq!(config.protection(), expected, "{text}");
        assert_eq!(config.get(&[pattern("protected-mode")]), [("protected-mode", shown.to_owned())], "{text}");
        // Writing the effective value explicitly changes nothing: in a file, in the environment, on the command line.
        let bind = if text.contains("bind") { "bind 0.0.0.0\n" } else { "" };
        for saved in [
            conf(&format!("{bind}protected-mode {shown}")),
            load("t.conf", bind.as_bytes(), &[("GETID_PROTECTED_MODE", shown)], &[]),
            load("t.conf", bind.as_bytes(), &[], &["--protected-mode", shown]),
            toml(&format!("{}protected-mode = \"{shown}\"", bind.replace(" 0.0.0.0", " = \"0.0.0.0\""))),
        ] {
            assert_eq!(good(saved).protection(), expected, "{text}");
        }
    }
    assert_eq!(good(toml("protected-mode = false")).protection(), Protection::Nothing);
}

/// Parses a pattern as `CONFIG GET` does.
fn pattern(text: &str) -> Pattern {
    Pattern::new(text.as_bytes(), true).expect("it is short")
}

#[test]
fn config_get_answers_benchmarks_and_exporters() {
    let (config, _) = conf("save 900 1\nappendonly yes\nmaxmemory 1gb").unwrap();
    let check = |asked: &str, expected: &str| {
        let found = config.get(&[pattern(asked)]);
        let shown: Vec<_> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown.join(" "), expected, "{asked}");
    };
    check("save", "save=");
    check("appendonly", "appendonly=no");
    check("maxmemory", "maxmemory=0");
    check("SLOWLOG-*", "slowlog-log-slower-than=10000 slowlog-max-len=128");
    check("id-???ge", "id-range=2");
    check("client-query-buffer-limit", "client-query-buffer-limit=16777216");
    check(
        "client-output-b*",
        "client-output-buffer-limit=normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    );
    check("daemonize", "daemonize=no");
    check("user", "");
    check("nothing", "");
}

#[test]
fn hostile_files_are_refused_soon() {
    let over = vec![b'#'; FILE_BYTES_MAX + 1];
    assert!(bad(load("t.conf", &over, &[], &[])).contains("is larger than 1048576 bytes"));
    assert!(load("t.conf", &over[1..], &[], &[]).is_ok());
    // A log file given by mistake.
    let report = bad(load("t.conf", "x\n".repeat(FILE_BYTES_MAX / 2).as_bytes(), &[], &[]));
    assert!(report.ends_with("\n1000 errors, of which 50 are shown\n"), "{report}");
    let report = bad(load("t.toml", "x=1\n".repeat(2000).as_bytes(), &[], &[]));
    assert!(report.contains("t.toml:2: TOML: duplicate key"), "{report}");
    let _ = load("t.toml", "x=".repeat(5000).as_bytes(), &[], &[]);
    let _ = load("t.toml", ("x=".to_owned() + &"[".repeat(1000)).as_bytes(), &[], &[]);
    let keys: Vec<_> = (0..2000).map(|number| format!("search-{number}=1")).collect();
    let warnings = load("t.toml", keys.join("\n").as_bytes(), &[], &[]).unwrap().1;
    assert!(warnings.len() == 1 && warnings[0].subject.ends_with(" more"), "{warnings:?}");
}

#[test]
fn includes_come_to_an_end() {
    let sources = Sources { file: Some(PathBuf::from("0")), ..Sources::default() };
    // 0 includes 1 includes 2 ...
    let chain = Thought(|path: &str| Some(format!("include {}", path.parse::<u64>().unwrap() + 1).into_bytes()));
    let report = bad(Config::load(&sources, &chain));
    assert!(report.contains(&format!("is included {INCLUDE_DEPTH_MAX} files deep")), "{report}");
    // ... and each twice: 2^16 files without a bound.
    let tree = Thought(|path: &str| {
        let next = path.parse::<u64>().unwrap() + 1;
        Some(if next < 15 { format!("include {next}\n").repeat(2).into_bytes() } else { Vec::new() })
    });
    let report = bad(Config::load(&sources, &tree));
    assert!(report.contains(&format!("a configuration has at most {FILES_MAX}")), "{report}");
    let many = Thought(|path: &str| Some(if path == "0" { b"include *".to_vec() } else { Vec::new() }));
    let report = bad(Config::load(&sources, &many));
    assert!(report.contains("255.conf: is one file too many"), "{report}");
}

#[test]
fn files_of_the_machine_are_found_as_glob_finds_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(at("conf.d/inner")).unwrap();
    for name in ["conf.d/b.conf", "conf.d/a.conf", "conf.d/.c.conf", "conf.d/d.txt", "conf.d/inner/e.conf"] {
        fs::write(at(name), "").unwrap();
    }
    let check = |pattern: &str, expected: &[&str]| {
        let expected: Vec<_> = expected.iter().map(|name| PathBuf::from(at(name))).collect();
        assert_eq!(RealFiles.matching(&at(pattern)).unwrap(), expected, "{pattern}");
    };
    check("conf.d/*.conf", &["conf.d/a.conf", "conf.d/b.conf"]);
    check("conf.d/.*.conf", &["conf.d/.c.conf"]);
    check("*/*/e.conf", &["conf.d/inner/e.conf"]);
    check("conf.d/[^a].conf", &["conf.d/b.conf"]);
    check("nowhere/*.conf", &[]);

    let report = |path: &str| {
        bad(Config::load(&Sources { file: Some(PathBuf::from(at(path))), ..Sources::default() }, &RealFiles))
    };
    assert!(report("conf.d").contains("cannot be read: Is a directory"));
    assert!(report("none.conf").contains("none.conf: cannot be read: No such file or directory"));
}

#[test]
fn dir_is_a_folder_or_can_be_made_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir(at("there")).unwrap();
    fs::write(at("file"), "").unwrap();
    let with = |dir: &str| {
        let config = Config { dir: Some(PathBuf::from(dir)), ..Config::default() };
        Dir::find(&config, &[], folder.path()).map_err(|report| report.to_string())
    };
    let found = |dir: &str| with(dir).map(|dir| (dir.path, dir.is_missing));
    assert_eq!(found("there"), Ok((at("there"), false)), "relative to the folder of the start");
    assert_eq!(found(at("there").to_str().unwrap()), Ok((at("there"), false)));
    assert_eq!(found("new"), Ok((at("new"), true)));
    assert!(!at("new").exists(), "looked for and not made");
    assert!(found("file").unwrap_err().contains("is not a folder"));
    let missing = found("no/such").unwrap_err();
    assert!(missing.contains("/no/such' cannot be used: No such file") && missing.contains("/no'"), "{missing}");
}

#[test]
fn without_a_state_no_folder_is_needed_and_a_state_left_behind_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let environment = [("XDG_STATE_HOME".into(), home.clone().into_os_string())];
    let find = |config: &Config| Dir::find(config, &environment, folder.path()).unwrap();
    let none = Config { id_state: StateKind::None, ..Config::default() };
    assert_eq!(find(&none), Dir { path: folder.path().to_owned(), is_missing: false, left_behind: None });
    // (As root the default is the machine's folder, which tests must not touch.)
    let named = Config { dir: Some(home), server_id: 3, ..Config::default() };
    fs::write(folder.path().join("getid-3.state"), "").unwrap();
    assert_eq!(find(&named).left_behind, None, "no warning with a configured folder");
    if !nix::unistd::geteuid().is_root() {
        let default = Config { server_id: 3, ..Config::default() };
        assert_eq!(find(&default).left_behind, Some(folder.path().join("getid-3.state")));
        assert_eq!(find(&Config { server_id: 2, ..default }).left_behind, None);
    }
}

/// Bytes that are nearly a configuration.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(Directive::ALL.iter().map(|row| row.name).collect::<Vec<_>>());
    let value = prop_oneof![
        "[ -~]{0,12}",
        "-?[0-9]{1,22}(k|kb|g|ms)?",
        Just("server-id 0 id-range 2".to_owned()),
        "[a-c.:]{1,3} (layout|leaf|uuid7|twiter) (time:[0-9]{1,3}@1ms )?(counter:[0-9]{1,3} )?([a-z-]{1,8} [0-9.]{1,6} ?){0,4}",
        Just("\"".to_owned()),
        Just("= { a = [1, 2] }".to_owned()),
    ];
    let line = prop_oneof![
        4 => (name, value).prop_map(|(name, value)| format!("{name} {value}\n").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn no_file_panics_the_reader(bytes in nearly()) {
        for name in ["t.conf", "t.toml"] {
            if let Err(report) = load(name, &bytes, &[], &[]) {
                // The report contains no control character for a terminal.
                prop_assert!(report.to_string().chars().all(|character| character == '\n' || !character.is_control()));
            }
        }
    }

    #[test]
    fn no_command_line_panics_the_reader(words in prop::collection::vec("(--[a-z-]{0,12}|[ -~]{0,8})", 0..6)) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let _ = load("t.conf", b"", &[], &words);
    }

    #[test]
    fn a_quoted_value_reads_back(value in "\\PC{0,20}|[\u{0}-\u{7f}]{1,10}") {
        prop_assume!(!value.contains('\0'));
        let (config, _) = conf(&format!("syslog-ident {}", quote(value.as_bytes()))).unwrap();
        prop_assert_eq!(config.syslog_ident, value);
    }
}

#[test]
fn directives_of_a_missing_http_port_cause_warnings() {
    let lines = "http-timeout 60\nhttp-bind 127.0.0.1\nhttp-open metrics\nhttp-host a.b\n";
    let warnings_of = |text: &str| conf(text).unwrap().1.iter().map(ToString::to_string).collect::<Vec<_>>();
    let names = ["t.conf:2: http-bind", "t.conf:3: http-open", "t.conf:4: http-host"];
    assert_eq!(warnings_of(lines), names.map(|name| format!("{name}: has no effect: http-port is 0")));
    assert_eq!(warnings_of(&format!("{lines}http-port 7880")), [""; 0]);
}

#[test]
fn an_http_port_may_be_another_ports_on_another_address() {
    let (config, _) = conf("bind 127.0.0.1\nport 7890\nhttp-port 7890\nhttp-bind 127.0.0.2 ::").unwrap();
    assert_eq!((config.http.port, config.http_bind().len()), (7890, 2));
    assert!(conf("bind 127.0.0.1\nport 7890\nhttp-port 7890\nhttp-bind 0.0.0.0").is_err());
    assert!(conf("bind ::\nport 7890\nhttp-port 7890\nhttp-bind ::1").is_err());
}
