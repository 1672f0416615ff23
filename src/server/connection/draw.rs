//! A turn's IDs: nearly always there at once, else waited for, in turn with others.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use getid_core::Refusal;
use tokio::io::Interest;

use super::buffers::Buffers;
use super::state::Connection;
use super::wait::Wait;
use crate::metrics::MeasuredDraw;
use crate::server::registry::Client;
use crate::server::transport::Transport;
use crate::session::{Draws, Unblock};
use crate::system::clock;

/// IDs at a time for a client that may be gone, if a reply of its own does not need more.
const PART_IDS: u32 = 100;

/// Draws that do not wait are measured now and then; all of them, if commands from this time on are to be told.
const MEASURE_ALL_BELOW_NS: u64 = 100_000;

/// What came of a turn's draw.
#[derive(Debug, Default)]
pub(super) struct Draw {
    /// Why there are no IDs.
    pub(super) refusal: Option<NoIds>,
    /// How long it took, if that was measured.
    pub(super) measured: Option<MeasuredDraw>,
}

/// Why a turn gets no IDs. `Display` is the text of the error reply.
#[derive(Debug)]
pub(super) enum NoIds {
    Refused(Refusal),
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

impl<T: Transport> Connection<T> {
    /// Draws the IDs of a turn as far as that goes without waiting; an error says what is missing.
    #[inline]
    pub(super) fn draw_now(&self, buffers: &mut Buffers) -> Result<Draw, Draws> {
        buffers.drawn.clear();
        let mut missing = buffers.turn.draws;
        if missing.is_empty() {
            return Ok(Draw::default());
        }
        let began_ns = self.begins_measured_draw();
        if let Some(how) = buffers.unblocked {
            return Ok(Draw { refusal: Some(NoIds::Unblocked(how)), measured: None });
        }
        for (generator, ids) in missing.iter_mut() {
            match self.server.generators.try_draw(generator, *ids) {
                Ok(Some(reservation)) => {
                    *ids -= reservation.len;
                    buffers.drawn.push(reservation);
                }
                Ok(None) => {}
                Err(refusal) => return Ok(Draw { refusal: Some(NoIds::Refused(refusal)), measured: None }),
            }
        }
        if !missing.is_empty() {
            return Err(missing);
        }
        let measured = began_ns.map(|began| MeasuredDraw { ns: clock::since_ns(began), waited: false });
        Ok(Draw { refusal: None, measured })
    }

    /// Whether a turn's draw is measured: when it begins.
    #[inline]
    fn begins_measured_draw(&self) -> Option<u64> {
        let own = self.server.metrics.own_commands()?;
        let is_measured = own.is_measured_next() || self.session.settings().timing.noted_ns < MEASURE_ALL_BELOW_NS;
        is_measured.then(clock::stopwatch_ns)
    }

    /// Draws the `missing` IDs of a turn, in turn with others. Meanwhile the connection holds what it needs and no
    /// more: its turn, and what it has not read yet. An error ends the connection.
    pub(super) async fn draw_later(&mut self, missing: Draws, buffers: &mut Buffers) -> io::Result<Draw> {
        let began_ns = clock::stopwatch_ns();
        // What is answered already must not wait with the rest.
        self.flush(buffers).await?;
        self.park(buffers);
        let refusal = match self.wait_for_ids(missing, buffers, true).await? {
            Waited::Drawn => None,
            Waited::NoIds(why) => Some(why),
            Waited::HalfClosed => self.draw_in_parts(buffers).await?,
        };
        if let Some(NoIds::Unblocked(how)) = refusal {
            buffers.unblocked = Some(how);
        }
        Ok(Draw { refusal, measured: Some(MeasuredDraw { ns: clock::since_ns(began_ns), waited: true }) })
    }

    /// The same for a client that has finished sending. Perhaps it reads on; perhaps it is gone altogether, which shows
    /// only when it is sent something. So its replies are sent one by one as their IDs are there, and one that is gone
    /// leaves its place in the queue after the first.
    async fn draw_in_parts(&mut self, buffers: &mut Buffers) -> io::Result<Option<NoIds>> {
        while let Some(wanted) = buffers.turn.next_ids(PART_IDS) {
            let drawn: u32 = buffers.drawn.iter().map(|reservation| reservation.len).sum();
            if let Some(missing) = wanted.checked_sub(drawn).filter(|&missing| missing > 0) {
                match self.wait_for_ids(Draws { unnamed: missing }, buffers, false).await? {
                    Waited::Drawn | Waited::HalfClosed => {}
                    Waited::NoIds(why) => return Ok(Some(why)),
                }
            }
            self.session.write_next(&mut buffers.turn, &mut buffers.drawn, &mut buffers.output);
            self.flush(buffers).await?;
        }
        Ok(None)
    }

    /// Draws what is missing, in turn with others. An error ends the connection.
    async fn wait_for_ids(
        &mut self,
        missing: Draws,
        buffers: &mut Buffers,
        ends_half_closed: bool,
    ) -> io::Result<Waited> {
        self.publish();
        let client = &*self.admission.client;
        // Until it is served it is not idle, however long that takes.
        let _waiting = client.waits_for_ids();
        let draw = async {
            for (generator, ids) in missing.iter() {
                self.server.generators.draw(generator, ids, &mut buffers.drawn).await?;
            }
            Ok(())
        };
        let ids = async {
            tokio::select! {
                biased;
                // A reset is told at once, the end of what a client sends when its turn to be looked at comes.
                _ = self.io.ready(Interest::ERROR) => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                result = draw => {
                    Ok(result.map_or_else(|refusal| Waited::NoIds(NoIds::Refused(refusal)), |()| Waited::Drawn))
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

/// Resolves when `CLIENT UNBLOCK` ends the client's wait, which wakes the task.
async fn unblocked(client: &Client) -> Unblock {
    poll_fn(|_| client.unblocked().map_or(Poll::Pending, Poll::Ready)).await
}
