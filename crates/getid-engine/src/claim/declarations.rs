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
//! ```
//!
//! Pure.

use std::sync::Arc;

use getid_core::Declaration;
use getid_core::server::{Change, is_name};

use super::envelope::{DECLARATIONS_MAX, FORGOTTEN_LINE_BYTES_MAX, GENERATOR_LINE_BYTES_MAX, RecordError, quoted};

const GENERATOR: &str = "generator ";
const FORGOTTEN: &str = "forgotten ";
const PAST_ID: &str = " past-id ";

/// The declarations of one server, in the order in which they were added, and the forgotten names.
///
/// Each name occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declarations {
    generators: Vec<Arc<Declaration>>,
    forgotten: Vec<ForgottenName>,
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
    /// Returns true if there are neither declarations nor forgotten names. Such a record has no lines about generators.
    pub fn is_empty(&self) -> bool {
        self.generators.is_empty() && self.forgotten.is_empty()
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
    /// No new generator gives an ID of a time before `from_unix_ms`. Fields that are drawn once keep the values
    /// recorded here; the others get one from `draw`, whose argument is the width in bits.
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
                    if resolved != **recorded {
                        all.generators[at] = Arc::new(resolved);
                    }
                }
                None if all.generators.len() == DECLARATIONS_MAX => {
                    return Err(Conflict::TooMany { name: name.to_owned() });
                }
                None => {
                    if let Some(at) = all.forgotten.iter().position(|forgotten| forgotten.name == name) {
                        let forgotten = all.forgotten.remove(at);
                        if !begins_past(new, from_unix_ms, &forgotten.past_id) {
                            return Err(Conflict::Forgotten { name: forgotten.name, past_id: forgotten.past_id });
                        }
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

    /// Returns these without the declaration and the forgotten entry of `name`.
    pub(super) fn without_trace(&self, name: &str) -> Declarations {
        let mut all = self.clone();
        all.generators.retain(|known| known.name() != name);
        all.forgotten.retain(|forgotten| forgotten.name != name);
        all
    }

    /// Returns the lines of a record.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let generators = self.generators.iter().map(|known| format!("{GENERATOR}{}", known.to_text()));
        let forgotten =
            self.forgotten.iter().map(|ForgottenName { name, past_id }| format!("{FORGOTTEN}{name}{PAST_ID}{past_id}"));
        generators.chain(forgotten)
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
        declarations
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
    use getid_core::no_dates;

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
            let known = Declarations { generators: vec![old], forgotten: Vec::new() };
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
