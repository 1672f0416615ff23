//! What of a declaration may change between two lives: nothing by which an ID could be given again.

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::value::Declaration;
use crate::checks::{Fault, planted};
use crate::fields::Role;
use crate::format::{Format, Radix};
use crate::unit::Unit;

impl Declaration {
    /// Whether this declaration may take the place of an older one of the same name, so that no ID is given again.
    ///
    /// An earlier epoch and other values of constants are harmless: all new IDs are larger, or differ where the old
    /// ones were equal. So are other widths of counter, random and noise, as long as everything below the time is as
    /// wide as before and constants stay in their places.
    ///
    /// # Errors
    ///
    /// What could make an ID repeat.
    pub fn may_replace(&self, old: &Declaration) -> Result<(), Change> {
        if self.kind.shape != old.kind.shape || self.layout.has_time() != old.layout.has_time() {
            return Err(Change::Kind { old: old.kind.word, new: self.kind.word });
        }
        let below = |declaration: &Declaration| {
            declaration.layout.shift_of(Role::Time).unwrap_or_else(|| declaration.layout.bits())
        };
        if below(self) != below(old) {
            return Err(Change::Width { old: below(old), new: below(self) });
        }
        if self.layout.unit() != old.layout.unit() {
            return Err(Change::Unit { old: old.layout.unit(), new: self.layout.unit() });
        }
        let (old_ms, new_ms) = (old.layout.epoch_unix_ms(), self.layout.epoch_unix_ms());
        if new_ms > old_ms && !planted(Fault::LaterEpochAccepted) {
            return Err(Change::Epoch { old_unix_ms: old_ms, new_unix_ms: new_ms });
        }
        let fixed = |declaration: &Declaration| -> Vec<(String, u32, u32)> {
            let is_fixed = |role| matches!(role, Role::Constant(_) | Role::Server | Role::Drawn);
            let below = below(declaration);
            let places = declaration.layout.places().filter(|&(field, shift)| is_fixed(field.role) && shift < below);
            places.map(|(field, shift)| (field.name.clone(), shift, field.bits)).collect()
        };
        let (was, is) = (fixed(old), fixed(self));
        if let Some(moved) =
            was.iter().find(|place| !is.contains(place)).or(is.iter().find(|place| !was.contains(place)))
        {
            return Err(Change::Place { field: moved.0.clone() });
        }
        if self.format != old.format && !is_apart(self.format.as_ref(), old.format.as_ref()) {
            let text = |format: &Option<Format>| format.as_ref().map_or("none".to_owned(), ToString::to_string);
            return Err(Change::Format { old: text(&old.format), new: text(&self.format) });
        }
        Ok(())
    }
}

/// Whether no text of the new format can be one of the old format: it has a prefix that the old one has not.
fn is_apart(new: Option<&Format>, old: Option<&Format>) -> bool {
    let integer = Format { radix: Radix::Decimal, pad: 1, prefix: String::new(), grows: true };
    let old = old.unwrap_or(&integer);
    let Some(new) = new.filter(|new| !new.prefix.is_empty() && new.prefix != old.prefix) else { return false };
    let (shorter, longer, digits) = if new.prefix.len() < old.prefix.len() {
        (&new.prefix, &old.prefix, new.radix)
    } else {
        (&old.prefix, &new.prefix, old.radix)
    };
    // Where one begins with the other, what follows must have something that is no digit there.
    longer.strip_prefix(shorter.as_str()).is_none_or(|rest| {
        let is_digit = |byte: &u8| digits.alphabet().contains(byte);
        !rest.bytes().all(|byte| is_digit(&byte)) || (!new.grows && !old.grows && lengths_differ(new, old))
    })
}

fn lengths_differ(a: &Format, b: &Format) -> bool {
    a.prefix.len() + a.pad as usize != b.prefix.len() + b.pad as usize
}

/// What a new declaration of a name changes that could make an ID repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sentence of each says it")]
pub enum Change {
    Kind { old: &'static str, new: &'static str },
    Width { old: u32, new: u32 },
    Unit { old: Unit, new: Unit },
    Epoch { old_unix_ms: i64, new_unix_ms: i64 },
    Place { field: String },
    Format { old: String, new: String },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Kind { old, new } => write!(f, "its kind was {old} and is {new} now"),
            Change::Width { old, new } => write!(f, "there were {old} bits below its time and are {new} now"),
            Change::Unit { old, new } => write!(f, "its unit was {old} and is {new} now"),
            Change::Epoch { old_unix_ms, new_unix_ms } => {
                write!(f, "its epoch was {old_unix_ms} (Unix ms) and is {new_unix_ms} now, which is later")
            }
            Change::Place { field } => write!(f, "its field '{field}' has another place or width than before"),
            Change::Format { old, new } => {
                write!(f, "its format was {old} and is {new} now, without a prefix of its own that tells them apart")
            }
        }
    }
}
