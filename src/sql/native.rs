//! The rows of getid's own tables: how one is read, and what becomes of it, whatever database it is in.
//!
//! The tables are the same in all three, with the column types of each:
//!
//! | `getid_store` | a single row |
//! |---|---|
//! | `id` | always 1 |
//! | `uuid` | which store this is, for ever |
//! | `changes` | one more in each transaction that creates a row or changes one ([`RowChange`]), so in the order of commits |
//!
//! | `getid_sequence` | a row for each sequence, and for each period of a serial number |
//! |---|---|
//! | `name`, `period` | the primary key, compared byte for byte; `period` is empty for a sequence |
//! | `next` | the first value that nobody has reserved |
//! | `version` | one more whenever the row is written, by whatever statement |
//! | `generation` | one more with each [`RowChange`] |
//! | `changed` | what `getid_store.changes` was at the last of them; has an index |
//! | `start`, `increment`, `offset_`, `cache`, `max_value`, `policy` | [`Spec`]; `policy` is `''`, `wait` or `error` |
//! | `state` | `live`, `dropped` or `went-back` |
//! | `created`, `updated` | Unix ms by the database's clock |
//!
//! | `getid_generator` | a row for each generator that counts ([`Generator`]) |
//! |---|---|
//! | `name` | the primary key |
//! | `declaration` | the words that declare it on all servers |
//! | `reset` | how often its counter begins again |
//! | `newest` | the newest period that has begun |
//! | `closed_through` | the last day whose periods are never begun again |
//! | `updated` | Unix ms by the database's clock |
//!
//! A row of `getid_generator` changes while the row of `getid_store` is locked.
//!
//! What is decided here is a function of the row as it was read, inside of the transaction that writes it. SQLite asks
//! for each row; a database server for all but a reservation, which is one statement there.
//!
//! Invariant: `next` goes down by [`given_back`] only, and `version` goes up with each write. So a row of a version
//! that a server knows is as that server has left it.

use getid_core::{INCREMENT_MAX, Key, RESERVED_MAX, Reset, Spec, Stamp, VALUE_MAX, WaitPolicy};

#[cfg(any(feature = "mysql", feature = "postgres"))]
use super::NotedRow;
use super::{
    Create, Day, Generator, GiveBack, Listed, Opening, PRUNED_MAX, Reserve, Reserved, Row, RowChange, RowState, Verdict,
};
use crate::text::printable::printable;

/// The version of these tables.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// A row as a database has it: any numbers, any words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawRow {
    pub(super) name: String,
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
}

/// The columns of [`RawRow`], in its order.
pub(super) const COLUMNS: &str = "name, period, next, version, generation, start, increment, offset_, cache, \
                                  max_value, policy, state, created, updated";

/// The columns of [`Generator`], in its order.
pub(super) const GENERATOR_COLUMNS: &str = "name, declaration, reset, newest, closed_through";

/// What is said of a row under whose name no sequence can be. Its numbers may be in use, so it is not to be deleted.
fn no_key(shown: &str, name: &str, period: &str) -> String {
    let shown = shown.escape_debug();
    let [name, period] = [name, period].map(|text| printable(&text.replace('\'', "''")).into_owned());
    format!(
        "the row '{shown}' of getid_sequence has a name that none can have: rename it, as its values may be in use: UPDATE \
         getid_sequence SET name = '...' WHERE name = '{name}' AND period = '{period}'"
    )
}

