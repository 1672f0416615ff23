//! Settings, made from a configuration at the start, and their changes while the server runs.
//!
//! `CONFIG SET` is all or nothing. Everything that can fail (values, the checks between them, certificates,
//! descriptors, the password) is done before anything is changed; the rest cannot fail. Changes come one after the
//! other, and each begins with the result of the previous one.

use std::convert::Infallible;
use std::sync::Arc;

use getid_core::server::{NamedCounters, NamedGenerators, WaitPolicy};
use getid_core::{Limits, Scheme};

use super::Server;
use super::audit::{Actor, AuditAction};
use super::listen::{ClientLimits, http_spare_files, open_files, room_for_clients};
use super::slow::timing;
use crate::logging::throttle::throttled;
use crate::tls;
use getid_config::directive::ChangeMode;
use getid_config::{Config, ConfigChange, ConfigReport, SequenceConfig, SetError, SettingPair, StateKind};
use getid_engine::generators::{random_cycle, sequence};
use getid_redis::acl::{PASSWORD_BYTES_MAX, Protection, SetUserError, Users};
use getid_redis::command::Vocabulary;
use getid_redis::resp::Value;
use getid_redis::session::{ClusterSettings, SequenceCommandSettings, Settings, turn_ids_max};
use getid_system::usage;

/// Returns the settings of a new server's sessions. The random cycle is new at each start, so that two lives, or two
/// servers, do not follow the same order.
///
/// # Errors
///
/// A report: a command renamed twice, a password that is too long.
pub fn session_settings(config: &Config) -> Result<Settings, ConfigReport> {
    let vocabulary = Vocabulary::new(&config.rename_commands)
        .map_err(|error| ConfigReport::from_sentence(format!("rename-command: {error}")))?;
    check_password(config).map_err(|error| ConfigReport::from_sentence(format!("requirepass: {error}")))?;
    let users = users_of(config).map_err(|error| ConfigReport::from_sentence(error.to_string()))?;
    let layout = config.layout;
    let scheme = Scheme::new(layout, config.server_id, random_cycle(layout.random_bits()))
        .ok_or_else(|| ConfigReport::from_sentence(format!("server-id {} does not fit id-range", config.server_id)))?;
    Ok(settings_of(config, vocabulary, Arc::new(scheme), Arc::default(), Arc::new(users)))
}

/// Returns the settings of sessions, at the start and after each change. Users change separately; names of commands
/// and the scheme stay for the life of the process.
fn settings_of(
    config: &Config,
    vocabulary: Vocabulary,
    scheme: Arc<Scheme>,
    generators: Arc<NamedGenerators>,
    users: Arc<Users>,
) -> Settings {
    Settings {
        vocabulary,
        scheme,
        has_server_id: !config.server_id_auto(),
        generators,
        counters: Arc::new(NamedCounters::new(config.counters.iter().cloned())),
        sealers: config.sealers.clone(),
        id_mgetid_max: config.id_mgetid_max,
        turn_ids_max: turn_ids_max(config.layout, config.id_max_wait_ms),
        id_max_wait_ms: config.id_max_wait_ms,
        databases: config.databases,
        users,
        protection: config.protection(),
        bulk_bytes_max: config.proto_max_bulk_len,
        request_bytes_max: config.client_query_buffer_limit,
        sequences: sequence_settings(config),
        expiring: Arc::clone(&config.sequences.expiring),
        timing: timing(config),
        is_standby: false,
        cluster: config.announce.cluster_emulation.then(ClusterSettings::default),
    }
}

/// Returns the settings of the sequences themselves.
pub fn sequences(config: &Config) -> sequence::SequenceSettings {
    let SequenceConfig { create, rows_max, requests_max, cache, ride_out_s, wait_ms, policy, .. } = config.sequences;
    sequence::SequenceSettings {
        wait_ms,
        policy: match policy {
            getid_config::SequencePolicy::Wait => WaitPolicy::Wait,
            getid_config::SequencePolicy::Error => WaitPolicy::Error,
        },
        creates_on_first_use: create == getid_config::SequenceCreate::OnFirstUse,
        rows_max,
        requests_max,
        cache,
        ride_out_s,
    }
}

