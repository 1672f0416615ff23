//! The promises of DESIGN section 2 in the real process over many lives: killed under load, stopped, four at once.
//!
//! The oracle is the set of all IDs that any client received, and one number: the largest ID received so far. A client
//! reads it before a request, and every ID of the reply must be larger. That is order in real time, over all
//! connections and all lives.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{PATIENCE, Server, Wire, eventually, folder, refused};
use getid_engine::claim::Record;

/// Unix time of tick 0, in milliseconds.
const EPOCH_MS: u64 = 1_420_041_600_000;

/// Option without a log of each event: logging costs time.
const QUIET: [&str; 2] = ["--loglevel", "warning"];

/// 8,000 IDs a second, so that any load reaches the borrow limit.
const NARROW: [&str; 8] = ["--id-range", "2", "--shard-range", "3", "--random-range", "16", "--loglevel", "warning"];

#[test]
fn killed_under_load() {
    let dir = folder();
    let mut life = Life::default();
    for round in 0..8 {
        // A debug build does not exhaust the default layout, but does exhaust 64,000 IDs a second.
        let words = if round % 2 == 0 { &QUIET[..] } else { &["--shard-range", "6", "--random-range", "13"] };
        let server = Server::start_in(dir.path(), words);
        life.load_until(server, |ids, _| ids >= 300 * (1 + round % 7), Server::kill);
    }
    life.check();
}

#[test]
fn killed_at_the_borrow_limit() {
    let dir = folder();
    let mut life = Life::default();
    for round in 1..=3 {
        let server = Server::start_in(dir.path(), &NARROW);
        let mut wire = server.connect();
        life.load_until(
            server,
            |ids, _| ids >= 100 * round,
            |server| {
                // INFO replies although every other client waits for IDs.
                let mut borrowed_ms = 0;
                eventually("the borrow limit is reached", || {
                    borrowed_ms = wire.info_number("borrow_ms");
                    borrowed_ms >= 2900
                });
                server.kill();
                assert!(borrowed_ms <= 3000, "borrowed {borrowed_ms} ms: past the limit");
            },
        );
    }
    life.check();
}

#[test]
fn killed_while_draws_wait_for_the_watermark() {
    let dir = folder();
    let mut life = Life::default();
    // A start is at the borrow limit, so draws wait for that limit. After the limit's time has passed, more IDs are
    // free than the watermark leads by, and one pipeline takes them: no ID may be issued before the watermark is saved.
    let limits = ["--id-max-borrow-ms", "300", "--id-watermark-lead-ms", "100"];
    let words: Vec<&str> = NARROW.into_iter().chain(limits).collect();
    for round in 0..3 {
        let server = Server::start_in(dir.path(), &words);
        let mut wire = server.connect();
        eventually("the borrow limit has room", || wire.info_number("borrow_ms") < 20);
        life.load_until(server, |ids, _| ids >= 300 * (1 + 2 * round), Server::kill);
    }
    life.check();
}

#[test]
fn killed_under_the_policy_error() {
    let dir = folder();
    let mut life = Life::default();
    let words: Vec<&str> = NARROW.into_iter().chain(["--id-borrow-policy", "error"]).collect();
    for _ in 0..3 {
        let server = Server::start_in(dir.path(), &words);
        life.load_until(server, |ids, refusals| ids >= 50 && refusals > 0, Server::kill);
    }
    life.check();
}

#[test]
fn stopped_under_load_nothing_is_lost_and_the_next_life_continues_there() {
    let dir = folder();
    let mut life = Life::default();
    for (round, words) in [&QUIET[..], &NARROW[..], &QUIET[..], &NARROW[..]].into_iter().enumerate() {
        let server = Server::start_in(dir.path(), words);
        life.load_until(
            server,
            |ids, _| ids >= 500,
            |server| {
                assert_eq!(server.stop().code(), Some(0), "round {round}");
            },
        );
        let stored = watermark(dir.path(), 0);
        let last = life.largest.load(SeqCst) >> 21;
        assert!(stored > last, "round {round}: an ID of tick {last} was issued, {stored} is stored");
    }
    life.check();
}

