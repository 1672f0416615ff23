//! `getid state show`: prints the records in a folder, and their holders.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::config::{CommandOutput, StateConfig, StoredArgs};
use super::error::StateError;
use crate::cli::record_text::{push_line, push_record, record_json};
use getid_config::Config;
use getid_engine::claim::folder::advance_command;
use getid_engine::claim::lock::{self, FileNames, holder_of};
use getid_engine::claim::{Identity, Mark, MarkedRecord, Mismatch, Record, RecordError, RecordLocation};

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  getid state show /var/lib/getid
  getid state show --server-id 0 --json
  getid state show --server-id 0 --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/getid";

#[derive(Args)]
pub(super) struct StateShowArgs {
    /// The folder of the server's state, as in dir [default: the one of the configuration]
    #[arg(value_name = "DIR", conflicts_with = "store")]
    pub(super) dir: Option<PathBuf>,
    /// The server's configuration file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Only this server's
    #[arg(long, value_name = "N")]
    pub(super) server_id: Option<u32>,
    /// As JSON, an array with one object for each record
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) stored: StoredArgs,
}

/// The record of one server in a folder.
struct FolderRecord {
    server_id: u32,
    path: PathBuf,
    /// The record, or why a server would not start with it.
    record: Result<Record, FolderRecordError>,
    /// The mark of a record that was moved, with which no server starts.
    mark: Option<Mark>,
    /// The remedy if no server would start with the record.
    remedy: String,
    /// The holder as "pid 123", or why it is not known.
    holder: io::Result<Option<String>>,
}

/// Reason why no server would start with a record.
#[derive(Debug, thiserror::Error)]
enum FolderRecordError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

pub(super) fn show(
    args: &StateShowArgs,
    now_unix_ms: i64,
    configured: &StateConfig,
) -> Result<CommandOutput, StateError> {
    let config = &configured.config;
    let dir = configured.dir(args.dir.as_ref())?.path;
    let dir = std::path::absolute(&dir).map_err(|error| StateError::Path { path: dir, error })?;
    let records: Vec<FolderRecord> = server_ids(&dir)
        .map_err(|error| StateError::ReadFolder { dir: dir.clone(), error })?
        .into_iter()
        .filter(|&server_id| args.server_id.is_none_or(|wanted| wanted == server_id))
        .map(|server_id| inspect(&dir, server_id, config))
        .collect();
    let good = !records.is_empty() && records.iter().all(|record| record.record.is_ok() && record.mark.is_none());
    if args.json {
        let list: Vec<_> = records.iter().map(|record| record.to_json(now_unix_ms)).collect();
        return Ok(CommandOutput { text: format!("{:#}\n", serde_json::Value::Array(list)), good });
    }
    if records.is_empty() {
        let files = args.server_id.map_or_else(|| "getid-*.state".to_owned(), |id| FileNames::of(id).state);
        return Err(StateError::NoFile { files, dir });
    }
    let texts: Vec<_> = records.iter().map(|record| record.to_text(now_unix_ms)).collect();
    Ok(CommandOutput { text: texts.join("\n"), good })
}

/// Returns the servers with a record in `dir`, ascending.
fn server_ids(dir: &Path) -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("getid-")?.strip_suffix(".state")?.parse().ok());
        // `parse` also accepts "+1" and "01", which no server writes.
        ids.extend(id.filter(|&id| name == *FileNames::of(id).state));
    }
    ids.sort_unstable();
    Ok(ids)
}

fn inspect(dir: &Path, server_id: u32, config: &Config) -> FolderRecord {
    let path = dir.join(FileNames::of(server_id).state);
    let found = lock::read(&path)
        .map_err(FolderRecordError::from)
        .and_then(|bytes| Ok(MarkedRecord::parse(&bytes.unwrap_or_default())?));
    let mark = found.as_ref().ok().and_then(|found| found.mark.clone());
    let record = found.and_then(|MarkedRecord { record, .. }| {
        let named = Identity { server_id, layout: record.identity.layout };
        Ok(record.adopted_by(named)?)
    });
    let holder = holder_of(dir, server_id);
    let remedy = advance_command(dir, Identity { server_id, layout: config.layout }, config.id_max_borrow_ms, None);
    let remedy = match &mark {
        Some(mark) => mark.remedy(server_id, &RecordLocation::of_folder(dir)),
        None => format!("run {remedy}; do not delete the file"),
    };
    FolderRecord { server_id, path, record, mark, remedy, holder }
}

impl FolderRecord {
    fn to_text(&self, now_unix_ms: i64) -> String {
        let mut text = format!("server-id {}: {}\n", self.server_id, self.path.display());
        if let Ok(record) = &self.record {
            push_record(&mut text, record, now_unix_ms);
        }
        let mut line = |name: &str, value: &dyn Display| push_line(&mut text, name, value);
        if let Err(error) = &self.record {
            line("unusable", error);
            line("remedy", &self.remedy);
        }
        if let Some(mark) = &self.mark {
            line("mark", mark);
            line("remedy", &self.remedy);
        }
        match &self.holder {
            Ok(Some(holder)) => line("in use by", holder),
            Ok(None) => line("in use by", &"no process"),
            Err(error) => line("in use by", &format_args!("unknown: {error}")),
        }
        text
    }

    fn to_json(&self, now_unix_ms: i64) -> serde_json::Value {
        let mut value = serde_json::json!({
            "server_id": self.server_id,
            "path": self.path.display().to_string(),
            "in_use_by": self.holder.as_ref().ok().and_then(Option::as_ref),
        });
        if let Some(mark) = &self.mark {
            let name = if matches!(mark, Mark::MovedTo(_)) { "moved_to" } else { "moving_to" };
            value[name] = serde_json::json!(mark.place().as_str());
        }
        let more = match &self.record {
            Ok(record) => record_json(record, now_unix_ms),
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
        if let (Some(value), serde_json::Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        value
    }
}
