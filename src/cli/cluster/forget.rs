//! `getid cluster forget-generator`: takes a generator out of the record of a fleet and of its claims.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use clap::Args;

use super::error::ClusterError;
use super::show::generator_lines;
use crate::cli::claim_store::{ClaimStore, ClaimStoreArgs, new_stamp};
use crate::cli::exit::CliError;
use crate::cli::holders::{check_unclaimed, freed};
use crate::cli::record_text::{canonical, push_line};
use getid_engine::claim::fleet::{ClaimRecord, ReleaseReason};
use getid_store::records::{Key, RecordRow, WriteResult};

pub(super) const FORGET_EXAMPLES: &str = "\
Examples:
  getid cluster forget-generator tweets --past-id 1992648317203087360
  getid cluster forget-generator invoices --store postgres://getid@db/ids";

#[derive(Args)]
pub(super) struct ForgetGeneratorArgs {
    /// The generator
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// Its largest ID in any table, as it was written: a generator that gets the name again must begin past it. Not
    /// for one over a sequence, whose values the sequence's store keeps
    #[arg(long, value_name = "ID")]
    pub(super) past_id: Option<String>,
    #[command(flatten)]
    pub(super) at: ClaimStoreArgs,
}

pub(super) fn forget(
    args: &ForgetGeneratorArgs,
    store: &ClaimStore,
    now_unix_ms: i64,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let name = &args.name;
    let Some((row, cluster)) = store.cluster()? else {
        let remedy = ", so there is nothing to forget";
        return Err(ClusterError::NoRecord { shown: store.shown().to_owned(), remedy }.into());
    };
    let claims = claims_declaring(name, store)?;
    let without = cluster.without_generator(name);
    if without.is_none() && claims.is_empty() {
        let lines = generator_lines(&cluster);
        let known = lines.iter().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        return Err(ClusterError::NoGenerator { name: name.clone(), known }.into());
    }
    let declared = cluster.declarations().find(name).cloned();
    let declared =
        declared.or_else(|| claims.values().find_map(|(_, claim)| claim.record.declarations.find(name).cloned()));
    let past_id = match (&declared, &args.past_id) {
        (None, _) => None,
        (Some(known), Some(id)) => Some(canonical(known, id).ok_or_else(|| ClusterError::ForeignId {
            id: id.clone(),
            name: name.clone(),
            declaration: known.to_text(),
        })?),
        (Some(_), None) => return Err(ClusterError::NoPastId(name.clone()).into()),
    };
    // All claims are checked before the first write: a holder would still give IDs of the generator.
    for (&server_id, (row, claim)) in &claims {
        check_unclaimed(store, server_id, row, claim, "so the generator may still give IDs: stop that server")
            .map_err(ClusterError::from)?;
    }
    if let Some(without) = without {
        let row_without =
            without.to_row(new_stamp(row.stamp.beat.saturating_add(1))).map_err(ClusterError::new_record)?;
        let written = store.write(&Key::of_cluster(), Some(row.stamp), &row_without)?;
        check_written(&written, "cluster")?;
    }
    writeln!(out, "cluster: {}", store.shown())?;
    for (server_id, (row, claim)) in claims {
        let past_id = past_id.as_deref().unwrap_or_default();
        let declarations = claim.record.declarations.without(name, past_id).map_err(ClusterError::new_record)?;
        let claim = freed(&claim, ReleaseReason::Operator, 1, now_unix_ms).with_declarations(Arc::new(declarations));
        let new = claim.to_row(new_stamp(0).writer).map_err(ClusterError::new_record)?;
        let key = Key::of_claim(server_id);
        check_written(&store.write(&key, Some(row.stamp), &new)?, key.as_str())?;
        let mut text = String::new();
        push_line(&mut text, "forgotten", &format_args!("server-id {server_id}: must begin past {past_id}"));
        out.write_all(text.as_bytes())?;
    }
    let mut text = String::new();
    push_line(&mut text, "forgotten", &format_args!("'{name}': servers may declare it differently"));
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the claims whose records declare a generator of this name.
fn claims_declaring(name: &str, store: &ClaimStore) -> Result<BTreeMap<u32, (RecordRow, ClaimRecord)>, ClusterError> {
    let mut found = BTreeMap::new();
    let claims = store.claims()?;
    if let Some(bad) = claims.bad.first() {
        return Err(store.left_out(bad).into());
    }
    for (server_id, row) in claims.rows {
        let claim = ClaimRecord::of_row(&row, server_id).map_err(|error| ClusterError::Unusable {
            shown: store.shown().to_owned(),
            server_id,
            error,
        })?;
        // A claim that was moved away has its generators in its new store.
        if claim.mark.is_none() && claim.record.declarations.find(name).is_some() {
            found.insert(server_id, (row, claim));
        }
    }
    Ok(found)
}

fn check_written(written: &WriteResult, key: &str) -> Result<(), ClusterError> {
    match written {
        WriteResult::Done => Ok(()),
        WriteResult::Conflict(_) => Err(ClusterError::ForgetConflict(key.to_owned())),
    }
}
