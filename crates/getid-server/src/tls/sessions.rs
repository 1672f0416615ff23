//! Sessions that clients may resume, without a full handshake.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

/// Maximum size of a session that is kept, bytes: one with a client's chain of certificates is 1 to 3 KB.
const SESSION_BYTES_MAX: usize = 4096;

/// The sessions that clients may resume, up to a number, and each for a while.
#[derive(Debug)]
pub(super) struct Sessions {
    cache: Arc<ServerSessionMemoryCache>,
    timeout: Duration,
    /// Start of the ages.
    started: Instant,
}

impl Sessions {
    pub(super) fn new(count_max: usize, timeout: Duration) -> Sessions {
        Sessions { cache: ServerSessionMemoryCache::new(count_max), timeout, started: Instant::now() }
    }

    /// Returns a session without its age, if it is not too old.
    fn fresh(&self, mut value: Vec<u8>) -> Option<Vec<u8>> {
        let age = value.split_off(value.len().checked_sub(size_of::<u64>())?);
        let kept_s = u64::from_le_bytes(age.try_into().ok()?);
        (self.started.elapsed().as_secs().saturating_sub(kept_s) < self.timeout.as_secs()).then_some(value)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, mut value: Vec<u8>) -> bool {
        if value.len() > SESSION_BYTES_MAX {
            return false;
        }
        value.extend_from_slice(&self.started.elapsed().as_secs().to_le_bytes());
        value.shrink_to_fit();
        self.cache.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.cache.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.cache.take(key)?)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_kept_for_a_while_and_no_large_one() {
        let sessions = Sessions::new(100, Duration::from_mins(5));
        assert!(sessions.put(vec![1], vec![7; 100]));
        assert_eq!(sessions.get(&[1]), Some(vec![7; 100]));
        assert_eq!(sessions.take(&[1]), Some(vec![7; 100]));
        assert_eq!(sessions.take(&[1]), None);
        assert!(!sessions.put(vec![2], vec![7; SESSION_BYTES_MAX + 1]));
        let short = Sessions::new(100, Duration::ZERO);
        assert!(short.put(vec![1], vec![7; 100]));
        assert_eq!(short.get(&[1]), None);
    }
}