fn sequence_settings(config: &Config) -> Option<SequenceCommandSettings> {
    let SequenceConfig { incrby_max, may_delete, .. } = config.sequences;
    (!config.sequence_stores().is_empty()).then_some(SequenceCommandSettings { incrby_max, may_delete })
}

/// An invalid `user` line of a configuration.
#[derive(Debug, thiserror::Error)]
#[error("user {name}: {source}")]
pub(super) struct UserLineError {
    name: String,
    source: SetUserError,
}

/// Returns the users of a configuration's own lines.
pub(super) fn users_of(config: &Config) -> Result<Users, UserLineError> {
    // As in Redis, a `user default` line takes precedence over requirepass.
    let mut users = Users::default().with_default_password(config.requirepass.as_deref());
    for line in &config.users {
        users
            .define(line.name.as_bytes(), &line.rules)
            .map_err(|source| UserLineError { name: line.name.clone(), source })?;
    }
    Ok(users)
}

/// A password that is too long.
#[derive(Debug, thiserror::Error)]
#[error("must have 1 to {PASSWORD_BYTES_MAX} bytes")]
struct PasswordTooLong;

fn check_password(config: &Config) -> Result<(), PasswordTooLong> {
    let is_too_long = config.requirepass.as_ref().is_some_and(|password| password.len() > PASSWORD_BYTES_MAX);
    if is_too_long { Err(PasswordTooLong) } else { Ok(()) }
}

pub fn limits(config: &Config) -> Limits {
    Limits {
        max_borrow_ms: config.id_max_borrow_ms,
        lead_ms: config.id_watermark_lead_ms,
        max_clock_jump_ms: config.id_max_clock_jump_ms,
        policy: match config.id_borrow_policy {
            getid_config::BorrowPolicy::Wait => getid_core::BorrowPolicy::Wait,
            getid_config::BorrowPolicy::Error => getid_core::BorrowPolicy::Error,
        },
    }
}

/// Prepared parts of a change, made before anything is changed.
struct PreparedChange {
    /// Whether `requirepass` was named. Nothing else changes the users, who may have changed since the start.
    sets_password: bool,
    tls: Option<tls::TlsConfigs>,
}

impl Server {
    /// Changes the current configuration. Calls come one at a time, through `ChangeQueue`.
    ///
    /// # Errors
    ///
    /// [`SetError`]; then nothing has changed.
    pub(super) fn change_config(&self, pairs: &[SettingPair], actor: Actor) -> Result<(), SetError> {
        let old = self.config.get();
        let changed = old.set(pairs)?;
        let ready = self.prepare_change(&old, &changed)?;
        let ConfigChange { config, names } = changed;
        let audit = || {
            if !names.is_empty() {
                self.audit(AuditAction::ConfigSet { names: &names }, actor);
            }
        };
        // A change that makes the log quieter is logged before it: a higher level logs less.
        if config.loglevel as u8 > old.loglevel as u8 {
            audit();
            self.apply_change(&old, config, ready);
        } else {
            self.apply_change(&old, config, ready);
            audit();
        }
        Ok(())
    }

    fn prepare_change(&self, old: &Config, changed: &ConfigChange) -> Result<PreparedChange, SetError> {
        let new = &changed.config;
        let password = changed.first(ChangeMode::Password);
        if let (Some(name), Some(path)) = (password, &old.password_file) {
            let reason =
                format!("the password is read from {}; write the new one there and send SIGHUP", path.display());
            return Err(SetError::refused(name, reason));
        }
        if let Some(name) = password {
            check_password(new).map_err(|error| SetError::refused(name, error.to_string()))?;
        }
        // Naming the directive is enough, as in Redis: the same path may have another certificate by now.
        let tls = match (
            changed.first(ChangeMode::Certificates),
            self.tls.is_some().then(|| tls::TlsSettings::of(new)).flatten(),
        ) {
            (Some(name), Some(settings)) => {
                let loaded =
                    tls::TlsConfigs::new(settings).map_err(|error| SetError::refused(name, error.to_string()))?;
                if let Some(note) = loaded.note() {
                    throttled!(self.throttle, Settings, "{note}");
                }
                Some(loaded)
            }
            _ => None,
        };
        if let Some(name) = changed.first(ChangeMode::BorrowLimit) {
            self.check_borrowing(name, new)?;
        }
        if let Some(name) = changed.first(ChangeMode::OpenFiles).filter(|_| new.maxclients > old.maxclients) {
            let of_clients = self.clients.len() + self.handshakes.count();
            // The places of the HTTP port are reserved, taken or not.
            let over_http = self.clients.over_http() as u64;
            let of_http = u64::from(ClientLimits::of(old).http).saturating_sub(over_http);
            let own_files = open_files().saturating_sub(of_clients as u64) + of_http + http_spare_files(old);
            let room = room_for_clients(new.maxclients, own_files, old.tls_port != 0);
            if !matches!(room, Ok(room) if room == new.maxclients) {
                let reason = format!(
                    "The operating system is not able to handle the specified number of clients, try with {}",
                    room.unwrap_or(1)
                );
                return Err(SetError::refused(name, reason));
            }
        }
        Ok(PreparedChange { sets_password: password.is_some(), tls })
    }

