//! Records in memory: the reference for the other stores, and their replacement in tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{About, Answer, BadRow, Key, LIST_MAX, Listed, RecordStore, RecordStoreError, Row, Stamp, Written};

/// Records in the memory of this process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    rows: Mutex<BTreeMap<Key, Row>>,
    bad: Mutex<BTreeMap<Key, BadRow>>,
}

impl MemoryStore {
    /// Returns the record under a key.
    pub fn get(&self, key: &Key) -> Option<Row> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Sets or removes a record unconditionally, as a store does that lost its last writes.
    pub fn set(&self, key: Key, row: Option<Row>) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        match row {
            Some(row) => rows.insert(key, row),
            None => rows.remove(&key),
        };
    }

    /// Sets a row that is not a valid record, as an edit by hand leaves it.
    pub fn set_bad(&self, key: Key, bad: BadRow) {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).insert(key, bad);
    }

    fn is_whole(&self, key: &Key) -> Result<(), RecordStoreError> {
        match self.bad.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            Some(bad) => Err(RecordStoreError::Damaged(Box::new(bad.clone()))),
            None => Ok(()),
        }
    }

    /// Does [`RecordStore::write`] synchronously.
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
        Box::pin(async move { self.is_whole(key).map(|()| self.get(key)) })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> Answer<'a, Listed> {
        Box::pin(async move {
            let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = rows.iter().filter(|(key, _)| key.as_str().starts_with(prefix) && key.as_str() > after);
            let rows = wanted.take(limit.min(LIST_MAX)).map(|(key, row)| (key.clone(), row.clone())).collect();
            let bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
            let bad = bad.iter().filter(|(key, _)| key.as_str().starts_with(prefix) && key.as_str() > after);
            Ok(Listed { rows, bad: bad.map(|(_, bad)| BadRow { text: Vec::new(), ..bad.clone() }).collect() })
        })
    }

    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a Row) -> Answer<'a, Written> {
        Box::pin(async move { self.is_whole(key).map(|()| self.write_now(key, expect, new)) })
    }

    fn mend<'a>(&'a self, key: &'a Key, bad: &'a BadRow, new: &'a Row) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut found = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
            let is_same = found.get(key) == Some(bad);
            if is_same {
                found.remove(key);
                self.set(key.clone(), Some(new.clone()));
            }
            Ok(is_same)
        })
    }

    fn about(&self) -> Answer<'_, About> {
        Box::pin(async { Ok(About { product: "memory".to_owned(), warnings: Vec::new() }) })
    }
}
