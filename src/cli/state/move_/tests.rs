//! Tests of moves between folders and stores, interrupted at every step and repeated.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use getid_core::{Epoch, Layout, Tick};
use tempfile::TempDir;

use super::*;
use crate::cli::claim_store::testing::*;
use getid_engine::claim::{Owner, Term};
use getid_store::records::memory::MemoryStore;
use getid_store::records::{
    DamagedRow, RecordFuture, RecordPage, RecordStore, RecordStoreError, RecordStoreInfo, Stamp,
};

/// Two stores and two folders, with server-id 1 in one of them.
struct World {
    stores: [Arc<KillableStore>; 2],
    dirs: [TempDir; 2],
}

/// A store in memory with a name, whose calls fail from some call on, as if the tool had been killed there.
struct KillableStore {
    name: &'static str,
    memory: Arc<MemoryStore>,
    calls: AtomicU32,
    /// The last call before the kill.
    killed_at: AtomicU32,
    /// Whether that call still takes effect.
    is_done: bool,
}

impl KillableStore {
    fn is_killed(&self) -> (bool, bool) {
        let call = self.calls.fetch_add(1, Relaxed);
        let last = self.killed_at.load(Relaxed);
        (call >= last, call == last && self.is_done)
    }
}

fn killed<T>() -> Result<T, RecordStoreError> {
    Err(RecordStoreError::Away("killed".to_owned()))
}

impl RecordStore for KillableStore {
    fn shown(&self) -> &'static str {
        self.name
    }
    fn read<'a>(&'a self, key: &'a Key) -> RecordFuture<'a, Option<RecordRow>> {
        if self.is_killed().0 {
            return Box::pin(async { killed() });
        }
        self.memory.read(key)
    }
    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> RecordFuture<'a, RecordPage> {
        self.memory.list(prefix, after, limit)
    }
    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a RecordRow) -> RecordFuture<'a, WriteResult> {
        Box::pin(async move {
            let (is_killed, is_done) = self.is_killed();
            if !is_killed || is_done {
                let written = self.memory.write_now(key, expect, new);
                if !is_killed {
                    return Ok(written);
                }
            }
            killed()
        })
    }
    fn mend<'a>(&'a self, key: &'a Key, bad: &'a DamagedRow, new: &'a RecordRow) -> RecordFuture<'a, bool> {
        self.memory.mend(key, bad, new)
    }
    fn info(&self) -> RecordFuture<'_, RecordStoreInfo> {
        self.memory.info()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestPlace {
    Store(usize),
    Folder(usize),
}

const PLACES: [TestPlace; 4] = [TestPlace::Store(0), TestPlace::Store(1), TestPlace::Folder(0), TestPlace::Folder(1)];

