//! The thread that writes the lines, and its open file.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracing::Level;

use super::error::LogError;
use super::format::LineFormat;
use super::queue::{LogQueue, QueueItem};
use getid_system::files;

/// An open output: standard output, standard error, or a file.
#[derive(Debug)]
pub(super) struct LogTarget {
    file: File,
    /// The path of a file that can be reopened.
    path: Option<PathBuf>,
}

impl LogTarget {
    /// Returns standard output as the target.
    pub(super) fn stdout() -> Result<LogTarget, LogError> {
        LogTarget::inherited(io::stdout().as_fd().try_clone_to_owned(), "standard output")
    }

    /// Opens the log file at a path. `/dev/stdout` and `/dev/stderr` are this process's outputs, whatever they are: a
    /// socket of journald cannot be opened by name.
    pub(super) fn open(path: &Path) -> Result<LogTarget, LogError> {
        match path.to_str() {
            Some("/dev/stdout") => return LogTarget::stdout(),
            Some("/dev/stderr") => {
                return LogTarget::inherited(io::stderr().as_fd().try_clone_to_owned(), "standard error");
            }
            _ => {}
        }
        // The path is made absolute because the file is reopened after a rename, and perhaps after a change of folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let file = files::open_to_append(&path).map_err(|error| LogError::Open { path: path.clone(), error })?;
        Ok(LogTarget { file, path: Some(path) })
    }

    fn inherited(descriptor: io::Result<OwnedFd>, name: &str) -> Result<LogTarget, LogError> {
        let descriptor = descriptor.map_err(|error| LogError::Open { path: name.into(), error })?;
        Ok(LogTarget { file: File::from(descriptor), path: None })
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        if let Some(path) = &self.path {
            self.file = files::open_to_append(path).map_err(|error| LogError::Open { path: path.clone(), error })?;
        }
        Ok(())
    }

    /// Writes all bytes, however long the reader takes.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another program of the same terminal or shell made the pipe non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut wait = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
                    match poll(&mut wait, PollTimeout::NONE) {
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The log's writer. It counts lines that it cannot write, and reports their number once it can write again.
pub(super) struct LogWriter {
    pub(super) target: LogTarget,
    format: LineFormat,
    /// Whether the last line is incomplete, so that the next one starts with a line break.
    is_torn: bool,
    lost: u64,
    reason: String,
}

impl LogWriter {
    pub(super) fn new(target: LogTarget, format: LineFormat) -> LogWriter {
        LogWriter { target, format, is_torn: false, lost: 0, reason: String::new() }
    }

    /// Writes queued entries until the queue is closed.
    pub(super) fn run(mut self, queue: &LogQueue) {
        while let Some(entry) = queue.next() {
            match entry {
                QueueItem::Line(text) => {
                    if !self.write(text) {
                        queue.count_unwritten();
                    }
                }
                QueueItem::Dropped(count) => self.note(
                    Level::WARN,
                    format!("{count} log lines were dropped here: the reader of the log, or its disk, is too slow"),
                ),
                QueueItem::Reopen => self.reopen(),
            }
        }
    }

    fn reopen(&mut self) {
        match self.target.reopen() {
            Ok(()) => {
                self.is_torn = false;
                self.note(Level::INFO, "SIGHUP: the log is reopened".to_owned());
            }
            Err(error) => self.note(Level::ERROR, format!("SIGHUP: the log is not reopened: {error}")),
        }
    }

    /// Writes a line of the log about itself.
    fn note(&mut self, level: Level, message: String) {
        let _ = self.write(self.format.own_line(level, message));
    }

    /// Writes a line, after a report of lost lines; returns whether the line was written.
    pub(super) fn write(&mut self, line: String) -> bool {
        if self.lost > 0 {
            let report = format!("{} log lines before this one could not be written: {}", self.lost, self.reason);
            let report = self.format.own_line(Level::WARN, report);
            if self.write_one(report) {
                self.lost = 0;
            }
        }
        let is_written = self.write_one(line);
        self.lost += u64::from(!is_written);
        is_written
    }

    fn write_one(&mut self, mut line: String) -> bool {
        if self.is_torn {
            line.insert(0, '\n');
        }
        let written = self.target.write(line.as_bytes());
        self.is_torn = written.is_err();
        if let Err(error) = written {
            self.reason = error.to_string();
        }
        !self.is_torn
    }
}
