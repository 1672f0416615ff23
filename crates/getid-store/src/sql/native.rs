//! Rows of getid's own tables: parsing, and changes, for all databases.
//!
//! The tables are the same in all three, with the column types of each:
//!
//! | `getid_store` | a single row |
//! |---|---|
//! | `id` | always 1 |
//! | `uuid` | permanent id of the store |
//! | `changes` | grows by one in each transaction that creates or changes a row ([`RowChange`]), in commit order |
//!
//! | `getid_sequence` | a row for each sequence, and for each series and period of a serial number |
//! |---|---|
//! | `name`, `series`, `period` | the primary key, compared byte for byte; `series` and `period` are empty for a sequence |
//! | `next` | the first value that is not reserved |
//! | `version` | grows by one with each write of the row, by any statement |
//! | `generation` | grows by one with each [`RowChange`] |
//! | `changed` | the value of `getid_store.changes` at the last of them; has an index |
//! | `start`, `increment`, `offset_`, `cache`, `max_value`, `policy` | [`Spec`]; `policy` is `''`, `wait` or `error` |
//! | `state` | `live`, `dropped`, `went-back`, or `ledger`: only the ledger of its generator moves the row |
//! | `created`, `updated` | Unix ms by the database's clock |
//! | `ends` | the time from which on the row gives no values, Unix ms; 0 if it has no end |
//!
//! | `getid_generator` | a row for each generator that counts ([`Generator`]) |
//! |---|---|
//! | `name` | the primary key |
//! | `declaration` | the words that declare it on all servers |
//! | `reset` | interval after which its counter begins again: `day`, `fiscal-year 04-06` |
//! | `newest` | the newest period that has begun |
//! | `closed_through` | the last day whose periods never begin again |
//! | `keys_count` | number of keys of its series |
//! | `ledger` | number of changes of the ledger of its numbers ([`super::numbers`]) |
//! | `updated` | Unix ms by the database's clock |
//!
//! A row of `getid_generator` changes while the row of `getid_store` is locked, except that `begin_periods` raises
//! `newest` without that lock.
//!
//! Each key of a generator with series has a row without a period. Where counters have periods, that row is created as
//! `dropped`: it shows that the key exists and is counted, and gives no values.
//!
//! The functions here decide about a row as it was read, inside the transaction that writes it, or check what the
//! database has computed.
//!
//! Invariant: only giving back lowers `next`, and each write increases `version`. So a row of a version that a
//! server knows is as that server has left it. No reservation and no [`RowChange`] moves a row in the state `ledger`.

use std::fmt;

use getid_core::server::{CivilDay, EndDecision, INCREMENT_MAX, Key, RESERVED_MAX, Reset, Spec, VALUE_MAX, WaitPolicy};

use super::packet::SqlRow;
use super::{
    CreateRequest, Generator, ListedRow, NotedRow, OpenPeriodRequest, Reservation, ReserveRequest, RowChange, RowError,
    RowState, SequenceRow, SeriesBounds, Verdict, declares_ledger,
};

/// Version of these tables.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// A row as read from a database, with unchecked numbers and words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawRow {
    pub(super) name: String,
    pub(super) series: String,
    pub(super) period: String,
    pub(super) next: i64,
    pub(super) version: i64,
    pub(super) generation: i64,
    pub(super) start: i64,
    pub(super) increment: i64,
    pub(super) offset: i64,
    pub(super) cache: i64,
    pub(super) max: i64,
    pub(super) policy: String,
    pub(super) state: String,
    pub(super) created: i64,
    pub(super) updated: i64,
    pub(super) ends: i64,
}

/// Columns of [`RawRow`], in its order.
pub(super) const COLUMNS: &str = "name, series, period, next, version, generation, start, increment, offset_, cache, \
                                  max_value, policy, state, created, updated, ends";

/// Number of [`COLUMNS`].
#[cfg(feature = "postgres")]
pub(super) const COLUMN_COUNT: usize = 16;

/// Columns of [`Generator`], in its order.
pub(super) const GENERATOR_COLUMNS: &str = "name, declaration, reset, newest, closed_through, keys_count";

