//! Readiness, status and the watchdog by systemd's protocol.
//!
//! The server does not depend on it: if it fails, the caller logs the error and keeps serving, as Redis does.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use getid_config::Supervised;

/// Longest time that a hanging service manager may delay a message. It delays a start and a stop, but does not prevent
/// them, and other work of the thread continues.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Reports the server's state to the service manager: `sd_notify(3)`, without the library. It needs a Tokio runtime.
#[derive(Debug)]
pub(super) struct Notifier {
    socket: Option<tokio::net::UnixDatagram>,
}

impl Notifier {
    /// Opens a notifier for `supervised`, with the value of `NOTIFY_SOCKET`.
    ///
    /// Without a service manager the notifier does nothing, and if `supervised` asks for one, there is a warning.
    pub(super) fn open(supervised: Supervised, notify_socket: Option<OsString>) -> (Notifier, Option<NotifyWarning>) {
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

    /// Reports that the server answers clients from now on. `status` is the text of `systemctl status`.
    pub(super) async fn ready(&self, status: &str) -> io::Result<()> {
        self.send(&format!("READY=1\nSTATUS={}\n", one_line(status))).await
    }

    pub(super) async fn stopping(&self) -> io::Result<()> {
        self.send("STOPPING=1\nSTATUS=Stopping\n").await
    }

    /// Reports that the server is alive. To be called every [`watchdog_every`].
    pub(super) async fn alive(&self) -> io::Result<()> {
        self.send("WATCHDOG=1\n").await
    }

    pub(super) fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// Sets the text that `systemctl status` shows.
    pub(super) async fn status(&self, status: &str) -> io::Result<()> {
        self.send(&format!("STATUS={}\n", one_line(status))).await
    }

    async fn send(&self, message: &str) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        match tokio::time::timeout(SEND_TIMEOUT, socket.send(message.as_bytes())).await {
            Ok(sent) => sent.map(|_| ()),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it did not accept the message within {} s", SEND_TIMEOUT.as_secs()),
            )),
        }
    }
}

/// Returns the interval of alive messages for a service manager with `WatchdogSec=`. It is half of the time after which
/// the manager kills the server, as `sd_watchdog_enabled(3)` advises. The arguments are the values of `WATCHDOG_USEC`
/// and `WATCHDOG_PID`. Returns `None` without a watchdog, or with one for another process.
pub(super) fn watchdog_every(usec: Option<&OsStr>, pid: Option<&OsStr>) -> Option<Duration> {
    let number = |text: &OsStr| text.to_str()?.parse::<u64>().ok();
    if pid.is_some_and(|pid| number(pid) != Some(u64::from(std::process::id()))) {
        return None;
    }
    let half_us = number(usec?)? / 2;
    (half_us > 0).then(|| Duration::from_micros(half_us))
}

/// Replaces line breaks, each of which would begin another assignment.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn connect(address: &OsString) -> io::Result<tokio::net::UnixDatagram> {
    let bytes = address.as_bytes();
    let address = match bytes.first() {
        Some(b'@') => SocketAddr::from_abstract_name(&bytes[1..])?,
        Some(b'/') => SocketAddr::from_pathname(address)?,
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor an abstract socket")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    tokio::net::UnixDatagram::from_std(socket)
}

#[derive(Debug, thiserror::Error)]
pub(super) enum NotifyWarning {
    #[error(
        "supervised is systemd, but NOTIFY_SOCKET is not set: start and stop are not reported; the unit needs Type=notify"
    )]
    NoSocket,
    #[error("supervised upstart is not supported: the server starts as with supervised no")]
    Upstart,
    #[error("NOTIFY_SOCKET {}: {error}: start and stop are not reported to systemd", .address.display())]
    Connect { address: OsString, error: io::Error },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    #[tokio::test]
    async fn systemd_gets_start_status_and_stop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        for supervised in [Supervised::Auto, Supervised::Systemd] {
            let (notifier, warning) = Notifier::open(supervised, Some(path.clone().into()));
            assert!(warning.is_none());
            notifier.ready("server-id 3\nREADY=0").await.unwrap();
            assert_eq!(received(&systemd), "READY=1\nSTATUS=server-id 3 READY=0\n");
            notifier.status("1 client").await.unwrap();
            assert_eq!(received(&systemd), "STATUS=1 client\n");
            notifier.stopping().await.unwrap();
            assert_eq!(received(&systemd), "STOPPING=1\nSTATUS=Stopping\n");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_manager_that_hangs_delays_no_other_task() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let _systemd = UnixDatagram::bind(&path).unwrap();
        let (notifier, _) = Notifier::open(Supervised::Auto, Some(path.into()));
        // Some messages fit into the socket's buffer.
        let sends = async { while notifier.alive().await.is_ok() {} };
        let others = std::cell::Cell::new(0);
        let turns = async {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                others.set(others.get() + 1);
            }
        };
        tokio::select! { () = sends => {}, () = turns => {} }
        assert!(others.get() >= 19, "{others:?}");
        let error = notifier.alive().await.unwrap_err().to_string();
        assert!(error.contains("did not accept the message within 2 s"), "{error}");
    }

    #[tokio::test]
    async fn an_abstract_socket_is_reached() {
        let name = format!("getid-test-notify-{}", std::process::id());
        let systemd = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let (notifier, warning) = Notifier::open(Supervised::Auto, Some(format!("@{name}").into()));
        assert!(warning.is_none());
        notifier.ready("").await.unwrap();
        assert_eq!(received(&systemd), "READY=1\nSTATUS=\n");
    }

    async fn check(supervised: Supervised, socket: Option<&str>, warning_has: Option<&str>) {
        let (notifier, warning) = Notifier::open(supervised, socket.map(Into::into));
        let warning = warning.map(|warning| warning.to_string());
        match warning_has {
            None => assert_eq!(warning, None),
            Some(part) => assert!(warning.as_deref().is_some_and(|text| text.contains(part)), "{warning:?}"),
        }
        notifier.ready("no listener").await.unwrap();
    }

    #[test]
    fn the_watchdog_gets_two_messages_in_its_time() {
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

    #[tokio::test]
    async fn without_a_manager_nothing_is_sent() {
        check(Supervised::No, Some("/run/systemd/notify"), None).await;
        check(Supervised::Auto, None, None).await;
        check(Supervised::Auto, Some(""), None).await;
        check(Supervised::Systemd, None, Some("Type=notify")).await;
        check(Supervised::Systemd, Some("/nonexistent/notify"), Some("/nonexistent/notify")).await;
        check(Supervised::Systemd, Some("vsock:2:1234"), Some("vsock")).await;
        check(Supervised::Upstart, Some("/run/x"), Some("upstart")).await;
    }
}
