//! `getid seal` and `getid open` as used in a shell.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::cli::{check, getid, run};
use crate::support::program::{PATIENCE, finish};
use crate::support::{folder, seal_key_file};

/// A folder with a key file, and its path.
fn keys() -> (TempDir, String) {
    let dir = folder();
    let keys = seal_key_file(dir.path());
    (dir, keys)
}

#[test]
fn ids_are_sealed_and_opened_by_a_key_file() {
    let (_dir, keys) = keys();
    let file = ["--key-file", &keys];
    let with = |words: &[&'static str]| [words, &file].concat();
    run(&with(&["seal", "order", "0", "1"]), 0, "424xJjbrZ18j\n3rTGUx6w9tqZ\n", "");
    run(&with(&["open", "order", "424xJjbrZ18j", "3rTGUx6w9tqZ"]), 0, "0\n1\n", "");
    run(&with(&["seal", "order", "9223372036854775807", "--alphabet", "base62"]), 0, "1IGezl0MFiHk\n", "");
    run(&with(&["open", "order", "1IGezl0MFiHk", "--alphabet", "base62"]), 0, "9223372036854775807\n", "");
    let json = "{\"generator\":\"order\",\"id\":\"1\",\"text\":\"3rTGUx6w9tqZ\",\"key\":0}\n";
    run(&with(&["seal", "order", "1", "--json"]), 0, json, "");
    run(&with(&["open", "order", "3rTGUx6w9tqZ", "--json"]), 0, json, "");
    // An alphabet with a hyphen, whose texts may begin with one.
    let hyphens = ["--alphabet", "-0123456789"];
    let text = getid(&[&with(&["seal", "order", "1"])[..], &hyphens].concat()).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let texts = ["--", text.trim()];
    run(&[&with(&["open", "order"])[..], &hyphens, &texts].concat(), 0, "1\n", "");
}

#[test]
fn pasted_ids_and_texts_are_read() {
    let (_dir, keys) = keys();
    let seal = ["seal", "order", "--key-file", &keys];
    for input in ["0\n1\n", "id\n0,1\n", "1) (integer) 0\n2) (integer) 1\n", "[\"0\", \"1\"]"] {
        check(&finish(&mut getid(&seal), input, PATIENCE, false), 0, "424xJjbrZ18j\n3rTGUx6w9tqZ\n", "");
    }
    let open = ["open", "order", "--key-file", &keys];
    for input in
        ["424xJjbrZ18j\n3rTGUx6w9tqZ", "id\n424xJjbrZ18j;3rTGUx6w9tqZ\n", "1) \"424xJjbrZ18j\"\n2) \"3rTGUx6w9tqZ\"\n"]
    {
        check(&finish(&mut getid(&open), input, PATIENCE, false), 0, "0\n1\n", "");
    }
    let wrong = "424xJjbrZ18j x\n(error) NOPERM no\nRsdaDSVrvUeR\n";
    let output = finish(&mut getid(&open), wrong, PATIENCE, false);
    check(&output, 1, "0\n", "getid: line 1: 'x' has 1 byte, must have 12 characters\n");
    check(&output, 1, "0\n", "line 2: no sealed text but an error of the server: NOPERM no\n");
    check(&output, 1, "0\n", "line 3: 'RsdaDSVrvUeR' is sealed by key 7, and the key file has only 0\n");
    // A word without end is cut, and of many mistakes 20 are reported.
    let output = finish(&mut getid(&open), &"9".repeat(1 << 20), PATIENCE, false);
    check(&output, 1, "", "...' is not a sealed text of order, which has 12 characters\n");
    assert!(output.stderr.len() < 300);
    let output = finish(&mut getid(&open), &"x\n".repeat(10_000), PATIENCE, false);
    check(&output, 1, "", "getid: 9,980 mistakes more, which are not listed\n");
    let output = finish(&mut getid(&seal), "7.868e+17\n9223372036854775808\n", PATIENCE, false);
    check(&output, 1, "", "line 1: '7.868e+17' is no ID: it was rounded on its way");
    check(&output, 1, "", "line 2: '9223372036854775808' is no ID: must be 0 to 9223372036854775807\n");
    run(&[&open[..], &[""]].concat(), 1, "", "argument 1: '' has 0 bytes, must have 12 characters");
    run(&[&seal[..], &["\u{1b}2J"]].concat(), 1, "", r"argument 1: '\u{1b}2J' is no ID");
}

#[test]
fn the_keys_are_those_of_the_configuration() {
    let (dir, keys) = keys();
    let config = dir.path().join("getid.conf");
    let text = format!(
        "generator order twitter seal key-file {keys}\ngenerator code sequence seal key-file {keys} alphabet base62\n\
         generator tweets twitter\n"
    );
    std::fs::write(&config, text).unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let with = |words: &[&'static str]| [words, &config].concat();
    run(&with(&["seal", "order", "1"]), 0, "3rTGUx6w9tqZ\n", "");
    run(&with(&["open", "order", "3rTGUx6w9tqZ"]), 0, "1\n", "");
    let text = getid(&with(&["seal", "code", "1"])).output().unwrap().stdout;
    assert_eq!((text.len(), &text == b"3rTGUx6w9tqZ\n"), (13, false), "the name is a part of the seal");
    run(&with(&["open", "ordr", "1"]), 1, "", "no sealed generator 'ordr'; did you mean 'order'?");
    run(&with(&["open", "tweets", "1"]), 1, "", "no sealed generator 'tweets'; it seals code, order");
    run(&["seal", "order", "1"], 1, "", "it seals none; --config FILE names the servers' configuration");
}

#[test]
fn verify_needs_integers() {
    let (dir, keys) = keys();
    let config = dir.path().join("getid.conf");
    let text = format!(
        "generator order twitter seal key-file {keys} answer sealed\ngenerator code sequence seal key-file {keys} \
         answer sealed\n"
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    for name in ["order", "code"] {
        let expected = format!("generator '{name}' answers with sealed texts: verify needs 'answer integer'");
        run(&["verify", "--generator", name, "--config", config, "-n", "10"], 2, "", &expected);
    }
}

#[test]
fn wrong_keys_have_their_sentence() {
    let (dir, keys) = keys();
    let with = |path: &str, more: &[&str]| [&["seal", "order", "1", "--key-file", path], more].concat().join("\n");
    let run = |line: String, part: &str| run(&line.split('\n').collect::<Vec<_>>(), 1, "", part);
    run(with("/nonexistent", &[]), "getid: key-file '/nonexistent' cannot be read");
    run(with(&keys, &["--alphabet", "abca"]), "--alphabet: it has the character 'a' twice");
    run(with(&keys, &["--alphabet", "012345678"]), "--alphabet: it has 9 characters, must have at least 10");
    run(with(&keys, &[]).replace("order", "a b"), "'a b' is not a name of a generator");
    let wrong = dir.path().join("wrong.keys");
    std::fs::write(&wrong, "0 00\n").unwrap();
    std::fs::set_permissions(&wrong, Permissions::from_mode(0o600)).unwrap();
    let wrong = wrong.to_str().unwrap();
    run(with(wrong, &[]), "line 1 has a key 0 of 2 characters, must have 64 hex digits");
    std::fs::set_permissions(&keys, Permissions::from_mode(0o604)).unwrap();
    run(
        with(&keys, &[]),
        &format!("(mode 604), must not be used by others nor written by its group: chmod g-w,o= {keys}"),
    );
    super::cli::run(&["seal", "order", "1", "--alphabet", "base62"], 2, "", "--key-file <PATH>");
    super::cli::run(&["open", "order", "x", "--key-file", &keys, "--config", "x.conf"], 2, "", "cannot be used with");
}
