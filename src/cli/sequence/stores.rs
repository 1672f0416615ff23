//! Selects the stores that a tool works on, and runs single statements on them.
//!
//! The stores are those of `--store`, or those of a server with the same configuration file and environment. Each
//! connection and each statement has a deadline. After a broken connection the outcome of its statement is unknown, so
//! the tool reports that and ends. It repeats no statement.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use getid_core::UtcMs;
use getid_core::server::{Key, NameWord, Spec};
use tokio::runtime::Runtime;

use crate::cli::exit::{Cause, ToolError};
use crate::cli::output::print_error;
use crate::cli::server_args::TIMEOUT_MS_DEFAULT;
use crate::cli::tool_config::{
    self, ToolConfigError, UrlArgumentError, dir_of_stores, environment, host_name_with_ordinal,
};
use getid_config::{Config, SequenceTable, Sources};
use getid_engine::generators::sequence::SequenceNotes;
use getid_store::sql::{
    self, Connection, RowChange, RowState, SequenceRow, Store, StoreError, StoreFuture, StoreInfo, TableKind, Verdict,
};
use getid_system::io_threads;
use getid_text::shell::shell_word;
use getid_text::store_url::{StoreKind, StoreUrl};

/// Help text about the options that name stores.
pub(in crate::cli) const STORES_HELP: &str = "\
Stores are named by --store: sqlite:PATH, mysql://USER@HOST/DATABASE?password-file=PATH or postgres://... Without it they
are those of a server with the same configuration (--config FILE) and environment (GETID_SEQUENCE_STORE, GETID_DIR, ...).
A password in a command line shows in `ps`; password-file=PATH, a file and the environment do not.";

/// Flags that select stores.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Stores")]
pub(in crate::cli) struct StoreArgs {
    /// Address of a store; may be given several times [default: the stores of the configuration]
    #[arg(long = "store", value_name = "URL")]
    stores: Vec<String>,
    /// Tables in the stores: native, leaf or tinyid [default: as configured]
    #[arg(long, value_name = "WORD", value_parser = clap::builder::PossibleValuesParser::new(SequenceTable::WORDS))]
    table: Option<String>,
    /// The server's configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder of the server's state, for a store that is a file in it
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The server whose file in that folder is meant
    #[arg(long, value_name = "N")]
    server_id: Option<u32>,
    /// Milliseconds for a connection, and for a statement [default: 10000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    store_timeout_ms: Option<u64>,
}

/// Reason why a store gives no answer, or cannot be selected.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum StoresError {
    #[error(transparent)]
    Config(#[from] ToolConfigError),
    #[error(transparent)]
    Url(#[from] UrlArgumentError),
    #[error(
        "no store of sequences is configured: sequence-store is none, or id-state is none; name one with --store \
         sqlite:PATH, mysql://... or postgres://..."
    )]
    NotConfigured,
    #[error("{0}")]
    Open(Cause),
    #[error("cannot wait for the network: {0}")]
    Runtime(std::io::Error),
    /// Another process has the file open. `help` is the command that does the same on a running server.
    #[error("{shown}: {error}{help}")]
    Locked { shown: String, error: StoreError, help: String },
    #[error("{0}")]
    SameStore(Cause),
    #[error(
        "{0}: there is no such file: check --store, or --config, --dir and --server-id. A server or 'getid sequence create \
         NAME' creates it with the first sequence"
    )]
    NoFile(String),
    #[error("{shown}: {error}")]
    Store { shown: String, error: StoreError },
    #[error(
        "{shown}: {error}. It is unknown whether it was done: check with 'getid sequence info', and repeat it if it was \
         not"
    )]
    UnknownWrite { shown: String, error: StoreError },
    #[error("increment {increment} is less than the number of stores, {stores}: each store needs its own values")]
    SmallIncrement { increment: u32, stores: usize },
}

impl ToolError for StoresError {}

