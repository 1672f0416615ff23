//! A row of the table of directives: all that is said of one directive, and what follows from it.
//!
//! The readers, `CONFIG GET`, `SET` and `REWRITE`, the server and the tests look at these properties and never at a
//! directive's name. A property that only one directive has is a property all the same.

use std::path::{Path, PathBuf};

use super::conf_syntax::{quote, words_of};
use super::parse::{YES_NO, choice, memory, mode, number, yes_no};
use super::value_error::ValueError;
use super::values::{Config, Values};

/// One directive.
#[derive(Debug)]
pub struct Directive {
    /// As it is written, in lower case.
    pub name: &'static str,
    /// The built-in value as text; empty for none.
    pub default: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Whether and how it changes while the server runs.
    pub change: Change,
    /// What of its value must not be shown.
    pub secrecy: Secrecy,
    /// What values it takes, and where they go.
    pub(super) shape: Shape,
    /// What `CONFIG REWRITE` writes for one word where that is not what `CONFIG GET` shows; `None` from it: no line.
    pub(super) written: Option<fn(&Config) -> Option<String>>,
}

/// How a directive takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At the start only.
    AtStart,
    /// By `CONFIG SET`, at once.
    AtOnce,
    /// By `CONFIG SET`: it becomes the password of the default user, unless that is in a file of its own.
    Password,
    /// By `CONFIG SET`: certificates are loaded first, even when the value is the one in force.
    Certificates,
    /// By `CONFIG SET`, as far as the limit of open files allows.
    OpenFiles,
    /// By `CONFIG SET`, as far as the next start can rely on it.
    BorrowLimit,
    /// In the configuration's files, which SIGHUP has read again.
    Reload,
}

/// What of a directive's value is shown only to those who may set it, and in no log, report or `MONITOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// Nothing: everybody may see all of it.
    Open,
    /// All of it.
    Secret,
    /// Rules of a user, of which some are passwords or their digests.
    Passwords,
    /// Addresses of stores, which may have passwords in them.
    Addresses,
}

/// A directive's words in one line, without its name.
pub(super) type Line = Vec<String>;

/// What stands for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberOrWord {
    Number(i64),
    /// One of the row's words.
    Word(&'static str),
}

/// What values a directive takes. A setter of the first seven gets a value that was checked, so that it cannot refuse.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Number {
        min: i64,
        max: i64,
        unit: &'static str,
        set: fn(&mut Values, i64),
        get: fn(&Values) -> i64,
    },
    /// A number, or one of a few words in its place.
    NumberOr {
        words: &'static [&'static str],
        min: i64,
        max: i64,
        set: fn(&mut Values, NumberOrWord),
        get: fn(&Values) -> NumberOrWord,
    },
    Memory {
        min: u64,
        set: fn(&mut Values, u64),
        get: fn(&Values) -> u64,
    },
    YesNo {
        set: fn(&mut Values, bool),
        get: fn(&Values) -> bool,
    },
    /// One of a few words.
    Word {
        words: &'static [&'static str],
        set: fn(&mut Values, &str),
        get: fn(&Values) -> &'static str,
    },
    /// The mode of a file, in octal.
    Mode {
        set: fn(&mut Values, Option<u32>),
        get: fn(&Values) -> Option<u32>,
    },
    Text {
        set: fn(&mut Values, &str),
        get: fn(&Values) -> &str,
    },
    Path {
        /// Whether a relative one begins in `dir`, and not where the server was started.
        in_dir: bool,
        /// The secret in the file, if there is one.
        holds: Option<&'static str>,
        set: fn(&mut Values, Option<PathBuf>),
        get: fn(&Values) -> Option<&Path>,
    },
    /// One word with a syntax of its own.
    Custom {
        expected: &'static str,
        set: fn(&mut Values, &str) -> Result<(), ValueError>,
        get: fn(&Values) -> String,
    },
    /// Several words in a line.
    Words {
        count: (usize, usize),
        expected: &'static str,
        /// Written back as one word in quotes, as Redis does.
        quoted: bool,
        set: fn(&mut Values, &[String]) -> Result<(), ValueError>,
        get: fn(&Values) -> Vec<String>,
    },
    /// Lines that add up.
    Lines {
        count: (usize, usize),
        expected: &'static str,
        /// Where no two lines may have the same first word: one form for all lines that mean the same.
        canonical: Option<fn(&[String]) -> Line>,
        style: LineStyle,
        /// Its errors are all that is wrong with a line.
        set: fn(&mut Values, &[String]) -> Result<(), Vec<ValueError>>,
        get: fn(&Values) -> Vec<Line>,
    },
    /// A value for each of some keys. A line names one or more; a key that it does not name keeps its value.
    Table {
        count: (usize, usize),
        expected: &'static str,
        /// All names of each key: files are written with the first, `CONFIG GET` answers with the last.
        keys: &'static [&'static [&'static str]],
        /// What Redis says of a wrong value.
        redis_error: fn(&ValueError) -> &'static str,
        set: fn(&mut Values, &[String]) -> Result<(), ValueError>,
        /// A line for each key, in their order.
        get: fn(&Values) -> Vec<Line>,
    },
    /// Other directives in one line, each name with its value behind it.
    Parts {
        names: &'static [&'static str],
        expected: &'static str,
        get: fn(&Values) -> String,
    },
    /// Another file, which the reader reads at this place.
    Include,
}

