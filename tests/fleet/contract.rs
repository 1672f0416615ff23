//! The contract of every record store (`getid_store::records::RecordStore`): named scenarios, each in an empty store.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use getid_store::records::memory::MemoryStore;
use getid_store::records::{
    DamagedRow, KEY_BYTES_MAX, Key, LIST_MAX, RecordPage, RecordRow, RecordStore, RecordStoreError, RecordStoreInfo,
    Stamp, TEXT_BYTES_MAX, WriteResult,
};

use crate::support::scenarios::{is_over_time, scenarios, selected_scenarios};

/// An empty record store in which scenarios may do anything.
pub(crate) trait StoreFixture: Sync {
    /// Removes all records.
    fn clear(&self);

    /// Returns the store, as one process opens it.
    fn store(&self) -> Arc<dyn RecordStore>;

    /// Edits the row of a key so that it is not a valid record.
    fn spoil(&self, key: &str);
}

/// The longest time of a call before its test fails. It is not a measure of speed: a disk may be busy.
const DEADLINE: Duration = Duration::from_mins(1);

/// A store with blocking calls, for tests: one call, one answer, no `await`.
#[derive(Clone)]
pub(crate) struct Records(pub(crate) Arc<dyn RecordStore>);

impl Records {
    pub(crate) fn read(&self, key: &str) -> Result<Option<RecordRow>, RecordStoreError> {
        wait(self.0.read(&self::key(key)))
    }

    pub(crate) fn list(&self, prefix: &str, after: &str, limit: usize) -> Vec<(String, RecordRow)> {
        self.listed(prefix, after, limit).rows.into_iter().map(|(key, row)| (key.to_string(), row)).collect()
    }

    pub(crate) fn listed(&self, prefix: &str, after: &str, limit: usize) -> RecordPage {
        wait(self.0.list(prefix, after, limit)).unwrap()
    }

    /// Returns the invalid row under a key.
    #[track_caller]
    pub(crate) fn bad(&self, key: &str) -> DamagedRow {
        match self.read(key) {
            Err(RecordStoreError::Damaged(bad)) => *bad,
            other => panic!("{key}: {other:?}"),
        }
    }

    pub(crate) fn write(
        &self,
        key: &str,
        expect: Option<Stamp>,
        new: &RecordRow,
    ) -> Result<WriteResult, RecordStoreError> {
        wait(self.0.write(&self::key(key), expect, new))
    }

    pub(crate) fn info(&self) -> Result<RecordStoreInfo, RecordStoreError> {
        wait(self.0.info())
    }

    /// Writes a row, and repeats the write while it is refused for its time limit.
    #[track_caller]
    pub(crate) fn put(&self, key: &str, expect: Option<Stamp>, new: &RecordRow) {
        let end = Instant::now() + DEADLINE;
        let written = loop {
            match self.write(key, expect, new) {
                Err(RecordStoreError::Refused(message)) if is_over_time(&message) && Instant::now() < end => {}
                written => break written,
            }
        };
        assert_eq!(written, Ok(WriteResult::Done), "{key}");
    }
}

pub(crate) fn wait<T>(answer: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, answer).await.expect("a call hangs") })
}

#[track_caller]
pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(crate) fn stamp(writer: u128, beat: u64) -> Stamp {
    Stamp { writer, beat }
}

pub(crate) fn row(writer: u128, beat: u64, text: &str) -> RecordRow {
    RecordRow { stamp: stamp(writer, beat), text: text.to_owned() }
}

type Scenario = fn(&dyn StoreFixture);

