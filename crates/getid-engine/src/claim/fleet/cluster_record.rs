//! The record of kind `cluster`: the settings and generators that all servers of a fleet share.
//!
//! ```text
//! getid state 4
//! # What all servers that use this claim store have in common. To read it: getid cluster show.
//! kind cluster
//! key cluster
//! term 0
//! nonce 0000000000000000
//! max-borrow-ms 0
//! epoch 1420041600000 2014-12-31T16:00:00.000Z
//! id-range 10
//! auto 4-1023
//! counter orders serial ORD-{yyyy}-{n:6} zone UTC
//! generator tweets twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657
//! checksum crc32 440dd966
//! ```
//!
//! Two servers with other ids, epochs or widths of the server-id could give the same ID. So a server is compared with
//! this record when it starts, and each time that the record changes. Its new declarations are added. Values of one
//! server (worker fields given by hand, values drawn once) are in the record of its claim.
//!
//! Pure.

use std::fmt;
use std::sync::Arc;

use getid_core::server::{CounterDeclaration, is_name};
use getid_core::{Declaration, Epoch, Layout, Tick, UtcMs};

use super::super::declarations::Declarations;
use super::super::envelope::{DECLARATIONS_MAX, Envelope, Owner, RecordError, number, quoted};
use super::super::record::same_lines;
use super::RecordTooLong;
use getid_store::records::{RecordRow, Stamp, TEXT_BYTES_MAX};

/// The kind of this record.
pub const KIND: &str = "cluster";

/// Number of lines that each record has.
const OWN_LINES: usize = 3;

const COUNTER: &str = "counter ";

/// Most ranges of [`IdRanges`].
pub(crate) const ID_RANGES_MAX: usize = 1000;

/// The settings and generators that a fleet shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRecord {
    /// Time from which ticks are counted.
    pub epoch: Epoch,
    /// Bits of the server-id (`id-range`).
    pub id_range: u32,
    /// Server-ids that `server-id auto` may take.
    pub auto: IdRanges,
    /// Generators over sequences: the words of each, its name first.
    counters: Vec<String>,
    /// Generators that carry time, without the values of one server.
    declarations: Arc<Declarations>,
}

/// Reason why a server does not belong to a fleet. `Display` is one sentence with both values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherCluster {
    /// Ticks are counted from another epoch.
    #[error(
        "id-epoch is {} ({}), and this fleet's is {} ({}): both would give the same IDs; set the fleet's, or name \
         another claim-store",
        configured.unix_ms(), UtcMs(Tick(0).unix_ms(*configured)), cluster.unix_ms(), UtcMs(Tick(0).unix_ms(*cluster))
    )]
    Epoch {
        /// Epoch of this server.
        configured: Epoch,
        /// Epoch of the fleet.
        cluster: Epoch,
    },
    /// The server-id has another width.
    #[error(
        "id-range is {configured}, and this fleet's is {cluster}: two servers could give the same ID; set the fleet's, \
         or name another claim-store"
    )]
    IdRange {
        /// Width in bits on this server.
        configured: u32,
        /// Width in bits in the fleet.
        cluster: u32,
    },
    /// A generator has another declaration.
    #[error(
        "generator '{name}' is declared here as '{configured}', and in this fleet as '{cluster}': declare it as the \
         fleet does, or give it another name; or, if all its IDs are known, run `getid cluster forget-generator {name}`"
    )]
    Generator {
        /// Name of the generator.
        name: String,
        /// Words after the name on this server.
        configured: String,
        /// Words after the name in the fleet.
        cluster: String,
    },
    /// The record has no room for another generator.
    #[error(
        "generator '{name}' does not fit: this fleet has its maximum of {DECLARATIONS_MAX}, including those that no \
         server declares any more; forget one with `getid cluster forget-generator`"
    )]
    TooMany {
        /// Name of the first generator without room.
        name: String,
    },
}

impl ClusterRecord {
    /// Creates the record of a fleet with this server's layout, and no generators yet.
    pub fn new(layout: Layout, auto: IdRanges) -> ClusterRecord {
        let (epoch, id_range) = (layout.epoch(), layout.server_bits());
        ClusterRecord { epoch, id_range, auto, counters: Vec::new(), declarations: Arc::default() }
    }

