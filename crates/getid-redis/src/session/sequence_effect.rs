//! Effects of commands about sequences, and Redis's replies for a string that holds a number.
//!
//! Only the server knows a sequence's value. The reply that follows from it is made here, so that a session answers for
//! an invalid name as the server does for a missing sequence.

use std::fmt;
use std::sync::Arc;

use getid_core::server::{EndCondition, Key, Series, Spec};

use crate::acl::User;
use crate::resp::Value;

/// Remedy for a key with a date in its name that was to expire.
pub(super) const BEGINS_AGAIN: &str = "For numbers that restart each day or month, declare \
                                       'generator NAME serial \"{yyyyMMdd}{n:6}\"', and send GETID NAME";

/// Remedy for a command that ends a sequence whose name is under no pattern.
pub(super) const MAY_END: &str = "With 'sequence-expire PATTERN' names under the pattern may end";

/// Effects of commands about keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysEffect {
    /// Answer [`KeyProperty::answer`] with the last value of this sequence.
    Property {
        /// Name of the sequence.
        key: Key,
        /// Property to return.
        property: KeyProperty,
    },
    /// `MGET`: answer an array; `None` is a name that no sequence can have.
    Values(Vec<Option<Key>>),
    /// `EXISTS` and `TOUCH`: answer the number of existing sequences. A name given twice counts twice.
    Count(Vec<Key>),
    /// `SET` and related commands.
    Set(SetSequence),
    /// `EXPIRE` and related commands: answer 1, or 0 if there is no such sequence or the condition is not met.
    Expire {
        /// Name of the sequence.
        key: Key,
        /// The new end.
        end: EndTime,
        /// Condition for the change.
        condition: EndCondition,
    },
    /// `PERSIST`: answer 1 if the sequence had an end, or 0.
    Persist(Key),
    /// `GETEX` with an option: change the end as with `EXPIRE` or `PERSIST`, and answer as `GET`.
    GetExpire {
        /// Name of the sequence.
        key: Key,
        /// The new end; `None` removes it.
        end: Option<EndTime>,
    },
    /// `DEL`, `UNLINK`: answer the number of dropped sequences.
    Delete(Vec<Key>),
    /// `GETDEL`: answer the value of the dropped sequence.
    GetDelete(Key),
    /// `HGET`, `HMGET` and related commands: answer fields of the sequence as a hash.
    Hash {
        /// Name of the sequence.
        key: Key,
        /// Fields to return.
        query: HashQuery,
    },
    /// `KEYS`: answer all matching names.
    Names(Vec<u8>),
    /// `SCAN`: answer a cursor and some names.
    Scan(KeyScan),
    /// `DBSIZE`: answer the number of sequences.
    Size,
    /// `RANDOMKEY`: answer any name.
    Random,
}

/// Property of a sequence's value that a command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyProperty {
    /// The value (`GET`).
    Value,
    /// The type (`TYPE`).
    Type,
    /// The expiry (`TTL`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`).
    Ttl(TtlForm),
    /// The length (`STRLEN`).
    Len,
    /// The encoding (`OBJECT ENCODING`).
    Encoding,
    /// The reference count (`OBJECT REFCOUNT`).
    RefCount,
    /// The idle time (`OBJECT IDLETIME`).
    Idle,
    /// The access frequency (`OBJECT FREQ`).
    Freq,
    /// `EXPIRE` and related commands. `NX` is answered as if there were an expiry already.
    Expire {
        /// Whether an option makes the command answer 0 (`NX`, `XX`, `GT`).
        only_new: bool,
    },
}

/// Redis's answer to `OBJECT FREQ` without eviction by frequency.
const NO_FREQ: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                       switching between policies at runtime LRU and LFU data will take some time to adjust.";

/// Redis shares objects of numbers below this, and reports the largest count for them.
const SHARED_NUMBERS: i64 = 10_000;