impl RawRow {
    /// The row, or what is wrong with it and the remedy: somebody else has written it.
    pub(super) fn read(self) -> Result<Row, String> {
        let RawRow { name, period, .. } = &self;
        let key = if period.is_empty() { Key::new(name) } else { Key::of_period(name, period) };
        let shown = if period.is_empty() { name.clone() } else { format!("{name}@{period}") };
        let key = key.ok_or_else(|| no_key(&shown, name, period))?;
        let bad = |column: &str, found: &dyn std::fmt::Display, expected: &str| {
            format!("the row of '{key}' in getid_sequence has {column} {found}, must be {expected}: UPDATE it by hand")
        };
        let number = |column: &str, found: i64, min: i64, max: i64| {
            let is_right = (min..=max).contains(&found);
            if is_right { Ok(found) } else { Err(bad(column, &found, &format!("{min} to {max}"))) }
        };
        let small = |column: &str, found: i64, min: i64, max: u32| {
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
            found => {
                let found = format!("'{}'", found.escape_debug());
                return Err(bad("state", &found, "'live', 'dropped' or 'went-back'"));
            }
        };
        Ok(Row {
            next: number("next", self.next, 0, NEXT_MAX)?,
            version: number("version", self.version, 0, i64::MAX)?.unsigned_abs(),
            generation: number("generation", self.generation, 0, i64::MAX)?.unsigned_abs(),
            spec,
            state,
            created_unix_ms: self.created,
            updated_unix_ms: self.updated,
            key,
        })
    }
}

/// A page of rows as a database has them.
pub(super) fn listed(limit: u32, rows: Vec<RawRow>) -> Listed {
    Listed::new(limit, rows.into_iter().map(|row| (row.name.clone(), row.period.clone(), Some(row.read()))))
}

/// The largest `next`: past the last value that there is, and with room for what one more step adds.
pub(super) const NEXT_MAX: i64 = VALUE_MAX + 100_000_000_000_000_000;

/// The word of a state.
pub(super) fn state_word(state: RowState) -> &'static str {
    match state {
        RowState::Live => "live",
        RowState::Dropped => "dropped",
        RowState::WentBack => "went-back",
    }
}

/// The word of a policy.
pub(super) fn policy_word(policy: Option<WaitPolicy>) -> &'static str {
    match policy {
        None => "",
        Some(WaitPolicy::Wait) => "wait",
        Some(WaitPolicy::Error) => "error",
    }
}

/// A number as a column has it.
pub(super) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The last value that counts as given: what is before `next`.
pub(super) fn last_of(row: &Row) -> i64 {
    row.next - i64::from(row.spec.increment)
}

/// Why a row that is there gives nothing; `None` if it does.
pub(super) fn refusal(row: &Row) -> Option<Verdict> {
    match row.state {
        RowState::Live => None,
        RowState::Dropped => Some(Verdict::Dropped { last: last_of(row) }),
        RowState::WentBack => Some(Verdict::WentBack { next: row.next }),
    }
}

/// What a reservation makes of a row. Where the max is reached the row stays as it is.
pub(super) fn reserved(row: &Row, ask: &Reserve, now_unix_ms: i64) -> Result<Reserved, Verdict> {
    if let Some(refusal) = refusal(row) {
        return Err(refusal);
    }
    let spec = &row.spec;
    let increment = i64::from(spec.increment);
    let first = spec.next_from(row.next.max(floor_of(ask)));
    let left = if first > spec.max { 0 } else { (spec.max - first) / increment + 1 };
    let values = left.min(values_of(ask));
    let mut after = row.clone();
    if values > 0 {
        after.next = first + values * increment;
        after.version += 1;
        after.updated_unix_ms = now_unix_ms;
    }
    Ok(Reserved { first, last: first + (values - 1) * increment, found_next: row.next, row: after })
}

/// How many values an ask may have.
pub(super) fn values_of(ask: &Reserve) -> i64 {
    ask.values.clamp(1, RESERVED_MAX).into()
}

/// Below which it wants none.
pub(super) fn floor_of(ask: &Reserve) -> i64 {
    ask.floor.min(VALUE_MAX + 1)
}

/// Values that a server reserved so long ago, ms, are given no more under another declaration: it throws them away
/// within a second or two, or `sequence-ride-out-s` after it last reached the store.
const HELD_MS_MAX: i64 = 86_400_000;

/// What becomes of a generator's row, and of its counters, when a period is opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PeriodOpening {
    pub(super) generator: Generator,
    /// The counter's row, if it is to be written: created, raised or given back its life.
    pub(super) row: Option<Row>,
    /// What becomes of the generator's other rows.
    pub(super) others: Others,
}

/// What becomes of the other rows of a generator whose period is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Nothing.
    Stay,
    /// Rows that servers may hold values of get a new generation, so that these are thrown away.
    Renewed,
    /// Live rows whose periods have this length are dropped: the generator counted by them before.
    Dropped {
        /// Bytes of such a period.
        length: usize,
    },
}

