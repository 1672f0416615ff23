//! Errors of opening a file, saving a record and making an ID: values that become one sentence with a remedy.

use alloc::sync::Arc;
use core::fmt;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

use super::record::RecordError;
use crate::clock_event::ClockFault;
use crate::layout::Id;
use crate::time::{Epoch, UtcMs};

/// Why [`FileMaker::open`](crate::FileMaker::open) failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The server-id does not fit the layout.
    ServerIdRange {
        /// The requested server-id.
        server_id: u32,
        /// Largest server-id of the layout.
        max: u32,
    },
    /// The path is empty.
    EmptyPath,
    /// The path names no file, or something other than a regular file is there.
    NotAFile {
        /// Path of the opened file.
        path: PathBuf,
        /// Kind of file found there.
        found: &'static str,
    },
    /// A file could not be opened, locked or read.
    Io {
        /// What failed, as in "cannot lock ...".
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is open already, in another process or in this one.
    Held {
        /// Path of the state file.
        path: PathBuf,
        /// The holder of the lock.
        holder: LockHolder,
    },
    /// The file is not a record, or a damaged one, or one of a newer version.
    Record {
        /// Path of the state file.
        path: PathBuf,
        /// Fault of the record.
        source: RecordError,
    },
    /// The file belongs to another server-id.
    ServerId {
        /// Path of the state file.
        path: PathBuf,
        /// Server-id in the file.
        recorded: u32,
        /// The requested server-id.
        asked: u32,
    },
    /// The file has another epoch.
    Epoch {
        /// Path of the state file.
        path: PathBuf,
        /// Epoch in the file.
        recorded: Epoch,
        /// Epoch of the requested layout.
        asked: Epoch,
    },
    /// No ID lies past the one of [`FileMakerOptions::begin_past`](crate::FileMakerOptions::begin_past).
    NoIdsPast {
        /// ID that was passed to `begin_past`.
        id: Id,
        /// Last instant of the layout, Unix ms.
        last_unix_ms: i64,
    },
    /// The system gives no random numbers.
    Random(io::Error),
    /// The file cannot be written.
    Save(SaveError),
}

/// Holder of a state file's lock, read from the lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockHolder {
    /// A [`FileMaker`](crate::FileMaker) of this process.
    ThisProcess,
    /// Another process, or a child of it.
    Process {
        /// Its process number, as its own container counts.
        pid: u32,
    },
    /// A process with the number of this one, in its own container; or a child of such a process.
    OtherContainer {
        /// Number of both processes.
        pid: u32,
    },
    /// A holder that has not written its number.
    Unknown,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockHolder::ThisProcess => write!(f, "this process"),
            LockHolder::Process { pid } => {
                write!(f, "process {pid} (as its container numbers it, if it is in one), or a child of it,")
            }
            LockHolder::OtherContainer { pid } => {
                write!(f, "another process, which has number {pid} too, in a container of its own, or a child of it,")
            }
            LockHolder::Unknown => write!(f, "another process, or another FileMaker of this one,"),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::ServerIdRange { server_id, max } => write!(
                f,
                "server-id {server_id} does not fit the layout, whose server-ids are 0 to {max}: use one of these, or a \
                 layout with a larger id-range in all processes"
            ),
            OpenError::EmptyPath => {
                write!(f, "the path of the state file is empty: name a regular file, or one that is not there yet")
            }
            OpenError::NotAFile { path, found } => {
                write!(f, "{} is {found}: name a regular file, or one that is not there yet", path.display())
            }
            OpenError::Io { action, path, source } => {
                write!(f, "cannot {action} {}: {source}; {}", path.display(), remedy(source))
            }
            OpenError::Held { path, holder } => {
                write!(f, "{holder} has {} open: ", path.display())?;
                match holder {
                    LockHolder::ThisProcess => {
                        write!(f, "share that FileMaker, which any number of threads may use")
                    }
                    _ => write!(f, "stop it, or give this process another file and another server-id"),
                }
            }
            OpenError::Record { path, source } => {
                let path = path.display();
                write!(f, "cannot use {path}: {source}; ")?;
                f.write_str(record_remedy(source))
            }
            OpenError::ServerId { path, recorded, asked } => write!(
                f,
                "{} is the file of server-id {recorded}, and {asked} was requested: open it with {recorded}, or give \
                 server-id {asked} a file of its own",
                path.display()
            ),
            OpenError::Epoch { path, recorded, asked } => write!(
                f,
                "{} counts from the epoch {} ({}), and {} ({}) was requested: open it with a layout of its own epoch",
                path.display(),
                recorded.unix_ms(),
                utc(*recorded),
                asked.unix_ms(),
                utc(*asked)
            ),
            OpenError::NoIdsPast { id, last_unix_ms } => write!(
                f,
                "there are no IDs past {}, which begin_past was given: IDs of this layout end at {}; give the largest ID \
                 that was made with this layout",
                id.get(),
                UtcMs(*last_unix_ms)
            ),
            OpenError::Random(source) => {
                write!(f, "the system gives no random numbers: {source}; this process needs getrandom or /dev/urandom")
            }
            OpenError::Save(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            OpenError::Io { source, .. } | OpenError::Random(source) => Some(source),
            OpenError::Record { source, .. } => Some(source),
            OpenError::Save(error) => error.source(),
            _ => None,
        }
    }
}

