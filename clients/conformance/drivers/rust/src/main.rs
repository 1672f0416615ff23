//! Driver of the Rust client in the conformance suite: one JSON object a line in, one line out for each.

use std::collections::HashMap;
use std::fs::File;
use std::future::Future;
use std::io::{BufRead, BufWriter, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use getid_client::{
    Client, Error, Event, IdSource, Layout, Sequence, SequenceOptions, TestClock, Worker, WorkerOptions,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Map, Value, json};

/// Error of a command: its kind, and a text.
type Failure = (String, String);
type Answer = Result<Value, Failure>;

#[derive(Clone)]
enum Object {
    Sequence(Sequence),
    Worker(Worker),
}

impl Object {
    fn source(&self) -> &dyn IdSource {
        match self {
            Object::Sequence(sequence) => sequence,
            Object::Worker(worker) => worker,
        }
    }

    fn take(&self, n: usize, timeout: Option<Duration>) -> getid_client::Result<Vec<i64>> {
        match (self, timeout) {
            (_, None) => self.source().take(n),
            (Object::Sequence(sequence), Some(timeout)) => sequence.take_timeout(n, timeout),
            (Object::Worker(worker), Some(timeout)) => worker.take_timeout(n, timeout),
        }
    }

    fn next(&self, timeout: Option<Duration>) -> getid_client::Result<i64> {
        timeout.map_or_else(|| self.source().next(), |timeout| self.source().next_timeout(timeout))
    }
}

#[derive(Clone)]
struct ClientEntry {
    client: Client,
    clock: Arc<TestClock>,
    events: Arc<Mutex<Vec<Event>>>,
    is_closed: Arc<AtomicBool>,
}

#[derive(Clone)]
struct ObjectEntry {
    object: Object,
    is_closed: Arc<AtomicBool>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct Registry {
    clients: HashMap<String, ClientEntry>,
    objects: HashMap<String, ObjectEntry>,
}

type Shared = Arc<Mutex<Registry>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kind_of(error: &Error) -> &'static str {
    match error {
        Error::Unavailable(_) => "Unavailable",
        Error::Refused { .. } => "Refused",
        Error::Clock { .. } => "ClockError",
        Error::Closed => "Closed",
        _ => "Usage",
    }
}

fn failure(error: Error) -> Failure {
    (kind_of(&error).into(), error.to_string())
}

fn usage(text: impl Into<String>) -> Failure {
    ("Usage".into(), text.into())
}

fn io_failure(error: std::io::Error) -> Failure {
    usage(error.to_string())
}

fn text<'a>(command: &'a Value, field: &str) -> Result<&'a str, Failure> {
    command[field].as_str().ok_or_else(|| usage(format!("{field} is missing")))
}

fn number(command: &Value, field: &str) -> Option<u64> {
    command[field].as_f64().filter(|number| *number >= 0.0).map(|number| number as u64)
}

fn timeout(command: &Value) -> Option<Duration> {
    number(command, "timeout_ms").map(Duration::from_millis)
}

fn client(registry: &Shared, command: &Value) -> Result<ClientEntry, Failure> {
    let name = text(command, "client")?;
    lock(registry).clients.get(name).cloned().ok_or_else(|| usage(format!("no client {name}")))
}

fn object(registry: &Shared, command: &Value) -> Result<ObjectEntry, Failure> {
    let name = text(command, "object")?;
    lock(registry).objects.get(name).cloned().ok_or_else(|| usage(format!("no object {name}")))
}

fn main() {
    let registry = Shared::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(command) = serde_json::from_str::<Value>(&line) else {
            eprintln!("no JSON: {line}");
            continue;
        };
        let registry = Arc::clone(&registry);
        thread::spawn(move || {
            let mut answer = Map::new();
            answer.insert("id".into(), command["id"].clone());
            match run(&registry, &command) {
                Ok(value) => {
                    answer.insert("ok".into(), value);
                }
                Err((kind, message)) => {
                    answer.insert("error".into(), kind.into());
                    answer.insert("message".into(), message.into());
                }
            }
            let mut output = std::io::stdout().lock();
            let _ = writeln!(output, "{}", Value::Object(answer)).and_then(|()| output.flush());
            if command["do"] == "exit" {
                std::process::exit(0);
            }
        });
    }
}

