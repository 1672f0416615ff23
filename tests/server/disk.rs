//! The real process when its folder is full, read-only, damaged, removed, or another server's.
//!
//! Each refusal has a text with the remedy, one line in the log, and ends without a restart.
//!
//! The ignored tests mount small file systems, as root:
//!
//! ```text
//! sudo -E cargo test --test server disk:: -- --ignored
//! ```

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{self, Server, Wire, binary, eventually, getid, refused};
use getid_core::{Epoch, Layout, SavePoint, Tick};
use getid_engine::claim::{Identity, Owner, Record};

/// A short lead: a failing disk has an effect within half a second.
const SHORT: [&str; 4] = ["--id-max-borrow-ms", "500", "--id-watermark-lead-ms", "400"];

const SAVE_FAILED: &str = "saving the watermark failed";
const SAVED_AGAIN: &str = "the watermark can be saved again";

#[test]
fn a_missing_folder_or_a_file_in_its_place() {
    let dir = tempfile::tempdir().expect("a folder");
    let missing = dir.path().join("missing/too");
    let log = refused(&missing, &[], |_| {});
    assert!(log.contains(&format!("dir: '{}' cannot be used: No such file or directory", missing.display())), "{log}");
    assert!(
        log.contains(&format!("its parent folder '{}' does not exist", dir.path().join("missing").display())),
        "{log}"
    );
    assert!(log.starts_with("*** FATAL CONFIGURATION ERROR ***"), "no file has to do with it: {log}");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    let log = refused(&file, &[], |_| {});
    assert!(log.contains(&format!("dir: '{}' is not a folder", file.display())), "{log}");
}

#[test]
fn an_unusable_record_is_refused() {
    let advance = |dir: &Path, options: &str| {
        let dir = dir.display();
        format!("`getid state advance {dir} --server-id 0{options} --past-id ID`, ID being the largest in any table")
    };
    let whole = record(0, Epoch::DEFAULT);
    let other_version = with_checksum(&whole.replace("getid state 4", "getid state 5"));
    let later = Epoch::from_unix_ms(1_500_000_000_000).expect("an epoch");
    for (name, text, words, cause, remedy) in [
        ("empty", "", &[][..], "the file is empty", String::new()),
        ("cut", &whole[..whole.len() - 20], &[], "it ends in the middle", String::new()),
        ("edited", &whole.replacen("watermark 3", "watermark 2", 1), &[], "its checksum is", String::new()),
        ("another version", &other_version, &[], "", "start the getid that wrote it, or ".to_owned()),
        ("another's", &record(2, Epoch::DEFAULT), &[], "it is the record of server-id 2, and this is server-id 0", {
            "put each record back under its own name (this one is getid-2.state), or ".to_owned()
        }),
        ("a later epoch", &whole, &["--id-epoch", "1500000000000"], "IDs would be given again", {
            "set id-epoch back to 1420041600000; or, if IDs may run 925 days ahead of the clock, ".to_owned()
        }),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("getid-0.state");
        fs::write(&path, text).expect("written");
        let log = refused(dir.path(), words, |_| {});
        let options = match words {
            [] => " --max-borrow 3000".to_owned(),
            _ => format!(" --epoch {} --max-borrow 3000 --force", later.unix_ms()),
        };
        let remedy = format!("to continue, {remedy}run {}", advance(dir.path(), &options));
        assert!(log.contains(&format!("cannot use the record {}: ", path.display())), "{name}: {log}");
        assert!(log.contains(cause), "{name}: {log}");
        assert!(log.contains(&remedy), "{name}: {remedy}\n{log}");
        assert_eq!(fs::read_to_string(&path).expect("there"), text, "{name}: left as it was");

        // Run the remedy from the error.
        let id = 780_000_000_000_000_000_u64;
        let command = advance(dir.path(), &options).replace("--past-id ID", &format!("--past-id {id}"));
        let mut shell = Command::new("sh");
        shell.args(["-c", &command.split('`').nth(1).expect("a command").replacen("getid", "\"$0\"", 1)]).arg(binary());
        shell.env("GETID_ID_MACHINE_CLAIM", "no");
        let output = shell.output().expect("it runs");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let server = Server::start_in(dir.path(), words);
        assert!(server.connect().id() > id, "{name}");
    }
}

