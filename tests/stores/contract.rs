//! The contract of every store with getid's own tables: named scenarios, each in an empty database.

use std::collections::BTreeSet;
use std::sync::Barrier;

use getid_core::server::{
    CivilDay, CivilTime, EndChange, EndCondition, FiscalStart, INCREMENT_MAX, RESERVED_MAX, Reset, VALUE_MAX,
};
use getid_store::sql::{
    BATCH_MAX, BegunPeriod, CreateRequest, GiveBackRequest, OpenPeriodRequest, PruneResult, ReserveRequest, RowChange,
    RowState, SequenceRow, SeriesBounds, StoreError, TableKind, Verdict,
};

use crate::beats::{
    a_comparison_leaves_closed_periods, a_comparison_raises_what_is_lower, a_reservation_needs_the_row_of_its_server,
    an_address_with_a_uuid_is_for_one_store, rows_of_servers_are_kept, two_comparisons_keep_the_higher_note,
};
use crate::db::{Db, StoreFixture, ask, create, key, opening, range, spec};
use crate::numbers::{
    a_comparison_completes_quiet_ledgers, a_confirmed_counter_keeps_its_ledger,
    a_counter_with_a_ledger_is_changed_by_it_only, a_ledger_begins_with_its_generator, a_ledger_is_read_page_by_page,
    a_ledger_that_went_back_is_unclear, a_ledger_without_its_generator_waits_for_it,
    a_lost_counter_continues_above_a_raise, a_plain_name_with_a_ledger_is_no_sequence,
    no_number_twice_by_two_connections, numbers_are_kept_with_their_requests,
    one_period_of_all_series_is_found_step_by_step, released_requests_are_bounded,
};
use crate::requests::{
    a_batch_of_claims_is_counted, a_claim_needs_the_row_of_its_server, a_request_keeps_its_first_reply,
    ended_requests_are_removed_by_both_clocks, one_reply_for_a_request_of_two_servers,
    requests_are_compared_byte_for_byte,
};
use crate::support::Random;
use crate::support::scenarios::{scenarios, selected_scenarios};

type Scenario = fn(&dyn StoreFixture);

const SCENARIOS: &[(&str, Scenario)] = scenarios![
    Scenario;
    questions_create_nothing,
    a_new_row_has_the_given_options,
    names_are_compared_byte_for_byte,
    ranges_follow_each_other,
    none_is_below_the_floor,
    values_keep_their_residue,
    the_max_is_given_and_nothing_past_it,
    the_largest_numbers_fit,
    a_batch_answers_in_order,
    a_row_that_has_ended_reserves_nothing,
    values_given_back_are_given_again_once,
    nothing_is_given_back_after_another_has_reserved,
    nothing_is_given_back_after_a_change,
    a_dropped_name_continues_above_its_position,
    a_sequence_dropped_long_ago_may_restart,
    a_maximum_of_a_counter_in_redis_is_read,
    there_are_only_so_many_rows,
    a_raise_only_goes_up,
    an_altered_row_continues_above_all_values,
    a_row_that_went_back_gives_nothing_until_it_is_confirmed,
    changes_are_listed_in_order,
    more_changes_than_one_answer_has,
    lists_are_read_page_by_page,
    a_period_begins_with_its_row,
    periods_never_go_back,
    a_redeclared_generator_continues_above_all_values,
    a_reset_that_changes_repeats_nothing_at_the_border_of_a_period,
    changes_of_the_interval_keep_values_apart,
    periods_that_have_begun_are_noted,
    ended_periods_are_removed_and_never_begun_again,
    each_key_has_counters_of_its_own,
    keys_are_bounded_and_listed,
    a_reset_that_changes_continues_each_key_above_its_own_values,
    a_store_reports_about_itself,
    the_printed_schema_is_enough,
    a_row_that_was_edited_is_refused_by_name,
    a_list_names_rows_that_cannot_be_read,
    rows_are_created_together,
    a_creation_reserves_values_of_each_new_row,
    no_value_twice_by_two_connections,
    one_row_for_a_period_that_two_open,
    one_row_for_a_name_that_two_create,
    a_request_keeps_its_first_reply,
    requests_are_compared_byte_for_byte,
    a_batch_of_claims_is_counted,
    ended_requests_are_removed_by_both_clocks,
    unused_rows_cost_nothing,
    numbers_are_kept_with_their_requests,
    a_ledger_is_read_page_by_page,
    released_requests_are_bounded,
    one_period_of_all_series_is_found_step_by_step,
    a_ledger_begins_with_its_generator,
    a_plain_name_with_a_ledger_is_no_sequence,
    a_lost_counter_continues_above_a_raise,
    a_comparison_completes_quiet_ledgers,
    a_confirmed_counter_keeps_its_ledger,
    a_counter_with_a_ledger_is_changed_by_it_only,
    a_ledger_that_went_back_is_unclear,
    a_ledger_without_its_generator_waits_for_it,
    no_number_twice_by_two_connections,
];

/// Scenarios of stores that servers share.
const SHARED: &[(&str, Scenario)] = scenarios![
    Scenario;
    rows_of_servers_are_kept,
    a_reservation_needs_the_row_of_its_server,
    a_comparison_raises_what_is_lower,
    a_comparison_leaves_closed_periods,
    two_comparisons_keep_the_higher_note,
    an_address_with_a_uuid_is_for_one_store,
    a_claim_needs_the_row_of_its_server,
    one_reply_for_a_request_of_two_servers,
];

/// Runs all scenarios on a store.
pub(crate) fn check_all(fixture: &dyn StoreFixture) {
    let store = fixture.store();
    let shared = if store.is_shared() { SHARED } else { &[] };
    for scenario in selected_scenarios(store.shown(), SCENARIOS).chain(selected_scenarios(store.shown(), shared)) {
        fixture.clear();
        scenario(fixture);
    }
}

fn questions_create_nothing(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    assert_eq!(db.reserve("orders", 10), Err(Verdict::NoSuch));
    assert_eq!(db.reserve("orders@D20260101", 10), Err(Verdict::NoSuch));
    assert_eq!(db.raise("orders", 10), Err(Verdict::NoSuch));
    assert_eq!(db.change("orders", &RowChange::Drop), Err(Verdict::NoSuch));
    assert_eq!(db.change("orders", &RowChange::WentBack { had_next: 9 }), Err(Verdict::NoSuch));
    assert_eq!(db.give_back_all(&[GiveBackRequest { key: key("orders"), version: 0, next: 1 }]), [false]);
    assert_eq!((db.row("orders"), db.count(), db.list("", 10, true)), (None, 0, Vec::new()));
    assert_eq!(db.changes(Some(0)).rows, []);
    assert_eq!(db.reserve_all(&[]), []);
}

fn a_new_row_has_the_given_options(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let now = db.info().unix_ms;
    for (name, options, next) in [
        ("plain", "", 1),
        ("zero", "start 0", 0),
        ("all", "start 100 increment 7 offset 3 cache 0 max 5000 policy error", 101),
        ("waits", "policy wait cache 10000000", 1),
        ("far", "start 8999999999999999999", 8_999_999_999_999_999_999),
    ] {
        let row = db.create(name, options);
        assert_eq!((row.key.as_str(), row.next, row.state), (name, next, RowState::Live), "{name}");
        assert_eq!(row.spec, spec(options), "{name}");
        assert!((row.created_unix_ms - now).abs() < 60_000, "{name}: {} at {now}", row.created_unix_ms);
        assert_eq!(db.row(name), Some(row.clone()));
        assert_eq!(db.create_of(&create(name, "start 7")), Err(Verdict::Exists(Box::new(row.clone()))), "{name}");
        assert_eq!(db.row(name), Some(row), "{name}: a refused creation changes nothing");
    }
    assert_eq!(db.count(), 5);
    drop(db);
    assert_eq!(
        Db::open(fixture).row("all").unwrap().spec,
        spec("start 100 increment 7 offset 3 cache 0 max 5000 policy error")
    );
}

fn names_are_compared_byte_for_byte(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let longest = "x".repeat(128);
    let nearly = format!("{}y", "x".repeat(127));
    let names = [
        "orders",
        "Orders",
        "ORDERS",
        "orders.",
        "orders-",
        "orders_",
        "orders:a",
        "orders:A",
        "orders a",
        "{orders}.a",
        "#orders",
        &longest,
        &nearly,
    ];
    for (at, name) in names.iter().enumerate() {
        db.create(name, &format!("start {}", (at + 1) * 1000));
    }
    for (at, name) in names.iter().enumerate() {
        assert_eq!(range(&db.reserve(name, 1).unwrap()).0, (i64::try_from(at).unwrap() + 1) * 1000, "{name}");
    }
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    assert_eq!(db.list("", 100, false), sorted, "the order is that of bytes");
    for (at, name) in sorted.iter().enumerate() {
        assert_eq!(db.list(name, 100, false), sorted[at + 1..], "after {name}");
    }
    assert_eq!(db.reserve("oRders", 1), Err(Verdict::NoSuch));
}

