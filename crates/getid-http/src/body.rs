//! JSON request bodies: bounded, parsed strictly, and checked against an endpoint's row.

use std::fmt;

use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::endpoint::Endpoint;
use super::problem::Problem;
use super::schema::{RequestBounds, Schema};
use getid_text::printable::printable_up_to;

/// The longest body, bytes.
pub(super) const BODY_BYTES_MAX: usize = 64 << 10;

impl Endpoint {
    /// Parses a body by this row and returns its fields; none for an empty body.
    ///
    /// # Errors
    ///
    /// 413 for a body that is too large, 400 for any other fault of it.
    pub(super) async fn body(&self, body: Body, bounds: RequestBounds) -> Result<Map<String, Value>, Problem> {
        if body.is_end_stream() && self.body.is_none() {
            return Ok(Map::new());
        }
        let bytes = if body.is_end_stream() { Vec::new() } else { collect(body).await? };
        let Some(fields) = self.body else {
            let is_empty = bytes.iter().all(u8::is_ascii_whitespace);
            return if is_empty {
                Ok(Map::new())
            } else {
                Err(Problem::bad("this request has no body parameters; send no body".to_owned()))
            };
        };
        let value = if bytes.is_empty() {
            Value::Object(Map::new())
        } else {
            let read = serde_json::from_slice(&bytes);
            let StrictJson(value) =
                read.map_err(|error| Problem::bad(format!("the body is not valid JSON: {error}")))?;
            value
        };
        Schema::Object(fields).check(&value, bounds).map_err(|mismatch| Problem::bad(mismatch.to_string()))?;
        match value {
            Value::Object(fields) => Ok(fields),
            // The schema check has refused other values.
            _ => Ok(Map::new()),
        }
    }
}

async fn collect(body: Body) -> Result<Vec<u8>, Problem> {
    let too_large = || {
        let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes, which is the limit");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::bad("the body is incomplete, or its chunks are invalid".to_owned())),
    }
}

/// JSON without repeated names in an object: of two, some readers take the first and others the last.
struct StrictJson(Value);

impl<'de> Deserialize<'de> for StrictJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StrictJson, D::Error> {
        deserializer.deserialize_any(StrictJsonVisitor)
    }
}

struct StrictJsonVisitor;

impl<'de> Visitor<'de> for StrictJsonVisitor {
    type Value = StrictJson;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<StrictJson, E> {
        Ok(StrictJson(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<StrictJson, E> {
        Ok(StrictJson(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<StrictJson, E> {
        Ok(StrictJson(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<StrictJson, E> {
        Ok(StrictJson(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<StrictJson, E> {
        Ok(StrictJson(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<StrictJson, E> {
        Ok(StrictJson(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<StrictJson, A::Error> {
        let mut all = Vec::new();
        while let Some(StrictJson(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(StrictJson(all.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<StrictJson, A::Error> {
        let mut all = Map::new();
        while let Some((name, StrictJson(value))) = fields.next_entry::<String, StrictJson>()? {
            if all.contains_key(&name) {
                let name = printable_up_to(&name, 40);
                return Err(A::Error::custom(format_args!("field '{name}' is repeated")));
            }
            all.insert(name, value);
        }
        Ok(StrictJson(all.into()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> serde_json::Result<Value> {
        serde_json::from_str(text).map(|StrictJson(value)| value)
    }

    #[test]
    fn json_is_read_strictly() {
        assert_eq!(
            read(r#" {"a":[1,-2,1.5,"\u00fc",null,true,{}]} "#).unwrap(),
            json!({ "a": [1, -2, 1.5, "\u{fc}", null, true, {}] })
        );
        for (text, error) in [
            (r#"{"a":1,"a":1}"#, "field 'a' is repeated at line 1 column 13"),
            (r#"{"a":{"b":1,"b":2}}"#, "field 'b' is repeated at line 1 column 18"),
            (r#"{"a":"#, "EOF while parsing a value at line 1 column 5"),
            ("{} {}", "trailing characters at line 1 column 4"),
            ("{'a':1}", "key must be a string at line 1 column 2"),
            ("[1,]", "trailing comma at line 1 column 4"),
            ("NaN", "expected value at line 1 column 1"),
            ("1e999", "number out of range at line 1 column 5"),
        ] {
            assert_eq!(read(text).expect_err(text).to_string(), error);
        }
        let deep = "[".repeat(60_000);
        assert_eq!(read(&deep).unwrap_err().to_string(), "recursion limit exceeded at line 1 column 128");
    }
}
