//! MONITOR: clients that see every command.
//!
//! A connection that runs commands appends their lines to the queue of each monitor and continues; the monitor's own
//! connection writes them. Each queue has a bound, and so have all of them together; a monitor above it is dropped. So
//! a monitor never delays another client, and its memory is bounded. Without monitors, the cost is one relaxed load a
//! read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::registry::{Client, StopMode};

/// Maximum size of a monitor's queue, bytes.
pub(super) const MONITOR_BYTES_MAX: usize = 4 << 20;

/// Maximum size of all queues together, bytes. Above it, the monitor with the longest queue is dropped first.
pub const MONITORS_BYTES_MAX: usize = 16 << 20;

/// Maximum number of monitors at a time: a connection that runs a command writes its lines to each of them while others
/// wait. Ten thousand would hold a thread for a second, and a line of 64 KiB would be 600 MB before the first of them
/// is dropped.
pub(super) const MONITORS_MAX: usize = 64;

/// Size that a monitor's connection takes at a time, and the capacity that an empty queue keeps, bytes.
const DRAIN_BYTES_MAX: usize = 64 << 10;

/// All clients that monitor.
#[derive(Debug, Default)]
pub struct Monitors {
    count: AtomicUsize,
    all: Mutex<Vec<Arc<MonitorQueue>>>,
    dropped: AtomicU64,
}

/// Lines that one monitor has not been sent yet.
#[derive(Debug)]
struct MonitorQueue {
    client: Arc<Client>,
    lines: Mutex<VecDeque<u8>>,
}

impl MonitorQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's place among the monitors; dropping it frees the place.
#[derive(Debug)]
pub struct MonitorSlot {
    monitors: Arc<Monitors>,
    queue: Arc<MonitorQueue>,
}

impl Monitors {
    /// Returns true if there is any monitor.
    #[inline]
    pub fn any(&self) -> bool {
        self.count() > 0
    }

    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Returns the number of monitors that were dropped because they did not keep up.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Adds a client, which is fed from now on. Returns `None` if there are `MONITORS_MAX` already.
    pub fn add(self: &Arc<Self>, client: &Arc<Client>) -> Option<MonitorSlot> {
        let mut all = self.lock();
        if all.len() >= MONITORS_MAX {
            return None;
        }
        let queue = Arc::new(MonitorQueue { client: Arc::clone(client), lines: Mutex::default() });
        all.push(Arc::clone(&queue));
        self.count.store(all.len(), Relaxed);
        Some(MonitorSlot { monitors: Arc::clone(self), queue })
    }

    /// Appends lines to all queues. Drops the monitors whose queues they do not fit into, and, while all queues
    /// together are too long, the one with the longest. Returns the dropped ones.
    #[must_use]
    pub fn feed(&self, lines: &[u8]) -> Vec<Arc<Client>> {
        let mut dropped = Vec::new();
        let mut all = self.lock();
        let mut total = 0;
        let mut at = 0;
        while let Some(monitor) = all.get(at) {
            let mut queue = monitor.lock();
            if queue.len() + lines.len() > MONITOR_BYTES_MAX {
                drop(queue);
                dropped.push(all.swap_remove(at));
                continue;
            }
            let was_empty = queue.is_empty();
            queue.extend(lines);
            total += queue.len();
            drop(queue);
            if was_empty {
                monitor.client.wake();
            }
            at += 1;
        }
        while total > MONITORS_BYTES_MAX {
            let behind = all.iter().enumerate().map(|(at, monitor)| (monitor.lock().len(), at));
            let Some((bytes, at)) = behind.max() else { break };
            // The monitors continue to take lines meanwhile.
            total = total.saturating_sub(bytes.max(1));
            dropped.push(all.swap_remove(at));
        }
        self.count.store(all.len(), Relaxed);
        drop(all);
        let ended = dropped.into_iter().map(|monitor| {
            *monitor.lock() = VecDeque::new();
            self.dropped.fetch_add(1, Relaxed);
            monitor.client.stop(StopMode::Now);
            Arc::clone(&monitor.client)
        });
        ended.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<MonitorQueue>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MonitorSlot {
    /// Moves waiting lines to `output`, up to a bound. Returns false if there are none.
    pub fn take(&self, output: &mut Vec<u8>) -> bool {
        let mut queue = self.queue.lock();
        let count = queue.len().min(DRAIN_BYTES_MAX);
        let (front, back) = queue.as_slices();
        let front = &front[..count.min(front.len())];
        output.extend_from_slice(front);
        output.extend_from_slice(&back[..count - front.len()]);
        queue.drain(..count);
        if queue.is_empty() {
            queue.shrink_to(DRAIN_BYTES_MAX);
        }
        count > 0
    }
}

impl Drop for MonitorSlot {
    fn drop(&mut self) {
        let mut all = self.monitors.lock();
        all.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        self.monitors.count.store(all.len(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Clients, ConnectionAddr, SocketInfo};
    use getid_redis::session::Session;

    fn monitors(count: usize) -> (Arc<Monitors>, Vec<MonitorSlot>) {
        let (clients, monitors) = (Arc::<Clients>::default(), Arc::<Monitors>::default());
        let end = || ConnectionAddr::Unix(Arc::default());
        let ends = || SocketInfo { peer: end(), local: end(), fd: 0 };
        let settings = Arc::new(crate::settings::session_settings(&getid_config::Config::default()).unwrap());
        let add = |_| {
            let view = Session::new(clients.next_id(), Arc::clone(&settings)).view().clone();
            let admission = clients.admit(view, ends(), 0, usize::MAX).unwrap();
            monitors.add(&admission.client).expect("there is room")
        };
        let all = (0..count).map(add).collect();
        (monitors, all)
    }

    #[test]
    fn lines_arrive_in_order_and_in_chunks() {
        let (monitors, all) = monitors(1);
        let lines: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let (mut received, mut rounds) = (Vec::new(), 0);
        for piece in lines.chunks(100_000) {
            assert!(monitors.feed(piece).is_empty());
            let before = received.len();
            assert!(all[0].take(&mut received));
            assert!(received.len() - before <= DRAIN_BYTES_MAX);
        }
        while all[0].take(&mut received) {
            rounds += 1;
        }
        assert!(received == lines && rounds > 10);
        assert!(all[0].queue.lock().capacity() <= DRAIN_BYTES_MAX);
    }

    #[test]
    fn all_queues_together_are_bounded_and_the_longest_is_dropped_first() {
        let (monitors, all) = monitors(20);
        let (lines, mut output) = (vec![b'x'; 50_000], Vec::new());
        for round in 0..39 {
            let _ = monitors.feed(&lines);
            // These keep up.
            for monitor in all[3..].iter().filter(|_| round < 20) {
                assert!(monitor.take(&mut output));
            }
            output.clear();
            let behind: usize = all.iter().map(|monitor| monitor.queue.lock().len()).sum();
            assert!(behind <= MONITORS_BYTES_MAX, "{behind}");
        }
        assert_eq!((monitors.dropped(), monitors.count()), (3, 17));
        assert!(all[..3].iter().all(|monitor| monitor.queue.client.stopping() == StopMode::Now));
    }
}
