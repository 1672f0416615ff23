//! Purpose of tables, for names in errors.

/// Purpose of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Sequences, also in the tables of Leaf and Tinyid.
    Sequences,
    /// Records that servers share: [`super::records`].
    Records,
}

/// Permissions that are needed on the tables of either purpose.
pub(super) const RIGHTS: &str = "SELECT, INSERT, UPDATE";

impl Purpose {
    /// Returns the tables, as written in a GRANT.
    pub(super) fn tables(self) -> &'static str {
        match self {
            Purpose::Sequences => "getid_beat, getid_generator, getid_sequence, getid_store",
            Purpose::Records => "getid_record",
        }
    }

    /// Returns the command that prints the SQL of the tables.
    pub(super) fn schema_command(self) -> &'static str {
        match self {
            Purpose::Sequences => "getid sequence schema",
            Purpose::Records => "getid claim schema",
        }
    }

    /// Returns what a crash may lose if a setting permits it.
    pub(super) fn what_is_lost(self) -> &'static str {
        match self {
            Purpose::Sequences => "values that were given",
            Purpose::Records => "records that were written",
        }
    }
}
