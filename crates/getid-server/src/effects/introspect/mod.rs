//! Information about the server: `INFO`, `TIME`, `MONITOR`, and in files of their own `SLOWLOG`, `LATENCY` and
//! `MEMORY`.

mod latency;
mod memory;
mod slowlog;

use super::EffectReply;
use crate::Server;
use crate::audit::AuditAction;
use crate::metrics::info;
use crate::registry::Client;
use getid_redis::resp::Value;
use getid_redis::session::IntrospectEffect;
use getid_system::clock::Clock as _;

pub(super) fn perform(server: &Server, effect: IntrospectEffect, client: &Client) -> EffectReply {
    EffectReply::Value(match effect {
        IntrospectEffect::Info(sections) => Value::text(info::text(&server.facts(), &sections)),
        IntrospectEffect::Time => time(server),
        IntrospectEffect::Monitor => monitor(server, client),
        IntrospectEffect::SlowLogGet(count_max) => return slowlog::get(server, count_max),
        IntrospectEffect::SlowLogLen => slowlog::len(server),
        IntrospectEffect::SlowLogReset => slowlog::reset(server),
        IntrospectEffect::LatencyLatest => latency::latest(server),
        IntrospectEffect::LatencyHistory(event) => latency::history(server, &event),
        IntrospectEffect::LatencyReset(events) => latency::reset(server, &events),
        IntrospectEffect::LatencyDoctor => latency::doctor(server),
        IntrospectEffect::LatencyGraph(event) => latency::graph(server, &event),
        IntrospectEffect::LatencyHistogram(commands) => latency::histogram(server, &commands),
        IntrospectEffect::MemoryDoctor => memory::doctor(server),
        IntrospectEffect::MemoryStats => memory::stats(server),
    })
}

fn time(server: &Server) -> Value {
    let now_us = server.issuer().clock().wall_unix_us();
    let seconds = now_us.div_euclid(1_000_000).to_string();
    let micros = now_us.rem_euclid(1_000_000).to_string();
    Value::Array(vec![Value::bulk(seconds), Value::bulk(micros)])
}

/// Logs the start of a monitor, which the connection has already registered.
fn monitor(server: &Server, client: &Client) -> Value {
    server.audit(AuditAction::Monitor, client);
    Value::OK
}
