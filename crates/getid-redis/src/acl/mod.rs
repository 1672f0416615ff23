//! Users and their rules, as in Redis.
//!
//! [`Users`] is a value. A change makes a new value ([`Users::with_user`]) and the server swaps them. So a request
//! never sees a user half changed, and a mistake in the last of ten rules changes nothing. A session keeps its [`User`]
//! and tests one bit of it for each request; it checks more only where the arguments matter.
//!
//! Rules and their errors are Redis's to the letter. A key is the name of a generator or of a sequence. Passwords are
//! kept as digests.
//!
//! Pure: other modules read and write the files and the clock.

mod file;
mod guard;
mod log;
mod login_limiter;
mod login_log;
mod password;
mod permissions;
mod redis_names;
mod user;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use file::{AclLineError, parse_file};
pub use guard::{Origin, Protection, denied};
pub use log::{AclLog, Context, Denial, DenialOrigin, DenialReason};
pub use login_limiter::{GUESSES_PER_S_MAX, LOGINS_IN_TRANSACTION_MAX, LoginLimiter, LoginSource, SOURCES_MAX};
pub use login_log::{LoginLog, RepeatedLogins};
pub use password::Digest;
pub use permissions::CommandSet;
use permissions::has_blanks;
pub use user::{Proof, User};

use crate::command::{Categories, Command, quote, rows};
use crate::resp::Value;

/// Name of the user that every connection begins as.
pub const DEFAULT_USER: &str = "default";

/// The longest password of `requirepass`, bytes; Redis's `CONFIG_AUTHPASS_MAX_LEN`.
pub const PASSWORD_BYTES_MAX: usize = 512;

/// The longest name of a user, bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// The longest rules of a user as text, bytes. All command names of Redis take 4 KB.
pub const RULES_BYTES_MAX: usize = 64 << 10;

/// The most words of a user's rules, words in selectors included; a lookup among them is linear. Redis has 400 commands
/// and subcommands.
pub const RULES_MAX: usize = 1024;

/// The longest `user` line that can be set, bytes.
const LINE_BYTES_MAX: usize = "user ".len() + NAME_BYTES_MAX + " ".len() + RULES_BYTES_MAX;

/// The most users of a server.
pub const USERS_MAX: usize = 10_000;

/// Text that is shown instead of a secret, as in Redis.
pub const REDACTED: &str = "(redacted)";

/// All users of a server. The default user always exists.
#[derive(Clone, Debug)]
pub struct Users {
    default: Arc<User>,
    others: BTreeMap<Arc<str>, Arc<User>>,
    /// Incarnations that were assigned; the default user's is 0. Deleting a user does not lower it.
    incarnations: u64,
}

impl Default for Users {
    /// Returns the default user alone, who may run everything without a password.
    fn default() -> Users {
        Users { default: Arc::new(User::default_user()), others: BTreeMap::new(), incarnations: 0 }
    }
}

