//! `config/getid.service` fits the binary, and docs/operating.md installs it.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{self, Server};
use getid_config::directive::Directive;
use nix::sys::signal::Signal;

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect(name)
}

/// Returns the values of a key in `[Service]`, in order.
fn service(key: &str) -> Vec<String> {
    let text = read("config/getid.service");
    let (_, service) = text.split_once("\n[Service]\n").expect("the section");
    let (service, _) = service.split_once("\n[Install]\n").expect("the next section");
    let pairs = service.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.to_owned()).collect()
}

fn the_one(key: &str) -> String {
    let [one] = service(key).try_into().unwrap_or_else(|found: Vec<_>| panic!("{key}: {found:?}"));
    one
}

fn number(key: &str) -> u64 {
    the_one(key).parse().unwrap_or_else(|_| panic!("{key} is {}", the_one(key)))
}

fn default(directive: &str) -> u64 {
    Directive::find(directive).expect("the directive").default.parse().expect("a number")
}

#[test]
fn the_command_has_directives_that_exist_and_the_folder_that_systemd_makes() {
    let command = the_one("ExecStart");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[..3], ["/usr/local/bin/getid", "serve", "/etc/getid/getid.conf"]);
    let mut options = words[3..].chunks(2);
    let mut dir = None;
    for pair in &mut options {
        let [name, value] = pair else { panic!("{pair:?}") };
        let name = name.strip_prefix("--").expect("an option");
        assert!(Directive::find(name).is_some(), "{name} is no directive");
        if name == "dir" {
            dir = Some(*value);
        }
    }
    assert_eq!(dir, Some(format!("/var/lib/{}", the_one("StateDirectory")).as_str()));
    assert_eq!(the_one("Type"), "notify");
    assert!(command.contains("--supervised systemd"), "Type=notify needs it");
    assert_eq!(the_one("ExecReload"), "/bin/kill -HUP $MAINPID");
    assert_ne!(the_one("User"), "root");
    assert_eq!(service("Environment"), [""; 0], "a variable would win over the file");
    // The folder in which getid.conf shows a socket.
    let socket = format!("#unixsocket /run/{}/", the_one("RuntimeDirectory"));
    assert!(read("config/getid.conf").contains(&socket));
}

#[test]
fn its_times_and_limits_fit_the_defaults() {
    // Pending replies, then the last save, each with shutdown-timeout.
    assert!(number("TimeoutStopSec") > 2 * default("shutdown-timeout"));
    assert!(number("LimitNOFILE") >= default("maxclients") + 32);
    assert!(number("WatchdogSec") >= 10, "a busy machine must not cause a watchdog restart");
    assert_eq!(the_one("Restart"), "always");
}

#[test]
fn it_is_hardened() {
    for key in [
        "NoNewPrivileges",
        "ProtectHome",
        "PrivateTmp",
        "PrivateDevices",
        "PrivateUsers",
        "ProtectKernelModules",
        "RestrictNamespaces",
        "LockPersonality",
        "MemoryDenyWriteExecute",
    ] {
        assert_eq!(the_one(key), "yes", "{key}");
    }
    assert_eq!(the_one("ProtectSystem"), "strict");
    assert_eq!(the_one("CapabilityBoundingSet"), "");
    assert_eq!(the_one("RestrictAddressFamilies"), "AF_INET AF_INET6 AF_UNIX");
    assert_eq!(service("SystemCallFilter"), ["@system-service", "~@privileged @resources"]);
}

