//! `getid cluster`: the properties that all servers of a fleet share, as their claim store records them.
//!
//! They are pinned once, and each server is compared with them at its start. The tool makes and shows the record, and
//! removes a generator that no server declares any more.

mod error;
mod forget;
mod init;
mod show;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::forget::{FORGET_EXAMPLES, ForgetGeneratorArgs};
use self::init::{ClusterInitArgs, INIT_EXAMPLES};
use self::show::{ClusterShowArgs, SHOW_EXAMPLES};
use super::claim_store::CLAIM_STORE_HELP;
use super::exit::CliError;
use super::output::print;
use getid_system::clock::wall_unix_ms;

/// Arguments of `getid cluster`.
#[derive(Args)]
pub(super) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Initialise a claim store for a fleet, or add server-ids to it
    ///
    /// Fixes id-range, epoch and the declarations of generators to those of the configuration: a server with other
    /// values is refused at its start. A repeated call with the same values changes nothing, and one with other values
    /// is refused.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{INIT_EXAMPLES}"))]
    Init(ClusterInitArgs),
    /// Show what the servers of a fleet share, and how many of its server-ids are held
    ///
    /// Exits 1 if the claim store was never initialised.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{SHOW_EXAMPLES}"))]
    Show(ClusterShowArgs),
    /// Forget a generator's name, so that servers may declare it differently
    ///
    /// No server may hold a claim whose record has the generator: stop those servers first. Each record keeps the
    /// largest given ID, and a later generator of this name must begin past it.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{FORGET_EXAMPLES}"))]
    ForgetGenerator(ForgetGeneratorArgs),
}

pub(super) fn run(args: &ClusterArgs) -> Result<ExitCode, CliError> {
    print(|out| match &args.command {
        ClusterCommand::Init(args) => {
            let config = args.at.config()?;
            init::init(args, &config, &args.at.open(&config)?, wall_unix_ms(), out)
        }
        ClusterCommand::Show(args) => show::show(args, &args.at.open(&args.at.config()?)?, out),
        ClusterCommand::ForgetGenerator(args) => {
            forget::forget(args, &args.at.open(&args.at.config()?)?, wall_unix_ms(), out)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
