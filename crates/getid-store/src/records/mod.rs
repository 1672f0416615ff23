//! Small records that several servers share: claims, the cluster's record, leases of worker ids.
//!
//! A [`RecordStore`] keeps a text under each key, and beside it a [`Stamp`] with its writer and a write counter. A
//! write names the stamp that it replaces, and is done only if the store has that stamp. The stamp of a write is unique
//! for its key, so a writer without an answer reads the record to see whether its write was done.
//!
//! The texts, and the decision when to write them, belong to the callers.
//!
//! Invariant: of two writes that name the same stamp, at most one is done. A read returns every write whose answer
//! arrived before the read was sent (it is linearizable, never a replica's).

#[cfg(feature = "fleet")]
pub mod etcd;
pub mod memory;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use getid_core::server::claim::Stamp;

/// Future answer of a store.
pub type RecordFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, RecordStoreError>> + Send + 'a>>;

/// Most bytes of a record's text.
pub const TEXT_BYTES_MAX: usize = 512 * 1024;

/// Most bytes of a key.
pub const KEY_BYTES_MAX: usize = 200;

/// Most rows of one [`RecordStore::list`].
pub const LIST_MAX: usize = 1000;

/// A store of small records. Cheap to share. It opens connections as needed, and each call ends by the `deadline` of
/// its constructor.
pub trait RecordStore: Send + Sync + 'static {
    /// Returns the store's address, without a password.
    fn shown(&self) -> &str;

    /// Returns the record under a key.
    fn read<'a>(&'a self, key: &'a Key) -> RecordFuture<'a, Option<RecordRow>>;

    /// Lists records whose keys begin with `prefix` and follow the key `after`, in the order of their keys (bytes).
    /// Returns at most `limit`, which is at most [`LIST_MAX`]; fewer are the last ones. A row that is not a valid
    /// record is skipped and named in [`RecordPage::bad`]; more than [`LIST_MAX`] of them fail the list.
    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> RecordFuture<'a, RecordPage>;

    /// Writes `new` if the record under the key has exactly the stamp `expect`, or if `expect` is `None` and there is
    /// no record.
    ///
    /// # Errors
    ///
    /// [`RecordStoreError::Unknown`]: the write may have been done, or may still be done.
    /// [`RecordStoreError::Refused`]: it was not done, and will not be.
    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a RecordRow) -> RecordFuture<'a, WriteResult>;

    /// Writes `new` in place of a row that is not a valid record, as in [`RecordStoreError::Damaged`]. Returns true if
    /// it was done; false if the row has changed since.
    fn mend<'a>(&'a self, key: &'a Key, bad: &'a DamagedRow, new: &'a RecordRow) -> RecordFuture<'a, bool>;

    /// Returns the SQL that creates the tables before the first record, for an administrator: one statement at a time,
    /// each with its semicolon. Empty if nothing needs to be created.
    fn schema(&self) -> String {
        String::new()
    }

    /// Returns the product and version of the store, and warnings: settings by which an acknowledged write may be lost,
    /// each as a sentence with its remedy.
    fn info(&self) -> RecordFuture<'_, RecordStoreInfo>;
}

/// Result of a write with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The write was done.
    Done,
    /// The record had another stamp, existed already, or was gone: this is its present state.
    Conflict(Option<RecordRow>),
}

/// A record with its stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRow {
    /// Writer and write counter of the record.
    pub stamp: Stamp,
    /// Text of the record, at most [`TEXT_BYTES_MAX`] bytes of UTF-8.
    pub text: String,
}

/// The result of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// Valid records.
    pub rows: Vec<(Key, RecordRow)>,
    /// Rows between them that are not valid records, without their texts.
    pub bad: Vec<DamagedRow>,
}

impl RecordPage {
    /// Adds a row that is not a valid record, without its text.
    ///
    /// # Errors
    ///
    /// Fails if there are more than [`LIST_MAX`].
    pub fn skip(&mut self, bad: DamagedRow) -> Result<(), RecordStoreError> {
        if self.bad.len() == LIST_MAX {
            return Err(RecordStoreError::Refused(format!("more than {LIST_MAX} rows are no records, such as: {bad}")));
        }
        self.bad.push(DamagedRow { text: Vec::new(), ..bad });
        Ok(())
    }
}

