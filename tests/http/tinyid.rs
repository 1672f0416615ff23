//! Tinyid's paths: their answers are those of Tinyid's own server.
//!
//! Its tokens are in the store, here in the SQLite file of a server that has not started yet. `tables.rs` tests
//! Tinyid's own tables.

#![cfg(feature = "sqlite")]

use std::path::Path;

use crate::recorded::{self, ok};
use crate::support::http::HttpServer;
use crate::support::{Server, folder, free_port};

const TOKEN: &str = "0f673adf80504e2eaa552f5d791b644c";

/// Creates a server's SQLite file with these sequences and tokens.
fn make(dir: &Path, sequences: &[&str], tokens: &[(&str, &str)]) {
    let server = Server::start_in(dir, &[]);
    let mut redis = server.connect();
    for sequence in sequences {
        ok(&mut redis, &format!("SEQUENCE CREATE {sequence}"));
    }
    server.stop();
    let rows: Vec<String> = tokens.iter().map(|(token, name)| format!("('{token}', '{name}')")).collect();
    let sql = format!(
        "CREATE TABLE tiny_id_token (token VARCHAR(255) NOT NULL, biz_type VARCHAR(63) NOT NULL);
         INSERT INTO tiny_id_token VALUES {};",
        rows.join(",")
    );
    let file = dir.join("sequences-0.sqlite");
    rusqlite::Connection::open(file).unwrap().execute_batch(&sql).unwrap();
}

fn start_in(dir: &Path, words: &[&str]) -> HttpServer {
    let port = free_port();
    let text = port.to_string();
    let all = [&["--http-port", &text, "--http-bind", "127.0.0.1", "--http-api", "tinyid"], words].concat();
    HttpServer { server: Server::start_in(dir, &all), port }
}

const SEQUENCES: &[&str] = &[
    "test start 2 cache 100000",
    "test_odd start 2 increment 2 offset 1 cache 50000",
    "small start 2",
    "odd increment 2 offset 1",
    "private",
];

fn tokens() -> Vec<(&'static str, &'static str)> {
    let names = ["test", "test_odd", "small", "odd", "gone"];
    let own = names.map(|name| (TOKEN, name));
    [&own[..], &[("", "small"), ("other", "private"), ("other", "")]].concat()
}

#[test]
fn recorded_conversations_match_byte_for_byte() {
    let dir = folder();
    make(dir.path(), SEQUENCES, &tokens());
    let server = start_in(dir.path(), &[]);
    recorded::play(&server, include_str!("recorded/tinyid.txt"));
}

#[test]
fn a_batch_has_a_hundred_thousand_at_most() {
    let dir = folder();
    make(dir.path(), SEQUENCES, &tokens());
    let server = start_in(dir.path(), &[]);
    let mut http = server.connect();
    let text =
        http.ask(&format!("GET /tinyid/id/nextIdSimple?bizType=small&token={TOKEN}&batchSize=1000000000"), &[], "");
    let values: Vec<u64> = text.text().split(',').map(|value| value.parse().unwrap()).collect();
    assert!(values.iter().copied().eq(2..=100_001), "{} values", values.len());
    let full = http.ask(&format!("GET /tinyid/id/nextId?bizType=small&token={TOKEN}&batchSize=70000"), &[], "").json();
    let data = full["data"].as_array().unwrap();
    assert_eq!((data.len(), &data[0], full["code"].as_u64()), (70_000, &100_002.into(), Some(200)));
}

