//! Serial numbers: `INV20261122-000042`, a template over a counter that begins again with each period: a day, a fiscal
//! year.
//!
//! The counter of each period is a separate sequence (`name@D20261122`, see [`Key`](crate::sequence::Key)), so no
//! counter repeats values, whatever the clocks do. The period and the date in the text come from one civil time, a
//! [`CivilTime`], which the caller reads from its clock in the declared zone.
//!
//! A serial with series has such counters for each key. The module has no zones and no clocks.
//!
//! Invariant: two different values, periods or keys never have the same text, unless the declaration makes texts
//! unique per key. A template shows its period in full, and its fields have fixed widths, except one counter that
//! may grow and one key. Between these two is a character that neither another field nor the counter has.

mod calendar;
mod check_digit;
mod counter;
mod date_field;
mod reset;
mod template;

pub use calendar::CivilDay;
pub use check_digit::CheckDigit;
pub use counter::{
    COUNTER_KINDS, CounterDeclaration, CounterError, CounterKind, CounterReading, GAPLESS, NamedCounters,
    ReleasedNumbers, Serial, SeriesRules, UnknownZone, ZoneCheck, counter_doc,
};
pub use date_field::FiscalYears;
pub use reset::{CivilTime, FiscalStart, Reset};
pub use template::{Template, TemplateError};
