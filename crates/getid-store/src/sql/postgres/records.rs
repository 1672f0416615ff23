//! Records that servers share, in the table `getid_record`.
//!
//! A write is one statement and one transaction: an UPDATE that names the stamp it replaces, or an INSERT that does
//! nothing if the record exists. Of two concurrent writes the second waits for the first, and finds another stamp.
//!
//! Each answer contains whether the server is a standby: an old primary may have become one behind the same address.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row as SqlRow};

use super::session::PostgresSession;
use super::statements::safe;
use super::{Postgres, failures, opening, statements};
use crate::records::{self, Key, RecordRow, RecordStoreError, RecordStoreInfo};
use crate::sql::purpose::TablePurpose;
use crate::sql::records::{
    ExpectedRow, KeyRange, RawRecord, RecordConnection, RecordServer, beat_column, replicas_lag, writer_column,
};
use crate::sql::{StoreError, StoreFuture, TableKind};
use getid_text::printable::printable_up_to;
use getid_text::store_url::ServerAddress;

/// SQL of the table. Its pages keep free space: each row is written twice a second, and an UPDATE within its page
/// changes no index.
const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS getid_record (
  record_key text COLLATE \"C\" PRIMARY KEY CHECK (record_key <> ''),
  writer text COLLATE \"C\" NOT NULL CHECK (writer ~ '^[0-9a-f]{32}$'),
  beat bigint NOT NULL CHECK (beat > 0),
  text text NOT NULL,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
";

/// Query for the table: persistence and the user's permissions.
const TABLE: &str = "\
SELECT c.relpersistence::text, has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),
  has_table_privilege(c.oid, 'UPDATE')
FROM pg_class c WHERE c.oid = to_regclass('getid_record')";

/// Query that names the table's columns, so that a missing one is detected when a connection is opened.
const COLUMNS: &str =
    "SELECT r.record_key::text, r.writer::text, r.beat::bigint, r.text::text, r.written_at FROM getid_record r LIMIT 0";

/// Query for the number of replicas, and for those that a commit waits for.
const REPLICAS: &str = "SELECT count(*), current_setting('synchronous_standby_names') FROM pg_stat_replication";

/// Query for the record of `$1`; always returns a row.
const READ: &str = "\
SELECT pg_is_in_recovery(), r.record_key::text, r.writer::text, r.beat::bigint, r.text::text
FROM (SELECT 1) AS one LEFT JOIN getid_record r ON r.record_key = $1";

/// Query for the records from `$1` on, below `$2`, after `$3`, at most `$4`. Returns a row without a record if there
/// are none.
const LIST: &str = "\
SELECT pg_is_in_recovery(), r.record_key::text, r.writer::text, r.beat::bigint, r.text::text
FROM (SELECT 1) AS one LEFT JOIN (
  SELECT * FROM getid_record WHERE record_key >= $1 AND record_key < $2 AND record_key > $3
  ORDER BY record_key LIMIT $4
) AS r ON true ORDER BY r.record_key";

/// Writes the record of `$1` if its stamp is `$5` and `$6`.
const UPDATE: &str = concat!(
    "WITH safe AS MATERIALIZED (SELECT ",
    safe!(),
    ") UPDATE getid_record r SET writer = $2, beat = $3, text = $4, written_at = clock_timestamp() \
     FROM safe WHERE r.record_key = $1 AND r.writer = $5 AND r.beat = $6"
);

/// Creates the record of `$1` if there is none.
const INSERT: &str = concat!(
    "WITH safe AS MATERIALIZED (SELECT ",
    safe!(),
    ") INSERT INTO getid_record (record_key, writer, beat, text, written_at) \
     SELECT $1, $2, $3, $4, clock_timestamp() FROM safe ON CONFLICT (record_key) DO NOTHING"
);

/// A parameter of a statement, and its type.
type RecordParam<'a> = (&'a (dyn ToSql + Sync), Type);

/// A database with records.
pub(in crate::sql) struct PostgresRecords(Postgres);

impl PostgresRecords {
    /// Creates the store without opening a connection. The error is a sentence.
    pub(in crate::sql) fn new(address: &ServerAddress, shown: &str) -> Result<PostgresRecords, String> {
        Postgres::new(address, shown, TableKind::Native).map(PostgresRecords)
    }

    async fn open(&self) -> Result<Box<dyn RecordConnection>, RecordStoreError> {
        let mut session = self.0.session().await.map_err(|failure| {
            let message = failure.error.to_string();
            if failure.is_away { RecordStoreError::Away(message) } else { RecordStoreError::Refused(message) }
        })?;
        let opened = match session.begin() {
            Ok(()) => look(&session.client, &self.0.address).await,
            Err(error) => Err(error),
        };
        let info = session.finish(opened).map_err(|error| match error {
            StoreError::Refused(message) => RecordStoreError::Refused(message),
            StoreError::Unknown(message) => RecordStoreError::Away(message),
        })?;
        Ok(Box::new(PostgresRecordConnection { session, info }))
    }
}

impl RecordServer for PostgresRecords {
    fn shown(&self) -> &str {
        &self.0.shown
    }

    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn connect(&self) -> records::RecordFuture<'_, Box<dyn RecordConnection>> {
        Box::pin(self.open())
    }
}

