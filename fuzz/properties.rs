//! What must hold for any bytes whatever: one function for each reader of bytes that somebody else chose.
//!
//! Fuzzers call these with what they make up, and `tests/fuzz_corpus.rs` with all that they found worth keeping.

#![allow(dead_code, reason = "a fuzzer has one property each")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getid::acl::{User, Users, parse_file};
use getid::claim::record::{MarkedRecord, Record};
use getid::command::Vocabulary;
use getid::config::{Config, Files, Sources};
use getid::resp::Value;
use getid::session::{Beside, NamedDrawn, SequenceSettings, SequencesDrawn, Session, Settings, TURN_IDS_MAX, Turn};
use getid::text::glob::Pattern;
use getid_core::{
    Ask, Declaration, Layout, NamedGenerator, NamedGenerators, RandomCycle, Reservation, Run, Scheme, Slot, no_dates,
};

/// Limits that a few kilobytes of input can reach.
const BULK_BYTES_MAX: usize = 512;
const REQUEST_BYTES_MAX: usize = 2048;

/// The first byte says how the session is set up, the second how the input is cut; the rest is what a client sends.
///
/// However the bytes arrive, the replies are the same, every read makes progress, and memory stays in bounds.
pub(crate) fn requests(bytes: &[u8]) {
    let [setup, cut, input @ ..] = bytes else { return };
    let settings = settings(setup & 1 == 1);
    let settings = Arc::new(if setup & 2 == 2 { settings.with_generators(generators()) } else { settings });
    let whole = replies(&settings, input, usize::MAX);
    let pieces = replies(&settings, input, usize::from(*cut).max(1));
    assert_eq!(whole.escape_ascii().to_string(), pieces.escape_ascii().to_string(), "cut every {cut} bytes");
}

fn settings(needs_password: bool) -> Settings {
    let layout = Layout::default();
    let cycle = RandomCycle::new((0..1 << layout.random_bits()).collect()).expect("a permutation");
    Settings {
        vocabulary: Vocabulary::default(),
        scheme: Arc::new(Scheme::new(layout, 0, cycle).expect("server 0 fits")),
        has_server_id: true,
        generators: Arc::default(),
        counters: Arc::default(),
        id_mgetid_max: 100,
        turn_ids_max: TURN_IDS_MAX,
        id_max_wait_ms: 5000,
        sequences: Some(SequenceSettings::default()),
        databases: 16,
        users: Arc::new(Users::default().with_default_password(needs_password.then_some("p"))),
        protection: getid::acl::Protection::Commands,
        bulk_bytes_max: BULK_BYTES_MAX,
        request_bytes_max: REQUEST_BYTES_MAX,
        timing: getid::session::Timing::default(),
        is_standby: false,
    }
}

/// Generators of several kinds, with names that are short.
fn generators() -> Arc<NamedGenerators> {
    let lines =
        ["t twitter", "l redis-lua one-server 0", "u uuid7", "o objectid process 1", "f leaf format base62 pad 9"];
    let generators = lines.iter().enumerate().map(|(place, line)| {
        let words: Vec<&str> = line.split(' ').collect();
        let declaration = Declaration::parse(&words, no_dates).expect("a declaration");
        (place + 1, Arc::new(NamedGenerator::new(declaration, 0, None).expect("server 0 fits")))
    });
    Arc::new(NamedGenerators::new(generators))
}

