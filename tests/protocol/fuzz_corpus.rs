//! Replays all inputs that fuzzers found worth keeping, against the same properties.
//!
//! `fuzz/run` runs the fuzzers themselves, see tests/README.md. This test catches a return of earlier findings.

use std::fs;
use std::path::Path;

#[track_caller]
fn check(name: &str, least: usize, property: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the corpus is there") {
        let path = entry.expect("an entry").path();
        let bytes = fs::read(&path).expect("it can be read");
        assert!(std::panic::catch_unwind(|| property(&bytes)).is_ok(), "{}: see above", path.display());
        count += 1;
    }
    assert!(count >= least, "{count} inputs");
}

#[test]
fn requests() {
    check("requests", 200, crate::properties::requests);
}

#[test]
fn config() {
    check("config", 50, crate::properties::config);
}

#[test]
fn state() {
    check("state", 3, crate::properties::state);
}

#[test]
fn acl() {
    check("acl", 10, crate::properties::acl);
}

#[cfg(feature = "http")]
#[test]
fn http() {
    check("http", 20, crate::properties::http);
}
