//! A queue of requests that share transactions: those that arrive while one is under way form the next batch.
//!
//! A commit costs a store one write to disk, whatever the number of requests in it. So a request does not wait for
//! others, and under load a batch grows by itself. A batch takes one request of each client in turn, so that a client
//! with thousands of requests delays the one of another client by a batch at most.
//!
//! Elsewhere: the transaction, which the task that calls [`Batcher::next`] runs.
//!
//! Invariants: a request is in at most one batch. A request that has left the queue by itself is in none.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

/// Bounds of a [`Batcher`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchLimits {
    /// Most cost of the requests in one batch. A request that costs more is a batch of its own.
    pub(super) cost_max: usize,
    /// Most requests that wait.
    pub(super) waiting_max: usize,
}

/// Reason why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchError {
    /// The queue is full. Nothing was done.
    Busy {
        /// Number of requests that wait.
        waiting: usize,
    },
    /// The deadline passed before a batch took the request. Nothing was done.
    Late,
    /// A batch took the request, and has not answered by the deadline, or has ended without an answer.
    Unknown,
    /// The server stops. Nothing was done.
    Closed,
}

/// Receiver of an answer, or of the reason for which there is none.
type Receiver<Answer> = oneshot::Receiver<Result<Answer, BatchError>>;

/// The queue. `Ask` is a request, `Answer` what its client gets.
pub(super) struct Batcher<Ask, Answer> {
    queue: Mutex<Queue<Ask, Answer>>,
    /// Notified when a request joins.
    ready: Notify,
    limits: BatchLimits,
    is_closed: AtomicBool,
}

/// Channels to the clients of a batch.
pub(super) struct Replies<Answer>(Vec<Reply<Answer>>);

/// Channel to a client.
type Reply<Answer> = oneshot::Sender<Result<Answer, BatchError>>;

struct Queue<Ask, Answer> {
    /// The waiting requests of each client, in the order of their arrival. None is empty.
    clients: HashMap<Arc<str>, VecDeque<Waiting<Ask, Answer>>>,
    /// The clients with waiting requests, each once; the first has the next turn.
    turns: VecDeque<Arc<str>>,
    /// Number of waiting requests.
    waiting: usize,
    /// Number of requests that have joined.
    joined: u64,
}

struct Waiting<Ask, Answer> {
    id: u64,
    cost: usize,
    ask: Ask,
    reply: Reply<Answer>,
}

/// A place in the queue. Dropping it leaves the queue.
struct Place<'a, Ask, Answer> {
    batcher: &'a Batcher<Ask, Answer>,
    client: Arc<str>,
    id: u64,
}

impl<Ask, Answer> Batcher<Ask, Answer> {
    pub(super) fn new(limits: BatchLimits) -> Batcher<Ask, Answer> {
        let queue = Queue { clients: HashMap::new(), turns: VecDeque::new(), waiting: 0, joined: 0 };
        Batcher { queue: Mutex::new(queue), ready: Notify::new(), limits, is_closed: AtomicBool::new(false) }
    }

    /// Queues a request, and waits for its answer until `deadline` at most. `client` is the key of fairness. Dropping
    /// the future leaves the queue; a request that a batch has taken is done nevertheless.
    pub(super) async fn call(
        &self,
        client: &str,
        cost: usize,
        ask: Ask,
        deadline: Instant,
    ) -> Result<Answer, BatchError> {
        let (mut receiver, place) = self.join(client, cost, ask)?;
        match timeout_at(deadline, &mut receiver).await {
            Ok(answer) => answer.unwrap_or(Err(BatchError::Unknown)),
            Err(_) if place.leave() => Err(BatchError::Late),
            // A batch may have answered at the same moment.
            Err(_) => receiver.try_recv().unwrap_or(Err(BatchError::Unknown)),
        }
    }

