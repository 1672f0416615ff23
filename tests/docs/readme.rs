//! Checks README and the other pages: shown output is the binary's output, and every named thing exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::getid;
use crate::support::tls::Files;
use getid_config::directive::Directive;
use getid_config::ignored;
use getid_core::server::CounterDeclaration;
use getid_core::{Declaration, KINDS, no_dates};
use getid_redis::command::TABLE;

/// Returns README, the pages next to it, and the files in `docs/`.
fn pages() -> Vec<String> {
    let beside = [
        "README.md",
        "examples/README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
        "benches/README.md",
        "packaging/README.md",
        "tests/README.md",
        "crates/getid-core/README.md",
        "clients/README.md",
        "clients/conformance/README.md",
        "clients/python/README.md",
        "clients/java/README.md",
        "clients/go/README.md",
        "clients/node/README.md",
        "clients/rust/README.md",
    ];
    let mut pages: Vec<String> = beside.map(str::to_owned).to_vec();
    for folder in ["docs", "docs/walks"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("the folder") {
            let entry = entry.expect("an entry");
            // Pictures and walks have their own folders.
            if entry.path().is_file() {
                pages.push(format!("{folder}/{}", entry.file_name().to_str().expect("text")));
            }
        }
    }
    assert!(pages.len() > 10, "{pages:?}");
    pages
}

/// Commands whose output depends only on their words and on files of this repository.
const EXACT: &[&str] = &["getid decode ", "getid span ", "getid check-config ", "getid --version"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// A fenced block: the heading above it, its language, and its text.
pub(crate) struct Fence {
    pub(crate) section: String,
    pub(crate) language: String,
    pub(crate) text: String,
}

pub(crate) fn fences(page: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let text = read(page);
    let mut section = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            line.trim_start_matches(['#', ' ']).clone_into(&mut section);
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let text: String = lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
        fences.push(Fence { section: section.clone(), language: language.to_owned(), text });
    }
    fences
}

/// Returns a page without its fenced blocks.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in read(page).lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    assert!(!fenced, "{page}: a fence is not closed");
    prose
}

/// Returns the commands of console blocks, each with its output.
fn sessions(page: &str) -> Vec<(String, String)> {
    let mut sessions: Vec<(String, String)> = Vec::new();
    for fence in fences(page).iter().filter(|fence| fence.language == "console") {
        for line in fence.text.lines() {
            match (line.strip_prefix("$ "), sessions.last_mut()) {
                (Some(command), _) => sessions.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => {
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => panic!("{page}: a console block starts without a command: {line}"),
            }
        }
    }
    sessions
}

#[test]
fn commands_without_a_server_print_the_shown_output() {
    let mut checked = 0;
    // A walk's commands need the results of earlier commands: `walks.rs` tests walks.
    for page in pages().iter().filter(|page| !page.starts_with("docs/walks/")) {
        for (command, shown) in sessions(page) {
            if !EXACT.iter().any(|start| command.starts_with(start)) || command.contains(['|', '>']) {
                continue;
            }
            let words = command.split_whitespace().skip(1);
            let output =
                getid().args(words).current_dir(root()).stdin(Stdio::null()).output().expect("the program runs");
            let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            // The folder of the state depends on the user, and on whether it exists.
            let same = |text: &str| {
                let lines = text.lines().map(|line| if line.starts_with("state in ") { "state in ..." } else { line });
                lines.collect::<Vec<_>>().join("\n")
            };
            assert_eq!(same(&printed), same(&shown), "{page}: {command}");
            checked += 1;
        }
    }
    assert!(checked >= 5, "only {checked} commands were checked");
}

/// Tests run each example.
#[test]
fn every_example_of_a_client_is_linked() {
    let page = prose("docs/clients.md");
    let clients = std::fs::read_dir(root().join("examples/clients")).expect("the folder");
    let clients = clients.map(|entry| format!("clients/{}", entry.expect("an entry").file_name().display()));
    for example in clients.chain(["rust_client.rs".to_owned(), "haproxy.cfg".to_owned()]) {
        assert!(page.contains(&format!("](../examples/{example})")), "docs/clients.md does not link {example}");
    }
}

#[test]
fn directives_that_are_named_exist() {
    let mut named = BTreeSet::new();
    for page in &pages() {
        // A directive as code in a sentence: `id-max-borrow-ms` or `id-borrow-policy error`.
        for code in prose(page).split('`').skip(1).step_by(2) {
            let word = code.split(' ').next().unwrap_or_default();
            let dashed = word.contains('-') && !word.starts_with('-') && !word.ends_with('-');
            if dashed && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
                named.insert(word.to_owned());
            }
        }
        // An option in a block: `getid serve --port 7000`.
        for (command, _) in sessions(page) {
            let Some((_, words)) = command.split_once("serve ") else { continue };
            named.extend(words.split_whitespace().filter_map(|word| Some(word.strip_prefix("--")?.to_owned())));
        }
    }
    assert!(named.contains("shard-range"));
    let unknown: Vec<_> = named
        .iter()
        .filter(|name| Directive::find(name).is_none() && ignored::find(name).is_none())
        .filter(|name| !NO_DIRECTIVES.contains(&name.as_str()))
        // Words of a declaration, after `generator`.
        .filter(|name| getid_core::Kind::find(name).is_none() && !getid_core::server::OPTIONS.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "no directives: {unknown:?}");
}

