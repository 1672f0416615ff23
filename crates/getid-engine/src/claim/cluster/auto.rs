//! `server-id auto`: selects the claim that a server without a server-id takes. The rule is [`choose`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use getid_core::server::claim::{Candidate, Claimant, Clocks, IdChoice, StandbyReason, Watch, choose, own_name_in_use};
use tokio::time::Instant;

use super::joining::join_error;
use super::usable_claim::UsableClaim;
use super::{ClusterClaim, JoinError, options};
use crate::claim::fleet::{Holding, IdRanges};
use crate::claim::{Identity, SaveError};
use getid_store::records::{CLAIMS, DamagedRow, Key, LIST_MAX, RecordRow};
use getid_system::clock::Clock;

/// Most server-ids without a record that are candidates at a time. More servers than this do not start at once.
const NEW_MAX: usize = 64;

/// Time before a lost server-id counts as permanently lost, in time-outs. [`LOST_FOR_MIN`] is its minimum.
const LOST_FOR_TIMEOUTS: u64 = 3;
/// Time for which a server-id that cannot be taken is excluded.
const EXCLUDED_FOR: Duration = Duration::from_secs(30);
const LOST_FOR_MIN: Duration = Duration::from_secs(5);

/// The claims that a server may take, and the state of its choice.
#[derive(Debug)]
pub(super) struct Chooser {
    /// Offset at which this server starts among the new server-ids; random, so servers choose different ones.
    spread: u64,
    known: BTreeMap<u32, KnownClaim>,
    /// Server-ids that this server does not take for a while: the start of the exclusion and its reason.
    excluded: BTreeMap<u32, (Instant, String)>,
    /// Server-ids whose rows are not valid records.
    bad: BTreeSet<u32>,
    warned_of: Option<u32>,
    /// Whether this process has held the claim of its server-id. It then keeps that server-id for its life.
    pub(super) is_settled: bool,
    /// Time at which another server was first seen to hold this server's claim.
    pub(super) lost_at: Option<Instant>,
}

/// A claim from the list of the store.
#[derive(Debug)]
struct KnownClaim {
    usable_claim: UsableClaim,
    watch: Watch,
    is_own_name: bool,
}

impl Chooser {
    pub(super) fn new(me: u128) -> Chooser {
        Chooser {
            spread: u64::try_from(me >> 64).unwrap_or(0),
            known: BTreeMap::new(),
            excluded: BTreeMap::new(),
            bad: BTreeSet::new(),
            warned_of: None,
            is_settled: false,
            lost_at: None,
        }
    }

    pub(super) fn settle(&mut self) {
        self.is_settled = true;
        self.known.clear();
        self.lost_at = None;
    }

    /// Returns the candidates among `ids`: those with records, and up to [`NEW_MAX`] without.
    fn candidates(&self, ids: &IdRanges) -> Vec<Candidate> {
        let recorded = self.known.iter().map(|(&server_id, known)| Candidate {
            server_id,
            watch: Some(known.watch),
            is_own_name: known.is_own_name,
        });
        let is_excluded = |id: &u32| self.excluded.get(id).is_some_and(|(since, _)| since.elapsed() < EXCLUDED_FOR);
        let is_new = |id: &u32| !self.known.contains_key(id) && !is_excluded(id) && !self.bad.contains(id);
        let count = ids.iter().filter(is_new).count();
        let first = usize::try_from(self.spread % u64::try_from(count.max(1)).unwrap_or(1)).unwrap_or(0);
        let new = ids.iter().filter(is_new).skip(first).chain(ids.iter().filter(is_new).take(first)).take(NEW_MAX);
        let new = new.map(|server_id| Candidate { server_id, watch: None, is_own_name: false });
        recorded.filter(|known| !is_excluded(&known.server_id)).chain(new).collect()
    }

    fn exclude(&mut self, server_id: u32, why: String) {
        if self.excluded.get(&server_id).is_none_or(|(_, logged)| *logged != why) {
            tracing::warn!("server-id {server_id} is not taken: {why}");
        }
        self.known.remove(&server_id);
        self.excluded.insert(server_id, (Instant::now(), why));
    }
}

