//! Errors in rows of sequences that were edited by hand.

use std::fmt;

use getid_core::server::Key;
use getid_text::printable::printable;

/// Error in a row that was edited by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowError {
    /// The name is not valid. Its numbers may be in use, so the remedy is not to delete it.
    Name {
        /// Name of the row.
        name: String,
        /// Key of the row's series.
        series: String,
        /// Period of the row.
        period: String,
    },
    /// A column has a value that is not valid.
    Column {
        /// Key of the row.
        key: Key,
        /// Name of the column.
        column: &'static str,
        /// Its value.
        found: String,
        /// Values that are valid.
        expected: String,
    },
    /// A column of a table of Leaf's or Tinyid's has a value that is not valid.
    Foreign {
        /// Name of the table.
        table: &'static str,
        /// Key of the row.
        key: Key,
        /// Name of the column.
        column: &'static str,
        /// Its value; `None` for NULL.
        found: Option<i64>,
        /// Values that are valid, or what this one means.
        rule: String,
        /// SQL that corrects the row.
        remedy: String,
    },
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowError::Name { name, series, period } => {
                let slash = if series.is_empty() { "" } else { "/" };
                let at = if period.is_empty() { "" } else { "@" };
                let shown = format!("{name}{slash}{series}{at}{period}");
                let shown = shown.escape_debug();
                let quotable = |text: &String| printable(&text.replace('\'', "''")).into_owned();
                let [name, series, period] = [name, series, period].map(quotable);
                write!(
                    f,
                    "the row '{shown}' of getid_sequence has a name that is not valid: rename it, as its values may be \
                     in use: UPDATE getid_sequence SET name = '...' WHERE name = '{name}' AND series = '{series}' AND \
                     period = '{period}'"
                )
            }
            RowError::Column { key, column, found, expected } => write!(
                f,
                "the row of '{key}' in getid_sequence has {column} {found}, must be {expected}: UPDATE it by hand"
            ),
            RowError::Foreign { table, key, column, found, rule, remedy } => {
                let found = found.map_or_else(|| "NULL".to_owned(), |found| found.to_string());
                write!(f, "the row '{key}' of {table} has {column} {found}, {rule}: {remedy}")
            }
        }
    }
}
