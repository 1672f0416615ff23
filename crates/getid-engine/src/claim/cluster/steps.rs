//! Performs the steps that the claim machine requests, one after the other, and reports their results.

use std::sync::Arc;
use std::time::Duration;

use getid_core::SavePoint;
use getid_core::server::claim::{
    ClaimEvent, ClaimLoss, ClaimRequest, ClaimSnapshot, Clocks, ReadAnswer, RecordWrite, StandbyReason, StoreAction,
    TakeCause, WriteAnswer, WritePurpose,
};
use tokio::time::Instant;

use super::ClusterClaim;
use super::joining::{JoinError, join_error};
use super::texts::{self, WaitState};
use super::usable_claim::UsableClaim;
use crate::claim::fleet::{ClaimHolder, ClaimRecord, FreeClaim, Holding, RecordTooLong};
use crate::claim::{Declarations, Owner, Record, SaveError, Term};
use getid_store::records::{Key, RecordRow, RecordStoreError, WriteResult};
use getid_system::clock::Clock;

/// Most steps of one call: a read, a write, and both again if another server wrote in between.
const STEPS_MAX: u32 = 8;

/// How and when this process got the claim it holds.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
    /// Owner in the records that this tenure writes.
    pub(super) owner: Owner,
    /// Start of the tenure by this machine's clock, in Unix ms.
    pub(super) since_unix_ms: i64,
    /// Reason why the claim could be taken, as a sentence.
    pub(super) cause: String,
    /// Time at which the record that was taken was first seen.
    pub(super) cause_seen: Clocks,
    /// Whether its previous holder was silent. The takeover is then logged as a warning.
    pub(super) was_silent: bool,
    /// Point at which the mint begins; it was found with the claim.
    pub(super) found: Option<SavePoint>,
    /// Point that was last saved in this term.
    pub(super) saved: Option<SavePoint>,
    /// Time at which the last acknowledged save was sent, in any term.
    pub(super) saved_at: Option<Clocks>,
    /// Whether this process held the claim before and no other server has taken it since.
    pub(super) is_resumed: bool,
}

impl<C: Clock> ClusterClaim<C> {
    /// Sets the declarations of the caller.
    pub(super) fn declare(&mut self, declarations: Arc<Declarations>) {
        if !Arc::ptr_eq(&declarations, &self.declarations) {
            self.declarations = declarations;
            // The newest record is compared with the new declarations.
            self.usable_claim = self.usable_claim.take().filter(|_| self.machine.is_holder());
        }
        if self.pinned.is_empty() {
            // The declarations of a start were compared as a whole.
            self.pinned = Arc::clone(&self.declarations);
        }
    }

    /// Reads the record once, and checks it as a start does.
    pub(super) async fn check_claim(&mut self) -> Result<(), JoinError> {
        let identity = self.identity();
        let server_id = identity.server_id;
        let store = self.link.shown().to_owned();
        let row = self.link.read(&Key::of_claim(server_id)).await.map_err(|error| match error {
            RecordStoreError::Damaged(bad) => JoinError::Refused(texts::bad_row(&bad, server_id, &store)),
            error => join_error(&self.link, &error),
        })?;
        let Some(row) = row else {
            let noted = self.notes.of(server_id).beat;
            let waiting = if noted > 0 { StandbyReason::WentBack { noted, found: 0 } } else { StandbyReason::Missing };
            return Err(JoinError::Refused(match texts::waiting(waiting, None, server_id, &store) {
                WaitState::Standby(why) | WaitState::NotEligible(why) | WaitState::NeedsOperator(why) => why,
            }));
        };
        let usable_claim =
            UsableClaim::of_row(&row, identity, &store).map_err(|error| JoinError::Refused(error.to_string()))?;
        if let Some(mark) = &usable_claim.claim.mark {
            let marked = texts::marked(mark, server_id, &store);
            return Err(JoinError::Refused(format!("cannot use the record claim/{server_id} of {store}: {marked}")));
        }
        let mut mine = Declarations::default();
        for generator in &self.config.generators {
            // The configuration has no more generators than a record can hold.
            let _ = mine.push(Arc::clone(generator));
        }
        let declared = usable_claim.declared(&mine, identity);
        declared.map_err(|conflict| {
            JoinError::Refused(format!("claim store {store}: server-id {server_id}: {conflict}"))
        })?;
        Ok(())
    }

