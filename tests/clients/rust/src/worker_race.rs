//! A driver for `examples/worker-ids/rust`, which `tests/docs/worker_ids.rs` controls by lines. The docstring of
//! `worker_race.py` describes the lines.

use std::io::stdin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, thread};

use redis::Client;
use worker_ids::Worker;

struct Race {
    worker: Worker,
    closing: AtomicBool,
    closed: AtomicBool,
    seen: Mutex<Seen>,
}

struct Seen {
    close_reported: bool,
    late: u64,
    newest: u64,
    refusal: String,
}

impl Race {
    fn draw(&self) {
        let (was_closing, was_closed) = (self.closing.load(Ordering::SeqCst), self.closed.load(Ordering::SeqCst));
        let drawn = self.worker.next();
        if drawn.is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        let mut seen = self.seen.lock().expect("no panic");
        match drawn {
            Ok(id) => {
                seen.newest = seen.newest.max(id >> 22);
                seen.late += u64::from(was_closed);
            }
            Err(error) => {
                seen.refusal = error.to_string();
                if was_closing && !seen.close_reported {
                    seen.close_reported = true;
                    println!("refused");
                }
            }
        }
    }

    fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.worker.close().expect("released");
        self.closed.store(true, Ordering::SeqCst);
        println!("closed");
    }
}

/// Runs until the end of standard input.
pub fn run() {
    let port = env::var("GETID_PORT").expect("GETID_PORT");
    let client = Client::open(format!("redis://127.0.0.1:{port}/")).expect("an address");
    // The time-out is long enough for replies that a test holds.
    let worker = Worker::start(client, "orders", "race", Duration::from_secs(3), Duration::from_mins(10));
    let worker = worker.expect("a lease");
    println!("leased {}", worker.id());
    let seen = Mutex::new(Seen { close_reported: false, late: 0, newest: 0, refusal: "none".to_owned() });
    let race: &Race = Box::leak(Box::new(Race { worker, closing: false.into(), closed: false.into(), seen }));
    thread::spawn(|| {
        loop {
            race.draw();
        }
    });
    for line in stdin().lines() {
        if line.expect("a line") == "close" {
            thread::spawn(|| race.close());
        } else {
            (0..3).for_each(|_| race.draw());
            let Seen { late, newest, refusal, .. } = &*race.seen.lock().expect("no panic");
            println!("probed {late} {newest} {refusal}");
        }
    }
}
