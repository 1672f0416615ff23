//! `getid ping`, `get`, `verify` and `bench` reach servers in the same ways: by TCP, TLS and Unix sockets, with and
//! without a login. They report servers that are absent, silent, endless, foreign or hostile.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::program::{self, PATIENCE, both};
use crate::support::tls::Files;
use crate::support::{Server, free_port, getid};

/// Each tool in a short run that checks that the server gives IDs or answers.
const TOOLS: [&[&str]; 5] = [
    &["ping"],
    &["ping", "--ids"],
    &["get"],
    &["verify", "-n", "500", "-c", "2", "-P", "8"],
    &["bench", "-n", "500", "-c", "3", "-P", "16"],
];

fn tool(words: &[&str], more: &[&str]) -> Command {
    // The default time-out of `ping` is too short for a test machine that may stall.
    let timeout: &[&str] = if more.contains(&"--timeout-ms") { &[] } else { &["--timeout-ms", "20000"] };
    let mut command = getid();
    command.args(words).args(more).args(timeout).env_remove("REDISCLI_AUTH").stdin(Stdio::null());
    command
}

/// A time-out that tests wait for.
const SHORT_MS: &str = "200";

fn finish(mut command: Command) -> Output {
    loop {
        let output = program::finish(&mut command, "", PATIENCE, false);
        // The machine stalled before the tool connected, so the tested error did not occur.
        if !String::from_utf8_lossy(&output.stderr).contains(&format!("no connection within {SHORT_MS} ms")) {
            return output;
        }
    }
}

#[track_caller]
fn succeeds(words: &[&str], more: &[&str]) {
    let output = finish(tool(words, more));
    let message = both(&output);
    assert_eq!(output.status.code(), Some(0), "{words:?} {more:?}: {message}");
    let expected = match words {
        ["ping"] => "PONG",
        ["ping", ..] => "READY",
        ["get", ..] => "",
        ["verify", ..] => "no violation",
        _ => "requests   500",
    };
    assert!(message.contains(expected), "{words:?} {more:?}: {message}");
}

/// Runs every tool with these words concurrently, because many wait for a time-out.
#[track_caller]
fn each_tool(more: &[&str], check: impl Fn(&[&str], Output) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for words in TOOLS {
            scope.spawn(move || check(words, finish(tool(words, more))));
        }
    });
}

/// Asserts that every tool fails with this message and its exit code for failures.
fn all_fail(more: &[&str], expected: &str) {
    each_tool(more, |words, output| check_failure(words, more, &output, expected));
}

/// Asserts that the tools fail with these messages, one case for each tool in turn: all tools share the code.
fn fail_alike(cases: &[(&[&str], &str)]) {
    for ((more, expected), words) in cases.iter().zip(TOOLS.iter().cycle()) {
        fails(words, more, expected);
    }
}

fn fails(words: &[&str], more: &[&str], expected: &str) {
    check_failure(words, more, &finish(tool(words, more)), expected);
}

fn check_failure(words: &[&str], more: &[&str], output: &Output, expected: &str) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains(expected), "{words:?} {more:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    // Errors of the command line itself are clap's.
    let by_clap = message.starts_with("error: ");
    assert!((by_clap || message.starts_with("getid: ")) && message.len() < 4000, "{message}");
    let expected_code = if words[0] == "ping" && !by_clap { 1 } else { 2 };
    assert_eq!(output.status.code(), Some(expected_code), "{words:?} {more:?}: {message}");
}

