//! One story: a dozen lives of one server, all of it from a seed.

use std::time::Duration;

use getid::clock::Clock;
use getid::id::checks::Checks;
use getid::id::{BorrowPolicy, Epoch, Layout, Limits, Refusal};
use getid::watermark::sim::{SimDisk, Trouble};
use getid::watermark::{Identity, Mismatch, SaveStep};
use tokio::task::JoinSet;

use crate::clock::{START_UNIX_MS, SimClock};
use crate::machine::{Client, Machine, Server, check_disk, layout, pass};
use crate::oracle::Oracle;
use crate::rng::Rng;

const LIVES_MAX: u64 = 20;

/// No draw of a story takes longer than this: most IDs at once, fewest IDs a second, and all that may be borrowed.
const DRAW_TIME_MAX: Duration = Duration::from_mins(1);

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// What a story came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) lives: u64,
    pub(crate) ids: u64,
    pub(crate) saves: u64,
    pub(crate) crashes: u64,
    pub(crate) kills: u64,
    pub(crate) clean_stops: u64,
    /// First saves that failed or hung.
    pub(crate) failed_starts: u64,
    pub(crate) lost_disks: u64,
    pub(crate) refusals: u64,
    pub(crate) waits: u64,
    pub(crate) hash: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.lives += other.lives;
        self.ids += other.ids;
        self.saves += other.saves;
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.clean_stops += other.clean_stops;
        self.failed_starts += other.failed_starts;
        self.lost_disks += other.lost_disks;
        self.refusals += other.refusals;
        self.waits += other.waits;
        self.hash ^= other.hash;
    }
}

/// Plays the story of `seed`.
pub(crate) fn play<K: Checks>(seed: u64) -> Result<Tally, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    // Made inside the runtime: outside, the machine's clock would begin in real time, and no two plays would be the same.
    runtime.expect("a runtime").block_on(async { Story::new(seed).play::<K>().await })
}

struct Story {
    rng: Rng,
    machine: Machine,
    traits: Traits,
    /// The largest B of any life.
    max_borrow_ms: u64,
    tally: Tally,
}

