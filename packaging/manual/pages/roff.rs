//! The small part of roff that a manual page needs: the macros of man(7), and text without accidental macros.

use std::fmt::Write as _;

use super::Page;
use super::release::Release;

/// A page that is written from top to bottom.
pub(super) struct Writer {
    name: String,
    section: u8,
    text: String,
}

impl Writer {
    /// Begins a page with its header and NAME: `about` is the text of whatis(1).
    pub(super) fn new(name: &str, section: u8, about: &str, release: &Release) -> Writer {
        let title = name.to_uppercase();
        let Release { version, date } = release;
        let text = format!(".TH {title} {section} {date} \"getid {version}\" getid\n");
        let mut page = Writer { name: name.to_owned(), section, text };
        page.heading("NAME");
        page.line(&format!("{} \\- {}", escaped(name), escaped(about)));
        page
    }

    /// Begins a section.
    pub(super) fn heading(&mut self, title: &str) {
        self.line(&format!(".SH {}", quoted(title)));
    }

    /// Begins a subsection.
    pub(super) fn subheading(&mut self, title: &str) {
        self.line(&format!(".SS {}", quoted(title)));
    }

    /// Adds the first paragraph below a heading.
    pub(super) fn first(&mut self, text: &str) {
        self.line(&prose(text));
    }

    /// Adds a paragraph.
    pub(super) fn paragraph(&mut self, text: &str) {
        self.line(".PP");
        self.line(&prose(text));
    }

    /// Adds a paragraph below a [`Writer::tagged`] one.
    pub(super) fn indented(&mut self, text: &str) {
        self.line(".IP");
        self.line(&prose(text));
    }

    /// Adds an explanation below its term. `tag` is roff already.
    pub(super) fn tagged(&mut self, tag: &str, text: &str) {
        self.line(".TP");
        self.line(tag);
        self.line(&prose(text));
    }

    /// Adds lines without formatting, below a heading or below a paragraph.
    pub(super) fn literal(&mut self, lines: &[&str]) {
        // A heading has begun a paragraph.
        if !self.text.lines().next_back().is_some_and(|line| line.starts_with(".S")) {
            self.line(".PP");
        }
        self.line(".RS 4");
        self.fixed(lines);
        self.line(".RE");
    }

    /// Adds lines without formatting, below a [`Writer::tagged`] paragraph.
    pub(super) fn literal_indented(&mut self, lines: &[&str]) {
        self.line(".IP");
        self.fixed(lines);
    }

    /// Adds usage lines, with the first word of each form in bold.
    pub(super) fn forms(&mut self, usage: &str, command: &str) {
        for (index, form) in usage.lines().map(str::trim).filter(|form| !form.is_empty()).enumerate() {
            if index > 0 {
                self.line(".br");
            }
            match form.strip_prefix(command) {
                Some(rest) => self.line(&format!("{}{}", bold(command), escaped(rest))),
                None => self.line(&escaped(form)),
            }
        }
    }

    /// Adds the section of related pages.
    pub(super) fn see_also(&mut self, pages: &[String]) {
        self.heading("SEE ALSO");
        let mut pages = pages.iter().peekable();
        while let Some(page) = pages.next() {
            let (name, section) = page.split_once('(').unwrap_or((page, ""));
            let comma = if pages.peek().is_some() { "," } else { "" };
            self.line(&format!(".BR {} ({section}{comma}", escaped(name)));
        }
    }

    /// Returns the finished page.
    pub(super) fn finish(self) -> Page {
        Page { name: self.name, section: self.section, text: self.text }
    }

    fn fixed(&mut self, lines: &[&str]) {
        self.line(".nf");
        let indent = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| blanks(line)).min().unwrap_or(0);
        for line in lines {
            // An empty line would begin a paragraph.
            let line = line.get(indent..).unwrap_or("");
            self.line(if line.is_empty() { "\\&".to_owned() } else { escaped(line) }.as_str());
        }
        self.line(".fi");
    }

    fn line(&mut self, line: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// Returns a text in bold.
pub(super) fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

/// Returns a text in italics, for values that a reader replaces.
pub(super) fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

/// Returns a text without special meaning for roff, in which shells see the characters as displayed.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for (index, character) in text.chars().enumerate() {
        match character {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            '.' if index == 0 => escaped.push_str("\\&."),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Returns [`escaped`] text with words in backticks in bold.
fn prose(text: &str) -> String {
    let mut parts = text.split('`');
    let mut prose = escaped(parts.next().unwrap_or_default());
    // An odd backtick at the end is printed.
    while let Some(inside) = parts.next() {
        let Some(behind) = parts.next() else {
            prose.push_str("\\(ga");
            prose.push_str(&escaped(inside));
            break;
        };
        prose.push_str(&bold(inside));
        // A full stop after a bold word does not begin a line.
        prose.push_str(escaped(behind).trim_start_matches("\\&"));
    }
    prose
}

fn quoted(title: &str) -> String {
    if title.contains(' ') { format!("\"{title}\"") } else { title.to_owned() }
}

fn blanks(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
