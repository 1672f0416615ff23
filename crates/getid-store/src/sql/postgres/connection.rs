//! Operations on sequences in a session, and their answers.

use std::collections::{BTreeMap, HashSet};

use getid_core::server::Key;
use getid_core::server::beat::{BeatAnswer, BeatKind, BeatRequest, Credentials, Nonce, ServerRow};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Row as SqlRow};

use super::session::PostgresSession;
use super::{failures, opening, statements};
use crate::sql::beats::{self, RawServer};
use crate::sql::native::{self, OtherRowsChange, PrunePlan, RawRow, column, policy_word, state_word};
use crate::sql::{
    BegunPeriod, Changes, Comparison, Connection, CreateRequest, GENERATORS_MAX, Generator, GiveBackRequest, NotedRow,
    OpenPeriodRequest, PruneRequest, PruneResult, Reservation, Reservations, ReserveRequest, RowChange, RowPage,
    SequenceRow, ServerBeat, StoreError, StoreFuture, StoreInfo, TOKENS_MAX, Token, Verdict,
};
use getid_text::store_url::ServerAddress;

/// Most rows of an answer.
const ROWS_MAX: i64 = LIST_MAX as i64;

/// Most rows of a page.
const LIST_MAX: u32 = 1000;

/// A parameter of a statement, and its type.
type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// An open connection to the tables of sequences.
pub(super) struct PostgresConnection {
    session: PostgresSession,
    info: StoreInfo,
    counted: Option<RowCount>,
}

/// Number of rows at a moment.
#[derive(Clone, Copy)]
struct RowCount {
    rows: u64,
    /// Number of the change whose transaction counted the rows.
    change: i64,
}

impl PostgresConnection {
    /// Sets the session up, and checks the tables.
    pub(super) async fn open(
        mut session: PostgresSession,
        address: &ServerAddress,
    ) -> Result<PostgresConnection, StoreError> {
        session.begin()?;
        let opened = opening::open(&session.client, address).await;
        let info = session.finish(opened)?;
        Ok(PostgresConnection { session, info, counted: None })
    }
}

impl Connection for PostgresConnection {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn reserve_as<'a>(
        &'a mut self,
        server: Option<Credentials>,
        asks: &'a [ReserveRequest],
    ) -> StoreFuture<'a, Reservations> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = reserve(&self.session.client, server, asks).await;
            self.session.finish(answer)
        })
    }

    fn beat<'a>(&'a mut self, ask: &'a BeatRequest) -> StoreFuture<'a, BeatAnswer> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = beat(&self.session.client, ask).await;
            let answer = settle(&self.session.client, answer.map(Ok)).await.and_then(done);
            self.session.finish(answer)
        })
    }

    fn compare<'a>(&'a mut self, server: Credentials, notes: &'a [NotedRow]) -> StoreFuture<'a, Option<Comparison>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = compare(&self.session.client, server, notes).await;
            let answer = settle(&self.session.client, answer.map(Ok)).await.and_then(done);
            self.session.finish(answer)
        })
    }

    fn give_back<'a>(
        &'a mut self,
        server: Option<Credentials>,
        ends: &'a [GiveBackRequest],
    ) -> StoreFuture<'a, Vec<bool>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = give_back(&self.session.client, server, ends).await;
            self.session.finish(answer)
        })
    }

    fn create_all<'a>(&'a mut self, new: &'a [CreateRequest]) -> StoreFuture<'a, Vec<Result<SequenceRow, Verdict>>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = create_all(&self.session.client, new, &mut self.counted).await;
            let answer = settle(&self.session.client, answer.map(Ok)).await.and_then(done);
            self.session.finish(answer)
        })
    }

    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = change_row(&self.session.client, key, change).await;
            let answer = settle(&self.session.client, answer).await;
            self.session.finish(answer)
        })
    }

    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = row(&self.session.client, statements::ROW, key).await;
            self.session.finish(answer.and_then(|row| row.transpose().map_err(StoreError::Refused)))
        })
    }

    fn list<'a>(&'a mut self, after: &'a str, limit: u32, periods: bool) -> StoreFuture<'a, RowPage> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = list(&self.session.client, after, limit, periods).await;
            self.session.finish(answer)
        })
    }

    fn count(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = number(&self.session.client, statements::COUNT, &[]).await;
            self.session.finish(answer)
        })
    }

    fn maximum<'a>(&'a mut self, table: &'a str, id: i64) -> StoreFuture<'a, Result<Option<i64>, Verdict>> {
        Box::pin(async move {
            self.session.begin()?;
            let sql = format!("SELECT current_max_id::bigint FROM {table} WHERE id = $1");
            let rows = query(&self.session.client, &sql, &[(&id, Type::INT8)]).await;
            self.session.finish(rows.and_then(|rows| rows.first().map(|row| get(row, 0)).transpose().map(Ok)))
        })
    }

    fn tokens(&mut self) -> StoreFuture<'_, Option<Vec<Token>>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = tokens(&self.session.client).await;
            self.session.finish(answer)
        })
    }

    fn changes(&mut self, seen: Option<u64>) -> StoreFuture<'_, Changes> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = changes(&self.session.client, seen).await;
            self.session.finish(answer)
        })
    }

    fn generators<'a>(&'a mut self, names: Option<&'a [String]>) -> StoreFuture<'a, Vec<Generator>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = generators(&self.session.client, names).await;
            self.session.finish(answer)
        })
    }

    fn open_period<'a>(&'a mut self, ask: &'a OpenPeriodRequest) -> StoreFuture<'a, Result<Generator, Verdict>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = open_period(&self.session.client, ask).await;
            let answer = settle(&self.session.client, answer).await;
            self.session.finish(answer)
        })
    }

    fn begin_periods<'a>(&'a mut self, begun: &'a [BegunPeriod]) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = begin_periods(&self.session.client, begun).await;
            self.session.finish(answer)
        })
    }

    fn prune<'a>(&'a mut self, ask: &'a PruneRequest) -> StoreFuture<'a, Result<PruneResult, Verdict>> {
        Box::pin(async move {
            self.session.begin()?;
            let answer = prune(&self.session.client, ask).await;
            let answer = settle(&self.session.client, answer).await;
            self.session.finish(answer)
        })
    }
}

