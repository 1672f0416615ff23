//! Records in memory: what the other stores are compared with, and what tests put in their place.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{About, Answer, Key, LIST_MAX, RecordStore, Row, Stamp, Written};

/// Records of this process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    rows: Mutex<BTreeMap<Key, Row>>,
}

impl MemoryStore {
    /// The record under a key.
    pub fn get(&self, key: &Key) -> Option<Row> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Puts a record there whatever it was, or takes it away: what a store that lost its last writes does.
    pub fn set(&self, key: Key, row: Option<Row>) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        match row {
            Some(row) => rows.insert(key, row),
            None => rows.remove(&key),
        };
    }

    /// [`RecordStore::write`], at once.
    pub fn write_now(&self, key: &Key, expect: Option<Stamp>, new: &Row) -> Written {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let found = rows.get(key);
        if found.map(|row| row.stamp) != expect {
            return Written::Conflict(found.cloned());
        }
        rows.insert(key.clone(), new.clone());
        Written::Done
    }
}

impl RecordStore for MemoryStore {
    fn shown(&self) -> &'static str {
        "memory"
    }

    fn read<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Row>> {
        Box::pin(async move { Ok(self.get(key)) })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> Answer<'a, Vec<(Key, Row)>> {
        Box::pin(async move {
            let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = rows.iter().filter(|(key, _)| key.as_str().starts_with(prefix) && key.as_str() > after);
            Ok(wanted.take(limit.min(LIST_MAX)).map(|(key, row)| (key.clone(), row.clone())).collect())
        })
    }

    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a Row) -> Answer<'a, Written> {
        Box::pin(async move { Ok(self.write_now(key, expect, new)) })
    }

    fn about(&self) -> Answer<'_, About> {
        Box::pin(async { Ok(About { product: "memory".to_owned(), warnings: Vec::new() }) })
    }
}