impl KeyProperty {
    /// Returns Redis's reply for a string that holds this number, or for a missing key.
    pub fn answer(self, name: &str, last: Option<i64>) -> Value {
        let Some(last) = last else { return self.answer_to_none() };
        match self {
            KeyProperty::Value => Value::bulk(last.to_string()),
            KeyProperty::Type => Value::Simple("string".into()),
            KeyProperty::Ttl(form) => form.answer(0, 0),
            KeyProperty::Len => Value::Integer(i64::try_from(last.to_string().len()).unwrap_or(i64::MAX)),
            KeyProperty::Encoding => Value::from("int"),
            KeyProperty::RefCount if last < SHARED_NUMBERS => Value::Integer(i64::from(i32::MAX)),
            KeyProperty::RefCount => Value::Integer(1),
            KeyProperty::Idle | KeyProperty::Expire { only_new: true } => Value::Integer(0),
            KeyProperty::Freq => Value::error(NO_FREQ),
            KeyProperty::Expire { only_new: false } => Value::error(format!(
                "ERR a sequence never expires, because a counter that restarts gives its values twice: '{name}' stays. \
                 Omit the expiry, or send EXPIRE with NX, which returns 0. {BEGINS_AGAIN}. {MAY_END}"
            )),
        }
    }

    fn answer_to_none(self) -> Value {
        match self {
            KeyProperty::Value
            | KeyProperty::Encoding
            | KeyProperty::RefCount
            | KeyProperty::Idle
            | KeyProperty::Freq => Value::Null,
            KeyProperty::Type => Value::Simple("none".into()),
            KeyProperty::Ttl(_) => Value::Integer(-2),
            KeyProperty::Len | KeyProperty::Expire { .. } => Value::Integer(0),
        }
    }
}

/// Form of an expiry in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlForm {
    /// Whether it is in ms, and not in s.
    pub is_ms: bool,
    /// Whether it is a Unix time, and not the time that is left.
    pub is_time: bool,
}

impl TtlForm {
    /// Returns the reply for a sequence with this end, Unix ms, 0 for none. No time is left of one that has ended.
    pub fn answer(self, ends_unix_ms: i64, now_unix_ms: i64) -> Value {
        if ends_unix_ms == 0 {
            return Value::Integer(-1);
        }
        let ms = if self.is_time { ends_unix_ms } else { ends_unix_ms.saturating_sub(now_unix_ms).max(0) };
        // Redis rounds to the nearest second.
        Value::Integer(if self.is_ms { ms } else { ms.saturating_add(500) / 1000 })
    }
}

/// A time at which a sequence ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndTime {
    /// So many ms from now; not after now if it is 0 or less.
    After(i64),
    /// A Unix time, ms.
    At(i64),
}

impl EndTime {
    /// Returns the Unix time, ms.
    pub fn unix_ms(self, now_unix_ms: i64) -> i64 {
        match self {
            EndTime::After(ms) => now_unix_ms.saturating_add(ms),
            EndTime::At(unix_ms) => unix_ms,
        }
    }
}

/// `SET`, `SETNX`, `GETSET`: makes a sequence, or raises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSequence {
    /// Name of the sequence.
    pub key: Key,
    /// New last given value.
    pub last: i64,
    /// Condition for the change.
    pub condition: SetCondition,
    /// Form of the reply.
    pub reply: SetReply,
    /// New end of the sequence; `None` leaves it.
    pub end: Option<EndTime>,
}

/// Condition on the existence of the sequence in `SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCondition {
    /// No condition.
    Any,
    /// `NX`: it must not exist.
    New,
    /// `XX`: it must exist.
    Old,
}

/// Form of the reply to `SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetReply {
    /// `+OK`, or null if it was not set.
    Ok,
    /// The value before, whether or not it was set.
    Old,
    /// 1, or 0 if it was not set.
    Count,
}

