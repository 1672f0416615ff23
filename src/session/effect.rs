//! What a command asks the server for: everything that needs a clock, other connections, the configuration or the
//! process.
//!
//! A session cannot see any of these, so `read` ends the turn and hands out an effect; whatever was wrong with the
//! command has been answered before one is made. Each family has its file in `session/commands`, where its effects are
//! made, and one of the same name in `server/effects`, where they are carried out.

use std::fmt;
use std::sync::Arc;

use getid_core::{Id, NamedGenerator};

use super::sequence_effect::{KeysEffect, ScriptEffect, SequenceEffect};
use super::worker_effect::WorkerEffect;
use crate::command::NamedId;
use crate::text::timestamp::Time;

/// What only the server can do for a command; its answer is the command's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// About IDs that exist already, or whether there will be more.
    Ids(IdsEffect),
    /// `CLIENT`.
    Client(ClientEffect),
    /// `CONFIG`.
    Config(ConfigEffect),
    /// What the server tells of itself.
    Introspect(IntrospectEffect),
    /// `ACL`.
    Acl(AclEffect),
    /// What is asked of sequences as keys and hashes.
    Keys(KeysEffect),
    /// `SEQUENCE`.
    Sequence(SequenceEffect),
    /// A script that is known.
    Script(ScriptEffect),
    /// `WORKERID`.
    Worker(WorkerEffect),
    /// `SHUTDOWN ...`: stop, or with [`Shutdown::abort`] answer `+OK` or `ERR No shutdown in progress.`.
    Shutdown(Shutdown),
}

/// Of commands about IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdsEffect {
    /// `DECODEID id`: answer [`crate::command::describe_id`] with the wall clock's time.
    Decode(Id),
    /// `DECODEID id` where there are named generators: answer [`crate::command::describe_any_id`].
    DecodeAny {
        /// If it is an ID of the unnamed one.
        id: Option<Id>,
        /// What it could be, in each of the others that could have given it.
        named: Vec<NamedId>,
    },
    /// `DECODEID id name`: answer [`crate::command::describe_named_id`].
    DecodeNamed(NamedId),
    /// `GENERATORS`: answer what each named generator is, and where.
    Generators,
    /// `IDREADY`: answer `+READY`, or the error that a request for an ID would get.
    Ready {
        /// Whether the client has logged in, where it has to: paths and reasons are for those who have.
        tells_why: bool,
    },
    /// `IDSPAN from to`: answer [`crate::command::describe_span`] of these times; `now` is the wall clock's.
    Span([Time; 2]),
    /// `IDSPAN from to name`: answer [`crate::command::describe_named_span`].
    SpanNamed {
        /// Whose IDs.
        generator: Arc<NamedGenerator>,
        /// From and to.
        times: [Time; 2],
    },
}

/// Of `CLIENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEffect {
    /// `INFO`: answer a verbatim text, this connection's line.
    Info,
    /// `LIST ...`: answer a verbatim text, one line for each connection that the filter admits.
    List(ClientFilter),
    /// `KILL ...`: end the connections meant; answer how many, or of the old form `+OK` or an error. This one's own
    /// ends when that answer is written.
    Kill(Box<ClientKill>),
    /// `PAUSE timeout [mode]`: hold requests of all clients for so many milliseconds; answer `+OK`.
    Pause {
        /// How long.
        timeout_ms: u64,
        /// Which requests.
        holds: Pause,
    },
    /// `UNPAUSE`: answer `+OK`.
    Unpause,
    /// `UNBLOCK id [TIMEOUT|ERROR]`: end that client's wait for IDs; answer 1, or 0 when it does not wait.
    Unblock {
        /// Which client; no connection has a negative one.
        id: i64,
        /// What it is told.
        how: Unblock,
    },
}

/// Of `CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigEffect {
    /// `GET pattern ...`: answer a map of bulk strings.
    Get {
        /// Glob patterns; letter case does not count.
        patterns: Vec<Vec<u8>>,
        /// Whether the values of secrets are shown: who may set them may read them.
        shows_secrets: bool,
    },
    /// `SET name value ...`: change all of these names and values, as sent, or none; answer `+OK` or an error.
    Set(Vec<(Vec<u8>, Vec<u8>)>),
    /// `REWRITE`: write what is in force into the configuration file; answer `+OK` or an error.
    Rewrite,
    /// `RESETSTAT`: set the counters of INFO back to zero; answer `+OK`.
    ResetStat,
}

