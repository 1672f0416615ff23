//! `CONFIG SET`: replaces some values of a configuration, with the checks of a file.
//!
//! All values are set or none. A builder begins with the configuration in force and applies the pairs, and the result
//! replaces the configuration only if all of it is valid. Error texts and the order of checks are Redis 7.0's. For
//! rules that Redis does not have, the text is that of an error in a file.

use super::builder::Builder;
use super::conf_syntax::{SyntaxError, words_of};
use super::directive::{ChangeMode, Directive};
use super::ignored::{self, IgnoredDirective};
use super::parse::{MEMORY_MAX, YES_NO, memory};
use super::report::{ConfigProblem, SettingPlace};
use super::row::ValueShape;
use super::value_error::ValueError;
use super::values::Config;

/// A directive and its value, as a client sent them to `CONFIG SET`.
pub type SettingPair = (Vec<u8>, Vec<u8>);

/// Result of a `CONFIG SET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The whole new configuration, as valid as a loaded one.
    pub config: Config,
    /// The directives of the pairs, in their order; Redis's without a meaning here are left out.
    pub names: Vec<&'static str>,
}

impl ConfigChange {
    /// Returns the first of the directives with this way of changing.
    pub fn first(&self, change: ChangeMode) -> Option<&'static str> {
        self.names.iter().copied().find(|name| Directive::find(name).is_some_and(|row| row.change == change))
    }
}

/// Why `CONFIG SET` changed nothing. `Display` is the error reply without its `-`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The name is no directive, or none that `CONFIG SET` accepts.
    #[error("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")]
    Unknown {
        /// The name as sent.
        name: String,
    },
    /// The value is not valid.
    #[error("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")]
    Refused {
        /// The directive of the value.
        name: String,
        /// The reason of the refusal.
        reason: String,
    },
}

impl SetError {
    /// Returns a refusal of this directive's value.
    pub fn refused(name: &str, reason: impl Into<String>) -> SetError {
        SetError::Refused { name: name.to_owned(), reason: reason.into() }
    }
}

const RELOADED: &str = "is changed in the configuration file; send SIGHUP to reload it";

/// Largest part of a name that an error quotes, bytes.
const NAME_BYTES_MAX: usize = 128;

/// The directive of a pair.
#[derive(Clone, Copy)]
enum SetTarget {
    Own(&'static Directive),
    Ignored(IgnoredDirective),
}

impl SetTarget {
    /// Returns the directive of this name; `None` if `CONFIG GET` does not show it, so that it cannot be set.
    fn find(name: &str, config: &Config) -> Option<SetTarget> {
        match Directive::find(name) {
            Some(row) => row.get(config).map(|_| SetTarget::Own(row)),
            None => ignored::find(name).filter(|row| row.default.is_some()).map(SetTarget::Ignored),
        }
    }

    fn name(self) -> &'static str {
        match self {
            SetTarget::Own(row) => row.name,
            SetTarget::Ignored(row) => row.name,
        }
    }
}

impl Config {
    /// Returns this configuration with the values of a `CONFIG SET`.
    ///
    /// # Errors
    ///
    /// Returns [`SetError`] for the first wrong pair, in Redis's order: all names before any value, and the checks
    /// between values last.
    pub fn set(&self, pairs: &[SettingPair]) -> Result<ConfigChange, SetError> {
        let targets = self.targets(pairs)?;
        let mut builder = Builder::of(self);
        let mut names = Vec::new();
        for (index, (target, (_, value))) in targets.iter().zip(pairs).enumerate() {
            match *target {
                SetTarget::Own(row) => {
                    let refuse = |reason| SetError::refused(row.name, reason);
                    if let Some(words) = words_for(row, value).map_err(|error| refuse(error.to_string()))? {
                        row.set(&mut builder.values, &words).map_err(|errors| refuse(redis_text(row, &errors)))?;
                    }
                    builder.note_place(row.name, &SettingPlace::in_config_set(index));
                    names.push(row.name);
                }
                SetTarget::Ignored(row) => check_unchanged(row, value)?,
            }
        }
        match builder.finish() {
            Ok((config, _)) => Ok(ConfigChange { config, names }),
            Err(problems) => {
                let first = problems.first();
                let index = first.and_then(ConfigProblem::config_set_index).unwrap_or_default();
                let name = targets.get(index).map_or("", |target| target.name());
                Err(SetError::refused(name, first.map_or("", |problem| problem.sentence())))
            }
        }
    }

    /// Returns the directives of the pairs. Fails if one is unknown, cannot be changed, or is repeated.
    fn targets(&self, pairs: &[SettingPair]) -> Result<Vec<SetTarget>, SetError> {
        let mut targets: Vec<SetTarget> = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            let shown = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned();
            let lower = shown.to_ascii_lowercase();
            let Some(target) = SetTarget::find(&lower, self) else { return Err(SetError::Unknown { name: shown }) };
            let fixed = match target {
                SetTarget::Own(row) if row.change == ChangeMode::AtStart => Some("can't set immutable config"),
                SetTarget::Own(row) if row.change == ChangeMode::Reload => Some(RELOADED),
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

/// Returns the words of a value; `None` if Redis treats an empty value as no change.
fn words_for(row: &Directive, value: &[u8]) -> Result<Option<Vec<String>>, ValueError> {
    if row.takes_words() {
        let words = words_of(value)?;
        // An empty list means the default, as in Redis; in a table it changes no key.
        let empty = row.keys().is_empty().then(|| vec![String::new()]);
        return Ok(if words.is_empty() { empty } else { Some(words) });
    }
    let word = String::from_utf8(value.to_vec()).map_err(|_| SyntaxError::ValueNotUtf8)?;
    // Files may contain 05, and always could. Redis's CONFIG SET refuses it.
    let digits = word.strip_prefix('-').unwrap_or(&word);
    if row.is_integer() && digits.len() > 1 && digits.starts_with('0') {
        return Err(ValueError::NotAnInteger);
    }
    Ok(Some(vec![word]))
}

/// Checks that an ignored directive keeps its only value. A tool that sets that value (`appendonly no`) gets `OK`, and
/// one that sets another gets an error.
fn check_unchanged(row: IgnoredDirective, value: &[u8]) -> Result<(), SetError> {
    let default = row.default.unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    let size = |word: &str| memory(word, 0).ok();
    if value.eq_ignore_ascii_case(default) || size(&value).is_some_and(|bytes| size(default) == Some(bytes)) {
        return Ok(());
    }
    let reason = format!("{}, so '{default}' is the only value it can have", row.reason.text());
    Err(SetError::refused(row.name, reason))
}

/// Returns the text of an error as Redis words it, because clients and tools match it.
fn redis_text(row: &Directive, errors: &[ValueError]) -> String {
    let Some(error) = errors.first() else { return String::new() };
    if let ValueShape::Table { redis_error, .. } = row.shape {
        return redis_error(error).to_owned();
    }
    match error {
        ValueError::Number { .. } => ValueError::NotAnInteger.to_string(),
        ValueError::Range { found, .. } if found.parse::<i64>().is_err() => ValueError::NotAnInteger.to_string(),
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