impl Generator {
    /// Returns the row in the order of [`GENERATOR_COLUMNS`].
    pub(super) fn of(row: &SqlRow) -> Generator {
        let text = |at| row.text(at).unwrap_or_default();
        Generator {
            name: text(0),
            declaration: text(1),
            reset: text(2),
            newest: text(3),
            closed_through: text(4),
            keys: row.number(5).unwrap_or(0).max(0).unsigned_abs(),
        }
    }
}

impl RawRow {
    /// Returns the row in the order of [`COLUMNS`].
    pub(super) fn of(row: &SqlRow) -> RawRow {
        RawRow::from_column(row, 0)
    }

    /// Returns the row whose columns begin at `first`. A column without a number gets an invalid one, which
    /// [`RawRow::read`] reports.
    pub(super) fn from_column(row: &SqlRow, first: usize) -> RawRow {
        let number = |at| row.number(first + at).unwrap_or(i64::MIN);
        let text = |at| row.shown(first + at);
        RawRow {
            name: text(0),
            series: text(1),
            period: text(2),
            next: number(3),
            version: number(4),
            generation: number(5),
            start: number(6),
            increment: number(7),
            offset: number(8),
            cache: number(9),
            max: number(10),
            policy: text(11),
            state: text(12),
            created: number(13),
            updated: number(14),
            ends: number(15),
        }
    }

    /// Parses the row. Returns the error in a row that was edited, with the remedy.
    pub(super) fn read(self) -> Result<SequenceRow, RowError> {
        let RawRow { name, series, period, .. } = &self;
        let wrong = || RowError::Name { name: name.clone(), series: series.clone(), period: period.clone() };
        let key = Key::of(name, series, period).ok_or_else(wrong)?;
        let bad = |column: &'static str, found: &dyn fmt::Display, expected: &str| RowError::Column {
            key: key.clone(),
            column,
            found: found.to_string(),
            expected: expected.to_owned(),
        };
        let number = |column: &'static str, found: i64, min: i64, max: i64| {
            let is_right = (min..=max).contains(&found);
            if is_right { Ok(found) } else { Err(bad(column, &found, &format!("{min} to {max}"))) }
        };
        let small = |column: &'static str, found: i64, min: i64, max: u32| {
            number(column, found, min, max.into()).map(|found| u32::try_from(found).unwrap_or(max))
        };
        let increment = small("increment", self.increment, 1, INCREMENT_MAX)?;
        let spec = Spec {
            start: number("start", self.start, 0, VALUE_MAX)?,
            increment,
            offset: small("offset_", self.offset, 1, increment)?,
            cache: small("cache", self.cache, 0, RESERVED_MAX)?,
            max: number("max_value", self.max, 0, VALUE_MAX)?,
            policy: match &*self.policy {
                "" => None,
                "wait" => Some(WaitPolicy::Wait),
                "error" => Some(WaitPolicy::Error),
                found => return Err(bad("policy", &format!("'{}'", found.escape_debug()), "'', 'wait' or 'error'")),
            },
        };
        let state = match &*self.state {
            "live" => RowState::Live,
            "dropped" => RowState::Dropped,
            "went-back" => RowState::WentBack,
            "ledger" => RowState::Ledger,
            found => {
                let found = format!("'{}'", found.escape_debug());
                return Err(bad("state", &found, "'live', 'dropped', 'went-back' or 'ledger'"));
            }
        };
        Ok(SequenceRow {
            next: number("next", self.next, 0, NEXT_MAX)?,
            version: number("version", self.version, 0, i64::MAX)?.unsigned_abs(),
            generation: number("generation", self.generation, 0, i64::MAX)?.unsigned_abs(),
            spec,
            state,
            created_unix_ms: self.created,
            updated_unix_ms: self.updated,
            ends_unix_ms: number("ends", self.ends, 0, i64::MAX)?,
            key,
        })
    }
}

/// Returns the rows of a page, as read from a database, with their names.
pub(super) fn listed(rows: &[SqlRow]) -> impl Iterator<Item = ListedRow> {
    let listed = |row: RawRow| ([row.name.clone(), row.series.clone(), row.period.clone()], Some(row.read()));
    rows.iter().map(RawRow::of).map(listed)
}

/// Largest `next`: past the last possible value, with room for one more step.
pub(super) const NEXT_MAX: i64 = VALUE_MAX + 100_000_000_000_000_000;

/// Returns the word of a state.
pub(super) fn state_word(state: RowState) -> &'static str {
    match state {
        RowState::Live => "live",
        RowState::Dropped => "dropped",
        RowState::WentBack => "went-back",
        RowState::Ledger => "ledger",
    }
}

