//! Records that are lost, damaged, old or of an older format: after the remedy that the server prints, every ID is
//! larger than all IDs of earlier lives.
//!
//! With `id-range 21 shard-range 0 random-range 0` an ID is its tick and the server-id. So a server at its borrow limit
//! issues one ID a millisecond. B is small, so that each life takes a fraction of a second.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use crate::support::{Server, Wire, binary, eventually, folder, refused};
use getid_core::{Epoch, Layout, SavePoint};
use getid_engine::claim::{Identity, Owner, Record};
use getid_system::clock::{Clock as _, SystemClock};

/// Number of IDs per life.
const COUNT: usize = 100;

const LAYOUT: [&str; 6] = ["--id-range", "21", "--shard-range", "0", "--random-range", "0"];

/// A server's folder, its options, and the largest ID of its lives.
struct StateFixture {
    dir: tempfile::TempDir,
    words: Vec<String>,
    max_borrow_ms: u64,
    largest: u64,
}

impl StateFixture {
    fn new(max_borrow_ms: u64) -> StateFixture {
        let borrow = max_borrow_ms.to_string();
        let more = ["--server-id", "7", "--id-watermark-lead-ms", "100", "--id-max-borrow-ms", &borrow];
        let words = LAYOUT.iter().chain(&more).map(|word| (*word).to_owned()).collect();
        StateFixture { dir: folder(), words, max_borrow_ms, largest: 0 }
    }

    /// Returns a fixture whose record is ten minutes ahead of the clock, as after the clock was set back.
    fn new_ahead(max_borrow_ms: u64) -> StateFixture {
        let fixture = StateFixture::new(max_borrow_ms);
        fixture.write_record_ahead(600_000);
        fixture
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("getid-7.state")
    }

    fn record(&self) -> String {
        fs::read_to_string(self.state()).expect("a record")
    }

    fn write_record(&self, record: impl AsRef<[u8]>) {
        fs::write(self.state(), record).expect("written");
    }

    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    /// Draws [`COUNT`] IDs from a server and kills it. Returns an ID less than B below the largest one: the largest ID
    /// in a table that lags behind.
    fn run_life(&mut self) -> u64 {
        self.run_life_with(COUNT, |_| {})
    }

    /// Like [`StateFixture::run_life`] with `count` IDs, after `prepare`.
    fn run_life_with(&mut self, count: usize, prepare: impl Fn(&mut Wire)) -> u64 {
        let server = Server::start_in(self.dir.path(), &self.words());
        let mut wire = server.connect();
        prepare(&mut wire);
        let ids: Vec<u64> = (0..count / 100).flat_map(|_| wire.ids(100)).collect();
        server.kill();
        assert!(ids[0] > self.largest, "ID {} is not larger than the earlier ID {}", ids[0], self.largest);
        assert!(ids.is_sorted_by(|one, next| one < next));
        self.largest = ids[ids.len() - 1];
        let is_recent = |id: &u64| (id >> 21) + self.max_borrow_ms > self.largest >> 21;
        ids.into_iter().find(is_recent).expect("the largest is")
    }

    /// Writes a record whose watermark and reference are `ahead_ms` ahead of the clock.
    fn write_record_ahead(&self, ahead_ms: u64) {
        let layout = Layout::new(Epoch::DEFAULT, 21, 0, 0).expect("a sum of 21");
        let tick = layout.epoch().tick_at(SystemClock::new().wall_unix_ms()).expect("a sane clock").plus_ms(ahead_ms);
        let point = SavePoint { watermark: tick, reference: tick, max_borrow_ms: self.max_borrow_ms };
        let identity = Identity { server_id: 7, layout };
        self.write_record(Record { identity, point, declarations: Arc::default(), owner: Owner::default() }.to_text());
    }

    /// Starts the server, asserts that it refuses, and runs the command in its error.
    fn run_printed_remedy(&self, largest_id: u64) {
        let log = refused(self.dir.path(), &self.words(), |_| {});
        let command = log.split('`').nth(1).unwrap_or_else(|| panic!("no remedy: {log}"));
        StateFixture::run_command(&command.replace("--past-id ID", &format!("--past-id {largest_id}")));
    }

