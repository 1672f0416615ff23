//! `CONFIG SET`: some values of a configuration replaced, by the checks that a file goes through.
//!
//! All or nothing: a builder begins with the configuration in force and takes the pairs in; only when all of it is
//! right does it become a configuration. Error texts and the order of checks are Redis 7.0's; where Redis has no such
//! rule, the text is that of a mistake in a file.

use super::builder::Builder;
use super::conf_syntax::words_of;
use super::directive::{Change, Directive};
use super::ignored::{self, IgnoredDirective};
use super::parse::{MEMORY_MAX, YES_NO, memory};
use super::report::{Place, Problem};
use super::row::Shape;
use super::value_error::ValueError;
use super::values::Config;

/// A directive that `CONFIG SET` names, and its value, as a client sent them.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What `CONFIG SET` made of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The whole, right as one that was loaded.
    pub config: Config,
    /// The directives that were named, in their order; those of Redis without a meaning here are left out.
    pub names: Vec<&'static str>,
}

impl Changed {
    /// The first of the directives that were named that changes in this way.
    pub fn first(&self, change: Change) -> Option<&'static str> {
        self.names.iter().copied().find(|name| Directive::find(name).is_some_and(|row| row.change == change))
    }
}

/// Why `CONFIG SET` changed nothing. `Display` is the error reply without its `-`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// A name that is no directive, or one that no `CONFIG SET` takes.
    #[error("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")]
    Unknown {
        /// As sent.
        name: String,
    },
    /// A value that cannot be.
    #[error("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")]
    Refused {
        /// The directive.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

impl SetError {
    /// A refusal of this directive.
    pub fn refused(name: &str, reason: impl Into<String>) -> SetError {
        SetError::Refused { name: name.to_owned(), reason: reason.into() }
    }
}

const RELOADED: &str = "is changed in the configuration file; SIGHUP has the server read it again";

const NOT_AN_INTEGER: &str = "argument couldn't be parsed into an integer";

/// Bytes of a name that an error quotes.
const NAME_BYTES_MAX: usize = 128;

/// Whose value a pair gives.
#[derive(Clone, Copy)]
enum Target {
    Own(&'static Directive),
    Ignored(IgnoredDirective),
}

impl Target {
    /// `None`: no directive that `CONFIG GET` shows, so none that can be set.
    fn find(name: &str, config: &Config) -> Option<Target> {
        match Directive::find(name) {
            Some(row) => row.get(config).map(|_| Target::Own(row)),
            None => ignored::find(name).filter(|row| row.default.is_some()).map(Target::Ignored),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Target::Own(row) => row.name,
            Target::Ignored(row) => row.name,
        }
    }
}

impl Config {
    /// This configuration with other values, as `CONFIG SET` asks for.
    ///
    /// # Errors
    ///
    /// [`SetError`] for the first pair that is wrong, in Redis's order: all names before any value, and the checks
    /// between values last.
    pub fn set(&self, pairs: &[Pair]) -> Result<Changed, SetError> {
        let targets = self.targets(pairs)?;
        let mut builder = Builder::of(self);
        let mut names = Vec::new();
        for (index, (target, (_, value))) in targets.iter().zip(pairs).enumerate() {
            match *target {
                Target::Own(row) => {
                    let refuse = |reason| SetError::refused(row.name, reason);
                    if let Some(words) = words_for(row, value).map_err(refuse)? {
                        row.set(&mut builder.values, &words).map_err(|errors| refuse(redis_text(row, &errors)))?;
                    }
                    builder.note_place(row.name, &Place::in_config_set(index));
                    names.push(row.name);
                }
                Target::Ignored(row) => keeps(row, value)?,
            }
        }
        match builder.finish() {
            Ok((config, _)) => Ok(Changed { config, names }),
            Err(problems) => {
                let first = problems.first();
                let index = first.and_then(Problem::config_set_index).unwrap_or_default();
                let name = targets.get(index).map_or("", |target| target.name());
                Err(SetError::refused(name, first.map_or("", |problem| problem.sentence())))
            }
        }
    }

    /// The directives that are named: all there, all changeable, each once.
    fn targets(&self, pairs: &[Pair]) -> Result<Vec<Target>, SetError> {
        let mut targets: Vec<Target> = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            let shown = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned();
            let lower = shown.to_ascii_lowercase();
            let Some(target) = Target::find(&lower, self) else { return Err(SetError::Unknown { name: shown }) };
            let fixed = match target {
                Target::Own(row) if row.change == Change::AtStart => Some("can't set immutable config"),
                Target::Own(row) if row.change == Change::Reload => Some(RELOADED),
                _ => None,
            };
            if let Some(reason) = fixed {
                return Err(SetError::refused(&shown, reason));
            }
            if targets.iter().any(|other| other.name() == target.name()) {
                return Err(SetError::refused(&shown, "duplicate parameter"));
            }
            targets.push(target);
        }
        Ok(targets)
    }
}

/// The words of a value; `None` for none where Redis takes that for nothing to change.
fn words_for(row: &Directive, value: &[u8]) -> Result<Option<Vec<String>>, String> {
    if row.takes_words() {
        let words = words_of(value)?;
        // An empty list is its default, as in Redis; in a table it changes no key.
        let empty = row.keys().is_empty().then(|| vec![String::new()]);
        return Ok(if words.is_empty() { empty } else { Some(words) });
    }
    let word = String::from_utf8(value.to_vec()).map_err(|_| ValueError::NotUtf8.to_string())?;
    // A file may have 05, and always could. Redis's CONFIG SET may not.
    let digits = word.strip_prefix('-').unwrap_or(&word);
    if row.is_integer() && digits.len() > 1 && digits.starts_with('0') {
        return Err(NOT_AN_INTEGER.to_owned());
    }
    Ok(Some(vec![word]))
}

/// An ignored directive has one value: a tool that sets what is so already (`appendonly no`) gets `OK`, and one that
/// asks for more is told that it cannot have it.
fn keeps(row: IgnoredDirective, value: &[u8]) -> Result<(), SetError> {
    let default = row.default.unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    let size = |word: &str| memory(word, 0).ok();
    if value.eq_ignore_ascii_case(default) || size(&value).is_some_and(|bytes| size(default) == Some(bytes)) {
        return Ok(());
    }
    let reason = format!("{}, so '{default}' is the only value it can have", row.because.reason());
    Err(SetError::refused(row.name, reason))
}

/// A mistake in the words that Redis has for it; clients and tools know them.
fn redis_text(row: &Directive, errors: &[ValueError]) -> String {
    let Some(error) = errors.first() else { return String::new() };
    if let Shape::Table { redis_error, .. } = row.shape {
        return redis_error(error).to_owned();
    }
    match error {
        ValueError::Number { .. } => NOT_AN_INTEGER.to_owned(),
        ValueError::Range { found, .. } if found.parse::<i64>().is_err() => NOT_AN_INTEGER.to_owned(),
        ValueError::Range { min, max, .. } => format!("argument must be between {min} and {max} inclusive"),
        ValueError::Memory { .. } => "argument must be a memory value".to_owned(),
        ValueError::MemoryRange { min, .. } => {
            format!("argument must be between {min} and {MEMORY_MAX} inclusive")
        }
        ValueError::Word { words, .. } if *words == YES_NO => "argument must be 'yes' or 'no'".to_owned(),
        ValueError::Word { words, .. } => format!("argument(s) must be one of the following: {}", words.join(", ")),
        other => other.to_string(),
    }
}