#[test]
fn a_clean_stop_stores_the_exact_position() {
    let dir = folder();
    let mut last = 0;
    for round in 0..4 {
        let server = Server::start_in(dir.path(), &QUIET);
        let mut wire = server.connect();
        let first = wire.id();
        assert!(first > last);
        last = wire.ids(100)[99].max(wire.id());
        drop(wire);
        if round % 2 == 0 {
            assert_eq!(server.stop().code(), Some(0));
            assert_eq!(watermark(dir.path(), 0), (last >> 21) + 1, "the first tick without an ID");
        } else {
            server.kill();
        }
        // Neither a stop nor a crash costs time: after one of each, IDs are at most one lead further ahead.
        let ahead_ms = (last >> 21).saturating_sub(tick_now());
        assert!(ahead_ms <= 3_200, "round {round}: {ahead_ms} ms ahead of the clock");
    }
}

#[test]
fn restarts_in_a_loop_do_not_run_away_from_the_clock() {
    let dir = folder();
    let mut last = 0;
    for _ in 0..8 {
        let server = Server::start_in(dir.path(), &QUIET);
        let id = server.connect().id();
        assert!(id > last);
        last = id;
        server.kill();
    }
    let ahead_ms = (last >> 21).saturating_sub(tick_now());
    assert!(ahead_ms <= 3_200, "{ahead_ms} ms ahead of the clock after 8 restarts");
}

#[test]
fn four_servers_at_once_have_nothing_in_common() {
    let dir = folder();
    let mut lives: Vec<Life> = (0..4).map(|server_id| Life { server_id, ..Life::default() }).collect();
    let servers: Vec<Server> = ["0", "1", "2", "3"]
        .iter()
        .map(|id| Server::start_in(dir.path(), &["--server-id", id, "--loglevel", "warning", "--shard-range", "9"]))
        .collect();
    std::thread::scope(|scope| {
        for (life, server) in lives.iter_mut().zip(servers) {
            scope.spawn(move || life.load_until(server, |ids, _| ids >= 1000, Server::kill));
        }
    });
    let mut all = Vec::new();
    for mut life in lives {
        life.check();
        all.append(&mut life.ids);
    }
    assert_unique(&mut all);
}

#[test]
fn a_second_process_is_refused_with_the_holders_pid() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &QUIET);
    let first = server.connect().id();
    let log = refused(dir.path(), &[], |_| {});
    let lock = dir.path().join("getid-0.lock");
    let expected = format!(
        "server-id 0 is in use: {} is locked by pid {}; stop that process, or set another server-id or dir",
        lock.display(),
        server.pid()
    );
    assert!(log.contains(&expected), "{log}");
    let other = Server::start_in(dir.path(), &["--server-id", "1"]);
    assert_eq!(other.connect().id() >> 19 & 3, 1);
    assert!(server.connect().id() > first, "the first server continues");
}

#[test]
fn the_oracle_finds_planted_violations() {
    let caught = |ids: Vec<u64>| {
        let mut life = Life { ids, ..Life::default() };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life.check())).is_err()
    };
    assert!(!caught(vec![1 << 21, 2 << 21]));
    assert!(caught(vec![1 << 21, 2 << 21, 1 << 21]), "an ID is issued twice");
    assert!(caught(vec![1 << 21, (2 << 21) + (1 << 19)]), "another server's ID");
    let (largest, received) = (AtomicU64::new(100), ReceivedCounts::default());
    let mut client = Client::new(&largest, &received, 0);
    assert!(client.note(101, 100).is_ok());
    assert!(client.note(101, 100).is_err(), "not ascending on one connection");
    assert!(client.note(99, 100).is_err(), "smaller than one received before the request");
}