fn ranges_follow_each_other(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let created = db.create("orders", "");
    let mut before = created.clone();
    for (values, first, last) in [(1, 1, 1), (10, 2, 11), (RESERVED_MAX, 12, 10_000_011), (1, 10_000_012, 10_000_012)] {
        let reserved = db.reserve("orders", values).unwrap();
        assert_eq!((range(&reserved), reserved.found_next), ((first, last), before.next));
        assert_eq!((reserved.row.next, reserved.row.version), (last + 1, before.version + 1));
        assert_eq!((reserved.row.generation, reserved.row.spec), (created.generation, created.spec));
        assert!(reserved.row.updated_unix_ms >= before.updated_unix_ms);
        before = reserved.row;
        assert_eq!(db.row("orders").as_ref(), Some(&before));
    }
    // The next values are read through a new connection.
    drop(db);
    assert_eq!(range(&Db::open(fixture).reserve("orders", 5).unwrap()), (10_000_013, 10_000_017));
}

fn none_is_below_the_floor(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("orders", "increment 10 offset 4");
    let mut from = |floor: i64, values: u32| {
        let reserved = db.reserve_of(&ReserveRequest { floor, ..ask("orders", values) }).unwrap();
        (reserved.found_next, reserved.first, reserved.last)
    };
    assert_eq!(from(0, 2), (4, 4, 14));
    assert_eq!(from(24, 1), (24, 24, 24), "the next value is not below the floor");
    assert_eq!(from(3, 1), (34, 34, 34), "a floor below the row changes nothing");
    assert_eq!(from(45, 1), (44, 54, 54), "the first of its residue past the floor");
    assert_eq!(from(1_000_000, 3), (64, 1_000_004, 1_000_024));
    assert_eq!(db.row("orders").unwrap().next, 1_000_034);
    db.create("short", "max 100");
    let reserved = db.reserve_of(&ReserveRequest { floor: 99, ..ask("short", 10) }).unwrap();
    assert_eq!(range(&reserved), (99, 100));
    db.create("past", "max 100");
    let reserved = db.reserve_of(&ReserveRequest { floor: VALUE_MAX, ..ask("past", 10) }).unwrap();
    assert!(reserved.last < reserved.first, "{reserved:?}");
}

fn values_keep_their_residue(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    for (options, first, last, next) in [
        ("increment 2 offset 1", 1, 5, 7),
        ("increment 2 offset 2", 2, 6, 8),
        ("increment 5 offset 3 start 7", 8, 18, 23),
        ("increment 5 offset 5 start 0", 0, 10, 15),
        ("increment 1000000 offset 999999 start 5", 999_999, 2_999_999, 3_999_999),
    ] {
        let name = options.replace(' ', "-");
        assert_eq!(db.create(&name, options).next, first, "{options}");
        let reserved = db.reserve(&name, 3).unwrap();
        assert_eq!((range(&reserved), reserved.row.next), ((first, last), next), "{options}");
    }
}

fn the_max_is_given_and_nothing_past_it(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("ten", "max 10");
    assert_eq!(range(&db.reserve("ten", 7).unwrap()), (1, 7));
    assert_eq!(range(&db.reserve("ten", 7).unwrap()), (8, 10), "the values that are left");
    for _ in 0..3 {
        let empty = db.reserve("ten", 1).unwrap();
        assert!(empty.last < empty.first, "{empty:?}");
        assert_eq!((empty.row.next, empty.found_next), (11, 11));
    }
    db.create("odd", "increment 4 offset 1 max 12");
    let reserved = db.reserve("odd", 100).unwrap();
    assert_eq!((range(&reserved), reserved.row.next), ((1, 9), 13));
    assert!(db.reserve("odd", 1).unwrap().last < 13);
    let row = db.change("ten", &RowChange::Alter { spec: spec("max 12"), next_from: 0 }).unwrap();
    assert_eq!(row.next, 11);
    assert_eq!(range(&db.reserve("ten", 100).unwrap()), (11, 12));
}

fn the_largest_numbers_fit(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let start = VALUE_MAX - 3;
    db.create("last", &format!("start {start}"));
    assert_eq!(range(&db.reserve("last", RESERVED_MAX).unwrap()), (start, VALUE_MAX));
    let empty = db.reserve("last", RESERVED_MAX).unwrap();
    assert!(empty.last < empty.first && empty.row.next == VALUE_MAX + 1, "{empty:?}");
    db.create("wide", &format!("increment {INCREMENT_MAX} offset 1 start 8999980000000000000"));
    let wide = db.reserve("wide", RESERVED_MAX).unwrap();
    assert_eq!(wide.first, 8_999_980_000_000_000_001);
    assert_eq!(wide.last - wide.first, (i64::from(RESERVED_MAX) - 1) * i64::from(INCREMENT_MAX));
    let wide = db.reserve("wide", RESERVED_MAX).unwrap();
    assert!(wide.last <= VALUE_MAX && wide.last >= wide.first && wide.row.next > VALUE_MAX - 2_000_000, "{wide:?}");
    let wide = db.reserve("wide", RESERVED_MAX);
    assert!(wide.as_ref().is_ok_and(|wide| wide.last <= VALUE_MAX), "{wide:?}");
    db.create("raised", "");
    let row = db.raise("raised", VALUE_MAX).unwrap();
    assert_eq!(row.next, VALUE_MAX + 1);
    let empty = db.reserve("raised", 1).unwrap();
    assert!(empty.last < empty.first, "{empty:?}");
    // Options that step over the largest value do not produce values that cannot be read back.
    for offset in [1, 500_000, 1_000_000, 7] {
        let spec = spec(&format!("increment {INCREMENT_MAX} offset {offset}"));
        let row = db.change("raised", &RowChange::Alter { spec, next_from: VALUE_MAX + 1 }).unwrap();
        assert_eq!(db.row("raised"), Some(row));
    }
}

fn a_batch_answers_in_order(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let names: Vec<String> = (0..BATCH_MAX).map(|n| format!("s{}", (n * 37) % BATCH_MAX)).collect();
    for (at, name) in names.iter().enumerate() {
        match at % 8 {
            3 => continue,
            5 => drop(db.create(name, &format!("start {at} max {at}"))),
            _ => drop(db.create(name, &format!("start {}", at * 100))),
        }
        match at % 8 {
            1 => drop(db.change(name, &RowChange::Drop).unwrap()),
            2 => drop(db.change(name, &RowChange::WentBack { had_next: 0 }).unwrap()),
            _ => {}
        }
    }
    let asks: Vec<ReserveRequest> = names.iter().map(|name| ask(name, 2)).collect();
    let answers = db.reserve_all(&asks);
    for (at, answer) in (0_i64..).zip(&answers) {
        match at % 8 {
            1 => assert_eq!(*answer, Err(Verdict::Dropped { last: at * 100 - 1 }), "{at}"),
            2 => assert_eq!(*answer, Err(Verdict::WentBack { next: at * 100 }), "{at}"),
            3 => assert_eq!(*answer, Err(Verdict::NoSuch), "{at}"),
            5 => assert_eq!(range(answer.as_ref().unwrap()), (at, at), "{at}"),
            _ => {
                let reserved = answer.as_ref().unwrap();
                assert_eq!(range(reserved), (at * 100, at * 100 + 1), "{at}");
                assert_eq!(reserved.row.key.as_str(), names[usize::try_from(at).unwrap()]);
            }
        }
    }
    let ends: Vec<GiveBackRequest> = (0..)
        .zip(&names)
        .map(|(at, name)| GiveBackRequest { key: key(name), version: 1, next: at * 100 + 1 })
        .collect();
    let expected: Vec<bool> = (0..BATCH_MAX).map(|at| !matches!(at % 8, 1 | 2 | 3 | 5)).collect();
    assert_eq!(db.give_back_all(&ends), expected);
    assert_eq!(db.give_back_all(&ends), vec![false; BATCH_MAX]);
}

fn a_row_that_has_ended_reserves_nothing(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let end = |unix_ms| RowChange::Expire(EndChange { unix_ms, condition: EndCondition::default() });
    let far = 4_000_000_000_000;
    assert_eq!(db.change("orders", &end(far)), Err(Verdict::NoSuch));
    let made = db.create("orders", "");
    assert_eq!((made.ends_unix_ms, db.change("orders", &RowChange::Persist)), (0, kept(false)));
    assert_eq!(range(&db.reserve("orders", 10).unwrap()), (1, 10));
    let row = db.change("orders", &end(far)).unwrap();
    assert_eq!((row.ends_unix_ms, row.generation), (far, made.generation + 1));
    assert_eq!(db.row("orders"), Some(row.clone()));
    assert_eq!(db.change("orders", &end(far + 1)), kept(true), "an end that is close is not written");
    let later = EndCondition { is_later: true, ..EndCondition::default() };
    let unmet = RowChange::Expire(EndChange { unix_ms: far - 1, condition: later });
    assert_eq!(db.change("orders", &unmet), kept(false));
    assert_eq!(db.row("orders"), Some(row));
    assert_eq!(range(&db.reserve("orders", 10).unwrap()), (11, 20), "it has not ended");
    let row = db.change("orders", &end(0)).unwrap();
    let unix_ms = row.ends_unix_ms;
    assert!(unix_ms > 0 && unix_ms <= row.updated_unix_ms, "{row:?}");
    let ended = || Verdict::Ended { unix_ms };
    assert_eq!(db.reserve("orders", 1), Err(ended()));
    assert_eq!(db.change("orders", &end(far)), Err(ended()));
    assert_eq!(db.raise("orders", 500), Err(ended()));
    assert_eq!(db.row("orders"), Some(row), "nothing has changed");
    let raised = db.change("orders", &RowChange::Raise { last: 500, settles: Some(0) }).unwrap();
    assert_eq!((raised.next, raised.ends_unix_ms), (501, unix_ms), "an operator may raise it");
    assert_eq!(db.count(), 1, "it counts");
    assert_eq!(db.change("orders", &RowChange::Persist).unwrap().ends_unix_ms, 0);
    assert_eq!(range(&db.reserve("orders", 10).unwrap()), (501, 510));
    db.change("orders", &end(far)).unwrap();
    db.change("orders", &RowChange::Drop).unwrap();
    let again = db.create_of(&CreateRequest { above_dropped: true, ..create("orders", "") }).unwrap();
    assert_eq!(again.ends_unix_ms, 0, "a new sequence has no end");
}

