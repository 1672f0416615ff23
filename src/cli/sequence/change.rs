//! `getid sequence create` and `getid sequence raise`.
//!
//! With several stores, each row has a share of the values, and a change is made in all stores. No change begins before
//! all stores have answered.

use std::io::Write;

use clap::Args;
use getid_core::server::{Spec, VALUE_MAX};

use super::error::{SequenceError, parse_key};
use super::show::{check_no_generator, json_of};
use super::stores::{OpenStore, RowRefusal, StoreArgs, drop_held_segments, spec_of_store};
use crate::cli::exit::CliError;
use getid_store::sql::{CreateRequest, RowChange, RowState, SequenceRow, Verdict};
use getid_text::shell::shell_word;

pub(super) const CREATE_EXAMPLES: &str = "\
OPTIONS are words as SEQUENCE CREATE has them, in any order: start N (the first value), increment N, offset N, cache N
(values of a reservation at least; 0: each value is in the store before its reply), max N, policy wait|error.

Examples:
  getid sequence create orders
  getid sequence create invoices start 1000 cache 0
  getid sequence create orders --store postgres://getid@db/ids?password-file=/etc/getid/db";

pub(super) const RAISE_EXAMPLES: &str = "\
Examples:
  getid sequence raise orders 120000
  getid sequence raise orders 120000 --json --store sqlite:/var/lib/getid/sequences-0.sqlite";

#[derive(Args)]
pub(super) struct CreateArgs {
    /// Its name: 1 to 128 of A-Z a-z 0-9 _ . : - { } #, blanks inside, @ between { and }
    #[arg(value_name = "NAME")]
    name: String,
    /// Its options [default: 1, 2, 3, ... with cache 100]
    #[arg(value_name = "OPTIONS")]
    options: Vec<String>,
    /// As JSON, one object for each store a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: StoreArgs,
}

#[derive(Args)]
pub(super) struct RaiseArgs {
    /// The sequence; NAME@PERIOD, or NAME/KEY@PERIOD, for the counter of a serial number
    #[arg(value_name = "NAME")]
    name: String,
    /// The last value that counts as given: the next one is larger
    #[arg(value_name = "LAST")]
    last: String,
    /// As JSON, one object for each store a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: StoreArgs,
}

pub(super) fn create(args: &CreateArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let key = parse_key(&args.name)?;
    if !key.is_plain() {
        return Err(SequenceError::PeriodCounter(key).into());
    }
    let words: Vec<&str> = args.options.iter().map(String::as_str).collect();
    let spec = Spec::default().with(&words).map_err(SequenceError::from)?;
    let mut stores = args.at.stores()?;
    stores.server_command = format!("SEQUENCE CREATE {} {}", shell_word(key.as_str()), args.options.join(" "));
    let mut specs = Vec::new();
    for index in 0..stores.count() {
        specs.push(spec_of_store(spec, index, stores.count())?);
    }
    if stores.count() > 1 && spec.cache == 0 {
        return Err(SequenceError::CacheOfSeveralStores.into());
    }
    let mut all = stores.connect_all()?;
    // If an earlier create reached only some of the stores, this one reaches the others.
    let mut missing = Vec::new();
    let mut there = None;
    // A row created next to those of other stores begins above them, because it may be a lost row.
    let mut floor = 0;
    for (opened, spec) in all.iter_mut().zip(specs) {
        match opened.read(|connection| connection.row(&key))?.filter(|row| row.state != RowState::Dropped) {
            None => {
                check_no_generator(opened, &key)?;
                missing.push((opened, spec));
            }
            Some(row) if stores.count() > 1 && row.spec != spec => {
                let (shown, words) = (opened.store.shown().to_owned(), row.spec.words());
                return Err(SequenceError::OtherOptions { shown, key, words }.into());
            }
            Some(row) => {
                floor = floor.max(row.next);
                there = Some(row);
            }
        }
    }
    let refused = |verdict| SequenceError::from(RowRefusal { name: args.name.clone(), verdict });
    if let (true, Some(row)) = (missing.is_empty(), there) {
        return Err(refused(Verdict::Exists(Box::new(row))).into());
    }
    for (opened, spec) in missing {
        let new = CreateRequest {
            key: key.clone(),
            spec,
            above_dropped: true,
            fresh_after_ms: None,
            floor,
            values: 0,
            rows_max: 0,
            server: None,
        };
        match opened.write_row(|connection| connection.create(&new))? {
            Ok(row) if args.json => writeln!(out, "{}", json_of(&row, opened))?,
            Ok(row) => writeln!(out, "{}", created_message(&row, opened))?,
            Err(verdict) => return Err(refused(verdict).into()),
        }
    }
    Ok(())
}