/// All that comes back for `input` sent in pieces of `cut` bytes.
fn replies(settings: &Arc<Settings>, input: &[u8], cut: usize) -> Vec<u8> {
    let mut session = Session::new(7, Arc::clone(settings));
    let (mut turn, mut output, mut pending) = (Turn::default(), Vec::new(), Vec::new());
    let mut next = Reservation { first: Slot(0), count: 0, len: 0 };
    let (mut named, mut slots, mut noise) = (NamedDrawn::default(), [1 << 40; 6], 0);
    let (mut sequences, mut value) = (SequencesDrawn::default(), 1);
    for piece in input.chunks(cut.min(input.len()).max(1)) {
        pending.extend_from_slice(piece);
        loop {
            let used = session.read(&pending, &mut turn);
            let is_held = turn.logins_held > 0;
            session.permit_logins(turn.logins_held);
            assert!(used <= pending.len());
            pending.drain(..used);
            next.len = turn.draws.unnamed;
            let drawn = Ok(if turn.draws.unnamed == 0 { &[][..] } else { std::slice::from_ref(&next) });
            if turn.draws.named == 0 && turn.draws.sequences == 0 {
                session.write(&turn, drawn, &mut output);
            } else {
                named.begin(turn.named_draws().len());
                for (at, draw) in turn.named_draws().iter().enumerate() {
                    let slot = &mut slots[draw.generator];
                    let reservation = Reservation { first: Slot(*slot), count: 0, len: draw.ids };
                    named.part(at).expect("a part for each").reservations.push(reservation);
                    *slot += u64::from(draw.ids);
                }
                sequences.begin(turn.sequence_draws().len());
                for (draw, part) in turn.sequence_draws().iter().zip(sequences.parts_mut()) {
                    for Ask { values, times } in turn.sequence_asks(draw) {
                        part.runs.push(Run { first: value, increment: 1, values, times });
                        value += i64::from(values) * i64::from(times);
                    }
                }
                let mut noise = || {
                    noise += 1;
                    noise
                };
                let mut beside = Beside { named: &mut named, sequences: &mut sequences, noise: &mut noise };
                session.write_beside(&turn, drawn, &mut beside, &mut output);
            }
            next.first.0 += u64::from(turn.draws.unnamed);
            next.count += u64::from(turn.draws.unnamed);
            if let Some(effect) = turn.effect.take() {
                session.reply(&Value::text(format!("{effect:?}")), &mut output);
            } else {
                assert!(!turn.more || used > 0 || is_held || !turn.is_empty(), "a read that gets nowhere");
            }
            if turn.close {
                return output;
            }
            if !turn.more {
                break;
            }
        }
        assert!(pending.len() <= REQUEST_BYTES_MAX + cut.min(input.len()), "an endless request is kept");
    }
    output
}

/// A configuration file, TOML if the first byte is odd: it is taken or refused whole, and what is said about it can be
/// shown on a terminal.
pub(crate) fn config(bytes: &[u8]) {
    let [syntax, text @ ..] = bytes else { return };
    config_set(text);
    let name = if syntax & 1 == 1 { "t.toml" } else { "t.conf" };
    let sources = Sources { file: Some(PathBuf::from(name)), ..Sources::default() };
    match Config::load(&sources, &OneFile { name, text }) {
        Ok((config, _)) => {
            for (name, value) in config.get(&[everything()]) {
                assert!(!value.contains('\0'), "{name}");
            }
            rewrite(config, name, text);
        }
        Err(report) => {
            let shown = report.to_string();
            assert!(shown.chars().all(|character| character == '\n' || !character.is_control()), "{shown}");
        }
    }
}

fn everything() -> Pattern {
    Pattern::new(b"*", false).expect("it is short")
}

/// What CONFIG REWRITE makes of a file that starts a server, starts one with the same values, and is left alone by the
/// next.
fn rewrite(config: Config, name: &str, text: &[u8]) {
    let generators = config.generators.iter().skip(1).cloned().collect();
    let config = Config { hz: config.hz % 500 + 1, timeout_s: config.timeout_s / 2, generators, ..config };
    let sources = Sources { file: Some(PathBuf::from(name)), ..Sources::default() };
    let Ok(rewritten) = config.rewritten(Path::new(name), &sources, &OneFile { name, text }) else { return };
    let files = OneFile { name, text: &rewritten.text };
    let (again, _) = Config::load(&sources, &files).expect("what was written is read");
    assert_eq!(again.get(&[everything()]), config.get(&[everything()]));
    let twice = config.rewritten(Path::new(name), &sources, &files).expect("as before");
    assert_eq!(twice.text.escape_ascii().to_string(), rewritten.text.escape_ascii().to_string());
}