#[test]
fn an_earlier_epoch_and_another_layout_continue() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut server = Server::start_in(dir.path(), &[]);
    let last = server.connect().id();
    assert_eq!(server.stop().code(), Some(0));
    for words in [["--id-range", "4", "--shard-range", "7"], ["--id-epoch", "1420041500000", "--id-range", "2"]] {
        server = Server::start_in(dir.path(), &words);
        assert!(server.connect().id() > last);
        assert_eq!(server.stop().code(), Some(0));
    }
}

#[test]
fn without_a_state_nothing_is_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut last = 0;
    for _ in 0..3 {
        let mut server = Server::start_in(dir.path(), &["--id-state", "none"]);
        server.wait_log("id-state none");
        let mut wire = server.connect();
        let id = wire.id();
        assert!(id > last, "each life begins past the borrow limit of the last");
        last = id;
        assert_eq!(wire.info("state"), "none");
        drop(wire);
        server.kill();
    }
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0);
}

#[test]
fn a_folder_deleted_and_created_again_is_claimed_again() {
    let parent = tempfile::tempdir().expect("a folder");
    let dir = parent.path().join("state");
    fs::create_dir(&dir).expect("made");
    let mut server = Server::start_in(&dir, &SHORT);
    let mut wire = server.connect();
    let mut last = wire.id();

    delete(&dir);
    let refusal = ids_until_refused(&mut wire, &mut last);
    let gone = format!("the folder {} does not exist; put it back, or create it again", dir.display());
    assert!(refusal.starts_with("-MISCONF claim lost: "), "{refusal}");
    assert!(refusal.contains(&gone), "{refusal}");
    // INFO writes a comma in a text as a semicolon.
    assert!(wire.info("refusing").contains(&gone.replace(',', ";")));
    for _ in 0..500 {
        assert!(wire.ask("GETID").starts_with("-MISCONF claim lost"));
    }

    fs::create_dir(&dir).expect("created again");
    let first = id_again(&mut wire);
    assert!(first > last);
    assert_eq!(wire.info("refusing"), "no");
    server.wait_log(SAVED_AGAIN);
    for event in ["No IDs until the claim", "the claim was lost and has been taken again", SAVED_AGAIN] {
        assert_eq!(server.count_log(event), 1, "one event, one line: {event}:\n{}", server.log_so_far());
    }
    assert_eq!(server.stop().code(), Some(0));
    let second = Server::start_in(&dir, &SHORT).connect().id();
    assert!(second > first);
}

#[test]
fn a_second_server_in_a_new_folder_excludes_the_first() {
    let parent = tempfile::tempdir().expect("a folder");
    let dir = parent.path().join("state");
    fs::create_dir(&dir).expect("made");
    let first = Server::start_in(&dir, &SHORT);
    let mut wire = first.connect();
    let mut last = wire.id();
    let mut of_first = vec![last];

    // The first server is stopped meanwhile, because it would claim the new folder too. `tests/standstill` may continue
    // it too early.
    let second = loop {
        first.signal(nix::sys::signal::Signal::SIGSTOP);
        delete(&dir);
        fs::create_dir(&dir).expect("created again");
        match Server::try_start_beside_another_in(&dir, &SHORT) {
            Ok(second) => break second,
            Err(log) => assert!(log.contains(" is in use"), "{log}"),
        }
    };
    first.signal(nix::sys::signal::Signal::SIGCONT);
    let mut other = second.connect();
    let mut of_second = vec![other.id()];
    let mut refusal = String::new();
    eventually("the first one is refused", || {
        refusal = wire.ask("GETID");
        of_first.extend(refusal.strip_prefix(':').map(|id| id.parse::<u64>().expect("an id")));
        of_second.push(other.id());
        // It may have found the folder missing before it was stopped.
        assert!(refusal.starts_with(':') || refusal.starts_with("-MISCONF claim lost: "), "{refusal}");
        refusal.contains(&format!("is locked by pid {}", second.pid()))
    });
    let failures = wire.info_number("watermark_save_failures");
    eventually("the first server has tried two more saves", || {
        assert!(wire.ask("GETID").starts_with("-MISCONF claim lost"), "the first server must issue no IDs again");
        of_second.push(other.id());
        wire.info_number("watermark_save_failures") >= failures + 2
    });

    // The second one is stopped; its record remains, and the first continues past it.
    assert_eq!(second.stop().code(), Some(0));
    last = last.max(of_second[of_second.len() - 1]);
    let again = id_again(&mut wire);
    assert!(again > last, "{again} came after {last}");
    of_first.push(again);
    let count = of_first.len() + of_second.len();
    let mut all: Vec<u64> = of_first.into_iter().chain(of_second).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "an ID was issued twice");
}

