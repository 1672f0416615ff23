//! Reads the counters of a Redis page by page: the keys, their types and their values.

use getid_core::server::{SEQUENCE_NAME_RULE, VALUE_MAX};

use super::error::{ErrorReply, ImportError};
use crate::cli::server_args::{ServerArgs, TIMEOUT_MS_DEFAULT};
use getid_text::printable::printable_up_to;
use getid_tools::client::{Connection, Endpoint};
use getid_tools::replies::{ErrorText, FlatReply, ReplyValue, push_request};

/// COUNT of a SCAN: keys that Redis examines for a page. It may return fewer, or some more.
const PAGE_KEYS: &[u8] = b"1000";

/// Longest name of a sequence, bytes.
const NAME_BYTES_MAX: usize = 128;

/// Largest number of requests in one pipeline, so that Redis serves other clients in between.
const PIPELINE: usize = 1000;

/// Longest word that a refusal shows, characters.
const SHOWN_CHARS_MAX: usize = 60;

/// A key and its value.
pub(super) struct SourceKey {
    pub(super) key: Vec<u8>,
    pub(super) counter: CounterValue,
}

/// The value of a key.
pub(super) enum CounterValue {
    /// The last value that was given.
    Value(i64),
    /// The key was deleted meanwhile.
    Gone,
    Unfit(UnfitReason),
}

/// Why a counter cannot be taken over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnfitReason {
    #[error("its name is not valid for a sequence, which has {}", SEQUENCE_NAME_RULE)]
    Name,
    #[error("it holds '{value}', which is no number")]
    NotANumber { value: String },
    #[error("it is at {value}, and a sequence begins at 0")]
    Negative { value: String },
    #[error("it is at {value}, and with its margin past {VALUE_MAX}, the largest value of a sequence")]
    TooLarge { value: String },
    #[error("it is a {kind}, not a string{}", .help)]
    Kind { kind: String, help: &'static str },
    #[error("the hash has no field '{field}'")]
    NoField { field: String },
    #[error("Redis replied: {0}")]
    ErrorReply(ErrorReply),
}

/// A Redis while its keys are scanned.
pub(super) struct RedisSource {
    endpoint: Endpoint,
    connection: Connection,
    pattern: String,
    hash_field: Option<String>,
    /// Cursor of the next SCAN; `None` at the end.
    cursor: Option<Vec<u8>>,
}

impl RedisSource {
    pub(super) fn connect(
        at: &ServerArgs,
        word: &str,
        pattern: &str,
        hash_field: Option<&str>,
    ) -> Result<RedisSource, ImportError> {
        let endpoint = at.endpoint(Some(word), TIMEOUT_MS_DEFAULT)?;
        let connection = endpoint.connect().map_err(|error| ImportError::client(&endpoint, error))?;
        let hash_field = hash_field.map(str::to_owned);
        Ok(RedisSource { endpoint, connection, pattern: pattern.to_owned(), hash_field, cursor: Some(b"0".to_vec()) })
    }

