//! The command table: the names, arguments, rights and documentation of each command.
//!
//! Clients learn about commands from `COMMAND` and its subcommands, redis-cli's hints, error texts, and ACL rules. All
//! of them are derived from one row per command, so they cannot disagree. The code of a command is not here: a row
//! carries a [`Verb`], which the session executes.
//!
//! The module is pure, and no part of it changes while a server runs. Invariant: every [`Verb`] has exactly one row
//! (tested).

mod cluster;
mod describe;
mod encode;
mod ids;
mod key_slot;
mod keys;
mod named_ids;
mod request_key;
mod table;

use std::collections::HashSet;

pub use cluster::{ClusterMaster, ClusterQuery, ClusterView, node_id};
pub use describe::{command_docs, command_get_keys, command_help, command_info, command_list};
pub use encode::{EncodedGenerator, IdEncoding};
pub use ids::{IdArgumentError, SpanError, describe_span, parse_id, parse_span, parse_time, quoted};
pub use key_slot::{SLOTS, key_slot};
pub use keys::{Channels, KEY_BYTES_MAX, KeyAccess, KeyArg, KeyRange, KeySpec};
pub(crate) use keys::{SERIES_WORD, is_series_word, series_name, series_of, split_series};
pub(crate) use named_ids::no_code;
pub use named_ids::{
    IdReadings, KIND_READERS, NamedId, check_named_span, describe_any_id, describe_named_id, describe_named_span,
    parse_counter_id, parse_named_id, too_wide,
};
pub use request_key::{RequestKey, parse_request};
pub use table::{NAMING, TABLE};

use crate::resp::{Args, ErrorKind, ErrorReply};
use getid_core::server::request_key::UNNAMED;

/// The Redis version in `HELLO` and `INFO`, by which some clients choose their commands.
///
/// 7.2 is the first with `CLIENT SETINFO` and `CLIENT NO-TOUCH`, which exist here; later commands do not.
pub const REDIS_VERSION: &str = "7.2.5";

/// One row of the table: a command, a container of subcommands, or a subcommand.
#[derive(Debug)]
pub struct Command {
    /// The function of the command.
    pub verb: Verb,
    /// Name in lower case; for a subcommand without its container.
    pub name: &'static str,
    /// Name in lower case; for a subcommand `container|name`.
    pub full_name: &'static str,
    /// Number of arguments, names included; a negative one is a minimum.
    pub arity: i32,
    /// Conditions and effects of the command.
    pub flags: CommandFlags,
    /// ACL categories of the command, including those that follow from its flags.
    pub categories: Categories,
    /// The first version of Redis, or of getid, with the command.
    pub since: &'static str,
    /// Heading of the command in redis-cli's help.
    pub group: &'static str,
    /// One sentence, without a full stop, as Redis writes them.
    pub summary: &'static str,
    /// Complexity of the command; empty if it is not documented.
    pub(crate) complexity: &'static str,
    /// Arguments of the command, for hints.
    pub arguments: &'static [Argument],
    /// Names of generators and sequences among the arguments, and their use: keys in Redis's sense.
    pub keys: &'static [KeySpec],
    /// Channels among the arguments, if their use needs a right.
    pub channels: Channels,
    /// Subcommands of a container.
    pub subcommands: &'static [Command],
    /// Lines in the container's `HELP`: the usage, then its indented explanation.
    pub help: &'static [&'static str],
    /// Whether the command changes the server, affects other clients, or seals or opens IDs, so that other machines
    /// need a login for it (`protected-mode`). Commands that libraries and exporters send on their own are not guarded:
    /// INFO, CONFIG GET (without secrets), ROLE, CLIENT SETINFO.
    pub(crate) is_guarded: bool,
    /// Whether the command runs during `CLIENT PAUSE ALL`, as commands with [`CommandFlags::NO_AUTH`] do.
    pub(crate) is_unpaused: bool,
    /// Whether the command runs at once between `MULTI` and `EXEC`, where others are queued.
    pub(crate) runs_at_once: bool,
    /// Whether the reply repeats an argument, whatever its size.
    pub(crate) sends_back: bool,
    /// Whether only the holder of the claim serves the command, and not a standby.
    pub needs_claim: bool,
    /// Arguments that are hidden from monitors and the slow log.
    pub secrets: Secrets,
}

