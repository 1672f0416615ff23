//! The command `SLOWLOG`.

use crate::Server;
use crate::effects::EffectReply;
use crate::effects::chunks::Items;
use getid_redis::resp::Value;
use getid_redis::stats::SlowLogEntry;

pub(super) fn get(server: &Server, count_max: Option<usize>) -> EffectReply {
    let entries: Vec<_> = server.slow_log().entries().take(count_max.unwrap_or(usize::MAX)).cloned().collect();
    let held = entries.iter().map(|entry| entry.memory_bytes()).sum();
    EffectReply::Chunks(Box::new(Items::new(entries.into_iter().map(|entry| value_of(&entry)), held)))
}

pub(super) fn len(server: &Server) -> Value {
    Value::Integer(server.slow_log().len().try_into().unwrap_or(i64::MAX))
}

pub(super) fn reset(server: &Server) -> Value {
    server.slow_log().clear();
    Value::OK
}

fn value_of(entry: &SlowLogEntry) -> Value {
    let integer = |number: u64| Value::Integer(number.try_into().unwrap_or(i64::MAX));
    Value::Array(vec![
        integer(entry.id),
        Value::Integer(entry.unix_s),
        integer(entry.us),
        Value::Array(entry.args.iter().map(|arg| Value::bulk(arg.clone())).collect()),
        Value::from(&*entry.peer),
        Value::from(&*entry.name),
    ])
}
