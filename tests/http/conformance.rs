//! The OpenAPI document in other programs: a validator, and schemathesis, which sends valid and invalid requests and
//! checks each answer against the document.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::http::HttpServer;

/// Time that schemathesis runs, in seconds. `GETID_TEST_SCHEMATHESIS_S` overrides it.
const DURATION_S: &str = "60";

/// Seed of schemathesis's random choices, the same in each run. `GETID_TEST_SCHEMATHESIS_SEED` overrides it for longer
/// searches.
const SEED: &str = "1";

/// Returns a program of the Python that has the packages of `tests/clients/requirements.txt`. Fails without it.
fn program(name: &str) -> PathBuf {
    let python = std::env::var("GETID_TEST_PYTHON").expect("GETID_TEST_PYTHON: a python with schemathesis");
    Path::new(&python).with_file_name(name)
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

/// Starts a server with the resources that the document names: generators and sequences.
fn server() -> HttpServer {
    let server = HttpServer::start(&["--generator", "0 twitter", "--generator", "trace uuid7"]);
    let mut wire = server.server.connect();
    for name in ["orders", "00"] {
        assert_eq!(wire.ask(&format!("SEQUENCE CREATE {name}")), "+OK");
    }
    server
}

#[test]
#[ignore = "needs python3 with openapi-spec-validator (its path in GETID_TEST_PYTHON)"]
fn the_document_is_valid() {
    let server = server();
    let path = server.server.dir.join("openapi.json");
    std::fs::write(&path, server.ask("GET /openapi.json").body).unwrap();
    let text = run(Command::new(program("openapi-spec-validator")).args(["--schema", "3.1"]).arg(&path));
    assert!(text.contains("OK"), "{text}");
}

/// Every check runs except `positive_data_acceptance`, which requires success for every request that fits the schemas.
/// No schema can express that `last` excludes other fields, that a span ends after its beginning, or the format of a
/// generator's IDs.
#[test]
#[ignore = "needs python3 with schemathesis (its path in GETID_TEST_PYTHON)"]
fn schemathesis_finds_nothing_for_a_minute() {
    let server = server();
    // A sequence with the policy `error` answers 503 where others wait. The document lists the possible statuses.
    let settings = "[checks.not_a_server_error]\nexpected-statuses = [\"2xx\", \"3xx\", \"4xx\", 503]\n";
    std::fs::write(server.server.dir.join("schemathesis.toml"), settings).unwrap();
    let seconds = std::env::var("GETID_TEST_SCHEMATHESIS_S").unwrap_or_else(|_| DURATION_S.to_owned());
    let seed = std::env::var("GETID_TEST_SCHEMATHESIS_SEED").unwrap_or_else(|_| SEED.to_owned());
    let mut command = Command::new(program("schemathesis"));
    command.current_dir(&server.server.dir).arg("run").arg(format!("http://127.0.0.1:{}/openapi.json", server.port));
    command.args(["--checks", "all", "--exclude-checks", "positive_data_acceptance"]);
    // The endless stream is tested in `page`.
    command.args(["--exclude-path", "/v1/status/stream", "--max-examples", "100000", "--max-time", &seconds]);
    command.args(["--phases", "examples,coverage,fuzzing,stateful", "--generation-database", "none", "--no-color"]);
    command.args(["--seed", &seed]);
    let text = run(&mut command);
    assert!(text.contains("Tested:"), "{text}");
    let mut wire = server.server.connect();
    assert!(wire.id() > 0, "the server still gives IDs");
}