/// CONFIG SET with the lines of a text, name and value: refused whole in one line, or the same when it is said again.
pub(crate) fn config_set(text: &[u8]) {
    let pair = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        (line[..at].to_vec(), line.get(at + 1..).unwrap_or_default().to_vec())
    };
    let pairs: Vec<_> = text.split(|byte| *byte == b'\n').take(50).map(pair).collect();
    match Config::default().set(&pairs) {
        Ok(changed) => {
            assert_eq!(changed.config.set(&pairs).map(|changed| changed.config), Ok(changed.config));
        }
        Err(error) => assert!(error.to_string().starts_with("ERR "), "{error}"),
    }
}

/// The only file of a machine.
struct OneFile<'a> {
    name: &'a str,
    text: &'a [u8],
}

impl Files for OneFile<'_> {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        if path.as_os_str() != self.name {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(self.text.iter().copied().take(bytes_max + 1).collect())
    }

    fn matching(&self, _: &str) -> io::Result<Vec<PathBuf>> {
        // A file that includes itself, however it spells that.
        Ok(vec![PathBuf::from(self.name)])
    }
}

/// A state file. Only the exact text of a record is one; that it is sealed by the right checksum does not make it so.
pub(crate) fn state(bytes: &[u8]) {
    check_state(bytes);
    let sealed = [bytes, format!("checksum crc32 {:08x}\n", crc32fast::hash(bytes)).as_bytes()].concat();
    check_state(&sealed);
}

fn check_state(bytes: &[u8]) {
    match MarkedRecord::parse(bytes) {
        Ok(read) => {
            assert_eq!(Record::parse(bytes).is_ok(), read.mark.is_none());
            let facts = |text: &[u8]| -> Vec<u8> {
                let lines = text.split_inclusive(|byte| *byte == b'\n');
                lines
                    .filter(|line| !line.starts_with(b"#") && !line.starts_with(b"checksum "))
                    .collect::<Vec<_>>()
                    .concat()
            };
            let text = if bytes.starts_with(b"getid state 1\n") { read.record.to_text_v1() } else { read.to_text() };
            assert_eq!(facts(bytes), facts(text.as_bytes()));
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.chars().all(|character| !character.is_control()), "{shown}");
        }
    }
}

/// Each line is a rule of one user; all of it is an ACL file too.
///
/// A rule that is refused changes nothing, and what a user says of itself makes the same user: by rules, and by a file.
pub(crate) fn acl(bytes: &[u8]) {
    let rules: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let mut user = User::new("u");
    for rule in &rules {
        let before = user.describe();
        if user.apply_rule(rule).is_err() {
            assert_eq!(user.describe(), before, "{} changed something", rule.escape_ascii());
        }
    }
    // Longer ones are refused, and say so.
    let words = user.describe();
    let words: Vec<&str> = words.split(' ').collect();
    if let Ok(users) = Users::default().with_user(b"u", &words) {
        assert_eq!(users.get(b"u").map(|same| same.describe()), Some(user.describe()));
        check_file(&users);
    }
    if let Ok(users) = Users::default().with_user(b"u", &rules) {
        check_file(&users);
    }
    match parse_file("users.acl", bytes) {
        Ok(users) => check_file(&users),
        Err(faults) => {
            for fault in faults {
                assert!(fault.sentence.chars().all(|character| !character.is_control()), "{}", fault.sentence);
            }
        }
    }
}

/// What is saved is what is loaded.
fn check_file(users: &Users) {
    let saved = users.describe_all();
    match parse_file("users.acl", saved.join("\n").as_bytes()) {
        Ok(loaded) => assert_eq!(loaded.describe_all(), saved),
        Err(faults) => panic!("{saved:?}: {faults:?}"),
    }
}

/// The first byte says what the rest is: what a client sends over HTTP, cut as the second byte says; the field
/// `Authorization`; or the text of a query.
#[cfg(feature = "http")]
pub(crate) fn http(bytes: &[u8]) {
    let [what, cut, input @ ..] = bytes else { return };
    match what % 3 {
        0 => http_requests(input, usize::from(*cut).max(1)),
        1 => http_login(input),
        _ => http_query(input),
    }
}

