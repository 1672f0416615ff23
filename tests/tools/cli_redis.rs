//! Redis's own tools, unchanged, in their many modes, with a real server process. `client_matrix.rs` has a row for each
//! of them, next to the client libraries.
//!
//! Programs: `redis-cli` and `redis-benchmark` (Debian: redis-tools). A test fails if its program is missing.

use std::process::Command;
use std::time::Duration;

use crate::support::Server;
use crate::support::program::{PATIENCE, finish, run, run_for};

#[test]
#[ignore = "needs redis-cli and redis-benchmark"]
fn redis_cli_one_command_at_a_time() {
    let server = Server::start(&[]);
    let cli = |words: &str| cli(&server, words);
    let mut last = id(&cli("GETID"));
    for words in ["GETID", "-3 GETID", "-n 3 GETID", "-3 -n 15 getid", "--no-raw GETID"] {
        let now = id(cli(words).trim_start_matches("(integer) "));
        assert!(now > last, "{words}");
        last = now;
    }
    let many = cli("MGETID 100");
    assert_eq!(many.lines().count(), 100);
    assert!(many.lines().all(|line| id(line) > last));
    assert_eq!(cli("MGETID 101").trim(), "ERR parameters error! argv[1] = 101");
    let output = cli("-n 16 PING");
    assert!(output.contains("DB index is out of range") && output.contains("PONG"), "the connection stays: {output}");
    assert_eq!(cli("-r 3 -i 0.01 PING").lines().count(), 3);
    assert!(cli("-3 DECODEID 144182182078841378").contains("random 546"));
    assert!(cli("--json DECODEID 144182182078841378").contains("\"random\":546"));
    assert!(cli("--csv MGETID 2").contains("\",\""));
    assert!(cli("COMMAND COUNT").trim().parse::<u32>().expect("a number") > 20);
    assert!(cli("COMMAND DOCS getid").contains("summary"));
    assert!(cli("INFO generator").contains("ids_issued:"));
    assert!(cli("CLIENT LIST").contains("cmd=client|list"));
    assert!(cli("CONFIG GET port").contains(&server.port.to_string()));
    assert!(cli("nosuch x").contains("ERR unknown command 'nosuch', with args beginning with: 'x'"));
}

#[test]
#[ignore = "needs redis-cli and redis-benchmark"]
fn redis_cli_interactive() {
    let server = Server::start(&[]);
    let output = run(&mut redis_cli(&server), "GETID\nMGETID 2\nfoo\nHELLO 3\nCOMMAND DOCS\nPING\n");
    let lines: Vec<&str> = output.lines().collect();
    assert!(id(lines[0]) < id(lines[1]) && id(lines[1]) < id(lines[2]), "{output}");
    assert!(lines[3].starts_with("ERR unknown command 'foo'"), "{output}");
    assert_eq!(lines.last(), Some(&"PONG"));
    // On a terminal, redis-cli requests COMMAND DOCS for its hints, and discards keys that are typed before its prompt.
    // If that happens, the session is repeated more slowly.
    let session = format!("stty cols 120 rows 40; redis-cli -p {}", server.port);
    let type_in = |pause_s: &str| {
        let lines = "GETID 'HELP GETID' 'HELP @generic' 'HELP mgetid' quit";
        let typed = format!("for line in {lines}; do sleep {pause_s}; printf '%s\\r' \"$line\"; done");
        let mut terminal = Command::new("sh");
        terminal.args(["-c", &format!("{{ {typed}; }} | script -qec '{session}' /dev/null")]).env("TERM", "xterm");
        run(&mut terminal, "")
    };
    let has_all =
        |output: &str| ["(integer) ", "summary:", "Get several unique ids"].iter().all(|part| output.contains(part));
    let mut output = type_in("0.7");
    for pause_s in ["3", "10"] {
        if !has_all(&output) {
            output = type_in(pause_s);
        }
    }
    assert!(has_all(&output), "{output}");
    // The hints contain POLICY WAIT|ERROR.
    assert!(!output.contains("(error)") && !output.contains("Could not"), "{output}");
}

