//! `getid sequence`, `getid import` and `getid check-config --connect`: their output and effects, with SQLite files,
//! with a fake Redis and with a real one. `tests/stores` tests database servers.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use getid_core::server::{Key, Reset, Spec};
use getid_store::sql::{OpenPeriodRequest, TableKind, open};
use getid_text::store_url::StoreUrl;
use tempfile::TempDir;

use crate::support::mariadb::MariadbServer;
use crate::support::postgres::PostgresServer;
use crate::support::program::{PATIENCE, finish};
use crate::support::redis::RedisServer;
use crate::support::{folder, getid};

/// A folder with the state of server 0.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(folder())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `getid` and returns the exit code and both streams, in which the folder is replaced by DIR. A `%20` in a
    /// word is a blank.
    fn run(&self, words: &str) -> (i32, String, String) {
        let dir = self.path().to_str().unwrap();
        let mut command = getid();
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GETID_")) {
            command.env_remove(name);
        }
        command.env("GETID_DIR", dir).env("GETID_ID_MACHINE_CLAIM", "no").env_remove("REDISCLI_AUTH").current_dir(dir);
        command.args(words.split_whitespace().map(|word| word.replace("DIR", dir).replace("%20", " ")));
        let output = finish(&mut command, "", PATIENCE, false);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(dir, "DIR");
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    #[track_caller]
    fn check(&self, words: &str, code: i32, stdout: &str, stderr: &str) {
        let (found, out, err) = self.run(words);
        assert_eq!((found, out.as_str(), err.as_str()), (code, stdout, stderr), "{words}");
    }

    /// Asserts the exit code, and that the output contains each text of `expected`.
    #[track_caller]
    fn check_parts(&self, words: &str, code: i32, expected: &[&str]) {
        let (found, out, err) = self.run(words);
        let output = out + &err;
        assert_eq!(found, code, "{words}: {output}");
        for expected in expected {
            assert!(output.contains(expected), "{words}: no '{expected}' in\n{output}");
        }
        assert!(!output.contains("hunter"), "{words}: {output}");
    }
}

const HEAD: &str = "NAME                                             RESERVED TO  OPTIONS\n";

#[test]
fn sequences_are_created_listed_raised_and_shown() {
    let dir = Folder::new();
    dir.check(
        "sequence create orders",
        0,
        "created 'orders' in sqlite:DIR/sequences-0.sqlite: 1 is the first value\n",
        "",
    );
    let missing = "getid: no such sequence: 'others'. `getid sequence create others` creates it\n";
    dir.check("sequence info others", 1, "", missing);
    dir.check("sequence raise others 5", 1, "", missing);
    let there = "getid: there is a sequence 'orders' already, and 1 is next\n";
    dir.check("sequence create orders start 5", 1, "", there);
    dir.check(
        "sequence create a:b START 1000 cache 0 max 5000",
        0,
        "created 'a:b' in sqlite:DIR/sequences-0.sqlite: 1000 is the first value\n",
        "",
    );
    let listed = "a:b                                                        -  start 1000 cache 0 max 5000\n\
                  orders                                                     -\n";
    dir.check("sequence list", 0, &format!("{HEAD}{listed}"), "");
    dir.check("sequence raise orders 120", 0, "raised 'orders': 121 is the next value\n", "");
    let lower = "getid: a sequence never goes back: 'orders' is at 120\n";
    dir.check("sequence raise orders 120", 1, "", lower);
    dir.check("sequence raise orders 7", 1, "", lower);
    let listed = "orders                                                   120\n";
    dir.check("sequence list --pattern o*", 0, &format!("{HEAD}{listed}"), "");
    dir.check_parts(
        "sequence info orders",
        0,
        &[
            "  reserved   to 120: ",
            "  next       121\n",
            "  state      live\n",
            "  row        version 1, generation 1\n",
        ],
    );
    dir.check("sequence raise a:b 4999", 0, "raised 'a:b': 5000 is the next value\n", "");
    dir.check("sequence raise a:b 5000", 0, "raised 'a:b': 5001 is the next value\n", "");
    dir.check_parts("sequence info a:b", 0, &["  next       none: max 5000 is reached\n"]);
    let (_, json, _) = dir.run("sequence list --json");
    let rows: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[1]["name"], &rows[1]["reserved_to"], &rows[1]["next"]),
        (&"orders".into(), &"120".into(), &"121".into())
    );
}

