//! The cursors of `SCAN`, and those of `SERIES LIST` that must not reveal a key. In every client library a cursor of
//! `SCAN` is a number; here it maps to the name after which to continue. It is a hash with a random seed, so a client
//! cannot compute the number of a name.
//!
//! Cursors are kept for all clients together, up to a maximum, and the oldest are dropped first: then `SCAN` is refused
//! instead of continuing elsewhere. They have 53 bits, because some libraries read them as doubles.
//!
//! Invariant: `order` has each cursor of `names` once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use getid_text::name_hash::hash_of;

/// Maximum number of cursors kept: at most half a megabyte of names.
const CURSORS_MAX: usize = 4096;

/// Number of bits of a cursor.
const BITS: u32 = 53;

/// The cursors in use.
#[derive(Debug, Default)]
pub(super) struct Cursors(Mutex<CursorTable>);

#[derive(Debug, Default)]
struct CursorTable {
    names: HashMap<u64, Box<str>>,
    order: VecDeque<u64>,
}

impl Cursors {
    /// Returns the cursor that continues after this name; the same one each time, and never 0.
    pub(super) fn of(&self, name: &str) -> u64 {
        let cursor = (hash_of(name.as_bytes()) >> (u64::BITS - BITS)).max(1);
        let CursorTable { names, order } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.insert(cursor, name.into()).is_none() {
            order.push_back(cursor);
            if order.len() > CURSORS_MAX
                && let Some(oldest) = order.pop_front()
            {
                names.remove(&oldest);
            }
        }
        cursor
    }

    /// Returns the name after which a cursor continues, empty for 0; `None`: it was not given, or is dropped.
    pub(super) fn name_of(&self, cursor: u64) -> Option<String> {
        if cursor == 0 {
            return Some(String::new());
        }
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.names.get(&cursor).map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_maps_to_a_name_until_many_others_were_given() {
        let cursors = Cursors::default();
        let first = cursors.of("orders");
        assert_eq!((cursors.of("orders"), cursors.name_of(first).as_deref()), (first, Some("orders")));
        assert_eq!((cursors.name_of(0).as_deref(), cursors.name_of(first ^ 1)), (Some(""), None));
        let others: Vec<u64> = (0..CURSORS_MAX).map(|number| cursors.of(&format!("name:{number}"))).collect();
        assert!(others.iter().all(|&cursor| (1..1 << BITS).contains(&cursor)));
        assert_eq!(cursors.name_of(first), None);
        assert_eq!(cursors.name_of(others[CURSORS_MAX - 1]), Some(format!("name:{}", CURSORS_MAX - 1)));
        assert_eq!(cursors.0.lock().unwrap().names.len(), CURSORS_MAX);
    }
}