impl StoreArgs {
    /// Returns the selected stores, without opening any.
    pub(in crate::cli) fn stores(&self) -> Result<Stores, StoresError> {
        let config = self.config()?;
        let is_file = |url: &StoreUrl| matches!(url.kind(), StoreKind::Sqlite { .. });
        let dir = dir_of_stores(&config, config.sequence_stores().iter().any(is_file))?;
        Stores::new(&config, &dir, Duration::from_millis(self.store_timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)))
    }

    fn config(&self) -> Result<Config, StoresError> {
        let mut words = Vec::new();
        for url in &self.stores {
            if !url.eq_ignore_ascii_case("none") {
                StoreUrl::parse_for_sequences(url).map_err(|error| UrlArgumentError { flag: "--store", error })?;
            }
            words.extend(["--sequence-store".to_owned(), url.clone()]);
        }
        let mut add_option = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
        };
        add_option("sequence-table", self.table.clone());
        add_option("dir", self.dir.as_ref().map(|dir| dir.display().to_string()));
        add_option("server-id", self.server_id.map(|id| id.to_string()));
        let (file, host_name) = (self.config.clone(), host_name_with_ordinal());
        let sources = Sources { file, environment: environment(), words, host_name };
        Ok(tool_config::load(&sources).map_err(ToolConfigError::from)?)
    }
}

/// Some stores, and the runtime of their statements.
pub(in crate::cli) struct Stores {
    runtime: Runtime,
    all: Vec<Box<dyn Store>>,
    timeout: Duration,
    /// Index of each opened store, by its uuid.
    seen: RefCell<BTreeMap<String, usize>>,
    /// The notes of the server, if one has run in this `dir`.
    notes: Option<SequenceNotes>,
    /// Seconds after which servers with this configuration notice the change.
    pub(in crate::cli) ride_out_s: u64,
    /// Port of such a server.
    port: u16,
    /// The command that does the same on a server that has the file locked.
    pub(in crate::cli) server_command: String,
}

impl Stores {
    /// Returns the stores of a configuration whose state is in `dir`.
    pub(in crate::cli) fn new(config: &Config, dir: &Path, timeout: Duration) -> Result<Stores, StoresError> {
        let table = table_of(config.sequences.table);
        let mut config = config.clone();
        config.resolve_paths(dir);
        let urls = config.sequence_stores();
        if urls.is_empty() {
            return Err(StoresError::NotConfigured);
        }
        let all = sql::open_all(&urls, table, dir, config.server_id);
        let all = all.map_err(|error| StoresError::Open(error.into()))?;
        let runtime = io_threads::blocking_runtime().map_err(StoresError::Runtime)?;
        let (ride_out_s, port) = (config.sequences.ride_out_s, config.port);
        let notes = Some(dir.join(SequenceNotes::file_name(config.server_id)))
            .filter(|path| path.exists())
            .map(SequenceNotes::in_file);
        let seen = RefCell::default();
        Ok(Stores { runtime, all, timeout, seen, notes, ride_out_s, port, server_command: String::new() })
    }

    /// Returns the number of stores, at least one.
    pub(in crate::cli) fn count(&self) -> usize {
        self.all.len()
    }

    pub(in crate::cli) fn all(&self) -> &[Box<dyn Store>] {
        &self.all
    }

