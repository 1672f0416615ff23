//! Where keys and channels are among a command's arguments, and what is done with them.
//!
//! A key, in Redis's rules, is the name of a generator or of a sequence here. Where it is and what is done with it is
//! data of the command's row, so that ACL rules, `COMMAND GETKEYS`, `COMMAND INFO` and hints cannot disagree.
//!
//! Not here: what a name means, and whose it is.

use super::Command;
use crate::resp::{Args, Value, parse_integer};

/// The longest name of a generator or of a sequence, bytes.
pub const KEY_BYTES_MAX: usize = 128;

/// Keys among the arguments of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The argument with the first of them, or with their number.
    pub first: u8,
    /// Which of those from there on.
    pub places: Places,
    /// What is done with each.
    pub access: Access,
}

/// Which arguments are keys, from a first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// That one, if it is there.
    One,
    /// That one and every `step`-th behind it.
    Rest {
        /// 1: all of them; 2: each has a value behind it.
        step: u8,
    },
    /// So many behind it as it says.
    Counted,
}

/// What is done with a key: a set of the flags of Redis's key specifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u16);

impl Access {
    /// Nothing of it changes.
    pub const RO: Access = Access(1);
    /// Something of it changes.
    pub const RW: Access = Access(1 << 1);
    /// It is replaced whole.
    pub const OW: Access = Access(1 << 2);
    /// It is removed.
    pub const RM: Access = Access(1 << 3);
    /// Its value comes out.
    pub const ACCESS: Access = Access(1 << 4);
    /// Its value changes.
    pub const UPDATE: Access = Access(1 << 5);
    /// It gets a value without a look at the one before.
    pub const INSERT: Access = Access(1 << 6);
    /// It is removed, whatever it was.
    pub const DELETE: Access = Access(1 << 7);
    /// The other flags depend on the arguments: `SET` has a value come out only with `GET`.
    pub const VARIABLE_FLAGS: Access = Access(1 << 8);

    const NAMES: [&'static str; 9] = ["RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "variable_flags"];

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Whether all of `other` are in.
    pub const fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a user needs the right to read it (`%R~`).
    pub const fn reads(self) -> bool {
        self.has(Access::ACCESS)
    }

    /// Whether a user needs the right to write it (`%W~`).
    pub const fn writes(self) -> bool {
        self.0 & (Access::UPDATE.0 | Access::INSERT.0 | Access::DELETE.0) != 0
    }

    /// As `COMMAND` gives it.
    fn to_value(self) -> Value {
        let names = Self::NAMES.into_iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        Value::Set(names.map(|(_, name)| Value::Simple(name.into())).collect())
    }
}

/// A key among the arguments of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyArg<'a> {
    /// Which argument it is.
    pub at: usize,
    /// Of one that is too long to be a name, the beginning: so the answer to a large request is the same however much
    /// of it is there.
    pub name: &'a [u8],
    /// What is done with it.
    pub access: Access,
}

/// Channels among the arguments of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// None, or none that anybody is asked about: who may leave a channel.
    None,
    /// The first argument.
    One,
    /// All arguments.
    All,
    /// All arguments, and they are patterns.
    Patterns,
}

impl Command {
    /// The keys among its arguments.
    pub fn keys_in<'a>(&self, args: Args<'a>) -> impl Iterator<Item = KeyArg<'a>> {
        self.keys.iter().flat_map(move |spec| {
            let access = spec.access_in(args);
            spec.places_in(args).filter_map(move |at| {
                let name = args.get(at)?;
                Some(KeyArg { at, name: &name[..name.len().min(KEY_BYTES_MAX)], access })
            })
        })
    }

    /// The channels among its arguments, and where they are.
    pub fn channels_in<'a>(&self, args: Args<'a>) -> impl Iterator<Item = (usize, &'a [u8])> {
        let count = match self.channels {
            Channels::None => 0,
            Channels::One => 1,
            Channels::All | Channels::Patterns => usize::MAX,
        };
        args.iter().enumerate().skip(1).take(count)
    }
}

impl KeySpec {
    /// The indices of keys; some may be past the arguments.
    fn places_in(self, args: Args<'_>) -> impl Iterator<Item = usize> + use<> {
        let first = usize::from(self.first);
        let (first, end, step) = match self.places {
            Places::One => (first, first + 1, 1),
            Places::Rest { step } => (first, args.len(), usize::from(step)),
            Places::Counted => {
                let count = args.get(first).and_then(parse_integer).and_then(|count| usize::try_from(count).ok());
                // A number that cannot be is an error of the command itself.
                let count = count.filter(|&count| count < args.len().saturating_sub(first)).unwrap_or(0);
                (first + 1, first + 1 + count, 1)
            }
        };
        (first..end).step_by(step)
    }

    /// What is done with them by these arguments.
    fn access_in(self, args: Args<'_>) -> Access {
        if !self.access.has(Access::VARIABLE_FLAGS) {
            return self.access;
        }
        if args.iter().skip(usize::from(self.first) + 2).any(|word| word.eq_ignore_ascii_case(b"get")) {
            return Access::RW.and(Access::ACCESS).and(Access::UPDATE);
        }
        Access::OW.and(Access::UPDATE)
    }

    /// As `COMMAND INFO` gives it.
    pub(super) fn to_value(self) -> Value {
        let kind = |name: &'static str, fields: Value| Value::map([("type", Value::from(name)), ("spec", fields)]);
        let range = |last, step| Value::map([("lastkey", last), ("keystep", step), ("limit", 0)].map(of_number));
        let find = match self.places {
            Places::One => kind("range", range(0, 1)),
            Places::Rest { step } => kind("range", range(-1, i64::from(step))),
            Places::Counted => {
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

fn of_number((name, number): (&'static str, i64)) -> (&'static str, Value) {
    (name, Value::Integer(number))
}

/// First key, last key and step, as Redis's older clients look at them: of all specifications together, and only as far
/// as such numbers can say it.
pub(super) fn range_of(keys: &[KeySpec]) -> [i64; 3] {
    let ranges = keys.iter().filter_map(|spec| match spec.places {
        Places::One => Some((i64::from(spec.first), i64::from(spec.first), 1)),
        Places::Rest { step } => Some((i64::from(spec.first), -1, i64::from(step))),
        Places::Counted => None,
    });
    let joined = ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1), one.2));
    joined.map_or([0; 3], |(first, last, step)| [first, last, step])
}

/// `COMMAND GETKEYS`: the names, and `COMMAND GETKEYSANDFLAGS`: each with what is done with it.
pub(super) fn keys_value(command: &Command, asked: Args<'_>, flags: bool) -> Value {
    let told = |key: KeyArg<'_>| {
        let name = Value::bulk(key.name.to_vec());
        if flags { Value::Array(vec![name, key.access.to_value()]) } else { name }
    };
    Value::Array(command.keys_in(asked).map(told).collect())
}
