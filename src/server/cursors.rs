//! What `SCAN` was answered: a cursor is a number for every client there is, and stands for the name to go on behind.
//!
//! Cursors are kept for all clients together, so many of them, and the oldest go first: then `SCAN` is refused, rather
//! than going on somewhere else. They have 53 bits, because some libraries read them as doubles.
//!
//! Invariant: `order` has each cursor of `names` once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::text::name_hash::hash_of;

/// Cursors that are kept: half a megabyte of names at most.
const KEPT: usize = 4096;

/// Of a cursor.
const BITS: u32 = 53;

/// The cursors that were given.
#[derive(Debug, Default)]
pub(super) struct Cursors(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    names: HashMap<u64, Box<str>>,
    order: VecDeque<u64>,
}

impl Cursors {
    /// The cursor that goes on behind this name; the same one each time, and never 0.
    pub(super) fn of(&self, name: &str) -> u64 {
        let cursor = (hash_of(name.as_bytes()) >> (u64::BITS - BITS)).max(1);
        let Given { names, order } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.insert(cursor, name.into()).is_none() {
            order.push_back(cursor);
            if order.len() > KEPT
                && let Some(oldest) = order.pop_front()
            {
                names.remove(&oldest);
            }
        }
        cursor
    }

    /// The name that a cursor goes on behind, empty for 0; `None`: it was not given, or is forgotten.
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
    fn a_cursor_stands_for_a_name_until_many_others_were_given() {
        let cursors = Cursors::default();
        let first = cursors.of("orders");
        assert_eq!((cursors.of("orders"), cursors.name_of(first).as_deref()), (first, Some("orders")));
        assert_eq!((cursors.name_of(0).as_deref(), cursors.name_of(first ^ 1)), (Some(""), None));
        let others: Vec<u64> = (0..KEPT).map(|number| cursors.of(&format!("name:{number}"))).collect();
        assert!(others.iter().all(|&cursor| (1..1 << BITS).contains(&cursor)));
        assert_eq!(cursors.name_of(first), None);
        assert_eq!(cursors.name_of(others[KEPT - 1]), Some(format!("name:{}", KEPT - 1)));
        assert_eq!(cursors.0.lock().unwrap().names.len(), KEPT);
    }
}
