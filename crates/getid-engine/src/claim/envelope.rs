//! The envelope: the lines that every kind of record has, as text that an operator can read.
//!
//! ```text
//! getid state 4
//! # Comments, which every release may word differently.
//! kind time
//! key 0
//! term 7
//! nonce 9f86d081884c7d65
//! max-borrow-ms 3000
//! ... lines of the body, as the kind has them ...
//! checksum crc32 440dd966
//! ```
//!
//! `kind` and `key` identify the record. [`Owner`] identifies its writer: a save reads the record it replaces, and a
//! record of another writer ends the claim. `max-borrow-ms` is B, the most that IDs may have run ahead of the clock.
//!
//! The parser is strict: a file that was cut, edited or rotted is refused with its first error, because a wrong record
//! gives IDs twice. This program reads and writes one version. The first and the last line keep their form if the
//! version changes, so that a file of another version differs from a damaged one.
//!
//! Pure. Reading and writing files belongs to `claim`.

use std::fmt::{self, Write as _};

use super::mark::{Mark, PLACE_BYTES_MAX};

/// Version of the format, as in the first line.
const VERSION: &str = "4";

/// Longest text that is parsed, in bytes: 17 MB, where a record with twenty generators has 4 KB. It is the sum of 4,096
/// for the lines of every record (less than 800, and longer comments), a place, and the longest lines about generators,
/// the unnamed one included.
pub const TEXT_BYTES_MAX: usize = 4096
    + PLACE_BYTES_MAX
    + DECLARATIONS_MAX * (GENERATOR_LINE_BYTES_MAX + 1 + FORGOTTEN_LINE_BYTES_MAX + 1)
    + (DECLARATIONS_MAX + 1) * (SINCE_LINE_BYTES_MAX + 1);

/// Most declarations of a record, and most forgotten names.
pub(crate) const DECLARATIONS_MAX: usize = 1000;

/// Longest line about a forgotten name, in bytes.
pub(crate) const FORGOTTEN_LINE_BYTES_MAX: usize = 512;

/// Longest line with the time of a generator's first ID, in bytes: a name of 128, and two forms of any time.
pub(crate) const SINCE_LINE_BYTES_MAX: usize = 256;

/// Longest line with a declaration, in bytes: a name, 160 fields of 70 bytes each with names, widths and values, 15
/// former formats of 100 bytes, and the options that occur once.
pub(crate) const GENERATOR_LINE_BYTES_MAX: usize = 1 << 14;

/// Longest `kind` or `key`, in bytes.
pub const WORD_BYTES_MAX: usize = 64;

/// Largest B that a record may have: 2^40 ms, 34 years.
pub const BORROW_MS_MAX: u64 = 1 << 40;

/// Most bytes of a wrong line that an error quotes.
const QUOTE_BYTES_MAX: usize = 80;

const FIRST_WORDS: &str = "getid state ";
pub(super) const LAST_WORDS: &str = "checksum crc32 ";

/// The number of a holder. It grows by one at each start, and each time that a claim is taken again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl Term {
    /// Returns the term after this one.
    #[must_use]
    pub fn next(self) -> Term {
        Term(self.0.saturating_add(1))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The writer of a record: one term of one process. Two processes that start at the same moment have the same term and
/// different nonces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Number of the term.
    pub term: Term,
    /// Random number of the term. 0 if there is no owner.
    pub nonce: u64,
}

/// A whole record, whose body is not parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Kind of the record, such as `time`: lower-case letters and `-`.
    pub kind: String,
    /// Key within the kind, such as the server-id: letters, digits and `.`, `_`, `-`.
    pub key: String,
    /// Writer of the record.
    pub owner: Owner,
    /// B, the largest value in the life that wrote the record, in ms. 0 if none.
    pub max_borrow_ms: u64,
    /// Lines of the kind, without line ends.
    pub body: Vec<String>,
}

/// An envelope that [`Envelope::parse`] read, and the position of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedEnvelope {
    /// The parsed envelope.
    pub envelope: Envelope,
    /// Line number at which the body begins, from 1.
    pub(crate) body_line: usize,
}

