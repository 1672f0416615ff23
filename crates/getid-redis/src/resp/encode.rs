//! Encoder of replies.
//!
//! A [`Value`] is a command's reply, with the types of RESP3. [`encode`] writes it in the client's protocol, and falls
//! back for RESP2 as Redis does. Replies that are written millions of times a second (IDs, errors) have separate
//! functions. Nothing is allocated but the output: the frames of `redis-protocol`, which the tests compare with, took
//! six tenths of the time of a long list.

use std::borrow::Cow;

use bytes::Bytes;
use getid_core::server::is_unprintable;

use super::ErrorReply;

/// Protocol of a client; `HELLO` changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, with which every connection begins.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A simple string such as `+OK`, filtered as in [`write_error`].
    Simple(Cow<'static, str>),
    /// An error such as `-ERR ...`, filtered as in [`write_error`].
    Error(ErrorReply),
    /// An integer such as `:1`.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Bytes),
    /// A text for people, as in `INFO`: RESP3 marks it as `txt`, in RESP2 it is a bulk string.
    Verbatim(Bytes),
    /// The null value; in RESP2 the null bulk string.
    Null,
    /// The null value where an array is expected; in RESP2 the null array.
    NullArray,
    /// A floating-point number; in RESP2 a bulk string.
    Double(f64),
    /// Values in order.
    Array(Vec<Value>),
    /// Fields in the given order, each once; in RESP2 an array of field, value, field, value.
    Map(Vec<(Value, Value)>),
    /// Distinct values; in RESP2 an array.
    Set(Vec<Value>),
}

impl Value {
    /// The reply `+OK`.
    pub const OK: Value = Value::Simple(Cow::Borrowed("OK"));

    /// Returns a bulk string.
    pub fn bulk(data: impl Into<Bytes>) -> Value {
        Value::Bulk(data.into())
    }

    /// Returns a text for people.
    pub fn text(data: impl Into<Bytes>) -> Value {
        Value::Verbatim(data.into())
    }

    /// Returns an error.
    pub fn error(error: impl Into<ErrorReply>) -> Value {
        Value::Error(error.into())
    }

