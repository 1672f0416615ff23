//! The directive `worker-pool`: pools of worker ids that other programs lease, one a line, and the store of their
//! leases.

use getid_core::server::is_reserved_name;
use getid_core::server::worker::{LEASE_MS_MAX, LEASE_MS_MIN, POOL_SIZE_MAX, PoolRules};

use super::report::DirectiveConflict;
use super::row::Line;
use super::value_error::{PoolError, ValueError};
use super::values::{Config, ConfigValues, POOL_NAME_BYTES_MAX, POOLS_MAX, WorkerPool};
use getid_text::store_url::StoreUrl;

/// Units of time, with their ms.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a line and adds the pool.
pub(super) fn add(values: &mut ConfigValues, words: &[String]) -> Result<(), Vec<ValueError>> {
    let config = &mut values.config;
    // `CONFIG GET` shows an empty line for no pool.
    if words == [""] {
        return Ok(());
    }
    let pool = pool(words).map_err(ValueError::WorkerPool)?;
    if config.worker_pools.len() == POOLS_MAX {
        return Err(ValueError::from(PoolError::TooMany).into());
    }
    config.worker_pools.push(pool);
    Ok(())
}

fn pool(words: &[String]) -> Result<WorkerPool, PoolError> {
    let [name, options @ ..] = words else { return Err(PoolError::Empty) };
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if !(1..=POOL_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_known) {
        return Err(PoolError::Name { name: name.clone() });
    }
    if is_reserved_name(name) {
        return Err(PoolError::Reserved { name: name.clone() });
    }
    let [mut size, mut lease, mut longest] = [None; 3];
    for pair in options.chunks(2) {
        let (word, value) = (pair[0].as_str(), pair.get(1));
        let value = value.ok_or_else(|| PoolError::NoValue { word: word.to_owned() })?;
        let place = match word.to_ascii_lowercase().as_str() {
            "size" => &mut size,
            "lease" => &mut lease,
            "longest" => &mut longest,
            _ => return Err(PoolError::Option { word: word.to_owned() }),
        };
        if place.replace(value).is_some() {
            return Err(PoolError::Twice { word: word.to_owned() });
        }
    }
    let size = size.ok_or(PoolError::NoSize)?;
    let size = size.parse().ok().filter(|size| (1..=POOL_SIZE_MAX).contains(size));
    let size = size.ok_or(PoolError::Size)?;
    let lease = lease.ok_or(PoolError::NoLease)?;
    let lease_ms = time(lease).filter(|ms| (LEASE_MS_MIN..=LEASE_MS_MAX).contains(ms));
    let lease_ms = lease_ms.ok_or_else(|| PoolError::Lease { text: lease.clone() })?;
    let longest_ms = match longest {
        None => (lease_ms * 2).min(LEASE_MS_MAX),
        Some(text) => time(text)
            .filter(|ms| (lease_ms..=LEASE_MS_MAX).contains(ms))
            .ok_or_else(|| PoolError::Longest { text: text.clone(), lease: shown(lease_ms) })?,
    };
    Ok(WorkerPool { name: name.clone(), rules: PoolRules { size, lease_ms, longest_ms } })
}

fn time(text: &str) -> Option<u64> {
    let at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (digits, unit) = text.split_at(at);
    let (_, ms) = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
    digits.parse::<u64>().ok()?.checked_mul(*ms)
}

fn shown(ms: u64) -> String {
    let unit = UNITS.iter().find(|(_, of)| ms.is_multiple_of(*of));
    unit.map_or_else(String::new, |(name, of)| format!("{}{name}", ms / of))
}

/// Returns the lines that declare all pools.
pub(super) fn lines(values: &ConfigValues) -> Vec<Line> {
    let config = &values.config;
    config.worker_pools.iter().map(line).collect()
}

fn line(pool: &WorkerPool) -> Line {
    let PoolRules { size, lease_ms, longest_ms } = pool.rules;
    let words = [&pool.name, "size", &size.to_string(), "lease", &shown(lease_ms), "longest", &shown(longest_ms)];
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Returns the canonical form of a line, which all lines of the same meaning share.
pub(super) fn canonical(words: &[String]) -> Line {
    // No server starts with an invalid line.
    pool(words).map_or_else(|_| words.to_vec(), |pool| line(&pool))
}

impl Config {
    /// Returns the store for leases of worker ids: the claim store that servers share, if there is one, else the first
    /// store of sequences.
    pub fn worker_store(&self) -> Option<StoreUrl> {
        self.claim.store.clone().or_else(|| self.sequence_stores().into_iter().next())
    }
}

/// Returns conflicts of pools with the rest of a configuration.
pub(super) fn conflicts(config: &Config) -> Vec<DirectiveConflict> {
    if config.worker_pools.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    if !cfg!(feature = "fleet") {
        found.push(DirectiveConflict::new(
            &["worker-pool"],
            "there are pools of worker ids, but this getid was built without the feature 'fleet'",
            "remove the worker-pool lines, or build getid with the features that it has by default",
        ));
    }
    if config.worker_store().is_none() {
        found.push(DirectiveConflict::new(
            &["worker-pool", "sequence-store", "id-state"],
            "there are pools of worker ids, but no store for their leases",
            "set one: claim-store or sequence-store, such as 'sequence-store sqlite:sequences.sqlite'",
        ));
    }
    found
}