/// All lives of one server, and the IDs that its clients received.
#[derive(Default)]
struct Life {
    server_id: u64,
    largest: AtomicU64,
    ids: Vec<u64>,
}

impl Life {
    /// Draws from `server` with four clients until `is_enough` holds for the numbers of received IDs and refusals. Then
    /// ends the server and collects the IDs.
    fn load_until(&mut self, server: Server, is_enough: impl Fn(usize, usize) -> bool, end: impl FnOnce(Server)) {
        let (ended, received) = (AtomicBool::new(false), ReceivedCounts::default());
        std::thread::scope(|scope| {
            let clients = [0, 1, 2, 3].map(|kind| {
                let client = Client::new(&self.largest, &received, kind);
                let (port, ended) = (server.port, &ended);
                scope.spawn(move || client.run(port, ended))
            });
            eventually("the load is large enough", || {
                is_enough(received.ids.load(SeqCst), received.refusals.load(SeqCst))
            });
            end(server);
            ended.store(true, SeqCst);
            for client in clients {
                self.ids.extend(client.join().expect("a client's check"));
            }
        });
    }

    fn check(&mut self) {
        let stranger = self.ids.iter().find(|&&id| id >> 19 & 3 != self.server_id);
        assert_eq!(stranger, None, "an id of another server");
        assert_unique(&mut self.ids);
    }
}

/// Number of IDs and refusals that the clients of a life have received.
#[derive(Default)]
struct ReceivedCounts {
    ids: AtomicUsize,
    refusals: AtomicUsize,
}

fn assert_unique(ids: &mut [u64]) {
    ids.sort_unstable();
    if let Some([twice, _]) = ids.array_windows().find(|[one, next]| one == next) {
        panic!("{twice} was issued twice");
    }
}

/// One connection: sends requests in pipelines and checks every reply.
struct Client<'a> {
    largest: &'a AtomicU64,
    received: &'a ReceivedCounts,
    ids: Vec<u64>,
    last: u64,
    /// Requests that it sends. 0: pipelines of GETID; 1: of MGETID; 2: both mixed; 3: one GETID at a time.
    kind: usize,
}

impl<'a> Client<'a> {
    fn new(largest: &'a AtomicU64, received: &'a ReceivedCounts, kind: usize) -> Client<'a> {
        Client { largest, received, ids: Vec::new(), last: 0, kind }
    }

    fn run(mut self, port: u16, ended: &AtomicBool) -> Vec<u64> {
        let request = match self.kind {
            0 => b"*1\r\n$5\r\nGETID\r\n".repeat(500),
            1 => b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n".repeat(20),
            2 => b"GETID\r\n*2\r\n$6\r\nMGETID\r\n$1\r\n7\r\nGETID\n".repeat(50),
            _ => b"*1\r\n$5\r\nGETID\r\n".to_vec(),
        };
        let replies = [500, 20, 150, 1][self.kind];
        // The connection ends with the server: in the middle of a reply after a kill, or after one.
        let result = (|| -> io::Result<()> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut replies_of = ReplyReader { buffer: vec![0; 1 << 16], start: 0, end: 0 };
            while !ended.load(SeqCst) {
                let floor = self.largest.load(SeqCst);
                stream.write_all(&request)?;
                let result = (0..replies).try_for_each(|_| self.take_reply(&mut replies_of, &mut stream, floor));
                self.largest.fetch_max(self.last, SeqCst);
                result?;
            }
            Ok(())
        })();
        let has_hung = |error: io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!result.is_err_and(has_hung), "the server hangs");
        self.ids
    }

    fn take_reply(&mut self, replies: &mut ReplyReader, stream: &mut TcpStream, floor: u64) -> io::Result<()> {
        match replies.line(stream)? {
            (b'-', _) => {
                self.received.refusals.fetch_add(1, SeqCst);
            }
            (b'*', count) => {
                for _ in 0..count {
                    replies.line(stream)?;
                    let (_, id) = replies.line(stream)?;
                    self.note(id, floor).unwrap_or_else(|text| panic!("{text}"));
                }
            }
            (_, id) => self.note(id, floor).unwrap_or_else(|text| panic!("{text}")),
        }
        Ok(())
    }

    fn note(&mut self, id: u64, floor: u64) -> Result<(), String> {
        if id <= self.last {
            return Err(format!("{id} came after {} on one connection", self.last));
        }
        if id <= floor {
            return Err(format!("{id} was requested after {floor} had been received"));
        }
        self.last = id;
        self.ids.push(id);
        self.received.ids.fetch_add(1, SeqCst);
        Ok(())
    }
}

