//! The errors of commands that getid and Redis share, compared with a real `redis-server` in the same run.
//!
//! Every shared command and subcommand of the table is called with many arguments, most of them wrong. An error in
//! Redis must be the same error here, byte for byte, and a success must be a success. [`DIFFERENCES`] lists intended
//! differences with the reason; a line that no longer differs fails the test.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::support::redis::RedisServer;
use crate::support::{Server, Wire};
use getid_redis::command::{Command, TABLE, Verb};

/// Calls that begin with these words differ on purpose.
const DIFFERENCES: &[(&str, &str)] = &[
    ("command getkeys", "as Redis 7.2, which takes a command without arguments; and no command here has keys"),
    ("client tracking on", "a promise of messages that would never come"),
    ("script load", "there is no Lua, so only scripts that are known are taken"),
    ("function load", "there are no functions: only the library of valkey-benchmark is answered"),
    ("watch", "no EXEC could detect that a sequence has changed on another server"),
];

/// Calls that begin with these words are left out: they would end a server or its replies, or change later comparisons.
const NOT_CALLED: &[&str] = &[
    "shutdown",
    "client reply",
    "client pause",
    "monitor",
    "config rewrite",
    "config set maxclients",
    "config set port",
    "acl setuser default",
];

/// Words that are options of some command, and others that are none.
const WORDS: &[&str] = &[
    "",
    "x",
    "0",
    "1",
    "-1",
    "3",
    "1.5",
    "9223372036854775808",
    "99999999999999999999",
    "on",
    "off",
    "id",
    "type",
    "normal",
    "get",
    "set",
    "no-such",
    "a b",
    "*",
    "2",
    "lib-name",
    "auth",
    "setname",
    "filterby",
    "module",
    "help",
    "default",
    "port",
    "maxclients",
    "abc\ndef",
];

/// Words used in pairs and threes.
const FEW: &[&str] = &[
    "",
    "x",
    "0",
    "-1",
    "on",
    "id",
    "type",
    "auth",
    "default",
    "pattern",
    "port",
    "maxclients",
    "reset",
    "filterby",
    "aclcat",
    "get",
];

#[test]
#[ignore = "needs redis-server"]
fn errors_are_those_of_redis() {
    let redis = RedisServer::start(&[]);
    let getid = Server::start(&["--loglevel", "warning"]);
    let known = redis_commands(&redis);
    assert!(known.len() > 30 && !known.contains("getid"), "{known:?}");
    let mut failures = Vec::new();
    let mut used = BTreeSet::new();
    let (mut calls, mut errors) = (0, 0);
    for call in calls_of(&known) {
        let (theirs, ours) = (answer(redis.connect(), &call), answer(getid.connect(), &call));
        calls += 1;
        errors += usize::from(theirs.starts_with('-'));
        if theirs == ours || !(theirs.starts_with('-') || ours.starts_with('-')) {
            continue;
        }
        let line = line_of(&call);
        match DIFFERENCES.iter().find(|(words, _)| line.starts_with(words)) {
            Some((words, _)) => drop(used.insert(*words)),
            None => failures.push(format!("{call:?}\n   redis {theirs}\n   getid {ours}")),
        }
    }
    assert!(failures.is_empty(), "{} of {calls} calls differ:\n{}", failures.len(), failures.join("\n"));
    assert!(errors > 1000, "only {errors} of {calls} calls were errors");
    let unused: Vec<_> = DIFFERENCES.iter().filter(|(words, _)| !used.contains(words)).collect();
    assert!(unused.is_empty(), "no longer a difference: {unused:?}");
}

/// Returns the full names (`client|list`) of the commands that this Redis has.
fn redis_commands(redis: &RedisServer) -> BTreeSet<String> {
    let rows = TABLE.iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    let has = |row: &&Command| {
        let described = answer(redis.connect(), &["COMMAND".into(), "INFO".into(), row.full_name.into()]);
        !matches!(described.lines().nth(1), Some("*-1" | "$-1"))
    };
    rows.filter(has).map(|row| row.full_name.to_owned()).collect()
}