/// Returns the word of a policy.
pub(super) fn policy_word(policy: Option<WaitPolicy>) -> &'static str {
    match policy {
        None => "",
        Some(WaitPolicy::Wait) => "wait",
        Some(WaitPolicy::Error) => "error",
    }
}

/// Converts a number to the type of a column.
pub(super) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the last value that counts as given: the one before `next`.
pub(super) fn last_of(row: &SequenceRow) -> i64 {
    row.next - i64::from(row.spec.increment)
}

/// Returns why a row gives no values; `None` if it gives some.
pub(super) fn refusal(row: &SequenceRow) -> Option<Verdict> {
    match row.state {
        RowState::Live => None,
        RowState::Dropped => Some(Verdict::Dropped { last: last_of(row) }),
        RowState::WentBack => Some(Verdict::WentBack { next: row.next }),
        RowState::Ledger => Some(Verdict::Unsupported(format!(
            "it is the counter of the gapless generator '{name}', and each of its numbers has a request: declare \
             '{name}' on this server as on the others and send 'NUMBER RESERVE {name} REQUEST r', or use another name",
            name = row.key.name()
        ))),
    }
}

/// Returns the state of a declaration's counter that gives numbers.
pub(super) fn state_of_counter(declaration: &str) -> RowState {
    if declares_ledger(declaration) { RowState::Ledger } else { RowState::Live }
}

/// Returns a reservation from a row, with the row after it. A row that has reached its max stays as it is.
/// `written_unix_ms`: when the database wrote the row; `None` if it did not write it. Only the database's clock decides
/// whether a row with an end has ended.
pub(super) fn apply_reservation(
    row: &SequenceRow,
    ask: &ReserveRequest,
    written_unix_ms: Option<i64>,
) -> Result<Reservation, Verdict> {
    if let Some(refusal) = refusal(row) {
        return Err(refusal);
    }
    let spec = &row.spec;
    let increment = i64::from(spec.increment);
    let first = spec.next_from(row.next.max(floor_of(ask)));
    let left = if first > spec.max { 0 } else { (spec.max - first) / increment + 1 };
    let values = left.min(values_of(ask));
    let mut after = row.clone();
    if values > 0 && row.ends_unix_ms > 0 && written_unix_ms.is_none() {
        return Err(Verdict::Ended { unix_ms: row.ends_unix_ms });
    }
    if values > 0 {
        after.next = first + values * increment;
        after.version += 1;
        after.updated_unix_ms = written_unix_ms.unwrap_or(row.updated_unix_ms);
    }
    Ok(Reservation { first, last: first + (values - 1) * increment, found_next: row.next, row: after })
}

/// Returns true if a row has an end, and that is not after now.
fn has_ended(row: &SequenceRow, now_unix_ms: i64) -> bool {
    row.ends_unix_ms > 0 && row.ends_unix_ms <= now_unix_ms
}

/// Returns the number of requested values.
pub(super) fn values_of(ask: &ReserveRequest) -> i64 {
    ask.values.clamp(1, RESERVED_MAX).into()
}

/// Returns the lower bound of a request.
pub(super) fn floor_of(ask: &ReserveRequest) -> i64 {
    ask.floor.min(VALUE_MAX + 1)
}

/// Age in ms above which reserved values cannot be given under another declaration. A server discards them within a
/// second or two, or `sequence-ride-out-s` after it last reached the store.
const HELD_MS_MAX: i64 = 86_400_000;

/// Result of opening a period: the generator's row, and changes of its counters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PeriodOpening {
    pub(super) generator: Generator,
    /// The counter's row, if it must be written: created, raised or revived.
    pub(super) row: Option<SequenceRow>,
    /// The row of the counter's key, if the key is new and its counters have periods.
    pub(super) key_row: Option<SequenceRow>,
    /// Change of the generator's other rows.
    pub(super) others: OtherRowsChange,
}

/// Change of the other rows of a generator whose period is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherRowsChange {
    /// No change.
    Stay,
    /// Rows whose values servers may hold get a new generation, so that those are discarded.
    Renewed,
    /// Live rows of the generator's previous interval are dropped.
    Dropped {
        /// That interval.
        before: Reset,
    },
}

