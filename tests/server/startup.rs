//! A start and a stop as seen by an operator: the folder of the state, the log, and the signals that stop the server.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{self, Server, config_get, free_port, getid};
use nix::sys::signal::Signal;

/// User id without rights.
const NOBODY_UID: u32 = 65_534;

/// Removes the `--dir` that tests pass to each server.
fn without_dir(command: &mut Command) {
    let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let place = words.iter().position(|word| word == "--dir").expect("--dir");
    let mut fresh = getid();
    fresh.args(&words[..place]).args(&words[place + 2..]);
    fresh.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    *command = fresh;
}

#[test]
fn a_start_ends_with_the_ready_line() {
    let parent = tempfile::tempdir().expect("a folder");
    let parent = parent.path().canonicalize().expect("its name");
    let dir = parent.join("state");
    fs::write(parent.join("getid.conf"), "timeout 7\n").expect("written");
    let mut server = Server::try_start_in(Path::new("state"), &["--server-id", "1"], |command| {
        let words: Vec<_> = command.get_args().skip(1).map(ToOwned::to_owned).collect();
        let mut fresh = getid();
        fresh.args(["serve", "--config", "getid.conf"]).args(words).current_dir(&parent);
        fresh.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        *command = fresh;
    })
    .expect("started");
    let ready = server.wait_log("Ready to accept connections on ");
    let expected = format!("127.0.0.1:{}", server.port);
    assert!(ready.contains(&expected), "{ready}");
    let (pid, conf) = (server.pid(), parent.join("getid.conf"));
    let expected = format!("(pid {pid}, folder {}, configuration {})", dir.display(), conf.display());
    assert!(ready.ends_with(&expected), "no hint where no terminal is: {ready}");
    // The thread of the sequence store logs independently.
    let log = server.log_so_far();
    let last = log.lines().rfind(|line| !line.contains(" sequence store "));
    assert_eq!(last, Some(&*ready), "the last line:\n{log}");
    assert!(server.log_so_far().contains(&format!("created the missing folder {}", dir.display())));

    // Every report has the absolute path, and the folder is private to its owner.
    assert_eq!(config_get(&server, "dir"), dir.to_str().expect("text"));
    assert_eq!(server.connect().info("state_dir"), dir.to_str().expect("text"));
    assert_eq!(fs::metadata(&dir).expect("there").permissions().mode() & 0o777, 0o700);
    assert_eq!(config_get(&server, "timeout"), "7");
    // The file keeps the path as the operator wrote it.
    assert_eq!(server.connect().ask("CONFIG REWRITE"), "+OK");
    let text = fs::read_to_string(conf).expect("there");
    assert!(text.contains("\ndir state\n"), "{text}");

    // Nothing is wrong, so no line is a warning.
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    server.wait_log("the position is stored; bye");
    let log = server.log_so_far();
    let (_, stop) = log.split_once("SIGTERM received").expect("the log has the stop");
    assert!(stop.lines().skip(1).all(|line| line.contains(" notice ")), "{log}");
    assert!(log.lines().any(|line| line.contains(" notice ") && line.contains("SIGTERM received")), "{log}");
}

#[test]
fn signals_without_a_meaning_are_ignored() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    for signal in [
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGPIPE,
        Signal::SIGALRM,
        Signal::SIGVTALRM,
        Signal::SIGXFSZ,
        Signal::SIGHUP,
    ] {
        server.signal(signal);
        wire.id();
    }
    assert_eq!(server.stop().code(), Some(0));
}

/// Returns a home folder in which the user may create files.
fn home() -> (tempfile::TempDir, std::path::PathBuf) {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().canonicalize().expect("its name");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    chown(&path, Some(NOBODY_UID), Some(NOBODY_UID)).expect("as root");
    (home, path)
}

