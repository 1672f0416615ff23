//! The commands: one function for each row of the table, in a file for each family.
//!
//! A command about this connection alone is done here. One that needs IDs adds their number to the turn. One that needs
//! the server becomes an [`Effect`], which the file of the same name in `server/effects` carries out. This module
//! detects every error of a command, so that no later step can fail.
//!
//! To add a command: a [`Verb`], its row in `command/table.rs`, a line in [`function`], the function in one of these
//! files, and, if it needs the server, an effect and a function in `server/effects`.

#![expect(clippy::unnecessary_wraps, reason = "all commands have one signature")]

mod acl;
mod client;
mod cluster;
mod config;
mod connection;
mod ids;
mod introspect;
mod keys;
mod machines;
mod numbers;
mod pubsub;
mod requests;
mod scripts;
mod seals;
mod sentinel;
mod sequence;
mod sequences;
mod series;
mod shutdown;
mod transaction;
mod unknown;
mod workers;

pub use requests::REQUESTS_OFF;
pub use sentinel::NO_SUCH_MASTER;
pub(super) use sequences::HASH_FIELD;
pub use sequences::SEQUENCES_OFF;
pub use unknown::no_generator;

use super::benchmark;
use super::client::ClientState;
use super::effect::{AclEffect, ClientEffect, ConfigEffect, Effect, IdsEffect, IntrospectEffect, SentinelEffect};
use super::transaction::Transaction;
use super::turn::Turn;
use crate::acl::Context;
use crate::command::{self, Command, TABLE, Verb, quote};
use crate::resp::{Args, ErrorKind, ErrorReply, Value};

/// Default number of entries that one `LIST` reads.
const LIST_COUNT: u32 = 100;
/// Maximum number of entries that one `LIST` reads.
const LIST_COUNT_MAX: u32 = 1_000;

const NOT_AN_INTEGER: ErrorReply = ErrorReply::fixed(ErrorKind::Invalid, "ERR value is not an integer or out of range");
const SYNTAX: ErrorReply = ErrorReply::fixed(ErrorKind::Invalid, "ERR syntax error");

/// Maximum number of bytes of an option's name that an error text quotes.
const OPTION_BYTES_MAX: usize = 128;

/// A command in progress: its arguments, its client, and the turn for its reply.
pub(super) struct Call<'a> {
    pub(super) command: &'static Command,
    pub(super) args: Args<'a>,
    pub(super) client: &'a mut ClientState,
    pub(super) transaction: &'a mut Transaction,
    pub(super) turn: &'a mut Turn,
}

/// Result of a command: its reply, or an error.
type CommandResult = Result<CommandReply, ErrorReply>;

