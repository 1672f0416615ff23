//! Sends log lines to syslog.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use tracing::Level;

use super::queue::{LogQueue, QueueItem};
use super::stderr;

/// The socket of the syslog daemon.
pub const SYSLOG_SOCKET: &str = "/dev/log";

/// The longest syslog datagram, bytes. RFC 3164 allows 1,024; today's daemons accept 8 KiB. A longer line is cut.
pub(super) const SYSLOG_BYTES_MAX: usize = 8192;

/// How long a datagram waits for a slow daemon. The queue before it is bounded.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The log's name and facility in syslog.
#[derive(Clone, Debug)]
pub struct SyslogOptions {
    /// The name of the program in syslog (`syslog-ident`).
    pub ident: String,
    /// The facility's number: user is 1, local0 to local7 are 16 to 23 (`syslog-facility`).
    pub facility: u8,
    /// Path of the socket, usually [`SYSLOG_SOCKET`].
    pub socket: PathBuf,
}

/// How an event becomes a datagram of RFC 3164.
#[derive(Clone, Debug)]
pub(super) struct SyslogFormat {
    pub(super) options: SyslogOptions,
    pub(super) pid: u32,
}

impl SyslogFormat {
    /// Formats a datagram; `body` has no control characters.
    pub(super) fn line(&self, level: Level, unix_ms: i64, body: &str) -> String {
        let severity = match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 5,
            Level::DEBUG => 6,
            Level::TRACE => 7,
        };
        let SyslogOptions { ident, facility, .. } = &self.options;
        let priority = u16::from(*facility) * 8 + severity;
        // UTC; journald and rsyslog add their own local time.
        let time = Timestamp::from_millisecond(unix_ms).map(|time| time.strftime("%b %e %T ").to_string());
        let time = time.unwrap_or_default();
        let mut line = format!("<{priority}>{time}{ident}[{}]: {body}", self.pid);
        line.truncate(line.floor_char_boundary(SYSLOG_BYTES_MAX));
        line
    }
}

/// Sends datagrams to the local daemon, on its own thread. It counts lines that it cannot send, and reports their
/// number once the daemon is back.
pub(super) struct Syslog {
    format: SyslogFormat,
    socket: Option<UnixDatagram>,
    lost: u64,
}

impl Syslog {
    pub(super) fn open(format: SyslogFormat) -> Syslog {
        let mut syslog = Syslog { format, socket: None, lost: 0 };
        if let Err(error) = syslog.connect() {
            let path = syslog.format.options.socket.display();
            stderr::print(&format!("getid: syslog is not available, and no lines are sent to it: {path}: {error}"));
        }
        syslog
    }

    fn connect(&mut self) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        socket.connect(&self.format.options.socket)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// Sends queued lines until the queue is closed.
    pub(super) fn run(mut self, queue: &LogQueue, now_unix_ms: fn() -> i64) {
        while let Some(entry) = queue.next() {
            match entry {
                QueueItem::Line(text) => {
                    if !self.send_or_count(&text, now_unix_ms) {
                        queue.count_unwritten();
                    }
                }
                QueueItem::Dropped(count) => self.lost += count,
                // Syslog has no file.
                QueueItem::Reopen => {}
            }
        }
    }

    /// Sends a line, after a report of lost lines; returns whether the line was sent.
    fn send_or_count(&mut self, line: &str, now_unix_ms: fn() -> i64) -> bool {
        if self.lost > 0 {
            let note = format!("{} log lines did not reach syslog before this one", self.lost);
            let note = self.format.line(Level::WARN, now_unix_ms(), &note);
            if self.send(&note) {
                self.lost = 0;
            }
        }
        let is_sent = self.send(line);
        self.lost += u64::from(!is_sent);
        is_sent
    }

    fn send(&mut self, line: &str) -> bool {
        for _ in 0..2 {
            match self.socket.as_ref().map(|socket| socket.send(line.as_bytes())) {
                Some(Ok(_)) => return true,
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // The daemon was restarted, or starts later than this process.
                Some(Err(_)) | None => {
                    self.socket = None;
                    if self.connect().is_err() {
                        return false;
                    }
                }
            }
        }
        false
    }
}
