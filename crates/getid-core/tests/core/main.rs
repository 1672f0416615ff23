//! Tests of the pure core: layouts, the reference clock, the mint. None needs a file, a socket or the clock.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod advice;
mod beats;
mod changes;
mod claims;
mod clock;
mod declarations;
mod draw_orders;
mod field_layouts;
mod fork_model;
mod instances;
mod lanes;
mod layout;
mod ledger;
mod line_lives;
mod lines;
mod mint;
mod random;
mod request_keys;
mod sequence;
mod sequences;
mod serial;
mod sqids;
mod support;
mod texts;
mod vectors;
mod workers;
