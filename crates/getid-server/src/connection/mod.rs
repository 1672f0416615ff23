//! A client's socket: bytes in, turns, bytes out.
//!
//! Each turn has one read, one draw and one write; the meaning of the bytes is left to the
//! [`Session`](getid_redis::session::Session), which is pure. A reply that the client does not read stops the reading:
//! a client that sends and never reads costs one turn's input and output, and no more IDs.
//!
//! Invariant: before every read, all complete requests that arrived are answered.
//!
//! A turn without a wait is plain calls, by `answer_now`. `finish` does a step that has to wait, and `answer_now`
//! continues after it. The client's task is in `task`.

mod after_turn;
mod buffers;
mod draw;
mod draw_wait;
#[cfg(feature = "http")]
mod local;
mod pace;
mod pushes;
mod sequences;
mod state;
mod task;
pub(super) mod wait;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt};

pub use buffers::KEPT_POOL_BYTES_MAX;
use buffers::{Buffers, FLUSH_BYTES, READ_BYTES};
use draw::{Draw, DrawOutcome, PartialDraw};
#[cfg(feature = "http")]
pub use local::{LocalClient, LocalReply};
use pace::{SHORT_TURN_NS, SLICE_NS, is_over};
pub use state::ClientConnection;
#[cfg(test)]
use task::Task;

use crate::master_events::MissedMessages;
use crate::registry::StopMode;
use crate::transport::Transport;
use getid_redis::resp::ErrorReply;
use getid_redis::session::ExtraDraws;
use getid_system::{clock, noise};

/// Size up to which replies to a client that must log in and has not are gathered before they are written, bytes: it is
/// not worth a large buffer.
const UNAUTHENTICATED_FLUSH_BYTES: usize = 2 * 1024;

/// Size of input without a wait after which a client lets others go first before its next read, bytes. Its cost is not
/// always known: commands that give IDs or are refused are not timed, nor are many small ones.
const UNBROKEN_BYTES: usize = READ_BYTES;

/// The steps of a turn at which answering may resume, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TurnStep {
    /// Reads requests into a turn, and writes its replies.
    Read,
    /// Performs the turn's effect and other work after the replies.
    AfterTurn,
    Flush,
    Yield,
    /// Checks whether there is a next turn.
    Next,
}

/// A step of a turn that has to wait.
#[derive(Debug)]
enum BlockedStep {
    Draw(PartialDraw),
    AfterTurn,
    Flush,
    Yield,
    Hold,
}

/// Progress of answering an input.
#[derive(Debug)]
enum InputProgress {
    /// Answered to its end. The client may have had its thread for so long that it must yield to others.
    Done { is_yield_due: bool },
    /// Answered to its end, and the connection ends.
    DoneAndClose,
    /// Answered up to a turn that has to wait.
    Blocked(BlockedStep),
}

impl<T: Transport> ClientConnection<T> {
    /// Reads once, after the rest of the earlier input. Returns true if there is input to answer, or output
    /// without a request to send. Returns false at the end of the stream, or when the connection must stop. A
    /// connection that drains reads once more: requests that have arrived by then are answered, up to one buffer.
    #[inline]
    fn read(&mut self, buffers: &mut Buffers, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let ClientConnection { server, admission, io, rest, pushes, session, unbroken_bytes, put_off_for, .. } = self;
        let stop = admission.client.stopping_or_wake(cx.waker());
        if stop > StopMode::Drain {
            return Poll::Ready(Ok(false));
        }
        if server.clients.is_read_delayed(put_off_for) {
            // Behind all tasks that are ready, and so behind the clients that are to go.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if session.is_authenticated() {
            buffers.resume(rest);
        } else {
            buffers.resume_unauthenticated(rest.as_deref());
        }
        if stop == StopMode::Drain {
            admission.client.stop(StopMode::Drained);
        }
        // Requests first: lines of monitors may come as fast as they are written, and a request may be RESET.
        match poll_read(Pin::new(io), cx, &mut buffers.input) {
            Poll::Ready(Ok(n)) if n > 0 => {
                buffers.work.reads += 1;
                buffers.work.input_bytes += n as u64;
                *unbroken_bytes = unbroken_bytes.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
                *rest = None;
                Poll::Ready(Ok(true))
            }
            end_or_pending => {
                if let (Poll::Pending, Some(pushes)) = (&end_or_pending, pushes) {
                    match pushes.take(session, &mut buffers.output) {
                        Ok(false) => {}
                        Ok(true) => {
                            // Other clients go first, before the next part.
                            *unbroken_bytes = u32::MAX;
                            *rest = None;
                            return Poll::Ready(Ok(true));
                        }
                        Err(MissedMessages) => {
                            server.note_missed(&admission.client);
                            return Poll::Ready(Ok(false));
                        }
                    }
                }
                *unbroken_bytes = 0;
                buffers.suspend(rest);
                if stop == StopMode::Drain { Poll::Ready(Ok(false)) } else { end_or_pending.map_ok(|_| false) }
            }
        }
    }

