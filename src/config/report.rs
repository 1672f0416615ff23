//! What is wrong with a configuration, said so that the reader can put it right at once.
//!
//! All mistakes stand in one report. The first lines of each block are those of Redis, because people grep for them;
//! the line behind them says where, what, and what was expected:
//!
//! ```text
//! *** FATAL CONFIG FILE ERROR ***
//! Reading the configuration file, at line 57
//! >>> 'id-generator server-id 0 id-range 3 shard-range 9 random-range 10'
//! getid.conf:57: id-generator: id-range + shard-range + random-range is 22, must be 21
//! ```
//!
//! Where no file has to do with it, the first line says `CONFIGURATION` for `CONFIG FILE`; where no line of anything
//! has, the sentence follows in the first line. No password is ever in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::text::printable::printable_up_to;

/// Errors shown in one report. A log file given by mistake has thousands of bad lines; after a screenful nobody reads
/// on.
const PROBLEMS_SHOWN_MAX: usize = 50;

/// Characters of a line that are shown.
const LINE_CHARS_MAX: usize = 200;

/// Characters of a reason: ours are shorter, but a value may stand in them.
const SENTENCE_CHARS_MAX: usize = 400;

/// Characters of a path: Linux has no longer ones.
const PATH_CHARS_MAX: usize = 4096;

/// Directives that do not go together.
pub(super) struct Mistake {
    pub(super) directives: &'static [&'static str],
    pub(super) sentence: String,
    pub(super) help: String,
}

/// Everything that is wrong; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Report {
    problems: Vec<Problem>,
}

impl Report {
    pub(super) fn new(problems: Vec<Problem>) -> Report {
        assert!(!problems.is_empty(), "a report without a problem");
        Report { problems }
    }

    /// A mistake that only the shell can see: a folder that is missing, a command that `rename-command` names twice.
    pub fn from_sentence(sentence: impl Into<String>) -> Report {
        Report::new(vec![Problem::new(Vec::new(), "", sentence)])
    }

    /// Mistakes in an ACL file, or in any other that is no configuration file: by line, from 1, with a sentence each.
    ///
    /// # Panics
    ///
    /// Without a mistake, which would be the caller's.
    pub fn from_lines(path: &Path, subject: &str, mistakes: impl Iterator<Item = (usize, String)>) -> Report {
        let problem = |(line, sentence)| Problem::new(vec![Place::in_file(path, line, "", None)], subject, sentence);
        Report::new(mistakes.map(problem).collect())
    }

    /// What is wrong in one line, without places and heads: for tools.
    pub fn sentences(&self) -> String {
        self.problems.iter().map(Problem::one_line).collect::<Vec<_>>().join("; ")
    }

    /// The first `max` mistakes in one line, with places and what to do, and how many more there are: for the log.
    pub fn in_a_line(&self, max: usize) -> String {
        let told = self.problems.iter().take(max).map(|problem| {
            let help = problem.help.as_ref().map(|help| format!(" ({help})"));
            problem.one_line() + help.as_deref().unwrap_or_default()
        });
        let told = told.collect::<Vec<_>>().join("; ");
        match self.problems.len().saturating_sub(max) {
            0 => told,
            more => format!("{told}; and {more} more, which getid check-config tells"),
        }
    }

