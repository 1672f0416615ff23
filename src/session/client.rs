//! One client: who it is, what it may do, and what it has set for its connection.
//!
//! Invariant: `authenticated`, `is_guarded` and `getid` follow from the user and the settings; [`Client::become_user`]
//! alone sets them. What else follows is asked of the user and of the settings, which connections share.

use std::sync::Arc;

use super::client_view::{ClientView, NO_COMMAND, Watched};
use super::effect::Pause;
use super::reply_mode::ReplyMode;
use super::settings::Settings;
use super::subscriptions::{Listened, Subscriptions, TooMany};
use super::transaction::Transaction;
use super::turn::Turn;
use crate::acl::{self, CommandSet, Context, Denial, Digest, Origin, Proof, Reason, User};
use crate::command::{Command, Flags, KEY_BYTES_MAX, Verb};
use crate::resp::{Args, DecodeLimits, Protocol};

/// The longest name that `CLIENT SETNAME` and `SETINFO` keep, bytes. Redis has no bound, and a name is shown to
/// everyone who asks for `CLIENT LIST`.
pub const NAME_BYTES_MAX: usize = 1024;

/// Why a request is refused to its user: for `ACL LOG`, and for the reply.
#[derive(Debug)]
pub(super) struct NotAllowed {
    pub(super) command: &'static Command,
    reason: Reason,
    /// The command's full name, or the key or the channel.
    object: String,
    /// Whether its user could, with a login.
    is_guarded: bool,
}

impl NotAllowed {
    /// What its user is told; Redis 7.0's text.
    fn text(&self) -> String {
        match self.reason {
            Reason::Key => "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned(),
            Reason::Channel => {
                "NOPERM this user has no permissions to access one of the channels used as arguments".to_owned()
            }
            _ => format!("NOPERM this user has no permissions to run the '{}' command", self.object),
        }
    }

    /// What `EXEC` answers in the place of a command that was allowed when it was queued.
    fn text_in_exec(&self) -> String {
        let reason = match self.reason {
            Reason::Key => "no permission to touch the specified keys",
            Reason::Channel => "no permission to access one of the channels used as arguments",
            _ => "no permission to execute the command or subcommand",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: {reason}"
        )
    }
}

fn named_getid(settings: &Settings) -> Option<&'static Command> {
    let command = settings.vocabulary.find(b"GETID").filter(|command| command.verb == Verb::GetId);
    command.filter(|_| settings.has_server_id)
}

/// What `ACL LOG` shows of a key or a channel.
fn object_of(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(KEY_BYTES_MAX)]).into_owned()
}

/// What commands change.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) settings: Arc<Settings>,
    /// In a box of its own: a connection is read for every request, and this hardly ever.
    pub(super) view: Box<Watched>,
    /// Whether it has logged in, or need not.
    authenticated: bool,
    pub(super) reply_mode: ReplyMode,
    /// What `CLIENT PAUSE` holds.
    pub(super) pause: Option<Pause>,
    /// Whom commands are run as: of [`Settings::users`].
    user: Arc<User>,
    /// Whether it may not run guarded commands.
    is_guarded: bool,
    /// Where it came from.
    origin: Origin,
    /// Whether it logged in, or began when the default user was open to all.
    logged_in: bool,
    /// Whether it logged in by something that its user needs: a password, a certificate.
    has_proved: bool,
    /// Whether its user is gone, or its login was taken back: it must not go on as another, who may be allowed more.
    pub(super) has_lost_user: bool,
    /// Whether the next read must look at what is rare: `has_lost_user` and `login_permits`.
    pub(super) is_special: bool,
    /// Passwords it may try.
    login_permits: u32,
    /// Channels it listens to, if it does.
    subscriptions: Option<Box<Subscriptions>>,
    /// GETID, if it has its own name here (`rename-command` may have taken it) and the user may run it.
    getid: Option<&'static Command>,
}

impl Client {
    pub(super) fn new(id: u64, settings: Arc<Settings>) -> Client {
        let user = Arc::clone(settings.users.default_user());
        let view = Box::new(Watched::new(ClientView::new(id, Arc::clone(user.name()))));
        let mut client = Client {
            authenticated: false,
            settings,
            view,
            reply_mode: ReplyMode::default(),
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
        };
        client.forget_login();
        client
    }

