//! Helpers shared by tests: a server, a connection to it, and all else that more than one file needs.

#![allow(dead_code, missing_docs, unreachable_pub, unused_imports, unused_macros, reason = "each binary uses a part")]

pub mod backend;
pub mod etcd;
pub mod fake_clock;
pub mod haproxy;
pub mod http;
pub mod mariadb;
pub mod postgres;
pub mod preload;
pub mod program;
pub mod prometheus;
pub mod proxy;
#[path = "../../crates/getid-core/tests/core/random.rs"]
mod random;
pub mod redis;
pub mod scenarios;
mod server;
pub mod standby;
pub mod tls;
mod wire;

use std::fs::{DirEntry, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tempfile::TempDir;

pub(crate) use random::Random;
pub use server::*;
pub use wire::{Wire, talk};

/// Time limit of a step in a test, after which the test fails.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Reads once. SIGSTOP and SIGCONT of this process interrupt a read that has a time-out; the read is then repeated.
pub fn read(mut from: impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Creates a folder in memory if the system has one, so that no test waits for other programs' writes to the disk.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// Writes a key file with the key 0 of `sealed-vectors.json` to a folder, and returns its path.
pub fn seal_key_file(dir: &Path) -> String {
    let path = dir.join("seal.keys");
    let key = "0 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).expect("a new file");
    file.write_all(key.as_bytes()).expect("written");
    path.display().to_string()
}

/// Returns a request that the command's arity admits; `None` for a container, which only its subcommands can run.
pub fn request_of(command: &getid_redis::command::Command) -> Option<String> {
    let words = command.full_name.matches('|').count() + 1;
    if !command.subcommands.is_empty() && !command.accepts(1) {
        return None;
    }
    let argument_count = command.arity.unsigned_abs() as usize;
    Some(command.full_name.replace('|', " ") + &" 1".repeat(argument_count.saturating_sub(words)))
}

/// Waits until every thread of the process has stopped: kill(2) returns before SIGSTOP takes effect.
pub fn wait_stopped(pid: Pid) {
    let has_stopped = |task: io::Result<DirEntry>| {
        let Ok(stat) = task.and_then(|task| std::fs::read_to_string(task.path().join("stat"))) else { return true };
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 't', 'Z']))
    };
    eventually("the process has stopped", || {
        std::fs::read_dir(format!("/proc/{pid}/task")).map_or(true, |mut tasks| tasks.all(has_stopped))
    });
}

/// Returns the cargo that runs these tests. CI's runner of test programs sets a variable that makes cargo build crates
/// again, so it is removed.
pub fn cargo() -> std::process::Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = std::process::Command::new(cargo);
    command.env_remove("RUSTC_BOOTSTRAP");
    command
}

/// Waits until `is_so`, and fails after [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    in_time(what, || is_so().then_some(()));
}

/// Returns the first answer of `ask`. Fails after [`PATIENCE`].
#[track_caller]
pub fn in_time<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