    /// Returns the generators that carry time, and the forgotten names.
    pub fn declarations(&self) -> &Arc<Declarations> {
        &self.declarations
    }

    /// Returns the words of each generator over a sequence, its name first.
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// Returns this record with the generators of a server added, or `None` if it has them all.
    ///
    /// # Errors
    ///
    /// [`OtherCluster`] if the server does not belong to this fleet.
    pub fn joined_by(
        &self,
        layout: Layout,
        generators: &[Arc<Declaration>],
        counters: &[Arc<CounterDeclaration>],
    ) -> Result<Option<ClusterRecord>, OtherCluster> {
        if layout.epoch() != self.epoch {
            return Err(OtherCluster::Epoch { configured: layout.epoch(), cluster: self.epoch });
        }
        if layout.server_bits() != self.id_range {
            return Err(OtherCluster::IdRange { configured: layout.server_bits(), cluster: self.id_range });
        }
        let mut joined = self.clone();
        let mut declarations = Declarations::clone(&self.declarations);
        for declaration in generators {
            joined.check_name(declaration.name(), &common_words(declaration))?;
            if declarations.find(declaration.name()).is_none() {
                declarations.push(Arc::clone(declaration)).map_err(|()| too_many(declaration.name()))?;
            }
        }
        for counter in counters {
            let words = CounterDeclaration::clone(counter).without_seal().words().join(" ");
            joined.check_name(counter.name(), behind_name(&words))?;
            if joined.find_counter(counter.name()).is_none() {
                if joined.counters.len() == DECLARATIONS_MAX {
                    return Err(too_many(counter.name()));
                }
                joined.counters.push(words);
            }
        }
        joined.declarations = Arc::new(declarations);
        Ok((joined != *self).then_some(joined))
    }

    /// Returns this record without the generator of this name, or `None` if there is none.
    #[must_use]
    pub fn without_generator(&self, name: &str) -> Option<ClusterRecord> {
        let mut record = self.clone();
        record.counters.retain(|words| name_of(words) != name);
        record.declarations = Arc::new(self.declarations.without_trace(name));
        (record != *self).then_some(record)
    }

    /// Fails if a generator of this name has another declaration.
    fn check_name(&self, name: &str, configured: &str) -> Result<(), OtherCluster> {
        let counter = self.find_counter(name).map(|words| behind_name(words).to_owned());
        let known = counter.or_else(|| self.declarations.find(name).map(|known| common_words(known)));
        match known {
            Some(cluster) if cluster != configured => {
                let (name, configured) = (name.to_owned(), configured.to_owned());
                Err(OtherCluster::Generator { name, configured, cluster })
            }
            _ => Ok(()),
        }
    }

    fn find_counter(&self, name: &str) -> Option<&String> {
        self.counters.iter().find(|words| name_of(words) == name)
    }

    /// Returns the text that goes to the store.
    pub fn to_text(&self) -> String {
        let comments =
            ["What all servers that use this claim store have in common. To read it: getid cluster show.".to_owned()];
        Envelope {
            kind: KIND.to_owned(),
            key: KIND.to_owned(),
            owner: Owner::default(),
            max_borrow_ms: 0,
            body: self.body(),
        }
        .to_text(&comments)
    }

    /// Returns the row of a write.
    ///
    /// # Errors
    ///
    /// [`RecordTooLong`] if the text is too long for a store.
    pub fn to_row(&self, stamp: Stamp) -> Result<RecordRow, RecordTooLong> {
        let text = self.to_text();
        if text.len() > TEXT_BYTES_MAX {
            return Err(RecordTooLong::Cluster { bytes: text.len() });
        }
        Ok(RecordRow { stamp, text })
    }

    fn body(&self) -> Vec<String> {
        let mut lines = vec![
            format!("epoch {} {}", self.epoch.unix_ms(), UtcMs(Tick(0).unix_ms(self.epoch))),
            format!("id-range {}", self.id_range),
            format!("auto {}", self.auto),
        ];
        lines.extend(self.counters.iter().map(|words| format!("{COUNTER}{words}")));
        lines.extend(self.declarations.lines());
        lines
    }

