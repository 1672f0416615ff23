//! Where keys and channels are among a command's arguments, and how the command uses them.
//!
//! A key in Redis's sense is the name of a generator or of a sequence here. Its place and its access are data of the
//! command's row, so that ACL rules, `COMMAND GETKEYS`, `COMMAND INFO` and hints cannot disagree. The meaning and the
//! owner of a name are not decided here.

use getid_core::server::{CounterDeclaration, Key, NamedCounters, SeriesRules};

use super::{Command, Verb};
use crate::resp::{Args, Value, parse_integer};

/// Longest name of a generator or of a sequence, bytes.
pub const KEY_BYTES_MAX: usize = 128;

/// Keys among the arguments of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Index of the first key, or of the number of keys.
    pub first: u8,
    /// Which arguments from there on are keys.
    pub range: KeyRange,
    /// How the command uses each key.
    pub access: KeyAccess,
}

/// Which arguments are keys, from a first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRange {
    /// The first argument, if it is present.
    One,
    /// The first argument and every `step`-th one after it.
    Rest {
        /// 1 if all of them are keys, 2 if a value follows each.
        step: u8,
    },
    /// As many arguments after the first as its number states.
    Counted,
}

/// How a command uses a key: a set of the flags of Redis's key specifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess(u16);

impl KeyAccess {
    /// The key is not changed.
    pub(crate) const RO: KeyAccess = KeyAccess(1);
    /// A part of the key is changed.
    pub const RW: KeyAccess = KeyAccess(1 << 1);
    /// The key is replaced as a whole.
    pub(crate) const OW: KeyAccess = KeyAccess(1 << 2);
    /// The key is removed.
    pub(crate) const RM: KeyAccess = KeyAccess(1 << 3);
    /// The reply contains the key's value.
    pub const ACCESS: KeyAccess = KeyAccess(1 << 4);
    /// The key's value is changed.
    pub const UPDATE: KeyAccess = KeyAccess(1 << 5);
    /// The key gets a value regardless of the previous one.
    pub const INSERT: KeyAccess = KeyAccess(1 << 6);
    /// The key is removed, whatever its value.
    pub const DELETE: KeyAccess = KeyAccess(1 << 7);
    /// The other flags depend on the arguments: `SET` returns a value only with `GET`.
    pub(crate) const VARIABLE_FLAGS: KeyAccess = KeyAccess(1 << 8);

    const NAMES: [&'static str; 9] = ["RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "variable_flags"];

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: KeyAccess) -> KeyAccess {
        KeyAccess(self.0 | other.0)
    }

    /// Whether the set contains all of `other`.
    pub const fn has(self, other: KeyAccess) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a user needs the right to read it (`%R~`).
    pub const fn reads(self) -> bool {
        self.has(KeyAccess::ACCESS)
    }

    /// Whether a user needs the right to write it (`%W~`).
    pub const fn writes(self) -> bool {
        self.0 & (KeyAccess::UPDATE.0 | KeyAccess::INSERT.0 | KeyAccess::DELETE.0) != 0
    }

    /// Returns the set as `COMMAND` replies it.
    fn to_value(self) -> Value {
        let names = Self::NAMES.into_iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        Value::Set(names.map(|(_, name)| Value::Simple(name.into())).collect())
    }
}

/// A key among the arguments of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyArg<'a> {
    /// Index of the argument.
    pub at: usize,
    /// The name; the beginning of one that is too long for a name. So the answer to a large request does not depend on
    /// how much of it has arrived.
    pub name: &'a [u8],
    /// How the command uses the key.
    pub access: KeyAccess,
}

/// Channels among the arguments of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// No channels, or channels without access checks: leaving a channel needs no right.
    None,
    /// The first argument is a channel.
    One,
    /// All arguments are channels.
    All,
    /// All arguments are patterns of channels.
    Patterns,
}

impl Command {
    /// Returns the keys among the command's arguments.
    pub(crate) fn keys_in<'a>(&self, args: Args<'a>) -> impl Iterator<Item = KeyArg<'a>> {
        self.keys.iter().flat_map(move |spec| {
            let access = spec.access_in(args);
            spec.indices_in(args).filter_map(move |at| {
                let name = args.get(at)?;
                Some(KeyArg { at, name: &name[..name.len().min(KEY_BYTES_MAX)], access })
            })
        })
    }

    /// Returns the channels among the command's arguments, with their indices.
    pub(crate) fn channels_in<'a>(&self, args: Args<'a>) -> impl Iterator<Item = (usize, &'a [u8])> {
        let count = match self.channels {
            Channels::None => 0,
            Channels::One => 1,
            Channels::All | Channels::Patterns => usize::MAX,
        };
        args.iter().enumerate().skip(1).take(count)
    }
}

impl KeySpec {
    /// Returns the indices of keys; some may be past the arguments.
    fn indices_in(self, args: Args<'_>) -> impl Iterator<Item = usize> + use<> {
        let first = usize::from(self.first);
        let (first, end, step) = match self.range {
            KeyRange::One => (first, first + 1, 1),
            KeyRange::Rest { step } => (first, args.len(), usize::from(step)),
            KeyRange::Counted => {
                let count = args.get(first).and_then(parse_integer).and_then(|count| usize::try_from(count).ok());
                // An impossible number is an error of the command itself.
                let count = count.filter(|&count| count < args.len().saturating_sub(first)).unwrap_or(0);
                (first + 1, first + 1 + count, 1)
            }
        };
        (first..end).step_by(step)
    }

