//! Free texts (names, addresses) as one word of a record.
//!
//! Blanks, `%` and bytes outside printable ASCII are written as `%` and two hex digits. An empty text is `-`, so the
//! text `-` is written as `%2D`.

use getid_text::percent::{decode, encode_word};

/// Longest text that becomes a word, in bytes; a longer one is cut.
pub(super) const WORD_TEXT_BYTES_MAX: usize = 512;

/// Returns `text` as a word, cut at [`WORD_TEXT_BYTES_MAX`].
pub(super) fn word(text: &str) -> String {
    let text = cut(text);
    match text {
        "" => "-".to_owned(),
        "-" => "%2D".to_owned(),
        _ => encode_word(text.as_bytes()),
    }
}

/// Returns the part of a text that fits into a word.
pub(super) fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(WORD_TEXT_BYTES_MAX)).rev().find(|&at| text.is_char_boundary(at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Returns the text of a word, or `None` if [`word`] does not write such a word.
pub(super) fn text_of(found: &str) -> Option<String> {
    let text = if found == "-" { String::new() } else { String::from_utf8(decode(found.as_bytes())?.into()).ok()? };
    (word(&text) == found).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_have_no_blanks_and_lose_nothing() {
        for (text, written) in [
            ("host-a", "host-a"),
            ("", "-"),
            ("-", "%2D"),
            ("a b%", "a%20b%25"),
            ("ü\n", "%C3%BC%0A"),
            ("%2D", "%252D"),
        ] {
            assert_eq!(word(text), written);
            assert_eq!(text_of(written).as_deref(), Some(text));
        }
        for wrong in ["a b", "%", "%2", "%zz", "%2d", "%41", "%FF", "--%2D%", "+%+1"] {
            assert_eq!(text_of(wrong), None, "{wrong}");
        }
        assert_eq!(cut(&"ü".repeat(400)).len(), WORD_TEXT_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn any_text_is_a_word(text in "\\PC{0,40}|[ -~\\n%]{0,40}") {
            let written = word(&text);
            prop_assert!(!written.is_empty() && written.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(text_of(&written), Some(text));
        }
    }
}