impl Users {
    /// Returns the user that every connection begins as.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// Returns the user of this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        if name == DEFAULT_USER.as_bytes() {
            return Some(&self.default);
        }
        self.others.get(str::from_utf8(name).ok()?)
    }

    /// Returns the user whose name and password match.
    pub fn log_in(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        // Computed in any case, so that the time does not reveal whether the user exists.
        let password = Digest::of(password);
        self.get(name).filter(|user| user.admits(&password))
    }

    /// Returns all users, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        let is_before = |user: &&Arc<User>| **user.name() < *DEFAULT_USER;
        let (before, after) = (self.others.values().take_while(is_before), self.others.values().skip_while(is_before));
        before.chain([&self.default]).chain(after)
    }

    /// `ACL SETUSER`: returns the users with one of them changed by the rules or added. A selector may span several
    /// words.
    ///
    /// # Errors
    ///
    /// [`SetUserError`]; then none of the rules counts.
    pub fn with_user(&self, name: &[u8], rules: &[impl AsRef<[u8]>]) -> Result<Users, SetUserError> {
        let mut users = self.clone();
        users.set_user(name, rules, false)?;
        Ok(users)
    }

    fn set_user(&mut self, name: &[u8], rules: &[impl AsRef<[u8]>], replaces: bool) -> Result<(), SetUserError> {
        let text = str::from_utf8(name).ok().filter(|_| user::is_name(name)).ok_or(SetUserError::Name)?;
        check_size(rules)?;
        let rules = merge_selectors(rules).map_err(|start| SetUserError::Parenthesis { start })?;
        let mut user = match self.get(name) {
            Some(user) if !replaces => User::clone(user),
            None if self.others.len() + 1 >= USERS_MAX => return Err(SetUserError::TooMany),
            _ => {
                let incarnation = match self.get(name) {
                    Some(user) => user.incarnation(),
                    None => self.next_incarnation(),
                };
                User::new(text).with_incarnation(incarnation)
            }
        };
        for (index, rule) in rules.into_iter().enumerate() {
            user.take_rule(&rule).map_err(|error| SetUserError::Rule { index, rule, error })?;
        }
        user.sum_up();
        // The stored form must be within the bounds too, so that it can be read again.
        check_size(&user.describe().split(' ').collect::<Vec<_>>())?;
        self.insert(user);
        Ok(())
    }

    /// Adds the user of a `user` line of the configuration by its rules. Replaces a user of the same name, also the
    /// default one.
    ///
    /// # Errors
    ///
    /// [`SetUserError`]; then none of the rules counts.
    pub fn define(&mut self, name: &[u8], rules: &[impl AsRef<[u8]>]) -> Result<(), SetUserError> {
        self.set_user(name, rules, true)
    }

    fn insert(&mut self, user: User) {
        if **user.name() == *DEFAULT_USER {
            self.default = Arc::new(user);
        } else {
            self.others.insert(Arc::clone(user.name()), Arc::new(user));
        }
    }

    /// `ACL DELUSER`: returns the users without these names, and the names that were removed. The default user stays.
    pub fn without(&self, names: &[impl AsRef<[u8]>]) -> (Users, Vec<Arc<str>>) {
        let mut users = self.clone();
        let mut removed = Vec::new();
        for name in names.iter().filter_map(|name| str::from_utf8(name.as_ref()).ok()) {
            removed.extend(users.others.remove(name).map(|user| Arc::clone(user.name())));
        }
        (users, removed)
    }

    /// `requirepass`: gives the default user this password only; with `None` it needs none. All else stays.
    #[must_use]
    pub fn with_default_password(&self, password: Option<&str>) -> Users {
        let mut user = User::clone(&self.default);
        user.set_password(password);
        Users { default: Arc::new(user), ..self.clone() }
    }

    /// `ACL LOAD`: returns these users as the successors of `old`. A user that existed before keeps its incarnation, so
    /// its logins stay.
    #[must_use]
    pub fn in_place_of(mut self, old: &Users) -> Users {
        self.incarnations = old.incarnations;
        let names: Vec<Arc<str>> = self.others.keys().map(Arc::clone).collect();
        for name in names {
            let incarnation = match old.others.get(&name) {
                Some(user) => user.incarnation(),
                None => self.next_incarnation(),
            };
            if let Some(user) = self.others.get_mut(&name) {
                *user = Arc::new(User::clone(user).with_incarnation(incarnation));
            }
        }
        self
    }

    fn next_incarnation(&mut self) -> u64 {
        self.incarnations += 1;
        self.incarnations
    }

    /// Returns a line for each user, by name: `user default on nopass ...`, as in `ACL LIST` and ACL files.
    pub fn describe_all(&self) -> Vec<String> {
        self.iter().map(|user| format!("user {} {}", user.name(), user.describe())).collect()
    }
}

/// Fails if the rules, joined with blanks, exceed the bounds of a user's rules.
fn check_size(rules: &[impl AsRef<[u8]>]) -> Result<(), SetUserError> {
    let (mut bytes, mut words) = (rules.len().saturating_sub(1), 0);
    for rule in rules.iter().map(AsRef::as_ref) {
        bytes += rule.len();
        // Blanks are part of a password. Elsewhere they separate the words of a selector, which may span several rules.
        let is_password = rule.starts_with(b">") || rule.starts_with(b"<");
        words += 1 + if is_password { 0 } else { rule.iter().filter(|byte| byte.is_ascii_whitespace()).count() };
    }
    if bytes > RULES_BYTES_MAX {
        return Err(SetUserError::TooLong);
    }
    if words > RULES_MAX { Err(SetUserError::TooManyRules) } else { Ok(()) }
}

