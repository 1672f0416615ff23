//! A program that counts in Redis by the crate `redis`, unchanged: `client-matrix redis-sequences`.

use redis::{Commands, Connection, RedisResult};

fn refused<T: std::fmt::Debug>(text: &str, answer: RedisResult<T>) {
    let error = answer.expect_err(text).to_string();
    assert!(error.contains(text), "{error}");
}

/// Checks the server at `GETID_PORT`.
pub fn check() {
    let port = std::env::var("GETID_PORT").expect("GETID_PORT");
    let mut own: Connection = redis::Client::open(format!("redis://127.0.0.1:{port}"))
        .and_then(|client| client.get_connection())
        .expect("up");
    refused("no such sequence 'rs'", own.incr::<_, _, i64>("rs", 1));
    assert_eq!(own.get::<_, Option<i64>>("rs"), Ok(None));
    let created: RedisResult<String> = redis::cmd("SEQUENCE").arg(&["CREATE", "rs", "START", "100"]).query(&mut own);
    assert_eq!(created.as_deref(), Ok("OK"));
    assert_eq!([own.incr("rs", 1), own.incr("rs", 10), own.get("rs")], [Ok(100_i64), Ok(110), Ok(110)]);
    assert_eq!((own.exists("rs"), own.ttl("rs")), (Ok(true), Ok(-1_i64)));
    assert_eq!((own.hincr("rs", "cur", 5), own.hget("rs", "cur")), (Ok(115_i64), Ok(115_i64)));
    let all: RedisResult<(i64, i64, i64)> =
        redis::pipe().atomic().incr("rs", 1).incr("rs", 2).get("rs").query(&mut own);
    assert_eq!(all, Ok((116, 118, 118)));
    assert_eq!((own.set_nx("rs", 5), own.set_nx("rs2", 7), own.incr("rs2", 1)), (Ok(false), Ok(true), Ok(8_i64)));
    refused("a sequence never goes back", own.set::<_, _, ()>("rs", 5));
    refused("a sequence never goes back", own.incr::<_, _, i64>("rs", -1));
    let mut found: Vec<String> = own.scan_match("rs*").and_then(Iterator::collect).expect("names");
    found.sort();
    assert_eq!(found, ["rs", "rs2"]);
    println!("ok redis");
}
