//! A real PostgreSQL in a temporary folder. Dropping it ends and removes it. It is Debian's `postgresql`, or
//! `GETID_TEST_POSTGRES` names the folder of `initdb` and `postgres`.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};

use super::{free_port, program};

/// Long enough for a machine that is busy with other tests.
const START_PATIENCE: Duration = Duration::from_mins(1);

/// The password of `postgres`, who owns everything.
pub const OWNER_PASSWORD: &str = "owner-secret";

pub struct PostgresServer {
    /// The postmaster process.
    process: Option<Child>,
    pub port: u16,
    dir: tempfile::TempDir,
}

impl PostgresServer {
    /// Starts a server; `settings` are lines of `postgresql.conf`.
    pub fn start(settings: &[&str]) -> PostgresServer {
        // On a disk, not in memory, so that a commit has its usual cost.
        let dir = tempfile::tempdir().expect("a folder");
        let mut server = PostgresServer { process: None, port: 0, dir };
        server.make_files(settings);
        (0..10).find(|_| {
            server.port = free_port();
            server.try_start()
        });
        assert!(server.process.is_some(), "postgres does not start:\n{}", server.log());
        server
    }

    /// Returns the folder of the server, which contains the socket.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the owner's address over TCP.
    pub fn url(&self) -> String {
        self.url_of(&format!("postgres:{OWNER_PASSWORD}"), "postgres", "")
    }

    /// Returns the owner's address over the socket.
    pub fn socket_url(&self) -> String {
        let socket = self.dir().display();
        format!("postgres://postgres:{OWNER_PASSWORD}@localhost:{}/postgres?socket={socket}", self.port)
    }

    /// Returns the address for this `USER:PASSWORD`, with options.
    pub fn url_of(&self, login: &str, database: &str, options: &str) -> String {
        format!("postgres://{login}@127.0.0.1:{}/{database}{options}", self.port)
    }

    /// Runs SQL as the owner in `postgres` and returns the output, columns separated by `|`.
    pub fn psql(&self, sql: &str) -> String {
        self.psql_in("postgres", sql)
    }

