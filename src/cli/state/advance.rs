//! `getid state advance`: moves a record ahead, and never back.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use getid_core::server::{JUMP_MS_MAX, SAVE_SLACK_MS};
use getid_core::{Epoch, Id, Layout, SavePoint, Tick, UtcMs};

use super::config::{StateConfig, StoredArgs, save};
use super::error::StateError;
use crate::cli::claim_store::fleet_layout;
use crate::cli::layout_args::LayoutArgs;
use crate::cli::record_text::{describe, describe_layout, duration, first_id, push_line};
use crate::cli::tool_config::ToolConfigError;
use getid_engine::claim::envelope::{salvaged_borrow_ms, salvaged_mark};
use getid_engine::claim::fleet::ClusterRecord;
use getid_engine::claim::folder::BORROW_MS_MAX;
use getid_engine::claim::lock::{FileNames, LockedFolder};
use getid_engine::claim::record::{salvaged_declarations, salvaged_ticks};
use getid_engine::claim::{
    Declarations, Identity, MachineClaim, MachineError, Mark, Owner, Record, RecordError, RecordLocation,
};
use getid_text::timestamp::TimeSpec;

const DAY_MS: u64 = 86_400_000;

pub(super) const ADVANCE_EXAMPLES: &str = "\
Examples:
  getid state advance --config /etc/getid/getid.conf --past-id 144182328657192148
  getid state advance /var/lib/getid --server-id 0 --past-id 144182328657192148
  getid state advance --server-id 1 --to 2026-11-21T00:00:00Z
  getid state advance --server-id 1 --to now --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/getid";

#[derive(Args)]
pub(super) struct AdvanceArgs {
    /// The folder of the server's state, as in dir [default: the one of the configuration]
    #[arg(value_name = "DIR", conflicts_with = "store")]
    pub(super) dir: Option<PathBuf>,
    /// The server of the record [default: the one of the configuration]
    #[arg(long, value_name = "N")]
    server_id: Option<u32>,
    #[command(flatten)]
    pub(super) stored: StoredArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// The largest id-max-borrow-ms that the server ever had; the record's and the configuration's count too
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=BORROW_MS_MAX))]
    max_borrow: Option<u64>,
    /// Do it even where the record then lies more than a day ahead of the clock, or 400 days behind it
    #[arg(long)]
    force: bool,
    /// Without a flag, the configuration's value holds; without a configured layout, the record's own; and without a
    /// record the default.
    #[command(flatten)]
    pub(super) layout: LayoutArgs,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Every new ID will be above this one: the largest in any table, whichever server gave it
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    past_id: Option<i64>,
    /// Every new ID will carry this time or a later one: Unix ms, RFC 3339, a date in UTC, or now
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    to: Option<String>,
}

/// The old record, before the advance.
pub(super) enum OldRecord {
    /// There is no record.
    Nothing,
    /// The record cannot be used. `is_ours`: it is damaged, and not another server's.
    Unusable { bytes: Vec<u8>, error: String, is_ours: bool },
    /// A record that can be used.
    Record(Record),
}

impl OldRecord {
    fn of(bytes: Option<Vec<u8>>, server_id: u32) -> OldRecord {
        let Some(bytes) = bytes else { return OldRecord::Nothing };
        match Record::parse(&bytes) {
            Ok(record) if record.identity.server_id == server_id => OldRecord::Record(record),
            Ok(other) => {
                let error = format!("it is the record of server-id {}", other.identity.server_id);
                OldRecord::Unusable { bytes, error, is_ours: false }
            }
            Err(error) => OldRecord::Unusable { bytes, error: error.to_string(), is_ours: true },
        }
    }

    /// Returns the position that the record proves, in the ticks of `identity`. Returns `None` without a usable record.
    /// A record of a life that gave no ID proves nothing.
    fn known(&self, identity: Identity) -> Option<SavePoint> {
        let OldRecord::Record(record) = self else { return None };
        Some(convert_point(record, identity)).filter(|point| !point.is_nothing())
    }

    /// Returns the lower bound of the new record: the proven position, or what can be salvaged from an unusable record.
    fn floor(&self, identity: Identity) -> SavePoint {
        let OldRecord::Unusable { bytes, is_ours, .. } = self else {
            return self.known(identity).unwrap_or(SavePoint::NOTHING);
        };
        let salvaged = is_ours.then(|| salvaged_ticks(bytes, identity.layout.epoch()));
        let (watermark, reference) = salvaged.unwrap_or((Tick(0), Tick(0)));
        SavePoint { watermark, reference, max_borrow_ms: salvaged_borrow_ms(bytes, BORROW_MS_MAX) }
    }

