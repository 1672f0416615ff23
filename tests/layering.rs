//! The arrows of `ARCHITECTURE.md`: who may use whom, and what pure modules must not touch.
//!
//! Reads the sources as text. That is enough because paths between modules are written `crate::...` or `super::...`
//! everywhere; what it cannot see, a re-export under another name, does not happen by accident.

#![allow(missing_docs, reason = "a test file")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module, and those it may use. What is not listed may use nothing of the crate.
const ARROWS: &[(&str, &[&str])] = &[
    ("lib", &[]),
    ("main", &["cli"]),
    (
        "cli",
        &[
            "acl",
            "allocator",
            "bench",
            "clock",
            "command",
            "config",
            "files",
            "id",
            "io_threads",
            "issuer",
            "logging",
            "plural",
            "printable",
            "resp",
            "server",
            "session",
            "supervision",
            "timestamp",
            "tls",
            "tools",
            "verify",
            "watermark",
        ],
    ),
    (
        "server",
        &[
            "acl",
            "clients",
            "clock",
            "command",
            "config",
            "connection",
            "files",
            "glob",
            "id",
            "info",
            "io_threads",
            "issuer",
            "logging",
            "metrics",
            "pause",
            "plural",
            "published",
            "resp",
            "session",
            "telemetry",
            "timestamp",
            "tls",
            "watermark",
        ],
    ),
    (
        "info",
        &[
            "clients",
            "clock",
            "command",
            "id",
            "issuer",
            "metrics",
            "pause",
            "server",
            "session",
            "telemetry",
            "timestamp",
            "tls",
        ],
    ),
    (
        "connection",
        &[
            "acl",
            "clients",
            "clock",
            "config",
            "id",
            "issuer",
            "logging",
            "metrics",
            "pause",
            "resp",
            "server",
            "session",
            "telemetry",
            "tls",
        ],
    ),
    ("pause", &["session"]),
    ("clients", &["acl", "resp", "session"]),
    ("tls", &["config", "files"]),
    ("issuer", &["clock", "id", "plural", "sync", "telemetry", "watermark"]),
    ("watermark", &["id", "printable"]),
    ("clock", &["id"]),
    ("config", &["acl", "files", "glob", "id", "printable", "timestamp"]),
    ("session", &["acl", "command", "glob", "id", "resp", "telemetry", "timestamp"]),
    ("acl", &["command", "printable", "resp"]),
    ("command", &["glob", "id", "resp", "timestamp"]),
    ("glob", &[]),
    ("timestamp", &["printable"]),
    ("plural", &[]),
    ("resp", &[]),
    ("id", &[]),
    ("metrics", &["command", "io_threads", "session", "telemetry"]),
    ("telemetry", &[]),
    ("allocator", &[]),
    ("published", &[]),
    ("io_threads", &[]),
    ("sync", &[]),
    ("tools", &["id", "printable"]),
    ("verify", &["id"]),
    ("bench", &["tools"]),
    ("logging", &["config", "files", "printable", "timestamp"]),
    ("files", &[]),
    ("printable", &[]),
    ("supervision", &["config", "files"]),
];

/// Files and folders that are a function of their arguments.
const PURE: &[&str] = &[
    "acl",
    "id",
    "resp",
    "command",
    "session",
    "config",
    "watermark/record",
    "issuer/queue",
    "issuer/demand",
    "glob",
    "timestamp",
    "plural",
    "telemetry",
    "verify",
    "bench",
    "printable",
    "tools/address",
    "tools/paste",
    "tools/replies",
];

/// Exceptions inside the pure folders: the one file that reads configuration files, and tools' way to files.
const SHELL_IN_PURE: &[&str] = &["config/load.rs"];

/// What a pure module must not name.
const IMPURE: &[&str] = &[
    "std::fs",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "ToSocketAddrs",
    "std::env",
    "std::process",
    "std::thread",
    "time::Instant",
    "SystemTime",
    "tokio",
    "async fn",
    "async move",
    "async {",
    ".await",
    "nix::",
    "socket2",
    "rand::",
    "tracing::",
    "println!",
];

/// What only `src/clock.rs` may name.
/// (And what `getid bench` reads CPU time with, which is work and not time.)
const READS_CLOCKS: &[&str] = &["clock.rs", "cli/bench/usage.rs"];
const CLOCKS: &[&str] = &["SystemTime", "ClockId::", "clock_gettime(", "Timestamp::now", "Zoned::now"];

