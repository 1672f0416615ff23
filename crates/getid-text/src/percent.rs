//! Percent escapes (RFC 3986) in addresses, queries, forms and records.
//!
//! The crate `percent-encoding` leaves a `%` without two hexadecimal digits unchanged. The decoders here refuse it, so
//! that a misspelled password or name is an error and not another text.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

/// Bytes that [`encode`] escapes, in addition to those outside ASCII. The rest is printable ASCII.
const UNPRINTABLE: &AsciiSet = &CONTROLS.add(b' ');

/// Bytes that [`encode_word`] escapes, in addition to those outside ASCII.
const UNPRINTABLE_OR_PERCENT: &AsciiSet = &UNPRINTABLE.add(b'%');

/// Returns bytes as printable ASCII without blanks. A `%` stays, so that existing escapes keep their meaning.
pub fn encode(bytes: &[u8]) -> String {
    percent_encode(bytes, UNPRINTABLE).to_string()
}

/// Returns bytes as printable ASCII without blanks, which [`decode`] reads back.
pub fn encode_word(bytes: &[u8]) -> String {
    percent_encode(bytes, UNPRINTABLE_OR_PERCENT).to_string()
}

/// Decodes escapes such as `%2F`; `None` if two hexadecimal digits do not follow a `%`.
pub fn decode(encoded: &[u8]) -> Option<Cow<'_, [u8]>> {
    let is_escape =
        |rest: &[u8]| matches!(rest, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit());
    let is_valid = encoded.split(|&byte| byte == b'%').skip(1).all(is_escape);
    is_valid.then(|| percent_decode(encoded).into())
}

/// Decodes text of a form or a query, in which a plus is a blank, as [`decode`] does.
pub fn decode_form(encoded: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !encoded.contains(&b'+') {
        return decode(encoded);
    }
    let blanks: Vec<u8> = encoded.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    decode(&blanks).map(|decoded| Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_or_refused() {
        for (encoded, plain) in [("", ""), ("a%2Fb+c", "a/b+c"), ("%e5%95%8A", "啊"), ("%00", "\0"), ("%252F", "%2F")]
        {
            assert_eq!(decode(encoded.as_bytes()).as_deref(), Some(plain.as_bytes()), "{encoded}");
        }
        assert_eq!(decode_form(b"a%2Bb+c").as_deref(), Some(&b"a+b c"[..]));
        for wrong in ["%", "%1", "%g0", "a%-1", "%+1", "%%41", "%4%41"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
            assert_eq!(decode_form(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn every_byte_is_escaped_or_printable() {
        for byte in 0..=u8::MAX {
            let written = encode_word(&[byte]);
            assert!(written.bytes().all(|byte| byte.is_ascii_graphic()), "{written}");
            assert_eq!(decode(written.as_bytes()).as_deref(), Some(&[byte][..]));
            assert_eq!(written.len() == 1, byte.is_ascii_graphic() && byte != b'%', "{written}");
        }
        assert_eq!((encode(b"a b%\xff"), encode_word(b"a b%\xff")), ("a%20b%%FF".into(), "a%20b%25%FF".into()));
    }
}
