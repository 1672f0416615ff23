//! `CONFIG REWRITE` of a TOML file: writes the values that [`super::rewrite`] selects.
//!
//! A value keeps its form if that can hold the new value: a table stays a table, a boolean stays a boolean.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::document::{ConfigDocument, MARKER};
use super::error::RewriteError;
use crate::conf_syntax::quote;
use crate::directive::Directive;
use crate::row::{Line, ValueShape};
use crate::toml;
use crate::values::ConfigValues;

/// A file in TOML.
pub(super) struct TomlText {
    document: DocumentMut,
}

impl TomlText {
    /// Parses a text.
    pub(super) fn new(text: &[u8]) -> Result<TomlText, RewriteError> {
        let text = std::str::from_utf8(text)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let document = text.parse::<DocumentMut>().map_err(|error| RewriteError::Toml(error.message().to_owned()))?;
        Ok(TomlText { document })
    }

    /// Returns the key of a directive as the file writes it.
    fn key(&self, name: &str) -> Option<String> {
        self.document.iter().map(|(key, _)| key).find(|key| key.eq_ignore_ascii_case(name)).map(str::to_owned)
    }

    fn set(&mut self, row: &Directive, lines: &[Line]) {
        let key = self.key(row.name);
        let Some(key) = key else { return self.append(row, lines) };
        let own = self.own_lines(row.name);
        let Some(item) = self.document.get_mut(&key) else { return };
        if let (ValueShape::Table { keys, .. }, Some(table)) = (row.shape, item.as_table_like_mut()) {
            for line in lines {
                if let [key, words @ ..] = line.as_slice() {
                    let mut names = keys.iter().filter(|names| names.contains(&key.as_str())).copied().flatten();
                    let key = names.find(|name| table.contains_key(name)).map_or(key.as_str(), |name| name);
                    put(table, key, scalars(words));
                }
            }
            return;
        }
        if row.declares()
            && let Some(table) = item.as_table_like_mut()
        {
            put_declarations(table, &own, lines);
            return;
        }
        let was_bool = item.as_bool().is_some();
        let new = value(row, lines, was_bool);
        match item.as_value_mut() {
            Some(old) => replace(old, new),
            None => *item = Item::Value(new),
        }
    }

    fn append(&mut self, row: &Directive, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        let has_marker = self.document.to_string().lines().any(|line| line.trim() == MARKER);
        self.document.insert(row.name, Item::Value(value(row, lines, false)));
        if !has_marker && let Some(mut key) = self.document.key_mut(row.name) {
            key.leaf_decor_mut().set_prefix(format!("\n{MARKER}\n"));
        }
    }

    /// Sets the value in the directive that it is a part of. Returns whether that is present.
    fn put_in_whole(&mut self, whole: &Directive, row: &Directive, values: &ConfigValues) -> bool {
        let Some(key) = self.key(whole.name) else { return false };
        let is_part = |word: &String| word.eq_ignore_ascii_case(row.name);
        if !self.own_lines(whole.name).iter().flatten().any(is_part) {
            return false;
        }
        let Some(item) = self.document.get_mut(&key) else { return false };
        if let Some(table) = item.as_table_like_mut() {
            let key =
                table.iter().map(|(key, _)| key).find(|key| key.eq_ignore_ascii_case(row.name)).map(str::to_owned);
            put(table, key.as_deref().unwrap_or(row.name), scalar(&row.shown(values).unwrap_or_default()));
        } else if let Some(old) = item.as_value_mut() {
            // All parts, including those that were left out, which have the values in force.
            replace(old, Value::from(whole.shown(values).unwrap_or_default()));
        }
        true
    }
}

impl ConfigDocument for TomlText {
    fn own_lines(&self, name: &str) -> Vec<Line> {
        let items = toml::read(&self.document.to_string()).into_iter();
        items.filter_map(|item| item.found.ok()).filter(|(found, _)| found == name).map(|(_, words)| words).collect()
    }

    fn put(&mut self, row: &'static Directive, values: &ConfigValues, lines: &[Line]) {
        let in_whole = row.whole().is_some_and(|whole| self.put_in_whole(whole, row, values));
        if !in_whole || self.key(row.name).is_some() {
            self.set(row, lines);
        }
    }

    fn put_last(&mut self, row: &'static Directive, lines: &[Line]) {
        if let Some(key) = self.key(row.name) {
            self.document.remove(&key);
        }
        self.append(row, lines);
    }