    /// Answers every complete request of the input, in as many turns as needed, as far as nothing has to wait. Begins
    /// at `from`.
    #[expect(clippy::inline_always, reason = "the task's copy begins at the first step: its tests of `from` go away")]
    #[inline(always)]
    fn answer_now(
        &mut self,
        mut from: TurnStep,
        buffers: &mut Buffers,
        cx: &mut Context<'_>,
    ) -> io::Result<InputProgress> {
        loop {
            if from <= TurnStep::Read {
                self.read_turn(buffers);
                let draw =
                    self.draw_now(buffers).or_else(|unfinished| self.draw_named_and_sequences_now(unfinished, buffers));
                match draw {
                    Ok(draw) => self.write_turn(&draw, buffers),
                    Err(unfinished) => return Ok(InputProgress::Blocked(BlockedStep::Draw(unfinished))),
                }
            }
            if from <= TurnStep::AfterTurn && self.has_after_turn_work(&buffers.turn) {
                return Ok(InputProgress::Blocked(BlockedStep::AfterTurn));
            }
            let is_last = buffers.turn.close || !buffers.turn.more;
            if from <= TurnStep::Flush && (is_last || self.is_flush_due(buffers)) {
                self.touch(buffers);
                if self.flush_now(buffers, cx)?.is_pending() {
                    return Ok(InputProgress::Blocked(BlockedStep::Flush));
                }
            }
            let is_yield_due = from <= TurnStep::Yield && self.is_yield_due(is_last, buffers);
            if is_last {
                self.suspend(buffers);
                return Ok(if buffers.turn.close {
                    InputProgress::DoneAndClose
                } else {
                    InputProgress::Done { is_yield_due }
                });
            }
            if is_yield_due {
                return Ok(InputProgress::Blocked(BlockedStep::Yield));
            }
            self.check_cut_off()?;
            if buffers.turn.held {
                return Ok(InputProgress::Blocked(BlockedStep::Hold));
            }
            from = TurnStep::Read;
        }
    }

    /// Answers every complete request of the input, with all waits. Returns false if the connection must end.
    async fn answer(&mut self, mut from: TurnStep, buffers: &mut Buffers) -> io::Result<bool> {
        loop {
            match poll_fn(|cx| Poll::Ready(self.answer_now(from, buffers, cx))).await? {
                InputProgress::Done { is_yield_due } => {
                    if is_yield_due {
                        tokio::task::yield_now().await;
                    }
                    return Ok(true);
                }
                InputProgress::DoneAndClose => return Ok(false),
                InputProgress::Blocked(later) => from = self.finish(later, buffers).await?,
            }
        }
    }

    /// Waits for a step of a turn, and answers the rest. Returns false if the connection must end.
    async fn answer_later(&mut self, later: BlockedStep, buffers: &mut Buffers) -> io::Result<bool> {
        let from = self.finish(later, buffers).await?;
        self.answer(from, buffers).await
    }

    /// Takes the step for which a turn has to wait. Returns the next step. Large futures are boxed: thousands may wait
    /// for their sockets, and would each have room for the largest wait.
    async fn finish(&mut self, later: BlockedStep, buffers: &mut Buffers) -> io::Result<TurnStep> {
        match later {
            BlockedStep::Draw(unfinished) => {
                let draw = Box::pin(self.draw_later(unfinished, buffers)).await?;
                self.write_turn(&draw, buffers);
                Ok(TurnStep::AfterTurn)
            }
            BlockedStep::AfterTurn => {
                Box::pin(self.finish_turn(buffers)).await?;
                Ok(TurnStep::Flush)
            }
            BlockedStep::Flush => {
                self.flush_slowly(buffers).await?;
                Ok(TurnStep::Yield)
            }
            BlockedStep::Yield => {
                // Hundreds may be here with a pipeline in which each step takes long.
                self.note_held(buffers.memory_bytes());
                tokio::task::yield_now().await;
                buffers.busy_since_ns = Some(clock::stopwatch_ns());
                Ok(TurnStep::Next)
            }
            BlockedStep::Hold => {
                Box::pin(self.hold(buffers)).await?;
                Ok(TurnStep::Read)
            }
        }
    }

