//! The named generators of a record: the declaration of each one, and the names that were forgotten.
//!
//! A named generator gives no ID twice because all its lives share one position, the server's. That holds only while
//! its numbers keep their meaning: with a later epoch or another width, IDs of an earlier life would repeat. So a
//! record keeps the declaration of every generator that may have given an ID, even after the configuration drops it.
//! Every new declaration is compared with the recorded one.
//!
//! ```text
//! generator tweets twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657
//! forgotten invoices past-id 144182328657192148
//! since 1795273814123 2026-11-21T15:10:14.123Z
//! since 1795273814123 2026-11-21T15:10:14.123Z tweets
//! ```
//!
//! `since` is a time before which this server has given no ID of a generator, and gives none: an ID of an earlier time
//! that has the server-id may be composed by hand. Without a name it is that of the unnamed generator. A generator
//! without this line may have given any ID: its record was moved ahead by hand, or its name was forgotten.
//!
//! Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use getid_core::server::{Change, is_name};
use getid_core::{Declaration, FieldLayout, Layout, Number, Role, UtcMs};

use super::envelope::{
    DECLARATIONS_MAX, FORGOTTEN_LINE_BYTES_MAX, GENERATOR_LINE_BYTES_MAX, RecordError, SINCE_LINE_BYTES_MAX, quoted,
};

const GENERATOR: &str = "generator ";
const FORGOTTEN: &str = "forgotten ";
const PAST_ID: &str = " past-id ";
const SINCE: &str = "since ";

/// Name of the unnamed generator among the times of [`Declarations::since`]. It is the name of no generator.
const UNNAMED: &str = "";

/// Distance of a recorded time before the first ID, ms. It is more than the position of a life without IDs goes back
/// without a save, when the clock is corrected: the room of a save and the distance from which a watermark is lowered.
const SINCE_MARGIN_MS: i64 = 1000;

/// The declarations of one server, in the order in which they were added, and the forgotten names.
///
/// Each name occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declarations {
    generators: Vec<Arc<Declaration>>,
    forgotten: Vec<ForgottenName>,
    /// For each generator a time before which it gives no ID, Unix ms; none: unknown. Names without a declaration have
    /// none, but for [`UNNAMED`].
    since: BTreeMap<String, i64>,
}

/// A name that an operator has forgotten. A generator that gets the name again must begin past this ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenName {
    /// Name of the forgotten generator.
    pub name: String,
    /// Largest ID that was given, in the text form of its generator.
    pub past_id: String,
}

/// Reason why a declaration conflicts with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The change could make IDs repeat.
    #[error("generator '{}' cannot be declared so: {change}, and its IDs could be given again", recorded.name())]
    Change {
        /// The change that is not permitted.
        change: Change,
        /// The declaration in the record.
        recorded: Arc<Declaration>,
    },
    /// The generator would not begin past the IDs that were given under its name.
    #[error(
        "generator '{name}' would not begin past {past_id}, the last ID before it was forgotten, or the two cannot be \
         compared: IDs could be given again"
    )]
    Forgotten {
        /// Name of the generator.
        name: String,
        /// The largest ID given, from the record.
        past_id: String,
    },
    /// The record has no room for another declaration.
    #[error(
        "generator '{name}' does not fit: the record has its maximum of {DECLARATIONS_MAX} declarations, including \
         those of removed generators"
    )]
    TooMany {
        /// Name of the first generator without room.
        name: String,
    },
}

/// The record has no room for another forgotten name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record has {DECLARATIONS_MAX} forgotten names already; reuse one of them for a generator ('{first}')")]
pub struct TooManyForgotten {
    /// The name that was forgotten first.
    pub first: String,
}

impl Declarations {
    /// Returns true if there are neither declarations nor forgotten names.
    pub fn is_empty(&self) -> bool {
        self.generators.is_empty() && self.forgotten.is_empty()
    }

