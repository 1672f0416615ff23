//! Lives of a maker on a simulated disk that loses unsynced data, with clocks that step. `tests/maker` covers real
//! files, processes and forks.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, LockResult, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::clock::Clock;
use super::error::{LockLoss, MakeError, OpenError, SaveError};
use super::maker::{IDS_MAX, Maker, MakerStart};
use super::record::Record;
use super::shuffled_cycle;
use super::store::{Disk, FileSaveStep, StateFile};
use crate::clock_event::ClockFault;
use crate::layout::{Id, Layout};
use crate::limits::{BorrowPolicy, Limits};
use crate::save_point::SavePoint;
use crate::scheme::Scheme;
use crate::time::{Epoch, Tick};

const DAY_MS: i64 = 86_400_000;

/// Start of 2026-01-01 in Unix ms.
const BEGAN_UNIX_MS: i64 = 1_767_225_600_000;

/// A simulated disk: the file that a name leads to now, and those it may lead to after a crash.
#[derive(Default)]
struct Platter {
    temp: Option<Text>,
    state: Option<Text>,
    after_a_crash: Vec<Option<String>>,
    loss: Option<LockLoss>,
    /// Number of steps that succeed before all fail; `None`: none fails.
    fails_after: Option<u32>,
    /// The step that is reported as done and not done.
    lies_about: Option<FileSaveStep>,
    /// Makes the next sync report that it has begun, and wait for a signal.
    hangs: Option<(Sender<()>, Receiver<()>)>,
}

#[derive(Clone)]
struct Text {
    text: String,
    is_synced: bool,
}

impl Text {
    /// Returns the files that may be there after a crash.
    fn remains(&self) -> Vec<Option<String>> {
        let part = |len: usize| Some(String::from(&self.text[..len]));
        if self.is_synced { vec![part(self.text.len())] } else { vec![part(0), part(self.text.len() / 2)] }
    }
}

impl Platter {
    fn check(&mut self) -> io::Result<()> {
        match &mut self.fails_after {
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[derive(Clone, Default)]
struct SimDisk(Arc<Mutex<Platter>>);

impl SimDisk {
    fn with<T>(&self, change: impl FnOnce(&mut Platter) -> T) -> T {
        change(&mut self.0.lock().expect("no panic"))
    }

    fn write(&self, text: &str) {
        self.with(|disk| {
            disk.state = Some(Text { text: text.into(), is_synced: true });
            disk.after_a_crash = vec![Some(text.into())];
        });
    }

    fn text(&self) -> Option<String> {
        self.with(|disk| disk.state.as_ref().map(|state| state.text.clone()))
    }
}

impl Disk for SimDisk {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.with(|disk| {
            disk.check()?;
            Ok(disk.state.as_ref().map(|state| state.text.clone().into_bytes()))
        })
    }

    fn run(&mut self, step: FileSaveStep, text: &str) -> io::Result<()> {
        if step == FileSaveStep::SyncFile
            && let Some((begun, go_on)) = self.with(|disk| disk.hangs.take())
        {
            begun.send(()).expect("the test waits for it");
            go_on.recv().expect("the test lets it continue");
        }
        self.with(|disk| {
            disk.check()?;
            if disk.lies_about == Some(step) {
                return Ok(());
            }
            match step {
                FileSaveStep::Write => disk.temp = Some(Text { text: text.into(), is_synced: false }),
                FileSaveStep::SyncFile => {
                    if let Some(temp) = &mut disk.temp {
                        temp.is_synced = true;
                    }
                }
                FileSaveStep::Rename => {
                    disk.state = disk.temp.take();
                    disk.after_a_crash.extend(disk.state.as_ref().map(Text::remains).unwrap_or_default());
                }
                FileSaveStep::SyncFolder => disk.after_a_crash = disk.state.as_ref().map_or(vec![None], Text::remains),
            }
            Ok(())
        })
    }

    fn lock_loss(&self) -> io::Result<Option<LockLoss>> {
        self.with(|disk| disk.check().map(|()| disk.loss))
    }
}

/// Clocks that move only when the test moves them, or while a thread waits for them.
#[derive(Clone)]
struct SimClock(Arc<Mutex<Times>>);

struct Times {
    boot_ns: u64,
    wall_unix_ns: i64,
    /// Whether a thread that waits for a save is woken each second, and not by the save's end.
    wakes_each_second: bool,
    /// Makes each sleep report that it has begun, and wait for a signal; the test moves the time.
    watched: Option<(Sender<()>, Receiver<()>)>,
}

impl SimClock {
    fn new() -> SimClock {
        SimClock(Arc::new(Mutex::new(Times {
            boot_ns: 1,
            wall_unix_ns: BEGAN_UNIX_MS * 1_000_000,
            wakes_each_second: false,
            watched: None,
        })))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Times) -> T) -> T {
        change(&mut self.0.lock().expect("no panic"))
    }

    fn pass_ms(&self, ms: u32) {
        self.pass(Duration::from_millis(ms.into()));
    }

    fn pass(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).expect("short");
        self.with(|times| {
            times.boot_ns += ns;
            times.wall_unix_ns += ns.cast_signed();
        });
    }

