//! `getid cluster init`: makes the record of a fleet, and records of claims that never existed.

use std::io::Write;

use clap::Args;

use super::error::ClusterError;
use super::show::describe;
use crate::cli::claim_store::{ClaimStore, ClaimStoreArgs, fleet_layout, new_stamp};
use crate::cli::exit::CliError;
use crate::cli::output::print_error;
use crate::cli::record_text::push_line;
use crate::cli::tool_config::{environment, sets_layout};
use getid_config::Config;
use getid_engine::claim::Identity;
use getid_engine::claim::fleet::{ClaimRecord, ClusterRecord, IdRanges};
use getid_store::records::{Key, RecordRow, WriteResult};

pub(super) const INIT_EXAMPLES: &str = "\
Examples:
  getid cluster init --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/getid --auto 4-1023
  getid cluster init --config /etc/getid/getid.conf --new 0-3";

/// Largest number of server-ids that one run makes records for: each is a write.
const NEW_MAX: usize = 4096;

#[derive(Args)]
pub(super) struct ClusterInitArgs {
    /// Server-ids that 'server-id auto' may take, as in 4-31,40; added to the list. Never those of servers whose
    /// configuration names a server-id
    #[arg(long, value_name = "IDS", value_parser = IdRanges::parse)]
    pub(super) auto: Option<IdRanges>,
    /// Server-ids that servers name in their configuration and that never gave an ID: creates their records. For a
    /// server that has a state file use 'getid state move'
    #[arg(long, value_name = "IDS", value_parser = IdRanges::parse)]
    pub(super) new: Option<IdRanges>,
    #[command(flatten)]
    pub(super) at: ClaimStoreArgs,
}

pub(super) fn init(
    args: &ClusterInitArgs,
    config: &Config,
    store: &ClaimStore,
    now_unix_ms: i64,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let found = store.cluster()?;
    let before = found.as_ref().map(|(_, record)| record);
    let record = record_to_write(args, config, before, args.at.config.is_some())?;
    check_ids(args, &record, before, store)?;
    for warning in store.warnings()? {
        print_error(&format!("{}: {warning}", store.shown()));
    }
    let is_new = match &found {
        Some((_, before)) if *before == record => None,
        Some((row, _)) => Some((Some(row.stamp), row.stamp.beat.saturating_add(1))),
        None => Some((None, 1)),
    };
    if let Some((expect, beat)) = is_new {
        let row: RecordRow = record.to_row(new_stamp(beat)).map_err(ClusterError::new_record)?;
        if let WriteResult::Conflict(_) = store.write(&Key::of_cluster(), expect, &row)? {
            return Err(ClusterError::InitConflict { shown: store.shown().to_owned() }.into());
        }
    }
    let done = match (&found, is_new) {
        (None, _) => "created",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "unchanged",
    };
    let mut text = format!("cluster: {}, {done}\n", store.shown());
    describe(&mut text, &record);
    out.write_all(text.as_bytes())?;
    let layout = fleet_layout(&record, config.layout).map_err(ClusterError::from)?;
    for server_id in args.new.iter().flat_map(IdRanges::iter) {
        let identity = Identity { server_id, layout };
        let claim = ClaimRecord::new(identity, config.claim.timeout_ms, now_unix_ms);
        let row = claim.to_row(new_stamp(claim.beat).writer);
        let row = row.map_err(ClusterError::new_record)?;
        let done = match store.write(&Key::of_claim(server_id), None, &row)? {
            WriteResult::Done => "a record was created for its first start".to_owned(),
            WriteResult::Conflict(_) => "it has a record already, which is unchanged".to_owned(),
        };
        let mut text = String::new();
        push_line(&mut text, "new", &format_args!("server-id {server_id}: {done}"));
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Returns the new record: as configured, or unchanged where the configuration is silent.
fn record_to_write(
    args: &ClusterInitArgs,
    config: &Config,
    before: Option<&ClusterRecord>,
    has_file: bool,
) -> Result<ClusterRecord, ClusterError> {
    let compares = before.is_none() || has_file || sets_layout(&environment());
    let base = before.cloned().unwrap_or_else(|| ClusterRecord::new(config.layout, IdRanges::default()));
    let joined = if compares { base.joined_by(config.layout, &config.generators, &config.counters)? } else { None };
    let mut record = joined.unwrap_or(base);
    if let Some(auto) = &args.auto {
        record.auto = record.auto.with(auto);
    }
    Ok(record)
}

/// Checks that all ids fit, and that no id is both named by a server and free for `auto`.
fn check_ids(
    args: &ClusterInitArgs,
    record: &ClusterRecord,
    before: Option<&ClusterRecord>,
    store: &ClaimStore,
) -> Result<(), ClusterError> {
    let most = (1_u64 << record.id_range) - 1;
    for (flag, ids) in [("--auto", &args.auto), ("--new", &args.new)] {
        let too_large = ids.as_ref().and_then(IdRanges::last).filter(|&last| u64::from(last) > most);
        if let Some(last) = too_large {
            return Err(ClusterError::TooLarge { flag, last, bits: record.id_range, most });
        }
    }
    let new: Vec<u32> = args.new.iter().flat_map(IdRanges::iter).take(NEW_MAX + 1).collect();
    if new.len() > NEW_MAX {
        return Err(ClusterError::TooMany { max: NEW_MAX });
    }
    let both: Vec<u32> = new.into_iter().filter(|&id| record.auto.contains(id)).collect();
    if !both.is_empty() {
        return Err(ClusterError::NewIsAuto(both));
    }
    if let Some(auto) = &args.auto {
        let was_auto = |id: &u32| before.is_some_and(|before| before.auto.contains(*id));
        let owned: Vec<u32> =
            store.claims()?.server_ids().into_iter().filter(|id| auto.contains(*id) && !was_auto(id)).collect();
        if !owned.is_empty() {
            return Err(ClusterError::AutoIsNamed(owned));
        }
    }
    Ok(())
}
