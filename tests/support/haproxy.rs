//! `haproxy` with one of the examples as its configuration.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{PATIENCE, Wire, eventually, in_time};

/// A running `haproxy`. Dropping it kills the process.
pub struct HaProxy {
    child: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

impl HaProxy {
    /// Starts an example with other ports, of which the first is its own.
    pub fn of(example: &str, ports: &[(&str, u16)]) -> HaProxy {
        let shown = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
        let shown = std::fs::read_to_string(shown).expect("the example");
        let (_, port) = ports[0];
        let mut config = shown.clone();
        for (from, to) in ports {
            let forms = ["127.0.0.1:", " port "].map(|before| (format!("{before}{from}"), format!("{before}{to}")));
            assert!(forms.iter().any(|(from, _)| shown.contains(from)), "the example has port {from}");
            config = forms.iter().fold(config, |config, (from, to)| config.replace(from, to));
        }
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("haproxy.cfg");
        std::fs::write(&path, config).expect("written");
        let mut child = Command::new("haproxy")
            .arg("-db")
            .arg("-f")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("haproxy runs");
        eventually("haproxy is ready", || {
            assert!(child.try_wait().expect("its status").is_none(), "haproxy has ended");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        HaProxy { child, port, _dir: dir }
    }

    pub fn connect(&self) -> Wire {
        Wire::connect(self.port)
    }

    /// Waits until a new connection gets an ID, and returns the server-id in it. `haproxy` skips a stalled server for a
    /// moment.
    pub fn server_id(&self) -> u64 {
        in_time("a server gives an ID", || self.an_id()) >> 19 & 3
    }

    /// Returns true if a new connection gets an ID, and false if `haproxy` closes it.
    pub fn can_issue_id(&self) -> bool {
        self.an_id().is_some()
    }

    fn an_id(&self) -> Option<u64> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut wire = Wire::new(stream);
        wire.try_send("GETID\r\n").ok()?;
        wire.try_line().ok()?.strip_prefix(':')?.parse().ok()
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
