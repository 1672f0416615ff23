//! One client: its user, its permissions, and the settings of its connection.
//!
//! Invariant: `authenticated`, `is_guarded`, `getid`, `mgetid` and `takes_incr` follow from the user and the settings;
//! only [`ClientState::become_user`] sets them. Everything else that follows is read from the user and the settings,
//! which connections share.

use std::sync::{Arc, LazyLock};

use getid_seal::Sealer;

use super::client_view::{ClientView, NO_COMMAND, TrackedView};
use super::effect::Pause;
use super::reply_mode::ReplyMode;
use super::settings::Settings;
use super::subscriptions::{SubscriptionKind, SubscriptionLimit, Subscriptions};
use super::transaction::Transaction;
use super::turn::Turn;
use crate::acl::{self, CommandSet, Context, Denial, DenialReason, Digest, Origin, Proof, User};
use crate::command::{self, Command, CommandFlags, KEY_BYTES_MAX, Verb, key_slot, quoted, series_name};
use crate::resp::{Args, DecodeLimits, ErrorKind, ErrorReply, Protocol};
use getid_text::host_port::HostPort;

/// Maximum length of a name that `CLIENT SETNAME` and `SETINFO` keep, bytes. Redis has no bound, and every `CLIENT
/// LIST` shows the name.
pub const NAME_BYTES_MAX: usize = 1024;

/// Reason why a request is refused to its user, for `ACL LOG` and for the reply.
#[derive(Debug)]
pub(super) struct PermissionError {
    pub(super) command: &'static Command,
    reason: DenialReason,
    /// The command's full name, or the key or the channel.
    object: String,
    /// Whether a login would allow the request.
    is_guarded: bool,
}

impl PermissionError {
    /// Returns the error text of the reply, which is Redis 7.0's.
    fn text(&self) -> String {
        match self.reason {
            DenialReason::Key => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
            }
            DenialReason::Channel => {
                "NOPERM this user has no permissions to access one of the channels used as arguments".to_owned()
            }
            _ => format!("NOPERM this user has no permissions to run the '{}' command", self.object),
        }
    }

    /// Returns the error text with which `EXEC` answers a command that was allowed when it was queued.
    fn text_in_exec(&self) -> String {
        let reason = match self.reason {
            DenialReason::Key => "no permission to touch the specified keys",
            DenialReason::Channel => "no permission to access one of the channels used as arguments",
            _ => "no permission to execute the command or subcommand",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: {reason}"
        )
    }
}

/// The row of INCR.
static INCR: LazyLock<Option<&Command>> = LazyLock::new(|| command::rows().find(|row| row.verb == Verb::Incr));

/// Returns the command of this verb, if `name` is its name: `rename-command` may change it.
fn own_named(settings: &Settings, name: &str, verb: Verb) -> Option<&'static Command> {
    settings.vocabulary.find(name.as_bytes()).filter(|command| command.verb == verb)
}

/// Returns the text of a key or channel for `ACL LOG`.
fn object_of(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(KEY_BYTES_MAX)]).into_owned()
}

/// State of a client that commands change.
#[derive(Debug)]
pub(super) struct ClientState {
    pub(super) settings: Arc<Settings>,
    /// Boxed, because every request reads the client, but rarely its view.
    pub(super) view: Box<TrackedView>,
    /// Whether the client has logged in, or needs no login.
    authenticated: bool,
    pub(super) reply_mode: ReplyMode,
    /// Whether the answer to the last turn's effect is suppressed.
    pub(super) is_answer_muted: bool,
    /// Commands that `CLIENT PAUSE` holds.
    pub(super) pause: Option<Pause>,
    /// User as which commands run, one of [`Settings::users`].
    user: Arc<User>,
    /// Whether guarded commands are refused.
    is_guarded: bool,
    /// Origin of the connection.
    origin: Origin,
    /// Whether the client logged in, or connected while the default user was open.
    logged_in: bool,
    /// Whether it logged in with a proof that its user needs: a password or a certificate.
    has_proved: bool,
    /// Whether its user is deleted or its login was withdrawn. It must not continue as another user, who may be allowed
    /// more.
    pub(super) has_lost_user: bool,
    /// Whether the next read must check the rare cases: `has_lost_user` and `login_permits`.
    pub(super) is_special: bool,
    /// Number of passwords it may try.
    login_permits: u32,
    /// Channels and patterns it is subscribed to, if any.
    subscriptions: Option<Box<Subscriptions>>,
    /// GETID, if the command has its own name (`rename-command` may change it) and the user may run it.
    getid: Option<&'static Command>,
    /// MGETID, on the same conditions.
    mgetid: Option<&'static Command>,
    /// Whether INCR has its own name, and the user may run it with any name.
    takes_incr: bool,
    /// Whether the client can go to another server, to which an error reply refers it.
    pub(super) follows_redirects: bool,
}

