//! `getid state`: look at the records in a folder, and move one ahead.
//!
//! Moving ahead is the remedy that errors name: for a record that is damaged, that a newer getid or another epoch wrote,
//! or that was lost with its disk; and the first step when a server takes over from one that kept no record. It takes
//! the same claim as a server does, so it cannot happen under one that runs.
//!
//! It never goes back: what is written is the later of what was there and what was asked for. Of a record that is damaged,
//! the lines count that are whole. There is no way to undo a
//! step too far, so one that is more than a day ahead of the clock is refused unless it is forced.
//!
//! The largest ID in a table is not the largest that was given: some were still under way when it was looked up. All that
//! was under way lies less than B and the room of one save past that ID or past the clock, whichever is later, so that
//! is the margin; and R is put where IDs come at once. B and the rest are as a server has them that starts with the same
//! file and environment.

use std::ffi::OsString;
use std::fmt::{Display, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use getid_core::{Epoch, Id, JUMP_MS_MAX, Layout, SAVE_SLACK_MS, SavePoint, Tick, UtcMs};

use super::layout::LayoutArgs;
use super::output;
use crate::claim::envelope::salvaged_borrow_ms;
use crate::claim::folder::{BORROW_MS_MAX, advance_command};
use crate::claim::lock::{LockedFolder, Names, holder_of};
use crate::claim::record::salvaged_ticks;
use crate::claim::{Identity, MachineClaim, MachineError, Record};
use crate::config::load::{Dir, RealFiles};
use crate::config::{Config, Sources, StateKind};
use crate::system::clock::wall_unix_ms;
use crate::text::timestamp::Time;

const DAY_MS: u64 = 86_400_000;

/// Any of these in the environment says which layout a server here has.
const LAYOUT_VARIABLES: [&str; 5] =
    ["GETID_ID_GENERATOR", "GETID_ID_RANGE", "GETID_SHARD_RANGE", "GETID_RANDOM_RANGE", "GETID_ID_EPOCH"];

/// Arguments of `getid state`.
#[derive(Args, Debug)]
pub struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Subcommand, Debug)]
enum StateCommand {
    /// Print the records in a folder
    ///
    /// Says for each server-id how far its IDs may have come, how that stands to the clock, and which process holds it.
    /// Exits 1 when there is no record, or one that a server would not start with.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// Move a server's record ahead, so that it gives no ID before a given one or a given time
    ///
    /// Makes the record where there is none, and replaces one that cannot be read (a copy is kept). Never goes back. The
    /// server must not be running.
    #[command(after_help = ADVANCE_EXAMPLES)]
    Advance(AdvanceArgs),
}

const SHOW_EXAMPLES: &str = "\
Examples:
  getid state show /var/lib/getid
  getid state show --server-id 0 --json";

const ADVANCE_EXAMPLES: &str = "\
Examples:
  getid state advance --config /etc/getid/getid.conf --past-id 144182328657192148
  getid state advance /var/lib/getid --server-id 0 --past-id 144182328657192148
  getid state advance --server-id 1 --to 2026-11-21T00:00:00Z";

#[derive(Args, Debug)]
struct ShowArgs {
    /// The folder, as the server has it in dir; without it, the one that the configuration names
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The server's configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only this server's
    #[arg(long, value_name = "N")]
    server_id: Option<u32>,
    /// As JSON, an array with one object for each record
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct AdvanceArgs {
    /// The folder, as the server has it in dir; without it, the one that the configuration names
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Whose record; without it, the one that the configuration names
    #[arg(long, value_name = "N")]
    server_id: Option<u32>,
    #[command(flatten)]
    target: TargetArgs,
    /// The largest id-max-borrow-ms that the server has had; the record's and the configuration's count too
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=BORROW_MS_MAX))]
    max_borrow: Option<u64>,
    /// Do it even where the record then lies more than a day ahead of the clock, or 400 days behind it
    #[arg(long)]
    force: bool,
    /// Where a flag is not given, the configuration's value holds; where that says nothing of a layout, the record's own;
    /// and without a record the default.
    #[command(flatten)]
    layout: LayoutArgs,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Every new ID will be above this one: the largest in any table, whichever server gave it
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    past_id: Option<i64>,
    /// Every new ID will carry this time or a later one: Unix ms, RFC 3339, a date in UTC, or now
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    to: Option<String>,
}

