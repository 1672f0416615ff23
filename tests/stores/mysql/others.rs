//! The tables of Leaf and Tinyid. Clients that run exactly the statements of Leaf's and Tinyid's Java servers share the
//! rows with getid. Invalid rows are refused by name.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use getid_core::server::{EndChange, EndCondition, VALUE_MAX};
use getid_store::sql::{CreateRequest, Reservation, ReserveRequest, RowChange, RowState, TableKind, Verdict};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, TxOpts};

use super::Scenario;
use crate::db::{Db, ask, create, range, refusal, spec, store};
use crate::faults::GivenRanges;
use crate::support::Server;
use crate::support::backend::Backend as _;
use crate::support::mariadb::{MariadbServer, PASSWORD};
use crate::support::scenarios::scenarios;

pub(super) const SCENARIOS: &[(&str, Scenario)] = scenarios![
    Scenario;
    leaf_and_getid_share_a_row,
    tinyid_and_getid_share_a_row,
    a_whole_server_counts_beside_leaf,
    a_whole_server_counts_beside_tinyid,
    a_row_of_leaf_is_read_as_it_is,
    a_row_of_tinyid_is_read_as_it_is,
    rows_that_are_traps_are_refused_by_name,
    missing_features_of_these_tables_are_done_in_sql,
    values_below_the_floor_are_discarded,
    a_max_id_that_is_lowered_repeats_nothing,
    a_table_that_is_not_there_is_named,
    rows_that_no_name_reaches_are_warned_of,
];

/// The number of segments that each client takes.
const SEGMENTS: usize = 150;

fn open(server: &MariadbServer, table: TableKind) -> Db {
    Db::opened(&*store(&server.url(), table))
}

fn make(server: &MariadbServer, table: TableKind) {
    server.sql(&store(&server.url(), table).schema());
}

/// Connects a client without getid.
async fn plain(server: &MariadbServer) -> Conn {
    let options = OptsBuilder::default()
        .socket(Some(server.socket().display().to_string()))
        .user(Some("getid"))
        .pass(Some(PASSWORD))
        .db_name(Some("ids"));
    Conn::new(options).await.unwrap()
}

fn values(got: &Reservation) -> impl Iterator<Item = i64> {
    (got.first..=got.last).step_by(usize::try_from(got.row.spec.increment).unwrap())
}

/// Leaf's `updateMaxIdAndGetLeafAlloc`, or with the client's own step in place of the column's.
async fn leaf_segment(conn: &mut Conn, own_step: Option<i64>) -> (i64, i64) {
    let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
    match own_step {
        None => transaction.query_drop("UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'orders'").await,
        Some(step) => {
            let update = format!("UPDATE leaf_alloc SET max_id = max_id + {step} WHERE biz_tag = 'orders'");
            transaction.query_drop(update).await
        }
    }
    .unwrap();
    let row = transaction.query_first("SELECT biz_tag, max_id, step FROM leaf_alloc WHERE biz_tag = 'orders'").await;
    let (_, max_id, step): (String, i64, i64) = row.unwrap().unwrap();
    transaction.commit().await.unwrap();
    (max_id - own_step.unwrap_or(step), max_id - 1)
}

fn leaf_and_getid_share_a_row(server: &MariadbServer) {
    make(server, TableKind::Leaf);
    server.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 20)");
    let given = GivenRanges::default();
    std::thread::scope(|scope| {
        for own_step in [None, Some(40)] {
            let (server, given) = (server, &given);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut conn = plain(server).await;
                    for _ in 0..SEGMENTS {
                        let (first, last) = leaf_segment(&mut conn, own_step).await;
                        given.add(first, last);
                    }
                    conn.disconnect().await.unwrap();
                });
            });
        }
        for values in [1, 33] {
            let (server, given) = (server, &given);
            scope.spawn(move || {
                let mut db = open(server, TableKind::Leaf);
                let mut before = 0;
                for _ in 0..SEGMENTS {
                    let got = db.reserve("orders", values).unwrap();
                    assert_eq!(got.last - got.first + 1, i64::from(values.max(20)), "never below the column's step");
                    assert!(
                        got.first > before && got.found_next == got.first && got.row.next == got.last + 1,
                        "{got:?}"
                    );
                    before = got.last;
                    given.add(got.first, got.last);
                }
            });
        }
    });
    // Each value is given once, from the first one on, and none is lost.
    let all = i64::try_from(SEGMENTS * (20 + 40 + 20 + 33)).unwrap();
    assert_eq!((given.max(), i64::try_from(given.count()).unwrap()), (all, all));
    assert_eq!(server.sql("SELECT max_id, step FROM leaf_alloc"), format!("{}\t20", all + 1), "its step stays");
}

