//! Commands that were slow: into the slow log, and as events for LATENCY; and SLOWLOG itself.

use crate::resp::Value;
use crate::server::effects::pieces::Items;
use crate::server::{Pieces, Server};
use crate::session::SlowLogAsk;
use crate::stats::Entry;

impl Server {
    /// `SLOWLOG GET`
    pub(crate) fn slow_commands(&self, count_max: Option<usize>) -> Box<dyn Pieces> {
        let entries: Vec<_> = self.slow_log().entries().take(count_max.unwrap_or(usize::MAX)).cloned().collect();
        let held = entries.iter().map(|entry| entry.memory_bytes()).sum();
        Box::new(Items::new(entries.into_iter().map(|entry| value_of(&entry)), held))
    }

    /// `SLOWLOG LEN` and `RESET`.
    pub(crate) fn answer_slowlog(&self, ask: SlowLogAsk) -> Value {
        match ask {
            SlowLogAsk::Get { .. } => unreachable!("it is answered in pieces"),
            SlowLogAsk::Len => Value::Integer(self.slow_log().len().try_into().unwrap_or(i64::MAX)),
            SlowLogAsk::Reset => {
                self.slow_log().clear();
                Value::OK
            }
        }
    }
}

fn value_of(entry: &Entry) -> Value {
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
