//! Recognizes the generator or the kind of an ID that no generator is named for.
//!
//! Declared generators come first: the unnamed one, and those of a configuration. The kinds come behind them, by the
//! rules of `DECODEID` ([`KindReaders`]). Of several readings the one whose time is nearest to now counts.

use getid_core::{FieldLayout, KindReader, KindReaders, KindReading, NearestForms, Number, most_plausible};

use super::subject::Subject;
use getid_text::timestamp::plausibility;

/// An ID: the index of its subject, and its number.
pub type FoundId = (usize, Number);

/// The subjects of which a word may be an ID.
///
/// Invariant: `subjects` has the declared ones, at least one, then one for each reader, in their order.
#[derive(Debug)]
pub struct Candidates {
    subjects: Vec<Subject>,
    declared: usize,
    /// Readers of kinds; `None` if a generator or a layout was named.
    readers: Option<KindReaders>,
}

impl Candidates {
    /// Returns the candidates where a generator or a layout was named.
    pub fn named(subject: Subject) -> Candidates {
        Candidates { subjects: vec![subject], declared: 1, readers: None }
    }

    /// Returns the candidates where none was named: the unnamed generator, those of a configuration, and all kinds.
    pub fn all(unnamed: Subject, generators: impl Iterator<Item = Subject>) -> Candidates {
        let mut subjects = vec![unnamed];
        subjects.extend(generators);
        let declared = subjects.len();
        let readers = KindReaders::new();
        subjects.extend(readers.iter().map(|reader| Subject::Declared(Box::new(reader.declaration().clone()))));
        Candidates { subjects, declared, readers: Some(readers) }
    }

    /// Returns the subjects, which the index of a [`FoundId`] counts.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Returns true if a generator or a layout was named.
    pub fn is_named(&self) -> bool {
        self.readers.is_none()
    }

    /// Returns the description of the kind of a subject that is not declared.
    pub fn kind_at(&self, subject: usize) -> Option<String> {
        let place = subject.checked_sub(self.declared)?;
        self.readers.as_ref()?.iter().nth(place).map(KindReader::what)
    }

    /// Returns the most plausible reading of a word: by a declared subject, else by a kind.
    pub fn read(&self, word: &str, now_unix_ms: i64) -> Option<FoundId> {
        let declared = self.read_declared(word).min_by_key(|found| self.plausibility(found, now_unix_ms));
        declared.or_else(|| self.read_kinds(word, &[], now_unix_ms).into_iter().next())
    }

    /// Returns all readings of a word, the most plausible first: those by declared subjects, then those by kinds that
    /// none of these has.
    pub fn readings(&self, word: &str, now_unix_ms: i64) -> Vec<FoundId> {
        let mut readings: Vec<_> = self.read_declared(word).collect();
        readings.sort_by_key(|found| self.plausibility(found, now_unix_ms));
        let kinds = self.read_kinds(word, &readings, now_unix_ms);
        readings.extend(kinds);
        readings
    }

    /// Returns the forms of IDs that are nearest to a word without a reading, if no generator was named.
    pub fn nearest_forms(&self, word: &str) -> Option<NearestForms> {
        self.readers.as_ref().map(|readers| readers.nearest_forms(word.as_bytes()))
    }

    fn read_declared(&self, word: &str) -> impl Iterator<Item = FoundId> {
        self.subjects[..self.declared]
            .iter()
            .enumerate()
            .filter_map(move |(at, subject)| Some((at, subject.read(word)?)))
    }

