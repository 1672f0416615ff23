//! A switch for tests: servers that they start wait longer for a disk or a store.
//!
//! Machines that run tests stop processes for seconds. A server that is stopped during a save or a statement then
//! refuses IDs, as it must. Tests of other behaviour must not fail for it.

use std::sync::LazyLock;
use std::time::Duration;

use getid_core::server::checks::HAS_TEST_SWITCHES;

/// Environment variable with the wait in ms. A build without [`HAS_TEST_SWITCHES`] does not read it.
const PATIENCE_MS: &str = "GETID_TEST_PATIENCE_MS";

/// Returns how long to wait for a disk or a store: `usual`, except in a server that a test started.
pub fn patience(usual: Duration) -> Duration {
    static OF_TESTS: LazyLock<Option<Duration>> =
        LazyLock::new(|| std::env::var(PATIENCE_MS).ok()?.parse().ok().map(Duration::from_millis));
    if HAS_TEST_SWITCHES { OF_TESTS.unwrap_or(usual) } else { usual }
}
