//! Lines that clients can cause: so many of each kind in a while, and a count of the rest.
//!
//! Whatever a client can do a hundred thousand times a second must not be told a hundred thousand times a second: it
//! fills the disk that the state is on, and hides what else is in the log. So each such line is of a [`Kind`], which has a
//! row with its bound; once a second (or in the kind's own time) the server says how many more there were, even when
//! none follows.
//!
//! No clock: [`ClientLines::turn`] is told the time, and ends the spans that are over.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;

/// Kinds of lines that clients cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody connects.
    Connected,
    /// Somebody leaves, or is gone.
    Left,
    /// Sockets' options that could not be set.
    SocketOptions,
    /// Closed for silence.
    Idle,
    /// Closed for a request that is too large.
    InputLimit,
    /// Closed for output that it does not take.
    OutputLimit,
    /// Closed because all clients together held too much.
    Evicted,
    /// Closed for want of a login.
    AuthTimeout,
    /// Closed in the TLS handshake, for too many were in theirs.
    HandshakeEvicted,
    /// Closed as a browser that was sent here.
    Http,
    /// Too many for the limit of open files.
    AcceptFails,
    /// That is over.
    AcceptsAgain,
    /// A monitor that does not keep up.
    MonitorDropped,
    /// A bug, for which a connection ends.
    Bug,
    /// `SHUTDOWN` that was refused.
    ShutdownRefused,
    /// A change of settings that failed, or that is odd.
    Settings,
    /// Logged in.
    AuditLogin,
    /// Failed to log in.
    AuditLoginFailed,
    /// `CONFIG SET`, `REWRITE`, `RESETSTAT`.
    AuditConfig,
    /// `ACL`'s commands that change something.
    AuditAcl,
    /// `CLIENT KILL`, `PAUSE`, `UNPAUSE`.
    AuditClient,
    /// `MONITOR`.
    AuditMonitor,
    /// `SHUTDOWN`.
    AuditShutdown,
}

/// One kind's bound.
struct Row {
    kind: Kind,
    level: Level,
    /// Lines in a span.
    count_max: u64,
    /// Seconds of a span.
    every_s: u64,
    /// What there were more of: "... more clients that connected".
    what: &'static str,
}

const fn row(kind: Kind, level: Level, count_max: u64, every_s: u64, what: &'static str) -> Row {
    Row { kind, level, count_max, every_s, what }
}

const ROWS: [Row; 23] = [
    // Who has them shown wants to see them all, and a flood all the same not.
    row(Kind::Connected, Level::TRACE, 1000, 1, "clients connected"),
    row(Kind::Left, Level::DEBUG, 1000, 1, "clients left or are gone"),
    row(Kind::SocketOptions, Level::DEBUG, 10, 1, "clients' sockets did not take their options"),
    row(Kind::Idle, Level::DEBUG, 100, 1, "idle clients were closed"),
    row(Kind::InputLimit, Level::WARN, 1, 1, "clients were closed for a request larger than client-query-buffer-limit"),
    row(Kind::OutputLimit, Level::WARN, 1, 1, "clients were closed because they did not take their output"),
    row(Kind::Evicted, Level::WARN, 1, 1, "clients were closed because all of them held more than maxmemory-clients"),
    row(Kind::AuthTimeout, Level::WARN, 1, 1, "clients were closed because they did not log in within auth-timeout"),
    row(
        Kind::HandshakeEvicted,
        Level::WARN,
        1,
        1,
        "TLS handshakes were ended because as many as may be were under way",
    ),
    // As in Redis.
    row(Kind::Http, Level::WARN, 1, 60, "connections were aborted as possible attacks by Cross Protocol Scripting"),
    row(Kind::AcceptFails, Level::ERROR, 1, 1, "times accepting clients began to fail"),
    row(Kind::AcceptsAgain, Level::WARN, 1, 1, "times clients could be accepted again"),
    row(Kind::MonitorDropped, Level::WARN, 1, 1, "monitors did not keep up and were closed"),
    row(Kind::Bug, Level::ERROR, 10, 1, "connections ended in a bug"),
    row(Kind::ShutdownRefused, Level::ERROR, 1, 1, "SHUTDOWN commands were refused because the state cannot be saved"),
    row(Kind::Settings, Level::WARN, 10, 1, "warnings about changes of settings were left out"),
    row(Kind::AuditLogin, Level::INFO, 100, 1, "logins"),
    row(Kind::AuditLoginFailed, Level::WARN, 10, 1, "failed logins"),
    row(Kind::AuditConfig, Level::INFO, 10, 1, "CONFIG SET, REWRITE or RESETSTAT commands"),
    row(Kind::AuditAcl, Level::INFO, 10, 1, "ACL commands"),
    row(Kind::AuditClient, Level::WARN, 10, 1, "CLIENT KILL, PAUSE or UNPAUSE commands"),
    row(Kind::AuditMonitor, Level::INFO, 10, 1, "MONITOR commands"),
    row(Kind::AuditShutdown, Level::WARN, 10, 1, "SHUTDOWN commands"),
];

