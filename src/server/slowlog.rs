//! Commands that were slow: into the slow log, and as events for LATENCY; and SLOWLOG itself.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::pieces::Items;
use super::{Pieces, Server};
use crate::command::Flags;
use crate::config::Config;
use crate::config::secrets::may_be_secret_directive;
use crate::resp::Value;
use crate::server::registry::Client;
use crate::session::{Noted, Reply, SlowLogAsk, Timing};
use crate::stats::{Entry, SlowLog};
use crate::system::clock::{self, Clock as _};

/// How sessions time commands under this configuration, and which of them they tell one by one.
pub fn timing(config: &Config) -> Timing {
    let slow_ns = u64::try_from(config.slowlog_log_slower_than_us).map_or(u64::MAX, |us| us.saturating_mul(1000));
    let event_ns = match config.latency_monitor_threshold_ms {
        0 => u64::MAX,
        ms => ms.saturating_mul(1_000_000),
    };
    Timing { now_ns: clock::stopwatch_ns, noted_ns: slow_ns.min(event_ns), is_secret: may_be_secret_directive }
}

impl Server {
    /// A command that took long by the session's [`Timing`], and the name of the client that sent it.
    pub fn note(&self, client: &Client, name: &Arc<str>, noted: Noted) {
        let config = self.config.get();
        let event = if noted.command.flags.has(Flags::FAST) { "fast-command" } else { "command" };
        self.note_event(event, noted.ns / 1_000_000);
        let us = noted.ns / 1000;
        if is_slow(&config, us) && !noted.command.flags.has(Flags::SKIP_SLOWLOG) {
            self.push_slow(client, name, us, noted.args, config.slowlog_max_len);
        }
    }

    /// The ID commands of a turn, whose share of the draw was `share_ns` each.
    pub fn note_ids(&self, client: &Client, name: &Arc<str>, replies: &[Reply], share_ns: u64) {
        let config = self.config.get();
        self.note_event("fast-command", share_ns / 1_000_000);
        let us = share_ns / 1000;
        if !is_slow(&config, us) {
            return;
        }
        let push = |args| self.push_slow(client, name, us, args, config.slowlog_max_len);
        for reply in replies {
            match *reply {
                Reply::Integers { count } => (0..count).for_each(|_| push(vec![b"GETID".to_vec()])),
                Reply::Bulks { count } => push(vec![b"MGETID".to_vec(), count.to_string().into_bytes()]),
                Reply::Unheard { .. } | Reply::Encoded { .. } => {}
            }
        }
    }

    fn push_slow(&self, client: &Client, name: &Arc<str>, us: u64, args: Vec<Vec<u8>>, len_max: u64) {
        let unix_s = self.issuer.clock().wall_unix_us().div_euclid(1_000_000);
        let entry = Entry { id: 0, unix_s, us, args, peer: client.peer.to_string(), name: Arc::clone(name) };
        self.slow_log().push(entry, len_max);
    }

    fn slow_log(&self) -> MutexGuard<'_, SlowLog> {
        self.slow_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `SLOWLOG GET`
    pub(super) fn slow_commands(&self, count_max: Option<usize>) -> Box<dyn Pieces> {
        let entries: Vec<_> = self.slow_log().entries().take(count_max.unwrap_or(usize::MAX)).cloned().collect();
        let held = entries.iter().map(|entry| entry.memory_bytes()).sum();
        Box::new(Items::new(entries.into_iter().map(|entry| value_of(&entry)), held))
    }

    /// `SLOWLOG LEN` and `RESET`.
    pub(super) fn answer_slowlog(&self, ask: SlowLogAsk) -> Value {
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

fn is_slow(config: &Config, us: u64) -> bool {
    u64::try_from(config.slowlog_log_slower_than_us).is_ok_and(|from_us| us >= from_us)
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
