//! `getid import`: takes over counters from a Redis.
//!
//! A counter becomes a sequence that continues above it. An existing sequence is raised, never lowered, so a repeated
//! import changes only what has grown. A client that still counts in Redis during the import gets values that getid
//! does not see, and the sequence repeats them. Only stopped writers or renamed keys rule that out. A margin is a
//! guess.
//!
//! Counters are read page by page, so memory does not grow with their number. A counter that does not fit is reported
//! with the reason and left out.

mod error;
mod source;
mod target;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use getid_core::server::{Key, VALUE_MAX};
use serde_json::json;

use self::error::ImportError;
use self::source::{CounterValue, RedisSource, SourceKey, UnfitReason};
use self::target::{ImportOutcome, ImportTarget};
use super::exit::CliError;
use super::output::print;
use super::sequence::stores::{STORES_HELP, StoreArgs};
use super::server_args::{ServerArgs, TIMEOUT_MS_DEFAULT};
use getid_text::plural::{counted, thousands};
use getid_text::printable::printable_up_to;

/// Arguments of `getid import`.
#[derive(Args)]
#[command(override_usage = "getid import redis://[USER:PASSWORD@]HOST[:PORT][/DB] --pattern PATTERN [OPTIONS]", after_help = format!("\
A counter is a string that holds a number, or with --hash-field a field of a hash; its key becomes the sequence's name.

Before an import, stop all writers of the counters, or rename the keys and import the new names. A value that Redis gives after
the import has read the counter is given again by the sequence. A margin is an estimate of the number of such values, and no
guarantee. A repeated import changes only counters that have grown.

{STORES_HELP}
If a running server has its own SQLite file, create the sequences by its commands: --to redis://HOST:7890.

Examples:
  getid import redis://10.0.0.5/3 --pattern 'seq:*' --dry-run
  getid import redis://10.0.0.5/3 --pattern 'seq:*' --to redis://127.0.0.1:7890
  getid import rediss://app:secret@cache:6380 --pattern '*' --hash-field cur \\
    --store mysql://getid@db/ids"))]
pub(super) struct ImportArgs {
    /// The Redis that the counters are in
    #[arg(value_name = "REDIS")]
    redis: String,
    /// Keys that are counters: * ? [ ] as in SCAN
    #[arg(long, value_name = "PATTERN")]
    pattern: String,
    /// The field of a hash that is the counter; without it, hashes are left out
    #[arg(long, value_name = "FIELD")]
    hash_field: Option<String>,
    /// How far above the counter a sequence continues: an estimate of values given meanwhile [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=VALUE_MAX))]
    margin: Option<i64>,
    /// The margin as a percentage of the counter, rounded up; with both, the larger
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    margin_percent: Option<u32>,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// A running server, in place of stores: its SET creates and raises the sequences
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["stores", "table", "config", "dir", "server_id"])]
    to: Option<String>,
    /// As JSON, one object for each counter a line, and one with the sums
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: ServerArgs,
    #[command(flatten)]
    stores: StoreArgs,
}

pub(super) fn run(args: &ImportArgs) -> Result<ExitCode, CliError> {
    print(|out| {
        let mut sums = ImportTotals::default();
        let done = import(args, &mut sums, out);
        if let Err(CliError::Print(error)) = done {
            return Err(error.into());
        }
        if done.is_ok() || !sums.is_nothing() {
            sums.print(args, done.is_ok(), out)?;
        }
        done?;
        match sums.left_out {
            0 => Ok(ExitCode::SUCCESS),
            counters => Err(ImportError::LeftOut { counters }.into()),
        }
    })
}

fn import(args: &ImportArgs, sums: &mut ImportTotals, out: &mut dyn Write) -> Result<(), CliError> {
    let mut source = RedisSource::connect(&args.at, &args.redis, &args.pattern, args.hash_field.as_deref())?;
    let stores;
    let mut target = if let Some(server) = &args.to {
        ImportTarget::server(server, &args.at, TIMEOUT_MS_DEFAULT)?
    } else {
        stores = args.stores.stores()?;
        ImportTarget::stores(&stores)?
    };
    while let Some(page) = source.page()? {
        for SourceKey { key: name, counter } in page {
            match fit(&name, counter, args) {
                Ok(Some(fit)) => {
                    let done = target.import_counter(&fit.key, fit.last, args.dry_run)?;
                    sums.add(&done);
                    print_outcome(args, &fit, &done, out)?;
                }
                // The key was deleted while the page was read.
                Ok(None) => {}
                Err(unfit) => {
                    sums.left_out += 1;
                    left_out(args, &name, &unfit, out)?;
                }
            }
        }
        out.flush()?;
    }
    Ok(())
}

/// A counter that fits a sequence.
struct FittingCounter {
    key: Key,
    value: i64,
    /// The value plus the margin: the last value that counts as given.
    last: i64,
}

