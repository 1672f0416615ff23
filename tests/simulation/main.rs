//! A server's lives, simulated: the real issuer and keeper under a paused runtime, with a clock that steps, drifts and
//! freezes and a disk that tears, stalls and fails.
//!
//! `stories` runs lives from seeds; `scenes` plays named ones; `mutations` plants faults and requires each to be found.
//! The oracle sees every ID of every life.
//!
//! A failure prints its seed. To replay one story alone:
//!
//! ```text
//! GETID_SIM_SEED=123 cargo test --test simulation -- --nocapture one_seed
//! ```
//!
//! To run more of them (the default is 200 stories, some 2,000 lives; from 1,000 on, each rare event must have
//! occurred):
//!
//! ```text
//! GETID_SIM_STORIES=100000 cargo test --test simulation stories
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test is one story from beginning to end")]

mod clock;
mod clock_scenes;
mod disk;
mod log;
mod machine;
mod mutations;
mod named;
mod oracle;
#[path = "../../crates/getid-core/tests/core/random.rs"]
mod random;
mod scenes;
mod stories;
mod story;
mod watermark;
