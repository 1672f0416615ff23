//! How the C library gives large buffers back to the system.
//!
//! A client's large request is held in a buffer that doubles as it arrives. glibc takes memory of 128 KiB and more from
//! the system piece by piece, and gives each piece back when it is freed; but it raises that size, up to 32 MiB, to the
//! largest piece it has seen freed. From then on such buffers lie in the heap between small ones that stay, and what
//! was freed among them is kept. Measured: 5,000 clients that each leave a request of 1 MB without its end, with
//! `maxmemory-clients` 256 MB: 656 to 1,201 MiB resident at the peak and 264 to 1,074 after all were gone. With a size
//! that stays: 266 to 491 and 17 to
//! 64. The price is CPU time where buffers of this size come and go: 5.8 to 8.5 s for that attack, 4.0 to 5.7 s
//!     without. Requests of less than 128 KiB pay nothing.

/// glibc's own size to begin with, bytes (`DEFAULT_MMAP_THRESHOLD`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: i32 = 128 * 1024;

/// Has memory of large buffers go back to the system as soon as it is freed. To be called before there are threads.
pub(crate) fn give_large_buffers_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "there is no other way to say it from inside the process")]
        // SAFETY: `mallopt` takes two numbers by value and reads or writes no memory of ours; both are ones it knows,
        // and it refuses others. It takes the allocator's own lock.
        let is_taken = unsafe { nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
        // Refused, all is as it would be without this call.
        debug_assert_eq!(is_taken, 1);
    }
}
