//! Whole servers with real databases: both are killed, paused and stopped while clients draw values. After every fault,
//! no value repeats, values ascend, and service resumes without an operator.
//!
//! The stories are the same for all databases. `book` has the given values and the clients.

mod book;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use self::book::{Book, Counted, StopFlag};
use crate::support::backend::{SqlBackend, restore, save};
#[cfg(feature = "mysql")]
use crate::support::mariadb::MariadbServer;
#[cfg(feature = "postgres")]
use crate::support::postgres::PostgresServer;
use crate::support::program::finish;
use crate::support::{PATIENCE, Random, Server, Wire, eventually, folder, getid, in_time};

/// Long enough that others give up a server that stalls.
const STANDSTILL: Duration = Duration::from_secs(3);

/// The setting `sequence-ride-out-s`, in s: the least that can be set. A change by another server is in force after
/// this time.
const RIDE_OUT_S: u64 = 5;

/// The text that a server logs about a store that does not answer.
const DOWN: &str = "It is tried again until it answers";

/// Starts a server with this number, in its own folder below `dir`.
pub(crate) fn start(dir: &Path, number: usize, stores: &[String], words: &[&str]) -> Server {
    let dir = dir.join(number.to_string());
    fs::create_dir_all(&dir).unwrap();
    let number = number.to_string();
    let mut all = vec!["--server-id", &number];
    all.extend(stores.iter().flat_map(|url| ["--sequence-store", url.as_str()]));
    all.extend(words);
    Server::start_in(&dir, &all)
}

fn end(server: &mut Server, signal: Signal) -> ExitStatus {
    server.signal(signal);
    server.wait()
}

#[track_caller]
fn value(reply: &str) -> i64 {
    reply.strip_prefix(':').and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no value: {reply}"))
}

/// Returns the value as soon as the server gives one.
#[track_caller]
fn value_in_time(wire: &mut Wire, request: &str) -> i64 {
    value(&answer_in_time(wire, request, |reply| reply.starts_with(':')))
}

/// Repeats an operator's request until the store executes it, and returns the reply.
#[track_caller]
fn done_in_time(wire: &mut Wire, request: &str) -> String {
    answer_in_time(wire, request, |reply| !reply.starts_with("-MISCONF"))
}

