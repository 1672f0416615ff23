//! `getid sequence list` and `getid sequence info`: show rows of the stores. They do not show the segments that servers
//! hold in memory.

use std::io::{self, Write};

use clap::Args;
use getid_core::UtcMs;
use getid_core::server::Key;
use serde_json::{Value, json};

use super::error::{SequenceError, parse_key};
use super::stores::{OpenStore, RowRefusal, StoreArgs, StoresError};
use crate::cli::exit::CliError;
use crate::cli::output::{print_error, print_note};
use getid_store::sql::{Generator, RowState, SequenceRow, Verdict};
use getid_text::glob::Pattern;
use getid_text::plural::counted;
use getid_text::printable::printable;
use getid_text::shell::shell_word;

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  getid sequence list
  getid sequence list --pattern 'orders:*' --json
  getid sequence list --store mysql://getid@db/ids?password-file=/etc/getid/db";

pub(super) const INFO_EXAMPLES: &str = "\
Examples:
  getid sequence info orders
  getid sequence info orders --json --config /etc/getid/getid.conf";

/// Rows of a page.
const PAGE_ROWS: u32 = 1000;

#[derive(Args)]
pub(super) struct ListArgs {
    /// Only names like this: * ? [ ] as in Redis
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<String>,
    /// The counters of serial numbers' periods too
    #[arg(long)]
    periods: bool,
    /// As JSON, one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: StoreArgs,
}

#[derive(Args)]
pub(super) struct InfoArgs {
    /// The sequence; NAME@PERIOD, or NAME/KEY@PERIOD, for the counter of a serial number
    #[arg(value_name = "NAME")]
    name: String,
    /// As JSON, one object for each store a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: StoreArgs,
}

pub(super) fn list(args: &ListArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let pattern = args.pattern.as_ref().map(|pattern| Pattern::new(pattern.as_bytes(), false));
    let pattern = pattern.transpose().map_err(SequenceError::Pattern)?;
    let mut stores = args.at.stores()?;
    "SEQUENCE LIST".clone_into(&mut stores.server_command);
    let mut left_out = 0;
    for index in 0..stores.count() {
        let mut opened = stores.connect_existing(index)?;
        if !args.json && stores.count() > 1 {
            writeln!(out, "{}{}:", if index > 0 { "\n" } else { "" }, opened.store.shown())?;
        }
        if !args.json {
            writeln!(out, "{:<40} {:>19}  OPTIONS", "NAME", "RESERVED TO")?;
        }
        let mut after = String::new();
        let is_match = |name: &str| pattern.as_ref().is_none_or(|pattern| pattern.matches(name.as_bytes()));
        loop {
            let listed = opened.read(|connection| connection.list(&after, PAGE_ROWS, args.periods))?;
            for row in listed.rows.iter().filter(|row| is_match(row.key.as_str())) {
                if args.json {
                    writeln!(out, "{}", json_of(row, &opened))?;
                } else {
                    writeln!(out, "{}", line_of(row))?;
                }
            }
            out.flush()?;
            for bad in listed.bad.iter().filter(|bad| is_match(&bad.name)) {
                left_out += 1;
                print_error(&format!("{}: {}", opened.store.shown(), bad.error));
            }
            let Some(next) = listed.next else { break };
            after = next;
        }
        if !args.periods {
            note_periods(&mut opened, is_match)?;
        }
    }
    if left_out > 0 {
        return Err(SequenceError::LeftOut { rows: left_out }.into());
    }
    Ok(())
}

/// Prints a note if counters of periods are left out of the list.
fn note_periods(opened: &mut OpenStore<'_>, is_match: impl Fn(&str) -> bool) -> Result<(), StoresError> {
    let generators = opened.read(|connection| connection.generators(None))?;
    let count = generators.iter().filter(|own| has_own_counters(own) && is_match(&own.name)).count() as u64;
    if count > 0 {
        let shown = opened.store.shown();
        print_note(&format!("{shown}: counters of {} are not listed: add --periods", counted(count, "generator")));
    }
    Ok(())
}

/// Returns true if the counters of a generator have other names than the generator.
fn has_own_counters(generator: &Generator) -> bool {
    !generator.newest.is_empty() || generator.keys > 0
}

/// Fails if a store has such a generator of this name, because no sequence may have it.
pub(super) fn check_no_generator(opened: &mut OpenStore<'_>, key: &Key) -> Result<(), SequenceError> {
    let names = [key.name().to_owned()];
    let found = opened.read(|connection| connection.generators(Some(&names)))?;
    if key.is_plain() && found.iter().any(has_own_counters) {
        let [name] = names;
        return Err(SequenceError::IsGenerator { name });
    }
    Ok(())
}

