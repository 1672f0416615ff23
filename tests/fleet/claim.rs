//! The claim of a server in a store, step by step, in paused time: which server holds it, which waits, and which
//! operations are refused.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use getid_core::{Declaration, Epoch, Layout, SavePoint, Tick, no_dates};
use getid_engine::claim::cluster::{ClusterClaim, FleetClaimConfig, Hooks};
use getid_engine::claim::fleet::{ClaimRecord, ClusterRecord, FreeClaim, Holding, IdRanges, ReleaseReason};
use getid_engine::claim::status::{ClaimRole, ClaimView};
use getid_engine::claim::{
    AcquiredClaim, Claim, Declarations, Identity, Mark, Owner, Record, RecordLocation, SaveError, Term,
};
use getid_store::records::{Key, RecordRow, Stamp};
use getid_system::clock::Clock as _;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::contract::bad_row;
use crate::faulty::{FaultyStore, PlantedFault, TestClock};

const TIMEOUT_MS: u64 = 2000;

/// A fleet: a store with the cluster's record and the claims 0 to 3. Servers with `server-id auto` use 2 and 3.
struct Fleet {
    store: Arc<FaultyStore>,
    clock: TestClock,
}

impl Fleet {
    fn new() -> Fleet {
        let fleet = Fleet { store: FaultyStore::new(), clock: TestClock::new() };
        fleet.set_cluster(&ClusterRecord::new(Layout::default(), IdRanges::parse("2-3").unwrap()));
        for server_id in 0..2 {
            fleet.set(&ClaimRecord::new(identity(server_id), TIMEOUT_MS, 0));
        }
        fleet
    }

    fn set_cluster(&self, record: &ClusterRecord) {
        let row = record.to_row(Stamp { writer: 1, beat: 1 }).unwrap();
        self.store.memory.set(Key::of_cluster(), Some(row));
    }

    fn set(&self, record: &ClaimRecord) {
        let writer = record.holder().map_or(1, |holder| holder.instance);
        let row = record.to_row(writer).unwrap();
        self.store.memory.set(Key::of_claim(record.record.identity.server_id), Some(row));
    }

    fn record(&self, server_id: u32) -> ClaimRecord {
        ClaimRecord::of_row(&self.store.claim(server_id).unwrap(), server_id).unwrap()
    }

    fn holder(&self, server_id: u32) -> Option<String> {
        self.record(server_id).holder().map(|holder| holder.name.clone())
    }

    fn place(&self, name: &str, dir: &Path, server_id: Option<u32>) -> FleetClaimConfig<TestClock> {
        FleetClaimConfig {
            store: Arc::clone(&self.store) as _,
            shown: "test://store".to_owned(),
            clock: self.clock.clone(),
            dir: dir.to_owned(),
            layout: Layout::default(),
            server_id,
            name: name.to_owned(),
            host: format!("{name}.example"),
            address: String::new(),
            timeout_ms: TIMEOUT_MS,
            takes_any: false,
            max_clock_ahead_ms: 60_000,
            max_clock_jump_ms: 3_600_000,
            generators: Vec::new(),
            counters: Vec::new(),
            view: Arc::default(),
            hooks: Arc::new(OnceLock::new()),
            first_try: Duration::from_secs(3),
        }
    }

    async fn start(&self, name: &str, server_id: impl Into<Option<u32>>) -> Server {
        let dir = TempDir::new().unwrap();
        let place = self.place(name, dir.path(), server_id.into());
        Server::start(place, dir).await.unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    /// Returns the error of a server that does not start.
    async fn refusal(&self, change: impl FnOnce(&mut FleetClaimConfig<TestClock>)) -> String {
        let dir = TempDir::new().unwrap();
        let mut place = self.place("a", dir.path(), Some(0));
        change(&mut place);
        Server::start(place, dir).await.err().expect("a refusal")
    }
}

fn identity(server_id: u32) -> Identity {
    Identity { server_id, layout: Layout::default() }
}

fn declared(words: &str) -> Arc<Declaration> {
    Arc::new(Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).unwrap())
}

/// A server reduced to its claim: the operations of its keeper.
struct Server {
    claim: Option<AcquiredClaim<ClusterClaim<TestClock>>>,
    clock: TestClock,
    view: Arc<ClaimView>,
    hooks: Arc<OnceLock<Hooks>>,
    dir: TempDir,
    /// The save point at which the mint begins.
    found: Option<SavePoint>,
    /// The last save point.
    saved: Option<SavePoint>,
    beats: u64,
}

