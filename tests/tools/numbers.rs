//! `getid number` as used in a shell: against a server with a ledger, and against servers that lie.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Output;
use std::thread;

use super::cli::{check, getid};
use crate::support::{Server, folder};

fn start() -> Server {
    Server::start(&["--generator", "invoice serial R{n:6} zone UTC gapless", "--generator", "ticket serial T{n:4}"])
}

/// Runs `getid number` with these words against a port.
fn number(port: u16, words: &[&str]) -> Output {
    getid(&[&["number"], words, &["--port", &port.to_string()]].concat()).output().unwrap()
}

#[test]
fn numbers_are_reserved_settled_and_exported() {
    let server = start();
    let run =
        |words: &[&str], code, stdout: &str, stderr: &str| check(&number(server.port, words), code, stdout, stderr);
    run(&["ledger", "invoice", "--csv"], 0, "# the ledger has no numbers\n", "");
    run(&["reserve", "invoice", "order-1"], 0, "R000001\n", "");
    run(&["reserve", "invoice", "order-1", "--due", "60"], 0, "R000001\n", "");
    run(&["commit", "invoice", "order-1"], 0, "order-1 committed\n", "");
    run(&["reserve", "invoice", "=SUM(A1)"], 0, "R000002\n", "");
    run(&["void", "invoice", "=SUM(A1)", "--reason", "torn, \"twice\""], 0, "=SUM(A1) void\n", "");
    run(&["reserve", "invoice", "order-3"], 0, "R000003\n", "");
    run(&["release", "invoice", "order-3"], 0, "order-3 released\n", "");
    run(&["reserve", "invoice", "order-4"], 0, "R000003\n", "");
    run(&["settle", "invoice", "R000003", "--commit", "--reason", "in the archive"], 0, "R000003 committed\n", "");

    run(&["commit", "invoice", "nope"], 1, "", "NUMBER RESERVE invoice REQUEST r");
    run(&["reserve", "ticket", "order-1"], 1, "", "generator 'ticket' is not gapless");
    run(&["reserve", "invoice", "order-5", "--series", "acme"], 1, "", "has no series");
    run(&["reserve", "invoice", "order-5", "--due", "0"], 2, "", "0 is not in 1..=");
    run(&["settle", "invoice", "R000003", "--reason", "x"], 2, "", "<--commit|--void>");
    run(&["settle", "invoice", "R000003", "--commit", "--void", "--reason", "x"], 2, "", "cannot be used with");
    run(
        &["ledger", "invoice", "--state", "open"],
        2,
        "",
        "possible values: reserved, committed, released, void, unclear",
    );

    let csv = String::from_utf8(number(server.port, &["ledger", "invoice", "--csv"]).stdout).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    let head =
        format!("# ledger of generator invoice; key all; period all; server 127.0.0.1:{}; server time 2", server.port);
    assert!(lines[0].starts_with(&head), "{csv}");
    assert_eq!(lines[1], "number,text,state,since,request,user,reason,key,period");
    let parts = |line: &str| {
        let (before, since) = line.split_once(",2").unwrap();
        (before.to_owned(), since.split_once("Z,").unwrap().1.to_owned())
    };
    let row = |before: &str, behind: &str| (before.to_owned(), behind.to_owned());
    assert_eq!(parts(lines[2]), row("1,R000001,committed", "order-1,default,,,"));
    assert_eq!(parts(lines[3]), row("2,R000002,void", "'=SUM(A1),default,\"torn, \"\"twice\"\"\",,"));
    assert_eq!(parts(lines[4]), row("3,R000003,committed", "order-4,default,in the archive,,"));
    assert_eq!(lines[5..], ["# committed 2; void 1", "# every number from 1 to 3 is in the list"]);

    let dir = folder();
    let file = dir.path().join("invoices.csv");
    let path = file.to_str().unwrap();
    run(&["ledger", "invoice", "--csv", path], 0, "", "");
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.lines().skip(1).collect::<Vec<_>>(), lines[1..], "{written}");
    run(&["ledger", "nope", "--csv", path], 1, "", "no generator 'nope'");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written, "a failed run changes nothing");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "and leaves nothing");
    run(&["ledger", "invoice", "--csv", "/nonexistent/x.csv"], 2, "", "/nonexistent/x.csv.unfinished: No such file");

    run(&["ledger", "invoice", "--state", "void"], 0, "# only numbers in the state void are listed", "");
    run(&["ledger", "invoice", "--json"], 0, "\"request\":\"order-4\"", "");
    run(&["ledger", "invoice"], 0, "R000003                  committed 2", "");
}

