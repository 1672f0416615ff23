//! The record: what a server writes down about itself, as text an operator can read.
//!
//! ```text
//! getid state 1
//! # server-id 0 has given no ID at or past the watermark, and after a restart gives none before it.
//! # Never delete or edit this file, or IDs are given twice. To read it: getid state show. To mend: getid state advance.
//! server-id 0
//! epoch 1420041600000 2014-12-31T16:00:00.000Z
//! layout id-range 2 shard-range 9 random-range 10
//! watermark 375145820123 2026-11-21T15:10:20.123Z
//! reference 375145817123 2026-11-21T15:10:17.123Z
//! checksum crc32 440dd966
//! ```
//!
//! The parser is strict: a file that was cut, edited or rotted is refused with what is wrong with it, because a
//! watermark believed wrongly gives IDs twice. First and last line keep their form in every version, so that a newer
//! file can be told from a damaged one; lines that start with `#` may be worded differently by every release.
//!
//! Pure. Reading and writing files is `claim`'s; what to do about the answer is the caller's.

use std::fmt::Write as _;

use crate::id::{Epoch, Layout, SavePoint, Tick, UtcMs};

/// The version this code writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// The longest text that is looked at, in bytes. A record has less than 600; the rest is room for longer comments.
pub const TEXT_BYTES_MAX: usize = 4096;

/// How much of a wrong line an error quotes, in bytes.
const QUOTE_BYTES_MAX: usize = 80;

const FIRST_WORDS: &str = "getid state ";
const LAST_WORDS: &str = "checksum crc32 ";

/// What is on disk of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose it is.
    pub identity: Identity,
    /// Where its next life starts.
    pub point: SavePoint,
}

/// Who a record belongs to: what must not change unnoticed between two lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The directive `server-id`.
    pub server_id: u32,
    /// Epoch and bit widths.
    pub layout: Layout,
}

impl Record {
    /// The text that goes to disk.
    pub fn to_text(&self) -> String {
        let Identity { server_id, layout } = self.identity;
        let epoch = layout.epoch();
        let mut text = format!(
            "{FIRST_WORDS}{VERSION}\n\
             # server-id {server_id} has given no ID at or past the watermark, and after a restart gives none before it.\n\
             # Never delete or edit this file, or IDs are given twice. \
             To read it: getid state show. To mend: getid state advance.\n\
             server-id {server_id}\n\
             epoch {} {}\n\
             layout id-range {} shard-range {} random-range {}\n",
            epoch.unix_ms(),
            UtcMs(Tick(0).unix_ms(epoch)),
            layout.server_bits(),
            layout.shard_bits(),
            layout.random_bits(),
        );
        for (name, tick) in [("watermark", self.point.watermark), ("reference", self.point.reference)] {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{name} {} {}", tick.0, UtcMs(tick.unix_ms(epoch)));
        }
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "{LAST_WORDS}{checksum:08x}");
        text
    }

    /// The record in a file's bytes.
    ///
    /// # Errors
    ///
    /// [`RecordError`] for anything but the exact text of a whole record.
    pub fn parse(bytes: &[u8]) -> Result<Record, RecordError> {
        let text = plain_text(bytes)?;
        let (version, body) = verified_body(text)?;
        if version > VERSION {
            return Err(RecordError::Newer { version });
        }
        let mut fields = Fields { lines: body.lines().zip(1..).skip(1).peekable() };
        while fields.lines.next_if(|(line, _)| line.starts_with('#')).is_some() {}

        let [server_id] = fields.numbers("server-id", ["server-id"], "a number")?;
        let [epoch] = fields.numbers("epoch", ["epoch"], "a Unix time in ms")?;
        let [id_range, shard_range, random_range] =
            fields.numbers("layout", ["layout id-range", "shard-range", "random-range"], "widths that sum to 21")?;
        let [watermark] = fields.numbers("watermark", ["watermark"], "a tick")?;
        let [reference] = fields.numbers("reference", ["reference"], "a tick")?;

        let record = (|| {
            let width = |value: u64| u32::try_from(value).ok();
            let epoch = Epoch::from_unix_ms(epoch)?;
            let layout = Layout::new(epoch, width(id_range)?, width(shard_range)?, width(random_range)?).ok()?;
            let server_id = u32::try_from(server_id).ok().filter(|&id| layout.has_server(id))?;
            let point = SavePoint { watermark: Tick(watermark), reference: Tick(reference) };
            let fits = point.watermark <= Tick::END && point.reference <= Tick::END;
            fits.then_some(Record { identity: Identity { server_id, layout }, point })
        })()
        .ok_or(RecordError::Range)?;
        same_lines(body, &record.to_text())?;
        Ok(record)
    }

    /// This record for a server with the `configured` identity: the same instants, in its ticks.
    ///
    /// What may change between two lives and what may not:
    ///
    /// - Server-id: not. The record says nothing about the IDs of another server.
    /// - Epoch: only to an earlier one. Ticks then grow by the difference, and with them every new ID. With a later one
    ///   ticks shrink: either the watermark shrinks too, and IDs are given again, or it stays, and lies as far ahead of
    ///   the clock as the epochs lie apart.
    /// - Bit widths: freely. An ID's tick is its upper 42 bits whatever the widths are, so IDs at or past the watermark
    ///   are larger than all before it.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] for another server-id or a later epoch.
    pub fn adopted_by(&self, configured: Identity) -> Result<Record, Mismatch> {
        if self.identity.server_id != configured.server_id {
            return Err(Mismatch::ServerId { recorded: self.identity.server_id, configured: configured.server_id });
        }
        let (old, new) = (self.identity.layout.epoch(), configured.layout.epoch());
        let Some(shift_ms) = old.unix_ms().checked_sub(new.unix_ms()) else {
            return Err(Mismatch::Epoch { recorded: old, configured: new });
        };
        // Past the 42 bits both stop at Tick::END, where no ID is left to give.
        let point = SavePoint {
            watermark: self.point.watermark.plus_ms(shift_ms),
            reference: self.point.reference.plus_ms(shift_ms),
        };
        Ok(Record { identity: configured, point })
    }
}

