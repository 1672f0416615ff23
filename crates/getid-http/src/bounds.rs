//! Times and sizes of the HTTP port that no directive sets.

use std::time::Duration;

/// Times and sizes of the HTTP port that no directive sets. Tests use smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct PortBounds {
    /// Time for the head of a request, from its first byte.
    pub head: Duration,
    /// Time for the body of a request, from the end of its head.
    pub body: Duration,
    /// Time until the response begins, from the end of the body. A request that waits for IDs is answered long before;
    /// this ends one that `CLIENT PAUSE` holds.
    pub answer: Duration,
    /// How long a client may read or send nothing while other clients need its memory.
    pub stuck: Duration,
    /// Interval at which late connections are ended.
    pub sweep: Duration,
    /// Interval at which the page's history gets a point, and its viewers get an event.
    pub step: Duration,
    /// Memory for all large responses together, KiB.
    pub large_kib: usize,
}

impl Default for PortBounds {
    fn default() -> PortBounds {
        PortBounds {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            answer: Duration::from_mins(1),
            stuck: Duration::from_secs(1),
            sweep: Duration::from_secs(1),
            step: Duration::from_secs(1),
            large_kib: 16 * 1024,
        }
    }
}
