//! Lines on standard error, before the log starts and after it ends.
//!
//! Standard error may be a pipe without a reader, so a thread waits for it at most a second.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::mpsc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::thread;

/// How long [`print`] waits for standard error.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Writes a line to standard error, and waits for it at most a second. For the start and the end of a process, not for
/// threads that serve.
pub fn print(text: &str) {
    let line = format!("{}\n", text.trim_end());
    let (done, wait) = mpsc::channel();
    let copy = line.clone();
    let write = move || {
        // There is no other output if standard error is gone.
        let _ = io::stderr().write_all(copy.as_bytes());
        let _ = done.send(());
    };
    if thread::spawn("stderr", write).is_ok() {
        let _ = wait.recv_timeout(TIMEOUT);
    } else {
        print_without_a_thread(line.as_bytes());
    }
}

/// Replaces [`print`] if no thread can be started, which may be what the line reports. A pipe that polls as writable
/// accepts `PIPE_BUF` bytes without blocking.
fn print_without_a_thread(line: &[u8]) {
    const ROOM: usize = nix::libc::PIPE_BUF;
    let stderr = io::stderr();
    let mut wait = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let timeout = PollTimeout::try_from(TIMEOUT).unwrap_or(PollTimeout::ZERO);
    if poll(&mut wait, timeout).is_ok_and(|ready| ready > 0) {
        let _ = stderr.lock().write_all(&line[..line.len().min(ROOM)]);
    }
}
