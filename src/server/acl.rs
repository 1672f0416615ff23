//! What `ACL` asks of the server: users that change for everybody, the ACL file, the log of refusals.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use rand::RngExt as _;

use super::pieces::{Items, Pieces};
use super::{Act, Actor, Server};
use crate::acl::{Denial, Guesses, LineFault, Reason, Seen, SetUserError, Source, User, Users, parse_file};
use crate::logging::AUDIT;
use crate::logging::throttle::throttled;
use crate::metrics::Counter;
use crate::resp::Value;
use crate::server::registry::{Client, Stop};
use crate::session::{AclEffect, AclFileEffect, Settings};
use crate::system::clock::{self, Clock as _};
use crate::system::files::{self, Readers};

/// The largest ACL file, bytes: more than [`crate::acl::USERS_MAX`] users of an ordinary kind.
pub const ACL_FILE_BYTES_MAX: usize = 16 << 20;

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
                       ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file \
                       set) in order to store users in the Redis configuration.";
const NOT_SAVED: &str =
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information";

/// Why an ACL file was not loaded.
#[derive(Debug)]
pub enum AclFileError {
    /// It cannot be read.
    Io(io::Error),
    /// What is wrong in it, never empty.
    Faults(Vec<LineFault>),
}

/// Reads an ACL file.
///
/// # Errors
///
/// [`AclFileError`]: all of the file counts or none of it.
pub fn load_users(path: &Path) -> Result<Users, AclFileError> {
    let text = files::read(path, ACL_FILE_BYTES_MAX).map_err(AclFileError::Io)?;
    if text.len() > ACL_FILE_BYTES_MAX {
        return Err(AclFileError::Io(io::ErrorKind::FileTooLarge.into()));
    }
    parse_file(&path.to_string_lossy(), &text).map_err(AclFileError::Faults)
}

impl Server {
    /// Does what needs no disk.
    pub(super) fn acl(&self, wish: AclEffect, client: &Client) -> Value {
        match wish {
            AclEffect::SetUser { name, rules } => self.set_user(&name, &rules, client),
            AclEffect::DelUser { names } => {
                let mut gone = Vec::new();
                self.update_users(|users| {
                    let (users, deleted) = users.without(&names);
                    gone = deleted;
                    users
                });
                if !gone.is_empty() {
                    let names: Vec<&str> = gone.iter().map(|name| &**name).collect();
                    self.audit(Act::AclDelUser { names: &names }, client);
                }
                self.cut_off_strangers(client.id);
                Value::Integer(i64::try_from(gone.len()).unwrap_or(i64::MAX))
            }
            AclEffect::List { .. } | AclEffect::Users | AclEffect::Log { .. } => {
                unreachable!("it is answered in pieces")
            }
            AclEffect::LogReset => {
                self.audit(Act::AclLogReset, client);
                self.acl_log.lock().unwrap_or_else(PoisonError::into_inner).reset();
                Value::OK
            }
            AclEffect::GenPass { digits } => {
                // Seeded by the system, and fit for secrets.
                let mut rng = rand::rng();
                let digit = |_| char::from(b"0123456789abcdef"[rng.random_range(0..16)]);
                Value::bulk((0..digits).map(digit).collect::<String>())
            }
        }
    }

    /// `ACL LIST`; digests of passwords are for who may set users.
    pub(super) fn acl_list(&self, shows_secrets: bool) -> Box<dyn Pieces> {
        let users: Vec<_> = self.settings.get().users.iter().cloned().collect();
        let held = size_of_val(&*users);
        let line = move |user: Arc<User>| {
            let rules = if shows_secrets { user.describe() } else { user.describe_redacted() };
            Value::bulk(format!("user {} {rules}", user.name()))
        };
        Box::new(Items::new(users.into_iter().map(line), held))
    }

    /// `ACL USERS`
    pub(super) fn acl_users(&self) -> Box<dyn Pieces> {
        let users: Vec<_> = self.settings.get().users.iter().cloned().collect();
        let held = size_of_val(&*users);
        Box::new(Items::new(users.into_iter().map(|user| Value::from(&**user.name())), held))
    }

    /// `ACL LOG`
    pub(super) fn acl_refusals(&self, count: usize) -> Box<dyn Pieces> {
        let now_ms = self.issuer.clock().wall_unix_ms();
        let entries = self.acl_log.lock().unwrap_or_else(PoisonError::into_inner).latest(count);
        let held = entries.iter().map(|entry| entry.memory_bytes()).sum();
        Box::new(Items::new(entries.into_iter().map(move |entry| entry.to_value(now_ms)), held))
    }

    /// `ACL SAVE` and `ACL LOAD`, on a thread that may wait for the disk.
    pub(super) async fn acl_at_disk(self: &Arc<Self>, wish: AclFileEffect, client: &Client) -> Value {
        let Some(path) = self.config.get().aclfile.clone() else { return Value::error(NO_FILE) };
        if wish == AclFileEffect::Save {
            let who = Actor::from(client);
            return self.at_disk("ACL SAVE", move |server| server.acl_save(&path, who)).await;
        }
        let who = Actor::from(client);
        self.at_disk("ACL LOAD", move |server| server.acl_load(&path, who)).await
    }

    fn acl_load(&self, path: &Path, who: Actor) -> Value {
        let shown = path.display().to_string();
        match load_users(path) {
            Ok(users) => {
                let own = who.id();
                self.audit(Act::AclLoad, who);
                self.update_users(|old| users.in_place_of(old));
                self.cut_off_strangers(own);
                Value::OK
            }
            Err(AclFileError::Io(error)) => {
                let reason = error
                    .raw_os_error()
                    .map_or_else(|| error.to_string(), |number| Errno::from_raw(number).desc().to_owned());
                Value::error(format!("ERR Error loading ACLs, opening file '{shown}': {reason}"))
            }
            Err(AclFileError::Faults(faults)) => {
                let faults: String = faults.iter().map(|fault| fault.in_redis.as_str()).collect();
                Value::error(format!(
                    "ERR {faults}WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
                ))
            }
        }
    }

