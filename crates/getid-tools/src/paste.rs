//! Finds IDs in pasted text: one a line, CSV, JSON arrays, output of redis-cli and mysql.
//!
//! All of these are IDs between marks that no ID contains, so no format is detected or named. Blanks, commas, quotes,
//! brackets and bars end a word, and redis-cli's decoration of a value (`1)`, `(integer)`) is skipped. Every other word
//! is either an ID or a mistake, which is reported with its line. The [`Subject`] decides what an ID looks like. If
//! several subjects can read a word, the most plausible reading counts: see [`plausibility`].
//!
//! Input comes in pieces of any size. Only the beginning of one word is kept, so a line may have any length, such as a
//! JSON array of a million IDs.

use std::fmt;

use getid_core::Number;

use super::subject::Subject;
use getid_text::timestamp::plausibility;

/// Largest part of a word that is kept, bytes, unless IDs are longer: enough to recognize the kind of mistake.
const WORD_BYTES_MAX: usize = 64;

/// Largest part of a server's error that is kept, bytes.
const ERROR_BYTES_MAX: usize = 200;

/// Finds IDs in text that arrives in pieces.
///
/// Invariant: `word` has at most `word_bytes_max` bytes, or `ERROR_BYTES_MAX` while it is an error's text.
#[derive(Debug)]
pub struct Scanner<'a> {
    /// The subjects whose IDs are searched, at least one; mistakes name the first.
    subjects: &'a [Subject],
    now_unix_ms: i64,
    word_bytes_max: usize,
    line: u64,
    word: Vec<u8>,
    /// Whether the word was longer than its kept part.
    is_cut: bool,
    /// Whether `(error)` was read: the rest of the line is its text.
    in_error: bool,
}

/// An ID: the index of its subject, and its number.
pub type FoundId = (usize, Number);

/// A mistake in pasted text, found where an ID was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasteError {
    /// The word is not an ID of any subject.
    NoId {
        /// The beginning of the word, with control characters.
        word: String,
        /// Clause that names the subject, such as ` of tweets`; empty for the unnamed generator.
        of: String,
        /// Expected form of an ID, to follow `must be `.
        expected: String,
    },
    /// A number that was rounded by a program without 63-bit integers.
    Rounded {
        /// The word, such as `1.79e18`.
        word: String,
    },
    /// The line is an error reply, as redis-cli prints it.
    ServerError {
        /// The error's text without surrounding white space, cut after 200 bytes.
        text: String,
    },
}

