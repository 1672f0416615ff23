//! From the words after `serve` and `check-config` to a configuration that can be run, with its warnings.
//!
//! One function serves both, so `check-config` reports what a start would. Steps that acquire something are left to the
//! start: making the folder, opening the log, listening, and claiming the state.

use std::path::PathBuf;

use super::surroundings::{self, Surroundings};
use super::{access, words};
use getid_config::{Config, ConfigReport, ServerIdSource, Sources, StateKind};
use getid_engine::generators::end_of_life;
use getid_redis::session::Settings;
use getid_server::config_files::RealFiles;
use getid_server::listen::{ClientLimits, TooFewFiles};
use getid_server::settings::session_settings;
use getid_server::state_dir::Dir;
use getid_system::clock::wall_unix_ms;

/// A configuration that can be run.
pub(in crate::cli) struct Startup {
    /// The whole configuration; `state_dir` is the final path.
    pub(in crate::cli) config: Config,
    /// Sentences about settings that are likely to repeat IDs or to lose the state, for the first line of the log.
    pub(in crate::cli) alarms: Vec<String>,
    /// Sentences about settings that may not be intended.
    pub(in crate::cli) warnings: Vec<String>,
    /// Sentences about lines of files that the environment or the command line override.
    pub(in crate::cli) overridden: Vec<String>,
    /// Settings of new sessions.
    pub(in crate::cli) settings: Settings,
    /// Absolute path of the configuration file, if there is one.
    pub(in crate::cli) config_file: Option<PathBuf>,
    /// Sources of the configuration, with only the `GETID_*` variables of the environment.
    pub(in crate::cli) sources: Sources,
    /// The working folder at the start, where relative paths of `include` begin.
    pub(in crate::cli) started_in: PathBuf,
    /// Whether the folder of the state does not exist yet.
    pub(in crate::cli) makes_dir: bool,
}

/// Purpose for which a configuration is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum LoadPurpose {
    /// A server will run: a missing folder is made.
    Start,
    /// Nothing is changed.
    Check,
}

impl Startup {
    /// Reads all sources and enters the folder of the state.
    pub(in crate::cli) fn load(words: Vec<String>, purpose: LoadPurpose) -> Result<Startup, ConfigReport> {
        let mut sources = words::sources(words);
        let (mut config, warnings, overridden) = Config::load_and_compare(&sources, &RealFiles)?;
        let config_file = sources.file.take().map(|file| std::path::absolute(&file).unwrap_or(file));
        // A deleted working folder has no files.
        let started_in = std::env::current_dir().unwrap_or_default();
        let mut settings = session_settings(&config)?;
        let dir = Dir::find(&config, &sources.environment, &started_in)?;
        let around = Surroundings::detect(&dir.path);
        surroundings::missing_server_id(&config, &around)?;
        // Only `GETID_*` variables are kept.
        sources.environment.retain(|(name, _)| name.as_encoded_bytes().starts_with(b"GETID_"));
        if purpose == LoadPurpose::Start || !dir.is_missing {
            config.state_dir = dir.enter()?;
        } else {
            dir.can_make()?;
            config.state_dir.clone_from(&dir.path);
            // Relative to the folder that does not exist yet.
            config.resolve_paths(&dir.path);
        }
        let keeps_files = config.id_state == StateKind::File || config.claim.store.is_some();
        if keeps_files && (purpose == LoadPurpose::Start || !dir.is_missing) {
            dir.can_write()?;
        }
        if let Some(users) = access::load_file(&config)? {
            access::check_http_users(&config, &users)?;
            settings.users = std::sync::Arc::new(users);
        }
        let mut warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        warnings.extend(own_warnings(&config, &dir));
        warnings.extend(end_of_life::warning(config.layout, &config.generators, wall_unix_ms()));
        warnings.extend(end_of_life::not_begun(&config.generators, wall_unix_ms()));
        warnings.extend(access::warnings(&config, &settings.users));
        if config.http.port != 0 {
            warnings.extend(access::api_warnings(&config, &settings.users));
        }
        let alarms = surroundings::alarms(&config, &around);
        let overridden = overridden.iter().map(ToString::to_string).collect();
        let makes_dir = dir.is_missing;
        Ok(Startup { config, alarms, warnings, overridden, settings, config_file, sources, started_in, makes_dir })
    }
}

/// Lowers `maxclients` and `http-max-clients` to what the limit of open files permits. As in Redis, these are their
/// values from then on. Returns a sentence for each lowered one.
///
/// `own_files` descriptors are used for everything else.
pub(in crate::cli) fn fit_clients(config: &mut Config, own_files: u64) -> Result<Vec<String>, TooFewFiles> {
    let configured = ClientLimits::of(config);
    let fitting = configured.fitting(own_files, config.tls_port != 0)?;
    config.maxclients = fitting.clients;
    if config.http.port != 0 {
        config.http.clients_max = fitting.http;
    }
    let limits =
        [("maxclients", configured.clients, fitting.clients), ("http-max-clients", configured.http, fitting.http)];
    let lowered = limits.into_iter().filter(|(_, configured, fitting)| fitting < configured);
    Ok(lowered.map(|(name, configured, fitting)| lowered_limit(name, configured, fitting)).collect())
}

fn lowered_limit(name: &str, configured: u32, fitting: u32) -> String {
    format!(
        "{name} {configured} needs more open files than the limit allows: {name} is {fitting} now. Raise the limit with ulimit -n or \
         LimitNOFILE="
    )
}

/// Returns warnings about the state and the server-id.
fn own_warnings(config: &Config, dir: &Dir) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.server_id_from == ServerIdSource::Default {
        warnings.push("server-id was never set and is 0: two servers with one server-id give the same IDs".to_owned());
    }
    if config.id_state == StateKind::None {
        warnings.push(
            "id-state none: no state is stored; a clock that is set back between two lives makes IDs repeat".to_owned(),
        );
    }
    if let Some(record) = &dir.left_behind {
        let folder = record.parent().unwrap_or(record);
        warnings.push(format!(
            "there is a state of server-id {} in the folder of this start, {}, and it is not used: without dir, the state \
             is in {}. If it belongs to this server, stop the server, and move the state there or set --dir {}",
            config.server_id,
            record.display(),
            dir.path.display(),
            folder.display(),
        ));
    }
    warnings
}