fn kept(is_met: bool) -> Result<SequenceRow, Verdict> {
    Err(Verdict::EndKept { is_met })
}

fn values_given_back_are_given_again_once(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("orders", "increment 3 offset 2");
    let reserved = db.reserve("orders", 10).unwrap();
    assert_eq!(range(&reserved), (2, 29));
    for (what, row, next) in [
        ("a version before", SequenceRow { version: reserved.row.version - 1, ..reserved.row.clone() }, 11),
        ("a version to come", SequenceRow { version: reserved.row.version + 1, ..reserved.row.clone() }, 11),
        ("nothing", reserved.row.clone(), 32),
        ("more than was reserved", reserved.row.clone(), 35),
    ] {
        assert!(!db.give_back(&row, next), "{what}");
        assert_eq!(db.row("orders"), Some(reserved.row.clone()), "{what}");
    }
    assert!(db.give_back(&reserved.row, 11));
    let row = db.row("orders").unwrap();
    assert_eq!((row.next, row.generation), (11, reserved.row.generation));
    assert!(row.version > reserved.row.version, "a version is never there again");
    assert!(!db.give_back(&reserved.row, 5), "given back twice");
    assert!(!db.give_back(&reserved.row, 11), "given back twice");
    assert_eq!(range(&db.reserve("orders", 2).unwrap()), (11, 14));
    assert!(!db.give_back(&reserved.row, 5), "after it was given again");
}

fn nothing_is_given_back_after_another_has_reserved(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("orders", "");
    let first = db.reserve("orders", 100).unwrap();
    let second = db.reserve("orders", 100).unwrap();
    assert!(!db.give_back(&first.row, 50));
    assert_eq!(db.row("orders"), Some(second.row.clone()));
    // After giving back and reserving again, the row's `next` is the same, but its version differs.
    assert!(db.give_back(&second.row, 101));
    let third = db.reserve("orders", 100).unwrap();
    assert_eq!((third.row.next, range(&third)), (second.row.next, (101, 200)));
    assert!(!db.give_back(&second.row, 150));
}

fn nothing_is_given_back_after_a_change(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    for (name, change) in [
        ("raised", RowChange::Raise { last: 1000, settles: None }),
        ("altered", RowChange::Alter { spec: spec("cache 5"), next_from: 0 }),
        ("dropped", RowChange::Drop),
        ("went-back", RowChange::WentBack { had_next: 0 }),
        ("confirmed", RowChange::Confirm { has_ledger: false }),
    ] {
        db.create(name, "");
        let reserved = db.reserve(name, 100).unwrap();
        let row = db.change(name, &change).unwrap();
        assert!(!db.give_back(&reserved.row, 50), "{name}");
        assert_eq!(db.row(name), Some(row), "{name}");
    }
}

fn a_dropped_name_continues_above_its_position(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("orders", "");
    db.reserve("orders", 100).unwrap();
    let dropped = db.change("orders", &RowChange::Drop).unwrap();
    assert_eq!((dropped.state, dropped.next), (RowState::Dropped, 101));
    let refused = || Verdict::Dropped { last: 100 };
    assert_eq!(db.reserve("orders", 1), Err(refused()));
    assert_eq!(db.reserve_in("orders", 1), Err(refused()));
    assert_eq!(db.raise("orders", 500), Err(refused()));
    assert_eq!(db.change("orders", &RowChange::Drop), Err(refused()));
    assert_eq!(db.change("orders", &RowChange::Confirm { has_ledger: false }), Err(refused()));
    assert_eq!(db.change("orders", &RowChange::Alter { spec: spec(""), next_from: 0 }), Err(refused()));
    assert_eq!(db.create_of(&create("orders", "")), Err(refused()));
    assert_eq!((db.count(), db.list("", 10, true)), (0, Vec::new()));
    assert_eq!(db.row("orders"), Some(dropped.clone()), "its tombstone");
    let again = CreateRequest { above_dropped: true, ..create("orders", "increment 10 offset 10 cache 7") };
    let row = db.create_of(&again).unwrap();
    assert_eq!((row.next, row.spec, row.state), (110, again.spec, RowState::Live));
    assert!(row.generation > dropped.generation && row.version > dropped.version, "{row:?}");
    assert_eq!(range(&db.reserve("orders", 2).unwrap()), (110, 120));
    let row = db.row("orders").unwrap();
    assert_eq!(db.create_of(&again), Err(Verdict::Exists(Box::new(row))), "it is no tombstone any more");
    db.change("orders", &RowChange::Drop).unwrap();
    let later = CreateRequest { above_dropped: true, ..create("orders", "start 5000") };
    assert_eq!(db.create_of(&later).unwrap().next, 5000);
}

fn a_sequence_dropped_long_ago_may_restart(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let fresh = |after_ms| CreateRequest { fresh_after_ms: Some(after_ms), ..create("orders", "start 5 increment 2") };
    let first = db.create_of(&fresh(0)).unwrap();
    db.reserve("orders", 100).unwrap();
    assert!(matches!(db.create_of(&fresh(0)), Err(Verdict::Exists(_))), "the sequence exists");
    let dropped = db.change("orders", &RowChange::Drop).unwrap();
    let Err(Verdict::Unsupported(message)) = db.create_of(&fresh(3_600_000)) else {
        panic!("it may be created again at once")
    };
    let left =
        message.split("servers and clients may have values of it for ").nth(1).and_then(|rest| rest.split(' ').next());
    let left = left.and_then(|digits| digits.parse::<u32>().ok());
    assert!(left.is_some_and(|left| (3500..=3600).contains(&left)), "{message}");
    let again = db.create_of(&fresh(0)).unwrap();
    assert_eq!((again.next, again.spec), (first.next, first.spec));
    assert!(again.generation > dropped.generation && again.version > dropped.version, "{again:?}");
    assert_eq!(range(&db.reserve("orders", 3).unwrap()), (5, 9));
}

fn a_maximum_of_a_counter_in_redis_is_read(fixture: &dyn StoreFixture) {
    match Db::open(fixture).maximum("id_generator", 1) {
        // A SQLite file has only getid's own tables.
        Ok(Err(Verdict::Unsupported(message))) => {
            return assert!(fixture.store().shown().starts_with("sqlite:") && message.contains("MySQL"), "{message}");
        }
        Err(StoreError::Refused(message)) => assert!(message.contains("id_generator"), "{message}"),
        other => panic!("there is no such table, but the answer is {other:?}"),
    }
    let table = "CREATE TABLE id_generator (id int PRIMARY KEY, current_max_id bigint, increment_step int);";
    fixture
        .sql(&format!("{table} INSERT INTO id_generator VALUES (1, 123456789012, 1000), (2, 7, 1), (3, NULL, 1);"))
        .unwrap();
    let mut db = Db::open(fixture);
    let found = [1, 2, 9].map(|id| db.maximum("id_generator", id));
    assert_eq!(found, [Ok(Ok(Some(123_456_789_012))), Ok(Ok(Some(7))), Ok(Ok(None))]);
    assert!(matches!(db.maximum("id_generator", 3), Ok(Err(Verdict::BadRow(_)))), "it has no maximum");
}

fn there_are_only_so_many_rows(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let new = |name: &str| CreateRequest { rows_max: 3, ..create(name, "") };
    let full = Err(Verdict::TooMany { max: 3 });
    db.reserve_in("invoice@Y20260101", 1).unwrap();
    for name in ["a", "b", "c"] {
        db.create_of(&new(name)).unwrap();
    }
    assert_eq!(db.count(), 3);
    assert_eq!(db.create_of(&new("d")), full);
    assert_eq!(db.row("d"), None);
    assert!(matches!(db.create_of(&new("a")), Err(Verdict::Exists(_))), "an existing row comes before the limit");
    assert!(db.create_of(&create("e", "")).is_ok(), "without a limit");
    assert_eq!(db.create_of(&new("d")), full);
    for name in ["a", "b"] {
        db.change(name, &RowChange::Drop).unwrap();
    }
    assert_eq!(db.count(), 2, "a tombstone is not counted");
    assert!(db.create_of(&new("d")).is_ok());
    assert_eq!(db.create_of(&CreateRequest { above_dropped: true, ..new("a") }), full);
    drop(db);
    let mut db = Db::open(fixture);
    assert_eq!(db.create_of(&new("f")), full, "a new connection counts again");
    assert_eq!(db.count(), 3);
}

fn a_raise_only_goes_up(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("orders", "increment 10 offset 3");
    let before = db.reserve("orders", 3).unwrap().row;
    assert_eq!(before.next, 33);
    for last in [i64::MIN, -1, 0, 5, 23, 32] {
        assert_eq!(db.raise("orders", last), Err(Verdict::Lower { row: Box::new(before.clone()) }), "{last}");
        assert_eq!(db.row("orders"), Some(before.clone()), "{last}");
    }
    let mut generation = before.generation;
    for (last, next) in [(33, 43), (50, 53), (52, 0), (53, 63), (1_000_000, 1_000_003)] {
        let raised = db.raise("orders", last);
        if next == 0 {
            assert!(matches!(raised, Err(Verdict::Lower { .. })), "{last}: {raised:?}");
            continue;
        }
        let row = raised.unwrap();
        generation += 1;
        assert_eq!((row.next, row.generation, row.state), (next, generation, RowState::Live), "{last}");
        assert_eq!(row.spec, before.spec);
        assert_eq!(db.row("orders"), Some(row), "{last}");
    }
    assert_eq!(range(&db.reserve("orders", 1).unwrap()), (1_000_003, 1_000_003));
}

