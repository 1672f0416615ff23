//! What `ACL` asks of the server: users that change for everybody, the ACL file, the log of refusals.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use nix::errno::Errno;
use rand::RngExt as _;

use super::pieces::{Items, Pieces};
use crate::acl::{SetUserError, User, Users};
use crate::logging::throttle::throttled;
use crate::resp::Value;
use crate::server::acl_file::{AclFileError, load_users, save_users};
use crate::server::registry::{Client, Stop};
use crate::server::{Act, Actor, Server};
use crate::session::{AclEffect, AclFileEffect, Settings};
use crate::system::clock::Clock as _;

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
                       ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file \
                       set) in order to store users in the Redis configuration.";
const NOT_SAVED: &str =
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information";

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
        let now_ms = self.issuer().clock().wall_unix_ms();
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
}
