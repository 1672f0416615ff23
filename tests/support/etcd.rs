//! A real etcd of one or more members in a temporary folder: Debian's `etcd-server`. Dropping it ends and removes it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::http::{Http, Response, request};
use super::{free_port, in_time, program};

/// Long enough for a machine that is busy with other tests.
const START_PATIENCE: Duration = Duration::from_mins(1);

/// The password of `ids`, who may write below the prefix `getid`, and of `root`.
pub const PASSWORD: &str = "owner-secret";

pub struct EtcdCluster {
    pub members: Vec<EtcdMember>,
    dir: tempfile::TempDir,
}

pub struct EtcdMember {
    process: Option<Child>,
    /// Port for clients.
    pub port: u16,
    /// Port of the health page without TLS.
    health_port: u16,
    words: Vec<String>,
    dir: PathBuf,
}

impl EtcdCluster {
    /// Starts a single member; `words` are options of `etcd`.
    pub fn one(words: &[&str]) -> EtcdCluster {
        EtcdCluster::start(1, words)
    }

    /// Starts `count` members, which elect a leader in a second.
    pub fn start(count: usize, words: &[&str]) -> EtcdCluster {
        // On a disk, not in memory, so that a write has its usual cost.
        let dir = tempfile::tempdir().expect("a folder");
        // Another process may take a port before etcd does.
        let started = (0..10).find_map(|attempt| {
            let folder = dir.path().join(attempt.to_string());
            fs::create_dir(&folder).expect("a folder");
            let mut members = members(count, words, &folder);
            members.iter_mut().for_each(EtcdMember::spawn);
            members.iter_mut().all(EtcdMember::wait_healthy).then_some(members)
        });
        let log = || fs::read_to_string(dir.path().join("9/m0/log")).unwrap_or_default();
        let members = started.unwrap_or_else(|| panic!("etcd does not start:\n{}", log()));
        EtcdCluster { members, dir }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the address with all members.
    pub fn url(&self) -> String {
        self.url_of("", "getid")
    }

    /// Returns the address with this `USER:PASSWORD@` and this path behind the members.
    pub fn url_of(&self, login: &str, path: &str) -> String {
        let places: Vec<_> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("etcd://{login}{}/{path}", places.join(","))
    }

    /// Sends a request to the first member's gateway without TLS, as `token`. Fails if etcd refuses.
    #[track_caller]
    pub fn ask(&self, token: &str, path: &str, body: &serde_json::Value) -> serde_json::Value {
        let answer = self.members[0].try_ask(token, path, body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// Removes all keys.
    pub fn clear(&self) {
        self.ask("", "/v3/kv/deleterange", &serde_json::json!({ "key": "AA==", "range_end": "AA==" }));
    }

    /// Creates the users `root`, `ids` (who may read and write below `getid/`) and `other` (without rights), and
    /// enables authentication.
    pub fn switch_users_on(&self) {
        for user in ["root", "ids", "other"] {
            self.ask("", "/v3/auth/user/add", &serde_json::json!({ "name": user, "password": PASSWORD }));
            self.ask("", "/v3/auth/role/add", &serde_json::json!({ "name": user }));
            self.ask("", "/v3/auth/user/grant", &serde_json::json!({ "user": user, "role": user }));
        }
        // The range from `getid/` to `getid0`.
        let right = serde_json::json!({ "permType": "READWRITE", "key": "Z2V0aWQv", "range_end": "Z2V0aWQw" });
        self.ask("", "/v3/auth/role/grant", &serde_json::json!({ "name": "ids", "perm": right }));
        self.ask("", "/v3/auth/enable", &serde_json::json!({}));
    }

    /// Kills all members (kill -9).
    pub fn kill(&mut self) {
        self.members.iter_mut().for_each(EtcdMember::kill);
    }

    /// Starts the members that are stopped, and waits until they serve.
    pub fn start_again(&mut self) {
        let ended: Vec<_> = self.members.iter_mut().filter(|member| member.process.is_none()).collect();
        for member in ended {
            member.spawn();
        }
        let end = Instant::now() + START_PATIENCE;
        for member in &mut self.members {
            // Another process may hold its port for a while.
            while !member.wait_healthy() {
                assert!(Instant::now() < end, "etcd does not start again:\n{}", member.log());
                std::thread::sleep(Duration::from_millis(100));
                member.spawn();
            }
        }
    }

    /// Saves the current data: kills the members, copies the data and starts them again.
    pub fn save(&mut self) {
        self.kill();
        for member in &self.members {
            let _ = fs::remove_dir_all(member.dir.join("saved"));
            copy(&member.dir.join("data"), &member.dir.join("saved"));
        }
        self.start_again();
    }

    /// Restores the saved data: later writes are lost.
    pub fn restore(&mut self) {
        self.kill();
        for member in &self.members {
            fs::remove_dir_all(member.dir.join("data")).expect("its data");
            copy(&member.dir.join("saved"), &member.dir.join("data"));
        }
        self.start_again();
    }

    /// Returns the leader, as soon as one is elected.
    #[track_caller]
    pub fn leader(&self) -> usize {
        let status = |member: &EtcdMember| member.try_ask("", "/v3/maintenance/status", &serde_json::json!({})).json();
        in_time("a leader", || {
            let leader = status(&self.members[0])["leader"].clone();
            let leads = |member: &EtcdMember| status(member)["header"]["member_id"] == leader;
            // Between two leaders the field is null.
            if leader.is_null() { None } else { self.members.iter().position(leads) }
        })
    }
}

impl EtcdMember {
    /// Kills it (kill -9).
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.kill().expect("its end");
        process.wait().expect("its end");
    }

    /// Stops it until [`EtcdMember::resume`].
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Returns the folder of its data.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    pub fn try_ask(&self, token: &str, path: &str, body: &serde_json::Value) -> Response {
        let token = format!("Authorization: {token}");
        let headers = if token.ends_with(' ') { vec![] } else { vec![token.as_str()] };
        Http::connect(self.port).ask(&format!("POST {path}"), &headers, &body.to_string())
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("a pid"));
        kill(pid, signal).expect("it runs");
        if signal == Signal::SIGSTOP {
            super::wait_stopped(pid);
        }
    }

    fn spawn(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.dir.join("log")).expect("a log");
        let mut command = Command::new("etcd");
        command.args(&self.words).current_dir(&self.dir).stdin(Stdio::null());
        // Options in the tester's environment have no effect.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD")) {
            command.env_remove(name);
        }
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        self.process = Some(command.spawn().expect("etcd-server is installed"));
    }

    /// Waits until it serves. Returns false if it ends.
    fn wait_healthy(&mut self) -> bool {
        let end = Instant::now() + START_PATIENCE;
        loop {
            let Some(process) = &mut self.process else { return false };
            if process.try_wait().expect("its state").is_some() {
                self.process = None;
                return false;
            }
            if self.is_healthy() {
                return true;
            }
            assert!(Instant::now() < end, "etcd is not healthy:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_healthy(&self) -> bool {
        let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", self.health_port)) else { return false };
        let mut http = Http::on(stream);
        http.stream.write_all(request("GET /health", &[], "").as_bytes()).is_ok()
            && http.try_response().is_ok_and(|answer| answer.text().contains("true"))
    }
}

impl Drop for EtcdMember {
    fn drop(&mut self) {
        self.kill();
    }
}

fn members(count: usize, words: &[&str], folder: &Path) -> Vec<EtcdMember> {
    let scheme = if words.contains(&"--cert-file") { "https" } else { "http" };
    let peers: Vec<_> = (0..count).map(|_| free_port()).collect();
    let all: Vec<_> = peers.iter().enumerate().map(|(at, port)| format!("m{at}=http://127.0.0.1:{port}")).collect();
    let all = all.join(",");
    let member = |(at, peer_port): (usize, &u16)| {
        let (port, health_port) = (free_port(), free_port());
        let dir = folder.join(format!("m{at}"));
        fs::create_dir(&dir).expect("a folder");
        let clients = format!("{scheme}://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let name = format!("m{at}");
        let health = format!("http://127.0.0.1:{health_port}");
        let own = [
            ["--name", &name],
            ["--data-dir", "data"],
            ["--listen-client-urls", &clients],
            ["--advertise-client-urls", &clients],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &all],
            ["--listen-metrics-urls", &health],
            ["--logger", "zap"],
            ["--log-outputs", "stderr"],
        ];
        let words = own.iter().flatten().chain(words).map(|word| (*word).to_owned()).collect();
        EtcdMember { process: None, port, health_port, words, dir }
    };
    peers.iter().enumerate().map(member).collect()
}

fn copy(from: &Path, to: &Path) {
    program::run(Command::new("cp").arg("-a").args([from, to]), "");
}
