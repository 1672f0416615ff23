//! Records of slow work: commands in the slow log, and commands, waits and saves as events for `LATENCY`.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::Server;
use crate::registry::Client;
use getid_config::Config;
use getid_config::secrets::may_be_secret_directive;
use getid_redis::command::CommandFlags;
use getid_redis::session::{ReplyForm, ReplyPiece, Session, SlowCommand, Timing, Turn};
use getid_redis::stats::{LatencyEvents, SlowLog, SlowLogEntry};
use getid_system::clock::{self, Clock as _};

/// Event of a client that waited for IDs: at the borrow limit, for the watermark, or behind other waiting clients.
pub(super) const DRAW_WAIT: &str = "draw-wait";
/// Event of a save of the watermark, successful or not.
pub(super) const WATERMARK_SAVE: &str = "watermark-save";

/// Returns how sessions time commands under this configuration, and which of them they note.
pub(super) fn timing(config: &Config) -> Timing {
    let slow_ns = u64::try_from(config.slowlog_log_slower_than_us).map_or(u64::MAX, |us| us.saturating_mul(1000));
    let event_ns = match config.latency_monitor_threshold_ms {
        0 => u64::MAX,
        ms => ms.saturating_mul(1_000_000),
    };
    Timing { now_ns: clock::stopwatch_ns, slow_ns: slow_ns.min(event_ns), is_secret: may_be_secret_directive }
}

impl Server {
    /// Records a command that was slow by the session's [`Timing`], with the name of its client.
    pub fn note(&self, client: &Client, name: &Arc<str>, noted: SlowCommand) {
        let config = self.config.get();
        let event = if noted.command.flags.has(CommandFlags::FAST) { "fast-command" } else { "command" };
        self.note_event(event, noted.ns / 1_000_000);
        let us = noted.ns / 1000;
        if is_slow(&config, us) && !noted.command.flags.has(CommandFlags::SKIP_SLOWLOG) {
            self.push_slow(client, name, us, noted.args, config.slowlog_max_len);
        }
    }

    /// Records the ID commands of a turn, each of which had a share of `share_ns` in the draw.
    pub(crate) fn note_ids(&self, client: &Client, session: &Session, turn: &Turn, share_ns: u64) {
        let config = self.config.get();
        self.note_event("fast-command", share_ns / 1_000_000);
        let us = share_ns / 1000;
        if !is_slow(&config, us) {
            return;
        }
        let name = &session.view().names.name;
        let push = |args| self.push_slow(client, name, us, args, config.slowlog_max_len);
        for reply in turn.replies() {
            match *reply {
                ReplyPiece::Integers { count } => (0..count).for_each(|_| push(vec![b"GETID".to_vec()])),
                ReplyPiece::Bulks { count } => push(vec![b"MGETID".to_vec(), count.to_string().into_bytes()]),
                ReplyPiece::Named { at } => {
                    let Some((reply, words)) = session.named_reply(turn, at) else { continue };
                    let after = |first: &[Vec<u8>]| [first, &words].concat();
                    let count = || reply.count.to_string().into_bytes();
                    match reply.form {
                        ReplyForm::Each => (0..reply.count).for_each(|_| push(after(&[b"GETID".to_vec()]))),
                        ReplyForm::Array => push(after(&[b"MGETID".to_vec(), count()])),
                        ReplyForm::Suppressed => {}
                    }
                }
                ReplyPiece::Sequence { at } => {
                    let Some(reply) = turn.sequence_replies().get(at) else { continue };
                    let words = Session::sequence_request(turn, reply);
                    (0..reply.ask.times).for_each(|_| push(words.clone()));
                }
                ReplyPiece::Suppressed { .. } | ReplyPiece::SuppressedSequences { .. } | ReplyPiece::Encoded { .. } => {
                }
            }
        }
    }

    fn push_slow(&self, client: &Client, name: &Arc<str>, us: u64, args: Vec<Vec<u8>>, len_max: u64) {
        let unix_s = self.now_unix_s();
        let entry = SlowLogEntry { id: 0, unix_s, us, args, peer: client.peer.to_string(), name: Arc::clone(name) };
        self.slow_log().push(entry, len_max);
    }

    pub(super) fn slow_log(&self) -> MutexGuard<'_, SlowLog> {
        self.slow_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event of `ms` milliseconds, if that reaches `latency-monitor-threshold`.
    pub(crate) fn note_event(&self, name: &'static str, ms: u64) {
        let from_ms = self.config.get().latency_monitor_threshold_ms;
        if from_ms > 0 && ms >= from_ms {
            self.events().add(name, self.now_unix_s(), ms);
        }
    }

    /// Records a client's wait for its IDs.
    pub(crate) fn note_draw_wait(&self, ns: u64) {
        self.note_event(DRAW_WAIT, ns / 1_000_000);
    }

    pub(super) fn now_unix_s(&self) -> i64 {
        self.issuer().clock().wall_unix_us().div_euclid(1_000_000)
    }

    pub(super) fn events(&self) -> MutexGuard<'_, LatencyEvents> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_slow(config: &Config, us: u64) -> bool {
    u64::try_from(config.slowlog_log_slower_than_us).is_ok_and(|from_us| us >= from_us)
}
