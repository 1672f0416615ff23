//! Records that servers share, in the table `getid_record`.

use super::link::PostgresLink;
use super::{Postgres, opening};
use crate::records::{self, RecordStoreError};
use crate::sql::packet::{Link as _, Packet};
use crate::sql::purpose::TablePurpose;
use crate::sql::records::{COLUMNS, RecordConnection, RecordServer, SqlRecordConnection, opening_error, replicas_lag};
use crate::sql::{OpenError, StoreError, TableKind};
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

/// Query for the number of replicas, and for those that a commit waits for.
const REPLICAS: &str = "SELECT count(*), current_setting('synchronous_standby_names') FROM pg_stat_replication";

/// A database with records.
pub(in crate::sql) struct PostgresRecords(Postgres);

impl PostgresRecords {
    /// Creates the store without opening a connection.
    pub(in crate::sql) fn new(address: &ServerAddress, shown: &str) -> Result<PostgresRecords, OpenError> {
        Postgres::new(address, shown, TableKind::Native).map(PostgresRecords)
    }

    async fn open(&self) -> Result<Box<dyn RecordConnection>, RecordStoreError> {
        let mut link = self.0.link(TablePurpose::Records).await?;
        look(&mut link, &self.0.address).await.map_err(opening_error)?;
        Ok(Box::new(SqlRecordConnection::new(link)))
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
async fn look(link: &mut PostgresLink, address: &ServerAddress) -> Result<(), StoreError> {
    opening::set_up(link, address).await?;
    let mut tables = opening::tables(link, &["getid_record"]).await?;
    if tables.is_empty() {
        opening::create_tables(link, address, SCHEMA, "has no table getid_record", TablePurpose::Records).await?;
        tables = opening::tables(link, &["getid_record"]).await?;
    }
    let Some(table) = tables.first() else {
        return Err(StoreError::Refused(format!(
            "the database '{}' has no table getid_record in the search_path of '{}': run what 'getid claim schema \
             --store URL' prints",
            address.database, address.user
        )));
    };
    opening::check(link, table, address, TablePurpose::Records)?;
    // The query names the table's columns, so that a missing one is detected now.
    link.run(Packet::of(format!("SELECT {COLUMNS}, written_at FROM getid_record LIMIT 0"))).await?;
    let replicas = opening::first(link, REPLICAS).await?;
    let count = replicas.number(0).unwrap_or(0);
    if count > 0 && replicas.text(1).is_some_and(|waits_for| waits_for.is_empty()) {
        link.info.warnings.push(replicas_lag(count.unsigned_abs(), "set synchronous_standby_names"));
    }
    Ok(())
}