impl<'a> Scanner<'a> {
    /// Returns a scanner for IDs of `subjects`, at least one. `now_unix_ms` decides between several readings of a word.
    pub fn new(subjects: &'a [Subject], now_unix_ms: i64) -> Scanner<'a> {
        let word_bytes_max = subjects.iter().map(Subject::id_bytes_max).fold(WORD_BYTES_MAX, usize::max);
        Scanner { subjects, now_unix_ms, word_bytes_max, line: 1, word: Vec::new(), is_cut: false, in_error: false }
    }

    /// Calls `found` with each word that ends in `bytes`, and the number of its line, from 1.
    ///
    /// # Errors
    ///
    /// Fails if `found` fails; the rest of `bytes` is not scanned.
    pub fn scan<E>(
        &mut self,
        bytes: &[u8],
        mut found: impl FnMut(u64, Result<FoundId, PasteError>) -> Result<(), E>,
    ) -> Result<(), E> {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_word(&mut found)?;
                self.end_error(&mut found)?;
                self.line = self.line.saturating_add(1);
            } else if self.in_error {
                self.push(byte, ERROR_BYTES_MAX);
            } else if ends_word(byte) && !self.is_mark(byte) {
                self.end_word(&mut found)?;
            } else {
                self.push(byte, self.word_bytes_max);
            }
        }
        Ok(())
    }

    /// Calls `found` with the word that the end of the input completes, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if `found` fails.
    pub fn finish<E>(
        mut self,
        mut found: impl FnMut(u64, Result<FoundId, PasteError>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.end_word(&mut found)?;
        self.end_error(&mut found)
    }

    /// Whether IDs contain this byte. With several subjects, separators are part of no ID.
    fn is_mark(&self, byte: u8) -> bool {
        matches!(self.subjects, [subject] if subject.marks().as_bytes().contains(&byte))
    }

    fn push(&mut self, byte: u8, bytes_max: usize) {
        if self.word.len() < bytes_max {
            self.word.push(byte);
        } else {
            self.is_cut = true;
        }
    }

    fn end_word<E>(
        &mut self,
        found: &mut impl FnMut(u64, Result<FoundId, PasteError>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.in_error || self.word.is_empty() {
            return Ok(());
        }
        let line = self.line;
        let (word, is_cut) = self.take_word();
        // No-break spaces of web pages, and the byte order mark that Excel writes.
        let word = word.trim_matches(|char: char| char.is_whitespace() || char == '\u{feff}');
        if word == "(error)" {
            self.in_error = true;
            return Ok(());
        }
        if is_cut {
            return found(line, Err(PasteError::no_id(format!("{word}..."), &self.subjects[0])));
        }
        match self.read(word) {
            Some(id) => found(line, Ok(id)),
            None if is_decoration(word) => Ok(()),
            None => found(line, Err(PasteError::of(word, &self.subjects[0]))),
        }
    }

    /// Returns the most plausible reading of a word; among equal ones, the first.
    fn read(&self, word: &str) -> Option<FoundId> {
        let mut readings = self.subjects.iter().enumerate().filter_map(|(at, subject)| Some((at, subject.read(word)?)));
        let first = readings.next()?;
        let Some(second) = readings.next() else { return Some(first) };
        [first, second].into_iter().chain(readings).min_by_key(|&(at, number)| {
            plausibility(self.subjects[at].unix_ms(number, self.now_unix_ms), self.now_unix_ms)
        })
    }

    fn end_error<E>(
        &mut self,
        found: &mut impl FnMut(u64, Result<FoundId, PasteError>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !std::mem::take(&mut self.in_error) {
            return Ok(());
        }
        let (text, _) = self.take_word();
        found(self.line, Err(PasteError::ServerError { text: text.trim().to_owned() }))
    }

    fn take_word(&mut self) -> (String, bool) {
        let word = String::from_utf8_lossy(&self.word).into_owned();
        self.word.clear();
        (word, std::mem::take(&mut self.is_cut))
    }
}

/// Whether a byte separates IDs in any of the formats.
fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'"' | b'\'' | b'`' | b'[' | b']' | b'|' | b'\x0b')
}

/// Whether a word is printed around IDs: `1)` and `(integer)` of redis-cli, the borders of mysql's and psql's tables,
/// and the heads of columns there and in CSV, such as `id` and `order_id`.
fn is_decoration(word: &str) -> bool {
    let ordinal = word.strip_suffix(')').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let border = word.bytes().all(|byte| matches!(byte, b'+' | b'-'));
    let head = word.eq_ignore_ascii_case("id") || word.to_ascii_lowercase().ends_with("_id");
    word.is_empty() || ordinal && word.len() > 1 || word == "(integer)" || border || head
}

impl PasteError {
    /// Returns the mistake about a word that is not an ID.
    pub fn of(word: &str, subject: &Subject) -> PasteError {
        let like_a_float = word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+'));
        let is_float = like_a_float && word.contains(['.', 'e', 'E']) && word.parse::<f64>().is_ok();
        let word = word.to_owned();
        if is_float { PasteError::Rounded { word } } else { PasteError::no_id(word, subject) }
    }

    fn no_id(word: String, subject: &Subject) -> PasteError {
        PasteError::NoId { word, of: subject.of(), expected: subject.expected() }
    }
}