impl Envelope {
    /// Returns the text that goes to disk, with `comments` after its first line.
    pub fn to_text(&self, comments: &[String]) -> String {
        let Envelope { kind, key, owner, max_borrow_ms, body } = self;
        let mut text = format!("{FIRST_WORDS}{VERSION}\n");
        // Writing to a String does not fail.
        for comment in comments {
            let _ = writeln!(text, "# {comment}");
        }
        let head = [
            format!("kind {kind}"),
            format!("key {key}"),
            format!("term {}", owner.term),
            format!("nonce {:016x}", owner.nonce),
            format!("max-borrow-ms {max_borrow_ms}"),
        ];
        for line in head.iter().chain(body) {
            let _ = writeln!(text, "{line}");
        }
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "{LAST_WORDS}{checksum:08x}");
        text
    }

    /// Parses the record in a file's bytes. Its body is not checked.
    ///
    /// # Errors
    ///
    /// [`RecordError`] for anything but the exact text of an envelope.
    pub fn parse(bytes: &[u8]) -> Result<ParsedEnvelope, RecordError> {
        let text = plain_text(bytes)?;
        let body = verified_body(text)?;
        let mut lines = body.lines().zip(1..).skip(1).peekable();
        while lines.next_if(|(line, _)| line.starts_with('#')).is_some() {}
        let mut head = HeadReader { lines };
        let kind = head.value("kind", "lower-case letters", |text| {
            is_word(text, |byte| byte.is_ascii_lowercase() || byte == b'-').then(|| text.to_owned())
        })?;
        let key = head.value("key", "letters, digits and ._-", |text| {
            is_word(text, |byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)).then(|| text.to_owned())
        })?;
        let term = head.value("term", "a number", number).map(Term)?;
        let nonce = head.value("nonce", "16 hex digits", |text| hex(text, 16))?;
        let max_borrow_ms =
            head.value("max-borrow-ms", "a number of ms", |text| number(text).filter(|&ms| ms <= BORROW_MS_MAX))?;
        let body_line = head.lines.peek().map_or(body.lines().count() + 1, |(_, number)| *number);
        let body = head.lines.map(|(line, _)| line.to_owned()).collect();
        let envelope = Envelope { kind, key, owner: Owner { term, nonce }, max_borrow_ms, body };
        Ok(ParsedEnvelope { envelope, body_line })
    }
}

/// Returns the largest B that is found in a damaged record, in ms; 0 if none. A value that is too large does no harm,
/// and one that is too small may.
///
/// Values above `bound_ms` are ignored.
pub fn salvaged_borrow_ms(bytes: &[u8], bound_ms: u64) -> u64 {
    salvaged_number(bytes, "max-borrow-ms ", bound_ms)
}

/// Returns the largest number up to `bound` in the lines of a damaged record that begin with `name`; 0 if none.
pub fn salvaged_number(bytes: &[u8], name: &str, bound: u64) -> u64 {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    let numbers = bytes
        .split(|&byte| byte == b'\n')
        .filter_map(|line| number(std::str::from_utf8(line).ok()?.strip_prefix(name)?).filter(|&found| found <= bound));
    numbers.max().unwrap_or(0)
}

/// Returns the mark found in a damaged record. It is better to ask an operator about one mark too many than to start
/// with a record that was moved.
pub fn salvaged_mark(bytes: &[u8]) -> Option<Mark> {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    bytes.split(|&byte| byte == b'\n').find_map(|line| Mark::from_line(std::str::from_utf8(line).ok()?))
}

/// Reader of the lines that every record has.
struct HeadReader<'a, I: Iterator<Item = (&'a str, usize)>> {
    lines: std::iter::Peekable<I>,
}

impl<'a, I: Iterator<Item = (&'a str, usize)>> HeadReader<'a, I> {
    /// Returns the value of the next line, which has the form `name value`.
    fn value<T>(
        &mut self,
        name: &'static str,
        meaning: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, RecordError> {
        let (line, number) = self.lines.next().ok_or(RecordError::Missing { name })?;
        line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).and_then(read).ok_or_else(|| {
            RecordError::Line { line: number, found: quoted(line), expected: format!("{name} with {meaning}") }
        })
    }
}

/// Parses a number without sign or leading zero.
pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

fn hex(text: &str, digits: usize) -> Option<u64> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == digits && text.bytes().all(is_digit)).then(|| u64::from_str_radix(text, 16).ok())?
}

fn is_word(text: &str, allows: impl Fn(u8) -> bool) -> bool {
    (1..=WORD_BYTES_MAX).contains(&text.len()) && text.bytes().all(allows)
}