/// Which arguments of a command are secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// No argument is secret.
    None,
    /// All arguments from this index on.
    From(usize),
    /// Values of secret directives among the pairs of `CONFIG SET`.
    Directives,
    /// The two arguments after `AUTH`, in `HELLO`.
    Login,
    /// The secret arguments of the command that `ACL DRYRUN` tries.
    Tried,
}

/// Returns every row, each container before its subcommands.
pub fn rows() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands))
}

/// An argument of a command, as `COMMAND DOCS` describes it.
#[derive(Debug)]
pub struct Argument {
    /// Name of the argument in hints.
    pub name: &'static str,
    /// One of `string`, `integer`, `key`, `pattern`, `pure-token`, `oneof` and `block`.
    pub kind: &'static str,
    /// The word before the argument, or the argument itself for a `pure-token`.
    pub token: Option<&'static str>,
    /// Whether the argument may be left out.
    pub optional: bool,
    /// Whether the argument may be repeated.
    pub multiple: bool,
    /// The parts of a `oneof` or a `block`.
    pub parts: &'static [Argument],
}

/// The function of a command. The session has one match arm for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each has the name of its command, and the table documents it")]
pub enum Verb {
    GetId,
    MGetId,
    Incr,
    IncrBy,
    HIncrBy,
    DecodeId,
    EncodeId,
    SealId,
    OpenId,
    Generators,
    IdReady,
    IdSpan,
    Acl,
    AclCat,
    AclDelUser,
    AclDryRun,
    AclGenPass,
    AclGetUser,
    AclHelp,
    AclList,
    AclLoad,
    AclLog,
    AclSave,
    AclSetUser,
    AclUsers,
    AclWhoAmI,
    Append,
    Asking,
    Auth,
    Client,
    ClientCaching,
    ClientGetName,
    ClientGetRedir,
    ClientHelp,
    ClientId,
    ClientInfo,
    ClientKill,
    ClientList,
    ClientNoEvict,
    ClientNoTouch,
    ClientPause,
    ClientReply,
    ClientSetInfo,
    ClientSetName,
    ClientTracking,
    ClientTrackingInfo,
    ClientUnblock,
    ClientUnpause,
    Cluster,
    ClusterCountKeysInSlot,
    ClusterGetKeysInSlot,
    ClusterHelp,
    ClusterInfo,
    ClusterKeySlot,
    ClusterLinks,
    ClusterMyId,
    ClusterNodes,
    ClusterReplicas,
    ClusterShards,
    ClusterSlaves,
    ClusterSlots,
    Command,
    CommandCount,
    CommandDocs,
    CommandGetKeys,
    CommandGetKeysAndFlags,
    CommandHelp,
    CommandInfo,
    CommandList,
    Config,
    ConfigGet,
    ConfigHelp,
    ConfigResetStat,
    ConfigRewrite,
    ConfigSet,
    DbSize,
    Decr,
    DecrBy,
    Del,
    Discard,
    Echo,
    Eval,
    EvalSha,
    Exec,
    Exists,
    Expire,
    ExpireAt,
    ExpireTime,
    FCall,
    Function,
    FunctionHelp,
    FunctionLoad,
    Get,
    GetDel,
    GetEx,
    GetSet,
    Hello,
    HExists,
    HGet,
    HGetAll,
    HKeys,
    HLen,
    HMGet,
    HSet,
    HVals,
    IncrByFloat,
    Info,
    Keys,
    Latency,
    LatencyDoctor,
    LatencyGraph,
    LatencyHelp,
    LatencyHistogram,
    LatencyHistory,
    LatencyLatest,
    LatencyReset,
    LolWut,
    Memory,
    MemoryDoctor,
    MemoryHelp,
    MemoryMallocStats,
    MemoryPurge,
    MemoryStats,
    MemoryUsage,
    LPop,
    LPush,
    LRange,
    MGet,
    Monitor,
    MSet,
    MSetNx,
    Multi,
    Number,
    NumberCommit,
    NumberHelp,
    NumberLedger,
    NumberRelease,
    NumberReserve,
    NumberSettle,
    NumberVoid,
    Object,
    ObjectEncoding,
    ObjectFreq,
    ObjectHelp,
    ObjectIdleTime,
    ObjectRefCount,
    Persist,
    PExpire,
    PExpireAt,
    PExpireTime,
    Ping,
    PSetEx,
    PSubscribe,
    PTtl,
    Publish,
    PUnsubscribe,
    Quit,
    RandomKey,
    ReadOnly,
    ReadWrite,
    Rename,
    RenameNx,
    Reset,
    Role,
    RPop,
    RPush,
    SAdd,
    Scan,
    Script,
    ScriptExists,
    ScriptFlush,
    ScriptHelp,
    ScriptKill,
    ScriptLoad,
    Select,
    Series,
    SeriesCreate,
    SeriesHelp,
    SeriesList,
    Sentinel,
    SentinelCkQuorum,
    SentinelGetMasterAddrByName,
    SentinelHelp,
    SentinelMaster,
    SentinelMasters,
    SentinelMyId,
    SentinelReplicas,
    SentinelSentinels,
    SentinelSlaves,
    Sequence,
    SequenceAdopt,
    SequenceAlter,
    SequenceBackup,
    SequenceConfirm,
    SequenceDeclare,
    SequenceCreate,
    SequenceDrop,
    SequenceHelp,
    SequenceInfo,
    SequenceList,
    SequenceNext,
    SequenceRaise,
    SequenceStores,
    Set,
    SetEx,
    SetNx,
    SetRange,
    Shutdown,
    SlowLog,
    SlowLogGet,
    SlowLogHelp,
    SlowLogLen,
    SlowLogReset,
    SPop,
    StrLen,
    Subscribe,
    Time,
    Touch,
    Ttl,
    Type,
    Unlink,
    Unsubscribe,
    Unwatch,
    Watch,
    WorkerId,
    WorkerIdHelp,
    WorkerIdInfo,
    WorkerIdInit,
    WorkerIdLease,
    WorkerIdList,
    WorkerIdRelease,
    WorkerIdRenew,
    WorkerIdRevoke,
    XAdd,
    ZAdd,
    ZPopMin,
}

