//! The rules of claims, each separately, on one or two servers and an obedient store.

use getid_core::server::checks::{Fault, plant};
use getid_core::server::claim::{
    Candidate, ClaimEvent, ClaimLoss, ClaimOptions, ClaimRequest, ClaimSnapshot, Claimant, Clocks, IdChoice,
    ReadAnswer, RecordWrite, Stamp, StandbyReason, StoreAction, TakeCause, Watch, WriteAnswer, WritePurpose, choose,
    own_name_in_use,
};
use getid_core::{Epoch, SavePoint, Tick};
use proptest::prelude::*;

/// `claim-timeout-ms` of all servers, the default.
const TIMEOUT_MS: u64 = 2000;
/// Interval between the reads of a standby, ms.
const POLL_MS: u64 = 100;

/// Returns all three clocks at `ms` after a common start.
fn at(ms: u64) -> Clocks {
    Clocks { boot_ns: 1_000_000 * (1000 + ms), raw_ns: 1_000_000 * (1000 + ms), wall_ms: wall(ms) }
}

fn wall(ms: u64) -> i64 {
    epoch().unix_ms().cast_signed() + 5_000_000 + ms.cast_signed()
}

fn epoch() -> Epoch {
    Epoch::DEFAULT
}

fn point(watermark: u64) -> SavePoint {
    SavePoint { watermark: Tick(watermark), reference: Tick(5_000_000), max_borrow_ms: 3000 }
}

fn options() -> ClaimOptions {
    ClaimOptions {
        timeout_ms: TIMEOUT_MS,
        max_ahead_ms: 60_000,
        max_behind_ms: 3_600_000,
        takes_any: false,
        creates: false,
        epoch: epoch(),
    }
}

fn claimant(me: u128) -> Claimant {
    Claimant::new(me, options(), 0, None)
}

/// Returns a record of process `writer`, which has the claim.
fn held(writer: u128, beat: u64) -> ClaimSnapshot {
    ClaimSnapshot {
        stamp: Stamp { writer, beat },
        holder: Some(writer),
        timeout_ms: TIMEOUT_MS,
        point: point(5_003_000),
        is_this_folder: false,
        is_moved: false,
    }
}

fn released(writer: u128, beat: u64) -> ClaimSnapshot {
    ClaimSnapshot { holder: None, ..held(writer, beat) }
}

fn save(machine: &Claimant) -> ClaimRequest {
    ClaimRequest::Save { point: point(6_000_000), term: machine.term() }
}

/// A simulated store with one record, which answers at once.
#[derive(Clone, Copy)]
struct Store(Option<ClaimSnapshot>);

impl Store {
    fn does(&mut self, write: RecordWrite) -> WriteAnswer {
        if self.0.map(|seen| seen.stamp) != write.expect {
            return WriteAnswer::Conflict(self.0);
        }
        self.0 = Some(ClaimSnapshot { is_this_folder: false, ..write.leaves() });
        WriteAnswer::Done
    }

    /// Executes the next action of a server, and returns the event; `None`: there was nothing to do.
    fn serves(&mut self, machine: &mut Claimant, now: Clocks, ask: ClaimRequest) -> Option<ClaimEvent> {
        match machine.next_action(ask) {
            StoreAction::Nothing => None,
            StoreAction::Read => Some(machine.read(now, now, self.0.map_or(ReadAnswer::Missing, ReadAnswer::Record))),
            StoreAction::Write(write) => {
                let answer = self.does(write);
                Some(machine.wrote(now, now, answer))
            }
        }
    }

    fn saves(&mut self, machine: &mut Claimant, now: Clocks) -> Option<ClaimEvent> {
        let ask = save(machine);
        self.serves(machine, now, ask)
    }

    /// Executes actions until none is left, and returns the last event.
    fn works_off(&mut self, machine: &mut Claimant, now: Clocks) -> ClaimEvent {
        for _ in 0..8 {
            let event = self.serves(machine, now, save(machine)).expect("a server always has something to do");
            if !matches!(event, ClaimEvent::Again | ClaimEvent::WritesItselfIn { .. }) {
                return event;
            }
        }
        panic!("it goes round in circles: {machine:?}");
    }
}

/// Returns process `me` with the claim since `ms` and its first save done, and the store.
fn holder(me: u128, ms: u64) -> (Claimant, Store) {
    let (mut machine, mut store) = (claimant(me), Store(Some(released(99, 1))));
    let event = store.works_off(&mut machine, at(ms));
    assert!(matches!(event, ClaimEvent::Taken { cause: TakeCause::Free, .. }), "{event:?}");
    let event = store.works_off(&mut machine, at(ms));
    assert!(matches!(event, ClaimEvent::Saved { .. }), "{event:?}");
    (machine, store)
}

fn action_of_save(machine: &mut Claimant) -> StoreAction {
    let ask = save(machine);
    machine.next_action(ask)
}

fn write_saving(machine: &mut Claimant) -> RecordWrite {
    let ask = save(machine);
    write_of(machine, ask)
}

/// Returns the next write of a machine.
fn write_of(machine: &mut Claimant, ask: ClaimRequest) -> RecordWrite {
    match machine.next_action(ask) {
        StoreAction::Write(write) => write,
        other => panic!("a write was expected, not {other:?}"),
    }
}

// Rule 1: the watermark is the fence.

