//! CPU time of a server and of this process's threads, as the kernel counts it.
//!
//! A process's CPU clock counts nanoseconds, including those of ended threads. `/proc/PID/stat` only has ticks of 10
//! ms, and `/proc/PID/task/*/schedstat` loses a thread at its end. The latter is read for the busiest thread and its
//! time of waiting for a processor, which the clock does not have.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use nix::errno::Errno;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::Share;

/// Upper bound of process ids in Linux (`PID_MAX_LIMIT`); larger numbers would corrupt the clock's id.
pub const PID_MAX: i32 = 1 << 22;

/// The CPU time of a process cannot be read: there is no such process.
#[derive(Debug, thiserror::Error)]
#[error("--pid {pid}: its CPU time cannot be read: {}", .errno.desc())]
pub struct UsageError {
    pid: i32,
    errno: Errno,
}

/// Reader of the CPU time of a server's process.
pub struct ServerUsage {
    pid: i32,
    clock: ClockId,
}

/// CPU time of a process and of its threads, since the start of each.
pub struct CpuReading {
    cpu: Duration,
    /// Times by thread id; empty if the kernel does not report them.
    threads: HashMap<u32, ThreadTime>,
}

/// CPU time of a server's process between two readings.
pub struct ServerCpuTime {
    /// Process id of the server.
    pub pid: i32,
    /// CPU time of all threads, including ended ones.
    pub cpu: Duration,
    busiest: ThreadTime,
}

/// Time of a thread on a processor, and of its waiting for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    pub(crate) ran_ns: u64,
    /// Time in which the thread was runnable, but had no processor, ns.
    pub waited_ns: u64,
}

impl ServerUsage {
    /// Returns a reader for the process `pid`, 1 to [`PID_MAX`].
    ///
    /// # Errors
    ///
    /// Fails if there is no such process, or its CPU clock cannot be read.
    pub fn of(pid: i32) -> Result<ServerUsage, UsageError> {
        let clock = clock_getcpuclockid(Pid::from_raw(pid)).map_err(|errno| UsageError { pid, errno })?;
        Ok(ServerUsage { pid, clock })
    }

    /// Reads the times of the process and, if the kernel reports them, of its threads.
    ///
    /// # Errors
    ///
    /// Fails if the process has ended.
    pub fn read(&self) -> Result<CpuReading, UsageError> {
        let cpu = clock_gettime(self.clock).map_err(|errno| UsageError { pid: self.pid, errno })?;
        let mut threads = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten() {
            let times = fs::read_to_string(entry.path().join("schedstat")).ok();
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let (Some(id), Some(times)) = (id, times.as_deref().and_then(ThreadTime::parse)) {
                threads.insert(id, times);
            }
        }
        Ok(CpuReading { cpu: cpu.into(), threads })
    }
}

impl CpuReading {
    /// Returns the CPU time of the process `pid` since an earlier reading.
    pub fn since(&self, pid: i32, earlier: &CpuReading) -> ServerCpuTime {
        let threads =
            self.threads.iter().map(|(id, now)| now.since(earlier.threads.get(id).copied().unwrap_or_default()));
        ServerCpuTime {
            pid,
            cpu: self.cpu.saturating_sub(earlier.cpu),
            busiest: threads.max_by_key(|thread| thread.ran_ns + thread.waited_ns).unwrap_or_default(),
        }
    }
}

impl ServerCpuTime {
    /// Returns the use of the time by the busiest thread.
    pub fn share(&self, elapsed: Duration) -> Share {
        // Without times of threads, one thread that did all the work is the best guess.
        if self.busiest == ThreadTime::default() {
            return Share { busy: share(self.cpu, elapsed), waited: 0.0 };
        }
        self.busiest.share(elapsed)
    }
}

impl ThreadTime {
    pub(crate) fn of_this_thread() -> ThreadTime {
        let ran = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
        let times = fs::read_to_string("/proc/thread-self/schedstat").ok();
        let waited_ns = times.as_deref().and_then(ThreadTime::parse).map_or(0, |times| times.waited_ns);
        ThreadTime { ran_ns: u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX), waited_ns }
    }

    /// Parses a line of schedstat: ns on a processor, ns waiting for one, times it ran.
    fn parse(text: &str) -> Option<ThreadTime> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        Some(ThreadTime { ran_ns: numbers.next()?.ok()?, waited_ns: numbers.next()?.ok()? })
    }

    /// Returns the times since an earlier reading of the same thread.
    #[must_use]
    pub fn since(self, earlier: ThreadTime) -> ThreadTime {
        ThreadTime {
            ran_ns: self.ran_ns.saturating_sub(earlier.ran_ns),
            waited_ns: self.waited_ns.saturating_sub(earlier.waited_ns),
        }
    }

    /// Returns the times as shares of `elapsed`; 0 if `elapsed` is 0.
    pub fn share(self, elapsed: Duration) -> Share {
        Share {
            busy: share(Duration::from_nanos(self.ran_ns), elapsed),
            waited: share(Duration::from_nanos(self.waited_ns), elapsed),
        }
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat() {
        assert_eq!(ThreadTime::parse("123456 789 10\n"), Some(ThreadTime { ran_ns: 123_456, waited_ns: 789 }));
        assert_eq!(ThreadTime::parse("x"), None);
    }

    #[test]
    fn own_time_grows() {
        let usage = ServerUsage::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        let (before, own) = (usage.read().unwrap(), ThreadTime::of_this_thread());
        let mut sum = 0_u64;
        while ThreadTime::of_this_thread().since(own).ran_ns < 2_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(usage.read().unwrap().since(1, &before).cpu >= Duration::from_millis(1));
    }

    #[test]
    fn a_process_that_is_not() {
        let error = ServerUsage::of(PID_MAX).err().unwrap().to_string();
        assert!(error.starts_with("--pid 4194304: its CPU time cannot be read: "), "{error}");
    }
}