    #[track_caller]
    pub fn psql_in(&self, database: &str, sql: &str) -> String {
        self.try_psql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs SQL as the owner. Returns the error if the server refuses.
    pub fn try_psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new(bin("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]);
        psql.arg(self.dir()).args(["-p", &self.port.to_string(), "-d", database, "-f", "-"]);
        psql.env("PGPASSWORD", OWNER_PASSWORD);
        let output = program::finish(&mut psql, sql, program::PATIENCE, false);
        let text = program::both(&output).trim_end().to_owned();
        if output.status.success() { Ok(text) } else { Err(text) }
    }

    /// Kills all of its processes at once (SIGKILL): like a power failure, except that the system's memory survives.
    pub fn stop_immediate(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        signal_all(&process, Signal::SIGKILL);
        process.wait().expect("its end");
    }

    /// Starts it again, with the same port.
    pub fn start_again(&mut self) {
        let end = Instant::now() + START_PATIENCE;
        while !self.try_start() {
            assert!(Instant::now() < end, "postgres does not start again:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts it as a standby, which can be read only.
    pub fn start_as_standby(&mut self) {
        fs::write(self.dir().join("data/standby.signal"), "").expect("a file");
        self.own("data/standby.signal");
        self.start_again();
    }

    /// Starts a process that reads its log as a replica does, until it is killed.
    pub fn replica(&self) -> Child {
        let folder = self.dir().join("replica");
        fs::create_dir_all(&folder).expect("a folder");
        let mut replica = Command::new(bin("pg_receivewal"));
        replica.args(["-U", "postgres", "-h"]).arg(self.dir()).args(["-p", &self.port.to_string(), "-D"]).arg(folder);
        replica.env("PGPASSWORD", OWNER_PASSWORD).stdout(Stdio::null()).stderr(Stdio::null());
        replica.spawn().expect("postgres is installed")
    }

    /// Stops it until [`PostgresServer::resume`].
    pub fn pause(&self) {
        signal_all(self.process.as_ref().expect("it runs"), Signal::SIGSTOP);
    }

    pub fn resume(&self) {
        signal_all(self.process.as_ref().expect("it runs"), Signal::SIGCONT);
    }

    /// Gives a file in its folder to the user that it runs as, and removes the rights of others.
    pub fn own(&self, path: &str) {
        let path = self.dir().join(path);
        if let Some(user) = other_user() {
            chown(&path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("a file of another user");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a file of its own");
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    fn make_files(&self, settings: &[&str]) {
        let dir = self.dir();
        if let Some(user) = other_user() {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("a folder that others may look into");
            chown(dir, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("a folder of another user");
        }
        fs::write(dir.join("password"), OWNER_PASSWORD).expect("a file");
        let mut initdb = as_user(&bin("initdb"));
        initdb.args(["--no-sync", "--no-instructions", "-A", "scram-sha-256", "-U", "postgres", "-E", "UTF8"]);
        initdb.args(["--locale=C", "--pwfile"]).arg(dir.join("password")).arg("-D").arg(dir.join("data"));
        initdb.current_dir(dir);
        program::run(&mut initdb, "");
        let socket = format!("unix_socket_directories = '{}'\n", dir.display());
        let mut lines = vec!["listen_addresses = '127.0.0.1'", "shared_buffers = 16MB", "max_connections = 40"];
        lines.extend(settings);
        lines.push(&socket);
        let mut conf = fs::read_to_string(dir.join("data/postgresql.conf")).expect("its configuration");
        conf += &lines.join("\n");
        fs::write(dir.join("data/postgresql.conf"), conf).expect("its configuration");
    }

    /// Starts the server and returns true if it answers. Another process may have the port by now: then it ends at
    /// once.
    fn try_start(&mut self) -> bool {
        let log = fs::File::options().create(true).append(true).open(self.dir().join("log")).expect("a log");
        let mut command = as_user(&bin("postgres"));
        command.arg("-D").arg(self.dir().join("data")).args(["-p", &self.port.to_string()]);
        command.current_dir(self.dir()).stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        command.process_group(0);
        let mut process = command.spawn().expect("postgres is installed");
        let end = Instant::now() + START_PATIENCE;
        loop {
            if process.try_wait().expect("its state").is_some() {
                return false;
            }
            if self.is_ready() {
                self.process = Some(process);
                return true;
            }
            assert!(Instant::now() < end, "postgres does not answer:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_ready(&self) -> bool {
        let mut ready = Command::new(bin("pg_isready"));
        ready.args(["-q", "-h"]).arg(self.dir()).args(["-p", &self.port.to_string()]);
        TcpStream::connect(("127.0.0.1", self.port)).is_ok() && ready.status().is_ok_and(|status| status.success())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop_immediate();
    }
}

/// Sends a signal to all processes of the server. Each process of PostgreSQL leads a process group, so they are found
/// by their parent. The parent is stopped first, so that it starts no more.
fn signal_all(process: &Child, signal: Signal) {
    let postmaster = pid(process);
    let _ = kill(postmaster, Signal::SIGSTOP);
    let children = children(postmaster);
    for process in children.into_iter().chain([postmaster]) {
        let _ = kill(process, signal);
        if signal == Signal::SIGSTOP {
            super::wait_stopped(process);
        }
    }
}

fn pid(process: &Child) -> Pid {
    Pid::from_raw(i32::try_from(process.id()).expect("a pid"))
}

/// Returns the child processes of `parent`.
fn children(parent: Pid) -> Vec<Pid> {
    let listed = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}

/// Returns Debian's user for `postgres` if this process is root, as which `postgres` does not run.
fn other_user() -> Option<User> {
    let is_root = nix::unistd::geteuid().is_root();
    is_root.then(|| User::from_name("postgres").expect("users").expect("the user of Debian's package"))
}

fn as_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = other_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

fn bin(name: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os("GETID_TEST_POSTGRES") {
        return PathBuf::from(folder).join(name);
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.max_by_key(|version| version.file_name().to_string_lossy().parse::<u32>().unwrap_or(0));
    newest.expect("Debian's package postgresql is installed").path().join("bin").join(name)
}

/// A pooler (`pgbouncer`) in front of a server, which gives each transaction one of three connections.
pub struct Pooler {
    process: Child,
    port: u16,
}

impl Pooler {
    pub fn start(server: &PostgresServer) -> Pooler {
        let dir = server.dir();
        fs::write(dir.join("users.txt"), format!("\"postgres\" \"{OWNER_PASSWORD}\"\n")).expect("a file");
        (0..10).find_map(|_| Pooler::try_start(server)).expect("pgbouncer starts")
    }

    /// Returns the owner's address.
    pub fn url(&self) -> String {
        format!("postgres://postgres:{OWNER_PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    fn try_start(server: &PostgresServer) -> Option<Pooler> {
        let (dir, port) = (server.dir(), free_port());
        let settings = [
            "[databases]".to_owned(),
            format!("postgres = host=127.0.0.1 port={} dbname=postgres", server.port),
            "[pgbouncer]".to_owned(),
            format!("listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir ="),
            format!("auth_type = plain\nauth_file = {}", dir.join("users.txt").display()),
            "pool_mode = transaction\ndefault_pool_size = 3\nserver_round_robin = 1".to_owned(),
        ];
        let file = dir.join("pgbouncer.ini");
        fs::write(&file, settings.join("\n") + "\n").expect("a file");
        let mut command = as_user(Path::new("/usr/sbin/pgbouncer"));
        let mut process = command
            .arg("-q")
            .arg(file)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("pgbouncer is installed");
        let end = Instant::now() + START_PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if process.try_wait().expect("its state").is_some() {
                return None;
            }
            assert!(Instant::now() < end, "pgbouncer does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Pooler { process, port })
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
