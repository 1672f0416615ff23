//! Rows of INFO's section about the claim in a cluster store.

use super::export::{Export, Untold};
use super::table::{Metric, counter, gauge, text};
use super::{Facts, Value};
use crate::claim::status::{ClaimRole, ClaimStatus, HolderStatus, StoreSize, TakeoverStatus};
use crate::text::printable::printable_up_to;

/// Most characters of a name or an address, which others may have chosen.
const NAME_CHARS_MAX: usize = 256;

/// Most characters of a sentence.
const SENTENCE_CHARS_MAX: usize = 800;

/// Returns a name as one line of bounded length.
fn shown(text: &str) -> Value {
    printable_up_to(text, NAME_CHARS_MAX).into()
}

/// Returns a sentence as one line of bounded length.
fn said(text: &str) -> Value {
    printable_up_to(text, SENTENCE_CHARS_MAX).into()
}

fn of(facts: &Facts<'_>, read: impl FnOnce(&ClaimStatus) -> Value) -> Value {
    facts.claim.as_ref().map_or(Value::Absent, |claim| read(claim))
}

fn of_holder(facts: &Facts<'_>, read: impl FnOnce(&HolderStatus) -> Value) -> Value {
    of(facts, |claim| claim.holder.as_ref().map_or(Value::Absent, read))
}

fn of_size(facts: &Facts<'_>, read: impl FnOnce(StoreSize) -> Value) -> Value {
    of(facts, |claim| claim.upkeep.size.map_or(Value::Absent, read))
}

fn of_takeover(facts: &Facts<'_>, read: impl FnOnce(&TakeoverStatus) -> Value) -> Value {
    of(facts, |claim| claim.last_takeover.as_ref().map_or(Value::Absent, read))
}

/// Returns a time in ms, or no value for 0.
fn time_ms(unix_ms: u64) -> Value {
    Some(unix_ms).filter(|&unix_ms| unix_ms > 0).into()
}

/// Returns a time in ms as whole seconds, or no value for 0.
fn time_s(unix_ms: u64) -> Value {
    Some(unix_ms / 1000).filter(|&unix_s| unix_s > 0).into()
}

const fn sentence(metric: Metric, why: &'static str) -> Metric {
    Metric { export: Export::Untold(Untold::Because(why)), ..metric }
}

const OF_STORE: &str = "A sentence; INFO, the page and the log have it.";

