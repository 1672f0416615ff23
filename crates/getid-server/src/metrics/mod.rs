//! Counters of the server, and the table from which INFO and Prometheus's text are made.
//!
//! - [`Metrics`] counts. Counters are increased once per read, never once per request, and summed only on demand.
//!   Counters of every read are kept per thread, because threads that share a counter contend for its cache line.
//!   Relaxed ordering suffices: no counter is read together with another.
//! - [`Facts`] is the state at one moment, as plain numbers and texts; the server gathers it in one place.
//! - [`table`] has a row for each metric: name, kind, help, and how its value is read from the facts.
//! - [`info`] writes the table as INFO's text, and `prometheus` as Prometheus's. [`export`] defines the export of each
//!   row, or the reason why it is not exported.

mod claim;
mod commands;
pub mod export;
mod facts;
pub mod info;
#[cfg(feature = "http")]
pub mod prometheus;
mod rate;
mod row;
mod sequences;
pub mod table;
mod value;
mod workers;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use commands::Baseline;
pub use commands::{CommandCounters, CommandTotals, ERROR_CODES_MAX, MeasuredDraw};
pub use facts::{ClientFacts, CpuFacts, Facts, Lazy, MemoryFacts, ProcessFacts, TlsFacts};
pub use rate::Rate;
pub use value::MetricValue;

use getid_redis::command::Verb;
use getid_redis::session::ErrorCode;
use getid_system::io_threads;
use getid_system::usage::{self, CpuTime};

/// The counters of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Counters of each thread that serves connections.
    work: Box<[ThreadWork]>,
    /// Sums of `work` at the last reset. Only its own thread writes a thread's counters, so a reset subtracts.
    work_before: Mutex<WorkTotals>,
    counts: [AtomicU64; Counter::COUNT],
    /// Most clients at a time.
    pub clients_peak: AtomicU64,
    /// Largest resident memory seen, in bytes.
    pub memory_peak: AtomicU64,
    /// Seconds since the start, updated by the housekeeping, so that no turn reads the clock.
    pub uptime_s: AtomicU64,
    /// Resident memory when the first client could connect, in bytes.
    pub(crate) memory_startup: AtomicU64,
    /// Gauges of the HTTP port.
    pub http: HttpGauges,
    /// Requests per second.
    pub rate: Rate,
    /// Bytes read per second.
    pub(crate) input_rate: Rate,
    /// Bytes written per second.
    pub(crate) output_rate: Rate,
    /// CPU time of the thread on which the server started.
    main_cpu: Mutex<CpuTime>,
    /// Counters of commands and errors at the last reset.
    baseline: Mutex<Baseline>,
}

/// Events that are counted one by one, on any thread, such as refusals and closed connections. A new counter is a
/// variant here and a row of INFO's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Connections accepted, refused ones included.
    Connections,
    /// Connections refused over `maxclients`.
    ConnectionsRejected,
    /// Connections closed after a broken protocol.
    ProtocolErrors,
    /// Connections closed for a request larger than `client-query-buffer-limit`, which counts as a broken protocol too.
    InputLimitClosed,
    /// Connections closed for a line of HTTP, which counts as a broken protocol too.
    HttpClosed,
    /// Connections closed for `client-output-buffer-limit`.
    OutputLimitClosed,
    /// Connections closed for `client-output-timeout`.
    OutputTimeoutClosed,
    /// Connections closed because all clients' buffers together passed `maxmemory-clients`.
    Evicted,
    /// Connections closed because no login succeeded within `auth-timeout`.
    AuthTimeoutClosed,
    /// TLS handshakes that were ended to make room for others.
    HandshakesEvicted,
    /// Connections closed for being idle longer than `timeout`.
    IdleClosed,
    /// Connections that ended in a panic; each is a bug to report.
    Panics,
    /// `accept` calls that failed (no descriptors left, for one).
    AcceptErrors,
    /// Logins that failed.
    DeniedLogins,
    /// Commands that their user has no right to run.
    DeniedCommands,
    /// Generators and sequences that their user has no right to use.
    DeniedKeys,
    /// Channels that their user has no right to use.
    DeniedChannels,
    /// Connections to the HTTP port, refused ones included.
    HttpConnections,
    /// HTTP connections refused because all slots of `http-max-clients` were busy.
    HttpRefused,
    /// HTTP connections that were evicted to make room for others.
    HttpEvicted,
    /// HTTP connections closed after `http-timeout` without a request.
    HttpIdleClosed,
    /// HTTP requests answered with a status below 400.
    HttpAnswered,
    /// HTTP requests answered with a status of 400 to 499.
    HttpFaulty,
    /// HTTP requests answered with a status of 500 or more.
    HttpFailed,
    /// HTTP requests whose head or chunks were malformed.
    HttpHeadsBad,
    /// HTTP requests whose head took too long.
    HttpHeadsLate,
    /// HTTP requests whose body took too long.
    HttpBodiesLate,
    /// HTTP requests whose body was too large.
    HttpBodiesTooLarge,
    /// HTTP requests that were not completed in time.
    HttpAnswersLate,
}