    /// Parses the record in a row's text.
    ///
    /// # Errors
    ///
    /// [`RecordError`] for anything but the exact text of a whole record.
    pub fn parse(bytes: &[u8]) -> Result<ClusterRecord, RecordError> {
        let opened = Envelope::parse(bytes)?;
        let Envelope { kind, key, owner, max_borrow_ms, body } = opened.envelope;
        if kind != KIND {
            return Err(RecordError::Kind { found: kind, expected: KIND });
        }
        let line = |at: usize, name: &'static str, expected: &str| {
            let found = body.get(at).ok_or(RecordError::Missing { name })?;
            let value = found.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
            let wrong = RecordError::Line {
                line: opened.body_line + at,
                found: quoted(found),
                expected: format!("{name} with {expected}"),
            };
            Ok((value.unwrap_or_default().to_owned(), wrong))
        };
        let (text, wrong) = line(0, "epoch", "a Unix time in ms")?;
        let epoch = text.split(' ').next().and_then(number).and_then(Epoch::from_unix_ms).ok_or(wrong)?;
        let (text, wrong) = line(1, "id-range", "a number of bits")?;
        let id_range =
            number(&text).and_then(|bits| u32::try_from(bits).ok()).filter(|&bits| bits <= 21).ok_or(wrong)?;
        let (text, wrong) = line(2, "auto", "server-ids, as in 4-1023")?;
        let auto = IdRanges::parse(&text).map_err(|_| wrong)?;
        let is_in_range = auto.last().is_none_or(|id| u64::from(id) < 1 << id_range);
        let more = body.get(OWN_LINES..).unwrap_or_default();
        let counters: Vec<String> =
            more.iter().map_while(|line| line.strip_prefix(COUNTER)).map(str::to_owned).collect();
        let has_names = counters.iter().all(|words| is_name(name_of(words)));
        let is_own = key == KIND && owner == Owner::default() && max_borrow_ms == 0;
        if !is_own || !is_in_range || !has_names || counters.len() > DECLARATIONS_MAX {
            return Err(RecordError::Range);
        }
        let generators = more.get(counters.len()..).unwrap_or_default();
        let generators = Declarations::parse(generators, opened.body_line + OWN_LINES + counters.len())?;
        let record = ClusterRecord { epoch, id_range, auto, counters, declarations: Arc::new(generators) };
        same_lines(&body, opened.body_line, &record.body())?;
        Ok(record)
    }
}

fn too_many(name: &str) -> OtherCluster {
    OtherCluster::TooMany { name: name.to_owned() }
}

fn name_of(words: &str) -> &str {
    words.split(' ').next().unwrap_or_default()
}

fn behind_name(words: &str) -> &str {
    words.split_once(' ').map_or("", |(_, rest)| rest)
}

/// Returns the words of a declaration that all servers share. They exclude the name, and the values of one server:
/// worker fields given by hand, constants, and values drawn once.
fn common_words(declaration: &Declaration) -> String {
    let text = declaration.common_text();
    behind_name(&text).to_owned()
}

/// Server-ids, such as `4-31,40,64-1023`: ascending and disjoint ranges. `-` is the empty set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdRanges(Vec<(u32, u32)>);

/// Reason why a text is no set of server-ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdRangesError {
    /// The text has another form.
    #[error("'{found}' must be server-ids such as 4-31,40")]
    Form {
        /// The text.
        found: String,
    },
    /// The ranges are too many for a record.
    #[error("there are {found} ranges of server-ids, must be at most {ID_RANGES_MAX}")]
    TooMany {
        /// Number of ranges that neither touch nor overlap.
        found: usize,
    },
}

