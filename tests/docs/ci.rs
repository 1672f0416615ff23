//! What CI runs a second time, and what it does not: `.ci/tests`, with a cargo that prints what is written here.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// What cargo prints of a binary in which these tests failed, each with what it said.
fn failed(binary: &str, tests: &[(&str, &str)]) -> String {
    let mut text = format!("     Running tests/{binary}/main.rs (target/debug/deps/{binary}-1)\n\nrunning 9 tests\n");
    text += "test other ... ok\n\nfailures:\n\n";
    for (name, said) in tests {
        let _ = write!(
            text,
            "---- {name} stdout ----\nin the order 1 > 2\n\nthread '{name}' panicked at tests/a.rs:1:2:\n{said}\n"
        );
        text += "stack backtrace:\n   0: a<b>::twice\n\n\n";
    }
    text += "failures:\n";
    for (name, _) in tests {
        let _ = writeln!(text, "    {name}");
    }
    text += "\ntest result: FAILED. 8 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n\n";
    text + &format!("error: test failed, to rerun pass `-p getid --test {binary}`\n")
}

struct Ci {
    folder: tempfile::TempDir,
}

impl Ci {
    /// A cargo whose first run prints `first` and fails, and whose second run prints `second` and ends with `status`.
    fn new(first: &str, second: &str, status: u8) -> Ci {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("first", first);
        write("second", second);
        let script = format!(
            "#!/bin/sh\necho \"$@\" >>said\nif [ -e again ]; then cat second; exit {status}; fi\n: >again; cat first; exit 101\n"
        );
        write("cargo", &script);
        std::fs::set_permissions(folder.path().join("cargo"), std::fs::Permissions::from_mode(0o755)).unwrap();
        Ci { folder }
    }

    fn run(&self) -> Output {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/tests");
        let mut command = Command::new(script);
        command.args(["--locked", "--", "--ignored"]).current_dir(&self.folder).env("PATH", path);
        command.output().expect("python3 is installed")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

#[test]
#[ignore = "needs python3"]
fn ci_runs_a_test_with_processes_again_and_tells_of_it() {
    let first = failed("fleet", &[("a::b", "-MISCONF the database system is starting up, INCR orders")]);
    let ci = Ci::new(&first, "test a::b ... ok\n", 0);
    let output = ci.run();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && printed.contains(&first) && printed.contains("UNSTEADY"), "{printed}");
    let said = "test --locked --no-fail-fast -- --ignored\n\
        test --locked -p getid --test fleet -- --ignored --exact --test-threads 1 a::b\n";
    assert_eq!(ci.read("said"), said);
    assert_eq!(ci.read("target/ci/unsteady"), "-p getid --test fleet: a::b\n");
}

#[test]
#[ignore = "needs python3"]
fn ci_refuses_what_fails_again_and_what_is_no_matter_of_the_machine() {
    let busy = ("a", "not in time: a load");
    let one = |binary: &str| failed(binary, &[busy]);
    let ok = "test a ... ok\n";
    for (first, second, status, why) in [
        (one("fleet"), "test a ... FAILED\n", 101, "0 of 1 passed at the second time"),
        (one("fleet"), "", 0, "0 of 1 passed at the second time"),
        (one("simulation"), ok, 0, "simulation drives no processes"),
        (failed("fleet", &[("a", "7 was given twice")]), ok, 0, "a is about values: it says 'twice'"),
        (failed("server", &[("a", "assertion failed: id > last")]), ok, 0, "a is about values: it says '>'"),
        (failed("http", &[("a", ""), ("b", ""), ("c", ""), ("d", "")]), ok, 0, "4 tests failed, and 3 at most"),
        (one("fleet") + &one("server") + &failed("http", &[]), ok, 0, "http did not come to its end"),
        ("error: could not compile `getid`\n".to_owned(), ok, 0, "cargo did not come to the tests"),
    ] {
        let ci = Ci::new(&first, second, status);
        let output = ci.run();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success() && printed.contains(why), "{why}: {printed}");
        assert_eq!(ci.read("target/ci/unsteady"), "");
    }
}
