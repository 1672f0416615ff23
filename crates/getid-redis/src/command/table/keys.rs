//! Commands about keys, as far as they apply to a sequence: replies are Redis's for a string that holds a number.
//! Commands that would lower a sequence, hide it or give it another value are refused with the alternative.

use super::{
    Argument, Categories, Command, CommandFlags, KeyAccess, NONE, READ, READ_UPDATE, Verb, argument, help_row, one,
    rest, row, token,
};

const KEYSPACE: Categories = Categories::KEYSPACE;
const STRING: Categories = Categories::STRING;

const FAST_READ: CommandFlags = CommandFlags::READONLY.and(CommandFlags::FAST);
const FAST_WRITE: CommandFlags = CommandFlags::WRITE.and(CommandFlags::FAST);
const GROW: CommandFlags = CommandFlags::WRITE.and(CommandFlags::DENY_OOM);
const FAST_GROW: CommandFlags = GROW.and(CommandFlags::FAST);

const INSPECT: KeyAccess = KeyAccess::RO;
const UPDATE: KeyAccess = KeyAccess::RW.and(KeyAccess::UPDATE);
const INSERT: KeyAccess = KeyAccess::OW.and(KeyAccess::INSERT);
const APPEND_ACCESS: KeyAccess = KeyAccess::RW.and(KeyAccess::INSERT);
const OVERWRITE: KeyAccess = KeyAccess::OW.and(KeyAccess::UPDATE);
const DELETE: KeyAccess = KeyAccess::RM.and(KeyAccess::DELETE);
const READ_DELETE: KeyAccess = KeyAccess::RW.and(KeyAccess::ACCESS).and(KeyAccess::DELETE);
const SET_ACCESS: KeyAccess = READ_UPDATE.and(KeyAccess::VARIABLE_FLAGS);

pub(super) const GET: Command = row(Verb::Get, "get", 2, FAST_READ, STRING)
    .keys(&[one(1, READ)])
    .docs("1.0.0", "string", "Get the value of a key")
    .takes(&[argument("key", "key")]);

pub(super) const MGET: Command = row(Verb::MGet, "mget", -2, FAST_READ, STRING)
    .keys(&[rest(1, 1, READ)])
    .docs("1.0.0", "string", "Get the values of all the given keys")
    .costs("O(N) where N is the number of keys to retrieve.")
    .takes(&[argument("key", "key").multiple()]);

pub(super) const EXISTS: Command = row(Verb::Exists, "exists", -2, FAST_READ, KEYSPACE)
    .keys(&[rest(1, 1, INSPECT)])
    .docs("1.0.0", "generic", "Determine if a key exists")
    .costs("O(N) where N is the number of keys to check.")
    .takes(&[argument("key", "key").multiple()]);

pub(super) const TYPE: Command = row(Verb::Type, "type", 2, FAST_READ, KEYSPACE)
    .keys(&[one(1, INSPECT)])
    .docs("1.0.0", "generic", "Determine the type stored at key")
    .takes(&[argument("key", "key")]);

pub(super) const TTL: Command = row(Verb::Ttl, "ttl", 2, FAST_READ, KEYSPACE)
    .keys(&[one(1, READ)])
    .docs("1.0.0", "generic", "Get the time to live for a key in seconds")
    .takes(&[argument("key", "key")]);

pub(super) const PTTL: Command = row(Verb::PTtl, "pttl", 2, FAST_READ, KEYSPACE)
    .keys(&[one(1, READ)])
    .docs("2.6.0", "generic", "Get the time to live for a key in milliseconds")
    .takes(&[argument("key", "key")]);

pub(super) const EXPIRETIME: Command = row(Verb::ExpireTime, "expiretime", 2, FAST_READ, KEYSPACE)
    .keys(&[one(1, READ)])
    .docs("7.0.0", "generic", "Get the expiration Unix timestamp for a key")
    .takes(&[argument("key", "key")]);

pub(super) const PEXPIRETIME: Command = row(Verb::PExpireTime, "pexpiretime", 2, FAST_READ, KEYSPACE)
    .keys(&[one(1, READ)])
    .docs("7.0.0", "generic", "Get the expiration Unix timestamp for a key in milliseconds")
    .takes(&[argument("key", "key")]);

pub(super) const STRLEN: Command = row(Verb::StrLen, "strlen", 2, FAST_READ, STRING)
    .keys(&[one(1, INSPECT)])
    .docs("2.2.0", "string", "Get the length of the value stored in a key")
    .takes(&[argument("key", "key")]);