    /// Performs the steps that the machine requests for `ask`, until it is settled. Ends in bounded time.
    pub(super) async fn perform(&mut self, ask: ClaimRequest) -> Result<(), SaveError> {
        let end = Instant::now() + Duration::from_millis((self.config.timeout_ms / 2).max(500));
        self.problem = None;
        for step in 0..STEPS_MAX {
            if step > 0 && Instant::now() >= end {
                break;
            }
            let event = match self.next_action(ask) {
                StoreAction::Nothing => return self.nothing_to_do(ask),
                StoreAction::Read => self.read_record().await,
                StoreAction::Write(write) => self.write_record(&write).await,
            };
            if let Some(result) = self.conclude(event, ask) {
                return result;
            }
        }
        Err(self.store_away_error(format!("claim store {}: other servers keep writing the record", self.link.shown())))
    }

    /// Returns the next step of the machine. A server that must not take the claim only reads.
    fn next_action(&mut self, ask: ClaimRequest) -> StoreAction {
        if self.takeover_obstacle().is_none() {
            return self.machine.next_action(ask);
        }
        // Cancels the machine's permission to take the claim.
        let _ = self.machine.next_action(ClaimRequest::Release { point: SavePoint::NOTHING, term: 0 });
        self.machine.next_action(ClaimRequest::Watch)
    }

    /// Returns the reason why this server must not take the claim.
    pub(super) fn takeover_obstacle(&self) -> Option<&String> {
        self.obstacle.as_ref().or(self.conflict.as_ref()).filter(|_| !self.machine.is_holder())
    }

    fn nothing_to_do(&mut self, ask: ClaimRequest) -> Result<(), SaveError> {
        match ask {
            ClaimRequest::Release { .. } | ClaimRequest::Watch => Ok(()),
            ClaimRequest::Save { term, .. } if self.machine.is_holder() && term != self.machine.term() => {
                Err(self.retaken_error())
            }
            ClaimRequest::Save { .. } => {
                let what = format!("the record in {} has reached the maximum of its beat", self.link.shown());
                Err(SaveError::ClaimLost { what })
            }
        }
    }

    async fn read_record(&mut self) -> ClaimEvent {
        let key = Key::of_claim(self.identity().server_id);
        let sent = self.config.clock.clocks();
        let answer = self.link.read(&key).await;
        let now = self.config.clock.clocks();
        let read = match answer {
            Ok(Some(row)) => self.observe_row(&row, now).map_or(ReadAnswer::Failed, ReadAnswer::Record),
            Ok(None) => {
                self.usable_claim = None;
                ReadAnswer::Missing
            }
            Err(error) => {
                self.problem = self.problem_of(&error);
                ReadAnswer::Failed
            }
        };
        self.machine.read(sent, now, read)
    }

    async fn write_record(&mut self, write: &RecordWrite) -> ClaimEvent {
        let key = Key::of_claim(self.identity().server_id);
        let sent = self.config.clock.clocks();
        let answer = match self.row_of(write, sent) {
            Ok(row) => self.link.write(&key, write.expect, &row).await,
            Err(error) => {
                self.problem = Some(error.to_string());
                return self.machine.wrote(sent, sent, WriteAnswer::NotDone);
            }
        };
        let now = self.config.clock.clocks();
        let wrote = match answer {
            Ok(WriteResult::Done) => WriteAnswer::Done,
            Ok(WriteResult::Conflict(Some(row))) => {
                self.observe_row(&row, now).map_or(WriteAnswer::Unknown, |seen| WriteAnswer::Conflict(Some(seen)))
            }
            Ok(WriteResult::Conflict(None)) => WriteAnswer::Conflict(None),
            Err(RecordStoreError::Unknown(_)) => WriteAnswer::Unknown,
            Err(error) => {
                self.problem = self.problem_of(&error);
                WriteAnswer::NotDone
            }
        };
        self.machine.wrote(sent, now, wrote)
    }

