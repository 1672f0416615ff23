//! A turn's IDs: nearly always there at once, else waited for, in turn with others.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use getid_core::{Refusal, Reservation};
use tokio::io::Interest;

use super::buffers::Buffers;
use super::state::Connection;
use super::wait::Wait;
use crate::metrics::MeasuredDraw;
use crate::server::registry::Client;
use crate::server::transport::Transport;
use crate::session::{Draws, Turn, Unblock};
use crate::system::{clock, noise};

/// The index of the generator that has no name.
const UNNAMED: usize = 0;

/// IDs at a time for a client that may be gone, if a reply of its own does not need more.
const PART_IDS: u32 = 100;

/// Draws that do not wait are measured now and then; all of them, if commands from this time on are to be told.
const MEASURE_ALL_BELOW_NS: u64 = 100_000;

/// What came of a turn's draw.
#[derive(Debug, Default)]
pub(super) struct Draw {
    pub(super) outcome: Outcome,
    /// How long it took, if that was measured.
    pub(super) measured: Option<MeasuredDraw>,
}

/// Whether a turn has its IDs.
#[derive(Debug, Default)]
pub(super) enum Outcome {
    /// It has those of the unnamed generator, and asks no other.
    #[default]
    Drawn,
    /// The unnamed generator gives none, and no other is asked.
    Refused(NoIds),
    /// Named generators were asked: what they gave is in the buffers. The unnamed one may give none.
    Named(Option<NoIds>),
}

/// What is left to do for a turn's draw.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// Why the unnamed generator gives no IDs.
    refused: Option<NoIds>,
    /// When a draw that is measured began.
    began_ns: Option<u64>,
}

/// One of the generators that a turn asks: the unnamed one, or that of a named draw.
type Source = Option<usize>;

/// Why a turn gets no IDs. `Display` is the text of the error reply.
#[derive(Debug)]
pub(super) enum NoIds {
    /// Boxed, for it is rare, and a part of every idle connection otherwise.
    Refused(Box<Refusal>),
    Unblocked(Unblock),
}

impl fmt::Display for NoIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoIds::Refused(refusal) => refusal.fmt(f),
            NoIds::Unblocked(how) => how.fmt(f),
        }
    }
}

/// What came of a wait for IDs.
enum Waited {
    Drawn,
    NoIds(NoIds),
    /// The client has finished sending; nothing else has happened.
    HalfClosed,
}

impl Draw {
    /// Whether a generator refused.
    #[inline]
    pub(super) fn is_refused(&self, buffers: &Buffers) -> bool {
        match &self.outcome {
            Outcome::Drawn => false,
            Outcome::Refused(_) | Outcome::Named(Some(_)) => true,
            Outcome::Named(None) => buffers.named.parts().iter().any(|part| part.refused.is_some()),
        }
    }
}

impl Outcome {
    /// That of a turn whose draws have come to an end.
    fn of(turn: &Turn, refused: Option<NoIds>) -> Outcome {
        match refused {
            refused if turn.draws.named > 0 => Outcome::Named(refused),
            None => Outcome::Drawn,
            Some(why) => Outcome::Refused(why),
        }
    }
}

