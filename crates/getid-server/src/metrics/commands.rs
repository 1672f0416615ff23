//! Costs of commands, per thread and per command: calls, time, a histogram; and errors by their code.
//!
//! A draw without waiting takes about fifty nanoseconds, as long as two readings of the clock. So of the draws that did
//! not wait, each thread measures one turn in [`MEASURED_EVERY`]. Its time counts for all ID commands since the last
//! measured one: each of them is charged an equal share of the draw. A draw that waited is always measured, and its
//! time counts for its own turn only. All other commands are timed one by one.
//!
//! One thread writes its counters and any thread may read them: by relaxed loads and stores, without a locked
//! instruction. Only errors are in a list behind a lock, which is rarely contended. A command that a thread has never
//! run takes one pointer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::bump;
use getid_redis::command::{self, Verb};
use getid_redis::session::{Calls, ErrorCode};
use getid_redis::stats::{BUCKETS, Histogram, bucket_of};

/// Number of turns of which one has its draw measured.
const MEASURED_EVERY: u64 = 16;

/// Most error codes that a thread counts separately, which is more than exist. Further codes count as `ERR`.
pub const ERROR_CODES_MAX: usize = 64;

/// The command counters of one thread.
#[derive(Debug)]
pub struct CommandCounters {
    /// Counters by [`Verb`]; empty for a command that the thread has never run.
    commands: Box<[OnceLock<Box<Counters>>]>,
    /// Number of turns that drew IDs.
    draws: AtomicU64,
    /// Share of one ID command in the last measured draw that did not wait, in picoseconds.
    share_ps: AtomicU64,
    errors: Mutex<BTreeMap<ErrorCode, u64>>,
}

/// The counters of one command on one thread.
#[derive(Debug)]
struct Counters {
    calls: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    ns: AtomicU64,
    /// Number of calls in `ns` and `buckets`. The others are ID commands since the last measured turn.
    timed: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
    /// Value of `calls` at the last reset. The only field that another thread writes.
    reset_calls: AtomicU64,
}

/// The measured draw of a turn.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredDraw {
    /// Duration of the draw, in ns.
    pub ns: u64,
    /// Whether the draw waited.
    pub waited: bool,
}

impl Default for CommandCounters {
    fn default() -> CommandCounters {
        CommandCounters {
            commands: (0..Verb::COUNT).map(|_| OnceLock::new()).collect(),
            draws: AtomicU64::new(0),
            share_ps: AtomicU64::new(0),
            errors: Mutex::default(),
        }
    }
}

impl CommandCounters {
    #[inline]
    fn of(&self, verb: Verb) -> Option<&Counters> {
        let place = self.commands.get(verb as usize)?;
        Some(place.get_or_init(Counters::new))
    }

    fn get(&self, verb: Verb) -> Option<&Counters> {
        self.commands.get(verb as usize)?.get().map(|own| &**own)
    }

    /// Adds the calls of a turn.
    #[inline]
    pub fn add(&self, calls: &[Calls]) {
        for calls in calls {
            if let Some(own) = self.of(calls.verb) {
                own.add(calls);
            }
        }
    }

    /// Counts a draw; returns true if it is to be measured.
    #[inline]
    pub(crate) fn is_measured_next(&self) -> bool {
        let draws = self.draws.load(Relaxed);
        self.draws.store(draws.wrapping_add(1), Relaxed);
        draws.is_multiple_of(MEASURED_EVERY)
    }

    /// Shares a measured draw among the ID commands of its turn, whose calls are already added; returns the share in
    /// ns.
    pub(crate) fn attribute_time(&self, calls: &[Calls], draw: MeasuredDraw) -> u64 {
        let of_draw = || calls.iter().filter(|calls| calls.verb.draws_ids());
        let all: u64 = of_draw().map(|calls| u64::from(calls.calls)).sum();
        let share_ps = draw.ns.saturating_mul(1000) / all.max(1);
        let last_ps = self.share_ps.load(Relaxed);
        for own in Verb::DRAWING_IDS.into_iter().filter_map(|verb| self.get(verb)) {
            own.time_before_reset(last_ps);
        }
        if draw.waited {
            for calls in of_draw() {
                if let Some(own) = self.of(calls.verb) {
                    own.time_ids(u64::from(calls.calls), share_ps);
                }
            }
        } else {
            self.share_ps.store(share_ps, Relaxed);
            for own in Verb::DRAWING_IDS.into_iter().filter_map(|verb| self.get(verb)) {
                own.time_ids(own.untimed(), share_ps);
            }
        }
        share_ps / 1000
    }

