//! A turn's IDs and values: nearly always available at once, otherwise waited for, in turn with others.
//!
//! `sequences` has the part for sequences.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use getid_core::{Refusal, Reservation};
use tokio::time::Instant;

use super::buffers::Buffers;
use super::draw_wait::{DrawWait, DrawWaitEnd};
use super::state::ClientConnection;
use crate::metrics::MeasuredDraw;
use crate::transport::Transport;
use getid_redis::resp::ErrorReply;
use getid_redis::session::{
    DrawSource, Draws, ExtraDraws, NamedDrawResults, NamedPart, SequenceDrawResults, Turn, Unblock,
};
use getid_system::{clock, noise};

/// Index of the unnamed generator.
const UNNAMED: usize = 0;

/// Number of IDs drawn at a time for a client that may be gone, if a reply of its own does not need more.
const PART_IDS: u32 = 100;

/// Draws without a wait are measured now and then; all of them, if commands of this duration or less are noted, ns.
const MEASURE_ALL_BELOW_NS: u64 = 100_000;

/// Result of a turn's draw.
#[derive(Debug, Default)]
pub(super) struct Draw {
    pub(super) outcome: DrawOutcome,
    /// Duration of the draw, if measured.
    pub(super) measured: Option<MeasuredDraw>,
}

/// Outcome of a turn's draw.
#[derive(Debug, Default)]
pub(super) enum DrawOutcome {
    /// The unnamed generator gave all IDs, and there are no other draws.
    #[default]
    Drawn,
    /// The unnamed generator refused, and there are no other draws.
    Refused(DrawRefusal),
    /// There are draws from named generators or sequences, whose results are in the buffers. The unnamed generator may
    /// have refused.
    WithExtra(Option<DrawRefusal>),
}

/// Rest of a turn's draw.
#[derive(Debug)]
pub(super) struct PartialDraw {
    /// Reason why the unnamed generator refused.
    refused: Option<DrawRefusal>,
    /// Start of the draw in ns, if it is measured.
    began_ns: Option<u64>,
}

/// Reason why a turn gets no IDs.
#[derive(Debug)]
pub(super) enum DrawRefusal {
    /// Boxed, since it is rare, and otherwise a part of every idle connection.
    Refused(Box<Refusal>),
    Unblocked(Unblock),
}

impl From<&DrawRefusal> for ErrorReply {
    fn from(refusal: &DrawRefusal) -> ErrorReply {
        match refusal {
            DrawRefusal::Refused(refusal) => (&**refusal).into(),
            DrawRefusal::Unblocked(how) => (*how).into(),
        }
    }
}

/// State of a turn that waits.
#[derive(Debug)]
struct DrawProgress {
    /// Reason why the unnamed generator refused.
    refused: Option<DrawRefusal>,
    /// Deadline of the wait for values of all sequences together.
    values_until: Option<Instant>,
    /// Whether a wait ends when the client is found to have finished sending.
    ends_half_closed: bool,
}

impl Draw {
    /// Returns true if a generator or a sequence refused.
    #[inline]
    pub(super) fn is_refused(&self, named: &NamedDrawResults, sequences: &SequenceDrawResults) -> bool {
        match &self.outcome {
            DrawOutcome::Drawn => false,
            DrawOutcome::Refused(_) | DrawOutcome::WithExtra(Some(_)) => true,
            DrawOutcome::WithExtra(None) => is_any_refused(named, sequences),
        }
    }
}

impl DrawOutcome {
    /// Returns the outcome of a turn whose draws have ended.
    fn of(turn: &Turn, refused: Option<DrawRefusal>) -> DrawOutcome {
        match refused {
            refused if turn.draws.named > 0 || turn.draws.sequences > 0 => DrawOutcome::WithExtra(refused),
            None => DrawOutcome::Drawn,
            Some(why) => DrawOutcome::Refused(why),
        }
    }
}

