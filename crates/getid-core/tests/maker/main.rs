//! `FileMaker` with real files, threads, processes and a fork. Crashes of the machine and faults of clocks are
//! simulated beside its code.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Lines, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio, exit};
use std::thread;

use getid_core::{Epoch, FileMaker, Id, Layout, Limits, LockHolder, LockLoss, MakeError, OpenError, SaveError, Tick};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use tempfile::TempDir;

/// Variable for a process of [`Holder::start`]: the state file that it opens.
const HELD_FILE: &str = "GETID_TEST_HELD_FILE";

/// Variable for a process of [`forks`]: the state file that it opens.
const FORKED_FILE: &str = "GETID_TEST_FORKED_FILE";

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ids");
    (folder, path)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

fn refusal(path: &Path, server_id: u32) -> String {
    FileMaker::open(path, server_id).unwrap_err().to_string()
}

/// Returns the watermark in a state file.
fn watermark(path: &Path) -> Tick {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("watermark ")).unwrap();
    Tick(line.split(' ').next().unwrap().parse().unwrap())
}

fn tick(id: Id) -> Tick {
    Layout::default().split(id).tick
}

#[test]
fn threads_share_one_maker() {
    let (_folder, path) = folder();
    let maker = FileMaker::open(&path, 3).unwrap();
    let mut all = BTreeSet::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let maker = &maker;
                scope.spawn(move || -> Vec<Id> {
                    let single = (0..2000).map(|_| maker.next().unwrap());
                    if thread % 2 == 0 { single.collect() } else { maker.next_many(2000).unwrap() }
                })
            })
            .collect();
        for thread in threads {
            let ids = thread.join().unwrap();
            assert!(ids.is_sorted_by(|one, next| one < next));
            all.extend(ids);
        }
    });
    assert_eq!(all.len(), 16_000);
    assert!(all.iter().all(|&id| maker.layout().split(id).server == 3));
    assert!(tick(*all.last().unwrap()) < watermark(&path));

    // Any 1024 in a row carry each random value once.
    let ids = maker.next_many(1024).unwrap();
    let random: BTreeSet<u32> = ids.iter().map(|&id| maker.layout().split(id).random).collect();
    assert_eq!(random.len(), 1024);
    assert!(!ids.iter().map(|&id| maker.layout().split(id).random).is_sorted(), "shuffled");
    assert!(maker.next_many(0).unwrap().is_empty());
}

#[test]
fn the_next_life_begins_behind_this_one() {
    let (_folder, path) = folder();
    let mut last = None;
    for life in 0..6 {
        let maker = FileMaker::open(&path, 1).unwrap();
        let ids = maker.next_many(100).unwrap();
        assert!(Some(ids[0]) > last && ids.is_sorted_by(|one, next| one < next));
        last = ids.last().copied();
        match life % 3 {
            0 => maker.close().unwrap(),
            1 => drop(maker),
            // As if the process had ended in the middle.
            _ => {
                let before = fs::read(&path).unwrap();
                drop(maker);
                fs::write(&path, before).unwrap();
            }
        }
    }
}

#[test]
fn a_second_maker_in_one_process_is_refused() {
    let (_folder, path) = folder();
    let maker = FileMaker::open(&path, 1).unwrap();
    let expected =
        format!("this process has {} open: share that FileMaker, which any number of threads may use", path.display());
    assert_eq!(refusal(&path, 1), expected);
    maker.next().unwrap();
    drop(maker);
    FileMaker::open(&path, 1).unwrap().next().unwrap();
}

/// The README shows the error of a second copy.
#[test]
fn the_readme_shows_the_error_of_a_second_process() {
    let error = OpenError::Held { path: "/tmp/ids.state".into(), holder: LockHolder::Process { pid: 22998 } };
    let line = format!("\n{error}\n```\n");
    assert!(include_str!("../../README.md").contains(&line), "{line}");
}

/// A process of this test program that has a file open.
struct Holder {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// Runs `test` in a separate process, with `variable` set, which makes it play its part.
    fn command(test: &str, variable: &str, path: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(variable, path);
        command
    }