/// Does what `args` say, by this machine's clock.
pub fn run(args: StateArgs) -> ExitCode {
    let StateArgs { command } = args;
    match answer(&command, wall_unix_ms(), std::env::vars_os().collect()) {
        Ok(Answer { text, good }) => {
            let code = if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            output::finish(output::print(|out| out.write_all(text.as_bytes())), code)
        }
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// What [`run`] does at a given time and in a given environment: the text for standard output, and whether the exit code is 0; or the complaint.
///
/// # Errors
///
/// The sentence for standard error.
#[doc(hidden)]
pub fn run_at(
    args: &StateArgs,
    now_unix_ms: i64,
    environment: Vec<(OsString, OsString)>,
) -> Result<(String, bool), String> {
    answer(&args.command, now_unix_ms, environment).map(|Answer { text, good }| (text, good))
}

struct Answer {
    text: String,
    /// Exit code 0.
    good: bool,
}

type Environment = Vec<(OsString, OsString)>;

fn answer(command: &StateCommand, now_unix_ms: i64, environment: Environment) -> Result<Answer, String> {
    match command {
        StateCommand::Show(args) => show(args, now_unix_ms, &configured(args.config.clone(), environment)?),
        StateCommand::Advance(args) => {
            let configured = configured(args.layout.config(), environment)?;
            advance(args, now_unix_ms, &configured).map(|text| Answer { text, good: true })
        }
    }
}

/// What a server has that starts with the same file and environment.
struct Configured {
    config: Config,
    /// Whether they say which layout it has.
    says_layout: bool,
    environment: Environment,
}

impl Configured {
    /// The folder of the state: `named`, or where that server would have it.
    fn dir(&self, named: Option<&PathBuf>) -> Result<Dir, String> {
        let dir = named.or(self.config.dir.as_ref()).cloned();
        let config = Config { dir, id_state: StateKind::File, ..self.config.clone() };
        let here = std::env::current_dir().map_err(|error| format!("the working folder: {error}"))?;
        Dir::find(&config, &self.environment, &here).map_err(|report| report.sentences())
    }
}

fn configured(file: Option<PathBuf>, environment: Environment) -> Result<Configured, String> {
    let says_layout = file.is_some() || environment.iter().any(|(name, _)| LAYOUT_VARIABLES.iter().any(|v| name == v));
    let sources = Sources { file, environment, words: Vec::new() };
    // Warnings are for who starts the server.
    let (config, _) = Config::load(&sources, &RealFiles).map_err(|report| format!("configuration:\n{report}"))?;
    Ok(Configured { config, says_layout, environment: sources.environment })
}

// Show.

/// What is in a folder about one server.
struct Sight {
    server_id: u32,
    path: PathBuf,
    /// The record, or why a server would not start with it.
    record: Result<Record, String>,
    /// What makes a record of one that is of no use.
    remedy: String,
    /// "pid 123", or why that is not known.
    holder: Result<Option<String>, String>,
}

fn show(args: &ShowArgs, now_unix_ms: i64, configured: &Configured) -> Result<Answer, String> {
    let config = &configured.config;
    let dir = configured.dir(args.dir.as_ref())?.path;
    let dir = std::path::absolute(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let sights: Vec<Sight> = server_ids(&dir)
        .map_err(|error| format!("cannot read the folder {}: {error}", dir.display()))?
        .into_iter()
        .filter(|&server_id| args.server_id.is_none_or(|wanted| wanted == server_id))
        .map(|server_id| look(&dir, server_id, config))
        .collect();
    let good = !sights.is_empty() && sights.iter().all(|sight| sight.record.is_ok());
    if args.json {
        let list: Vec<_> = sights.iter().map(|sight| sight.to_json(now_unix_ms)).collect();
        return Ok(Answer { text: format!("{:#}\n", serde_json::Value::Array(list)), good });
    }
    if sights.is_empty() {
        let whose = args.server_id.map_or_else(|| "getid-*.state".to_owned(), |id| Names::of(id).state);
        return Err(format!("no record ({whose}) in {}", dir.display()));
    }
    let texts: Vec<_> = sights.iter().map(|sight| sight.to_text(now_unix_ms)).collect();
    Ok(Answer { text: texts.join("\n"), good })
}

/// The servers with a record in `dir`, ascending.
fn server_ids(dir: &Path) -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("getid-")?.strip_suffix(".state")?.parse().ok());
        // `parse` also takes "+1" and "01", which are nobody's.
        ids.extend(id.filter(|&id| name == *Names::of(id).state));
    }
    ids.sort_unstable();
    Ok(ids)
}

