//! Parses replies of a server from bytes that are cut anywhere: the one reader of all tools.
//!
//! The content of a reply is passed to a [`ReplySink`] as it arrives and never kept. So a server that sends without end
//! costs time, which callers bound, and no memory. RESP2 and RESP3 are read; a tool asks for RESP2. `getid bench`
//! counts replies of servers that spend 50 ns on a request at best, so counting must take less. Its replies are all
//! alike, so the last one is the guess for the next, and each guess is verified. After a wrong guess the reply is
//! parsed line by line. No memory is allocated for a reply: only a line, or the beginning of a bulk string, that was
//! cut between two reads is kept.
//!
//! Invariant: between two scans, `skip_bytes` belong to a bulk string whose header was seen, `cut_line` is the
//! beginning of an incomplete line, and at least one of the two is empty.

use std::num::NonZeroUsize;
use std::sync::Arc;

use getid_core::Number;

use super::subject::{Subject, read_integer};

/// Longest line of a reply, bytes; no Redis sends longer ones.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Largest part of a bulk string that is passed to the sink, bytes. The longest ID is a prefix of 64 bytes with 64
/// digits. A name has at most 128 bytes, and a longer one is recognizable. The first 300 bytes of `INFO generator`
/// include the field `at_limit`.
const BULK_BYTES_SHOWN_MAX: usize = 512;

/// Largest number of distinct error texts that are kept; a server may put a changing number into each.
const ERROR_TEXTS_MAX: usize = 16;

/// Largest part of an error text that is kept, bytes: Redis's longest, about protected mode, has about 1,000.
const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// Longest header of a bulk string, bytes: `$`, a length of up to 12 digits, CRLF.
const HEADER_BYTES_MAX: usize = 16;

/// Largest number of IDs kept of one reply: the most that a tool requests at once.
pub(crate) const REPLY_IDS_MAX: usize = 100_000;

/// Finds the replies in a stream of bytes.
#[derive(Clone, Debug)]
pub struct Replies {
    /// Number of elements until the reply is complete; at least 1.
    elements_left: u64,
    /// Whether the reply is a push, which answers no request.
    push: bool,
    /// Bytes of a bulk string still to come, CRLF included.
    skip_bytes: usize,
    /// The beginning of that string, at most [`BULK_BYTES_SHOWN_MAX`]; empty for a sink without
    /// [`ReplySink::WANTS_BULKS`].
    cut_bulk: Vec<u8>,
    cut_line: Vec<u8>,
    /// Length of the last integer, with its colon and CRLF; 0 before the first.
    integer_bytes: usize,
    bulk: BulkGuess,
}

/// The header of the last bulk string, and its total length, bytes; 0 before the first.
#[derive(Clone, Debug, Default)]
struct BulkGuess {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    total_bytes: usize,
}

/// Receives the elements of replies, in their order.
pub trait ReplySink {
    /// Whether [`ReplySink::bulk`] needs the string; a sink that only counts saves the copies.
    const WANTS_BULKS: bool;

    /// A number: a `:` line without its colon and CRLF.
    fn integer(&mut self, digits: &[u8]);
    /// A bulk string, cut at `BULK_BYTES_SHOWN_MAX`. May be empty without [`ReplySink::WANTS_BULKS`].
    fn bulk(&mut self, text: &[u8]);
    /// An error: a `-` line without its dash and CRLF. For an error as a bulk string, a fixed text, before the string.
    fn error(&mut self, text: &[u8]);
    /// A list begins, and its elements follow.
    fn array(&mut self);
    /// A line of any other kind, without its CRLF.
    fn other(&mut self, line: &[u8]);
    /// The elements since the last reply were a complete reply.
    fn reply(&mut self);
    /// The elements since the last reply were a push, and no reply.
    fn push(&mut self);
}

/// Error for a stream that does not speak Redis's protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server does not speak Redis's protocol: {0:?}")]
pub struct InvalidReply(pub String);

impl InvalidReply {
    /// Whether the bytes were an alert of TLS, as a TLS port sends it.
    pub(crate) fn is_tls(&self) -> bool {
        self.0.starts_with("\u{15}\u{3}")
    }
}