fn fit(name: &[u8], counter: CounterValue, args: &ImportArgs) -> Result<Option<FittingCounter>, UnfitReason> {
    let value = match counter {
        CounterValue::Gone => return Ok(None),
        CounterValue::Value(value) => value,
        CounterValue::Unfit(unfit) => return Err(unfit),
    };
    let key = str::from_utf8(name).ok().and_then(Key::new).ok_or(UnfitReason::Name)?;
    let percent = i128::from(value) * i128::from(args.margin_percent.unwrap_or(0));
    let margin = i128::from(args.margin.unwrap_or(0)).max((percent + 99).div_euclid(100));
    let last = i64::try_from(i128::from(value) + margin).ok().filter(|last| *last < VALUE_MAX);
    let last = last.ok_or(UnfitReason::TooLarge { value: value.to_string() })?;
    Ok(Some(FittingCounter { key, value, last }))
}

fn print_outcome(args: &ImportArgs, fit: &FittingCounter, done: &ImportOutcome, out: &mut dyn Write) -> io::Result<()> {
    let FittingCounter { key, value, last } = fit;
    if args.json {
        let (word, more) = match done {
            ImportOutcome::Created { next } => ("created", json!({ "next": next.to_string() })),
            ImportOutcome::Raised { from } => ("raised", json!({ "from": from.to_string() })),
            ImportOutcome::Same { at } => ("unchanged", json!({ "at": at.to_string() })),
            ImportOutcome::Refused(reason) => ("left-out", json!({ "why": reason.to_string() })),
        };
        let mut object =
            json!({ "name": key.as_str(), "value": value.to_string(), "last": last.to_string(), "done": word });
        if let (Some(object), serde_json::Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        return writeln!(out, "{object}");
    }
    let would = if args.dry_run { "would be " } else { "" };
    let counts = if value == last { format!("{value}") } else { format!("{value} with a margin to {last}") };
    match done {
        ImportOutcome::Created { next } => writeln!(out, "{key}: {would}created at {counts}, {next} is next"),
        ImportOutcome::Raised { from } => writeln!(out, "{key}: {would}raised from {from} to {counts}"),
        ImportOutcome::Same { at } => writeln!(out, "{key}: unchanged, it is at {at} and the counter at {counts}"),
        ImportOutcome::Refused(reason) => writeln!(out, "{key}: LEFT OUT: {reason}"),
    }
}

fn left_out(args: &ImportArgs, name: &[u8], unfit: &UnfitReason, out: &mut dyn Write) -> io::Result<()> {
    const NAME_CHARS_MAX: usize = 140;
    let name = printable_up_to(&String::from_utf8_lossy(name), NAME_CHARS_MAX);
    if args.json {
        return writeln!(out, "{}", json!({ "name": name, "done": "left-out", "why": unfit.to_string() }));
    }
    writeln!(out, "{name}: LEFT OUT: {unfit}")
}

/// Numbers of counters by result.
#[derive(Default)]
struct ImportTotals {
    created: u64,
    raised: u64,
    same: u64,
    left_out: u64,
}

impl ImportTotals {
    fn add(&mut self, done: &ImportOutcome) {
        match done {
            ImportOutcome::Created { .. } => self.created += 1,
            ImportOutcome::Raised { .. } => self.raised += 1,
            ImportOutcome::Same { .. } => self.same += 1,
            ImportOutcome::Refused(_) => self.left_out += 1,
        }
    }

    fn is_nothing(&self) -> bool {
        self.created + self.raised + self.same + self.left_out == 0
    }

    fn print(&self, args: &ImportArgs, is_whole: bool, out: &mut dyn Write) -> io::Result<()> {
        let ImportTotals { created, raised, same, left_out } = self;
        if args.json {
            let sums = json!({
                "created": created, "raised": raised, "unchanged": same, "left_out": left_out,
                "dry_run": args.dry_run, "whole": is_whole,
            });
            return writeln!(out, "{}", json!({ "sums": sums }));
        }
        if self.is_nothing() {
            return writeln!(out, "No key matches '{}': nothing to import", printable_up_to(&args.pattern, 100));
        }
        writeln!(out, "\n{self}{}", if args.dry_run { " (a dry run: nothing was changed)" } else { "" })?;
        if !is_whole {
            writeln!(out, "The import is NOT complete. Repeat it: imported counters stay, and are not imported twice")?;
        }
        let margin = args.margin.unwrap_or(0) > 0 || args.margin_percent.unwrap_or(0) > 0;
        let guess =
            if margin { " The margin is an estimate of the number of such values, and no guarantee." } else { "" };
        writeln!(
            out,
            "An INCR in Redis after the import has read the counter returns a value that the sequence returns again.{guess}\n\
             Writers must be stopped, or the keys renamed, before the import. Otherwise stop the writers and import again."
        )
    }
}

impl fmt::Display for ImportTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.created + self.raised + self.same + self.left_out;
        write!(
            f,
            "{}: {} created, {} raised, {} unchanged, {} left out",
            counted(all, "counter"),
            thousands(self.created),
            thousands(self.raised),
            thousands(self.same),
            thousands(self.left_out)
        )
    }
}
