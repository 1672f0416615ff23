//! The task beside the requests: it samples the clock, saves the watermark before a draw needs it, and serves waiting
//! draws.
//!
//! It has a thread and a runtime of its own, which a server starts before it accepts the first connection: no client
//! can delay a save.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use getid_core::server::SAVE_SLACK_MS;
use getid_core::server::checks::{Fault, HAS_TEST_SWITCHES, planted};
use getid_core::{Limits, Refusal, SavePoint};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::refusals::{RefusalNews, Refusals};
use super::time::{DueSave, Issuer, NextServe};
use crate::claim::{AcquiredClaim, Claim, Identity, SaveError};
use getid_system::clock::Clock;
use getid_text::plural::counted;

/// Pause between a failed save and the next attempt. A full disk that is cleaned is noticed soon, and a dead one is not
/// overloaded.
const SAVE_RETRY: Duration = Duration::from_millis(250);

/// Shortest interval between two warnings about borrowing.
const BORROW_REPORT_EVERY: Duration = Duration::from_secs(1);

/// Pause of a start without a record, or with a copy of one, before it reads the clock. It is a little more than
/// [`SAVE_SLACK_MS`].
///
/// Without a record the position is R + B, past all IDs of an ended run. But if a state folder is deleted and created
/// again under a running server, that server detects it only at its next save. Until then it may give IDs up to its
/// last watermark: R + B + 200 ms, with the R of that save. After this pause, R + B is past that too. The same holds
/// for a folder that was replaced by another with an older copy of the record in it.
const LOST_RUN_PAUSE: Duration = Duration::from_millis(SAVE_SLACK_MS + 50);

/// Environment variable that skips [`LOST_RUN_PAUSE`]. Tests set it for the servers that they start; a build without
/// [`HAS_TEST_SWITCHES`] does not read it.
const NO_START_PAUSE: &str = "GETID_TEST_NO_START_PAUSE";

/// The task beside the issuer.
pub struct Keeper<C: Clock, S: Claim> {
    issuer: CloseOnDrop<C>,
    claim: AcquiredClaim<S>,
}

/// Error at the end of a keeper.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The last save failed.
    #[error("the last save failed: {0}. The next start continues at the last watermark, as after a crash")]
    LastSave(#[source] SaveError<SavePoint>),
    /// A draw ended in a panic. The state it left is unknown, so no more IDs are given and nothing is stored.
    #[error(
        "a draw of IDs panicked; please report the lines above. No more IDs are given, and the next start continues at \
         the last watermark, as after a crash"
    )]
    Bug,
}

impl<C: Clock, S: Claim<Point = SavePoint>> Keeper<C, S> {
    /// Makes an issuer that begins at the claim's record, and its keeper. The issuer gives no ID before
    /// [`Keeper::first_save`].
    ///
    /// Without a record, or with a copy of one, it takes 250 ms longer: another server that had the state folder before
    /// must not be giving IDs any more.
    pub async fn prepare(
        clock: C,
        identity: Identity,
        limits: Limits,
        claim: AcquiredClaim<S>,
    ) -> (Arc<Issuer<C>>, Self) {
        let is_copy = claim.is_copy && !planted(Fault::NoPauseForACopy);
        // A claim that may come later does not exist yet, and its own rules make such a pause.
        if !S::MAY_START_WITHOUT && (claim.point.is_none() || is_copy) && !skips_pause() {
            tokio::time::sleep(LOST_RUN_PAUSE).await;
        }
        let declarations = Arc::clone(&claim.declarations);
        let issuer = Arc::new(Issuer::with_declarations(clock, identity, limits, claim.point, declarations));
        if S::MAY_START_WITHOUT {
            issuer.stand_by("standby: the claim store has not been read yet");
        }
        let keeper = Keeper { issuer: CloseOnDrop(Arc::clone(&issuer)), claim };
        (issuer, keeper)
    }

    /// Makes the first write, after which IDs are given. Writes nothing while the clock is absurd. May be dropped
    /// before it is done, and is followed by [`Keeper::run`] or [`Keeper::give_up`].
    ///
    /// # Errors
    ///
    /// Returns an error if the first write fails: a server that cannot keep its promise does not start. With a claim
    /// that may come later, nothing is written yet.
    pub async fn first_save(&mut self) -> Result<(), SaveError<SavePoint>> {
        if S::MAY_START_WITHOUT {
            return Ok(());
        }
        let issuer = &self.issuer.0;
        match issuer.due_save() {
            Some(point) => issuer.save(&mut self.claim, point).await,
            None => Ok(()),
        }
    }

