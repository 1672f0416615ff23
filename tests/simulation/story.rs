//! One story: a dozen lives of one server, all from a seed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use getid_core::server::Status;
use getid_core::server::checks::{Rare, seen};
use getid_core::{BorrowPolicy, Epoch, Layout, Limits, Refusal, Tick};
use getid_engine::claim::{Identity, Mismatch, NoClaim, Record, SaveStep};
use getid_system::clock::Clock;
use tokio::task::JoinSet;

use crate::clock::{START_UNIX_MS, SimClock};
use crate::disk::{SimDisk, StepFault};
use crate::machine::{Client, Machine, Server, check_disk, layout, pass};
use crate::named::Pool;
use crate::oracle::Oracle;
use crate::random::Random;

const LIVES_MAX: u64 = 20;

/// Longest duration of a draw of a story: most IDs at once, fewest IDs a second, and the largest borrow limit.
const DRAW_TIME_MAX: Duration = Duration::from_mins(1);

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Totals of a story.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) lives: u64,
    pub(crate) ids: u64,
    pub(crate) named_ids: u64,
    /// Changes of the named generators of a running server.
    pub(crate) reloads: u64,
    pub(crate) saves: u64,
    pub(crate) crashes: u64,
    pub(crate) kills: u64,
    pub(crate) clean_stops: u64,
    /// First saves that failed or hung.
    pub(crate) failed_starts: u64,
    pub(crate) lost_disks: u64,
    /// Records that were restored to an earlier state.
    pub(crate) put_back: u64,
    /// Starts without a record that covers all IDs, with a right clock.
    pub(crate) starts_by_the_clock: u64,
    /// Starts after IDs that no record covers.
    pub(crate) forgotten: u64,
    pub(crate) claims_lost: u64,
    pub(crate) retakes: u64,
    /// Starts of a second server beside a running one.
    pub(crate) overlaps: u64,
    pub(crate) limits_set: u64,
    /// Clean stops of lives that gave no ID.
    pub(crate) fresh_stops: u64,
    /// Times that all faults ended, and service was required.
    pub(crate) healed: u64,
    pub(crate) refusals: u64,
    pub(crate) waits: u64,
    /// Saves that a server dropped while they continued.
    pub(crate) dropped_saves: u64,
    pub(crate) hash: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.lives += other.lives;
        self.ids += other.ids;
        self.named_ids += other.named_ids;
        self.reloads += other.reloads;
        self.saves += other.saves;
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.clean_stops += other.clean_stops;
        self.failed_starts += other.failed_starts;
        self.lost_disks += other.lost_disks;
        self.put_back += other.put_back;
        self.starts_by_the_clock += other.starts_by_the_clock;
        self.forgotten += other.forgotten;
        self.claims_lost += other.claims_lost;
        self.retakes += other.retakes;
        self.overlaps += other.overlaps;
        self.limits_set += other.limits_set;
        self.fresh_stops += other.fresh_stops;
        self.healed += other.healed;
        self.refusals += other.refusals;
        self.waits += other.waits;
        self.dropped_saves += other.dropped_saves;
        self.hash ^= other.hash;
    }
}

/// Plays the story of `seed`.
pub(crate) fn play(seed: u64) -> Result<Tally, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    // Created inside the runtime: outside, the machine's clock would begin in real time, and no two plays would be
    // equal.
    runtime.expect("a runtime").block_on(async { Story::new(seed).play().await })
}

struct Story {
    rng: Random,
    machine: Machine,
    pool: Pool,
    traits: Traits,
    /// The folders among which `dir` is switched; `machine.disk` is the one in use.
    folders: Vec<SimDisk>,
    /// The folder whose record covers all IDs that were given; `None`: no existing record does.
    current: Option<usize>,
    /// Copied records, and the folders they came from.
    copies: Vec<(usize, Vec<u8>)>,
    /// Largest B of any life.
    max_borrow_ms: u64,
    is_printed: bool,
    tally: Tally,
}

