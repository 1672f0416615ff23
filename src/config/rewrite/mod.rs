//! `CONFIG REWRITE`: a configuration file that gives what is in force, changed as little as that takes.
//!
//! A directive whose value in the file, or in a file that it includes, is the one in force already keeps its lines to
//! the byte; so do comments, blank lines and the order. Another value goes into the first of its lines, and its other
//! lines go; what has no line gets one at the end, under the marker that Redis writes. The result is read again as a
//! start would: what an included file overrides is said once more behind it.
//!
//! Pure: the file's text in, the new text out. Writing it is for the server.

mod conf;
mod document;
mod toml;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use self::conf::ConfText;
use self::document::Document;
use self::toml::TomlText;
use super::builder::Builder;
use super::directive::Directive;
use super::files::{Files, is_toml};
use super::read::{FILE_BYTES_MAX, Sources, read_all};
use super::row::Line;
use super::secrets;
use super::values::{Config, Values};

/// The text that a configuration file becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// All of it.
    pub text: Vec<u8>,
    /// Directives that environment or command line give another value than the one in force: at the next start with the
    /// same ones that wins over the file.
    pub overridden: Vec<&'static str>,
    /// There is a password in it, in clear or as a digest.
    pub holds_secret: bool,
}

impl Config {
    /// The file that `sources` name with what is in force in it. A file that is gone is written from nothing.
    ///
    /// # Errors
    ///
    /// A sentence: the file cannot be read, or has become one that no start would read, which is for its owner to put
    /// right.
    pub fn rewritten(&self, path: &Path, sources: &Sources, files: &dyn Files) -> Result<Rewritten, String> {
        let old = match files.read(path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.to_string()),
        };
        let is_toml = is_toml(path);
        let open = |text: &[u8]| -> Result<Box<dyn Document>, String> {
            Ok(if is_toml { Box::new(TomlText::new(text)?) } else { Box::new(ConfText::new(text)) })
        };
        let rewrite = Rewrite {
            in_force: Values::of(self),
            file: File { path, files },
            environment: Outside::of(&Sources { file: None, words: Vec::new(), ..sources.clone() }, files),
            command_line: Outside::of(&Sources { file: None, environment: Vec::new(), ..sources.clone() }, files),
        };
        let text = rewrite.edit(&mut *open(&old)?, old)?;
        let overridden = rewrite.check(text.clone(), &Sources { file: None, ..sources.clone() })?;
        let holds_secret = holds_secret(&*open(&text)?);
        Ok(Rewritten { text, overridden, holds_secret })
    }
}

/// A rewrite: the values that the file has to give, and everything that gives values already.
struct Rewrite<'a> {
    in_force: Values,
    file: File<'a>,
    /// What it gives stays there: a password in it is in no file, and is not to get into one.
    environment: Outside,
    command_line: Outside,
}

impl Rewrite<'_> {
    /// Puts what is in force into the document, which has the text `old`; its new text.
    fn edit(&self, document: &mut dyn Document, old: Vec<u8>) -> Result<Vec<u8>, String> {
        let before = self.file.values(old.clone())?;
        let mut changed = self.differing(&before);
        changed.retain(|row| row.adds_up_over_sources() || !self.environment.gives(row, &self.in_force));
        for row in &changed {
            let wanted = self.lines_wanted(row, &before, &document.own_lines(row.name));
            document.put(row, &self.in_force, &wanted);
        }
        let text = if changed.is_empty() { old } else { document.text() };
        // What a later include overrides goes behind it.
        let mut overruled = self.differing(&self.file.values(text.clone())?);
        overruled.retain(|row| !row.adds_up_over_sources() && !self.environment.gives(row, &self.in_force));
        for row in &overruled {
            document.put_last(row, &row.lines(&self.in_force));
        }
        Ok(if overruled.is_empty() { text } else { document.text() })
    }

    /// Whether a start with this text gets what is in force; the directives that `over`, the other sources, override
    /// then.
    fn check(&self, text: Vec<u8>, over: &Sources) -> Result<Vec<&'static str>, String> {
        let mut next = self.file.builder(text)?;
        let comes_again = |row: &Directive| {
            let is_outside = self.environment.has(row) || row.canonical().is_some() && self.command_line.has(row);
            self.environment.gives(row, &self.in_force) || row.adds_up_over_sources() && is_outside
        };
        if let Some(row) = self.differing(&next.values).into_iter().find(|row| !comes_again(row)) {
            return Err(format!("{} stands in an included file too, and that is not rewritten", row.name));
        }
        read_all(over, self.file.files, &mut next);
        match next.problems().first() {
            Some(problem) => Err(format!("the next start would not take it: {}", problem.one_line())),
            None => Ok(self.differing(&next.values).into_iter().map(|row| row.name).collect()),
        }
    }

    /// The directives that have another value here than in a file.
    fn differing(&self, file: &Values) -> Vec<&'static Directive> {
        Directive::ALL.iter().filter(|row| row.lines(&self.in_force) != row.lines(file)).collect()
    }

    /// The lines of a directive that the file itself has to have, which has `own` of them now.
    fn lines_wanted(&self, row: &Directive, before: &Values, own: &[Line]) -> Vec<Line> {
        let mut wanted = row.lines(&self.in_force);
        if !row.keys().is_empty() {
            // As Redis: keys that have their built-in values, and no line, get none.
            let built_in = row.lines(&Values::of(&Config::default()));
            let named = |key| own.iter().any(|line| line.iter().any(|word| key_of(row, word) == Some(key)));
            wanted.retain(|line| key_of(row, &line[0]).is_some_and(named) || !built_in.contains(line));
        }
        if !row.adds_up_over_sources() {
            return wanted;
        }
        // What comes from an included file comes from there again.
        let mut included = row.lines(before);
        for line in own {
            match row.canonical() {
                Some(canonical) => take_out(&mut included, &canonical(line)),
                None => take_out(&mut included, line),
            }
        }
        for line in &included {
            take_out(&mut wanted, line);
        }
        if let Some(canonical) = row.canonical() {
            // In the order that the file has them in.
            let place = |line: &Line| own.iter().position(|other| other.first() == line.first());
            wanted.sort_by_key(|line| place(line).unwrap_or(own.len()));
            // And in its words, where they mean the same.
            for line in &mut wanted {
                if let Some(other) = own.iter().find(|other| canonical(other) == *line) {
                    other.clone_into(line);
                }
            }
            // A start takes no such line twice.
            self.command_line.take_out(row, own, &mut wanted);
        }
        self.environment.take_out(row, own, &mut wanted);
        wanted
    }
}

