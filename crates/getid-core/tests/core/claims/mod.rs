//! Claims: the rules one by one.

mod rules;
