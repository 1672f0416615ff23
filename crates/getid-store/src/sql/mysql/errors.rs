//! The meaning of MySQL's errors: whether anything can have changed, and the remedy.
//!
//! An error packet inside a transaction ends it without its COMMIT, so it is the database's own decision. Two kinds
//! count as unknown, so that the connection is dropped. The first are errors of the COMMIT itself: all but a deadlock
//! leave its result open. The second are errors after which the connection is unusable.
//!
//! Invariant: no text contains a password. MySQL's own texts have none, and getid's name only the user and the place.

use std::io;

use mysql_async::{DriverError, Error, IoError, ServerError};

use crate::sql::StoreError;
use crate::sql::packet::{Failure, PacketFailureKind};
use crate::sql::purpose::TablePurpose;
use getid_text::printable::printable_up_to;
use getid_text::shell::shell_word;
use getid_text::store_url::{ServerAddress, StoreTls, for_schema_command};

/// Most characters of a server's message that are shown.
const MESSAGE_CHARS_MAX: usize = 300;

/// Names for errors: the user and the database.
#[derive(Clone, Debug)]
pub(super) struct ErrorContext {
    /// Address without its password.
    pub(super) shown: String,
    /// Host and port, or the socket.
    pub(super) place: String,
    pub(super) user: String,
    pub(super) database: String,
    /// Purpose of the tables.
    pub(super) purpose: TablePurpose,
    tls: StoreTls,
}

impl ErrorContext {
    pub(super) fn new(shown: &str, address: &ServerAddress, purpose: TablePurpose) -> ErrorContext {
        let place = match &address.socket {
            Some(socket) => socket.display().to_string(),
            None if address.host.contains(':') => format!("[{}]:{}", address.host, address.port),
            None => format!("{}:{}", address.host, address.port),
        };
        ErrorContext {
            shown: shown.to_owned(),
            place,
            user: printable_up_to(&address.user, 80),
            database: printable_up_to(&address.database, 80),
            purpose,
            tls: address.tls,
        }
    }

    /// Returns the error of opening a connection. No request was sent yet, so nothing has changed.
    pub(super) fn not_connected(&self, error: &Error) -> StoreError {
        let ErrorContext { place, user, database, .. } = self;
        let text = match error {
            Error::Server(error) => self.login_refusal(error),
            Error::Io(IoError::Io(error)) => self.unreachable_text(error),
            Error::Io(IoError::Tls(error)) => self.tls_failure(&error.to_string()),
            Error::Driver(DriverError::NoClientSslFlagFromServer) => {
                let word = if self.tls == StoreTls::Yes { "yes" } else { "verify" };
                format!("{place} offers no TLS, and tls={word} requires it: enable it there, or write tls=no")
            }
            Error::Driver(DriverError::UnknownAuthPlugin { name }) => format!(
                "the user '{user}' logs in by '{}', which getid does not support: give it a password by \
                 caching_sha2_password (MySQL) or mysql_native_password (MariaDB)",
                printable_up_to(name, 64)
            ),
            Error::Driver(DriverError::MysqlOldPasswordDisabled | DriverError::CleartextPluginDisabled) => {
                format!("the server requests the password of '{user}' in clear text: change how that user logs in")
            }
            Error::Driver(DriverError::ConnectionClosed) => {
                format!("{place} ended the connection: is it a MySQL server, and is it up?")
            }
            error => {
                format!("{place} (database '{database}'): {}", printable_up_to(&error.to_string(), MESSAGE_CHARS_MAX))
            }
        };
        StoreError::Refused(text)
    }

