//! Records that servers share, in the table `getid_record`.
//!
//! A write is one packet with a transaction: an UPDATE that names the stamp it replaces, or an INSERT. The new stamp
//! always differs from the old one, so found rows and changed rows are the same number, whichever of both a server
//! counts.
//!
//! Each packet first checks that the server still takes writes. A former primary keeps its connections when it becomes
//! a replica, and a user with all rights can write to it nevertheless.

use mysql_async::Error;

use super::errors::{ErrorContext, server_message};
use super::link::{MysqlLink, Packet, hex, number, text};
use super::{Mysql, settings};
use crate::records::{self, Key, RecordRow, RecordStoreError, RecordStoreInfo, TEXT_BYTES_MAX};
use crate::sql::purpose::TablePurpose;
use crate::sql::records::{
    COLUMNS, ExpectedRow, KeyRange, RawRecord, RecordConnection, RecordServer, beat_column, replicas_lag, writer_column,
};
use crate::sql::{StoreError, StoreFuture, TableKind};
use getid_text::shell::shell_word;
use getid_text::store_url::{ServerAddress, for_schema_command};

/// SQL of the table. Keys are ASCII and compare byte for byte. MySQL 5.7 parses the checks and ignores them. A table of
/// an earlier getid has none.
const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS getid_record (
  record_key VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY CHECK (record_key <> ''),
  writer     CHAR(32)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL CHECK (writer REGEXP '^[0-9a-f]{32}$'),
  beat       BIGINT       NOT NULL CHECK (beat > 0),
  text       MEDIUMTEXT   CHARACTER SET utf8mb4 NOT NULL,
  written_at DATETIME(3)  NOT NULL
) ENGINE=InnoDB;
";

/// Query whether the server takes writes. MariaDB has words for `read_only`.
const TAKES_WRITES: &str = "SELECT @@global.read_only, @@global.innodb_read_only";

/// Most bytes of a packet apart from the text of a record.
const PACKET_BYTES: usize = 4096;

/// Error code of a duplicate key.
const DUPLICATE: u16 = 1062;

/// A database with records.
pub(in crate::sql) struct MysqlRecords(Mysql);

impl MysqlRecords {
    /// Creates the store without opening a connection.
    pub(in crate::sql) fn new(address: &ServerAddress, shown: &str) -> MysqlRecords {
        let context = ErrorContext::new(shown, address, TablePurpose::Records);
        MysqlRecords(Mysql { address: address.clone(), table: TableKind::Native, context })
    }

    async fn open(&self) -> Result<Box<dyn RecordConnection>, RecordStoreError> {
        let mut link = self.0.link().await.map_err(|failure| {
            let message = failure.error.to_string();
            if failure.is_away { RecordStoreError::Away(message) } else { RecordStoreError::Refused(message) }
        })?;
        let looked = self.look(&mut link).await;
        let (info, packet_max) = looked.map_err(|error| match error {
            StoreError::Refused(message) => RecordStoreError::Refused(message),
            StoreError::Unknown(message) => RecordStoreError::Away(message),
        })?;
        Ok(Box::new(MysqlRecordConnection { link, info, packet_max }))
    }

