//! The limit of a run: the server, or the load generator that measured it.

use serde::Serialize;

/// Share of the time from which on a thread counts as always busy.
const SATURATED: f64 = 0.95;

/// Share of the time from which on waiting for a processor distorts measured times.
const DISTURBED: f64 = 0.05;

/// A thread's use of its time, as shares of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// Share of the time in which the thread ran on a processor.
    pub busy: f64,
    /// Share of the time in which the thread was runnable, but another one had the processor.
    pub waited: f64,
}

impl Share {
    fn is_saturated(self) -> bool {
        self.busy + self.waited >= SATURATED
    }

    /// Whether other threads had the processor for so long that latencies, not only rates, are distorted.
    pub(crate) fn is_disturbed(self) -> bool {
        self.waited >= DISTURBED
    }
}

/// The limit of the rate of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The server's layout holds no more IDs a second.
    Layout,
    /// A thread of the server had no time left, but the generator had.
    Server,
    /// A thread of the generator had no time left, but the server had: the rate is not the server's limit.
    Load,
    /// The generator and the server had no time left.
    Both,
    /// The generator and the server waited for each other, over too few connections or a slow network.
    Neither,
    /// The generator and the server had time left, but other programs had the processors that they needed.
    Crowd,
    /// The generator had time left; the server was not measured.
    NotLoad,
    /// The generator had no time left; the server was not measured.
    MaybeLoad,
}

impl Limit {
    /// Judges by the busiest thread of each side.
    pub fn judge(load: Share, server: Option<Share>) -> Limit {
        match (load.is_saturated(), server.map(Share::is_saturated)) {
            (true, Some(true)) => Limit::Both,
            (true, Some(false)) => Limit::Load,
            (false, Some(true)) => Limit::Server,
            (false, Some(false)) if load.is_disturbed() || server.is_some_and(Share::is_disturbed) => Limit::Crowd,
            (false, Some(false)) => Limit::Neither,
            (true, None) => Limit::MaybeLoad,
            (false, None) => Limit::NotLoad,
        }
    }

    /// Returns the limit in words, for the report.
    pub fn sentence(self) -> &'static str {
        match self {
            Limit::Layout => "the server's layout",
            Limit::Server => "the server",
            Limit::Load => {
                "this load generator, not the server: the rate is not the server's limit; CPU time per request is still \
                 correct"
            }
            Limit::Both => "the server and this load generator alike",
            Limit::Neither => {
                "neither server nor load generator: they waited for each other; more connections or a deeper pipeline \
                 would give more"
            }
            Limit::Crowd => {
                "the other programs on these processors: they affect rate and latency; CPU time per request is more \
                 reliable"
            }
            Limit::NotLoad => "not this load generator (--pid measures the server)",
            Limit::MaybeLoad => "perhaps this load generator, which had no time left (--pid measures the server)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgements() {
        let idle = Share { busy: 0.5, waited: 0.0 };
        let full = Share { busy: 0.99, waited: 0.0 };
        let crowded = Share { busy: 0.5, waited: 0.48 };
        assert_eq!(Limit::judge(idle, Some(full)), Limit::Server);
        assert_eq!(Limit::judge(full, Some(idle)), Limit::Load);
        assert_eq!(Limit::judge(crowded, Some(crowded)), Limit::Both);
        assert_eq!(Limit::judge(idle, Some(idle)), Limit::Neither);
        assert_eq!(Limit::judge(Share { busy: 0.3, waited: 0.3 }, Some(idle)), Limit::Crowd);
        assert_eq!(Limit::judge(idle, None), Limit::NotLoad);
        assert_eq!(Limit::judge(full, None), Limit::MaybeLoad);
    }
}