    /// Runs a `getid` command line from an error in a shell.
    fn run_command(command: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command.replacen("getid", "\"$0\"", 1)]).arg(binary());
        shell.env("GETID_ID_MACHINE_CLAIM", "no");
        let output = shell.output().expect("it runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Runs `check` on all cases at once: most of their time is waiting.
fn check_all<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    std::thread::scope(|scope| cases.into_iter().for_each(|case| drop(scope.spawn(|| check(case)))));
}

/// A change of a record's text, after which a server refuses the record.
type Damage = fn(&str) -> String;

#[test]
fn a_damaged_record() {
    let damages: [(u64, Damage); 4] = [
        (0, |_| String::new()),
        (600_000, |_| String::new()),
        (600_000, |text| text[..text.len() - 30].to_owned()),
        (600_000, |text| text.replacen("watermark 3", "watermark 2", 1)),
    ];
    check_all(damages, |(ahead_ms, damage)| {
        let mut fixture = if ahead_ms == 0 { StateFixture::new(200) } else { StateFixture::new_ahead(200) };
        let lagging_id = fixture.run_life();
        fixture.write_record(damage(&fixture.record()));
        fixture.run_printed_remedy(lagging_id);
        fixture.run_life();
    });
}

/// A start without a record is not refused, so the record is moved ahead by hand.
#[test]
fn a_lost_record_with_the_ids_far_ahead_of_the_clock() {
    let mut fixture = StateFixture::new_ahead(200);
    let lagging_id = fixture.run_life();
    fs::remove_file(fixture.state()).expect("deleted");
    let dir = fixture.dir.path().display();
    let words = format!("--server-id 7 {} --max-borrow 200 --past-id {lagging_id}", LAYOUT.join(" "));
    StateFixture::run_command(&format!("getid state advance {dir} {words}"));
    fixture.run_life();
}

/// The tables lag ten seconds behind. The damaged record has the position, even if only its watermark is left.
#[test]
fn a_damaged_record_with_its_watermark() {
    let damages: [Damage; 3] = [
        |text| text.replacen("\nnonce ", "\nnonce x", 1),
        |text| text[text.find("\nwatermark").expect("a line")..].to_owned(),
        |text| text[..text.find("\nreference").expect("a line")].to_owned() + "\n\0\0\0\0",
    ];
    check_all(damages, |damage| {
        let mut fixture = StateFixture::new_ahead(200);
        let lagging_id = fixture.run_life();
        fixture.write_record_ahead(610_000);
        fixture.run_life();
        fixture.write_record(damage(&fixture.record()));
        fixture.run_printed_remedy(lagging_id);
        fixture.run_life();
    });
}

/// The last IDs are further past the largest ID in a table than the default margin.
#[test]
fn a_large_borrow_limit() {
    let mut fixture = StateFixture::new_ahead(60_000);
    let lagging_id = fixture.run_life();
    fixture.write_record_ahead(640_000);
    fixture.run_life();
    fixture.write_record("junk\n");
    fixture.run_printed_remedy(lagging_id);
    fixture.run_life();
}

/// The limit was raised while the server ran, so only the damaged record contains it.
#[test]
fn a_borrow_limit_that_was_raised() {
    let mut fixture = StateFixture::new_ahead(200);
    let state = fixture.state();
    fixture.max_borrow_ms = 60_000;
    let lagging_id = fixture.run_life_with(5000, |wire| {
        assert_eq!(wire.ask("CONFIG SET id-max-borrow-ms 60000"), "+OK");
        // The new limit takes effect once the record contains it.
        eventually("the record contains it", || {
            fs::read_to_string(&state).expect("a record").contains("\nmax-borrow-ms 60000\n")
        });
    });
    fixture.write_record(fixture.record().replacen("watermark 3", "watermark 2", 1));
    fixture.run_printed_remedy(lagging_id);
    fixture.run_life();
}

/// Too little information: an old copy that was put back, a deleted record, and `id-state none`. The right clock is
/// enough.
#[test]
fn records_below_the_issued_ids() {
    let mut fixture = StateFixture::new(200);
    fixture.run_life();
    let old = fixture.record();
    fixture.run_life();
    fixture.write_record(old);
    fixture.run_life();
    fs::remove_file(fixture.state()).expect("deleted");
    fixture.run_life();
    fixture.words.extend(["--id-state", "none"].map(str::to_owned));
    fixture.run_life();
    fixture.words.truncate(fixture.words.len() - 2);
    fixture.run_life();
}