impl Server {
    async fn start(place: FleetClaimConfig<TestClock>, dir: TempDir) -> Result<Server, String> {
        let (clock, view, hooks) = (place.clock.clone(), Arc::clone(&place.view), Arc::clone(&place.hooks));
        let claim = ClusterClaim::take(place).await.map_err(|error| error.to_string())?;
        assert!(claim.point.is_none() && view.is_standby());
        Ok(Server { claim: Some(claim), clock, view, hooks, dir, found: None, saved: None, beats: 0 })
    }

    fn claim(&mut self) -> &mut AcquiredClaim<ClusterClaim<TestClock>> {
        self.claim.as_mut().expect("it runs")
    }

    /// Returns a save point as a mint would save it now.
    fn point(&mut self) -> SavePoint {
        self.beats += 1;
        let now = self.clock.wall_unix_ms() - i64::try_from(Epoch::DEFAULT.unix_ms()).unwrap();
        let reference = Tick(u64::try_from(now).unwrap() + self.beats);
        let found = self.found.unwrap_or(SavePoint::NOTHING);
        let watermark = Tick(reference.0 + 3000).max(found.watermark);
        SavePoint { watermark, reference, max_borrow_ms: 3000 }
    }

    /// Saves once.
    async fn step(&mut self) -> Result<(), SaveError> {
        let point = self.point();
        let result = self.claim().save(point).await;
        match &result {
            Ok(()) => self.saved = Some(point),
            Err(SaveError::ClaimRetaken { found, .. }) => self.found = *found,
            Err(_) => {}
        }
        result
    }

    /// Saves at the claim's pace for `ms`, and returns the outcome of the last save.
    async fn run_ms(&mut self, ms: u64) -> Result<(), SaveError> {
        let end = self.clock.now_ms() + ms;
        loop {
            let began = self.clock.now_ms();
            let result = self.step().await;
            if self.clock.now_ms() >= end {
                return result;
            }
            if !matches!(result, Err(SaveError::ClaimRetaken { .. })) {
                let pace = self.claim().claim.pace().unwrap();
                let left = (began + u64::try_from(pace.as_millis()).unwrap()).saturating_sub(self.clock.now_ms());
                sleep(Duration::from_millis(left.max(1))).await;
            }
        }
    }

    /// Saves until the server has the claim and has saved once. Returns the time this took, in ms.
    async fn until_holder(&mut self, bound_ms: u64) -> u64 {
        let began = self.clock.now_ms();
        loop {
            match self.step().await {
                Ok(()) => return self.clock.now_ms() - began,
                Err(SaveError::ClaimRetaken { .. }) => {}
                Err(_) => sleep(self.claim().claim.pace().unwrap()).await,
            }
            assert!(self.clock.now_ms() < began + bound_ms, "{:?}", self.view.status());
        }
    }

    async fn fails(&mut self) -> String {
        self.step().await.unwrap_err().to_string()
    }

    fn why(&self) -> String {
        self.view.status().why.clone()
    }

    async fn stop(&mut self) -> Result<(), SaveError> {
        let point = self.saved.unwrap_or(SavePoint::NOTHING);
        self.claim.take().expect("it runs").release(point).await
    }

