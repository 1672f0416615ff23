//! Why a file was not opened, a record not saved, an ID not made: values that become one sentence with a remedy.

use alloc::sync::Arc;
use core::fmt;
use std::io;
use std::path::PathBuf;

use super::record::RecordError;
use crate::clock_event::ClockFault;
use crate::refusal::Refusal;
use crate::time::{Epoch, UtcMs};

/// Why [`FileMaker::open`](crate::FileMaker::open) failed.
#[derive(Debug)]
pub enum OpenError {
    /// The server-id does not fit the layout.
    ServerIdRange {
        /// The server-id that was asked for.
        server_id: u32,
        /// The largest one that the layout has.
        max: u32,
    },
    /// The path names no file, or something other than a regular file is there.
    NotAFile {
        /// What was opened.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// A file could not be opened, locked or read.
    Io {
        /// What failed, as in "cannot lock ...".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is open already, in another process or in this one.
    Held {
        /// The state file.
        path: PathBuf,
        /// The process that has it; `None`: it has not said.
        pid: Option<u32>,
    },
    /// The file is not a record, or a damaged one, or one of a newer version.
    Record {
        /// The state file.
        path: PathBuf,
        /// What is wrong with it.
        source: RecordError,
    },
    /// The file is another server-id's.
    ServerId {
        /// The state file.
        path: PathBuf,
        /// The server-id in it.
        recorded: u32,
        /// The server-id that was asked for.
        asked: u32,
    },
    /// The file counts from another epoch.
    Epoch {
        /// The state file.
        path: PathBuf,
        /// The epoch in it.
        recorded: Epoch,
        /// The epoch of the layout that was asked for.
        asked: Epoch,
    },
    /// The file cannot be written.
    Save(SaveError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::ServerIdRange { server_id, max } => write!(
                f,
                "server-id {server_id} does not fit the layout, whose server-ids are 0 to {max}: use one of these, or a \
                 layout with a larger id-range in all processes"
            ),
            OpenError::NotAFile { path, found } => {
                write!(f, "{} is {found}: name a regular file, or one that is not there yet", path.display())
            }
            OpenError::Io { action, path, source } => {
                write!(f, "cannot {action} {}: {source}; {}", path.display(), remedy(source))
            }
            OpenError::Held { path, pid } => {
                let (path, own) = (path.display(), std::process::id());
                match pid {
                    Some(pid) if *pid == own => write!(
                        f,
                        "this process has {path} open already: share that FileMaker, which any number of threads may use"
                    ),
                    Some(pid) => write!(
                        f,
                        "process {pid}, or a child of it, has {path} open: stop it, or give this process another file and \
                         another server-id"
                    ),
                    None => write!(
                        f,
                        "another process has {path} open: stop it, or give this process another file and another server-id"
                    ),
                }
            }
            OpenError::Record { path, source } => {
                let path = path.display();
                write!(f, "cannot use {path}: {source}; ")?;
                match source {
                    RecordError::NotARecord { .. } => write!(f, "a FileMaker has a file of its own: name another one"),
                    RecordError::Version { .. } => write!(f, "start the program that wrote it, or one that is as new"),
                    _ => write!(
                        f,
                        "make sure that the clock is right and that no process makes IDs with this file, then remove it: \
                         IDs begin past all that a right clock gave"
                    ),
                }
            }
            OpenError::ServerId { path, recorded, asked } => write!(
                f,
                "{} is the file of server-id {recorded}, and {asked} was asked for: open it with {recorded}, or give \
                 server-id {asked} a file of its own",
                path.display()
            ),
            OpenError::Epoch { path, recorded, asked } => write!(
                f,
                "{} counts from the epoch {} ({}), and {} ({}) was asked for: open it with a layout of its own epoch",
                path.display(),
                recorded.unix_ms(),
                utc(*recorded),
                asked.unix_ms(),
                utc(*asked)
            ),
            OpenError::Save(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            OpenError::Io { source, .. } => Some(source),
            OpenError::Record { source, .. } => Some(source),
            OpenError::Save(error) => error.source(),
            _ => None,
        }
    }
}

fn utc(epoch: Epoch) -> UtcMs {
    UtcMs(crate::time::Tick(0).unix_ms(epoch))
}

/// What helps where the system refuses a file.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make its folder first",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on its disk",
        _ => "this process must be able to read and write it and its folder",
    }
}