    /// Returns the readings by kinds that are not among `known`, the most plausible first.
    fn read_kinds(&self, word: &str, known: &[FoundId], now_unix_ms: i64) -> Vec<FoundId> {
        let Some(readers) = &self.readers else { return Vec::new() };
        let is_known = |reading: &KindReading<'_>| {
            known.iter().any(|&(at, number)| match &self.subjects[at] {
                Subject::Unnamed(layout) => reading.is_of_layout(&FieldLayout::from(*layout)),
                Subject::Declared(declaration) => reading.is_of(declaration, number),
                Subject::Counted(_) => false,
            })
        };
        let kinds = readers.read(word).into_iter().filter(|reading| !is_known(reading)).collect();
        let place = |reading: KindReading<'_>| {
            let at = readers.iter().position(|reader| reader == reading.reader)?;
            Some((self.declared + at, reading.number))
        };
        most_plausible(kinds, now_unix_ms).into_iter().filter_map(place).collect()
    }

    fn plausibility(&self, &(at, number): &FoundId, now_unix_ms: i64) -> (u8, u64) {
        plausibility(self.subjects[at].unix_ms(number, now_unix_ms), now_unix_ms)
    }
}

#[cfg(test)]
mod tests {
    use getid_core::{KIND_READINGS_MAX, Layout, no_dates};

    use super::*;

    /// 2026-11-26T20:00:00Z, in Unix ms.
    const NOW: i64 = 1_795_723_200_000;

    fn candidates(declared: &[&str]) -> Candidates {
        let declared = declared.iter().map(|text| Subject::parse(text, no_dates, |_| Ok(())).unwrap());
        Candidates::all(Subject::Unnamed(Layout::default()), declared)
    }

    fn names(candidates: &Candidates, found: impl IntoIterator<Item = FoundId>) -> Vec<&str> {
        found.into_iter().map(|(at, _)| candidates.subjects()[at].name().unwrap_or("-")).collect()
    }

    #[test]
    fn a_shape_shows_its_kind() {
        let candidates = candidates(&[]);
        for (id, kind) in [
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", Some("uuid7")),
            ("919108f7-52d1-4320-9bac-f847db4148a8", Some("uuid4")),
            ("c232ab00-9414-11ec-b3c8-9f6bdeced846", Some("uuid1")),
            ("1ec9414c-232a-6b00-b3c8-9f6bdeced846", Some("uuid6")),
            ("507f1f77bcf86cd799439011", Some("objectid")),
            ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", Some("ksuid")),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", Some("ulid")),
            ("9m4e2mr0ui3e8a215n4g", Some("xid")),
            ("01h455vb4pex5vsknk084sn02q", Some("typeid")),
            // More than 63 bits.
            ("9300000000000000000", Some("instagram")),
            ("144182182078841378", Some("-")),
            ("hello", None),
        ] {
            assert_eq!(names(&candidates, candidates.read(id, NOW)).first().copied(), kind, "{id}");
        }
    }

    #[test]
    fn declared_generators_come_before_kinds() {
        let candidates = candidates(&["generator tweets twitter", "generator old twitter epoch 0"]);
        // A tweet of an hour ago.
        let tweet = (506_884_625_343_u64 << 22).to_string();
        let readings = candidates.readings(&tweet, NOW);
        let words = names(&candidates, readings.iter().copied());
        assert_eq!(words[..4], ["tweets", "old", "-", "leaf"], "{words:?}");
        assert!(words.len() <= 3 + KIND_READINGS_MAX && !words.contains(&"twitter"), "{words:?}");
        assert_eq!(names(&candidates, candidates.read(&tweet, NOW)), ["tweets"]);
        let kinds: Vec<_> = readings.iter().filter_map(|(at, _)| candidates.kind_at(*at)).collect();
        assert_eq!((kinds.len(), kinds[0].as_str()), (words.len() - 3, "Leaf's snowflake mode"));
        // The unnamed generator has the fields of this kind.
        assert!(!names(&candidates, candidates.readings("787043147958976551", NOW)).contains(&"fork"));
    }

    #[test]
    fn a_named_subject_is_the_only_one() {
        let candidates = Candidates::named(Subject::parse("twitter", no_dates, |_| Ok(())).unwrap());
        assert_eq!(candidates.readings("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", NOW), []);
        assert_eq!(candidates.readings("5", NOW).len(), 1);
        assert!(candidates.is_named() && candidates.nearest_forms("x").is_none());
    }
}
