//! `getid sequence`: works on sequences in their stores, without a server.
//!
//! It shows and changes what a server does with the same stores, by the same statements. A SQLite file that a server
//! has open is locked; that server's `SEQUENCE` commands do the same.

mod change;
mod prune;
mod show;
pub(super) mod stores;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use getid_core::{Key, SEQUENCE_NAME_RULE};

use self::change::{CREATE_EXAMPLES, CreateArgs, RAISE_EXAMPLES, RaiseArgs};
use self::prune::{PRUNE_EXAMPLES, PruneArgs};
use self::show::{INFO_EXAMPLES, InfoArgs, LIST_EXAMPLES, ListArgs};
use self::stores::{STORES_HELP, StoreArgs};
use super::output::{EXIT_FAILED, complain, finish, print};

/// Arguments of `getid sequence`.
#[derive(Args)]
pub(super) struct SequenceArgs {
    #[command(subcommand)]
    command: SequenceCommand,
}

#[derive(Subcommand)]
enum SequenceCommand {
    /// List sequences, one a line, in the order of their names
    #[command(after_help = format!("{STORES_HELP}\n\n{LIST_EXAMPLES}"))]
    List(ListArgs),
    /// Show all that a store records about one sequence
    ///
    /// Exits 1 when there is no such sequence.
    #[command(after_help = format!("{STORES_HELP}\n\n{INFO_EXAMPLES}"))]
    Info(InfoArgs),
    /// Make a sequence; an error if it exists
    ///
    /// A name that was dropped continues above its last value. With several stores, each gets the sequence.
    #[command(after_help = format!("{STORES_HELP}\n\n{CREATE_EXAMPLES}"))]
    Create(CreateArgs),
    /// Raise a sequence past a value
    ///
    /// It never goes back. A sequence that was marked because its store went back gives values again.
    #[command(after_help = format!("{STORES_HELP}\n\n{RAISE_EXAMPLES}"))]
    Raise(RaiseArgs),
    /// Remove the counters of serial numbers' ended periods; without --yes only show them
    ///
    /// Only this removes them: a server deletes no period by a clock. A removed period never begins again.
    /// Sequences, counters that never begin again, the newest period of each generator, and a row that went back stay.
    #[command(after_help = format!("{STORES_HELP}\n\n{PRUNE_EXAMPLES}"))]
    Prune(PruneArgs),
    /// Print the SQL that makes the tables, for a user with that right; connects to nothing
    #[command(after_help = format!("{STORES_HELP}\n\n{SCHEMA_EXAMPLES}"))]
    Schema(SchemaArgs),
}

const SCHEMA_EXAMPLES: &str = "\
Examples:
  getid sequence schema --store mysql://getid@db/ids | mysql -u root ids
  getid sequence schema --config /etc/getid/getid.conf";

#[derive(Args)]
struct SchemaArgs {
    #[command(flatten)]
    at: StoreArgs,
}

/// Why a tool stops before it has done its work.
pub(super) enum Stop {
    /// Its output cannot be written, or the reader has closed it.
    Print(io::Error),
    /// The answer is no.
    No(String),
    /// The command line is wrong, or a store did not answer.
    Failed(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Print(error)
    }
}

impl From<String> for Stop {
    fn from(sentence: String) -> Stop {
        Stop::Failed(sentence)
    }
}

/// Runs a tool that prints, and reports why it stopped. Returns the exit code.
pub(super) fn run_and_tell(work: impl FnOnce(&mut dyn Write) -> Result<(), Stop>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    let printed = print(|out| {
        let (sentence, exit) = match work(out) {
            Ok(()) => return Ok(()),
            Err(Stop::Print(error)) => return Err(error),
            Err(Stop::No(sentence)) => (sentence, ExitCode::FAILURE),
            Err(Stop::Failed(sentence)) => (sentence, ExitCode::from(EXIT_FAILED)),
        };
        out.flush()?;
        complain(&sentence);
        code = exit;
        Ok(())
    });
    finish(printed, code)
}

pub(super) fn run(args: &SequenceArgs) -> ExitCode {
    run_and_tell(|out| match &args.command {
        SequenceCommand::List(args) => show::list(args, out),
        SequenceCommand::Info(args) => show::info(args, out),
        SequenceCommand::Create(args) => change::create(args, out),
        SequenceCommand::Raise(args) => change::raise(args, out),
        SequenceCommand::Prune(args) => prune::prune(args, out),
        SequenceCommand::Schema(args) => schema(args, out),
    })
}

fn schema(args: &SchemaArgs, out: &mut dyn Write) -> Result<(), Stop> {
    let stores = args.at.stores()?;
    for (index, store) in stores.all().iter().enumerate() {
        if stores.count() > 1 {
            writeln!(out, "{}-- {}", if index > 0 { "\n" } else { "" }, store.shown())?;
        }
        writeln!(out, "{}", store.schema().trim_end())?;
    }
    Ok(())
}

/// Parses the name of a sequence. Fails with the rule for names.
fn key(name: &str) -> Result<Key, String> {
    Key::parse(name).ok_or_else(|| {
        format!(
            "'{}' is no name of a sequence: it has {SEQUENCE_NAME_RULE}",
            crate::text::printable::printable_up_to(name, 200)
        )
    })
}
