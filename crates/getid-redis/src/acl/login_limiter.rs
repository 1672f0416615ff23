//! A rate limit on passwords, by address.
//!
//! The server answers fast and a digest costs a microsecond, so a client could try a million passwords a second. So a
//! login needs a permit before its password is checked, and an address gets permits for [`GUESSES_PER_S_MAX`] a second.
//! Permits are acquired before the check because a guesser need not wait for the reply: it can disconnect and connect
//! again. A correct login releases its permit, so a pool that connects a thousand times is not slowed, and neither are
//! other addresses. The reply to a wrong login is delayed, and more so after more wrong logins on the connection and
//! from the address.
//!
//! An address is forgotten after a quiet minute. Beyond [`SOURCES_MAX`] addresses, all others share one tally.
//!
//! Pure: the caller passes the time and gets the wait. Invariant: in any second, an address has permits for at most
//! [`GUESSES_PER_S_MAX`] wrong guesses.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Wrong guesses from one address in any second, at most. Half of it is the burst, half is the rate.
pub const GUESSES_PER_S_MAX: u64 = 2000;

/// Permits that a quiet address gets at once.
const BURST: u64 = GUESSES_PER_S_MAX / 2;

/// Time between two guesses in the long run, ns.
const EVERY_NS: u64 = NS_PER_S / (GUESSES_PER_S_MAX - BURST);

/// Logins that one transaction may hold: its permits are for all of them at once.
pub const LOGINS_IN_TRANSACTION_MAX: u32 = 16;

/// Addresses that are counted separately: 0.5 MB.
pub const SOURCES_MAX: usize = 4096;

/// Delay of the reply to the first wrong login of a connection, ms. It doubles with each, up to `DELAY_MAX_MS`.
const DELAY_FIRST_MS: u64 = 10;

/// Longest delay by the wrong logins of a connection, ms.
const DELAY_MAX_MS: u64 = 1000;

/// Longest delay by the wrong logins of an address, ms: one for each wrong login within a minute.
const DELAY_BY_SOURCE_MAX_MS: u64 = 500;

/// How long an address is remembered, and how often the log has a total for it.
const REMEMBERED_NS: u64 = 60 * NS_PER_S;

/// Totals that are logged in one call, which comes once a second. The others are logged by later calls.
const LINES_PER_S_MAX: usize = 8;

const NS_PER_S: u64 = 1_000_000_000;

/// Where logins come from, as finely as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoginSource {
    /// The server's Unix socket.
    Unix,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: one machine may use all addresses behind them.
    V6(u64),
    /// Addresses beyond [`SOURCES_MAX`].
    Others,
}

impl LoginSource {
    /// Returns the source of an address.
    pub fn of(ip: IpAddr) -> LoginSource {
        let v6 = match ip {
            IpAddr::V4(ip) => return LoginSource::V4(ip),
            IpAddr::V6(ip) => ip,
        };
        match v6.to_ipv4_mapped() {
            Some(ip) => LoginSource::V4(ip),
            None => LoginSource::V6((v6.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for LoginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginSource::Unix => f.write_str("the Unix socket"),
            LoginSource::V4(ip) => ip.fmt(f),
            LoginSource::V6(prefix) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*prefix) << 64)),
            LoginSource::Others => write!(f, "addresses beyond the {SOURCES_MAX} that are counted separately"),
        }
    }
}

/// Permits and wrong logins of one source. Times are in ns.
#[derive(Clone, Copy, Debug, Default)]
struct LoginTally {
    /// When all permits given so far would be used up at the long-run rate. A permit is valid once this is at most a
    /// burst ahead.
    used_up_at: u64,
    /// Wrong logins since `since`.
    failures: u64,
    since: u64,
    last_failure: u64,
    /// Wrong logins that no total in the log has counted yet. `unreported_since` is the time of the first.
    unreported: u64,
    unreported_since: u64,
}

impl LoginTally {
    fn is_quiet(&self, now_ns: u64) -> bool {
        self.used_up_at <= now_ns && self.unreported == 0 && now_ns.saturating_sub(self.last_failure) >= REMEMBERED_NS
    }
}

/// Permits and wrong logins of all sources.
#[derive(Debug, Default)]
pub struct LoginLimiter {
    sources: HashMap<LoginSource, LoginTally>,
    others: LoginTally,
    swept_at: u64,
}

impl LoginLimiter {
    /// Acquires permits for `count` logins from `source`. Returns the time from which they may be tried, in ns of the
    /// clock of `now_ns`.
    ///
    /// The caller releases the permits with [`LoginLimiter::release`] if it tried nothing or the password was right.
    pub fn acquire(&mut self, source: LoginSource, count: u32, now_ns: u64) -> u64 {
        let tally = self.tally(source, now_ns);
        tally.used_up_at = tally.used_up_at.max(now_ns) + u64::from(count) * EVERY_NS;
        tally.used_up_at.saturating_sub(BURST * EVERY_NS).max(now_ns)
    }

    /// Releases permits that were acquired.
    pub fn release(&mut self, source: LoginSource, count: u32, now_ns: u64) {
        let tally = self.known(source);
        tally.used_up_at = tally.used_up_at.saturating_sub(u64::from(count) * EVERY_NS);
        if tally.failures == 0 && tally.used_up_at <= now_ns {
            self.sources.remove(&source);
        }
    }

    /// Counts `count` wrong logins from `source`, after `before` on the same connection. Returns the delay of their
    /// reply, ms.
    pub fn record_failures(&mut self, source: LoginSource, count: u64, before: u64, now_ns: u64) -> u64 {
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

    /// Returns up to `LINES_PER_S_MAX` sources whose first unreported wrong login is a minute old, with their counts.
    /// Called once a second.
    pub fn unreported(&mut self, now_ns: u64) -> Vec<(LoginSource, u64)> {
        let others = std::iter::once((LoginSource::Others, &mut self.others));
        let all = others.chain(self.sources.iter_mut().map(|(source, tally)| (*source, tally)));
        let due = all.filter(|(_, tally)| {
            tally.unreported > 0 && now_ns.saturating_sub(tally.unreported_since) >= REMEMBERED_NS
        });
        // A single wrong login has its own line in the log already.
        let counts = due.filter_map(|(source, tally)| match tally.unreported {
            1 => {
                tally.unreported = 0;
                None
            }
            _ => Some((source, std::mem::take(&mut tally.unreported))),
        });
        counts.take(LINES_PER_S_MAX).collect()
    }

    /// Number of sources that are counted separately now.
    pub fn addresses(&self) -> usize {
        self.sources.len()
    }

    fn known(&mut self, source: LoginSource) -> &mut LoginTally {
        // The source may have had no tally of its own when it acquired the permits.
        self.sources.get_mut(&source).unwrap_or(&mut self.others)
    }

    fn tally(&mut self, source: LoginSource, now_ns: u64) -> &mut LoginTally {
        let is_new = source != LoginSource::Others && !self.sources.contains_key(&source);
        if is_new && self.sources.len() >= SOURCES_MAX && now_ns.saturating_sub(self.swept_at) >= NS_PER_S {
            // At most once a second, however many sources are new.
            self.swept_at = now_ns;
            self.sources.retain(|_, tally| !tally.is_quiet(now_ns));
        }
        if source == LoginSource::Others || (is_new && self.sources.len() >= SOURCES_MAX) {
            return &mut self.others;
        }
        self.sources.entry(source).or_default()
    }
}
