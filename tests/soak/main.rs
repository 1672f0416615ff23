//! A soak: a server issues IDs while it is killed, stopped and paused, its clock set and its disk made to fail, at
//! random from a seed. Every ID is checked.
//!
//! `tests/soak/run --ids 1e9 --seed 7` builds it as a program, without any crate, and runs it. As a test it is short.

mod client;
mod judge;
mod plan;
#[path = "../../crates/getid-core/tests/core/random.rs"]
mod random;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use client::RequestPattern;
use judge::{Judge, Run};
use plan::{DiskFault, Event, Life, LifeEnd};
use random::Random;
use server::{Server, SoakFolder};

const USAGE: &str = "\
Usage: tests/soak/run [--ids N] [--lives N] [--seed N] [--binary FILE] [--dir FOLDER] [--plant lost-record]

  --ids N      runs until this many IDs were issued [default: 1e7]
  --lives N    and until this many lives of the server have ended [default: 20]
  --seed N     seed of the random events [default: 1]
  --binary     program of the server [default: target/release/getid, which is built]
  --dir        folder of its state, its logs and its socket [default: a new folder, removed unless a check fails]
  --plant      lost-record: deletes the state and sets the clock back once; the soak must report a violation

Exit code 0: no violation; 1: a violation; 2: an error of the soak itself.";

/// Longest time without IDs of a server that could issue them: long, for a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// The name under which lives are counted.
const LIVES: &str = "lives";

/// Number of lives between two progress lines.
const LIVES_PER_REPORT: u64 = 25;

/// Bound of runs per life, which bounds their memory.
const RUNS_MAX: u64 = 4_000_000;

/// Clients at the same time: with many IDs per request, and with one after the other.
const PATTERNS: [RequestPattern; 4] = [
    RequestPattern { ids: Some(100), depth: 16 },
    RequestPattern { ids: Some(100), depth: 16 },
    RequestPattern { ids: None, depth: 16 },
    RequestPattern { ids: None, depth: 1 },
];

struct Options {
    ids: u64,
    lives: u64,
    seed: u64,
    binary: PathBuf,
    dir: Option<PathBuf>,
    plant: bool,
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options =
        Options { ids: 10_000_000, lives: 20, seed: 1, binary: "target/release/getid".into(), dir: None, plant: false };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word}: a value must follow"))?;
        let number = || value.parse().map_err(|_| format!("{word}: '{value}' is no whole number"));
        match word.as_str() {
            "--ids" => {
                options.ids = count(&value).ok_or_else(|| format!("--ids: '{value}' is no number such as 1e9"))?;
            }
            "--lives" => options.lives = number()?,
            "--seed" => options.seed = number()?,
            "--binary" => options.binary = value.into(),
            "--dir" => options.dir = Some(value.into()),
            "--plant" if value == "lost-record" => options.plant = true,
            _ => return Err(format!("'{word}' is no option\n\n{USAGE}")),
        }
    }
    Ok(options)
}

/// Parses `1000000` or `1e6`.
fn count(text: &str) -> Option<u64> {
    let (digits, zeros) = text.split_once('e').unwrap_or((text, "0"));
    digits.parse::<u64>().ok()?.checked_mul(10_u64.checked_pow(zeros.parse().ok()?)?).filter(|&count| count > 0)
}

fn main() -> ExitCode {
    if std::env::args().any(|word| ["-h", "--help"].contains(&word.as_str())) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match options(std::env::args().skip(1)).and_then(|options| soak(&options)) {
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Violation) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("soak: {message}");
            ExitCode::from(2)
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Violation,
}

/// Number of soaks that this process has begun: its tests run at the same time.
static BEGUN: AtomicU32 = AtomicU32::new(0);

fn soak(options: &Options) -> Result<Verdict, String> {
    // In memory if the system has such a folder: a killed process loses nothing there, and no write waits for a disk.
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let number = BEGUN.fetch_add(1, Ordering::Relaxed);
    let own_dir = parent.join(format!("getid-soak-{}-{number}", std::process::id()));
    let dir = options.dir.as_deref().unwrap_or(&own_dir);
    let began = Instant::now();
    let mut soak =
        Soak { judge: Judge::default(), folder: SoakFolder::new(dir, &options.binary)?, counts: BTreeMap::new() };
    let mut random = Random(options.seed);
    let mut planted = !options.plant;
    let mut violation = None;
    while (soak.judge.ids() < options.ids || soak.lives() < options.lives || !planted) && violation.is_none() {
        let mut life = Life::random(&mut random);
        if !planted && soak.judge.ids() > 0 {
            planted = true;
            soak.lose_record(&mut life)?;
        }
        violation = soak.run_life(&life, &mut random)?.map(|found| format!("{found}\nin {life:?}"));
        if soak.lives().is_multiple_of(LIVES_PER_REPORT) {
            eprintln!("soak: {} IDs in {} lives, {} s", soak.judge.ids(), soak.lives(), began.elapsed().as_secs());
        }
    }
    println!("{}", soak.report(options.seed, began.elapsed()));
    if let Some(violation) = violation {
        println!("VIOLATION: {violation}\nthe end of the server's log:\n{}", soak.folder.log_tail());
        println!("the folder of state and logs is {}", dir.display());
        return Ok(Verdict::Violation);
    }
    println!("no violation: slots are unique, IDs are in order, and IDs were issued again after each event");
    if options.dir.is_none() {
        // Leftovers in a folder for temporary files are no failure.
        let _ = std::fs::remove_dir_all(&own_dir);
    }
    Ok(Verdict::Passed)
}

