//! Power cuts, with the real store. `tests/support/preload/record.c` records in order what the binary does to its
//! folder. Every state that a crash could leave at any moment is put on a disk and started from.
//!
//! The simulated disk proves that the order of steps is right. This proves that the store performs these steps.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::support::{self, Server, eventually, folder, free_port, getid};
use getid_core::{Layout, SavePoint};
use getid_engine::claim::{Folder, FolderClaim, Identity, Record};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const STATE: &str = "getid-0.state";

/// One operation in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DiskStep {
    Create(String),
    Write(String, Vec<u8>),
    Sync(String),
    SyncFolder,
    Rename(String, String),
    Unlink(String),
}

#[test]
fn a_power_cut_leaves_the_last_record_or_the_one_under_way() {
    let log = sound_steps();
    let saves = saves(log);
    assert!(saves >= 7, "two lives, their steady state and a clean stop: {saves} saves");
    let images = cut_everywhere(log).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(images > saves, "each record was on the disk, and none before the first: {images} states, {saves} saves");
}

/// Tests the test: a store that leaves out one of the syncs fails.
#[test]
fn every_sync_is_needed() {
    let check = |(skip, fault): (&str, &str)| {
        let log = record(Some(skip));
        let skipped = |step: &DiskStep| match skip {
            "file" => matches!(step, DiskStep::Sync(_)),
            _ => *step == DiskStep::SyncFolder,
        };
        assert!(!log.iter().any(skipped), "planted");
        let found = cut_everywhere(&log).expect_err("a planted fault is seen");
        assert!(found.contains(fault), "{skip}: {found}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check(("file", "no record")));
        check(("folder", "lost"));
    });
}

/// Every other order of the steps fails too, so the judge does not accept everything.
#[test]
fn every_order_but_the_right_one_is_caught() {
    let log = sound_steps();
    let renames: Vec<_> = log.iter().enumerate().filter(|(_, step)| matches!(step, DiskStep::Rename(..))).collect();
    let (at, _) = renames[renames.len() / 2];
    // The rename before the sync of the file, and after the sync of the folder.
    for with in [at - 1, at + 1] {
        let mut wrong = log.to_vec();
        wrong.swap(at, with);
        assert_ne!(wrong, *log);
        cut_everywhere(&wrong).expect_err("an order that loses records");
    }
    let without: Vec<_> = log.iter().filter(|step| !matches!(step, DiskStep::Write(..))).cloned().collect();
    cut_everywhere(&without).expect_err("nothing was written");
}

/// A start is stopped in its first save. The record exists already, from a clock that may have been wrong, and no ID
/// was issued. The start restores the record that it found, or writes that there was none.
#[test]
fn a_start_that_is_stopped_takes_its_record_back() {
    let work = folder();
    let dir = work.path().join("state");
    fs::create_dir(&dir).expect("made");
    let (library, log) = (support::preload::layer(work.path(), "record"), work.path().join("log"));
    let record = || fs::read(dir.join(STATE)).ok().map(|bytes| Record::parse(&bytes).expect("a whole one").point);
    let point = || record().expect("a record");
    let mut found = SavePoint::NOTHING;
    for life in 0..3 {
        let mut command = getid();
        command.args(["serve", "--port", &free_port().to_string(), "--dir"]).arg(&dir);
        command.env("LD_PRELOAD", &library).env("GETID_TEST_RECORD", &log).env("GETID_TEST_RECORD_DIR", &dir);
        command.env("GETID_TEST_STOP", "rename").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary runs");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        let options = WaitPidFlag::WUNTRACED | WaitPidFlag::WNOHANG;
        // On a stalled machine it may stop earlier, too; it continues then.
        eventually("the first save is on the disk, and the process stops behind it", || {
            let is_stopped = matches!(waitpid(pid, Some(options)).expect("its state"), WaitStatus::Stopped(..));
            is_stopped && record().is_some_and(|point| point != found)
        });
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            kill(pid, signal).expect("the process is there");
        }
        assert_eq!(child.wait().expect("its end").code(), Some(0));
        assert_eq!(point(), found, "life {life}");
        if life == 1 {
            let server = Server::start_in(&dir, &[]);
            server.connect().id();
            server.kill();
            found = point();
        }
    }
}

