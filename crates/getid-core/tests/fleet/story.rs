//! Stories: which faults happen, and when all must be well again.

use getid_core::server::claim::StoreAction;
use getid_core::{Epoch, Limits, Tick};

use crate::clock::{MachineClock, START_UNIX_MS};
use crate::random::Random;
use crate::server::{Server, Setup};
use crate::store::Store;
use crate::world::{MS, StoreState, World, instance, signed};

/// Faults of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Partitions,
    Processes,
    Clocks,
    Store,
    /// The store loses its last writes. Then R + B alone keeps IDs apart, and clocks are right.
    Rollback,
    /// All faults, except a store that goes back.
    All,
    /// Machines are frozen with all their clocks.
    Frozen,
    /// All faults, with 1,024 servers.
    Fleet,
}

impl Kind {
    pub(crate) const SMALL: [Kind; 7] =
        [Kind::Partitions, Kind::Processes, Kind::Clocks, Kind::Store, Kind::Rollback, Kind::All, Kind::Frozen];

    fn has(self, other: Kind) -> bool {
        self == other || (matches!(self, Kind::All | Kind::Fleet) && !matches!(other, Kind::Rollback | Kind::Frozen))
    }
}

/// Events that a story has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoryCounts {
    pub(crate) ids: u64,
    pub(crate) takeovers: u64,
    losses: u64,
    /// Draws that came late, where that is allowed.
    late: u64,
    writes: u64,
    simulated_s: u64,
    went_back: u64,
}

impl StoryCounts {
    pub(crate) fn add(&mut self, other: StoryCounts) {
        self.ids += other.ids;
        self.takeovers += other.takeovers;
        self.losses += other.losses;
        self.late += other.late;
        self.writes += other.writes;
        self.simulated_s += other.simulated_s;
        self.went_back += other.went_back;
    }
}

/// Duration of the faults, ms, and of the time without faults after that.
struct Times {
    wrong_ms: u64,
    well_ms: u64,
}

fn setup(random: &mut Random) -> Setup {
    let timeout_ms = [1000, 2000, 2000, 5000][random.index(4)];
    Setup { timeout_ms, limits: Limits::default() }
}

fn world(kind: Kind, seed: u64, setup: Setup, claims: usize, standbys: usize) -> World {
    let mut world = World::new(seed ^ 0x5eed, Store::new(claims, setup.timeout_ms), claims, setup.timeout_ms);
    for who in 0..claims + standbys {
        let skew_ms =
            if kind.has(Kind::Clocks) { signed(&mut world.random, 5000) } else { signed(&mut world.random, 20) };
        let skew_ms = if kind == Kind::Rollback { 0 } else { skew_ms };
        let up_ms = world.random.within(1000, 1_000_000);
        let clock = MachineClock::new(world.now_ns, up_ms, skew_ms);
        let me = instance(&mut world.random);
        let folder = world.random.next();
        world.add(Server::new(who % claims, me, folder, clock, setup, 0));
    }
    world
}

/// Plays a story.
///
/// # Errors
///
/// Fails with a broken promise, and the server and time of it.
pub(crate) fn play(kind: Kind, seed: u64) -> Result<StoryCounts, String> {
    let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1).wrapping_add(kind as u64));
    let setup =
        if kind == Kind::Fleet { Setup { timeout_ms: 2000, limits: Limits::default() } } else { setup(&mut random) };
    let (claims, standbys) = match kind {
        Kind::Fleet => (960, 64),
        _ => (2, usize::try_from(random.within(1, 3)).expect("small")),
    };
    let times = match kind {
        Kind::Fleet => Times { wrong_ms: 60_000, well_ms: 3 * setup.timeout_ms + 5000 },
        _ => Times { wrong_ms: 240_000, well_ms: 3 * setup.timeout_ms + 5000 },
    };
    let mut world = world(kind, seed, setup, claims, standbys);
    world.in_order = !matches!(kind, Kind::Frozen | Kind::Rollback);
    if kind == Kind::Fleet {
        (world.sample_ms, world.draw_every_ms) = (250, 500);
    }
    let mut went_back = 0;
    let every_ms = if kind == Kind::Fleet { 20 } else { 4000 };
    while world.now_ns < times.wrong_ms * MS {
        let wait_ns = random.within(1, 2 * every_ms) * MS;
        world.run(world.now_ns + wait_ns)?;
        went_back += goes_wrong(kind, &mut world, &mut random, setup);
    }
    mend(&mut world);
    let well_ns = world.now_ns + times.well_ms * MS;
    if kind == Kind::Rollback {
        // An operator may have to confirm a store that went back, but only after it was detected.
        world.run(world.now_ns + (setup.timeout_ms + 1000) * MS)?;
        advance_those_that_wait(&mut world);
    }
    world.run(well_ns)?;
    all_are_well(&world, setup)?;
    let sum = |of: fn(&Server) -> u64| world.servers.iter().map(of).sum();
    Ok(StoryCounts {
        ids: world.judges.iter().map(|judge| judge.ids).sum(),
        takeovers: sum(|server| server.takeovers),
        losses: sum(|server| server.losses),
        late: world.judges.iter().map(|judge| judge.late).sum(),
        writes: world.store.writes,
        simulated_s: world.now_ns / MS / 1000,
        went_back,
    })
}

