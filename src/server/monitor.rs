//! MONITOR: clients that see every command.
//!
//! Whoever runs commands puts its lines into the queue of each monitor and goes on; the monitor's own connection writes
//! them. A queue has a bound, and a monitor that lets it fill is dropped: it never holds anybody up, and never costs more
//! memory than that. While nobody monitors, all of it costs the others one relaxed load a read.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clients::{Client, Stop};

/// Bytes that a monitor may be behind.
pub const MONITOR_BYTES_MAX: usize = 4 << 20;

/// All clients that monitor.
#[derive(Debug, Default)]
pub struct Monitors {
    count: AtomicUsize,
    all: Mutex<Vec<Arc<Queue>>>,
    dropped: AtomicU64,
}

/// The lines that one monitor has not been sent yet.
#[derive(Debug)]
struct Queue {
    client: Arc<Client>,
    lines: Mutex<Vec<u8>>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's place among the monitors; dropping it gives the place back.
#[derive(Debug)]
pub struct Monitoring {
    monitors: Arc<Monitors>,
    queue: Arc<Queue>,
}

impl Monitors {
    /// Whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        self.count() > 0
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// How many were dropped because they did not keep up.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// From now on the client is fed.
    pub fn add(self: &Arc<Self>, client: &Arc<Client>) -> Monitoring {
        let queue = Arc::new(Queue { client: Arc::clone(client), lines: Mutex::default() });
        let mut all = self.lock();
        all.push(Arc::clone(&queue));
        self.count.store(all.len(), Relaxed);
        Monitoring { monitors: Arc::clone(self), queue }
    }

    /// Gives lines to all; one whose queue they do not fit into is dropped.
    pub fn feed(&self, lines: &[u8]) {
        let mut slow = Vec::new();
        let mut all = self.lock();
        all.retain(|monitor| {
            let mut queue = monitor.lock();
            if queue.len() + lines.len() <= MONITOR_BYTES_MAX {
                let was_empty = queue.is_empty();
                queue.extend_from_slice(lines);
                drop(queue);
                if was_empty {
                    monitor.client.wake();
                }
                return true;
            }
            *queue = Vec::new();
            drop(queue);
            slow.push(Arc::clone(&monitor.client));
            false
        });
        self.count.store(all.len(), Relaxed);
        // Not a lock to hold while a log line is written: its reader may be slow.
        drop(all);
        for client in slow {
            self.dropped.fetch_add(1, Relaxed);
            tracing::warn!("client {} at {} does not keep up with MONITOR and is closed", client.id, client.peer);
            client.stop(Stop::Now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Monitoring {
    /// Moves the lines that wait to `output`; false when there are none.
    pub fn take(&self, output: &mut Vec<u8>) -> bool {
        let lines = mem::take(&mut *self.queue.lock());
        output.extend_from_slice(&lines);
        !lines.is_empty()
    }
}

impl Drop for Monitoring {
    fn drop(&mut self) {
        let mut all = self.monitors.lock();
        all.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        self.monitors.count.store(all.len(), Relaxed);
    }
}