impl<T: Transport> ClientConnection<T> {
    /// Draws the IDs of the unnamed generator as far as possible without a wait. An error means that there is more to
    /// do.
    #[inline]
    pub(super) fn draw_now(&self, buffers: &mut Buffers) -> Result<Draw, PartialDraw> {
        buffers.drawn.clear();
        let mut missing = buffers.turn.draws;
        if missing.is_empty() {
            return Ok(Draw::default());
        }
        let began_ns = self.measured_draw_start();
        if let Some(how) = buffers.unblocked {
            return Ok(refuse_all(how, buffers));
        }
        if missing.unnamed > 0 {
            match self.server.generators.try_draw(UNNAMED, missing.unnamed) {
                Ok(Some(reservation)) => {
                    missing.unnamed -= reservation.len;
                    buffers.drawn.push(reservation);
                }
                Ok(None) => {}
                Err(refusal) => return refused(missing, refusal, began_ns),
            }
        }
        if !missing.is_empty() {
            return Err(PartialDraw { refused: None, began_ns });
        }
        let measured = began_ns.map(|began| MeasuredDraw { ns: clock::since_ns(began), waited: false });
        Ok(Draw { outcome: DrawOutcome::Drawn, measured })
    }

    /// Continues with the IDs of named generators, and the values of sequences, without a wait. Sequences are drawn
    /// from even if the turn must wait, so that all stores are called before it waits for one.
    #[inline(never)]
    pub(super) fn draw_named_and_sequences_now(
        &self,
        unfinished: PartialDraw,
        buffers: &mut Buffers,
    ) -> Result<Draw, PartialDraw> {
        let is_whole = unfinished.refused.is_some() || buffers.turn.draws.unnamed == ids_of(&buffers.drawn);
        let Buffers { turn, named, sequences, .. } = buffers;
        let has_named = self.draw_named_now(turn, named, is_whole);
        let has_values = self.draw_values_now(turn, sequences);
        if !(is_whole && has_named && has_values) {
            return Err(unfinished);
        }
        let measured = unfinished.began_ns.map(|began| MeasuredDraw { ns: clock::since_ns(began), waited: false });
        Ok(Draw { outcome: DrawOutcome::of(turn, unfinished.refused), measured })
    }

    /// Draws from the named generators. Returns true if all have given their IDs or refused. They are drawn from only
    /// if no earlier draw has to wait.
    fn draw_named_now(&self, turn: &Turn, named: &mut NamedDrawResults, is_whole: bool) -> bool {
        let draws = turn.named_draws();
        named.begin(draws.len());
        for (at, draw) in draws.iter().enumerate() {
            let Some(part) = named.part(at).filter(|_| is_whole) else { return false };
            match self.server.generators.try_draw(draw.generator, draw.ids) {
                Ok(Some(reservation)) => part.reservations.push(reservation),
                Ok(None) => {}
                Err(refusal) => part.refused = Some((&refusal).into()),
            }
            if part.refused.is_none() && part.left() < draw.ids {
                return false;
            }
        }
        true
    }

    /// Returns the start of a turn's draw, if it is measured.
    #[inline]
    fn measured_draw_start(&self) -> Option<u64> {
        let own = self.server.metrics.own_commands()?;
        let is_measured = own.is_measured_next() || self.session.settings().timing.slow_ns < MEASURE_ALL_BELOW_NS;
        is_measured.then(clock::stopwatch_ns)
    }

