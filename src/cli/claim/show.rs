//! `getid claim show`: prints claims, their holders and their positions.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;

use clap::Args;
use getid_core::UtcMs;
use serde_json::{Value, json};

use crate::cli::claim_store::{ClaimStore, ClaimStoreArgs, ClaimStoreError, UnusableRecord, WatchOutcome};
use crate::cli::exit::{CliError, EXIT_NEGATIVE, ToolError};
use crate::cli::holders::{describe_holder, describe_release, timeout_ms, timeout_words};
use crate::cli::output::print_error;
use crate::cli::record_text::{push_line, push_record, record_json};
use getid_engine::claim::fleet::{ClaimHolder, ClaimRecord, Holding};
use getid_engine::claim::{Mark, RecordLocation};
use getid_store::records::RecordRow;

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  getid claim show --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/getid
  getid claim show 3 --watch --config /etc/getid/getid.conf
  getid claim show --json --store postgres://getid@db/ids?password-file=/etc/getid/db";

#[derive(Args)]
pub(super) struct ClaimShowArgs {
    /// The server-id [default: all]
    #[arg(value_name = "ID")]
    pub(super) server_id: Option<u32>,
    /// Watch for a time-out, and show which holders beat, and which are silent
    #[arg(long)]
    pub(super) watch: bool,
    /// As JSON, an array with one object for each claim
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) at: ClaimStoreArgs,
}

/// A claim as read from a store.
pub(in crate::cli) struct ClaimEntry<'a> {
    store: &'a ClaimStore,
    server_id: u32,
    row: RecordRow,
    claim: Result<ClaimRecord, UnusableRecord>,
    watched: Option<WatchOutcome>,
}

pub(super) fn show(
    args: &ClaimShowArgs,
    store: &ClaimStore,
    now_unix_ms: i64,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let ClaimListing { entries, is_usable } = list_claims(store, args.server_id, args.watch)?;
    if args.json {
        let list: Vec<_> = entries.iter().map(|entry| entry.to_json(now_unix_ms)).collect();
        writeln!(out, "{:#}", Value::Array(list))?;
    } else {
        let texts: Vec<_> = entries.iter().map(|entry| entry.to_text(now_unix_ms)).collect();
        out.write_all(texts.join("\n").as_bytes())?;
    }
    if is_usable {
        return Ok(());
    }
    let shown = store.shown().to_owned();
    Err(if entries.is_empty() {
        ListError::NoRecord { shown, server_id: args.server_id }.into()
    } else {
        ListError::Unusable { shown }.into()
    })
}

/// Reason why a list of claims is a negative answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum ListError {
    #[error(
        "{shown}: there is no record of {}",
        .server_id.map_or_else(|| "any server-id".to_owned(), |id| format!("server-id {id}"))
    )]
    NoRecord { shown: String, server_id: Option<u32> },
    #[error("{shown}: some of these records are unusable; see above")]
    Unusable { shown: String },
}

impl ToolError for ListError {
    fn exit_code(&self) -> u8 {
        EXIT_NEGATIVE
    }
}

/// Result of [`list_claims`].
pub(in crate::cli) struct ClaimListing<'a> {
    /// The selected claims, ascending by server-id.
    pub(in crate::cli) entries: Vec<ClaimEntry<'a>>,
    /// Whether there is at least one claim, and a server would take each.
    pub(in crate::cli) is_usable: bool,
}

/// Reads the selected claims. Reports each row that is no record on standard error.
pub(in crate::cli) fn list_claims(
    store: &ClaimStore,
    server_id: Option<u32>,
    watches: bool,
) -> Result<ClaimListing<'_>, ClaimStoreError> {
    let mut skipped = false;
    let rows: BTreeMap<_, _> = if let Some(server_id) = server_id {
        store.claim(server_id)?.map(|(row, _)| (server_id, row)).into_iter().collect()
    } else {
        let claims = store.claims()?;
        skipped = !claims.bad.is_empty();
        claims.bad.iter().for_each(|bad| print_error(&store.left_out(bad).to_string()));
        claims.rows
    };
    let mut entries: Vec<_> = rows.into_iter().map(|(server_id, row)| ClaimEntry::of(store, server_id, row)).collect();
    if watches {
        let held = entries.iter().filter_map(|entry| {
            let claim = entry.claim.as_ref().ok().filter(|claim| claim.holder().is_some())?;
            Some((entry.server_id, (entry.row.clone(), timeout_ms(claim))))
        });
        let mut watched = store.watch(&held.collect::<BTreeMap<_, _>>())?;
        for entry in &mut entries {
            entry.watched = watched.remove(&entry.server_id);
        }
    }
    let is_usable = !skipped && !entries.is_empty() && entries.iter().all(ClaimEntry::is_usable);
    Ok(ClaimListing { entries, is_usable })
}

