//! Sentences on the page: whether IDs are given, reasons and remedies, and what needs attention soon.

use getid_core::Refusal;
use schemars::JsonSchema;
use serde::Serialize;

use getid_engine::generators::end_of_life;
use getid_server::metrics::Facts;
use getid_text::plural::counted;
use getid_text::printable::printable_up_to;

/// Days before the end of a certificate at which its notice begins.
const CERTIFICATE_DAYS: i64 = 30;

/// The longest message of a store or another server, characters.
const TEXT_CHARS_MAX: usize = 300;

/// The longest reason of a standby, characters: its remedy is at the end.
const REASON_CHARS_MAX: usize = 1000;

/// The most stores with a sentence each.
const STORES_MAX: usize = 4;

/// Whether IDs are given, with a reason and a remedy.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub(super) struct GivingStatus {
    /// The state in one word.
    state: GivingState,
    /// The error that a request would get, or another reason.
    reason: Option<String>,
    /// The remedy.
    remedy: Option<&'static str>,
}

/// Appends the demand and the layout that would hold it to a reason, while demand exceeds the layout.
fn with_shortage(reason: String, facts: &Facts<'_>) -> String {
    match facts.shortage() {
        Some(shortage) => format!("{reason}; {shortage}"),
        None => reason,
    }
}

/// Whether IDs are given, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum GivingState {
    // No doc comments here: with them, the schema is one of six schemas in place of a list of six words.
    // All requests get IDs.
    Giving,
    // The layout's capacity is given, and demand exceeds it.
    Busy,
    // `CLIENT PAUSE` holds requests.
    Paused,
    // No IDs are given: another server has the claim, or no server has it yet.
    Standby,
    // No IDs are given, for another reason.
    Refusing,
    // The server stops.
    Stopping,
}

impl GivingStatus {
    pub(super) fn of(facts: &Facts<'_>, is_stopping: bool) -> GivingStatus {
        if is_stopping {
            return GivingStatus { state: GivingState::Stopping, reason: None, remedy: Some(remedy(&Refusal::Closed)) };
        }
        if let Some(claim) = facts.claim.as_ref().filter(|_| facts.is_standby()) {
            let (state, remedy) = match &claim.not_eligible {
                _ if !claim.is_waiting() => (GivingState::Refusing, NEEDS_OPERATOR),
                Some(_) => (GivingState::Standby, NOT_ELIGIBLE),
                None => (GivingState::Standby, STANDBY),
            };
            return GivingStatus {
                state,
                reason: Some(printable_up_to(claim.reason(), REASON_CHARS_MAX)),
                remedy: Some(remedy),
            };
        }
        if let Some(refusal) = &facts.generator.refusing {
            let state = if refusal.is_overload() { GivingState::Busy } else { GivingState::Refusing };
            let reason = refusal.to_string();
            // The other overloads name the demand themselves.
            let lacks_demand = matches!(refusal, Refusal::Busy { .. }) && refusal.is_overload();
            let reason = if lacks_demand { with_shortage(reason, facts) } else { reason };
            let remedy = match refusal {
                // The watermark is kept in the claim store, so no disk of this machine is the cause.
                Refusal::Save { .. } if facts.claim.is_some() => remedy(&Refusal::StoreTimeout),
                refusal => remedy(refusal),
            };
            return GivingStatus { state, reason: Some(reason), remedy: Some(remedy) };
        }
        if let Some((scope, left_ms)) = facts.clients.pause {
            let left = counted(left_ms.div_ceil(1000), "second");
            let reason = format!("CLIENT PAUSE holds {scope} requests for {left} more");
            return GivingStatus {
                state: GivingState::Paused,
                reason: Some(reason),
                remedy: Some("CLIENT UNPAUSE ends it."),
            };
        }
        if facts.generator.waiting > 0 {
            let waiting = counted(facts.generator.waiting as u64, "request");
            let reason = match facts.shortage() {
                Some(shortage) => format!("{waiting} wait for IDs: {shortage}"),
                None => format!("{waiting} wait for IDs: for the end of a burst, or for a save"),
            };
            let remedy = "If this persists, use a larger shard-range or more servers.";
            return GivingStatus { state: GivingState::Busy, reason: Some(reason), remedy: Some(remedy) };
        }
        GivingStatus { state: GivingState::Giving, reason: None, remedy: None }
    }
}

/// Remedies for a standby.
const STANDBY: &str = "This standby takes over automatically. Send requests to the server that has the claim.";
const NEEDS_OPERATOR: &str = "This standby does not take over automatically. Follow the remedy in the reason.";
const NOT_ELIGIBLE: &str =
    "This standby cannot take over; the reason is below. Send requests to the server that has the claim.";

/// Returns the text in one line, of bounded length.
fn shown(text: &str) -> String {
    printable_up_to(text, TEXT_CHARS_MAX)
}

/// Returns an operator's remedy for a refusal, as in docs/operating.md.
fn remedy(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Clock(_) => {
            "Set the clock. If it is right, and the server was off for that time: stop it, run 'getid state advance \
             --to TIME', and start it."
        }
        Refusal::Busy { .. } => {
            "Retry in a moment. If this persists, use a larger shard-range (the log names it) or more servers."
        }
        Refusal::Overload { .. } | Refusal::NamedOverload { .. } => {
            "Declare a wider counter, or use more servers. id-max-wait-ms bounds the wait of requests."
        }
        Refusal::BeforeEpoch { .. } => "Wait until the epoch, or declare an earlier one.",
        Refusal::EndOfTime { .. } => "Set the clock if it is wrong, and run 'getid state show'.",
        Refusal::Save { .. } => {
            "Repair the disk: free some space, or make the folder writable. The save is retried four times a second."
        }
        Refusal::SaveTimeout => {
            "Repair the disk. If it is lost: start with another dir, after 'getid state advance --past-id'."
        }
        Refusal::StoreTimeout => {
            "Repair the claim store, or the network to it. IDs are given again as soon as it answers."
        }
        Refusal::Standby(_) => {
            "Send requests to the server that has the claim. This server takes it over when that one is silent."
        }
        Refusal::ClaimLost(_) => {
            "Put the state folder back as it was, and stop any other server with this server-id; then IDs are given \
             again."
        }
        Refusal::Redeclared => "Retry.",
        Refusal::Closed => "Use another server, or wait for the restart.",
    }
}

