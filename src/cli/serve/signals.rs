//! Signals: their effect on a server that starts, and on one that runs.

use std::sync::Arc;

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use getid_server::Server;

/// Handlers of signals, active from creation on. Before that, a signal ends the process, or is ignored by a process
/// with pid 1.
pub(super) struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
    hangup: Option<Signal>,
    /// A child has ended; `None` unless this is process 1, because getid starts no program.
    child: Option<Signal>,
}

impl Signals {
    pub(super) fn listen() -> Signals {
        // Their default ends the process, which no sender of these signals intends for a server. From now on they are
        // caught and ignored. (A write to a closed pipe, or past `ulimit -f`, is then an error.)
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
                .inspect_err(|error| tracing::error!("cannot receive a signal: {error}. SHUTDOWN stops the server"))
                .ok()
        };
        Signals {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
            hangup: listen(SignalKind::hangup()),
            child: if std::process::id() == 1 { listen(SignalKind::child()) } else { None },
        }
    }

    /// Waits for SIGTERM or SIGINT, and returns its name.
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

    /// Reaps ended children of process 1. It adopts each process whose parent has ended, such as those that a shell in
    /// the container leaves. getid starts no program itself, so no other code waits for a child.
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
async fn wait_for(task: &mut Option<JoinHandle<()>>) {
    match task {
        // The task has logged its errors.
        Some(task) => drop(task.await),
        None => std::future::pending().await,
    }
}

/// Handles signals while the server runs. SIGTERM and SIGINT stop it, the second one at once. SIGHUP reloads the log,
/// certificates and declarations of generators.
pub(super) async fn handle(mut signals: Signals, server: Arc<Server>) {
    // In a task of its own, so that a hanging disk does not prevent a stop. One reload runs at a time.
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
            () = wait_for(&mut reopening) => {
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
