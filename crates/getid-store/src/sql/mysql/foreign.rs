//! A connection to a table of Leaf's or Tinyid's, shared with their own servers.
//!
//! Not here: giving back, creating, changing. These tables have no generation and no tombstones, so their operator does
//! that in SQL, which the verdicts name.
//!
//! Leaf and Tinyid have no order over several databases. getid has one on each server: a segment below earlier ones is
//! discarded.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use getid_core::server::beat::{BeatAnswer, BeatRequest, Credentials};
use getid_core::server::{Key, SEQUENCE_NAME_RULE};

use super::link::MysqlLink;
use crate::sql::beats::{self, BeatStatements};
use crate::sql::connection::tokens;
use crate::sql::packet::{Link as _, Packet, SqlRow, hex};
use crate::sql::script::or;
use crate::sql::{
    Changes, Comparison, Connection, CreateRequest, GiveBackRequest, NotedRow, Reservations, ReserveRequest, RowChange,
    RowError, RowPage, SequenceRow, StoreError, StoreFuture, StoreInfo, Token, Verdict,
};
use getid_text::plural::counted;
use getid_text::printable::printable_up_to;

/// Pattern of names that sequences can have, apart from the three exceptions in [`is_name`]. Other names are not
/// listed.
const NAMES: &str = "'^([A-Za-z0-9_.:{}#-]([A-Za-z0-9_.:{}# -]{0,126}[A-Za-z0-9_.:{}#-])?|\
                     ([A-Za-z0-9_.:{}#-][A-Za-z0-9_.:{}# -]*)?[{][A-Za-z0-9_.:{}#@ -]*[}]\
                     ([A-Za-z0-9_.:{}# -]*[A-Za-z0-9_.:{}#-])?)$'";

/// Most names in a warning; [`NAME_CHARS_MAX`] is the most characters of each.
const UNSERVED_SHOWN_MAX: usize = 5;
const NAME_CHARS_MAX: usize = 64;

/// A table of another system.
pub(super) trait ForeignTable: Send + Sync + 'static {
    /// Name of the table.
    const TABLE: &'static str;
    /// Columns that are read and written.
    const COLUMNS: &'static str;
    /// Column of the names.
    const NAME: &'static str;
    /// Condition that no row meets.
    const NO_ROW: &'static str;
    /// SQL of the table.
    const SCHEMA: &'static str;
    /// A row as read from the table.
    type Row: Send + Sync;

    /// Returns the query for rows, without its condition.
    fn select_sql() -> String;

    /// Returns the name and the columns of a row of that query.
    fn row(row: &SqlRow) -> (String, Self::Row);

    /// Converts a row, valid or not.
    fn shown(row: &Self::Row, key: Key) -> SequenceRow;

    /// Fails if no segment can be reserved from a row.
    fn check(row: &Self::Row, key: &Key) -> Result<(), RowError>;

    /// Returns the UPDATE that raises a row past the values of a note.
    fn raise_sql(note: &NotedRow) -> String;

    /// Returns how an operator creates a row.
    fn how_to_create(name: &str) -> String;

    /// Returns how an operator changes a row.
    fn how_to_change(name: &str, change: &RowChange) -> String;

    /// Does [`Connection::reserve_as`].
    fn reserve(
        link: &mut MysqlLink,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
    ) -> impl Future<Output = Result<Reservations, StoreError>> + Send;
}

/// A connection to a table of another system.
pub(super) struct ForeignConnection<T> {
    link: MysqlLink,
    table: PhantomData<T>,
}

impl<T: ForeignTable> ForeignConnection<T> {
    pub(super) fn new(link: MysqlLink) -> ForeignConnection<T> {
        ForeignConnection { link, table: PhantomData }
    }

    async fn rows(&mut self, condition: &str) -> Result<Vec<(String, T::Row)>, StoreError> {
        let done = self.link.run(Packet::of(format!("{} WHERE {condition}", T::select_sql()))).await?;
        Ok(done[0].rows.iter().map(T::row).collect())
    }

    /// Raises rows like a reservation: other users of a row see a segment that was taken.
    async fn compare_all(&mut self, server: Credentials, notes: &[NotedRow]) -> Result<Option<Comparison>, StoreError> {
        let mut packet = Packet::transaction();
        let own = BeatStatements::add::<MysqlLink>(&mut packet, server, beats::COMPARING);
        let raises: Vec<usize> = notes.iter().map(|note| packet.add(T::raise_sql(note))).collect();
        let done = self.link.run(packet).await?;
        let Ok(beaten) = own.read(&done) else { return Ok(None) };
        let raised = raises.into_iter().filter(|at| done[*at].affected > 0).count();
        Ok(Some(Comparison { beat: beaten.beat, raised }))
    }
}

impl<T: ForeignTable> Connection for ForeignConnection<T> {
    fn info(&self) -> &StoreInfo {
        self.link.info()
    }

