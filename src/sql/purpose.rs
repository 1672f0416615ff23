//! What tables are for: what errors name when something is wrong with them.

/// Whose tables they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Sequences, and all of others' tables.
    Sequences,
    /// Records that servers share: [`super::records`].
    Records,
}

/// The rights that are needed on the tables of either purpose.
pub(super) const RIGHTS: &str = "SELECT, INSERT, UPDATE";

impl Purpose {
    /// The tables, as they stand in a GRANT.
    pub(super) fn tables(self) -> &'static str {
        match self {
            Purpose::Sequences => "getid_beat, getid_generator, getid_sequence, getid_store",
            Purpose::Records => "getid_record",
        }
    }

    /// What prints the SQL that makes them.
    pub(super) fn schema_command(self) -> &'static str {
        match self {
            Purpose::Sequences => "getid sequence schema",
            Purpose::Records => "getid claim schema",
        }
    }

    /// What a crash may take back, where a setting makes that possible.
    pub(super) fn what_is_lost(self) -> &'static str {
        match self {
            Purpose::Sequences => "values that were given",
            Purpose::Records => "records that were written",
        }
    }
}