    fn step_wall_ms(&self, ms: i64) {
        self.with(|times| times.wall_unix_ns += ms * 1_000_000);
    }
}

impl Clock for SimClock {
    fn boot_ns(&self) -> u64 {
        self.with(|times| times.boot_ns)
    }

    fn wall_unix_ms(&self) -> i64 {
        self.with(|times| times.wall_unix_ns.div_euclid(1_000_000))
    }

    fn sleep(&self, duration: Duration) {
        let Some((begun, go_on)) = self.with(|times| times.watched.take()) else { return self.pass(duration) };
        begun.send(()).expect("the test watches");
        go_on.recv().expect("the test lets it continue");
        self.with(|times| times.watched = Some((begun, go_on)));
    }

    fn wait<'a, T>(
        &self,
        event: &Condvar,
        guard: MutexGuard<'a, T>,
        _at_most: Duration,
    ) -> LockResult<MutexGuard<'a, T>> {
        if self.with(|times| times.wakes_each_second) {
            self.pass_ms(1000);
            return Ok(guard);
        }
        event.wait(guard)
    }
}

type SimMaker = Maker<SimClock, SimDisk>;

fn store(disk: &SimDisk, server_id: u32, layout: Layout) -> Result<(StateFile<SimDisk>, Option<SavePoint>), OpenError> {
    StateFile::open(disk.clone(), PathBuf::from("/ids"), server_id, layout, rand::random())
}

fn begin(
    disk: &SimDisk,
    clock: &SimClock,
    (layout, limits): (Layout, Limits),
    start: MakerStart,
) -> Result<SimMaker, OpenError> {
    let scheme = Scheme::new(layout, 1, shuffled_cycle(layout)).expect("they fit");
    let (store, found) = store(disk, 1, layout)?;
    Maker::begin(clock.clone(), scheme, limits, store, MakerStart { found, ..start })
}

fn open_with(disk: &SimDisk, clock: &SimClock, accepts_clock_ahead: bool) -> Result<SimMaker, OpenError> {
    begin(disk, clock, Default::default(), MakerStart { accepts_clock_ahead, ..MakerStart::default() })
}

fn open_past(disk: &SimDisk, clock: &SimClock, past: Id) -> Result<SimMaker, OpenError> {
    begin(disk, clock, Default::default(), MakerStart { past: Some(past), ..MakerStart::default() })
}

fn open(disk: &SimDisk, clock: &SimClock) -> SimMaker {
    open_with(disk, clock, false).expect("it opens")
}

fn tick(id: Id) -> Tick {
    Layout::default().split(id).tick
}

fn unix_ms(id: Id) -> i64 {
    tick(id).unix_ms(Epoch::DEFAULT)
}

fn recorded(disk: &SimDisk) -> SavePoint {
    Record::parse(disk.text().expect("a file").as_bytes()).expect("a record").point
}

#[derive(Clone, Copy, Debug)]
enum MakerEvent {
    Next { n: u32 },
    Pass { ms: u32 },
    StepWall { ms: i64 },
    FailAfter { steps: u32 },
    Heal,
    Crash { pick: usize },
    Close,
}