/// Selects rows of other intervals that count for a period's floor.
pub(super) struct RecentRows {
    /// They were written at this time or later, Unix ms.
    pub(super) since_unix_ms: i64,
    /// Condition for their periods: they are of another interval, and may not have ended by then. Each of its parts is
    /// a range of the primary key, so that few other rows are locked.
    pub(super) condition: String,
}

impl RecentRows {
    fn new(reset: Reset, since_unix_ms: i64) -> RecentRows {
        // In a zone half a day from UTC a period ends up to half a day after its last day in UTC.
        let day = CivilDay::of_unix_ms(since_unix_ms.saturating_sub(2 * HELD_MS_MAX));
        let others = Reset::ended_by(day).filter_map(|(letter, bound)| match reset {
            Reset::FiscalYear(_) if letter == 'F' => {
                Some(format!("period >= '{bound}' AND period < '{letter}A' AND NOT ({})", periods_of(reset)))
            }
            _ if reset.letter() == Some(letter) => None,
            _ => Some(format!("period >= '{bound}' AND period < '{letter}A'")),
        });
        let only = (reset != Reset::Never).then(|| "period = ''".to_owned());
        let condition = only.into_iter().chain(others).collect::<Vec<_>>().join(" OR ");
        RecentRows { since_unix_ms: since_unix_ms.max(0), condition }
    }
}

/// Returns the SQL condition for periods of an interval. Those of a fiscal year have the day of its start.
pub(super) fn periods_of(reset: Reset) -> String {
    match (reset.letter(), reset) {
        (None, _) => "period = ''".to_owned(),
        (Some(letter), Reset::FiscalYear(start)) => {
            let start = start.to_string().replace('-', "");
            format!("SUBSTR(period, 1, 1) = '{letter}' AND SUBSTR(period, 6) = '{start}'")
        }
        (Some(letter), _) => format!("SUBSTR(period, 1, 1) = '{letter}'"),
    }
}

/// Returns the rows above which a period's row is created. A generator that had a longer or shorter interval has given
/// the texts of this period from them, or may still. Its texts contain the time, so earlier rows do no harm.
pub(super) fn recent_rows(ask: &OpenPeriodRequest) -> RecentRows {
    RecentRows::new(ask.reset, ask.from_unix_ms.saturating_sub(HELD_MS_MAX))
}

/// Rows of a generator's counters, as read before one of them is opened.
pub(super) struct FoundRows {
    /// The row of the counter.
    pub(super) row: Option<SequenceRow>,
    /// Largest `next` of the [`recent_rows`] rows.
    pub(super) highest: i64,
    /// Whether the counter's key has a row.
    pub(super) has_key: bool,
}

/// Returns the changes that open a period.
pub(super) fn apply_period_opening(
    found: Option<&Generator>,
    rows: &FoundRows,
    ask: &OpenPeriodRequest,
    now_unix_ms: i64,
) -> Result<PeriodOpening, Verdict> {
    let (period, series) = (ask.key.period(), ask.key.series());
    let row = rows.row.as_ref();
    let is_same = found.is_some_and(|found| found.reset == ask.reset.to_string());
    let newest = found.map_or_else(String::new, |found| found.newest_as(ask.reset));
    if let Some(found) = found {
        ask.refused_by(found).map_or(Ok(()), Err)?;
        // The first counter of a key begins in whatever period is the newest one.
        if is_same && row.is_none() && *newest == *period && ask.series.is_none() && !ask.restores_row {
            return Err(lost_counter(&ask.key));
        }
        if !is_same && !ask.has_begun {
            return Err(Verdict::BadRow(format!(
                "it cannot begin again {} from now on, because its period {period} has not begun by the store's clock: \
                 repeat this when it has",
                ask.reset.each()
            )));
        }
    }
    let is_changed = found.is_some_and(|found| found.declaration != ask.declaration);
    let keys = found.map_or(0, |found| found.keys);
    let is_new_key = !series.is_empty() && !rows.has_key;
    if is_new_key {
        let SeriesBounds { max, may_begin } = ask.series.unwrap_or_default();
        if !may_begin {
            return Err(Verdict::NoSeries);
        }
        if keys >= max {
            return Err(Verdict::TooManySeries { max });
        }
    }
    // A declaration alone, without a key, concerns no counter.
    let row = if ask.series.is_some() && series.is_empty() {
        None
    } else {
        opened_row(row, found.is_some(), is_same, is_changed, rows.highest, ask, now_unix_ms)?
    };
    let key_of_series = Key::of(ask.key.name(), series, "").filter(|_| is_new_key && !period.is_empty());
    let key_row = key_of_series.map(|key| {
        let row = new_row(&key, ask.spec, now_unix_ms);
        SequenceRow { state: RowState::Dropped, ..row }
    });
    let others = match found {
        Some(found) if !is_same => {
            OtherRowsChange::Dropped { before: Reset::parse(&found.reset).unwrap_or(Reset::Never) }
        }
        Some(_) if is_changed => OtherRowsChange::Renewed,
        _ => OtherRowsChange::Stay,
    };
    let generator = Generator {
        name: ask.key.name().to_owned(),
        declaration: ask.declaration.clone(),
        reset: ask.reset.to_string(),
        newest: if ask.has_begun { period.to_owned() } else { newest },
        closed_through: found.map_or_else(String::new, |found| found.closed_through.clone()),
        keys: keys + u64::from(is_new_key),
    };
    Ok(PeriodOpening { generator, row, key_row, others })
}

