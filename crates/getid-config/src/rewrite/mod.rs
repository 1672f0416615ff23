//! `CONFIG REWRITE`: changes a configuration file as little as possible, so that it gives the values in force.
//!
//! If the file, or a file that it includes, already has the value in force, the directive's lines stay to the byte; so
//! do comments, blank lines and the order. Another value is written into the directive's first line, and its other
//! lines are removed. A directive without a line gets one at the end, under Redis's marker. The result is read again as
//! a start would, and a value that an included file overrides is repeated after the include.
//!
//! The module is pure: the file's text goes in, the new text comes out. The server writes it.

mod conf;
mod document;
mod error;
mod toml;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use self::conf::ConfText;
use self::document::ConfigDocument;
pub use self::error::RewriteError;
use self::toml::TomlText;
use super::builder::Builder;
use super::directive::Directive;
use super::files::{Files, is_toml};
use super::read::{FILE_BYTES_MAX, Sources, read_all};
use super::row::Line;
use super::secrets;
use super::values::{Config, ConfigValues};

/// The new text of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteResult {
    /// The whole text.
    pub text: Vec<u8>,
    /// Directives that the environment or the command line set to another value than the one in force, which wins at
    /// the next start.
    pub overridden: Vec<&'static str>,
    /// Whether the text has a password, in clear or as a digest.
    pub holds_secret: bool,
}

impl Config {
    /// Returns the file of `sources` with the values in force. A missing file is created.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if no start would accept it. Then its owner must correct it.
    pub fn rewritten(&self, path: &Path, sources: &Sources, files: &dyn Files) -> Result<RewriteResult, RewriteError> {
        let old = match files.read(path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let is_toml = is_toml(path);
        let open = |text: &[u8]| -> Result<Box<dyn ConfigDocument>, RewriteError> {
            Ok(if is_toml { Box::new(TomlText::new(text)?) } else { Box::new(ConfText::new(text)) })
        };
        let rewrite = Rewrite {
            in_force: ConfigValues::of(self),
            file: TargetFile { path, files },
            environment: SourceValues::of(&Sources { file: None, words: Vec::new(), ..sources.clone() }, files),
            command_line: SourceValues::of(&Sources { file: None, environment: Vec::new(), ..sources.clone() }, files),
        };
        let text = rewrite.edit(&mut *open(&old)?, old)?;
        let overridden = rewrite.check(text.clone(), &Sources { file: None, ..sources.clone() })?;
        let holds_secret = holds_secret(&*open(&text)?);
        Ok(RewriteResult { text, overridden, holds_secret })
    }
}

/// A rewrite: the values that the file must give, and the other sources of values.
struct Rewrite<'a> {
    in_force: ConfigValues,
    file: TargetFile<'a>,
    /// Its values stay there: a password in the environment must not get into a file.
    environment: SourceValues,
    command_line: SourceValues,
}

impl Rewrite<'_> {
    /// Puts the values in force into the document, whose text is `old`. Returns the new text.
    fn edit(&self, document: &mut dyn ConfigDocument, old: Vec<u8>) -> Result<Vec<u8>, RewriteError> {
        let before = self.file.values(old.clone())?;
        let mut changed = self.differing(&before);
        changed.retain(|row| row.adds_up_over_sources() || !self.environment.gives(row, &self.in_force));
        for row in &changed {
            let required = self.required_lines(row, &before, &document.own_lines(row.name));
            document.put(row, &self.in_force, &required);
        }
        let text = if changed.is_empty() { old } else { document.text() };
        // Values that a later include overrides are written after it.
        let mut overruled = self.differing(&self.file.values(text.clone())?);
        overruled.retain(|row| !row.adds_up_over_sources() && !self.environment.gives(row, &self.in_force));
        for row in &overruled {
            document.put_last(row, &row.lines(&self.in_force));
        }
        Ok(if overruled.is_empty() { text } else { document.text() })
    }

    /// Checks that a start with this text gets the values in force. Returns the directives that `over`, the other
    /// sources, override.
    fn check(&self, text: Vec<u8>, over: &Sources) -> Result<Vec<&'static str>, RewriteError> {
        let mut next = self.file.builder(text)?;
        let is_reread = |row: &Directive| {
            let is_outside = self.environment.has(row) || row.canonical().is_some() && self.command_line.has(row);
            self.environment.gives(row, &self.in_force) || row.adds_up_over_sources() && is_outside
        };
        if let Some(row) = self.differing(&next.values).into_iter().find(|row| !is_reread(row)) {
            return Err(RewriteError::Included { directive: row.name });
        }
        read_all(over, self.file.files, &mut next);
        match next.problems().first() {
            Some(problem) => Err(RewriteError::NextStart(problem.clone())),
            None => Ok(self.differing(&next.values).into_iter().map(|row| row.name).collect()),
        }
    }

    /// Returns the directives whose values in force differ from a file's.
    fn differing(&self, file: &ConfigValues) -> Vec<&'static Directive> {
        Directive::ALL.iter().filter(|row| row.lines(&self.in_force) != row.lines(file)).collect()
    }

    /// Returns the lines of a directive that the file itself must have. `own` are its present ones.
    fn required_lines(&self, row: &Directive, before: &ConfigValues, own: &[Line]) -> Vec<Line> {
        let mut required = row.lines(&self.in_force);
        if !row.keys().is_empty() {
            // As in Redis, keys with built-in values and without a line get none.
            let built_in = row.lines(&ConfigValues::of(&Config::default()));
            let named = |key| own.iter().any(|line| line.iter().any(|word| key_of(row, word) == Some(key)));
            required.retain(|line| key_of(row, &line[0]).is_some_and(named) || !built_in.contains(line));
        }
        if !row.adds_up_over_sources() {
            return required;
        }
        // Lines of an included file are read from there again.
        let mut included = row.lines(before);
        for line in own {
            match row.canonical() {
                Some(canonical) => take_out(&mut included, &canonical(line)),
                None => take_out(&mut included, line),
            }
        }
        for line in &included {
            take_out(&mut required, line);
        }
        if let Some(canonical) = row.canonical() {
            // In the order of the file.
            let place = |line: &Line| own.iter().position(|other| other.first() == line.first());
            required.sort_by_key(|line| place(line).unwrap_or(own.len()));
            // In the file's words, if they mean the same.
            for line in &mut required {
                if let Some(other) = own.iter().find(|other| canonical(other) == *line) {
                    other.clone_into(line);
                }
            }
            // A start refuses such a line twice.
            self.command_line.take_out(row, own, &mut required);
        }
        self.environment.take_out(row, own, &mut required);
        required
    }
}

