//! Who may do what: Redis's users and their rules.
//!
//! [`Users`] is a value. A change makes a new value of it ([`Users::with_user`]) and the server swaps them, so that a
//! request never meets a user half changed, and a mistake in the last of ten rules leaves all as it was. A session
//! keeps its [`User`] and asks it one bit for each request, and more only where the arguments matter.
//!
//! Rules are Redis's, to the letter of their errors. A key is the name of a generator or of a sequence. Passwords are
//! kept as digests.
//!
//! Pure: files are read and written, and clocks looked at, elsewhere.

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

pub use file::{LineFault, parse_file};
pub use guard::{Origin, Protection, denied};
pub use log::{AclLog, Context, Denial, Reason, Seen};
pub use login_limiter::{GUESSES_PER_S_MAX, LOGINS_IN_TRANSACTION_MAX, LoginLimiter, SOURCES_MAX, Source};
pub use login_log::{LoginLog, Repeated};
pub use password::Digest;
pub use permissions::CommandSet;
use permissions::has_blanks;
pub use user::{Proof, User};

use crate::command::{Categories, Command, quote, rows};
use crate::resp::Value;

/// The user that every connection begins as.
pub const DEFAULT_USER: &str = "default";

/// The longest password of `requirepass`, bytes; Redis's `CONFIG_AUTHPASS_MAX_LEN`.
pub const PASSWORD_BYTES_MAX: usize = 512;

/// The longest name of a user, bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// The most that a user's rules may take as text, bytes. All command names of Redis take 4 KB.
pub const RULES_BYTES_MAX: usize = 64 << 10;

/// The most words that a user's rules may be, those in selectors counted one by one: what is looked for among them is
/// looked for one by one. All commands and subcommands of Redis are 400.
pub const RULES_MAX: usize = 1024;

/// The longest line of a user that can be set, bytes.
const LINE_BYTES_MAX: usize = "user ".len() + NAME_BYTES_MAX + " ".len() + RULES_BYTES_MAX;

/// The most users.
pub const USERS_MAX: usize = 10_000;

/// What is shown instead of a secret, as in Redis.
pub const REDACTED: &str = "(redacted)";

/// All users of a server. There always is the default one.
#[derive(Clone, Debug)]
pub struct Users {
    default: Arc<User>,
    others: BTreeMap<Arc<str>, Arc<User>>,
    /// The incarnations that were given out; the default user's is 0. Never goes back, whoever is deleted.
    incarnations: u64,
}

impl Default for Users {
    /// The default user alone, who may do everything without a password.
    fn default() -> Users {
        Users { default: Arc::new(User::default_user()), others: BTreeMap::new(), incarnations: 0 }
    }
}

impl Users {
    /// The user that every connection begins as.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// The user of this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        if name == DEFAULT_USER.as_bytes() {
            return Some(&self.default);
        }
        self.others.get(str::from_utf8(name).ok()?)
    }

    /// The user whom name and password fit.
    pub fn log_in(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        // Taken in any case, so that the time does not tell whether there is such a user.
        let password = Digest::of(password);
        self.get(name).filter(|user| user.admits(&password))
    }

    /// All users, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        let is_before = |user: &&Arc<User>| **user.name() < *DEFAULT_USER;
        let (before, after) = (self.others.values().take_while(is_before), self.others.values().skip_while(is_before));
        before.chain([&self.default]).chain(after)
    }

    /// `ACL SETUSER`: a user changed by these rules, or a new one. Rules of a selector may be spread over several
    /// words.
    ///
    /// # Errors
    ///
    /// [`SetUserError`]; none of the rules counts then.
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
        // What is kept must be fit to be read again.
        check_size(&user.describe().split(' ').collect::<Vec<_>>())?;
        self.insert(user);
        Ok(())
    }

    /// A `user` line of the configuration: a new user by these rules, also in the place of the default one.
    ///
    /// # Errors
    ///
    /// [`SetUserError`].
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

    /// `ACL DELUSER`: without the users of these names, and who they were. The default user cannot be among them.
    pub fn without(&self, names: &[impl AsRef<[u8]>]) -> (Users, Vec<Arc<str>>) {
        let mut users = self.clone();
        let mut gone = Vec::new();
        for name in names.iter().filter_map(|name| str::from_utf8(name.as_ref()).ok()) {
            gone.extend(users.others.remove(name).map(|user| Arc::clone(user.name())));
        }
        (users, gone)
    }

    /// `requirepass`: the default user has this password and no other; with `None` none is needed. All else stays.
    #[must_use]
    pub fn with_default_password(&self, password: Option<&str>) -> Users {
        let mut user = User::clone(&self.default);
        user.set_password(password);
        Users { default: Arc::new(user), ..self.clone() }
    }

    /// These users in the place of `old`, as `ACL LOAD` has it: a user that was there before is the same user with
    /// other rules, and its logins stay.
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

    /// A line for each user, by name: `user default on nopass ...`, as `ACL LIST` and the files have it.
    pub fn describe_all(&self) -> Vec<String> {
        self.iter().map(|user| format!("user {} {}", user.name(), user.describe())).collect()
    }
}

