//! The record of kind `time`: the watermark and identity of a server that gives IDs by the clock.
//!
//! ```text
//! getid state 4
//! # server-id 0 has given no ID at or past the watermark, and after a restart gives none before it.
//! # Never delete or edit this file, or IDs are given twice. To read it: getid state show. To mend: getid state advance.
//! kind time
//! key 0
//! term 7
//! nonce 9f86d081884c7d65
//! max-borrow-ms 3000
//! epoch 1420041600000 2014-12-31T16:00:00.000Z
//! layout id-range 2 shard-range 9 random-range 10
//! watermark 375145820123 2026-11-21T15:10:20.123Z
//! reference 375145817123 2026-11-21T15:10:17.123Z
//! generator tweets twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657
//! checksum crc32 440dd966
//! ```
//!
//! The first lines and the last belong to the [envelope](super::envelope) of every kind of record; the key is the
//! server-id. The body's first four lines are defined here. They are checked strictly: the text read is compared with
//! the text that would be written. A [mark](super::mark) and [declarations](super::declarations) may follow.
//!
//! Pure. Reading and writing files belongs to `claim`, and the callers decide about errors.

use std::sync::Arc;

use getid_core::{Epoch, Layout, SavePoint, Tick, UtcMs};

use super::declarations::{Conflict, Declarations};
use super::envelope::{Envelope, Owner, RecordError, TEXT_BYTES_MAX, number, quoted};
use super::mark::Mark;

/// The kind of these records.
pub const KIND: &str = "time";

/// Number of lines in a body before those about named generators.
pub(super) const OWN_LINES: usize = 4;

/// The record of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Identity of the server.
    pub identity: Identity,
    /// Point at which its next life starts.
    pub point: SavePoint,
    /// Declarations of its named generators.
    pub declarations: Arc<Declarations>,
    /// Writer of the record.
    pub owner: Owner,
}

/// Identity of a server: the values that must not change unnoticed between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The directive `server-id`.
    pub server_id: u32,
    /// Layout of the unnamed generator: epoch and bit widths.
    pub layout: Layout,
}

impl Record {
    /// Returns the text that goes to disk.
    pub fn to_text(&self) -> String {
        self.text_with(None)
    }

    fn text_with(&self, mark: Option<&Mark>) -> String {
        Envelope {
            kind: KIND.to_owned(),
            key: self.identity.server_id.to_string(),
            owner: self.owner,
            max_borrow_ms: self.point.max_borrow_ms,
            body: self.body(mark),
        }
        .to_text(&self.comments(mark))
    }

    fn comments(&self, mark: Option<&Mark>) -> [String; 2] {
        let server_id = self.identity.server_id;
        let what = match mark {
            Some(_) => {
                format!("server-id {server_id} gives no ID from this record any more, but from where it was moved.")
            }
            None => format!(
                "server-id {server_id} has given no ID at or past the watermark, and after a restart gives none before \
                 it."
            ),
        };
        [
            what,
            "Never delete or edit this file, or IDs are given twice. \
             To read it: getid state show. To mend: getid state advance."
                .to_owned(),
        ]
    }

    fn body(&self, mark: Option<&Mark>) -> Vec<String> {
        self.own_lines().into_iter().chain(mark.map(Mark::to_line)).chain(self.declarations.lines()).collect()
    }

    /// Returns the lines of a body before the mark and those about named generators.
    pub(super) fn own_lines(&self) -> [String; OWN_LINES] {
        let layout = self.identity.layout;
        let epoch = layout.epoch();
        let tick = |name: &str, tick: Tick| tick_line(name, tick, epoch);
        [
            format!("epoch {} {}", epoch.unix_ms(), UtcMs(Tick(0).unix_ms(epoch))),
            format!(
                "layout id-range {} shard-range {} random-range {}",
                layout.server_bits(),
                layout.shard_bits(),
                layout.random_bits()
            ),
            tick("watermark", self.point.watermark),
            tick("reference", self.point.reference),
        ]
    }

