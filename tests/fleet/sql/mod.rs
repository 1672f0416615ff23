//! Records in SQL databases: the contract, and what each database adds.

mod mariadb;
mod postgres;
mod sqlite;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use getid_store::records::{RecordStore, RecordStoreError, Stamp, WriteResult};
use getid_store::sql::open_records;
use getid_text::store_url::StoreUrl;

use crate::contract::{Records, StoreFixture, row, stamp};
use crate::support::backend::{SqlBackend, while_locked};
use crate::support::scenarios::{scenarios, selected_scenarios};
use crate::support::{eventually, free_port};

type Scenario = fn(&mut dyn SqlBackend);

/// Scenarios of a database server that is killed, paused, cut off or locked.
const SCENARIOS: &[(&str, Scenario)] = scenarios![
    Scenario;
    killed_under_writes,
    cut_after_sending,
    a_cable_is_cut,
    a_row_that_another_transaction_has_locked,
    it_stands_still,
    it_is_not_there,
];

/// Runs all scenarios on a server, each in an empty database.
fn check_faults(server: &mut dyn SqlBackend) {
    for scenario in selected_scenarios(&server.url(), SCENARIOS) {
        server.clear();
        scenario(server);
    }
}

/// The database of a database server that scenarios share, with this address.
pub(crate) struct Shared<'a>(pub(crate) &'a dyn SqlBackend, pub(crate) String);

impl<'a> Shared<'a> {
    pub(crate) fn new(server: &'a dyn SqlBackend) -> Shared<'a> {
        Shared(server, server.url())
    }
}

impl StoreFixture for Shared<'_> {
    fn clear(&self) {
        self.0.clear();
    }

    fn store(&self) -> Arc<dyn RecordStore> {
        open(&self.1, Path::new("."), DEADLINE)
    }

    fn spoil(&self, key: &str) {
        let spoil = format!("UPDATE getid_record SET beat = 0 WHERE record_key = '{key}'");
        // A table without the check, as an earlier getid created it.
        self.0.sql(if self.1.starts_with("postgres") {
            "ALTER TABLE getid_record DROP CONSTRAINT IF EXISTS getid_record_beat_check"
        } else {
            "ALTER TABLE getid_record MODIFY beat BIGINT NOT NULL"
        });
        self.0.sql(&spoil);
    }
}

/// Deadline of a call. Only tests about deadlines reach it, although the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(20);

/// A deadline that tests let pass.
const SHORT: Duration = Duration::from_millis(500);

fn open(url: &str, dir: &Path, deadline: Duration) -> Arc<dyn RecordStore> {
    open_records(&StoreUrl::parse(url).unwrap(), dir, deadline).unwrap()
}

fn records(url: &str) -> Records {
    Records(open(url, Path::new("."), DEADLINE))
}

/// Returns the store's refusal, which must not contain a password.
#[track_caller]
fn refusal(url: &str) -> String {
    let store = records(url);
    let error = store.read("claim/1").unwrap_err();
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    assert!(matches!(error, RecordStoreError::Refused(_)), "{error:?}");
    assert_eq!(store.info().unwrap_err(), error, "a refusal is repeated for a second");
    let written = store.write("claim/1", None, &row(1, 1, "")).unwrap_err();
    assert_eq!(written, error, "a write that could not be sent was not done");
    error.to_string()
}