fn events() -> impl Strategy<Value = Vec<MakerEvent>> {
    let event = prop_oneof![
        6 => (1..3000_u32).prop_map(|n| MakerEvent::Next { n }),
        3 => (0..2000_u32).prop_map(|ms| MakerEvent::Pass { ms }),
        1 => (-7_200_000..7_200_000_i64).prop_map(|ms| MakerEvent::StepWall { ms }),
        2 => (0..12_u32).prop_map(|steps| MakerEvent::FailAfter { steps }),
        1 => Just(MakerEvent::Heal),
        3 => any::<usize>().prop_map(|pick| MakerEvent::Crash { pick }),
        1 => Just(MakerEvent::Close),
    ];
    prop::collection::vec(event, 1..60)
}

/// A disk, clocks, and successive lives of a maker.
struct World {
    disk: SimDisk,
    clock: SimClock,
    maker: SimMaker,
    last: Option<Id>,
}

impl World {
    fn new(lies_about: Option<FileSaveStep>) -> World {
        let (disk, clock) = (SimDisk::default(), SimClock::new());
        disk.with(|disk| disk.lies_about = lies_about);
        World { maker: open(&disk, &clock), disk, clock, last: None }
    }

    fn play(&mut self, event: MakerEvent) -> Result<(), String> {
        match event {
            MakerEvent::Next { n } => self.draw(n)?,
            MakerEvent::Pass { ms } => self.clock.pass_ms(ms),
            MakerEvent::StepWall { ms } => self.clock.step_wall_ms(ms),
            MakerEvent::FailAfter { steps } => self.disk.with(|disk| disk.fails_after = Some(steps)),
            MakerEvent::Heal => self.disk.with(|disk| disk.fails_after = None),
            MakerEvent::Crash { pick } => self.reopen(Some(pick))?,
            MakerEvent::Close => {
                let _ = self.maker.close();
                self.reopen(None)?;
            }
        }
        self.check_disk()
    }