async fn generators(client: &Client, names: Option<&[String]>) -> Result<Vec<Generator>, StoreError> {
    let limit = i64::try_from(GENERATORS_MAX).unwrap_or(i64::MAX);
    let rows = query(client, statements::GENERATORS, &[(&names, Type::TEXT_ARRAY), (&limit, Type::INT8)]).await?;
    rows.iter().map(generator).collect()
}

fn generator(row: &SqlRow) -> Result<Generator, StoreError> {
    Ok(Generator {
        name: get(row, 0)?,
        declaration: get(row, 1)?,
        reset: get(row, 2)?,
        newest: get(row, 3)?,
        closed_through: get(row, 4)?,
    })
}

async fn lock_generator(client: &Client, name: &str) -> Result<Option<Generator>, StoreError> {
    let rows = query(client, statements::LOCK_GENERATOR, &[(&name, Type::TEXT)]).await?;
    rows.first().map(generator).transpose()
}

async fn write_generator(client: &Client, generator: &Generator, now: i64) -> Result<(), StoreError> {
    let Generator { name, declaration, reset, newest, closed_through } = generator;
    let params: &[Param<'_>] = &[
        (name, Type::TEXT),
        (declaration, Type::TEXT),
        (reset, Type::TEXT),
        (newest, Type::TEXT),
        (closed_through, Type::TEXT),
        (&now, Type::INT8),
    ];
    let written = client.execute_typed(statements::WRITE_GENERATOR, params).await;
    written.map(drop).map_err(|error| failures::of_statement(&error))
}