/// Reads lines off a socket, as their first byte and their number.
struct ReplyReader {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReplyReader {
    fn line(&mut self, stream: &mut TcpStream) -> io::Result<(u8, u64)> {
        loop {
            let filled = &self.buffer[self.start..self.end];
            // Replies have no bare line feed.
            if let Some(end) = filled.iter().position(|&byte| byte == b'\n') {
                let len = end - 1;
                let line = &filled[..len];
                let digits = line.iter().filter(|byte| byte.is_ascii_digit());
                let number = digits.fold(0_u64, |number, digit| number.wrapping_mul(10) + u64::from(digit - b'0'));
                let kind = line[0];
                if kind == b'-' {
                    let text = String::from_utf8_lossy(line);
                    assert!(text.starts_with("-BUSY ") || text.contains("shutting down"), "{text}");
                }
                self.start += len + 2;
                return Ok((kind, number));
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            match stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.end += read,
                // A stop of this process (SIGSTOP) interrupts the call.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn watermark(dir: &Path, server_id: u32) -> u64 {
    let bytes = std::fs::read(dir.join(format!("getid-{server_id}.state"))).expect("a record");
    Record::parse(&bytes).expect("a whole record").point.watermark.0
}

fn tick_now() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test compares IDs with the real clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("past 1970");
    u64::try_from(now.as_millis()).expect("ms") - EPOCH_MS
}

/// Environment variable that makes this test binary run as a server.
const PLANTED_SERVER: &str = "PLANTED_SERVER_WORDS";

/// Not a test: the process that the next test starts.
#[test]
fn a_server_in_which_a_draw_panics() {
    let Ok(words) = std::env::var(PLANTED_SERVER) else { return };
    let _planted = getid_core::server::checks::plant(getid_core::server::checks::Fault::DrawPanics);
    let end = getid::cli::serve::run(words.lines().map(str::to_owned).collect());
    std::process::exit(i32::from(end != std::process::ExitCode::SUCCESS));
}

/// A draw panics: the process ends with an error, so that its supervisor restarts it.
#[test]
fn after_a_panic_inside_a_draw_the_process_ends_with_an_error() {
    let server = Server::start(&[]);
    let dir = server.dir.clone();
    let last = server.connect().id();
    server.kill();
    let socket = dir.join("socket");
    let words = format!("--port\n0\n--unixsocket\n{}\n--dir\n{}", socket.display(), dir.display());
    let mut planted = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "lives::a_server_in_which_a_draw_panics", "--nocapture"])
        .env(PLANTED_SERVER, words)
        .env("GETID_ID_MACHINE_CLAIM", "no")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    eventually("the planted server starts", || UnixStream::connect(&socket).is_ok());
    let mut wire = Wire::connect_unix(&socket);
    let given = wire.id();
    assert!(given > last);
    wire.send("MGETID 7\r\n");
    eventually("the planted server ends", || planted.try_wait().expect("a child").is_some());
    let output = planted.wait_with_output().expect("a child");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("a draw of IDs panicked"), "{text}");
    assert!(Server::start_in(&dir, &[]).connect().id() > given);
}