fn look(dir: &Path, server_id: u32, config: &Config) -> Sight {
    let path = dir.join(Names::of(server_id).state);
    let record = crate::claim::lock::read(&path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| Record::parse(&bytes.unwrap_or_default()).map_err(|error| error.to_string()))
        .and_then(|record| {
            let named = Identity { server_id, layout: record.identity.layout };
            record.adopted_by(named).map_err(|error| error.to_string())
        });
    let holder = holder_of(dir, server_id).map_err(|error| error.to_string());
    let remedy = advance_command(dir, Identity { server_id, layout: config.layout }, config.id_max_borrow_ms, None);
    Sight { server_id, path, record, remedy, holder }
}

impl Sight {
    fn to_text(&self, now_unix_ms: i64) -> String {
        let mut text = format!("server-id {}: {}\n", self.server_id, self.path.display());
        let mut line = |name: &str, value: &dyn Display| push_line(&mut text, name, value);
        match &self.record {
            Ok(record) => {
                let layout = record.identity.layout;
                let SavePoint { watermark, reference, max_borrow_ms } = record.point;
                if record.point.is_nothing() {
                    line("ids", &"none was given");
                } else {
                    for (name, tick) in [("watermark", watermark), ("reference", reference)] {
                        line(name, &describe(tick, layout, now_unix_ms));
                    }
                    line("ids", &format_args!("given: below {}; after a restart: none below it", first_id(watermark)));
                }
                line("layout", &describe_layout(layout));
                match max_borrow_ms {
                    0 => line("borrow", &"not known: an older getid has written this"),
                    ms => line("borrow", &format_args!("IDs were at most {ms} ms ahead of the reference")),
                }
                line("term", &format_args!("{}, the number of this life", record.owner.term));
            }
            Err(error) => {
                line("unusable", error);
                line("remedy", &format_args!("run {}; do not delete the file", self.remedy));
            }
        }
        match &self.holder {
            Ok(Some(holder)) => line("in use by", holder),
            Ok(None) => line("in use by", &"nobody"),
            Err(error) => line("in use by", &format_args!("not known: {error}")),
        }
        text
    }

    fn to_json(&self, now_unix_ms: i64) -> serde_json::Value {
        let mut value = serde_json::json!({
            "server_id": self.server_id,
            "path": self.path.display().to_string(),
            "in_use_by": self.holder.as_ref().ok().and_then(Option::as_ref),
        });
        let more = match &self.record {
            Ok(record) => {
                let layout = record.identity.layout;
                let epoch = layout.epoch();
                let SavePoint { watermark, reference, max_borrow_ms } = record.point;
                serde_json::json!({
                    "epoch_unix_ms": epoch.unix_ms(),
                    "id_range": layout.server_bits(),
                    "shard_range": layout.shard_bits(),
                    "random_range": layout.random_bits(),
                    "watermark_tick": watermark.0,
                    "watermark_time": UtcMs(watermark.unix_ms(epoch)).to_string(),
                    "watermark_ahead_ms": watermark.unix_ms(epoch) - now_unix_ms,
                    "reference_tick": reference.0,
                    "reference_time": UtcMs(reference.unix_ms(epoch)).to_string(),
                    "reference_ahead_ms": reference.unix_ms(epoch) - now_unix_ms,
                    "max_borrow_ms": max_borrow_ms,
                    "term": record.owner.term.0,
                    // A string, as 63 bits are more than a JSON number safely holds.
                    "ids_below": first_id(watermark),
                })
            }
            Err(error) => serde_json::json!({ "error": error }),
        };
        if let (Some(value), serde_json::Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        value
    }
}

fn push_line(text: &mut String, name: &str, value: &dyn Display) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "  {name:<10} {value}");
}

