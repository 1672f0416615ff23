//! Servers that share a claim, their clients, and the judge of the given IDs.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use getid_system::clock::wall_unix_ms;

use crate::support::{Server, folder, getid, program};

/// The server-id of these tests.
pub(crate) const SERVER_ID: &str = "3";

/// The default of `id-epoch`, Unix ms.
const EPOCH_UNIX_MS: u64 = 1_420_041_600_000;

/// The time that a client waits for an answer before it asks another server.
const IMPATIENCE: Duration = Duration::from_millis(500);

/// Requests that a client sends at a time.
const BATCH: usize = 20;

/// The longest time of a takeover in a test, on a machine that is busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// Creates a claim store with one unused claim.
pub(crate) fn init(url: &str) {
    program::run(getid().args(["cluster", "init", "--store", url, "--new", SERVER_ID]), "");
}

/// Servers with one server-id, each in its own folder.
pub(crate) struct Fleet {
    urls: Vec<String>,
    words: Vec<String>,
    dirs: Vec<tempfile::TempDir>,
    pub(crate) servers: Vec<Option<Server>>,
    ports: Arc<Vec<AtomicU16>>,
}

impl Fleet {
    /// Starts one server for each address of the store. `words` are further words of their command lines.
    pub(crate) fn start(urls: &[String], words: &[&str]) -> Fleet {
        let mut fleet = Fleet {
            urls: urls.to_vec(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            dirs: urls.iter().map(|_| folder()).collect(),
            servers: urls.iter().map(|_| None).collect(),
            ports: Arc::new(urls.iter().map(|_| AtomicU16::new(0)).collect()),
        };
        for at in 0..urls.len() {
            fleet.start_again(at);
        }
        fleet
    }

    pub(crate) fn start_again(&mut self, at: usize) {
        let name = format!("host-{at}");
        let mut words = vec!["--claim-store", &self.urls[at], "--server-id", SERVER_ID, "--instance-name", &name];
        words.extend(self.words.iter().map(String::as_str));
        let server = Server::start_in(self.dirs[at].path(), &words);
        self.ports[at].store(server.port, Ordering::SeqCst);
        self.servers[at] = Some(server);
    }

    pub(crate) fn server(&mut self, at: usize) -> &mut Server {
        self.servers[at].as_mut().unwrap()
    }

    /// Kills a server by SIGKILL.
    pub(crate) fn kill(&mut self, at: usize) {
        self.servers[at].take().unwrap().kill();
    }

    /// Waits for a server that gives IDs, and returns its index.
    #[track_caller]
    pub(crate) fn holder(&mut self) -> usize {
        let end = Instant::now() + PATIENCE;
        loop {
            for at in 0..self.servers.len() {
                if self.servers[at].is_some() && self.try_get_id(at).is_ok() {
                    return at;
                }
            }
            if Instant::now() > end {
                let logs: Vec<String> = self.servers.iter_mut().flatten().map(Server::log_so_far).collect();
                panic!("no server gives IDs:\n{}", logs.join("\n\n"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Requests an ID, and returns it or the error. Waits longer for the answer than a client would.
    pub(crate) fn try_get_id(&self, at: usize) -> Result<u64, String> {
        let mut client = Client::default();
        let message = client.send(self.port(at), 1).and_then(|()| client.answers(1, crate::support::PATIENCE));
        message.map_err(|error| error.to_string())?.pop().unwrap_or_else(|| Err("nothing".to_owned()))
    }

    pub(crate) fn port(&self, at: usize) -> u16 {
        self.ports[at].load(Ordering::SeqCst)
    }

    /// Starts clients that draw from the server that gives IDs.
    pub(crate) fn load(&self, clients: usize) -> Load {
        let (stop, given) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let threads = (0..clients)
            .map(|nth| {
                let (ports, stop, given) = (Arc::clone(&self.ports), Arc::clone(&stop), Arc::clone(&given));
                std::thread::spawn(move || draw(nth, &ports, &stop, &given))
            })
            .collect();
        Load { stop, given, threads }
    }
}

/// IDs that a client got from one batch of requests.
#[derive(Clone, Debug)]
pub(crate) struct GivenRanges {
    pub(crate) server: usize,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    ids: Vec<u64>,
    /// Distance of the largest ID ahead of the wall clock, ms.
    ahead_ms: i64,
}

/// Running clients.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    given: Arc<Mutex<Vec<GivenRanges>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Waits for the first ID of another server than `old` after `since`, and returns its time.
    #[track_caller]
    pub(crate) fn first_of_others(&self, old: usize, since: Instant, fleet: &mut Fleet) -> Instant {
        let end = Instant::now() + PATIENCE;
        loop {
            let first = self
                .given
                .lock()
                .unwrap()
                .iter()
                .filter(|g| g.server != old && g.sent > since)
                .map(|g| g.received)
                .min();
            if let Some(first) = first {
                return first;
            }
            if Instant::now() > end {
                let logs: Vec<String> = fleet.servers.iter_mut().flatten().map(Server::log_so_far).collect();
                panic!("no server takes over:\n{}", logs.join("\n\n"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the number of given IDs.
    pub(crate) fn count(&self) -> usize {
        self.given.lock().unwrap().iter().map(|given| given.ids.len()).sum()
    }

    /// Returns the largest ID.
    pub(crate) fn largest(&self) -> u64 {
        self.given.lock().unwrap().iter().flat_map(|given| &given.ids).copied().max().unwrap_or(0)
    }

    /// Ends the clients and asserts that no ID repeats and that no ID is smaller than an ID given before its request.
    /// Returns the largest distance ahead of the clock, in ms.
    #[track_caller]
    pub(crate) fn judge(self) -> i64 {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        let mut given = self.given.lock().unwrap().clone();
        let mut seen = HashSet::new();
        for id in given.iter().flat_map(|given| &given.ids) {
            assert!(seen.insert(*id), "{id} was given twice");
        }
        given.sort_by_key(|given| given.sent);
        let mut received: Vec<&GivenRanges> = given.iter().collect();
        received.sort_by_key(|given| given.received);
        let (mut largest, mut before) = (0, received.into_iter().peekable());
        for given in &given {
            while let Some(earlier) = before.next_if(|earlier| earlier.received < given.sent) {
                largest = largest.max(earlier.ids.last().copied().unwrap_or(0));
            }
            assert!(given.ids.is_sorted(), "a later request of a client has a larger ID");
            assert!(given.ids[0] > largest, "{} of server {} came after {largest}", given.ids[0], given.server);
        }
        println!("{} IDs, none twice, all in order", seen.len());
        given.iter().map(|given| given.ahead_ms).max().unwrap_or(0)
    }
}

/// One client: it stays with a server that gives IDs, and otherwise switches to the next server.
fn draw(nth: usize, ports: &[AtomicU16], stop: &AtomicBool, all: &Mutex<Vec<GivenRanges>>) {
    let (mut client, mut server) = (Client::default(), nth % ports.len());
    while !stop.load(Ordering::SeqCst) {
        let sent = Instant::now();
        let message = client.ask(ports[server].load(Ordering::SeqCst), BATCH).unwrap_or_default();
        let received = Instant::now();
        let all_given = message.len() == BATCH && message.iter().all(Result::is_ok);
        let ids: Vec<u64> = message.into_iter().flatten().collect();
        if let Some(last) = ids.last() {
            let ahead_ms = i64::try_from((last >> 21) + EPOCH_UNIX_MS).unwrap() - wall_unix_ms();
            all.lock().unwrap().push(GivenRanges { server, sent, received, ids, ahead_ms });
        }
        if !all_given {
            server = (server + 1) % ports.len();
            client = Client::default();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A connection that is opened on first use.
#[derive(Default)]
pub(crate) struct Client(Option<BufReader<TcpStream>>);

impl Client {
    /// Sends `times` requests `GETID` and returns the answers: fewer if the connection ended.
    pub(crate) fn ask(&mut self, port: u16, times: usize) -> std::io::Result<Vec<Result<u64, String>>> {
        self.send(port, times)?;
        self.answers(times, IMPATIENCE)
    }

    pub(crate) fn send(&mut self, port: u16, times: usize) -> std::io::Result<()> {
        let stream = match &mut self.0 {
            Some(stream) => stream,
            none => {
                let address = SocketAddr::from(([127, 0, 0, 1], port));
                let stream = TcpStream::connect_timeout(&address, IMPATIENCE)?;
                stream.set_nodelay(true)?;
                none.insert(BufReader::new(stream))
            }
        };
        stream.get_mut().write_all("GETID\r\n".repeat(times).as_bytes())
    }

    pub(crate) fn answers(&mut self, times: usize, patience: Duration) -> std::io::Result<Vec<Result<u64, String>>> {
        let Some(stream) = &mut self.0 else { return Ok(Vec::new()) };
        stream.get_ref().set_read_timeout(Some(patience))?;
        let mut answers = Vec::new();
        for _ in 0..times {
            let mut line = String::new();
            match stream.read_line(&mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let line = line.trim_end();
            answers.push(match line.strip_prefix(':').and_then(|id| id.parse().ok()) {
                Some(id) => Ok(id),
                None => Err(line.to_owned()),
            });
        }
        Ok(answers)
    }
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
