//! Named generators over the lives of a real server: permitted changes between two lives, and reloads.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Server, binary, folder, getid, refused};

/// Generators in the form of a configuration file.
const FIRST: &str = "generator tweets twitter\n\
                     generator wide layout time:36@10ms server-id:5 place:3 counter:12 place 3 epoch 1400000000000\n\
                     generator short js53 format base62\n\
                     generator doc objectid\n\
                     generator u1 uuid1\n\
                     generator trace uuid7\n\
                     generator chance uuid4\n";

/// Generators with a unit below a second. A life that draws from one of the others waits for its next second.
const NAMES: [&str; 6] = ["tweets", "wide", "short", "u1", "trace", "chance"];

/// A folder with a configuration file, and the IDs issued so far.
struct ConfigFixture {
    dir: tempfile::TempDir,
    issued: HashSet<String>,
}

impl ConfigFixture {
    fn new() -> ConfigFixture {
        ConfigFixture { dir: tempfile::tempdir().expect("a folder"), issued: HashSet::new() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes this configuration and returns the server's argument for it.
    fn configure(&self, generators: &str) -> String {
        let file = self.path().join("getid.conf");
        fs::write(&file, format!("server-id 0\n{generators}")).expect("written");
        file.display().to_string()
    }

    fn start(&self, generators: &str) -> Server {
        Server::start_in(self.path(), &["--config", &self.configure(generators)])
    }

    fn refused(&self, generators: &str) -> String {
        refused(self.path(), &["--config", &self.configure(generators)], |_| {})
    }

    /// Draws three IDs from each of these generators. Asserts that all are new.
    fn draw(&mut self, server: &Server, names: &[&str]) {
        let mut wire = server.connect();
        for name in names {
            let ids = [(); 3].map(|()| match wire.ask(&format!("GETID {name}")) {
                id if id.starts_with('$') => wire.line(),
                id => id,
            });
            for id in ids {
                assert!(
                    !id.starts_with('-') && self.issued.insert(format!("{name} {id}")),
                    "ID {id} of {name} was issued before"
                );
            }
        }
    }

    /// Runs `getid` with these words, in which DIR is the folder, and returns its output.
    fn run(&self, words: &str) -> String {
        let dir = self.path().display().to_string();
        let words: Vec<_> = words.split_whitespace().map(|word| word.replace("DIR", &dir)).collect();
        // Tests run in parallel, and all use server-id 0.
        let output = Command::new(binary()).args(words).env("GETID_ID_MACHINE_CLAIM", "no").output().expect("it runs");
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text")).concat();
        assert!(output.status.success(), "{text}");
        text
    }
}

/// Returns the line of the generator `wide` with this layout.
fn wide(words: &str) -> String {
    format!("wide layout {words}")
}

/// Cases: how one line changes from its last form, and what the refusal reports; empty means that the server starts.
#[test]
fn changes_between_lives() {
    let mut fixture = ConfigFixture::new();
    let server = fixture.start(FIRST);
    fixture.draw(&server, &NAMES);
    server.kill();
    let fields = "time:36@10ms server-id:5 place:3 counter:12";
    let mut now = FIRST.to_owned();
    for (from, to, reason) in [
        // Harmless changes: the new declaration replaces the old one.
        (
            wide(&format!("{fields} place 3 epoch 1400000000000")),
            wide(&format!("{fields} place 4 epoch 1400000000000")),
            "",
        ),
        (
            wide(&format!("{fields} place 4 epoch 1400000000000")),
            wide(&format!("{fields} place 4 epoch 1399999990000")),
            "",
        ),
        ("short js53 format base62".to_owned(), "short js53 format base62 prefix S-".to_owned(), ""),
        // Refused changes.
        ("epoch 1399999990000".to_owned(), "epoch 1400000000000".to_owned(), "its epoch was 1399999990000 (Unix ms)"),
        ("time:36@10ms".to_owned(), "time:36@20ms".to_owned(), "its unit was 10ms and is 20ms now"),
        ("place:3 counter:12".to_owned(), "place:3 counter:11".to_owned(), "bits below its time"),
        ("server-id:5 place:3".to_owned(), "place:3 server-id:5".to_owned(), "another place"),
        ("trace uuid7".to_owned(), "trace uuid6".to_owned(), "its kind was uuid7 and is uuid6 now"),
        ("base62 prefix S-".to_owned(), "hex prefix S-".to_owned(), "its format was"),
    ] {
        let generators = now.replace(&from, &to);
        assert_ne!(generators, now, "{from}");
        if reason.is_empty() {
            let server = fixture.start(&generators);
            fixture.draw(&server, &NAMES);
            server.kill();
            now = generators;
            continue;
        }
        let before = fs::read(fixture.path().join("getid-0.state")).expect("a record");
        let text = fixture.refused(&generators);
        assert!(text.contains("cannot use the record") && text.contains(reason), "{to}: {text}");
        let dir = fixture.path().display();
        let remedy = |name: &str| format!("`getid state forget {name} {dir} --server-id 0 --past-id ID`");
        let name = NAMES.iter().find(|name| text.contains(&format!("generator '{name}' cannot be declared so")));
        let name = name.unwrap_or_else(|| panic!("{to}: {text}"));
        assert!(text.contains("declare it as before (generator ") && text.contains(&remedy(name)), "{to}: {text}");
        assert_eq!(
            fs::read(fixture.path().join("getid-0.state")).expect("a record"),
            before,
            "the record is unchanged"
        );
    }
}

/// A generator that is removed and declared again continues. Until then no other declaration gets its name.
#[test]
fn a_generator_that_is_declared_again() {
    let mut fixture = ConfigFixture::new();
    let all = FIRST;
    let without = FIRST.replace("generator tweets twitter\n", "").replace("generator doc objectid\n", "");
    let names = |server: &Server, all: bool| {
        let mut wire = server.connect();
        let reply = wire.ask("GETID tweets");
        assert_eq!(!reply.starts_with('-'), all, "{reply}");
    };
    let server = fixture.start(all);
    fixture.draw(&server, &NAMES);
    server.kill();
    let server = fixture.start(&without);
    names(&server, false);
    server.kill();
    let text =
        fixture.refused(&without.replace("generator trace uuid7\n", "generator trace uuid7\ngenerator tweets uuid7\n"));
    assert!(text.contains("generator 'tweets' cannot be declared so: its kind was twitter"), "{text}");
    let server = fixture.start(all);
    names(&server, true);
    fixture.draw(&server, &NAMES);
    server.kill();
    let shown = fixture.run("state show DIR");
    assert_eq!(shown.matches("  generator  ").count(), NAMES.len() + 1, "{shown}");
}

#[test]
fn a_name_that_was_forgotten() {
    let mut fixture = ConfigFixture::new();
    let server = fixture.start(FIRST);
    fixture.draw(&server, &NAMES);
    server.kill();
    let other = FIRST.replace("tweets twitter", "tweets layout time:41@1ms server-id:5 counter:17 epoch 0");
    let remedy = fixture.refused(&FIRST.replace("tweets twitter", "tweets js53"));
    let remedy = remedy.split('`').nth(1).unwrap_or_else(|| panic!("no remedy: {remedy}")).to_owned();
    let largest = fixture.issued.iter().filter_map(|id| id.strip_prefix("tweets :")).max().expect("an ID").to_owned();
    let command =
        remedy.strip_prefix("getid ").expect("getid").replace("--past-id ID", &format!("--past-id {largest}"));
    fixture.run(&command);
    // The new declaration's numbers would be smaller.
    let text = fixture.refused(&FIRST.replace("tweets twitter", "tweets js53"));
    assert!(text.contains("would not begin past") && text.contains("give it another name"), "{text}");
    let server = fixture.start(&other);
    fixture.draw(&server, &NAMES);
    let id = server.connect().ask("GETID tweets");
    let number = |text: &str| text.trim_start_matches(':').parse::<u64>().expect("a number");
    assert!(number(&id) > number(&largest));
    server.kill();
    let record = fs::read_to_string(fixture.path().join("getid-0.state")).expect("a record");
    assert!(!record.contains("forgotten") && record.contains("generator tweets layout time:41@1ms"), "{record}");
}

/// Node, process and machine are drawn once and kept in the record.
#[test]
fn drawn_values_stay() {
    let fixture = ConfigFixture::new();
    let process = |server: &Server| {
        let mut wire = server.connect();
        let id = wire.ask_bulk("GETID doc");
        let node = wire.ask_bulk("GETID u1");
        (id[8..18].to_owned(), node[24..].to_owned())
    };
    let server = fixture.start(FIRST);
    let first = process(&server);
    server.kill();
    let server = fixture.start(FIRST);
    assert_eq!(process(&server), first);
}

/// An ID is composed for a time before the first ID of its generator, in each life with the same record.
#[test]
fn ids_of_times_before_the_first_id_are_composed_in_every_life() {
    let dir = folder();
    let (composed, given) = ("ENCODEID tweets TIME 2022-06-28T16:07:40.105Z", "itself gives ids from ");
    for _ in 0..2 {
        let server = Server::start_in(dir.path(), &["--generator", "tweets", "twitter"]);
        let mut wire = server.connect();
        for request in [composed, "ENCODEID - TIME 2016-01-01"] {
            let reply = wire.ask(request);
            assert!(reply.starts_with(':'), "{reply}");
        }
        for (request, begin) in [
            ("ENCODEID tweets TIME 2050-01-01", "-ERR generator 'tweets' "),
            ("ENCODEID - TIME 2050-01-01", "-ERR the unnamed generator "),
        ] {
            let reply = wire.ask(request);
            assert!(reply.starts_with(begin) && reply.contains(given), "{reply}");
            let forced = wire.ask(&format!("{request} FORCE"));
            assert!(forced.starts_with(':'), "{forced}");
        }
        wire.id();
        server.kill();
    }
    // A record that was moved ahead may lack IDs.
    let path = dir.path().to_str().unwrap();
    let advanced = getid().args(["state", "advance", path, "--server-id", "0", "--to", "now"]).output().unwrap();
    assert!(advanced.status.success(), "{advanced:?}");
    let server = Server::start_in(dir.path(), &["--generator", "tweets", "twitter", "--generator", "new", "js53"]);
    let mut wire = server.connect();
    let unknown = "may have given ids of any time";
    for request in [composed, "ENCODEID - TIME 2016-01-01", "ENCODEID new TIME 2016-01-01"] {
        let reply = wire.ask(request);
        assert!(reply.contains(unknown), "{reply}");
    }
    // Nothing is known of earlier lives without a state file.
    let server = Server::start(&["--id-state", "none"]);
    let reply = server.connect().ask("ENCODEID - TIME 2016-01-01");
    assert!(reply.contains(unknown), "{reply}");
}
