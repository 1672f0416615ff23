//! The changes that a declaration may have between two lives: none by which an ID could repeat.
//!
//! Numbers of one server never repeat as long as they grow with time. Every life begins behind the one before, so the
//! bits below the time may have any value, if their number stays the same. Other refusals protect the other servers,
//! which are changed one after another and must differ all the while. And they protect texts, whose order is not that
//! of numbers of another format.
//!
//! All rules hold over any number of changes. A comparison with the previous declaration covers all earlier ones,
//! except for formats: those are kept ([`Declaration::keep_drawn`]).

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use super::value::Declaration;
use crate::checks::{Fault, planted};
use crate::fields::{Field, Role};
use crate::format::Format;
use crate::number::{Number, low_ones};
use crate::radix::Radix;
use crate::unit::Unit;

/// Largest number of former formats that are kept beside the one in use.
const FORMER_MAX: usize = 16;

impl Declaration {
    /// Checks that this declaration may replace an older one of the same name, so that no ID repeats.
    ///
    /// An earlier epoch and other values of constants are harmless: all new IDs are larger. Other widths of time,
    /// counter, random and noise, other request fields, and other names of fields are harmless too. But everything
    /// below the time must keep its width, and server-id, drawn values and constants must keep their places. A format
    /// may change with a prefix that distinguishes its texts from all before, or back to an earlier format.
    ///
    /// The prefix of a text kind may change at any time. Behind it are texts of one width, which never repeat. IDs of a
    /// kind without time are unique by chance alone, which no change makes smaller than the least that a declaration
    /// may have.
    ///
    /// # Errors
    ///
    /// Fails with the change by which an ID could repeat.
    pub fn may_replace(&self, old: &Declaration) -> Result<(), Change> {
        if self.kind.shape != old.kind.shape || self.layout.has_time() != old.layout.has_time() {
            return Err(Change::Kind { old: old.kind.word, new: self.kind.word });
        }
        if !self.layout.has_time() {
            return Ok(());
        }
        if self.bits_below_time() != old.bits_below_time() {
            return Err(Change::Width { old: old.bits_below_time(), new: self.bits_below_time() });
        }
        if self.layout.unit() != old.layout.unit() {
            return Err(Change::Unit { old: old.layout.unit(), new: self.layout.unit() });
        }
        let (old_ms, new_ms) = (old.layout.epoch_unix_ms(), self.layout.epoch_unix_ms());
        if new_ms > old_ms && !planted(Fault::LaterEpochAccepted) {
            return Err(Change::Epoch { old_unix_ms: old_ms, new_unix_ms: new_ms });
        }
        if let Some(field) = self.moved_since(old) {
            return Err(Change::Place { field });
        }
        if let (Some(was), Some(is)) = (old.one_server, self.one_server)
            && was != is
            && !self.is_server_in_each_id()
        {
            return Err(Change::OneServer { old: was, new: is });
        }
        if !self.is_apart_from(old) {
            return Err(Change::Format { old: old.format_text(), new: self.format_text() });
        }
        if self.former_behind(old).len() > FORMER_MAX {
            return Err(Change::Formats);
        }
        Ok(())
    }

    fn bits_below_time(&self) -> u32 {
        self.layout.shift_of(Role::Time).unwrap_or_else(|| self.layout.bits())
    }

    /// Returns the fields below the time that are equal in all IDs of a server, each with the number of bits below it.
    fn fixed(&self) -> Vec<(&Field, u32)> {
        let is_fixed = |role| matches!(role, Role::Constant(_) | Role::Server | Role::Drawn);
        let below = self.bits_below_time();
        self.layout.places().filter(|&(field, shift)| is_fixed(field.role) && shift < below).collect()
    }

    /// Returns the places of the server-id's bits, the highest first.
    fn server_places(&self) -> Vec<u32> {
        let servers = self.fixed().into_iter().filter(|(field, _)| field.role == Role::Server);
        servers.flat_map(|(field, shift)| (shift..shift + field.bits).rev()).collect()
    }

    /// Returns true if two servers with this declaration never give the same ID. Either the ID has the server-id, or
    /// drawn values differ by chance and are not set by hand; a record can't show the latter for drawn fields.
    fn is_server_in_each_id(&self) -> bool {
        let is_drawn = self.layout.fields().iter().any(|field| field.role == Role::Drawn);
        !self.server_places().is_empty() || (!self.is_number_in_time() && !is_drawn)
    }

