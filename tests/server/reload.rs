//! SIGHUP and the generators of the configuration: how a running server applies an edited file.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;

use crate::support::{Server, Wire};

/// A server with this file, which the test edits.
struct Edited {
    server: Server,
    wire: Wire,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Edited {
    fn start(name: &str, text: &str) -> Edited {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        let server = Server::start_in(dir.path(), &["--config", path.to_str().expect("text")]);
        let wire = server.connect();
        Edited { server, wire, path, _dir: dir }
    }

    /// Writes this text, sends SIGHUP, and returns the log line that contains `expected`.
    #[track_caller]
    fn reload(&mut self, text: &str, expected: &str) -> String {
        fs::write(&self.path, text).expect("written");
        self.server.signal(Signal::SIGHUP);
        self.server.wait_log(expected)
    }

    #[track_caller]
    fn assert_issues(&mut self, names: &[&str]) {
        for name in ["a", "b", "c"] {
            let answer = self.wire.ask(&format!("GETID {name}"));
            let is_given = if answer.starts_with('$') { !self.wire.line().is_empty() } else { answer.starts_with(':') };
            assert_eq!(is_given, names.contains(&name), "{name}: {answer}");
        }
    }

    /// Returns the generators of `CONFIG GET`, a line each.
    fn declared(&mut self, count: usize) -> Vec<String> {
        assert_eq!(self.wire.ask("CONFIG GET generator"), "*2");
        (0..3 + count).map(|_| self.wire.line().trim_end().to_owned()).skip(3).collect()
    }
}

#[test]
fn generators_come_and_go_by_sighup() {
    for (name, texts) in [
        (
            "t.conf",
            ["generator a uuid7\n", "# b\ngenerator b twitter\n", "generator b twitter epoch 0\ngenerator a uuid7\n"],
        ),
        (
            "t.toml",
            [
                "[generator.a]\nkind = 'uuid7'\n",
                "# b\n[generator]\nb = 'twitter'\n",
                "[generator.a]\nkind = 'uuid7'\n[generator.b]\nkind = 'twitter'\nepoch = 0\n",
            ],
        ),
    ] {
        let mut edited = Edited::start(name, texts[0]);
        edited.assert_issues(&["a"]);
        assert_eq!(edited.declared(1), ["a uuid7"]);
        edited.reload(texts[1], "SIGHUP: generators: added: b; removed: a");
        edited.assert_issues(&["b"]);
        assert!(edited.declared(1)[0].starts_with("b twitter "));
        assert_eq!(edited.wire.ask("CONFIG REWRITE"), "+OK");
        let rewritten = fs::read_to_string(&edited.path).expect("text");
        assert!(rewritten.contains(texts[1].trim_end()), "{rewritten}");
        edited.reload(texts[2], "SIGHUP: generators: added: a; changed: b");
        edited.assert_issues(&["a", "b"]);
    }
}

#[test]
fn a_reload_that_is_refused_leaves_all_as_it_was() {
    let mut edited = Edited::start("t.conf", "generator a uuid7\ngenerator b twitter\n");
    edited.assert_issues(&["a", "b"]);
    let line = edited.reload("generator c uuid7\ngenerator b twiter\n", "SIGHUP: the configuration is invalid");
    assert!(
        line.contains("t.conf:2: generator b: 'twiter' is not a kind of generator (did you mean 'twitter'?)"),
        "{line}"
    );
    edited.assert_issues(&["a", "b"]);
    // A later epoch would repeat IDs.
    let text = "generator c uuid7\ngenerator b twitter epoch 2020-01-01T00:00:00Z\n";
    let line = edited.reload(text, "SIGHUP: the generators are unchanged: ");
    assert!(line.contains("'b'") && line.contains("epoch"), "{line}");
    edited.assert_issues(&["a", "b"]);
    let declared = edited.declared(2);
    assert!(declared[0] == "a uuid7" && declared[1].starts_with("b twitter "), "{declared:?}");
    fs::remove_file(&edited.path).expect("it was there");
    edited.server.signal(Signal::SIGHUP);
    edited.server.wait_log("t.conf: cannot be read: No such file or directory");
    edited.assert_issues(&["a", "b"]);
}

#[test]
fn other_values_in_the_file_stay_and_are_named() {
    let mut edited = Edited::start("t.conf", "generator a uuid7\nport 0\nhz 20\n");
    let expected = "that are not applied: to apply with CONFIG SET: timeout, hz; to apply with a restart: databases";
    edited.reload("generator a uuid7\nport 0\nhz 30\ntimeout 7\ndatabases 3\n", expected);
    assert_eq!(edited.server.count_log("SIGHUP: generators"), 0);
    edited.assert_issues(&["a"]);
    // After CONFIG SET the running value differs from the file's until the file is edited.
    assert_eq!(edited.wire.ask("CONFIG SET hz 30 timeout 7"), "+OK");
    edited.reload("port 0\nhz 30\ntimeout 7\n", "SIGHUP: generators: removed: a");
    assert_eq!(edited.server.count_log("that are not applied"), 1);
}

#[test]
fn info_about_generators_follows_a_reload() {
    let mut edited = Edited::start("t.conf", "generator a uuid7\n");
    let generators = |edited: &mut Edited| edited.wire.ask_bulk("INFO generators");
    assert!(generators(&mut edited).contains("generator_a:kind=uuid7,issued=0,"));
    edited.reload("generator b baidu\n", "near the end of their time: 'b' (ended, 2024-11-20T13:24:16.000Z)");
    let text = generators(&mut edited);
    assert!(text.contains("generator_b:kind=baidu,issued=0,") && !text.contains("generator_a"), "{text}");
    edited.reload("generator a uuid7\n", "SIGHUP: generators: added: a; removed: b");
    edited.assert_issues(&["a"]);
    assert!(generators(&mut edited).contains("generator_a:kind=uuid7,issued=1,"));
    assert_eq!(edited.server.count_log("near the end"), 1);
}
