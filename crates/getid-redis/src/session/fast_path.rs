//! The fast path: requests that are GETID byte for byte.
//!
//! Nearly all requests of nearly all servers are these fifteen bytes, and a pipeline is many of them in a row. A
//! comparison of two words distinguishes such a request from any other, without decoder or vocabulary. Any other input
//! (an inline command, another command, an incomplete request) takes the usual way, with the same result.

/// `GETID` as clients send it.
const GETID: [u8; LEN] = *b"*1\r\n$5\r\nGETID\r\n";

const LEN: usize = 15;

/// First and last eight bytes of the request. They share one, the line feed.
const HEAD: u64 = word(&GETID, 0);
const TAIL: u64 = word(&GETID, LEN - 8);

/// Clears the bits that distinguish small letters from capitals, in the five bytes that are letters.
const CAPITALS: u64 = u64::from_le_bytes([0xff, 0xdf, 0xdf, 0xdf, 0xdf, 0xdf, 0xff, 0xff]);

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
    fn at_most_max_requests_are_counted() {
        assert_eq!(leading_getids(&GETID.repeat(10), 3), (3, 3 * LEN));
        assert_eq!(leading_getids(&GETID.repeat(10), 0), (0, 0));
    }
}
