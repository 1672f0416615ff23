//! What commands do: one arm for each row of the table.
//!
//! A command that is about this connection alone is done here. One that needs IDs leaves its count in the turn; one that
//! needs the world outside leaves an [`Effect`]. Everything that can be wrong with a command is found here, so that
//! nothing behind it can fail.

use std::str;
use std::sync::Arc;

use super::client_view::{ClientView, Watched};
use super::clients;
use super::effect::{Effect, Pause, Shutdown, WaitingEffect};
use super::reply_mode::{ReplyMode, Wanted};
use super::settings::Settings;
use super::tally::Begun;
use super::transaction::Transaction;
use super::turn::Turn;
use crate::acl::{self, CommandSet, Context, DEFAULT_USER, Denial, Origin, Reason, User};
use crate::command::{self, Command, Flags, REDIS_VERSION, TABLE, Verb, quote};
use crate::resp::{self, Args, DecodeLimits, Protocol, Value, parse_integer};

/// The longest name that `CLIENT SETNAME` and `SETINFO` keep, bytes. Redis has no bound, and a name is shown to everyone
/// who asks for `CLIENT LIST`.
pub const NAME_BYTES_MAX: usize = 1024;

pub(super) const OK: &[u8] = b"+OK\r\n";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const SYNTAX: &str = "ERR syntax error";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD_SET: &str = "ERR AUTH <password> called without any password configured for the default user. \
                               Are you sure your configuration is correct?";
const CACHING_NEEDS_TRACKING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
                                      OPTIN or OPTOUT mode enabled";
const HELLO_NEEDS_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                                HELLO AUTH <user> <pass> option can be used to authenticate the client and \
                                select the RESP protocol version at the same time";

/// What `EXEC` answers in the place of a command that was allowed when it was queued.
const NO_LONGER_ALLOWED: &str = "NOPERM ACLs rules changed between the moment the transaction was \
                                            accumulated and the EXEC call. This command is no longer allowed for the \
                                            following reason: no permission to execute the command or subcommand";

/// What a user is told who may not run a command; Redis 7.0's text.
fn no_permission(command: &Command) -> String {
    format!("NOPERM this user has no permissions to run the '{}' command", command.full_name)
}

fn named_getid(settings: &Settings) -> Option<&'static Command> {
    settings.vocabulary.find(b"GETID").filter(|command| command.verb == Verb::GetId)
}

/// What commands change.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) settings: Arc<Settings>,
    pub(super) view: Watched,
    pub(super) limits: DecodeLimits,
    pub(super) reply_mode: ReplyMode,
    /// What `CLIENT PAUSE` holds.
    pub(super) pause: Option<Pause>,
    /// Whom commands are run as: of [`Settings::users`].
    user: Arc<User>,
    /// What the user may run here whatever the arguments: without guarded commands, where that is so.
    allowed: CommandSet,
    /// Where it came from.
    origin: Origin,
    /// Whether it logged in, or began when the default user was open to all.
    logged_in: bool,
    /// Whether it logged in by something that its user needs: a password, a certificate.
    has_proved: bool,
    /// Whether its user is gone: it must not go on as another, who may be allowed more.
    pub(super) has_lost_user: bool,
    /// Whether the next read must look at what is rare: `has_lost_user` and `leave`.
    pub(super) is_special: bool,
    /// Passwords it may try.
    leave: u32,
    /// GETID, if that is what it goes by here (`rename-command` may have taken its name) and the user may run it.
    getid: Option<&'static Command>,
}

impl Client {
    pub(super) fn new(id: u64, settings: Arc<Settings>) -> Client {
        let user = Arc::clone(settings.users.default_user());
        let view = Watched::new(ClientView::new(id, Arc::clone(user.name())));
        let mut client = Client {
            limits: settings.limits(),
            settings,
            view,
            reply_mode: ReplyMode::default(),
            pause: None,
            allowed: CommandSet::default(),
            user,
            origin: Origin::ThisMachine,
            logged_in: false,
            has_proved: false,
            has_lost_user: false,
            is_special: false,
            leave: 0,
            getid: None,
        };
        client.forget_login();
        client
    }