#[test]
fn a_name_with_blanks_and_braces_is_quoted_for_a_shell() {
    let dir = Folder::new();
    dir.check_parts("sequence create orders", 0, &["created"]);
    let missing = "getid: no such sequence: '{cart} #7'. `getid sequence create '{cart} #7'` creates it\n";
    dir.check("sequence info {cart}%20#7", 1, "", missing);
    let created = "created '{cart} #7' in sqlite:DIR/sequences-0.sqlite: 1 is the first value\n";
    dir.check("sequence create {cart}%20#7", 0, created, "");
    dir.check("sequence raise {cart}%20#7 41", 0, "raised '{cart} #7': 42 is the next value\n", "");
    dir.check_parts("sequence info {cart}%20#7", 0, &["  next       42\n"]);
    let listed = "{cart} #7                                                 41\n";
    dir.check("sequence list --pattern {cart}*", 0, &format!("{HEAD}{listed}"), "");
    for bad in ["{cart}%20", "%20{cart}", "{cart}/7"] {
        dir.check_parts(&format!("sequence create {bad}"), 2, &["is no name of a sequence: it has 1 to 128 bytes of"]);
    }
}

/// A wrong path looks like a file that no server has created yet. So tools that create no sequence report a missing
/// file.
#[test]
fn tools_that_create_no_row_need_a_file() {
    let dir = Folder::new();
    let no_file = |path: &str| {
        format!(
            "getid: sqlite:DIR/{path}: there is no such file: check --store, or --config, --dir and --server-id. A \
             server or 'getid sequence create NAME' creates it with the first sequence\n"
        )
    };
    for words in ["list", "list --json", "info orders", "raise orders 5", "prune --through 2026-01-31"] {
        dir.check(&format!("sequence {words}"), 2, "", &no_file("sequences-0.sqlite"));
        dir.check(&format!("sequence {words} --store sqlite:typo.db"), 2, "", &no_file("typo.db"));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    dir.check("sequence create x --store sqlite:a.db", 0, "created 'x' in sqlite:DIR/a.db: 1 is the first value\n", "");
    let two = "--store sqlite:a.db --store sqlite:typo.db";
    dir.check(&format!("sequence raise x 5 {two}"), 2, "", &no_file("typo.db"));
    dir.check_parts("sequence info x --store sqlite:a.db", 0, &["  reserved   nothing yet\n"]);
}

#[test]
fn the_same_store_twice_is_refused() {
    let dir = Folder::new();
    dir.check("sequence create x --store sqlite:a.db", 0, "created 'x' in sqlite:DIR/a.db: 1 is the first value\n", "");
    std::fs::copy(dir.path().join("a.db"), dir.path().join("b.db")).unwrap();
    let expected = ["sqlite:DIR/b.db: this is the same store as sqlite:DIR/a.db (uuid ", "name each store once"];
    dir.check_parts("sequence raise x 5 --store sqlite:a.db --store sqlite:b.db", 2, &expected);
    let words = "check-config --connect --sequence-store sqlite:a.db --sequence-store sqlite:b.db";
    dir.check_parts(words, 1, &expected);
    // The file does not exist yet.
    let expected = ["this is the same store as sqlite:DIR/n.db: name each store once"];
    dir.check_parts("sequence create x --store sqlite:n.db --store sqlite:./n.db", 2, &expected);
    assert!(!dir.path().join("n.db").exists());
}

#[test]
fn a_list_continues_after_unreadable_rows() {
    let dir = Folder::new();
    for name in ["a", "b", "c"] {
        dir.check_parts(&format!("sequence create {name}"), 0, &["created"]);
    }
    let file = rusqlite::Connection::open(dir.path().join("sequences-0.sqlite")).unwrap();
    file.execute_batch("UPDATE getid_sequence SET name = 'a/b' WHERE name = 'b'").unwrap();
    drop(file);
    let (code, out, err) = dir.run("sequence list");
    assert_eq!((code, out.lines().count()), (1, 3), "{out}{err}");
    for expected in ["the row 'a/b' of getid_sequence has a name that is not valid", "1 row left out"] {
        assert!(err.contains(expected), "{err}");
    }
    dir.check_parts("sequence list --pattern c", 0, &["c  "]);
}

/// Opens periods of a generator in the store of a folder, as a server does.
fn open_periods(dir: &Path, generator: &str, periods: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = open(&StoreUrl::default_file(), TableKind::Native, dir, 0).unwrap();
    let mut connection = runtime.block_on(store.connect()).unwrap();
    for period in periods {
        let ask = OpenPeriodRequest {
            key: Key::of_period(generator, period).unwrap(),
            declaration: "serial {yyyyMMdd}{n:6} zone UTC".to_owned(),
            reset: Reset::Day,
            spec: Spec::default(),
            floor: 0,
            may_begin: true,
            is_serial: true,
            from_unix_ms: i64::MIN,
            has_begun: true,
            redeclares: false,
            restores_row: false,
            series: None,
            server: None,
        };
        runtime.block_on(connection.open_period(&ask)).unwrap().unwrap();
    }
}

#[test]
fn ended_periods_are_shown_and_then_removed() {
    let dir = Folder::new();
    let nothing = "There is no period to remove that ended by 2026-01-31\n";
    dir.check("sequence create a.b", 0, "created 'a.b' in sqlite:DIR/sequences-0.sqlite: 1 is the first value\n", "");
    dir.check("sequence prune --through 2026-01-31", 0, nothing, "");
    open_periods(dir.path(), "a", &["D20260130", "D20260131", "D20260201"]);
    open_periods(dir.path(), "invoice", &["D20260129", "D20260131"]);
    let shown = "a                          2 rows D20260130 to D20260131  sqlite:DIR/sequences-0.sqlite\n\
                 invoice                     1 row D20260129 to D20260129  sqlite:DIR/sequences-0.sqlite\n";
    let would = "3 rows would be removed: repeat this with --yes to remove them\n";
    dir.check("sequence prune --through 2026-01-31", 0, &format!("{shown}{would}"), "");
    dir.check_parts("sequence list --periods", 0, &["a@D20260130", "a@D20260131", "invoice@D20260129"]);
    let one =
        "invoice                     1 row D20260129 to D20260129  sqlite:DIR/sequences-0.sqlite\nRemoved 1 row\n";
    dir.check("sequence prune --through 2026-01-31 --generator invoice --yes", 0, one, "");
    dir.check_parts("sequence prune --through 2026-01-31 --yes", 0, &["Removed 2 rows"]);
    dir.check_parts(
        "sequence list",
        0,
        &["a.b  ", "0.sqlite: counters of 2 generators are not listed: add --periods\n"],
    );
    let is_generator = "'invoice' is a generator, whose counters have names of their own: `getid sequence list \
                        --periods --pattern 'invoice[@/]*'` shows them";
    for words in ["info invoice", "create invoice", "raise invoice 5"] {
        dir.check_parts(&format!("sequence {words}"), 1, &[is_generator]);
    }
    dir.check_parts("sequence list --periods --pattern invoice[@/]*", 0, &["invoice@D20260131"]);
    let (_, left, _) = dir.run("sequence list --periods");
    assert_eq!(left.matches('@').count(), 2, "{left}");
    dir.check("sequence prune --through 2026-01-31 --yes", 0, nothing, "");
    for (words, code, expected) in [
        ("--through 2026-02-30", 2, "--through is '2026-02-30', must be a day such as 2025-12-31"),
        ("--through tomorrow", 2, "--through is 'tomorrow', must be a day"),
        ("", 2, "--through <DATE>"),
        ("--through 2026-01-31 --generator b", 1, "no generator 'b' has a counter there"),
    ] {
        dir.check_parts(&format!("sequence prune {words}"), code, &[expected]);
    }
}

#[test]
fn mistakes_are_reported_before_a_store_is_opened() {
    let dir = Folder::new();
    for (words, expected) in [
        ("sequence create 'a", "''a' is no name of a sequence: it has 1 to 128 bytes of"),
        ("sequence create a/b", "'a/b': the counter of a key or a period is created by its generator"),
        ("sequence create a@1", "'a@1': the counter of a key or a period is created by its generator"),
        ("sequence create a begin 5", "'begin' is not an option of a sequence"),
        ("sequence create a cycle", "cycle is refused"),
        ("sequence create a max 5 start 9", "max is 5, below the first value"),
        ("sequence raise a -5", "unexpected argument '-5'"),
        ("sequence raise a 9000000000000000001", "'9000000000000000001' is no value of a sequence"),
        ("sequence raise a 1.5", "'1.5' is no value of a sequence"),
        ("sequence list --store mysq://a:hunter2@h/b", "--store: 'mysq://a:***@h/b' has none of the schemes"),
        ("sequence list --store mysq://a:hunter2@h/b", "(did you mean 'mysql:'?)"),
        ("sequence list --store none", "no store of sequences is configured"),
        ("sequence list --store sqlite:a --store sqlite:a", "'sqlite:a' appears in two lines"),
        ("sequence list --table leaf", "sequence-table is leaf, which is a table of a database server"),
        ("sequence list --store postgres://a@h/b?password-file=DIR/no", "'DIR/no' cannot be read"),
        ("sequence list --config DIR/no.conf", "DIR/no.conf: cannot be read"),
        ("sequence schema --store mysql://a@h", "names no database"),
        ("import redis://127.0.0.1:1 --pattern * --margin -1", "unexpected argument '-1'"),
        ("import redis://127.0.0.1:1", "--pattern <PATTERN>"),
        ("import redis://a:hunter2@127.0.0.1:1 --pattern *", "127.0.0.1:1: Connection refused"),
        ("import redis://127.0.0.1:1 --pattern * --to redis://h --store sqlite:a", "cannot be used with"),
    ] {
        dir.check_parts(words, 2, &[expected]);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn several_stores_share_the_values_of_a_sequence() {
    let dir = Folder::new();
    let stores = "--store sqlite:a.db --store sqlite:b.db";
    dir.check_parts(&format!("sequence create x cache 0 {stores}"), 2, &["cache 0 needs a single store"]);
    // After an interrupted creation, one of the stores has the sequence.
    dir.check(
        "sequence create x increment 2 --store sqlite:a.db",
        0,
        "created 'x' in sqlite:DIR/a.db: 1 is the first value\n",
        "",
    );
    let created = "created 'x' in sqlite:DIR/b.db: 2 is the first value\n";
    dir.check(&format!("sequence create x {stores}"), 0, created, "");
    dir.check_parts(&format!("sequence create x {stores}"), 1, &["there is a sequence 'x' already"]);
    dir.check_parts(
        &format!("sequence create x increment 3 {stores}"),
        1,
        &["already, with other options: increment 2"],
    );
    let raised =
        "raised 'x' in sqlite:DIR/a.db: 101 is the next value\nraised 'x' in sqlite:DIR/b.db: 102 is the next value\n";
    dir.check(&format!("sequence raise x 100 {stores}"), 0, raised, "");
    dir.check("sequence raise x 200 --store sqlite:a.db", 0, "raised 'x': 201 is the next value\n", "");
    let raised = "raised 'x' in sqlite:DIR/b.db: 152 is the next value\n";
    dir.check(&format!("sequence raise x 150 {stores}"), 0, raised, "");
    dir.check_parts(&format!("sequence raise x 150 {stores}"), 1, &["a sequence never goes back"]);
    dir.check_parts(&format!("sequence list {stores}"), 0, &["sqlite:DIR/a.db:\n", "\nsqlite:DIR/b.db:\n"]);
}

#[test]
fn the_schema_is_printed_and_nothing_is_opened() {
    let dir = Folder::new();
    let (code, schema, _) = dir.run("sequence schema");
    assert_eq!(code, 0);
    assert!(schema.contains("CREATE TABLE getid_sequence"), "{schema}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_file_in_use_is_locked() {
    let dir = Folder::new();
    dir.check(
        "sequence create orders",
        0,
        "created 'orders' in sqlite:DIR/sequences-0.sqlite: 1 is the first value\n",
        "",
    );
    let held = rusqlite::Connection::open(dir.path().join("sequences-0.sqlite")).unwrap();
    held.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT;").unwrap();
    // Each process waits one second for the lock.
    thread::scope(|scope| {
        for (words, code, expected) in [
            ("sequence info orders", 2, &["is locked", "redis-cli -p 7890 SEQUENCE INFO orders"][..]),
            ("sequence raise orders 7", 2, &["redis-cli -p 7890 SEQUENCE RAISE orders 7"]),
            // The usual case: the checked configuration is that of the running server.
            ("check-config --connect", 0, &["OK\n", "in use by a running server or another tool"]),
        ] {
            let dir = &dir;
            scope.spawn(move || dir.check_parts(words, code, expected));
        }
    });
    drop(held);
    dir.check_parts("check-config --connect", 0, &["SQLite ", "1 sequence\n"]);
}

#[test]
fn check_config_opens_stores_only_with_connect() {
    let dir = Folder::new();
    dir.check_parts("check-config", 0, &["sequences in sqlite: (--connect checks them)\n"]);
    dir.check_parts(
        "check-config --connect",
        0,
        &["sequences in sqlite:DIR/sequences-0.sqlite: SQLite ", "not made yet, 0 sequences\n"],
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    dir.check_parts(
        "check-config --connect --dir DIR/new",
        0,
        &["sequences in sqlite:DIR/new/sequences-0.sqlite, which will be made\n"],
    );
    dir.check_parts("check-config --connect --id-state none", 0, &["no sequences are kept\n"]);
    std::fs::write(dir.path().join("other.db"), "this is no database of sequences, it is a text\n".repeat(200))
        .unwrap();
    dir.check_parts(
        "check-config --sequence-store sqlite:other.db",
        0,
        &["sequences in sqlite:other.db (--connect checks them)"],
    );
    dir.check_parts(
        "check-config --connect --sequence-store sqlite:other.db",
        1,
        &["OK\n", "getid: sqlite:DIR/other.db: "],
    );
    // One error does not hide the others.
    let two = "check-config --connect --sequence-store sqlite:other.db --sequence-store sqlite:no/where.db";
    dir.check_parts(two, 1, &["DIR/other.db", "DIR/no/where.db"]);
}

/// Starts a fake Redis with these replies, by the words of a request. Other requests get an error.
fn redis(replies: Vec<(&str, String)>) -> u16 {
    let replies: BTreeMap<String, String> =
        replies.into_iter().map(|(words, reply)| (words.to_owned(), reply)).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&mut stream.unwrap(), &replies);
        }
    });
    port
}

fn answer(stream: &mut TcpStream, replies: &BTreeMap<String, String>) {
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        input.extend_from_slice(&buffer[..count]);
        while let Some((words, used)) = request(&input) {
            input.drain(..used);
            let reply = replies.get(&words).cloned().unwrap_or_else(|| format!("-ERR unexpected '{words}'\r\n"));
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Returns the words of a whole request, and its length in bytes.
fn request(input: &[u8]) -> Option<(String, usize)> {
    let text = String::from_utf8_lossy(input).into_owned();
    let mut lines = text.split_inclusive("\r\n");
    let head = lines.next().filter(|line| line.ends_with("\r\n"))?;
    let count: usize = head.trim().strip_prefix('*')?.parse().ok()?;
    let mut used = head.len();
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, word) = (lines.next()?, lines.next().filter(|line| line.ends_with("\r\n"))?);
        used += length.len() + word.len();
        words.push(word.trim_end().to_owned());
    }
    Some((words.join(" "), used))
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Returns a page of SCAN.
fn page(cursor: &str, keys: &[&str]) -> String {
    let keys: String = keys.iter().map(|key| bulk(key)).collect::<Vec<_>>().concat();
    let count = keys.matches('$').count();
    format!("*2\r\n{}*{count}\r\n{keys}", bulk(cursor))
}

#[test]
fn counters_are_taken_over_page_by_page_and_never_lowered() {
    let dir = Folder::new();
    let long = "x".repeat(200);
    let port = redis(vec![
        ("SCAN 0 MATCH * COUNT 1000", page("17", &["orders", "list", &long, "gone"])),
        ("SCAN 17 MATCH * COUNT 1000", page("0", &["h", "orders", "word"])),
        ("TYPE orders", "+string\r\n".to_owned()),
        ("GET orders", bulk("100")),
        ("TYPE list", "+list\r\n".to_owned()),
        ("TYPE gone", "+none\r\n".to_owned()),
        ("TYPE h", "+hash\r\n".to_owned()),
        ("HGET h cur", bulk("7")),
        ("TYPE word", "+string\r\n".to_owned()),
        ("GET word", bulk("\u{1b}[2Jabc")),
    ]);
    let import = format!("import redis://127.0.0.1:{port} --pattern *");
    dir.check_parts(
        &format!("{import} --dry-run"),
        1,
        &["orders: would be created at 100, 101 is next", "nothing was changed"],
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    dir.check_parts(
        &format!("{import} --hash-field cur --margin 10 --margin-percent 25"),
        1,
        &[
            "orders: created at 100 with a margin to 125, 126 is next\n",
            "list: LEFT OUT: it is a list, not a string\n",
            "x...: LEFT OUT: its name is not valid for a sequence",
            "h: created at 7 with a margin to 17, 18 is next\n",
            "orders: unchanged, it is at 125 and the counter at 100 with a margin to 125\n",
            "word: LEFT OUT: it holds '\\u{1b}[2Jabc', which is no number\n",
            "6 counters: 2 created, 0 raised, 1 unchanged, 3 left out\n",
            "The margin is an estimate",
            "Writers must be stopped, or the keys renamed, before the import",
            "getid: 3 counters left out; the lines above give the reasons\n",
        ],
    );
    // Repeated: only counters that have grown change.
    dir.check_parts(
        &import,
        1,
        &[
            "orders: unchanged, it is at 125 and",
            "h: LEFT OUT: it is a hash, not a string; --hash-field",
            "0 created, 0 raised, 2 unchanged",
        ],
    );
    let port = redis(vec![
        ("SCAN 0 MATCH o* COUNT 1000", page("0", &["orders"])),
        ("TYPE orders", "+string\r\n".to_owned()),
        ("GET orders", bulk("130")),
    ]);
    dir.check(
        &format!("import redis://127.0.0.1:{port} --pattern o* --json"),
        0,
        "{\"done\":\"raised\",\"from\":\"125\",\"last\":\"130\",\"name\":\"orders\",\"value\":\"130\"}\n\
         {\"sums\":{\"created\":0,\"dry_run\":false,\"left_out\":0,\"raised\":1,\"unchanged\":0,\"whole\":true}}\n",
        "",
    );
    dir.check_parts("sequence list", 0, &["orders                                                   130  start 126\n"]);
}

#[test]
fn an_import_ends_if_redis_refuses_or_disconnects() {
    let dir = Folder::new();
    for (reply, expected) in [
        ("-NOAUTH Authentication required.\r\n".to_owned(), "NOAUTH Authentication required."),
        ("+OK\r\n".to_owned(), "is not one of Redis"),
        ("HTTP/1.1 400 Bad Request\r\n".to_owned(), "does not speak Redis's protocol"),
        ("*-1\r\n".to_owned(), "is not one of Redis"),
    ] {
        let port = redis(vec![("SCAN 0 MATCH * COUNT 1000", reply)]);
        let (code, out, err) = dir.run(&format!("import redis://127.0.0.1:{port} --pattern *"));
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected), "{err}");
    }
    // A failure after a page reports the progress.
    let port = redis(vec![
        ("SCAN 0 MATCH * COUNT 1000", page("5", &["a"])),
        ("TYPE a", "+string\r\n".to_owned()),
        ("GET a", bulk("1")),
        ("SCAN 5 MATCH * COUNT 1000", "-LOADING it is\r\n".to_owned()),
    ]);
    dir.check_parts(
        &format!("import redis://127.0.0.1:{port} --pattern *"),
        2,
        &["a: created at 1, 2 is next\n", "is NOT complete", "LOADING it is"],
    );
}

/// The tool imports into a running getid by its commands.
#[test]
fn import_into_a_running_server_uses_its_commands() {
    let dir = Folder::new();
    let source = || {
        redis(vec![
            ("SCAN 0 MATCH * COUNT 1000", page("0", &["new", "low", "same", "no"])),
            ("TYPE new", "+string\r\n".to_owned()),
            ("GET new", bulk("5")),
            ("TYPE low", "+string\r\n".to_owned()),
            ("GET low", bulk("50")),
            ("TYPE same", "+string\r\n".to_owned()),
            ("GET same", bulk("7")),
            ("TYPE no", "+string\r\n".to_owned()),
            ("GET no", bulk("9")),
        ])
    };
    let to = redis(vec![
        ("AUTH app hunter2", "+OK\r\n".to_owned()),
        ("GET ?", "$-1\r\n".to_owned()),
        ("GET new", "$-1\r\n".to_owned()),
        ("SET new 5", "+OK\r\n".to_owned()),
        ("GET low", bulk("40")),
        ("SET low 50", "+OK\r\n".to_owned()),
        ("GET same", bulk("7")),
        ("GET no", "-WRONGTYPE 'no' is a generator\r\n".to_owned()),
    ]);
    dir.check_parts(
        &format!("import redis://127.0.0.1:{} --pattern * --to redis://app:hunter2@127.0.0.1:{to}", source()),
        1,
        &[
            "new: created at 5, 6 is next\n",
            "low: raised from 40 to 50\n",
            "same: unchanged, it is at 7 and the counter at 7\n",
            "no: LEFT OUT: WRONGTYPE 'no' is a generator\n",
        ],
    );
    let off = redis(vec![("GET ?", "-ERR sequences are off: there is no store for them\r\n".to_owned())]);
    let words = format!("import redis://127.0.0.1:{} --pattern * --to 127.0.0.1:{off}", source());
    dir.check_parts(&words, 2, &["sequences are off: there is no store for them"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
#[ignore = "needs redis-server and redis-cli"]
fn counters_of_a_real_redis() {
    let dir = Folder::new();
    let redis = RedisServer::start(&["--requirepass", "hunter2"]);
    let cli = |words: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &redis.port.to_string(), "--no-auth-warning", "-a", "hunter2", "-n", "3"]).args(words);
        let output = finish(&mut command, "", PATIENCE, false);
        assert!(output.status.success(), "{words:?}");
    };
    cli(&["EVAL", "for i=1,3000 do redis.call('set','seq:'..i,i) end", "0"]);
    cli(&["HSET", "seq:h", "cur", "500", "max", "600"]);
    cli(&["SET", "other", "1"]);
    cli(&["INCRBYFLOAT", "seq:float", "1.5"]);
    cli(&["LPUSH", "seq:list", "1"]);
    let import = format!("import redis://:hunter2@127.0.0.1:{}/3 --pattern seq:* --hash-field cur", redis.port);
    let (code, out, err) = dir.run(&format!("{import} --margin 3"));
    assert_eq!(code, 1, "{err}");
    let sums = "3,003 counters: 3,001 created, 0 raised, 0 unchanged, 2 left out";
    assert!(out.contains(sums), "{out}");
    assert!(out.contains("seq:h: created at 500 with a margin to 503, 504 is next\n"), "{out}");
    assert!(out.contains("seq:float: LEFT OUT: it holds '1.5', which is no number\n"), "{out}");
    assert!(out.contains("seq:list: LEFT OUT: it is a list"), "{out}");
    assert!(!out.contains("other"), "{out}");
    cli(&["SET", "seq:7", "99"]);
    let (_, out, _) = dir.run(&import);
    assert!(out.contains("seq:7: raised from 10 to 99\n"), "{out}");
    assert!(out.contains("0 created, 1 raised, 3,000 unchanged, 2 left out"), "{out}");
    let (_, listed, _) = dir.run("sequence list --json");
    assert_eq!(listed.lines().count(), 3001);
}

/// Errors of a database are printed with the remedy, and never with a password.
#[test]
#[ignore = "needs postgresql"]
fn tools_on_a_real_postgresql() {
    let dir = Folder::new();
    let postgres = PostgresServer::start(&[]);
    postgres.psql("CREATE ROLE app LOGIN PASSWORD 'hunter2'");
    postgres.psql("CREATE ROLE other LOGIN PASSWORD 'hunter3'");
    postgres.psql("CREATE DATABASE ids OWNER app");
    std::fs::write(dir.path().join("password"), "hunter2\n").unwrap();
    let app = postgres.url_of("app", "ids", "?password-file=DIR/password");
    tools_on(&dir, &app);
    for (login, database, expected) in [
        ("other:hunter3", "ids", "'other' may not SELECT the table getid_store"),
        ("app:hunter4", "ids", "password authentication failed for user \"app\""),
        ("app:hunter2", "nowhere", "database \"nowhere\" does not exist"),
    ] {
        let url = postgres.url_of(login, database, "");
        dir.check_parts(&format!("check-config --connect --sequence-store {url}"), 1, &["OK\n", expected]);
        dir.check_parts(&format!("sequence list --store {url}"), 2, &[expected]);
    }
    let away = format!("{app}&tls=verify");
    dir.check_parts(
        &format!("check-config --connect --sequence-store {away} --sequence-store {app}"),
        1,
        &["has no TLS", ", 2 sequences\n"],
    );
}

#[test]
#[ignore = "needs mariadb"]
fn tools_on_a_real_mariadb() {
    let dir = Folder::new();
    let mariadb = MariadbServer::start(&[]);
    mariadb.sql("CREATE USER 'app'@'localhost' IDENTIFIED BY 'hunter2'");
    mariadb.sql("GRANT ALL ON ids.* TO 'app'@'localhost'");
    std::fs::write(dir.path().join("password"), "hunter2\n").unwrap();
    tools_on(&dir, &mariadb.url_of("app", "ids", "&password-file=DIR/password"));
    for (login, database, expected) in
        [("app:hunter4", "ids", "Access denied for user 'app'"), ("app:hunter2", "nowhere", "nowhere")]
    {
        let url = mariadb.url_of(login, database, "");
        dir.check_parts(&format!("check-config --connect --sequence-store {url}"), 1, &["OK\n", expected]);
        dir.check_parts(&format!("sequence list --store {url}"), 2, &[expected]);
    }
}

/// Creates two sequences in the store with this address.
#[track_caller]
fn tools_on(dir: &Folder, url: &str) {
    dir.check_parts(&format!("sequence schema --store {url}"), 0, &["getid_sequence"]);
    dir.check(&format!("sequence list --store {url}"), 0, HEAD, "");
    dir.check(
        &format!("sequence create orders --store {url}"),
        0,
        &format!("created 'orders' in {url}: 1 is the first value\n"),
        "",
    );
    dir.check_parts(&format!("sequence create orders --store {url}"), 1, &["there is a sequence 'orders' already"]);
    let raised = "raised 'orders': 121 is the next value\n";
    dir.check_parts(
        &format!("sequence raise orders 120 --store {url}"),
        0,
        &[raised, "it holds everywhere in 902 s at the latest"],
    );
    // The row is above 110 already. Servers that hold lower values discard them, and the raise is in force everywhere
    // just as late.
    dir.check_parts(
        &format!("sequence raise orders 110 --store {url}"),
        0,
        &["'orders' is past 110 already: 121 is the next value\n", "it holds everywhere in 902 s at the latest"],
    );
    dir.check_parts(&format!("sequence info orders --store {url}"), 0, &["  next       121\n", "generation 2\n"]);
    dir.check_parts(&format!("check-config --connect --sequence-store {url}"), 0, &["OK\n", ", 1 sequence\n"]);
    let port = redis(vec![
        ("SCAN 0 MATCH * COUNT 1000", page("0", &["orders", "new"])),
        ("TYPE orders", "+string\r\n".to_owned()),
        ("GET orders", bulk("200")),
        ("TYPE new", "+string\r\n".to_owned()),
        ("GET new", bulk("7")),
    ]);
    let taken = ["orders: raised from 120 to 200\n", "new: created at 7, 8 is next\n"];
    dir.check_parts(&format!("import redis://127.0.0.1:{port} --pattern * --store {url}"), 0, &taken);
    // The row is at 200 now. A server that holds 130 to 200 must not give 150, which Redis has given already.
    dir.check_parts(&format!("import redis://127.0.0.1:{port} --pattern * --store {url}"), 0, &["unchanged"]);
    dir.check_parts(&format!("sequence info orders --store {url}"), 0, &["  next       201\n", "generation 4\n"]);
}