#[test]
fn every_tool_by_every_way_with_and_without_a_login() {
    for login in [false, true] {
        let files = Files::new();
        let (ca, socket, password_file) = (files.path("ca.crt"), files.path("socket"), files.path("password"));
        std::fs::write(&password_file, "s:cr t\n").unwrap();
        let password: &[&str] = if login { &["--requirepass", "s:cr t"] } else { &[] };
        let (server, tls_port) = files.start("no", &[&["--unixsocket", &socket], password].concat());
        let tls_port = tls_port.to_string();
        let port = server.port.to_string();
        let with: &[&str] = if login { &["--password-file", &password_file] } else { &[] };
        let userinfo = if login { ":s%3Acr%20t@" } else { "" };
        for words in TOOLS {
            succeeds(words, &[&["-p", &port], with].concat());
            succeeds(words, &[&["--unix", &socket], with].concat());
            succeeds(words, &[&["--host", "localhost", "--port", &tls_port, "--tls", "--cacert", &ca], with].concat());
        }
        for words in TOOLS.iter().filter(|words| words.len() == 1) {
            succeeds(words, &[&["--unixsocket", &socket], with].concat());
            succeeds(words, &[&[&*format!("127.0.0.1:{port}")], with].concat());
            succeeds(words, &[&[&*socket], with].concat());
            succeeds(words, &[&format!("redis://{userinfo}127.0.0.1:{port}")]);
            succeeds(words, &[&format!("unix://{userinfo}{socket}")]);
            succeeds(words, &[&format!("rediss://{userinfo}127.0.0.1:{tls_port}/1"), "--cacert", &ca]);
            succeeds(words, &[&format!("rediss://{userinfo}127.0.0.1:{tls_port}"), "--insecure"]);
            // The environment replaces arguments that the command line should not show.
            for (name, value) in [
                ("REDISCLI_AUTH", "s:cr t"),
                ("GETID_REQUIREPASS", "s:cr t"),
                ("GETID_REQUIREPASS_FILE", &password_file),
            ] {
                if login {
                    let mut command = tool(words, &["-p", &port]);
                    command.env(name, value);
                    assert_eq!(finish(command).status.code(), Some(0), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_client_certificate_and_a_user() {
    let files = Files::new();
    let pair = files.authority.client();
    files.write("alice.crt", &pair.cert);
    files.write("alice.key", &pair.key);
    let (ca, own, own_key) = (files.path("ca.crt"), files.path("alice.crt"), files.path("alice.key"));
    let (server, tls_port) = files.start("yes", &["--user", "alice", "on", ">secret", "+@all", "~*"]);
    let tls_port = tls_port.to_string();
    let at = ["-p", &tls_port, "--cacert", &ca, "--user", "alice", "--password", "secret"];
    for words in TOOLS {
        succeeds(words, &[&at[..], &["--cert", &own, "--key", &own_key]].concat());
    }
    // Without a certificate, the server's alert may arrive, or only a closed connection.
    let output = finish(tool(&["ping"], &at));
    let message = both(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("--cert and --key") || message.contains("closed the connection"), "{message}");

    let port = server.port.to_string();
    all_fail(&["-p", &port, "--user", "alice", "--password", "wrong"], "AUTH: WRONGPASS");
    // Wrong trust, and a wrong protocol for a port.
    fail_alike(&[
        (&["-p", &port, "--user", "alice"], "user 'alice' has no password here: --password-file FILE"),
        (&["-p", &port, "--cert", &own], "--key"),
        (&["-p", &tls_port, "--tls"], "--cacert FILE gives the authority"),
        (&["-p", &tls_port, "--cacert", &own_key], "there is no certificate in it"),
        (&["-p", &tls_port, "--cacert", "/nowhere/ca"], "/nowhere/ca: No such file"),
        (&["-p", &tls_port, "--cacert", &ca, "--sni", "example.com"], "is for another name: --sni NAME"),
        (&["-p", &tls_port, "--cacert", &ca, "--sni", "a b"], "is not a name that a certificate can have"),
        (&["-p", &tls_port, "--insecure", "--cacert", &ca], "cannot be used with"),
        (&["unix:///nowhere", "--tls"], "TLS works over TCP only"),
    ]);
    // The plain port reads the greeting of TLS as the beginning of a line.
    all_fail(&["-p", &port, "--insecure", "--timeout-ms", SHORT_MS], "does this port not speak TLS?");
    all_fail(&["-p", &tls_port], "TLS");
}

#[test]
fn absent_servers() {
    let port = free_port().to_string();
    all_fail(&["-p", &port], "Connection refused (os error 111): no server listens there. Is the server running");
    all_fail(&["no-such-host.invalid:7890"], "Is the name right?");
    fail_alike(&[
        (&["--unix", "/nowhere/s"], "is this the server's unixsocket"),
        (&["-p", "0"], "0 is not in"),
        (&["-p", "7890x"], "invalid value"),
        (&["--host", "a b"], "is no host"),
        (&["--host", "redis://a"], "is no host"),
        (&["redis://a:0"], "out of range"),
        (&["a:1", "-p", "2"], "use one of them"),
        (&["--timeout-ms", "0"], "0 is not in"),
        (&["--password-file", "/nowhere/p"], "--password-file: /nowhere/p: No such file"),
        (&["--password-file", "/dev/null"], "its first line is empty, must be the password"),
        (&["--password-file", "/dev/zero"], ""),
        (&["--nosuchflag"], "unexpected argument"),
    ]);
    fails(&["verify"], &["nonsense"], "write HOST:PORT");
    fails(&["ping"], &["nonsense"], "write HOST:PORT");
    fails(&["get"], &["non=sense"], "neither a number of IDs");
    fails(&["get"], &["0"], "neither a number of IDs");
    fails(&["get"], &["-5"], "neither a number of IDs");
    fails(&["get"], &["99999999999999999999"], "neither a number of IDs");
    fails(&["get"], &["5", "6"], "the number of IDs was given before");
    fails(&["get"], &["a:1", "b:1"], "two servers were named");
}

#[test]
fn wrong_and_missing_passwords() {
    let server = Server::start(&["--requirepass", "secret"]);
    let port = server.port.to_string();
    all_fail(&["-p", &port, "--password", "wrong"], "AUTH: WRONGPASS");
    fails(&["get"], &["-p", &port, "--password", "wrong"], "REDISCLI_AUTH");
    let output = finish(tool(&["ping"], &["-p", &port]));
    assert!(both(&output).contains("alive, requires a password"), "{}", both(&output));
    for words in [&["get"][..], &["bench"]] {
        let output = finish(tool(words, &["-p", &port]));
        assert_eq!(output.status.code(), Some(1), "{}", both(&output));
        assert!(both(&output).contains("NOAUTH"), "{}", both(&output));
    }
    fails(&["verify"], &["-p", &port], "NOAUTH Authentication required. --password-file FILE or REDISCLI_AUTH");
    let open = Server::start(&[]);
    all_fail(&["-p", &open.port.to_string(), "--password", "x"], "this server needs no password: unset REDISCLI_AUTH");
}

/// Starts a server that runs `behave` on each connection.
fn odd_server(behave: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behave = behave.clone();
            thread::spawn(move || behave(stream));
        }
    });
    port.to_string()
}

fn endlessly(piece: &'static [u8]) -> String {
    odd_server(move |mut stream| {
        // The server reads a request, then sends without end, but not at full speed.
        let _ = stream.read(&mut [0; 1024]);
        let piece = piece.repeat(1 + 8192 / piece.len());
        while stream.write_all(&piece).is_ok() {
            thread::sleep(Duration::from_millis(2));
        }
    })
}

#[test]
fn servers_that_never_answer() {
    let mute = odd_server(|mut stream| while stream.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {});
    all_fail(&["-p", &mute, "--timeout-ms", SHORT_MS], "no answer within 200 ms");
    all_fail(&["-p", &mute, "--timeout-ms", SHORT_MS, "--insecure"], "no answer within 200 ms");
    // Single bytes now and then do not count as an answer.
    let slow = odd_server(|mut stream| {
        while stream.write_all(b"+").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    all_fail(&["-p", &slow, "--timeout-ms", SHORT_MS], "no answer within 200 ms");
    let gone = odd_server(drop);
    all_fail(&["-p", &gone], "closed the connection");
}

#[test]
fn servers_that_answer_something_else() {
    for garbage in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"\x1b]0;owned\x07\x1b[2J\n",
        b"\0\0\0",
    ] {
        let port = odd_server(move |mut stream| {
            let _ = stream.write_all(garbage);
            while stream.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {}
        });
        each_tool(&["-p", &port], |words, output| {
            let message = both(&output);
            assert!(message.contains("does not speak Redis's protocol"), "{words:?}: {message}");
            assert!(!message.contains(['\x1b', '\x07']), "{message:?}");
        });
    }
    let bytes = endlessly(b"+OK\r\n");
    all_fail(&["-p", &bytes, "--timeout-ms", SHORT_MS], "");
    // The tools keep none of these replies in memory, and give up in time.
    for piece in [
        &b"*9999999999\r\n"[..],
        b"$1099511627776\r\n",
        b"aaaaaaaaaaaaaaaa",
        b"+aaaaaaaaaaaaaaa",
        b"-ERR \x1b[31m",
        b"*1\r\n",
        b":1\r\n",
        b"|1\r\n:1\r\n:1\r\n",
    ] {
        let port = endlessly(piece);
        each_tool(&["-p", &port, "--timeout-ms", SHORT_MS], |words, output| {
            let message = both(&output);
            assert_ne!(output.status.code(), Some(0), "{piece:?} {words:?}: {message}");
            assert!(
                !message.contains('\x1b') && !message.contains("panicked") && message.len() < 20_000,
                "{message:?}"
            );
        });
    }
}

#[test]
fn replies_of_a_hostile_server_cannot_control_the_terminal() {
    // The server replies PONG to PING, and otherwise an error with terminal escapes and right-to-left characters.
    let port = odd_server(|mut stream| {
        let mut request = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut request) {
            let pings = request[..n].windows(4).filter(|word| word == b"PING").count();
            // Each request is an array, and no word of these tools has an asterisk.
            let others = request[..n].split(|byte| *byte == b'*').count() - 1 - pings;
            let reply = "+PONG\r\n".repeat(pings) + &"-ERR \u{1b}[2J\u{9b}31m\u{202e}abc\u{7}\r\n".repeat(others);
            if stream.write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
    });
    for words in
        [&["get"][..], &["verify", "-n", "5", "-c", "1"], &["bench", "-n", "5", "-c", "1", "--keep-going"], &["bench"]]
    {
        let output = finish(tool(words, &["-p", &port]));
        let message = both(&output);
        assert!(message.contains(r"\u{1b}[2J\u{9b}31m\u{202e}abc\u{7}"), "{words:?}: {message:?}");
        assert!(!message.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}']), "{words:?}: {message:?}");
    }
}

#[test]
fn get_prints_so_many_ids_and_ends_quietly() {
    let mut server = Server::start(&["--shard-range", "18", "--random-range", "1"]);
    let port = server.port.to_string();
    let output = finish(tool(&["get", "2500"], &["-p", &port]));
    let ids: Vec<u64> = String::from_utf8(output.stdout).unwrap().lines().map(|id| id.parse().unwrap()).collect();
    assert!(ids.len() == 2500 && ids.is_sorted_by(|one, next| one < next));
    assert_eq!(server.connect().info("ids_issued"), "2500");
    // The reader closes the pipe early.
    let mut child = tool(&["get"], &["-p", &port, "18446744073709551615"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), both(&output)), (Some(0), String::new()));
    server.log_so_far();
}