impl Default for Replies {
    fn default() -> Self {
        Replies {
            elements_left: 1,
            push: false,
            skip_bytes: 0,
            cut_bulk: Vec::new(),
            cut_line: Vec::new(),
            integer_bytes: 0,
            bulk: BulkGuess::default(),
        }
    }
}

impl Replies {
    /// Returns the number of replies that end in `input`, the bytes after those of the last scan.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not of Redis's protocol, or an incomplete line is longer than 64 KiB.
    pub fn scan<S: ReplySink>(&mut self, mut input: &[u8], sink: &mut S) -> Result<u64, InvalidReply> {
        let mut replies = 0;
        while !input.is_empty() {
            if self.skip_bytes > 0 {
                let (chunk, rest) = input.split_at(self.skip_bytes.min(input.len()));
                input = rest;
                self.skip::<S>(chunk)?;
                if self.skip_bytes == 0 {
                    sink.bulk(&self.cut_bulk);
                    self.cut_bulk.clear();
                    replies += self.element(sink);
                }
                continue;
            }
            if self.cut_line.is_empty()
                && let Some(used) = self.repeated_integer(input, sink).or_else(|| self.repeated_bulk(input, sink))
            {
                input = &input[used.get()..];
                replies += self.element(sink);
                continue;
            }
            let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
                if self.cut_line.len() + input.len() > LINE_BYTES_MAX {
                    self.cut_line.extend_from_slice(&input[..input.len().min(ERROR_TEXT_BYTES_MAX)]);
                    return Err(invalid_reply(&self.cut_line));
                }
                self.cut_line.extend_from_slice(input);
                // No reply begins with these bytes, so their line need not be complete.
                if !self.cut_line.first().is_some_and(|kind| KINDS.contains(kind)) {
                    return Err(invalid_reply(&self.cut_line));
                }
                break;
            };
            let (line, rest) = input.split_at(end + 1);
            input = rest;
            if self.cut_line.is_empty() {
                replies += self.line(line, sink)?;
            } else {
                let mut whole = std::mem::take(&mut self.cut_line);
                whole.extend_from_slice(line);
                replies += self.line(&whole, sink)?;
                whole.clear();
                self.cut_line = whole;
            }
        }
        Ok(replies)
    }

    /// Consumes the next bytes of a bulk string, or of the CRLF after it.
    fn skip<S: ReplySink>(&mut self, chunk: &[u8]) -> Result<(), InvalidReply> {
        let text_left = self.skip_bytes.saturating_sub(2);
        let (text, tail) = chunk.split_at(text_left.min(chunk.len()));
        if S::WANTS_BULKS {
            let room = BULK_BYTES_SHOWN_MAX - self.cut_bulk.len().min(BULK_BYTES_SHOWN_MAX);
            self.cut_bulk.extend_from_slice(&text[..text.len().min(room)]);
        }
        let expected = if self.skip_bytes - text.len() == 1 { b"\n".as_slice() } else { b"\r\n" };
        if !tail.is_empty() && !expected.starts_with(tail) {
            return Err(invalid_reply(tail));
        }
        self.skip_bytes -= chunk.len();
        Ok(())
    }

    /// Consumes an integer of the last one's length.
    fn repeated_integer(&self, input: &[u8], sink: &mut impl ReplySink) -> Option<NonZeroUsize> {
        let [b':', digits @ .., b'\r', b'\n'] = input.get(..self.integer_bytes)? else { return None };
        // Not `all`: it stops early, so the compiler would check byte by byte.
        let digits_only = digits.iter().fold(true, |so_far, byte| so_far & byte.is_ascii_digit());
        let used = NonZeroUsize::new(self.integer_bytes).filter(|_| digits_only)?;
        sink.integer(digits);
        Some(used)
    }

    /// Consumes a bulk string of the last one's length.
    fn repeated_bulk(&self, input: &[u8], sink: &mut impl ReplySink) -> Option<NonZeroUsize> {
        let BulkGuess { header, header_bytes, total_bytes } = &self.bulk;
        let text = input.get(..*total_bytes)?.strip_prefix(&header[..*header_bytes])?.strip_suffix(b"\r\n")?;
        let used = NonZeroUsize::new(*total_bytes)?;
        sink.bulk(&text[..text.len().min(BULK_BYTES_SHOWN_MAX)]);
        Some(used)
    }

    /// Parses one line with its LF: an element, or the head of one.
    fn line(&mut self, line: &[u8], sink: &mut impl ReplySink) -> Result<u64, InvalidReply> {
        let Some(([kind], text)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first_chunk) else {
            return Err(invalid_reply(line));
        };
        match kind {
            b':' => {
                self.integer_bytes = line.len();
                sink.integer(text);
            }
            b'+' | b'_' | b'#' | b',' | b'(' => sink.other(&line[..=text.len()]),
            b'-' => sink.error(text),
            b'$' | b'=' | b'!' => {
                let Some(bytes) = length(line)? else {
                    sink.other(b"null");
                    return Ok(self.element(sink));
                };
                if *kind == b'!' {
                    sink.error(b"(an error as a bulk string)");
                }
                if *kind == b'$' && line.len() <= HEADER_BYTES_MAX {
                    self.bulk.header[..line.len()].copy_from_slice(line);
                    self.bulk.header_bytes = line.len();
                    self.bulk.total_bytes = line.len() + bytes + 2;
                }
                self.skip_bytes = bytes + 2;
                return Ok(0);
            }
            b'*' | b'~' | b'%' | b'>' | b'|' => {
                let Some(elements) = length(line)? else {
                    sink.other(b"null");
                    return Ok(self.element(sink));
                };
                let elements = elements as u64;
                sink.array();
                match kind {
                    b'%' => self.expect(2 * elements),
                    // An attribute precedes an element and is not one.
                    b'|' => {
                        self.expect(2 * elements);
                        return Ok(0);
                    }
                    b'>' => {
                        self.push |= self.elements_left == 1;
                        self.expect(elements);
                    }
                    _ => self.expect(elements),
                }
            }
            _ => return Err(invalid_reply(line)),
        }
        Ok(self.element(sink))
    }

    /// Adds announced elements. If a server announces more than a `u64` holds, the wait ends by the caller's time-out.
    fn expect(&mut self, elements: u64) {
        self.elements_left = self.elements_left.saturating_add(elements);
    }

    /// Completes an element. Returns 1 if the reply is complete too, else 0.
    fn element(&mut self, sink: &mut impl ReplySink) -> u64 {
        self.elements_left -= 1;
        if self.elements_left > 0 {
            return 0;
        }
        self.elements_left = 1;
        if std::mem::take(&mut self.push) {
            sink.push();
            return 0;
        }
        sink.reply();
        1
    }
}