/// Joins selectors that span several words: `(+ping`, `+echo)`. The error is the index at which a selector without an
/// end begins.
fn merge_selectors(rules: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>, usize> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, rule) in rules.iter().enumerate() {
        let rule = rule.as_ref();
        let ends = rule.ends_with(b")");
        match open.take() {
            // As in Redis, a second opening forgets the first.
            _ if rule.starts_with(b"(") && !ends => open = Some((index, rule.to_vec())),
            None => merged.push(rule.to_vec()),
            Some((start, mut selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(rule);
                if ends {
                    merged.push(selector);
                } else {
                    open = Some((start, selector));
                }
            }
        }
    }
    open.map_or(Ok(merged), |(start, _)| Err(start))
}

/// Why a rule is refused. `Display` is Redis's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A command or a category that neither Redis nor getid has.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// The text is no rule.
    #[error("Syntax error")]
    Syntax,
    /// A pattern `~x` after `~*`.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    KeysAfterAll,
    /// A pattern `&x` after `&*`.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
         'resetchannels' to start with an empty list of channels"
    )]
    ChannelsAfterAll,
    /// A rule `<x` or `!x` for a password that the user does not have.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// A rule `#x` that is not a digest.
    #[error("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")]
    BadHash,
    /// A first argument after a subcommand, as in `+config|get|x`.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
}

/// Why a user cannot be set.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetUserError {
    /// The name has blanks in it, is too long, or is not UTF-8.
    #[error("Usernames can't contain spaces or null characters")]
    Name,
    /// A selector without an end.
    #[error("Unmatched parenthesis in acl selector")]
    Parenthesis {
        /// Index of the rule at which the selector begins, from 0.
        start: usize,
    },
    /// A rule that is refused.
    #[error("{error}")]
    Rule {
        /// Index of the rule, from 0; the words of a selector count as one.
        index: usize,
        /// The rule as it was given; it may contain a password.
        rule: Vec<u8>,
        /// Why the rule is refused.
        error: RuleError,
    },
    /// The server already has [`USERS_MAX`] users.
    #[error("there are already {USERS_MAX} users")]
    TooMany,
    /// The rules exceed [`RULES_BYTES_MAX`] bytes.
    #[error("the rules of one user take more than {RULES_BYTES_MAX} bytes")]
    TooLong,
    /// The rules exceed [`RULES_MAX`] words.
    #[error("the rules of one user are more than {RULES_MAX} words")]
    TooManyRules,
}

impl SetUserError {
    /// Returns the reply of `ACL SETUSER` to these rules: Redis's text, with the error code.
    pub fn reply(&self, rules: &[impl AsRef<[u8]>]) -> String {
        let quoted = |rule: &[u8]| String::from_utf8_lossy(quote(rule, rule.len())).into_owned();
        match self {
            SetUserError::Rule { rule, error, .. } => {
                format!("ERR Error in ACL SETUSER modifier '{}': {error}", quoted(rule))
            }
            SetUserError::Parenthesis { start } => {
                let rule = rules.get(*start).map(AsRef::as_ref).unwrap_or_default();
                format!("ERR {self} starting at '{}'.", quoted(rule))
            }
            _ => format!("ERR {self}"),
        }
    }
}

/// Omits the rule, which may contain a password.
impl fmt::Debug for SetUserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SetUserError({self})")
    }
}

/// `ACL CAT`: returns the names of all categories of Redis.
pub fn categories() -> Value {
    Value::Array(redis_names::CATEGORIES.into_iter().map(Value::from).collect())
}

/// `ACL CAT name`: returns getid's commands and subcommands of a category by their original names; `None` for a name
/// that is not a category.
pub fn commands_in(category: &[u8]) -> Option<Value> {
    redis_names::CATEGORIES.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(category))?;
    let category = Categories::named(category);
    let is_in = |command: &&Command| category.is_some_and(|category| command.categories.has(category));
    Some(Value::Array(rows().filter(is_in).map(|command| Value::from(command.full_name)).collect()))
}
