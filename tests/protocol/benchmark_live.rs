//! `redis-benchmark` without a list of tests, against servers with and without sequences.

use std::process::Command;

use crate::support::Server;
use crate::support::program::run;

/// The default tests of 7.0, as they are printed.
const TESTS: [&str; 20] = [
    "PING_INLINE",
    "PING_MBULK",
    "SET",
    "GET",
    "INCR",
    "LPUSH",
    "RPUSH",
    "LPOP",
    "RPOP",
    "SADD",
    "HSET",
    "SPOP",
    "ZADD",
    "ZPOPMIN",
    "LPUSH (needed to benchmark LRANGE)",
    "LRANGE_100 (first 100 elements)",
    "LRANGE_300 (first 300 elements)",
    "LRANGE_500 (first 500 elements)",
    "LRANGE_600 (first 600 elements)",
    "MSET (10 keys)",
];

/// Runs `redis-benchmark`, which must end with 0 and a result for each test.
fn check(server: &Server, options: &str) {
    let mut benchmark = Command::new("redis-benchmark");
    benchmark.args(["-p", &server.port.to_string(), "--csv", "-n", "200"]);
    let output = run(benchmark.args(options.split_whitespace()), "");
    let results = output.lines().filter_map(|line| line.strip_prefix('"')?.split_once("\","));
    let tests: Vec<_> = results.map(|(test, _)| test).filter(|&test| test != "test").collect();
    assert_eq!(tests, TESTS, "{options}: {output}");
}

#[test]
#[ignore = "needs redis-benchmark"]
fn redis_benchmark_without_options_ends_with_every_test() {
    let server = Server::start(&["--loglevel", "warning"]);
    for options in ["", "-P 16", "-r 100000", "-3", "--threads 2", "-d 100", "-d 6000", "-k 0", "--dbnum 3"] {
        check(&server, options);
    }
    let mut wire = server.connect();
    assert_eq!(wire.ask("DBSIZE"), ":0", "something is stored");
    let stats = wire.ask_bulk("INFO commandstats");
    for command in ["set", "get", "incr", "lpush", "lrange", "zpopmin", "mset"] {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).unwrap();
        assert!(line.ends_with("failed_calls=0"), "{line}");
    }

    check(&Server::start(&["--loglevel", "warning", "--sequence-store", "none"]), "");

    let server = Server::start(&["--loglevel", "warning", "--sequence-create", "on-first-use"]);
    check(&server, "");
    let mut wire = server.connect();
    assert_eq!(wire.ask("DBSIZE"), ":1");
    assert!(wire.ask_bulk("GET counter:__rand_int__").parse::<u32>().unwrap() >= 200);
}