fn run(registry: &Shared, command: &Value) -> Answer {
    match text(command, "do")? {
        "open" => open(registry, command),
        "sequence" => add_sequence(registry, command),
        "worker" => add_worker(registry, command),
        "next" => {
            let value = object(registry, command)?.object.next(timeout(command)).map_err(failure)?;
            Ok(json!({"value": value.to_string()}))
        }
        "take" => {
            let n = number(command, "n").ok_or_else(|| usage("n is no number"))?;
            let values = object(registry, command)?.object.take(n as usize, timeout(command)).map_err(failure)?;
            Ok(json!({"values": values.iter().map(ToString::to_string).collect::<Vec<_>>()}))
        }
        "try_next" => {
            let value = object(registry, command)?.object.source().try_next().map_err(failure)?;
            Ok(json!({"value": value.map(|value| value.to_string())}))
        }
        "warm_up" => {
            let n = number(command, "n").unwrap_or(1) as usize;
            object(registry, command)?.object.source().warm_up(n).map_err(failure)?;
            Ok(json!({}))
        }
        "draw" => draw(registry, command),
        "stop" => {
            object(registry, command)?.is_stopped.store(true, Ordering::SeqCst);
            Ok(json!({}))
        }
        "abandon" => abandon(registry, command),
        "close" => {
            let entry = client(registry, command)?;
            let timeout = timeout(command).unwrap_or(Duration::from_secs(2));
            let is_released = entry.client.close_timeout(timeout).map_err(failure)?;
            entry.is_closed.store(true, Ordering::SeqCst);
            Ok(json!({"released": is_released}))
        }
        "discard" => client(registry, command)?.client.discard().map_err(failure).map(|()| json!({})),
        "stats" => stats(&object(registry, command)?.object),
        "events" => {
            let events = std::mem::take(&mut *lock(&client(registry, command)?.events));
            Ok(json!({"events": events.iter().map(event_of).collect::<Vec<_>>()}))
        }
        "clock" => {
            let shift = |field| command[field].as_i64().unwrap_or(0);
            client(registry, command)?.clock.shift(shift("wall_ms"), shift("mono_ms"));
            Ok(json!({}))
        }
        "copy" => copy(&object(registry, command)?.object),
        "serialize" => Ok(json!({"same": false})),
        "fork" => fork_and_draw(registry, command),
        "counter" => Ok(json!({"ns": time_counter(number(command, "values").unwrap_or(1_000_000))})),
        "time" => time_next(&object(registry, command)?.object, number(command, "values").unwrap_or(1_000_000)),
        "exit" => Ok(json!({})),
        other => Err(usage(format!("unknown command {other}"))),
    }
}

fn open(registry: &Shared, command: &Value) -> Answer {
    let (clock, events) = (TestClock::running(), Arc::new(Mutex::new(Vec::new())));
    let log = Arc::clone(&events);
    let mut builder = Client::builder().clock(Arc::clone(&clock)).on_event(move |event| lock(&log).push(event.clone()));
    if let Some(url) = command["url"].as_str() {
        builder = builder.url(url);
    }
    if let Some(timeout) = timeout(command) {
        builder = builder.timeout(timeout);
    }
    if let Some(path) = command["ca"].as_str() {
        builder = builder.tls_config(tls_config(path)?);
    }
    let client = builder.connect().map_err(failure)?;
    let entry = ClientEntry { client, clock, events, is_closed: Arc::default() };
    lock(registry).clients.insert(text(command, "client")?.into(), entry);
    Ok(json!({}))
}