#[track_caller]
fn assert_refused(url: &str, expected: &[&str]) {
    let message = refusal(url);
    for expected in expected {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

/// Asserts that neither a read nor a write reaches the store, and that neither was executed.
#[track_caller]
fn is_away(store: &Records, expected: &str) {
    for error in [store.read("claim/1").unwrap_err(), store.write("claim/1", None, &row(1, 1, "")).unwrap_err()] {
        assert!(
            matches!(&error, RecordStoreError::Away(message) if message.contains(expected)),
            "{expected}: {error:?}"
        );
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

/// The writer of one record, as a holder is: one write after the other, each settled before the next.
struct Holder {
    store: Records,
    me: u128,
    last: Option<Stamp>,
    /// The highest acknowledged beat.
    acknowledged: Arc<AtomicU64>,
    unknown: u64,
}

impl Holder {
    fn new(store: Records, me: u128, acknowledged: Arc<AtomicU64>) -> Holder {
        Holder { store, me, last: None, acknowledged, unknown: 0 }
    }

    /// Writes until `stop`. An unknown outcome is settled by reading: the record has the old stamp or the new one.
    #[track_caller]
    fn beat_until(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            let beat = self.last.map_or(1, |last| last.beat + 1);
            let new = row(self.me, beat, &format!("beat {beat}"));
            match self.store.write("claim/1", self.last, &new) {
                Ok(WriteResult::Done) => self.done(new.stamp),
                Ok(WriteResult::Conflict(found)) => panic!("another writer: {found:?} after {:?}", self.last),
                Err(RecordStoreError::Unknown(_)) => {
                    self.unknown += 1;
                    self.settle(new.stamp, stop);
                }
                // The error reports that nothing was written: the next attempt writes it, or returns a conflict.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    fn settle(&mut self, new: Stamp, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            let Ok(found) = self.store.read("claim/1") else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let found = found.map(|row| row.stamp);
            if found == Some(new) {
                self.done(new);
            } else {
                assert_eq!(found, self.last, "an acknowledged write is in the store");
            }
            return;
        }
    }

    fn done(&mut self, stamp: Stamp) {
        self.last = Some(stamp);
        self.acknowledged.store(stamp.beat, Ordering::SeqCst);
    }
}

/// The database is killed while a client writes: no acknowledged write is lost, and no write that was reported as not
/// done was done.
fn killed_under_writes(server: &mut dyn SqlBackend) {
    let (acknowledged, stop) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let mut holder = Holder::new(records(&server.url()), 7, acknowledged.clone());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| holder.beat_until(&stop));
        for _ in 0..2 {
            let before = acknowledged.load(Ordering::SeqCst);
            eventually("writes", || acknowledged.load(Ordering::SeqCst) > before + 50 || writer.is_finished());
            server.kill();
            server.start_again();
            if writer.is_finished() {
                break;
            }
        }
        let before = acknowledged.load(Ordering::SeqCst);
        eventually("writes after the last start", || {
            acknowledged.load(Ordering::SeqCst) > before + 10 || writer.is_finished()
        });
        stop.store(true, Ordering::SeqCst);
        writer.join().unwrap();
    });
    println!("{} of {} writes had an unknown outcome", holder.unknown, acknowledged.load(Ordering::SeqCst));
}

/// The write is committed and its reply is lost, or its request is lost. A client cannot distinguish them.
fn cut_after_sending(server: &mut dyn SqlBackend) {
    let (proxy, url) = server.proxy();
    let store = records(&url);
    let mut last = stamp(1, 1);
    store.put("claim/1", None, &row(1, 1, "1"));
    for round in 0..3 {
        for drops_replies in [true, false] {
            let new = row(1, last.beat + 1, &format!("round {round}"));
            let dropped = proxy.dropped();
            if drops_replies {
                proxy.drop_replies(true);
            } else {
                proxy.drop_requests(true);
            }
            let error = store.write("claim/1", Some(last), &new).unwrap_err();
            assert!(matches!(error, RecordStoreError::Unknown(_)), "{error:?}");
            proxy.drop_replies(false);
            proxy.drop_requests(false);
            assert_eq!(proxy.dropped(), dropped + 1, "the statement was sent");
            let expected = if drops_replies { new.stamp } else { last };
            // A database that has lost its client still commits the statement.
            eventually("the end of the statement", || store.read("claim/1").unwrap().unwrap().stamp == expected);
            if !drops_replies {
                store.put("claim/1", Some(last), &new);
            }
            last = new.stamp;
        }
    }
    // A read that fails is repeated on another connection, without an error.
    proxy.end_connections();
    assert_eq!(store.read("claim/1").unwrap().unwrap().stamp, last);
}

/// The network is cut: every call ends by its deadline, and the store answers when the network is back.
fn a_cable_is_cut(server: &mut dyn SqlBackend) {
    let (proxy, url) = server.proxy();
    is_late(&url, || proxy.cut(true), || proxy.cut(false));
}

fn it_stands_still(server: &mut dyn SqlBackend) {
    is_late(&server.url(), || server.pause(), || server.resume());
}

/// Asserts that each call ends by its deadline after `begin`, and that the store answers after `end`.
fn is_late(url: &str, begin: impl FnOnce(), end: impl FnOnce()) {
    let store = Records(open(url, Path::new("."), SHORT));
    eventually("a first answer", || store.read("claim/1").is_ok());
    eventually("a first write", || {
        matches!(store.write("claim/1", None, &row(1, 1, "1")), Ok(WriteResult::Done | WriteResult::Conflict(Some(_))))
    });
    begin();
    let error = store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2")).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Unknown(message) if message.contains("within 500 ms")), "{error:?}");
    for _ in 0..2 {
        let error = store.read("claim/1").unwrap_err();
        assert!(matches!(&error, RecordStoreError::Away(message) if message.contains("within 500 ms")), "{error:?}");
    }
    end();
    let mut known = None;
    eventually("an answer", || {
        known = store.read("claim/1").ok().flatten().map(|found| found.stamp);
        known.is_some()
    });
    assert!(known == Some(stamp(1, 1)) || known == Some(stamp(1, 2)), "{known:?}");
}

/// A statement that waits for another transaction is refused, and reported as not done.
fn a_row_that_another_transaction_has_locked(server: &mut dyn SqlBackend) {
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    while_locked(server, "BEGIN; SELECT 1 FROM getid_record FOR UPDATE", || {
        let error = store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2")).unwrap_err();
        assert!(
            matches!(&error, RecordStoreError::Refused(message) if message.contains("another transaction has")),
            "{error:?}"
        );
        assert_eq!(store.read("claim/1"), Ok(Some(row(1, 1, "1"))));
    });
    store.put("claim/1", Some(stamp(1, 1)), &row(1, 2, "2"));
}

fn it_is_not_there(server: &mut dyn SqlBackend) {
    let scheme = server.url().split_once(':').unwrap().0.to_owned();
    is_away(&records(&format!("{scheme}://a:a-secret@127.0.0.1:{}/b", free_port())), "cannot be reached");
    let error = records(&format!("{scheme}://a:a-secret@no-such-host.invalid/b?tls=no")).read("claim/1").unwrap_err();
    assert!(matches!(&error, RecordStoreError::Away(message) if message.contains("no-such-host.invalid")), "{error:?}");
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    server.kill();
    let error = store.read("claim/1").unwrap_err();
    assert!(matches!(error, RecordStoreError::Away(_)), "{error:?}");
    server.start_again();
    eventually("an answer", || store.read("claim/1") == Ok(Some(row(1, 1, "1"))));
}