#[test]
#[ignore = "needs redis-cli and redis-benchmark"]
fn redis_cli_pipe_stat_latency() {
    let server = Server::start(&[]);
    for requests in ["GETID\r\n".repeat(10_000), "*1\r\n$5\r\nGETID\r\n".repeat(10_000)] {
        let output = run(redis_cli(&server).arg("--pipe"), &requests);
        assert!(output.contains("errors: 0, replies: 10000"), "{output}");
        assert!(output.contains("Last reply received"), "--pipe has its ECHO back: {output}");
    }
    let output = finish(redis_cli(&server).arg("--pipe"), "GETID\r\nMGETID 0\r\n", PATIENCE, false);
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains("errors: 1, replies: 2"), "{output}");
    // On a slow machine the tools need more time for the same work.
    let longer_until = |is_enough: fn(&str) -> bool, ask: &dyn Fn(Duration) -> String| {
        let output = [2, 10].map(Duration::from_secs).into_iter().map(ask).find(|output| is_enough(output));
        output.unwrap_or_else(|| panic!("after ten seconds too: {}", ask(Duration::from_secs(10))))
    };
    let port = server.port.to_string();
    longer_until(|output| output.contains("keys") && output.lines().count() >= 3, &|time| {
        run_for(Command::new("stdbuf").args(["-oL", "redis-cli", "-p", &port, "--stat", "-i", "0.5"]), time)
    });
    // The output is minimum, maximum, average and count.
    longer_until(|output| output.split_whitespace().filter(|word| word.parse::<f64>().is_ok()).count() >= 4, &|time| {
        run_for(redis_cli(&server).args(["--latency", "--raw", "-i", "1"]), time)
    });
}

#[test]
#[ignore = "needs redis-cli and redis-benchmark"]
fn redis_cli_with_a_password_and_by_unix_socket() {
    let server = Server::start(&["--requirepass", "secret", "--unixsocket", "getid.sock"]);
    assert!(cli(&server, "GETID").contains("NOAUTH"));
    for words in ["-a secret GETID", "-a secret -3 GETID", "--user default --pass secret -n 3 GETID"] {
        id(&cli(&server, &format!("--no-auth-warning {words}")));
    }
    assert!(cli(&server, "-a wrong GETID").contains("NOAUTH"));
    let url = format!("redis://default:secret@127.0.0.1:{}/3", server.port);
    id(&run(Command::new("redis-cli").args(["--no-auth-warning", "-u", &url, "GETID"]), ""));
    let socket = server.dir.join("getid.sock");
    let by_socket = ["--no-auth-warning", "-a", "secret", "GETID"];
    id(&run(Command::new("redis-cli").arg("-s").arg(&socket).args(by_socket), ""));
}

#[test]
#[ignore = "needs redis-cli and redis-benchmark"]
fn redis_benchmark() {
    // The layout has enough IDs for MGETID 100 at the speed of a debug build and of a release build.
    let wide = ["--id-range", "1", "--shard-range", "19", "--random-range", "1", "--loglevel", "warning"];
    let server = Server::start(&wide);
    let issued = |server: &Server| server.connect().info_number("ids_issued");
    for (options, command, ids) in [
        ("-n 100000 -P 16", "GETID", 1),
        ("-n 20000 -P 16", "MGETID 100", 100),
        ("-n 20000 -c 50", "GETID", 1),
        ("-n 20000 -c 50 --threads 2 -P 16", "GETID", 1),
        ("-n 20000 -3", "GETID", 1),
        ("-n 20000 --dbnum 3", "GETID", 1),
    ] {
        let before = issued(&server);
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-p", &server.port.to_string(), "-q"]).args(options.split(' ')).args(command.split(' '));
        let output = run(&mut benchmark, "");
        assert!(output.contains("requests per second"), "{options} {command}: {output}");
        assert!(!output.to_lowercase().contains("err"), "{options} {command}: {output}");
        let count: u64 = options.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("-n");
        // The last pipelines may exceed the requested number.
        let drawn = issued(&server) - before;
        assert!((count * ids..=(count + 2000) * ids).contains(&drawn), "{options} {command}: {drawn}");
    }
}

fn redis_cli(server: &Server) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &server.port.to_string()]);
    command
}

fn cli(server: &Server, words: &str) -> String {
    run(redis_cli(server).args(words.split(' ')), "")
}

fn id(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("no ID: {text}"))
}
