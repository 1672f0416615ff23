//! Replies of RESP3, as far as this server writes them, and responses that are made of them.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Map, Value};

use super::problem::Problem;
use super::schema::Schema;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A reply that is no error.
pub(super) type Reply = OwnedFrame;

/// The one reply that these bytes are.
///
/// # Errors
///
/// The problem that an error reply means.
pub(super) fn read(bytes: &[u8]) -> Result<Reply, Problem> {
    match decode(bytes) {
        Ok(Some((OwnedFrame::SimpleError { data, .. }, _))) => Err(Problem::of_error(&data)),
        Ok(Some((OwnedFrame::BlobError { data, .. }, _))) => Err(Problem::of_error(&String::from_utf8_lossy(&data))),
        Ok(Some((frame, _))) => Ok(frame),
        // It was written by this process.
        Ok(None) | Err(_) => Err(Problem::stopping()),
    }
}

/// A response with this body.
pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = json_text(body.to_string().into_bytes());
    *response.status_mut() = status;
    response
}

/// The same of JSON that is text already, with status 200.
pub(super) fn json_text(body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The text of an ID, of a value or of a word: an integer becomes its digits.
pub(super) fn text_of(reply: &Reply) -> Option<String> {
    match reply {
        OwnedFrame::Number { data, .. } => Some(data.to_string()),
        OwnedFrame::BlobString { data, .. } | OwnedFrame::SimpleString { data, .. } => {
            Some(String::from_utf8_lossy(data).into_owned())
        }
        _ => None,
    }
}

/// What a map has under this name.
pub(super) fn find<'a>(reply: &'a Reply, name: &str) -> Option<&'a Reply> {
    let OwnedFrame::Map { data, .. } = reply else { return None };
    data.iter().find_map(|(own, value)| (text_of(own)? == name).then_some(value))
}

/// A reply as JSON of this schema: of a map the fields that the schema names, and an integer as text where it says so.
/// What is not there, or is something else, is null.
pub(super) fn shaped(reply: &Reply, schema: &Schema) -> Value {
    match (schema, reply) {
        (Schema::Named(_, of) | Schema::OrNull(of), reply) => shaped(reply, of),
        (Schema::Object(fields), reply) => {
            let told = fields.iter().map(|field| {
                let value = find(reply, field.name).map_or(Value::Null, |own| shaped(own, field.schema));
                (field.name.to_owned(), value)
            });
            Value::Object(told.collect::<Map<_, _>>())
        }
        (Schema::List { of, .. }, OwnedFrame::Array { data, .. }) => data.iter().map(|own| shaped(own, of)).collect(),
        (Schema::Integer { .. } | Schema::Number, OwnedFrame::Number { data, .. }) => (*data).into(),
        (Schema::Number, OwnedFrame::Double { data, .. }) => (*data).into(),
        // A year that RFC 3339 has no digits for is told as Unix time: here it is none.
        (Schema::Time, reply) => text_of(reply).filter(|time| time.contains('T')).map_or(Value::Null, Value::from),
        (Schema::Text { .. } | Schema::Word(_), reply) => text_of(reply).map_or(Value::Null, Value::from),
        _ => Value::Null,
    }
}