/// First bytes of lines.
const KINDS: &[u8] = b":+-$*_#,(=!~%>|";

/// Parses the number in a line such as `$18` or `*100`; `None` is Redis's null.
fn length(line: &[u8]) -> Result<Option<usize>, InvalidReply> {
    let text = line[1..].trim_ascii_end();
    if text == b"-1" {
        return Ok(None);
    }
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    // Far more than a server sends, and far from any overflow.
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|&number: &usize| number <= 1 << 40);
    number.map(Some).ok_or_else(|| invalid_reply(line))
}

#[cold]
fn invalid_reply(line: &[u8]) -> InvalidReply {
    InvalidReply(text_of(line))
}

/// Returns the beginning of a server's bytes as text. It may contain control characters: escape it before it is
/// printed.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(ERROR_TEXT_BYTES_MAX)]).into_owned()
}

/// Counts of errors in replies, in total and by text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorReplies {
    /// Number of errors, including those inside EXEC's replies.
    pub count: u64,
    /// The first distinct texts and their counts. They come from the server: escape them before they are printed.
    pub texts: Vec<(String, u64)>,
}

impl ErrorReplies {
    /// Counts an error with this text.
    pub fn add(&mut self, text: &[u8]) {
        self.add_text(&text_of(text), 1);
    }

