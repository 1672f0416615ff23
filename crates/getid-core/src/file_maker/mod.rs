//! IDs made in this process, with their state in a file: a mint, the machine's clocks, a lock and a disk.
//!
//! The mint says which IDs may be given and what has to be on disk first. This is the rest, for a program that wants
//! nothing but IDs: it owns the file, keeps others out of it, and writes it ahead of need.
//!
//! Invariant: the watermark in the file is past every ID that was given, after any crash. So a next life begins behind
//! this one.
//!
//! # What is kept out, and what cannot be
//!
//! - A second process, or a second maker in this one, with the same file: by a lock. A lock file or a state file that
//!   somebody replaces under a maker is noticed at its next save, within about a second of use; the first start
//!   without a state file waits 250 ms for a maker that this happened to.
//! - A child that this process forks: by its process number. The system uses numbers again: a fork of a fork may have
//!   the number of the process that opened the file, once that has ended, and a child in a new namespace of process
//!   numbers may have the same number from its start. Such a fork is not noticed, and gives the IDs of the other. So a
//!   fork drops its copy, or runs another program, right away.
//! - A copy of the file elsewhere, on another machine or in a restored image: not at all. Nor a second file with the
//!   same server-id.

mod clock;
mod error;
mod maker;
mod record;
mod store;
#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned as _;
use alloc::vec::Vec;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::TryRng as _;
use rand::rngs::SysRng;
use rand::seq::SliceRandom as _;

use crate::layout::{Id, Layout};
use crate::limits::Limits;
use crate::scheme::{RandomCycle, Scheme};
use crate::status::Status;
use clock::SystemClock;
pub use error::{LockHolder, LockLoss, MakeError, OpenError, SaveError};
use maker::{Maker, Start};
pub use record::RecordError;
use store::{Folder, Store};

/// A random number of this process, which its forks have too; 0: not drawn yet.
static PROCESS_TOKEN: AtomicU64 = AtomicU64::new(0);

/// Makes IDs in this process, and keeps its state in a file.
///
/// ```
/// use getid_core::FileMaker;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ids");
/// // A file of this process alone, and a server-id that no other process has: 0 to 3 in the default layout.
/// let maker = FileMaker::open(path, 1)?;
/// let id = maker.next()?;
/// assert!(maker.next()? > id);
///
/// // As many threads as you like.
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| maker.next_many(1000).expect("a disk that can be written"));
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An ID is larger than all that calls of this maker returned before, over restarts and crashes too, and whatever the
/// clock does: where it is set back, IDs go on from where they are until it has caught up; where it jumps ahead by more
/// than an hour, they keep their time and follow after ten minutes ([`Limits::max_clock_jump_ms`]); where it jumps by
/// more than 400 days, they keep their time and never follow. Where the clock is more than 400 days past the state file
/// when it is opened, there are no IDs ([`MakeError::Clock`]).
///
/// A call holds a lock for well under a microsecond, while it reserves; the IDs are made outside of it. About once a
/// second one of the calls also writes the file and waits for the disk's sync; the others go on meanwhile, for three
/// seconds ahead of the disk ([`Limits::lead_ms`]). A call that gets no ID for five seconds ends with
/// [`MakeError::SlowDisk`] or [`MakeError::Overload`], except the one that waits for the disk: it waits until the disk
/// answers.
///
/// Dropping it writes where it ended, as [`FileMaker::close`] does.
#[derive(Debug)]
pub struct FileMaker {
    maker: Maker<SystemClock, Folder>,
    /// It was closed: the file may be another's by now.
    is_closed: bool,
}

/// How a [`FileMaker`] is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileMakerOptions {
    layout: Layout,
    limits: Limits,
    accepts_clock_ahead: bool,
    past: Option<Id>,
}

impl FileMakerOptions {
    /// The layout of the IDs, if not the default one. All processes whose IDs meet in one table have the same.
    ///
    /// Its widths may change between two lives of a file: change them in all processes at once. Its epoch may not.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// How far IDs may run ahead of the clock, and more, if not the defaults.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Believes a clock that is more than 400 days past the state file, which is an error otherwise: for a file that
    /// was not used for so long. IDs cannot go back to an earlier time afterwards.
    #[must_use]
    pub fn accept_clock_ahead(mut self) -> Self {
        self.accepts_clock_ahead = true;
        self
    }

    /// Begins past `id` and 3.2 seconds later (1 ms + [`Limits::max_borrow_ms`] + 200 ms), if the state file does not
    /// lie past that already: for a file that was lost or damaged, where the clock was ahead of the true time before.
    /// `id` is the largest one that this server-id gave, in any table.
    ///
    /// IDs cannot go back to an earlier time afterwards: an `id` of another layout may use up centuries. An `id` that
    /// is more than 400 days behind the clock needs [`FileMakerOptions::accept_clock_ahead`] too.
    #[must_use]
    pub fn begin_past(mut self, id: Id) -> Self {
        self.past = Some(id);
        self
    }