/// Tinyid's `getNextSegmentId`: reads and updates by compare-and-swap, at most three times. Counts the lost swaps in
/// `conflicts`.
async fn tinyid_segment(conn: &mut Conn, conflicts: &AtomicUsize) -> Option<(i64, i64, i64, i64)> {
    conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
    let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
    for _ in 0..3 {
        let row = transaction
            .query_first(
                "select id, max_id, step, delta, remainder, version from tiny_id_info where biz_type = 'orders'",
            )
            .await;
        let (id, max_id, step, delta, remainder, version): (i64, i64, i64, i64, i64, i64) = row.unwrap().unwrap();
        let new = max_id + step;
        transaction
            .query_drop(format!(
                "update tiny_id_info set max_id={new}, update_time=now(), version=version+1 \
                 where id={id} and max_id={max_id} and version={version} and biz_type='orders'"
            ))
            .await
            .unwrap();
        if transaction.affected_rows() == 1 {
            transaction.commit().await.unwrap();
            return Some((max_id + 1, new, delta, remainder));
        }
        conflicts.fetch_add(1, Ordering::Relaxed);
    }
    transaction.commit().await.unwrap();
    None
}

fn tinyid_and_getid_share_a_row(server: &MariadbServer) {
    make(server, TableKind::Tinyid);
    server.sql(
        "INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder) VALUES \
         ('orders', 1, 0, 30, 3, 2)",
    );
    let (given, conflicts) = (GivenRanges::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut conn = plain(server).await;
                    for _ in 0..SEGMENTS {
                        if let Some((first, last, delta, remainder)) = tinyid_segment(&mut conn, &conflicts).await {
                            given.add_all((first..=last).filter(|value| value % delta == remainder));
                        }
                    }
                    conn.disconnect().await.unwrap();
                });
            });
        }
        for wanted in [1_u32, 25] {
            let (server, given, conflicts) = (server, &given, &conflicts);
            scope.spawn(move || {
                let mut db = open(server, TableKind::Tinyid);
                let mut before = 0;
                for _ in 0..SEGMENTS {
                    match db.reserve("orders", wanted) {
                        Ok(got) => {
                            let count = if wanted == 1 { 10 } else { 30 };
                            assert_eq!(values(&got).count(), count, "the step, or a multiple of it: {got:?}");
                            assert!(got.first > before && values(&got).all(|value| value % 3 == 2), "{got:?}");
                            before = got.last;
                            given.add_all(values(&got));
                        }
                        Err(Verdict::Contended(message)) => {
                            assert!(message.starts_with("get next segmentId conflict"), "{message}");
                            conflicts.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(verdict) => panic!("{verdict:?}"),
                    }
                }
            });
        }
    });
    assert!(conflicts.load(Ordering::Relaxed) > 0, "no two clients ran at the same time");
    // Each value of the residue is given once, and none is lost: a failed swap takes no values.
    let max_id: i64 = server.sql("SELECT max_id FROM tiny_id_info").parse().unwrap();
    let all: Vec<i64> = (1..=max_id).filter(|value| value % 3 == 2).collect();
    assert_eq!(given.values.into_inner().unwrap().into_iter().collect::<Vec<_>>(), all);
    assert_eq!(server.sql("SELECT step, delta, remainder FROM tiny_id_info"), "30\t3\t2");
}