impl IdRanges {
    /// Parses `4-31,40` in any order; ranges may touch and overlap. `-` is the empty set.
    ///
    /// # Errors
    ///
    /// [`IdRangesError`] for another form, or for too many ranges.
    pub fn parse(text: &str) -> Result<IdRanges, IdRangesError> {
        if text == "-" {
            return Ok(IdRanges::default());
        }
        let wrong = || IdRangesError::Form { found: text.to_owned() };
        let id = |text: &str| number(text).and_then(|id| u32::try_from(id).ok());
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = id(first).zip(id(last)).filter(|(first, last)| first <= last).ok_or_else(wrong)?;
            ranges.push((first, last));
        }
        let all = IdRanges::merged(ranges);
        if all.0.len() > ID_RANGES_MAX {
            return Err(IdRangesError::TooMany { found: all.0.len() });
        }
        Ok(all)
    }

    fn merged(mut ranges: Vec<(u32, u32)>) -> IdRanges {
        ranges.sort_unstable();
        let mut all: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match all.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => all.push((first, last)),
            }
        }
        IdRanges(all)
    }

    /// Returns the union with `others`.
    #[must_use]
    pub fn with(&self, others: &IdRanges) -> IdRanges {
        IdRanges::merged(self.0.iter().chain(&others.0).copied().collect())
    }

    /// Returns true if there are no server-ids.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if `server_id` is in one of the ranges.
    pub fn contains(&self, server_id: u32) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&server_id))
    }

    /// Returns the largest server-id.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|&(_, last)| last)
    }

    /// Returns all server-ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }
}

