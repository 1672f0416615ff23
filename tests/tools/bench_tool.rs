//! `getid bench` as users run it, and the null server it is compared with. These tests judge no times.

// These helpers are part of the tests.

use std::process::{Output, Stdio};
use std::sync::Arc;

use crate::null_server::Constant;
use crate::support::{self, Server, eventually, free_port, getid, in_time};
use serde_json::Value;

fn bench(words: &[&str]) -> Output {
    getid().arg("bench").args(words).env_remove("REDISCLI_AUTH").stdin(Stdio::null()).output().unwrap()
}

/// Runs `getid bench --json` with this port, and returns the exit code and the report.
#[track_caller]
fn check(port: u16, words: &[&str]) -> (i32, Value) {
    let port = port.to_string();
    let output = bench(&[&["--json", "--port", &port, "--timeout-ms", "20000"], words].concat());
    let complaint = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {complaint}"));
    (output.status.code().unwrap(), report)
}

/// Asserts that the error is one line, with exit code 2 and nothing on standard output.
#[track_caller]
fn check_failure(words: &[&str], expected: &str) {
    let output = bench(words);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains(expected), "{complaint}");
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(output.stdout.is_empty());
}

#[test]
fn two_hundred_requests() {
    let server = Server::start(&[]);
    let pid = server.pid().to_string();
    let (code, report) = check(server.port, &["-n", "200", "-c", "8", "-P", "3", "--threads", "2", "--pid", &pid]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["ok"], true);
    assert_eq!(report["requests"], 200);
    assert_eq!(report["command"], serde_json::json!(["GETID"]));
    assert_eq!(report["error_replies"], 0);
    assert_eq!(report["latency_us"]["batches"].as_u64(), Some(67));
    let latency = |name: &str| report["latency_us"][name].as_f64().unwrap();
    assert!(0.0 < latency("p50") && latency("p50") <= latency("p999") && latency("p999") <= latency("max"), "{report}");
    assert!(report["server"]["cpu_us_per_request"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["limit"].is_string());
    // The server gave exactly the IDs in the report.
    assert_eq!(server.connect().info("ids_issued"), "200");
}

/// A layout of 1,000 IDs a second gets more requests: the report names the shard-range, as the log does.
#[test]
fn a_layout_at_its_limit_is_named() {
    let server = Server::start(&["--id-range", "2", "--shard-range", "0", "--random-range", "19"]);
    let begins = "ids a second are requested; the layout holds 1000; ";
    let report = in_time("more is asked for than the layout holds", || {
        let (code, report) = check(server.port, &["-c", "20", "-P", "50", "--seconds", "2"]);
        assert_eq!(code, 0, "{report}");
        (report["limit"] == "layout").then_some(report)
    });
    let limit = report["at_limit"].as_str().unwrap();
    assert!(limit.contains(begins) && limit.contains("shard-range"), "{limit}");
    let port = server.port.to_string();
    in_time("the text report names it, too", || {
        let words = ["--port", &port, "-c", "20", "-P", "50", "--seconds", "2", "--timeout-ms", "20000"];
        let text = String::from_utf8(bench(&words).stdout).unwrap();
        let line = text.lines().find(|line| line.starts_with("  limit "))?;
        line.contains("the server's layout, which is at its limit: ").then_some(())
    });
    in_time("and by verify", || {
        let layout = ["--id-range", "2", "--shard-range", "0", "--random-range", "19"];
        let words = ["verify", "--json", "-c", "20", "-P", "50", "--seconds", "2", "--port", &port];
        let output = getid().args(words).args(layout).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        report["servers"][0]["at_limit"].as_str().is_some_and(|line| line.contains(begins)).then_some(())
    });
    // An idle server is not at its limit. A short run reads the server's state at its end.
    let roomy = Server::start(&[]);
    let (_, report) = check(roomy.port, &["-n", "200"]);
    assert_eq!(report["at_limit"], Value::Null, "{report}");
}

#[test]
fn ids_by_the_hundred_and_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let path = path.to_str().unwrap();
    let _server = Server::start(&["--unixsocket", path]);
    let output = bench(&["--json", "--unixsocket", path, "-n", "40", "-c", "2", "-P", "16", "MGETID", "100"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["requests"].as_u64(), report["error_replies"].as_u64()), (Some(40), Some(0)), "{report}");
}

