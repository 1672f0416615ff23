//! Unmodified libraries that count in Redis, against the real process: `tests/clients/sequences.*`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client_matrix::rust_clients;
use crate::support::Server;
use crate::support::program::{PATIENCE, finish};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs a script against a new server; it prints `ok NAME` if all checks hold.
fn check(command: Command, name: &str) {
    check_with(&[], command, name);
}

/// A server for programs that count under names with a date, and let them expire.
const DATED: [&str; 4] = ["--sequence-create", "on-first-use", "--sequence-expire", "*20[0-9][0-9]*"];

fn check_with(words: &[&str], mut command: Command, name: &str) {
    let server = Server::start(words);
    command.env("GETID_PORT", server.port.to_string());
    let output = finish(&mut command, "", PATIENCE, false);
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(printed, format!("ok {name}\n"), "{complaints}");
    let mut wire = server.connect();
    assert_eq!((wire.info("connection_panics"), wire.info("protocol_error_connections")), ("0".into(), "0".into()));
}

fn python(name: &str) {
    let python = std::env::var_os("GETID_TEST_PYTHON").expect("GETID_TEST_PYTHON");
    let mut command = Command::new(python);
    command.arg(script("sequences.py")).arg(name);
    check(command, name);
}

#[test]
#[ignore = "needs python3 with redis (its path in GETID_TEST_PYTHON)"]
fn redis_py_counts() {
    python("redis-py");
}

#[test]
#[ignore = "needs python3 with django (its path in GETID_TEST_PYTHON)"]
fn the_cache_of_django_counts() {
    python("django");
}

#[test]
#[ignore = "needs python3 with django-redis (its path in GETID_TEST_PYTHON)"]
fn django_redis_counts() {
    python("django-redis");
}

fn dated_python(name: &str) {
    let python = std::env::var_os("GETID_TEST_PYTHON").expect("GETID_TEST_PYTHON");
    let mut command = Command::new(python);
    command.arg(script("sequences.py")).arg(name);
    check_with(&DATED, command, name);
}

#[test]
#[ignore = "needs python3 with redis (its path in GETID_TEST_PYTHON)"]
fn redis_py_counts_by_date() {
    dated_python("redis-py-dated");
}

#[test]
#[ignore = "needs python3 with django (its path in GETID_TEST_PYTHON)"]
fn the_cache_of_django_counts_by_date() {
    dated_python("django-dated");
}

#[test]
#[ignore = "needs python3 with django-redis (its path in GETID_TEST_PYTHON)"]
fn django_redis_counts_by_date() {
    dated_python("django-redis-dated");
}

#[test]
#[ignore = "needs node with ioredis (GETID_TEST_NODE_DIR)"]
fn ioredis_counts_by_date() {
    let mut command = Command::new("node");
    command.arg(script("sequences.mjs")).arg("ioredis-dated");
    check_with(&DATED, command, "ioredis-dated");
}

#[test]
#[ignore = "needs node with redis (GETID_TEST_NODE_DIR)"]
fn node_redis_counts_by_date() {
    let mut command = Command::new("node");
    command.arg(script("sequences.mjs")).arg("node-redis-dated");
    check_with(&DATED, command, "node-redis-dated");
}

fn node(name: &str) {
    let mut command = Command::new("node");
    command.arg(script("sequences.mjs")).arg(name);
    check(command, name);
}

#[test]
#[ignore = "needs node with ioredis (GETID_TEST_NODE_DIR)"]
fn ioredis_counts() {
    node("ioredis");
}

#[test]
#[ignore = "needs node with redis (GETID_TEST_NODE_DIR)"]
fn node_redis_counts() {
    node("node-redis");
}

#[test]
#[ignore = "needs php with phpredis"]
fn phpredis_counts() {
    let mut command = Command::new("php");
    command.arg(script("sequences.php"));
    check(command, "phpredis");
}

#[test]
#[ignore = "needs ruby with redis-rb"]
fn redis_rb_counts() {
    let mut command = Command::new("ruby");
    command.arg(script("sequences.rb"));
    check(command, "redis-rb");
}

#[test]
#[ignore = "needs the crate redis, and minutes to build it"]
fn the_crate_redis_counts() {
    let mut command = Command::new(rust_clients());
    command.arg("redis-sequences");
    check(command, "redis");
}