/// What kind of world it is.
#[derive(Clone, Copy, Debug)]
struct Traits {
    /// Saves may be slow, fail or hang.
    rough_disk: bool,
    /// The wall clock may be set, drift, stand still.
    wild_clock: bool,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut rng = Rng(seed);
        let traits = Traits { rough_disk: rng.one_in(2), wild_clock: rng.one_in(2) };
        // Every shard-range has its turn, those at the ends and the usual one more often.
        let shard_range = if rng.one_in(2) { rng.pick(&[0, 0, 9, 21]) } else { u32::try_from(seed % 22).expect("22") };
        let layout = layout(shard_range);
        let server_id = u32::try_from(rng.below(1 << layout.server_bits())).expect("a server-id");
        let machine = Machine {
            clock: SimClock::new(START_UNIX_MS + i64::try_from(rng.below(1000)).expect("small")),
            disk: SimDisk::new(rng.next()),
            identity: Identity { server_id, layout },
            limits: Limits::default(),
            oracle: Oracle::default(),
        };
        Story { rng, machine, traits, max_borrow_ms: 0, tally: Tally::default() }
    }

    async fn play<K: Checks>(mut self) -> Result<Tally, String> {
        self.choose_limits();
        if self.traits.wild_clock && self.rng.one_in(4) {
            self.move_clock();
        }
        for _ in 0..self.rng.within(1, LIVES_MAX) {
            self.live::<K>().await;
            self.machine.oracle.verdict()?;
            self.between_lives().await;
        }
        self.tally.ids = self.machine.oracle.ids();
        self.tally.hash = self.machine.oracle.hash();
        self.tally.saves += self.machine.disk.saves();
        Ok(self.tally)
    }

    async fn live<K: Checks>(&mut self) {
        self.tally.lives += 1;
        if self.traits.rough_disk && self.rng.one_in(3) {
            self.make_trouble();
        }
        let start = tokio::time::timeout(Duration::from_secs(3), self.machine.try_start::<K>()).await;
        let Ok(Ok(server)) = start else {
            if !self.traits.rough_disk {
                self.machine.oracle.report(|| "a start failed on a disk without troubles".to_owned());
            }
            self.tally.failed_starts += 1;
            self.machine.disk.heal();
            self.machine.disk.crash();
            return;
        };

        let mut clients = JoinSet::new();
        for _ in 0..self.rng.within(1, 4) {
            let habits = Habits::choose(&mut self.rng, self.machine.identity.layout, self.machine.limits);
            clients.spawn(habits.follow(server.client(), self.machine.oracle.clone(), self.refusals_allowed()));
        }
        for _ in 0..self.rng.within(1, 4) {
            let ticks = self.rng.pick(&[1, 3, 10, 20]);
            let interval_ns = (self.machine.limits.lead_ms / 10).clamp(1, 100) * 1_000_000;
            tokio::time::sleep(Duration::from_nanos(self.rng.below(ticks * interval_ns))).await;
            self.happen();
        }
        self.die(server, &mut clients).await;

        clients.abort_all();
        while let Some(end) = clients.join_next().await {
            match end {
                Ok(()) => {}
                Err(end) if end.is_cancelled() => {}
                Err(bug) => self.machine.oracle.report(|| format!("a draw panicked: {bug}")),
            }
        }
    }

    /// Something happens to a server that runs.
    fn happen(&mut self) {
        if self.traits.wild_clock && self.rng.one_in(2) {
            self.move_clock();
        }
        if self.traits.rough_disk {
            match self.rng.below(4) {
                0 | 1 => self.make_trouble(),
                2 => self.machine.disk.heal(),
                _ => {}
            }
        }
    }

    async fn die<K: Checks>(&mut self, server: Server<K>, clients: &mut JoinSet<()>) {
        if self.rng.one_in(2) {
            // Otherwise they ask while it ends.
            clients.abort_all();
        }
        let status = server.status();
        self.tally.refusals += status.refusals;
        self.tally.waits += status.waits;
        match self.rng.below(5) {
            0 | 1 => {
                check_disk(&self.machine);
                self.tally.crashes += 1;
                server.crash().await;
            }
            2 | 3 => {
                check_disk(&self.machine);
                self.tally.kills += 1;
                server.kill().await;
            }
            _ => {
                let issuer = server.client().issuer;
                let ended = server.stop_within(Duration::from_secs(2)).await;
                check_disk(&self.machine);
                let stored = self.machine.disk.record().map(|record| record.point.watermark);
                let position = issuer.status().mint.position;
                match ended {
                    // A clock that is absurd at the end writes nothing.
                    Some(Ok(())) if self.traits.wild_clock || stored == Some(position) => self.tally.clean_stops += 1,
                    None | Some(Err(_)) if self.traits.rough_disk => {}
                    ended => {
                        self.machine.oracle.report(|| format!("stop at {position:?}: {ended:?}, {stored:?} stored"));
                    }
                }
            }
        }
    }

    async fn between_lives(&mut self) {
        if self.rng.one_in(2) {
            self.machine.disk.heal();
        }
        let down_ms = self.rng.pick(&[0, 0, 1, 50, 1000, 100_000]);
        pass(self.rng.below(down_ms + 1)).await;
        if self.rng.one_in(5) {
            self.machine.clock.reboot();
        }
        if self.traits.wild_clock && self.rng.one_in(4) {
            self.move_clock();
        }
        if self.rng.one_in(5) {
            self.choose_limits();
        }
        if self.rng.one_in(6) {
            self.change_shard_range();
        }
        if self.rng.one_in(20) {
            self.change_epoch();
        }
        // Without a record, the new life goes by B and the clock: they must not have lied.
        if !self.traits.wild_clock && self.rng.one_in(10) && self.machine.limits.max_borrow_ms >= self.max_borrow_ms {
            self.tally.lost_disks += 1;
            self.tally.saves += self.machine.disk.saves();
            self.machine.disk = SimDisk::new(self.rng.next());
        }
    }

    fn choose_limits(&mut self) {
        let rng = &mut self.rng;
        let max_borrow_ms: u64 = rng.pick(&[1, 10, 100, 100, 500, 3000, 3000]);
        let lead_ms = rng.pick(&[max_borrow_ms, max_borrow_ms, max_borrow_ms.div_ceil(2), max_borrow_ms.div_ceil(7)]);
        self.machine.limits = Limits {
            max_borrow_ms,
            lead_ms,
            max_clock_jump_ms: rng.pick(&[3_600_000, 3_600_000, 1000, 0]),
            policy: rng.pick(&[BorrowPolicy::Wait, BorrowPolicy::Wait, BorrowPolicy::Error]),
        };
        self.max_borrow_ms = self.max_borrow_ms.max(max_borrow_ms);
    }

    /// Another shard-range over the same state. The server-id stays, where its bits do.
    fn change_shard_range(&mut self) {
        let layout = with_epoch(layout(self.rng.pick(&[0, 3, 9, 12])), self.machine.identity.layout.epoch());
        if layout.has_server(self.machine.identity.server_id) {
            self.machine.identity.layout = layout;
        }
    }

    /// An earlier epoch makes IDs larger; a later one is refused.
    fn change_epoch(&mut self) {
        let old = self.machine.identity.layout.epoch();
        let by_ms = self.rng.within(1, 1_000_000_000);
        if let Some(record) = self.machine.disk.record() {
            let recorded = record.identity.layout;
            let later = Epoch::from_unix_ms(recorded.epoch().unix_ms() + by_ms).expect("an epoch");
            let configured = Identity { layout: with_epoch(recorded, later), ..record.identity };
            if !matches!(record.adopted_by(configured), Err(Mismatch::Epoch { .. })) {
                self.machine.oracle.report(|| "a later epoch was accepted".to_owned());
            }
        }
        let earlier = Epoch::from_unix_ms(old.unix_ms() - by_ms).expect("an epoch");
        self.machine.identity.layout = with_epoch(self.machine.identity.layout, earlier);
        self.machine.oracle.shift_ticks(by_ms);
    }

    fn make_trouble(&mut self) {
        let step = self.rng.pick(&SaveStep::ALL);
        let trouble = match self.rng.below(8) {
            0 => Trouble::Hang,
            1..=3 => Trouble::Fail(std::io::ErrorKind::StorageFull),
            4 => Trouble::Slow(Duration::from_millis(self.rng.within(1, 5000))),
            _ => Trouble::Slow(Duration::from_millis(self.rng.within(1, 400))),
        };
        self.machine.disk.trouble(step, trouble, usize::try_from(self.rng.within(1, 3)).expect("small"));
    }

    fn move_clock(&mut self) {
        let clock = &self.machine.clock;
        match self.rng.below(16) {
            0 => clock.step_wall(-10),
            1 => clock.step_wall(-2000),
            2 => clock.step_wall(-MINUTE_MS),
            3 => clock.step_wall(-HOUR_MS),
            4 => clock.set_wall(0),
            5 => clock.step_wall(15),
            6 => clock.step_wall(900),
            7 => clock.step_wall(MINUTE_MS),
            8 => clock.step_wall(2 * HOUR_MS),
            9 => clock.step_wall(500 * DAY_MS),
            10 => clock.set_wall(if self.rng.one_in(8) { 8_000_000_000_000 } else { 4_102_444_800_000 }),
            11 => clock.drift(self.rng.pick(&[-1_000_000, -500, 500, -100_000, 100_000])),
            12 => clock.suspend(Duration::from_millis(self.rng.pick(&[10, 5000, 3_600_000]))),
            13 => clock.glitch(self.rng.pick(&[1, 5, 50]), self.rng.pick(&[1000, 20_000_000, 5_000_000_000])),
            // Put right.
            _ => {
                clock.drift(0);
                clock.set_wall(START_UNIX_MS + i64::try_from(clock.boot_ns() / 1_000_000).expect("small"));
            }
        }
    }

    fn refusals_allowed(&self) -> RefusalsAllowed {
        RefusalsAllowed {
            clock: self.traits.wild_clock,
            disk: self.traits.rough_disk,
            busy: self.machine.limits.policy == BorrowPolicy::Error,
        }
    }
}