/// Draws values over sockets from a whole server, which is killed once and stopped once.
fn count_by_a_server(database: &MariadbServer, table: &str, given: &GivenRanges) {
    let dir = crate::support::folder();
    let (url, mut before) = (database.url(), 0);
    for is_killed in [true, false] {
        let words = ["--sequence-store", &url, "--sequence-table", table, "--sequence-wait-ms", "30000"];
        let server = Server::start_in(dir.path(), &words);
        let mut wire = server.connect();
        let (mut values_left, end) = (SEGMENTS * 5, Instant::now() + Duration::from_mins(2));
        while values_left > 0 {
            assert!(Instant::now() < end, "{values_left} values are left");
            wire.send("INCR orders\r\nINCRBY orders 3\r\nINCR orders\r\n");
            for values in [1, 3, 1] {
                let reply = wire.line();
                let Some(last) = reply.strip_prefix(':').and_then(|digits| digits.parse::<i64>().ok()) else {
                    // The database stalled longer than a statement may take, or other clients won each swap.
                    let may =
                        ["-MISCONF sequence store", "-BUSY", "-ERR sequence 'orders': get next segmentId conflict"];
                    assert!(may.iter().any(|text| reply.starts_with(text)), "{reply}");
                    continue;
                };
                values_left = values_left.saturating_sub(usize::try_from(values).unwrap());
                assert!(last > before, "{last} comes after {before}");
                before = last;
                // The reply has only the last value of a range. The table's delta is the distance between its values.
                let apart = if table == "tinyid" { 3 } else { 1 };
                given.add_all((0..values).map(|nth| last - nth * apart));
            }
        }
        if is_killed {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
    }
}

fn a_whole_server_counts_beside_leaf(database: &MariadbServer) {
    make(database, TableKind::Leaf);
    database.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 20)");
    let given = GivenRanges::default();
    std::thread::scope(|scope| {
        scope.spawn(|| count_by_a_server(database, "leaf", &given));
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut conn = plain(database).await;
                for _ in 0..SEGMENTS {
                    let (first, last) = leaf_segment(&mut conn, None).await;
                    given.add(first, last);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                conn.disconnect().await.unwrap();
            });
        });
    });
}

fn a_whole_server_counts_beside_tinyid(database: &MariadbServer) {
    make(database, TableKind::Tinyid);
    database.sql(
        "INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder) VALUES \
         ('orders', 1, 0, 30, 3, 2)",
    );
    let (given, conflicts) = (GivenRanges::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| count_by_a_server(database, "tinyid", &given));
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut conn = plain(database).await;
                for _ in 0..SEGMENTS {
                    if let Some((first, last, delta, remainder)) = tinyid_segment(&mut conn, &conflicts).await {
                        given.add_all((first..=last).filter(|value| value % delta == remainder));
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                conn.disconnect().await.unwrap();
            });
        });
    });
}

fn a_row_of_leaf_is_read_as_it_is(server: &MariadbServer) {
    make(server, TableKind::Leaf);
    server.sql(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step, update_time) VALUES ('a', 1, 100, '2026-01-02 03:04:05'), \
         ('B', 0, 5, NOW()), ('größe', 1, 1, NOW()), ('two/words', 1, 1, NOW()), ('c', 9000000000000000000, 5, NOW())",
    );
    let mut db = open(server, TableKind::Leaf);
    assert_eq!(db.list("", 10, false), ["B", "a", "c"], "the valid sequence names, in byte order");
    assert_eq!((db.list("B", 1, true), db.list("'\\", 9, false).len()), (vec!["a".to_owned()], 3));
    assert_eq!(db.count(), 3);
    let row = db.row("a").unwrap();
    assert_eq!((row.next, row.version, row.generation, row.state), (1, 0, 0, RowState::Live));
    assert_eq!((row.spec.increment, row.spec.cache, row.spec.max), (1, 100, VALUE_MAX));
    assert!(row.updated_unix_ms > 1_700_000_000_000);
    assert_eq!(range(&db.reserve("a", 1).unwrap()), (1, 100), "with max_id 1 the first ID is 1");
    assert_eq!(range(&db.reserve("B", 1).unwrap()), (0, 4));
    assert_eq!(db.reserve("b", 1), Err(Verdict::NoSuch), "the column would take it for B");
    assert_eq!(db.row("A"), None);
    assert_eq!(db.reserve("missing", 1), Err(Verdict::NoSuch));
    let end = db.reserve("c", 10).unwrap();
    assert!(end.last < end.first, "no values are left: {end:?}");
    let answers = db.reserve_all(&[ask("missing", 1), ask("a", 1000), ask("c", 1), ask("B", 1)]);
    assert_eq!(answers[0], Err(Verdict::NoSuch));
    assert_eq!(range(answers[1].as_ref().unwrap()), (101, 1100));
    assert_eq!(range(answers[3].as_ref().unwrap()), (5, 9));
    assert_eq!(db.changes(Some(7)).rows, []);
    assert_eq!(db.info().warnings.len(), 1, "of rows that are not served: {:?}", db.info().warnings);
    assert_eq!(open(server, TableKind::Leaf).info().uuid, db.info().uuid);
    assert_ne!(db.info().uuid, "");
}