impl Verb {
    /// Number of verbs; `verb as usize` is below it.
    pub const COUNT: usize = Verb::ZPopMin as usize + 1;

    /// Verbs whose replies are IDs, or values of sequences.
    pub const DRAWING_IDS: [Verb; 5] = [Verb::GetId, Verb::MGetId, Verb::Incr, Verb::IncrBy, Verb::HIncrBy];

    /// Whether the reply is IDs, or a value of a sequence.
    #[inline]
    pub const fn draws_ids(self) -> bool {
        matches!(self, Verb::GetId | Verb::MGetId | Verb::Incr | Verb::IncrBy | Verb::HIncrBy)
    }
}

impl Command {
    /// Whether `CLIENT PAUSE WRITE` holds the command: it gives IDs, or changes a sequence.
    #[inline]
    pub const fn writes(&self) -> bool {
        self.verb.draws_ids() || self.flags.has(CommandFlags::WRITE) || matches!(self.verb, Verb::Eval | Verb::EvalSha)
    }

    /// Whether the command accepts `len` arguments, names included.
    #[inline]
    pub fn accepts(&self, len: usize) -> bool {
        let count = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { len >= count } else { len == count }
    }

    /// Returns the subcommand of this name, in any letter case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        self.subcommands.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns true if the reply may show the value of a sequence among the keys. A command that is not listed may.
    pub(crate) fn shows_value(&self) -> bool {
        let is_without = matches!(
            self.verb,
            Verb::GetId
                | Verb::MGetId
                | Verb::Incr
                | Verb::IncrBy
                | Verb::HIncrBy
                | Verb::DecodeId
                | Verb::EncodeId
                | Verb::IdSpan
                | Verb::SealId
                | Verb::OpenId
                | Verb::Exists
                | Verb::Touch
                | Verb::Type
                | Verb::Ttl
                | Verb::PTtl
                | Verb::ExpireTime
                | Verb::PExpireTime
                | Verb::Expire
                | Verb::PExpire
                | Verb::ExpireAt
                | Verb::PExpireAt
                | Verb::Persist
                | Verb::Del
                | Verb::Unlink
                | Verb::HExists
                | Verb::HKeys
                | Verb::HLen
                | Verb::SequenceConfirm
                | Verb::SequenceDeclare
                | Verb::SequenceDrop
                | Verb::SeriesCreate
                // The key is a pool of worker ids.
                | Verb::WorkerIdInfo
                | Verb::WorkerIdInit
                | Verb::WorkerIdLease
                | Verb::WorkerIdList
                | Verb::WorkerIdRelease
                | Verb::WorkerIdRenew
                | Verb::WorkerIdRevoke
        );
        !self.keys.is_empty() && !is_without
    }

