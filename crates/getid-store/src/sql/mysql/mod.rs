//! Sequences in MySQL and MariaDB: in getid's own tables, or in those of Leaf and Tinyid.
//!
//! A connection has no pool: the driver of sequences has two of them, and drops one whose answer it no longer awaits.
//! The server's settings are read when a connection is opened. Settings by which a commit may be lost cause warnings,
//! and a server that takes no writes is refused by name.
//!
//! | file | |
//! |---|---|
//! | `statements` | the dialect, and getid's own tables |
//! | `link` | statements in packets, and their answers |
//! | `errors` | the meaning of errors, and their remedies |
//! | `settings` | settings of a session, and facts about the server |
//! | `foreign`, `leaf`, `tinyid` | tables of Leaf and Tinyid |
//! | `high` | values reserved from their rows |

mod errors;
mod foreign;
mod high;
mod leaf;
mod link;
mod records;
mod settings;
mod statements;
mod tinyid;

use std::time::Duration;

use mysql_async::{Conn, Error, OptsBuilder, SslOpts};
use tokio_rustls::rustls;

use self::errors::ErrorContext;
use self::foreign::{ForeignConnection, ForeignTable};
use self::leaf::Leaf;
use self::link::MysqlLink;
pub(super) use self::records::MysqlRecords;
use self::tinyid::Tinyid;
use super::connection::SqlConnection;
use super::native::COLUMNS;
use super::packet::{Link as _, Packet, PacketFailureKind, hex};
use super::purpose::TablePurpose;
use super::{ConnectError, Connection, Store, StoreError, StoreFuture, TableKind, check_pinned};
use getid_system::trust::{Trust, TrustError};
use getid_system::{files, noise};
use getid_text::shell::shell_word;
use getid_text::store_url::{ServerAddress, StoreTls, for_schema_command};

/// Idle time after which the system checks whether the other end of a connection exists.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Largest packet that is sent or read, in bytes. A reservation of 64 sequences has 60 KB, 1,000 rows have 200 KB.
const PACKET_BYTES_MAX: usize = 1 << 24;

/// Longest time between another server's creation of the first table and of the second.
const BETWEEN_TABLES: Duration = Duration::from_millis(300);

/// Most bytes of a password file.
const PASSWORD_BYTES_MAX: usize = 4096;

/// A database in MySQL or MariaDB.
pub(super) struct Mysql {
    address: ServerAddress,
    table: TableKind,
    context: ErrorContext,
}

impl Mysql {
    /// Creates the store without opening a connection.
    pub(super) fn new(address: &ServerAddress, shown: &str, table: TableKind) -> Mysql {
        Mysql { address: address.clone(), table, context: ErrorContext::new(shown, address, TablePurpose::Sequences) }
    }

    async fn open(&self) -> Result<Box<dyn Connection>, StoreError> {
        let mut link = self.link().await.map_err(|failure| failure.error)?;
        link.info = settings::of(&mut link).await?;
        match self.table {
            TableKind::Native => {
                link.info.uuid = self.prepare_native_tables(&mut link).await?;
                check_pinned(&self.address, &link.info.uuid)?;
                self.prepare_beat_table(&mut link).await?;
                self.create_if_missing(&mut link, "getid_generator", statements::GENERATORS).await?;
                self.create_if_missing(&mut link, "getid_request", statements::REQUESTS).await?;
                self.create_if_missing(&mut link, "getid_request_count", statements::REQUEST_COUNTS).await?;
                self.create_if_missing(&mut link, "getid_number", statements::NUMBERS).await?;
                self.create_if_missing(&mut link, "getid_number_request", statements::NUMBER_REQUESTS).await?;
                let tables = [
                    ("getid_store", "changes", "id = 0"),
                    ("getid_sequence", "next", "name = ''"),
                    ("getid_generator", "newest", "name = ''"),
                    ("getid_number", "entry", "name = ''"),
                    ("getid_number_request", "state", "name = ''"),
                    ("getid_beat", "beat", "nonce = ''"),
                ];
                settings::check_tables(&mut link, &tables).await?;
                Ok(Box::new(SqlConnection::new(link)))
            }
            TableKind::Leaf => self.open_foreign::<Leaf>(link).await,
            TableKind::Tinyid => self.open_foreign::<Tinyid>(link).await,
        }
    }

    async fn open_foreign<T: ForeignTable>(&self, mut link: MysqlLink) -> Result<Box<dyn Connection>, StoreError> {
        link.info.uuid = self.derived_uuid(T::TABLE);
        check_pinned(&self.address, &link.info.uuid)?;
        self.check_foreign_table(&mut link, T::TABLE, T::COLUMNS).await?;
        self.prepare_beat_table(&mut link).await?;
        self.create_if_missing(&mut link, "getid_high", high::TABLE).await?;
        let tables = [
            (T::TABLE, "max_id", T::NO_ROW),
            ("getid_beat", "beat", "nonce = ''"),
            ("getid_high", "next", "name = ''"),
        ];
        settings::check_tables(&mut link, &tables).await?;
        foreign::check_names::<T>(&mut link).await?;
        Ok(Box::new(ForeignConnection::<T>::new(link)))
    }

