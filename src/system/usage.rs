//! What the process uses of its machine, and what the machine is.

use std::sync::OnceLock;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

use super::control_group;

/// CPU time, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the kernel.
    pub system_us: u64,
    /// Outside of it.
    pub user_us: u64,
}

/// CPU time of this process.
pub fn cpu() -> Option<CpuTime> {
    cpu_of(UsageWho::RUSAGE_SELF)
}

/// CPU time of the processes that this one started and waited for.
pub fn cpu_of_children() -> Option<CpuTime> {
    cpu_of(UsageWho::RUSAGE_CHILDREN)
}

/// CPU time of the calling thread; `None` where the system does not say.
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

/// Resident memory of this process, bytes; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    pages.unwrap_or(0) * page_bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096)
}

/// The memory that this process may take, bytes: the machine's, or its control groups' if that is less; `None` where
/// the system does not say. It is read once, so that all that is derived from it fits together.
pub fn memory_limit_bytes() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| [machine_memory_bytes(), control_group::memory_limit_bytes()].into_iter().flatten().min())
}

/// The machine's memory, bytes; `None` where the system does not say.
pub fn machine_memory_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(kilobytes.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// The system's name, release and machine: `Linux 6.8.0 x86_64`.
pub fn os() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| std::env::consts::OS.to_owned(),
        |name| {
            let words = [name.sysname(), name.release(), name.machine()];
            words.map(|word| word.to_string_lossy().into_owned()).join(" ")
        },
    )
}