impl Counter {
    const COUNT: usize = Counter::HttpAnswersLate as usize + 1;
}

/// Gauges of the HTTP port.
#[derive(Debug, Default)]
pub struct HttpGauges {
    connected: AtomicU64,
    peak: AtomicU64,
    /// Streams of events in progress.
    pub streams: AtomicU64,
}

impl HttpGauges {
    /// Sets the number of connections, and updates the peak.
    pub fn note_connected(&self, count: usize) {
        self.connected.store(count as u64, Relaxed);
        self.peak.fetch_max(count as u64, Relaxed);
    }
}

/// Counters of one thread, in their own two cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadWork {
    requests: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    input_bytes: AtomicU64,
    output_bytes: AtomicU64,
    commands: CommandCounters,
}

/// Sums of the threads' counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTotals {
    /// Requests answered, errors included.
    pub requests: u64,
    /// Reads that returned data.
    pub reads: u64,
    /// Writes to clients.
    pub writes: u64,
    /// Bytes read from clients.
    pub(crate) input_bytes: u64,
    /// Bytes written to clients.
    pub(crate) output_bytes: u64,
}

impl Metrics {
    /// Creates counters for `io_threads` threads that serve connections.
    pub fn new(io_threads: usize) -> Metrics {
        Metrics { work: (0..io_threads.max(1)).map(|_| ThreadWork::default()).collect(), ..Metrics::default() }
    }

    /// Adds the counts of one read. Called on the thread that read.
    #[inline]
    pub fn add_read(&self, read: WorkTotals) {
        let Some(own) = self.work.get(io_threads::current()) else { return };
        bump(&own.requests, read.requests);
        bump(&own.reads, read.reads);
        bump(&own.writes, read.writes);
        bump(&own.input_bytes, read.input_bytes);
        bump(&own.output_bytes, read.output_bytes);
    }

    /// The calling thread's counters of commands; `None` on a thread that serves no connections.
    #[inline]
    pub(crate) fn own_commands(&self) -> Option<&CommandCounters> {
        self.work.get(io_threads::current()).map(|own| &own.commands)
    }

    /// Returns a command's totals over all threads; `None` if it was never called nor rejected.
    pub fn command(&self, verb: Verb) -> Option<CommandTotals> {
        self.lock_baseline().command(self.commands(), verb)
    }

    /// Returns error replies by code.
    pub fn errors(&self) -> Vec<(ErrorCode, u64)> {
        self.lock_baseline().errors(self.commands())
    }

    fn commands(&self) -> impl Iterator<Item = &CommandCounters> + Clone {
        self.work.iter().map(|own| &own.commands)
    }

    fn lock_baseline(&self) -> MutexGuard<'_, Baseline> {
        // It is only replaced as a whole, so a panic leaves no half of it.
        self.baseline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one event.
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts several events at once.
    pub fn add(&self, counter: Counter, events: u64) {
        self.counts[counter as usize].fetch_add(events, Relaxed);
    }

