//! Runs README, `docs/which-id.md` and the walks of `docs/walks`, each from its first command to its last.

use std::collections::BTreeSet;

use crate::walk::follow;

/// The walks that `packaging/checks/walks` tests, because they need an image.
const OF_PACKAGING: &[&str] = &["docker.md", "kubernetes.md"];

#[test]
fn every_walk_is_followed() {
    let here = include_str!("walks.rs");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/walks");
    let names = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let names: BTreeSet<String> = names.map(|name| name.into_string().expect("text")).collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names.iter().filter(|name| !OF_PACKAGING.contains(&name.as_str())) {
        assert!(here.contains(&format!("\"docs/walks/{name}\"")), "no test follows docs/walks/{name}");
    }
}

#[test]
#[ignore = "needs redis-cli, curl, python3 with venv, node with npm, go"]
fn readme() {
    follow("README.md", &["7890", "7880"], &[]);
}

#[test]
#[ignore = "needs redis-cli and curl"]
fn which_id() {
    follow("docs/which-id.md", &["7890", "7880"], &[]);
}

#[test]
fn from_the_fork() {
    follow("docs/walks/fork.md", &["7890"], &[]);
}

#[test]
#[ignore = "needs redis-server and redis-cli"]
fn from_redis() {
    follow("docs/walks/redis.md", &["7890", "6380"], &[]);
}

#[test]
#[ignore = "needs etcd, haproxy, prometheus and curl"]
fn a_server_and_a_standby() {
    let ports = ["7890", "7891", "7880", "7881", "7899", "2379", "2380", "9090"];
    // A machine that stalls for seconds must not cause a takeover that the page does not describe.
    let patient = [
        ("GETID_CLAIM_TIMEOUT_MS", "20000"),
        ("GETID_ID_WATERMARK_LEAD_MS", "15000"),
        ("GETID_ID_MAX_BORROW_MS", "15000"),
    ];
    follow("docs/walks/pair.md", &ports, &patient);
}

/// Settings of the walks with a database: a segment may take the database longer than a request waits by default.
const PATIENT: [(&str, &str); 1] = [("GETID_SEQUENCE_WAIT_MS", "60000")];

#[test]
#[ignore = "needs mariadb and curl"]
fn from_leaf() {
    follow("docs/walks/leaf.md", &["7890", "7880", "3307"], &PATIENT);
}

#[test]
#[ignore = "needs mariadb and curl"]
fn from_tinyid() {
    follow("docs/walks/tinyid.md", &["7890", "7880", "3307"], &PATIENT);
}
