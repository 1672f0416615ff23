//! A row of the table of directives: all properties of one directive, and what is derived from them.
//!
//! The readers, `CONFIG GET`, `SET` and `REWRITE`, the server and the tests use these properties and never a
//! directive's name. That holds even for a property that only one directive has.

use std::path::{Path, PathBuf};

use super::conf_syntax::{SyntaxError, quote, words_of};
use super::parse::{YES_NO, choice, memory, mode, number, yes_no};
use super::value_error::ValueError;
use super::values::{Config, ConfigValues};

/// One directive.
#[derive(Debug)]
pub struct Directive {
    /// Name, in lower case.
    pub name: &'static str,
    /// The built-in value as text; empty for none.
    pub default: &'static str,
    /// Meaning of the directive, in one line.
    pub doc: &'static str,
    /// Whether and how the directive changes while the server runs.
    pub change: ChangeMode,
    /// Which part of the value is secret.
    pub secrecy: Secrecy,
    /// The values that the directive accepts, and where they are stored.
    pub(super) shape: ValueShape,
    /// The word that `CONFIG REWRITE` writes, if that differs from `CONFIG GET`. If it returns `None`, no line is
    /// written.
    pub(super) written: Option<fn(&Config) -> Option<String>>,
}

/// How a directive takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeMode {
    /// Only at the start.
    AtStart,
    /// By `CONFIG SET`, at once.
    AtOnce,
    /// By `CONFIG SET`: the value becomes the password of the default user, unless that is in a file of its own.
    Password,
    /// By `CONFIG SET`: certificates are loaded first, even if the value is already in force.
    Certificates,
    /// By `CONFIG SET`, as far as the limit of open files permits.
    OpenFiles,
    /// By `CONFIG SET`, as far as the next start can rely on it.
    BorrowLimit,
    /// In the configuration's files, which SIGHUP reloads.
    Reload,
}

/// Which part of a directive's value is secret: only users who may set it can read it, and no log, report or `MONITOR`
/// shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// No part is secret.
    Open,
    /// The whole value is secret.
    Secret,
    /// Rules of a user, some of which are passwords or their digests.
    Passwords,
    /// Addresses of stores, which may contain passwords.
    Addresses,
}

/// A directive's words in one line, without its name.
pub(super) type Line = Vec<String>;

/// A number, or a word in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberOrWord {
    Number(i64),
    /// One of the row's words.
    Word(&'static str),
}

/// The values that a directive accepts. A setter of the first seven gets a checked value, so it cannot refuse.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueShape {
    Number {
        min: i64,
        max: i64,
        unit: &'static str,
        set: fn(&mut ConfigValues, i64),
        get: fn(&ConfigValues) -> i64,
    },
    /// A number, or one of a few words in its place.
    NumberOr {
        words: &'static [&'static str],
        min: i64,
        max: i64,
        set: fn(&mut ConfigValues, NumberOrWord),
        get: fn(&ConfigValues) -> NumberOrWord,
    },
    Memory {
        min: u64,
        set: fn(&mut ConfigValues, u64),
        get: fn(&ConfigValues) -> u64,
    },
    YesNo {
        set: fn(&mut ConfigValues, bool),
        get: fn(&ConfigValues) -> bool,
    },
    /// One of a few words.
    Word {
        words: &'static [&'static str],
        set: fn(&mut ConfigValues, &str),
        get: fn(&ConfigValues) -> &'static str,
    },
    /// The mode of a file, in octal.
    Mode {
        set: fn(&mut ConfigValues, Option<u32>),
        get: fn(&ConfigValues) -> Option<u32>,
    },
    Text {
        set: fn(&mut ConfigValues, &str),
        get: fn(&ConfigValues) -> &str,
    },
    Path {
        /// Whether a relative path begins in `dir`, and not in the working folder of the start.
        in_dir: bool,
        /// The kind of secret in the file, if there is one.
        holds: Option<&'static str>,
        set: fn(&mut ConfigValues, Option<PathBuf>),
        get: fn(&ConfigValues) -> Option<&Path>,
    },
    /// One word with a syntax of its own.
    Custom {
        expected: &'static str,
        set: fn(&mut ConfigValues, &str) -> Result<(), ValueError>,
        get: fn(&ConfigValues) -> String,
    },
    /// Several words in a line.
    Words {
        count: (usize, usize),
        expected: &'static str,
        /// Whether it is written back as one word in quotes, as Redis does.
        quoted: bool,
        set: fn(&mut ConfigValues, &[String]) -> Result<(), ValueError>,
        get: fn(&ConfigValues) -> Vec<String>,
    },
    /// Lines that add up.
    Lines {
        count: (usize, usize),
        expected: &'static str,
        /// The canonical form of a line, if no two lines may have the same first word.
        canonical: Option<fn(&[String]) -> Line>,
        style: LineStyle,
        /// The setter returns all errors in a line.
        set: fn(&mut ConfigValues, &[String]) -> Result<(), Vec<ValueError>>,
        get: fn(&ConfigValues) -> Vec<Line>,
    },
    /// A value for each of some keys. A line names one or more; other keys keep their values.
    Table {
        count: (usize, usize),
        expected: &'static str,
        /// All names of each key: files are written with the first, `CONFIG GET` replies with the last.
        keys: &'static [&'static [&'static str]],
        /// Redis's text for a wrong value.
        redis_error: fn(&ValueError) -> &'static str,
        set: fn(&mut ConfigValues, &[String]) -> Result<(), ValueError>,
        /// Returns a line for each key, in their order.
        get: fn(&ConfigValues) -> Vec<Line>,
    },
    /// Other directives in one line, each name followed by its value.
    Parts {
        names: &'static [&'static str],
        expected: &'static str,
        get: fn(&ConfigValues) -> String,
    },
    /// Another file, which the reader reads at this place.
    Include,
}

