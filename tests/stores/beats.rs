//! Tests of server rows (`getid_beat`) that every shared store passes.

use getid_core::server::beat::{BeatKind, BeatRequest, Credentials, Nonce, RestoredServer, ServerState};
use getid_store::sql::{NotedRow, StoreError, TableKind};

use crate::contract::both;
use crate::db::{Db, StoreFixture, ask, create, key, refusal};

const LIFE: Nonce = Nonce(77);

/// Returns a beat request without comparisons or restored rows.
fn asks(nonce: u128, kind: BeatKind) -> BeatRequest {
    BeatRequest {
        nonce: Nonce(nonce),
        life: LIFE,
        address: format!("web-{nonce} 'é' \\"),
        kind,
        acknowledged: 0,
        starts_round: false,
        restored: Vec::new(),
        gone: Vec::new(),
        released: Vec::new(),
        reads_all: true,
    }
}

/// Makes a server without a row join a store.
pub(crate) fn joins(db: &mut Db, nonce: u128, state: ServerState) {
    let kind = BeatKind::Join { seen: None, noted: 0, state };
    let answer = db.beat(&BeatRequest { starts_round: true, ..asks(nonce, kind) });
    assert!(answer.is_done, "{answer:?}");
}

pub(crate) fn credentials(nonce: u128, at_least: u64) -> Credentials {
    Credentials { nonce: Nonce(nonce), life: LIFE, at_least }
}

/// Server rows are stored and read unchanged, and rounds are counted.
pub(crate) fn rows_of_servers_are_kept(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let nothing = db.beat(&asks(1, BeatKind::Look));
    assert_eq!((nothing.is_done, nothing.rows.len(), nothing.round), (true, 0, 0));
    assert!(!nothing.instance.is_empty());
    joins(&mut db, 1, ServerState::Live);
    joins(&mut db, 2, ServerState::Doubt);
    let mut answer = Db::open(fixture).beat(&asks(9, BeatKind::Look));
    answer.rows.sort_by_key(|row| row.nonce);
    let rows: Vec<_> = answer.rows.iter().map(|row| (row.nonce.0, row.life, row.beat, row.state)).collect();
    assert_eq!(rows, [(1, LIFE, 1, ServerState::Live), (2, LIFE, 1, ServerState::Doubt)]);
    assert_eq!((answer.rows[0].address.as_str(), answer.round), ("web-1 'é' \\", 2));
    assert_eq!(answer.instance, nothing.instance);

    let beat = BeatKind::Beat { at_least: 1, state: ServerState::Live };
    let all = BeatRequest {
        acknowledged: 2,
        restored: vec![RestoredServer { nonce: Nonce(3), beat: 7, address: "web-3".to_owned() }],
        gone: vec![(Nonce(2), 1)],
        ..asks(1, beat)
    };
    let answer = db.beat(&all);
    let state = |nonce: u128| answer.rows.iter().find(|row| row.nonce.0 == nonce).map(|row| (row.beat, row.state));
    assert_eq!(state(1), Some((2, ServerState::Live)));
    assert_eq!(state(2), Some((1, ServerState::Gone)));
    assert_eq!(state(3), Some((0, ServerState::Returning)));
    assert_eq!(answer.rows.iter().map(|row| row.acknowledged).max(), Some(2));

    // The row of a server that has left is returned when it is requested.
    let leave = BeatKind::Leave { at_least: 2 };
    assert!(db.beat(&BeatRequest { restored: Vec::new(), ..asks(1, leave) }).is_done);
    let look = |reads_all: bool| BeatRequest { reads_all, ..asks(9, BeatKind::Look) };
    let mut count = |reads_all: bool| db.beat(&look(reads_all)).rows.len();
    assert_eq!((count(true), count(false)), (3, 1));
    let back = BeatKind::Join { seen: Some((LIFE, 3)), noted: 3, state: ServerState::Live };
    assert!(db.beat(&asks(1, back)).is_done);

    // A beat that the row does not allow changes nothing.
    let late = BeatRequest { starts_round: true, ..asks(1, BeatKind::Beat { at_least: 5, state: ServerState::Live }) };
    let answer = db.beat(&late);
    assert_eq!((answer.is_done, answer.round), (false, 2));
    let other_life = BeatRequest { life: Nonce(78), ..asks(1, beat) };
    assert!(!db.beat(&other_life).is_done);
}

/// A reservation needs the server's row, and adds to its beat.
pub(crate) fn a_reservation_needs_the_row_of_its_server(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    db.create("orders", "");
    joins(&mut db, 1, ServerState::Live);
    let reserved = db.try_reserve_as(credentials(1, 1), &[ask("orders", 10), ask("missing", 1)]).unwrap();
    let server = reserved.server.unwrap();
    assert_eq!((server.beat, reserved.each.len()), (2, 2));
    assert_eq!(reserved.each[0].as_ref().unwrap().first, 1);
    assert_eq!(server.instance, db.beat(&asks(9, BeatKind::Look)).instance);
    let row = &reserved.each[0].as_ref().unwrap().row;
    for refused in [credentials(1, 3), credentials(5, 0), Credentials { life: Nonce(78), ..credentials(1, 1) }] {
        assert!(!db.give_back_as(refused, row, 5), "{refused:?}");
    }
    assert!(db.give_back_as(credentials(1, 2), row, 9));
    assert_eq!(db.row("orders").unwrap().next, 9);
    for refused in [credentials(1, 3), credentials(5, 0), Credentials { life: Nonce(78), ..credentials(1, 1) }] {
        let mut other = Db::open(fixture);
        let answer = other.try_reserve_as(refused, &[ask("orders", 10)]);
        assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    }
    let gone = BeatRequest {
        gone: vec![(Nonce(1), 2)],
        ..asks(2, BeatKind::Join { seen: None, noted: 0, state: ServerState::Live })
    };
    db.beat(&gone);
    let answer = db.try_reserve_as(credentials(1, 1), &[ask("orders", 10)]);
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    let mut db = Db::open(fixture);
    let created =
        db.try_create(&getid_store::sql::CreateRequest { server: Some(credentials(2, 9)), ..create("more", "") });
    assert!(matches!(created, Err(StoreError::Unknown(_))), "{created:?}");
    let mut db = Db::open(fixture);
    assert!(db.row("more").is_none());
}