fn tls_config(path: &str) -> Result<Arc<rustls::ClientConfig>, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| usage(error.to_string()))? {
        let certificate = certificate.map_err(|error| usage(error.to_string()))?;
        roots.add(certificate).map_err(|error| usage(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| usage(error.to_string()))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn add(registry: &Shared, command: &Value, object: Object, client: &ClientEntry) -> Answer {
    let is_closed = Arc::clone(&client.is_closed);
    let entry = ObjectEntry { object, is_closed, is_stopped: Arc::default() };
    lock(registry).objects.insert(text(command, "object")?.into(), entry);
    Ok(json!({}))
}

fn add_sequence(registry: &Shared, command: &Value) -> Answer {
    let entry = client(registry, command)?;
    let mut options = SequenceOptions::default();
    for field in ["prefetch_max", "hold_ms"] {
        if command[field].as_f64().is_some_and(|value| value < 0.0) {
            return Err(usage(format!("{field} is negative")));
        }
    }
    if let Some(values) = number(command, "prefetch_max") {
        options = options.prefetch_max(values);
    }
    if let Some(hold_ms) = command["hold_ms"].as_f64() {
        options = options.hold(Duration::from_secs_f64(hold_ms / 1000.0));
    }
    options = options.fresh(command["fresh"].as_bool().unwrap_or(false));
    let sequence = entry.client.sequence_with(text(command, "name")?, options).map_err(failure)?;
    add(registry, command, Object::Sequence(sequence), &entry)
}

fn add_worker(registry: &Shared, command: &Value) -> Answer {
    let entry = client(registry, command)?;
    let fields = &command["layout"];
    let width = |field| number(fields, field).and_then(|width| u32::try_from(width).ok()).unwrap_or(u32::MAX >> 8);
    let mut layout = Layout::new(width("time"), width("worker"), width("counter")).map_err(failure)?;
    layout = layout.unit_ms(number(fields, "unit_ms").unwrap_or(1)).map_err(failure)?;
    layout = layout.epoch_ms(number(fields, "epoch_ms").unwrap_or(0)).map_err(failure)?;
    if fields["counter_first"].as_bool().unwrap_or(false) {
        layout = layout.counter_first();
    }
    let mut options = WorkerOptions::default();
    if let Some(name) = command["name"].as_str() {
        options = options.name(name);
    }
    if let Some(ttl_s) = number(command, "ttl_s") {
        options = options.ttl_s(ttl_s);
    }
    let worker = entry.client.worker_with(text(command, "pool")?, layout, options).map_err(failure)?;
    add(registry, command, Object::Worker(worker), &entry)
}

struct Drawn {
    values: u64,
    errors: HashMap<&'static str, u64>,
    after_close: u64,
}

#[derive(Clone, Copy)]
struct Draw {
    values: u64,
    take: Option<usize>,
    timeout: Option<Duration>,
    is_async: bool,
}

/// Draws values in one thread, and writes them to a file.
fn draw_in_thread(entry: &ObjectEntry, draw: Draw, path: &str) -> std::io::Result<Drawn> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut drawn = Drawn { values: 0, errors: HashMap::new(), after_close: 0 };
    while drawn.values < draw.values && !entry.is_stopped.load(Ordering::SeqCst) {
        let is_closed = entry.is_closed.load(Ordering::SeqCst);
        let left = draw.values - drawn.values;
        let result = match draw.take {
            Some(n) => entry.object.take((n as u64).min(left) as usize, draw.timeout),
            None if draw.is_async => block_on(entry.object.source().next_async()).map(|value| vec![value]),
            None => entry.object.next(draw.timeout).map(|value| vec![value]),
        };
        match result {
            Ok(values) => {
                for value in &values {
                    file.write_all(&value.to_le_bytes())?;
                }
                drawn.values += values.len() as u64;
                drawn.after_close += if is_closed { values.len() as u64 } else { 0 };
            }
            Err(error) => {
                *drawn.errors.entry(kind_of(&error)).or_default() += 1;
                if !matches!(error, Error::Unavailable(_) | Error::Clock { .. }) {
                    break;
                }
            }
        }
    }
    file.flush()?;
    Ok(drawn)
}

fn draw(registry: &Shared, command: &Value) -> Answer {
    let entry = object(registry, command)?;
    let file = text(command, "file")?;
    let draw = Draw {
        values: number(command, "values").unwrap_or(u64::MAX),
        take: number(command, "take").filter(|n| *n > 0).map(|n| n as usize),
        timeout: timeout(command),
        is_async: command["async"].as_bool().unwrap_or(false),
    };
    let threads = number(command, "threads").unwrap_or(1);
    entry.is_stopped.store(false, Ordering::SeqCst);
    let results: Vec<_> = thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|index| {
                let (entry, path) = (&entry, format!("{file}.{index}"));
                scope.spawn(move || draw_in_thread(entry, draw, &path))
            })
            .collect();
        started.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let (mut values, mut after_close, mut errors) = (0, 0, HashMap::new());
    for result in results {
        let drawn = result.map_err(|_| usage("a thread has panicked"))?.map_err(io_failure)?;
        values += drawn.values;
        after_close += drawn.after_close;
        drawn.errors.iter().for_each(|(kind, count)| *errors.entry(*kind).or_insert(0) += count);
    }
    Ok(json!({"drawn": values, "errors": errors, "after_close": after_close}))
}

