//! The arrows of `ARCHITECTURE.md`: which module may use which, and what pure modules must not touch.
//!
//! Reads the sources as text. That suffices because paths between modules are always written `crate::...` or
//! `super::...`. The test cannot see a re-export under another name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module, and the modules that it may use. All others are forbidden. Every module may use `getid_core`.
const ARROWS: &[(&str, &[&str])] = &[
    ("lib", &[]),
    ("main", &["cli"]),
    (
        "cli",
        &[
            "acl",
            "claim",
            "command",
            "config",
            "generators",
            "http",
            "logging",
            "records",
            "resp",
            "server",
            "session",
            "sql",
            "system",
            "text",
            "tools",
            "workers",
        ],
    ),
    (
        "server",
        &[
            "acl",
            "claim",
            "command",
            "config",
            "generators",
            "logging",
            "metrics",
            "resp",
            "session",
            "sql",
            "stats",
            "system",
            "text",
            "workers",
        ],
    ),
    (
        "http",
        &[
            "acl",
            "claim",
            "command",
            "config",
            "generators",
            "logging",
            "metrics",
            "resp",
            "server",
            "session",
            "system",
            "text",
            "tools",
            "workers",
        ],
    ),
    ("metrics", &["claim", "command", "config", "generators", "session", "stats", "system", "text", "workers"]),
    ("logging", &["config", "system", "text"]),
    ("generators", &["claim", "sql", "stats", "sync", "system", "text"]),
    ("claim", &["records", "system", "text"]),
    ("sql", &["records", "system", "text"]),
    ("records", &["system", "text"]),
    ("workers", &["claim", "records", "system"]),
    ("config", &["acl", "system", "text"]),
    ("session", &["acl", "command", "resp", "stats", "text"]),
    ("acl", &["command", "resp", "text"]),
    ("command", &["resp", "text"]),
    ("tools", &["system", "text"]),
    ("stats", &[]),
    ("sync", &[]),
    ("system", &[]),
    ("text", &[]),
];

/// Files and folders with pure code only.
const PURE: &[&str] = &[
    "acl",
    "command",
    "session",
    "config",
    "claim/record",
    "claim/envelope",
    "workers/record",
    "workers/error",
    "generators/time/queue",
    "generators/time/demand",
    "records/etcd/failure",
    "records/etcd/gateway",
    "records/etcd/versions",
    "text",
    "stats",
    "tools/address",
    "tools/bench",
    "tools/decoded",
    "tools/explanation",
    "tools/paste",
    "tools/picture",
    "tools/replies",
    "tools/subject",
    "tools/verify",
];

/// Exceptions in the pure folders: configuration files that access the disk, and the sockets and clocks of the tools.
const SHELL_IN_PURE: &[&str] =
    &["config/dir.rs", "config/files.rs", "tools/bench/load.rs", "tools/bench/usage.rs", "tools/verify/load.rs"];

/// Names that a pure module must not contain.
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

/// Files that may contain the names in [`CLOCKS`]. The second reads CPU time for `getid bench`, which is no clock.
const READS_CLOCKS: &[&str] = &["system/clock.rs", "tools/bench/usage.rs"];
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
fn there_is_no_circle() {
    let mut left: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    while let Some(name) =
        left.iter().find_map(|(name, uses)| (!uses.iter().any(|used| left.contains_key(used))).then_some(*name))
    {
        left.remove(name);
    }
    assert!(left.is_empty(), "a circle among {:?}", left.keys());
}

/// Without the feature `std`, the compiler proves it. This test covers the code with the feature.
#[test]
fn the_core_touches_files_and_clocks_in_file_maker_only() {
    for (path, text) in sources_of("crates/getid-core/src") {
        let code = code_of(&text);
        // Planted faults are kept for each thread.
        if !path.starts_with("file_maker/") && path != "checks.rs" {
            assert!(!code.contains("std::"), "crates/getid-core/src/{path} names std");
        }
        if path != "file_maker/clock.rs" {
            let named: Vec<_> = CLOCKS.iter().chain(&["Instant::"]).filter(|name| code.contains(**name)).collect();
            assert!(named.is_empty(), "crates/getid-core/src/{path} names {named:?}");
        }
    }
}

#[test]
fn planted_faults_are_seen() {
    for (path, text, expected) in [
        ("stats/mod.rs", "use crate::resp::Value;", "stats uses resp"),
        ("text/glob.rs", "use crate::{\n    system::Clock,\n    resp::{Args, Value},\n};", "text uses system"),
        ("text/glob.rs", "use crate::{system::Clock, resp::{Args, Value}};", "text uses resp"),
        ("text/glob.rs", "use super::super::generators::time::Issuer;", "text uses generators"),
        ("session/mod.rs", "use super::server::Server;", "session uses server"),
        ("session/turn.rs", "let now = std::time::Instant::now();", "pure, and names time::Instant"),
        ("session/turn.rs", "use std::time::{Duration, Instant};", "pure, and names time::Instant"),
        ("config/mod.rs", "std::fs::read_to_string(path)", "pure, and names std::fs"),
        ("command/mod.rs", "pub async fn run() {}", "pure, and names async fn"),
        ("claim/record.rs", "use tokio::sync::Mutex;", "pure, and names tokio"),
        ("generators/mod.rs", "let now = std::time::SystemTime::now();", "names SystemTime"),
    ] {
        let found = faults(path, text);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{path}: {text}: {found:?}");
    }
    for (path, text) in [
        ("session/mod.rs", "use crate::resp::{self, Args};"),
        ("text/glob.rs", "// as crate::generators does, and std::fs does not\nuse super::printable;"),
        ("config/files.rs", "use std::fs;"),
        ("generators/keeper.rs", "use tokio::time::Instant;"),
        ("claim/folder.rs", "use super::lock::Claim;"),
        ("text/glob.rs", "#[cfg(test)]\nmod tests {\n    use crate::generators::Issuer;\n    use std::fs;\n}\n"),
    ] {
        assert_eq!(faults(path, text), Vec::<String>::new(), "{path}: {text}");
    }
}

/// Returns the violations in a file, one line each.
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
        // `use std::time::{Duration, Instant}` separates the two parts of the name.
        let code = if code.contains("std::time::{") { code.replace("Instant", "time::Instant") } else { code.clone() };
        for name in IMPURE.iter().filter(|name| code.contains(**name)) {
            faults.push(format!("src/{path}: is pure, and names {name}"));
        }
    }
    if !READS_CLOCKS.contains(&path) {
        for name in CLOCKS.iter().filter(|name| code.contains(**name)) {
            faults.push(format!("src/{path}: names {name}; clocks are read in src/system/clock.rs only"));
        }
    }
    faults
}

/// Returns a file without comments, and without the tests at its end.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.find("//").map_or(line, |at| &line[..at]));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the top-level modules that a file names by `crate::`, or by `super::` if that leads out of its own module.
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

/// Adds the first segment of a path, or of each path in a `{...}` list.
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

/// Returns all files below `src`, by their path in it.
fn sources() -> BTreeMap<String, String> {
    sources_of("src")
}

/// Returns all files below a folder of the repository, by their path in it.
fn sources_of(folder: &str) -> BTreeMap<String, String> {
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut all = BTreeMap::new();
    walk(&root, &root, &mut all);
    assert!(all.len() > 30, "only {} files", all.len());
    all
}