/// How lines that add up are written elsewhere than in a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineStyle {
    /// Nowhere.
    LinesOnly,
    /// In a TOML table whose keys are the first words.
    Pairs,
    /// Declarations of named things: in TOML tables named by the first words, whose keys are options; several in one
    /// variable. `CONFIG GET` shows them, which it does with no others.
    Declarations,
    /// In an array: named things, each in a line of its own. `CONFIG GET` shows them.
    Named,
    /// In an array, or several in one variable. `CONFIG GET` shows them. They add up within a source only: the lines of
    /// a stronger one take the place of those of a weaker one.
    Values,
}

impl Directive {
    /// How many words a line of it has.
    pub fn words(&self) -> (usize, usize) {
        match self.shape {
            Shape::Words { count, .. } | Shape::Lines { count, .. } | Shape::Table { count, .. } => count,
            Shape::Parts { names, .. } => (2, 2 * names.len()),
            _ => (1, 1),
        }
    }

    /// Range and unit, for people.
    pub fn range(&self) -> String {
        match self.shape {
            Shape::Number { min, max: i64::MAX, unit, .. } => format!("{min} or more {unit}").trim_end().to_owned(),
            Shape::Number { min, max, unit, .. } => format!("{min} to {max} {unit}").trim_end().to_owned(),
            Shape::NumberOr { words, min, max, .. } => format!("{min} to {max} or {}", words.join(" or ")),
            Shape::Memory { min, .. } => format!("{min} or more bytes"),
            Shape::YesNo { .. } => "yes, no".to_owned(),
            Shape::Word { words, .. } => words.join(", "),
            Shape::Mode { .. } => "000 to 777, octal".to_owned(),
            Shape::Text { .. } => "text".to_owned(),
            Shape::Path { .. } => "path".to_owned(),
            _ => self.expected().to_owned(),
        }
    }