    fn add_text(&mut self, text: &str, times: u64) {
        self.count += times;
        if let Some((_, count)) = self.texts.iter_mut().find(|(known, _)| known == text) {
            *count += times;
        } else if self.texts.len() < ERROR_TEXTS_MAX {
            self.texts.push((text.to_owned(), times));
        }
    }

    /// Adds the counts and texts of `other`.
    pub fn absorb(&mut self, other: &ErrorReplies) {
        let kept: u64 = other.texts.iter().map(|(_, count)| count).sum();
        for (text, count) in &other.texts {
            self.add_text(text, *count);
        }
        self.count += other.count - kept;
    }
}

/// Counts the elements of replies; keeps only error texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyCounter {
    /// Number of integers and bulk strings, which are IDs in the replies to ID commands.
    pub values: u64,
    /// Errors, including those inside replies.
    pub errors: ErrorReplies,
}

impl ReplySink for ReplyCounter {
    const WANTS_BULKS: bool = false;

    fn integer(&mut self, _: &[u8]) {
        self.values += 1;
    }

    fn bulk(&mut self, _: &[u8]) {
        self.values += 1;
    }

    fn error(&mut self, text: &[u8]) {
        self.errors.add(text);
    }

    fn array(&mut self) {}
    fn other(&mut self, _: &[u8]) {}
    fn reply(&mut self) {}
    fn push(&mut self) {}
}

/// A reply, as far as a tool that draws IDs needs it. Texts may contain control characters: escape them before they are
/// printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The number of an ID.
    Id(Number),
    /// IDs of a list, in the list's order.
    Ids(Vec<Number>),
    /// The beginning of a string that is not recognized as an ID.
    Text(String),
    /// The beginning of the text of an error, alone or in a list.
    Error(String),
    /// The beginning of any other reply, for messages.
    Other(String),
}

/// Collects whole replies. At most `REPLY_IDS_MAX` IDs of one reply are kept.
#[derive(Debug, Default)]
pub struct IdReplyCollector {
    /// Complete replies, in the order of arrival.
    pub replies: Vec<Reply>,
    /// The subject of the IDs; `None` for the unnamed generator.
    subject: Option<Arc<Subject>>,
    ids: Vec<Number>,
    is_list: bool,
    /// The first element that is not an ID.
    unexpected: Option<Reply>,
}

impl IdReplyCollector {
    /// Returns a collector of replies with IDs of a subject.
    pub fn of(subject: Arc<Subject>) -> IdReplyCollector {
        IdReplyCollector { subject: Some(subject), ..IdReplyCollector::default() }
    }

    fn unexpected(&mut self, reply: Reply) {
        self.unexpected.get_or_insert(reply);
    }

    fn id(&mut self, id: Option<Number>, unexpected: impl FnOnce() -> Reply) {
        match id {
            Some(id) if self.ids.len() < REPLY_IDS_MAX => self.ids.push(id),
            Some(_) => self.unexpected(Reply::Other(format!("a list of more than {REPLY_IDS_MAX} ids"))),
            None => self.unexpected(unexpected()),
        }
    }
}

impl ReplySink for IdReplyCollector {
    const WANTS_BULKS: bool = true;

    fn integer(&mut self, digits: &[u8]) {
        let id = match &self.subject {
            None => parse_id(digits),
            Some(subject) => subject.is_integer().then(|| read_id(subject, digits)).flatten(),
        };
        let sign = if self.is_list { "" } else { ":" };
        self.id(id, || Reply::Other(format!("{sign}{}", text_of(digits))));
    }

    fn bulk(&mut self, text: &[u8]) {
        // IDs of MGETID are strings. A string alone is a reply to GETID if IDs are texts.
        let is_list = self.is_list;
        let id = match &self.subject {
            None => is_list.then(|| parse_id(text)).flatten(),
            Some(subject) => (is_list || !subject.is_integer()).then(|| read_id(subject, text)).flatten(),
        };
        self.id(id, || if is_list { Reply::Other(text_of(text)) } else { Reply::Text(text_of(text)) });
    }

