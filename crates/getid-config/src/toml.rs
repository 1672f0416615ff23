//! The configuration in TOML: a key is a directive, a value its words.
//!
//! ```toml
//! bind = ["127.0.0.1", "-::1"]
//! id-generator = { server-id = 0, id-range = 2, shard-range = 9, random-range = 10 }
//! rename-command = { CONFIG = "" }
//!
//! [generator.tweets]
//! kind = "twitter"
//! ```
//!
//! Every value becomes the words of a redis.conf line, so both syntaxes have one meaning and one set of errors.

use std::borrow::Cow;

use getid_core::server::{GAPLESS, SEAL};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::conf_syntax::{SyntaxError, split, texts_of, words_of};
use super::directive::{Directive, known_names};
use super::parse::yes_no;
use super::secrets::may_show_secret;

/// Why a TOML document, or a value in it, is not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum TomlError {
    /// The parser's sentence.
    #[error("{0}")]
    Syntax(String),
    #[error(
        "neither getid nor Redis knows this directive, and there are no other sections: remove the line [{name}], so \
         that the keys after it count"
    )]
    Section { name: String },
    #[error("'{key}' is a table; a name with a dot needs quotes: [{directive}.\"{name}.{key}\"]")]
    DottedName { directive: String, name: String, key: String },
    #[error("has no kind, must have one, such as kind = \"twitter\"")]
    NoKind,
    #[error("takes no table; only {} do", tables())]
    NoTable,
    #[error("takes numbers, strings and yes or no, nothing nested")]
    Nested,
    #[error("the quotes inside the value don't balance")]
    Quotes,
    #[error(transparent)]
    Line(#[from] SyntaxError),
}

/// Returns the names of the directives that take a table.
fn tables() -> String {
    let names: Vec<_> = Directive::ALL.iter().rev().filter(|row| row.takes_table()).map(|row| row.name).collect();
    let (last, others) = names.split_last().unwrap_or((&"none", &[]));
    format!("{} and {last}", others.join(", "))
}

/// One setting of a TOML document, or an error.
pub(super) struct TomlItem {
    /// Line number from 1.
    pub(super) line: usize,
    /// The line, without secrets.
    pub(super) text: String,
    pub(super) subject: String,
    /// A directive and its words, or an error.
    pub(super) found: Result<(String, Vec<String>), TomlError>,
    /// Options with lines of their own: the name, the line number and the text of each.
    pub(super) options: Vec<(String, usize, String)>,
}

impl TomlItem {
    fn new(
        (line, text): (usize, String),
        subject: String,
        found: Result<(String, Vec<String>), TomlError>,
    ) -> TomlItem {
        TomlItem { line, text, subject, found, options: Vec::new() }
    }
}

/// Largest number of syntax errors that are examined. One slip causes many, and each needs its line, which may be the
/// whole file.
const SYNTAX_ERRORS_MAX: usize = 100;

/// Reads a document: all readable settings and every error, in the order of the lines.
pub(super) fn read(text: &str) -> Vec<TomlItem> {
    let lines = LineIndex::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut items: Vec<TomlItem> = errors
        .iter()
        .take(SYNTAX_ERRORS_MAX)
        .map(|error| {
            let at = lines.at(error.span().map_or(0, |span| span.start), true);
            let sentence = error.message().replace('\n', ", ");
            TomlItem::new(at, "TOML".to_owned(), Err(TomlError::Syntax(sentence)))
        })
        .collect();
    // After a syntax error the settings may be incomplete, so they are not checked.
    if items.is_empty() {
        for (key, value) in table.get_ref() {
            let name = key.get_ref().to_ascii_lowercase();
            let at = lines.at(key.span().start, false);
            if matches!(value.get_ref(), DeValue::Table(_)) && !known_names().any(|known| known == name) {
                items.push(TomlItem::new(at, name.clone(), Err(TomlError::Section { name })));
                continue;
            }
            if let (Some(true), DeValue::Table(table)) =
                (Directive::find(&name).map(Directive::declares), value.get_ref())
            {
                items.extend(declarations(&lines, &name, table));
                continue;
            }
            match lines_of(&name, value.get_ref()) {
                Ok(settings) => items.extend(
                    settings
                        .into_iter()
                        .map(|words| TomlItem::new(at.clone(), name.clone(), Ok((name.clone(), words)))),
                ),
                Err(error) => items.push(TomlItem::new(at, name, Err(error))),
            }
        }
    }
    items.sort_by_key(|item| item.line);
    items
}