    /// One entry for each mistake.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Redis's words, where a file is to blame.
        let is_in_file = self.problems.iter().any(|problem| problem.places.iter().any(Place::is_in_file));
        let what = if is_in_file { "CONFIG FILE" } else { "CONFIGURATION" };
        write!(f, "*** FATAL {what} ERROR ***")?;
        // Without places it is one line: collectors of logs show the first one, and may show no other.
        f.write_str(if self.problems[0].places.is_empty() { " " } else { "\n" })?;
        let shown = &self.problems[..self.problems.len().min(PROBLEMS_SHOWN_MAX)];
        for (index, problem) in shown.iter().enumerate() {
            // The mistakes of one line stand under it together.
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

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Report {}

/// One mistake: where it is, what it is, what to do.
#[derive(Clone, PartialEq, Eq)]
pub struct Problem {
    places: Vec<Place>,
    subject: String,
    sentence: String,
    help: Option<String>,
}

impl Problem {
    pub(super) fn new(places: Vec<Place>, subject: impl Into<String>, sentence: impl Into<String>) -> Problem {
        let (subject, sentence) = (
            printable_up_to(&subject.into(), SENTENCE_CHARS_MAX),
            printable_up_to(&sentence.into(), SENTENCE_CHARS_MAX),
        );
        Problem { places, subject, sentence, help: None }
    }

    /// What is wrong, without place and help.
    pub(super) fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Where and what, in one line.
    pub(super) fn one_line(&self) -> String {
        let places = self.places.iter().map(ToString::to_string);
        let subject = Some(self.subject.clone()).filter(|subject| !subject.is_empty());
        places.chain(subject).chain([self.sentence.clone()]).collect::<Vec<_>>().join(": ")
    }

    /// The pair of a `CONFIG SET` that it is about, from 0.
    pub(super) fn config_set_index(&self) -> Option<usize> {
        let places = self.places.iter().filter(|place| place.source == Source::ConfigSet);
        places.map(|place| place.line).next()
    }

    pub(super) fn with_help(self, help: Option<String>) -> Problem {
        Problem { help: help.map(|help| printable_up_to(&help, SENTENCE_CHARS_MAX)).or(self.help), ..self }
    }

    /// The lines it is about.
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in &self.places {
            match (&place.source, place.line) {
                (Source::File(_), 0) => f.write_str("Reading the configuration file\n")?,
                (Source::File(_), line) => writeln!(f, "Reading the configuration file, at line {line}")?,
                (Source::Environment, _) => f.write_str("Reading the environment\n")?,
                (Source::CommandLine, _) => f.write_str("Reading the command line\n")?,
                (Source::ConfigSet, _) => {}
            }
            if !place.text.is_empty() {
                writeln!(f, ">>> '{}'", place.text)?;
            }
        }
        Ok(())
    }

    /// Where, what, and what to do.
    fn write_sentence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = Vec::new();
        for place in self.places.iter().map(ToString::to_string) {
            // Two variables are both the environment.
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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_sentence(f)
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Something that was accepted and has no effect, or may not be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The line, variable or option.
    pub place: Place,
    /// The directive, or those that share the sentence.
    pub subject: String,
    /// Why it has no effect, or what to look at.
    pub sentence: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, printable_up_to(&self.subject, SENTENCE_CHARS_MAX), self.sentence)
    }
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    source: Source,
    /// From 1; 0: the file as a whole.
    line: usize,
    /// The line, without what must not be shown.
    text: String,
    included_from: Option<Arc<Place>>,
}

impl Place {
    /// A line of a file, or with line 0 the whole of it.
    pub(super) fn in_file(path: &Path, line: usize, text: &str, included_from: Option<Arc<Place>>) -> Place {
        Place { source: Source::File(path.to_owned()), line, text: shown(text), included_from }
    }

    pub(super) fn in_environment(text: &str) -> Place {
        Place { source: Source::Environment, line: 0, text: shown(text), included_from: None }
    }

    pub(super) fn on_command_line(text: &str) -> Place {
        Place { source: Source::CommandLine, line: 0, text: shown(text), included_from: None }
    }

    /// A pair of a `CONFIG SET`, from 0.
    pub(super) fn in_config_set(index: usize) -> Place {
        Place { source: Source::ConfigSet, line: index, text: String::new(), included_from: None }
    }

    pub(super) fn is_in_file(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    pub(super) fn is_on_command_line(&self) -> bool {
        self.source == Source::CommandLine
    }

    /// Whether both are in files, both in the environment, or both on the command line.
    pub(super) fn is_of_same_source(&self, other: &Place) -> bool {
        std::mem::discriminant(&self.source) == std::mem::discriminant(&other.source)
    }

    /// The file the place is in.
    pub fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Environment | Source::CommandLine | Source::ConfigSet => None,
        }
    }

    /// The source and the text that it has.
    pub(super) fn with_text(&self) -> String {
        format!("{self} ({})", self.text)
    }

    /// The line in [`Place::file`], from 1; 0 for the file as a whole.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::File(path) => {
                f.write_str(&printable_up_to(&path.to_string_lossy(), PATH_CHARS_MAX))?;
                if self.line == 0 { Ok(()) } else { write!(f, ":{}", self.line) }
            }
            Source::Environment => f.write_str("environment"),
            Source::CommandLine => f.write_str("command line"),
            Source::ConfigSet => f.write_str("CONFIG SET"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Environment,
    CommandLine,
    ConfigSet,
}

/// A line fit to be printed, without the blanks around it.
fn shown(line: &str) -> String {
    printable_up_to(line.trim_matches([' ', '\t', '\r', '\n']), LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_once() {
        let places = ["GETID_A=1", "GETID_B=2"].map(Place::in_environment);
        let shown = Problem::new(places.to_vec(), "", "they do not go together").to_string();
        assert!(shown.ends_with("\nenvironment: they do not go together\n"), "{shown}");
        let places = [2, 1].map(|line| Place::in_file(Path::new("a.conf"), line, "", None));
        let shown = Problem::new(places.to_vec(), "", "nor these").to_string();
        assert!(shown.ends_with("\na.conf:2, a.conf:1: nor these\n"), "{shown}");
    }

    #[test]
    fn a_line_is_shown_tame_and_short() {
        assert_eq!(shown("  port \u{1b}[2J\t1\r\n"), "port \\u{1b}[2J\\t1");
        assert_eq!(shown(&"é".repeat(500)).chars().count(), LINE_CHARS_MAX + 3);
    }
}
