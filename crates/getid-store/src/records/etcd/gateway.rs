//! Requests to etcd's JSON gateway, and its answers.
//!
//! A record is one key, `PREFIX/KEY`. Its value is a line with the stamp, followed by the text:
//!
//! ```text
//! beat 17 of 4bf92f3577b34da6a3ce929d0e0e4736
//! getid state 4
//! ...
//! ```
//!
//! A write is one transaction, which compares the value with that line and nothing else. A value begins with the line
//! if it is greater than the line and less than the line with its last byte increased. So the comparison needs no text
//! and no previous read. The revision that last changed the key (`mod_revision`) is not compared: a store restored from
//! a snapshot assigns the same numbers again to other writes. No two writes have the same stamp.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::{DamagedRow, Key, RecordRow, Stamp, StoreSize, WriteResult};
use getid_text::printable::printable_up_to;

/// Path of the gateway for reads.
pub(super) const READ: &str = "/v3/kv/range";
pub(super) const WRITE: &str = "/v3/kv/txn";
pub(super) const LOGIN: &str = "/v3/auth/authenticate";
pub(super) const STATUS: &str = "/v3/maintenance/status";
pub(super) const COMPACT: &str = "/v3/kv/compaction";

/// End of the stamp's line; the text follows.
const LINE_END: u8 = b'\n';

/// Returns the request for one record.
pub(super) fn read(prefix: &str, key: &Key) -> Vec<u8> {
    body(&json!({ "key": coded(&name(prefix, key.as_str())) }))
}

/// Returns the request for the records whose keys begin with `begin` and follow `after`, a key in etcd; an empty
/// `after` means all of them. `None` if the range is empty.
pub(super) fn list(prefix: &str, begin: &str, after: &[u8], limit: usize) -> Option<Vec<u8>> {
    let first = name(prefix, begin).into_bytes();
    let mut end = first.clone();
    // The first key without this prefix. No key has a last byte that cannot be increased.
    *end.last_mut()? += 1;
    let mut next = after.to_vec();
    next.push(0);
    let start = if after.is_empty() { first } else { first.max(next) };
    (start < end).then(|| body(&json!({ "key": coded(&start), "range_end": coded(&end), "limit": limit })))
}

/// Expected state of a key before a write.
#[derive(Clone, Copy)]
pub(super) enum ExpectedValue<'a> {
    /// The key does not exist.
    Absent,
    /// The record has this stamp.
    Stamp(Stamp),
    /// The key has this value, which is not a valid record.
    Value(&'a [u8]),
}

