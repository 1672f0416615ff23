//! A real server: the built binary, on loopback, in a temporary folder, ended with the test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{PATIENCE, Wire, eventually, folder};

/// A running `getid serve`. Dropping it kills the process and waits for its end.
pub struct Server {
    child: Child,
    pub port: u16,
    pub dir: PathBuf,
    log: mpsc::Receiver<String>,
    log_seen: Vec<String>,
    own_dir: Option<tempfile::TempDir>,
}

/// Environment variable with which a server starts without the 250 ms pause of a start without a record. Only a debug
/// build for tests reads it: a release build that `GETID_TEST_BINARY` names pauses.
pub const NO_START_PAUSE: &str = "GETID_TEST_NO_START_PAUSE";

/// Returns the path of the binary under test; `GETID_TEST_BINARY` names another build of it.
pub fn binary() -> PathBuf {
    std::env::var_os("GETID_TEST_BINARY").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_getid")), PathBuf::from)
}

/// Arguments for a layout of one ID per millisecond.
pub const NARROW: &str = "--id-range 2 --shard-range 0 --random-range 19";

/// Arguments for 100 ms of borrowing, with a save of the watermark every 50 ms or so.
pub const SHORT_LEAD: &str = "--id-max-borrow-ms 100 --id-watermark-lead-ms 100";

/// Splits a command line into its arguments at blanks.
pub fn words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

/// Returns a command that runs the binary without configuration from the tester's environment.
pub fn getid() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GETID_") {
            command.env_remove(name);
        }
    }
    // Tests run in parallel, and most of their servers have server-id 0.
    command.env("GETID_ID_MACHINE_CLAIM", "no");
    // A store may stall for a while; a test of the wait sets its own limit.
    command.env("GETID_SEQUENCE_WAIT_MS", "15000");
    command.env(NO_START_PAUSE, "1");
    // The machine may stall a server in the middle of a save or a statement.
    command.env("GETID_TEST_PATIENCE_MS", "15000");
    command
}

/// Returns a port that was free a moment ago and that no other test gets meanwhile. It is below the range of the
/// system, and in a block that this process has locked.
pub fn free_port() -> u16 {
    const FIRST: u16 = 15_000;
    const BLOCKS: u16 = 30;
    const PORTS: u16 = 500;
    static NEXT_PORT: AtomicU16 = AtomicU16::new(0);
    static BLOCK: LazyLock<(u16, File)> = LazyLock::new(|| {
        let blocks = (0..BLOCKS).filter_map(|block| {
            let name = format!("getid-test-ports-{block}.lock");
            Some((block, File::create(std::env::temp_dir().join(name)).ok()?))
        });
        let mut free = blocks.filter(|(_, file)| file.try_lock().is_ok());
        free.next().expect("a block of ports; 30 processes of tests have theirs")
    });
    loop {
        let port = FIRST + BLOCK.0 * PORTS + NEXT_PORT.fetch_add(1, Ordering::Relaxed) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Changes the command so that a shell runs `first` before the server, such as `ulimit -n 80`.
pub fn by_shell(server: &mut Command, first: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{first} && exec \"$0\" \"$@\"")]).arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    *server = shell;
}

/// Raises the limit of open files to the hard limit, for this process and the servers that it starts later. Returns the
/// limit.
pub fn raise_open_files() -> usize {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("raised to the hard limit");
    usize::try_from(hard).unwrap_or(usize::MAX)
}

/// Raises the limit of open files. Fails if it stays below `needed`.
pub fn need_open_files(needed: usize) {
    let hard = raise_open_files();
    assert!(
        hard >= needed,
        "the hard limit of open files is {hard}, and this test needs {needed}: ulimit -Hn {needed}"
    );
}

/// Returns true if the listener on `port` answers, even with an error.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(b"PING\r\n").is_ok() && matches!(stream.read(&mut [0]), Ok(1))
}

/// Runs `getid serve` where it must refuse to start: it ends with exit code 1. Returns its output.
pub fn refused(dir: &Path, words: &[&str], prepare: impl Fn(&mut Command)) -> String {
    let mut command = getid();
    command.arg("serve").args(["--port", &free_port().to_string(), "--dir"]).arg(dir).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    prepare(&mut command);
    let mut child = command.spawn().expect("the binary runs");
    let log = gather(&mut child);
    let mut server = Server { child, port: 0, dir: dir.to_owned(), log, log_seen: Vec::new(), own_dir: None };
    let status = server.wait();
    let log = server.whole_log();
    assert_eq!(status.code(), Some(1), "{log}");
    log
}

impl Server {
    /// Starts a server in a new folder, with these further words on its command line.
    pub fn start(words: &[&str]) -> Server {
        let dir = folder();
        let path = dir.path().to_owned();
        let mut server = Server::start_in(&path, words);
        server.own_dir = Some(dir);
        server
    }