fn an_altered_row_continues_above_all_values(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("orders", "cache 7 policy error");
    let before = db.reserve("orders", 100).unwrap().row;
    let mut alter = |options: &str, next_from: i64| {
        let change = RowChange::Alter { spec: spec(options), next_from };
        let row = db.change("orders", &change).unwrap();
        assert_eq!(db.row("orders").as_ref(), Some(&row));
        assert_eq!((row.spec, row.state), (spec(options), RowState::Live));
        (row.next, row.generation - before.generation)
    };
    assert_eq!(alter("cache 9", 0), (101, 1), "it does not decrease");
    assert_eq!(alter("increment 2 offset 2", 0), (102, 2), "to a value of the new ones");
    assert_eq!(alter("increment 2 offset 2", 501), (502, 3), "above the highest of several stores");
    assert_eq!(alter("start 1000 policy wait", 0), (1000, 4));
    assert_eq!(alter("max 500", 0), (1000, 5), "above a max that is now lower");
    let empty = db.reserve("orders", 1).unwrap();
    assert!(empty.last < empty.first, "{empty:?}");
}

fn a_row_that_went_back_gives_nothing_until_it_is_confirmed(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("orders", "increment 10 offset 5");
    let before = db.reserve("orders", 1).unwrap().row;
    let marked = db.change("orders", &RowChange::WentBack { had_next: 201 }).unwrap();
    assert_eq!((marked.state, marked.next), (RowState::WentBack, 205));
    assert!(marked.generation > before.generation);
    let refused = |next| Err(Verdict::WentBack { next });
    assert_eq!(db.reserve("orders", 1), refused(205));
    let again = db.change("orders", &RowChange::WentBack { had_next: 11 }).unwrap();
    assert_eq!((again.state, again.next), (RowState::WentBack, 205), "another server that had less");
    let not_more =
        |answer| assert!(matches!(answer, Err(Verdict::Lower { row }) if row.state == again.state), "had less");
    not_more(db.change("orders", &RowChange::HadMore { had_next: 205 }));
    let more = db.change("orders", &RowChange::HadMore { had_next: 206 }).unwrap();
    assert_eq!((more.state, more.next), (RowState::WentBack, 215), "another server that had more");
    let raised = db.raise("orders", 300).unwrap();
    assert_eq!((raised.state, raised.next), (RowState::WentBack, 305), "a raise that does not confirm");
    assert_eq!(db.reserve("orders", 1), refused(305));
    let altered = db.change("orders", &RowChange::Alter { spec: spec(""), next_from: 0 }).unwrap();
    assert_eq!(altered.state, RowState::WentBack);
    let row = db.change("orders", &RowChange::Confirm { has_ledger: false }).unwrap();
    assert_eq!((row.state, row.next), (RowState::Live, 305));
    assert!(matches!(
        db.change("orders", &RowChange::HadMore { had_next: 500 }),
        Err(Verdict::Lower { row }) if (row.state, row.next) == (RowState::Live, 305)
    ));
    assert!(row.generation > altered.generation);
    assert_eq!(range(&db.reserve("orders", 1).unwrap()), (305, 305));
    db.change("orders", &RowChange::WentBack { had_next: 0 }).unwrap();
    let row = db.change("orders", &RowChange::Raise { last: 400, settles: Some(0) }).unwrap();
    assert_eq!((row.state, row.next), (RowState::Live, 401));
    let settles = |db: &mut Db, last, noted| {
        db.change("orders", &RowChange::WentBack { had_next: 0 }).unwrap();
        let row = db.change("orders", &RowChange::Raise { last, settles: Some(noted) }).unwrap();
        assert_eq!(row.state, RowState::Live);
        row.next
    };
    assert_eq!(settles(&mut db, 400, 0), 401, "at its position");
    assert_eq!(settles(&mut db, 100, 401), 401, "below its position, where the notes agree");
    assert_eq!(settles(&mut db, 100, 450), 450, "the notes have more");
    assert!(matches!(
        db.change("orders", &RowChange::Raise { last: 100, settles: Some(500) }),
        Err(Verdict::Lower { row }) if (row.state, row.next) == (RowState::Live, 450)
    ));
    assert_eq!(db.count(), 1, "with the mark and without it, it is a row");
}

fn changes_are_listed_in_order(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let begin = db.changes(None);
    assert_eq!(begin.rows, []);
    let changes_since = |db: &mut Db, seen: u64| {
        let changes = db.changes(Some(seen));
        let rows = changes.rows.iter().map(|(key, generation)| (key.to_string(), *generation)).collect::<Vec<_>>();
        (rows, changes.upto)
    };
    let a = db.create("a", "");
    let b = db.create("b", "");
    let expected = vec![("a".to_owned(), a.generation), ("b".to_owned(), b.generation)];
    let (rows, upto) = changes_since(&mut db, begin.upto);
    assert_eq!(rows, expected);
    assert_eq!(db.changes(None).upto, upto);
    assert_eq!(changes_since(&mut db, upto), (vec![], upto));
    // None of these changes a generation.
    let reserved = db.reserve("b", 10).unwrap();
    assert!(db.give_back(&reserved.row, 5));
    assert!(matches!(db.raise("a", 0), Err(Verdict::Lower { .. })));
    assert!(matches!(db.create_of(&create("a", "")), Err(Verdict::Exists(_))));
    assert_eq!(changes_since(&mut db, upto), (vec![], upto));
    let b = db.raise("b", 1000).unwrap();
    db.raise("a", 1000).unwrap();
    let a = db.change("a", &RowChange::Drop).unwrap();
    let (rows, later) = changes_since(&mut db, upto);
    assert_eq!(rows, [("b".to_owned(), b.generation), ("a".to_owned(), a.generation)]);
    assert!(later > upto);
    let a = db.create_of(&CreateRequest { above_dropped: true, ..create("a", "") }).unwrap();
    assert_eq!(changes_since(&mut db, later).0, [("a".to_owned(), a.generation)]);
    drop(db);
    let mut db = Db::open(fixture);
    assert_eq!(changes_since(&mut db, later).0, [("a".to_owned(), a.generation)], "after reopening, too");
}

/// Inserts live rows without getid. With `are_changes`, each has its own `changed`: its position, from 2 on.
fn insert(fixture: &dyn StoreFixture, names: impl ExactSizeIterator<Item = String>, are_changes: bool) {
    let changes = names.len() + 1;
    let rows: Vec<String> = (2..)
        .zip(names)
        .map(|(at, name)| {
            let changed = if are_changes { at } else { 0 };
            format!("('{name}', 1, {changed}, 1, 1, 1, 100, 9000000000000000000, 1, 1)")
        })
        .collect();
    let columns = "name, next, changed, start, increment, offset_, cache, max_value, created, updated";
    let inserts =
        rows.chunks(1000).map(|rows| format!("INSERT INTO getid_sequence ({columns}) VALUES {};", rows.join(",")));
    let counted = are_changes.then(|| format!("UPDATE getid_store SET changes = {changes};"));
    let statements: String = inserts.chain(counted).collect();
    fixture.sql(&statements).unwrap();
}

fn more_changes_than_one_answer_has(fixture: &dyn StoreFixture) {
    const ROWS: usize = 2100;
    let mut db = Db::open(fixture);
    db.create("orders", "");
    let mut seen = db.changes(None).upto;
    drop(db);
    insert(fixture, (0..ROWS).map(|n| format!("s{n}")), true);
    let mut db = Db::open(fixture);
    let (mut found, mut answers) = (Vec::new(), 0);
    loop {
        let changes = db.changes(Some(seen));
        assert!(changes.rows.len() <= 1000, "{}", changes.rows.len());
        if changes.rows.is_empty() {
            assert_eq!(changes.upto, seen);
            break;
        }
        assert!(changes.upto > seen);
        (seen, answers) = (changes.upto, answers + 1);
        found.extend(changes.rows.into_iter().map(|(key, _)| key.to_string()));
    }
    let expected: Vec<String> = (0..ROWS).map(|n| format!("s{n}")).collect();
    assert_eq!(found, expected, "each once, in order");
    assert_eq!(answers, 3);
}

