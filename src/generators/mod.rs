//! What gives IDs. The time-ordered generator is the one kind so far.

pub mod time;
