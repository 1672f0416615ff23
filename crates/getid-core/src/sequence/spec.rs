//! What is said of a sequence when it is created or altered.

use alloc::string::{String, ToString};

/// The largest value that a sequence may have: a `BIGINT` with room above it for whatever is reserved.
pub const VALUE_MAX: i64 = 9_000_000_000_000_000_000;

/// How far values may be apart.
pub const INCREMENT_MAX: u32 = 1_000_000;

/// Values of one reservation, and of `INCRBY`, at most.
pub const RESERVED_MAX: u32 = 10_000_000;

/// `cache`, where nothing is said.
pub const CACHE_DEFAULT: u32 = 100;

/// What a request does for which there are no values in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// It waits, `sequence-wait-ms` at most.
    Wait,
    /// It gets `-BUSY` at once.
    Error,
}

/// What is said of a sequence. [`Spec::default`]: 1, 2, 3, ... without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// No value is below it, 0 to [`VALUE_MAX`].
    pub start: i64,
    /// How far values are apart, 1 to [`INCREMENT_MAX`].
    pub increment: u32,
    /// Which of the values that far apart: all have the remainder `offset % increment`. 1 to `increment`.
    pub offset: u32,
    /// Values of a reservation at least, 0 to [`RESERVED_MAX`]. 0: each value is in the store before its reply.
    pub cache: u32,
    /// The last value, inclusive, `start` to [`VALUE_MAX`].
    pub max: i64,
    /// `None`: as `sequence-policy` says.
    pub policy: Option<WaitPolicy>,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec { start: 1, increment: 1, offset: 1, cache: CACHE_DEFAULT, max: VALUE_MAX, policy: None }
    }
}

/// What is wrong with the options of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// A word that is not an option.
    Unknown {
        /// As it was written.
        word: String,
    },
    /// An option without its value.
    NoValue {
        /// Which.
        option: &'static str,
    },
    /// An option that was there before.
    Twice {
        /// Which.
        option: &'static str,
    },
    /// A value that is not what its option takes.
    Value {
        /// Which.
        option: &'static str,
        /// As it was written.
        found: String,
        /// The smallest it takes.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// `policy` takes two words.
    Policy {
        /// As it was written.
        found: String,
    },
    /// `cycle`: it would give values again.
    Cycle,
    /// There is no value from `start` to `max`.
    Empty {
        /// `start`.
        start: i64,
        /// `max`.
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

/// What some words say: only the options that are among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Given {
    start: Option<i64>,
    increment: Option<u32>,
    offset: Option<u32>,
    cache: Option<u32>,
    max: Option<i64>,
    policy: Option<WaitPolicy>,
}

impl Spec {
    /// The same with what `words` say instead: `start N`, `increment N`, `offset N`, `cache N`, `max N`,
    /// `policy wait|error`, in any order and letter case, each once at most. `start` may not be below the present one's
    /// meaning: it is for sequences that are new.
    ///
    /// # Errors
    ///
    /// What is wrong with the words, or with what comes of them.
    pub fn with(&self, words: &[&str]) -> Result<Spec, SpecError> {
        let mut given = Given::default();
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

    /// Share of the values from `start` to `max` that are not above `last`, in ten-thousandths, 0 to 10,000.
    pub fn used_share(&self, last: i64) -> u16 {
        let all = i128::from(self.max) - i128::from(self.start) + 1;
        let used = (i128::from(last) - i128::from(self.start) + 1).clamp(0, all.max(0));
        u16::try_from(used * 10_000 / all.max(1)).unwrap_or(10_000)
    }

    /// The first value of the sequence that is not below `value`; `None` past its max.
    pub fn first_from(&self, value: i64) -> Option<i64> {
        let next = self.next_from(value);
        (next <= self.max).then_some(next)
    }

    /// The same without a look at the max: what a row's `next` is. `value` is at most [`VALUE_MAX`] + 1.
    pub fn next_from(&self, value: i64) -> i64 {
        let value = value.max(self.start).max(0);
        let increment = i64::from(self.increment);
        value + (i64::from(self.offset) - value).rem_euclid(increment)
    }

    /// What is said of it in one of several stores, by its place among them: each has an offset of its own, so that
    /// none has a value of another's. An increment of 1 becomes the number of stores; `None` where another one is
    /// less.
    pub fn of_store(&self, index: u32, stores: u32) -> Option<Spec> {
        let increment = if self.increment == 1 { stores.max(1) } else { self.increment };
        let offset = (self.offset - 1 + index) % increment + 1;
        (index < stores && increment >= stores).then_some(Spec { increment, offset, ..*self })
    }

    /// The words that say it; those of the default are left out.
    pub fn words(&self) -> String {
        use core::fmt::Write as _;
        let default = Spec::default();
        let mut text = String::new();
        let mut say = |differs: bool, word: &str, value: i64| {
            if differs {
                // Writing to a string cannot fail.
                let _ = write!(text, "{}{word} {value}", if text.is_empty() { "" } else { " " });
            }
        };
        say(self.start != default.start, "start", self.start);
        say(self.increment != default.increment, "increment", self.increment.into());
        say(self.offset != default.offset, "offset", self.offset.into());
        say(self.cache != default.cache, "cache", self.cache.into());
        say(self.max != default.max, "max", self.max);
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
