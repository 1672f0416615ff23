//! `getid claim show`: prints claims, their holders and their positions.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;

use clap::Args;
use getid_core::UtcMs;
use serde_json::{Value, json};

use super::{timeout_ms, timeout_words, told, told_free, unusable};
use crate::claim::fleet::{ClaimHolder, ClaimRecord, Holding};
use crate::claim::{Mark, RecordLocation};
use crate::cli::claim_store::{ClaimStore, ClaimStoreArgs, Watched};
use crate::cli::output::complain;
use crate::cli::sequence::Stop;
use crate::cli::state::texts::{push_line, push_record, record_json};
use crate::records::RecordRow;

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  getid claim show --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/getid
  getid claim show 3 --watch --config /etc/getid/getid.conf
  getid claim show --json --store postgres://getid@db/ids?password-file=/etc/getid/db";

#[derive(Args)]
pub(super) struct ShowArgs {
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
pub(in crate::cli) struct Sight<'a> {
    store: &'a ClaimStore,
    server_id: u32,
    row: RecordRow,
    claim: Result<ClaimRecord, String>,
    watched: Option<Watched>,
}

pub(super) fn show(args: &ShowArgs, store: &ClaimStore, now_unix_ms: i64, out: &mut dyn Write) -> Result<(), Stop> {
    let Looked { sights, good } = look(store, args.server_id, args.watch)?;
    if args.json {
        let list: Vec<_> = sights.iter().map(|sight| sight.to_json(now_unix_ms)).collect();
        writeln!(out, "{:#}", Value::Array(list))?;
    } else {
        let texts: Vec<_> = sights.iter().map(|sight| sight.to_text(now_unix_ms)).collect();
        out.write_all(texts.join("\n").as_bytes())?;
    }
    if good {
        return Ok(());
    }
    let whose = args.server_id.map_or_else(|| "any server-id".to_owned(), |id| format!("server-id {id}"));
    Err(Stop::No(if sights.is_empty() {
        format!("{}: there is no record of {whose}", store.shown())
    } else {
        format!("{}: no server takes all of these; see above", store.shown())
    }))
}

/// Result of [`look`].
pub(in crate::cli) struct Looked<'a> {
    /// The selected claims, ascending by server-id.
    pub(in crate::cli) sights: Vec<Sight<'a>>,
    /// Whether there is at least one claim, and a server would take each.
    pub(in crate::cli) good: bool,
}

/// Reads the selected claims. Reports each row that is no record on standard error.
pub(in crate::cli) fn look(store: &ClaimStore, server_id: Option<u32>, looks_on: bool) -> Result<Looked<'_>, String> {
    let mut skipped = false;
    let rows: BTreeMap<_, _> = if let Some(server_id) = server_id {
        store.claim(server_id)?.map(|(row, _)| (server_id, row)).into_iter().collect()
    } else {
        let claims = store.claims()?;
        skipped = !claims.bad.is_empty();
        claims.bad.iter().for_each(|bad| complain(&store.left_out(bad)));
        claims.rows
    };
    let mut sights: Vec<_> = rows.into_iter().map(|(server_id, row)| Sight::of(store, server_id, row)).collect();
    if looks_on {
        let held = sights.iter().filter_map(|sight| {
            let claim = sight.claim.as_ref().ok().filter(|claim| claim.holder().is_some())?;
            Some((sight.server_id, (sight.row.clone(), timeout_ms(claim))))
        });
        let mut watched = store.watch(&held.collect::<BTreeMap<_, _>>())?;
        for sight in &mut sights {
            sight.watched = watched.remove(&sight.server_id);
        }
    }
    let good = !skipped && !sights.is_empty() && sights.iter().all(Sight::is_good);
    Ok(Looked { sights, good })
}

impl<'a> Sight<'a> {
    fn of(store: &'a ClaimStore, server_id: u32, row: RecordRow) -> Sight<'a> {
        let claim = ClaimRecord::of_row(&row, server_id).map_err(|error| unusable(store, server_id, &error));
        Sight { store, server_id, row, claim, watched: None }
    }

    /// Whether a server would take this claim once it is free.
    pub(in crate::cli) fn is_good(&self) -> bool {
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
                line("held by", &format_args!("{} since {since}, instance {instance:032x}", told(holder)));
            }
            Holding::Free(_) if claim.mark.is_some() => line("held by", &"nobody"),
            Holding::Free(freed) => {
                line("held by", &format_args!("nobody since {}: {}", UtcMs(freed.since_unix_ms), told_free(freed)));
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

    fn watched_words(&self, claim: &ClaimRecord, watched: &Watched) -> String {
        match watched {
            Watched::Silent(_) => format!("silent for {}: a standby may take it", timeout_words(claim)),
            Watched::Written(None) => "the record is gone".to_owned(),
            Watched::Written(Some(row)) => match ClaimRecord::of_row(row, self.server_id) {
                Ok(now) => match now.holding {
                    Holding::Held(holder) if claim.holder().is_some_and(|then| then.instance == holder.instance) => {
                        "it beats".to_owned()
                    }
                    Holding::Held(holder) => format!("{} has taken it meanwhile", told(&holder)),
                    Holding::Free(freed) => format!("it has become free: {}", told_free(&freed)),
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
            Err(error) => json!({ "error": error }),
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
            value["silent"] = json!(matches!(watched, Watched::Silent(_)));
        }
        value
    }
}