    /// Parses the lines of a body: its own lines, and those about named generators, each with the number of the first
    /// line. The caller compares them with the lines that this record would write.
    pub(super) fn of_lines(
        key: &str,
        owner: Owner,
        max_borrow_ms: u64,
        [(own, own_line), (generators, generators_line)]: [(&[String], usize); 2],
    ) -> Result<Record, RecordError> {
        let server_id = number(key).and_then(|id| u32::try_from(id).ok()).ok_or(RecordError::Range)?;
        let mut fields = BodyReader { lines: own.iter().map(String::as_str).zip(own_line..) };
        let [epoch] = fields.numbers("epoch", ["epoch"], "a Unix time in ms")?;
        let [id_range, shard_range, random_range] =
            fields.numbers("layout", ["layout id-range", "shard-range", "random-range"], "widths that sum to 21")?;
        let [watermark] = fields.numbers("watermark", ["watermark"], "a tick")?;
        let [reference] = fields.numbers("reference", ["reference"], "a tick")?;
        let declarations = Arc::new(Declarations::parse(generators, generators_line)?);
        let width = |value: u64| u32::try_from(value).ok();
        let identity = Epoch::from_unix_ms(epoch).and_then(|epoch| {
            let layout = Layout::new(epoch, width(id_range)?, width(shard_range)?, width(random_range)?).ok()?;
            layout.has_server(server_id).then_some(Identity { server_id, layout })
        });
        let identity = identity.ok_or(RecordError::Range)?;
        let point = SavePoint { watermark: Tick(watermark), reference: Tick(reference), max_borrow_ms };
        if point.watermark > Tick::END || point.reference > Tick::END {
            return Err(RecordError::Range);
        }
        Ok(Record { identity, point, declarations, owner })
    }

    /// Parses the record in a file's bytes.
    ///
    /// # Errors
    ///
    /// [`RecordError`] for anything but the exact text of a whole record without a mark.
    pub fn parse(bytes: &[u8]) -> Result<Record, RecordError> {
        let MarkedRecord { record, mark } = MarkedRecord::parse(bytes)?;
        mark.map_or(Ok(record), |mark| Err(RecordError::Marked(mark)))
    }

    /// Converts this record for a server with the `configured` identity: the same instants, in its ticks.
    ///
    /// These rules govern changes between two lives:
    ///
    /// - Server-id: must not change. The record has no information about the IDs of another server.
    /// - Epoch: may only become earlier. Ticks then grow by the difference, and with them every new ID. With a later
    ///   epoch ticks would shrink. Either the watermark shrinks too, and IDs repeat, or it stays as far ahead of the
    ///   clock as the epochs are apart. A record without any given ID accepts every epoch.
    /// - Declarations of named generators: follow [`Declarations::with`], which the caller checks. They have no force
    ///   if no ID was given.
    /// - Bit widths: may change. An ID's tick is its upper 42 bits whatever the widths are, so IDs at or past the
    ///   watermark are larger than all before it.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] for another server-id or a later epoch.
    pub fn adopted_by(&self, configured: Identity) -> Result<Record, Mismatch> {
        if self.identity.server_id != configured.server_id {
            return Err(Mismatch::ServerId { recorded: self.identity.server_id, configured: configured.server_id });
        }
        let (old, new) = (self.identity.layout.epoch(), configured.layout.epoch());
        if self.point.is_nothing() {
            return Ok(Record { identity: configured, declarations: Arc::default(), ..self.clone() });
        }
        let Some(shift_ms) = old.unix_ms().checked_sub(new.unix_ms()) else {
            return Err(Mismatch::Epoch { recorded: old, configured: new });
        };
        // Past the 42 bits both stop at `Tick::END`, where no ID is left.
        let point = self.point.in_earlier_epoch(shift_ms);
        let (was, is) = (self.identity.layout, configured.layout);
        let declarations = Arc::new(Declarations::clone(&self.declarations).with_unnamed_layout(was, is));
        Ok(Record { identity: configured, point, declarations, owner: self.owner })
    }
}

