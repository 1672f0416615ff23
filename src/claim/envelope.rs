//! The envelope: what every record says, whatever it is a record of, as text an operator can read.
//!
//! ```text
//! getid state 3
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
//! `kind` and `key` say what it is a record of. [`Owner`] says who wrote it: a save reads the record it replaces, and
//! one that somebody else wrote ends the claim. `max-borrow-ms` is B, as far as IDs may have run ahead of the clock.
//!
//! The parser is strict: a file that was cut, edited or rotted is refused with what is wrong with it, because a record
//! believed wrongly gives IDs twice. First and last line keep their form in every version, so that a newer file can be
//! told from a damaged one. Version 1 knew one kind, and neither owner nor B; version 2 knew no named generators, and
//! version 3 neither marks nor claims in a cluster store. All are read, and a record is written as the oldest version
//! from 2 on that knows all it says, which an older getid reads.
//!
//! Pure. Reading and writing files is `claim`'s.

use std::fmt::{self, Write as _};

use super::mark::{Mark, PLACE_BYTES_MAX};

/// The newest version this code reads and writes.
pub const VERSION: u32 = 4;

/// The oldest version that knows named generators.
pub const VERSION_GENERATORS: u32 = 3;

/// The oldest version this code writes: of a record that says nothing that only newer ones know.
pub const VERSION_WRITTEN_MIN: u32 = 2;

/// The oldest version that is read.
pub const VERSION_MIN: u32 = 1;

/// The longest text that is looked at, in bytes: 4,096 for the lines that every record has, which are less than 800 and
/// room for longer comments, and the longest lines about named generators: 17 MB, where a record of twenty has 3 KB.
pub const TEXT_BYTES_MAX: usize =
    4096 + PLACE_BYTES_MAX + DECLARATIONS_MAX * (GENERATOR_LINE_BYTES_MAX + 1 + FORGOTTEN_LINE_BYTES_MAX + 1);

/// The most declarations of a record, and the most names that it says were forgotten.
pub const DECLARATIONS_MAX: usize = 1000;

/// The longest line about a forgotten name, in bytes.
pub const FORGOTTEN_LINE_BYTES_MAX: usize = 512;

/// The longest line with a declaration, in bytes: a name, 128 fields with names, widths and values, of 90 bytes each,
/// and what is said once.
pub const GENERATOR_LINE_BYTES_MAX: usize = 1 << 14;

/// The longest `kind` or `key`, in bytes.
pub const WORD_BYTES_MAX: usize = 64;

/// 2^40 ms, 34 years: no B is larger.
pub const BORROW_MS_MAX: u64 = 1 << 40;

/// How much of a wrong line an error quotes, in bytes.
const QUOTE_BYTES_MAX: usize = 80;

const FIRST_WORDS: &str = "getid state ";
pub(super) const LAST_WORDS: &str = "checksum crc32 ";

/// The number of a holder: one more at each start, and each time that a claim is taken again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl Term {
    /// The term after this one.
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

/// The writer of a record: one term of one process. Two that start at the same moment have the same term and two
/// nonces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its number.
    pub term: Term,
    /// A random number of that term. 0 in a record of version 1, which names no owner.
    pub nonce: u64,
}

/// A whole record, its body not looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The version of the format that its lines need, or were read in.
    pub version: u32,
    /// What it is a record of, such as `time`: lower-case letters and `-`.
    pub kind: String,
    /// Which one of that kind, such as the server-id: letters, digits and `.`, `_`, `-`.
    pub key: String,
    /// Who wrote it.
    pub owner: Owner,
    /// B, the largest of the life that wrote it, in ms; 0: not known (version 1).
    pub max_borrow_ms: u64,
    /// The kind's own lines, without their ends.
    pub body: Vec<String>,
}

/// What [`Envelope::parse`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What was in it.
    pub envelope: Envelope,
    /// The line that the body begins at, from 1.
    pub body_line: usize,
}

impl Envelope {
    /// The text that goes to disk, with `comments` behind its first line.
    pub fn to_text(&self, comments: &[String]) -> String {
        let Envelope { version, kind, key, owner, max_borrow_ms, body } = self;
        let head = [
            format!("kind {kind}"),
            format!("key {key}"),
            format!("term {}", owner.term),
            format!("nonce {:016x}", owner.nonce),
            format!("max-borrow-ms {max_borrow_ms}"),
        ];
        sealed(*version, comments, head.iter().chain(body))
    }

    /// The record in a file's bytes. Its body may be anything.
    ///
    /// # Errors
    ///
    /// [`RecordError`] for anything but the exact text of an envelope.
    pub fn parse(bytes: &[u8]) -> Result<Opened, RecordError> {
        let text = plain_text(bytes)?;
        let (version, body) = verified_body(text)?;
        if version > VERSION {
            return Err(RecordError::Newer { version });
        }
        let mut lines = body.lines().zip(1..).skip(1).peekable();
        while lines.next_if(|(line, _)| line.starts_with('#')).is_some() {}
        let mut head = Head { lines };
        let envelope = if version == 1 {
            let key = head.value("server-id", "a number", |text| number(text).map(|key| key.to_string()))?;
            let kind = "time".to_owned();
            Envelope { version, kind, key, owner: Owner::default(), max_borrow_ms: 0, body: Vec::new() }
        } else {
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
            Envelope { version, kind, key, owner: Owner { term, nonce }, max_borrow_ms, body: Vec::new() }
        };
        let body_line = head.lines.peek().map_or(body.lines().count() + 1, |(_, number)| *number);
        let body = head.lines.map(|(line, _)| line.to_owned()).collect();
        Ok(Opened { envelope: Envelope { body, ..envelope }, body_line })
    }
}

