//! A real MariaDB in a temporary folder: Debian's `mariadb-server`. Dropping it ends and removes it.
//!
//! It listens on a socket in its folder, and on a port only if a test sets one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::program;

/// Long enough for a machine that is busy with other tests.
const START_PATIENCE: Duration = Duration::from_mins(1);

/// The password of `getid`, who owns the database `ids`.
pub const PASSWORD: &str = "owner-secret";

pub struct MariadbServer {
    process: Option<Child>,
    words: Vec<String>,
    dir: tempfile::TempDir,
}

impl MariadbServer {
    /// Starts a server; `words` are options of `mariadbd`.
    pub fn start(words: &[&str]) -> MariadbServer {
        // On a disk, not in memory, so that a commit has its usual cost.
        let dir = tempfile::tempdir().expect("a folder");
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let mut server = MariadbServer { process: None, words, dir };
        let mut install = Command::new("mariadb-install-db");
        install.arg("--no-defaults").args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.arg(format!("--datadir={}", server.dir().join("data").display())).args(SMALL).args(as_root());
        // Own temporary folder: a starting server removes files there that it takes for leftovers of an earlier run.
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

    /// Returns the owner's address.
    pub fn url(&self) -> String {
        self.url_of(&format!("getid:{PASSWORD}"), "ids", "")
    }

    /// Returns the address for this `USER:PASSWORD`, over the socket; `options` begin with `&`.
    pub fn url_of(&self, login: &str, database: &str, options: &str) -> String {
        format!("mysql://{login}@/{database}?socket={}{options}", self.socket().display())
    }

    /// Runs SQL as root in `ids` and returns the output, columns separated by tabs.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs SQL as root in `ids`. Returns the error if the server refuses.
    pub fn try_sql(&self, sql: &str) -> Result<String, String> {
        let mut client = self.client();
        if !sql.starts_with("CREATE DATABASE") {
            client.arg("ids");
        }
        let output = program::finish(&mut client, sql, program::PATIENCE, false);
        let text = program::both(&output).trim_end().to_owned();
        if output.status.success() { Ok(text) } else { Err(text) }
    }

    /// Returns the client program, as root.
    pub fn client(&self) -> Command {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
        client.arg(format!("--socket={}", self.socket().display()));
        // Overrides a server's limit on long statements, so that the test's own statements may take long on a busy
        // machine.
        client.arg("--init-command=SET SESSION max_statement_time = 0, sql_big_selects = 1");
        client
    }

    /// Kills it (kill -9).
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.kill().expect("its end");
        process.wait().expect("its end");
    }

    /// Starts it, also after a kill.
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

    /// Stops it until [`MariadbServer::resume`].
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

/// Options for a small server.
const SMALL: [&str; 3] =
    ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-data-file-path=ibdata1:12M:autoextend"];

/// Returns the option to run as root, if this process is root, who owns the folder.
fn as_root() -> Option<&'static str> {
    nix::unistd::geteuid().is_root().then_some("--user=root")
}
