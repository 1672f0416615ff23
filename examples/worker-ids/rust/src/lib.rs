//! IDs of the crate snowflaked with a worker id that getid leases (docs/worker-ids.md).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{error, fmt};

use redis::{Client, Connection, RedisError, RedisResult, cmd};
use snowflaked::{Generator, Snowflake};

/// The reason why there is no ID now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoId {
    /// The worker is closed.
    Closed,
    /// The clock is past the end of a new lease.
    ClockAhead { id: u16, by_ms_at_least: u64 },
    /// The clock is behind the first time of an ID: the start of the lease, or the newest ID.
    ClockBehind { id: u16, by_ms: u64 },
    /// The lease is over and not renewed.
    Over { id: u16, error: String },
    /// The generator made no valid ID in 100 tries.
    Busy { id: u16 },
}

impl fmt::Display for NoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: &u64| Duration::from_millis(*ms).as_secs_f64();
        match self {
            NoId::Closed => write!(f, "no ID: this worker is closed"),
            NoId::ClockAhead { id, by_ms_at_least } => write!(
                f,
                "no ID of worker id {id}: this machine's clock is at least {} s ahead of the server's, past the end of \
                 a lease that was just given. Set the clock (timedatectl set-ntp true), or give the pool a lease that \
                 is longer than the difference",
                seconds(by_ms_at_least)
            ),
            NoId::ClockBehind { id, by_ms } => write!(
                f,
                "no ID of worker id {id}: this machine's clock is {} s behind the first time that an ID may have. Set \
                 the clock (timedatectl set-ntp true), or wait",
                seconds(by_ms)
            ),
            NoId::Over { id, error } => {
                write!(f, "no ID of worker id {id}: the lease is over and not renewed, last error: {error}")
            }
            NoId::Busy { id } => write!(f, "no ID of worker id {id}: the generator made none in 100 tries; try again"),
        }
    }
}

impl error::Error for NoId {}

/// A lease, and its generator.
struct Lease {
    id: u16,
    token: String,
    not_before: u64,
    not_after: u64,
    generator: Generator,
    last: u64,
}

struct State {
    lease: Lease,
    /// Distance of the clock past the lease's end before the server set that end. `Some`: the clock is wrong.
    ahead_ms: Option<u64>,
    /// The error of the last request, if it failed.
    trouble: Option<String>,
    closed: bool,
}

struct Shared {
    client: Client,
    pool: String,
    name: String,
    lease: Duration,
    timeout: Duration,
    /// Never locked during a request.
    state: Mutex<State>,
    closing: Condvar,
}

/// Leases a worker id, renews it, and gives IDs of a generator with it. Threads share it by reference or `Arc`.
pub struct Worker {
    shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

fn connect(client: &Client, timeout: Duration) -> RedisResult<Connection> {
    let connection = client.get_connection_with_timeout(timeout)?;
    connection.set_read_timeout(Some(timeout))?;
    connection.set_write_timeout(Some(timeout))?;
    Ok(connection)
}

fn lease(client: &Client, timeout: Duration, pool: &str, name: &str) -> RedisResult<(Lease, Option<u64>)> {
    let asked_at = now_ms();
    let (id, token, not_before, not_after, _lease_ms): (u16, String, u64, u64, u64) =
        cmd("WORKERID").arg("LEASE").arg(pool).arg("NAME").arg(name).query(&mut connect(client, timeout)?)?;
    let generator = Generator::builder().instance(id).epoch(UNIX_EPOCH).build();
    let last = not_before.saturating_sub(1);
    Ok((Lease { id, token, not_before, not_after, generator, last }, asked_at.checked_sub(not_after)))
}

impl Worker {
    /// `lease` is the lease of the pool. Each request waits at most `timeout` for its reply, and `close` waits for one
    /// request.
    pub fn start(client: Client, pool: &str, name: &str, lease: Duration, timeout: Duration) -> RedisResult<Worker> {
        let (first, ahead_ms) = self::lease(&client, timeout, pool, name)?;
        let state = Mutex::new(State { lease: first, ahead_ms, trouble: None, closed: false });
        let (pool, name) = (pool.to_owned(), name.to_owned());
        let shared = Arc::new(Shared { client, pool, name, lease, timeout, state, closing: Condvar::new() });
        let keeper = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.keep()
        });
        Ok(Worker { shared, keeper: Mutex::new(Some(keeper)) })
    }

    /// Returns the worker id.
    pub fn id(&self) -> u16 {
        self.shared.state().lease.id
    }

    /// Returns an ID. An ID outside the lease is discarded.
    pub fn next(&self) -> Result<u64, NoId> {
        for _ in 0..100 {
            let mut state = self.shared.state();
            if state.closed {
                break;
            }
            let lease = &mut state.lease;
            // The clock is checked first, because the generator waits forever if it was set back.
            if (lease.not_before..lease.not_after).contains(&now_ms()) && now_ms() >= lease.last {
                let id: u64 = lease.generator.generate();
                if (lease.not_before..lease.not_after).contains(&id.timestamp()) {
                    lease.last = id.timestamp();
                    return Ok(id);
                }
            }
            drop(state);
            thread::sleep(Duration::from_millis(1));
        }
        Err(self.shared.state().why_none())
    }

    /// Stops giving IDs, waits for a running renewal, and gives the worker id back.
    pub fn close(&self) -> RedisResult<()> {
        // From here on LAST does not change.
        self.shared.state().closed = true;
        self.shared.closing.notify_all();
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            keeper.join().map_err(|_| RedisError::from((redis::ErrorKind::Client, "the renewing thread panicked")))?;
        }
        self.shared.show("RELEASE").map(drop)
    }
}