    fn join(
        &self,
        client: &str,
        cost: usize,
        ask: Ask,
    ) -> Result<(Receiver<Answer>, Place<'_, Ask, Answer>), BatchError> {
        let (reply, receiver) = oneshot::channel();
        let mut queue = self.lock();
        if self.is_closed.load(Relaxed) {
            return Err(BatchError::Closed);
        }
        if queue.waiting >= self.limits.waiting_max {
            return Err(BatchError::Busy { waiting: queue.waiting });
        }
        let id = queue.joined;
        queue.joined += 1;
        queue.waiting += 1;
        let waiting = Waiting { id, cost, ask, reply };
        let client = if let Some(client) = queue.clients.get_key_value(client).map(|(client, _)| Arc::clone(client)) {
            client
        } else {
            let client = Arc::<str>::from(client);
            queue.turns.push_back(Arc::clone(&client));
            client
        };
        queue.clients.entry(Arc::clone(&client)).or_default().push_back(waiting);
        drop(queue);
        self.ready.notify_one();
        Ok((receiver, Place { batcher: self, client, id }))
    }

    /// Waits until there is a request. The caller then waits for a connection, while the batch grows, and takes it.
    pub(super) async fn ready(&self) {
        while self.waiting() == 0 {
            self.ready.notified().await;
        }
    }

    /// Takes a batch of the waiting requests; `None` if there are none. A batch whose [`Replies`] are dropped has an
    /// unknown outcome.
    pub(super) fn next(&self) -> Option<(Vec<Ask>, Replies<Answer>)> {
        let mut queue = self.lock();
        let (mut asks, mut replies, mut cost) = (Vec::new(), Vec::new(), 0_usize);
        while let Some(client) = queue.turns.front().cloned() {
            let Some(waiting) = queue.clients.get_mut(&client) else { break };
            let Some(first) = waiting.front() else { break };
            if !asks.is_empty() && cost.saturating_add(first.cost) > self.limits.cost_max {
                break;
            }
            cost = cost.saturating_add(first.cost);
            if let Some(Waiting { ask, reply, .. }) = waiting.pop_front() {
                asks.push(ask);
                replies.push(reply);
            }
            let is_empty = waiting.is_empty();
            queue.turns.pop_front();
            if is_empty {
                queue.clients.remove(&client);
            } else {
                queue.turns.push_back(client);
            }
            queue.waiting -= 1;
        }
        if queue.waiting > 0 {
            // Another task may take the rest.
            self.ready.notify_one();
        }
        (!asks.is_empty()).then_some((asks, Replies(replies)))
    }

    /// Refuses the waiting requests and all later ones.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        self.is_closed.store(true, Relaxed);
        queue.turns.clear();
        queue.waiting = 0;
        for waiting in std::mem::take(&mut queue.clients).into_values().flatten() {
            let _ = waiting.reply.send(Err(BatchError::Closed));
        }
    }

    /// Returns the number of waiting requests.
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    fn lock(&self) -> MutexGuard<'_, Queue<Ask, Answer>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Answer> Replies<Answer> {
    /// Sends the answers, in the order of the requests. A request without one has an unknown outcome.
    pub(super) fn send(self, answers: impl IntoIterator<Item = Answer>) {
        for (reply, answer) in self.0.into_iter().zip(answers) {
            // A client that has left gets no answer.
            let _ = reply.send(Ok(answer));
        }
    }
}

impl<Ask, Answer> Place<'_, Ask, Answer> {
    /// Leaves the queue. Returns false if a batch has the request, or had it.
    fn leave(&self) -> bool {
        let mut queue = self.batcher.lock();
        let Some(waiting) = queue.clients.get_mut(&self.client) else { return false };
        let Ok(at) = waiting.binary_search_by_key(&self.id, |waiting| waiting.id) else { return false };
        waiting.remove(at);
        if waiting.is_empty() {
            queue.clients.remove(&self.client);
            queue.turns.retain(|client| *client != self.client);
        }
        queue.waiting -= 1;
        true
    }
}