/// A record with its mark, as tools read it. A server uses [`Record::parse`], which refuses marked records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedRecord {
    /// The record, which never changes once it is marked.
    pub record: Record,
    /// Place to which the record was moved.
    pub mark: Option<Mark>,
}

impl MarkedRecord {
    /// Returns the text that goes to disk.
    pub fn to_text(&self) -> String {
        self.record.text_with(self.mark.as_ref())
    }

    /// Parses the record in a file's bytes.
    ///
    /// # Errors
    ///
    /// [`RecordError`] for anything but the exact text of a whole record.
    pub fn parse(bytes: &[u8]) -> Result<MarkedRecord, RecordError> {
        let opened = Envelope::parse(bytes)?;
        let Envelope { kind, key, owner, max_borrow_ms, body } = opened.envelope;
        if kind != KIND {
            return Err(RecordError::Kind { found: kind, expected: KIND });
        }
        let (own, more) = body.split_at(OWN_LINES.min(body.len()));
        let mark = more.first().and_then(|line| Mark::from_line(line));
        let (_, generators) = more.split_at(usize::from(mark.is_some()));
        let generators_line = opened.body_line + OWN_LINES + usize::from(mark.is_some());
        let lines = [(own, opened.body_line), (generators, generators_line)];
        let record = Record::of_lines(&key, owner, max_borrow_ms, lines)?;
        same_lines(&body, opened.body_line, &record.body(mark.as_ref()))?;
        Ok(MarkedRecord { record, mark })
    }
}

/// Returns the line of a tick, with its time.
fn tick_line(name: &str, tick: Tick, epoch: Epoch) -> String {
    format!("{name} {} {}", tick.0, UtcMs(tick.unix_ms(epoch)))
}

/// Returns the watermark and R from the intact lines of a damaged record; 0 if none. A line counts if its tick and its
/// time agree by `epoch`, which no damaged line does by chance. They serve a remedy that goes past them, never a start.
pub fn salvaged_ticks(bytes: &[u8], epoch: Epoch) -> (Tick, Tick) {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    let largest = |name: &str| {
        let ticks = bytes.split(|&byte| byte == b'\n').filter_map(|line| {
            let line = std::str::from_utf8(line).ok()?;
            let tick = line.strip_prefix(name)?.split(' ').nth(1).and_then(number).map(Tick)?;
            (tick <= Tick::END && line == tick_line(name, tick, epoch)).then_some(tick)
        });
        ticks.max().unwrap_or(Tick(0))
    };
    (largest("watermark"), largest("reference"))
}

/// Returns the declarations in the intact lines of a damaged record. They serve a remedy, never a start.
pub fn salvaged_declarations(bytes: &[u8]) -> Declarations {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    Declarations::salvaged(bytes.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()))
}

/// Reader of the body's lines, in order, with their numbers.
struct BodyReader<'a, I: Iterator<Item = (&'a str, usize)>> {
    lines: I,
}

impl<'a, I: Iterator<Item = (&'a str, usize)>> BodyReader<'a, I> {
    /// Returns the numbers of the next line, which has the form `word number word number ...`. The rest of the line is
    /// checked later.
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

/// Compares a body with the canonical text of its own record.
///
/// This comparison makes the parser strict in one place. Leading zeros, double blanks, times that contradict their tick
/// and additional lines are all differences.
pub(super) fn same_lines(found: &[String], first_line: usize, canonical: &[String]) -> Result<(), RecordError> {
    for (at, found) in found.iter().enumerate() {
        let expected = canonical.get(at).map_or("the checksum", String::as_str);
        if found != expected {
            let (line, found) = (first_line + at, quoted(found));
            return Err(RecordError::Line { line, found, expected: expected.to_owned() });
        }
    }
    Ok(())
}

