//! Claims: the rules one by one, and an exhaustive search of what a few servers with one claim may come to.

mod model;
mod rules;
mod world;
