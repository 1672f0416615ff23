//! Decides which logins are logged: the first of a user from an address within an hour. The others are counted.
//!
//! A program that connects for each request logs in thousands of times a minute, and its lines would hide all others.
//!
//! Pure: the caller passes the time. Bounded: beyond [`PAIRS_MAX`] pairs of user and address, each login is logged.

use std::collections::HashMap;
use std::sync::Arc;

use super::LoginSource;

/// Pairs of user and address whose logins are counted: 128 KB and the names.
const PAIRS_MAX: usize = 1024;

/// How long logins are counted before the log reports their number.
const COUNTED_NS: u64 = 3600 * 1_000_000_000;

/// Logins of one user from one address since the last one that was logged.
#[derive(Clone, Copy, Debug)]
struct LoginCount {
    /// When that login was logged, ns.
    since_ns: u64,
    count: u64,
}

/// A number of repeated logins, for the line that reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedLogins {
    /// The user's name.
    pub user: Arc<str>,
    /// Where the logins came from.
    pub source: LoginSource,
    /// Number of logins, at least 1.
    pub count: u64,
}

/// Logins within the last hour, by source and user.
#[derive(Debug, Default)]
pub struct LoginLog {
    pairs: HashMap<(LoginSource, Arc<str>), LoginCount>,
}

impl LoginLog {
    /// Counts a login; returns whether it is logged itself.
    pub fn has_line(&mut self, source: LoginSource, user: &Arc<str>, now_ns: u64) -> bool {
        let key = (source, Arc::clone(user));
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.count += 1;
            return false;
        }
        if self.pairs.len() < PAIRS_MAX {
            self.pairs.insert(key, LoginCount { since_ns: now_ns, count: 0 });
        }
        true
    }

    /// Forgets pairs whose hour is over at `now_ns`; returns up to `lines_max` of them that have a count. The others
    /// stay for the next call.
    pub fn end_hours(&mut self, now_ns: u64, lines_max: usize) -> Vec<RepeatedLogins> {
        self.end(lines_max, |pair| now_ns.saturating_sub(pair.since_ns) >= COUNTED_NS)
    }

    /// Forgets all pairs; returns those with a count.
    pub fn end_all(&mut self) -> Vec<RepeatedLogins> {
        self.end(PAIRS_MAX, |_| true)
    }

    fn end(&mut self, lines_max: usize, is_over: impl Fn(&LoginCount) -> bool) -> Vec<RepeatedLogins> {
        let mut ended = Vec::new();
        self.pairs.retain(|(source, user), &mut pair| {
            let stays = !is_over(&pair) || (pair.count > 0 && ended.len() >= lines_max);
            if !stays && pair.count > 0 {
                ended.push(RepeatedLogins { user: Arc::clone(user), source: *source, count: pair.count });
            }
            stays
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    #[test]
    fn the_first_login_of_an_hour_has_a_line_and_the_others_are_counted() {
        let mut logins = LoginLog::default();
        let [app, admin] = ["app", "admin"].map(user);
        let [here, there] = [LoginSource::Unix, LoginSource::of([10, 0, 0, 7].into())];
        let lines = (0..1000).filter(|ns| logins.has_line(here, &app, *ns)).count();
        assert_eq!(lines, 1);
        assert!(
            logins.has_line(there, &app, 5) && logins.has_line(here, &admin, 5),
            "another address and another user are pairs of their own"
        );
        assert_eq!(logins.end_hours(COUNTED_NS - 1, 8), []);
        assert_eq!(logins.end_hours(COUNTED_NS, 8), [RepeatedLogins { user: user("app"), source: here, count: 999 }]);
        assert!(!logins.has_line(there, &app, COUNTED_NS + 4), "its hour is not over");
        assert!(logins.has_line(here, &app, COUNTED_NS), "a new hour");
        assert_eq!(logins.end_all(), [RepeatedLogins { user: user("app"), source: there, count: 1 }]);
        assert_eq!(logins.end_all(), []);
    }

    #[test]
    fn pairs_and_lines_have_a_bound() {
        let mut logins = LoginLog::default();
        let users: Vec<_> = (0..PAIRS_MAX + 5).map(|number| user(&number.to_string())).collect();
        let mut login = || users.iter().filter(|name| logins.has_line(LoginSource::Unix, name, 0)).count();
        assert_eq!((login(), login()), (users.len(), 5), "logins beyond the bound are logged each time");
        assert_eq!(logins.end_hours(COUNTED_NS, 8).len(), 8);
        assert_eq!(logins.pairs.len(), PAIRS_MAX - 8, "pairs that are not reported yet stay");
        assert!(logins.end_all().len() == PAIRS_MAX - 8 && logins.pairs.is_empty());
    }
}
