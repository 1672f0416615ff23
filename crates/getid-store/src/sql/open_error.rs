//! Errors of addresses that have no store.

use super::TableKind;

/// Reason why an address has no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The program was built without such stores.
    #[error("'{shown}': this getid was built without the feature '{feature}'")]
    NotBuilt {
        /// The address.
        shown: String,
        /// The missing feature.
        feature: &'static str,
    },
    /// A file has no tables of Leaf or Tinyid.
    #[error("sequence-table {} is a table in MySQL; '{shown}' has getid's own (sequence-table native)", word(*.table))]
    NoTableInFile {
        /// The address.
        shown: String,
        /// Kind of the tables.
        table: TableKind,
    },
    /// PostgreSQL has no tables of Leaf or Tinyid.
    #[error(
        "{shown}: sequence-table {} is for MySQL, where its tables are; PostgreSQL has native ones",
        word(*.table)
    )]
    NoTableInPostgres {
        /// The address.
        shown: String,
        /// Kind of the tables.
        table: TableKind,
    },
    /// The address is one of etcd, for sequences.
    #[error("'{0}' is etcd, which keeps claims and no sequences")]
    NoSequencesInEtcd(String),
    /// The address is one of etcd, for records in SQL.
    #[error("'{0}' is etcd, not a SQL database")]
    NotSql(String),
    /// The address of records has a uuid.
    #[error("'{0}' has uuid=, which only the address of a sequence-store has")]
    UuidOfRecords(String),
    /// Two addresses are one file.
    #[error("{}", same_store(.shown, .other, ""))]
    SameFile {
        /// The address.
        shown: String,
        /// An address before it.
        other: String,
    },
    /// No thread can be started.
    #[error("cannot start a thread for '{shown}': {error}")]
    Thread {
        /// The address.
        shown: String,
        /// Error of the system.
        error: String,
    },
}

/// Returns the word of a kind of tables.
fn word(table: TableKind) -> &'static str {
    match table {
        TableKind::Native => "native",
        TableKind::Leaf => "leaf",
        TableKind::Tinyid => "tinyid",
    }
}

/// Returns the error for two addresses of one store. A file that does not exist yet has no uuid: it is empty.
pub fn same_store(shown: &str, other: &str, uuid: &str) -> String {
    let uuid = if uuid.is_empty() { String::new() } else { format!(" (uuid {uuid})") };
    format!(
        "{shown}: this is the same store as {other}{uuid}: name each store once, or another database for one of them"
    )
}
