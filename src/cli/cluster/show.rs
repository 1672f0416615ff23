//! `getid cluster show`: prints the record of a fleet and counts its claims.

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use getid_core::{Tick, UtcMs};
use serde_json::json;

use super::error::ClusterError;
use crate::cli::claim_store::{ClaimStore, ClaimStoreArgs, Claims};
use crate::cli::exit::CliError;
use crate::cli::output::print_error;
use crate::cli::record_text::push_line;
use getid_engine::claim::fleet::{ClaimRecord, ClusterRecord};

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  getid cluster show --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/getid
  getid cluster show --config /etc/getid/getid.conf --json";

#[derive(Args)]
pub(super) struct ClusterShowArgs {
    /// As JSON, one object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) at: ClaimStoreArgs,
}

/// Numbers of claims by their state.
#[derive(Default)]
struct ClaimCounts {
    held: usize,
    free: usize,
    marked: usize,
    unusable: usize,
}

impl ClaimCounts {
    fn of(claims: &Claims) -> ClaimCounts {
        let mut counts = ClaimCounts { unusable: claims.bad.len(), ..ClaimCounts::default() };
        for (&server_id, row) in &claims.rows {
            match ClaimRecord::of_row(row, server_id) {
                Err(_) => counts.unusable += 1,
                Ok(claim) if claim.mark.is_some() => counts.marked += 1,
                Ok(claim) if claim.holder().is_some() => counts.held += 1,
                Ok(_) => counts.free += 1,
            }
        }
        counts
    }
}

pub(super) fn show(args: &ClusterShowArgs, store: &ClaimStore, out: &mut dyn Write) -> Result<(), CliError> {
    let Some((_, record)) = store.cluster()? else {
        let remedy = "; if address and prefix are right, `getid cluster init` creates it";
        return Err(ClusterError::NoRecord { shown: store.shown().to_owned(), remedy }.into());
    };
    let claims = store.claims()?;
    claims.bad.iter().for_each(|bad| print_error(&store.left_out(bad).to_string()));
    let counts = ClaimCounts::of(&claims);
    if args.json {
        let epoch = record.epoch;
        let value = json!({
            "store": store.shown(),
            "epoch_unix_ms": epoch.unix_ms(),
            "id_range": record.id_range,
            "auto": record.auto.to_string(),
            "generators": generator_lines(&record),
            "claims": {
                "held": counts.held, "free": counts.free, "moved": counts.marked, "unusable": counts.unusable,
            },
        });
        writeln!(out, "{value:#}")?;
        return Ok(());
    }
    let mut text = format!("cluster: {}\n", store.shown());
    describe(&mut text, &record);
    let ClaimCounts { held, free, marked, unusable } = counts;
    push_line(&mut text, "claims", &format_args!("{held} held, {free} free, {marked} moved, {unusable} unusable"));
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// Appends the properties that servers share, as lines.
pub(super) fn describe(text: &mut String, record: &ClusterRecord) {
    let epoch = record.epoch;
    push_line(text, "epoch", &format_args!("{} ({})", epoch.unix_ms(), UtcMs(Tick(0).unix_ms(epoch))));
    let most = (1_u64 << record.id_range) - 1;
    push_line(text, "id-range", &format_args!("{}: server-ids 0 to {most}", record.id_range));
    let none = "none: each server names its server-id";
    let auto = if record.auto.is_empty() { none.to_owned() } else { record.auto.to_string() };
    push_line(text, "auto", &auto);
    for line in generator_lines(record) {
        push_line(text, "generator", &line);
    }
}

/// Returns the listing of the fleet's declarations, one line each.
pub(super) fn generator_lines(record: &ClusterRecord) -> Vec<String> {
    let counters = record.counters().iter().cloned();
    let generators = record.declarations().generators().iter().map(|known| Arc::clone(known).to_text());
    counters.chain(generators).collect()
}