/// Which rows of other lengths than a period's count for its floor: those that were written at `since_unix_ms` or
/// later, and have no period or one that is not before `year`.
pub(super) struct Recent {
    pub(super) since_unix_ms: i64,
    pub(super) year: String,
}

/// The rows that a period's row is created above, if it is: a generator that began again more often, or less, has given
/// the texts of this period from them, or may still. Its texts show the time, so earlier rows do no harm.
pub(super) fn recent(ask: &Opening) -> Recent {
    let since_unix_ms = ask.from_unix_ms.saturating_sub(HELD_MS_MAX);
    // The zone may be half a day from UTC.
    let year = Day::of_unix_ms(since_unix_ms.saturating_sub(HELD_MS_MAX)).map(|day| day.text()[..4].to_owned());
    Recent { since_unix_ms: since_unix_ms.max(0), year: year.filter(|_| since_unix_ms > 0).unwrap_or_default() }
}

/// Opens a period. `highest` is the largest `next` of the [`recent`] rows.
pub(super) fn opened_period(
    found: Option<&Generator>,
    row: Option<&Row>,
    highest: i64,
    ask: &Opening,
    now_unix_ms: i64,
) -> Result<PeriodOpening, Verdict> {
    let period = ask.key.period();
    let is_same = found.is_some_and(|found| found.reset == ask.reset.word());
    let newest = found.map_or_else(String::new, |found| found.newest_as(ask.reset));
    if let Some(found) = found {
        ask.refused_by(found).map_or(Ok(()), Err)?;
        if is_same && row.is_none() && *newest == *period {
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
    let row = opened_row(row, found.is_some(), is_same, is_changed, highest, ask, now_unix_ms)?;
    let others = match found {
        Some(found) if !is_same => {
            let before = Reset::ALL.into_iter().find(|reset| reset.word() == found.reset);
            let length = before.and_then(|reset| reset.period(Stamp::FIRST)).map_or(0, |period| period.len());
            Others::Dropped { length }
        }
        Some(_) if is_changed => Others::Renewed,
        _ => Others::Stay,
    };
    let generator = Generator {
        name: ask.key.name().to_owned(),
        declaration: ask.declaration.clone(),
        reset: ask.reset.word().to_owned(),
        newest: if ask.has_begun { period.to_owned() } else { newest },
        closed_through: found.map_or_else(String::new, |found| found.closed_through.clone()),
    };
    Ok(PeriodOpening { generator, row, others })
}

/// The counter's row, if it is to be written.
fn opened_row(
    row: Option<&Row>,
    is_known: bool,
    is_same: bool,
    is_changed: bool,
    highest: i64,
    ask: &Opening,
    now_unix_ms: i64,
) -> Result<Option<Row>, Verdict> {
    let above = |spec: &Spec, next: i64| spec.next_from(next.max(ask.floor).max(highest).min(VALUE_MAX + 1));
    let Some(row) = row else {
        if !ask.may_begin {
            return Err(Verdict::NoSuch);
        }
        let row = opened(&ask.key, ask.spec, now_unix_ms);
        return Ok(Some(Row { next: above(&row.spec, row.next), ..row }));
    };
    let is_dropped = row.state == RowState::Dropped;
    // Only a change of how often it begins again drops the row of a period; one without may be an operator's.
    if is_dropped && ask.key.period().is_empty() && (is_same || !is_known) {
        return Err(Verdict::Dropped { last: last_of(row) });
    }
    let next = if is_same && !is_dropped { row.next } else { above(&row.spec, row.next) };
    let Spec { max, cache, .. } = if is_changed && ask.is_serial { ask.spec } else { row.spec };
    let is_written = next != row.next || is_dropped || is_changed;
    Ok(is_written.then(|| Row {
        next,
        state: if is_dropped { RowState::Live } else { row.state },
        spec: Spec { max, cache, ..row.spec },
        version: row.version + 1,
        generation: row.generation + 1,
        updated_unix_ms: now_unix_ms,
        ..row.clone()
    }))
}

/// The generator's row says that a period has begun, and the row of its counter is gone.
fn lost_counter(key: &Key) -> Verdict {
    Verdict::BadRow(format!(
        "its counter '{key}' has begun, and its row is missing in getid_sequence: put it back; else 'SEQUENCE RAISE {} \
         N', above all that was given, lets it go on",
        key.name()
    ))
}

/// What [`super::Connection::prune`] does with a generator.
pub(super) struct Pruning {
    /// Its row afterwards.
    pub(super) closed: Generator,
    /// The condition, in the SQL of all three databases, that a row is one of its ended periods. A row that went back
    /// stays: it is to be settled.
    pub(super) condition: String,
}

impl Pruning {
    /// Prunes a generator through a day; `None`: nothing of it has ended. The newest period stays, with the others of
    /// its day.
    pub(super) fn new(found: &Generator, through: &Day) -> Option<Pruning> {
        // The name is written in SQL as it is.
        let name = Key::new(&found.name)?;
        let before = Day::before(&found.newest)?;
        let through = if before.0 < through.0 { &before } else { through };
        let (day, (month, year)) = (through.text(), through.month_and_year());
        let condition = format!(
            "name = '{name}' AND state <> 'went-back' AND (LENGTH(period) = 4 AND period <= '{year}' \
             OR LENGTH(period) = 6 AND period <= '{month}' OR LENGTH(period) >= 8 AND SUBSTR(period, 1, 8) <= '{day}')"
        );
        let closed_through = found.closed_through.clone().max(day);
        Some(Pruning { closed: Generator { closed_through, ..found.clone() }, condition })
    }

    /// Counts the rows, and selects the first and the last of their periods.
    pub(super) fn count_sql(&self) -> String {
        format!(
            "SELECT COUNT(*), COALESCE(MIN(period), ''), COALESCE(MAX(period), '') FROM getid_sequence WHERE {}",
            self.condition
        )
    }

    /// Deletes some of the rows, in the SQL of databases whose DELETE has no LIMIT.
    pub(super) fn delete_sql(&self) -> String {
        format!(
            "DELETE FROM getid_sequence WHERE (name, period) IN (SELECT name, period FROM getid_sequence WHERE {} \
             LIMIT {PRUNED_MAX})",
            self.condition
        )
    }
}

/// Notes of rows whose periods are not closed: a row that was pruned is not one that the store lost.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn without_closed(notes: &[NotedRow], generators: &[Generator]) -> Vec<NotedRow> {
    let is_closed = |note: &NotedRow| {
        let generator = generators.iter().find(|generator| generator.name == note.key.name());
        let through = generator.and_then(|generator| Day::parse(&generator.closed_through));
        through.is_some_and(|through| through.ends(note.key.period()))
    };
    notes.iter().filter(|note| !is_closed(note)).cloned().collect()
}

/// The row with the end of a reservation back; `None` if anybody has written it since.
pub(super) fn given_back(row: &Row, end: &GiveBack, now_unix_ms: i64) -> Option<Row> {
    let is_ours = row.state == RowState::Live && row.version == end.version;
    let is_value = end.next < row.next && row.spec.next_from(end.next) == end.next;
    (is_ours && is_value).then(|| Row {
        next: end.next,
        version: row.version + 1,
        updated_unix_ms: now_unix_ms,
        ..row.clone()
    })
}

/// The row that a creation makes, of what was found by its name.
pub(super) fn created(found: Option<&Row>, new: &Create, rows: u64, now_unix_ms: i64) -> Result<Row, Verdict> {
    let fresh = opened(&new.key, new.spec, now_unix_ms);
    let above = |next: i64| new.spec.next_from(next.max(new.floor).min(VALUE_MAX + 1));
    let row = match found {
        None if new.fresh_after_ms.is_some() => fresh,
        None => Row { next: above(fresh.next), ..fresh },
        Some(row) if row.state != RowState::Dropped => return Err(Verdict::Exists(Box::new(row.clone()))),
        Some(row) if new.fresh_after_ms.is_some() => Row {
            version: row.version + 1,
            generation: row.generation + 1,
            ..begun_anew(row, new, fresh, now_unix_ms)?
        },
        Some(row) if !new.above_dropped => return Err(Verdict::Dropped { last: last_of(row) }),
        Some(row) => Row { next: above(row.next), version: row.version + 1, generation: row.generation + 1, ..fresh },
    };
    if new.rows_max > 0 && rows >= new.rows_max {
        return Err(Verdict::TooMany { max: new.rows_max });
    }
    Ok(row)
}

/// The row of one that begins at its start though it was dropped, once nobody can have values of it.
fn begun_anew(row: &Row, new: &Create, fresh: Row, now_unix_ms: i64) -> Result<Row, Verdict> {
    let wait_ms = new.fresh_after_ms.unwrap_or(0) - (now_unix_ms - row.updated_unix_ms);
    if wait_ms <= 0 {
        return Ok(fresh);
    }
    Err(Verdict::Unsupported(format!(
        "it was dropped at {} a moment ago, and other servers may have values of it for {} s: FRESH begins anew after that",
        last_of(row),
        (wait_ms + 999) / 1000
    )))
}

/// The rows, of those that were `found`, that are lower than their notes, and the `next` that each of them gets.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn lower_than(notes: &[NotedRow], found: Vec<RawRow>) -> Vec<(Key, i64)> {
    let raised = |raw: RawRow| {
        // A row that cannot be read gives nothing.
        let row = raw.read().ok()?;
        let note = notes.iter().find(|note| note.key == row.key)?;
        let is_lower = row.next < note.next && !note.is_older_than(row.generation, row.created_unix_ms);
        is_lower.then(|| (row.key.clone(), row.spec.next_from(note.next.min(VALUE_MAX + 1))))
    };
    found.into_iter().filter_map(raised).collect()
}

