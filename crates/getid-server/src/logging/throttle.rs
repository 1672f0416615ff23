//! A rate limit on lines that clients can cause.
//!
//! A client can cause some events a hundred thousand times a second. Logging each would fill the disk of the state, and
//! hide all other lines. So each such line has a [`LineKind`], whose row limits its lines in a window of time. When a
//! window ends, one line reports how many were suppressed, even if none follows.
//!
//! No clock: the caller passes the time to `LogThrottle::end_windows`.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;

/// The limit of one kind.
struct LineLimit {
    kind: LineKind,
    level: Level,
    /// The most lines in a window.
    count_max: u64,
    /// Length of a window, seconds.
    every_s: u64,
    /// Description of suppressed lines, for the line that reports their number: "... : clients connected".
    what: &'static str,
}

/// The kinds and their limits: the level of a line, the most lines, the seconds of a window, the description of
/// suppressed lines.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $level:ident, $count_max:literal, $every_s:literal, $what:literal;)+) => {
        /// The event that a line is about; each kind has its own limit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum LineKind { $($(#[$doc])* $kind),+ }

        const ROWS: &[LineLimit] = &[$(
            LineLimit { kind: LineKind::$kind, level: Level::$level, count_max: $count_max, every_s: $every_s, what: $what }
        ),+];
    };
}

kinds! {
    // Levels below INFO are for readers of every line, but even they need a bound.
    /// A client connected.
    Connected = TRACE, 1000, 1, "clients connected";
    /// A client disconnected.
    Disconnected = DEBUG, 1000, 1, "clients disconnected";
    /// Options of a client's socket could not be set.
    SocketOptions = DEBUG, 10, 1, "sockets of clients rejected their options";
    /// A client was closed because it was idle longer than `timeout`.
    Idle = DEBUG, 100, 1, "idle clients were closed";
    /// A client was closed for a request larger than `client-query-buffer-limit`.
    InputLimit = WARN, 1, 1, "clients were closed for a request larger than client-query-buffer-limit";
    /// A client was closed because it did not read its replies.
    OutputLimit = WARN, 1, 1, "clients were closed because they did not read their output";
    /// A client was closed because the buffers of all clients together exceeded `maxmemory-clients`.
    Evicted = WARN, 1, 1, "clients were closed because the buffers of all clients exceeded maxmemory-clients";
    /// A client was closed because it did not log in within `auth-timeout`.
    AuthTimeout = WARN, 1, 1, "clients were closed because they did not log in within auth-timeout";
    /// A client was closed during its TLS handshake, because too many others were in theirs.
    HandshakeEvicted = WARN, 1, 1, "TLS handshakes were ended because the maximum number was running";
    /// An idle HTTP connection was closed to make room for another.
    HttpEvicted = INFO, 1, 10, "idle HTTP connections were closed to make room for others";
    /// An HTTP client was refused because all places were in use.
    HttpRefused = WARN, 1, 1, "HTTP clients were refused because all places of http-max-clients were in use";
    /// A client was closed for speaking HTTP: a browser may have been tricked into it. The limit is Redis's.
    Http = WARN, 1, 60, "connections were aborted as possible attacks by Cross Protocol Scripting";
    /// `accept` began to fail, as at the limit of open files.
    AcceptFails = ERROR, 1, 1, "times accepting clients began to fail";
    /// `accept` works again after a failure.
    AcceptsAgain = WARN, 1, 1, "times clients could be accepted again";
    /// A monitor was closed because it read too slowly.
    MonitorDropped = WARN, 1, 1, "monitors did not keep up and were closed";
    /// A subscriber was closed because it did not read its messages.
    SubscriberMissed = WARN, 1, 1, "subscribers did not read their messages and were closed";
    /// A client asked for the address of a holder that has not announced one.
    NoMasterAddress = WARN, 1, 60, "requests for the address of a server that has not announced one";
    /// A connection ended with a panic.
    Bug = ERROR, 10, 1, "connections ended because of a bug";
    /// The command `SHUTDOWN` was refused.
    ShutdownRefused = ERROR, 1, 1, "SHUTDOWN commands were refused because the state cannot be saved";
    /// A change of settings failed, or needs a warning.
    Settings = WARN, 10, 1, "warnings about changes of settings were left out";
    /// A Leaf or Tinyid client requested a name that no sequence can have.
    UnservedName = WARN, 1, 3600, "requests of Leaf's and Tinyid's clients for names that no sequence can have";
    /// An instance of CosId requested a machine id, and all of the pool are taken.
    NoMachineId = WARN, 1, 60, "requests of CosId's instances found no free machine id";
    /// An instance of CosId reported that it lives, and has no machine id.
    LostMachineId = WARN, 10, 60, "reports of CosId's instances without a machine id";
    /// Reserved numbers of a gapless generator became overdue.
    NumberOverdue = WARN, 10, 3600, "gapless generators with overdue numbers";
    /// A restore made numbers of a gapless generator unclear.
    NumberUnclear = ERROR, 100, 3600, "gapless generators with unclear numbers";
    /// A gapless generator has many requests that released their numbers.
    NumberReleased = WARN, 10, 3600, "gapless generators near their maximum of released requests";
    /// A login.
    AuditLogin = INFO, 100, 1, "logins";
    /// A failed login.
    AuditLoginFailed = WARN, 10, 1, "failed logins";
    /// The command `CONFIG SET`, `CONFIG REWRITE` or `CONFIG RESETSTAT`.
    AuditConfig = INFO, 10, 1, "CONFIG SET, REWRITE or RESETSTAT commands";
    /// An `ACL` command that changes something.
    AuditAcl = INFO, 10, 1, "ACL commands";
    /// The command `CLIENT KILL`, `CLIENT PAUSE` or `CLIENT UNPAUSE`.
    AuditClient = WARN, 10, 1, "CLIENT KILL, PAUSE or UNPAUSE commands";
    /// The command `MONITOR`.
    AuditMonitor = INFO, 10, 1, "MONITOR commands";
    /// A sequence was created, changed or dropped.
    AuditSequence = INFO, 100, 1, "sequences created, changed or dropped";
    /// An operator ended a lease of a worker id.
    AuditWorkerId = INFO, 100, 1, "leases of worker ids that were revoked";
    /// The command `SHUTDOWN`.
    AuditShutdown = WARN, 10, 1, "SHUTDOWN commands";
}