/// The folder is away for a while (moved, or under a mount), and another server runs in a new folder of that name.
/// After the folder is back as it was, the first server has its whole record. Only the absence is a sign of the second
/// server.
#[test]
fn a_second_server_while_the_folder_is_away() {
    let parent = tempfile::tempdir().expect("a folder");
    let (dir, away) = (parent.path().join("state"), parent.path().join("away"));
    fs::create_dir(&dir).expect("made");
    let first = Server::start_in(&dir, &SHORT);
    let mut wire = first.connect();
    let mut last = wire.id();
    fs::rename(&dir, &away).expect("moved");
    let refusal = ids_until_refused(&mut wire, &mut last);
    assert!(refusal.starts_with("-MISCONF claim lost: "), "{refusal}");

    fs::create_dir(&dir).expect("another one");
    let second = Server::try_start_beside_another_in(&dir, &SHORT).expect("the first one is refused");
    let mut other = second.connect();
    for _ in 0..100 {
        let id = other.id();
        assert!(id > last);
        last = id;
    }
    second.kill();
    fs::remove_dir_all(&dir).expect("deleted");
    fs::rename(&away, &dir).expect("put back");
    let again = id_again(&mut wire);
    assert!(again > last, "{again} came after {last}");
}

#[test]
fn a_deleted_lock_file_is_created_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut server = Server::start_in(dir.path(), &SHORT);
    let mut wire = server.connect();
    let mut last = wire.id();
    fs::remove_file(dir.path().join("getid-0.lock")).expect("deleted");
    eventually("a save succeeds again", || {
        let reply = draw_if_given(&mut wire, &mut last);
        assert!(reply.starts_with(':') || reply.starts_with("-MISCONF claim lost"), "{reply}");
        server.count_log(SAVED_AGAIN) != 0
    });
    assert!(refused(dir.path(), &[], |_| {}).contains("is in use"), "the lock holds again");
}

/// Idle connections take all descriptors. A save has a descriptor in reserve, so IDs continue.
#[test]
fn every_descriptor_is_taken() {
    let dir = tempfile::tempdir().expect("a folder");
    let words = [&SHORT[..], &["--io-threads", "8", "--requirepass", "secret"]].concat();
    let server = Server::try_start_in(dir.path(), &words, |command| support::by_shell(command, "ulimit -n 100"))
        .expect("started");
    let mut wire = server.connect();
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    let idle: Vec<TcpStream> =
        (0..150).map(|_| TcpStream::connect(("127.0.0.1", server.port)).expect("into the backlog")).collect();
    let saves = wire.info_number("watermark_saves");
    let mut last = 0;
    eventually("the server has saved twice more", || {
        let id = wire.id();
        assert!(id > last);
        last = id;
        wire.info_number("watermark_saves") >= saves + 2
    });
    assert_eq!(wire.info("watermark_last_save_status"), "ok");
    assert_eq!(wire.info("watermark_save_failures"), "0");
    drop(idle);
}