pub(super) const TOUCH: Command = row(Verb::Touch, "touch", -2, FAST_READ, KEYSPACE)
    .keys(&[rest(1, 1, INSPECT)])
    .docs("3.2.1", "generic", "Alters the last access time of a key(s). Returns the number of existing keys specified")
    .costs("O(N) where N is the number of keys that will be touched.")
    .takes(&[argument("key", "key").multiple()]);

pub(super) const KEYS: Command =
    row(Verb::Keys, "keys", 2, CommandFlags::READONLY, KEYSPACE.and(Categories::DANGEROUS))
        .docs("1.0.0", "generic", "Find all keys matching the given pattern")
        .costs("O(N) with N being the number of keys.")
        .takes(&[argument("pattern", "pattern")]);

pub(super) const SCAN: Command = row(Verb::Scan, "scan", -2, CommandFlags::READONLY, KEYSPACE)
    .docs("2.8.0", "generic", "Incrementally iterate the keys space")
    .costs("O(N) for a complete iteration, where N is the number of keys.")
    .takes(&[
        argument("cursor", "integer"),
        argument("pattern", "pattern").after("MATCH").optional(),
        argument("count", "integer").after("COUNT").optional(),
        argument("type", "string").after("TYPE").optional(),
    ]);

pub(super) const DBSIZE: Command = row(Verb::DbSize, "dbsize", 1, FAST_READ, KEYSPACE).docs(
    "1.0.0",
    "server",
    "Return the number of keys in the selected database",
);

pub(super) const RANDOMKEY: Command = row(Verb::RandomKey, "randomkey", 1, CommandFlags::READONLY, KEYSPACE).docs(
    "1.0.0",
    "generic",
    "Return a random key from the keyspace",
);

pub(super) const OBJECT: Command = row(Verb::Object, "object", -2, CommandFlags::NONE, NONE)
    .docs("2.2.3", "generic", "A container for object introspection commands")
    .with(&[
        row(Verb::ObjectEncoding, "object|encoding", 3, CommandFlags::READONLY, KEYSPACE)
            .keys(&[one(2, INSPECT)])
            .docs("2.2.3", "generic", "Inspect the internal encoding of a Redis object")
            .takes(&[argument("key", "key")])
            .help(&[
                "ENCODING <key>",
                "    Return the kind of internal representation used in order to store the value",
                "    associated with a <key>.",
            ]),
        row(Verb::ObjectFreq, "object|freq", 3, CommandFlags::READONLY, KEYSPACE)
            .keys(&[one(2, INSPECT)])
            .docs("4.0.0", "generic", "Get the logarithmic access frequency counter of a Redis object")
            .takes(&[argument("key", "key")])
            .help(&[
                "FREQ <key>",
                "    Return the access frequency index of the <key>. The returned integer is",
                "    proportional to the logarithm of the recent access frequency of the key.",
            ]),
        row(Verb::ObjectIdleTime, "object|idletime", 3, CommandFlags::READONLY, KEYSPACE)
            .keys(&[one(2, INSPECT)])
            .docs("2.2.3", "generic", "Get the time since a Redis object was last accessed")
            .takes(&[argument("key", "key")])
            .help(&[
                "IDLETIME <key>",
                "    Return the idle time of the <key>, that is the approximated number of",
                "    seconds elapsed since the last access to the key.",
            ]),
        row(Verb::ObjectRefCount, "object|refcount", 3, CommandFlags::READONLY, KEYSPACE)
            .keys(&[one(2, INSPECT)])
            .docs("2.2.3", "generic", "Get the number of references to the value of the key")
            .takes(&[argument("key", "key")])
            .help(&[
                "REFCOUNT <key>",
                "    Return the number of references of the value associated with the specified",
                "    <key>.",
            ]),
        help_row(Verb::ObjectHelp, "object|help", KEYSPACE, "6.2.0", "generic"),
    ]);
pub(super) const SET: Command = row(Verb::Set, "set", -3, GROW, STRING)
    .guarded()
    .keys(&[one(1, SET_ACCESS)])
    .docs("1.0.0", "string", "Set the string value of a key")
    .takes(&[
        argument("key", "key"),
        argument("value", "string"),
        Argument { parts: &[token("NX"), token("XX")], ..argument("condition", "oneof").optional() },
        token("GET").optional(),
        Argument {
            parts: &[
                argument("seconds", "integer").after("EX"),
                argument("milliseconds", "integer").after("PX"),
                argument("unix-time-seconds", "unix-time").after("EXAT"),
                argument("unix-time-milliseconds", "unix-time").after("PXAT"),
                token("KEEPTTL"),
            ],
            ..argument("expiration", "oneof").optional()
        },
    ]);