fn a_row_of_tinyid_is_read_as_it_is(server: &MariadbServer) {
    make(server, TableKind::Tinyid);
    server.sql(
        "INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder, version) VALUES \
         ('plain', 1, 1, 100, 1, 0, 7), ('odd', 0, 0, 5, 2, 1, 0), ('even', 0, 0, 5, 2, 0, 0), \
         ('tiny', 0, 0, 1, 10, 0, 0), \
         ('end', 0, 9000000000000000000, 5, 1, 0, 0)",
    );
    let mut db = open(server, TableKind::Tinyid);
    assert_eq!(db.list("", 10, false), ["end", "even", "odd", "plain", "tiny"]);
    let row = db.row("plain").unwrap();
    assert_eq!((row.next, row.version, row.spec.cache), (2, 7, 100));
    let got = db.reserve("plain", 1).unwrap();
    assert_eq!((range(&got), got.found_next, got.row.version), ((2, 101), 2, 8), "(old max_id, old max_id + step]");
    assert_eq!(range(&db.reserve("odd", 1).unwrap()), (1, 5));
    assert_eq!(range(&db.reserve("odd", 1).unwrap()), (7, 9), "of 6 to 10");
    assert_eq!(range(&db.reserve("even", 1).unwrap()), (2, 4));
    assert_eq!(range(&db.reserve("even", 6).unwrap()), (6, 20), "three steps, 6 to 20: eight values");
    assert_eq!(range(&db.reserve("tiny", 2).unwrap()), (10, 20), "twenty steps of 1, of which two values count");
    let end = db.reserve("end", 10).unwrap();
    assert!(end.last < end.first, "no values are left: {end:?}");
    assert_eq!(db.reserve("PLAIN", 1), Err(Verdict::NoSuch));
    assert_eq!(server.sql("SELECT max_id, version FROM tiny_id_info WHERE biz_type = 'even'"), "20\t2");
}

