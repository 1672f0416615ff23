//! The server under test: the built binary, with a clock and a disk that can be made wrong while it runs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::judge::{SERVER_BITS, SERVER_ID};
use crate::plan::{DiskFault, Life};

/// Preloaded layers between the server and the system, shared with the other tests.
const FAIL_C: &str = include_str!("../support/preload/fail.c");
const HANG_C: &str = include_str!("../support/preload/hang.c");

/// Longest time for a stop.
const STOP_PATIENCE: Duration = Duration::from_mins(5);

/// The folder of a soak, and the settings of its servers.
pub(crate) struct SoakFolder {
    dir: PathBuf,
    binary: PathBuf,
    preload: OsString,
    lives: u32,
}

impl SoakFolder {
    pub(crate) fn new(dir: &Path, binary: &Path) -> Result<SoakFolder, String> {
        check_preload(binary)?;
        let state = dir.join("state");
        fs::create_dir_all(&state).map_err(|error| format!("{}: {error}", state.display()))?;
        let dir = dir.canonicalize().map_err(|error| format!("{}: {error}", dir.display()))?;
        // `hang` comes after `fail`: `fail` passes a sync on, but opens files by system calls.
        let mut preload = OsString::new();
        for layer in [compile_layer(&dir, "fail", FAIL_C)?, compile_layer(&dir, "hang", HANG_C)?, libfaketime()?] {
            preload.push(layer);
            preload.push(" ");
        }
        let folder = SoakFolder { dir, binary: binary.to_owned(), preload, lives: 0 };
        folder.set_clock(0)?;
        Ok(folder)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }

    /// Returns the state folder, on the disk that can be made to fail.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// Returns the log of this life. The logs of the last three lives are kept.
    fn log(&self) -> PathBuf {
        self.dir.join(format!("log-{}", self.lives % 3))
    }

    /// Returns the end of this life's log.
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Sets the offset of the wall clock in seconds.
    pub(crate) fn set_clock(&self, offset_s: i64) -> Result<(), String> {
        self.put("clock", &format!("{offset_s:+}\n"))
    }

    pub(crate) fn set_fault(&self, fault: DiskFault) -> Result<(), String> {
        match fault {
            DiskFault::Full => self.put("fail", "full"),
            DiskFault::Sync => self.put("fail", "sync"),
            DiskFault::ReadOnly => self.put("fail", "read-only"),
            DiskFault::Stall => self.put("hang", "sync"),
        }
    }

    pub(crate) fn mend_disk(&self) {
        // A missing file is fine.
        let _ = fs::remove_file(self.dir.join("fail"));
        let _ = fs::remove_file(self.dir.join("hang"));
    }

    /// Writes a file that the layers read, atomically.
    fn put(&self, name: &str, text: &str) -> Result<(), String> {
        let (path, new) = (self.dir.join(name), self.dir.join(format!("{name}.new")));
        fs::write(&new, text)
            .and_then(|()| fs::rename(new, &path))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn start(&mut self, life: &Life) -> Result<Server, String> {
        self.lives += 1;
        let log = File::create(self.log()).map_err(|error| format!("{}: {error}", self.log().display()))?;
        let stderr = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GETID_") {
                command.env_remove(name);
            }
        }
        command.env("LD_PRELOAD", &self.preload).env("GETID_ID_MACHINE_CLAIM", "no");
        command.env("GETID_TEST_FAIL_DIR", self.state()).env("GETID_TEST_FAIL", self.dir.join("fail"));
        command.env("GETID_TEST_HANG_DIR", self.state()).env("GETID_TEST_HANG", self.dir.join("hang"));
        command.env("FAKETIME_TIMESTAMP_FILE", self.dir.join("clock")).env("FAKETIME_CACHE_DURATION", "1");
        command.env("FAKETIME_DISABLE_SHM", "1").env("DONT_FAKE_MONOTONIC", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("FAKETIME_NO_CACHE", "1");
        command.args(["serve", "--port", "0", "--unixsocket"]).arg(self.socket()).arg("--dir").arg(self.state());
        let (borrow_ms, lead_ms) = life.limits_ms;
        for (name, value) in [
            ("--server-id", SERVER_ID),
            ("--id-range", SERVER_BITS.into()),
            ("--shard-range", life.layout.shard_bits.into()),
            ("--random-range", life.layout.random_bits().into()),
            ("--id-max-borrow-ms", borrow_ms.into()),
            ("--id-watermark-lead-ms", lead_ms.into()),
        ] {
            command.args([name, &value.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(log).stderr(stderr);
        let child = command.spawn().map_err(|error| format!("{}: {error}", self.binary.display()))?;
        Ok(Server { child })
    }
}

/// A running server. Dropping it kills the process and waits for its end.
pub(crate) struct Server {
    child: Child,
}

impl Server {
    pub(crate) fn signal(&self, signal: &str) -> Result<(), String> {
        // Uses the shell's `kill`, because a small machine has no other.
        let status = Command::new("sh").args(["-c", &format!("kill -{signal} {}", self.child.id())]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(format!("the server ended by itself before it got SIG{signal}")),
            Err(error) => Err(format!("sh: {error}")),
        }
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM; the server must end with exit code 0.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.signal("TERM")?;
        match self.wait()? {
            status if status.success() => Ok(()),
            status => Err(format!("a clean stop ended with {status}")),
        }
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus, String> {
        let end = Instant::now() + STOP_PATIENCE;
        while Instant::now() < end {
            match self.has_ended() {
                Some(status) => return Ok(status),
                None => sleep(Duration::from_millis(5)),
            }
        }
        Err(format!("the server did not end in {} s", STOP_PATIENCE.as_secs()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Refuses a static program, which loads no layer, so that no fault would ever happen.
fn check_preload(binary: &Path) -> Result<(), String> {
    let mut head = Vec::new();
    let read = File::open(binary).and_then(|file| file.take(4096).read_to_end(&mut head));
    read.map_err(|error| format!("{}: {error}; build it with `cargo build --release`", binary.display()))?;
    // Path of the dynamic linker, near the beginning of the file.
    if head.windows(4).any(|bytes| bytes == b"/ld-") {
        return Ok(());
    }
    Err(format!(
        "{} is linked statically, so its clock and disk cannot be made to fail; use `cargo build --release`",
        binary.display()
    ))
}

fn compile_layer(dir: &Path, name: &str, source: &str) -> Result<PathBuf, String> {
    let (source_path, layer) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.so")));
    fs::write(&source_path, source).map_err(|error| format!("{}: {error}", source_path.display()))?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler).args(["-shared", "-fPIC", "-O1", "-o"]).arg(&layer).arg(&source_path).output();
    match output {
        Ok(output) if output.status.success() => Ok(layer),
        Ok(output) => Err(format!("{}: {}", source_path.display(), String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{}: {error}; the soak needs a C compiler", compiler.display())),
    }
}

fn libfaketime() -> Result<PathBuf, String> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut places = folders.chain([PathBuf::from("/usr/lib")]).map(|dir| dir.join("faketime/libfaketime.so.1"));
    places.find(|path| path.exists()).ok_or_else(|| "the soak needs libfaketime (apt install libfaketime)".to_owned())
}