impl SetReply {
    /// Returns the reply; `old` is the value before, if there was one.
    pub fn answer(self, is_set: bool, old: Option<i64>) -> Value {
        match self {
            SetReply::Ok if is_set => Value::OK,
            SetReply::Ok => Value::Null,
            SetReply::Old => old.map_or(Value::Null, |old| Value::bulk(old.to_string())),
            SetReply::Count => Value::Integer(is_set.into()),
        }
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyScan {
    /// 0, or the cursor of the previous call's answer.
    pub cursor: u64,
    /// Pattern of names; `None`: all.
    pub pattern: Option<Vec<u8>>,
    /// Number of names to read.
    pub count: u32,
    /// Whether the requested type is a sequence's.
    pub is_of_type: bool,
}

/// Fields of a sequence as a hash that a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashQuery {
    /// `HGET`: one field.
    Field(Vec<u8>),
    /// `HMGET`: several fields.
    Fields(Vec<Vec<u8>>),
    /// `HEXISTS`: whether a field exists.
    Has(Vec<u8>),
    /// `HGETALL`: all fields.
    All,
    /// `HKEYS`: the names of all fields.
    Names,
    /// `HVALS`: the values of all fields.
    Values,
    /// `HLEN`: the number of fields.
    Len,
}

/// A sequence as a hash: the fields of the `HINCRBY` pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFields {
    /// `cur`: the last given value.
    pub cur: i64,
    /// `max`: the largest possible value.
    pub max: i64,
    /// `seq_recently`: number of values given in 5 minutes.
    pub recently: i64,
    /// `seq_long_term`: number of values given in 30 minutes.
    pub long_term: i64,
}

impl HashFields {
    fn all(&self) -> [(&'static str, i64); 4] {
        [("cur", self.cur), ("max", self.max), ("seq_recently", self.recently), ("seq_long_term", self.long_term)]
    }

    fn field(&self, name: &[u8]) -> Option<i64> {
        self.all().into_iter().find(|(known, _)| known.as_bytes() == name).map(|(_, value)| value)
    }
}

impl HashQuery {
    /// Returns true if it needs `max`, which is not always in memory.
    pub fn needs_max(&self) -> bool {
        let is_max = |name: &[u8]| name == b"max";
        match self {
            HashQuery::Field(name) => is_max(name),
            HashQuery::Fields(names) => names.iter().any(|name| is_max(name)),
            HashQuery::All | HashQuery::Values => true,
            HashQuery::Has(_) | HashQuery::Names | HashQuery::Len => false,
        }
    }

    /// Returns Redis's reply for such a hash, or for a missing key.
    pub fn answer(&self, fields: Option<&HashFields>) -> Value {
        let bulk_number = |number: i64| Value::bulk(number.to_string());
        let field = |name: &[u8]| fields.and_then(|fields| fields.field(name));
        let or_null = |name: &[u8]| field(name).map_or(Value::Null, bulk_number);
        let all = fields.map(|fields| fields.all().to_vec()).unwrap_or_default();
        match self {
            HashQuery::Field(name) => or_null(name),
            HashQuery::Fields(names) => Value::Array(names.iter().map(|name| or_null(name)).collect()),
            HashQuery::Has(name) => Value::Integer(field(name).is_some().into()),
            HashQuery::All => Value::map(all.into_iter().map(|(name, value)| (name, bulk_number(value)))),
            HashQuery::Names => Value::Array(all.into_iter().map(|(name, _)| Value::from(name)).collect()),
            HashQuery::Values => Value::Array(all.into_iter().map(|(_, value)| bulk_number(value)).collect()),
            HashQuery::Len => Value::Integer(i64::try_from(all.len()).unwrap_or(0)),
        }
    }
}

/// Effects of `SEQUENCE`, the operator's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceEffect {
    /// `CREATE`: answer `+OK`.
    Create {
        /// Name of the sequence.
        key: Key,
        /// Options of the sequence.
        spec: Spec,
        /// Whether it begins at its start even if a sequence of this name was dropped.
        is_fresh: bool,
    },
    /// `INFO`: answer a map.
    Info(Key),
    /// `LIST`: answer a cursor, and a map for each sequence.
    List {
        /// Pattern of names; `None`: all.
        pattern: Option<Vec<u8>>,
        /// Name at which the previous list ended; empty: from the beginning.
        after: String,
        /// Number of names to read.
        count: u32,
        /// Names of sequences whose values are not shown.
        hidden: Vec<String>,
    },
    /// `ALTER`: answer when it takes effect on all servers.
    Alter {
        /// Name of the sequence.
        key: Key,
        /// Options and their values.
        words: Vec<String>,
    },
    /// `RAISE`: answer when it takes effect on all servers.
    Raise {
        /// Name of the sequence.
        key: Key,
        /// New last given value.
        last: i64,
    },
    /// `CONFIRM`: answer when it takes effect on all servers.
    Confirm(Key),
    /// `DECLARE`: answer when it takes effect on all servers.
    Declare(Key),
    /// `DROP`: answer when it takes effect on all servers.
    Drop(Key),
    /// `ADOPT`: answer the first value.
    Adopt {
        /// Name of the sequence.
        key: Key,
        /// Table of the row.
        table: String,
        /// The row's id.
        id: i64,
    },
    /// `NEXT`: answer the first value, the last one, and the increment.
    Next {
        /// Name of the sequence.
        key: Key,
        /// Number of values; fewer are answered if `sequence-incrby-max` is lower, or there are no more up to the max.
        values: u32,
        /// Value above which all of them are.
        above: Option<i64>,
    },
    /// `SERIES CREATE`: answer `+OK`.
    CreateSeries(Key),
    /// `SERIES LIST`: answer a cursor, and keys.
    ListSeries {
        /// Name of the generator.
        name: String,
        /// Where the previous list ended.
        after: SeriesCursor,
        /// Number of keys to read.
        count: u32,
        /// The user who gets the keys.
        reader: SeriesReader,
    },
    /// `BACKUP`: write a copy of the store into a new file of this name in the server's `dir`.
    Backup(String),
    /// `STORES`: answer a map for each store.
    Stores,
    /// `STORES CONFIRM`: release a server that has stopped permanently.
    Release {
        /// Nonce of the server.
        nonce: String,
        /// Number of values by which all rows of the store are raised first.
        margin: u32,
    },
}