/// Words of the same form that are no directives: values, programs, packages, ACL rules, fields of CLIENT LIST, attacks
/// of the bench.
const NO_DIRECTIVES: &[&str] = &[
    "argv-mem",
    "auto-ordinal",
    "build-essential",
    "ca-file",
    "cargo-fuzz",
    "check-config",
    "compact-every-s",
    "cut-off",
    "declare-password",
    "docker-buildx",
    "error-flood",
    "etcd-server",
    "fiscal-name",
    "fiscal-start",
    "fiscal-year",
    "forget-generator",
    "get-master-addr-by-name",
    "getid-client",
    "getid-core",
    "getid-redis",
    "go-redis",
    "key-case",
    "keys-max",
    "lib-name",
    "lib-ver",
    "mariadb-server",
    "moved-to",
    "moving-to",
    "multi-mem",
    "never-read",
    "node-redis",
    "on-first-use",
    "open-only",
    "password-file",
    "php-redis",
    "redis-benchmark",
    "redis-check",
    "redis-cli",
    "redis-protocol",
    "redis-py",
    "redis-rb",
    "redis-server",
    "redis-tools",
    "ruby-redis",
    "rust-version",
    "sanitize-payload",
    "skip-sanitize-payload",
    "stop-short",
    "switch-master",
    "tot-mem",
    "unique-per",
    "valkey-benchmark",
];

#[test]
fn every_page_is_linked_from_the_index() {
    assert!(prose("README.md").contains("](docs/README.md)"), "README does not lead to the index");
    let index = prose("docs/README.md");
    for page in pages().iter().filter(|page| *page != "docs/README.md") {
        let link = page.strip_prefix("docs/").map_or_else(|| format!("../{page}"), str::to_owned);
        assert!(index.contains(&format!("]({link})")), "docs/README.md does not lead to {page}");
    }
}

#[test]
fn links_lead_somewhere() {
    for page in &pages() {
        let folder = Path::new(page).parent().expect("a folder");
        for link in prose(page).split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { PathBuf::from(page) } else { folder.join(file) };
            assert!(root().join(&path).exists(), "{page}: {link}");
            if !anchor.is_empty() {
                let anchors: Vec<String> = prose(&path.to_string_lossy())
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .map(anchor_of)
                    .collect();
                assert!(anchors.iter().any(|one| one == anchor), "{page}: {link}: {anchors:?}");
            }
        }
    }
}