impl fmt::Display for IdRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use getid_core::no_dates;
    use proptest::prelude::*;

    use super::*;
    use crate::claim::envelope::LAST_WORDS;

    fn declared(words: &str) -> Arc<Declaration> {
        Arc::new(Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).unwrap())
    }

    fn counter(words: &str) -> Arc<CounterDeclaration> {
        let words: Vec<_> = words.split(' ').collect();
        Arc::new(CounterDeclaration::parse(&words, |_| Ok(())).unwrap().unwrap())
    }

    fn empty() -> ClusterRecord {
        ClusterRecord::new(Layout::default(), IdRanges::parse("2-3").unwrap())
    }

    fn sample() -> ClusterRecord {
        let generators = [declared("tweets twitter datacenter 3 worker 1"), declared("doc objectid")];
        let counters = [counter("orders serial ORD-{yyyy}-{n:6} zone UTC")];
        empty().joined_by(Layout::default(), &generators, &counters).unwrap().unwrap()
    }

    #[test]
    fn text_is_readable_and_reads_back() {
        let text = sample().to_text();
        let expected = "kind cluster\nkey cluster\nterm 0\nnonce 0000000000000000\nmax-borrow-ms 0\n\
             epoch 1420041600000 2014-12-31T16:00:00.000Z\nid-range 2\nauto 2-3\ncounter orders serial ORD-";
        assert!(text.starts_with("getid state 4\n# What") && text.contains(expected), "{text}");
        assert_eq!(ClusterRecord::parse(text.as_bytes()), Ok(sample()));
        assert_eq!(ClusterRecord::parse(empty().to_text().as_bytes()), Ok(empty()));
    }

    /// Each row: the declarations of a second server, and the start of the error; empty if it may join.
    #[test]
    fn a_server_that_joins_has_the_same_declarations() {
        let layout = |epoch, widths: [u32; 3]| {
            Layout::new(Epoch::from_unix_ms(epoch).unwrap(), widths[0], widths[1], widths[2]).unwrap()
        };
        let default = Epoch::DEFAULT.unix_ms();
        for (layout, words, expected_text) in [
            (layout(default, [2, 9, 10]), "tweets twitter datacenter 1 worker 2", ""),
            (layout(default, [2, 19, 0]), "doc objectid process 7", ""),
            (
                layout(default + 1, [2, 9, 10]),
                "doc objectid",
                "id-epoch is 1420041600001 (2014-12-31T16:00:00.001Z), and this",
            ),
            (layout(default, [3, 8, 10]), "doc objectid", "id-range is 3, and this fleet's is 2"),
            (layout(default, [2, 9, 10]), "tweets twitter", "generator 'tweets' is declared here as 'twitter"),
            (layout(default, [2, 9, 10]), "tweets twitter datacenter 3", "generator 'tweets' is declared here as"),
            (
                layout(default, [2, 9, 10]),
                "doc uuid7",
                "generator 'doc' is declared here as 'uuid7', and in this fleet as 'objectid",
            ),
            (
                layout(default, [2, 9, 10]),
                "orders uuid7",
                "generator 'orders' is declared here as 'uuid7', and in this fleet as 'serial ORD-",
            ),
        ] {
            match sample().joined_by(layout, &[declared(words)], &[]) {
                Ok(joined) => assert_eq!((joined, expected_text), (None, ""), "{words}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!expected_text.is_empty() && error.starts_with(expected_text), "{words}: {error}");
                }
            }
        }
        let counters = [counter("orders serial X-{yyyy}-{n:6} zone UTC")];
        let error = sample().joined_by(Layout::default(), &[], &counters).unwrap_err().to_string();
        assert!(error.starts_with("generator 'orders' is declared here as 'serial X-"), "{error}");
        let counters = [counter("tweets sequence")];
        assert!(sample().joined_by(Layout::default(), &[], &counters).is_err());
    }

    #[test]
    fn new_generators_are_added_and_forgotten_ones_removed() {
        let more = sample().joined_by(Layout::default(), &[declared("new uuid7")], &[counter("n sequence")]);
        let more = more.unwrap().unwrap();
        assert_eq!(more.declarations().generators().len(), 3);
        assert_eq!(more.counters().len(), 2);
        assert_eq!(ClusterRecord::parse(more.to_text().as_bytes()), Ok(more.clone()));
        let without = more.without_generator("tweets").unwrap().without_generator("orders").unwrap();
        assert_eq!(without.without_generator("tweets"), None);
        assert!(
            without.joined_by(Layout::default(), &[declared("orders uuid7"), declared("tweets js53")], &[]).is_ok()
        );
    }

    /// Each row: a change of the text, and the expected error.
    #[test]
    fn any_deviation_from_the_text_is_refused() {
        let text = sample().to_text();
        let body = &text[..text.find(LAST_WORDS).unwrap()];
        for (from, to, expected_text) in [
            ("state 4", "state 9", "it is of format version 9, this getid reads version 4"),
            ("kind cluster", "kind claim", "it is a record of kind 'claim' where 'cluster' is expected"),
            ("key cluster", "key other", "its numbers contradict each other"),
            ("id-range 2", "id-range 22", "line 9 is 'id-range 22' where 'id-range with a number of bits' is expected"),
            ("auto 2-3", "auto 2-4", "its numbers contradict each other"),
            ("auto 2-3", "auto 2,3", "line 10 is 'auto 2,3' where 'auto 2-3' is expected"),
            ("auto 2-3\n", "", "where 'auto with server-ids"),
            ("counter orders", "counter or/ders", "its numbers contradict each other"),
            ("counter orders", "more orders", "where 'the checksum' is expected"),
        ] {
            assert!(body.contains(from), "{from}");
            let edited = body.replacen(from, to, 1);
            let sealed = format!("{edited}{LAST_WORDS}{:08x}\n", crc32fast::hash(edited.as_bytes()));
            let error = ClusterRecord::parse(sealed.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected_text), "{from} -> {to}: {error}");
        }
        assert!(ClusterRecord::parse(body.as_bytes()).is_err());
    }

    #[test]
    fn ranges() {
        for (text, shown) in [("-", "-"), ("4", "4"), ("7-9,4,8-12,5", "4-5,7-12"), ("0-4294967295", "0-4294967295")] {
            assert_eq!(IdRanges::parse(text).map(|ranges| ranges.to_string()), Ok(shown.to_owned()));
        }
        for wrong in ["", "a", "4-", "-4", "5-4", "4,,5", "04", "4 - 5", "4294967296"] {
            assert!(IdRanges::parse(wrong).is_err(), "{wrong}");
        }
        let ranges = IdRanges::parse("4-5").unwrap().with(&IdRanges::parse("6,9").unwrap());
        assert_eq!((ranges.to_string().as_str(), ranges.last()), ("4-6,9", Some(9)));
        assert_eq!(ranges.iter().filter(|&id| ranges.contains(id)).count(), 4);
    }

    proptest! {
        #[test]
        fn any_ranges_read_back(ids in prop::collection::vec(0..40_u32, 0..20)) {
            let ranges = IdRanges::merged(ids.iter().map(|&id| (id, id)).collect());
            prop_assert!((0..40).all(|id| ranges.contains(id) == ids.contains(&id)));
            prop_assert_eq!(IdRanges::parse(&ranges.to_string()), Ok(ranges));
        }
    }
}
