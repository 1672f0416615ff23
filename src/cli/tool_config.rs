//! The configuration as tools read it: that of a server that starts here with the same file and environment.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use getid_config::{Config, ConfigReport, Sources, ordinal};
use getid_server::config_files::RealFiles;
use getid_server::state_dir::Dir;
use getid_system::host;
use getid_text::store_url::StoreUrlError;

/// Variables of the environment, with their values.
pub(super) type Environment = Vec<(OsString, OsString)>;

/// Variables of the environment that set the layout of a server here.
const LAYOUT_VARIABLES: [&str; 5] =
    ["GETID_ID_GENERATOR", "GETID_ID_RANGE", "GETID_SHARD_RANGE", "GETID_RANDOM_RANGE", "GETID_ID_EPOCH"];

/// Error of a configuration of which a tool needs only a part.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolConfigError {
    #[error("{}", .0.sentences())]
    Invalid(#[from] ConfigReport),
    #[error("the working folder: {0}")]
    WorkingFolder(io::Error),
}

/// Error of an address of a store that was given with a flag.
#[derive(Debug, thiserror::Error)]
#[error("{flag}: {error}{}", .error.help().map(|help| format!(" ({help})")).unwrap_or_default())]
pub(super) struct UrlArgumentError {
    pub(super) flag: &'static str,
    pub(super) error: StoreUrlError,
}

/// Reads a configuration. Its warnings are for the operator who starts the server.
pub(super) fn load(sources: &Sources) -> Result<Config, ConfigReport> {
    Config::load(sources, &RealFiles).map(|(config, _)| config)
}

/// Returns the folder of the state, which a missing folder is too.
pub(super) fn state_dir(config: &Config, environment: &[(OsString, OsString)]) -> Result<Dir, ToolConfigError> {
    Ok(Dir::find(config, environment, &working_folder()?)?)
}

/// Returns the folder in which relative paths of stores begin. It matters only to a store that `is_file`.
pub(super) fn dir_of_stores(config: &Config, is_file: bool) -> Result<PathBuf, ToolConfigError> {
    match state_dir(config, &environment()) {
        Ok(dir) => Ok(dir.path),
        Err(ToolConfigError::Invalid(_)) if !is_file => working_folder(),
        Err(error) => Err(error),
    }
}

fn working_folder() -> Result<PathBuf, ToolConfigError> {
    std::env::current_dir().map_err(ToolConfigError::WorkingFolder)
}

/// Returns this process's environment.
pub(super) fn environment() -> Environment {
    std::env::vars_os().collect()
}

/// Whether the environment sets the layout of a server here.
pub(super) fn sets_layout(environment: &[(OsString, OsString)]) -> bool {
    environment.iter().any(|(name, _)| LAYOUT_VARIABLES.iter().any(|variable| name == variable))
}

/// Returns this host's name if it can give a server its number (`server-id auto-ordinal`).
pub(super) fn host_name_with_ordinal() -> Option<String> {
    Some(host::name()).filter(|name| ordinal(name).is_some())
}