/// Whether a file's own lines contain a password.
fn holds_secret(document: &dyn ConfigDocument) -> bool {
    secrets::names().any(|name| document.own_lines(name).iter().any(|words| secrets::is_in(name, words)))
}

/// The values of the environment or the command line alone.
struct SourceValues {
    given: HashSet<&'static str>,
    values: ConfigValues,
}

impl SourceValues {
    fn of(alone: &Sources, files: &dyn Files) -> SourceValues {
        let mut builder = Builder::new();
        read_all(alone, files, &mut builder);
        SourceValues { given: builder.names_set(), values: builder.values }
    }

    fn has(&self, row: &Directive) -> bool {
        self.given.contains(row.name)
    }

    /// Whether this source gives the value in force.
    fn gives(&self, row: &Directive, in_force: &ConfigValues) -> bool {
        self.has(row) && row.lines(&self.values) == row.lines(in_force)
    }

    /// Removes the lines about items that this source declares, whatever their present values, unless the file has them
    /// too.
    fn take_out(&self, row: &Directive, own: &[Line], required: &mut Vec<Line>) {
        if self.has(row) {
            let given = row.lines(&self.values);
            let is_in = |lines: &[Line], name: &String| lines.iter().any(|line| line.first() == Some(name));
            required.retain(|line| line.first().is_none_or(|name| is_in(own, name) || !is_in(&given, name)));
        }
    }
}

fn take_out(lines: &mut Vec<Line>, line: &Line) {
    if let Some(place) = lines.iter().position(|other| other == line) {
        lines.remove(place);
    }
}

/// Returns the name of a key in written lines.
fn key_of(row: &Directive, word: &str) -> Option<&'static str> {
    let names = row.keys().iter().find(|names| names.iter().any(|name| name.eq_ignore_ascii_case(word)))?;
    names.first().copied()
}

/// A file as it would be read with a text that is about to be written.
struct TargetFile<'a> {
    path: &'a Path,
    files: &'a dyn Files,
}

impl TargetFile<'_> {
    /// Reads the file with this text, without environment and command line.
    fn builder(&self, text: Vec<u8>) -> Result<Builder, RewriteError> {
        let mut builder = Builder::new();
        let sources = Sources { file: Some(self.path.to_owned()), ..Sources::default() };
        read_all(&sources, &OverlaidFiles { text, file: self }, &mut builder);
        match builder.problems().first() {
            None => Ok(builder),
            Some(problem) => Err(RewriteError::File(problem.clone())),
        }
    }

    fn values(&self, text: Vec<u8>) -> Result<ConfigValues, RewriteError> {
        Ok(self.builder(text)?.values)
    }
}

/// The files of a start, one of them with another text.
struct OverlaidFiles<'a> {
    text: Vec<u8>,
    file: &'a TargetFile<'a>,
}

impl Files for OverlaidFiles<'_> {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        if path == self.file.path { Ok(self.text.clone()) } else { self.file.files.read(path, bytes_max) }
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        self.file.files.matching(pattern)
    }
}