pub(super) const SETNX: Command = row(Verb::SetNx, "setnx", 3, FAST_GROW, STRING)
    .keys(&[one(1, INSERT)])
    .docs("1.0.0", "string", "Set the value of a key, only if the key does not exist")
    .takes(&[argument("key", "key"), argument("value", "string")]);

pub(super) const GETSET: Command = row(Verb::GetSet, "getset", 3, FAST_GROW, STRING)
    .guarded()
    .keys(&[one(1, READ_UPDATE)])
    .docs("1.0.0", "string", "Set the string value of a key and return its old value")
    .takes(&[argument("key", "key"), argument("value", "string")]);

pub(super) const GETDEL: Command = row(Verb::GetDel, "getdel", 2, FAST_WRITE, STRING)
    .guarded()
    .keys(&[one(1, READ_DELETE)])
    .docs("6.2.0", "string", "Get the value of a key and delete the key")
    .takes(&[argument("key", "key")]);

pub(super) const DEL: Command = row(Verb::Del, "del", -2, CommandFlags::WRITE, KEYSPACE)
    .guarded()
    .keys(&[rest(1, 1, DELETE)])
    .docs("1.0.0", "generic", "Delete a key")
    .costs("O(N) where N is the number of keys that will be removed.")
    .takes(&[argument("key", "key").multiple()]);

pub(super) const UNLINK: Command = row(Verb::Unlink, "unlink", -2, FAST_WRITE, KEYSPACE)
    .guarded()
    .keys(&[rest(1, 1, DELETE)])
    .docs(
        "4.0.0",
        "generic",
        "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking",
    )
    .costs("O(N) where N is the number of keys that will be removed.")
    .takes(&[argument("key", "key").multiple()]);

pub(super) const PERSIST: Command = row(Verb::Persist, "persist", 2, FAST_WRITE, KEYSPACE)
    .keys(&[one(1, UPDATE)])
    .docs("2.2.0", "generic", "Remove the expiration from a key")
    .takes(&[argument("key", "key")]);

// Refused commands, each with its alternative.
pub(super) const EXPIRE: Command = row(Verb::Expire, "expire", -3, FAST_WRITE, KEYSPACE)
    .keys(&[one(1, UPDATE)])
    .docs("1.0.0", "generic", "Set a key's time to live in seconds")
    .takes(&[
        argument("key", "key"),
        argument("seconds", "integer"),
        Argument {
            parts: &[token("NX"), token("XX"), token("GT"), token("LT")],
            ..argument("condition", "oneof").optional()
        },
    ]);

pub(super) const PEXPIRE: Command = row(Verb::PExpire, "pexpire", -3, FAST_WRITE, KEYSPACE)
    .keys(&[one(1, UPDATE)])
    .docs("2.6.0", "generic", "Set a key's time to live in milliseconds")
    .takes(&[
        argument("key", "key"),
        argument("milliseconds", "integer"),
        Argument {
            parts: &[token("NX"), token("XX"), token("GT"), token("LT")],
            ..argument("condition", "oneof").optional()
        },
    ]);

pub(super) const EXPIREAT: Command = row(Verb::ExpireAt, "expireat", -3, FAST_WRITE, KEYSPACE)
    .keys(&[one(1, UPDATE)])
    .docs("1.2.0", "generic", "Set the expiration for a key as a UNIX timestamp")
    .takes(&[
        argument("key", "key"),
        argument("unix-time-seconds", "unix-time"),
        Argument {
            parts: &[token("NX"), token("XX"), token("GT"), token("LT")],
            ..argument("condition", "oneof").optional()
        },
    ]);

pub(super) const PEXPIREAT: Command = row(Verb::PExpireAt, "pexpireat", -3, FAST_WRITE, KEYSPACE)
    .keys(&[one(1, UPDATE)])
    .docs("2.6.0", "generic", "Set the expiration for a key as a UNIX timestamp specified in milliseconds")
    .takes(&[
        argument("key", "key"),
        argument("unix-time-milliseconds", "unix-time"),
        Argument {
            parts: &[token("NX"), token("XX"), token("GT"), token("LT")],
            ..argument("condition", "oneof").optional()
        },
    ]);

