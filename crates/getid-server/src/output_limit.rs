//! Limits on the time for which a client may leave its replies unread.
//!
//! Nothing is read from a client whose replies are not sent, so its cost is bounded; but it should not last forever.
//! `client-output-buffer-limit` is Redis's limit, by size. A dead client mostly differs from a slow one in that it
//! reads nothing at all: `client-output-timeout`.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use getid_config::Config;

/// Interval at which limits are checked, since they may change while a client waits.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// State of a client whose replies wait.
#[derive(Debug)]
pub(super) struct OutputLimit {
    progress: Instant,
    over_soft_since: Option<Instant>,
}

impl OutputLimit {
    /// Starts the limits for replies that wait from `now` on.
    pub(super) fn new(now: Instant) -> OutputLimit {
        OutputLimit { progress: now, over_soft_since: None }
    }

    /// Notes that the client read some bytes.
    pub(super) fn note_progress(&mut self, now: Instant) {
        self.progress = now;
    }

    /// Returns when to check again while `pending` bytes wait, or the reason to close the client.
    pub(super) fn check(&mut self, now: Instant, pending: usize, config: &Config) -> Result<Instant, CutOffReason> {
        let limit = config.client_output_buffer_limit.normal;
        let exceeds = |bytes_max: u64| bytes_max > 0 && pending as u64 > bytes_max;
        if exceeds(limit.hard_bytes) {
            return Err(CutOffReason::HardLimit { bytes_max: limit.hard_bytes });
        }
        let mut check_again_at = now + CHECK_INTERVAL;
        if exceeds(limit.soft_bytes) {
            let until = *self.over_soft_since.get_or_insert(now) + Duration::from_secs(limit.soft_s);
            if now >= until {
                return Err(CutOffReason::SoftLimit { bytes_max: limit.soft_bytes, seconds: limit.soft_s });
            }
            check_again_at = check_again_at.min(until);
        } else {
            self.over_soft_since = None;
        }
        let timeout_s = config.client_output_timeout_s;
        if timeout_s > 0 {
            let until = self.progress + Duration::from_secs(timeout_s);
            if now >= until {
                return Err(CutOffReason::Timeout { seconds: timeout_s });
            }
            check_again_at = check_again_at.min(until);
        }
        Ok(check_again_at)
    }
}

/// Reason why a client that does not read its replies is closed: a configured limit. `Display` is for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutOffReason {
    /// The hard limit of `client-output-buffer-limit`.
    HardLimit { bytes_max: u64 },
    /// The soft limit of `client-output-buffer-limit`, exceeded for that long.
    SoftLimit { bytes_max: u64, seconds: u64 },
    /// The limit `client-output-timeout`.
    Timeout { seconds: u64 },
}

impl fmt::Display for CutOffReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CutOffReason::HardLimit { bytes_max } => {
                write!(f, "the hard limit of client-output-buffer-limit is {bytes_max} bytes")
            }
            CutOffReason::SoftLimit { bytes_max, seconds } => {
                write!(f, "the soft limit of client-output-buffer-limit is {bytes_max} bytes for {seconds} s")
            }
            CutOffReason::Timeout { seconds } => {
                write!(f, "the client read nothing within client-output-timeout {seconds} s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks every 100 ms, from the first wait, until a limit is reached. Returns the time of that, in ms.
    fn cut_off(config: &Config, pending: impl Fn(u64) -> usize, progress_every_ms: u64) -> Option<(u64, CutOffReason)> {
        let begun = Instant::now();
        let mut limit = OutputLimit::new(begun);
        for ms in (0..100_000).step_by(100) {
            let now = begun + Duration::from_millis(ms);
            if progress_every_ms > 0 && ms % progress_every_ms == 0 {
                limit.note_progress(now);
            }
            match limit.check(now, pending(ms), config) {
                Ok(check_again_at) => assert!(check_again_at > now && check_again_at <= now + CHECK_INTERVAL),
                Err(reason) => return Some((ms, reason)),
            }
        }
        None
    }

    fn config(hard_bytes: u64, soft_bytes: u64, soft_s: u64, timeout_s: u64) -> Config {
        let mut config = Config { client_output_timeout_s: timeout_s, ..Config::default() };
        config.client_output_buffer_limit.normal = getid_config::OutputBufferLimit { hard_bytes, soft_bytes, soft_s };
        config
    }

    #[test]
    fn without_limits_no_client_is_cut_off() {
        assert_eq!(cut_off(&config(0, 0, 0, 0), |_| usize::MAX, 0), None);
    }

    #[test]
    fn the_default_timeout_is_a_minute_without_a_byte() {
        let reason = CutOffReason::Timeout { seconds: 60 };
        assert_eq!(cut_off(&Config::default(), |_| 1, 0), Some((60_000, reason)));
        assert_eq!(cut_off(&Config::default(), |_| 1 << 20, 59_000), None);
    }

    #[test]
    fn the_hard_limit_is_at_once_and_exclusive() {
        assert_eq!(cut_off(&config(1000, 0, 0, 0), |_| 1000, 0), None);
        let reason = CutOffReason::HardLimit { bytes_max: 1000 };
        assert_eq!(cut_off(&config(1000, 0, 0, 0), |_| 1001, 0), Some((0, reason)));
    }

    #[test]
    fn the_soft_limit_counts_only_while_it_is_exceeded_all_the_time() {
        let config = config(0, 1000, 5, 0);
        let reason = CutOffReason::SoftLimit { bytes_max: 1000, seconds: 5 };
        // Progress does not help, a smaller size does.
        assert_eq!(cut_off(&config, |_| 1001, 100), Some((5_000, reason)));
        assert_eq!(cut_off(&config, |ms| if ms % 3_000 == 0 { 1000 } else { 1001 }, 0), None);
        assert_eq!(cut_off(&config, |ms| if ms == 3_000 { 1 } else { 9999 }, 0), Some((8_100, reason)));
    }
}