/// Returns true if the reply depends on the existing keys: such commands are tested separately.
fn is_about_keys(row: &Command) -> bool {
    !row.keys.is_empty() || matches!(row.verb, Verb::Keys | Verb::Scan | Verb::DbSize | Verb::RandomKey)
}

fn calls_of(known: &BTreeSet<String>) -> Vec<Vec<String>> {
    let mut calls: Vec<Vec<String>> = Vec::new();
    let rows = TABLE.iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    for row in rows.filter(|row: &&Command| known.contains(row.full_name) && !is_about_keys(row)) {
        let name: Vec<String> = row.full_name.split('|').map(str::to_owned).collect();
        let mut add = |words: &[&str]| {
            calls.push(name.iter().cloned().chain(words.iter().map(|&word| word.to_owned())).collect());
        };
        add(&[]);
        for word in WORDS {
            add(&[word]);
        }
        for first in FEW {
            for second in FEW {
                add(&[first, second]);
            }
            add(&[first, "x", "y"]);
            add(&["x", "y", first]);
            add(&[first, "x", "y", "z"]);
            add(&[first, "1", first, "2"]);
        }
    }
    calls.retain(|call| !NOT_CALLED.iter().any(|words| line_of(call).starts_with(words)));
    calls
}

fn line_of(call: &[String]) -> String {
    call.join(" ").to_lowercase()
}

/// Returns a whole reply, as text with its structure.
fn answer(mut wire: Wire, call: &[String]) -> String {
    let mut request = format!("*{}\r\n", call.len());
    for word in call {
        let _ = write!(request, "${}\r\n{word}\r\n", word.len());
    }
    wire.send(request);
    String::from_utf8_lossy(&wire.reply()).into_owned()
}

/// Replies that differ between a sequence and a string that holds a number, by the beginning of the call: `{n}` is a
/// name that holds 1200, `{m}` a missing one.
const KEY_DIFFERENCES: &[(&str, &str)] = &[
    ("incr {m}", "a store that was lost must give an error, never a fresh 1"),
    ("incrby {m}", "as above"),
    ("hincrby", "a sequence is read as a hash, and counts in its field cur"),
    ("hget", "as above"),
    ("hmget", "as above"),
    ("hgetall", "as above"),
    ("hexists", "as above"),
    ("hlen", "as above"),
    ("hkeys", "as above"),
    ("hvals", "as above"),
    ("hset", "fields are read, not set"),
    ("incrby {n} 0", "a step of 0 gives no value"),
    ("incrby {n} -1", "a sequence never goes back"),
    ("incrby {n} 9223372036854775807", "more than sequence-incrby-max; Redis: an overflow"),
    ("incrbyfloat {n} 1", "it counts in whole numbers"),
    ("incrbyfloat {m} 1", "as above"),
    ("decr {", "a sequence never goes back"),
    ("decrby {n} 1", "as above"),
    ("decrby {n} -1", "as above"),
    ("decrby {m} 1", "as above"),
    ("append", "it is a number that only goes up"),
    ("setrange {n} 0 x", "as above"),
    ("setrange {m} 0 x", "as above"),
    ("set {n} 5", "a sequence never goes back"),
    ("set {n} x", "there is nothing but sequences"),
    ("set {n} 1300 ex 10", "a sequence never expires"),
    ("set {n} 1300 px 10", "as above"),
    ("set {n} 5 get", "a sequence never goes back"),
    ("getset {n} 5", "as above"),
    ("getset {m} x", "there is nothing but sequences"),
    ("setnx {m} x", "as above"),
    ("setex {n} 10 5", "a sequence never expires"),
    ("psetex {n} 10 5", "as above"),
    ("getex {n} ex 10", "as above"),
    ("mset {n} 1300", "several cannot be set at once"),
    ("msetnx", "as above"),
    ("rename", "it keeps its name"),
    ("expire {n} 10", "a sequence never expires; NX is answered 0"),
    ("pexpire {n} 10", "as above"),
    ("expireat {n} 9999999999", "as above"),
    ("pexpireat {n} 9999999999000", "as above"),
    ("expire {n} -1", "as above"),
    ("del {n}", "sequence-delete is no"),
    ("unlink {n}", "as above"),
    ("getdel {n}", "as above"),
    ("eval return", "there is no Lua"),
    ("scan -1", "a cursor that was not given"),
    ("scan 99", "as above"),
];

