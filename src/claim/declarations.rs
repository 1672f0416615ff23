//! What a record says of named generators: how each one was declared, and which names were let go.
//!
//! A named generator gives no ID twice because all its lives have one position, the server's. That holds only while its
//! numbers mean the same: with a later epoch or another width, IDs of an earlier life would come again. So a record
//! keeps the declaration of every generator that may have given an ID, also of those that the configuration names no
//! longer, and whatever is declared is compared with it.
//!
//! ```text
//! generator tweets twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657
//! forgotten invoices past-id 144182328657192148
//! ```
//!
//! Pure.

use std::sync::Arc;

use getid_core::{Change, Declaration, is_name};

use super::envelope::{DECLARATIONS_MAX, FORGOTTEN_LINE_BYTES_MAX, GENERATOR_LINE_BYTES_MAX, RecordError, quoted};

const GENERATOR: &str = "generator ";
const FORGOTTEN: &str = "forgotten ";
const PAST_ID: &str = " past-id ";

/// The declarations of one server, in the order in which they came, and the names that were forgotten.
///
/// Each name is there once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declarations {
    generators: Vec<Arc<Declaration>>,
    forgotten: Vec<Forgotten>,
}

/// A name that an operator has let go: a generator that gets it again must begin past this ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The name.
    pub name: String,
    /// The largest ID that was given, as it was written.
    pub past_id: String,
}

/// Why a declaration must not be used beside what a record says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// IDs could come again.
    #[error("generator '{}' can't be declared so: {change}, and its IDs could be given again", recorded.name())]
    Change {
        /// What changes.
        change: Change,
        /// In the record.
        recorded: Arc<Declaration>,
    },
    /// It would not begin past the IDs that were given under its name.
    #[error(
        "generator '{name}' would not begin past {past_id}, the ID that it was forgotten with, or not in a way that can be \
         compared: IDs could be given again"
    )]
    Forgotten {
        /// The generator.
        name: String,
        /// In the record.
        past_id: String,
    },
    /// Its fields have no room for the server-id.
    #[error("generator '{name}' has no room for server-id {server_id}")]
    ServerId {
        /// The generator.
        name: String,
        /// The server-id.
        server_id: u32,
    },
    /// There are too many.
    #[error(
        "generator '{name}' is one too many: the record has {DECLARATIONS_MAX} declarations, those of generators included \
         that were removed"
    )]
    TooMany {
        /// The first that has no place.
        name: String,
    },
}

impl Declarations {
    /// Whether there are none: then a record says nothing of them.
    pub fn is_empty(&self) -> bool {
        self.generators.is_empty() && self.forgotten.is_empty()
    }

    /// Those that are not forgotten, in the order in which they came.
    pub fn generators(&self) -> &[Arc<Declaration>] {
        &self.generators
    }

    /// The names that were let go.
    pub fn forgotten(&self) -> &[Forgotten] {
        &self.forgotten
    }

    /// The declaration of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Declaration>> {
        self.generators.iter().find(|known| known.name() == name)
    }

    /// These, with `declared` in the place of those of the same names, or behind them. What `declared` does not name
    /// stays.
    ///
    /// No new generator gives an ID of a time before `from_unix_ms`. Fields that are drawn once keep the values that
    /// are known here; the others get one from `draw`, which is told their width.
    ///
    /// # Errors
    ///
    /// The first [`Conflict`]: what could make an ID repeat.
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
            let mut resolved = Declaration::clone(new);
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

    /// These without `name`, with a note of the largest ID that was given. `None`: there is no such declaration.
    #[must_use]
    pub fn without(&self, name: &str, past_id: &str) -> Option<Declarations> {
        let at = self.generators.iter().position(|known| known.name() == name)?;
        let mut all = self.clone();
        all.generators.remove(at);
        all.forgotten.push(Forgotten { name: name.to_owned(), past_id: past_id.to_owned() });
        Some(all)
    }

    /// The lines of a record.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let generators = self.generators.iter().map(|known| format!("{GENERATOR}{}", known.to_text()));
        let forgotten =
            self.forgotten.iter().map(|Forgotten { name, past_id }| format!("{FORGOTTEN}{name}{PAST_ID}{past_id}"));
        generators.chain(forgotten)
    }

    /// What these lines of a record say, the first of them being line `first_line`. That they are in the order in which
    /// [`Declarations::lines`] writes them is for the caller to compare.
    pub(super) fn parse(lines: &[String], first_line: usize) -> Result<Declarations, RecordError> {
        let mut declarations = Declarations::default();
        for (line, number) in lines.iter().zip(first_line..) {
            let wrong =
                |expected: &str| RecordError::Line { line: number, found: quoted(line), expected: expected.to_owned() };
            declarations.take(line).map_err(wrong)?;
        }
        Ok(declarations)
    }

    /// The declarations in the lines of a damaged record that are whole. For a remedy, never for a start: it is better
    /// to ask an operator about a line too many than to forget one.
    pub(super) fn salvaged<'a>(lines: impl Iterator<Item = &'a str>) -> Declarations {
        let mut declarations = Declarations::default();
        for line in lines {
            // What is no such line is nothing to complain of.
            let _ = declarations.take(line);
        }
        declarations
    }

    /// Adds what a line says, or says what it should be.
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
        self.forgotten.push(Forgotten { name: name.to_owned(), past_id: past_id.to_owned() });
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.find(name).is_some() || self.forgotten.iter().any(|forgotten| forgotten.name == name)
    }
}

/// Whether all IDs from `unix_ms` on are larger than `past_id`, which is written as this generator writes its own.
///
/// Those of a kind without time repeat others by chance alone.
fn begins_past(declaration: &Declaration, unix_ms: i64, past_id: &str) -> bool {
    let layout = declaration.layout();
    if !layout.has_time() {
        return true;
    }
    // Before its epoch it begins at it.
    let tick =
        if unix_ms <= layout.epoch_unix_ms() { Some(0) } else { layout.tick_at(i128::from(unix_ms) * 1_000_000) };
    let first = tick.and_then(|tick| layout.span(tick, tick)).map(|(first, _)| first);
    declaration.is_ordered() && declaration.read(past_id).zip(first).is_some_and(|(past, first)| first > past)
}