/// Runs the lines of docs/operating.md that set the server-id and the HTTP port, on a copy of the installed file. They
/// come before the start.
#[test]
fn the_page_sets_the_server_id_and_the_http_port_before_the_start() {
    let page = read("docs/operating.md");
    let (before, _) = page.split_once("systemctl enable --now getid").expect("the start");
    let lines = before.lines().filter(|line| line.starts_with("sudo sed "));
    let lines: Vec<_> = lines.map(|line| line.trim_start_matches("sudo ")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let dir = tempfile::tempdir().expect("a folder");
    let copy = dir.path().join("getid.conf");
    std::fs::write(&copy, read("config/getid.conf")).expect("written");
    let lines = lines.join("\n").replace("/etc/getid/getid.conf", copy.to_str().expect("text"));
    assert!(Command::new("sh").args(["-e", "-c", &lines]).status().expect("sh runs").success());
    let mut check = support::getid();
    let output = check.env_clear().arg("check-config").arg(&copy).args(["--dir", "/"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("OK\n") && text.contains("\nserver-id 0,"), "without a warning: {text}");
    assert!(text.contains("127.0.0.1:7880 (HTTP)"), "{text}");
    // The file decides on the port: 0 means no port, and a variable cannot override it unseen.
    std::fs::write(&copy, read("config/getid.conf") + "server-id 0\nhttp-port 0\n").expect("written");
    let mut check = support::getid();
    check.env_clear().arg("check-config").arg(&copy).args(["--dir", "/"]);
    let plain = check.output().expect("it runs").stdout;
    let by_variable = check.env("GETID_HTTP_PORT", "7880").output().expect("it runs").stdout;
    assert!(!String::from_utf8_lossy(&plain).contains("(HTTP)"));
    let note = "http-port: not in force: environment (GETID_HTTP_PORT=7880) wins\n";
    let text = String::from_utf8_lossy(&by_variable);
    assert!(text.starts_with("note: ") && text.contains(note) && text.contains(":7880 (HTTP)"), "{text}");
}

#[test]
fn the_page_installs_what_the_unit_names() {
    let page = read("docs/operating.md");
    let command = the_one("ExecStart");
    let user = the_one("User");
    for path in command.split(' ').filter(|word| word.starts_with("/usr") || word.starts_with("/etc")) {
        assert!(page.contains(path), "docs/operating.md does not name the source of {path}");
    }
    for line in
        [format!("useradd --system --shell /usr/sbin/nologin {user}"), "systemctl enable --now getid".to_owned()]
    {
        assert!(page.contains(&line), "docs/operating.md has no: {line}");
    }
}

/// systemd's side of the protocol.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn receive(&self) -> String {
        let mut bytes = [0; 512];
        let len = loop {
            match self.socket.recv(&mut bytes) {
                // A stop of this process (SIGSTOP) interrupts the call.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                received => break received.expect("a message in time"),
            }
        };
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// Waits for a message that starts with `begin`. Skips watchdog messages and other states: on a slow machine one
    /// may be about the disk.
    #[track_caller]
    fn wait_for(&self, begin: &str) {
        loop {
            let message = self.receive();
            if message.starts_with(begin) {
                return;
            }
            assert!(message == "WATCHDOG=1\n" || message.starts_with("STATUS="), "{message}");
        }
    }
}

/// The command of the unit, with this folder in place of the machine's, from readiness to stop.
#[test]
fn it_is_ready_alive_reloaded_and_stopped_as_the_unit_expects() {
    let dir = tempfile::tempdir().expect("a folder");
    let conf = dir.path().join("getid.conf");
    let log = dir.path().join("getid.log");
    std::fs::write(&conf, read("config/getid.conf").replace("logfile \"\"", "logfile getid.log")).expect("written");
    let socket = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    socket.set_read_timeout(Some(support::PATIENCE)).expect("a timeout");
    let manager = Manager { socket };
    let command = the_one("ExecStart");
    let words: Vec<String> = command
        .split(' ')
        .skip(1)
        .map(|word| match word {
            "/etc/getid/getid.conf" => conf.display().to_string(),
            "/var/lib/getid" => dir.path().display().to_string(),
            word => word.to_owned(),
        })
        .collect();
    let started = Server::try_start_in(dir.path(), &[], |command| {
        let port: Vec<_> = command.get_args().skip_while(|word| *word != "--port").take(2).map(Into::into).collect();
        let port: Vec<std::ffi::OsString> = port;
        let mut unit = support::getid();
        unit.args(&words).args(port);
        unit.env("NOTIFY_SOCKET", dir.path().join("notify")).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
        // A short lead, so that a failing save has an effect at once.
        unit.env("GETID_ID_MAX_BORROW_MS", "100").env("GETID_ID_WATERMARK_LEAD_MS", "100");
        unit.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        *command = unit;
    });
    let server = started.unwrap_or_else(|log| panic!("{log}"));
    assert_eq!(manager.receive(), "READY=1\nSTATUS=Serving IDs\n");
    server.connect().id();
    // `systemctl status` shows whether IDs are issued. Here a folder is in the place of the file that a save writes.
    while std::fs::create_dir_all(dir.path().join("getid-0.state.tmp/x")).is_err() {}
    manager.wait_for("STATUS=No IDs: MISCONF state can't be saved: cannot write ");
    std::fs::remove_dir_all(dir.path().join("getid-0.state.tmp")).expect("removed");
    manager.wait_for("STATUS=Serving IDs\n");
    manager.wait_for("WATCHDOG=1\n");
    std::fs::rename(&log, dir.path().join("getid.log.1")).expect("rotated");
    server.signal(Signal::SIGHUP);
    while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("SIGHUP: the log is reopened")) {
        manager.wait_for("WATCHDOG=1\n");
    }
    server.signal(Signal::SIGTERM);
    manager.wait_for("STOPPING=1\nSTATUS=Stopping\n");
    assert!(server.stop().success());
}

#[test]
#[ignore = "needs systemd-analyze"]
fn systemd_finds_nothing_wrong_and_little_exposed() {
    let dir = tempfile::tempdir().expect("a folder");
    let unit = dir.path().join("getid.service");
    let program = support::binary().display().to_string();
    std::fs::write(&unit, read("config/getid.service").replace("/usr/local/bin/getid", &program)).expect("written");
    let analyze = |words: &[&str]| {
        let out = Command::new("systemd-analyze").args(words).arg(&unit).output().expect("systemd is installed");
        let text = [out.stdout, out.stderr].concat();
        (out.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (fine, output) = analyze(&["verify", "--man=no"]);
    assert!(fine && output.is_empty(), "{output}");
    // In tenths. 9.6 is a unit without any hardening; most of the rest here is network access.
    let (fine, output) = analyze(&["security", "--no-pager", "--offline=true", "--threshold=15"]);
    assert!(fine, "{output}");
}