/// Makes one fault happen. Returns how many claims of the store went back.
fn goes_wrong(kind: Kind, world: &mut World, random: &mut Random, setup: Setup) -> u64 {
    let kinds = [Kind::Partitions, Kind::Processes, Kind::Clocks, Kind::Store, Kind::Rollback, Kind::Frozen];
    let possible: Vec<Kind> = kinds.into_iter().filter(|other| kind.has(*other)).collect();
    let what = possible[random.index(possible.len())];
    let who = random.index(world.servers.len());
    let for_ns = random.within(1, 4 * setup.timeout_ms) * MS;
    let now_ns = world.now_ns;
    match what {
        Kind::Partitions => {
            let (to, from) = [(true, true), (true, false), (false, true)][random.index(3)];
            let server = &mut world.servers[who];
            server.cut_to_ns = if to { now_ns + for_ns } else { server.cut_to_ns };
            server.cut_from_ns = if from { now_ns + for_ns } else { server.cut_from_ns };
        }
        Kind::Processes => process_goes_wrong(world, random, who, for_ns),
        Kind::Clocks => {
            // Rates that differ by less than a quarter, for any pair.
            let rate = |random: &mut Random| 1_000_000 + signed(random, 80_000);
            let one = rate(random);
            let rates = if random.one_in(2) { [one; 3] } else { [one, rate(random), rate(random)] };
            let clock = &mut world.servers[who].clock;
            match random.below(3) {
                0 => clock.run(now_ns, rates),
                1 => clock.step_wall(now_ns, signed(random, 60_000)),
                _ => clock.step_wall(now_ns, signed(random, 500)),
            }
        }
        Kind::Store => {
            let states = [StoreState::Refuses, StoreState::Stands, StoreState::Slow(200), StoreState::Slow(1500)];
            world.state = states[random.index(4)];
            world.state_until_ns = now_ns + for_ns / 2;
            let until_ns = world.state_until_ns;
            // The story continues when it is over; other faults have to wait.
            if world.run(until_ns).is_ok() {
                world.state = StoreState::Well;
            }
        }
        Kind::Rollback => {
            let claim = world.servers[who].claim;
            let back_ns = random.within(1, 3000) * MS;
            return u64::from(world.store.lose_since(claim, now_ns.saturating_sub(back_ns)));
        }
        _ => {
            let server = &mut world.servers[who];
            server.paused_until_ns = now_ns + for_ns;
            server.clock.lose(now_ns, for_ns, [true, true, true]);
        }
    }
    0
}

fn process_goes_wrong(world: &mut World, random: &mut Random, who: usize, for_ns: u64) {
    let now_ns = world.now_ns;
    match random.below(5) {
        0 => world.kill(who, random.below(5000)),
        1 => {
            // The machine boots again too.
            world.kill(who, random.within(500, 8000));
            let up_ms = random.within(500, 2000);
            let server = &mut world.servers[who];
            server.folder = random.next();
            let skew =
                server.clock.reading(now_ns).wall_unix_ms - START_UNIX_MS - i64::try_from(now_ns / MS).expect("small");
            server.clock = MachineClock::new(now_ns, up_ms, skew);
        }
        2 => world.stop(who, random.within(200, 5000)),
        3 => world.servers[who].paused_until_ns = now_ns + for_ns,
        _ => {
            // Suspended: the raw clock stands still meanwhile.
            let server = &mut world.servers[who];
            server.paused_until_ns = now_ns + for_ns;
            server.clock.lose(now_ns, for_ns, [false, true, false]);
        }
    }
}

/// Ends all faults: network, clocks and store are well from here on, and all processes run.
fn mend(world: &mut World) {
    let now_ns = world.now_ns;
    world.state = StoreState::Well;
    world.state_until_ns = 0;
    for who in 0..world.servers.len() {
        let server = &mut world.servers[who];
        (server.cut_to_ns, server.cut_from_ns) = (0, 0);
        server.paused_until_ns = server.paused_until_ns.min(now_ns);
        server.clock.run(now_ns, [1_000_000; 3]);
        server.clock.set_right(now_ns);
    }
}

/// Does what an operator does about a store that went back.
fn advance_those_that_wait(world: &mut World) {
    let now_ms = START_UNIX_MS + i64::try_from(world.now_ns / MS).expect("small");
    let now = Tick(u64::try_from(now_ms - Tick(0).unix_ms(Epoch::DEFAULT)).expect("after the epoch"));
    for claim in 0..world.judges.len() {
        if world.now_ns - world.given_ns[claim] > 500 * MS {
            world.store.advance(claim, now, world.now_ns);
        }
    }
}