    /// Goes by other settings. Who has authenticated remains so; a connection whose user is gone has ended.
    pub(super) fn set_settings(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
        let user = self.settings.users.get(self.user.name().as_bytes()).filter(|user| user.is_same(&self.user));
        if let Some(user) = user {
            self.be(Arc::clone(user), self.logged_in, self.has_proved);
        } else {
            self.be(Arc::clone(self.settings.users.default_user()), false, false);
            self.has_lost_user = true;
            self.is_special = true;
        }
    }

    pub(super) fn leave(&self) -> u32 {
        self.leave
    }

    pub(super) fn give_leave(&mut self, logins: u32) {
        if logins > 0 {
            self.leave = logins;
            self.is_special = true;
        }
    }

    pub(super) fn take_leave_back(&mut self) -> u32 {
        self.is_special = self.has_lost_user;
        std::mem::take(&mut self.leave)
    }

    /// Says where it came from, before anything is read.
    pub(super) fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
        self.be(Arc::clone(&self.user), self.logged_in, self.has_proved);
    }

    #[inline]
    pub(super) fn is_authenticated(&self) -> bool {
        self.limits.authenticated
    }

    /// Whether nothing was run yet.
    #[inline]
    pub(super) fn has_said_nothing(&self) -> bool {
        self.view.last_command == super::client_view::NO_COMMAND
    }

    /// Whether the user may run it: a bit test.
    #[inline]
    pub(super) fn may_run(&self, command: &'static Command, args: Args<'_>) -> bool {
        self.allowed.has(command.verb) || self.may_for_first_arg(command, args)
    }

    #[cold]
    fn may_for_first_arg(&self, command: &'static Command, args: Args<'_>) -> bool {
        !self.is_guarded_from(command) && self.user.may_for_first_arg(command, args)
    }

    /// The same for a command that has no first argument that matters.
    pub(super) fn may(&self, verb: Verb) -> bool {
        self.allowed.has(verb)
    }

    /// Whether it is refused for want of a login, whatever the user may do.
    pub(super) fn is_guarded_from(&self, command: &Command) -> bool {
        acl::is_guarded(command.verb) && self.settings.protection.guards(self.origin, self.has_proved)
    }

    /// Becomes this user; all that follows from who it is, and from the settings, is settled here.
    fn be(&mut self, user: Arc<User>, logged_in: bool, has_proved: bool) {
        self.logged_in = logged_in;
        self.has_proved = has_proved;
        self.allowed = user.allowed(self.settings.protection.guards(self.origin, has_proved));
        // As in Redis, nobody needs to log in while the default user is open to all.
        let authenticated = logged_in || self.settings.users.default_user().is_open();
        self.limits = DecodeLimits { authenticated, ..self.settings.limits() };
        self.view.authenticated = authenticated;
        self.getid = named_getid(&self.settings).filter(|command| user.may(command));
        if self.view.user != *user.name() {
            self.view.user = Arc::clone(user.name());
        }
        self.view.incarnation = user.incarnation();
        self.user = user;
    }

    /// Back to where a connection begins: the default user, logged in if that one is open to all.
    fn forget_login(&mut self) {
        let user = Arc::clone(self.settings.users.default_user());
        let logged_in = user.is_open();
        self.be(user, logged_in, false);
    }

    /// Why it may not run a command that it may not run.
    #[cold]
    pub(super) fn refusal_of(&self, command: &'static Command) -> String {
        if self.user.may(command) && self.is_guarded_from(command) {
            acl::denied(command)
        } else {
            no_permission(command)
        }
    }

    /// The same for one that was allowed when it was queued.
    #[cold]
    pub(super) fn refusal_in_exec(&self, command: &'static Command) -> String {
        if self.user.may(command) { self.refusal_of(command) } else { NO_LONGER_ALLOWED.to_owned() }
    }

    /// Leaves a refused command for `ACL LOG`.
    #[cold]
    pub(super) fn deny(&self, command: &'static Command, context: Context, turn: &mut Turn) {
        let user = Arc::clone(self.user.name());
        turn.deny(Denial { reason: Reason::Command, context, object: command.full_name.to_owned(), user, count: 1 });
    }

    /// `RESET`, as far as it is not about the transaction. What `SETINFO` said stays, as in Redis: it is still true.
    fn reset(&mut self) {
        self.view.database = 0;
        if !self.view.names.name.is_empty() {
            self.view.names_mut().name = Arc::default();
        }
        self.view.protocol = Protocol::Resp2;
        self.view.no_evict = false;
        self.view.no_touch = false;
        self.view.monitors = false;
        self.reply_mode.reset();
        self.forget_login();
    }

    /// Runs `count` requests that are `GETID` byte for byte, if that is allowed without looking at them one by one.
    #[inline]
    pub(super) fn getids(&mut self, count: u32, turn: &mut Turn) {
        if let Some(command) = self.getid {
            turn.commands += count;
            turn.tally.ids(Verb::GetId, count, 0);
            turn.push_each_id(count);
            self.view.set_last_command(command.full_name);
        }
    }

    /// Whether [`Client::getids`] may be used: nobody took GETID's name, and the user may run it and hear of it now.
    #[inline]
    pub(super) fn takes_fast_path(&self) -> bool {
        self.limits.authenticated && self.getid.is_some() && self.pause.is_none() && self.reply_mode.is_plain()
    }

    /// Whether a pause holds this command. What ends a pause, a connection or the server goes on, and what an operator who
    /// connects to do so needs first.
    #[inline]
    pub(super) fn holds(&self, command: &Command, transaction: &Transaction) -> bool {
        match self.pause {
            None => false,
            Some(Pause::Write) if command.verb == Verb::Exec => transaction.asks_for_ids(),
            Some(Pause::Write) => command.verb.draws_ids(),
            Some(Pause::All) => {
                let goes_on = command.verb == Verb::Shutdown || command.full_name.starts_with("client|");
                !goes_on && !command.flags.has(Flags::NO_AUTH)
            }
        }
    }

    /// Who it is.
    pub(super) fn user(&self) -> &User {
        &self.user
    }

    /// Runs one command: exactly one reply goes into the turn, or an effect whose answer is that reply.
    #[inline]
    pub(super) fn perform(&mut self, command: &'static Command, args: Args<'_>, turn: &mut Turn) {
        match command.verb {
            Verb::GetId => {
                self.note(command, turn);
                turn.tally.ids(Verb::GetId, 1, 0);
                turn.push_each_id(1);
                self.show(command, args, turn);
            }
            Verb::MGetId => {
                self.note(command, turn);
                self.mgetid(args, turn);
                self.show(command, args, turn);
            }
            _ => {
                let begun = self.begin(command, turn);
                self.perform_other(command, args, turn);
                self.end(begun, command, args, turn);
                self.show(command, args, turn);
            }
        }
    }

    #[inline]
    fn note(&mut self, command: &'static Command, turn: &mut Turn) {
        turn.commands += 1;
        self.view.set_last_command(command.full_name);
    }

    /// A command begins that is not an ID command.
    #[inline]
    pub(super) fn begin(&mut self, command: &'static Command, turn: &mut Turn) -> Begun {
        self.note(command, turn);
        turn.tally.begin(&self.settings.timing)
    }

    /// The command that began has run, but for its effect.
    #[inline]
    pub(super) fn end(&mut self, begun: Begun, command: &'static Command, args: Args<'_>, turn: &mut Turn) {
        let asks = turn.effect.is_some();
        turn.tally.end(begun, &self.settings.timing, command, args, asks);
    }

    /// Shows a command to monitors, if there are any.
    #[inline]
    pub(super) fn show(&self, command: &'static Command, args: Args<'_>, turn: &mut Turn) {
        if turn.tally.is_watched() {
            turn.tally.show(command, self.view.database, args.iter(), self.settings.timing.is_secret);
        }
    }

    /// `EXEC` is shown behind the commands it ran, where what was sent is gone.
    pub(super) fn show_exec(&self, turn: &mut Turn) {
        if let Some(command) = TABLE.iter().find(|command| command.verb == Verb::Exec) {
            let args = [&b"EXEC"[..]].into_iter();
            turn.tally.show(command, self.view.database, args, self.settings.timing.is_secret);
        }
    }

    fn mgetid(&self, args: Args<'_>, turn: &mut Turn) {
        let counted = parse_integer(arg(args, 1));
        match counted.map(u32::try_from) {
            Some(Ok(count @ 1..)) if count <= self.settings.id_mgetid_max => {
                turn.tally.ids(Verb::MGetId, 1, 0);
                return turn.push_ids(count);
            }
            _ => turn.tally.ids(Verb::MGetId, 1, 1),
        }
        match counted {
            Some(count) => turn.push_error(format!("ERR parameters error! argv[1] = {count}")),
            None => turn.push_error(NOT_AN_INTEGER),
        }
    }

    fn perform_other(&mut self, command: &'static Command, args: Args<'_>, turn: &mut Turn) {
        let protocol = self.view.protocol;
        let vocabulary = &self.settings.vocabulary;
        let names = || NamesFrom { args, next: 2 };
        match command.verb {
            Verb::GetId | Verb::MGetId => unreachable!("perform has run it"),
            Verb::Multi | Verb::Exec | Verb::Discard => unreachable!("the session runs it"),
            // Containers are run by themselves only when their arity admits it.
            Verb::Acl | Verb::Client | Verb::Config | Verb::Latency | Verb::Memory | Verb::SlowLog => {
                unreachable!("it takes a subcommand")
            }

            Verb::DecodeId => match command::parse_id(arg(args, 1)) {
                Ok(id) => turn.effect = Some(Effect::DecodeId(id)),
                Err(error) => turn.push_error(error.to_string()),
            },
            Verb::IdReady => turn.effect = Some(Effect::IdReady { tells_why: self.is_authenticated() }),
            Verb::IdSpan => match command::parse_span(arg(args, 1), arg(args, 2)) {
                Ok(times) => turn.effect = Some(Effect::IdSpan(times)),
                Err(error) => turn.push_error(error.to_string()),
            },

            Verb::Ping => match args.get(1) {
                None => turn.push(b"+PONG\r\n"),
                Some(_) if args.len() > 2 => turn.push_error(command.arity_error()),
                Some(message) => turn.push_with(|out| resp::write_bulk(message, out)),
            },
            Verb::Echo => turn.push_with(|out| resp::write_bulk(arg(args, 1), out)),
            Verb::Quit => {
                turn.push(OK);
                turn.close = true;
            }
            Verb::Reset => {
                self.reset();
                turn.unmute_unless(self.reply_mode.is_muted());
                turn.push(b"+RESET\r\n");
            }
            Verb::Select => self.select(args, turn),
            Verb::Hello => self.hello(args, turn),
            Verb::Auth => self.auth(args, turn),
            Verb::Watch | Verb::Unwatch => turn.push(OK),

            Verb::ClientId => turn.push_with(|out| resp::write_id(self.view.id, out)),
            Verb::ClientGetName => {
                let name = match &*self.view.names.name {
                    "" => Value::Null,
                    name => Value::from(name),
                };
                turn.push_value(&name, protocol);
            }
            Verb::ClientSetName => match checked_name(arg(args, 2), "Client names") {
                Ok(name) => {
                    self.view.names_mut().name = name;
                    turn.push(OK);
                }
                Err(error) => turn.push_error(error),
            },
            Verb::ClientSetInfo => self.set_info(args, turn),
            Verb::ClientNoEvict => match on_or_off(arg(args, 2)) {
                Some(on) => {
                    self.view.no_evict = on;
                    turn.push(OK);
                }
                None => turn.push_error(SYNTAX),
            },
            Verb::ClientNoTouch => match on_or_off(arg(args, 2)) {
                Some(on) => {
                    self.view.no_touch = on;
                    turn.push(OK);
                }
                None => turn.push_error(SYNTAX),
            },
            Verb::ClientInfo => turn.effect = Some(Effect::ClientInfo),
            Verb::ClientList => match clients::filter(args) {
                Ok(filter) => turn.effect = Some(Effect::ClientList(filter)),
                Err(error) => turn.push_error(error),
            },
            Verb::ClientKill => match clients::kill(args, |user| self.settings.users.get(user).is_some()) {
                Ok(kill) => turn.effect = Some(Effect::Waits(WaitingEffect::ClientKill(Box::new(kill)))),
                Err(error) => turn.push_error(error),
            },

            Verb::ClientPause => match clients::pause(args) {
                Ok(pause) => turn.effect = Some(pause),
                Err(error) => turn.push_error(error),
            },
            Verb::ClientUnpause => turn.effect = Some(Effect::ClientUnpause),
            Verb::ClientUnblock => match clients::unblock(args) {
                Ok(unblock) => turn.effect = Some(unblock),
                Err(error) => turn.push_error(error),
            },
            Verb::ClientReply => match clients::reply(arg(args, 2)) {
                Some(wanted) => {
                    self.reply_mode.set(wanted);
                    if wanted == Wanted::On {
                        turn.unmute_unless(false);
                        turn.push(OK);
                    }
                }
                None => turn.push_error(SYNTAX),
            },
            Verb::ClientTracking => match clients::tracking(args) {
                Ok(()) => turn.push(OK),
                Err(error) => turn.push_error(error),
            },
            Verb::ClientTrackingInfo => turn.push_value(&no_tracking(), protocol),
            Verb::ClientGetRedir => turn.push(b":-1\r\n"),
            Verb::ClientCaching => turn.push_error(CACHING_NEEDS_TRACKING),

            Verb::Command | Verb::CommandInfo => {
                turn.push_value(&command::command_info(vocabulary, names()), protocol);
            }
            Verb::CommandDocs => turn.push_value(&command::command_docs(vocabulary, names()), protocol),
            Verb::CommandList => turn.push_value(&command::command_list(vocabulary, args), protocol),
            Verb::CommandCount => turn.push_with(|out| resp::write_id(vocabulary.commands().len() as u64, out)),
            Verb::CommandGetKeys | Verb::CommandGetKeysAndFlags => {
                turn.push_error(command::command_get_keys(vocabulary, args));
            }
            Verb::AclHelp => turn.push_value(&help(Verb::Acl), protocol),
            Verb::ClientHelp => turn.push_value(&help(Verb::Client), protocol),
            Verb::CommandHelp => turn.push_value(&help(Verb::Command), protocol),
            Verb::ConfigHelp => turn.push_value(&help(Verb::Config), protocol),
            Verb::LatencyHelp => turn.push_value(&help(Verb::Latency), protocol),
            Verb::MemoryHelp => turn.push_value(&help(Verb::Memory), protocol),
            Verb::SlowLogHelp => turn.push_value(&help(Verb::SlowLog), protocol),

            Verb::LatencyDoctor
            | Verb::LatencyGraph
            | Verb::LatencyHistogram
            | Verb::LatencyHistory
            | Verb::LatencyLatest
            | Verb::LatencyReset
            | Verb::MemoryDoctor
            | Verb::MemoryMallocStats
            | Verb::MemoryPurge
            | Verb::MemoryStats
            | Verb::MemoryUsage
            | Verb::Monitor
            | Verb::SlowLogGet
            | Verb::SlowLogLen
            | Verb::SlowLogReset => self.diagnose(command.verb, args, turn),

            Verb::AclCat
            | Verb::AclDelUser
            | Verb::AclDryRun
            | Verb::AclGenPass
            | Verb::AclGetUser
            | Verb::AclList
            | Verb::AclLoad
            | Verb::AclLog
            | Verb::AclSave
            | Verb::AclSetUser
            | Verb::AclUsers
            | Verb::AclWhoAmI => self.acl(command, args, turn),
            Verb::Role => {
                let role = [Value::from("master"), Value::Integer(0), Value::Array(Vec::new())];
                turn.push_value(&Value::Array(role.into()), protocol);
            }
            Verb::LolWut => {
                let art = concat!("getid ver. ", env!("CARGO_PKG_VERSION"), "\n");
                turn.push_value(&Value::text(art), protocol);
            }

            Verb::Info => {
                let sections = args.iter().skip(1).map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
                turn.effect = Some(Effect::Info { sections: sections.collect() });
            }
            Verb::ConfigGet => {
                let patterns = args.iter().skip(2).map(<[u8]>::to_vec).collect();
                turn.effect = Some(Effect::ConfigGet { patterns, shows_secrets: self.may(Verb::ConfigSet) });
            }
            Verb::ConfigSet => match pairs(args, 2) {
                Some(pairs) => turn.effect = Some(Effect::Waits(WaitingEffect::ConfigSet { pairs })),
                None => turn.push_error(SYNTAX),
            },
            Verb::ConfigRewrite => turn.effect = Some(Effect::Waits(WaitingEffect::ConfigRewrite)),
            Verb::ConfigResetStat => turn.effect = Some(Effect::ConfigResetStat),
            Verb::Time => turn.effect = Some(Effect::Time),
            Verb::Shutdown => match shutdown_options(args) {
                Some(options) => turn.effect = Some(Effect::Shutdown(options)),
                None => turn.push_error(SYNTAX),
            },
        }
    }

    fn select(&mut self, args: Args<'_>, turn: &mut Turn) {
        let Some(index) = parse_integer(arg(args, 1)) else { return turn.push_error(NOT_AN_INTEGER) };
        if i32::try_from(index).is_err() {
            let (least, most) = (i32::MIN, i32::MAX);
            return turn.push_error(format!("ERR value is out of range, value must between {least} and {most}"));
        }
        match u32::try_from(index) {
            Ok(index) if index < self.settings.databases => {
                self.view.database = index;
                turn.push(OK);
            }
            _ => turn.push_error("ERR DB index is out of range"),
        }
    }

    fn hello(&mut self, args: Args<'_>, turn: &mut Turn) {
        let mut protocol = None;
        if let Some(version) = args.get(1) {
            protocol = Some(match parse_integer(version) {
                Some(2) => Protocol::Resp2,
                Some(3) => Protocol::Resp3,
                Some(_) => return turn.push_error("NOPROTO unsupported protocol version"),
                None => return turn.push_error("ERR Protocol version is not an integer or out of range"),
            });
        }
        let mut login = None;
        let mut at = 2;
        // In Redis's order: a name is taken as soon as it is read, even if the password turns out to be wrong.
        while let Some(option) = args.get(at) {
            match (args.get(at + 1), args.get(at + 2)) {
                (Some(user), Some(password)) if option.eq_ignore_ascii_case(b"auth") => {
                    login = Some((user, password));
                    at += 3;
                }
                (Some(name), _) if option.eq_ignore_ascii_case(b"setname") => {
                    match checked_name(name, "Client names") {
                        Ok(name) => self.view.names_mut().name = name,
                        Err(error) => return turn.push_error(error),
                    }
                    at += 2;
                }
                _ => {
                    let option = quote(option, OPTION_BYTES_MAX);
                    return turn.push_error([b"ERR Syntax error in HELLO option '", option, b"'"].concat());
                }
            }
        }
        if let Some((user, password)) = login
            && !self.log_in(user, password, arg(args, 0), turn)
        {
            return turn.push_error(WRONG_PASSWORD);
        }
        // Not enough that nobody needs to: as in Redis.
        if !self.logged_in {
            return turn.push_error(HELLO_NEEDS_AUTH);
        }
        if let Some(protocol) = protocol {
            self.view.protocol = protocol;
        }
        let fields = Value::map([
            ("server", Value::from("redis")),
            ("version", Value::from(REDIS_VERSION)),
            ("proto", Value::Integer(if self.view.protocol == Protocol::Resp3 { 3 } else { 2 })),
            ("id", Value::Integer(self.view.id.cast_signed())),
            ("mode", Value::from("standalone")),
            ("role", Value::from("master")),
            ("modules", Value::Array(Vec::new())),
        ]);
        turn.push_value(&fields, self.view.protocol);
    }

    fn auth(&mut self, args: Args<'_>, turn: &mut Turn) {
        let (user, password) = match (args.get(1), args.get(2), args.len()) {
            // The one form in which a user may think that the password matters.
            (Some(_), None, _) if self.settings.users.default_user().is_nopass() => {
                return turn.push_error(NO_PASSWORD_SET);
            }
            (Some(password), None, _) => (DEFAULT_USER.as_bytes(), password),
            (Some(user), Some(password), 3) => (user, password),
            _ => return turn.push_error(SYNTAX),
        };
        if self.log_in(user, password, arg(args, 0), turn) {
            turn.push(OK);
        } else {
            turn.push_error(WRONG_PASSWORD);
        }
    }

    /// Whether user and password fit. A failure leaves the login as it was, as in Redis; `word` asked for it.
    fn log_in(&mut self, user: &[u8], password: &[u8], word: &[u8], turn: &mut Turn) -> bool {
        debug_assert!(self.leave > 0, "a request that tries a password is held until there is leave");
        self.leave = self.leave.saturating_sub(1);
        if let Some(user) = self.settings.users.log_in(user, password).map(Arc::clone) {
            // Any word does for a user without a password: that proves nothing.
            let has_proved = !user.is_nopass();
            self.be(user, true, has_proved);
            turn.has_access_news = true;
            return true;
        }
        let kept = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(NAME_BYTES_MAX)]).into_owned();
        // Only in `EXEC` does it run with commands queued.
        let context = if self.view.queued.is_some() { Context::Multi } else { Context::TopLevel };
        let user = kept(user).into();
        turn.deny(Denial { reason: Reason::Auth, context, object: kept(word), user, count: 1 });
        false
    }

    /// By a certificate: whatever its passwords, and it proves who it is.
    pub(super) fn log_in_as(&mut self, name: &str) -> bool {
        let user = self.settings.users.get(name.as_bytes()).filter(|user| user.is_enabled()).map(Arc::clone);
        let is_known = user.is_some();
        if let Some(user) = user {
            self.be(user, true, true);
        }
        is_known
    }

    fn set_info(&mut self, args: Args<'_>, turn: &mut Turn) {
        let (option, value) = (arg(args, 2), arg(args, 3));
        let field = if option.eq_ignore_ascii_case(b"lib-name") {
            &mut self.view.names_mut().lib_name
        } else if option.eq_ignore_ascii_case(b"lib-ver") {
            &mut self.view.names_mut().lib_version
        } else {
            let option = quote(option, OPTION_BYTES_MAX);
            return turn.push_error([b"ERR Unrecognized option '", option, b"'"].concat());
        };
        match checked_name(value, str::from_utf8(option).unwrap_or_default()) {
            Ok(value) => {
                *field = value;
                turn.push(OK);
            }
            Err(error) => turn.push_error(error),
        }
    }
}

