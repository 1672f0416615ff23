//! Session settings: values of the configuration that all sessions of a server share. They never change: a change is a
//! new value.

use std::sync::Arc;

use getid_core::{NamedGenerators, Scheme};

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
    /// Those that have names: see [`Settings::with_generators`].
    pub generators: Arc<NamedGenerators>,
    /// The most IDs one `MGETID` may ask for (`id-mgetid-max`). A turn holds up to [`Settings::turn_ids_max`] more, and
    /// counts them as `u32`: at most 2^31.
    pub id_mgetid_max: u32,
    /// IDs a turn may hold before it ends: see [`super::turn_ids_max`].
    pub turn_ids_max: u32,
    /// How long a draw may have to wait (`id-max-wait-ms`), ms.
    pub id_max_wait_ms: u64,
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
}

impl Settings {
    /// The same with these named generators, and with commands that take their names if there are any.
    #[must_use]
    pub fn with_generators(self, generators: Arc<NamedGenerators>) -> Settings {
        let vocabulary = self.vocabulary.naming_generators(!generators.is_empty());
        Settings { vocabulary, generators, ..self }
    }

    /// What the decoder allows a client that has authenticated.
    pub(super) fn limits(&self) -> DecodeLimits {
        DecodeLimits {
            bulk_bytes_max: self.bulk_bytes_max,
            request_bytes_max: self.request_bytes_max,
            ..DecodeLimits::default()
        }
    }
}