#[test]
fn a_save_counts_only_over_the_stamp_that_this_server_wrote_last() {
    let (mut machine, mut store) = holder(1, 0);
    let mine = store.0.unwrap().stamp;
    let write = write_saving(&mut machine);
    assert_eq!((write.expect, write.new.writer, write.act), (Some(mine), 1, WritePurpose::Save));
    store.0 = Some(held(2, mine.beat + 1));
    let event = machine.wrote(at(500), at(500), store.does(write));
    assert_eq!(event, ClaimEvent::Lost(ClaimLoss::TakenBy(2)));
    assert_eq!((machine.hold(), machine.is_holder()), (None, false));
}

#[test]
fn nothing_is_saved_for_a_mint_with_an_older_term() {
    let (mut machine, mut store) = (claimant(1), Store(Some(released(99, 1))));
    let old = save(&machine);
    while !machine.is_holder() {
        store.serves(&mut machine, at(0), old);
    }
    assert_eq!((machine.term(), machine.found()), (1, Some(point(5_003_000))));
    assert_eq!(machine.next_action(old), StoreAction::Nothing);
    // It gives up with the point that it found: the mint has given nothing since.
    let write = write_of(&mut machine, ClaimRequest::Release { point: point(9_000_000), term: 0 });
    assert_eq!((write.point, write.act), (point(5_003_000), WritePurpose::Release));
}

#[test]
fn what_was_found_is_not_changed_by_taking_it() {
    let (mut machine, mut store) = (claimant(1), Store(Some(released(99, 7))));
    assert_eq!(store.saves(&mut machine, at(0)), Some(ClaimEvent::Again));
    let write = write_saving(&mut machine);
    assert_eq!(
        (write.point, write.expect, write.new),
        (point(5_003_000), Some(Stamp { writer: 99, beat: 7 }), Stamp { writer: 1, beat: 8 })
    );
    let event = machine.wrote(at(0), at(0), store.does(write));
    assert_eq!(event, ClaimEvent::Taken { found: Some(point(5_003_000)), cause: TakeCause::Free });
    assert_eq!(machine.hold(), None, "no IDs before a save");
}

/// A save with an unknown outcome, after which the same machine continues: each write has its own stamp.
#[test]
fn an_unknown_save_is_settled_by_reading() {
    let (mut machine, mut store) = holder(1, 0);
    // The write was done: its hold counts from its sending.
    let write = write_saving(&mut machine);
    store.does(write);
    assert_eq!(machine.wrote(at(500), at(900), WriteAnswer::Unknown), ClaimEvent::Away);
    match store.saves(&mut machine, at(1000)) {
        Some(ClaimEvent::Saved { point, hold }) => assert_eq!((point, hold.sent), (write.point, at(500))),
        other => panic!("{other:?}"),
    }
    // The write was not done at first, but is done late, between the sending and the arrival of the next one.
    let late = write_saving(&mut machine);
    machine.wrote(at(1100), at(1200), WriteAnswer::Unknown);
    assert_eq!(store.saves(&mut machine, at(1300)), Some(ClaimEvent::Again));
    let next = write_saving(&mut machine);
    assert!(next.new.beat > late.new.beat, "no two writes have the same stamp");
    assert_eq!(store.does(late), WriteAnswer::Done);
    let answer = store.does(next);
    assert_eq!(machine.wrote(at(1300), at(1300), answer), ClaimEvent::Again);
    let event = store.works_off(&mut machine, at(1300));
    assert!(matches!(event, ClaimEvent::Saved { .. }), "{event:?}");
}

#[test]
fn a_write_that_conflicts_with_itself_was_done() {
    let (mut machine, mut store) = holder(1, 0);
    let write = write_saving(&mut machine);
    store.does(write);
    let event = machine.wrote(at(500), at(700), store.does(write));
    assert!(matches!(event, ClaimEvent::Saved { hold, .. } if hold.sent == at(500)), "{event:?}");
}

// Rule 2: silence is for order and for liveness.

#[test]
fn a_hold_lasts_three_quarters_of_the_time_out_from_the_sending() {
    let (mut machine, mut store) = holder(1, 0);
    let write = write_saving(&mut machine);
    assert_eq!(write.timeout_ms, TIMEOUT_MS);
    store.does(write);
    machine.wrote(at(500), at(1400), WriteAnswer::Done);
    let hold = machine.hold().expect("a hold");
    assert!(!hold.is_over(at(1999)));
    assert!(hold.is_over(at(2000)));
    assert_eq!(machine.pace_ms(), 500);
}

#[test]
fn a_store_that_fails_does_not_move_a_hold() {
    let (mut machine, _) = holder(1, 0);
    let hold = machine.hold();
    assert!(matches!(action_of_save(&mut machine), StoreAction::Write(_)));
    assert_eq!(machine.wrote(at(500), at(600), WriteAnswer::NotDone), ClaimEvent::Away);
    assert!(matches!(action_of_save(&mut machine), StoreAction::Write(_)));
    assert_eq!(machine.wrote(at(700), at(800), WriteAnswer::Unknown), ClaimEvent::Away);
    assert_eq!(action_of_save(&mut machine), StoreAction::Read);
    assert_eq!(machine.read(at(900), at(950), ReadAnswer::Failed), ClaimEvent::Away);
    assert_eq!((machine.hold(), machine.is_holder()), (hold, true));
}

