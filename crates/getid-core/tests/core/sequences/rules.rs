//! Each rule of sequences, with the values of the hole that it closes.

use std::collections::{BTreeMap, BTreeSet};

use getid_core::server::{
    Fetch, FetchVerdict, Fetched, Key, RowEnd, Run, Segment, Sequence, SequencePolicy, SequenceRefusal,
    SequenceRequest, Spec, WaitPolicy,
};

use super::store::{Row, State, Statement, Store, StoreReply};

const POLICY: SequencePolicy = SequencePolicy { ride_out_ms: 10_000, waits: WaitPolicy::Wait };

/// A store and servers whose messages arrive at once.
struct SmallWorld {
    store: Store,
    now_ms: u64,
}

impl SmallWorld {
    fn new() -> SmallWorld {
        SmallWorld { store: Store::new(Spec::default()), now_ms: 0 }
    }

    fn does(&mut self, statement: &Statement) -> StoreReply {
        self.store.now_ms = self.now_ms;
        self.store.execute(statement, None)
    }

    fn row(&self) -> &Row {
        self.store.row.as_ref().expect("a row")
    }

    /// Returns the outcome of a fetch.
    fn reserve(&mut self, fetch: Fetch) -> Fetched {
        match self.does(&Statement::Reserve { values: fetch.values, floor: 0 }) {
            StoreReply::Reserved { segment, row, .. } => {
                let end = end_of(&row);
                let Row { version, generation, spec, .. } = row;
                Fetched::Reserved { store: 0, segment, version, generation, spec, end }
            }
            StoreReply::Refusal(row) if row.state == State::Live => {
                Fetched::Refused(SequenceRefusal::Ended { unix_ms: row.ends_ms.cast_signed() })
            }
            StoreReply::Refusal(row) if row.state == State::Dropped => {
                Fetched::Refused(SequenceRefusal::Dropped { last: row.next - 1 })
            }
            StoreReply::Refusal(_) => Fetched::Refused(SequenceRefusal::WentBack),
            _ => Fetched::Refused(SequenceRefusal::NoSuch),
        }
    }

    /// Draws one value, and waits for it if it must.
    fn incr(&mut self, server: &mut Sequence<u8>) -> Result<i64, SequenceRefusal> {
        self.incr_by(server, 1)
    }

    fn incr_by(&mut self, server: &mut Sequence<u8>, values: u32) -> Result<i64, SequenceRefusal> {
        let ask = SequenceRequest { values, times: 1 };
        let mut runs = vec![];
        if server.draw(self.now_ms, ask, &mut runs) > 0 {
            server.may_wait(self.now_ms, &POLICY, &[ask])?;
            server.join(vec![ask], 0);
        }
        let mut result = runs.last().map(|run| Ok(run.last_of(run.times - 1)));
        for _ in 0..3 {
            if let Some(fetch) = server.begin_fetch(self.now_ms, &POLICY) {
                let answer = self.reserve(fetch);
                if server.fetched(self.now_ms, answer) != FetchVerdict::Yes {
                    continue;
                }
                server.serve(self.now_ms, &mut |_, served| {
                    let last = |runs: Vec<Run>| runs.last().map_or(0, |run| run.last_of(run.times - 1));
                    result = Some(served.map(last));
                });
            }
        }
        result.expect("it is served or refused")
    }

    /// Sets the end of the row at a server's request; 0 removes it.
    fn expire(&mut self, server: &mut Sequence<u8>, ends_ms: u64) {
        self.does(&Statement::Expire { ends_ms });
        let row = self.row();
        server.end_changed(0, row.version, row.generation, end_of(row));
    }

    /// Loses the reply to a fetch, which was done or not.
    fn lose_reply(&mut self, server: &mut Sequence<u8>, is_done: bool) {
        server.join(vec![SequenceRequest { values: 1, times: 1 }], 1);
        let fetch = server.begin_fetch(self.now_ms, &POLICY).expect("a fetch");
        if is_done {
            self.reserve(fetch);
        }
        server.fetched(self.now_ms, Fetched::Failed { is_unknown: true, reason: "the connection ended".into() });
        self.now_ms += 10_000;
    }
}