#[test]
fn transactions_are_sent_whole() {
    let server = Server::start(&[]);
    let (code, report) = check(server.port, &["-n", "10", "-c", "1", "--transaction", "4", "GETID"]);
    // MULTI, 4 GETID, EXEC are 6 requests. A run of 10 requests becomes two whole transactions.
    assert_eq!((code, report["requests"].as_u64()), (0, Some(12)), "{report}");
}

#[test]
fn a_warm_up_is_not_counted() {
    let server = Server::start(&[]);
    let (code, report) = check(server.port, &["-n", "20", "-c", "2", "--warm-up", "0.05"]);
    assert_eq!((code, report["requests"].as_u64()), (0, Some(20)));
}

#[test]
fn seconds_end_a_run() {
    let server = Server::start(&[]);
    // If the machine stalls, a run may end before its first request.
    eventually("a run with requests", || {
        let (code, report) = check(server.port, &["--seconds", "0.2", "-c", "3"]);
        code == 0 && report["requests"].as_u64() >= Some(3)
    });
}

#[test]
fn errors_are_counted() {
    let server = Server::start(&[]);
    let (code, report) = check(server.port, &["-n", "30", "-c", "3", "--keep-going", "MGETID", "101"]);
    assert_eq!(code, 1, "{report}");
    assert_eq!(report["ok"], false);
    assert_eq!(report["error_replies"], 30);
    assert_eq!(report["errors"]["ERR parameters error! argv[1] = 101"], 30);

    let output =
        bench(&["--port", &server.port.to_string(), "-n", "5", "-c", "1", "--keep-going", "LINSERT", "a", "b"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("5 error replies") && text.contains("5 times: ERR unknown command 'LINSERT'"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn passwords() {
    let server = Server::start(&["--requirepass", "secret"]);
    let port = server.port.to_string();
    let (code, report) = check(server.port, &["-n", "10", "-c", "2", "--password", "secret"]);
    assert_eq!((code, report["requests"].as_u64()), (0, Some(10)));
    check_failure(&["--port", &port, "--password", "wrong"], "AUTH: WRONGPASS");
    let (code, report) = check(server.port, &["-n", "10", "-c", "2", "--keep-going"]);
    assert_eq!((code, report["error_replies"].as_u64()), (1, Some(10)), "{report}");
}

/// A run that gets only errors ends early, because more seconds give no more information.
#[test]
fn a_run_that_gets_nothing_but_errors_ends_at_once() {
    let server = Server::start(&["--requirepass", "secret"]);
    let port = server.port.to_string();
    for (words, expected) in [
        (&["-c", "3"][..], "NOAUTH"),
        (&["--password", "secret", "-P", "4", "FOO", "bar"], "ERR unknown command 'FOO'"),
        (&["--password", "secret", "--threads", "2", "MGETID", "101"], "ERR parameters error! argv[1] = 101"),
        (&["--password", "secret", "--transaction", "3", "GETID", "x"], "ERR wrong number of arguments for 'getid'"),
    ] {
        let output = bench(&[&["-p", &port, "--seconds", "600"], words].concat());
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.contains(expected) && complaint.contains("--keep-going"), "{words:?}: {complaint}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{complaint}");
    }
}

#[test]
fn unknown_options_are_errors() {
    check_failure(&["--seccnds", "3"], "unexpected argument '--seccnds'");
    check_failure(&["GETID", "-x"], "unexpected argument '-x'");
    check_failure(&["-p", "GETID"], "invalid value 'GETID'");
    check_failure(&["-p", "70000"], "70000 is not in");
    check_failure(&["-p", "1", "-n", "0"], "not in");
    check_failure(&["-n", "99999999999999999999999"], "number too large");
    check_failure(&["--seconds", "nan"], "must be more than 0");
    check_failure(&["--connections", "60001"], "not in");
    check_failure(&["http://a:1", "GETID"], "no server's URL");
    check_failure(&["a:1", "--host", "b"], "use one of them");
    check_failure(&["--svg", "/nowhere/x.svg", "-p", "1"], "/nowhere/x.svg: No such file");
}

/// Options may follow the command, too; `-p` is a port.
#[test]
fn ids_are_counted_and_the_server_may_be_a_word() {
    let server = Server::start(&[]);
    let address = format!("127.0.0.1:{}", server.port);
    let output = bench(&["--json", &address, "MGETID", "100", "-n", "40", "-c", "2"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["requests"].as_u64(), report["ids"].as_u64()), (Some(40), Some(4000)), "{report}");
    let (rate, ids) = (&report["requests_per_second"], &report["ids_per_second"]);
    assert!((ids.as_f64().unwrap() / rate.as_f64().unwrap() - 100.0).abs() < 0.1, "{report}");
    let output = bench(&["-p", &server.port.to_string(), "mgetid", "7", "-n", "1", "-c", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("  ids        7: ") && text.contains("1 connection, "), "{text}");
    let output = bench(&["-p", &server.port.to_string(), "-n", "10", "-c", "1", "PING"]);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("  ids "), "PING draws none");
    let (_, report) = check(server.port, &["-n", "12", "-c", "1", "--transaction", "4", "GETID"]);
    assert_eq!((report["requests"].as_u64(), report["ids"].as_u64()), (Some(12), Some(8)), "{report}");
}

#[test]
fn the_latency_curve_is_written_as_a_table_and_as_a_picture() {
    let server = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (csv, svg) = (file("a.csv"), file("a.svg"));
    // An existing file is replaced completely.
    std::fs::write(&csv, "x".repeat(1_000_000)).unwrap();
    let (code, report) = check(server.port, &["-n", "3000", "-c", "4", "--csv", &csv, "--svg", &svg]);
    assert_eq!(code, 0);
    let csv = std::fs::read_to_string(csv).unwrap();
    let rows: Vec<Vec<f64>> =
        csv.lines().skip(1).map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert!(csv.starts_with("quantile,latency_us,batches\n") && rows.len() > 10, "{csv}");
    assert!(rows.is_sorted_by(|one, next| one.iter().zip(next).all(|(a, b)| a <= b)), "{csv}");
    let last = rows.last().unwrap();
    assert_eq!((last[0], last[2]), (1.0, 3000.0), "{csv}");
    assert!((last[1] - report["latency_us"]["max"].as_f64().unwrap()).abs() < 0.01, "{csv}");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("GETID: ") && svg.contains("4 connections"), "{svg}");
    // Each file is also written without the other one.
    for (flag, name, start) in [("--csv", "b", "quantile,"), ("--svg", "c", "<svg ")] {
        check(server.port, &["-n", "10", "-c", "1", flag, &file(name)]);
        assert!(std::fs::read_to_string(file(name)).unwrap().starts_with(start), "{flag}");
    }
}

#[test]
fn no_server_at_the_address() {
    let port = free_port().to_string();
    check_failure(&["--port", &port], &format!("getid: 127.0.0.1:{port}: Connection refused"));
    check_failure(&["--port", &port], "Is the server running, and is this its port?");
    check_failure(&["--unixsocket", "/nowhere/s"], "getid: /nowhere/s: No such file or directory");
}

#[test]
fn impossible_runs_are_refused() {
    let server = Server::start(&[]);
    let port = server.port.to_string();
    check_failure(&["--port", &port, "--pid", "4194304"], "--pid 4194304: its CPU time cannot be read");
    check_failure(&["--port", &port, "-P", "1000000", "MGETID", &"1".repeat(100)], "a lower --pipeline");
    check_failure(&["--port", &port, "--seconds", "1", "--requests", "1"], "cannot be used with");
    check_failure(&["--port", &port, "-n", "9", "-c", "1", "QUIT"], "the server closed the connection");
}

#[test]
fn the_error_of_a_full_server_is_printed() {
    let server = Server::start(&["--maxclients", "2"]);
    let port = server.port.to_string();
    check_failure(&["--port", &port, "-c", "25", "-n", "100"], "max number of clients reached");
}

/// Runs a null server on a thread, which ends with the test process.
fn null_server(request: &[u8], reply: &[u8]) -> u16 {
    let constant = Arc::new(Constant::new(request, reply).unwrap());
    let (send_port, port) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            send_port.send(listener.local_addr().unwrap().port()).unwrap();
            crate::null_server::serve_tcp(listener, constant).await.unwrap();
        });
    });
    port.recv().unwrap()
}

