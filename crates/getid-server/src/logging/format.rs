//! Formats one event as one line of text or JSON.
//!
//! The formatters of tracing-subscriber cannot write these lines. Their JSON uses the name `timestamp`, tracing's
//! levels, and integers beyond 2^53, which JavaScript rounds. Their text quotes all text fields and has no process id.
//! Neither escapes characters that only change the direction of writing. A custom `FormatEvent` would need all of the
//! code below.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use tracing::Level;
use tracing::field::{Field, Visit};

use getid_config::LogFormat;
use getid_text::printable::{is_unprintable, printable};
use getid_text::timestamp;

/// The longest message, bytes: a report of a failed start.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The longest text of a field, bytes: names and paths.
const FIELD_BYTES_MAX: usize = 4 << 10;

/// The target of audit lines, which record who did what.
pub const AUDIT: &str = "audit";

/// The target of the log's lines about itself.
const OWN: &str = "getid::logging";

/// How an event becomes a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineFormat {
    pub(super) format: LogFormat,
    pub(super) colors: bool,
    pub(super) pid: u32,
    /// Reads the wall clock.
    pub(super) now_unix_ms: fn() -> i64,
}

impl LineFormat {
    /// Formats an event as a line, with its line break.
    pub(super) fn line(&self, unix_ms: i64, level: Level, target: &str, record: &LogRecord) -> String {
        let time = timestamp::format_rfc3339(unix_ms);
        let mut line = match self.format {
            LogFormat::Text => record.text(&time, self.pid, level, self.colors, target == AUDIT),
            LogFormat::Json => record.json(&time, self.pid, level, target),
        };
        line.push('\n');
        line
    }

    /// Formats a line of the log about itself.
    pub(super) fn own_line(&self, level: Level, message: String) -> String {
        self.line((self.now_unix_ms)(), level, OWN, &LogRecord { message, fields: Vec::new() })
    }
}

/// An event's message and fields, in their order.
#[derive(Default)]
pub(super) struct LogRecord {
    message: String,
    fields: Vec<(&'static str, FieldValue)>,
}

enum FieldValue {
    /// A text, or the `Debug` or `Display` form of a value.
    Text(String),
    /// A number or a boolean, which never needs quotes.
    Plain(String),
    /// An integer beyond a double's range: a string in JSON, since JavaScript would round it.
    Large(String),
}

impl LogRecord {
    fn text(&self, time: &str, pid: u32, level: Level, colors: bool, is_audit: bool) -> String {
        let name = level_name(level);
        let body = self.message_and_fields(is_audit);
        if !colors {
            return format!("{time} {pid} {name:<7} {body}");
        }
        let color = match level {
            Level::ERROR => "\x1b[1;31m",
            Level::WARN => "\x1b[33m",
            Level::INFO => "\x1b[32m",
            _ => "\x1b[2m",
        };
        format!("\x1b[2m{time} {pid}\x1b[0m {color}{name:<7}\x1b[0m {body}")
    }

    pub(super) fn message_and_fields(&self, is_audit: bool) -> String {
        let mut line = if is_audit { "audit: ".to_owned() } else { String::new() };
        line.push_str(&printable(&self.message));
        for (name, value) in &self.fields {
            let _ = match value {
                FieldValue::Plain(text) | FieldValue::Large(text) => write!(line, " {name}={text}"),
                FieldValue::Text(text) => write!(line, " {name}={}", quoted(text)),
            };
        }
        line
    }