pub(super) fn info(args: &InfoArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let key = parse_key(&args.name)?;
    let mut stores = args.at.stores()?;
    stores.server_command = format!("SEQUENCE INFO {}", shell_word(key.as_str()));
    let mut found = false;
    for index in 0..stores.count() {
        let mut opened = stores.connect_existing(index)?;
        let Some(row) = opened.read(|connection| connection.row(&key))? else {
            check_no_generator(&mut opened, &key)?;
            if stores.count() > 1 {
                writeln!(out, "{}: no such sequence", opened.store.shown())?;
            }
            continue;
        };
        found = true;
        if args.json {
            writeln!(out, "{}", json_of(&row, &opened))?;
        } else {
            describe(&row, &opened, out)?;
        }
    }
    if found {
        return Ok(());
    }
    Err(SequenceError::from(RowRefusal { name: args.name.clone(), verdict: Verdict::NoSuch }).into())
}

/// Returns the last value that may have been given; `None` if no server has reserved any.
fn last_reserved(row: &SequenceRow) -> Option<i64> {
    let is_fresh = row.next <= row.spec.next_from(row.spec.start);
    (!is_fresh).then(|| row.last())
}

fn line_of(row: &SequenceRow) -> String {
    let words = row.spec.words();
    let state = match row.state {
        RowState::Live => "",
        RowState::Dropped => "  dropped",
        RowState::WentBack => "  WENT BACK",
        RowState::Ledger => "  gapless",
    };
    let last = last_reserved(row).map_or_else(|| "-".to_owned(), |last| last.to_string());
    let text = format!("{:<40} {last:>19}  {words}{state}", row.key.as_str());
    text.trim_end().to_owned()
}

fn describe(row: &SequenceRow, opened: &OpenStore<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |name: &str, value: String| writeln!(out, "  {name:<10} {value}");
    let about = opened.about();
    line("store", format!("{} ({}), {}", opened.store.shown(), printable(&about.product), about.uuid))?;
    let reserved = last_reserved(row).map_or_else(
        || "nothing yet".to_owned(),
        |last| format!("to {last}: servers have given it, or hold it in memory, or have lost it in a crash"),
    );
    line("reserved", reserved)?;
    let next = match row.spec.first_from(row.next) {
        _ if row.state == RowState::Dropped => "none: it was dropped".to_owned(),
        Some(next) => next.to_string(),
        None => format!("none: max {} is reached", row.spec.max),
    };
    line("next", next)?;
    line("options", options(row))?;
    let state = match row.state {
        RowState::Live => "live".to_owned(),
        RowState::Dropped => "dropped".to_owned(),
        RowState::Ledger => "ledger: its numbers have a ledger, which alone moves it".to_owned(),
        RowState::WentBack => format!(
            "went back: it was found lower than a server had it, and gives nothing until `getid sequence raise {} LAST`",
            shell_word(row.key.as_str())
        ),
    };
    line("state", state)?;
    line("row", format!("version {}, generation {}", row.version, row.generation))?;
    for (name, unix_ms) in
        [("created", row.created_unix_ms), ("changed", row.updated_unix_ms), ("ends", row.ends_unix_ms)]
    {
        if unix_ms > 0 {
            line(name, UtcMs(unix_ms).to_string())?;
        }
    }
    for warning in &about.warnings {
        line("warning", warning.clone())?;
    }
    Ok(())
}

/// Formats all options, the defaults included.
fn options(row: &SequenceRow) -> String {
    let spec = &row.spec;
    let policy = match spec.policy {
        None => "from sequence-policy",
        Some(getid_core::server::WaitPolicy::Wait) => "wait",
        Some(getid_core::server::WaitPolicy::Error) => "error",
    };
    format!(
        "start {} increment {} offset {} cache {} max {} policy {policy}",
        spec.start, spec.increment, spec.offset, spec.cache, spec.max
    )
}

pub(super) fn json_of(row: &SequenceRow, opened: &OpenStore<'_>) -> Value {
    let spec = &row.spec;
    let state = match row.state {
        RowState::Live => "live",
        RowState::Dropped => "dropped",
        RowState::WentBack => "went-back",
        RowState::Ledger => "ledger",
    };
    let policy = match spec.policy {
        None => Value::Null,
        Some(getid_core::server::WaitPolicy::Wait) => json!("wait"),
        Some(getid_core::server::WaitPolicy::Error) => json!("error"),
    };
    json!({
        "name": row.key.name(),
        "series": row.key.series(),
        "period": row.key.period(),
        "store": opened.store.shown(),
        // As strings: 63 bits are more than a JSON number safely holds.
        "next": row.next.to_string(),
        "reserved_to": last_reserved(row).map(|last| last.to_string()),
        "start": spec.start.to_string(),
        "max": spec.max.to_string(),
        "increment": spec.increment,
        "offset": spec.offset,
        "cache": spec.cache,
        "policy": policy,
        "state": state,
        "version": row.version,
        "generation": row.generation,
        "created_unix_ms": row.created_unix_ms,
        "updated_unix_ms": row.updated_unix_ms,
        "ends_unix_ms": row.ends_unix_ms,
    })
}