fn with_epoch(layout: Layout, epoch: Epoch) -> Layout {
    Layout::new(epoch, layout.server_bits(), layout.shard_bits(), layout.random_bits()).expect("as before")
}

#[derive(Clone, Copy)]
struct RefusalsAllowed {
    clock: bool,
    disk: bool,
    busy: bool,
}

impl RefusalsAllowed {
    fn has(self, refusal: &Refusal) -> bool {
        match refusal {
            Refusal::Clock(_) | Refusal::EndOfTime { .. } => self.clock,
            Refusal::Busy { .. } => self.busy,
            Refusal::Save { .. } | Refusal::SaveTimeout => self.disk,
            Refusal::Closed => true,
            Refusal::ClaimLost(_) => false,
        }
    }
}

/// How a client asks.
struct Habits {
    rng: Rng,
    /// At most so many IDs in one draw.
    n_max: u32,
    /// At most so long between two draws; 0: as fast as it can.
    pause_ms_max: u64,
    /// Goes away in the middle of some draws.
    impatient: bool,
    /// IDs it asks for, and then no more: what the test can afford.
    budget: u32,
}

impl Habits {
    fn choose(rng: &mut Rng, layout: Layout, limits: Limits) -> Habits {
        let limit_holds = u32::try_from((limits.max_borrow_ms << layout.shard_bits()).min(6000)).expect("small");
        Habits {
            n_max: rng.pick(&[1, 1, 3, 100, 100, limit_holds, (limit_holds * 2).min(6000)]),
            pause_ms_max: rng.pick(&[0, 0, 5, 50, 500]),
            impatient: rng.one_in(4),
            budget: rng.pick(&[20, 200, 200, 1000, 1000, 3000]),
            rng: Rng(rng.next()),
        }
    }

    async fn follow<K: Checks>(mut self, client: Client<K>, oracle: Oracle, allowed: RefusalsAllowed) {
        while self.budget > 0 {
            let n = u32::try_from(self.rng.within(1, u64::from(self.n_max))).expect("32 bits");
            self.budget = self.budget.saturating_sub(n);
            let leaves_early = self.impatient && self.rng.one_in(2);
            let patience = if leaves_early { Duration::from_millis(self.rng.within(1, 200)) } else { DRAW_TIME_MAX };
            match tokio::time::timeout(patience, client.draw(n)).await {
                Ok(Ok(_)) => {}
                Ok(Err(refusal)) => {
                    if !allowed.has(&refusal) {
                        oracle.report(|| format!("refused without a reason: {refusal}"));
                    }
                    pass(20).await;
                }
                Err(_) if leaves_early => {}
                Err(_) => oracle.report(|| format!("promise 3: a draw of {n} hangs")),
            }
            if self.pause_ms_max == 0 {
                tokio::task::yield_now().await;
            } else {
                pass(self.rng.within(1, self.pause_ms_max)).await;
            }
        }
    }
}
