//! Whole servers with real databases give numbers without gaps, and IDs of requests, while both are killed. No text has
//! two holders, no number is without a state, and no request has two IDs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::lives::start;
use crate::support::backend::{SqlBackend, restore, save};
#[cfg(feature = "mysql")]
use crate::support::mariadb::MariadbServer;
#[cfg(feature = "postgres")]
use crate::support::postgres::PostgresServer;
use crate::support::{PATIENCE, Random, Server, Wire, eventually, folder};

/// Declarations of both servers: numbers without gaps, and IDs with a time.
const WORDS: [&str; 11] = [
    "--sequence-ride-out-s",
    "5",
    "--generator",
    "invoice",
    "serial",
    "R{n:6}",
    "gapless",
    "--generator",
    "order",
    "fork",
    "--sequence-create=on-first-use",
];

const CONNECTIONS: usize = 100;

/// Operations that all clients complete between two faults.
const MORE: usize = 300;

/// Time limit of an operation: each fault is over by then.
const OPERATION_PATIENCE: Duration = Duration::from_mins(2);

/// What a client did last with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Reserved,
    Committed,
    Released,
    Void,
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Fate::Reserved => "reserved",
            Fate::Committed => "committed",
            Fate::Released => "released",
            Fate::Void => "void",
        }
    }
}

/// What all clients know.
#[derive(Default)]
struct Book {
    /// The request that holds each text, and what was done with it. A release is noted before it is sent.
    held: Mutex<BTreeMap<String, (String, Fate)>>,
    /// The IDs of each request.
    ids: Mutex<BTreeMap<String, String>>,
    operations: AtomicUsize,
    ends: AtomicBool,
}

impl Book {
    fn hold(&self, text: &str, request: &str) {
        let mut held = self.held.lock().unwrap();
        if let Some((holder, fate)) = held.get(text)
            && holder != request
        {
            assert_eq!(*fate, Fate::Released, "{text} of {holder} was given to {request}, too");
        }
        held.insert(text.to_owned(), (request.to_owned(), Fate::Reserved));
    }

    fn settle(&self, text: &str, request: &str, fate: Fate) {
        if let Some(found) = self.held.lock().unwrap().get_mut(text).filter(|(holder, _)| holder == request) {
            found.1 = fate;
        }
    }

    /// Notes the ID of a request, or compares it with the one noted before.
    fn identify(&self, request: &str, id: &str) {
        let mut ids = self.ids.lock().unwrap();
        let known = ids.entry(request.to_owned()).or_insert_with(|| id.to_owned());
        assert_eq!(known, id, "{request} has two IDs");
    }