/// Returns the end of a row. The simulated time is that of all clocks.
fn end_of(row: &Row) -> Option<RowEnd> {
    (row.ends_ms > 0).then_some(RowEnd { unix_ms: row.ends_ms.cast_signed(), at_ms: row.ends_ms })
}

/// Returns the statement of a clean stop.
fn give_back(server: &mut Sequence<u8>) -> Option<Statement> {
    server.give_back().map(|remainder| {
        let end = remainder.next + remainder.values.cast_signed();
        Statement::GiveBack { version: remainder.version, next: remainder.next, end }
    })
}

fn server() -> Sequence<u8> {
    Sequence::new(0)
}

/// The row was lost with its table; an upsert would have begun at 1 again, and 1 to 100 are orders already.
#[test]
fn a_row_that_is_gone_is_an_error_and_never_a_fresh_1() {
    let (mut small, mut a) = (SmallWorld::new(), server());
    assert_eq!(small.incr(&mut a), Ok(1));
    small.store.row = None;
    let mut b = server();
    assert_eq!(small.incr(&mut b), Err(SequenceRefusal::NoSuch));
    assert!(small.store.row.is_none(), "only CREATE makes one");
}

/// A reserves 2 to 101, and the reply is lost. B reserves 2 or 102, depending on whose statement was first. If A used 2
/// to 101, both would give 2.
#[test]
fn a_range_whose_reply_was_lost_is_never_given() {
    for is_done in [true, false] {
        let (mut small, mut a, mut b) = (SmallWorld::new(), server(), server());
        assert_eq!(small.incr(&mut a), Ok(1));
        a.draw(0, SequenceRequest { values: 100, times: 1 }, &mut vec![]);
        small.lose_reply(&mut a, is_done);
        let of_b = small.incr(&mut b).expect("a value");
        let of_a = small.incr(&mut a).expect("a value");
        assert!(of_a > of_b, "{of_a} and {of_b}");
    }
}

/// At 200,000 a second a segment has two million values. A database that loses its replies for a minute would burn one
/// in each retry.
#[test]
fn retries_do_not_burn_millions() {
    let mut a = server();
    let mut next = 1;
    let mut burnt = 0;
    let mut reserved = |values: u32| {
        let segment = Segment { first: next, last: next + i64::from(values) - 1, increment: 1 };
        next += i64::from(values);
        Fetched::Reserved { store: 0, segment, version: 1, generation: 0, spec: Spec::default(), end: None }
    };
    for now_ms in 0..30_000 {
        if a.draw(0, SequenceRequest { values: 1, times: 200 }, &mut vec![]) > 0 {
            a.join(vec![SequenceRequest { values: 1, times: 1 }], 0);
        }
        if let Some(fetch) = a.begin_fetch(now_ms, &POLICY) {
            a.fetched(now_ms, reserved(fetch.values));
            a.serve(now_ms, &mut |_, _| {});
        }
    }
    let mut statements = 0;
    let mut largest = 0;
    for now_ms in 30_000..90_000 {
        a.draw(0, SequenceRequest { values: 1, times: 200 }, &mut vec![]);
        if let Some(fetch) = a.begin_fetch(now_ms, &POLICY) {
            burnt += u64::from(fetch.values);
            largest = largest.max(fetch.values);
            statements += 1;
            a.fetched(now_ms, Fetched::Failed { is_unknown: true, reason: "no reply".into() });
        }
    }
    assert!((12..20).contains(&statements), "{statements} statements in a minute");
    assert!(largest > 1_000_000 && burnt < u64::from(largest) + 100 * 20, "{burnt} values, the largest {largest}");
}

/// A holds 51 to 100 and stops. B has reserved 101 to 200 since. If the row were set back to 51, C would get 101.
#[test]
fn a_give_back_after_another_has_reserved_takes_nothing() {
    let (mut small, mut a, mut b) = (SmallWorld::new(), server(), server());
    assert_eq!(small.incr_by(&mut a, 50), Ok(50));
    let statement = give_back(&mut a).expect("a part");
    let of_b = small.incr(&mut b).expect("a value");
    let next = small.row().next;
    small.does(&statement);
    assert_eq!(small.row().next, next);
    assert!(small.incr(&mut server()).expect("a value") > of_b);
}

