//! `getid state`: its output, its writes, and its refusals, at a fixed time.

// These helpers are part of the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use getid::cli::state::{StateArgs, run_at};
use getid_core::{Epoch, Layout, SavePoint, Tick};
use getid_engine::claim::{Folder as RecordLocation, FolderClaim, Identity, Mark, MarkedRecord, Owner, Record, Term};
use tempfile::TempDir;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    state: StateArgs,
}

/// The time of these tests: 2026-11-21T00:00:00Z.
const NOW: i64 = 1_795_219_200_000;
const DAY: i64 = 86_400_000;
/// Margin above an ID or the clock: the default borrow limit, the room of one save, and one more, in ms.
const MARGIN: i64 = 3201;
const OWNER: Owner = Owner { term: Term(4), nonce: 1 };

/// A folder in which the tool runs at [`NOW`].
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn state(&self, server_id: u32) -> PathBuf {
        self.path().join(format!("getid-{server_id}.state"))
    }

    /// Runs `words`, in which DIR is replaced by the folder, and returns the output with DIR put back.
    fn run(&self, words: &str) -> Result<(String, bool), String> {
        self.run_in(words, &[])
    }

    /// Like [`Folder::run`], with only these variables in the environment.
    fn run_in(&self, words: &str, environment: &[(&str, &str)]) -> Result<(String, bool), String> {
        let dir = self.path().to_str().unwrap();
        let words: Vec<_> = words.split_whitespace().map(|word| word.replace("DIR", dir)).collect();
        let args =
            Cli::try_parse_from(std::iter::once("state".to_owned()).chain(words)).map_err(|error| error.to_string())?;
        let back = |text: String| text.replace(dir, "DIR");
        // Tests run concurrently, and all use server-id 0.
        let environment = environment
            .iter()
            .chain(&[("GETID_ID_MACHINE_CLAIM", "no")])
            .map(|(name, value)| (name.into(), value.replace("DIR", dir).into()));
        let done = run_at(&args.state, NOW, environment.collect());
        done.map(|(text, good)| (back(text), good)).map_err(|error| back(error.to_string()))
    }

    #[track_caller]
    fn check(&self, words: &str, expected: &str) {
        let (text, good) = self.run(words).unwrap();
        assert_eq!(text, expected);
        assert!(good);
    }

    #[track_caller]
    fn check_refusal(&self, words: &str, expected: &str) {
        let before = fs::read(self.state(0)).ok();
        assert_eq!(self.run(words).unwrap_err(), expected);
        assert_eq!(fs::read(self.state(0)).ok(), before, "a refusal has written");
    }

    /// Writes a record of server-id 0 with this watermark and reference, in ms relative to [`NOW`].
    fn put(&self, watermark: i64, reference: i64) -> Record {
        let layout = Layout::default();
        let tick = |ms| layout.epoch().tick_at(NOW + ms).unwrap();
        let point = SavePoint { watermark: tick(watermark), reference: tick(reference), max_borrow_ms: 3000 };
        let record =
            Record { identity: Identity { server_id: 0, layout }, point, declarations: Arc::default(), owner: OWNER };
        fs::write(self.state(0), record.to_text()).unwrap();
        record
    }

    #[track_caller]
    fn record(&self) -> Record {
        Record::parse(&fs::read(self.state(0)).unwrap()).unwrap()
    }

    /// Returns watermark and reference, in ms relative to [`NOW`].
    #[track_caller]
    fn point(&self) -> (i64, i64) {
        let Record { identity, point, .. } = self.record();
        let from_now = |tick: Tick| tick.unix_ms(identity.layout.epoch()) - NOW;
        (from_now(point.watermark), from_now(point.reference))
    }
}