    /// Draws the rest of a turn's IDs, in turn with others, from one source after the other. Meanwhile the connection
    /// holds only its turn and its unread input. An error ends the connection.
    pub(super) async fn draw_later(&mut self, unfinished: PartialDraw, buffers: &mut Buffers) -> io::Result<Draw> {
        let began_ns = clock::stopwatch_ns();
        // Earlier replies must not wait with the rest.
        self.flush(buffers).await?;
        self.park(buffers);
        let mut later = DrawProgress { refused: unfinished.refused, values_until: None, ends_half_closed: true };
        while let Some((source, missing)) = next_missing(buffers, later.refused.is_some()) {
            let waited = match source {
                DrawSource::Sequence(_) => self.wait_for_values(None, &mut later.values_until, buffers).await?,
                source => self.wait_for_ids(source, missing, &mut later, buffers).await?,
            };
            let unblocked = match waited {
                DrawWaitEnd::Drawn | DrawWaitEnd::Refused => None,
                DrawWaitEnd::Unblocked(how) => Some(how),
                DrawWaitEnd::HalfClosed => {
                    later.ends_half_closed = false;
                    let is_refused = later.refused.is_some() || is_any_refused(&buffers.named, &buffers.sequences);
                    if is_refused { None } else { self.draw_in_parts(&mut later, buffers).await? }
                }
            };
            if let Some(how) = unblocked {
                buffers.unblocked = Some(how);
                later.refused = refuse_missing(how, later.refused, buffers);
            }
        }
        let measured = Some(MeasuredDraw { ns: clock::since_ns(began_ns), waited: true });
        Ok(Draw { outcome: DrawOutcome::of(&buffers.turn, later.refused), measured })
    }

    /// Draws the rest for a client that has finished sending. It may read on, or be gone altogether, which shows only
    /// when data is sent. So its replies are sent one by one as their IDs arrive, and a client that is gone leaves its
    /// place in the queue after the first. Ends with the first refusal, and with `CLIENT UNBLOCK`.
    async fn draw_in_parts(&mut self, later: &mut DrawProgress, buffers: &mut Buffers) -> io::Result<Option<Unblock>> {
        while let Some((source, count)) = buffers.turn.next_ids(PART_IDS) {
            let drawn = match source {
                DrawSource::Unnamed => ids_of(&buffers.drawn),
                DrawSource::Named(at) => buffers.named.part(at).map_or(0, |part| part.left()),
                DrawSource::Sequence(at) => buffers.sequences.part(at).map_or(0, |part| part.available()),
            };
            if let Some(missing) = count.checked_sub(drawn).filter(|&missing| missing > 0) {
                let waited = match source {
                    DrawSource::Sequence(at) => {
                        self.wait_for_values(Some((at, missing)), &mut later.values_until, buffers).await?
                    }
                    source => self.wait_for_ids(source, missing, later, buffers).await?,
                };
                match waited {
                    DrawWaitEnd::Drawn | DrawWaitEnd::HalfClosed => {}
                    DrawWaitEnd::Refused => return Ok(None),
                    DrawWaitEnd::Unblocked(how) => return Ok(Some(how)),
                }
            }
            self.write_next(buffers);
            self.flush(buffers).await?;
        }
        Ok(None)
    }

    /// Writes the next reply into the output.
    fn write_next(&self, buffers: &mut Buffers) {
        let Buffers { turn, drawn, named, sequences, output, .. } = buffers;
        let mut beside = ExtraDraws { named, sequences, noise: &mut noise::bits };
        self.session.write_next(turn, drawn, &mut beside, output);
    }

    /// Draws the missing IDs of one generator, in turn with others. An error ends the connection.
    async fn wait_for_ids(
        &mut self,
        source: DrawSource,
        missing: u32,
        later: &mut DrawProgress,
        buffers: &mut Buffers,
    ) -> io::Result<DrawWaitEnd> {
        let Buffers { turn, drawn, named, .. } = buffers;
        let named = match source {
            DrawSource::Named(at) => turn.named_draws().get(at).zip(named.part(at)),
            _ => None,
        };
        let server = Arc::clone(&self.server);
        let Some((draw, part)) = named else {
            let draw = pin!(server.generators.draw(UNNAMED, missing, drawn));
            return match self.wait_for(draw, later.ends_half_closed).await? {
                DrawWait::Ready(Ok(())) => Ok(DrawWaitEnd::Drawn),
                DrawWait::Ready(Err(refusal)) => {
                    later.refused = Some(DrawRefusal::Refused(Box::new(refusal)));
                    Ok(DrawWaitEnd::Refused)
                }
                DrawWait::Early(how) => Ok(how),
            };
        };
        let NamedPart { reservations, refused, .. } = part;
        let draw = pin!(server.generators.draw(draw.generator, missing, reservations));
        Ok(match self.wait_for(draw, later.ends_half_closed).await? {
            DrawWait::Ready(Ok(())) => DrawWaitEnd::Drawn,
            DrawWait::Ready(Err(refusal)) => {
                *refused = Some((&refusal).into());
                DrawWaitEnd::Refused
            }
            DrawWait::Early(how) => how,
        })
    }
}

