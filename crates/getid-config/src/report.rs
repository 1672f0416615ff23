//! Reports of errors in a configuration, with their remedies.
//!
//! One report has all errors. The first lines of each block are those of Redis, because people search for them. The
//! next line has the place, the error and the expected value:
//!
//! ```text
//! *** FATAL CONFIG FILE ERROR ***
//! Reading the configuration file, at line 57
//! >>> 'id-generator server-id 0 id-range 3 shard-range 9 random-range 10'
//! getid.conf:57: id-generator: id-range + shard-range + random-range is 22, must be 21
//! ```
//!
//! If no file is involved, the first line has `CONFIGURATION` in place of `CONFIG FILE`. If no line of any source is,
//! the sentence follows in the first line. A report never contains a password.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getid_text::printable::printable_up_to;

/// Largest number of errors shown in one report. A log file given by mistake has thousands of bad lines, and a
/// screenful is enough.
const PROBLEMS_SHOWN_MAX: usize = 50;

/// Largest part of a line that is shown, characters.
const LINE_CHARS_MAX: usize = 200;

/// Largest part of a reason, characters: getid's texts are shorter, but may contain a value.
const SENTENCE_CHARS_MAX: usize = 400;

/// Longest path that is shown, characters: Linux has no longer ones.
const PATH_CHARS_MAX: usize = 4096;

/// A conflict between directives.
pub(super) struct DirectiveConflict {
    pub(super) directives: Vec<&'static str>,
    pub(super) sentence: String,
    pub(super) help: String,
}

impl DirectiveConflict {
    pub(super) fn new(
        directives: &[&'static str],
        sentence: impl Into<String>,
        help: impl Into<String>,
    ) -> DirectiveConflict {
        DirectiveConflict { directives: directives.to_vec(), sentence: sentence.into(), help: help.into() }
    }
}

/// All errors of a configuration; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigReport {
    problems: Vec<ConfigProblem>,
}

impl ConfigReport {
    pub(super) fn new(problems: Vec<ConfigProblem>) -> ConfigReport {
        assert!(!problems.is_empty(), "a report without a problem");
        ConfigReport { problems }
    }

    /// Returns a report of an error that only the shell finds: a missing folder, a command that `rename-command` names
    /// twice.
    pub fn from_sentence(sentence: impl fmt::Display) -> ConfigReport {
        ConfigReport::new(vec![ConfigProblem::new(Vec::new(), "", sentence)])
    }

    /// Returns a report of errors in an ACL file, or in another file that is no configuration file. Each error has a
    /// line, from 1, and a sentence.
    ///
    /// # Panics
    ///
    /// Panics without an error.
    pub fn from_lines(path: &Path, subject: &str, conflicts: impl Iterator<Item = (usize, String)>) -> ConfigReport {
        let problem =
            |(line, sentence)| ConfigProblem::new(vec![SettingPlace::in_file(path, line, "", None)], subject, sentence);
        ConfigReport::new(conflicts.map(problem).collect())
    }

    /// Returns the errors in one line, without places and heads, for tools.
    pub fn sentences(&self) -> String {
        self.problems.iter().map(ConfigProblem::one_line).collect::<Vec<_>>().join("; ")
    }

    /// Returns the first `max` errors in one line, with places and remedies, and the number of others, for the log.
    pub fn in_a_line(&self, max: usize) -> String {
        let shown = self.problems.iter().take(max).map(|problem| {
            let help = problem.help.as_ref().map(|help| format!(" ({help})"));
            problem.one_line() + help.as_deref().unwrap_or_default()
        });
        let shown = shown.collect::<Vec<_>>().join("; ");
        match self.problems.len().saturating_sub(max) {
            0 => shown,
            more => format!("{shown}; and {more} more; getid check-config lists all"),
        }
    }