/// Returns the steps of a sound store over two lives.
fn sound_steps() -> &'static [DiskStep] {
    static LOG: OnceLock<Vec<DiskStep>> = OnceLock::new();
    LOG.get_or_init(|| record(None))
}

/// Runs the binary twice, killed and stopped, each after at least three saves. Returns all its steps in the folder.
fn record(skip: Option<&str>) -> Vec<DiskStep> {
    let work = folder();
    let dir = work.path().join("state");
    fs::create_dir(&dir).expect("made");
    let (library, log) = (support::preload::layer(work.path(), "record"), work.path().join("log"));
    let prepare = |command: &mut Command| {
        command.env("LD_PRELOAD", &library).env("GETID_TEST_RECORD", &log).env("GETID_TEST_RECORD_DIR", &dir);
        if let Some(skip) = skip {
            command.env("GETID_TEST_SKIP", skip);
        }
    };
    let words = ["--id-max-borrow-ms", "100", "--id-watermark-lead-ms", "100"];
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut server = Server::try_start_in(&dir, &words, prepare).expect("started");
        let mut wire = server.connect();
        let enough = saves(&read_steps(&log)) + 3;
        eventually("the server has saved", || {
            wire.id();
            saves(&read_steps(&log)) >= enough
        });
        drop(wire);
        if signal == Signal::SIGKILL {
            pause_between_saves(&server, || read_steps(&log), skip);
        }
        server.signal(signal);
        server.wait();
    }
    read_steps(&log)
}

fn saves(log: &[DiskStep]) -> usize {
    log.iter().filter(|step| matches!(step, DiskStep::Rename(..))).count()
}

fn read_steps(log: &Path) -> Vec<DiskStep> {
    fs::read_to_string(log).expect("a log").lines().filter_map(DiskStep::of).collect()
}

/// Stops the process between saves: the judge assumes that a save which has begun also ends.
fn pause_between_saves(server: &Server, steps: impl Fn() -> Vec<DiskStep>, skip: Option<&str>) {
    let last = if skip == Some("folder") {
        DiskStep::Rename(format!("{STATE}.tmp"), STATE.to_owned())
    } else {
        DiskStep::SyncFolder
    };
    eventually("a save has ended", || {
        server.signal(Signal::SIGSTOP);
        let state = waitpid(server.pid(), Some(WaitPidFlag::WUNTRACED)).expect("its state");
        assert!(matches!(state, WaitStatus::Stopped(..)), "{state:?}");
        let is_between = steps().last() == Some(&last);
        if !is_between {
            server.signal(Signal::SIGCONT);
        }
        is_between
    });
}

impl DiskStep {
    /// Parses a line of the log. Returns `None` for other files: the content of the lock file only makes a start wait.
    fn of(line: &str) -> Option<DiskStep> {
        let words: Vec<&str> = line.split(' ').collect();
        let name = |at: usize| words[at].to_owned();
        if words.get(1).is_some_and(|name| !name.starts_with(STATE)) {
            return None;
        }
        Some(match words[0] {
            "create" => DiskStep::Create(name(1)),
            "write" => {
                let digits = words[2].as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ascii"));
                DiskStep::Write(name(1), digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect())
            }
            "sync" => DiskStep::Sync(name(1)),
            "sync-folder" => DiskStep::SyncFolder,
            "rename" => DiskStep::Rename(name(1), name(2)),
            "unlink" => DiskStep::Unlink(name(1)),
            other => panic!("{other}"),
        })
    }
}

/// A disk as seen after a crash.
#[derive(Default)]
struct Disk {
    files: Vec<File>,
    /// Files by name, as a process sees them.
    names: HashMap<String, usize>,
    /// Files that the record's name may refer to: first the durable one, then each change since the folder's last sync.
    state: Vec<Option<usize>>,
}

#[derive(Default)]
struct File {
    text: Vec<u8>,
    synced: usize,
}