impl LineKind {
    /// Returns the level of the kind's lines.
    pub const fn level(self) -> Level {
        ROWS[self as usize].level
    }

    /// Whether the kind's lines are audit lines.
    pub(crate) const fn is_audit(self) -> bool {
        self as usize >= LineKind::AuditLogin as usize
    }
}

/// Counts lines of each kind in its current window.
#[derive(Debug)]
pub struct LogThrottle {
    kinds: [Window; ROWS.len()],
    /// Audit lines in the current second, by kind and user, up to [`USERS_MAX`] pairs.
    by_user: Mutex<HashMap<(usize, Arc<str>), u64>>,
    /// When [`LogThrottle::end_windows`] was last called, in seconds of uptime.
    checked_s: AtomicU64,
}

/// The most pairs of kind and user with their own count in a second; all others share the count of the kind.
const USERS_MAX: usize = 64;

#[derive(Debug, Default)]
struct Window {
    /// Lines counted since the window began.
    count: AtomicU64,
    /// Lines not written, and not reported yet.
    suppressed: AtomicU64,
}

impl Default for LogThrottle {
    fn default() -> LogThrottle {
        // Arrays of more than 32 values have no `Default`.
        let kinds = std::array::from_fn(|_| Window::default());
        LogThrottle { kinds, by_user: Mutex::default(), checked_s: AtomicU64::new(0) }
    }
}

impl LogThrottle {
    /// Counts a line; returns whether it may be written.
    pub fn allows(&self, kind: LineKind) -> bool {
        self.allows_many(kind, 1)
    }

