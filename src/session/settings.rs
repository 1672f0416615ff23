//! Session settings: values of the configuration that all sessions of a server share. They never change: a change is a
//! new value.

use std::sync::Arc;

use getid_core::RESERVED_MAX;
use getid_core::{NamedCounters, NamedGenerators, Scheme};

use super::tally::Timing;
use crate::acl::{Protection, Users};
use crate::command::Vocabulary;
use crate::resp::DecodeLimits;

/// What all sessions of a server share. A changed setting is a new `Settings`, given to
/// [`super::Session::set_settings`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The commands by the names that they have here.
    pub vocabulary: Vocabulary,
    /// How a reservation becomes IDs.
    pub scheme: Arc<Scheme>,
    /// Whether the scheme is this server's own. Not while a server waits for a server-id (`server-id auto`): nobody may
    /// draw by such settings, and `GETID` answers `LOADING`.
    pub has_server_id: bool,
    /// Those that have names: see [`Settings::with_generators`].
    pub generators: Arc<NamedGenerators>,
    /// Those whose numbers sequences count: see [`Settings::with_counters`].
    pub counters: Arc<NamedCounters>,
    /// The most IDs one `MGETID` may ask for (`id-mgetid-max`). A turn holds up to [`Settings::turn_ids_max`] more, and
    /// counts them as `u32`: at most 2^31.
    pub id_mgetid_max: u32,
    /// IDs a turn may hold before it ends: see [`super::turn_ids_max`].
    pub turn_ids_max: u32,
    /// How long a draw may have to wait (`id-max-wait-ms`), ms.
    pub id_max_wait_ms: u64,
    /// What holds for sequences; `None`: there is no store for them.
    pub sequences: Option<SequenceSettings>,
    /// How many databases `SELECT` accepts (`databases`).
    pub databases: u32,
    /// Users and what they may do (`requirepass`, `user`, `aclfile`, `ACL SETUSER`).
    pub users: Arc<Users>,
    /// What clients from other machines may do without a login (`protected-mode`, `bind`).
    pub protection: Protection,
    /// The largest argument, bytes (`proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// The largest request, bytes (`client-query-buffer-limit`); also bounds what `MULTI` queues.
    pub request_bytes_max: usize,
    /// How commands are timed, and which are told one by one.
    pub timing: Timing,
    /// Whether the server waits for the claim of its server-id, and gives nothing.
    pub is_standby: bool,
}

/// What holds for all sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceSettings {
    /// The most values that one `INCRBY` takes (`sequence-incrby-max`), 1 to [`RESERVED_MAX`].
    pub incrby_max: u32,
    /// Whether `DEL` drops a sequence (`sequence-delete`).
    pub may_delete: bool,
}

impl Default for SequenceSettings {
    fn default() -> SequenceSettings {
        SequenceSettings { incrby_max: RESERVED_MAX, may_delete: false }
    }
}

impl Settings {
    /// The same with these named generators, and with commands that take their names if there are any.
    #[must_use]
    pub fn with_generators(self, generators: Arc<NamedGenerators>) -> Settings {
        let has_names = !generators.is_empty() || !self.counters.is_empty();
        let vocabulary = self.vocabulary.naming_generators(has_names);
        Settings { vocabulary, generators, ..self }
    }

    /// The same for those whose numbers sequences count.
    #[must_use]
    pub fn with_counters(self, counters: Arc<NamedCounters>) -> Settings {
        let generators = Arc::clone(&self.generators);
        Settings { counters, ..self }.with_generators(generators)
    }

    /// What the server is to its server-id, in one word.
    pub(super) fn role(&self) -> &'static str {
        if self.is_standby { "standby" } else { "master" }
    }

    /// What the decoder allows a client that has authenticated.
    #[inline]
    pub(super) fn limits(&self) -> DecodeLimits {
        DecodeLimits {
            bulk_bytes_max: self.bulk_bytes_max,
            request_bytes_max: self.request_bytes_max,
            ..DecodeLimits::default()
        }
    }
}
