//! A rate limit on passwords, by address.
//!
//! Nothing else keeps somebody from trying a million a second: a digest costs a microsecond, and the server is made to
//! answer fast. So a login needs a permit before its password is looked at, and an address gets permits for
//! [`GUESSES_PER_S_MAX`] a second. Permits are acquired before and not after, because a guesser need not wait for the
//! answer: it can hang up and come again. A login that was right releases its permit, so that a pool that connects a
//! thousand times is not slowed, and neither is anybody at another address. Besides, the answer to a wrong one is late,
//! the later the more of them came on the connection and from the address.
//!
//! Addresses are forgotten when they have been quiet for a minute. Beyond [`SOURCES_MAX`] of them, all others are one.
//!
//! Pure: it is told the time, and says how long to wait. Invariant: in any second, an address has permits for at most
//! [`GUESSES_PER_S_MAX`] guesses that turn out wrong.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Wrong guesses from one address in any second, at most: half of it is how many at once, half is the rate.
pub const GUESSES_PER_S_MAX: u64 = 2000;

/// Permits that an address gets at once when it was quiet.
const BURST: u64 = GUESSES_PER_S_MAX / 2;

/// Time between two guesses in the long run, ns.
const EVERY_NS: u64 = NS_PER_S / (GUESSES_PER_S_MAX - BURST);

/// Logins that one transaction may hold: its permits are for all of them at once.
pub const LOGINS_IN_TRANSACTION_MAX: u32 = 16;

/// Addresses that are told apart: 0.5 MB.
pub const SOURCES_MAX: usize = 4096;

/// The answer to the first wrong login of a connection is late by this, ms, and by twice as much each time ...
const DELAY_FIRST_MS: u64 = 10;

/// ... up to this.
const DELAY_MAX_MS: u64 = 1000;

/// The same by how many came from the address within a minute: a millisecond for each, up to this many.
const DELAY_BY_SOURCE_MAX_MS: u64 = 500;

/// How long an address is remembered, and how often the log has a sum for it.
const REMEMBERED_NS: u64 = 60 * NS_PER_S;

/// Sums that are told at a time, which is in a second; what is not told in one is told in a later one.
const LINES_PER_S_MAX: usize = 8;

const NS_PER_S: u64 = 1_000_000_000;

/// Where logins come from, as far as it is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A Unix socket.
    Unix,
    /// An address of IPv4.
    V4(Ipv4Addr),
    /// The first 64 bits of an address of IPv6: a single machine has all of those behind them.
    V6(u64),
    /// Addresses for which there was no place.
    Others,
}

impl Source {
    /// That of an address.
    pub fn of(ip: IpAddr) -> Source {
        let v6 = match ip {
            IpAddr::V4(ip) => return Source::V4(ip),
            IpAddr::V6(ip) => ip,
        };
        match v6.to_ipv4_mapped() {
            Some(ip) => Source::V4(ip),
            None => Source::V6((v6.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Unix => f.write_str("the Unix socket"),
            Source::V4(ip) => ip.fmt(f),
            Source::V6(prefix) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*prefix) << 64)),
            Source::Others => write!(f, "addresses beyond the {SOURCES_MAX} that are told apart"),
        }
    }
}

/// What is known of one address. Times are in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// When all permits given so far would be used up at the rate of the long run. One is good from the time on that
    /// this is at most a burst ahead.
    used_up_at: u64,
    /// Wrong logins since `since`.
    failures: u64,
    since: u64,
    last_failure: u64,
    /// Wrong logins that no sum in the log has counted yet, and when the first of them came.
    unreported: u64,
    unreported_since: u64,
}

impl Tally {
    fn is_quiet(&self, now_ns: u64) -> bool {
        self.used_up_at <= now_ns && self.unreported == 0 && now_ns.saturating_sub(self.last_failure) >= REMEMBERED_NS
    }
}

/// All addresses that guess.
#[derive(Debug, Default)]
pub struct LoginLimiter {
    sources: HashMap<Source, Tally>,
    others: Tally,
    swept_at: u64,
}

impl LoginLimiter {
    /// Permits for `count` logins from `source`: the time from which on they may be tried, in ns of the clock of
    /// `now_ns`.
    ///
    /// To be released with [`LoginLimiter::release`] where nothing was tried, or it was right.
    pub fn acquire(&mut self, source: Source, count: u32, now_ns: u64) -> u64 {
        let tally = self.tally(source, now_ns);
        tally.used_up_at = tally.used_up_at.max(now_ns) + u64::from(count) * EVERY_NS;
        tally.used_up_at.saturating_sub(BURST * EVERY_NS).max(now_ns)
    }

    /// Takes permits back.
    pub fn release(&mut self, source: Source, count: u32, now_ns: u64) {
        let tally = self.known(source);
        tally.used_up_at = tally.used_up_at.saturating_sub(u64::from(count) * EVERY_NS);
        if tally.failures == 0 && tally.used_up_at <= now_ns {
            self.sources.remove(&source);
        }
    }

    /// `count` wrong logins from `source`, after `before` on the same connection: how late their answer is to be, in
    /// ms.
    pub fn record_failures(&mut self, source: Source, count: u64, before: u64, now_ns: u64) -> u64 {
        let tally = self.tally(source, now_ns);
        if now_ns.saturating_sub(tally.since) >= REMEMBERED_NS {
            tally.since = now_ns;
            tally.failures = 0;
        }
        if tally.unreported == 0 {
            tally.unreported_since = now_ns;
        }
        let by_source_ms = tally.failures.min(DELAY_BY_SOURCE_MAX_MS);
        tally.failures += count;
        tally.unreported += count;
        tally.last_failure = now_ns;
        let doublings = u32::try_from(before + count.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
        (DELAY_FIRST_MS << doublings).min(DELAY_MAX_MS).max(by_source_ms)
    }

    /// Addresses from which several wrong logins came in the last minute or longer, and how many: a few at a time, to
    /// be asked for once a second.
    pub fn unreported(&mut self, now_ns: u64) -> Vec<(Source, u64)> {
        let others = std::iter::once((Source::Others, &mut self.others));
        let all = others.chain(self.sources.iter_mut().map(|(source, tally)| (*source, tally)));
        let due = all.filter(|(_, tally)| {
            tally.unreported > 0 && now_ns.saturating_sub(tally.unreported_since) >= REMEMBERED_NS
        });
        // A single one has its line already.
        let counts = due.filter_map(|(source, tally)| match tally.unreported {
            1 => {
                tally.unreported = 0;
                None
            }
            _ => Some((source, std::mem::take(&mut tally.unreported))),
        });
        counts.take(LINES_PER_S_MAX).collect()
    }

    /// How many addresses are told apart now.
    pub fn addresses(&self) -> usize {
        self.sources.len()
    }

    fn known(&mut self, source: Source) -> &mut Tally {
        // It may have had no place when it asked.
        self.sources.get_mut(&source).unwrap_or(&mut self.others)
    }

    fn tally(&mut self, source: Source, now_ns: u64) -> &mut Tally {
        let is_new = source != Source::Others && !self.sources.contains_key(&source);
        if is_new && self.sources.len() >= SOURCES_MAX && now_ns.saturating_sub(self.swept_at) >= NS_PER_S {
            // At most once a second, however many come.
            self.swept_at = now_ns;
            self.sources.retain(|_, tally| !tally.is_quiet(now_ns));
        }
        if source == Source::Others || (is_new && self.sources.len() >= SOURCES_MAX) {
            return &mut self.others;
        }
        self.sources.entry(source).or_default()
    }
}
