//! Ranges of consecutive values for clients with a supply of their own, and their order after a change of the server.
//!
//! A client sends the newest value that another server of the store gave it, and gets a range above that one. Held
//! values up to it are skipped; then the next segment of the store is above it. The value comes from a client, and can
//! be wrong. So it never raises a row, and it is compared with the rows before anything is skipped for it.
//!
//! Invariant: a request skips the held values, those of a fetch in flight, and those of one more fetch at most.

use std::sync::Arc;
use std::time::Duration;

use getid_core::server::{Key, Run, SequenceRefusal, SequenceRequest};
use getid_store::sql::RowState;
use getid_text::name_hash::hash_of;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::SequenceError;
use super::table::{DrawResult, Table};
use super::{QueuedDraw, Sequences, no_room};

/// Fetches whose values one request skips at most: one in flight at its arrival, and one that began later.
const FETCHES_MAX: u32 = 2;

/// Request for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    /// Number of consecutive values. A range has fewer, at least one, if there are no more up to the max.
    pub values: u32,
    /// All values are above this one, which a server of the same store gave; `None`: any.
    pub above: Option<i64>,
}

/// Beginning of a draw.
enum RangeDraw<'a> {
    /// The range was in memory.
    Drawn(Run),
    /// The draw waits for values.
    Queued(oneshot::Receiver<DrawResult>, QueuedDraw<'a>),
}

impl Sequences {
    /// Draws a range, and waits for it for `sequence-wait-ms` at most.
    ///
    /// # Errors
    ///
    /// The refusal for the range, or the error of the store that was read.
    pub async fn next_range(self: &Arc<Self>, key: &Key, request: RangeRequest) -> Result<Run, SequenceError> {
        let until = Instant::now() + Duration::from_millis(self.wait_ms());
        let drawn = match request.above {
            None => self.draw_range(key, request, until).await.map(|(run, _)| run),
            Some(above) => {
                self.check_given(key, above).await.inspect_err(|_| self.counts.refused())?;
                self.draw_above(key, request, above, until).await
            }
        };
        drawn.inspect_err(|_| self.counts.refused()).map_err(SequenceError::Refused)
    }

    /// Fails if no store has given `value` to a server. A sequence without a live row is left to the draw.
    async fn check_given(self: &Arc<Self>, key: &Key, value: i64) -> Result<(), SequenceError> {
        if self.has_had_above(key, value) {
            return Ok(());
        }
        let view = self.inspect(key).await?;
        let mut live =
            view.iter().flat_map(|view| &view.rows).filter(|(_, row)| row.state == RowState::Live).peekable();
        if live.peek().is_none() || live.any(|(_, row)| value < row.next) {
            return Ok(());
        }
        Err(SequenceError::Refused(SequenceRefusal::NotGiven { above: value }))
    }

    /// Returns true if this server has had a value of the sequence above `value`.
    fn has_had_above(&self, key: &Key, value: i64) -> bool {
        let hash = hash_of(key.as_str().as_bytes());
        let mut shard = self.table.shard(hash);
        Table::find(&mut shard, hash, key.as_str()).is_some_and(|entry| entry.sequence.is_above(value))
    }

    /// Draws a range above `above`.
    async fn draw_above(
        &self,
        key: &Key,
        request: RangeRequest,
        above: i64,
        until: Instant,
    ) -> Result<Run, SequenceRefusal> {
        let mut first = 0;
        for _ in 0..FETCHES_MAX {
            let (run, has_earlier_fetch) = self.draw_range(key, request, until).await?;
            if run.first > above {
                return Ok(run);
            }
            first = run.first;
            if !has_earlier_fetch {
                break;
            }
        }
        Err(SequenceRefusal::NotAbove { above, first })
    }

    /// Draws a range. Also returns true if its values may be those of a fetch that was in flight before the draw.
    async fn draw_range(
        &self,
        key: &Key,
        request: RangeRequest,
        until: Instant,
    ) -> Result<(Run, bool), SequenceRefusal> {
        let began = Instant::now();
        let (draw, has_earlier_fetch) = self.begin_range(key, request)?;
        let runs = match draw {
            RangeDraw::Drawn(run) => vec![run],
            RangeDraw::Queued(receiver, place) => place.result(receiver, began, until).await?,
        };
        self.note_values(&runs);
        let run = runs.first().copied().ok_or(SequenceRefusal::Closed)?;
        Ok((run, has_earlier_fetch))
    }

    /// Skips the held values that are not above the requested value, and takes a range or joins the queue.
    fn begin_range<'a>(
        &'a self,
        key: &'a Key,
        request: RangeRequest,
    ) -> Result<(RangeDraw<'a>, bool), SequenceRefusal> {
        let (name, hash, now_ms) = (key.as_str(), hash_of(key.as_str().as_bytes()), self.now_ms());
        self.may_give(now_ms)?;
        let mut shard = self.table.shard(hash);
        if Table::find(&mut shard, hash, name).is_none() {
            self.table.insert(&mut shard, hash, name, now_ms).map_err(no_room)?;
        }
        let Some(entry) = Table::find(&mut shard, hash, name) else { return Err(SequenceRefusal::Closed) };
        let has_earlier_fetch = request.above.is_some_and(|above| entry.sequence.discard_up_to(above));
        if let Some(run) = entry.sequence.draw_range(now_ms, request.values) {
            self.enqueue_fetch(entry, hash, now_ms);
            return Ok((RangeDraw::Drawn(run), has_earlier_fetch));
        }
        let missing = [SequenceRequest { values: request.values, times: 1 }];
        let may = entry.sequence.may_wait(now_ms, &self.policy(), &missing);
        if may.is_err() {
            // A draw that may not wait causes a fetch nevertheless.
            self.enqueue_fetch(entry, hash, now_ms);
        }
        may?;
        let (sender, receiver) = oneshot::channel();
        let waiter = entry.sequence.join_range(request.values, sender);
        self.counts.waited();
        self.enqueue_fetch(entry, hash, now_ms);
        let place = QueuedDraw { sequences: self, hash, name, waiter, is_over: false };
        Ok((RangeDraw::Queued(receiver, place), has_earlier_fetch))
    }
}
