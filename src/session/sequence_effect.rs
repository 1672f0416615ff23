//! What commands about sequences ask the server for, and what Redis says of a string that holds a number.
//!
//! A sequence's value is known to the server alone; what follows from it is decided here, so that a session answers for
//! a name that no sequence can have as the server does for one that is missing.

use getid_core::{Key, Spec};

use crate::resp::Value;

/// What to do where a key with a date in its name was to expire.
pub(super) const BEGINS_AGAIN: &str = "For numbers that begin again each day or month declare \
                                       'generator NAME serial \"{yyyyMMdd}{n:6}\"', and ask GETID NAME";

/// About keys: what libraries and people ask who look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysEffect {
    /// Answer [`Look::answer`] with the last value of this sequence.
    Look {
        /// Which.
        key: Key,
        /// What is asked of it.
        look: Look,
    },
    /// `MGET`: answer an array; `None` can be no sequence.
    Values(Vec<Option<Key>>),
    /// `EXISTS` and `TOUCH`: answer how many there are; one that is named twice counts twice.
    Count(Vec<Key>),
    /// `SET` and its like.
    Set(SetSequence),
    /// `DEL`, `UNLINK`: answer how many were dropped.
    Delete(Vec<Key>),
    /// `GETDEL`: answer the value of the one that was dropped.
    GetDelete(Key),
    /// `HGET`, `HMGET` and the like: answer what is said of the sequence as a hash.
    Hash {
        /// Which.
        key: Key,
        /// What of it.
        look: HashLook,
    },
    /// `KEYS`: answer all names that match.
    Names(Vec<u8>),
    /// `SCAN`: answer a cursor and some names.
    Scan(Scan),
    /// `DBSIZE`: answer how many sequences there are.
    Size,
    /// `RANDOMKEY`: answer any name.
    Random,
}

/// What is asked of a sequence's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// `GET`.
    Value,
    /// `TYPE`.
    Type,
    /// `TTL`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`.
    Ttl,
    /// `STRLEN`.
    Len,
    /// `OBJECT ENCODING`.
    Encoding,
    /// `OBJECT REFCOUNT`.
    RefCount,
    /// `OBJECT IDLETIME`.
    Idle,
    /// `OBJECT FREQ`.
    Freq,
    /// `EXPIRE` and its like; `NX` is answered as if there were an expiry already.
    Expire {
        /// Whether it is so where there is none yet.
        only_new: bool,
    },
}

/// Redis's answer to `OBJECT FREQ` where nothing is evicted by use.
const NO_FREQ: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                       switching between policies at runtime LRU and LFU data will take some time to adjust.";

/// Redis shares objects of numbers below this, and says so by the largest count.
const SHARED_NUMBERS: i64 = 10_000;

impl Look {
    /// What Redis says of a string that holds this number, or of a key that is not there.
    pub fn answer(self, name: &str, last: Option<i64>) -> Value {
        let Some(last) = last else { return self.answer_to_none() };
        match self {
            Look::Value => Value::bulk(last.to_string()),
            Look::Type => Value::Simple("string".into()),
            Look::Ttl => Value::Integer(-1),
            Look::Len => Value::Integer(i64::try_from(last.to_string().len()).unwrap_or(i64::MAX)),
            Look::Encoding => Value::from("int"),
            Look::RefCount if last < SHARED_NUMBERS => Value::Integer(i64::from(i32::MAX)),
            Look::RefCount => Value::Integer(1),
            Look::Idle | Look::Expire { only_new: true } => Value::Integer(0),
            Look::Freq => Value::error(NO_FREQ),
            Look::Expire { only_new: false } => Value::error(format!(
                "ERR a sequence never expires, for a counter that begins again gives its values twice: '{name}' stays. \
                 Leave the expiry away, or send EXPIRE with NX, which is answered 0. {BEGINS_AGAIN}"
            )),
        }
    }

    fn answer_to_none(self) -> Value {
        match self {
            Look::Value | Look::Encoding | Look::RefCount | Look::Idle | Look::Freq => Value::Null,
            Look::Type => Value::Simple("none".into()),
            Look::Ttl => Value::Integer(-2),
            Look::Len | Look::Expire { .. } => Value::Integer(0),
        }
    }
}

/// `SET`, `SETNX`, `GETSET`: makes a sequence, or raises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSequence {
    /// Which.
    pub key: Key,
    /// The last value that counts as given from then on.
    pub last: i64,
    /// Whether it must be there, or must not.
    pub only: Only,
    /// What is answered.
    pub reply: SetReply,
}

/// Which sequences `SET` touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Any.
    Any,
    /// `NX`: one that is not there yet.
    New,
    /// `XX`: one that is there.
    Old,
}

/// What `SET` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetReply {
    /// `+OK`, or nothing if it was not set.
    Ok,
    /// The value before, whether or not it was set.
    Old,
    /// 1, or 0 if it was not set.
    Count,
}