    fn draw(&mut self, n: u32) -> Result<(), String> {
        match self.maker.next_many(n) {
            Ok(ids) => {
                let all: Vec<Id> = self.last.into_iter().chain(ids).collect();
                if !all.is_sorted_by(|one, next| one < next) {
                    return Err(format!("not past {:?}", self.last));
                }
                self.last = all.last().copied();
            }
            Err(MakeError::Save(_) | MakeError::Ahead { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Starts another process; after a crash the machine is started again too.
    fn reopen(&mut self, crash: Option<usize>) -> Result<(), String> {
        self.disk.with(|disk| {
            disk.fails_after = None;
            if let Some(pick) = crash {
                disk.temp = None;
                let remains = disk.after_a_crash.get(pick % disk.after_a_crash.len().max(1)).cloned().flatten();
                disk.state = remains.map(|text| Text { text, is_synced: true });
                disk.after_a_crash = vec![disk.state.as_ref().map(|state| state.text.clone())];
            }
        });
        if crash.is_some() {
            self.clock.with(|times| times.boot_ns = 1);
        }
        self.maker = open_with(&self.disk, &self.clock, false).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Checks the disk after any crash: the file is a record, and past every ID.
    fn check_disk(&self) -> Result<(), String> {
        let Some(last) = self.last else { return Ok(()) };
        for text in self.disk.with(|disk| disk.after_a_crash.clone()) {
            let text = text.ok_or("no file after a crash")?;
            let record = Record::parse(text.as_bytes()).map_err(|error| error.to_string())?;
            if tick(last) >= record.point.watermark {
                return Err(format!("{:?} was given and {:?} is on the disk", tick(last), record.point));
            }
        }
        Ok(())
    }
}

/// Plays `events` in a world whose disk leaves out a step of each save.
fn play(lies_about: Option<FileSaveStep>, events: Vec<MakerEvent>) -> Result<(), TestCaseError> {
    let mut world = World::new(lies_about);
    events.into_iter().try_for_each(|event| world.play(event)).map_err(TestCaseError::fail)
}

proptest! {
    #[test]
    fn no_id_comes_twice_over_crashes_full_disks_and_clocks(events in events()) {
        play(None, events)?;
    }
}

/// The check is effective: a save without one of its steps is found.
#[test]
fn every_step_of_a_save_is_needed() {
    for step in [FileSaveStep::SyncFile, FileSaveStep::Rename, FileSaveStep::SyncFolder] {
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
        assert!(runner.run(&events(), |events| play(Some(step), events)).is_err(), "{step:?}");
    }
}

#[test]
fn an_open_writes_no_time_before_the_first_id() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    // A clock that is wrong until it is set.
    clock.step_wall_ms(80 * 365 * DAY_MS);
    let mut maker = open(&disk, &clock);
    assert_eq!(recorded(&disk), SavePoint::NOTHING);
    clock.step_wall_ms(-80 * 365 * DAY_MS);
    let id = maker.next().expect("an ID");
    assert!((0..10_000).contains(&(unix_ms(id) - BEGAN_UNIX_MS)), "{id:?}");
    maker.close().expect("saved");
    assert!((1..10).contains(&(recorded(&disk).watermark.0 - tick(id).0)), "{id:?}");
}

#[test]
fn a_life_without_an_id_leaves_what_it_found() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    open(&disk, &clock).next().expect("an ID");
    let before = recorded(&disk);
    clock.step_wall_ms(300 * DAY_MS);
    open(&disk, &clock).close().expect("nothing to save");
    assert_eq!(recorded(&disk), before);
}

/// After a clock steps back IDs continue a little slower, and the next life begins behind them.
#[test]
fn ids_ascend_while_the_clock_is_set_back() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let mut last = None;
    for _ in 0..3 {
        let maker = open(&disk, &clock);
        for _ in 0..20 {
            let id = maker.next().expect("an ID");
            assert!(Some(id) > last, "{id:?} after {last:?}");
            last = Some(id);
            clock.pass_ms(200);
        }
        clock.step_wall_ms(-3_600_000);
        let id = maker.next().expect("an ID");
        assert!(Some(id) > last && maker.status().expect("it is").rollbacks > 0, "{id:?} after {last:?}");
        last = Some(id);
    }
}

#[test]
fn a_clock_far_past_the_file_is_refused_until_it_is_set_or_believed() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let first = open(&disk, &clock).next().expect("an ID");
    let before = recorded(&disk);
    clock.step_wall_ms(500 * DAY_MS);

    let maker = open(&disk, &clock);
    let error = maker.next().expect_err("a clock that is 500 days ahead");
    assert!(matches!(error, MakeError::Clock(ClockFault::FarPastRecord { .. })), "{error}");
    let text = error.to_string();
    assert!(text.ends_with("set the clock; or, if it is right, open the file once with accept_clock_ahead"), "{text}");
    assert_eq!(recorded(&disk), before, "it is not stored");

    clock.step_wall_ms(-500 * DAY_MS);
    clock.pass_ms(1000);
    let second = maker.next().expect("the clock was set");
    assert!(second > first);

    clock.step_wall_ms(500 * DAY_MS);
    let maker = open_with(&disk, &clock, true).expect("it opens");
    let third = maker.next().expect("the clock is right");
    assert!(unix_ms(third) - unix_ms(second) > 499 * DAY_MS);
    assert!(open(&disk, &clock).next().expect("the file has come along") > third);
}

/// A jump in the middle of a life is held, and followed once it has lasted for ten minutes.
#[test]
fn a_clock_that_jumps_ahead_is_not_followed_at_once() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let maker = open(&disk, &clock);
    maker.next().expect("an ID");
    clock.pass_ms(1000);
    clock.step_wall_ms(30 * DAY_MS);
    assert!(unix_ms(maker.next().expect("an ID")) < BEGAN_UNIX_MS + DAY_MS);
    assert!(maker.status().expect("it is").holds_jump);
    clock.pass_ms(601_000);
    maker.next().expect("an ID");
    assert!(unix_ms(maker.next().expect("an ID")) > BEGAN_UNIX_MS + 29 * DAY_MS);
}

