//! The values given to all clients, and clients that draw values through all faults.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::PATIENCE;

/// The least number of values that are given between two faults.
const MORE: i64 = 2_000;

/// The values given by all servers to all clients.
#[derive(Default)]
pub(super) struct Book {
    ranges: Mutex<Vec<(i64, i64)>>,
    refusals: Mutex<BTreeMap<String, usize>>,
}

impl Book {
    pub(super) fn add(&self, first: i64, last: i64) {
        self.ranges.lock().unwrap().push((first, last));
    }

    /// Returns the largest value given.
    pub(super) fn highest(&self) -> i64 {
        self.ranges.lock().unwrap().iter().map(|(_, last)| *last).max().unwrap()
    }

    fn refused(&self, reply: &str) {
        *self.refusals.lock().unwrap().entry(reply.to_owned()).or_default() += 1;
    }

    /// Asserts that no value was given twice. Prints the refusals, which explain a failed story.
    #[track_caller]
    pub(super) fn check(&self) {
        let mut ranges = self.ranges.lock().unwrap().clone();
        ranges.sort_unstable();
        println!("{} replies, and {:#?}", ranges.len(), self.refusals.lock().unwrap());
        for pair in ranges.windows(2) {
            assert!(pair[0].1 < pair[1].0, "given twice: {pair:?}");
        }
    }
}

/// The time limit for [`MORE`] values: a slow disk may sync for each of them.
const MORE_PATIENCE: Duration = Duration::from_mins(2);

/// The signal on which clients stop.
#[derive(Default)]
pub(super) struct StopFlag(AtomicBool);

pub(super) struct StopOnDrop<'a>(&'a StopFlag);

impl StopFlag {
    pub(super) fn at_drop(&self) -> StopOnDrop<'_> {
        StopOnDrop(self)
    }
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, SeqCst);
    }
}

/// A sequence from which clients draw values, on a server that may restart with another port.
pub(super) struct Counted<'a> {
    pub(super) book: &'a Book,
    pub(super) port: AtomicU16,
    pub(super) name: &'static str,
    /// The largest value given so far: every later request gets more.
    pub(super) high: &'a AtomicI64,
    /// The distance between values of one range.
    pub(super) increment: i64,
}

impl Counted<'_> {
    /// Draws values until the end, and reconnects whenever the connection ends.
    pub(super) fn count(&self, nth: usize, end: &StopFlag) {
        while !end.0.load(SeqCst) {
            let Ok(mut client) = Client::connect(self.port.load(SeqCst)) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let mut round = nth;
            while !end.0.load(SeqCst) && self.ask(&mut client, nth, round).is_ok() {
                round += 1;
            }
        }
    }

    /// Sends one request, or several at a time for every fourth client.
    fn ask(&self, client: &mut Client, nth: usize, round: usize) -> io::Result<()> {
        let asks: Vec<i64> = match nth % 4 {
            3 => (0..20).map(|place| [1, 1, 1, 7, 3][place % 5]).collect(),
            _ => vec![[1, 5, 1, 40][round % 4]],
        };
        let name = self.name;
        let requests: String = asks
            .iter()
            .map(|values| match values {
                1 => format!("INCR {name}\r\n"),
                values if values % 2 == 0 => format!("HINCRBY {name} cur {values}\r\n"),
                values => format!("INCRBY {name} {values}\r\n"),
            })
            .collect();
        let mut before = self.high.load(SeqCst);
        client.send(&requests)?;
        for values in asks {
            let reply = client.line()?;
            let Some(last) = reply.strip_prefix(':') else {
                let may = ["-MISCONF ", "-BUSY ", "-ERR server is shutting down"];
                assert!(may.iter().any(|text| reply.starts_with(text)), "{reply}");
                assert!(!reply.contains("secret"), "{reply}");
                self.book.refused(&reply);
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            let last: i64 = last.parse().expect("a value");
            let first = last - (values - 1) * self.increment;
            // Noted first: every later request comes after this reply.
            self.book.add(first, last);
            assert!(first > before, "{first} to {last} was given to a request sent after {before} was given");
            before = last;
            self.high.fetch_max(last, SeqCst);
        }
        Ok(())
    }

    #[track_caller]
    pub(super) fn wait_for_more(&self, when: &str) {
        let before = self.high.load(SeqCst);
        let refusals = || self.book.refusals.lock().unwrap().clone();
        let end = Instant::now() + MORE_PATIENCE;
        while self.high.load(SeqCst) <= before + MORE {
            assert!(Instant::now() < end, "not in time: values {when}; {:#?}", refusals());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A connection that may break at any time. Only a whole line counts as a reply.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    fn send(&mut self, requests: &str) -> io::Result<()> {
        self.0.get_mut().write_all(requests.as_bytes())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("no reply in {PATIENCE:?}")
            }
            read => read?,
        };
        line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}
