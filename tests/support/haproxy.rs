//! `haproxy` with one of the examples as its configuration.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{PATIENCE, Wire, eventually};

/// Ends with the value.
pub struct HaProxy {
    child: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

impl HaProxy {
    /// An example with other ports, of which the first one is its own.
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

    /// The server that a new connection's ID comes from.
    pub fn server_id(&self) -> u64 {
        self.connect().id() >> 19 & 3
    }

    /// Whether a new connection gets an ID; one that `haproxy` closes does not.
    pub fn gives_an_id(&self) -> bool {
        let mut first = [0];
        let mut ask = || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GETID\r\n")?;
            stream.read_exact(&mut first)
        };
        ask().is_ok() && first == *b":"
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