#[rustfmt::skip]
pub(super) const ROWS: &[Metric] = &[
    text("claim_role", "What this server is to its server-id: `holder`, or `standby` while it waits for the claim.",
        |facts| of(facts, |claim| match claim.role {
            ClaimRole::Holder => "holder",
            ClaimRole::Standby => "standby",
        }.into()))
        .told_if("getid_claim_standby", "standby").saying("1 while this server waits for the claim of its server-id."),
    text("claim_server_id", "Which server-id it is; `none` with `server-id auto` while none has come free.",
        |facts| of(facts, |claim| claim.server_id.map_or_else(|| "none".into(), Value::from)))
        .told_as_label("getid_claim_info", "server_id"),
    text("claim_store", "The directive `claim-store`, without a password.", |facts| of(facts, |claim| shown(&claim.store)))
        .told_as_label("getid_claim_info", "store"),
    text("claim_product", "What the store calls itself; empty until it has answered.",
        |facts| of(facts, |claim| shown(&claim.product))).told_as_label("getid_claim_info", "product"),
    text("claim_instance_name", "This server's name in the claim: the directive `instance-name`, or the host's.",
        |facts| of(facts, |claim| shown(&claim.instance_name))).told_as_label("getid_claim_info", "instance_name"),
    text("claim_instance", "This process in the claim: 32 hex digits, new at each start.",
        |facts| of(facts, |claim| shown(&claim.instance))).told_as_label("getid_claim_info", "instance_id"),
    text("claim_holder", "The name of the server that has the claim; `none` while nobody has it, or nobody knows.",
        |facts| of(facts, |claim| claim.holder.as_ref().map_or_else(|| "none".into(), |holder| shown(&holder.name))))
        .told_as_label("getid_claim_info", "holder"),
    text("claim_holder_instance", "Its process: 32 hex digits.", |facts| of_holder(facts, |holder| shown(&holder.instance)))
        .told_as_label("getid_claim_info", "holder_instance_id"),
    text("claim_holder_host", "Its machine.", |facts| of_holder(facts, |holder| shown(&holder.host)))
        .told_as_label("getid_claim_info", "holder_host"),
    text("claim_holder_address", "Where its clients reach it; empty where that is not known.",
        |facts| of_holder(facts, |holder| shown(&holder.address))).told_as_label("getid_claim_info", "holder_address"),
    gauge("claim_holder_since", "Since when it has the claim, by its own clock, Unix seconds.",
        |facts| of_holder(facts, |holder| time_s(holder.since_unix_ms)))
        .told_of_ms("getid_claim_holder_since_timestamp_seconds")
        .reading(|facts| of_holder(facts, |holder| time_ms(holder.since_unix_ms))),
    gauge("claim_holder_until", "Until when at the latest it gives IDs if it writes no more, by this machine's clock, Unix \
        seconds.", |facts| of_holder(facts, |holder| time_s(holder.until_unix_ms)))
        .told_of_ms("getid_claim_holder_until_timestamp_seconds")
        .reading(|facts| of_holder(facts, |holder| time_ms(holder.until_unix_ms))),
    sentence(text("claim_why", "Why a standby gives no IDs; `no` of a holder.", |facts| of(facts, |claim| match claim.role {
        ClaimRole::Holder => "no".into(),
        ClaimRole::Standby => said(claim.reason()),
    })), OF_STORE),
    text("claim_not_eligible", "Why this standby would not take the claim over, also while another server has it, or `no`.",
        |facts| of(facts, |claim| claim.not_eligible.as_deref().map_or_else(|| "no".into(), said)))
        .told_unless("getid_claim_not_eligible", "no").saying("1 while this standby would not take the claim over."),
    gauge("claim_clock_gap_ms", "How far a standby's clock is ahead of the time of the claim's record, or (negative) behind, \
        ms; above 5 s it is a warning in the log.",
        |facts| of(facts, |claim| claim.clock_gap_ms.into()))
        .told_of_ms("getid_claim_clock_gap_seconds"),
    gauge("claim_timeout_ms", "The directive `claim-timeout-ms`, ms.", |facts| of(facts, |claim| claim.timeout_ms.into()))
        .told_of_ms("getid_claim_timeout_seconds"),
    gauge("claim_ride_through_ms", "For how long IDs go on if the store does not answer from now on, ms; 0 of a standby.",
        |facts| of(facts, |claim| facts.ride_through_ms(claim).into())).told_of_ms("getid_claim_ride_through_seconds"),
    gauge("claim_last_answer_time", "When the store last answered, Unix seconds.",
        |facts| of(facts, |claim| time_s(claim.last_answer_unix_ms)))
        .told_of_ms("getid_claim_last_answer_timestamp_seconds")
        .reading(|facts| of(facts, |claim| time_ms(claim.last_answer_unix_ms))),
    counter("claim_beats", "Writes of the claim that were acknowledged.", |facts| of(facts, |claim| claim.beats.into()))
        .told("getid_claim_beats_total"),
    gauge("claim_last_beat_usec", "How long the last of them took, microseconds.",
        |facts| of(facts, |claim| claim.last_beat_us.into()))
        .told_of_us("getid_claim_last_beat_duration_seconds")
        .saying("How long the last write of the claim that was acknowledged took, seconds."),
    counter("claim_errors", "Calls of the store that failed.", |facts| of(facts, |claim| claim.errors.into()))
        .told("getid_claim_errors_total"),
    sentence(text("claim_error", "What the last failure was, or `no` once the store has answered again.",
        |facts| of(facts, |claim| if claim.error.is_empty() { "no".into() } else { said(&claim.error) })), OF_STORE),
    gauge("claim_store_bytes", "How large the file of etcd's database is, bytes: at its quota etcd takes no beat any more.",
        |facts| of_size(facts, |size| size.bytes.into())).told("getid_claim_store_bytes"),
    gauge("claim_store_used_bytes", "How much of that file is in use, bytes: the rest is filled again, or given back by a \
        defragmentation.", |facts| of_size(facts, |size| size.used_bytes.into())).told("getid_claim_store_used_bytes"),
    gauge("claim_store_quota_bytes", "How large it may become, bytes (`--quota-backend-bytes`); only etcd 3.6 and later say \
        it.", |facts| of_size(facts, |size| size.quota_bytes.into())).told("getid_claim_store_quota_bytes"),
    counter("claim_store_compactions", "How often this process has compacted the history of etcd (`compact-every-s`).",
        |facts| of(facts, |claim| claim.upkeep.compactions.into())).told("getid_claim_store_compactions_total"),
    counter("claim_takeovers", "How often this process has taken a claim, at its start or over from another server.",
        |facts| of(facts, |claim| claim.takeovers.into())).told("getid_claim_takeovers_total"),
    counter("claim_losses", "How often it had one and lost it.", |facts| of(facts, |claim| claim.losses.into()))
        .told("getid_claim_losses_total"),
    gauge("claim_last_takeover_time", "When it took one last, Unix seconds.",
        |facts| of_takeover(facts, |taken| time_s(taken.at_unix_ms)))
        .told_of_ms("getid_claim_last_takeover_timestamp_seconds")
        .reading(|facts| of_takeover(facts, |taken| time_ms(taken.at_unix_ms))),
    gauge("claim_last_takeover_ms", "How long that took from the moment at which its cause was seen to the first ID, ms.",
        |facts| of_takeover(facts, |taken| taken.took_ms.into()))
        .told_of_ms("getid_claim_last_takeover_duration_seconds"),
    sentence(text("claim_last_takeover_cause", "Why it could take it.",
        |facts| of_takeover(facts, |taken| said(&taken.cause))), OF_STORE),
];