/// How much of an option's name an error text quotes, bytes.
pub(super) const OPTION_BYTES_MAX: usize = 128;

/// The argument at `index`, which the arity has promised.
pub(super) fn arg(args: Args<'_>, index: usize) -> &[u8] {
    args.get(index).unwrap_or_default()
}

/// The arguments from `from` on, two by two; `None` when one is left over.
fn pairs(args: Args<'_>, from: usize) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    if !(args.len() - from.min(args.len())).is_multiple_of(2) {
        return None;
    }
    let of = |at: usize| (arg(args, at).to_vec(), arg(args, at + 1).to_vec());
    Some((from..args.len()).step_by(2).map(of).collect())
}

/// The arguments from `next` on; unlike `skip`, it knows its length.
struct NamesFrom<'a> {
    args: Args<'a>,
    next: usize,
}

impl<'a> Iterator for NamesFrom<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let name = self.args.get(self.next)?;
        self.next += 1;
        Some(name)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.args.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for NamesFrom<'_> {}

/// A name that can stand in a line of `CLIENT LIST`: printable ASCII without blanks.
fn checked_name(name: &[u8], what: &str) -> Result<Arc<str>, String> {
    let printable = name.iter().all(u8::is_ascii_graphic);
    match str::from_utf8(name) {
        Ok(_) if name.len() > NAME_BYTES_MAX => {
            Err(format!("ERR {what} cannot be longer than {NAME_BYTES_MAX} bytes."))
        }
        Ok(name) if printable => Ok(Arc::from(name)),
        _ => Err(format!("ERR {what} cannot contain spaces, newlines or special characters.")),
    }
}