    /// Returns one entry for each error.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Redis's words, if the error is in a file.
        let is_in_file = self.problems.iter().any(|problem| problem.places.iter().any(SettingPlace::is_in_file));
        let what = if is_in_file { "CONFIG FILE" } else { "CONFIGURATION" };
        write!(f, "*** FATAL {what} ERROR ***")?;
        // Without places it is one line, because collectors of logs may show only the first one.
        f.write_str(if self.problems[0].places.is_empty() { " " } else { "\n" })?;
        let shown = &self.problems[..self.problems.len().min(PROBLEMS_SHOWN_MAX)];
        for (index, problem) in shown.iter().enumerate() {
            // The errors of one line have a common head.
            let before = index.checked_sub(1).map(|before| shown[before].places.as_slice());
            if before.is_none_or(|places| places.is_empty() || places != problem.places) {
                f.write_str(if index > 0 { "\n" } else { "" })?;
                problem.write_head(f)?;
            }
            problem.write_sentence(f)?;
        }
        match self.problems.len() {
            1 => Ok(()),
            count if count > shown.len() => writeln!(f, "\n{count} errors, of which {} are shown", shown.len()),
            count => writeln!(f, "\n{count} errors"),
        }
    }
}

impl fmt::Debug for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for ConfigReport {}

/// One error, with its place and its remedy.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    places: Vec<SettingPlace>,
    subject: String,
    sentence: String,
    help: Option<String>,
}

impl ConfigProblem {
    pub(super) fn new(
        places: Vec<SettingPlace>,
        subject: impl Into<String>,
        sentence: impl fmt::Display,
    ) -> ConfigProblem {
        let (subject, sentence) = (
            printable_up_to(&subject.into(), SENTENCE_CHARS_MAX),
            printable_up_to(&sentence.to_string(), SENTENCE_CHARS_MAX),
        );
        ConfigProblem { places, subject, sentence, help: None }
    }

    /// Returns the error, without place and remedy.
    pub(super) fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Returns the place and the error, in one line.
    pub(super) fn one_line(&self) -> String {
        let places = self.places.iter().map(ToString::to_string);
        let subject = Some(self.subject.clone()).filter(|subject| !subject.is_empty());
        places.chain(subject).chain([self.sentence.clone()]).collect::<Vec<_>>().join(": ")
    }

    /// Returns the index of the `CONFIG SET` pair with the error, from 0.
    pub(super) fn config_set_index(&self) -> Option<usize> {
        let places = self.places.iter().filter(|place| place.source == SettingSource::ConfigSet);
        places.map(|place| place.line).next()
    }

    pub(super) fn with_help(self, help: Option<String>) -> ConfigProblem {
        ConfigProblem { help: help.map(|help| printable_up_to(&help, SENTENCE_CHARS_MAX)).or(self.help), ..self }
    }

    /// Writes the lines with the error.
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in &self.places {
            match (&place.source, place.line) {
                (SettingSource::File(_), 0) => f.write_str("Reading the configuration file\n")?,
                (SettingSource::File(_), line) => writeln!(f, "Reading the configuration file, at line {line}")?,
                (SettingSource::Environment, _) => f.write_str("Reading the environment\n")?,
                (SettingSource::CommandLine, _) => f.write_str("Reading the command line\n")?,
                (SettingSource::ConfigSet, _) => {}
            }
            if !place.text.is_empty() {
                writeln!(f, ">>> '{}'", place.text)?;
            }
        }
        Ok(())
    }

    /// Writes the place, the error and the remedy.
    fn write_sentence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = Vec::new();
        for place in self.places.iter().map(ToString::to_string) {
            // Two variables have the same place, the environment.
            if !named.contains(&place) {
                write!(f, "{}{place}", if named.is_empty() { "" } else { ", " })?;
                named.push(place);
            }
        }
        if !self.places.is_empty() {
            f.write_str(": ")?;
        }
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.sentence)?;
        if let Some(included_from) = self.places.iter().find_map(|place| place.included_from.as_ref()) {
            write!(f, " (included from {included_from})")?;
        }
        f.write_str("\n")?;
        self.help.iter().try_for_each(|help| writeln!(f, "    help: {help}"))
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_sentence(f)
    }
}