impl fmt::Display for PasteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PasteError::NoId { word, of, expected } => {
                let is_not = if of.is_empty() { "is no ID" } else { "is not an ID" };
                write!(f, "'{word}' {is_not}{of}: must be {expected}")
            }
            PasteError::Rounded { word } => {
                write!(f, "'{word}' is no ID: it was rounded on its way; keep IDs as strings or 64-bit integers")
            }
            PasteError::ServerError { text } => write!(f, "no ID but an error of the server: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use getid_core::{Layout, no_dates};

    use super::*;

    /// 2026-11-26T20:00:00Z, in Unix ms.
    const NOW: i64 = 1_795_723_200_000;

    /// Returns the words of `text`, fed in pieces of `piece` bytes.
    fn words(text: &[u8], piece: usize) -> Vec<(u64, Result<Number, PasteError>)> {
        words_of(&[Subject::Unnamed(Layout::default())], text, piece)
    }

    fn words_of(subjects: &[Subject], text: &[u8], piece: usize) -> Vec<(u64, Result<Number, PasteError>)> {
        let mut words = Vec::new();
        let mut found = |line, word: Result<FoundId, PasteError>| {
            words.push((line, word.map(|(_, number)| number)));
            Ok::<(), Infallible>(())
        };
        let mut scanner = Scanner::new(subjects, NOW);
        for piece in text.chunks(piece.max(1)) {
            let Ok(()) = scanner.scan(piece, &mut found);
            assert!(scanner.word.len() <= ERROR_BYTES_MAX);
        }
        let Ok(()) = scanner.finish(&mut found);
        words
    }

    fn no_id(word: &str) -> PasteError {
        PasteError::no_id(word.to_owned(), &Subject::Unnamed(Layout::default()))
    }

    #[track_caller]
    fn check(text: &str, expected: &[u64]) {
        for piece in 1..=text.len() {
            let ids: Vec<Number> = words(text.as_bytes(), piece)
                .into_iter()
                .map(|(line, word)| word.unwrap_or_else(|mistake| panic!("line {line}: {mistake}")))
                .collect();
            let expected: Vec<_> = expected.iter().map(|&id| Number::from(id)).collect();
            assert_eq!(ids, expected, "{text:?} in pieces of {piece}");
        }
    }

    #[test]
    fn every_format_people_paste() {
        let ids = [786_829_715_689_178_551, 7];
        check("786829715689178551\n7\n", &ids);
        check("786829715689178551 7", &ids);
        check("786829715689178551,7\r\n", &ids);
        check("\"786829715689178551\",\"7\"\n", &ids);
        check("786829715689178551;7\n", &ids);
        check("[\"786829715689178551\", \"7\"]\n", &ids);
        check("[\n  786829715689178551,\n  7\n]\n", &ids);
        check("['786829715689178551', '7']", &ids);
        check("1) \"786829715689178551\"\n2) \"7\"\n", &ids);
        check("1) (integer) 786829715689178551\n10) (integer) 7\n", &ids);
        check("1) 1) \"786829715689178551\"\n   2) \"7\"\n", &ids);
        check("(integer) 786829715689178551\n(integer) 7\n", &ids);
        check("+---------+\n| 786829715689178551 |\n|    7 |\n+---------+\n", &ids);
        check("\u{feff}786829715689178551\u{a0}\n\u{a0}7", &ids);
        check("`786829715689178551`\t`7`", &ids);
        check("", &[]);
        check("\n \r\n[]\n", &[]);
        check("9223372036854775807", &[9_223_372_036_854_775_807]);
    }

    #[test]
    fn mistakes_have_their_line_and_their_word() {
        let no_id = |word: &str| Err(no_id(word));
        for piece in [1, 7, 1000] {
            assert_eq!(
                words(b"7\nan,8\n-1\n(error) BUSY, try \"later\"\n9\n", piece),
                [
                    (1, Ok(Number::new(7))),
                    (2, no_id("an")),
                    (2, Ok(Number::new(8))),
                    (3, no_id("-1")),
                    (4, Err(PasteError::ServerError { text: "BUSY, try \"later\"".to_owned() })),
                    (5, Ok(Number::new(9))),
                ]
            );
            assert_eq!(
                words(b"7.868297156891785e+17", piece),
                [(1, Err(PasteError::Rounded { word: "7.868297156891785e+17".to_owned() }))]
            );
            assert_eq!(words(b"9223372036854775808 ) 1.2.3", piece).len(), 3);
        }
        assert_eq!(words(b"(error) x", 100), [(1, Err(PasteError::ServerError { text: "x".to_owned() }))]);
    }

    #[test]
    fn a_word_without_end_is_cut() {
        let expected = format!("{}...", "9".repeat(WORD_BYTES_MAX));
        assert_eq!(words(&vec![b'9'; 100_000], 4096), [(1, Err(no_id(&expected)))]);
        let text = [b"(error) ".to_vec(), vec![b'x'; 100_000]].concat();
        assert_eq!(words(&text, 999), [(1, Err(PasteError::ServerError { text: "x".repeat(ERROR_BYTES_MAX) }))]);
    }

    #[test]
    fn texts_of_a_declaration_are_read() {
        let prefix = "orders;[1]".repeat(6);
        let declared = |text: &str| Subject::parse(text, no_dates, |_| Ok(())).unwrap();
        for (subject, text, ids) in [
            (declared("uuid4"), "1) \"919108f7-52d1-4320-9bac-f847db4148a8\"\nid", 1),
            (declared("objectid"), "['507f1f77bcf86cd799439011', \"507f191e810c19729de860ea\"]", 2),
            // Otherwise the head of a column.
            (declared("twitter format base62 pad 2 overflow grow"), "id", 1),
            (declared("serial ORD[{yyyyMMdd}]-{n:6} zone UTC"), "'ORD[20261125]-000001', ORD[20261125]-000002", 2),
            // Marks inside of the ID, and an ID that is longer than most words.
            (declared(&format!("twitter format hex prefix {prefix}")), &format!("{prefix}0000000000000001\n"), 1),
        ] {
            for piece in 1..=text.len() {
                let words = words_of(std::slice::from_ref(&subject), text.as_bytes(), piece);
                assert_eq!(words.iter().filter(|(_, word)| word.is_ok()).count(), ids, "{text}: {words:?}");
                assert_eq!(words.len(), ids);
            }
        }
        let mistake = |text: &str, word: &str| match &words_of(&[declared(text)], word.as_bytes(), 100)[..] {
            [(1, Err(mistake))] => mistake.to_string(),
            words => panic!("{words:?}"),
        };
        assert_eq!(
            mistake("js53", "9007199254740992"),
            "'9007199254740992' is not an ID of js53: must be 0 to 9007199254740991"
        );
        assert_eq!(
            mistake("generator t twitter format base58 prefix T-", "17"),
            "'17' is not an ID of t: must be 11 digits of base58 behind 'T-'"
        );
    }

    #[test]
    fn the_most_plausible_subject_has_a_word() {
        let declared = |text: &str| Subject::parse(text, no_dates, |_| Ok(())).unwrap();
        let day = "serial {yyyyMMdd}{n:6} zone UTC";
        let subjects = ["fork", "twitter", "serial ORD{n:3}", day, "sequence", "uuid4"].map(declared);
        let mut scanner = Scanner::new(&subjects, NOW);
        let mut found = Vec::new();
        let mut take = |_, word: Result<FoundId, PasteError>| {
            found.push(word.map(|(at, _)| at).map_err(|mistake| mistake.to_string()));
            Ok::<(), Infallible>(())
        };
        let text =
            b"787043147958976551 2124589679662596096 ORD042 20261125000001 919108f7-52d1-4320-9bac-f847db4148a8 x ";
        let Ok(()) = scanner.scan(text, &mut take);
        assert_eq!(found[..5], [0, 1, 2, 3, 5].map(Ok));
        assert!(found[5].as_ref().is_err_and(|mistake| mistake.starts_with("'x' is not an ID of fork")), "{found:?}");
    }

    proptest! {
        /// The words found do not depend on how the input is cut, and memory is bounded.
        #[test]
        fn any_bytes_are_read_alike_however_they_are_cut(text in prop::collection::vec(any::<u8>(), 0..400), piece in 1_usize..50) {
            prop_assert_eq!(words(&text, piece), words(&text, text.len()));
        }

        /// IDs between any of the marks are found unchanged.
        #[test]
        fn ids_survive_their_marks(
            ids in prop::collection::vec(0..=i64::MAX.cast_unsigned(), 1..20),
            mark in prop::sample::select(vec![",", "\n", "\r\n", " ", ";", "\", \"", "\n1) \"", "\n2) (integer) ", " | ", "], ["]),
        ) {
            let text = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(mark);
            let found = words(text.as_bytes(), 5).into_iter().filter_map(|(_, word)| word.ok());
            prop_assert_eq!(found.collect::<Vec<_>>(), ids.into_iter().map(Number::from).collect::<Vec<_>>());
        }
    }
}
