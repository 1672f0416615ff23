//! Finds settings that repeat IDs or lose the state in the container or cluster around the server.
//!
//! Both are silent mistakes. Each pod of a `StatefulSet` without a server-id is server 0, and a folder that is deleted
//! with its container looks like any other. [`Surroundings`] holds the findings, and pure functions decide on them.

use std::ffi::OsStr;
use std::path::Path;

use nix::unistd::getppid;

use getid_config::{Config, ConfigReport, ServerIdSource, StateKind, ordinal};
use getid_system::host;
use getid_system::mounts::Mount;

/// The surroundings of this process.
pub(super) struct Surroundings {
    /// This process is the main process of a container, whatever its engine.
    is_container: bool,
    /// This process is the main process of a container in a Kubernetes pod.
    is_pod: bool,
    /// Host name; in a pod it is the pod's name.
    host_name: String,
    /// The mount of the state's folder; `None` if the system does not report it.
    mount: Option<Mount>,
}

/// Largest number of a pod that counts as an ordinal. A Deployment's pod ends in five characters, which may all be
/// digits; a `StatefulSet` has fewer pods.
const ORDINAL_MAX: u32 = 9999;

/// Length of a volume name that an engine generated: 64 hex digits.
const NO_NAME_LEN: usize = 64;

impl Surroundings {
    /// Inspects the surroundings. `dir` is the folder of the state, which may not exist yet.
    pub(super) fn detect(dir: &Path) -> Surroundings {
        // The main process of a container has a parent outside of it, or the container's init. Any other server in a
        // container was started by hand or by a test, and the container's name and folders are not made for it.
        let is_main_process = getppid().as_raw() <= 1;
        // Kubernetes sets this variable in every container; Docker and Podman each leave a file.
        let is_pod = is_main_process && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        // Podman's file is missing under a read-only root; its variable is set.
        let has_mark = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists())
            || std::env::var_os("container").is_some_and(|name| !name.is_empty());
        let is_container = is_pod || is_main_process && has_mark;
        let there = dir.ancestors().find_map(|path| path.canonicalize().ok());
        let mount = there.and_then(|path| Mount::of(&path));
        Surroundings { is_container, is_pod, host_name: host::name(), mount }
    }

    /// Returns the number of this pod in its `StatefulSet`.
    fn pod_number(&self) -> Option<u32> {
        ordinal(&self.host_name).filter(|number| self.is_pod && *number <= ORDINAL_MAX)
    }
}

/// Fails if this pod must not start: it would have the server-id of every other pod of its `StatefulSet`.
///
/// The first pod may start: 0 is its number, and many sets have one pod.
pub(super) fn missing_server_id(config: &Config, around: &Surroundings) -> Result<(), ConfigReport> {
    // With a claim store, one of two servers with the same server-id waits.
    if config.server_id_from != ServerIdSource::Default || config.claim.store.is_some() {
        return Ok(());
    }
    match around.pod_number() {
        None | Some(0) => Ok(()),
        Some(_) => Err(ConfigReport::from_sentence(format!(
            "server-id is not set in the pod {}, so it would be 0 in each pod of its StatefulSet, and all would give the \
             same IDs; set GETID_SERVER_ID=auto-ordinal, for the number at the end of the pod's name",
            around.host_name
        ))),
    }
}

/// Returns the alarms for the first line of the log, one for each problem.
pub(super) fn alarms(config: &Config, around: &Surroundings) -> Vec<String> {
    if config.claim.store.is_some() {
        return Vec::new();
    }
    [shared_server_id(config, around), fleeting_state(config, around)].into_iter().flatten().collect()
}

/// Returns an alarm if the pods of a `StatefulSet` share the server-id that its template sets.
fn shared_server_id(config: &Config, around: &Surroundings) -> Option<String> {
    let number = around.pod_number().filter(|number| *number > 0)?;
    let is_other = config.server_id_from == ServerIdSource::Number && config.server_id != number;
    is_other.then(|| {
        format!(
            "server-id is {} in the pod {}: if its StatefulSet sets this, all its pods have this server-id and give the same \
             IDs; set GETID_SERVER_ID=auto-ordinal there",
            config.server_id, around.host_name
        )
    })
}

/// Returns an alarm if the state is deleted with its container.
fn fleeting_state(config: &Config, around: &Surroundings) -> Option<String> {
    if config.id_state != StateKind::File || !around.is_container {
        return None;
    }
    let what = fleeting(around.mount.as_ref()?)?;
    Some(format!(
        "the state will be lost: {} is {what}. A start in a new container finds no record, so its IDs begin {} ms past the \
         clock, and a clock that was set back by more makes IDs repeat. Mount a volume with a name there, as with -v \
         getid-{}:/data, in Kubernetes by volumeClaimTemplates",
        config.state_dir.display(),
        config.id_max_borrow_ms,
        config.server_id
    ))
}

