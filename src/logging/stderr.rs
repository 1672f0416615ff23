//! Lines on standard error, before there is a log and after its end.
//!
//! Standard error may be a pipe that nobody reads, so whoever writes to it waits for a second at most.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::mpsc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::thread;

/// How long [`print`] waits for standard error.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Writes a line to standard error, and waits for that no longer than a second. For a start and its end, not for
/// threads that serve.
pub fn print(text: &str) {
    let line = format!("{}\n", text.trim_end());
    let (done, wait) = mpsc::channel();
    let copy = line.clone();
    let write = move || {
        // Nothing to fall back on when standard error is gone.
        let _ = io::stderr().write_all(copy.as_bytes());
        let _ = done.send(());
    };
    if thread::spawn("stderr", write).is_ok() {
        let _ = wait.recv_timeout(TIMEOUT);
    } else {
        print_without_a_thread(line.as_bytes());
    }
}

/// [`print`] where no thread can be made, which may be what is to be said. A pipe that says that it has room takes this
/// much without a wait.
fn print_without_a_thread(line: &[u8]) {
    const ROOM: usize = nix::libc::PIPE_BUF;
    let stderr = io::stderr();
    let mut wait = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let timeout = PollTimeout::try_from(TIMEOUT).unwrap_or(PollTimeout::ZERO);
    if poll(&mut wait, timeout).is_ok_and(|ready| ready > 0) {
        let _ = stderr.lock().write_all(&line[..line.len().min(ROOM)]);
    }
}
