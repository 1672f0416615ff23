//! Sequences in PostgreSQL, 12 or newer.
//!
//! Each connection is a session with its own settings, independent of the defaults of the database and the role: an
//! isolation level, a time zone, `synchronous_commit off`. A task serves its socket and ends with it.

mod failures;
mod link;
mod opening;
mod records;
mod statements;

use std::path::Path;
use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::SqlConnection;
use super::purpose::TablePurpose;
use super::{ConnectError, Connection, OpenError, Store, StoreError, StoreFuture, TableKind};
use getid_system::trust::{Trust, TrustError};
use getid_text::store_url::{ServerAddress, StoreTls};
use link::PostgresLink;
pub(super) use records::PostgresRecords;

/// Keepalive of the socket: idle time before the first probe, interval of probes, and their number.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(3), 3);

/// Longest time that sent bytes may stay unacknowledged.
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// A database on a PostgreSQL server, by its address.
pub(super) struct Postgres {
    address: ServerAddress,
    shown: String,
    config: Config,
}

impl Postgres {
    /// Creates the store without opening a connection. Fails if these tables are not in PostgreSQL.
    pub(super) fn new(address: &ServerAddress, shown: &str, table: TableKind) -> Result<Postgres, OpenError> {
        if table != TableKind::Native {
            return Err(OpenError::NoTableInPostgres { shown: shown.to_owned(), table });
        }
        Ok(Postgres { address: address.clone(), shown: shown.to_owned(), config: config(address) })
    }

    async fn open(&self) -> Result<Box<dyn Connection>, StoreError> {
        let mut link = self.link(TablePurpose::Sequences).await.map_err(|failure| failure.error)?;
        opening::open(&mut link, &self.address).await?;
        Ok(Box::new(SqlConnection::new(link)))
    }

    /// Opens a session and logs in.
    async fn link(&self, purpose: TablePurpose) -> Result<PostgresLink, ConnectError> {
        let is_socket = self.address.socket.is_some();
        match self.address.tls {
            StoreTls::No => {
                let connected = self.config.connect(NoTls).await;
                connected.map(|(client, socket)| PostgresLink::new(client, socket, purpose))
            }
            _ if is_socket => {
                let place = failures::place(&self.address);
                let message = format!("{place}: there is no TLS on a socket; leave out tls=");
                return Err(ConnectError::refused(StoreError::Refused(message)));
            }
            StoreTls::Yes | StoreTls::Verify => {
                let connected = self.config.connect(self.tls().await.map_err(ConnectError::refused)?).await;
                connected.map(|(client, socket)| PostgresLink::new(client, socket, purpose))
            }
        }
        .map_err(|error| ConnectError {
            is_away: failures::is_away(&error),
            error: failures::of_connect(&error, &self.address),
        })
    }

    /// Builds the TLS connector from its files, so that a new certificate needs no restart.
    async fn tls(&self) -> Result<MakeRustlsConnect, StoreError> {
        let (verifies, ca_file) = (self.address.tls == StoreTls::Verify, self.address.ca_file.clone());
        let made = tokio::task::spawn_blocking(move || {
            let trust = match &ca_file {
                _ if !verifies => Trust::AnyServer,
                Some(path) => Trust::Authorities(path),
                None => Trust::System,
            };
            trust.builder().map(|builder| MakeRustlsConnect::new(builder.with_no_client_auth()))
        });
        match made.await {
            Ok(Ok(tls)) => Ok(tls),
            Ok(Err(error @ TrustError::NoAuthorities(_))) => {
                Err(StoreError::Refused(format!("{error}: set ca-file= to the authority that signed the server's")))
            }
            Ok(Err(error)) => Err(StoreError::Refused(error.to_string())),
            Err(_) => Err(StoreError::Unknown("the certificates could not be read: the runtime ends".to_owned())),
        }
    }
}

impl Store for Postgres {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn table(&self) -> TableKind {
        TableKind::Native
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn connections_max(&self) -> usize {
        2
    }

    fn schema(&self) -> String {
        statements::SCHEMA.to_owned()
    }

    fn connect(&self) -> StoreFuture<'_, Box<dyn Connection>> {
        Box::pin(self.open())
    }
}

fn config(address: &ServerAddress) -> Config {
    let mut config = Config::new();
    let (folder, port) = match &address.socket {
        Some(socket) => socket_folder(socket, address.port),
        None => (None, address.port),
    };
    match folder {
        Some(folder) => config.host_path(folder),
        None => config.host(&address.host),
    };
    let (idle, interval, retries) = KEEPALIVE;
    config
        .port(port)
        .user(&address.user)
        .dbname(&address.database)
        .application_name("getid")
        .ssl_mode(if address.tls == StoreTls::No { SslMode::Disable } else { SslMode::Require })
        .keepalives_idle(idle)
        .keepalives_interval(interval)
        .keepalives_retries(retries)
        .tcp_user_timeout(USER_TIMEOUT);
    if let Some(password) = &address.password {
        config.password(password);
    }
    config
}

/// Returns the folder of a socket, and the port in its name: `/run/postgresql`, or `/run/postgresql/.s.PGSQL.5432`.
fn socket_folder(socket: &Path, port: u16) -> (Option<&Path>, u16) {
    let named = socket.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(".s.PGSQL."));
    match named.and_then(|port| port.parse().ok()) {
        Some(port) => (socket.parent(), port),
        None => (Some(socket), port),
    }
}
