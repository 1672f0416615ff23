//! `getid serve`: from words on a command line to a server, and back to an exit code.
//!
//! Order matters here. Sockets are bound before the state is touched, so that a start that fails for a busy port leaves
//! no trace; the first save succeeds before the first client is accepted; and at the end the issuer's position is
//! stored after the last reply was written.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clock::{Clock as _, SystemClock};
use crate::command::Vocabulary;
use crate::config::{self, Config, StateKind};
use crate::id::{self, Limits, RandomCycle, Scheme, SavePoint};
use crate::issuer::{Issuer, Keeper};
use crate::logging::{LogOptions, Logging};
use crate::server::{self, Listener, Process, Server};
use crate::session::{Password, Rules};
use crate::supervision::{Notifier, PidFile};
use crate::timestamp;
use crate::watermark::{FileStore, Identity, NoStore, SaveError, WatermarkStore};

/// The last save gets at least this long, however short `shutdown-timeout` is: it is what a restart resumes from.
const LAST_SAVE_PATIENCE: Duration = Duration::from_secs(2);

/// Runs a server until it is told to stop. `words` are what stood behind `serve`.
pub fn run(words: Vec<String>) -> ExitCode {
    match start(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(Failure::Sentence(sentence)) => {
            // Nothing to fall back on when standard error is gone.
            let _ = writeln!(std::io::stderr(), "getid: {sentence}");
            ExitCode::FAILURE
        }
    }
}

/// Why a server did not start, or did not end well.
enum Failure {
    /// The log has it.
    Reported,
    /// To be said on standard error.
    Sentence(String),
}

impl<T: std::fmt::Display> From<T> for Failure {
    fn from(error: T) -> Self {
        Failure::Sentence(error.to_string())
    }
}