impl<T: Transport> Connection<T> {
    /// Draws the IDs of the unnamed generator as far as that goes without waiting; an error says that there is more to
    /// do.
    #[inline]
    pub(super) fn draw_now(&self, buffers: &mut Buffers) -> Result<Draw, Unfinished> {
        buffers.drawn.clear();
        let mut missing = buffers.turn.draws;
        if missing.is_empty() {
            return Ok(Draw::default());
        }
        let began_ns = self.begins_measured_draw();
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
            return Err(Unfinished { refused: None, began_ns });
        }
        let measured = began_ns.map(|began| MeasuredDraw { ns: clock::since_ns(began), waited: false });
        Ok(Draw { outcome: Outcome::Drawn, measured })
    }

    /// Goes on with the IDs of named generators, in the same way.
    #[inline(never)]
    pub(super) fn draw_named_now(&self, unfinished: Unfinished, buffers: &mut Buffers) -> Result<Draw, Unfinished> {
        let Buffers { turn, named, .. } = buffers;
        let draws = turn.named_draws();
        named.begin(draws.len());
        let is_whole = unfinished.refused.is_some() || turn.draws.unnamed == ids_of(&buffers.drawn);
        if !is_whole || draws.is_empty() {
            return Err(unfinished);
        }
        for (at, draw) in draws.iter().enumerate() {
            let Some(part) = named.part(at) else { continue };
            match self.server.generators.try_draw(draw.generator, draw.ids) {
                Ok(Some(reservation)) => part.reservations.push(reservation),
                Ok(None) => {}
                Err(refusal) => part.refused = Some(refusal.to_string()),
            }
            if part.refused.is_none() && part.left() < draw.ids {
                return Err(unfinished);
            }
        }
        let measured = unfinished.began_ns.map(|began| MeasuredDraw { ns: clock::since_ns(began), waited: false });
        Ok(Draw { outcome: Outcome::Named(unfinished.refused), measured })
    }

    /// Whether a turn's draw is measured: when it begins.
    #[inline]
    fn begins_measured_draw(&self) -> Option<u64> {
        let own = self.server.metrics.own_commands()?;
        let is_measured = own.is_measured_next() || self.session.settings().timing.noted_ns < MEASURE_ALL_BELOW_NS;
        is_measured.then(clock::stopwatch_ns)
    }

    /// Draws what a turn lacks, in turn with others, from one generator after the other. Meanwhile the connection holds
    /// what it needs and no more: its turn, and what it has not read yet. An error ends the connection.
    pub(super) async fn draw_later(&mut self, unfinished: Unfinished, buffers: &mut Buffers) -> io::Result<Draw> {
        let began_ns = clock::stopwatch_ns();
        // What is answered already must not wait with the rest.
        self.flush(buffers).await?;
        self.park(buffers);
        let mut refused = unfinished.refused;
        let mut ends_half_closed = true;
        while let Some((source, missing)) = next_missing(buffers, refused.is_some()) {
            let ended = match self.wait_for_ids(source, missing, buffers, ends_half_closed).await? {
                Waited::Drawn => None,
                Waited::NoIds(why) => Some((source, why)),
                Waited::HalfClosed => {
                    ends_half_closed = false;
                    let is_refused =
                        refused.is_some() || buffers.named.parts().iter().any(|part| part.refused.is_some());
                    if is_refused { None } else { self.draw_in_parts(buffers).await? }
                }
            };
            match ended {
                None => {}
                Some((_, NoIds::Unblocked(how))) => {
                    buffers.unblocked = Some(how);
                    refused = refuse_missing(how, refused, buffers);
                }
                Some((None, why)) => refused = Some(why),
                Some((Some(at), why)) => {
                    if let Some(part) = buffers.named.part(at) {
                        part.refused = Some(why.to_string());
                    }
                }
            }
        }
        let measured = Some(MeasuredDraw { ns: clock::since_ns(began_ns), waited: true });
        Ok(Draw { outcome: Outcome::of(&buffers.turn, refused), measured })
    }

    /// The same for a client that has finished sending. Perhaps it reads on; perhaps it is gone altogether, which shows
    /// only when it is sent something. So its replies are sent one by one as their IDs are there, and one that is gone
    /// leaves its place in the queue after the first. Ends with the first refusal.
    async fn draw_in_parts(&mut self, buffers: &mut Buffers) -> io::Result<Option<(Source, NoIds)>> {
        while let Some((source, wanted)) = buffers.turn.next_ids(PART_IDS) {
            let drawn = match source {
                None => ids_of(&buffers.drawn),
                Some(at) => buffers.named.part(at).map_or(0, |part| part.left()),
            };
            if let Some(missing) = wanted.checked_sub(drawn).filter(|&missing| missing > 0) {
                match self.wait_for_ids(source, missing, buffers, false).await? {
                    Waited::Drawn | Waited::HalfClosed => {}
                    Waited::NoIds(why) => return Ok(Some((source, why))),
                }
            }
            let Buffers { turn, drawn, named, output, .. } = buffers;
            self.session.write_next(turn, drawn, named, &mut noise::bits, output);
            self.flush(buffers).await?;
        }
        Ok(None)
    }

    /// Draws what is missing of one generator, in turn with others. An error ends the connection.
    async fn wait_for_ids(
        &mut self,
        source: Source,
        missing: u32,
        buffers: &mut Buffers,
        ends_half_closed: bool,
    ) -> io::Result<Waited> {
        self.publish();
        let client = &*self.admission.client;
        // Until it is served it is not idle, however long that takes.
        let _waiting = client.waits_for_ids();
        let Buffers { turn, drawn, named, .. } = buffers;
        let named = source.and_then(|at| Some((turn.named_draws().get(at)?.generator, named.part(at)?)));
        let (generator, drawn) = named.map_or((UNNAMED, drawn), |(index, part)| (index, &mut part.reservations));
        let draw = self.server.generators.draw(generator, missing, drawn);
        let ids = async {
            tokio::select! {
                biased;
                // A reset is told at once, the end of what a client sends when its turn to be looked at comes.
                _ = self.io.ready(Interest::ERROR) => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                result = draw => {
                    Ok(result.map_or_else(|refusal| Waited::NoIds(NoIds::Refused(Box::new(refusal))), |()| Waited::Drawn))
                }
                how = unblocked(client) => Ok(Waited::NoIds(NoIds::Unblocked(how))),
            }
        };
        let waited = match Wait::unless_cut_off(client).until_or_gone(&self.io, ids, ends_half_closed).await? {
            Some(result) => {
                self.note_active();
                result?
            }
            None => Waited::HalfClosed,
        };
        // Whoever ended the wait was told so, though the IDs may have come at that moment.
        Ok(client.end_wait().map_or(waited, |how| Waited::NoIds(NoIds::Unblocked(how))))
    }
}

