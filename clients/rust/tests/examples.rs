//! The examples run, where a fake suffices.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;

/// Runs an example that `cargo test` has built. Returns its output.
fn output_of(example: &str) -> String {
    // This test is in `target/PROFILE/deps`, the examples are in `target/PROFILE/examples`.
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    let output = Command::new(folder.join(example)).arg("--fake").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_first_program_prints_values() {
    let expected = "1\n[2, 3, 4]\nParts { unix_ms: 1288834975657, worker: 0, counter: 0 }\n";
    assert_eq!(output_of("first_program"), expected);
}

#[test]
fn an_asynchronous_function_takes_a_fake() {
    assert_eq!(output_of("async_orders"), "order 1 of tea\n");
}