    /// Opens the state file, or makes it: its folder must exist. Beside it there are `path` with `.lock` and, while it
    /// is written, with `.tmp`.
    ///
    /// Waits 250 ms where there is no state file, or a copy of one, and 200 ms for a lock that is held.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. Without a state file IDs begin past all that a clock gave which is right now and was never ahead.
    /// Nobody knows whether it was, so what is there and cannot be used is an error, and never a first start.
    pub fn open(self, path: impl AsRef<Path>, server_id: u32) -> Result<FileMaker, OpenError> {
        let FileMakerOptions { layout, limits, accepts_clock_ahead, past } = self;
        let cycle = shuffled_cycle(layout);
        let max = (1_u32 << layout.server_bits()) - 1;
        let scheme = Scheme::new(layout, server_id, cycle).ok_or(OpenError::ServerIdRange { server_id, max })?;
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Err(OpenError::EmptyPath);
        }
        // So that it means the same after a change of the working folder.
        let path = std::path::absolute(path).map_err(|source| OpenError::Io {
            action: "find",
            path: path.to_owned(),
            source,
        })?;
        let writer = system_random().map_err(OpenError::Random)?;
        let process_token = process_token().map_err(OpenError::Random)?;
        // First: what is read without the lock may be old.
        let folder = Folder::lock(&path, process_token)?;
        let is_copy = folder.is_copy();
        let (store, found) = Store::open(folder, path, server_id, layout, writer)?;
        let start = Start { found, is_copy, accepts_clock_ahead, past };
        let mut maker = Maker::begin(SystemClock::new(), scheme, limits, store, start)?;
        if let Some(store) = maker.store() {
            store.mark_original();
        }
        Ok(FileMaker { maker, is_closed: false })
    }
}

impl FileMaker {
    /// The most IDs of one [`FileMaker::next_many`]: 2^20, 8 MiB of them.
    pub const IDS_MAX: u32 = maker::IDS_MAX;

    /// Opens the state file of `server_id`, or makes it, with the default layout and limits:
    /// [`FileMakerOptions::open`].
    ///
    /// Two processes never have one server-id at the same time: their IDs would be the same. The lock keeps a second
    /// process from this file; another file, and another machine, need another server-id.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(path: impl AsRef<Path>, server_id: u32) -> Result<FileMaker, OpenError> {
        FileMaker::options().open(path, server_id)
    }

    /// For another layout, other limits, or a file that was not used for 400 days.
    pub fn options() -> FileMakerOptions {
        FileMakerOptions::default()
    }

    /// The next ID. Waits where more are asked for than the layout holds: 512,000 a second by default.
    ///
    /// # Errors
    ///
    /// [`MakeError`]: no ID was made, and another call may succeed, but for the errors that say that they are for good.
    pub fn next(&self) -> Result<Id, MakeError> {
        self.maker.next()
    }

    /// The next `n` IDs, ascending, of 8 bytes each, at most [`FileMaker::IDS_MAX`]. IDs of other threads may lie
    /// between them. More than the layout holds at once are waited for, as long as some come within each five seconds.
    ///
    /// # Errors
    ///
    /// [`MakeError`]; then those of the `n` that were made already are given to nobody.
    pub fn next_many(&self, n: u32) -> Result<Vec<Id>, MakeError> {
        self.maker.next_many(n)
    }

    /// The layout of its IDs.
    pub fn layout(&self) -> Layout {
        self.maker.scheme().layout()
    }

    /// The server-id in its IDs.
    pub fn server_id(&self) -> u32 {
        self.maker.scheme().server_id()
    }

    /// The state file, as an absolute path.
    pub fn path(&self) -> &Path {
        self.maker.path()
    }

    /// Where IDs and clocks are now, for a log or metrics: how far the wall clock is off
    /// ([`Status::clock_offset_ms`]), and why the last save failed ([`Status::save_error`]).
    ///
    /// # Errors
    ///
    /// In a fork, and after a panic.
    pub fn status(&self) -> Result<Status, MakeError> {
        self.maker.status()
    }

    /// Writes where it ended, and lets go of the file. The next start need not wait then; it repeats nothing without
    /// it.
    ///
    /// # Errors
    ///
    /// [`SaveError`]: the file is as the last save left it, and the next start begins there.
    pub fn close(mut self) -> Result<(), SaveError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), SaveError> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        let result = self.maker.close();
        if let Some(store) = self.maker.store() {
            store.unlock();
        }
        result
    }
}

impl Drop for FileMaker {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A cycle over all random values of `layout`, in an order of its own.
fn shuffled_cycle(layout: Layout) -> RandomCycle {
    let mut values: Vec<u32> = (0..1 << layout.random_bits()).collect();
    values.shuffle(&mut rand::rng());
    RandomCycle::new(values).expect("a shuffled range is a permutation")
}

/// A random number of the system's: that of a thread's generator, `rand::random`, comes again in a fork.
fn system_random() -> io::Result<u64> {
    SysRng.try_next_u64().map_err(io::Error::other)
}

/// The random number of this process.
fn process_token() -> io::Result<u64> {
    let drawn = system_random()? | 1;
    // Whoever was first.
    let token = PROCESS_TOKEN.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed);
    Ok(token.map_or_else(|found| found, |_| drawn))
}
