//! `getid state`: look at the records in a folder, and move one ahead.
//!
//! Moving ahead is the remedy that errors name: for a record that is damaged, that a newer getid or another epoch wrote,
//! or that was lost with its disk; and the first step when a server takes over from one that kept no record. It takes
//! the same claim as a server does, so it cannot happen under one that runs.
//!
//! It never goes back: what is written is the later of what was there and what was asked for. There is no way to undo a
//! step too far, so one that is further from the clock than a server follows is refused unless it is forced.

use std::fmt::{Display, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::layout::LayoutArgs;
use super::output;
use crate::id::reference::JUMP_MS_MAX;
use crate::id::{Epoch, Id, Layout, Limits, SavePoint, Tick, UtcMs};
use crate::timestamp::parse_unix_ms;
use crate::watermark::claim::{Claim, Names, holder};
use crate::watermark::{Identity, Record};

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
  getid state advance /var/lib/getid --server-id 0 --past-id 144182328657192148
  getid state advance --server-id 1 --to 2026-11-21T00:00:00Z";

#[derive(Args, Debug)]
struct ShowArgs {
    /// The folder, as the server has it in dir
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Only this server's
    #[arg(long, value_name = "N")]
    server_id: Option<u32>,
    /// As JSON, an array with one object for each record
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct AdvanceArgs {
    /// The folder, as the server has it in dir
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Whose record
    #[arg(long, value_name = "N")]
    server_id: u32,
    #[command(flatten)]
    target: TargetArgs,
    /// Do it even where the record then lies more than 400 days from the clock
    #[arg(long)]
    force: bool,
    /// Where a flag is not given, the record's own value holds, and without a record the default.
    #[command(flatten)]
    layout: LayoutArgs,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Every new ID will be above this one: the largest in any table, whichever server gave it
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    past_id: Option<i64>,
    /// Every new ID will carry this time or a later one; Unix ms or RFC 3339
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    to: Option<String>,
}

/// Does what `args` say, by this machine's clock.
pub fn run(args: StateArgs) -> ExitCode {
    let StateArgs { command } = args;
    match answer(&command, super::wall_unix_ms()) {
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

/// What [`run`] does at a given time: the text for standard output, and whether the exit code is 0; or the complaint.
///
/// # Errors
///
/// The sentence for standard error.
#[doc(hidden)]
pub fn run_at(args: &StateArgs, now_unix_ms: i64) -> Result<(String, bool), String> {
    answer(&args.command, now_unix_ms).map(|Answer { text, good }| (text, good))
}

struct Answer {
    text: String,
    /// Exit code 0.
    good: bool,
}

fn answer(command: &StateCommand, now_unix_ms: i64) -> Result<Answer, String> {
    match command {
        StateCommand::Show(args) => show(args, now_unix_ms),
        StateCommand::Advance(args) => advance(args, now_unix_ms).map(|text| Answer { text, good: true }),
    }
}

// Show.

/// What is in a folder about one server.
struct Sight {
    server_id: u32,
    path: PathBuf,
    /// The record, or why a server would not start with it.
    record: Result<Record, String>,
    /// "pid 123", or why that is not known.
    holder: Result<Option<String>, String>,
}

fn show(args: &ShowArgs, now_unix_ms: i64) -> Result<Answer, String> {
    let dir = std::path::absolute(&args.dir).map_err(|error| format!("{}: {error}", args.dir.display()))?;
    let sights: Vec<Sight> = server_ids(&dir)
        .map_err(|error| format!("cannot read the folder {}: {error}", dir.display()))?
        .into_iter()
        .filter(|&server_id| args.server_id.is_none_or(|wanted| wanted == server_id))
        .map(|server_id| look(&dir, server_id))
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

fn look(dir: &Path, server_id: u32) -> Sight {
    let path = dir.join(Names::of(server_id).state);
    let record = crate::watermark::claim::read(&path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| Record::parse(&bytes.unwrap_or_default()).map_err(|error| error.to_string()))
        .and_then(|record| {
            let named = Identity { server_id, layout: record.identity.layout };
            record.adopted_by(named).map_err(|error| error.to_string())
        });
    let holder = holder(dir, server_id).map_err(|error| error.to_string());
    Sight { server_id, path, record, holder }
}

impl Sight {
    fn to_text(&self, now_unix_ms: i64) -> String {
        let mut text = format!("server-id {}: {}\n", self.server_id, self.path.display());
        let mut line = |name: &str, value: &dyn Display| push_line(&mut text, name, value);
        match &self.record {
            Ok(record) => {
                let layout = record.identity.layout;
                let SavePoint { watermark, reference } = record.point;
                for (name, tick) in [("watermark", watermark), ("reference", reference)] {
                    line(name, &describe(tick, layout, now_unix_ms));
                }
                line("ids", &format_args!("given: below {}; after a restart: none below it", first_id(watermark)));
                line("layout", &describe_layout(layout));
            }
            Err(error) => {
                line("unusable", error);
                line("remedy", &"getid state advance (see its --help); do not delete the file");
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
                let SavePoint { watermark, reference } = record.point;
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
    Unusable { bytes: Vec<u8>, error: String },
    Record(Record),
}

fn advance(args: &AdvanceArgs, now_unix_ms: i64) -> Result<String, String> {
    let server_id = args.server_id;
    let mut claim = Claim::take(&args.dir, server_id).map_err(|error| error.to_string())?;
    let before = match claim.read().map_err(|error| error.to_string())? {
        None => Before::Nothing,
        Some(bytes) => match Record::parse(&bytes) {
            Ok(record) if record.identity.server_id == server_id => Before::Record(record),
            Ok(other) => {
                let error = format!("it is the record of server-id {}", other.identity.server_id);
                Before::Unusable { bytes, error }
            }
            Err(error) => Before::Unusable { bytes, error: error.to_string() },
        },
    };
    let base = match &before {
        Before::Record(record) => record.identity.layout,
        Before::Nothing | Before::Unusable { .. } => Layout::default(),
    };
    let layout = args.layout.layout_over(base)?;
    if !layout.has_server(server_id) {
        let most = (1_u32 << layout.server_bits()) - 1;
        return Err(format!("server-id {server_id} does not fit id-range {}: at most {most}", layout.server_bits()));
    }
    let identity = Identity { server_id, layout };
    let target = args.target.tick(layout.epoch())?;
    let old = match &before {
        Before::Record(record) => Some(carried_over(record, identity)),
        Before::Nothing | Before::Unusable { .. } => None,
    };
    let point = advanced(old, target, layout.epoch(), now_unix_ms);
    let record = Record { identity, point };

    let mut text = format!("server-id {server_id}: {}\n", claim.state_path().display());
    let mut line = |name: &str, value: &dyn Display| push_line(&mut text, name, value);
    match &before {
        Before::Nothing => line("before", &"no record"),
        Before::Unusable { error, .. } => line("before", &format_args!("a record of no use: {error}")),
        Before::Record(before) => line("before", &describe(before.point.watermark, base, now_unix_ms)),
    }
    if matches!(&before, Before::Record(before) if *before == record) {
        line("after", &"the same: this is already later than what was asked for, and a record never goes back");
        return Ok(text);
    }
    check_distance(point.watermark, layout.epoch(), now_unix_ms, args.force)?;
    if let Before::Unusable { bytes, .. } = &before {
        let copy = claim.copy_aside(bytes, now_unix_ms).map_err(|error| {
            format!("cannot keep a copy of {}, so it is left as it is: {error}", claim.state_path().display())
        })?;
        line("copy", &copy.display());
    }
    claim.save(&record.to_text()).map_err(|error| error.to_string())?;

    line("after", &describe(point.watermark, layout, now_unix_ms));
    if !matches!(&before, Before::Record(before) if before.identity == identity) {
        line("layout", &describe_layout(layout));
    }
    line("ids", &format_args!("every new ID will be at least {}", first_id(point.watermark)));
    line("clock", &clock_line(point, layout.epoch(), now_unix_ms));
    Ok(text)
}

impl TargetArgs {
    /// The first tick that new IDs may carry.
    fn tick(&self, epoch: Epoch) -> Result<Tick, String> {
        let last = UtcMs(Tick::LAST.unix_ms(epoch));
        if let Some(number) = self.past_id {
            let id = u64::try_from(number).ok().and_then(Id::new).ok_or("--past-id: an ID is not negative")?;
            // The tick is the upper 42 bits in every layout. Which server gave the ID does not matter: the fork's
            // corrupt IDs wear other servers' ids.
            let end = Layout::default().split(id).tick.plus_ms(1);
            if end == Tick::END {
                return Err(format!("--past-id {number}: there are no IDs past this one, the time of IDs ends {last}"));
            }
            return Ok(end);
        }
        let text = self.to.as_deref().unwrap_or_default();
        let unix_ms = parse_unix_ms(text).map_err(|error| format!("--to: {error}"))?;
        epoch
            .tick_at(unix_ms)
            .ok_or_else(|| format!("--to {text}: the time of IDs is {} to {last}", UtcMs(Tick(0).unix_ms(epoch))))
    }
}

/// The point of `record` in the ticks of `identity`, whatever its epoch is.
///
/// Under a later epoch, where a server refuses to start, the watermark stays the same number, as IDs below it must not
/// come again. It then lies ahead of the clock by as much as the epochs lie apart, and so must the reference clock, or
/// the server would wait for all that time.
fn carried_over(record: &Record, identity: Identity) -> SavePoint {
    record
        .adopted_by(identity)
        .map_or(SavePoint { watermark: record.point.watermark, reference: record.point.watermark }, |adopted| {
            adopted.point
        })
}

/// The later of what there was and what is asked for.
fn advanced(old: Option<SavePoint>, target: Tick, epoch: Epoch, now_unix_ms: i64) -> SavePoint {
    if let Some(old) = old {
        return SavePoint { watermark: old.watermark.max(target), reference: old.reference.max(target) };
    }
    // The largest ID in a table is not the largest that was given: some were still under way when it was looked up. A
    // start without a record skips what they can be ahead of the clock, and so does this.
    let now = epoch.tick_at(now_unix_ms).unwrap_or(Tick(0));
    let skipped = now.plus_ms(Limits::default().max_borrow_ms);
    // Not below the clock as it is now: were it set back before the start, the watermark would lie beyond the borrow
    // limit, and requests would wait until time has come there.
    SavePoint { watermark: target.max(skipped), reference: target.max(now) }
}

/// Refuses a watermark that a server would not give IDs with, or that no one can have meant.
fn check_distance(watermark: Tick, epoch: Epoch, now_unix_ms: i64, force: bool) -> Result<(), String> {
    let unix_ms = watermark.unix_ms(epoch);
    let distance_ms = unix_ms.abs_diff(now_unix_ms);
    if distance_ms <= JUMP_MS_MAX || force {
        return Ok(());
    }
    let (time, now, distance) = (UtcMs(unix_ms), UtcMs(now_unix_ms), duration(distance_ms));
    Err(if unix_ms > now_unix_ms {
        format!(
            "the record would be at {time}, {distance} ahead of the clock ({now}). IDs would carry times that far ahead, \
             and a record never goes back. If the clock is wrong, set it; if this is meant, add --force"
        )
    } else {
        format!(
            "the record would be at {time}, {distance} behind the clock ({now}), and a server gives no IDs with a clock \
             so far past its record. If the clock is right, use --to with a time near it; if it is wrong, set it, or add \
             --force"
        )
    })
}

/// How the clock stands to the first IDs.
fn clock_line(point: SavePoint, epoch: Epoch, now_unix_ms: i64) -> String {
    let ahead = |tick: Tick| u64::try_from(tick.unix_ms(epoch).saturating_sub(now_unix_ms)).unwrap_or(0);
    let now = UtcMs(now_unix_ms);
    match (ahead(point.watermark), ahead(point.reference)) {
        (0, _) => format!("{now}, past the watermark: IDs carry its time from the start"),
        (ms, 0) => format!("{now}: IDs start {} ahead of it", duration(ms)),
        (_, ms) => {
            // The reference clock goes at nine tenths of real speed until the clock has caught up.
            let until = UtcMs(now_unix_ms.saturating_add_unsigned(ms.saturating_mul(10)));
            format!("{now}: IDs start {} ahead of it, and less and less so until {until}", duration(ms))
        }
    }
}
