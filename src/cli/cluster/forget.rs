//! `getid cluster forget-generator`: takes a generator out of the record of a fleet and of its claims.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use clap::Args;

use super::init::generator_lines;
use crate::cli::claim::{check_unclaimed, freed};
use crate::cli::claim_store::{ClaimStore, ClaimStoreArgs, new_stamp};
use crate::cli::sequence::ToolError;
use crate::cli::state::canonical;
use crate::cli::state::texts::push_line;
use getid_engine::claim::fleet::{ClaimRecord, ReleaseReason};
use getid_store::records::{Key, RecordRow, WriteResult};

pub(super) const FORGET_EXAMPLES: &str = "\
Examples:
  getid cluster forget-generator tweets --past-id 1992648317203087360
  getid cluster forget-generator invoices --store postgres://getid@db/ids";

/// Largest number of generators that an error lists.
const NAMED_MAX: usize = 10;

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
) -> Result<(), ToolError> {
    let name = &args.name;
    let Some((row, cluster)) = store.cluster()? else {
        return Err(ToolError::Negative(format!(
            "{}: there is no fleet record here, so there is nothing to forget",
            store.shown()
        )));
    };
    let claims = claims_declaring(name, store)?;
    let without = cluster.without_generator(name);
    if without.is_none() && claims.is_empty() {
        let lines = generator_lines(&cluster);
        let names: Vec<_> = lines.iter().filter_map(|line| line.split(' ').next()).take(NAMED_MAX).collect();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(ToolError::Negative(format!("no generator '{name}' in this fleet: it has {has}")));
    }
    let declared = cluster.declarations().find(name).cloned();
    let declared =
        declared.or_else(|| claims.values().find_map(|(_, claim)| claim.record.declarations.find(name).cloned()));
    let past_id = match (&declared, &args.past_id) {
        (None, _) => None,
        (Some(known), Some(id)) => Some(canonical(known, id).ok_or_else(|| {
            ToolError::Failed(format!("--past-id {id}: generator '{name}' gives no such IDs ({})", known.to_text()))
        })?),
        (Some(_), None) => {
            return Err(ToolError::Failed(format!(
                "generator '{name}' gives IDs by the clock: name the largest in any table with --past-id ID"
            )));
        }
    };
    // All claims are checked before the first write: a holder would still give IDs of the generator.
    for (&server_id, (row, claim)) in &claims {
        check_unclaimed(store, server_id, row, claim, "so the generator may still give IDs: stop that server")
            .map_err(ToolError::Negative)?;
    }
    if let Some(without) = without {
        let row_without = without
            .to_row(new_stamp(row.stamp.beat.saturating_add(1)))
            .map_err(|error| ToolError::Negative(error.to_string()))?;
        let written = store.write(&Key::of_cluster(), Some(row.stamp), &row_without)?;
        check_written(&written, "cluster")?;
    }
    writeln!(out, "cluster: {}", store.shown())?;
    for (server_id, (row, claim)) in claims {
        let past_id = past_id.as_deref().unwrap_or_default();
        let declarations =
            claim.record.declarations.without(name, past_id).map_err(|error| ToolError::Negative(error.to_string()))?;
        let claim = freed(&claim, ReleaseReason::Operator, 1, now_unix_ms).with_declarations(Arc::new(declarations));
        let new = claim.to_row(new_stamp(0).writer).map_err(|error| ToolError::Negative(error.to_string()))?;
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
fn claims_declaring(name: &str, store: &ClaimStore) -> Result<BTreeMap<u32, (RecordRow, ClaimRecord)>, ToolError> {
    let mut found = BTreeMap::new();
    let claims = store.claims()?;
    if let Some(bad) = claims.bad.first() {
        return Err(ToolError::Negative(store.left_out(bad)));
    }
    for (server_id, row) in claims.rows {
        let claim = ClaimRecord::of_row(&row, server_id)
            .map_err(|error| format!("{}: cannot use the record of server-id {server_id}: {error}", store.shown()))?;
        // A claim that was moved away has its generators in its new store.
        if claim.mark.is_none() && claim.record.declarations.find(name).is_some() {
            found.insert(server_id, (row, claim));
        }
    }
    Ok(found)
}

fn check_written(written: &WriteResult, key: &str) -> Result<(), ToolError> {
    match written {
        WriteResult::Done => Ok(()),
        WriteResult::Conflict(_) => Err(ToolError::Negative(format!(
            "another process wrote the record '{key}' at the same time, such as a server that starts; run the command again"
        ))),
    }
}
