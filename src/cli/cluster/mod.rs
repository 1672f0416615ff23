//! `getid cluster`: the properties that all servers of a fleet share, as their claim store records them.
//!
//! They are pinned once, and each server is compared with them at its start. The tool makes and shows the record, and
//! removes a generator that no server declares any more.

mod forget;
mod init;
mod show;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::forget::{FORGET_EXAMPLES, ForgetArgs};
pub(super) use self::init::layout_of as fleet_layout;
use self::init::{INIT_EXAMPLES, InitArgs};
use self::show::{SHOW_EXAMPLES, ShowArgs};
use super::claim_store::CLAIM_STORE_HELP;
use super::sequence::run_and_tell;
use crate::system::clock::wall_unix_ms;

/// Arguments of `getid cluster`.
#[derive(Args)]
pub(super) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Make a claim store ready for a fleet, or add server-ids to it
    ///
    /// Pins id-range, epoch and the declarations of generators, as the configuration has them: a server with others is
    /// refused at its start. A repetition with the same changes nothing, and one with others is refused.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{INIT_EXAMPLES}"))]
    Init(InitArgs),
    /// Show what the servers of a fleet share, and how many of its server-ids are held
    ///
    /// Exits 1 when the claim store was never made ready.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{SHOW_EXAMPLES}"))]
    Show(ShowArgs),
    /// Forget a generator's name, so that servers may declare it in another way
    ///
    /// No server may hold a claim whose record has the generator: stop those first. Each record keeps the largest ID
    /// that was given: a later generator of this name must begin past it.
    #[command(after_help = format!("{CLAIM_STORE_HELP}\n\n{FORGET_EXAMPLES}"))]
    ForgetGenerator(ForgetArgs),
}

pub(super) fn run(args: &ClusterArgs) -> ExitCode {
    run_and_tell(|out| match &args.command {
        ClusterCommand::Init(args) => {
            let config = args.at.config()?;
            init::init(args, &config, &args.at.open(&config)?, wall_unix_ms(), out)
        }
        ClusterCommand::Show(args) => show::show(args, &args.at.open(&args.at.config()?)?, out),
        ClusterCommand::ForgetGenerator(args) => {
            forget::forget(args, &args.at.open(&args.at.config()?)?, wall_unix_ms(), out)
        }
    })
}
