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
use getid_core::server::{Key, SEQUENCE_NAME_RULE};

use self::change::{CREATE_EXAMPLES, CreateArgs, RAISE_EXAMPLES, RaiseArgs};
use self::prune::{PRUNE_EXAMPLES, PruneArgs};
use self::show::{INFO_EXAMPLES, InfoArgs, LIST_EXAMPLES, ListArgs};
use self::stores::{STORES_HELP, StoreArgs};
use super::output::{EXIT_FAILED, finish, print, print_error};

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
    /// Show the record of one sequence in each store
    ///
    /// Exits 1 when there is no such sequence.
    #[command(after_help = format!("{STORES_HELP}\n\n{INFO_EXAMPLES}"))]
    Info(InfoArgs),
    /// Create a sequence; an error if it exists
    ///
    /// A name that was dropped continues above its last value. With several stores, each gets the sequence.
    #[command(after_help = format!("{STORES_HELP}\n\n{CREATE_EXAMPLES}"))]
    Create(CreateArgs),
    /// Raise a sequence past a value
    ///
    /// A sequence never goes back. A sequence that was marked because its store went back gives values again.
    #[command(after_help = format!("{STORES_HELP}\n\n{RAISE_EXAMPLES}"))]
    Raise(RaiseArgs),
    /// Remove the counters of serial numbers' ended periods; without --yes only show them
    ///
    /// Only this command removes them: a server deletes no period by its clock. A removed period never begins again.
    /// Sequences, counters that never begin again, the newest period of each generator, and a row that went back stay.
    #[command(after_help = format!("{STORES_HELP}\n\n{PRUNE_EXAMPLES}"))]
    Prune(PruneArgs),
    /// Print the SQL that creates the tables, for a user with that right; does not connect
    #[command(after_help = format!("{STORES_HELP}\n\n{SCHEMA_EXAMPLES}"))]
    Schema(SequenceSchemaArgs),
}

const SCHEMA_EXAMPLES: &str = "\
Examples:
  getid sequence schema --store mysql://getid@db/ids | mysql -u root ids
  getid sequence schema --config /etc/getid/getid.conf";

#[derive(Args)]
struct SequenceSchemaArgs {
    #[command(flatten)]
    at: StoreArgs,
}

/// Why a tool stops before it has done its work.
pub(super) enum ToolError {
    /// Its output cannot be written, or the reader has closed it.
    Print(io::Error),
    /// The answer is no.
    Negative(String),
    /// The command line is wrong, or a store did not answer.
    Failed(String),
}

impl From<io::Error> for ToolError {
    fn from(error: io::Error) -> ToolError {
        ToolError::Print(error)
    }
}

impl From<String> for ToolError {
    fn from(sentence: String) -> ToolError {
        ToolError::Failed(sentence)
    }
}

/// Runs a tool that prints, and reports why it stopped. Returns the exit code.
pub(super) fn run_and_report(work: impl FnOnce(&mut dyn Write) -> Result<(), ToolError>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    let printed = print(|out| {
        let (sentence, exit) = match work(out) {
            Ok(()) => return Ok(()),
            Err(ToolError::Print(error)) => return Err(error),
            Err(ToolError::Negative(sentence)) => (sentence, ExitCode::FAILURE),
            Err(ToolError::Failed(sentence)) => (sentence, ExitCode::from(EXIT_FAILED)),
        };
        out.flush()?;
        print_error(&sentence);
        code = exit;
        Ok(())
    });
    finish(printed, code)
}

pub(super) fn run(args: &SequenceArgs) -> ExitCode {
    run_and_report(|out| match &args.command {
        SequenceCommand::List(args) => show::list(args, out),
        SequenceCommand::Info(args) => show::info(args, out),
        SequenceCommand::Create(args) => change::create(args, out),
        SequenceCommand::Raise(args) => change::raise(args, out),
        SequenceCommand::Prune(args) => prune::prune(args, out),
        SequenceCommand::Schema(args) => schema(args, out),
    })
}

fn schema(args: &SequenceSchemaArgs, out: &mut dyn Write) -> Result<(), ToolError> {
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
            getid_text::printable::printable_up_to(name, 200)
        )
    })
}
