//! What commands ask of the server as a whole, one arm for each [`Effect`].

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Server;
use crate::clients::{Client, Stop};
use crate::clock::Clock;
use crate::command;
use crate::info;
use crate::resp::Value;
use crate::session::{Effect, Shutdown};

/// The most patterns of one `CONFIG GET`: each is held beside each directive, while others wait.
const CONFIG_GET_PATTERNS_MAX: usize = 1024;

/// The most bytes of them together.
const CONFIG_GET_BYTES_MAX: usize = 16 << 10;

impl<C: Clock> Server<C> {
    /// Does what a command asks of the server; `None`: no reply, and the connection ends.
    pub fn perform(&self, effect: Effect, client: &Client) -> Option<Value> {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        Some(match effect {
            Effect::Info { sections } => Value::text(info::text(self, &sections)),
            Effect::ClientInfo => Value::text(client.line(uptime_s) + "\n"),
            Effect::ClientList(filter) => Value::text(self.client_list(&filter)),
            Effect::ClientPause { timeout_ms, holds } => self.client_pause(holds, timeout_ms, client),
            Effect::ClientUnpause => self.client_unpause(client),
            Effect::ClientUnblock { id, how } => self.client_unblock(id, how),
            Effect::ConfigGet { patterns } => self.config_get(&patterns),
            Effect::ClientKill(_) | Effect::ConfigSet { .. } | Effect::ConfigRewrite => unreachable!("they wait"),
            Effect::ConfigResetStat => self.config_reset_stat(),
            Effect::Time => {
                let now_us = self.issuer.clock().wall_unix_us();
                let seconds = now_us.div_euclid(1_000_000).to_string();
                let micros = now_us.rem_euclid(1_000_000).to_string();
                Value::Array(vec![Value::bulk(seconds), Value::bulk(micros)])
            }
            Effect::DecodeId(id) => {
                command::describe_id(self.issuer.identity().layout, id, self.issuer.clock().wall_unix_ms())
            }
            Effect::SlowLog(ask) => self.answer_slowlog(ask),
            Effect::Latency(ask) => self.answer_latency(&ask),
            Effect::Memory(ask) => self.answer_memory(ask),
            Effect::Monitor => Value::OK,
            Effect::Acl(wish) => self.acl(wish, client),
            // Stopping closes the issuer for good, so there is no way back and nothing to abort.
            Effect::Shutdown(Shutdown { abort: true, .. }) => Value::error("ERR No shutdown in progress."),
            // As Redis refuses to lose what it could not save. A save that failed a moment ago would fail now.
            Effect::Shutdown(how) if !how.force && !how.nosave && !self.issuer.status().last_save_ok => {
                tracing::error!("SHUTDOWN refused: the state cannot be saved. SHUTDOWN FORCE stops all the same");
                Value::error("ERR Errors trying to SHUTDOWN. Check logs.")
            }
            Effect::Shutdown(how) => {
                tracing::warn!("client {} at {} asked for SHUTDOWN", client.id, client.peer);
                if how.now {
                    self.clients.stop_all(Stop::Now);
                }
                self.request_stop();
                return None;
            }
        })
    }

    /// The same for what waits, for the disk or for other connections, if it is such a thing.
    pub async fn perform_waiting(self: &Arc<Self>, effect: Effect, client: &Client) -> Option<Value> {
        match effect {
            Effect::Acl(wish) => Some(self.acl_at_disk(wish, client).await),
            Effect::ConfigSet { pairs } => {
                let who = format!("{} at {}", client.id, client.peer);
                Some(self.at_disk(move |server| server.config_set(&pairs, &who)).await)
            }
            Effect::ConfigRewrite => Some(self.at_disk(Server::config_rewrite).await),
            Effect::ClientKill(kill) => Some(self.client_kill(&kill, client).await),
            effect => self.perform(effect, client),
        }
    }

    fn config_get(&self, patterns: &[Vec<u8>]) -> Value {
        let bytes: usize = patterns.iter().map(Vec::len).sum();
        if patterns.len() > CONFIG_GET_PATTERNS_MAX || bytes > CONFIG_GET_BYTES_MAX {
            return Value::error(format!(
                "ERR CONFIG GET takes at most {CONFIG_GET_PATTERNS_MAX} patterns of {CONFIG_GET_BYTES_MAX} bytes in all"
            ));
        }
        let pairs = self.config.get().get(patterns);
        Value::Map(pairs.into_iter().map(|(name, value)| (Value::bulk(name), Value::bulk(value))).collect())
    }
}
