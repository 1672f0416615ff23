//! IDs made in this process, with their state in a file: a mint, the machine's clocks, a lock and a disk.
//!
//! The mint decides which IDs may be given and what must be on disk first. This module is the rest, for a program that
//! needs only IDs. It owns the file, keeps other processes out of it, and writes it ahead of need.
//!
//! Invariant: the watermark in the file is past every ID that was given, after any crash. So a next life begins behind
//! this one.
//!
//! # Which mistakes are prevented, and which are not
//!
//! - A second process, or a second maker in this one, with the same file: prevented by a lock. A maker notices at its
//!   next save, within about a second of use, that its lock file or state file was replaced. The first start without a
//!   state file waits 250 ms for such a maker.
//! - A forked child: prevented by its process number. The system reuses numbers: a fork of a fork may have the number
//!   of the process that opened the file, once that has ended. And a child in a new namespace of process numbers may
//!   have the same number from its start. Such a fork is not noticed, and repeats IDs of the other. So a fork must drop
//!   its copy, or run another program, right away.
//! - A copy of the file elsewhere, on another machine or in a restored image: not prevented. Neither is a second file
//!   with the same server-id.

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
use maker::{Maker, MakerStart};
pub use record::RecordError;
use store::{LockedFolder, StateFile};

/// Random number of this process and its forks; 0: not drawn yet.
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
/// clock does. If the clock is set back, IDs continue from where they are until it has caught up. If it jumps ahead by
/// more than an hour, they keep their time and follow after ten minutes ([`Limits::max_clock_jump_ms`]). If it jumps by
/// more than 400 days, they keep their time and never follow. If the clock is more than 400 days past the state file
/// when it is opened, there are no IDs ([`MakeError::Clock`]).
///
/// A call holds a lock for well under a microsecond, while it reserves; the IDs are made outside of it. About once a
/// second one of the calls also writes the file and waits for the disk's sync. The other calls continue meanwhile, for
/// three seconds ahead of the disk ([`Limits::lead_ms`]). A call that gets no ID for five seconds ends with
/// [`MakeError::SlowDisk`] or [`MakeError::Overload`]. The exception is the call that waits for the disk: it waits
/// until the disk answers.
///
/// A drop writes the position, as [`FileMaker::close`] does.
#[derive(Debug)]
pub struct FileMaker {
    maker: Maker<SystemClock, LockedFolder>,
    /// Whether it was closed: then the file may belong to another maker.
    is_closed: bool,
}

/// Options of opening a [`FileMaker`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FileMakerOptions {
    layout: Layout,
    limits: Limits,
    accepts_clock_ahead: bool,
    past: Option<Id>,
}

impl FileMakerOptions {
    /// Sets the layout of the IDs. All processes whose IDs meet in one table must have the same.
    ///
    /// Its widths may change between two lives of a file: change them in all processes at once. Its epoch may not.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the limits, such as how far IDs may run ahead of the clock.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Accepts a clock that is more than 400 days past the state file, for a file that was not used for so long.
    /// Otherwise such a clock is an error. IDs cannot go back to an earlier time afterwards.
    #[must_use]
    pub fn accept_clock_ahead(mut self) -> Self {
        self.accepts_clock_ahead = true;
        self
    }

    /// Begins past `id` and 3.2 seconds later (1 ms + [`Limits::max_borrow_ms`] + 200 ms), if the state file is not
    /// past that already. It is for a file that was lost or damaged, if the clock was ahead of the true time before.
    /// `id` is the largest one that this server-id gave, in any table.
    ///
    /// IDs cannot go back to an earlier time afterwards: an `id` of another layout may use up centuries. An `id` that
    /// is more than 400 days behind the clock needs [`FileMakerOptions::accept_clock_ahead`] too.
    #[must_use]
    pub fn begin_past(mut self, id: Id) -> Self {
        self.past = Some(id);
        self
    }