/// At the limit of processes no thread can be created. The thread that saves exists already.
#[test]
#[ignore = "needs root"]
fn no_thread_can_be_made() {
    const USER: u32 = 64_321;
    let dir = tempfile::tempdir().expect("a folder");
    chown(dir.path(), Some(USER), Some(USER)).expect("as root");
    let as_user = |command: &mut Command| {
        command.uid(USER).gid(USER);
    };
    let server = Server::try_start_in(dir.path(), &SHORT, as_user).expect("started");
    let mut wire = server.connect();
    wire.id();
    let pid = server.pid().to_string();
    // The server's user may lower its own limit.
    let lowered = Command::new("prlimit").args(["--pid", &pid, "--nproc=1:1"]).uid(USER).gid(USER).status();
    assert!(lowered.expect("it runs").success());
    let saves = wire.info_number("watermark_saves");
    eventually("the server has saved twice more", || {
        wire.id();
        wire.info_number("watermark_saves") >= saves + 2
    });
    assert_eq!(wire.info("watermark_save_failures"), "0");
    assert_eq!(server.stop().code(), Some(0));
}

/// A start without any of its threads reports an error, also if the log's thread is the missing one. It leaves no
/// record, because its clock may be wrong.
#[test]
#[ignore = "needs root"]
fn a_start_without_a_thread_is_refused() {
    const USER: u32 = 64_322;
    for limit in 1..=3 {
        let dir = tempfile::tempdir().expect("a folder");
        chown(dir.path(), Some(USER), Some(USER)).expect("as root");
        let log = refused(dir.path(), &[], |command| {
            let mut prlimit = Command::new("prlimit");
            prlimit.arg(format!("--nproc={limit}:{limit}")).arg(command.get_program()).args(command.get_args());
            prlimit.env("GETID_ID_MACHINE_CLAIM", "no").uid(USER).gid(USER);
            prlimit.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            *command = prlimit;
        });
        assert!(log.contains("thread") && !log.contains("bug"), "{limit}: {log}");
        assert!(!dir.path().join("getid-0.state").exists(), "{limit}: {log}");
    }
}

/// A start with some of its threads serves, or names the limit. Neither it nor a request that opens files and stores
/// reaches a panic.
#[test]
#[cfg(feature = "http")]
#[ignore = "needs root"]
fn a_start_with_too_few_threads_is_refused() {
    const USER: u32 = 64_323;
    for limit in 1..=12 {
        let dir = tempfile::tempdir().expect("a folder");
        chown(dir.path(), Some(USER), Some(USER)).expect("as root");
        let port = support::free_port().to_string();
        let words = ["--io-threads", "2", "--http-port", &port, "--sequence-create", "on-first-use"];
        let started = Server::try_start_in(dir.path(), &words, |command| {
            let mut prlimit = Command::new("prlimit");
            prlimit.arg(format!("--nproc={limit}:{limit}")).arg(command.get_program()).args(command.get_args());
            prlimit.env("GETID_ID_MACHINE_CLAIM", "no").uid(USER).gid(USER);
            prlimit.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            *command = prlimit;
        });
        match started {
            Ok(mut server) => {
                let mut wire = server.connect();
                wire.ask("INCR orders");
                assert_eq!(wire.ask("PING"), "+PONG");
                assert!(!server.log_so_far().contains("bug"), "{limit}");
            }
            Err(log) => assert!(log.contains("ulimit -u") && !log.contains("bug"), "{limit}: {log}"),
        }
    }
}

/// Another server writes the record although this one holds the lock, as on a network file system that lost it.
#[test]
fn a_second_holder_of_the_lock_stops_the_first() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut server = Server::start_in(dir.path(), &SHORT);
    let mut wire = server.connect();
    let mut last = wire.id();
    let path = dir.path().join("getid-0.state");
    let ours = Record::parse(&fs::read(&path).expect("a record")).expect("a whole one");
    let theirs = Record { owner: Owner { term: ours.owner.term.next(), nonce: 1 }, ..ours }.to_text();
    // Written as a store does, by a rename. A save of this server may come between.
    let write = || {
        let temp = dir.path().join("theirs");
        fs::write(&temp, &theirs).expect("written");
        fs::rename(&temp, &path).expect("renamed");
    };
    write();
    let mut refusal = String::new();
    eventually("IDs are refused", || {
        if fs::read_to_string(&path).expect("there") != theirs {
            write();
        }
        refusal = draw_if_given(&mut wire, &mut last);
        refusal.starts_with('-')
    });
    assert!(refusal.starts_with("-MISCONF claim lost: another server (term 2; this one has term 1)"), "{refusal}");
    assert!(refusal.contains("stop one of the two, then restart this one"), "{refusal}");
    let failures = wire.info_number("watermark_save_failures");
    eventually("the server has tried two more saves", || wire.info_number("watermark_save_failures") >= failures + 2);
    assert_eq!(fs::read_to_string(&path).expect("there"), theirs, "the other one's record is left alone");
    assert!(wire.ask("GETID").starts_with("-MISCONF claim lost"), "the server does not claim again by itself");

    // After a stop and a start, as the error advises, it continues past the other server's IDs.
    drop(wire);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
    drop(server);
    assert!(Server::start_in(dir.path(), &SHORT).connect().id() > last);
}