impl<'a> ClaimEntry<'a> {
    fn of(store: &'a ClaimStore, server_id: u32, row: RecordRow) -> ClaimEntry<'a> {
        let claim = ClaimRecord::of_row(&row, server_id).map_err(|error| store.unusable(server_id, error));
        ClaimEntry { store, server_id, row, claim, watched: None }
    }

    /// Whether a server would take this claim once it is free.
    pub(in crate::cli) fn is_usable(&self) -> bool {
        self.claim.as_ref().is_ok_and(|claim| claim.mark.is_none())
    }

    pub(in crate::cli) fn to_text(&self, now_unix_ms: i64) -> String {
        let mut text = format!("server-id {}: {}\n", self.server_id, self.store.shown());
        let claim = match &self.claim {
            Ok(claim) => claim,
            Err(error) => {
                push_line(&mut text, "unusable", error);
                push_line(&mut text, "beat", &self.row.stamp.beat);
                return text;
            }
        };
        let mut line = |name: &str, value: &dyn Display| push_line(&mut text, name, value);
        match &claim.holding {
            Holding::Held(holder) => {
                let ClaimHolder { instance, since_unix_ms, .. } = holder;
                let since = UtcMs(*since_unix_ms);
                line("held by", &format_args!("{} since {since}, instance {instance:032x}", describe_holder(holder)));
            }
            Holding::Free(_) if claim.mark.is_some() => line("held by", &"no server"),
            Holding::Free(freed) => {
                line(
                    "held by",
                    &format_args!("no server since {}: {}", UtcMs(freed.since_unix_ms), describe_release(freed)),
                );
            }
        }
        line("beat", &format_args!("{}, time-out {}", claim.beat, timeout_words(claim)));
        if let Some(watched) = &self.watched {
            line("watched", &self.watched_words(claim, watched));
        }
        push_record(&mut text, &claim.record, now_unix_ms);
        if let Some(mark) = &claim.mark {
            push_line(&mut text, "mark", mark);
            let remedy = mark.remedy(self.server_id, &RecordLocation::of_store(self.store.shown()));
            push_line(&mut text, "remedy", &remedy);
        }
        text
    }

    fn watched_words(&self, claim: &ClaimRecord, watched: &WatchOutcome) -> String {
        match watched {
            WatchOutcome::Silent(_) => format!("silent for {}: a standby may take it", timeout_words(claim)),
            WatchOutcome::Written(None) => "the record is gone".to_owned(),
            WatchOutcome::Written(Some(row)) => match ClaimRecord::of_row(row, self.server_id) {
                Ok(now) => match now.holding {
                    Holding::Held(holder) if claim.holder().is_some_and(|then| then.instance == holder.instance) => {
                        "it beats".to_owned()
                    }
                    Holding::Held(holder) => format!("{} has taken it", describe_holder(&holder)),
                    Holding::Free(freed) => format!("it has become free: {}", describe_release(&freed)),
                },
                Err(error) => format!("it was written, and cannot be used: {error}"),
            },
        }
    }

    pub(in crate::cli) fn to_json(&self, now_unix_ms: i64) -> Value {
        let mut value = json!({
            "server_id": self.server_id,
            "store": self.store.shown(),
            "beat": self.row.stamp.beat,
            "writer": format!("{:032x}", self.row.stamp.writer),
        });
        let more = match &self.claim {
            Err(error) => json!({ "error": error.to_string() }),
            Ok(claim) => {
                let mut more = record_json(&claim.record, now_unix_ms);
                more["timeout_ms"] = json!(claim.timeout_ms);
                more["holder"] = match &claim.holding {
                    Holding::Free(_) => Value::Null,
                    Holding::Held(ClaimHolder { instance, name, host, address, since_unix_ms, .. }) => json!({
                        "instance": format!("{instance:032x}"), "name": name, "host": host, "address": address,
                        "since_unix_ms": since_unix_ms,
                    }),
                };
                if let Holding::Free(freed) = &claim.holding {
                    more["free"] =
                        json!({ "why": freed.why.word(), "by": freed.by, "since_unix_ms": freed.since_unix_ms });
                }
                match &claim.mark {
                    Some(Mark::MovedTo(place)) => more["moved_to"] = json!(place.as_str()),
                    Some(Mark::MovingTo(place)) => more["moving_to"] = json!(place.as_str()),
                    None => {}
                }
                more
            }
        };
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        if let Some(watched) = &self.watched {
            value["silent"] = json!(matches!(watched, WatchOutcome::Silent(_)));
        }
        value
    }
}