pub(super) const DECR: Command = row(Verb::Decr, "decr", 2, FAST_GROW, STRING)
    .keys(&[one(1, READ_UPDATE)])
    .docs("1.0.0", "string", "Decrement the integer value of a key by one")
    .takes(&[argument("key", "key")]);

pub(super) const DECRBY: Command = row(Verb::DecrBy, "decrby", 3, FAST_GROW, STRING)
    .keys(&[one(1, READ_UPDATE)])
    .docs("1.0.0", "string", "Decrement the integer value of a key by the given number")
    .takes(&[argument("key", "key"), argument("decrement", "integer")]);

pub(super) const INCRBYFLOAT: Command = row(Verb::IncrByFloat, "incrbyfloat", 3, FAST_GROW, STRING)
    .keys(&[one(1, READ_UPDATE)])
    .docs("2.6.0", "string", "Increment the float value of a key by the given amount")
    .takes(&[argument("key", "key"), argument("increment", "double")]);

pub(super) const APPEND: Command = row(Verb::Append, "append", 3, FAST_GROW, STRING)
    .keys(&[one(1, APPEND_ACCESS)])
    .docs("2.0.0", "string", "Append a value to a key")
    .takes(&[argument("key", "key"), argument("value", "string")]);

pub(super) const SETRANGE: Command = row(Verb::SetRange, "setrange", 4, GROW, STRING)
    .keys(&[one(1, UPDATE)])
    .docs("2.2.0", "string", "Overwrite part of a string at key starting at the specified offset")
    .takes(&[argument("key", "key"), argument("offset", "integer"), argument("value", "string")]);

pub(super) const GETEX: Command = row(Verb::GetEx, "getex", -2, FAST_WRITE, STRING)
    .keys(&[one(1, READ_UPDATE)])
    .docs("6.2.0", "string", "Get the value of a key and optionally set its expiration")
    .takes(&[
        argument("key", "key"),
        Argument {
            parts: &[
                argument("seconds", "integer").after("EX"),
                argument("milliseconds", "integer").after("PX"),
                argument("unix-time-seconds", "unix-time").after("EXAT"),
                argument("unix-time-milliseconds", "unix-time").after("PXAT"),
                token("PERSIST"),
            ],
            ..argument("expiration", "oneof").optional()
        },
    ]);

pub(super) const SETEX: Command = row(Verb::SetEx, "setex", 4, GROW, STRING)
    .keys(&[one(1, OVERWRITE)])
    .docs("2.0.0", "string", "Set the value and expiration of a key")
    .takes(&[argument("key", "key"), argument("seconds", "integer"), argument("value", "string")]);

pub(super) const PSETEX: Command = row(Verb::PSetEx, "psetex", 4, GROW, STRING)
    .keys(&[one(1, OVERWRITE)])
    .docs("2.6.0", "string", "Set the value and expiration in milliseconds of a key")
    .takes(&[argument("key", "key"), argument("milliseconds", "integer"), argument("value", "string")]);

pub(super) const MSET: Command = row(Verb::MSet, "mset", -3, GROW, STRING)
    .keys(&[rest(1, 2, OVERWRITE)])
    .docs("1.0.1", "string", "Set multiple keys to multiple values")
    .costs("O(N) where N is the number of keys to set.")
    .takes(&[Argument {
        parts: &[argument("key", "key"), argument("value", "string")],
        ..argument("key_value", "block").multiple()
    }]);

pub(super) const MSETNX: Command = row(Verb::MSetNx, "msetnx", -3, GROW, STRING)
    .keys(&[rest(1, 2, INSERT)])
    .docs("1.0.1", "string", "Set multiple keys to multiple values, only if none of the keys exist")
    .costs("O(N) where N is the number of keys to set.")
    .takes(&[Argument {
        parts: &[argument("key", "key"), argument("value", "string")],
        ..argument("key_value", "block").multiple()
    }]);

pub(super) const RENAME: Command = row(Verb::Rename, "rename", 3, CommandFlags::WRITE, KEYSPACE)
    .keys(&[one(1, READ_DELETE), one(2, OVERWRITE)])
    .docs("1.0.0", "generic", "Rename a key")
    .takes(&[argument("key", "key"), argument("newkey", "key")]);

pub(super) const RENAMENX: Command = row(Verb::RenameNx, "renamenx", 3, FAST_WRITE, KEYSPACE)
    .keys(&[one(1, READ_DELETE), one(2, INSERT)])
    .docs("1.0.0", "generic", "Rename a key, only if the new key does not exist")
    .takes(&[argument("key", "key"), argument("newkey", "key")]);