/// Reason why the configured server must not use a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The record belongs to another server: a copied or renamed file.
    #[error("it is the record of server-id {recorded}, and this is server-id {configured}")]
    ServerId {
        /// Server-id in the record.
        recorded: u32,
        /// Server-id in the configuration.
        configured: u32,
    },
    /// The record counts from an earlier epoch, so its IDs would be given again.
    #[error(
        "it counts from epoch {} ({}), and id-epoch is {} ({}), which is later: IDs would be given again",
        recorded.unix_ms(), UtcMs(Tick(0).unix_ms(*recorded)),
        configured.unix_ms(), UtcMs(Tick(0).unix_ms(*configured))
    )]
    Epoch {
        /// Epoch in the record.
        recorded: Epoch,
        /// Epoch in the configuration.
        configured: Epoch,
    },
    /// A named generator has a declaration by which its IDs could be given again.
    #[error(transparent)]
    Generator(#[from] Conflict),
}

#[cfg(test)]
mod tests {
    use getid_core::Declaration;
    use proptest::prelude::*;

    use super::*;
    use crate::claim::Term;
    use crate::claim::envelope::LAST_WORDS;

    fn record(epoch: u64, ranges: [u32; 3], server_id: u32, watermark: u64, reference: u64) -> Record {
        let epoch = Epoch::from_unix_ms(epoch).unwrap();
        let layout = Layout::new(epoch, ranges[0], ranges[1], ranges[2]).unwrap();
        let point = SavePoint { watermark: Tick(watermark), reference: Tick(reference), max_borrow_ms: 3000 };
        let owner = Owner { term: Term(7), nonce: 0x9f86_d081_884c_7d65 };
        Record { identity: Identity { server_id, layout }, point, declarations: Arc::default(), owner }
    }

    fn sample() -> Record {
        record(Epoch::DEFAULT.unix_ms(), [2, 9, 10], 3, 375_145_820_123, 375_145_817_123)
    }

    const TWEETS: &str = "tweets twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657";

    fn declarations(lines: &[&str]) -> Arc<Declarations> {
        let lines: Vec<_> = lines.iter().map(|&line| line.to_owned()).collect();
        Arc::new(Declarations::parse(&lines, 1).unwrap())
    }

