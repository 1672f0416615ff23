//! What `ACL` asks of the server: users that change for everybody, the ACL file, the log of refusals.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use nix::errno::Errno;
use rand::RngExt as _;

use super::Server;
use crate::acl::{Denial, LineFault, Reason, SetUserError, Users, parse_file};
use crate::clients::{Client, Stop};
use crate::clock::Clock;
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
        let shown = path.display().to_string();
        if wish == AclFileEffect::Save {
            let lines = self.rules.get().users.describe_all();
            let temporary = PathBuf::from(format!("{shown}.tmp-{}-{}", std::process::id(), client.id));
            let saved = tokio::task::spawn_blocking(move || save_users(&path, &temporary, &lines)).await;
            return match saved.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
                Ok(()) => Value::OK,
                Err(error) => {
                    tracing::error!("ACL SAVE: '{shown}' was not written: {error}");
                    Value::error(NOT_SAVED)
                }
            };
        }
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

/// Writes an ACL file whole or not at all, and comes back when it is on the disk.
///
/// A new file is for its owner alone: it holds digests of passwords. One that is there keeps its mode.
fn save_users(path: &Path, temporary: &Path, lines: &[String]) -> io::Result<()> {
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
        if let Ok(metadata) = fs::metadata(path) {
            file.set_permissions(metadata.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(temporary, path)
    })();
    if let Err(error) = written {
        // It may not be there.
        let _ = fs::remove_file(temporary);
        return Err(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
