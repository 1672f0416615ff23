//! `getid state`: shows the records in a folder or a claim store, moves one ahead or to another place, and removes the
//! name of a generator.
//!
//! An advance is the remedy that errors name, for a record that is damaged, of another format version, under another epoch,
//! or lost. It is also the first step of a migration from a server without a record. It takes a server's claim,
//! so it cannot run under one.
//!
//! A record never goes back: the later of the old and the requested position is written. Of a damaged record, the
//! readable lines count. A step of more than a day ahead of the clock needs `--force`, as it cannot be undone.
//!
//! The largest ID in a table is not the largest that was given, because some were still on their way. These lie less
//! than B and the room of one save past that ID or past the clock, which is the margin. R is set so that IDs are given
//! at once.

mod advance;
mod forget;
mod move_;
mod show;
mod stored;
pub(super) mod texts;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::advance::{ADVANCE_EXAMPLES, AdvanceArgs, advance};
pub(super) use self::forget::canonical;
use self::forget::{FORGET_EXAMPLES, StateForgetArgs, forget};
use self::move_::{MOVE_EXAMPLES, MoveArgs, move_};
use self::show::{SHOW_EXAMPLES, StateShowArgs, show};
use super::{host_name_with_ordinal, output};
use getid_config::{Config, Sources, StateKind};
use getid_server::config_files::RealFiles;
use getid_server::state_dir::Dir;
use getid_system::clock::wall_unix_ms;

/// Variables of the environment that set the layout of a server here.
const LAYOUT_VARIABLES: [&str; 5] =
    ["GETID_ID_GENERATOR", "GETID_ID_RANGE", "GETID_SHARD_RANGE", "GETID_RANDOM_RANGE", "GETID_ID_EPOCH"];

/// Arguments of `getid state`.
#[derive(Args)]
pub struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Subcommand)]
enum StateCommand {
    /// Print the records in a folder, or in a claim store
    ///
    /// Shows for each server-id how far its IDs may have come, its distance to the clock, and which process holds it.
    /// Exits 1 if there is no record, or a record with which no server starts.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(StateShowArgs),
    /// Move a server's record ahead, so that it gives no ID before a given one or a given time
    ///
    /// Creates the record if there is none, and replaces an unreadable record (a copy is kept). Never goes back. The
    /// server must not be running.
    #[command(after_help = ADVANCE_EXAMPLES)]
    Advance(AdvanceArgs),
    /// Remove a named generator's declaration from a record, so that the name may be declared differently
    ///
    /// The record keeps the largest given ID, and a later generator of this name must begin past it. The server must
    /// not be running.
    #[command(after_help = FORGET_EXAMPLES)]
    Forget(StateForgetArgs),
    /// Move a server's record from a folder to a claim store, from there to a folder, or between two of either
    ///
    /// The record at the source is marked, so that no server starts with it. After an interruption, run the command
    /// again. The server must not be running.
    #[command(after_help = MOVE_EXAMPLES)]
    Move(MoveArgs),
}

/// Runs the command, by this machine's clock.
pub fn run(args: StateArgs) -> ExitCode {
    let StateArgs { command } = args;
    match answer(&command, wall_unix_ms(), std::env::vars_os().collect()) {
        Ok(CommandOutput { text, good }) => {
            let code = if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            output::finish(output::print(|out| out.write_all(text.as_bytes())), code)
        }
        Err(error) => {
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs the command as [`run`] does, at a given time and in a given environment. Returns the text for standard output,
/// and whether the exit code is 0.
///
/// # Errors
///
/// Returns the sentence for standard error.
#[doc(hidden)]
pub fn run_at(
    args: &StateArgs,
    now_unix_ms: i64,
    environment: Vec<(OsString, OsString)>,
) -> Result<(String, bool), String> {
    answer(&args.command, now_unix_ms, environment).map(|CommandOutput { text, good }| (text, good))
}

struct CommandOutput {
    text: String,
    /// Whether the exit code is 0.
    good: bool,
}

type Environment = Vec<(OsString, OsString)>;

fn answer(command: &StateCommand, now_unix_ms: i64, environment: Environment) -> Result<CommandOutput, String> {
    match command {
        StateCommand::Show(args) => {
            let configured = configured(args.config.clone(), environment)?;
            match args.stored.store(&configured, args.dir.is_some())? {
                None => show(args, now_unix_ms, &configured),
                Some(store) => stored::show(&store, args.server_id, args.json, now_unix_ms),
            }
        }
        StateCommand::Advance(args) => {
            let configured = configured(args.layout.config(), environment)?;
            let text = match args.stored.store(&configured, args.dir.is_some())? {
                None => advance(args, now_unix_ms, &configured),
                Some(store) => stored::advance(args, &store, now_unix_ms, &configured),
            };
            text.map(|text| CommandOutput { text, good: true })
        }
        StateCommand::Forget(args) => {
            let configured = configured(args.config.clone(), environment)?;
            forget(args, &configured).map(|text| CommandOutput { text, good: true })
        }
        StateCommand::Move(args) => {
            let configured = configured(args.config.clone(), environment)?;
            move_(args, &configured, now_unix_ms).map(|text| CommandOutput { text, good: true })
        }
    }
}

/// The configuration of a server that starts with the same file and environment.
struct StateConfig {
    config: Config,
    /// Whether the file or the environment may set the layout.
    sets_layout: bool,
    environment: Environment,
}

impl StateConfig {
    /// Returns the server-id of the selected record: `named`, or the configured one.
    fn server_id(&self, named: Option<u32>) -> Result<u32, String> {
        named.or(self.config.server_id_from.is_known().then_some(self.config.server_id)).ok_or_else(|| {
            "the server-id is missing: name it with --server-id, or name a configuration with server-id in it by --config"
                .to_owned()
        })
    }

    /// Returns the folder of the state: `named`, or that of the configured server.
    fn dir(&self, named: Option<&PathBuf>) -> Result<Dir, String> {
        let dir = named.or(self.config.dir.as_ref()).cloned();
        let config = Config { dir, id_state: StateKind::File, ..self.config.clone() };
        let here = std::env::current_dir().map_err(|error| format!("the working folder: {error}"))?;
        Dir::find(&config, &self.environment, &here).map_err(|report| report.sentences())
    }
}

/// Whether the environment sets the layout of a server here.
pub(super) fn sets_layout(environment: &[(OsString, OsString)]) -> bool {
    environment.iter().any(|(name, _)| LAYOUT_VARIABLES.iter().any(|v| name == v))
}

fn configured(file: Option<PathBuf>, environment: Environment) -> Result<StateConfig, String> {
    let sets_layout = file.is_some() || sets_layout(&environment);
    let sources = Sources { file, environment, words: Vec::new(), host_name: host_name_with_ordinal() };
    // Warnings are for the operator who starts the server.
    let (config, _) = Config::load(&sources, &RealFiles).map_err(|report| format!("configuration:\n{report}"))?;
    Ok(StateConfig { config, sets_layout, environment: sources.environment })
}