/// How lines that add up are written in forms other than one line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineStyle {
    /// In no other form.
    LinesOnly,
    /// In a TOML table whose keys are the first words.
    Pairs,
    /// Declarations of named items: TOML tables named by the first words, whose keys are options, or several in one
    /// variable. `CONFIG GET` shows them, unlike other lines.
    Declarations,
    /// In an array: named items, each in a line of its own. `CONFIG GET` shows them.
    Named,
    /// In an array, or several in one variable. `CONFIG GET` shows them. They add up only within a source: the lines of
    /// a stronger source replace those of a weaker one.
    Values,
}

impl Directive {
    /// Returns the least and the largest number of words in a line.
    pub fn words(&self) -> (usize, usize) {
        match self.shape {
            ValueShape::Words { count, .. } | ValueShape::Lines { count, .. } | ValueShape::Table { count, .. } => {
                count
            }
            ValueShape::Parts { names, .. } => (2, 2 * names.len()),
            _ => (1, 1),
        }
    }

    /// Returns range and unit, for people.
    pub fn range(&self) -> String {
        match self.shape {
            ValueShape::Number { min, max: i64::MAX, unit, .. } => {
                format!("{min} or more {unit}").trim_end().to_owned()
            }
            ValueShape::Number { min, max, unit, .. } => format!("{min} to {max} {unit}").trim_end().to_owned(),
            ValueShape::NumberOr { words, min, max, .. } => format!("{min} to {max} or {}", words.join(" or ")),
            ValueShape::Memory { min, .. } => format!("{min} or more bytes"),
            ValueShape::YesNo { .. } => "yes, no".to_owned(),
            ValueShape::Word { words, .. } => words.join(", "),
            ValueShape::Mode { .. } => "000 to 777, octal".to_owned(),
            ValueShape::Text { .. } => "text".to_owned(),
            ValueShape::Path { .. } => "path".to_owned(),
            _ => self.expected().to_owned(),
        }
    }

