//! Reasons why a server did not start, or did not end well.

use std::fmt::Display;
use std::io;

use crate::cli::claim_store::ClaimStoreError;
use crate::cli::exit::Cause;
use getid_config::ConfigReport;
use getid_engine::claim::{MachineError, TakeError};
use getid_engine::generators::{DeclareError, KeeperError};
use getid_server::listen::{ListenError, TooFewFiles};
use getid_server::logging::LogError;
use getid_server::tls::TlsError;

#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error(transparent)]
    Config(#[from] ConfigReport),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Files(#[from] TooFewFiles),
    #[error(transparent)]
    Runtime(io::Error),
    #[error("cannot start {what}: {error}")]
    Thread { what: String, error: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Take(#[from] TakeError),
    #[error("claim-store: {0}")]
    ClaimStore(ClaimStoreError),
    #[error(transparent)]
    Declare(#[from] DeclareError),
    #[error("{0}")]
    Sequences(Cause),
    #[error("{0}")]
    Workers(Cause),
    /// A configuration with pools and without a store is refused before.
    #[error("there are pools of worker ids, but no store to keep their leases in")]
    NoWorkerStore,
    #[error("the first save of the state failed: {0}. Nothing was served")]
    FirstSave(Cause),
    #[error("the disk did not answer within {s} s")]
    NoAnswer { s: u64 },
    #[error("{0} received again")]
    SignalAgain(&'static str),
    #[error(transparent)]
    LastSave(KeeperError),
    #[error(
        "the keeper of the watermark panicked; please report the lines above. The next start continues at the last \
         watermark, as after a crash"
    )]
    KeeperPanicked,
    #[error("the last save did not end within {s} s. The next start continues at the last watermark, as after a crash")]
    LastSaveTimeout { s: u64 },
    /// The claim ended the server.
    #[error("{0}")]
    ClaimEnded(String),
}

impl ServeError {
    /// Returns the error for a thread, or several, that cannot be started.
    pub(super) fn thread(what: impl Into<String>, error: io::Error) -> ServeError {
        ServeError::Thread { what: what.into(), error }
    }
}

/// Logs an error that does not affect clients: as in Redis, the server keeps serving.
pub(super) fn warn_on_error<E: Display>(what: &str, result: Result<(), E>) {
    if let Err(error) = result {
        tracing::warn!("{what}: {error}");
    }
}
