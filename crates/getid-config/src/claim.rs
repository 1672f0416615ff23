//! The directives of claims: the store, the rules of a takeover, and the checks against other directives.
//!
//! [`StoreUrl`] defines the syntax of an address.

use super::enums::StateKind;
use super::report::DirectiveConflict;
use super::stores::in_clear;
use super::value_error::ValueError;
use super::values::{Config, ConfigValues, INSTANCE_NAME_BYTES_MAX};
use getid_text::store_url::{StoreKind, StoreUrl};

/// The word that replaces an address to keep claims in the folder of the state.
const FILE: &str = "file";

/// The words of `claim-takeover`.
pub(super) const TAKEOVER_WORDS: &[&str] = &["checked", "any"];

/// Quarters of a time-out for which IDs are given after a beat was sent.
const HOLD_QUARTERS: u64 = 3;

pub(super) fn set_store(values: &mut ConfigValues, word: &str) -> Result<(), ValueError> {
    values.config.claim.store = match word {
        "" => return Err(ValueError::Empty),
        word if word.eq_ignore_ascii_case(FILE) => None,
        // A path such as `/var/lib/getid` is no address.
        word => Some(StoreUrl::parse(word).map_err(ValueError::ClaimStore)?),
    };
    Ok(())
}

/// Returns the address as it was written.
pub(super) fn store_text(values: &ConfigValues) -> String {
    values.config.claim.store.as_ref().map_or(FILE, StoreUrl::text).to_owned()
}

pub(super) fn set_name(values: &mut ConfigValues, word: &str) -> Result<(), ValueError> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if word.len() > INSTANCE_NAME_BYTES_MAX || !word.bytes().all(is_known) {
        return Err(ValueError::InstanceName { found: word.to_owned() });
    }
    values.config.claim.instance_name = (!word.is_empty()).then(|| word.to_owned());
    Ok(())
}

/// Returns conflicts of the claim directives with the rest of a configuration.
pub(super) fn conflicts(config: &Config) -> Vec<DirectiveConflict> {
    let Some(store) = &config.claim.store else {
        return config.server_id_auto().then(auto_without_store).into_iter().collect();
    };
    let mut found = Vec::new();
    if !cfg!(feature = "fleet") {
        found.push(DirectiveConflict::new(
            &["claim-store"],
            format!("claim-store is {}, but this getid was built without the feature 'fleet'", store.shown()),
            "set claim-store file, or build getid with the features that it has by default",
        ));
    }
    if config.id_state == StateKind::None {
        found.push(DirectiveConflict::new(
            &["id-state", "claim-store"],
            format!(
                "id-state is none, but claim-store is {}: a claim is a record of the watermark in that store",
                store.shown()
            ),
            "remove the line id-state none, or set claim-store file",
        ));
    }
    found
}

fn auto_without_store() -> DirectiveConflict {
    DirectiveConflict::new(
        &["server-id", "claim-store"],
        "server-id is auto, but claim-store is file: only a store that servers share records which \
                   server-ids are free",
        "set that store, such as 'claim-store postgres://USER@HOST/DATABASE', or give this server a number of \
               its own",
    )
}

/// Returns warnings about settings that may not be intended, each with its directive.
pub(super) fn warnings(config: &Config) -> Vec<(&'static str, String)> {
    let claim = &config.claim;
    let Some(store) = &claim.store else { return Vec::new() };
    let mut found = Vec::new();
    if store.is_in_clear() {
        found.push(("claim-store", in_clear(store)));
    }
    let hold_ms = claim.timeout_ms * HOLD_QUARTERS / 4;
    let lead_ms = config.id_watermark_lead_ms;
    if hold_ms > lead_ms {
        found.push((
            "claim-timeout-ms",
            format!(
                "is {}, so IDs could continue for {hold_ms} ms while the store is unreachable, but \
                 id-watermark-lead-ms is \
                 {lead_ms}: they end then; set it, and id-max-borrow-ms, to {hold_ms} or more",
                claim.timeout_ms
            ),
        ));
    }
    let is_file = |url: &StoreUrl| matches!(url.kind(), StoreKind::Sqlite { .. });
    if let Some(file) = config.sequence_stores().iter().find(|url| is_file(url)).filter(|_| !is_file(store)) {
        found.push((
            "sequence-store",
            format!(
                "{} is a file of this machine: a server on another machine that takes the claim over does not have it, \
                 and counts its sequences from their start; set a store that both can reach",
                file.shown()
            ),
        ));
    }
    found
}
