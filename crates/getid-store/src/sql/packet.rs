//! Packets of SQL statements, the dialect of a database, and the link that runs packets: all that
//! [`SqlConnection`](super::connection::SqlConnection) needs of a database.
//!
//! A packet is one round trip, however many statements it has. A transaction that decides nothing halfway is one packet
//! with its COMMIT. So no row stays locked because this process stops, and other users of a row do not wait. A
//! transaction that reads, decides and writes is two packets. If this process stops between them, the database ends the
//! connection.
//!
//! Values are part of the text. They are numbers, names of the characters that [`getid_core::server::Key`] permits,
//! none of which ends a literal, and literals of [`Dialect::text`].
//!
//! Invariant: after an answer no transaction is open, unless the packet leaves it open on purpose. A link whose answer
//! was dropped, or unknown, runs nothing more.

use std::fmt;
use std::future::Future;
use std::path::Path;

use getid_core::server::Key;

use super::{StoreError, StoreInfo};

/// Statements that are sent together.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    statements: Vec<String>,
    begins: bool,
    /// Whether it continues a transaction that is open.
    continues: bool,
    leaves_open: bool,
    /// Whether a missing file is created for it.
    creates: bool,
}

impl Packet {
    /// Creates a packet of statements without a common transaction.
    pub(super) fn new() -> Packet {
        Packet { statements: Vec::new(), begins: false, continues: false, leaves_open: false, creates: false }
    }

    /// Creates a packet of one statement without a transaction.
    pub(super) fn of(statement: impl Into<String>) -> Packet {
        Packet { statements: vec![statement.into()], ..Packet::new() }
    }

    /// Creates a packet that is a whole transaction.
    pub(super) fn transaction() -> Packet {
        Packet { begins: true, ..Packet::new() }
    }

    /// Creates a packet that begins a transaction and leaves it open with its locks, until [`Link::rollback`] or a
    /// packet of [`Packet::commit`].
    pub(super) fn locking() -> Packet {
        Packet { begins: true, leaves_open: true, ..Packet::new() }
    }

    /// Creates a packet that continues such a transaction and leaves it open.
    pub(super) fn within() -> Packet {
        Packet { continues: true, leaves_open: true, ..Packet::new() }
    }

    /// Creates a packet that continues such a transaction and ends it.
    pub(super) fn commit() -> Packet {
        Packet { continues: true, ..Packet::new() }
    }

    /// Returns the packet, with a missing file created for it if `creates` is true.
    pub(super) fn creating(self, creates: bool) -> Packet {
        Packet { creates, ..self }
    }

    /// Adds a statement; returns its index.
    pub(super) fn add(&mut self, statement: impl Into<String>) -> usize {
        self.statements.push(statement.into());
        self.statements.len() - 1
    }

    /// Returns true if the packet has no statements.
    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}

/// The statements of a packet as they are sent, with those that begin and end its transaction.
pub(super) struct SentPacket {
    pub(super) statements: Vec<String>,
    /// Index of the COMMIT, if it has one: the result of an error from there on is unknown.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "other errors contain whether it was the COMMIT's"))]
    pub(super) commit: Option<usize>,
    /// Whether a missing file is created.
    pub(super) creates: bool,
}

/// Result of a statement.
#[derive(Clone, Debug, Default)]
pub(super) struct StatementResult {
    pub(super) affected: u64,
    pub(super) rows: Vec<SqlRow>,
}

impl StatementResult {
    /// Returns the number in the first column of the first row.
    pub(super) fn number(&self) -> Option<i64> {
        self.rows.first()?.number(0)
    }

    /// Returns the text in the first column of the first row.
    pub(super) fn text(&self) -> Option<String> {
        self.rows.first()?.text(0)
    }
}

/// A row of an answer.
#[derive(Clone, Debug)]
pub(super) struct SqlRow(pub(super) Vec<Cell>);

/// A value in a row. MySQL and PostgreSQL send numbers as text.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Null,
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "numbers are texts"))]
    Number(i64),
    Text(String),
}

impl SqlRow {
    /// Returns the number in a column; `None` if it has none.
    pub(super) fn number(&self, column: usize) -> Option<i64> {
        match self.0.get(column)? {
            Cell::Null => None,
            Cell::Number(number) => Some(*number),
            Cell::Text(text) => text.parse().ok(),
        }
    }

    /// Returns the text in a column; `None` for NULL.
    pub(super) fn text(&self, column: usize) -> Option<String> {
        match self.0.get(column)? {
            Cell::Null => None,
            Cell::Number(number) => Some(number.to_string()),
            Cell::Text(text) => Some(text.clone()),
        }
    }