fn lists_are_read_page_by_page(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    for name in ["b", "a", "a.b", "B", "c", "gone", "{a@26}"] {
        db.create(name, "");
    }
    db.change("gone", &RowChange::Drop).unwrap();
    for period in ["a@Y20250101", "a@Y20260101", "c@M20260101"] {
        db.reserve_in(period, 1).unwrap();
    }
    assert_eq!(db.list("", 100, false), ["B", "a", "a.b", "b", "c", "{a@26}"]);
    assert_eq!(db.list("", 2, false), ["B", "a"]);
    assert_eq!(db.list("a", 2, false), ["a.b", "b"]);
    assert_eq!(db.list("aa", 1, false), ["b"], "after a name that is none");
    assert_eq!(db.list("{a@26}", 2, false), [""; 0]);
    assert_eq!(db.list("", 0, false), [""; 0]);
    let mut all: Vec<String> = Vec::new();
    loop {
        let page = db.list(all.last().map_or("", String::as_str), 2, true);
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert_eq!(all, ["B", "a", "a@Y20250101", "a@Y20260101", "a.b", "b", "c", "c@M20260101", "{a@26}"]);
    for odd in ["'", "\\", "%", "a'; DROP TABLE getid_sequence; --", "\u{7f}", "é", "@"] {
        db.list(odd, 10, true);
    }
    assert_eq!(db.count(), 6);
}

fn a_period_begins_with_its_row(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    assert_eq!(db.generators(None), []);
    let day = |day: u32, options: &str| opening(&format!("invoice@D2026010{day}"), options);
    let waits = OpenPeriodRequest { may_begin: false, ..day(1, "") };
    assert_eq!(db.open_period(&waits), Err(Verdict::NoSuch));
    let generator = db.open_period(&day(1, "max 999999 cache 3")).unwrap();
    assert_eq!((generator.name.as_str(), generator.newest.as_str()), ("invoice", "D20260101"));
    assert_eq!(generator.closed_through, "");
    let reserved = db.reserve("invoice@D20260101", 5).unwrap();
    assert_eq!((range(&reserved), reserved.found_next), ((1, 5), 1));
    assert_eq!((reserved.row.key.as_str(), reserved.row.spec), ("invoice@D20260101", spec("max 999999 cache 3")));
    assert_eq!(db.row("invoice@D20260101"), Some(reserved.row.clone()));
    db.open_period(&day(1, "max 7")).unwrap();
    assert_eq!(db.row("invoice@D20260101"), Some(reserved.row), "it is unchanged");
    assert_eq!(range(&db.reserve("invoice@D20260101", 5).unwrap()), (6, 10), "it continues");
    assert_eq!(db.open_period(&waits).unwrap(), generator);
    assert_eq!(range(&db.reserve_in("invoice@D20260102", 5).unwrap()), (1, 5));
    assert_eq!(db.reserve("invoice", 1), Err(Verdict::NoSuch), "a period is no sequence");
    db.create("invoice", "start 77");
    assert_eq!(range(&db.reserve("invoice", 1).unwrap()), (77, 77));
    db.open_period(&opening("x@Y20260101", "")).unwrap();
    let answers = db.reserve_all(&[ask("x@Y20260101", 5), ask("x@Y20270101", 1), ask("invoice@D20260102", 5)]);
    assert_eq!(range(answers[0].as_ref().unwrap()), (1, 5));
    assert_eq!(answers[1], Err(Verdict::NoSuch));
    assert_eq!(range(answers[2].as_ref().unwrap()), (6, 10));
    assert_eq!((db.count(), db.list("", 10, false)), (1, vec!["invoice".to_owned()]));
    let last = db.reserve("invoice@D20260102", 5).unwrap();
    assert!(db.give_back(&last.row, 12));
    assert_eq!(range(&db.reserve("invoice@D20260102", 1).unwrap()), (12, 12));
    let above = OpenPeriodRequest { floor: 500, ..day(3, "") };
    db.open_period(&above).unwrap();
    assert_eq!(range(&db.reserve("invoice@D20260103", 1).unwrap()), (500, 500));
    let newest: Vec<_> = db.generators(None).into_iter().map(|found| (found.name, found.newest)).collect();
    assert_eq!(newest, [("invoice".to_owned(), "D20260103".to_owned()), ("x".to_owned(), "Y20260101".to_owned())]);
    assert_eq!(db.generators(Some(&["x", "y", "x' OR 'a' = 'a"])).len(), 1);
}

/// Two servers' clocks disagree: after one server has begun a period, no server uses an earlier one.
fn periods_never_go_back(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.open_period(&opening("invoice@D20260102", "")).unwrap();
    let newer = Err(Verdict::Newer { period: "D20260102".to_owned() });
    assert_eq!(db.open_period(&opening("invoice@D20260101", "")), newer);
    assert_eq!(db.row("invoice@D20260101"), None);
    // A row that is created before its period begins does not begin the period.
    let ahead = OpenPeriodRequest { has_begun: false, ..opening("invoice@D20260103", "") };
    assert_eq!(db.open_period(&ahead).unwrap().newest, "D20260102");
    assert_eq!(range(&db.reserve("invoice@D20260103", 1).unwrap()), (1, 1));
    assert_eq!(range(&db.reserve_in("invoice@D20260102", 1).unwrap()), (1, 1));
    assert_eq!(db.open_period(&opening("invoice@D20260103", "")).unwrap().newest, "D20260103");
    assert_eq!(range(&db.reserve("invoice@D20260103", 1).unwrap()), (2, 2));
}

/// A serial changes from a daily to a monthly reset: it continues above the days' values, because its texts show the
/// day and would repeat. The periods are D20260101 and M20260101.
fn a_redeclared_generator_continues_above_all_values(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.reserve_in("other@Y20260101", 99).unwrap();
    db.reserve_in("invoice@D20260101", 5).unwrap();
    db.reserve_in("invoice@D20260102", 9).unwrap();
    let month = opening("invoice@M20260101", "");
    let Err(Verdict::Declared { stored, configured }) = db.open_period(&month) else {
        panic!("its declaration differs")
    };
    assert_eq!((stored.as_str(), configured.as_str()), ("serial X{n:6} reset day", "serial X{n:6} reset month"));
    let seen = db.changes(None).upto;
    let redeclared = db.open_period(&OpenPeriodRequest { redeclares: true, ..month }).unwrap();
    assert_eq!((redeclared.newest.as_str(), redeclared.reset.as_str()), ("M20260101", "month"));
    assert_eq!(range(&db.reserve("invoice@M20260101", 3).unwrap()), (10, 12));
    // A server that still uses daily periods gets no more of their values and sees the change.
    assert_eq!(db.reserve("invoice@D20260102", 1), Err(Verdict::Dropped { last: 9 }));
    let changed: Vec<String> = db.changes(Some(seen)).rows.iter().map(|(key, _)| key.to_string()).collect();
    if fixture.store().is_shared() {
        assert!(changed.contains(&"invoice@D20260102".to_owned()), "{changed:?}");
    }
    assert!(matches!(db.open_period(&opening("invoice@D20260103", "")), Err(Verdict::Declared { .. })));
    // Daily periods are declared again on the same day.
    db.open_period(&OpenPeriodRequest { redeclares: true, ..opening("invoice@D20260102", "") }).unwrap();
    assert_eq!(range(&db.reserve("invoice@D20260102", 1).unwrap()), (13, 13));
    // The next day starts above the month's values, because servers may hold values of it. A later day does not,
    // because no texts of it were given.
    assert_eq!(range(&db.reserve_in("invoice@D20260103", 1).unwrap()), (13, 13));
    let now = getid_system::clock::wall_unix_ms();
    let far = OpenPeriodRequest { from_unix_ms: now + 3 * 86_400_000, ..opening("invoice@D20260104", "") };
    db.open_period(&far).unwrap();
    assert_eq!(range(&db.reserve("invoice@D20260104", 1).unwrap()), (1, 1));
    // Another template with the same periods: the row continues, and other servers discard the values that they hold.
    let before = db.row("invoice@D20260104").unwrap();
    let other = OpenPeriodRequest {
        declaration: "serial Y{n:7}".to_owned(),
        ..opening("invoice@D20260104", "max 9999999 cache 7")
    };
    assert!(matches!(db.open_period(&other), Err(Verdict::Declared { .. })));
    let (yesterday, seen) = (db.row("invoice@D20260103").unwrap(), db.changes(None).upto);
    db.open_period(&OpenPeriodRequest { redeclares: true, ..other }).unwrap();
    let after = db.row("invoice@D20260104").unwrap();
    assert_eq!((after.next, after.generation), (before.next, before.generation + 1));
    assert_eq!((after.spec.max, after.spec.cache), (9_999_999, 7), "there is room for the new template");
    if fixture.store().is_shared() {
        assert_eq!(db.row("invoice@D20260103").unwrap().generation, yesterday.generation + 1);
        assert_eq!(db.changes(Some(seen)).rows.len(), 3, "as far as servers may hold values");
    }
}

/// A generator's reset changes while servers disagree on the time: the newest period is kept, and no counter restarts
/// in a period whose texts were given.
fn a_reset_that_changes_repeats_nothing_at_the_border_of_a_period(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.reserve_in("a@D20261130", 5).unwrap();
    // Server B's clock is ahead, and B declares the month that is about to begin. Server C's clock is right.
    let redeclared = |period: &str| OpenPeriodRequest { redeclares: true, ..opening(period, "") };
    let ahead = OpenPeriodRequest { has_begun: false, ..redeclared("a@M20261201") };
    let Err(Verdict::BadRow(message)) = db.open_period(&ahead) else { panic!("it has not begun") };
    assert!(
        message.contains("each month") && message.contains("M20261201 has not begun by the store's clock"),
        "{message}"
    );
    assert_eq!(db.open_period(&redeclared("a@M20261101")).unwrap().newest, "M20261101");
    assert_eq!(range(&db.reserve("a@M20261101", 1).unwrap()), (6, 6));
    assert_eq!(range(&db.reserve_in("a@M20261201", 1).unwrap()), (6, 6), "above the days");
    // Server B's clock is behind, and B declares the month that is over.
    db.reserve_in("b@D20261130", 9).unwrap();
    db.reserve_in("b@D20261201", 50).unwrap();
    assert_eq!(db.open_period(&redeclared("b@M20261101")), Err(Verdict::Newer { period: "M20261201".to_owned() }));
    assert_eq!(db.open_period(&redeclared("b@M20261201")).unwrap().newest, "M20261201");
    assert_eq!(range(&db.reserve("b@M20261201", 1).unwrap()), (51, 51));
    // A day is prepared before a month is declared and the daily reset is declared again.
    db.reserve_in("c@D20261130", 3).unwrap();
    db.open_period(&OpenPeriodRequest { has_begun: false, ..opening("c@D20261201", "") }).unwrap();
    db.reserve("c@D20261201", 8).unwrap();
    db.open_period(&redeclared("c@M20261101")).unwrap();
    db.open_period(&redeclared("c@D20261130")).unwrap();
    assert_eq!(db.reserve("c@D20261201", 1), Err(Verdict::Dropped { last: 8 }));
    let next = db.reserve_in("c@D20261201", 1).unwrap();
    assert!(next.first > 8, "{next:?}");
}

/// An interval changes again and again within a few days, also between fiscal years of different starts: the texts,
/// which show the day, never repeat.
fn changes_of_the_interval_keep_values_apart(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let starts = ["04-06", "12-01"].map(|start| Reset::all(FiscalStart::parse(start).unwrap()));
    let resets: Vec<Reset> = starts.into_iter().flatten().collect();
    let mut given = BTreeSet::new();
    let today = CivilDay::of_unix_ms(getid_system::clock::wall_unix_ms()).number();
    for nth in 0..60_u32 {
        let day = CivilDay::of_number(today - 2 + nth / 20);
        // Steps of 7 reach each of the 16.
        let reset = resets[(nth * 7 + nth / 16) as usize % resets.len()];
        let period = reset.period(CivilTime::at(day, 0)).map_or_else(|| "g".to_owned(), |period| format!("g@{period}"));
        let first_day = i64::from(reset.first_day(day).number()) - 719_528;
        let from_unix_ms = if reset == Reset::Never { i64::MIN } else { first_day * 86_400_000 };
        db.open_period(&OpenPeriodRequest { redeclares: true, from_unix_ms, ..opening(&period, "") }).unwrap();
        let values = db.reserve(&period, 3).unwrap();
        for value in values.first..=values.last {
            assert!(given.insert((day, value)), "{value} twice on {day}, the second time with reset {reset}");
        }
    }
}

/// A period that a server has begun is noted without a reservation, and the note is never reverted.
fn periods_that_have_begun_are_noted(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let first = db.open_period(&opening("a@D20260101", "")).unwrap();
    let begun = |period: &str, declaration: &str| BegunPeriod { key: key(period), declaration: declaration.to_owned() };
    let declared = first.declaration.as_str();
    db.begin_periods(&[begun("a@D20260103", declared), begun("b@D20260103", declared)]);
    db.begin_periods(&[begun("a@D20260102", declared), begun("a@D20260105", "serial Y{n:6}")]);
    let generators = db.generators(None);
    assert_eq!((generators.len(), generators[0].newest.as_str()), (1, "D20260103"));
    assert_eq!(db.open_period(&opening("a@D20260102", "")), Err(Verdict::Newer { period: "D20260103".to_owned() }));
    // The row of the begun period is missing, and the store does not restart it at its start value.
    let Err(Verdict::BadRow(message)) = db.open_period(&opening("a@D20260103", "")) else { panic!("its row is lost") };
    assert!(message.contains("'a@D20260103' has begun") && message.contains("SEQUENCE RAISE a N"), "{message}");
}

fn ended_periods_are_removed_and_never_begun_again(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("day", "");
    for period in ["D20260130", "D20260131", "D20260201", "D20260202", "D20260203"] {
        db.reserve_in(&format!("day@{period}"), 7).unwrap();
    }
    db.change("day@D20260130", &RowChange::WentBack { had_next: 9 }).unwrap();
    for period in ["week@W20260126", "week@W20260202", "fiscal@F20250201", "fiscal@F20260201", "quarter@Q20251001"] {
        db.reserve_in(period, 1).unwrap();
    }
    db.reserve_in("quarter@Q20260101", 1).unwrap();
    for period in [
        "month@M20251201",
        "month@M20260101",
        "month@M20260201",
        "hour@H20260131T23",
        "hour@H20260201T00",
        "year@Y20250101",
    ] {
        db.reserve_in(period, 1).unwrap();
    }
    assert_eq!(db.prune("missing", "2026-01-31", false), Err(Verdict::NoSuch));
    let counted = db.prune("day", "2026-02-01", false).unwrap();
    assert_eq!((counted.rows, counted.deleted), (2, 0));
    assert_eq!((counted.first.as_str(), counted.last.as_str()), ("D20260131", "D20260201"));
    assert_eq!(db.generators(Some(&["day"]))[0].closed_through, "");
    assert_eq!(db.prune("day", "2026-02-01", true).unwrap(), PruneResult { deleted: 2, ..counted });
    assert_eq!(db.generators(Some(&["day"]))[0].closed_through, "20260201");
    // A row that must be settled stays, and so does a sequence of the same name.
    assert_eq!(db.list("day", 9, true)[..3], ["day@D20260130", "day@D20260202", "day@D20260203"]);
    assert_eq!(db.row("day").map(|row| row.next), Some(1));
    assert_eq!(db.reserve("day@D20260131", 1), Err(Verdict::NoSuch));
    // A server whose clock is in the removed period, or that has another reset, does not recreate it.
    let newer = |period: &str| Err(Verdict::Newer { period: period.to_owned() });
    assert_eq!(db.open_period(&opening("day@D20260131", "")), newer("D20260203"));
    assert_eq!(
        db.open_period(&OpenPeriodRequest { redeclares: true, ..opening("day@M20260101", "") }),
        newer("M20260201")
    );
    // The newest period always stays, with the rows of its day.
    for (name, through, rows) in [
        ("day", "20991231", 1),
        ("month", "2026-01-30", 1),
        ("month", "2026-01-31", 2),
        ("month", "2026-02-28", 2),
        ("hour", "2026-02-01", 1),
        ("year", "2099-12-31", 0),
        ("week", "2026-01-31", 0),
        ("week", "2026-02-01", 1),
        ("fiscal", "2026-01-30", 0),
        ("fiscal", "2026-01-31", 1),
        ("quarter", "2025-12-30", 0),
        ("quarter", "2025-12-31", 1),
    ] {
        assert_eq!(db.prune(name, through, false).unwrap().rows, rows, "{name} {through}");
    }
    assert_eq!(db.prune("day", "20991231", true).unwrap().deleted, 1);
    assert_eq!(db.generators(Some(&["day"]))[0].closed_through, "20260202");
    assert_eq!(db.prune("day", "2026-01-01", true).unwrap().deleted, 0);
    assert_eq!(db.generators(Some(&["day"]))[0].closed_through, "20260202", "it never decreases");
    assert_eq!(range(&db.reserve_in("day@D20260203", 1).unwrap()), (8, 8));
}

/// Returns the request that opens a counter of a generator with at most `max` keys.
fn keyed(key: &str, max: u64) -> OpenPeriodRequest {
    OpenPeriodRequest { series: Some(SeriesBounds { max, may_begin: true }), ..opening(key, "") }
}

fn each_key_has_counters_of_its_own(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    for key in ["invoice/ACME@Y20260101", "invoice/acme@Y20260101", "invoice/B@Y20260101", "invoice/ACME-1@Y20260101"] {
        db.open_period(&keyed(key, 9)).unwrap();
    }
    let asks = ["invoice/ACME@Y20260101", "invoice/acme@Y20260101", "invoice/B@Y20260101"].map(|key| ask(key, 5));
    assert_eq!(db.reserve_all(&asks).iter().map(|each| range(each.as_ref().unwrap())).collect::<Vec<_>>(), [(1, 5); 3]);
    assert_eq!(range(&db.reserve("invoice/ACME@Y20260101", 2).unwrap()), (6, 7));
    for missing in ["invoice/C@Y20260101", "invoice/ACME@Y20270101", "invoice@Y20260101", "invoice"] {
        assert_eq!(db.reserve(missing, 1), Err(Verdict::NoSuch), "{missing}");
    }
    assert!(matches!(db.reserve("invoice/ACME", 1), Err(Verdict::Dropped { .. })), "a key alone counts nothing");
    let all = ["invoice/ACME@Y20260101", "invoice/ACME-1@Y20260101", "invoice/B@Y20260101", "invoice/acme@Y20260101"];
    assert_eq!(db.list("", 9, true), all);
    assert_eq!(db.list(all[0], 9, true), all[1..]);
    assert_eq!(db.list("invoice/", 9, true), [""; 0], "no name begins so");
    assert_eq!((db.count(), db.list("", 9, false).len()), (0, 0));
    // A marked row of one key leaves the other keys alone.
    db.change("invoice/B@Y20260101", &RowChange::WentBack { had_next: 9 }).unwrap();
    assert!(matches!(db.reserve("invoice/B@Y20260101", 1), Err(Verdict::WentBack { .. })));
    let last = db.reserve("invoice/ACME@Y20260101", 5).unwrap();
    assert!(db.give_back(&last.row, 9));
    assert_eq!(range(&db.reserve("invoice/ACME@Y20260101", 1).unwrap()), (9, 9));
    // Another template with the same periods: all keys follow, and servers discard the values that they hold.
    let changed = OpenPeriodRequest {
        declaration: "serial Y{n:7}".to_owned(),
        spec: spec("max 77 cache 7"),
        redeclares: true,
        key: key("invoice@Y20260101"),
        ..keyed("invoice/ACME@Y20260101", 9)
    };
    let before = db.row("invoice/acme@Y20260101").unwrap();
    db.open_period(&changed).unwrap();
    let after = db.row("invoice/acme@Y20260101").unwrap();
    assert_eq!((after.spec, after.next), (spec("max 77 cache 7"), before.next));
    assert_eq!(after.generation, before.generation + 1);
    assert_eq!(db.row("invoice@Y20260101"), None, "a declaration begins no counter");
    // The ended periods of all keys are removed.
    db.open_period(&OpenPeriodRequest { redeclares: true, ..keyed("invoice/ACME@Y20270101", 9) }).unwrap();
    let pruned = db.prune("invoice", "2026-12-31", true).unwrap();
    assert_eq!((pruned.rows, pruned.deleted), (3, 3), "and the marked one stays");
    assert_eq!(db.list("", 9, true), ["invoice/ACME@Y20270101", "invoice/B@Y20260101"]);
    assert_eq!(db.generators(None)[0].keys, 4, "a key stays");
}

fn keys_are_bounded_and_listed(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let keys = |db: &mut Db| db.generators(Some(&["invoice"])).first().map(|generator| generator.keys);
    assert_eq!(db.open_period(&keyed("invoice/A@Y20260101", 2)).unwrap().keys, 1);
    assert_eq!(db.open_period(&keyed("invoice/A@Y20260101", 2)).unwrap().keys, 1, "again");
    assert_eq!(db.open_period(&keyed("invoice/A@Y20270101", 2)).unwrap().keys, 1, "its next period");
    assert_eq!(db.open_period(&keyed("invoice/B@Y20270101", 2)).unwrap().keys, 2);
    assert_eq!(db.open_period(&keyed("invoice/C@Y20270101", 2)), Err(Verdict::TooManySeries { max: 2 }));
    assert_eq!((db.row("invoice/C@Y20270101"), db.row("invoice/C"), keys(&mut db)), (None, None, Some(2)));
    assert_eq!(db.open_period(&keyed("invoice/B@Y20280101", 1)).unwrap().keys, 2, "a lower bound locks no key out");
    let declared =
        |key: &str| OpenPeriodRequest { series: Some(SeriesBounds { max: 9, may_begin: false }), ..opening(key, "") };
    assert_eq!(db.open_period(&declared("invoice/D@Y20280101")), Err(Verdict::NoSeries));
    assert_eq!(db.open_period(&declared("invoice/A@Y20280101")).unwrap().keys, 2);
    // Other generators have keys of their own, and those without periods have no other row for a key.
    assert_eq!(db.open_period(&keyed("x/A", 2)).unwrap().keys, 1);
    assert_eq!(db.open_period(&keyed("x/A", 2)).unwrap().keys, 1);
    assert_eq!(range(&db.reserve("x/A", 3).unwrap()), (1, 3));
    assert_eq!(db.list("x", 9, true), ["x/A"]);
    for key in ["invoice/a@Y20280101", "invoice/A.1@Y20280101"] {
        db.open_period(&keyed(key, 9)).unwrap();
    }
    assert_eq!(db.series("invoice", "", 9), ["A", "A.1", "B", "a"]);
    assert_eq!((db.series("invoice", "A", 2), db.series("invoice", "a", 2)), (vec!["A.1".into(), "B".into()], vec![]));
    assert_eq!((db.series("x", "", 9).len(), db.series("y", "", 9).len()), (1, 0));
    for odd in ["'", "\\", "a' OR 'a' = 'a"] {
        db.series(odd, odd, 9);
    }
}

/// The counters of one key never repeat its values, also where another key has made the change of the reset.
fn a_reset_that_changes_continues_each_key_above_its_own_values(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let redeclared = |key: &str| OpenPeriodRequest { redeclares: true, ..keyed(key, 9) };
    for (key, values) in [("i/A@Y20260101", 7), ("i/B@Y20260101", 40), ("i/C@Y20260101", 3)] {
        db.open_period(&keyed(key, 9)).unwrap();
        db.reserve(key, values).unwrap();
    }
    // From years to one counter for all time.
    db.open_period(&redeclared("i/A")).unwrap();
    assert_eq!(range(&db.reserve("i/A", 1).unwrap()), (8, 8));
    for (key, first) in [("i/B", 41), ("i/C", 4)] {
        assert!(matches!(db.reserve(key, 1), Err(Verdict::Dropped { .. })), "{key} is opened first");
        assert!(matches!(db.reserve(&format!("{key}@Y20260101"), 1), Err(Verdict::Dropped { .. })));
        db.open_period(&keyed(key, 9)).unwrap();
        assert_eq!(range(&db.reserve(key, 1).unwrap()), (first, first));
    }
    // And back.
    db.open_period(&redeclared("i/C@Y20260101")).unwrap();
    for (key, first) in [("i/C@Y20260101", 5), ("i/A@Y20260101", 9), ("i/B@Y20260101", 42)] {
        db.open_period(&keyed(key, 9)).unwrap();
        assert_eq!(range(&db.reserve(key, 1).unwrap()), (first, first));
    }
    assert_eq!(db.generators(None)[0].keys, 3);
}

fn a_store_reports_about_itself(fixture: &dyn StoreFixture) {
    let store = fixture.store();
    assert_eq!(store.table(), TableKind::Native);
    assert!((1..=2).contains(&store.connections_max()));
    let mut db = Db::open(fixture);
    db.create("orders", "");
    drop(db);
    let first = Db::open(fixture).info().clone();
    let second = Db::open(fixture).info().clone();
    assert!(!first.uuid.is_empty() && first.uuid == second.uuid, "{first:?} {second:?}");
    assert!(!first.product.is_empty());
    let now = getid_system::clock::wall_unix_ms();
    assert!((first.unix_ms - now).abs() < 60_000, "{} at {now}", first.unix_ms);
    fixture.clear();
    let mut db = Db::open(fixture);
    db.create("orders", "");
    drop(db);
    assert_ne!(Db::open(fixture).info().uuid, first.uuid, "another store has another uuid");
}

fn the_printed_schema_is_enough(fixture: &dyn StoreFixture) {
    let schema = fixture.store().schema();
    assert!(
        schema.trim_end().ends_with(';')
            && ["getid_sequence", "getid_store", "getid_generator", "getid_number", "getid_request"]
                .iter()
                .all(|table| schema.contains(table))
    );
    fixture.sql(&schema).unwrap();
    let mut db = Db::open(fixture);
    db.create("orders", "");
    assert_eq!(range(&db.reserve("orders", 2).unwrap()), (1, 2));
    assert!(!db.info().uuid.is_empty());
}

fn a_row_that_was_edited_is_refused_by_name(fixture: &dyn StoreFixture) {
    let edits = [
        ("increment", "0", "increment 0, must be 1 to 1000000"),
        ("increment", "-5", "increment -5"),
        ("offset_", "0", "offset_ 0, must be 1 to 1"),
        ("offset_", "2", "offset_ 2, must be 1 to 1"),
        ("state", "'half'", "'half'"),
        ("policy", "'never'", "'never'"),
        ("max_value", "-1", "max_value -1"),
        ("next", "-7", "next -7"),
        ("ends", "-1", "ends -1, must be 0 to"),
        ("next", "9223372036854775807", "next 9223372036854775807, must be"),
        ("offset_", "-9223372036854775807", "offset_ -9223372036854775807, must be"),
    ];
    let mut db = Db::open(fixture);
    db.create("others", "");
    (0..edits.len()).for_each(|at| drop(db.create(&format!("s{at}"), "")));
    drop(db);
    let edited = |at: usize, (column, value, _)| {
        fixture.sql(&format!("UPDATE getid_sequence SET {column} = {value} WHERE name = 's{at}';")).is_ok()
    };
    let edited: Vec<bool> = (0..).zip(edits).map(|(at, edit)| edited(at, edit)).collect();
    let mut db = Db::open(fixture);
    for (at, (column, value, message)) in edits.into_iter().enumerate() {
        let name = format!("s{at}");
        if !edited[at] {
            // The table rejects such a value.
            assert_eq!(range(&db.reserve(&name, 1).unwrap()), (1, 1), "{column} {value}");
            continue;
        }
        let answers = db.reserve_all(&[ask(&name, 1), ask("others", 1)]);
        let Err(Verdict::BadRow(text)) = &answers[0] else { panic!("{column} {value}: {answers:?}") };
        assert!(text.contains(message) && text.contains(&format!("'{name}'")), "{text}");
        assert!(answers[1].is_ok(), "the others continue: {answers:?}");
        assert!(matches!(db.raise(&name, 10), Err(Verdict::BadRow(_))), "{column} {value}");
        assert!(matches!(db.create_of(&create(&name, "")), Err(Verdict::BadRow(_))), "{column} {value}");
    }
}

fn a_list_names_rows_that_cannot_be_read(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    for name in ["a", "bad", "b", "worse", "x"] {
        db.create(name, "");
    }
    drop(db);
    for (name, bad) in [("bad", "a/d"), ("worse", "a@d")] {
        fixture.sql(&format!("UPDATE getid_sequence SET name = '{bad}' WHERE name = '{name}';")).unwrap();
    }
    let mut db = Db::open(fixture);
    for limit in [1, 2, 5, 100] {
        let (mut rows, mut bad, mut after) = (Vec::new(), Vec::new(), String::new());
        for _ in 0..6 {
            let page = db.page(&after, limit);
            rows.extend(page.rows.iter().map(|row| row.key.to_string()));
            bad.extend(page.bad);
            let Some(next) = page.next else { break };
            after = next;
        }
        assert_eq!(rows, ["a", "b", "x"], "limit {limit}");
        let [slash, at] = &bad[..] else { panic!("limit {limit}: {bad:?}") };
        assert!(slash.name == "a/d" && at.name == "a@d", "{bad:?}");
        assert!(slash.error.contains("'a/d'") && slash.error.contains("name that is not valid"), "{slash:?}");
    }
}

fn rows_are_created_together(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("there", "");
    db.create("gone", "");
    db.change("gone", &RowChange::Drop).unwrap();
    let seen = db.changes(None).upto;
    let new = |name: &str| CreateRequest { above_dropped: true, rows_max: 4, ..create(name, "cache 7") };
    let each = db.create_all(&["a", "there", "gone", "b", "c"].map(new));
    let [Ok(a), Err(Verdict::Exists(there)), Ok(gone), Ok(b), Err(Verdict::TooMany { max: 4 })] = &each[..] else {
        panic!("{each:?}")
    };
    assert_eq!((there.key.as_str(), gone.row.generation, a.row.spec.cache), ("there", 2, 7));
    assert_eq!([db.row("a").as_ref(), db.row("b").as_ref()], [Some(&a.row), Some(&b.row)]);
    assert_eq!((db.list("", 10, false).len(), db.count(), db.row("c")), (4, 4, None));
    let changes = db.changes(Some(seen));
    assert_eq!(changes.upto, seen + 3, "one for each row");
    assert_eq!(changes.rows.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "gone", "b"]);
    assert_eq!(db.create_all(&["a", "there"].map(new)).iter().filter(|made| made.is_ok()).count(), 0);
    assert_eq!(db.changes(None).upto, seen + 3);
    assert_eq!(range(&db.reserve("b", 3).unwrap()), (1, 3));
}

