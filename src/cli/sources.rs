//! From the words behind `serve` and `check-config` to where the configuration comes from.

use crate::config::Sources;

/// The first word is the file unless it is a directive, as redis-server has it; the environment is this process's own.
pub(super) fn sources(mut words: Vec<String>) -> Sources {
    let has_file = words.first().is_some_and(|word| !word.starts_with("--"));
    let file = has_file.then(|| words.remove(0).into());
    Sources { file, environment: std::env::vars_os().collect(), words }
}