#[test]
#[ignore = "needs root"]
fn the_state_of_a_user_is_in_the_home_folder() {
    let (_home, home) = home();
    let state = home.join(".local/state/getid");
    fs::write(home.join("getid-2.state"), "").expect("written");
    let start = |xdg: Option<&Path>| {
        Server::try_start_in(Path::new("/nonexistent"), &["--server-id", "2"], |command| {
            without_dir(command);
            command.uid(NOBODY_UID).gid(NOBODY_UID).env("HOME", &home).env_remove("XDG_STATE_HOME").current_dir(&home);
            command.envs(xdg.map(|path| ("XDG_STATE_HOME", path)));
        })
        .expect("started")
    };
    let mut server = start(None);
    server.wait_log(&format!("folder {}", state.display()));
    assert_eq!(config_get(&server, "dir"), state.to_str().expect("text"));
    for folder in [&state, &home.join(".local")] {
        assert_eq!(fs::metadata(folder).expect("there").permissions().mode() & 0o777, 0o700);
    }
    assert!(state.join("getid-2.state").exists());
    // A state in the earlier default folder is reported.
    let log = server.wait_log("there is a state of server-id 2 in the folder of this start");
    for part in ["getid-2.state, and it is not used", &format!("--dir {}", home.display())] {
        assert!(log.contains(part), "{log}");
    }
    assert_eq!(server.stop().code(), Some(0));

    let other = home.join("other");
    let server = start(Some(&other));
    assert_eq!(config_get(&server, "dir"), other.join("getid").to_str().expect("text"));
}

/// Runs in a mount namespace, so that the machine's folder stays untouched.
#[test]
#[ignore = "needs root"]
fn the_state_of_root_is_in_the_system_folder() {
    let port = free_port();
    let words = format!(
        "\"$0\" serve --port {port} --server-id 1 & pid=$!; for try in $(seq 300); do \
         \"$0\" ping --port {port} --ids && break; sleep 0.1; done"
    );
    let script = format!(
        "mount -t tmpfs tmpfs /var/lib && cd / && {{ {words}; kill $pid; wait $pid; ls -ld /var/lib/getid; ls /var/lib/getid; }}"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", &script]).arg(support::binary()).env_remove("GETID_DIR");
    let output = unshare.output().expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["folder /var/lib/getid, no configuration file", "READY, gives IDs", "drwx------", "getid-1.state"] {
        assert!(text.contains(part), "{part}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A draw above the layout's capacity gets an error, and the server is healthy all the same.
#[test]
fn a_server_at_its_borrow_limit_is_ready() {
    let narrow = ["--id-range", "2", "--shard-range", "0", "--random-range", "19", "--id-max-borrow-ms", "100"];
    let server =
        Server::start(&[&narrow[..], &["--id-watermark-lead-ms", "100", "--id-borrow-policy", "error"]].concat());
    let (mut greedy, mut probe) = (server.connect(), server.connect());
    let mut busy = 0;
    for _ in 0..200 {
        greedy.send("GETID\r\n".repeat(50));
        assert_eq!(probe.ask("IDREADY"), "+READY");
        busy += (0..50).filter(|_| greedy.line().starts_with("-BUSY")).count();
    }
    assert!(busy > 0, "the server was at its borrow limit");
}

/// Asserts that `check-config` and a start refuse these words with the same sentence.
#[track_caller]
fn refused_by_both(dir: &Path, words: &[&str], prepare: impl Fn(&mut Command)) {
    let mut command = support::getid();
    command.arg("check-config").arg("--dir").arg(dir).args(["--port", &free_port().to_string()]).args(words);
    prepare(&mut command);
    let output = command.output().expect("done");
    let check = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words:?} in {}: {output:?}", dir.display());
    let sentence = check.trim_start_matches("*** FATAL CONFIGURATION ERROR ***").trim();
    let start = support::refused(dir, words, &prepare);
    // A start that cannot listen names its port, which differs here.
    let sentence = sentence.split(':').next().expect("done");
    assert!(start.contains(sentence), "{words:?}: {check}\n{start}");
}

#[test]
fn check_config_refuses_files_that_a_start_could_not_open() {
    let dir = tempfile::tempdir().expect("done");
    let at = |name: &str| dir.path().join(name).to_str().expect("done").to_owned();
    fs::write(at("file"), "").expect("done");
    symlink("file", at("link")).expect("done");
    for words in [
        // An address that no machine has (RFC 5737).
        ["--bind", "192.0.2.1"],
        ["--bind", "-192.0.2.1"],
        ["--unixsocket", &at("file")],
        ["--unixsocket", &at("none/socket")],
        ["--unixsocket", &at(&"x".repeat(107))],
        ["--logfile", &at("link")],
        ["--logfile", dir.path().to_str().expect("done")],
        ["--logfile", &at("none/log")],
        #[cfg(feature = "http")]
        ["--http-port=7880", "--http-bind=192.0.2.1"],
        #[cfg(feature = "http")]
        ["--http-port=7880", "--http-bind=-192.0.2.1"],
    ] {
        refused_by_both(dir.path(), &words, |_| {});
    }
    // A folder that a start would create.
    refused_by_both(&dir.path().join("new"), &["--logfile", &at("none/log")], |_| {});
    #[cfg(feature = "http")]
    {
        let output = support::getid().args(["check-config", "--http-port=7880", "--http-bind=192.0.2.1"]).output();
        let text = String::from_utf8_lossy(&output.expect("done").stderr).into_owned();
        assert!(text.contains("correct http-bind"), "{text}");
    }
    // A warning, which does not prevent a start.
    let words = ["check-config", "--dir", dir.path().to_str().expect("done"), "--pidfile", &at("none/pid")];
    let output = support::getid().args(words).output().expect("done");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains(&format!("warning: pidfile: pid file {}: No such file", at("none/pid"))), "{text}");
}

#[test]
#[ignore = "needs root"]
fn check_config_refuses_files_that_a_start_may_not_write() {
    let dir = tempfile::tempdir().expect("done");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("done");
    let at = |name: &str| dir.path().join(name).to_str().expect("done").to_owned();
    fs::write(at("log"), "").expect("done");
    let as_other_user = |command: &mut Command| {
        command.uid(NOBODY_UID).gid(NOBODY_UID);
    };
    refused_by_both(dir.path(), &[], as_other_user);
    refused_by_both(&dir.path().join("new"), &[], as_other_user);
    let state = tempfile::tempdir().expect("done");
    chown(state.path(), Some(NOBODY_UID), Some(NOBODY_UID)).expect("done");
    for words in [["--logfile", &at("log")], ["--logfile", &at("new.log")], ["--unixsocket", &at("socket")]] {
        refused_by_both(state.path(), &words, as_other_user);
    }
}

#[test]
#[cfg(feature = "http")]
fn the_http_port_is_named_before_and_at_the_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let http = free_port().to_string();
    let words = ["--http-port", &http, "--http-bind", "127.0.0.1", "-::1"];
    let mut server = Server::start_in(dir.path(), &words);
    let ready = server.wait_log("Ready to accept connections on ");
    assert!(ready.contains(&format!("127.0.0.1:{}, ", server.port)), "{ready}");
    assert!(ready.contains(&format!(", http://127.0.0.1:{http}")), "{ready}");
    assert!(!ready.contains("browser"), "no hint where no terminal is: {ready}");
    // The port is in use, perhaps by the server that is to be restarted.
    let mut check = getid();
    check.arg("check-config").args(["--dir", dir.path().to_str().expect("text")]).args(words);
    let output = check.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains(&format!("127.0.0.1:{http} (HTTP), [::1]:{http} (HTTP) if this address exists")), "{text}");
    let (other, own) = (tempfile::tempdir().expect("a folder"), ["--http-port", &http]);
    let log = support::refused(other.path(), &own, |_| {});
    assert!(log.contains(&format!("could not listen on 127.0.0.1:{http}: ")), "{log}");
    assert!(log.contains("set another port with http-port"), "{log}");
    assert_eq!(fs::read_dir(other.path()).expect("there").count(), 0, "the folder is empty");
}

