//! A turn's values of sequences: from memory, otherwise waited for, for all sequences at once and within one deadline.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use getid_core::server::SequenceRefusal;
use tokio::time::Instant;

use super::buffers::Buffers;
use super::draw_wait::{DrawWait, DrawWaitEnd};
use super::state::ClientConnection;
use crate::error_replies::{of_counter, of_counter_draw, of_standby};
use crate::transport::Transport;
use getid_engine::generators::SerialCounter;
use getid_engine::generators::sequence::{DrawOutcome, Sequences};
use getid_redis::resp::ErrorReply;
use getid_redis::session::{
    CounterPeriod, SEQUENCES_OFF, SequenceDraw, SequenceDrawResults, SequencePart, Turn, drop_front,
};

impl<T: Transport> ClientConnection<T> {
    /// Takes the values in memory from each sequence. Returns true if nothing is left to wait for; refusals do not
    /// count as left.
    #[inline]
    pub(super) fn draw_values_now(&self, turn: &Turn, values: &mut SequenceDrawResults) -> bool {
        let draws = turn.sequence_draws();
        values.begin(draws.len());
        if !draws.is_empty()
            && let Some(refusal) = self.server.generators.standby_refusal()
        {
            values.parts_mut().iter_mut().for_each(|part| part.refused = Some(of_standby(&refusal)));
            return true;
        }
        let Some(sequences) = self.server.generators.sequences().filter(|_| !draws.is_empty()) else {
            values.parts_mut().iter_mut().for_each(|part| part.refused = Some(SEQUENCES_OFF));
            return true;
        };
        if draws.len() > 1 {
            sequences.prefetch(draws.iter().map(|draw| draw.hash));
        }
        let (now_ms, mut is_whole) = (sequences.clock_ms(), true);
        for (draw, part) in draws.iter().zip(values.parts_mut()) {
            let (name, asks) = (turn.sequence_name(draw), &mut turn.sequence_asks(draw));
            if draw.is_counter() && !self.has_period(draw, name, part) {
                continue;
            }
            let SequencePart { runs, left, period, .. } = part;
            let (hash, key) = period.as_ref().map_or((draw.hash, name), |period| (period.hash, &*period.key));
            match sequences.try_draw(now_ms, hash, key, asks, runs, left) {
                Ok(DrawOutcome::All) => {}
                Ok(DrawOutcome::Waits) => is_whole = false,
                // The rest waits for values of the newer period.
                Err(SequenceRefusal::Newer { period }) if self.continues_in(&period, name, part) => is_whole = false,
                Err(refusal) => part.refused = Some(error_reply(&refusal, name, draw)),
            }
        }
        is_whole
    }

    /// Moves a counter to a newer period that another server has begun. Returns false if values of the older one are
    /// still to be written.
    #[cold]
    fn continues_in(&self, period: &str, name: &str, part: &mut SequencePart) -> bool {
        // The name of a series begins with that of its generator.
        self.server.generators.advance_period(name.split('/').next().unwrap_or_default(), period);
        part.forget_period()
    }

    /// Determines the period of a counter, once a turn. Returns false, with a refusal, if that fails.
    #[cold]
    fn has_period(&self, draw: &SequenceDraw, name: &str, part: &mut SequencePart) -> bool {
        if part.period.is_some() || part.refused.is_some() {
            return part.refused.is_none();
        }
        // A turn is drawn with the settings it was read with.
        let Some(counter) = self.session.counter_of(draw) else { return false };
        let series = name.split_once('/').map_or("", |(_, series)| series);
        match self.server.generators.counter(counter, series) {
            Ok(SerialCounter { key, hash, stamp, .. }) => part.period = Some(CounterPeriod { key, hash, stamp }),
            Err(refusal) => part.refused = Some(of_counter(&refusal, name)),
        }
        part.refused.is_none()
    }