#[test]
fn show_one() {
    let folder = Folder::new();
    folder.put(2500, -90_000);
    folder.check(
        "show DIR",
        "server-id 0: DIR/getid-0.state\n  \
           watermark  2026-11-21T00:00:02.500Z (tick 375177602500), 2.500 s ahead of the clock\n  \
           reference  2026-11-20T23:58:30.000Z (tick 375177510000), 1 min 30 s behind the clock\n  \
           ids        given: below 786804459438080000; after a restart: none below it\n  \
           layout     id-range 2 shard-range 9 random-range 10, epoch 1420041600000 (2014-12-31T16:00:00.000Z)\n  \
           borrow     IDs were at most 3000 ms ahead of the reference\n  \
           term       4, the number of this life\n  \
           in use by  no process\n",
    );
}

#[test]
fn show_several() {
    let folder = Folder::new();
    folder.put(0, 0);
    fs::write(folder.state(10), "getid state 4\n").unwrap();
    fs::copy(folder.state(0), folder.state(2)).unwrap();
    for other in ["getid-.state", "getid-x.state", "getid-01.state", "getid-0.state.tmp", "getid-7.lock"] {
        fs::write(folder.path().join(other), "").unwrap();
    }
    let (text, good) = folder.run("show DIR").unwrap();
    assert!(!good, "one of the servers would not start");
    let places: Vec<_> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        places,
        [
            "server-id 0: DIR/getid-0.state",
            "",
            "server-id 2: DIR/getid-2.state",
            "",
            "server-id 10: DIR/getid-10.state"
        ]
    );
    assert!(text.contains("unusable   its last line is 'getid state 4' where"), "{text}");
    assert!(text.contains("unusable   it is the record of server-id 0, and this is server-id 2"), "{text}");
    let remedy =
        "remedy     run `getid state advance DIR --server-id 10 --max-borrow 3000 --past-id ID`, ID being the largest";
    assert!(text.contains(remedy), "{text}");
    assert!(folder.run("show DIR --server-id 0").unwrap().1);
}

#[test]
fn show_none() {
    let folder = Folder::new();
    folder.check_refusal("show DIR", "no record (getid-*.state) in DIR");
    folder.put(0, 0);
    folder.check_refusal("show DIR --server-id 5", "no record (getid-5.state) in DIR");
    folder.check_refusal("show DIR/none", "cannot read the folder DIR/none: No such file or directory (os error 2)");
}

#[test]
fn show_json() {
    let folder = Folder::new();
    folder.put(2500, -90_000);
    fs::write(folder.state(1), "").unwrap();
    let (text, good) = folder.run("show DIR --json").unwrap();
    assert!(!good);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = serde_json::json!([
        {
            "server_id": 0, "path": "DIR/getid-0.state", "in_use_by": null,
            "epoch_unix_ms": 1_420_041_600_000_u64, "id_range": 2, "shard_range": 9, "random_range": 10,
            "watermark_tick": 375_177_602_500_u64, "watermark_time": "2026-11-21T00:00:02.500Z",
            "watermark_ahead_ms": 2500,
            "reference_tick": 375_177_510_000_u64, "reference_time": "2026-11-20T23:58:30.000Z",
            "reference_ahead_ms": -90_000,
            "max_borrow_ms": 3000, "term": 4,
            "ids_below": "786804459438080000", "generators": [], "forgotten": [], "since": [],
        },
        { "server_id": 1, "path": "DIR/getid-1.state", "in_use_by": null, "error": "the file is empty" },
    ]);
    assert_eq!(found, expected);
    assert_eq!(folder.run("show DIR --json --server-id 9").unwrap(), ("[]\n".to_owned(), false));
}

/// Returns the text of a record with these lines of named generators.
fn with_generators(record: &Record, lines: &str) -> Vec<u8> {
    let text = record.to_text();
    let (body, _) = text.split_at(text.rfind("checksum").unwrap());
    let text = body.to_owned() + lines;
    format!("{text}checksum crc32 {:08x}\n", crc32fast::hash(text.as_bytes())).into_bytes()
}

const GENERATORS: &str = "generator tweets layout time:41@1ms counter:22 epoch 1288834974657\n\
                          generator short layout time:41@1ms counter:22 epoch 0 format base62 pad 11\n\
                          generator trace uuid7\n";