/// Returns the counter's row, if it must be written.
fn opened_row(
    row: Option<&SequenceRow>,
    is_known: bool,
    is_same: bool,
    is_changed: bool,
    highest: i64,
    ask: &OpenPeriodRequest,
    now_unix_ms: i64,
) -> Result<Option<SequenceRow>, Verdict> {
    let above = |spec: &Spec, next: i64| spec.next_from(next.max(ask.floor).max(highest).min(VALUE_MAX + 1));
    let counter_state = state_of_counter(&ask.declaration);
    let Some(row) = row else {
        if !(ask.may_begin || ask.restores_row && ask.has_begun) {
            return Err(Verdict::NoSuch);
        }
        let row = new_row(&ask.key, ask.spec, now_unix_ms);
        let state = if ask.restores_row { RowState::WentBack } else { counter_state };
        return Ok(Some(SequenceRow { next: above(&row.spec, row.next), state, ..row }));
    };
    if row.state == RowState::Ledger && counter_state == RowState::Live && row.next > 1 {
        return Err(loses_ledger());
    }
    let is_dropped = row.state == RowState::Dropped;
    // Only a change of the interval drops the row of a period or of a key; an operator may drop a plain row.
    if is_dropped && ask.key.is_plain() && (is_same || !is_known) {
        return Err(Verdict::Dropped { last: last_of(row) });
    }
    let next = if is_same && !is_dropped { row.next } else { above(&row.spec, row.next) };
    let Spec { max, cache, .. } = if is_changed && ask.is_serial { ask.spec } else { row.spec };
    let state = if row.state == RowState::WentBack { row.state } else { counter_state };
    let is_written = next != row.next || state != row.state || is_changed;
    Ok(is_written.then(|| SequenceRow {
        next,
        state,
        spec: Spec { max, cache, ..row.spec },
        version: row.version + 1,
        generation: row.generation + 1,
        updated_unix_ms: now_unix_ms,
        ..row.clone()
    }))
}

/// Returns the error of a period that has begun according to the generator's row, but whose counter's row is missing.
fn lost_counter(key: &Key) -> Verdict {
    Verdict::BadRow(format!(
        "its counter '{key}' has begun, and its row is missing in getid_sequence: restore it; or continue it with \
         'SEQUENCE RAISE {} N', with N above all values that were given",
        key.name()
    ))
}

/// Returns the error of a generator that has a ledger, and is declared without one.
pub(super) fn loses_ledger() -> Verdict {
    let what = "it has a ledger, and would give numbers without one: declare it gapless again, or declare another name";
    Verdict::Unsupported(what.to_owned())
}

/// The parameters of [`super::Connection::prune`] for a generator.
pub(super) struct PrunePlan {
    /// The generator's row after the operation.
    pub(super) closed: Generator,
    /// Condition that selects its ended periods, in the SQL of all three databases. A row that went back is excluded:
    /// it must be settled. So is a period with numbers that are not settled.
    pub(super) condition: String,
}

