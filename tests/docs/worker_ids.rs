//! The programs of `examples/worker-ids`, each with the real library, against the built binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::{Server, Wire, eventually, folder, free_port};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/worker-ids").join(name)
}

/// A server whose pool is open. A new one would be so after a minute: it had shorter leases before.
fn server(words: &[&str]) -> (Server, TempDir) {
    let dir = folder();
    let server = Server::start_in(dir.path(), &["--worker-pool", "orders size 1024 lease 1s longest 1s"]);
    let mut wire = server.connect();
    eventually("the pool is open", || is_open(&mut wire));
    eventually("all is free", || wire.info("worker_pool_orders").contains("leased=0,"));
    server.stop();
    let server = Server::start_in(dir.path(), &[&["--worker-pool", "orders size 1024 lease 30s"], words].concat());
    (server, dir)
}

fn is_open(wire: &mut Wire) -> bool {
    wire.send("WORKERID LEASE orders TTL 1\r\n");
    wire.reply().starts_with(b"*4")
}

/// Runs a program, which makes a thousand IDs and gives its worker id back.
#[track_caller]
fn check(command: &mut Command, server: &Server, verdict: &str) {
    let output = command.env("GETID_PORT", server.port.to_string()).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}\n{complaints}", output.status);
    let last = printed.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("worker id ") && last.ends_with(&format!(": 1000 different IDs, ascending: {verdict}")),
        "{printed}"
    );
    let info = server.connect().info("worker_pool_orders");
    assert!(info.contains("leased=0,") && info.contains("leases=1,") && info.contains("releases=1,"), "{info}");
}

#[test]
#[ignore = "needs python3 with redis and snowflake-id (its path in GETID_TEST_PYTHON)"]
fn python() {
    let python = std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    check(Command::new(python).arg(example("python_worker.py")), &server(&[]).0, "True");
}

#[test]
#[ignore = "needs node with redis and @sapphire/snowflake (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node() {
    let dir = std::env::var_os("GETID_TEST_NODE_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    // Node looks for packages beside the script and nowhere else.
    let copy = dir.join(format!("{}-node_worker.mjs", std::process::id()));
    std::fs::copy(example("node_worker.mjs"), &copy).expect("GETID_TEST_NODE_DIR is a folder");
    let (server, _dir) = server(&[]);
    let run = std::panic::catch_unwind(|| check(Command::new("node").arg(&copy), &server, "true"));
    std::fs::remove_file(&copy).expect("the copy");
    run.unwrap_or_else(|error| std::panic::resume_unwind(error));
}

#[test]
#[ignore = "needs crates of crates.io"]
fn rust() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ci/rust");
    let mut command = crate::support::cargo();
    command.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(example("rust/Cargo.toml"));
    check(command.env("CARGO_TARGET_DIR", target), &server(&[]).0, "true");
}

#[test]
#[ignore = "needs java, version 17 or later"]
fn java() {
    let port = free_port().to_string();
    let (server, _dir) = server(&["--http-port", &port]);
    let mut command = Command::new("java");
    command.arg(example("JavaWorker.java")).env("GETID_URL", format!("http://127.0.0.1:{port}"));
    check(&mut command, &server, "true");
}
