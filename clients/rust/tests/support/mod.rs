//! Scripted server, log of events, and waits for them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use getid_client::{Client, ClientBuilder, Event, TestClock};

/// Bound of a wait for an event. It is reached only by a test that fails.
pub const BOUND: Duration = Duration::from_secs(30);
pub const NOW_MS: i64 = 1_795_000_000_000;

/// List of what happened, with a wait for the next entry that fits.
pub struct Log<T> {
    entries: Mutex<Vec<T>>,
    changed: Condvar,
}

impl<T: Clone + std::fmt::Debug> Log<T> {
    pub fn new() -> Arc<Log<T>> {
        Arc::new(Log { entries: Mutex::new(Vec::new()), changed: Condvar::new() })
    }

    pub fn add(&self, entry: T) {
        self.entries.lock().unwrap().push(entry);
        self.changed.notify_all();
    }

    pub fn all(&self) -> Vec<T> {
        self.entries.lock().unwrap().clone()
    }

    /// Returns the `count`-th entry that fits, as soon as there is one.
    pub fn wait(&self, count: usize, fits: impl Fn(&T) -> bool) -> T {
        let mut entries = self.entries.lock().unwrap();
        let deadline = Instant::now() + BOUND;
        loop {
            if let Some(found) = entries.iter().filter(|entry| fits(entry)).nth(count - 1) {
                return found.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no such entry: {entries:?}");
            entries = self.changed.wait_timeout(entries, left).unwrap().0;
        }
    }
}

/// One reply of a script.
pub enum Step {
    Reply(Vec<u8>),
    /// Replies once the gate is open.
    Gated(Vec<u8>),
    /// Replies as a well-behaved server once the gate is open.
    GatedModel,
    Hang,
    Close,
    Model,
}

impl Step {
    pub fn text(text: &str) -> Step {
        Step::Reply(text.as_bytes().to_vec())
    }

    pub fn error(text: &str) -> Step {
        Step::Reply(format!("-{text}\r\n").into_bytes())
    }

    pub fn span(first: i64, last: i64, step: i64) -> Step {
        Step::Reply(span(first, last, step))
    }
}

pub fn span(first: i64, last: i64, step: i64) -> Vec<u8> {
    format!("*3\r\n:{first}\r\n:{last}\r\n:{step}\r\n").into_bytes()
}

pub fn lease(id: i64, not_before: i64, not_after: i64, length_ms: i64) -> Vec<u8> {
    format!("*5\r\n:{id}\r\n$5\r\ntoken\r\n:{not_before}\r\n:{not_after}\r\n:{length_ms}\r\n").into_bytes()
}

/// What the scripted server does without an entry of the script: counts values and leases ids.
struct Model {
    value: i64,
    step: i64,
    worker_id: i64,
    lease_ms: i64,
    end: i64,
}

pub struct Server {
    pub port: u16,
    pub log: Arc<Log<String>>,
    pub clock: Arc<TestClock>,
    wall_ms: Mutex<i64>,
    script: Mutex<VecDeque<Step>>,
    model: Mutex<Model>,
    gate: (Mutex<bool>, Condvar),
    streams: Mutex<Vec<TcpStream>>,
}

impl Server {
    pub fn start(clock: &Arc<TestClock>) -> Arc<Server> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Arc::new(Server {
            port: listener.local_addr().unwrap().port(),
            log: Log::new(),
            clock: Arc::clone(clock),
            wall_ms: Mutex::new(NOW_MS),
            script: Mutex::default(),
            model: Mutex::new(Model { value: 0, step: 1, worker_id: 7, lease_ms: 30_000, end: 0 }),
            gate: (Mutex::new(false), Condvar::new()),
            streams: Mutex::default(),
        });
        let accepting = Arc::downgrade(&server);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(server) = accepting.upgrade() else { return };
                server.streams.lock().unwrap().push(stream.try_clone().unwrap());
                server.log.add("CONNECT".into());
                thread::spawn(move || {
                    let _ = server.serve(stream);
                    server.log.add("END".into());
                });
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("getid://127.0.0.1:{}", self.port)
    }

    /// Adds a reply for the next request that has none.
    pub fn then(&self, step: Step) -> &Server {
        self.script.lock().unwrap().push_back(step);
        self
    }

    pub fn set_value(&self, value: i64, step: i64) {
        let mut model = self.model.lock().unwrap();
        (model.value, model.step) = (value, step);
    }

