//! Rust's clients, unchanged, with a running getid: `client-matrix redis|redis-tokio|fred|fred-resp3 [check ...]`.
//!
//! See `tests/server/client_matrix.rs`. A failed check panics.

mod fred_client;
mod redis_sequences;
mod redis_sync;
mod redis_tokio;
mod yitter;

use std::collections::HashSet;
use std::env;

const CHECKS: [&str; 10] =
    ["connect", "getid", "mgetid", "error", "pipeline", "multi", "pool", "reconnect", "password", "tls"];

/// The number of connections that draw concurrently.
const POOL: usize = 50;
const EACH: usize = 400;

#[tokio::main]
async fn main() {
    rustls::crypto::ring::default_provider().install_default().expect("the first provider");
    let words: Vec<String> = env::args().skip(1).collect();
    let (client, named) = words.split_first().expect("the name of a client");
    if client == "redis-sequences" {
        return tokio::task::spawn_blocking(redis_sequences::check).await.expect("a passed check");
    }
    if client == "yitter" {
        return yitter::print();
    }
    let (package, _) = client.split_once('-').unwrap_or((client, ""));
    println!("version {package} {}", version(package));
    for name in CHECKS {
        if !named.is_empty() && !named.iter().any(|word| word == name) {
            continue;
        }
        match client.as_str() {
            "redis" => tokio::task::spawn_blocking(move || redis_sync::check(name)).await.expect("a passed check"),
            "redis-tokio" => redis_tokio::check(name).await,
            "fred" => fred_client::check(name, fred::types::RespVersion::RESP2).await,
            "fred-resp3" => fred_client::check(name, fred::types::RespVersion::RESP3).await,
            other => panic!("no such client: {other}"),
        }
        println!("ok {name}");
    }
}

/// Returns the version of a package from the lock file.
fn version(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = lock.split_once(&format!("name = \"{package}\"\nversion = \"")).expect("a locked package").1;
    entry.split('"').next().expect("a version")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// Returns the port in a variable: `MATRIX_PORT`, `MATRIX_TLS_PORT`, `MATRIX_PASSWORD_PORT`.
fn port(name: &str) -> u16 {
    variable(name).parse().expect("a port")
}

#[track_caller]
fn ascending(ids: &[i64], after: i64) {
    assert!(ids.is_sorted_by(|a, b| a < b) && ids.first().is_some_and(|&first| first > after), "not ascending");
}

/// Any 1024 consecutive IDs differ in their last ten bits, so a lost digit shows.
#[track_caller]
fn exact(ids: &[i64]) {
    assert_eq!(ids.iter().map(|id| id % 1024).collect::<HashSet<_>>().len(), 1024, "lost digits");
}

/// Asserts that the IDs of each connection ascend, and that no two are equal.
#[track_caller]
fn distinct(drawn: &[Vec<i64>]) {
    for ids in drawn {
        ascending(ids, -1);
    }
    assert_eq!(drawn.iter().flatten().collect::<HashSet<_>>().len(), POOL * EACH, "an ID came twice");
}