/// Returns the result of a turn whose unnamed generator refuses: named ones may still give IDs.
#[cold]
fn refused(missing: Draws, refusal: Refusal, began_ns: Option<u64>) -> Result<Draw, PartialDraw> {
    let why = DrawRefusal::Refused(Box::new(refusal));
    if missing.named > 0 || missing.sequences > 0 {
        return Err(PartialDraw { refused: Some(why), began_ns });
    }
    Ok(Draw { outcome: DrawOutcome::Refused(why), measured: None })
}

/// Returns the draw of a turn after one whose wait `CLIENT UNBLOCK` has ended.
#[cold]
fn refuse_all(how: Unblock, buffers: &mut Buffers) -> Draw {
    buffers.named.begin(buffers.turn.named_draws().len());
    super::sequences::begin_all(&buffers.turn, &mut buffers.sequences);
    let refused = refuse_missing(how, None, buffers);
    Draw { outcome: DrawOutcome::of(&buffers.turn, refused.or(Some(DrawRefusal::Unblocked(how)))), measured: None }
}

/// Refuses all missing IDs of a turn. Returns why the unnamed generator gives nothing.
fn refuse_missing(how: Unblock, mut refused: Option<DrawRefusal>, buffers: &mut Buffers) -> Option<DrawRefusal> {
    while let Some((source, _)) = next_missing(buffers, refused.is_some()) {
        let place = match source {
            DrawSource::Unnamed => None,
            DrawSource::Named(at) => buffers.named.part(at).map(|part| &mut part.refused),
            DrawSource::Sequence(at) => buffers.sequences.part(at).map(|part| &mut part.refused),
        };
        match place {
            None => refused = Some(DrawRefusal::Unblocked(how)),
            Some(refused) => *refused = Some(how.into()),
        }
    }
    refused
}

/// Returns the next source with missing IDs that has not refused, and the number of missing IDs, or of commands without
/// values.
fn next_missing(buffers: &Buffers, is_refused: bool) -> Option<(DrawSource, u32)> {
    let Buffers { turn, drawn, named, sequences, .. } = buffers;
    let unnamed = turn.draws.unnamed.saturating_sub(ids_of(drawn));
    if unnamed > 0 && !is_refused {
        return Some((DrawSource::Unnamed, unnamed));
    }
    let parts = turn.named_draws().iter().zip(named.parts()).enumerate();
    let named = parts.filter(|(_, (_, part))| part.refused.is_none()).find_map(|(at, (draw, part))| {
        draw.ids.checked_sub(part.left()).filter(|&missing| missing > 0).map(|missing| (DrawSource::Named(at), missing))
    });
    let waiting = || sequences.parts().iter().enumerate().find(|(_, part)| part.waits());
    named
        .or_else(|| waiting().map(|(at, part)| (DrawSource::Sequence(at), part.left.iter().map(|ask| ask.times).sum())))
}

fn is_any_refused(named: &NamedDrawResults, sequences: &SequenceDrawResults) -> bool {
    let of_sequences = || sequences.parts().iter().any(|part| part.refused.is_some());
    named.parts().iter().any(|part| part.refused.is_some()) || of_sequences()
}

fn ids_of(drawn: &[Reservation]) -> u32 {
    drawn.iter().map(|reservation| reservation.len).sum()
}
