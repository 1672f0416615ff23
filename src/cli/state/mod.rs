//! `getid state`: shows the records in a folder or a claim store, moves one ahead or to another place, and removes the
//! name of a generator.
//!
//! An advance is the remedy that errors name, for a record that is damaged, of another format version, under another
//! epoch, or lost. It is also the first step of a migration from a server without a record. It takes a server's claim,
//! so it cannot run under one.
//!
//! A record never goes back: the later of the old and the requested position is written. Of a damaged record, the
//! readable lines count. A step of more than a day ahead of the clock needs `--force`, as it cannot be undone.
//!
//! The largest ID in a table is not the largest that was given, because some were still on their way. These lie less
//! than B and the room of one save past that ID or past the clock, which is the margin. R is set so that IDs are given
//! at once.

mod advance;
mod config;
mod error;
mod forget;
mod move_;
mod show;
mod stored;

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::advance::{ADVANCE_EXAMPLES, AdvanceArgs, advance};
use self::config::{CommandOutput, StateConfig};
use self::error::StateError;
use self::forget::{FORGET_EXAMPLES, StateForgetArgs, forget};
use self::move_::{MOVE_EXAMPLES, MoveArgs, move_};
use self::show::{SHOW_EXAMPLES, StateShowArgs, show};
use super::exit::{CliError, finish};
use super::output;
use super::tool_config::{Environment, environment};
use getid_system::clock::wall_unix_ms;

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
pub(super) fn run(args: &StateArgs) -> Result<ExitCode, CliError> {
    let CommandOutput { text, good } = answer(&args.command, wall_unix_ms(), environment())?;
    let code = if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    finish(output::print(|out| out.write_all(text.as_bytes())), code)
}

/// Runs the command at a given time and in a given environment. Returns the text for standard output, and whether the
/// exit code is 0.
///
/// # Errors
///
/// Returns the error for standard error.
#[doc(hidden)]
pub fn run_at(
    args: &StateArgs,
    now_unix_ms: i64,
    environment: Environment,
) -> Result<(String, bool), impl Error + use<>> {
    answer(&args.command, now_unix_ms, environment).map(|CommandOutput { text, good }| (text, good))
}

fn answer(command: &StateCommand, now_unix_ms: i64, environment: Environment) -> Result<CommandOutput, StateError> {
    let text = match command {
        StateCommand::Show(args) => {
            let configured = StateConfig::load(args.config.clone(), environment)?;
            return match args.stored.store(&configured, args.dir.is_some())? {
                None => show(args, now_unix_ms, &configured),
                Some(store) => stored::show(&store, args.server_id, args.json, now_unix_ms),
            };
        }
        StateCommand::Advance(args) => {
            let configured = StateConfig::load(args.layout.config(), environment)?;
            match args.stored.store(&configured, args.dir.is_some())? {
                None => advance(args, now_unix_ms, &configured),
                Some(store) => stored::advance(args, &store, now_unix_ms, &configured),
            }
        }
        StateCommand::Forget(args) => forget(args, &StateConfig::load(args.config.clone(), environment)?),
        StateCommand::Move(args) => move_(args, &StateConfig::load(args.config.clone(), environment)?, now_unix_ms),
    };
    Ok(CommandOutput { text: text?, good: true })
}