fn a_creation_reserves_values_of_each_new_row(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("there", "");
    db.create("gone", "");
    db.change("gone", &RowChange::Drop).unwrap();
    let new = |name: &str, options: &str, values| CreateRequest { values, rows_max: 5, ..create(name, options) };
    let each = db.create_all(&[
        new("b", "", 3),
        new("there", "", 3),
        new("a", "start 7 increment 10 offset 5", 2),
        new("gone", "", 3),
        new("short", "max 2", 9),
        new("b", "", 1),
        new("none", "", 0),
        new("late", "", 1),
    ]);
    let [Ok(b), Err(Verdict::Exists(there)), Ok(a), Err(Verdict::Dropped { .. }), Ok(short), rest @ ..] = &each[..]
    else {
        panic!("{each:?}")
    };
    let [Err(Verdict::Exists(twice)), Ok(none), Err(Verdict::TooMany { max: 5 })] = rest else { panic!("{rest:?}") };
    assert_eq!([range(b), range(a), range(short)], [(1, 3), (15, 25), (1, 2)]);
    assert_eq!((b.found_next, a.found_next, none.is_empty()), (1, 15, true));
    assert_eq!((there.next, twice.as_ref()), (1, &b.row), "nothing is reserved of a row that exists");
    for made in [b, a, short, none] {
        assert_eq!(db.row(made.row.key.as_str()).as_ref(), Some(&made.row));
    }
    assert_eq!((db.row("late"), db.row("there").unwrap().next), (None, 1));
    assert_eq!(["b", "a", "none"].map(|name| db.reserve(name, 1).unwrap().first), [4, 35, 1]);
    assert!(db.reserve("short", 1).unwrap().is_empty());
    // Unused values go back, as after any reservation.
    let row = db.row("a").unwrap();
    assert!(db.give_back(&row, 35));
}