/// Faults of the story's world.
#[derive(Clone, Copy, Debug)]
struct Traits {
    /// Whether saves may be slow, fail or hang.
    rough_disk: bool,
    /// Whether the wall clock may be set, drift, stand still, and the boot-time clock jump and fail.
    wild_clock: bool,
    /// Whether folders, records and claims are lost and restored.
    careless: bool,
}

/// A life at its end.
struct Life {
    server: Server,
    /// Its folder; `None` with `id-state none`.
    folder: Option<usize>,
    /// Whether a failed save is expected, and the disk's content at the end is no promise.
    claim_was_lost: bool,
    limits: Limits,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut rng = Random(seed);
        let traits = Traits { rough_disk: rng.one_in(2), wild_clock: rng.one_in(2), careless: !rng.one_in(3) };
        // Every shard-range has its turn, the extreme ones and the usual one more often.
        let shard_range = if rng.one_in(2) { rng.pick(&[0, 0, 9, 21]) } else { u32::try_from(seed % 22).expect("22") };
        let layout = layout(shard_range);
        let server_id = u32::try_from(rng.below(1 << layout.server_bits())).expect("a server-id");
        let folders = vec![SimDisk::new(rng.next()), SimDisk::new(rng.next())];
        let machine = Machine {
            clock: SimClock::new(START_UNIX_MS + i64::try_from(rng.below(1000)).expect("small")),
            disk: folders[0].clone(),
            identity: Identity { server_id, layout },
            limits: Limits::default(),
            max_wait_ms: rng.pick(&[100, 1000, 5000, 600_000]),
            patience: None,
            dropped_saves: Arc::default(),
            oracle: Oracle::default(),
            generators: Vec::new(),
        };
        let is_printed = std::env::var_os("GETID_SIM_SEED").is_some();
        let (copies, tally, pool) = (Vec::new(), Tally::default(), Pool::new(seed));
        Story { rng, machine, pool, traits, folders, current: None, copies, max_borrow_ms: 0, is_printed, tally }
    }

    async fn play(mut self) -> Result<Tally, String> {
        self.choose_limits();
        if self.traits.wild_clock && self.rng.one_in(4) {
            self.move_clock();
        }
        let mut folder = 0;
        for _ in 0..self.rng.within(1, LIVES_MAX) {
            if self.traits.careless && self.rng.one_in(4) {
                folder = 1 - folder;
            }
            let has_record = !(self.traits.careless && self.rng.one_in(6));
            self.live(has_record.then_some(folder)).await;
            self.machine.oracle.verdict()?;
            self.between_lives(folder).await;
            self.machine.oracle.verdict()?;
        }
        self.last_life(folder).await;
        self.machine.oracle.verdict()?;
        self.tally.ids = self.machine.oracle.ids();
        self.tally.named_ids = self.machine.oracle.named_ids();
        self.tally.hash = self.machine.oracle.hash();
        self.tally.dropped_saves = self.machine.dropped_saves.load(Relaxed);
        self.tally.saves += self.folders.iter().map(SimDisk::saves).sum::<u64>();
        Ok(self.tally)
    }

    /// Allows the IDs to repeat that neither the record in `folder` nor R + B covers, in a life that begins now.
    fn forget_lost_ids(&mut self, folder: Option<usize>) {
        if folder.is_some() && folder == self.current {
            return;
        }
        let (oracle, epoch) = (&self.machine.oracle, self.machine.identity.layout.epoch());
        if self.traits.wild_clock {
            // The clock may have been set back since, or R was ahead of it: only the record would have it.
            self.tally.forgotten += u64::from(oracle.forget_from(Tick(0), epoch));
            return;
        }
        self.tally.starts_by_the_clock += 1;
        let wall = epoch.tick_at(self.machine.clock.wall_unix_ms());
        let reach = wall.expect("a right clock").plus_ms(self.machine.limits.max_borrow_ms);
        let forgets = oracle.forget_from(reach, epoch);
        self.tally.forgotten += u64::from(forgets);
        if forgets && self.machine.limits.max_borrow_ms >= self.max_borrow_ms {
            oracle.report(|| format!("by a right clock, IDs were given at or past {reach:?}, which is R + B"));
        }
    }

    async fn live(&mut self, folder: Option<usize>) {
        self.tally.lives += 1;
        if self.traits.rough_disk && folder.is_some() && self.rng.one_in(3) {
            self.make_trouble();
        }
        self.print(|| {
            let found = folder.map(|folder| self.folders[folder].record().map(|record| record.point));
            let (wall, limits) = (self.machine.clock.wall_unix_ms(), self.machine.limits);
            format!("life in {folder:?}, {:?} covers all; found {found:?}, wall clock {wall}, {limits:?}", self.current)
        });
        self.forget_lost_ids(folder);
        let before = self.current;
        // A clock that is wrong at boot and corrected before the first draw.
        let wrong_at_boot = self.traits.wild_clock && self.rng.one_in(8);
        if wrong_at_boot {
            self.machine.clock.step_wall(self.rng.pick(&[10_000, HOUR_MS, 30 * DAY_MS]));
        }
        self.machine.generators = self.pool.choose();
        let Some(server) = self.begin(folder).await else { return };
        self.current = folder.or(self.current);
        let mut life = Life { server, folder, claim_was_lost: false, limits: self.machine.limits };

        if wrong_at_boot {
            if self.traits.rough_disk && folder.is_some() {
                let slow = StepFault::Slow(Duration::from_millis(self.rng.within(200, 900)));
                self.machine.disk.trouble(SaveStep::SyncFile, slow, 5);
            }
            self.linger(2).await;
            self.machine.clock.put_right();
            self.linger(1).await;
        }
        let may_lose_claim = self.traits.careless && folder.is_some() && self.rng.one_in(3);
        let allowed = self.refusals_allowed(may_lose_claim);
        let mut clients = JoinSet::new();
        let has_no_requests = self.rng.one_in(10);
        for _ in 0..if has_no_requests { 0 } else { self.rng.within(1, 4) } {
            let habits = Habits::choose(&mut self.rng, self.machine.identity.layout, self.machine.limits);
            clients.spawn(habits.follow(life.server.client(), self.machine.oracle.clone(), allowed));
        }
        for name in if has_no_requests { Vec::new() } else { life.server.names() } {
            let habits = Habits::of_named(&mut self.pool, name);
            clients.spawn(habits.follow(life.server.client(), self.machine.oracle.clone(), allowed));
        }
        for _ in 0..self.rng.within(1, 4) {
            let ticks = self.rng.pick(&[1, 3, 10, 20]);
            let interval_ns = (self.machine.limits.lead_ms / 10).clamp(1, 100) * 1_000_000;
            tokio::time::sleep(Duration::from_nanos(self.rng.below(ticks * interval_ns))).await;
            self.happen(&mut life);
            // Generators that were not there before are drawn from too.
            for name in if has_no_requests || !self.pool.one_in(2) { Vec::new() } else { life.server.names() } {
                let habits = Habits::of_named(&mut self.pool, name);
                clients.spawn(habits.follow(life.server.client(), self.machine.oracle.clone(), allowed));
            }
        }
        if self.traits.wild_clock && self.rng.one_in(20) {
            // A jump that is held, and stays: the machine is suspended for most of it.
            self.machine.clock.step_wall(2 * HOUR_MS);
            pass(300).await;
            self.machine.clock.suspend(Duration::from_mins(11));
            pass(300).await;
        }
        if may_lose_claim {
            self.lose_claim(&mut life).await;
        }
        if self.rng.one_in(4) {
            // No client may leave many requests: they would all come first.
            clients.shutdown().await;
            self.expect_service(&life).await;
        }
        self.die(life, before, &mut clients).await;

        clients.abort_all();
        while let Some(end) = clients.join_next().await {
            match end {
                Ok(()) => {}
                Err(end) if end.is_cancelled() => {}
                Err(bug) => self.machine.oracle.report(|| format!("a draw panicked: {bug}")),
            }
        }
    }

    /// Starts a server, unless the disk prevents it.
    async fn begin(&mut self, folder: Option<usize>) -> Option<Server> {
        let patience = Duration::from_secs(3);
        let Some(folder) = folder else {
            let start = self.machine.start_with(NoClaim::acquired(None));
            return Some(start.await.expect("a store that keeps nothing cannot fail"));
        };
        self.machine.disk = self.folders[folder].clone();
        // By the number of lives, so that a seed's other choices stay the same.
        let drops_saves = self.traits.rough_disk && self.tally.lives % 3 == 1;
        self.machine.patience = drops_saves.then_some(Duration::from_millis(150));
        if let Ok(Ok(server)) = tokio::time::timeout(patience, self.machine.try_start()).await {
            return Some(server);
        }
        if !self.traits.rough_disk {
            self.machine.oracle.report(|| "a start failed on a disk without troubles".to_owned());
        }
        self.tally.failed_starts += 1;
        self.machine.disk.heal();
        self.machine.disk.crash();
        None
    }

    /// Makes one event happen to a running server.
    fn happen(&mut self, life: &mut Life) {
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
        if self.rng.one_in(5) {
            let limits = self.limits();
            // Without a record, a server refuses limits above those of its start.
            let highest_ms = if life.folder.is_some() { u64::MAX } else { life.server.issuer.start_max_borrow_ms() };
            if limits.max_borrow_ms <= highest_ms {
                self.tally.limits_set += 1;
                life.limits = limits;
                life.server.set_limits(limits);
                self.max_borrow_ms = self.max_borrow_ms.max(limits.max_borrow_ms);
            }
        }
        if self.pool.one_in(3) {
            self.tally.reloads += 1;
            life.server.declare(&self.pool.choose());
        }
        if let Some(later) = self.pool.later(&life.server.generators())
            && life.server.issuer.declare(&[later]).is_ok()
        {
            self.machine.oracle.report(|| "a later epoch of a generator was accepted".to_owned());
        }
        if let Some(folder) = life.folder.filter(|_| self.traits.careless && self.rng.one_in(3)) {
            self.copies.extend(self.machine.disk.text().map(|text| (folder, text)));
        }
    }

    /// Deletes the folder and creates it again under the server, or restores its former content.
    async fn lose_claim(&mut self, life: &mut Life) {
        self.tally.claims_lost += 1;
        let retakes_before = retakes();
        life.claim_was_lost = true;
        life.server.has_record(false);
        self.print(|| format!("claim lost: {:?}", life.server.status().mint));
        let text = self.machine.disk.text();
        // The folder was only moved away, and the second server's record is never found.
        let comes_back = self.rng.one_in(3);
        let moved = text.clone();
        self.machine.disk.lose_claim("the folder was created again");
        let mut left = match self.rng.below(3) {
            0 => None,
            // The lock was deleted, or all was copied back.
            1 => text,
            _ => self.copies.iter().rev().find(|(from, _)| Some(*from) == life.folder).map(|(_, text)| text.clone()),
        };
        // A second server starts there at once. IDs that the first one still gives while its R is ahead of the clock
        // are not bounded by any clock.
        if !self.traits.wild_clock && self.rng.one_in(2) {
            self.tally.overlaps += 1;
            let start_ms = life.server.issuer.start_max_borrow_ms();
            // The first server will know about the second's limit only what its own record has.
            let known =
                moved.as_ref().and_then(|text| Record::parse(text).ok()).map(|record| record.point.max_borrow_ms);
            let largest_ms = if comes_back { known.unwrap_or(0) } else { self.max_borrow_ms }.max(start_ms);
            let second = Machine {
                clock: self.machine.clock.clone(),
                disk: SimDisk::new(self.rng.next()),
                identity: self.machine.identity,
                limits: Limits { max_borrow_ms: largest_ms, ..self.machine.limits },
                max_wait_ms: self.machine.max_wait_ms,
                patience: None,
                dropped_saves: Arc::default(),
                oracle: self.machine.oracle.clone(),
                // With other declarations the first one could not continue: the claim reports that, and has a separate
                // test for it.
                generators: life.server.generators(),
            };
            let server = second.start().await;
            self.print(|| format!("a second server: {:?}", server.status().mint));
            for _ in 0..self.rng.below(30) {
                let n = 1 + self.rng.below(1 << self.machine.identity.layout.shard_bits().min(7));
                let draw = server.draw(u32::try_from(n).expect("small"));
                if tokio::time::timeout(Duration::from_millis(500), draw).await.is_ok_and(|ids| ids.is_err()) {
                    break;
                }
                for name in server.names() {
                    let draw = server.draw_named(&name, 3);
                    let _ = tokio::time::timeout(Duration::from_millis(5), draw).await;
                }
                pass(self.rng.below(3)).await;
            }
            if self.rng.one_in(2) {
                server.kill().await;
            } else {
                server.crash().await;
            }
            left = second.disk.text();
        } else {
            self.linger(1).await;
        }
        self.machine.disk.heal();
        let text = left.map(|left| String::from_utf8(left).expect("a record is text"));
        life.server.may_borrow(self.max_borrow_ms.max(life.server.issuer.start_max_borrow_ms()));
        let noticed = matches!(life.server.status().refusing, Some(Refusal::ClaimLost(_)));
        if comes_back && noticed {
            self.machine.disk.return_claim(moved.as_deref());
        } else {
            self.machine.disk.free_claim(text.as_deref());
        }
        self.linger(2).await;
        let status = life.server.status();
        let retaken = retakes() > retakes_before && !matches!(status.refusing, Some(Refusal::ClaimLost(_)));
        self.print(|| format!("claim retaken: {retaken}, {status:?}"));
        self.tally.retakes += u64::from(retaken);
        if retaken {
            life.server.catch_up();
        } else {
            // It has not noticed yet, or can't save: it dies in that state, and its last IDs are unknown.
            self.current = None;
        }
    }

    /// Lets time pass in which a save or two may come: keepers with a short lead work hard.
    async fn linger(&mut self, times: u64) {
        pass(self.rng.below(times * (100 + self.machine.limits.lead_ms / 2))).await;
    }

    /// Checks that without faults IDs come within a bound, by themselves.
    async fn expect_service(&mut self, life: &Life) {
        self.machine.disk.heal();
        self.machine.clock.put_right();
        self.tally.healed += 1;
        // The longest wait of a life: a slow save, and a larger B than that of its limits, at nine tenths of real
        // speed.
        let largest_ms = self.max_borrow_ms.max(life.server.issuer.start_max_borrow_ms());
        let bound = Duration::from_millis(7000 + largest_ms * 2);
        let began = tokio::time::Instant::now();
        let mut last = None;
        while began.elapsed() < bound {
            let draws = async {
                for name in life.server.names() {
                    life.server.draw_named(&name, 1).await?;
                }
                life.server.draw(1).await
            };
            match tokio::time::timeout(bound, draws).await {
                Ok(Ok(_)) => return,
                Ok(Err(refusal)) => last = Some(refusal),
                Err(_) => break,
            }
            pass(50).await;
        }
        // A hanging save continues to hang, and looks like a slow disk.
        if life.server.saving() >= Duration::from_secs(5) {
            return;
        }
        let status = life.server.status();
        self.machine.oracle.report(|| format!("promise 3: no service within {bound:?}: {last:?}, {status:?}"));
    }

    async fn die(&mut self, life: Life, before: Option<usize>, clients: &mut JoinSet<()>) {
        if self.rng.one_in(2) {
            // Otherwise they draw while it ends.
            clients.abort_all();
        }
        let Life { server, folder, claim_was_lost, .. } = life;
        let status = server.status();
        self.tally.refusals += status.refusals;
        self.tally.waits += status.waits;
        let covers = folder.is_some() && folder == self.current && !claim_was_lost;
        match self.rng.below(5) {
            0 | 1 => {
                self.check_disk(covers);
                self.tally.crashes += 1;
                server.crash().await;
            }
            2 | 3 => {
                self.check_disk(covers);
                self.tally.kills += 1;
                server.kill().await;
            }
            _ => {
                let issuer = server.client().issuer;
                let found = self.machine.disk.record().map(|record| record.point.watermark);
                let ended = server.stop_within(Duration::from_secs(2)).await;
                // Clients that draw while it ends may have had the first ID.
                let status = issuer.status().mint;
                let fresh = !has_given(&status);
                self.check_disk(covers && !fresh);
                let stored = self.machine.disk.record().map(|record| record.point.watermark);
                match ended {
                    // With `id-state none` nothing is stored.
                    Some(Ok(())) if folder.is_none() => self.tally.clean_stops += 1,
                    // It gave nothing, so the state is as before it.
                    Some(Ok(())) if fresh => {
                        self.tally.fresh_stops += 1;
                        if !claim_was_lost {
                            self.current = before;
                        }
                        if stored > found && !claim_was_lost {
                            let oracle = &self.machine.oracle;
                            oracle
                                .report(|| format!("a life without an ID has left {stored:?} where it was {found:?}"));
                        }
                    }
                    // A clock out of all bounds at the end writes nothing. Named generators may be further.
                    Some(Ok(()))
                        if self.traits.wild_clock
                            || stored == Some(status.position)
                            || (status.line_ids_issued > 0 && stored > Some(status.position)) =>
                    {
                        self.tally.clean_stops += 1;
                    }
                    None | Some(Err(_)) if self.traits.rough_disk || claim_was_lost => {}
                    ended => {
                        let position = status.position;
                        self.machine.oracle.report(|| format!("stop at {position:?}: {ended:?}, {stored:?} stored"));
                    }
                }
            }
        }
        if folder.is_none() && has_given(&status.mint) {
            self.current = None;
        }
        if claim_was_lost && let Some(folder) = folder {
            // The folder as it is now, with a valid claim again.
            let text = self.machine.disk.text();
            self.folders[folder] = SimDisk::new(self.rng.next());
            self.folders[folder].put_back(text.as_deref());
            self.machine.disk = self.folders[folder].clone();
        }
    }

    fn check_disk(&self, covers: bool) {
        if covers {
            check_disk(&self.machine);
        }
    }

    async fn between_lives(&mut self, folder: usize) {
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
        if !self.traits.careless {
            if self.rng.one_in(20) {
                self.change_epoch();
            }
            return;
        }
        let disk = &self.folders[folder];
        match self.rng.below(12) {
            // A backup is restored.
            0 | 1 => {
                let copy = self.copies.iter().rev().find(|(from, _)| *from == folder);
                if let Some((_, text)) = copy {
                    disk.put_back(Some(text));
                    self.tally.put_back += 1;
                    self.current = self.current.filter(|&current| current != folder);
                }
            }
            // It is damaged: no server starts with that. It is then removed, against the advice of the message.
            2 => {
                if let Some(text) = disk.text() {
                    let mut rotten = text.clone();
                    let at = usize::try_from(self.rng.below(rotten.len() as u64)).expect("an index");
                    rotten[at] ^= 1 << self.rng.below(7);
                    if Record::parse(&rotten).is_ok_and(|read| Record::parse(&text) != Ok(read)) {
                        self.machine.oracle.report(|| "a damaged record was read as another".to_owned());
                    }
                    disk.put_back(None);
                    self.tally.lost_disks += 1;
                    self.current = self.current.filter(|&current| current != folder);
                }
            }
            // It is lost with its disk.
            3 => {
                self.tally.lost_disks += 1;
                self.tally.saves += disk.saves();
                self.folders[folder] = SimDisk::new(self.rng.next());
                self.current = self.current.filter(|&current| current != folder);
            }
            _ => {}
        }
    }

    /// After any faults: in a world without faults, the next life gives IDs.
    async fn last_life(&mut self, folder: usize) {
        self.machine.clock.put_right();
        self.folders[folder].heal();
        self.forget_lost_ids(Some(folder));
        self.machine.generators = self.pool.choose();
        let Some(server) = self.begin(Some(folder)).await else {
            self.machine.oracle.report(|| "no start in a world as it should be".to_owned());
            return;
        };
        let life = Life { server, folder: Some(folder), claim_was_lost: false, limits: self.machine.limits };
        self.expect_service(&life).await;
        life.server.kill().await;
    }

    fn choose_limits(&mut self) {
        self.machine.limits = self.limits();
        self.max_borrow_ms = self.max_borrow_ms.max(self.machine.limits.max_borrow_ms);
    }

    fn limits(&mut self) -> Limits {
        let rng = &mut self.rng;
        let max_borrow_ms: u64 = rng.pick(&[1, 10, 100, 100, 500, 3000, 3000]);
        let lead_ms = rng.pick(&[max_borrow_ms, max_borrow_ms, max_borrow_ms.div_ceil(2), max_borrow_ms.div_ceil(7)]);
        Limits {
            max_borrow_ms,
            lead_ms,
            max_clock_jump_ms: rng.pick(&[3_600_000, 3_600_000, 1000, 0]),
            policy: rng.pick(&[BorrowPolicy::Wait, BorrowPolicy::Wait, BorrowPolicy::Error]),
        }
    }

    /// Changes the shard-range over the same state. The server-id stays, if its bits do.
    fn change_shard_range(&mut self) {
        let layout = with_epoch(layout(self.rng.pick(&[0, 3, 9, 12])), self.machine.identity.layout.epoch());
        if layout.has_server(self.machine.identity.server_id) {
            self.machine.identity.layout = layout;
        }
    }

    /// Moves the epoch. An earlier one makes IDs larger; a later one is refused if any were given.
    fn change_epoch(&mut self) {
        let old = self.machine.identity.layout.epoch();
        let by_ms = self.rng.within(1, 1_000_000_000);
        if let Some(record) = self.machine.disk.record().filter(|record| !record.point.is_nothing()) {
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
            0 => StepFault::Hang,
            1..=3 => StepFault::Fail(std::io::ErrorKind::StorageFull),
            4 => StepFault::Slow(Duration::from_millis(self.rng.within(1, 5000))),
            _ => StepFault::Slow(Duration::from_millis(self.rng.within(1, 400))),
        };
        self.machine.disk.trouble(step, trouble, usize::try_from(self.rng.within(1, 3)).expect("small"));
    }

    /// Prints a line if one story is replayed.
    fn print(&self, what: impl FnOnce() -> String) {
        if self.is_printed {
            println!("{}", what());
        }
    }

    fn move_clock(&mut self) {
        let clock = &self.machine.clock;
        match self.rng.below(18) {
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
            14 => clock.jump_boot(self.rng.pick(&[10, 900, 20_000])),
            15 => clock.fail(self.rng.pick(&[1, 3, 30])),
            _ => clock.put_right(),
        }
    }

    fn refusals_allowed(&self, claim: bool) -> RefusalsAllowed {
        RefusalsAllowed { clock: self.traits.wild_clock, disk: self.traits.rough_disk, claim }
    }
}

