//! Services of the operating system: clocks, files, threads, memory, random bits.

pub mod allocator;
pub mod clock;
pub mod control_group;
pub mod daily;
pub mod files;
pub mod host;
pub mod io_threads;
pub mod mounts;
pub mod names;
pub mod noise;
pub mod ownership;
pub mod patience;
pub mod threads;
pub mod trust;
pub mod usage;
