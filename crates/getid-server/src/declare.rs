//! Changes of the named generators while the server runs.

use std::convert::Infallible;
use std::sync::Arc;

use getid_core::Scheme;
use getid_core::server::NamedCounters;

use super::Server;
use getid_config::Config;
use getid_engine::claim::Conflict;
use getid_engine::claim::folder::generator_remedy;
use getid_engine::generators::{DeclareError, random_cycle};
use getid_redis::session::Settings;

/// Reason why the named generators were not replaced. `Display` is the sentence for the log, with the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error("{conflict}; to continue, {remedy}")]
    Conflict { conflict: Conflict, remedy: String },
    #[error(transparent)]
    Refused(DeclareError),
}

impl Server {
    /// Replaces the named generators in the registry, and with their sealers for sessions and in the configuration.
    /// Must not run beside another change.
    ///
    /// A request to a new one waits until a save with its declaration has succeeded; a removed one is unknown to the
    /// next request.
    ///
    /// # Errors
    ///
    /// [`ReloadError`]; nothing has changed.
    pub(crate) fn reload_generators(&self, reloaded: &Config) -> Result<(), ReloadError> {
        let Config { generators: configured, counters, sealers, .. } = reloaded;
        let generators = self.generators.declare(configured).map_err(|error| match error {
            DeclareError::Conflict(conflict) => {
                let config = self.config.get();
                let remedy = generator_remedy(&config.state_dir, config.server_id, &conflict);
                ReloadError::Conflict { conflict, remedy }
            }
            error => ReloadError::Refused(error),
        })?;
        let named = Arc::new(NamedCounters::new(counters.iter().cloned()));
        let Ok(()) = self.settings.update(|now| {
            let now = Settings { sealers: sealers.clone(), ..now.clone() };
            Ok::<_, Infallible>(now.with_generators(generators).with_counters(named))
        });
        let Ok(()) = self.config.update(|now| {
            let (generators, counters, sealers) = (configured.clone(), counters.clone(), sealers.clone());
            Ok::<_, Infallible>(Config { generators, counters, sealers, ..Config::clone(now) })
        });
        Ok(())
    }

    /// Sets the server-id, which was not known at the start (`server-id auto`). Must run before the first ID, and not
    /// beside another change. Requests that were read before are answered without IDs.
    ///
    /// # Errors
    ///
    /// [`DeclareError`]; nothing has changed.
    pub fn set_server_id(&self, server_id: u32) -> Result<(), DeclareError> {
        let layout = self.issuer().identity().layout;
        let scheme = Scheme::new(layout, server_id, random_cycle(layout.random_bits()))
            .ok_or(DeclareError::IdRange { server_id, server_bits: layout.server_bits() })?;
        let scheme = Arc::new(scheme);
        let generators = self.generators.set_server_id(server_id)?;
        let Ok(()) = self.settings.update(|now| {
            let scheme = Arc::clone(&scheme);
            Ok::<_, Infallible>(Settings { scheme, has_server_id: true, ..now.clone().with_generators(generators) })
        });
        let Ok(()) = self.config.update(|now| Ok::<_, Infallible>(Config { server_id, ..Config::clone(now) }));
        Ok(())
    }
}