/// A condition that needs attention soon.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub(super) struct Notice {
    /// A sentence.
    text: String,
}

impl Notice {
    /// Returns all notices, the most urgent first.
    pub(super) fn all(facts: &Facts<'_>) -> Vec<Notice> {
        let mut texts = Vec::new();
        of_saves_and_clock(facts, &mut texts);
        of_claim(facts, &mut texts);
        of_stores(facts, &mut texts);
        let now_unix_ms = facts.process.wall_unix_us.div_euclid(1000);
        texts.extend(end_of_life::warning(facts.layout, &facts.config.generators, now_unix_ms));
        if let Some(days) = facts.certificate_days_left().filter(|&days| days < CERTIFICATE_DAYS) {
            texts.push(match u64::try_from(days) {
                Ok(days) => format!("the TLS certificate ends in {}: renew it", counted(days, "day")),
                Err(_) => "the TLS certificate has ended: renew it".to_owned(),
            });
        }
        texts.into_iter().map(|text| Notice { text }).collect()
    }
}

fn of_saves_and_clock(facts: &Facts<'_>, texts: &mut Vec<String>) {
    let (own, mint) = (&*facts.generator, &facts.generator.mint);
    let is_refused = own.refusing.as_ref().is_some_and(|refusal| matches!(refusal, Refusal::Save { .. }));
    if let Some(error) = mint.save_error.as_ref().filter(|_| !is_refused && !facts.last_save_ok()) {
        texts.push(format!("the last save of the watermark failed, and IDs end at the saved watermark: {error}"));
    }
    if mint.holds_jump {
        texts.push("the clock jumped ahead, and IDs do not follow it yet: check the clock".to_owned());
    }
    if mint.clock_offset_ms < 0 {
        let behind_ms = mint.clock_offset_ms.unsigned_abs();
        texts.push(format!(
            "the clock is {behind_ms} ms behind the IDs: their time runs at 90 % of real speed until it has caught up"
        ));
    }
    let limit_ms = facts.config.id_max_borrow_ms;
    // A life begins ahead of the clock, above all IDs of a life that was lost, whatever the demand.
    let has_demand = own.demanded_per_s > facts.layout.capacity_per_s() / 2;
    if mint.borrow_ms > limit_ms / 10 * 8 && has_demand && own.waiting == 0 && own.refusing.is_none() {
        texts.push(with_shortage("IDs are near the borrow limit".to_owned(), facts));
    }
}

fn of_claim(facts: &Facts<'_>, texts: &mut Vec<String>) {
    let Some(claim) = &facts.claim else { return };
    if let Some(why) = &claim.not_eligible {
        texts.push(format!("this standby cannot take the claim over: {}", shown(why)));
    }
    if claim.error.is_empty() {
        return;
    }
    let error = shown(&claim.error);
    texts.push(if facts.is_standby() {
        format!("the claim store {} does not answer, so this standby cannot take over: {error}", claim.store)
    } else {
        let left = counted(facts.ride_through_ms(claim) / 1000, "second");
        format!("the claim store {} does not answer, and IDs end in {left}: {error}", claim.store)
    });
}

fn of_stores(facts: &Facts<'_>, texts: &mut Vec<String>) {
    let Some(sequences) = facts.sequences.as_ref() else { return };
    let down: Vec<_> = sequences.stores.iter().filter(|store| store.is_up == Some(false) || store.is_held).collect();
    for store in down.iter().take(STORES_MAX) {
        let error = shown(store.reason.as_deref().unwrap_or("it does not answer"));
        let seconds = counted(store.for_ms / 1000, "second");
        texts.push(if store.is_held {
            format!("the sequence store {} cannot reserve values: {error}", store.shown)
        } else {
            format!("the sequence store {} has been down for {seconds}: {error}", store.shown)
        });
    }
    if let Some(more) = down.len().checked_sub(STORES_MAX).filter(|&more| more > 0) {
        texts.push(format!("{} more are down", counted(more as u64, "sequence store")));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use getid_engine::claim::status::{ClaimRole, ClaimStatus};
    use getid_engine::generators::time::IssuerStatus;
    use getid_server::metrics::Metrics;

    #[test]
    fn a_save_that_fails_in_a_claim_store_has_the_stores_remedy() {
        let metrics = Metrics::default();
        let remedy = |claim: Option<ClaimStatus>| {
            let mut facts = Facts::of_tests(&metrics);
            facts.claim = claim.map(Arc::new);
            let refusing = Some(Refusal::Save { error: "it has not answered in time".into() });
            facts.generator = getid_server::metrics::Lazy::new(Box::new(move || IssuerStatus {
                refusing,
                ..IssuerStatus::default()
            }));
            GivingStatus::of(&facts, false).remedy.unwrap()
        };
        assert!(remedy(None).starts_with("Repair the disk"));
        let holder = ClaimStatus { role: ClaimRole::Holder, ..ClaimStatus::default() };
        assert!(remedy(Some(holder)).starts_with("Repair the claim store"));
    }
}