/// `bytes` as lines of printable ASCII, each ended.
fn plain_text(bytes: &[u8]) -> Result<&str, RecordError> {
    if bytes.is_empty() {
        return Err(RecordError::Empty);
    }
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(RecordError::TooLong { bytes: bytes.len() });
    }
    let printable = |byte: u8| byte == b'\n' || (b' '..=b'~').contains(&byte);
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    match bytes.iter().position(|&byte| !printable(byte)) {
        Some(offset) => Err(RecordError::NotText { offset, byte: bytes[offset] }),
        None => Ok(text),
    }
}

/// Version, and all lines but the last, once the last has been found to be their checksum.
fn verified_body(text: &str) -> Result<(u32, &str), RecordError> {
    let first = text.lines().next().unwrap_or_default();
    let Some(version) = first.strip_prefix(FIRST_WORDS) else {
        return Err(RecordError::NotARecord { found: quoted(first) });
    };
    let Some(ended) = text.strip_suffix('\n') else {
        return Err(RecordError::CutShort { found: quoted(text.lines().last().unwrap_or_default()) });
    };
    let (body, last) = text.split_at(ended.rfind('\n').map_or(0, |at| at + 1));
    let last = last.trim_end_matches('\n');
    let hex = |text: &&str| text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let stored = last.strip_prefix(LAST_WORDS).filter(hex).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let Some(stored) = stored else {
        return Err(RecordError::LastLine { found: quoted(last) });
    };
    let computed = crc32fast::hash(body.as_bytes());
    if stored != computed {
        return Err(RecordError::Checksum { stored, computed });
    }
    // A checksum proves that a getid wrote it: from here on, a strange version is a version.
    match version.parse() {
        Ok(version @ 1..) => Ok((version, body)),
        _ => Err(RecordError::Line { line: 1, found: quoted(first), expected: format!("{FIRST_WORDS}{VERSION}") }),
    }
}

/// The lines after the comments, in order, with their numbers.
struct Fields<'a, I: Iterator<Item = (&'a str, usize)>> {
    lines: std::iter::Peekable<I>,
}

impl<'a, I: Iterator<Item = (&'a str, usize)>> Fields<'a, I> {
    /// The numbers of the next line, which has to read `word number word number ...`; what follows is checked later.
    fn numbers<const N: usize>(
        &mut self,
        name: &'static str,
        words: [&'static str; N],
        meaning: &'static str,
    ) -> Result<[u64; N], RecordError> {
        let (line, number) = self.lines.next().ok_or(RecordError::Missing { name })?;
        let mut rest = line;
        let mut take = |word: &str| {
            let after = rest.strip_prefix(word)?.strip_prefix(' ')?;
            let (digits, after) = after.split_once(' ').unwrap_or((after, ""));
            rest = after;
            digits.parse::<u64>().ok()
        };
        let mut values = [0; N];
        for (value, word) in values.iter_mut().zip(words) {
            *value = take(word).ok_or_else(|| RecordError::Line {
                line: number,
                found: quoted(line),
                expected: format!("{name} with {meaning}"),
            })?;
        }
        Ok(values)
    }
}

