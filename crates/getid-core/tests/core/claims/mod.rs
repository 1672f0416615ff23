//! Claims: each rule separately, and an exhaustive search of the states of a few servers with one claim.

mod model;
mod rules;
mod world;