fn utc(epoch: Epoch) -> UtcMs {
    UtcMs(crate::time::Tick(0).unix_ms(epoch))
}

/// Returns the remedy for a fault in a state file.
fn record_remedy(error: &RecordError) -> &'static str {
    match error {
        RecordError::NotARecord { .. } => "a FileMaker has a file of its own: name another one",
        RecordError::Version { .. } => "start the program that wrote it, or one that is as new",
        _ => {
            "make sure that no process makes IDs with this file, then remove it; if the clock is right now and was never \
             ahead, open as before; if it may have been ahead, open once with begin_past(the largest ID of this server-id \
             in any table), or IDs may repeat"
        }
    }
}

/// Returns the remedy for a system error on a file.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOLCK) => return "its file system gives no locks: name a file on a disk of this machine",
        Some(Errno::EMFILE | Errno::ENFILE) => return "raise the limit of open files, or close some",
        Some(Errno::EIO) => return "check its disk, or name a file on another one",
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::NotFound => "make its folder first",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on its disk",
        io::ErrorKind::PermissionDenied => "this process must be able to read and write it and its folder",
        io::ErrorKind::ReadOnlyFilesystem => "make its file system writable, or name a file on another one",
        io::ErrorKind::IsADirectory => "a folder has the name of a file: move it away",
        io::ErrorKind::NotADirectory => "a file has the name of a folder: move it away, or name another path",
        io::ErrorKind::InvalidFilename => "name a file with a shorter name",
        io::ErrorKind::Unsupported => "its file system cannot do this: name a file on a disk of this machine",
        _ => "find the cause in the system's log, or name a file on another disk",
    }
}

/// Reason why the state file was not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum SaveError {
    /// The system could not write the file.
    Io {
        /// What failed, as in "cannot write ...".
        action: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file no longer belongs to this maker alone. There are no more IDs until it is opened again.
    Lost {
        /// Path of the state file.
        path: PathBuf,
        /// How the lock was lost.
        loss: LockLoss,
    },
}

/// How a maker lost its state file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockLoss {
    /// The lock file beside it was deleted, or its folder was.
    LockGone,
    /// Another file replaced the lock file, or another folder replaced its folder.
    LockReplaced,
    /// The state file has the text of another process, or of an older copy.
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
                    "{} is no longer this process's alone: {found}; find the other process that uses it, then open it \
                     again",
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

/// Reason why no ID was made. Once the reason is gone, the maker makes IDs again. Three errors are permanent, and each
/// documents it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MakeError {
    /// This process is a child of the one that opened the file, and has a copy of its maker. Permanent.
    Forked {
        /// Number of the process that opened the file.
        opened_by: u32,
        /// Number of this process.
        pid: u32,
    },
    /// The wall clock is out of all bounds.
    Clock(ClockFault),
    /// IDs are as far ahead of the clock as allowed, and [`BorrowPolicy::Error`](crate::BorrowPolicy) forbids to wait.
    Busy {
        /// How far ahead the next ID would lie, ms.
        ahead_ms: u64,
        /// Largest allowed distance ([`Limits::max_borrow_ms`](crate::Limits)), ms.
        max_borrow_ms: u64,
    },
    /// The state file lies too far ahead of the clock to wait for it.
    Ahead {
        /// How far ahead of the clock the next ID would lie, ms.
        ahead_ms: u64,
    },
    /// Other calls have taken all IDs of the layout for as long as a call waits.
    Overload {
        /// How long this call has waited, ms.
        waited_ms: u64,
        /// Capacity of the layout, IDs a second.
        capacity_per_s: u64,
    },
    /// The disk has not written the state file for as long as a call waits, or is so slow that the lead is used up by
    /// then.
    SlowDisk {
        /// How long this call has waited, ms.
        waited_ms: u64,
        /// The lead ([`Limits::lead_ms`](crate::Limits)), ms.
        lead_ms: u64,
    },
    /// The call requested too many IDs.
    TooMany {
        /// Number of requested IDs.
        n: u32,
        /// Largest number of a call, [`FileMaker::IDS_MAX`](crate::FileMaker::IDS_MAX).
        max: u32,
    },
    /// The time is past the last ID of the layout.
    EndOfTime {
        /// The last instant of the layout, Unix ms.
        last_unix_ms: i64,
    },
    /// All IDs that the state file allows are given, and it cannot be written. Permanent if the file is no longer this
    /// maker's ([`SaveError::Lost`]).
    Save(Arc<SaveError>),
    /// Another call has ended in a panic. Permanent.
    Panicked,
}

