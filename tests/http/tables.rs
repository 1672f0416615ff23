//! Leaf's and Tinyid's own tables in a real MariaDB. While Leaf's and Tinyid's clients use getid over HTTP, their own
//! servers use the same rows. Here SQL clients run exactly the statements of those servers.

#![cfg(feature = "mysql")]

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, TxOpts};

use crate::support::http::{Http, HttpServer};
use crate::support::mariadb::{MariadbServer, PASSWORD};
use crate::support::{Server, folder, free_port};

/// Requests of each HTTP client in each life of the server.
const REQUESTS: usize = 400;

const TOKEN: &str = "0f673adf80504e2eaa552f5d791b644c";

const LEAF: &str = "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', \
    max_id bigint NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256) DEFAULT NULL, \
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) \
    ENGINE=InnoDB";

const TINYID: &str = "CREATE TABLE tiny_id_info (id bigint unsigned NOT NULL AUTO_INCREMENT, \
    biz_type varchar(63) NOT NULL DEFAULT '', begin_id bigint NOT NULL DEFAULT 0, max_id bigint NOT NULL DEFAULT 0, \
    step int DEFAULT 0, delta int NOT NULL DEFAULT 1, remainder int NOT NULL DEFAULT 0, \
    create_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', \
    update_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', version bigint NOT NULL DEFAULT 0, \
    PRIMARY KEY (id), UNIQUE KEY uniq_biz_type (biz_type)) ENGINE=InnoDB; \
    CREATE TABLE tiny_id_token (id int unsigned NOT NULL AUTO_INCREMENT, token varchar(255) NOT NULL DEFAULT '', \
    biz_type varchar(63) NOT NULL DEFAULT '', remark varchar(255) NOT NULL DEFAULT '', \
    create_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', \
    update_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', PRIMARY KEY (id)) ENGINE=InnoDB";

/// All given values.
#[derive(Default)]
struct GivenValues(Mutex<HashSet<i64>>);