impl<C: Clock> ClusterClaim<C> {
    /// Reads all claims, and chooses one to take.
    ///
    /// # Errors
    ///
    /// Fails if this server can take none of them now.
    pub(super) async fn choose(&mut self) -> Result<(), SaveError> {
        let ids = match &self.joined {
            Some(joined) => joined.record.auto.clone(),
            None => return Err(self.store_away_error("it has not been read yet".to_owned())),
        };
        self.list(&ids).await.map_err(|error| match error {
            JoinError::Refused(why) | JoinError::Away(why) => self.store_away_error(why),
        })?;
        if let Some(why) = self.obstacle.clone() {
            return Err(self.not_eligible_error(why));
        }
        loop {
            let candidates = self.chooser.candidates(&ids);
            self.warn_of_own_name(&candidates);
            let server_id = match choose(&candidates, self.chooser.spread) {
                IdChoice::Take(server_id) => server_id,
                IdChoice::Look => return Err(no_server_id_error("its own record is being read")),
                IdChoice::Wait if ids.is_empty() => {
                    return Err(no_server_id_error(
                        "the cluster record lists no server-ids for auto; add some with getid cluster init --auto",
                    ));
                }
                IdChoice::Wait => {
                    // A claim may be free and excluded because this server is not eligible.
                    if let Some(why) = self.ineligible_reason(self.config.clock.clocks()) {
                        return Err(self.not_eligible_error(why));
                    }
                    let of = format!(
                        "all {} server-ids of auto are held; this server takes the first that is released",
                        ids.iter().count()
                    );
                    return Err(no_server_id_error(&of));
                }
            };
            let Some(why) = self.dir.unmoved_record(server_id, self.link.shown()) else {
                self.select_claim(server_id);
                return Ok(());
            };
            self.chooser.exclude(server_id, why);
        }
    }

    fn select_claim(&mut self, server_id: u32) {
        let known = self.chooser.known.get(&server_id);
        let watch = known.map(|known| known.watch);
        self.usable_claim = known.map(|known| known.usable_claim.clone());
        self.seen_since = Some(self.config.clock.clocks());
        self.server_id = Some(server_id);
        let noted = self.notes.of(server_id).beat;
        self.machine = Claimant::new(self.me, options(&self.config, watch.is_none()), noted, watch);
    }

    /// Drops the chosen claim after a save that showed that another server got it or that it cannot be taken.
    pub(super) fn choose_again(&mut self, result: &Result<(), SaveError>) {
        let is_auto = self.config.server_id.is_none() && !self.chooser.is_settled;
        if !is_auto || self.machine.is_holder() {
            return;
        }
        let Some(server_id) = self.server_id else { return };
        match (result, self.machine.waiting()) {
            // The result of a write is unknown: it is settled first.
            (_, None) => return,
            (
                Err(_),
                Some(
                    StandbyReason::WentBack { .. }
                    | StandbyReason::Moved
                    | StandbyReason::BeatsUsedUp
                    | StandbyReason::Apart { .. },
                ),
            ) => {
                let why = result.as_ref().err().map_or_else(String::new, ToString::to_string);
                self.chooser.exclude(server_id, why);
            }
            (Err(SaveError::ClaimLost { what }), _) => self.chooser.exclude(server_id, what.clone()),
            (Err(SaveError::Standby { .. }), Some(StandbyReason::Held { .. } | StandbyReason::SteppedAside)) => {}
            _ => return,
        }
        self.server_id = None;
        self.usable_claim = None;
    }

