//! Session settings: values of the configuration that all sessions of a server share. They never change: a change is a
//! new value.

use std::sync::Arc;

use getid_core::Scheme;
use getid_core::server::RESERVED_MAX;
use getid_core::server::{NamedCounters, NamedGenerators};
use getid_seal::Sealers;
use getid_text::glob::{Pattern, PatternTooLong};
use getid_text::host_port::HostPort;

use super::tally::Timing;
use crate::acl::{Protection, Users};
use crate::command::Vocabulary;
use crate::resp::DecodeLimits;

/// Settings that all sessions of a server share. A changed setting is a new `Settings`, given to
/// [`super::Session::set_settings`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The commands by their configured names.
    pub vocabulary: Vocabulary,
    /// Conversion of reservations to IDs.
    pub scheme: Arc<Scheme>,
    /// Whether the scheme is this server's own. False while a server waits for a server-id (`server-id auto`): no draw
    /// may use such settings, and `GETID` answers `LOADING`.
    pub has_server_id: bool,
    /// The named generators: see [`Settings::with_generators`].
    pub generators: Arc<NamedGenerators>,
    /// The counters, generators over a sequence: see [`Settings::with_counters`].
    pub counters: Arc<NamedCounters>,
    /// The sealers of the generators that are sealed.
    pub sealers: Sealers,
    /// Maximum number of IDs of one `MGETID` (`id-mgetid-max`). A turn holds up to [`Settings::turn_ids_max`] more, and
    /// counts them as `u32`: at most 2^31.
    pub id_mgetid_max: u32,
    /// Number of IDs at which a turn ends: see [`super::turn_ids_max`].
    pub turn_ids_max: u32,
    /// Maximum wait of a draw (`id-max-wait-ms`), ms.
    pub id_max_wait_ms: u64,
    /// Settings of sequences; `None` if there is no store for them.
    pub sequences: Option<SequenceCommandSettings>,
    /// Names of sequences that may have an end (`sequence-expire`).
    pub expiring: Arc<ExpiringNames>,
    /// Number of databases that `SELECT` accepts (`databases`).
    pub databases: u32,
    /// Users and their permissions (`requirepass`, `user`, `aclfile`, `ACL SETUSER`).
    pub users: Arc<Users>,
    /// Permissions of clients from other machines without a login (`protected-mode`, `bind`).
    pub protection: Protection,
    /// Maximum size of an argument, bytes (`proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Maximum size of a request, bytes (`client-query-buffer-limit`); also bounds the queue of `MULTI`.
    pub request_bytes_max: usize,
    /// Timing of commands, and the choice of those that are reported one by one.
    pub timing: Timing,
    /// Whether the server waits for the claim of its server-id, and gives no IDs.
    pub is_standby: bool,
    /// Emulation of a Redis Cluster; `None` without it (`cluster-emulation`).
    pub cluster: Option<ClusterSettings>,
}

/// Settings of an emulated Redis Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Address of the holder; `None` if it is unknown, or if it is this server.
    pub moved_to: Option<HostPort>,
}

/// Settings of all sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceCommandSettings {
    /// Maximum number of values of one `INCRBY` (`sequence-incrby-max`), 1 to [`RESERVED_MAX`].
    pub incrby_max: u32,
    /// Whether `DEL` drops a sequence (`sequence-delete`).
    pub may_delete: bool,
}

impl Default for SequenceCommandSettings {
    fn default() -> SequenceCommandSettings {
        SequenceCommandSettings { incrby_max: RESERVED_MAX, may_delete: false }
    }
}

/// Largest number of patterns in `sequence-expire`. A name is compared with all of them.
pub const EXPIRING_NAMES_MAX: usize = 16;

/// Patterns of the names of sequences that may have an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiringNames {
    texts: Vec<String>,
    patterns: Vec<Pattern>,
}

/// Mistake in a pattern of names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamePatternError {
    /// A pattern without characters.
    #[error("a pattern is empty, must be such as *20[0-9][0-9]*")]
    Empty,
    /// A pattern that is too long.
    #[error(transparent)]
    TooLong(#[from] PatternTooLong),
    /// A set without an end.
    #[error("'{pattern}' has a [ without a ]; must be such as *20[0-9][0-9]*, or \\[ for the character")]
    Unclosed {
        /// The pattern.
        pattern: String,
    },
}

