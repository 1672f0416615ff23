//! The real process under a wrong wall clock: set back, set ahead, absurd; between lives and while running.
//!
//! Only the wall clock is faked, because only a wall clock is ever set.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::fake_clock::FakeClock;
use crate::support::{Server, Wire, eventually};

/// Unix time of tick 0, in milliseconds.
const EPOCH_MS: i64 = 1_420_041_600_000;

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 86_400;

#[test]
#[ignore = "needs libfaketime"]
fn the_clock_is_set_between_lives() {
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    // Offset of the clock, and the INFO field for it: how far the clock is from the time of the IDs.
    let to_1970 = DAY_S - unix_ms() / 1000;
    for (life, offset_s) in [0, -HOUR_S, to_1970, 0, DAY_S, 0, -60, -60].into_iter().enumerate() {
        clock.set(offset_s);
        let (server, mut wire) = clock.serve(dir.path(), &mut all);
        let offset_ms: i64 = wire.info("clock_offset_ms").parse().expect("ms");
        let ids_are_ahead_s = if life > 4 { DAY_S } else { 0 };
        let expected_ms = (offset_s - ids_are_ahead_s).min(0) * 1000;
        if life == 4 {
            assert!(offset_ms.abs() < 10_000, "a day ahead at the start is believed: {offset_ms}");
        } else {
            assert!((offset_ms - expected_ms).abs() < 10_000, "life {life}: {offset_ms}, expected {expected_ms}");
        }
        if life % 2 == 0 {
            server.kill();
        } else {
            assert_eq!(server.stop().code(), Some(0));
        }
    }
    assert_all_ascend(&all);
}

#[test]
#[ignore = "needs libfaketime"]
fn the_clock_is_set_while_running() {
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    let (mut server, mut wire) = clock.serve(dir.path(), &mut all);
    assert_eq!(wire.info("clock_set_back"), "0");

    // An hour back: 90 % of real speed, one warning, and no outage.
    clock.set(-HOUR_S);
    server.wait_log("ms behind the ids");
    let offset_ms: i64 = wire.info("clock_offset_ms").parse().expect("ms");
    assert!((offset_ms + HOUR_S * 1000).abs() < 2_000, "{offset_ms}");
    assert_eq!(wire.info("clock_set_back"), "1");
    // R, and the times before and after the reply: on a slow machine they are far apart.
    let look = |wire: &mut Wire| (Instant::now(), number(wire, "reference"), Instant::now());
    let (before, reference, after) = look(&mut wire);
    while after.elapsed() < Duration::from_secs(1) {
        draw(&mut wire, &mut all);
    }
    let (last_before, last, last_after) = look(&mut wire);
    let speed = |passed: Duration| (last - reference) * 100 / i64::try_from(passed.as_millis()).expect("ms");
    let (least, most) = (speed(last_after - before), speed(last_before - after));
    assert!(least <= 92 && most >= 88, "R goes at {least} % to {most} % of real speed");
    assert_eq!(server.count_log("ms behind the ids"), 1, "{}", server.log_so_far());

    // To 1970: the same effect at a larger distance.
    clock.set(-unix_ms() / 1000 + DAY_S);
    wire.wait_info("clock_set_back", "2");
    draw(&mut wire, &mut all);
    eventually("the clock fault is logged", || server.count_log("ms behind the ids") >= 2);
    assert_eq!(server.count_log("ms behind the ids"), 2, "{}", server.log_so_far());

    // The clock is right again, and the IDs are close to it.
    clock.set(0);
    server.wait_log("clock has caught up with the ids");
    draw(&mut wire, &mut all);
    eventually("the clock is right", || number(&mut wire, "clock_offset_ms").abs() <= 5);

    // A day ahead is held, with an error; half an hour is followed.
    clock.set(DAY_S);
    wire.wait_info("clock_jump_held", "1");
    draw(&mut wire, &mut all);
    assert!(ahead_of_us_ms(&all) < 10_000, "a held jump is not followed");
    let held = server.wait_log("more than id-max-clock-jump-ms");
    assert!(held.contains("error"), "{held}");
    clock.set(HOUR_S / 2);
    server.wait_log("was taken back");
    server.wait_log("ids follow");
    draw(&mut wire, &mut all);
    assert!((ahead_of_us_ms(&all) - 1_800_000).abs() < 10_000, "half an hour is followed");
    assert_eq!(wire.info("clock_jump_held"), "0");

    // The server is killed half an hour ahead of the real clock and started with the real one.
    drop(wire);
    server.kill();
    clock.set(0);
    let (_server, mut wire) = clock.serve(dir.path(), &mut all);
    assert!((number(&mut wire, "clock_offset_ms") + 1_800_000).abs() < 10_000);
    assert_all_ascend(&all);
}