    /// Ends a start that failed: stores the position and releases the claim, once a dropped save has ended. So a wrong
    /// clock leaves no trace, although a record was written with it.
    ///
    /// # Errors
    ///
    /// [`KeeperError`] if the last save fails: the record may be that of the first save.
    pub async fn give_up(self) -> Result<(), KeeperError> {
        let Keeper { issuer, claim } = self;
        if planted(Fault::StoppedStartLeavesRecord) {
            return Ok(());
        }
        last_act(&issuer.0, Some(claim)).await
    }

    /// Runs until `stop`, then closes the issuer permanently and stores the exact position, once a running save has
    /// ended. Dropping it closes the issuer, too.
    ///
    /// # Errors
    ///
    /// [`KeeperError`]: the next start continues at the last watermark. After a panic inside a draw it ends without
    /// `stop`.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), KeeperError> {
        let Keeper { issuer: guard, claim } = self;
        let issuer = &*guard.0;
        let mut stop = pin!(stop);
        let mut stopping = false;
        let mut sampler = Sampler::new(issuer.sample_interval_ms());
        let mut retry_at: Option<Instant> = None;
        // Time of the claim's next beat, whether or not there is anything to save.
        let mut beat_at = claim.claim.pace().map(|_| Instant::now());
        let mut began = Instant::now();
        // The claim, or `None` during a save, which returns it.
        let mut idle = Some(claim);
        let mut save: Option<Pin<Box<_>>> = None;
        loop {
            let serve_after =
                if let NextServe::After(wait) = issuer.serve() { Some(Instant::now() + wait) } else { None };
            if issuer.has_panicked() && !stopping {
                issuer.close();
                if !planted(Fault::PoisonedCloseIsStored) {
                    return Err(KeeperError::Bug);
                }
                stopping = true;
            }
            if !stopping
                && retry_at.is_none_or(|at| Instant::now() >= at)
                && let Some(act) = idle.is_some().then(|| next_step(issuer, beat_at)).flatten()
                && let Some(claim) = idle.take()
            {
                began = Instant::now();
                save = Some(Box::pin(perform(issuer, claim, act)));
            }
            if stopping && idle.is_some() {
                break;
            }
            // Always in this order, so that a simulated run is the same each time.
            tokio::select! {
                biased;
                (claim, result) = in_flight(&mut save) => {
                    save = None;
                    let pace = claim.claim.pace();
                    idle = Some(claim);
                    let pauses = !matches!(result, Ok(()) | Err(SaveError::ClaimRetaken { .. }));
                    beat_at = pace.map(|pace| began + pace);
                    retry_at = pauses.then(|| beat_at.unwrap_or_else(|| Instant::now() + SAVE_RETRY));
                }
                () = &mut stop, if !stopping => {
                    stopping = true;
                    issuer.close();
                }
                () = issuer.keeper_needed() => {}
                // Sampling continues during a save to a slow disk.
                _ = sampler.tick.tick() => sampler.sample(issuer),
                () = at(serve_after) => {}
                () = at(beat_at), if idle.is_some() => {}
            }
        }
        last_act(issuer, idle).await
    }
}

/// Returns true if a start skips [`LOST_RUN_PAUSE`]. Constantly `false` in a release.
fn skips_pause() -> bool {
    planted(Fault::NoPause) || (HAS_TEST_SWITCHES && std::env::var_os(NO_START_PAUSE).is_some())
}

/// Closes the issuer permanently, stores the position, and releases the claim.
async fn last_act<C: Clock, S: Claim<Point = SavePoint>>(
    issuer: &Issuer<C>,
    claim: Option<AcquiredClaim<S>>,
) -> Result<(), KeeperError> {
    match (issuer.close(), claim) {
        _ if issuer.has_panicked() && !planted(Fault::PoisonedCloseIsStored) => Err(KeeperError::Bug),
        // Bypasses the mint, which is closed and needs no result of this save.
        (Some(point), Some(mut claim)) => {
            claim.declarations = issuer.declarations();
            claim.release(point).await.map_err(KeeperError::LastSave)
        }
        _ => Ok(()),
    }
}

/// The keeper's next action with the claim.
enum KeeperStep {
    Save(DueSave),
    /// No ID can be given, for this reason: another server may take the claim.
    StepDown(String),
}

