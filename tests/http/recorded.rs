//! Recorded conversations of other servers: requests, and their answers byte for byte.
//!
//! In a file of `recorded/`, a case is a paragraph. `>` marks a request's line and then its headers, `>>` its body. `<`
//! marks the status and the type of the answer and then headers that it must have, `<<` its body. `<ms>` in a body is a
//! Unix time in milliseconds. Lines with `#` describe the next case.

#![cfg(feature = "sqlite")]

use crate::support::Wire;
use crate::support::http::{HttpServer, Response};

/// A request and its expected answer.
struct Case<'a> {
    line: &'a str,
    headers: Vec<&'a str>,
    body: String,
    status: &'a str,
    answered_headers: Vec<&'a str>,
    answer: String,
}

/// Plays the conversation on one connection.
#[track_caller]
pub(crate) fn play(server: &HttpServer, file: &str) {
    let mut http = server.connect();
    let mut played = 0;
    for case in file.split("\n\n").filter_map(read) {
        let response = http.ask(case.line, &case.headers, &case.body);
        let kind = response.header("content-type").unwrap_or("-");
        assert_eq!(format!("{} {kind}", response.status), case.status, "{}: {response:?}", case.line);
        assert_eq!(without_times(&response), case.answer, "{}", case.line);
        for header in &case.answered_headers {
            let (name, value) = header.split_once(": ").expect("a header");
            assert_eq!(response.header(&name.to_ascii_lowercase()), Some(value), "{}", case.line);
        }
        if response.header("connection") == Some("close") {
            http = server.connect();
        }
        played += 1;
    }
    assert!(played > 3, "{played} cases");
}

fn read(paragraph: &str) -> Option<Case<'_>> {
    let of = |mark: &'static str| {
        let lines = paragraph.lines().filter_map(move |line| line.strip_prefix(mark));
        lines.filter(move |line| line.is_empty() || line.starts_with(' ')).map(|line| line.get(1..).unwrap_or(""))
    };
    let [mut request, mut answered] = [of(">"), of("<")];
    let (line, status) = (request.next()?, answered.next().expect("an answer"));
    let text = |lines: Vec<&str>| lines.join("\n");
    Some(Case {
        line,
        headers: request.collect(),
        body: text(of(">>").collect()),
        status,
        answered_headers: answered.collect(),
        answer: text(of("<<").collect()),
    })
}

/// Returns the body with each time replaced by `<ms>`.
fn without_times(response: &Response) -> String {
    let text = response.text();
    let time =
        ["\"timestamp\":1", "\"lastTimeStamp\":1"].into_iter().find_map(|name| text.split_once(name).zip(Some(name)));
    let Some(((before, rest), name)) = time else { return text };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    assert_eq!(digits, 12, "Unix time in ms: {text}");
    format!("{before}{}<ms>{}", name.trim_end_matches('1'), &rest[digits..])
}

/// Runs a command over the Redis port, which must reply `+OK`.
#[track_caller]
pub(crate) fn ok(redis: &mut Wire, command: &str) {
    assert_eq!(redis.ask(command), "+OK", "{command}");
}
