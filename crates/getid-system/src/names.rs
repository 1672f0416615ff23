//! How the static program looks up names of hosts.
//!
//! glibc loads a shared library for each hosts service in `/etc/nsswitch.conf`, except for `files` and `dns`, which are
//! built in. Such a library (`libnss_myhostname.so.2`, `libnss_resolve.so.2`, `libnss_mdns4_minimal.so.2`) loads the
//! machine's C library. In a static program with another version of it, that ends the process by a signal: a program
//! built on Debian 12 ended with SIGFPE at the first name on Debian 13, whose default is `files myhostname dns`. So the
//! static program only uses `/etc/hosts` and the name servers of `/etc/resolv.conf`, where systemd-resolved lists
//! itself.

/// Makes the static program look up names without the machine's libraries. Must be called before any thread starts.
///
/// A dynamically linked program uses the machine's C library, so all its services work there. It is left unchanged.
pub fn look_up_without_libraries() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
    {
        use std::ffi::{c_char, c_int};

        #[expect(unsafe_code, reason = "the C library has no other way to set it")]
        // SAFETY: the declaration is that of glibc's <nss.h>.
        unsafe extern "C" {
            fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
        }
        #[expect(unsafe_code, reason = "the C library has no other way to set it")]
        // SAFETY: both strings end with a zero and live as long as the program; glibc copies what it keeps. No other
        // thread looks up a name yet.
        let failed = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
        // If the call is rejected, lookups work as without it.
        debug_assert_eq!(failed, 0);
    }
}
