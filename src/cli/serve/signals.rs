//! Signals: what they do to a server that starts, and to one that runs.

use std::sync::Arc;

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::server::Server;

/// Signals, caught from the moment it is made on: until then they end the process, or do nothing to one that has pid 1.
pub(super) struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
    hangup: Option<Signal>,
    /// A child has ended; `None` if this is not process 1, which has none.
    child: Option<Signal>,
}

impl Signals {
    pub(super) fn listen() -> Signals {
        // Their default is to end the process, and none of them means that to a server. They are caught from now on for
        // good, though nobody waits for them. (A write to a reader that has gone, or past `ulimit -f`, is an error
        // then.)
        let ignored = [
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::alarm(),
            SignalKind::pipe(),
            SignalKind::from_raw(nix::libc::SIGXFSZ),
            SignalKind::from_raw(nix::libc::SIGVTALRM),
        ];
        for kind in ignored {
            drop(signal(kind));
        }
        let listen = |kind| {
            signal(kind)
                .inspect_err(|error| tracing::error!("a signal cannot be received: {error}. SHUTDOWN stops the server"))
                .ok()
        };
        Signals {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
            hangup: listen(SignalKind::hangup()),
            child: if std::process::id() == 1 { listen(SignalKind::child()) } else { None },
        }
    }

    /// Waits for SIGTERM or SIGINT, and says which.
    pub(super) async fn stop(&mut self) -> &'static str {
        loop {
            self.reap();
            tokio::select! {
                () = next(&mut self.terminate) => return "SIGTERM",
                () = next(&mut self.interrupt) => return "SIGINT",
                () = next(&mut self.child) => {}
            }
        }
    }

    /// Lets go of what has ended below process 1: whoever's parent has ended is its child, such as what a shell in the
    /// container has left. getid starts no program itself, so nobody else waits for one.
    fn reap(&self) {
        if self.child.is_some() {
            while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) = waitpid(None, Some(WaitPidFlag::WNOHANG))
            {
            }
        }
    }
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Waits for a task, if there is one.
async fn ended(task: &mut Option<JoinHandle<()>>) {
    match task {
        // It has logged what went wrong.
        Some(task) => drop(task.await),
        None => std::future::pending().await,
    }
}

/// SIGTERM and SIGINT stop the server, the second one at once; SIGHUP has the log, certificates and
/// declarations of generators read again.
pub(super) async fn obey(mut signals: Signals, server: Arc<Server>) {
    // Beside this, so that a disk that hangs keeps nobody from stopping the server; and one at a time.
    let mut reopening: Option<JoinHandle<()>> = None;
    loop {
        signals.reap();
        let name = tokio::select! {
            () = next(&mut signals.child) => continue,
            () = next(&mut signals.terminate) => "SIGTERM",
            () = next(&mut signals.interrupt) => "SIGINT",
            () = next(&mut signals.hangup), if reopening.is_none() => {
                reopening = Some(tokio::spawn(Arc::clone(&server).reopen_files()));
                continue;
            }
            () = ended(&mut reopening) => {
                reopening = None;
                continue;
            }
        };
        if server.is_stopping() {
            tracing::warn!("{name} received again, stopping at once");
            server.cut_off_clients();
        } else {
            tracing::info!("{name} received, stopping");
            server.request_stop();
        }
    }
}
