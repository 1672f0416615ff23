//! A store of claims: linearizable, or one that has lost its last writes.

use getid_core::server::claim::{RecordWrite, Stamp};
use getid_core::{SavePoint, Tick};

/// A record as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) stamp: Stamp,
    pub(crate) holder: Option<u128>,
    pub(crate) timeout_ms: u64,
    pub(crate) point: SavePoint,
    /// Number of the folder that its holder ran in.
    pub(crate) folder: u64,
    /// When it was written, ns.
    pub(crate) at_ns: u64,
}

/// The claims, by server-id, each with its earlier records.
#[derive(Debug)]
pub(crate) struct Store {
    rows: Vec<Vec<Row>>,
    pub(crate) writes: u64,
}

/// Number of a claim's writes that are kept, for a store that goes back.
const KEPT: usize = 12;

impl Store {
    /// Creates `claims` server-ids that were never used.
    pub(crate) fn new(claims: usize, timeout_ms: u64) -> Store {
        let stamp = Stamp { writer: 1, beat: 1 };
        let free = Row { stamp, holder: None, timeout_ms, point: SavePoint::NOTHING, folder: 0, at_ns: 0 };
        Store { rows: vec![vec![free]; claims], writes: 0 }
    }

    pub(crate) fn row(&self, claim: usize) -> Row {
        *self.rows[claim].last().expect("a first one")
    }

    /// Writes the record. Fails with the present record if the write was not done.
    pub(crate) fn write(&mut self, claim: usize, write: RecordWrite, folder: u64, at_ns: u64) -> Result<(), Row> {
        let row = self.row(claim);
        if write.expect != Some(row.stamp) {
            return Err(row);
        }
        let seen = write.leaves();
        self.put(
            claim,
            Row {
                stamp: seen.stamp,
                holder: seen.holder,
                timeout_ms: seen.timeout_ms,
                point: seen.point,
                folder,
                at_ns,
            },
        );
        Ok(())
    }

    fn put(&mut self, claim: usize, row: Row) {
        self.writes += 1;
        let rows = &mut self.rows[claim];
        rows.push(row);
        if rows.len() > KEPT {
            rows.remove(0);
        }
    }

    /// Loses writes that are younger than this.
    pub(crate) fn lose_since(&mut self, claim: usize, since_ns: u64) -> bool {
        let rows = &mut self.rows[claim];
        let before = rows.len();
        while rows.len() > 1 && rows.last().is_some_and(|row| row.at_ns > since_ns) {
            rows.pop();
        }
        rows.len() < before
    }

    /// Does `getid state advance`: past all IDs by a right clock, and past all beats.
    pub(crate) fn advance(&mut self, claim: usize, now: Tick, at_ns: u64) {
        let row = self.row(claim);
        let max_borrow_ms = row.point.max_borrow_ms.max(3000);
        let watermark = row.point.watermark.max(Tick(now.0 + 1 + max_borrow_ms + 200));
        let reference = row.point.reference.max(Tick(watermark.0 - max_borrow_ms));
        let stamp = Stamp { writer: 2, beat: row.stamp.beat + (1 << 32) };
        let point = SavePoint { watermark, reference, max_borrow_ms };
        self.put(claim, Row { stamp, holder: None, point, at_ns, ..row });
    }
}