/// Rows for the notes that have none among those that were `found`: the store lost them. They are marked, because only
/// a row says where to continue; without one another server could begin the name at its start.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn lost_rows(notes: &[NotedRow], found: &[RawRow]) -> Vec<Row> {
    let is_found =
        |note: &&NotedRow| found.iter().any(|row| (&*row.name, &*row.period) == (note.key.name(), note.key.period()));
    let lost = |note: &NotedRow| Row {
        next: note.next.min(VALUE_MAX + 1),
        generation: note.generation,
        state: RowState::WentBack,
        ..opened(&note.key, Spec::default(), note.created_unix_ms)
    };
    notes.iter().filter(|note| !is_found(note)).map(lost).collect()
}

/// A new row, of which nothing was reserved.
pub(super) fn opened(key: &Key, spec: Spec, now_unix_ms: i64) -> Row {
    Row {
        key: key.clone(),
        next: spec.next_from(spec.start),
        version: 0,
        generation: 0,
        spec,
        state: RowState::Live,
        created_unix_ms: now_unix_ms,
        updated_unix_ms: now_unix_ms,
    }
}

/// The row after a change. A raise that settles nothing leaves the mark of a row that went back.
pub(super) fn changed(row: &Row, change: &RowChange, now_unix_ms: i64) -> Result<Row, Verdict> {
    if row.state == RowState::Dropped {
        return Err(Verdict::Dropped { last: last_of(row) });
    }
    let mut after = row.clone();
    let at_least = |after: &mut Row, next: i64| {
        after.next = after.spec.next_from(after.next.max(next.min(VALUE_MAX + 1)));
    };
    match change {
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
        RowChange::Confirm => after.state = RowState::Live,
    }
    after.version += 1;
    after.generation += 1;
    after.updated_unix_ms = now_unix_ms;
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::RawRow;

    #[test]
    fn a_row_whose_name_none_can_have_is_to_be_renamed_and_not_lost() {
        for (name, place) in [("-", "'-'"), (".", "'.'"), ("..", "'..'"), ("it's", "'it''s'"), ("a\n", r"'a\n'")] {
            let said = RawRow { name: name.to_owned(), ..RawRow::default() }.read().unwrap_err();
            let remedy = format!("UPDATE getid_sequence SET name = '...' WHERE name = {place} AND period = ''");
            assert!(said.ends_with(&remedy) && !said.contains("delete"), "{said}");
        }
    }
}
