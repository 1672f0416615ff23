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
struct Owner {
    uid: u32,
    gid: u32,
}

/// Fails if this process may not read a folder or create files in it.
///
/// # Errors
///
/// The operating system's error.
pub fn may_write_in(folder: &Path) -> io::Result<()> {
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
            let whose = Owner { uid: found.uid(), gid: found.gid() };
            let who = Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() };
            let mounted = Mount::of(path).is_some_and(|mount| mount.point == path && mount.root != Path::new("/"));
            Some(sentence(path, closed, mounted, whose, found.mode() & 0o7777, who))
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
/// sentence does not suggest giving it away. `mounted`: the folder at `path` has another path outside of this
/// container, where `chown` has to run.
fn sentence(path: &Path, closed: &Path, mounted: bool, whose: Owner, mode: u32, who: Owner) -> String {
    let (uid, gid) = (who.uid, who.gid);
    let does = if closed == path && path.parent().is_some() {
        let outside = if mounted { " (from outside: the folder that is mounted there)" } else { "" };
        format!("chown -R {uid}:{gid} {}{outside}", path.display())
    } else {
        format!("make {} for that user", path.display())
    };
    format!(
        "{} belongs to uid {}, gid {} (mode {mode:o}), and getid runs as uid {uid}, gid {gid}: {does}, or in Kubernetes set \
         fsGroup: {gid} in the pod's securityContext",
        closed.display(),
        whose.uid,
        whose.gid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_named() {
        let (whose, who) = (Owner { uid: 0, gid: 4 }, Owner { uid: 999, gid: 998 });
        let data = Path::new("/data");
        assert_eq!(
            sentence(data, data, false, whose, 0o755, who),
            "/data belongs to uid 0, gid 4 (mode 755), and getid runs as uid 999, gid 998: chown -R 999:998 /data, or in \
             Kubernetes set fsGroup: 998 in the pod's securityContext"
        );
        let said = sentence(data, data, true, whose, 0o755, who);
        assert!(
            said.contains(": chown -R 999:998 /data (from outside: the folder that is mounted there), or"),
            "{said}"
        );
        // The sentence never suggests giving away a folder of the machine.
        for (path, closed) in [("/srv/getid", "/srv"), ("/", "/")] {
            let said = sentence(Path::new(path), Path::new(closed), false, whose, 0o755, who);
            assert!(!said.contains("chown") && said.contains(&format!("make {path} for that user")), "{said}");
        }
    }

    #[test]
    fn a_folder_that_is_read_only_needs_a_volume() {
        let said = remedy(Path::new("/data"), &Errno::EROFS.into()).expect("known");
        assert!(said.contains("mount a volume there"), "{said}");
        assert_eq!(remedy(Path::new("/data"), &Errno::EIO.into()), None);
        assert_eq!(remedy(Path::new("/data"), &io::Error::other("not the system's")), None);
    }
}