    /// Counts commands of one kind that were refused IDs or values, all with one error.
    pub fn refuse(&self, verb: Verb, count: u32, code: ErrorCode) {
        if count == 0 {
            return;
        }
        if let Some(own) = self.of(verb) {
            bump(&own.failed, u64::from(count));
        }
        self.add_error(code, count);
    }

    /// Adds error replies of one code.
    pub(crate) fn add_error(&self, code: ErrorCode, count: u32) {
        let mut errors = self.lock_errors();
        let is_one_too_many = errors.len() >= ERROR_CODES_MAX && !errors.contains_key(&code);
        let code = if is_one_too_many { ErrorCode::of(b"") } else { code };
        *errors.entry(code).or_default() += u64::from(count);
    }

    fn lock_errors(&self) -> MutexGuard<'_, BTreeMap<ErrorCode, u64>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counters {
    #[cold]
    fn new() -> Box<Counters> {
        Box::new(Counters {
            calls: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            timed: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            reset_calls: AtomicU64::new(0),
        })
    }

    #[inline]
    fn add(&self, calls: &Calls) {
        let count = u64::from(calls.calls);
        bump(&self.calls, count);
        if calls.failed > 0 || calls.rejected > 0 {
            bump(&self.failed, u64::from(calls.failed));
            bump(&self.rejected, u64::from(calls.rejected));
        }
        if !calls.verb.draws_ids() {
            self.time(count, calls.ns, calls.bucket);
        }
    }

    #[inline]
    fn time(&self, count: u64, ns: u64, bucket: u16) {
        bump(&self.timed, count);
        bump(&self.ns, ns);
        if let Some(bucket) = self.buckets.get(usize::from(bucket)) {
            bump(bucket, count);
        }
    }

    /// Adds ID commands with their share of a draw.
    fn time_ids(&self, count: u64, share_ps: u64) {
        self.time(count, count.saturating_mul(share_ps) / 1000, bucket_of(share_ps / 1000));
    }

    /// Times the untimed calls from before a reset like the last measured draw, as the reset did.
    fn time_before_reset(&self, share_ps: u64) {
        let rest = self.reset_calls.load(Relaxed).saturating_sub(self.timed.load(Relaxed));
        if rest > 0 {
            self.time_ids(rest, share_ps);
        }
    }

    /// Returns the number of calls without a time, because no draw has been measured since.
    fn untimed(&self) -> u64 {
        self.calls.load(Relaxed).saturating_sub(self.timed.load(Relaxed))
    }

    /// Adds these counters to `sum`. Calls without a time get that of the last measured draw.
    fn add_to(&self, sum: &mut CommandTotals, share_ps: u64) {
        let rest = self.untimed();
        sum.calls += self.calls.load(Relaxed);
        sum.failed += self.failed.load(Relaxed);
        sum.rejected += self.rejected.load(Relaxed);
        sum.ns += self.ns.load(Relaxed) + rest.saturating_mul(share_ps) / 1000;
        for (bucket, count) in (0..).zip(&self.buckets) {
            sum.histogram.add(bucket, count.load(Relaxed));
        }
        sum.histogram.add(bucket_of(share_ps / 1000), rest);
    }
}

/// Totals of one command over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandTotals {
    /// Calls that ran.
    pub calls: u64,
    /// Calls whose reply was an error.
    pub failed: u64,
    /// Requests that were rejected before they ran.
    pub rejected: u64,
    /// Total time of the calls, in ns.
    pub ns: u64,
    /// Histogram of the calls' durations.
    pub histogram: Histogram,
}

/// The threads' counters at the last reset. Only the threads themselves write their counters, so a reset does not set
/// them to 0 but keeps the values to subtract.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    commands: BTreeMap<Verb, CommandTotals>,
    errors: BTreeMap<ErrorCode, u64>,
}

