//! A server in a pod or another container, and its first log line about that. Host names, process ids and mounts are in
//! namespaces that `unshare` creates, which needs root.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::{self, Server, config_get};

/// Beginning of a log whose first line ends the start.
const FATAL: &str = "*** FATAL CONFIGURATION ERROR ***";

/// User id without rights.
const NOBODY_UID: u32 = 65_534;

/// Turns the command into process 1 of a pod of this name, which runs `first` before.
fn in_pod(server: &mut Command, name: &str, first: &str) {
    let mut pod = Command::new("unshare");
    let script = format!("hostname {name} && {first} && exec \"$0\" \"$@\"");
    pod.args(["--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script]);
    pod.arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => pod.env(name, value),
            None => pod.env_remove(name),
        };
    }
    // Kubernetes sets this variable in every container.
    pod.env("KUBERNETES_SERVICE_HOST", "10.96.0.1");
    pod.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    *server = pod;
}

/// Returns a folder on a disk; mounted on itself it acts as a volume.
fn volume() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn mounted(dir: &Path) -> String {
    format!("mount --bind '{0}' '{0}'", dir.display())
}

/// Starts a server in a pod and returns it with its first log line and its server-id.
fn serve(name: &str, dir: &Path, first: &str, words: &[&str]) -> (Server, String, String) {
    let started = Server::try_start_in(dir, words, |command| in_pod(command, name, first));
    let mut server = started.unwrap_or_else(|log| panic!("{name} did not start:\n{log}"));
    server.wait_log("Ready to accept connections");
    let first_line = server.log_so_far().lines().next().expect("a line").to_owned();
    let server_id = config_get(&server, "server-id");
    (server, first_line, server_id)
}

#[test]
#[ignore = "needs root"]
fn a_pod_has_the_server_id_of_its_name() {
    let dir = volume();
    let (mut server, first, server_id) =
        serve("getid-3", dir.path(), &mounted(dir.path()), &["--server-id", "auto-ordinal"]);
    assert!(first.contains(" starts, pid 1") && !first.contains("warning"), "nothing is wrong: {first}");
    assert_eq!(server_id, "3");
    assert!(server.wait_log("layout id-range").contains("server-id 3 of 4"));
    let mut wire = server.connect();
    assert_eq!(wire.info("server_id"), "3");
    let id: u64 = wire.ask("GETID").trim_start_matches(':').parse().expect("an ID");
    assert_eq!(id >> 19 & 3, 3, "in the ID: {id}");
    assert!(dir.path().join("getid-3.state").exists());
    drop(server);

    for (name, what) in
        [("getid", "is 'getid'; must end in a dash and a number"), ("getid-4", "must be 0 to 3: id-range is 2")]
    {
        let log = support::refused(dir.path(), &["--server-id", "auto-ordinal"], |command| in_pod(command, name, ":"));
        assert!(!log.contains(" starts, pid") && log.contains(what), "before anything else: {log}");
    }
}

/// Returns the child processes, including ended ones. Process 1 also has the orphans.
fn children(pid: &str) -> Vec<String> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("the kernel lists them");
    listed.split_whitespace().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs root"]
fn orphans_are_reaped_by_process_1() {
    let dir = volume();
    let ends = dir.path().join("ends");
    let orphan = format!("mkfifo '{0}' && (cat '{0}' &)", ends.display());
    let (server, _, _) = serve("getid-0", dir.path(), &orphan, &["--server-id", "0"]);
    let namespace = children(&server.pid().to_string());
    let [process_1] = &namespace[..] else { panic!("one: {namespace:?}") };
    assert_eq!(children(process_1).len(), 1, "the orphan lost its parent and waits for a writer");
    fs::write(&ends, "").expect("it ends");
    support::eventually("nothing is left of it", || children(process_1).is_empty());
}

#[test]
#[ignore = "needs root"]
fn a_pod_without_a_server_id_does_not_start_beside_another_one() {
    let dir = volume();
    let mount = mounted(dir.path());
    let log = support::refused(dir.path(), &[], |command| in_pod(command, "getid-1", &mount));
    let line = log.lines().next().expect("a sentence");
    assert!(line.starts_with(&format!("{FATAL} server-id is not set in the pod getid-1, ")), "{log}");
    assert!(line.ends_with("set GETID_SERVER_ID=auto-ordinal, for the number at the end of the pod's name"), "{log}");
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "the folder is empty");
    let (_first, _, server_id) = serve("getid-0", dir.path(), &mount, &[]);
    assert_eq!(server_id, "0", "the first one may be alone");
}