    /// Returns why the row under the claim's key cannot be used, if the error is about that row.
    fn problem_of(&self, error: &RecordStoreError) -> Option<String> {
        let RecordStoreError::Damaged(bad) = error else { return None };
        Some(texts::bad_row(bad, self.identity().server_id, self.link.shown()))
    }

    /// Converts a row for the machine. Returns `None` and sets `problem` if the row cannot be used.
    fn observe_row(&mut self, row: &RecordRow, now: Clocks) -> Option<ClaimSnapshot> {
        let identity = self.identity();
        if self.usable_claim.as_ref().is_none_or(|known| known.stamp != row.stamp) {
            match UsableClaim::of_row(row, identity, self.link.shown()) {
                Ok(usable_claim) => {
                    self.notes.note(identity.server_id, usable_claim.stamp.beat, usable_claim.point.watermark);
                    self.conflict =
                        usable_claim.declared(&self.declarations, identity).err().map(|error| error.to_string());
                    self.usable_claim = Some(usable_claim);
                    self.seen_since = Some(now);
                }
                Err(error) => {
                    self.problem = Some(error.to_string());
                    return None;
                }
            }
        }
        let usable_claim = self.usable_claim.as_ref()?;
        let holder = usable_claim.claim.holder();
        let is_this_folder = holder.is_some_and(|holder| self.dir.is_named(&holder.folder, &holder.boot_id));
        Some(usable_claim.seen(is_this_folder))
    }

    /// Returns the newest usable record of the claim that was read.
    pub(super) fn known_claim(&self) -> Option<&ClaimRecord> {
        self.usable_claim.as_ref().map(|usable_claim| &usable_claim.claim)
    }

    /// Builds the row of a write that begins at `now`.
    fn row_of(&mut self, write: &RecordWrite, now: Clocks) -> Result<RecordRow, RecordTooLong> {
        let identity = self.identity();
        let claim = match write.act {
            WritePurpose::Take(cause) => {
                let found = self.usable_claim.as_ref().filter(|found| Some(found.stamp) == write.expect);
                let new = || ClaimRecord::new(identity, write.timeout_ms, now.wall_ms);
                let mut claim = found.map_or_else(new, |found| found.claim.clone());
                let nonce = u64::try_from(self.me & u128::from(u64::MAX)).unwrap_or(1).max(1);
                let owner = Owner { term: claim.record.owner.term.next(), nonce };
                self.taking = Some(Tenure {
                    owner,
                    since_unix_ms: now.wall_ms,
                    cause: texts::cause(cause, found.map(|found| &found.claim)),
                    cause_seen: self.seen_since.unwrap_or(now),
                    was_silent: matches!(cause, TakeCause::Silent(_)),
                    found: None,
                    saved: None,
                    saved_at: None,
                    is_resumed: false,
                });
                claim.record.owner = owner;
                claim.holding = Holding::Held(self.holder(now.wall_ms));
                claim
            }
            WritePurpose::Save | WritePurpose::Release => {
                let owner = self.tenure.as_ref().map_or_else(Owner::default, |tenure| tenure.owner);
                let since_unix_ms = self.tenure.as_ref().map_or(now.wall_ms, |tenure| tenure.since_unix_ms);
                let declarations = Arc::clone(&self.declarations);
                let record = Record { identity, point: write.point, declarations, owner };
                let holding = if write.act == WritePurpose::Save {
                    Holding::Held(self.holder(since_unix_ms))
                } else {
                    let by = ClaimHolder { name: self.config.name.clone(), ..ClaimHolder::default() }.cut().name;
                    Holding::Free(FreeClaim { why: self.release_reason, by, since_unix_ms: now.wall_ms })
                };
                ClaimRecord { record, beat: 0, timeout_ms: 0, holding, mark: None }
            }
        };
        let claim = ClaimRecord { beat: write.new.beat, timeout_ms: write.timeout_ms, ..claim };
        claim.to_row(write.new.writer)
    }

