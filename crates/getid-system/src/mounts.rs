//! The mount that a folder is on: `/proc/self/mountinfo`, see proc(5).

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The most that is read of the table, bytes. A host with thousands of containers has a few MB of mounts; a container
/// has a few KB.
const BYTES_MAX: u64 = 16 << 20;

/// A mount point and its file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// The part of the file system that is mounted: `/` for all of it, else a folder, such as a container's volume.
    pub root: PathBuf,
    /// The kind of its file system, such as `ext4`.
    pub kind: String,
}

impl Mount {
    /// Returns the mount of an absolute path without links; `None` if the system does not report it.
    pub fn of(path: &Path) -> Option<Mount> {
        Mount::find(&Mount::table(Path::new("/proc/self/mountinfo"))?, path)
    }

    /// Reads up to [`BYTES_MAX`] of the table of mounts in this file.
    pub(super) fn table(path: &Path) -> Option<Vec<u8>> {
        let mut table = Vec::new();
        File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut table).ok()?;
        Some(table)
    }

    /// Returns the mounts of control groups that limit memory: the one hierarchy of version 2 (`cgroup2`), and the
    /// hierarchy of version 1 (`cgroup`) that has the controller `memory`.
    pub(super) fn control_groups(table: &[u8]) -> Vec<Mount> {
        let limits_memory = |line: &&[u8]| {
            let options = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            options.split(|byte| *byte == b',').any(|option| option == b"memory")
        };
        let lines = table.split(|byte| *byte == b'\n');
        let mounts = lines.filter_map(|line| Some((Mount::read(line)?, limits_memory(&line))));
        let is_one = |(mount, limits_memory): &(Mount, bool)| match mount.kind.as_str() {
            "cgroup2" => true,
            "cgroup" => *limits_memory,
            _ => false,
        };
        mounts.filter(is_one).map(|(mount, _)| mount).collect()
    }

    /// Returns the mount of `path` by the text of a table of mounts.
    fn find(table: &[u8], path: &Path) -> Option<Mount> {
        let mounts = table.split(|byte| *byte == b'\n').filter_map(Mount::read);
        // Of several mounts at one place the last one hides the others.
        mounts.filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.components().count())
    }

    /// Parses a line such as `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/sda1 rw`. The number of fields
    /// before the `-` varies.
    fn read(line: &[u8]) -> Option<Mount> {
        let mut fields = line.split(|byte| *byte == b' ');
        let root = path_of(fields.nth(3)?);
        let point = path_of(fields.next()?);
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        Some(Mount { point, root, kind: String::from_utf8_lossy(kind).into_owned() })
    }
}

/// Decodes a path in which space, tab, newline and backslash are written in octal, as `\040`.
fn path_of(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let digits = tail.first_chunk::<3>().filter(|_| *first == b'\\');
        let value = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    const TABLE: &[u8] = b"\
22 1 0:41 / / rw,relatime - overlay overlay rw,lowerdir=/a:/b\n\
23 22 0:44 / /proc rw,nosuid - proc proc rw\n\
30 22 8:1 /var/lib/docker/volumes/ids/_data /data rw,relatime master:1 shared:2 - ext4 /dev/sda1 rw\n\
31 30 0:50 / /data/with\\040space\\134 rw - tmpfs tmpfs rw\n\
not a line\n\
32 22 0:51 / /twice rw - ext4 /dev/sdb rw\n\
33 32 0:52 / /twice rw - xfs /dev/sdc rw\n";

    #[track_caller]
    fn check(path: &str, point: &str, root: &str, kind: &str) {
        let expected = Mount { point: point.into(), root: root.into(), kind: kind.to_owned() };
        assert_eq!(Mount::find(TABLE, Path::new(path)), Some(expected), "{path}");
    }

    #[test]
    fn a_path_is_in_the_deepest_mount_above_it() {
        check("/var/lib/getid", "/", "/", "overlay");
        check("/data", "/data", "/var/lib/docker/volumes/ids/_data", "ext4");
        check("/data/getid/x", "/data", "/var/lib/docker/volumes/ids/_data", "ext4");
        check("/database", "/", "/", "overlay");
        check("/data/with space\\/x", "/data/with space\\", "/", "tmpfs");
        check("/twice", "/twice", "/", "xfs");
        assert_eq!(Mount::find(b"", Path::new("/")), None);
        assert_eq!(Mount::find(TABLE, Path::new("relative")), None);
    }

    #[test]
    fn this_machine_reports_its_mounts() {
        assert!(Mount::of(Path::new("/")).is_some());
    }

    #[test]
    fn a_backslash_that_begins_no_number_stays() {
        for (field, expected) in
            [(r"a\04", r"a\04"), (r"\999", r"\999"), ("\\", "\\"), (r"\011", "\t"), (r"\777", r"\777")]
        {
            assert_eq!(path_of(field.as_bytes()).as_os_str().as_bytes(), expected.as_bytes(), "{field}");
        }
    }
}
