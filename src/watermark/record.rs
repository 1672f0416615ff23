//! The record: what a server writes down about itself, as text an operator can read.
//!
//! ```text
//! getid state 1
//! # All IDs that server-id 0 has given lie before the watermark, all that it will give do not.
//! # Never delete or edit this file, or IDs are given twice. See: getid state show. Remedy: getid state advance.
//! server-id 0
//! epoch 1420041600000 2014-12-31T16:00:00.000Z
//! layout id-range 2 shard-range 9 random-range 10
//! watermark 375145820123 2026-11-21T02:30:20.123Z
//! reference 375145817123 2026-11-21T02:30:17.123Z
//! checksum crc32 4b8f0a11
//! ```
//!
//! The parser is strict: a file that was cut, edited or rotted is refused with what is wrong with it, because a
//! watermark that is believed wrongly gives IDs twice. First and last line keep their form in every version, so that a
//! newer file is told from a damaged one.
//!
//! Pure: reading and writing files is `file`'s, and what to do about the answer is the caller's.

use std::fmt::Write as _;

use crate::id::{Epoch, Layout, Tick};

/// The version this code writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// The largest text that is looked at. A record has less than 600 bytes; the rest is room for longer comments.
pub const TEXT_BYTES_MAX: usize = 4096;

const FIRST_WORDS: &str = "getid state ";
const LAST_WORDS: &str = "checksum crc32 ";

/// Who a record belongs to: what must not change unnoticed between two lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The directive `server-id`.
    pub server_id: u32,
    /// Epoch and bit widths.
    pub layout: Layout,
}

/// A place to start again from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Exclusive: every tick given out is below it.
    pub watermark: Tick,
    /// The reference clock when it was saved.
    pub reference: Tick,
}

/// What is on disk of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose it is.
    pub identity: Identity,
    /// Where its next life starts.
    pub point: SavePoint,
}

impl Record {
    /// The text that goes to disk.
    pub fn to_text(&self) -> String {
        let Identity { server_id, layout } = self.identity;
        let epoch = layout.epoch();
        let mut text = format!(
            "{FIRST_WORDS}{VERSION}\n\
             # All IDs that server-id {server_id} has given lie before the watermark, all that it will give do not.\n\
             # Never delete or edit this file, or IDs are given twice. \
             See: getid state show. Remedy: getid state advance.\n\
             server-id {server_id}\n\
             epoch {} {}\n\
             layout id-range {} shard-range {} random-range {}\n",
            epoch.unix_ms(),
            rfc3339(Tick(0).unix_ms(epoch)),
            layout.server_bits(),
            layout.shard_bits(),
            layout.random_bits(),
        );
        for (name, tick) in [("watermark", self.point.watermark), ("reference", self.point.reference)] {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{name} {} {}", tick.0, rfc3339(tick.unix_ms(epoch)));
        }
        let _ = writeln!(text, "{LAST_WORDS}{:08x}", crc32fast::hash(text.as_bytes()));
        text
    }
}

/// Unix milliseconds as RFC 3339 in UTC, always with three decimals.
pub(crate) fn rfc3339(unix_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(unix_ms) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        // Beyond what a calendar can say; no tick of a checked epoch gets there.
        Err(_) => format!("{unix_ms}ms"),
    }
}

/// Why a record must not be used by the configured server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It is another server's.
    #[error("it belongs to server-id {recorded}, this is server-id {configured}")]
    ServerId {
        /// In the record.
        recorded: u32,
        /// In the configuration.
        configured: u32,
    },
    /// It counts from an earlier epoch.
    #[error("it counts from epoch {}, id-epoch is {}, which is later", recorded.unix_ms(), configured.unix_ms())]
    Epoch {
        /// In the record.
        recorded: Epoch,
        /// In the configuration.
        configured: Epoch,
    },
}

/// What is wrong with a record's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
}
