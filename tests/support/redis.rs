//! A real `redis-server` on a free port. Dropping it ends and removes it.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{PATIENCE, Wire, free_port};

pub struct RedisServer {
    process: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

impl RedisServer {
    /// Starts a server. Another process may take the port before Redis does; then another port is tried.
    pub fn start(words: &[&str]) -> RedisServer {
        (0..10).find_map(|_| RedisServer::try_start(words)).expect("redis-server starts")
    }

    fn try_start(words: &[&str]) -> Option<RedisServer> {
        let (port, dir) = (free_port(), tempfile::tempdir().expect("a folder"));
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        command.arg(dir.path()).args(words).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().expect("redis-server is installed");
        let mut server = RedisServer { process, port, _dir: dir };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "redis-server does not answer");
            if !server.runs() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // The answer came from this server only if its process still runs.
        std::thread::sleep(Duration::from_millis(20));
        server.runs().then_some(server)
    }

    fn runs(&mut self) -> bool {
        self.process.try_wait().expect("its status").is_none()
    }

    pub fn connect(&self) -> Wire {
        Wire::connect(self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
