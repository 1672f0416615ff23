//! Finds IDs in pasted text, whose [`words`](super::words) are between marks that no ID contains.
//!
//! Redis-cli's decoration of a value (`1)`, `(integer)`) is skipped. Every other word is either an ID or a mistake,
//! which is reported with its line. The [`Subject`] decides what an ID looks like. If several subjects can read a word,
//! the most plausible reading counts: see [`plausibility`].

use std::fmt;

use super::subject::Subject;
use super::words::{Word, WordScanner, is_decoration};
use getid_text::timestamp::plausibility;

/// Reader of words as IDs of subjects.
#[derive(Debug)]
pub struct IdReader<'a> {
    /// The subjects whose IDs are searched, at least one; mistakes name the first.
    subjects: &'a [Subject],
    now_unix_ms: i64,
}

/// An ID: the index of its subject, and its number.
pub type FoundId = (usize, u128);

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

impl<'a> IdReader<'a> {
    /// Returns a reader for IDs of `subjects`, at least one. `now_unix_ms` decides between several readings of a word.
    pub fn new(subjects: &'a [Subject], now_unix_ms: i64) -> IdReader<'a> {
        IdReader { subjects, now_unix_ms }
    }

    /// Returns a scanner for words of these subjects. With several subjects, separators are part of no ID.
    pub fn words(&self) -> WordScanner {
        let id_bytes_max = self.subjects.iter().map(Subject::id_bytes_max).max().unwrap_or_default();
        WordScanner::new(id_bytes_max, if let [subject] = self.subjects { subject.marks() } else { "" })
    }

    /// Returns the ID or the mistake that a word is; `None` for a decoration.
    pub fn accept(&self, word: Word<'_>) -> Option<Result<FoundId, PasteError>> {
        match word {
            Word::Cut(word) => Some(Err(PasteError::no_id(format!("{word}..."), &self.subjects[0]))),
            Word::ServerError(text) => Some(Err(PasteError::ServerError { text: text.to_owned() })),
            Word::Whole(word) => match self.read(word) {
                Some(id) => Some(Ok(id)),
                None if is_decoration(word) => None,
                None => Some(Err(self.mistake(word))),
            },
        }
    }

    /// Returns the mistake about a word that is not an ID.
    pub fn mistake(&self, word: &str) -> PasteError {
        PasteError::of(word, &self.subjects[0])
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
}

impl PasteError {
    /// Returns the mistake about a word that is not an ID.
    fn of(word: &str, subject: &Subject) -> PasteError {
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
    use crate::words::{ERROR_BYTES_MAX, WORD_BYTES_MAX};

    /// 2026-11-26T20:00:00Z, in Unix ms.
    const NOW: i64 = 1_795_723_200_000;

    /// Returns the words of `text`, fed in pieces of `piece` bytes.
    fn words(text: &[u8], piece: usize) -> Vec<(u64, Result<u128, PasteError>)> {
        words_of(&[Subject::Unnamed(Layout::default())], text, piece)
    }

    fn words_of(subjects: &[Subject], text: &[u8], piece: usize) -> Vec<(u64, Result<u128, PasteError>)> {
        let mut words = Vec::new();
        let reader = IdReader::new(subjects, NOW);
        let mut found = |line, word: Word<'_>| {
            words.extend(reader.accept(word).map(|word| (line, word.map(|(_, number)| number))));
            Ok::<(), Infallible>(())
        };
        let mut scanner = reader.words();
        for piece in text.chunks(piece.max(1)) {
            let Ok(()) = scanner.scan(piece, &mut found);
            assert!(scanner.kept_bytes() <= ERROR_BYTES_MAX);
        }
        let Ok(()) = scanner.finish(&mut found);
        words
    }

    fn no_id(word: &str) -> PasteError {
        PasteError::no_id(word.to_owned(), &Subject::Unnamed(Layout::default()))
    }

    #[track_caller]
    fn check(text: &str, expected: &[u128]) {
        for piece in 1..=text.len() {
            let ids: Vec<u128> = words(text.as_bytes(), piece)
                .into_iter()
                .map(|(line, word)| word.unwrap_or_else(|mistake| panic!("line {line}: {mistake}")))
                .collect();
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
                    (1, Ok(7)),
                    (2, no_id("an")),
                    (2, Ok(8)),
                    (3, no_id("-1")),
                    (4, Err(PasteError::ServerError { text: "BUSY, try \"later\"".to_owned() })),
                    (5, Ok(9)),
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
        let reader = IdReader::new(&subjects, NOW);
        let mut found = Vec::new();
        let take = |_, word: Word<'_>| {
            let word = reader.accept(word).unwrap();
            found.push(word.map(|(at, _)| at).map_err(|mistake| mistake.to_string()));
            Ok::<(), Infallible>(())
        };
        let text =
            b"787043147958976551 2124589679662596096 ORD042 20261125000001 919108f7-52d1-4320-9bac-f847db4148a8 x ";
        let Ok(()) = reader.words().scan(text, take);
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
            prop_assert_eq!(found.collect::<Vec<_>>(), ids.into_iter().map(u128::from).collect::<Vec<_>>());
        }
    }
}
