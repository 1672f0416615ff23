//! The words `REQUEST r [FOR seconds]` at the end of a command that draws: the name of a request, and how long it is
//! kept.

use getid_core::server::request_key::{FOR_S_DEFAULT, FOR_S_MAX, FOR_S_MIN, REQUEST_BYTES_MAX, is_request};

use super::ids::quoted;
use crate::resp::{Args, ErrorKind, ErrorReply, parse_integer};

const REQUEST: &[u8] = b"REQUEST";
const FOR: &[u8] = b"FOR";

/// The name of a request, so that its repetition gets the same reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// The request.
    pub request: String,
    /// Time for which it is kept at least, s.
    pub for_s: u32,
}

impl RequestKey {
    /// Parses the last words of a command, and returns the words before them. Without `REQUEST` all words are before
    /// them.
    ///
    /// `is_own` is true for a word that means something else to the command: the name of a generator's field.
    ///
    /// # Errors
    ///
    /// Returns the error reply for a `REQUEST` that is invalid, incomplete or not at the end.
    pub fn parse(
        words: Args<'_>,
        is_own: impl Fn(&[u8]) -> bool,
    ) -> Result<(Args<'_>, Option<RequestKey>), ErrorReply> {
        let len = words.len();
        let is = |at: Option<usize>, token: &[u8]| {
            let word = at.and_then(|at| words.get(at)).unwrap_or_default();
            word.eq_ignore_ascii_case(token) && !is_own(word)
        };
        let (at, for_s) = if is(len.checked_sub(4), REQUEST) && is(len.checked_sub(2), FOR) {
            (len - 4, parse_seconds(words.get(len - 1).unwrap_or_default())?)
        } else if is(len.checked_sub(2), REQUEST) {
            (len - 2, FOR_S_DEFAULT)
        } else {
            let misplaced = (0..len).step_by(2).find(|at| is(Some(*at), REQUEST));
            return misplaced.map_or(Ok((words, None)), |_| Err(NOT_AT_END));
        };
        if (0..at).step_by(2).any(|earlier| is(Some(earlier), REQUEST)) {
            return Err(NOT_AT_END);
        }
        let request = parse_request(words.get(at + 1).unwrap_or_default())?;
        Ok((words.until(at), Some(RequestKey { request, for_s })))
    }
}

const NOT_AT_END: ErrorReply =
    ErrorReply::fixed(ErrorKind::Invalid, "ERR REQUEST is given once, at the end: REQUEST r, or REQUEST r FOR seconds");

/// Checks the name of a request.
///
/// # Errors
///
/// Returns the error reply if the text cannot name a request.
pub fn parse_request(text: &[u8]) -> Result<String, ErrorReply> {
    let request = str::from_utf8(text).ok().filter(|text| is_request(text));
    request.map(str::to_owned).ok_or_else(|| {
        let text = quoted(text);
        format!(
            "ERR '{text}' cannot be a REQUEST: it has 1 to {REQUEST_BYTES_MAX} bytes of UTF-8 without control \
             characters"
        )
        .into()
    })
}

fn parse_seconds(text: &[u8]) -> Result<u32, ErrorReply> {
    let seconds = parse_integer(text).and_then(|seconds| u32::try_from(seconds).ok());
    seconds
        .filter(|seconds| (FOR_S_MIN..=FOR_S_MAX).contains(seconds))
        .ok_or_else(|| format!("ERR FOR is '{}', must be {FOR_S_MIN} to {FOR_S_MAX} seconds", quoted(text)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Span;

    /// Parses words, of which `shard` and `request` are fields if `has_fields` is true.
    fn parse(line: &str, has_fields: bool) -> Result<(usize, Option<RequestKey>), String> {
        let mut spans = Vec::new();
        let mut start = 0;
        for word in line.split(' ').filter(|_| !line.is_empty()) {
            spans.push(Span { start, end: start + word.len() });
            start += word.len() + 1;
        }
        let is_own = |word: &[u8]| has_fields && [&b"shard"[..], b"request"].contains(&word);
        let parsed = RequestKey::parse(Args::new(line.as_bytes(), &spans), is_own);
        parsed
            .map(|(before, key)| (before.len(), key))
            .map_err(|error| String::from_utf8_lossy(&error.text).into_owned())
    }

    #[track_caller]
    fn is_key(line: &str, before: usize, request: &str, for_s: u32) {
        let key = RequestKey { request: request.to_owned(), for_s };
        assert_eq!(parse(line, true), Ok((before, Some(key))), "{line}");
    }

    #[test]
    fn the_request_is_at_the_end() {
        is_key("REQUEST r", 0, "r", FOR_S_DEFAULT);
        is_key("Request r for 60", 0, "r", 60);
        is_key("shard 5 REQUEST r FOR 31622400", 2, "r", FOR_S_MAX);
        is_key("REQUEST FOR", 0, "FOR", FOR_S_DEFAULT);
        is_key("REQUEST REQUEST FOR 60", 0, "REQUEST", 60);
        is_key("request 5 REQUEST r", 2, "r", FOR_S_DEFAULT);
        for none in ["", "shard 5", "request 5", "shard REQUEST", "shard 5 request 7", "FOR 60"] {
            assert_eq!(parse(none, true).unwrap().1, None, "{none}");
        }
    }

    #[test]
    fn a_wrong_request_is_an_error() {
        for line in ["REQUEST", "REQUEST r FOR", "REQUEST r shard 5", "REQUEST a REQUEST b", "request r FOR"] {
            assert_eq!(parse(line, false), Err(String::from_utf8_lossy(&NOT_AT_END.text).into_owned()), "{line}");
        }
        for seconds in ["59", "31622401", "x", "-60", "99999999999999999999"] {
            let error = format!("ERR FOR is '{seconds}', must be 60 to 31622400 seconds");
            assert_eq!(parse(&format!("REQUEST r FOR {seconds}"), false), Err(error));
        }
        let long = "r".repeat(REQUEST_BYTES_MAX + 1);
        for request in ["a\tb", "\u{85}", &long] {
            assert!(parse(&format!("REQUEST {request}"), false).unwrap_err().contains("cannot be a REQUEST"));
        }
        assert!(parse_request(b"").is_err() && parse_request(b"\xff").is_err());
        assert!(parse_request("é".repeat(64).as_bytes()).is_ok());
    }
}
