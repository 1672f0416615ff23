//! Explains a refused file or folder with both sides: its owner and this process's user.
//!
//! A volume of another user is the most common mistake of a first start in a container. "Permission denied" alone names
//! neither the expected nor the actual user.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, eaccess, getegid, geteuid};

use super::mounts::Mount;

/// A user and a group of a file or a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnixOwner {
    uid: u32,
    gid: u32,
}

/// Fails if this process may not read a folder or create files in it.
///
/// # Errors
///
/// The operating system's error.
pub fn check_writable(folder: &Path) -> io::Result<()> {
    Ok(eaccess(folder, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK)?)
}

/// Returns a remedy for `error`, which this process got at `path` or when it created a file there; `None` if no remedy
/// is known.
pub fn remedy(path: &Path, error: &io::Error) -> Option<String> {
    match error.raw_os_error().map(Errno::from_raw)? {
        Errno::EROFS => Some("mount a volume there that can be written".to_owned()),
        Errno::EACCES | Errno::EPERM => {
            let closed = path.ancestors().find(|place| is_closed(place))?;
            let found = std::fs::metadata(closed).ok()?;
            let owner = UnixOwner { uid: found.uid(), gid: found.gid() };
            let process = UnixOwner { uid: geteuid().as_raw(), gid: getegid().as_raw() };
            let is_mounted = Mount::of(path).is_some_and(|mount| mount.point == path && mount.root != Path::new("/"));
            Some(owner_remedy(path, closed, is_mounted, owner, found.mode() & 0o7777, process))
        }
        _ => None,
    }
}

/// Whether a path exists and this process may not use it.
fn is_closed(path: &Path) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    let enters = if found.is_dir() { AccessFlags::X_OK } else { AccessFlags::empty() };
    eaccess(path, AccessFlags::R_OK | AccessFlags::W_OK | enters).is_err()
}

/// Returns the sentence for `closed`, which is `path` or a folder above it. A folder above may be the machine's, so the
/// sentence does not suggest giving it away. `is_mounted`: the folder at `path` has another path outside of this
/// container, where `chown` has to run.
fn owner_remedy(
    path: &Path,
    closed: &Path,
    is_mounted: bool,
    owner: UnixOwner,
    mode: u32,
    process: UnixOwner,
) -> String {
    let (uid, gid) = (process.uid, process.gid);
    let does = if closed == path && path.parent().is_some() {
        let outside = if is_mounted { " (outside the container: the folder that is mounted there)" } else { "" };
        format!("chown -R {uid}:{gid} {}{outside}", path.display())
    } else {
        format!("make {} for that user", path.display())
    };
    format!(
        "{} belongs to uid {}, gid {} (mode {mode:o}), and getid runs as uid {uid}, gid {gid}: {does}, or in Kubernetes set \
         fsGroup: {gid} in the pod's securityContext",
        closed.display(),
        owner.uid,
        owner.gid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_named() {
        let (owner, process) = (UnixOwner { uid: 0, gid: 4 }, UnixOwner { uid: 999, gid: 998 });
        let data = Path::new("/data");
        assert_eq!(
            owner_remedy(data, data, false, owner, 0o755, process),
            "/data belongs to uid 0, gid 4 (mode 755), and getid runs as uid 999, gid 998: chown -R 999:998 /data, or in \
             Kubernetes set fsGroup: 998 in the pod's securityContext"
        );
        let text = owner_remedy(data, data, true, owner, 0o755, process);
        assert!(
            text.contains(": chown -R 999:998 /data (outside the container: the folder that is mounted there), or"),
            "{text}"
        );
        // The sentence never suggests giving away a folder of the machine.
        for (path, closed) in [("/srv/getid", "/srv"), ("/", "/")] {
            let text = owner_remedy(Path::new(path), Path::new(closed), false, owner, 0o755, process);
            assert!(!text.contains("chown") && text.contains(&format!("make {path} for that user")), "{text}");
        }
    }

    #[test]
    fn a_folder_that_is_read_only_needs_a_volume() {
        let text = remedy(Path::new("/data"), &Errno::EROFS.into()).expect("known");
        assert!(text.contains("mount a volume there"), "{text}");
        assert_eq!(remedy(Path::new("/data"), &Errno::EIO.into()), None);
        assert_eq!(remedy(Path::new("/data"), &io::Error::other("not the system's")), None);
    }
}