/// A file far ahead of any clock causes an error, and no wait for years.
#[test]
fn a_file_from_the_future_is_no_endless_wait() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let ahead = |ms| Epoch::DEFAULT.tick_at(BEGAN_UNIX_MS + ms).expect("in range");
    let point = SavePoint { watermark: ahead(DAY_MS), reference: ahead(0), max_borrow_ms: 3000 };
    let record = Record { server_id: 1, layout: Layout::default(), point, writer: 7 };
    disk.write(&record.to_text());
    let error = open(&disk, &clock).next().expect_err("a day ahead");
    assert!(matches!(error, MakeError::Ahead { ahead_ms: 86_400_000.. }), "{error}");
    let policy = BorrowPolicy::Error;
    let limits = Limits { policy, ..Limits::default() };
    let maker = begin(&disk, &clock, (Layout::default(), limits), MakerStart::default()).expect("it opens");
    assert!(matches!(maker.next(), Err(MakeError::Ahead { ahead_ms: 86_400_000.. })));

    // A file written by a wrong clock: IDs continue there.
    disk.write(&Record { point: SavePoint { reference: ahead(DAY_MS), ..point }, ..record }.to_text());
    assert!(tick(open(&disk, &clock).next().expect("an ID")) >= point.watermark);
}

#[test]
fn a_full_disk_stops_ids_at_the_watermark_and_no_sooner() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let maker = open(&disk, &clock);
    maker.next().expect("an ID");
    disk.with(|disk| disk.fails_after = Some(0));
    let watermark = recorded(&disk).watermark;
    let mut given = 0;
    let error = loop {
        match maker.next() {
            Ok(id) => {
                assert!(tick(id) < watermark);
                given += 1;
            }
            Err(error) => break error,
        }
        clock.pass_ms(10);
    };
    assert!(given > 10, "{given}");
    assert_eq!(error.to_string(), "cannot look at the lock file of /ids: no storage space; make room on its disk");
    disk.with(|disk| disk.fails_after = None);
    clock.pass_ms(500);
    assert!(tick(maker.next().expect("there is room")) >= watermark);
}

/// A hanging disk blocks the call that saves, and other calls only at the old watermark.
#[test]
fn threads_go_on_while_one_of_them_saves() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let maker = open(&disk, &clock);
    let before = maker.next().expect("an ID");
    let watermark = recorded(&disk).watermark;
    let (begun, has_begun) = channel();
    let (let_go, go_on) = channel();
    disk.with(|disk| disk.hangs = Some((begun, go_on)));
    clock.pass_ms(2500);
    thread::scope(|scope| {
        let saves = scope.spawn(|| maker.next().expect("an ID"));
        has_begun.recv().expect("a save");
        let meanwhile = maker.next().expect("below the old watermark");
        assert!(meanwhile > before && tick(meanwhile) < watermark);
        assert_eq!(recorded(&disk).watermark, watermark, "it is not saved");

        clock.pass_ms(2000);
        let waits = scope.spawn(|| maker.next().expect("an ID"));
        let_go.send(()).expect("it hangs");
        let (saved, waited) = (saves.join().expect("no panic"), waits.join().expect("no panic"));
        assert!(saved > meanwhile && waited > meanwhile && saved != waited);
        assert!(recorded(&disk).watermark > tick(saved.max(waited)));
    });
}

#[test]
fn a_file_that_is_no_longer_its_own_ends_a_maker() {
    for expected in [LockLoss::LockGone, LockLoss::LockReplaced, LockLoss::Overwritten] {
        let (disk, clock) = (SimDisk::default(), SimClock::new());
        let maker = open(&disk, &clock);
        maker.next().expect("an ID");
        let record = Record::parse(disk.text().expect("a file").as_bytes()).expect("a record");
        let another = Record { writer: !record.writer, ..record }.to_text();
        match expected {
            LockLoss::Overwritten => disk.write(&another),
            _ => disk.with(|disk| disk.loss = Some(expected)),
        }
        clock.pass_ms(5000);
        for _ in 0..2 {
            let error = maker.next().expect_err("it is another's");
            let MakeError::Save(error) = error else { panic!("{error}") };
            assert!(matches!(*error, SaveError::Lost { loss, .. } if loss == expected), "{error}");
            // The file is as it was, but another process may have given IDs meanwhile.
            disk.with(|disk| disk.loss = None);
            clock.pass_ms(1000);
        }
        if expected == LockLoss::Overwritten {
            assert_eq!(disk.text(), Some(another));
        }
    }
}

#[test]
fn an_older_copy_that_is_put_back_under_a_maker_ends_it() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    open(&disk, &clock).next().expect("an ID");
    let older = disk.text().expect("a file");
    let maker = open(&disk, &clock);
    maker.next().expect("an ID");
    disk.write(&older);
    clock.pass_ms(5000);
    let error = maker.next().expect_err("a file was put there").to_string();
    assert!(error.contains("or an older copy was put in its place; find the other process that uses it"), "{error}");
    assert_eq!(disk.text(), Some(older));
}

