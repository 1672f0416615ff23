//! Users and sessions without sockets: the replies of a session with a whole server's settings to each command.
//!
//! Connections, threads and files are tested in `tests/server/access.rs`.

use std::sync::Arc;

use crate::acl::rows;
use crate::shell::{Options, Shell};
use getid_config::{Config, Sources};
use getid_redis::acl::{Origin, Protection, Users};
use getid_redis::command::{CommandFlags, KeyRange};
use getid_redis::resp::{ErrorKind, ErrorReply};
use getid_redis::session::{Session, Settings, Turn};
use getid_server::config_files::RealFiles;

/// Commands that another machine cannot run without a login. Listed by hand, so that each new command is considered.
const GUARDED: &[&str] = &[
    "config|set",
    "config|rewrite",
    "config|resetstat",
    "acl|deluser",
    "acl|dryrun",
    "acl|genpass",
    "acl|getuser",
    "acl|help",
    "acl|list",
    "acl|load",
    "acl|log",
    "acl|save",
    "acl|setuser",
    "acl|users",
    "shutdown",
    "monitor",
    "client|kill",
    "client|pause",
    "client|unpause",
    "client|unblock",
    "client|list",
    "client|no-evict",
    "slowlog|reset",
    "latency|reset",
    "openid",
    "sealid",
    "set",
    "getset",
    "getdel",
    "del",
    "unlink",
    "workerid|init",
    "workerid|revoke",
    "sequence|create",
    "sequence|alter",
    "sequence|backup",
    "number|settle",
    "sequence|raise",
    "sequence|confirm",
    "sequence|declare",
    "sequence|drop",
    "sequence|adopt",
];

/// Commands whose replies show no value of the sequence that they name. Listed by hand, so that each new command is
/// considered.
const WITHOUT_VALUES: &[&str] = &[
    "incr",
    "incrby",
    "hincrby",
    "encodeid",
    "sealid",
    "openid",
    "exists",
    "touch",
    "type",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "persist",
    "del",
    "unlink",
    "hexists",
    "hkeys",
    "hlen",
    "sequence|confirm",
    "sequence|declare",
    "sequence|drop",
    "workerid|info",
    "workerid|init",
    "workerid|lease",
    "workerid|list",
    "workerid|release",
    "workerid|renew",
    "workerid|revoke",
];

/// Returns the session settings of a server with these words on its command line.
fn settings_of(words: &str) -> Arc<Settings> {
    let words = words.split("--").filter(|option| !option.trim().is_empty()).flat_map(|option| {
        let (name, value) = option.trim().split_once(' ').unwrap();
        [format!("--{name}"), value.to_owned()]
    });
    let sources = Sources { words: words.collect(), ..Sources::default() };
    let (config, _) = Config::load(&sources, &RealFiles).unwrap();
    Arc::new(getid_server::settings::session_settings(&config).unwrap())
}

fn with_users(settings: &Settings, users: &Users) -> Arc<Settings> {
    Arc::new(Settings { users: Arc::new(users.clone()), ..settings.clone() })
}

/// A session without a server: requests in, replies out. Effects are not run, and each draw is refused with `NOIDS`.
struct Bare {
    session: Session,
    turn: Turn,
}

impl Bare {
    fn new(settings: &Arc<Settings>, origin: Origin) -> Bare {
        Bare { session: Session::new(1, Arc::clone(settings)).from(origin), turn: Turn::default() }
    }

    /// Returns the replies to these lines, each to its end; an effect has none.
    fn ask(&mut self, lines: &str) -> String {
        let input = lines.replace('\n', "\r\n") + "\r\n";
        let (mut used, mut output) = (0, Vec::new());
        loop {
            used += self.session.read(&input.as_bytes()[used..], &mut self.turn);
            let refused = ErrorReply::fixed(ErrorKind::Unavailable, "NOIDS");
            self.session.write(&self.turn, Err(&refused), &mut output);
            self.session.permit_logins(self.turn.logins_held);
            if !self.turn.more || self.turn.close {
                return String::from_utf8_lossy(&output).into_owned();
            }
        }
    }
}