impl Kind {
    /// The level of its lines.
    pub const fn level(self) -> Level {
        ROWS[self as usize].level
    }

    /// Whether its lines say who did what.
    pub const fn is_audit(self) -> bool {
        self as usize >= Kind::AuditLogin as usize
    }
}

/// How many lines of each kind there were of late.
#[derive(Debug, Default)]
pub struct ClientLines {
    kinds: [Seen; ROWS.len()],
    /// Lines that say who did what, since the second began: each user has its own, up to [`USERS_MAX`] of them.
    by_user: Mutex<HashMap<(usize, Arc<str>), u64>>,
    /// When [`ClientLines::turn`] was called last, in seconds of uptime.
    turned_s: AtomicU64,
}

/// Users and kinds whose lines are counted apart in a second; those beyond share one count.
const USERS_MAX: usize = 64;

#[derive(Debug, Default)]
struct Seen {
    /// Since the span began.
    count: AtomicU64,
    /// Not written, and not told yet.
    left_out: AtomicU64,
}

impl ClientLines {
    /// Counts a line; whether it may be written.
    pub fn admits(&self, kind: Kind) -> bool {
        self.admits_many(kind, 1)
    }

    /// As [`ClientLines::admits`] for a line that stands for several events: all are counted, one line is written.
    pub fn admits_many(&self, kind: Kind, count: u64) -> bool {
        let seen = &self.kinds[kind as usize];
        let is_admitted = seen.count.fetch_add(1, Relaxed) < ROWS[kind as usize].count_max;
        if !is_admitted {
            // What one line would have said of all of them.
            seen.left_out.fetch_add(count, Relaxed);
        }
        is_admitted
    }

    /// As [`ClientLines::admits`] for a line that says what `user` did: nobody's flood hides what another user does.
    pub fn admits_by(&self, kind: Kind, user: &Arc<str>) -> bool {
        // Counts, each of which is changed at once.
        let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = by_user.len() < USERS_MAX || by_user.contains_key(&(kind as usize, Arc::clone(user)));
        if !is_known {
            drop(by_user);
            return self.admits(kind);
        }
        let count = by_user.entry((kind as usize, Arc::clone(user))).or_default();
        *count += 1;
        let is_admitted = *count <= ROWS[kind as usize].count_max;
        if !is_admitted {
            self.kinds[kind as usize].left_out.fetch_add(1, Relaxed);
        }
        is_admitted
    }

    /// Ends the spans that are over at `now_s` seconds of uptime; what was left out in them.
    pub fn turn(&self, now_s: u64) -> Vec<LeftOut> {
        let last_s = self.turned_s.swap(now_s, Relaxed);
        if now_s != last_s {
            self.by_user.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.end(|row| now_s / row.every_s != last_s / row.every_s)
    }

    /// Ends all spans: what was left out and not told yet.
    pub fn end_all(&self) -> Vec<LeftOut> {
        self.end(|_| true)
    }

    fn end(&self, is_over: impl Fn(&Row) -> bool) -> Vec<LeftOut> {
        let over = ROWS.iter().zip(&self.kinds).filter(|(row, _)| is_over(row));
        let left_out = over.map(|(row, seen)| {
            seen.count.store(0, Relaxed);
            LeftOut { kind: row.kind, count: seen.left_out.swap(0, Relaxed) }
        });
        left_out.filter(|left_out| left_out.count > 0).collect()
    }
}

/// Lines of a kind that were not written. `Display` is the line that stands for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Which.
    pub kind: Kind,
    /// How many, at least one.
    pub count: u64,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { what, every_s, .. } = ROWS[self.kind as usize];
        let count = self.count;
        match every_s {
            1 => write!(f, "{count} more within a second that have no line of their own: {what}"),
            _ => write!(f, "{count} more within {every_s} s that have no line of their own: {what}"),
        }
    }
}

impl LeftOut {
    /// Writes that line.
    pub fn tell(&self) {
        // A level is a part of a line's place in the code.
        match (self.kind.level(), self.kind.is_audit()) {
            (Level::ERROR, _) => tracing::error!("{self}"),
            (Level::WARN, true) => tracing::warn!(target: super::AUDIT, "{self}"),
            (Level::WARN, false) => tracing::warn!("{self}"),
            (Level::INFO, true) => tracing::info!(target: super::AUDIT, "{self}"),
            (Level::INFO, false) => tracing::info!("{self}"),
            (Level::DEBUG, _) => tracing::debug!("{self}"),
            (Level::TRACE, _) => tracing::trace!("{self}"),
        }
    }
}