/// Makes a folder in memory where the system has one, so that a save waits for no disk.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl World {
    fn new(start: TestPlace) -> World {
        World::with(start, u32::MAX, false)
    }

    fn with(start: TestPlace, killed_at: u32, is_done: bool) -> World {
        let store = |name| {
            let (memory, _) = fleet();
            let (calls, killed_at) = (AtomicU32::new(0), AtomicU32::new(killed_at));
            Arc::new(KillableStore { name, memory, calls, killed_at, is_done })
        };
        let stores = [store("etcd://a/getid"), store("postgres://b/ids")];
        let world = World { stores, dirs: [folder(), folder()] };
        match start {
            TestPlace::Store(at) => put(&world.stores[at].memory, &free(1)),
            TestPlace::Folder(at) => {
                let record = Record { owner: Owner { term: Term(9), nonce: 5 }, ..free(1).record };
                fs::write(world.state(at), record.to_text()).unwrap();
            }
        }
        world
    }

    fn state(&self, at: usize) -> PathBuf {
        self.dirs[at].path().join("getid-1.state")
    }

    fn heal(&self) {
        self.stores.iter().for_each(|store| store.killed_at.store(u32::MAX, Relaxed));
    }

    fn end(&self, at: TestPlace) -> MoveEnd {
        match at {
            TestPlace::Folder(at) => MoveEnd::folder(&fs::canonicalize(self.dirs[at].path()).unwrap(), 1).unwrap(),
            TestPlace::Store(at) => {
                let store: Arc<dyn RecordStore> = Arc::<KillableStore>::clone(&self.stores[at]);
                MoveEnd::store(ClaimStore::new(store, self.stores[at].name).unwrap(), 1, 2000)
            }
        }
    }

    fn place(&self, at: TestPlace) -> RecordLocation {
        self.end(at).place()
    }

    fn run(&self, from: TestPlace, to: TestPlace) -> Result<String, String> {
        self.run_until(from, to, None)
    }

    fn run_until(&self, from: TestPlace, to: TestPlace, last: Option<MoveStep>) -> Result<String, String> {
        let (from, to) = (self.end(from), self.end(to));
        let mut before =
            |step| if last == Some(step) { Err(StateError::ClaimLost("killed".to_owned())) } else { Ok(()) };
        Move { server_id: 1, from, to, now_unix_ms: NOW }.run(&mut before).map_err(|error| error.to_string())
    }

    fn found(&self, at: TestPlace) -> Option<MarkedRecord> {
        match at {
            TestPlace::Folder(at) => fs::read(self.state(at)).ok().map(|bytes| MarkedRecord::parse(&bytes).unwrap()),
            TestPlace::Store(at) => {
                self.stores[at].memory.get(&Key::of_claim(1))?;
                let claim = stored_claim(&self.stores[at].memory, 1);
                assert!(claim.holder().is_none());
                Some(MarkedRecord { record: claim.record, mark: claim.mark })
            }
        }
    }

    /// Returns the places whose record has no mark, where a server would start.
    fn startable(&self) -> Vec<TestPlace> {
        let has = |at: &TestPlace| self.found(*at).is_some_and(|found| found.mark.is_none());
        PLACES.into_iter().filter(has).collect()
    }

    #[track_caller]
    fn check_moved(&self, from: TestPlace, to: TestPlace) {
        assert_eq!(self.startable(), [to]);
        let (there, here) = (self.found(to).unwrap(), self.found(from).unwrap());
        assert_eq!(there.record.point, free(1).record.point);
        assert_eq!(here.mark, Some(Mark::MovedTo(self.place(to))));
    }
}

/// A move between any two places and back reports what it did, and takes effect once.
#[test]
fn a_record_moves_between_any_two_places_and_back() {
    for from in PLACES {
        for to in PLACES.into_iter().filter(|to| *to != from) {
            let world = World::new(from);
            let report = world.run(from, to).unwrap();
            assert!(report.starts_with("server-id 1: moved\n"), "{report}");
            world.check_moved(from, to);
            let again = world.run(from, to).unwrap();
            assert!(again.starts_with("server-id 1: already moved\n"), "{again}");
            world.run(to, from).unwrap();
            world.check_moved(to, from);
            world.run(from, to).unwrap();
            world.check_moved(from, to);
        }
    }
}

/// The process is killed before, in or after each call of a store and each write of a folder. At no moment can a server
/// start in two places, or with a record that is not the newest. The same command finishes the move.
#[test]
fn a_killed_move_is_completed_by_the_same_command() {
    let mut kills = 0;
    for from in PLACES {
        for to in PLACES.into_iter().filter(|to| *to != from) {
            // Kills in a call of a store, with and without effect, and before each step.
            let calls = (0..8).flat_map(|call| [(None, call, false), (None, call, true)]);
            let steps =
                [MoveStep::MarkMoving, MoveStep::Put, MoveStep::MarkMoved].map(|step| (Some(step), u32::MAX, false));
            for (last, killed_at, is_done) in calls.chain(steps) {
                let world = World::with(from, killed_at, is_done);
                let result = world.run_until(from, to, last);
                world.heal();
                let startable = world.startable();
                assert!(startable.len() <= 1, "{from:?} {to:?} {last:?} {killed_at}: {startable:?}");
                kills += u32::from(result.is_err());
                world.run(from, to).unwrap_or_else(|error| panic!("{from:?} {to:?} {killed_at}: {error}"));
                world.check_moved(from, to);
            }
        }
    }
    assert!(kills > 90, "{kills}");
}

