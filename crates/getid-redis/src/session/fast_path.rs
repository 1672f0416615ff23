//! The fast path: requests that are GETID, or MGETID with a count, byte for byte.
//!
//! Nearly all requests of nearly all servers are the fifteen bytes of GETID, and a pipeline is many of them in a row. A
//! comparison of two words distinguishes such a request from any other, without decoder or vocabulary. The same is true
//! of MGETID before its count. Any other input (an inline command, another command, an incomplete request, a count that
//! is no plain number) takes the usual way, with the same result.

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
