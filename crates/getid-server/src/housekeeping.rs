//! Work that runs a few times a second rather than per request: rates, uptime, clients that are idle or do not log in.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use getid_core::Declaration;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::logging::throttle::{Suppressed, throttled};
use crate::metrics::Counter;
use crate::registry::StopMode;
use crate::{Server, slow};
use getid_config::Config;
use getid_engine::generators::end_of_life;
use getid_system::clock::Clock as _;
use getid_system::daily::DailySchedule;

/// Runs this work for as long as it is polled.
pub(super) async fn run(server: Arc<Server>) {
    let metrics = &server.metrics;
    let mut hz = server.config.get().hz;
    let started = Instant::now();
    let mut last = started;
    let mut tick = interval(hz);
    // The start has logged the first warning.
    let now_s = server.issuer().clock().wall_unix_ms().div_euclid(1000);
    let mut ends =
        EndOfLifeSchedule { next: DailySchedule::checked_at(now_s), named: server.config.get().generators.clone() };
    loop {
        tick.tick().await;
        if server.config.get().hz != hz {
            hz = server.config.get().hz;
            tick = interval(hz);
            tick.reset();
        }
        let now = Instant::now();
        let elapsed_ms = u64::try_from(now.duration_since(last).as_millis()).unwrap_or(u64::MAX);
        last = now;
        let work = metrics.work_of_all_time();
        metrics.rate.sample(work.requests, elapsed_ms);
        metrics.input_rate.sample(work.input_bytes, elapsed_ms);
        metrics.output_rate.sample(work.output_bytes, elapsed_ms);
        if let Some(us) = server.issuer().take_longest_save_us() {
            server.note_event(slow::WATERMARK_SAVE, us / 1000);
        }
        let uptime_s = now.duration_since(started).as_secs();
        if metrics.uptime_s.swap(uptime_s, Relaxed) != uptime_s {
            every_second(&server, uptime_s, &mut ends);
        }
    }
}

/// Returns a timer that ticks `hz` times a second.
fn interval(hz: u32) -> Interval {
    let mut ticks = tokio::time::interval(Duration::from_millis(u64::from(1000 / hz.clamp(1, 500))));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Schedule of the warning about generators near their end.
struct EndOfLifeSchedule {
    next: DailySchedule,
    /// The named generators at the last warning.
    named: Vec<Arc<Declaration>>,
}

impl EndOfLifeSchedule {
    /// Returns the warning to log, if it is due: once a day, and after each change of the generators.
    fn warning(&mut self, config: &Config, unix_ms: i64) -> Option<String> {
        if !self.named.iter().map(Arc::as_ptr).eq(config.generators.iter().map(Arc::as_ptr)) {
            self.named.clone_from(&config.generators);
            self.next.reset();
        }
        let is_due = self.next.is_due(unix_ms.div_euclid(1000));
        is_due.then(|| end_of_life::warning(config.layout, &config.generators, unix_ms))?
    }
}

fn every_second(server: &Server, uptime_s: u64, ends: &mut EndOfLifeSchedule) {
    close_idle(server, uptime_s);
    close_unauthenticated(server, uptime_s);
    server.throttle.end_windows(uptime_s).iter().for_each(Suppressed::log);
    server.report_guesses();
    server.report_logins();
    let unix_ms = server.issuer().clock().wall_unix_ms();
    let of_tls = server.tls.as_ref().and_then(|tls| tls.warning(unix_ms.div_euclid(1000)));
    for warning in of_tls.into_iter().chain(ends.warning(&server.config.get(), unix_ms)) {
        tracing::warn!("{warning}");
    }
    server.generators.prepare_periods();
    server.metrics.sample_memory();
    server.metrics.sample_main_cpu();
}

/// Closes the clients that have not logged in within `auth-timeout`, at `uptime_s` seconds of uptime.
pub fn close_unauthenticated(server: &Server, uptime_s: u64) {
    let timeout_s = server.config.get().auth_timeout_s;
    // While the default user is open, no login is needed.
    if timeout_s == 0 || server.settings.get().users.default_user().is_open() {
        return;
    }
    for client in server.clients.all() {
        // A client whose login is being answered late is not late itself.
        let is_late = client.unauthenticated_s(uptime_s).is_some_and(|s| s > timeout_s) && !client.is_waiting();
        if is_late && client.stopping() != StopMode::Now {
            server.metrics.count(Counter::AuthTimeoutClosed);
            throttled!(
                server.throttle,
                AuthTimeout,
                "client {} at {} is closed: it has not logged in within auth-timeout {timeout_s} s",
                client.id,
                client.peer
            );
            client.stop(StopMode::Now);
        }
    }
}

/// Closes the clients that have been idle for longer than `timeout`, at `uptime_s` seconds of uptime.
pub fn close_idle(server: &Server, uptime_s: u64) {
    let timeout_s = server.config.get().timeout_s;
    if timeout_s == 0 {
        return;
    }
    for client in server.clients.all() {
        if client.idle_s(uptime_s) > timeout_s
            && !client.is_waiting()
            && !client.is_monitor()
            && !client.is_subscribed()
        {
            server.metrics.count(Counter::IdleClosed);
            throttled!(server.throttle, Idle, "client {} at {} was idle and is closed", client.id, client.peer);
            client.stop(StopMode::Now);
        }
    }
}