/// Runs two workers, concurrently where the store allows two connections.
pub(crate) fn both(fixture: &dyn StoreFixture, work: impl Fn(usize, &mut Db) + Sync) {
    let store = fixture.store();
    if !store.is_shared() {
        let mut db = Db::open(fixture);
        (0..2).for_each(|who| work(who, &mut db));
        return;
    }
    drop(Db::open(fixture));
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        for client in 0..2 {
            let (begin, work) = (&begin, &work);
            scope.spawn(move || {
                let mut db = Db::open(fixture);
                begin.wait();
                work(client, &mut db);
            });
        }
    });
}

fn no_value_twice_by_two_connections(fixture: &dyn StoreFixture) {
    const ROUNDS: usize = 80;
    let names = ["a", "b", "c", "d"];
    let mut db = Db::open(fixture);
    for name in names {
        db.create(name, "increment 2 offset 1");
    }
    drop(db);
    let ranges = std::sync::Mutex::new(Vec::new());
    both(fixture, |client, db| {
        let mut random = Random(7 + client as u64);
        let mut below = |limit: u32| u32::try_from(random.below(limit.into())).unwrap();
        for _ in 0..ROUNDS {
            // The order is random: workers that lock rows in argument order would deadlock.
            let mut order = names;
            order.sort_by_cached_key(|_| below(1000));
            let count = 1 + below(4);
            let asks: Vec<ReserveRequest> = (0..count).zip(order).map(|(_, name)| ask(name, 1 + below(50))).collect();
            let answers: Vec<_> = db.reserve_all(&asks).into_iter().map(Result::unwrap).collect();
            let noted = answers.iter().map(|got| (got.row.key.to_string(), got.first, got.last, client));
            ranges.lock().unwrap().extend(noted);
            let got = &answers[0];
            if below(3) == 0 && got.last > got.first {
                let next = got.first + 2;
                if db.give_back(&got.row, next) {
                    let mut ranges = ranges.lock().unwrap();
                    let name = got.row.key.to_string();
                    let at = ranges.iter().rposition(|r| *r == (name.clone(), got.first, got.last, client)).unwrap();
                    ranges[at].2 = got.first;
                }
            }
        }
    });
    let ranges = ranges.into_inner().unwrap();
    assert!((0..2).all(|client| ranges.iter().any(|range| range.3 == client)));
    for name in names {
        let mut values = BTreeSet::new();
        for (_, first, last, _) in ranges.iter().filter(|range| range.0 == name) {
            for value in (*first..=*last).step_by(2) {
                assert!(values.insert(value), "{name}: {value} was given twice");
            }
        }
        // No value was lost: the given values are all values below the row's `next`.
        let next = Db::open(fixture).row(name).unwrap().next;
        let all: BTreeSet<i64> = (1..next).step_by(2).collect();
        assert_eq!(values, all, "{name}");
    }
}

