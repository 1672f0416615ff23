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
    /// `limit`, which is at most [`LIST_MAX`].
    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> Answer<'a, Vec<(Key, Row)>>;

    /// Writes `new` if the record under the key has exactly the stamp `expect`; with `None` if there is no record.
    ///
    /// # Errors
    ///
    /// [`RecordStoreError::Unknown`]: it may have been done, or may be done later still.
    /// [`RecordStoreError::Refused`]: it was not done, and will not be.
    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a Row) -> Answer<'a, Written>;

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

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordStoreError {
    /// The store says so itself, and nothing was done: what it said, and the remedy. No password is in it.
    #[error("{0}")]
    Refused(String),
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
