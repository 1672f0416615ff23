//! Rows of INFO's section about the claim in a cluster store.

use super::row::{Metric, counter, gauge, text};
use super::{Facts, MetricValue};
use getid_engine::claim::status::{ClaimRole, ClaimStatus, HolderStatus, StoreSize, TakeoverStatus};
use getid_text::printable::printable_up_to;

/// Most characters of a name or an address, which others may have chosen.
const NAME_CHARS_MAX: usize = 256;

/// Most characters of a sentence.
const SENTENCE_CHARS_MAX: usize = 800;

/// Returns a name as one line of bounded length.
fn name_value(text: &str) -> MetricValue {
    printable_up_to(text, NAME_CHARS_MAX).into()
}

/// Returns a sentence as one line of bounded length.
fn sentence_value(text: &str) -> MetricValue {
    printable_up_to(text, SENTENCE_CHARS_MAX).into()
}

fn read_claim(facts: &Facts<'_>, read: impl FnOnce(&ClaimStatus) -> MetricValue) -> MetricValue {
    facts.claim.as_ref().map_or(MetricValue::Absent, |claim| read(claim))
}

fn read_holder(facts: &Facts<'_>, read: impl FnOnce(&HolderStatus) -> MetricValue) -> MetricValue {
    read_claim(facts, |claim| claim.holder.as_ref().map_or(MetricValue::Absent, read))
}

fn read_size(facts: &Facts<'_>, read: impl FnOnce(StoreSize) -> MetricValue) -> MetricValue {
    read_claim(facts, |claim| claim.upkeep.size.map_or(MetricValue::Absent, read))
}

fn read_takeover(facts: &Facts<'_>, read: impl FnOnce(&TakeoverStatus) -> MetricValue) -> MetricValue {
    read_claim(facts, |claim| claim.last_takeover.as_ref().map_or(MetricValue::Absent, read))
}

/// Returns a time in ms, or no value for 0.
fn time_ms(unix_ms: u64) -> MetricValue {
    Some(unix_ms).filter(|&unix_ms| unix_ms > 0).into()
}

/// Returns a time in ms as whole seconds, or no value for 0.
fn time_s(unix_ms: u64) -> MetricValue {
    Some(unix_ms / 1000).filter(|&unix_s| unix_s > 0).into()
}

const OF_STORE: &str = "A sentence. INFO, the page and the log contain it.";