/// Calls about an existing name `{n}` and a missing one `{m}`, each with its own names.
const KEY_CALLS: &[&str] = &[
    "get {n}",
    "get {m}",
    "get a b",
    "get",
    "mget {n} {m} {n}",
    "mget",
    "strlen {n}",
    "strlen {m}",
    "type {n}",
    "type {m}",
    "exists {n}",
    "exists {m}",
    "exists {n} {m} {n}",
    "touch {n} {m}",
    "ttl {n}",
    "ttl {m}",
    "pttl {n}",
    "pttl {m}",
    "expiretime {n}",
    "expiretime {m}",
    "pexpiretime {n}",
    "pexpiretime {m}",
    "persist {n}",
    "persist {m}",
    "object encoding {n}",
    "object encoding {m}",
    "object refcount {n}",
    "object refcount {m}",
    "object idletime {n}",
    "object idletime {m}",
    "object freq {n}",
    "object freq {m}",
    "object nosuch {n}",
    "object encoding",
    "object",
    "incr {n}",
    "incr {m}",
    "incr",
    "incr {n} 1",
    "incrby {n} 1",
    "incrby {n} 10",
    "incrby {n} 0",
    "incrby {n} -1",
    "incrby {n} x",
    "incrby {n} 1.5",
    "incrby {n} +1",
    "incrby {n} 01",
    "incrby {n} 9223372036854775807",
    "incrby {n} 9223372036854775808",
    "incrby {m} 1",
    "incrby {n}",
    "hincrby {n} cur 1",
    "hincrby {n} cur x",
    "hincrby {n} x 1",
    "hget {n} cur",
    "hget {n} x",
    "hmget {n} cur x",
    "hgetall {n}",
    "hgetall {m}",
    "hexists {n} cur",
    "hlen {n}",
    "hlen {m}",
    "hkeys {n}",
    "hvals {n}",
    "hset {n} cur 1",
    "hset {n} cur",
    "incrbyfloat {n} 1",
    "incrbyfloat {n} x",
    "incrbyfloat {m} 1",
    "decr {n}",
    "decr {m}",
    "decrby {n} 1",
    "decrby {n} -1",
    "decrby {n} x",
    "decrby {n} -9223372036854775808",
    "decrby {m} 1",
    "append {n} 1",
    "setrange {n} 0 x",
    "setrange {n} -1 x",
    "setrange {n} x x",
    "setrange {m} 0 x",
    "set {n} 1200",
    "set {n} 1300",
    "set {m} 0",
    "set {n} 5",
    "set {n} x",
    "set {n} 1300 nx",
    "set {m} 1 nx",
    "set {m} 1 xx",
    "set {n} 1300 xx",
    "set {n} 1300 get",
    "set {m} 1 get",
    "set {m} 1 nx get",
    "set {n} 1300 nx get",
    "set {n} 5 get",
    "set {n} 1300 nx xx",
    "set {n} 1300 xx nx",
    "set {n} 1300 keepttl",
    "set {n} 1300 keepttl ex 10",
    "set {n} 1300 ex 10 px 10",
    "set {n} 1300 ex",
    "set {n} 1300 ex x",
    "set {n} 1300 ex 0",
    "set {n} 1300 ex -1",
    "set {n} 1300 ex 10",
    "set {n} 1300 px 10",
    "set {n} 1300 what",
    "set {n}",
    "setnx {n} 5",
    "setnx {m} 5",
    "setnx {m} x",
    "getset {n} 1300",
    "getset {m} 5",
    "getset {n} 5",
    "getset {m} x",
    "setex {n} 10 5",
    "setex {n} 0 5",
    "setex {n} x 5",
    "psetex {n} 10 5",
    "psetex {n} -1 5",
    "getex {n}",
    "getex {m}",
    "getex {n} persist",
    "getex {n} ex 10",
    "getex {n} ex 0",
    "getex {n} ex x",
    "getex {n} what",
    "getex {n} ex 10 persist",
    "mset {n} 1300",
    "mset {n}",
    "mset {n} 1 {m}",
    "msetnx {m} 1",
    "msetnx {m}",
    "rename {n} {m}",
    "rename {m} {n}",
    "renamenx {n} {m}",
    "expire {n} 10",
    "expire {m} 10",
    "expire {n} x",
    "expire {n} 10 what",
    "expire {n} 10 nx xx",
    "expire {n} 10 gt lt",
    "expire {n} 10 xx",
    "expire {n} 10 gt",
    "expire {m} 10 nx",
    "expire {n} -1",
    "pexpire {n} 10",
    "pexpire {n} x",
    "expireat {n} 9999999999",
    "pexpireat {n} 9999999999000",
    "del {n}",
    "del {m}",
    "del",
    "unlink {n}",
    "unlink {m}",
    "getdel {n}",
    "getdel {m}",
    "scan x",
    "scan -1",
    "scan 99",
    "scan 0 match",
    "scan 0 count 0",
    "scan 0 count x",
    "scan 0 what 1",
    "keys",
    "keys {n}",
    "keys {m}*",
    "dbsize 1",
    "randomkey 1",
    "eval return 0",
    "eval x",
    "eval x y",
    "eval x -1 {n}",
    "eval x 5 {n}",
    "evalsha x 0",
    "evalsha x y",
];

