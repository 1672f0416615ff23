//! The log of the real binary: readers that stall, floods, and the audit lines of users.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use crate::files::with_file;
use crate::support::{self, PATIENCE, SHORT_LEAD, Server, eventually, words};

/// Returns a pipe without room for another byte.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // The flag belongs to the pipe, which the server gets, so it is set and cleared.
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a flag");
    for piece in [vec![b'\n'; 4096], vec![b'\n']] {
        while writer.write(&piece).is_ok() {}
    }
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).expect("a flag");
    (reader, writer)
}

/// Starts a server with both outputs on this pipe.
fn start_on(writer: &PipeWriter, words: &[&str]) -> (tempfile::TempDir, Server) {
    let dir = support::folder();
    let server = Server::try_start_in(dir.path(), words, |command| {
        let output = || Stdio::from(OwnedFd::from(writer.try_clone().expect("a copy")));
        command.stdout(output()).stderr(output());
    });
    (dir, server.unwrap_or_else(|log| panic!("the server did not start:\n{log}")))
}

/// Returns the lines of a pipe, which a thread reads.
fn lines_of(reader: PipeReader) -> mpsc::Receiver<String> {
    let (lines, gathered) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(reader).lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    gathered
}

#[test]
fn a_reader_that_stalls_stops_no_client_and_gets_a_count_of_dropped_lines() {
    let (reader, writer) = full_pipe();
    let (dir, server) = start_on(&writer, &words(&format!("--loglevel debug {SHORT_LEAD}")));
    drop(writer);
    let mut wire = server.connect();
    let first = wire.id();
    // Each connection logs two lines.
    eventually("a line is dropped", || {
        (0..50).for_each(|_| assert_eq!(server.connect().ask("PING"), "+PONG"));
        wire.info("log_lines_dropped") != "0"
    });
    // IDs pass the watermark that was on disk at the start, so it was saved since.
    let saves = || std::fs::read(dir.path().join("getid-0.state")).expect("a state");
    let before = saves();
    eventually("the watermark is saved", || {
        assert!(wire.id() > first);
        saves() != before
    });
    assert_eq!(wire.ask("CONFIG SET timeout 7"), "+OK");

    let lines = lines_of(reader);
    let line = loop {
        let line = lines.recv_timeout(PATIENCE).expect("the count");
        if line.contains("log lines were dropped") {
            break line;
        }
    };
    assert!(line.contains(" warning "), "{line}");
    let count = line.split(" log lines").next().and_then(|before| before.rsplit(' ').next());
    assert!(count.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count > 0), "{line}");
    // The reader continues.
    assert_eq!(wire.ask("CONFIG SET timeout 8"), "+OK");
    assert_eq!(server.stop().code(), Some(0));
    assert!(lines.iter().any(|line| line.contains("bye")), "the last line came out");
}

#[test]
fn a_server_with_an_unread_log_can_be_stopped() {
    let (_reader, writer) = full_pipe();
    let (_one, mut by_signal) = start_on(&writer, &[]);
    let (_two, mut by_command) = start_on(&writer, &[]);
    assert!(by_signal.connect().id() > 0);
    by_command.connect().send("SHUTDOWN\r\n");
    by_signal.signal(Signal::SIGTERM);
    assert_eq!([by_signal.wait().code(), by_command.wait().code()], [Some(0); 2]);
}

#[test]
fn a_flood_of_lines_is_a_few_and_a_count() {
    const COMMANDS: u64 = 20_000;
    let mut server = Server::start(&[]);
    let mut wire = server.connect();
    for _ in 0..COMMANDS / 1000 {
        wire.send("CLIENT PAUSE 0 WRITE\r\n".repeat(1000));
        (0..1000).for_each(|_| assert_eq!(wire.line(), "+OK"));
    }
    // Each command has a line or is part of a count, which needs no further command.
    eventually("all commands are logged", || {
        let lines = server.count_log("audit: CLIENT PAUSE user=default");
        let log = server.log_so_far();
        let counts = log.lines().filter_map(|line| line.split_once("audit: ")?.1.split_once(" more within a second"));
        let counted: u64 = counts.filter_map(|(count, _)| count.parse::<u64>().ok()).sum();
        assert!(lines < 500, "{lines} lines");
        lines as u64 + counted == COMMANDS
    });
}