struct Soak {
    judge: Judge,
    folder: SoakFolder,
    /// Number of events by name.
    counts: BTreeMap<&'static str, u64>,
}

impl Soak {
    fn note(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn lives(&self) -> u64 {
        self.counts.get(LIVES).copied().unwrap_or_default()
    }

    /// Plays one life, and returns the violation found, if any.
    fn run_life(&mut self, life: &Life, random: &mut Random) -> Result<Option<String>, String> {
        self.judge.over.store(false, Ordering::Relaxed);
        self.judge.runs.store(0, Ordering::Relaxed);
        self.folder.set_clock(life.clock_s)?;
        if life.clock_s != 0 {
            self.note("starts with a wrong clock");
        }
        if life.on_full_disk
            && let Some(found) = self.start_on_full_disk(life)?
        {
            return Ok(Some(found));
        }
        self.note(LIVES);
        let server = self.folder.start(life)?;
        let socket = self.folder.socket();
        let seeds: Vec<u64> = PATTERNS.iter().map(|_| random.next()).collect();
        let (played, mut runs) = thread::scope(|scope| {
            // The judge is shared with the clients; only this thread counts events.
            let Soak { judge, folder, counts } = self;
            let draw = |(&pattern, &seed): (&RequestPattern, &u64)| {
                let (judge, socket) = (&*judge, socket.as_path());
                scope.spawn(move || client::draw(judge, life.layout, socket, pattern, Random(seed)))
            };
            let threads: Vec<_> = PATTERNS.iter().zip(&seeds).map(draw).collect();
            let mut stage = Stage { judge, folder, counts };
            let played = stage.play_life(life, server);
            judge.over.store(true, Ordering::Relaxed);
            folder.mend_disk();
            let runs: Vec<Run> = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect();
            (played, runs)
        });
        if let Some((one, other)) = judge::overlap(&mut runs) {
            self.judge.report(|| format!("slots were issued twice: {one:?} and {other:?}"));
        }
        // A violation explains more than the error that follows from it.
        Ok(self.judge.violation().or(played.err()))
    }

    /// Starts on a full disk: a start whose first save fails must end.
    fn start_on_full_disk(&mut self, life: &Life) -> Result<Option<String>, String> {
        self.note("starts on a full disk");
        self.folder.set_fault(DiskFault::Full)?;
        let mut server = self.folder.start(life)?;
        let found = if plan::is_absurd(life.clock_s) {
            // At an absurd clock the server issues no IDs, so it need not save.
            sleep(Duration::from_millis(200));
            None
        } else {
            match server.wait() {
                Ok(status) if status.code() == Some(1) => None,
                Ok(status) => Some(format!("a start on a full disk ended with {status}")),
                Err(found) => Some(found),
            }
        };
        server.kill();
        self.folder.mend_disk();
        Ok(found)
    }

    /// Makes the next life repeat IDs: without a record the server cannot detect them.
    fn lose_record(&self, life: &mut Life) -> Result<(), String> {
        let state = self.folder.state();
        std::fs::remove_dir_all(&state)
            .and_then(|()| std::fs::create_dir(&state))
            .map_err(|error| format!("{}: {error}", state.display()))?;
        // Earlier than any right clock of this soak.
        (life.clock_s, life.killed_early, life.on_full_disk) = (-4 * 31_556_952, None, false);
        Ok(())
    }

    fn report(&self, seed: u64, elapsed: Duration) -> String {
        let ids = self.judge.ids();
        let mut lines = vec![
            format!("seed {seed}, {} s", elapsed.as_secs()),
            format!("{ids:>13} IDs, {} a second", ids / elapsed.as_secs().max(1)),
        ];
        lines.extend(self.counts.iter().map(|(what, count)| format!("{count:>13} {what}")));
        let refusals = self.judge.refusals();
        lines.extend(refusals.iter().map(|(word, count)| format!("{count:>13} refusals: {word}")));
        if let Some(kb) = memory_kb() {
            lines.push(format!("{kb:>13} kB of peak memory of the soak itself"));
        }
        lines.join("\n")
    }
}

/// Returns the peak memory of this process.
fn memory_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().trim_end_matches(" kB").parse().ok()
}