#[test]
fn forgotten_generators() {
    let folder = Folder::new();
    let record = folder.put(2500, -90_000);
    fs::write(folder.state(0), with_generators(&record, GENERATORS)).unwrap();
    let shown = folder.run("show DIR").unwrap().0;
    assert!(shown.contains("  generator  tweets layout time:41@1ms counter:22 epoch 1288834974657\n"), "{shown}");

    let forget = "forget tweets DIR --server-id 0 --past-id 1992648317203087360";
    folder.check(
        forget,
        "server-id 0: DIR/getid-0.state\n  \
           forgotten  tweets layout time:41@1ms counter:22 epoch 1288834974657\n  \
           ids        a generator that is named 'tweets' later must begin past 1992648317203087360\n",
    );
    let after = folder.record();
    assert_eq!((after.point, after.identity), (record.point, record.identity), "nothing else has changed");
    assert!(after.declarations.find("tweets").is_none());
    let (shown, good) = folder.run("show DIR").unwrap();
    assert!(good && shown.contains("  forgotten  tweets past-id 1992648317203087360\n"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&folder.run("show DIR --json").unwrap().0).unwrap();
    assert_eq!(json[0]["generators"][1], "trace uuid7");
    let forgotten = serde_json::json!([{ "name": "tweets", "past_id": "1992648317203087360" }]);
    assert_eq!(json[0]["forgotten"], forgotten);

    // A record that is moved ahead keeps its declarations.
    let moved = folder.run("advance DIR --server-id 0 --to 2026-11-21T00:10:00Z").unwrap();
    assert!(moved.1 && folder.record().declarations == after.declarations, "{}", moved.0);

    for (words, error) in [
        (forget, "generator 'tweets' was forgotten before, with --past-id 1992648317203087360"),
        ("forget tweet DIR --server-id 0 --past-id 1", "no generator 'tweet' in the record: it has short, trace"),
        (
            "forget short DIR --server-id 0 --past-id 199264",
            "--past-id 199264: generator 'short' gives no such IDs (short layout time:41@1ms counter:22 epoch 0 \
             format base62 pad 11)",
        ),
        (
            "forget trace DIR --past-id 0",
            "the server-id is missing: name it with --server-id, or name a configuration with server-id in it by --config",
        ),
        (
            "forget trace DIR --server-id 3 --past-id 0",
            "DIR/getid-3.state: there is no record, so there is nothing to forget",
        ),
    ] {
        folder.check_refusal(words, error);
    }
}

/// A damaged record keeps the declarations whose lines are intact.
#[test]
fn a_damaged_record_with_generators_is_moved_ahead() {
    let folder = Folder::new();
    let text = with_generators(&folder.put(2500, -90_000), GENERATORS);
    let text = String::from_utf8(text).unwrap().replace("trace uuid7", "trace uuid8");
    fs::write(folder.state(0), text).unwrap();
    let (text, good) = folder.run("advance DIR --server-id 0 --to 2026-11-21T00:10:00Z").unwrap();
    assert!(good, "{text}");
    let names: Vec<_> = folder.record().declarations.generators().iter().map(|known| known.name().to_owned()).collect();
    assert_eq!(names, ["tweets", "short"]);
}

/// Migration from the fork: no record exists, and the largest ID in the tables, a corrupt one, is in the future.
#[test]
fn advance_makes_a_record() {
    let folder = Folder::new();
    let layout = Layout::default();
    let tick = layout.epoch().tick_at(NOW + 600_000).unwrap();
    // The last ID of that tick, with another server-id.
    let (_, id) = layout.span(tick, tick);
    folder.check(
        &format!("advance DIR --server-id 0 --past-id {id}"),
        "server-id 0: DIR/getid-0.state\n  \
           before     no record\n  \
           after      2026-11-21T00:10:03.201Z (tick 375178203201), 10 min 3 s ahead of the clock\n  \
           layout     id-range 2 shard-range 9 random-range 10, epoch 1420041600000 (2014-12-31T16:00:00.000Z)\n  \
           borrow     IDs under way were at most 3000 ms ahead (--max-borrow, if it was more)\n  \
           ids        every new ID will be at least 786805719199383552\n  \
           clock      2026-11-21T00:00:00.000Z: IDs start 10 min 3 s ahead of it, and run ahead less and less until \
           2026-11-21T01:40:02.010Z\n",
    );
    assert_eq!(folder.point(), (600_000 + MARGIN, 600_201), "IDs come at once from R on");
    let identity = folder.record().identity;
    assert_eq!(identity, Identity { server_id: 0, layout });
    let place = RecordLocation { dir: folder.path().to_owned(), identity, max_borrow_ms: 3000, generators: Vec::new() };
    assert_eq!(FolderClaim::take_blocking(&place).unwrap().point, Some(folder.record().point));
}

/// Later IDs than the given one may be in no table yet, whether it is in the past or in the future. They are skipped
/// too.
#[test]
fn advance_skips_ids_under_way() {
    let id_at = |ms: i64| {
        let tick = Epoch::DEFAULT.tick_at(NOW + ms).unwrap();
        Layout::default().span(tick, tick).1
    };
    for (ms, words, environment, watermark, max_borrow_ms) in [
        (-DAY, "", &[][..], 3201, 3000),
        (600_000, "", &[], 600_000 + 3201, 3000),
        // The largest of the given and the configured borrow limit counts.
        (600_000, "--max-borrow 60000", &[], 600_000 + 60_201, 60_000),
        (600_000, "--max-borrow 5", &[], 600_000 + 3201, 3000),
        (600_000, "", &[("GETID_ID_MAX_BORROW_MS", "60000")], 600_000 + 60_201, 60_000),
        (600_000, "--max-borrow 90000", &[("GETID_ID_MAX_BORROW_MS", "60000")], 600_000 + 90_201, 90_000),
    ] {
        let folder = Folder::new();
        let command = format!("advance DIR --server-id 0 --past-id {} {words}", id_at(ms));
        let (text, _) = folder.run_in(&command, environment).unwrap();
        assert_eq!(folder.point(), (watermark, watermark - max_borrow_ms), "{text}");
        assert_eq!(folder.record().point.max_borrow_ms, max_borrow_ms.cast_unsigned(), "B is in the record");
        assert!(text.contains(&format!("IDs under way were at most {max_borrow_ms} ms ahead")), "{text}");
    }
    // The borrow limit of the record counts as well.
    let folder = Folder::new();
    folder.run(&format!("advance DIR --server-id 0 --max-borrow 60000 --to {NOW}")).unwrap();
    folder.run(&format!("advance DIR --server-id 0 --past-id {}", id_at(600_000))).unwrap();
    assert_eq!(folder.point(), (660_201, 600_201));
    // An existing record.
    folder.put(5000, 4000);
    folder.run(&format!("advance DIR --server-id 0 --past-id {}", id_at(0))).unwrap();
    assert_eq!(folder.point(), (5000, 4000), "the record is later already");
    folder.run(&format!("advance DIR --server-id 0 --past-id {}", id_at(60_000))).unwrap();
    assert_eq!(folder.point(), (63_201, 60_201));
    assert!(folder.run("advance DIR --server-id 0 --past-id 1 --max-borrow 0").unwrap_err().contains("0 is not in"));
}

/// Folder, server-id, layout, epoch and borrow limit come from the file and the environment, as for `serve`.
#[test]
fn advance_uses_the_configuration() {
    let folder = Folder::new();
    let epoch_ms = 1_440_000_000_000_u64;
    let file = folder.path().join("getid.conf");
    let text = format!(
        "dir {}\nserver-id 5\nid-range 3\nshard-range 8\nid-epoch {epoch_ms}\nid-max-borrow-ms 7000\n",
        folder.path().display()
    );
    fs::write(&file, text).unwrap();
    let layout = Layout::new(Epoch::from_unix_ms(epoch_ms).unwrap(), 3, 8, 10).unwrap();
    let tick = layout.epoch().tick_at(NOW).unwrap();
    let id = layout.span(tick, tick).1;

    let check = |server_id: u32| {
        let record = Record::parse(&fs::read(folder.state(server_id)).unwrap()).unwrap();
        assert_eq!(record.identity, Identity { server_id, layout });
        // With another epoch the watermark would be 231 days ahead.
        assert_eq!(record.point.watermark.unix_ms(layout.epoch()) - NOW, 7201);
        assert_eq!(record.point.max_borrow_ms, 7000);
    };
    folder.run(&format!("advance --config DIR/getid.conf --past-id {id}")).unwrap();
    check(5);
    // The environment overrides the file, and a flag overrides both.
    folder.run_in(&format!("advance --config DIR/getid.conf --past-id {id}"), &[("GETID_SERVER_ID", "6")]).unwrap();
    check(6);
    let words = format!("advance DIR --server-id 7 --config DIR/getid.conf --past-id {id}");
    folder.run_in(&words, &[("GETID_SERVER_ID", "6"), ("GETID_DIR", "/nonexistent")]).unwrap();
    check(7);
    // Without a configuration file.
    fs::remove_file(folder.state(5)).unwrap();
    let epoch = epoch_ms.to_string();
    let environment = [
        ("GETID_DIR", "DIR"),
        ("GETID_SERVER_ID", "5"),
        ("GETID_ID_RANGE", "3"),
        ("GETID_SHARD_RANGE", "8"),
        ("GETID_ID_EPOCH", &*epoch),
        ("GETID_ID_MAX_BORROW_MS", "7000"),
    ];
    folder.run_in(&format!("advance --past-id {id}"), &environment).unwrap();
    check(5);
    let (text, _) = folder.run_in("show", &environment).unwrap();
    assert!(text.contains("server-id 5: DIR/getid-5.state"), "{text}");
    assert!(folder.run_in("show --server-id 5 --config DIR/getid.conf", &[]).unwrap().1);

    folder.check_refusal(
        &format!("advance DIR --past-id {id}"),
        "the server-id is missing: name it with --server-id, or name a configuration with server-id in it by --config",
    );
    let error = folder.run("advance --config DIR/missing.conf --past-id 1").unwrap_err();
    assert!(error.starts_with("configuration:\n") && error.contains("DIR/missing.conf"), "{error}");
    // A record's own layout is used only if no other one is given.
    folder.run_in(&format!("advance DIR --server-id 5 --past-id {id}"), &[("GETID_PORT", "1")]).unwrap();
    let record = Record::parse(&fs::read(folder.state(5)).unwrap()).unwrap();
    assert_eq!(record.identity.layout, layout);
}

/// An advance names IDs that the record may not have, even if the record is later.
#[test]
fn an_advance_that_changes_nothing_else_drops_the_times_of_first_ids() {
    let folder = Folder::new();
    let record = folder.put(5000, 4000);
    let since = "since 1795219199000 2026-11-20T23:59:59.000Z\n";
    fs::write(folder.state(0), with_generators(&record, since)).unwrap();
    let command = format!("advance DIR --server-id 0 --to {NOW}");
    let (text, _) = folder.run(&command).unwrap();
    let note = "  since      no longer known: ENCODEID composes an ID only with FORCE\n";
    assert!(text.contains("unchanged") && text.ends_with(note), "{text}");
    let after = folder.record();
    assert_eq!((after.point, after.declarations.since(None)), (record.point, None));
    assert!(!folder.run(&command).unwrap().0.contains("since"), "there is nothing left to drop");
    assert_eq!(folder.record(), after);
}

#[test]
fn advance_never_goes_back() {
    let folder = Folder::new();
    let before = folder.put(5000, 4000);
    for to in [NOW - DAY, NOW, NOW + 4000] {
        folder.check(
            &format!("advance DIR --server-id 0 --to {to}"),
            "server-id 0: DIR/getid-0.state\n  \
               before     2026-11-21T00:00:05.000Z (tick 375177605000), 5.000 s ahead of the clock\n  \
               after      unchanged: the record is later than the requested position, and a record never goes back\n",
        );
        assert_eq!(folder.record(), before);
    }
    // `--to` must be above the reference clock, not above the watermark.
    folder.run(&format!("advance DIR --server-id 0 --to {}", NOW + 4500)).unwrap();
    assert_eq!(folder.point(), (5000, 4000));
    folder.run("advance DIR --server-id 0 --to 2026-11-21T00:00:09Z").unwrap();
    assert_eq!(folder.point(), (9000, 6000));
    // A time without a zone is UTC. The clock of this test stands at NOW.
    folder.run("advance DIR --server-id 0 --to 2026-11-21T00:00:12").unwrap();
    assert_eq!(folder.point(), (12_000, 9000));
    folder.run("advance DIR --server-id 0 --to now").unwrap();
    assert_eq!(folder.point(), (12_000, 9000));
}

#[test]
fn advance_replaces_a_damaged_file_and_keeps_a_copy() {
    for damaged in ["", "junk\n", "getid state 9\nchecksum crc32 00000000\n"] {
        let folder = Folder::new();
        fs::write(folder.state(0), damaged).unwrap();
        let (text, _) = folder.run(&format!("advance DIR --server-id 0 --to {}", NOW + 9000)).unwrap();
        assert!(text.contains("before     an unusable record: "), "{text}");
        let copy = format!("getid-0.state.before-{NOW}");
        assert!(text.contains(&format!("copy       DIR/{copy}\n")), "{text}");
        assert_eq!(fs::read_to_string(folder.path().join(copy)).unwrap(), damaged);
        assert_eq!(folder.point(), (9000, 6000));
    }
}

/// A moved record is shown, but not changed, even if it was damaged after it was marked.
#[test]
fn a_moved_record_is_unchanged() {
    let folder = Folder::new();
    let record = folder.put(0, 0);
    let place = getid_engine::claim::RecordLocation::of_store("etcd://10.0.0.1:2379/getid");
    for (mark, shown_mark, word, remedy) in [
        (
            Mark::MovingTo(place.clone()),
            "it is being moved to etcd://10.0.0.1:2379/getid, and no server may start with it here",
            "moving_to",
            "finish the move: run `getid state move --server-id 0 --from DIR --to etcd://10.0.0.1:2379/getid` once more",
        ),
        (
            Mark::MovedTo(place.clone()),
            "it was moved to etcd://10.0.0.1:2379/getid, and no server may start with it here",
            "moved_to",
            "start the server with claim-store etcd://10.0.0.1:2379/getid; or, to move it back here, run `getid state \
             move --server-id 0 --from etcd://10.0.0.1:2379/getid --to DIR`",
        ),
    ] {
        let text = MarkedRecord { record: record.clone(), mark: Some(mark) }.to_text();
        fs::write(folder.state(0), &text).unwrap();
        let (shown, good) = folder.run("show DIR").unwrap();
        assert!(!good && shown.contains(&format!("  mark       {shown_mark}\n  remedy     {remedy}\n")), "{shown}");
        assert!(shown.contains("  watermark  2026-11-21T00:00:00.000Z"), "{shown}");
        let json: serde_json::Value = serde_json::from_str(&folder.run("show DIR --json").unwrap().0).unwrap();
        assert_eq!((&json[0][word], &json[0]["error"]), (&place.as_str().into(), &serde_json::Value::Null));

        let advance = format!("advance DIR --server-id 0 --force --to {}", NOW + 9000);
        folder.check_refusal(&advance, &format!("DIR/getid-0.state: {shown_mark}. To continue, {remedy}"));
        let refused = folder.run("forget tweets DIR --server-id 0 --past-id 1").unwrap_err();
        assert!(refused.starts_with(&format!("cannot use the record DIR/getid-0.state: {shown_mark};")), "{refused}");
        fs::write(folder.state(0), text.replace("nonce 0", "nonce 1")).unwrap();
        folder.check_refusal(&advance, &format!("DIR/getid-0.state: {shown_mark}. To continue, {remedy}"));
        fs::write(folder.state(0), &text).unwrap();
        let identity = record.identity;
        let start =
            RecordLocation { dir: folder.path().to_owned(), identity, max_borrow_ms: 3000, generators: Vec::new() };
        let refused = FolderClaim::take_blocking(&start).unwrap_err().to_string();
        let refused = refused.replace(folder.path().to_str().unwrap(), "DIR");
        assert_eq!(refused, format!("cannot use the record DIR/getid-0.state: {shown_mark}; to continue, {remedy}"));
    }
}

#[test]
fn advance_takes_over_a_copied_record() {
    let folder = Folder::new();
    folder.put(0, 0);
    fs::rename(folder.state(0), folder.state(1)).unwrap();
    let (text, _) = folder.run(&format!("advance DIR --server-id 1 --to {}", NOW + 9000)).unwrap();
    assert!(text.contains("an unusable record: it is the record of server-id 0\n"), "{text}");
    assert_eq!(Record::parse(&fs::read(folder.state(1)).unwrap()).unwrap().identity.server_id, 1);
}

#[test]
fn advance_refuses_impossible_values() {
    let folder = Folder::new();
    folder.put(0, 0);
    let far = NOW + DAY + 1;
    folder.run(&format!("advance DIR --server-id 0 --to {}", NOW + DAY)).unwrap();
    folder.check_refusal(
        &format!("advance DIR --server-id 0 --to {far}"),
        "the record would be at 2026-11-22T00:00:00.001Z, 24 h 0 min ahead of the clock (2026-11-21T00:00:00.000Z). IDs \
         would run ahead of it until 2026-11-30T23:59:30.010Z, and a record never goes back. If the clock is wrong, set \
         it; if this is intended, add --force",
    );
    folder.check_refusal(
        "advance DIR --server-id 0 --past-id 9223372036854775807",
        "there would be no IDs past this record: the time of IDs ends 2154-05-14T23:35:11.103Z",
    );
    folder.check_refusal("advance DIR --server-id 0 --past-id -1", "--past-id: an ID is not negative");
    folder.check_refusal(
        "advance DIR --server-id 0 --to 2154-05-16T00:00:00Z",
        "--to 2154-05-16T00:00:00Z: the time of IDs is 2014-12-31T16:00:00.000Z to 2154-05-14T23:35:11.103Z",
    );
    folder.check_refusal(
        "advance DIR --server-id 0 --to 1970-01-01T00:00:00Z",
        "--to 1970-01-01T00:00:00Z: the time of IDs is 2014-12-31T16:00:00.000Z to 2154-05-14T23:35:11.103Z",
    );
    folder.check_refusal(
        "advance DIR --server-id 4 --to 2026-11-21T00:00:00Z",
        "server-id 4 does not fit id-range 2: at most 3",
    );
    folder.check_refusal(
        "advance DIR --server-id 0 --to 2026-11-21T00:00:00Z --id-range 3",
        "id-range + shard-range + random-range is 22, must be 21",
    );
    assert!(
        folder
            .run("advance DIR --server-id 0 --to tomorrow")
            .unwrap_err()
            .starts_with("--to: 'tomorrow' is not a time")
    );
    assert!(folder.run("advance DIR --server-id 0").unwrap_err().contains("required"));
    assert!(folder.run("advance DIR --server-id 0 --to 1 --past-id 1").unwrap_err().contains("cannot be used with"));

    folder.run(&format!("advance DIR --server-id 0 --to {far} --force")).unwrap();
    assert_eq!(folder.point(), (DAY + 1, DAY + 1 - 3000));
}

/// After two years without a run, the clock is right, but the server gives no IDs until its record is moved near the
/// clock.
#[test]
fn advance_after_a_long_rest() {
    let folder = Folder::new();
    folder.put(-730 * DAY, -730 * DAY);
    folder.check_refusal(
        &format!("advance DIR --server-id 0 --to {}", NOW - 500 * DAY),
        "the record would be at 2025-07-09T00:00:00.000Z, 500 days behind the clock (2026-11-21T00:00:00.000Z), and a \
         server gives no IDs with a clock so far past its record. If the clock is right, use --to with a time near it; \
         if it is wrong, set it, or add --force",
    );
    let (text, _) = folder.run(&format!("advance DIR --server-id 0 --to {NOW}")).unwrap();
    assert!(text.contains("clock      2026-11-21T00:00:00.000Z, past the watermark: IDs carry its time"), "{text}");
    assert_eq!(folder.point(), (0, -3000));
}

#[test]
fn advance_with_another_epoch() {
    let folder = Folder::new();
    let before = folder.put(2000, 1000);
    let epoch_ms = Epoch::DEFAULT.unix_ms();

    // An earlier epoch: the same instants, and larger numbers.
    folder.run(&format!("advance DIR --server-id 0 --to {NOW} --epoch {}", epoch_ms - 5000)).unwrap();
    assert_eq!(folder.point(), (2000, 1000));
    assert_eq!(folder.record().point.watermark.0, before.point.watermark.0 + 5000);

    // A later epoch: the same number, and so a later time. The reference clock moves with it, or no IDs could be given.
    let record = folder.record();
    let command = format!("advance DIR --server-id 0 --to {NOW} --epoch {}", epoch_ms + 10 * 3_600_000);
    let (text, _) = folder.run(&command).unwrap();
    assert!(text.contains("IDs start 10 h 0 min ahead of it"), "{text}");
    assert_eq!(folder.record().point.watermark, record.point.watermark);
    assert_eq!(folder.point(), (10 * 3_600_000 + 7000, 10 * 3_600_000 + 6000));

    // An epoch that is years later needs --force.
    let command = format!("advance DIR --server-id 0 --to {NOW} --epoch {}", epoch_ms.cast_signed() + 500 * DAY);
    assert!(folder.run(&command).unwrap_err().contains("500 days ahead of the clock"));
}

#[test]
fn advance_keeps_the_layout_by_default() {
    let folder = Folder::new();
    folder
        .run(&format!("advance DIR --server-id 9 --to {NOW} --id-range 4 --shard-range 12 --random-range 5"))
        .unwrap();
    let read = || Record::parse(&fs::read(folder.state(9)).unwrap()).unwrap().identity.layout;
    let layout = Layout::new(Epoch::DEFAULT, 4, 12, 5).unwrap();
    assert_eq!(read(), layout);
    folder.run(&format!("advance DIR --server-id 9 --to {}", NOW + 9000)).unwrap();
    assert_eq!(read(), layout);
}

#[tokio::test]
async fn the_record_of_a_running_server_is_unchanged() {
    let folder = Folder::new();
    let before = folder.put(0, 0);
    let place = RecordLocation {
        dir: folder.path().to_owned(),
        identity: before.identity,
        max_borrow_ms: 3000,
        generators: Vec::new(),
    };
    let mut store = FolderClaim::take_blocking(&place).unwrap();
    let pid = std::process::id();
    folder.check_refusal(
        &format!("advance DIR --server-id 0 --to {}", NOW + 9000),
        &format!(
            "server-id 0 is in use: DIR/getid-0.lock is locked by pid {pid}; stop that process, or set another \
             server-id or dir"
        ),
    );
    let (text, good) = folder.run("show DIR").unwrap();
    assert!(good && text.contains(&format!("  in use by  pid {pid}\n")), "{text}");
    let (json, _) = folder.run("show DIR --json").unwrap();
    assert!(json.contains(&format!("\"in_use_by\": \"pid {pid}\"")), "{json}");
    store.save(before.point).await.unwrap();
}

#[test]
fn advance_needs_a_folder() {
    let folder = Folder::new();
    folder.check_refusal(
        "advance /nonexistent/folder --server-id 0 --to 2026-11-21T00:00:00Z",
        "dir: '/nonexistent/folder' cannot be used: No such file or directory (os error 2), and its parent \
         folder '/nonexistent' does not exist",
    );
    // One level of folders is created, as at a start.
    folder.run(&format!("advance DIR/new --server-id 0 --to {NOW}")).unwrap();
    assert!(folder.run("show DIR/new").unwrap().1);
}