/// A gives back 51 to 100, and gets no reply. B reserves the same 51 to 100, so the row is at 101 as before. If A
/// repeated the statement, C would get 51.
#[test]
fn a_give_back_that_is_repeated_takes_nothing() {
    let (mut small, mut a) = (SmallWorld::new(), server());
    assert_eq!(small.incr_by(&mut a, 50), Ok(50));
    let end = small.row().next;
    let statement = give_back(&mut a).expect("a part");
    assert!(give_back(&mut a).is_none(), "a sequence gives back once");
    small.does(&statement);
    assert_eq!(small.row().next, 51);
    let values = u32::try_from(end - 51).expect("few");
    small.does(&Statement::Reserve { values, floor: 0 });
    assert_eq!(small.row().next, end);
    small.does(&statement);
    assert_eq!(small.row().next, end);
}

/// B gives back 301 to 400 and stops. A, which held up to 300, reserves them, and gives back from 261, as it may. If B
/// had noted all below 301 as its own, the row at 261 would look as if it had gone back.
#[test]
fn what_is_noted_at_a_stop_is_what_was_given() {
    let (mut small, mut a, mut b) = (SmallWorld::new(), server(), server());
    assert_eq!(small.incr_by(&mut b, 10), Ok(10));
    let remainder = b.give_back().expect("a part");
    assert_eq!((remainder.next, remainder.had_next), (11, Some(11)));
    small.does(&Statement::GiveBack { version: remainder.version, next: 11, end: 0 });
    // B returns, and reserves behind A, but gives nothing.
    assert_eq!(small.incr(&mut a), Ok(11));
    let mut b = server();
    b.join(vec![SequenceRequest { values: 1, times: 1 }], 0);
    let fetch = b.begin_fetch(0, &POLICY).expect("a fetch");
    b.refuse(&SequenceRefusal::Closed, &mut |_, _| {});
    let answer = small.reserve(fetch);
    assert_eq!(b.fetched(0, answer), FetchVerdict::Yes);
    let remainder = b.give_back().expect("a part");
    assert!(remainder.next > 12 && remainder.had_next.is_none(), "{remainder:?}");
}

/// A's SET moves the row to 1000. B holds 102 to 201, and reads the new generation within a second: its next value is
/// 1001.
#[test]
fn a_raise_throws_away_what_is_held() {
    let (mut small, mut a, mut b) = (SmallWorld::new(), server(), server());
    assert_eq!(small.incr(&mut a), Ok(1));
    assert!(small.incr(&mut b).expect("a value") > 1);
    let StoreReply::Row(row) = small.does(&Statement::Raise { last: 1000 }) else { panic!("it is raised") };
    for server in [&mut a, &mut b] {
        assert!(server.set_generation(0, row.generation));
        assert!(small.incr(server).expect("a value") > 1000);
    }
}

/// B's reservation of 102 to 201 is on its way while A raises to 1000; its answer comes last.
#[test]
fn an_answer_that_is_older_than_a_raise_is_thrown_away() {
    let (mut small, mut b) = (SmallWorld::new(), server());
    assert_eq!(small.incr(&mut b), Ok(1));
    b.draw(0, SequenceRequest { values: 60, times: 1 }, &mut vec![]);
    let fetch = b.begin_fetch(0, &POLICY).expect("a fetch");
    let answer = small.reserve(fetch);
    let StoreReply::Row(row) = small.does(&Statement::Raise { last: 1000 }) else { panic!("it is raised") };
    b.set_generation(0, row.generation);
    assert_eq!(b.fetched(0, answer), FetchVerdict::Outdated);
    assert!(small.incr(&mut b).expect("a value") > 1000);
}