/// Reads `[generator.tweets]` or `generator = { tweets = "twitter" }`: an item for each name.
fn declarations(lines: &LineIndex<'_>, directive: &str, table: &DeTable<'_>) -> Vec<TomlItem> {
    let item = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let name = key.get_ref();
        let found = declaration_words(directive, name, value.get_ref()).map(|words| (directive.to_owned(), words));
        let mut item = TomlItem::new(lines.at(key.span().start, false), format!("{directive} {name}"), found);
        if let DeValue::Table(options) = value.get_ref() {
            let place = |key: &Spanned<Cow<'_, str>>| {
                let (line, text) = lines.at(key.span().start, false);
                (key.get_ref().to_string(), line, text)
            };
            item.options = options.keys().map(place).collect();
        }
        item
    };
    table.iter().map(item).collect()
}

/// Returns the words of a declaration: name, kind and fields, then each option with its value.
fn declaration_words(directive: &str, name: &str, value: &DeValue<'_>) -> Result<Vec<String>, TomlError> {
    let mut words = vec![name.to_owned()];
    let table = match value {
        DeValue::Table(table) => table,
        value => {
            words.extend(option_words(value)?);
            return Ok(words);
        }
    };
    let mut options: Vec<_> = table.iter().collect();
    options.sort_by_key(|(key, _)| key.span().start);
    if let Some((key, _)) = options.iter().find(|(_, value)| matches!(value.get_ref(), DeValue::Table(_))) {
        let (directive, name, key) = (directive.to_owned(), name.to_owned(), key.get_ref().to_string());
        return Err(TomlError::DottedName { directive, name, key });
    }
    let kind = options.iter().position(|(key, _)| key.get_ref() == "kind").map(|at| options.remove(at));
    let layout = options.iter().position(|(key, _)| key.get_ref() == "layout").map(|at| options.remove(at));
    match (kind, &layout) {
        (Some((_, kind)), _) => words.push(scalar(kind.get_ref(), false)?),
        (None, Some(_)) => words.push("layout".to_owned()),
        (None, None) => return Err(TomlError::NoKind),
    }
    if let Some((_, layout)) = layout {
        words.extend(option_words(layout.get_ref())?);
    }
    // A template follows the kind.
    if let Some(at) = options.iter().position(|(key, _)| key.get_ref() == "template") {
        words.push(scalar(options.remove(at).1.get_ref(), false)?);
    }
    for (key, value) in options {
        match value.get_ref() {
            // A word without a value.
            DeValue::Boolean(is_given) if [SEAL, GAPLESS].contains(&&**key.get_ref()) => {
                words.extend(is_given.then(|| key.get_ref().to_string()));
            }
            value => words.extend([key.get_ref().to_string(), scalar(value, false)?]),
        }
    }
    Ok(words)
}

/// Returns the words of `"time:41@1ms server-id:10 counter:12"`, or of an array with one each.
fn option_words(value: &DeValue<'_>) -> Result<Vec<String>, TomlError> {
    match value {
        DeValue::Array(items) => items.iter().map(|item| scalar(item.get_ref(), false)).collect(),
        value => Ok(words_of(scalar(value, false)?.as_bytes())?),
    }
}