/// A `StatefulSet` whose template has one server-id, and two pods on one volume.
#[test]
#[ignore = "needs root"]
fn two_pods_with_one_server_id_are_warned() {
    let (one, other) = (volume(), volume());
    let words = ["--server-id", "0"];
    let (_one, first, _) = serve("getid-0", one.path(), &mounted(one.path()), &words);
    assert!(!first.contains("warning"), "{first}");
    let (_other, first, _) = serve("getid-1", other.path(), &mounted(other.path()), &words);
    assert!(first.contains(" starts, pid 1; server-id is 0 in the pod getid-1: "), "{first}");
    assert!(first.contains("give the same IDs; set GETID_SERVER_ID=auto-ordinal"), "{first}");
    let log = support::refused(one.path(), &words, |command| in_pod(command, "getid-2", ":"));
    let first = log.lines().next().expect("a line");
    assert!(first.contains(" starts, pid 1; ") && first.contains("; server-id 0 is in use: "), "{log}");
    assert!(first.contains("getid-0.lock is locked by pid 1 on getid-0; stop that process, or set another"), "{log}");
    assert!(log.lines().last().expect("a line").starts_with("server-id 0 is in use: "), "it continues: {log}");
}

#[test]
#[ignore = "needs root"]
fn a_container_without_a_volume_is_warned_that_its_state_is_lost() {
    let dir = volume();
    let memory = format!("mount -t tmpfs tmpfs '{}'", dir.path().display());
    let (_server, first, _) =
        serve("getid-2", dir.path(), &memory, &["--server-id", "2", "--id-max-borrow-ms", "4000"]);
    let expected = format!("starts, pid 1; the state will be lost: {} is in memory (tmpfs)", dir.path().display());
    assert!(first.contains(&expected), "{first}");
    for part in ["its IDs begin 4000 ms past the clock", "Mount a volume with a name there, as with -v getid-2:/data"] {
        assert!(first.contains(part), "{first}");
    }
    // Under a read-only root, Podman sets only its variable: the file that marks a container is missing.
    let started = Server::try_start_in(dir.path(), &["--server-id", "2"], |command| {
        in_pod(command, "c0ffee", &memory);
        command.env_remove("KUBERNETES_SERVICE_HOST").env("container", "podman");
    });
    let mut server = started.unwrap_or_else(|log| panic!("it did not start:\n{log}"));
    server.wait_log("Ready to accept connections");
    let first = server.log_so_far().lines().next().expect("a line").to_owned();
    assert!(first.contains("the state will be lost: "), "{first}");
    drop(server);
    // The operator disabled the state.
    let (_server, first, _) = serve("getid-2", dir.path(), &memory, &["--server-id", "2", "--id-state", "none"]);
    assert!(!first.contains("will be lost"), "{first}");
}

#[test]
#[ignore = "needs root"]
fn a_volume_that_cannot_be_written_is_reported_with_its_owner() {
    let dir = tempfile::tempdir().expect("a folder");
    let shown = dir.path().display();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("done");
    let as_other_user = |command: &mut Command| {
        command.uid(NOBODY_UID).gid(NOBODY_UID);
    };
    let log = support::refused(dir.path(), &[], as_other_user);
    assert_eq!(
        log.lines().next(),
        Some(
            format!(
                "{FATAL} dir: '{shown}' cannot be written: Permission denied (os error 13); {shown} belongs to uid 0, gid 0 (mode \
                 755), and getid runs as uid {NOBODY_UID}, gid {NOBODY_UID}: chown -R {NOBODY_UID}:{NOBODY_UID} {shown}, or in Kubernetes \
                 set fsGroup: {NOBODY_UID} in the pod's securityContext; or set another folder with dir"
            )
            .as_str()
        ),
        "{log}"
    );

    // A volume that another user's server used: the folder has the right owner, its files do not.
    chown(dir.path(), Some(NOBODY_UID), Some(NOBODY_UID)).expect("done");
    let lock = dir.path().join("getid-0.lock");
    fs::write(&lock, "").expect("done");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).expect("done");
    let log = support::refused(dir.path(), &[], as_other_user);
    let expected = format!(
        "cannot open the lock file {0}: Permission denied (os error 13); {0} belongs to uid 0, gid 0 (mode 600), and getid \
         runs as uid {NOBODY_UID}, gid {NOBODY_UID}: chown -R {NOBODY_UID}:{NOBODY_UID} {0}, or in Kubernetes set fsGroup: {NOBODY_UID}",
        lock.display()
    );
    assert!(log.contains(&expected), "{log}");

    // No volume, and a read-only root.
    let read_only = format!("mount -t tmpfs -o ro tmpfs '{shown}'");
    let log = support::refused(dir.path(), &["--server-id", "0"], |command| in_pod(command, "getid-0", &read_only));
    let expected =
        format!("{FATAL} dir: '{shown}' cannot be written: Read-only file system (os error 30); mount a volume there");
    assert!(log.lines().next().is_some_and(|line| line.starts_with(&expected)), "{log}");
}