impl fmt::Display for MakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MakeError::Forked { opened_by, pid } => write!(
                f,
                "process {pid} is a fork of process {opened_by}, which opened this maker and may still use it: open \
                 another file with another server-id after the fork"
            ),
            MakeError::Clock(ClockFault::FarPastRecord { wall_unix_ms, record_unix_ms }) => write!(
                f,
                "the clock reads {}, more than 400 days past the state file, {}: set the clock; or, if it is right, \
                 open the file once with accept_clock_ahead",
                UtcMs(*wall_unix_ms),
                UtcMs(*record_unix_ms)
            ),
            MakeError::Clock(fault) => write!(f, "the clock {fault}: set the clock"),
            MakeError::Busy { ahead_ms, max_borrow_ms } => write!(
                f,
                "the next ID would lie {ahead_ms} ms ahead of the clock, and {max_borrow_ms} ms are allowed: request \
                 fewer a second, use a layout with a larger shard-range, or wait"
            ),
            MakeError::Ahead { ahead_ms } => write!(
                f,
                "by the state file the next ID would lie {ahead_ms} ms ahead of the clock: set the clock if it is \
                 behind, or wait until it reaches that time"
            ),
            MakeError::Overload { waited_ms, capacity_per_s } => write!(
                f,
                "no ID for {waited_ms} ms: other calls have taken all that the layout holds, {capacity_per_s} a \
                 second; request fewer a second, or use a layout with a larger shard-range"
            ),
            MakeError::SlowDisk { waited_ms, lead_ms } => write!(
                f,
                "no ID for {waited_ms} ms: the disk has not stored the state file in that time, or needs longer for it \
                 than the lead, {lead_ms} ms; use a faster disk, or raise lead_ms and max_borrow_ms"
            ),
            MakeError::TooMany { n, max } => {
                write!(f, "{n} IDs were requested in one call, and {max} are the maximum: make several calls")
            }
            MakeError::EndOfTime { last_unix_ms } => write!(
                f,
                "no ID of this layout can carry a time after {}: set the clock if it is ahead; if it is right, this layout \
                 has no more IDs, and a table of its own may continue with a later epoch in another file",
                UtcMs(*last_unix_ms)
            ),
            MakeError::Save(error) => error.fmt(f),
            MakeError::Panicked => {
                write!(
                    f,
                    "another call of this maker has panicked, and its state may be half changed: open the file again"
                )
            }
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

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn each_cause_has_its_remedy() {
        let text = |source: io::Error| OpenError::Io { action: "lock", path: "/ids.lock".into(), source }.to_string();
        for (errno, remedy) in [
            (Errno::ENOENT, "make its folder first"),
            (Errno::ENOSPC, "make room on its disk"),
            (Errno::EDQUOT, "make room on its disk"),
            (Errno::EACCES, "this process must be able to read and write it and its folder"),
            (Errno::EPERM, "this process must be able to read and write it and its folder"),
            (Errno::EROFS, "make its file system writable, or name a file on another one"),
            (Errno::EISDIR, "a folder has the name of a file: move it away"),
            (Errno::ENOTDIR, "a file has the name of a folder: move it away, or name another path"),
            (Errno::ENAMETOOLONG, "name a file with a shorter name"),
            (Errno::ENOLCK, "its file system gives no locks: name a file on a disk of this machine"),
            (Errno::EOPNOTSUPP, "its file system cannot do this: name a file on a disk of this machine"),
            (Errno::EMFILE, "raise the limit of open files, or close some"),
            (Errno::EIO, "check its disk, or name a file on another one"),
            (Errno::EBUSY, "find the cause in the system's log, or name a file on another disk"),
        ] {
            let text = text(errno.into());
            assert!(text.starts_with("cannot lock /ids.lock: ") && text.ends_with(&format!("; {remedy}")), "{text}");
        }
    }

    #[test]
    fn each_holder_has_its_text() {
        let text = |holder| OpenError::Held { path: "/ids".into(), holder }.to_string();
        let stop = "stop it, or give this process another file and another server-id";
        for (holder, expected) in [
            (
                LockHolder::Process { pid: 7 },
                "process 7 (as its container numbers it, if it is in one), or a child of it,",
            ),
            (
                LockHolder::OtherContainer { pid: 1 },
                "another process, which has number 1 too, in a container of its own, or a child of it,",
            ),
            (LockHolder::Unknown, "another process, or another FileMaker of this one,"),
        ] {
            assert_eq!(text(holder), format!("{expected} has /ids open: {stop}"));
        }
        let shared = "this process has /ids open: share that FileMaker, which any number of threads may use";
        assert_eq!(text(LockHolder::ThisProcess), shared);
    }
}
