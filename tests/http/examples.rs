//! The answers of the JSON API in docs/http.md are the server's answers.

use std::path::Path;
use std::process::Command;

use crate::support::http::HttpServer;
use crate::support::seal_key_file;

/// Returns the requests of a page, each with its answer.
fn examples(page: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_inside) {
            examples.push((command.to_owned(), String::new()));
        } else if let Some((_, shown)) = examples.last_mut().filter(|_| is_inside) {
            shown.push_str(line);
        }
    }
    examples
}

/// Replaces each run of digits by one zero, because IDs and times differ in value and length.
fn without_digits(text: &str) -> String {
    let mut out = String::new();
    for char in text.replace('-', "").chars() {
        match char {
            '0'..='9' if out.ends_with('0') => {}
            '0'..='9' => out.push('0'),
            char => out.push(char),
        }
    }
    out
}

#[test]
#[ignore = "needs curl"]
fn the_page_shows_the_real_answers() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/http.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("The JSON API")).unwrap();
    let examples = examples(section);
    assert!(examples.len() >= 10, "{examples:?}");
    let dir = tempfile::tempdir().unwrap();
    let order = format!("order fork seal key-file {}", seal_key_file(dir.path()));
    let receipt = "receipt serial R{yyyy}-{n:6} zone UTC gapless";
    let words = ["--generator", "tweets twitter", "--generator", &order, "--generator", receipt];
    let server = HttpServer::start(&words);
    for (command, shown) in examples {
        assert!(command.starts_with("curl "), "{command}");
        let own = command.replace("localhost:7880", &format!("127.0.0.1:{}", server.port));
        let output = Command::new("sh").args(["-c", &own]).output().unwrap();
        let answered = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{own}: {}", output.status);
        // The numbers of the page have the year in which it was written.
        let is_exact = (own.contains("-d '") && !own.contains("/v1/numbers/")) || own.contains("/values");
        if is_exact {
            assert_eq!(answered, shown, "{command}");
        }
        assert_eq!(without_digits(&answered), without_digits(&shown), "{command}");
    }
}
