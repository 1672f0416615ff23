//! The commands of `CONFIG`. [`crate::settings`] explains how a change takes effect.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::Server;
use crate::audit::{Actor, AuditAction};
use crate::config_files::FilesFrom;
use crate::logging::throttle::throttled;
use crate::registry::Client;
use crate::settings::{UserLineError, users_of};
use getid_config::{Config, RewriteError, SettingPair, UserLine, secrets};
use getid_redis::acl::{DEFAULT_USER, User, Users};
use getid_redis::resp::Value;
use getid_redis::session::ConfigEffect;
use getid_system::files::{self, Readers};
use getid_text::glob::Pattern;

/// Maximum number of names in one `CONFIG GET`: each is compared with each directive, while others wait.
const GET_NAMES_MAX: usize = 1024;

/// Maximum size of these names together, bytes.
const GET_BYTES_MAX: usize = 16 << 10;

/// Maximum number of patterns among them, each of which takes a microsecond a directive at worst.
const GET_PATTERNS_MAX: usize = 32;

pub(super) async fn perform(server: &Arc<Server>, effect: ConfigEffect, client: &Client) -> Value {
    let actor = Actor::from(client);
    match effect {
        ConfigEffect::Get { patterns, shows_secrets } => get(server, &patterns, shows_secrets),
        // It may read certificates, or follow a change that does.
        ConfigEffect::Set(pairs) => server.run_change("CONFIG SET", move |server| set(server, &pairs, actor)).await,
        ConfigEffect::Rewrite => server.run_change("CONFIG REWRITE", move |server| rewrite(server, actor)).await,
        ConfigEffect::ResetStat => reset_stat(server, actor),
    }
}

fn get(server: &Server, names: &[Vec<u8>], shows_secrets: bool) -> Value {
    let is_too_much = || {
        Value::error(format!(
            "ERR CONFIG GET takes at most {GET_NAMES_MAX} names of {GET_BYTES_MAX} bytes in all, {GET_PATTERNS_MAX} patterns \
             among them"
        ))
    };
    let bytes: usize = names.iter().map(Vec::len).sum();
    if names.len() > GET_NAMES_MAX || bytes > GET_BYTES_MAX {
        return is_too_much();
    }
    let patterns: Vec<Pattern> = match names.iter().map(|name| Pattern::new(name, true)).collect() {
        Ok(patterns) => patterns,
        Err(error) => return Value::error(format!("ERR {error}")),
    };
    if patterns.iter().filter(|pattern| !pattern.is_literal()).count() > GET_PATTERNS_MAX {
        return is_too_much();
    }
    let shown = |name: &str, value: String| if shows_secrets { value } else { secrets::hidden(name.as_bytes(), value) };
    let pairs = server.config.get().get(&patterns).into_iter();
    Value::Map(pairs.map(|(name, value)| (Value::bulk(name), Value::bulk(shown(name, value)))).collect())
}

fn set(server: &Server, pairs: &[SettingPair], actor: Actor) -> Value {
    match server.change_config(pairs, actor) {
        Ok(()) => Value::OK,
        Err(error) => Value::error(error.to_string()),
    }
}

fn rewrite(server: &Server, actor: Actor) -> Value {
    let file = &server.process.config_file;
    if file.is_empty() {
        return Value::error("ERR The server is running without a config file");
    }
    match rewrite_file(server, Path::new(file)) {
        Ok(overridden) => {
            server.audit(AuditAction::ConfigRewrite, actor);
            if !overridden.is_empty() {
                throttled!(
                    server.throttle,
                    Settings,
                    "CONFIG REWRITE: the environment or the command line sets other values for {}, which override the file at \
                     the next start",
                    overridden.join(", ")
                );
            }
            Value::OK
        }
        Err(error) => {
            throttled!(server.throttle, Settings, "CONFIG REWRITE failed: {error}");
            Value::error(format!("ERR Rewriting config file: {error}"))
        }
    }
}

/// Reason why the configuration file is not rewritten.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum RewriteFileError {
    Users(#[from] UserLineError),
    Config(#[from] RewriteError),
    File(#[from] io::Error),
}

/// Writes the file and returns the directives to which environment or command line give other values.
fn rewrite_file(server: &Server, path: &Path) -> Result<Vec<&'static str>, RewriteFileError> {
    let files = FilesFrom(server.process.started_in.clone());
    let config = config_with_users(server);
    // Users that the next start would refuse are not written.
    users_of(&config)?;
    let rewritten = config.rewritten(path, &server.process.sources, &files)?;
    let readers = if rewritten.holds_secret { Readers::OwnerOnly } else { Readers::AsBefore };
    files::replace(&files::resolve_links(path)?, &rewritten.text, readers)?;
    Ok(rewritten.overridden)
}

/// Returns the current configuration with the current users.
fn config_with_users(server: &Server) -> Config {
    let mut config = Config::clone(&server.config.get());
    let requirepass = config.requirepass.clone();
    if config.password_file.is_some() {
        // The password is in that file, and must not be elsewhere.
        config.requirepass = None;
    }
    if config.aclfile.is_some() {
        // Users are in that file, and ACL SAVE writes them.
        return config;
    }
    let users = Arc::clone(&server.settings.get().users);
    let default = Users::default().with_default_password(requirepass.as_deref());
    let by_requirepass = users.default_user().describe() == default.default_user().describe()
        && !config.users.iter().any(|line| line.name == DEFAULT_USER);
    let line = |user: &Arc<User>| UserLine {
        name: user.name().to_string(),
        rules: user.describe().split(' ').map(str::to_owned).collect(),
    };
    let named = users.iter().filter(|user| !by_requirepass || **user.name() != *DEFAULT_USER);
    config.users = named.map(line).collect();
    config
}

/// Resets the counters of INFO's section Stats.
fn reset_stat(server: &Server, actor: Actor) -> Value {
    server.audit(AuditAction::ConfigResetStat, actor);
    server.metrics.reset();
    if let Some(tls) = &server.tls {
        tls.reset_counters();
    }
    Value::OK
}