/// A tick as the operator needs it: the time, and how that stands to the clock.
fn describe(tick: Tick, layout: Layout, now_unix_ms: i64) -> String {
    let unix_ms = tick.unix_ms(layout.epoch());
    let distance = match unix_ms.saturating_sub(now_unix_ms) {
        0 => "now".to_owned(),
        ahead @ 1.. => format!("{} ahead of the clock", duration(ahead.unsigned_abs())),
        behind => format!("{} behind the clock", duration(behind.unsigned_abs())),
    };
    format!("{} (tick {}), {distance}", UtcMs(unix_ms), tick.0)
}

fn describe_layout(layout: Layout) -> String {
    format!(
        "id-range {} shard-range {} random-range {}, epoch {} ({})",
        layout.server_bits(),
        layout.shard_bits(),
        layout.random_bits(),
        layout.epoch().unix_ms(),
        UtcMs(layout.first_unix_ms())
    )
}

/// The smallest ID that any server could give at `watermark`: all before it are smaller, all from it on are not.
fn first_id(watermark: Tick) -> String {
    match Layout::default().span(watermark.min(Tick::LAST), watermark.min(Tick::LAST)) {
        (first, _) if watermark <= Tick::LAST => first.to_string(),
        _ => "2^63, past the last of all".to_owned(),
    }
}

/// Milliseconds in the two largest units that say something.
fn duration(ms: u64) -> String {
    let (s, min, h) = (1000, 60_000, 3_600_000);
    let day = 24 * h;
    match ms {
        ms if ms < s => format!("{ms} ms"),
        ms if ms < min => format!("{}.{:03} s", ms / s, ms % s),
        ms if ms < h => format!("{} min {} s", ms / min, ms % min / s),
        ms if ms < 2 * day => format!("{} h {} min", ms / h, ms % h / min),
        ms => format!("{} days", ms / day),
    }
}

// Advance.

/// What there was before.
enum Before {
    Nothing,
    /// `is_ours`: it is damaged, and not another server's.
    Unusable {
        bytes: Vec<u8>,
        error: String,
        is_ours: bool,
    },
    Record(Record),
}

