//! A real MariaDB in a folder of its own, gone when dropped: Debian's `mariadb-server`.
//!
//! It listens on a socket in its folder, and on a port only where a test wants that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::program;

/// Seconds are for a machine that is busy with other tests.
const START_PATIENCE: Duration = Duration::from_mins(1);

/// The password of `getid`, who owns the database `ids`.
pub const PASSWORD: &str = "owner-secret";

pub struct MariadbServer {
    process: Option<Child>,
    words: Vec<String>,
    dir: tempfile::TempDir,
}

impl MariadbServer {
    /// `words` are options of `mariadbd`.
    pub fn start(words: &[&str]) -> MariadbServer {
        // Not in memory: a commit is to cost what it costs on a disk.
        let dir = tempfile::tempdir().expect("a folder");
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let mut server = MariadbServer { process: None, words, dir };
        let mut install = Command::new("mariadb-install-db");
        install.arg("--no-defaults").args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.arg(format!("--datadir={}", server.dir().join("data").display())).args(SMALL).args(as_root());
        // One that starts removes what it takes for its own of an earlier life, in a folder that all have.
        fs::create_dir(server.dir().join("tmp")).expect("a folder");
        install.arg(format!("--tmpdir={}", server.dir().join("tmp").display()));
        program::run(install.current_dir(server.dir()), "");
        server.start_again();
        server.sql(&format!(
            "CREATE DATABASE ids; CREATE USER getid@localhost IDENTIFIED BY '{PASSWORD}'; \
             CREATE USER getid@'%' IDENTIFIED BY '{PASSWORD}'; \
             GRANT ALL ON ids.* TO getid@localhost; GRANT ALL ON ids.* TO getid@'%';"
        ));
        server
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.dir().join("socket")
    }

    /// The owner's address.
    pub fn url(&self) -> String {
        self.url_of(&format!("getid:{PASSWORD}"), "ids", "")
    }

    /// The address of another `USER:PASSWORD`, by the socket; `options` begin with `&`.
    pub fn url_of(&self, login: &str, database: &str, options: &str) -> String {
        format!("mysql://{login}@/{database}?socket={}{options}", self.socket().display())
    }

    /// Runs SQL as root in `ids`; what it says, columns split by tabs.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).unwrap_or_else(|said| panic!("{sql}: {said}"))
    }

    /// The same, where it may be refused.
    pub fn try_sql(&self, sql: &str) -> Result<String, String> {
        let mut client = self.client();
        if !sql.starts_with("CREATE DATABASE") {
            client.arg("ids");
        }
        let output = program::finish(&mut client, sql, program::PATIENCE, false);
        let said = program::both(&output).trim_end().to_owned();
        if output.status.success() { Ok(said) } else { Err(said) }
    }

    /// The program that asks it, as root.
    pub fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
        client.arg(format!("--socket={}", self.socket().display()));
        // Of a server that ends long statements: what a test does has the time that a busy machine needs.
        client.arg("--init-command=SET SESSION max_statement_time = 0, sql_big_selects = 1");
        client
    }

    /// Ends it as kill -9 does.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.kill().expect("its end");
        process.wait().expect("its end");
    }

    /// Starts it, or starts it again.
    pub fn start_again(&mut self) {
        let end = Instant::now() + START_PATIENCE;
        let log = fs::File::options().create(true).append(true).open(self.dir().join("log")).expect("a log");
        let mut command = Command::new("mariadbd");
        command.arg("--no-defaults").args(SMALL).args(as_root()).args(["--console", "--plugin-maturity=unknown"]);
        command.arg(format!("--datadir={}", self.dir().join("data").display()));
        command.arg(format!("--socket={}", self.socket().display()));
        command.arg(format!("--tmpdir={}", self.dir().join("tmp").display()));
        command.arg(format!("--pid-file={}", self.dir().join("pid").display()));
        if !self.words.iter().any(|word| word.starts_with("--port")) {
            command.arg("--skip-networking");
        }
        command.args(&self.words).current_dir(self.dir()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        let mut process = command.spawn().expect("mariadb-server is installed");
        while !self.is_ready() {
            let state = process.try_wait().expect("its state");
            assert!(state.is_none(), "mariadbd ends: {state:?}\n{}", self.log());
            assert!(Instant::now() < end, "mariadbd does not answer:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process = Some(process);
    }

    /// Nothing of it moves until [`MariadbServer::resume`].
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        let mut client = self.client();
        client.args(["--execute", "SELECT 1"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        client.status().expect("mariadb-client is installed").success()
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        let pid = Pid::from_raw(i32::try_from(process.id()).expect("a pid"));
        kill(pid, signal).expect("it runs");
        if signal == Signal::SIGSTOP {
            super::wait_stopped(pid);
        }
    }
}

impl Drop for MariadbServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// So that a server is small.
const SMALL: [&str; 3] =
    ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-data-file-path=ibdata1:12M:autoextend"];

/// Who is root runs it as root: the folder is root's.
fn as_root() -> Option<&'static str> {
    nix::unistd::geteuid().is_root().then_some("--user=root")
}
