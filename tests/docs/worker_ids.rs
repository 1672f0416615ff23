//! The programs of `examples/worker-ids`, each with the client package of its language and the built binary.
//! `clients/conformance` proves the packages themselves.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::program::run;
use crate::support::{Server, cargo, folder};

/// First millisecond of Twitter's layout, which the programs use.
const EPOCH_MS: u64 = 1_288_834_974_657;

const HOUR_MS: u64 = 3_600_000;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn example(name: &str) -> PathBuf {
    root().join("examples/worker-ids").join(name)
}

/// An ID that a program printed, with the worker id and the time in it.
struct Made {
    id: String,
    worker_id: u64,
    unix_ms: u64,
}

/// Runs a program, which makes a thousand IDs and releases its worker id. Returns the first of the IDs.
#[track_caller]
fn check(command: &mut Command, verdict: &str) -> Made {
    let server = Server::start(&["--worker-pool", "orders size 1024 lease 30s"]);
    let mut wire = server.connect();
    wire.send("WORKERID INIT orders NEW\r\n");
    assert_eq!(wire.reply(), b"+OK\r\n");
    let url = format!("getid://127.0.0.1:{}", server.port);
    let output = command.env("GETID_URL", url).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}\n{complaints}", output.status);

    let [id, last] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    let number: u64 = id.parse().expect("an ID");
    let made = Made { id: id.to_owned(), worker_id: number >> 12 & 1023, unix_ms: (number >> 22) + EPOCH_MS };
    assert_eq!(last, format!("worker id {}: 1000 different IDs, ascending: {verdict}", made.worker_id));
    assert_eq!(wire.ask("TIME"), "*2");
    let [_, seconds, _, _] = [(); 4].map(|()| wire.line());
    let now_ms = 1000 * seconds.parse::<u64>().expect("seconds");
    assert!(now_ms.abs_diff(made.unix_ms) < HOUR_MS, "{id} is of {}", made.unix_ms);
    let info = wire.info("worker_pool_orders");
    assert!(info.contains("leased=0,") && info.contains("leases=1,") && info.contains("releases=1,"), "{info}");
    made
}

fn python_path() -> String {
    std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Checks that a library reads the worker id and the time of an ID.
#[track_caller]
fn check_reader(reader: &mut Command, made: &Made) {
    let printed = run(reader.arg(&made.id), "");
    assert_eq!(printed.trim(), format!("{} {}", made.worker_id, made.unix_ms), "{}", made.id);
}

#[test]
#[ignore = "needs python3 with snowflake-id (its path in GETID_TEST_PYTHON)"]
fn python() {
    let mut command = Command::new(python_path());
    command.arg(example("python_worker.py")).env("PYTHONPATH", root().join("clients/python"));
    let made = check(command.env("PYTHONDONTWRITEBYTECODE", "1"), "True");
    let reader = "import sys; from snowflake import Snowflake; \
        id = Snowflake.parse(int(sys.argv[1]), 1288834974657); print(id.instance, id.milliseconds)";
    check_reader(Command::new(python_path()).args(["-c", reader]), &made);
}

/// Copies Node's program to a folder with its package. Node searches packages only in the folders above a script.
fn node_folder() -> TempDir {
    let packages = std::env::var_os("GETID_TEST_NODE_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let dir = tempfile::tempdir_in(packages).expect("GETID_TEST_NODE_DIR is a folder");
    std::fs::create_dir(dir.path().join("node_modules")).expect("a folder");
    std::os::unix::fs::symlink(root().join("clients/node"), dir.path().join("node_modules/getid-client")).unwrap();
    std::fs::copy(example("node_worker.mjs"), dir.path().join("node_worker.mjs")).expect("copied");
    dir
}

#[test]
#[ignore = "needs node with @sapphire/snowflake (the folder of node_modules in GETID_TEST_NODE_DIR)"]
fn node() {
    let dir = node_folder();
    let made = check(Command::new("node").arg(dir.path().join("node_worker.mjs")), "true");
    // The library has five bits of a worker, and five of a process.
    let reader = "const { Snowflake } = require('@sapphire/snowflake'); \
        const id = new Snowflake(1288834974657n).deconstruct(process.argv[1]); \
        console.log(`${id.workerId << 5n | id.processId} ${id.timestamp}`)";
    check_reader(Command::new("node").args(["-e", reader]).current_dir(dir.path()), &made);
}

#[test]
#[ignore = "needs a build of the Rust client"]
fn rust() {
    let mut command = cargo();
    command.args(["run", "--quiet", "--locked", "--offline", "--manifest-path"]).arg(example("rust/Cargo.toml"));
    check(command.env("CARGO_TARGET_DIR", root().join("target/ci/rust")), "true");
}

#[test]
#[ignore = "needs a JDK, version 11 or later"]
fn java() {
    let classes = folder();
    let sources =
        run(Command::new("find").arg(root().join("clients/java/src/main/java")).args(["-name", "*.java"]), "");
    run(Command::new("javac").arg("-d").arg(classes.path()).args(sources.lines()), "");
    check(Command::new("java").arg("-cp").arg(classes.path()).arg(example("JavaWorker.java")), "true");
}
