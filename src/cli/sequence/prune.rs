//! `getid sequence prune`: removes the counters of ended periods, one generator at a time.
//!
//! Each call of the store removes a bounded number of rows. The first call closes the periods, so an interrupted run
//! leaves no period that could begin again.

use std::io::Write;

use clap::Args;

use super::error::SequenceError;
use super::stores::{OpenStore, RowRefusal, StoreArgs};
use crate::cli::exit::CliError;
use getid_core::server::CivilDay;
use getid_store::sql::{PruneRequest, PruneResult};
use getid_text::plural::counted;

pub(super) const PRUNE_EXAMPLES: &str = "\
Examples:
  getid sequence prune --through 2025-12-31
  getid sequence prune --through 2025-12-31 --yes --store postgres://owner@db/ids

Counters with numbers that are not settled stay, and so do ledgers. The user of the store needs the right to DELETE from
getid_sequence, which a server does not need.";

#[derive(Args)]
pub(super) struct PruneArgs {
    /// The last day whose periods are removed: 2025-12-31 removes the periods that had ended by its end
    #[arg(long, value_name = "DATE")]
    through: String,
    /// Remove them; without it they are only shown
    #[arg(long)]
    yes: bool,
    /// Only the periods of this generator
    #[arg(long, value_name = "NAME")]
    generator: Option<String>,
    #[command(flatten)]
    at: StoreArgs,
}

pub(super) fn prune(args: &PruneArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let through = CivilDay::parse(&args.through).ok_or_else(|| SequenceError::Day(args.through.clone()))?;
    let stores = args.at.stores()?;
    let mut rows = 0;
    for mut opened in stores.connect_all_existing()? {
        let names = args.generator.as_ref().map(|name| vec![name.clone()]);
        let generators = opened.read(|connection| connection.generators(names.as_deref()))?;
        if let (Some(name), true) = (&args.generator, generators.is_empty()) {
            let (shown, name) = (opened.store.shown().to_owned(), name.clone());
            return Err(SequenceError::NoGenerator { shown, name }.into());
        }
        for generator in generators {
            let ask = PruneRequest { name: generator.name, through, deletes: args.yes };
            rows += prune_one(&mut opened, &ask, out)?;
        }
    }
    let day = args.through.as_str();
    match (rows, args.yes) {
        (0, _) => writeln!(out, "There is no period to remove that ended by {day}")?,
        (rows, true) => writeln!(out, "Removed {}", counted(rows, "row"))?,
        (rows, false) => {
            let what = if rows == 1 { "it" } else { "them" };
            writeln!(out, "{} would be removed: repeat this with --yes to remove {what}", counted(rows, "row"))?;
        }
    }
    Ok(())
}

/// Shows the removable rows of one generator, and removes them if asked to. Returns the number of rows.
fn prune_one(opened: &mut OpenStore<'_>, ask: &PruneRequest, out: &mut dyn Write) -> Result<u64, CliError> {
    let counts = PruneRequest { deletes: false, ..ask.clone() };
    let found = call(opened, &counts)?;
    let PruneResult { rows, first, last, .. } = &found;
    if *rows > 0 {
        let shown = opened.store.shown();
        writeln!(out, "{:<24} {:>8} {first} to {last}  {shown}", ask.name, counted(*rows, "row"))?;
    }
    let mut is_over = !ask.deletes;
    while !is_over {
        let PruneResult { rows, deleted, .. } = call(opened, ask)?;
        is_over = deleted == 0 || deleted == rows;
    }
    Ok(found.rows)
}

fn call(opened: &mut OpenStore<'_>, ask: &PruneRequest) -> Result<PruneResult, SequenceError> {
    let pruned = opened.write(|connection| connection.prune(ask))?;
    Ok(pruned.map_err(|verdict| RowRefusal { name: ask.name.clone(), verdict })?)
}
