//! Tests of moves between folders and stores, interrupted at every step and repeated.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use getid_core::{Epoch, Layout, Tick};
use tempfile::TempDir;

use super::*;
use crate::claim::{Owner, Term};
use crate::cli::claim_store::testing::*;
use crate::records::memory::MemoryStore;
use crate::records::{DamagedRow, RecordFuture, RecordPage, RecordStore, RecordStoreError, RecordStoreInfo, Stamp};

/// Two stores and two folders, with server-id 1 in one of them.
struct World {
    stores: [Arc<Named>; 2],
    dirs: [TempDir; 2],
}

/// A store in memory with a name, whose calls fail from some call on, as if the tool had been killed there.
struct Named {
    name: &'static str,
    memory: Arc<MemoryStore>,
    calls: AtomicU32,
    /// The last call before the kill.
    killed_at: AtomicU32,
    /// Whether that call still takes effect.
    is_done: bool,
}

impl Named {
    fn is_killed(&self) -> (bool, bool) {
        let call = self.calls.fetch_add(1, Relaxed);
        let last = self.killed_at.load(Relaxed);
        (call >= last, call == last && self.is_done)
    }
}

fn killed<T>() -> Result<T, RecordStoreError> {
    Err(RecordStoreError::Away("killed".to_owned()))
}

impl RecordStore for Named {
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
enum At {
    Store(usize),
    Folder(usize),
}

const PLACES: [At; 4] = [At::Store(0), At::Store(1), At::Folder(0), At::Folder(1)];

/// Makes a folder in memory where the system has one, so that a save waits for no disk.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl World {
    fn new(start: At) -> World {
        World::with(start, u32::MAX, false)
    }