/// Whether there is a password in a file's own lines.
fn holds_secret(document: &dyn Document) -> bool {
    secrets::names().any(|name| document.own_lines(name).iter().any(|words| secrets::is_in(name, words)))
}

/// What the environment or the command line says by itself.
struct Outside {
    given: HashSet<&'static str>,
    values: Values,
}

impl Outside {
    fn of(alone: &Sources, files: &dyn Files) -> Outside {
        let mut builder = Builder::new();
        read_all(alone, files, &mut builder);
        Outside { given: builder.names_set(), values: builder.values }
    }

    fn has(&self, row: &Directive) -> bool {
        self.given.contains(row.name)
    }

    /// Whether the value in force is the one that it gives.
    fn gives(&self, row: &Directive, in_force: &Values) -> bool {
        self.has(row) && row.lines(&self.values) == row.lines(in_force)
    }

    /// Takes out the lines about what it has a line of, whatever they have become since, unless the file has one too.
    fn take_out(&self, row: &Directive, own: &[Line], wanted: &mut Vec<Line>) {
        if self.has(row) {
            let given = row.lines(&self.values);
            let is_in = |lines: &[Line], name: &String| lines.iter().any(|line| line.first() == Some(name));
            wanted.retain(|line| line.first().is_none_or(|name| is_in(own, name) || !is_in(&given, name)));
        }
    }
}

fn take_out(lines: &mut Vec<Line>, line: &Line) {
    if let Some(place) = lines.iter().position(|other| other == line) {
        lines.remove(place);
    }
}

/// The name of a key that lines are written with.
fn key_of(row: &Directive, word: &str) -> Option<&'static str> {
    let names = row.keys().iter().find(|names| names.iter().any(|name| name.eq_ignore_ascii_case(word)))?;
    names.first().copied()
}

/// The file, as it would be read with a text that is only about to be written.
struct File<'a> {
    path: &'a Path,
    files: &'a dyn Files,
}

impl File<'_> {
    /// What the file would say with this text; environment and command line apart.
    fn builder(&self, text: Vec<u8>) -> Result<Builder, String> {
        let mut builder = Builder::new();
        let sources = Sources { file: Some(self.path.to_owned()), ..Sources::default() };
        read_all(&sources, &Instead { text, file: self }, &mut builder);
        match builder.problems().first() {
            None => Ok(builder),
            Some(problem) => Err(problem.one_line()),
        }
    }

    fn values(&self, text: Vec<u8>) -> Result<Values, String> {
        Ok(self.builder(text)?.values)
    }
}

/// The files of a start, one of them with another text.
struct Instead<'a> {
    text: Vec<u8>,
    file: &'a File<'a>,
}

impl Files for Instead<'_> {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        if path == self.file.path { Ok(self.text.clone()) } else { self.file.files.read(path, bytes_max) }
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        self.file.files.matching(pattern)
    }
}
