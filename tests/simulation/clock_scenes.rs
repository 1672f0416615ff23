//! Scenes about clocks: set back, set forward, suspended, smeared, wrong at start and then corrected.

use std::time::Duration;

use getid_core::{Refusal, Tick};
use getid_engine::claim::SaveStep;
use getid_system::clock::Clock;

use crate::clock::START_UNIX_MS;
use crate::disk::StepFault;
use crate::machine::{Machine, Server, pass, timed};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// Start of 2100-01-01 in Unix ms.
const YEAR_2100_UNIX_MS: i64 = 4_102_444_800_000;

impl Machine {
    /// Returns the wall clock's tick.
    fn wall(&self) -> Tick {
        self.identity.layout.epoch().tick_at(self.clock.wall_unix_ms()).expect("a wall clock within the 42 bits")
    }

    /// Draws one ID each `every_ms` for `ms`; none may wait.
    async fn serve(&self, server: &Server, ms: u64, every_ms: u64) {
        for _ in 0..ms / every_ms {
            let (waited, ids) = timed(server.draw(1)).await;
            assert_eq!((waited, ids.is_ok()), (Duration::ZERO, true));
            pass(every_ms).await;
        }
    }
}

fn near(a: Tick, b: Tick, ms: u64) -> bool {
    a.0.abs_diff(b.0) <= ms
}

async fn running() -> (Machine, Server) {
    let machine = Machine::new();
    let server = machine.start().await;
    pass(1).await;
    machine.serve(&server, 10_000, 50).await;
    (machine, server)
}

#[tokio::test(start_paused = true)]
async fn set_back_by_a_minute_and_restarted_inside_that_minute() {
    let (machine, server) = running().await;
    let before = server.status().mint.reference;
    machine.clock.step_wall(-60_000);
    machine.serve(&server, 5000, 10).await;
    let status = server.status().mint;
    assert_eq!(status.rollbacks, 1);
    // 90 % of real speed.
    assert!(near(status.reference, before.plus_ms(4500), 20), "{status:?}");
    for life in 0..5 {
        server_again(&machine, life).await;
    }
    // In the other order: down while the clock is set back.
    machine.clock.step_wall(-60_000);
    for life in 0..5 {
        server_again(&machine, life).await;
    }
    machine.oracle.verdict().expect("no id twice");
}

async fn server_again(machine: &Machine, life: u64) {
    let server = machine.start().await;
    let (waited, _) = timed(server.tick()).await;
    // 200 ms of R, which runs at 90 %.
    assert!(waited <= Duration::from_millis(225), "{waited:?}");
    machine.serve(&server, 2000, 100).await;
    if life.is_multiple_of(2) { server.kill().await } else { server.crash().await }
}

