//! The name of this host.

use nix::sys::utsname::uname;

/// Returns the kernel's name of this host: in a container the container's, in a pod the pod's.
///
/// The environment's `HOSTNAME` is not used: shells and scripts set it, and it outlives a change of the name.
pub fn name() -> String {
    uname().map(|names| names.nodename().to_string_lossy().into_owned()).unwrap_or_default()
}