/// Returns the request that writes a record if the key is in the state `expect`.
pub(super) fn write(prefix: &str, key: &Key, expect: ExpectedValue<'_>, new: &RecordRow) -> Vec<u8> {
    let key = coded(&name(prefix, key.as_str()));
    let compare = match expect {
        ExpectedValue::Value(value) => {
            json!([{ "key": key, "target": "VALUE", "result": "EQUAL", "value": coded(value) }])
        }
        ExpectedValue::Absent => json!([{ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" }]),
        ExpectedValue::Stamp(stamp) => {
            let value = |end: u8| {
                let mut line = stamp_line(stamp).into_bytes();
                line.push(end);
                coded(&line)
            };
            json!([
                { "key": key, "target": "VALUE", "result": "GREATER", "value": coded(&stamp_line(stamp)) },
                { "key": key, "target": "VALUE", "result": "LESS", "value": value(LINE_END + 1) },
            ])
        }
    };
    body(&json!({
        "compare": compare,
        "success": [{ "request_put": { "key": key, "value": coded(&value_of(new)) } }],
        "failure": [{ "request_range": { "key": key } }],
    }))
}

/// Returns the request whether a record exists, at a revision or now.
pub(super) fn read_at(prefix: &str, key: &Key, revision: Option<u64>) -> Vec<u8> {
    let revision = revision.unwrap_or(0).to_string();
    body(&json!({ "key": coded(&name(prefix, key.as_str())), "revision": revision, "count_only": true }))
}

/// Returns the request that drops all older values of keys before a revision.
pub(super) fn compact(revision: u64) -> Vec<u8> {
    body(&json!({ "revision": revision.to_string() }))
}

/// Returns the request for a token.
pub(super) fn login(user: &str, password: &str) -> Vec<u8> {
    body(&json!({ "name": user, "password": password }))
}

/// Returns the request for a member's status.
pub(super) fn status() -> Vec<u8> {
    body(&json!({}))
}

/// Returns the key of a record in etcd.
pub(super) fn name(prefix: &str, key: &str) -> String {
    format!("{prefix}/{key}")
}

/// Header of each of etcd's answers.
#[derive(Deserialize)]
struct Header {
    #[serde(rename = "cluster_id", alias = "clusterId")]
    _cluster_id: String,
    /// Revision of the store.
    #[serde(default)]
    revision: Option<String>,
}

#[derive(Deserialize)]
struct AnyAnswer {
    header: Header,
}

#[derive(Deserialize)]
struct RangeAnswer {
    #[serde(rename = "header")]
    _header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct WriteAnswer {
    #[serde(rename = "header")]
    _header: Header,
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<Operation>,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(alias = "responseRange")]
    response_range: Option<RangeResponse>,
}

#[derive(Deserialize)]
struct RangeResponse {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct LoginAnswer {
    #[serde(rename = "header")]
    _header: Header,
    token: String,
}

/// Status of a member.
#[derive(Deserialize)]
pub(super) struct StatusAnswer {
    #[serde(rename = "header")]
    _header: Header,
    /// Version, such as `3.5.28`.
    pub(super) version: String,
    /// Alarms of the member, and whether it has no leader.
    #[serde(default)]
    pub(super) errors: Vec<String>,
    #[serde(rename = "dbSize", default)]
    bytes: String,
    #[serde(rename = "dbSizeInUse", default)]
    used_bytes: String,
    /// Quota of the database, since 3.6.
    #[serde(rename = "dbSizeQuota", default)]
    quota_bytes: String,
}

impl StatusAnswer {
    /// Returns the size of the member's database; `None` if the answer lacks it.
    pub(super) fn size(&self) -> Option<StoreSize> {
        let bytes = self.bytes.parse().ok()?;
        let quota_bytes = self.quota_bytes.parse().ok().filter(|&quota| quota > 0);
        Some(StoreSize { bytes, used_bytes: self.used_bytes.parse().unwrap_or(bytes), quota_bytes })
    }
}

/// Error in an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerError {
    /// The answer is not etcd's.
    NotEtcd(String),
    /// The value under the key is not a valid record.
    NotARecord(Box<DamagedRow>),
}

/// A page of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Each key of the page, in order.
    pub(super) rows: Vec<Result<(Key, RecordRow), DamagedRow>>,
    /// The last key of the page, as in etcd.
    pub(super) last: Vec<u8>,
}

/// Parses the answer to a read.
pub(super) fn read_answer(prefix: &str, key: &Key, body: &[u8]) -> Result<Option<RecordRow>, AnswerError> {
    one(prefix, key, parsed::<RangeAnswer>(body)?.kvs)
}

/// Parses the answer to a list: the records, and the other keys between them.
pub(super) fn list_answer(prefix: &str, body: &[u8]) -> Result<Listing, AnswerError> {
    let found = parsed::<RangeAnswer>(body)?.kvs;
    let last = found.last().map_or(Ok(Vec::new()), |found| decoded(&found.key))?;
    let rows = found.iter().map(|found| match record(prefix, found) {
        Ok(row) => Ok(Ok(row)),
        Err(AnswerError::NotARecord(bad)) => Ok(Err(*bad)),
        Err(fault) => Err(fault),
    });
    Ok(Listing { rows: rows.collect::<Result<_, _>>()?, last })
}

/// Parses the answer to a write.
pub(super) fn write_answer(prefix: &str, key: &Key, body: &[u8]) -> Result<WriteResult, AnswerError> {
    let answer = parsed::<WriteAnswer>(body)?;
    if answer.succeeded {
        return Ok(WriteResult::Done);
    }
    let found = answer.responses.into_iter().next().and_then(|operation| operation.response_range);
    let found = found.ok_or_else(|| AnswerError::NotEtcd("it lacks the record".to_owned()))?;
    Ok(WriteResult::Conflict(one(prefix, key, found.kvs)?))
}

/// Returns the revision of the store at the time of the answer.
pub(super) fn revision_of(body: &[u8]) -> Option<u64> {
    parsed::<AnyAnswer>(body).ok()?.header.revision?.parse().ok()
}

/// Returns the token of a login.
pub(super) fn login_answer(body: &[u8]) -> Result<String, AnswerError> {
    Ok(parsed::<LoginAnswer>(body)?.token)
}

/// Parses the status of a member.
pub(super) fn status_answer(body: &[u8]) -> Result<StatusAnswer, AnswerError> {
    parsed(body)
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, AnswerError> {
    serde_json::from_slice(body).map_err(|error| AnswerError::NotEtcd(error.to_string()))
}

fn one(prefix: &str, key: &Key, found: Vec<KeyValue>) -> Result<Option<RecordRow>, AnswerError> {
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => match record(prefix, &one)? {
            (other, row) if other == *key => Ok(Some(row)),
            (other, _) => Err(AnswerError::NotEtcd(format!("it is about the key '{other}'"))),
        },
        _ => Err(AnswerError::NotEtcd("it has more than one record".to_owned())),
    }
}

fn record(prefix: &str, found: &KeyValue) -> Result<(Key, RecordRow), AnswerError> {
    let key = decoded(&found.key)?;
    let value = decoded(&found.value)?;
    let key = String::from_utf8_lossy(&key);
    let below = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
    let what = match (below.and_then(Key::new), row_of(&value)) {
        (Some(own), Some(row)) => return Ok((own, row)),
        (None, _) => "is not one of getid's",
        (Some(_), None) => "has a value that does not begin with a stamp",
    };
    let what = format!("the key '{}' {what}", printable_up_to(&key, 100));
    let key = below.unwrap_or(&key).to_owned();
    Err(AnswerError::NotARecord(Box::new(DamagedRow { key, what, writer: String::new(), beat: 0, text: value })))
}

fn stamp_line(stamp: Stamp) -> String {
    format!("beat {} of {:032x}", stamp.beat, stamp.writer)
}

fn value_of(row: &RecordRow) -> Vec<u8> {
    let mut value = stamp_line(row.stamp).into_bytes();
    value.push(LINE_END);
    value.extend_from_slice(row.text.as_bytes());
    value
}

/// Returns the record of a value; `None` unless [`value_of`] writes the same value.
fn row_of(value: &[u8]) -> Option<RecordRow> {
    let (line, text) = str::from_utf8(value).ok()?.split_once(char::from(LINE_END))?;
    let (beat, writer) = line.strip_prefix("beat ")?.split_once(" of ")?;
    let stamp = Stamp { writer: u128::from_str_radix(writer, 16).ok()?, beat: beat.parse().ok()? };
    (stamp_line(stamp) == line && (1..=Stamp::BEAT_MAX).contains(&stamp.beat))
        .then(|| RecordRow { stamp, text: text.to_owned() })
}

fn body(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn coded(bytes: &(impl AsRef<[u8]> + ?Sized)) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn decoded(text: &str) -> Result<Vec<u8>, AnswerError> {
    BASE64_STANDARD.decode(text).map_err(|error| AnswerError::NotEtcd(format!("a key or value is not Base64: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(beat: u64, text: &str) -> RecordRow {
        RecordRow { stamp: Stamp { writer: 0xabc, beat }, text: text.to_owned() }
    }

    /// Returns the result of etcd's comparison for a present value.
    fn is_equal_by_compare(request: &[u8], value: &[u8]) -> bool {
        let request: Value = serde_json::from_slice(request).unwrap();
        request["compare"].as_array().unwrap().iter().all(|compare| {
            let bound = BASE64_STANDARD.decode(compare["value"].as_str().unwrap()).unwrap();
            match compare["result"].as_str().unwrap() {
                "GREATER" => value > bound.as_slice(),
                "LESS" => value < bound.as_slice(),
                other => panic!("{other}"),
            }
        })
    }

    #[test]
    fn a_stamp_is_compared_whatever_the_text_is() {
        let key = Key::of_claim(3);
        let request = write("p", &key, ExpectedValue::Stamp(row(17, "").stamp), &row(18, "new"));
        for text in ["", "\0", "a", "\n", "\u{10ffff}", "getid state 4\n..."] {
            assert!(is_equal_by_compare(&request, &value_of(&row(17, text))), "{text:?}");
        }
        for other in [16, 18, 1, 170, 171, 177] {
            assert!(!is_equal_by_compare(&request, &value_of(&row(other, "a"))), "{other}");
        }
        let mut other = row(17, "a");
        for writer in [0xabb, 0xabd, 0, u128::MAX] {
            other.stamp.writer = writer;
            assert!(!is_equal_by_compare(&request, &value_of(&other)), "{writer}");
        }
        for strange in ["", "beat 17 of 00000000000000000000000000000abc", "beat", "\u{10ffff}"] {
            assert!(!is_equal_by_compare(&request, strange.as_bytes()), "{strange:?}");
        }
    }

    #[test]
    fn values_are_parsed_only_as_written() {
        for text in ["", "a\nb\n", "\0"] {
            let row = row(Stamp::BEAT_MAX, text);
            assert_eq!(row_of(&value_of(&row)), Some(row));
        }
        let writer = "0000000000000000000000000000000a";
        for bad in [
            String::new(),
            format!("beat 1 of {writer}"),
            format!("beat 0 of {writer}\n"),
            format!("beat 01 of {writer}\n"),
            format!("beat +1 of {writer}\n"),
            format!("beat 1 of {}\n", writer.to_uppercase()),
            format!("beat 1 of {}\n", &writer[1..]),
            format!("beat 9223372036854775808 of {writer}\n"),
            format!("beat x of {writer}\n"),
            "getid state 4\n".to_owned(),
        ] {
            assert_eq!(row_of(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(row_of(format!("beat 1 of {writer}\n\u{e4}").as_bytes()).unwrap().text, "\u{e4}");
        assert_eq!(row_of(&[format!("beat 1 of {writer}\n").as_bytes(), b"\xff"].concat()), None);
    }

    #[test]
    fn pages_begin_behind_a_key_and_end_with_the_prefix() {
        let range = |begin, after: &str| {
            let after = if after.is_empty() { String::new() } else { format!("p/{after}") };
            let request: Value = serde_json::from_slice(&list("p", begin, after.as_bytes(), 7)?).unwrap();
            assert_eq!(request["limit"], 7);
            let text = |name: &str| {
                let bytes = BASE64_STANDARD.decode(request[name].as_str().unwrap()).unwrap();
                String::from_utf8(bytes).unwrap()
            };
            Some((text("key"), text("range_end")))
        };
        let pair = |key: &str, end: &str| Some((key.to_owned(), end.to_owned()));
        assert_eq!(range("claim/", ""), pair("p/claim/", "p/claim0"));
        assert_eq!(range("claim/", "claim/17"), pair("p/claim/17\0", "p/claim0"));
        assert_eq!(range("claim/", "a"), pair("p/claim/", "p/claim0"));
        assert_eq!(range("claim/", "cluster"), None);
        assert_eq!(range("", ""), pair("p/", "p0"));
    }

    #[test]
    fn answers_are_read_strictly() {
        let key = Key::of_claim(3);
        let header = r#""header":{"cluster_id":"1","member_id":"2","revision":"3","raft_term":"4"}"#;
        let kv = |name: &str, value: &[u8]| {
            format!(r#"{{"key":"{}","value":"{}","version":"1","lease":"0"}}"#, coded(name), coded(value))
        };
        let (good, stamp) = (row(1, "text"), row(1, "").stamp);
        let ranged = |kvs: &str| format!(r#"{{{header},"kvs":[{kvs}],"count":"1"}}"#);
        let one = kv("p/claim/3", &value_of(&good));
        assert_eq!(read_answer("p", &key, ranged(&one).as_bytes()), Ok(Some(good.clone())));
        assert_eq!(read_answer("p", &key, format!("{{{header}}}").as_bytes()), Ok(None));
        let listing = |rows| Ok(Listing { rows, last: b"p/claim/3".to_vec() });
        assert_eq!(list_answer("p", ranged(&one).as_bytes()), listing(vec![Ok((key.clone(), good.clone()))]));
        let conflict = format!(r#"{{{header},"responses":[{{"response_range":{{"header":{{}},"kvs":[{one}]}}}}]}}"#);
        assert_eq!(write_answer("p", &key, conflict.as_bytes()), Ok(WriteResult::Conflict(Some(good))));
        let gone = format!(r#"{{{header},"responses":[{{"response_range":{{"header":{{}}}}}}]}}"#);
        assert_eq!(write_answer("p", &key, gone.as_bytes()), Ok(WriteResult::Conflict(None)));
        let done = format!(r#"{{{header},"succeeded":true,"responses":[{{"response_put":{{}}}}]}}"#);
        assert_eq!(write_answer("p", &key, done.as_bytes()), Ok(WriteResult::Done));
        // Answers that no etcd gives, and values that no getid writes.
        for none in ["", "{}", "[]", "<html>", r#"{"succeeded":true}"#, &format!("{{{header}}}"), "{\"header\":{}}"] {
            assert!(matches!(write_answer("p", &key, none.as_bytes()), Err(AnswerError::NotEtcd(_))), "{none}");
        }
        for none in [
            ranged(r#"{"key":"?","value":""}"#),
            ranged(&format!("{one},{one}")),
            ranged(&kv("p/claim/4", &value_of(&row(1, "text")))),
        ] {
            assert!(matches!(read_answer("p", &key, none.as_bytes()), Err(AnswerError::NotEtcd(_))), "{none}");
        }
        for (name, value, expected) in [
            ("p/claim/3", &b"hello"[..], "the key 'p/claim/3' has a value that does not begin with a stamp"),
            ("p/claim/3", b"", "the key 'p/claim/3' has a value that does not begin with a stamp"),
            ("q/claim/3", b"", "the key 'q/claim/3' is not one of getid's"),
            ("p/cl im\n", b"", "the key 'p/cl im\\n' is not one of getid's"),
        ] {
            let found = read_answer("p", &key, ranged(&kv(name, value)).as_bytes());
            let Err(AnswerError::NotARecord(bad)) = found else { panic!("{found:?}") };
            assert_eq!((bad.what.as_str(), bad.text.as_slice()), (expected, value));
            // A list continues with the records beside it.
            let listed = list_answer("p", ranged(&format!("{},{one}", kv(name, value))).as_bytes());
            assert_eq!(listed, listing(vec![Err(*bad), Ok((key.clone(), row(1, "text")))]));
        }
        assert_eq!(stamp_line(stamp), stamp.to_string());
    }
}
