//! The directive `sequence-store`: addresses of stores, one a line.
//!
//! [`StoreUrl`] defines the syntax of an address. This module has the checks between the lines. An empty value removes
//! the previous ones.

use super::row::Line;
use super::value_error::ValueError;
use super::values::{STORES_MAX, SequenceConfig};
use getid_text::store_url::StoreUrl;

/// The word that replaces an address for no sequences.
const NONE: &str = "none";

/// Parses a line and adds the store.
pub(super) fn set(config: &mut SequenceConfig, words: &[String]) -> Result<(), Vec<ValueError>> {
    let word = words.first().map_or("", String::as_str);
    if word.is_empty() {
        config.stores.clear();
        config.is_off = false;
        return Ok(());
    }
    if word.eq_ignore_ascii_case(NONE) {
        config.is_off = true;
    } else {
        let url = StoreUrl::parse_for_sequences(word).map_err(ValueError::Store)?;
        if config.stores.contains(&url) {
            return Err(ValueError::StoreTwice { shown: url.shown().to_owned() }.into());
        }
        if config.stores.len() == STORES_MAX {
            return Err(ValueError::Stores { max: STORES_MAX }.into());
        }
        config.stores.push(url);
    }
    if config.is_off && !config.stores.is_empty() {
        return Err(ValueError::StoreBesideNone.into());
    }
    Ok(())
}

/// Returns the lines that set the stores.
pub(super) fn lines(config: &SequenceConfig) -> Vec<Line> {
    let none = config.is_off.then(|| vec![NONE.to_owned()]);
    none.into_iter().chain(config.stores.iter().map(|url| vec![url.text().to_owned()])).collect()
}
