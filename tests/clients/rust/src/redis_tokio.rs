//! The crate `redis` with tokio and RESP3: its multiplexed connection, and its connection manager, which reconnects.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Client, RedisResult, ServerErrorKind, TlsCertificates, cmd, pipe};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

use crate::redis_sync::{has, is_refused};
use crate::{EACH, POOL, ascending, distinct, exact, port, variable};

fn url(who: &str, port_name: &str) -> String {
    format!("redis://{who}127.0.0.1:{}/?protocol=resp3", port(port_name))
}

fn client() -> Client {
    Client::open(url("", "MATRIX_PORT")).expect("a client")
}

async fn open() -> MultiplexedConnection {
    client().get_multiplexed_async_connection().await.expect("connected")
}

async fn id(connection: &mut impl ConnectionLike) -> i64 {
    cmd("GETID").query_async(connection).await.expect("an ID")
}

async fn client_id(connection: &mut impl ConnectionLike) -> i64 {
    cmd("CLIENT").arg("ID").query_async(connection).await.expect("an integer")
}

async fn kill(id: i64) {
    let killed: i64 =
        cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(&mut open().await).await.expect("a count");
    assert_eq!(killed, 1);
}

async fn thousand(connection: &mut impl ConnectionLike, is_atomic: bool) -> i64 {
    let mut queue = pipe();
    if is_atomic {
        queue.atomic();
    }
    for _ in 0..1000 {
        queue.cmd("GETID");
    }
    let ids: Vec<i64> = queue.query_async(connection).await.expect("IDs");
    assert_eq!(ids.len(), 1000);
    ascending(&ids, -1);
    ids[999]
}

pub async fn check(name: &str) {
    match name {
        "connect" => {
            let url = format!("redis://127.0.0.1:{}/3?protocol=resp3", port("MATRIX_PORT"));
            let client = Client::open(url).expect("a client");
            let mut connection = client.get_multiplexed_async_connection().await.expect("connected");
            let pong: String = cmd("PING").query_async(&mut connection).await.expect("a reply");
            assert_eq!(pong, "PONG");
            let me: String = cmd("CLIENT").arg("INFO").query_async(&mut connection).await.expect("a text");
            for field in ["db=3", "resp=3", "lib-name=redis-rs"] {
                assert!(me.contains(field), "no {field}: {me}");
            }
            let info: redis::InfoDict =
                cmd("INFO").arg("generator").query_async(&mut connection).await.expect("fields");
            assert!(info.get::<u64>("ids_issued").is_some());
            let pairs: std::collections::HashMap<String, String> =
                cmd("CONFIG").arg("GET").arg("port").query_async(&mut connection).await.expect("a map");
            assert_eq!(pairs["port"], port("MATRIX_PORT").to_string());
        }
        "getid" => {
            let mut connection = open().await;
            let mut ids = Vec::new();
            for _ in 0..1024 {
                ids.push(id(&mut connection).await);
            }
            ascending(&ids, -1);
            exact(&ids);
        }
        "mgetid" => {
            let mut connection = open().await;
            let last = id(&mut connection).await;
            let many: Vec<i64> = cmd("MGETID").arg(100).query_async(&mut connection).await.expect("IDs");
            assert_eq!(many.len(), 100);
            ascending(&many, last);
        }
        "error" => {
            let mut connection = open().await;
            let before = client_id(&mut connection).await;
            let result: RedisResult<Vec<i64>> = cmd("MGETID").arg(101).query_async(&mut connection).await;
            is_refused(result, ServerErrorKind::ResponseError, "parameters error! argv[1] = 101");
            let result: RedisResult<()> = cmd("NOSUCH").query_async(&mut connection).await;
            is_refused(result, ServerErrorKind::ResponseError, "unknown command 'NOSUCH'");
            assert!(id(&mut connection).await > 0);
            assert_eq!(client_id(&mut connection).await, before, "the connection was not kept");
        }
        "pipeline" => {
            let mut connection = open().await;
            let last = thousand(&mut connection, false).await;
            let mut mixed = pipe();
            mixed.cmd("GETID").cmd("MGETID").arg(0);
            let result: RedisResult<(i64, i64)> = mixed.query_async(&mut connection).await;
            has(&result.expect_err("an error inside"), "argv[1] = 0");
            ascending(&[id(&mut connection).await], last);
        }
        "multi" => {
            let mut connection = open().await;
            let last = thousand(&mut connection, true).await;
            // A command that cannot be queued aborts the transaction.
            let mut broken = pipe();
            broken.atomic().cmd("GETID").cmd("MGETID");
            let result: RedisResult<(i64, i64)> = broken.query_async(&mut connection).await;
            has(&result.expect_err("an error inside"), "wrong number of arguments");
            ascending(&[id(&mut connection).await], last);
        }
        "pool" => {
            let all_connected = Arc::new(Barrier::new(POOL));
            let tasks: Vec<_> = (0..POOL)
                .map(|_| {
                    let all_connected = Arc::clone(&all_connected);
                    tokio::spawn(async move {
                        let mut connection = open().await;
                        all_connected.wait().await;
                        let mut ids = Vec::new();
                        for _ in 0..EACH {
                            ids.push(id(&mut connection).await);
                        }
                        ids
                    })
                })
                .collect();
            let mut drawn = Vec::new();
            for task in tasks {
                drawn.push(task.await.expect("drawn"));
            }
            distinct(&drawn);
        }
        "reconnect" => {
            let mut managed = client().get_connection_manager().await.expect("connected");
            let (before, last) = (client_id(&mut managed).await, id(&mut managed).await);
            kill(before).await;
            // The manager returns the error of the lost connection, and reconnects in the background.
            let mut next = cmd("GETID").query_async::<i64>(&mut managed).await;
            for _ in 0..100 {
                let Err(error) = &next else { break };
                assert!(error.is_connection_dropped() || error.is_io_error(), "{error:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
                next = cmd("GETID").query_async(&mut managed).await;
            }
            ascending(&[next.expect("reconnected")], last);
            assert_ne!(client_id(&mut managed).await, before);
        }
        "password" => {
            let connect = async |who: &str| {
                let client = Client::open(url(who, "MATRIX_PASSWORD_PORT")).expect("a client");
                client.get_multiplexed_async_connection().await
            };
            for who in [":wrong@", "default:wrong@"] {
                has(&connect(who).await.expect_err("a wrong password"), "WRONGPASS");
            }
            // HELLO negotiates RESP3, and takes a password too.
            has(&connect("").await.expect_err("no password"), "NOAUTH");
            let password = variable("MATRIX_PASSWORD");
            for who in [format!(":{password}@"), format!("default:{password}@")] {
                assert!(id(&mut connect(&who).await.expect("the right password")).await > 0);
            }
        }
        "tls" => {
            let url = format!("rediss://127.0.0.1:{}/?protocol=resp3", port("MATRIX_TLS_PORT"));
            let root_cert = Some(std::fs::read(variable("MATRIX_CA")).expect("the file of authorities"));
            let trusting = Client::build_with_tls(url.as_str(), TlsCertificates { client_tls: None, root_cert });
            let mut connection =
                trusting.expect("a client").get_multiplexed_async_connection().await.expect("connected");
            thousand(&mut connection, false).await;
            let stranger = Client::open(url).expect("a client").get_multiplexed_async_connection().await;
            let error = stranger.expect_err("an unknown authority");
            assert!(error.to_string().contains("certificate"), "{error}");
        }
        other => panic!("no such check: {other}"),
    }
}
