//! Records that are lost, damaged, old, of an older format or of another epoch, and the remedies that the server
//! prints, carried out to the letter: no ID comes twice.
//!
//! With `id-range 21 shard-range 0 random-range 0` an ID is its tick and the server-id, and no more: what would come
//! again does, where a random part of ten bits hides all repeats but one in 1,024.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::support::{Server, Wire, binary, eventually, refused};
use getid::claim::{Identity, Owner, Record};
use getid::system::clock::{Clock as _, SystemClock};
use getid_core::{Epoch, Layout, SavePoint};

/// IDs that a life gives at least; the tables have only the eleventh of them.
const COUNT: usize = 1500;

/// A server's folder, all of its lives, and the IDs that they gave.
struct Place {
    dir: tempfile::TempDir,
    words: Vec<String>,
    given: HashSet<u64>,
}

impl Place {
    fn new(words: &[&str]) -> Place {
        let layout = ["--id-range", "21", "--shard-range", "0", "--random-range", "0", "--server-id", "7"];
        let words = layout.iter().chain(words).map(|word| (*word).to_owned()).collect();
        Place { dir: tempfile::tempdir().expect("a folder"), words, given: HashSet::new() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn state(&self) -> PathBuf {
        self.path().join("getid-7.state")
    }

    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    /// A life that gives [`COUNT`] IDs, none of which was given before, and is killed. The largest of them that a table
    /// has: the eleventh.
    fn life(&mut self) -> u64 {
        self.life_of(COUNT, |_| {})
    }

    /// [`Place::life`] with that many IDs, after `prepare`.
    fn life_of(&mut self, count: usize, prepare: impl Fn(&mut Wire)) -> u64 {
        let server = Server::start_in(self.path(), &self.words());
        let mut wire = server.connect();
        prepare(&mut wire);
        let ids: Vec<u64> = (0..count / 100).flat_map(|_| wire.ids(100)).collect();
        drop(wire);
        server.kill();
        let repeated = ids.iter().filter(|id| !self.given.insert(**id)).count();
        assert_eq!(repeated, 0, "{repeated} of {count} IDs were given before");
        ids[10]
    }

    /// A record whose watermark and reference lie that far ahead of the clock.
    fn put_ahead(&self, ahead_ms: u64) {
        let layout = Layout::new(Epoch::DEFAULT, 21, 0, 0).expect("a sum of 21");
        let tick = layout.epoch().tick_at(SystemClock::new().wall_unix_ms()).expect("a sane clock").plus_ms(ahead_ms);
        let point = SavePoint { watermark: tick, reference: tick, max_borrow_ms: 3000 };
        let record = Record {
            identity: Identity { server_id: 7, layout },
            point,
            declarations: Arc::default(),
            owner: Owner::default(),
        };
        fs::write(self.state(), record.to_text()).expect("written");
    }

    /// Starts, is refused, and does what the refusal says.
    fn follow_the_remedy(&self, largest_id: u64) {
        let said = refused(self.path(), &self.words(), |_| {});
        let command = said.split('`').nth(1).unwrap_or_else(|| panic!("no remedy: {said}"));
        Place::run(&command.replace("--past-id ID", &format!("--past-id {largest_id}")));
    }

    fn advance(&self, words: &str) {
        let words = format!("--id-range 21 --shard-range 0 --random-range 0 {words}");
        Place::run(&format!("getid state advance {} --server-id 7 {words}", self.path().display()));
    }

    /// A command line of `getid`, as it stands in an error, by a shell.
    fn run(command: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command.replacen("getid", "\"$0\"", 1)]).arg(binary());
        shell.env("GETID_ID_MACHINE_CLAIM", "no");
        let output = shell.output().expect("it runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What becomes of a record, so that a server refuses it.
const DAMAGES: [fn(&str) -> String; 3] = [
    |_| String::new(),
    |text| text[..text.len() - 30].to_owned(),
    |text| text.replacen("watermark 3", "watermark 2", 1),
];

#[test]
fn a_damaged_record() {
    for damage in DAMAGES {
        let mut place = Place::new(&[]);
        let known = place.life();
        let text = fs::read_to_string(place.state()).expect("a record");
        fs::write(place.state(), damage(&text)).expect("written");
        place.follow_the_remedy(known);
        place.life();
    }
}

/// The reference clock runs ahead of the wall clock, as it does after that was set back: only the ID that was found
/// tells how far.
#[test]
fn a_damaged_record_with_the_ids_far_ahead_of_the_clock() {
    let mut place = Place::new(&[]);
    place.put_ahead(600_000);
    let known = place.life();
    fs::write(place.state(), "").expect("written");
    place.follow_the_remedy(known);
    place.life();
    // And lost altogether, where no start refuses: by hand.
    let known = place.life();
    fs::remove_file(place.state()).expect("deleted");
    place.advance(&format!("--max-borrow 3000 --past-id {known}"));
    place.life();
}

/// The tables are far behind, as copies of them may be: three lives of IDs have not arrived. What is left of the record
/// says how far they came, even its watermark alone.
#[test]
fn a_damaged_record_that_says_its_watermark() {
    let damages: [fn(&str) -> String; 3] = [
        |text| text.replacen("\nnonce ", "\nnonce x", 1),
        |text| text[text.find("\nwatermark").expect("a line")..].to_owned(),
        |text| text[..text.find("\nreference").expect("a line")].to_owned() + "\n\0\0\0\0",
    ];
    for damage in damages {
        let mut place = Place::new(&[]);
        place.put_ahead(600_000);
        let known = place.life();
        place.life();
        place.life();
        let text = fs::read_to_string(place.state()).expect("a record");
        fs::write(place.state(), damage(&text)).expect("written");
        place.follow_the_remedy(known);
        place.life();
    }
}

#[test]
fn a_large_borrow_limit() {
    let mut place = Place::new(&["--id-max-borrow-ms", "60000"]);
    place.put_ahead(600_000);
    let known = place.life();
    fs::write(place.state(), "junk\n").expect("written");
    place.follow_the_remedy(known);
    place.life();
}

/// The limit was raised while the server ran, and stands in no file: what is left of the record says it, or who runs
/// the remedy does.
#[test]
fn a_borrow_limit_that_was_raised() {
    let mut place = Place::new(&["--id-max-borrow-ms", "200", "--id-watermark-lead-ms", "200"]);
    place.put_ahead(600_000);
    // More than the default margin holds, and at once.
    let many = 5000;
    let state = place.state();
    let raise = |wire: &mut Wire| {
        assert_eq!(wire.ask("CONFIG SET id-max-borrow-ms 60000"), "+OK");
        // It counts once the record says it.
        eventually("the record says it", || {
            fs::read_to_string(&state).expect("a record").contains("\nmax-borrow-ms 60000\n")
        });
    };
    let known = place.life_of(many, raise);
    let text = fs::read_to_string(place.state()).expect("a record");
    assert!(text.contains("\nmax-borrow-ms 60000\n"), "{text}");
    fs::write(place.state(), text.replacen("watermark 3", "watermark 2", 1)).expect("written");
    place.follow_the_remedy(known);
    place.life();

    let known = place.life_of(many, raise);
    fs::remove_file(place.state()).expect("deleted");
    place.advance(&format!("--max-borrow 60000 --past-id {known}"));
    place.life();
}

/// What getid wrote before records had an owner and B: it is read, and written anew in the new form.
#[test]
fn a_record_of_the_older_format() {
    for advance in [false, true] {
        let mut place = Place::new(&[]);
        place.put_ahead(600_000);
        let known = place.life();
        let record = Record::parse(&fs::read(place.state()).expect("a record")).expect("a whole one");
        fs::write(place.state(), record.to_text_v1()).expect("written");
        if advance {
            place.advance(&format!("--max-borrow 3000 --past-id {known}"));
        }
        place.life();
        assert!(fs::read_to_string(place.state()).expect("a record").starts_with("getid state 2\n"));
    }
}

/// IDs of the old epoch lie ahead of the clock as the new one has it.
#[test]
fn another_epoch() {
    let mut place = Place::new(&[]);
    let known = place.life();
    place.words.extend(["--id-epoch".to_owned(), (Epoch::DEFAULT.unix_ms() + 3_600_000).to_string()]);
    place.follow_the_remedy(known);
    place.life();
}

/// Records that say too little: an old copy that was put back, none, and none at all. The clock is right, and that is
/// enough.
#[test]
fn records_that_know_less_than_was_given() {
    let mut place = Place::new(&[]);
    place.life();
    let old = fs::read(place.state()).expect("a record");
    place.life();
    fs::write(place.state(), old).expect("written");
    place.life();
    fs::remove_file(place.state()).expect("deleted");
    place.life();
    place.words.extend(["--id-state", "none"].map(str::to_owned));
    place.life();
    place.life();
    place.words.truncate(place.words.len() - 2);
    place.life();
}