    /// Uses other settings. A client that has authenticated remains so; a connection whose user was deleted ends.
    pub(super) fn set_settings(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
        let user = self.settings.users.get(self.user.name().as_bytes()).filter(|user| user.is_same(&self.user));
        if let Some(user) = user {
            self.become_user(Arc::clone(user), self.logged_in, self.has_proved);
        } else {
            self.lose_user();
        }
    }

    /// Ends the login unless its user accepts it by the settings in force.
    pub(super) fn confirm_login(&mut self, proof: &Proof) {
        if !self.has_lost_user && !self.user.accepts(proof) {
            self.lose_user();
        }
    }

    /// Ends at the next read: it must not go on as another user, who may be allowed more.
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

    /// Says where it came from, before anything is read.
    pub(super) fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
        self.become_user(Arc::clone(&self.user), self.logged_in, self.has_proved);
    }

    /// Whether it logged in, or began when nobody needed to.
    pub(super) fn is_logged_in(&self) -> bool {
        self.logged_in
    }

    #[inline]
    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// How large its requests may be.
    #[inline]
    pub(super) fn limits(&self) -> DecodeLimits {
        DecodeLimits { authenticated: self.authenticated, ..self.settings.limits() }
    }

    /// What the user may run here whatever the arguments: without guarded commands, where that is so.
    #[inline]
    fn allowed(&self) -> &CommandSet {
        self.user.allowed(self.is_guarded, self.settings.vocabulary.names_generators())
    }

    /// Whether nothing was run yet.
    #[inline]
    pub(super) fn has_said_nothing(&self) -> bool {
        self.view.last_command == NO_COMMAND
    }

    /// Whether the user may run it: a bit test, unless the arguments matter.
    #[inline]
    pub(super) fn check(&self, command: &'static Command, args: Args<'_>) -> Result<(), Box<NotAllowed>> {
        if self.allowed().has(command.verb) { Ok(()) } else { self.check_args(command, args) }
    }

    #[cold]
    fn check_args(&self, command: &'static Command, args: Args<'_>) -> Result<(), Box<NotAllowed>> {
        let (reason, at, is_guarded) = match self.user.check(command, args) {
            Ok(()) if !self.is_guarded_from(command) => return Ok(()),
            Ok(()) => (Reason::Command, 0, true),
            Err((reason, at)) => (reason, at, false),
        };
        let object = match reason {
            Reason::Command | Reason::Auth => command.full_name.into(),
            Reason::Key | Reason::Channel => object_of(args.get(at).unwrap_or_default()),
        };
        Err(Box::new(NotAllowed { command, reason, object, is_guarded }))
    }

    /// The same for a command that has no first argument that matters.
    pub(super) fn may(&self, verb: Verb) -> bool {
        self.allowed().has(verb)
    }

    /// [`Session::may_run`](super::Session::may_run).
    pub(super) fn may_run(&self, command: &str, key: Option<&[u8]>) -> bool {
        let Some(command) = self.settings.vocabulary.find_full(command.as_bytes()) else { return false };
        let is_allowed = match key {
            Some(key) => self.user.may_ask(command, key),
            None => self.user.may(command),
        };
        is_allowed && !self.is_guarded_from(command)
    }

    /// Whether it is refused for want of a login, whatever the user may do.
    pub(super) fn is_guarded_from(&self, command: &Command) -> bool {
        command.is_guarded && self.is_guarded
    }

    /// Takes on this user. Everything that follows from the user and the settings is set here.
    fn become_user(&mut self, user: Arc<User>, logged_in: bool, has_proved: bool) {
        self.logged_in = logged_in;
        self.has_proved = has_proved;
        self.is_guarded = self.settings.protection.guards(self.origin, has_proved);
        // As in Redis, nobody needs to log in while the default user is open to all.
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

    /// Whether GETID may take the fast path: not where it is refused to a client that listens.
    fn find_getid(&mut self) {
        let may = |command: &&'static Command| self.user.may(command) && !self.listens_only();
        self.getid = named_getid(&self.settings).filter(may);
    }

    /// The protocol that it speaks from now on.
    pub(super) fn set_protocol(&mut self, protocol: Protocol) {
        self.view.protocol = protocol;
        self.find_getid();
    }

    /// Whether it may only say what listening is about: in RESP2 a reply could not be told from a message.
    #[inline]
    pub(super) fn listens_only(&self) -> bool {
        self.subscriptions.is_some() && self.view.protocol == Protocol::Resp2
    }

    /// How many channels and patterns it listens to.
    pub(super) fn subscriptions(&self) -> usize {
        self.subscriptions.as_ref().map_or(0, |all| all.len())
    }

    /// One of those that it listens to.
    pub(super) fn listens_to(&mut self, kind: Listened) -> Option<Box<[u8]>> {
        self.subscriptions.as_mut()?.any(kind)
    }

    /// Listens to this channel or pattern.
    pub(super) fn subscribe(&mut self, kind: Listened, name: &[u8]) -> Result<(), TooMany> {
        let added = self.subscriptions.get_or_insert_default().add(kind, name);
        self.note_subscriptions();
        added
    }

    /// Listens to it no more.
    pub(super) fn unsubscribe(&mut self, kind: Listened, name: &[u8]) {
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

    /// What it holds for channels, bytes.
    pub(super) fn subscription_bytes(&self) -> usize {
        self.subscriptions.as_ref().map_or(0, |all| all.memory_bytes())
    }

    /// Back to where a connection begins: the default user, logged in if that one is open to all.
    pub(super) fn forget_login(&mut self) {
        let user = Arc::clone(self.settings.users.default_user());
        let logged_in = user.is_open();
        self.become_user(user, logged_in, false);
    }

    /// Leaves a refused request for `ACL LOG`, and returns the reply's text.
    #[cold]
    pub(super) fn deny(&self, refused: NotAllowed, context: Context, turn: &mut Turn) -> String {
        self.deny_with(refused, context, NotAllowed::text, turn)
    }

    /// The same for one that was allowed when it was queued.
    #[cold]
    pub(super) fn deny_in_exec(&self, refused: NotAllowed, turn: &mut Turn) -> String {
        self.deny_with(refused, Context::Multi, NotAllowed::text_in_exec, turn)
    }

    fn deny_with(
        &self,
        refused: NotAllowed,
        context: Context,
        text: fn(&NotAllowed) -> String,
        turn: &mut Turn,
    ) -> String {
        let text = if refused.is_guarded { acl::denied(refused.command) } else { text(&refused) };
        let NotAllowed { reason, object, .. } = refused;
        turn.deny(Denial { reason, context, object, user: Arc::clone(self.user.name()), count: 1 });
        text
    }

    /// `RESET`, as far as it is not about the transaction. What `SETINFO` said stays, as in Redis: it is still true.
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

    /// Runs the requests that `rest` begins with and that are what was just taken, byte for byte: it was looked at
    /// whole, and its user may run it. Returns how many bytes they are.
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

    /// Whether [`Client::getids`] may be used: nobody took GETID's name, and the user may run it and hear of it now.
    #[inline]
    pub(super) fn takes_fast_path(&self) -> bool {
        self.authenticated && self.getid.is_some() && self.pause.is_none() && self.reply_mode.is_plain()
    }

    /// Whether a pause holds this command. What ends a pause, a connection or the server goes on, and what an operator
    /// who connects to do so needs first.
    #[inline]
    pub(super) fn holds(&self, command: &Command, transaction: &Transaction) -> bool {
        match self.pause {
            None => false,
            Some(Pause::Write) if command.verb == Verb::Exec => transaction.writes(),
            Some(Pause::Write) => command.writes(),
            Some(Pause::All) => !(command.is_unpaused || command.flags.has(Flags::NO_AUTH)),
        }
    }

    pub(super) fn user(&self) -> &User {
        &self.user
    }

    /// Whether user and password fit. A failure leaves the login as it was, as in Redis; `word` asked for it.
    pub(super) fn log_in(&mut self, user: &[u8], password: &[u8], word: &[u8], turn: &mut Turn) -> bool {
        debug_assert!(self.login_permits > 0, "a request that tries a password is held until there is a permit");
        self.login_permits = self.login_permits.saturating_sub(1);
        if let Some(user) = self.settings.users.log_in(user, password).map(Arc::clone) {
            // Any word does for a user without a password: that proves nothing.
            let has_proved = !user.is_nopass();
            self.become_user(user, true, has_proved);
            turn.end_with_login(Proof::Password(Digest::of(password)));
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
            self.become_user(user, true, true);
        }
        is_known
    }
}