/// The server has continued in the new place before the old one is marked `moved-to`.
#[test]
fn a_move_is_completed_after_its_server_has_continued() {
    let world = World::new(TestPlace::Folder(0));
    world.run_until(TestPlace::Folder(0), TestPlace::Store(0), Some(MoveStep::MarkMoved)).unwrap_err();
    let mut gone_on = stored_claim(&world.stores[0].memory, 1);
    gone_on.record.point.watermark = gone_on.record.point.watermark.plus_ms(60_000);
    gone_on.beat += 5;
    put(&world.stores[0].memory, &gone_on);
    let report = world.run(TestPlace::Folder(0), TestPlace::Store(0)).unwrap();
    assert!(report.starts_with("server-id 1: moved: an earlier move was completed\n"), "{report}");
    assert_eq!(stored_claim(&world.stores[0].memory, 1), gone_on, "it is left as it is");
    // The record may also have been moved further.
    let world = World::new(TestPlace::Folder(0));
    world.run_until(TestPlace::Folder(0), TestPlace::Store(0), Some(MoveStep::MarkMoved)).unwrap_err();
    world.run(TestPlace::Store(0), TestPlace::Store(1)).unwrap();
    world.run(TestPlace::Folder(0), TestPlace::Store(0)).unwrap();
    assert_eq!(world.startable(), [TestPlace::Store(1)]);
}

/// Beats never decrease, whatever way a record takes: servers note the highest.
#[test]
fn a_move_raises_the_beat() {
    let world = World::new(TestPlace::Store(0));
    world.run(TestPlace::Store(0), TestPlace::Store(1)).unwrap();
    let there = stored_claim(&world.stores[1].memory, 1);
    assert!(there.beat > free(1).beat && there.timeout_ms == free(1).timeout_ms);
    let left = stored_claim(&world.stores[0].memory, 1).beat;
    world.run(TestPlace::Store(1), TestPlace::Store(0)).unwrap();
    assert!(stored_claim(&world.stores[0].memory, 1).beat > left.max(there.beat));
}

#[track_caller]
fn check_refused(world: &World, from: TestPlace, to: TestPlace, expected: &str) {
    let before = PLACES.map(|at| world.found(at));
    let refused = world.run(from, to).unwrap_err();
    let shown =
        world.dirs.iter().zip(["DIR0", "DIR1"]).fold(refused, |text, (dir, name)| {
            text.replace(fs::canonicalize(dir.path()).unwrap().to_str().unwrap(), name)
        });
    assert!(shown.starts_with(expected), "{shown}");
    assert_eq!(PLACES.map(|at| world.found(at)), before, "a refusal has written");
}

#[test]
fn refused_moves_change_nothing() {
    let (store, other, folder) = (TestPlace::Store(0), TestPlace::Store(1), TestPlace::Folder(0));
    let world = World::new(store);
    check_refused(&world, folder, store, "file:DIR0: there is no record of server-id 1, so there is nothing to move");
    check_refused(&world, store, store, "--from and --to are the same place: etcd://a/getid");
    // Two records of one server-id.
    let two = "postgres://b/ids: there is a record of server-id 1 already, and two records cannot be merged";
    put(&world.stores[1].memory, &free(1));
    check_refused(&world, store, other, two);
    // A claim that was never used is replaced, and no other.
    let never = ClaimRecord::new(free(1).record.identity, 2000, NOW);
    put(&world.stores[1].memory, &never);
    assert!(world.run(store, other).is_ok());
    world.check_moved(store, other);

    // The mark names another place.
    let world = World::new(store);
    world.run(store, folder).unwrap();
    let moved = "etcd://a/getid: server-id 1: it was moved to file:DIR0, and no server may start with it here. To continue, start \
                 the server with claim-store file and dir DIR0; or";
    check_refused(&world, store, other, moved);
    put(&world.stores[1].memory, &free(1));
    check_refused(&world, other, store, moved);
    let world = World::new(store);
    world.run_until(store, folder, Some(MoveStep::Put)).unwrap_err();
    let moving = "etcd://a/getid: server-id 1: it is being moved to file:DIR0, and no server may start with it here. To continue, \
                  finish the move: run `getid state move --server-id 1 --from etcd://a/getid --to DIR0` once more";
    check_refused(&world, store, other, moving);
    put(&world.stores[1].memory, &free(1));
    check_refused(&world, other, store, moving);

    // Another record was made in the target of an interrupted move.
    let mut lower = free(1);
    lower.record.point.watermark = Tick(5);
    let world = World::new(store);
    world.run_until(store, other, Some(MoveStep::Put)).unwrap_err();
    put(&world.stores[1].memory, &lower);
    let foreign = "postgres://b/ids: there is a record of server-id 1 that does not come from etcd://a/getid: its watermark is \
                   lower.";
    check_refused(&world, store, other, foreign);
}