    /// Reads the next turn: requests become replies, and IDs to draw for them.
    #[inline]
    fn read_turn(&mut self, buffers: &mut Buffers) {
        self.follow_settings();
        let Buffers { input, used, turn, work, .. } = buffers;
        turn.tally.watch(self.server.monitors.any());
        *used += self.session.read(&input[*used..], turn);
        work.requests += u64::from(turn.commands);
    }

    /// Writes the turn's replies into the output, and counts them.
    #[expect(clippy::inline_always, reason = "nearly all turns are written in one of its two places")]
    #[inline(always)]
    fn write_turn(&self, draw: &Draw, buffers: &mut Buffers) {
        buffers.is_refused = draw.is_refused(&buffers.named, &buffers.sequences);
        let Buffers { output, turn, drawn, named, sequences, .. } = buffers;
        match &draw.outcome {
            DrawOutcome::Drawn => self.session.write(turn, Ok(drawn), output),
            DrawOutcome::Refused(refusal) => {
                let error = refusal.into();
                self.session.write(turn, Err(&error), output);
                self.count_refused(turn, &error);
            }
            DrawOutcome::WithExtra(refusal) => {
                let error = refusal.as_ref().map(ErrorReply::from);
                let drawn = error.as_ref().map_or(Ok(&drawn[..]), Err);
                let mut beside = ExtraDraws { named, sequences, noise: &mut noise::bits };
                self.session.write_with_extra(turn, drawn, &mut beside, output);
                if let Some(error) = &error {
                    self.count_refused(turn, error);
                }
                if turn.draws.named > 0 {
                    self.count_named_refused(turn, named);
                }
                if sequences.parts().iter().any(|part| !part.failed.is_empty()) {
                    self.count_refused_values(turn, sequences);
                }
            }
        }
        self.count(turn, draw.measured);
    }

    /// Returns true if replies are sent although more will follow.
    #[inline]
    fn is_flush_due(&self, buffers: &Buffers) -> bool {
        let bytes = buffers.output.len();
        bytes >= FLUSH_BYTES || (bytes >= UNAUTHENTICATED_FLUSH_BYTES && !self.session.is_authenticated())
    }

    /// Returns true if other clients must have their turn, because this client had its own for long, has sent much, or
    /// was refused. A refusal costs its client nothing and comes at once, so that a hundred of them could hold the
    /// thread.
    #[inline]
    fn is_yield_due(&mut self, is_last: bool, buffers: &mut Buffers) -> bool {
        let Buffers { busy_since_ns, turn, is_refused, .. } = buffers;
        let spent_ns = turn.tally.spent_ns();
        let was_long = if !is_last {
            busy_since_ns.get_or_insert_with(|| clock::stopwatch_ns().saturating_sub(spent_ns));
            is_over(*busy_since_ns, SLICE_NS)
        } else if self.unbroken_bytes as usize >= UNBROKEN_BYTES {
            self.unbroken_bytes = 0;
            true
        } else {
            (busy_since_ns.is_some() || spent_ns >= SHORT_TURN_NS) && is_over(*busy_since_ns, SHORT_TURN_NS)
        };
        was_long || *is_refused
    }

    /// Keeps the beginning of the next read, and counts the work done.
    #[inline]
    fn suspend(&mut self, buffers: &mut Buffers) {
        self.publish();
        buffers.suspend(&mut self.rest);
        let rest_bytes = self.rest.as_ref().map_or(0, |rest| rest.memory_bytes());
        let held = self.session.release_memory() + rest_bytes;
        if held != self.admission.client.held_bytes() {
            self.note_held(rest_bytes);
        }
        self.count_work(buffers);
    }

    /// Counts the work done since the last count.
    #[inline]
    fn count_work(&self, buffers: &mut Buffers) {
        self.server.metrics.add_read(std::mem::take(&mut buffers.work));
    }
}

/// Reads once into the spare room of `input`.
fn poll_read<T: AsyncRead + Unpin>(
    mut io: Pin<&mut T>,
    cx: &mut Context<'_>,
    input: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    pin!(io.read_buf(input)).poll(cx)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;
    use crate::registry::Client;
    use getid_redis::session::ClientView;

    /// An idle server holds ten thousand of them, so fields that few clients need are boxed.
    #[test]
    fn an_idle_connection_is_small() {
        let own = size_of::<ClientConnection<TcpStream>>();
        let (listed, shown) = (size_of::<Client>(), size_of::<ClientView>());
        assert!(own <= 200 && listed <= 168 && shown <= 80, "{own} for itself, {listed} and {shown} in the list");
        // The runtime keeps this for each, whatever it waits for.
        let task = size_of::<Task<TcpStream>>();
        assert!(task <= 24, "{task} for its task");
    }
}
