//! `ACL LOG`: refused commands and logins.
//!
//! A refused client retries again and again. Like refusals within a minute are one entry with a count, so that the log
//! also keeps older causes.
//!
//! A client that guesses passwords could fill the log with made-up names. So failed logins are counted by address: by
//! name for existing users, and together for all other names. Neither kind of refusal can push out the last entries of
//! the other.

use std::collections::VecDeque;
use std::sync::Arc;

use super::LoginSource;
use crate::resp::Value;

/// Why a request or a login was refused.
///
/// The order is Redis's: of several selectors, the refusal that compares greatest is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DenialReason {
    /// The user may not run the command.
    Command,
    /// The user may not access the generator or the sequence in this way.
    Key,
    /// The user may not use the channel.
    Channel,
    /// The name and the password do not match.
    Auth,
}

/// Where a refusal happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Outside of a transaction.
    TopLevel,
    /// In a transaction, between `MULTI` and the end of `EXEC`.
    Multi,
}

/// A refused request, as a session reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The reason of the refusal.
    pub reason: DenialReason,
    /// Whether it happened inside `MULTI`.
    pub context: Context,
    /// The full name of the command, or the name of the key or the channel. For a failed login, the word that requested
    /// it, as it was sent.
    pub object: String,
    /// The user's name, or the name that the client sent.
    pub user: Arc<str>,
    /// Number of like refusals in a row.
    pub count: u64,
}

impl Denial {
    /// Whether both are equal except for their counts.
    pub(crate) fn is_like(&self, other: &Denial) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.object == other.object
            && self.user == other.user
    }
}

/// A refusal, or several like refusals.
#[derive(Clone, Debug)]
pub struct AclLogEntry {
    denial: Denial,
    origin: DenialOrigin,
    client: String,
    id: u64,
    created_ms: i64,
    updated_ms: i64,
}

/// What the server adds to a session's report of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenialOrigin {
    /// Where the client connects from.
    pub source: LoginSource,
    /// Whether a user of that name exists.
    pub is_known_user: bool,
}

/// The latest refusals, the newest first.
#[derive(Debug, Default)]
pub struct AclLog {
    entries: VecDeque<Arc<AclLogEntry>>,
    next_id: u64,
}

/// Like refusals farther apart than this are two entries, ms.
const ALIKE_MS: i64 = 60_000;

/// Number of the latest entries that are compared with a new one. It is the default length of the log.
const COMPARED_ENTRIES: usize = 128;

impl AclLog {
    /// Adds a refusal: `client` is the client's line as in `CLIENT LIST`, `now_ms` is Unix time, and at most `len_max`
    /// entries are kept.
    pub fn note(&mut self, denial: Denial, origin: DenialOrigin, client: String, now_ms: i64, len_max: usize) {
        let is_like = |entry: &Arc<AclLogEntry>| {
            let is_same = match denial.reason {
                DenialReason::Command | DenialReason::Key | DenialReason::Channel => entry.denial.is_like(&denial),
                DenialReason::Auth => {
                    entry.denial.reason == DenialReason::Auth
                        && entry.origin == origin
                        && (!origin.is_known_user || entry.denial.user == denial.user)
                }
            };
            is_same && (now_ms - entry.updated_ms).abs() <= ALIKE_MS
        };
        let known = self.entries.iter().take(COMPARED_ENTRIES).position(is_like);
        let known = known.and_then(|index| self.entries.remove(index)).map(Arc::unwrap_or_clone);
        let entry = if let Some(mut entry) = known {
            // Of like refusals, the entry shows the latest.
            let count = entry.denial.count + denial.count;
            entry.denial = Denial { count, ..denial };
            AclLogEntry { client, updated_ms: now_ms, ..entry }
        } else {
            let id = self.next_id;
            self.next_id += 1;
            AclLogEntry { denial, origin, client, id, created_ms: now_ms, updated_ms: now_ms }
        };
        self.entries.push_front(Arc::new(entry));
        self.forget(len_max);
    }