    /// Returns a map whose fields are named by bulk strings.
    pub fn map(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
        let name = |name: &'static str| Value::Bulk(Bytes::from_static(name.as_bytes()));
        Value::Map(fields.into_iter().map(|(field, value)| (name(field), value)).collect())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Bulk(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

/// Appends `value` in a protocol.
pub fn encode(value: &Value, protocol: Protocol, output: &mut Vec<u8>) {
    let is_resp3 = protocol == Protocol::Resp3;
    let write_all = |values: &[Value], output: &mut Vec<u8>| values.iter().for_each(|v| encode(v, protocol, output));
    match value {
        Value::Simple(text) => {
            output.push(b'+');
            push_line(text.as_bytes(), output);
            output.extend_from_slice(b"\r\n");
        }
        Value::Error(error) => write_error(&error.text, output),
        Value::Integer(number) => {
            output.push(b':');
            output.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            output.extend_from_slice(b"\r\n");
        }
        Value::Bulk(data) => write_bulk(data, output),
        Value::Verbatim(data) => {
            write_text_header(data.len(), protocol, output);
            output.extend_from_slice(data);
            output.extend_from_slice(b"\r\n");
        }
        Value::Null => write_null(protocol, output),
        Value::NullArray if is_resp3 => write_null(protocol, output),
        Value::NullArray => output.extend_from_slice(b"*-1\r\n"),
        Value::Double(number) if is_resp3 => {
            output.push(b',');
            output.extend_from_slice(double_text(*number).as_bytes());
            output.extend_from_slice(b"\r\n");
        }
        Value::Double(number) => write_bulk(double_text(*number).as_bytes(), output),
        Value::Array(values) => {
            write_array_header(values.len(), output);
            write_all(values, output);
        }
        Value::Set(values) => {
            write_header(if is_resp3 { b'~' } else { b'*' }, values.len(), output);
            write_all(values, output);
        }
        Value::Map(fields) => {
            let (kind, len) = if is_resp3 { (b'%', fields.len()) } else { (b'*', fields.len() * 2) };
            write_header(kind, len, output);
            for (name, value) in fields {
                encode(name, protocol, output);
                encode(value, protocol, output);
            }
        }
    }
}

/// Appends an ID as the line `:<id>`.
#[inline]
pub fn write_id(id: u64, output: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(id).as_bytes();
    let end = digits.len() + 1;
    // A u64 has up to 20 digits. One append instead of three.
    let mut line = [b':'; 23];
    line[1..end].copy_from_slice(digits);
    line[end..end + 2].copy_from_slice(b"\r\n");
    output.extend_from_slice(&line[..end + 2]);
}

/// Appends an ID as a bulk string, as in the reply of `MGETID`.
#[inline]
pub fn write_bulk_id(id: u64, output: &mut Vec<u8>) {
    write_bulk(itoa::Buffer::new().format(id).as_bytes(), output);
}

/// Appends a bulk string.
#[inline]
pub fn write_bulk(data: &[u8], output: &mut Vec<u8>) {
    write_bulk_header(data.len(), output);
    output.extend_from_slice(data);
    output.extend_from_slice(b"\r\n");
}

/// Appends the header of a bulk string. The caller appends `len` bytes and CR LF.
#[inline]
pub fn write_bulk_header(len: usize, output: &mut Vec<u8>) {
    write_header(b'$', len, output);
}

/// Appends the header of a text for people ([`Value::Verbatim`]). The caller appends `len` bytes and CR LF.
pub fn write_text_header(len: usize, protocol: Protocol, output: &mut Vec<u8>) {
    match protocol {
        Protocol::Resp2 => write_header(b'$', len, output),
        Protocol::Resp3 => {
            write_header(b'=', len + b"txt:".len(), output);
            output.extend_from_slice(b"txt:");
        }
    }
}

/// Appends the header of an array. The caller appends `len` values.
#[inline]
pub fn write_array_header(len: usize, output: &mut Vec<u8>) {
    write_header(b'*', len, output);
}

/// Appends the header of an unrequested (push) message of RESP3. The caller appends `len` values.
pub fn write_push_header(len: usize, output: &mut Vec<u8>) {
    write_header(b'>', len, output);
}

/// Appends a count as an integer.
pub fn write_count(count: usize, output: &mut Vec<u8>) {
    write_header(b':', count, output);
}

/// Appends the null value, as [`Value::Null`] does.
pub fn write_null(protocol: Protocol, output: &mut Vec<u8>) {
    output.extend_from_slice(match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// Appends `-<text>`, where the text begins with its code (`ERR`).
///
/// The text may quote a client's input. As in Redis, CR and LF are cut from its ends and become spaces within, so it
/// stays one line. Other characters that control a terminal or change the direction of writing are escaped as in logs
/// (`\u{1b}`), and bytes that are not UTF-8 as `\xff`, because clients print replies unescaped.
pub fn write_error(text: impl AsRef<[u8]>, output: &mut Vec<u8>) {
    output.push(b'-');
    push_line(text.as_ref(), output);
    output.extend_from_slice(b"\r\n");
}

#[inline]
fn write_header(kind: u8, len: usize, output: &mut Vec<u8>) {
    output.push(kind);
    output.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    output.extend_from_slice(b"\r\n");
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Appends a text as [`write_error`] describes it, without a line end.
fn push_line(text: &[u8], output: &mut Vec<u8>) {
    let start = text.iter().take_while(|&&byte| is_line_end(byte)).count();
    let text = &text[start..];
    let after = text.iter().rev().take_while(|&&byte| is_line_end(byte)).count();
    let text = &text[..text.len() - after];
    if text.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return output.extend_from_slice(text);
    }
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\r' | '\n' => output.push(b' '),
                _ if is_unprintable(character) => output.extend(character.escape_default().map(|ascii| ascii as u8)),
                _ => output.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        output.extend(chunk.invalid().escape_ascii());
    }
}

fn double_text(number: f64) -> String {
    if number.is_nan() { "nan".to_owned() } else { number.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_protocol::resp2::encode::encode_bytes as encode_resp2;
    use redis_protocol::resp2::types::BytesFrame as Frame2;
    use redis_protocol::resp3::encode::complete::encode_bytes as encode_resp3;
    use redis_protocol::resp3::types::{BytesFrame as Frame3, VerbatimStringFormat};

    /// Returns a text as [`push_line`] appends it.
    fn line_of(text: &[u8]) -> String {
        let mut line = Vec::with_capacity(text.len());
        push_line(text, &mut line);
        String::from_utf8_lossy(&line).into_owned()
    }

    fn resp2_frame(value: &Value) -> Frame2 {
        match value {
            Value::Simple(text) => Frame2::SimpleString(line_of(text.as_bytes()).into()),
            Value::Error(error) => Frame2::Error(line_of(&error.text).into()),
            Value::Integer(number) => Frame2::Integer(*number),
            Value::Bulk(data) | Value::Verbatim(data) => Frame2::BulkString(data.clone()),
            Value::Null | Value::NullArray => Frame2::Null,
            Value::Double(number) => Frame2::BulkString(double_text(*number).into()),
            Value::Array(values) | Value::Set(values) => Frame2::Array(values.iter().map(resp2_frame).collect()),
            Value::Map(fields) => {
                Frame2::Array(fields.iter().flat_map(|(name, value)| [resp2_frame(name), resp2_frame(value)]).collect())
            }
        }
    }

    fn resp3_frame(value: &Value) -> Frame3 {
        match value {
            Value::Simple(text) => Frame3::SimpleString { data: line_of(text.as_bytes()).into(), attributes: None },
            Value::Error(error) => Frame3::SimpleError { data: line_of(&error.text).into(), attributes: None },
            Value::Integer(number) => Frame3::Number { data: *number, attributes: None },
            Value::Bulk(data) => Frame3::BlobString { data: data.clone(), attributes: None },
            Value::Verbatim(data) => {
                Frame3::VerbatimString { data: data.clone(), format: VerbatimStringFormat::Text, attributes: None }
            }
            Value::Null | Value::NullArray => Frame3::Null,
            Value::Double(number) => Frame3::Double { data: *number, attributes: None },
            Value::Array(values) => Frame3::Array { data: values.iter().map(resp3_frame).collect(), attributes: None },
            Value::Map(fields) => Frame3::Map {
                data: fields.iter().map(|(name, value)| (resp3_frame(name), resp3_frame(value))).collect(),
                attributes: None,
            },
            Value::Set(values) => Frame3::Set { data: values.iter().map(resp3_frame).collect(), attributes: None },
        }
    }

    /// Returns a value as `redis-protocol` encodes it.
    fn encoded_by_frames(value: &Value, protocol: Protocol) -> Vec<u8> {
        let mut output = vec![0; 10_000];
        let written = match protocol {
            Protocol::Resp2 => encode_resp2(&mut output, &resp2_frame(value), false),
            Protocol::Resp3 => encode_resp3(&mut output, &resp3_frame(value), false),
        };
        output.truncate(written.unwrap());
        output
    }

    #[test]
    fn the_null_array_is_one_only_in_resp2() {
        for (protocol, expected) in [(Protocol::Resp2, "*-1\r\n"), (Protocol::Resp3, "_\r\n")] {
            let mut output = Vec::new();
            encode(&Value::NullArray, protocol, &mut output);
            assert_eq!(String::from_utf8(output).unwrap(), expected);
        }
    }

    #[test]
    fn values_are_encoded_as_redis_protocol_does() {
        let mut values = vec![
            Value::OK,
            Value::Simple("\r\na\rb\u{1b}ä\n".into()),
            Value::error("ERR no\nsuch \u{202e}thing\r\n"),
            Value::bulk("a\r\nb"),
            Value::bulk(""),
            Value::text("for\r\npeople"),
            Value::Null,
        ];
        values.extend([0, -1, 999_999_999_999_999_999, i64::MAX, i64::MIN].map(Value::Integer));
        values.extend([0.0, -1.5, 1e300, 0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Value::Double));
        values.push(Value::Array(values.clone()));
        values.push(Value::Set(vec![Value::from("a"), Value::Integer(-1)]));
        values.push(Value::map([("one", Value::Array(values.clone())), ("two", Value::Map(Vec::new()))]));
        for value in values {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let mut output = b"before".to_vec();
                encode(&value, protocol, &mut output);
                assert_eq!(output.split_off(6), encoded_by_frames(&value, protocol), "{value:?} {protocol:?}");
            }
        }
    }
}