/// A file that is deleted or damaged while a maker holds the lock is written again: the maker has newer numbers.
#[test]
fn a_file_that_is_damaged_under_a_maker_is_written_again() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let maker = open(&disk, &clock);
    for damage in [None, Some("getid maker 1\n")] {
        let before = maker.next().expect("an ID");
        disk.with(|disk| disk.state = damage.map(|text| Text { text: text.into(), is_synced: true }));
        clock.pass_ms(5000);
        maker.next().expect("an ID");
        assert!(recorded(&disk).watermark > tick(before));
    }
}

#[test]
fn files_that_are_not_for_this_maker() {
    let layout = Layout::default();
    let point = SavePoint { watermark: Tick(10), reference: Tick(5), max_borrow_ms: 3000 };
    let record = Record { server_id: 1, layout, point, writer: 7 };
    let later = Layout::new(Epoch::from_unix_ms(1_500_000_000_000).expect("in range"), 2, 9, 10).expect("21 bits");
    let narrow = Layout::new(Epoch::DEFAULT, 1, 10, 10).expect("21 bits");
    let refusal = |text: &str, server_id, layout| {
        let disk = SimDisk::default();
        disk.write(text);
        let opened = store(&disk, server_id, layout);
        assert_eq!(disk.text().as_deref(), Some(text), "it is as it was");
        opened.err().map(|error| error.to_string())
    };
    let text = record.to_text();
    assert_eq!(refusal(&text, 1, layout), None);
    assert_eq!(refusal(&text, 1, narrow), None, "widths may change");
    assert_eq!(
        refusal(&text, 2, layout).as_deref(),
        Some(
            "/ids is the file of server-id 1, and 2 was requested: open it with 1, or give server-id 2 a file of its \
             own"
        )
    );
    assert_eq!(
        refusal(&text, 1, later).as_deref(),
        Some(
            "/ids counts from the epoch 1420041600000 (2014-12-31T16:00:00.000Z), and 1500000000000 \
             (2017-07-14T02:40:00.000Z) was requested: open it with a layout of its own epoch"
        )
    );
    let nothing = Record { point: SavePoint::NOTHING, ..record }.to_text();
    assert_eq!(refusal(&nothing, 1, later), None, "no ID was given by any epoch");
    assert_eq!(
        refusal("getid state 2\n", 1, layout).as_deref(),
        Some(
            "cannot use /ids: it starts with 'getid state 2' where 'getid maker 1' is expected; a FileMaker has a file of \
             its own: name another one"
        )
    );
    let torn = refusal(&text[..text.len() / 2], 1, layout).expect("it is torn");
    assert!(
        torn.ends_with(
            "its end is missing; make sure that no process makes IDs with this file, then remove it; if the clock is right \
             now and was never ahead, open as before; if it may have been ahead, open once with begin_past(the largest ID \
             of this server-id in any table), or IDs may repeat"
        ),
        "{torn}"
    );
}

/// Threads call all the time, and syncs of the disk take longer than the lead: each save is overtaken by the time that
/// other threads have read.
#[test]
fn a_disk_that_is_slower_than_the_lead_is_an_error_and_no_endless_wait() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let maker = open(&disk, &clock);
    clock.with(|times| times.wakes_each_second = true);
    let hang = || {
        let ((begun, has_begun), (let_go, go_on)) = (channel(), channel());
        disk.with(|disk| disk.hangs = Some((begun, go_on)));
        (has_begun, let_go)
    };
    let first = hang();
    let errors = thread::scope(|scope| {
        let saves = scope.spawn(|| maker.next());
        first.0.recv().expect("a save");
        let waited = maker.next();
        let second = hang();
        first.1.send(()).expect("it hangs");
        // The first save was overtaken.
        second.0.recv().expect("another save");
        let waited_again = maker.next();
        second.1.send(()).expect("it hangs");
        [waited, waited_again, saves.join().expect("no panic")].map(|result| result.expect_err("no ID"))
    });
    for error in errors {
        assert!(matches!(error, MakeError::SlowDisk { waited_ms: 5000..6000, lead_ms: 3000 }), "{error}");
    }
    let text = MakeError::SlowDisk { waited_ms: 5000, lead_ms: 3000 }.to_string();
    let expected = "no ID for 5000 ms: the disk has not stored the state file in that time, or needs longer for it \
     than the lead, 3000 ms; use a faster disk, or raise lead_ms and max_borrow_ms";
    assert_eq!(text, expected);
    assert!(maker.next().is_ok(), "the disk is quick again");
}

