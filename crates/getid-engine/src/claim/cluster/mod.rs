//! The claim in a store that servers share: [`ClusterClaim`], which performs the steps of the
//! [machine](getid_core::server::claim).
//!
//! A save is one step: the machine requests a read or a write, the store answers, and the machine evaluates the answer.
//! A server without the claim is a standby, whose saves check whether the claim is free. After a takeover the caller
//! gets [`SaveError::ClaimRetaken`] and begins again at the values found, as at a start. Nothing is synced, and this
//! machine keeps only notes of the beats it has seen.
//!
//! Invariants: `Ok` is returned only for a point that the store holds under a stamp of this process. `ClaimRetaken` is
//! returned until the caller saves in the new term.

mod auto;
mod dir;
mod joining;
mod link;
mod notes;
mod status;
mod steps;
mod texts;
mod usable_claim;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use getid_core::server::CounterDeclaration;
use getid_core::server::claim::{ClaimOptions, ClaimRequest, Claimant, Clocks, Hold};
use getid_core::{Declaration, Layout, SavePoint};
use tokio::time::Instant;

use self::auto::Chooser;
use self::dir::FleetDir;
use self::joining::{FleetRecord, JoinError, JoinRequest};
use self::link::StoreLink;
pub use self::link::deadline;
use self::notes::ClaimNotes;
use self::status::StatusPublisher;
use self::usable_claim::UsableClaim;
use crate::claim::fleet::ReleaseReason;
use crate::claim::status::ClaimView;
use crate::claim::{AcquiredClaim, Claim, Declarations, Identity, SaveError, TakeError, Term};
use getid_store::records::RecordStore;
use getid_system::clock::Clock;

/// Time for which a start waits for a store that does not answer. The server then starts as a standby.
pub const FIRST_TRY: Duration = Duration::from_secs(3);

/// Pause between the tries of a start.
const FIRST_TRY_PAUSE: Duration = Duration::from_millis(250);

/// Interval at which a standby compares itself with the cluster record.
const JOIN_AGAIN: Duration = Duration::from_secs(5);

/// Interval at which a server without a server-id looks for one.
const CHOOSE_EVERY: Duration = Duration::from_millis(500);

/// The claim store of a server, and the identity and settings of the server.
pub struct FleetClaimConfig<C> {
    /// The claim store. Its calls are expected to end within [`deadline`].
    pub store: Arc<dyn RecordStore>,
    /// Address of the store as configured, without a password; for errors and their remedies.
    pub shown: String,
    /// The machine's clocks.
    pub clock: C,
    /// The directive `dir`.
    pub dir: PathBuf,
    /// Layout of the unnamed generator: epoch and bit widths.
    pub layout: Layout,
    /// The directive `server-id`; `None` is `auto`.
    pub server_id: Option<u32>,
    /// The directive `instance-name`, or the host's name.
    pub name: String,
    /// Name of the host.
    pub host: String,
    /// Address at which clients reach this server; empty if unknown.
    pub address: String,
    /// The directive `claim-timeout-ms`.
    pub timeout_ms: u64,
    /// Whether `claim-takeover` is `any`.
    pub takes_any: bool,
    /// The directive `claim-max-clock-ahead-ms`.
    pub max_clock_ahead_ms: u64,
    /// The directive `id-max-clock-jump-ms`.
    pub max_clock_jump_ms: u64,
    /// Named generators of the configuration.
    pub generators: Vec<Arc<Declaration>>,
    /// Generators over sequences of the configuration.
    pub counters: Vec<Arc<CounterDeclaration>>,
    /// Receives the status of the claim after each step.
    pub view: Arc<ClaimView>,
    /// Actions of the claim on the server; set once the server exists.
    pub hooks: Arc<OnceLock<Hooks>>,
    /// Longest wait of a start for the store: [`FIRST_TRY`], or less in tests.
    pub first_try: Duration,
}

/// Reason why a server cannot use the server-id that its claim has chosen.
pub type ServerIdError = Box<dyn std::error::Error + Send + Sync>;

/// Actions of a claim on its server.
pub struct Hooks {
    /// Sets the server-id (`server-id auto`) before the first ID is given. Returns why the server cannot use it.
    pub set_server_id: Box<dyn Fn(u32) -> Result<(), ServerIdError> + Send + Sync>,
    /// Ends the server for the given reason, such as a lost server-id: only a new start gets another one.
    pub end_server: Box<dyn Fn(String) + Send + Sync>,
}

