//! What commands ask of the server as a whole, one arm for each [`Effect`].

mod acl;
mod client;
mod introspect;
mod pieces;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use getid_core::Refusal;
pub use pieces::Pieces;

use super::{Act, Actor, Server};
use crate::acl::REDACTED;
use crate::command;
use crate::config::secrets::is_secret_directive;
use crate::metrics::info;
use crate::resp::Value;
use crate::server::registry::{Client, Stop};
use crate::session::{AclEffect, Effect, Shutdown, SlowLogAsk, WaitingEffect};
use crate::system::clock::Clock as _;
use crate::text::glob::Pattern;

/// What has become of an [`Effect`].
pub enum Performed {
    /// It is done; this is the answer.
    Reply(Value),
    /// This is the answer, to be written piece by piece.
    InPieces(Box<dyn Pieces>),
    /// It is done, there is no reply, and the connection ends.
    End,
    /// It waits, and nothing was done yet.
    Waits(WaitingEffect),
}

/// The most names of one `CONFIG GET`: each is held beside each directive, while others wait.
const CONFIG_GET_NAMES_MAX: usize = 1024;

/// The most bytes of them together.
const CONFIG_GET_BYTES_MAX: usize = 16 << 10;

/// How many of them may be patterns, each of which takes a microsecond a directive at worst.
const CONFIG_GET_PATTERNS_MAX: usize = 32;

impl Server {
    /// Does what a command asks of the server, or says that it waits: [`Server::perform_waiting`] does it then.
    pub fn perform(&self, effect: Effect, client: &Client) -> Performed {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        Performed::Reply(match effect {
            Effect::Info { sections } => Value::text(info::text(&self.facts(), &sections)),
            Effect::ClientInfo => Value::text(client.line(uptime_s) + "\n"),
            Effect::ClientList(filter) => return Performed::InPieces(Box::new(self.client_list(&filter))),
            Effect::ClientPause { timeout_ms, holds } => self.client_pause(holds, timeout_ms, client),
            Effect::ClientUnpause => self.client_unpause(client),
            Effect::ClientUnblock { id, how } => self.client_unblock(id, how),
            Effect::ConfigGet { patterns, shows_secrets } => self.config_get(&patterns, shows_secrets),
            Effect::ConfigResetStat => {
                self.audit(Act::ConfigResetStat, client);
                self.config_reset_stat()
            }
            Effect::Time => {
                let now_us = self.issuer().clock().wall_unix_us();
                let seconds = now_us.div_euclid(1_000_000).to_string();
                let micros = now_us.rem_euclid(1_000_000).to_string();
                Value::Array(vec![Value::bulk(seconds), Value::bulk(micros)])
            }
            Effect::DecodeId(id) => {
                command::describe_id(self.issuer().identity().layout, id, self.issuer().clock().wall_unix_ms())
            }
            Effect::IdReady { tells_why } => self.id_ready(tells_why),
            Effect::IdSpan(times) => {
                command::describe_span(self.issuer().identity().layout, times, self.issuer().clock().wall_unix_ms())
            }
            Effect::SlowLog(SlowLogAsk::Get { count_max }) => {
                return Performed::InPieces(self.slow_commands(count_max));
            }
            Effect::SlowLog(ask) => self.answer_slowlog(ask),
            Effect::Latency(ask) => self.answer_latency(&ask),
            Effect::Memory(ask) => self.answer_memory(ask),
            Effect::Monitor => {
                self.audit(Act::Monitor, client);
                Value::OK
            }
            Effect::Acl(AclEffect::List { shows_secrets }) => return Performed::InPieces(self.acl_list(shows_secrets)),
            Effect::Acl(AclEffect::Users) => return Performed::InPieces(self.acl_users()),
            Effect::Acl(AclEffect::Log { count }) => return Performed::InPieces(self.acl_refusals(count)),
            Effect::Acl(wish) => self.acl(wish, client),
            // Stopping closes the issuer for good, so there is no way back and nothing to abort.
            Effect::Shutdown(Shutdown { abort: true, .. }) => Value::error("ERR No shutdown in progress."),
            // As Redis refuses to lose what it could not save. A save that failed a moment ago would fail now.
            Effect::Shutdown(how) if !how.force && !how.nosave && !self.issuer().status().last_save_ok => {
                self.audit(Act::ShutdownRefused, client);
                Value::error("ERR Errors trying to SHUTDOWN. Check logs.")
            }
            Effect::Shutdown(how) => {
                self.audit(Act::Shutdown, client);
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
                let who = Actor::from(client);
                self.at_disk("CONFIG SET", move |server| server.config_set(&pairs, who)).await
            }
            WaitingEffect::ConfigRewrite => {
                let who = Actor::from(client);
                self.at_disk("CONFIG REWRITE", move |server| server.config_rewrite(who)).await
            }
            WaitingEffect::ClientKill(kill) => self.client_kill(&kill, client).await,
        }
    }

    /// Whether IDs are given. At the borrow limit they are, though not to everybody at once: who sends load elsewhere for that
    /// would take away the servers one after the other.
    fn id_ready(&self, tells_why: bool) -> Value {
        match self.issuer().refusing().filter(|refusal| !refusal.is_overload()) {
            None => Value::Simple("READY".into()),
            Some(refusal) if tells_why => Value::error(refusal.to_string()),
            Some(Refusal::Closed) => Value::error("ERR no ids are given now"),
            Some(_) => Value::error("MISCONF no ids are given now; who logs in is told why"),
        }
    }

    fn config_get(&self, names: &[Vec<u8>], shows_secrets: bool) -> Value {
        let bytes: usize = names.iter().map(Vec::len).sum();
        let is_too_much = || {
            Value::error(format!(
                "ERR CONFIG GET takes at most {CONFIG_GET_NAMES_MAX} names of {CONFIG_GET_BYTES_MAX} bytes in all, \
                 {CONFIG_GET_PATTERNS_MAX} patterns among them"
            ))
        };
        if names.len() > CONFIG_GET_NAMES_MAX || bytes > CONFIG_GET_BYTES_MAX {
            return is_too_much();
        }
        let patterns: Vec<Pattern> = match names.iter().map(|name| Pattern::new(name, true)).collect() {
            Ok(patterns) => patterns,
            Err(error) => return Value::error(format!("ERR {error}")),
        };
        if patterns.iter().filter(|pattern| !pattern.is_literal()).count() > CONFIG_GET_PATTERNS_MAX {
            return is_too_much();
        }
        let pairs = self.config.get().get(&patterns);
        let shown = |name: &str, value: String| {
            let is_hidden = !shows_secrets && !value.is_empty() && is_secret_directive(name.as_bytes());
            if is_hidden { REDACTED.to_owned() } else { value }
        };
        Value::Map(
            pairs.into_iter().map(|(name, value)| (Value::bulk(name), Value::bulk(shown(name, value)))).collect(),
        )
    }
}