/// Every command from this machine and from elsewhere, with and without the guard; every protection with every kind of
/// login. Each directly and in `MULTI`.
#[test]
fn commands_that_change_the_server_need_a_login_from_elsewhere() {
    // Values of sequences are left out: permissions are decided before.
    let users = "--sequence-store none --user ops on >pw +@all ~* &* --user open on nopass +@all ~* &*";
    let modes = [
        ("", true),
        ("--protected-mode no", false),
        ("--bind 0.0.0.0", true),
        ("--bind 0.0.0.0 --protected-mode yes", true),
        ("--protected-mode yes", true),
        ("--bind 0.0.0.0 --protected-mode no", false),
    ];
    let logins = [
        ("AUTH open x", false),
        ("AUTH ops pw", true),
        ("PING", false),
        ("AUTH default x", false),
        ("HELLO 3 AUTH default x", false),
        ("AUTH ops wrong", false),
        ("AUTH ops pw\nRESET", false),
        ("AUTH ops pw\nAUTH open x", false),
        ("HELLO 2 AUTH ops pw\nHELLO 3 AUTH open x", false),
        ("MULTI\nAUTH open x\nEXEC", false),
        ("HELLO 3 AUTH ops pw", true),
        ("AUTH open x\nHELLO 3 AUTH ops pw", true),
        ("AUTH ops pw\nAUTH ops wrong", true),
        ("MULTI\nAUTH ops pw\nEXEC", true),
    ];
    let mut tried = 0;
    for (at_mode, (mode, guards)) in modes.into_iter().enumerate() {
        let settings = settings_of(&format!("{mode} {users}"));
        for origin in [Origin::ThisMachine, Origin::Elsewhere] {
            for (at_login, (login, has_proved)) in logins.into_iter().enumerate() {
                let tries_all = at_mode < 2 && at_login < 2;
                let few = ["config|set", "shutdown", "ping", "info"];
                for command in rows().filter(|command| tries_all || few.contains(&command.full_name)) {
                    let Some(request) = crate::support::request_of(command) else { continue };
                    let is_kept =
                        guards && origin == Origin::Elsewhere && !has_proved && GUARDED.contains(&command.full_name);
                    let case = format!("{mode:?} {origin:?} {login:?} {request:?}");
                    for lines in [request.clone(), format!("MULTI\n{request}")] {
                        let mut bare = Bare::new(&settings, origin);
                        bare.ask(login);
                        let reply = bare.ask(&lines);
                        // Some are refused in MULTI in any case.
                        let is_refused =
                            reply.contains("-DENIED ") || (is_kept && reply.contains("not allowed inside"));
                        assert_eq!(is_refused, is_kept, "{case}: {reply}");
                        assert!(!is_kept || bare.turn.effect.is_none(), "{case}");
                        tried += 1;
                    }
                }
            }
        }
    }
    assert!(tried > 2000, "only {tried}");
    assert!(GUARDED.iter().all(|name| rows().any(|command| command.full_name == *name)));
}

/// Every command with a key, for a sequence that answers with sealed texts: without the right to open them, directly
/// and in `MULTI`, and without the login that opening needs from elsewhere.
#[test]
fn the_value_of_a_sealed_sequence_needs_the_right_to_open() {
    let settings = crate::shell::settings(&Options { sealed: true, sequences: true, ..Options::default() });
    let settings = |rules: &[&str], protection| {
        let users = settings.users.with_user(b"default", rules).unwrap();
        Arc::new(Settings { users: Arc::new(users), protection, ..settings.clone() })
    };
    let nothing = Protection::Nothing;
    let cases = [
        (settings(&["-openid"], nothing), Origin::ThisMachine, true),
        (settings(&["-@all", "+@all", "-@dangerous"], nothing), Origin::ThisMachine, true),
        (settings(&["resetkeys", "-openid", "(+openid ~other)", "~member"], nothing), Origin::ThisMachine, true),
        (settings(&[], Protection::Commands), Origin::Elsewhere, true),
        (settings(&[], nothing), Origin::ThisMachine, false),
        (settings(&["-@dangerous", "+openid"], nothing), Origin::Elsewhere, false),
    ];
    let mut refused = 0;
    for command in rows().filter(|command| !command.keys.is_empty()) {
        let first = usize::from(command.keys[0].first);
        let words = command.full_name.split('|').count();
        let len = (command.arity.unsigned_abs() as usize).max(first + 2);
        let len = if command.arity > 0 { command.arity.unsigned_abs() as usize } else { len };
        let mut args: Vec<_> = command.full_name.split('|').collect();
        args.resize(len.max(words), "member");
        if command.keys[0].range == KeyRange::Counted {
            args[first] = "1";
        }
        let request = args.join(" ");
        let shows = !WITHOUT_VALUES.contains(&command.full_name);
        for (settings, origin, lacks) in &cases {
            for lines in [request.clone(), format!("MULTI\n{request}\nEXEC")] {
                let mut bare = Bare::new(settings, *origin);
                let reply = bare.ask(&lines);
                let is_denied = ["-NOPERM this user", "-NOPERM User", "-DENIED", "-EXECABORT"];
                if is_denied.iter().any(|error| reply.contains(error)) {
                    continue;
                }
                let is_refused = reply.contains("-NOPERM the value of a sealed sequence needs the right 'openid'");
                assert_eq!(is_refused, shows && *lacks, "{lines:?} from {origin:?}: {reply}");
                assert!(!is_refused || bare.turn.effect.is_none(), "{lines:?}");
                refused += usize::from(is_refused);
            }
        }
    }
    assert!(refused > 100, "only {refused}");
    let mut bare = Bare::new(&cases[0].0, Origin::ThisMachine);
    assert_eq!(bare.ask("GET orders"), "");
    assert!(bare.turn.effect.is_some(), "other sequences are read");
    bare.ask("SEQUENCE LIST");
    let shown = format!("{:?}", bare.turn.effect);
    assert!(shown.contains("hidden: [\"member\"]"), "{shown}");
}