/// Returns the name of a heading's link on its page.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-'))
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn the_table_of_layouts_is_computed_right() {
    let text = read("docs/ids.md");
    let number = |cell: &str| cell.trim().replace(',', "").parse::<u64>().ok();
    let rows: Vec<Vec<u64>> = text
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.split('|').filter(|cell| !cell.is_empty()).map(number).collect())
        .filter(|row: &Vec<u64>| row.len() == 6)
        .collect();
    assert!(rows.len() >= 5, "{rows:?}");
    for row in rows {
        assert_eq!(row[0] + row[1] + row[2], 21, "{row:?}");
        assert_eq!(row[3], 1 << row[0], "servers: {row:?}");
        assert_eq!(row[4], (1 << row[1]) * 1000, "IDs a second: {row:?}");
        assert_eq!(row[5], 1 << row[2], "evenness: {row:?}");
    }
}

/// Templates of the table of dates that repeat are refused with both days, and with the shown remedy; the declaration
/// that the table shows instead is accepted.
#[test]
fn templates_that_repeat_are_those_of_the_table() {
    let page = read("docs/sequences.md");
    let (_, section) = page.split_once("### Dates that repeat").expect("the section");
    let lines = section.lines().take_while(|line| !line.starts_with('#'));
    let rows: Vec<&str> = lines.filter(|line| line.starts_with("| `{")).collect();
    assert!(rows.len() >= 6, "{rows:?}");
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [template, days, instead] = cells[..] else { panic!("{row}") };
        let code = |cell: &str| cell.split('`').nth(1).expect("a template").to_owned();
        let start = template.split_once(" from ").map_or("04-06", |(_, start)| start);
        let declare = |template: String| {
            let fiscal = if template.contains("fiscal") { format!(" fiscal-start {start}") } else { String::new() };
            let words = format!("i serial {template}-{{n:4}} zone UTC{fiscal}");
            CounterDeclaration::parse(&words.split(' ').collect::<Vec<_>>(), |_| Ok(())).expect("a serial")
        };
        let errors = declare(code(template)).expect_err(row);
        let error: String = errors.iter().map(ToString::to_string).collect();
        let is_day = |word: &&str| word.len() == 10 && word.starts_with("20") && word.matches('-').count() == 2;
        let words = days.split([' ', ',', ':']).filter(is_day).map(str::to_owned);
        let parts: Vec<String> = words.chain([format!("Show {}, or", code(instead))]).collect();
        assert_eq!(parts.len(), 3, "{row}");
        for part in parts {
            assert!(error.contains(&part), "{row}: {part}: {error}");
        }
        declare(code(instead)).expect(row);
    }
}

/// Every refusal is explained with its remedy.
#[test]
fn every_refusal_is_explained() {
    use getid_core::{ClockFault, Layout, Refusal};
    let text = read("docs/operating.md");
    let refusals = [
        (
            Refusal::Clock(ClockFault::PastEnd { wall_unix_ms: 0, last_unix_ms: 0 }),
            "past the last instant an id can carry",
        ),
        (Refusal::Clock(ClockFault::FarPastRecord { wall_unix_ms: 0, record_unix_ms: 0 }), "past the state's record"),
        (Refusal::Clock(ClockFault::BeforeEpoch { wall_unix_ms: 0, epoch_unix_ms: 0 }), "before the epoch"),
        (Refusal::EndOfTime { last_unix_ms: 0 }, "MISCONF end of time"),
        (Refusal::Save { error: "cannot write".into() }, "MISCONF state can't be saved: cannot write"),
        (Refusal::SaveTimeout, "MISCONF state can't be saved: the disk has not answered for 1 s"),
        (Refusal::StoreTimeout, "MISCONF state can't be saved: the claim store has not answered for 1 s"),
        (Refusal::Standby("standby for server-id 3: held by".into()), "LOADING standby for server-id 3: held by"),
        (Refusal::ClaimLost("the folder".into()), "MISCONF claim lost: the folder"),
        (Refusal::Busy { ahead_ms: 0, max_borrow_ms: 0 }, "BUSY ids are"),
        (
            Refusal::Overload { wait_ms: 0, max_wait_ms: 0, asked_per_s: 0, layout: Layout::default() },
            "BUSY this would wait",
        ),
        (
            Refusal::NamedOverload { wait_ms: 0, max_wait_ms: 0, asked_per_s: 0, capacity_per_s: 0 },
            "a wider counter or more servers hold more",
        ),
        (Refusal::BeforeEpoch { reference_unix_ms: 0, epoch_unix_ms: 0 }, "before the epoch of this generator, "),
        (Refusal::Redeclared, "BUSY the generator has just been declared in another way; try again"),
        (Refusal::Closed, "ERR server is shutting down"),
    ];
    for (refusal, words) in refusals {
        assert!(refusal.to_string().contains(words), "'{refusal}' has other words than '{words}'");
        assert!(text.contains(words), "docs/operating.md does not explain '{refusal}'");
    }
}