    /// Returns the text in a column, which is `NULL` for NULL.
    pub(super) fn shown(&self, column: usize) -> String {
        self.text(column).unwrap_or_else(|| "NULL".to_owned())
    }
}

/// Reason why a packet has no answer.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: PacketFailureKind,
    pub(super) error: StoreError,
}

/// Kind of a failure, where a caller distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketFailureKind {
    /// A table does not exist.
    NoTable,
    /// A row with this key exists.
    Duplicate,
    /// Any other failure.
    Other,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure { kind: PacketFailureKind::Other, error }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> StoreError {
        failure.error
    }
}

/// State of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LinkState {
    #[default]
    Free,
    /// In a transaction that the next packet continues.
    Open,
    /// Running a packet. If the state is still this at the next packet, the answer was dropped or unknown.
    Busy,
}

/// The statements of a database, where they differ.
pub(super) trait Dialect: Send + 'static {
    /// Whether other servers may use the same tables.
    const IS_SHARED: bool;

    /// Whether rows are counted some at a time. The one connection of a file reserves nothing meanwhile; a database
    /// does, and may sort its whole table for each part.
    const COUNTS_IN_PARTS: bool = !Self::IS_SHARED;
    /// Statements that begin a transaction.
    const BEGIN: &'static [&'static str];
    /// Statements before those of a transaction that stays open between two packets, and after its end.
    const HOLD: [&'static [&'static str]; 2] = [&[], &[]];
    /// Expression for the Unix time by the database's clock, in ms.
    const NOW: &'static str;
    /// Expression for the instance of the database. A promoted replica is another instance.
    const INSTANCE: &'static str = "''";
    /// Clause after a SELECT that locks its rows.
    const FOR_UPDATE: &'static str = " FOR UPDATE";
    /// Clause after a SELECT that keeps others from changing its rows.
    const FOR_SHARE: &'static str = " FOR SHARE";
    /// Clause after the name of a table that is read by its primary key. Without the index the statement would wait for
    /// locks of other rows.
    const BY_KEY: &'static str = "";
    /// Clause after the name `getid_number` where rows in one state are read. Without the index the statement would
    /// read all numbers of the generator, of which most are committed.
    const BY_STATE: &'static str = "";
    /// Clause after a SELECT that reads what is committed now, inside a transaction that has read before.
    const CURRENT: &'static str = "";
    /// Clause after an INSERT of a row of `getid_sequence` that does nothing if the row exists.
    const OR_NOTHING: &'static str = " ON CONFLICT DO NOTHING";
    /// Query for a row if the table `tiny_id_token` exists, where a missing table is no failure of its own kind.
    const HAS_TOKENS: Option<&'static str> = None;

    /// Returns any text as a literal.
    fn text(text: &str) -> String;

    /// Returns what follows FROM in a query for the rows of `getid_sequence` with these keys. Each row is found by the
    /// primary key.
    fn rows_of<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
        format!("getid_sequence WHERE (name, series, period) IN (VALUES {})", key_list(keys))
    }

    /// Returns queries that together return those of these names, of which there is one at least, that have numbers in
    /// a ledger.
    fn names_with_numbers_sql(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| format!("('{name}')")).collect();
        vec![format!(
            "SELECT asked.name FROM (SELECT '' AS name WHERE FALSE UNION ALL VALUES {}) AS asked \
             WHERE EXISTS (SELECT 1 FROM getid_number WHERE getid_number.name = asked.name)",
            names.join(", ")
        )]
    }

    /// Returns the comparison of a column of names with any text.
    fn compared(column: &str, operator: &str, with: &str) -> String {
        format!("{column} {operator} {}", Self::text(with))
    }

    /// Returns the expression for a column of a table of another program as text, without padding.
    fn column_text(column: &str) -> String {
        column.to_owned()
    }

    /// Returns the condition that a row of a sequence follows this key.
    fn is_after([name, series, period]: [&str; 3]) -> String {
        let [name, series, period] = [name, series, period].map(Self::text);
        format!("(name, series, period) > ({name}, {series}, {period})")
    }

    /// Returns the condition that a row follows another one in the order of these columns. Each has a literal.
    fn is_behind(of: &[(&str, &str)]) -> String {
        let (columns, literals): (Vec<&str>, Vec<&str>) = of.iter().copied().unzip();
        format!("({}) > ({})", columns.join(", "), literals.join(", "))
    }

    /// Returns the clause after an INSERT that overwrites these columns of a row with the same `key`.
    fn or_overwrite(key: &str, columns: &[&str]) -> String {
        let columns: Vec<String> = columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        format!(" ON CONFLICT ({key}) DO UPDATE SET {}", columns.join(", "))
    }

    /// Returns the statement that deletes some rows of `getid_sequence`, at most `limit`.
    fn delete_sql(condition: &str, limit: u64) -> String {
        format!(
            "DELETE FROM getid_sequence WHERE (name, series, period) IN (SELECT name, series, period FROM getid_sequence \
             WHERE {condition} LIMIT {limit})"
        )
    }

    /// Returns the query of [`Connection::maximum`](super::Connection::maximum); `None` if there are no such tables.
    fn maximum_sql(table: &str, id: i64) -> Option<String>;

    /// Whether one UPDATE can change the rows of a list, each in its own way, and return their keys.
    const UPDATES_BY_LIST: bool = false;

    /// Functions for the largest and the smallest of some numbers.
    const GREATEST_LEAST: [&'static str; 2] = ["MAX", "MIN"];

    /// Operator that divides integers.
    const DIV: &'static str = "/";
}

