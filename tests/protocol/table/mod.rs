//! Replies of a Redis-protocol server to odd and malformed input, as a table in the `.txt` files of this folder.
//!
//! ```text
//! # a comment
//! == the subject of the case
//! server: password            (a server other than `plain`: `password` or `small`, see `Server`)
//! > *1\r\n$4\r\nPING\r\n      (the input; several lines are one input)
//! < +PONG\r\n                 (the reply; several lines are one reply, no line is silence)
//! stays                       (or `closes`)
//! redis < +OK\r\n             (the reply of Redis 7.0, if it differs on purpose)
//! redis stays                 (whether Redis closes)
//! why: a reason               (reason of the difference)
//! ```
//!
//! Escapes are those of Rust (`\r \n \t \0 \xHH \\`). A `\` before other punctuation is optional and has no effect.
//! `{3*ab}` is `ababab`, also within another `{}`.

/// One case.
#[derive(Debug)]
pub(crate) struct Row {
    /// Place of the case, `file:line`.
    pub(crate) place: String,
    /// The subject of the case.
    pub(crate) name: String,
    /// The server that gets the input.
    pub(crate) server: Server,
    /// The bytes that are sent.
    pub(crate) input: Vec<u8>,
    /// The outcome in getid.
    pub(crate) outcome: Outcome,
    /// The outcome in Redis 7.0, if it differs, and the reason.
    pub(crate) redis: Option<(Outcome, String)>,
}

/// The setup of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// With Redis's defaults.
    Plain,
    /// With `requirepass secret`.
    Password,
    /// With `client-query-buffer-limit 1mb` and `proto-max-bulk-len 1mb`.
    Small,
}

/// A server's reaction to an input.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// All bytes of the reply.
    pub(crate) reply: Vec<u8>,
    /// Whether the server closes the connection after the reply.
    pub(crate) closes: bool,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.reply.len().min(300);
        write!(f, "{} bytes \"{}\"", self.reply.len(), self.reply[..shown].escape_ascii())?;
        f.write_str(if self.closes { ", closes" } else { ", stays" })
    }
}

/// Returns all rows of all files.
pub(crate) fn rows() -> Vec<Row> {
    let files = [
        ("arrays.txt", include_str!("arrays.txt")),
        ("inline.txt", include_str!("inline.txt")),
        ("limits.txt", include_str!("limits.txt")),
    ];
    files.into_iter().flat_map(|(file, text)| parse(file, text)).collect()
}

fn parse(file: &str, text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", number + 1);
        if let Some(name) = line.strip_prefix("== ") {
            rows.push(Row {
                place,
                name: name.to_owned(),
                server: Server::Plain,
                input: Vec::new(),
                outcome: Outcome { reply: Vec::new(), closes: false },
                redis: None,
            });
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let row = rows.last_mut().unwrap_or_else(|| panic!("{place}: a line before the first ==: {line}"));
        let silence = || (Outcome { reply: Vec::new(), closes: false }, String::new());
        match line.split_once(' ').unwrap_or((line, "")) {
            ("server:", "password") => row.server = Server::Password,
            ("server:", "small") => row.server = Server::Small,
            (">", text) => row.input.extend(unescape(text, &place)),
            ("<", text) => row.outcome.reply.extend(unescape(text, &place)),
            ("stays", "") => row.outcome.closes = false,
            ("closes", "") => row.outcome.closes = true,
            ("redis", "stays") => row.redis.get_or_insert_with(silence).0.closes = false,
            ("redis", "closes") => row.redis.get_or_insert_with(silence).0.closes = true,
            ("redis", text) if text.starts_with("< ") => {
                row.redis.get_or_insert_with(silence).0.reply.extend(unescape(&text[2..], &place));
            }
            ("why:", text) => row.redis.get_or_insert_with(silence).1.push_str(text),
            _ => panic!("{place}: not a line of a case: {line}"),
        }
    }
    rows
}

fn unescape(text: &str, place: &str) -> Vec<u8> {
    let mut output = Vec::new();
    let mut repeats: Vec<(usize, usize)> = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or_else(|| panic!("{place}: \\x"));
                output.push(u8::try_from(digit(*high) * 16 + digit(*low)).unwrap());
                rest = tail;
            }
            (b'\\', [escaped, tail @ ..]) => {
                output.push(match escaped {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'0' => 0,
                    byte if byte.is_ascii_punctuation() => *byte,
                    _ => panic!("{place}: unknown escape"),
                });
                rest = tail;
            }
            (b'{', tail) => {
                let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
                assert_eq!(tail[digits], b'*', "{place}: {{number*text}}");
                let times = std::str::from_utf8(&tail[..digits]).unwrap().parse().unwrap();
                repeats.push((output.len(), times));
                rest = &tail[digits + 1..];
            }
            (b'}', _) => {
                let (start, times) = repeats.pop().unwrap_or_else(|| panic!("{place}: }} without {{"));
                let part = output.split_off(start);
                output.extend(part.repeat(times));
            }
            (byte, _) => output.push(*byte),
        }
    }
    assert!(repeats.is_empty(), "{place}: {{ without }}");
    output
}