/// However the bytes arrive, the same requests are found among them, and each head has one way to be read.
#[cfg(feature = "http")]
fn http_requests(input: &[u8], cut: usize) {
    let whole = http_found(input, input.len());
    assert_eq!(whole, http_found(input, cut), "cut every {cut} bytes: {}", input.escape_ascii());
    let mut at = 0;
    for len in &whole {
        let head = &input[at..at + len.head];
        let text = head.escape_ascii();
        assert!(head.ends_with(b"\r\n\r\n") && head.len() <= getid::http::head::HEAD_BYTES_MAX, "{text}");
        let lone = |at: usize| match head[at] {
            b'\n' => at == 0 || head[at - 1] != b'\r',
            b'\r' => head.get(at + 1) != Some(&b'\n'),
            byte => byte == 0,
        };
        assert!(!(0..head.len()).any(lone), "{text}");
        let lines: Vec<_> = head.split(|byte| *byte == b'\n').map(<[u8]>::to_ascii_lowercase).collect();
        assert!(!lines.iter().any(|line| line.starts_with(b" ") || line.starts_with(b"\t")), "{text}");
        let count = |name: &[u8]| lines.iter().filter(|line| line.starts_with(name)).count();
        assert!(count(b"content-length:") + count(b"transfer-encoding:") <= 1, "{text}");
        assert!(count(b"host:") <= 1 && count(b"authorization:") <= 1, "{text}");
        at += len.head + len.body;
    }
}

/// A request: so many bytes of head and body.
#[cfg(feature = "http")]
#[derive(Debug, PartialEq, Eq)]
struct HttpFound {
    head: usize,
    body: usize,
}

/// The requests whose bodies are there or begin, until one is refused or not whole.
#[cfg(feature = "http")]
fn http_found(input: &[u8], cut: usize) -> Vec<HttpFound> {
    use getid::http::head::{Scan, scan};
    let mut all = Vec::new();
    let mut rest = input;
    loop {
        let (mut seen, mut there) = (0, 0);
        let (len, mut body) = loop {
            there = (there + cut).min(rest.len());
            match scan(&rest[..there], seen) {
                Scan::Complete { len, body } => break (len, body),
                Scan::Bad(fault) => {
                    let (status, text) = fault.answer();
                    assert!((400..600).contains(&status) && !text.is_empty());
                    return all;
                }
                Scan::Partial if there == rest.len() => return all,
                Scan::Partial => seen = there,
            }
        };
        rest = &rest[len..];
        let mut taken = 0;
        for piece in rest.chunks(cut.max(1)) {
            match body.take(piece) {
                Ok(more) => taken += more,
                Err(_) => return all,
            }
            if body.has_ended() {
                break;
            }
        }
        let has_ended = body.has_ended();
        all.push(HttpFound { head: len, body: taken });
        if !has_ended {
            return all;
        }
        rest = &rest[taken..];
    }
}

/// What is read of a login says who and by what, however it was written.
#[cfg(feature = "http")]
fn http_login(input: &[u8]) {
    use base64::Engine as _;
    use getid::http::credentials::Credentials;
    let Ok(Credentials { user, password }) = Credentials::read(input) else { return };
    assert!(!user.is_empty() && !user.contains(':'));
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let again = Credentials::read(format!("Basic {basic}").as_bytes()).expect("it was just written");
    assert_eq!((user, password), (again.user, again.password));
}

/// What is decoded of a query is written in one way again, and means the same then.
#[cfg(feature = "http")]
fn http_query(input: &[u8]) {
    use std::fmt::Write as _;
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(decoded) = getid::http::decoded(text) else { return };
    let encoded = decoded.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02x}").expect("a String takes all");
        encoded
    });
    assert_eq!(getid::http::decoded(&encoded).as_deref(), Some(&*decoded));
}