    /// Returns a time before which this server gives no ID of a generator, in Unix ms, and has given none. `None`
    /// without a name is the unnamed generator; the result is `None` if no such time is known.
    pub fn since(&self, name: Option<&str>) -> Option<i64> {
        self.since.get(name.unwrap_or(UNNAMED)).copied()
    }

    /// Returns the known times of [`Declarations::since`], that of the unnamed generator first, which has no name.
    pub fn all_since(&self) -> impl Iterator<Item = (Option<&str>, i64)> {
        self.since.iter().map(|(name, &unix_ms)| (Some(name.as_str()).filter(|name| *name != UNNAMED), unix_ms))
    }

    /// Returns the declarations with one time for all generators, the unnamed one included. None of them has given an
    /// ID, and none gives one before `from_unix_ms`.
    #[must_use]
    pub fn with_first_life(mut self, from_unix_ms: i64) -> Declarations {
        let since = from_unix_ms.saturating_sub(SINCE_MARGIN_MS);
        let names = self.generators.iter().map(|known| known.name().to_owned());
        self.since = names.chain([UNNAMED.to_owned()]).map(|name| (name, since)).collect();
        self
    }

    /// Returns the declarations for another layout of the unnamed generator. Under another epoch the same numbers have
    /// other times. Under another id-range a server's numbers may be those that another server gave before, so there is
    /// no time before which none of them was given: the time is the epoch, the first of all.
    #[must_use]
    pub fn with_unnamed_layout(mut self, old: Layout, new: Layout) -> Declarations {
        let shift_ms = old.epoch().unix_ms().saturating_sub(new.epoch().unix_ms());
        if let Some(since) = self.since.get_mut(UNNAMED) {
            *since = since.saturating_sub_unsigned(shift_ms);
            if old.server_bits() != new.server_bits() {
                *since = (*since).min(new.epoch().unix_ms().cast_signed());
            }
        }
        self
    }

    /// Returns the declarations with each `since` lowered to what IDs from `from_unix_ms` on allow; `None` if none is
    /// later.
    pub fn since_at_most(&self, from_unix_ms: i64) -> Option<Declarations> {
        let most = from_unix_ms.saturating_sub(SINCE_MARGIN_MS);
        let is_late = self.since.values().any(|&since| since > most);
        is_late.then(|| {
            let mut all = self.clone();
            all.since.values_mut().for_each(|since| *since = (*since).min(most));
            all
        })
    }

    /// Returns the declarations with the earlier `since` of these and `other` for each generator that both have. If one
    /// of them has no `since` of a generator, the result has none.
    #[must_use]
    pub fn with_earlier_since(mut self, other: &Declarations) -> Declarations {
        let is_known = |name: &str| name == UNNAMED || other.find(name).is_some();
        self.since.retain(|name, since| match other.since.get(name) {
            Some(&earlier) => {
                *since = (*since).min(earlier);
                true
            }
            None => !is_known(name),
        });
        self
    }

    /// Returns the declarations without any `since`.
    #[must_use]
    pub fn without_since(mut self) -> Declarations {
        self.since.clear();
        self
    }

    /// The declarations that are not forgotten, in the order in which they were added.
    pub fn generators(&self) -> &[Arc<Declaration>] {
        &self.generators
    }

    /// The forgotten names.
    pub fn forgotten(&self) -> &[ForgottenName] {
        &self.forgotten
    }

