//! One user: how a client logs in as the user, and what the user may run.

use std::sync::Arc;

use super::guard::unguarded;
use super::log::DenialReason;
use super::password::Digest;
use super::permissions::{CommandSet, Permissions};
use super::{REDACTED, RuleError, has_blanks};
use crate::command::{Command, CommandFlags, KeyAccess, TABLE};
use crate::resp::{Args, Value};

/// The proof by which a client acts as a user.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// Digest of the password that the client sent.
    Password(Digest),
    /// Proof outside the user's rules, such as a certificate. The user must only be enabled.
    Name,
    /// No proof: the user is open to all.
    Open,
}

/// A user with the rules of `ACL SETUSER`.
#[derive(Clone, Debug)]
pub struct User {
    name: Arc<str>,
    /// Distinguishes users of one name over time: a user that is deleted and set again has another.
    incarnation: u64,
    enabled: bool,
    nopass: bool,
    skips_sanitizing: bool,
    passwords: Vec<Digest>,
    root: Permissions,
    selectors: Vec<Permissions>,
    /// Commands that the root, the selectors and Redis's exceptions allow together.
    allowed: CommandSet,
    /// Commands of `allowed` that are allowed with any sequences and channels; in the second row, with any generators
    /// too. The column is 1 for a guarded session.
    allowed_with_any_args: [[CommandSet; 2]; 2],
}

impl User {
    /// Returns a user who is off and may run nothing.
    pub fn new(name: &str) -> User {
        let mut user = User {
            name: name.into(),
            incarnation: 0,
            enabled: false,
            nopass: false,
            skips_sanitizing: false,
            passwords: Vec::new(),
            root: Permissions::default(),
            selectors: Vec::new(),
            allowed: CommandSet::default(),
            allowed_with_any_args: Default::default(),
        };
        user.sum_up();
        user
    }

