//! Effects: what a command needs from the server, because it requires a clock, other connections, the configuration or
//! the process.
//!
//! A session has no access to these, so `read` ends the turn and returns an effect. Every error of a command is
//! answered before its effect is made. Each family has a file in `session/commands`, where its effects are made, and
//! one of the same name in `server/effects`, where they are carried out.

use std::fmt;
use std::sync::Arc;

use getid_core::NamedGenerator;

use super::number_effect::NumberEffect;
use super::request_effect::RequestEffect;
use super::sequence_effect::{KeysEffect, ScriptEffect, SequenceEffect};
use super::worker_effect::WorkerEffect;
use crate::command::{ClusterQuery, IdEncoding, IdReadings, NamedId};
use crate::resp::{ErrorKind, ErrorReply, parse_integer};
use getid_text::timestamp::TimeSpec;

/// An action of the server for a command; its answer is the command's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Commands about existing IDs, or about readiness for more.
    Ids(IdsEffect),
    /// The command `CLIENT`.
    Client(ClientEffect),
    /// The command `CONFIG`.
    Config(ConfigEffect),
    /// The command `CLUSTER`.
    Cluster(ClusterQuery),
    /// Information about the server.
    Introspect(IntrospectEffect),
    /// The command `SENTINEL`.
    Sentinel(SentinelEffect),
    /// The command `ACL`.
    Acl(AclEffect),
    /// Commands about sequences as keys and hashes.
    Keys(KeysEffect),
    /// The command `SEQUENCE`.
    Sequence(SequenceEffect),
    /// A command with a request key.
    Request(Box<RequestEffect>),
    /// The command `NUMBER`.
    Number(NumberEffect),
    /// A known script.
    Script(ScriptEffect),
    /// The command `WORKERID`.
    Worker(WorkerEffect),
    /// `SHUTDOWN ...`: stop, or with [`Shutdown::abort`] answer `+OK` or `ERR No shutdown in progress.`.
    Shutdown(Shutdown),
}

/// Effects of commands about IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdsEffect {
    /// `DECODEID id`: answer [`crate::command::describe_any_id`] with the wall clock's time.
    Decode(IdReadings),
    /// `DECODEID id name`: answer [`crate::command::describe_named_id`].
    DecodeNamed(NamedId),
    /// `ENCODEID`: answer [`IdEncoding::reply`] with the wall clock's time. If the ID must be
    /// [unique](IdEncoding::is_unique), with the time since when its generator gives IDs, too.
    Encode(Box<IdEncoding>),
    /// `GENERATORS`: answer declaration and state of each named generator.
    Generators,
    /// `IDREADY`: answer `+READY`, or the error that a request for an ID would get.
    Ready {
        /// Whether the client has logged in, or needs no login. Only then the answer has paths and reasons.
        shows_reasons: bool,
    },
    /// `IDSPAN from to`: answer [`crate::command::describe_span`] of these times; `now` is the wall clock's.
    Span([TimeSpec; 2]),
    /// `IDSPAN from to name`: answer [`crate::command::describe_named_span`].
    SpanNamed {
        /// Generator of the IDs.
        generator: Arc<NamedGenerator>,
        /// Start and end of the span.
        times: [TimeSpec; 2],
    },
}

/// Effects of `CLIENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEffect {
    /// `INFO`: answer a verbatim text, this connection's line.
    Info,
    /// `LIST ...`: answer a verbatim text, one line for each connection that the filter admits.
    List(ClientFilter),
    /// `KILL ...`: end the matching connections; answer their number, or in the old form `+OK` or an error. The
    /// client's own connection ends after this answer is written.
    Kill(Box<ClientKill>),
    /// `PAUSE timeout [mode]`: hold requests of all clients for this time; answer `+OK`.
    Pause {
        /// Duration of the pause, ms.
        timeout_ms: u64,
        /// Requests to hold.
        holds: Pause,
    },
    /// `UNPAUSE`: answer `+OK`.
    Unpause,
    /// `UNBLOCK id [TIMEOUT|ERROR]`: end that client's wait for IDs; answer 1, or 0 if it does not wait.
    Unblock {
        /// Number of the client's connection. No connection has a negative number.
        id: i64,
        /// Error for the client.
        how: Unblock,
    },
}

