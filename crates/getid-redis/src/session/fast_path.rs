//! The fast path: requests that are GETID, MGETID with a count, or INCR of a short name, byte for byte.
//!
//! Nearly all requests of nearly all servers are these, and a pipeline is many of them in a row. A comparison of two or
//! three words distinguishes such a request from any other, without decoder or vocabulary. Any other input (an inline
//! command, another command, an incomplete request, a count that is no plain number) takes the usual way, with the same
//! result.

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

/// `MGETID` as clients send it, up to the length of its count.
const MGETID: [u8; 17] = *b"*2\r\n$6\r\nMGETID\r\n$";

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

/// Returns the count of the `MGETID` request at the start of `input`, of one to nine digits without a leading zero, and
/// the length of the request in bytes.
#[inline]
pub(super) fn leading_mgetid(input: &[u8]) -> Option<(u32, usize)> {
    let (start, rest) = input.split_first_chunk::<{ MGETID.len() }>()?;
    let (frame, name) = start.split_at(8);
    if frame != &MGETID[..8] || !name.eq_ignore_ascii_case(&MGETID[8..]) {
        return None;
    }
    let &[len @ b'1'..=b'9', b'\r', b'\n', ref rest @ ..] = rest else { return None };
    let (digits, rest) = rest.split_at_checked(usize::from(len - b'0'))?;
    if digits[0] == b'0' || !rest.starts_with(b"\r\n") {
        return None;
    }
    let mut count = 0;
    for digit in digits {
        count = count * 10 + char::from(*digit).to_digit(10)?;
    }
    Some((count, MGETID.len() + 3 + digits.len() + 2))
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

    #[track_caller]
    fn check_mgetid(input: &[u8], expected: Option<u32>) {
        let found = leading_mgetid(input);
        assert_eq!(found.map(|(count, _)| count), expected, "{}", input.escape_ascii());
        let whole = |count: u32| format!("*2\r\n$6\r\nMGETID\r\n${}\r\n{count}\r\n", count.to_string().len());
        assert_eq!(found.map(|(_, bytes)| bytes), expected.map(|count| whole(count).len()));
    }

    #[test]
    fn mgetid_with_a_plain_count_and_nothing_else() {
        for count in [1, 9, 10, 100, 123_456, 999_999_999] {
            let request = format!("*2\r\n$6\r\nMGETID\r\n${}\r\n{count}\r\n", count.to_string().len());
            check_mgetid(request.as_bytes(), Some(count));
            check_mgetid(request.replace("MGETID", "mGetid").repeat(2).as_bytes(), Some(count));
            for len in 0..request.len() {
                check_mgetid(&request.as_bytes()[..len], None);
            }
        }
        for count in
            ["$1\r\n0", "$2\r\n01", "$2\r\n-1", "$2\r\n+1", "$2\r\n1 ", "$1\r\n10", "$3\r\n10", "$0\r\n", "$01\r\n1"]
        {
            check_mgetid(format!("*2\r\n$6\r\nMGETID\r\n{count}\r\n").as_bytes(), None);
        }
        check_mgetid(b"*2\r\n$6\r\nMGETID\r\n$10\r\n1000000000\r\n", None);
        check_mgetid(b"*3\r\n$6\r\nMGETID\r\n$1\r\n1\r\n$1\r\na\r\n", None);
    }

    #[test]
    fn any_other_byte_of_mgetid_takes_the_usual_way() {
        let request = *b"*2\r\n$6\r\nMGETID\r\n$1\r\n7\r\n";
        for at in 0..request.len() {
            for byte in 0..=u8::MAX {
                let mut input = request;
                input[at] = byte;
                let is_letter = (8..14).contains(&at) && byte.eq_ignore_ascii_case(&request[at]);
                let expected = match byte {
                    b'1'..=b'9' if at == 20 => Some(u32::from(byte - b'0')),
                    _ if is_letter || byte == request[at] => Some(7),
                    _ => None,
                };
                check_mgetid(&input, expected);
            }
        }
    }
}