    /// Keeps at most `len_max` entries: the oldest of the kind that exceeds half of them are dropped first.
    fn forget(&mut self, len_max: usize) {
        let Some(excess) = self.entries.len().checked_sub(len_max).filter(|&excess| excess > 0) else { return };
        let logins = self.entries.iter().filter(|entry| entry.denial.reason == DenialReason::Auth).count();
        let logins_removed = excess.min(logins.saturating_sub(len_max.div_ceil(2)));
        let mut logins_left = logins - logins_removed;
        let mut commands_left = (self.entries.len() - logins).saturating_sub(excess - logins_removed);
        self.entries.retain(|entry| {
            let left = match entry.denial.reason {
                DenialReason::Auth => &mut logins_left,
                DenialReason::Command | DenialReason::Key | DenialReason::Channel => &mut commands_left,
            };
            let is_kept = *left > 0;
            *left -= usize::from(is_kept);
            is_kept
        });
    }

    /// Returns at most `count` of the latest entries, for `ACL LOG count`.
    pub fn latest(&self, count: usize) -> Vec<Arc<AclLogEntry>> {
        self.entries.iter().take(count).cloned().collect()
    }

    /// Removes all entries, for `ACL LOG RESET`. Entry numbers continue.
    pub fn reset(&mut self) {
        self.entries = VecDeque::new();
    }
}

impl AclLogEntry {
    /// Memory that the entry takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<AclLogEntry>() + self.denial.object.len() + self.denial.user.len() + self.client.len()
    }

    /// Returns the entry as `ACL LOG` shows it at `now_ms`.
    pub fn to_value(&self, now_ms: i64) -> Value {
        let reason = match self.denial.reason {
            DenialReason::Command => "command",
            DenialReason::Key => "key",
            DenialReason::Channel => "channel",
            DenialReason::Auth => "auth",
        };
        let context = match self.denial.context {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
        };
        #[expect(clippy::cast_precision_loss, reason = "an age for people")]
        let age_s = (now_ms - self.updated_ms) as f64 / 1000.0;
        Value::map([
            ("count", Value::Integer(self.denial.count.cast_signed())),
            ("reason", Value::from(reason)),
            ("context", Value::from(context)),
            ("object", Value::bulk(self.denial.object.clone())),
            ("username", Value::from(&*self.denial.user)),
            ("age-seconds", Value::Double(age_s)),
            ("client-info", Value::bulk(self.client.clone())),
            ("entry-id", Value::Integer(self.id.cast_signed())),
            ("timestamp-created", Value::Integer(self.created_ms)),
            ("timestamp-last-updated", Value::Integer(self.updated_ms)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of unlike refusals of commands (`c`) and logins (`l`), the oldest first.
    fn log_of(kinds: &str) -> AclLog {
        let mut log = AclLog::default();
        for (number, kind) in (0_u32..).zip(kinds.chars()) {
            let reason = if kind == 'l' { DenialReason::Auth } else { DenialReason::Command };
            let user: Arc<str> = number.to_string().into();
            let denial = Denial { reason, context: Context::TopLevel, object: kind.to_string(), user, count: 1 };
            let origin = DenialOrigin { source: LoginSource::Unix, is_known_user: true };
            log.note(denial, origin, String::new(), 0, kinds.len());
        }
        log
    }

    #[track_caller]
    fn check(kinds: &str, len_max: usize, expected: &str) {
        let mut log = log_of(kinds);
        log.forget(len_max);
        let left: Vec<usize> = log.entries.iter().rev().map(|entry| entry.denial.user.parse().unwrap()).collect();
        let left: String =
            kinds.chars().enumerate().map(|(at, kind)| if left.contains(&at) { kind } else { '.' }).collect();
        assert_eq!(left, expected, "{kinds} cut to {len_max}");
    }

    #[test]
    fn a_log_that_is_cut_keeps_the_latest_of_both_kinds() {
        check("clcl", 4, "clcl");
        check("clcl", 3, ".lcl");
        check("clcl", 2, "..cl");
        check("clcl", 1, "...l");
        check("clcl", 0, "....");
        check("llllcc", 4, "..llcc");
        check("cclllll", 4, "cc...ll");
        check("lcccccc", 4, "l...ccc");
        check("cccccc", 4, "..cccc");
        check("llllll", 5, ".lllll");
    }
}