impl fmt::Debug for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A warning about a setting that was accepted, but has no effect or may not be intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The line, variable or option.
    pub place: SettingPlace,
    /// The directive, or those with the same sentence.
    pub subject: String,
    /// Why it has no effect, or what to check.
    pub sentence: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, printable_up_to(&self.subject, SENTENCE_CHARS_MAX), self.sentence)
    }
}

/// Place of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingPlace {
    source: SettingSource,
    /// Line number from 1; 0 for the file as a whole.
    line: usize,
    /// The line, without its secrets.
    text: String,
    included_from: Option<Arc<SettingPlace>>,
}

impl SettingPlace {
    /// Returns the place of a line of a file, or with line 0 of the whole file.
    pub(super) fn in_file(
        path: &Path,
        line: usize,
        text: &str,
        included_from: Option<Arc<SettingPlace>>,
    ) -> SettingPlace {
        SettingPlace { source: SettingSource::File(path.to_owned()), line, text: shown(text), included_from }
    }

    pub(super) fn in_environment(text: &str) -> SettingPlace {
        SettingPlace { source: SettingSource::Environment, line: 0, text: shown(text), included_from: None }
    }

    pub(super) fn on_command_line(text: &str) -> SettingPlace {
        SettingPlace { source: SettingSource::CommandLine, line: 0, text: shown(text), included_from: None }
    }

    /// Returns the place of a pair of a `CONFIG SET`, from 0.
    pub(super) fn in_config_set(index: usize) -> SettingPlace {
        SettingPlace { source: SettingSource::ConfigSet, line: index, text: String::new(), included_from: None }
    }

    pub(super) fn is_in_file(&self) -> bool {
        matches!(self.source, SettingSource::File(_))
    }

    pub(super) fn is_on_command_line(&self) -> bool {
        self.source == SettingSource::CommandLine
    }

    /// Whether both are in files, both in the environment, or both on the command line.
    pub(super) fn is_of_same_source(&self, other: &SettingPlace) -> bool {
        std::mem::discriminant(&self.source) == std::mem::discriminant(&other.source)
    }

    /// Returns the file of the place.
    pub fn file(&self) -> Option<&Path> {
        match &self.source {
            SettingSource::File(path) => Some(path),
            SettingSource::Environment | SettingSource::CommandLine | SettingSource::ConfigSet => None,
        }
    }

    /// Returns the source with the text.
    pub(super) fn with_text(&self) -> String {
        format!("{self} ({})", self.text)
    }

    /// Returns the line in [`SettingPlace::file`], from 1; 0 for the file as a whole.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            SettingSource::File(path) => {
                f.write_str(&printable_up_to(&path.to_string_lossy(), PATH_CHARS_MAX))?;
                if self.line == 0 { Ok(()) } else { write!(f, ":{}", self.line) }
            }
            SettingSource::Environment => f.write_str("environment"),
            SettingSource::CommandLine => f.write_str("command line"),
            SettingSource::ConfigSet => f.write_str("CONFIG SET"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SettingSource {
    File(PathBuf),
    Environment,
    CommandLine,
    ConfigSet,
}

/// Returns a line without surrounding blanks, with control characters escaped.
fn shown(line: &str) -> String {
    printable_up_to(line.trim_matches([' ', '\t', '\r', '\n']), LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_once() {
        let places = ["GETID_A=1", "GETID_B=2"].map(SettingPlace::in_environment);
        let shown = ConfigProblem::new(places.to_vec(), "", "they do not go together").to_string();
        assert!(shown.ends_with("\nenvironment: they do not go together\n"), "{shown}");
        let places = [2, 1].map(|line| SettingPlace::in_file(Path::new("a.conf"), line, "", None));
        let shown = ConfigProblem::new(places.to_vec(), "", "nor these").to_string();
        assert!(shown.ends_with("\na.conf:2, a.conf:1: nor these\n"), "{shown}");
    }

    #[test]
    fn shown_lines_are_printable_and_short() {
        assert_eq!(shown("  port \u{1b}[2J\t1\r\n"), "port \\u{1b}[2J\\t1");
        assert_eq!(shown(&"é".repeat(500)).chars().count(), LINE_CHARS_MAX + 3);
    }
}
