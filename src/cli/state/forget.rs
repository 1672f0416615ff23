//! `getid state forget`: removes a generator's declaration from a record.

use std::path::PathBuf;

use clap::Args;
use getid_core::Declaration;

use super::StateConfig;
use super::texts::push_line;
use getid_engine::claim::Record;
use getid_engine::claim::lock::{FileNames, LockedFolder};

pub(super) const FORGET_EXAMPLES: &str = "\
Examples:
  getid state forget tweets --past-id 1992648317203087360
  getid state forget trace /var/lib/getid --server-id 0 \\
    --past-id 019aa3b4-7c00-7000-8000-000000000000";

/// Largest number of generators that an error names.
const NAMED_MAX: usize = 10;

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

pub(super) fn forget(args: &StateForgetArgs, configured: &StateConfig) -> Result<String, String> {
    let server_id = configured.server_id(args.server_id)?;
    let dir = configured.dir(args.dir.as_ref())?.path;
    let mut locked = LockedFolder::lock(&dir, FileNames::of(server_id)).map_err(|error| error.to_string())?;
    let path = locked.state_path();
    let bytes = locked.read().map_err(|error| error.to_string())?;
    let bytes =
        bytes.ok_or_else(|| format!("{}: there is no record, so there is nothing to forget", path.display()))?;
    let record = Record::parse(&bytes).map_err(|error| {
        format!("cannot use the record {}: {error}; `getid state show` shows the remedy", path.display())
    })?;
    let name = &args.name;
    let declaration = record.declarations.find(name).ok_or_else(|| unknown(name, &record))?;
    let past_id = canonical(declaration, &args.past_id).ok_or_else(|| {
        format!("--past-id {}: generator '{name}' gives no such IDs ({})", args.past_id, declaration.to_text())
    })?;
    let mut text = format!("server-id {server_id}: {}\n", path.display());
    push_line(&mut text, "forgotten", &declaration.to_text());
    push_line(&mut text, "ids", &format_args!("a generator that is named '{name}' later must begin past {past_id}"));
    let declarations = record.declarations.without(name, &past_id).map_err(|error| error.to_string())?.into();
    let record = Record { declarations, owner: locked.owner(), ..record };
    match locked.save(&record.to_text()).map_err(|error| error.to_string())? {
        None => Ok(text),
        Some(lost) => Err(format!("claim lost: {}", locked.describe(lost))),
    }
}

/// Returns an ID of this generator as the generator writes it.
pub(in crate::cli) fn canonical(declaration: &Declaration, id: &str) -> Option<String> {
    let mut text = Vec::new();
    let is_written = declaration.write(declaration.read(id)?, &mut text);
    String::from_utf8(text).ok().filter(|_| is_written)
}

fn unknown(name: &str, record: &Record) -> String {
    let declarations = &record.declarations;
    if let Some(forgotten) = declarations.forgotten().iter().find(|forgotten| forgotten.name == *name) {
        return format!("generator '{name}' was forgotten before, with --past-id {}", forgotten.past_id);
    }
    let names: Vec<_> = declarations.generators().iter().map(|known| known.name()).collect();
    match names.len() {
        0 => format!("no generator '{name}' in the record: it has none"),
        1..=NAMED_MAX => format!("no generator '{name}' in the record: it has {}", names.join(", ")),
        many => {
            let some = names[..NAMED_MAX].join(", ");
            format!("no generator '{name}' in the record: it has {some} and {} more", many - NAMED_MAX)
        }
    }
}