#[test]
#[ignore = "needs libfaketime"]
fn an_absurd_clock_at_the_start_gives_no_ids_and_writes_nothing() {
    // Returns the offset to about the middle of that year.
    let year = |year: i64| (year - 1970) * 31_556_952 + 180 * DAY_S - unix_ms() / 1000;
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().expect("a folder");
    let state = dir.path().join("getid-0.state");
    let mut all = Vec::new();

    // Without a record: past the end of the 42 bits, and before the epoch.
    for (wrong, reason) in [(2200, "past the last instant an id can carry"), (2010, "before the epoch")] {
        clock.set(year(wrong));
        let mut server = clock.start(dir.path(), &["--server-id", "1"]);
        let mut wire = server.connect();
        for _ in 0..100 {
            let refusal = wire.ask("GETID");
            assert!(refusal.starts_with(&format!("-MISCONF clock reads {wrong}-")), "{refusal}");
            assert!(refusal.contains(reason), "{refusal}");
            assert_eq!(wire.ask("PING"), "+PONG");
        }
        assert!(wire.info("refusing").contains(reason));
        assert!(!dir.path().join("getid-1.state").exists(), "no state is written");
        clock.set(0);
        server.wait_log("clock is right again");
        let mut here = Vec::new();
        draw_patiently(&mut wire, &mut here);
        assert!(ahead_of_us_ms(&here) < 10_000, "the absurd clock left no trace");
        assert!(dir.path().join("getid-1.state").exists());
        assert_eq!(server.count_log("no ids: clock"), usize::from(server.count_log("no ids for now") == 0));
        assert_eq!(server.stop().code(), Some(0));
        fs::remove_file(dir.path().join("getid-1.state")).expect("deleted");
    }

    // With a record: more than 400 days past it.
    clock.set(0);
    clock.serve(dir.path(), &mut all).0.stop();
    let before = fs::read_to_string(&state).expect("a record");
    for wrong in [2100, 2200] {
        clock.set(year(wrong));
        let server = clock.start(dir.path(), &[]);
        let mut wire = server.connect();
        let refusal = wire.ask("GETID");
        assert!(refusal.starts_with(&format!("-MISCONF clock reads {wrong}-")), "{refusal}");
        assert_eq!(fs::read_to_string(&state).expect("a record"), before, "the state is unchanged");
        if wrong == 2100 {
            // After a stop and after a kill, nothing is written either.
            assert_eq!(server.stop().code(), Some(0));
            assert_eq!(fs::read_to_string(&state).expect("a record"), before, "the state is unchanged");
        } else {
            clock.set(0);
            draw_patiently(&mut wire, &mut all);
            assert!(ahead_of_us_ms(&all) < 10_000, "the absurd clock left no trace");
        }
    }
    assert_all_ascend(&all);
}

#[test]
#[ignore = "needs libfaketime"]
fn a_wrong_year_that_is_corrected_before_the_first_id_leaves_no_trace() {
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().expect("a folder");
    clock.set(70 * 365 * DAY_S);
    let mut server = clock.start(dir.path(), &[]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("PING"), "+PONG");
    clock.set(0);
    server.wait_log("before the first id was given");
    let mut all = Vec::new();
    draw_patiently(&mut wire, &mut all);
    assert!(ahead_of_us_ms(&all) < 10_000);
    server.stop();
    let _serving = clock.serve(dir.path(), &mut all);
    assert!(ahead_of_us_ms(&all) < 10_000);
    assert_all_ascend(&all);
}

/// Serial numbers and values of sequences count as IDs: a server that issues nothing else keeps its time over a stop,
/// and does not follow a clock that is behind it.
#[test]
#[ignore = "needs libfaketime"]
fn serial_numbers_do_not_go_back_with_the_clock() {
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().expect("a folder");
    let words = ["--generator", "yearly", "serial", "Y{yyyy}-{n:4}", "zone", "UTC", "reset", "year"];
    let mut years = Vec::new();
    for (number, offset_s) in [(1, 370 * DAY_S), (2, 0), (3, -7 * 365 * DAY_S), (4, 0)] {
        clock.set(offset_s);
        let server = clock.start(dir.path(), &words);
        let reply = server.connect().ask_bulk("GETID yearly");
        let (year, last) = reply.split_once('-').expect("a year and a number");
        assert_eq!(last, format!("{number:04}"), "{reply}");
        years.push(year.to_owned());
        // No other ID was issued.
        assert_eq!(server.connect().info("ids_issued"), "0");
        assert!(server.stop().success());
    }
    assert!(years.iter().all(|year| *year == years[0]), "{years:?}");
    // A sequence shows no time, and the server keeps the time all the same.
    let dir = tempfile::tempdir().expect("a folder");
    for offset_s in [370 * DAY_S, 0] {
        clock.set(offset_s);
        let server = clock.start(dir.path(), &["--sequence-create", "on-first-use"]);
        let mut wire = server.connect();
        let behind_ms = -number(&mut wire, "clock_offset_ms");
        assert_eq!(behind_ms > 360 * DAY_S * 1000, offset_s == 0, "{behind_ms} ms");
        assert_eq!(wire.ask("INCR orders"), if offset_s == 0 { ":2" } else { ":1" });
        assert!(server.stop().success());
    }
}

