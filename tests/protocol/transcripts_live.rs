//! The conversations of `tests/protocol/transcripts` and the table of `tests/protocol/table`, held with the built
//! binary over a socket.
//!
//! Those prove the pure session and the pure decoder; this proves that the whole server puts the same bytes on the
//! wire. What the fake shell counts or cans there (IDs, times, client numbers, INFO, CONFIG GET) is compared by its
//! form.

use std::time::Duration;

use crate::shell::{Conversation, as_arrays, conversations};
use crate::support::{Server, talk};

/// How long nothing may follow a last reply.
const SILENCE: Duration = Duration::from_millis(10);

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
    let plain = Server::start(&["--sequence-store", "none"]);
    let password = Server::start(&["--requirepass", "secret"]);
    let mut held = 0;
    let mut failures = String::new();
    for conversation in conversations() {
        let title = conversation.title.split_once(": ").unwrap().1;
        let title = title.split(" [").next().unwrap();
        let options = &conversation.options;
        if options.refuses
            || options.renamed
            || options.generators
            || options.sequences
            || options.request_bytes_max != 1 << 30
            || ONLY_FAKE.contains(&title)
        {
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
    let (got, closed) = talk(server.port, sent, piece, (conversation.expected.len(), conversation.closes), SILENCE);
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
            let (reply, closes) =
                talk(server.port, &row.input, piece, (row.outcome.reply.len(), row.outcome.closes), SILENCE);
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
