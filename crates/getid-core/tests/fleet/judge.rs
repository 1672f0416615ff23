//! Checks of the promises that no fleet may break.

use std::collections::BTreeMap;

use getid_core::Reservation;

/// All slots that were given with one server-id.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// First to last slot.
    given: BTreeMap<u64, u64>,
    pub(crate) ids: u64,
    /// Number of draws whose IDs came late: smaller than earlier ones.
    pub(crate) late: u64,
}

impl Judge {
    /// # Errors
    ///
    /// Fails if an ID was given before; or, with `in_order`, if a larger one was.
    pub(crate) fn judge(&mut self, drawn: Reservation, in_order: bool) -> Result<(), String> {
        let (first, last) = (drawn.first.0, drawn.first.0 + u64::from(drawn.len) - 1);
        self.ids += u64::from(drawn.len);
        if let Some((&before, &before_last)) = self.given.range(..=last).next_back()
            && before_last >= first
        {
            return Err(format!("slots {first} to {last} are given again: {before} to {before_last} were before"));
        }
        let highest = self.given.last_key_value().map_or(0, |(_, &last)| last);
        if highest > first {
            self.late += 1;
            if in_order {
                return Err(format!("slot {first} comes late: {highest} was given before"));
            }
        }
        // Adjacent slots become one range.
        match self.given.range_mut(..first).next_back() {
            Some((_, end)) if *end + 1 == first => *end = last,
            _ => {
                self.given.insert(first, last);
            }
        }
        Ok(())
    }
}