/// 'orders' was at 57, is dropped, and created again: it continues at 58 or above.
#[test]
fn one_that_was_dropped_goes_on_above_its_tombstone() {
    let (mut small, mut a) = (SmallWorld::new(), server());
    assert_eq!(small.incr_by(&mut a, 57), Ok(57));
    let StoreReply::Row(row) = small.does(&Statement::Drop) else { panic!("it is dropped") };
    a.set_generation(0, row.generation);
    assert!(matches!(small.incr(&mut a), Err(SequenceRefusal::Dropped { .. })));
    small.does(&Statement::Create { spec: Spec::default() });
    small.now_ms += 1001;
    assert!(small.incr(&mut a).expect("a value") > 57);
}

/// A failover loses the reservation of 102 to 201. The row is at 102 once more, and another server would get values
/// that this one gave. This server reports it, and the row moves past them.
#[test]
fn a_store_that_went_back_is_refused_until_somebody_confirms() {
    let (mut small, mut a) = (SmallWorld::new(), server());
    assert_eq!(small.incr(&mut a), Ok(1));
    small.store.back_up();
    let before = small.row().next;
    assert!(small.incr_by(&mut a, 500).expect("values") >= 500);
    let had_next = small.row().next;
    small.store.row = Some(Row { next: before, ..small.row().clone() });
    a.draw(0, SequenceRequest { values: 50, times: 1 }, &mut vec![]);
    let fetch = loop {
        if let Some(fetch) = a.begin_fetch(0, &POLICY) {
            break fetch;
        }
        a.join(vec![SequenceRequest { values: 1, times: 1 }], 0);
    };
    let answer = small.reserve(fetch);
    assert_eq!(a.fetched(0, answer), FetchVerdict::Backwards { floor: had_next });
    a.fetched(0, Fetched::Refused(SequenceRefusal::WentBack));
    small.does(&Statement::WentBack { had_next });
    assert_eq!(small.incr(&mut server()), Err(SequenceRefusal::WentBack), "nor does another server get any");
    let StoreReply::Row(row) = small.does(&Statement::Confirm) else { panic!("it is confirmed") };
    a.set_generation(0, row.generation);
    small.now_ms += 1001;
    assert!(small.incr(&mut a).expect("a value") >= had_next);
}

/// One store has 1, 3, 5, ..., the other 2, 4, 6, ... The first is down after 199, and the second is at 2: its next
/// value is 200.
#[test]
fn of_several_stores_one_may_be_down_and_values_ascend() {
    let spec = |offset| Spec { increment: 2, offset, ..Spec::default() };
    let mut stores = [Store::new(spec(1)), Store::new(spec(2))];
    let mut a = server();
    let mut last = 0;
    for turn in 0..40 {
        let mut runs = vec![];
        while a.draw(0, SequenceRequest { values: 1, times: 30 }, &mut runs) > 0 {
            a.join(vec![SequenceRequest { values: 1, times: 1 }], 0);
            let up = usize::from(turn / 7 % 2 == 0);
            let fetch = a.begin_fetch(0, &POLICY).expect("a fetch");
            let statement = Statement::Reserve { values: fetch.values, floor: fetch.floor };
            let StoreReply::Reserved { segment, row, .. } = stores[up].execute(&statement, None) else {
                panic!("a range")
            };
            let Row { version, generation, spec, .. } = row;
            let store = u8::try_from(up).expect("two");
            let reserved = Fetched::Reserved { store, segment, version, generation, spec, end: None };
            assert_eq!(a.fetched(0, reserved), FetchVerdict::Yes);
            a.serve(0, &mut |_, served| runs.extend(served.expect("values")));
        }
        for run in runs {
            assert!(run.first > last, "{run:?} after {last}");
            last = run.last_of(run.times - 1);
        }
    }
}