    /// Opens the state file, or creates it in an existing folder. Beside it are `path` with `.lock` and, during a save,
    /// with `.tmp`.
    ///
    /// Waits 250 ms if there is no state file, or a copy of one, and 200 ms for a lock that is held.
    ///
    /// # Errors
    ///
    /// Fails with [`OpenError`]. Without a state file IDs begin past all earlier ones only if the clock is right now
    /// and was never ahead. That cannot be checked, so an unusable file is an error, and never a first start.
    pub fn open(self, path: impl AsRef<Path>, server_id: u32) -> Result<FileMaker, OpenError> {
        let FileMakerOptions { layout, limits, accepts_clock_ahead, past } = self;
        let cycle = shuffled_cycle(layout);
        let max = (1_u32 << layout.server_bits()) - 1;
        let scheme = Scheme::new(layout, server_id, cycle).ok_or(OpenError::ServerIdRange { server_id, max })?;
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Err(OpenError::EmptyPath);
        }
        // An absolute path stays valid when the working folder changes.
        let path = std::path::absolute(path).map_err(|source| OpenError::Io {
            action: "find",
            path: path.to_owned(),
            source,
        })?;
        let writer = system_random().map_err(OpenError::Random)?;
        let process_token = process_token().map_err(OpenError::Random)?;
        // The lock comes first: a file that is read without it may be old.
        let folder = LockedFolder::lock(&path, process_token)?;
        let is_copy = folder.is_copy();
        let (store, found) = StateFile::open(folder, path, server_id, layout, writer)?;
        let start = MakerStart { found, is_copy, accepts_clock_ahead, past };
        let mut maker = Maker::begin(SystemClock::new(), scheme, limits, store, start)?;
        if let Some(store) = maker.store() {
            store.mark_original();
        }
        Ok(FileMaker { maker, is_closed: false })
    }
}

impl FileMaker {
    /// Most IDs of one [`FileMaker::next_many`]: 2^20, which are 8 MiB.
    pub const IDS_MAX: u32 = maker::IDS_MAX;

    /// Opens the state file of `server_id`, or creates it, with the default layout and limits:
    /// [`FileMakerOptions::open`].
    ///
    /// Two processes must never have one server-id at the same time: their IDs would be equal. The lock keeps a second
    /// process from this file; another file, and another machine, need another server-id.
    ///
    /// # Errors
    ///
    /// Fails with [`OpenError`].
    pub fn open(path: impl AsRef<Path>, server_id: u32) -> Result<FileMaker, OpenError> {
        FileMaker::options().open(path, server_id)
    }

    /// Returns options, for another layout, other limits, or a file that was not used for 400 days.
    pub fn options() -> FileMakerOptions {
        FileMakerOptions::default()
    }

    /// Returns the next ID. Waits if calls exceed the capacity of the layout: 512,000 IDs a second by default.
    ///
    /// # Errors
    ///
    /// Fails with [`MakeError`]: no ID was made. Another call may succeed, except after an error that is permanent.
    pub fn next(&self) -> Result<Id, MakeError> {
        self.maker.next()
    }

    /// Returns the next `n` IDs, ascending, of 8 bytes each, at most [`FileMaker::IDS_MAX`]. IDs of other threads may
    /// lie between them. Waits if `n` exceeds the capacity, as long as some IDs come within each five seconds.
    ///
    /// # Errors
    ///
    /// Fails with [`MakeError`]. IDs of this call that were made already are lost.
    pub fn next_many(&self, n: u32) -> Result<Vec<Id>, MakeError> {
        self.maker.next_many(n)
    }

    /// Returns the layout of its IDs.
    pub fn layout(&self) -> Layout {
        self.maker.scheme().layout()
    }

    /// Returns the server-id in its IDs.
    pub fn server_id(&self) -> u32 {
        self.maker.scheme().server_id()
    }

    /// Returns the state file, as an absolute path.
    pub fn path(&self) -> &Path {
        self.maker.path()
    }

    /// Returns the state of IDs and clocks, for a log or metrics: such as the offset of the wall clock
    /// ([`Status::clock_offset_ms`]), and why the last save failed ([`Status::save_error`]).
    ///
    /// # Errors
    ///
    /// Fails in a fork, and after a panic.
    pub fn status(&self) -> Result<Status, MakeError> {
        self.maker.status()
    }

    /// Writes the position, and releases the file. Then the next start does not wait. Without it the next start repeats
    /// nothing either.
    ///
    /// # Errors
    ///
    /// Fails with [`SaveError`]: the file is as the last save left it, and the next start begins there.
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

/// Returns a cycle over all random values of `layout`, in a random order.
fn shuffled_cycle(layout: Layout) -> RandomCycle {
    let mut values: Vec<u32> = (0..1 << layout.random_bits()).collect();
    values.shuffle(&mut rand::rng());
    RandomCycle::new(values).expect("a shuffled range is a permutation")
}

/// Returns a random number of the system. A thread's generator, `rand::random`, would repeat its numbers in a fork.
fn system_random() -> io::Result<u64> {
    SysRng.try_next_u64().map_err(io::Error::other)
}

/// Returns the random number of this process, and draws it at the first call.
fn process_token() -> io::Result<u64> {
    let drawn = system_random()? | 1;
    // The first thread's number counts.
    let token = PROCESS_TOKEN.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed);
    Ok(token.map_or_else(|found| found, |_| drawn))
}