fn on_or_off(word: &[u8]) -> Option<bool> {
    match word {
        word if word.eq_ignore_ascii_case(b"on") => Some(true),
        word if word.eq_ignore_ascii_case(b"off") => Some(false),
        _ => None,
    }
}

/// `SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]`; `None` for what Redis calls a syntax error.
fn shutdown_options(args: Args<'_>) -> Option<Shutdown> {
    let mut options = Shutdown::default();
    let mut save = false;
    for word in args.iter().skip(1) {
        let option = match word.to_ascii_lowercase().as_slice() {
            b"save" => &mut save,
            b"nosave" => &mut options.nosave,
            b"now" => &mut options.now,
            b"force" => &mut options.force,
            b"abort" => &mut options.abort,
            _ => return None,
        };
        *option = true;
    }
    let others = save || options.nosave || options.now || options.force;
    let contradicts = (save && options.nosave) || (options.abort && others);
    (!contradicts).then_some(options)
}

/// `CLIENT TRACKINGINFO`: it is off for everyone.
fn no_tracking() -> Value {
    Value::map([
        ("flags", Value::Set(vec![Value::from("off")])),
        ("redirect", Value::Integer(-1)),
        ("prefixes", Value::Array(Vec::new())),
    ])
}

/// The `HELP` of a container.
fn help(container: Verb) -> Value {
    let row = TABLE.iter().find(|command| command.verb == container);
    row.map_or(Value::Array(Vec::new()), command::command_help)
}