    fn holder(&self, since_unix_ms: i64) -> ClaimHolder {
        ClaimHolder {
            instance: self.me,
            name: self.config.name.clone(),
            host: self.config.host.clone(),
            address: self.config.address.clone(),
            since_unix_ms,
            boot_id: self.dir.boot_id.clone(),
            folder: self.dir.token.clone(),
        }
        .cut()
    }

    /// Converts an event into the result of the call. Returns `None` if another step is needed.
    fn conclude(&mut self, event: ClaimEvent, ask: ClaimRequest) -> Option<Result<(), SaveError>> {
        let server_id = self.identity().server_id;
        match event {
            ClaimEvent::Again => {
                let must_not = self.takeover_obstacle().cloned();
                must_not.map(|why| Err(self.not_eligible_error(why)))
            }
            ClaimEvent::WritesItselfIn { noted, found } => {
                tracing::error!(
                    "claim store {} went back: it has beat {found} of server-id {server_id}, and had beat {noted}. No \
                     other server can have had the claim since, so this server writes its record again and continues",
                    self.link.shown()
                );
                None
            }
            ClaimEvent::Saved { point, hold } => {
                self.record_saved(point, hold.sent);
                // An earlier write may be confirmed here, whose point is not the requested one.
                matches!(ask, ClaimRequest::Save { point: requested, .. } if requested == point).then_some(Ok(()))
            }
            ClaimEvent::Taken { found, cause } => Some(self.begin_tenure(found, cause)),
            ClaimEvent::Released => {
                self.log_release();
                self.tenure = None;
                let stood_down =
                    SaveError::Standby { what: format!("standby for server-id {server_id}: it was given up") };
                Some(if matches!(ask, ClaimRequest::Release { .. }) { Ok(()) } else { Err(stood_down) })
            }
            ClaimEvent::Standby(_) if matches!(ask, ClaimRequest::Release { .. }) => Some(Ok(())),
            ClaimEvent::Standby(waiting) => Some(Err(self.wait_error(waiting))),
            ClaimEvent::Lost(loss) => Some(self.end_tenure(loss)).map(|error| match ask {
                ClaimRequest::Release { .. } => Ok(()),
                ClaimRequest::Save { .. } | ClaimRequest::Watch => Err(error),
            }),
            ClaimEvent::Away => Some(Err(match self.problem.clone() {
                Some(what) => SaveError::ClaimLost { what },
                None => self.store_away_error(self.link.error.clone()),
            })),
        }
    }

    fn record_saved(&mut self, point: SavePoint, sent: Clocks) {
        let server_id = self.identity().server_id;
        self.notes.note(server_id, self.machine.noted_beat(), point.watermark);
        self.publisher.beats += 1;
        let now = self.config.clock.clocks();
        self.publisher.last_beat_us = now.boot_ns.saturating_sub(sent.boot_ns) / 1000;
        let Some(tenure) = &mut self.tenure else { return };
        tenure.saved_at = Some(sent);
        let is_first = tenure.saved.replace(point).is_none();
        if is_first && !tenure.is_resumed {
            self.log_takeover(now);
        }
    }

    /// Starts a tenure after the claim was taken. Returns `ClaimRetaken` with the point at which the mint begins.
    fn begin_tenure(&mut self, found: Option<SavePoint>, cause: TakeCause) -> Result<(), SaveError> {
        let identity = self.identity();
        let now = self.config.clock.clocks();
        if cause == TakeCause::Resumed {
            // The mint already knows the point that it saved last.
            if let Some(tenure) = &mut self.tenure {
                (tenure.found, tenure.saved, tenure.is_resumed) = (found, None, true);
            }
            return Err(self.retaken_error());
        }
        let late = || {
            let claim = &self.usable_claim.as_ref()?.claim;
            let since_unix_ms = claim.holder()?.since_unix_ms;
            let cause_seen = self.seen_since.unwrap_or(now);
            let (owner, cause) = (claim.record.owner, texts::cause(cause, None));
            Some(Tenure {
                owner,
                since_unix_ms,
                cause,
                cause_seen,
                was_silent: false,
                found: None,
                saved: None,
                saved_at: None,
                is_resumed: false,
            })
        };
        // A late write is the one that was in progress.
        self.tenure = self.taking.take().or_else(late);
        let noted = self.notes.of(identity.server_id).watermark;
        if let Some(tenure) = &mut self.tenure {
            let found = found.filter(|point| !point.is_nothing());
            tenure.found = found.map(|point| SavePoint { watermark: point.watermark.max(noted), ..point });
        }
        if self.config.server_id.is_none()
            && let Some(hooks) = self.config.hooks.get()
            && let Err(error) = (hooks.set_server_id)(identity.server_id)
        {
            (hooks.end_server)(format!("this server cannot use server-id {}: {error}", identity.server_id));
            return Err(SaveError::ClaimLost { what: error.to_string() });
        }
        self.chooser.settle();
        Err(self.retaken_error())
    }

