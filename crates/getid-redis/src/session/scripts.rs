//! Scripts of libraries that count or that give out machine ids. There is no Lua here, so each known script is replaced
//! by its meaning.
//!
//! A library sends a script's text once (`EVAL`, `SCRIPT LOAD`) and then its SHA-1, so a script is identified by its
//! SHA-1. The texts are those of Redisson's `RedissonIdGenerator.java` and of django-redis's `client/default.py` (4.12
//! to 7.0): facts about the protocol, not code that runs. The texts of CosId's long files are not repeated here.
//!
//! Invariant: `sha1` is the SHA-1 of `text` (tested), or of the file of CosId that the row names.

use std::fmt::{self, Write as _};

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Meaning of a known script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptMeaning {
    /// A script that counts.
    Sequence(SequenceScript),
    /// A script of CosId about machine ids.
    Machine(MachineScript),
}

impl fmt::Display for ScriptMeaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptMeaning::Sequence(script) => write!(f, "{script:?}"),
            ScriptMeaning::Machine(script) => write!(f, "{script:?}"),
        }
    }
}

/// Scripts that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceScript {
    /// django-redis's `incr`: `INCRBY`, and nothing if the key is missing.
    CountIfPresent,
    /// django-redis's `incr` with `ignore_key_check`: `INCRBY`.
    Count,
    /// Redisson's `RIdGenerator.tryInit`.
    Init,
    /// Redisson's `RIdGenerator.nextId`, once its values are used up.
    Allocate,
    /// CosId's `redis_id_generate.lua`: `SETNX`, then `INCRBY`.
    CountFrom,
}

/// CosId's scripts of machine ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineScript {
    /// `machine_id_distribute.lua`: the machine id of an instance.
    Distribute,
    /// `machine_id_guard.lua`: the instance lives.
    Guard,
    /// `machine_id_revert.lua`: the instance ends, and its id is free.
    Revert,
    /// `machine_id_revert_stable.lua`: the instance ends, and its id stays its own.
    RevertStable,
}

impl MachineScript {
    /// Returns the SHA-1 of the newest file, by which `EVALSHA` runs the script.
    pub const fn sha1(self) -> &'static str {
        match self {
            MachineScript::Distribute => "abb225fa62a528a2bd6ba2b023aaeb3f832c8a18",
            MachineScript::Guard => "d3f3370f1163c867dbeea875b97779b29266f0fe",
            MachineScript::Revert => "72d5184b7ec1e4dbe0764750825570b6d9a972ea",
            MachineScript::RevertStable => "c3bf4d20993e8e1d2207c6c136eb406b2f16f69c",
        }
    }
}

/// A known script.
pub(super) struct KnownScript {
    pub(super) meaning: ScriptMeaning,
    /// SHA-1 in small letters.
    pub(super) sha1: &'static str,
    /// Number of keys, and number of other arguments.
    pub(super) takes: [usize; 2],
    #[cfg_attr(not(test), expect(dead_code, reason = "source of the SHA-1, which a test compares"))]
    text: Option<&'static str>,
}

/// Returns the row of a file in CosId's `cosid-spring-redis/src/main/resources`.
const fn cosid(meaning: ScriptMeaning, sha1: &'static str, args: usize) -> KnownScript {
    KnownScript { meaning, sha1, takes: [1, args], text: None }
}

/// Returns the row of the newest file of a script of machine ids.
const fn machine(script: MachineScript, args: usize) -> KnownScript {
    cosid(ScriptMeaning::Machine(script), script.sha1(), args)
}

pub(super) static KNOWN: [KnownScript; 10] = [
    KnownScript {
        meaning: ScriptMeaning::Sequence(SequenceScript::CountIfPresent),
        sha1: "f4a7da3e5d8ea3b46642af08427151cae0190400",
        takes: [1, 1],
        text: Some(
            "\n                    local exists = redis.call('EXISTS', KEYS[1])\n                    if (exists == 1) \
               then\n                        return redis.call('INCRBY', KEYS[1], ARGV[1])\n                    else return \
               false end\n                    ",
        ),
    },
    KnownScript {
        meaning: ScriptMeaning::Sequence(SequenceScript::Count),
        sha1: "4d15273b16b10c15e1d9202cbe93c959ab7d250b",
        takes: [1, 1],
        text: Some("\n                    return redis.call('INCRBY', KEYS[1], ARGV[1])\n                    "),
    },
    KnownScript {
        meaning: ScriptMeaning::Sequence(SequenceScript::Init),
        sha1: "3c1028765bf9c80606aa6fce12132bf9e3d5a9a1",
        takes: [2, 2],
        text: Some("redis.call('setnx', KEYS[1], ARGV[1]); return redis.call('setnx', KEYS[2], ARGV[2]); "),
    },
    KnownScript {
        meaning: ScriptMeaning::Sequence(SequenceScript::Allocate),
        sha1: "e57ac7b74498ebd39874c49d73184be9513f8789",
        takes: [2, 0],
        text: Some(
            "local allocationSize = redis.call('get', KEYS[2]); if allocationSize == false then allocationSize = 5000; \
               redis.call('set', KEYS[2], allocationSize);end;local value = redis.call('get', KEYS[1]); if value == false \
               then redis.call('incr', KEYS[1]);value = 1; end; redis.call('incrby', KEYS[1], allocationSize); return \
               {value, allocationSize}; ",
        ),
    },
    // CosId 1.9.0 to 3.0.5, and 3.0.6 to 3.2.1, which never lowers the time of an instance that is started again.
    cosid(ScriptMeaning::Machine(MachineScript::Distribute), "bad2854510c56cf1ad461246e07b8a39f23739ec", 4),
    machine(MachineScript::Distribute, 4),
    // CosId 1.9.0 to 3.2.1.
    machine(MachineScript::Guard, 2),
    machine(MachineScript::Revert, 2),
    machine(MachineScript::RevertStable, 2),
    // CosId 1.0.3 to 3.2.1. From 1.9.0 on, no class of CosId runs it.
    cosid(ScriptMeaning::Sequence(SequenceScript::CountFrom), "d91bb5bde37639c07cd90d1f2570ebd353cbf58c", 2),
];

/// Returns the script with this SHA-1, in any letter case.
pub(super) fn by_sha1(sha1: &[u8]) -> Option<&'static KnownScript> {
    KNOWN.iter().find(|known| known.sha1.as_bytes().eq_ignore_ascii_case(sha1))
}

/// Returns the script with this text.
pub(super) fn by_text(text: &[u8]) -> Option<&'static KnownScript> {
    by_sha1(sha1_of(text).as_bytes())
}

/// Returns the SHA-1 of a script, as Redis writes it.
fn sha1_of(text: &[u8]) -> String {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, text).as_ref().iter().fold(String::new(), |mut hex, byte| {
        // A write to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_known_by_their_texts() {
        for known in &KNOWN {
            let digits = known.sha1.bytes().filter(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
            assert_eq!((digits, known.sha1.len()), (40, 40), "{:?}", known.meaning);
            if let Some(text) = known.text {
                assert_eq!(sha1_of(text.as_bytes()), known.sha1, "{:?}", known.meaning);
                assert_eq!(by_text(text.as_bytes()).map(|found| found.meaning), Some(known.meaning));
            }
            assert_eq!(by_sha1(known.sha1.to_uppercase().as_bytes()).map(|found| found.meaning), Some(known.meaning));
        }
        assert!(by_text(b"return 1").is_none() && by_sha1(b"").is_none());
        assert_eq!(sha1_of(b"return 1"), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
