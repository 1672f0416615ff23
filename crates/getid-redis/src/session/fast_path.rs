//! The fast path: requests that are GETID byte for byte, or INCR of a short name.
//!
//! Nearly all requests of nearly all servers are these, and a pipeline is many of them in a row. A comparison of two
//! words distinguishes such a request from any other, without decoder or vocabulary. Any other input (an inline
//! command, another command, an incomplete request) takes the usual way, with the same result.

use crate::resp::Span;

/// `GETID` as clients send it.
const GETID: [u8; LEN] = *b"*1\r\n$5\r\nGETID\r\n";

/// Beginning of `INCR name` as clients send it, up to the length of the name.
const INCR: [u8; LEN] = *b"*2\r\n$4\r\nINCR\r\n$";

const LEN: usize = 15;

/// First and last eight bytes of the request. They share one, the line feed.
const HEAD: u64 = word(&GETID, 0);
const TAIL: u64 = word(&GETID, LEN - 8);

/// Clears the bits that distinguish small letters from capitals, in the five bytes that are letters.
const CAPITALS: u64 = u64::from_le_bytes([0xff, 0xdf, 0xdf, 0xdf, 0xdf, 0xdf, 0xff, 0xff]);

const INCR_HEAD: u64 = word(&INCR, 0);
const INCR_TAIL: u64 = word(&INCR, LEN - 8);

/// As [`CAPITALS`], in the four bytes that are letters.
const INCR_CAPITALS: u64 = u64::from_le_bytes([0xff, 0xdf, 0xdf, 0xdf, 0xdf, 0xff, 0xff, 0xff]);

const fn word(bytes: &[u8; LEN], at: usize) -> u64 {
    let mut word = [0; 8];
    let mut i = 0;
    while i < 8 {
        word[i] = bytes[at + i];
        i += 1;
    }
    u64::from_le_bytes(word)
}

/// Returns the number of `GETID` requests at the start of `input`, at most `max`, and their length in bytes.
#[inline]
pub(super) fn leading_getids(input: &[u8], max: u32) -> (u32, usize) {
    let mut count = 0;
    for request in input.chunks_exact(LEN) {
        if count == max || !is_getid(request) {
            break;
        }
        count += 1;
    }
    (count, count as usize * LEN)
}

/// Returns the arguments of the `INCR` at the start of `input`, whose name has 1 to 99 bytes, and its length in bytes.
#[inline]
pub(super) fn leading_incr(input: &[u8]) -> Option<([Span; 2], usize)> {
    let (head, tail) = (input.first_chunk()?, input.get(LEN - 8..)?.first_chunk()?);
    if u64::from_le_bytes(*head) != INCR_HEAD || u64::from_le_bytes(*tail) & INCR_CAPITALS != INCR_TAIL {
        return None;
    }
    let (bytes, start) = match *input.get(LEN..)? {
        [ones @ b'1'..=b'9', b'\r', _, ..] => (usize::from(ones - b'0'), LEN + 3),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] => {
            (usize::from(tens - b'0') * 10 + usize::from(ones - b'0'), LEN + 4)
        }
        _ => return None,
    };
    let end = start + bytes;
    // As the decoder, whatever the two bytes behind the name are.
    (input.len() >= end + 2).then_some(([Span { start: 8, end: 12 }, Span { start, end }], end + 2))
}

#[inline]
fn is_getid(request: &[u8]) -> bool {
    let (Some(head), Some(tail)) = (request.first_chunk(), request.last_chunk()) else { return false };
    u64::from_le_bytes(*head) == HEAD && u64::from_le_bytes(*tail) & CAPITALS == TAIL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &[u8], expected: u32) {
        let (count, bytes) = leading_getids(input, 100);
        assert_eq!((count, bytes), (expected, expected as usize * LEN), "{}", input.escape_ascii());
    }

    #[test]
    fn getid_in_any_letter_case_and_nothing_else() {
        check(b"*1\r\n$5\r\nGETID\r\n", 1);
        check(b"*1\r\n$5\r\ngetid\r\n", 1);
        check(b"*1\r\n$5\r\nGetId\r\n*1\r\n$5\r\ngETiD\r\n*1\r\n$4\r\nPING\r\n", 2);
        check(b"", 0);
        check(b"*1\r\n$5\r\nGETID\r", 0);
        check(b"GETID\r\n*1\r\n$5\r\nGETID\r\n", 0);
    }

    #[test]
    fn any_other_byte_takes_the_usual_way() {
        for at in 0..LEN {
            for byte in 0..=u8::MAX {
                let mut input = GETID;
                input[at] = byte;
                let letter = (8..13).contains(&at) && byte.eq_ignore_ascii_case(&GETID[at]);
                check(&input, u32::from(letter || byte == GETID[at]));
            }
        }
    }

    #[test]
    fn incr_is_read_as_the_decoder_reads_it_or_not_at_all() {
        use crate::resp::{DecodeLimits, DecodeStep, Decoder};

        let request = |name: &str| format!("*2\r\n$4\r\nIncr\r\n${}\r\n{name}\r\nPING\r\n", name.len()).into_bytes();
        let mut taken = 0;
        let mut check = |input: &[u8]| {
            let Some((spans, used)) = leading_incr(input) else { return };
            taken += 1;
            let mut decoder = Decoder::default();
            let decoded = decoder.decode(input, &DecodeLimits::default());
            assert_eq!(decoded, Ok(DecodeStep::Request { used }), "{}", input.escape_ascii());
            let args = [0, 1].map(|at| decoder.args(input).get(at));
            assert_eq!(args, spans.map(|Span { start, end }| input.get(start..end)), "{}", input.escape_ascii());
            assert!(args[0].is_some_and(|name| name.eq_ignore_ascii_case(b"INCR")) && decoder.args(input).len() == 2);
        };
        for name in ["a", "orders:17", "counter:000000000001", &"n".repeat(99), &"n".repeat(100), ""] {
            let input = request(name);
            for end in 0..=input.len() {
                check(&input[..end]);
            }
            for at in 0..input.len() {
                for byte in 0..=u8::MAX {
                    let mut other = input.clone();
                    other[at] = byte;
                    check(&other);
                }
            }
        }
        assert!(taken > 10_000, "{taken}");
    }

    #[test]
    fn at_most_max_requests_are_counted() {
        assert_eq!(leading_getids(&GETID.repeat(10), 3), (3, 3 * LEN));
        assert_eq!(leading_getids(&GETID.repeat(10), 0), (0, 0));
    }
}