#[test]
fn audit_lines_contain_no_secrets() {
    let dir = support::folder();
    let (config, users) = (dir.path().join("getid.conf"), dir.path().join("users.acl"));
    std::fs::write(&config, "").expect("written");
    std::fs::write(&users, "user admin on >hunter2 +@all\nuser default on nopass +@all\n").expect("written");
    let mut server =
        Server::try_start_in(dir.path(), &["--aclfile", "users.acl"], |command| with_file(command, &config))
            .unwrap_or_else(|log| panic!("{log}"));
    let mut wire = server.connect();
    let port = wire.stream().local_addr().expect("its address").port();
    for (command, reply, line) in [
        (
            "AUTH missing hunter3",
            "-WRONGPASS",
            "audit: login failed user=default client=ID addr=ADDR tried=missing count=1",
        ),
        ("AUTH admin hunter2", "+OK", "audit: logged in user=admin client=ID addr=ADDR"),
        (
            "CONFIG SET timeout 77 requirepass hunter4",
            "+OK",
            "audit: CONFIG SET user=admin client=ID addr=ADDR names=\"timeout, requirepass\"",
        ),
        ("CONFIG RESETSTAT", "+OK", "audit: CONFIG RESETSTAT user=admin client=ID addr=ADDR"),
        ("CONFIG REWRITE", "+OK", "audit: CONFIG REWRITE user=admin client=ID addr=ADDR"),
        ("ACL SETUSER bob on >hunter5", "+OK", "audit: ACL SETUSER user=admin client=ID addr=ADDR name=bob"),
        ("ACL DELUSER bob missing", ":1", "audit: ACL DELUSER user=admin client=ID addr=ADDR names=bob"),
        ("ACL SAVE", "+OK", "audit: ACL SAVE user=admin client=ID addr=ADDR"),
        ("ACL LOAD", "+OK", "audit: ACL LOAD user=admin client=ID addr=ADDR"),
        ("ACL LOG RESET", "+OK", "audit: ACL LOG RESET user=admin client=ID addr=ADDR"),
        ("CLIENT KILL ID 999999", ":0", "audit: CLIENT KILL user=admin client=ID addr=ADDR count=0"),
        (
            "CLIENT PAUSE 1 WRITE",
            "+OK",
            "audit: CLIENT PAUSE user=admin client=ID addr=ADDR what=\"requests for ids\" timeout_ms=1",
        ),
        ("MONITOR", "+OK", "audit: MONITOR user=admin client=ID addr=ADDR"),
        ("SHUTDOWN", "", "audit: SHUTDOWN user=admin client=ID addr=ADDR"),
    ] {
        let answer = if reply.is_empty() {
            wire.send(format!("{command}\r\n"));
            String::new()
        } else {
            wire.ask(command)
        };
        assert!(answer.starts_with(reply), "{command}: {answer}");
        let expected = line.replace("ADDR", &format!("127.0.0.1:{port}"));
        let (before, after) = expected.split_once("ID").expect("one");
        let found = server.wait_log(before);
        assert!(found.contains(after), "{command}: {found}");
    }
    server.wait();
    let log = server.log_so_far();
    assert!(!log.contains("hunter"), "{log}");
}

#[test]
fn the_first_login_of_a_user_has_its_line_however_it_is_sent_and_others_are_counted() {
    let dir = support::folder();
    let users = "user default on nopass +@all\nuser ann on >hunter2 +@all\nuser bob on >hunter3 +@all\n";
    std::fs::write(dir.path().join("users.acl"), users).expect("written");
    let mut server = Server::start_in(dir.path(), &["--aclfile", "users.acl"]);
    let mut wire = server.connect();
    wire.send("AUTH ann hunter2\r\nAUTH bob hunter3\r\nHELLO 2 AUTH ann hunter2 SETNAME x\r\nACL WHOAMI\r\n");
    assert_eq!((wire.line(), wire.line()), ("+OK".to_owned(), "+OK".to_owned()));
    let logins = |server: &mut Server, user: &str| server.count_log(&format!("audit: logged in user={user} "));
    eventually("each user has a line", || (logins(&mut server, "ann"), logins(&mut server, "bob")) == (1, 1));
    for _ in 0..100 {
        assert_eq!(server.connect().ask("AUTH ann hunter2"), "+OK");
    }
    // User names with characters that could forge a log line.
    let mut wire = server.connect();
    let name = b"x user=root\n2026 audit: logged in\x1b[2J";
    wire.send([format!("*3\r\n$4\r\nAUTH\r\n${}\r\n", name.len()).as_bytes(), name, b"\r\n$1\r\np\r\n"].concat());
    assert!(wire.line().starts_with("-WRONGPASS"));
    let line = server.wait_log("audit: login failed");
    let expected = r#"tried="x user=root\n2026 audit: logged in\u{1b}[2J" count=1"#;
    assert!(line.ends_with(expected), "{line}");
    server.signal(Signal::SIGTERM);
    server.wait_log("audit: logged in again user=ann addr=127.0.0.1 count=101");
    assert_eq!((logins(&mut server, "ann"), server.count_log("logged in again")), (1, 1));
}

/// The event is logged by the level before or after, whichever logs more.
#[test]
fn a_change_of_the_log_level_is_logged() {
    let mut server = Server::start(&[]);
    let mut wire = server.connect();
    for (names, words) in [("loglevel", "loglevel nothing"), ("\"hz, loglevel\"", "hz 11 loglevel notice")] {
        assert_eq!(wire.ask(&format!("CONFIG SET {words}")), "+OK");
        server.wait_log(&format!(" names={names}"));
    }
    assert_eq!(server.count_log("audit: CONFIG SET"), 2);
}

#[test]
fn the_flood_of_one_user_hides_no_other() {
    let mut server =
        Server::start(&["--requirepass", "pw", "--user", "loud on >pw -@all +config|resetstat", "--io-threads", "2"]);
    let (mut loud, mut admin) = (server.connect(), server.connect());
    assert_eq!((loud.ask("AUTH loud pw"), admin.ask("AUTH pw")), ("+OK".to_owned(), "+OK".to_owned()));
    // More commands than the log has lines for, before and behind each change.
    for name in ["timeout", "hz", "tcp-keepalive"] {
        loud.send("CONFIG RESETSTAT\r\n".repeat(500));
        assert_eq!(admin.ask(&format!("CONFIG SET {name} 20")), "+OK");
        (0..500).for_each(|_| assert_eq!(loud.line(), "+OK"));
        assert_eq!(admin.ask(&format!("CONFIG SET {name} 30")), "+OK");
        eventually(name, || server.count_log(&format!(" names={name}")) == 2);
    }
}