impl PrunePlan {
    /// Returns the parameters for pruning a generator through a day; `None` if nothing has ended. The newest period
    /// stays, with the others that contain its begin or are later.
    pub(super) fn new(found: &Generator, through: CivilDay) -> Option<PrunePlan> {
        // The name is written into SQL unchanged.
        let name = Key::new(&found.name)?;
        let (_, newest) = Reset::of_period(&found.newest)?;
        let through = through.min(newest.date()?.yesterday()?);
        let ended =
            Reset::ended_by(through).map(|(letter, bound)| format!("period >= '{letter}' AND period < '{bound}'"));
        let ended = ended.collect::<Vec<_>>().join(" OR ");
        let condition = format!(
            "name = '{name}' AND state <> 'went-back' AND ({ended}) AND NOT EXISTS (SELECT 1 FROM getid_number \
             WHERE getid_number.name = '{name}' AND getid_number.series = getid_sequence.series \
             AND getid_number.period = getid_sequence.period AND getid_number.state IN ('reserved', 'released', 'unclear'))"
        );
        let closed_through = found.closed_through.clone().max(through.digits());
        Some(PrunePlan { closed: Generator { closed_through, ..found.clone() }, condition })
    }
}

/// Returns the notes of rows whose periods are not closed: a pruned row is not a lost one.
pub(super) fn without_closed(notes: &[NotedRow], generators: &[Generator]) -> Vec<NotedRow> {
    let is_closed = |note: &NotedRow| {
        let generator = generators.iter().find(|generator| generator.name == note.key.name());
        let through = generator.and_then(Generator::closed_through);
        through.is_some_and(|through| Reset::has_ended(note.key.period(), through))
    };
    notes.iter().filter(|note| !is_closed(note)).cloned().collect()
}

/// Returns the row that a creation writes. `found` is the present row of its name.
pub(super) fn apply_creation(
    found: Option<&SequenceRow>,
    new: &CreateRequest,
    rows: u64,
    now_unix_ms: i64,
) -> Result<SequenceRow, Verdict> {
    let fresh = new_row(&new.key, new.spec, now_unix_ms);
    let above = |next: i64| new.spec.next_from(next.max(new.floor).min(VALUE_MAX + 1));
    let row = match found {
        None if new.fresh_after_ms.is_some() => fresh,
        None => SequenceRow { next: above(fresh.next), ..fresh },
        Some(row) if row.state != RowState::Dropped => return Err(Verdict::Exists(Box::new(row.clone()))),
        Some(row) if new.fresh_after_ms.is_some() => SequenceRow {
            version: row.version + 1,
            generation: row.generation + 1,
            ..restarted_row(row, new, fresh, now_unix_ms)?
        },
        Some(row) if !new.above_dropped => return Err(Verdict::Dropped { last: last_of(row) }),
        Some(row) => {
            SequenceRow { next: above(row.next), version: row.version + 1, generation: row.generation + 1, ..fresh }
        }
    };
    if new.rows_max > 0 && rows >= new.rows_max {
        return Err(Verdict::TooMany { max: new.rows_max });
    }
    Ok(row)
}

/// Returns the reservation of `values` values of a row that is created; of none if that is 0.
pub(super) fn first_reservation(row: SequenceRow, values: u32, now_unix_ms: i64) -> Result<Reservation, Verdict> {
    if values == 0 {
        return Ok(Reservation::empty(row));
    }
    let ask = ReserveRequest { key: row.key.clone(), values, floor: 0 };
    apply_reservation(&row, &ask, Some(now_unix_ms))
}

/// Returns a row that begins at its start although the name was dropped. Fails while servers and clients may hold
/// values of it.
fn restarted_row(
    row: &SequenceRow,
    new: &CreateRequest,
    fresh: SequenceRow,
    now_unix_ms: i64,
) -> Result<SequenceRow, Verdict> {
    let wait_ms = new.fresh_after_ms.unwrap_or(0) - (now_unix_ms - row.updated_unix_ms);
    if wait_ms <= 0 {
        return Ok(fresh);
    }
    Err(Verdict::Unsupported(format!(
        "it was dropped at {} a moment ago, and servers and clients may have values of it for {} s: FRESH succeeds after \
         that",
        last_of(row),
        (wait_ms + 999) / 1000
    )))
}