    /// Returns a record with named generators and a forgotten name.
    fn sample_with_generators() -> Record {
        let tweets = format!("generator {TWEETS}");
        let lines = [tweets.as_str(), "generator a.b:c-d_1 uuid7", "forgotten old past-id X9"];
        Record { declarations: declarations(&lines), ..sample() }
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

    /// Returns `body` with a valid checksum, as a skilful editor would write it.
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
            "getid state 4\n\
             # server-id 3 has given no ID at or past the watermark, and after a restart gives none before it.\n\
             # Never delete or edit this file, or IDs are given twice. To read it: getid state show. \
             To mend: getid state advance.\n\
             kind time\n\
             key 3\n\
             term 7\n\
             nonce 9f86d081884c7d65\n\
             max-borrow-ms 3000\n\
             epoch 1420041600000 2014-12-31T16:00:00.000Z\n\
             layout id-range 2 shard-range 9 random-range 10\n\
             watermark 375145820123 2026-11-20T15:10:20.123Z\n\
             reference 375145817123 2026-11-20T15:10:17.123Z\n\
             checksum crc32 a2aeb200\n"
        );
    }

    #[test]
    fn named_generators_are_lines_of_the_body() {
        let text = sample_with_generators().to_text();
        let expected =
            body(&sample()) + &format!("generator {TWEETS}\ngenerator a.b:c-d_1 uuid7\nforgotten old past-id X9\n");
        assert_eq!(text, sealed(&expected));
        assert_eq!(Record::parse(text.as_bytes()), Ok(sample_with_generators()));
    }

    /// A server refuses a record that was moved, and a tool can read it.
    #[test]
    fn a_record_that_was_moved() {
        let place = crate::claim::RecordLocation::of_store("etcd://a:2379,b:2379/getid");
        for (mark, words) in [
            (Mark::MovingTo(place.clone()), "it is being moved to etcd://a:2379,b:2379/getid, and no server"),
            (Mark::MovedTo(place.clone()), "it was moved to etcd://a:2379,b:2379/getid, and no server"),
        ] {
            for record in [sample(), sample_with_generators()] {
                let marked = MarkedRecord { record, mark: Some(mark.clone()) };
                let text = marked.to_text();
                assert!(text.contains(&format!("\n{}\n", mark.to_line())), "{text}");
                assert_eq!(MarkedRecord::parse(text.as_bytes()), Ok(marked));
                let refused = Record::parse(text.as_bytes()).unwrap_err();
                assert!(refused.to_string().starts_with(words), "{refused}");
                assert_eq!(
                    crate::claim::envelope::salvaged_mark(text.replace("nonce 9f86", "nonce ????").as_bytes()).as_ref(),
                    Some(&mark)
                );
            }
        }
        // The mark is valid at one place only.
        let marked = MarkedRecord { record: sample_with_generators(), mark: Some(Mark::MovedTo(place)) };
        let body = marked.to_text().split_once("checksum").unwrap().0.to_owned();
        let error = |text: &str| MarkedRecord::parse(sealed(text).as_bytes()).unwrap_err().to_string();
        let line = "mark moved-to etcd://a:2379,b:2379/getid\n";
        let moved_down = error(&(body.replace(line, "") + line));
        assert!(moved_down.ends_with("'the checksum' is expected"), "{moved_down}");
        assert!(error(&body.replace("moved-to", "gone-to")).ends_with("'the checksum' is expected"));
    }

    #[test]
    fn lines_about_generators_are_as_strict() {
        fn check(from: &str, to: &str, line: usize, expected: &str) {
            let body = body(&sample_with_generators());
            assert!(body.contains(from), "{from}");
            let error = Record::parse(sealed(&body.replace(from, to)).as_bytes()).unwrap_err().to_string();
            assert_eq!(error, format!("line {line} is '{}' where '{expected}' is expected", quoted(to)));
        }
        let trace = "generator a.b:c-d_1 uuid7";
        check(trace, "generator tweets uuid7", 14, "generator with a new name");
        check(trace, "generator a/b uuid7", 14, "generator with a declaration");
        check(trace, "generator a uuid8", 14, "generator with a declaration");
        check(trace, "generator a  uuid7", 14, "generator with a declaration");
        check(trace, "generator a js53", 14, "generator with a declaration");
        check(trace, "generators", 14, "the checksum");
        let old = "forgotten old past-id X9";
        check(old, "forgotten old past-id ", 15, "forgotten NAME past-id ID");
        check(old, "forgotten old past-id X 9", 15, "forgotten NAME past-id ID");
        check(old, "forgotten o/d past-id X9", 15, "forgotten with a new name");
        check(old, "forgotten tweets past-id X9", 15, "forgotten with a new name");
    }

    #[test]
    fn a_record_has_at_most_a_thousand_declarations() {
        let with = |n: usize| {
            let lines: Vec<_> = (0..n).map(|n| format!("generator g{n} uuid7\n")).collect();
            Record::parse(sealed(&(body(&sample()) + &lines.concat())).as_bytes())
        };
        assert_eq!(with(1000).unwrap().declarations.generators().len(), 1000);
        let error = with(1001).unwrap_err().to_string();
        assert_eq!(error, "line 1013 is 'generator g1000 uuid7' where 'generator with a new name' is expected");
    }

    /// The longest possible declaration fits a line.
    #[test]
    fn every_declaration_fits_the_record() {
        let name = |n: usize| format!("f{n:031}");
        let fields: Vec<_> = (0..127).map(|n| format!("{}:1", name(n))).collect();
        let values: Vec<_> = (0..127).map(|n| format!("{} 1", name(n))).collect();
        let (fields, values) = (fields.join(" "), values.join(" "));
        let words = format!("{} layout time:1@1000000000ns {fields} {values} format hex", "n".repeat(128));
        let words: Vec<_> = words.split(' ').collect();
        let text = Declaration::parse(&words, getid_core::no_dates).unwrap().to_text();
        let record = Record { declarations: declarations(&[&format!("generator {text}")]), ..sample() };
        assert_eq!(Record::parse(record.to_text().as_bytes()), Ok(record));
    }

    #[test]
    fn declarations_are_salvaged() {
        let text = sample_with_generators().to_text();
        let damaged = text.replace("nonce 9f86", "nonce ????").replace("generator a.b", "generat0r a.b");
        let salvaged = salvaged_declarations(damaged.as_bytes());
        assert_eq!(salvaged.generators(), &sample_with_generators().declarations.generators()[..1]);
        assert_eq!(salvaged.forgotten(), sample_with_generators().declarations.forgotten());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let text = sample_with_generators().to_text().into_bytes();
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
        let text = sample_with_generators().to_text().into_bytes();
        for len in 0..text.len() {
            assert!(Record::parse(&text[..len]).is_err(), "first {len} bytes");
            assert!(Record::parse(&text[text.len() - len..]).is_err(), "last {len} bytes");
        }
    }

    /// Each row: one damage of the text, and the expected error.
    #[expect(clippy::too_many_lines, reason = "a table of mistakes, each with its sentence")]
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
        check(
            &vec![b'x'; TEXT_BYTES_MAX + 1],
            &format!("it has {} bytes, a record has at most {TEXT_BYTES_MAX}", TEXT_BYTES_MAX + 1),
        );
        check(&[0; 512], "byte 0x00 at offset 0 is not printable ASCII");
        check("gétid".as_bytes(), "byte 0xc3 at offset 1 is not printable ASCII");
        check(b"port 7890\n", "it starts with 'port 7890' where 'getid state 4' is expected");
        check(
            format!("{}\n", "y".repeat(100)).as_bytes(),
            &format!("it starts with '{}...' where 'getid state 4' is expected", "y".repeat(80)),
        );
        check(&text.as_bytes()[..text.len() - 1], "it ends in the middle of the line 'checksum crc32 a2aeb200'");
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
            "its checksum is a2aeb200, the text has f8ad12cf",
        );
        check(&sealed("getid state 4\n").into_bytes(), "the line 'kind ...' is missing");
        for version in ["0", "3", "5", "04", "x"] {
            check(
                &resealed("state 4", &format!("state {version}")),
                &format!("it is of format version {version}, this getid reads version 4"),
            );
        }
        check(&resealed("kind time", "kind sequence"), "it is a record of kind 'sequence' where 'time' is expected");
        for (from, to) in [
            ("key 3\n", "key 4\n"),
            ("key 3\n", "key 03\n"),
            ("key 3\n", "key x\n"),
            ("random-range 10", "random-range 11"),
        ] {
            check(&resealed(from, to), "its numbers contradict each other or lie out of range");
        }
        let watermark = "watermark 375145820123 2026-11-20T15:10:20.123Z";
        let wrong_watermark = "watermark 375145820123 2026-11-20T15:10:21.123Z";
        for (from, to, line, found, expected) in [
            ("kind time", "kind Time", 4, "kind Time", "kind with lower-case letters"),
            ("term 7", "term 07", 6, "term 07", "term with a number"),
            ("nonce 9f86", "nonce 9F86", 7, "nonce 9F86d081884c7d65", "nonce with 16 hex digits"),
            ("ms 3000", "ms 1099511627777", 8, "max-borrow-ms 1099511627777", "max-borrow-ms with a number of ms"),
            ("key 3\n", "key +3\n", 5, "key +3", "key with letters, digits and ._-"),
            ("key 3\n", "key  3\n", 5, "key  3", "key with letters, digits and ._-"),
            ("2026-11-20T15:10:20", "2026-11-20T15:10:21", 11, wrong_watermark, watermark),
        ] {
            check(&resealed(from, to), &format!("line {line} is '{found}' where '{expected}' is expected"));
        }
        check(&sealed(&format!("{body}more\n")).into_bytes(), "line 13 is 'more' where 'the checksum' is expected");
        check(&sealed(&format!("{body}# more\n")).into_bytes(), "line 13 is '# more' where 'the checksum' is expected");
    }

    #[test]
    fn comments_of_another_release_are_accepted() {
        let body = body(&sample());
        let lines: Vec<&str> = body.lines().filter(|line| !line.starts_with('#')).collect();
        for comments in ["", "# one\n", "# one\n#\n# three\n"] {
            let text = sealed(&format!("{}\n{comments}{}\n", lines[0], lines[1..].join("\n")));
            assert_eq!(Record::parse(text.as_bytes()), Ok(sample()));
        }
    }

    /// Arguments: recorded epoch and point, configured epoch, and the converted point.
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
    fn the_last_number_of_a_range_is_in_it() {
        let parsed = |watermark, reference, max_borrow_ms| {
            let mut record = record(Epoch::DEFAULT.unix_ms(), [2, 9, 10], 3, watermark, reference);
            record.point.max_borrow_ms = max_borrow_ms;
            Record::parse(record.to_text().as_bytes()).map(|read| read == record)
        };
        let (end, borrow_max) = (Tick::END.0, crate::claim::envelope::BORROW_MS_MAX);
        assert_eq!(parsed(end, end, borrow_max), Ok(true));
        assert_eq!(parsed(end + 1, end, 3000), Err(RecordError::Range));
        assert_eq!(parsed(end, end + 1, 3000), Err(RecordError::Range));
        assert!(parsed(end, end, borrow_max + 1).is_err());
    }

    #[test]
    fn lines_that_are_whole_are_salvaged() {
        let epoch = Epoch::DEFAULT;
        let text = sample().to_text();
        let (watermark, reference) = (sample().point.watermark, sample().point.reference);
        let salvaged = |text: &str| salvaged_ticks(text.as_bytes(), epoch);
        assert_eq!(salvaged(&text.replace("nonce 9f86", "nonce ????")), (watermark, reference));
        assert_eq!(salvaged(&text[text.find("watermark").unwrap()..]), (watermark, reference));
        assert_eq!(salvaged(&text[..text.find("reference").unwrap()]), (watermark, Tick(0)));
        assert_eq!(salvaged(&text.replace("375145820123", "375145820122")), (Tick(0), reference));
        assert_eq!(salvaged(&text.replace("15:10:17.123Z", "15:10:17.124Z")), (watermark, Tick(0)));
        assert_eq!(
            salvaged_ticks(text.as_bytes(), Epoch::from_unix_ms(0).unwrap()),
            (Tick(0), Tick(0)),
            "no line agrees with another epoch"
        );
        for junk in ["", "watermark", "watermark \n", "watermark 1 \n", "watermark 99999999999999999999 x\n"] {
            assert_eq!(salvaged(junk), (Tick(0), Tick(0)), "{junk:?}");
        }
    }

    /// A life that found nothing and gave no ID: the next start may have any epoch, like one without a record.
    #[test]
    fn a_record_without_ids_accepts_any_epoch() {
        let nothing = Record { point: SavePoint::NOTHING, ..sample() };
        for epoch in [0, Epoch::UNIX_MS_MAX] {
            let configured = record(epoch, [2, 9, 10], 3, 0, 0).identity;
            assert_eq!(nothing.adopted_by(configured), Ok(Record { identity: configured, ..nothing.clone() }));
        }
        let other = record(0, [2, 9, 10], 1, 0, 0).identity;
        assert!(matches!(nothing.adopted_by(other), Err(Mismatch::ServerId { .. })));
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
            prop_assert!(record.to_text().len() < 800);
            prop_assert_eq!(Record::parse(record.to_text().as_bytes()), Ok(record));
        }

        #[test]
        fn any_bytes_get_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            prop_assert!(Record::parse(&bytes).is_err());
        }

        /// Even with a valid checksum, only the exact text of a record is a record.
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