/// Effects of `CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigEffect {
    /// `GET pattern ...`: answer a map of bulk strings.
    Get {
        /// Glob patterns, in any letter case.
        patterns: Vec<Vec<u8>>,
        /// Whether the values of secrets are shown. A user who may set them may read them.
        shows_secrets: bool,
    },
    /// `SET name value ...`: change all of these names and values, as sent, or none; answer `+OK` or an error.
    Set(Vec<(Vec<u8>, Vec<u8>)>),
    /// `REWRITE`: write the current configuration into the configuration file; answer `+OK` or an error.
    Rewrite,
    /// `RESETSTAT`: set the counters of INFO back to zero; answer `+OK`.
    ResetStat,
}

/// Effects of commands that return information about the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntrospectEffect {
    /// `INFO [section ...]`: answer a verbatim text (`txt`). Section names are in lower case; none: the default ones.
    Info(Vec<String>),
    /// `TIME`: answer an array of two bulk strings, Unix seconds and microseconds.
    Time,
    /// `MONITOR`: answer `+OK`; the client is then fed for as long as its view has `monitors` set. Or answer an error,
    /// and call [`Session::stop_monitoring`](super::Session::stop_monitoring).
    Monitor,
    /// `SLOWLOG GET`: answer an array of at most this many entries, newest first; `None`: all.
    SlowLogGet(Option<usize>),
    /// `SLOWLOG LEN`: answer the number of entries.
    SlowLogLen,
    /// `SLOWLOG RESET`: remove all entries.
    SlowLogReset,
    /// `LATENCY LATEST`: answer an array, for each event its name, the time and the ms of the latest sample, and the
    /// worst ms.
    LatencyLatest,
    /// `LATENCY HISTORY event`: answer an array of pairs, time and ms.
    LatencyHistory(Vec<u8>),
    /// `LATENCY RESET [event ...]`: answer the number of removed events; without names, all are removed.
    LatencyReset(Vec<Vec<u8>>),
    /// `LATENCY DOCTOR`: answer a text.
    LatencyDoctor,
    /// `LATENCY GRAPH event`: answer a text.
    LatencyGraph(Vec<u8>),
    /// `LATENCY HISTOGRAM [command ...]`: answer a map from commands to histograms.
    LatencyHistogram(Vec<Vec<u8>>),
    /// `MEMORY DOCTOR`: answer a text.
    MemoryDoctor,
    /// `MEMORY STATS`: answer a map.
    MemoryStats,
}

/// Effects of `SENTINEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentinelEffect {
    /// `GET-MASTER-ADDR-BY-NAME name`: answer host and port, or the null array.
    Address(MasterName),
    /// `MASTERS`: answer the state of each master, once for each of its names.
    Masters,
    /// `MASTER name`: answer the state of the master, or an error.
    Master(MasterName),
    /// `REPLICAS name`: answer an empty array, or an error if there is no such master.
    Replicas(MasterName),
    /// `SENTINELS name`: answer the state of each other server that answers `SENTINEL` for the name.
    Sentinels(MasterName),
    /// `CKQUORUM name`: answer whether a standby can take over.
    CheckQuorum(MasterName),
    /// `MYID`: answer the id of this process.
    MyId,
}

/// Name of a master in `SENTINEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MasterName {
    /// `getid`: the master of the server-id of the server that is asked.
    Own,
    /// `getid-N`: the master of server-id N.
    Of(u32),
}

impl MasterName {
    /// Parses a name. Returns `None` if no master can have it.
    pub fn parse(name: &[u8]) -> Option<MasterName> {
        let rest = name.strip_prefix(b"getid")?;
        if rest.is_empty() {
            return Some(MasterName::Own);
        }
        let digits = rest.strip_prefix(b"-")?;
        let server_id = parse_integer(digits).and_then(|number| u32::try_from(number).ok())?;
        Some(MasterName::Of(server_id))
    }
}

impl fmt::Display for MasterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MasterName::Own => f.write_str("getid"),
            MasterName::Of(server_id) => write!(f, "getid-{server_id}"),
        }
    }
}

/// Effects of `ACL`.
#[derive(Clone, PartialEq, Eq)]
pub enum AclEffect {
    /// `SETUSER name rule ...`: answer `+OK` or an error.
    SetUser {
        /// Name as it was sent.
        name: Vec<u8>,
        /// Rules as they were sent, which may contain passwords.
        rules: Vec<Vec<u8>>,
    },
    /// `DELUSER name ...`: answer the number of deleted users. Their connections end. The default user is never among
    /// them.
    DelUser(Vec<Vec<u8>>),
    /// `LIST`: answer a line for each user.
    List {
        /// Whether the lines contain digests of passwords.
        shows_secrets: bool,
    },
    /// `USERS`: answer their names.
    Users,
    /// `LOG [count]`: answer at most this many of the latest entries.
    Log(usize),
    /// `LOG RESET`: remove all entries.
    LogReset,
    /// `GENPASS [bits]`: answer this many random hex digits, 1 to 1024.
    GenPass(usize),
    /// `SAVE`: write the ACL file.
    Save,
    /// `LOAD`: read the ACL file.
    Load,
}

