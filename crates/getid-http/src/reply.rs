//! Parses RESP3 replies of this server, and makes responses from them.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Map, Value};

use super::problem::Problem;
use super::schema::Schema;
use getid_redis::resp::ErrorKind;
use getid_server::connection::LocalReply;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A reply that is not an error.
pub(super) type ReplyFrame = OwnedFrame;

/// Parses one reply.
///
/// # Errors
///
/// The problem of an error reply.
pub(super) fn read(reply: &LocalReply) -> Result<ReplyFrame, Problem> {
    let problem = |text: &str| Problem::of_error(reply.error.unwrap_or(ErrorKind::Invalid), text);
    match decode(&reply.bytes) {
        Ok(Some((OwnedFrame::SimpleError { data, .. }, _))) => Err(problem(&data)),
        Ok(Some((OwnedFrame::BlobError { data, .. }, _))) => Err(problem(&String::from_utf8_lossy(&data))),
        Ok(Some((frame, _))) => Ok(frame),
        // This process wrote the bytes.
        Ok(None) | Err(_) => Err(Problem::stopping()),
    }
}

/// Returns a response with this status and JSON body.
pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = json_text(body.to_string().into_bytes());
    *response.status_mut() = status;
    response
}

/// Returns a response of status 200 with a body that is JSON text already.
pub(super) fn json_text(body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Returns the text of an ID, a value or a word: the digits of an integer.
pub(super) fn text_of(reply: &ReplyFrame) -> Option<String> {
    match reply {
        OwnedFrame::Number { data, .. } => Some(data.to_string()),
        OwnedFrame::BlobString { data, .. } | OwnedFrame::SimpleString { data, .. } => {
            Some(String::from_utf8_lossy(data).into_owned())
        }
        _ => None,
    }
}

/// Returns the value of this name in a map.
pub(super) fn find<'a>(reply: &'a ReplyFrame, name: &str) -> Option<&'a ReplyFrame> {
    let OwnedFrame::Map { data, .. } = reply else { return None };
    let is_named = |own: &ReplyFrame| match own {
        OwnedFrame::BlobString { data, .. } | OwnedFrame::SimpleString { data, .. } => data == name.as_bytes(),
        _ => false,
    };
    data.iter().find_map(|(own, value)| is_named(own).then_some(value))
}

/// Converts a reply to JSON by this schema: the schema's fields of a map, and integers as text where the schema has
/// text. A value that is missing or of another type becomes null.
pub(super) fn shaped(reply: &ReplyFrame, schema: &Schema) -> Value {
    match (schema, reply) {
        (Schema::Named(_, of) | Schema::OrNull(of), reply) => shaped(reply, of),
        (Schema::Object(fields), reply) => {
            let values = fields.iter().map(|field| {
                let value = find(reply, field.name).map_or(Value::Null, |own| shaped(own, field.schema));
                (field.name.to_owned(), value)
            });
            Value::Object(values.collect::<Map<_, _>>())
        }
        (Schema::List { of, .. }, OwnedFrame::Array { data, .. }) => data.iter().map(|own| shaped(own, of)).collect(),
        (Schema::Bool, reply) => match text_of(reply).as_deref() {
            Some("yes") => Value::Bool(true),
            Some("no") => Value::Bool(false),
            _ => Value::Null,
        },
        (Schema::Integer { .. } | Schema::Number, OwnedFrame::Number { data, .. }) => (*data).into(),
        (Schema::Number, OwnedFrame::Double { data, .. }) => (*data).into(),
        // A time past year 9999 is replied as Unix time, and becomes null here.
        (Schema::Time, reply) => text_of(reply).filter(|time| time.contains('T')).map_or(Value::Null, Value::from),
        (Schema::Text { .. } | Schema::Word(_), reply) => text_of(reply).map_or(Value::Null, Value::from),
        _ => Value::Null,
    }
}