/// docs/protocol.md names every command, with all of its subcommands.
#[test]
fn every_command_is_listed() {
    let text = read("docs/protocol.md");
    let listed = text.split_once("## The commands it has").expect("the section").1;
    let listed = listed.split_once("\n## ").map_or(listed, |(section, _)| section);
    for command in TABLE {
        let name = command.name.to_uppercase();
        let row = listed.lines().find(|line| line.contains(&format!("`{name}`")));
        let row = row.unwrap_or_else(|| panic!("docs/protocol.md does not list {name}"));
        for subcommand in command.subcommands {
            let word = subcommand.name.to_uppercase();
            assert!(row.contains(&format!("`{word}`")), "docs/protocol.md: {name} has no {word}: {row}");
        }
    }
}

/// INFO is no longer than the page states.
#[test]
fn info_is_bounded() {
    let files = Files::new();
    let (server, _) = files.start("no", &[]);
    let mut wire = server.connect();
    // Each command is called, if only wrongly, so that it has a line. Each call uses its own connection, because some
    // commands end or change theirs.
    for row in TABLE
        .iter()
        .flat_map(|row| if row.subcommands.is_empty() { std::slice::from_ref(row) } else { row.subcommands })
    {
        let arguments = " x".repeat(20);
        let mut other = server.connect();
        other.send(format!("{}{arguments}\r\n", row.full_name.replace('|', " ")));
        other.line();
    }
    let text = wire.ask_bulk("INFO everything");
    let mut bytes = 0;
    for line in text.lines() {
        // Each number counts with the largest number of digits.
        let digits = line.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
        let grown: usize = digits.map(|run| 20_usize.saturating_sub(run.len())).sum();
        bytes += line.len() + 2 + grown;
        let Some((field, _)) = line.split_once(':') else { continue };
        if let Some(command) = field.strip_prefix("cmdstat_") {
            // A command that has run has a line in Latencystats.
            bytes += "latency_percentiles_usec_:p50=.000,p99=.000,p99.9=.000\r\n".len() + command.len() + 3 * 20;
        }
    }
    let rows = TABLE.iter().map(|row| row.subcommands.len().max(1)).sum::<usize>();
    assert!(text.matches("\r\ncmdstat_").count() >= rows, "{rows} commands:\n{text}");
    bytes += getid_server::metrics::ERROR_CODES_MAX * "errorstat_0123456789abcdef:count=18446744073709551615\r\n".len();
    println!("{} bytes, {bytes} at most", text.len());
    assert!(bytes < 120 << 10, "{bytes}");
}

/// The page of generators lists the kinds whose IDs are even over `id % n` only with `counter-start`, and the others
/// whose IDs are numbers.
#[test]
fn the_evenness_of_each_kind_of_numbers_is_explained() {
    let page = std::fs::read_to_string(root().join("docs/generators.md")).expect("the page");
    let section = page.split("### Evenness\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the section");
    let (counters, _) = section.split_once("They are even only with").expect("the list of kinds");
    for kind in KINDS.iter().filter(|kind| !kind.fields.is_empty()) {
        let declaration = Declaration::parse(&[kind.word, kind.word], no_dates).expect(kind.word);
        let evenness = declaration.quiet_evenness(None);
        let word = format!("`{}`", kind.word);
        assert_eq!(section.contains(&word), evenness.is_some(), "{word}: {evenness:?}");
        let needs_start = evenness.as_ref().is_some_and(|own| own.even_to == 1 && own.remedy.is_some());
        assert_eq!(counters.contains(&word), needs_start, "{word}: {evenness:?}");
    }
}
