//! What a process manager is told: a pid in a file, and readiness by systemd's protocol.
//!
//! Both are courtesies to others. Where they fail, the caller logs it and serves on, as Redis does.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::Supervised;

/// Tells the service manager how far the server is: `sd_notify(3)`, without the library.
#[derive(Debug)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
}

impl Notifier {
    /// A notifier for `supervised`, with the value of `NOTIFY_SOCKET`.
    ///
    /// There is always one; where nobody can be told it does nothing. The warning says so if somebody wanted it.
    pub fn open(supervised: Supervised, notify_socket: Option<OsString>) -> (Notifier, Option<NotifyWarning>) {
        let silent = |warning| (Notifier { socket: None }, warning);
        let address = notify_socket.filter(|value| !value.is_empty());
        match (supervised, address) {
            (Supervised::No, _) | (Supervised::Auto, None) => silent(None),
            (Supervised::Upstart, _) => silent(Some(NotifyWarning::Upstart)),
            (Supervised::Systemd, None) => silent(Some(NotifyWarning::NoSocket)),
            (Supervised::Systemd | Supervised::Auto, Some(address)) => match connect(&address) {
                Ok(socket) => (Notifier { socket: Some(socket) }, None),
                Err(error) => silent(Some(NotifyWarning::Connect { address, error })),
            },
        }
    }

    /// The server answers clients from now on. `status` is what `systemctl status` shows.
    ///
    /// # Errors
    ///
    /// When the service manager does not take the message.
    pub fn ready(&self, status: &str) -> io::Result<()> {
        self.send(&format!("READY=1\nSTATUS={}\n", one_line(status)))
    }

    /// The server has begun to stop.
    ///
    /// # Errors
    ///
    /// When the service manager does not take the message.
    pub fn stopping(&self) -> io::Result<()> {
        self.send("STOPPING=1\nSTATUS=Stopping\n")
    }

    /// The server is alive: to be said as often as [`watchdog_every`] tells.
    ///
    /// # Errors
    ///
    /// When the service manager does not take the message.
    pub fn alive(&self) -> io::Result<()> {
        self.send("WATCHDOG=1\n")
    }

    /// Whether anybody is told.
    pub fn is_heard(&self) -> bool {
        self.socket.is_some()
    }

    /// What `systemctl status` is to show from now on.
    ///
    /// # Errors
    ///
    /// When the service manager does not take the message.
    pub fn status(&self, status: &str) -> io::Result<()> {
        self.send(&format!("STATUS={}\n", one_line(status)))
    }

    fn send(&self, message: &str) -> io::Result<()> {
        match &self.socket {
            Some(socket) => socket.send(message.as_bytes()).map(|_| ()),
            None => Ok(()),
        }
    }
}

/// How often a service manager that has `WatchdogSec=` is to hear that the server is alive: twice in the time after which
/// it would kill it, as `sd_watchdog_enabled(3)` advises. From the values of `WATCHDOG_USEC` and `WATCHDOG_PID`; `None`
/// without a watchdog, or with one that is meant for another process.
pub fn watchdog_every(usec: Option<&OsStr>, pid: Option<&OsStr>) -> Option<Duration> {
    let number = |text: &OsStr| text.to_str()?.parse::<u64>().ok();
    if pid.is_some_and(|pid| number(pid) != Some(u64::from(std::process::id()))) {
        return None;
    }
    let half_us = number(usec?)? / 2;
    (half_us > 0).then(|| Duration::from_micros(half_us))
}

/// A line break would begin another assignment.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn connect(address: &OsString) -> io::Result<UnixDatagram> {
    let bytes = address.as_bytes();
    let address = match bytes.first() {
        Some(b'@') => SocketAddr::from_abstract_name(&bytes[1..])?,
        Some(b'/') => SocketAddr::from_pathname(address)?,
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor an abstract socket")),
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that hangs may delay a start; it must not prevent it.
    socket.set_write_timeout(Some(Duration::from_secs(2)))?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// Why nobody will be told, though somebody wanted it.
#[derive(Debug)]
pub enum NotifyWarning {
    /// `supervised systemd`, but systemd did not start this process with `Type=notify`.
    NoSocket,
    /// `supervised upstart`.
    Upstart,
    /// The socket does not take a connection.
    Connect {
        /// What `NOTIFY_SOCKET` says.
        address: OsString,
        /// The OS error.
        error: io::Error,
    },
}

impl fmt::Display for NotifyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotifyWarning::NoSocket => f.write_str(
                "supervised is systemd, but NOTIFY_SOCKET is not set: nobody is told about start and stop; \
                 the unit needs Type=notify",
            ),
            NotifyWarning::Upstart => {
                f.write_str("supervised upstart is not supported: the server starts as with supervised no")
            }
            NotifyWarning::Connect { address, error } => {
                write!(f, "NOTIFY_SOCKET {}: {error}: systemd is not told about start and stop", address.display())
            }
        }
    }
}