    /// Returns the declaration with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Declaration>> {
        self.generators.iter().find(|known| known.name() == name)
    }

    /// Returns these declarations with `declared` added. A new one replaces that of the same name, and the others stay.
    ///
    /// No generator gives an ID of a time before `from_unix_ms` from now on. If the part of a generator's IDs changes
    /// that is equal in all of them, such as a constant, the time of its first ID is no longer known. Fields that are
    /// drawn once keep the values recorded here; the others get one from `draw`, whose argument is the width in bits.
    ///
    /// # Errors
    ///
    /// Returns the first [`Conflict`]: a change that could make an ID repeat.
    pub fn with(
        &self,
        declared: &[Arc<Declaration>],
        from_unix_ms: i64,
        mut draw: impl FnMut(u32) -> u64,
    ) -> Result<Declarations, Conflict> {
        let mut all = self.clone();
        for new in declared {
            let name = new.name();
            let known = all.generators.iter().position(|known| known.name() == name);
            let mut resolved = Declaration::clone(new).without_seal();
            if let Some(at) = known {
                resolved.keep_drawn(&all.generators[at]);
            }
            resolved.draw_missing(|_, bits| draw(bits));
            match known {
                Some(at) => {
                    let recorded = &all.generators[at];
                    let change = |change| Conflict::Change { change, recorded: Arc::clone(recorded) };
                    resolved.may_replace(recorded).map_err(change)?;
                    let recorded = Arc::clone(recorded);
                    all.redeclare_since(&resolved, &recorded, from_unix_ms);
                    if resolved != *recorded {
                        all.generators[at] = Arc::new(resolved);
                    }
                }
                None if all.generators.len() == DECLARATIONS_MAX => {
                    return Err(Conflict::TooMany { name: name.to_owned() });
                }
                None => {
                    if let Some(at) = all.forgotten.iter().position(|forgotten| forgotten.name == name) {
                        // It had IDs before, of times that are not known.
                        let forgotten = all.forgotten.remove(at);
                        if !begins_past(new, from_unix_ms, &forgotten.past_id) {
                            return Err(Conflict::Forgotten { name: forgotten.name, past_id: forgotten.past_id });
                        }
                    } else if all.since.contains_key(UNNAMED) {
                        // A record without that time may lack IDs of other names too.
                        all.since.insert(name.to_owned(), from_unix_ms.saturating_sub(SINCE_MARGIN_MS));
                    }
                    all.generators.push(Arc::new(resolved));
                }
            }
        }
        Ok(all)
    }

    /// Returns these without the declaration of `name`, with a note of the largest ID that was given.
    ///
    /// # Errors
    ///
    /// Fails at `DECLARATIONS_MAX` forgotten names.
    pub fn without(&self, name: &str, past_id: &str) -> Result<Declarations, TooManyForgotten> {
        if self.forgotten.len() == DECLARATIONS_MAX {
            return Err(TooManyForgotten { first: self.forgotten[0].name.clone() });
        }
        let mut all = self.clone();
        all.generators.retain(|known| known.name() != name);
        all.since.remove(name);
        all.forgotten.push(ForgottenName { name: name.to_owned(), past_id: past_id.to_owned() });
        Ok(all)
    }

    /// Adds a declaration whose name has none yet, and drops the name from the forgotten ones.
    ///
    /// # Errors
    ///
    /// Fails at [`DECLARATIONS_MAX`] declarations.
    pub(super) fn push(&mut self, declaration: Arc<Declaration>) -> Result<(), ()> {
        if self.generators.len() == DECLARATIONS_MAX {
            return Err(());
        }
        self.forgotten.retain(|forgotten| forgotten.name != declaration.name());
        self.generators.push(declaration);
        Ok(())
    }

    /// Moves the time of a generator that is declared again. Under an earlier epoch its numbers have earlier times.
    fn redeclare_since(&mut self, new: &Declaration, old: &Declaration, from_unix_ms: i64) {
        if own_part(new) != own_part(old) {
            self.since.remove(new.name());
        }
        if let Some(since) = self.since.get_mut(new.name()) {
            let shift_ms = old.layout().epoch_unix_ms().saturating_sub(new.layout().epoch_unix_ms());
            *since = since.saturating_sub(shift_ms).min(from_unix_ms.saturating_sub(SINCE_MARGIN_MS));
        }
    }

    /// Returns these without the declaration and the forgotten entry of `name`.
    pub(super) fn without_trace(&self, name: &str) -> Declarations {
        let mut all = self.clone();
        all.generators.retain(|known| known.name() != name);
        all.forgotten.retain(|forgotten| forgotten.name != name);
        all.since.remove(name);
        all
    }

    /// Returns the lines of a record.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let generators = self.generators.iter().map(|known| format!("{GENERATOR}{}", known.to_text()));
        let forgotten =
            self.forgotten.iter().map(|ForgottenName { name, past_id }| format!("{FORGOTTEN}{name}{PAST_ID}{past_id}"));
        let since = self.since.iter().map(|(name, &unix_ms)| {
            let space = if name == UNNAMED { "" } else { " " };
            format!("{SINCE}{unix_ms} {}{space}{name}", UtcMs(unix_ms))
        });
        generators.chain(forgotten).chain(since)
    }

    /// Parses these lines of a record, the first of which is line `first_line`. The caller checks that they are in the
    /// order of [`Declarations::lines`].
    pub(super) fn parse(lines: &[String], first_line: usize) -> Result<Declarations, RecordError> {
        let mut declarations = Declarations::default();
        for (line, number) in lines.iter().zip(first_line..) {
            let wrong =
                |expected: &str| RecordError::Line { line: number, found: quoted(line), expected: expected.to_owned() };
            declarations.take(line).map_err(wrong)?;
        }
        Ok(declarations)
    }

    /// Returns the declarations in the intact lines of a damaged record. They serve a remedy, never a start: it is
    /// better to ask an operator about one line too many than to forget one.
    pub(super) fn salvaged<'a>(lines: impl Iterator<Item = &'a str>) -> Declarations {
        let mut declarations = Declarations::default();
        for line in lines {
            // Other lines are skipped.
            let _ = declarations.take(line);
        }
        // A damaged record does not prove that no ID was given.
        declarations.without_since()
    }

    /// Adds the content of a line. Returns what was expected if the line is wrong.
    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        if let Some(text) = line.strip_prefix(GENERATOR) {
            let whole = Some(text).filter(|_| line.len() <= GENERATOR_LINE_BYTES_MAX).and_then(Declaration::from_text);
            let declaration = whole.ok_or("generator with a declaration")?;
            if self.has(declaration.name()) || self.generators.len() == DECLARATIONS_MAX {
                return Err("generator with a new name");
            }
            self.generators.push(Arc::new(declaration));
            return Ok(());
        }
        if let Some(text) = line.strip_prefix(SINCE) {
            let is_short = line.len() <= SINCE_LINE_BYTES_MAX;
            let (unix_ms, name) = Some(text).filter(|_| is_short).and_then(since_of_line).ok_or("since with a time")?;
            let is_new = !self.since.contains_key(name) && (name == UNNAMED || self.find(name).is_some());
            if !is_new {
                return Err("since with the name of a generator");
            }
            self.since.insert(name.to_owned(), unix_ms);
            return Ok(());
        }
        let rest = line.strip_prefix(FORGOTTEN).ok_or("the checksum")?;
        let (name, past_id) = rest.split_once(PAST_ID).ok_or("forgotten NAME past-id ID")?;
        if line.len() > FORGOTTEN_LINE_BYTES_MAX || past_id.is_empty() || past_id.contains(' ') {
            return Err("forgotten NAME past-id ID");
        }
        if !is_name(name) || self.has(name) || self.forgotten.len() == DECLARATIONS_MAX {
            return Err("forgotten with a new name");
        }
        self.forgotten.push(ForgottenName { name: name.to_owned(), past_id: past_id.to_owned() });
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.find(name).is_some() || self.forgotten.iter().any(|forgotten| forgotten.name == name)
    }
}

