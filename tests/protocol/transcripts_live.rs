//! The conversations of `tests/protocol/transcripts` and the table of `tests/protocol/table`, held with the built binary
//! over a socket.
//!
//! Those prove the pure session and the pure decoder; this proves that the whole server puts the same bytes on the wire.
//! What the fake shell counts or cans there (IDs, times, client numbers, INFO, CONFIG GET) is compared by its form.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::shell::{Conversation, as_arrays, conversations};
use crate::support::Server;

/// How long nothing may follow a last reply.
const SILENCE: Duration = Duration::from_millis(10);

/// How long a reply may take: less than [`crate::support::PATIENCE`], as a failure waits for it once a row.
const PATIENCE: Duration = Duration::from_secs(5);

/// Conversations that are about what only the fake shell does.
const ONLY_FAKE: [&str; 8] = [
    // Its answers are canned.
    "CLIENT ID, INFO and LIST",
    "TIME and CONFIG GET ask the shell",
    "HELLO goes to RESP3 and back, RESET goes back",
    "effects are answered in their places",
    "a transaction with effects is finished before more is awaited",
    // Its clock stands still.
    "now is the time of the shell",
    // It does not stop.
    "SHUTDOWN asks the shell",
    "renamed commands go by their new names only",
];

#[test]
fn conversations_are_held_over_a_socket() {
    let plain = Server::start(&[]);
    let password = Server::start(&["--requirepass", "secret"]);
    let mut held = 0;
    let mut failures = String::new();
    for conversation in conversations() {
        let title = conversation.title.split_once(": ").unwrap().1;
        let title = title.split(" [").next().unwrap();
        let options = &conversation.options;
        if options.refuses || options.renamed || options.request_bytes_max != 1 << 30 || ONLY_FAKE.contains(&title) {
            continue;
        }
        let server = if options.password { &password } else { &plain };
        let mut ways = vec![(conversation.sent.concat(), usize::MAX), (conversation.sent.concat(), 7)];
        if !conversation.is_raw {
            ways.push((as_arrays(&conversation.sent), usize::MAX));
        }
        // Users that are left behind would be in the others' way.
        let has = |word: &[u8]| conversation.sent.concat().windows(word.len()).any(|bytes| bytes == word);
        let leaves_users = has(b"ACL SETUSER") && !has(b"ACL DELUSER");
        for (sent, piece) in ways {
            held += 1;
            let own =
                leaves_users.then(|| Server::start(if options.password { &["--requirepass", "secret"] } else { &[] }));
            if let Err(text) = check(own.as_ref().unwrap_or(server), &conversation, &sent, piece) {
                failures += &text;
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(held > 150, "only {held} were held");
}

fn check(server: &Server, conversation: &Conversation, sent: &[u8], piece: usize) -> Result<(), String> {
    let (got, closed) = talk(server, sent, piece, conversation.expected.len(), conversation.closes);
    let (expected, found) = (formed(&conversation.expected), formed(&got));
    if expected == found && closed == conversation.closes {
        return Ok(());
    }
    Err(format!(
        "{}, in pieces of {piece} (closed: {closed})\n--- expected\n{}\n--- got\n{}\n\n",
        conversation.title,
        expected.join("\n"),
        found.join("\n")
    ))
}

#[test]
fn odd_and_malformed_input_over_a_socket() {
    // The rows say what Redis says by its own limits.
    let plain = Server::start(&["--client-query-buffer-limit", "1gb", "--proto-max-bulk-len", "512mb"]);
    let password = Server::start(&["--requirepass", "secret"]);
    let small = Server::start(&["--client-query-buffer-limit", "1mb", "--proto-max-bulk-len", "1mb"]);
    let mut failures = Vec::new();
    let rows = crate::table::rows();
    assert!(rows.len() > 60, "only {} rows", rows.len());
    for row in rows {
        let server = match row.server {
            crate::table::Server::Plain => &plain,
            crate::table::Server::Password => &password,
            crate::table::Server::Small => &small,
        };
        let pieces: &[usize] = if row.input.len() <= 100 { &[usize::MAX, 1] } else { &[usize::MAX] };
        for &piece in pieces {
            let (reply, closes) = talk(server, &row.input, piece, row.outcome.reply.len(), row.outcome.closes);
            let found = crate::table::Outcome { reply, closes };
            if found != row.outcome {
                failures.push(format!(
                    "{} {} in pieces of {piece}\n  expected {:?}\n  got      {found:?}",
                    row.place, row.name, row.outcome
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Sends everything, and reads what is `expected` and a moment longer; says whether the server closed.
fn talk(server: &Server, sent: &[u8], piece: usize, expected: usize, closes: bool) -> (Vec<u8>, bool) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut sender = stream.try_clone().unwrap();
    let mut got = Vec::new();
    let mut has_closed = false;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for bytes in sent.chunks(piece.min(sent.len()).max(1)) {
                // It may have been closed already.
                if sender.write_all(bytes).is_err() {
                    return;
                }
                if piece <= 7 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        let mut buffer = vec![0; 1 << 16];
        has_closed = loop {
            let is_complete = got.len() >= expected && !closes;
            stream.set_read_timeout(Some(if is_complete { SILENCE } else { PATIENCE })).unwrap();
            match stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(len) => got.extend_from_slice(&buffer[..len]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break false,
                // Closed with bytes of ours unread.
                Err(_) => break true,
            }
        };
        // A sender that still waits for the server to read gives up.
        let _ = stream.shutdown(Shutdown::Both);
    });
    (got, has_closed)
}

/// Lines, with what differs from run to run replaced: IDs, and the number of a client.
fn formed(bytes: &[u8]) -> Vec<String> {
    let text = bytes.escape_ascii().to_string();
    let lines: Vec<&str> = text.split("\\r\\n").collect();
    let mut formed = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let digits = line.trim_start_matches(':');
        let is_id = digits.len() == 18 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let behind = |name: &str| at >= 1 && lines[at - 1] == name;
        formed.push(if is_id && !in_span(&lines, at) {
            line.replace(digits, "(id)")
        } else if behind("id") || (behind("ahead_ms") && line.starts_with(':')) {
            "(a number)".to_owned()
        } else {
            (*line).to_owned()
        });
    }
    formed
}

/// Whether the line is a bound of IDSPAN, which is the same everywhere: the second or third of `*2 :a :b`.
fn in_span(lines: &[&str], at: usize) -> bool {
    let is_integer = |line: Option<&&str>| line.is_some_and(|line| line.starts_with(':'));
    let starts = |start: usize| {
        lines.get(start) == Some(&"*2") && is_integer(lines.get(start + 1)) && is_integer(lines.get(start + 2))
    };
    (at >= 1 && starts(at - 1)) || (at >= 2 && starts(at - 2))
}