    fn json(&self, time: &str, pid: u32, level: Level, target: &str) -> String {
        let mut line = format!(r#"{{"time":"{time}","level":"{}","pid":{pid}"#, level_name(level));
        let _ = write!(line, r#","target":{},"message":{}"#, json_string(target), json_string(&self.message));
        for (name, value) in &self.fields {
            // A field with the name of a standard member must not hide it.
            let ours = matches!(*name, "time" | "level" | "pid" | "target" | "message");
            let _ = write!(line, ",{}:", json_string(&format!("{}{name}", if ours { "field_" } else { "" })));
            match value {
                FieldValue::Plain(text) => line.push_str(text),
                FieldValue::Text(text) | FieldValue::Large(text) => line.push_str(&json_string(text)),
            }
        }
        line.push('}');
        line
    }

    fn integer(&mut self, field: &Field, magnitude: u128, text: String) {
        let value = if magnitude <= 1 << 53 { FieldValue::Plain(text) } else { FieldValue::Large(text) };
        self.fields.push((field.name(), value));
    }
}

impl Visit for LogRecord {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = cut(value, MESSAGE_BYTES_MAX);
        } else {
            self.fields.push((field.name(), FieldValue::Text(cut(value, FIELD_BYTES_MAX))));
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_str(field, &value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), FieldValue::Plain(value.to_string())));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.integer(field, value.into(), value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.integer(field, value.unsigned_abs().into(), value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.integer(field, value, value.to_string());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.integer(field, value.unsigned_abs(), value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinities.
        let text = value.to_string();
        self.fields
            .push((field.name(), if value.is_finite() { FieldValue::Plain(text) } else { FieldValue::Text(text) }));
    }
}

pub(super) fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "notice",
        Level::DEBUG => "verbose",
        Level::TRACE => "debug",
    }
}

/// Writes a JSON string. JSON itself escapes only what it cannot contain; this also escapes what a terminal or a reader
/// may obey.
fn json_string(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    if !json.contains(is_unprintable) {
        return json;
    }
    json.chars().fold(String::new(), |mut out, character| {
        if is_unprintable(character) {
            let _ = write!(out, r"\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
        out
    })
}

/// Cuts a text, which may come from a client.
fn cut(text: &str, bytes_max: usize) -> String {
    let end = text.floor_char_boundary(bytes_max);
    if end == text.len() { text.to_owned() } else { format!("{}...", &text[..end]) }
}

/// Returns `text` as one word, in quotes if it would not read as one.
fn quoted(text: &str) -> Cow<'_, str> {
    let one_word = !text.is_empty() && !text.contains([' ', '"', '=']);
    if one_word || is_quoted(text) {
        return printable(text);
    }
    format!("\"{}\"", printable(&text.replace('\\', "\\\\").replace('"', "\\\""))).into()
}

/// Whether this is the `Debug` form of a string: in quotes, with all inner quotes escaped.
fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| {
        let mut is_escaped = false;
        let ends_early = inner.chars().any(|character| {
            let ends = character == '"' && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            ends
        });
        !ends_early && !is_escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_a_field_early() {
        for (text, shown) in [
            ("orders", "orders"),
            ("", r#""""#),
            ("a b", r#""a b""#),
            (r#"a "b""#, r#""a \"b\"""#),
            (r#""word""#, r#""word""#),
            (r#""x" user="root""#, r#""\"x\" user=\"root\"""#),
            (r#""a\""#, r#""\"a\\\"""#),
            (r"a b\", r#""a b\\""#),
            ("a\nb", r"a\nb"),
        ] {
            assert_eq!(quoted(text), shown);
        }
    }

    #[test]
    fn json_has_no_unprintable_characters() {
        for (text, shown) in [
            ("größe", r#""größe""#),
            ("a\nb\u{1b}[2J", r#""a\nb\u001b[2J""#),
            ("x\u{202e}y\u{2028}z", r#""x\u202ey\u2028z""#),
            ("\u{7f}\u{9b}2J", r#""\u007f\u009b2J""#),
        ] {
            assert_eq!(json_string(text), shown);
            assert_eq!(serde_json::from_str::<String>(shown).unwrap(), text);
        }
    }

    #[test]
    fn a_text_of_a_client_has_a_bound() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("äöü", 3), "ä...");
    }
}