enum CommandReply {
    /// The reply is already in the turn, or there is none.
    Pushed,
    /// RESP that is the same in both protocols.
    Encoded(&'static [u8]),
    Value(Value),
    /// An action of the server, which gives the reply.
    Effect(Effect),
}

const OK: CommandReply = CommandReply::Encoded(b"+OK\r\n");

/// Returns the function of a command. A command without arguments for the server returns its effect directly.
#[expect(clippy::too_many_lines, reason = "a line for each command")]
fn function(verb: Verb) -> fn(&mut Call<'_>) -> CommandResult {
    match verb {
        Verb::GetId => ids::getid,
        Verb::MGetId => ids::mgetid,
        Verb::SealId => seals::seal,
        Verb::OpenId => seals::open,
        Verb::Incr => sequences::incr,
        Verb::IncrBy => sequences::incr_by,
        Verb::HIncrBy => sequences::hash_incr_by,
        Verb::Get
        | Verb::Type
        | Verb::Ttl
        | Verb::PTtl
        | Verb::ExpireTime
        | Verb::PExpireTime
        | Verb::StrLen
        | Verb::ObjectEncoding
        | Verb::ObjectFreq
        | Verb::ObjectIdleTime
        | Verb::ObjectRefCount => keys::read,
        Verb::MGet => keys::values,
        Verb::Exists | Verb::Touch => keys::count,
        Verb::Keys => keys::names,
        Verb::Scan => keys::scan,
        Verb::DbSize => keys::size,
        Verb::RandomKey => keys::random,
        Verb::Set => keys::set,
        Verb::SetNx => keys::set_new,
        Verb::GetSet => keys::get_set,
        Verb::GetDel => keys::get_delete,
        Verb::Del | Verb::Unlink => keys::delete,
        Verb::Persist => keys::persist,
        Verb::Expire | Verb::PExpire | Verb::ExpireAt | Verb::PExpireAt => keys::expire,
        Verb::Decr | Verb::DecrBy => keys::decrease,
        Verb::IncrByFloat => keys::increase_by_float,
        Verb::Append | Verb::SetRange => keys::edit,
        Verb::GetEx => keys::get_with_expiry,
        Verb::SetEx | Verb::PSetEx => keys::set_with_expiry,
        Verb::MSet | Verb::MSetNx => keys::set_many,
        Verb::Rename | Verb::RenameNx => keys::rename,
        Verb::HGet | Verb::HMGet | Verb::HGetAll | Verb::HExists | Verb::HLen | Verb::HKeys | Verb::HVals => keys::hash,
        Verb::HSet => keys::hash_set,
        Verb::FCall
        | Verb::FunctionLoad
        | Verb::LPop
        | Verb::LPush
        | Verb::LRange
        | Verb::RPop
        | Verb::RPush
        | Verb::SAdd
        | Verb::SPop
        | Verb::XAdd
        | Verb::ZAdd
        | Verb::ZPopMin => keys::refuse_structure,

        Verb::SeriesCreate => series::create,
        Verb::SeriesList => series::list,

        Verb::SequenceAdopt => sequence::adopt,
        Verb::SequenceAlter => sequence::alter,
        Verb::SequenceBackup => sequence::backup,
        Verb::SequenceConfirm => sequence::confirm,
        Verb::SequenceDeclare => sequence::declare,
        Verb::SequenceCreate => sequence::create,
        Verb::SequenceDrop => sequence::drop_sequence,
        Verb::SequenceInfo => sequence::info,
        Verb::SequenceList => sequence::list,
        Verb::SequenceNext => sequence::next,
        Verb::SequenceRaise => sequence::raise,
        Verb::SequenceStores => sequence::stores,

        Verb::NumberCommit => numbers::commit,
        Verb::NumberLedger => numbers::ledger,
        Verb::NumberRelease => numbers::release,
        Verb::NumberReserve => numbers::reserve,
        Verb::NumberSettle => numbers::settle,
        Verb::NumberVoid => numbers::void,

        Verb::WorkerIdInfo => workers::info,
        Verb::WorkerIdInit => workers::init,
        Verb::WorkerIdLease => workers::lease,
        Verb::WorkerIdList => workers::list,
        Verb::WorkerIdRelease => workers::release,
        Verb::WorkerIdRenew => workers::renew,
        Verb::WorkerIdRevoke => workers::revoke,

        Verb::Eval => scripts::eval,
        Verb::EvalSha => scripts::eval_sha,
        Verb::ScriptExists => scripts::exists,
        Verb::ScriptFlush => scripts::flush,
        Verb::ScriptKill => scripts::kill,
        Verb::ScriptLoad => scripts::load,

        Verb::Subscribe | Verb::PSubscribe => pubsub::subscribe,
        Verb::Unsubscribe | Verb::PUnsubscribe => pubsub::unsubscribe,
        Verb::Publish => pubsub::publish,

        Verb::ClusterCountKeysInSlot
        | Verb::ClusterGetKeysInSlot
        | Verb::ClusterHelp
        | Verb::ClusterInfo
        | Verb::ClusterKeySlot
        | Verb::ClusterLinks
        | Verb::ClusterMyId
        | Verb::ClusterNodes
        | Verb::ClusterReplicas
        | Verb::ClusterShards
        | Verb::ClusterSlaves
        | Verb::ClusterSlots
        | Verb::ReadOnly
        | Verb::ReadWrite
        | Verb::Asking => cluster::cluster,

        Verb::SentinelCkQuorum => sentinel::check_quorum,
        Verb::SentinelGetMasterAddrByName => sentinel::address,
        Verb::SentinelMaster => sentinel::master,
        Verb::SentinelMasters => |_| Ok(sentinel::effect(SentinelEffect::Masters)),
        Verb::SentinelMyId => |_| Ok(sentinel::effect(SentinelEffect::MyId)),
        Verb::SentinelReplicas | Verb::SentinelSlaves => sentinel::replicas,
        Verb::SentinelSentinels => sentinel::sentinels,

        Verb::DecodeId => ids::decode,
        Verb::EncodeId => ids::encode,
        Verb::Generators => |_| Ok(CommandReply::Effect(Effect::Ids(IdsEffect::Generators))),
        Verb::IdReady => ids::ready,
        Verb::IdSpan => ids::span,

        Verb::Auth => connection::auth,
        Verb::Echo => connection::echo,
        Verb::Hello => connection::hello,
        Verb::Ping => connection::ping,
        Verb::Quit => connection::quit,
        Verb::Reset => connection::reset,
        Verb::Select => connection::select,

        Verb::Discard => transaction::discard,
        Verb::Exec => transaction::exec,
        Verb::Multi => transaction::multi,
        Verb::Unwatch => transaction::unwatch,
        Verb::Watch => transaction::watch,

        Verb::ClientCaching => client::caching,
        Verb::ClientGetName => client::get_name,
        Verb::ClientGetRedir => client::get_redir,
        Verb::ClientId => client::id,
        Verb::ClientInfo => |_| Ok(client::effect(ClientEffect::Info)),
        Verb::ClientKill => client::kill,
        Verb::ClientList => client::list,
        Verb::ClientNoEvict => client::no_evict,
        Verb::ClientNoTouch => client::no_touch,
        Verb::ClientPause => client::pause,
        Verb::ClientReply => client::reply,
        Verb::ClientSetInfo => client::set_info,
        Verb::ClientSetName => client::set_name,
        Verb::ClientTracking => client::tracking,
        Verb::ClientTrackingInfo => client::tracking_info,
        Verb::ClientUnblock => client::unblock,
        Verb::ClientUnpause => |_| Ok(client::effect(ClientEffect::Unpause)),

        Verb::ConfigGet => config::get,
        Verb::ConfigResetStat => |_| Ok(config::effect(ConfigEffect::ResetStat)),
        Verb::ConfigRewrite => |_| Ok(config::effect(ConfigEffect::Rewrite)),
        Verb::ConfigSet => config::set,

        Verb::Command | Verb::CommandInfo => introspect::command_info,
        Verb::CommandCount => introspect::command_count,
        Verb::CommandDocs => introspect::command_docs,
        Verb::CommandGetKeys | Verb::CommandGetKeysAndFlags => introspect::command_get_keys,
        Verb::CommandList => introspect::command_list,
        Verb::Info => introspect::info,
        Verb::LatencyDoctor => |_| Ok(introspect::effect(IntrospectEffect::LatencyDoctor)),
        Verb::LatencyGraph => introspect::latency_graph,
        Verb::LatencyHistogram => introspect::latency_histogram,
        Verb::LatencyHistory => introspect::latency_history,
        Verb::LatencyLatest => |_| Ok(introspect::effect(IntrospectEffect::LatencyLatest)),
        Verb::LatencyReset => introspect::latency_reset,
        Verb::LolWut => introspect::lolwut,
        Verb::MemoryDoctor => |_| Ok(introspect::effect(IntrospectEffect::MemoryDoctor)),
        Verb::MemoryMallocStats => introspect::memory_malloc_stats,
        Verb::MemoryPurge => introspect::memory_purge,
        Verb::MemoryStats => |_| Ok(introspect::effect(IntrospectEffect::MemoryStats)),
        Verb::MemoryUsage => introspect::memory_usage,
        Verb::Monitor => introspect::monitor,
        Verb::Role => introspect::role,
        Verb::SlowLogGet => introspect::slowlog_get,
        Verb::SlowLogLen => |_| Ok(introspect::effect(IntrospectEffect::SlowLogLen)),
        Verb::SlowLogReset => |_| Ok(introspect::effect(IntrospectEffect::SlowLogReset)),
        Verb::Time => introspect::time,

        Verb::AclCat => acl::cat,
        Verb::AclDelUser => acl::del_user,
        Verb::AclDryRun => acl::dry_run,
        Verb::AclGenPass => acl::gen_pass,
        Verb::AclGetUser => acl::get_user,
        Verb::AclList => acl::list,
        Verb::AclLoad => |_| Ok(acl::effect(AclEffect::Load)),
        Verb::AclLog => acl::log,
        Verb::AclSave => |_| Ok(acl::effect(AclEffect::Save)),
        Verb::AclSetUser => acl::set_user,
        Verb::AclUsers => |_| Ok(acl::effect(AclEffect::Users)),
        Verb::AclWhoAmI => acl::who_am_i,

        Verb::Shutdown => shutdown::shutdown,

        Verb::Acl
        | Verb::Client
        | Verb::Cluster
        | Verb::Config
        | Verb::Function
        | Verb::Latency
        | Verb::Memory
        | Verb::Number
        | Verb::Object
        | Verb::Script
        | Verb::Sentinel
        | Verb::Sequence
        | Verb::Series
        | Verb::SlowLog
        | Verb::WorkerId => container,
        Verb::AclHelp
        | Verb::ClientHelp
        | Verb::CommandHelp
        | Verb::ConfigHelp
        | Verb::FunctionHelp
        | Verb::LatencyHelp
        | Verb::MemoryHelp
        | Verb::NumberHelp
        | Verb::ObjectHelp
        | Verb::ScriptHelp
        | Verb::SentinelHelp
        | Verb::SequenceHelp
        | Verb::SeriesHelp
        | Verb::SlowLogHelp
        | Verb::WorkerIdHelp => help,
    }
}

/// Handles a container without a subcommand, which its arity does not admit.
fn container(call: &mut Call<'_>) -> CommandResult {
    Err(call.command.arity_error())
}

/// Returns the `HELP` of a container.
fn help(call: &mut Call<'_>) -> CommandResult {
    let is_container = |row: &&Command| row.subcommands.iter().any(|sub| sub.verb == call.command.verb);
    let lines = TABLE.iter().find(is_container).map_or(Value::Array(Vec::new()), command::command_help);
    Ok(CommandReply::Value(lines))
}

impl<'a> Call<'a> {
    /// Runs the command. Adds exactly one reply to the turn, or an effect whose answer is that reply.
    #[inline]
    pub(super) fn run(mut self) {
        self.turn.commands += 1;
        self.client.view.set_last_command(self.command.full_name);
        match self.command.verb {
            // Not timed: their cost is the draw, which the shell makes once for the whole turn.
            Verb::GetId => {
                let outcome = ids::getid(&mut self);
                self.push(outcome);
            }
            Verb::MGetId => {
                let outcome = ids::mgetid(&mut self);
                self.push(outcome);
            }
            Verb::Incr => {
                let outcome = sequences::incr(&mut self);
                self.push(outcome);
            }
            Verb::IncrBy => {
                let outcome = sequences::incr_by(&mut self);
                self.push(outcome);
            }
            Verb::HIncrBy => {
                let outcome = sequences::hash_incr_by(&mut self);
                self.push(outcome);
            }
            _ => self.run_timed(),
        }
        if self.turn.tally.is_watched() {
            self.show();
        }
    }