/// Returns the keys of the rows in `found` that are lower than their notes, each with its new `next`.
pub(super) fn lower_than(notes: &[NotedRow], found: Vec<RawRow>) -> Vec<(Key, i64)> {
    let raised = |raw: RawRow| {
        // A row that cannot be parsed gives no values.
        let row = raw.read().ok()?;
        let note = notes.iter().find(|note| note.key == row.key)?;
        let is_lower = row.next < note.next && !note.is_older_than(row.generation, row.created_unix_ms);
        is_lower.then(|| (row.key.clone(), row.spec.next_from(note.next.min(VALUE_MAX + 1))))
    };
    found.into_iter().filter_map(raised).collect()
}

/// Returns new rows for the notes without a row in `found`: the store lost them. They are marked, because only a row
/// has the position; without one another server could begin the name at its start.
pub(super) fn lost_rows(notes: &[NotedRow], found: &[RawRow]) -> Vec<SequenceRow> {
    let is_found = |note: &&NotedRow| {
        let parts = [note.key.name(), note.key.series(), note.key.period()];
        found.iter().any(|row| [&*row.name, &*row.series, &*row.period] == parts)
    };
    let lost = |note: &NotedRow| SequenceRow {
        next: note.next.min(VALUE_MAX + 1),
        generation: note.generation,
        state: RowState::WentBack,
        ..new_row(&note.key, Spec::default(), note.created_unix_ms)
    };
    notes.iter().filter(|note| !is_found(note)).map(lost).collect()
}

/// Returns a new row, without reservations.
pub(super) fn new_row(key: &Key, spec: Spec, now_unix_ms: i64) -> SequenceRow {
    SequenceRow {
        key: key.clone(),
        next: spec.next_from(spec.start),
        version: 0,
        generation: 0,
        spec,
        state: RowState::Live,
        created_unix_ms: now_unix_ms,
        updated_unix_ms: now_unix_ms,
        ends_unix_ms: 0,
    }
}

/// Returns the row after a change. A raise without `settles` keeps the mark of a row that went back.
pub(super) fn apply_change(row: &SequenceRow, change: &RowChange, now_unix_ms: i64) -> Result<SequenceRow, Verdict> {
    if row.state == RowState::Dropped {
        return Err(Verdict::Dropped { last: last_of(row) });
    }
    let mut after = row.clone();
    let at_least = |after: &mut SequenceRow, next: i64| {
        after.next = after.spec.next_from(after.next.max(next.min(VALUE_MAX + 1)));
    };
    match change {
        // An operator may raise a row that has ended.
        RowChange::Raise { settles: None, .. } if has_ended(row, now_unix_ms) => {
            return Err(Verdict::Ended { unix_ms: row.ends_unix_ms });
        }
        RowChange::Raise { last, settles } => {
            at_least(&mut after, last.min(&VALUE_MAX) + 1);
            let noted = settles.filter(|_| row.state == RowState::WentBack);
            if let Some(had_next) = noted {
                at_least(&mut after, had_next);
                after.state = RowState::Live;
            }
            if after.next == row.next && noted.is_none() {
                return Err(Verdict::Lower { row: Box::new(row.clone()) });
            }
        }
        RowChange::Alter { spec, next_from } => {
            after.spec = *spec;
            at_least(&mut after, *next_from);
        }
        RowChange::Drop => after.state = RowState::Dropped,
        RowChange::WentBack { had_next } => {
            at_least(&mut after, *had_next);
            after.state = RowState::WentBack;
        }
        RowChange::HadMore { had_next } => {
            at_least(&mut after, *had_next);
            if row.state != RowState::WentBack || after.next == row.next {
                return Err(Verdict::Lower { row: Box::new(row.clone()) });
            }
        }
        RowChange::Confirm { .. } => after.state = RowState::Live,
        RowChange::Expire(change) => {
            after.ends_unix_ms = match change.decide(row.ends_unix_ms, now_unix_ms) {
                EndDecision::Written(unix_ms) => unix_ms,
                EndDecision::Ended(unix_ms) => return Err(Verdict::Ended { unix_ms }),
                EndDecision::Kept => return Err(Verdict::EndKept { is_met: true }),
                EndDecision::Unmet => return Err(Verdict::EndKept { is_met: false }),
            };
        }
        RowChange::Persist if row.ends_unix_ms == 0 => return Err(Verdict::EndKept { is_met: false }),
        RowChange::Persist => after.ends_unix_ms = 0,
    }
    after.version += 1;
    after.generation += 1;
    after.updated_unix_ms = now_unix_ms;
    Ok(after)
}