impl Baseline {
    /// Returns the present counters of `threads`.
    pub(super) fn of<'a>(threads: impl Iterator<Item = &'a CommandCounters> + Clone) -> Baseline {
        for own in
            threads.clone().flat_map(|counters| Verb::DRAWING_IDS.into_iter().filter_map(|verb| counters.get(verb)))
        {
            // This store precedes the reads below, so that the thread later times these calls as they are timed here.
            own.reset_calls.store(own.calls.load(Relaxed), Relaxed);
        }
        let nothing = Baseline::default();
        let totals = |verb| Some((verb, nothing.command(threads.clone(), verb)?));
        let commands = command::rows().filter_map(|command| totals(command.verb)).collect();
        Baseline { commands, errors: errors_of(threads) }
    }

    /// Returns a command's totals since the reset; `None` if it was neither called nor rejected.
    pub(super) fn command<'a>(
        &self,
        threads: impl Iterator<Item = &'a CommandCounters>,
        verb: Verb,
    ) -> Option<CommandTotals> {
        let mut sum = CommandTotals::default();
        for counters in threads {
            if let Some(own) = counters.get(verb) {
                own.add_to(&mut sum, counters.share_ps.load(Relaxed));
            }
        }
        if let Some(before) = self.commands.get(&verb) {
            for (now, before) in [
                (&mut sum.calls, before.calls),
                (&mut sum.failed, before.failed),
                (&mut sum.rejected, before.rejected),
                (&mut sum.ns, before.ns),
            ] {
                *now = now.saturating_sub(before);
            }
            sum.histogram.subtract(&before.histogram);
        }
        (sum.calls > 0 || sum.rejected > 0 || sum.failed > 0).then_some(sum)
    }

    /// Returns the error replies since the reset by code; only codes that occurred.
    pub(super) fn errors<'a>(&self, threads: impl Iterator<Item = &'a CommandCounters>) -> Vec<(ErrorCode, u64)> {
        let since = |(code, count): (ErrorCode, u64)| {
            (code, count.saturating_sub(self.errors.get(&code).copied().unwrap_or(0)))
        };
        errors_of(threads).into_iter().map(since).filter(|(_, count)| *count > 0).collect()
    }
}

