//! Records in memory: the reference for the other stores, and their replacement in tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{
    DamagedRow, Key, LIST_MAX, RecordFuture, RecordPage, RecordRow, RecordStore, RecordStoreError, RecordStoreInfo,
    Stamp, WriteResult,
};

/// Records in the memory of this process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    rows: Mutex<BTreeMap<Key, RecordRow>>,
    bad: Mutex<BTreeMap<Key, DamagedRow>>,
}

impl MemoryStore {
    /// Returns the record under a key.
    pub fn get(&self, key: &Key) -> Option<RecordRow> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Sets or removes a record unconditionally, as a store does that lost its last writes.
    pub fn set(&self, key: Key, row: Option<RecordRow>) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        match row {
            Some(row) => rows.insert(key, row),
            None => rows.remove(&key),
        };
    }

    /// Sets a row that is not a valid record, as an edit by hand leaves it.
    pub fn set_bad(&self, key: Key, bad: DamagedRow) {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).insert(key, bad);
    }

    fn check_whole(&self, key: &Key) -> Result<(), RecordStoreError> {
        match self.bad.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            Some(bad) => Err(RecordStoreError::Damaged(Box::new(bad.clone()))),
            None => Ok(()),
        }
    }

    /// Does [`RecordStore::write`] synchronously.
    pub fn write_now(&self, key: &Key, expect: Option<Stamp>, new: &RecordRow) -> WriteResult {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let found = rows.get(key);
        if found.map(|row| row.stamp) != expect {
            return WriteResult::Conflict(found.cloned());
        }
        rows.insert(key.clone(), new.clone());
        WriteResult::Done
    }
}

impl RecordStore for MemoryStore {
    fn shown(&self) -> &'static str {
        "memory"
    }

    fn read<'a>(&'a self, key: &'a Key) -> RecordFuture<'a, Option<RecordRow>> {
        Box::pin(async move { self.check_whole(key).map(|()| self.get(key)) })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> RecordFuture<'a, RecordPage> {
        Box::pin(async move {
            let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let matching = rows.iter().filter(|(key, _)| key.as_str().starts_with(prefix) && key.as_str() > after);
            let rows = matching.take(limit.min(LIST_MAX)).map(|(key, row)| (key.clone(), row.clone())).collect();
            let bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
            let bad = bad.iter().filter(|(key, _)| key.as_str().starts_with(prefix) && key.as_str() > after);
            Ok(RecordPage { rows, bad: bad.map(|(_, bad)| DamagedRow { text: Vec::new(), ..bad.clone() }).collect() })
        })
    }

    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a RecordRow) -> RecordFuture<'a, WriteResult> {
        Box::pin(async move { self.check_whole(key).map(|()| self.write_now(key, expect, new)) })
    }

    fn mend<'a>(&'a self, key: &'a Key, bad: &'a DamagedRow, new: &'a RecordRow) -> RecordFuture<'a, bool> {
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

    fn info(&self) -> RecordFuture<'_, RecordStoreInfo> {
        Box::pin(async { Ok(RecordStoreInfo { product: "memory".to_owned(), warnings: Vec::new() }) })
    }
}