const SCENARIOS: &[(&str, Scenario)] = scenarios![
    Scenario;
    nothing_is_there_at_first,
    a_written_row_is_read,
    a_record_is_made_once,
    a_write_names_the_stamp_that_it_replaces,
    a_record_that_is_gone_is_a_conflict,
    keys_are_compared_byte_for_byte,
    any_text_is_read_as_written,
    the_largest_stamp_and_text_fit,
    lists_are_in_the_order_of_keys,
    a_list_is_read_page_by_page,
    a_row_that_is_no_record_hides_no_other,
    a_row_that_is_no_record_is_mended,
    one_of_many_concurrent_writers_succeeds,
    writers_beside_each_other_lose_nothing,
    a_caller_may_let_go,
    a_store_reports_about_itself_in_one_line,
];

/// Runs all scenarios on a store.
pub(crate) fn check_all(fixture: &dyn StoreFixture) {
    for scenario in selected_scenarios(fixture.store().shown(), SCENARIOS) {
        fixture.clear();
        scenario(fixture);
    }
}

fn nothing_is_there_at_first(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    assert_eq!(store.read("claim/1"), Ok(None));
    assert_eq!(store.list("", "", LIST_MAX), []);
    assert_eq!(store.list("claim/", "claim/5", 10), []);
}

fn a_written_row_is_read(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let mut before = None;
    for beat in 1..=5 {
        let new = row(u128::from(beat) << 99, beat, &format!("text {beat}"));
        store.put("claim/1", before, &new);
        assert_eq!(store.read("claim/1"), Ok(Some(new.clone())));
        assert_eq!(Records(fixture.store()).read("claim/1"), Ok(Some(new.clone())), "another process sees it");
        before = Some(new.stamp);
    }
    assert_eq!(store.read("claim/2"), Ok(None));
}

fn a_record_is_made_once(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let first = row(1, 1, "first");
    store.put("cluster", None, &first);
    let second = store.write("cluster", None, &row(2, 1, "second"));
    assert_eq!(second, Ok(WriteResult::Conflict(Some(first.clone()))));
    assert_eq!(store.read("cluster"), Ok(Some(first)));
}

fn a_write_names_the_stamp_that_it_replaces(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let found = row(7, 3, "found");
    store.put("claim/1", None, &found);
    for wrong in [stamp(7, 2), stamp(7, 4), stamp(8, 3), stamp(0, 3), stamp(7 << 64, 3)] {
        let refused = store.write("claim/1", Some(wrong), &row(9, 9, "late"));
        assert_eq!(refused, Ok(WriteResult::Conflict(Some(found.clone()))), "{wrong}");
    }
    assert_eq!(store.read("claim/1"), Ok(Some(found.clone())), "a refused write changes nothing");
    let mine = row(9, 4, "mine");
    store.put("claim/1", Some(found.stamp), &mine);
    let again = store.write("claim/1", Some(found.stamp), &row(7, 4, "the old holder"));
    assert_eq!(again, Ok(WriteResult::Conflict(Some(mine.clone()))));
    let same = store.write("claim/1", Some(found.stamp), &mine);
    assert_eq!(same, Ok(WriteResult::Conflict(Some(mine))), "a repeated write is a conflict that returns the row");
}

fn a_record_that_is_gone_is_a_conflict(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    assert_eq!(store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "")), Ok(WriteResult::Conflict(None)));
    assert_eq!(store.read("claim/1"), Ok(None), "a write that replaces a row does not create it");
}

fn keys_are_compared_byte_for_byte(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let longest = format!("worker/{}", "x".repeat(KEY_BYTES_MAX - 7));
    let nearly = format!("worker/{}y", "x".repeat(KEY_BYTES_MAX - 8));
    let names =
        ["claim/1", "claim/10", "Claim/1", "CLAIM/1", "claim/1.", "claim/1-", "claim/1_", &longest, &nearly, "claim:1"];
    for (at, name) in (1..).zip(&names) {
        store.put(name, None, &row(at, 1, name));
    }
    for (at, name) in (1..).zip(&names) {
        assert_eq!(store.read(name), Ok(Some(row(at, 1, name))), "{name}");
    }
    assert_eq!(store.read("claim/2"), Ok(None));
    assert_eq!(store.read("cLaim/1"), Ok(None));
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    let listed: Vec<String> = store.list("", "", LIST_MAX).into_iter().map(|(key, _)| key).collect();
    assert_eq!(listed, sorted, "the order is that of bytes");
}

