//! Steps after a turn's replies: counting, running its effect, and publishing logins and denials. For most turns only
//! the counting is needed.

use std::future::{Future, poll_fn};
use std::io::{self, Write as _};
use std::pin::pin;
use std::task::Poll;

use super::buffers::{Buffers, FLUSH_BYTES};
use super::pace::{self, SLICE_NS};
use super::state::ClientConnection;
use super::wait::Wait;
use crate::effects::{EffectReply, ReplyChunks};
use crate::metrics::MeasuredDraw;
use crate::monitor::MONITORS_MAX;
use crate::registry::StopMode;
use crate::transport::Transport;
use getid_redis::acl::{DenialReason, Proof};
use getid_redis::command::Verb;
use getid_redis::resp::{ErrorKind, ErrorReply, Value};
use getid_redis::session::{
    Calls, Effect, ErrorCode, IntrospectEffect, NamedDrawResults, ReplyForm, ReplyPiece, SequenceDrawResults, Turn,
};
use getid_redis::stats::bucket_of;
use getid_system::clock::{self, Clock as _};

/// Size up to which lines for monitors are gathered before they are passed on, bytes.
const FED_BYTES: usize = 16 * 1024;

/// Size of the buffers of a client that waits for an effect up to which they are not counted, bytes: its turn's own
/// memory.
const QUIET_BYTES: usize = 4096;