/// The process id in a file (`pidfile`), for scripts that send signals.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    text: String,
}

impl PidFile {
    /// Writes this process's id to `path`. What was there is replaced, as Redis does: a crash leaves its file behind.
    ///
    /// # Errors
    ///
    /// When the file can't be written; the message names the path.
    pub fn write(path: &Path) -> Result<PidFile, PidFileError> {
        let wrap = |error| PidFileError { path: path.to_owned(), error };
        let path = std::path::absolute(path).map_err(wrap)?;
        let text = format!("{}\n", std::process::id());
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        options.open(&path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(wrap)?;
        Ok(PidFile { path, text })
    }

    /// Removes the file at a clean exit, unless another process has written its id there since.
    ///
    /// # Errors
    ///
    /// When it is ours and can't be removed. One that is gone already is no error.
    pub fn remove(self) -> Result<(), PidFileError> {
        let ours = fs::read_to_string(&self.path).is_ok_and(|text| text == self.text);
        match if ours { fs::remove_file(&self.path) } else { Ok(()) } {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PidFileError { path: self.path, error }),
            _ => Ok(()),
        }
    }
}

/// Why there is no pid file.
#[derive(Debug, thiserror::Error)]
#[error("pid file {}: {error}", path.display())]
pub struct PidFileError {
    /// Its path.
    pub path: PathBuf,
    /// The OS error.
    pub error: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    #[test]
    fn systemd_is_told_of_start_status_and_stop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        for supervised in [Supervised::Auto, Supervised::Systemd] {
            let (notifier, warning) = Notifier::open(supervised, Some(path.clone().into()));
            assert!(warning.is_none());
            notifier.ready("server-id 3\nREADY=0").unwrap();
            assert_eq!(received(&systemd), "READY=1\nSTATUS=server-id 3 READY=0\n");
            notifier.status("1 client").unwrap();
            assert_eq!(received(&systemd), "STATUS=1 client\n");
            notifier.stopping().unwrap();
            assert_eq!(received(&systemd), "STOPPING=1\nSTATUS=Stopping\n");
        }
    }

    #[test]
    fn an_abstract_socket_is_reached() {
        let name = format!("getid-test-notify-{}", std::process::id());
        let systemd = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let (notifier, warning) = Notifier::open(Supervised::Auto, Some(format!("@{name}").into()));
        assert!(warning.is_none());
        notifier.ready("").unwrap();
        assert_eq!(received(&systemd), "READY=1\nSTATUS=\n");
    }

    #[track_caller]
    fn check(supervised: Supervised, socket: Option<&str>, warning_has: Option<&str>) {
        let (notifier, warning) = Notifier::open(supervised, socket.map(Into::into));
        let warning = warning.map(|warning| warning.to_string());
        match warning_has {
            None => assert_eq!(warning, None),
            Some(part) => assert!(warning.as_deref().is_some_and(|text| text.contains(part)), "{warning:?}"),
        }
        notifier.ready("nobody listens").unwrap();
    }

    #[test]
    fn the_watchdog_hears_twice_in_its_time() {
        let check = |usec: Option<&str>, pid: Option<&str>, expected_ms: Option<u64>| {
            let every = watchdog_every(usec.map(OsStr::new), pid.map(OsStr::new));
            assert_eq!(every, expected_ms.map(Duration::from_millis), "{usec:?} {pid:?}");
        };
        let own = std::process::id().to_string();
        check(None, None, None);
        check(Some("30000000"), None, Some(15_000));
        check(Some("30000000"), Some(&own), Some(15_000));
        check(Some("30000000"), Some("1"), None);
        check(Some("30000000"), Some("x"), None);
        check(Some("0"), None, None);
        check(Some("soon"), None, None);
    }

    #[test]
    fn nobody_is_told_where_nobody_is() {
        check(Supervised::No, Some("/run/systemd/notify"), None);
        check(Supervised::Auto, None, None);
        check(Supervised::Auto, Some(""), None);
        check(Supervised::Systemd, None, Some("Type=notify"));
        check(Supervised::Systemd, Some("/nonexistent/notify"), Some("/nonexistent/notify"));
        check(Supervised::Systemd, Some("vsock:2:1234"), Some("vsock"));
        check(Supervised::Upstart, Some("/run/x"), Some("upstart"));
    }

    #[test]
    fn a_pid_file_is_written_and_removed_while_it_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("getid.pid");
        fs::write(&path, "1234567890\nleft by a crash\n").unwrap();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        file.remove().unwrap();
        assert!(!path.exists());

        let file = PidFile::write(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        file.remove().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");

        let file = PidFile::write(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file.remove().unwrap();

        let error = PidFile::write(&dir.path().join("no/getid.pid")).unwrap_err().to_string();
        assert!(error.contains("no/getid.pid: No such file"), "{error}");
    }
}