    /// Sets the session up, and checks the tables. Also returns the largest packet that the server takes.
    async fn look(&self, link: &mut MysqlLink) -> Result<(RecordStoreInfo, usize), StoreError> {
        let mut found = settings::of(link).await?;
        if !self.0.table_exists(link, "getid_record").await? {
            self.create_table(link).await?;
        }
        let mut packet = Packet::new();
        packet.add(format_args!("SELECT {COLUMNS}, written_at FROM getid_record LIMIT 0"));
        let collation = packet.add(format_args!(
            "SELECT collation_name FROM information_schema.columns WHERE table_schema = DATABASE() \
             AND table_name = 'getid_record' AND column_name = 'record_key'"
        ));
        let largest = packet.add(format_args!("SELECT @@global.max_allowed_packet"));
        let status = packet.add(format_args!(
            "SHOW GLOBAL STATUS WHERE Variable_name IN \
             ('Slaves_connected', 'Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')"
        ));
        // On a node of a Galera cluster a read must see writes that another node acknowledged.
        let galera = packet.add(format_args!("SHOW VARIABLES LIKE 'wsrep_sync_wait'"));
        let done = link.run(&packet).await?;
        let collation = done[collation].rows.first().and_then(|row| text(row, 0)).unwrap_or_default();
        if !collation.ends_with("_bin") && collation != "binary" {
            return Err(StoreError::Refused(format!(
                "the column record_key of the table getid_record compares by {collation}, must compare byte for byte: \
                 `getid claim schema --store {}` prints the table as it must be",
                shell_word(&for_schema_command(&self.0.context.shown))
            )));
        }
        if !done[galera].rows.is_empty() {
            let mut wait = Packet::new();
            wait.add(format_args!("SET SESSION wsrep_sync_wait = 1"));
            link.run(&wait).await?;
        }
        let packet_max = done[largest].number().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(1 << 24);
        settings::check_tables(link, &[("getid_record", "beat", "record_key = ''")], &mut found).await?;
        check_insert_permission(link).await?;
        if packet_max < 2 * TEXT_BYTES_MAX + PACKET_BYTES {
            found.warnings.push(format!(
                "max_allowed_packet is {packet_max} bytes: a large record cannot be written; set it to 16M"
            ));
        }
        let status: Vec<(String, String)> = done[status]
            .rows
            .iter()
            .map(|row| (text(row, 0).unwrap_or_default(), text(row, 1).unwrap_or_default()))
            .collect();
        found.warnings.extend(of_replicas(&status));
        Ok((RecordStoreInfo { product: found.product, warnings: found.warnings }, packet_max))
    }

    async fn create_table(&self, link: &mut MysqlLink) -> Result<(), StoreError> {
        let mut make = Packet::new();
        make.add(format_args!("{}", SCHEMA.trim_end().trim_end_matches(';')));
        match link.run_raw(&make).await {
            Ok(_) => Ok(()),
            Err((_, Error::Server(error))) => {
                let ErrorContext { shown, user, database, .. } = &self.0.context;
                Err(StoreError::Refused(format!(
                    "the table getid_record is missing in the database '{database}', and '{user}' cannot create it: {}; \
                     a user with the permission must run the output of `getid claim schema --store {}` prints",
                    server_message(&error),
                    shell_word(&for_schema_command(shown))
                )))
            }
            Err((_, error)) => Err(self.0.context.failed(&error, false)),
        }
    }
}

impl RecordServer for MysqlRecords {
    fn shown(&self) -> &str {
        &self.0.context.shown
    }

    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn connect(&self) -> records::RecordFuture<'_, Box<dyn RecordConnection>> {
        Box::pin(self.open())
    }
}

/// Checks that records can be created, by an INSERT of no rows, which fails without the permission.
async fn check_insert_permission(link: &mut MysqlLink) -> Result<(), StoreError> {
    let mut packet = Packet::new();
    packet.add(format_args!("INSERT INTO getid_record SELECT * FROM getid_record WHERE record_key = ''"));
    link.run(&packet).await.map(|_| ())
}

/// Returns a warning if a failover may lose the last writes.
fn of_replicas(status: &[(String, String)]) -> Option<String> {
    let is = |name: &str, value: &str| status.iter().any(|(found, is)| found == name && is == value);
    let replicas: u64 = status.iter().find(|(name, _)| name == "Slaves_connected")?.1.parse().ok()?;
    let waits = is("Rpl_semi_sync_master_status", "ON") || is("Rpl_semi_sync_source_status", "ON");
    (replicas > 0 && !waits).then(|| replicas_lag(replicas, "set semi-synchronous replication up"))
}

/// An open connection.
struct MysqlRecordConnection {
    link: MysqlLink,
    info: RecordStoreInfo,
    packet_max: usize,
}

impl MysqlRecordConnection {
    /// Runs a query in a packet that begins with [`TAKES_WRITES`].
    async fn select(&mut self, sql: &str) -> Result<Vec<RawRecord>, StoreError> {
        let mut packet = Packet::new();
        let writable = packet.add(format_args!("{TAKES_WRITES}"));
        let rows = packet.add(format_args!("{sql}"));
        let done = self.link.run(&packet).await?;
        self.check_writable(&done[writable])?;
        Ok(done[rows].rows.iter().map(raw).collect())
    }