    fn text(&self) -> Vec<u8> {
        self.document.to_string().into_bytes()
    }
}

fn put(table: &mut dyn TableLike, key: &str, new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => replace(old, new),
        None => drop(table.insert(key, Item::Value(new))),
    }
}

/// Writes tables of declarations. A table whose declaration is in `own` already stays unchanged. Others keep their
/// form, and new ones get the form of the others.
fn put_declarations(table: &mut dyn TableLike, own: &[Line], wanted: &[Line]) {
    let names: Vec<_> = table.iter().map(|(name, _)| name.to_owned()).collect();
    let are_tables = !table.is_empty() && table.iter().all(|(_, item)| item.is_table());
    for name in names.iter().filter(|name| !wanted.iter().any(|line| line.first() == Some(name))) {
        table.remove(name);
    }
    for line in wanted.iter().filter(|line| !own.contains(line)) {
        if let [name, words @ ..] = line.as_slice() {
            if are_tables && !table.contains_key(name) {
                table.insert(name, Item::Table(Table::new()));
            }
            if let Some(options) = table.get_mut(name).and_then(Item::as_table_like_mut) {
                put_options(options, words);
            } else {
                let words: Vec<_> = words.iter().map(|word| quote(word.as_bytes())).collect();
                put(table, name, Value::from(words.join(" ")));
            }
        }
    }
}

/// The kind that a template follows.
const SERIAL: &str = "serial";

/// Writes the words of a declaration after its name as the options of its table.
fn put_options(table: &mut dyn TableLike, words: &[String]) {
    let (kind, words) = words.split_first().map_or(("", words), |(kind, words)| (kind.as_str(), words));
    let (named, behind_kind) = if kind == SERIAL {
        ("template", words.len().min(1))
    } else {
        ("layout", words.iter().take_while(|word| word.contains(':')).count())
    };
    let (fields, options) = words.split_at(behind_kind);
    let options = options.chunks(2).map(|pair| (pair[0].as_str(), scalar(pair.last().map_or("", String::as_str))));
    let layout = (!fields.is_empty()).then(|| (named, Value::from(fields.join(" "))));
    let wanted: Vec<_> = [("kind", Value::from(kind))].into_iter().chain(layout).chain(options).collect();
    let old: Vec<_> = table.iter().map(|(key, _)| key.to_owned()).collect();
    for key in old.iter().filter(|old| !wanted.iter().any(|(key, _)| key == old)) {
        table.remove(key);
    }
    for (key, new) in wanted {
        put(table, key, new);
    }
}

/// Replaces a value; the comment after it stays.
fn replace(old: &mut Value, mut new: Value) {
    *new.decor_mut() = old.decor().clone();
    *old = new;
}

/// Returns the value with the meaning of these lines.
fn value(row: &Directive, lines: &[Line], as_bool: bool) -> Value {
    let array = |words: &Line| Value::from(words.iter().map(|word| Value::from(word.as_str())).collect::<Array>());
    match (row.shape, lines) {
        (ValueShape::Lines { .. }, [words]) if row.has_values() => Value::from(words.concat()),
        (ValueShape::Lines { .. }, _) if row.has_values() => array(&lines.concat()),
        (ValueShape::Lines { .. }, _) => Value::from(lines.iter().map(array).collect::<Array>()),
        (ValueShape::Table { .. }, _) => {
            let lines = lines.iter().filter_map(|line| line.split_first());
            Value::from(lines.map(|(key, words)| (key.as_str(), scalars(words))).collect::<InlineTable>())
        }
        (ValueShape::Words { quoted: false, .. }, [words]) => array(words),
        (_, [words]) => match words.first().map_or("", String::as_str) {
            "yes" if as_bool => Value::from(true),
            "no" if as_bool => Value::from(false),
            // 770 and not 0o770: the reader accepts both for the same mode.
            word if row.is_number() => scalar(word),
            word => Value::from(word),
        },
        _ => Value::from(""),
    }
}

fn scalars(words: &[String]) -> Value {
    Value::from(words.iter().map(|word| scalar(word)).collect::<Array>())
}

/// Returns a number, or a text that is none.
fn scalar(word: &str) -> Value {
    word.parse::<i64>().map_or_else(|_| Value::from(word), Value::from)
}
