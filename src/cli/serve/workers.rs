//! Pools of worker ids in a server's life: their store is opened concurrently.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::ServeError;
use getid_config::{Config, WorkerPool};
use getid_engine::workers::{Host, PoolSpec, Workers};
use getid_server::Server;
use getid_store::records::RecordStore;
#[cfg(feature = "fleet")]
use getid_store::records::etcd::EtcdStore;
use getid_store::sql;
#[cfg(feature = "fleet")]
use getid_text::store_url::StoreKind;

/// Deadline of each call of the store.
const STORE_DEADLINE: Duration = Duration::from_secs(2);

/// Starts the pools' thread, if there are pools. An unreachable store does not prevent the start.
pub(super) fn start(server: &Arc<Server>) -> Result<Option<Arc<Workers>>, ServeError> {
    let config = server.config.get();
    if config.worker_pools.is_empty() {
        return Ok(None);
    }
    let store = open(&config)?;
    let spec = |pool: &WorkerPool| PoolSpec { name: pool.name.clone(), rules: pool.rules };
    let specs: Vec<_> = config.worker_pools.iter().map(spec).collect();
    let host = Arc::new(ServerHost(Arc::downgrade(server)));
    let workers = Workers::start(&specs, store, host)
        .map_err(|error| ServeError(format!("cannot start the thread of the pools of worker ids: {error}")))?;
    server.set_workers(Arc::clone(&workers));
    Ok(Some(workers))
}

fn open(config: &Config) -> Result<Arc<dyn RecordStore>, ServeError> {
    // A configuration with pools and without a store was refused before.
    let none = || ServeError("there are pools of worker ids, but no store to keep their leases in".to_owned());
    let url = config.worker_store().ok_or_else(none)?;
    #[cfg(feature = "fleet")]
    if let StoreKind::Etcd(address) = url.kind() {
        return Ok(Arc::new(EtcdStore::new(address, url.shown(), STORE_DEADLINE)));
    }
    sql::open_records(&url, &config.state_dir, STORE_DEADLINE).map_err(|error| ServeError(error.to_string()))
}

/// The server whose pools these are. A weak reference, because the server owns them.
struct ServerHost(Weak<Server>);

impl Host for ServerHost {
    fn now_ms(&self) -> u64 {
        let now_ms = self.0.upgrade().map_or(0, |server| server.issuer().reference_unix_ms());
        u64::try_from(now_ms).unwrap_or(0)
    }

    fn may_lease(&self) -> bool {
        self.0.upgrade().is_some_and(|server| server.generators.standby_refusal().is_none())
    }
}