impl SetReply {
    /// The answer: `old` is the value before, if there was one.
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
pub struct Scan {
    /// 0, or what the call before has answered.
    pub cursor: u64,
    /// Which names; `None`: all.
    pub pattern: Option<Vec<u8>>,
    /// How many are looked at.
    pub count: u32,
    /// Whether the type that is asked for is a sequence's.
    pub is_of_type: bool,
}

/// What is asked of a sequence as a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashLook {
    /// `HGET`: one field.
    Field(Vec<u8>),
    /// `HMGET`: some.
    Fields(Vec<Vec<u8>>),
    /// `HEXISTS`.
    Has(Vec<u8>),
    /// `HGETALL`.
    All,
    /// `HKEYS`.
    Names,
    /// `HVALS`.
    Values,
    /// `HLEN`.
    Len,
}

/// A sequence as a hash: the fields of the `HINCRBY` pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFields {
    /// `cur`: the last value that was given.
    pub cur: i64,
    /// `max`: the last value that it may have.
    pub max: i64,
    /// `seq_recently`: values given in 5 minutes.
    pub recently: i64,
    /// `seq_long_term`: values given in 30 minutes.
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

impl HashLook {
    /// Whether it asks for more than is in memory.
    pub fn needs_max(&self) -> bool {
        let is_max = |name: &[u8]| name == b"max";
        match self {
            HashLook::Field(name) => is_max(name),
            HashLook::Fields(names) => names.iter().any(|name| is_max(name)),
            HashLook::All | HashLook::Values => true,
            HashLook::Has(_) | HashLook::Names | HashLook::Len => false,
        }
    }

    /// What Redis says of such a hash, or of a key that is not there.
    pub fn answer(&self, fields: Option<&HashFields>) -> Value {
        let told = |number: i64| Value::bulk(number.to_string());
        let field = |name: &[u8]| fields.and_then(|fields| fields.field(name));
        let or_null = |name: &[u8]| field(name).map_or(Value::Null, told);
        let all = fields.map(|fields| fields.all().to_vec()).unwrap_or_default();
        match self {
            HashLook::Field(name) => or_null(name),
            HashLook::Fields(names) => Value::Array(names.iter().map(|name| or_null(name)).collect()),
            HashLook::Has(name) => Value::Integer(field(name).is_some().into()),
            HashLook::All => Value::map(all.into_iter().map(|(name, value)| (name, told(value)))),
            HashLook::Names => Value::Array(all.into_iter().map(|(name, _)| Value::from(name)).collect()),
            HashLook::Values => Value::Array(all.into_iter().map(|(_, value)| told(value)).collect()),
            HashLook::Len => Value::Integer(i64::try_from(all.len()).unwrap_or(0)),
        }
    }
}

/// `SEQUENCE`: the operator's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceEffect {
    /// `CREATE`: answer `+OK`.
    Create {
        /// Which.
        key: Key,
        /// What is said of it.
        spec: Spec,
        /// Whether it begins at its start although one of its name was dropped.
        is_fresh: bool,
    },
    /// `INFO`: answer a map.
    Info(Key),
    /// `LIST`: answer a cursor, and a map for each.
    List {
        /// Which names; `None`: all.
        pattern: Option<Vec<u8>>,
        /// The name that the list before has ended at; empty: from the beginning.
        after: String,
        /// How many are looked at.
        count: u32,
    },
    /// `ALTER`: answer when it holds everywhere.
    Alter {
        /// Which.
        key: Key,
        /// Options and their values.
        words: Vec<String>,
    },
    /// `RAISE`: answer when it holds everywhere.
    Raise {
        /// Which.
        key: Key,
        /// The last value that counts as given.
        last: i64,
    },
    /// `CONFIRM`: answer when it holds everywhere.
    Confirm(Key),
    /// `DECLARE`: answer when it holds everywhere.
    Declare(Key),
    /// `DROP`: answer when it holds everywhere.
    Drop(Key),
    /// `ADOPT`: answer where it begins.
    Adopt {
        /// Which.
        key: Key,
        /// The table that has the row.
        table: String,
        /// The row's id.
        id: i64,
    },
    /// `NEXT`: answer the first value, the last one, and the increment.
    Next {
        /// Which.
        key: Key,
        /// How many values.
        values: u32,
    },
    /// `BACKUP`: write a copy of the store into a new file of this name in the server's `dir`.
    Backup(String),
    /// `STORES`: answer a map for each.
    Stores,
    /// `STORES CONFIRM`: let go of a server that has stopped for good.
    Release {
        /// Its nonce.
        nonce: String,
        /// Values by which all rows of the store go up first.
        margin: u32,
    },
}

/// A script that is known by what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptEffect {
    /// Answer the last of so many values.
    Count {
        /// Of which sequence.
        key: Key,
        /// How many.
        values: u32,
        /// Whether nothing is answered where there is none, rather than an error.
        only_if_there: bool,
    },
    /// Makes a sequence whose first value is `first`, unless there is one: answer 1, or 0.
    Init {
        /// Which.
        key: Key,
        /// The first value.
        first: i64,
        /// How many values each [`ScriptEffect::Allocate`] takes: the sequence's `cache`.
        allocation: u32,
    },
    /// Takes as many values as the sequence's `cache` says: answer the first one, and how many.
    Allocate(Key),
}