    /// Returns the error for a wrong number of arguments.
    pub(crate) fn arity_error(&self) -> ErrorReply {
        let text = format!("ERR wrong number of arguments for '{}' command", self.full_name);
        ErrorReply::new(ErrorKind::Arity, text)
    }
}

/// The commands by their names on this server: the table with `rename-command` applied.
///
/// Every request looks up a name. There are a few dozen names, at most six of one length, so a list for each length is
/// as fast as any map. Comparing whole names needs no copy in lower case.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// `by_len[n]` has the names of `n` bytes, in the table's order.
    by_len: Vec<Vec<CommandName>>,
    /// Every command that has a name, in the table's order.
    commands: Vec<&'static Command>,
    names_generators: bool,
    emulates_cluster: bool,
}

#[derive(Clone, Debug)]
struct CommandName {
    name: Box<[u8]>,
    command: &'static Command,
}

impl Default for Vocabulary {
    fn default() -> Vocabulary {
        Vocabulary::of(
            TABLE.iter().map(|command| CommandName { name: command.name.as_bytes().into(), command }).collect(),
        )
    }
}

impl Vocabulary {
    /// Returns the vocabulary of all commands, with `rename-command` applied in order. Each rename is a command's name,
    /// and its new name or `""` to remove it.
    ///
    /// Unknown names are ignored, because a configuration that renames `FLUSHALL` must not prevent this server's start.
    ///
    /// # Errors
    ///
    /// Returns [`RenameError`] if the new name is another command's.
    pub fn new(renames: &[(String, String)]) -> Result<Vocabulary, RenameError> {
        let mut words: Vec<CommandName> =
            TABLE.iter().map(|command| CommandName { name: command.name.as_bytes().into(), command }).collect();
        for (from, to) in renames {
            let Some(place) = words.iter().position(|word| word.name.eq_ignore_ascii_case(from.as_bytes())) else {
                continue;
            };
            let mut word = words.remove(place);
            if to.is_empty() {
                continue;
            }
            if words.iter().any(|other| other.name.eq_ignore_ascii_case(to.as_bytes())) {
                return Err(RenameError { from: from.clone(), to: to.clone() });
            }
            word.name = to.as_bytes().into();
            words.insert(place, word);
        }
        Ok(Vocabulary::of(words))
    }

