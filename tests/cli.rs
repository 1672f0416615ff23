//! The command line as a shell sees it: output, exit codes, pipes.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic, and its numbers are small")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};
use std::thread;

fn getid(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_getid"));
    command.args(args).env_clear();
    command
}

fn with_input(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Exit code, and parts of standard output and standard error; an empty part: nothing at all.
#[track_caller]
fn check(output: &Output, code: i32, stdout: &str, stderr: &str) {
    let shown = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    for (text, part) in shown.iter().zip([stdout, stderr]) {
        assert!(if part.is_empty() { text.is_empty() } else { text.contains(part) }, "{part:?} in {shown:?}");
        assert!(!text.contains("panicked") && !text.contains('\x1b'), "{shown:?}");
    }
    assert_eq!(output.status.code(), Some(code), "{shown:?}");
}

#[track_caller]
fn run(args: &[&str], code: i32, stdout: &str, stderr: &str) {
    check(&getid(args).output().unwrap(), code, stdout, stderr);
}

#[test]
fn without_a_subcommand_there_is_help() {
    run(&[], 2, "", "Usage: getid <COMMAND>");
    run(&["--version"], 0, "getid 0.", "");
    run(&["frobnicate"], 2, "", "unrecognized subcommand");
    run(&["serve", "--help"], 0, "GETID_SERVER_ID=2 getid serve getid.conf", "");
    run(&["completions", "bash"], 0, "check-config", "");
}

#[test]
fn decode_says_what_an_id_means() {
    let table = "                 id  time                              unix_ms  server_id    shard   random
 144182182078841378  2017-03-06T09:37:01.966Z    1488793021966          0        0      546
 144182328657192148  2017-03-06T09:38:11.860Z    1488793091860          0        9      212
";
    run(&["decode", "144182182078841378", "144182328657192148"], 0, table, "");
    let json = r#"{"id":"144182328657192148","time":"2017-03-06T09:38:11.860Z","unix_ms":1488793091860,"server_id":0,"shard":9,"random":212}"#;
    run(&["decode", "--json", "144182328657192148"], 0, &format!("{json}\n"), "");
    // The rest is decoded all the same.
    run(&["decode", "5x", "-1", "", "144182328657192148"], 1, "2017-03-06T09:38:11.860Z", "argument 2: '-1' is no ID");
    run(&["decode", "9223372036854775808"], 1, "", "argument 1: '9223372036854775808' is no ID");
    run(&["decode", "9223372036854775807"], 0, "2154-05-14T23:35:11.103Z", "");
}

#[test]
fn decode_reads_standard_input() {
    let input = "144182182078841378\n\n 144182328657192148\tabc\r\n\u{1b}[2J\n";
    let output = with_input(getid(&["decode"]), input);
    check(&output, 1, "144182328657192148  2017-03-06T09:38:11.860Z", "line 3: 'abc' is no ID");
    check(&output, 1, "2017-03-06T09:37:01.966Z", "line 4: '?[2J' is no ID");
    check(&with_input(getid(&["decode", "1", "-"]), "2"), 0, " 2  2014-12-31", "");
    check(&with_input(getid(&["decode", "--json"]), ""), 0, "", "");
}

#[test]
fn the_layout_comes_from_flags_a_file_or_the_environment() {
    let id = "144182328657192148";
    let flags =
        ["decode", "--json", "--id-range", "0", "--shard-range", "0", "--random-range", "21", "--epoch", "0", id];
    run(
        &flags,
        0,
        r#""time":"1972-03-06T17:38:11.860Z","unix_ms":68751491860,"server_id":0,"shard":0,"random":9428"#,
        "",
    );
    run(&["decode", "--id-range", "3", id], 1, "", "id-range + shard-range + random-range is 22, must be 21");
    run(&["decode", "--epoch", "-5", id], 1, "", "--epoch -5: must be Unix ms 0 to");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("getid.conf");
    std::fs::write(&file, "id-generator server-id 0 id-range 2 shard-range 10 random-range 9\n").unwrap();
    let file = file.to_str().unwrap();
    run(&["decode", "--json", "--config", file, id], 0, r#""shard":18,"random":212"#, "");
    run(&["decode", "--config", "/nonexistent.conf", id], 1, "", "/nonexistent.conf");
    let mut command = getid(&["decode", "--json", id]);
    command.env("GETID_SHARD_RANGE", "10").env("GETID_RANDOM_RANGE", "9");
    check(&command.output().unwrap(), 0, r#""shard":18,"random":212"#, "");
}

#[test]
fn a_closed_pipe_ends_decode_quietly() {
    let mut child =
        getid(&["decode"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Ends when the child does.
    let feeder = thread::spawn(move || while stdin.write_all(b"144182328657192148\n").is_ok() {});
    let mut start = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn span_gives_the_ids_of_a_time() {
    let text = "from     2017-03-06T09:37:01.966Z
to       2017-03-06T09:38:11.860Z
lowest   144182182078840832
highest  144182328659279871
";
    run(&["span", "1488793021966", "2017-03-06T17:38:11.860+08:00"], 0, text, "");
    run(&["span", "0", "0", "--epoch", "0", "--json"], 0, r#""lowest":"0","highest":"2097151"}"#, "");
    run(&["span", "2010-01-01T00:00:00Z", "0"], 1, "", "FROM 2010-01-01T00:00:00.000Z lies before the epoch");
    run(&["span", "1488793021966", "2200-01-01T00:00:00Z"], 1, "", "TO 2200-01-01T00:00:00.000Z lies past 2154-05-14");
    run(&["span", "1488793021967", "1488793021966"], 1, "", "is later than TO");
    run(&["span", "yesterday", "today"], 1, "", "FROM: 'yesterday' is no time");
    run(&["span", "-1", "5"], 1, "", "before the epoch");
    run(&["span", "5"], 2, "", "<TO>");
}

#[test]
fn check_config_says_ok_or_what_is_wrong() {
    run(&["check-config", "config/getid.conf", "--port", "7000"], 0, "OK\nlistens on 127.0.0.1:7000", "");
    run(
        &["check-config", "config/getid.toml", "--unixsocket", "/tmp/s", "--port", "0"],
        0,
        "listens on unix socket /tmp/s",
        "",
    );
    run(&["check-config", "config/getid.conf", "--id-range", "3"], 1, "", "must be 21");
    run(&["check-config", "config/getid.conf", "--dir", "/nonexistent"], 1, "", "/nonexistent");
    // As a start: two commands cannot have one name.
    run(
        &["check-config", "config/getid.conf", "--rename-command", "PING", "GETID"],
        1,
        "",
        "a command 'GETID' already",
    );
    run(&["check-config", "/nonexistent.conf"], 1, "", "/nonexistent.conf");
    run(&["check-config"], 2, "", "FILE");
    run(&["check-config", "config/getid.conf", "--save", ""], 0, "warning: ", "");
}

/// A server that says `reply` to whatever comes first.
fn says(reply: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 256];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(reply.as_bytes()).unwrap();
        // Until the client has read it.
        let _ = stream.read(&mut request);
    });
    port
}

#[track_caller]
fn ping(reply: &'static str, args: &[&str], code: i32, stdout: &str, stderr: &str) {
    let port = says(reply).to_string();
    let timeout: &[&str] = if args.contains(&"--timeout-ms") { &[] } else { &["--timeout-ms", "5000"] };
    run(&[&["ping", "--port", &port], timeout, args].concat(), code, stdout, stderr);
}

#[test]
fn ping_wants_a_pong() {
    ping("+PONG\r\n", &[], 0, ": PONG in ", "");
    ping("+OK\r\n+PONG\r\n", &["--password", "x"], 0, ": PONG in ", "");
    ping(
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n-NOAUTH x\r\n",
        &["--password", "x"],
        1,
        "",
        "WRONGPASS",
    );
    // Alive, though it does not talk to everybody.
    ping("-NOAUTH Authentication required.\r\n", &[], 0, "alive, wants a password", "");
    ping("-NOPERM x\r\n", &[], 0, "alive", "");
    ping("-DENIED protected mode\r\n", &[], 1, "", "DENIED protected mode");
    ping("+HELLO\r\n", &[], 1, "", "'+HELLO' instead of PONG");
    ping("+PON", &["--timeout-ms", "300"], 1, "", "no answer within 300 ms");
    ping("", &["--timeout-ms", "300"], 1, "", "no answer within 300 ms");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    run(&["ping", "--port", &nobody], 1, "", "refused");
}

#[test]
fn ping_finds_the_server_of_its_environment() {
    let port = says("+PONG\r\n").to_string();
    check(&getid(&["ping"]).env("GETID_PORT", port).output().unwrap(), 0, "PONG", "");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 14];
            stream.read_exact(&mut request).unwrap();
            assert_eq!(&request, b"*1\r\n$4\r\nPING\r\n");
            stream.write_all(b"+PONG\r\n").unwrap();
        }
    });
    let output = getid(&["ping"]).env("GETID_PORT", "0").env("GETID_UNIXSOCKET", &path).output().unwrap();
    check(&output, 0, "sock: PONG", "");
    run(&["ping", "--unixsocket", path.to_str().unwrap()], 0, "sock: PONG", "");
    check(&getid(&["ping"]).env("GETID_PORT", "x").output().unwrap(), 1, "", "GETID_PORT is 'x'");
    check(&getid(&["ping"]).env("GETID_PORT", "0").output().unwrap(), 1, "", "--unixsocket");
}