/// Whether these rules are as few and as short as a user's may be, with a blank between two of them.
fn check_size(rules: &[impl AsRef<[u8]>]) -> Result<(), SetUserError> {
    let (mut bytes, mut words) = (rules.len().saturating_sub(1), 0);
    for rule in rules.iter().map(AsRef::as_ref) {
        bytes += rule.len();
        // Blanks are parts of a password, and part the words of a selector, which may be spread over several rules.
        let is_password = rule.starts_with(b">") || rule.starts_with(b"<");
        words += 1 + if is_password { 0 } else { rule.iter().filter(|byte| byte.is_ascii_whitespace()).count() };
    }
    if bytes > RULES_BYTES_MAX {
        return Err(SetUserError::TooLong);
    }
    if words > RULES_MAX { Err(SetUserError::TooManyRules) } else { Ok(()) }
}

/// Joins selectors that were spread over several words: `(+ping`, `+echo)`. An error is where one begins that never
/// ends.
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

/// Why a rule cannot be taken. `Display` is Redis's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A command or a category that neither Redis nor getid has.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// No rule at all.
    #[error("Syntax error")]
    Syntax,
    /// `~x` behind `~*`.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    KeysAfterAll,
    /// `&x` behind `&*`.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
         'resetchannels' to start with an empty list of channels"
    )]
    ChannelsAfterAll,
    /// `<x` or `!x` of a password that the user does not have.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// `#x` that is not a digest.
    #[error("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")]
    BadHash,
    /// `+config|get|x`.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
}

/// Why a user cannot be set.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetUserError {
    /// The name has blanks in it, is too long, or is not UTF-8.
    #[error("Usernames can't contain spaces or null characters")]
    Name,
    /// A selector that has no end begins at the rule of this number, from 0.
    #[error("Unmatched parenthesis in acl selector")]
    Parenthesis {
        /// From 0.
        start: usize,
    },
    /// A rule that cannot be taken.
    #[error("{error}")]
    Rule {
        /// Which, from 0; the words of a selector count as one.
        index: usize,
        /// As it was given; it may have a password in it.
        rule: Vec<u8>,
        /// Why.
        error: RuleError,
    },
    /// There would be more than [`USERS_MAX`].
    #[error("there are {USERS_MAX} users already")]
    TooMany,
    /// The rules would take more than [`RULES_BYTES_MAX`].
    #[error("the rules of one user take more than {RULES_BYTES_MAX} bytes")]
    TooLong,
    /// The rules would be more than [`RULES_MAX`] words.
    #[error("the rules of one user are more than {RULES_MAX} words")]
    TooManyRules,
}

impl SetUserError {
    /// What `ACL SETUSER` answers who gave these rules: Redis's text, code included.
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

/// Without the rule, which may have a password in it.
impl fmt::Debug for SetUserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SetUserError({self})")
    }
}

/// `ACL CAT`: the names of all categories that Redis has.
pub fn categories() -> Value {
    Value::Array(redis_names::CATEGORIES.into_iter().map(Value::from).collect())
}

/// `ACL CAT name`: the commands of a category here, subcommands included, by their original names; `None` for a name
/// that is not a category.
pub fn commands_in(category: &[u8]) -> Option<Value> {
    redis_names::CATEGORIES.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(category))?;
    let category = Categories::named(category);
    let is_in = |command: &&Command| category.is_some_and(|category| command.categories.has(category));
    Some(Value::Array(rows().filter(is_in).map(|command| Value::from(command.full_name)).collect()))
}
