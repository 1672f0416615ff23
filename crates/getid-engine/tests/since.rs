//! The time before which a generator gave no ID: never later than its first ID, whatever the clock does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use getid_core::{Declaration, Epoch, Layout, Limits, Refusal, SavePoint, Tick, no_dates};
use getid_engine::claim::{Declarations, Identity, NoClaim};
use getid_engine::generators::time::Issuer;
use getid_system::clock::Clock;

/// Start of 2026-01-01 and of 2030-01-01, Unix ms.
const RIGHT_MS: i64 = 1_767_225_600_000;
const WRONG_MS: i64 = 1_893_456_000_000;

/// A clock that stands until a test moves it.
#[derive(Clone)]
struct SetClock(Arc<(AtomicI64, AtomicU64)>);

impl SetClock {
    fn at(wall_unix_ms: i64) -> SetClock {
        SetClock(Arc::new((AtomicI64::new(wall_unix_ms), AtomicU64::new(1_000_000_000))))
    }

    /// Moves the boot clock by `ms`, and sets the wall clock.
    fn set(&self, ms: u64, wall_unix_ms: i64) {
        self.0.1.fetch_add(ms * 1_000_000, SeqCst);
        self.0.0.store(wall_unix_ms, SeqCst);
    }
}

impl Clock for SetClock {
    fn boot_ns(&self) -> u64 {
        self.0.1.load(SeqCst)
    }

    fn wall_unix_us(&self) -> i64 {
        self.0.0.load(SeqCst) * 1000
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
}

fn tweets() -> Arc<Declaration> {
    Arc::new(Declaration::parse(&["tweets", "twitter"], no_dates).expect("a declaration"))
}

/// Returns both generators' times in these declarations.
fn since(declarations: &Declarations) -> [i64; 2] {
    [None, Some("tweets")].map(|name| declarations.since(name).expect("a known time"))
}

#[test]
fn a_clock_that_was_wrong_before_the_first_id_leaves_no_later_time() {
    let (clock, layout) = (SetClock::at(WRONG_MS), Layout::default());
    let identity = Identity { server_id: 0, layout };
    let issuer = Issuer::new(clock.clone(), identity, Limits::default(), None);
    let mut claim = NoClaim::acquired(None);
    issuer.declare(&[tweets()]).expect("declared");
    let first = issuer.due_save().expect("a first save");
    run(issuer.save(&mut claim, first)).expect("saved");
    assert!(since(&claim.declarations).into_iter().all(|since| since > WRONG_MS));

    clock.set(100, RIGHT_MS);
    issuer.sample();
    clock.set(100, RIGHT_MS + 100);
    assert!(issuer.try_draw(1).expect("no refusal").is_none(), "the record has a time after this ID");
    let second = issuer.due_save().expect("a save with the right time");
    run(issuer.save(&mut claim, second)).expect("saved");
    let times = since(&claim.declarations);
    let drawn = issuer.try_draw(1).expect("no refusal").expect("an ID");
    let unix_ms = Tick(drawn.first.0 >> layout.shard_bits()).unix_ms(Epoch::DEFAULT);
    assert!(times.into_iter().all(|since| (RIGHT_MS..unix_ms).contains(&since)), "{times:?}, {unix_ms}");
    assert_eq!(issuer.given_since(Some("tweets")), Ok(Some(times[1])));
}

/// After an ID was composed, no later ID may have its time.
#[test]
fn a_returned_time_is_before_every_later_id() {
    let (clock, layout) = (SetClock::at(RIGHT_MS), Layout::default());
    let issuer = Issuer::new(clock.clone(), Identity { server_id: 0, layout }, Limits::default(), None);
    let mut claim = NoClaim::acquired(None);
    // A later life could begin before this one while the record does not have it.
    assert_eq!(issuer.given_since(None), Err(Refusal::SaveTimeout));
    let first = issuer.due_save().expect("a first save");
    run(issuer.save(&mut claim, first)).expect("saved");
    issuer.declare(&[tweets()]).expect("declared");
    assert_eq!(issuer.given_since(Some("tweets")), Err(Refusal::SaveTimeout));
    let returned = issuer.given_since(None).expect("no refusal").expect("a known time");
    clock.set(100, RIGHT_MS - 86_400_000);
    issuer.sample();
    clock.set(100, RIGHT_MS - 86_399_900);
    assert_eq!(issuer.given_since(None), Ok(Some(returned)), "the clock went back");
    let drawn = issuer.try_draw(1).expect("no refusal").expect("an ID");
    assert!(Tick(drawn.first.0 >> layout.shard_bits()).unix_ms(Epoch::DEFAULT) > returned);
}

#[test]
fn a_record_that_may_lack_ids_makes_times_earlier() {
    let layout = Layout::default();
    let point = |unix_ms: i64| {
        let tick = layout.epoch().tick_at(unix_ms).expect("in range");
        SavePoint { watermark: tick.plus_ms(3000), reference: tick, max_borrow_ms: 3000 }
    };
    // A name that was added to a record of an hour ago has no IDs of before, unless the record is an old copy.
    let known = Declarations::default().with_first_life(RIGHT_MS - 7_200_000);
    let found = known.with(&[tweets()], RIGHT_MS - 3_597_000, |_| 0).expect("declared");
    let identity = Identity { server_id: 0, layout };
    let found_point = Some(point(RIGHT_MS - 3_600_000));
    let issuer =
        Issuer::with_declarations(SetClock::at(RIGHT_MS), identity, Limits::default(), found_point, Arc::new(found));
    assert_eq!(since(&issuer.declarations()), [RIGHT_MS - 7_201_000, RIGHT_MS - 3_601_000]);
    // A record without times keeps none.
    let issuer =
        Issuer::with_declarations(SetClock::at(RIGHT_MS), identity, Limits::default(), found_point, Arc::default());
    assert_eq!(issuer.given_since(None), Ok(None));
}

/// A life that is stopped before its first ID leaves a record with declarations and without IDs.
#[test]
fn a_life_without_ids_leaves_the_times_of_all_generators() {
    let layout = Layout::default();
    let declared = Arc::new(Declarations::default().with(&[tweets()], RIGHT_MS, |_| 0).expect("declared"));
    for found in [None, Some(SavePoint::NOTHING)] {
        let clock = SetClock::at(RIGHT_MS);
        let identity = Identity { server_id: 0, layout };
        let issuer = Issuer::with_declarations(clock, identity, Limits::default(), found, Arc::clone(&declared));
        issuer.declare(&[tweets()]).expect("declared");
        let [unnamed, named] = since(&issuer.declarations());
        assert_eq!(unnamed, named);
        let mut claim = NoClaim::acquired(None);
        run(issuer.save(&mut claim, issuer.due_save().expect("a first save"))).expect("saved");
        assert_eq!(issuer.given_since(Some("tweets")), Ok(Some(named)));
    }
}