    fn reserve_as<'a>(
        &'a mut self,
        server: Option<Credentials>,
        asks: &'a [ReserveRequest],
    ) -> StoreFuture<'a, Reservations> {
        Box::pin(T::reserve(&mut self.link, server, asks))
    }

    fn beat<'a>(&'a mut self, ask: &'a BeatRequest) -> StoreFuture<'a, BeatAnswer> {
        Box::pin(beats::beat(&mut self.link, ask))
    }

    fn compare<'a>(&'a mut self, server: Credentials, notes: &'a [NotedRow]) -> StoreFuture<'a, Option<Comparison>> {
        Box::pin(self.compare_all(server, notes))
    }

    fn give_back<'a>(&'a mut self, _: Option<Credentials>, ends: &'a [GiveBackRequest]) -> StoreFuture<'a, Vec<bool>> {
        Box::pin(async { Ok(vec![false; ends.len()]) })
    }

    fn create_all<'a>(&'a mut self, new: &'a [CreateRequest]) -> StoreFuture<'a, Reservations> {
        let verdict = |new: &CreateRequest| Err(Verdict::Unsupported(T::how_to_create(new.key.name())));
        Box::pin(async move { Ok(Reservations { server: None, each: new.iter().map(verdict).collect() }) })
    }

    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        let verdict = Verdict::Unsupported(T::how_to_change(key.name(), change));
        Box::pin(async { Ok(Err(verdict)) })
    }

    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>> {
        Box::pin(async move {
            let rows = self.rows(&is_row::<T>(key)).await?;
            let Some((_, row)) = rows.into_iter().find(|(name, _)| name == key.as_str()) else { return Ok(None) };
            T::check(&row, key).map_err(|bad| StoreError::Refused(bad.to_string()))?;
            Ok(Some(T::shown(&row, key.clone())))
        })
    }

    fn list<'a>(&'a mut self, after: &'a str, limit: u32, _: bool) -> StoreFuture<'a, RowPage> {
        Box::pin(async move {
            // The cursor may be any text.
            let (column, digits) = (T::NAME, hex(after.as_bytes()));
            let page = format!(
                "{} AND CAST({column} AS BINARY) > x'{digits}' ORDER BY CAST({column} AS BINARY) LIMIT {limit}",
                is_name(column)
            );
            let each = self.rows(&page).await?.into_iter().map(|(name, row)| {
                let shown = Key::new(&name).map(|key| Ok(T::shown(&row, key)));
                ([name, String::new(), String::new()], shown)
            });
            Ok(RowPage::new(limit, each))
        })
    }

    fn count(&mut self) -> StoreFuture<'_, Option<u64>> {
        Box::pin(async {
            let count = format!("SELECT COUNT(*) FROM {} WHERE {}", T::TABLE, is_name(T::NAME));
            Ok(Some(self.link.run(Packet::of(count)).await?[0].number().unwrap_or(0).unsigned_abs()))
        })
    }

    /// Returns no changes: these tables have no generations. The query detects a connection that has ended.
    fn changes(&mut self, _: Option<u64>) -> StoreFuture<'_, Changes> {
        Box::pin(async {
            self.link.run(Packet::of("SELECT 1")).await?;
            Ok(Changes::default())
        })
    }

    fn tokens(&mut self) -> StoreFuture<'_, Option<Vec<Token>>> {
        Box::pin(tokens(&mut self.link))
    }
}

/// Returns the condition that a row has this key, by its bytes: the column compares `Orders` and `orders` as equal.
pub(super) fn is_row<T: ForeignTable>(key: &Key) -> String {
    format!("{0} = '{key}' AND CAST({0} AS BINARY) = '{key}'", T::NAME)
}

/// Returns the condition that a row has one of these keys.
pub(super) fn any_of<'a, T: ForeignTable>(keys: impl Iterator<Item = &'a Key>) -> String {
    or(keys.map(is_row::<T>))
}

/// Returns rows by their names.
pub(super) fn by_name<T: ForeignTable>(rows: &[SqlRow]) -> BTreeMap<String, T::Row> {
    rows.iter().map(T::row).collect()
}

/// Returns the condition that a row's name is a valid one of a sequence. Some databases accept a name with a line feed
/// at its end.
fn is_name(column: &str) -> String {
    format!("({column} REGEXP {NAMES} AND {column} NOT IN ('-', '.', '..'))")
}

/// Adds a warning about rows whose names are not valid for sequences: requests for them are not served.
pub(super) async fn check_names<T: ForeignTable>(link: &mut MysqlLink) -> Result<(), StoreError> {
    let (table, column, is_name) = (T::TABLE, T::NAME, is_name(T::NAME));
    let mut packet = Packet::of(format!("SELECT COUNT(*) FROM {table} WHERE NOT {is_name}"));
    packet.add(format!(
        "SELECT {column} FROM {table} WHERE NOT {is_name} ORDER BY CAST({column} AS BINARY) LIMIT {UNSERVED_SHOWN_MAX}"
    ));
    let done = match link.run(packet).await.map_err(StoreError::from) {
        Ok(done) => done,
        // Values are reserved by the table's key, so a table that is too large to search is served.
        Err(StoreError::Refused(message)) => {
            link.info.warnings.push(format!("{table} was not searched for names that cannot be served: {message}"));
            return Ok(());
        }
        Err(unknown) => return Err(unknown),
    };
    let count = done[0].number().unwrap_or(0).unsigned_abs();
    if count == 0 {
        return Ok(());
    }
    let name = |row: &SqlRow| format!("'{}'", printable_up_to(&row.text(0).unwrap_or_default(), NAME_CHARS_MAX));
    let shown: Vec<String> = done[1].rows.iter().map(name).collect();
    let others = count.saturating_sub(shown.len() as u64);
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    link.info.warnings.push(format!(
        "{} of {table} cannot be served, because a name has {SEQUENCE_NAME_RULE}: {column} {}{more}",
        counted(count, "row"),
        shown.join(", ")
    ));
    Ok(())
}
