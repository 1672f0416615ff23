//! Scripts with which libraries count. There is no Lua here, so each known script is replaced by its meaning.
//!
//! A library sends a script's text once (`EVAL`, `SCRIPT LOAD`) and then its SHA-1, so a script is identified by its
//! SHA-1. The texts are those of Redisson's `RedissonIdGenerator.java` and of django-redis's `client/default.py` (4.12
//! to 7.0): facts about the protocol, not code that runs.
//!
//! Invariant: `sha1` is the SHA-1 of `text` (tested).

use std::fmt::Write as _;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Meaning of a known script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptMeaning {
    /// django-redis's `incr`: `INCRBY`, and nothing if the key is missing.
    CountIfPresent,
    /// django-redis's `incr` with `ignore_key_check`: `INCRBY`.
    Count,
    /// Redisson's `RIdGenerator.tryInit`.
    Init,
    /// Redisson's `RIdGenerator.nextId`, once its values are used up.
    Allocate,
}

/// A known script.
pub(super) struct KnownScript {
    pub(super) meaning: ScriptMeaning,
    /// SHA-1 in small letters.
    pub(super) sha1: &'static str,
    /// Number of keys, and number of other arguments.
    pub(super) takes: [usize; 2],
    #[cfg_attr(not(test), expect(dead_code, reason = "source of the SHA-1, which a test compares"))]
    text: &'static str,
}

pub(super) static KNOWN: [KnownScript; 4] = [
    KnownScript {
        meaning: ScriptMeaning::CountIfPresent,
        sha1: "f4a7da3e5d8ea3b46642af08427151cae0190400",
        takes: [1, 1],
        text: "\n                    local exists = redis.call('EXISTS', KEYS[1])\n                    if (exists == 1) \
               then\n                        return redis.call('INCRBY', KEYS[1], ARGV[1])\n                    else return \
               false end\n                    ",
    },
    KnownScript {
        meaning: ScriptMeaning::Count,
        sha1: "4d15273b16b10c15e1d9202cbe93c959ab7d250b",
        takes: [1, 1],
        text: "\n                    return redis.call('INCRBY', KEYS[1], ARGV[1])\n                    ",
    },
    KnownScript {
        meaning: ScriptMeaning::Init,
        sha1: "3c1028765bf9c80606aa6fce12132bf9e3d5a9a1",
        takes: [2, 2],
        text: "redis.call('setnx', KEYS[1], ARGV[1]); return redis.call('setnx', KEYS[2], ARGV[2]); ",
    },
    KnownScript {
        meaning: ScriptMeaning::Allocate,
        sha1: "e57ac7b74498ebd39874c49d73184be9513f8789",
        takes: [2, 0],
        text: "local allocationSize = redis.call('get', KEYS[2]); if allocationSize == false then allocationSize = 5000; \
               redis.call('set', KEYS[2], allocationSize);end;local value = redis.call('get', KEYS[1]); if value == false \
               then redis.call('incr', KEYS[1]);value = 1; end; redis.call('incrby', KEYS[1], allocationSize); return \
               {value, allocationSize}; ",
    },
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
            assert_eq!(sha1_of(known.text.as_bytes()), known.sha1, "{:?}", known.meaning);
            assert_eq!(by_text(known.text.as_bytes()).map(|found| found.meaning), Some(known.meaning));
            assert_eq!(by_sha1(known.sha1.to_uppercase().as_bytes()).map(|found| found.meaning), Some(known.meaning));
        }
        assert!(by_text(b"return 1").is_none() && by_sha1(b"").is_none());
        assert_eq!(sha1_of(b"return 1"), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
