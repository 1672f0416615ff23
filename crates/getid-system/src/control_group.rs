//! The memory limit of this process's control groups: cgroups(7), version 1, version 2 or both.
//!
//! A group's limit holds for all groups below it. So the smallest limit counts between the process's group and the root
//! of the mount. Inside a container the mount often begins at the container's group. `/proc/self/cgroup` writes that
//! group's path as the machine sees it or, in a cgroup namespace, as `/`.

use std::path::{Component, Path, PathBuf};

use super::files;
use super::mounts::Mount;

/// Bytes that are read of `/proc/self/cgroup`: it has a line with a path for each of a dozen hierarchies.
const GROUPS_BYTES_MAX: usize = 64 << 10;

/// Bytes that are read of a file with one number.
const NUMBER_BYTES_MAX: usize = 64;

/// Most groups that are read from the process's upwards. Kubernetes and systemd nest about ten.
const LEVELS_MAX: usize = 64;

/// Returns the smallest memory limit of the groups of this process, bytes; `None` if there is none or it cannot be
/// read.
pub fn memory_limit_bytes() -> Option<u64> {
    limit_under(Path::new("/"))
}

/// Returns [`memory_limit_bytes`] for the system whose root folder is `root`.
fn limit_under(root: &Path) -> Option<u64> {
    let groups = files::read(&root.join("proc/self/cgroup"), GROUPS_BYTES_MAX).ok()?;
    let groups = String::from_utf8_lossy(&groups).into_owned();
    let table = Mount::table(&root.join("proc/self/mountinfo"))?;
    let hierarchies = Mount::control_groups(&table);
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (kind, file) = match controllers {
            "" => ("cgroup2", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => ("cgroup", "memory.limit_in_bytes"),
            _ => return None,
        };
        let mount = hierarchies.iter().find(|mount| mount.kind == kind)?;
        smallest(root, mount, Path::new(path), file)
    });
    limits.min()
}

/// Returns the smallest number in the files of this name, from the group at `path` up to the root of `mount`.
fn smallest(root: &Path, mount: &Mount, path: &Path, file: &str) -> Option<u64> {
    let below = path.strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let mut group: PathBuf = below.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    let mut least = None;
    for _ in 0..LEVELS_MAX {
        // "max" is not a number, and the root of all groups has no such file.
        let bytes = files::read(&point.join(&group).join(file), NUMBER_BYTES_MAX).ok();
        let limit = bytes.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.trim().parse::<u64>().ok());
        least = [least, limit].into_iter().flatten().min();
        if !group.pop() {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Checks the limit of a system with these lines of `/proc/self/cgroup` and `/proc/self/mountinfo`, and these
    /// files.
    #[track_caller]
    fn check(groups: &str, mounts: &str, limits: &[(&str, &str)], expected: Option<u64>) {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("proc/self/cgroup", groups);
        write("proc/self/mountinfo", mounts);
        for (path, text) in limits {
            write(&format!("sys/fs/cgroup/{path}"), text);
        }
        assert_eq!(limit_under(root.path()), expected, "{groups:?} {limits:?}");
    }

    const SECOND: &str = "25 22 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const FIRST: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let nested = "0::/system.slice/getid.service/server\n";
        check(nested, SECOND, &[], None);
        check(nested, SECOND, &[("system.slice/getid.service/server/memory.max", "max\n")], None);
        let limits = [
            ("system.slice/getid.service/server/memory.max", "max\n"),
            ("system.slice/getid.service/memory.max", "268435456\n"),
            ("system.slice/memory.max", "536870912\n"),
        ];
        check(nested, SECOND, &limits, Some(256 * MIB));
        let least_at_the_top = [limits[0], limits[1], ("system.slice/memory.max", "33554432\n")];
        check(nested, SECOND, &least_at_the_top, Some(32 * MIB));
        // Limits of a neighbour, and of a group below.
        let others = [("system.slice/x/memory.max", "1\n"), ("system.slice/getid.service/server/y/memory.max", "1\n")];
        check(nested, SECOND, &others, None);
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let groups = "4:memory:/docker/ab\n3:cpu:/other\n0::/docker/ab\n";
        let unlimited = ("memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
        let own = ("memory/docker/ab/memory.limit_in_bytes", "134217728\n");
        check(groups, FIRST, &[unlimited, own], Some(128 * MIB));
        check("4:cpu,memory:/a\n", FIRST, &[("memory/a/memory.limit_in_bytes", "4096\n")], Some(4096));
        check("3:cpu:/a\n", FIRST, &[("memory/a/memory.limit_in_bytes", "4096\n")], None);
        // Both versions, as in systemd's hybrid mode: version 2 has no limits there.
        let both = format!("{FIRST}36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        check(groups, &both, &[unlimited, own], Some(128 * MIB));
    }

    #[test]
    fn inside_a_container_the_mount_begins_at_its_group() {
        let own = [("memory.max", "33554432\n")];
        // With a cgroup namespace, and without.
        check("0::/\n", SECOND, &own, Some(32 * MIB));
        let of_engine = "25 22 0:22 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        check("0::/docker/ab\n", of_engine, &own, Some(32 * MIB));
        check("0::/docker/ab/x\n", of_engine, &[("memory.max", "max\n"), ("x/memory.max", "4096")], Some(4096));
        // A process that was moved outside the mount.
        check("0::/../other\n", SECOND, &own, Some(32 * MIB));
        check("0::/elsewhere\n", of_engine, &own, Some(32 * MIB));
        let of_first = "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        check("4:memory:/docker/ab\n", of_first, &[("memory/memory.limit_in_bytes", "4096\n")], Some(4096));
    }

    #[test]
    fn malformed_entries_are_no_limit() {
        check("", SECOND, &[("memory.max", "4096")], None);
        check("0::/a\n", "", &[("a/memory.max", "4096")], None);
        check("nonsense\n0::\n:::\n", SECOND, &[("memory.max", "4096")], Some(4096));
        check("0::/a\n", SECOND, &[("a/memory.max", "-1\n"), ("memory.max", "12 kB\n")], None);
        let deep = "x/".repeat(LEVELS_MAX + 1);
        check(&format!("0::/{deep}\n"), SECOND, &[("memory.max", "4096")], None);
    }
}
