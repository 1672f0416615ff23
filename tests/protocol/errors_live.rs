//! The errors of commands that getid and Redis both have, compared with a real `redis-server` in the same run.
//!
//! Every command and subcommand of the table that Redis has is called with many arguments, most of them wrong. What is
//! an error there must be the same error here, byte for byte, and what is none must be none. [`DIFFERENCES`] lists what
//! is meant to differ, with the reason; a line that no longer differs fails the test.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::support::redis::RedisServer;
use crate::support::{Server, Wire};
use getid::command::{Command, TABLE};

/// Calls that begin with these words differ on purpose.
const DIFFERENCES: &[(&str, &str)] = &[
    ("command getkeys", "as Redis 7.2, which takes a command without arguments; and no command here has keys"),
    ("acl dryrun default type", "no such command here"),
    ("acl dryrun default get", "no such command here"),
    ("client tracking on", "a promise of messages that would never come"),
];

/// Calls that begin with these words end a server, a connection's replies, or what later calls are compared by.
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

/// Words that some option somewhere is, and others that none is.
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

/// Those that stand in pairs and threes.
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

/// Full names (`client|list`) of the commands that this Redis has.
fn redis_commands(redis: &RedisServer) -> BTreeSet<String> {
    let rows = TABLE.iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    let has = |row: &&Command| {
        let described = answer(redis.connect(), &["COMMAND".into(), "INFO".into(), row.full_name.into()]);
        !matches!(described.lines().nth(1), Some("*-1" | "$-1"))
    };
    rows.filter(has).map(|row| row.full_name.to_owned()).collect()
}

fn calls_of(known: &BTreeSet<String>) -> Vec<Vec<String>> {
    let mut calls: Vec<Vec<String>> = Vec::new();
    let rows = TABLE.iter().flat_map(|row| std::iter::once(row).chain(row.subcommands));
    for row in rows.filter(|row: &&Command| known.contains(row.full_name)) {
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

/// A whole reply, as text with its structure.
fn answer(mut wire: Wire, call: &[String]) -> String {
    let mut request = format!("*{}\r\n", call.len());
    for word in call {
        let _ = write!(request, "${}\r\n{word}\r\n", word.len());
    }
    wire.send(request);
    String::from_utf8_lossy(&wire.reply()).into_owned()
}