    /// Ends the server as kill -9 does: its folder stays.
    fn kill(mut self) -> TempDir {
        self.claim = None;
        self.dir
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_claim_is_taken_and_kept() {
    let fleet = Fleet::new();
    let mut a = fleet.start("a", 0).await;
    let retaken = a.step().await.unwrap_err();
    assert!(matches!(retaken, SaveError::ClaimRetaken { found: None, term: Term(1), .. }), "{retaken:?}");
    assert!(a.claim().claim.hold().is_none(), "nothing is saved yet");
    a.step().await.unwrap();
    let record = fleet.record(0);
    assert_eq!((record.record.point, fleet.holder(0).as_deref()), (a.saved.unwrap(), Some("a")));
    let hold = a.claim().claim.hold().unwrap();
    assert_eq!(hold.for_ms, TIMEOUT_MS * 3 / 4);
    let status = a.view.status();
    assert_eq!((status.role, status.server_id, status.takeovers), (ClaimRole::Holder, Some(0), 1));
    assert_eq!(status.last_takeover.as_ref().unwrap().cause, "no server ever held it");
    // The holder writes a beat each quarter of the time-out, and nothing else.
    let writes = fleet.store.writes.load(std::sync::atomic::Ordering::Relaxed);
    a.run_ms(10_000).await.unwrap();
    let beats = fleet.store.writes.load(std::sync::atomic::Ordering::Relaxed) - writes;
    assert!((19..=22).contains(&beats), "{beats}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_a_released_claim_at_once_and_continues_exactly() {
    let fleet = Fleet::new();
    let mut a = fleet.start("host-a", 0).await;
    a.until_holder(1000).await;
    let mut b = fleet.start("host-b", 0).await;
    let error = b.run_ms(500).await.unwrap_err();
    assert!(
        matches!(&error, SaveError::Standby { what } if what == "standby for server-id 0: held by host-a"),
        "{error:?}"
    );
    assert_eq!(
        (b.view.status().role, b.why().as_str()),
        (ClaimRole::Standby, "standby for server-id 0: held by host-a")
    );
    assert_eq!(b.view.status().holder.as_ref().unwrap().name, "host-a");
    a.stop().await.unwrap();
    assert!(matches!(fleet.record(0).holding, Holding::Free(FreeClaim { why: ReleaseReason::Stopped, .. })));
    assert!(b.until_holder(1000).await <= 200);
    assert_eq!(b.found, a.saved);
    assert_eq!(b.view.status().last_takeover.as_ref().unwrap().cause, "released by host-a");
}

/// A standby takes over from a silent holder. Both believe that they have the claim; the fence lets one save.
#[tokio::test(start_paused = true)]
async fn a_holder_that_was_paused_finds_out_and_saves_nothing() {
    let fleet = Fleet::new();
    let mut a = fleet.start("host-a", 0).await;
    a.until_holder(1000).await;
    let mut b = fleet.start("host-b", 0).await;
    let took_ms = b.until_holder(5000).await;
    assert!((TIMEOUT_MS..TIMEOUT_MS + 500).contains(&took_ms), "{took_ms}");
    assert_eq!(b.found, a.saved);
    let cause = b.view.status().last_takeover.as_ref().unwrap().cause.clone();
    assert!(cause.starts_with("its holder host-a was silent for 2.0 s"), "{cause}");
    let error = a.step().await.unwrap_err();
    assert!(matches!(&error, SaveError::Standby { what } if what.contains("host-b has taken it over")), "{error}");
    assert_eq!((fleet.holder(0).as_deref(), a.view.status().losses), (Some("host-b"), 1));
    b.step().await.unwrap();
    assert!(a.fails().await.starts_with("standby for server-id 0: held by host-b"));
    // The first server takes the claim back.
    b.stop().await.unwrap();
    a.until_holder(1000).await;
    assert_eq!(a.found, b.saved);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_settled_by_reading() {
    for fails in [PlantedFault::LosesReplies, PlantedFault::LosesRequests] {
        let fleet = Fleet::new();
        let mut a = fleet.start("a", 0).await;
        // The write that takes the claim loses its reply; the read before it is answered.
        let _ = a.claim().claim.pace();
        fleet.store.fail_times(fails, 2);
        a.until_holder(2000).await;
        for _ in 0..5 {
            fleet.store.fail_times(fails, 1);
            let failed = a.step().await.unwrap_err();
            assert!(
                matches!(&failed, SaveError::Store { text } if text.contains("claim store test://store")),
                "{failed:?}"
            );
            a.step().await.unwrap();
            assert_eq!(fleet.record(0).record.point, a.saved.unwrap(), "{fails:?}");
        }
    }
}

/// A take whose reply was lost still counts. The server learns of it with its next save.
#[tokio::test(start_paused = true)]
async fn a_dropped_save_is_reported_by_the_next_one() {
    let fleet = Fleet::new();
    let mut a = fleet.start("a", 0).await;
    fleet.store.fail(PlantedFault::Hangs);
    let point = a.point();
    let claim = &mut a.claim().claim;
    let given_up = tokio::time::timeout(Duration::from_millis(5), claim.save(point, Arc::default(), Term(0))).await;
    assert!(given_up.is_err());
    fleet.store.fail(PlantedFault::Not);
    let retaken = a.claim().claim.save(point, Arc::default(), Term(0)).await;
    assert!(matches!(retaken, Err(SaveError::ClaimRetaken { term: Term(1), .. })), "{retaken:?}");
    // Nothing is ever saved for the old term.
    for _ in 0..3 {
        let again = a.claim().claim.save(point, Arc::default(), Term(0)).await;
        assert!(matches!(again, Err(SaveError::ClaimRetaken { term: Term(1), .. })), "{again:?}");
    }
    a.claim().claim.save(point, Arc::default(), Term(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_and_back() {
    for fails in [PlantedFault::Away, PlantedFault::Hangs, PlantedFault::LosesRequests, PlantedFault::Refuses] {
        let fleet = Fleet::new();
        let mut a = fleet.start("host-a", 0).await;
        a.until_holder(1000).await;
        let mut b = fleet.start("host-b", 0).await;
        let _ = b.run_ms(200).await;
        fleet.store.fail(fails);
        let failed = a.run_ms(10_000).await.unwrap_err();
        assert!(matches!(failed, SaveError::Store { .. }), "{failed:?}");
        assert_eq!((a.view.status().role, a.view.status().ride_through_ms), (ClaimRole::Holder, 0));
        let waits = b.run_ms(10_000).await.unwrap_err().to_string();
        assert!(
            waits.starts_with("standby for server-id 0: waiting for the claim store: claim store test://store: "),
            "{waits}"
        );
        fleet.store.fail(PlantedFault::Not);
        // Time without a readable store does not count as silence.
        let _ = b.run_ms(500).await;
        a.run_ms(300).await.unwrap();
        assert_eq!((fleet.holder(0).as_deref(), a.view.status().losses), (Some("host-a"), 0), "{fails:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_a_start_without_the_store_it_is_waited_for() {
    let fleet = Fleet::new();
    fleet.store.fail(PlantedFault::Away);
    let mut a = fleet.start("a", 0).await;
    assert_eq!(fleet.clock.now_ms() / 1000, 3, "a start waits for three seconds");
    let waits = a.fails().await;
    assert_eq!(
        waits,
        "standby for server-id 0: waiting for the claim store: claim store test://store: connection refused"
    );
    fleet.store.fail(PlantedFault::Not);
    a.until_holder(1000).await;
}

/// Records that a start may find, and the refusals.
#[tokio::test(start_paused = true)]
async fn refused_starts() {
    let fleet = Fleet::new();
    let check = |refusal: String, message: &str| assert!(refusal.contains(message), "{refusal}\nwithout: {message}");
    check(
        fleet.refusal(|place| place.server_id = Some(3)).await,
        "run `getid cluster init --store test://store --new 3`",
    );
    let layout = |epoch, bits| Layout::new(Epoch::from_unix_ms(epoch).unwrap(), bits, 21 - bits, 0).unwrap();
    let epoch = Epoch::DEFAULT.unix_ms();
    check(fleet.refusal(|place| place.layout = layout(epoch - 1, 2)).await, "id-epoch is 1420041599999");
    check(fleet.refusal(|place| place.layout = layout(epoch, 3)).await, "id-range is 3, and this fleet's is 2");
    let _a = {
        let dir = TempDir::new().unwrap();
        let mut place = fleet.place("a", dir.path(), Some(1));
        place.generators = vec![declared("t twitter datacenter 1 worker 1")];
        let mut a = Server::start(place, dir).await.unwrap();
        let mut declarations = Declarations::default();
        declarations = declarations.with(&[declared("t twitter datacenter 1 worker 1")], 0, |_| 0).unwrap();
        a.claim().declarations = Arc::new(declarations);
        a.until_holder(1000).await;
        a
    };
    check(
        fleet.refusal(|place| place.generators = vec![declared("t js53")]).await,
        "generator 't' is declared here as 'js53",
    );
    let same = |place: &mut FleetClaimConfig<_>| place.generators = vec![declared("t twitter datacenter 1 worker 1")];
    check(
        fleet.refusal(same).await,
        "generator t has the same worker fields, given by hand, as on server-id 1 \
                                      (instance-name a)",
    );
    fleet.store.fail(PlantedFault::Refuses);
    check(fleet.refusal(|_| ()).await, "claim store test://store: password authentication failed; set the right one");
    fleet.store.fail(PlantedFault::Not);

    let good = fleet.store.claim(0).unwrap();
    for (from, to, message) in [
        (
            "state 4",
            "state 5",
            "it is of format version 5, this getid reads version 4; to continue, start the getid that wrote it",
        ),
        ("beat 1", "beat 2", "its checksum is"),
    ] {
        let mut text = good.text.replace(from, to);
        if to == "state 5" {
            let body = text[..text.find("checksum").unwrap()].to_owned();
            text = format!("{body}checksum crc32 {:08x}\n", crc32fast::hash(body.as_bytes()));
        }
        fleet.store.memory.set(Key::of_claim(0), Some(RecordRow { text, ..good.clone() }));
        check(fleet.refusal(|_| ()).await, message);
    }
    let mark = Some(Mark::MovedTo(RecordLocation::of_store("etcd://b/p")));
    fleet.set(&ClaimRecord { mark, ..ClaimRecord::new(identity(0), TIMEOUT_MS, 0) });
    check(fleet.refusal(|_| ()).await, "start the server with claim-store etcd://b/p");
    fleet.store.memory.set(Key::of_cluster(), None);
    check(fleet.refusal(|_| ()).await, "has no record 'cluster'");
}

#[tokio::test(start_paused = true)]
async fn folders() {
    let fleet = Fleet::new();
    let dir = TempDir::new().unwrap();
    let point = SavePoint { watermark: Tick(10), reference: Tick(5), max_borrow_ms: 3000 };
    let record = Record { identity: identity(0), point, declarations: Arc::default(), owner: Owner::default() };
    std::fs::write(dir.path().join("getid-0.state"), record.to_text()).unwrap();
    let refused = ClusterClaim::take(fleet.place("a", dir.path(), Some(0))).await.err().unwrap().to_string();
    assert!(refused.contains("getid state move --server-id 0 --from"), "{refused}");
    let _first = ClusterClaim::take(fleet.place("a", dir.path(), Some(1))).await.unwrap();
    let refused = ClusterClaim::take(fleet.place("a", dir.path(), Some(1))).await.err().unwrap().to_string();
    assert!(refused.contains("is locked by pid"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_the_same_folder_takes_its_record_at_once() {
    let fleet = Fleet::new();
    let mut a = fleet.start("a", 0).await;
    a.until_holder(1000).await;
    let (saved, dir) = (a.saved, a.kill());
    let mut again = Server::start(fleet.place("a", dir.path(), Some(0)), dir).await.unwrap();
    assert!(again.until_holder(1000).await < 50);
    assert_eq!(again.found, saved);
    assert_eq!(again.view.status().last_takeover.as_ref().unwrap().cause, "a ran in this folder and is gone");
    let _folder = again.kill();
    let mut other = fleet.start("a", 0).await;
    assert!(other.until_holder(5000).await >= TIMEOUT_MS, "another folder waits for silence");
}

/// A store loses its last writes. Within its hold the holder restores its record; afterwards, no server continues.
#[tokio::test(start_paused = true)]
async fn a_store_that_went_back() {
    let fleet = Fleet::new();
    let mut a = fleet.start("a", 0).await;
    a.until_holder(1000).await;
    let older = fleet.store.claim(0).unwrap();
    a.run_ms(1600).await.unwrap();
    fleet.store.memory.set(Key::of_claim(0), Some(older.clone()));
    a.step().await.unwrap();
    assert!(fleet.record(0).beat > older.stamp.beat + 3);
    // After the hold another server may have held the claim.
    fleet.store.fail(PlantedFault::Away);
    let _ = a.run_ms(3000).await;
    fleet.store.memory.set(Key::of_claim(0), Some(older));
    fleet.store.fail(PlantedFault::Not);
    let _ = a.step().await;
    let lost = a.run_ms(5000).await.unwrap_err();
    assert!(
        matches!(&lost, SaveError::ClaimLost { what } if what.starts_with("claim store went back: test://store has beat")),
        "{lost:?}"
    );
    // A restarted server detects the loss by its notes, which are written with each save.
    tokio::time::resume();
    let SaveError::ClaimLost { what } = &lost else { unreachable!() };
    let noted = what.split("has seen beat ").nth(1).unwrap().split(';').next().unwrap();
    let notes = a.dir.path().join("claims.notes");
    while !std::fs::read_to_string(&notes).is_ok_and(|text| text.contains(&format!("claim 0 beat {noted} "))) {
        let _ = a.step().await;
        sleep(Duration::from_millis(5)).await;
    }
    let dir = a.kill();
    let mut again = Server::start(fleet.place("a", dir.path(), Some(0)), dir).await.unwrap();
    assert!(again.fails().await.starts_with("claim lost: claim store went back"), "{}", again.why());
    // An operator's advance is above all notes.
    let mut advanced = fleet.record(0);
    advanced.holding =
        Holding::Free(FreeClaim { why: ReleaseReason::Advanced, by: "operator".to_owned(), since_unix_ms: 0 });
    advanced.beat += 1 << 32;
    fleet.set(&advanced);
    again.until_holder(1000).await;
}

/// A standby whose clock is 50 minutes ahead would move the IDs ahead by that time, for hours.
#[tokio::test(start_paused = true)]
async fn a_clock_ahead_is_reported_and_takes_nothing_over() {
    let fleet = Fleet::new();
    let mut a = fleet.start("host-a", 0).await;
    a.until_holder(1000).await;
    assert_eq!(a.view.status().clock_gap_ms, None, "a holder's clock is the record's");
    let mut standbys = Vec::new();
    for off_ms in [3_000_000, 30_000] {
        let (dir, clock) = (TempDir::new().unwrap(), TestClock::new());
        clock.set_wall_off_ms(off_ms + i64::try_from(fleet.clock.now_ms()).unwrap());
        let place = FleetClaimConfig { clock, ..fleet.place("ahead", dir.path(), Some(0)) };
        standbys.push((Server::start(place, dir).await.unwrap(), off_ms));
    }
    for _ in 0..5 {
        for (standby, _) in &mut standbys {
            let _ = standby.run_ms(1).await;
        }
        a.run_ms(300).await.unwrap();
    }
    for (standby, off_ms) in &standbys {
        let gap_ms = standby.view.status().clock_gap_ms.expect("a gap");
        assert!((gap_ms - off_ms).abs() < 2000, "{gap_ms} of {off_ms}");
    }
    let (mut near, _) = standbys.pop().unwrap();
    let (mut far, _) = standbys.pop().unwrap();
    // The standby reports it before a takeover.
    let held = "standby for server-id 0: held by host-a";
    let (of_near, of_far) = (near.view.status(), far.view.status());
    assert_eq!((of_near.why.as_str(), &of_near.not_eligible), (held, &None));
    let why = of_far.not_eligible.as_deref().expect("a reason");
    assert!(
        of_far.why == held && why.contains("ahead of the record's time, more than claim-max-clock-ahead-ms"),
        "{why}"
    );
    let _folder = a.kill();
    let waits = far.run_ms(10_000).await.unwrap_err().to_string();
    let expected = "s ahead of the record's time, more than claim-max-clock-ahead-ms: set the clock";
    assert!(waits.contains(expected), "{waits}");
    assert!(far.view.status().not_eligible.is_some() && fleet.holder(0).as_deref() == Some("host-a"));
    near.until_holder(5000).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_far_off_takes_nothing_over() {
    let fleet = Fleet::new();
    let mut a = fleet.start("host-a", 0).await;
    a.until_holder(1000).await;
    let mut off = fleet.start("off", 0).await;
    let clock = TestClock::new();
    clock.set_wall_off_ms(-4_000_000);
    let dir = TempDir::new().unwrap();
    let mut place = fleet.place("off", dir.path(), Some(0));
    place.clock = clock;
    let mut b = Server::start(place, dir).await.unwrap();
    let _ = b.run_ms(300).await;
    a.step().await.unwrap();
    let _folder = a.kill();
    let _ = off.run_ms(100).await;
    let waits = b.run_ms(6000).await.unwrap_err().to_string();
    assert!(
        waits.starts_with("standby for server-id 0: not eligible: this machine's clock is")
            && waits.contains("claim-takeover any"),
        "{waits}"
    );
    assert!(b.view.status().not_eligible.is_some());
    off.until_holder(5000).await;
    // A holder whose clock becomes absurd releases the claim.
    off.claim().claim.step_down("standby: the clock is absurd").await;
    assert!(matches!(fleet.record(0).holding, Holding::Free(FreeClaim { why: ReleaseReason::Clock, .. })));
    assert!(off.view.is_standby() && off.view.status().why == "standby: the clock is absurd");
    off.claim().claim.step_down("standby: the clock is absurd").await;
    assert_eq!(fleet.holder(0), None, "the server does not take the claim back while its clock is absurd");
    off.until_holder(5000).await;
}

/// A reply has "not eligible" with the reason in INFO, and only if INFO has a reason.
#[tokio::test(start_paused = true)]
async fn a_standby_replies_as_info_reports() {
    let fleet = Fleet::new();
    let mut servers = [fleet.start("host-a", None).await, fleet.start("host-b", None).await];
    for server in &mut servers {
        server.until_holder(2000).await;
    }
    let [mut a, mut b] = servers;
    let far = |name, server_id| {
        let (dir, clock) = (TempDir::new().unwrap(), TestClock::new());
        clock.set_wall_off_ms(-7_200_000);
        let place = fleet.place(name, dir.path(), server_id);
        Server::start(FleetClaimConfig { clock, ..place }, dir)
    };
    let own_id = a.view.status().server_id;
    let mut standbys = [far("spare", None).await.unwrap(), far("standby", own_id).await.unwrap()];
    let mut seen = 0;
    let mut step = async |standbys: &mut [Server]| {
        for standby in standbys {
            let reply = standby.fails().await;
            let status = standby.view.status();
            assert_eq!(reply, status.why);
            let message = reply.split_once("not eligible: ").map(|(_, why)| why);
            assert!(message.is_none_or(|why| status.not_eligible.as_deref() == Some(why)), "{status:?}");
            seen += usize::from(message.is_some());
        }
    };
    for _ in 0..10 {
        step(&mut standbys).await;
        a.run_ms(100).await.unwrap();
        b.run_ms(100).await.unwrap();
    }
    a.stop().await.unwrap();
    for _ in 0..30 {
        step(&mut standbys).await;
        b.run_ms(200).await.unwrap();
    }
    assert!(seen >= 50, "{seen} of 60");
    assert!(standbys.iter().all(|standby| standby.view.status().not_eligible.is_some()));
}

/// `getid claim take`: the previous holder waits for other servers first.
#[tokio::test(start_paused = true)]
async fn an_operator_takes_it() {
    let fleet = Fleet::new();
    let mut a = fleet.start("host-a", 0).await;
    a.until_holder(1000).await;
    let mut b = fleet.start("host-b", 0).await;
    let _ = b.run_ms(200).await;
    let mut freed = fleet.record(0);
    freed.holding =
        Holding::Free(FreeClaim { why: ReleaseReason::Operator, by: "host-a".to_owned(), since_unix_ms: 0 });
    freed.beat += 1;
    fleet.set(&freed);
    let error = a.fails().await;
    assert!(error.contains("an operator took it from this server"), "{error}");
    let _ = a.run_ms(500).await;
    assert_eq!(fleet.holder(0), None);
    b.until_holder(1000).await;
    assert_eq!(b.view.status().last_takeover.as_ref().unwrap().cause, "an operator took it from host-a");
}

#[tokio::test(start_paused = true)]
async fn auto_gives_each_server_an_id_of_its_own() {
    let fleet = Fleet::new();
    let ids = Arc::new(Mutex::new(Vec::new()));
    let start = async |name: &'static str| {
        let server = fleet.start(name, None).await;
        let ids = Arc::clone(&ids);
        let hooks = Hooks {
            set_server_id: Box::new(move |id| {
                ids.lock().unwrap().push((name, id));
                Ok(())
            }),
            end_server: Box::new(|why| panic!("{why}")),
        };
        assert!(server.hooks.set(hooks).is_ok());
        server
    };
    let (mut a, mut b, mut c) = (start("a").await, start("b").await, start("c").await);
    assert_eq!(a.view.status().server_id, None);
    a.until_holder(2000).await;
    b.until_holder(2000).await;
    let mut given: Vec<_> = ids.lock().unwrap().iter().map(|(_, id)| *id).collect();
    given.sort_unstable();
    assert_eq!(given, [2, 3]);
    assert_eq!((a.view.status().server_id.is_some(), a.view.status().role), (true, ClaimRole::Holder));
    a.run_ms(1).await.unwrap();
    let waits = c.fails().await;
    assert_eq!(
        waits,
        "standby without a server-id: all 2 server-ids of auto are held; this server takes the first that is released"
    );
    // A standby takes a released server-id at its next read.
    let freed = a.view.status().server_id.unwrap();
    a.stop().await.unwrap();
    b.run_ms(1).await.unwrap();
    c.until_holder(1000).await;
    assert_eq!((c.view.status().server_id, c.found), (Some(freed), a.saved));
    // A server takes its own server-id at once after a kill, before others.
    let own = b.view.status().server_id;
    let dir = b.kill();
    let mut again = Server::start(fleet.place("b", dir.path(), None), dir).await.unwrap();
    assert!(again.until_holder(3000).await < 1000);
    assert_eq!(again.view.status().server_id, own);
}

/// One of the two server-ids of auto has an invalid row, so the position of its IDs is unknown.
#[tokio::test(start_paused = true)]
async fn auto_leaves_a_row_out_that_is_no_record() {
    for key in ["claim/3", "claim/3 ", "claim/03"] {
        let fleet = Fleet::new();
        fleet.store.memory.set_bad(Key::of_claim(3), bad_row(key, Vec::new()));
        let mut a = fleet.start("a", None).await;
        assert!(
            a.hooks
                .set(Hooks { set_server_id: Box::new(|_| Ok(())), end_server: Box::new(|why| panic!("{why}")) })
                .is_ok()
        );
        a.until_holder(2000).await;
        assert_eq!(a.view.status().server_id, Some(2), "{key}");
        let mut b = fleet.start("b", None).await;
        for _ in 0..100 {
            let waits = b.fails().await;
            assert!(waits.starts_with("standby without a server-id: all 2 server-ids of auto are held"), "{waits}");
            a.run_ms(1).await.unwrap();
        }
    }
    // The refusal of a server that names this server-id has the remedy.
    let fleet = Fleet::new();
    fleet.store.memory.set_bad(Key::of_claim(0), bad_row("claim/0", Vec::new()));
    let refused = fleet.refusal(|_| {}).await;
    let expected = "cannot use the record claim/0 of test://store: the row 'claim/0' has the beat 0, which must be 1 at \
                    least; to continue, run `getid state advance --store test://store --server-id 0 --past-id ID`";
    assert!(refused.contains(expected), "{refused}");
    // A holder whose row was edited gives no more IDs, and its error has the same remedy.
    let mut holder = fleet.start("c", 1).await;
    holder.until_holder(2000).await;
    fleet.store.memory.set_bad(Key::of_claim(1), bad_row("claim/1", Vec::new()));
    let lost = holder.fails().await;
    assert!(lost.contains("--server-id 1 --past-id ID"), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn an_auto_server_whose_id_is_taken_permanently_ends() {
    let fleet = Fleet::new();
    let mut a = fleet.start("a", None).await;
    let ended = Arc::new(Mutex::new(String::new()));
    let end_reason = Arc::clone(&ended);
    let hooks = Hooks {
        set_server_id: Box::new(|_| Ok(())),
        end_server: Box::new(move |why| *end_reason.lock().unwrap() = why),
    };
    assert!(a.hooks.set(hooks).is_ok());
    a.until_holder(2000).await;
    let id = a.view.status().server_id.unwrap();
    let mut b = fleet.start("b", id).await;
    b.until_holder(5000).await;
    for _ in 0..30 {
        b.run_ms(1).await.unwrap();
        let _ = a.run_ms(300).await;
    }
    let ended = ended.lock().unwrap().clone();
    assert_eq!(
        ended,
        format!(
            "another server has taken server-id {id} (server-id auto) over permanently; a restart takes another one"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn generators_are_added_to_the_cluster_and_the_record() {
    let fleet = Fleet::new();
    let dir = TempDir::new().unwrap();
    let mut place = fleet.place("a", dir.path(), Some(0));
    place.generators = vec![declared("doc objectid")];
    let mut a = Server::start(place, dir).await.unwrap();
    let declarations = Declarations::default().with(&[declared("doc objectid")], 0, |_| 7).unwrap();
    a.claim().declarations = Arc::new(declarations.clone());
    a.until_holder(1000).await;
    assert_eq!(*fleet.record(0).record.declarations, declarations);
    let cluster = || ClusterRecord::parse(fleet.store.memory.get(&Key::of_cluster()).unwrap().text.as_bytes()).unwrap();
    assert!(cluster().declarations().find("doc").is_some());
    // A generator that a reload adds.
    let more = declarations.with(&[declared("new js53")], 0, |_| 7).unwrap();
    a.claim().declarations = Arc::new(more.clone());
    a.step().await.unwrap();
    assert!(cluster().declarations().find("new").is_some());
    // A generator that the fleet declares differently.
    let other = cluster().joined_by(Layout::default(), &[declared("x uuid7")], &[]).unwrap().unwrap();
    fleet.set_cluster(&other);
    let more = more.with(&[declared("x js53")], 0, |_| 7).unwrap();
    a.claim().declarations = Arc::new(more);
    let refused = a.fails().await;
    assert!(refused.contains("generator 'x' is declared here as 'js53"), "{refused}");
}