    /// Checks whether IDs may be as far ahead as `new` allows. A start relies on every earlier run having stayed within
    /// the larger B of the record and of its configuration. Without a record that is the B with which this server was
    /// started.
    fn check_borrowing(&self, name: &str, new: &Config) -> Result<(), SetError> {
        let start_ms = self.issuer().start_max_borrow_ms();
        if new.id_state == StateKind::File || new.id_max_borrow_ms <= start_ms {
            return Ok(());
        }
        let reason = format!(
            "must be at most {start_ms}, as at the start, while id-state is none: without a state file the next start begins \
             {start_ms} ms ahead of the clock, and would repeat IDs further ahead. To raise it, change the configuration and \
             restart"
        );
        Err(SetError::refused(name, reason))
    }

    /// Applies a change. Nothing here can fail.
    fn apply_change(&self, old: &Config, new: Config, ready: PreparedChange) {
        if let (Some(acceptor), Some(loaded)) = (&self.tls, ready.tls) {
            acceptor.install(loaded);
        }
        if limits(&new) != limits(old) {
            self.issuer().set_limits(limits(&new));
        }
        self.issuer().set_max_wait_ms(new.id_max_wait_ms);
        if let Some(own) = self.generators.sequences() {
            own.set_settings(sequences(&new));
        }
        let (borrow_ms, start_ms) = (new.id_max_borrow_ms, self.issuer().start_max_borrow_ms());
        if borrow_ms != old.id_max_borrow_ms && borrow_ms > start_ms {
            throttled!(
                self.throttle,
                Settings,
                "id-max-borrow-ms is {borrow_ms} now and was {start_ms} at the start. The state file has the new value; set it \
                 in the configuration too, or the next start may repeat IDs if the state file is lost or restored from a \
                 copy"
            );
        }
        let has_ended = new.protection() == Protection::Nothing && old.protection() != Protection::Nothing;
        if has_ended && new.is_reached_from_elsewhere() {
            throttled!(
                self.throttle,
                Settings,
                "protected-mode is no now: clients on other machines may run every command without a login while \
                 no password is set"
            );
        }
        self.clients.set_held_bytes_max(new.maxmemory_clients.bytes(usage::memory_limit_bytes()));
        self.evict_clients();
        if new.loglevel != old.loglevel {
            self.log.set_level(new.loglevel);
        }
        let Ok(()) = self.settings.update(|settings| {
            let users = if ready.sets_password {
                Arc::new(settings.users.with_default_password(new.requirepass.as_deref()))
            } else {
                Arc::clone(&settings.users)
            };
            let (scheme, generators) = (Arc::clone(&settings.scheme), Arc::clone(&settings.generators));
            let changed = settings_of(&new, settings.vocabulary.clone(), scheme, generators, users);
            let (has_server_id, is_standby) = (settings.has_server_id, settings.is_standby);
            let cluster = settings.cluster.clone();
            Ok::<_, Infallible>(Settings { has_server_id, is_standby, cluster, ..changed })
        });
        let Ok(()) = self.config.update(|_| Ok::<_, Infallible>(new));
    }

    /// Makes a change that may wait for the disk, when its turn comes; `what` is the command.
    pub(super) async fn run_change(
        self: &Arc<Self>,
        what: &'static str,
        work: impl FnOnce(&Self) -> Value + Send + 'static,
    ) -> Value {
        let server = Arc::clone(self);
        let made = self.changes.make(what, move || work(&server)).await;
        made.unwrap_or_else(|error| Value::Error(error.into()))
    }
}