    fn acl_save(&self, path: &Path, who: Actor) -> Value {
        match save_users(path, &self.settings.get().users) {
            Ok(()) => {
                self.audit(Act::AclSave, who);
                Value::OK
            }
            Err(error) => {
                throttled!(self.throttle, Settings, "ACL SAVE: '{}' was not written: {error}", path.display());
                Value::error(NOT_SAVED)
            }
        }
    }

    fn set_user(&self, name: &[u8], rules: &[Vec<u8>], client: &Client) -> Value {
        let set: Result<(), SetUserError> = self.settings.update(|now| {
            let users = Arc::new(now.users.with_user(name, rules)?);
            Ok(Settings { users, ..now.clone() })
        });
        match set {
            Ok(()) => {
                self.audit(Act::AclSetUser { name: &String::from_utf8_lossy(name) }, client);
                Value::OK
            }
            Err(error) => Value::error(error.reply(rules)),
        }
    }

    fn update_users(&self, make: impl FnOnce(&Users) -> Users) {
        let done = self.settings.update(|now| {
            Ok::<_, std::convert::Infallible>(Settings { users: Arc::new(make(&now.users)), ..now.clone() })
        });
        let Ok(()) = done;
    }

    /// Ends the connections of users that are no more, or that are others of the same name by now; `own`, which still gets its
    /// answer, after that.
    fn cut_off_strangers(&self, own: u64) {
        let users = Arc::clone(&self.settings.get().users);
        for client in self.clients.all() {
            let (name, incarnation) = client.user();
            if users.get(name.as_bytes()).is_none_or(|user| user.incarnation() != incarnation) {
                client.stop(if client.id == own { Stop::AfterReply } else { Stop::Now });
            }
        }
    }

    /// Leave for so many logins from an address: how long to wait before they are tried.
    pub fn ask_leave(&self, source: Source, logins: u32) -> Duration {
        let now_ns = clock::stopwatch_ns();
        Duration::from_nanos(self.lock_guesses().ask(source, logins, now_ns) - now_ns)
    }

    /// Takes leave back that was not used, or was for a login that was right.
    pub fn give_leave_back(&self, source: Source, logins: u32) {
        self.lock_guesses().give_back(source, logins, clock::stopwatch_ns());
    }

    fn lock_guesses(&self) -> MutexGuard<'_, Guesses> {
        // Counts, each of which is changed at once.
        self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts wrong logins, `before` of which came on the same connection; says how late their answer is to be.
    #[cold]
    pub fn note_wrong_logins(&self, count: u64, before: u64, client: &Client) -> Duration {
        let source = client.peer.source();
        Duration::from_millis(self.lock_guesses().note_failures(source, count, before, clock::stopwatch_ns()))
    }

    /// Sums up what came from each address, beside the lines for single ones, of which there may be too many. To be called
    /// once a second.
    pub(super) fn tell_of_guesses(&self) {
        for (source, count) in self.lock_guesses().untold(clock::stopwatch_ns()) {
            tracing::warn!(target: AUDIT, addr = %source, count, "logins failed from one address");
        }
    }

    /// Takes refusals into the log; what the client is, was published before.
    #[cold]
    pub fn note_denials(&self, denials: Vec<Denial>, client: &Client) {
        let users = Arc::clone(&self.settings.get().users);
        let source = client.peer.source();
        let now_ms = self.issuer.clock().wall_unix_ms();
        let len_max = usize::try_from(self.config.get().acllog_max_len).unwrap_or(usize::MAX);
        let mut log = self.acl_log.lock().unwrap_or_else(PoisonError::into_inner);
        for denial in denials {
            if denial.reason == Reason::Auth {
                self.audit(Act::LoginFailed { name: &denial.user, count: denial.count }, client);
            }
            let counter = match denial.reason {
                Reason::Command => Counter::DeniedCommands,
                Reason::Auth => Counter::DeniedLogins,
            };
            self.metrics.add(counter, denial.count);
            let seen = Seen { source, is_known_user: users.get(denial.user.as_bytes()).is_some() };
            log.note(denial, seen, client.line(self.metrics.uptime_s.load(Relaxed)), now_ms, len_max);
        }
    }
}

/// Writes an ACL file whole or not at all, and comes back when it is on the disk. What could not be loaded again is not
/// written.
fn save_users(path: &Path, users: &Users) -> io::Result<()> {
    let lines = users.describe_all();
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    if text.len() > ACL_FILE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "it would be larger than {ACL_FILE_BYTES_MAX} bytes and could not be loaded"
        )));
    }
    let loaded = parse_file(&path.to_string_lossy(), text.as_bytes());
    let fault = match loaded {
        Ok(loaded) if loaded.describe_all() == lines => None,
        Ok(_) => Some("the users would be others".to_owned()),
        Err(faults) => Some(faults.into_iter().map(|fault| fault.sentence).collect::<Vec<_>>().join(", ")),
    };
    if let Some(fault) = fault {
        return Err(io::Error::other(format!("it could not be loaded: {fault}")));
    }
    let holds_secret = users.iter().any(|user| user.has_passwords());
    let readers = if holds_secret { Readers::OwnerOnly } else { Readers::AsBefore };
    files::replace(&files::behind_links(path)?, text.as_bytes(), readers)
}