fn next_step<C: Clock>(issuer: &Issuer<C>, beat_at: Option<Instant>) -> Option<KeeperStep> {
    let is_due = beat_at.is_some_and(|at| Instant::now() >= at) || (beat_at.is_some() && issuer.is_past_its_hold());
    if !is_due {
        return issuer.due_save().map(KeeperStep::Save);
    }
    let absurd = || issuer.clock_fault().map(KeeperStep::StepDown);
    issuer.due_beat().map(KeeperStep::Save).or_else(absurd)
}

async fn perform<C: Clock, S: Claim<Point = SavePoint>>(
    issuer: &Issuer<C>,
    mut claim: AcquiredClaim<S>,
    act: KeeperStep,
) -> (AcquiredClaim<S>, Result<(), SaveError<SavePoint>>) {
    let result = match act {
        KeeperStep::Save(wanted) => issuer.save(&mut claim, wanted).await,
        KeeperStep::StepDown(why) => {
            issuer.stand_by(&why);
            claim.claim.step_down(&why).await;
            Err(SaveError::Standby { what: why })
        }
    };
    (claim, result)
}

/// Returns the result of the running save; pends forever if there is none.
async fn in_flight<T>(save: &mut Option<Pin<Box<impl Future<Output = T>>>>) -> T {
    match save {
        Some(save) => save.await,
        None => std::future::pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Samples of the clock at an interval, with the log lines about borrowing and refusals.
struct Sampler {
    /// Interval of the samples, ms.
    every_ms: u64,
    tick: Interval,
    /// Time of the last warning about borrowing.
    reported_at: Option<Instant>,
    refusals: Refusals,
}

impl Sampler {
    fn new(every_ms: u64) -> Sampler {
        Sampler { every_ms, tick: interval(every_ms), reported_at: None, refusals: Refusals::default() }
    }

    /// Samples the clock, logs borrowing and refusals, and adopts a changed interval of the issuer.
    fn sample<C: Clock>(&mut self, issuer: &Issuer<C>) {
        issuer.sample();
        report_borrowing(issuer, &mut self.reported_at);
        log_refusals(issuer, &mut self.refusals);
        let every_ms = issuer.sample_interval_ms();
        if every_ms != self.every_ms {
            self.every_ms = every_ms;
            self.tick = interval(every_ms);
            self.tick.reset();
        }
    }
}

fn interval(every_ms: u64) -> Interval {
    let mut tick = tokio::time::interval(Duration::from_millis(every_ms));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick
}

/// Logs a warning, at most once a second, while demand exceeds the layout's capacity.
fn report_borrowing<C: Clock>(issuer: &Issuer<C>, reported: &mut Option<Instant>) {
    let now = Instant::now();
    if reported.is_some_and(|at| now < at + BORROW_REPORT_EVERY) {
        return;
    }
    let warning = issuer.borrowing();
    if let Some(warning) = warning {
        *reported = Some(now);
        tracing::warn!("{warning}");
    }
}

/// Logs when draws begin to be refused, once a minute while they are, and when they are served again.
fn log_refusals<C: Clock>(issuer: &Issuer<C>, refusals: &mut Refusals) {
    let status = issuer.status();
    let now_ms = issuer.now_ns() / 1_000_000;
    // A standby is meant to refuse, and the claim's own log lines name the holder.
    let is_standby = matches!(status.refusing, Some(Refusal::Standby(_)));
    refusals.leave_out_standby(status.refusals, is_standby);
    let Some(news) = refusals.sample(now_ms, status.refusals, status.refusing.is_some() && !is_standby) else { return };
    let why = match &status.refusing {
        Some(refusal) => format!(": {refusal}"),
        // Some draws are refused, though a single ID would not be.
        None => ": requests exceed the layout's capacity".to_owned(),
    };
    match news {
        RefusalNews::Begun => {
            tracing::error!("IDs are refused from now on{why}");
        }
        RefusalNews::Lasting { refused, for_ms } => {
            tracing::error!("IDs have been refused for {} s, {}{why}", for_ms / 1000, counted(refused, "draw"));
        }
        RefusalNews::Over { refused, for_ms } => tracing::warn!(
            "IDs are given again; they were refused for {}.{:03} s, {}",
            for_ms / 1000,
            for_ms % 1000,
            counted(refused, "draw")
        ),
    }
}

/// Closes the issuer when dropped: without its keeper the watermark does not move, and waiting draws would never end.
struct CloseOnDrop<C: Clock>(Arc<Issuer<C>>);

impl<C: Clock> Drop for CloseOnDrop<C> {
    fn drop(&mut self) {
        if !planted(Fault::DroppedKeeperDoesNotClose) {
            self.0.close();
        }
    }
}