    async fn write_row(&mut self, key: &Key, expect: &ExpectedRow, new: &RecordRow) -> Result<bool, StoreError> {
        let bytes = 2 * new.text.len() + PACKET_BYTES;
        if bytes > self.packet_max {
            return Err(StoreError::Refused(format!(
                "the record '{key}' needs a packet of {bytes} bytes, and max_allowed_packet is {}: set it to 16M",
                self.packet_max
            )));
        }
        let (writer, beat, text) = (writer_column(new.stamp), beat_column(new.stamp), hex(new.text.as_bytes()));
        let mut packet = Packet::transaction();
        let writable = packet.add(format_args!("{TAKES_WRITES}"));
        let written = match expect {
            // A key that was edited may end with blanks, which MySQL does not compare.
            ExpectedRow::Exists { writer: was, beat: was_beat } => packet.add(format_args!(
                "UPDATE getid_record SET record_key = '{key}', writer = '{writer}', beat = {beat}, \
                 text = _utf8mb4 x'{text}', written_at = UTC_TIMESTAMP(3) \
                 WHERE record_key = '{key}' AND writer = {} AND beat = {was_beat}",
                literal(was)
            )),
            ExpectedRow::Absent => packet.add(format_args!(
                "INSERT INTO getid_record ({COLUMNS}, written_at) \
                 VALUES ('{key}', '{writer}', {beat}, _utf8mb4 x'{text}', UTC_TIMESTAMP(3))"
            )),
        };
        packet.commit();
        match self.link.run_raw(&packet).await {
            Ok(done) => {
                let affected = done[written].affected;
                if affected > 0 {
                    self.check_writable(&done[writable])?;
                }
                Ok(affected == 1)
            }
            Err((at, Error::Server(error)))
                if at == written && matches!(expect, ExpectedRow::Absent) && error.code == DUPLICATE =>
            {
                Ok(false)
            }
            Err((at, error)) => Err(self.link.context.failed(&error, at > written)),
        }
    }

    /// Fails if the server takes no writes: reads from it may be outdated.
    fn check_writable(&self, done: &super::link::StatementResult) -> Result<(), StoreError> {
        let on =
            |at| done.rows.first().and_then(|row| text(row, at)).is_some_and(|value| value != "0" && value != "OFF");
        if on(0) || on(1) {
            return Err(StoreError::Unknown(format!(
                "{} accepts no writes any more (read_only); it may be a replica: name the primary",
                self.link.context.place
            )));
        }
        Ok(())
    }
}

impl RecordConnection for MysqlRecordConnection {
    fn info(&self) -> &RecordStoreInfo {
        &self.info
    }

    fn read(&mut self, key: Key) -> StoreFuture<'_, Option<RawRecord>> {
        Box::pin(async move {
            let sql = format!("SELECT {COLUMNS} FROM getid_record WHERE record_key = '{key}'");
            Ok(self.select(&sql).await?.pop())
        })
    }

    fn list(&mut self, range: KeyRange) -> StoreFuture<'_, Vec<RawRecord>> {
        Box::pin(async move {
            let sql = format!(
                "SELECT {COLUMNS} FROM getid_record WHERE record_key >= {} AND record_key < {} AND record_key > {} \
                 ORDER BY record_key LIMIT {}",
                literal(&range.from),
                literal(&range.below),
                literal(&range.after),
                range.limit
            );
            self.select(&sql).await
        })
    }

    fn write(&mut self, key: Key, expect: ExpectedRow, new: RecordRow) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.write_row(&key, &expect, &new).await })
    }
}

/// Returns any text as an expression. Hexadecimal digits cannot end a literal.
fn literal(text: &str) -> String {
    format!("CONVERT(x'{}' USING ascii)", hex(text.as_bytes()))
}

/// Parses a row in the order of [`COLUMNS`]. A column without a number gets one that no row has.
fn raw(row: &mysql_async::Row) -> RawRecord {
    let text = |at| text(row, at).unwrap_or_else(|| "NULL".to_owned());
    RawRecord { key: text(0), writer: text(1), beat: number(row, 2).unwrap_or(i64::MIN), text: text(3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_without_synchronous_writes_cause_a_warning() {
        let status = |rows: &[(&str, &str)]| {
            rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        let message = of_replicas(&status(&[("Slaves_connected", "2")])).unwrap();
        assert!(message.starts_with("it has 2 replicas"), "{message}");
        for sound in
            [&[("Slaves_connected", "0")][..], &[("Slaves_connected", "1"), ("Rpl_semi_sync_master_status", "ON")], &[]]
        {
            assert_eq!(of_replicas(&status(sound)), None, "{sound:?}");
        }
    }
}