fn any_text_is_read_as_written(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let texts = [
        "",
        " ",
        "a line\nand another\r\n\n",
        "'; DROP TABLE getid_record; --",
        "\\' \\\\ \" `$1` %s ?",
        "ä ß € 😀 \u{1} \u{7f} \u{feff}",
        "trailing blanks   ",
    ];
    let mut before = None;
    for (beat, text) in (1..).zip(texts) {
        let new = row(1, beat, text);
        store.put("cluster", before, &new);
        assert_eq!(store.read("cluster"), Ok(Some(new.clone())), "{text:?}");
        before = Some(new.stamp);
    }
}

fn the_largest_stamp_and_text_fit(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let last = row(u128::MAX, Stamp::BEAT_MAX, &"ä".repeat(TEXT_BYTES_MAX / 2));
    store.put("cluster", None, &row(0, Stamp::BEAT_MAX - 1, "0"));
    store.put("cluster", Some(stamp(0, Stamp::BEAT_MAX - 1)), &last);
    assert!(store.read("cluster") == Ok(Some(last.clone())), "the texts differ");
    assert_eq!(store.write("cluster", Some(last.stamp), &row(u128::MAX, 1, "below")), Ok(WriteResult::Done));
}

fn lists_are_in_the_order_of_keys(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let keys = ["claim/1", "claim/10", "claim/2", "cluster", "worker/a", "worker/a/1", "worker/a/10", "worker/ab/1"];
    for key in keys.iter().rev() {
        store.put(key, None, &row(1, 1, key));
    }
    let list = |prefix: &str, after: &str, limit| -> Vec<String> {
        let rows = store.list(prefix, after, limit);
        assert!(rows.iter().all(|(key, row)| row.text == *key && row.stamp == stamp(1, 1)), "{rows:?}");
        rows.into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(list("", "", LIST_MAX), keys);
    assert_eq!(list("claim/", "", LIST_MAX), ["claim/1", "claim/10", "claim/2"]);
    assert_eq!(list("claim/", "claim/1", LIST_MAX), ["claim/10", "claim/2"]);
    assert_eq!(list("claim/", "claim/15", LIST_MAX), ["claim/2"], "a missing key is a position, too");
    assert_eq!(list("claim/", "claim/2", LIST_MAX), [""; 0]);
    assert_eq!(list("worker/a/", "", LIST_MAX), ["worker/a/1", "worker/a/10"]);
    assert_eq!(list("worker/a", "", 2), ["worker/a", "worker/a/1"]);
    assert_eq!(list("worker/", "claim/1", 1), ["worker/a"]);
    assert_eq!(list("CLAIM/", "", LIST_MAX), [""; 0]);
    assert_eq!(list("claim/", "", 0), [""; 0]);
}

fn a_list_is_read_page_by_page(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    for at in 0..25 {
        store.put(&format!("worker/orders/{at:02}"), None, &row(1, 1, "leased"));
    }
    let (mut after, mut found) = (String::new(), Vec::new());
    loop {
        let page = store.list("worker/orders/", &after, 10);
        let Some((last, _)) = page.last() else { break };
        after.clone_from(last);
        found.extend(page.into_iter().map(|(key, _)| key));
    }
    assert_eq!(found, (0..25).map(|at| format!("worker/orders/{at:02}")).collect::<Vec<_>>());
}

fn a_row_that_is_no_record_hides_no_other(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let keys: Vec<String> = (0..9).map(|id| format!("claim/{id}")).collect();
    for key in &keys {
        store.put(key, None, &row(1, 1, key));
    }
    for key in ["claim/0", "claim/3", "claim/4", "claim/8"] {
        fixture.spoil(key);
    }
    let whole = ["claim/1", "claim/2", "claim/5", "claim/6", "claim/7"];
    let keys_of = |listed: &RecordPage| listed.rows.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>();
    let listed = store.listed("claim/", "", LIST_MAX);
    assert_eq!(keys_of(&listed), whole);
    let skipped: Vec<_> = listed.bad.iter().map(DamagedRow::server_id).collect();
    assert_eq!(skipped, [Some(0), Some(3), Some(4), Some(8)]);
    // Each page has the requested size, except the last one.
    for size in 1..=3 {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = keys_of(&store.listed("claim/", &after, size));
            let Some(last) = page.last() else { break };
            after.clone_from(last);
            let is_last = page.len() < size;
            found.extend(page);
            if is_last {
                break;
            }
        }
        assert_eq!(found, whole, "pages of {size}");
    }
}