    /// The words of which its value is one; empty where there are others.
    pub fn choices(&self) -> &'static [&'static str] {
        match self.shape {
            Shape::YesNo { .. } => YES_NO,
            Shape::Word { words, .. } => words,
            _ => &[],
        }
    }

    /// Whether its value is a path.
    pub fn is_path(&self) -> bool {
        matches!(self.shape, Shape::Path { .. })
    }

    /// The value that is in force, as `CONFIG GET` shows it; `None` for directives it doesn't show.
    pub fn get(&self, config: &Config) -> Option<String> {
        self.shown(&Values::of(config))
    }

    /// [`Directive::get`] while values are being set.
    pub(super) fn shown(&self, values: &Values) -> Option<String> {
        Some(match self.shape {
            Shape::Number { get, .. } => get(values).to_string(),
            Shape::NumberOr { get, .. } => match get(values) {
                NumberOrWord::Number(number) => number.to_string(),
                NumberOrWord::Word(word) => word.to_owned(),
            },
            Shape::Memory { get, .. } => get(values).to_string(),
            Shape::YesNo { get, .. } => yes_no(get(values)).to_owned(),
            Shape::Word { get, .. } => get(values).to_owned(),
            Shape::Mode { get, .. } => get(values).map_or_else(|| "0".to_owned(), |mode| format!("{mode:o}")),
            Shape::Text { get, .. } => get(values).to_owned(),
            Shape::Path { get, .. } => get(values).map_or_else(String::new, |path| path.display().to_string()),
            Shape::Custom { get, .. } | Shape::Parts { get, .. } => get(values),
            Shape::Words { get, .. } => get(values).join(" "),
            Shape::Table { keys, get, .. } => {
                let shown = get(values).into_iter().zip(keys).flat_map(|(mut line, names)| {
                    line[0] = names.last().map_or_else(String::new, |&name| name.to_owned());
                    line
                });
                shown.collect::<Vec<_>>().join(" ")
            }
            Shape::Lines { style: LineStyle::Values, get, .. } => get(values).concat().join("\n"),
            Shape::Lines { style: LineStyle::Declarations | LineStyle::Named, get, .. } => {
                let line = |words: Line| words.iter().map(|word| quote(word.as_bytes())).collect::<Vec<_>>().join(" ");
                get(values).into_iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Shape::Lines { .. } | Shape::Include => return None,
        })
    }

    /// The lines that give it the value it has.
    pub(super) fn lines(&self, values: &Values) -> Vec<Line> {
        let word = match (self.shape, self.written) {
            (Shape::Words { get, quoted: false, .. }, _) => {
                let words = get(values);
                return vec![if words.is_empty() { vec![String::new()] } else { words }];
            }
            (Shape::Lines { get, canonical: Some(canonical), .. }, _) => {
                // Their order means nothing.
                let mut lines: Vec<_> = get(values).iter().map(|line| canonical(line)).collect();
                lines.sort();
                return lines;
            }
            (Shape::Lines { get, .. } | Shape::Table { get, .. }, _) => return get(values),
            (Shape::Parts { .. } | Shape::Include, _) => None,
            (_, Some(written)) => written(&values.config),
            (_, None) => self.shown(values),
        };
        word.map(|word| vec![word]).into_iter().collect()
    }

    /// Checks the words of a line and puts them where they belong; else all that is wrong with them.
    pub(super) fn set(&self, values: &mut Values, words: &[String]) -> Result<(), Vec<ValueError>> {
        let (least, most) = self.words();
        if !(least..=most).contains(&words.len()) {
            let found = match words.len() {
                0 => "no value".to_owned(),
                1 => "one value".to_owned(),
                count => format!("{count} values"),
            };
            return Err(ValueError::Count { found, expected: self.expected() }.into());
        }
        let word = words.first().map_or("", String::as_str);
        match self.shape {
            Shape::Number { min, max, unit, set, .. } => set(values, number(word, min, max, unit)?),
            Shape::NumberOr { words, min, max, set, .. } => match (choice(word, words), number(word, min, max, "")) {
                (Ok(word), _) => set(values, NumberOrWord::Word(word)),
                (_, Ok(number)) => set(values, NumberOrWord::Number(number)),
                (_, Err(error)) => return Err(ValueError::Or { error: Box::new(error), words }.into()),
            },
            Shape::Memory { min, set, .. } => set(values, memory(word, min)?),
            Shape::YesNo { set, .. } => set(values, choice(word, YES_NO)? == "yes"),
            Shape::Word { words, set, .. } => set(values, choice(word, words)?),
            Shape::Mode { set, .. } => set(values, mode(word)?),
            Shape::Text { set, .. } => set(values, word),
            Shape::Path { set, .. } => set(values, (!word.is_empty()).then(|| PathBuf::from(word))),
            Shape::Custom { set, .. } => set(values, word)?,
            Shape::Words { set, .. } | Shape::Table { set, .. } => set(values, words)?,
            Shape::Lines { set, .. } => set(values, words)?,
            Shape::Parts { .. } | Shape::Include => {}
        }
        Ok(())
    }

    /// What a line has to have, where its length is wrong.
    fn expected(&self) -> &'static str {
        match self.shape {
            Shape::Custom { expected, .. }
            | Shape::Words { expected, .. }
            | Shape::Lines { expected, .. }
            | Shape::Table { expected, .. }
            | Shape::Parts { expected, .. } => expected,
            Shape::Include => "one path",
            _ => "one value",
        }
    }

    /// Whether a line of it may have several words.
    pub(super) fn takes_words(&self) -> bool {
        self.words().1 > 1
    }

    /// The words that the single word of a line stands for, as in `bind "127.0.0.1 ::1"`; `None`: the line is as it is.
    pub(super) fn words_in(&self, line: &[String]) -> Option<Result<Line, String>> {
        match line {
            [word] if self.takes_words() && !word.is_empty() => Some(words_of(word.as_bytes())),
            _ => None,
        }
    }

    /// Whether each line adds to those before, instead of replacing them.
    pub(super) fn adds_up(&self) -> bool {
        matches!(self.shape, Shape::Lines { .. } | Shape::Include)
    }

    /// Whether they do over all sources, and not within one only.
    pub(super) fn adds_up_over_sources(&self) -> bool {
        self.adds_up() && !self.has_values()
    }

    /// Whether its lines are values of which there may be several.
    pub(super) fn has_values(&self) -> bool {
        matches!(self.shape, Shape::Lines { style: LineStyle::Values, .. })
    }

    /// Whether a TOML file may have a table for it.
    pub(super) fn takes_table(&self) -> bool {
        match self.shape {
            Shape::Lines { style, .. } => !matches!(style, LineStyle::LinesOnly | LineStyle::Values | LineStyle::Named),
            _ => matches!(self.shape, Shape::Table { .. } | Shape::Parts { .. }),
        }
    }

    /// Whether its lines declare named things.
    pub(super) fn declares(&self) -> bool {
        matches!(self.shape, Shape::Lines { style: LineStyle::Declarations, .. })
    }

    /// Whether one variable may have several lines.
    pub(super) fn has_lines_in_variable(&self) -> bool {
        matches!(self.shape, Shape::Lines { style: LineStyle::Declarations | LineStyle::Named, .. })
    }

    /// One form for all lines that mean the same, where no two may have the same first word.
    pub(super) fn canonical(&self) -> Option<fn(&[String]) -> Line> {
        match self.shape {
            Shape::Lines { canonical, .. } => canonical,
            _ => None,
        }
    }

    /// All names of each key of a table.
    pub(super) fn keys(&self) -> &'static [&'static [&'static str]] {
        match self.shape {
            Shape::Table { keys, .. } => keys,
            _ => &[],
        }
    }

    /// The directives that a line of it sets.
    pub(super) fn parts(&self) -> &'static [&'static str] {
        match self.shape {
            Shape::Parts { names, .. } => names,
            _ => &[],
        }
    }

    /// Whether its value is a whole number.
    pub(super) fn is_integer(&self) -> bool {
        matches!(self.shape, Shape::Number { .. } | Shape::NumberOr { .. })
    }

    /// Whether its value is a number, or a size.
    pub(super) fn is_number(&self) -> bool {
        matches!(self.shape, Shape::Number { .. } | Shape::NumberOr { .. } | Shape::Memory { .. } | Shape::Mode { .. })
    }

    /// Whether a number in a TOML file keeps its octal digits.
    pub(super) fn is_octal(&self) -> bool {
        matches!(self.shape, Shape::Mode { .. })
    }
}