/// Returns the message about a created row. It names the store, because a command without `--config` uses the store of
/// an installed server, which may not be intended.
fn created_message(row: &SequenceRow, opened: &OpenStore<'_>) -> String {
    let above = if row.generation > 0 { ", above the values of the dropped sequence" } else { "" };
    format!("created '{}' in {}: {} is the first value{above}", row.key, opened.store.shown(), row.next)
}

pub(super) fn raise(args: &RaiseArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let key = parse_key(&args.name)?;
    let is_number = !args.last.is_empty() && args.last.bytes().all(|byte| byte.is_ascii_digit());
    let last = args.last.parse().ok().filter(|last: &i64| is_number && *last <= VALUE_MAX);
    let last = last.ok_or_else(|| SequenceError::Value(args.last.clone()))?;
    let mut stores = args.at.stores()?;
    stores.server_command = format!("SEQUENCE RAISE {} {last}", shell_word(key.as_str()));
    let mut all = stores.connect_all_existing()?;
    let is_shared = all.iter().any(|opened| opened.store.is_shared());
    let mut refused = None;
    let mut raised = 0;
    for opened in &mut all {
        let change = RowChange::Raise { last, settles: Some(0) };
        let was_past = opened.read(|connection| connection.row(&key))?.is_some_and(|row| row.next > last);
        let mut changed = opened.write_row(|connection| connection.change(&key, &change))?;
        if let Err(Verdict::Lower { row }) = &changed
            && let Some(row) = drop_held_segments(opened, &key, row, last)?
        {
            changed = Ok(row);
        }
        match changed {
            Ok(row) => {
                raised += 1;
                let place = if stores.count() > 1 { format!(" in {}", opened.store.shown()) } else { String::new() };
                let next = row.next;
                if args.json {
                    writeln!(out, "{}", json_of(&row, opened))?;
                } else if was_past {
                    writeln!(out, "'{key}' is past {last} already{place}: {next} is the next value")?;
                } else {
                    writeln!(out, "raised '{key}'{place}: {next} is the next value")?;
                }
            }
            Err(Verdict::NoSuch) if refused.is_none() => {
                check_no_generator(opened, &key)?;
                refused = Some(Verdict::NoSuch);
            }
            // With several stores, one may be past the value already.
            Err(verdict) if matches!(refused, None | Some(Verdict::Lower { .. })) => refused = Some(verdict),
            Err(_) => {}
        }
    }
    match refused {
        Some(verdict) if raised == 0 || !matches!(verdict, Verdict::Lower { .. }) => {
            return Err(SequenceError::from(RowRefusal { name: args.name.clone(), verdict }).into());
        }
        _ => {}
    }
    if is_shared && !args.json {
        writeln!(
            out,
            "Servers that hold values in memory drop them within a second or two; one that cannot read the store gives \
             none {} s after it last could. So it holds everywhere in {} s at the latest, where servers have \
             sequence-ride-out-s {}",
            stores.ride_out_s,
            stores.ride_out_s + 2,
            stores.ride_out_s
        )?;
    }
    Ok(())
}