    /// Returns the vocabulary for a server with named generators, where commands about IDs accept a generator's name,
    /// or for one without. Without them the commands are those of the fork, including their error texts.
    #[must_use]
    pub(crate) fn naming_generators(mut self, names: bool) -> Vocabulary {
        let choose = |command: &mut &'static Command| {
            let rows = if names { NAMING } else { TABLE };
            if let Some(row) = rows.iter().find(|row| row.verb == command.verb) {
                *command = row;
            }
        };
        self.commands.iter_mut().for_each(choose);
        self.by_len.iter_mut().flatten().for_each(|word| choose(&mut word.command));
        self.names_generators = names;
        self
    }

    /// Returns the vocabulary for a server that emulates a Redis Cluster, or for one that does not.
    #[must_use]
    pub(crate) fn emulating_cluster(self, emulates_cluster: bool) -> Vocabulary {
        Vocabulary { emulates_cluster, ..self }
    }

    /// Returns the row of a request for IDs of the unnamed generator by the name that stands for it. A server without
    /// named generators accepts this name only.
    #[cold]
    pub(crate) fn of_unnamed(command: &Command, args: Args<'_>) -> Option<&'static Command> {
        let place = match command.verb {
            Verb::GetId => 1,
            Verb::MGetId => 2,
            _ => return None,
        };
        let is_unnamed = args.get(place).is_some_and(|name| name == UNNAMED.as_bytes());
        NAMING.iter().find(|row| row.verb == command.verb && is_unnamed)
    }

    /// Whether commands accept the names of generators.
    #[inline]
    pub(crate) fn names_generators(&self) -> bool {
        self.names_generators
    }

    fn of(words: Vec<CommandName>) -> Vocabulary {
        let commands = words.iter().map(|word| word.command).collect();
        let longest = words.iter().map(|word| word.name.len()).max().unwrap_or(0);
        let mut by_len = vec![Vec::new(); longest + 1];
        for word in words {
            by_len[word.name.len()].push(word);
        }
        let vocabulary = Vocabulary { by_len, commands, names_generators: false, emulates_cluster: false };
        debug_assert_eq!(vocabulary.commands.iter().map(|command| command.verb).collect::<HashSet<_>>().len(), {
            vocabulary.commands.len()
        });
        vocabulary
    }

    /// Returns the command of this name, in any letter case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Command> {
        let words = self.by_len.get(name.len())?;
        words.iter().find(|word| word.name.eq_ignore_ascii_case(name)).map(|word| word.command)
    }

    /// Returns the command of a name as `COMMAND INFO` accepts it: `client`, or `client|list`.
    pub fn find_full(&self, name: &[u8]) -> Option<&'static Command> {
        let mut parts = name.splitn(2, |&byte| byte == b'|');
        let command = self.find(parts.next()?)?;
        parts.next().map_or(Some(command), |sub| command.subcommand(sub))
    }

    /// Returns the command, or the subcommand, that a request names.
    ///
    /// # Errors
    ///
    /// Returns the error reply if there is none.
    #[inline]
    pub fn resolve(&self, args: Args<'_>) -> Result<&'static Command, ErrorReply> {
        let Some(command) = self.find(args.name()) else { return Err(unknown_command(args)) };
        match args.get(1) {
            Some(name) if !command.subcommands.is_empty() => {
                command.subcommand(name).ok_or_else(|| unknown_subcommand(command, name, self.emulates_cluster))
            }
            _ => Ok(command),
        }
    }

    /// Returns every command that has a name here, containers but not their subcommands, in the table's order.
    pub fn commands(&self) -> &[&'static Command] {
        &self.commands
    }
}

/// A `rename-command` whose new name is in use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rename-command {from} {to}: '{to}' is already a command")]
pub struct RenameError {
    /// The command to rename.
    pub from: String,
    /// The new name.
    pub to: String,
}

/// Largest part of a name or of all arguments that an error text quotes, bytes, as in Redis.
const QUOTED_BYTES_MAX: usize = 128;

/// Returns Redis 7.0's text to the letter, because libraries parse it.
fn unknown_command(args: Args<'_>) -> ErrorReply {
    let mut quoted = Vec::new();
    for arg in args.iter().skip(1) {
        if quoted.len() >= QUOTED_BYTES_MAX {
            break;
        }
        let room = QUOTED_BYTES_MAX - quoted.len();
        quoted.push(b'\'');
        quoted.extend_from_slice(quote(arg, room));
        quoted.extend_from_slice(b"' ");
    }
    let name = quote(args.name(), QUOTED_BYTES_MAX);
    let text = [b"ERR unknown command '", name, b"', with args beginning with: ", &quoted].concat();
    ErrorReply { kind: ErrorKind::UnknownCommand, text: text.into() }
}

/// Error of a server without `cluster-emulation`.
pub(crate) const CLUSTER_DISABLED: ErrorReply =
    ErrorReply::fixed(ErrorKind::Invalid, "ERR This instance has cluster support disabled");