    pub fn set_worker(&self, id: i64, lease_ms: i64) {
        let mut model = self.model.lock().unwrap();
        (model.worker_id, model.lease_ms) = (id, lease_ms);
    }

    /// Moves the server's clock together with the client's.
    pub fn pass(&self, ms: i64) {
        *self.wall_ms.lock().unwrap() += ms;
        self.clock.shift(ms, ms);
    }

    pub fn open_gate(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns the `count`-th request that begins with `words`.
    pub fn wait(&self, words: &str, count: usize) -> String {
        self.log.wait(count, |request| request.starts_with(words))
    }

    pub fn requests(&self, words: &str) -> Vec<String> {
        self.log.all().into_iter().filter(|request| request.starts_with(words)).collect()
    }

    fn wait_gate(&self) {
        let open = self.gate.0.lock().unwrap();
        drop(self.gate.1.wait_timeout_while(open, BOUND, |is_open| !*is_open).unwrap());
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut output = stream.try_clone()?;
        let mut input = BufReader::new(stream);
        let mut line = String::new();
        while input.read_line(&mut line)? > 0 {
            let mut arguments = Vec::new();
            for _ in 0..line[1..].trim().parse::<usize>().unwrap() {
                line.clear();
                input.read_line(&mut line)?;
                let mut bytes = vec![0; line[1..].trim().parse::<usize>().unwrap() + 2];
                input.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                arguments.push(String::from_utf8(bytes).unwrap());
            }
            line.clear();
            let step = self.script.lock().unwrap().pop_front();
            self.log.add(arguments.join(" "));
            match step.unwrap_or(Step::Model) {
                Step::Reply(bytes) => output.write_all(&bytes)?,
                Step::Gated(bytes) => {
                    self.wait_gate();
                    output.write_all(&bytes)?;
                }
                Step::GatedModel => {
                    self.wait_gate();
                    output.write_all(&self.model(&arguments))?;
                }
                Step::Hang => self.wait_gate(),
                Step::Close => return output.shutdown(Shutdown::Both),
                Step::Model => output.write_all(&self.model(&arguments))?,
            }
        }
        Ok(())
    }

    fn model(&self, arguments: &[String]) -> Vec<u8> {
        let mut model = self.model.lock().unwrap();
        let now_ms = *self.wall_ms.lock().unwrap();
        match (arguments[0].as_str(), arguments.get(1).map(String::as_str)) {
            ("SEQUENCE", _) => {
                let first = model.value + model.step;
                model.value += arguments[4].parse::<i64>().unwrap() * model.step;
                span(first, model.value, model.step)
            }
            ("WORKERID", Some("LEASE")) => {
                model.end = now_ms + model.lease_ms;
                lease(model.worker_id, now_ms, model.end, model.lease_ms)
            }
            ("WORKERID", Some("RENEW")) => {
                let last: i64 = arguments[6].parse().unwrap();
                model.end = model.end.max(now_ms.max(last + 1) + model.lease_ms);
                format!("*1\r\n:{}\r\n", model.end).into_bytes()
            }
            _ => b"+OK\r\n".to_vec(),
        }
    }
}

/// A server, a client of it with a frozen clock, and the client's events.
pub struct Fixture {
    pub server: Arc<Server>,
    pub clock: Arc<TestClock>,
    pub events: Arc<Log<Event>>,
    pub client: Client,
}

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::with(|builder| builder)
    }

    pub fn with(change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Fixture {
        let clock = TestClock::frozen(NOW_MS);
        let server = Server::start(&clock);
        let url = server.url();
        Fixture::of(server, &url, change)
    }

    pub fn of(server: Arc<Server>, url: &str, change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Fixture {
        let (clock, events) = (Arc::clone(&server.clock), Log::new());
        let log = Arc::clone(&events);
        let builder = Client::builder().url(url).clock(Arc::clone(&clock)).timeout(BOUND);
        let client = change(builder.on_event(move |event| log.add(event.clone()))).connect().unwrap();
        Fixture { server, clock, events, client }
    }

    /// Returns the `count`-th event of a kind.
    pub fn event(&self, kind: &str, count: usize) -> Event {
        self.events.wait(count, |event| event.kind.as_str() == kind)
    }
}

/// Waits for a state that no event shows.
pub fn until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !holds() {
        assert!(Instant::now() < deadline, "the state does not come");
        thread::yield_now();
    }
}
