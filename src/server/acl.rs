//! What `ACL` asks of the server: users that change for everybody, the ACL file, the log of refusals.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use nix::errno::Errno;
use rand::RngExt as _;

use super::Server;
use crate::acl::{Denial, LineFault, Reason, SetUserError, Users, parse_file};
use crate::clients::{Client, Stop};
use crate::clock::Clock;
use crate::config::load::replace_file;
use crate::resp::Value;
use crate::session::{AclEffect, AclFileEffect, Rules};

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
    let mut text = Vec::new();
    let limit = ACL_FILE_BYTES_MAX as u64 + 1;
    File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text)).map_err(AclFileError::Io)?;
    if text.len() > ACL_FILE_BYTES_MAX {
        return Err(AclFileError::Io(io::ErrorKind::FileTooLarge.into()));
    }
    parse_file(&path.to_string_lossy(), &text).map_err(AclFileError::Faults)
}

impl<C: Clock> Server<C> {
    /// Does what needs no disk.
    pub(super) fn acl(&self, wish: AclEffect, client: &Client) -> Value {
        let now_ms = || self.issuer.clock().wall_unix_ms();
        match wish {
            AclEffect::SetUser { name, rules } => self.set_user(&name, &rules, client),
            AclEffect::DelUser { names } => {
                let mut gone = Vec::new();
                self.update_users(|users| {
                    let (users, deleted) = users.without(&names);
                    gone = deleted;
                    users
                });
                for name in &gone {
                    tracing::info!("client {} at {} deleted the user '{name}'", client.id, client.peer);
                }
                self.cut_off_strangers(client);
                Value::Integer(i64::try_from(gone.len()).unwrap_or(i64::MAX))
            }
            AclEffect::Log { count } => {
                self.acl_log.lock().unwrap_or_else(PoisonError::into_inner).to_value(count, now_ms())
            }
            AclEffect::LogReset => {
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

    /// `ACL SAVE` and `ACL LOAD`, on a thread that may wait for the disk.
    pub(super) async fn acl_at_disk(self: &Arc<Self>, wish: AclFileEffect, client: &Client) -> Value {
        let Some(path) = self.config.get().aclfile.clone() else { return Value::error(NO_FILE) };
        if wish == AclFileEffect::Save {
            return self.at_disk(move |server| server.acl_save(&path)).await;
        }
        let shown = path.display().to_string();
        let loaded = tokio::task::spawn_blocking(move || load_users(&path)).await;
        match loaded.unwrap_or_else(|panic| Err(AclFileError::Io(io::Error::other(panic)))) {
            Ok(users) => {
                tracing::info!("client {} at {} had '{shown}' loaded", client.id, client.peer);
                self.update_users(|_| users);
                self.cut_off_strangers(client);
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

    fn acl_save(&self, path: &Path) -> Value {
        // One file after the other, and the last has the latest users.
        let _one_at_a_time = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        match save_users(path, &self.rules.get().users) {
            Ok(()) => Value::OK,
            Err(error) => {
                tracing::error!("ACL SAVE: '{}' was not written: {error}", path.display());
                Value::error(NOT_SAVED)
            }
        }
    }

    fn set_user(&self, name: &[u8], rules: &[Vec<u8>], client: &Client) -> Value {
        let set: Result<(), SetUserError> = self.rules.update(|now| {
            let users = Arc::new(now.users.with_user(name, rules)?);
            Ok(Rules { users, ..now.clone() })
        });
        match set {
            Ok(()) => {
                tracing::info!("client {} at {} set the user '{}'", client.id, client.peer, name.escape_ascii());
                Value::OK
            }
            Err(error) => Value::error(error.reply(rules)),
        }
    }

    fn update_users(&self, make: impl FnOnce(&Users) -> Users) {
        let done = self.rules.update(|now| {
            Ok::<_, std::convert::Infallible>(Rules { users: Arc::new(make(&now.users)), ..now.clone() })
        });
        let Ok(()) = done;
    }

    /// Ends the connections of users that are no more; `own`, which still gets its answer, after that.
    fn cut_off_strangers(&self, own: &Client) {
        let users = Arc::clone(&self.rules.get().users);
        for client in self.clients.all() {
            if users.get(client.user().as_bytes()).is_none() {
                client.stop(if client.id == own.id { Stop::AfterReply } else { Stop::Now });
            }
        }
    }

    /// Takes refusals into the log; what the client is, was published before.
    #[cold]
    pub fn note_denials(&self, denials: Vec<Denial>, client: &Client) {
        let now_ms = self.issuer.clock().wall_unix_ms();
        let len_max = usize::try_from(self.config.get().acllog_max_len).unwrap_or(usize::MAX);
        let mut log = self.acl_log.lock().unwrap_or_else(PoisonError::into_inner);
        for denial in denials {
            let counter = match denial.reason {
                Reason::Command => &self.metrics.acl_denied_commands,
                Reason::Auth => &self.metrics.acl_denied_logins,
            };
            counter.fetch_add(denial.count, Relaxed);
            log.note(denial, client.line(self.metrics.uptime_s.load(Relaxed)), now_ms, len_max);
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
    match fault {
        Some(fault) => Err(io::Error::other(format!("it could not be loaded: {fault}"))),
        None => replace_file(path, text.as_bytes()),
    }
}
