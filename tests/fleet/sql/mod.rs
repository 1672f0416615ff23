//! Records in SQL databases: the contract, and what each of them adds.

mod mariadb;
mod postgres;
mod sqlite;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use getid::records::{RecordStore, RecordStoreError, Stamp, Written};
use getid::sql::open_records;
use getid::text::store_url::StoreUrl;

use crate::contract::{Records, row, stamp};
use crate::support::eventually;
use crate::support::proxy::Proxy;

/// No call of these tests is to end by its deadline, unless the test is about that: a machine may be busy.
const DEADLINE: Duration = Duration::from_secs(20);

/// A deadline that passes.
const SHORT: Duration = Duration::from_millis(500);

fn open(url: &str, dir: &Path, deadline: Duration) -> Arc<dyn RecordStore> {
    open_records(&StoreUrl::parse(url).unwrap(), dir, deadline).unwrap()
}

fn records(url: &str) -> Records {
    Records(open(url, Path::new("."), DEADLINE))
}

/// What the store says where it is asked in vain. Whatever it is, no password is in it.
#[track_caller]
fn refusal(url: &str) -> String {
    let store = records(url);
    let error = store.read("claim/1").unwrap_err();
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    assert!(matches!(error, RecordStoreError::Refused(_)), "{error:?}");
    assert_eq!(store.about().unwrap_err(), error, "who was refused is told the same for a second");
    let written = store.write("claim/1", None, &row(1, 1, "")).unwrap_err();
    assert_eq!(written, error, "a write that could not be sent was not done");
    error.to_string()
}

#[track_caller]
fn says(url: &str, expected: &[&str]) {
    let said = refusal(url);
    for expected in expected {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

/// Nobody is there: that is said so, of a read and of a write, and it is no verdict.
#[track_caller]
fn is_away(store: &Records, expected: &str) {
    for error in [store.read("claim/1").unwrap_err(), store.write("claim/1", None, &row(1, 1, "")).unwrap_err()] {
        assert!(matches!(&error, RecordStoreError::Away(said) if said.contains(expected)), "{expected}: {error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

/// The writer of one record, as a holder is: one write after the other, each settled before the next.
struct Holder {
    store: Records,
    me: u128,
    last: Option<Stamp>,
    /// The highest beat that was acknowledged.
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
                Ok(Written::Done) => self.done(new.stamp),
                Ok(Written::Conflict(found)) => panic!("somebody else: {found:?} after {:?}", self.last),
                Err(RecordStoreError::Unknown(_)) => {
                    self.unknown += 1;
                    self.settle(new.stamp, stop);
                }
                // It says that nothing was done: then the same write is done the next time, or it is a conflict.
                Err(RecordStoreError::Away(_) | RecordStoreError::Refused(_)) => {
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
                assert_eq!(found, self.last, "what was acknowledged is there");
            }
            return;
        }
    }

    fn done(&mut self, stamp: Stamp) {
        self.last = Some(stamp);
        self.acknowledged.store(stamp.beat, Ordering::SeqCst);
    }
}

/// The database is killed again and again while somebody writes: nothing that was acknowledged is lost, and nothing
/// that was said not to be done was done.
fn killed_under_writes(url: &str, mut kill_and_start: impl FnMut()) {
    let (acknowledged, stop) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let mut holder = Holder::new(records(url), 7, acknowledged.clone());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| holder.beat_until(&stop));
        for _ in 0..3 {
            let before = acknowledged.load(Ordering::SeqCst);
            eventually("writes", || acknowledged.load(Ordering::SeqCst) > before + 50 || writer.is_finished());
            kill_and_start();
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

/// What was sent is committed, and nobody hears of it; or it was never sent, which looks the same.
fn cut_after_sending(proxy: &Proxy, url: &str) {
    let store = records(url);
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
            assert_eq!(proxy.dropped(), dropped + 1, "it was under way");
            let expected = if drops_replies { new.stamp } else { last };
            // (Who has lost a client still commits what it was sent.)
            eventually("its end", || store.read("claim/1").unwrap().unwrap().stamp == expected);
            if !drops_replies {
                store.put("claim/1", Some(last), &new);
            }
            last = new.stamp;
        }
    }
    // Of what changes nothing the caller hears nothing: it is asked again on another connection.
    proxy.end_connections();
    assert_eq!(store.read("claim/1").unwrap().unwrap().stamp, last);
}

/// A cable is cut: every call ends by its deadline, and the store is there again with the cable.
fn cut_cable(proxy: &Proxy, url: &str) {
    let store = Records(open(url, Path::new("."), SHORT));
    eventually("a first answer", || store.read("claim/1").is_ok());
    let mut known = stamp(1, 1);
    eventually("a first write", || {
        matches!(store.write("claim/1", None, &row(1, 1, "1")), Ok(Written::Done | Written::Conflict(Some(_))))
    });
    proxy.cut(true);
    let error = store.write("claim/1", Some(known), &row(1, 2, "2")).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Unknown(said) if said.contains("within 500 ms")), "{error:?}");
    for _ in 0..3 {
        let error = store.read("claim/1").unwrap_err();
        assert!(matches!(&error, RecordStoreError::Away(said) if said.contains("within 500 ms")), "{error:?}");
    }
    proxy.cut(false);
    eventually("an answer", || match store.read("claim/1") {
        Ok(Some(found)) => {
            known = found.stamp;
            true
        }
        _ => false,
    });
    assert!(known == stamp(1, 1) || known == stamp(1, 2), "{known}");
}