impl Disk {
    fn apply(&mut self, step: &DiskStep) {
        match step {
            DiskStep::Create(name) => {
                self.files.push(File::default());
                self.lead(name, Some(self.files.len() - 1));
            }
            DiskStep::Write(name, bytes) => {
                let file = self.names[name];
                self.files[file].text.extend(bytes);
            }
            DiskStep::Sync(name) => {
                let file = self.names[name];
                self.files[file].synced = self.files[file].text.len();
            }
            DiskStep::SyncFolder => {
                let last = self.state.len() - 1;
                self.state.drain(..last);
            }
            DiskStep::Rename(from, to) => {
                let file = self.names.remove(from);
                self.lead(to, file);
            }
            DiskStep::Unlink(name) => {
                self.names.remove(name);
                if name == STATE {
                    self.state.push(None);
                }
            }
        }
    }

    fn lead(&mut self, name: &str, file: Option<usize>) {
        if let Some(file) = file {
            self.names.insert(name.to_owned(), file);
        }
        if name == STATE {
            self.state.push(file);
        }
    }

    /// Returns all contents that the record's file can have after a crash now.
    fn after_crash(&self) -> BTreeSet<Option<Vec<u8>>> {
        let mut images = BTreeSet::new();
        for file in &self.state {
            let Some(file) = file.map(|file| &self.files[file]) else {
                images.insert(None);
                continue;
            };
            images.insert(Some(file.text.clone()));
            if file.synced < file.text.len() {
                // Unsynced bytes may be missing, partly there, or zeros.
                for end in [file.synced, file.synced.midpoint(file.text.len())] {
                    images.insert(Some(file.text[..end].to_vec()));
                    let mut zeros = file.text[..end].to_vec();
                    zeros.resize(file.text.len(), 0);
                    images.insert(Some(zeros));
                }
            }
        }
        images
    }
}

/// Cuts the power before the first step and after each, and starts from every possible state. Returns the number of
/// different states. Fails at the first state that a server would refuse, or from which it would start wrongly.
fn cut_everywhere(log: &[DiskStep]) -> Result<usize, String> {
    let mut disk = Disk { state: vec![None], ..Disk::default() };
    let mut started: HashMap<Option<Vec<u8>>, Option<SavePoint>> = HashMap::new();
    // The record before the save in progress, from which IDs were issued, and the one in progress.
    let (mut promised, mut under_way): (Option<SavePoint>, Option<SavePoint>) = (None, None);
    for (at, step) in log.iter().enumerate() {
        match step {
            // A save begins after the last one ended.
            DiskStep::Create(_) => promised = under_way,
            DiskStep::Write(_, bytes) => {
                under_way =
                    Some(Record::parse(bytes).map_err(|error| format!("{at}: it writes no record: {error}"))?.point);
            }
            _ => {}
        }
        disk.apply(step);
        for image in disk.after_crash() {
            let found = if let Some(found) = started.get(&image) {
                *found
            } else {
                let found = start(image.as_deref()).map_err(|error| format!("{at} {step:?}: no record: {error}"))?;
                started.insert(image.clone(), found);
                found
            };
            if found != promised && found != under_way {
                return Err(format!("{at} {step:?}: {promised:?} is lost, a start finds {found:?}"));
            }
        }
    }
    // Both lives are over.
    for image in disk.after_crash() {
        if started[&image] != under_way {
            return Err(format!("the last record is lost, a start finds {:?}", started[&image]));
        }
    }
    Ok(started.len())
}

/// Returns what the real store finds in a folder with this record.
fn start(image: Option<&[u8]>) -> Result<Option<SavePoint>, String> {
    let dir = folder();
    if let Some(bytes) = image {
        fs::write(dir.path().join(STATE), bytes).expect("written");
    }
    let identity = Identity { server_id: 0, layout: Layout::default() };
    let folder = Folder { dir: dir.path().to_owned(), identity, max_borrow_ms: 400, generators: Vec::new() };
    FolderClaim::take_blocking(&folder).map(|opened| opened.point).map_err(|error| error.to_string())
}