    /// Counts a line that reports `count` events; returns whether it may be written. All events are counted; one line
    /// is written.
    pub(crate) fn allows_many(&self, kind: LineKind, count: u64) -> bool {
        let window = &self.kinds[kind as usize];
        let is_allowed = window.count.fetch_add(1, Relaxed) < ROWS[kind as usize].count_max;
        if !is_allowed {
            // The suppressed line would have reported all of them.
            window.suppressed.fetch_add(count, Relaxed);
        }
        is_allowed
    }

    /// Counts an audit line of `user`; returns whether it may be written. A flood of one user hides no line of another.
    pub(crate) fn allows_by(&self, kind: LineKind, user: &Arc<str>) -> bool {
        // A panic leaves the map valid: each count is changed in one step.
        let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = by_user.len() < USERS_MAX || by_user.contains_key(&(kind as usize, Arc::clone(user)));
        if !is_known {
            drop(by_user);
            return self.allows(kind);
        }
        let count = by_user.entry((kind as usize, Arc::clone(user))).or_default();
        *count += 1;
        let is_allowed = *count <= ROWS[kind as usize].count_max;
        if !is_allowed {
            self.kinds[kind as usize].suppressed.fetch_add(1, Relaxed);
        }
        is_allowed
    }

    /// Ends the windows that are over at `now_s` seconds of uptime; returns the lines that were suppressed in them.
    pub(crate) fn end_windows(&self, now_s: u64) -> Vec<Suppressed> {
        let last_s = self.checked_s.swap(now_s, Relaxed);
        if now_s != last_s {
            self.by_user.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.end(|row| now_s / row.every_s != last_s / row.every_s)
    }

    /// Ends all windows; returns the suppressed lines that are not reported yet.
    pub fn end_all(&self) -> Vec<Suppressed> {
        self.end(|_| true)
    }

    fn end(&self, is_over: impl Fn(&LineLimit) -> bool) -> Vec<Suppressed> {
        let over = ROWS.iter().zip(&self.kinds).filter(|(row, _)| is_over(row));
        let suppressed = over.map(|(row, window)| {
            window.count.store(0, Relaxed);
            Suppressed { kind: row.kind, count: window.suppressed.swap(0, Relaxed) }
        });
        suppressed.filter(|suppressed| suppressed.count > 0).collect()
    }
}

/// Lines of one kind that were not written. `Display` is the line that reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suppressed {
    /// The kind of the lines.
    pub kind: LineKind,
    /// Number of lines, at least 1.
    pub count: u64,
}

impl fmt::Display for Suppressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LineLimit { what, every_s, .. } = ROWS[self.kind as usize];
        let count = self.count;
        match every_s {
            1 => write!(f, "{count} more within a second without a line of their own: {what}"),
            _ => write!(f, "{count} more within {every_s} s without a line of their own: {what}"),
        }
    }
}

impl Suppressed {
    /// Logs the line that reports them.
    pub fn log(&self) {
        // The macros of tracing require a level known at compile time.
        match (self.kind.level(), self.kind.is_audit()) {
            (Level::ERROR, _) => tracing::error!("{self}"),
            (Level::WARN, true) => tracing::warn!(target: super::format::AUDIT, "{self}"),
            (Level::WARN, false) => tracing::warn!("{self}"),
            (Level::INFO, true) => tracing::info!(target: super::format::AUDIT, "{self}"),
            (Level::INFO, false) => tracing::info!("{self}"),
            (Level::DEBUG, _) => tracing::debug!("{self}"),
            (Level::TRACE, _) => tracing::trace!("{self}"),
        }
    }
}

