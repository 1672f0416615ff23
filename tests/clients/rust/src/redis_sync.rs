//! The crate `redis`, blocking, at its defaults (RESP2).

use std::sync::Barrier;
use std::thread;

use redis::{Client, Connection, ErrorKind, RedisError, RedisResult, ServerErrorKind, TlsCertificates, cmd, pipe};

use crate::{EACH, POOL, ascending, distinct, exact, port, variable};

fn client() -> Client {
    Client::open(format!("redis://127.0.0.1:{}", port("MATRIX_PORT"))).expect("a client")
}

fn open() -> Connection {
    client().get_connection().expect("connected")
}

fn id(connection: &mut Connection) -> i64 {
    cmd("GETID").query(connection).expect("an ID")
}

fn client_id(connection: &mut Connection) -> i64 {
    cmd("CLIENT").arg("ID").query(connection).expect("an integer")
}

#[track_caller]
pub fn is_refused<T>(result: RedisResult<T>, kind: ServerErrorKind, text: &str) {
    let error = result.err().expect("an error");
    assert_eq!(error.kind(), ErrorKind::Server(kind), "{error}");
    has(&error, text);
}

#[track_caller]
pub fn has(error: &RedisError, text: &str) {
    assert!(error.to_string().contains(text) || format!("{error:?}").contains(text), "{error:?}");
}

fn thousand(connection: &mut Connection, is_atomic: bool) -> i64 {
    let mut queue = pipe();
    if is_atomic {
        queue.atomic();
    }
    for _ in 0..1000 {
        queue.cmd("GETID");
    }
    let ids: Vec<i64> = queue.query(connection).expect("IDs");
    assert_eq!(ids.len(), 1000);
    ascending(&ids, -1);
    ids[999]
}

pub fn check(name: &str) {
    match name {
        "connect" => {
            let url = format!("redis://127.0.0.1:{}/3", port("MATRIX_PORT"));
            let mut connection = Client::open(url).expect("a client").get_connection().expect("connected");
            assert_eq!(cmd("PING").query::<String>(&mut connection).expect("a reply"), "PONG");
            assert_eq!(cmd("ECHO").arg("x").query::<String>(&mut connection).expect("a reply"), "x");
            cmd("CLIENT").arg("SETNAME").arg("matrix").query::<()>(&mut connection).expect("OK");
            let me: String = cmd("CLIENT").arg("INFO").query(&mut connection).expect("a text");
            for field in ["name=matrix", "db=3", "resp=2", "lib-name=redis-rs"] {
                assert!(me.contains(field), "no {field}: {me}");
            }
            let info: redis::InfoDict = cmd("INFO").arg("generator").query(&mut connection).expect("fields");
            assert!(info.get::<u64>("ids_issued").is_some());
            let (name, value): (String, String) =
                cmd("CONFIG").arg("GET").arg("port").query(&mut connection).expect("a pair");
            assert_eq!((name.as_str(), value), ("port", port("MATRIX_PORT").to_string()));
        }
        "getid" => {
            let mut connection = open();
            let ids: Vec<i64> = (0..1024).map(|_| id(&mut connection)).collect();
            ascending(&ids, -1);
            exact(&ids);
        }
        "mgetid" => {
            let mut connection = open();
            let last = id(&mut connection);
            let many: Vec<i64> = cmd("MGETID").arg(100).query(&mut connection).expect("IDs");
            assert_eq!(many.len(), 100);
            ascending(&many, last);
        }
        "error" => {
            let mut connection = open();
            let before = client_id(&mut connection);
            let refusals =
                [("101", "parameters error! argv[1] = 101"), ("x", "value is not an integer or out of range")];
            for (count, text) in refusals {
                let result: RedisResult<Vec<i64>> = cmd("MGETID").arg(count).query(&mut connection);
                is_refused(result, ServerErrorKind::ResponseError, text);
            }
            let result: RedisResult<()> = cmd("NOSUCH").query(&mut connection);
            is_refused(result, ServerErrorKind::ResponseError, "unknown command 'NOSUCH'");
            assert!(id(&mut connection) > 0);
            assert_eq!(client_id(&mut connection), before, "the connection was not kept");
        }
        "pipeline" => {
            let mut connection = open();
            let last = thousand(&mut connection, false);
            let result: RedisResult<(i64, i64)> = pipe().cmd("GETID").cmd("MGETID").arg(0).query(&mut connection);
            has(&result.expect_err("an error inside"), "argv[1] = 0");
            ascending(&[id(&mut connection)], last);
        }
        "multi" => {
            let mut connection = open();
            let last = thousand(&mut connection, true);
            // A command that cannot be queued aborts the transaction.
            let result: RedisResult<(i64, i64)> = pipe().atomic().cmd("GETID").cmd("MGETID").query(&mut connection);
            has(&result.expect_err("an error inside"), "wrong number of arguments");
            ascending(&[id(&mut connection)], last);
        }
        "pool" => {
            let all_connected = Barrier::new(POOL);
            let draw = || {
                let mut connection = open();
                all_connected.wait();
                (0..EACH).map(|_| id(&mut connection)).collect::<Vec<i64>>()
            };
            let drawn: Vec<Vec<i64>> = thread::scope(|scope| {
                let threads: Vec<_> = (0..POOL).map(|_| scope.spawn(draw)).collect();
                threads.into_iter().map(|thread| thread.join().expect("drawn")).collect()
            });
            distinct(&drawn);
        }
        "reconnect" => {
            // A lost connection reports an error; its client opens another one.
            let client = client();
            let (mut connection, mut other) = (client.get_connection().expect("connected"), open());
            let (before, last) = (client_id(&mut connection), id(&mut connection));
            let killed: i64 =
                cmd("CLIENT").arg("KILL").arg("ID").arg(before).query(&mut other).expect("how many were killed");
            assert_eq!(killed, 1);
            let error = cmd("GETID").query::<i64>(&mut connection).expect_err("it is lost");
            assert!(error.is_connection_dropped() && error.is_unrecoverable_error(), "{error:?}");
            let mut connection = client.get_connection().expect("reconnected");
            ascending(&[id(&mut connection)], last);
            assert_ne!(client_id(&mut connection), before);
        }
        "password" => {
            let (port, password) = (port("MATRIX_PASSWORD_PORT"), variable("MATRIX_PASSWORD"));
            let connect =
                |who: &str| Client::open(format!("redis://{who}127.0.0.1:{port}")).expect("a client").get_connection();
            for who in [":wrong@", "default:wrong@"] {
                let error = connect(who).err().expect("a wrong password");
                assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error:?}");
            }
            let mut anonymous = connect("").expect("connected");
            has(&cmd("GETID").query::<i64>(&mut anonymous).expect_err("no password"), "NOAUTH");
            for who in [format!(":{password}@"), format!("default:{password}@")] {
                assert!(id(&mut connect(&who).expect("the right password")) > 0);
            }
        }
        "tls" => {
            let url = format!("rediss://127.0.0.1:{}", port("MATRIX_TLS_PORT"));
            let root_cert = Some(std::fs::read(variable("MATRIX_CA")).expect("the file of authorities"));
            let trusting = Client::build_with_tls(url.as_str(), TlsCertificates { client_tls: None, root_cert });
            thousand(&mut trusting.expect("a client").get_connection().expect("connected"), false);
            let stranger = Client::open(url).expect("a client").get_connection();
            let error = stranger.err().expect("an unknown authority");
            assert!(error.to_string().contains("certificate"), "{error}");
        }
        other => panic!("no such check: {other}"),
    }
}
