//! A thousand IDs with a worker id that getid leases.

use std::time::Duration;
use std::{env, error, process};

use redis::Client;
use worker_ids::Worker;

fn main() -> Result<(), Box<dyn error::Error>> {
    let port = env::var("GETID_PORT").unwrap_or_else(|_| "7890".to_owned());
    let client = Client::open(format!("redis://127.0.0.1:{port}/"))?;
    let name = format!("rust-{}", process::id());
    let worker = Worker::start(client, "orders", &name, Duration::from_secs(30), Duration::from_secs(5))?;
    let ids = (0..1000).map(|_| worker.next()).collect::<Result<Vec<u64>, _>>()?;
    worker.close()?;
    let ascends = ids.is_sorted_by(|one, next| one < next);
    println!("worker id {}: {} different IDs, ascending: {ascends}", worker.id(), ids.len());
    Ok(())
}