    fn run_timed(&mut self) {
        let timing = &self.client.settings.timing;
        let start = self.turn.tally.begin(timing);
        let outcome = self.check_values().and_then(|()| function(self.command.verb)(self));
        self.push(outcome);
        let is_unfinished = self.turn.effect.is_some();
        self.turn.tally.end(start, &self.client.settings.timing, self.command, self.args, is_unfinished);
    }

    /// Fails if the reply may show the value of a sealed sequence that the user may not open.
    fn check_values(&mut self) -> Result<(), ErrorReply> {
        if self.client.settings.sealers.is_empty() || !self.command.shows_value() {
            return Ok(());
        }
        let mut names = self.command.keys_in(self.args).map(|key| key.name);
        let Some(name) = names.find(|name| self.client.is_value_hidden(name)) else { return Ok(()) };
        let context = if self.transaction.is_running() { Context::Multi } else { Context::TopLevel };
        Err(self.client.deny_value(name, context, self.turn))
    }

    #[inline]
    fn push(&mut self, outcome: CommandResult) {
        if !matches!(outcome, Ok(CommandReply::Pushed)) {
            self.push_reply(outcome);
        }
    }

    #[inline(never)]
    fn push_reply(&mut self, outcome: CommandResult) {
        match outcome {
            Ok(CommandReply::Pushed) => {}
            Ok(CommandReply::Encoded(bytes)) => self.turn.push(bytes),
            Ok(CommandReply::Value(value)) => self.turn.push_value(&value, self.client.view.protocol),
            Ok(CommandReply::Effect(effect)) => self.turn.effect = Some(effect),
            Err(error) => match benchmark::reply(self.command.verb, self.args, &error) {
                Some(value) => self.turn.push_value(&value, self.client.view.protocol),
                None => self.turn.push_error(&error),
            },
        }
    }