impl ClientState {
    pub(super) fn new(id: u64, settings: Arc<Settings>) -> ClientState {
        let user = Arc::clone(settings.users.default_user());
        let view = Box::new(TrackedView::new(ClientView::new(id, Arc::clone(user.name()))));
        let mut client = ClientState {
            authenticated: false,
            settings,
            view,
            reply_mode: ReplyMode::default(),
            is_answer_muted: false,
            pause: None,
            is_guarded: false,
            user,
            origin: Origin::ThisMachine,
            logged_in: false,
            has_proved: false,
            has_lost_user: false,
            is_special: false,
            login_permits: 0,
            subscriptions: None,
            getid: None,
            mgetid: None,
            takes_incr: false,
            follows_redirects: true,
        };
        client.forget_login();
        client
    }

    /// Replaces the settings. An authenticated client remains authenticated; a connection whose user was deleted ends.
    pub(super) fn set_settings(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
        let user = self.settings.users.get(self.user.name().as_bytes()).filter(|user| user.is_same(&self.user));
        if let Some(user) = user {
            self.become_user(Arc::clone(user), self.logged_in, self.has_proved);
        } else {
            self.lose_user();
        }
    }

    /// Ends the login unless its user accepts `proof` under the current settings.
    pub(super) fn confirm_login(&mut self, proof: &Proof) {
        if !self.has_lost_user && !self.user.accepts(proof) {
            self.lose_user();
        }
    }

    /// Ends the connection at the next read. It must not continue as another user, who may be allowed more.
    fn lose_user(&mut self) {
        self.become_user(Arc::clone(self.settings.users.default_user()), false, false);
        self.has_lost_user = true;
        self.is_special = true;
    }

    pub(super) fn login_permits(&self) -> u32 {
        self.login_permits
    }

    pub(super) fn permit_logins(&mut self, logins: u32) {
        if logins > 0 {
            self.login_permits = logins;
            self.is_special = true;
        }
    }

    pub(super) fn withdraw_permits(&mut self) -> u32 {
        self.is_special = self.has_lost_user;
        std::mem::take(&mut self.login_permits)
    }