    /// Opens one of the stores.
    pub(in crate::cli) fn connect(&self, index: usize) -> Result<OpenStore<'_>, StoresError> {
        let store = &self.all[index];
        let connection = self.wait(store.connect()).map_err(|error| {
            let shown = store.shown().to_owned();
            if store.is_shared() || !matches!(error, StoreError::Locked(_)) {
                return StoresError::Store { shown, error };
            }
            let help = match self.server_command.as_str() {
                "" => String::new(),
                command => format!(". If a server runs: redis-cli -p {} {command}", self.port),
            };
            StoresError::Locked { shown, error, help }
        })?;
        let uuid = &connection.info().uuid;
        let mut seen = self.seen.borrow_mut();
        if let Some(other) = seen.get(uuid).filter(|other| **other != index && !uuid.is_empty()) {
            return Err(StoresError::SameStore(sql::same_store(store.shown(), self.all[*other].shown(), uuid).into()));
        }
        seen.insert(uuid.clone(), index);
        Ok(OpenStore { stores: self, store: store.as_ref(), connection })
    }

    /// Opens all stores. A missing file is created with its first row.
    pub(in crate::cli) fn connect_all(&self) -> Result<Vec<OpenStore<'_>>, StoresError> {
        (0..self.count()).map(|index| self.connect(index)).collect()
    }

    /// Opens a store for a tool that creates no row. Fails if it is a missing file, because the path may be wrong.
    pub(in crate::cli) fn connect_existing(&self, index: usize) -> Result<OpenStore<'_>, StoresError> {
        let opened = self.connect(index)?;
        if !opened.store.is_shared() && opened.about().uuid.is_empty() {
            return Err(StoresError::NoFile(opened.store.shown().to_owned()));
        }
        Ok(opened)
    }

    /// Opens all stores, as [`Stores::connect_existing`] does.
    pub(in crate::cli) fn connect_all_existing(&self) -> Result<Vec<OpenStore<'_>>, StoresError> {
        (0..self.count()).map(|index| self.connect_existing(index)).collect()
    }

    fn wait<T>(&self, answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
        let within = async { tokio::time::timeout(self.timeout, answer).await };
        let ms = self.timeout.as_millis();
        self.runtime.block_on(within).unwrap_or_else(|_| Err(StoreError::Unknown(format!("no answer within {ms} ms"))))
    }
}

/// An open store.
pub(in crate::cli) struct OpenStore<'a> {
    stores: &'a Stores,
    pub(in crate::cli) store: &'a dyn Store,
    connection: Box<dyn Connection>,
}

impl OpenStore<'_> {
    pub(in crate::cli) fn about(&self) -> &StoreInfo {
        self.connection.info()
    }

    /// Runs one statement that reads.
    pub(in crate::cli) fn read<'s, T>(
        &'s mut self,
        statement: impl FnOnce(&'s mut dyn Connection) -> StoreFuture<'s, T>,
    ) -> Result<T, StoresError> {
        let (stores, shown) = (self.stores, self.store.shown());
        let answer = stores.wait(statement(self.connection.as_mut()));
        answer.map_err(|error| StoresError::Store { shown: shown.to_owned(), error })
    }

    /// Runs one statement that changes something.
    pub(in crate::cli) fn write<'s, T>(
        &'s mut self,
        statement: impl FnOnce(&'s mut dyn Connection) -> StoreFuture<'s, T>,
    ) -> Result<T, StoresError> {
        self.read(statement).map_err(|error| match error {
            StoresError::Store { shown, error } if matches!(error, StoreError::Unknown(_)) => {
                StoresError::UnknownWrite { shown, error }
            }
            error => error,
        })
    }

    /// Runs one statement that creates or changes a row. For a server's own file, the change is noted in its `dir`, as
    /// the server does.
    pub(in crate::cli) fn write_row<'s>(
        &'s mut self,
        statement: impl FnOnce(&'s mut dyn Connection) -> StoreFuture<'s, Result<SequenceRow, Verdict>>,
    ) -> Result<Result<SequenceRow, Verdict>, StoresError> {
        let (stores, is_shared, shown) = (self.stores, self.store.is_shared(), self.store.shown());
        let uuid = self.connection.info().uuid.clone();
        let changed = self.write(statement)?;
        if let (Ok(row), Some(notes), false) = (&changed, &stores.notes, is_shared)
            && !stores.runtime.block_on(notes.note_row(&uuid, row))
        {
            print_error(&format!(
                "{shown}: '{}' is changed, but the change could not be noted next to it: if an older copy of the file \
                 replaces it, the server does not detect that the change is missing",
                row.key
            ));
        }
        Ok(changed)
    }
}