    fn error(&mut self, text: &[u8]) {
        self.unexpected(Reply::Error(text_of(text)));
    }

    fn array(&mut self) {
        if std::mem::replace(&mut self.is_list, true) {
            self.unexpected(Reply::Other("a list in a list".to_owned()));
        }
    }

    fn other(&mut self, line: &[u8]) {
        self.unexpected(Reply::Other(text_of(line)));
    }

    fn reply(&mut self) {
        let ids = std::mem::take(&mut self.ids);
        let reply = match (self.unexpected.take(), self.is_list, ids.first()) {
            (Some(reply), ..) => reply,
            (None, false, Some(&id)) => Reply::Id(id),
            (None, ..) => Reply::Ids(ids),
        };
        self.is_list = false;
        self.replies.push(reply);
    }

    fn push(&mut self) {
        self.ids.clear();
        self.unexpected = None;
        self.is_list = false;
    }
}

/// Parses a number without a sign, as an ID of the unnamed generator.
fn parse_id(text: &[u8]) -> Option<Number> {
    let id = std::str::from_utf8(text).ok().and_then(read_integer);
    id.map(|id| id.get().into())
}

fn read_id(subject: &Subject, text: &[u8]) -> Option<Number> {
    subject.read(std::str::from_utf8(text).ok()?)
}

/// A sink that collects whole replies, and reports whether the last one is an error.
pub trait ReplyCollector: ReplySink + Default {
    /// The type of a collected reply.
    type Reply;

    /// Returns the complete replies, in the order of arrival.
    fn replies(&self) -> &[Self::Reply];
    /// Whether the last complete reply is an error; `false` without replies.
    fn ends_with_error(&self) -> bool;
    /// Returns the complete replies. Drops an incomplete one.
    fn into_replies(self) -> Vec<Self::Reply>;
}

impl ReplyCollector for IdReplyCollector {
    type Reply = Reply;

    fn replies(&self) -> &[Reply] {
        &self.replies
    }

    fn ends_with_error(&self) -> bool {
        matches!(self.replies.last(), Some(Reply::Error(_)))
    }

    fn into_replies(self) -> Vec<Reply> {
        self.replies
    }
}

/// A reply as its strings and numbers in order, with nested lists flattened; an error is the whole reply.
pub type FlatReply = Result<Vec<ReplyValue>, ErrorText>;

/// Text of a server's error reply, unescaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorText(pub String);

/// One string or number of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyValue {
    /// The text, cut at `BULK_BYTES_SHOWN_MAX`.
    Text(Vec<u8>),
    /// A null of the protocol.
    Null,
}

impl ReplyValue {
    /// Returns the text; empty for a null.
    pub fn text(&self) -> &[u8] {
        match self {
            ReplyValue::Text(text) => text,
            ReplyValue::Null => &[],
        }
    }
}

/// Collects replies as words. A reply of more than `REPLY_IDS_MAX` words is an error.
#[derive(Debug, Default)]
pub struct ValueCollector {
    replies: Vec<FlatReply>,
    current: Vec<ReplyValue>,
    error: Option<String>,
}

impl ValueCollector {
    fn add(&mut self, word: ReplyValue) {
        if self.current.len() < REPLY_IDS_MAX {
            self.current.push(word);
        } else {
            self.error.get_or_insert_with(|| format!("a reply of more than {REPLY_IDS_MAX} words"));
        }
    }
}

impl ReplyCollector for ValueCollector {
    type Reply = FlatReply;

    fn replies(&self) -> &[FlatReply] {
        &self.replies
    }

    fn ends_with_error(&self) -> bool {
        matches!(self.replies.last(), Some(Err(_)))
    }

    fn into_replies(self) -> Vec<FlatReply> {
        self.replies
    }
}

impl ReplySink for ValueCollector {
    const WANTS_BULKS: bool = true;

    fn integer(&mut self, digits: &[u8]) {
        self.add(ReplyValue::Text(digits.to_vec()));
    }

    fn bulk(&mut self, text: &[u8]) {
        self.add(ReplyValue::Text(text.to_vec()));
    }