/// A row under a key of getid that is not a valid record: its stamp or its key was edited, or another program wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRow {
    /// Key of the row, as in the store.
    pub key: String,
    /// Error in the row: a sentence that begins with "the row" or "the key", and names it.
    pub what: String,
    /// Writer of the row, in a SQL table.
    pub writer: String,
    /// Beat of the row, in a SQL table.
    pub beat: i64,
    /// Text of the row; in etcd the whole value.
    pub text: Vec<u8>,
}

impl DamagedRow {
    /// Returns the server-id whose claim is or was in this row, from its key in any spelling.
    pub fn server_id(&self) -> Option<u32> {
        self.key.trim().strip_prefix(CLAIMS)?.parse().ok()
    }
}

impl fmt::Display for DamagedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Name of a record, such as `claim/3`: letters, digits and `.`, `_`, `-`, `:`, in parts separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// Returns `None` if the text is not a valid key.
    pub fn new(text: impl Into<String>) -> Option<Key> {
        let text = text.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte);
        let is_key = (1..=KEY_BYTES_MAX).contains(&text.len())
            && text.bytes().all(allowed)
            && text.split('/').all(|part| !part.is_empty());
        is_key.then_some(Key(text))
    }

    /// Returns the key of a server-id's claim.
    pub fn of_claim(server_id: u32) -> Key {
        Key(format!("{CLAIMS}{server_id}"))
    }

    /// Returns the key of the cluster's record.
    pub fn of_cluster() -> Key {
        Key("cluster".to_owned())
    }

    /// Returns the key of etcd's compaction rounds, which all servers write.
    #[cfg(feature = "fleet")]
    pub(crate) fn of_compaction() -> Key {
        Key("compaction".to_owned())
    }

    /// Returns the text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the server-id if the key is that of a claim.
    pub fn server_id(&self) -> Option<u32> {
        let id = self.0.strip_prefix(CLAIMS)?;
        id.parse().ok().filter(|number: &u32| number.to_string() == id)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Prefix of the keys of claims.
pub const CLAIMS: &str = "claim/";

/// Product and warnings of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordStoreInfo {
    /// Product and version, such as `etcd 3.5.28`.
    pub product: String,
    /// Warnings, each a sentence with its remedy.
    pub warnings: Vec<String>,
}

/// Size of a store's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreSize {
    /// Size of its file in bytes, which counts against the quota.
    pub bytes: u64,
    /// Used part of the file, in bytes.
    pub used_bytes: u64,
    /// Quota of the file, in bytes; `None` if the store does not report it.
    pub quota_bytes: Option<u64>,
}

/// Reason why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordStoreError {
    /// The store refused the call, and nothing was done: its error, and the remedy, without a password.
    #[error("{0}")]
    Refused(String),
    /// The row under the key is not a valid record; nothing was done.
    #[error("{0}; restore the row as it was before the edit")]
    Damaged(Box<DamagedRow>),
    /// The store was not reached, and nothing was done. It may recover soon.
    #[error("{0}")]
    Away(String),
    /// The result of the call is unknown.
    #[error("{0}")]
    Unknown(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_row_blocks_the_server_id_of_its_key() {
        for (key, server_id) in
            [("claim/3", Some(3)), ("claim/3 ", Some(3)), ("claim/03", Some(3)), ("claim/x", None), ("worker/3", None)]
        {
            let bad =
                DamagedRow { key: key.to_owned(), what: String::new(), writer: String::new(), beat: 0, text: vec![] };
            assert_eq!(bad.server_id(), server_id, "{key}");
        }
    }

    #[test]
    fn keys_are_names_in_parts() {
        for good in ["claim/3", "cluster", "worker/orders/17", "a.b_c-d:e/f"] {
            assert_eq!(Key::new(good).map(|key| key.to_string()).as_deref(), Some(good));
        }
        for bad in ["", "/a", "a/", "a//b", "a b", "a'b", "ä", &"x".repeat(KEY_BYTES_MAX + 1)] {
            assert_eq!(Key::new(bad), None, "{bad:?}");
        }
        assert_eq!(Key::of_claim(17).server_id(), Some(17));
        for other in ["claim/017", "claim/x", "claim/1/2", "cluster"] {
            assert_eq!(Key::new(other).unwrap().server_id(), None, "{other}");
        }
    }
}