impl<Ask, Answer> Drop for Place<'_, Ask, Answer> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use super::*;

    const LIMITS: BatchLimits = BatchLimits { cost_max: 4, waiting_max: 6 };

    fn far() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    /// Polls a future once, which must not be ready.
    macro_rules! join {
        ($future:expr) => {{
            let mut future = Box::pin($future);
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            future
        }};
    }

    #[tokio::test]
    async fn each_client_has_a_turn_in_a_batch() {
        let batcher = Batcher::<u32, u32>::new(LIMITS);
        let mut calls = Vec::new();
        for (client, ask) in [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 5)] {
            calls.push(join!(batcher.call(client, 1, ask, far())));
        }
        let (asks, replies) = batcher.next().unwrap();
        assert_eq!(asks, [1, 5, 2, 3]);
        replies.send(asks.into_iter().map(|ask| ask * 10));
        assert_eq!(calls.remove(0).await, Ok(10));
        assert_eq!(calls.pop().unwrap().await, Ok(50));
        assert_eq!(batcher.next().unwrap().0, [4]);
        assert!(batcher.next().is_none());
    }

    #[tokio::test]
    async fn a_batch_ends_at_its_cost_and_a_costly_request_is_alone() {
        let batcher = Batcher::<u32, u32>::new(LIMITS);
        let mut calls = Vec::new();
        for cost in [3_usize, 1, 1, 9, 2] {
            calls.push(join!(batcher.call("a", cost, 0, far())));
        }
        let sizes: Vec<usize> = std::iter::from_fn(|| batcher.next()).map(|(asks, _)| asks.len()).collect();
        assert_eq!(sizes, [2, 1, 1, 1]);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_and_a_place_that_is_left_is_free() {
        let batcher = Batcher::<u32, u32>::new(LIMITS);
        let mut calls = Vec::new();
        for ask in 0..6 {
            calls.push(join!(batcher.call("a", 1, ask, far())));
        }
        assert_eq!(batcher.call("b", 1, 9, far()).await, Err(BatchError::Busy { waiting: 6 }));
        drop(calls.remove(2));
        let _last = join!(batcher.call("b", 1, 9, far()));
        assert_eq!(batcher.next().unwrap().0, [0, 9, 1, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_in_the_queue_does_nothing_and_one_in_a_batch_is_unknown() {
        let batcher = Batcher::<u32, u32>::new(LIMITS);
        let soon = Instant::now() + Duration::from_millis(5);
        let mut taken = join!(batcher.call("a", 1, 1, soon));
        let (_, _replies) = batcher.next().unwrap();
        let mut waiting = join!(batcher.call("a", 1, 2, soon));
        assert_eq!(taken.as_mut().await, Err(BatchError::Unknown));
        assert_eq!(waiting.as_mut().await, Err(BatchError::Late));
        assert!(batcher.next().is_none());
    }

    #[tokio::test]
    async fn a_batch_without_answers_is_unknown_and_a_stop_refuses_what_waits() {
        let batcher = Batcher::<u32, u32>::new(LIMITS);
        let taken = join!(batcher.call("a", 1, 1, far()));
        drop(batcher.next());
        assert_eq!(taken.await, Err(BatchError::Unknown));
        let waiting = join!(batcher.call("a", 1, 2, far()));
        batcher.close();
        assert_eq!(waiting.await, Err(BatchError::Closed));
        assert_eq!(batcher.call("a", 1, 3, far()).await, Err(BatchError::Closed));
        assert!(batcher.next().is_none() && batcher.waiting() == 0);
    }

    #[tokio::test]
    async fn a_task_waits_for_a_request() {
        let batcher = Batcher::<u32, u32>::new(LIMITS);
        let mut ready = pin!(batcher.ready());
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(ready.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        let _call = join!(batcher.call("a", 1, 1, far()));
        ready.await;
    }
}