#[track_caller]
fn answer_in_time(wire: &mut Wire, request: &str, is_good: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let reply = wire.ask(request);
        assert!(!reply.contains("secret"), "{reply}");
        if is_good(&reply) {
            return reply;
        }
        assert!(Instant::now() < end, "{request} is not answered well: {reply}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns numeric fields of one `SEQUENCE INFO`.
#[track_caller]
fn info_fields<const N: usize>(wire: &mut Wire, name: &str, fields: [&str; N]) -> [i64; N] {
    wire.send(format!("SEQUENCE INFO {name}\r\n"));
    let reply = String::from_utf8(wire.reply()).unwrap();
    fields.map(|field| {
        let mut lines = reply.lines().skip_while(|line| *line != field);
        value(lines.nth(1).unwrap_or_else(|| panic!("{field}: {reply}")))
    })
}

/// Clients of each server in turn draw values while `during` runs, and then stop.
fn under_load<T>(clients: usize, servers: &[&Counted<'_>], during: impl FnOnce() -> T) -> T {
    let end = StopFlag::default();
    std::thread::scope(|scope| {
        // It is also set when `during` panics, because nothing else would stop the clients.
        let _ends = end.at_drop();
        for nth in 0..clients {
            let (end, server) = (&end, servers[nth % servers.len()]);
            scope.spawn(move || server.count(nth / servers.len(), end));
        }
        during()
    })
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Stopped,
    Paused,
    DatabaseKilled,
    DatabasePaused,
}

/// Eight connections draw values while server and database end or stall, in random order. Service resumes each time
/// without an operator.
fn counts_through_faults(mut database: Option<&mut dyn SqlBackend>) {
    let dir = folder();
    let stores: Vec<String> = database.iter().map(|database| database.url()).collect();
    let mut server = start(dir.path(), 1, &stores, &[]);
    assert_eq!(done_in_time(&mut server.connect(), "SEQUENCE CREATE orders"), "+OK");
    let (book, high) = (Book::default(), AtomicI64::new(0));
    let counted = Counted { book: &book, port: server.port.into(), name: "orders", high: &high, increment: 1 };
    // Without a database, nothing gives up a server that stalls.
    let standstill = if database.is_some() { STANDSTILL } else { Duration::from_millis(100) };
    let mut faults = vec![Fault::Killed, Fault::Stopped, Fault::Paused, Fault::Killed, Fault::Stopped];
    if database.is_some() {
        faults.extend([Fault::DatabaseKilled, Fault::DatabasePaused, Fault::DatabaseKilled]);
    }
    let order = Random(u64::from(std::process::id())).permutation(faults.len());
    println!("{faults:?} in the order {order:?}");
    under_load(8, &[&counted], || {
        for fault in order.into_iter().map(|place| faults[place as usize]) {
            counted.wait_for_more(&format!("before {fault:?}"));
            match (fault, database.as_mut()) {
                (Fault::Killed, _) => {
                    end(&mut server, Signal::SIGKILL);
                    server = start(dir.path(), 1, &stores, &[]);
                    counted.port.store(server.port, SeqCst);
                }
                (Fault::Stopped, _) => {
                    assert!(end(&mut server, Signal::SIGTERM).success());
                    server = start(dir.path(), 1, &stores, &[]);
                    counted.port.store(server.port, SeqCst);
                }
                (Fault::DatabaseKilled, Some(database)) => {
                    database.kill();
                    std::thread::sleep(Duration::from_millis(500));
                    database.start_again();
                }
                (Fault::DatabasePaused, Some(database)) => {
                    database.pause();
                    std::thread::sleep(STANDSTILL);
                    database.resume();
                }
                _ => {
                    server.signal(Signal::SIGSTOP);
                    std::thread::sleep(standstill);
                    server.signal(Signal::SIGCONT);
                }
            }
            counted.wait_for_more(&format!("after {fault:?}"));
        }
    });
    book.check();
    skips_only_what_info_reported(server, || start(dir.path(), 1, &stores, &[]), high.into_inner());
}

/// After a kill, a server skips at most the values that `SEQUENCE INFO` reported as left; after a clean stop, none.
///
/// Values of a reservation whose answer is lost are discarded and add to the gap. So only lives without a failed
/// reservation are judged, and not the life that faults have just ended.
fn skips_only_what_info_reported(mut server: Server, start: impl Fn() -> Server, high: i64) {
    let mut wire = server.connect();
    let mut last = value_in_time(&mut wire, "INCR orders");
    assert!(last > high);
    let again = |mut server: Server, signal: Signal| {
        let is_killed = signal == Signal::SIGKILL;
        assert!(end(&mut server, signal).success() != is_killed);
        let server = start();
        (server.connect(), server)
    };
    (wire, server) = again(server, Signal::SIGTERM);
    let has_failed = |wire: &mut Wire| info_fields(wire, "orders", ["errors"]) > [0];
    let (mut kills, mut stops) = (0, 0);
    for _ in 0..20 {
        last = value_in_time(&mut wire, "INCRBY orders 250").max(last);
        // No client draws values, so running reservations end soon.
        let mut left = 0;
        eventually("no reservation is running", || {
            let [before, skips] = info_fields(&mut wire, "orders", ["left", "a_kill_skips"]);
            left = skips;
            before == skips
        });
        let is_judged = !has_failed(&mut wire);
        (wire, server) = again(server, Signal::SIGKILL);
        let next = value_in_time(&mut wire, "INCR orders");
        assert!(last < next, "{next} after {last}");
        if is_judged {
            assert!(next <= last + left + 1, "{next} after {last}, of which {left} were reported as left");
            kills += 1;
        }
        last = value_in_time(&mut wire, "INCRBY orders 30");
        let is_judged = !has_failed(&mut wire);
        assert!(last == next + 30 || !is_judged, "{last} after {next}");
        (wire, server) = again(server, Signal::SIGTERM);
        let next = value_in_time(&mut wire, "INCR orders");
        assert!(last < next, "{next} after {last}");
        if is_judged {
            assert_eq!(next, last + 1, "a clean stop skips nothing");
            stops += 1;
        }
        last = next;
        if kills.min(stops) >= 2 {
            return;
        }
    }
    panic!("{kills} kills and {stops} clean stops of a server whose reservations were all answered");
}

/// Two servers draw from one row. A raise on one server is in force on the other by the time that the reply names, even
/// if the other stalled meanwhile. With `cache 0`, values ascend over both.
fn two_servers_share_a_row(database: &dyn SqlBackend) {
    let dir = folder();
    let stores = [database.url()];
    let ride_out = RIDE_OUT_S.to_string();
    let words = ["--sequence-ride-out-s", &ride_out];
    let servers = [1, 2].map(|number| start(dir.path(), number, &stores, &words));
    let mut wires: Vec<Wire> = servers.iter().map(Server::connect).collect();
    assert_eq!(done_in_time(&mut wires[0], "SEQUENCE CREATE orders"), "+OK");
    let (book, highs) = (Book::default(), [0, 0].map(AtomicI64::new));
    let both: Vec<Counted<'_>> = servers
        .iter()
        .zip(&highs)
        .map(|(server, high)| Counted { book: &book, port: server.port.into(), name: "orders", high, increment: 1 })
        .collect();
    let both: Vec<&Counted<'_>> = both.iter().collect();
    let mut raised = 0;
    under_load(8, &both, || {
        for stands_still in [false, true] {
            for server in &both {
                server.wait_for_more("before a raise");
            }
            let last = highs.iter().map(|high| high.load(SeqCst)).max().unwrap() + 50_000_000;
            if stands_still {
                servers[1].signal(Signal::SIGSTOP);
            }
            let reply = done_in_time(&mut wires[0], &format!("SEQUENCE RAISE orders {last}"));
            assert_eq!(reply, format!("+OK here, and on every server in {RIDE_OUT_S} s"));
            assert!(value_in_time(&mut wires[0], "INCR orders") > last, "at once on the server that raised it");
            std::thread::sleep(Duration::from_secs(RIDE_OUT_S));
            if stands_still {
                servers[1].signal(Signal::SIGCONT);
            }
            let there = value_in_time(&mut wires[1], "INCR orders");
            assert!(there > last, "{there} was given after {last} was raised");
            // From here on, no connection gets a value below it.
            for high in &highs {
                high.fetch_max(last, SeqCst);
            }
            raised = last;
        }
        for server in &both {
            server.wait_for_more("after the raises");
        }
    });
    assert!(highs.iter().all(|high| high.load(SeqCst) > raised));
    book.check();

    assert_eq!(done_in_time(&mut wires[0], "SEQUENCE CREATE strict CACHE 0"), "+OK");
    let (book, high) = (Book::default(), AtomicI64::new(0));
    let strict = [&servers[0], &servers[1]].map(|server| Counted {
        book: &book,
        port: server.port.into(),
        name: "strict",
        high: &high,
        increment: 1,
    });
    under_load(8, &[&strict[0], &strict[1]], || {
        strict[0].wait_for_more("of a strict sequence");
    });
    book.check();
}

/// Each of two stores fails in turn: values keep ascending, and the store is used again.
fn one_of_two_stores_ends(databases: &mut [&mut dyn SqlBackend; 2]) {
    let dir = folder();
    let stores = databases.each_ref().map(|database| database.url());
    // Few values are held in memory, so the other store is needed soon.
    let mut server = start(dir.path(), 1, &stores, &["--sequence-ride-out-s", "5"]);
    let mut wire = server.connect();
    assert_eq!(done_in_time(&mut wire, "SEQUENCE CREATE orders"), "+OK");
    let (book, high) = (Book::default(), AtomicI64::new(0));
    let counted = Counted { book: &book, port: server.port.into(), name: "orders", high: &high, increment: 2 };
    under_load(8, &[&counted], || {
        counted.wait_for_more("of two stores");
        for database in databases {
            let logged = server.count_log(DOWN);
            database.kill();
            eventually("the store's failure is logged", || server.count_log(DOWN) > logged);
            // Longer than the values in memory last.
            for _ in 0..15 {
                counted.wait_for_more("of the other store");
                std::thread::sleep(Duration::from_millis(200));
            }
            database.start_again();
            eventually("both stores are up", || {
                wire.send("SEQUENCE STORES\r\n");
                String::from_utf8(wire.reply()).unwrap().matches("\r\nup\r\n").count() == 2
            });
            counted.wait_for_more("of both");
        }
    });
    book.check();
    end(&mut server, Signal::SIGTERM);
}

/// All rows are restored from a backup. Each server that had more values refuses by name, and so does a new server,
/// until an operator has settled the row. No value repeats.
fn an_old_copy_is_put_back(database: &dyn SqlBackend) {
    let dir = folder();
    let stores = [database.url()];
    let mut servers = [1, 2].map(|number| start(dir.path(), number, &stores, &[]));
    let mut wires: Vec<Wire> = servers.iter().map(Server::connect).collect();
    let book = Book::default();
    let take = |wire: &mut Wire, name: &str| {
        let reply = wire.ask(&format!("INCRBY {name} 40"));
        if reply.starts_with(':') {
            book.add(value(&reply) - 39, value(&reply));
        }
        reply
    };
    // A store that stalls gives no values for a while.
    let takes = |wire: &mut Wire| {
        let last = value_in_time(wire, "INCRBY orders 40");
        book.add(last - 39, last);
    };
    let refuses = "-MISCONF sequence 'orders': its store went back below values that were given";
    let finds = "the sequence 'orders' went back: its next value in ";
    for confirms in [false, true] {
        assert!(done_in_time(&mut wires[0], "SET orders 0 NX").starts_with(['+', '$']));
        takes(&mut wires[0]);
        database.sql("CREATE TABLE old_rows AS SELECT * FROM getid_sequence");
        database.sql("CREATE TABLE old_store AS SELECT * FROM getid_store");
        for wire in &mut wires {
            (0..50).for_each(|_| takes(wire));
        }
        let found = servers.each_mut().map(|server| server.count_log(finds));
        database.sql("DELETE FROM getid_sequence; INSERT INTO getid_sequence SELECT * FROM old_rows;");
        database.sql("DELETE FROM getid_store; INSERT INTO getid_store SELECT * FROM old_store;");
        database.sql("DROP TABLE old_rows; DROP TABLE old_store;");
        for wire in &mut wires {
            eventually("the server refuses", || take(wire, "orders").starts_with(refuses));
        }
        // The server that finds it logs it.
        eventually("the loss is logged", || servers.each_mut().map(|server| server.count_log(finds)) != found);
        // The row is marked: a new server without values of it refuses too, and so does a restarted server.
        let new = start(dir.path(), 3, &stores, &[]);
        eventually("a new server refuses", || take(&mut new.connect(), "orders").starts_with(refuses));
        end(&mut servers[0], Signal::SIGKILL);
        servers[0] = start(dir.path(), 1, &stores, &[]);
        wires[0] = servers[0].connect();
        // A store that is not open yet causes another refusal. A value would be wrong.
        eventually("the server refuses after a restart", || {
            let reply = take(&mut wires[0], "orders");
            assert!(reply.starts_with('-'), "{reply}");
            reply.starts_with(refuses)
        });
        // The documented remedy: the largest value in the tables. The row may be above it already.
        let last = if confirms { 0 } else { book.highest() };
        let request =
            if confirms { "SEQUENCE CONFIRM orders".to_owned() } else { format!("SEQUENCE RAISE orders {last}") };
        let reply = done_in_time(&mut wires[1], &request);
        assert!(reply.starts_with("+OK"), "{reply}");
        wires.push(new.connect());
        for wire in &mut wires {
            assert!(value_in_time(wire, "INCR orders") > last);
            takes(wire);
        }
        wires.pop();
        book.check();
    }
}

/// Takes ten values of `orders`, `times` times.
fn take_tens(book: &Book, wire: &mut Wire, times: usize) {
    for _ in 0..times {
        let last = value_in_time(wire, "INCRBY orders 10");
        book.add(last - 9, last);
    }
}

/// Three servers draw values. The database fails over to a replica without the last values of the first server. No
/// other server gives those values.
fn a_replica_lacks_the_last_writes(database: &mut dyn SqlBackend) {
    let dir = folder();
    let stores = [database.url()];
    let mut servers = [1, 2, 3].map(|number| start(dir.path(), number, &stores, &["--sequence-ride-out-s", "5"]));
    let mut wires: Vec<Wire> = servers.iter().map(Server::connect).collect();
    assert_eq!(done_in_time(&mut wires[0], "SEQUENCE CREATE orders"), "+OK");
    let book = Book::default();
    let take = |wire: &mut Wire, times: usize| take_tens(&book, wire, times);
    for wire in &mut wires {
        take(wire, 10);
    }
    database.kill();
    // The replica's state: it lags from here on.
    let replica = folder();
    save(database, replica.path());
    database.start_again();
    take(&mut wires[0], 500);
    database.kill();
    restore(database, replica.path());
    database.start_again();
    for wire in wires.iter_mut().rev() {
        take(wire, 500);
    }
    book.check();
    // The server whose values were lost logs it with its next beat, which may come after the values above.
    servers[0].wait_log("lost writes");
}

/// A dump is restored, table by table, while servers run.
fn a_dump_is_restored(database: &dyn SqlBackend) {
    let dir = folder();
    let stores = [database.url()];
    let servers = [1, 2, 3].map(|number| start(dir.path(), number, &stores, &["--sequence-ride-out-s", "5"]));
    let mut wires: Vec<Wire> = servers.iter().map(Server::connect).collect();
    assert_eq!(done_in_time(&mut wires[0], "SEQUENCE CREATE orders"), "+OK");
    let book = Book::default();
    let take = |wire: &mut Wire, times: usize| take_tens(&book, wire, times);
    for wire in &mut wires {
        take(wire, 10);
    }
    let tables = ["getid_beat", "getid_sequence", "getid_store"];
    for table in tables {
        database.sql(&format!("CREATE TABLE old_{table} AS SELECT * FROM {table}"));
    }
    take(&mut wires[0], 500);
    let beaten = "SELECT count(*) FROM getid_beat b JOIN old_getid_beat o ON b.nonce = o.nonce \
                  WHERE b.state = 'live' AND b.beat > o.beat + 1";
    eventually("each server has written a beat since", || database.sql(beaten) == "3");
    for table in tables {
        database.sql(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM old_{table};"));
    }
    for wire in wires.iter_mut().rev() {
        take(wire, 500);
    }
    book.check();
    for table in tables {
        database.sql(&format!("DROP TABLE old_{table}"));
    }
    drop(servers);
}

/// All rows are gone because the store was lost. A server that had values reports it, and its remedy leads above those
/// values.
fn all_rows_are_lost(database: &dyn SqlBackend) {
    let dir = folder();
    let words = ["--sequence-create", "on-first-use"];
    for remedy in ["SEQUENCE CREATE orders", "SEQUENCE RAISE orders 5"] {
        let server = start(dir.path(), 1, &[database.url()], &words);
        let mut wire = server.connect();
        let last = value_in_time(&mut wire, "INCRBY orders 1000");
        drop(server);
        database.sql("DELETE FROM getid_sequence");
        let server = start(dir.path(), 1, &[database.url()], &words);
        let mut wire = server.connect();
        let message = answer_in_time(&mut wire, "INCR orders", |reply| reply.contains("has no row of it"));
        assert!(message.starts_with("-MISCONF sequence 'orders': ") && !message.contains("CREATE"), "{message}");
        assert!(done_in_time(&mut wire, remedy).starts_with("+OK"), "{remedy}");
        let next = value_in_time(&mut wire, "INCR orders");
        assert!(next > last, "{next} after {last}, by {remedy}");
    }
}

/// Rows of periods have timestamps of 1970, as after a database with a wrong clock. A server in a new folder continues
/// above them.
fn periods_outlive_a_wrong_clock(database: &dyn SqlBackend) {
    let dir = folder();
    let words = ["--generator", "i", "serial", "{yyyyMMdd}{n:9}", "zone", "UTC"];
    let mut last = String::new();
    for number in 1..=3 {
        let mut server = start(dir.path(), number, &[database.url()], &words);
        let mut wire = server.connect();
        for _ in 0..3 {
            let text = in_time("a serial number", || {
                let reply = wire.ask_bulk("GETID i");
                let text = reply.trim_end().trim_start_matches([':', '+', '$']);
                (text.len() == 17).then(|| text.to_owned())
            });
            assert!(text > last, "{text} after {last}");
            last = text;
        }
        // The next server would wait a minute for one that was killed.
        assert!(end(&mut server, Signal::SIGTERM).success());
        database.sql("UPDATE getid_sequence SET created = 1000, updated = 1000");
    }
}

/// One of two servers is a day behind because of its time zone. It is refused until its declaration is the stored one.
/// It then continues in the newer period, also after a start in an empty folder.
fn a_period_never_goes_back(database: &dyn SqlBackend) {
    let dir = folder();
    let zone = |zone: &'static str| ["--generator", "i", "serial", "{yyyyMMdd}{n:9}", "zone", zone];
    let number = |wire: &mut Wire| {
        let mut text = String::new();
        eventually("a serial number", || {
            wire.ask_bulk("GETID i").trim_end().clone_into(&mut text);
            text.len() == 17 || text.starts_with("-ERR")
        });
        text
    };
    let ahead = start(dir.path(), 1, &[database.url()], &zone("Pacific/Kiritimati"));
    let last = number(&mut ahead.connect());
    for life in 2..4 {
        let mut behind = start(dir.path(), life, &[database.url()], &zone("Etc/GMT+12"));
        let mut wire = behind.connect();
        if life == 2 {
            let refused = number(&mut wire);
            let declared = |zone: &str| format!("'serial {{yyyyMMdd}}{{n:9}} zone {zone}'");
            for expected in [declared("Pacific/Kiritimati"), declared("Etc/GMT+12"), "SEQUENCE DECLARE".to_owned()] {
                assert!(refused.contains(&expected), "{expected}: {refused}");
            }
            assert!(done_in_time(&mut wire, "SEQUENCE DECLARE i").starts_with("+OK here, and on every server in"));
        }
        let next = number(&mut wire);
        assert!(next[..8] >= last[..8] && next > last, "{next} after {last}");
        assert!(end(&mut behind, Signal::SIGTERM).success());
    }
    // A server with the older declaration gets no more values once its values in memory are discarded.
    let mut wire = ahead.connect();
    eventually("the older declaration is refused", || number(&mut wire).contains("zone Etc/GMT+12"));
}

/// The store is not reachable at the start: IDs are given, and sequences report the error without a secret. Then the
/// store starts.
fn a_store_is_down_at_the_start(database: &mut dyn SqlBackend) {
    let dir = folder();
    let stores = [database.url()];
    assert!(stores[0].contains("secret"));
    let words = ["--sequence-create", "on-first-use"];
    database.kill();
    let mut server = start(dir.path(), 1, &stores, &words);
    let mut wire = server.connect();
    for _ in 0..3 {
        wire.id();
        // The error is reported after the first attempt to connect.
        let message = answer_in_time(&mut wire, "INCR first", |message| !message.starts_with("-BUSY"));
        assert!(message.starts_with("-MISCONF sequence store "), "{message}");
        assert!(message.contains("***") || !message.contains("getid:"), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
    server.wait_log(DOWN);
    database.start_again();
    assert_eq!(value_in_time(&mut wire, "INCR first"), 1);
    assert!(!server.log_so_far().contains("secret"));
    assert_eq!(server.count_log(DOWN), 1, "logged once");
}

/// Two servers give serial numbers from one store.
fn serial_numbers_of_two_servers(database: &dyn SqlBackend) {
    let dir = folder();
    let words = ["--generator", "i", "serial", "{yyyyMMdd}{n:9}", "zone", "UTC"];
    let servers = [1, 2].map(|number| start(dir.path(), number, &[database.url()], &words));
    let mut all = BTreeSet::new();
    let mut wires: Vec<Wire> = servers.iter().map(Server::connect).collect();
    for round in 0..2_000 {
        // A store that stalls gives no values for a while.
        let end = Instant::now() + PATIENCE;
        let reply = loop {
            let reply = wires[round % 2].ask_bulk("GETID i");
            let is_refused = reply.starts_with("-MISCONF sequence") || reply.starts_with("-BUSY");
            if !is_refused || Instant::now() > end {
                break reply;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let text = reply.trim_end().trim_start_matches([':', '+']).to_owned();
        assert!(text.len() == 17 && text.bytes().all(|byte| byte.is_ascii_digit()), "{reply}");
        assert!(all.insert(text.clone()), "{text} was given twice");
    }
}

/// An older copy replaces the server's own file, as the same inode or another one. The server notices it, and the
/// printed remedy ends the refusal.
#[test]
fn an_older_sqlite_file_is_put_back() {
    for is_same_file in [true, false] {
        let dir = folder();
        let store = dir.path().join("1/sequences-1.sqlite");
        let life = |values: i64, last: i64| {
            let mut server = start(dir.path(), 1, &[], &["--sequence-create", "on-first-use"]);
            assert_eq!(value_in_time(&mut server.connect(), &format!("INCRBY orders {values}")), last);
            assert!(end(&mut server, Signal::SIGTERM).success());
        };
        life(10, 10);
        let old = fs::read(&store).unwrap();
        life(290, 300);
        if !is_same_file {
            fs::remove_file(&store).unwrap();
        }
        fs::write(&store, old).unwrap();
        let mut server = start(dir.path(), 1, &[], &[]);
        let mut wire = server.connect();
        let message = answer_in_time(&mut wire, "INCR orders", |reply| reply.contains("went back"));
        assert!(message.starts_with("-MISCONF sequence 'orders': its store went back below"), "{message}");
        server.wait_log("the sequence 'orders' went back: its next value in ");
        assert_eq!(done_in_time(&mut wire, "SEQUENCE RAISE orders 300"), "+OK");
        assert_eq!(value_in_time(&mut wire, "INCR orders"), 301);
    }
}

/// A raise by a tool while the server is stopped is noted as well, so an older copy of the file is noticed.
#[test]
fn a_raise_by_a_tool_is_noted() {
    let dir = folder();
    let state = dir.path().join("1");
    let store = state.join("sequences-1.sqlite");
    let mut server = start(dir.path(), 1, &[], &["--sequence-create", "on-first-use"]);
    assert_eq!(value_in_time(&mut server.connect(), "INCR orders"), 1);
    assert!(end(&mut server, Signal::SIGTERM).success());
    let old = fs::read(&store).unwrap();
    let mut raise = getid();
    raise.args(["sequence", "raise", "orders", "500", "--server-id", "1", "--dir"]).arg(&state);
    let raised = finish(&mut raise, "", PATIENCE, false);
    assert!(raised.status.success(), "{raised:?}");
    fs::write(&store, old).unwrap();
    let server = start(dir.path(), 1, &[], &[]);
    let message = answer_in_time(&mut server.connect(), "INCR orders", |reply| reply.contains("went back"));
    assert!(message.starts_with("-MISCONF sequence 'orders': its store went back below"), "{message}");
}

#[test]
fn sqlite_counts_through_faults() {
    counts_through_faults(None);
}

/// Runs each story with an empty database of one database server.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn all_stories(database: &mut dyn SqlBackend) {
    let stories: [fn(&mut dyn SqlBackend); 10] = [
        |database| counts_through_faults(Some(database)),
        |database| two_servers_share_a_row(database),
        |database| serial_numbers_of_two_servers(database),
        |database| an_old_copy_is_put_back(database),
        a_replica_lacks_the_last_writes,
        |database| a_dump_is_restored(database),
        |database| all_rows_are_lost(database),
        |database| periods_outlive_a_wrong_clock(database),
        |database| a_period_never_goes_back(database),
        a_store_is_down_at_the_start,
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

#[cfg(all(feature = "mysql", feature = "postgres"))]
#[test]
#[ignore = "needs mariadb, postgresql"]
fn one_of_two_databases_ends() {
    one_of_two_stores_ends(&mut [&mut PostgresServer::start(&[]), &mut MariadbServer::start(&[])]);
}