/// Returns keys as rows of a list. Without keys it has one that no row has.
pub(super) fn key_list<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
    let keys = keys.map(|key| format!("('{}', '{}', '{}')", key.name(), key.series(), key.period()));
    let keys: Vec<String> = keys.collect();
    if keys.is_empty() { "('', '', '')".to_owned() } else { keys.join(", ") }
}

/// The dialect of records.
pub(super) trait RecordDialect: Dialect {
    /// Expression for the time of a write.
    const WRITTEN_AT: &'static str;
    /// Query whether the database takes no writes: a row with a column that is not `0`, `OFF` or `f`.
    const IS_READ_ONLY: Option<&'static str> = None;
    /// Clause after an INSERT that does nothing if the record exists.
    const IF_ABSENT: &'static str = " ON CONFLICT (record_key) DO NOTHING";

    /// Returns a key or a writer as a literal, which may be any text.
    fn key_text(text: &str) -> String {
        Self::text(text)
    }
}

/// An open connection to a database, which runs packets.
pub(super) trait Link: Dialect + Sized {
    /// Returns what was found when the connection was opened.
    fn info(&self) -> &StoreInfo;

    /// Returns true if the connection is known to be unusable.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns the state of the connection.
    fn state(&mut self) -> &mut LinkState;

    /// Runs statements in their order, and stops at the first error. Returns the result of each.
    fn send(&mut self, packet: SentPacket) -> impl Future<Output = Result<Vec<StatementResult>, Failure>> + Send;

    /// Runs a packet. Returns the result of each of its statements; after a refusal the transaction is rolled back.
    fn run(&mut self, packet: Packet) -> impl Future<Output = Result<Vec<StatementResult>, Failure>> + Send {
        async move {
            self.begin(if packet.continues { LinkState::Open } else { LinkState::Free })?;
            let Packet { statements, begins, continues, leaves_open, creates } = packet;
            let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
            let mut sent = Vec::new();
            if begins && leaves_open {
                sent.extend(texts(Self::HOLD[0]));
            }
            if begins {
                sent.extend(texts(Self::BEGIN));
            }
            let (skipped, taken) = (sent.len(), statements.len());
            sent.extend(statements);
            let commit = (begins || continues) && !leaves_open;
            let commit = commit.then_some(sent.len());
            if commit.is_some() {
                sent.push("COMMIT".to_owned());
            }
            if commit.is_some() && continues {
                sent.extend(texts(Self::HOLD[1]));
            }
            match self.send(SentPacket { statements: sent, commit, creates }).await {
                Ok(done) => {
                    *self.state() = if leaves_open { LinkState::Open } else { LinkState::Free };
                    Ok(done.into_iter().skip(skipped).take(taken).collect())
                }
                Err(failure) => {
                    if !matches!(failure.error, StoreError::Unknown(_)) {
                        if begins || continues {
                            self.send_rollback().await?;
                        }
                        *self.state() = LinkState::Free;
                    }
                    Err(failure)
                }
            }
        }
    }

    /// Ends a transaction that an earlier packet has left open.
    fn rollback(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move {
            self.begin(LinkState::Open)?;
            self.send_rollback().await?;
            *self.state() = LinkState::Free;
            Ok(())
        }
    }

