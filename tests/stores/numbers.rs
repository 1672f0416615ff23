//! Ledgers of numbers without gaps, in every store with getid's own tables. The core has the rules; here the tables
//! keep what was decided.

use std::sync::{Arc, Barrier};

use getid_core::server::ledger::{
    LedgerCounts, LedgerQuery, LedgerRow, NumberAct, NumberAnswer, NumberRefusal, NumberRequest, NumberState,
};
use getid_core::server::{CivilTime, CounterDeclaration, EndChange, EndCondition, Reset};
use getid_store::sql::{CreateRequest, LedgerNote, NumberVerdict, OpenPeriodRequest, RowChange, RowState, Verdict};

use crate::db::{Db, StoreFixture, create, key, opening, range};

const WORDS: &str = "invoice serial R{yyyy}-{n:6} zone UTC gapless";

fn declaration(words: &str) -> Arc<CounterDeclaration> {
    let words: Vec<&str> = words.split(' ').collect();
    Arc::new(CounterDeclaration::parse(&words, |_| Ok(())).unwrap().unwrap())
}

fn request(user: &str, request: &str, act: NumberAct) -> NumberRequest {
    let (declaration, stamp) = (declaration(WORDS), CivilTime { year: 2026, ..CivilTime::FIRST });
    NumberRequest {
        key: key(&format!("invoice@{}", declaration.reset().period(stamp).unwrap())),
        declaration,
        stamp,
        user: user.to_owned(),
        is_admin: user == "admin",
        request: request.to_owned(),
        act,
    }
}

fn reserve(of: &str) -> NumberRequest {
    request("app", of, NumberAct::Reserve { due_s: 60, commits: false })
}

fn act(of: &str, act: NumberAct) -> NumberRequest {
    request("app", of, act)
}

fn settle(text: &str, commits: bool) -> NumberRequest {
    request("admin", "", NumberAct::Settle { text: text.to_owned(), commits, reason: "checked".to_owned() })
}

fn opening_of(words: &str) -> OpenPeriodRequest {
    let declaration = declaration(words);
    let ask = reserve("");
    OpenPeriodRequest {
        declaration: declaration.shared_text(),
        reset: declaration.reset(),
        key: ask.key.clone(),
        ..opening("invoice@Y20260101", "cache 0 max 999999")
    }
}

fn note(changes: u64, next: i64) -> LedgerNote {
    LedgerNote { changes, counters: vec![(reserve("").key, next)], ..LedgerNote::of("invoice") }
}

/// Opens a connection, and the counter of 2026.
#[track_caller]
fn begun(fixture: &dyn StoreFixture) -> Db {
    let mut db = Db::open(fixture);
    db.open_period(&opening_of(WORDS)).unwrap();
    db
}

#[track_caller]
fn text(db: &mut Db, ask: NumberRequest) -> String {
    db.number(&[ask], &[]).each.remove(0).unwrap().text
}