#[test]
fn a_form_that_is_too_long_is_not_read() {
    let dir = folder();
    make(dir.path(), SEQUENCES, &tokens());
    let server = start_in(dir.path(), &[]);
    let form = format!("bizType=small&token={TOKEN}&");
    let kind = ["Content-Type: application/x-www-form-urlencoded"];
    let long = server.ask_with("POST /tinyid/id/nextId", &kind, &(form.clone() + &"x".repeat(60_000)));
    assert_eq!(long.json()["data"][0], 2, "{long:?}");
    // The body is not sent completely: a client that sends all of it may get a reset before it reads the answer.
    let mut http = server.connect();
    let head = "POST /tinyid/id/nextId HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n";
    http.send(format!("{head}{}\r\n\r\n{form}{}", kind[0], "x".repeat(70_000)).as_bytes());
    let answer = http.response();
    assert_eq!(answer.text(), r#"{"data":null,"code":5,"message":"token is error"}"#);
    assert!(answer.header("connection") == Some("close"), "{answer:?}");
}

#[test]
fn a_user_of_its_own_has_its_permissions() {
    let dir = folder();
    make(dir.path(), SEQUENCES, &tokens());
    let user = ["--user", "shop", "on", ">secret", "~small", "~test", "+incr", "+sequence|next", "+sequence|info"];
    let words = ["user", "shop", "--requirepass", "other"];
    let server = start_in(dir.path(), &[&words[..], &user].concat());
    let mut http = server.connect();
    let ask = |path: &str, name: &str| format!("GET /tinyid/id/{path}?token={TOKEN}&bizType={name}");
    assert_eq!(http.ask(&ask("nextIdSimple", "small"), &[], "").text(), "2");
    assert_eq!(http.ask(&ask("nextSegmentIdSimple", "test"), &[], "").text(), "1,20001,100001,1,0");
    let refused = http.ask(&ask("nextId", "odd"), &[], "").json();
    assert!(refused["code"] == 6 && refused["data"].is_null(), "{refused}");
    assert!(refused["message"].as_str().unwrap().starts_with("error query segmentId: "), "{refused}");
    assert_eq!(http.ask(&ask("nextIdSimple", "odd"), &[], "").text(), "");
    drop(http);
    server.server.stop();

    // Without a configured user, a token does not replace a required login.
    let server = start_in(dir.path(), &["--requirepass", "other"]);
    let mut http = server.connect();
    let refused = http.ask(&ask("nextId", "small"), &[], "");
    assert_eq!((refused.status, refused.json()["code"].as_u64()), (200, Some(6)), "{refused:?}");
    let login = ["Authorization: Bearer other"];
    assert_eq!(http.ask(&ask("nextIdSimple", "small"), &login, "").text(), "3");
}

#[test]
fn without_a_table_of_tokens_each_is_wrong_and_a_warning_is_logged() {
    let mut server = HttpServer::start(&["--http-api", "tinyid"]);
    ok(&mut server.server.connect(), "SEQUENCE CREATE small");
    let answer = server.ask(&format!("GET /tinyid/id/nextId?bizType=small&token={TOKEN}"));
    assert_eq!(answer.text(), r#"{"data":null,"code":5,"message":"token is error"}"#);
    let line = server.server.wait_log("tiny_id_token");
    assert!(line.contains("CREATE TABLE tiny_id_token"), "{line}");
    assert_eq!(server.ask("GET /tinyid/id/nextIdSimple?bizType=a%0Ab&token=%0d%0a2026%20forged").text(), "");
    assert!(!server.server.log_so_far().contains("forged"));

    let none = HttpServer::start(&["--http-api", "tinyid", "--sequence-store", "none"]);
    let answer = none.ask(&format!("GET /tinyid/id/nextId?bizType=small&token={TOKEN}"));
    assert_eq!(answer.text(), r#"{"data":null,"code":5,"message":"token is error"}"#);
}

#[test]
fn no_token_is_wrong_before_the_store_has_answered() {
    let store = format!("mysql://getid:x@127.0.0.1:{}/ids", free_port());
    let server = HttpServer::start(&["--http-api", "tinyid", "--sequence-store", &store, "--sequence-wait-ms", "50"]);
    let answer = server.ask(&format!("GET /tinyid/id/nextId?bizType=small&token={TOKEN}")).json();
    assert!(answer["code"] == 6 && answer["message"].as_str().unwrap().contains("token"), "{answer}");
}
