//! Purpose of tables, for names in errors.

/// Purpose of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TablePurpose {
    /// Sequences, also in the tables of Leaf and Tinyid.
    Sequences,
    /// Records that servers share: [`super::records`].
    Records,
}

impl TablePurpose {
    /// Returns the tables, as written in a GRANT.
    #[cfg(feature = "postgres")]
    pub(super) fn tables(self) -> &'static str {
        match self {
            TablePurpose::Sequences => {
                "getid_beat, getid_generator, getid_number, getid_number_request, getid_request, getid_request_count, \
                 getid_sequence, getid_store"
            }
            TablePurpose::Records => "getid_record",
        }
    }

    /// Returns the permissions that are needed on the tables. Request keys that have ended are deleted.
    pub(super) fn rights(self) -> &'static str {
        match self {
            TablePurpose::Sequences => "SELECT, INSERT, UPDATE, DELETE",
            TablePurpose::Records => "SELECT, INSERT, UPDATE",
        }
    }

    /// Returns the command that prints the SQL of the tables.
    pub(super) fn schema_command(self) -> &'static str {
        match self {
            TablePurpose::Sequences => "getid sequence schema",
            TablePurpose::Records => "getid claim schema",
        }
    }

    /// Returns what a crash may lose if a setting permits it.
    #[cfg(feature = "mysql")]
    pub(super) fn what_is_lost(self) -> &'static str {
        match self {
            TablePurpose::Sequences => "values that were given",
            TablePurpose::Records => "records that were written",
        }
    }
}