#[test]
fn the_arrows_hold() {
    let faults: Vec<String> = sources().iter().flat_map(|(path, text)| faults(path, text)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_module_has_its_row_and_every_row_its_module() {
    let modules: BTreeSet<String> = sources().keys().map(|path| module_of(path)).collect();
    let rows: BTreeSet<String> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(modules.difference(&rows).collect::<Vec<_>>(), Vec::<&String>::new(), "modules without a row");
    assert_eq!(rows.difference(&modules).collect::<Vec<_>>(), Vec::<&String>::new(), "rows without a module");
}

#[test]
fn there_is_no_circle_but_the_servers() {
    // `server` and `connection` (and `info`, a part of `server`) know each other: one accepts, the other performs.
    let together = ["server", "connection", "info"];
    let mut left: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    while let Some(name) = left.iter().find_map(|(name, uses)| {
        let free = |used: &&&str| left.contains_key(**used) && !(together.contains(name) && together.contains(used));
        (uses.iter().filter(free).count() == 0).then_some(*name)
    }) {
        left.remove(name);
    }
    assert!(left.is_empty(), "a circle among {:?}", left.keys());
}

#[test]
fn planted_faults_are_seen() {
    for (path, text, expected) in [
        ("id/mint.rs", "use crate::resp::Value;", "id uses resp"),
        ("resp/decode.rs", "fn f() { crate::session::Session::new() }", "resp uses session"),
        ("id/mint.rs", "use crate::{\n    clock::Clock,\n    resp::{Args, Value},\n};", "id uses clock"),
        ("id/mint.rs", "use crate::{clock::Clock, resp::{Args, Value}};", "id uses resp"),
        ("id/mint.rs", "use super::super::issuer::Issuer;", "id uses issuer"),
        ("session.rs", "use super::server::Server;", "session uses server"),
        ("session/turn.rs", "let now = std::time::Instant::now();", "pure, and names time::Instant"),
        ("session/turn.rs", "use std::time::{Duration, Instant};", "pure, and names time::Instant"),
        ("config/mod.rs", "std::fs::read_to_string(path)", "pure, and names std::fs"),
        ("command.rs", "pub async fn run() {}", "pure, and names async fn"),
        ("watermark/record.rs", "use tokio::sync::Mutex;", "pure, and names tokio"),
        ("issuer/mod.rs", "let now = std::time::SystemTime::now();", "names SystemTime"),
    ] {
        let found = faults(path, text);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{path}: {text}: {found:?}");
    }
    for (path, text) in [
        ("session.rs", "use crate::resp::{self, Args};"),
        ("id/mint.rs", "// as crate::issuer does, and std::fs does not\nuse super::time::Tick;"),
        ("config/load.rs", "use std::fs;"),
        ("issuer/keeper.rs", "use tokio::time::Instant;"),
        ("watermark/file.rs", "use super::claim::Claim;"),
        ("id/mint.rs", "#[cfg(test)]\nmod tests {\n    use crate::issuer::Issuer;\n    use std::fs;\n}\n"),
    ] {
        assert_eq!(faults(path, text), Vec::<String>::new(), "{path}: {text}");
    }
}

/// What is wrong with a file, one line each.
fn faults(path: &str, text: &str) -> Vec<String> {
    let code = code_of(text);
    let own = module_of(path);
    let allowed = ARROWS.iter().find(|(name, _)| *name == own).map_or(&[][..], |(_, uses)| uses);
    let mut faults = Vec::new();
    for used in modules_used(&code, path) {
        if used != own && !allowed.contains(&&*used) {
            faults.push(format!("src/{path}: {own} uses {used}, which ARCHITECTURE.md does not allow"));
        }
    }
    let is_pure = PURE.iter().any(|pure| path == format!("{pure}.rs") || path.starts_with(&format!("{pure}/")));
    if is_pure && !SHELL_IN_PURE.contains(&path) {
        // `use std::time::{Duration, Instant}` names it in two parts.
        let code = if code.contains("std::time::{") { code.replace("Instant", "time::Instant") } else { code.clone() };
        for name in IMPURE.iter().filter(|name| code.contains(**name)) {
            faults.push(format!("src/{path}: is pure, and names {name}"));
        }
    }
    if !READS_CLOCKS.contains(&path) {
        for name in CLOCKS.iter().filter(|name| code.contains(**name)) {
            faults.push(format!("src/{path}: names {name}; clocks are read in src/clock.rs only"));
        }
    }
    faults
}

/// A file without comments, and without the tests at its end.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.find("//").map_or(line, |at| &line[..at]));
    lines.collect::<Vec<_>>().join("\n")
}

/// The top-level modules that a file names by `crate::`, and by `super::` where that leads out of its own module.
fn modules_used(code: &str, path: &str) -> BTreeSet<String> {
    let depth = path.matches('/').count() + usize::from(!path.ends_with("mod.rs"));
    let to_root = "super::".repeat(depth);
    let mut used = BTreeSet::new();
    for root in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c == ':' || c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            names(&code[at + root.len()..], &mut used);
        }
    }
    used
}

/// The first segments of a path, or of each path in a `{...}` list.
fn names(path: &str, into: &mut BTreeSet<String>) {
    let first = |path: &str| -> String { path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let Some(list) = path.strip_prefix('{') else {
        into.insert(first(path));
        return;
    };
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let item = first(list[start..at].trim());
                if !item.is_empty() {
                    into.insert(item);
                }
                if c == '}' {
                    return;
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

fn module_of(path: &str) -> String {
    path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned()
}

/// All files below `src`, by their path in it.
fn sources() -> BTreeMap<String, String> {
    fn walk(folder: &Path, root: &Path, into: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, root, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).expect("inside").to_str().expect("a name").to_owned();
                into.insert(name, fs::read_to_string(&path).expect("text"));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = BTreeMap::new();
    walk(&root, &root, &mut all);
    assert!(all.len() > 30, "only {} files", all.len());
    all
}