    /// Returns Redis's default user: on, without a password, and allowed everything.
    pub(super) fn default_user() -> User {
        let mut user = User::new(super::DEFAULT_USER);
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            user.apply_rule(rule.as_bytes()).expect("rules of our own");
        }
        user
    }

    /// Returns the user's name, which has no blanks.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the number that distinguishes it from a deleted user of the same name. A login is bound to an
    /// incarnation.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(super) fn with_incarnation(self, incarnation: u64) -> User {
        User { incarnation, ..self }
    }

    /// Whether it is the same user, whatever the rules.
    pub fn is_same(&self, other: &User) -> bool {
        self.incarnation == other.incarnation && self.name == other.name
    }

    /// Returns the commands that are allowed with any sequences and channels, and with any generators if
    /// `names_generators`. A guarded session gets them without guarded ones.
    #[inline]
    pub fn allowed(&self, is_guarded: bool, names_generators: bool) -> &CommandSet {
        &self.allowed_with_any_args[usize::from(names_generators)][usize::from(is_guarded)]
    }

    /// Whether logins as this user are accepted. A client that is logged in stays so.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether any password is accepted.
    pub fn is_nopass(&self) -> bool {
        self.nopass
    }

    /// Whether a connection may begin as this user without `AUTH`.
    pub fn is_open(&self) -> bool {
        self.enabled && self.nopass
    }

    /// Whether the user has passwords.
    pub fn has_passwords(&self) -> bool {
        !self.passwords.is_empty()
    }

    /// Whether a login with this password succeeds.
    pub fn admits(&self, password: &Digest) -> bool {
        self.enabled && (self.nopass || password.is_among(&self.passwords))
    }

    /// Whether a client may begin to act as this user by `proof`.
    pub fn accepts(&self, proof: &Proof) -> bool {
        match proof {
            Proof::Password(password) => self.admits(password),
            Proof::Name => self.is_enabled(),
            Proof::Open => self.is_open(),
        }
    }

    /// Whether the user may run a command, apart from its keys and channels: one bit test.
    #[inline]
    pub fn may(&self, command: &Command) -> bool {
        self.allowed.has(command.verb)
    }

    /// Checks a command with its arguments, including keys and channels. One selector must allow all of it.
    ///
    /// # Errors
    ///
    /// The reason and the index of the refused argument. Of several selectors, the greatest reason is returned, as in
    /// Redis.
    ///
    /// `series` is the name that counts instead of the generator's, if the request concerns a series.
    pub fn check(&self, command: &Command, args: Args<'_>, series: Option<&[u8]>) -> Result<(), (DenialReason, usize)> {
        let mut refused = (DenialReason::Command, 0);
        for permissions in std::iter::once(&self.root).chain(&self.selectors) {
            match permissions.check(command, args, series) {
                Ok(()) => return Ok(()),
                Err(reason) => refused = refused.max(reason),
            }
        }
        Err(refused)
    }

    /// Whether the user may draw from this generator with this command.
    pub(crate) fn may_access_key(&self, command: &Command, name: &[u8]) -> bool {
        std::iter::once(&self.root).chain(&self.selectors).any(|permissions| permissions.allows_key(command, name))
    }

    /// Whether the user may run this command with every key that begins with `prefix`.
    pub(crate) fn may_access_keys_of(&self, command: &Command, prefix: &[u8]) -> bool {
        let mut all = std::iter::once(&self.root).chain(&self.selectors);
        all.any(|permissions| permissions.allows_keys_of(command, prefix))
    }

    /// Whether the user may read values of the counter with this name, whatever the command.
    pub(crate) fn may_read_key(&self, name: &[u8]) -> bool {
        let access = KeyAccess::RO.and(KeyAccess::ACCESS);
        std::iter::once(&self.root).chain(&self.selectors).any(|permissions| permissions.may_touch(name, access))
    }

    /// Applies one rule. A password is any bytes, everything else UTF-8.
    ///
    /// # Errors
    ///
    /// [`RuleError`]; then nothing has changed.
    pub fn apply_rule(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let result = self.take_rule(rule);
        self.sum_up();
        result
    }

    /// Applies one of several rules. It takes effect when [`User::sum_up`] has run.
    pub(super) fn take_rule(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let from_hex = |hex| Digest::from_hex(hex).ok_or(RuleError::BadHash);
        match rule {
            [b'>', password @ ..] => self.add_password(Digest::of(password)),
            [b'#', hex @ ..] => self.add_password(from_hex(hex)?),
            [b'<', password @ ..] => self.remove_password(Digest::of(password))?,
            [b'!', hex @ ..] => self.remove_password(from_hex(hex)?)?,
            _ => return self.take_word(str::from_utf8(rule).map_err(|_| RuleError::Syntax)?),
        }
        Ok(())
    }

    /// Applies a rule that is not about passwords.
    fn take_word(&mut self, rule: &str) -> Result<(), RuleError> {
        if let Some(inner) = rule.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            let mut selector = Permissions::default();
            for rule in inner.split_ascii_whitespace() {
                // In the text of the user, this word would end the selector early.
                if rule.ends_with(')') {
                    return Err(RuleError::Syntax);
                }
                selector.apply(rule)?;
            }
            self.selectors.push(selector);
            return Ok(());
        }
        match rule.to_ascii_lowercase().as_str() {
            // As in Redis, an empty word changes nothing.
            "" => {}
            "on" => self.enabled = true,
            "off" => self.enabled = false,
            "sanitize-payload" => self.skips_sanitizing = false,
            "skip-sanitize-payload" => self.skips_sanitizing = true,
            "nopass" => {
                self.nopass = true;
                self.passwords.clear();
            }
            "resetpass" => self.reset_passwords(),
            "clearselectors" => self.selectors.clear(),
            "reset" => *self = User { name: Arc::clone(&self.name), incarnation: self.incarnation, ..User::new("") },
            _ => return self.root.apply(rule),
        }
        Ok(())
    }

    pub(super) fn sum_up(&mut self) {
        // As in Redis, every user may log in and leave.
        let mut for_all = CommandSet::default();
        TABLE.iter().filter(|row| row.flags.has(CommandFlags::NO_AUTH)).for_each(|row| for_all.set(row.verb, true));
        let all = || std::iter::once(&self.root).chain(&self.selectors);
        self.allowed = all().fold(for_all, |sum, permissions| sum.and(permissions.commands));
        self.allowed_with_any_args = [false, true].map(|names_generators| {
            let any = |sum: CommandSet, permissions: &Permissions| {
                sum.and(permissions.commands_with_any_args(names_generators))
            };
            let allowed = all().fold(for_all, any);
            [allowed, unguarded(allowed)]
        });
    }

    fn add_password(&mut self, password: Digest) {
        if !self.has_password(&password) {
            self.passwords.push(password);
        }
        self.nopass = false;
    }

    fn remove_password(&mut self, password: Digest) -> Result<(), RuleError> {
        if !self.has_password(&password) {
            return Err(RuleError::NoSuchPassword);
        }
        self.passwords.retain(|known| !known.is(&password));
        Ok(())
    }

    /// Whether the user has this password. Only for rules, whose author sees the digests anyway: the time depends on
    /// the bytes.
    fn has_password(&self, password: &Digest) -> bool {
        self.passwords.iter().any(|known| known.is(password))
    }

    fn reset_passwords(&mut self) {
        self.nopass = false;
        self.passwords.clear();
    }

    /// `requirepass`: sets this password and no other, or with `None` accepts any.
    pub(super) fn set_password(&mut self, password: Option<&str>) {
        self.reset_passwords();
        match password {
            Some(password) => self.add_password(Digest::of(password.as_bytes())),
            None => self.nopass = true,
        }
    }

    fn flags(&self) -> impl Iterator<Item = &'static str> {
        let sanitizing = if self.skips_sanitizing { "skip-sanitize-payload" } else { "sanitize-payload" };
        let first = if self.enabled { "on" } else { "off" };
        [Some(first), self.nopass.then_some("nopass"), Some(sanitizing)].into_iter().flatten()
    }

    /// Returns the rules that make this user from a new one, as Redis 7.2 writes them in `ACL LIST` after the name.
    pub fn describe(&self) -> String {
        self.describe_with(|digest| format!("#{digest}"))
    }

    /// Returns the rules without digests, each of which is nearly a password.
    pub fn describe_redacted(&self) -> String {
        self.describe_with(|_| format!("#{REDACTED}"))
    }

    fn describe_with(&self, shown: impl Fn(&Digest) -> String) -> String {
        let mut parts: Vec<String> = self.flags().map(str::to_owned).collect();
        parts.extend(self.passwords.iter().map(shown));
        parts.push(self.root.describe());
        parts.extend(self.selectors.iter().map(|selector| format!("({})", selector.describe())));
        parts.join(" ")
    }

    /// Returns the reply of `ACL GETUSER`; with digests if the requesting user may set them.
    pub fn to_value(&self, shows_digests: bool) -> Value {
        let shown = |digest: &Digest| if shows_digests { digest.to_string() } else { REDACTED.to_owned() };
        let mut fields = vec![
            ("flags", Value::Set(self.flags().map(Value::from).collect())),
            ("passwords", Value::Array(self.passwords.iter().map(|digest| Value::bulk(shown(digest))).collect())),
        ];
        fields.extend(describe_fields(&self.root));
        let selectors = self.selectors.iter().map(|selector| Value::map(describe_fields(selector)));
        fields.push(("selectors", Value::Array(selectors.collect())));
        Value::map(fields)
    }
}

fn describe_fields(permissions: &Permissions) -> [(&'static str, Value); 3] {
    [
        ("commands", Value::bulk(permissions.describe_commands())),
        ("keys", Value::bulk(permissions.describe_keys())),
        ("channels", Value::bulk(permissions.describe_channels())),
    ]
}

/// Whether Redis accepts the name for a user; it must also be UTF-8 and not too long.
pub(super) fn is_name(name: &[u8]) -> bool {
    name.len() <= super::NAME_BYTES_MAX && str::from_utf8(name).is_ok_and(|name| !has_blanks(name))
}
