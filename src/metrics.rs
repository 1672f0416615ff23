//! What the server counts about itself, for INFO.
//!
//! Counters are added to once a read, never once a request, and read only when somebody asks. Relaxed is enough: each
//! figure stands for itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Samples of the request counter that the momentary rate is taken over.
const RATE_SAMPLES: usize = 16;

/// The counters of one server. All only grow.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests answered, errors included.
    pub requests: AtomicU64,
    /// Reads that brought something.
    pub reads: AtomicU64,
    /// Bytes read from clients.
    pub input_bytes: AtomicU64,
    /// Bytes written to clients.
    pub output_bytes: AtomicU64,
    /// Connections accepted, refused ones included.
    pub connections: AtomicU64,
    /// Connections refused over `maxclients`.
    pub connections_rejected: AtomicU64,
    /// Connections closed after a broken protocol.
    pub protocol_errors: AtomicU64,
    /// Connections closed for being idle longer than `timeout`.
    pub idle_closed: AtomicU64,
    /// Connections that ended in a panic; each is a bug to report.
    pub panics: AtomicU64,
    /// `accept` calls that failed (no descriptors left, for one).
    pub accept_errors: AtomicU64,
    /// The most clients at one time.
    pub clients_peak: AtomicU64,
    /// The largest resident memory seen, in bytes.
    pub memory_peak: AtomicU64,
    /// Seconds since the server started, kept by the housekeeping: no clock call per turn.
    pub uptime_s: AtomicU64,
    /// Requests a second of late.
    pub rate: Rate,
}

impl Metrics {
    /// Adds what one read became.
    pub fn add_read(&self, requests: u64) {
        self.reads.fetch_add(1, Relaxed);
        self.requests.fetch_add(requests, Relaxed);
    }
}

/// The mean rate over the last [`RATE_SAMPLES`] samples, as `instantaneous_ops_per_sec` is defined in Redis.
#[derive(Debug, Default)]
pub struct Rate {
    samples: std::sync::Mutex<RateSamples>,
}

#[derive(Debug, Default)]
struct RateSamples {
    per_s: [u64; RATE_SAMPLES],
    next: usize,
    last_total: u64,
}

impl Rate {
    /// Takes one sample: the counter stands at `total`, `elapsed_ms` after the last sample.
    pub fn sample(&self, total: u64, elapsed_ms: u64) {
        let Ok(mut samples) = self.samples.lock() else { return };
        let per_s = total.saturating_sub(samples.last_total) * 1000 / elapsed_ms.max(1);
        samples.last_total = total;
        let next = samples.next;
        samples.per_s[next] = per_s;
        samples.next = (next + 1) % RATE_SAMPLES;
    }

    /// The mean of the samples, per second.
    pub fn per_s(&self) -> u64 {
        self.samples.lock().map_or(0, |samples| samples.per_s.iter().sum::<u64>() / RATE_SAMPLES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_a_mean_that_fades() {
        let rate = Rate::default();
        let mut total = 0;
        for _ in 0..RATE_SAMPLES {
            total += 500;
            rate.sample(total, 100);
        }
        assert_eq!(rate.per_s(), 5000);
        for _ in 0..RATE_SAMPLES {
            rate.sample(total, 100);
        }
        assert_eq!(rate.per_s(), 0);
    }
}
