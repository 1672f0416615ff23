//! How names of hosts are looked up by the static program.
//!
//! glibc loads a shared library for each service that `/etc/nsswitch.conf` names for hosts, save `files` and `dns`,
//! which it has inside. Such a library (`libnss_myhostname.so.2`, `libnss_resolve.so.2`, `libnss_mdns4_minimal.so.2`)
//! brings the machine's own C library along, and a static program with another version of it is ended by a signal: the
//! program that Debian 12 built ended with SIGFPE at the first name on Debian 13, whose default is
//! `files myhostname dns`. So the static program asks `/etc/hosts` and the name servers of `/etc/resolv.conf`, where
//! systemd-resolved has put itself, and nobody else.

/// Has names looked up without any library of the machine. To be called before there are threads.
///
/// A program with shared libraries has the machine's C library, so all its services work there: it is left as it is.
pub(crate) fn look_up_without_libraries() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
    {
        use std::ffi::{c_char, c_int};

        #[expect(unsafe_code, reason = "the C library has no other way to say it")]
        // SAFETY: the declaration is that of glibc's <nss.h>.
        unsafe extern "C" {
            fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
        }
        #[expect(unsafe_code, reason = "the C library has no other way to say it")]
        // SAFETY: both are strings that end with a zero and live as long as the program; glibc copies what it keeps. No
        // other thread looks anything up yet.
        let failed = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
        // Refused, all is as it would be without this call.
        debug_assert_eq!(failed, 0);
    }
}
