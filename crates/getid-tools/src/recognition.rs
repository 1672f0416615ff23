//! Recognizes the probable kind of an ID that no generator is named for: UUIDs, `ObjectId`s and KSUIDs by their shape,
//! the others by their time.

use getid_core::{Declaration, Id, KINDS, Kind, Layout, Shape, no_dates};

use super::subject::Subject;
use getid_text::timestamp::AHEAD_MAX_MS;

/// Words of kinds that are recognized by their shape. Hibernate's IDs look like other UUIDs of version 1.
const SHAPED: [&str; 7] = ["uuid7", "uuid4", "uuid1", "uuid6", "objectid", "objectid-decimal", "ksuid"];

/// Largest number of proposed readings.
const READINGS_MAX: usize = 3;

/// Systems of this kind began about 2006; earlier times are coincidences.
const FIRST_UNIX_MS: i64 = 1_136_073_600_000;

/// Returns the declaration of a kind without options.
fn plain(kind: &Kind) -> Option<Declaration> {
    let words = [kind.word, kind.word];
    let declared = Declaration::parse(&words, no_dates);
    // Kinds whose server is named only by an option, which no ID shows.
    declared.or_else(|_| Declaration::parse(&[&words[..], &["one-server", "0"]].concat(), no_dates)).ok()
}

/// Returns the kinds that the text of an ID shows.
pub fn shaped() -> impl Iterator<Item = Subject> {
    let kinds = SHAPED.into_iter().filter_map(Kind::find);
    kinds.filter_map(plain).map(|declaration| Subject::Declared(Box::new(declaration)))
}

/// Returns other readings of an ID whose time under `layout` is in the future: kinds of numbers and the times that they
/// read, the latest first, one for each time.
pub fn readings(id: Id, layout: Layout, now_unix_ms: i64) -> Vec<(&'static str, i64)> {
    let latest = now_unix_ms.saturating_add(AHEAD_MAX_MS);
    if layout.split(id).tick.unix_ms(layout.epoch()) <= latest {
        return Vec::new();
    }
    let mut readings: Vec<(&'static str, i64)> = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.shape == Shape::Number && kind.word != "fork") {
        let Some(declaration) = plain(kind) else { continue };
        let layout = declaration.layout();
        // A kind whose time has ended gives no IDs.
        let number = declaration.read(&id.to_string()).filter(|_| layout.end_unix_ms() > now_unix_ms);
        let unix_ms = number.and_then(|number| layout.tick_of(number)).map(|tick| layout.unix_ms(tick));
        let plausible = unix_ms.filter(|unix_ms| (FIRST_UNIX_MS..=latest).contains(unix_ms));
        if let Some(unix_ms) = plausible.filter(|unix_ms| readings.iter().all(|(_, known)| known != unix_ms)) {
            readings.push((kind.word, unix_ms));
        }
    }
    readings.sort_by_key(|(_, unix_ms)| std::cmp::Reverse(*unix_ms));
    readings.truncate(READINGS_MAX);
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-26T20:00:00Z, in Unix ms.
    const NOW: i64 = 1_795_723_200_000;

    #[test]
    fn a_shape_shows_its_kind() {
        for (id, kind) in [
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", Some("uuid7")),
            ("919108f7-52d1-4320-9bac-f847db4148a8", Some("uuid4")),
            ("c232ab00-9414-11ec-b3c8-9f6bdeced846", Some("uuid1")),
            ("1ec9414c-232a-6b00-b3c8-9f6bdeced846", Some("uuid6")),
            ("507f1f77bcf86cd799439011", Some("objectid")),
            ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", Some("ksuid")),
            ("144182182078841378", None),
            ("hello", None),
        ] {
            let found = shaped().find(|subject| subject.read(id).is_some());
            assert_eq!(found.as_ref().and_then(Subject::name), kind, "{id}");
        }
        assert_eq!(shaped().count(), SHAPED.len());
    }

    #[test]
    fn an_id_of_the_future_is_another_systems() {
        let layout = Layout::default();
        let of = |id: u64| readings(Id::new(id).unwrap(), layout, NOW);
        assert_eq!(of(144_182_182_078_841_378), [], "one of the past needs no other reading");
        assert_eq!(of(i64::MAX.unsigned_abs()), [], "no system has come so far");
        let twitter = of(1_541_815_603_606_036_480);
        assert!(twitter.contains(&("twitter", 1_656_432_460_105)), "{twitter:?}");
        assert!(twitter.len() <= READINGS_MAX && twitter.is_sorted_by(|one, other| one.1 > other.1), "{twitter:?}");
    }
}