/// Returns the tables that a configuration selects.
pub(in crate::cli) fn table_of(table: SequenceTable) -> TableKind {
    match table {
        SequenceTable::Native => TableKind::Native,
        SequenceTable::Leaf => TableKind::Leaf,
        SequenceTable::Tinyid => TableKind::Tinyid,
    }
}

/// Refusal of a change of one row.
#[derive(Debug, thiserror::Error)]
#[error("{}", sentence(.name, .verdict))]
pub(in crate::cli) struct RowRefusal {
    pub(in crate::cli) name: String,
    pub(in crate::cli) verdict: Verdict,
}

/// Formats the verdict about a row as an error.
fn sentence(name: &str, verdict: &Verdict) -> String {
    match verdict {
        Verdict::NoSuch => {
            format!("no such sequence: '{name}'. `getid sequence create {}` creates it", shell_word(name))
        }
        Verdict::Exists(row) => {
            format!("there is a sequence '{name}' already, and {} is next", row.next)
        }
        Verdict::Dropped { last } => format!("the sequence '{name}' was dropped, and was at {last}"),
        Verdict::Ended { unix_ms } => {
            let (ended, word) = (UtcMs(*unix_ms), NameWord(name));
            format!("the sequence '{name}' ended at {ended}: send 'PERSIST {word}' to its server")
        }
        Verdict::EndKept { .. } => format!("the end of the sequence '{name}' is as before"),
        Verdict::WentBack { next } => format!(
            "the sequence '{name}' is lower than before, as after a restored backup. Its next value is {next} now: run \
             `getid sequence raise {} LAST`, LAST being at least the largest value ever given",
            shell_word(name)
        ),
        Verdict::Lower { row } => {
            format!("a sequence never goes back: '{name}' is at {}", row.last())
        }
        Verdict::TooMany { max } => format!("there are {max} sequences, which is the maximum"),
        Verdict::NoSeries => format!("'{name}' is no key of its generator"),
        Verdict::TooManySeries { max } => format!("the generator has {max} keys, which is the maximum"),
        Verdict::Newer { period } => format!("the generator '{name}' has begun its period {period}"),
        Verdict::Declared { stored, configured: asked } => {
            format!("the generator '{name}' is declared as '{stored}' in its store, and here as '{asked}'")
        }
        Verdict::BadRow(fault) | Verdict::Contended(fault) => {
            format!("the sequence '{name}' cannot be used: {fault}")
        }
        Verdict::Unsupported(reason) => format!("'{name}': {reason}"),
    }
}

/// Makes servers drop their segments of a row that is already past `last`: the segments may be lower and still to be
/// given. No server holds segments of a store that is not shared.
pub(in crate::cli) fn drop_held_segments(
    opened: &mut OpenStore<'_>,
    key: &Key,
    row: &SequenceRow,
    last: i64,
) -> Result<Option<SequenceRow>, StoresError> {
    if !opened.store.is_shared() || opened.store.table() != TableKind::Native || row.state != RowState::Live {
        return Ok(None);
    }
    let change = RowChange::Alter { spec: row.spec, next_from: last.saturating_add(1) };
    Ok(opened.write_row(|connection| connection.change(key, &change))?.ok())
}

/// Returns the options of a sequence in one of several stores, as a server computes them.
pub(in crate::cli) fn spec_of_store(spec: Spec, index: usize, stores: usize) -> Result<Spec, StoresError> {
    let of_store = u32::try_from(index).ok().zip(u32::try_from(stores).ok());
    of_store
        .and_then(|(index, stores)| spec.of_store(index, stores))
        .ok_or(StoresError::SmallIncrement { increment: spec.increment, stores })
}
