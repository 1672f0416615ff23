//! Splits a line of redis.conf into words, and quotes words for such a line.
//!
//! The rules are Redis's. Blanks separate words. `"..."` supports `\n \r \t \b \a \xHH` and a backslash before any
//! other character, and `'...'` only supports `\'`. A blank must follow a closing quote.

/// Why a line has no words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SyntaxError {
    #[error("has a NUL byte in it; is it a text file?")]
    Nul,
    #[error("is not UTF-8; save the file as UTF-8")]
    LineNotUtf8,
    #[error("the quotes don't balance: a quote is open, or text follows a closing one")]
    Quotes,
    #[error("a value is not UTF-8")]
    ValueNotUtf8,
}

/// Returns the words of a line.
pub(super) fn words_of(line: &[u8]) -> Result<Vec<String>, SyntaxError> {
    if line.contains(&0) {
        return Err(SyntaxError::Nul);
    }
    if std::str::from_utf8(line).is_err() {
        return Err(SyntaxError::LineNotUtf8);
    }
    split(line).ok_or(SyntaxError::Quotes).and_then(texts_of)
}

/// Returns the words as texts.
pub(super) fn texts_of(words: Vec<Vec<u8>>) -> Result<Vec<String>, SyntaxError> {
    words.into_iter().map(|word| String::from_utf8(word).map_err(|_| SyntaxError::ValueNotUtf8)).collect()
}

/// Splits a line into words; `None` if its quotes don't balance.
///
/// Words are bytes, because `"\xff"` is one.
pub(super) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest
            && is_blank(*first)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Some(words);
        }
        let (word, tail) = take_word(rest)?;
        words.push(word);
        rest = tail;
    }
}

/// Returns the lines of a value: a line feed separates them, and so does a `;` outside of quotes.
pub(super) fn lines_in(value: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let mut is_escaped = false;
    let parts = value.split(move |character| match (quote, character) {
        _ if std::mem::take(&mut is_escaped) => false,
        (Some(_), '\\') => {
            is_escaped = true;
            false
        }
        (_, '\n') => {
            quote = None;
            true
        }
        (None, ';') => true,
        (None, '"' | '\'') => {
            quote = Some(character);
            false
        }
        (Some(open), _) if open == character => {
            quote = None;
            false
        }
        _ => false,
    });
    parts.map(|line| line.trim_matches([' ', '\t', '\r'])).filter(|line| !line.is_empty())
}

/// Returns a word in the form that `split` reads back: bare if possible, else in double quotes.
pub fn quote(word: &[u8]) -> String {
    let bare = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'#');
    if !word.is_empty() && word.iter().all(bare) {
        return word.iter().map(|byte| char::from(*byte)).collect();
    }
    let mut text = String::from("\"");
    for chunk in word.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '"' | '\\' => text.extend(['\\', character]),
                _ if character.is_ascii_control() => push_hex(&mut text, character as u8),
                _ => text.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_hex(&mut text, *byte));
    }
    text.push('"');
    text
}

fn push_hex(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push_str("\\x");
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Returns the first word of a line without leading blanks, and the rest.
///
/// A quote may open inside a word (`a"b c"` is one word), as in Redis.
fn take_word(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut rest = line;
    loop {
        match rest {
            [] => return Some((word, rest)),
            [first, tail @ ..] if is_blank(*first) => return Some((word, tail)),
            [b'"', tail @ ..] => return take_double_quoted(word, tail),
            [b'\'', tail @ ..] => return take_single_quoted(word, tail),
            [first, tail @ ..] => {
                word.push(*first);
                rest = tail;
            }
        }
    }
}

fn take_double_quoted(mut word: Vec<u8>, mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    loop {
        match rest {
            [] => return None,
            [b'"', tail @ ..] => return closed(word, tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push((hex(*high) << 4) | hex(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = tail;
            }
            [first, tail @ ..] => {
                word.push(*first);
                rest = tail;
            }
        }
    }
}

fn take_single_quoted(mut word: Vec<u8>, mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    loop {
        match rest {
            [] => return None,
            [b'\\', b'\'', tail @ ..] => {
                word.push(b'\'');
                rest = tail;
            }
            [b'\'', tail @ ..] => return closed(word, tail),
            [first, tail @ ..] => {
                word.push(*first);
                rest = tail;
            }
        }
    }
}

/// Checks that a blank or the end follows a closing quote; otherwise the quotes don't balance.
fn closed(word: Vec<u8>, rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    rest.first().is_none_or(|next| is_blank(*next)).then_some((word, rest))
}

/// `isspace` of C.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks the words of a line. `|` separates them in the expectation; `None` means an unbalanced line.
    fn check(line: &str, expected: Option<&str>) {
        let found = split(line.as_bytes())
            .map(|words| words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join("|"));
        assert_eq!(found.as_deref(), expected, "{line:?}");
    }

    #[test]
    fn words_are_those_of_redis() {
        check("", Some(""));
        check("  port \t 7890\r", Some("port|7890"));
        check(r#"a "b c" 'd e'"#, Some("a|b c|d e"));
        check(r#"a "" ''"#, Some("a||"));
        check(r#""\n\r\t\b\a\x41\q\"\\""#, Some("\n\r\t\u{8}\u{7}Aq\"\\"));
        check(r#""\x4""#, Some("x4"));
        check(r#""\xzz""#, Some("xzz"));
        check(r"'\n\' \\ '", Some(r"\n' \\ "));
        check(r#"a"b c" d"#, Some("ab c|d"));
        check(r"a\b", Some(r"a\b"));
        check("a # b", Some("a|#|b"));
    }

    #[test]
    fn unbalanced_quotes_are_no_words() {
        for line in [r#"""#, "'", r#"a "b"#, r#"a "b"c"#, "a 'b'c", r#""a""b""#, r#""a\""#, r"'a\'"] {
            check(line, None);
        }
    }

    #[test]
    fn a_value_has_lines() {
        let check =
            |value: &str, expected: &[&str]| assert_eq!(lines_in(value).collect::<Vec<_>>(), expected, "{value}");
        check("", &[]);
        check(" ;\n;", &[]);
        check("a b; c d ;e\r\nf", &["a b", "c d", "e", "f"]);
        check(r#"a "x;y" 'z;' ;b"#, &[r#"a "x;y" 'z;'"#, "b"]);
        check(r#"a "x\";" ;b"#, &[r#"a "x\";""#, "b"]);
        // An open quote ends with its line.
        check("a \"b\nc;d", &["a \"b", "c", "d"]);
    }

    proptest! {
        #[test]
        fn quoted_words_read_back(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6)) {
            let line = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split(line.as_bytes()), Some(words));
        }

        #[test]
        fn any_bytes_split_or_do_not(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = split(&line);
        }
    }
}