    /// Returns how the command uses the keys with these arguments.
    fn access_in(self, args: Args<'_>) -> KeyAccess {
        if !self.access.has(KeyAccess::VARIABLE_FLAGS) {
            return self.access;
        }
        if args.iter().skip(usize::from(self.first) + 2).any(|word| word.eq_ignore_ascii_case(b"get")) {
            return KeyAccess::RW.and(KeyAccess::ACCESS).and(KeyAccess::UPDATE);
        }
        KeyAccess::OW.and(KeyAccess::UPDATE)
    }

    /// Returns the specification as `COMMAND INFO` replies it.
    pub(super) fn to_value(self) -> Value {
        let kind = |name: &'static str, fields: Value| Value::map([("type", Value::from(name)), ("spec", fields)]);
        let range = |last, step| Value::map([("lastkey", last), ("keystep", step), ("limit", 0)].map(of_number));
        let find = match self.range {
            KeyRange::One => kind("range", range(0, 1)),
            KeyRange::Rest { step } => kind("range", range(-1, i64::from(step))),
            KeyRange::Counted => {
                kind("keynum", Value::map([("keynumidx", 0), ("firstkey", 1), ("keystep", 1)].map(of_number)))
            }
        };
        Value::map([
            ("flags", self.access.to_value()),
            ("begin_search", kind("index", Value::map([("index", i64::from(self.first))].map(of_number)))),
            ("find_keys", find),
        ])
    }
}

/// Word before the key of a series in a request for IDs.
pub(crate) const SERIES_WORD: &str = "key";

/// Returns the key of a series among the words after a generator's name, which are pairs.
pub(crate) fn series_word(words: Args<'_>) -> Option<&[u8]> {
    let at = (0..words.len()).step_by(2).find(|at| is_series_word(words.get(*at).unwrap_or_default()))?;
    words.get(at + 1)
}

/// Returns true if the word introduces the key of a series.
pub(crate) fn is_series_word(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(SERIES_WORD.as_bytes())
}

/// Returns the generator of this name, and the rules of its keys, if it has a series for each key.
pub(crate) fn series_of<'a>(
    counters: &'a NamedCounters,
    name: &[u8],
) -> Option<(&'a CounterDeclaration, &'a SeriesRules)> {
    let counter = counters.get(counters.find(name)?)?;
    Some((counter, counter.series()?))
}

/// Returns the name of the series that a request concerns, such as `invoice/ACME`: ACL rules of keys are about this
/// name and not about the generator's. `None` if the request names no valid series.
pub(crate) fn series_name(counters: &NamedCounters, command: &Command, args: Args<'_>) -> Option<Key> {
    if !counters.has_series() {
        return None;
    }
    let (name, key) = match command.verb {
        Verb::GetId => (args.get(1)?, series_word(args.behind(2))?),
        Verb::MGetId | Verb::NumberReserve | Verb::NumberLedger => (args.get(2)?, series_word(args.behind(3))?),
        Verb::NumberCommit | Verb::NumberRelease | Verb::NumberVoid => (args.get(2)?, series_word(args.behind(4))?),
        Verb::SeriesCreate => (args.get(2)?, args.get(3)?),
        Verb::SequenceInfo | Verb::SequenceRaise | Verb::SequenceConfirm => split_series(args.get(2)?)?,
        _ => return None,
    };
    let (counter, rules) = series_of(counters, name)?;
    let series = rules.key(str::from_utf8(key).ok()?)?;
    Key::of(counter.name(), series.as_str(), "")
}

/// Splits `invoice/ACME` into the name of a generator and the key of a series.
pub(crate) fn split_series(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = text.iter().position(|byte| *byte == b'/')?;
    Some((&text[..slash], &text[slash + 1..]))
}

fn of_number((name, number): (&'static str, i64)) -> (&'static str, Value) {
    (name, Value::Integer(number))
}

/// Returns first key, last key and step, as Redis's older clients read them: for all specifications together, as far as
/// three numbers can express them.
pub(super) fn range_of(keys: &[KeySpec]) -> [i64; 3] {
    let ranges = keys.iter().filter_map(|spec| match spec.range {
        KeyRange::One => Some((i64::from(spec.first), i64::from(spec.first), 1)),
        KeyRange::Rest { step } => Some((i64::from(spec.first), -1, i64::from(step))),
        KeyRange::Counted => None,
    });
    let joined = ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1), one.2));
    joined.map_or([0; 3], |(first, last, step)| [first, last, step])
}

/// Replies to `COMMAND GETKEYS` with the names, and to `COMMAND GETKEYSANDFLAGS` with each name and its access.
pub(super) fn keys_value(command: &Command, request: Args<'_>, flags: bool) -> Value {
    let to_value = |key: KeyArg<'_>| {
        let name = Value::bulk(key.name.to_vec());
        if flags { Value::Array(vec![name, key.access.to_value()]) } else { name }
    };
    Value::Array(command.keys_in(request).map(to_value).collect())
}
