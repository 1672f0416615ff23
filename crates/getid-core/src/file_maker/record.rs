//! The state file's text.
//!
//! ```text
//! getid maker 1
//! # No ID at or past the watermark was given. Do not edit, copy or delete this file: IDs would be given twice.
//! server-id 1
//! epoch 1420041600000 2014-12-31T16:00:00.000Z
//! layout id-range 2 shard-range 9 random-range 10
//! watermark 375145820123 2026-11-20T15:10:20.123Z
//! reference 375145817123 2026-11-20T15:10:17.123Z
//! max-borrow-ms 3000
//! writer 9f86d081884c7d65
//! checksum crc32 440dd966
//! ```
//!
//! The parser is strict: it reads the numbers, and the text must be the one that would be written for them. A record
//! believed wrongly gives IDs twice. First and last line keep their form in every version, so that a newer file can be
//! distinguished from a damaged one.
//!
//! The module is pure; `store` reads and writes the file.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use crate::layout::Layout;
use crate::save_point::SavePoint;
use crate::time::{Epoch, Tick, UtcMs};

/// Version of the format.
const VERSION: u32 = 1;

/// Longest text that is read, bytes: a record has less than 600.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// Longest quote of a wrong line in an error, characters.
const QUOTE_CHARS_MAX: usize = 80;

const FIRST_WORDS: &str = "getid maker ";
const LAST_WORDS: &str = "checksum crc32 ";
const COMMENT: &str =
    "# No ID at or past the watermark was given. Do not edit, copy or delete this file: IDs would be given twice.";

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) server_id: u32,
    pub(super) layout: Layout,
    pub(super) point: SavePoint,
    /// Random number of the life that wrote it.
    pub(super) writer: u64,
}

impl Record {
    pub(super) fn to_text(self) -> String {
        let body = self.body();
        format!("{body}{LAST_WORDS}{:08x}\n", crc32fast::hash(body.as_bytes()))
    }

    fn body(self) -> String {
        let Record { server_id, layout, point, writer } = self;
        let epoch = layout.epoch();
        let timed = |tick: Tick| format!("{} {}", tick.0, UtcMs(tick.unix_ms(epoch)));
        format!(
            "{FIRST_WORDS}{VERSION}\n{COMMENT}\nserver-id {server_id}\nepoch {} {}\n\
             layout id-range {} shard-range {} random-range {}\nwatermark {}\nreference {}\nmax-borrow-ms {}\n\
             writer {writer:016x}\n",
            epoch.unix_ms(),
            UtcMs(layout.first_unix_ms()),
            layout.server_bits(),
            layout.shard_bits(),
            layout.random_bits(),
            timed(point.watermark),
            timed(point.reference),
            point.max_borrow_ms,
        )
    }

    /// Parses a file's bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<Record, RecordError> {
        if bytes.is_empty() {
            return Err(RecordError::Empty);
        }
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(RecordError::TooLong { bytes_max: TEXT_BYTES_MAX });
        }
        let text = String::from_utf8_lossy(bytes);
        let first = text.lines().next().unwrap_or_default();
        let Some(version) = first.strip_prefix(FIRST_WORDS) else {
            return Err(RecordError::NotARecord { found: quoted(first) });
        };
        let body = verified_body(&text)?;
        // The checksum proves that this crate wrote it: so another version is not damage.
        if version != VERSION.to_string() {
            return Err(RecordError::Version { found: quoted(version), expected: VERSION });
        }
        let record = Record::of_body(body).ok_or(RecordError::Content)?;
        if record.body() == body { Ok(record) } else { Err(RecordError::Content) }
    }

    /// Returns the numbers of a body. The caller checks that the body is the one written for them.
    fn of_body(body: &str) -> Option<Record> {
        // Returns the number behind these words, at the beginning of some line.
        let rest = |words: &str| body.lines().find_map(|line| line.strip_prefix(words)?.split(' ').next());
        let number = |words: &str| rest(words)?.parse::<u64>().ok();
        let tick = |words: &str| number(words).map(Tick).filter(|&tick| tick <= Tick::END);
        let epoch = Epoch::from_unix_ms(number("epoch ")?)?;
        let mut widths = body.lines().find_map(|line| line.strip_prefix("layout "))?.split(' ').skip(1).step_by(2);
        let mut width = || widths.next()?.parse::<u32>().ok();
        let layout = Layout::new(epoch, width()?, width()?, width()?).ok()?;
        let server_id = u32::try_from(number("server-id ")?).ok().filter(|&id| layout.has_server(id))?;
        let point = SavePoint {
            watermark: tick("watermark ")?,
            reference: tick("reference ")?,
            max_borrow_ms: number("max-borrow-ms ")?,
        };
        let writer = u64::from_str_radix(rest("writer ")?, 16).ok()?;
        Some(Record { server_id, layout, point, writer })
    }
}

/// Returns all lines but the last, if the last is their checksum.
fn verified_body(text: &str) -> Result<&str, RecordError> {
    let ended = text.strip_suffix('\n').ok_or(RecordError::CutShort)?;
    let (body, last) = text.split_at(ended.rfind('\n').map_or(0, |at| at + 1));
    let digits = last.trim_end_matches('\n').strip_prefix(LAST_WORDS).ok_or(RecordError::CutShort)?;
    let computed = crc32fast::hash(body.as_bytes());
    if digits == format!("{computed:08x}") {
        Ok(body)
    } else {
        Err(RecordError::Checksum { stored: quoted(digits), computed })
    }
}

fn quoted(line: &str) -> String {
    match line.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", line[..end].escape_debug()),
        None => line.escape_debug().to_string(),
    }
}