/// Compares a body with the text its own record would have, comments and checksum left out.
///
/// This is what makes the parser strict in one place: leading zeros, second blanks, times that contradict their tick
/// and further lines are all differences.
fn same_lines(body: &str, canonical: &str) -> Result<(), RecordError> {
    let mut expected = canonical.lines().filter(|line| !line.starts_with('#') && !line.starts_with(LAST_WORDS));
    let mut comments_may_follow = true;
    for (line, found) in (1..).zip(body.lines()) {
        if line > 1 && comments_may_follow && found.starts_with('#') {
            continue;
        }
        comments_may_follow = line == 1;
        let expected = expected.next().unwrap_or("the checksum");
        if found != expected {
            return Err(RecordError::Line { line, found: quoted(found), expected: expected.to_owned() });
        }
    }
    Ok(())
}

/// The start of a line, for an error.
fn quoted(line: &str) -> String {
    // Only printable ASCII gets here, so every byte is a boundary.
    match line.get(..QUOTE_BYTES_MAX) {
        Some(start) if start.len() < line.len() => format!("{start}..."),
        _ => line.to_owned(),
    }
}

/// Why a record must not be used by the configured server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It is another server's: a copied or renamed file.
    #[error("it is the record of server-id {recorded}, and this is server-id {configured}")]
    ServerId {
        /// In the record.
        recorded: u32,
        /// In the configuration.
        configured: u32,
    },
    /// It counts from an earlier epoch, so its IDs would be given again.
    #[error(
        "it counts from epoch {} ({}), and id-epoch is {} ({}), which is later: IDs would be given again",
        recorded.unix_ms(), UtcMs(Tick(0).unix_ms(*recorded)),
        configured.unix_ms(), UtcMs(Tick(0).unix_ms(*configured))
    )]
    Epoch {
        /// In the record.
        recorded: Epoch,
        /// In the configuration.
        configured: Epoch,
    },
}