/// Of commands that the server answers about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntrospectEffect {
    /// `INFO [section ...]`: answer a verbatim text (`txt`). Section names are in lower case; none: the default ones.
    Info(Vec<String>),
    /// `TIME`: answer an array of two bulk strings, Unix seconds and microseconds.
    Time,
    /// `MONITOR`: answer `+OK`; the client is fed from now on, for as long as its view says so. Or an error, and
    /// [`Session::stop_monitoring`](super::Session::stop_monitoring).
    Monitor,
    /// `SLOWLOG GET`: answer an array of so many entries at most, newest first; `None`: all.
    SlowLogGet(Option<usize>),
    /// `SLOWLOG LEN`: answer how many there are.
    SlowLogLen,
    /// `SLOWLOG RESET`: forget all.
    SlowLogReset,
    /// `LATENCY LATEST`: answer an array, for each event its name, the time and the ms of the latest sample, and the
    /// worst ms.
    LatencyLatest,
    /// `LATENCY HISTORY event`: answer an array of pairs, time and ms.
    LatencyHistory(Vec<u8>),
    /// `LATENCY RESET [event ...]`: answer how many were forgotten; without names, all are.
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

/// Of `ACL`.
#[derive(Clone, PartialEq, Eq)]
pub enum AclEffect {
    /// `SETUSER name rule ...`: answer `+OK`, or why not.
    SetUser {
        /// As it was sent.
        name: Vec<u8>,
        /// As they were sent; there may be passwords among them.
        rules: Vec<Vec<u8>>,
    },
    /// `DELUSER name ...`: answer how many there were. Their connections end. The default user is not among them.
    DelUser(Vec<Vec<u8>>),
    /// `LIST`: answer a line for each user.
    List {
        /// Whether digests of passwords are in them.
        shows_secrets: bool,
    },
    /// `USERS`: answer their names.
    Users,
    /// `LOG [count]`: answer the latest entries, so many at most.
    Log(usize),
    /// `LOG RESET`: forget them.
    LogReset,
    /// `GENPASS [bits]`: answer so many random hex digits, 1 to 1024.
    GenPass(usize),
    /// `SAVE`: write the ACL file.
    Save,
    /// `LOAD`: read the ACL file.
    Load,
}

/// Without rules, among which there may be passwords.
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

/// Which connections `CLIENT LIST` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFilter {
    /// All.
    All,
    /// Those of one kind.
    Kind(ClientKind),
    /// Those with these ids, in this order; ids that no connection has are passed over.
    Ids(Vec<u64>),
}

/// Which connections `CLIENT KILL` ends: those that everything set here is true of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientKill {
    /// `CLIENT KILL addr:port`, which answers `+OK` or `ERR No such client`.
    pub is_old_form: bool,
    /// `ID`.
    pub id: Option<u64>,
    /// `TYPE`.
    pub kind: Option<ClientKind>,
    /// `USER`.
    pub user: Option<String>,
    /// `ADDR`: the client's end, as `CLIENT LIST` shows it.
    pub addr: Option<Vec<u8>>,
    /// `LADDR`: the server's end.
    pub laddr: Option<Vec<u8>>,
    /// Whether the connection that asks is left alone (`SKIPME`).
    pub skips_own: bool,
}

/// Which requests `CLIENT PAUSE` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pause {
    /// `WRITE`: those that give IDs.
    Write,
    /// `ALL`: every one, but those by which a pause, a login or the server is ended.
    All,
}

/// What a client is told whose wait for IDs `CLIENT UNBLOCK` ends. `Display` is the text of the error reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unblock {
    /// `TIMEOUT`, the default: as if it had waited long enough.
    #[error("BUSY the wait for ids was ended by CLIENT UNBLOCK")]
    Timeout,
    /// `ERROR`: Redis's text.
    #[error("UNBLOCKED client unblocked via CLIENT UNBLOCK")]
    Error,
}

/// Kinds of connections as Redis names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A client that sends commands: every one that listens to no channels.
    Normal,
    /// A primary we replicate from: none here.
    Master,
    /// A replica: none here.
    Replica,
    /// One that listens to channels.
    PubSub,
}

/// The options of `SHUTDOWN`. `SAVE` is accepted and means nothing: the state is always saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// `NOW`: don't wait for replies in flight.
    pub now: bool,
    /// `NOSAVE`: stop even if the state can't be saved, as with `FORCE`. It is saved if it can be.
    pub nosave: bool,
    /// `FORCE`: stop even if the state can't be saved.
    pub force: bool,
    /// `ABORT`: take a shutdown that is under way back.
    pub abort: bool,
}
