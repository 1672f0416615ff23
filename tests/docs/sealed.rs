//! The programs of `examples/sealed`: they read the server's texts, the server reads theirs, and both agree with the
//! fixed vectors and with NIST's samples.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::program::{fails, run};
use crate::support::{Server, Wire, folder, seal_key_file};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn example(name: &str) -> PathBuf {
    root().join("examples/sealed").join(name)
}

fn python() -> Command {
    Command::new(std::env::var("GETID_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned()))
}

fn node() -> Command {
    Command::new("node")
}

/// Runs the script that checks a program by NIST's samples and by the vectors of the crate `getid-seal`.
#[track_caller]
fn check_vectors(mut program: Command, script: &str) {
    let vectors = root().join("crates/getid-seal/tests/sealed-vectors.json");
    program.arg(root().join("tests/clients").join(script)).arg(root().join("examples/sealed")).arg(vectors);
    let printed = run(&mut program, "");
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some("ok NIST"), "{printed}");
    let counts: Vec<usize> =
        lines.next().expect("a second line").split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() == 2 && counts[0] >= 20 && counts[1] >= 5, "{printed}");
}

/// Compares a program with a server, in both directions, for IDs of a clock and of a sequence.
#[track_caller]
fn check_server(program: fn() -> Command, name: &str) {
    let dir = folder();
    let keys = seal_key_file(dir.path());
    let declared = [
        "--generator".to_owned(),
        format!("order twitter seal key-file {keys}"),
        "--generator".to_owned(),
        format!("code sequence seal key-file {keys} alphabet base62 answer sealed"),
        "--sequence-create".to_owned(),
        "on-first-use".to_owned(),
    ];
    let server = Server::start(&declared.iter().map(String::as_str).collect::<Vec<_>>());
    let mut wire = server.connect();
    let convert = |verb: &str, generator: &str, alphabet: &str, values: &[String]| -> Vec<String> {
        let mut command = program();
        command.arg(example(name)).args([verb, &keys, generator, alphabet]).args(values);
        run(&mut command, "").lines().map(str::to_owned).collect()
    };
    let ids: Vec<String> = (0..20).map(|_| wire.ask("GETID order").trim_start_matches(':').to_owned()).collect();
    let texts: Vec<String> = ids.iter().map(|id| bulk(&mut wire, &format!("SEALID order {id}"))).collect();
    assert_eq!(convert("open", "order", "base58", &texts), ids);
    assert_eq!(convert("seal", "order", "base58", &ids), texts);
    let codes: Vec<String> = (0..20).map(|_| bulk(&mut wire, "GETID code")).collect();
    let values: Vec<String> = (1..=20).map(|value: u32| value.to_string()).collect();
    assert_eq!(convert("open", "code", "base62", &codes), values, "the sequence counts behind its texts");
    for code in convert("seal", "code", "base62", &["21".to_owned()]) {
        assert_eq!(wire.ask(&format!("OPENID code {code}")), ":21");
    }

    let mut wrong = program();
    let complaint = fails(wrong.arg(example(name)).args(["open", &keys, "order", "base58", "RsdaDSVrvUeR"]));
    assert!(complaint.contains("the text was sealed with key 7; "), "{complaint}");
}

/// Returns the text of a bulk string that answers the request.
fn bulk(wire: &mut Wire, request: &str) -> String {
    wire.send(format!("{request}\r\n"));
    let reply = String::from_utf8(wire.reply()).expect("a text");
    reply.lines().nth(1).unwrap_or_else(|| panic!("{request}: {reply}")).to_owned()
}

#[test]
#[ignore = "needs python3 with cryptography (its path in GETID_TEST_PYTHON)"]
fn python_agrees_with_the_vectors_and_with_a_server() {
    check_vectors(python(), "sealed_vectors.py");
    check_server(python, "sealed.py");
}

#[test]
#[ignore = "needs node"]
fn node_agrees_with_the_vectors_and_with_a_server() {
    check_vectors(node(), "sealed_vectors.mjs");
    check_server(node, "sealed.mjs");
}