/// Returns a text with its times, and this year and this port, as words.
fn shape(text: &str, year: &str, port: &str) -> String {
    let parts = text.trim_end().split_inclusive([',', ' ', '\n']).map(|part| {
        let word = part.trim_end_matches([',', ' ', '\n']);
        let is_time = word.len() == 24 && word.ends_with('Z');
        part.replace(if is_time { word } else { port }, if is_time { "TIME" } else { "PORT" })
    });
    parts.collect::<String>().replace(year, "YEAR")
}

/// The commands of the page, and what they print.
#[test]
fn the_page_shows_what_is_printed() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tools.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Numbers without gaps\n").unwrap();
    let block = section.split("```").nth(1).unwrap();
    let examples: Vec<&str> = block.split("\n$ getid number ").skip(1).collect();
    assert!(examples.len() >= 5, "{examples:?}");
    let server = Server::start(&["--generator", "invoice serial R{yyyy}-{n:6} zone UTC gapless"]);
    let mut year = None;
    for example in examples {
        let (command, shown) = example.split_once('\n').unwrap();
        // What is between quotes is one word.
        let words = command.split('\'').enumerate().flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let output = number(server.port, &words.collect::<Vec<_>>());
        let printed = String::from_utf8(output.stdout).unwrap();
        let year = year.get_or_insert_with(|| printed[1..5].to_owned());
        let port = server.port.to_string();
        assert_eq!(shape(&printed, year, &port), shape(shown, "2026", "7890"), "{command}");
    }
}

/// A server that answers each request by the next of these replies.
fn fake(replies: &[&str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let replies: Vec<String> = replies.iter().map(|reply| (*reply).to_owned()).collect();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for reply in replies {
            let mut buffer = [0; 4096];
            if stream.read(&mut buffer).unwrap_or(0) == 0 || stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    });
    port
}

/// Returns a reply of bulk strings.
fn list(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let all: Vec<_> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let all = all.concat();
    format!("*{}\r\n{all}", words.len())
}

const TIME: &str = "*2\r\n$10\r\n1795816800\r\n$1\r\n0\r\n";

/// A ledger that lacks numbers is a negative result, and a server that lies cannot control the terminal.
#[test]
fn a_missing_number_and_a_hostile_server_are_reported() {
    let ledger = ["ledger", "invoice", "--csv"];
    let row = |at: u32| format!("number {at} last {at} text R{at} state committed since 2026-11-27T21:00:00.000Z");
    let first = list(&format!("c1 {}", row(1)));
    let hostile = list(&format!("c2 {} request \u{1b}[31mred reason a\nb", row(3)));
    let last = list("x x").replace("*2\r\n$1\r\nx\r\n$1\r\nx\r\n", "*1\r\n$0\r\n\r\n");
    let output = number(fake(&[&first, TIME, &hostile, &last]), &ledger);
    check(&output, 1, "# 1 number of 3 missing: 2\n", "");
    check(&output, 1, "3,R3,committed,2026-11-27T21:00:00.000Z,\\u{1b}[31mred,,a\\nb,,\n", "");
    check(&output, 1, "server time 2026-11-27T", "");
    // The same cursor again is a list without end.
    let endless = number(fake(&[&first, TIME, &first, &first]), &ledger);
    check(&endless, 2, "1,R1", "the list has no end");
    let second = list(&format!("c2 {}", row(2)));
    let endless = number(fake(&[&first, TIME, &second, &first, &second]), &ledger);
    check(&endless, 2, "2,R2", "the list has no end");
    // A page may be empty, as where a server looks for one period.
    let empty = list("c2");
    check(&number(fake(&[&first, TIME, &empty, &last]), &ledger), 0, "1,R1", "");
    check(&number(fake(&[&first, TIME, &empty, &empty]), &ledger), 2, "1,R1", "the list has no end");
    let refused = number(fake(&["-ERR \u{1b}[31mno\r\n"]), &ledger);
    check(&refused, 1, "", "\\u{1b}[31mno");
    for (reply, part) in [
        (list("c1 number 0 last 0"), "has '0' as its number"),
        (list("c1 x"), "in the place of a field"),
        (list(&format!("c1 {} key A;every", row(1))), "has 'A;every' as its key"),
        ("*2\r\n:1\r\n".to_owned(), "closed the connection"),
        ("HTTP/1.1 400 Bad Request\r\n".to_owned(), "is this a Redis protocol server"),
    ] {
        check(&number(fake(&[&reply]), &ledger), 2, "", part);
    }
    check(&number(fake(&["$3\r\n\u{1b}[2\r\n"]), &["reserve", "invoice", "r"]), 0, "\\u{1b}[2\n", "");
    check(&number(fake(&["+QUEUED\r\n"]), &["commit", "invoice", "r"]), 2, "", "'QUEUED' instead of OK");
    check(&number(fake(&["*0\r\n"]), &["reserve", "invoice", "r"]), 2, "", "instead of a number");
}
