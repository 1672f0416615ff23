//! A server of a fleet: its claim is in a store that servers share (`claim-store`), and may have to be waited for.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
#[cfg(feature = "fleet")]
use std::time::{Duration, Instant};

use getid_core::SavePoint;
use tokio::task::JoinSet;

use super::error::ServeError;
use crate::cli::claim_store::open_record_store;
use getid_config::Config;
use getid_engine::claim::cluster::{ClusterClaim, FIRST_TRY, FleetClaimConfig, Hooks, deadline};
use getid_engine::claim::listing::ClaimLister;
use getid_engine::claim::status::ClaimView;
#[cfg(feature = "fleet")]
use getid_engine::claim::status::StoreUpkeep;
use getid_engine::claim::{AcquiredClaim, Claim as _};
use getid_server::Server;
#[cfg(feature = "fleet")]
use getid_store::records::RecordStoreError;
#[cfg(feature = "fleet")]
use getid_store::records::etcd::{CompactionRounds, EtcdStore};
use getid_system::clock::SystemClock;
use getid_system::host;
use getid_text::store_url::StoreUrl;
#[cfg(feature = "fleet")]
use getid_text::{printable::printable, store_url::StoreKind};

/// The connection between a server and its claim.
pub(super) struct FleetMember {
    /// State of the claim, for INFO and the log.
    pub(super) view: Arc<ClaimView>,
    hooks: Arc<OnceLock<Hooks>>,
    /// Why the server must end, if its claim requires it.
    ends: Arc<Mutex<Option<String>>>,
    /// Compacts an etcd, until this value is dropped.
    _upkeep: JoinSet<()>,
}

impl FleetMember {
    /// Opens the store and reads its records. The claim may still be held by another server.
    pub(super) async fn begin(
        config: &Config,
        store: &StoreUrl,
    ) -> Result<(FleetMember, AcquiredClaim<ClusterClaim<SystemClock>>), ServeError> {
        let open = || {
            open_record_store(store, &config.state_dir, deadline(config.claim.timeout_ms))
                .map_err(ServeError::ClaimStore)
        };
        let view: Arc<ClaimView> = Arc::default();
        view.set_lister(ClaimLister::new(open()?));
        let upkeep = upkeep(store, &view);
        let fleet = FleetMember { view, hooks: Arc::default(), ends: Arc::default(), _upkeep: upkeep };
        let host = host::name();
        let place = FleetClaimConfig {
            store: open()?,
            shown: store.shown().to_owned(),
            clock: SystemClock::new(),
            dir: config.state_dir.clone(),
            layout: config.layout,
            server_id: (!config.server_id_auto()).then_some(config.server_id),
            name: config.claim.instance_name.clone().unwrap_or_else(|| host.clone()),
            address: config.announced_address(&host).map_or_else(String::new, |address| address.to_string()),
            host,
            timeout_ms: config.claim.timeout_ms,
            takes_any: config.claim.takes_any,
            max_clock_ahead_ms: config.claim.max_clock_ahead_ms,
            max_clock_jump_ms: config.id_max_clock_jump_ms,
            generators: config.generators.clone(),
            counters: config.counters.clone(),
            view: Arc::clone(&fleet.view),
            hooks: Arc::clone(&fleet.hooks),
            first_try: FIRST_TRY,
        };
        let mut taken = ClusterClaim::take(place).await?;
        // The store's connections belong on the keeper's thread, where clients block nothing. The first call opens
        // them.
        taken.claim.use_store(open()?);
        Ok((fleet, taken))
    }

    /// Gives the claim the hooks by which it acts on the server.
    pub(super) fn attach(&self, server: &Arc<Server>) {
        let (named, stopped) = (Arc::downgrade(server), Arc::downgrade(server));
        let ends = Arc::clone(&self.ends);
        let hooks = Hooks {
            set_server_id: Box::new(move |server_id| {
                named.upgrade().map_or(Ok(()), |server| server.set_server_id(server_id).map_err(Into::into))
            }),
            end_server: Box::new(move |why| {
                tracing::error!("{why}");
                *ends.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                if let Some(server) = stopped.upgrade() {
                    server.request_stop();
                }
            }),
        };
        // A process has one server.
        let _ = self.hooks.set(hooks);
    }

    /// Returns an error if the claim ended the server, so that its supervisor restarts it.
    pub(super) fn end_result(&self) -> Result<(), ServeError> {
        let why = self.ends.lock().unwrap_or_else(PoisonError::into_inner).take();
        why.map_or(Ok(()), |why| Err(ServeError::ClaimEnded(why)))
    }

    /// Logs the start. A server with a state folder logs its last position instead.
    pub(super) fn banner(server: &Server, store: &StoreUrl, found: Option<SavePoint>) {
        debug_assert!(found.is_none(), "a claim of a cluster store comes later");
        let status = server.claim().map(|view| view.status()).unwrap_or_default();
        tracing::info!(
            "claim store {}{}{}; this server is {} there, and gives IDs once it holds the claim",
            store.shown(),
            if status.product.is_empty() { "" } else { ", " },
            status.product,
            status.instance_name
        );
    }
}

/// How often the size of an etcd is read, and the deadline of each call.
#[cfg(feature = "fleet")]
const SIZE_EVERY: Duration = Duration::from_secs(30);
#[cfg(feature = "fleet")]
const UPKEEP_DEADLINE: Duration = Duration::from_secs(10);

/// Compacts the history of an etcd, in parallel to beats and over separate connections.
#[cfg(feature = "fleet")]
fn upkeep(store: &StoreUrl, view: &Arc<ClaimView>) -> JoinSet<()> {
    let mut task = JoinSet::new();
    let store = store.clone();
    let StoreKind::Etcd(address) = store.kind() else { return task };
    let etcd = EtcdStore::new(address, store.shown(), UPKEEP_DEADLINE);
    let view = Arc::clone(view);
    task.spawn(async move {
        let mut rounds = CompactionRounds::new(rand::random::<u128>().max(1));
        let mut known = StoreUpkeep { size: None, compactions: Some(0) };
        let (mut compacted_at, mut refused) = (None::<Instant>, None);
        loop {
            if let Ok(size) = etcd.size().await {
                known.size = Some(size);
            }
            let is_due = |every: &Duration| compacted_at.is_none_or(|at| at.elapsed() >= *every);
            if etcd.compact_every().as_ref().is_some_and(is_due) {
                compacted_at = Some(Instant::now());
                match etcd.compact(&mut rounds).await {
                    Ok(Some(revision)) => {
                        tracing::debug!("claim store {}: compacted to revision {revision}", store.shown());
                        known.compactions = known.compactions.map(|count| count + 1);
                    }
                    // An unreachable store is reported by the claim.
                    Ok(None) | Err(RecordStoreError::Away(_) | RecordStoreError::Unknown(_)) => {}
                    Err(error) if refused.as_ref() == Some(&error) => {}
                    Err(error) => {
                        tracing::warn!(
                            "claim store {} is not compacted by this server: {}",
                            store.shown(),
                            printable(&error.to_string())
                        );
                        refused = Some(error);
                    }
                }
            }
            view.publish_upkeep(known);
            tokio::time::sleep(etcd.compact_every().unwrap_or(SIZE_EVERY).min(SIZE_EVERY)).await;
        }
    });
    task
}

#[cfg(not(feature = "fleet"))]
fn upkeep(_store: &StoreUrl, _view: &Arc<ClaimView>) -> JoinSet<()> {
    JoinSet::new()
}