impl State {
    fn why_none(&self) -> NoId {
        let Lease { id, not_before, not_after, last, .. } = self.lease;
        let (now, first) = (now_ms(), not_before.max(last));
        match self.ahead_ms {
            _ if self.closed => NoId::Closed,
            Some(by_ms_at_least) if now >= not_after => NoId::ClockAhead { id, by_ms_at_least },
            _ if now >= not_after => NoId::Over { id, error: self.trouble.clone().unwrap_or_default() },
            _ if now < first => NoId::ClockBehind { id, by_ms: first - now },
            _ => NoId::Busy { id },
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, what: &str) -> RedisResult<redis::Value> {
        let mut words = cmd("WORKERID");
        {
            let Lease { id, token, last, .. } = &self.state().lease;
            words.arg(what).arg(&self.pool).arg(id).arg(token).arg("LAST").arg(last);
        }
        words.query(&mut connect(&self.client, self.timeout)?)
    }

    /// Waits for a third of the remaining lease, within bounds that do not depend on the clock, which may be wrong.
    /// Returns whether to renew.
    fn pause(&self) -> bool {
        let second = Duration::from_secs(1);
        let mut state = self.state();
        let left = Duration::from_millis(state.lease.not_after.saturating_sub(now_ms()) / 3);
        let end = Instant::now() + left.clamp(second, (self.lease / 3).max(second));
        while !state.closed {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.closing.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn keep(&self) {
        while self.pause() {
            let Err(error) = self.renew() else { continue };
            // The lease lasts to its end after any error. After it there are no IDs until the next lease.
            let is_over = {
                let mut state = self.state();
                state.trouble = Some(error.to_string());
                is_lost(&error) && now_ms() >= state.lease.not_after && !state.closed
            };
            if is_over {
                let leased = lease(&self.client, self.timeout, &self.pool, &self.name);
                let mut state = self.state();
                match leased {
                    // A worker that was closed meanwhile gives the id back unused.
                    Ok((lease, ahead_ms)) => (state.lease, state.ahead_ms, state.trouble) = (lease, ahead_ms, None),
                    Err(error) => state.trouble = Some(error.to_string()),
                }
            }
        }
    }

    fn renew(&self) -> RedisResult<()> {
        let asked_at = now_ms();
        let (not_after,): (u64,) = redis::from_redis_value(self.show("RENEW")?)?;
        let mut state = self.state();
        if !state.closed {
            state.lease.not_after = not_after;
            (state.ahead_ms, state.trouble) = (asked_at.checked_sub(not_after), None);
        }
        Ok(())
    }
}

fn is_lost(error: &RedisError) -> bool {
    matches!(error.code(), Some("EXPIRED" | "REVOKED" | "WRONGTOKEN"))
}