/// Logs a line of a kind, if its level is logged and the throttle allows it:
/// `throttled!(throttle, InputLimit, "client {id} is closed")`.
#[macro_export]
macro_rules! throttled {
    ($throttle:expr, $kind:ident, by: $user:expr, target: $target:expr, $($message:tt)+) => {{
        const KIND: $crate::logging::throttle::LineKind = $crate::logging::throttle::LineKind::$kind;
        if ::tracing::enabled!(target: $target, KIND.level()) && $throttle.allows_by(KIND, $user) {
            ::tracing::event!(target: $target, KIND.level(), $($message)+);
        }
    }};
    ($throttle:expr, $kind:ident, target: $target:expr, $($message:tt)+) => {{
        const KIND: $crate::logging::throttle::LineKind = $crate::logging::throttle::LineKind::$kind;
        if ::tracing::enabled!(target: $target, KIND.level()) && $throttle.allows(KIND) {
            ::tracing::event!(target: $target, KIND.level(), $($message)+);
        }
    }};
    ($throttle:expr, $kind:ident, $($message:tt)+) => {
        $crate::throttled!($throttle, $kind, target: module_path!(), $($message)+)
    };
}

pub use throttled;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, at, "{:?}", row.kind);
            assert!(row.count_max > 0 && row.every_s > 0);
        }
        assert_eq!(LineKind::AuditShutdown as usize, ROWS.len() - 1);
    }

    #[test]
    fn a_flood_is_ten_lines_and_a_count() {
        let throttle = LogThrottle::default();
        let written = (0..260_000).filter(|_| throttle.allows(LineKind::AuditClient)).count();
        assert_eq!(written, 10);
        assert!(throttle.allows(LineKind::AuditMonitor), "each kind has its own limit");
        assert_eq!(throttle.end_windows(0), [], "the window is not over");
        let suppressed = throttle.end_windows(1);
        assert_eq!(suppressed, [Suppressed { kind: LineKind::AuditClient, count: 259_990 }]);
        assert_eq!(
            suppressed[0].to_string(),
            "259990 more within a second without a line of their own: CLIENT KILL, PAUSE or UNPAUSE commands"
        );
        assert_eq!(throttle.end_windows(2), []);
        assert!(throttle.allows(LineKind::AuditClient), "a new window");
    }

    #[test]
    fn a_users_lines_are_hidden_by_no_other_user() {
        let throttle = LogThrottle::default();
        let [loud, quiet]: [Arc<str>; 2] = ["loud".into(), "quiet".into()];
        let written = (0..1000).filter(|_| throttle.allows_by(LineKind::AuditConfig, &loud)).count();
        assert_eq!(written, 10);
        assert!(throttle.allows_by(LineKind::AuditConfig, &quiet) && throttle.allows_by(LineKind::AuditAcl, &loud));
        assert_eq!(throttle.end_windows(1), [Suppressed { kind: LineKind::AuditConfig, count: 990 }]);
        assert!(throttle.allows_by(LineKind::AuditConfig, &loud), "a new window");
        // Users beyond the bound share one count.
        let users: Vec<Arc<str>> = (0..1000).map(|number| number.to_string().into()).collect();
        let written = users.iter().filter(|user| throttle.allows_by(LineKind::AuditConfig, user)).count();
        assert_eq!(written, USERS_MAX - 1 + 10);
        assert_eq!(throttle.by_user.lock().unwrap().len(), USERS_MAX);
        assert!(throttle.allows_by(LineKind::AuditConfig, &loud), "a user with a count keeps it");
    }

    #[test]
    fn a_kind_may_have_a_longer_window() {
        let throttle = LogThrottle::default();
        assert!(throttle.allows(LineKind::Http));
        assert_eq!(throttle.end_windows(59), []);
        assert!(!throttle.allows(LineKind::Http));
        assert_eq!(throttle.end_windows(61), [Suppressed { kind: LineKind::Http, count: 1 }]);
        assert!(throttle.allows(LineKind::Http));
        assert!(!throttle.allows(LineKind::Http));
        assert_eq!(throttle.end_all(), [Suppressed { kind: LineKind::Http, count: 1 }]);
    }

    #[test]
    fn a_suppressed_line_counts_all_its_events() {
        let throttle = LogThrottle::default();
        for _ in 0..10 {
            assert!(throttle.allows_many(LineKind::AuditLoginFailed, 5));
        }
        assert!(!throttle.allows_many(LineKind::AuditLoginFailed, 5));
        assert_eq!(throttle.end_all(), [Suppressed { kind: LineKind::AuditLoginFailed, count: 5 }]);
    }
}