/// The claim of one server in a cluster store, held or waited for.
pub struct ClusterClaim<C> {
    config: FleetClaimConfig<C>,
    me: u128,
    link: StoreLink,
    dir: FleetDir,
    notes: ClaimNotes,
    /// Server-id of the claim; `None` if none is chosen yet (`server-id auto`).
    server_id: Option<u32>,
    machine: Claimant,
    /// Newest usable record of the claim that was read.
    usable_claim: Option<UsableClaim>,
    /// Time at which the stamp of the newest record was first seen.
    seen_since: Option<Clocks>,
    /// Reason why the newest record cannot be used.
    problem: Option<String>,
    /// Reason why this server must not take the claim.
    obstacle: Option<String>,
    /// Conflict between this server's generators and those of the newest record.
    conflict: Option<String>,
    /// Whether all checks of a start have passed.
    is_checked: bool,
    /// The fleet's record as of this server's last comparison.
    joined: Option<FleetRecord>,
    joined_at: Option<Instant>,
    /// Declarations of the caller.
    declarations: Arc<Declarations>,
    /// Declarations of the caller that the fleet's record is known to contain.
    pinned: Arc<Declarations>,
    /// How this process got the claim it holds; `None` for a standby.
    tenure: Option<steps::Tenure>,
    /// Tenure that begins if a write in progress takes the claim.
    taking: Option<steps::Tenure>,
    /// Reason that a release writes to the record.
    release_reason: ReleaseReason,
    chooser: Chooser,
    publisher: StatusPublisher,
}

impl<C: Clock> ClusterClaim<C> {
    fn new(config: FleetClaimConfig<C>, dir: FleetDir) -> ClusterClaim<C> {
        let me = loop {
            // 0 is reserved: no server has it.
            let random = rand::random::<u128>();
            if random != 0 {
                break random;
            }
        };
        let link = StoreLink::new(Arc::clone(&config.store), config.shown.clone(), config.timeout_ms);
        let notes = ClaimNotes::open(&dir.path, link.shown());
        let server_id = config.server_id;
        let noted = server_id.map_or(0, |id| notes.of(id).beat);
        let machine = Claimant::new(me, options(&config, false), noted, None);
        ClusterClaim {
            me,
            link,
            dir,
            notes,
            server_id,
            machine,
            usable_claim: None,
            seen_since: None,
            problem: None,
            obstacle: None,
            conflict: None,
            is_checked: false,
            joined: None,
            joined_at: None,
            declarations: Arc::default(),
            pinned: Arc::default(),
            tenure: None,
            taking: None,
            release_reason: ReleaseReason::Stopped,
            chooser: Chooser::new(me),
            publisher: StatusPublisher::default(),
            config,
        }
    }

    /// Replaces the connection by another one to the same store.
    pub fn use_store(&mut self, store: Arc<dyn RecordStore>) {
        self.link.replace(store);
    }

    fn identity(&self) -> Identity {
        Identity { server_id: self.server_id.unwrap_or(0), layout: self.config.layout }
    }

    /// Does the checks of a start: compares this server with the fleet and reads its claim.
    async fn check_at_start(&mut self) -> Result<(), JoinError> {
        self.join().await?;
        self.check_by_hand().await?;
        if let Some(server_id) = self.config.server_id {
            if let Some(unmoved) = self.dir.unmoved_record(server_id, self.link.shown()) {
                return Err(JoinError::Refused(unmoved));
            }
            self.check_claim().await?;
        }
        self.is_checked = true;
        Ok(())
    }

    async fn check_by_hand(&mut self) -> Result<(), JoinError> {
        let joining = JoinRequest {
            layout: self.config.layout,
            generators: &self.config.generators,
            counters: &self.config.counters,
            me: self.me,
        };
        joining.check_by_hand(&mut self.link, self.server_id).await
    }

    /// Compares the configuration with the cluster record, and adds new declarations to it.
    async fn join(&mut self) -> Result<(), JoinError> {
        let joining = JoinRequest {
            layout: self.config.layout,
            generators: &self.config.generators,
            counters: &self.config.counters,
            me: self.me,
        };
        let joined = joining.join(&mut self.link).await?;
        if self.joined.as_ref().is_some_and(|before| before.stamp != joined.stamp) {
            tracing::info!("the record of the cluster has changed; this server's configuration still matches it");
        }
        self.joined = Some(joined);
        self.joined_at = Some(Instant::now());
        Ok(())
    }

    /// Adds generators that were declared after the start to the cluster record.
    async fn pin(&mut self) -> Result<(), JoinError> {
        let is_new = |generator: &&Arc<Declaration>| self.pinned.find(generator.name()) != Some(*generator);
        let new: Vec<_> = self.declarations.generators().iter().filter(is_new).cloned().collect();
        if !new.is_empty() && self.joined.is_some() && !self.pinned.is_empty() {
            let joining = JoinRequest { layout: self.config.layout, generators: &new, counters: &[], me: self.me };
            self.joined = Some(joining.join(&mut self.link).await?);
        }
        self.pinned = Arc::clone(&self.declarations);
        Ok(())
    }

    /// Compares a server without a claim with the fleet's record before a save, if the last comparison is old.
    async fn prepare(&mut self) -> Result<(), SaveError> {
        let is_old = self.joined_at.is_none_or(|at| at.elapsed() >= JOIN_AGAIN);
        if is_old && !self.machine.is_holder() {
            let compared = if self.is_checked { self.join().await } else { self.check_at_start().await };
            match compared {
                Ok(()) => self.obstacle = None,
                Err(JoinError::Refused(why)) => {
                    // Try again after [`JOIN_AGAIN`].
                    self.joined_at = Some(Instant::now());
                    self.obstacle = Some(why);
                }
                Err(JoinError::Away(_)) if self.is_checked => {}
                Err(JoinError::Away(why)) => return Err(self.store_away_error(why)),
            }
        }
        Ok(())
    }