/// An absurd clock causes no serial number with its date. Sequences continue and do not fix that time.
#[test]
#[ignore = "needs libfaketime"]
fn an_absurd_clock_is_on_no_serial_number() {
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().expect("a folder");
    clock.set(DAY_S - unix_ms() / 1000);
    let words = ["--generator", "yearly", "serial", "Y{yyyy}-{n:4}", "zone", "UTC", "reset", "year"];
    let words = [&words[..], &["--sequence-create", "on-first-use"]].concat();
    let server = clock.start(dir.path(), &words);
    let mut wire = server.connect();
    let refused = wire.ask("GETID yearly");
    assert!(refused.starts_with("-MISCONF clock reads 1970-"), "{refused}");
    assert_eq!(wire.ask("INCR orders"), ":1");
    clock.set(0);
    draw_patiently(&mut wire, &mut Vec::new());
    // INFO shows the result of the last clock reading.
    eventually("the clock was followed", || number(&mut wire, "clock_offset_ms").abs() < 10_000);
}

#[test]
#[ignore = "needs libfaketime"]
fn an_absurd_clock_while_running() {
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    let (mut server, mut wire) = clock.serve(dir.path(), &mut all);
    clock.set(180 * 365 * DAY_S);
    server.wait_log("no ids: clock reads 22");
    let state = || fs::read_to_string(dir.path().join("getid-0.state")).expect("a record");
    eventually("IDs are refused", || wire.ask("GETID").starts_with("-MISCONF clock reads 22"));
    let before = state();
    let uptime = number(&mut wire, "uptime_in_seconds");
    eventually("the uptime grows", || number(&mut wire, "uptime_in_seconds") > uptime);
    assert_eq!(state(), before, "the state is unchanged");
    clock.set(0);
    server.wait_log("clock is right again");
    draw_patiently(&mut wire, &mut all);
    assert!(ahead_of_us_ms(&all) < 10_000);
    assert_eq!(server.count_log("no ids: clock"), 1, "{}", server.log_so_far());
    assert_eq!(server.count_log("clock is right again"), 1, "{}", server.log_so_far());
    assert_all_ascend(&all);
}

#[test]
#[ignore = "needs libfaketime"]
fn the_end_of_a_generator_is_logged_once_a_day() {
    let clock = FakeClock::new();
    let dir = tempfile::tempdir().expect("a folder");
    let mut server = clock.start(dir.path(), &["--generator", "old", "baidu"]);
    let warning = "generators are near the end of their time: 'old' (ended, 2024-11-20T13:24:16.000Z). After it";
    let mut wire = server.connect();
    eventually("two checks of the clock", || number(&mut wire, "uptime_in_seconds") >= 2);
    assert_eq!(server.count_log(warning), 1, "{}", server.log_so_far());
    clock.set(DAY_S);
    eventually("the end of the generator is logged again", || server.count_log(warning) == 2);
    let uptime = number(&mut wire, "uptime_in_seconds");
    eventually("two more checks of the clock", || number(&mut wire, "uptime_in_seconds") >= uptime + 2);
    assert_eq!(server.count_log(warning), 2, "{}", server.log_so_far());
}

/// Draws some IDs: one, a hundred, and fifty pipelined.
fn draw(wire: &mut Wire, all: &mut Vec<u64>) {
    all.push(wire.id());
    all.extend(wire.ids(100));
    wire.send("GETID\r\n".repeat(50));
    for _ in 0..50 {
        let line = wire.line();
        all.push(line.strip_prefix(':').and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{line}")));
    }
}

/// Calls [`draw`] once the server serves again.
fn draw_patiently(wire: &mut Wire, all: &mut Vec<u64>) {
    eventually("the server issues IDs again", || !wire.ask("GETID").starts_with('-'));
    draw(wire, all);
}

fn assert_all_ascend(all: &[u64]) {
    if let Some([first, second]) = all.array_windows().find(|[first, second]| first >= second) {
        panic!("{first} came before {second}");
    }
}

fn number(wire: &mut Wire, field: &str) -> i64 {
    wire.info(field).parse().expect("a number")
}

/// Returns how far the last ID is ahead of the real clock, in milliseconds.
fn ahead_of_us_ms(all: &[u64]) -> i64 {
    let tick = i64::try_from(all.last().expect("an id") >> 21).expect("42 bits");
    tick + EPOCH_MS - unix_ms()
}

fn unix_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "a test compares IDs with the real clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("past 1970");
    i64::try_from(now.as_millis()).expect("ms")
}

impl FakeClock {
    /// Starts a server with this clock and a client that has drawn some IDs.
    fn serve(&self, dir: &Path, all: &mut Vec<u64>) -> (Server, Wire) {
        let server = self.start(dir, &[]);
        let mut wire = server.connect();
        draw(&mut wire, all);
        (server, wire)
    }
}
