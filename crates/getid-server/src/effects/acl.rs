//! `ACL`: changes of users for all sessions, the ACL file, the log of refusals.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use nix::errno::Errno;
use rand::RngExt as _;

use super::EffectReply;
use super::chunks::Items;
use crate::Server;
use crate::acl_file::{AclFileError, load_users, save_users};
use crate::audit::{Actor, AuditAction};
use crate::logging::throttle::throttled;
use crate::registry::{Client, StopMode};
use getid_redis::acl::{SetUserError, User, Users};
use getid_redis::resp::Value;
use getid_redis::session::{AclEffect, Settings};
use getid_system::clock::Clock as _;

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
                       ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file \
                       set) in order to store users in the Redis configuration.";
const NOT_SAVED: &str =
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information";

pub(super) async fn perform(server: &Arc<Server>, effect: AclEffect, client: &Client) -> EffectReply {
    match effect {
        AclEffect::SetUser { name, rules } => set_user(server, &name, &rules, client).into(),
        AclEffect::DelUser(names) => {
            let deleted = del_user(server, &names, client);
            server.wait_for_cut_off(client).await;
            deleted.into()
        }
        AclEffect::List { shows_secrets } => list(server, shows_secrets),
        AclEffect::Users => users(server),
        AclEffect::Log(count) => log(server, count),
        AclEffect::LogReset => log_reset(server, client).into(),
        AclEffect::GenPass(digits) => gen_pass(digits).into(),
        AclEffect::Save => run_change(server, "ACL SAVE", save, client).await.into(),
        AclEffect::Load => {
            let loaded = run_change(server, "ACL LOAD", load, client).await;
            server.wait_for_cut_off(client).await;
            loaded.into()
        }
    }
}

fn set_user(server: &Server, name: &[u8], rules: &[Vec<u8>], client: &Client) -> Value {
    let set: Result<(), SetUserError> = server.settings.update(|now| {
        let users = Arc::new(now.users.with_user(name, rules)?);
        Ok(Settings { users, ..now.clone() })
    });
    match set {
        Ok(()) => {
            server.audit(AuditAction::AclSetUser { name: &String::from_utf8_lossy(name) }, client);
            Value::OK
        }
        Err(error) => Value::error(error.reply(rules)),
    }
}

fn del_user(server: &Server, names: &[Vec<u8>], client: &Client) -> Value {
    let mut gone = Vec::new();
    update_users(server, |users| {
        let (users, deleted) = users.without(names);
        gone = deleted;
        users
    });
    if !gone.is_empty() {
        let names: Vec<&str> = gone.iter().map(|name| &**name).collect();
        server.audit(AuditAction::AclDelUser { names: &names }, client);
    }
    close_orphaned_clients(server, client.id);
    Value::Integer(i64::try_from(gone.len()).unwrap_or(i64::MAX))
}

/// Lists the users. Clients that may set users also see digests of passwords.
fn list(server: &Server, shows_secrets: bool) -> EffectReply {
    each_user(server, move |user| {
        let rules = if shows_secrets { user.describe() } else { user.describe_redacted() };
        Value::bulk(format!("user {} {rules}", user.name()))
    })
}

fn users(server: &Server) -> EffectReply {
    each_user(server, |user| Value::from(&**user.name()))
}

fn each_user(server: &Server, describe: impl Fn(&User) -> Value + Send + 'static) -> EffectReply {
    let users: Vec<_> = server.settings.get().users.iter().cloned().collect();
    let held = size_of_val(&*users);
    EffectReply::Chunks(Box::new(Items::new(users.into_iter().map(move |user| describe(&user)), held)))
}

fn log(server: &Server, count: usize) -> EffectReply {
    let now_ms = server.issuer().clock().wall_unix_ms();
    let entries = server.acl_log.lock().unwrap_or_else(PoisonError::into_inner).latest(count);
    let held = entries.iter().map(|entry| entry.memory_bytes()).sum();
    EffectReply::Chunks(Box::new(Items::new(entries.into_iter().map(move |entry| entry.to_value(now_ms)), held)))
}

fn log_reset(server: &Server, client: &Client) -> Value {
    server.audit(AuditAction::AclLogReset, client);
    server.acl_log.lock().unwrap_or_else(PoisonError::into_inner).reset();
    Value::OK
}

fn gen_pass(digits: usize) -> Value {
    // Seeded by the system, and fit for secrets.
    let mut rng = rand::rng();
    let digit = |_| char::from(b"0123456789abcdef"[rng.random_range(0..16)]);
    Value::bulk((0..digits).map(digit).collect::<String>())
}

/// Runs `ACL SAVE` or `ACL LOAD` on a thread that may wait for the disk.
async fn run_change(
    server: &Arc<Server>,
    what: &'static str,
    work: fn(&Server, &Path, Actor) -> Value,
    client: &Client,
) -> Value {
    let Some(path) = server.config.get().aclfile.clone() else { return Value::error(NO_FILE) };
    let actor = Actor::from(client);
    server.run_change(what, move |server| work(server, &path, actor)).await
}

fn save(server: &Server, path: &Path, actor: Actor) -> Value {
    match save_users(path, &server.settings.get().users) {
        Ok(()) => {
            server.audit(AuditAction::AclSave, actor);
            Value::OK
        }
        Err(error) => {
            throttled!(server.throttle, Settings, "ACL SAVE: '{}' was not written: {error}", path.display());
            Value::error(NOT_SAVED)
        }
    }
}

fn load(server: &Server, path: &Path, actor: Actor) -> Value {
    let shown = path.display().to_string();
    match load_users(path) {
        Ok(users) => {
            let own = actor.id();
            server.audit(AuditAction::AclLoad, actor);
            update_users(server, |old| users.in_place_of(old));
            close_orphaned_clients(server, own);
            Value::OK
        }
        Err(AclFileError::Io(error)) => {
            let number = error.raw_os_error();
            let reason = number.map_or_else(|| error.to_string(), |number| Errno::from_raw(number).desc().to_owned());
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

fn update_users(server: &Server, make: impl FnOnce(&Users) -> Users) {
    let Ok(()) = server
        .settings
        .update(|now| Ok::<_, Infallible>(Settings { users: Arc::new(make(&now.users)), ..now.clone() }));
}

/// Ends the connections of deleted users, even if there are new ones of the same names; `own` ends after its answer.
fn close_orphaned_clients(server: &Server, own: u64) {
    let users = Arc::clone(&server.settings.get().users);
    for client in server.clients.all() {
        let (name, incarnation) = client.user();
        if users.get(name.as_bytes()).is_none_or(|user| user.incarnation() != incarnation) {
            client.stop(if client.id == own { StopMode::AfterReply } else { StopMode::Now });
        }
    }
}