    fn start(path: &Path) -> Holder {
        let mut command = Holder::command("holds_a_file", HELD_FILE, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Holder { child, lines }
    }

    fn id(&mut self) -> Id {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find_map(|line| Id::new(line.strip_prefix("id ")?.parse().unwrap())).unwrap()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Child process of some tests: gives an ID and holds the file until its input ends. Does nothing by itself.
#[test]
fn holds_a_file() {
    let Some(path) = std::env::var_os(HELD_FILE) else { return };
    let maker = FileMaker::open(path, 1).unwrap();
    println!("\nid {}", maker.next().unwrap().get());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
fn two_processes_on_one_file_are_refused_and_a_killed_one_is_followed() {
    let (_folder, path) = folder();
    let mut other = Holder::start(&path);
    let id = other.id();
    let expected = format!(
        "process {} (as its container numbers it, if it is in one), or a child of it, has {} open: stop it, or give this process another \
         file and another server-id",
        other.child.id(),
        path.display()
    );
    assert_eq!(refusal(&path, 1), expected);
    assert!(watermark(&path) > tick(id), "on the disk before it was given");

    let at_the_kill = watermark(&path);
    drop(other);
    let next = FileMaker::open(&path, 1).unwrap().next().unwrap();
    assert!(next > id && tick(next) >= at_the_kill);
}

/// In a separate process, in which nothing else runs.
#[test]
fn a_fork_gives_nothing_and_hurts_nothing() {
    let (_folder, path) = folder();
    let output = Holder::command("forks", FORKED_FILE, &path).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("parent is done"), "{printed}");
}

#[test]
fn forks() {
    let Some(path) = std::env::var_os(FORKED_FILE).map(PathBuf::from) else { return };
    let maker = FileMaker::open(&path, 1).unwrap();
    let before = maker.next().unwrap();
    let text = fs::read(&path).unwrap();

    // The child ends at once, and drops its copy.
    let (maker, status) = in_a_fork(maker, |maker| {
        let refused = matches!(maker.next(), Err(MakeError::Forked { .. })) && maker.status().is_err();
        drop(maker);
        i32::from(!refused)
    });
    assert_eq!(status(), 0);
    assert_eq!(fs::read(&path).unwrap(), text, "the child has written nothing");
    assert!(matches!(FileMaker::open(&path, 1), Err(OpenError::Held { .. })), "the lock is the parent's still");
    let after = maker.next().unwrap();
    assert!(after > before);

    // The child lives on while the parent closes the file and opens it again.
    let (input, output) = std::io::pipe().unwrap();
    let child_input = input.try_clone().unwrap();
    let child_output = output.try_clone().unwrap();
    let (maker, status) = in_a_fork(maker, move |maker| {
        drop(child_output);
        drop(output);
        let _ = (&child_input).read_to_end(&mut Vec::new());
        let error = maker.next().unwrap_err().to_string();
        i32::from(!error.contains(", which opened this maker and may still use it: open another file"))
    });
    maker.close().unwrap();
    let next = FileMaker::open(&path, 1).unwrap().next().unwrap();
    assert!(next > after);
    drop(input);
    assert_eq!(status(), 0);

    // Two forks of one process: each draws different random numbers.
    let mut maker = Some(FileMaker::open(&path, 1).unwrap());
    let writers = [".one", ".two"].map(|ending| {
        let own = beside(&path, ending);
        let opened = own.clone();
        let (parents, status) = in_a_fork(maker.take().unwrap(), move |maker| {
            drop(maker);
            FileMaker::open(&opened, 1).map_or(1, |_| 0)
        });
        maker = Some(parents);
        assert_eq!(status(), 0);
        let text = fs::read_to_string(own).unwrap();
        text.lines().find(|line| line.starts_with("writer ")).unwrap().to_owned()
    });
    assert_ne!(writers[0], writers[1]);
    println!("parent is done");
}

/// Forks. The child runs `act` with its copy of `maker`, and ends with the result. The parent gets `maker` back, and a
/// function that waits for the child's status.
fn in_a_fork(maker: FileMaker, act: impl FnOnce(FileMaker) -> i32) -> (FileMaker, impl FnOnce() -> i32) {
    // SAFETY: the process has no other thread but the harness's, which waits for it and holds no lock.
    #[expect(unsafe_code, reason = "the test is about forks")]
    let forked = unsafe { fork() }.unwrap();
    match forked {
        ForkResult::Child => exit(act(maker)),
        ForkResult::Parent { child } => (maker, move || match waitpid(child, None).unwrap() {
            WaitStatus::Exited(_, status) => status,
            other => panic!("{other:?}"),
        }),
    }
}

/// Simulates an unwritable disk: a folder has the temporary file's name.
#[test]
fn a_disk_that_takes_nothing() {
    let (_folder, path) = folder();
    let in_the_way = beside(&path, ".tmp").join("full");
    fs::create_dir_all(&in_the_way).unwrap();
    let error = FileMaker::open(&path, 1).unwrap_err();
    assert!(matches!(error, OpenError::Save(SaveError::Io { action: "write a file beside", .. })), "{error}");
    assert!(error.to_string().ends_with("; a folder has the name of a file: move it away"), "{error}");
    assert!(!path.exists());

    fs::remove_dir_all(beside(&path, ".tmp")).unwrap();
    let maker = FileMaker::options().limits(Limits { lead_ms: 1, ..Limits::default() }).open(&path, 1).unwrap();
    let mut last = maker.next().unwrap();
    fs::create_dir_all(&in_the_way).unwrap();
    // IDs continue up to the watermark on the disk, and not further.
    let error = loop {
        match maker.next() {
            Ok(id) => last = id,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, MakeError::Save(error) if matches!(**error, SaveError::Io { .. })), "{error}");
    assert!(tick(last) < watermark(&path));
    assert!(maker.status().unwrap().save_error.is_some());
    fs::remove_dir_all(beside(&path, ".tmp")).unwrap();
    let next = loop {
        match maker.next() {
            Ok(id) => break id,
            Err(error) => assert!(matches!(error, MakeError::Save(_)), "{error}"),
        }
    };
    assert!(next > last);
}

/// A small disk in memory.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new() -> SmallDisk {
        let folder = TempDir::new().unwrap();
        mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], folder.path());
        SmallDisk(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn mount(options: &[&str], path: &Path) {
    assert!(Command::new("mount").args(options).arg(path).status().unwrap().success(), "mount {options:?}");
}

#[test]
#[ignore = "needs root"]
fn a_disk_that_is_full_and_one_that_is_read_only() {
    let disk = SmallDisk::new();
    let path = disk.path("ids");
    let maker = FileMaker::options().limits(Limits { lead_ms: 1, ..Limits::default() }).open(&path, 1).unwrap();
    let mut last = maker.next().unwrap();
    let filler = disk.path("filler");
    assert_eq!(fs::write(&filler, vec![0; 1 << 20]).unwrap_err().kind(), ErrorKind::StorageFull);
    let error = loop {
        match maker.next() {
            Ok(id) => last = id,
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("No space left on device") && error.ends_with("; make room on its disk"), "{error}");
    assert!(tick(last) < watermark(&path), "the old record is whole");
    drop(maker);
    let error = refusal(&path, 1);
    assert!(error.ends_with("; make room on its disk"), "{error}");

    fs::remove_file(&filler).unwrap();
    let next = FileMaker::open(&path, 1).unwrap().next().unwrap();
    assert!(next > last);

    mount(&["-o", "remount,ro"], disk.0.path());
    let error = refusal(&path, 1);
    assert!(error.starts_with("cannot open the lock file ") && error.contains("Read-only file system"), "{error}");
}

/// The lock file, the state file or the folder is replaced while a maker runs, and another maker has the new one.
#[test]
fn a_maker_whose_file_is_taken_away_stops() {
    type FileFault = fn(&Path);
    let delete_lock: FileFault = |path| fs::remove_file(beside(path, ".lock")).unwrap();
    let move_folder: FileFault = |path| {
        let folder = path.parent().unwrap();
        fs::rename(folder, folder.with_extension("away")).unwrap();
        fs::create_dir(folder).unwrap();
    };
    for (mischief, expected) in [(delete_lock, LockLoss::LockReplaced), (move_folder, LockLoss::LockReplaced)] {
        let above = TempDir::new().unwrap();
        let folder = above.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("ids");
        let first = FileMaker::open(&path, 1).unwrap();
        // At the borrow limit, where its next IDs are past those of a maker that begins now.
        let mut last = first.next().unwrap();
        while first.status().unwrap().borrow_ms < first.status().unwrap().max_borrow_ms - 5 {
            last = first.next_many(1000).unwrap()[999];
        }
        mischief(&path);
        let second = FileMaker::open(&path, 1).unwrap();
        let next = second.next().unwrap();
        let error = loop {
            match first.next_many(100) {
                Ok(ids) => last = ids[99],
                Err(error) => break error,
            }
        };
        let MakeError::Save(error) = error else { panic!("{error}") };
        assert!(matches!(*error, SaveError::Lost { loss, .. } if loss == expected), "{error}");
        assert!(next > last, "whatever the first one gave until it noticed");
        drop(first);
        assert!(second.next().unwrap() > next);
        assert!(watermark(&path) > tick(next), "the first one has written nothing");
    }
}

#[test]
fn what_is_no_state_file_is_refused() {
    let (folder, path) = folder();
    fs::create_dir(&path).unwrap();
    let expected = format!("{} is a folder: name a regular file, or one that is not there yet", path.display());
    assert_eq!(refusal(&path, 1), expected);

    let link = folder.path().join("link");
    std::os::unix::fs::symlink("missing", &link).unwrap();
    assert!(refusal(&link, 1).contains(" is a symbolic link: name a regular file"));

    let text = folder.path().join("notes.txt");
    fs::write(&text, "buy milk\n").unwrap();
    assert!(refusal(&text, 1).ends_with("a FileMaker has a file of its own: name another one"));
    assert_eq!(fs::read_to_string(&text).unwrap(), "buy milk\n");

    let nowhere = refusal(&folder.path().join("missing/ids"), 1);
    assert!(
        nowhere.starts_with("cannot open the lock file ") && nowhere.ends_with("; make its folder first"),
        "{nowhere}"
    );
    assert!(refusal(Path::new("/"), 1).starts_with("/ is no name of a file"));
    let empty = "the path of the state file is empty: name a regular file, or one that is not there yet";
    assert_eq!(refusal(Path::new(""), 1), empty);

    let own = folder.path().join("own");
    FileMaker::open(&own, 1).unwrap();
    assert!(refusal(&own, 2).contains(" is the file of server-id 1, and 2 was requested"));
    assert_eq!(
        refusal(&own, 4),
        "server-id 4 does not fit the layout, whose server-ids are 0 to 3: use one of these, or a layout with a larger \
         id-range in all processes"
    );
    let bytes = fs::read(&own).unwrap();
    fs::write(&own, &bytes[..100]).unwrap();
    assert!(refusal(&own, 1).contains("its end is missing"));
}

#[test]
fn another_layout_and_a_relative_path() {
    let (folder, path) = folder();
    let layout = Layout::new(Epoch::from_unix_ms(1_700_000_000_000).unwrap(), 10, 11, 0).unwrap();
    let maker = FileMaker::options().layout(layout).open(&path, 1023).unwrap();
    let id = maker.next().unwrap();
    assert_eq!((layout.split(id).server, maker.server_id(), maker.layout()), (1023, 1023, layout));
    assert_eq!(maker.path(), path);
    maker.close().unwrap();
    // The file contains its epoch.
    assert!(refusal(&path, 1023).starts_with("server-id 1023 does not fit the layout"));
    let error = FileMaker::options().open(&path, 1).unwrap_err();
    assert!(matches!(error, OpenError::ServerId { recorded: 1023, .. }), "{error}");
    drop(folder);
}