/// Returns the number of retaken claims so far, on this thread.
fn retakes() -> u64 {
    [Rare::Retaken, Rare::RetakenFresh].into_iter().map(|rare| seen()[rare as usize]).sum()
}

/// Returns true if it has given an ID, of any generator.
fn has_given(status: &Status) -> bool {
    status.ids_issued + status.line_ids_issued > 0
}

fn with_epoch(layout: Layout, epoch: Epoch) -> Layout {
    Layout::new(epoch, layout.server_bits(), layout.shard_bits(), layout.random_bits()).expect("as before")
}

#[derive(Clone, Copy)]
struct RefusalsAllowed {
    clock: bool,
    disk: bool,
    claim: bool,
}

impl RefusalsAllowed {
    fn has(self, refusal: &Refusal) -> bool {
        match refusal {
            Refusal::Clock(_) | Refusal::EndOfTime { .. } | Refusal::BeforeEpoch { .. } => self.clock,
            Refusal::Save { .. } | Refusal::SaveTimeout | Refusal::StoreTimeout => self.disk,
            // The tests of the queue check that it is true.
            Refusal::Overload { wait_ms, max_wait_ms, .. } | Refusal::NamedOverload { wait_ms, max_wait_ms, .. } => {
                wait_ms > max_wait_ms
            }
            // The policy may have been changed by now.
            Refusal::Busy { .. } | Refusal::Redeclared | Refusal::Closed => true,
            Refusal::ClaimLost(_) | Refusal::Standby(_) => self.claim,
        }
    }
}