/// The largest B that a damaged record seems to say, ms: a larger one does no harm, and a smaller one may. 0: none.
///
/// `bound_ms` is the largest that is believed.
pub(crate) fn salvaged_borrow_ms(bytes: &[u8], bound_ms: u64) -> u64 {
    salvaged_number(bytes, "max-borrow-ms ", bound_ms)
}

/// The largest number up to `bound` in the lines of a damaged record that begin with `name`; 0: none.
pub(crate) fn salvaged_number(bytes: &[u8], name: &str, bound: u64) -> u64 {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    let said = bytes
        .split(|&byte| byte == b'\n')
        .filter_map(|line| number(std::str::from_utf8(line).ok()?.strip_prefix(name)?).filter(|&found| found <= bound));
    said.max().unwrap_or(0)
}

/// A text of `version` with its checksum.
pub(super) fn sealed<'a>(version: u32, comments: &[String], lines: impl Iterator<Item = &'a String>) -> String {
    let mut text = format!("{FIRST_WORDS}{version}\n");
    // Writing to a String does not fail.
    for comment in comments {
        let _ = writeln!(text, "# {comment}");
    }
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    let checksum = crc32fast::hash(text.as_bytes());
    let _ = writeln!(text, "{LAST_WORDS}{checksum:08x}");
    text
}

/// The lines that every record has.
struct Head<'a, I: Iterator<Item = (&'a str, usize)>> {
    lines: std::iter::Peekable<I>,
}

impl<'a, I: Iterator<Item = (&'a str, usize)>> Head<'a, I> {
    /// The value of the next line, which has to read `name value`.
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

/// A number as it is written: no sign, no leading zero.
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

/// `bytes` as lines of printable ASCII, each ended.
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

/// Version, and all lines but the last, once the last has been found to be their checksum.
fn verified_body(text: &str) -> Result<(u32, &str), RecordError> {
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
    // A checksum proves that a getid wrote it: from here on, a strange version is a version.
    match number(version).and_then(|version| u32::try_from(version).ok()) {
        Some(version) if version >= VERSION_MIN => Ok((version, body)),
        _ => Err(RecordError::Line { line: 1, found: quoted(first), expected: format!("{FIRST_WORDS}{VERSION}") }),
    }
}

/// The start of a line, for an error.
pub(super) fn quoted(line: &str) -> String {
    // Only printable ASCII gets here, so every byte is a boundary.
    match line.get(..QUOTE_BYTES_MAX) {
        Some(start) if start.len() < line.len() => format!("{start}..."),
        _ => line.to_owned(),
    }
}

/// What is wrong with a record's text. `Display` goes on after "cannot use the record PATH: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// More than any record has.
    #[error("it has {bytes} bytes, a record has at most {TEXT_BYTES_MAX}")]
    TooLong {
        /// How many were read; there may be more.
        bytes: usize,
    },
    /// A byte that no record has.
    #[error("byte {byte:#04x} at offset {offset} is no printable ASCII")]
    NotText {
        /// Where, from 0.
        offset: usize,
        /// Which.
        byte: u8,
    },
    /// The first line is some other file's.
    #[error("it starts with '{found}' where '{FIRST_WORDS}{VERSION}' is expected")]
    NotARecord {
        /// The first line.
        found: String,
    },
    /// The last line is not ended.
    #[error("it ends in the middle of the line '{found}'")]
    CutShort {
        /// What is there of the last line.
        found: String,
    },
    /// The last line is not a checksum: lines are missing, or there are more behind it.
    #[error("its last line is '{found}' where '{LAST_WORDS}' and 8 hex digits are expected")]
    LastLine {
        /// The last line.
        found: String,
    },
    /// The text was changed after it was written.
    #[error("its checksum is {stored:08x}, the text has {computed:08x}")]
    Checksum {
        /// In the file.
        stored: u32,
        /// Of the text in the file.
        computed: u32,
    },
    /// Intact, but of a format this code does not know.
    #[error("it is of format version {version}, this getid reads versions {VERSION_MIN} to {VERSION}")]
    Newer {
        /// The version in the file.
        version: u32,
    },
    /// Intact, but another one counts.
    #[error("{0}")]
    Marked(Mark),
    /// Intact, but a record of something else.
    #[error("it is a record of kind '{found}' where '{expected}' is expected")]
    Kind {
        /// In the file.
        found: String,
        /// What was looked for.
        expected: &'static str,
    },
    /// A line is not there.
    #[error("the line '{name} ...' is missing")]
    Missing {
        /// How the line starts.
        name: &'static str,
    },
    /// A line says something else than it should.
    #[error("line {line} is '{found}' where '{expected}' is expected")]
    Line {
        /// From 1.
        line: usize,
        /// The line.
        found: String,
        /// What it should be, or its form.
        expected: String,
    },
    /// Numbers that no server can have: a width, a server-id past id-range, a tick past the 42 bits.
    #[error("its numbers contradict each other or lie out of range")]
    Range,
}