    /// Opens a connection and logs in.
    async fn link(&self) -> Result<MysqlLink, ConnectError> {
        let options = self.options().await.map_err(ConnectError::refused)?;
        let connected = Conn::new(options).await.map_err(|error| ConnectError {
            error: self.context.not_connected(&error),
            is_away: ErrorContext::is_away(&error),
        });
        Ok(MysqlLink::new(connected?, self.context.clone()))
    }

    async fn options(&self) -> Result<OptsBuilder, StoreError> {
        let ServerAddress { host, port, socket, user, database, .. } = &self.address;
        let encryption = self.encryption().await?;
        Ok(OptsBuilder::default()
            .ip_or_hostname(host.clone())
            .tcp_port(*port)
            .socket(socket.as_ref().map(|socket| socket.display().to_string()))
            // By default the driver connects a second time by the server's socket, which may be another server's.
            .prefer_socket(false)
            .user(Some(user.clone()))
            .pass(self.password()?)
            .db_name(Some(database.clone()))
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE))
            .max_allowed_packet(Some(PACKET_BYTES_MAX))
            .wait_timeout(Some(28_800))
            .stmt_cache_size(0)
            .ssl_opts(encryption))
    }

    fn password(&self) -> Result<Option<String>, StoreError> {
        let ServerAddress { password, password_file, .. } = &self.address;
        let Some(path) = password_file.as_ref().filter(|_| password.is_none()) else { return Ok(password.clone()) };
        let read = files::read(path, PASSWORD_BYTES_MAX).map_err(|error| error.to_string());
        let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
        let text = text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned());
        text.map(Some)
            .map_err(|why| StoreError::Refused(format!("the password-file {} cannot be read: {why}", path.display())))
    }

    /// Builds the TLS options from their files, so that a new certificate needs no restart.
    async fn encryption(&self) -> Result<Option<SslOpts>, StoreError> {
        let verifies = match self.address.tls {
            StoreTls::No => return Ok(None),
            _ if self.address.socket.is_some() => {
                let place = &self.context.place;
                return Err(StoreError::Refused(format!("{place}: there is no TLS on a socket; leave out tls=")));
            }
            StoreTls::Yes => false,
            StoreTls::Verify => true,
        };
        // Fails if the process has a provider already, which suffices.
        let _ = rustls::crypto::ring::default_provider().install_default();
        if !verifies {
            return Ok(Some(SslOpts::default().with_danger_accept_invalid_certs(true)));
        }
        let ca_file = self.address.ca_file.clone();
        let read = tokio::task::spawn_blocking(move || match &ca_file {
            Some(path) => Trust::Authorities(path).authorities(),
            None => Trust::System.authorities(),
        });
        let authorities = match read.await {
            Ok(Ok(authorities)) => authorities,
            Ok(Err(error @ TrustError::NoAuthorities(_))) => {
                return Err(StoreError::Refused(format!(
                    "{error}: set ca-file= to the authority that signed the server's"
                )));
            }
            Ok(Err(error)) => return Err(StoreError::Refused(error.to_string())),
            Err(_) => {
                return Err(StoreError::Unknown("the certificates could not be read: the runtime ends".to_owned()));
            }
        };
        let roots = authorities.into_iter().map(|authority| authority.to_vec().into()).collect();
        Ok(Some(SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots)))
    }

    /// Returns the store's UUID. Missing tables are created if the user has the permission.
    async fn prepare_native_tables(&self, link: &mut MysqlLink) -> Result<String, StoreError> {
        self.find_or_create_tables(link).await?;
        // Two servers may do this at the same time: the row of the first stays. If there are sequences, there was a
        // row.
        let mut insert = Packet::transaction();
        insert.add(format!(
            "INSERT IGNORE INTO getid_store (id, uuid, changes) \
             SELECT 1, '{:032x}', 0 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM getid_sequence)",
            noise::bits()
        ));
        let select = "SELECT uuid FROM getid_store WHERE id = 1";
        let of_new = insert.add(select);
        let mut look = Packet::of(select);
        look.add(format!("SELECT {COLUMNS}, changed FROM getid_sequence LIMIT 0"));
        if let Some(uuid) = link.run(look).await?[0].text() {
            return Ok(uuid);
        }
        link.run(insert).await?[of_new].text().ok_or_else(|| {
            StoreError::Refused(format!(
                "the table getid_store in the database '{}' has lost its row, though there are sequences: put it \
                 back from a backup, or INSERT INTO getid_store SELECT 1, '{:032x}', MAX(changed) FROM \
                 getid_sequence; after that getid cannot detect whether sequences went back as well",
                self.context.database,
                noise::bits()
            ))
        })
    }

    /// Creates a table of getid's own beside those of Leaf and Tinyid if it is missing.
    async fn create_if_missing(&self, link: &mut MysqlLink, table: &str, sql: &str) -> Result<(), StoreError> {
        if !self.table_exists(link, table).await? {
            let made = link.run_raw(&[sql.to_owned()]).await;
            made.map_err(|(_, error)| self.cannot_create_error(table, &error))?;
        }
        Ok(())
    }

    /// Creates the table of servers and the row of rounds if they are missing, as beside tables of Leaf and Tinyid.
    async fn prepare_beat_table(&self, link: &mut MysqlLink) -> Result<(), StoreError> {
        self.create_if_missing(link, "getid_beat", statements::BEATS).await?;
        let look = Packet::of("SELECT COUNT(*) FROM getid_beat WHERE nonce = REPEAT('0', 32)");
        if link.run(look).await?[0].number() != Some(1) {
            link.run(Packet::of(statements::ROUNDS)).await?;
        }
        Ok(())
    }

    /// Finds or creates both tables. If only one is missing, its content was lost, and a new one would begin again.
    async fn find_or_create_tables(&self, link: &mut MysqlLink) -> Result<(), StoreError> {
        for is_again in [false, true] {
            let (store, sequence) =
                (self.table_exists(link, "getid_store").await?, self.table_exists(link, "getid_sequence").await?);
            match (store, sequence) {
                (true, true) => return Ok(()),
                (false, false) => {
                    check_pinned(&self.address, "")?;
                    return self.create_tables(link).await;
                }
                _ if !is_again => tokio::time::sleep(BETWEEN_TABLES).await,
                _ => {
                    let (found, lost) =
                        if store { ("getid_store", "getid_sequence") } else { ("getid_sequence", "getid_store") };
                    return Err(StoreError::Refused(format!(
                        "the database '{}' has the table {found}, and has lost {lost}: put both back from a backup",
                        self.context.database
                    )));
                }
            }
        }
        Ok(())
    }

    async fn table_exists(&self, link: &mut MysqlLink, table: &str) -> Result<bool, StoreError> {
        match link.run(Packet::of(format!("SELECT 1 FROM {table} LIMIT 0"))).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.kind == PacketFailureKind::NoTable => Ok(false),
            Err(failure) => Err(failure.error),
        }
    }

    async fn create_tables(&self, link: &mut MysqlLink) -> Result<(), StoreError> {
        let make = statements::TABLES.map(str::to_owned);
        let tables = [
            "getid_beat",
            "getid_generator",
            "getid_request",
            "getid_request_count",
            "getid_number",
            "getid_number_request",
            "getid_store",
            "getid_sequence",
        ];
        link.run_raw(&make).await.map(drop).map_err(|(at, error)| self.cannot_create_error(tables[at.min(7)], &error))
    }

    fn cannot_create_error(&self, table: &str, error: &Error) -> StoreError {
        let Error::Server(server) = error else { return self.context.failed(error, false) };
        StoreError::Refused(format!(
            "the table {table} is missing in the database '{}', and '{}' cannot create it: {}; a user with the \
             permission must run the output of `{} --store {}`",
            self.context.database,
            self.context.user,
            errors::server_message(server),
            self.context.purpose.schema_command(),
            shell_word(&for_schema_command(&self.context.shown))
        ))
    }

    /// Checks that a table of Leaf's or Tinyid's exists. getid does not create it.
    async fn check_foreign_table(&self, link: &mut MysqlLink, table: &str, columns: &str) -> Result<(), StoreError> {
        match link.run_raw(&[format!("SELECT {columns} FROM {table} LIMIT 0")]).await {
            Ok(_) => Ok(()),
            Err((_, Error::Server(error))) if error.code == 1146 => Err(StoreError::Refused(format!(
                "the database '{}' has no table {table}: {}; is it the right database? \
                 `getid sequence schema --store {}` prints the table",
                self.context.database,
                errors::server_message(&error),
                shell_word(&for_schema_command(&self.context.shown))
            ))),
            Err((_, error)) => Err(self.context.failed(&error, false)),
        }
    }

    /// Returns the id of a store of Leaf's or Tinyid's tables: they have no UUID, so it is derived from their place.
    fn derived_uuid(&self, table: &str) -> String {
        let place = format!("mysql {} {} {table}", self.context.place.to_ascii_lowercase(), self.address.database);
        let digest = ring::digest::digest(&ring::digest::SHA256, place.as_bytes());
        hex(&digest.as_ref()[..16])
    }
}

/// Returns the SQL of getid's own tables beside those of Leaf and Tinyid.
fn own_schema() -> String {
    format!("{};\n{};\n{};\n", statements::BEATS, statements::ROUNDS, high::TABLE)
}

impl Store for Mysql {
    fn shown(&self) -> &str {
        &self.context.shown
    }

    fn table(&self) -> TableKind {
        self.table
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn connections_max(&self) -> usize {
        2
    }

    fn schema(&self) -> String {
        match self.table {
            TableKind::Native => {
                let tables = statements::TABLES.map(|table| format!("{table};\n")).concat();
                tables + statements::ROW + statements::ROUNDS + ";\n"
            }
            TableKind::Leaf => format!("{}{}", Leaf::SCHEMA, own_schema()),
            TableKind::Tinyid => format!("{}{}", Tinyid::SCHEMA, own_schema()),
        }
    }

    fn connect(&self) -> StoreFuture<'_, Box<dyn Connection>> {
        Box::pin(self.open())
    }
}
