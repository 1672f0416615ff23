//! Calls of the operating system that the standard library lacks: the only unsafe code of the crate.
//!
//! A child of `fork` has a copy of the parent's locks, connection and values. [`forks`] counts the forks between the
//! first process and this one, so each call finds out with one atomic load whether its client belongs to the parent.

/// Name of this machine, empty if it is not known.
pub(crate) fn host_name() -> Vec<u8> {
    let kernel = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    if !kernel.trim_ascii().is_empty() {
        return kernel.trim_ascii().to_vec();
    }
    let variable = ["HOSTNAME", "COMPUTERNAME"].into_iter().find_map(std::env::var_os);
    variable.unwrap_or_default().into_encoded_bytes()
}

#[cfg(unix)]
pub(crate) use unix::{close_inherited, detect_forks, forks, keep_alive};

#[cfg(unix)]
#[allow(unsafe_code)]
mod unix {
    use std::ffi::{c_int, c_void};
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    static FORKS: AtomicUsize = AtomicUsize::new(0);
    static FORKS_OF_CHILD: AtomicUsize = AtomicUsize::new(0);
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const KEEP_ALIVE: (c_int, c_int) = (1, 9);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const KEEP_ALIVE: (c_int, c_int) = (0xffff, 8);

    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> c_int;
        fn close(descriptor: c_int) -> c_int;
        fn setsockopt(socket: c_int, level: c_int, name: c_int, value: *const c_void, size: u32) -> c_int;
    }

    extern "C" fn before_fork() {
        FORKS_OF_CHILD.store(FORKS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    // A store, not an addition: the handlers may be registered twice.
    extern "C" fn in_child() {
        FORKS.store(FORKS_OF_CHILD.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the number of forks between the first process and this one.
    #[inline]
    pub(crate) fn forks() -> usize {
        FORKS.load(Ordering::Relaxed)
    }

    /// Starts the count of forks. Returns false if the system has no memory for it.
    pub(crate) fn detect_forks() -> bool {
        // No `Once`: a child could inherit it half done. Two registrations at the same time do no harm.
        if IS_REGISTERED.load(Ordering::Acquire) {
            return true;
        }
        // SAFETY: the handlers are functions of this program that only use atomics, which is allowed after a fork.
        let is_registered = unsafe { pthread_atfork(Some(before_fork), None, Some(in_child)) } == 0;
        IS_REGISTERED.store(is_registered, Ordering::Release);
        is_registered
    }

    /// Closes a descriptor that this process inherited from its parent, without a byte to the other end.
    pub(crate) fn close_inherited(descriptor: i32) {
        // SAFETY: the descriptor is that of the parent's connection, and the caller has leaked the connection's object,
        // so nothing else in this process uses or closes the descriptor.
        unsafe { close(descriptor) };
    }

    /// Turns TCP keep-alive on. A failure is ignored: the reply time-out finds a lost connection too.
    pub(crate) fn keep_alive(socket: BorrowedFd<'_>) {
        let on: c_int = 1;
        // SAFETY: the descriptor is open while it is borrowed, and the value is a `c_int` of the given size.
        unsafe { setsockopt(socket.as_raw_fd(), KEEP_ALIVE.0, KEEP_ALIVE.1, (&raw const on).cast(), 4) };
    }
}

#[cfg(not(unix))]
pub(crate) fn forks() -> usize {
    0
}

#[cfg(not(unix))]
pub(crate) fn detect_forks() -> bool {
    true
}

#[cfg(not(unix))]
pub(crate) fn close_inherited(_: i32) {}