/// A sync that takes longer than the lead does no harm to a call that is alone.
#[test]
fn a_slow_disk_gives_ids_to_a_single_thread() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let maker = open(&disk, &clock);
    for _ in 0..2 {
        // The watermark is reached.
        clock.pass_ms(5000);
        let (begun, has_begun) = channel();
        let (let_go, go_on) = channel();
        disk.with(|disk| disk.hangs = Some((begun, go_on)));
        thread::scope(|scope| {
            let saves = scope.spawn(|| maker.next());
            has_begun.recv().expect("a save");
            clock.pass_ms(20_000);
            let_go.send(()).expect("it hangs");
            saves.join().expect("no panic").expect("an ID");
        });
    }
}

/// Other calls take each slot while this call sleeps.
#[test]
fn a_call_whose_ids_others_take_is_an_error_and_no_endless_wait() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    // One ID a millisecond.
    let layout = Layout::new(Epoch::DEFAULT, 2, 0, 19).expect("21 bits");
    let maker = begin(&disk, &clock, (layout, Limits::default()), MakerStart::default()).expect("it opens");
    maker.next_many(3000).expect("up to the borrow limit");
    let (begun, has_begun) = channel();
    let (let_go, go_on) = channel();
    clock.with(|times| times.watched = Some((begun, go_on)));
    thread::scope(|scope| {
        let starves = scope.spawn(|| {
            let result = maker.next();
            clock.with(|times| times.watched = None);
            result
        });
        while has_begun.recv().is_ok() {
            clock.pass_ms(1000);
            maker.next_many(1000).expect("they are there");
            let_go.send(()).expect("it sleeps");
        }
        let error = starves.join().expect("no panic").expect_err("others took them").to_string();
        let expected = "no ID for 5000 ms: other calls have taken all that the layout holds, 1000 a second; request \
         fewer a second, or use a layout with a larger shard-range";
        assert_eq!(error, expected);
    });
}

#[test]
fn one_call_gives_a_million_ids_and_no_more() {
    let maker = open(&SimDisk::default(), &SimClock::new());
    let error = maker.next_many(IDS_MAX + 1).expect_err("too many").to_string();
    assert_eq!(error, "1048577 IDs were requested in one call, and 1048576 are the maximum: make several calls");
    let ids = maker.next_many(IDS_MAX).expect("IDs");
    assert!(ids.len() == IDS_MAX as usize && ids.is_sorted_by(|one, next| one < next));
}

#[test]
fn too_many_ids_a_second_are_an_error_where_nothing_may_wait() {
    let limits = Limits { policy: BorrowPolicy::Error, ..Limits::default() };
    let maker = begin(&SimDisk::default(), &SimClock::new(), (Layout::default(), limits), MakerStart::default());
    let maker = maker.expect("it opens");
    let error = (0..4000).find_map(|_| maker.next_many(512).err()).expect("3000 ms hold 3000 times 512");
    assert_eq!(
        error.to_string(),
        "the next ID would lie 3000 ms ahead of the clock, and 3000 ms are allowed: request fewer a second, use a \
         layout with a larger shard-range, or wait"
    );
}

#[test]
fn after_the_last_instant_there_is_no_id_and_no_way_to_get_one() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let end = Layout::default().last_unix_ms();
    clock.step_wall_ms(end - BEGAN_UNIX_MS - 1000);
    let maker = open(&disk, &clock);
    let error = maker.next_many(IDS_MAX).expect_err("4000 ms are not left");
    assert_eq!(
        error.to_string(),
        "no ID of this layout can carry a time after 2154-05-14T23:35:11.103Z: set the clock if it is ahead; if it is \
         right, this layout has no more IDs, and a table of its own may continue with a later epoch in another file"
    );
}