    fn store_away_error(&self, why: String) -> SaveError {
        if self.machine.is_holder() {
            SaveError::Store { text: why }
        } else {
            SaveError::Standby { what: format!("standby{}: waiting for the claim store: {why}", self.for_server_id()) }
        }
    }

    fn for_server_id(&self) -> String {
        self.server_id.map_or_else(|| " without a server-id".to_owned(), |id| format!(" for server-id {id}"))
    }

    async fn save_once(&mut self, point: SavePoint, term: Term) -> Result<(), SaveError> {
        self.prepare().await?;
        if self.machine.is_holder() {
            if term.0 != self.machine.term() {
                return Err(self.retaken_error());
            }
            self.pin().await.map_err(|error| match error {
                JoinError::Refused(what) => SaveError::ClaimLost { what },
                JoinError::Away(text) => SaveError::Store { text },
            })?;
        } else if self.server_id.is_none() {
            self.choose().await?;
        }
        let result = self.perform(ClaimRequest::Save { point, term: term.0 }).await;
        self.choose_again(&result);
        result
    }
}

/// Returns the options of the claim machine.
fn options<C>(config: &FleetClaimConfig<C>, creates: bool) -> ClaimOptions {
    ClaimOptions {
        timeout_ms: config.timeout_ms,
        max_ahead_ms: config.max_clock_ahead_ms,
        max_behind_ms: config.max_clock_jump_ms,
        takes_any: config.takes_any,
        creates,
        epoch: config.layout.epoch(),
    }
}

impl<C: Clock> Claim for ClusterClaim<C> {
    type Config = FleetClaimConfig<C>;
    type Point = SavePoint;

    const MAY_START_WITHOUT: bool = true;

    /// Fails only if this server certainly must not serve with this store. A store that does not answer is retried by
    /// [`Claim::save`].
    async fn take(config: FleetClaimConfig<C>) -> Result<AcquiredClaim<ClusterClaim<C>>, TakeError> {
        let dir = FleetDir::lock(&config.dir)?;
        let end = Instant::now() + config.first_try;
        let mut claim = ClusterClaim::new(config, dir);
        loop {
            match claim.check_at_start().await {
                Ok(()) => break,
                Err(JoinError::Refused(why)) => return Err(TakeError::Store { why }),
                Err(JoinError::Away(why)) if Instant::now() >= end => {
                    tracing::warn!(
                        "{why}. This server starts as a standby and serves IDs once the claim store answers"
                    );
                    break;
                }
                Err(JoinError::Away(_)) => tokio::time::sleep(FIRST_TRY_PAUSE).await,
            }
        }
        claim.read_store_info().await;
        claim.publish(None);
        Ok(AcquiredClaim { claim, point: None, declarations: Arc::default(), term: Term::default(), is_copy: false })
    }

    async fn save(&mut self, point: SavePoint, declarations: Arc<Declarations>, term: Term) -> Result<(), SaveError> {
        self.declare(declarations);
        self.release_reason = ReleaseReason::Stopped;
        let result = self.save_once(point, term).await;
        self.publish(result.as_ref().err());
        result
    }

    fn pace(&self) -> Option<Duration> {
        Some(match self.server_id {
            None => CHOOSE_EVERY,
            // Retry sooner after a failure: the hold runs out meanwhile.
            Some(_) if !self.link.error.is_empty() => {
                Duration::from_millis((self.config.timeout_ms / 8).clamp(50, 250))
            }
            Some(_) => Duration::from_millis(self.machine.pace_ms()),
        })
    }

    fn hold(&self) -> Option<Hold> {
        self.machine.hold()
    }

    async fn step_down(&mut self, why: &str) {
        self.release_reason = ReleaseReason::Clock;
        let standing = self.obstacle.replace(why.to_owned());
        if self.machine.is_holder() {
            tracing::error!("server-id {} is given up: {why}", self.identity().server_id);
            // Without a save in this term, the machine knows which point to record.
            let saved = self.tenure.as_ref().and_then(|tenure| tenure.saved);
            let (point, term) = saved.map_or((SavePoint::NOTHING, u64::MAX), |point| (point, self.machine.term()));
            let _ = self.perform(ClaimRequest::Release { point, term }).await;
        } else if self.server_id.is_some() {
            let _ = self.perform(ClaimRequest::Watch).await;
        }
        self.publish_standing(Some(&SaveError::Standby { what: why.to_owned() }), true);
        self.obstacle = standing;
    }

    async fn release(mut self, point: SavePoint, declarations: Arc<Declarations>, term: Term) -> Result<(), SaveError> {
        self.declare(declarations);
        self.release_reason = ReleaseReason::Stopped;
        if self.server_id.is_none() {
            return Ok(());
        }
        let result = self.perform(ClaimRequest::Release { point, term: term.0 }).await;
        self.notes.keep();
        self.publish(result.as_ref().err());
        result
    }
}