    /// Starts a server in `dir`, which stays.
    pub fn start_in(dir: &Path, words: &[&str]) -> Server {
        Server::try_start_in(dir, words, |_| {}).unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// Starts a server in `dir`, with the pause of a start without a record, because another server of this folder may
    /// still run.
    pub fn try_start_beside_another_in(dir: &Path, words: &[&str]) -> Result<Server, String> {
        Server::try_start_in(dir, words, |command| {
            command.env_remove(NO_START_PAUSE);
        })
    }

    /// Starts a server. Returns its output if it ends instead of serving.
    pub fn try_start_in(dir: &Path, words: &[&str], prepare: impl Fn(&mut Command)) -> Result<Server, String> {
        // Another process may take the port between its choice and its use: then another one is tried.
        let mut last = String::new();
        for _ in 0..5 {
            let port = free_port();
            let mut command = getid();
            command
                .arg("serve")
                .args(["--port", &port.to_string(), "--dir"])
                .arg(dir)
                .args(words)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            prepare(&mut command);
            let mut child = command.spawn().expect("the binary runs");
            let log = gather(&mut child);
            let mut server = Server { child, port, dir: dir.to_owned(), log, log_seen: Vec::new(), own_dir: None };
            match server.wait_ready() {
                Ok(()) => return Ok(server),
                Err(log) if log.contains("could not listen") => last = log,
                Err(log) => return Err(log),
            }
        }
        Err(last)
    }

    /// Waits for a reply: a socket accepts before the state was saved for the first time.
    fn wait_ready(&mut self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            if answers(self.port) && self.child.try_wait().is_ok_and(|s| s.is_none()) {
                return Ok(());
            }
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(self.whole_log());
            }
            assert!(Instant::now() < end, "the server is not ready:\n{}", self.log_so_far());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns all output of a server that has ended: the readers end with the streams.
    fn whole_log(&mut self) -> String {
        while let Ok(line) = self.log.recv_timeout(PATIENCE) {
            self.log_seen.push(line);
        }
        self.log_seen.join("\n")
    }

    /// Returns all output so far.
    pub fn log_so_far(&mut self) -> String {
        while let Ok(line) = self.log.try_recv() {
            self.log_seen.push(line);
        }
        self.log_seen.join("\n")
    }

    /// Waits for a log line that contains `text`, and returns it.
    pub fn wait_log(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(line) = self.log_seen.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(line) => self.log_seen.push(line),
                Err(error) => panic!("no log line has {text:?} ({error}):\n{}", self.log_seen.join("\n")),
            }
        }
    }

    /// Returns the number of log lines so far that contain `text`.
    pub fn count_log(&mut self, text: &str) -> usize {
        self.log_so_far();
        self.log_seen.iter().filter(|line| line.contains(text)).count()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"))
    }

    /// Returns a figure of the process's memory in kB: `VmRSS` is resident, `VmHWM` is the maximum so far.
    pub fn memory_kb(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the process is there");
        if signal == Signal::SIGSTOP {
            super::wait_stopped(self.pid());
        }
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                return status;
            }
            assert!(Instant::now() < end, "the server does not end:\n{}", self.log_so_far());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM and returns the exit status.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("its status");
    }

    pub fn connect(&self) -> Wire {
        Wire::connect(self.port)
    }

    /// Waits until `clients` clients read no replies, and the server holds back output for them.
    pub fn wait_stuck(&self, clients: usize) {
        let mut wire = self.connect();
        eventually("the server holds back unread output", || {
            wire.ask_bulk("CLIENT LIST").matches(" events=w ").count() == clients
        });
    }

    /// Takes the places beyond `maxclients` that are reserved for this machine. A client that has just left may still
    /// hold one.
    pub fn take_operators_places(&self) -> Vec<Wire> {
        let mut wires = Vec::new();
        eventually("this machine has all of them", || {
            let mut wire = self.connect();
            if wire.ask("PING") == "+PONG" {
                wires.push(wire);
            }
            wires.len() == 16
        });
        wires
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the value of `CONFIG GET name`.
pub fn config_get(server: &Server, name: &str) -> String {
    let mut wire = server.connect();
    wire.send(format!("CONFIG GET {name}\r\n"));
    (0..5).map(|_| wire.line()).last().expect("five lines")
}

fn gather(child: &mut Child) -> mpsc::Receiver<String> {
    let (lines, log) = mpsc::channel();
    // A test may have replaced either stream.
    let out = child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
    let err = child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
    for stream in out.into_iter().chain(err) {
        let lines = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    break;
                }
            }
        });
    }
    log
}
