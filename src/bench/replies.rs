//! Counting replies without decoding them.
//!
//! A server at its best spends 50 ns on a request, so its replies must be counted in less. Replies of a bench are all
//! alike: the last one is the guess for the next, and a guess is checked, never trusted. What is not guessed right goes
//! the long way, line by line. Nothing is allocated for a reply; only a line that was cut between two reads is kept.
//!
//! Invariant: between two scans, `skip_bytes` belong to a bulk string whose header was seen, `cut_line` is the
//! beginning of a line without its end, and at most one of the two is not empty.

use std::num::NonZeroUsize;

/// Bytes of one line of a reply; longer ones are no Redis's.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Different error texts that are kept; a server may put a changing number into each.
const ERROR_TEXTS_MAX: usize = 16;

/// Bytes of an error text that are kept.
const ERROR_TEXT_BYTES_MAX: usize = 200;

/// `$`, a length of up to 12 digits, CRLF.
const HEADER_BYTES_MAX: usize = 16;

/// Counts the replies in a stream of bytes, cut anywhere. RESP2 and RESP3.
#[derive(Clone, Debug)]
pub struct Replies {
    /// Elements still to come until the reply is whole; at least 1.
    elements_left: u64,
    /// The reply is a push, which answers nothing.
    push: bool,
    /// Bytes of a bulk string still to come, CRLF included.
    skip_bytes: usize,
    cut_line: Vec<u8>,
    /// Bytes of the last integer, all of it. 0: none yet.
    integer_bytes: usize,
    bulk: BulkGuess,
}

/// The last bulk string: its header, and how many bytes it had in all. 0: none yet.
#[derive(Clone, Debug, Default)]
struct BulkGuess {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    total_bytes: usize,
}

/// Error replies by their text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorReplies {
    /// All of them, those inside of EXEC's replies too.
    pub count: u64,
    /// The first different texts and how often each came.
    pub texts: Vec<(String, u64)>,
}

/// The stream is no Redis's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server does not speak Redis's protocol: {0:?}")]
pub struct NotAReply(pub String);

impl Default for Replies {
    fn default() -> Self {
        Replies {
            elements_left: 1,
            push: false,
            skip_bytes: 0,
            cut_line: Vec::new(),
            integer_bytes: 0,
            bulk: BulkGuess::default(),
        }
    }
}