#[test]
#[cfg(feature = "http")]
fn on_a_terminal_a_start_names_the_page_to_open() {
    let dir = tempfile::tempdir().expect("a folder");
    let [port, http] = [free_port(), free_port()];
    let own = format!(
        "exec timeout 60 {} serve --port {port} --http-port {http} --http-bind 0.0.0.0 --dir {}",
        support::binary().display(),
        dir.path().display()
    );
    let mut script = Command::new("script");
    script.args(["-qfec", &own, "/dev/null"]).env("GETID_ID_MACHINE_CLAIM", "no");
    let mut child = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("script of bsdutils");
    // `script` stops itself when its child is stopped; SIGCONT lets it continue.
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    std::thread::spawn(move || {
        while nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let ready = lines.map_while(Result::ok).find(|line| line.contains("Ready to accept")).expect("it starts");
    let next = format!("Next, in another terminal: getid get -p {port}; in a browser: http://localhost:{http}/");
    assert!(ready.trim_end().ends_with(&next), "{ready}");
    support::Wire::connect(port).send("SHUTDOWN\r\n");
    child.wait().expect("it ends");
}

/// docs/tools.md reads the server's pid from its lock file.
#[test]
fn the_lock_file_gives_the_pid_as_the_page_reads_it() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tools.md")).expect("the page");
    let (_, after) = page.split_once("kill -9 $(").expect("it kills a server");
    let (sed, _) = after.split_once(" ~/.local/state/getid/getid-0.lock)").expect("by its lock file");
    let server = Server::start(&[]);
    let script = format!("{sed} {}", server.dir.join("getid-0.lock").display());
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", server.pid()));
}