/// Behaviour of a client.
struct Habits {
    rng: Random,
    /// Name of its generator; `None`: the unnamed one.
    name: Option<String>,
    /// Most IDs in one draw.
    n_max: u32,
    /// Longest pause between two draws, ms; 0: as fast as possible.
    pause_ms_max: u64,
    /// Whether it cancels some draws.
    impatient: bool,
    /// Number of IDs after which it ends, as far as the test's time allows.
    budget: u32,
}

impl Habits {
    fn of_named(pool: &mut Pool, name: String) -> Habits {
        let rng = pool.rng();
        Habits {
            n_max: rng.pick(&[1, 1, 3, 20, 300]),
            pause_ms_max: rng.pick(&[0, 5, 50, 500]),
            impatient: rng.one_in(2),
            budget: rng.pick(&[3, 20, 100, 300]),
            rng: Random(rng.next()),
            name: Some(name),
        }
    }

    fn choose(rng: &mut Random, layout: Layout, limits: Limits) -> Habits {
        let limit_holds = u32::try_from((limits.max_borrow_ms << layout.shard_bits()).min(6000)).expect("small");
        Habits {
            n_max: rng.pick(&[1, 1, 3, 100, 100, limit_holds, (limit_holds * 2).min(6000)]),
            pause_ms_max: rng.pick(&[0, 0, 5, 50, 500]),
            impatient: rng.one_in(4),
            budget: rng.pick(&[20, 100, 100, 300, 300, 2000]),
            rng: Random(rng.next()),
            name: None,
        }
    }

    async fn follow(mut self, client: Client, oracle: Oracle, allowed: RefusalsAllowed) {
        while self.budget > 0 {
            let n = u32::try_from(self.rng.within(1, u64::from(self.n_max))).expect("32 bits");
            self.budget = self.budget.saturating_sub(n);
            let leaves_early = self.impatient && self.rng.one_in(2);
            let patience = if leaves_early { Duration::from_millis(self.rng.within(1, 200)) } else { DRAW_TIME_MAX };
            let draw = async {
                match &self.name {
                    None => client.draw(n).await.map(drop),
                    Some(name) => client.draw_named(name, n).await,
                }
            };
            match tokio::time::timeout(patience, draw).await {
                Ok(Ok(())) => {}
                Ok(Err(refusal)) => {
                    if !allowed.has(&refusal) {
                        oracle.report(|| format!("refused without a reason: {refusal}"));
                    }
                    pass(20).await;
                }
                Err(_) if leaves_early => {}
                Err(_) => oracle.report(|| format!("promise 3: a draw of {n} of {:?} hangs", self.name)),
            }
            if self.pause_ms_max == 0 {
                tokio::task::yield_now().await;
            } else {
                pass(self.rng.within(1, self.pause_ms_max)).await;
            }
        }
    }
}