impl Replies {
    /// How many replies end in `input`, the bytes behind those of the last scan.
    ///
    /// # Errors
    ///
    /// A line that no reply has. The stream cannot be counted any further then.
    pub fn scan(&mut self, mut input: &[u8], errors: &mut ErrorReplies) -> Result<u64, NotAReply> {
        let mut replies = 0;
        while !input.is_empty() {
            if self.skip_bytes > 0 {
                let skipped = self.skip_bytes.min(input.len());
                input = &input[skipped..];
                self.skip_bytes -= skipped;
                if self.skip_bytes == 0 {
                    replies += self.element();
                }
                continue;
            }
            if self.cut_line.is_empty()
                && let Some(used) = self.integer_again(input).or_else(|| self.bulk_again(input))
            {
                input = &input[used.get()..];
                replies += self.element();
                continue;
            }
            let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
                self.cut_line.extend_from_slice(input);
                if self.cut_line.len() > LINE_BYTES_MAX {
                    return Err(not_a_reply(&self.cut_line));
                }
                break;
            };
            let (line, rest) = input.split_at(end + 1);
            input = rest;
            if self.cut_line.is_empty() {
                replies += self.line(line, errors)?;
            } else {
                let mut whole = std::mem::take(&mut self.cut_line);
                whole.extend_from_slice(line);
                replies += self.line(&whole, errors)?;
                whole.clear();
                self.cut_line = whole;
            }
        }
        Ok(replies)
    }

    /// The bytes of an integer that is as long as the last one was.
    fn integer_again(&self, input: &[u8]) -> Option<NonZeroUsize> {
        let [b':', digits @ .., b'\r', b'\n'] = input.get(..self.integer_bytes)? else { return None };
        // Not `all`, which stops early and so is looked at byte by byte.
        let digits_only = digits.iter().fold(true, |so_far, byte| so_far & byte.is_ascii_digit());
        NonZeroUsize::new(self.integer_bytes).filter(|_| digits_only)
    }

    /// The bytes of a bulk string that is as long as the last one was.
    fn bulk_again(&self, input: &[u8]) -> Option<NonZeroUsize> {
        let BulkGuess { header, header_bytes, total_bytes } = &self.bulk;
        let bulk = input.get(..*total_bytes)?;
        NonZeroUsize::new(*total_bytes)
            .filter(|_| bulk.starts_with(&header[..*header_bytes]) && bulk.ends_with(b"\r\n"))
    }

    /// One line with its LF: an element, or the head of one.
    fn line(&mut self, line: &[u8], errors: &mut ErrorReplies) -> Result<u64, NotAReply> {
        let Some(([kind], text)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first_chunk) else {
            return Err(not_a_reply(line));
        };
        match kind {
            b':' => {
                self.integer_bytes = line.len();
                Ok(self.element())
            }
            b'+' | b'_' | b'#' | b',' | b'(' => Ok(self.element()),
            b'-' => {
                errors.add(text);
                Ok(self.element())
            }
            b'$' | b'=' | b'!' => {
                let Some(bytes) = length(line)? else { return Ok(self.element()) };
                if *kind == b'!' {
                    errors.add(b"(an error as a bulk string)");
                }
                if *kind == b'$' && line.len() <= HEADER_BYTES_MAX {
                    self.bulk.header[..line.len()].copy_from_slice(line);
                    self.bulk.header_bytes = line.len();
                    self.bulk.total_bytes = line.len() + bytes + 2;
                }
                self.skip_bytes = bytes + 2;
                Ok(0)
            }
            b'*' | b'~' | b'%' | b'>' | b'|' => {
                let elements = length(line)?.unwrap_or(0) as u64;
                match kind {
                    b'%' => self.expect(2 * elements),
                    // An attribute stands before an element and is none.
                    b'|' => {
                        self.expect(2 * elements);
                        return Ok(0);
                    }
                    b'>' => {
                        self.push |= self.elements_left == 1;
                        self.expect(elements);
                    }
                    _ => self.expect(elements),
                }
                Ok(self.element())
            }
            _ => Err(not_a_reply(line)),
        }
    }

    /// A server that announces more than there are numbers will be waited for in vain, as it deserves.
    fn expect(&mut self, elements: u64) {
        self.elements_left = self.elements_left.saturating_add(elements);
    }

    /// An element is whole: 1 if the reply is too.
    fn element(&mut self) -> u64 {
        self.elements_left -= 1;
        if self.elements_left > 0 {
            return 0;
        }
        self.elements_left = 1;
        u64::from(!std::mem::take(&mut self.push))
    }
}

impl ErrorReplies {
    fn add(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(&text[..text.len().min(ERROR_TEXT_BYTES_MAX)]);
        self.add_text(&text, 1);
    }

    fn add_text(&mut self, text: &str, times: u64) {
        self.count += times;
        if let Some((_, count)) = self.texts.iter_mut().find(|(known, _)| known == text) {
            *count += times;
        } else if self.texts.len() < ERROR_TEXTS_MAX {
            self.texts.push((text.to_owned(), times));
        }
    }

    /// Adds what another counted.
    pub fn absorb(&mut self, other: &ErrorReplies) {
        let kept: u64 = other.texts.iter().map(|(_, count)| count).sum();
        for (text, count) in &other.texts {
            self.add_text(text, *count);
        }
        self.count += other.count - kept;
    }
}

/// The number in a line such as `$18` or `*100`; `None` is Redis's null.
fn length(line: &[u8]) -> Result<Option<usize>, NotAReply> {
    let text = line[1..].trim_ascii_end();
    if text == b"-1" {
        return Ok(None);
    }
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    // Far more than a server sends, and far from any overflow.
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|&number: &usize| number <= 1 << 40);
    number.map(Some).ok_or_else(|| not_a_reply(line))
}

