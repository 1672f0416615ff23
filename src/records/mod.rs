//! Small records that several servers share: claims, the cluster's record, leases of worker ids.
//!
//! A [`RecordStore`] keeps a text under each key, and a [`Stamp`] beside it that says who wrote it last and for the how
//! many-eth time. A write names the stamp that it replaces and is done only if that is the one in the store. Each write
//! has a stamp that no other write of the key ever had, so a writer who got no answer finds out by reading whether it
//! was done.
//!
//! What the texts say, and when to write which, is not known here.
//!
//! Invariant: of two writes that name the same stamp, one is done at most. A read shows every write whose answer came
//! before the read was sent (it is linearizable, never a replica's).

#[cfg(feature = "fleet")]
pub mod etcd;
pub mod memory;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use getid_core::claim::Stamp;

/// What a store answers, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, RecordStoreError>> + Send + 'a>>;

/// Bytes of a record's text at most.
pub const TEXT_BYTES_MAX: usize = 512 * 1024;

/// Bytes of a key at most.
pub const KEY_BYTES_MAX: usize = 200;

/// Rows of one [`RecordStore::list`] at most.
pub const LIST_MAX: usize = 1000;

/// Where small records are kept. Cheap to share; it opens connections as it needs them, and every call has a deadline
/// of its own inside (`deadline` of its constructor): a call always ends.
pub trait RecordStore: Send + Sync + 'static {
    /// Its address as it may be shown: without a password.
    fn shown(&self) -> &str;

    /// The record under a key.
    fn read<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Row>>;

    /// Records whose keys begin with `prefix`, in the order of their keys (bytes), those after the key `after`; at most
    /// `limit`, which is at most [`LIST_MAX`]. Fewer than `limit` are the last ones. A row that is no record is skipped
    /// and named in [`Listed::bad`]; more than [`LIST_MAX`] of them refuse the list.
    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> Answer<'a, Listed>;

    /// Writes `new` if the record under the key has exactly the stamp `expect`; with `None` if there is no record.
    ///
    /// # Errors
    ///
    /// [`RecordStoreError::Unknown`]: it may have been done, or may be done later still.
    /// [`RecordStoreError::Refused`]: it was not done, and will not be.
    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a Row) -> Answer<'a, Written>;

    /// Writes `new` in the place of a row that is no record, as [`RecordStoreError::Damaged`] has shown it: whether it
    /// was done, which it is only if that row is still the same.
    fn mend<'a>(&'a self, key: &'a Key, bad: &'a BadRow, new: &'a Row) -> Answer<'a, bool>;

    /// What is made where these records are kept before the first one, for who may do so: SQL, a statement at a time,
    /// each with its semicolon. Empty where nothing needs to be made.
    fn schema(&self) -> String {
        String::new()
    }

    /// What this store is, and what is unsound about it: its product and version, and settings by which an
    /// acknowledged write may be lost, each as a sentence with its remedy.
    fn about(&self) -> Answer<'_, About>;
}

/// What became of a write that has an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was done.
    Done,
    /// The record had another stamp, or was there already, or was gone: this is what it is now.
    Conflict(Option<Row>),
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Who wrote it, and the how many-eth write it is.
    pub stamp: Stamp,
    /// What it says, at most [`TEXT_BYTES_MAX`] bytes of UTF-8.
    pub text: String,
}

/// What a store has listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The records.
    pub rows: Vec<(Key, Row)>,
    /// Rows between them that are no records. Their texts are left out.
    pub bad: Vec<BadRow>,
}

impl Listed {
    /// Adds a row that is no record, without its text.
    ///
    /// # Errors
    ///
    /// There are more than [`LIST_MAX`].
    pub fn skip(&mut self, bad: BadRow) -> Result<(), RecordStoreError> {
        if self.bad.len() == LIST_MAX {
            return Err(RecordStoreError::Refused(format!("more than {LIST_MAX} rows are no records, such as: {bad}")));
        }
        self.bad.push(BadRow { text: Vec::new(), ..bad });
        Ok(())
    }
}

/// A row under a key of ours that is no record: its stamp or its key was edited, or another program wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Its key, as the store has it.
    pub key: String,
    /// What is wrong with it: a sentence that begins with "the row" or "the key", and names it.
    pub what: String,
    /// Its writer, in a SQL table.
    pub writer: String,
    /// Its beat, in a SQL table.
    pub beat: i64,
    /// Its text; in etcd the whole value.
    pub text: Vec<u8>,
}

impl BadRow {
    /// The server-id whose claim is or was in this row: that of its key, however it is written.
    pub fn server_id(&self) -> Option<u32> {
        self.key.trim().strip_prefix(CLAIMS)?.parse().ok()
    }
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// The name of a record, such as `claim/3`: letters, digits and `.`, `_`, `-`, `:`, in parts that `/` divides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// `None` for a text that is no key.
    pub fn new(text: impl Into<String>) -> Option<Key> {
        let text = text.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte);
        let is_key = (1..=KEY_BYTES_MAX).contains(&text.len())
            && text.bytes().all(allowed)
            && text.split('/').all(|part| !part.is_empty());
        is_key.then_some(Key(text))
    }

    /// The claim of a server-id.
    pub fn of_claim(server_id: u32) -> Key {
        Key(format!("{CLAIMS}{server_id}"))
    }

    /// What all servers of a fleet have in common.
    pub fn of_cluster() -> Key {
        Key("cluster".to_owned())
    }

    /// The rounds of compaction of an etcd, which all servers write.
    pub fn of_compaction() -> Key {
        Key("compaction".to_owned())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The server-id whose claim this is.
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

/// What keys of claims begin with.
pub const CLAIMS: &str = "claim/";

/// What is found when a store is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The product and its version, such as `etcd 3.5.28`.
    pub product: String,
    /// Each a sentence with its remedy.
    pub warnings: Vec<String>,
}

/// How large the database of a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreSize {
    /// Its file, bytes: what counts against the quota.
    pub bytes: u64,
    /// The part of the file that is in use, bytes.
    pub used_bytes: u64,
    /// How large the file may become, bytes; `None`: the store does not say.
    pub quota_bytes: Option<u64>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordStoreError {
    /// The store says so itself, and nothing was done: what it said, and the remedy. No password is in it.
    #[error("{0}")]
    Refused(String),
    /// What is under the key is no record; nothing was done.
    #[error("{0}; put back what was there before somebody edited it")]
    Damaged(Box<BadRow>),
    /// The store could not be asked (no connection): nothing was done, and it may be well again soon.
    #[error("{0}")]
    Away(String),
    /// Nobody knows whether it was done.
    #[error("{0}")]
    Unknown(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_row_blocks_the_number_that_its_key_has() {
        for (key, server_id) in
            [("claim/3", Some(3)), ("claim/3 ", Some(3)), ("claim/03", Some(3)), ("claim/x", None), ("worker/3", None)]
        {
            let bad = BadRow { key: key.to_owned(), what: String::new(), writer: String::new(), beat: 0, text: vec![] };
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