    /// Reads the records of all claims that `server-id auto` may take.
    async fn list(&mut self, ids: &IdRanges) -> Result<(), JoinError> {
        let mut found = BTreeMap::new();
        let mut bad = Vec::new();
        let mut after = String::new();
        loop {
            let sent = self.config.clock.clocks();
            let rows = match self.link.list(CLAIMS, &after, LIST_MAX).await {
                Ok(listed) => {
                    bad.extend(listed.bad);
                    listed.rows
                }
                Err(error) => {
                    self.chooser.known.values_mut().for_each(|known| known.watch.failed(sent));
                    return Err(join_error(&self.link, &error));
                }
            };
            let now = self.config.clock.clocks();
            for (key, row) in &rows {
                if let Some(server_id) = key.server_id().filter(|&id| ids.contains(id))
                    && let Some(known) = self.observe_listed(server_id, row, (sent, now))
                {
                    found.insert(server_id, known);
                }
            }
            match rows.last() {
                Some((key, _)) if rows.len() >= LIST_MAX => Key::as_str(key).clone_into(&mut after),
                _ => break,
            }
        }
        self.chooser.known = found;
        // The positions of these server-ids' IDs are unknown.
        self.chooser.bad = bad.iter().filter_map(DamagedRow::server_id).collect();
        self.link.log_skipped(bad);
        Ok(())
    }

    fn observe_listed(&mut self, server_id: u32, row: &RecordRow, (sent, now): (Clocks, Clocks)) -> Option<KnownClaim> {
        let before = self.chooser.known.remove(&server_id);
        let identity = Identity { server_id, layout: self.config.layout };
        let (usable_claim, mut watch) = match before {
            Some(known) if known.usable_claim.stamp == row.stamp => (known.usable_claim, Some(known.watch)),
            before => match UsableClaim::of_row(row, identity, self.link.shown()) {
                Ok(usable_claim) => (usable_claim, before.map(|known| known.watch)),
                Err(error) => {
                    self.chooser.exclude(server_id, error.to_string());
                    return None;
                }
            },
        };
        if let Err(conflict) = usable_claim.declared(&self.declarations, identity) {
            self.chooser.exclude(server_id, conflict.to_string());
            return None;
        }
        self.notes.note(server_id, usable_claim.stamp.beat, usable_claim.point.watermark);
        let (name, folder, boot_id) = match &usable_claim.claim.holding {
            Holding::Held(holder) => (&holder.name, holder.folder.as_str(), holder.boot_id.as_str()),
            Holding::Free(freed) => (&freed.by, "", ""),
        };
        let is_own_name = *name == self.config.name;
        let seen = usable_claim.seen(self.dir.is_named(folder, boot_id));
        match &mut watch {
            Some(watch) => watch.saw(sent, now, seen),
            None => watch = Some(Watch::new(now, seen)),
        }
        Some(KnownClaim { watch: watch?, usable_claim, is_own_name })
    }

    fn warn_of_own_name(&mut self, candidates: &[Candidate]) {
        let Some(server_id) = own_name_in_use(candidates) else { return };
        if self.chooser.warned_of.replace(server_id) != Some(server_id) {
            tracing::warn!(
                "a live server has the instance-name of this one, '{}', and server-id {server_id}; give each its own \
                 instance-name. This one takes another server-id",
                getid_text::printable::printable(&self.config.name)
            );
        }
    }

    /// Ends a server with `server-id auto` whose server-id another server has held for long enough. Its supervisor
    /// starts it again, and the new process takes another server-id.
    pub(super) fn end_if_permanently_lost(&mut self, waiting: StandbyReason) {
        let Some(lost_at) = self.chooser.lost_at.filter(|_| self.config.server_id.is_none()) else { return };
        let StandbyReason::Held { silent_ns, timeout_ms, .. } = waiting else { return };
        let timeout = Duration::from_millis(timeout_ms);
        let for_good = (timeout * u32::try_from(LOST_FOR_TIMEOUTS).unwrap_or(1)).max(LOST_FOR_MIN);
        if Duration::from_nanos(silent_ns) < timeout
            && lost_at.elapsed() >= for_good
            && let Some(hooks) = self.config.hooks.get()
        {
            let server_id = self.identity().server_id;
            (hooks.end_server)(format!(
                "another server has taken server-id {server_id} (server-id auto) over permanently; a restart takes \
                 another one"
            ));
            self.chooser.lost_at = None;
        }
    }
}
fn no_server_id_error(why: &str) -> SaveError {
    SaveError::Standby { what: format!("standby without a server-id: {why}") }
}