fn one_row_for_a_period_that_two_open(fixture: &dyn StoreFixture) {
    let found = std::sync::Mutex::new(BTreeSet::new());
    both(fixture, |_, db| {
        for year in 0..50 {
            // Each worker has its own generator, because the other worker may be ahead.
            let period = format!("invoice{year}@Y20260101");
            let got = db.reserve_in(&period, 1).unwrap();
            assert!(found.lock().unwrap().insert((year, got.first)), "{period}: {} twice", got.first);
        }
    });
    let expected: BTreeSet<(i32, i64)> = (0..50).flat_map(|year| [(year, 1), (year, 2)]).collect();
    assert_eq!(found.into_inner().unwrap(), expected);
}

fn one_row_for_a_name_that_two_create(fixture: &dyn StoreFixture) {
    let made = std::sync::Mutex::new(Vec::new());
    both(fixture, |_, db| {
        for n in 0..50 {
            match db.create_of(&create(&format!("s{n}"), "")) {
                Ok(_) => made.lock().unwrap().push(n),
                Err(Verdict::Exists(row)) => assert_eq!(row.key.to_string(), format!("s{n}")),
                Err(verdict) => panic!("{verdict:?}"),
            }
        }
    });
    let mut made = made.into_inner().unwrap();
    made.sort_unstable();
    assert_eq!(made, (0..50).collect::<Vec<_>>());
    let mut db = Db::open(fixture);
    let mut seen: Vec<String> = db.changes(Some(0)).rows.into_iter().map(|(key, _)| key.to_string()).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 50, "each creation is a change of its own");
}

fn unused_rows_cost_nothing(fixture: &dyn StoreFixture) {
    const ROWS: u32 = 20_000;
    let mut db = Db::open(fixture);
    db.create("orders", "");
    drop(db);
    insert(fixture, (0..ROWS as usize).map(|n| format!("many-{:07}", n + 1)), false);
    let mut db = Db::open(fixture);
    assert_eq!(db.count(), u64::from(ROWS) + 1);
    assert_eq!(range(&db.reserve("orders", 1).unwrap()), (1, 1));
    assert_eq!(range(&db.reserve(&format!("many-{ROWS:07}"), 1).unwrap()), (1, 1));
    assert_eq!(db.list("many-0005000", 3, false), ["many-0005001", "many-0005002", "many-0005003"]);
    assert_eq!(db.list("many-9999999", 3, false), ["orders"]);
    assert_eq!(db.changes(Some(0)).rows.len(), 1);
    let rows_max = u64::from(ROWS) + 2;
    let new = CreateRequest { rows_max, ..create("one", "") };
    assert!(db.create_of(&new).is_ok());
    assert_eq!(db.create_of(&CreateRequest { key: key("two"), ..new }), Err(Verdict::TooMany { max: rows_max }));
}