    /// Returns the declarations of named generators, as far as they can be read.
    fn declarations(&self) -> Arc<Declarations> {
        match self {
            // An operator moves a record ahead of IDs that it may not know.
            OldRecord::Record(record) if !record.point.is_nothing() => {
                Arc::new(Declarations::clone(&record.declarations).without_since())
            }
            OldRecord::Unusable { bytes, is_ours: true, .. } => Arc::new(salvaged_declarations(bytes)),
            OldRecord::Nothing | OldRecord::Record(_) | OldRecord::Unusable { .. } => Arc::default(),
        }
    }

    /// Returns the mark of a record that was moved, even if the record is damaged.
    pub(super) fn mark(bytes: Option<&[u8]>) -> Option<Mark> {
        let bytes = bytes?;
        match Record::parse(bytes) {
            Ok(_) => None,
            Err(RecordError::Marked(mark)) => Some(mark),
            Err(_) => salvaged_mark(bytes),
        }
    }

    pub(super) fn describe(&self, now_unix_ms: i64) -> String {
        match self {
            OldRecord::Nothing => "no record".to_owned(),
            OldRecord::Unusable { error, .. } => format!("an unusable record: {error}"),
            OldRecord::Record(before) if before.point.is_nothing() => "a record without IDs".to_owned(),
            OldRecord::Record(before) => describe(before.point.watermark, before.identity.layout, now_unix_ms),
        }
    }
}

pub(super) fn advance(args: &AdvanceArgs, now_unix_ms: i64, configured: &StateConfig) -> Result<String, StateError> {
    let config = &configured.config;
    let server_id = args.server_id(configured)?;
    // As at a start, a missing folder is made: an advance may be the first step of a migration, before any start.
    let dir = configured.dir(args.dir.as_ref())?;
    dir.make().map_err(ToolConfigError::from)?;
    // A server in another folder could still give IDs past the ID that was looked up.
    let epoch = args.layout.layout_over(config.layout).map_or(config.layout, |layout| layout).epoch();
    let machine = config.id_machine_claim.then(|| MachineClaim::bind(server_id, epoch, Some(&dir.path)));
    // Held until the record is written.
    let _machine = match machine {
        Some(Err(held @ MachineError::Held { .. })) => return Err(held.into()),
        machine => machine,
    };
    let mut locked = LockedFolder::lock(&dir.path, FileNames::of(server_id))?;
    let bytes = locked.read()?;
    if let Some(mark) = OldRecord::mark(bytes.as_deref()) {
        let (path, here) = (locked.state_path(), RecordLocation::of_folder(locked.dir()));
        return Err(StateError::MovedFile { path, server_id, mark, here });
    }
    let before = OldRecord::of(bytes, server_id);
    let AdvancePlan { floor, mut record } = plan(args, &before, server_id, (configured, None), now_unix_ms)?;
    record.owner = locked.owner();
    let Record { identity, point, .. } = record;
    // The operator names IDs that the record may not have, so it no longer shows times of first IDs.
    let same = match &before {
        OldRecord::Record(before) if (before.identity, before.point) == (identity, point) => Some(before),
        OldRecord::Record(_) | OldRecord::Nothing | OldRecord::Unusable { .. } => None,
    };

    let mut text = format!("server-id {server_id}: {}\n", locked.state_path().display());
    push_line(&mut text, "before", &before.describe(now_unix_ms));
    if let Some(same) = same {
        let after = "unchanged: the record is later than the requested position, and a record never goes back";
        push_line(&mut text, "after", &after);
        if same.declarations != record.declarations {
            save(&mut locked, &record.to_text())?;
            push_line(&mut text, "since", &"no longer known: ENCODEID composes an ID only with FORCE");
        }
        return Ok(text);
    }
    args.check_distance(&record, now_unix_ms)?;
    if let Some(copy) = write(&mut locked, &before, &record, now_unix_ms)? {
        push_line(&mut text, "copy", &copy.display());
    }
    describe_written(&mut text, &before, floor, &record, now_unix_ms);
    Ok(text)
}

/// The new record of an advance.
pub(super) struct AdvancePlan {
    /// The position of the old record, as far as it is known.
    pub(super) floor: SavePoint,
    /// The new record, except for its owner.
    pub(super) record: Record,
}