/// What is wrong with a record's text. `Display` goes on after "the record in PATH is damaged: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// More than any record has.
    #[error("it has {bytes} bytes, a record has at most {TEXT_BYTES_MAX}")]
    TooLong {
        /// How many were read; there may be more.
        bytes: usize,
    },
    /// A byte that no record has.
    #[error("byte {byte:#04x} at offset {offset} is no printable ASCII")]
    NotText {
        /// Where, from 0.
        offset: usize,
        /// Which.
        byte: u8,
    },
    /// The first line is some other file's.
    #[error("it starts with '{found}' where '{FIRST_WORDS}{VERSION}' is expected")]
    NotARecord {
        /// The first line.
        found: String,
    },
    /// The last line is not ended.
    #[error("it ends in the middle of the line '{found}'")]
    CutShort {
        /// What is there of the last line.
        found: String,
    },
    /// The last line is not a checksum: lines are missing, or there are more behind it.
    #[error("its last line is '{found}' where '{LAST_WORDS}' and 8 hex digits are expected")]
    LastLine {
        /// The last line.
        found: String,
    },
    /// The text was changed after it was written.
    #[error("its checksum is {stored:08x}, the text has {computed:08x}")]
    Checksum {
        /// In the file.
        stored: u32,
        /// Of the text in the file.
        computed: u32,
    },
    /// Intact, but of a format this code does not know.
    #[error("it is of format version {version}, this getid reads version {VERSION}")]
    Newer {
        /// The version in the file.
        version: u32,
    },
    /// A line is not there.
    #[error("the line '{name} ...' is missing")]
    Missing {
        /// How the line starts.
        name: &'static str,
    },
    /// A line says something else than it should.
    #[error("line {line} is '{found}' where '{expected}' is expected")]
    Line {
        /// From 1.
        line: usize,
        /// The line.
        found: String,
        /// What it should be, or its form.
        expected: String,
    },
    /// Numbers that no server can have: a width, a server-id past id-range, a tick past the 42 bits.
    #[error("its numbers contradict each other or lie out of range")]
    Range,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(epoch: u64, ranges: [u32; 3], server_id: u32, watermark: u64, reference: u64) -> Record {
        let epoch = Epoch::from_unix_ms(epoch).unwrap();
        let layout = Layout::new(epoch, ranges[0], ranges[1], ranges[2]).unwrap();
        let point = SavePoint { watermark: Tick(watermark), reference: Tick(reference) };
        Record { identity: Identity { server_id, layout }, point }
    }

    fn sample() -> Record {
        record(Epoch::DEFAULT.unix_ms(), [2, 9, 10], 3, 375_145_820_123, 375_145_817_123)
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let widths = (0..=21_u32).prop_flat_map(|id| (Just(id), 0..=21 - id));
        (0..=Epoch::UNIX_MS_MAX, widths, any::<u32>(), 0..=Tick::END.0, 0..=Tick::END.0).prop_map(
            |(epoch, (id, shard), server, watermark, reference)| {
                let server_id = u32::try_from(u64::from(server) % (1 << id)).unwrap();
                record(epoch, [id, shard, 21 - id - shard], server_id, watermark, reference)
            },
        )
    }

    /// `text` with the checksum that belongs to it, as someone who edits well would write it.
    fn sealed(body: &str) -> String {
        format!("{body}{LAST_WORDS}{:08x}\n", crc32fast::hash(body.as_bytes()))
    }

    fn body(record: &Record) -> String {
        let text = record.to_text();
        text[..text.find(LAST_WORDS).unwrap()].to_owned()
    }

    #[test]
    fn text_is_readable() {
        assert_eq!(
            sample().to_text(),
            "getid state 1\n\
             # server-id 3 has given no ID at or past the watermark, and after a restart gives none before it.\n\
             # Never delete or edit this file, or IDs are given twice. To read it: getid state show. \
             To mend: getid state advance.\n\
             server-id 3\n\
             epoch 1420041600000 2014-12-31T16:00:00.000Z\n\
             layout id-range 2 shard-range 9 random-range 10\n\
             watermark 375145820123 2026-11-20T15:10:20.123Z\n\
             reference 375145817123 2026-11-20T15:10:17.123Z\n\
             checksum crc32 45617d34\n"
        );
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let text = sample().to_text().into_bytes();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut damaged = text.clone();
                damaged[at] ^= 1 << bit;
                assert!(Record::parse(&damaged).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn every_cut_is_found() {
        let text = sample().to_text().into_bytes();
        for len in 0..text.len() {
            assert!(Record::parse(&text[..len]).is_err(), "first {len} bytes");
            assert!(Record::parse(&text[text.len() - len..]).is_err(), "last {len} bytes");
        }
    }

    /// One damage a line: how the text is changed, and what the error says.
    #[test]
    fn damage_is_named() {
        fn check(bytes: &[u8], error: &str) {
            assert_eq!(Record::parse(bytes).unwrap_err().to_string(), error);
        }
        let text = sample().to_text();
        let body = body(&sample());
        let resealed = |from: &str, to: &str| {
            assert!(body.contains(from), "{from}");
            sealed(&body.replace(from, to)).into_bytes()
        };

        check(b"", "the file is empty");
        check(&[b'x'; 5000], "it has 5000 bytes, a record has at most 4096");
        check(&[0; 512], "byte 0x00 at offset 0 is no printable ASCII");
        check("gétid".as_bytes(), "byte 0xc3 at offset 1 is no printable ASCII");
        check(b"port 7890\n", "it starts with 'port 7890' where 'getid state 1' is expected");
        check(
            format!("{}\n", "y".repeat(100)).as_bytes(),
            &format!("it starts with '{}...' where 'getid state 1' is expected", "y".repeat(80)),
        );
        check(&text.as_bytes()[..text.len() - 1], "it ends in the middle of the line 'checksum crc32 45617d34'");
        check(
            body.as_bytes(),
            "its last line is 'reference 375145817123 2026-11-20T15:10:17.123Z' where 'checksum crc32 ' and 8 hex \
             digits are expected",
        );
        check(
            format!("{text}x\n").as_bytes(),
            "its last line is 'x' where 'checksum crc32 ' and 8 hex digits are expected",
        );
        check(
            text.replace("watermark 375", "watermark 374").as_bytes(),
            "its checksum is 45617d34, the text has 1f62ddfb",
        );
        check(&resealed("state 1", "state 2"), "it is of format version 2, this getid reads version 1");
        check(&resealed("state 1", "state 0"), "line 1 is 'getid state 0' where 'getid state 1' is expected");
        check(&resealed("state 1", "state 01"), "line 1 is 'getid state 01' where 'getid state 1' is expected");
        check(&sealed("getid state 1\n").into_bytes(), "the line 'server-id ...' is missing");
        check(
            &resealed("server-id 3\n", "server-id -3\n"),
            "line 4 is 'server-id -3' where 'server-id with a number' is expected",
        );
        check(&resealed("server-id 3\n", "server-id 4\n"), "its numbers contradict each other or lie out of range");
        check(&resealed("random-range 10", "random-range 11"), "its numbers contradict each other or lie out of range");
        check(&resealed("server-id 3\n", "server-id 03\n"), "line 4 is 'server-id 03' where 'server-id 3' is expected");
        check(
            &resealed("server-id 3\n", "server-id  3\n"),
            "line 4 is 'server-id  3' where 'server-id with a number' is expected",
        );
        check(
            &resealed("2026-11-20T15:10:20", "2026-11-20T15:10:21"),
            "line 7 is 'watermark 375145820123 2026-11-20T15:10:21.123Z' where \
             'watermark 375145820123 2026-11-20T15:10:20.123Z' is expected",
        );
        check(&sealed(&format!("{body}more\n")).into_bytes(), "line 9 is 'more' where 'the checksum' is expected");
        check(&sealed(&format!("{body}# more\n")).into_bytes(), "line 9 is '# more' where 'the checksum' is expected");
    }

    #[test]
    fn comments_of_another_release_are_fine() {
        let body = body(&sample());
        let lines: Vec<&str> = body.lines().filter(|line| !line.starts_with('#')).collect();
        for comments in ["", "# one\n", "# one\n#\n# three\n"] {
            let text = sealed(&format!("{}\n{comments}{}\n", lines[0], lines[1..].join("\n")));
            assert_eq!(Record::parse(text.as_bytes()), Ok(sample()));
        }
    }

    /// Recorded epoch and point, configured epoch, and what becomes of it.
    #[test]
    fn epochs_move_one_way() {
        fn check(recorded: u64, (watermark, reference): (u64, u64), configured: u64, expected: Option<(u64, u64)>) {
            let found = record(recorded, [2, 9, 10], 3, watermark, reference);
            let identity = record(configured, [3, 8, 10], 3, 0, 0).identity;
            let adopted = found.adopted_by(identity);
            match expected {
                Some((watermark, reference)) => {
                    assert_eq!(adopted, Ok(record(configured, [3, 8, 10], 3, watermark, reference)));
                    assert!(watermark >= found.point.watermark.0, "IDs below the old watermark could come again");
                }
                None => assert!(matches!(adopted, Err(Mismatch::Epoch { .. }))),
            }
        }
        let end = Tick::END.0;
        check(1000, (70, 60), 1000, Some((70, 60)));
        check(1000, (70, 60), 999, Some((71, 61)));
        check(1000, (70, 60), 0, Some((1070, 1060)));
        check(1000, (end - 1, 60), 0, Some((end, 1060)));
        check(1000, (70, 60), 1001, None);
    }

    #[test]
    fn another_server_is_refused() {
        let other = record(Epoch::DEFAULT.unix_ms(), [2, 9, 10], 1, 0, 0).identity;
        let error = sample().adopted_by(other).unwrap_err();
        assert_eq!(error.to_string(), "it is the record of server-id 3, and this is server-id 1");
    }

    proptest! {
        #[test]
        fn round_trip(record in any_record()) {
            prop_assert_eq!(Record::parse(record.to_text().as_bytes()), Ok(record));
            prop_assert!(record.to_text().len() < 600);
        }

        #[test]
        fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            prop_assert!(Record::parse(&bytes).is_err());
        }

        /// Even with a checksum that fits, only the one text of a record is a record.
        #[test]
        fn edited_and_sealed(record in any_record(), at in any::<prop::sample::Index>(), byte in b' '..=b'~') {
            let mut edited = body(&record).into_bytes();
            let at = at.index(edited.len());
            edited[at] = byte;
            let edited = sealed(&String::from_utf8(edited).unwrap());
            if let Ok(read) = Record::parse(edited.as_bytes()) {
                let facts = |text: &str| -> Vec<String> {
                    text.lines().filter(|line| !line.starts_with('#') && !line.starts_with(LAST_WORDS)).map(str::to_owned).collect()
                };
                prop_assert_eq!(facts(&read.to_text()), facts(&edited));
            }
        }
    }
}
