//! Services of the operating system: clocks, files, threads, memory, random bits.

pub(crate) mod allocator;
pub mod clock;
pub mod control_group;
pub mod daily;
pub mod files;
pub mod host;
pub mod io_threads;
pub mod mounts;
pub(crate) mod names;
pub mod noise;
pub mod ownership;
pub mod patience;
pub mod threads;
pub(crate) mod trust;
pub mod usage;