/// With a store 5 to 50 ms away: the load grows from 10 a second to 100,000, and stays there.
#[test]
pub(super) fn a_load_that_grows_tenfold_a_second_makes_no_draw_wait() {
    for took_ms in [5, 20, 50] {
        let mut small = SmallWorld::new();
        let mut a = server();
        assert_eq!(small.incr(&mut a), Ok(1));
        let mut in_flight: Option<(u64, Fetch)> = None;
        let (mut owed, mut fetches_steady) = (0.0, 0);
        for now_ms in 0..60_000_u64 {
            if let Some((_, fetch)) = in_flight.take_if(|(at_ms, _)| *at_ms <= now_ms) {
                let answer = small.reserve(fetch);
                a.fetched(now_ms, answer);
            }
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let growth_s = (now_ms.clamp(20_000, 24_000) - 20_000) as f64 / 1000.0;
            owed += 10.0 * 10_f64.powf(growth_s) / 1000.0;
            if owed >= 1.0 {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
                let times = owed as u32;
                owed -= f64::from(times);
                let left = a.draw(0, SequenceRequest { values: 1, times }, &mut vec![]);
                assert_eq!(left, 0, "{left} of {times} wait after {now_ms} ms, {took_ms} ms away");
            }
            if let Some(fetch) = a.begin_fetch(now_ms, &POLICY) {
                in_flight = Some((now_ms + took_ms, fetch));
                fetches_steady += u32::from(now_ms > 30_000);
            }
        }
        assert!(fetches_steady <= 30 * 3, "{fetches_steady} statements in 30 s");
    }
}

/// Invoices count from 1 each day. C's clock is five minutes late: it begins at 20261122 while A is at 20261123.
///
/// Returns true if a number of one day is given twice, with a row for each day, or with one row that the first server
/// of a new day sets back to 1.
fn is_given_twice(has_periods: bool) -> bool {
    let mut rows: BTreeMap<Key, SmallWorld> = BTreeMap::new();
    let mut servers: [BTreeMap<&str, Sequence<u8>>; 3] = Default::default();
    let mut given = BTreeSet::new();
    let mut days = BTreeSet::new();
    let mut is_twice = false;
    let (first, second) = ("D20261122", "D20261123");
    for (server, day) in [(0, first), (1, first), (0, second), (2, first), (1, second), (2, second)] {
        let key = if has_periods { Key::of_period("invoice", day) } else { Key::new("invoice") };
        let row = rows.entry(key.expect("a key")).or_insert_with(SmallWorld::new);
        if days.insert(day) {
            row.store = Store::new(Spec::default());
        }
        let sequence = servers[server].entry(day).or_insert_with(self::server);
        for _ in 0..150 {
            is_twice |= !given.insert((day, row.incr(sequence).expect("a number")));
        }
    }
    is_twice
}

#[test]
fn a_period_has_a_row_of_its_own() {
    assert!(!is_given_twice(true));
    assert!(is_given_twice(false), "else there would be no need for it");
}

/// `INCR` and `EXPIRE` on a dated key: the server has 2 to 101 in memory when the day is over.
#[test]
pub(super) fn after_the_end_nothing_is_given_and_without_it_values_are_above() {
    let (mut small, mut a) = (SmallWorld::new(), server());
    assert_eq!([small.incr(&mut a), small.incr(&mut a)], [Ok(1), Ok(2)]);
    small.expire(&mut a, 1000);
    assert_eq!(small.incr(&mut a), Ok(3), "the values in memory stay valid");
    assert_eq!(a.known_end(), Some(Some(RowEnd { unix_ms: 1000, at_ms: 1000 })));
    small.now_ms = 999;
    assert_eq!(small.incr(&mut a), Ok(4));
    let next = small.row().next;
    for now_ms in [1000, 1001, 2500, 9000] {
        small.now_ms = now_ms;
        assert_eq!(small.incr(&mut a), Err(SequenceRefusal::Ended { unix_ms: 1000 }), "{now_ms}");
    }
    assert_eq!(small.row().next, next, "an ended row reserves nothing");
    assert_eq!(small.incr(&mut server()), Err(SequenceRefusal::Ended { unix_ms: 1000 }), "another server");
    small.expire(&mut a, 0);
    assert_eq!((small.incr(&mut a), a.known_end()), (Ok(5), Some(None)), "no value is skipped here");
    assert_eq!(small.incr(&mut server()), Ok(next));
}