fn advance(args: &AdvanceArgs, now_unix_ms: i64, configured: &Configured) -> Result<String, String> {
    let Configured { config, says_layout, .. } = configured;
    let server_id = args.server_id.or(config.server_id_given.then_some(config.server_id)).ok_or(
        "whose record? Name the server with --server-id, or give its configuration with --config, server-id in it",
    )?;
    // Made as a start makes it: this is the first step of moving over, before any start.
    let dir = configured.dir(args.dir.as_ref())?;
    dir.make().map_err(|report| report.sentences())?;
    let dir = &dir.path;
    // A server in another folder goes on giving IDs past the one that was looked up.
    let epoch = args.layout.layout_over(config.layout).map_or(config.layout, |layout| layout).epoch();
    let machine = config.id_machine_claim.then(|| MachineClaim::bind(server_id, epoch, Some(dir)));
    if let Some(Err(held @ MachineError::Held { .. })) = &machine {
        return Err(held.to_string());
    }
    let mut locked = LockedFolder::lock(dir, Names::of(server_id)).map_err(|error| error.to_string())?;
    let before = match locked.read().map_err(|error| error.to_string())? {
        None => Before::Nothing,
        Some(bytes) => match Record::parse(&bytes) {
            Ok(record) if record.identity.server_id == server_id => Before::Record(record),
            Ok(other) => {
                let error = format!("it is the record of server-id {}", other.identity.server_id);
                Before::Unusable { bytes, error, is_ours: false }
            }
            Err(error) => Before::Unusable { bytes, error: error.to_string(), is_ours: true },
        },
    };
    let base = match &before {
        Before::Record(record) if !says_layout => record.identity.layout,
        Before::Record(_) | Before::Nothing | Before::Unusable { .. } => config.layout,
    };
    let layout = args.layout.layout_over(base)?;
    if !layout.has_server(server_id) {
        let most = (1_u32 << layout.server_bits()) - 1;
        return Err(format!("server-id {server_id} does not fit id-range {}: at most {most}", layout.server_bits()));
    }
    let identity = Identity { server_id, layout };
    let target = args.target.target(layout.epoch(), now_unix_ms)?;
    let old = match &before {
        // A life that gave no ID has said nothing.
        Before::Record(record) => Some(carried_over(record, identity)).filter(|point| !point.is_nothing()),
        Before::Nothing | Before::Unusable { .. } => None,
    };
    // A record that reads counts, and what can be read of one that does not.
    let floor = match &before {
        Before::Unusable { bytes, is_ours, .. } => {
            let salvaged = is_ours.then(|| salvaged_ticks(bytes, layout.epoch()));
            let (watermark, reference) = salvaged.unwrap_or((Tick(0), Tick(0)));
            SavePoint { watermark, reference, max_borrow_ms: salvaged_borrow_ms(bytes, BORROW_MS_MAX) }
        }
        Before::Nothing | Before::Record(_) => old.unwrap_or(SavePoint::NOTHING),
    };
    let max_borrow_ms = floor.max_borrow_ms.max(config.id_max_borrow_ms).max(args.max_borrow.unwrap_or(0));
    let point = advanced(floor, old.is_some(), target, max_borrow_ms, layout.epoch(), now_unix_ms);
    if point.watermark == Tick::END {
        let last = UtcMs(Tick::LAST.unix_ms(layout.epoch()));
        return Err(format!("there would be no IDs past this record: the time of IDs ends {last}"));
    }
    let record = Record { identity, point, owner: locked.owner() };

    let mut text = format!("server-id {server_id}: {}\n", locked.state_path().display());
    let mut line = |name: &str, value: &dyn Display| push_line(&mut text, name, value);
    match &before {
        Before::Nothing => line("before", &"no record"),
        Before::Unusable { error, .. } => line("before", &format_args!("a record of no use: {error}")),
        Before::Record(before) if before.point.is_nothing() => line("before", &"a record of no ID"),
        Before::Record(before) => {
            line("before", &describe(before.point.watermark, before.identity.layout, now_unix_ms));
        }
    }
    if matches!(&before, Before::Record(before) if (before.identity, before.point) == (identity, point)) {
        line("after", &"the same: this is already later than what was asked for, and a record never goes back");
        return Ok(text);
    }
    check_distance(point, layout.epoch(), now_unix_ms, args.force)?;
    if let Before::Unusable { bytes, .. } = &before {
        let copy = locked.copy_aside(bytes, now_unix_ms).map_err(|error| {
            format!("cannot keep a copy of {}, so it is left as it is: {error}", locked.state_path().display())
        })?;
        line("copy", &copy.display());
    }
    match locked.save(&record.to_text()).map_err(|error| error.to_string())? {
        None => {}
        Some(lost) => return Err(format!("claim lost: {}", locked.describe(lost))),
    }

    line("after", &describe(point.watermark, layout, now_unix_ms));
    if !matches!(&before, Before::Record(before) if before.identity == identity) {
        line("layout", &describe_layout(layout));
    }
    if matches!(before, Before::Unusable { .. }) && floor.watermark > Tick(0) {
        line("salvaged", &format_args!("watermark {}", describe(floor.watermark, layout, now_unix_ms)));
    }
    line("borrow", &format_args!("IDs under way were at most {max_borrow_ms} ms ahead (--max-borrow, if it was more)"));
    line("ids", &format_args!("every new ID will be at least {}", first_id(point.watermark)));
    line("clock", &clock_line(point, layout.epoch(), now_unix_ms));
    Ok(text)
}

/// What new IDs have to be past.
#[derive(Clone, Copy)]
enum Target {
    /// The tick of an ID that was given.
    Past(Tick),
    /// The first tick that they may carry.
    From(Tick),
}

impl TargetArgs {
    fn target(&self, epoch: Epoch, now_unix_ms: i64) -> Result<Target, String> {
        let last = UtcMs(Tick::LAST.unix_ms(epoch));
        if let Some(number) = self.past_id {
            let id = u64::try_from(number).ok().and_then(Id::new).ok_or("--past-id: an ID is not negative")?;
            // The tick is the upper 42 bits in every layout. Which server gave the ID does not matter: the fork's
            // corrupt IDs wear other servers' ids.
            return Ok(Target::Past(Layout::default().split(id).tick));
        }
        let text = self.to.as_deref().unwrap_or_default();
        let unix_ms = Time::parse(text).map_err(|error| format!("--to: {error}"))?.unix_ms(now_unix_ms);
        epoch
            .tick_at(unix_ms)
            .map(Target::From)
            .ok_or_else(|| format!("--to {text}: the time of IDs is {} to {last}", UtcMs(Tick(0).unix_ms(epoch))))
    }
}

