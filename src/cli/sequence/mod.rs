//! `getid sequence`: works on sequences in their stores, without a server.
//!
//! It shows and changes what a server does with the same stores, by the same statements. A SQLite file that a server
//! has open is locked; that server's `SEQUENCE` commands do the same.

mod change;
mod error;
mod prune;
mod show;
pub(super) mod stores;

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::change::{CREATE_EXAMPLES, CreateArgs, RAISE_EXAMPLES, RaiseArgs};
use self::prune::{PRUNE_EXAMPLES, PruneArgs};
use self::show::{INFO_EXAMPLES, InfoArgs, LIST_EXAMPLES, ListArgs};
use self::stores::{STORES_HELP, StoreArgs};
use super::exit::CliError;
use super::output::print;

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

pub(super) fn run(args: &SequenceArgs) -> Result<ExitCode, CliError> {
    print(|out| match &args.command {
        SequenceCommand::List(args) => show::list(args, out),
        SequenceCommand::Info(args) => show::info(args, out),
        SequenceCommand::Create(args) => change::create(args, out),
        SequenceCommand::Raise(args) => change::raise(args, out),
        SequenceCommand::Prune(args) => prune::prune(args, out),
        SequenceCommand::Schema(args) => schema(args, out),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn schema(args: &SequenceSchemaArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let stores = args.at.stores()?;
    for (index, store) in stores.all().iter().enumerate() {
        if stores.count() > 1 {
            writeln!(out, "{}-- {}", if index > 0 { "\n" } else { "" }, store.shown())?;
        }
        writeln!(out, "{}", store.schema().trim_end())?;
    }
    Ok(())
}
