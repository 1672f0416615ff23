//! Records that servers share, in the table `getid_record`.
//!
//! The new stamp of an UPDATE always differs from the old one, so found rows and changed rows are the same number,
//! whichever of both a server counts.

use super::errors::ErrorContext;
use super::link::MysqlLink;
use super::{Mysql, settings};
use crate::records::{self, RecordStoreError, TEXT_BYTES_MAX};
use crate::sql::packet::{Link as _, Packet, SqlRow};
use crate::sql::purpose::TablePurpose;
use crate::sql::records::{
    COLUMNS, PACKET_BYTES, RecordConnection, RecordServer, SqlRecordConnection, opening_error, replicas_lag,
};
use crate::sql::{StoreError, TableKind};
use getid_text::shell::shell_word;
use getid_text::store_url::{ServerAddress, for_schema_command};

/// SQL of the table. Keys are ASCII and compare byte for byte. MySQL 5.7 parses the checks and ignores them.
const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS getid_record (
  record_key VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY CHECK (record_key <> ''),
  writer     CHAR(32)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL CHECK (writer REGEXP '^[0-9a-f]{32}$'),
  beat       BIGINT       NOT NULL CHECK (beat > 0),
  text       MEDIUMTEXT   CHARACTER SET utf8mb4 NOT NULL,
  written_at DATETIME(3)  NOT NULL
) ENGINE=InnoDB;
";

/// A database with records.
pub(in crate::sql) struct MysqlRecords(Mysql);

impl MysqlRecords {
    /// Creates the store without opening a connection.
    pub(in crate::sql) fn new(address: &ServerAddress, shown: &str) -> MysqlRecords {
        let context = ErrorContext::new(shown, address, TablePurpose::Records);
        MysqlRecords(Mysql { address: address.clone(), table: TableKind::Native, context })
    }

    async fn open(&self) -> Result<Box<dyn RecordConnection>, RecordStoreError> {
        let mut link = self.0.link().await?;
        self.look(&mut link).await.map_err(opening_error)?;
        Ok(Box::new(SqlRecordConnection::new(link)))
    }

    /// Sets the session up, and checks the tables.
    async fn look(&self, link: &mut MysqlLink) -> Result<(), StoreError> {
        link.info = settings::of(link).await?;
        self.0.create_if_missing(link, "getid_record", SCHEMA.trim_end().trim_end_matches(';')).await?;
        let mut packet = Packet::of(format!("SELECT {COLUMNS}, written_at FROM getid_record LIMIT 0"));
        let collation = packet.add(
            "SELECT collation_name FROM information_schema.columns WHERE table_schema = DATABASE() \
             AND table_name = 'getid_record' AND column_name = 'record_key'",
        );
        let largest = packet.add("SELECT @@global.max_allowed_packet");
        let status_rows = packet.add(
            "SHOW GLOBAL STATUS WHERE Variable_name IN \
             ('Slaves_connected', 'Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')",
        );
        // On a node of a Galera cluster a read must see writes that another node acknowledged.
        let galera = packet.add("SHOW VARIABLES LIKE 'wsrep_sync_wait'");
        let done = link.run(packet).await?;
        let collation = done[collation].text().unwrap_or_default();
        if !collation.ends_with("_bin") && collation != "binary" {
            return Err(StoreError::Refused(format!(
                "the column record_key of the table getid_record compares by {collation}, must compare byte for byte: \
                 `getid claim schema --store {}` prints the table as it must be",
                shell_word(&for_schema_command(&self.0.context.shown))
            )));
        }
        if !done[galera].rows.is_empty() {
            link.run(Packet::of("SET SESSION wsrep_sync_wait = 1")).await?;
        }
        let packet_max = done[largest].number().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(1 << 24);
        link.packet_bytes_max = packet_max;
        settings::check_tables(link, &[("getid_record", "beat", "record_key = ''")]).await?;
        // Fails without the permission to create records.
        let insert = "INSERT INTO getid_record SELECT * FROM getid_record WHERE record_key = ''";
        link.run(Packet::of(insert)).await?;
        if packet_max < 2 * TEXT_BYTES_MAX + PACKET_BYTES {
            link.info.warnings.push(format!(
                "max_allowed_packet is {packet_max} bytes: a large record cannot be written; set it to 16M"
            ));
        }
        let status = |row: &SqlRow| (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
        let status: Vec<(String, String)> = done[status_rows].rows.iter().map(status).collect();
        link.info.warnings.extend(of_replicas(&status));
        Ok(())
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

/// Returns a warning if a failover may lose the last writes.
fn of_replicas(status: &[(String, String)]) -> Option<String> {
    let is = |name: &str, value: &str| status.iter().any(|(found, is)| found == name && is == value);
    let replicas: u64 = status.iter().find(|(name, _)| name == "Slaves_connected")?.1.parse().ok()?;
    let waits = is("Rpl_semi_sync_master_status", "ON") || is("Rpl_semi_sync_source_status", "ON");
    (replicas > 0 && !waits).then(|| replicas_lag(replicas, "set semi-synchronous replication up"))
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
