//! Options of a sequence when it is created or altered.

use alloc::string::{String, ToString};

/// Largest value of a sequence: a `BIGINT` with room above it for reservations.
pub const VALUE_MAX: i64 = 9_000_000_000_000_000_000;

/// Largest distance between values.
pub const INCREMENT_MAX: u32 = 1_000_000;

/// Most values of one reservation, and of `INCRBY`.
pub const RESERVED_MAX: u32 = 10_000_000;

/// Default of `cache`.
pub const CACHE_DEFAULT: u32 = 100;

/// Behaviour of a request that finds no values in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// The request waits, `sequence-wait-ms` at most.
    Wait,
    /// The request gets `-BUSY` at once.
    Error,
}

/// Options of a sequence. [`Spec::default`]: 1, 2, 3, ... without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Lower bound of the values, 0 to [`VALUE_MAX`].
    pub start: i64,
    /// Distance between values, 1 to [`INCREMENT_MAX`].
    pub increment: u32,
    /// Remainder of the values: all are `offset` modulo `increment`. 1 to `increment`.
    pub offset: u32,
    /// Smallest reservation, values, 0 to [`RESERVED_MAX`]. 0: each value is in the store before its reply.
    pub cache: u32,
    /// Last value, inclusive, `start` to [`VALUE_MAX`].
    pub max: i64,
    /// Own policy; `None`: that of `sequence-policy`.
    pub policy: Option<WaitPolicy>,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec { start: 1, increment: 1, offset: 1, cache: CACHE_DEFAULT, max: VALUE_MAX, policy: None }
    }
}

/// Mistake in the options of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// A word that is not an option.
    Unknown {
        /// The word.
        word: String,
    },
    /// An option without its value.
    NoValue {
        /// Name of the option.
        option: &'static str,
    },
    /// An option occurs twice.
    Twice {
        /// Name of the option.
        option: &'static str,
    },
    /// A value that its option does not accept.
    Value {
        /// Name of the option.
        option: &'static str,
        /// The value as it was written.
        found: String,
        /// Smallest accepted value.
        min: i64,
        /// Largest accepted value.
        max: i64,
    },
    /// A word that `policy` does not accept.
    Policy {
        /// The word.
        found: String,
    },
    /// The word `cycle`: such a sequence would repeat values.
    Cycle,
    /// No value lies between `start` and `max`.
    Empty {
        /// Value of `start`.
        start: i64,
        /// Value of `max`.
        max: i64,
    },
}

impl core::fmt::Display for SpecError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SpecError::Unknown { word } => write!(
                f,
                "'{word}' is not an option of a sequence: it has start, increment, offset, cache, max and policy"
            ),
            SpecError::NoValue { option } => write!(f, "{option} has no value"),
            SpecError::Twice { option } => write!(f, "{option} is given twice"),
            SpecError::Value { option, found, min, max } => write!(f, "{option} is '{found}', must be {min} to {max}"),
            SpecError::Policy { found } => write!(f, "policy is '{found}', must be wait or error"),
            SpecError::Cycle => f.write_str(
                "cycle is refused: a sequence that begins again gives the same values twice; give it a larger max",
            ),
            SpecError::Empty { start, max } => write!(f, "max is {max}, below the first value from start {start} on"),
        }
    }
}

impl core::error::Error for SpecError {}

/// Options that some words set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SpecWords {
    start: Option<i64>,
    increment: Option<u32>,
    offset: Option<u32>,
    cache: Option<u32>,
    max: Option<i64>,
    policy: Option<WaitPolicy>,
}

