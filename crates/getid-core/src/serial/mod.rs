//! Serial numbers: `INV20261122-000042`, a template over a counter that begins again with each day, month or year.
//!
//! The counter of each period is a separate sequence (`name@20261122`, see [`Key`](crate::sequence::Key)), so no
//! counter repeats values, whatever the clocks do. The period and the date in the text come from one civil time, a
//! [`CivilTime`], which the caller reads from its clock in the declared zone.
//!
//! The module has no zones and no clocks.
//!
//! Invariant: two different values, or two different periods, never have the same text. A template shows its period in
//! full, and all of its fields have fixed widths, except one counter that may grow.

mod check_digit;
mod counter;
mod template;

pub use check_digit::CheckDigit;
pub use counter::{
    COUNTER_KINDS, CounterDeclaration, CounterError, CounterKind, CounterReading, GAPLESS, NamedCounters,
    ReleasedNumbers, Serial, UnknownZone, ZoneCheck, counter_doc,
};
pub use template::{CivilTime, Reset, Template, TemplateError};