/// An old copy is put back under a running server: the server continues without a restart, past all IDs it issued.
#[test]
fn an_old_record_put_back_under_a_running_server() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("getid-0.state");
    let first = Server::start_in(dir.path(), &SHORT);
    let mut last = first.connect().id();
    let old = fs::read(&path).expect("a record");
    assert_eq!(first.stop().code(), Some(0));

    let mut server = Server::start_in(dir.path(), &SHORT);
    let mut wire = server.connect();
    eventually("the claim is taken again", || {
        if fs::read(&path).expect("a record") != old {
            let temp = dir.path().join("old");
            fs::write(&temp, &old).expect("written");
            fs::rename(&temp, &path).expect("renamed");
        }
        draw_if_given(&mut wire, &mut last);
        server.count_log("the claim was lost and has been taken again") != 0
    });
    assert!(id_again(&mut wire) > last);
}

/// Returns options of servers that claim their server-id on the machine. Tests run in parallel, so each has its own
/// epoch, with which their claims cannot collide.
fn claiming(n: u64) -> [String; 4] {
    let epoch = 1_400_000_000_000 + u64::from(std::process::id()) * 100 + n;
    ["--id-machine-claim", "yes", "--id-epoch", &epoch.to_string()].map(str::to_owned)
}

#[test]
fn two_folders_of_one_machine() {
    let words = claiming(0);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (first_dir, second_dir) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let first = Server::start_in(first_dir.path(), &words);
    first.connect().id();
    let refusal = format!(
        "server-id 0 is in use on this machine: pid {} has it, with {}. Two servers with one server-id give the same IDs. \
         Stop that process, or set another server-id; or, if this is intended, set id-machine-claim no",
        first.pid(),
        first_dir.path().display()
    );
    for more in [&[][..], &["--id-state", "none"]] {
        let log = refused(second_dir.path(), &[&words[..], more].concat(), |_| {});
        assert!(log.contains(&refusal), "{log}");
    }
    assert_eq!(fs::read_dir(second_dir.path()).expect("listed").count(), 0, "refused before it touched the folder");
    // A record that is moved past an ID does not help against a server that continues to issue larger ones.
    let advance = |claim: &str| {
        let mut command = getid();
        command.args(["state", "advance", "--server-id", "0", "--past-id", "1", "--epoch", words[3]]);
        command.arg(second_dir.path()).env("GETID_ID_MACHINE_CLAIM", claim).env("GETID_ID_EPOCH", words[3]);
        command.output().expect("it runs")
    };
    let output = advance("yes");
    assert!(String::from_utf8_lossy(&output.stderr).contains(&refusal), "{output:?}");
    assert!(!output.status.success());
    assert!(advance("no").status.success());

    // Another server-id starts, and so does a server without a machine claim.
    let other = Server::start_in(second_dir.path(), &[&words[..], &["--server-id", "1"]].concat());
    let meant = Server::start_in(second_dir.path(), &[&words[..], &["--id-machine-claim", "no"]].concat());
    other.connect().id();
    meant.connect().id();
    drop((other, meant));
    assert_eq!(first.stop().code(), Some(0));
    assert!(Server::start_in(second_dir.path(), &words).connect().id() > 0);
}

