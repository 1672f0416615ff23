//! Sequences in a server's life: their stores are opened concurrently, and unused values are returned at its end.

use std::sync::Arc;
use std::time::Duration;

use super::ServeError;
use getid_config::{Config, SequenceTable};
use getid_engine::generators::sequence::{SequenceNotes, Sequences, StopReport};
use getid_server::settings;
use getid_store::sql::{self, TableKind};
use getid_system::clock::SystemClock;
use getid_text::plural::counted;

/// Starts the sequences' thread, if there are stores. An unreachable store does not prevent the start.
pub(super) fn start(config: &Config) -> Result<Option<Arc<Sequences>>, ServeError> {
    let table = match config.sequences.table {
        SequenceTable::Native => TableKind::Native,
        SequenceTable::Leaf => TableKind::Leaf,
        SequenceTable::Tinyid => TableKind::Tinyid,
    };
    let urls = config.sequence_stores();
    let stores = sql::open_all(&urls, table, &config.state_dir, config.server_id)
        .map_err(|error| ServeError(error.to_string()))?;
    if stores.is_empty() {
        return Ok(None);
    }
    let notes = config.state_dir.join(SequenceNotes::file_name(config.server_id));
    let settings = settings::sequences(config);
    let sequences = Sequences::start(stores, settings, SequenceNotes::in_file(notes), Box::new(SystemClock::new()))
        .map_err(|error| ServeError(error.to_string()))?;
    if config.http.port != 0 && config.http.apis.tinyid.is_some() {
        sequences.watch_tokens();
    }
    Ok(Some(sequences))
}

/// Returns the reserved but unused values to the stores, after the last reply.
pub(super) async fn stop(sequences: Option<&Arc<Sequences>>, timeout: Duration) {
    let Some(sequences) = sequences else { return };
    let StopReport { given_back, lost, sequences } = sequences.stop(timeout).await;
    if given_back + lost == 0 {
        return;
    }
    let of = counted(sequences, "sequence");
    let given_back = counted(given_back, "value");
    if lost == 0 {
        tracing::info!("{given_back} of {of} unused and returned to the store");
    } else {
        tracing::warn!(
            "{given_back} of {of} unused and returned to the store, and {} skipped, as after a crash",
            counted(lost, "value")
        );
    }
}
