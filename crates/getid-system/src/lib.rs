//! Services of the operating system: clocks, files, threads, memory, random bits.
//!
//! Pure code gets times and bytes as arguments; this crate is where the server gets them. Code that needs the time has
//! a [`Clock`](clock::Clock), which tests simulate. [`files`] opens files without waiting and replaces them as a whole;
//! [`threads`] and [`io_threads`] name threads and give them runtimes; [`noise`] has unguessable bits, [`trust`] the
//! authorities of a TLS client. [`control_group`], [`usage`], [`mounts`], [`ownership`] and [`host`] describe the
//! machine for checks and error texts.
//!
//! Invariant: of the server's crates only this one reads the wall clock. It reports what the system returned, and does
//! not judge it.

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
