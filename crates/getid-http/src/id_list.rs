//! Converts the IDs or values of a reply to JSON, the response to most requests of the HTTP port.
//!
//! Other replies become a tree of values first, and then text. For one ID that would take longer than all other work on
//! it. So this converts bytes to bytes, with one allocation.

use super::problem::Problem;
use super::reply;
use getid_server::connection::LocalReply;

/// Beginning of a response with IDs.
pub(super) const IDS: &[u8] = b"{\"ids\":[";

/// Beginning of a response with values of a sequence.
pub(super) const VALUES: &[u8] = b"{\"values\":[";

const END: &[u8] = b"]}";

/// Bytes reserved for each ID: quotes, a comma, and the 20 digits of a large number.
const ROOM_BYTES: usize = 23;

/// Returns `{"ids":["..."]}` for a reply to `GETID`, `MGETID` or `INCR`, if `begin` is [`IDS`].
///
/// # Errors
///
/// The problem of an error reply.
pub(super) fn of_reply(begin: &[u8], whole: &LocalReply) -> Result<Vec<u8>, Problem> {
    let reply = &whole.bytes[..];
    // This process wrote the reply, so it is complete. Any other first byte is an error's.
    let (count, mut rest) = match reply.first() {
        Some(b'*') => header(reply).ok_or_else(Problem::stopping)?,
        Some(b':' | b'$') => (1, reply),
        _ => {
            reply::read(whole)?;
            return Err(Problem::stopping());
        }
    };
    // An ID takes at least one byte of the reply, so a wrong count cannot reserve without a bound.
    let mut json = Vec::with_capacity(count.min(reply.len()) * ROOM_BYTES + begin.len() + END.len());
    json.extend_from_slice(begin);
    for number in 0..count {
        let text;
        (text, rest) = next(rest).ok_or_else(Problem::stopping)?;
        if number > 0 {
            json.push(b',');
        }
        push_text(text, &mut json);
    }
    json.extend_from_slice(END);
    Ok(json)
}

/// Returns the text at the start of `reply`, a bulk string or the digits of an integer, and the rest after it.
fn next(reply: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(reply) = reply.strip_prefix(b":") {
        return line(reply);
    }
    let (len, rest) = header(reply)?;
    let (text, rest) = rest.split_at_checked(len)?;
    Some((text, rest.strip_prefix(b"\r\n")?))
}

/// Returns the number after the first byte, and the rest after that line.
fn header(reply: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0_usize;
    for (at, byte) in reply.iter().enumerate().skip(1) {
        match byte {
            b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(usize::from(byte - b'0'))?,
            b'\r' if at > 1 => return Some((number, reply[at..].strip_prefix(b"\r\n")?)),
            _ => return None,
        }
    }
    None
}

/// Returns the text before the first line end, and the rest after it.
fn line(reply: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = reply.iter().position(|&byte| byte == b'\r')?;
    Some((&reply[..end], reply[end..].strip_prefix(b"\r\n")?))
}

/// Appends a JSON string.
fn push_text(text: &[u8], json: &mut Vec<u8>) {
    if is_plain(text) {
        json.push(b'"');
        json.extend_from_slice(text);
        json.push(b'"');
    } else {
        let text = String::from_utf8_lossy(text);
        // Neither writing to a Vec nor serializing a text can fail.
        let _ = serde_json::to_writer(json, &text);
    }
}

/// Whether a text needs no escape in JSON. Most texts are digits; the first loop has no early exit, so that it tests
/// many bytes at once.
fn is_plain(text: &[u8]) -> bool {
    let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    text.iter().fold(true, |all, byte| all & byte.is_ascii_digit()) || text.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use getid_redis::resp::ErrorKind;

    fn of_bytes(bytes: &[u8]) -> Result<Vec<u8>, Problem> {
        of_reply(IDS, &LocalReply { bytes: bytes.to_vec(), error: Some(ErrorKind::NoPermission) })
    }

    #[track_caller]
    fn check(reply: &str, ids: &[&str]) {
        let body = of_bytes(reply.as_bytes()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({ "ids": ids }));
        // The text that serde_json writes, byte for byte.
        assert_eq!(String::from_utf8(body).unwrap(), json!({ "ids": ids }).to_string());
    }

    #[test]
    fn replies_become_json() {
        check(":786827840126452656\r\n", &["786827840126452656"]);
        check("$4\r\n-1-a\r\n", &["-1-a"]);
        check("*0\r\n", &[]);
        check("*1\r\n$1\r\n7\r\n", &["7"]);
        check("*3\r\n$1\r\n7\r\n:8\r\n$0\r\n\r\n", &["7", "8", ""]);
        check(
            "$19\r\n\"\\\r\n\t\0\u{1}\u{7f}\u{e4}\u{20ac}\u{1f600}'/\r\n",
            &["\"\\\r\n\t\0\u{1}\u{7f}\u{e4}\u{20ac}\u{1f600}'/"],
        );
    }

    #[test]
    fn errors_are_problems_and_other_replies_are_refused() {
        for error in ["-NOPERM no\r\n", "!9\r\nNOPERM no\r\n"] {
            let problem = of_bytes(error.as_bytes()).unwrap_err();
            assert_eq!((problem.kind, problem.code.as_deref()), (Some(ErrorKind::NoPermission), Some("NOPERM")));
        }
        for reply in [
            "",
            "*",
            "*1",
            "*1\r\n",
            "*1\r\n$5\r\n1\r\n",
            "*-1\r\n",
            "*9999999999999\r\n:1\r\n",
            "*99999999999999999999\r\n",
            "*\r\n",
            "$\r\n\r\n",
            "$1a\r\n1\r\n",
            ":1",
            "$1\r\n12",
            "+OK\r\n",
            "%0\r\n",
        ] {
            assert_eq!(of_bytes(reply.as_bytes()), Err(Problem::stopping()), "{reply:?}");
        }
    }

    #[test]
    fn the_reserved_bytes_suffice_for_numbers() {
        let ids = vec!["18446744073709551615"; 100];
        let reply = format!("*100\r\n{}", "$20\r\n18446744073709551615\r\n".repeat(100));
        let body = of_bytes(reply.as_bytes()).unwrap();
        assert_eq!(body, json!({ "ids": ids }).to_string().into_bytes());
        assert!(body.capacity() < body.len() + 64, "{} for {}", body.capacity(), body.len());
    }
}
