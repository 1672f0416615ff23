//! Resources that the process uses, and the machine's description.

use std::sync::OnceLock;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

use super::control_group;

/// CPU time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time in the kernel.
    pub system_us: u64,
    /// Time in user mode.
    pub user_us: u64,
}

/// Returns the CPU time of this process.
pub fn cpu() -> Option<CpuTime> {
    cpu_of(UsageWho::RUSAGE_SELF)
}

/// Returns the CPU time of the child processes that this process waited for.
pub fn cpu_of_children() -> Option<CpuTime> {
    cpu_of(UsageWho::RUSAGE_CHILDREN)
}

/// Returns the CPU time of the calling thread; `None` if the system does not report it.
pub fn cpu_of_thread() -> Option<CpuTime> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return cpu_of(UsageWho::RUSAGE_THREAD);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    None
}

fn cpu_of(who: UsageWho) -> Option<CpuTime> {
    let usage = getrusage(who).ok()?;
    let us = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
    Some(CpuTime { system_us: us(usage.system_time()), user_us: us(usage.user_time()) })
}

/// Returns the resident memory of this process, bytes; 0 if the system does not report it.
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    pages.unwrap_or(0) * page_bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096)
}

/// Returns the memory that this process may use, bytes: the machine's or its control groups', whichever is less; `None`
/// if the system reports neither. It is read once, so that all limits derived from it are consistent.
pub fn memory_limit_bytes() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| [machine_memory_bytes(), control_group::memory_limit_bytes()].into_iter().flatten().min())
}

/// Returns the machine's memory, bytes; `None` if the system does not report it.
pub fn machine_memory_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(kilobytes.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// Returns the system's name, release and machine: `Linux 6.8.0 x86_64`.
pub fn os() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| std::env::consts::OS.to_owned(),
        |name| {
            let words = [name.sysname(), name.release(), name.machine()];
            words.map(|word| word.to_string_lossy().into_owned()).join(" ")
        },
    )
}