/// Plans the new record. `fleet` is the record that all servers share, for a record in a claim store.
pub(super) fn plan(
    args: &AdvanceArgs,
    before: &OldRecord,
    server_id: u32,
    (configured, fleet): (&StateConfig, Option<&ClusterRecord>),
    now_unix_ms: i64,
) -> Result<AdvancePlan, StateError> {
    let layout = layout_of(args, configured, (before, fleet), server_id)?;
    let identity = Identity { server_id, layout };
    let target = args.target.target(layout.epoch(), now_unix_ms)?;
    let floor = before.floor(identity);
    let max_borrow_ms = floor.max_borrow_ms.max(configured.config.id_max_borrow_ms).max(args.max_borrow.unwrap_or(0));
    let is_known = before.known(identity).is_some();
    let point = advance_point(floor, is_known, target, max_borrow_ms, layout.epoch(), now_unix_ms);
    if point.watermark == Tick::END {
        return Err(StateError::EndOfTime(UtcMs(Tick::LAST.unix_ms(layout.epoch()))));
    }
    let owner = match before {
        OldRecord::Record(record) => record.owner,
        OldRecord::Nothing | OldRecord::Unusable { .. } => Owner::default(),
    };
    Ok(AdvancePlan { floor, record: Record { identity, point, declarations: before.declarations(), owner } })
}

impl AdvanceArgs {
    /// Refuses a record with which a server would give no IDs, or that is far from any plausible time.
    pub(super) fn check_distance(&self, record: &Record, now_unix_ms: i64) -> Result<(), StateError> {
        check_distance(record.point, record.identity.layout.epoch(), now_unix_ms, self.force)
    }

    /// Returns the server-id of the selected record.
    pub(super) fn server_id(&self, configured: &StateConfig) -> Result<u32, StateError> {
        configured.server_id(self.server_id)
    }
}

/// Returns the layout of the new record. Flags override the configuration, and the old record's layout counts where the
/// configuration sets none. In a claim store, epoch and id-range are the fleet's.
fn layout_of(
    args: &AdvanceArgs,
    configured: &StateConfig,
    (before, fleet): (&OldRecord, Option<&ClusterRecord>),
    server_id: u32,
) -> Result<Layout, StateError> {
    let base = match before {
        OldRecord::Record(record) if !configured.sets_layout => record.identity.layout,
        OldRecord::Record(_) | OldRecord::Nothing | OldRecord::Unusable { .. } => configured.config.layout,
    };
    let base = fleet.map_or(Ok(base), |fleet| fleet_layout(fleet, base))?;
    let layout = args.layout.layout_over(base)?;
    if let Some(fleet) = fleet {
        check_fleet(fleet, layout)?;
    }
    if !layout.has_server(server_id) {
        return Err(StateError::IdRange { server_id, bits: layout.server_bits() });
    }
    Ok(layout)
}

/// Fails if flags name another epoch or id-range than the fleet's, which apply without flags.
fn check_fleet(fleet: &ClusterRecord, layout: Layout) -> Result<(), StateError> {
    if layout.epoch() != fleet.epoch {
        return Err(StateError::FleetEpoch { given: layout.epoch().unix_ms(), found: fleet.epoch.unix_ms() });
    }
    if layout.server_bits() != fleet.id_range {
        return Err(StateError::FleetIdRange { given: layout.server_bits(), found: fleet.id_range });
    }
    Ok(())
}

/// Writes the record, and returns the path of the copy of an unreadable one.
fn write(
    locked: &mut LockedFolder,
    before: &OldRecord,
    record: &Record,
    now_unix_ms: i64,
) -> Result<Option<PathBuf>, StateError> {
    let copy = match before {
        OldRecord::Unusable { bytes, .. } => {
            let what = || locked.state_path().display().to_string();
            let copied = locked.copy_aside(bytes, now_unix_ms);
            Some(copied.map_err(|error| StateError::Copy { what: what(), error })?)
        }
        OldRecord::Nothing | OldRecord::Record(_) => None,
    };
    save(locked, &record.to_text())?;
    Ok(copy)
}

/// Appends the result of the advance, as lines.
pub(super) fn describe_written(
    text: &mut String,
    before: &OldRecord,
    floor: SavePoint,
    record: &Record,
    now_unix_ms: i64,
) {
    let (point, layout) = (record.point, record.identity.layout);
    let mut line = |name: &str, value: &dyn Display| push_line(text, name, value);
    line("after", &describe(point.watermark, layout, now_unix_ms));
    if !matches!(before, OldRecord::Record(before) if before.identity == record.identity) {
        line("layout", &describe_layout(layout));
    }
    if matches!(before, OldRecord::Unusable { .. }) && floor.watermark > Tick(0) {
        line("salvaged", &format_args!("watermark {}", describe(floor.watermark, layout, now_unix_ms)));
    }
    let borrow_ms = point.max_borrow_ms;
    line("borrow", &format_args!("IDs under way were at most {borrow_ms} ms ahead (--max-borrow, if it was more)"));
    line("ids", &format_args!("every new ID will be at least {}", first_id(point.watermark)));
    line("clock", &clock_line(point, layout.epoch(), now_unix_ms));
}

