//! Words of pasted text: one a line, CSV, JSON arrays, output of redis-cli and mysql.
//!
//! All of these are IDs between marks that no ID contains, so no format is detected or named. Blanks, commas, quotes,
//! brackets and bars end a word. What a word means is its reader's decision; [`is_decoration`] names the words that
//! programs print around IDs.
//!
//! Input comes in pieces of any size. Invariant: only the beginning of one word is kept, so a line may have any length,
//! such as a JSON array of a million IDs.

/// Largest part of a word that is kept, bytes, unless IDs are longer: enough to recognize the kind of mistake.
pub(crate) const WORD_BYTES_MAX: usize = 64;

/// Largest part of a server's error that is kept, bytes.
pub(crate) const ERROR_BYTES_MAX: usize = 200;

/// A word of pasted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// A whole word, not empty.
    Whole(&'a str),
    /// The beginning of a word that is longer than any ID.
    Cut(&'a str),
    /// The text of an error reply as redis-cli prints it, cut after 200 bytes.
    ServerError(&'a str),
}

/// Finds words in text that arrives in pieces.
#[derive(Debug)]
pub struct WordScanner {
    word_bytes_max: usize,
    /// Bytes that end no word, because IDs contain them.
    marks: Vec<u8>,
    line: u64,
    /// At most `word_bytes_max` bytes, or `ERROR_BYTES_MAX` while it is an error's text.
    word: Vec<u8>,
    /// Whether the word was longer than its kept part.
    is_cut: bool,
    /// Whether `(error)` was read: the rest of the line is its text.
    in_error: bool,
}

impl WordScanner {
    /// Returns a scanner for IDs of at most `id_bytes_max` bytes. The characters of `marks` end no word.
    pub fn new(id_bytes_max: usize, marks: &str) -> WordScanner {
        let (word_bytes_max, marks) = (id_bytes_max.max(WORD_BYTES_MAX), marks.as_bytes().to_vec());
        WordScanner { word_bytes_max, marks, line: 1, word: Vec::new(), is_cut: false, in_error: false }
    }

    /// Calls `found` with each word that ends in `bytes`, and the number of its line, from 1.
    ///
    /// # Errors
    ///
    /// Fails if `found` fails; the rest of `bytes` is not scanned.
    pub fn scan<E>(&mut self, bytes: &[u8], mut found: impl FnMut(u64, Word<'_>) -> Result<(), E>) -> Result<(), E> {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_word(&mut found)?;
                self.end_error(&mut found)?;
                self.line = self.line.saturating_add(1);
            } else if self.in_error {
                self.push(byte, ERROR_BYTES_MAX);
            } else if ends_word(byte) && !self.marks.contains(&byte) {
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
    pub fn finish<E>(mut self, mut found: impl FnMut(u64, Word<'_>) -> Result<(), E>) -> Result<(), E> {
        self.end_word(&mut found)?;
        self.end_error(&mut found)
    }

    fn push(&mut self, byte: u8, bytes_max: usize) {
        if self.word.len() < bytes_max {
            self.word.push(byte);
        } else {
            self.is_cut = true;
        }
    }

    fn end_word<E>(&mut self, found: &mut impl FnMut(u64, Word<'_>) -> Result<(), E>) -> Result<(), E> {
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
        match (word, is_cut) {
            (word, true) => found(line, Word::Cut(word)),
            ("", false) => Ok(()),
            (word, false) => found(line, Word::Whole(word)),
        }
    }

    fn end_error<E>(&mut self, found: &mut impl FnMut(u64, Word<'_>) -> Result<(), E>) -> Result<(), E> {
        if !std::mem::take(&mut self.in_error) {
            return Ok(());
        }
        let (text, _) = self.take_word();
        found(self.line, Word::ServerError(text.trim()))
    }

    fn take_word(&mut self) -> (String, bool) {
        let word = String::from_utf8_lossy(&self.word).into_owned();
        self.word.clear();
        (word, std::mem::take(&mut self.is_cut))
    }

    /// Returns the number of bytes that are kept.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.word.len()
    }
}

/// Whether a byte separates IDs in any of the formats.
fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'"' | b'\'' | b'`' | b'[' | b']' | b'|' | b'\x0b')
}

/// Whether a word is printed around IDs: `1)` and `(integer)` of redis-cli, the borders of mysql's and psql's tables,
/// and the heads of columns there and in CSV, such as `id` and `order_id`.
pub fn is_decoration(word: &str) -> bool {
    let ordinal = word.strip_suffix(')').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let border = word.bytes().all(|byte| matches!(byte, b'+' | b'-'));
    let head = word.eq_ignore_ascii_case("id") || word.to_ascii_lowercase().ends_with("_id");
    word.is_empty() || ordinal && word.len() > 1 || word == "(integer)" || border || head
}