impl<T: Transport> ClientConnection<T> {
    /// Counts a turn, except its effect.
    #[inline]
    pub(super) fn count(&self, turn: &mut Turn, draw: Option<MeasuredDraw>) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        own.add(turn.tally.calls());
        if let Some(draw) = draw {
            self.count_draw(turn, draw);
        }
        if turn.tally.has_more() {
            self.count_more(turn);
        }
    }

    #[cold]
    fn count_draw(&self, turn: &Turn, draw: MeasuredDraw) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        let share_ns = own.attribute_time(turn.tally.calls(), draw);
        if draw.waited {
            self.server.note_draw_wait(draw.ns);
        }
        if share_ns >= self.session.settings().timing.slow_ns {
            self.server.note_ids(&self.admission.client, &self.session, turn, share_ns);
        }
    }

    /// Counts ID commands of a turn that got an error instead of IDs.
    #[cold]
    pub(super) fn count_refused(&self, turn: &mut Turn, error: &ErrorReply) {
        turn.error = Some(error.kind);
        let Some(own) = self.server.metrics.own_commands() else { return };
        let (mut getids, mut mgetids) = (0, 0);
        for reply in turn.replies() {
            match *reply {
                ReplyPiece::Integers { count } => getids += count,
                ReplyPiece::Bulks { .. } => mgetids += 1,
                // Replies of named generators and sequences have refusals of their own.
                _ => {}
            }
        }
        let code = ErrorCode::of(&error.text);
        own.refuse(Verb::GetId, getids, code);
        own.refuse(Verb::MGetId, mgetids, code);
    }

    /// Counts commands that got an error instead of values of sequences.
    #[cold]
    pub(super) fn count_refused_values(&self, turn: &mut Turn, sequences: &SequenceDrawResults) {
        let own = self.server.metrics.own_commands();
        for failed in sequences.parts().iter().flat_map(|part| &part.failed) {
            turn.error = Some(failed.kind);
            if let Some(own) = own {
                own.refuse(failed.verb, failed.calls, failed.code);
            }
        }
    }

    /// Counts commands that got an error instead of IDs of named generators, or for a number that is too wide.
    #[cold]
    pub(super) fn count_named_refused(&self, turn: &mut Turn, named: &NamedDrawResults) {
        let is_too_wide = named.parts().iter().any(|part| part.too_wide != [0; 2]);
        let refused = named.parts().iter().rev().find_map(|part| part.refused.as_ref());
        let kind = refused.map(|error| error.kind).or(is_too_wide.then_some(ErrorKind::Conflict));
        turn.error = kind.or(turn.error);
        let Some(own) = self.server.metrics.own_commands() else { return };
        for [getids, mgetids] in named.parts().iter().map(|part| part.too_wide).filter(|errors| *errors != [0; 2]) {
            own.refuse(Verb::GetId, getids, ErrorCode::of(b"ERR "));
            own.refuse(Verb::MGetId, mgetids, ErrorCode::of(b"ERR "));
        }
        let replies = turn.replies().iter().filter_map(|reply| match *reply {
            ReplyPiece::Named { at } => turn.named_reply(at),
            _ => None,
        });
        for reply in replies {
            let refused = named.parts().get(reply.draw).and_then(|part| part.refused.as_ref());
            if let Some(error) = refused {
                let code = ErrorCode::of(&error.text);
                match reply.form {
                    ReplyForm::Each => own.refuse(Verb::GetId, reply.count, code),
                    ReplyForm::Array => own.refuse(Verb::MGetId, 1, code),
                    ReplyForm::Suppressed => {}
                }
            }
        }
    }

    /// Counts errors and slow commands, and feeds monitors.
    #[cold]
    fn count_more(&self, turn: &mut Turn) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        for &(code, count) in turn.tally.errors() {
            own.add_error(code, count);
        }
        for noted in turn.tally.take_slow_commands() {
            self.server.note(&self.admission.client, &self.session.view().names.name, noted);
        }
        let mut shown = turn.tally.shown().peekable();
        if shown.peek().is_some() {
            let now_us = self.server.issuer().clock().wall_unix_us();
            let (unix_s, us) = (now_us.div_euclid(1_000_000), now_us.rem_euclid(1_000_000));
            let mut lines = Vec::new();
            for (database, args) in shown {
                if lines.len() >= FED_BYTES {
                    self.server.feed_monitors(&lines);
                    lines.clear();
                }
                let peer = self.admission.client.peer.for_monitors();
                // A write to a Vec cannot fail.
                let _ = write!(lines, "+{unix_s}.{us:06} [{database} {peer}] ");
                lines.extend_from_slice(args);
                lines.extend_from_slice(b"\r\n");
            }
            self.server.feed_monitors(&lines);
        }
    }

    /// Returns true if there is more to do after a turn than to count it.
    #[inline]
    pub(super) fn has_after_turn_work(&self, turn: &Turn) -> bool {
        turn.has_rare_work
            || turn.effect.is_some()
            || turn.broken.is_some()
            || self.pushes.as_ref().is_some_and(|pushes| pushes.monitor.is_some())
    }

    /// Does all steps after a turn except the counting. An error ends the connection.
    pub(super) async fn finish_turn(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        if buffers.turn.has_rare_work {
            self.do_rare_work(&mut buffers.turn).await?;
        }
        if let Some(effect) = buffers.turn.effect.take() {
            buffers.busy_since_ns.get_or_insert_with(clock::stopwatch_ns);
            // Redis counts the requesting command too.
            self.admission.client.note_input(buffers.input.len());
            self.perform(effect, buffers).await?;
        }
        let turn = &buffers.turn;
        if let Some(breach) = turn.broken {
            self.server.note_breach(breach, &self.admission.client);
        }
        if let Some(pushes) = &mut self.pushes
            && (turn.close || !self.session.view().monitors)
        {
            pushes.monitor = None;
        }
        Ok(())
    }

    /// Performs a turn's effect, and appends the answer to its replies.
    async fn perform(&mut self, effect: Effect, buffers: &mut Buffers) -> io::Result<()> {
        self.publish();
        let began_ns = clock::stopwatch_ns();
        let is_refused = effect == Effect::Introspect(IntrospectEffect::Monitor) && !self.monitor();
        let answer = if is_refused {
            EffectReply::Value(Value::error(format!(
                "ERR {MONITORS_MAX} clients run MONITOR, which is the maximum; CLIENT LIST shows them with the flag O"
            )))
        } else {
            let mut performed = pin!(self.server.perform(effect, &self.admission.client));
            match poll_fn(|cx| Poll::Ready(performed.as_mut().poll(cx))).await {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    // Hundreds may wait for a disk or a store. A client without further input holds no buffer.
                    buffers.park();
                    let bytes = buffers.memory_bytes();
                    self.note_held(if bytes > QUIET_BYTES { bytes } else { 0 });
                    performed.await
                }
            }
        };
        let turn = &mut buffers.turn;
        match answer {
            EffectReply::Value(value) => {
                if let Value::Error(error) = &value {
                    turn.error = Some(error.kind);
                }
                self.count_effect(turn, Some(&value), clock::since_ns(began_ns));
                self.session.reply(&value, &mut buffers.output);
            }
            EffectReply::Chunks(chunks) => {
                let spent_ns = self.reply_in_chunks(chunks, buffers).await?;
                self.count_effect(&mut buffers.turn, None, spent_ns);
            }
            EffectReply::Close => {
                self.count_effect(turn, None, clock::since_ns(began_ns));
                turn.close = true;
            }
        }
        // It may have killed itself: later requests in the input are not answered.
        buffers.turn.close |= self.admission.client.stopping() == StopMode::AfterReply;
        Ok(())
    }

    /// Starts monitoring. Returns false if too many clients do.
    fn monitor(&mut self) -> bool {
        let monitor = self.server.monitors.add(&self.admission.client);
        let has_place = monitor.is_some();
        if has_place {
            self.pushes.get_or_insert_default().monitor = monitor;
        } else {
            self.session.stop_monitoring();
        }
        has_place
    }

    /// Writes a possibly large answer while it is made, so that only a few pieces of it are in memory, and other
    /// clients are served in between. Returns the time it took to make, in ns.
    async fn reply_in_chunks(&mut self, mut chunks: Box<dyn ReplyChunks>, buffers: &mut Buffers) -> io::Result<u64> {
        let Some(protocol) = self.session.answers_in() else { return Ok(0) };
        let mut busy_since_ns = Some(clock::stopwatch_ns());
        let mut spent_ns = 0;
        loop {
            let began_ns = clock::stopwatch_ns();
            let has_more = chunks.write_next(protocol, &mut buffers.output);
            spent_ns += clock::since_ns(began_ns);
            if !has_more {
                buffers.answer_bytes = 0;
                return Ok(spent_ns);
            }
            if buffers.output.len() >= FLUSH_BYTES {
                buffers.answer_bytes = chunks.memory_bytes();
                self.flush(buffers).await?;
            }
            pace::yield_if_over(&mut busy_since_ns, SLICE_NS).await;
            self.check_cut_off()?;
        }
    }

    /// Counts the command whose effect the server has carried out.
    fn count_effect(&self, turn: &mut Turn, value: Option<&Value>, performed_ns: u64) {
        let (Some(own), Some(mut asker)) = (self.server.metrics.own_commands(), turn.tally.take_effect_command())
        else {
            return;
        };
        asker.ns += performed_ns;
        let mut failed = 0;
        if let Some(Value::Error(error)) = value {
            own.add_error(ErrorCode::of(&error.text), 1);
            failed = 1;
        }
        let (verb, ns) = (asker.command.verb, asker.ns);
        own.add(&[Calls { verb, calls: 1, failed, rejected: 0, ns, bucket: bucket_of(ns) }]);
        if ns >= self.session.settings().timing.slow_ns {
            self.server.note(&self.admission.client, &self.session.view().names.name, asker);
        }
    }

    /// Logs in as the user that the client proved in its handshake, if there is one of that name. Returns false if the
    /// connection must end.
    pub(super) fn log_in_by_certificate(&mut self) -> bool {
        self.io.take_user().is_none_or(|name| self.log_in_by_name(&name))
    }

    /// Logs in as the user of this name, which the client has proved. Returns false if the connection must end.
    pub(super) fn log_in_by_name(&mut self, name: &str) -> bool {
        self.follow_settings();
        !self.session.log_in_as(name) || self.announce(Some(&Proof::Name))
    }

    /// Publishes the client's user before the client has its answer, and before a request after its login is read: from
    /// then on, a search for clients by user, to delete or kill, must find it. Returns false if its user is gone, or no
    /// longer accepts the login.
    fn announce(&mut self, login: Option<&Proof>) -> bool {
        self.publish();
        if matches!(login, Some(Proof::Password(_) | Proof::Name)) {
            self.server.log_login(&self.session.view().user, &self.admission.client);
        }
        self.confirm(login)
    }

    /// Returns true if the published user exists and accepts this login. A client that replaces a password, or deletes
    /// the user, and then searches connections to end finds this one; or this call finds that the login is invalid.
    pub(super) fn confirm(&mut self, login: Option<&Proof>) -> bool {
        self.follow_settings();
        if let Some(proof) = login {
            self.session.confirm_login(proof);
        }
        !self.session.has_lost_user()
    }

    /// Handles refusals and logins. The answer to a wrong login is delayed: an error ends the connection meanwhile.
    async fn do_rare_work(&mut self, turn: &mut Turn) -> io::Result<()> {
        let wrong = turn.denials.iter().filter(|denial| denial.reason == DenialReason::Auth);
        let failures: u64 = wrong.map(|denial| denial.count).sum();
        let left = self.session.unused_permits();
        let kept = if self.session.is_in_exec() { left } else { 0 };
        let permits = std::mem::replace(&mut self.login_permits, kept);
        // Wrong logins have used up their permits.
        let right = permits.saturating_sub(left).saturating_sub(u32::try_from(failures).unwrap_or(u32::MAX));
        let released = right + left - kept;
        if released > 0 {
            self.server.release_logins(self.admission.client.peer.source(), released);
        }
        turn.close |= !self.announce(turn.login.as_ref());
        if !turn.denials.is_empty() {
            self.server.note_denials(std::mem::take(&mut turn.denials), &self.admission.client);
        }
        if turn.has_subscribed {
            let pushes = self.pushes.get_or_insert_default();
            pushes.subscription.get_or_insert_with(|| {
                let subscription = self.server.master_events.subscribe();
                // The claims of other server-ids are read for subscribers only.
                self.server.claim_changed.notify_one();
                subscription
            });
        }
        if failures == 0 {
            return Ok(());
        }
        let before = u64::from(self.wrong_logins);
        self.wrong_logins = self.wrong_logins.saturating_add(u32::try_from(failures).unwrap_or(u32::MAX));
        let delay = self.server.record_wrong_logins(failures, before, &self.admission.client);
        self.wait(tokio::time::sleep(delay)).await
    }

    /// Waits until the first remaining request may be read: `CLIENT PAUSE` holds it, or it tries passwords. An error
    /// ends the connection.
    pub(super) async fn hold(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        self.publish();
        self.touch(buffers);
        self.flush(buffers).await?;
        self.park(buffers);
        match buffers.turn.logins_held {
            0 => {
                let _held = self.admission.client.hold_guard();
                self.wait(self.server.pauses.over()).await
            }
            logins => self.wait_for_permits(logins).await,
        }
    }

    /// Waits until the client may try so many passwords.
    async fn wait_for_permits(&mut self, logins: u32) -> io::Result<()> {
        let source = self.admission.client.peer.source();
        let delay = self.server.acquire_logins(source, logins);
        if !delay.is_zero()
            && let Err(gone) = self.wait(tokio::time::sleep(delay)).await
        {
            self.server.release_logins(source, logins);
            return Err(gone);
        }
        self.login_permits = logins;
        self.session.permit_logins(logins);
        Ok(())
    }

    /// Waits for an event that the client cannot end. An error ends the connection: the server stops, and a held
    /// request must not continue then, or the client is gone.
    async fn wait(&self, over: impl Future<Output = ()>) -> io::Result<()> {
        Wait::unless_stopped(&self.admission.client).until_or_gone(&self.io, over, false).await?;
        self.note_active();
        Ok(())
    }
}