    /// Returns the number of these events since the last reset.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counts[counter as usize].load(Relaxed)
    }

    /// Returns the seconds since the server started.
    pub fn uptime_s(&self) -> u64 {
        self.uptime_s.load(Relaxed)
    }

    /// Returns the resident memory in bytes, 0 if the system does not report it; updates the peak.
    pub(crate) fn sample_memory(&self) -> u64 {
        let resident = usage::resident_bytes();
        self.memory_peak.fetch_max(resident, Relaxed);
        resident
    }

    /// Returns the largest resident memory seen, in bytes.
    pub fn memory_peak(&self) -> u64 {
        self.memory_peak.load(Relaxed)
    }

    /// Returns the resident memory when the first client could connect, in bytes.
    pub(crate) fn memory_startup(&self) -> u64 {
        self.memory_startup.load(Relaxed)
    }

    /// Stores the CPU time of the calling thread, which must be the one on which the server started.
    pub(crate) fn sample_main_cpu(&self) {
        if let Some(cpu) = usage::cpu_of_thread() {
            *self.main_cpu.lock().unwrap_or_else(PoisonError::into_inner) = cpu;
        }
    }

    /// Returns the value that [`Metrics::sample_main_cpu`] stored last.
    pub(crate) fn main_cpu(&self) -> CpuTime {
        *self.main_cpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sums over all threads since the last reset.
    pub fn work(&self) -> WorkTotals {
        let before = *self.work_before.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.work_of_all_time();
        WorkTotals {
            requests: all.requests.wrapping_sub(before.requests),
            reads: all.reads.wrapping_sub(before.reads),
            writes: all.writes.wrapping_sub(before.writes),
            input_bytes: all.input_bytes.wrapping_sub(before.input_bytes),
            output_bytes: all.output_bytes.wrapping_sub(before.output_bytes),
        }
    }

    /// Sets the counters to 0 (`CONFIG RESETSTAT`). As in Redis, peaks and the uptime stay.
    pub fn reset(&self) {
        *self.work_before.lock().unwrap_or_else(PoisonError::into_inner) = self.work_of_all_time();
        for count in &self.counts {
            count.store(0, Relaxed);
        }
        self.rate.reset();
        self.input_rate.reset();
        self.output_rate.reset();
        *self.lock_baseline() = Baseline::of(self.commands());
    }

    /// Returns the sums over all threads since the start, for rates.
    pub(crate) fn work_of_all_time(&self) -> WorkTotals {
        self.work.iter().fold(WorkTotals::default(), |sum, own| WorkTotals {
            requests: sum.requests + own.requests.load(Relaxed),
            reads: sum.reads + own.reads.load(Relaxed),
            writes: sum.writes + own.writes.load(Relaxed),
            input_bytes: sum.input_bytes + own.input_bytes.load(Relaxed),
            output_bytes: sum.output_bytes + own.output_bytes.load(Relaxed),
        })
    }
}

/// Adds to a counter that only this thread writes, so no locked instruction is needed.
#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_summed_over_threads() {
        let metrics = Metrics::new(2);
        metrics.add_read(WorkTotals { requests: 3, reads: 1, writes: 1, input_bytes: 45, output_bytes: 63 });
        metrics.add_read(WorkTotals { requests: 1, reads: 1, writes: 2, input_bytes: 15, output_bytes: 21 });
        assert_eq!(metrics.work(), WorkTotals { requests: 4, reads: 2, writes: 3, input_bytes: 60, output_bytes: 84 });
    }

    #[test]
    fn a_reset_starts_at_zero_and_disturbs_no_writer() {
        let metrics = Metrics::new(1);
        let read = WorkTotals { requests: 3, reads: 1, writes: 1, input_bytes: 45, output_bytes: 63 };
        metrics.add_read(read);
        metrics.count(Counter::Connections);
        metrics.clients_peak.fetch_max(5, Relaxed);
        metrics.reset();
        assert_eq!((metrics.work(), metrics.counted(Counter::Connections)), (WorkTotals::default(), 0));
        assert_eq!(metrics.clients_peak.load(Relaxed), 5);
        metrics.add_read(read);
        assert_eq!(metrics.work(), read);
        assert_eq!(metrics.work_of_all_time().requests, 6);
        metrics.reset();
        assert_eq!(metrics.work(), WorkTotals::default());
    }

    #[test]
    fn a_reset_during_counting_loses_no_later_count() {
        let metrics = Metrics::new(1);
        std::thread::scope(|scope| {
            // A thread that serves no connections counts as the first, so there must be only one here.
            let writer = scope.spawn(|| {
                for _ in 0..100_000 {
                    metrics.add_read(WorkTotals { requests: 1, ..WorkTotals::default() });
                }
            });
            while !writer.is_finished() {
                metrics.reset();
                assert!(metrics.work().requests <= 100_000);
            }
        });
        assert_eq!(metrics.work_of_all_time().requests, 100_000);
    }
}