impl GivenValues {
    #[track_caller]
    fn add(&self, values: impl IntoIterator<Item = i64>) {
        let mut all = self.0.lock().unwrap();
        for value in values {
            assert!(all.insert(value), "{value} was given twice");
        }
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Runs a server twice, with its clients: it is killed once, and stopped once.
fn two_lives(database: &MariadbServer, table: &str, clients: &[&(dyn Fn(&mut Http) + Sync)]) {
    let dir = folder();
    for is_killed in [true, false] {
        let (port, url) = (free_port(), database.url());
        let text = port.to_string();
        let store = ["--sequence-store", &url, "--sequence-table", table, "--sequence-wait-ms", "30000"];
        let http = ["--http-port", &text, "--http-bind", "127.0.0.1", "--http-api", table];
        let server = HttpServer { server: Server::start_in(dir.path(), &[&store[..], &http].concat()), port };
        std::thread::scope(|scope| {
            for client in clients {
                let mut http = server.connect();
                scope.spawn(move || (0..REQUESTS).for_each(|_| client(&mut http)));
            }
        });
        if is_killed {
            server.server.kill();
        } else {
            assert!(server.server.stop().success());
        }
    }
}

/// Repeats `step` on its own connection until the clients are done.
fn repeat_until(database: &MariadbServer, is_over: &AtomicBool, mut step: impl AsyncFnMut(&mut Conn)) {
    let options = OptsBuilder::default()
        .socket(Some(database.socket().display().to_string()))
        .user(Some("getid"))
        .pass(Some(PASSWORD))
        .db_name(Some("ids"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut conn = Conn::new(options).await.unwrap();
        conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
        while !is_over.load(Ordering::Relaxed) {
            step(&mut conn).await;
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        conn.disconnect().await.unwrap();
    });
}

/// Leaf's `updateMaxIdAndGetLeafAlloc`.
async fn leaf_segment(conn: &mut Conn) -> std::ops::Range<i64> {
    let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
    let update = "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'orders'";
    transaction.query_drop(update).await.unwrap();
    let row = transaction.query_first("SELECT biz_tag, max_id, step FROM leaf_alloc WHERE biz_tag = 'orders'").await;
    let (_, max_id, step): (String, i64, i64) = row.unwrap().unwrap();
    transaction.commit().await.unwrap();
    max_id - step..max_id
}

#[test]
#[ignore = "needs mariadb"]
fn leafs_programs_are_served_beside_leafs_servers() {
    let database = MariadbServer::start(&[]);
    database.sql(LEAF);
    database.sql("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 20)");
    let (given, is_over) = (GivenValues::default(), AtomicBool::new(false));
    let client = |http: &mut Http| {
        let response = http.ask("GET /api/segment/get/orders", &[], "");
        assert_eq!(response.status, 200, "{response:?}");
        given.add([response.text().parse().unwrap()]);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| repeat_until(&database, &is_over, async |conn| given.add(leaf_segment(conn).await)));
        two_lives(&database, "leaf", &[&client, &client]);
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(given.count() > 4 * REQUESTS, "{}", given.count());
    // After the migration back, Leaf continues above all values.
    let most = given.0.lock().unwrap().iter().copied().max().unwrap();
    assert!(database.sql("SELECT max_id FROM leaf_alloc").parse::<i64>().unwrap() > most);
    assert_eq!(database.sql("SELECT step FROM leaf_alloc"), "20");
}

/// Tinyid's `getNextSegmentId`, or no values after three conflicts.
async fn tinyid_segment(conn: &mut Conn) -> Vec<i64> {
    let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
    for _ in 0..3 {
        let select = "select id, max_id, step, delta, remainder, version from tiny_id_info where biz_type = 'orders'";
        let row = transaction.query_first(select).await;
        let (id, max_id, step, delta, remainder, version): (i64, i64, i64, i64, i64, i64) = row.unwrap().unwrap();
        let new = max_id + step;
        let update = format!(
            "update tiny_id_info set max_id={new}, update_time=now(), version=version+1 \
             where id={id} and max_id={max_id} and version={version} and biz_type='orders'"
        );
        transaction.query_drop(update).await.unwrap();
        if transaction.affected_rows() == 1 {
            transaction.commit().await.unwrap();
            return (max_id + 1..=new).filter(|value| value % delta == remainder).collect();
        }
    }
    transaction.commit().await.unwrap();
    Vec::new()
}

#[test]
#[ignore = "needs mariadb"]
fn tinyids_programs_are_served_beside_tinyids_servers() {
    let database = MariadbServer::start(&[]);
    database.sql(TINYID);
    database.sql(&format!(
        "INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder) VALUES ('orders', 1, 0, 30, 3, 2); \
         INSERT INTO tiny_id_token (token, biz_type) VALUES ('{TOKEN}', 'orders')"
    ));
    let (given, is_over) = (GivenValues::default(), AtomicBool::new(false));
    let query = format!("bizType=orders&token={TOKEN}");
    // A conflict is answered with an empty text, as Tinyid does.
    let numbers = |text: String| -> Vec<i64> {
        text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect()
    };
    let ids = |http: &mut Http| {
        let response = http.ask(&format!("GET /tinyid/id/nextIdSimple?{query}&batchSize=7"), &[], "");
        let values = numbers(response.text());
        assert!(values.len() % 7 == 0 && values.iter().all(|value| value % 3 == 2), "{response:?}");
        given.add(values);
    };
    let segments = |http: &mut Http| {
        let response = http.ask(&format!("POST /tinyid/id/nextSegmentIdSimple?{query}"), &[], "");
        if let [current, loading, max, delta, remainder] = numbers(response.text())[..] {
            assert_eq!((delta, remainder, max - current), (3, 2, 30), "{response:?}");
            assert_eq!(loading, current + 6, "{response:?}");
            given.add((current + 1..=max).filter(|value| value % delta == remainder));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| repeat_until(&database, &is_over, async |conn| given.add(tinyid_segment(conn).await)));
        two_lives(&database, "tinyid", &[&ids, &segments]);
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(given.count() > 10 * REQUESTS, "{}", given.count());
    assert_eq!(database.sql("SELECT step, delta, remainder FROM tiny_id_info"), "30\t3\t2");
}

/// With Tinyid's own rows and tokens, created by its SQL file, getid gives the same IDs as Tinyid.
#[test]
#[ignore = "needs mariadb"]
fn tinyids_own_rows_begin_as_in_tinyid() {
    let database = MariadbServer::start(&[]);
    database.sql(TINYID);
    database.sql(&format!(
        "INSERT INTO tiny_id_info (id, biz_type, begin_id, max_id, step, delta, remainder, version) VALUES \
         (1, 'test', 1, 1, 100000, 1, 0, 1), (2, 'test_odd', 1, 1, 100000, 2, 1, 3), (3, 'zero', 1, 1, 0, 1, 0, 0); \
         INSERT INTO tiny_id_token (token, biz_type) VALUES ('{TOKEN}', 'test'), ('{TOKEN}', 'test_odd'), \
         ('{TOKEN}', 'zero'), ('', 'test')"
    ));
    let url = database.url();
    let words = ["--sequence-store", &url, "--sequence-table", "tinyid", "--http-api", "tinyid"];
    let mut server = HttpServer::start(&words);
    let mut http = server.connect();
    let mut ask = |path: &str| http.ask(&format!("POST /tinyid/id/{path}&token={TOKEN}"), &[], "").text();
    assert_eq!(ask("nextSegmentIdSimple?bizType=test"), "1,20001,100001,1,0");
    assert_eq!(ask("nextSegmentIdSimple?bizType=test_odd"), "1,20001,100001,2,1");
    let full = ask("nextSegmentId?bizType=test");
    assert_eq!(
        full,
        r#"{"data":{"maxId":200001,"loadingId":120001,"currentId":100001,"delta":1,"remainder":0},"code":200,"message":""}"#
    );
    let next = ask("nextIdSimple?bizType=test_odd&batchSize=2");
    let [first, second] = next.split(',').map(|id| id.parse::<i64>().unwrap()).collect::<Vec<_>>()[..] else {
        panic!("{next}")
    };
    assert!(first > 100_001 && first % 2 == 1 && second == first + 2, "{next}");
    // In Tinyid, a step of 0 gives endless empty segments. getid reports an error.
    let trap = ask("nextSegmentId?bizType=zero");
    assert!(trap.contains(r#""code":6"#) && trap.contains("step 0"), "{trap}");
    let line = server.server.wait_log("tiny_id_token");
    assert!(line.contains("3 rows"), "{line}");
}
