//! Edits a file in the syntax of redis.conf, line by line.

use super::document::{ConfigDocument, MARKER};
use crate::conf_syntax::{quote, words_of};
use crate::directive::Directive;
use crate::row::Line;
use crate::values::ConfigValues;

/// A file in the syntax of redis.conf.
pub(super) struct ConfText {
    lines: Vec<ConfLine>,
}

struct ConfLine {
    /// The line without its line feed.
    bytes: Vec<u8>,
    /// The directive, in lower case, and its words; `None` for blank lines and comments.
    found: Option<(String, Line)>,
}

impl ConfLine {
    fn new(bytes: &[u8]) -> ConfLine {
        let trimmed = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii();
        let is_line = !trimmed.is_empty() && trimmed[0] != b'#';
        let words = is_line.then(|| words_of(trimmed).ok()).flatten();
        let found = words.filter(|words| !words.is_empty()).map(|mut words| {
            let mut words_behind = words.split_off(1);
            let name = words.remove(0).to_ascii_lowercase();
            // As the reader does.
            if let Some(Ok(words)) = Directive::find(&name).and_then(|row| row.words_in(&words_behind)) {
                words_behind = words;
            }
            (name, words_behind)
        });
        ConfLine { bytes: bytes.to_vec(), found }
    }

    fn of(name: &str, words: &Line) -> ConfLine {
        let words = words.iter().map(|word| quote(word.as_bytes()));
        let text = std::iter::once(name.to_owned()).chain(words).collect::<Vec<_>>().join(" ");
        ConfLine::new(text.as_bytes())
    }

    fn is(&self, name: &str) -> bool {
        self.found.as_ref().is_some_and(|(found, _)| found == name)
    }

    /// Whether the line has the same first word.
    fn names(&self, words: &Line) -> bool {
        self.found.as_ref().is_some_and(|(_, own)| own.first() == words.first())
    }

    /// Replaces the line; its line end stays.
    fn replace(&mut self, name: &str, words: &Line) {
        if self.found.as_ref().is_some_and(|(found, others)| found == name && others == words) {
            return;
        }
        let is_dos = self.bytes.ends_with(b"\r");
        *self = ConfLine::of(name, words);
        if is_dos {
            self.bytes.push(b'\r');
        }
    }
}

impl ConfText {
    /// Splits a text into lines.
    pub(super) fn new(text: &[u8]) -> ConfText {
        let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').map(ConfLine::new).collect();
        // The text after the last line feed is no line.
        if lines.last().is_some_and(|line| line.bytes.is_empty()) {
            lines.pop();
        }
        ConfText { lines }
    }

    fn append(&mut self, name: &str, words: &Line) {
        if !self.lines.iter().any(|line| line.bytes.trim_ascii() == MARKER.as_bytes()) {
            if !self.lines.is_empty() {
                self.lines.push(ConfLine::new(b""));
            }
            self.lines.push(ConfLine::new(MARKER.as_bytes()));
        }
        self.lines.push(ConfLine::of(name, words));
    }

    /// Sets the value in each line of a directive with parts. Returns whether one had it.
    fn put_in_whole(&mut self, whole: &str, name: &str, value: &str) -> bool {
        let mut found = false;
        for line in &mut self.lines {
            let Some((_, mut words)) = line.found.clone().filter(|(name, _)| name == whole) else { continue };
            let Some(at) = words.chunks(2).position(|pair| pair[0].eq_ignore_ascii_case(name)) else { continue };
            if let Some(word) = words.get_mut(2 * at + 1) {
                value.clone_into(word);
            }
            line.replace(whole, &words);
            found = true;
        }
        found
    }
}

impl ConfigDocument for ConfText {
    fn own_lines(&self, name: &str) -> Vec<Line> {
        let found = self.lines.iter().filter_map(|line| line.found.as_ref());
        found.filter(|(found, _)| found == name).map(|(_, words)| words.clone()).collect()
    }

    fn put(&mut self, row: &'static Directive, _: &ConfigValues, wanted: &[Line]) {
        let in_whole = match (row.whole(), wanted) {
            (Some(whole), [words]) => self.put_in_whole(whole.name, row.name, words.first().map_or("", String::as_str)),
            _ => false,
        };
        let mut wanted: Vec<_> = wanted.iter().collect();
        let mut kept = Vec::with_capacity(self.lines.len());
        for mut line in self.lines.drain(..) {
            if line.is(row.name) {
                // A line that declares a named item keeps its place.
                let takes_place = |words: &&Line| row.canonical().is_none() || line.names(words);
                let Some(at) = wanted.iter().position(takes_place) else { continue };
                line.replace(row.name, wanted.remove(at));
            }
            kept.push(line);
        }
        self.lines = kept;
        if !in_whole {
            for words in wanted {
                self.append(row.name, words);
            }
        }
    }

    fn put_last(&mut self, row: &'static Directive, wanted: &[Line]) {
        self.lines.retain(|line| !line.is(row.name));
        for words in wanted {
            self.append(row.name, words);
        }
    }

    fn text(&self) -> Vec<u8> {
        let lines = self.lines.iter().flat_map(|line| line.bytes.iter().copied().chain([b'\n']));
        lines.collect()
    }
}