    #[track_caller]
    fn wait_for_more(&self, when: &str) {
        let aim = self.operations.load(SeqCst) + MORE;
        let end = Instant::now() + OPERATION_PATIENCE;
        while self.operations.load(SeqCst) < aim {
            assert!(Instant::now() < end, "{when}: {} of {aim} operations", self.operations.load(SeqCst));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A client of servers that restart with other ports.
struct Client<'a> {
    ports: &'a [AtomicU16],
    at: usize,
    wire: Option<Wire>,
}

impl Client<'_> {
    /// Repeats a request, on any of the servers, until one has executed it. Returns its reply.
    #[track_caller]
    fn ask(&mut self, request: &str) -> String {
        let end = Instant::now() + OPERATION_PATIENCE;
        loop {
            let reply = self.try_ask(request);
            match reply.as_deref() {
                Some(error)
                    if ["-MISCONF ", "-BUSY ", "-ERR server is shutting down"]
                        .iter()
                        .any(|text| error.starts_with(text)) =>
                {
                    assert!(Instant::now() < end, "{request}: {error}");
                    self.at += 1;
                    self.wire = None;
                }
                Some(reply) => return reply.to_owned(),
                None => {
                    assert!(Instant::now() < end, "{request} got no reply");
                    self.at += 1;
                    self.wire = None;
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn try_ask(&mut self, request: &str) -> Option<String> {
        let port = self.ports[self.at % self.ports.len()].load(SeqCst);
        if self.wire.is_none() {
            self.wire = Some(Wire::new(std::net::TcpStream::connect(("127.0.0.1", port)).ok()?));
        }
        let wire = self.wire.as_mut()?;
        wire.stream().set_read_timeout(Some(PATIENCE)).ok()?;
        wire.try_send(format!("{request}\r\n")).ok()?;
        let head = wire.try_line().ok().filter(|line| !line.is_empty())?;
        if head.starts_with('$') { wire.try_line().ok() } else { Some(head) }
    }
}

/// One client: reserves a number and settles it in one of four ways, or draws the ID of a request. Some requests are
/// repeated.
fn operate(book: &Book, ports: &[AtomicU16], nth: usize) {
    let mut client = Client { ports, at: nth, wire: None };
    for round in 0.. {
        if book.ends.load(SeqCst) {
            return;
        }
        let request = format!("r{nth}-{round}");
        if round % 3 == 2 {
            for _ in 0..2 {
                book.identify(&request, &client.ask(&format!("GETID order REQUEST {request}")));
            }
        } else {
            let reserve = format!("NUMBER RESERVE invoice REQUEST {request}");
            let text = client.ask(&reserve);
            assert!(text.starts_with('R') && text.len() == 7, "{text}");
            book.hold(&text, &request);
            let (act, fate) = match (nth + round) % 5 {
                0 => (format!("NUMBER RELEASE invoice {request}"), Fate::Released),
                1 => (format!("NUMBER VOID invoice {request} REASON 'printed twice'"), Fate::Void),
                2 => (String::new(), Fate::Reserved),
                _ => (format!("NUMBER COMMIT invoice {request}"), Fate::Committed),
            };
            if act.is_empty() {
                assert_eq!(client.ask(&reserve), text, "a repeated request");
            } else {
                book.settle(&text, &request, fate);
                assert_eq!(client.ask(&act), "+OK", "{act}");
                assert_eq!(client.ask(&act), "+OK", "{act}, repeated");
            }
        }
        book.operations.fetch_add(1, SeqCst);
    }
}

/// A row of the ledger.
#[derive(Debug)]
struct Row {
    number: i64,
    last: i64,
    text: String,
    state: String,
    request: String,
}

/// Reads the whole ledger in pages.
fn ledger(wire: &mut Wire) -> Vec<Row> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = if cursor.is_empty() { String::new() } else { format!(" CURSOR '{cursor}'") };
        let mut reply = String::new();
        eventually("the ledger is read", || {
            wire.send(format!("NUMBER LEDGER invoice{page} COUNT 1000\r\n"));
            reply = String::from_utf8(wire.reply()).unwrap();
            reply.starts_with('*')
        });
        let lines: Vec<&str> = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
        let mut row: BTreeMap<&str, &str> = BTreeMap::new();
        let fields = ["number", "last", "text", "state", "request"];
        let starts: Vec<usize> =
            lines.iter().enumerate().filter(|(_, line)| **line == "number").map(|(at, _)| at).collect();
        for (nth, start) in starts.iter().enumerate() {
            let end = starts.get(nth + 1).copied().unwrap_or(lines.len());
            for field in fields {
                let at = lines[*start..end].iter().position(|line| *line == field);
                let value = at.and_then(|at| lines.get(start + at + 1)).copied().unwrap_or_default();
                row.insert(field, value.trim_start_matches(':'));
            }
            rows.push(Row {
                number: row["number"].parse().unwrap(),
                last: row["last"].parse().unwrap(),
                text: row["text"].to_owned(),
                state: row["state"].to_owned(),
                request: row["request"].to_owned(),
            });
        }
        lines.first().copied().unwrap_or_default().clone_into(&mut cursor);
        if cursor.is_empty() || starts.is_empty() {
            return rows;
        }
    }
}

/// Checks that every number from 1 to the highest has one row, and returns the rows by their texts.
#[track_caller]
fn without_gaps(rows: Vec<Row>) -> BTreeMap<String, Row> {
    let mut next = 1;
    for row in &rows {
        assert!(row.number == next && row.last >= row.number, "{next} is followed by {row:?}");
        assert!(["reserved", "committed", "released", "void", "unclear"].contains(&&*row.state), "{row:?}");
        next = row.last + 1;
    }
    let count = rows.len();
    let by_text: BTreeMap<String, Row> = rows.into_iter().map(|row| (row.text.clone(), row)).collect();
    assert_eq!(by_text.len(), count, "a text is in the ledger twice");
    by_text
}

/// Clients of two servers, or of one with its own file, reserve and settle while servers and database are killed.
fn numbers_through_faults(mut database: Option<&mut dyn SqlBackend>) {
    let dir = folder();
    let stores: Vec<String> = database.iter().map(|database| database.url()).collect();
    let many = if stores.is_empty() { 1 } else { 2 };
    let mut servers: Vec<Server> = (1..=many).map(|number| start(dir.path(), number, &stores, &WORDS)).collect();
    let ports: Vec<AtomicU16> = servers.iter().map(|server| server.port.into()).collect();
    let book = Book::default();
    let faults = if stores.is_empty() { 4 } else { 8 };
    let order = Random(u64::from(std::process::id())).permutation(faults);
    println!("faults in the order {order:?}");
    std::thread::scope(|scope| {
        for nth in 0..CONNECTIONS {
            let (book, ports) = (&book, &ports);
            scope.spawn(move || operate(book, ports, nth));
        }
        for fault in order {
            let nth = fault as usize;
            book.wait_for_more("before a fault");
            match database.as_mut() {
                Some(database) if nth % 2 == 1 => {
                    database.kill();
                    std::thread::sleep(Duration::from_millis(300));
                    database.start_again();
                }
                _ => {
                    let number = nth / 2 % servers.len();
                    servers[number].signal(Signal::SIGKILL);
                    servers[number].wait();
                    servers[number] = start(dir.path(), number + 1, &stores, &WORDS);
                    ports[number].store(servers[number].port, SeqCst);
                }
            }
            book.wait_for_more("after a fault");
        }
        book.ends.store(true, SeqCst);
    });
    let rows = without_gaps(ledger(&mut servers[0].connect()));
    let held = book.held.into_inner().unwrap();
    println!("{} numbers, {} requests with IDs", rows.len(), book.ids.lock().unwrap().len());
    for (text, (request, fate)) in &held {
        let row = rows.get(text).unwrap_or_else(|| panic!("{text} of {request} is not in the ledger"));
        if *fate == Fate::Released {
            assert!(row.state == "released" || row.request != *request, "{row:?} was released");
        } else {
            assert_eq!((&*row.state, &*row.request), (fate.word(), &**request), "{text}");
        }
    }
    let ids = book.ids.into_inner().unwrap();
    let mut client = Client { ports: &ports, at: 0, wire: None };
    for (request, id) in ids.iter().step_by(7) {
        assert_eq!(client.ask(&format!("GETID order REQUEST {request}")), *id, "{request}");
    }
    let distinct: std::collections::BTreeSet<&String> = ids.values().collect();
    assert_eq!(distinct.len(), ids.len(), "two requests have one ID");
}

fn reserve(wire: &mut Wire, request: &str) -> String {
    let mut text = String::new();
    eventually("a number is reserved", || {
        wire.ask_bulk(&format!("NUMBER RESERVE invoice REQUEST {request}")).trim_end().clone_into(&mut text);
        text.starts_with('R')
    });
    text
}

/// The database goes back, to a restored copy or a replica that lags. No number of before is handed out again: those
/// whose state is lost are unclear, until an administrator settles them.
fn lost_states_are_unclear(database: &mut dyn SqlBackend) {
    let dir = folder();
    let stores = [database.url()];
    let servers = [1, 2].map(|number| start(dir.path(), number, &stores, &WORDS));
    let mut wires: Vec<Wire> = servers.iter().map(Server::connect).collect();
    let before: Vec<String> = (0..10).map(|nth| reserve(&mut wires[nth % 2], &format!("a{nth}"))).collect();
    for nth in 0..5 {
        eventually("a number is committed", || wires[0].ask(&format!("NUMBER COMMIT invoice a{nth}")) == "+OK");
    }
    database.kill();
    let replica = folder();
    save(database, replica.path());
    database.start_again();
    let lost: Vec<String> = (0..10).map(|nth| reserve(&mut wires[0], &format!("b{nth}"))).collect();
    database.kill();
    restore(database, replica.path());
    database.start_again();
    let after: Vec<String> = (0..10).map(|nth| reserve(&mut wires[(nth + 1) % 2], &format!("c{nth}"))).collect();
    assert!(after.iter().all(|text| !before.contains(text) && !lost.contains(text)), "{after:?} after {lost:?}");
    let rows = without_gaps(ledger(&mut wires[1]));
    for text in &lost {
        let state =
            rows.values().find(|row| (&row.text <= text) && row.number <= number(text) && number(text) <= row.last);
        assert_eq!(state.map(|row| &*row.state), Some("unclear"), "{text}");
    }
    for text in &before[..5] {
        assert_eq!(rows[text].state, "committed", "{text}");
    }
    eventually("an unclear number is settled", || {
        wires[1].ask(&format!("NUMBER SETTLE invoice {} VOID REASON 'the invoice does not exist'", lost[0])) == "+OK"
    });
    without_gaps(ledger(&mut wires[0]));
}

/// The server that had the last numbers never runs again, and the replica lacks them. Numbers that it may have changed
/// are unclear, and a released number that it alone had handed out is not handed out again.
fn a_lost_server_leaves_unclear_numbers(database: &mut dyn SqlBackend) {
    let dir = folder();
    let stores = [database.url()];
    let mut servers = [1, 2].map(|number| start(dir.path(), number, &stores, &WORDS));
    let mut wires: Vec<Wire> = servers.iter().map(Server::connect).collect();
    let before: Vec<String> = (0..4).map(|nth| reserve(&mut wires[0], &format!("a{nth}"))).collect();
    for act in ["COMMIT invoice a0", "RELEASE invoice a1"] {
        eventually("a number is settled", || wires[0].ask(&format!("NUMBER {act}")) == "+OK");
    }
    database.kill();
    let replica = folder();
    save(database, replica.path());
    database.start_again();
    let lost: Vec<String> = (0..3).map(|nth| reserve(&mut wires[1], &format!("b{nth}"))).collect();
    assert_eq!(lost[0], before[1], "the released one");
    servers[1].signal(Signal::SIGKILL);
    servers[1].wait();
    database.kill();
    restore(database, replica.path());
    database.start_again();
    let mut nonce = String::new();
    eventually("the store is held", || {
        let held = wires[0].ask_bulk("NUMBER RESERVE invoice REQUEST c");
        assert!(held.starts_with('-'), "{held}");
        let found = held.split("SEQUENCE STORES CONFIRM ").nth(1).and_then(|rest| rest.split([' ', '\'']).next());
        found.unwrap_or_default().clone_into(&mut nonce);
        !nonce.is_empty()
    });
    eventually("the server is released", || {
        let reply = wires[0].ask(&format!("SEQUENCE STORES CONFIRM {nonce} RAISE-ALL 100"));
        reply == "+OK" || reply.contains("no store waits for it")
    });
    let after: Vec<String> = (0..5).map(|nth| reserve(&mut wires[0], &format!("c{nth}"))).collect();
    assert!(after.iter().all(|text| !before.contains(text) && !lost.contains(text)), "{after:?} after {lost:?}");
    let rows = without_gaps(ledger(&mut wires[0]));
    let states: Vec<&str> = before.iter().map(|text| &*rows[text].state).collect();
    assert_eq!(states, ["committed", "unclear", "unclear", "unclear"]);
    let range = &rows["R000005"];
    assert_eq!((&*range.state, range.last), ("unclear", 104));
}

fn number(text: &str) -> i64 {
    text.trim_start_matches('R').parse().unwrap()
}

#[test]
fn sqlite_keeps_numbers_through_faults() {
    numbers_through_faults(None);
}

/// Runs each story with an empty database of one database server.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn all_stories(database: &mut dyn SqlBackend) {
    let stories: [fn(&mut dyn SqlBackend); 3] = [
        |database| numbers_through_faults(Some(database)),
        lost_states_are_unclear,
        a_lost_server_leaves_unclear_numbers,
    ];
    for story in stories {
        database.clear();
        story(database);
    }
}

#[cfg(feature = "postgres")]
#[test]
#[ignore = "needs postgresql"]
fn on_postgres() {
    all_stories(&mut PostgresServer::start(&[]));
}

#[cfg(feature = "mysql")]
#[test]
#[ignore = "needs mariadb"]
fn on_mariadb() {
    all_stories(&mut MariadbServer::start(&[]));
}