fn a_row_that_is_no_record_is_mended(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let new = row(2, 9, "mended");
    for (key, text) in [("claim/1", "1"), ("claim/2", "2")] {
        store.put(key, None, &row(1, 1, text));
    }
    fixture.spoil("claim/1");
    let bad = store.bad("claim/1");
    assert!(bad.what.contains("claim/1"), "{bad:?}");
    for expect in [None, Some(stamp(1, 1))] {
        let written = store.write("claim/1", expect, &new);
        assert!(matches!(written, Err(RecordStoreError::Damaged(_))), "{written:?}");
    }
    let mend = |key: &str| wait(store.0.mend(&self::key(key), &bad, &new)).unwrap();
    assert!(!mend("claim/2") && !mend("claim/3"), "the store has another row");
    assert!(mend("claim/1"));
    assert_eq!(store.read("claim/1"), Ok(Some(new.clone())));
    assert!(!mend("claim/1"), "the row is a valid record now");
    assert_eq!(store.read("claim/2"), Ok(Some(row(1, 1, "2"))));
    assert_eq!(store.read("claim/3"), Ok(None));
}

fn one_of_many_concurrent_writers_succeeds(fixture: &dyn StoreFixture) {
    for expect in [None, Some(stamp(100, 1))] {
        fixture.clear();
        let store = Records(fixture.store());
        if let Some(was) = expect {
            store.put("claim/1", None, &row(was.writer, was.beat, "lost"));
        }
        let start = Barrier::new(8);
        let answers: Vec<Result<WriteResult, RecordStoreError>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (1..=8_u128)
                .map(|writer| {
                    // Half of the writers share one process's store.
                    let store = if writer % 2 == 0 { store.clone() } else { Records(fixture.store()) };
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        store.write("claim/1", expect, &row(writer, 2, &format!("taken by {writer}")))
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let found = store.read("claim/1").unwrap().unwrap();
        let mut done = 0;
        for (writer, answer) in (1..).zip(answers) {
            match answer {
                Ok(WriteResult::Done) => {
                    done += 1;
                    assert_eq!(found, row(writer, 2, &format!("taken by {writer}")));
                }
                Ok(WriteResult::Conflict(Some(now))) => assert_eq!(now, found, "{writer}"),
                // Two transactions may collide: then the error reports that nothing was written.
                Err(RecordStoreError::Refused(_)) => assert_ne!(found.stamp.writer, writer),
                other => panic!("{writer}: {other:?}"),
            }
        }
        assert_eq!(done, 1, "one writer succeeds");
    }
}

/// Writers add to one of two records in turn. No acknowledged addition is missing in the end.
fn writers_beside_each_other_lose_nothing(fixture: &dyn StoreFixture) {
    const ADDED: u64 = 25;
    let store = Records(fixture.store());
    for key in ["worker/a", "worker/b"] {
        store.put(key, None, &row(1, 1, "0"));
    }
    std::thread::scope(|scope| {
        for writer in 2..6_u128 {
            let store = Records(fixture.store());
            scope.spawn(move || {
                for round in 0..ADDED {
                    let key = if (round + u64::try_from(writer).unwrap()) % 2 == 0 { "worker/a" } else { "worker/b" };
                    let mut found = store.read(key).unwrap().unwrap();
                    loop {
                        let text = (found.text.parse::<u64>().unwrap() + 1).to_string();
                        match store.write(key, Some(found.stamp), &row(writer, found.stamp.beat + 1, &text)) {
                            Ok(WriteResult::Done) => break,
                            Ok(WriteResult::Conflict(now)) => found = now.unwrap(),
                            Err(RecordStoreError::Refused(_)) => found = store.read(key).unwrap().unwrap(),
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }
            });
        }
    });
    let sum: u64 = store.list("worker/", "", 10).iter().map(|(_, row)| row.text.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 4 * ADDED);
    let beats: u64 = store.list("worker/", "", 10).iter().map(|(_, row)| row.stamp.beat - 1).sum();
    assert_eq!(beats, 4 * ADDED);
}

/// A store whose caller has dropped a call answers the next call.
fn a_caller_may_let_go(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    store.put("claim/1", None, &row(1, 1, "1"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut known: BTreeMap<u64, &str> = BTreeMap::from([(1, "1")]);
    runtime.block_on(async {
        for beat in 2..12_u64 {
            let now = store.0.read(&key("claim/1")).await.unwrap().unwrap();
            let new = row(1, now.stamp.beat + 1, "let go");
            let key = key("claim/1");
            let let_go = store.0.write(&key, Some(now.stamp), &new);
            // The first write is dropped before its first poll.
            if beat > 2 {
                let _ = tokio::time::timeout(Duration::from_micros(beat * 50), let_go).await;
            }
            known.insert(new.stamp.beat, "let go");
        }
    });
    let found = store.read("claim/1").unwrap().unwrap();
    assert_eq!(known.get(&found.stamp.beat).copied(), Some(found.text.as_str()));
    // A dropped write may still be executed: then the next write returns a conflict.
    let mut expect = found.stamp;
    for beat in 100..104 {
        match store.write("claim/1", Some(expect), &row(2, beat, "after")) {
            Ok(WriteResult::Done) => return,
            Ok(WriteResult::Conflict(now)) => expect = now.unwrap().stamp,
            // A dropped write may still be running if the database stalls.
            Err(error) => assert!(matches!(error, RecordStoreError::Refused(_)), "{error:?}"),
        }
    }
    panic!("none of the later writes succeeded");
}

fn a_store_reports_about_itself_in_one_line(fixture: &dyn StoreFixture) {
    let store = Records(fixture.store());
    let info = store.info().unwrap();
    assert!(!info.product.is_empty());
    for warning in &info.warnings {
        assert!(!warning.ends_with('.') && !warning.contains('\n'), "{warning}");
    }
    assert!(!store.0.shown().is_empty() && !store.0.shown().contains("secret"), "{}", store.0.shown());
}

/// Returns the error of a row whose beat was set to 0.
pub(crate) fn bad_row(key: &str, text: Vec<u8>) -> DamagedRow {
    let what = format!("the row '{key}' has the beat 0, which must be 1 at least");
    DamagedRow { key: key.to_owned(), what, writer: format!("{:032x}", 1), beat: 0, text }
}

struct Memory(std::sync::Mutex<Arc<MemoryStore>>);

impl StoreFixture for Memory {
    fn clear(&self) {
        *self.0.lock().unwrap() = Arc::default();
    }

    fn store(&self) -> Arc<dyn RecordStore> {
        Arc::clone(&self.0.lock().unwrap()) as Arc<dyn RecordStore>
    }

    fn spoil(&self, key: &str) {
        let store = self.0.lock().unwrap();
        let row = store.get(&self::key(key)).unwrap();
        store.set(self::key(key), None);
        store.set_bad(self::key(key), bad_row(key, row.text.into_bytes()));
    }
}

#[test]
fn memory_keeps_the_contract() {
    check_all(&Memory(std::sync::Mutex::default()));
}