#[cold]
fn not_a_reply(line: &[u8]) -> NotAReply {
    NotAReply(String::from_utf8_lossy(&line[..line.len().min(ERROR_TEXT_BYTES_MAX)]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans `input` whole, and cut at every byte, which must give the same.
    #[track_caller]
    fn check(input: &str, replies: u64, errors: &[&str]) {
        let input = input.as_bytes();
        for cut in 0..=input.len() {
            let mut found = ErrorReplies::default();
            let mut scanner = Replies::default();
            let count =
                scanner.scan(&input[..cut], &mut found).unwrap() + scanner.scan(&input[cut..], &mut found).unwrap();
            assert_eq!(count, replies, "cut at {cut}");
            let texts: Vec<_> = found.texts.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(texts, errors, "cut at {cut}");
        }
        let mut found = ErrorReplies::default();
        let mut scanner = Replies::default();
        let count: u64 = input.iter().map(|byte| scanner.scan(&[*byte], &mut found).unwrap()).sum();
        assert_eq!(count, replies, "byte by byte");
    }

    #[test]
    fn integers() {
        check(":144182182078841378\r\n:144182182078841379\r\n", 2, &[]);
        check(":1\r\n:22\r\n:1\r\n:1\r\n:333\r\n", 5, &[]);
        // As long as the one before, but two of them.
        check(":1234\r\n:1\r\n:2\r\n:1234\r\n", 4, &[]);
        check(":-1\r\n:-1\r\n", 2, &[]);
    }

    #[test]
    fn bulk_strings() {
        check("$3\r\nabc\r\n$3\r\nabc\r\n$0\r\n\r\n$-1\r\n$3\r\n\r\n\r\r\n", 5, &[]);
    }

    #[test]
    fn arrays() {
        check("*2\r\n$2\r\n17\r\n$2\r\n18\r\n*2\r\n$2\r\n17\r\n$2\r\n18\r\n", 2, &[]);
        check("*0\r\n*-1\r\n*1\r\n*2\r\n:1\r\n*1\r\n:2\r\n:3\r\n", 4, &[]);
    }

    #[test]
    fn a_transaction() {
        check("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:7\r\n-BUSY later\r\n", 4, &["BUSY later"]);
    }

    #[test]
    fn errors() {
        check(
            "-ERR no\r\n-ERR no\r\n-ERR yes\r\n!3\r\nERR\r\n",
            4,
            &["ERR no", "ERR yes", "(an error as a bulk string)"],
        );
    }

    #[test]
    fn resp3() {
        check("%2\r\n+a\r\n:1\r\n+b\r\n#t\r\n_\r\n,1.5\r\n(123\r\n=7\r\ntxt:abc\r\n~1\r\n:1\r\n", 6, &[]);
        check(">2\r\n+message\r\n+x\r\n:1\r\n", 1, &[]);
        check("|1\r\n+ttl\r\n:9\r\n:1\r\n", 1, &[]);
    }

    #[test]
    fn no_replies() {
        for input in ["HTTP/1.1 400 Bad Request\r\n", ":1\n", "$x\r\n", "*+1\r\n", "$99999999999999999999\r\n", "\r\n"]
        {
            assert!(Replies::default().scan(input.as_bytes(), &mut ErrorReplies::default()).is_err(), "{input:?}");
        }
        let endless = vec![b'+'; LINE_BYTES_MAX + 1];
        assert!(Replies::default().scan(&endless, &mut ErrorReplies::default()).is_err());
    }

    #[test]
    fn error_texts_are_bounded() {
        let mut all = ErrorReplies::default();
        for n in 0..100 {
            Replies::default().scan(format!("-ERR {n}\r\n").as_bytes(), &mut all).unwrap();
        }
        assert_eq!((all.count, all.texts.len()), (100, ERROR_TEXTS_MAX));
        let mut sum = ErrorReplies::default();
        sum.absorb(&all);
        sum.absorb(&all);
        assert_eq!((sum.count, sum.texts.len(), sum.texts[0].1), (200, ERROR_TEXTS_MAX, 2));
    }
}