/// Every command of the table: three run, those that cannot be denied are left out, and all others are refused.
#[test]
fn a_user_runs_what_its_rules_allow_and_nothing_else() {
    let mut shell = Shell::new(&Options::default());
    let mut ask =
        |lines: &str| String::from_utf8(shell.talk(format!("{lines}\r\n").as_bytes(), usize::MAX)).expect("text");
    assert_eq!(ask("ACL SETUSER app on >pw -@all +getid +mgetid +ping"), "+OK\r\n");
    let mut tried = 0;
    for command in rows().filter(|command| !command.flags.has(CommandFlags::NO_AUTH)) {
        let Some(request) = crate::support::request_of(command) else { continue };
        tried += 1;
        assert_eq!(ask("AUTH app pw"), "+OK\r\n");
        let reply = ask(&request);
        let denied = format!("NOPERM this user has no permissions to run the '{}' command\r\n", command.full_name);
        match command.full_name {
            "getid" => assert!(reply.starts_with(':'), "{reply}"),
            "mgetid" => assert!(reply.starts_with("*1\r\n$18\r\n"), "{reply}"),
            "ping" => assert_eq!(reply, "+PONG\r\n"),
            "exec" => assert_eq!(reply, format!("-EXECABORT Transaction discarded because of: {denied}")),
            _ => assert_eq!(reply, format!("-{denied}"), "{request}"),
        }
    }
    assert!(tried > 50, "only {tried} commands");
}

/// GETID has a separate path, as an array and in pipelines: a change of the rules applies there from the next read.
#[test]
fn getid_can_be_denied_and_allowed_again() {
    let settings = settings_of("--user app on >pw +@all -getid");
    let getids = "*1\n$5\nGETID\n*1\n$5\nGETID";
    let mut bare = Bare::new(&settings, Origin::ThisMachine);
    assert_eq!(bare.ask("AUTH app pw"), "+OK\r\n");
    let denied = "-NOPERM this user has no permissions to run the 'getid' command\r\n".repeat(2);
    assert_eq!(bare.ask(getids), denied);
    let mut users = Users::clone(&settings.users);
    for (rule, expected) in [("+getid", "-NOIDS\r\n-NOIDS\r\n"), ("-@all", &*denied)] {
        users = users.with_user(b"app", &[rule]).unwrap();
        bare.session.set_settings(with_users(&settings, &users));
        assert_eq!(bare.ask(getids), expected, "{rule}");
    }
}

#[test]
fn the_default_user_decides_whether_a_password_is_needed() {
    let settings = settings_of("--requirepass secret");
    let [mut admin, mut early] = [(); 2].map(|()| Bare::new(&settings, Origin::ThisMachine));
    assert_eq!(admin.ask("AUTH secret"), "+OK\r\n");
    let noauth = "-NOAUTH Authentication required.\r\n";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let without_password = "-ERR AUTH <password> called without any password configured for the default user. Are you \
                            sure your configuration is correct?\r\n";
    assert_eq!(early.ask("PING"), noauth);
    let mut users = Users::clone(&settings.users);
    for (rules, asked) in [
        // As in Redis: no login is required, except for HELLO.
        (&["nopass"][..], &[("PING", "+PONG\r\n"), ("AUTH x", without_password)][..]),
        (&["off"], &[("PING", noauth), ("AUTH default x", wrong)]),
        (&["on", ">new"], &[("AUTH default secret", wrong), ("AUTH default new", "+OK\r\n"), ("PING", "+PONG\r\n")]),
    ] {
        users = users.with_user(b"default", rules).unwrap();
        let changed = with_users(&settings, &users);
        admin.session.set_settings(Arc::clone(&changed));
        early.session.set_settings(Arc::clone(&changed));
        assert_eq!(admin.ask("PING"), "+PONG\r\n", "{rules:?}");
        if rules == ["nopass"] {
            assert!(early.ask("HELLO").starts_with("-NOAUTH HELLO must be called"));
        }
        for (request, expected) in asked {
            assert_eq!(early.ask(request), *expected, "{rules:?}: {request}");
        }
    }
}

/// A login belongs to a user, not to a name: a user that is deleted and created again is another.
#[test]
fn a_login_does_not_pass_to_the_next_user_of_that_name() {
    let settings = settings_of("--user x on >pw +@all");
    let set = |users: &Users, rule: &str| users.with_user(b"x", &["on", rule, "+@all"]).unwrap();
    let mut bare = Bare::new(&settings, Origin::ThisMachine);
    assert_eq!(bare.ask("AUTH x pw\nACL WHOAMI"), "+OK\r\n$1\r\nx\r\n");
    let changed = set(&settings.users, ">more");
    bare.session.set_settings(with_users(&settings, &changed));
    assert_eq!(bare.ask("ACL WHOAMI"), "$1\r\nx\r\n");
    let again = set(&changed.without(&["x"]).0, ">pw");
    bare.session.set_settings(with_users(&settings, &again));
    assert!(bare.session.has_lost_user());
    assert_eq!(bare.ask("ACL WHOAMI"), "");
    assert!(bare.turn.close);
    // The login stays lost even when its own user is put back.
    bare.session.set_settings(with_users(&settings, &changed));
    assert_eq!(bare.ask("AUTH x pw"), "");
}