    /// Shows the command to monitors. `EXEC` is shown after the commands that it runs ([`show_exec`]).
    #[cold]
    fn show(&mut self) {
        if self.command.verb != Verb::Exec || !self.transaction.is_running() {
            let Call { command, args, client, turn, .. } = self;
            turn.tally.show(command, client.view.database, args.iter(), client.settings.timing.is_secret);
        }
    }

    /// Returns the argument at `index`, which the arity guarantees.
    fn arg(&self, index: usize) -> &'a [u8] {
        self.args.get(index).unwrap_or_default()
    }

    /// Returns copies of the arguments from `index` on.
    fn args_from(&self, index: usize) -> Vec<Vec<u8>> {
        self.args.iter().skip(index).map(<[u8]>::to_vec).collect()
    }

    /// Returns the error of an invalid request that quotes the beginning of an argument.
    fn error_quoting(before: &str, arg: &[u8], after: &str) -> ErrorReply {
        [before.as_bytes(), quote(arg, OPTION_BYTES_MAX), after.as_bytes()].concat().into()
    }

    /// Returns Redis's error for a subcommand with too many arguments, which quotes the subcommand as written.
    fn wrong_number(&self, container: &str) -> ErrorReply {
        let before = "ERR unknown subcommand or wrong number of arguments for '";
        Call::error_quoting(before, self.arg(1), &format!("'. Try {container} HELP."))
    }
}

/// Shows `EXEC` to monitors, with the words as sent.
#[cold]
pub(super) fn show_exec(client: &ClientState, turn: &mut Turn) {
    if let Some(command) = TABLE.iter().find(|command| command.verb == Verb::Exec) {
        let args = [&b"EXEC"[..]].into_iter();
        turn.tally.show(command, client.view.database, args, client.settings.timing.is_secret);
    }
}