#[test]
fn a_held_record_is_not_moved() {
    let world = World::new(TestPlace::Store(1));
    let beats = BeatThread::of(&world.stores[0].memory, held(1));
    let error = world.run(TestPlace::Store(0), TestPlace::Folder(0)).unwrap_err();
    assert!(error.starts_with("server-id 1 is held by host-a (10.1.0.7:7890, a.example), which wrote it"), "{error}");
    assert!(world.found(TestPlace::Folder(0)).is_none() && stored_claim(&world.stores[0].memory, 1).mark.is_none());
    drop(beats);
    // The holder is silent now.
    world.run(TestPlace::Store(0), TestPlace::Folder(0)).unwrap();

    let world = World::new(TestPlace::Folder(0));
    let _server = world.end(TestPlace::Folder(0));
    let refused = MoveEnd::folder(world.dirs[0].path(), 1).err().unwrap();
    assert!(refused.to_string().starts_with("server-id 1 is in use: "), "{refused}");
}

#[test]
fn a_moved_record_must_fit_the_fleet() {
    let world = World::new(TestPlace::Folder(0));
    let refused = |expected: &str| check_refused(&world, TestPlace::Folder(0), TestPlace::Store(0), expected);
    let memory = &world.stores[0].memory;
    let fleet = memory.get(&Key::of_cluster()).unwrap();
    let with = |from: &str, to: &str| {
        let cluster = getid_engine::claim::fleet::ClusterRecord::parse(fleet.text.as_bytes()).unwrap();
        let mut cluster = cluster;
        match from {
            "auto" => cluster.auto = getid_engine::claim::fleet::IdRanges::parse(to).unwrap(),
            "id-range" => cluster.id_range = to.parse().unwrap(),
            _ => cluster.epoch = Epoch::from_unix_ms(to.parse().unwrap()).unwrap(),
        }
        memory.set(Key::of_cluster(), Some(cluster.to_row(fleet.stamp).unwrap()));
    };
    memory.set(Key::of_cluster(), None);
    refused(
        "etcd://a/getid: there is no fleet record here; if address and prefix are right, `getid cluster init` creates",
    );
    with("auto", "1-3");
    refused("etcd://a/getid: 'server-id auto' may take server-id 1 here (1-3), and a moved record belongs to a server");
    with("id-range", "10");
    refused("etcd://a/getid: this fleet has id-range 10, and the record id-range 2: start the server once with");
    with("epoch", "1420041600001");
    refused("etcd://a/getid: the record does not fit this fleet's epoch: it counts from epoch 1420041600000");
    // An earlier epoch keeps the instants.
    with("epoch", "1420041599000");
    world.run(TestPlace::Folder(0), TestPlace::Store(0)).unwrap();
    let claim = stored_claim(memory, 1);
    assert_eq!(claim.record.point.watermark, free(1).record.point.watermark.plus_ms(1000));
    assert_eq!(claim.record.identity.layout.server_bits(), Layout::default().server_bits());
}

#[test]
fn arguments_are_folders_or_addresses() {
    for (argument, folder) in [
        ("/var/lib/getid", Some("/var/lib/getid")),
        ("state", Some("state")),
        ("./a:b", Some("./a:b")),
        ("file:/var/lib", Some("/var/lib")),
        ("file:///var/lib", Some("/var/lib")),
        ("etcd://a/b", None),
        ("sqlite:/a", None),
    ] {
        assert_eq!(folder_of(argument).as_deref(), folder.map(Path::new), "{argument}");
    }
}
