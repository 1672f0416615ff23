//! `WORKERID`: worker ids for programs that make IDs themselves.

use std::sync::Arc;

use super::EffectReply;
use crate::Server;
use crate::audit::AuditAction;
use crate::error_replies::{of_standby, of_workers};
use crate::registry::Client;
use getid_engine::workers::{LeaseToken, LeaseView, PoolView, WorkerError, Workers};
use getid_redis::resp::{ErrorKind, ErrorReply, Value};
use getid_redis::session::WorkerEffect;

/// Error of a server without pools.
const NO_POOLS: ErrorReply = ErrorReply::fixed(
    ErrorKind::NotFound,
    "ERR there are no worker pools: 'worker-pool orders size 1024 lease 30s' in the configuration, and a restart, make \
     one",
);

pub(super) async fn perform(server: &Arc<Server>, effect: WorkerEffect, client: &Client) -> EffectReply {
    let Some(workers) = server.workers() else { return Value::Error(NO_POOLS).into() };
    if let Some(refusal) = server.generators.standby_refusal() {
        return Value::Error(of_standby(&refusal)).into();
    }
    let outcome = answer(workers, &effect).await;
    match (&outcome, &effect) {
        (Ok(_), WorkerEffect::Init { pool }) => server.audit(AuditAction::WorkerIdInit { pool }, client),
        (Ok(_), WorkerEffect::Revoke { pool, id }) => {
            server.audit(AuditAction::WorkerIdRevoke { pool, id: *id }, client);
        }
        _ => {}
    }
    outcome.unwrap_or_else(|error| Value::Error(of_workers(&error))).into()
}

async fn answer(workers: &Workers, effect: &WorkerEffect) -> Result<Value, WorkerError> {
    Ok(match effect {
        WorkerEffect::Lease { pool, name, ttl_ms } => {
            let granted = workers.lease(pool, name.clone(), *ttl_ms).await?;
            Value::Array(vec![
                Value::Integer(granted.id.into()),
                Value::bulk(granted.token),
                ms(granted.not_before_ms),
                ms(granted.not_after_ms),
                ms(granted.lease_ms),
            ])
        }
        WorkerEffect::Renew { pool, id, token, last_ms } => {
            // An invalid token is a wrong one.
            let token = LeaseToken::parse(token.bytes()).unwrap_or_default();
            Value::Array(vec![ms(workers.renew(pool, *id, token, *last_ms).await?)])
        }
        WorkerEffect::Release { pool, id, token, last_ms } => {
            let token = LeaseToken::parse(token.bytes()).unwrap_or_default();
            workers.release(pool, *id, token, *last_ms).await?;
            Value::OK
        }
        WorkerEffect::List { pool, from, count } => {
            let (next, leases) = workers.leases(pool, *from, *count as usize).await?;
            let cursor = next.map_or_else(String::new, |next| next.to_string());
            Value::Array(vec![Value::bulk(cursor), Value::Array(leases.iter().map(lease).collect())])
        }
        WorkerEffect::Info { pool } => describe(&workers.look_at(pool).await?),
        WorkerEffect::Init { pool } => {
            workers.open_new(pool).await?;
            Value::OK
        }
        WorkerEffect::Revoke { pool, id } => ms(workers.revoke(pool, *id).await?),
    })
}

fn ms(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn lease(lease: &LeaseView) -> Value {
    Value::map([
        ("id", Value::Integer(lease.id.into())),
        ("name", Value::from(lease.name.as_str())),
        ("state", Value::from(lease.state)),
        ("not_before", ms(lease.not_before_ms)),
        ("not_after", ms(lease.not_after_ms)),
        ("ttl_ms", ms(lease.ttl_ms)),
    ])
}

fn describe(pool: &PoolView) -> Value {
    let counts = pool.counts;
    Value::map([
        ("pool", Value::from(pool.name.as_str())),
        ("size", Value::Integer(pool.rules.size.into())),
        ("leased", Value::Integer(pool.leased.into())),
        ("free", Value::Integer(pool.free().into())),
        ("lease_ms", ms(pool.rules.lease_ms)),
        ("longest_ms", ms(pool.rules.longest_ms)),
        ("opens", ms(pool.opens_ms)),
        ("store", Value::from(pool.store.as_str())),
        ("leases", ms(counts.leases)),
        ("renewals", ms(counts.renewals)),
        ("releases", ms(counts.releases)),
        ("revocations", ms(counts.revocations)),
        ("refused", ms(counts.refused)),
        ("exhausted", ms(counts.exhausted)),
        ("errors", ms(counts.errors)),
    ])
}