/// Returns the redis.conf lines with the meaning of a value, each as its words.
fn lines_of(name: &str, value: &DeValue<'_>) -> Result<Vec<Vec<String>>, TomlError> {
    // A directive without a meaning here accepts any value. Only a scalar is read, because it may be a secret.
    let Some(directive) = Directive::find(name) else { return Ok(vec![scalar(value, false).into_iter().collect()]) };
    let octal = directive.is_octal();
    match value {
        DeValue::Array(items) if directive.adds_up() => {
            // Each item is a line.
            let lines = items.iter().map(|item| match item.get_ref() {
                DeValue::Array(words) => words.iter().map(|word| scalar(word.get_ref(), octal)).collect(),
                item => line(scalar(item, octal)?, directive),
            });
            lines.collect()
        }
        DeValue::Array(items) => {
            Ok(vec![items.iter().map(|item| scalar(item.get_ref(), octal)).collect::<Result<_, _>>()?])
        }
        DeValue::Table(table) => table_lines(directive, table),
        _ => Ok(vec![line(scalar(value, octal)?, directive)?]),
    }
}

/// Returns the lines of `{ key = value }`, for directives with keys in their lines.
fn table_lines(directive: &Directive, table: &DeTable<'_>) -> Result<Vec<Vec<String>>, TomlError> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    let mut lines = Vec::new();
    for (key, value) in pairs {
        let mut words = vec![key.get_ref().to_string()];
        words.extend(values(directive, value)?);
        lines.push(words);
    }
    if !directive.takes_table() {
        return Err(TomlError::NoTable);
    }
    // The pairs of one line, or a line for each.
    Ok(if directive.parts().is_empty() { lines } else { vec![lines.concat()] })
}

/// Returns the words after a key: `"256mb 64mb 60"` or `["256mb", "64mb", 60]`.
fn values(directive: &Directive, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, TomlError> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| scalar(item.get_ref(), false)).collect(),
        DeValue::String(text) if !directive.keys().is_empty() => line(text.to_string(), directive),
        value => Ok(vec![scalar(value, false)?]),
    }
}

/// Returns the words of a value that is one string. A directive of one word gets it whole, including blanks and quotes.
fn line(text: String, directive: &Directive) -> Result<Vec<String>, TomlError> {
    if !directive.takes_words() || text.is_empty() {
        return Ok(vec![text]);
    }
    Ok(texts_of(split(text.as_bytes()).ok_or(TomlError::Quotes)?)?)
}

fn scalar(value: &DeValue<'_>, octal: bool) -> Result<String, TomlError> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(integer(number, octal)),
        DeValue::Boolean(yes) => Ok(yes_no(*yes).to_owned()),
        DeValue::Datetime(time) => Ok(time.to_string()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Array(_) | DeValue::Table(_) => Err(TomlError::Nested),
    }
}

/// Returns a number in decimal, or with the octal digits of a mode: `0o770` and `770` are both the mode 770.
fn integer(number: &DeInteger<'_>, octal: bool) -> String {
    let digits = number.as_str();
    if number.radix() == 10 || (octal && number.radix() == 8) {
        return digits.to_owned();
    }
    // A number too long to parse keeps its digits, and its directive refuses it.
    i128::from_str_radix(digits, number.radix()).map_or_else(|_| digits.to_owned(), |number| number.to_string())
}

/// Converts byte offsets to lines.
struct LineIndex<'a> {
    text: &'a str,
    /// Offset of each line.
    starts: Vec<usize>,
    /// Whether a secret may continue over several lines, so that no line of a broken document may be shown.
    secrets: bool,
}

impl<'a> LineIndex<'a> {
    fn new(text: &'a str) -> LineIndex<'a> {
        let starts = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        LineIndex { text, starts, secrets: text.lines().any(may_show_secret) }
    }

    /// Returns number and text of the line at a byte. In a `broken` document the line may be in the middle of a value.
    fn at(&self, byte: usize, broken: bool) -> (usize, String) {
        let number = self.starts.partition_point(|start| *start <= byte);
        let line = self.text[self.starts[number - 1]..].lines().next().unwrap_or_default();
        let hidden = may_show_secret(line) || (broken && self.secrets);
        (number, if hidden { "(hidden)".to_owned() } else { line.to_owned() })
    }
}