/// Sets the session up, and checks the table.
async fn look(client: &Client, address: &ServerAddress) -> Result<RecordStoreInfo, StoreError> {
    client.batch_execute(statements::SETTINGS).await.map_err(|error| failed(&error))?;
    let found = opening::server(client, address).await?;
    let mut info = RecordStoreInfo { product: found.product, warnings: found.warnings };
    let mut tables = query(client, TABLE, &[]).await?;
    if tables.is_empty() {
        create_table(client, address).await?;
        tables = query(client, TABLE, &[]).await?;
    }
    let Some(table) = tables.first() else {
        return Err(StoreError::Refused(format!(
            "the database '{}' has no table getid_record in the search_path of '{}': run what 'getid claim schema \
             --store URL' prints",
            address.database, address.user
        )));
    };
    let (persistence, has) = (get::<&str>(table, 0)?, [get::<bool>(table, 1)?, get(table, 2)?, get(table, 3)?]);
    if let Some((right, _)) = ["SELECT", "INSERT", "UPDATE"].iter().zip(has).find(|(_, has)| !has) {
        let (user, database) = (&address.user, &address.database);
        return Err(StoreError::Refused(format!(
            "'{user}' may not {right} the table getid_record of the database '{database}': its owner may GRANT SELECT, \
             INSERT, UPDATE ON getid_record TO \"{user}\""
        )));
    }
    query(client, COLUMNS, &[]).await?;
    if persistence != "p" {
        info.warnings.push(
            "the table getid_record is not logged: a crash of the database empties it; ALTER TABLE getid_record SET \
             LOGGED"
                .to_owned(),
        );
    }
    info.warnings.extend(of_replicas(client).await?);
    Ok(info)
}

/// Creates the table if the user has the permission.
async fn create_table(client: &Client, address: &ServerAddress) -> Result<(), StoreError> {
    let script = format!("BEGIN; {}; {SCHEMA} COMMIT", statements::SCHEMA_LOCK);
    let Err(error) = client.batch_execute(&script).await else { return Ok(()) };
    match failed(&error) {
        StoreError::Refused(message) => Err(StoreError::Refused(format!(
            "the database '{}' has no table getid_record, and '{}' may not create it: {message}; let its owner run what \
             'getid claim schema --store URL' prints",
            address.database, address.user
        ))),
        unknown @ StoreError::Unknown(_) => Err(unknown),
    }
}

/// Returns a warning if a failover may lose the last writes.
async fn of_replicas(client: &Client) -> Result<Option<String>, StoreError> {
    let rows = query(client, REPLICAS, &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (replicas, waits_for) = (get::<i64>(row, 0)?, get::<&str>(row, 1)?);
    let lag = replicas > 0 && waits_for.is_empty();
    Ok(lag.then(|| replicas_lag(replicas.unsigned_abs(), "set synchronous_standby_names")))
}

/// An open connection.
struct PostgresRecordConnection {
    session: PostgresSession,
    info: RecordStoreInfo,
}

impl RecordConnection for PostgresRecordConnection {
    fn info(&self) -> &RecordStoreInfo {
        &self.info
    }

    fn has_ended(&self) -> bool {
        self.session.has_ended()
    }

    fn read(&mut self, key: Key) -> StoreFuture<'_, Option<RawRecord>> {
        Box::pin(async move {
            self.session.begin()?;
            let rows = query(&self.session.client, READ, &[(&key.as_str(), Type::TEXT)]).await;
            let found = rows.and_then(|rows| Ok(records_of(&rows)?.pop()));
            self.session.finish(found)
        })
    }

    fn list(&mut self, range: KeyRange) -> StoreFuture<'_, Vec<RawRecord>> {
        Box::pin(async move {
            self.session.begin()?;
            let limit = i64::from(range.limit);
            let params: &[RecordParam<'_>] = &[
                (&range.from, Type::TEXT),
                (&range.below, Type::TEXT),
                (&range.after, Type::TEXT),
                (&limit, Type::INT8),
            ];
            let rows = query(&self.session.client, LIST, params).await;
            self.session.finish(rows.and_then(|rows| records_of(&rows)))
        })
    }

    fn write(&mut self, key: Key, expect: ExpectedRow, new: RecordRow) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            self.session.begin()?;
            let (writer, beat) = (writer_column(new.stamp), beat_column(new.stamp));
            let key = key.as_str();
            let mut params: Vec<RecordParam<'_>> =
                vec![(&key, Type::TEXT), (&writer, Type::TEXT), (&beat, Type::INT8), (&new.text, Type::TEXT)];
            let statement = match &expect {
                ExpectedRow::Exists { writer, beat } => {
                    params.push((writer, Type::TEXT));
                    params.push((beat, Type::INT8));
                    UPDATE
                }
                ExpectedRow::Absent => INSERT,
            };
            let written = self.session.client.execute_typed(statement, &params).await;
            self.session.finish(written.map(|rows| rows == 1).map_err(|error| failed(&error)))
        })
    }
}

/// Parses the records in rows of [`READ`] and [`LIST`].
fn records_of(rows: &[SqlRow]) -> Result<Vec<RawRecord>, StoreError> {
    let mut records = Vec::new();
    for row in rows {
        if get::<bool>(row, 0)? {
            // Reads from a standby may be outdated.
            return Err(StoreError::Unknown(
                "the server has become a standby (pg_is_in_recovery): name the primary".to_owned(),
            ));
        }
        let Some(key) = get::<Option<String>>(row, 1)? else { continue };
        records.push(RawRecord { key, writer: get(row, 2)?, beat: get(row, 3)?, text: get(row, 4)? });
    }
    Ok(records)
}

async fn query(client: &Client, sql: &str, params: &[RecordParam<'_>]) -> Result<Vec<SqlRow>, StoreError> {
    client.query_typed(sql, params).await.map_err(|error| failed(&error))
}

fn failed(error: &tokio_postgres::Error) -> StoreError {
    failures::of_statement_on(error, TablePurpose::Records)
}

/// Returns a column of an answer to a statement that changes nothing.
fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a SqlRow, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| {
        let message = printable_up_to(&error.to_string(), 200);
        StoreError::Refused(format!("the database has answered without column {index} ({message})"))
    })
}