    /// Returns the error that makes the caller begin again at the point found with the claim.
    pub(super) fn retaken_error(&self) -> SaveError {
        let identity = self.identity();
        let declared =
            self.usable_claim.as_ref().map(|usable_claim| usable_claim.declared(&self.declarations, identity));
        // A conflict is detected before the claim is taken.
        let declarations = declared.and_then(Result::ok).unwrap_or_else(|| Arc::clone(&self.declarations));
        let found = self.tenure.as_ref().and_then(|tenure| tenure.found);
        let (term, is_watched) = (Term(self.machine.term()), self.machine.is_watched());
        SaveError::ClaimRetaken { found, declarations, term, is_watched }
    }

    fn end_tenure(&mut self, loss: ClaimLoss) -> SaveError {
        let server_id = self.identity().server_id;
        self.log_loss(loss);
        self.tenure = None;
        let text = texts::loss(loss, self.known_claim(), server_id, self.link.shown());
        match loss {
            ClaimLoss::TakenBy(_) | ClaimLoss::ReleasedBy(_) => {
                self.chooser.lost_at = Some(Instant::now());
                SaveError::Standby { what: format!("standby for server-id {server_id}: {text}") }
            }
            ClaimLoss::Moved | ClaimLoss::Gone | ClaimLoss::WentBack { .. } => SaveError::ClaimLost { what: text },
        }
    }

    /// Returns the error of a server that waits for the claim. A free claim that this server must not take is reported
    /// as not eligible.
    fn wait_error(&mut self, waiting: StandbyReason) -> SaveError {
        let server_id = self.identity().server_id;
        self.warn_of_name(waiting);
        self.end_if_permanently_lost(waiting);
        match texts::waiting(waiting, self.known_claim(), server_id, self.link.shown()) {
            WaitState::Standby(why) => SaveError::Standby { what: format!("standby for server-id {server_id}: {why}") },
            WaitState::NotEligible(why) => self.not_eligible_error(why),
            WaitState::NeedsOperator(what) => SaveError::ClaimLost { what },
        }
    }

    /// Returns the error of a step that found a reason not to take the claim, and keeps the reason.
    pub(super) fn not_eligible_error(&mut self, why: String) -> SaveError {
        let what = format!("standby{}: not eligible: {why}", self.for_server_id());
        self.publisher.refused_for = Some(why);
        SaveError::Standby { what }
    }

    /// Returns the reason why this server would not take the claim if it were free. `None` if it would take it, or
    /// already holds it.
    pub(super) fn ineligible_reason(&self, now: Clocks) -> Option<String> {
        let apart = || self.machine.apart_by_ms(now).map(texts::apart);
        self.takeover_obstacle().cloned().or_else(apart)
    }

    /// Logs a warning if a live holder has the same instance-name as this server.
    fn warn_of_name(&mut self, waiting: StandbyReason) {
        let StandbyReason::Held { by, .. } = waiting else { return };
        let holder = self.usable_claim.as_ref().and_then(|usable_claim| usable_claim.claim.holder());
        let Some(holder) = holder.filter(|holder| holder.name == self.config.name) else { return };
        let beats = self.machine.watch().is_some_and(getid_core::server::claim::Watch::is_fresh);
        if beats && self.publisher.warned_of_name.replace(by) != Some(by) {
            tracing::warn!(
                "a live server has the instance-name of this one: {} has server-id {}; give each its own instance-name",
                texts::holder_text(holder),
                self.identity().server_id
            );
        }
    }
}
