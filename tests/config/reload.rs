//! The effect of SIGHUP on a configuration, as a function: the one in force and the sources in, another or a report
//! out. `tests/server/reload.rs` tests a running server.

use std::path::PathBuf;

use getid_config::{Config, ConfigReport, ReloadResult};

use crate::change::{files, pairs, sources};

const WORDS: [&str; 4] = ["--generator", "z", "uuid4", "--timeout=5"];

fn loaded(text: &str) -> Config {
    Config::load(&sources("t.conf", &[], &WORDS), &files(&[("t.conf", text)])).unwrap().0
}

fn reloaded(in_force: &Config, text: &str) -> Result<ReloadResult, ConfigReport> {
    in_force.reloaded(&sources("t.conf", &[], &WORDS), &files(&[("t.conf", text)]))
}

#[test]
fn generators_are_taken_from_the_file_and_nothing_else_is() {
    let old = loaded("generator a uuid7\ngenerator b uuid6\nport 7000");
    let same = reloaded(&old, "generator b uuid6\ngenerator a uuid7\nport 7000").unwrap();
    assert!(same.kept.is_empty());
    let new = reloaded(&old, "generator b twitter worker 3\nhz 20\ntimeout 9\nport 7001\ngenerator c uuid4").unwrap();
    let expected = loaded("generator b twitter worker 3\ngenerator c uuid4\nport 7000");
    assert_eq!(new.config, expected);
    // The command line overrides the file's time-out, as at the start.
    assert_eq!(new.kept.iter().map(|row| row.name).collect::<Vec<_>>(), ["port", "hz"]);
    let warnings: Vec<_> = new.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["t.conf:1: generator b: worker is set by hand: servers with the same value give the same IDs"]
    );
}

#[test]
fn a_file_that_a_start_would_refuse_is_refused_whole() {
    let old = loaded("generator a uuid7");
    for (text, expected) in [
        (
            "generator a uuid7\ngenerator b twiter\nhz x",
            "t.conf:2: generator b: 'twiter' is not a kind of generator (did you mean 'twitter'?); t.conf:3: hz: 'x' is not a \
             whole number; must be 1 to 500",
        ),
        ("generator z uuid7", "command line: t.conf:1: generator: 'z' appears in two lines, must be in one"),
        ("hz \"", "t.conf:1: the quotes don't balance: a quote is open, or text follows a closing one"),
    ] {
        assert_eq!(reloaded(&old, text).unwrap_err().in_a_line(5), expected);
    }
    let many = reloaded(&old, &"prot 1\n".repeat(7)).unwrap_err().in_a_line(2);
    assert!(many.ends_with("(did you mean 'port'?); and 5 more; getid check-config lists all"), "{many}");
    let gone = old.reloaded(&sources("gone.conf", &[], &[]), &files(&[])).unwrap_err().in_a_line(5);
    assert_eq!(gone, "gone.conf: cannot be read: entity not found");
}

#[test]
fn generators_go_together_with_what_is_in_force() {
    let old = loaded("id-max-borrow-ms 3000");
    let old = old.set(&pairs(&[("id-max-borrow-ms", "1000"), ("id-watermark-lead-ms", "1000")])).unwrap().config;
    let text = "id-max-borrow-ms 3000\ngenerator slow layout time:40@1s server-id:2 counter:3\n";
    let expected = "t.conf:2: generator slow has the unit 1s, must be at most half of id-max-borrow-ms, which is 1000 (choose a \
                    shorter unit, or set id-max-borrow-ms to 2000 or more)";
    assert_eq!(reloaded(&old, text).unwrap_err().in_a_line(5), expected);
    // In the other direction too.
    let error =
        loaded(text).set(&pairs(&[("id-watermark-lead-ms", "1000"), ("id-max-borrow-ms", "1999")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ERR CONFIG SET failed (possibly related to argument 'id-max-borrow-ms') - generator slow has the unit 1s, must be at \
         most half of id-max-borrow-ms, which is 1999"
    );
}

#[test]
fn a_password_in_a_file_of_its_own_is_no_difference() {
    let old = Config {
        requirepass: Some("hunter2".to_owned()),
        password_file: Some(PathBuf::from("p")),
        ..loaded("port 7000")
    };
    assert!(reloaded(&old, "port 7000").unwrap().kept.is_empty());
    let old = Config { password_file: None, ..old };
    assert_eq!(reloaded(&old, "port 7000").unwrap().kept.len(), 1);
}