async fn open_period(client: &Client, ask: &OpenPeriodRequest) -> Result<Result<Generator, Verdict>, StoreError> {
    execute(client, statements::BEGIN).await?;
    if let Some(server) = ask.server
        && own_beat(client, statements::BEAT_LIVE, server).await?.is_none()
    {
        return Err(beats::server_row_error());
    }
    let (change, now) = tick(client).await?;
    let (name, period) = (ask.key.name(), ask.key.period());
    let found = lock_generator(client, name).await?;
    let native::RecentRows { since_unix_ms, year } = native::recent_rows(ask);
    let params: &[Param<'_>] =
        &[(&name, Type::TEXT), (&period, Type::TEXT), (&since_unix_ms, Type::INT8), (&year, Type::TEXT)];
    let highest = number(client, statements::HIGHEST_OF_OTHER_PERIODS, params).await?;
    let row = match row(client, statements::LOCK_ROW, &ask.key).await?.transpose() {
        Err(bad) => return Ok(Err(Verdict::BadRow(bad))),
        Ok(row) => row,
    };
    let highest = i64::try_from(highest).unwrap_or(i64::MAX);
    let opening = match native::apply_period_opening(found.as_ref(), row.as_ref(), highest, ask, now) {
        Err(verdict) => return Ok(Err(verdict)),
        Ok(opening) => opening,
    };
    match &opening.row {
        Some(after) if row.is_some() => write_row(client, after, change).await?,
        Some(after) => {
            insert(client, std::slice::from_ref(after), &[change]).await?;
        }
        None => {}
    }
    let written = match opening.others {
        OtherRowsChange::Stay => Ok(0),
        OtherRowsChange::Renewed => {
            let params: &[Param<'_>] =
                &[(&name, Type::TEXT), (&period, Type::TEXT), (&change, Type::INT8), (&since_unix_ms, Type::INT8)];
            client.execute_typed(statements::RENEW_PERIODS, params).await
        }
        OtherRowsChange::Dropped { length } => {
            let length = i32::try_from(length).unwrap_or(i32::MAX);
            let params: &[Param<'_>] = &[(&name, Type::TEXT), (&length, Type::INT4), (&change, Type::INT8)];
            client.execute_typed(statements::DROP_PERIODS, params).await
        }
    };
    written.map_err(|error| failures::of_statement(&error))?;
    write_generator(client, &opening.generator, now).await?;
    execute(client, "COMMIT").await?;
    Ok(Ok(opening.generator))
}

async fn begin_periods(client: &Client, begun: &[BegunPeriod]) -> Result<(), StoreError> {
    let (names, periods) = names(begun.iter().map(|begun| &begun.key));
    let declarations: Vec<&str> = begun.iter().map(|begun| begun.declaration.as_str()).collect();
    let params: &[Param<'_>] =
        &[(&names, Type::TEXT_ARRAY), (&periods, Type::TEXT_ARRAY), (&declarations, Type::TEXT_ARRAY)];
    let written = client.execute_typed(statements::BEGIN_PERIODS, params).await;
    written.map(drop).map_err(|error| failures::of_statement(&error))
}

async fn prune(client: &Client, ask: &PruneRequest) -> Result<Result<PruneResult, Verdict>, StoreError> {
    let (_, now) = begin(client).await?;
    let Some(found) = lock_generator(client, &ask.name).await? else { return Ok(Err(Verdict::NoSuch)) };
    let Some(pruning) = PrunePlan::new(&found, &ask.through) else {
        execute(client, "ROLLBACK").await?;
        return Ok(Ok(PruneResult::default()));
    };
    let rows = query(client, &pruning.count_sql(), &[]).await?;
    let row = rows.first().ok_or_else(|| unexpected("has not counted"))?;
    let mut pruned =
        PruneResult { rows: get::<i64>(row, 0)?.unsigned_abs(), first: get(row, 1)?, last: get(row, 2)?, deleted: 0 };
    if ask.deletes {
        write_generator(client, &pruning.closed, now).await?;
        let deleted = client.execute_typed(&pruning.delete_sql(), &[]).await;
        pruned.deleted = deleted.map_err(|error| failures::of_statement(&error))?;
    }
    execute(client, "COMMIT").await?;
    Ok(Ok(pruned))
}

async fn reserve(
    client: &Client,
    server: Option<Credentials>,
    asks: &[ReserveRequest],
) -> Result<Reservations, StoreError> {
    let mut keys = HashSet::with_capacity(asks.len());
    if let Some(twice) = asks.iter().find(|ask| !keys.insert(&ask.key)) {
        // One UPDATE writes a row only once.
        return Err(StoreError::Refused(format!("'{}' is twice in one reservation", twice.key)));
    }
    let (names, periods) = names(asks.iter().map(|ask| &ask.key));
    let most: Vec<i64> = asks.iter().map(native::values_of).collect();
    let floors: Vec<i64> = asks.iter().map(native::floor_of).collect();
    let (nonce, life, at_least) = texts_of(server);
    let params: &[Param<'_>] = &[
        (&names, Type::TEXT_ARRAY),
        (&periods, Type::TEXT_ARRAY),
        (&most, Type::INT8_ARRAY),
        (&floors, Type::INT8_ARRAY),
        (&nonce, Type::TEXT),
        (&life, Type::TEXT),
        (&at_least, Type::INT8),
    ];
    let rows = query(client, statements::RESERVE, params).await?;
    let server = match (server, rows.first()) {
        (Some(_), Some(row)) => Some(ServerBeat { beat: get::<i64>(row, 18)?.unsigned_abs(), instance: get(row, 19)? }),
        (Some(_), None) if !asks.is_empty() => return Err(beats::server_row_error()),
        _ => None,
    };
    let mut answers: Vec<Option<Result<Reservation, Verdict>>> = vec![None; asks.len()];
    for row in &rows {
        let nth = usize::try_from(get::<i64>(row, 0)?).unwrap_or(0).wrapping_sub(1);
        if let (Some(ask), Some(answer)) = (asks.get(nth), answers.get_mut(nth)) {
            *answer = Some(reserved(row, ask)?);
        }
    }
    let each = answers.into_iter().collect::<Option<_>>().ok_or_else(|| unexpected("has not answered for each row"))?;
    Ok(Reservations { server, each })
}

/// Returns nonce, life and least beat of a server as parameters of statements; empty ones for a tool.
fn texts_of(server: Option<Credentials>) -> (String, String, i64) {
    server.map_or_else(Default::default, |own| (own.nonce.to_string(), own.life.to_string(), column(own.at_least)))
}

async fn beat(client: &Client, ask: &BeatRequest) -> Result<BeatAnswer, StoreError> {
    let mut is_done = true;
    execute(client, statements::BEGIN).await?;
    if ask.kind != BeatKind::Look {
        let keys: Vec<String> = ask.locks().iter().map(ToString::to_string).collect();
        let found = query(client, statements::LOCK_SERVERS, &[(&keys, Type::TEXT_ARRAY)]).await?;
        let found = found.iter().map(|row| raw_server(row)?.read()).collect::<Result<Vec<_>, _>>()?;
        let applied = ask.apply(&found);
        is_done = applied.is_done;
        if !applied.rows.is_empty() {
            write_servers(client, &applied.rows).await?;
        }
    }
    let limit = i64::try_from(beats::SERVERS_MAX).unwrap_or(i64::MAX).saturating_add(2);
    let own = [ask.nonce.to_string(), Nonce::ROUNDS.to_string()];
    let own = own.as_slice();
    let params: &[Param<'_>] = &[(&limit, Type::INT8), (&ask.reads_all, Type::BOOL), (&own, Type::TEXT_ARRAY)];
    let rows = query(client, statements::SERVERS, params).await?;
    let instance = rows.first().map_or(Ok(String::new()), |row| get(row, 6))?;
    let (rows, round) = beats::answer(rows.iter().map(raw_server).collect::<Result<_, _>>()?)?;
    execute(client, "COMMIT").await?;
    Ok(BeatAnswer { is_done, rows, round, instance })
}

async fn write_servers(client: &Client, rows: &[ServerRow]) -> Result<(), StoreError> {
    let texts = |text: &dyn Fn(&ServerRow) -> String| -> Vec<String> { rows.iter().map(text).collect() };
    let numbers =
        |number: &dyn Fn(&ServerRow) -> u64| -> Vec<i64> { rows.iter().map(|row| column(number(row))).collect() };
    let (nonces, lives) = (texts(&|row| row.nonce.to_string()), texts(&|row| row.life.to_string()));
    let (states, addresses) = (texts(&|row| row.state.word().to_owned()), texts(&|row| row.address.clone()));
    let (beats, acknowledged) = (numbers(&|row| row.beat), numbers(&|row| row.acknowledged));
    let params: &[Param<'_>] = &[
        (&nonces, Type::TEXT_ARRAY),
        (&lives, Type::TEXT_ARRAY),
        (&beats, Type::INT8_ARRAY),
        (&acknowledged, Type::INT8_ARRAY),
        (&states, Type::TEXT_ARRAY),
        (&addresses, Type::TEXT_ARRAY),
    ];
    let written = client.execute_typed(statements::WRITE_SERVERS, params).await;
    written.map(drop).map_err(|error| failures::of_statement(&error))
}

/// Adds 1 to a server's beat; `None` if its row does not permit it.
async fn own_beat(client: &Client, sql: &str, server: Credentials) -> Result<Option<u64>, StoreError> {
    let (nonce, life, at_least) = (server.nonce.to_string(), server.life.to_string(), column(server.at_least));
    let params: &[Param<'_>] = &[(&nonce, Type::TEXT), (&life, Type::TEXT), (&at_least, Type::INT8)];
    let rows = query(client, sql, params).await?;
    rows.first().map(|row| Ok(get::<i64>(row, 0)?.unsigned_abs())).transpose()
}

async fn compare(client: &Client, server: Credentials, notes: &[NotedRow]) -> Result<Option<Comparison>, StoreError> {
    execute(client, statements::BEGIN).await?;
    let Some(beat) = own_beat(client, statements::BEAT_COMPARING, server).await? else {
        execute(client, "ROLLBACK").await?;
        return Ok(None);
    };
    let found = locked_rows(client, notes.iter().map(|note| &note.key)).await?;
    let of_notes: Vec<String> = notes.iter().map(|note| note.key.name().to_owned()).collect();
    let notes = &native::without_closed(notes, &generators(client, Some(&of_notes)).await?);
    let lost = native::lost_rows(notes, &found);
    let raised = native::lower_than(notes, found);
    if !lost.is_empty() {
        insert(client, &lost, &vec![0; lost.len()]).await?;
        for row in &lost {
            write_row(client, row, 0).await?;
        }
    }
    if !raised.is_empty() {
        let (keys, periods) = names(raised.iter().map(|(key, _)| key));
        let nexts: Vec<i64> = raised.iter().map(|(_, next)| *next).collect();
        let params: &[Param<'_>] =
            &[(&keys, Type::TEXT_ARRAY), (&periods, Type::TEXT_ARRAY), (&nexts, Type::INT8_ARRAY)];
        let written = client.execute_typed(statements::RAISE_ROWS, params).await;
        written.map_err(|error| failures::of_statement(&error))?;
    }
    execute(client, "COMMIT").await?;
    Ok(Some(Comparison { beat, raised: raised.len() + lost.len() }))
}

fn raw_server(row: &SqlRow) -> Result<RawServer, StoreError> {
    Ok(RawServer {
        nonce: get(row, 0)?,
        life: get(row, 1)?,
        beat: get(row, 2)?,
        acknowledged: get(row, 3)?,
        state: get(row, 4)?,
        address: get(row, 5)?,
    })
}

/// Returns the answer of a transaction that has no verdicts.
fn done<T>(answer: Result<T, Verdict>) -> Result<T, StoreError> {
    answer.map_err(|verdict| unexpected(&format!("has answered {verdict:?}")))
}

/// Returns the reservation that the pure rule computes from the row that was found. Fails if the database's result
/// differs.
fn reserved(row: &SqlRow, ask: &ReserveRequest) -> Result<Result<Reservation, Verdict>, StoreError> {
    let written = match get::<Option<i64>>(row, 1)? {
        Some(next) => Some((next, get::<i64>(row, 2)?, get::<i64>(row, 3)?)),
        None => None,
    };
    if get::<Option<&str>>(row, 4)?.is_none() {
        return Ok(Err(Verdict::NoSuch));
    }
    let found = match raw(row, 4)?.read() {
        Ok(found) => found,
        Err(bad) => return Ok(Err(Verdict::BadRow(bad))),
    };
    let reserved =
        native::apply_reservation(&found, ask, written.map_or(found.updated_unix_ms, |(_, _, updated)| updated));
    let expected = match &reserved {
        Ok(reserved) if reserved.last >= reserved.first => Some((reserved.row.next, column(reserved.row.version))),
        _ => None,
    };
    if written.map(|(next, version, _)| (next, version)) == expected {
        Ok(reserved)
    } else {
        Err(unexpected(&format!("has written the row of '{}' in another way: is there a trigger?", ask.key)))
    }
}

async fn give_back(
    client: &Client,
    server: Option<Credentials>,
    ends: &[GiveBackRequest],
) -> Result<Vec<bool>, StoreError> {
    let (names, periods) = names(ends.iter().map(|end| &end.key));
    let versions: Vec<i64> = ends.iter().map(|end| column(end.version)).collect();
    let nexts: Vec<i64> = ends.iter().map(|end| end.next).collect();
    let (nonce, life, at_least) = texts_of(server);
    let params: &[Param<'_>] = &[
        (&names, Type::TEXT_ARRAY),
        (&periods, Type::TEXT_ARRAY),
        (&versions, Type::INT8_ARRAY),
        (&nexts, Type::INT8_ARRAY),
        (&nonce, Type::TEXT),
        (&life, Type::TEXT),
        (&at_least, Type::INT8),
    ];
    let mut accepted = vec![false; ends.len()];
    for row in query(client, statements::GIVE_BACK, params).await? {
        let nth = usize::try_from(get::<i64>(&row, 0)?).unwrap_or(0);
        if let Some(accepted) = accepted.get_mut(nth.wrapping_sub(1)) {
            *accepted = true;
        }
    }
    Ok(accepted)
}

async fn create_all(
    client: &Client,
    new: &[CreateRequest],
    counted: &mut Option<RowCount>,
) -> Result<Vec<Result<SequenceRow, Verdict>>, StoreError> {
    let Some(first) = new.first() else { return Ok(Vec::new()) };
    execute(client, statements::BEGIN).await?;
    if let Some(server) = first.server
        && own_beat(client, statements::BEAT_LIVE, server).await?.is_none()
    {
        return Err(beats::server_row_error());
    }
    let (change, now) = tick(client).await?;
    let mut there = if first.rows_max > 0 { count_up_to(client, first.rows_max, change, counted).await? } else { 0 };
    // One statement for all rows: with a round trip for each, a transaction over a long distance would exceed its time
    // limit.
    let found = locked_rows(client, new.iter().map(|new| &new.key)).await?;
    let by_key = |row: RawRow| ((row.name.clone(), row.period.clone()), row);
    let mut found: BTreeMap<_, _> = found.into_iter().map(by_key).collect();
    let (mut each, mut inserted, mut changes) = (Vec::with_capacity(new.len()), Vec::new(), Vec::new());
    let mut next = change;
    for new in new {
        let there_is = found.remove(&(new.key.name().to_owned(), new.key.period().to_owned()));
        let found = match there_is.map(RawRow::read).transpose() {
            Err(bad) => {
                each.push(Err(Verdict::BadRow(bad)));
                continue;
            }
            Ok(found) => found,
        };
        let made = native::apply_creation(found.as_ref(), new, there, now);
        if let Ok(row) = &made {
            if found.is_some() {
                write_row(client, row, next).await?;
            } else {
                inserted.push(row.clone());
                changes.push(next);
            }
            there += 1;
            next = next.saturating_add(1);
        }
        each.push(made);
    }
    if insert(client, &inserted, &changes).await? < inserted.len() as u64 {
        let names: Vec<&str> = inserted.iter().map(|row| row.key.as_str()).collect();
        return Err(StoreError::Refused(format!(
            "another connection is creating the row of '{}' at this moment",
            names.join("' or '")
        )));
    }
    // The number of changes equals that of rows, which the row count relies on.
    let more = next.saturating_sub(change).saturating_sub(1);
    if more > 0 {
        let params: &[Param<'_>] = &[(&more, Type::INT8)];
        client.execute_typed(statements::MORE_CHANGES, params).await.map_err(|error| failures::of_statement(&error))?;
    }
    execute(client, if next > change { "COMMIT" } else { "ROLLBACK" }).await?;
    Ok(each)
}

/// Locks and returns the existing rows of these keys.
async fn locked_rows<'a>(client: &Client, keys: impl Iterator<Item = &'a Key>) -> Result<Vec<RawRow>, StoreError> {
    let (keys, periods) = names(keys);
    let params: &[Param<'_>] = &[(&keys, Type::TEXT_ARRAY), (&periods, Type::TEXT_ARRAY)];
    query(client, statements::LOCK_ROWS, params).await?.iter().map(|row| raw(row, 0)).collect()
}

/// Returns an upper bound for the number of rows: the last count plus the changes since. So rows are counted again only
/// near the limit.
async fn count_up_to(
    client: &Client,
    rows_max: u64,
    change: i64,
    counted: &mut Option<RowCount>,
) -> Result<u64, StoreError> {
    if let Some(counted) = counted {
        let rows = counted.rows.saturating_add(change.saturating_sub(counted.change).max(0).unsigned_abs());
        if rows < rows_max {
            return Ok(rows);
        }
    }
    let rows = number(client, statements::COUNT_UP_TO, &[(&column(rows_max), Type::INT8)]).await?;
    *counted = Some(RowCount { rows, change });
    Ok(rows)
}

async fn change_row(
    client: &Client,
    key: &Key,
    change: &RowChange,
) -> Result<Result<SequenceRow, Verdict>, StoreError> {
    let (number, now) = begin(client).await?;
    let found = match row(client, statements::LOCK_ROW, key).await? {
        None => return Ok(Err(Verdict::NoSuch)),
        Some(Err(bad)) => return Ok(Err(Verdict::BadRow(bad))),
        Some(Ok(found)) => found,
    };
    let row = match native::apply_change(&found, change, now) {
        Ok(row) => row,
        Err(verdict) => return Ok(Err(verdict)),
    };
    write_row(client, &row, number).await?;
    execute(client, "COMMIT").await?;
    Ok(Ok(row))
}

/// Begins a change; returns its number, and the time.
async fn begin(client: &Client) -> Result<(i64, i64), StoreError> {
    execute(client, statements::BEGIN).await?;
    tick(client).await
}

async fn tick(client: &Client) -> Result<(i64, i64), StoreError> {
    let rows = query(client, statements::TICK, &[]).await?;
    let row =
        rows.first().ok_or_else(|| StoreError::Refused("the table getid_store has no row any more".to_owned()))?;
    Ok((get(row, 0)?, get(row, 1)?))
}

/// Ends the transaction of a change that has changed nothing.
async fn settle<T>(
    client: &Client,
    answer: Result<Result<T, Verdict>, StoreError>,
) -> Result<Result<T, Verdict>, StoreError> {
    match answer {
        Ok(Err(_)) | Err(StoreError::Refused(_)) => execute(client, "ROLLBACK").await.and(answer),
        _ => answer,
    }
}

async fn write_row(client: &Client, row: &SequenceRow, change: i64) -> Result<(), StoreError> {
    let (name, period, spec) = (row.key.name(), row.key.period(), &row.spec);
    let (version, generation) = (column(row.version), column(row.generation));
    let [increment, offset, cache] = [spec.increment, spec.offset, spec.cache].map(i64::from);
    let (policy, state) = (policy_word(spec.policy), state_word(row.state));
    let params: &[Param<'_>] = &[
        (&name, Type::TEXT),
        (&period, Type::TEXT),
        (&row.next, Type::INT8),
        (&version, Type::INT8),
        (&generation, Type::INT8),
        (&change, Type::INT8),
        (&spec.start, Type::INT8),
        (&increment, Type::INT8),
        (&offset, Type::INT8),
        (&cache, Type::INT8),
        (&spec.max, Type::INT8),
        (&policy, Type::TEXT),
        (&state, Type::TEXT),
        (&row.created_unix_ms, Type::INT8),
        (&row.updated_unix_ms, Type::INT8),
    ];
    let written = client.execute_typed(statements::WRITE_ROW, params).await;
    match written.map_err(|error| failures::of_statement(&error))? {
        1 => Ok(()),
        _ => Err(StoreError::Refused(format!(
            "the row of '{}' could not be written: is there a rule or policy?",
            row.key
        ))),
    }
}

/// Inserts rows that do not exist; returns their number.
async fn insert(client: &Client, rows: &[SequenceRow], changes: &[i64]) -> Result<u64, StoreError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let (names, periods) = names(rows.iter().map(|row| &row.key));
    let numbers = |number: &dyn Fn(&SequenceRow) -> i64| -> Vec<i64> { rows.iter().map(number).collect() };
    let columns = [
        numbers(&|row| row.next),
        numbers(&|row| column(row.version)),
        numbers(&|row| column(row.generation)),
        changes.to_vec(),
        numbers(&|row| row.spec.start),
        numbers(&|row| row.spec.increment.into()),
        numbers(&|row| row.spec.offset.into()),
        numbers(&|row| row.spec.cache.into()),
        numbers(&|row| row.spec.max),
        numbers(&|row| row.created_unix_ms),
    ];
    let policies: Vec<&str> = rows.iter().map(|row| policy_word(row.spec.policy)).collect();
    let mut params: Vec<Param<'_>> = vec![(&names, Type::TEXT_ARRAY), (&periods, Type::TEXT_ARRAY)];
    params.extend(columns.iter().map(|column| (column as &(dyn ToSql + Sync), Type::INT8_ARRAY)));
    params.push((&policies, Type::TEXT_ARRAY));
    client.execute_typed(statements::INSERT, &params).await.map_err(|error| failures::of_statement(&error))
}

/// Returns a row, or the error in it.
async fn row(client: &Client, sql: &str, key: &Key) -> Result<Option<Result<SequenceRow, String>>, StoreError> {
    let (name, period) = (key.name(), key.period());
    let rows = query(client, sql, &[(&name, Type::TEXT), (&period, Type::TEXT)]).await?;
    rows.first().map(|row| Ok(raw(row, 0)?.read())).transpose()
}

async fn list(client: &Client, after: &str, limit: u32, periods: bool) -> Result<RowPage, StoreError> {
    let (name, period) = RowPage::cursor(after);
    let limit = limit.min(LIST_MAX);
    let rows_max = i64::from(limit);
    let params: &[Param<'_>] =
        &[(&name, Type::TEXT), (&period, Type::TEXT), (&periods, Type::BOOL), (&rows_max, Type::INT8)];
    let rows = query(client, statements::LIST, params).await?;
    let rows: Result<_, StoreError> = rows.iter().map(|row| raw(row, 0)).collect();
    Ok(native::page_of(limit, rows?))
}

async fn tokens(client: &Client) -> Result<Option<Vec<Token>>, StoreError> {
    let limit = i64::try_from(TOKENS_MAX).unwrap_or(i64::MAX).saturating_add(1);
    match client.query_typed(statements::TOKENS, &[(&limit, Type::INT8)]).await {
        Ok(rows) => {
            let tokens = rows.iter().map(|row| Ok(Token { token: get(row, 0)?, biz_type: get(row, 1)? }));
            tokens.collect::<Result<_, _>>().map(Some)
        }
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(failures::of_statement(&error)),
    }
}

async fn changes(client: &Client, seen: Option<u64>) -> Result<Changes, StoreError> {
    let Some(seen) = seen else {
        return Ok(Changes { upto: number(client, statements::CHANGES_UPTO, &[]).await?, rows: Vec::new() });
    };
    let rows = query(client, statements::CHANGES, &[(&column(seen), Type::INT8), (&ROWS_MAX, Type::INT8)]).await?;
    let mut upto = rows.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
    let mut changed = Vec::new();
    for row in &rows {
        let Some(name) = get::<Option<&str>>(row, 1)? else { continue };
        let period: &str = get(row, 2)?;
        let key = if period.is_empty() { Key::new(name) } else { Key::of_period(name, period) };
        let generation = get::<i64>(row, 3)?;
        changed.extend(key.map(|key| (key, generation.unsigned_abs())));
    }
    if i64::try_from(rows.len()).is_ok_and(|rows| rows >= ROWS_MAX)
        && let Some(last) = rows.last()
    {
        upto = get(last, 4)?;
    }
    Ok(Changes { upto: upto.unsigned_abs(), rows: changed })
}

fn names<'a>(keys: impl Iterator<Item = &'a Key>) -> (Vec<&'a str>, Vec<&'a str>) {
    keys.map(|key| (key.name(), key.period())).unzip()
}

/// Parses the columns of a row, from `at` on.
fn raw(row: &SqlRow, at: usize) -> Result<RawRow, StoreError> {
    Ok(RawRow {
        name: get(row, at)?,
        period: get(row, at + 1)?,
        next: get(row, at + 2)?,
        version: get(row, at + 3)?,
        generation: get(row, at + 4)?,
        start: get(row, at + 5)?,
        increment: get(row, at + 6)?,
        offset: get(row, at + 7)?,
        cache: get(row, at + 8)?,
        max: get(row, at + 9)?,
        policy: get(row, at + 10)?,
        state: get(row, at + 11)?,
        created: get(row, at + 12)?,
        updated: get(row, at + 13)?,
    })
}

async fn number(client: &Client, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError> {
    let rows = query(client, sql, params).await?;
    let number = rows.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
    Ok(number.unsigned_abs())
}

async fn query(client: &Client, sql: &str, params: &[Param<'_>]) -> Result<Vec<SqlRow>, StoreError> {
    client.query_typed(sql, params).await.map_err(|error| failures::of_statement(&error))
}

async fn execute(client: &Client, sql: &str) -> Result<(), StoreError> {
    client.batch_execute(sql).await.map_err(|error| failures::of_statement(&error))
}

/// Returns a column of an answer. If it is missing, the result of the statement is unknown.
fn get<'a, T: FromSql<'a>>(row: &'a SqlRow, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| unexpected(&format!("has answered without column {index} ({error})")))
}

fn unexpected(what: &str) -> StoreError {
    StoreError::Unknown(format!("the database {what}"))
}
