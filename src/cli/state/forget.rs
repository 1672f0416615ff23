//! `getid state forget`: removes a generator's declaration from a record.

use std::path::PathBuf;

use clap::Args;

use super::config::{StateConfig, save};
use super::error::StateError;
use crate::cli::record_text::{canonical, push_line};
use getid_engine::claim::Record;
use getid_engine::claim::lock::{FileNames, LockedFolder};

pub(super) const FORGET_EXAMPLES: &str = "\
Examples:
  getid state forget tweets --past-id 1992648317203087360
  getid state forget trace /var/lib/getid --server-id 0 \\
    --past-id 019aa3b4-7c00-7000-8000-000000000000";

#[derive(Args)]
pub(super) struct StateForgetArgs {
    /// The generator
    #[arg(value_name = "NAME")]
    name: String,
    /// The folder of the server's state, as in dir [default: the one of the configuration]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Its largest ID in any table, as it was written: a generator that gets the name again must begin past it
    #[arg(long, value_name = "ID")]
    past_id: String,
    /// The server of the record [default: the one of the configuration]
    #[arg(long, value_name = "N")]
    server_id: Option<u32>,
    /// The server's configuration file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

pub(super) fn forget(args: &StateForgetArgs, configured: &StateConfig) -> Result<String, StateError> {
    let server_id = configured.server_id(args.server_id)?;
    let dir = configured.dir(args.dir.as_ref())?.path;
    let mut locked = LockedFolder::lock(&dir, FileNames::of(server_id))?;
    let path = locked.state_path();
    let bytes = locked.read()?.ok_or_else(|| StateError::NothingToForget(path.clone()))?;
    let record = Record::parse(&bytes).map_err(|error| StateError::UnusableFile { path: path.clone(), error })?;
    let name = &args.name;
    let declaration = record.declarations.find(name).ok_or_else(|| unknown(name, &record))?;
    let past_id = canonical(declaration, &args.past_id).ok_or_else(|| StateError::ForeignId {
        id: args.past_id.clone(),
        name: name.clone(),
        declaration: declaration.to_text(),
    })?;
    let mut text = format!("server-id {server_id}: {}\n", path.display());
    push_line(&mut text, "forgotten", &declaration.to_text());
    push_line(&mut text, "ids", &format_args!("a generator that is named '{name}' later must begin past {past_id}"));
    let declarations = record.declarations.without(name, &past_id).map_err(StateError::new_record)?.into();
    let record = Record { declarations, owner: locked.owner(), ..record };
    save(&mut locked, &record.to_text())?;
    Ok(text)
}

fn unknown(name: &str, record: &Record) -> StateError {
    let (declarations, name) = (&record.declarations, name.to_owned());
    if let Some(forgotten) = declarations.forgotten().iter().find(|forgotten| forgotten.name == name) {
        return StateError::ForgottenBefore { name, past_id: forgotten.past_id.clone() };
    }
    let known = declarations.generators().iter().map(|known| known.name().to_owned()).collect();
    StateError::NoGenerator { name, known }
}
