//! `getid number`: numbers without gaps, by a client of a running server.
//!
//! Only the server has the ledger's rules, so each subcommand sends one command and prints its answer. The export reads
//! the whole ledger page by page.

mod act;
mod error;
mod export;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::act::{
    ACT_EXIT_CODES, COMMIT_EXAMPLES, RELEASE_EXAMPLES, RESERVE_EXAMPLES, RequestArgs, ReserveArgs, SETTLE_EXAMPLES,
    SettleArgs, VOID_EXAMPLES, VoidArgs,
};
use self::export::{LEDGER_EXAMPLES, LEDGER_NOTES, LedgerArgs};
use super::exit::CliError;
use super::server_args::SERVER_HELP;

/// Arguments of `getid number`.
#[derive(Args)]
pub(super) struct NumberArgs {
    #[command(subcommand)]
    command: NumberCommand,
}

#[derive(Subcommand)]
enum NumberCommand {
    /// Reserve a number for a request, and print it
    ///
    /// A request that has a number gets the same one again. A reservation never expires: commit the number when it is
    /// used, or release it.
    #[command(after_help = format!("{SERVER_HELP}\n\n{ACT_EXIT_CODES}\n\n{RESERVE_EXAMPLES}"))]
    Reserve(Box<ReserveArgs>),
    /// Commit the number of a request: it is used
    #[command(after_help = format!("{SERVER_HELP}\n\n{ACT_EXIT_CODES}\n\n{COMMIT_EXAMPLES}"))]
    Commit(Box<RequestArgs>),
    /// Release the number of a request: another request gets it, unless its period has ended
    #[command(after_help = format!("{SERVER_HELP}\n\n{ACT_EXIT_CODES}\n\n{RELEASE_EXAMPLES}"))]
    Release(Box<RequestArgs>),
    /// Mark the number of a request as not used, for a reason
    #[command(after_help = format!("{SERVER_HELP}\n\n{ACT_EXIT_CODES}\n\n{VOID_EXAMPLES}"))]
    Void(Box<VoidArgs>),
    /// Settle a number without its request, as an administrator
    ///
    /// For a number whose request is lost, or that is unclear since a store was restored. It cannot be released.
    #[command(after_help = format!("{SERVER_HELP}\n\n{ACT_EXIT_CODES}\n\n{SETTLE_EXAMPLES}"))]
    Settle(Box<SettleArgs>),
    /// List all numbers with their states, and check that none is missing
    ///
    /// With --csv the list is one that an auditor reads. Exits 1 if a number from 1 to the highest of its counter is
    /// missing.
    #[command(after_help = format!("{LEDGER_NOTES}\n\n{SERVER_HELP}\n\n{LEDGER_EXAMPLES}"))]
    Ledger(Box<LedgerArgs>),
}

pub(super) fn run(args: &NumberArgs) -> Result<ExitCode, CliError> {
    match &args.command {
        NumberCommand::Reserve(args) => act::reserve(args),
        NumberCommand::Commit(args) => act::commit(args),
        NumberCommand::Release(args) => act::release(args),
        NumberCommand::Void(args) => act::void(args),
        NumberCommand::Settle(args) => act::settle(args),
        NumberCommand::Ledger(args) => export::run(args),
    }
}
