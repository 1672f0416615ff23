//! Files that an operator names, and the secrets in them: their type, mode and owner.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;

use crate::support::{self, SHORT_LEAD, Server, Wire, eventually, refused, words};

fn shown(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Inserts a configuration file before the directives.
pub(crate) fn with_file(command: &mut Command, file: &Path) {
    let args: Vec<_> = command.get_args().skip(1).map(ToOwned::to_owned).collect();
    *command = support::getid();
    command.arg("serve").arg(file).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
}

fn start(dir: &Path, file: &Path, words: &[&str]) -> Server {
    Server::try_start_in(dir, words, |command| with_file(command, file)).unwrap_or_else(|log| panic!("{log}"))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// Returns true if this password logs in, on a new connection.
fn admits(server: &Server, password: &str) -> bool {
    server.connect().ask(&format!("AUTH {password}")) == "+OK"
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_up_no_change() {
    let dir = support::folder();
    let (config, users) = (dir.path().join("getid.conf"), dir.path().join("users.acl"));
    fs::write(&config, "").expect("written");
    fs::write(&users, "").expect("written");
    let server = start(dir.path(), &config, &["--aclfile", shown(&users)]);
    for path in [&config, &users] {
        fs::remove_file(path).expect("removed");
        nix::unistd::mkfifo(path, Mode::S_IRWXU).expect("a pipe");
    }
    let mut wire = server.connect();
    let pipe = "it is a named pipe; a regular file is expected";
    assert_eq!(wire.ask("CONFIG REWRITE"), format!("-ERR Rewriting config file: {pipe}"));
    assert_eq!(wire.ask("ACL LOAD"), format!("-ERR Error loading ACLs, opening file '{}': {pipe}", users.display()));
    assert!(wire.ask("ACL SAVE").starts_with("-ERR There was an error trying to save the ACLs"));
    assert_eq!(wire.ask("CONFIG SET timeout 9"), "+OK");
    assert!(wire.id() > 0);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_start_with_a_pipe_is_refused() {
    let dir = support::folder();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let config = dir.path().join("getid.conf");
    fs::write(&config, format!("include {}\n", pipe.display())).expect("written");
    for log in [
        refused(dir.path(), &[], |command| with_file(command, &pipe)),
        refused(dir.path(), &[], |command| with_file(command, &config)),
        refused(dir.path(), &["--aclfile", shown(&pipe)], |_| {}),
        refused(dir.path(), &["--requirepass-file", shown(&pipe)], |_| {}),
        refused(
            dir.path(),
            &[
                "--tls-port",
                "1",
                "--tls-auth-clients",
                "no",
                "--tls-cert-file",
                shown(&pipe),
                "--tls-key-file",
                shown(&pipe),
            ],
            |_| {},
        ),
    ] {
        assert!(log.contains("it is a named pipe; a regular file is expected"), "{log}");
    }
    let log = refused(dir.path(), &["--logfile", shown(&pipe)], |_| {});
    assert!(log.contains("a named pipe without a reader"), "{log}");
    symlink("elsewhere", dir.path().join("link")).expect("a link");
    let log = refused(dir.path(), &["--logfile", "link"], |_| {});
    assert!(log.contains("symbolic link, which is not followed"), "{log}");
    assert!(!dir.path().join("elsewhere").exists());
}

#[test]
fn a_pid_file_and_a_socket_of_a_running_server_are_kept() {
    let (one, two) = (support::folder(), support::folder());
    let (pid, socket) = (one.path().join("pid"), one.path().join("socket"));
    let words =
        ["--server-id", "0", "--pidfile", shown(&pid), "--unixsocket", shown(&socket), "--unixsocketperm", "600"];
    let first = Server::start_in(one.path(), &words);
    eventually("the pid file", || fs::read_to_string(&pid).is_ok_and(|text| text == format!("{}\n", first.pid())));
    assert_eq!(mode(&socket) & 0o777, 0o600);
    // Another server does not take the socket, even if it has no right to connect to it.
    let log = refused(two.path(), &["--server-id", "1", "--unixsocket", shown(&socket)], |_| {});
    assert!(log.contains("another server is listening on it"), "{log}");
    // Nor the pid file, at its start or at its end.
    let mut second = Server::start_in(two.path(), &["--server-id", "1", "--pidfile", shown(&pid)]);
    second.wait_log(&format!("it belongs to the running getid with pid {}, and is unchanged", first.pid()));
    assert_eq!(second.stop().code(), Some(0));
    assert_eq!(fs::read_to_string(&pid).expect("still there"), format!("{}\n", first.pid()));
    // The socket is removed, and another server creates one of that name. At its end the first server leaves it.
    fs::remove_file(&socket).expect("removed");
    let second = Server::start_in(two.path(), &["--server-id", "1", "--unixsocket", shown(&socket)]);
    assert_eq!(first.stop().code(), Some(0));
    assert!(!pid.exists());
    std::os::unix::net::UnixStream::connect(&socket).expect("it is the second one's");
    assert_eq!(second.stop().code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_pid_file_is_not_written_through_a_link() {
    let dir = support::folder();
    let (pid, victim) = (dir.path().join("pid"), dir.path().join("victim"));
    fs::write(&victim, "mine").expect("written");
    symlink(&victim, &pid).expect("a link");
    let server = Server::start_in(dir.path(), &["--pidfile", shown(&pid)]);
    eventually("the pid file", || fs::read_to_string(&pid).is_ok_and(|text| text == format!("{}\n", server.pid())));
    assert_eq!(fs::read_to_string(&victim).expect("text"), "mine");
    assert_eq!((mode(&pid) & 0o022, server.stop().code()), (0, Some(0)));
    assert_eq!((pid.exists(), fs::read_to_string(&victim).expect("text").as_str()), (false, "mine"));
}

#[test]
fn a_rewritten_file_keeps_its_mode_unless_it_holds_a_secret() {
    let dir = support::folder();
    let (config, link) = (dir.path().join("real.conf"), dir.path().join("getid.conf"));
    write(&config, "timeout 5\n", 0o644);
    symlink("real.conf", &link).expect("a link");
    let server = start(dir.path(), &link, &[]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("CONFIG SET timeout 6"), "+OK");
    assert_eq!(wire.ask("CONFIG REWRITE"), "+OK");
    assert!(fs::read_to_string(&config).expect("text").starts_with("timeout 6\n"));
    assert_eq!(mode(&config), 0o644);
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink(), "a link stays one");
    assert_eq!(wire.ask("CONFIG SET requirepass hunter2"), "+OK");
    assert_eq!(wire.ask("CONFIG REWRITE"), "+OK");
    assert!(fs::read_to_string(&config).expect("text").contains("requirepass hunter2\n"));
    assert_eq!(mode(&config), 0o600);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn values_of_the_environment_stay_out_of_the_file() {
    let dir = support::folder();
    let config = dir.path().join("getid.conf");
    write(&config, "timeout 5\n", 0o644);
    let server = Server::try_start_in(dir.path(), &[], |command| {
        with_file(command, &config);
        command.env("GETID_REQUIREPASS", "hunter2");
    })
    .unwrap_or_else(|log| panic!("{log}"));
    let mut wire = server.connect();
    assert_eq!(wire.ask("AUTH hunter2"), "+OK");
    assert_eq!(wire.ask("CONFIG SET timeout 6"), "+OK");
    assert_eq!(wire.ask("CONFIG REWRITE"), "+OK");
    let text = fs::read_to_string(&config).expect("text");
    assert!(text.starts_with("timeout 6\n") && !text.contains("hunter2"), "{text}");
    assert_eq!(mode(&config), 0o644);
}

#[test]
fn a_password_may_have_a_file_of_its_own() {
    let dir = support::folder();
    let (config, password) = (dir.path().join("getid.conf"), dir.path().join("password"));
    write(&config, &format!("requirepass-file {}\n", password.display()), 0o644);
    write(&password, "hunter2\n", 0o600);
    let mut server = start(dir.path(), &config, &["--loglevel", "notice"]);
    assert!(admits(&server, "hunter2") && !admits(&server, "hunter3"));
    let mut wire = server.connect();
    assert_eq!(wire.ask("GETID"), "-NOAUTH Authentication required.");
    assert_eq!(wire.ask("AUTH hunter2"), "+OK");
    let error = wire.ask("CONFIG SET requirepass hunter4");
    assert!(error.contains("write the new one there and send SIGHUP"), "{error}");
    // The password stays in its file.
    assert_eq!(wire.ask("CONFIG SET timeout 6"), "+OK");
    assert_eq!(wire.ask("CONFIG REWRITE"), "+OK");
    assert!(!fs::read_to_string(&config).expect("text").contains("hunter"));
    // A new password needs no restart; a file that cannot be read changes nothing.
    fs::write(&password, "hunter3").expect("written");
    server.signal(Signal::SIGHUP);
    server.wait_log("has changed");
    assert!(admits(&server, "hunter3") && !admits(&server, "hunter2"));
    fs::write(&password, "").expect("written");
    server.signal(Signal::SIGHUP);
    server.wait_log("the password is unchanged: ");
    assert!(admits(&server, "hunter3"));
    let log = server.log_so_far();
    assert!(!log.contains("hunter"), "{log}");
}

#[test]
fn a_password_file_comes_by_the_environment_or_by_systemd_too() {
    let dir = support::folder();
    write(&dir.path().join("getid.requirepass"), "hunter2\n", 0o400);
    for (name, value) in [
        ("GETID_REQUIREPASS_FILE", dir.path().join("getid.requirepass")),
        ("CREDENTIALS_DIRECTORY", dir.path().to_owned()),
    ] {
        let server = Server::try_start_in(dir.path(), &[], |command| {
            command.env(name, &value);
        })
        .unwrap_or_else(|log| panic!("{log}"));
        assert!(admits(&server, "hunter2") && !admits(&server, "hunter3"), "{name}");
        assert!(server.connect().ask("GETID").starts_with("-NOAUTH"), "{name}");
    }
    // Credentials of other services have no effect, and a directive has precedence.
    let other = support::folder();
    let server = Server::try_start_in(dir.path(), &[], |command| {
        command.env("CREDENTIALS_DIRECTORY", other.path());
    })
    .unwrap_or_else(|log| panic!("{log}"));
    assert!(server.connect().id() > 0);
    drop(server);
    let server = Server::try_start_in(dir.path(), &["--requirepass", "hunter5"], |command| {
        command.env("CREDENTIALS_DIRECTORY", dir.path());
    })
    .unwrap_or_else(|log| panic!("{log}"));
    assert!(admits(&server, "hunter5") && !admits(&server, "hunter2"));
    drop(server);
    for (text, expected) in [("", "is empty"), ("a\nb\n", "has more than one line"), (&"x".repeat(513), "is longer")] {
        let password = dir.path().join("password");
        fs::write(&password, text).expect("written");
        let log = refused(dir.path(), &["--requirepass-file", shown(&password)], |_| {});
        assert!(log.contains(expected) && log.contains("a password of 1 to 512 bytes"), "{log}");
    }
    let log = refused(dir.path(), &["--requirepass-file", "x", "--requirepass", "hunter2"], |_| {});
    assert!(log.contains("both by requirepass and by requirepass-file") && !log.contains("hunter2"), "{log}");
}

#[test]
fn a_digest_takes_the_place_of_the_default_users_password() {
    // SHA-256 of `hunter2`: `printf %s hunter2 | sha256sum`
    let rules = "default on #f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7 ~* &* +@all";
    let mut server = Server::start(&["--user", rules]);
    assert!(admits(&server, "hunter2") && !admits(&server, "hunter3"));
    assert!(server.connect().ask("GETID").starts_with("-NOAUTH"));
    // A reader of the digest can guess the password offline.
    server.wait_log("every user of this machine can see the command line");
}

#[test]
fn secrets_readable_by_others_are_logged() {
    let dir = support::folder();
    let at = |name: &str| dir.path().join(name);
    write(&at("getid.conf"), "timeout 5\nuser app on >hunter2 +ping\n", 0o644);
    let mut server = start(dir.path(), &at("getid.conf"), &["--requirepass", "hunter3"]);
    server.wait_log("requirepass: every user of this machine can see the command line, with ps");
    let line = server.wait_log("every user of this machine can read");
    assert!(
        line.contains("getid.conf:2: user: ") && line.contains("(mode 644), which holds a password: chmod o="),
        "{line}"
    );
    drop(server);

    write(&at("password"), "hunter4", 0o604);
    write(&at("users.acl"), "user default on >hunter5 +@all\n", 0o644);
    let password = at("password");
    let words = ["--aclfile", "users.acl", "--requirepass-file", shown(&password)];
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("a mode");
    let mut server = Server::start_in(dir.path(), &words);
    server.wait_log("password (mode 604), which holds a password");
    server.wait_log("users.acl (mode 644), which holds passwords' digests");
    server.wait_log("dir: every user of this machine can write to");
    let log = server.log_so_far();
    assert!(!log.contains("hunter"), "{log}");
    drop(server);

    // Without these faults there is no warning.
    for (path, mode) in [("password", 0o600), ("users.acl", 0o640), (".", 0o755)] {
        fs::set_permissions(at(path), Permissions::from_mode(mode)).expect("a mode");
    }
    let mut server = Server::start_in(dir.path(), &words);
    assert_eq!(server.stop_and_count("every user of this machine"), 0);
}

trait StopAndCount {
    fn stop_and_count(&mut self, text: &str) -> usize;
}

impl StopAndCount for Server {
    fn stop_and_count(&mut self, text: &str) -> usize {
        self.signal(Signal::SIGTERM);
        self.wait();
        self.wait_log("bye");
        self.count_log(text)
    }
}

/// A server's threads and memory before many clients connect, and the limits for afterwards.
struct ResourceBaseline {
    threads: usize,
    resident_kb: u64,
    reserved_kb: u64,
}

impl ResourceBaseline {
    fn of(server: &Server) -> ResourceBaseline {
        let (resident_kb, reserved_kb) = (server.memory_kb("VmRSS"), server.memory_kb("VmSize"));
        ResourceBaseline { threads: threads(server), resident_kb, reserved_kb }
    }

    /// Asserts that there is no new thread, and that each of `clients` costs a connection's buffers, not a thread's
    /// stack. An allocator reserves arenas of 64 MiB at a time.
    fn assert_limits(&self, server: &Server, clients: u64) {
        let threads = threads(server);
        assert!(threads <= self.threads, "{threads} threads, {} before", self.threads);
        let resident_kb = server.memory_kb("VmHWM").saturating_sub(self.resident_kb);
        let reserved_kb = server.memory_kb("VmPeak").saturating_sub(self.reserved_kb);
        assert!(resident_kb < 4 * 1024 + clients * 16, "the resident memory grew by {resident_kb} kB");
        assert!(reserved_kb < 256 * 1024 + clients * 16, "the reserved memory grew by {reserved_kb} kB");
    }
}

fn threads(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads").count()
}

#[test]
fn a_thousand_changes_by_two_hundred_clients_delay_no_other() {
    let dir = support::folder();
    let config = dir.path().join("getid.conf");
    fs::write(&config, "").expect("written");
    let server = start(dir.path(), &config, &[]);
    let mut wires: Vec<Wire> = (0..200).map(|_| server.connect()).collect();
    let mut good = server.connect();
    good.id();
    let before = ResourceBaseline::of(&server);
    for wire in &mut wires {
        wire.send("CONFIG REWRITE\r\n".repeat(5));
    }
    let mut made = 0;
    for wire in &mut wires {
        good.id();
        for _ in 0..5 {
            let reply = wire.line();
            assert!(reply == "+OK" || reply.starts_with("-BUSY "), "{reply}");
            made += usize::from(reply == "+OK");
        }
    }
    // The first change runs, and 64 wait.
    assert!(made >= 64, "{made} changes were made");
    before.assert_limits(&server, 200);
}

/// More clients than the runtime has blocking threads send a change whose file hangs. They cost one change in progress
/// and a bounded queue. IDs, saves and all other commands continue; when the disk responds, so do changes. The unit
/// tests of `server::changes` test how long a change waits.
#[test]
fn hundreds_of_changes_while_their_file_hangs() {
    const CLIENTS: usize = 520;
    // One change is in progress, a bounded number waits for it, and the others are refused at once.
    const REFUSED: usize = CLIENTS - 1 - 64;
    support::need_open_files(CLIENTS + 100);
    let [work, state] = [(); 2].map(|()| support::folder());
    let folder = work.path().join("config");
    fs::create_dir(&folder).expect("made");
    let (layer, hang, config) =
        (support::preload::layer(work.path(), "hang"), work.path().join("hang"), folder.join("getid.conf"));
    let begun = work.path().join("hang.begun");
    fs::write(&config, "").expect("written");
    let mut server = Server::try_start_in(state.path(), &words(SHORT_LEAD), |command| {
        with_file(command, &config);
        command.env("LD_PRELOAD", &layer).env("GETID_TEST_HANG", &hang).env("GETID_TEST_HANG_DIR", &folder);
    })
    .unwrap_or_else(|log| panic!("{log}"));
    let mut good = server.connect();
    assert_eq!(good.ask("CONFIG REWRITE"), "+OK", "no save hangs yet");
    let mut wires: Vec<Wire> = (0..CLIENTS).map(|_| server.connect()).collect();
    good.wait_info("connected_clients", &(CLIENTS + 1).to_string());
    let before = ResourceBaseline::of(&server);
    let mut last = 0;
    for (call, timeout) in [("open", 77), ("sync", 78)] {
        fs::write(&hang, call).expect("written");
        assert_eq!(good.ask(&format!("CONFIG SET timeout {timeout}")), "+OK", "a change without a file is made");
        let (first, others) = wires.split_first_mut().expect("some");
        first.send("CONFIG REWRITE\r\n");
        eventually("a change is under way", || begun.exists());
        for wire in others {
            wire.send("CONFIG REWRITE\r\n");
        }
        let saves = good.info_number("rdb_saves");
        let answered: Vec<_> = wires.iter().map(|wire| wire.stream().try_clone().expect("a second handle")).collect();
        eventually("saves continue, and late changes are refused", || {
            assert_eq!(good.ask("PING"), "+PONG");
            let id = good.id();
            assert!(id > last, "{id} came after {last}");
            last = id;
            let is_there = |stream: &TcpStream| {
                stream.set_nonblocking(true).expect("an option");
                let is_there = stream.peek(&mut [0]).is_ok();
                stream.set_nonblocking(false).expect("an option");
                is_there
            };
            good.info_number("rdb_saves") >= saves + 2
                && answered.iter().filter(|stream| is_there(stream)).count() >= REFUSED
        });
        before.assert_limits(&server, CLIENTS as u64);

        fs::remove_file(&hang).expect("removed");
        let replies: Vec<String> = wires.iter_mut().map(Wire::line).collect();
        let count = |text: &str| replies.iter().filter(|reply| reply.contains(text)).count();
        // Fewer if the machine stalled for as long as a change may wait.
        let too_many = count("-BUSY 64 changes already wait for CONFIG REWRITE");
        assert!((CLIENTS / 2..=REFUSED).contains(&too_many), "{replies:?}");
        let too_late = count("-BUSY CONFIG REWRITE has waited ");
        assert_eq!(count("+OK") + too_late, CLIENTS - too_many, "{replies:?}");
        eventually("no save hangs any more", || fs::remove_file(&begun).is_ok());
        assert_eq!(good.ask("CONFIG REWRITE"), "+OK");
        assert!(fs::read_to_string(&config).expect("text").contains(&format!("timeout {timeout}\n")));
    }
    assert_eq!(server.count_log("cannot save"), 0, "{}", server.log_so_far());
    assert_eq!(good.info("watermark_save_failures"), "0");
    assert_eq!(server.stop().code(), Some(0));
}