impl ExpiringNames {
    /// Parses patterns.
    ///
    /// # Errors
    ///
    /// Fails with the mistake in the first wrong one.
    pub fn new(texts: &[String]) -> Result<ExpiringNames, NamePatternError> {
        let parse = |text: &String| {
            if text.is_empty() {
                return Err(NamePatternError::Empty);
            }
            let pattern = Pattern::new(text.as_bytes(), false)?;
            if is_unclosed(text) { Err(NamePatternError::Unclosed { pattern: text.clone() }) } else { Ok(pattern) }
        };
        let patterns = texts.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(ExpiringNames { texts: texts.to_vec(), patterns })
    }

    /// Returns the patterns as they are configured.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns true if a sequence of this name may have an end.
    pub fn can_end(&self, name: &[u8]) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// Returns true if a set of a pattern has no end.
fn is_unclosed(pattern: &str) -> bool {
    let (mut is_escaped, mut is_in_set) = (false, false);
    for letter in pattern.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_in_set = true,
            ']' => is_in_set = false,
            _ => {}
        }
    }
    is_in_set
}

impl Settings {
    /// Returns the settings with these named generators. If there are any, the vocabulary has the commands that take
    /// their names.
    #[must_use]
    pub fn with_generators(self, generators: Arc<NamedGenerators>) -> Settings {
        // A client in cluster mode needs a key, which GETID - has.
        let has_names = !generators.is_empty() || !self.counters.is_empty() || self.cluster.is_some();
        let vocabulary = self.vocabulary.naming_generators(has_names).emulating_cluster(self.cluster.is_some());
        Settings { vocabulary, generators, ..self }
    }

    /// Returns the settings with these counters.
    #[must_use]
    pub fn with_counters(self, counters: Arc<NamedCounters>) -> Settings {
        let generators = Arc::clone(&self.generators);
        Settings { counters, ..self }.with_generators(generators)
    }

    /// Returns the mode of a Redis server, in one word.
    pub(super) fn mode(&self) -> &'static str {
        if self.cluster.is_some() { "cluster" } else { "standalone" }
    }

    /// Returns the server's role for its server-id, in one word.
    pub(super) fn role(&self) -> &'static str {
        if self.is_standby { "standby" } else { "master" }
    }

    /// Returns the decoder's limits for an authenticated client.
    #[inline]
    pub(super) fn limits(&self) -> DecodeLimits {
        DecodeLimits {
            bulk_bytes_max: self.bulk_bytes_max,
            request_bytes_max: self.request_bytes_max,
            ..DecodeLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ExpiringNames, NamePatternError};

    #[test]
    fn names_end_only_under_a_pattern_and_wrong_patterns_are_errors() {
        let names = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            ExpiringNames::new(&texts)
        };
        let dated = names(&["*20[0-9][0-9]*", "limit:?"]).unwrap();
        let cases = ["orders:2026-11-27", "2026", "limit:a", "orders", "limit:", "Limit:a", "orders:19"];
        assert_eq!(cases.map(|name| dated.can_end(name.as_bytes())), [true, true, true, false, false, false, false]);
        assert!(!ExpiringNames::default().can_end(b"orders"));
        let unclosed = |pattern: &str| Err(NamePatternError::Unclosed { pattern: pattern.to_owned() });
        for (text, expected) in [
            ("", Err(NamePatternError::Empty)),
            ("a[0-9", unclosed("a[0-9")),
            ("a[0-9]b[", unclosed("a[0-9]b[")),
            ("a[0\\]", unclosed("a[0\\]")),
            ("a\\[b", Ok(())),
            ("a]", Ok(())),
        ] {
            assert_eq!(names(&[text]).map(drop), expected, "{text}");
        }
        assert!(matches!(names(&[&"x".repeat(2000)]), Err(NamePatternError::TooLong(_))));
    }
}
