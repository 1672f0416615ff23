//! The header `Idempotency-Key` of draft-ietf-httpapi-idempotency-key-header: a client's name for a request that it may
//! repeat.
//!
//! The key becomes the `REQUEST` of the command, so a store has the answer, and a repeated request gets it from every
//! server of that store. Here a key is only parsed, and a second request of a key that is still under way in this
//! process gets 409, as the draft describes. A request under way belongs to a connection, and a connection has one
//! request at a time. So the set of them is at most as large as `http-max-clients`.
//!
//! Invariant: a key is in the set while its request runs, and leaves it with the request, also if that is cancelled.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, StatusCode};
use getid_core::server::request_key::REQUEST_BYTES_MAX;
use getid_text::printable::printable_up_to;
use sfv::{BareItem, Item, Parser};

use super::problem::Problem;

/// The header's name.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Characters of a header's value that an error quotes.
const SHOWN_CHARS_MAX: usize = 60;

/// Why a header is not a key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidKey {
    #[error("the header Idempotency-Key is repeated; send it once")]
    Repeated,
    #[error("the header Idempotency-Key is {found}, expected a text in double quotes, such as \"{example}\"")]
    Malformed { found: String, example: String },
    #[error("the header Idempotency-Key is empty, expected 1 to {REQUEST_BYTES_MAX} characters in double quotes")]
    Empty,
    #[error("the key in Idempotency-Key has {chars} characters, expected 1 to {REQUEST_BYTES_MAX}")]
    TooLong { chars: usize },
}

/// Returns the key of a request; `None` without the header.
///
/// # Errors
///
/// 400 for a header that is repeated, or is not a string of RFC 9651 with 1 to [`REQUEST_BYTES_MAX`] characters.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = if values.next().is_some() { Err(InvalidKey::Repeated) } else { parse(value.as_bytes()) };
    key.map(Some).map_err(|invalid| Problem::bad(invalid.to_string()))
}

/// Parses a string of RFC 9651. Its parameters, which the draft does not define, are ignored, as that RFC demands.
fn parse(value: &[u8]) -> Result<String, InvalidKey> {
    let malformed = || {
        let text = String::from_utf8_lossy(value);
        // A key without its quotes is the most frequent mistake.
        let is_bare =
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
        let example = if is_bare && text.len() <= REQUEST_BYTES_MAX { &text } else { "order-77" };
        InvalidKey::Malformed {
            found: if text.is_empty() { "empty".to_owned() } else { printable_up_to(&text, SHOWN_CHARS_MAX) },
            example: example.to_owned(),
        }
    };
    let item: Item = Parser::new(value).parse().map_err(|_| malformed())?;
    let BareItem::String(key) = item.bare_item else { return Err(malformed()) };
    match key.as_str().len() {
        0 => Err(InvalidKey::Empty),
        1..=REQUEST_BYTES_MAX => Ok(key.as_str().to_owned()),
        chars => Err(InvalidKey::TooLong { chars }),
    }
}

/// Scope of a key: the user, what gives the IDs, and the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct KeyScope {
    pub(super) user: Arc<str>,
    /// Name of the generator or the sequence.
    pub(super) name: String,
    pub(super) key: String,
}

/// Keys of the requests that are under way.
#[derive(Debug, Default)]
pub(super) struct KeysUnderWay(Mutex<HashSet<KeyScope>>);

impl KeysUnderWay {
    /// Adds a key until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// 409 if another request with this key is under way.
    pub(super) fn begin(self: &Arc<Self>, scope: KeyScope) -> Result<KeyUnderWay, Problem> {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.clone()) {
            return Ok(KeyUnderWay { keys: Arc::clone(self), scope });
        }
        let key = printable_up_to(&scope.key, SHOWN_CHARS_MAX);
        let detail = format!("a request with the Idempotency-Key \"{key}\" is under way; repeat this one in a second");
        Err(Problem::new(StatusCode::CONFLICT, detail))
    }
}

