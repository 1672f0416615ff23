//! Session settings: values of the configuration that all sessions of a server share. They never change: a change is a
//! new value.

use std::sync::Arc;

use getid_core::Scheme;
use getid_core::server::RESERVED_MAX;
use getid_core::server::{NamedCounters, NamedGenerators};
use getid_seal::Sealers;

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

impl Settings {
    /// Returns the settings with these named generators. If there are any, the vocabulary has the commands that take
    /// their names.
    #[must_use]
    pub fn with_generators(self, generators: Arc<NamedGenerators>) -> Settings {
        let has_names = !generators.is_empty() || !self.counters.is_empty();
        let vocabulary = self.vocabulary.naming_generators(has_names);
        Settings { vocabulary, generators, ..self }
    }

    /// Returns the settings with these counters.
    #[must_use]
    pub fn with_counters(self, counters: Arc<NamedCounters>) -> Settings {
        let generators = Arc::clone(&self.generators);
        Settings { counters, ..self }.with_generators(generators)
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
