//! Reports the state of a claim: to the log at each change, and to [`ClaimView`](crate::claim::status::ClaimView) at
//! each step.

use std::sync::Arc;

use getid_core::server::NS_PER_MS;
use getid_core::server::claim::{ClaimLoss, Clocks, StandbyReason};

use super::ClusterClaim;
use super::texts;
use crate::claim::SaveError;
use crate::claim::status::{ClaimRole, ClaimStatus, HolderStatus, StoreUpkeep, TakeoverStatus};
use getid_system::clock::Clock;
use getid_text::printable::printable;

/// Distance of a standby's clock from the record's time above which it is logged, in ms. It includes the time to the
/// store and back.
const CLOCK_GAP_LOGGED_MS: u64 = 5000;

/// Distance at or below which a logged clock gap counts as closed, in ms.
const CLOCK_GAP_CLOSED_MS: u64 = 2500;

/// What was logged last, and the counters of a claim.
#[derive(Debug, Default)]
pub(super) struct StatusPublisher {
    pub(super) beats: u64,
    pub(super) last_beat_us: u64,
    takeovers: u64,
    losses: u64,
    last_takeover: Option<TakeoverStatus>,
    /// Reason not to take the claim, from the last step's error.
    pub(super) refused_for: Option<String>,
    pub(super) warned_of_name: Option<u128>,
    product: String,
    last_answer_unix_ms: u64,
    /// Standing that was logged last; logged again when it changes.
    logged: Option<LoggedState>,
    /// Time since which the store has not answered.
    away_since: Option<Clocks>,
    /// Whether the log has reported a clock gap that is still open.
    has_clock_gap: bool,
}

/// Standing of this server, as far as it is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LoggedState {
    Holder,
    Standby(String),
    /// Not eligible, with the reason. `None` means a clock gap, whose size changes all the time.
    NotEligible(Option<String>),
    NeedsOperator(String),
}

impl<C: Clock> ClusterClaim<C> {
    /// Logs the warnings of the store once, and keeps its product name.
    pub(super) async fn read_store_info(&mut self) {
        if !self.publisher.product.is_empty() {
            return;
        }
        let store = Arc::clone(self.link.store());
        let info = tokio::time::timeout(super::deadline(self.config.timeout_ms), store.info()).await;
        let Ok(Ok(info)) = info else { return };
        for warning in &info.warnings {
            tracing::warn!("claim store {}: {}", self.link.shown(), printable(warning));
        }
        self.publisher.product = printable(&info.product).into_owned();
    }

    /// Publishes the state after each step, whose error is `error`.
    pub(super) fn publish(&mut self, error: Option<&SaveError>) {
        let is_waiting = matches!(error, None | Some(SaveError::Standby { .. }));
        self.publish_standing(error, !is_waiting);
    }

    /// Publishes the state. `needs_operator`: whether a standby in this state takes over only after an operator acts.
    pub(super) fn publish_standing(&mut self, error: Option<&SaveError>, needs_operator: bool) {
        let now = self.config.clock.clocks();
        self.log_store_state(now);
        self.notes.keep();
        let not_eligible = self.ineligibility(error, now);
        self.log_standing(error, not_eligible.as_deref(), now);
        let clock_gap_ms = self.machine.clock_gap_ms(now);
        self.log_clock_gap(clock_gap_ms);
        let why = match error {
            Some(SaveError::Standby { what }) => what.clone(),
            Some(error) if !self.machine.is_holder() => error.to_string(),
            _ if self.machine.is_holder() => String::new(),
            _ => format!("standby{}: the claim store has not been read yet", self.for_server_id()),
        };
        let publisher = &self.publisher;
        let status = ClaimStatus {
            store: self.link.shown().to_owned(),
            product: publisher.product.clone(),
            role: if self.machine.is_holder() { ClaimRole::Holder } else { ClaimRole::Standby },
            server_id: self.server_id.filter(|_| self.config.server_id.is_some() || self.chooser.is_settled),
            instance_name: self.config.name.clone(),
            instance: format!("{:032x}", self.me),
            holder: self.holder_status(now),
            hold: self.machine.hold(),
            why,
            needs_operator,
            not_eligible,
            clock_gap_ms,
            timeout_ms: self.config.timeout_ms,
            ride_through_ms: self.ride_through_ms(now),
            last_answer_unix_ms: publisher.last_answer_unix_ms,
            beats: publisher.beats,
            errors: self.link.errors,
            error: self.link.error.clone(),
            last_beat_us: publisher.last_beat_us,
            takeovers: publisher.takeovers,
            losses: publisher.losses,
            last_takeover: publisher.last_takeover.clone(),
            // The view fills this in.
            upkeep: StoreUpkeep::default(),
        };
        self.config.view.publish(status);
    }