/// Starts calls, and drops each future after a time.
fn abandon(registry: &Shared, command: &Value) -> Answer {
    let object = object(registry, command)?.object;
    let calls = number(command, "calls").unwrap_or(1);
    let after = Duration::from_millis(number(command, "after_ms").unwrap_or(0));
    let (mut cancelled, mut values) = (0, Vec::new());
    let results: Vec<_> = thread::scope(|scope| {
        let started: Vec<_> =
            (0..calls).map(|_| scope.spawn(|| block_on_until(object.source().next_async(), after))).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    for result in results {
        match result {
            Some(Ok(value)) => values.push(value.to_string()),
            Some(Err(error)) => return Err(failure(error)),
            None => cancelled += 1,
        }
    }
    Ok(json!({"cancelled": cancelled, "values": values}))
}

fn stats(object: &Object) -> Answer {
    match object {
        Object::Sequence(sequence) => {
            let stats = sequence.stats().map_err(failure)?;
            Ok(json!({
                "values": stats.values, "fetches": stats.fetches, "failures": stats.failures,
                "dropped": stats.dropped, "waits": stats.waits, "held": stats.held, "prefetch": stats.prefetch,
                "fetch_ms": stats.fetch_time.map(|time| time.as_secs_f64() * 1000.0),
            }))
        }
        Object::Worker(worker) => {
            let stats = worker.stats().map_err(failure)?;
            Ok(json!({
                "values": stats.values, "worker_id": stats.worker_id, "not_before_ms": stats.not_before_ms,
                "not_after_ms": stats.not_after_ms, "leases": stats.leases, "renewals": stats.renewals,
                "failures": stats.failures, "clock_ahead_ms": stats.clock_ahead_ms,
            }))
        }
    }
}

fn event_of(event: &Event) -> Value {
    json!({
        "event": event.kind.as_str(), "address": event.address, "object": event.object, "reason": event.reason,
        "difference_ms": event.difference_ms,
    })
}

/// A clone is the same object: the values of both together are counted by one.
fn copy(object: &Object) -> Answer {
    let same = match (object, &object.clone()) {
        (Object::Sequence(first), Object::Sequence(second)) => first.stats() == second.stats(),
        (Object::Worker(first), Object::Worker(second)) => first.stats() == second.stats(),
        _ => false,
    };
    Ok(json!({"same": same}))
}

unsafe extern "C" {
    safe fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

fn fork_and_draw(registry: &Shared, command: &Value) -> Answer {
    let (entry, client) = (object(registry, command)?, client(registry, command)?.client);
    let file = format!("{}.0", text(command, "file")?);
    let draw = Draw { values: number(command, "values").unwrap_or(1), take: None, timeout: None, is_async: false };
    let is_closing = command["close"].as_bool().unwrap_or(false);
    let process = fork();
    if process == 0 {
        let is_drawn = draw_in_thread(&entry, draw, &file).is_ok_and(|drawn| drawn.values == draw.values);
        let is_released = !is_closing || client.close().is_ok_and(|is_released| is_released);
        std::process::exit(if is_drawn && is_released { 0 } else { 1 });
    }
    if process < 0 {
        return Err(usage("fork failed"));
    }
    let mut status = 0;
    // SAFETY: the status is a valid place for an integer.
    while unsafe { waitpid(process, &raw mut status, 0) } != process {}
    let code = if status & 0x7f == 0 { (status >> 8) & 0xff } else { -(status & 0x7f) };
    Ok(json!({"status": code}))
}

fn time_counter(values: u64) -> f64 {
    let counter = Mutex::new(0_u64);
    let start = Instant::now();
    for _ in 0..values {
        *lock(std::hint::black_box(&counter)) += 1;
    }
    start.elapsed().as_nanos() as f64 / values as f64
}

fn time_next(object: &Object, values: u64) -> Answer {
    let start = Instant::now();
    match object {
        Object::Sequence(sequence) => {
            for _ in 0..values {
                std::hint::black_box(sequence.next().map_err(failure)?);
            }
        }
        Object::Worker(worker) => {
            for _ in 0..values {
                std::hint::black_box(worker.next().map_err(failure)?);
            }
        }
    }
    Ok(json!({"ns": start.elapsed().as_nanos() as f64 / values as f64}))
}

struct Unparker(Thread);

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future in this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    block_on_until(future, Duration::from_secs(86_400 * 365)).unwrap_or_else(|| unreachable!("a year has passed"))
}

/// Runs a future in this thread, and drops it after a time.
fn block_on_until<T>(future: impl Future<Output = T>, after: Duration) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparker(thread::current())));
    let deadline = Instant::now() + after;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}