    fn with(start: At, killed_at: u32, is_done: bool) -> World {
        let store = |name| {
            let (memory, _) = fleet();
            let (calls, killed_at) = (AtomicU32::new(0), AtomicU32::new(killed_at));
            Arc::new(Named { name, memory, calls, killed_at, is_done })
        };
        let stores = [store("etcd://a/getid"), store("postgres://b/ids")];
        let world = World { stores, dirs: [folder(), folder()] };
        match start {
            At::Store(at) => put(&world.stores[at].memory, &free(1)),
            At::Folder(at) => {
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

    fn end(&self, at: At) -> End {
        match at {
            At::Folder(at) => End::folder(&fs::canonicalize(self.dirs[at].path()).unwrap(), 1).unwrap(),
            At::Store(at) => {
                let store: Arc<dyn RecordStore> = Arc::<Named>::clone(&self.stores[at]);
                End::store(ClaimStore::new(store, self.stores[at].name).unwrap(), 1, 2000)
            }
        }
    }

    fn place(&self, at: At) -> RecordLocation {
        self.end(at).place()
    }

    fn run(&self, from: At, to: At) -> Result<String, String> {
        self.run_until(from, to, None)
    }

    fn run_until(&self, from: At, to: At, last: Option<Step>) -> Result<String, String> {
        let (from, to) = (self.end(from), self.end(to));
        let mut before = |step| if last == Some(step) { Err("killed".to_owned()) } else { Ok(()) };
        Move { server_id: 1, from, to, now_unix_ms: NOW }.run(&mut before)
    }

    fn found(&self, at: At) -> Option<MarkedRecord> {
        match at {
            At::Folder(at) => fs::read(self.state(at)).ok().map(|bytes| MarkedRecord::parse(&bytes).unwrap()),
            At::Store(at) => {
                self.stores[at].memory.get(&Key::of_claim(1))?;
                let claim = got(&self.stores[at].memory, 1);
                assert!(claim.holder().is_none());
                Some(MarkedRecord { record: claim.record, mark: claim.mark })
            }
        }
    }

    /// Returns the places whose record has no mark, where a server would start.
    fn startable(&self) -> Vec<At> {
        let has = |at: &At| self.found(*at).is_some_and(|found| found.mark.is_none());
        PLACES.into_iter().filter(has).collect()
    }

    #[track_caller]
    fn check_moved(&self, from: At, to: At) {
        assert_eq!(self.startable(), [to]);
        let (there, here) = (self.found(to).unwrap(), self.found(from).unwrap());
        assert_eq!(there.record.point, free(1).record.point);
        assert_eq!(here.mark, Some(Mark::MovedTo(self.place(to))));
    }
}

/// A move between any two places and back reports what it did, and takes effect once.
#[test]
fn a_record_goes_from_anywhere_to_anywhere_and_back() {
    for from in PLACES {
        for to in PLACES.into_iter().filter(|to| *to != from) {
            let world = World::new(from);
            let said = world.run(from, to).unwrap();
            assert!(said.starts_with("server-id 1: moved\n"), "{said}");
            world.check_moved(from, to);
            let again = world.run(from, to).unwrap();
            assert!(again.starts_with("server-id 1: done before\n"), "{again}");
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
fn a_move_that_is_killed_is_finished_by_the_same_command() {
    let mut kills = 0;
    for from in PLACES {
        for to in PLACES.into_iter().filter(|to| *to != from) {
            // Kills in a call of a store, with and without effect, and before each step.
            let calls = (0..8).flat_map(|call| [(None, call, false), (None, call, true)]);
            let steps = [Step::MarkMoving, Step::Put, Step::MarkMoved].map(|step| (Some(step), u32::MAX, false));
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
fn a_move_is_finished_after_its_server_has_gone_on() {
    let world = World::new(At::Folder(0));
    world.run_until(At::Folder(0), At::Store(0), Some(Step::MarkMoved)).unwrap_err();
    let mut gone_on = got(&world.stores[0].memory, 1);
    gone_on.record.point.watermark = gone_on.record.point.watermark.plus_ms(60_000);
    gone_on.beat += 5;
    put(&world.stores[0].memory, &gone_on);
    let said = world.run(At::Folder(0), At::Store(0)).unwrap();
    assert!(said.starts_with("server-id 1: moved: an earlier move was finished\n"), "{said}");
    assert_eq!(got(&world.stores[0].memory, 1), gone_on, "it is left as it is");
    // The record may also have been moved further.
    let world = World::new(At::Folder(0));
    world.run_until(At::Folder(0), At::Store(0), Some(Step::MarkMoved)).unwrap_err();
    world.run(At::Store(0), At::Store(1)).unwrap();
    world.run(At::Folder(0), At::Store(0)).unwrap();
    assert_eq!(world.startable(), [At::Store(1)]);
}

/// Beats never decrease, whatever way a record takes: servers note the highest.
#[test]
fn beats_grow_on_the_way() {
    let world = World::new(At::Store(0));
    world.run(At::Store(0), At::Store(1)).unwrap();
    let there = got(&world.stores[1].memory, 1);
    assert!(there.beat > free(1).beat && there.timeout_ms == free(1).timeout_ms);
    let left = got(&world.stores[0].memory, 1).beat;
    world.run(At::Store(1), At::Store(0)).unwrap();
    assert!(got(&world.stores[0].memory, 1).beat > left.max(there.beat));
}

#[track_caller]
fn check_refused(world: &World, from: At, to: At, said: &str) {
    let before = PLACES.map(|at| world.found(at));
    let refused = world.run(from, to).unwrap_err();
    let shown =
        world.dirs.iter().zip(["DIR0", "DIR1"]).fold(refused, |text, (dir, name)| {
            text.replace(fs::canonicalize(dir.path()).unwrap().to_str().unwrap(), name)
        });
    assert!(shown.starts_with(said), "{shown}");
    assert_eq!(PLACES.map(|at| world.found(at)), before, "a refusal has written");
}

#[test]
fn what_cannot_be_moved_is_left_as_it_is() {
    let (store, other, folder) = (At::Store(0), At::Store(1), At::Folder(0));
    let world = World::new(store);
    check_refused(&world, folder, store, "file:DIR0: there is no record of server-id 1, so nothing to move");
    check_refused(&world, store, store, "--from and --to are the same place: etcd://a/getid");
    // Two records of one server-id.
    let two = "postgres://b/ids: there is a record of server-id 1 already, and two cannot become one";
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
    let moved = "etcd://a/getid: server-id 1: it was moved to file:DIR0, and no server may start with it here. To go on, start \
                 the server with claim-store file and dir DIR0; or";
    check_refused(&world, store, other, moved);
    put(&world.stores[1].memory, &free(1));
    check_refused(&world, other, store, moved);
    let world = World::new(store);
    world.run_until(store, folder, Some(Step::Put)).unwrap_err();
    let moving = "etcd://a/getid: server-id 1: it is being moved to file:DIR0, and no server may start with it here. To go on, \
                  finish the move: run `getid state move --server-id 1 --from etcd://a/getid --to DIR0` once more";
    check_refused(&world, store, other, moving);
    put(&world.stores[1].memory, &free(1));
    check_refused(&world, other, store, moving);

    // Another record was made in the target of an interrupted move.
    let mut lower = free(1);
    lower.record.point.watermark = Tick(5);
    let world = World::new(store);
    world.run_until(store, other, Some(Step::Put)).unwrap_err();
    put(&world.stores[1].memory, &lower);
    let foreign = "postgres://b/ids: there is a record of server-id 1 that does not come from etcd://a/getid: its watermark is \
                   lower.";
    check_refused(&world, store, other, foreign);
}

#[test]
fn a_holder_is_never_moved() {
    let world = World::new(At::Store(1));
    let beats = Beating::of(&world.stores[0].memory, held(1));
    let error = world.run(At::Store(0), At::Folder(0)).unwrap_err();
    assert!(
        error.starts_with("server-id 1 is held by host-a (10.1.0.7:7890, a.example), which has written it"),
        "{error}"
    );
    assert!(world.found(At::Folder(0)).is_none() && got(&world.stores[0].memory, 1).mark.is_none());
    drop(beats);
    // The holder is silent now.
    world.run(At::Store(0), At::Folder(0)).unwrap();

    let world = World::new(At::Folder(0));
    let _server = world.end(At::Folder(0));
    let refused = End::folder(world.dirs[0].path(), 1).err().unwrap();
    assert!(refused.starts_with("server-id 1 is in use: "), "{refused}");
}

#[test]
fn a_fleet_takes_what_goes_with_it() {
    let world = World::new(At::Folder(0));
    let refused = |said: &str| check_refused(&world, At::Folder(0), At::Store(0), said);
    let memory = &world.stores[0].memory;
    let fleet = memory.get(&Key::of_cluster()).unwrap();
    let with = |from: &str, to: &str| {
        let cluster = crate::claim::fleet::ClusterRecord::parse(fleet.text.as_bytes()).unwrap();
        let mut cluster = cluster;
        match from {
            "auto" => cluster.auto = crate::claim::fleet::IdRanges::parse(to).unwrap(),
            "id-range" => cluster.id_range = to.parse().unwrap(),
            _ => cluster.epoch = Epoch::from_unix_ms(to.parse().unwrap()).unwrap(),
        }
        memory.set(Key::of_cluster(), Some(cluster.to_row(fleet.stamp).unwrap()));
    };
    memory.set(Key::of_cluster(), None);
    refused(
        "etcd://a/getid: there is no fleet's record here; if address and prefix are right, `getid cluster init` makes",
    );
    with("auto", "1-3");
    refused("etcd://a/getid: 'server-id auto' may take server-id 1 here (1-3), and what is moved belongs to a server");
    with("id-range", "10");
    refused("etcd://a/getid: this fleet has id-range 10, and the record id-range 2: start the server once with");
    with("epoch", "1420041600001");
    refused("etcd://a/getid: the record does not go with this fleet's epoch: it counts from epoch 1420041600000");
    // An earlier epoch keeps the instants.
    with("epoch", "1420041599000");
    world.run(At::Folder(0), At::Store(0)).unwrap();
    let claim = got(memory, 1);
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