    /// Sends a ROLLBACK. Its failure is unknown, so that the connection is dropped.
    fn send_rollback(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move {
            let statements = ["ROLLBACK"].iter().chain(Self::HOLD[1]).map(|&text| text.to_owned()).collect();
            let done = self.send(SentPacket { statements, commit: Some(0), creates: false }).await;
            done.map(drop).map_err(|failure| StoreError::Unknown(failure.error.to_string()))
        }
    }

    /// Marks the connection as busy before a packet.
    fn begin(&mut self, from: LinkState) -> Result<(), StoreError> {
        if *self.state() != from {
            return Err(StoreError::Unknown(
                "the connection cannot be used any more: it has no answer to its last statement".to_owned(),
            ));
        }
        *self.state() = LinkState::Busy;
        Ok(())
    }

    /// Returns the largest packet that the database takes, in bytes.
    fn packet_bytes_max(&self) -> usize {
        usize::MAX
    }

    /// Returns the error if the database takes no writes any more: reads from it may be outdated.
    fn read_only_error(&self) -> StoreError {
        StoreError::Unknown("it accepts no writes any more: name the primary".to_owned())
    }

    /// Does [`Connection::backup`](super::Connection::backup).
    fn backup(&mut self, _to: &Path) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Err(super::no_backup()) }
    }
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        use fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that records its statements, and fails at some of them.
    #[derive(Default)]
    struct RecordingLink {
        info: StoreInfo,
        state: LinkState,
        sent: Vec<String>,
    }

    impl Dialect for RecordingLink {
        const IS_SHARED: bool = true;
        const BEGIN: &'static [&'static str] = &["BEGIN"];
        const HOLD: [&'static [&'static str]; 2] = [&["HOLD"], &["RELEASE"]];
        const NOW: &'static str = "0";

        fn text(text: &str) -> String {
            text.to_owned()
        }

        fn maximum_sql(_table: &str, _id: i64) -> Option<String> {
            None
        }
    }

    impl Link for RecordingLink {
        fn info(&self) -> &StoreInfo {
            &self.info
        }

        fn state(&mut self) -> &mut LinkState {
            &mut self.state
        }

        async fn send(&mut self, packet: SentPacket) -> Result<Vec<StatementResult>, Failure> {
            self.sent.push(packet.statements.join(" "));
            if packet.statements.iter().any(|sql| sql == "refused") {
                return Err(StoreError::Refused("no".to_owned()).into());
            }
            if packet.statements.iter().any(|sql| sql == "unknown") {
                return Err(StoreError::Unknown("cut".to_owned()).into());
            }
            let affected = |sql: &String| StatementResult { affected: sql.len() as u64, rows: Vec::new() };
            Ok(packet.statements.iter().map(affected).collect())
        }
    }

    fn with(mut packet: Packet, statement: &str) -> Packet {
        packet.add(statement);
        packet
    }

    #[tokio::test]
    async fn a_packet_is_sent_with_its_transaction_and_answers_its_own_statements() {
        let mut link = RecordingLink::default();
        for packet in [Packet::new(), Packet::transaction(), Packet::locking(), Packet::within(), Packet::commit()] {
            let done = link.run(with(packet, "four")).await.unwrap();
            assert_eq!(done.iter().map(|done| done.affected).collect::<Vec<_>>(), [4]);
        }
        link.run(with(Packet::locking(), "four")).await.unwrap();
        link.rollback().await.unwrap();
        assert_eq!(
            link.sent,
            [
                "four",
                "BEGIN four COMMIT",
                "HOLD BEGIN four",
                "four",
                "four COMMIT RELEASE",
                "HOLD BEGIN four",
                "ROLLBACK RELEASE"
            ]
        );
    }

    #[tokio::test]
    async fn a_refusal_ends_the_transaction_and_an_unknown_result_the_connection() {
        let mut link = RecordingLink::default();
        link.run(with(Packet::locking(), "refused")).await.unwrap_err();
        link.run(with(Packet::new(), "refused")).await.unwrap_err();
        link.run(with(Packet::locking(), "four")).await.unwrap();
        link.run(with(Packet::new(), "of another")).await.unwrap_err();
        link.run(with(Packet::commit(), "unknown")).await.unwrap_err();
        let failure = link.run(with(Packet::new(), "four")).await.unwrap_err();
        assert!(matches!(failure.error, StoreError::Unknown(_)), "{failure:?}");
        let sent = ["HOLD BEGIN refused", "ROLLBACK RELEASE", "refused", "HOLD BEGIN four", "unknown COMMIT RELEASE"];
        assert_eq!(link.sent, sent);
    }
}