fn errors_of<'a>(threads: impl Iterator<Item = &'a CommandCounters>) -> BTreeMap<ErrorCode, u64> {
    let mut all = BTreeMap::new();
    for counters in threads {
        for (code, count) in counters.lock_errors().iter() {
            *all.entry(*code).or_default() += count;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(verb: Verb, calls: u32) -> Calls {
        Calls { verb, calls, failed: 0, rejected: 0, ns: 0, bucket: 0 }
    }

    fn totals(counters: &CommandCounters, verb: Verb) -> CommandTotals {
        Baseline::default().command([counters].into_iter(), verb).unwrap()
    }

    #[test]
    fn a_measured_draw_times_the_commands_since_the_last() {
        let own = CommandCounters::default();
        let turn = [ids(Verb::GetId, 3), ids(Verb::MGetId, 1)];
        assert!(own.is_measured_next());
        own.add(&turn);
        assert_eq!(own.attribute_time(&turn, MeasuredDraw { ns: 400, waited: false }), 100);
        for _ in 1..MEASURED_EVERY {
            assert!(!own.is_measured_next());
            own.add(&turn);
        }
        // Not measured yet: timed like the last draw.
        let getid = totals(&own, Verb::GetId);
        assert_eq!((getid.calls, getid.ns, getid.histogram.total()), (48, 4800, 48));
        assert!(own.is_measured_next());
        own.add(&turn);
        own.attribute_time(&turn, MeasuredDraw { ns: 4000, waited: false });
        let getid = totals(&own, Verb::GetId);
        assert_eq!((getid.calls, getid.ns, getid.histogram.total()), (51, 3 * 100 + 48 * 1000, 51));
        let mgetid = totals(&own, Verb::MGetId);
        assert_eq!((mgetid.calls, mgetid.ns, mgetid.histogram.total()), (17, 100 + 16 * 1000, 17));
    }

    #[test]
    fn a_wait_counts_for_its_own_turn_only() {
        let own = CommandCounters::default();
        let turn = [ids(Verb::GetId, 2)];
        own.add(&turn);
        own.attribute_time(&turn, MeasuredDraw { ns: 100, waited: false });
        own.add(&turn);
        own.add(&turn);
        own.attribute_time(&turn, MeasuredDraw { ns: 2_000_000, waited: true });
        let getid = totals(&own, Verb::GetId);
        // The turn between, which was not measured, is timed like the first.
        assert_eq!((getid.calls, getid.ns, getid.histogram.total()), (6, 2_000_000 + 4 * 50, 6));
        assert_eq!(getid.histogram.percentile_ns(500), 51);
        assert_eq!(getid.histogram.percentile_ns(999), 1_048_575);
    }

    #[test]
    fn unmeasured_commands_are_timed_like_the_last_draw() {
        let own = CommandCounters::default();
        own.add(&[ids(Verb::GetId, 1)]);
        own.attribute_time(&[ids(Verb::GetId, 1)], MeasuredDraw { ns: 80, waited: false });
        own.add(&[ids(Verb::MGetId, 2)]);
        assert_eq!(totals(&own, Verb::MGetId).ns, 160);
        own.add(&[ids(Verb::GetId, 1)]);
        own.attribute_time(&[ids(Verb::GetId, 1)], MeasuredDraw { ns: 90, waited: false });
        assert_eq!(totals(&own, Verb::MGetId).ns, 180);
    }

    #[test]
    fn many_share_a_draw_of_less_than_a_nanosecond_each() {
        let own = CommandCounters::default();
        let turn = [ids(Verb::GetId, 1000)];
        own.add(&turn);
        own.attribute_time(&turn, MeasuredDraw { ns: 60, waited: false });
        assert_eq!(totals(&own, Verb::GetId).ns, 60);
    }

    #[test]
    fn untimed_calls_at_a_reset_count_before_it() {
        let own = CommandCounters::default();
        let threads = || [&own].into_iter();
        let turn = [ids(Verb::GetId, 1000)];
        own.add(&turn);
        own.attribute_time(&turn, MeasuredDraw { ns: 50_000, waited: false });
        own.add(&turn);
        own.add(&turn);
        let before = Baseline::of(threads());
        for waited in [true, false] {
            let turn = [ids(Verb::GetId, 10)];
            own.add(&turn);
            own.attribute_time(&turn, MeasuredDraw { ns: 40_000, waited });
        }
        let since = before.command(threads(), Verb::GetId).unwrap();
        assert_eq!((since.calls, since.ns, since.histogram.total()), (20, 80_000, 20));
        assert_eq!(since.histogram.percentile_ns(1), bucket_end_of(4000));
    }

    fn bucket_end_of(ns: u64) -> u64 {
        let mut histogram = Histogram::default();
        histogram.add(bucket_of(ns), 1);
        histogram.percentile_ns(500)
    }

    #[test]
    fn a_reset_starts_the_counters_at_zero() {
        let own = CommandCounters::default();
        let ping = Calls { verb: Verb::Ping, calls: 2, failed: 1, rejected: 3, ns: 5000, bucket: bucket_of(2500) };
        own.add(&[ping]);
        own.add_error(ErrorCode::of(b"ERR x"), 4);
        let threads = || [&own].into_iter();
        let before = Baseline::of(threads());
        assert_eq!(before.command(threads(), Verb::Ping), None);
        assert_eq!(before.errors(threads()), []);
        own.add(&[ping]);
        own.refuse(Verb::GetId, 2, ErrorCode::of(b"BUSY x"));
        own.refuse(Verb::MGetId, 1, ErrorCode::of(b"BUSY x"));
        let since = before.command(threads(), Verb::Ping).unwrap();
        assert_eq!((since.calls, since.failed, since.rejected, since.ns), (2, 1, 3, 5000));
        assert_eq!(since.histogram.total(), 2);
        assert_eq!(before.errors(threads()), [(ErrorCode::of(b"BUSY x"), 3)]);
        assert_eq!(before.command(threads(), Verb::MGetId).unwrap().failed, 1);
    }

    #[test]
    fn codes_of_errors_are_bounded() {
        let own = CommandCounters::default();
        let codes = ERROR_CODES_MAX + 20;
        for number in 0..codes {
            own.add_error(ErrorCode::of(format!("E{number} x").as_bytes()), 1);
        }
        let errors = Baseline::of(std::iter::empty()).errors([&own].into_iter());
        assert_eq!(errors.len(), ERROR_CODES_MAX + 1);
        assert_eq!(errors.iter().map(|(_, count)| count).sum::<u64>(), codes as u64);
        assert!(errors.contains(&(ErrorCode::of(b"ERR x"), 20)));
    }
}