    /// Returns the words that the value is one of; empty if other values are accepted.
    pub fn choices(&self) -> &'static [&'static str] {
        match self.shape {
            ValueShape::YesNo { .. } => YES_NO,
            ValueShape::Word { words, .. } => words,
            _ => &[],
        }
    }

    /// Whether the value is a path.
    pub fn is_path(&self) -> bool {
        matches!(self.shape, ValueShape::Path { .. })
    }

    /// Returns the value in force, as `CONFIG GET` shows it; `None` for directives that it doesn't show.
    pub fn get(&self, config: &Config) -> Option<String> {
        self.shown(&ConfigValues::of(config))
    }

    /// Returns the value as [`Directive::get`] does, while values are being set.
    pub(super) fn shown(&self, values: &ConfigValues) -> Option<String> {
        Some(match self.shape {
            ValueShape::Number { get, .. } => get(values).to_string(),
            ValueShape::NumberOr { get, .. } => match get(values) {
                NumberOrWord::Number(number) => number.to_string(),
                NumberOrWord::Word(word) => word.to_owned(),
            },
            ValueShape::Memory { get, .. } => get(values).to_string(),
            ValueShape::YesNo { get, .. } => yes_no(get(values)).to_owned(),
            ValueShape::Word { get, .. } => get(values).to_owned(),
            ValueShape::Mode { get, .. } => get(values).map_or_else(|| "0".to_owned(), |mode| format!("{mode:o}")),
            ValueShape::Text { get, .. } => get(values).to_owned(),
            ValueShape::Path { get, .. } => get(values).map_or_else(String::new, |path| path.display().to_string()),
            ValueShape::Custom { get, .. } | ValueShape::Parts { get, .. } => get(values),
            ValueShape::Words { get, .. } => get(values).join(" "),
            ValueShape::Table { keys, get, .. } => {
                let shown = get(values).into_iter().zip(keys).flat_map(|(mut line, names)| {
                    line[0] = names.last().map_or_else(String::new, |&name| name.to_owned());
                    line
                });
                shown.collect::<Vec<_>>().join(" ")
            }
            ValueShape::Lines { style: LineStyle::Values, get, .. } => get(values).concat().join("\n"),
            ValueShape::Lines { style: LineStyle::Declarations | LineStyle::Named, get, .. } => {
                let line = |words: Line| words.iter().map(|word| quote(word.as_bytes())).collect::<Vec<_>>().join(" ");
                get(values).into_iter().map(line).collect::<Vec<_>>().join("\n")
            }
            ValueShape::Lines { .. } | ValueShape::Include => return None,
        })
    }

    /// Returns the lines that set the present value.
    pub(super) fn lines(&self, values: &ConfigValues) -> Vec<Line> {
        let word = match (self.shape, self.written) {
            (ValueShape::Words { get, quoted: false, .. }, _) => {
                let words = get(values);
                return vec![if words.is_empty() { vec![String::new()] } else { words }];
            }
            (ValueShape::Lines { get, canonical: Some(canonical), .. }, _) => {
                // Their order has no meaning.
                let mut lines: Vec<_> = get(values).iter().map(|line| canonical(line)).collect();
                lines.sort();
                return lines;
            }
            (ValueShape::Lines { get, .. } | ValueShape::Table { get, .. }, _) => return get(values),
            (ValueShape::Parts { .. } | ValueShape::Include, _) => None,
            (_, Some(written)) => written(&values.config),
            (_, None) => self.shown(values),
        };
        word.map(|word| vec![word]).into_iter().collect()
    }

    /// Checks the words of a line and stores them. Fails with all errors in them.
    pub(super) fn set(&self, values: &mut ConfigValues, words: &[String]) -> Result<(), Vec<ValueError>> {
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
            ValueShape::Number { min, max, unit, set, .. } => set(values, number(word, min, max, unit)?),
            ValueShape::NumberOr { words, min, max, set, .. } => {
                match (choice(word, words), number(word, min, max, "")) {
                    (Ok(word), _) => set(values, NumberOrWord::Word(word)),
                    (_, Ok(number)) => set(values, NumberOrWord::Number(number)),
                    (_, Err(error)) => return Err(ValueError::Or { error: Box::new(error), words }.into()),
                }
            }
            ValueShape::Memory { min, set, .. } => set(values, memory(word, min)?),
            ValueShape::YesNo { set, .. } => set(values, choice(word, YES_NO)? == "yes"),
            ValueShape::Word { words, set, .. } => set(values, choice(word, words)?),
            ValueShape::Mode { set, .. } => set(values, mode(word)?),
            ValueShape::Text { set, .. } => set(values, word),
            ValueShape::Path { set, .. } => set(values, (!word.is_empty()).then(|| PathBuf::from(word))),
            ValueShape::Custom { set, .. } => set(values, word)?,
            ValueShape::Words { set, .. } | ValueShape::Table { set, .. } => set(values, words)?,
            ValueShape::Lines { set, .. } => set(values, words)?,
            ValueShape::Parts { .. } | ValueShape::Include => {}
        }
        Ok(())
    }

    /// Returns the expected form of a line, for an error about its length.
    fn expected(&self) -> &'static str {
        match self.shape {
            ValueShape::Custom { expected, .. }
            | ValueShape::Words { expected, .. }
            | ValueShape::Lines { expected, .. }
            | ValueShape::Table { expected, .. }
            | ValueShape::Parts { expected, .. } => expected,
            ValueShape::Include => "one path",
            _ => "one value",
        }
    }

    /// Whether a line may have several words.
    pub(super) fn takes_words(&self) -> bool {
        self.words().1 > 1
    }

    /// Returns the words inside the single word of a line, as in `bind "127.0.0.1 ::1"`; `None` if the line stays
    /// unchanged.
    pub(super) fn words_in(&self, line: &[String]) -> Option<Result<Line, SyntaxError>> {
        match line {
            [word] if self.takes_words() && !word.is_empty() => Some(words_of(word.as_bytes())),
            _ => None,
        }
    }

    /// Whether each line adds to the previous ones, instead of replacing them.
    pub(super) fn adds_up(&self) -> bool {
        matches!(self.shape, ValueShape::Lines { .. } | ValueShape::Include)
    }

    /// Whether lines add up over all sources, and not only within one.
    pub(super) fn adds_up_over_sources(&self) -> bool {
        self.adds_up() && !self.has_values()
    }

    /// Whether the lines are values, of which there may be several.
    pub(super) fn has_values(&self) -> bool {
        matches!(self.shape, ValueShape::Lines { style: LineStyle::Values, .. })
    }

    /// Whether a TOML file may have a table for the directive.
    pub(super) fn takes_table(&self) -> bool {
        match self.shape {
            ValueShape::Lines { style, .. } => {
                !matches!(style, LineStyle::LinesOnly | LineStyle::Values | LineStyle::Named)
            }
            _ => matches!(self.shape, ValueShape::Table { .. } | ValueShape::Parts { .. }),
        }
    }

    /// Whether the lines declare named items.
    pub(super) fn declares(&self) -> bool {
        matches!(self.shape, ValueShape::Lines { style: LineStyle::Declarations, .. })
    }

    /// Whether one variable may contain several lines.
    pub(super) fn has_lines_in_variable(&self) -> bool {
        matches!(self.shape, ValueShape::Lines { style: LineStyle::Declarations | LineStyle::Named, .. })
    }

    /// Returns the canonical form of lines, for a directive that forbids two lines with the same first word.
    pub(super) fn canonical(&self) -> Option<fn(&[String]) -> Line> {
        match self.shape {
            ValueShape::Lines { canonical, .. } => canonical,
            _ => None,
        }
    }

    /// Returns all names of each key of a table.
    pub(super) fn keys(&self) -> &'static [&'static [&'static str]] {
        match self.shape {
            ValueShape::Table { keys, .. } => keys,
            _ => &[],
        }
    }

    /// Returns the directives that a line sets.
    pub(super) fn parts(&self) -> &'static [&'static str] {
        match self.shape {
            ValueShape::Parts { names, .. } => names,
            _ => &[],
        }
    }

    /// Whether the value is a whole number.
    pub(super) fn is_integer(&self) -> bool {
        matches!(self.shape, ValueShape::Number { .. } | ValueShape::NumberOr { .. })
    }

    /// Whether the value is a number, or a size.
    pub(super) fn is_number(&self) -> bool {
        matches!(
            self.shape,
            ValueShape::Number { .. }
                | ValueShape::NumberOr { .. }
                | ValueShape::Memory { .. }
                | ValueShape::Mode { .. }
        )
    }

    /// Whether a number in a TOML file keeps its octal digits.
    pub(super) fn is_octal(&self) -> bool {
        matches!(self.shape, ValueShape::Mode { .. })
    }
}