/// Invalid rows: for each, getid names what it does to Leaf's or Tinyid's own servers, and does not change the row.
fn rows_that_are_traps_are_refused_by_name(server: &MariadbServer) {
    make(server, TableKind::Leaf);
    make(server, TableKind::Tinyid);
    server.sql(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('zero', 1, 0), ('minus', 1, -5), ('below', -7, 10), \
         ('good', 1, 10)",
    );
    let mut db = open(server, TableKind::Leaf);
    for (name, message) in [
        (
            "zero",
            "the row 'zero' of leaf_alloc has step 0, so its segments are empty: UPDATE leaf_alloc SET step = 1000",
        ),
        ("minus", "has step -5"),
        ("below", "has max_id -7, must be 0 to 9000000000000000000"),
    ] {
        let before = server.sql(&format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = '{name}'"));
        let answers = db.reserve_all(&[ask(name, 1), ask("good", 1)]);
        assert!(matches!(&answers[0], Err(Verdict::BadRow(text)) if text.contains(message)), "{answers:?}");
        assert!(answers[1].is_ok(), "the others continue");
        assert_eq!(server.sql(&format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = '{name}'")), before);
    }
    assert_eq!(db.list("", 9, false).len(), 4, "invalid rows are listed");
    server.sql(
        "INSERT INTO tiny_id_info (biz_type, max_id, step, delta, remainder) VALUES ('zero', 0, 0, 1, 0), \
         ('null', 0, NULL, 1, 0), ('delta', 0, 10, 0, 0), ('wide', 0, 10, 2000000, 0), ('residue', 0, 10, 2, 2), \
         ('minus', 0, 10, 2, -1), ('below', -7, 10, 1, 0), ('good', 0, 10, 1, 0)",
    );
    let mut db = open(server, TableKind::Tinyid);
    for (name, message) in [
        ("zero", "the row 'zero' of tiny_id_info has step 0, so its segments are empty: UPDATE tiny_id_info SET step"),
        ("null", "has step NULL"),
        ("delta", "has delta 0, must be 1 to 1000000"),
        ("wide", "has delta 2000000, must be 1 to 1000000"),
        ("residue", "has remainder 2, which no value has with delta 2, must be below it"),
        ("minus", "has remainder -1"),
        ("below", "has max_id -7"),
    ] {
        let row = format!("SELECT max_id, version FROM tiny_id_info WHERE biz_type = '{name}'");
        let before = server.sql(&row);
        let answers = db.reserve_all(&[ask(name, 1), ask("good", 1)]);
        assert!(matches!(&answers[0], Err(Verdict::BadRow(text)) if text.contains(message)), "{answers:?}");
        assert!(answers[1].is_ok(), "the others continue");
        assert_eq!(server.sql(&row), before);
    }
    assert_eq!(db.list("", 9, false).len(), 8);
}

/// An operation that these tables do not support is refused with the SQL that does it, and that SQL works.
fn missing_features_of_these_tables_are_done_in_sql(server: &MariadbServer) {
    for table in [TableKind::Leaf, TableKind::Tinyid] {
        server.clear();
        make(server, table);
        let mut db = open(server, table);
        let unsupported = |answer: Result<_, Verdict>| match answer {
            Err(Verdict::Unsupported(text)) => text,
            answer => panic!("{answer:?}"),
        };
        let sql_of = |text: &str| text[text.find(": ").unwrap() + 2..].split(", and higher").next().unwrap().to_owned();
        let text = unsupported(db.create_of(&create("orders", "")));
        assert_eq!(db.count(), 0);
        server.sql(&sql_of(&text));
        assert_eq!(db.reserve("orders", 1).unwrap().first, 1, "{text}");
        let text = unsupported(db.create_of(&CreateRequest { above_dropped: true, ..create("orders", "") }));
        assert!(text.contains("INSERT INTO"), "{text}");
        let text = unsupported(db.raise("orders", 5000));
        server.sql(&sql_of(&text));
        server.sql(&sql_of(&text));
        assert_eq!(db.reserve("orders", 1).unwrap().first, 5001, "{text}");
        let text = unsupported(db.change("orders", &RowChange::WentBack { had_next: 9001 }));
        server.sql(&sql_of(&text));
        assert_eq!(db.reserve("orders", 1).unwrap().first, 9001, "{text}");
        let text = unsupported(db.change("orders", &RowChange::Alter { spec: spec("cache 5"), next_from: 0 }));
        assert!(text.contains("SET step = 1000"), "{text}");
        let text = unsupported(db.change("orders", &RowChange::Drop));
        assert!(text.contains("note its max_id"), "{text}");
        unsupported(db.change("orders", &RowChange::Confirm { has_ledger: false }));
        let change = EndChange { unix_ms: 4_000_000_000_000, condition: EndCondition::default() };
        let text = unsupported(db.change("orders", &RowChange::Expire(change)));
        assert!(text.contains("omit the expiry of 'orders'") && text.contains("sequence-table native"), "{text}");
        let got = db.reserve("orders", 1).unwrap();
        assert!(!db.give_back(&got.row, got.first), "nothing is given back");
        assert_eq!(db.reserve("orders", 1).unwrap().first, got.last + 1);
        assert!(matches!(db.reserve_in("p@Y20260101", 1), Err(Verdict::Unsupported(_))));
        assert_eq!(db.reserve("p@Y20260101", 1), Err(Verdict::NoSuch));
    }
}

/// Another program lowers `max_id`, and another server reserves first.
fn a_max_id_that_is_lowered_repeats_nothing(server: &MariadbServer) {
    for (table, sql) in [
        (TableKind::Leaf, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 10)"),
        (TableKind::Tinyid, "INSERT INTO tiny_id_info (biz_type, max_id, step, delta) VALUES ('orders', 0, 10, 1)"),
    ] {
        make(server, table);
        server.sql(sql);
        let lower = match table {
            TableKind::Leaf => "UPDATE leaf_alloc SET max_id = 5 WHERE biz_tag = 'orders'",
            _ => "UPDATE tiny_id_info SET max_id = 5, version = version + 1 WHERE biz_type = 'orders'",
        };
        let (mut first, mut second) = (open(server, table), open(server, table));
        let mut last = 0;
        for _ in 0..30 {
            last = first.reserve("orders", 100).unwrap().last;
        }
        server.sql(lower);
        for db in [&mut second, &mut first] {
            let got = db.reserve("orders", 10).unwrap();
            assert!(got.first > last && got.found_next > last, "{got:?} after {last}");
            last = got.last;
        }
    }
}

/// One of several databases may be behind: values below the floor are not given, and the row soon passes it.
fn values_below_the_floor_are_discarded(server: &MariadbServer) {
    make(server, TableKind::Leaf);
    server.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('near', 1, 10), ('far', 1, 10), ('in', 1, 10)");
    let mut db = open(server, TableKind::Leaf);
    let from = |name: &str, floor: i64| ReserveRequest { floor, ..ask(name, 5) };
    assert_eq!(range(&db.reserve_of(&from("in", 8)).unwrap()), (8, 10), "a part of it is above");
    let got = db.reserve_of(&from("near", 1_000_001)).unwrap();
    assert!(got.first == 1_000_001 && got.last >= 1_000_005, "{got:?}");
    let answer = db.reserve_of(&from("far", 900_000_000));
    let Err(Verdict::BadRow(text)) = answer else { panic!("{answer:?}") };
    assert!(text.contains("UPDATE leaf_alloc SET max_id = 900000000 WHERE biz_tag = 'far'"), "{text}");
    server.sql(&text[text.find("UPDATE").unwrap()..]);
    assert_eq!(db.reserve_of(&from("far", 900_000_000)).unwrap().first, 900_000_000);
    make(server, TableKind::Tinyid);
    server.sql(
        "INSERT INTO tiny_id_info (biz_type, max_id, step, delta, remainder) VALUES ('near', 0, 10, 2, 1), \
         ('far', 0, 10, 2, 1), ('in', 0, 10, 2, 1)",
    );
    let mut db = open(server, TableKind::Tinyid);
    assert_eq!(range(&db.reserve_of(&from("in", 6)).unwrap()).0, 7);
    let got = db.reserve_of(&from("near", 1_000_000)).unwrap();
    assert!(got.first == 1_000_001 && values(&got).count() >= 5, "{got:?}");
    let answer = db.reserve_of(&from("far", 900_000_000));
    let Err(Verdict::BadRow(text)) = answer else { panic!("{answer:?}") };
    server.sql(&text[text.find("UPDATE").unwrap()..]);
    assert_eq!(db.reserve_of(&from("far", 900_000_000)).unwrap().first, 900_000_001);
}

fn rows_that_no_name_reaches_are_warned_of(server: &MariadbServer) {
    let part = format!("because a name has {}", getid_core::server::SEQUENCE_NAME_RULE);
    for (table, name, column) in
        [(TableKind::Leaf, "leaf_alloc", "biz_tag"), (TableKind::Tinyid, "tiny_id_info", "biz_type")]
    {
        make(server, table);
        server.sql(&format!("ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4"));
        let insert = |names: &[&str]| {
            let rows: Vec<_> = names.iter().map(|name| format!("('{name}', 10)")).collect();
            server.sql(&format!("INSERT INTO {name} ({column}, step) VALUES {}", rows.join(", ")));
        };
        insert(&["orders", "a.b:c-1_2"]);
        assert_eq!(open(server, table).info().warnings, [""; 0], "{name}");
        insert(&["订单", "shop/pay"]);
        let warnings = open(server, table).info().warnings.clone();
        let expected = format!("2 rows of {name} cannot be served, {part}: {column} 'shop/pay', '订单'");
        assert_eq!(warnings, [expected]);
        insert(&["!1", "!2", "!3", "!4"]);
        let warnings = open(server, table).info().warnings.clone();
        let end = format!("{column} '!1', '!2', '!3', '!4', 'shop/pay' and 1 more");
        assert!(warnings[0].starts_with("6 rows ") && warnings[0].ends_with(&end), "{warnings:?}");
    }
}

fn a_table_that_is_not_there_is_named(server: &MariadbServer) {
    for (table, name) in [(TableKind::Leaf, "leaf_alloc"), (TableKind::Tinyid, "tiny_id_info")] {
        let message = refusal(&server.url(), table);
        assert!(message.contains(&format!("the database 'ids' has no table {name}")), "{message}");
        assert!(message.contains("is it the right database?"), "{message}");
        assert_eq!(server.sql("SHOW TABLES"), "", "getid does not create it");
        server.sql(&format!("CREATE TABLE {name} (id INT)"));
        let message = refusal(&server.url(), table);
        assert!(message.contains("Unknown column"), "{message}");
        server.sql(&format!("DROP TABLE {name}"));
    }
    make(server, TableKind::Leaf);
    server
        .sql("ALTER TABLE leaf_alloc ENGINE=MyISAM; CREATE OR REPLACE USER app@localhost; GRANT SELECT ON ids.* TO app@localhost");
    assert!(open(server, TableKind::Leaf).info().warnings[0].contains("leaf_alloc is a table of MyISAM"));
    let message = refusal(&server.url_of("app", "ids", ""), TableKind::Leaf);
    assert!(message.contains("UPDATE command denied") && message.contains("GRANT"), "{message}");
}
