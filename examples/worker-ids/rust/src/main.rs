//! IDs of the crate snowflaked with a worker id that getid leases (docs/worker-ids.md).

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, process, thread};

use redis::{Client, RedisError, RedisResult, cmd};
use snowflaked::{Generator, Snowflake};

/// A lease, and the generator that goes with it.
struct Lease {
    id: u16,
    token: String,
    not_before: u64,
    not_after: u64,
    generator: Generator,
    last: u64,
}

/// Leases a worker id, renews it, and gives IDs of a generator with it.
#[derive(Clone)]
struct Worker {
    client: Client,
    pool: &'static str,
    name: String,
    lease: Arc<Mutex<Lease>>,
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

fn lease(client: &Client, pool: &str, name: &str) -> RedisResult<Lease> {
    let mut connection = client.get_connection()?;
    let (id, token, not_before, not_after): (u16, String, u64, u64) =
        cmd("WORKERID").arg("LEASE").arg(pool).arg("NAME").arg(name).query(&mut connection)?;
    let generator = Generator::builder().instance(id).epoch(UNIX_EPOCH).build();
    Ok(Lease { id, token, not_before, not_after, generator, last: not_before.saturating_sub(1) })
}

impl Worker {
    fn start(client: Client, pool: &'static str, name: String) -> RedisResult<Worker> {
        let lease = Arc::new(Mutex::new(lease(&client, pool, &name)?));
        let worker = Worker { client, pool, name, lease };
        let keeper = worker.clone();
        thread::spawn(move || keeper.keep());
        Ok(worker)
    }

    fn show(&self, what: &str) -> RedisResult<redis::Value> {
        let words = {
            let lease = self.lease.lock().unwrap();
            (what.to_owned(), self.pool, lease.id, lease.token.clone(), "LAST", lease.last)
        };
        cmd("WORKERID")
            .arg(words.0)
            .arg(words.1)
            .arg(words.2)
            .arg(words.3)
            .arg(words.4)
            .arg(words.5)
            .query(&mut self.client.get_connection()?)
    }

    fn keep(&self) {
        loop {
            let left_ms = self.lease.lock().unwrap().not_after.saturating_sub(now_ms());
            thread::sleep(Duration::from_millis((left_ms / 3).max(100)));
            match self.show("RENEW").and_then(|reply| Ok(redis::from_redis_value::<(u64,)>(reply)?)) {
                Ok((not_after,)) => self.lease.lock().unwrap().not_after = not_after,
                // Whatever happens, the lease lasts to its end. Then there are no IDs until there is another one.
                Err(error) if is_lost(&error) && now_ms() >= self.lease.lock().unwrap().not_after => {
                    if let Ok(next) = lease(&self.client, self.pool, &self.name) {
                        *self.lease.lock().unwrap() = next;
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Makes no more IDs, and gives the id back.
    fn close(&self) -> RedisResult<u16> {
        self.lease.lock().unwrap().not_after = 0;
        self.show("RELEASE")?;
        Ok(self.lease.lock().unwrap().id)
    }

    /// An ID. What the generator makes outside of the lease is thrown away.
    fn next(&self) -> Option<u64> {
        for _ in 0..100 {
            let mut lease = self.lease.lock().unwrap();
            // The generator waits for ever when the clock was set back: look first.
            if (lease.not_before..lease.not_after).contains(&now_ms()) && now_ms() >= lease.last {
                let id: u64 = lease.generator.generate();
                if (lease.not_before..lease.not_after).contains(&id.timestamp()) {
                    lease.last = id.timestamp();
                    return Some(id);
                }
            }
            drop(lease);
            thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

fn is_lost(error: &RedisError) -> bool {
    matches!(error.code(), Some("EXPIRED" | "REVOKED" | "WRONGTOKEN"))
}

fn main() -> RedisResult<()> {
    let port = env::var("GETID_PORT").unwrap_or_else(|_| "7890".to_owned());
    let client = Client::open(format!("redis://127.0.0.1:{port}/"))?;
    let worker = Worker::start(client, "orders", format!("rust-{}", process::id()))?;
    let ids: Vec<u64> = (0..1000).map_while(|_| worker.next()).collect();
    let (id, ascends) = (worker.close()?, ids.is_sorted_by(|one, next| one < next));
    println!("worker id {id}: {} different IDs, ascending: {ascends}", ids.len());
    Ok(())
}
