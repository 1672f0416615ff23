//! Scripts: a few scripts of libraries are recognized by their hash and executed natively; there is no Lua.

use super::{
    Argument, Categories, Command, CommandFlags, KeyAccess, KeyRange, KeySpec, NONE, READ_UPDATE, Verb, argument,
    help_row, row, token,
};

const SCRIPTING: Categories = Categories::SCRIPTING;

const EVAL_FLAGS: CommandFlags = CommandFlags::NOSCRIPT
    .and(CommandFlags::STALE)
    .and(CommandFlags::SKIP_MONITOR)
    .and(CommandFlags::NO_MANDATORY_KEYS)
    .and(CommandFlags::MOVABLEKEYS);

/// Returns the specification of keys whose number is the argument at `first`.
const fn counted(first: u8, access: KeyAccess) -> KeySpec {
    KeySpec { first, range: KeyRange::Counted, access }
}

pub(super) const EVAL: Command = row(Verb::Eval, "eval", -3, EVAL_FLAGS, SCRIPTING)
    .on_holder()
    .keys(&[counted(2, READ_UPDATE)])
    .docs("2.6.0", "scripting", "Execute a Lua script server side")
    .costs("Depends on the script that is executed.")
    .takes(&[
        argument("script", "string"),
        argument("numkeys", "integer"),
        argument("key", "key").optional().multiple(),
        argument("arg", "string").optional().multiple(),
    ]);

pub(super) const EVALSHA: Command = row(Verb::EvalSha, "evalsha", -3, EVAL_FLAGS, SCRIPTING)
    .on_holder()
    .keys(&[counted(2, READ_UPDATE)])
    .docs("2.6.0", "scripting", "Execute a Lua script server side")
    .costs("Depends on the script that is executed.")
    .takes(&[
        argument("sha1", "string"),
        argument("numkeys", "integer"),
        argument("key", "key").optional().multiple(),
        argument("arg", "string").optional().multiple(),
    ]);
pub(super) const SCRIPT: Command = row(Verb::Script, "script", -2, CommandFlags::NONE, NONE)
    .docs("2.6.0", "scripting", "A container for Lua scripts management commands")
    .with(&[
        row(Verb::ScriptLoad, "script|load", 3, CommandFlags::NOSCRIPT.and(CommandFlags::STALE), SCRIPTING)
            .docs("2.6.0", "scripting", "Load the specified Lua script into the script cache")
            .costs("O(N) with N being the length in bytes of the script body.")
            .takes(&[argument("script", "string")])
            .help(&["LOAD <script>", "    Load a script into the scripts cache without executing it."]),
        row(Verb::ScriptExists, "script|exists", -3, CommandFlags::NOSCRIPT, SCRIPTING)
            .docs("2.6.0", "scripting", "Check existence of scripts in the script cache")
            .costs(
                "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
            )
            .takes(&[argument("sha1", "string").multiple()])
            .help(&[
                "EXISTS <sha1> [<sha1> ...]",
                "    Return information about the existence of the scripts in the script cache.",
            ]),
        row(Verb::ScriptFlush, "script|flush", -2, CommandFlags::NOSCRIPT, SCRIPTING)
            .docs("2.6.0", "scripting", "Remove all the scripts from the script cache")
            .costs("O(N) with N being the number of scripts in cache")
            .takes(&[Argument { parts: &[token("ASYNC"), token("SYNC")], ..argument("async", "oneof").optional() }])
            .help(&[
                "FLUSH [ASYNC|SYNC]",
                "    Flush the Lua scripts cache. Very dangerous on replicas.",
                "    When called without the optional mode argument, the behavior is determined by the",
                "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
                "    * ASYNC: Asynchronously flush the scripts cache.",
                "    * SYNC: Synchronously flush the scripts cache.",
            ]),
        row(Verb::ScriptKill, "script|kill", 2, CommandFlags::ALLOW_BUSY.and(CommandFlags::NOSCRIPT), SCRIPTING)
            .docs("2.6.0", "scripting", "Kill the script currently in execution")
            .help(&["KILL", "    Kill the currently executing Lua script."]),
        help_row(Verb::ScriptHelp, "script|help", SCRIPTING, "5.0.0", "scripting"),
    ]);