#[rustfmt::skip]
pub(super) const ROWS: &[Metric] = &[
    text("claim_role", "Role of this server for its server-id: `holder`, or `standby` while it waits for the claim.",
        |facts| read_claim(facts, |claim| match claim.role {
            ClaimRole::Holder => "holder",
            ClaimRole::Standby => "standby",
        }.into()))
        .export_if("getid_claim_standby", "standby").with_help("1 while this server waits for the claim of its \
            server-id."),
    text("claim_server_id", "Claimed server-id; `none` with `server-id auto` while no server-id is free.",
        |facts| read_claim(facts, |claim| claim.server_id.map_or_else(|| "none".into(), MetricValue::from)))
        .export_label("getid_claim_info", "server_id"),
    text("claim_store", "The directive `claim-store`, without a password.",
        |facts| read_claim(facts, |claim| name_value(&claim.store)))
        .export_label("getid_claim_info", "store"),
    text("claim_product", "Name and version that the store reports; empty until its first answer.",
        |facts| read_claim(facts, |claim| name_value(&claim.product))).export_label("getid_claim_info", "product"),
    text("claim_instance_name", "Name of this server in the claim: the directive `instance-name`, or the host's \
        name.",
        |facts| read_claim(facts, |claim| name_value(&claim.instance_name)))
        .export_label("getid_claim_info", "instance_name"),
    text("claim_instance", "Id of this process in the claim: 32 hex digits, new at each start.",
        |facts| read_claim(facts, |claim| name_value(&claim.instance))).export_label("getid_claim_info", "instance_id"),
    text("claim_holder", "Name of the server that holds the claim; `none` if there is no holder, or if it is \
        unknown.",
        |facts| read_claim(facts, |claim| {
            claim.holder.as_ref().map_or_else(|| "none".into(), |holder| name_value(&holder.name))
        }))
        .export_label("getid_claim_info", "holder"),
    text("claim_holder_instance", "Process id of the holder in the claim: 32 hex digits.",
        |facts| read_holder(facts, |holder| name_value(&holder.instance)))
        .export_label("getid_claim_info", "holder_instance_id"),
    text("claim_holder_host", "Machine of the holder.", |facts| read_holder(facts, |holder| name_value(&holder.host)))
        .export_label("getid_claim_info", "holder_host"),
    text("claim_holder_address", "Address at which clients reach the holder; empty if it is unknown.",
        |facts| read_holder(facts, |holder| name_value(&holder.address)))
        .export_label("getid_claim_info", "holder_address"),
    gauge("claim_holder_since", "Start of the holder's claim by the holder's clock, Unix seconds.",
        |facts| read_holder(facts, |holder| time_s(holder.since_unix_ms)))
        .export_ms("getid_claim_holder_since_timestamp_seconds")
        .with_source(|facts| read_holder(facts, |holder| time_ms(holder.since_unix_ms))),
    gauge("claim_holder_until", "Latest time until which the holder issues IDs without another write, by this \
        machine's clock, Unix seconds.", |facts| read_holder(facts, |holder| time_s(holder.until_unix_ms)))
        .export_ms("getid_claim_holder_until_timestamp_seconds")
        .with_source(|facts| read_holder(facts, |holder| time_ms(holder.until_unix_ms))),
    text("claim_why", "Reason for which a standby issues no IDs; `no` for a holder.",
        |facts| read_claim(facts, |claim| match claim.role {
        ClaimRole::Holder => "no".into(),
        ClaimRole::Standby => sentence_value(claim.reason()),
    })).omit(OF_STORE),
    text("claim_not_eligible", "Reason for which this standby would not take the claim over, also while another \
        server holds it, or `no`.",
        |facts| read_claim(facts, |claim| claim.not_eligible.as_deref().map_or_else(|| "no".into(), sentence_value)))
        .export_unless("getid_claim_not_eligible", "no").with_help("1 while this standby would not take the claim \
            over."),
    gauge("claim_clock_gap_ms", "Offset of a standby's clock from the time of the claim's record, ms; negative: \
        behind; above 5 s the log has a warning.",
        |facts| read_claim(facts, |claim| claim.clock_gap_ms.into()))
        .export_ms("getid_claim_clock_gap_seconds"),
    gauge("claim_timeout_ms", "The directive `claim-timeout-ms`, ms.",
        |facts| read_claim(facts, |claim| claim.timeout_ms.into()))
        .export_ms("getid_claim_timeout_seconds"),
    gauge("claim_ride_through_ms", "Time for which IDs are issued if the store does not answer from now on, ms; 0 \
        for a standby.",
        |facts| read_claim(facts, |claim| facts.ride_through_ms(claim).into()))
        .export_ms("getid_claim_ride_through_seconds"),
    gauge("claim_last_answer_time", "Time of the store's last answer, Unix seconds.",
        |facts| read_claim(facts, |claim| time_s(claim.last_answer_unix_ms)))
        .export_ms("getid_claim_last_answer_timestamp_seconds")
        .with_source(|facts| read_claim(facts, |claim| time_ms(claim.last_answer_unix_ms))),
    counter("claim_beats", "Acknowledged writes of the claim.", |facts| read_claim(facts, |claim| claim.beats.into()))
        .export("getid_claim_beats_total"),
    gauge("claim_last_beat_usec", "Duration of the last acknowledged write of the claim, microseconds.",
        |facts| read_claim(facts, |claim| claim.last_beat_us.into()))
        .export_us("getid_claim_last_beat_duration_seconds")
        .with_help("Duration of the last acknowledged write of the claim, seconds."),
    counter("claim_errors", "Failed calls of the store.", |facts| read_claim(facts, |claim| claim.errors.into()))
        .export("getid_claim_errors_total"),
    text("claim_error", "Error of the store's last failure, or `no` after a later answer.",
        |facts| read_claim(facts, |claim| {
            if claim.error.is_empty() { "no".into() } else { sentence_value(&claim.error) }
        })).omit(OF_STORE),
    gauge("claim_store_bytes", "Size of etcd's database file, bytes: at its quota etcd accepts no writes.",
        |facts| read_size(facts, |size| size.bytes.into())).export("getid_claim_store_bytes"),
    gauge("claim_store_used_bytes", "Used part of etcd's database file, bytes: the rest is reused, or freed by a \
        defragmentation.", |facts| read_size(facts, |size| size.used_bytes.into()))
        .export("getid_claim_store_used_bytes"),
    gauge("claim_store_quota_bytes", "Quota of etcd's database file (`--quota-backend-bytes`), bytes; reported by \
        etcd 3.6 and later.", |facts| read_size(facts, |size| size.quota_bytes.into()))
        .export("getid_claim_store_quota_bytes"),
    counter("claim_store_compactions", "Compactions of etcd's history by this process (`compact-every-s`).",
        |facts| read_claim(facts, |claim| claim.upkeep.compactions.into()))
        .export("getid_claim_store_compactions_total"),
    counter("claim_takeovers", "Claims that this process acquired, at its start or from another server.",
        |facts| read_claim(facts, |claim| claim.takeovers.into())).export("getid_claim_takeovers_total"),
    counter("claim_losses", "Claims that this process lost.", |facts| read_claim(facts, |claim| claim.losses.into()))
        .export("getid_claim_losses_total"),
    gauge("claim_last_takeover_time", "Time at which this process last acquired a claim, Unix seconds.",
        |facts| read_takeover(facts, |takeover| time_s(takeover.at_unix_ms)))
        .export_ms("getid_claim_last_takeover_timestamp_seconds")
        .with_source(|facts| read_takeover(facts, |takeover| time_ms(takeover.at_unix_ms))),
    gauge("claim_last_takeover_ms", "Duration of the last takeover, from the detection of its cause to the first \
        ID, ms.",
        |facts| read_takeover(facts, |takeover| takeover.took_ms.into()))
        .export_ms("getid_claim_last_takeover_duration_seconds"),
    text("claim_last_takeover_cause", "Cause of the last takeover.",
        |facts| read_takeover(facts, |takeover| sentence_value(&takeover.cause))).omit(OF_STORE),
];
