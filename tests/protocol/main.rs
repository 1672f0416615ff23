//! The protocol: decoder and encoder, sessions, users, compared with a real Redis if there is one.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test is one story from beginning to end")]

mod access;
mod acl;
mod acl_live;
mod allocations;
mod benchmark_live;
mod errors_live;
mod fuzz_corpus;
mod keys;
mod named;
mod numbers;
#[path = "../../fuzz/properties.rs"]
mod properties;
mod resp_decode;
mod resp_encode;
mod sequences;
mod session;
mod shell;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod table_rows;
mod transcripts_live;

/// Returns the number of cases of a property: `cases`, or `PROPTEST_CASES` if that is set.
fn cases(cases: u32) -> proptest::prelude::ProptestConfig {
    let default = proptest::prelude::ProptestConfig::default();
    let is_set = std::env::var_os("PROPTEST_CASES").is_some();
    proptest::prelude::ProptestConfig { cases: if is_set { default.cases } else { cases }, ..default }
}
