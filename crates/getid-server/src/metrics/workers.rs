//! INFO's lines about pools of worker ids, one line each, for at most 100 pools.

use super::{Facts, MetricValue};
use getid_engine::workers::PoolView;

/// Returns a line for each pool, by its name.
pub(super) fn pool_lines(facts: &Facts<'_>) -> MetricValue {
    MetricValue::Family(facts.workers.iter().map(|pool| (pool.name.clone(), pool_line(pool))).collect())
}

fn pool_line(pool: &PoolView) -> MetricValue {
    let counts = pool.counts;
    MetricValue::Parts(vec![
        ("known", if pool.is_known { "yes" } else { "no" }.into()),
        ("size", pool.rules.size.into()),
        ("leased", pool.leased.into()),
        ("free", pool.free().into()),
        ("leases", counts.leases.into()),
        ("renewals", counts.renewals.into()),
        ("releases", counts.releases.into()),
        ("revocations", counts.revocations.into()),
        ("refused", counts.refused.into()),
        ("exhausted", counts.exhausted.into()),
        ("errors", counts.errors.into()),
    ])
}
