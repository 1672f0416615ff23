//! Reports a server to the process manager: its pid in a file, and its state by [`Notifier`].

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::error::warn_on_error;
use super::notifier::{Notifier, watchdog_every};
use super::pid_file::PidFile;
use getid_server::Server;
use getid_text::printable::printable;

pub(super) struct Supervision {
    pid_file: Option<PidFile>,
    notifier: Arc<Notifier>,
    status: JoinHandle<()>,
}

impl Supervision {
    /// Writes the pid file, reports that the server is ready, and keeps its status up to date.
    pub(super) async fn begin(server: &Arc<Server>) -> Supervision {
        let config = server.config.get();
        let written = config.pidfile.as_deref().map(PidFile::write).transpose();
        let pid_file = written.unwrap_or_else(|error| {
            warn_on_error("pidfile", Err::<(), _>(error));
            None
        });
        let status = status_of(server);
        let (notifier, warning) = Notifier::open(config.supervised, std::env::var_os("NOTIFY_SOCKET"));
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        warn_on_error("cannot report the start to systemd", notifier.ready(&status).await);
        let notifier = Arc::new(notifier);
        tokio::spawn(keep_watchdog_quiet(Arc::clone(&notifier)));
        let status = tokio::spawn(keep_status(Arc::clone(&notifier), Arc::clone(server), status));
        Supervision { pid_file, notifier, status }
    }

    pub(super) async fn stopping(&self) {
        self.status.abort();
        warn_on_error("cannot report the stop to systemd", self.notifier.stopping().await);
    }

    pub(super) fn end(self) {
        if let Some(file) = self.pid_file {
            warn_on_error("pidfile", file.remove());
        }
    }
}

/// Text of `systemctl status` while IDs are given.
const SERVING: &str = "Serving IDs";

/// Keeps the text of `systemctl status` true: IDs are given, or the reason why not.
async fn keep_status(notifier: Arc<Notifier>, server: Arc<Server>, mut reported: String) {
    if !notifier.is_connected() {
        return;
    }
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let status = status_of(&server);
        if status != reported {
            // If the message is lost, the next change of the status sends one again.
            let _ = notifier.status(&status).await;
            reported = status;
        }
    }
}

fn status_of(server: &Server) -> String {
    if let Some(claim) = server.claim().filter(|claim| claim.is_standby()) {
        // The reason begins with "standby for server-id 3".
        return format!("Waiting, {}", printable(claim.status().reason()));
    }
    // Overload is left out: it may begin and end a thousand times a second.
    match server.issuer().refusing().filter(|refusal| !refusal.is_overload()) {
        None => SERVING.to_owned(),
        Some(refusal) => format!("No IDs: {refusal}"),
    }
}

/// Sends alive messages to a watchdog (`WatchdogSec=`) from the thread that accepts clients. If that thread hangs, the
/// messages stop.
async fn keep_watchdog_quiet(notifier: Arc<Notifier>) {
    let (usec, pid) = (std::env::var_os("WATCHDOG_USEC"), std::env::var_os("WATCHDOG_PID"));
    let Some(every) = watchdog_every(usec.as_deref(), pid.as_deref()).filter(|_| notifier.is_connected()) else {
        return;
    };
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        tick.tick().await;
        let result = notifier.alive().await;
        // Logged once, because it may recur every few seconds.
        if result.is_err() && !failed {
            warn_on_error("cannot report to systemd's watchdog that the server is alive", result.as_ref().copied());
        }
        failed = result.is_err();
    }
}
