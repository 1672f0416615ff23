//! Named generators that are added, changed or taken away while the server runs.

use std::convert::Infallible;
use std::sync::Arc;

use getid_core::NamedCounters;

use super::Server;
use crate::claim::folder::generator_remedy;
use crate::config::Config;
use crate::generators::DeclareError;

impl Server {
    /// Makes these the named generators from now on: in the registry, for sessions and in the configuration. Not beside
    /// another change.
    ///
    /// A request to one that is new waits until a save has succeeded that holds its declaration; one that is taken away
    /// is unknown to the next request.
    ///
    /// # Errors
    ///
    /// The sentence for the log, with the remedy; nothing has changed.
    pub fn reload_generators(&self, reloaded: &Config) -> Result<(), String> {
        let Config { generators: configured, counters, .. } = reloaded;
        let generators = self.generators.declare(configured).map_err(|error| match &error {
            DeclareError::Conflict(conflict) => {
                let config = self.config.get();
                let remedy = generator_remedy(&config.state_dir, config.server_id, conflict);
                format!("{error}; to go on, {remedy}")
            }
            DeclareError::ServerId { .. } | DeclareError::TooManyChanges | DeclareError::TooMuchRandom => {
                error.to_string()
            }
        })?;
        let named = Arc::new(NamedCounters::new(counters.iter().cloned()));
        let Ok(()) = self
            .settings
            .update(|now| Ok::<_, Infallible>(now.clone().with_generators(generators).with_counters(named)));
        let Ok(()) = self.config.update(|now| {
            let (generators, counters) = (configured.clone(), counters.clone());
            Ok::<_, Infallible>(Config { generators, counters, ..Config::clone(now) })
        });
        Ok(())
    }
}
