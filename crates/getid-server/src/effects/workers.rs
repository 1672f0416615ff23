//! `WORKERID`, and CosId's scripts of machine ids: worker ids for programs that make IDs themselves.

use std::sync::Arc;

use super::EffectReply;
use crate::Server;
use crate::audit::AuditAction;
use crate::error_replies::{of_standby, of_workers};
use crate::logging::throttle::throttled;
use crate::registry::Client;
use getid_core::server::worker::NoLease;
use getid_engine::workers::{LeaseToken, LeaseView, MachineRequest, PoolView, WorkerError, Workers};
use getid_redis::resp::{ErrorKind, ErrorReply, Value};
use getid_redis::session::WorkerEffect;
use getid_text::printable::printable_up_to;

/// Error of a server without pools.
const NO_POOLS: ErrorReply = ErrorReply::fixed(
    ErrorKind::NotFound,
    "ERR there are no worker pools: 'worker-pool orders size 1024 lease 30s' in the configuration, and a restart, make \
     one",
);

pub(super) async fn perform(server: &Arc<Server>, effect: WorkerEffect, client: &Client) -> EffectReply {
    let Some(workers) = server.workers() else {
        return Value::Error(namespace_of(&effect).map_or(NO_POOLS, no_namespace)).into();
    };
    if let Some(refusal) = server.generators.standby_refusal() {
        return Value::Error(of_standby(&refusal)).into();
    }
    let outcome = answer(server, workers, &effect).await;
    match (&outcome, &effect) {
        (Ok(_), WorkerEffect::Init { pool }) => server.audit(AuditAction::WorkerIdInit { pool }, client),
        (Ok(_), WorkerEffect::Revoke { pool, id }) => {
            server.audit(AuditAction::WorkerIdRevoke { pool, id: *id }, client);
        }
        _ => {}
    }
    let error_reply = |error| match (&error, namespace_of(&effect)) {
        (WorkerError::NoSuchPool { .. }, Some(namespace)) => no_namespace(namespace),
        _ => of_workers(&error),
    };
    outcome.unwrap_or_else(|error| Value::Error(error_reply(error))).into()
}

/// Returns CosId's namespace, if the effect is that of a script of machine ids.
fn namespace_of(effect: &WorkerEffect) -> Option<&str> {
    match effect {
        WorkerEffect::Distribute { pool, .. }
        | WorkerEffect::Guard { pool, .. }
        | WorkerEffect::Revert { pool, .. } => Some(pool),
        _ => None,
    }
}

/// Returns the error for a namespace of CosId without a pool, with settings that suit CosId's.
fn no_namespace(namespace: &str) -> ErrorReply {
    let text = format!(
        "ERR no such worker pool '{namespace}', for the machine ids of CosId's namespace: 'worker-pool {namespace} size \
         1024 lease 5m longest 10m' in the configuration, and a restart, make it"
    );
    ErrorReply::new(ErrorKind::NotFound, text)
}

async fn answer(server: &Server, workers: &Workers, effect: &WorkerEffect) -> Result<Value, WorkerError> {
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
        WorkerEffect::Distribute { pool, instance, ids, guard_ms, now_ms } => {
            let (instance, now_ms) = (instance.clone(), Some(*now_ms));
            let request = MachineRequest { instance, ids: *ids, guard_ms: *guard_ms, now_ms };
            distribute(server, workers, pool, &request).await?
        }
        WorkerEffect::Guard { pool, instance, last_ms } => {
            let is_held = workers.guard(pool, instance, Some(*last_ms)).await?;
            if !is_held {
                throttled!(
                    server.throttle,
                    LostMachineId,
                    "the instance '{}' of CosId's namespace '{pool}' has no machine id, and continues to use its last \
                     one, which another instance may have: stop it, and start it again",
                    printable_up_to(&String::from_utf8_lossy(instance), 64)
                );
            }
            Value::Integer(is_held.into())
        }
        WorkerEffect::Revert { pool, instance, last_ms } => {
            Value::Integer(workers.revert(pool, instance, Some(*last_ms)).await?.into())
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

/// Answers the machine id of an instance. If all are taken, CosId expects -1 twice, and the log has the reason.
async fn distribute(
    server: &Server,
    workers: &Workers,
    pool: &str,
    request: &MachineRequest,
) -> Result<Value, WorkerError> {
    match workers.distribute(pool, request).await {
        Ok(machine) => Ok(Value::Array(vec![Value::Integer(machine.id.into()), ms(machine.from_ms)])),
        Err(error @ WorkerError::NoLease { why: NoLease::Exhausted { .. }, .. }) => {
            let error = error.to_string();
            let (_, reason) = error.split_once(' ').unwrap_or(("", &error));
            throttled!(server.throttle, NoMachineId, "an instance of CosId got no machine id: {reason}");
            Ok(Value::Array(vec![Value::Integer(-1); 2]))
        }
        Err(error) => Err(error),
    }
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