/// Lock and claim end with the process, so the next start need not wait.
#[test]
fn killed_and_started_at_once() {
    let words = claiming(1);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let dir = tempfile::tempdir().expect("a folder");
    let mut last = 0;
    let mut before: Option<Server> = None;
    for _ in 0..5 {
        if let Some(before) = &before {
            // The test does not wait for its end.
            before.signal(nix::sys::signal::Signal::SIGKILL);
        }
        // The end may take a moment.
        let mut started = None;
        eventually("the next one starts", || {
            started = match Server::try_start_in(dir.path(), &words, |_| {}) {
                Err(log) if log.contains(" is in use") => None,
                started => Some(started.unwrap_or_else(|log| panic!("the server did not start:\n{log}"))),
            };
            started.is_some()
        });
        let server = started.expect("a server");
        let id = server.connect().id();
        assert!(id > last);
        last = id;
        before = Some(server);
    }
}

/// Abstract sockets have no owner: another user's server with this server-id is refused as well.
#[test]
#[ignore = "needs root"]
fn two_users_of_one_machine() {
    const NOBODY_UID: u32 = 65_534;
    let words = claiming(2);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let dirs = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    chown(dirs[1].path(), Some(NOBODY_UID), Some(NOBODY_UID)).expect("as root");
    let first = Server::start_in(dirs[0].path(), &words);
    let log = refused(dirs[1].path(), &words, |command| {
        command.uid(NOBODY_UID).gid(NOBODY_UID);
    });
    assert!(log.contains(&format!("pid {} has it, with {}", first.pid(), dirs[0].path().display())), "{log}");
}

/// A folder in place of the file that a save writes fails each save, as a full disk does.
#[test]
fn a_failing_save_is_reported_everywhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut server = Server::start_in(dir.path(), &[&SHORT[..], &["--requirepass", "secret"]].concat());
    let mut wire = server.connect();
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    let mut stranger = server.connect();
    let ping = || {
        let port = server.port.to_string();
        getid().args(["ping", "--ids", "--timeout-ms", "10000", "--port", &port]).output().expect("it runs")
    };
    let mut last = wire.id();
    assert_eq!((wire.ask("IDREADY"), stranger.ask("IDREADY")), ("+READY".to_owned(), "+READY".to_owned()));
    assert_eq!(wire.info("refusing"), "no");
    assert!(ping().status.success());

    let obstacle = dir.path().join("getid-0.state.tmp");
    while fs::create_dir_all(obstacle.join("x")).is_err() {}
    let refusal = ids_until_refused(&mut wire, &mut last);
    assert!(refusal.starts_with("-MISCONF state can't be saved: cannot write "), "{refusal}");
    assert_eq!(wire.info("refusing"), refusal[1..]);
    assert_eq!(wire.ask("IDREADY"), refusal);
    assert_eq!(stranger.ask("IDREADY"), "-MISCONF no ids are given now; log in to see the reason");
    assert_eq!(stranger.ask("GETID"), "-NOAUTH Authentication required.");
    assert!(wire.ask_bulk("LATENCY DOCTOR").contains("IDs are refused now: MISCONF state can't be saved"));
    assert_eq!(wire.info("draws_refused"), "1", "only draws are counted");
    let output = ping();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("MISCONF no ids are given now"), "{output:?}");
    for _ in 0..500 {
        assert!(wire.ask("GETID").starts_with("-MISCONF state can't be saved"));
    }
    let begun = server.wait_log("IDs are refused from now on: MISCONF state can't be saved: cannot write ");
    assert!(begun.contains("Is a directory") || begun.contains("File exists"), "{begun}");

    fs::remove_dir_all(&obstacle).expect("removed");
    assert!(id_again(&mut wire) > last);
    assert_eq!(wire.ask("IDREADY"), "+READY");
    assert_eq!(wire.info("refusing"), "no");
    assert_eq!(server.count_log("IDs are refused from now on"), 1, "one event, one line:\n{}", server.log_so_far());
}