/// Omits rules, which may contain passwords.
impl fmt::Debug for AclEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AclEffect::SetUser { name, .. } => write!(f, "SetUser({})", name.escape_ascii()),
            AclEffect::DelUser(names) => write!(f, "DelUser({} names)", names.len()),
            AclEffect::List { .. } => f.write_str("List"),
            AclEffect::Users => f.write_str("Users"),
            AclEffect::Log(count) => write!(f, "Log({count})"),
            AclEffect::LogReset => f.write_str("LogReset"),
            AclEffect::GenPass(digits) => write!(f, "GenPass({digits})"),
            AclEffect::Save => f.write_str("Save"),
            AclEffect::Load => f.write_str("Load"),
        }
    }
}

/// Connections that `CLIENT LIST` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFilter {
    /// All connections.
    All,
    /// Connections of one kind.
    Kind(ClientKind),
    /// Connections with these ids, in this order. Ids without a connection are skipped.
    Ids(Vec<u64>),
}

/// Connections that `CLIENT KILL` ends: those that match every filter set here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientKill {
    /// `CLIENT KILL addr:port`, which answers `+OK` or `ERR No such client`.
    pub is_old_form: bool,
    /// Filter `ID`.
    pub id: Option<u64>,
    /// Filter `TYPE`.
    pub kind: Option<ClientKind>,
    /// Filter `USER`.
    pub user: Option<String>,
    /// Filter `ADDR`: the client's address, as in `CLIENT LIST`.
    pub addr: Option<Vec<u8>>,
    /// Filter `LADDR`: the server's address.
    pub laddr: Option<Vec<u8>>,
    /// Whether the requesting connection is spared (`SKIPME`).
    pub skips_own: bool,
}

/// Requests that `CLIENT PAUSE` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pause {
    /// `WRITE`: requests for IDs.
    Write,
    /// `ALL`: every request, except those that end a pause or the server, or log in.
    All,
}

/// Error of a client whose wait for IDs `CLIENT UNBLOCK` ends. `Display` is the text of the error reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unblock {
    /// `TIMEOUT`, the default: as if its maximum wait were over.
    #[error("BUSY the wait for ids was ended by CLIENT UNBLOCK")]
    Timeout,
    /// `ERROR`: Redis's text.
    #[error("UNBLOCKED client unblocked via CLIENT UNBLOCK")]
    Error,
}

impl From<Unblock> for ErrorReply {
    fn from(how: Unblock) -> ErrorReply {
        ErrorReply::new(ErrorKind::Unavailable, how.to_string())
    }
}

/// Kinds of connections, by Redis's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A client that sends commands and has no subscriptions.
    Normal,
    /// A primary that this server replicates from: none here.
    Master,
    /// A replica: none here.
    Replica,
    /// A client with subscriptions.
    PubSub,
}

/// The options of `SHUTDOWN`. `SAVE` is accepted without effect: the state is always saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// `NOW`: don't wait for replies in flight.
    pub now: bool,
    /// `NOSAVE`: stop even if the state can't be saved, as with `FORCE`. It is saved if it can be.
    pub nosave: bool,
    /// `FORCE`: stop even if the state can't be saved.
    pub force: bool,
    /// `ABORT`: cancel a shutdown in progress.
    pub abort: bool,
}

#[cfg(test)]
mod tests {
    use super::MasterName;

    #[test]
    fn a_name_of_a_master_has_one_form() {
        for name in ["getid", "getid-0", "getid-3", "getid-4294967295"] {
            assert_eq!(MasterName::parse(name.as_bytes()).map(|name| name.to_string()).as_deref(), Some(name));
        }
        for name in
            ["", "getid-", "getid-03", "getid-+3", "getid--3", "getid-4294967296", "getid 3", "Getid", "getid-x"]
        {
            assert_eq!(MasterName::parse(name.as_bytes()), None, "{name}");
        }
        assert_eq!(MasterName::parse(b"getid-\xff\0"), None);
    }
}