/// Why the state file was not written.
#[derive(Debug)]
pub enum SaveError {
    /// The disk did not take it.
    Io {
        /// What failed, as in "cannot write ...".
        action: &'static str,
        /// What it failed on.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no longer this maker's alone. No more IDs until it is opened again.
    Lost {
        /// The state file.
        path: PathBuf,
        /// How it was lost.
        loss: LockLoss,
    },
}

/// How a state file stopped being one maker's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockLoss {
    /// The lock file beside it was deleted, or its folder was.
    LockGone,
    /// Another file took the place of the lock file, or another folder that of its folder.
    LockReplaced,
    /// The state file holds what another process has written, or a copy of an older one.
    Overwritten,
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Io { action, path, source } => {
                write!(f, "cannot {action} {}: {source}; {}", path.display(), remedy(source))
            }
            SaveError::Lost { path, loss } => {
                let found = match loss {
                    LockLoss::LockGone => "its lock file was deleted",
                    LockLoss::LockReplaced => "its lock file is another one than when it was opened",
                    LockLoss::Overwritten => "another process has written it, or an older copy was put in its place",
                };
                write!(
                    f,
                    "{} is no longer this process's alone: {found}; find out who else uses it, then open it again",
                    path.display()
                )
            }
        }
    }
}

impl core::error::Error for SaveError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            SaveError::Io { source, .. } => Some(source),
            SaveError::Lost { .. } => None,
        }
    }
}

/// Why no ID was made. The maker stays usable: once the reason is gone, it makes IDs again.
#[derive(Clone, Debug)]
pub enum MakeError {
    /// This process is a child of the one that opened the file, and has a copy of its maker. For good.
    Forked {
        /// The process that opened the file.
        opened_by: u32,
        /// This one.
        pid: u32,
    },
    /// The wall clock is absurd.
    Clock(ClockFault),
    /// IDs are too far ahead of the clock to wait for it, or [`BorrowPolicy::Error`](crate::BorrowPolicy) forbids it.
    Busy {
        /// How far ahead the next ID would lie, ms.
        ahead_ms: u64,
        /// How far it may ([`Limits::max_borrow_ms`](crate::Limits)), ms.
        max_borrow_ms: u64,
    },
    /// No ID can carry a time that late.
    EndOfTime {
        /// The last instant of the layout, Unix ms.
        last_unix_ms: i64,
    },
    /// All IDs that the state file allows are given, and it cannot be written.
    Save(Arc<SaveError>),
    /// Another call has ended in a panic. For good.
    Panicked,
    /// Any other refusal of the mint.
    Refused(Refusal),
}

impl fmt::Display for MakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MakeError::Forked { opened_by, pid } => write!(
                f,
                "process {pid} is a fork of process {opened_by}, which opened this maker and may go on with it: open \
                 another file with another server-id after the fork"
            ),
            MakeError::Clock(ClockFault::FarPastRecord { wall_unix_ms, record_unix_ms }) => write!(
                f,
                "the clock says {}, more than 400 days past the state file, {}: set the clock; or, if it is right, open \
                 the file once with accept_clock_ahead",
                UtcMs(*wall_unix_ms),
                UtcMs(*record_unix_ms)
            ),
            MakeError::Clock(fault) => write!(f, "the clock {fault}: set the clock"),
            MakeError::Busy { ahead_ms, max_borrow_ms } => write!(
                f,
                "the next ID would lie {ahead_ms} ms ahead of the clock, and {max_borrow_ms} ms are allowed: ask for fewer \
                 a second, use a layout with a larger shard-range, or wait"
            ),
            MakeError::EndOfTime { last_unix_ms } => write!(
                f,
                "no ID of this layout can carry a time after {}: set the clock, or use another epoch",
                UtcMs(*last_unix_ms)
            ),
            MakeError::Save(error) => error.fmt(f),
            MakeError::Panicked => {
                write!(f, "another call of this maker has panicked, and nobody knows what it left: open the file again")
            }
            MakeError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for MakeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            MakeError::Save(error) => error.source(),
            _ => None,
        }
    }
}