fn unknown_subcommand(container: &Command, name: &[u8], emulates_cluster: bool) -> ErrorReply {
    let absent = match container.verb {
        Verb::Cluster => table::absent_cluster(name),
        Verb::Sentinel => table::absent_sentinel(name),
        _ => None,
    };
    if absent.is_some() && container.verb == Verb::Cluster && !emulates_cluster {
        return CLUSTER_DISABLED;
    }
    if let Some(text) = absent {
        return ErrorReply::new(ErrorKind::UnknownCommand, text);
    }
    let help = format!("'. Try {} HELP.", container.full_name.to_ascii_uppercase());
    let text = [b"ERR unknown subcommand '", quote(name, QUOTED_BYTES_MAX), help.as_bytes()].concat();
    text.into()
}

/// Returns the beginning of a client's argument as Redis's error texts quote it: up to the first zero byte.
pub fn quote(text: &[u8], bytes_max: usize) -> &[u8] {
    let end = text.iter().take(bytes_max).position(|&byte| byte == 0).unwrap_or(text.len().min(bytes_max));
    &text[..end]
}

/// Flags of a command, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandFlags(u32);

impl CommandFlags {
    /// The empty set.
    pub const NONE: CommandFlags = CommandFlags(0);
    /// Changes data that a replica would have to replicate.
    pub const WRITE: CommandFlags = CommandFlags(1);
    /// Changes no data that a replica would have to replicate.
    pub const READONLY: CommandFlags = CommandFlags(1 << 1);
    /// Redis refuses it when its memory is full.
    pub(crate) const DENY_OOM: CommandFlags = CommandFlags(1 << 2);
    /// Meant for operators.
    pub const ADMIN: CommandFlags = CommandFlags(1 << 3);
    /// Concerns channels.
    pub const PUBSUB: CommandFlags = CommandFlags(1 << 4);
    /// Redis forbids it in scripts.
    pub const NOSCRIPT: CommandFlags = CommandFlags(1 << 5);
    /// Works while Redis loads its data.
    pub const LOADING: CommandFlags = CommandFlags(1 << 6);
    /// Works on a replica that lost its primary.
    pub(crate) const STALE: CommandFlags = CommandFlags(1 << 7);
    /// Redis does not show it to monitors, because it shows the script's commands.
    pub(crate) const SKIP_MONITOR: CommandFlags = CommandFlags(1 << 8);
    /// Excluded from the slow log.
    pub const SKIP_SLOWLOG: CommandFlags = CommandFlags(1 << 9);
    /// Takes constant time.
    pub const FAST: CommandFlags = CommandFlags(1 << 10);
    /// Works before authentication.
    pub const NO_AUTH: CommandFlags = CommandFlags(1 << 11);
    /// May have no keys, although it accepts some.
    pub(crate) const NO_MANDATORY_KEYS: CommandFlags = CommandFlags(1 << 12);
    /// Is refused between `MULTI` and `EXEC`.
    pub(crate) const NO_MULTI: CommandFlags = CommandFlags(1 << 13);
    /// The places of its keys depend on its arguments.
    pub(crate) const MOVABLEKEYS: CommandFlags = CommandFlags(1 << 14);
    /// Works while a script blocks Redis.
    pub(crate) const ALLOW_BUSY: CommandFlags = CommandFlags(1 << 15);

    /// Names as `COMMAND` replies them, in Redis's order.
    const NAMES: [&'static str; 16] = [
        "write",
        "readonly",
        "denyoom",
        "admin",
        "pubsub",
        "noscript",
        "loading",
        "stale",
        "skip_monitor",
        "skip_slowlog",
        "fast",
        "no_auth",
        "no_mandatory_keys",
        "no_multi",
        "movablekeys",
        "allow_busy",
    ];

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: CommandFlags) -> CommandFlags {
        CommandFlags(self.0 | other.0)
    }

    /// Whether the set contains all of `other`.
    #[inline]
    pub const fn has(self, other: CommandFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names of the flags in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| name)
    }
}