    fn error(&mut self, text: &[u8]) {
        self.error.get_or_insert_with(|| text_of(text));
    }

    fn array(&mut self) {}

    fn other(&mut self, line: &[u8]) {
        self.add(match line {
            b"null" | b"_" => ReplyValue::Null,
            _ => ReplyValue::Text(line.strip_prefix(b"+").unwrap_or(line).to_vec()),
        });
    }

    fn reply(&mut self) {
        let words = std::mem::take(&mut self.current);
        self.replies.push(self.error.take().map_or(Ok(words), |text| Err(ErrorText(text))));
    }

    fn push(&mut self) {
        self.current.clear();
        self.error = None;
    }
}

/// Appends a request to `bytes`: an array of bulk strings, one for each word.
pub fn push_request(bytes: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    /// Checks that `input`, whole and cut at every byte, gives the expected replies and errors.
    #[track_caller]
    fn check(input: &str, replies: u64, errors: &[&str]) {
        let input = input.as_bytes();
        for cut in 0..=input.len() {
            let mut found = ReplyCounter::default();
            let mut scanner = Replies::default();
            let count =
                scanner.scan(&input[..cut], &mut found).unwrap() + scanner.scan(&input[cut..], &mut found).unwrap();
            assert_eq!(count, replies, "cut at {cut}");
            let texts: Vec<_> = found.errors.texts.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(texts, errors, "cut at {cut}");
        }
        let mut found = ReplyCounter::default();
        let mut scanner = Replies::default();
        let count: u64 = input.iter().map(|byte| scanner.scan(&[*byte], &mut found).unwrap()).sum();
        assert_eq!(count, replies, "byte by byte");
    }

    /// The words of a stream do not depend on how it is cut, and a string that was cut is recognizable.
    #[test]
    fn words_are_those_of_lists_laid_flat() {
        let long = "x".repeat(600);
        let stream = format!(
            "*2\r\n$1\r\n7\r\n*3\r\n$1\r\na\r\n$600\r\n{long}\r\n$-1\r\n+string\r\n:-5\r\n-ERR no\r\n*2\r\n:1\r\n-WRONG x\r\n>1\r\n+push\r\n_\r\n"
        );
        let text = |text: &str| ReplyValue::Text(text.as_bytes().to_vec());
        let expected = [
            Ok(vec![text("7"), text("a"), text(&long[..BULK_BYTES_SHOWN_MAX]), ReplyValue::Null]),
            Ok(vec![text("string")]),
            Ok(vec![text("-5")]),
            Err(ErrorText("ERR no".to_owned())),
            Err(ErrorText("WRONG x".to_owned())),
            Ok(vec![ReplyValue::Null]),
        ];
        for cut in 0..=stream.len() {
            let (mut replies, mut words) = (Replies::default(), ValueCollector::default());
            let (one, two) = stream.as_bytes().split_at(cut);
            replies.scan(one, &mut words).unwrap();
            replies.scan(two, &mut words).unwrap();
            assert_eq!(words.replies(), expected, "cut at {cut}");
        }
        let (mut replies, mut words) = (Replies::default(), ValueCollector::default());
        let many = REPLY_IDS_MAX + 1;
        replies.scan(format!("*{many}\r\n{}", ":1\r\n".repeat(many)).as_bytes(), &mut words).unwrap();
        assert!(words.ends_with_error() && words.into_replies().len() == 1);
    }

    #[test]
    fn integers() {
        check(":144182182078841378\r\n:144182182078841379\r\n", 2, &[]);
        check(":1\r\n:22\r\n:1\r\n:1\r\n:333\r\n", 5, &[]);
        // Two integers that have the length of the previous one together.
        check(":1234\r\n:1\r\n:2\r\n:1234\r\n", 4, &[]);
        check(":-1\r\n:-1\r\n", 2, &[]);
    }

    #[test]
    fn bulk_strings() {
        check("$3\r\nabc\r\n$3\r\nabc\r\n$0\r\n\r\n$-1\r\n$3\r\n\r\n\r\r\n", 5, &[]);
    }

    #[test]
    fn arrays() {
        check("*2\r\n$2\r\n17\r\n$2\r\n18\r\n*2\r\n$2\r\n17\r\n$2\r\n18\r\n", 2, &[]);
        check("*0\r\n*-1\r\n*1\r\n*2\r\n:1\r\n*1\r\n:2\r\n:3\r\n", 4, &[]);
    }

    #[test]
    fn a_transaction() {
        check("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:7\r\n-BUSY later\r\n", 4, &["BUSY later"]);
    }

    #[test]
    fn errors() {
        check(
            "-ERR no\r\n-ERR no\r\n-ERR yes\r\n!3\r\nERR\r\n",
            4,
            &["ERR no", "ERR yes", "(an error as a bulk string)"],
        );
    }

    #[test]
    fn resp3() {
        check("%2\r\n+a\r\n:1\r\n+b\r\n#t\r\n_\r\n,1.5\r\n(123\r\n=7\r\ntxt:abc\r\n~1\r\n:1\r\n", 6, &[]);
        check(">2\r\n+message\r\n+x\r\n:1\r\n", 1, &[]);
        check("|1\r\n+ttl\r\n:9\r\n:1\r\n", 1, &[]);
    }

    #[test]
    fn no_replies() {
        for input in ["HTTP/1.1 400 Bad Request\r\n", ":1\n", "$x\r\n", "*+1\r\n", "$99999999999999999999\r\n", "\r\n"]
        {
            assert!(Replies::default().scan(input.as_bytes(), &mut ReplyCounter::default()).is_err(), "{input:?}");
        }
        let endless = vec![b'+'; LINE_BYTES_MAX + 1];
        assert!(Replies::default().scan(&endless, &mut ReplyCounter::default()).is_err());
    }

    #[test]
    fn error_texts_are_bounded() {
        let mut all = ReplyCounter::default();
        for n in 0..100 {
            Replies::default().scan(format!("-ERR {n}\r\n").as_bytes(), &mut all).unwrap();
        }
        let all = all.errors;
        assert_eq!((all.count, all.texts.len()), (100, ERROR_TEXTS_MAX));
        let mut sum = ErrorReplies::default();
        sum.absorb(&all);
        sum.absorb(&all);
        assert_eq!((sum.count, sum.texts.len(), sum.texts[0].1), (200, ERROR_TEXTS_MAX, 2));
    }

    /// Checks the replies in `text`, cut in two at every byte.
    #[track_caller]
    fn gathered(text: &str, expected: &[Reply]) {
        for cut in 0..=text.len() {
            let (mut scanner, mut gathered) = (Replies::default(), IdReplyCollector::default());
            for part in [&text[..cut], &text[cut..]] {
                scanner.scan(part.as_bytes(), &mut gathered).unwrap();
            }
            assert_eq!(gathered.replies, expected, "cut at {cut}");
        }
    }

    #[test]
    fn replies_are_gathered_however_they_are_cut() {
        let text = |text: &str| Reply::Text(text.to_owned());
        let other = |text: &str| Reply::Other(text.to_owned());
        gathered(":5\r\n:6\r\n", &[Reply::Id(Number::new(5)), Reply::Id(Number::new(6))]);
        gathered(
            "*2\r\n$1\r\n7\r\n$2\r\n18\r\n+OK\r\n",
            &[Reply::Ids(vec![Number::new(7), Number::new(18)]), other("+OK")],
        );
        gathered("*0\r\n-BUSY x\r\n", &[Reply::Ids(vec![]), Reply::Error("BUSY x".to_owned())]);
        gathered(":-1\r\n$2\r\n15\r\n$-1\r\n", &[other(":-1"), text("15"), other("null")]);
        gathered(":9223372036854775808\r\n", &[other(":9223372036854775808")]);
        gathered("*2\r\n:1\r\n$1\r\nx\r\n", &[other("x")]);
        gathered("*2\r\n:1\r\n-ERR y\r\n:2\r\n", &[Reply::Error("ERR y".to_owned()), Reply::Id(Number::new(2))]);
        gathered("*1\r\n*1\r\n:1\r\n", &[other("a list in a list")]);
        gathered(">2\r\n+message\r\n:3\r\n:1\r\n", &[Reply::Id(Number::new(1))]);
        let long = "9".repeat(1000);
        gathered(&format!("*1\r\n$1000\r\n{long}\r\n"), &[other(&long[..BULK_BYTES_SHOWN_MAX])]);
    }

    #[test]
    fn ids_of_a_declaration_are_read_as_it_writes_them() {
        let gathered = |words: &str, input: &str| {
            let words: Vec<_> = words.split(' ').collect();
            let declaration = getid_core::Declaration::parse(&words, getid_core::no_dates).unwrap();
            let mut gathered = IdReplyCollector::of(Arc::new(Subject::Declared(Box::new(declaration))));
            Replies::default().scan(input.as_bytes(), &mut gathered).unwrap();
            gathered.replies
        };
        let uuid = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
        let texts = format!("$36\r\n{uuid}\r\n>1\r\n:1\r\n*2\r\n$36\r\n{uuid}\r\n$36\r\n{uuid}\r\n:5\r\n$1\r\n5\r\n");
        let number = Number::new(0x0017_f22e_279b_0cc3 << 62 | 0x18c4_dc0c_0c07_398f);
        assert_eq!(
            gathered("t uuid7", &texts),
            [
                Reply::Id(number),
                Reply::Ids(vec![number, number]),
                Reply::Other(":5".to_owned()),
                Reply::Text("5".to_owned())
            ]
        );
        // An integer counts as an ID, except inside a list.
        assert_eq!(
            gathered("t js53", ":5\r\n$1\r\n5\r\n*1\r\n$1\r\n5\r\n:9007199254740992\r\n"),
            [
                Reply::Id(Number::new(5)),
                Reply::Text("5".to_owned()),
                Reply::Ids(vec![Number::new(5)]),
                Reply::Other(":9007199254740992".to_owned())
            ]
        );
        let longest = format!("t layout time:60@1ms noise:68 format hex pad 64 prefix {}", "x".repeat(64));
        let id = format!("{}{:064x}", "x".repeat(64), 7);
        assert_eq!(gathered(&longest, &format!("$128\r\n{id}\r\n")), [Reply::Id(Number::new(7))]);
    }

    #[test]
    fn a_list_without_end_is_not_kept() {
        let (mut scanner, mut gathered) = (Replies::default(), IdReplyCollector::default());
        scanner.scan(b"*1000000\r\n", &mut gathered).unwrap();
        for part in 1..=1000 {
            let replies = scanner.scan(":5\r\n".repeat(1000).as_bytes(), &mut gathered).unwrap();
            assert_eq!(replies, u64::from(part == 1000));
        }
        assert_eq!(gathered.replies, [Reply::Other("a list of more than 100000 ids".to_owned())]);
        assert!(gathered.ids.capacity() <= 2 * REPLY_IDS_MAX);
    }

    #[test]
    fn a_server_that_wants_tls_is_recognized() {
        let alert = [0x15, 3, 3, 0, 2, 2, 50];
        let error = Replies::default().scan(&alert, &mut ReplyCounter::default()).unwrap_err();
        assert!(error.is_tls());
    }

    proptest! {
        /// Any bytes of a server, however they are cut, give no panic, the same outcome, and bounded memory.
        #[test]
        fn any_bytes_are_read_alike_however_they_are_cut(
            input in prop::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), prop::sample::select(KINDS.to_vec()), b'0'..=b'9', any::<u8>()],
                0..200,
            ),
            piece in 1_usize..20,
        ) {
            let read = |piece: usize| {
                let (mut scanner, mut gathered) = (Replies::default(), IdReplyCollector::default());
                let mut whole = 0;
                for part in input.chunks(piece) {
                    match scanner.scan(part, &mut gathered) {
                        Ok(replies) => whole += replies,
                        Err(_) => return (gathered.replies, None),
                    }
                }
                (gathered.replies, Some(whole))
            };
            let (one, other) = (read(piece), read(200));
            prop_assert_eq!(one, other);
        }
    }
}
