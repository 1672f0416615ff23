//! A sequence as a hash with fields for its position, for clients that keep their counters in hashes.

use super::{Argument, Categories, Command, CommandFlags, KeyAccess, READ, Verb, argument, one, row};

const HASH: Categories = Categories::HASH;

const FAST_READ: CommandFlags = CommandFlags::READONLY.and(CommandFlags::FAST);
const FAST_GROW: CommandFlags = CommandFlags::WRITE.and(CommandFlags::DENY_OOM).and(CommandFlags::FAST);

const INSPECT: KeyAccess = KeyAccess::RO;
const UPDATE: KeyAccess = KeyAccess::RW.and(KeyAccess::UPDATE);

pub(super) const HGET: Command = row(Verb::HGet, "hget", 3, FAST_READ, HASH)
    .keys(&[one(1, READ)])
    .docs("2.0.0", "hash", "Get the value of a hash field")
    .takes(&[argument("key", "key"), argument("field", "string")]);

pub(super) const HMGET: Command = row(Verb::HMGet, "hmget", -3, FAST_READ, HASH)
    .keys(&[one(1, READ)])
    .docs("2.0.0", "hash", "Get the values of all the given hash fields")
    .costs("O(N) where N is the number of fields being requested.")
    .takes(&[argument("key", "key"), argument("field", "string").multiple()]);

pub(super) const HGETALL: Command = row(Verb::HGetAll, "hgetall", 2, CommandFlags::READONLY, HASH)
    .keys(&[one(1, READ)])
    .docs("2.0.0", "hash", "Get all the fields and values in a hash")
    .costs("O(N) where N is the size of the hash.")
    .takes(&[argument("key", "key")]);

pub(super) const HEXISTS: Command = row(Verb::HExists, "hexists", 3, FAST_READ, HASH)
    .keys(&[one(1, INSPECT)])
    .docs("2.0.0", "hash", "Determine if a hash field exists")
    .takes(&[argument("key", "key"), argument("field", "string")]);

pub(super) const HLEN: Command = row(Verb::HLen, "hlen", 2, FAST_READ, HASH)
    .keys(&[one(1, INSPECT)])
    .docs("2.0.0", "hash", "Get the number of fields in a hash")
    .takes(&[argument("key", "key")]);

pub(super) const HKEYS: Command = row(Verb::HKeys, "hkeys", 2, CommandFlags::READONLY, HASH)
    .keys(&[one(1, READ)])
    .docs("2.0.0", "hash", "Get all the fields in a hash")
    .costs("O(N) where N is the size of the hash.")
    .takes(&[argument("key", "key")]);

pub(super) const HVALS: Command = row(Verb::HVals, "hvals", 2, CommandFlags::READONLY, HASH)
    .keys(&[one(1, READ)])
    .docs("2.0.0", "hash", "Get all the values in a hash")
    .costs("O(N) where N is the size of the hash.")
    .takes(&[argument("key", "key")]);

pub(super) const HSET: Command = row(Verb::HSet, "hset", -4, FAST_GROW, HASH)
    .keys(&[one(1, UPDATE)])
    .docs("2.0.0", "hash", "Set the string value of a hash field")
    .takes(&[
        argument("key", "key"),
        Argument {
            parts: &[argument("field", "string"), argument("value", "string")],
            ..argument("field_value", "block").multiple()
        },
    ]);