/// Writes a line of a kind that clients cause, if it is shown at all and its kind has room for it:
/// `client_line!(lines, InputLimit, "client {id} is closed")`.
macro_rules! client_line {
    ($lines:expr, $kind:ident, by: $user:expr, target: $target:expr, $($message:tt)+) => {{
        const KIND: $crate::logging::lines::Kind = $crate::logging::lines::Kind::$kind;
        if ::tracing::enabled!(target: $target, KIND.level()) && $lines.admits_by(KIND, $user) {
            ::tracing::event!(target: $target, KIND.level(), $($message)+);
        }
    }};
    ($lines:expr, $kind:ident, target: $target:expr, $($message:tt)+) => {{
        const KIND: $crate::logging::lines::Kind = $crate::logging::lines::Kind::$kind;
        if ::tracing::enabled!(target: $target, KIND.level()) && $lines.admits(KIND) {
            ::tracing::event!(target: $target, KIND.level(), $($message)+);
        }
    }};
    ($lines:expr, $kind:ident, $($message:tt)+) => {
        client_line!($lines, $kind, target: module_path!(), $($message)+)
    };
}

pub(crate) use client_line;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, at, "{:?}", row.kind);
            assert!(row.count_max > 0 && row.every_s > 0);
        }
        assert_eq!(Kind::AuditShutdown as usize, ROWS.len() - 1);
    }

    #[test]
    fn a_flood_is_ten_lines_and_a_count() {
        let lines = ClientLines::default();
        let written = (0..260_000).filter(|_| lines.admits(Kind::AuditClient)).count();
        assert_eq!(written, 10);
        assert!(lines.admits(Kind::AuditMonitor), "kinds do not share");
        assert_eq!(lines.turn(0), [], "the span is not over");
        let left_out = lines.turn(1);
        assert_eq!(left_out, [LeftOut { kind: Kind::AuditClient, count: 259_990 }]);
        assert_eq!(
            left_out[0].to_string(),
            "259990 more within a second that have no line of their own: CLIENT KILL, PAUSE or UNPAUSE commands"
        );
        assert_eq!(lines.turn(2), []);
        assert!(lines.admits(Kind::AuditClient), "a new span");
    }

    #[test]
    fn what_a_user_does_is_hidden_by_no_other() {
        let lines = ClientLines::default();
        let [loud, quiet]: [Arc<str>; 2] = ["loud".into(), "quiet".into()];
        let written = (0..1000).filter(|_| lines.admits_by(Kind::AuditConfig, &loud)).count();
        assert_eq!(written, 10);
        assert!(lines.admits_by(Kind::AuditConfig, &quiet) && lines.admits_by(Kind::AuditAcl, &loud));
        assert_eq!(lines.turn(1), [LeftOut { kind: Kind::AuditConfig, count: 990 }]);
        assert!(lines.admits_by(Kind::AuditConfig, &loud), "a new span");
        // However many users: those beyond the bound share one count.
        let users: Vec<Arc<str>> = (0..1000).map(|number| number.to_string().into()).collect();
        let written = users.iter().filter(|user| lines.admits_by(Kind::AuditConfig, user)).count();
        assert_eq!(written, USERS_MAX - 1 + 10);
        assert_eq!(lines.by_user.lock().unwrap().len(), USERS_MAX);
        assert!(lines.admits_by(Kind::AuditConfig, &loud), "who has a count keeps it");
    }

    #[test]
    fn a_kind_may_have_a_longer_span() {
        let lines = ClientLines::default();
        assert!(lines.admits(Kind::Http));
        assert_eq!(lines.turn(59), []);
        assert!(!lines.admits(Kind::Http));
        assert_eq!(lines.turn(61), [LeftOut { kind: Kind::Http, count: 1 }]);
        assert!(lines.admits(Kind::Http));
        assert!(!lines.admits(Kind::Http));
        assert_eq!(lines.end_all(), [LeftOut { kind: Kind::Http, count: 1 }]);
    }

    #[test]
    fn a_line_that_stands_for_many_is_counted_as_many_when_it_is_left_out() {
        let lines = ClientLines::default();
        for _ in 0..10 {
            assert!(lines.admits_many(Kind::AuditLoginFailed, 5));
        }
        assert!(!lines.admits_many(Kind::AuditLoginFailed, 5));
        assert_eq!(lines.end_all(), [LeftOut { kind: Kind::AuditLoginFailed, count: 5 }]);
    }
}