#[track_caller]
fn refused(db: &mut Db, ask: NumberRequest) -> NumberRefusal {
    match db.number(&[ask], &[]).each.remove(0) {
        Err(NumberVerdict::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Returns number, last, state, request, user and reason of each row.
fn rows(db: &mut Db) -> Vec<(i64, i64, NumberState, String)> {
    let page = db.ledger(&LedgerQuery { name: "invoice".to_owned(), limit: 100, ..LedgerQuery::default() });
    assert_eq!(page.next, None);
    page.rows.into_iter().map(|row| (row.number, row.last, row.state, row.request)).collect()
}

pub(crate) fn numbers_are_kept_with_their_requests(fixture: &dyn StoreFixture) {
    let mut db = begun(fixture);
    let asks = ["a", "it's", "\u{e4}\u{20ac} \\", "A", "a "].map(reserve);
    let answers = db.number(&asks, &[]);
    let texts: Vec<String> = answers.each.into_iter().map(|answer| answer.unwrap().text).collect();
    assert_eq!(texts, (1..=5).map(|n| format!("R2026-{n:06}")).collect::<Vec<_>>(), "requests differ byte for byte");
    assert_eq!(answers.ledgers, [LedgerNote { changes: 1, counters: Vec::new(), ..note(0, 0) }]);
    let [(found_next, row)] = &answers.counters[..] else { panic!("{:?}", answers.counters) };
    assert_eq!((*found_next, row.next, db.row("invoice@Y20260101")), (1, 6, Some(row.clone())));
    drop(db);
    let mut db = Db::open(fixture);
    for (ask, expected) in asks.iter().zip(&texts) {
        assert_eq!(text(&mut db, ask.clone()), *expected);
    }
    let many = [
        act("a", NumberAct::Commit),
        act("A", NumberAct::Release),
        act("a ", NumberAct::Void { reason: "spoiled 'ink'".to_owned() }),
    ];
    let states: Vec<NumberState> = db.number(&many, &[]).each.into_iter().map(|answer| answer.unwrap().state).collect();
    assert_eq!(states, [NumberState::Committed, NumberState::Released, NumberState::Void]);
    assert_eq!(text(&mut db, reserve("b")), texts[3], "the lowest released one");
    let again = db.number(&[act("A", NumberAct::Release)], &[]).each.remove(0).unwrap();
    assert_eq!((again.state, again.is_changed), (NumberState::Released, false));
    assert_eq!(refused(&mut db, request("other", "a", NumberAct::Commit)), NumberRefusal::OtherUser);
    assert_eq!(refused(&mut db, act("none", NumberAct::Commit)), NumberRefusal::UnknownRequest);
    let page = db.ledger(&LedgerQuery { name: "invoice".to_owned(), limit: 9, ..LedgerQuery::default() });
    let void: &LedgerRow = &page.rows[4];
    assert_eq!((&*void.text, &*void.request, &*void.user, &*void.reason), (&*texts[4], "a ", "app", "spoiled 'ink'"));
    let due: Vec<bool> = page.rows.iter().map(|row| row.due_unix_ms == row.since_unix_ms + 60_000).collect();
    assert_eq!(due, [false, true, true, true, false]);
}

pub(crate) fn a_ledger_is_read_page_by_page(fixture: &dyn StoreFixture) {
    let mut db = begun(fixture);
    let asks: Vec<NumberRequest> = (0..7).map(|n| reserve(&format!("r{n}"))).collect();
    assert_eq!(db.number(&asks, &[]).each.len(), 7);
    db.number(&[act("r2", NumberAct::Release), act("r4", NumberAct::Commit)], &[]);
    let mut query = LedgerQuery { name: "invoice".to_owned(), limit: 3, ..LedgerQuery::default() };
    let mut seen = Vec::new();
    loop {
        let page = db.ledger(&query);
        seen.push(page.rows.iter().map(|row| row.number).collect::<Vec<_>>());
        let Some(next) = page.next else { break };
        query.after = next;
    }
    assert_eq!(seen, [vec![1, 2, 3], vec![4, 5, 6], vec![7]]);
    let numbers = |db: &mut Db, query: LedgerQuery| -> Vec<i64> {
        let of_name = LedgerQuery { name: "invoice".to_owned(), limit: 100, ..query };
        db.ledger(&of_name).rows.iter().map(|row| row.number).collect()
    };
    let none = LedgerQuery::default;
    assert_eq!(numbers(&mut db, LedgerQuery { state: Some(NumberState::Committed), ..none() }), [5]);
    assert_eq!(numbers(&mut db, LedgerQuery { period: Some("1999".to_owned()), ..none() }), [0; 0]);
    assert_eq!(numbers(&mut db, LedgerQuery { series: Some("it's".to_owned()), ..none() }), [0; 0]);
    for after in ["'/\u{e4}/x", "//5", "\\"] {
        numbers(&mut db, LedgerQuery { after: after.to_owned(), ..none() });
    }
    let expected = LedgerCounts { reserved: 5, overdue: 0, released: 1, unclear: 0, requests: 7, released_requests: 1 };
    assert_eq!(db.ledger_counts("invoice"), expected);
    assert_eq!(db.ledger_counts("it's"), LedgerCounts::default());
}

/// A client that reserves and releases in a loop uses one number, and writes a bounded number of rows.
pub(crate) fn released_requests_are_bounded(fixture: &dyn StoreFixture) {
    const MAX: u64 = 3;
    let mut db = begun(fixture);
    let ask = |db: &mut Db, ask: NumberRequest| db.number_within(&[ask], &[], MAX).each.remove(0);
    for n in 0..3 {
        let request = format!("r{n}");
        assert_eq!(ask(&mut db, reserve(&request)).unwrap().text, "R2026-000001");
        assert!(ask(&mut db, act(&request, NumberAct::Release)).unwrap().is_changed);
    }
    assert_eq!(ask(&mut db, reserve("last")).unwrap().text, "R2026-000001");
    let refused = Err(NumberVerdict::Refused(NumberRefusal::TooManyReleased { max: MAX }));
    assert_eq!(ask(&mut db, act("last", NumberAct::Release)), refused);
    let counts = db.ledger_counts("invoice");
    assert_eq!((counts.requests, counts.released_requests, counts.reserved), (4, MAX, 1));
    assert!(ask(&mut db, act("last", NumberAct::Void { reason: "spoiled".to_owned() })).unwrap().is_changed);
    assert_eq!(ask(&mut db, reserve("next")).unwrap().text, "R2026-000002");
}

/// A page of one period reads a bounded number of rows of other periods.
pub(crate) fn one_period_of_all_series_is_found_step_by_step(fixture: &dyn StoreFixture) {
    let mut db = begun(fixture);
    db.number(&[reserve("a")], &[]);
    drop(db);
    let insert = |rows: &[String]| {
        let columns = "name, series, period, number, last, text, state, since, entry";
        fixture.sql(&format!("INSERT INTO getid_number ({columns}) VALUES {};", rows.join(", "))).unwrap();
    };
    let row = |series: &str, period: &str, n: usize| {
        format!("('invoice', '{series}', '{period}', {n}, {n}, '{series}{period}{n}', 'committed', 0, 1)")
    };
    let old: Vec<String> = (1..=20_100).map(|n| row("ACME", "Y20250101", n)).collect();
    old.chunks(500).for_each(insert);
    insert(&[row("ACME", "Y20260101", 1), row("ACME", "Y20260101", 2), row("ZETA", "Y20260101", 1)]);
    let mut db = Db::open(fixture);
    for state in [None, Some(NumberState::Committed)] {
        let period = Some("Y20260101".to_owned());
        let name = "invoice".to_owned();
        let mut query = LedgerQuery { name, period, state, limit: 2, ..LedgerQuery::default() };
        let (mut seen, mut pages) = (Vec::new(), 0);
        loop {
            let page = db.ledger(&query);
            assert!(page.rows.len() <= 2);
            seen.extend(page.rows.iter().map(|row| (row.key.series().to_owned(), row.number)));
            pages += 1;
            let Some(next) = page.next else { break };
            assert_ne!(next, query.after, "a cursor goes on");
            query.after = next;
        }
        let of_acme = [("ACME".to_owned(), 1), ("ACME".to_owned(), 2), ("ZETA".to_owned(), 1)];
        let expected: Vec<_> = state.is_none().then(|| (String::new(), 1)).into_iter().chain(of_acme).collect();
        assert_eq!(seen, expected);
        assert!((3..=5).contains(&pages), "{pages}");
    }
}

pub(crate) fn a_ledger_begins_with_its_generator(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let no_such = db.number(&[reserve("a"), act("a", NumberAct::Commit)], &[]).each;
    assert_eq!(no_such[0], Err(NumberVerdict::Row(Verdict::NoSuch)));
    assert_eq!(no_such[1], Err(NumberVerdict::Refused(NumberRefusal::UnknownRequest)));
    let plain = "invoice serial R{yyyy}-{n:6} zone UTC";
    db.open_period(&opening_of(plain)).unwrap();
    db.reserve(reserve("").key.as_str(), 3).unwrap();
    let verdict = db.open_period(&OpenPeriodRequest { redeclares: true, ..opening_of(WORDS) }).unwrap_err();
    assert!(matches!(&verdict, Verdict::Unsupported(why) if why.contains("'invoice@Y20260101' has given numbers")));
    assert_eq!(refused(&mut db, reserve("a")), NumberRefusal::NotFromTheStart { key: reserve("").key });
    assert_eq!(range(&db.reserve(reserve("").key.as_str(), 1).unwrap()), (4, 4), "the refusal has changed nothing");
    assert_eq!(rows(&mut db), []);
    let fresh = NumberRequest { key: key("other@Y20260101"), ..reserve("a") };
    assert_eq!(db.number(&[fresh], &[]).each, [Err(NumberVerdict::Row(Verdict::NoSuch))]);
}

/// Checks that a counter gives nothing and stays as it is, whatever a server does that does not declare it.
#[track_caller]
fn refuses_changes(db: &mut Db, name: &str) {
    let before = db.row(name).unwrap();
    let far = EndChange { unix_ms: 9_000_000_000_000, condition: EndCondition::default() };
    for change in [
        RowChange::Raise { last: 9, settles: None },
        RowChange::Raise { last: 9, settles: Some(9) },
        RowChange::Alter { spec: before.spec, next_from: 0 },
        RowChange::Drop,
        RowChange::WentBack { had_next: 9 },
        RowChange::HadMore { had_next: 9 },
        RowChange::Expire(far),
        RowChange::Persist,
    ] {
        let verdict = db.change(name, &change).unwrap_err();
        assert!(matches!(&verdict, Verdict::Unsupported(why) if why.contains("ledger")), "{change:?}: {verdict:?}");
    }
    let verdict = db.reserve(name, 1).unwrap_err();
    assert!(matches!(&verdict, Verdict::Unsupported(why) if why.contains("gapless generator")), "{verdict:?}");
    for new in [create(name, ""), CreateRequest { above_dropped: true, fresh_after_ms: Some(0), ..create(name, "") }] {
        let verdict = db.create_of(&new).unwrap_err();
        assert!(matches!(&verdict, Verdict::Unsupported(why) if why.contains("ledger")), "{verdict:?}");
    }
    assert!(!db.give_back(&before, 1));
    assert_eq!(db.row(name), Some(before));
}

/// A generator with one counter for all time has the key of a sequence.
pub(crate) fn a_plain_name_with_a_ledger_is_no_sequence(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let words = "receipt serial R{n:6} gapless";
    let of_receipt = |ask: NumberRequest| NumberRequest {
        key: key("receipt"),
        declaration: declaration(words),
        stamp: CivilTime::FIRST,
        ..ask
    };
    let opening = OpenPeriodRequest { reset: Reset::Never, key: key("receipt"), ..opening_of(words) };
    db.open_period(&opening).unwrap();
    refuses_changes(&mut db, "receipt");
    assert_eq!(text(&mut db, of_receipt(reserve("a"))), "R000001");
    refuses_changes(&mut db, "receipt");
    // Without a number it may be declared otherwise, and then counts as a sequence; with one it may not.
    let plain = OpenPeriodRequest {
        declaration: declaration("receipt serial R{n:6}").shared_text(),
        redeclares: true,
        ..opening.clone()
    };
    let verdict = db.open_period(&plain).unwrap_err();
    assert!(matches!(&verdict, Verdict::Unsupported(why) if why.contains("declare it gapless again")), "{verdict:?}");
    let other = |ask: &OpenPeriodRequest| OpenPeriodRequest { key: key("other"), ..ask.clone() };
    db.open_period(&other(&opening)).unwrap();
    db.open_period(&other(&plain)).unwrap();
    assert_eq!(range(&db.reserve("other", 2).unwrap()), (1, 2));
    let again = OpenPeriodRequest { redeclares: true, ..other(&opening) };
    let verdict = db.open_period(&again).unwrap_err();
    assert!(matches!(&verdict, Verdict::Unsupported(why) if why.contains("'other' has given numbers")), "{verdict:?}");
    assert_eq!(range(&db.reserve("other", 1).unwrap()), (3, 3));
    // A sequence that has given nothing becomes the counter.
    db.create("fresh", "");
    let fresh = NumberRequest { key: key("fresh"), ..of_receipt(reserve("a")) };
    assert_eq!(db.number(std::slice::from_ref(&fresh), &[]).each, [Err(NumberVerdict::Row(Verdict::NoSuch))]);
    db.open_period(&OpenPeriodRequest { key: key("fresh"), ..opening }).unwrap();
    assert_eq!(text(&mut db, fresh), "R000001");
    refuses_changes(&mut db, "fresh");
}

/// The row of a counter is lost. An operator chooses where it continues, and no number is without a state.
pub(crate) fn a_lost_counter_continues_above_a_raise(fixture: &dyn StoreFixture) {
    use NumberState::{Reserved, Unclear, Void};
    let name = reserve("").key.to_string();
    let raise = |last| act("", NumberAct::Raise { last, reason: "moved".to_owned() });
    for by_raise in [true, false] {
        fixture.clear();
        let mut db = begun(fixture);
        assert_eq!(text(&mut db, reserve("a")), "R2026-000001");
        drop(db);
        fixture.sql("DELETE FROM getid_sequence;").unwrap();
        let mut db = Db::open(fixture);
        let verdict = db.open_period(&opening_of(WORDS)).unwrap_err();
        assert!(matches!(&verdict, Verdict::BadRow(why) if why.contains("SEQUENCE RAISE invoice N")), "{verdict:?}");
        assert_eq!(db.number(&[raise(9)], &[]).each, [Err(NumberVerdict::Row(Verdict::NoSuch))]);
        db.open_period(&OpenPeriodRequest { restores_row: true, ..opening_of(WORDS) }).unwrap();
        let marked = db.number(&[reserve("b")], &[]).each.remove(0);
        assert!(matches!(marked, Err(NumberVerdict::Row(Verdict::WentBack { .. }))), "{marked:?}");
        let expected = if by_raise {
            assert_eq!(db.number(&[raise(9)], &[note(1, 4)]).each.remove(0).unwrap().state, Void);
            assert_eq!(text(&mut db, reserve("b")), "R2026-000010");
            vec![(1, 1, Reserved), (2, 3, Unclear), (4, 9, Void), (10, 10, Reserved)]
        } else {
            db.change(&name, &RowChange::Confirm { has_ledger: false }).unwrap();
            assert_eq!(text(&mut db, reserve("b")), "R2026-000002");
            vec![(1, 1, Reserved), (2, 2, Reserved)]
        };
        assert_eq!(spans(&mut db), expected);
        refuses_changes(&mut db, &name);
    }
}

/// A counter of which the store has only a marked row continues when it is confirmed, and stays one with a ledger.
pub(crate) fn a_confirmed_counter_keeps_its_ledger(fixture: &dyn StoreFixture) {
    use NumberState::{Reserved, Unclear};
    let name = reserve("").key.to_string();
    let mut db = begun(fixture);
    drop(db);
    fixture
        .sql(
            "DELETE FROM getid_number; DELETE FROM getid_number_request; DELETE FROM getid_generator; \
             UPDATE getid_sequence SET state = 'went-back', next = 51;",
        )
        .unwrap();
    db = Db::open(fixture);
    let confirmed = db.change(&name, &RowChange::Confirm { has_ledger: true }).unwrap();
    assert_eq!(confirmed.state, RowState::Ledger);
    db.open_period(&opening_of(WORDS)).unwrap();
    assert_eq!(text(&mut db, reserve("a")), "R2026-000051");
    assert_eq!(spans(&mut db), [(1, 50, Unclear), (51, 51, Reserved)]);
}

/// Numbers of counters without a request, and of ended periods, are unclear as far as the notes reach.
pub(crate) fn a_comparison_completes_quiet_ledgers(fixture: &dyn StoreFixture) {
    use NumberState::{Committed, Released, Reserved, Unclear};
    let mut db = begun(fixture);
    db.number(&["a", "b", "c"].map(reserve), &[]);
    db.number(&[act("a", NumberAct::Commit), act("b", NumberAct::Release)], &[]);
    let next_year = key("invoice@Y20270101");
    db.open_period(&OpenPeriodRequest { key: next_year.clone(), ..opening_of(WORDS) }).unwrap();
    let before = spans(&mut db);
    assert_eq!(before, [(1, 1, Committed), (2, 2, Released), (3, 3, Reserved)]);
    assert_eq!(db.compare_ledgers(&[note(2, 4)]), 0);
    assert_eq!(db.compare_ledgers(&[LedgerNote { name: "none".to_owned(), ..note(9, 9) }]), 0);
    assert_eq!(spans(&mut db), before, "nothing is lost");
    let counters = vec![(reserve("").key, 7), (next_year.clone(), 3), (key("invoice@Y20250101"), 5)];
    assert_eq!(db.compare_ledgers(&[LedgerNote { counters, ..note(2, 0) }]), 1);
    let of_2026 = [(1, 1, Committed), (2, 2, Released), (3, 3, Reserved), (4, 6, Unclear)];
    let completed = [&[(1, 4, Unclear)], &of_2026[..], &[(1, 2, Unclear)]].concat();
    assert_eq!(spans(&mut db), completed);
    assert_eq!((db.row(next_year.as_str()).unwrap().next, db.row("invoice@Y20250101")), (3, None));
    assert_eq!(db.compare_ledgers(&[note(3, 7)]), 0, "once");
    assert_eq!(text(&mut db, act("c", NumberAct::Commit)), "R2026-000003", "the ledger was not marked");
    for text in ["R2025-000002", "R2026-000005"] {
        assert!(db.number(&[settle(text, true)], &[]).each.remove(0).unwrap().is_changed, "{text}");
    }
    // A server that never runs again may have known more changes.
    let suspect = LedgerNote { is_suspect: true, ..LedgerNote::of("invoice") };
    assert_eq!(db.compare_ledgers(&[suspect.clone(), LedgerNote { name: "none".to_owned(), ..suspect }]), 1);
    assert!(spans(&mut db).contains(&(2, 2, Unclear)), "the released number is not handed out again");
    let later = NumberRequest { key: next_year, stamp: CivilTime { year: 2027, ..CivilTime::FIRST }, ..reserve("d") };
    assert_eq!(text(&mut db, later), "R2027-000003");
}

/// Returns the numbers and the state of each row.
fn spans(db: &mut Db) -> Vec<(i64, i64, NumberState)> {
    rows(db).into_iter().map(|(number, last, state, _)| (number, last, state)).collect()
}

pub(crate) fn a_counter_with_a_ledger_is_changed_by_it_only(fixture: &dyn StoreFixture) {
    let mut db = begun(fixture);
    let name = reserve("").key.to_string();
    assert_eq!(text(&mut db, reserve("a")), "R2026-000001");
    refuses_changes(&mut db, &name);
    let monthly = "invoice serial R{yyyy}{MM}-{n:6} zone UTC reset month gapless";
    let other = OpenPeriodRequest { key: key("invoice@M20260101"), redeclares: true, ..opening_of(monthly) };
    let verdict = db.open_period(&other).unwrap_err();
    assert!(matches!(&verdict, Verdict::Unsupported(why) if why.contains("'reset year'")), "{verdict:?}");
    let raise = |last| act("", NumberAct::Raise { last, reason: "moved".to_owned() });
    assert_eq!(text(&mut db, raise(9)), "R2026-000002");
    assert_eq!(text(&mut db, reserve("b")), "R2026-000010");
    let expected = [
        (1, 1, NumberState::Reserved, "a".to_owned()),
        (2, 9, NumberState::Void, String::new()),
        (10, 10, NumberState::Reserved, "b".to_owned()),
    ];
    assert_eq!(rows(&mut db), expected);
    // Periods with numbers that are not settled stay.
    db.open_period(&OpenPeriodRequest { key: key("invoice@Y20270101"), ..opening_of(WORDS) }).unwrap();
    assert_eq!(db.prune("invoice", "20261231", true).unwrap().deleted, 0);
    db.number(&[act("a", NumberAct::Commit), settle("R2026-000010", false)], &[]);
    assert_eq!(db.prune("invoice", "20261231", true).unwrap().deleted, 1);
    assert_eq!(db.number(&[act("a", NumberAct::Commit)], &[]).each.remove(0).unwrap().state, NumberState::Committed);
}

/// A restore of some tables has lost the generator's row. Nothing is answered as done that was not written; when the
/// row is begun again, what was not committed is unclear.
pub(crate) fn a_ledger_without_its_generator_waits_for_it(fixture: &dyn StoreFixture) {
    let mut db = begun(fixture);
    db.number(&[reserve("a"), reserve("b")], &[]);
    db.number(&[act("a", NumberAct::Commit)], &[]);
    drop(db);
    fixture.sql("DELETE FROM getid_generator;").unwrap();
    let mut db = Db::open(fixture);
    for ask in [act("b", NumberAct::Commit), act("b", NumberAct::Release), settle("R2026-000002", false), reserve("b")]
    {
        let answer = db.number(&[ask], &[]).each.remove(0);
        assert_eq!(answer, Err(NumberVerdict::Row(Verdict::NoSuch)));
    }
    db.open_period(&opening_of(WORDS)).unwrap();
    let refused = refused(&mut db, act("b", NumberAct::Commit));
    assert_eq!(refused, NumberRefusal::Settled { text: "R2026-000002".to_owned(), state: NumberState::Unclear });
    let states: Vec<_> = rows(&mut db).into_iter().map(|(number, _, state, _)| (number, state)).collect();
    assert_eq!(states, [(1, NumberState::Committed), (2, NumberState::Unclear)]);
}

pub(crate) fn a_ledger_that_went_back_is_unclear(fixture: &dyn StoreFixture) {
    use NumberState::{Committed, Reserved, Unclear, Void};
    let mut db = begun(fixture);
    let asks: Vec<NumberRequest> = (1..=4).map(|n| reserve(&format!("r{n}"))).collect();
    db.number(&asks, &[]);
    db.number(&[act("r1", NumberAct::Commit), act("r2", NumberAct::Release)], &[]);
    drop(db);
    // The rows of two changes are lost, and the store is older than the notes of the server.
    fixture.sql("UPDATE getid_generator SET ledger = 2;").unwrap();
    let mut db = Db::open(fixture);
    assert_eq!(text(&mut db, act("r1", NumberAct::Commit)), "R2026-000001", "a ledger as it was left is not marked");
    let answers = db.number(&[reserve("r5"), reserve("r3")], &[note(7, 9)]);
    assert_eq!(answers.ledgers[0].changes, 8);
    assert_eq!(answers.each[0].as_ref().unwrap().text, "R2026-000009");
    let unclear = NumberRefusal::Settled { text: "R2026-000003".to_owned(), state: NumberState::Unclear };
    assert_eq!(answers.each[1], Err(NumberVerdict::Refused(unclear)));
    let states: Vec<_> = rows(&mut db).into_iter().map(|(number, last, state, _)| (number, last, state)).collect();
    let expected =
        [(1, 1, Committed), (2, 2, Unclear), (3, 3, Unclear), (4, 4, Unclear), (5, 8, Unclear), (9, 9, Reserved)];
    assert_eq!(states, expected);
    assert_eq!(db.ledger_counts("invoice").unclear, 7);
    for (text, commits) in [("R2026-000007", true), ("R2026-000003", false), ("R2026-000005", true)] {
        assert!(db.number(&[settle(text, commits)], &[]).each.remove(0).unwrap().is_changed, "{text}");
    }
    let states: Vec<_> = rows(&mut db).into_iter().map(|(number, last, state, _)| (number, last, state)).collect();
    let expected = [
        (1, 1, Committed),
        (2, 2, Unclear),
        (3, 3, Void),
        (4, 4, Unclear),
        (5, 5, Committed),
        (6, 6, Unclear),
        (7, 7, Committed),
        (8, 8, Unclear),
        (9, 9, Reserved),
    ];
    assert_eq!(states, expected);
    let void = NumberRefusal::Settled { text: "R2026-000003".to_owned(), state: Void };
    assert_eq!(refused(&mut db, act("r3", NumberAct::Commit)), void);
    drop(db);
    // The rows of the ledger are those of an earlier backup.
    fixture.sql("DELETE FROM getid_number WHERE number > 6; UPDATE getid_number SET entry = 3;").unwrap();
    let mut db = Db::open(fixture);
    assert_eq!(text(&mut db, reserve("r6")), "R2026-000010");
    let last = rows(&mut db).pop().unwrap();
    assert_eq!((last.0, last.2), (10, Reserved));
    assert!(rows(&mut db).iter().any(|row| (row.0, row.1, row.2) == (7, 9, Unclear)), "{:?}", rows(&mut db));
}

pub(crate) fn no_number_twice_by_two_connections(fixture: &dyn StoreFixture) {
    drop(begun(fixture));
    let connections = fixture.store().connections_max();
    let barrier = Barrier::new(connections);
    let run = |connection: usize| {
        let mut db = Db::open(fixture);
        barrier.wait();
        let mut answers: Vec<NumberAnswer> = Vec::new();
        for n in 0..30 {
            let request = format!("c{connection} {n}");
            let asks = [reserve(&request), reserve("common")];
            answers.extend(db.number(&asks, &[]).each.into_iter().map(Result::unwrap));
            let end = [NumberAct::Commit, NumberAct::Release][n % 2].clone();
            db.number(&[act(&request, end)], &[]).each.remove(0).unwrap();
        }
        answers
    };
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = (0..connections).map(|nth| scope.spawn(move || run(nth))).collect();
        let common: std::collections::BTreeSet<String> = running
            .into_iter()
            .flat_map(|running| running.join().unwrap().into_iter().skip(1).step_by(2))
            .map(|answer| answer.text)
            .collect();
        assert_eq!(common.len(), 1, "a request has one number");
    });
    let mut db = Db::open(fixture);
    let rows = rows(&mut db);
    let numbers: Vec<i64> = rows.iter().map(|row| row.0).collect();
    assert_eq!(numbers, (1..=i64::try_from(rows.len()).unwrap()).collect::<Vec<_>>(), "no gap");
    let committed = rows.iter().filter(|row| row.2 == NumberState::Committed).count();
    assert_eq!(committed, 15 * connections);
}

/// A user with the documented rights can do all that a ledger needs.
#[track_caller]
pub(crate) fn rights_suffice_for_numbers(db: &mut Db) {
    let words = "receipt serial R{yyyy}-{n:6} zone UTC gapless";
    let of_receipt =
        |ask: NumberRequest| NumberRequest { key: key("receipt@Y20260101"), declaration: declaration(words), ..ask };
    db.open_period(&OpenPeriodRequest { key: key("receipt@Y20260101"), ..opening_of(words) }).unwrap();
    let asks = [reserve("a"), reserve("b"), reserve("c"), act("a", NumberAct::Commit), act("b", NumberAct::Release)];
    let asks = asks.map(of_receipt);
    assert!(db.number(&asks, &[]).each.iter().all(Result::is_ok));
    let settled = db.number(&[of_receipt(settle("R2026-000003", false))], &[]).each.remove(0);
    assert_eq!(settled.unwrap().state, NumberState::Void);
    let query = LedgerQuery { name: "receipt".to_owned(), limit: 9, ..LedgerQuery::default() };
    assert_eq!((db.ledger(&query).rows.len(), db.ledger_counts("receipt").requests), (3, 3));
}