#[tokio::test(start_paused = true)]
async fn set_back_under_load_still_gives_nine_tenths() {
    let machine = Machine::new().with_shard_range(3);
    let server = machine.start().await;
    pass(5000).await;
    server.tick().await;
    machine.clock.step_wall(-60_000);
    pass(200).await;
    server.draw(24_000).await.expect("the borrow limit's worth");
    let (took, _) = timed(server.draw(72_000)).await;
    assert!((9_900..10_150).contains(&took.as_millis()), "{took:?}");
    // In ten minutes it has caught up, and the full rate is back.
    pass(10 * MINUTE_MS).await;
    assert!(near(server.status().mint.reference, machine.wall(), 1));
    server.draw(24_000).await.expect("the borrow limit's worth");
    let (took, _) = timed(server.draw(80_000)).await;
    assert!((9_900..10_150).contains(&took.as_millis()), "{took:?}");
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn set_back_by_an_hour_or_to_1970_while_down() {
    for back_to in [START_UNIX_MS - 3_600_000, 0] {
        let (machine, server) = running().await;
        server.kill().await;
        machine.clock.set_wall(back_to);
        let server = machine.start().await;
        pass(3).await;
        machine.serve(&server, 10_000, 100).await;
        server.crash().await;
        let server = machine.start().await;
        pass(225).await;
        machine.serve(&server, 1000, 100).await;
        // After the correction, the IDs are at the clock again, at once.
        machine.clock.set_wall(START_UNIX_MS + 100_000);
        pass(200).await;
        assert!(near(server.status().mint.reference, machine.wall(), 1));
        machine.oracle.verdict().expect("no id twice");
    }
}

#[tokio::test(start_paused = true)]
async fn forward_by_little_is_followed_at_once() {
    for ms in [1, 20, 5000, 3_600_000] {
        let (machine, server) = running().await;
        machine.clock.step_wall(ms);
        pass(101).await;
        assert!(near(server.status().mint.reference, machine.wall(), 1));
        // Past the watermark: one sync, which a healthy disk does in no time.
        machine.serve(&server, 1000, 10).await;
        assert!(near(server.tick().await, machine.wall(), 1));
        assert_eq!(server.status().mint.jumps, u64::from(ms >= 128));
        machine.oracle.verdict().expect("no id twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_two_hours_that_stands_is_followed_after_ten_minutes() {
    let (machine, server) = running().await;
    machine.clock.step_wall(2 * 3_600_000);
    machine.serve(&server, 9 * MINUTE_MS + 50_000, 1000).await;
    let status = server.status().mint;
    assert!(status.holds_jump);
    assert!(near(Tick(status.reference.0 + 2 * HOUR_MS), machine.wall(), 1), "not followed yet");
    machine.serve(&server, 20_000, 1000).await;
    assert!(!server.status().mint.holds_jump);
    assert!(near(server.tick().await, machine.wall(), 1), "followed");
    server.kill().await;
    let server = machine.start().await;
    pass(1).await;
    machine.serve(&server, 1000, 100).await;
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_two_hours_that_is_taken_back_leaves_no_trace() {
    let (machine, server) = running().await;
    machine.clock.step_wall(2 * 3_600_000);
    machine.serve(&server, 9 * MINUTE_MS, 1000).await;
    machine.clock.step_wall(-2 * 3_600_000);
    machine.serve(&server, 20 * MINUTE_MS, 1000).await;
    let status = server.status().mint;
    assert_eq!((status.holds_jump, status.jumps, status.rollbacks), (false, 1, 0));
    assert!(near(server.tick().await, machine.wall(), 1));
    // The record has no trace of it either.
    assert!(machine.found().expect("a record").watermark <= machine.wall().plus_ms(3200));
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_more_than_400_days_is_never_followed() {
    let (machine, server) = running().await;
    machine.clock.step_wall(401 * 86_400_000);
    machine.serve(&server, 30 * MINUTE_MS, 5000).await;
    assert!(server.status().mint.holds_jump);
    assert!(near(Tick(server.tick().await.0 + 401 * 24 * HOUR_MS), machine.wall(), 2));
}

#[tokio::test(start_paused = true)]
async fn boot_in_2100_with_a_record_gives_nothing_until_corrected() {
    let (machine, server) = running().await;
    server.crash().await;
    let found = machine.found();
    machine.clock.set_wall(YEAR_2100_UNIX_MS);
    let server = machine.start().await;
    for _ in 0..10 {
        assert!(matches!(server.draw(1).await, Err(Refusal::Clock(_))));
        pass(1000).await;
    }
    assert_eq!(machine.found(), found, "nothing was written");
    machine.clock.set_wall(START_UNIX_MS + 30_000);
    pass(200).await;
    machine.serve(&server, 1000, 100).await;
    assert!(near(server.tick().await, machine.wall(), 3000));
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn boot_in_2100_without_a_record_leaves_no_trace_while_no_id_is_drawn() {
    let machine = Machine::new();
    machine.clock.set_wall(YEAR_2100_UNIX_MS);
    let server = machine.start().await;
    pass(10_000).await;
    assert!(machine.found().expect("a record").watermark.unix_ms(machine.identity.layout.epoch()) > YEAR_2100_UNIX_MS);
    machine.clock.set_wall(START_UNIX_MS + 10_000);
    pass(500).await;
    assert!(near(server.tick().await, machine.wall(), 3000));
    server.crash().await;
    assert!(near(machine.found().expect("a record").watermark, machine.wall(), 3500));
    machine.start().await.tick().await;
    machine.oracle.verdict().expect("no id twice");
}

/// A watermark of 2100 that is being written when the clock is corrected does not stay either.
#[tokio::test(start_paused = true)]
async fn boot_in_2100_without_a_record_on_a_slow_disk() {
    for corrected_ms in [1000, 1900, 2500, 3300] {
        let machine = Machine::new();
        machine.clock.set_wall(YEAR_2100_UNIX_MS);
        let server = machine.start().await;
        machine.disk.trouble(SaveStep::SyncFile, StepFault::Slow(Duration::from_millis(900)), 100);
        pass(corrected_ms).await;
        machine.clock.set_wall(START_UNIX_MS + 10_000);
        pass(150).await;
        // A draw while the disk still has 2100: no ID may be above a record that a crash could leave, and none is of
        // 2100.
        let tick = server.tick().await;
        assert!(near(tick, machine.wall(), 3000), "{tick:?}");
        crate::machine::check_disk(&machine);
        pass(4000).await;
        crate::machine::check_disk(&machine);
        server.crash().await;
        assert!(near(machine.found().expect("a record").watermark, machine.wall(), 3500));
        machine.start().await.tick().await;
        machine.oracle.verdict().expect("no id twice");
    }
}

/// A client did draw: its ID is given, and every later ID is larger.
#[tokio::test(start_paused = true)]
async fn boot_in_2100_without_a_record_and_asked_there() {
    let machine = Machine::new();
    machine.clock.set_wall(YEAR_2100_UNIX_MS);
    let server = machine.start().await;
    pass(1).await;
    machine.serve(&server, 10_000, 1000).await;
    machine.clock.set_wall(START_UNIX_MS + 10_000);
    machine.serve(&server, 10_000, 1000).await;
    server.kill().await;
    let server = machine.start().await;
    pass(200).await;
    machine.serve(&server, 1000, 100).await;
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn boot_in_1970_with_a_record_goes_on() {
    let (machine, server) = running().await;
    server.crash().await;
    machine.clock.set_wall(0);
    let server = machine.start().await;
    let (waited, _) = timed(server.tick()).await;
    assert!(waited <= Duration::from_millis(3), "the crash came right after a save: {waited:?}");
    machine.serve(&server, 10_000, 100).await;
    machine.clock.set_wall(START_UNIX_MS + 30_000);
    pass(200).await;
    machine.serve(&server, 1000, 100).await;
    assert!(near(server.tick().await, machine.wall(), 1));
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn boot_in_1970_without_a_record_gives_nothing_until_corrected() {
    let machine = Machine::new();
    machine.clock.set_wall(0);
    let server = machine.start().await;
    for _ in 0..10 {
        assert!(matches!(server.draw(1).await, Err(Refusal::Clock(_))));
        pass(1000).await;
    }
    assert_eq!(machine.found(), None, "nothing was written");
    machine.clock.set_wall(START_UNIX_MS);
    pass(200).await;
    machine.serve(&server, 1000, 100).await;
    assert!(near(server.tick().await, machine.wall(), 3000));
}

#[tokio::test(start_paused = true)]
async fn a_leap_second_is_no_event_when_smeared_and_slewed_when_stepped() {
    let (machine, server) = running().await;
    // Smeared over 2000 s, slower than real time: R follows, and nothing is logged.
    machine.clock.drift(-500);
    for _ in 0..20 {
        machine.serve(&server, 100_000, 10_000).await;
        assert!(near(server.status().mint.reference, machine.wall(), 1));
    }
    machine.clock.drift(0);
    let status = server.status().mint;
    assert_eq!((status.rollbacks, status.jumps), (0, 0));
    // Stepped: a clock that is set back by a second, which R makes up in ten.
    machine.clock.step_wall(-1000);
    machine.serve(&server, 9000, 100).await;
    assert!(!near(server.status().mint.reference, machine.wall(), 50));
    machine.serve(&server, 1200, 100).await;
    assert!(near(server.status().mint.reference, machine.wall(), 1));
    assert_eq!(server.status().mint.rollbacks, 1);
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn suspended_with_a_wall_clock_that_was_not() {
    let (machine, server) = running().await;
    // The wall clock stands still meanwhile: it looks set back by the time of the suspension.
    machine.clock.suspend(Duration::from_mins(10));
    machine.clock.step_wall(-600_000);
    pass(200).await;
    machine.serve(&server, 10_000, 100).await;
    assert_eq!(server.status().mint.rollbacks, 1);
    // The correction is no jump.
    machine.clock.step_wall(600_000);
    pass(200).await;
    // Except for the second that R has lost.
    assert!(server.status().mint.jumps <= 1 && !server.status().mint.holds_jump);
    machine.serve(&server, 1000, 100).await;
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn after_a_suspend_ids_and_periods_have_the_new_time_at_once() {
    for asleep_ms in [10 * HOUR_MS, 5 * 24 * HOUR_MS] {
        let (machine, server) = running().await;
        machine.clock.suspend(Duration::from_millis(asleep_ms));
        // The time from which serial numbers take their period, before any code has run again.
        assert!((server.reference_unix_ms() - machine.clock.wall_unix_ms()).abs() <= 1);
        let wall = machine.wall();
        assert!(server.tick().await >= wall, "the first ID has the new time");
        machine.serve(&server, 1000, 100).await;
        let status = server.status().mint;
        assert_eq!((status.jumps, status.holds_jump, status.rollbacks), (0, false, 0));
        machine.oracle.verdict().expect("no id twice");
    }
}

/// The boot-time clock of a virtual machine does not count while the host has it paused.
#[tokio::test(start_paused = true)]
async fn after_a_pause_from_outside_ids_and_periods_have_the_old_time_for_ten_minutes() {
    let (machine, server) = running().await;
    let ahead_ms = || machine.clock.wall_unix_ms() - server.reference_unix_ms();
    machine.clock.step_wall((10 * HOUR_MS).cast_signed());
    machine.serve(&server, 10 * MINUTE_MS - 1000, 1000).await;
    assert!(server.status().mint.holds_jump && ahead_ms() >= (10 * HOUR_MS).cast_signed() - 1);
    machine.serve(&server, 2000, 100).await;
    assert!(!server.status().mint.holds_jump && ahead_ms() <= 1);
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_still_stops_no_client() {
    let (machine, server) = running().await;
    machine.clock.drift(-1_000_000);
    machine.serve(&server, 60_000, 10).await;
    server.kill().await;
    let server = machine.start().await;
    pass(200).await;
    machine.serve(&server, 10_000, 10).await;
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn a_boot_time_clock_that_goes_back_repeats_nothing() {
    let (machine, server) = running().await;
    for back_ns in [1, 999_999, 1_000_000_000, 5_000_000_000] {
        machine.clock.glitch(7, back_ns);
        machine.serve(&server, 1000, 10).await;
    }
    machine.oracle.verdict().expect("no id twice");
}

#[tokio::test(start_paused = true)]
async fn each_event_is_one_log_line() {
    let log = crate::log::capture();
    let (machine, server) = running().await;
    machine.clock.step_wall(-60_000);
    machine.serve(&server, 11 * MINUTE_MS, 100).await;
    assert_eq!(log.lines("behind the ids").len(), 1, "{:?}", log.lines(""));
    assert_eq!(log.lines("clock has caught up").len(), 1, "{:?}", log.lines(""));
    machine.clock.step_wall(2 * 3_600_000);
    machine.serve(&server, 11 * MINUTE_MS, 100).await;
    assert_eq!(log.lines("follow if it stays so for 10 minutes").len(), 1);
    assert_eq!(log.lines("; ids follow").len(), 1, "{:?}", log.lines(""));
}
