//! `getid state`: look at the records in a folder or a claim store, move one ahead or to another place, and let go of a
//! named generator.
//!
//! Moving ahead is the remedy that errors name: for a record that is damaged, that a newer getid or another epoch
//! wrote, or that was lost with its disk; and the first step when a server takes over from one that kept no record. It
//! takes the same claim as a server does, so it cannot happen under one that runs.
//!
//! It never goes back: what is written is the later of what was there and what was asked for. Of a record that is
//! damaged, the lines count that are whole. There is no way to undo a step too far, so one that is more than a day
//! ahead of the clock is refused unless it is forced.
//!
//! The largest ID in a table is not the largest that was given: some were still under way when it was looked up. All
//! that was under way lies less than B and the room of one save past that ID or past the clock, whichever is later, so
//! that is the margin; and R is put where IDs come at once. B and the rest are as a server has them that starts with
//! the same file and environment.

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
use self::forget::{FORGET_EXAMPLES, ForgetArgs, forget};
use self::move_::{MOVE_EXAMPLES, MoveArgs, move_};
use self::show::{SHOW_EXAMPLES, ShowArgs, show};
use super::{host_name_with_ordinal, output};
use crate::config::{Config, Sources, StateKind};
use crate::config::{Dir, RealFiles};
use crate::system::clock::wall_unix_ms;

/// Any of these in the environment says which layout a server here has.
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
    /// Says for each server-id how far its IDs may have come, how that stands to the clock, and which process holds it.
    /// Exits 1 when there is no record, or one that a server would not start with.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// Move a server's record ahead, so that it gives no ID before a given one or a given time
    ///
    /// Makes the record where there is none, and replaces one that cannot be read (a copy is kept). Never goes back.
    /// The server must not be running.
    #[command(after_help = ADVANCE_EXAMPLES)]
    Advance(AdvanceArgs),
    /// Take a named generator's declaration out of a record, so that the name may be declared in another way
    ///
    /// The record keeps the largest ID that was given: whatever gets the name later must begin past it. The server must
    /// not be running.
    #[command(after_help = FORGET_EXAMPLES)]
    Forget(ForgetArgs),
    /// Move a server's record from a folder to a claim store, from there to a folder, or between two of either
    ///
    /// The record that stays behind is marked, so that no server starts with it. Interrupted at any moment it can be
    /// run again. The server must not be running.
    #[command(after_help = MOVE_EXAMPLES)]
    Move(MoveArgs),
}

/// Does what `args` say, by this machine's clock.
pub fn run(args: StateArgs) -> ExitCode {
    let StateArgs { command } = args;
    match answer(&command, wall_unix_ms(), std::env::vars_os().collect()) {
        Ok(Answer { text, good }) => {
            let code = if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            output::finish(output::print(|out| out.write_all(text.as_bytes())), code)
        }
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// What [`run`] does at a given time and in a given environment: the text for standard output, and whether the exit
/// code is 0; or the complaint.
///
/// # Errors
///
/// The sentence for standard error.
#[doc(hidden)]
pub fn run_at(
    args: &StateArgs,
    now_unix_ms: i64,
    environment: Vec<(OsString, OsString)>,
) -> Result<(String, bool), String> {
    answer(&args.command, now_unix_ms, environment).map(|Answer { text, good }| (text, good))
}

struct Answer {
    text: String,
    /// Exit code 0.
    good: bool,
}

type Environment = Vec<(OsString, OsString)>;

fn answer(command: &StateCommand, now_unix_ms: i64, environment: Environment) -> Result<Answer, String> {
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
            text.map(|text| Answer { text, good: true })
        }
        StateCommand::Forget(args) => {
            let configured = configured(args.config.clone(), environment)?;
            forget(args, &configured).map(|text| Answer { text, good: true })
        }
        StateCommand::Move(args) => {
            let configured = configured(args.config.clone(), environment)?;
            move_(args, &configured, now_unix_ms).map(|text| Answer { text, good: true })
        }
    }
}

/// What a server has that starts with the same file and environment.
struct Configured {
    config: Config,
    /// Whether they say which layout it has.
    says_layout: bool,
    environment: Environment,
}

impl Configured {
    /// Whose record is meant: `named`, or that server's.
    fn server_id(&self, named: Option<u32>) -> Result<u32, String> {
        named.or(self.config.server_id_from.is_known().then_some(self.config.server_id)).ok_or_else(|| {
            "whose record? Name the server with --server-id, or give its configuration with --config, server-id in it"
                .to_owned()
        })
    }

    /// The folder of the state: `named`, or where that server would have it.
    fn dir(&self, named: Option<&PathBuf>) -> Result<Dir, String> {
        let dir = named.or(self.config.dir.as_ref()).cloned();
        let config = Config { dir, id_state: StateKind::File, ..self.config.clone() };
        let here = std::env::current_dir().map_err(|error| format!("the working folder: {error}"))?;
        Dir::find(&config, &self.environment, &here).map_err(|report| report.sentences())
    }
}

/// Whether the environment says which layout a server here has.
pub(super) fn says_layout(environment: &[(OsString, OsString)]) -> bool {
    environment.iter().any(|(name, _)| LAYOUT_VARIABLES.iter().any(|v| name == v))
}

fn configured(file: Option<PathBuf>, environment: Environment) -> Result<Configured, String> {
    let says_layout = file.is_some() || says_layout(&environment);
    let sources = Sources { file, environment, words: Vec::new(), host_name: host_name_with_ordinal() };
    // Warnings are for who starts the server.
    let (config, _) = Config::load(&sources, &RealFiles).map_err(|report| format!("configuration:\n{report}"))?;
    Ok(Configured { config, says_layout, environment: sources.environment })
}