#[cfg(test)]
mod tests {
    use getid_core::server::{CivilDay, CivilTime, FiscalStart, Key, Reset, Spec};

    use super::super::{Generator, OpenPeriodRequest, Verdict};
    use super::RawRow;

    #[cfg(feature = "postgres")]
    #[test]
    fn columns_are_counted() {
        assert_eq!(super::COLUMNS.split(',').count(), super::COLUMN_COUNT);
    }

    /// Returns all intervals, with two starts of fiscal years.
    fn resets() -> Vec<Reset> {
        let all = ["04-06", "12-29"].map(|start| Reset::all(FiscalStart::parse(start).unwrap()));
        all.into_iter().flatten().filter(|reset| *reset != Reset::Never).collect()
    }

    /// Returns one hour of each day of two years, whose ends are within weeks and fiscal years.
    fn times() -> impl Iterator<Item = CivilTime> {
        let first = CivilDay::new(2024, 12, 20).unwrap().number();
        (first..first + 740)
            .map(|number| CivilTime::at(CivilDay::of_number(number), u8::try_from(number % 24).unwrap()))
    }

    fn opening(reset: Reset, period: &str) -> OpenPeriodRequest {
        OpenPeriodRequest {
            key: Key::of_period("g", period).unwrap(),
            declaration: String::new(),
            reset,
            spec: Spec::default(),
            floor: 0,
            may_begin: true,
            is_serial: true,
            from_unix_ms: i64::MIN,
            has_begun: true,
            redeclares: true,
            server: None,
            series: None,
            restores_row: false,
        }
    }

    /// The newest period in terms of another interval never refuses a server whose clock is in that period or later,
    /// refuses all that ended before it, and never goes back while time passes.
    #[test]
    fn the_newest_period_never_goes_back_when_the_interval_changes() {
        for (before, after) in
            resets().iter().flat_map(|before| resets().into_iter().map(move |after| (*before, after)))
        {
            let mut last = String::new();
            for stamp in times() {
                let newest = before.period(stamp).unwrap();
                let found = Generator { reset: before.to_string(), newest: newest.clone(), ..Generator::default() };
                let converted = found.newest_as(after);
                let now = after.period(stamp).unwrap();
                assert!(last <= converted && converted <= now, "{last} {newest} {converted} {now}");
                assert_eq!(opening(after, &now).refused_by(&found), None, "{newest} {now}");
                let (_, begin) = Reset::of_period(&newest).unwrap();
                let earlier = after.first_day(begin.date().unwrap()).yesterday().unwrap();
                let ended = after.period(CivilTime::at(earlier, 23)).unwrap();
                let refused = opening(after, &ended).refused_by(&found);
                assert_eq!(refused, Some(Verdict::Newer { period: converted.clone() }), "{newest} {ended}");
                last = converted;
            }
        }
    }

    /// Closed days stay closed for other intervals too.
    #[test]
    fn a_closed_period_does_not_begin_again_when_the_interval_changes() {
        let found = |newest: &str| Generator {
            newest: newest.to_owned(),
            closed_through: "20261121".to_owned(),
            ..Generator::default()
        };
        let refusal = opening(Reset::Day, "D20261121").refused_by(&found("M20261101"));
        let Some(Verdict::BadRow(message)) = refusal else { panic!("{refusal:?}") };
        assert!(message.contains("D20261121 is closed") && message.contains("2026-11-21"), "{message}");
        for (reset, period) in [(Reset::Day, "D20261122"), (Reset::Week, "W20261116"), (Reset::Month, "M20261101")] {
            assert_eq!(opening(reset, period).refused_by(&found("M20261101")), None, "{period}");
        }
    }

    #[test]
    fn the_remedy_for_a_row_with_an_invalid_name_is_to_rename_it() {
        for (name, place) in [("-", "'-'"), (".", "'.'"), ("..", "'..'"), ("it's", "'it''s'"), ("a\n", r"'a\n'")] {
            let message = RawRow { name: name.to_owned(), ..RawRow::default() }.read().unwrap_err().to_string();
            let remedy =
                format!("UPDATE getid_sequence SET name = '...' WHERE name = {place} AND series = '' AND period = ''");
            assert!(message.ends_with(&remedy) && !message.contains("delete"), "{message}");
        }
    }
}
