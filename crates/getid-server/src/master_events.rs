//! Messages that the server publishes to subscribers: Sentinel's events, when a server-id has another master.
//!
//! The last messages are kept once for all subscribers. A subscriber's connection notes how far it has read, and picks
//! the messages of its channels when it has nothing else to do. So a subscriber that does not read costs no memory and
//! delays no other client. One that missed a message is closed: its library subscribes again, and asks for the master.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of messages kept: two for each of two changes of all the 1024 claims of a list. With host names of
/// the longest kind they take 4 MB.
const MESSAGES_MAX: usize = 4096;

/// A message for the subscribers of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterEvent {
    pub channel: &'static str,
    pub text: String,
}

/// The published messages, and the number of subscribers.
#[derive(Debug, Default)]
pub struct MasterEvents {
    /// Number of messages published so far.
    published: AtomicU64,
    recent: Mutex<VecDeque<Arc<MasterEvent>>>,
    subscribers: AtomicUsize,
}

/// A subscriber's position among the messages; dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    events: Arc<MasterEvents>,
    /// Number of messages published before the first one that it has not taken.
    position: u64,
}

/// A subscriber was too slow: messages that it has not taken are no longer kept.
#[derive(Debug, PartialEq, Eq)]
pub struct MissedMessages;

impl MasterEvents {
    /// Adds messages. The caller wakes the subscribers.
    pub fn publish(&self, messages: impl IntoIterator<Item = MasterEvent>) {
        let mut recent = self.lock();
        for message in messages {
            recent.push_back(Arc::new(message));
            if recent.len() > MESSAGES_MAX {
                recent.pop_front();
            }
            self.published.fetch_add(1, Relaxed);
        }
    }

    /// Adds a subscriber, which gets the messages published from now on.
    pub fn subscribe(self: &Arc<Self>) -> Subscription {
        self.subscribers.fetch_add(1, Relaxed);
        let _recent = self.lock();
        Subscription { events: Arc::clone(self), position: self.published.load(Relaxed) }
    }

    /// Returns true if there is any subscriber.
    pub fn has_subscribers(&self) -> bool {
        self.subscribers.load(Relaxed) > 0
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<MasterEvent>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// Returns the next message. Without one it costs one atomic load.
    ///
    /// # Errors
    ///
    /// [`MissedMessages`] if the next one is no longer kept.
    pub fn take(&mut self) -> Result<Option<Arc<MasterEvent>>, MissedMessages> {
        if self.events.published.load(Relaxed) == self.position {
            return Ok(None);
        }
        let recent = self.events.lock();
        let behind = self.events.published.load(Relaxed) - self.position;
        let behind = usize::try_from(behind).unwrap_or(usize::MAX);
        let from = recent.len().checked_sub(behind).ok_or(MissedMessages)?;
        let message = recent.get(from).map(Arc::clone);
        self.position += u64::from(message.is_some());
        Ok(message)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.events.subscribers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(numbers: std::ops::Range<usize>) -> impl Iterator<Item = MasterEvent> {
        numbers.map(|number| MasterEvent { channel: "+switch-master", text: number.to_string() })
    }

    #[test]
    fn a_subscriber_takes_each_message_once_and_in_order() {
        let events = Arc::<MasterEvents>::default();
        events.publish(messages(0..10));
        let mut subscription = events.subscribe();
        assert_eq!(subscription.take(), Ok(None));
        events.publish(messages(10..1000));
        let taken = std::iter::from_fn(|| subscription.take().unwrap());
        assert!(taken.map(|message| MasterEvent::clone(&message)).eq(messages(10..1000)));
        assert!(events.has_subscribers());
        drop(subscription);
        assert!(!events.has_subscribers());
    }

    #[test]
    fn a_subscriber_that_does_not_read_costs_no_memory_and_learns_that_it_missed_messages() {
        let events = Arc::<MasterEvents>::default();
        let (mut slow, mut late) = (events.subscribe(), events.subscribe());
        events.publish(messages(0..MESSAGES_MAX));
        assert!(slow.take().unwrap().is_some());
        events.publish(messages(0..1));
        assert_eq!(events.lock().len(), MESSAGES_MAX);
        assert!(slow.take().unwrap().is_some());
        assert_eq!(late.take(), Err(MissedMessages));
    }
}
