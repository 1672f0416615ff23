//! `MEMORY DOCTOR` and `STATS`, as far as they are meaningful without a keyspace.

use crate::Server;
use getid_redis::resp::Value;
use getid_text::plural::counted;

/// Resident memory from which MEMORY DOCTOR looks for a reason, bytes.
const MUCH_BYTES: u64 = 256 << 20;

pub(super) fn doctor(server: &Server) -> Value {
    let resident = server.metrics.sample_memory();
    let peak = server.metrics.memory_peak();
    let clients = counted(server.clients.len() as u64, "client");
    if resident < MUCH_BYTES && peak < MUCH_BYTES {
        return Value::text(format!(
            "{resident} bytes are resident, {peak} were at the peak, with {clients}: nothing to worry about.\n"
        ));
    }
    Value::text(format!(
        "{resident} bytes are resident, {peak} were at the peak, with {clients}. getid keeps no data; clients \
             take the memory: large incomplete requests and queues of MULTI. CLIENT LIST shows \
             them (qbuf, multi). Lower client-query-buffer-limit and proto-max-bulk-len, or maxclients.\n"
    ))
}

/// Answers Redis's fields that are meaningful without data, in its order.
pub(super) fn stats(server: &Server) -> Value {
    let resident = server.metrics.sample_memory();
    let peak = server.metrics.memory_peak();
    let startup = server.metrics.memory_startup();
    let number = |bytes: u64| Value::Integer(bytes.try_into().unwrap_or(i64::MAX));
    #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
    let percent = |part: u64, whole: u64| Value::Double(part as f64 * 100.0 / whole.max(1) as f64);
    Value::map([
        ("peak.allocated", number(peak)),
        ("total.allocated", number(resident)),
        ("startup.allocated", number(startup)),
        ("replication.backlog", number(0)),
        ("clients.slaves", number(0)),
        ("clients.normal", number(resident.saturating_sub(startup))),
        ("cluster.links", number(0)),
        ("aof.buffer", number(0)),
        ("lua.caches", number(0)),
        ("functions.caches", number(0)),
        ("overhead.total", number(resident)),
        ("keys.count", number(0)),
        ("keys.bytes-per-key", number(0)),
        ("dataset.bytes", number(0)),
        ("dataset.percentage", Value::Double(0.0)),
        ("peak.percentage", percent(resident, peak)),
        ("fragmentation", Value::Double(1.0)),
        ("fragmentation.bytes", number(0)),
    ])
}