/// The bound that new IDs must exceed.
#[derive(Clone, Copy)]
enum AdvanceTarget {
    /// The tick of an ID that was given.
    Past(Tick),
    /// The first tick that new IDs may carry.
    From(Tick),
}

impl TargetArgs {
    fn target(&self, epoch: Epoch, now_unix_ms: i64) -> Result<AdvanceTarget, StateError> {
        if let Some(number) = self.past_id {
            let id = u64::try_from(number).ok().and_then(Id::new).ok_or(StateError::NegativeId)?;
            // The tick is the upper 42 bits in every layout. The server-id of the ID does not matter: the fork's
            // corrupt IDs carry other servers' ids.
            return Ok(AdvanceTarget::Past(Layout::default().split(id).tick));
        }
        let text = self.to.as_deref().unwrap_or_default();
        let unix_ms = TimeSpec::parse(text).map_err(StateError::To)?.unix_ms(now_unix_ms);
        epoch.tick_at(unix_ms).map(AdvanceTarget::From).ok_or_else(|| StateError::ToRange {
            text: text.to_owned(),
            first: UtcMs(Tick(0).unix_ms(epoch)),
            last: UtcMs(Tick::LAST.unix_ms(epoch)),
        })
    }
}

/// Returns the point of `record` in the ticks of `identity`, whatever its epoch is.
///
/// Under a later epoch, where a server refuses to start, the watermark keeps its number, because IDs below it must not
/// be given again. It then lies ahead of the clock by the difference of the epochs.
fn convert_point(record: &Record, identity: Identity) -> SavePoint {
    record.adopted_by(identity).map_or(record.point, |adopted| adopted.point)
}

/// Returns the later of the old position and the requested one.
///
/// `is_known`: the old record proves all that was given.
fn advance_point(
    floor: SavePoint,
    is_known: bool,
    target: AdvanceTarget,
    max_borrow_ms: u64,
    epoch: Epoch,
    now_unix_ms: i64,
) -> SavePoint {
    let now = epoch.tick_at(now_unix_ms).unwrap_or(Tick(0));
    // No server has given an ID past this bound: B ahead of its time, and the room of one save.
    let past = |tick: Tick| tick.max(now).plus_ms(1 + max_borrow_ms + SAVE_SLACK_MS);
    let wanted = match target {
        AdvanceTarget::Past(tick) => past(tick),
        AdvanceTarget::From(tick) if is_known => tick,
        AdvanceTarget::From(tick) => tick.max(past(now)),
    };
    let watermark = floor.watermark.max(wanted);
    // With a lower reference, the watermark would lie beyond the borrow limit, and requests would wait for the clock.
    let reference = floor.reference.max(Tick(watermark.0.saturating_sub(max_borrow_ms)));
    SavePoint { watermark, reference, max_borrow_ms }
}

/// Refuses a watermark with which a server would give no IDs, or that is far from any plausible time.
fn check_distance(point: SavePoint, epoch: Epoch, now_unix_ms: i64, force: bool) -> Result<(), StateError> {
    let unix_ms = point.watermark.unix_ms(epoch);
    let distance_ms = unix_ms.abs_diff(now_unix_ms);
    let ahead = unix_ms > now_unix_ms;
    if force || distance_ms <= if ahead { DAY_MS } else { JUMP_MS_MAX } {
        return Ok(());
    }
    let (time, now) = (UtcMs(unix_ms), UtcMs(now_unix_ms));
    Err(if ahead {
        StateError::FarAhead { time, distance_ms, now, until: ahead_until(point, epoch, now_unix_ms) }
    } else {
        StateError::FarBehind { time, distance_ms, now }
    })
}

/// Returns the time at which the clock has caught up with IDs that start at `point`.
fn ahead_until(point: SavePoint, epoch: Epoch, now_unix_ms: i64) -> UtcMs {
    // The reference clock runs at nine tenths of real speed until the clock has caught up.
    let ahead_ms = u64::try_from(point.reference.unix_ms(epoch).saturating_sub(now_unix_ms)).unwrap_or(0);
    let slewed = now_unix_ms.saturating_add_unsigned(ahead_ms.saturating_mul(10));
    UtcMs(slewed.max(point.watermark.unix_ms(epoch)))
}

/// Describes how far the first IDs are ahead of the clock.
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