    fn unreachable_text(&self, error: &io::Error) -> String {
        let place = &self.place;
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                format!("{place} ended the connection: {error}; is it a MySQL server, and is it up?")
            }
            io::ErrorKind::NotFound => format!("there is no socket {place}: is the server up, and is that its socket?"),
            io::ErrorKind::InvalidData => self.tls_failure(&error.to_string()),
            // A host name that cannot be resolved has no error kind of its own.
            _ if error.to_string().contains("lookup address") => {
                format!("the host of {place} is not found: {error}; check the name")
            }
            _ => format!("{place} cannot be reached: {error}; is the server up, and does it accept this machine?"),
        }
    }

    fn tls_failure(&self, message: &str) -> String {
        let message = printable_up_to(message, MESSAGE_CHARS_MAX);
        let remedy = match self.tls {
            StoreTls::Verify => {
                "the certificate must be for this host, and signed by an authority of this system or of ca-file=PATH"
            }
            StoreTls::Yes | StoreTls::No => "see the server's log",
        };
        format!("TLS with {} failed: {message}; {remedy}", self.place)
    }

    fn login_refusal(&self, error: &ServerError) -> String {
        let ErrorContext { place, user, database, .. } = self;
        let message = server_message(error);
        match error.code {
            1045 | 1698 => format!(
                "{place} rejects the login of '{user}': {message}; check the user, the password, and from which hosts \
                 it may log in"
            ),
            1044 => format!(
                "'{user}' may not use the database '{database}': {message}; \
                 GRANT {}, CREATE ON `{database}`.* TO '{user}'",
                self.purpose.rights()
            ),
            1049 => format!("{place} has no database '{database}': {message}; create it, or correct the name"),
            1040 | 1203 | 1226 => format!("{place} has its maximum of connections: {message}"),
            1129 | 1130 => format!("{place} rejects this machine: {message}"),
            3159 => format!("{place} requires TLS: {message}; write tls=verify or tls=yes"),
            _ => format!("{place}: {message}"),
        }
    }

    /// Returns the error of a statement with its kind. `commits`: it was a COMMIT or a later statement.
    pub(super) fn failure(&self, error: &Error, commits: bool) -> Failure {
        let kind = match error {
            Error::Server(error) if error.code == 1062 => PacketFailureKind::Duplicate,
            Error::Server(error) if error.code == 1146 => PacketFailureKind::NoTable,
            _ => PacketFailureKind::Other,
        };
        Failure { kind, error: self.failed(error, commits) }
    }

    /// Returns the error of a statement. `commits`: it was a COMMIT or a later statement.
    pub(super) fn failed(&self, error: &Error, commits: bool) -> StoreError {
        match error {
            Error::Server(error) => {
                let text = format!("{}{}", server_message(error), self.remedy(error.code));
                if is_unknown(error.code, commits) { StoreError::Unknown(text) } else { StoreError::Refused(text) }
            }
            error => {
                let message = printable_up_to(&error.to_string(), MESSAGE_CHARS_MAX);
                StoreError::Unknown(format!("the connection to {} ended: {message}", self.place))
            }
        }
    }

    fn remedy(&self, code: u16) -> String {
        let ErrorContext { shown, user, database, .. } = self;
        let schema = self.purpose.schema_command();
        let url = shell_word(&for_schema_command(shown));
        match code {
            1205 => "; another transaction has held the row, or a table, for a second".to_owned(),
            1142 | 1143 => format!("; GRANT {} ON `{database}`.* TO '{user}'", self.purpose.rights()),
            1146 => format!("; `{schema} --store {url}` prints the SQL that creates it"),
            1054 => {
                format!("; this table is of another version, `{schema} --store {url}` prints it as it must be")
            }
            1290 | 1792 | 1836 => "; the server is read-only, perhaps a replica: name the primary".to_owned(),
            1021 | 1114 => "; its disk is full".to_owned(),
            1264 | 1690 => "; a number in the row has reached its maximum: correct it by hand".to_owned(),
            _ => String::new(),
        }
    }

    /// Whether connecting to the same address may succeed in a moment: no server answered, or it was too busy.
    pub(super) fn is_away(error: &Error) -> bool {
        match error {
            // The server has its maximum of connections, or shuts down.
            Error::Server(error) => matches!(error.code, 1040 | 1053 | 1203 | 1226),
            Error::Io(IoError::Io(error)) => error.kind() != io::ErrorKind::InvalidData,
            Error::Driver(DriverError::ConnectionClosed) => true,
            _ => false,
        }
    }
}

/// Returns the server's message on one line, with its number.
pub(super) fn server_message(error: &ServerError) -> String {
    format!("{} (error {})", printable_up_to(&error.message, MESSAGE_CHARS_MAX), error.code)
}

/// Whether a server's error leaves the result of the transaction open, or makes the connection unusable.
fn is_unknown(code: u16, commits: bool) -> bool {
    if commits {
        // A deadlock is a rollback, even one by Galera's certification.
        return code != 1213;
    }
    matches!(
        code,
        // The server shuts down, or the connection was killed.
        1053 | 1077..=1079 | 1927 | 3169 | 4031
        // The server became read-only, or has left its cluster: another connection may reach another server.
        | 1047 | 1290 | 1792 | 1836
        // The server could not read the request, or send its answer.
        | 1156..=1161
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use getid_text::store_url::{StoreKind, StoreUrl};

    fn context(url: &str) -> ErrorContext {
        let url = StoreUrl::parse(url).unwrap();
        let StoreKind::Mysql(address) = url.kind() else { panic!("no MySQL") };
        ErrorContext::new(url.shown(), address, TablePurpose::Sequences)
    }

    fn server(code: u16, message: &str) -> Error {
        Error::Server(ServerError { code, message: message.to_owned(), state: "HY000".to_owned() })
    }

    #[test]
    fn the_result_of_a_failed_commit_is_unknown_unless_it_rolled_back() {
        let context = context("mysql://a@h/b");
        for (code, inside, at_commit) in
            [(1213, false, false), (1205, false, true), (1180, false, true), (1053, true, true), (1927, true, true)]
        {
            let is_unknown =
                |commits| matches!(context.failed(&server(code, "a message"), commits), StoreError::Unknown(_));
            assert_eq!((is_unknown(false), is_unknown(true)), (inside, at_commit), "{code}");
        }
        let ended = Error::Io(IoError::Io(io::Error::from(io::ErrorKind::BrokenPipe)));
        assert!(matches!(context.failed(&ended, false), StoreError::Unknown(_)));
    }

    #[test]
    fn each_error_names_the_place_and_the_remedy_and_no_password() {
        let context = context("mysql://app:hunter2@db.example:3307/ids?tls=verify");
        let io = |kind| Error::Io(IoError::Io(io::Error::from(kind)));
        for (error, expected) in [
            (
                server(1045, "Access denied"),
                "db.example:3307 rejects the login of 'app': Access denied (error 1045); \
                                             check",
            ),
            (server(1044, "Access denied"), "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON `ids`.* TO 'app'"),
            (server(1049, "Unknown database"), "has no database 'ids'"),
            (server(3159, "insecure"), "requires TLS"),
            (server(4000, "two\nlines"), "db.example:3307: two\\nlines (error 4000)"),
            (io(io::ErrorKind::ConnectionRefused), "db.example:3307 cannot be reached: connection refused"),
            (io(io::ErrorKind::UnexpectedEof), "ended the connection"),
            (Error::Driver(DriverError::NoClientSslFlagFromServer), "offers no TLS, and tls=verify requires it"),
            (Error::Driver(DriverError::UnknownAuthPlugin { name: "gssapi".to_owned() }), "logs in by 'gssapi'"),
        ] {
            let StoreError::Refused(text) = context.not_connected(&error) else { panic!("{error}") };
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("hunter2") && !format!("{context:?}").contains("hunter2"), "{text}");
        }
    }
}