/// A key whose request is under way.
#[derive(Debug)]
pub(super) struct KeyUnderWay {
    keys: Arc<KeysUnderWay>,
    scope: KeyScope,
}

impl Drop for KeyUnderWay {
    fn drop(&mut self) {
        self.keys.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.scope);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn key(values: &[&[u8]]) -> Result<Option<String>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        key_of(&headers).map_err(|problem| {
            assert_eq!(problem.status, StatusCode::BAD_REQUEST);
            problem.detail
        })
    }

    #[test]
    fn a_key_is_a_structured_string() {
        assert_eq!(key(&[]), Ok(None));
        let longest = format!("\"{}\"", "k".repeat(REQUEST_BYTES_MAX));
        for (value, expected) in [
            ("\"8e03978e-40d5-43dd-bc93-6894a57f9324\"", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
            (" \"order 77\" ", "order 77"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            ("\"k\"; ttl=60;flag", "k"),
            (longest.as_str(), longest.trim_matches('"')),
        ] {
            assert_eq!(key(&[value.as_bytes()]), Ok(Some(expected.to_owned())), "{value}");
        }
    }

    #[test]
    fn a_malformed_key_is_refused_with_a_remedy() {
        for (value, part) in [
            ("8e03978e-40d5", "is 8e03978e-40d5, expected a text in double quotes, such as \"8e03978e-40d5\""),
            ("", "is empty, expected a text in double quotes, such as \"order-77\""),
            ("\"\"", "is empty, expected 1 to 128 characters"),
            ("\"a", "is \"a, expected a text"),
            ("a\"", "expected a text in double quotes"),
            ("\"a\" \"b\"", "expected a text in double quotes"),
            ("\"a\", \"b\"", "expected a text in double quotes"),
            ("\"a\";", "expected a text in double quotes"),
            (r#""\n""#, "expected a text in double quotes"),
            ("(\"a\")", "expected a text in double quotes"),
            (":YQ==:", "expected a text in double quotes"),
            ("?1", "expected a text in double quotes"),
            ("7", "is 7, expected a text in double quotes, such as \"7\""),
            ("\"\u{e9}\"", "expected a text in double quotes"),
            ("%\"%c3%a9\"", "expected a text in double quotes"),
        ] {
            let error = key(&[value.as_bytes()]).expect_err(value);
            assert!(error.contains(part), "{value}: {error}");
        }
        let error = key(&[format!("\"{}\"", "k".repeat(129)).as_bytes()]).unwrap_err();
        assert!(error.ends_with("has 129 characters, expected 1 to 128"), "{error}");
        assert!(key(&[b"\"a\"", b"\"a\""]).unwrap_err().contains("is repeated"));
        assert!(key(&[b"\"a\tb\""]).is_err());
        assert!(key(&["x".repeat(8000).as_bytes()]).unwrap_err().len() < 300);
    }

    #[test]
    fn a_key_is_under_way_until_its_request_ends() {
        let keys = Arc::new(KeysUnderWay::default());
        let scope = |user: &str, name: &str, key: &str| KeyScope {
            user: user.into(),
            name: name.to_owned(),
            key: key.to_owned(),
        };
        let first = keys.begin(scope("shop", "orders", "k")).unwrap();
        let problem = keys.begin(scope("shop", "orders", "k")).unwrap_err();
        assert_eq!((problem.status, problem.detail.contains("is under way")), (StatusCode::CONFLICT, true));
        let others = [("other", "orders", "k"), ("shop", "invoices", "k"), ("shop", "orders", "l")];
        let others = others.map(|(user, name, key)| keys.begin(scope(user, name, key)).unwrap());
        drop(first);
        drop(keys.begin(scope("shop", "orders", "k")).unwrap());
        drop(others);
        assert!(keys.0.lock().unwrap().is_empty());
    }
}
