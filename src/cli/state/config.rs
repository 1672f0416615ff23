//! The configuration and the place of a record, and how the commands end.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::error::StateError;
use crate::cli::claim_store::{ClaimStore, open_url, parse_url};
use crate::cli::server_args::TIMEOUT_MS_DEFAULT;
use crate::cli::tool_config::{Environment, host_name_with_ordinal, load, sets_layout, state_dir};
use getid_config::{Config, Sources, StateKind};
use getid_engine::claim::lock::LockedFolder;
use getid_server::state_dir::Dir;

/// Output of a command that has done its work.
pub(super) struct CommandOutput {
    /// Text for standard output.
    pub(super) text: String,
    /// Whether the exit code is 0.
    pub(super) good: bool,
}

/// The configuration of a server that starts with the same file and environment.
pub(super) struct StateConfig {
    pub(super) config: Config,
    /// Whether the file or the environment may set the layout.
    pub(super) sets_layout: bool,
    pub(super) environment: Environment,
}

impl StateConfig {
    pub(super) fn load(file: Option<PathBuf>, environment: Environment) -> Result<StateConfig, StateError> {
        let sets_layout = file.is_some() || sets_layout(&environment);
        let sources = Sources { file, environment, words: Vec::new(), host_name: host_name_with_ordinal() };
        let config = load(&sources).map_err(StateError::Configuration)?;
        Ok(StateConfig { config, sets_layout, environment: sources.environment })
    }

    /// Returns the server-id of the selected record: `named`, or the configured one.
    pub(super) fn server_id(&self, named: Option<u32>) -> Result<u32, StateError> {
        let configured = self.config.server_id_from.is_known().then_some(self.config.server_id);
        named.or(configured).ok_or(StateError::NoServerId)
    }

    /// Returns the folder of the state: `named`, or that of the configured server.
    pub(super) fn dir(&self, named: Option<&PathBuf>) -> Result<Dir, StateError> {
        let dir = named.or(self.config.dir.as_ref()).cloned();
        let config = Config { dir, id_state: StateKind::File, ..self.config.clone() };
        Ok(state_dir(&config, &self.environment)?)
    }

    /// Returns the claim store that a flag names.
    pub(super) fn open_store(&self, flag: &'static str, url: &str) -> Result<ClaimStore, StateError> {
        Ok(open_url(&parse_url(flag, url)?, &self.config, STORE_DEADLINE)?)
    }
}

/// Longest time for each call of a claim store.
const STORE_DEADLINE: Duration = Duration::from_millis(TIMEOUT_MS_DEFAULT);

/// The flag that selects the store.
#[derive(Args)]
pub(super) struct StoredArgs {
    /// The claim store, for a record that is in one [default: claim-store of the configuration, if DIR is not given]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

impl StoredArgs {
    /// Returns the selected store; `None` for a folder.
    pub(super) fn store(&self, configured: &StateConfig, names_dir: bool) -> Result<Option<ClaimStore>, StateError> {
        match (&self.store, &configured.config.claim.store) {
            (Some(url), _) => configured.open_store("--store", url).map(Some),
            (None, Some(url)) if !names_dir => Ok(Some(open_url(url, &configured.config, STORE_DEADLINE)?)),
            (None, _) => Ok(None),
        }
    }
}

/// Saves the text of a record in its folder.
pub(super) fn save(locked: &mut LockedFolder, text: &str) -> Result<(), StateError> {
    match locked.save(text)? {
        None => Ok(()),
        Some(lost) => Err(StateError::ClaimLost(locked.describe(lost))),
    }
}