/// The file is lost, and the clock was an hour ahead while it was used.
#[test]
fn a_lost_file_is_followed_by_its_largest_id() {
    let clock = SimClock::new();
    clock.step_wall_ms(3_600_000);
    let maker = open(&SimDisk::default(), &clock);
    let largest = maker.next_many(1000).expect("IDs")[999];
    clock.step_wall_ms(-3_600_000);
    assert!(open(&SimDisk::default(), &clock).next().expect("an ID") < largest, "without it they would repeat");

    let disk = SimDisk::default();
    let next = open_past(&disk, &clock, largest).expect("it opens").next().expect("an ID, and no wait for an hour");
    assert!(tick(next).ms_since(tick(largest)) > 3200, "past what that maker may have given besides");
    // The file has it after that.
    let later = open(&disk, &clock).next().expect("an ID");
    assert!(later > next);
    let point = recorded(&disk);
    open_past(&disk, &clock, largest).expect("it opens").close().expect("nothing to save");
    assert_eq!(recorded(&disk), point, "a file that lies past it does not move");
}

#[test]
fn past_the_last_id_of_a_layout_there_is_none() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let last = Id::new((1 << 63) - 1).expect("63 bits");
    let error = open_past(&disk, &clock, last).map(drop).expect_err("the end of time").to_string();
    assert_eq!(
        error,
        "there are no IDs past 9223372036854775807, which begin_past was given: IDs of this layout end at \
         2154-05-14T23:35:11.103Z; give the largest ID that was made with this layout"
    );
    assert_eq!(disk.text(), None, "it is not stored");
}

/// A maker whose lock file has just been replaced gives IDs up to its last watermark, past R + B. The next maker, which
/// finds no state file, begins past them.
#[test]
fn a_start_without_a_file_begins_past_a_maker_that_has_lost_it() {
    let (disk, clock) = (SimDisk::default(), SimClock::new());
    let first = open(&disk, &clock);
    let mut last = first.next().expect("an ID");
    let limit = || {
        let wall = Epoch::DEFAULT.tick_at(clock.wall_unix_ms()).expect("in range");
        wall.plus_ms(Limits::default().max_borrow_ms)
    };
    // At the borrow limit, right after a save.
    while recorded(&disk).watermark <= limit().plus_ms(100) {
        first.next_many(500).expect("IDs");
    }
    disk.with(|disk| disk.loss = Some(LockLoss::LockReplaced));
    let (begun, has_begun) = channel();
    let (let_go, go_on) = channel();
    clock.with(|times| times.watched = Some((begun, go_on)));
    let next = thread::scope(|scope| {
        let second = scope.spawn(|| {
            let maker = open(&SimDisk::default(), &clock);
            clock.with(|times| times.watched = None);
            maker.next()
        });
        let pauses = has_begun.recv().is_ok();
        while !pauses && !second.is_finished() {
            thread::yield_now();
        }
        let paused_ns = clock.boot_ns();
        let error = loop {
            match first.next_many(50) {
                Ok(ids) => last = ids[49],
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, MakeError::Save(error) if matches!(**error, SaveError::Lost { .. })), "{error}");
        clock.pass(Duration::from_millis(250).saturating_sub(Duration::from_nanos(clock.boot_ns() - paused_ns)));
        let _ = let_go.send(());
        second.join().expect("no panic").expect("an ID")
    });
    assert!(next > last, "{next:?} after {last:?}");
}

/// A random number of a life may repeat in a fork of its process; another record is still detected.
#[test]
fn a_record_of_the_same_writer_is_not_replaced() {
    let disk = SimDisk::default();
    let point = SavePoint { watermark: Tick(10), reference: Tick(5), max_borrow_ms: 3000 };
    let record = Record { server_id: 1, layout: Layout::default(), point, writer: 7 };
    disk.write(&record.to_text());
    let (mut store, _) = store(&disk, 1, Layout::default()).expect("it opens");
    let other = Record { point: SavePoint { watermark: Tick(20), ..point }, ..record }.to_text();
    disk.write(&other);
    let error = store.save(point).expect_err("it is not what was found");
    assert!(matches!(error, SaveError::Lost { loss: LockLoss::Overwritten, .. }), "{error}");
    assert_eq!(disk.text(), Some(other));
}