/// A life in progress.
struct Stage<'a> {
    judge: &'a Judge,
    folder: &'a SoakFolder,
    counts: &'a mut BTreeMap<&'static str, u64>,
}

impl Stage<'_> {
    fn note(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn is_enough(&self) -> bool {
        self.judge.runs.load(Ordering::Relaxed) >= RUNS_MAX || self.judge.violation().is_some()
    }

    /// Waits for `time`, or until this life is long enough.
    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.is_enough() {
            sleep(Duration::from_millis(10).min(end.saturating_duration_since(Instant::now())));
        }
    }

    fn play_life(&mut self, life: &Life, mut server: Server) -> Result<(), String> {
        if let Some(after) = life.killed_early {
            sleep(after);
            self.note("kills during or soon after a start");
            server.kill();
            return Ok(());
        }
        if plan::is_absurd(life.clock_s) {
            self.wait(Duration::from_millis(500));
            self.folder.set_clock(0)?;
        }
        self.wait_for_id(&mut server, "the start")?;
        for (after, event) in &life.events {
            self.wait(*after);
            if self.is_enough() {
                break;
            }
            self.apply_event(*event, &mut server)?;
        }
        self.wait(Duration::from_millis(100));
        self.end(life.end, server)
    }

    fn apply_event(&mut self, event: Event, server: &mut Server) -> Result<(), String> {
        match event {
            Event::Clock(offset_s) => {
                self.note(if offset_s < 0 { "clock steps back" } else { "clock steps ahead" });
                self.folder.set_clock(offset_s)?;
                if plan::is_absurd(offset_s) {
                    self.wait(Duration::from_millis(500));
                    self.folder.set_clock(0)?;
                }
                self.wait_for_id(server, "a step of the clock")
            }
            Event::Disk(fault, time) => {
                self.note(fault.text());
                self.folder.set_fault(fault)?;
                self.wait(time);
                self.folder.mend_disk();
                self.wait_for_id(server, fault.text())
            }
            Event::Pause(time) => {
                self.note("pauses (SIGSTOP, SIGCONT)");
                server.signal("STOP")?;
                sleep(time);
                server.signal("CONT")?;
                self.wait_for_id(server, "a pause")
            }
        }
    }

    fn end(&mut self, end: LifeEnd, server: Server) -> Result<(), String> {
        match end {
            LifeEnd::Kill => self.note("kills"),
            LifeEnd::KillPaused(time) => {
                self.note("kills during a pause");
                server.signal("STOP")?;
                sleep(time);
            }
            LifeEnd::KillInFault(fault, time) => {
                self.note("kills during a fault of the disk");
                self.folder.set_fault(fault)?;
                sleep(time);
            }
            LifeEnd::Stop => {
                self.note("clean stops");
                return server.stop();
            }
        }
        server.kill();
        Ok(())
    }

    /// Waits for an ID that is issued from now on.
    fn wait_for_id(&self, server: &mut Server, what: &str) -> Result<(), String> {
        let (ids, end) = (self.judge.ids(), Instant::now() + PATIENCE);
        while self.judge.ids() == ids && self.judge.violation().is_none() {
            if let Some(status) = server.has_ended() {
                return Err(format!("the server ended by itself after {what}, with {status}"));
            }
            if Instant::now() > end {
                return Err(format!("no ID was issued for {} s after {what}", PATIENCE.as_secs()));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(ids: u64, lives: u64, plant: bool) -> Verdict {
        // Cargo's own build, whatever build is under test: the shipped one is static.
        let binary = env!("CARGO_BIN_EXE_getid").into();
        soak(&Options { ids, lives, seed: 1, binary, dir: None, plant }).expect("it runs")
    }

    #[test]
    #[ignore = "needs libfaketime"]
    fn a_short_soak_finds_nothing() {
        assert_eq!(short(3_000_000, 15, false), Verdict::Passed);
    }

    #[test]
    #[ignore = "needs libfaketime"]
    fn a_lost_record_under_a_clock_that_was_set_back_is_found() {
        assert_eq!(short(1, 1, true), Verdict::Violation);
    }

    #[test]
    fn counts_are_read() {
        assert_eq!((count("1e9"), count("250"), count("3e0")), (Some(1_000_000_000), Some(250), Some(3)));
        assert_eq!((count("1e30"), count("x"), count("0"), count("e9")), (None, None, None, None));
    }
}