/// Parses a line behind [`SINCE`]: Unix ms, the same time as text, and the name, which may be missing.
fn since_of_line(text: &str) -> Option<(i64, &str)> {
    let mut words = text.split(' ');
    let unix_ms = words.next()?.parse().ok()?;
    let time = words.next()?;
    let name = words.next();
    let is_whole = words.next().is_none() && name != Some(UNNAMED) && time == UtcMs(unix_ms).to_string();
    is_whole.then_some((unix_ms, name.unwrap_or(UNNAMED)))
}

/// Returns the values of constants and drawn fields at their places in a number, and the bits of the server-id.
fn own_part(declaration: &Declaration) -> (Number, Number) {
    let places = declaration.layout().places();
    places.fold((Number::ZERO, Number::ZERO), |(values, servers), (field, shift)| match field.role {
        Role::Constant(value) => (values | Number::from(value) << shift, servers),
        Role::Drawn => (values | Number::from(declaration.drawn_value(&field.name).unwrap_or(0)) << shift, servers),
        Role::Server => (values, servers | FieldLayout::mask(field, shift)),
        Role::Time | Role::Counter | Role::Random | Role::Noise | Role::Request => (values, servers),
    })
}

/// Whether all IDs from `unix_ms` on are larger than `past_id`, which is in the text form of this generator.
///
/// True for kinds without time, whose IDs repeat only by chance.
fn begins_past(declaration: &Declaration, unix_ms: i64, past_id: &str) -> bool {
    let layout = declaration.layout();
    if !layout.has_time() {
        return true;
    }
    // Before its epoch the generator begins at tick 0.
    let tick =
        if unix_ms <= layout.epoch_unix_ms() { Some(0) } else { layout.tick_at(i128::from(unix_ms) * 1_000_000) };
    let first = tick.and_then(|tick| layout.span(tick, tick)).map(|(first, _)| first);
    declaration.is_ordered() && declaration.read(past_id).zip(first).is_some_and(|(past, first)| first > past)
}

