//! What commands ask of the server as a whole, one arm for each [`Effect`].

use std::sync::atomic::Ordering::Relaxed;

use super::Server;
use crate::clients::{Client, Stop};
use crate::clock::Clock;
use crate::command;
use crate::info;
use crate::resp::Value;
use crate::session::{Effect, Shutdown};

impl<C: Clock> Server<C> {
    /// Does what a command asks of the server; `None`: no reply, and the connection ends.
    pub fn perform(&self, effect: Effect, client: &Client) -> Option<Value> {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        Some(match effect {
            Effect::Info { sections } => Value::text(info::text(self, &sections)),
            Effect::ClientInfo => Value::text(client.line(uptime_s) + "\n"),
            Effect::ClientList(filter) => Value::text(self.client_list(&filter)),
            Effect::ClientKill(kill) => self.client_kill(&kill, client),
            Effect::ConfigGet { patterns } => self.config_get(&patterns),
            Effect::Time => {
                let now_us = self.issuer.clock().wall_unix_us();
                let seconds = now_us.div_euclid(1_000_000).to_string();
                let micros = now_us.rem_euclid(1_000_000).to_string();
                Value::Array(vec![Value::bulk(seconds), Value::bulk(micros)])
            }
            Effect::DecodeId(id) => {
                command::describe_id(self.issuer.identity().layout, id, self.issuer.clock().wall_unix_ms())
            }
            // Stopping closes the issuer for good, so there is no way back and nothing to abort.
            Effect::Shutdown(Shutdown { abort: true, .. }) => Value::error("ERR No shutdown in progress."),
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

    fn config_get(&self, patterns: &[Vec<u8>]) -> Value {
        let config = self.config.get();
        let mut pairs: Vec<(&'static str, String)> = Vec::new();
        for pattern in patterns {
            for (name, value) in config.get(pattern) {
                if !pairs.iter().any(|(other, _)| *other == name) {
                    pairs.push((name, value));
                }
            }
        }
        Value::Map(pairs.into_iter().map(|(name, value)| (Value::bulk(name), Value::bulk(value))).collect())
    }
}
