//! The conversations of `tests/protocol/transcripts` and the table of `tests/protocol/table`, run against the built
//! binary over a socket.
//!
//! Other tests prove the pure session and the pure decoder; this proves that the whole server sends the same bytes.
//! IDs, times, client numbers, INFO and CONFIG GET, which the fake shell counts or cans, are compared by their form.

use std::time::Duration;

use crate::shell::{Conversation, Options, Shell, conversations};
use crate::support::{Server, talk};
use crate::table;

/// Time without further bytes after the last reply, if no request can be sent to find out.
const SILENCE: Duration = Duration::from_millis(10);

/// A command with a reply in every state of a session: all bytes before that reply belong to the conversation.
const LAST: &[u8] = b"RESET\r\n";
const LAST_REPLY: &[u8] = b"+RESET\r\n";

/// Conversations about the fake shell alone.
const ONLY_FAKE: [&str; 13] = [
    // Its replies are canned.
    "CLIENT ID, INFO and LIST",
    "TIME and CONFIG GET are effects",
    "HELLO goes to RESP3 and back, RESET goes back",
    "effects are answered in their places",
    "a transaction with effects is finished before more is awaited",
    // Its clock stands still.
    "now is the time of the shell",
    // The order of readings by kinds depends on the time.
    "an id is decoded",
    "an id is decoded to a map in RESP3",
    "errors of invalid ids",
    // It has an address of its own.
    "the replies of a server whose name is known",
    "an answer of SENTINEL comes in its place",
    // It does not stop.
    "SHUTDOWN is an effect",
    "renamed commands have their new names only",
];

/// An input for one of the servers.
struct Input {
    title: String,
    server: table::Server,
    /// Options for the session of such a server.
    options: Options,
    sent: Vec<u8>,
    expected: table::Outcome,
}

#[test]
fn the_server_answers_as_the_session_and_the_decoder() {
    let inputs = inputs();
    let servers = [
        // The table uses the limits of Redis.
        (
            table::Server::Plain,
            &["--sequence-store", "none", "--client-query-buffer-limit", "1gb", "--proto-max-bulk-len", "512mb"][..],
        ),
        (table::Server::Password, &["--requirepass", "secret"]),
        (table::Server::Small, &["--client-query-buffer-limit", "1mb", "--proto-max-bulk-len", "1mb"]),
    ];
    let failures = std::thread::scope(|scope| {
        let threads = servers.map(|(kind, words)| {
            let own = inputs.iter().filter(move |input| input.server == kind);
            scope.spawn(move || {
                let server = Server::start(words);
                own.enumerate().map(|(at, input)| check(&server, input, at)).collect::<String>()
            })
        });
        threads.map(|thread| thread.join().expect("a thread")).concat()
    });
    assert!(failures.is_empty(), "{failures}");
}

fn inputs() -> Vec<Input> {
    let title = |title: &str| title.split_once(": ").unwrap().1.split(" [").next().unwrap().to_owned();
    let titles: Vec<String> = conversations().iter().map(|conversation| title(&conversation.title)).collect();
    for only in ONLY_FAKE {
        assert!(titles.iter().any(|title| title == only), "no conversation is titled '{only}'");
    }
    let held = conversations().into_iter().filter(is_for_a_server).map(|conversation| Input {
        server: if conversation.options.password { table::Server::Password } else { table::Server::Plain },
        sent: conversation.sent.concat(),
        expected: table::Outcome { reply: conversation.expected, closes: conversation.closes },
        options: conversation.options,
        title: conversation.title,
    });
    let held: Vec<_> = held.collect();
    let rows = table::rows();
    assert!(held.len() > 100 && rows.len() > 60, "only {} conversations and {} rows", held.len(), rows.len());
    let rows = rows.into_iter().map(|row| Input {
        title: format!("{} {}", row.place, row.name),
        server: row.server,
        options: Options { password: row.server == table::Server::Password, ..Options::default() },
        sent: row.input,
        expected: row.outcome,
    });
    held.into_iter().chain(rows).collect()
}

fn is_for_a_server(conversation: &Conversation) -> bool {
    let title = conversation.title.split_once(": ").unwrap().1;
    let Options { refuses, renamed, generators, sequences, cluster, .. } = conversation.options;
    let needs_other_settings = refuses || renamed || generators || sequences || cluster;
    !needs_other_settings && !ONLY_FAKE.contains(&title.split(" [").next().unwrap())
}

/// Sends an input and compares the reply. Returns the difference.
fn check(server: &Server, input: &Input, at: usize) -> String {
    let Input { title, expected, .. } = input;
    let (mut sent, mut reply) = (input.sent.clone(), expected.reply.clone());
    // Tests in process try every cut; here, one short input in eight arrives in pieces.
    let piece = if at.is_multiple_of(8) && sent.len() < 4096 { 7 } else { usize::MAX };
    // Not behind a part of a request, which it would complete.
    let whole = Shell::new(&input.options).talk(&[&sent, LAST].concat(), usize::MAX);
    let ends_with_last = !expected.closes && whole.ends_with(LAST_REPLY);
    if ends_with_last {
        sent.extend_from_slice(LAST);
        reply.extend_from_slice(LAST_REPLY);
    }
    let silence = if ends_with_last { Duration::from_millis(1) } else { SILENCE };
    let (got, closed) = talk(server.port, &sent, piece, (reply.len(), expected.closes), silence);
    let (expected_lines, found) = (formed(&reply), formed(&got));
    if expected_lines == found && closed == expected.closes {
        return String::new();
    }
    format!(
        "{title}, in pieces of {piece} (closed: {closed})\n--- expected\n{}\n--- got\n{}\n\n",
        expected_lines.join("\n"),
        found.join("\n")
    )
}

/// Returns the lines, with IDs and the number of a client replaced, which differ from run to run.
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

/// Returns true if the line is a bound of IDSPAN, which is the same everywhere: the second or third of `*2 :a :b`.
fn in_span(lines: &[&str], at: usize) -> bool {
    let is_integer = |line: Option<&&str>| line.is_some_and(|line| line.starts_with(':'));
    let starts = |start: usize| {
        lines.get(start) == Some(&"*2") && is_integer(lines.get(start + 1)) && is_integer(lines.get(start + 2))
    };
    (at >= 1 && starts(at - 1)) || (at >= 2 && starts(at - 2))
}