#[test]
#[ignore = "needs root"]
fn a_disk_that_is_full_while_running() {
    let disk = Disk::mount("size=64k");
    let mut server = Server::start_in(&disk.path, &SHORT);
    let mut wire = server.connect();
    let mut last = wire.id();
    disk.fill();
    // Longest time between two draws: a test on a stalled machine draws late.
    let (mut refusal, mut asked, mut pause) = (String::new(), Instant::now(), Duration::ZERO);
    eventually("IDs end, as nothing can be saved", || {
        refusal = draw_if_given(&mut wire, &mut last);
        pause = asked.elapsed();
        asked = Instant::now();
        refusal.starts_with('-')
    });
    let pause_ms = u64::try_from(pause.as_millis()).expect("short");
    assert!(refusal.starts_with("-MISCONF state can't be saved: cannot write "), "{refusal}");
    assert!(refusal.contains(&*disk.path.to_string_lossy()), "the path: {refusal}");
    assert!(refusal.contains("No space left on device"), "{refusal}");
    let watermark = wire.info_number("watermark");
    assert!(last >> 21 < watermark, "IDs continue up to the watermark, not past it");
    let left_ms = watermark - (last >> 21);
    assert!(left_ms < 200 + pause_ms, "{left_ms} ms of IDs were left, and no draw was made for {pause_ms} ms");
    for _ in 0..1000 {
        assert!(wire.ask("GETID").starts_with("-MISCONF state can't be saved"));
        assert_eq!(wire.ask("PING"), "+PONG");
    }
    assert_eq!(wire.info("refusing"), refusal[1..]);
    assert_eq!(wire.ask("IDREADY"), refusal);
    assert_eq!(wire.info("watermark_last_save_status"), "err");
    assert_eq!(wire.info("rdb_last_bgsave_status"), "err");

    disk.clean();
    let first = id_again(&mut wire);
    assert!(first > last);
    server.wait_log(SAVED_AGAIN);
    assert_eq!(wire.info("watermark_last_save_status"), "ok");
    assert_eq!(server.count_log(SAVE_FAILED), 1, "one event, one line:\n{}", server.log_so_far());
    assert_eq!(server.count_log(SAVED_AGAIN), 1, "one event, one line:\n{}", server.log_so_far());
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
#[ignore = "needs root"]
fn a_disk_that_is_full_at_the_stop() {
    let disk = Disk::mount("size=64k");
    let mut server = Server::start_in(&disk.path, &SHORT);
    let last = server.connect().id();
    disk.fill();
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(1), "{}", server.log_so_far());
    server.wait_log("the last save failed: cannot write ");
    drop(server);
    disk.clean();
    assert!(Server::start_in(&disk.path, &SHORT).connect().id() > last, "the old record is whole");
}

#[test]
#[ignore = "needs root"]
fn a_disk_that_is_full_at_the_start() {
    let disk = Disk::mount("size=64k");
    disk.fill();
    let log = refused(&disk.path, &[], |_| {});
    assert!(log.contains("the first save of the state failed: cannot write "), "{log}");
    assert!(log.contains("No space left on device"), "{log}");
    assert!(log.contains(&*disk.path.to_string_lossy()), "{log}");
}

#[test]
#[ignore = "needs root"]
fn a_disk_that_is_read_only_at_the_start() {
    let disk = Disk::mount("size=64k");
    disk.remount("ro");
    let log = refused(&disk.path, &[], |_| {});
    assert!(log.contains("Read-only file system"), "{log}");
    assert!(log.contains(&format!("dir: '{}' cannot be written", disk.path.display())), "{log}");
    // A record exists, and the disk has become read-only since.
    disk.remount("rw");
    Server::start_in(&disk.path, &[]).stop();
    disk.remount("ro");
    let log = refused(&disk.path, &[], |_| {});
    assert!(log.contains("Read-only file system"), "{log}");
}