/// Returns `bytes` as text if they are lines of printable ASCII.
fn plain_text(bytes: &[u8]) -> Result<&str, RecordError> {
    if bytes.is_empty() {
        return Err(RecordError::Empty);
    }
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(RecordError::TooLong { bytes: bytes.len() });
    }
    let printable = |byte: u8| byte == b'\n' || (b' '..=b'~').contains(&byte);
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    match bytes.iter().position(|&byte| !printable(byte)) {
        Some(offset) => Err(RecordError::NotText { offset, byte: bytes[offset] }),
        None => Ok(text),
    }
}

/// Returns all lines but the last, which is checked as their checksum.
fn verified_body(text: &str) -> Result<&str, RecordError> {
    let first = text.lines().next().unwrap_or_default();
    let Some(version) = first.strip_prefix(FIRST_WORDS) else {
        return Err(RecordError::NotARecord { found: quoted(first) });
    };
    let Some(ended) = text.strip_suffix('\n') else {
        return Err(RecordError::CutShort { found: quoted(text.lines().last().unwrap_or_default()) });
    };
    let (body, last) = text.split_at(ended.rfind('\n').map_or(0, |at| at + 1));
    let last = last.trim_end_matches('\n');
    let stored =
        last.strip_prefix(LAST_WORDS).and_then(|digits| hex(digits, 8)).and_then(|sum| u32::try_from(sum).ok());
    let Some(stored) = stored else {
        return Err(RecordError::LastLine { found: quoted(last) });
    };
    let computed = crc32fast::hash(body.as_bytes());
    if stored != computed {
        return Err(RecordError::Checksum { stored, computed });
    }
    // A valid checksum proves that a getid wrote the file, so another version is not damage.
    if version != VERSION {
        return Err(RecordError::Version { found: quoted(version) });
    }
    Ok(body)
}

/// Returns the start of a line, for an error.
pub(super) fn quoted(line: &str) -> String {
    // Only printable ASCII gets here, so every byte is a boundary.
    match line.get(..QUOTE_BYTES_MAX) {
        Some(start) if start.len() < line.len() => format!("{start}..."),
        _ => line.to_owned(),
    }
}

/// An error in a record's text. `Display` follows "cannot use the record PATH: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file is longer than any record.
    #[error("it has {bytes} bytes, a record has at most {TEXT_BYTES_MAX}")]
    TooLong {
        /// Number of bytes that were read; the file may have more.
        bytes: usize,
    },
    /// A byte that no record contains.
    #[error("byte {byte:#04x} at offset {offset} is not printable ASCII")]
    NotText {
        /// Offset of the byte, from 0.
        offset: usize,
        /// The byte.
        byte: u8,
    },
    /// The first line is not that of a record.
    #[error("it starts with '{found}' where '{FIRST_WORDS}{VERSION}' is expected")]
    NotARecord {
        /// The first line that was found.
        found: String,
    },
    /// The last line has no line end.
    #[error("it ends in the middle of the line '{found}'")]
    CutShort {
        /// The incomplete last line.
        found: String,
    },
    /// The last line is not a checksum: lines are missing, or follow it.
    #[error("its last line is '{found}' where '{LAST_WORDS}' and 8 hex digits are expected")]
    LastLine {
        /// The last line that was found.
        found: String,
    },
    /// The text was changed after it was written.
    #[error("its checksum is {stored:08x}, the text has {computed:08x}")]
    Checksum {
        /// Checksum in the file.
        stored: u32,
        /// Checksum of the text in the file.
        computed: u32,
    },
    /// The record is intact, in another version of the format.
    #[error("it is of format version {found}, this getid reads version {VERSION}")]
    Version {
        /// Version in the file.
        found: String,
    },
    /// The record is intact, but marked: it was moved to another place.
    #[error("{0}")]
    Marked(Mark),
    /// The record is intact, but of another kind.
    #[error("it is a record of kind '{found}' where '{expected}' is expected")]
    Kind {
        /// Kind in the file.
        found: String,
        /// Kind that was expected.
        expected: &'static str,
    },
    /// A line is missing.
    #[error("the line '{name} ...' is missing")]
    Missing {
        /// Start of the missing line.
        name: &'static str,
    },
    /// A line has unexpected content.
    #[error("line {line} is '{found}' where '{expected}' is expected")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The line that was found.
        found: String,
        /// Expected line, or its form.
        expected: String,
    },
    /// Impossible values: a width, a server-id past id-range, a tick past the 42 bits.
    #[error("its numbers contradict each other or lie out of range")]
    Range,
}