    /// Returns a field that has another place than in `old`, or that distinguishes servers in one of them only.
    fn moved_since(&self, old: &Declaration) -> Option<String> {
        let (was, is) = (old.fixed(), self.fixed());
        let mask = |fields: &[(&Field, u32)]| {
            fields.iter().fold(Number::ZERO, |mask, (field, shift)| mask | low_ones(field.bits) << *shift)
        };
        // A part of the server-id may have another name, or be split into two fields.
        let is_moved = |&(new, shift): &(&Field, u32)| {
            let is_same = |&&(old, _): &&(&Field, u32)| old.name == new.name;
            let both_servers = |old: &Field| old.role == Role::Server && new.role == Role::Server;
            was.iter()
                .find(is_same)
                .is_some_and(|&(old, place)| !both_servers(old) && (place, old.bits) != (shift, new.bits))
        };
        let is_alone =
            |mask: Number| move |&&(field, shift): &&(&Field, u32)| (low_ones(field.bits) << shift) & !mask != 0;
        let moved = is.iter().find(|place| is_moved(place));
        let moved =
            moved.or_else(|| was.iter().find(is_alone(mask(&is)))).or_else(|| is.iter().find(is_alone(mask(&was))));
        let servers = || {
            let changed = self.server_places() != old.server_places();
            let is_server = |&&(field, _): &&(&Field, u32)| field.role == Role::Server;
            was.iter().chain(&is).find(is_server).filter(|_| changed)
        };
        moved.or_else(servers).map(|(field, _)| field.name.clone())
    }

    /// Returns the format of its IDs, for integers too.
    fn written(&self) -> Format {
        self.format.clone().unwrap_or(Format { radix: Radix::Decimal, pad: 1, prefix: String::new(), grows: true })
    }

    fn format_text(&self) -> String {
        self.format.as_ref().map_or_else(|| "none".to_string(), Format::to_string)
    }

    /// Returns true if no text of this format can equal an earlier one: the format is the same, or its prefix is new.
    fn is_apart_from(&self, old: &Declaration) -> bool {
        let is = self.written();
        let mut before: Vec<_> = old.former.iter().chain([&old.written()]).cloned().collect();
        let count = before.len();
        before.retain(|was| !differs_in_overflow_alone(&is, was));
        let is_known = before.len() < count;
        (is_known || !is.prefix.is_empty()) && before.iter().all(|was| texts_differ(&is, was))
    }

    /// Returns the formats to keep when this declaration replaces `old`.
    pub(super) fn former_behind(&self, old: &Declaration) -> Vec<Format> {
        if !self.layout.has_time() {
            return Vec::new();
        }
        let is = self.written();
        let mut former = old.former.clone();
        former.push(old.written());
        // A format that grows has texts which the same format without growth has not.
        former.retain(|was| !differs_in_overflow_alone(&is, was) || (was.grows && !is.grows));
        let mut kept: Vec<Format> = Vec::new();
        for format in former {
            if !kept.contains(&format) {
                kept.push(format);
            }
        }
        kept
    }
}

/// Returns true if equal numbers have equal texts in both, where they have any.
fn differs_in_overflow_alone(a: &Format, b: &Format) -> bool {
    (a.radix, a.pad, &a.prefix) == (b.radix, b.pad, &b.prefix)
}

/// Returns true if no text of one can be a text of the other, by their prefixes.
fn texts_differ(a: &Format, b: &Format) -> bool {
    let (short, long) = if a.prefix.len() <= b.prefix.len() { (a, b) } else { (b, a) };
    let Some(rest) = long.prefix.strip_prefix(short.prefix.as_str()) else { return true };
    // If one prefix begins with the other, the rest must contain a character that is no digit there.
    let have_equal_lengths = a.grows || b.grows || a.prefix.len() + a.pad as usize == b.prefix.len() + b.pad as usize;
    !rest.is_empty() && (!rest.bytes().all(|byte| short.radix.alphabet().contains(&byte)) || !have_equal_lengths)
}

/// A change between two declarations of a name by which an ID could repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each describes it")]
pub enum Change {
    Kind { old: &'static str, new: &'static str },
    Width { old: u32, new: u32 },
    Unit { old: Unit, new: Unit },
    Epoch { old_unix_ms: i64, new_unix_ms: i64 },
    Place { field: String },
    OneServer { old: u32, new: u32 },
    Format { old: String, new: String },
    Formats,
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
            Change::Place { field } => {
                write!(f, "its field '{field}' had another place, width or source of its value before")
            }
            Change::OneServer { old, new } => {
                write!(
                    f,
                    "it belonged to server-id {old} and belongs to server-id {new} now, and its IDs do not show whose they are"
                )
            }
            Change::Format { old, new } => {
                write!(f, "its format was {old} and is {new} now, without a prefix of its own that distinguishes them")
            }
            Change::Formats => write!(f, "its format was another one {FORMER_MAX} times before"),
        }
    }
}