/// The point of `record` in the ticks of `identity`, whatever its epoch is.
///
/// Under a later epoch, where a server refuses to start, the watermark stays the same number, as IDs below it must not
/// come again. It then lies ahead of the clock by as much as the epochs lie apart.
fn carried_over(record: &Record, identity: Identity) -> SavePoint {
    record.adopted_by(identity).map_or(record.point, |adopted| adopted.point)
}

/// The later of what there was and what is asked for.
///
/// `is_known`: what there was says all that was given.
fn advanced(
    floor: SavePoint,
    is_known: bool,
    target: Target,
    max_borrow_ms: u64,
    epoch: Epoch,
    now_unix_ms: i64,
) -> SavePoint {
    let now = epoch.tick_at(now_unix_ms).unwrap_or(Tick(0));
    // Whoever gave that ID, or gives IDs now, has given none past this: B ahead of its time, and the room of one save.
    let past = |tick: Tick| tick.max(now).plus_ms(1 + max_borrow_ms + SAVE_SLACK_MS);
    let wanted = match target {
        Target::Past(tick) => past(tick),
        Target::From(tick) if is_known => tick,
        Target::From(tick) => tick.max(past(now)),
    };
    let watermark = floor.watermark.max(wanted);
    // Any lower, and the watermark would lie beyond the borrow limit: requests would wait until time has come there.
    let reference = floor.reference.max(Tick(watermark.0.saturating_sub(max_borrow_ms)));
    SavePoint { watermark, reference, max_borrow_ms }
}

/// Refuses a watermark that a server would not give IDs with, or that no one can have meant.
fn check_distance(point: SavePoint, epoch: Epoch, now_unix_ms: i64, force: bool) -> Result<(), String> {
    let unix_ms = point.watermark.unix_ms(epoch);
    let distance_ms = unix_ms.abs_diff(now_unix_ms);
    let ahead = unix_ms > now_unix_ms;
    if force || distance_ms <= if ahead { DAY_MS } else { JUMP_MS_MAX } {
        return Ok(());
    }
    let (time, now, distance) = (UtcMs(unix_ms), UtcMs(now_unix_ms), duration(distance_ms));
    Err(if ahead {
        format!(
            "the record would be at {time}, {distance} ahead of the clock ({now}). IDs would run ahead of it until {}, \
             and a record never goes back. If the clock is wrong, set it; if this is meant, add --force",
            ahead_until(point, epoch, now_unix_ms)
        )
    } else {
        format!(
            "the record would be at {time}, {distance} behind the clock ({now}), and a server gives no IDs with a clock \
             so far past its record. If the clock is right, use --to with a time near it; if it is wrong, set it, or add \
             --force"
        )
    })
}

/// When the clock has caught up with IDs that start at `point`.
fn ahead_until(point: SavePoint, epoch: Epoch, now_unix_ms: i64) -> UtcMs {
    // The reference clock goes at nine tenths of real speed until the clock has caught up.
    let ahead_ms = u64::try_from(point.reference.unix_ms(epoch).saturating_sub(now_unix_ms)).unwrap_or(0);
    let slewed = now_unix_ms.saturating_add_unsigned(ahead_ms.saturating_mul(10));
    UtcMs(slewed.max(point.watermark.unix_ms(epoch)))
}

/// How the clock stands to the first IDs.
fn clock_line(point: SavePoint, epoch: Epoch, now_unix_ms: i64) -> String {
    let now = UtcMs(now_unix_ms);
    match u64::try_from(point.watermark.unix_ms(epoch).saturating_sub(now_unix_ms)).unwrap_or(0) {
        0 => format!("{now}, past the watermark: IDs carry its time from the start"),
        ms => format!(
            "{now}: IDs start {} ahead of it, and run ahead less and less until {}",
            duration(ms),
            ahead_until(point, epoch, now_unix_ms)
        ),
    }
}