/// Returns when a standby whose clocks run at `standby` percent takes over from a holder, in real ms. The holder's last
/// beat was sent at `sent`, done `until_done` ms later, and first shown `until_seen` ms after that.
fn taken_over_at(standby: u64, sent: u64, until_done: u64, until_seen: u64) -> u64 {
    let by = |ms: u64| at(ms * standby / 100);
    let (mut machine, mut store) = (claimant(2), Store(Some(held(1, 6))));
    let done = sent + until_done;
    for ms in (0..20_000).step_by(50) {
        if ms >= done + until_seen {
            store.0 = Some(held(1, 7));
        }
        if let ClaimEvent::Taken { .. } = store.works_off(&mut machine, by(ms)) {
            return ms;
        }
    }
    panic!("no server took over");
}

proptest! {
    /// If the clocks' rates differ by less than a quarter, the holder has stopped before a standby can have taken over.
    #[test]
    fn a_holder_stops_before_a_standby_takes_over(
        holder_rate in 100..125_u64, standby_rate in 100..125_u64, reply in 0..900_u64, seen in 0..300_u64,
    ) {
        stops_before(holder_rate, standby_rate, reply, seen)?;
    }

    /// Whatever answers arrive, and whenever, a machine never panics, and never overwrites a stamp that it has not read
    /// or written.
    #[test]
    fn any_answers_are_borne(seed in any::<u64>()) {
        bears(seed)?;
    }
}

fn stops_before(holder_rate: u64, standby_rate: u64, reply: u64, seen: u64) -> Result<(), TestCaseError> {
    let (mut machine, mut store) = holder(1, 0);
    let write = write_saving(&mut machine);
    store.does(write);
    let sent = 200;
    // The holder's readings, by clocks slower than the standby's.
    let own = |ms: u64| at(ms * holder_rate / 100);
    machine.wrote(own(sent), own(sent + reply), WriteAnswer::Done);
    let hold = machine.hold().expect("a hold");
    let taken = taken_over_at(standby_rate, sent, reply.min(seen), 0);
    prop_assert!(hold.is_over(own(taken)), "holder {holder_rate} %, standby {standby_rate} %: taken at {taken}");
    Ok(())
}

fn bears(start: u64) -> Result<(), TestCaseError> {
    let mut random = start;
    let mut pick = move |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((random >> 33) % n).expect("below n")
    };
    let mut machine = Claimant::new(1, ClaimOptions { creates: pick(2) == 0, ..options() }, pick(4) as u64, None);
    let mut known = vec![None];
    let mut ms = 0;
    for _ in 0..200 {
        ms += pick(700) as u64;
        let (sent, now) = (at(ms), at(ms + pick(300) as u64));
        let beat = [1, 2, 5, 40, u64::MAX, Stamp::BEAT_MAX][pick(6)];
        let writer = [1, 1, 2, 3][pick(4)];
        let holder = [None, Some(writer), Some(7)][pick(3)];
        let seen = ClaimSnapshot { holder, is_moved: pick(9) == 0, is_this_folder: pick(9) == 0, ..held(writer, beat) };
        let seen = ClaimSnapshot { timeout_ms: [0, 1, TIMEOUT_MS, u64::MAX][pick(4)], ..seen };
        let ask = [
            ClaimRequest::Watch,
            save(&machine),
            save(&machine),
            ClaimRequest::Release { point: point(1), term: machine.term() },
        ];
        match machine.next_action(ask[pick(4)]) {
            StoreAction::Nothing => {}
            StoreAction::Read => {
                let answer =
                    [ReadAnswer::Record(seen), ReadAnswer::Record(seen), ReadAnswer::Missing, ReadAnswer::Failed]
                        [pick(4)];
                machine.read(sent, now, answer);
                if let ReadAnswer::Record(seen) = answer {
                    known.push(Some(seen.stamp));
                }
            }
            StoreAction::Write(write) => {
                prop_assert!(known.contains(&write.expect), "{write:?}");
                prop_assert!(!known.contains(&Some(write.new)), "a stamp that was there: {write:?}");
                let conflict = WriteAnswer::Conflict(Some(seen).filter(|_| pick(5) > 0));
                let answer = [WriteAnswer::Done, WriteAnswer::Unknown, WriteAnswer::NotDone, conflict][pick(4)];
                machine.wrote(sent, now, answer);
                known.push(Some(write.new));
                if let WriteAnswer::Conflict(Some(seen)) = answer {
                    known.push(Some(seen.stamp));
                }
            }
        }
    }
    Ok(())
}

// Rule 3: takeover.

#[test]
fn a_claim_that_names_no_holder_is_taken_at_once() {
    let (mut machine, mut store) = (claimant(1), Store(Some(released(2, 41))));
    let event = store.works_off(&mut machine, at(0));
    assert_eq!(event, ClaimEvent::Taken { found: Some(point(5_003_000)), cause: TakeCause::Free });
    assert_eq!(store.0.unwrap().stamp, Stamp { writer: 1, beat: 42 });
}