/// Returns the kind of a mount that is deleted with its container; `None` for a lasting mount.
fn fleeting(mount: &Mount) -> Option<&'static str> {
    let folders: Vec<&OsStr> = mount.root.iter().collect();
    let is_made_up =
        |name: &OsStr| name.len() == NO_NAME_LEN && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit);
    if mount.point == Path::new("/") {
        Some("in the container's own file system, which is deleted with the container")
    } else if ["tmpfs", "ramfs"].contains(&mount.kind.as_str()) {
        Some("in memory (tmpfs), which is deleted with the container")
    } else if folders.contains(&OsStr::new("kubernetes.io~empty-dir")) {
        Some("an emptyDir, which is deleted with the pod")
    } else if folders.windows(2).any(|pair| pair[0] == "volumes" && is_made_up(pair[1])) {
        Some("a volume without a name, which no later container gets")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use getid_config::Sources;
    use getid_server::config_files::RealFiles;

    const VOLUME: (&str, &str, &str) = ("/data", "/var/lib/docker/volumes/getid-0/_data", "ext4");
    const OWN: (&str, &str, &str) = ("/", "/", "overlay");

    fn config(words: &str, host_name: &str) -> Config {
        let words = words.split_whitespace().map(str::to_owned).collect();
        let sources = Sources { words, host_name: Some(host_name.to_owned()), ..Sources::default() };
        let (config, _) = Config::load(&sources, &RealFiles).expect("valid");
        Config { state_dir: "/data".into(), ..config }
    }

    fn pod(host_name: &str, (point, root, kind): (&str, &str, &str)) -> Surroundings {
        let mount = Mount { point: point.into(), root: root.into(), kind: kind.to_owned() };
        Surroundings { is_container: true, is_pod: true, host_name: host_name.to_owned(), mount: Some(mount) }
    }

    #[track_caller]
    fn check_start(words: &str, host_name: &str, starts: bool) {
        let result = missing_server_id(&config(words, host_name), &pod(host_name, VOLUME));
        match result {
            Ok(()) => assert!(starts, "{words} in {host_name} starts"),
            Err(report) => {
                let text = report.sentences();
                assert!(!starts && text.contains(&format!("in the pod {host_name}")), "{words} in {host_name}: {text}");
                assert!(text.contains("set GETID_SERVER_ID=auto-ordinal"), "{text}");
            }
        }
    }

    #[test]
    fn a_pod_without_a_server_id_does_not_start() {
        check_start("", "getid-1", false);
        check_start("", "getid-12", false);
        check_start("--id-state none", "getid-1", false);
        check_start("", "getid-0", true);
        check_start("--server-id 1", "getid-1", true);
        check_start("--server-id 0", "getid-1", true);
        check_start("--server-id auto-ordinal", "getid-1", true);
        // Pods of Deployments; the second ends in digits by chance.
        check_start("", "getid-7d9f6c8b55-x2x94", true);
        check_start("", "getid-7d9f6c8b55-24679", true);
        // No pod.
        let machine = Surroundings { is_pod: false, ..pod("getid-1", VOLUME) };
        assert!(missing_server_id(&config("", "getid-1"), &machine).is_ok());
    }

    #[test]
    #[cfg(all(feature = "fleet", feature = "sqlite"))]
    fn a_claim_store_keeps_pods_with_one_server_id_apart() {
        let config = config("--claim-store sqlite:claims.db", "getid-1");
        assert!(missing_server_id(&config, &pod("getid-1", OWN)).is_ok());
        assert_eq!(alarms(&config, &pod("getid-1", OWN)), [""; 0]);
    }

    #[test]
    fn a_number_shared_by_all_pods_is_reported() {
        let alarms_of = |words: &str, host_name: &str| alarms(&config(words, host_name), &pod(host_name, VOLUME));
        let found = alarms_of("--server-id 0", "getid-1");
        assert!(matches!(&found[..], [one] if one.starts_with("server-id is 0 in the pod getid-1: ")), "{found:?}");
        for (words, host_name) in [
            ("--server-id 1", "getid-1"),
            ("--server-id auto-ordinal", "getid-1"),
            ("--server-id 3", "getid-0"),
            ("--server-id 3", "getid-7d9f6c8b55-x2x94"),
        ] {
            assert_eq!(alarms_of(words, host_name), [""; 0], "{words} {host_name}");
        }
    }

    #[track_caller]
    fn check_state(mount: (&str, &str, &str), expected: Option<&str>) {
        let found = alarms(&config("--server-id 2", "a"), &pod("a", mount));
        match expected {
            None => assert_eq!(found, [""; 0], "{mount:?}"),
            Some(what) => {
                let text = format!("the state will be lost: /data is {what}");
                assert!(matches!(&found[..], [one] if one.starts_with(&text)), "{mount:?}: {found:?}");
                assert!(found[0].contains("begin 3000 ms past the clock") && found[0].contains("-v getid-2:/data"));
            }
        }
    }

    #[test]
    fn a_state_that_is_deleted_with_its_container_is_reported() {
        let no_name = format!("/var/lib/docker/volumes/{}/_data", "0a".repeat(32));
        check_state(OWN, Some("in the container's own file system"));
        check_state(("/", "/var/lib/containers/storage/vfs/dir/x", "ext4"), Some("in the container's own file system"));
        check_state(("/data", "/", "tmpfs"), Some("in memory"));
        check_state(("/data", &no_name, "ext4"), Some("a volume without a name"));
        let empty_dir = "/var/lib/kubelet/pods/3f/volumes/kubernetes.io~empty-dir/data";
        check_state(("/data", empty_dir, "ext4"), Some("an emptyDir"));
        check_state(VOLUME, None);
        check_state(("/data", "/var/lib/kubelet/pods/3f/volumes/kubernetes.io~csi/pvc-1/mount", "xfs"), None);
        check_state(("/data", "/", "ext4"), None);
        check_state(("/data", "/srv/getid", "ext4"), None);
    }

    #[test]
    fn without_state_there_is_no_alarm() {
        assert_eq!(alarms(&config("--server-id 2 --id-state none", "a"), &pod("a", OWN)), [""; 0]);
        let machine = Surroundings { is_container: false, is_pod: false, ..pod("a", OWN) };
        assert_eq!(alarms(&config("--server-id 2", "a"), &machine), [""; 0]);
        let no_mount = Surroundings { mount: None, ..pod("a", OWN) };
        assert_eq!(alarms(&config("--server-id 2", "a"), &no_mount), [""; 0]);
    }
}