/// B makes the row last for ever again. A has values from before, and the end, until it reads that.
#[test]
fn a_server_that_kept_its_values_past_the_end_forgets_them_with_anothers_change() {
    let (mut small, mut a) = (SmallWorld::new(), server());
    assert_eq!([small.incr(&mut a), small.incr(&mut a)], [Ok(1), Ok(2)]);
    small.expire(&mut a, 1000);
    small.now_ms = 1000;
    assert_eq!(small.incr(&mut a), Err(SequenceRefusal::Ended { unix_ms: 1000 }));
    let next = small.row().next;
    small.does(&Statement::Expire { ends_ms: 0 });
    let generation = small.row().generation;
    assert!(a.set_generation(0, generation) && !a.holds_values());
    assert_eq!(small.incr(&mut a), Ok(next));
}

/// A draw waits for the reply to a reservation, which arrives after the end.
#[test]
fn a_draw_that_waits_past_the_end_is_refused() {
    for cache in [0, 100] {
        let (mut small, mut a) = (SmallWorld::new(), server());
        small.does(&Statement::Alter { spec: Spec { cache, ..Spec::default() }, next_from: 0 });
        small.does(&Statement::Expire { ends_ms: 1000 });
        a.join(vec![SequenceRequest { values: 1, times: 1 }], 7);
        let fetch = a.begin_fetch(0, &POLICY).expect("a fetch");
        let answer = small.reserve(fetch);
        assert_eq!(a.fetched(1000, answer), FetchVerdict::Yes);
        let mut served = vec![];
        a.serve(1000, &mut |who, result| served.push((who, result)));
        assert_eq!(served, [(7, Err(SequenceRefusal::Ended { unix_ms: 1000 }))]);
        small.now_ms = 2000;
        small.expire(&mut a, 0);
        assert!(small.incr(&mut a).is_ok(), "the next fetch is not blocked");
    }
}

#[test]
fn the_row_is_given_back_after_a_change_of_its_end_too() {
    let (mut small, mut a) = (SmallWorld::new(), server());
    assert_eq!([small.incr(&mut a), small.incr(&mut a)], [Ok(1), Ok(2)]);
    small.expire(&mut a, 1000);
    let statement = give_back(&mut a).expect("values are left");
    small.does(&statement);
    assert_eq!((small.row().next, small.row().ends_ms), (3, 1000));
}

/// B raises the row to 500, and A, which has not read that yet, changes the end.
#[test]
pub(super) fn an_end_that_follows_an_unseen_raise_discards_values_below_it() {
    let (mut small, mut a) = (SmallWorld::new(), server());
    assert_eq!([small.incr(&mut a), small.incr(&mut a)], [Ok(1), Ok(2)]);
    small.does(&Statement::Raise { last: 500 });
    small.expire(&mut a, 1000);
    assert_eq!(small.incr(&mut a), Ok(501));
}

/// With two stores, a change in one of them leaves the end of the other's values in force.
#[test]
fn an_end_holds_for_the_values_of_another_store() {
    let mut a = server();
    let end = Some(RowEnd { unix_ms: 1000, at_ms: 1000 });
    for store in [0, 1] {
        a.join(vec![SequenceRequest { values: 1, times: 1 }], 0);
        a.begin_fetch(0, &POLICY).expect("a fetch");
        let first = 1 + 100 * i64::from(store);
        let segment = Segment { first, last: first, increment: 1 };
        let last = Segment { last: first + 90, ..segment };
        let segment = if store == 0 { segment } else { last };
        a.fetched(0, Fetched::Reserved { store, segment, version: 1, generation: 1, spec: Spec::default(), end });
        a.serve(0, &mut |_, _| {});
    }
    assert!(a.set_generation(0, 2));
    assert_eq!((a.known_end(), a.holds_values()), (None, true));
    let ask = SequenceRequest { values: 1, times: 1 };
    assert_eq!(a.draw(999, ask, &mut vec![]), 0);
    assert_eq!(a.draw(1000, ask, &mut vec![]), 1);
}
