//! Commands that are in the table for the default tests of `redis-benchmark` alone. getid has no lists, sets, sorted
//! sets, streams or functions, and refuses every other request with them.

use super::{
    Argument, Categories, Command, CommandFlags, KeyAccess, KeyRange, KeySpec, NONE, READ, READ_UPDATE, Verb, argument,
    help_row, one, row, token,
};

const LIST: Categories = Categories::LIST;
const SET: Categories = Categories::SET;
const SORTED_SET: Categories = Categories::SORTED_SET;
const SCRIPTING: Categories = Categories::SCRIPTING;

const FAST_WRITE: CommandFlags = CommandFlags::WRITE.and(CommandFlags::FAST);
const FAST_GROW: CommandFlags = FAST_WRITE.and(CommandFlags::DENY_OOM);
const LOAD_FLAGS: CommandFlags = CommandFlags::WRITE.and(CommandFlags::DENY_OOM).and(CommandFlags::NOSCRIPT);
const CALL_FLAGS: CommandFlags = CommandFlags::NOSCRIPT
    .and(CommandFlags::STALE)
    .and(CommandFlags::SKIP_MONITOR)
    .and(CommandFlags::NO_MANDATORY_KEYS)
    .and(CommandFlags::MOVABLEKEYS);

const INSERT: &[KeySpec] = &[one(1, KeyAccess::RW.and(KeyAccess::INSERT))];
const UPDATE: &[KeySpec] = &[one(1, KeyAccess::RW.and(KeyAccess::UPDATE))];
const POP: &[KeySpec] = &[one(1, KeyAccess::RW.and(KeyAccess::ACCESS).and(KeyAccess::DELETE))];

const KEY: Argument = argument("key", "key");
const COUNT: Argument = argument("count", "integer").optional();

pub(super) const LPUSH: Command = row(Verb::LPush, "lpush", -3, FAST_GROW, LIST)
    .keys(INSERT)
    .docs("1.0.0", "list", "Prepend one or multiple elements to a list")
    .takes(&[KEY, argument("element", "string").multiple()]);

pub(super) const RPUSH: Command = row(Verb::RPush, "rpush", -3, FAST_GROW, LIST)
    .keys(INSERT)
    .docs("1.0.0", "list", "Append one or multiple elements to a list")
    .takes(&[KEY, argument("element", "string").multiple()]);

pub(super) const LPOP: Command = row(Verb::LPop, "lpop", -2, FAST_WRITE, LIST)
    .keys(POP)
    .docs("1.0.0", "list", "Remove and get the first elements in a list")
    .takes(&[KEY, COUNT]);

pub(super) const RPOP: Command = row(Verb::RPop, "rpop", -2, FAST_WRITE, LIST)
    .keys(POP)
    .docs("1.0.0", "list", "Remove and get the last elements in a list")
    .takes(&[KEY, COUNT]);

pub(super) const LRANGE: Command = row(Verb::LRange, "lrange", 4, CommandFlags::READONLY, LIST)
    .keys(&[one(1, READ)])
    .docs("1.0.0", "list", "Get a range of elements from a list")
    .takes(&[KEY, argument("start", "integer"), argument("stop", "integer")]);

pub(super) const SADD: Command = row(Verb::SAdd, "sadd", -3, FAST_GROW, SET)
    .keys(INSERT)
    .docs("1.0.0", "set", "Add one or more members to a set")
    .takes(&[KEY, argument("member", "string").multiple()]);

pub(super) const SPOP: Command = row(Verb::SPop, "spop", -2, FAST_WRITE, SET)
    .keys(POP)
    .docs("1.0.0", "set", "Remove and return one or multiple random members from a set")
    .takes(&[KEY, COUNT]);

pub(super) const ZADD: Command = row(Verb::ZAdd, "zadd", -4, FAST_GROW, SORTED_SET)
    .keys(UPDATE)
    .docs("1.2.0", "sorted-set", "Add one or more members to a sorted set, or update its score if it already exists")
    .takes(&[
        KEY,
        Argument {
            parts: &[argument("score", "double"), argument("member", "string")],
            ..argument("score_member", "block").multiple()
        },
    ]);

pub(super) const ZPOPMIN: Command = row(Verb::ZPopMin, "zpopmin", -2, FAST_WRITE, SORTED_SET)
    .keys(POP)
    .docs("5.0.0", "sorted-set", "Remove and return members with the lowest scores in a sorted set")
    .takes(&[KEY, COUNT]);

pub(super) const XADD: Command = row(Verb::XAdd, "xadd", -5, FAST_GROW, Categories::STREAM)
    .keys(UPDATE)
    .docs("5.0.0", "stream", "Appends a new entry to a stream")
    .takes(&[
        KEY,
        argument("id", "string"),
        Argument {
            parts: &[argument("field", "string"), argument("value", "string")],
            ..argument("field_value", "block").multiple()
        },
    ]);

pub(super) const FCALL: Command = row(Verb::FCall, "fcall", -3, CALL_FLAGS, SCRIPTING)
    .keys(&[KeySpec { first: 2, range: KeyRange::Counted, access: READ_UPDATE }])
    .docs("7.0.0", "scripting", "Invoke a function")
    .takes(&[
        argument("function", "string"),
        argument("numkeys", "integer"),
        argument("key", "key").optional().multiple(),
        argument("arg", "string").optional().multiple(),
    ]);

pub(super) const FUNCTION: Command = row(Verb::Function, "function", -2, CommandFlags::NONE, NONE)
    .docs("7.0.0", "scripting", "A container for function commands")
    .with(&[
        row(Verb::FunctionLoad, "function|load", -3, LOAD_FLAGS, SCRIPTING)
            .docs("7.0.0", "scripting", "Create a function with the given arguments (name, code, description)")
            .takes(&[token("REPLACE").optional(), argument("function-code", "string")])
            .help(&[
                "LOAD [REPLACE] <FUNCTION CODE>",
                "    Create a new library with the given library name and code.",
            ]),
        help_row(Verb::FunctionHelp, "function|help", SCRIPTING, "7.0.0", "scripting"),
    ]);
