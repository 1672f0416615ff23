//! Failures of PostgreSQL and of the connection to it, each as a sentence with a remedy; and whether it is certain that
//! nothing has changed.
//!
//! Invariant: no text contains a password. Texts are built from the server's messages, the system's errors, and the
//! public parts of the address.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::sql::StoreError;
use crate::sql::purpose::TablePurpose;
use getid_text::printable::printable_up_to;
use getid_text::store_url::{ServerAddress, StoreTls};

/// Most characters of a server's message.
const MESSAGE_CHARS_MAX: usize = 300;

/// Returns the error of an answer that is not as expected: the result of the statement is unknown.
pub(super) fn unexpected(what: &str) -> StoreError {
    StoreError::Unknown(format!("the database {what}"))
}

/// Returns why a statement has no answer.
///
/// An error that ends a statement rolls its transaction back, and the session continues. An error that ends the session
/// may follow the commit. So may a pooler's error about its own connection to the server (class 08).
pub(super) fn of_statement(error: &tokio_postgres::Error, purpose: TablePurpose) -> StoreError {
    let Some(db) = error.as_db_error() else { return StoreError::Unknown(chain(error)) };
    let message = server_message(db) + &statement_remedy(db.code(), purpose);
    let ends_session = match db.parsed_severity() {
        Some(severity) => severity != Severity::Error,
        None => db.severity() != "ERROR",
    };
    let unknown = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
    ];
    if ends_session || db.code().code().starts_with("08") || unknown.contains(db.code()) {
        StoreError::Unknown(message)
    } else {
        StoreError::Refused(message)
    }
}

/// Returns why there is no connection. No statement was sent yet.
pub(super) fn of_connect(error: &tokio_postgres::Error, address: &ServerAddress) -> StoreError {
    if let Some(db) = error.as_db_error() {
        return StoreError::Refused(server_message(db) + &connect_remedy(db.code(), address));
    }
    let (place, why) = (place(address), chain(error));
    let is_io = error.source().is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
    if why.contains("password missing") {
        let user = &address.user;
        return StoreError::Refused(format!(
            "{place} requires a password of '{user}': write it into the address (USER:PASSWORD@) or name its file with \
             password-file="
        ));
    }
    if why.contains("server does not support TLS") {
        return StoreError::Refused(format!(
            "{place} has no TLS: set ssl = on in its postgresql.conf, or tls=no on a trusted network"
        ));
    }
    if why.contains("certificate") || why.contains("TLS") {
        let remedy = match address.tls {
            StoreTls::Verify => {
                ": set ca-file= to the authority that signed the server's certificate, which must be \
                                 for its host"
            }
            StoreTls::Yes | StoreTls::No => "",
        };
        return StoreError::Refused(format!("TLS with {place}: {why}{remedy}"));
    }
    let remedy = if is_io { ": is PostgreSQL running there, and does it listen on that address?" } else { "" };
    StoreError::Unknown(format!("{place} cannot be reached: {why}{remedy}"))
}

/// Whether connecting to the same address may succeed in a moment: no server answered, or it was too busy.
pub(super) fn is_away(error: &tokio_postgres::Error) -> bool {
    if let Some(db) = error.as_db_error() {
        // Starting, stopping, too many connections, or a pooler's error about its connection to the server.
        return ["57", "53", "08"].iter().any(|class| db.code().code().starts_with(class));
    }
    let why = chain(error);
    !["certificate", "TLS", "password"].iter().any(|word| why.contains(word))
}

/// Returns the error that ended the connection, for a statement that found it closed.
pub(super) fn of_end(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| chain(error), server_message)
}

/// Returns the place of the server, without user and password.
pub(super) fn place(address: &ServerAddress) -> String {
    let place = match &address.socket {
        Some(socket) => format!("PostgreSQL on {}", socket.display()),
        None if address.host.contains(':') => format!("PostgreSQL on [{}]:{}", address.host, address.port),
        None => format!("PostgreSQL on {}:{}", address.host, address.port),
    };
    printable_up_to(&place, MESSAGE_CHARS_MAX)
}

/// Joins an error with its causes, as in `connection refused: ...`, without repetitions.
fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    printable_up_to(&text, MESSAGE_CHARS_MAX)
}

fn server_message(db: &DbError) -> String {
    let detail = db.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
    printable_up_to(&format!("{}{detail} [{}]", db.message(), db.code().code()), MESSAGE_CHARS_MAX)
}

fn statement_remedy(code: &SqlState, purpose: TablePurpose) -> String {
    let (tables, schema, rights) = (purpose.tables(), purpose.schema_command(), purpose.rights());
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        format!(": its owner may GRANT {rights} ON {tables} TO the user of the address")
    } else if *code == SqlState::UNDEFINED_TABLE {
        format!(": '{schema} --store URL' prints the SQL that creates it")
    } else if *code == SqlState::UNDEFINED_COLUMN {
        format!(
            ": '{schema} --store URL' prints {tables} as they must be; ALTER the existing ones, or put another schema \
             first in search_path"
        )
    } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        ": name a server that can be written, the primary".to_owned()
    } else if *code == SqlState::LOCK_NOT_AVAILABLE {
        ": another transaction has locked it for over a second (pg_stat_activity names it)".to_owned()
    } else if *code == SqlState::DISK_FULL {
        ": its disk is full".to_owned()
    } else {
        String::new()
    }
}

fn connect_remedy(code: &SqlState, address: &ServerAddress) -> String {
    let ServerAddress { user, database, .. } = address;
    if *code == SqlState::INVALID_PASSWORD {
        format!(": the user is '{user}' and the password that of the address, or of its password-file")
    } else if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
        format!(": create the role with CREATE ROLE \"{user}\" LOGIN, or permit it in pg_hba.conf")
    } else if *code == SqlState::INVALID_CATALOG_NAME {
        format!(": create it with CREATE DATABASE \"{database}\"")
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        format!(": GRANT CONNECT ON DATABASE \"{database}\" TO \"{user}\"")
    } else if *code == SqlState::TOO_MANY_CONNECTIONS {
        ": it has its maximum of connections; each getid needs two".to_owned()
    } else if code.code() == "08P01" {
        ": a pooler in between may not support this session; see docs/sequences.md".to_owned()
    } else {
        String::new()
    }
}