    /// Sets the origin of the connection, before anything is read.
    pub(super) fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
        self.become_user(Arc::clone(&self.user), self.logged_in, self.has_proved);
    }

    /// Returns true if the client logged in, or connected while no login was needed.
    pub(super) fn is_logged_in(&self) -> bool {
        self.logged_in
    }

    #[inline]
    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Returns the size limits of its requests.
    #[inline]
    pub(super) fn limits(&self) -> DecodeLimits {
        DecodeLimits { authenticated: self.authenticated, ..self.settings.limits() }
    }

    /// Returns the commands that the user may run here with any arguments, without guarded ones where a login is
    /// required.
    #[inline]
    fn allowed(&self) -> &CommandSet {
        self.user.allowed(self.is_guarded, self.settings.vocabulary.names_generators())
    }

    /// Returns true if the client has not run a command.
    #[inline]
    pub(super) fn has_run_no_command(&self) -> bool {
        self.view.last_command == NO_COMMAND
    }

    /// Checks whether the user may run a command: a bit test, unless the arguments matter.
    #[inline]
    pub(super) fn check(&self, command: &'static Command, args: Args<'_>) -> Result<(), Box<PermissionError>> {
        if self.allowed().has(command.verb) { Ok(()) } else { self.check_args(command, args) }
    }

    #[cold]
    fn check_args(&self, command: &'static Command, args: Args<'_>) -> Result<(), Box<PermissionError>> {
        let series = series_name(&self.settings.counters, command, args);
        let series = series.as_ref().map(|key| key.as_str().as_bytes());
        let (reason, at, is_guarded) = match self.user.check(command, args, series) {
            Ok(()) if !self.is_guarded_from(command) => return Ok(()),
            Ok(()) => (DenialReason::Command, 0, true),
            Err((reason, at)) => (reason, at, false),
        };
        let object = match reason {
            DenialReason::Command | DenialReason::Auth => command.full_name.into(),
            DenialReason::Key | DenialReason::Channel => {
                object_of(series.unwrap_or_else(|| args.get(at).unwrap_or_default()))
            }
        };
        Err(Box::new(PermissionError { command, reason, object, is_guarded }))
    }

    /// Returns true if the user may run the command with any arguments.
    pub(super) fn may(&self, verb: Verb) -> bool {
        self.allowed().has(verb)
    }

    /// Implements [`Session::may_run`](super::Session::may_run).
    pub(super) fn may_run(&self, command: &str, key: Option<&[u8]>) -> bool {
        let Some(command) = self.settings.vocabulary.find_full(command.as_bytes()) else { return false };
        let is_allowed = match key {
            Some(key) => self.user.may_access_key(command, key),
            None => self.user.may(command),
        };
        is_allowed && !self.is_guarded_from(command)
    }

    /// Returns true if the user may open the sealed texts of the generator with this name.
    pub(super) fn may_open(&self, name: &[u8]) -> bool {
        self.may_access(Verb::OpenId, name)
    }

    /// Returns true if the user may run a command for the generator with this name.
    pub(super) fn may_access(&self, verb: Verb, name: &[u8]) -> bool {
        let is_allowed = |command: &Command| self.user.may_access_key(command, name) && !self.is_guarded_from(command);
        command::rows().find(|row| row.verb == verb).is_some_and(is_allowed)
    }

    /// Returns true if the user may run a command for all series of the generator with this name.
    pub(super) fn may_access_series(&self, verb: Verb, name: &str) -> bool {
        let prefix = format!("{name}/");
        let is_allowed = |command: &Command| {
            self.user.may_access_keys_of(command, prefix.as_bytes()) && !self.is_guarded_from(command)
        };
        command::rows().find(|row| row.verb == verb).is_some_and(is_allowed)
    }

    /// Returns true if values of the sequence with this name are hidden from the user: the generator over it answers
    /// with sealed texts, and the user may not open them.
    pub(super) fn is_value_hidden(&self, name: &[u8]) -> bool {
        let Settings { counters, sealers, .. } = &*self.settings;
        let is_sealed = sealers.find(name).is_some_and(Sealer::answers_sealed) && counters.find(name).is_some();
        is_sealed && !self.may_open(name)
    }

    /// Queues the refusal of a value for `ACL LOG`, and returns the error reply.
    #[cold]
    pub(super) fn deny_value(&self, name: &[u8], context: Context, turn: &mut Turn) -> ErrorReply {
        let (reason, object, user) = (DenialReason::Command, "openid".to_owned(), Arc::clone(self.user.name()));
        turn.deny(Denial { reason, context, object, user, count: 1 });
        let login = if self.is_guarded { ", and from another machine a login" } else { "" };
        let text = format!("NOPERM the value of a sealed sequence needs the right 'openid'{login}: '{}'", quoted(name));
        ErrorReply::new(ErrorKind::NoPermission, text)
    }

    /// Returns true if the command needs a login that the client lacks, regardless of the user's permissions.
    pub(super) fn is_guarded_from(&self, command: &Command) -> bool {
        command.is_guarded && self.is_guarded
    }

    /// Changes the user. Sets everything that follows from the user and the settings.
    fn become_user(&mut self, user: Arc<User>, logged_in: bool, has_proved: bool) {
        self.logged_in = logged_in;
        self.has_proved = has_proved;
        self.is_guarded = self.settings.protection.guards(self.origin, has_proved);
        // As in Redis, no login is needed while the default user is open.
        let authenticated = logged_in || self.settings.users.default_user().is_open();
        self.authenticated = authenticated;
        self.view.authenticated = authenticated;
        if self.view.user != *user.name() {
            self.view.user = Arc::clone(user.name());
        }
        self.view.incarnation = user.incarnation();
        self.user = user;
        self.find_getid();
    }

    /// Sets `getid`, `mgetid` and `takes_incr`: whether these commands may take the fast path. A subscribed client in
    /// RESP2 may not.
    fn find_getid(&mut self) {
        let is_able = !self.is_limited_to_pubsub() && self.moved_to().is_none();
        let may = |command: &&'static Command| is_able && self.settings.has_server_id && self.user.may(command);
        let find = |name, verb| own_named(&self.settings, name, verb);
        (self.getid, self.mgetid) = (find("GETID", Verb::GetId).filter(may), find("MGETID", Verb::MGetId).filter(may));
        self.takes_incr = is_able && find("INCR", Verb::Incr).is_some() && self.may(Verb::Incr);
    }

    /// Returns INCR, if [`ClientState::takes_fast_path`] and the user may run it with any name.
    #[inline]
    pub(super) fn plain_incr(&self) -> Option<&'static Command> {
        if self.takes_incr { *INCR } else { None }
    }

    /// Returns the holder to which this server refers clients in cluster mode.
    fn moved_to(&self) -> Option<&HostPort> {
        self.settings.cluster.as_ref().filter(|_| self.follows_redirects)?.moved_to.as_ref()
    }

    /// Returns the error that refers a client in cluster mode to the holder, for a request that only the holder serves;
    /// `None` if no other server is known as the holder. The slot of a request without a key is 0, because libraries
    /// follow no other error.
    #[cold]
    pub(super) fn redirect(&self, command: &Command, args: Args<'_>) -> Option<ErrorReply> {
        let holder = self.moved_to()?;
        let slot = command.keys_in(args).next().map_or(0, |key| key_slot(key.name));
        let text = format!("MOVED {slot} {}:{}", holder.host, holder.port);
        Some(ErrorReply::new(ErrorKind::Standby, text))
    }

    /// Sets the protocol of later replies.
    pub(super) fn set_protocol(&mut self, protocol: Protocol) {
        self.view.protocol = protocol;
        self.find_getid();
    }

    /// Returns true if only commands about subscriptions are allowed: in RESP2, a reply cannot be distinguished from a
    /// message.
    #[inline]
    pub(super) fn is_limited_to_pubsub(&self) -> bool {
        self.subscriptions.is_some() && self.view.protocol == Protocol::Resp2
    }

    /// Returns the number of channels and patterns it is subscribed to.
    pub(super) fn subscriptions(&self) -> usize {
        self.subscriptions.as_ref().map_or(0, |all| all.len())
    }

    /// Returns one of the channels or patterns it is subscribed to.
    pub(super) fn any_subscription(&mut self, kind: SubscriptionKind) -> Option<Box<[u8]>> {
        self.subscriptions.as_mut()?.any(kind)
    }

    /// Subscribes to a channel or pattern.
    pub(super) fn subscribe(&mut self, kind: SubscriptionKind, name: &[u8]) -> Result<(), SubscriptionLimit> {
        let added = self.subscriptions.get_or_insert_default().add(kind, name);
        self.note_subscriptions();
        added
    }

    /// Unsubscribes from a channel or pattern.
    pub(super) fn unsubscribe(&mut self, kind: SubscriptionKind, name: &[u8]) {
        if let Some(all) = &mut self.subscriptions {
            all.remove(kind, name);
            self.note_subscriptions();
        }
    }

    fn note_subscriptions(&mut self) {
        self.subscriptions = self.subscriptions.take().filter(|all| all.len() > 0);
        let counts = self.subscriptions.as_ref().map_or([0; 2], |all| all.counts());
        self.view.subscriptions = counts.map(|count| u16::try_from(count).unwrap_or(u16::MAX));
        self.find_getid();
    }

    /// Appends a message for each of its subscriptions that matches the channel.
    pub(super) fn deliver(&self, channel: &[u8], message: &[u8], output: &mut Vec<u8>) {
        if let Some(all) = &self.subscriptions {
            all.deliver(self.view.protocol, channel, message, output);
        }
    }

    /// Returns the memory of its subscriptions, bytes.
    pub(super) fn subscription_bytes(&self) -> usize {
        self.subscriptions.as_ref().map_or(0, |all| all.memory_bytes())
    }

    /// Resets the login to that of a new connection: the default user, logged in if that user is open.
    pub(super) fn forget_login(&mut self) {
        let user = Arc::clone(self.settings.users.default_user());
        let logged_in = user.is_open();
        self.become_user(user, logged_in, false);
    }

    /// Queues a refused request for `ACL LOG`, and returns the error reply.
    #[cold]
    pub(super) fn deny(&self, refused: PermissionError, context: Context, turn: &mut Turn) -> ErrorReply {
        self.deny_with(refused, context, PermissionError::text, turn)
    }

    /// Queues a request for `ACL LOG` that was allowed when it was queued in `MULTI`, and returns the error reply.
    #[cold]
    pub(super) fn deny_in_exec(&self, refused: PermissionError, turn: &mut Turn) -> ErrorReply {
        self.deny_with(refused, Context::Multi, PermissionError::text_in_exec, turn)
    }

    fn deny_with(
        &self,
        refused: PermissionError,
        context: Context,
        text: fn(&PermissionError) -> String,
        turn: &mut Turn,
    ) -> ErrorReply {
        let error = if refused.is_guarded {
            acl::denied(refused.command)
        } else {
            ErrorReply::new(ErrorKind::NoPermission, text(&refused))
        };
        let PermissionError { reason, object, .. } = refused;
        turn.deny(Denial { reason, context, object, user: Arc::clone(self.user.name()), count: 1 });
        error
    }

    /// Performs `RESET` except for the transaction. As in Redis, the values of `SETINFO` remain.
    pub(super) fn reset(&mut self, turn: &mut Turn) {
        self.view.database = 0;
        if !self.view.names.name.is_empty() {
            self.view.names_mut().name = Arc::default();
        }
        self.view.protocol = Protocol::Resp2;
        self.view.no_evict = false;
        self.view.no_touch = false;
        self.view.monitors = false;
        self.subscriptions = None;
        self.view.subscriptions = [0; 2];
        self.reply_mode.reset();
        self.forget_login();
        if self.logged_in {
            turn.end_with_login(Proof::Open);
        }
    }

    /// Runs `count` requests that are `GETID` byte for byte, if they are allowed without a check of each.
    #[inline]
    pub(super) fn getids(&mut self, count: u32, turn: &mut Turn) {
        if let Some(command) = self.getid {
            turn.commands += count;
            turn.tally.ids(Verb::GetId, count, 0);
            turn.push_each_id(count);
            self.view.set_last_command(command.full_name);
        }
    }

    /// Runs a request that is `MGETID` with this count, at least 1. Returns false, without a change, if it must be
    /// checked.
    #[inline]
    pub(super) fn mgetid(&mut self, count: u32, turn: &mut Turn) -> bool {
        let Some(command) = self.mgetid.filter(|_| count <= self.settings.id_mgetid_max) else { return false };
        turn.commands += 1;
        turn.tally.ids(Verb::MGetId, 1, 0);
        turn.push_ids(count);
        self.view.set_last_command(command.full_name);
        true
    }

    /// Runs the requests at the start of `rest` that equal `request` byte for byte: it was checked, and its user may
    /// run it. Returns their length in bytes.
    pub(super) fn repeats(&mut self, request: &[u8], rest: &[u8], turn: &mut Turn) -> usize {
        turn.is_repeatable = false;
        if turn.tally.is_watched() || !self.reply_mode.is_plain() {
            return 0;
        }
        let next = rest.chunks_exact(request.len()).take(turn.repeats_left() as usize);
        let mut times = 0;
        for _ in next.take_while(|next| *next == request) {
            times += 1;
        }
        if times > 0 {
            turn.commands += times;
            let verb = turn.repeat(times);
            turn.tally.ids(verb, times, 0);
        }
        times as usize * request.len()
    }

    /// Returns true if [`ClientState::getids`] may be used: GETID has its own name, the user may run it, and its reply
    /// is neither held nor suppressed.
    #[inline]
    pub(super) fn takes_fast_path(&self) -> bool {
        self.authenticated && self.getid.is_some() && self.pause.is_none() && self.reply_mode.is_plain()
    }

    /// Returns true if a pause holds this command. Commands that end a pause, a connection or the server are not held,
    /// nor those that an operator needs first to connect.
    #[inline]
    pub(super) fn holds(&self, command: &Command, transaction: &Transaction) -> bool {
        match self.pause {
            None => false,
            Some(Pause::Write) if command.verb == Verb::Exec => transaction.writes(),
            Some(Pause::Write) => command.writes(),
            Some(Pause::All) => !(command.is_unpaused || command.flags.has(CommandFlags::NO_AUTH)),
        }
    }

    pub(super) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Logs in, and returns true if user and password match. A failure leaves the login as it was, as in Redis. `word`
    /// is the command's name in the request.
    pub(super) fn log_in(&mut self, user: &[u8], password: &[u8], word: &[u8], turn: &mut Turn) -> bool {
        debug_assert!(self.login_permits > 0, "a request that tries a password is held until there is a permit");
        self.login_permits = self.login_permits.saturating_sub(1);
        if let Some(user) = self.settings.users.log_in(user, password).map(Arc::clone) {
            // A user without a password accepts any text, which proves nothing.
            let has_proved = !user.is_nopass();
            self.become_user(user, true, has_proved);
            turn.end_with_login(Proof::Password(Digest::of(password)));
            return true;
        }
        let kept = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(NAME_BYTES_MAX)]).into_owned();
        // While commands are queued, a login runs only in `EXEC`.
        let context = if self.view.queued.is_some() { Context::Multi } else { Context::TopLevel };
        let user = kept(user).into();
        turn.deny(Denial { reason: DenialReason::Auth, context, object: kept(word), user, count: 1 });
        false
    }

    /// Logs in by a certificate, which needs no password and proves the identity. Returns false if the user is missing
    /// or disabled.
    pub(super) fn log_in_as(&mut self, name: &str) -> bool {
        let user = self.settings.users.get(name.as_bytes()).filter(|user| user.is_enabled()).map(Arc::clone);
        let is_known = user.is_some();
        if let Some(user) = user {
            self.become_user(user, true, true);
        }
        is_known
    }
}