    /// Returns the next keys with their values; `None` after the last page. As with SCAN, a key may come twice.
    pub(super) fn page(&mut self) -> Result<Option<Vec<SourceKey>>, ImportError> {
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let pattern = self.pattern.clone();
        let scan = vec![b"SCAN".as_slice(), &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", PAGE_KEYS];
        let mut words = self.ask(&[scan])?.pop().ok_or_else(|| self.no_scan())??.into_iter();
        let is_cursor = |text: &Vec<u8>| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let next = words.next().map(|word| word.text().to_vec()).filter(is_cursor).ok_or_else(|| self.no_scan())?;
        self.cursor = (next != b"0").then_some(next);
        let keys: Vec<Vec<u8>> = words.map(|word| word.text().to_vec()).collect();
        let mut page = Vec::new();
        for keys in keys.chunks(PIPELINE) {
            page.extend(self.read_values(keys)?);
        }
        Ok(Some(page))
    }

    fn read_values(&mut self, keys: &[Vec<u8>]) -> Result<Vec<SourceKey>, ImportError> {
        let found = |key: &[u8], counter| SourceKey { key: key.to_vec(), counter };
        // A key longer than a name may be truncated, so no request names it.
        let (requestable, long): (Vec<&[u8]>, Vec<&[u8]>) =
            keys.iter().map(Vec::as_slice).partition(|key| key.len() <= NAME_BYTES_MAX);
        let mut all: Vec<SourceKey> =
            long.into_iter().map(|key| found(key, CounterValue::Unfit(UnfitReason::Name))).collect();
        let types: Vec<_> = requestable.iter().map(|key| vec![b"TYPE".as_slice(), key]).collect();
        let field = self.hash_field.clone();
        let mut reads = Vec::new();
        for (key, kind) in requestable.into_iter().zip(self.ask(&types)?) {
            match (first_word(kind).as_deref(), &field) {
                (Ok(b"string"), _) => reads.push(vec![b"GET", key]),
                (Ok(b"hash"), Some(field)) => reads.push(vec![b"HGET", key, field.as_bytes()]),
                (Ok(b"none"), _) => all.push(found(key, CounterValue::Gone)),
                (Ok(kind), _) => {
                    let help = if kind == b"hash" { "; --hash-field FIELD names its counter" } else { "" };
                    all.push(found(key, CounterValue::Unfit(UnfitReason::Kind { kind: shown(kind), help })));
                }
                (Err(error), _) => all.push(found(key, CounterValue::Unfit(UnfitReason::ErrorReply(error.clone())))),
            }
        }
        for (read, reply) in reads.iter().zip(self.ask(&reads)?) {
            all.push(found(read[1], counter_of(reply, field.as_deref())));
        }
        Ok(all)
    }

    fn ask(&mut self, requests: &[Vec<&[u8]>]) -> Result<Vec<SourceReply>, ImportError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        for words in requests {
            push_request(&mut bytes, words);
        }
        let replies: Result<Vec<FlatReply>, _> =
            self.endpoint.request_values(&mut self.connection, &bytes, requests.len());
        let replies = replies.map_err(|error| ImportError::client(&self.endpoint, error))?;
        let endpoint = self.endpoint.to_string();
        if replies.len() < requests.len() {
            // The error that preceded the end of the connection.
            let ErrorText(error) = replies.into_iter().find_map(Result::err).unwrap_or_default();
            return Err(ErrorReply { endpoint, text: shown(error.as_bytes()) }.into());
        }
        let named = |ErrorText(error)| ErrorReply { endpoint: endpoint.clone(), text: printable_up_to(&error, 200) };
        Ok(replies.into_iter().map(|reply| reply.map_err(named)).collect())
    }

    fn no_scan(&self) -> ImportError {
        ImportError::NoScan { endpoint: self.endpoint.to_string() }
    }
}

/// A reply as its words, or the error that it is.
type SourceReply = Result<Vec<ReplyValue>, ErrorReply>;

/// Returns the only word of a reply.
fn first_word(reply: SourceReply) -> Result<Vec<u8>, ErrorReply> {
    reply.map(|words| words.first().map(|word| word.text().to_vec()).unwrap_or_default())
}

fn counter_of(reply: SourceReply, field: Option<&str>) -> CounterValue {
    let word = match reply {
        Ok(words) => words.into_iter().next().unwrap_or(ReplyValue::Null),
        Err(error) => return CounterValue::Unfit(UnfitReason::ErrorReply(error)),
    };
    match (&word, field) {
        (ReplyValue::Text(text), _) => value_of(text).map_or_else(CounterValue::Unfit, CounterValue::Value),
        (ReplyValue::Null, Some(field)) => CounterValue::Unfit(UnfitReason::NoField { field: field.to_owned() }),
        (ReplyValue::Null, None) => CounterValue::Gone,
    }
}

/// Parses a number as Redis writes it.
fn value_of(text: &[u8]) -> Result<i64, UnfitReason> {
    let value = || shown(text);
    let (digits, is_negative) = text.strip_prefix(b"-").map_or((text, false), |digits| (digits, true));
    let is_number = (1..=40).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    if !is_number || digits.len() > 1 && digits[0] == b'0' {
        return Err(UnfitReason::NotANumber { value: value() });
    }
    if is_negative {
        return Err(UnfitReason::Negative { value: value() });
    }
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.filter(|number: &i64| *number < VALUE_MAX).ok_or_else(|| UnfitReason::TooLarge { value: value() })
}

fn shown(text: &[u8]) -> String {
    printable_up_to(&String::from_utf8_lossy(text), SHOWN_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_number_as_redis_writes_it() {
        for (text, expected) in [("0", 0), ("1", 1), ("8999999999999999999", VALUE_MAX - 1)] {
            assert_eq!(value_of(text.as_bytes()), Ok(expected));
        }
        for text in ["", "-", "+1", " 1", "1 ", "01", "1.5", "1e3", "abc", "0x1", "\u{661}", &"1".repeat(41)] {
            assert!(matches!(value_of(text.as_bytes()), Err(UnfitReason::NotANumber { .. })), "{text}");
        }
        assert!(matches!(value_of(b"-5"), Err(UnfitReason::Negative { .. })));
        for text in ["9000000000000000000", "9223372036854775807", "99999999999999999999"] {
            assert!(matches!(value_of(text.as_bytes()), Err(UnfitReason::TooLarge { .. })), "{text}");
        }
    }
}