/// ACL categories of a command, as a set of bits: those of Redis that contain a command of getid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// The empty set.
    pub const NONE: Categories = Categories(0);
    /// About keys, whatever their type.
    pub const KEYSPACE: Categories = Categories(1);
    /// Reads data.
    pub const READ: Categories = Categories(1 << 1);
    /// Writes data.
    pub const WRITE: Categories = Categories(1 << 2);
    /// About sets, which getid does not have.
    pub const SET: Categories = Categories(1 << 3);
    /// About sorted sets, which getid does not have.
    pub const SORTED_SET: Categories = Categories(1 << 4);
    /// About lists, which getid does not have.
    pub const LIST: Categories = Categories(1 << 5);
    /// About hashes, one type of a sequence as a key.
    pub const HASH: Categories = Categories(1 << 6);
    /// About strings, the other type of a sequence as a key.
    pub const STRING: Categories = Categories(1 << 7);
    /// About streams, which getid does not have.
    pub const STREAM: Categories = Categories(1 << 8);
    /// Concerns channels.
    pub const PUBSUB: Categories = Categories(1 << 9);
    /// Meant for operators.
    pub const ADMIN: Categories = Categories(1 << 10);
    /// Takes constant time.
    pub const FAST: Categories = Categories(1 << 11);
    /// All commands that are not `FAST`.
    pub const SLOW: Categories = Categories(1 << 12);
    /// Can do harm, or reveals much.
    pub const DANGEROUS: Categories = Categories(1 << 13);
    /// Concerns the connection itself.
    pub const CONNECTION: Categories = Categories(1 << 14);
    /// `MULTI` and its related commands.
    pub const TRANSACTION: Categories = Categories(1 << 15);
    /// Concerns scripts.
    pub const SCRIPTING: Categories = Categories(1 << 16);

    /// Names without their `@`, in Redis's order.
    const NAMES: [&'static str; 17] = [
        "keyspace",
        "read",
        "write",
        "set",
        "sortedset",
        "list",
        "hash",
        "string",
        "stream",
        "pubsub",
        "admin",
        "fast",
        "slow",
        "dangerous",
        "connection",
        "transaction",
        "scripting",
    ];

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }

    /// Whether the set contains all of `other`.
    pub const fn has(self, other: Categories) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names of the categories in the set, without their `@`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| name)
    }

    /// Returns the category of this name, without its `@`, in any letter case.
    pub fn named(name: &[u8]) -> Option<Categories> {
        let bit = Self::NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Categories(1 << bit))
    }

    /// Returns the categories that Redis derives from a command's flags.
    const fn implied_by(flags: CommandFlags) -> Categories {
        let mut categories = if flags.has(CommandFlags::FAST) { Categories::FAST } else { Categories::SLOW };
        if flags.has(CommandFlags::READONLY) {
            categories = categories.and(Categories::READ);
        }
        if flags.has(CommandFlags::WRITE) {
            categories = categories.and(Categories::WRITE);
        }
        if flags.has(CommandFlags::PUBSUB) {
            categories = categories.and(Categories::PUBSUB);
        }
        if flags.has(CommandFlags::ADMIN) {
            categories = categories.and(Categories::ADMIN).and(Categories::DANGEROUS);
        }
        categories
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Span;

    #[test]
    fn every_verb_has_one_row() {
        let mut verbs: Vec<Verb> = rows().map(|command| command.verb).collect();
        let count = verbs.len();
        verbs.sort_unstable();
        verbs.dedup();
        assert_eq!(verbs.len(), count, "a verb in two rows");
        assert_eq!(verbs.len(), Verb::COUNT, "a verb without a row");
    }

    #[test]
    fn rows_are_well_formed() {
        for command in rows() {
            let last = command.full_name.rsplit('|').next();
            assert_eq!(last, Some(command.name), "{command:?}");
            assert_eq!(command.full_name, command.full_name.to_ascii_lowercase());
            assert_ne!(command.arity, 0);
            assert!(!command.summary.is_empty() && !command.summary.ends_with('.'), "{}", command.full_name);
            assert!(command.subcommands.iter().all(|sub| !sub.help.is_empty()), "{}", command.full_name);
            let is_fast = command.flags.has(CommandFlags::FAST) && !matches!(command.verb, Verb::OpenId | Verb::SealId);
            assert_eq!(is_fast, command.categories.has(Categories::FAST));
        }
    }

    fn vocabulary(renames: &[(&str, &str)]) -> Result<Vocabulary, RenameError> {
        let renames: Vec<_> = renames.iter().map(|&(from, to)| (from.to_owned(), to.to_owned())).collect();
        Vocabulary::new(&renames)
    }

    #[track_caller]
    fn check(vocabulary: &Vocabulary, name: &str, verb: Option<Verb>) {
        assert_eq!(vocabulary.find_full(name.as_bytes()).map(|command| command.verb), verb, "{name}");
    }

    #[test]
    fn names_are_found_in_any_letter_case() {
        let plain = Vocabulary::default();
        check(&plain, "GETID", Some(Verb::GetId));
        check(&plain, "gEtId", Some(Verb::GetId));
        check(&plain, "client", Some(Verb::Client));
        check(&plain, "Client|LIST", Some(Verb::ClientList));
        for none in ["", "getidx", "getie", "gets", "ping|x", "client|", "client|list|x", "|"] {
            check(&plain, none, None);
        }
    }

    #[test]
    fn with_named_generators_commands_about_ids_take_a_name() {
        let naming = vocabulary(&[("mgetid", "ids")]).unwrap().naming_generators(true);
        for (name, key_at) in [("getid", 1), ("ids", 2), ("decodeid", 2), ("idspan", 3)] {
            let command = naming.find(name.as_bytes()).unwrap();
            let plain = TABLE.iter().find(|row| row.verb == command.verb).unwrap();
            let at = |command: &Command| command.keys.iter().map(|keys| keys.first).collect::<Vec<_>>();
            assert_eq!((at(command), at(plain)), (vec![key_at], vec![]), "{name}");
            assert!(command.accepts(plain.arity.unsigned_abs() as usize) && !plain.accepts(usize::from(key_at) + 1));
            assert!(naming.commands().iter().any(|row| std::ptr::eq(*row, command)), "{name}");
        }
        assert_eq!(naming.commands().len(), TABLE.len());
        assert!(naming.find(b"mgetid").is_none() && naming.names_generators());
        let plain = naming.naming_generators(false);
        assert!(plain.commands().iter().all(|row| !NAMING.iter().any(|naming| std::ptr::eq(*row, naming))));
        assert!(!plain.names_generators());
    }

    #[test]
    fn renamed_commands_go_by_their_new_names_only() {
        let renamed = vocabulary(&[("CONFIG", "a-very-long-name-that-is-hard-to-guess"), ("shutdown", "")]).unwrap();
        check(&renamed, "config", None);
        check(&renamed, "A-very-long-name-that-is-hard-to-guess", Some(Verb::Config));
        check(&renamed, "shutdown", None);
        check(&renamed, "getid", Some(Verb::GetId));
        assert_eq!(renamed.commands().len(), TABLE.len() - 1);
        let swapped = vocabulary(&[("ping", "x"), ("echo", "ping"), ("x", "echo"), ("FLUSHALL", "")]).unwrap();
        check(&swapped, "ping", Some(Verb::Echo));
        check(&swapped, "echo", Some(Verb::Ping));
        assert_eq!(vocabulary(&[("ping", "ECHO")]).unwrap_err().to, "ECHO");
    }

    #[test]
    fn unknown_commands_quote_at_most_128_bytes() {
        let text = [b'x'; 1 << 10];
        let ranges: Vec<Span> = (0..1000).map(|_| Span { start: 0, end: text.len() }).collect();
        assert!(Vocabulary::default().resolve(Args::new(&text, &ranges)).unwrap_err().text.len() < 350);
        let ranges: Vec<Span> = (0..1000).map(|i| Span { start: 0, end: 1 + i % 3 }).collect();
        assert!(Vocabulary::default().resolve(Args::new(&text, &ranges)).unwrap_err().text.len() < 350);
    }
}