#[test]
#[ignore = "needs redis-server"]
fn a_sequence_is_answered_as_a_string_that_holds_a_number() {
    let redis = RedisServer::start(&[]);
    let getid = Server::start(&["--loglevel", "warning"]);
    let (mut theirs, mut ours) = (redis.connect(), getid.connect());
    let (mut failures, mut used, mut alike) = (Vec::new(), BTreeSet::new(), 0);
    for (number, call) in KEY_CALLS.iter().enumerate() {
        let (there, missing) = (format!("there:{number}"), format!("missing:{number}"));
        for wire in [&mut theirs, &mut ours] {
            assert_eq!(wire.ask(&format!("SET {there} 1200")), "+OK", "{call}");
        }
        let sent = call.replace("{n}", &there).replace("{m}", &missing) + "\r\n";
        theirs.send(&sent);
        ours.send(&sent);
        let [mut theirs, ours] = [&mut theirs, &mut ours].map(|wire| String::from_utf8(wire.reply()).unwrap());
        // Redis counts whole seconds, of which one may have begun since it was set.
        if call.starts_with("object idletime {n}") && theirs.starts_with(':') {
            theirs = ":0\r\n".to_owned();
        }
        if theirs == ours {
            alike += 1;
            continue;
        }
        match KEY_DIFFERENCES.iter().rev().find(|(words, _)| call.starts_with(words)) {
            Some((words, _)) => drop(used.insert(*words)),
            None => failures.push(format!("{call}\n   redis {theirs}   getid {ours}")),
        }
    }
    assert!(failures.is_empty(), "{} of {} calls differ:\n{}", failures.len(), KEY_CALLS.len(), failures.join("\n"));
    assert!(alike > 90, "only {alike} of {} calls are answered alike", KEY_CALLS.len());
    let unused: Vec<_> = KEY_DIFFERENCES.iter().filter(|(words, _)| !used.contains(words)).collect();
    assert!(unused.is_empty(), "no longer a difference: {unused:?}");
}