/// Fault of a state file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// The file is empty.
    Empty,
    /// The file has more bytes than any record.
    TooLong {
        /// Longest text of a record, bytes.
        bytes_max: usize,
    },
    /// The first line belongs to another kind of file.
    NotARecord {
        /// The first line.
        found: String,
    },
    /// The file was written by a newer version of this crate.
    Version {
        /// Version in the file.
        found: String,
        /// Version that this crate reads and writes.
        expected: u32,
    },
    /// The end of the file is missing.
    CutShort,
    /// The file was changed after it was written.
    Checksum {
        /// Checksum in the last line.
        stored: String,
        /// Checksum of the text.
        computed: u32,
    },
    /// The checksum is right, but this crate does not write such lines.
    Content,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Empty => write!(f, "the file is empty"),
            RecordError::TooLong { bytes_max } => write!(f, "it has more than {bytes_max} bytes, and no record has"),
            RecordError::NotARecord { found } => {
                write!(f, "it starts with '{found}' where '{FIRST_WORDS}{VERSION}' is expected")
            }
            RecordError::Version { found, expected } => {
                write!(f, "it has version {found} of the format, and this program reads version {expected}")
            }
            RecordError::CutShort => {
                write!(f, "its last line is not '{LAST_WORDS}' and 8 hex digits: its end is missing")
            }
            RecordError::Checksum { stored, computed } => {
                write!(f, "its checksum is {stored}, the text has {computed:08x}")
            }
            RecordError::Content => write!(f, "its lines are not as this program writes them"),
        }
    }
}

impl core::error::Error for RecordError {}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned as _;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn record() -> Record {
        Record {
            server_id: 3,
            layout: Layout::default(),
            point: SavePoint {
                watermark: Tick(375_145_820_123),
                reference: Tick(375_145_817_123),
                max_borrow_ms: 3000,
            },
            writer: 0x9f86_d081_884c_7d65,
        }
    }

    fn sealed(body: &str) -> String {
        format!("{body}{LAST_WORDS}{:08x}\n", crc32fast::hash(body.as_bytes()))
    }

    #[test]
    fn the_text_is_readable() {
        let expected = "\
getid maker 1
# No ID at or past the watermark was given. Do not edit, copy or delete this file: IDs would be given twice.
server-id 3
epoch 1420041600000 2014-12-31T16:00:00.000Z
layout id-range 2 shard-range 9 random-range 10
watermark 375145820123 2026-11-20T15:10:20.123Z
reference 375145817123 2026-11-20T15:10:17.123Z
max-borrow-ms 3000
writer 9f86d081884c7d65
checksum crc32 ";
        let text = record().to_text();
        assert_eq!(&text[..expected.len()], expected);
        assert_eq!(Record::parse(text.as_bytes()), Ok(record()));
    }

    /// A torn write leaves a part of the text, or zeros.
    #[test]
    fn every_part_of_a_text_and_every_changed_byte_is_refused() {
        let text = record().to_text();
        for len in 0..text.len() {
            assert!(Record::parse(&text.as_bytes()[..len]).is_err(), "{len}");
            let mut bytes = text.clone().into_bytes();
            bytes[len..].fill(0);
            assert!(Record::parse(&bytes).is_err(), "zeros from {len}");
            let mut bytes = text.clone().into_bytes();
            bytes[len] ^= 1;
            assert!(Record::parse(&bytes).is_err(), "byte {len}");
        }
    }

    #[test]
    fn each_fault_has_its_error() {
        let text = record().to_text();
        let body = record().body();
        let newer = sealed(&body.replacen("getid maker 1", "getid maker 2", 1));
        let changed = text.replacen("server-id 3", "server-id 2", 1);
        let stored = text.trim_end().rsplit(' ').next().unwrap_or_default().to_owned();
        let computed = crc32fast::hash(changed.split(LAST_WORDS).next().unwrap_or_default().as_bytes());
        for (bytes, expected) in [
            (String::new(), RecordError::Empty),
            (text.repeat(20), RecordError::TooLong { bytes_max: TEXT_BYTES_MAX }),
            ("getid state 2\n".to_owned(), RecordError::NotARecord { found: "getid state 2".to_owned() }),
            (newer, RecordError::Version { found: "2".to_owned(), expected: 1 }),
            (body.clone(), RecordError::CutShort),
            (text.trim_end().to_owned(), RecordError::CutShort),
            (changed, RecordError::Checksum { stored, computed }),
            (sealed(&body.replacen("server-id 3", "server-id 4", 1)), RecordError::Content),
            (sealed(&body.replacen("watermark ", "watermark 0", 1)), RecordError::Content),
            (sealed(&format!("{body}more\n")), RecordError::Content),
        ] {
            assert_eq!(Record::parse(bytes.as_bytes()), Err(expected), "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            epoch in 0..=Epoch::UNIX_MS_MAX,
            (id_range, shard_range) in (0..=21_u32).prop_flat_map(|id| (Just(id), 0..=21 - id)),
            server_id: u32,
            watermark in 0..=Tick::END.0,
            reference in 0..=Tick::END.0,
            max_borrow_ms: u64,
            writer: u64,
        ) {
            let epoch = Epoch::from_unix_ms(epoch).expect("in range");
            let layout = Layout::new(epoch, id_range, shard_range, 21 - id_range - shard_range).expect("21 bits");
            let point = SavePoint { watermark: Tick(watermark), reference: Tick(reference), max_borrow_ms };
            let record = Record { server_id: server_id & ((1 << id_range) - 1), layout, point, writer };
            prop_assert_eq!(Record::parse(record.to_text().as_bytes()), Ok(record));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, after in ".*") {
            let _ = Record::parse(&bytes);
            let _ = Record::parse(sealed(&format!("{FIRST_WORDS}{VERSION}\n{after}\n")).as_bytes());
        }
    }
}
