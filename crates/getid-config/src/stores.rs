//! The directive `sequence-store`: addresses of stores, one a line.
//!
//! [`StoreUrl`] defines the syntax of an address. This module has the checks between the lines. An empty value removes
//! the previous ones.

use std::sync::Arc;

use super::enums::SequenceTable;
use super::parse::listed;
use super::report::DirectiveConflict;
use super::row::Line;
use super::value_error::ValueError;
use super::values::{Config, ConfigValues, STORES_MAX};
use getid_redis::session::ExpiringNames;
use getid_text::store_url::{StoreKind, StoreUrl};

/// The word that replaces an address for no sequences.
const NONE: &str = "none";

/// Parses the patterns of `sequence-expire`.
pub(super) fn set_expiring(values: &mut ConfigValues, words: &[String]) -> Result<(), ValueError> {
    values.config.sequences.expiring = Arc::new(ExpiringNames::new(listed(words)).map_err(ValueError::NamePattern)?);
    Ok(())
}

/// Parses a line and adds the store.
pub(super) fn set(values: &mut ConfigValues, words: &[String]) -> Result<(), Vec<ValueError>> {
    let config = &mut values.config.sequences;
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
pub(super) fn lines(values: &ConfigValues) -> Vec<Line> {
    let config = &values.config.sequences;
    let none = config.is_off.then(|| vec![NONE.to_owned()]);
    none.into_iter().chain(config.stores.iter().map(|url| vec![url.text().to_owned()])).collect()
}

/// Returns conflicts of the stores with the rest of a configuration.
pub(super) fn conflicts(config: &Config) -> Vec<DirectiveConflict> {
    let (table, stores) = (config.sequences.table, config.sequence_stores());
    let mut found = Vec::new();
    let file = stores.iter().find(|url| matches!(url.kind(), StoreKind::Sqlite { .. }));
    if let Some(file) = file.filter(|_| table != SequenceTable::Native) {
        found.push(DirectiveConflict::new(
            &["sequence-table", "sequence-store"],
            format!(
                "sequence-table is {}, which is a table of a database server, but the store is {}, a file",
                table.word(),
                file.shown()
            ),
            "set that server's database: sequence-store mysql://USER:PASSWORD@HOST/DATABASE",
        ));
    }
    if stores.len() > 1 && config.sequences.cache == 0 {
        found.push(DirectiveConflict::new(
            &["sequence-cache", "sequence-store"],
            format!(
                "sequence-cache is 0, which needs a single store, and there are {}: each value would be in one of them",
                stores.len()
            ),
            "sequence-cache 1 or more, or one line of sequence-store",
        ));
    }
    found
}

/// Returns warnings about settings that may not be intended, each with its directive.
pub(super) fn warnings(config: &Config) -> Vec<(&'static str, String)> {
    let stores = config.sequence_stores();
    stores.iter().filter(|url| url.is_in_clear()).map(|url| ("sequence-store", in_clear(url))).collect()
}

/// Returns the warning about an unencrypted connection to another machine.
pub(super) fn in_clear(url: &StoreUrl) -> String {
    format!(
        "{} is on another machine and has tls=no: others on the network can read the password and change the traffic; \
         remove tls=no",
        url.shown()
    )
}