/// What a turn comes to whose unnamed generator refuses: named ones may give theirs all the same.
#[cold]
fn refused(missing: Draws, refusal: Refusal, began_ns: Option<u64>) -> Result<Draw, Unfinished> {
    let why = NoIds::Refused(Box::new(refusal));
    if missing.named > 0 {
        return Err(Unfinished { refused: Some(why), began_ns });
    }
    Ok(Draw { outcome: Outcome::Refused(why), measured: None })
}

/// The draw of a turn behind one whose wait `CLIENT UNBLOCK` has ended.
#[cold]
fn refuse_all(how: Unblock, buffers: &mut Buffers) -> Draw {
    buffers.named.begin(buffers.turn.named_draws().len());
    let refused = refuse_missing(how, None, buffers);
    Draw { outcome: Outcome::of(&buffers.turn, refused.or(Some(NoIds::Unblocked(how)))), measured: None }
}

/// Refuses whatever a turn lacks. Returns why the unnamed generator gives nothing.
fn refuse_missing(how: Unblock, mut refused: Option<NoIds>, buffers: &mut Buffers) -> Option<NoIds> {
    while let Some((source, _)) = next_missing(buffers, refused.is_some()) {
        match source.and_then(|at| buffers.named.part(at)) {
            None => refused = Some(NoIds::Unblocked(how)),
            Some(part) => part.refused = Some(how.to_string()),
        }
    }
    refused
}

/// The next generator that has not given all that a turn asks of it, and has not refused; and how many IDs are missing.
fn next_missing(buffers: &Buffers, is_refused: bool) -> Option<(Source, u32)> {
    let unnamed = buffers.turn.draws.unnamed.saturating_sub(ids_of(&buffers.drawn));
    if unnamed > 0 && !is_refused {
        return Some((None, unnamed));
    }
    let parts = buffers.turn.named_draws().iter().zip(buffers.named.parts()).enumerate();
    parts.filter(|(_, (_, part))| part.refused.is_none()).find_map(|(at, (draw, part))| {
        draw.ids.checked_sub(part.left()).filter(|&missing| missing > 0).map(|missing| (Some(at), missing))
    })
}

fn ids_of(drawn: &[Reservation]) -> u32 {
    drawn.iter().map(|reservation| reservation.len).sum()
}

/// Resolves when `CLIENT UNBLOCK` ends the client's wait, which wakes the task.
async fn unblocked(client: &Client) -> Unblock {
    poll_fn(|_| client.unblocked().map_or(Poll::Pending, Poll::Ready)).await
}
