//! What commands ask of the server as a whole, one arm for each [`Effect`].

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Server;
use crate::clients::{Client, Stop};
use crate::clock::Clock;
use crate::command;
use crate::info;
use crate::resp::Value;
use crate::session::{Effect, Shutdown, WaitingEffect};

/// What has become of an [`Effect`].
pub enum Performed {
    /// It is done; this is the answer.
    Reply(Value),
    /// It is done, there is no reply, and the connection ends.
    End,
    /// It waits, and nothing was done yet.
    Waits(WaitingEffect),
}

/// The most patterns of one `CONFIG GET`: each is held beside each directive, while others wait.
const CONFIG_GET_PATTERNS_MAX: usize = 1024;

/// The most bytes of them together.
const CONFIG_GET_BYTES_MAX: usize = 16 << 10;

impl<C: Clock> Server<C> {
    /// Does what a command asks of the server, or says that it waits: [`Server::perform_waiting`] does it then.
    pub fn perform(&self, effect: Effect, client: &Client) -> Performed {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        Performed::Reply(match effect {
            Effect::Info { sections } => Value::text(info::text(self, &sections)),
            Effect::ClientInfo => Value::text(client.line(uptime_s) + "\n"),
            Effect::ClientList(filter) => Value::text(self.client_list(&filter)),
            Effect::ClientPause { timeout_ms, holds } => self.client_pause(holds, timeout_ms, client),
            Effect::ClientUnpause => self.client_unpause(client),
            Effect::ClientUnblock { id, how } => self.client_unblock(id, how),
            Effect::ConfigGet { patterns } => self.config_get(&patterns),
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
                return Performed::End;
            }
            Effect::Waits(effect) => return Performed::Waits(effect),
        })
    }

    /// The same for what waits, for the disk or for other connections.
    pub async fn perform_waiting(self: &Arc<Self>, effect: WaitingEffect, client: &Client) -> Value {
        match effect {
            WaitingEffect::Acl(wish) => self.acl_at_disk(wish, client).await,
            WaitingEffect::ConfigSet { pairs } => {
                let who = format!("{} at {}", client.id, client.peer);
                self.at_disk(move |server| server.config_set(&pairs, &who)).await
            }
            WaitingEffect::ConfigRewrite => self.at_disk(Server::config_rewrite).await,
            WaitingEffect::ClientKill(kill) => self.client_kill(&kill, client).await,
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