/// Rows that are lower than their notes go up, and no other rows.
pub(crate) fn a_comparison_raises_what_is_lower(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    for name in ["higher", "lower", "odd", "renewed"] {
        db.create(name, if name == "odd" { "increment 7 offset 3" } else { "" });
    }
    db.reserve("higher", 500).unwrap();
    let kind = BeatKind::Join { seen: None, noted: 10, state: ServerState::Returning };
    assert!(db.beat(&asks(1, kind)).is_done);
    let note =
        |name: &str, next: i64, created_unix_ms: i64| NotedRow { key: key(name), next, generation: 0, created_unix_ms };
    db.change("renewed", &getid_store::sql::RowChange::Confirm { has_ledger: false }).unwrap();
    let created = |db: &mut Db, name: &str| db.row(name).unwrap().created_unix_ms;
    let notes = [
        note("higher", 400, created(&mut db, "higher")),
        note("lower", 400, created(&mut db, "lower")),
        note("missing", 400, 5),
        note("odd", 400, created(&mut db, "odd")),
        note("renewed", 400, 5),
    ];
    assert_eq!(db.compare(credentials(1, 99), &notes), None);
    let compared = db.compare(credentials(1, 11), &notes).unwrap();
    assert_eq!((compared.beat, compared.raised), (12, 3));
    let next = |db: &mut Db, name: &str| db.row(name).unwrap().next;
    assert_eq!((next(&mut db, "higher"), next(&mut db, "lower"), next(&mut db, "odd")), (501, 400, 402));
    assert_eq!(next(&mut db, "renewed"), 1, "it was dropped and created again");
    let lost = db.row("missing").unwrap();
    assert_eq!((lost.next, lost.state), (400, getid_store::sql::RowState::WentBack), "no server creates it");
    assert_eq!(db.compare(credentials(1, 12), &notes).unwrap().raised, 0);
    assert_eq!(db.compare(credentials(1, 12), &[]).unwrap().beat, 14);
}

/// A row that the store lost gets the higher note of two servers that compare at the same time.
pub(crate) fn two_comparisons_keep_the_higher_note(fixture: &dyn StoreFixture) {
    const ROWS: usize = 20;
    let mut db = Db::open(fixture);
    for nonce in [1, 2] {
        joins(&mut db, nonce, ServerState::Returning);
    }
    both(fixture, |client, db| {
        for row in 0..ROWS {
            let next = if row % 2 == client { 400 } else { 300 };
            let note = NotedRow { key: key(&format!("lost{row}")), next, generation: 0, created_unix_ms: 5 };
            db.compare(credentials(client as u128 + 1, 1), &[note]).unwrap();
        }
    });
    for row in 0..ROWS {
        assert_eq!(db.row(&format!("lost{row}")).unwrap().next, 400);
    }
}

/// The note of a removed period does not count as a row that the store lost.
pub(crate) fn a_comparison_leaves_closed_periods(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    for period in ["day@D20260131", "day@D20260201", "day@D20260202"] {
        db.reserve_in(period, 7).unwrap();
    }
    assert_eq!(db.prune("day", "2026-01-31", true).unwrap().deleted, 1);
    joins(&mut db, 1, ServerState::Returning);
    let note = |name: &str| NotedRow { key: key(name), next: 8, generation: 0, created_unix_ms: 5 };
    let notes = ["day@D20260131", "day@D20260201", "day@D20260130", "other@D20260131"].map(note);
    let compared = db.compare(credentials(1, 1), &notes).unwrap();
    assert_eq!((compared.beat, compared.raised), (2, 1));
    assert_eq!(db.list("", 9, true), ["day@D20260201", "day@D20260202", "other@D20260131"]);
}

/// An address with `uuid=` opens only that store: it refuses another store, and creates no tables in an empty database.
pub(crate) fn an_address_with_a_uuid_is_for_one_store(fixture: &dyn StoreFixture) {
    let url = |uuid: &str| {
        let url = fixture.url();
        format!("{url}{}uuid={uuid}", if url.contains('?') { '&' } else { '?' })
    };
    let nothing = refusal(&url(&"0".repeat(32)), TableKind::Native);
    assert!(nothing.contains("has no tables of getid") && nothing.contains("omit uuid="), "{nothing}");
    let again = refusal(&url(&"0".repeat(32)), TableKind::Native);
    assert!(again.contains("has no tables of getid"), "none were made: {again}");
    let mut db = Db::open(fixture);
    db.create("orders", "");
    let uuid = db.info().uuid.clone();
    let other = refusal(&url(&"1".repeat(32)), TableKind::Native);
    assert!(other.contains(&format!("is the store {uuid}")) && other.contains("omit uuid="), "{other}");
    assert!(crate::db::db(&url(&uuid)).row("orders").is_some());
}