impl Spec {
    /// Returns these options with the changes in `words`: `start N`, `increment N`, `offset N`, `cache N`, `max N`,
    /// `policy wait|error`, in any order and letter case, each once at most. `start` is for new sequences.
    ///
    /// # Errors
    ///
    /// Fails with the mistake in the words, or in the resulting options.
    pub fn with(&self, words: &[&str]) -> Result<Spec, SpecError> {
        let mut given = SpecWords::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case("cycle") {
                return Err(SpecError::Cycle);
            }
            let option = ["start", "increment", "offset", "cache", "max", "policy"];
            let Some(option) = option.into_iter().find(|option| word.eq_ignore_ascii_case(option)) else {
                return Err(SpecError::Unknown { word: (*word).to_string() });
            };
            let value = *words.next().ok_or(SpecError::NoValue { option })?;
            let is_twice = match option {
                "start" => given.start.replace(number(option, value, 0, VALUE_MAX)?).is_some(),
                "increment" => given.increment.replace(small(option, value, 1, INCREMENT_MAX)?).is_some(),
                "offset" => given.offset.replace(small(option, value, 1, INCREMENT_MAX)?).is_some(),
                "cache" => given.cache.replace(small(option, value, 0, RESERVED_MAX)?).is_some(),
                "max" => given.max.replace(number(option, value, 0, VALUE_MAX)?).is_some(),
                _ => given.policy.replace(policy(value)?).is_some(),
            };
            if is_twice {
                return Err(SpecError::Twice { option });
            }
        }
        let spec = Spec {
            start: given.start.unwrap_or(self.start),
            increment: given.increment.unwrap_or(self.increment),
            offset: given.offset.unwrap_or(self.offset),
            cache: given.cache.unwrap_or(self.cache),
            max: given.max.unwrap_or(self.max),
            policy: given.policy.or(self.policy),
        };
        if spec.offset > spec.increment {
            let (found, max) = (spec.offset.to_string(), spec.increment.into());
            return Err(SpecError::Value { option: "offset", found, min: 1, max });
        }
        if spec.first_from(spec.start).is_none() {
            return Err(SpecError::Empty { start: spec.start, max: spec.max });
        }
        Ok(spec)
    }

    /// Returns the share of the values from `start` to `max` that are not above `last`, in ten-thousandths, 0 to
    /// 10,000.
    pub fn used_share(&self, last: i64) -> u16 {
        let all = i128::from(self.max) - i128::from(self.start) + 1;
        let used = (i128::from(last) - i128::from(self.start) + 1).clamp(0, all.max(0));
        u16::try_from(used * 10_000 / all.max(1)).unwrap_or(10_000)
    }

    /// Returns the first value of the sequence that is not below `value`; `None` past its max.
    pub fn first_from(&self, value: i64) -> Option<i64> {
        let next = self.next_from(value);
        (next <= self.max).then_some(next)
    }

    /// Returns the first value of the sequence that is not below `value`, ignoring its max: a row's `next`. `value` is
    /// at most [`VALUE_MAX`] + 1.
    pub fn next_from(&self, value: i64) -> i64 {
        let value = value.max(self.start).max(0);
        let increment = i64::from(self.increment);
        value + (i64::from(self.offset) - value).rem_euclid(increment)
    }

    /// Returns the options of this sequence in one of several stores, by the store's index. Each store has its own
    /// offset, so that no two have the same value. An increment of 1 becomes the number of stores; `None` if another
    /// increment is less than that.
    pub fn of_store(&self, index: u32, stores: u32) -> Option<Spec> {
        let increment = if self.increment == 1 { stores.max(1) } else { self.increment };
        let offset = (self.offset - 1 + index) % increment + 1;
        (index < stores && increment >= stores).then_some(Spec { increment, offset, ..*self })
    }

    /// Returns the words that declare it, without those of the default.
    pub fn words(&self) -> String {
        use core::fmt::Write as _;
        let default = Spec::default();
        let mut text = String::new();
        let mut add = |differs: bool, word: &str, value: i64| {
            if differs {
                // Writing to a string cannot fail.
                let _ = write!(text, "{}{word} {value}", if text.is_empty() { "" } else { " " });
            }
        };
        add(self.start != default.start, "start", self.start);
        add(self.increment != default.increment, "increment", self.increment.into());
        add(self.offset != default.offset, "offset", self.offset.into());
        add(self.cache != default.cache, "cache", self.cache.into());
        add(self.max != default.max, "max", self.max);
        if let Some(policy) = self.policy {
            let word = if policy == WaitPolicy::Wait { "wait" } else { "error" };
            let _ = write!(text, "{}policy {word}", if text.is_empty() { "" } else { " " });
        }
        text
    }
}

fn number(option: &'static str, text: &str, min: i64, max: i64) -> Result<i64, SpecError> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let value = text.parse().ok().filter(|value| is_number && (min..=max).contains(value));
    value.ok_or_else(|| SpecError::Value { option, found: text.to_string(), min, max })
}

fn small(option: &'static str, text: &str, min: u32, max: u32) -> Result<u32, SpecError> {
    number(option, text, min.into(), max.into()).map(|value| u32::try_from(value).unwrap_or(max))
}

fn policy(text: &str) -> Result<WaitPolicy, SpecError> {
    match text {
        _ if text.eq_ignore_ascii_case("wait") => Ok(WaitPolicy::Wait),
        _ if text.eq_ignore_ascii_case("error") => Ok(WaitPolicy::Error),
        _ => Err(SpecError::Policy { found: text.to_string() }),
    }
}