    /// Waits for the rest: of all sequences, or of one draw (`only`) for so many commands. An error ends the
    /// connection. `values_until` is the deadline of the turn's waits for values, which the first wait sets.
    ///
    /// All draws join the queues before the first is waited for, and all have the same deadline. That is short, so a
    /// client that has finished sending waits as others do: if it left the queue and returned for one reply at a time,
    /// values reserved for it meanwhile would be skipped.
    pub(super) async fn wait_for_values(
        &mut self,
        only: Option<(usize, u32)>,
        values_until: &mut Option<Instant>,
        buffers: &mut Buffers,
    ) -> io::Result<DrawWaitEnd> {
        let server = Arc::clone(&self.server);
        let Buffers { turn, sequences: values, .. } = buffers;
        let Some(sequences) = server.generators.sequences() else {
            values.parts_mut().iter_mut().for_each(|part| part.refused = Some(SEQUENCES_OFF));
            return Ok(DrawWaitEnd::Refused);
        };
        let wait = || Instant::now() + Duration::from_millis(sequences.wait_ms());
        let until = *values_until.get_or_insert_with(wait);
        let times = only.map_or(u32::MAX, |(_, times)| times);
        for _ in 0..PERIODS_TRIED {
            let (waited, newer) = self.wait_once(only, times, until, sequences, turn, values).await?;
            let mut continues = false;
            for (at, period) in newer {
                let Some((draw, part)) = turn.sequence_draws().get(at).zip(values.part(at)) else { continue };
                if self.continues_in(&period, turn.sequence_name(draw), part) {
                    part.refused = None;
                    continues = true;
                }
            }
            if !continues || !matches!(waited, DrawWaitEnd::Refused) {
                return Ok(waited);
            }
        }
        Ok(self.wait_once(only, times, until, sequences, turn, values).await?.0)
    }

    /// Waits once. Also returns the parts that were refused because their generators have begun newer periods.
    async fn wait_once(
        &mut self,
        only: Option<(usize, u32)>,
        times: u32,
        until: Instant,
        sequences: &Sequences,
        turn: &Turn,
        values: &mut SequenceDrawResults,
    ) -> io::Result<(DrawWaitEnd, Vec<(usize, Arc<str>)>)> {
        for (draw, part) in turn.sequence_draws().iter().zip(values.parts_mut()) {
            if draw.is_counter() {
                self.has_period(draw, turn.sequence_name(draw), part);
            }
        }
        let parts = turn.sequence_draws().iter().zip(values.parts_mut()).enumerate();
        let parts = parts.filter(|(at, (_, part))| part.waits() && only.is_none_or(|(only, _)| only == *at));
        let waits = parts.map(|(at, (draw, part))| {
            let (name, asks) = (turn.sequence_name(draw), part.left_of(times));
            let SequencePart { runs, left, refused, period, .. } = part;
            let (hash, key) = period.as_ref().map_or((draw.hash, name), |period| (period.hash, &*period.key));
            (at, draw, name, left, refused, sequences.draw(hash, key, asks, until, runs))
        });
        let waits: Vec<_> = waits.collect();
        let mut newer = Vec::new();
        let all = async {
            let mut came = DrawWaitEnd::Drawn;
            for (at, draw, name, left, refused, wait) in waits {
                match wait.await {
                    Ok(()) => drop_front(left, times),
                    Err(refusal) => {
                        *refused = Some(error_reply(&refusal, name, draw));
                        came = DrawWaitEnd::Refused;
                        if let SequenceRefusal::Newer { period } = refusal {
                            newer.push((at, period));
                        }
                    }
                }
            }
            came
        };
        let (DrawWait::Ready(waited) | DrawWait::Early(waited)) = self.wait_for(pin!(all), false).await?;
        Ok((waited, newer))
    }
}

/// Maximum number of newer periods to which a turn moves, each later than the one before.
const PERIODS_TRIED: usize = 3;

/// Returns the error reply for a sequence, or for a counter.
#[cold]
fn error_reply(refusal: &SequenceRefusal, name: &str, draw: &SequenceDraw) -> ErrorReply {
    if draw.is_counter() { of_counter_draw(refusal, name) } else { ErrorReply::of_sequence(refusal, name) }
}

/// Sets up a turn's sequence draws, without drawing.
pub(super) fn begin_all(turn: &Turn, values: &mut SequenceDrawResults) {
    let draws = turn.sequence_draws();
    values.begin(draws.len());
    for (draw, part) in draws.iter().zip(values.parts_mut()) {
        part.left.extend(turn.sequence_asks(draw));
    }
}