    /// Returns the reason why this standby is not eligible, from the step's error or from its present state. INFO, the
    /// page, metrics and the log all use this value.
    fn ineligibility(&mut self, error: Option<&SaveError>, now: Clocks) -> Option<String> {
        let refused_for = self.publisher.refused_for.take();
        match error {
            _ if self.machine.is_holder() => None,
            Some(SaveError::ClaimLost { what }) => Some(what.clone()),
            _ => refused_for.or_else(|| self.ineligible_reason(now)),
        }
    }

    /// Returns the holder of the claim, as far as this server knows it.
    fn holder_status(&self, now: Clocks) -> Option<HolderStatus> {
        let wall = |unix_ms: i64| unix_ms.max(0).cast_unsigned();
        if self.machine.is_holder() {
            let hold = self.machine.hold();
            let until = hold.map_or(now.wall_ms, |hold| hold.sent.wall_ms.saturating_add_unsigned(hold.for_ms));
            return Some(HolderStatus {
                instance: format!("{:032x}", self.me),
                name: self.config.name.clone(),
                host: self.config.host.clone(),
                address: self.config.address.clone(),
                since_unix_ms: wall(self.tenure.as_ref().map_or(0, |tenure| tenure.since_unix_ms)),
                until_unix_ms: wall(until),
            });
        }
        let usable_claim = self.usable_claim.as_ref()?;
        let holder = usable_claim.claim.holder()?;
        // The holder sent its newest beat before this server saw it.
        let seen_since = self.seen_since.unwrap_or(now);
        let silent_ms = now.boot_ns.saturating_sub(seen_since.boot_ns) / NS_PER_MS;
        let seen_at = now.wall_ms.saturating_sub_unsigned(silent_ms);
        Some(HolderStatus {
            instance: format!("{:032x}", holder.instance),
            name: holder.name.clone(),
            host: holder.host.clone(),
            address: holder.address.clone(),
            since_unix_ms: wall(holder.since_unix_ms),
            until_unix_ms: wall(seen_at.saturating_add_unsigned(usable_claim.seen(false).timeout_ms * 3 / 4)),
        })
    }

    /// Returns how long IDs continue if the store stops answering now, in ms. It uses the reference clock, as IDs do:
    /// the wall clock may be wrong.
    fn ride_through_ms(&self, now: Clocks) -> u64 {
        let hold_ms = self.machine.hold().map_or(0, |hold| hold.left_ns(now) / NS_PER_MS);
        let saved = self.tenure.as_ref().and_then(|tenure| tenure.saved.zip(tenure.saved_at));
        let watermark_ms = saved.map_or(0, |(point, saved_at)| {
            let passed_ms = now.boot_ns.saturating_sub(saved_at.boot_ns) / NS_PER_MS;
            point.watermark.0.saturating_sub(point.reference.0).saturating_sub(passed_ms)
        });
        hold_ms.min(watermark_ms)
    }

    /// Logs when the store stops answering and when it answers again, once each.
    fn log_store_state(&mut self, now: Clocks) {
        if self.link.error.is_empty() {
            self.publisher.last_answer_unix_ms = now.wall_ms.max(0).cast_unsigned();
            if let Some(since) = self.publisher.away_since.take() {
                let for_ns = now.boot_ns.saturating_sub(since.boot_ns);
                tracing::warn!("claim store {} answers again, after {}", self.link.shown(), texts::seconds(for_ns));
            }
        } else if self.publisher.away_since.is_none() {
            self.publisher.away_since = Some(now);
            let goes_on = if self.machine.is_holder() {
                format!(
                    "; IDs continue for {}, then requests are refused with MISCONF until it answers",
                    texts::seconds(self.ride_through_ms(now).saturating_mul(NS_PER_MS))
                )
            } else {
                String::new()
            };
            tracing::error!("{}{goes_on}", self.link.error);
        }
    }

