//! `ACL LOG`: who was refused what.
//!
//! A client that is refused tries again, and again. Refusals that are alike within a minute are one entry with a count, so
//! that the log shows what went wrong and not only what went wrong last.
//!
//! Who guesses passwords would fill it with names of its own making, so failed logins are counted by address: those for a user
//! that there is by that user, all others together. And neither kind of refusal can push out the last of the other.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Source;
use crate::resp::Value;

/// Why somebody was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A command that the user may not run.
    Command,
    /// A name and a password that don't fit.
    Auth,
}

/// Where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Outside of `MULTI`.
    TopLevel,
    /// Between `MULTI` and the end of `EXEC`.
    Multi,
}

/// A request that was refused, as a session tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command's full name; of a failed login the word that asked for it, as it was sent.
    pub object: String,
    /// Who it is, or said to be.
    pub user: Arc<str>,
    /// How many times in a row.
    pub count: u64,
}

impl Denial {
    /// Whether the other is the same but for its count.
    pub fn is_like(&self, other: &Denial) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.object == other.object
            && self.user == other.user
    }
}

/// One refusal, or several that are alike.
#[derive(Clone, Debug)]
pub struct Entry {
    denial: Denial,
    seen: Seen,
    client: String,
    id: u64,
    created_ms: i64,
    updated_ms: i64,
}

/// What the server knows of a refusal beside what the session tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where it came from.
    pub source: Source,
    /// Whether there is a user of that name.
    pub is_known_user: bool,
}

/// The latest refusals, the last first.
#[derive(Debug, Default)]
pub struct AclLog {
    entries: VecDeque<Arc<Entry>>,
    next_id: u64,
}

/// Refusals farther apart are two entries, ms.
const ALIKE_MS: i64 = 60_000;

/// How many of the latest entries are looked at for one that is alike: all, if there are no more than the default.
const LOOKED_AT: usize = 128;

impl AclLog {
    /// Takes a refusal in: `client` is the client's line as in `CLIENT LIST`, `now_ms` Unix time, and at most `len_max`
    /// entries are kept.
    pub fn note(&mut self, denial: Denial, seen: Seen, client: String, now_ms: i64, len_max: usize) {
        let is_like = |entry: &Arc<Entry>| {
            let is_same = match denial.reason {
                Reason::Command => entry.denial.is_like(&denial),
                Reason::Auth => {
                    entry.denial.reason == Reason::Auth
                        && entry.seen == seen
                        && (!seen.is_known_user || entry.denial.user == denial.user)
                }
            };
            is_same && (now_ms - entry.updated_ms).abs() <= ALIKE_MS
        };
        let known = self.entries.iter().take(LOOKED_AT).position(is_like);
        let known = known.and_then(|index| self.entries.remove(index)).map(Arc::unwrap_or_clone);
        let entry = if let Some(mut entry) = known {
            // Of those that are counted together, the latest is shown.
            let count = entry.denial.count + denial.count;
            entry.denial = Denial { count, ..denial };
            Entry { client, updated_ms: now_ms, ..entry }
        } else {
            let id = self.next_id;
            self.next_id += 1;
            Entry { denial, seen, client, id, created_ms: now_ms, updated_ms: now_ms }
        };
        self.entries.push_front(Arc::new(entry));
        while self.entries.len() > len_max {
            self.forget_one(len_max);
        }
    }

    /// The oldest of the kind that has more than its half goes.
    fn forget_one(&mut self, len_max: usize) {
        let logins = self.entries.iter().filter(|entry| entry.denial.reason == Reason::Auth).count();
        let reason = if logins > len_max.div_ceil(2) { Reason::Auth } else { Reason::Command };
        let oldest = self.entries.iter().rposition(|entry| entry.denial.reason == reason);
        self.entries.remove(oldest.unwrap_or(self.entries.len().saturating_sub(1)));
    }

    /// `ACL LOG count`: the latest entries, at most so many.
    pub fn latest(&self, count: usize) -> Vec<Arc<Entry>> {
        self.entries.iter().take(count).cloned().collect()
    }

    /// `ACL LOG RESET`. Numbers go on.
    pub fn reset(&mut self) {
        self.entries = VecDeque::new();
    }
}

impl Entry {
    /// As `ACL LOG` shows it, as of `now_ms`.
    pub fn to_value(&self, now_ms: i64) -> Value {
        let reason = match self.denial.reason {
            Reason::Command => "command",
            Reason::Auth => "auth",
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