/// A cursor of `SERIES LIST`: where a list of keys ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeriesCursor {
    /// After this key; empty: at the beginning. Every server continues there.
    Key(String),
    /// After a key that the user may not read, and which only the server that gave the number has.
    Number(u64),
}

impl SeriesCursor {
    /// Character before a number, which no key has.
    const MARK: char = ':';

    /// Parses a cursor of a client; `None` for a text that is none.
    pub(super) fn parse(text: &str) -> Option<SeriesCursor> {
        if let Some(number) = text.strip_prefix(Self::MARK) {
            return number.parse().ok().map(SeriesCursor::Number);
        }
        let is_key = text.is_empty() || Series::parse(text, true).is_some();
        is_key.then(|| SeriesCursor::Key(text.to_owned()))
    }
}

impl Default for SeriesCursor {
    fn default() -> SeriesCursor {
        SeriesCursor::Key(String::new())
    }
}

impl fmt::Display for SeriesCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SeriesCursor::Key(key) => f.write_str(key),
            SeriesCursor::Number(number) => write!(f, "{}{number}", Self::MARK),
        }
    }
}

/// User of a `SERIES LIST`, which returns the keys that this user may read.
#[derive(Clone, Debug)]
pub struct SeriesReader(pub(super) Arc<User>);

impl SeriesReader {
    /// Returns true if the user may read values of this series.
    pub fn may_read(&self, key: &Key) -> bool {
        self.0.may_read_key(key.as_str().as_bytes())
    }
}

/// Two readers are equal if they are the same user.
impl PartialEq for SeriesReader {
    fn eq(&self, other: &SeriesReader) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SeriesReader {}

/// Effects of known scripts, by their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptEffect {
    /// Answer the last of the drawn values.
    Count {
        /// Name of the sequence.
        key: Key,
        /// Number of values.
        values: u32,
        /// Whether a missing sequence is answered with null instead of an error.
        only_if_present: bool,
    },
    /// Makes a sequence whose first value is `first`, unless it exists: answer 1, or 0.
    Init {
        /// Name of the sequence.
        key: Key,
        /// The first value.
        first: i64,
        /// Number of values that each [`ScriptEffect::Allocate`] takes: the sequence's `cache`.
        allocation: u32,
    },
    /// Makes a sequence at the value `last`, unless it exists: answer the last of the drawn values.
    CountFrom {
        /// Name of the sequence.
        key: Key,
        /// Value above which a new sequence counts.
        last: i64,
        /// Number of values.
        values: u32,
    },
    /// Takes as many values as the sequence's `cache`: answer the first one, and their number.
    Allocate(Key),
}
