//! What a command asks the shell for: everything that needs a clock, other connections, the configuration or the process.
//!
//! A session cannot see any of these, so `read` ends the turn and carries the parsed wish; whatever was wrong with the
//! command has been answered before one of these is made.

use crate::id::Id;

/// A wish of a command that only the shell can fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `INFO [section ...]`: answer a verbatim text (`txt`).
    Info {
        /// Section names, lower case; empty for the default ones.
        sections: Vec<String>,
    },
    /// `TIME`: answer an array of two bulk strings, Unix seconds and microseconds.
    Time,
    /// `DECODEID id`: answer [`crate::command::describe_id`] with the wall clock's time.
    DecodeId(Id),
    /// `CLIENT INFO`: answer a verbatim text, this connection's line.
    ClientInfo,
    /// `CLIENT LIST ...`: answer a verbatim text, one line for each connection that the filter admits.
    ClientList(ClientFilter),
    /// `CLIENT KILL ...`: end the connections meant; answer how many, or of the old form `+OK` or an error. This one's own
    /// ends when that answer is written.
    ClientKill(Box<ClientKill>),
    /// `CONFIG GET pattern ...`: answer a map of bulk strings.
    ConfigGet {
        /// Glob patterns; [`crate::command::glob_matches`] compares them without letter case.
        patterns: Vec<Vec<u8>>,
    },
    /// `SHUTDOWN ...`: stop, or with [`Shutdown::abort`] answer `+OK` or `ERR No shutdown in progress.`.
    Shutdown(Shutdown),
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

/// Kinds of connections as Redis names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A client that sends commands: every connection here.
    Normal,
    /// A primary we replicate from: none here.
    Master,
    /// A replica: none here.
    Replica,
    /// A subscriber: none here.
    PubSub,
}

/// The options of `SHUTDOWN`. `SAVE` and `NOSAVE` are accepted and mean nothing: the state is always saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// `NOW`: don't wait for replies in flight.
    pub now: bool,
    /// `FORCE`: stop even if the state can't be saved.
    pub force: bool,
    /// `ABORT`: take a shutdown that is under way back.
    pub abort: bool,
}
