//! A bounded queue between the threads that log and the thread that writes.
//!
//! A thread that logs holds a lock only while it moves a line, and never waits for a reader, a disk or a daemon. A line
//! without room is dropped and counted. As soon as there is room, the count takes the dropped lines' place in the
//! order.
//!
//! Invariant: `lines.len() <= LINES_MAX` and the bytes of their texts are at most `BYTES_MAX`. Each line is followed by
//! at most one other entry of a kind (a count of dropped lines, a request to reopen the file).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most lines in the queue. At ten lines a second, which is much, they are some minutes.
pub(super) const LINES_MAX: usize = 2048;

/// The most bytes of queued lines together.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// What the writer does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueueItem {
    /// Write this line.
    Line(String),
    /// Report that so many lines were dropped here.
    Dropped(u64),
    /// Reopen the file.
    Reopen,
}

#[derive(Debug, Default)]
pub(super) struct LogQueue {
    state: Mutex<QueueState>,
    /// Notified when there is an entry, or the queue is closed.
    filled: Condvar,
    /// Notified when no entry is left.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    entries: VecDeque<QueueItem>,
    lines: usize,
    bytes: usize,
    /// Lines dropped since the last one that had room.
    dropped: u64,
    dropped_total: u64,
    /// Whether a request to reopen the file is queued.
    is_reopening: bool,
    /// Whether the writer is processing an entry.
    is_writing: bool,
    is_closed: bool,
}

impl LogQueue {
    /// Queues a line, or counts it as dropped.
    pub(super) fn push(&self, text: String) {
        let mut state = self.lock();
        if state.lines >= LINES_MAX || state.bytes + text.len() > BYTES_MAX {
            state.dropped += 1;
            state.dropped_total += 1;
            return;
        }
        state.report_dropped();
        state.lines += 1;
        state.bytes += text.len();
        state.entries.push_back(QueueItem::Line(text));
        drop(state);
        self.filled.notify_one();
    }

    /// Requests to reopen the file once the lines before are written. Requests that wait are merged.
    pub(super) fn reopen(&self) {
        let mut state = self.lock();
        if !state.is_reopening {
            state.is_reopening = true;
            state.report_dropped();
            state.entries.push_back(QueueItem::Reopen);
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Closes the queue: the writer ends when it has written the queued entries.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Waits for the next entry, for the writer. The entry before counts as done. `None`: the queue is closed and
    /// empty.
    pub(super) fn next(&self) -> Option<QueueItem> {
        let mut state = self.lock();
        state.is_writing = false;
        loop {
            if state.entries.is_empty() {
                state.report_dropped();
            }
            if let Some(entry) = state.entries.pop_front() {
                match &entry {
                    QueueItem::Line(text) => {
                        state.lines -= 1;
                        state.bytes -= text.len();
                    }
                    QueueItem::Reopen => state.is_reopening = false,
                    QueueItem::Dropped(_) => {}
                }
                state.is_writing = true;
                return Some(entry);
            }
            self.emptied.notify_all();
            if state.is_closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits up to `timeout` until all entries are written; returns whether they are.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        let mut state = self.lock();
        while !state.entries.is_empty() || state.is_writing || state.dropped > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (state, _) = self.emptied.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Counts a line that the writer could not write.
    pub(super) fn count_unwritten(&self) {
        self.lock().dropped_total += 1;
    }

    /// Returns the number of lines that were dropped or could not be written since the start.
    pub(super) fn dropped_total(&self) -> u64 {
        self.lock().dropped_total
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // No code here panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn report_dropped(&mut self) {
        if self.dropped > 0 {
            self.entries.push_back(QueueItem::Dropped(std::mem::take(&mut self.dropped)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(queue: &LogQueue) -> String {
        match queue.next() {
            Some(QueueItem::Line(text)) => text,
            Some(QueueItem::Dropped(count)) => format!("{count} dropped"),
            Some(QueueItem::Reopen) => "reopen".to_owned(),
            None => "end".to_owned(),
        }
    }

    #[test]
    fn lines_without_room_are_counted_in_their_place() {
        let queue = LogQueue::default();
        for at in 0..LINES_MAX + 3 {
            queue.push(at.to_string());
        }
        assert_eq!((line(&queue), line(&queue)), ("0".to_owned(), "1".to_owned()));
        queue.push("later".to_owned());
        queue.reopen();
        queue.reopen();
        for at in 2..LINES_MAX {
            assert_eq!(line(&queue), at.to_string());
        }
        assert_eq!([line(&queue), line(&queue), line(&queue)], ["3 dropped", "later", "reopen"]);
        assert_eq!(queue.dropped_total(), 3);
        queue.close();
        assert_eq!(line(&queue), "end");
    }

    #[test]
    fn bytes_have_a_bound_too_and_a_count_needs_no_line_behind_it() {
        let queue = LogQueue::default();
        let half = "x".repeat(BYTES_MAX / 2);
        for _ in 0..5 {
            queue.push(half.clone());
        }
        assert_eq!([line(&queue).len(), line(&queue).len()], [half.len(); 2]);
        assert_eq!(line(&queue), "3 dropped");
        queue.push(half.clone() + &half + "x");
        assert_eq!(line(&queue), "1 dropped", "one line above the bound alone");
    }

    #[test]
    fn a_flush_has_a_bound_and_waits_for_the_entry_in_progress() {
        let queue = LogQueue::default();
        assert!(queue.flush(Duration::ZERO));
        queue.push("x".to_owned());
        assert!(!queue.flush(Duration::from_millis(1)), "no writer runs");
        assert_eq!(line(&queue), "x");
        assert!(!queue.flush(Duration::from_millis(1)), "the entry is being written");
        queue.close();
        assert_eq!(line(&queue), "end");
        assert!(queue.flush(Duration::ZERO));
    }
}
