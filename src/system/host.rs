//! The name of this host.

use nix::sys::utsname::uname;

/// The name of this host, as the kernel has it: in a container the container's, in a pod the pod's.
///
/// Not `HOSTNAME` of the environment, which shells and scripts set, and which outlives a change of the name.
pub fn name() -> String {
    uname().map(|names| names.nodename().to_string_lossy().into_owned()).unwrap_or_default()
}