#[cfg(test)]
mod tests {
    use getid_core::{Epoch, no_dates};

    use super::*;

    fn declared(words: &str) -> Arc<Declaration> {
        Arc::new(Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).unwrap())
    }

    fn declarations(lines: &[&str]) -> Declarations {
        let lines: Vec<_> = lines.iter().map(|&line| line.to_owned()).collect();
        Declarations::parse(&lines, 1).unwrap()
    }

    /// The present time of these tests, 2026-11-21 in Unix ms.
    const NOW: i64 = 1_795_219_200_000;

    /// Each row: an earlier declaration, the present one, and a part of the error; empty if accepted.
    #[test]
    fn a_change_that_could_repeat_ids_is_refused() {
        let layout = "layout time:41@1ms server-id:5 place:5 counter:12 place 3";
        for (old, new, expected_text) in [
            ("twitter", "twitter", ""),
            (layout, layout, ""),
            // Harmless: IDs are larger, or belong to another server or another constant.
            (&format!("{layout} epoch 1000"), &format!("{layout} epoch 999"), ""),
            (layout, "layout time:41@1ms server-id:5 place:5 counter:12 place 4", ""),
            (layout, "layout time:40@1ms server-id:5 place:5 counter:12 place 3", ""),
            (layout, &format!("{layout} counter-start 0..9"), ""),
            ("uuid7", "uuid7", ""),
            ("js53", "js53 format base62 prefix B-", ""),
            // Harmful.
            (&format!("{layout} epoch 999"), &format!("{layout} epoch 1000"), "its epoch was 999"),
            (layout, "layout time:41@10ms server-id:5 place:5 counter:12 place 3", "its unit was 1ms and is 10ms now"),
            (layout, "layout time:41@1ms server-id:5 place:5 counter:11 place 3", "there were 22 bits below its time"),
            (
                layout,
                "layout time:41@1ms place:5 server-id:5 counter:12 place 3",
                "its field 'place' had another place",
            ),
            ("js53", "js53 format base62", "its format was"),
            ("js53 format hex", "js53", "its format was"),
            ("uuid7", "uuid6", "its kind was uuid7 and is uuid6 now"),
            ("twitter", "uuid4", "its kind was twitter and is uuid4 now"),
        ] {
            let (old, new) = (declared(&format!("g {old}")), declared(&format!("g {new}")));
            let known = Declarations { generators: vec![old], ..Declarations::default() };
            let result = known.with(&[Arc::clone(&new)], NOW, |_| 0);
            match result {
                Ok(after) => {
                    assert_eq!(expected_text, "", "{} is accepted", new.to_text());
                    assert_eq!(after.generators.len(), 1);
                }
                Err(conflict) => {
                    let conflict = conflict.to_string();
                    assert!(
                        !expected_text.is_empty() && conflict.contains(expected_text),
                        "{}: {conflict}",
                        new.to_text()
                    );
                    assert!(conflict.starts_with("generator 'g' cannot be declared so: "), "{conflict}");
                }
            }
        }
    }

    #[test]
    fn removed_declarations_stay_and_bind_a_generator_that_returns() {
        let first = Declarations::default().with(&[declared("a js53"), declared("b uuid7")], NOW, |_| 0).unwrap();
        let second = first.with(&[declared("b uuid7"), declared("c twitter")], NOW, |_| 0).unwrap();
        let names: Vec<_> = second.generators().iter().map(|known| known.name()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(matches!(second.with(&[declared("a uuid7")], NOW, |_| 0), Err(Conflict::Change { .. })));
        assert_eq!(second.with(&[declared("a js53")], NOW, |_| 0), Ok(second));
    }

    #[test]
    fn drawn_fields_keep_their_values() {
        let mut draws = 0;
        let mut draw = |_| {
            draws += 1;
            draws
        };
        let first =
            Declarations::default().with(&[declared("doc objectid"), declared("u uuid1")], NOW, &mut draw).unwrap();
        let process = first.find("doc").unwrap().drawn_value("process").unwrap();
        assert!(process > 0 && first.find("u").unwrap().drawn_value("node").is_some());
        let again = first.with(&[declared("doc objectid")], NOW, |_| panic!("its value is recorded")).unwrap();
        assert_eq!(again, first);
        // The values survive a record, too.
        let lines: Vec<_> = first.lines().collect();
        assert_eq!(Declarations::parse(&lines, 1), Ok(first));
    }

    /// Each row: the largest ID given, the declaration that gets the name, and whether it may have it.
    #[test]
    fn a_forgotten_name_begins_past_its_ids() {
        for (past_id, new, is_past) in [
            ("0", "js53", true),
            ("9007199254740991", "js53", false),
            ("1", "layout time:41@1ms counter:22 epoch 0", true),
            ("7529695071436799999", "layout time:41@1ms counter:22 epoch 0", true),
            ("7529695071436800000", "layout time:41@1ms counter:22 epoch 0", false),
            // Before its epoch the generator begins at 0.
            ("0", "layout time:41@1ms counter:22 epoch 1795219300000", false),
            // An ID in another text form cannot be compared.
            ("Zz9", "js53", false),
            ("0", "js53 format base62", false),
            ("0", "uuid7", false),
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "uuid7", true),
            ("0a7f22e2-79b0-7cc3-98c4-dc0c0c07398f", "uuid7", false),
            ("c232ab00-9414-11ec-b3c8-9f6bdeced846", "uuid1", false),
            // Random IDs repeat only by chance.
            ("0", "uuid4", true),
        ] {
            let known = declarations(&["generator other uuid7", &format!("forgotten g past-id {past_id}")]);
            let result = known.with(&[declared(&format!("g {new}"))], NOW, |_| 0);
            assert_eq!(result.is_ok(), is_past, "{past_id}, {new}");
            match result {
                Ok(after) => {
                    assert!(after.forgotten.is_empty() && after.find("g").is_some(), "the forgotten entry is removed");
                }
                Err(conflict) => assert_eq!(
                    conflict.to_string(),
                    format!(
                        "generator 'g' would not begin past {past_id}, the last ID before it was forgotten, or the two \
                         cannot be compared: IDs could be given again"
                    )
                ),
            }
        }
    }

    /// Returns declarations of a first life that begins at `NOW`.
    fn first(words: &[&str]) -> Declarations {
        let declared: Vec<_> = words.iter().map(|&words| declared(words)).collect();
        Declarations::default().with_first_life(NOW).with(&declared, NOW, |_| 0).unwrap()
    }

    #[test]
    fn the_time_of_the_first_id_is_kept_and_only_becomes_earlier() {
        let known = first(&["a twitter epoch 2000"]);
        let times = [None, Some("a"), Some("b")].map(|name| known.since(name));
        assert_eq!(times, [Some(NOW - 1000), Some(NOW - 1000), None]);
        let later = known.with(&[declared("a twitter epoch 2000"), declared("b js53")], NOW + 9000, |_| 0).unwrap();
        assert_eq!([later.since(Some("a")), later.since(Some("b"))], [Some(NOW - 1000), Some(NOW + 8000)]);
        // A clock that was wrong has left a time that is too late.
        let corrected = later.with(&[declared("b js53")], NOW, |_| 0).unwrap();
        assert_eq!(corrected.since(Some("b")), Some(NOW - 1000));
        let limited = later.since_at_most(NOW).unwrap();
        assert_eq!([None, Some("a"), Some("b")].map(|name| limited.since(name)), [Some(NOW - 1000); 3]);
        assert_eq!(limited.since_at_most(NOW), None);
        // Under an earlier epoch the same numbers have earlier times.
        let moved = known.with(&[declared("a twitter epoch 500")], NOW + 9000, |_| 0).unwrap();
        assert_eq!(moved.since(Some("a")), Some(NOW - 1000 - 1500));
        let layout = |epoch, server_bits| {
            Layout::new(Epoch::from_unix_ms(epoch).unwrap(), server_bits, 11 - server_bits, 10).unwrap()
        };
        let moved = known.clone().with_unnamed_layout(layout(700, 2), layout(100, 2));
        assert_eq!(moved.since(None), Some(NOW - 1000 - 600));
        // Another server may have given the numbers of a wider server-id.
        let widened = known.with_unnamed_layout(layout(700, 2), layout(700, 3));
        assert_eq!([None, Some("a")].map(|name| widened.since(name)), [Some(700), Some(NOW - 1000)]);
        assert_eq!(widened.with_unnamed_layout(layout(700, 3), layout(700, 2)).since(None), Some(700));
    }

    /// Each row: a declaration, the one after it, and whether the time of the first ID stays known.
    #[test]
    fn the_time_of_the_first_id_is_that_of_one_part_of_the_ids() {
        let layout = "layout time:41@1ms server-id:5 place:5 counter:12 place";
        for (old, new, is_known) in [
            (format!("{layout} 3"), format!("{layout} 3 counter-start 0..9"), true),
            (format!("{layout} 3"), format!("{layout} 3 one-server 0"), true),
            (format!("{layout} 3"), format!("{layout} 4"), false),
            ("twitter".to_owned(), "snowflake counter-start 0..9".to_owned(), true),
            ("objectid process 7".to_owned(), "objectid".to_owned(), true),
            ("objectid process 7".to_owned(), "objectid process 8".to_owned(), false),
        ] {
            let known = first(&[&format!("g {old}"), "other uuid7"]);
            let after = known.with(&[declared(&format!("g {new}"))], NOW, |_| 0).unwrap();
            assert_eq!(after.since(Some("g")).is_some(), is_known, "{new}");
            assert_eq!(after.since(Some("other")), Some(NOW - 1000));
        }
    }

    #[test]
    fn a_name_with_ids_of_unknown_times_has_no_time_of_the_first_id() {
        let known = first(&["a twitter", "b js53"]);
        let forgotten = known.without("a", "1").unwrap();
        let again = forgotten.with(&[declared("a twitter")], NOW, |_| 0).unwrap();
        assert_eq!([again.since(Some("a")), again.since(Some("b"))], [None, Some(NOW - 1000)]);
        // A record that was moved ahead by hand may lack names.
        let advanced = known.clone().without_since().with(&[declared("c js53")], NOW, |_| 0).unwrap();
        assert_eq!([None, Some("a"), Some("c")].map(|name| advanced.since(name)), [None; 3]);
        // Of two records of one server-id the earlier time counts, and an unknown one.
        let other = first(&["a twitter"]).with(&[declared("b js53")], NOW - 50, |_| 0).unwrap();
        let both = other.clone().since_at_most(NOW - 5).unwrap().with_earlier_since(&known);
        assert_eq!(
            [None, Some("a"), Some("b")].map(|name| both.since(name)),
            [NOW - 1005, NOW - 1005, NOW - 1050].map(Some)
        );
        let unknown = known.with_earlier_since(&other.without_since());
        assert_eq!([None, Some("a"), Some("b")].map(|name| unknown.since(name)), [None; 3]);
        let salvaged =
            Declarations::salvaged(first(&["a twitter"]).lines().collect::<Vec<_>>().iter().map(|line| &**line));
        assert_eq!((salvaged.generators().len(), salvaged.since(None), salvaged.since(Some("a"))), (1, None, None));
    }

    #[test]
    fn times_of_first_ids_are_lines() {
        let known = first(&["a twitter"]);
        let lines: Vec<_> = known.lines().collect();
        let time = "since 1795219199000 2026-11-20T23:59:59.000Z";
        assert_eq!(lines[1..], [time.to_owned(), format!("{time} a")]);
        assert_eq!(Declarations::parse(&lines, 1), Ok(known));
        for (line, expected) in [
            ("since", "the checksum"),
            ("since x", "since with a time"),
            ("since 1795219199000", "since with a time"),
            ("since 1795219199000 2026-11-20T23:59:59.001Z", "since with a time"),
            ("since 1795219199000 2026-11-20T23:59:59.000Z ", "since with a time"),
            ("since 1795219199000 2026-11-20T23:59:59.000Z a b", "since with a time"),
            ("since 1795219199000 2026-11-20T23:59:59.000Z b", "since with the name of a generator"),
            ("since 1795219199000 2026-11-20T23:59:59.000Z a", "since with the name of a generator"),
        ] {
            let with: Vec<_> = lines.iter().cloned().chain([line.to_owned()]).collect();
            let error = Declarations::parse(&with, 1).unwrap_err();
            assert_eq!(error, RecordError::Line { line: 4, found: quoted(line), expected: expected.to_owned() });
        }
        // The longest name, and the longest text of a time.
        let name = "n".repeat(getid_core::server::NAME_BYTES_MAX);
        let mut long = first(&[&format!("{name} twitter")]);
        long.since.values_mut().for_each(|since| *since = i64::MIN);
        let lines: Vec<_> = long.lines().collect();
        assert!(lines[1..].iter().all(|line| line.len() <= SINCE_LINE_BYTES_MAX), "{lines:?}");
        assert_eq!(Declarations::parse(&lines, 1), Ok(long));
    }

    #[test]
    fn declarations_and_forgotten_names_have_a_maximum() {
        let many: Vec<_> = (0..DECLARATIONS_MAX).map(|n| declared(&format!("g{n} uuid7"))).collect();
        let full = Declarations::default().with(&many, NOW, |_| 0).unwrap();
        assert_eq!(full.with(&many, NOW, |_| 0), Ok(full.clone()));
        let error = full.with(&[declared("more uuid7")], NOW, |_| 0).unwrap_err().to_string();
        assert_eq!(
            error,
            "generator 'more' does not fit: the record has its maximum of 1000 declarations, including those of removed \
             generators"
        );
        let mut forgotten = full;
        for n in 0..DECLARATIONS_MAX {
            forgotten = forgotten.without(&format!("g{n}"), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f").unwrap();
        }
        let last = forgotten.with(&[declared("last uuid7")], NOW, |_| 0).unwrap();
        assert_eq!(last.without("last", "0"), Err(TooManyForgotten { first: "g0".to_owned() }));
        assert_eq!(last.with(&many, NOW, |_| 0).unwrap_err(), Conflict::TooMany { name: "g999".to_owned() });
    }
}