#[test]
fn the_null_server_answers_each_request() {
    let request = crate::null_server::unescape("*1\\r\\n$5\\r\\nGETID\\r\\n");
    let port = null_server(&request, b":144182182078841378\r\n");
    let (code, report) = check(port, &["-n", "500", "-c", "4", "-P", "100"]);
    assert_eq!((code, report["requests"].as_u64()), (0, Some(500)), "{report}");
}

#[test]
fn more_replies_than_ready_in_one_piece() {
    let reply = format!("*100\r\n{}", "$18\r\n144182182078841378\r\n".repeat(100));
    let port = null_server(b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n", reply.as_bytes());
    let (code, report) = check(port, &["-n", "2000", "-c", "2", "-P", "1000", "MGETID", "100"]);
    assert_eq!((code, report["requests"].as_u64()), (0, Some(2000)), "{report}");
}

#[test]
fn other_protocols_are_reported() {
    let port = null_server(b"*1\r\n$5\r\nGETID\r\n", b"HTTP/1.1 400 Bad Request\r\n");
    check_failure(&["--port", &port.to_string(), "-n", "1"], "does not speak Redis's protocol");
    let port = null_server(b"*1\r\n$5\r\nGETID\r\n", b":1\r\n:2\r\n");
    check_failure(&["--port", &port.to_string(), "-n", "1"], "more replies than there were requests");
}

/// A very short run of the script, which proves that it still works.
#[test]
#[ignore = "needs python3 and redis-server"]
fn compare_compares() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("result.json");
    let output = std::process::Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/compare"))
        .args(["--no-build", "--without", "null", "--rounds", "2", "--seconds", "0.05", "--warm-up", "0.01"])
        .args(["--starts", "1", "--only", "MULTI|MGETID.*16|start|threads"])
        .args([std::ffi::OsStr::new("--getid"), support::binary().as_os_str()])
        .args([std::ffi::OsStr::new("--dir"), dir.path().as_os_str()])
        .args([std::ffi::OsStr::new("--json"), json.as_os_str()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("| MULTI, 16 GETID, EXEC; 50 connections |") && text.contains("<= 0.6: "), "{text}");
    assert!(text.contains("From exec to the first answer"), "{text}");
    assert!(text.contains("io-threads on one core, load on another") && text.contains("each ID is unique"), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let runs = &report["workloads"]["MGETID 100, 8 connections, depth 16"];
    assert_eq!(runs["redis"].as_array().map(Vec::len), Some(2));
    assert_eq!(runs["getid"][1]["ok"], true);
    let threads = &report["io_threads"]["on one core, load on another"]["GETID, 50 connections, depth 16"];
    assert_eq!(
        (threads["runs"]["4"][1]["ok"].as_bool(), threads["verified"].as_array().map(Vec::len)),
        (Some(true), Some(3))
    );
    // The script removes its folder, and ends the servers in it.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
