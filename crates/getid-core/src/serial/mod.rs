//! Serial numbers: `INV20261122-000042`, a template over a counter that begins again with each day, month or year.
//!
//! The counter of each period is a sequence of its own (`name@20261122`, see [`Key`](crate::Key)), so no counter starts
//! again, whatever clocks say. Which period it is, and what the template shows, comes from one civil time, a [`Stamp`],
//! which the caller reads from its clock in the declared zone.
//!
//! Not here: zones and clocks.
//!
//! Invariant: two different values, or two different periods, never have the same text: a template shows its period in
//! full, and all of its fields have fixed widths but for a counter that may grow, which stands alone.

mod check_digit;
mod counter;
mod template;

pub use check_digit::CheckDigit;
pub use counter::{
    COUNTER_KINDS, CounterDeclaration, CounterError, CounterKind, CounterReading, NamedCounters, Serial, ZoneCheck,
};
pub use template::{Reset, Stamp, TEMPLATE_BYTES_MAX, Template, TemplateError};