/// A mount cannot be made read-only while the lock file is open. A folder that forbids writing has the effect of
/// `errors=remount-ro` on a running server: each write fails.
#[test]
#[ignore = "needs root"]
fn a_folder_that_forbids_writing_while_running() {
    const NOBODY_UID: u32 = 65_534;
    let parent = tempfile::tempdir().expect("a folder");
    fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let dir = parent.path().join("state");
    fs::create_dir(&dir).expect("made");
    chown(&dir, Some(NOBODY_UID), Some(NOBODY_UID)).expect("as root");
    let as_other_user = |command: &mut Command| {
        command.uid(NOBODY_UID).gid(NOBODY_UID);
    };
    let mut server = Server::try_start_in(&dir, &SHORT, as_other_user).expect("started");
    let mut wire = server.connect();
    let mut last = wire.id();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).expect("permissions");
    let refusal = ids_until_refused(&mut wire, &mut last);
    assert!(refusal.starts_with("-MISCONF state can't be saved: cannot write "), "{refusal}");
    assert!(refusal.contains("Permission denied"), "{refusal}");
    assert!(refused(&dir, &["--server-id", "1"], as_other_user).contains("Permission denied"));
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("permissions");
    assert!(id_again(&mut wire) > last);
    server.wait_log(SAVED_AGAIN);
    assert_eq!(server.count_log(SAVE_FAILED), 1, "{}", server.log_so_far());
}

/// Draws until a refusal and returns it. The IDs before it ascend.
fn ids_until_refused(wire: &mut Wire, last: &mut u64) -> String {
    let mut reply = String::new();
    eventually("IDs end, as nothing can be saved", || {
        reply = draw_if_given(wire, last);
        reply.starts_with('-')
    });
    reply
}

/// Sends `GETID` and returns the reply. Asserts that an ID is larger than the last one.
fn draw_if_given(wire: &mut Wire, last: &mut u64) -> String {
    let reply = wire.ask("GETID");
    if let Some(id) = reply.strip_prefix(':') {
        let id = id.parse().expect("an id");
        assert!(id > *last);
        *last = id;
    }
    reply
}

/// Returns the first ID after the server serves again.
fn id_again(wire: &mut Wire) -> u64 {
    let mut reply = String::new();
    eventually("the server issues IDs again", || {
        reply = wire.ask("GETID");
        reply.starts_with(':')
    });
    reply[1..].parse().expect("an id")
}

fn record(server_id: u32, epoch: Epoch) -> String {
    let layout = Layout::new(epoch, 2, 9, 10).expect("a layout");
    let point = SavePoint { watermark: Tick(375_000_000_000), reference: Tick(374_999_997_000), max_borrow_ms: 0 };
    Record { identity: Identity { server_id, layout }, point, declarations: Arc::default(), owner: Owner::default() }
        .to_text()
}

fn with_checksum(text: &str) -> String {
    let body = &text[..text.rfind("checksum").expect("its last line")];
    format!("{body}checksum crc32 {:08x}\n", crc32fast::hash(body.as_bytes()))
}

/// A small file system in memory.
struct Disk {
    path: PathBuf,
    _parent: tempfile::TempDir,
}

impl Disk {
    fn mount(options: &str) -> Disk {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("disk");
        fs::create_dir(&path).expect("made");
        let options = format!("mode=1777,{options}");
        as_root("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", path.to_str().expect("a path")]);
        Disk { path, _parent: parent }
    }

    fn remount(&self, how: &str) {
        as_root("mount", &["-o", &format!("remount,{how}"), self.path.to_str().expect("a path")]);
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.path.join("filler")).expect("made");
        for _ in 0..2 {
            // More than fits: the write fails, and the disk is full.
            assert!(file.write_all(&vec![1; 1 << 20]).is_err(), "the disk is larger than requested");
            // A save in progress frees a block.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn clean(&self) {
        fs::remove_file(self.path.join("filler")).expect("deleted");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazy, because a server of a failed test may still use it.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

fn as_root(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{program}: run as root? {}", String::from_utf8_lossy(&output.stderr));
}

/// Deletes the folder of a running server in one step. If files were deleted one by one, the lock file might go first,
/// and the server would claim the folder again.
fn delete(dir: &Path) {
    let gone = dir.with_extension("gone");
    fs::rename(dir, &gone).expect("moved away");
    // The server may create a file in it at this moment.
    eventually("the moved folder is deleted", || fs::remove_dir_all(&gone).is_ok());
}
