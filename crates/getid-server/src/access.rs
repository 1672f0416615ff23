//! Logins and refusals: the rate at which passwords may be tried, and their records in `ACL LOG`, the metrics and the
//! log.

use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::Server;
use super::audit::AuditAction;
use crate::connection::wait::Wait;
use crate::logging::AUDIT;
use crate::metrics::Counter;
use crate::registry::{Client, StopMode};
use getid_redis::acl::{Denial, DenialOrigin, DenialReason, LoginLimiter, LoginLog, LoginSource, RepeatedLogins};
use getid_system::clock::{self, Clock as _};

/// Maximum wait of a command for the connections that it cut off: the same as for the disk. A connection that carries
/// out a change of its own meanwhile, or whose thread is blocked, may end later.
const CUT_OFF_WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum number of log lines about repeated logins in a second.
const LOGIN_LINES_PER_S_MAX: usize = 8;

impl Server {
    /// Acquires permits for logins from an address. Returns the wait before they may be tried.
    pub(crate) fn acquire_logins(&self, source: LoginSource, logins: u32) -> Duration {
        let now_ns = clock::stopwatch_ns();
        Duration::from_nanos(self.lock_limiter().acquire(source, logins, now_ns) - now_ns)
    }

    /// Releases permits that were not used, or were used for correct logins.
    pub(crate) fn release_logins(&self, source: LoginSource, logins: u32) {
        self.lock_limiter().release(source, logins, clock::stopwatch_ns());
    }

    fn lock_limiter(&self) -> MutexGuard<'_, LoginLimiter> {
        // A panic leaves it usable: it has only counts, each of which is changed at once.
        self.login_limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts wrong logins, `before` of which came on the same connection. Returns the delay of their answer.
    #[cold]
    pub(crate) fn record_wrong_logins(&self, count: u64, before: u64, client: &Client) -> Duration {
        let source = client.peer.source();
        Duration::from_millis(self.lock_limiter().record_failures(source, count, before, clock::stopwatch_ns()))
    }

    /// Logs the number of wrong logins from each address, beside the lines for single ones, of which there may be too
    /// many. Must be called once a second.
    pub(super) fn report_guesses(&self) {
        for (source, count) in self.lock_limiter().unreported(clock::stopwatch_ns()) {
            tracing::warn!(target: AUDIT, addr = %source, count, "logins failed from one address");
        }
    }

    /// Logs a login, if it is the first of its user from its address within an hour.
    pub(crate) fn log_login(&self, user: &Arc<str>, client: &Client) {
        if self.lock_login_log().has_line(client.peer.source(), user, clock::stopwatch_ns()) {
            self.audit(AuditAction::Login { user }, client);
        }
    }

    fn lock_login_log(&self) -> MutexGuard<'_, LoginLog> {
        // A panic leaves it usable: it has only counts, each of which is changed at once.
        self.login_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs the number of logins without a line of their own in each hour that is over. Must be called once a second.
    pub(super) fn report_logins(&self) {
        let ended = self.lock_login_log().end_hours(clock::stopwatch_ns(), LOGIN_LINES_PER_S_MAX);
        ended.iter().for_each(log_repeated);
    }

    /// Logs the number of logins without a line of their own, at the end of the server.
    pub(super) fn report_all_logins(&self) {
        let ended = self.lock_login_log().end_all();
        ended.iter().for_each(log_repeated);
    }

    /// Waits until the connections that were cut off have ended. One that a thread is serving has already read its
    /// request. Nothing may be done for it after the answer to the client that cut it off.
    ///
    /// Two that cut each other off do not wait for each other: a client that is cut off itself is not answered.
    pub(crate) async fn wait_for_cut_off(&self, own: &Client) {
        let all = self.clients.all();
        let cut_off = all.iter().filter(|client| client.id != own.id && client.stopping() == StopMode::Now);
        let cut_off: Vec<u64> = cut_off.map(|client| client.id).collect();
        let ended = tokio::time::timeout(CUT_OFF_WAIT_MAX, self.clients.ended(&cut_off));
        let _ = Wait::unless_cut_off(own).until(pin!(ended)).await;
    }

    /// Adds refusals to `ACL LOG`. The client's state was published before.
    #[cold]
    pub(crate) fn note_denials(&self, denials: Vec<Denial>, client: &Client) {
        let users = Arc::clone(&self.settings.get().users);
        let source = client.peer.source();
        let now_ms = self.issuer().clock().wall_unix_ms();
        let len_max = usize::try_from(self.config.get().acllog_max_len).unwrap_or(usize::MAX);
        let mut log = self.acl_log.lock().unwrap_or_else(PoisonError::into_inner);
        for denial in denials {
            if denial.reason == DenialReason::Auth {
                self.audit(AuditAction::LoginFailed { name: &denial.user, count: denial.count }, client);
            }
            let counter = match denial.reason {
                DenialReason::Command => Counter::DeniedCommands,
                DenialReason::Key => Counter::DeniedKeys,
                DenialReason::Channel => Counter::DeniedChannels,
                DenialReason::Auth => Counter::DeniedLogins,
            };
            self.metrics.add(counter, denial.count);
            let seen = DenialOrigin { source, is_known_user: users.get(denial.user.as_bytes()).is_some() };
            log.note(denial, seen, client.line(self.metrics.uptime_s.load(Relaxed)), now_ms, len_max);
        }
    }
}

/// Logs logins without a line of their own.
fn log_repeated(repeated: &RepeatedLogins) {
    let RepeatedLogins { user, source, count } = repeated;
    tracing::info!(target: AUDIT, user = %user, addr = %source, count, "logged in again");
}