/// Checks that no server waits for ever: each claim has given IDs recently.
fn all_are_well(world: &World, setup: Setup) -> Result<(), String> {
    for (claim, &given_ns) in world.given_ns.iter().enumerate() {
        let quiet_ms = (world.now_ns - given_ns) / MS;
        if quiet_ms > setup.timeout_ms.max(20 * world.draw_every_ms) {
            let states: Vec<_> = world
                .servers
                .iter()
                .enumerate()
                .filter(|(_, server)| server.claim == claim)
                .map(|(who, server)| format!("{who}: up {}, {:?}", server.is_up, server.claimant.waiting()))
                .collect();
            return Err(format!(
                "claim {claim} has given nothing for {quiet_ms} ms; {states:?}; {:?}",
                world.store.row(claim)
            ));
        }
    }
    Ok(())
}

/// Returns two servers, one of which has the claim.
fn pair(seed: u64) -> Result<(World, usize, usize), String> {
    let setup = Setup { timeout_ms: 2000, limits: Limits::default() };
    let mut world = world(Kind::Processes, seed, setup, 1, 1);
    world.draw_every_ms = 5;
    let settle_ns = (4000 + world.random.below(1000)) * MS;
    world.run(settle_ns)?;
    let holder = usize::from(world.servers[1].claimant.is_holder());
    if !world.servers[holder].claimant.is_holder() {
        return Err("no server has the claim".to_owned());
    }
    Ok((world, holder, 1 - holder))
}

fn takeover(world: &mut World, from_ns: u64, standby: usize) -> Result<u64, String> {
    for _ in 0..400 {
        world.run(world.now_ns + 10 * MS)?;
        let (server, given_ns) = (&world.servers[standby], world.given_ns[0]);
        if server.claimant.is_holder()
            && given_ns > from_ns
            && world.servers[1 - standby].call.is_none_or(|call| matches!(call.action, StoreAction::Read))
        {
            return Ok((given_ns - from_ns) / MS);
        }
    }
    Err("no server has taken over within 4 s".to_owned())
}

/// Kills a holder. Returns how long there were no IDs, ms.
///
/// # Errors
///
/// Fails after more than three seconds, or if a promise is broken.
pub(crate) fn kill_of_a_holder(seed: u64) -> Result<u64, String> {
    let (mut world, holder, standby) = pair(seed)?;
    let from_ns = world.now_ns;
    // It does not return.
    world.kill(holder, 100_000);
    let took_ms = takeover(&mut world, from_ns, standby)?;
    if took_ms > 3000 { Err(format!("it took {took_ms} ms")) } else { Ok(took_ms) }
}

/// Stops a holder as SIGTERM does. Returns how long there were no IDs, ms.
///
/// # Errors
///
/// Fails as [`kill_of_a_holder`] does.
pub(crate) fn release_of_a_holder(seed: u64) -> Result<u64, String> {
    let (mut world, holder, standby) = pair(seed)?;
    let from_ns = world.now_ns;
    world.stop(holder, 100_000);
    takeover(&mut world, from_ns, standby)
}

/// A holder with slow clocks is cut off, and a standby with fast clocks takes over.
///
/// # Errors
///
/// Fails if a promise is broken.
pub(crate) fn slow_holder_and_fast_standby(seed: u64) -> Result<(), String> {
    let (mut world, holder, standby) = pair(seed)?;
    // At the borrow limit the watermark would end it sooner.
    world.is_greedy = false;
    world.run(world.now_ns + 5000 * MS)?;
    let now_ns = world.now_ns;
    world.servers[holder].clock.run(now_ns, [917_000; 3]);
    world.servers[standby].clock.run(now_ns, [1_083_000; 3]);
    let rest_ns = world.random.below(500) * MS;
    world.run(now_ns + rest_ns)?;
    world.servers[holder].cut_to_ns = now_ns + 60_000 * MS;
    world.run(now_ns + 6000 * MS)?;
    if world.servers[standby].claimant.is_holder() { Ok(()) } else { Err("no server has taken over".to_owned()) }
}

/// The store stands still for longer than the time-out: no server was silent, and the holder has the claim afterwards.
///
/// # Errors
///
/// Fails if another server has it.
pub(crate) fn store_that_stands_still(seed: u64) -> Result<(), String> {
    let (mut world, holder, _) = pair(seed)?;
    let now_ns = world.now_ns;
    (world.state, world.state_until_ns) = (StoreState::Stands, now_ns + 5000 * MS);
    world.run(world.state_until_ns)?;
    world.state = StoreState::Well;
    world.run(now_ns + 7000 * MS)?;
    if world.servers[holder].claimant.is_holder() { Ok(()) } else { Err("the holder has lost its claim".to_owned()) }
}