    /// Logs when a standby's clock gap opens and when it closes, once each.
    fn log_clock_gap(&mut self, gap_ms: Option<i64>) {
        let Some(gap_ms) = gap_ms else {
            self.publisher.has_clock_gap &= !self.machine.is_holder();
            return;
        };
        let (gap, server_id) = (texts::clock_gap(gap_ms), self.identity().server_id);
        if !self.publisher.has_clock_gap && gap_ms.unsigned_abs() > CLOCK_GAP_LOGGED_MS {
            self.publisher.has_clock_gap = true;
            let ahead = if gap_ms > 0 { ", and IDs would run ahead with it after a takeover" } else { "" };
            tracing::warn!(
                "standby for server-id {server_id}: this machine's clock is {gap} the time of the claim's \
                 record{ahead}; compare the clocks of both machines"
            );
        } else if self.publisher.has_clock_gap && gap_ms.unsigned_abs() <= CLOCK_GAP_CLOSED_MS {
            self.publisher.has_clock_gap = false;
            tracing::info!(
                "standby for server-id {server_id}: this machine's clock agrees with the record's time again"
            );
        }
    }

    /// Logs the standing of this server when it changes.
    fn log_standing(&mut self, error: Option<&SaveError>, not_eligible: Option<&str>, now: Clocks) {
        let is_apart = self.takeover_obstacle().is_none() && self.machine.apart_by_ms(now).is_some();
        let standing = match (error, not_eligible) {
            _ if self.machine.is_holder() => LoggedState::Holder,
            (Some(SaveError::ClaimLost { what }), _) => LoggedState::NeedsOperator(what.clone()),
            (_, Some(why)) => LoggedState::NotEligible((!is_apart).then(|| why.to_owned())),
            (_, None) if matches!(self.machine.waiting(), Some(StandbyReason::Held { .. })) => {
                let holder = self.usable_claim.as_ref().and_then(|usable_claim| usable_claim.claim.holder());
                LoggedState::Standby(format!(
                    "held by {}",
                    holder.map_or_else(|| "another server".to_owned(), texts::holder_text)
                ))
            }
            // Transient states are not logged.
            _ => return,
        };
        if self.publisher.logged.as_ref() == Some(&standing) {
            return;
        }
        let server_id = self.for_server_id();
        match &standing {
            LoggedState::Holder => {}
            LoggedState::Standby(why) => tracing::info!("standby{server_id}: {why}"),
            LoggedState::NotEligible(_) => {
                tracing::info!("standby{server_id}: not eligible: {}", not_eligible.unwrap_or_default());
            }
            LoggedState::NeedsOperator(why) => tracing::error!("no IDs{server_id}: {why}"),
        }
        self.publisher.logged = Some(standing);
    }

    /// Logs and counts a takeover, after the first save in the new term: IDs can be given.
    pub(super) fn log_takeover(&mut self, now: Clocks) {
        let Some(tenure) = &self.tenure else { return };
        let took_ns = now.boot_ns.saturating_sub(tenure.cause_seen.boot_ns);
        let line = format!(
            "server-id {} was taken: {}; IDs again after {} (claim store {})",
            self.identity().server_id,
            tenure.cause,
            texts::milliseconds(took_ns),
            self.link.shown()
        );
        if tenure.was_silent {
            tracing::warn!("{line}");
        } else {
            tracing::info!("{line}");
        }
        self.publisher.takeovers += 1;
        self.publisher.last_takeover = Some(TakeoverStatus {
            at_unix_ms: now.wall_ms.max(0).cast_unsigned(),
            cause: tenure.cause.clone(),
            took_ms: took_ns / NS_PER_MS,
        });
    }

    /// Logs and counts the loss of the claim.
    pub(super) fn log_loss(&mut self, loss: ClaimLoss) {
        self.publisher.losses += 1;
        let now = self.config.clock.clocks();
        let server_id = self.identity().server_id;
        let saved_at = self.tenure.as_ref().and_then(|tenure| tenure.saved_at);
        let since = saved_at.map_or_else(String::new, |at| {
            let silent_ns = now.boot_ns.saturating_sub(at.boot_ns);
            format!(", {} after this server's last beat", texts::seconds(silent_ns))
        });
        let why = texts::loss(loss, self.known_claim(), server_id, self.link.shown());
        tracing::error!(
            "server-id {server_id} was lost: {why}{since}. This server gives no IDs and waits as a standby"
        );
    }

    pub(super) fn log_release(&self) {
        let server_id = self.identity().server_id;
        tracing::info!("server-id {server_id} is released: its next holder continues at once");
    }
}