#[test]
fn a_silent_claim_is_taken_after_the_records_time_out() {
    let (mut machine, mut store) = (claimant(1), Store(Some(ClaimSnapshot { timeout_ms: 800, ..held(2, 41) })));
    for ms in (0..800).step_by(100) {
        let event = store.works_off(&mut machine, at(ms));
        let silent_ns = ms * 1_000_000;
        assert_eq!(event, ClaimEvent::Standby(StandbyReason::Held { by: 2, silent_ns, timeout_ms: 800 }), "{ms}");
    }
    // A beat: the silence counts from 0 again.
    store.0 = Some(ClaimSnapshot { timeout_ms: 800, ..held(2, 42) });
    for ms in (800..1600).step_by(100) {
        assert!(
            matches!(store.works_off(&mut machine, at(ms)), ClaimEvent::Standby(StandbyReason::Held { .. })),
            "{ms}"
        );
    }
    match store.works_off(&mut machine, at(1600)) {
        ClaimEvent::Taken { cause: TakeCause::Silent(800_000_000), .. } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_takeover_names_the_record_that_was_silent() {
    let (mut machine, mut store) = (claimant(1), Store(Some(held(2, 41))));
    for ms in (0..=2000).step_by(100) {
        store.serves(&mut machine, at(ms), ClaimRequest::Watch);
    }
    let write = write_of(&mut machine, ClaimRequest::Watch);
    assert_eq!(write.expect, Some(Stamp { writer: 2, beat: 41 }));
    // The holder beats at this very moment: then it keeps the claim.
    store.0 = Some(held(2, 42));
    let event = machine.wrote(at(2000), at(2010), store.does(write));
    assert_eq!(event, ClaimEvent::Standby(StandbyReason::Held { by: 2, silent_ns: 0, timeout_ms: TIMEOUT_MS }));
    assert!(!machine.is_holder());
}

#[test]
fn time_in_which_it_could_not_read_is_no_silence() {
    let (mut machine, mut store) = (claimant(1), Store(Some(held(2, 41))));
    let silent_ms = |machine: &Claimant| machine.watch().expect("a watch").silent_ns() / 1_000_000;
    for ms in (0..=500).step_by(100) {
        store.works_off(&mut machine, at(ms));
    }
    assert_eq!(silent_ms(&machine), 500);
    // The store is unreachable for an hour: until the first failed read it was there.
    for ms in (600..3_600_000).step_by(10_000) {
        assert_eq!(machine.next_action(ClaimRequest::Watch), StoreAction::Read);
        assert_eq!(machine.read(at(ms), at(ms + 1000), ReadAnswer::Failed), ClaimEvent::Away);
    }
    store.works_off(&mut machine, at(3_600_000));
    assert_eq!(silent_ms(&machine), 600);
    // The process is stopped for a minute, and then continues to read.
    let event = store.works_off(&mut machine, at(3_660_000));
    assert!(matches!(event, ClaimEvent::Standby(StandbyReason::Held { .. })), "{event:?}");
    assert_eq!(silent_ms(&machine), 600);
    // An occasional failed read does not make it wait for ever.
    let mut ms = 3_660_000;
    while !machine.is_holder() {
        ms += POLL_MS;
        assert_eq!(machine.next_action(ClaimRequest::Watch), StoreAction::Read);
        machine.read(at(ms), at(ms), ReadAnswer::Failed);
        ms += POLL_MS;
        store.works_off(&mut machine, at(ms));
        assert!(ms < 3_664_000, "{machine:?}");
    }
    assert!(ms >= 3_661_400, "taken over after {ms}");
}

#[test]
fn silence_goes_by_the_slower_clock() {
    let slow = |boot_ms: u64, raw_ms: u64| Clocks { raw_ns: at(raw_ms).raw_ns, ..at(boot_ms) };
    for by in [|ms| (ms, ms / 2), |ms| (ms / 2, ms)] as [fn(u64) -> (u64, u64); 2] {
        let mut watch = Watch::new(at(0), held(2, 41));
        for ms in (100..=2000).step_by(100) {
            let (boot, raw) = by(ms);
            watch.saw(slow(boot, raw), slow(boot, raw), held(2, 41));
        }
        assert_eq!((watch.silent_ns(), watch.is_silent()), (1_000_000_000, false));
    }
}

#[test]
fn an_unknown_takeover_is_settled_by_reading() {
    for was_done in [false, true] {
        let (mut machine, mut store) = (claimant(1), Store(Some(released(2, 41))));
        store.serves(&mut machine, at(0), ClaimRequest::Watch);
        let write = write_of(&mut machine, ClaimRequest::Watch);
        if was_done {
            store.does(write);
        }
        assert_eq!(machine.wrote(at(0), at(1000), WriteAnswer::Unknown), ClaimEvent::Away);
        assert!(!machine.is_holder(), "the outcome is unknown");
        let event = store.works_off(&mut machine, at(1100));
        assert!(matches!(event, ClaimEvent::Taken { cause: TakeCause::Free, .. }), "{event:?}");
        // The cancelled write is used if it was done, and is not sent again.
        assert_eq!(store.0.unwrap().stamp.beat, if was_done { 42 } else { 43 });
    }
    // Another server was faster.
    let (mut machine, mut store) = (claimant(1), Store(Some(released(2, 41))));
    store.serves(&mut machine, at(0), ClaimRequest::Watch);
    write_of(&mut machine, ClaimRequest::Watch);
    machine.wrote(at(0), at(1000), WriteAnswer::Unknown);
    store.0 = Some(held(3, 42));
    assert!(matches!(store.works_off(&mut machine, at(1100)), ClaimEvent::Standby(StandbyReason::Held { by: 3, .. })));
}

#[test]
fn a_takeover_that_is_done_late_is_a_takeover() {
    let (mut machine, mut store) = (claimant(1), Store(Some(released(2, 41))));
    store.serves(&mut machine, at(0), ClaimRequest::Watch);
    let late = write_of(&mut machine, ClaimRequest::Watch);
    machine.wrote(at(0), at(1000), WriteAnswer::Unknown);
    store.serves(&mut machine, at(1100), ClaimRequest::Watch);
    let next = write_of(&mut machine, ClaimRequest::Watch);
    assert_eq!(store.does(late), WriteAnswer::Done);
    let answer = store.does(next);
    let event = machine.wrote(at(1200), at(1200), answer);
    assert_eq!(event, ClaimEvent::Taken { found: Some(point(5_003_000)), cause: TakeCause::Late });
}

// Rule 4: who may take over.

#[test]
fn a_standby_whose_wall_clock_is_apart_is_not_eligible() {
    let day_ms = 86_400_000;
    let watched = |wall_off_ms: i64, options: ClaimOptions, beats: bool| {
        let by = |ms: u64| Clocks { wall_ms: wall(ms) + wall_off_ms, ..at(ms) };
        let mut machine = Claimant::new(1, options, 0, None);
        let mut store = Store(Some(held(2, 41)));
        store.works_off(&mut machine, by(0));
        if beats {
            store.0 = Some(later(held(2, 42), 50));
        }
        (100..=2200).step_by(100).map(|ms| store.works_off(&mut machine, by(ms))).last().unwrap()
    };
    for beats in [false, true] {
        assert!(!matches!(watched(55_000, options(), beats), ClaimEvent::Standby(_)));
        assert!(!matches!(watched(-3_500_000, options(), beats), ClaimEvent::Standby(_)));
        match watched(-day_ms, options(), beats) {
            ClaimEvent::Standby(StandbyReason::Apart { by_ms }) => assert!((by_ms + day_ms).abs() < 4000, "{by_ms}"),
            other => panic!("{other:?}"),
        }
    }
    // Ahead of a record that beat while it was watched: IDs would be 50 minutes ahead.
    assert!(matches!(
        watched(3_000_000, options(), true),
        ClaimEvent::Standby(StandbyReason::Apart { by_ms: 2_900_000.. })
    ));
    assert!(matches!(watched(day_ms, options(), true), ClaimEvent::Standby(StandbyReason::Apart { .. })));
    // A record that was silent from the beginning may be a day old: then the clock is right.
    assert!(!matches!(watched(day_ms, options(), false), ClaimEvent::Standby(_)));
    for lifted in
        [ClaimOptions { takes_any: true, ..options() }, ClaimOptions { max_ahead_ms: 0, max_behind_ms: 0, ..options() }]
    {
        assert!(!matches!(watched(-day_ms, lifted, true), ClaimEvent::Standby(_)));
        assert!(!matches!(watched(day_ms, lifted, true), ClaimEvent::Standby(_)));
    }
}

/// The obstacle to a takeover is known before the holder is gone.
#[test]
fn a_standby_knows_that_its_wall_clock_is_apart_while_another_holds() {
    let apart = |wall_off_ms: i64, options: ClaimOptions, seen: fn(ClaimSnapshot) -> ClaimSnapshot| {
        let by = |ms: u64| Clocks { wall_ms: wall(ms) + wall_off_ms, ..at(ms) };
        let mut machine = Claimant::new(1, options, 0, None);
        assert_eq!(machine.apart_by_ms(by(0)), None, "nothing was read");
        let mut store = Store(Some(seen(held(2, 41))));
        store.works_off(&mut machine, by(0));
        store.0 = Some(later(seen(held(2, 42)), 50));
        store.works_off(&mut machine, by(100));
        let is_held = matches!(machine.waiting(), Some(StandbyReason::Held { .. }));
        (is_held, machine.apart_by_ms(by(100)))
    };
    let as_it_is = |seen| seen;
    let (is_held, by_ms) = apart(7_200_000, options(), as_it_is);
    assert!(is_held && by_ms.is_some_and(|by_ms| by_ms > 7_000_000), "{by_ms:?}");
    let (is_held, by_ms) = apart(-7_200_000, options(), as_it_is);
    assert!(is_held && by_ms.is_some_and(|by_ms| by_ms < -7_000_000), "{by_ms:?}");
    assert_eq!(apart(2000, options(), as_it_is), (true, None));
    assert_eq!(apart(7_200_000, ClaimOptions { takes_any: true, ..options() }, as_it_is), (true, None));
    let own_folder = |seen| ClaimSnapshot { is_this_folder: true, ..seen };
    assert_eq!(apart(7_200_000, options(), own_folder).1, None, "a holder, or one that will be");
}

/// Returns the same record with a time `ms` later.
fn later(seen: ClaimSnapshot, ms: u64) -> ClaimSnapshot {
    let reference = seen.point.reference.plus_ms(ms);
    ClaimSnapshot { point: SavePoint { reference, ..seen.point }, ..seen }
}

/// A standby's distance from the record's time is known before there is a claim to take.
#[test]
fn a_standby_knows_how_far_its_clock_is_from_the_records_time() {
    let gap = |wall_off_ms: i64, seen: &[(u64, ClaimSnapshot)]| {
        let by = |ms: u64| Clocks { wall_ms: wall(ms) + wall_off_ms, ..at(ms) };
        let mut machine = claimant(1);
        for (ms, seen) in seen {
            Store(Some(*seen)).works_off(&mut machine, by(*ms));
        }
        machine.clock_gap_ms(by(seen.last().unwrap().0 + 700))
    };
    let (first, beat) = ((0, held(2, 41)), (500, later(held(2, 42), 500)));
    for off_ms in [3_000_000, 5001, 0, -5001, -3_000_000] {
        assert_eq!(gap(off_ms, &[first, beat]), Some(off_ms));
    }
    // The age of the first record is unknown: the clock may be ahead by that age.
    assert_eq!((gap(3_000_000, &[first]), gap(-3_000_000, &[first])), (None, Some(-3_000_000)));
    // A write that leaves the time unchanged, such as an operator's, makes it no younger.
    let taken = |ms| (ms, ClaimSnapshot { stamp: held(9, 43).stamp, ..beat.1 });
    assert_eq!(gap(7, &[first, beat, taken(1400)]), Some(7));
    assert_eq!(
        gap(7, &[first, taken(400)].map(|(ms, seen)| (ms, ClaimSnapshot { point: first.1.point, ..seen }))),
        None
    );
    // A record that returns from another store has the time of its last save there.
    let moved = (500, ClaimSnapshot { is_moved: true, ..beat.1 });
    assert_eq!(gap(7, &[first, moved, (900, later(held(9, 43), 600))]), None);
    assert_eq!(holder(1, 0).0.clock_gap_ms(at(0)), None);
}

#[test]
fn a_moved_claim_is_not_taken() {
    for seen in [held(2, 41), released(2, 41), held(1, 41)] {
        let mut store = Store(Some(ClaimSnapshot { is_moved: true, is_this_folder: true, ..seen }));
        let mut machine = claimant(1);
        for ms in (0..5000).step_by(100) {
            assert_eq!(store.works_off(&mut machine, at(ms)), ClaimEvent::Standby(StandbyReason::Moved));
        }
    }
    // A holder that reads the mark.
    let (mut machine, mut store) = holder(1, 0);
    store.0 = Some(ClaimSnapshot { is_moved: true, ..held(9, 40) });
    assert_eq!(store.works_off(&mut machine, at(500)), ClaimEvent::Lost(ClaimLoss::Moved));
}

// Rule 5: which server-id.

fn silent(seen: ClaimSnapshot, ms: u64) -> Watch {
    let mut watch = Watch::new(at(0), seen);
    for ms in (100..=ms).step_by(100) {
        watch.saw(at(ms), at(ms), seen);
    }
    watch
}

fn beating(seen: ClaimSnapshot) -> Watch {
    let mut watch = Watch::new(at(0), held(seen.stamp.writer, seen.stamp.beat - 1));
    watch.saw(at(100), at(100), seen);
    watch
}

fn candidate(server_id: u32, watch: Option<Watch>) -> Candidate {
    Candidate { server_id, watch, is_own_name: false }
}

fn own(server_id: u32, watch: Watch) -> Candidate {
    Candidate { server_id, watch: Some(watch), is_own_name: true }
}

#[test]
fn auto_takes_its_own_then_released_then_unused_then_the_longest_silent() {
    let all = [
        candidate(4, Some(beating(held(4, 9)))),
        candidate(5, Some(silent(held(5, 9), 2500))),
        candidate(6, Some(silent(held(6, 9), 3000))),
        candidate(7, None),
        candidate(8, Some(silent(released(8, 9), 0))),
        own(9, silent(held(9, 9), 2000)),
    ];
    for spread in 0..5 {
        for (count, expected) in [(6, 9), (5, 8), (4, 7), (3, 6), (2, 5)] {
            assert_eq!(choose(&all[..count], spread), IdChoice::Take(expected), "{count}");
        }
        assert_eq!(choose(&all[..1], spread), IdChoice::Wait);
    }
    assert_eq!(choose(&[], 3), IdChoice::Wait);
}

#[test]
fn auto_waits_to_see_whether_its_own_record_is_silent() {
    let free = candidate(8, Some(silent(released(8, 9), 0)));
    // The holder may have been killed a moment ago.
    assert_eq!(choose(&[free, own(9, silent(held(9, 9), 1900))], 0), IdChoice::Look);
    assert_eq!(own_name_in_use(&[free, own(9, silent(held(9, 9), 1900))]), None);
    // Another server has this name.
    let in_use = [free, own(9, beating(held(9, 9)))];
    assert_eq!((choose(&in_use, 0), own_name_in_use(&in_use)), (IdChoice::Take(8), Some(9)));
    // A claim of the server's own folder is taken at once.
    let same = ClaimSnapshot { is_this_folder: true, ..held(9, 9) };
    assert_eq!(choose(&[free, own(9, silent(same, 0))], 0), IdChoice::Take(9));
    assert_eq!(choose(&[free, own(9, silent(released(9, 9), 0))], 0), IdChoice::Take(9));
}

#[test]
fn auto_leaves_what_is_moved_and_spreads() {
    let moved = ClaimSnapshot { is_moved: true, ..released(8, 9) };
    assert_eq!(choose(&[candidate(8, Some(silent(moved, 5000)))], 0), IdChoice::Wait);
    let unused: Vec<_> = (10..20).map(|id| candidate(id, None)).collect();
    let taken: Vec<_> = (0..10).map(|spread| choose(&unused, spread)).collect();
    assert_eq!(taken, (10..20).map(IdChoice::Take).collect::<Vec<_>>());
}

// Rule 6: no record is made but for a server-id that may be new.

#[test]
fn a_record_that_is_missing_is_made_only_where_it_may_be_new() {
    let (mut machine, mut store) = (claimant(1), Store(None));
    assert_eq!(store.works_off(&mut machine, at(0)), ClaimEvent::Standby(StandbyReason::Missing));
    machine.set_options(ClaimOptions { creates: true, ..options() });
    assert_eq!(store.works_off(&mut machine, at(0)), ClaimEvent::Taken { found: None, cause: TakeCause::New });
    assert_eq!(store.0.unwrap().stamp, Stamp { writer: 1, beat: 1 });
    // Of two servers the slower one loses.
    let (mut slower, mut store) = (Claimant::new(1, ClaimOptions { creates: true, ..options() }, 0, None), Store(None));
    store.serves(&mut slower, at(0), ClaimRequest::Watch);
    let write = write_of(&mut slower, ClaimRequest::Watch);
    assert_eq!(write.expect, None);
    store.0 = Some(held(2, 1));
    let event = slower.wrote(at(0), at(0), store.does(write));
    assert!(matches!(event, ClaimEvent::Standby(StandbyReason::Held { by: 2, .. })), "{event:?}");
    // A record that this server has seen before is not new.
    let (mut knows, mut store) = (Claimant::new(1, ClaimOptions { creates: true, ..options() }, 7, None), Store(None));
    assert_eq!(store.works_off(&mut knows, at(0)), ClaimEvent::Standby(StandbyReason::WentBack { noted: 7, found: 0 }));
}

#[test]
fn a_record_that_is_gone_is_lost() {
    let (mut machine, mut store) = holder(1, 0);
    let noted = machine.noted_beat();
    store.0 = None;
    assert_eq!(store.works_off(&mut machine, at(100)), ClaimEvent::Lost(ClaimLoss::Gone));
    assert_eq!(
        store.works_off(&mut machine, at(200)),
        ClaimEvent::Standby(StandbyReason::WentBack { noted, found: 0 })
    );
}

// Rule 7: the store is away; the same machine again.

#[test]
fn a_holder_continues_when_the_store_is_back_and_no_server_was_faster() {
    let (mut machine, mut store) = holder(1, 0);
    for ms in (500..60_000).step_by(500) {
        let answer = if ms % 1000 == 0 { WriteAnswer::Unknown } else { WriteAnswer::NotDone };
        match action_of_save(&mut machine) {
            StoreAction::Read => machine.read(at(ms), at(ms), ReadAnswer::Failed),
            StoreAction::Write(_) => machine.wrote(at(ms), at(ms), answer),
            StoreAction::Nothing => panic!("it has given up"),
        };
    }
    assert!(machine.hold().is_some_and(|hold| hold.is_over(at(60_000))));
    // Its hold had ended: it continues as at a start, whatever the store has.
    let event = store.works_off(&mut machine, at(60_000));
    assert_eq!(event, ClaimEvent::Taken { found: None, cause: TakeCause::Resumed });
    let release = ClaimRequest::Release { point: point(5), term: machine.term() - 1 };
    assert_eq!(write_of(&mut machine.clone(), release).point, point(6_000_000), "its mint has the old term");
    let event = store.works_off(&mut machine, at(60_100));
    assert!(matches!(event, ClaimEvent::Saved { hold, .. } if hold.sent == at(60_100)), "{event:?}");
    // A wall clock that was set ends a hold, but no other server can have had the claim.
    let set = Clocks { wall_ms: 0, ..at(60_200) };
    assert!(machine.hold().is_some_and(|hold| hold.is_over(set)));
    assert!(matches!(store.works_off(&mut machine, set), ClaimEvent::Saved { .. }));
}

#[test]
fn the_same_folder_on_the_same_boot_takes_its_claim_at_once() {
    let seen = ClaimSnapshot { is_this_folder: true, ..held(2, 41) };
    let (mut machine, mut store) = (claimant(1), Store(Some(seen)));
    let event = store.works_off(&mut machine, at(0));
    assert_eq!(event, ClaimEvent::Taken { found: Some(seen.point), cause: TakeCause::SameFolder });
}

// Rule 8: a store that went back.

#[test]
fn a_lower_beat_is_refused() {
    // A standby with beat 50 in its notes.
    for seen in [held(2, 49), released(2, 49), held(1, 49), ClaimSnapshot { is_this_folder: true, ..held(2, 49) }] {
        let (mut machine, mut store) = (Claimant::new(1, options(), 50, None), Store(Some(seen)));
        for ms in (0..5000).step_by(100) {
            let event = store.works_off(&mut machine, at(ms));
            assert_eq!(event, ClaimEvent::Standby(StandbyReason::WentBack { noted: 50, found: 49 }), "{seen:?}");
        }
        // An operator's advance, or beats of other servers, exceed it.
        store.0 = Some(released(3, 49 + (1 << 32)));
        assert!(matches!(store.works_off(&mut machine, at(5000)), ClaimEvent::Taken { .. }));
        assert!(store.0.unwrap().stamp.beat > 49 + (1 << 32));
    }
    // A holder after its hold: another server may have had the claim since.
    let (mut machine, mut store) = holder(1, 0);
    let old = store.0;
    store.works_off(&mut machine, at(500));
    let noted = machine.noted_beat();
    store.0 = old;
    let event = store.works_off(&mut machine, at(2000));
    assert_eq!(event, ClaimEvent::Lost(ClaimLoss::WentBack { noted, found: noted - 1 }));
    let event = store.works_off(&mut machine, at(9000));
    assert_eq!(event, ClaimEvent::Standby(StandbyReason::WentBack { noted, found: noted - 1 }));
}

#[test]
fn a_holder_writes_itself_in_while_its_hold_lasts() {
    let (mut machine, mut store) = holder(1, 0);
    let old = store.0;
    store.works_off(&mut machine, at(500));
    let noted = machine.noted_beat();
    store.0 = old;
    let ask = save(&machine);
    let event = store.serves(&mut machine, at(1999), ask);
    assert_eq!(event, Some(ClaimEvent::WritesItselfIn { noted, found: noted - 1 }));
    assert!(matches!(store.works_off(&mut machine, at(1999)), ClaimEvent::Saved { .. }));
    assert!(store.0.unwrap().stamp.beat > noted, "beats never go down");
    // The holder does not overwrite another writer's record.
    let (mut machine, mut store) = holder(1, 0);
    let noted = machine.noted_beat();
    store.0 = Some(held(2, 1));
    assert_eq!(store.works_off(&mut machine, at(10)), ClaimEvent::Lost(ClaimLoss::WentBack { noted, found: 1 }));
}

#[test]
fn beats_end_where_a_store_could_not_hold_them() {
    let (mut machine, mut store) = (claimant(1), Store(Some(released(2, Stamp::BEAT_MAX))));
    assert_eq!(store.works_off(&mut machine, at(0)), ClaimEvent::Standby(StandbyReason::BeatsUsedUp));
    assert_eq!(store.0.unwrap().stamp, Stamp { writer: 2, beat: Stamp::BEAT_MAX });
}

// Giving a claim up.

#[test]
fn a_release_names_no_holder_and_stores_the_position() {
    let (mut machine, mut store) = holder(1, 0);
    let release = ClaimRequest::Release { point: point(5_500_000), term: machine.term() };
    assert_eq!(store.serves(&mut machine, at(100), release), Some(ClaimEvent::Released));
    let left = store.0.unwrap();
    assert_eq!((left.holder, left.point), (None, point(5_500_000)));
    assert_eq!((machine.next_action(release), machine.hold()), (StoreAction::Nothing, None));
    // A release with an unknown outcome may be requested again.
    let (mut machine, mut store) = holder(1, 0);
    let write = write_of(&mut machine, release);
    store.does(write);
    machine.wrote(at(100), at(200), WriteAnswer::Unknown);
    assert_eq!(store.serves(&mut machine, at(200), release), Some(ClaimEvent::Released));
}

#[test]
fn a_claim_that_was_taken_away_is_not_taken_back_at_once() {
    let (mut machine, mut store) = holder(1, 0);
    let stamp = Stamp { writer: 77, beat: machine.noted_beat() + 1 };
    store.0 = store.0.map(|seen| ClaimSnapshot { stamp, holder: None, ..seen });
    assert_eq!(store.works_off(&mut machine, at(500)), ClaimEvent::Lost(ClaimLoss::ReleasedBy(77)));
    for ms in (600..2500).step_by(100) {
        assert_eq!(store.works_off(&mut machine, at(ms)), ClaimEvent::Standby(StandbyReason::SteppedAside), "{ms}");
    }
    assert!(matches!(store.works_off(&mut machine, at(2500)), ClaimEvent::Taken { .. }), "no other server took it");
}

/// Returns the scene that finds a fault.
fn scene(fault: Fault) -> Option<fn()> {
    Some(match fault {
        Fault::SaveIsNotFenced => a_save_counts_only_over_the_stamp_that_this_server_wrote_last,
        Fault::HoldWithoutMargin | Fault::HoldFromTheReply => {
            a_hold_lasts_three_quarters_of_the_time_out_from_the_sending
        }
        Fault::CutOffCountsAsSilence => time_in_which_it_could_not_read_is_no_silence,
        Fault::UnknownTakeoverCounts => an_unknown_takeover_is_settled_by_reading,
        Fault::LowerBeatIsAccepted => a_lower_beat_is_refused,
        Fault::ResumesWhereItWas => a_holder_continues_when_the_store_is_back_and_no_server_was_faster,
        Fault::TakesBackAtOnce => a_claim_that_was_taken_away_is_not_taken_back_at_once,
        _ => return None,
    })
}

#[test]
fn every_fault_of_claims_is_found_by_its_scene() {
    for &fault in Fault::OF_CLAIMS {
        let scene = scene(fault).expect("each has a scene");
        scene();
        let _planted = plant(fault);
        assert!(std::panic::catch_unwind(scene).is_err(), "{fault:?} is not found");
    }
}
