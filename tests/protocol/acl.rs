//! Users and their rules: permissions, descriptions, and arbitrary bytes.
//!
//! `tests/protocol/transcripts/access.txt` compares the replies to rules with a real Redis.

use getid_redis::acl::{
    self, AclLog, Context, Denial, DenialOrigin, DenialReason, GUESSES_PER_S_MAX, LoginLimiter, LoginSource, Origin,
    Protection, RULES_BYTES_MAX, RULES_MAX, RuleError, SOURCES_MAX, SetUserError, User, Users, parse_file,
};
use getid_redis::command::{Categories, Command, CommandFlags, TABLE};
use getid_redis::resp::{Args, Protocol, Span, Value, encode};
use proptest::prelude::*;

pub(crate) fn rows() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands))
}

fn user(rules: &str) -> User {
    let mut user = User::new("u");
    for rule in rules.split_whitespace() {
        user.apply_rule(rule.as_bytes()).unwrap_or_else(|error| panic!("{rules}: {rule}: {error}"));
    }
    user
}

/// Returns the full names of all rows that a user may run, except those that no rule can deny.
fn allowed(user: &User) -> Vec<&'static str> {
    let checked = rows().filter(|command| !command.flags.has(CommandFlags::NO_AUTH));
    checked.filter(|command| user.may(command)).map(|command| command.full_name).collect()
}

#[test]
fn nothing_is_allowed_at_first_and_all_by_all() {
    assert_eq!(allowed(&User::new("u")), Vec::<&str>::new());
    assert_eq!(allowed(&user("+@all -@all")), Vec::<&str>::new());
    for all in ["+@all", "allcommands", "ALLCOMMANDS"] {
        assert!(rows().all(|command| user(all).may(command)), "{all}");
    }
    for command in rows().filter(|command| command.flags.has(CommandFlags::NO_AUTH)) {
        assert!(User::new("u").may(command), "{}", command.full_name);
    }
}

#[test]
fn every_row_is_allowed_and_denied_by_its_name_only() {
    for command in rows().filter(|command| !command.flags.has(CommandFlags::NO_AUTH)) {
        // A container brings its subcommands.
        let own: Vec<_> =
            std::iter::once(command).chain(command.subcommands).map(|command| command.full_name).collect();
        let name = command.full_name.to_uppercase();
        assert_eq!(allowed(&user(&format!("-@all +{name}"))), own);
        let others: Vec<_> = allowed(&user("+@all")).into_iter().filter(|name| !own.contains(name)).collect();
        assert_eq!(allowed(&user(&format!("+@all -{name}"))), others);
    }
}

#[test]
fn a_category_is_its_commands_and_what_their_containers_hold() {
    for (name, category) in [
        ("keyspace", Categories::KEYSPACE),
        ("read", Categories::READ),
        ("write", Categories::WRITE),
        ("string", Categories::STRING),
        ("hash", Categories::HASH),
        ("pubsub", Categories::PUBSUB),
        ("scripting", Categories::SCRIPTING),
        ("admin", Categories::ADMIN),
        ("fast", Categories::FAST),
        ("slow", Categories::SLOW),
        ("dangerous", Categories::DANGEROUS),
        ("connection", Categories::CONNECTION),
        ("transaction", Categories::TRANSACTION),
    ] {
        let given = user(&format!("+@{name}"));
        let taken = user(&format!("+@all -@{name}"));
        for container in TABLE {
            for command in std::iter::once(container).chain(container.subcommands) {
                if command.flags.has(CommandFlags::NO_AUTH) {
                    continue;
                }
                let is_in = command.categories.has(category) || container.categories.has(category);
                assert_eq!(given.may(command), is_in, "+@{name}: {}", command.full_name);
                assert_eq!(taken.may(command), !is_in, "-@{name}: {}", command.full_name);
            }
        }
    }
}

#[test]
fn categories_are_those_of_redis_with_the_commands_that_are_here() {
    let Value::Array(names) = acl::categories() else { panic!() };
    assert_eq!(names.len(), 21);
    let mut found = 0;
    for name in names {
        let Value::Bulk(name) = name else { panic!() };
        let Some(Value::Array(commands)) = acl::commands_in(&name.to_ascii_uppercase()) else { panic!("{name:?}") };
        found += commands.len();
        assert!(User::new("u").apply_rule(&[b"+@", &name[..]].concat()).is_ok());
    }
    assert_eq!(found, rows().map(|command| command.categories.names().count()).sum::<usize>());
    assert_eq!(acl::commands_in(b"nope"), None);
}

#[test]
fn a_first_argument_may_be_all_that_is_allowed() {
    let ask = |user: &User, words: &[&str]| {
        let bytes = words.concat();
        let mut end = 0;
        let spans: Vec<Span> = words
            .iter()
            .map(|word| {
                end += word.len();
                Span { start: end - word.len(), end }
            })
            .collect();
        let command = TABLE.iter().find(|command| command.name == words[0]).unwrap();
        user.check(command, Args::new(bytes.as_bytes(), &spans), None).is_ok()
    };
    let zero = user("-@all +select|0 +echo|Hi");
    assert!(ask(&zero, &["select", "0"]) && ask(&zero, &["echo", "hI"]));
    assert!(!ask(&zero, &["select", "1"]) && !ask(&zero, &["select"]) && !ask(&zero, &["echo", "0"]));
    assert!(!ask(&user("+select|0 -select"), &["select", "0"]));
    assert!(!ask(&user("+select|0 -@connection"), &["select", "0"]));
    assert!(ask(&user("+select|0 (+select|1)"), &["select", "1"]));
}

#[test]
fn rules_are_shown_as_redis_7_2_shows_them() {
    for (rules, shown) in [
        ("", "off sanitize-payload resetchannels -@all"),
        ("ON NoPass AllKeys AllChannels AllCommands", "on nopass sanitize-payload ~* &* +@all"),
        ("+getid -getid +getid", "off sanitize-payload resetchannels -@all +getid"),
        ("+config|get -config", "off sanitize-payload resetchannels -@all -config"),
        ("-config +config|get", "off sanitize-payload resetchannels -@all -config +config|get"),
        ("+@read +get -@read", "off sanitize-payload resetchannels -@all +get -@read"),
        ("+cluster|info +cluster", "off sanitize-payload resetchannels -@all +cluster"),
        ("%R~a %W~a %w~b ~c ~c", "off sanitize-payload ~a %W~b ~c resetchannels -@all"),
        ("%RW~*", "off sanitize-payload ~* resetchannels -@all"),
        ("&a &b &a", "off sanitize-payload resetchannels &a &b -@all"),
        ("skip-sanitize-payload nopass", "off nopass skip-sanitize-payload resetchannels -@all"),
        ("nopass resetpass", "off sanitize-payload resetchannels -@all"),
    ] {
        assert_eq!(user(rules).describe(), shown, "{rules}");
    }
}

#[test]
fn a_password_is_one_of_those_set() {
    let logs_in = |rules: &str, password: &str| {
        let rules: Vec<&str> = rules.split_whitespace().collect();
        Users::default().with_user(b"u", &rules).unwrap().log_in(b"u", password.as_bytes()).is_some()
    };
    assert!(logs_in("on >a >b", "a") && logs_in("on >a >b", "b"));
    assert!(!logs_in("on >a >b", "c") && !logs_in("on >a >b", "") && !logs_in("on >a", "A"));
    assert!(!logs_in("on >a <a", "a") && !logs_in("on >a resetpass", "a") && !logs_in("on", ""));
    assert!(logs_in("on nopass", "anything") && !logs_in("off nopass", "anything") && !logs_in("on nopass >a", "b"));
    assert!(Users::default().log_in(b"default", b"").is_some());
    assert!(Users::default().log_in(b"noname", b"").is_none());
    // Any bytes.
    let users = Users::default().with_user(b"u", &[&b"on"[..], b">\xff\0 "]).unwrap();
    assert!(users.log_in(b"u", b"\xff\0 ").is_some() && users.log_in(b"u", b"\xff\0").is_none());
}

#[test]
fn requirepass_is_the_default_users_only_password() {
    let users = Users::default().with_user(b"default", &["-@all", "+ping"]).unwrap();
    let users = users.with_default_password(Some("a")).with_default_password(Some("b"));
    assert!(users.log_in(b"default", b"a").is_none() && users.log_in(b"default", b"b").is_some());
    assert_eq!(allowed(users.default_user()), ["ping"]);
    let open = users.with_default_password(None);
    assert!(open.default_user().is_open());
    assert_eq!(open.describe_all(), ["user default on nopass sanitize-payload ~* &* -@all +ping"]);
}

#[test]
fn a_user_is_set_whole_or_not_at_all() {
    let users = Users::default().with_user(b"u", &["on", ">p", "+ping"]).unwrap();
    let before = users.describe_all();
    assert_eq!(
        users.with_user(b"u", &["+getid", "+nope"]).unwrap_err(),
        SetUserError::Rule { index: 1, rule: b"+nope".to_vec(), error: RuleError::Unknown }
    );
    assert_eq!(users.describe_all(), before);
    for name in ["a b", "a\tb", "a\0b", &"n".repeat(acl::NAME_BYTES_MAX + 1)] {
        assert_eq!(users.with_user(name.as_bytes(), &["on"]).unwrap_err(), SetUserError::Name);
    }
    assert_eq!(users.with_user(b"\xff", &["on"]).unwrap_err(), SetUserError::Name);
    assert_eq!(users.with_user(b"u", &["(+a", "b", "on"]).unwrap_err(), SetUserError::Parenthesis { start: 0 });
    let long = format!("~{}", "k".repeat(RULES_BYTES_MAX));
    assert_eq!(users.with_user(b"u", &[long]).unwrap_err(), SetUserError::TooLong);
    let half = format!("~{}", "k".repeat(RULES_BYTES_MAX * 2 / 3));
    let users = users.with_user(b"u", std::slice::from_ref(&half)).unwrap();
    assert_eq!(users.with_user(b"u", &[half + "x"]).unwrap_err(), SetUserError::TooLong);
}

/// Redis 7.0.15 accepts all of these, and then cannot load the file that it saves.
#[test]
fn rules_that_could_not_be_read_again_are_refused() {
    for rule in ["+select|a b", "+select|0\nuser evil on nopass +@all", "+get|a\tb", "+get|\0", "(~a) +ping)", "(~a))"]
    {
        let error = User::new("u").apply_rule(rule.as_bytes());
        assert_eq!(error, Err(RuleError::Syntax), "{rule:?}");
    }
    // As in Redis: no such subcommand.
    assert_eq!(User::new("u").apply_rule(b"+config|a b"), Err(RuleError::Unknown));
}

/// A user with the longest permitted rules and the longest name.
#[test]
fn the_longest_user_is_read_again() {
    let name = "n".repeat(acl::NAME_BYTES_MAX);
    let rest = "off sanitize-payload ~ resetchannels -@all".len();
    let [longest, longer] = [0, 1].map(|more| format!("~{}", "k".repeat(RULES_BYTES_MAX - rest + more)));
    let users = Users::default().with_user(name.as_bytes(), &[longest]).unwrap();
    let lines = users.describe_all();
    let text = lines.join("\n");
    assert_eq!(parse_file("f", text.as_bytes()).unwrap().describe_all(), lines);
    assert_eq!(users.with_user(b"u", &[longer]).unwrap_err(), SetUserError::TooLong);
}

#[test]
fn rules_are_counted() {
    let users = Users::default();
    let is_too_many = |rules: &[&str]| users.with_user(b"u", rules).err() == Some(SetUserError::TooManyRules);
    // Rules without effect count too; in a selector each word counts, however it is spread.
    assert!(users.with_user(b"u", &vec![""; RULES_MAX]).is_ok());
    assert!(is_too_many(&vec![""; RULES_MAX + 1]) && is_too_many(&vec!["on"; RULES_MAX + 1]));
    assert_eq!(users.with_user(b"u", &vec!["+ping"; RULES_BYTES_MAX]).err(), Some(SetUserError::TooLong));
    let many = "+ping ".repeat(RULES_MAX);
    assert!(users.with_user(b"u", &[format!("({}+ping)", &many[..many.len() / 2])]).is_ok());
    assert!(is_too_many(&[&format!("({many})")]) && is_too_many(&["(+ping", &many, "+ping)"]));
    // Blanks are part of a password.
    assert!(users.with_user(b"u", &[format!(">{}", " ".repeat(2 * RULES_MAX))]).is_ok());
    // Additional rules may not exceed the limit either.
    let keys = |from: usize| (from..from + 1000).map(|key| format!("~{key}")).collect::<Vec<_>>();
    let users = users.with_user(b"u", &keys(0)).unwrap();
    assert_eq!(users.with_user(b"u", &keys(1000)).err(), Some(SetUserError::TooManyRules));
    // Passwords have the length of their digests, whatever they are.
    let passwords: Vec<_> = (0..1000).map(|password| format!(">{password}")).collect();
    assert_eq!(users.with_user(b"v", &passwords).err(), Some(SetUserError::TooLong));
    assert!(users.with_user(b"v", &passwords[..900]).is_ok());
    // In a file too.
    let line = format!("user u {}", "on ".repeat(RULES_MAX + 1));
    assert_eq!(file_faults(&line), [(1, format!("f:1: {}. ", SetUserError::TooManyRules))]);
}

#[test]
fn the_default_user_cannot_be_removed() {
    let users = Users::default().with_user(b"a", &["on"]).unwrap().with_user(b"z", &["on"]).unwrap();
    let (users, removed) = users.without(&["z", "default", "noname", "z"]);
    assert_eq!(removed.iter().map(|name| &**name).collect::<Vec<_>>(), ["z"]);
    assert_eq!(users.iter().map(|user| &**user.name()).collect::<Vec<_>>(), ["a", "default"]);
}

#[test]
fn users_are_listed_by_name() {
    let names = ["b", "zeta", "alpha", "defaulu", "defaul"];
    let users = names.iter().fold(Users::default(), |users, name| users.with_user(name.as_bytes(), &["on"]).unwrap());
    let listed: Vec<_> = users.iter().map(|user| user.name().to_string()).collect();
    assert_eq!(listed, ["alpha", "b", "defaul", "default", "defaulu", "zeta"]);
}

#[track_caller]
fn file_faults(text: &str) -> Vec<(usize, String)> {
    let faults = parse_file("f", text.as_bytes()).unwrap_err();
    faults.into_iter().map(|fault| (fault.line, fault.in_redis)).collect()
}

/// Error texts are those of Redis 7.0.15 for the same lines, except for the open parenthesis, which crashes it.
#[test]
fn a_file_is_loaded_whole_or_not_at_all() {
    let text = "\n  user alice  on >pw -@all +ping\r\n\nuser bob on (+ping +echo )\t\nuser default on nopass +@all";
    let users = parse_file("f", text.as_bytes()).unwrap();
    assert_eq!(
        users.describe_all()[1],
        "user bob on sanitize-payload resetchannels -@all (resetchannels -@all +ping +echo)"
    );
    assert!(users.log_in(b"alice", b"pw").is_some());
    assert_eq!(parse_file("f", b"").unwrap().describe_all(), Users::default().describe_all());

    let text = "user alice on >pw -@all +ping\nuser alice on\n\n  # c\nuser\nuser bob on +nope blah (on +ping\n\
                user carl on (+ping +echo) #x\nuser \"q x\" on\n user dan\ton\nuser eve +nope blah #1 -nop";
    assert_eq!(
        file_faults(text),
        [
            (2, "WARNING: Duplicate user 'alice' found on line 2. "),
            (4, "f:4 should start with user keyword followed by the username. "),
            (5, "f:5 should start with user keyword followed by the username. "),
            (6, "f:6: Unmatched parenthesis in selector definition. "),
            (7, "f:7: The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters. "),
            (8, "f:8: Syntax error. "),
            (9, "'f:9: username 'dan\ton' contains invalid characters. "),
            (10, "f:10: Error in applying operation '+nope': Unknown command or category name in ACL. "),
            (10, "f:10: Syntax error. "),
            (10, "f:10: Error in applying operation '-nop': Unknown command or category name in ACL. "),
        ]
        .map(|(line, text)| (line, text.to_owned()))
    );
    // A file of another kind does not fill the memory with errors.
    assert_eq!(file_faults(&"x\n".repeat(1000)).len(), 100);
}

#[test]
fn refusals_that_are_alike_are_one_entry() {
    let mut log = AclLog::default();
    let origin = DenialOrigin { source: LoginSource::Unix, is_known_user: true };
    let denial = |object: &str, count| Denial {
        reason: DenialReason::Command,
        context: Context::TopLevel,
        object: object.to_owned(),
        user: "u".into(),
        count,
    };
    let shown = |log: &AclLog, count, now_ms| {
        let mut out = Vec::new();
        let entries = log.latest(count).iter().map(|entry| entry.to_value(now_ms)).collect();
        encode(&Value::Array(entries), Protocol::Resp2, &mut out);
        String::from_utf8(out)
            .unwrap()
            .split("\r\n")
            .filter(|line| !line.starts_with('$'))
            .collect::<Vec<_>>()
            .join(" ")
    };
    log.note(denial("a", 2), origin, "id=1".into(), 1_000, 128);
    log.note(denial("b", 1), origin, "id=1".into(), 2_000, 128);
    log.note(denial("a", 1), origin, "id=2".into(), 61_000, 128);
    assert_eq!(
        shown(&log, 10, 61_500),
        "*2 *20 count :3 reason command context toplevel object a username u age-seconds 0.5 client-info id=2 entry-id :0 \
         timestamp-created :1000 timestamp-last-updated :61000 *20 count :1 reason command context toplevel object b \
         username u age-seconds 59.5 client-info id=1 entry-id :1 timestamp-created :2000 timestamp-last-updated :2000 "
    );
    // After more than a minute a refusal is a new entry.
    log.note(denial("b", 1), origin, "id=1".into(), 62_001, 128);
    assert!(shown(&log, 1, 62_001).contains("entry-id :2"), "{}", shown(&log, 1, 62_001));
    // The number of entries is bounded; the oldest go.
    log.note(denial("c", 1), origin, "id=1".into(), 62_002, 2);
    assert!(shown(&log, 9, 62_002).starts_with("*2 *20 count :1 reason command context toplevel object c"));
    log.note(denial("c", 1), origin, "id=1".into(), 62_002, 0);
    assert_eq!(shown(&log, 9, 62_002), "*0 ");
    log.note(denial("c", 1), origin, "id=1".into(), 62_003, 2);
    log.reset();
    assert_eq!(shown(&log, 9, 62_003), "*0 ");
}

/// Returns words that are rules, most of them valid.
fn rule() -> impl Strategy<Value = String> {
    let full_names: Vec<_> = rows().map(|command| command.full_name.to_owned()).collect();
    let Value::Array(categories) = acl::categories() else { panic!() };
    let categories = categories.into_iter().map(|name| match name {
        Value::Bulk(name) => format!("@{}", String::from_utf8_lossy(&name)),
        _ => panic!(),
    });
    let mut all = full_names;
    all.extend(categories);
    all.extend(["@all", "get", "set", "cluster|info", "debug|object", "select|0", "echo|Hi"].map(str::to_owned));
    let named = (prop::bool::ANY, prop::sample::select(all))
        .prop_map(|(plus, name)| format!("{}{name}", if plus { '+' } else { '-' }));
    let fixed = prop::sample::select(vec![
        "on",
        "off",
        "nopass",
        "resetpass",
        "reset",
        "allkeys",
        "resetkeys",
        "allchannels",
        "resetchannels",
        "allcommands",
        "nocommands",
        "clearselectors",
        "sanitize-payload",
        "skip-sanitize-payload",
        "~*",
        "&*",
        "%R~*",
        "%W~*",
        "",
    ])
    .prop_map(str::to_owned);
    let free = "[~&><]{1}[a-c*]{0,3}|%[RWrw]{1,2}~[a-c*]{0,2}";
    let single = prop_oneof![4 => named, 2 => fixed, 2 => free];
    let selector = prop::collection::vec(single.clone(), 0..4).prop_map(|rules| format!("({})", rules.join(" ")));
    prop_oneof![6 => single, 1 => selector]
}

proptest! {
    #![proptest_config(crate::cases(100))]

    /// A user's description makes the same user.
    #[test]
    fn a_description_applied_is_the_same_user(rules in prop::collection::vec(rule(), 0..20)) {
        let mut one = User::new("u");
        for rule in &rules {
            let before = one.describe();
            if one.apply_rule(rule.as_bytes()).is_err() {
                prop_assert_eq!(one.describe(), before, "{} was refused and changed something", rule);
            }
        }
        let text = one.describe();
        let words: Vec<&str> = text.split(' ').collect();
        let users = Users::default().with_user(b"u", &words).unwrap();
        let other = users.get(b"u").unwrap();
        prop_assert_eq!(other.describe(), text);
        prop_assert_eq!(allowed(other), allowed(&one));
        // A file with the descriptions does too.
        let file = users.describe_all().join("\n");
        prop_assert_eq!(parse_file("f", file.as_bytes()).unwrap().describe_all(), users.describe_all());
    }

    /// The last rule about a command decides.
    #[test]
    fn the_last_rule_about_a_command_decides(
        rules in prop::collection::vec(rule(), 0..20),
        at in 0..rows().count(),
        plus in prop::bool::ANY,
    ) {
        let command = rows().nth(at).unwrap();
        let last = format!("{}{}", if plus { '+' } else { '-' }, command.full_name);
        let mut user = User::new("u");
        for rule in rules.iter().filter(|rule| !rule.starts_with('(')).chain([&last]) {
            let _ = user.apply_rule(rule.as_bytes());
        }
        prop_assert_eq!(user.may(command), plus || command.flags.has(CommandFlags::NO_AUTH));
    }

    #[test]
    fn no_bytes_panic_the_rules(rules in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..24), 0..8)) {
        let mut user = User::new("u");
        for rule in &rules {
            let _ = user.apply_rule(rule);
        }
        let _ = Users::default().with_user(b"u", &rules);
        for fault in parse_file("f", &rules.join(&b"\nuser "[..])).err().into_iter().flatten() {
            prop_assert!(!fault.sentence.contains(char::is_control), "{:?}", fault.sentence);
        }
    }
}

/// Effect of `protected-mode` and `bind` on each client: whether it is turned away, and whether commands are refused.
#[test]
fn protection_turns_clients_away_or_guards_commands() {
    use Origin::{Elsewhere, ThisMachine};
    // The protection in force; whether a client from elsewhere is turned away without a password; whether its commands
    // are refused without a login.
    let table = [
        (Protection::without_word(false), true, true),
        (Protection::without_word(true), false, true),
        (Protection::Connections, true, true),
        (Protection::Commands, false, true),
        (Protection::Nothing, false, false),
    ];
    for (protection, is_refused, guarded) in table {
        let case = format!("{protection:?}");
        assert_eq!(protection.refuses_connection(Elsewhere, true), is_refused, "{case}");
        assert_eq!(protection.guards(Elsewhere, false), guarded, "{case}");
        assert!(!protection.refuses_connection(Elsewhere, false) && !protection.guards(Elsewhere, true), "{case}");
        for has_proved in [true, false] {
            assert!(
                !protection.refuses_connection(ThisMachine, true) && !protection.guards(ThisMachine, has_proved),
                "{case}"
            );
        }
    }
    for (address, origin) in [
        ("127.0.0.1", ThisMachine),
        ("127.9.9.9", ThisMachine),
        ("::1", ThisMachine),
        ("::ffff:127.0.0.1", ThisMachine),
        ("::ffff:192.0.2.1", Elsewhere),
        ("192.0.2.1", Elsewhere),
        ("2001:db8::1", Elsewhere),
        ("0.0.0.0", Elsewhere),
    ] {
        assert_eq!(Origin::of(address.parse().unwrap()), origin, "{address}");
    }
}

/// A user that was deleted and created again is another; after `ACL LOAD` it stays the same.
#[test]
fn a_user_that_is_set_again_is_another() {
    let with = |users: &Users, rules: &[&str]| users.with_user(b"x", rules).unwrap();
    let first = with(&Users::default(), &["on", ">pw"]);
    let x = |users: &Users| User::clone(users.get(b"x").unwrap());
    let changed = with(&first, &["reset", "on", ">other", "+@all"]);
    assert!(x(&first).is_same(&x(&changed)));
    let (removed, _) = changed.without(&["x"]);
    let again = with(&removed, &["on", ">pw"]);
    assert!(!x(&first).is_same(&x(&again)));
    let loaded = |text: &[u8]| parse_file("f", text).unwrap();
    let kept = loaded(b"user y on\nuser x on\n").in_place_of(&again);
    assert!(x(&kept).is_same(&x(&again)) && !x(&kept).is_same(&x(&first)));
    let empty = loaded(b"").in_place_of(&kept);
    let back = loaded(b"user x on").in_place_of(&empty);
    assert!(!x(&back).is_same(&x(&kept)) && !x(&back).is_same(&x(&first)));
    assert!(first.default_user().is_same(back.default_user()));
}

/// A client without the right to set users does not see digests, from which passwords can be guessed.
#[test]
fn digests_are_left_out() {
    let users = Users::default().with_user(b"x", &["on", ">pw", ">second"]).unwrap();
    let x = users.get(b"x").unwrap();
    assert_eq!(x.describe_redacted(), "on sanitize-payload #(redacted) #(redacted) resetchannels -@all");
    assert!(!format!("{:?}", x.to_value(false)).contains("30c952fa"));
    assert!(format!("{:?}", x.to_value(true)).contains("30c952fa"));
    assert!(users.describe_all().concat().contains("30c952fa"));
}

fn address(number: u32) -> LoginSource {
    LoginSource::of(std::net::Ipv4Addr::from_bits(number).into())
}

const S: u64 = 1_000_000_000;

/// In no second are there more guesses than permitted, however many clients guess and whether or not they read replies.
#[test]
fn guesses_from_an_address_are_limited() {
    let mut limiter = LoginLimiter::default();
    let mut tried: Vec<u64> = Vec::new();
    // A thousand at once, and again each 100 ms; a third of them leaves while it waits.
    for round in 0..40 {
        let now = S + round * S / 10;
        for at in 0..1000 {
            let from = limiter.acquire(address(1), 1, now);
            if at % 3 == 0 && from > now {
                limiter.release(address(1), 1, now);
            } else {
                tried.push(from);
            }
        }
    }
    tried.sort_unstable();
    let mut first = 0;
    for (last, at) in tried.iter().enumerate() {
        while at - tried[first] >= S {
            first += 1;
        }
        assert!(last - first < usize::try_from(GUESSES_PER_S_MAX).unwrap(), "{} within a second", last - first + 1);
    }
    assert!(tried.len() > 10_000);
    // Other addresses do not wait, and right logins cause no delay.
    assert_eq!(limiter.acquire(address(2), 1, S), S);
    for _ in 0..100_000 {
        assert_eq!(limiter.acquire(address(3), 1, S), S);
        limiter.release(address(3), 1, S);
    }
}

#[test]
fn the_reply_to_a_wrong_login_is_delayed() {
    let mut limiter = LoginLimiter::default();
    let mut delay = |source, before, now| limiter.record_failures(source, 1, before, now);
    let delays: Vec<u64> = (0..9).map(|before| delay(address(1), before, S)).collect();
    assert_eq!(delays, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    // Per address, on new connections too.
    (0..1000).for_each(|_| _ = delay(address(2), 0, S));
    assert_eq!(delay(address(2), 0, S), 500);
    assert_eq!(delay(address(2), u64::from(u32::MAX), S), 1000);
    assert_eq!(delay(address(3), 0, S), 10);
    // After a minute the failures are forgotten.
    assert_eq!(delay(address(2), 0, 62 * S), 10);
}

#[test]
fn addresses_that_guess_are_reported_with_their_counts_and_forgotten() {
    let mut limiter = LoginLimiter::default();
    (0..100).for_each(|at| _ = limiter.record_failures(address(1), 1, 0, S + at));
    limiter.record_failures(address(2), 1, 0, S);
    assert_eq!(limiter.unreported(60 * S), []);
    // A single address has a line.
    assert_eq!(limiter.unreported(61 * S), [(address(1), 100)]);
    assert_eq!(limiter.unreported(62 * S), []);
    // Many addresses share a few lines a second, and none of the counts is lost.
    let attackers = u32::try_from(SOURCES_MAX).unwrap() + 100;
    (0..attackers).for_each(|at| _ = limiter.record_failures(address(1000 + at), 2, 0, 300 * S));
    assert_eq!(limiter.addresses(), SOURCES_MAX);
    let mut reported = 0;
    for second in 360..1000 {
        let lines = limiter.unreported(second * S);
        assert!(lines.len() <= 8);
        reported += lines.iter().map(|(_, count)| count).sum::<u64>();
    }
    assert_eq!(reported, 2 * u64::from(attackers));
    // A new address finds room: the earlier ones are forgotten.
    limiter.acquire(address(7), 1, 2000 * S);
    assert_eq!(limiter.addresses(), 1);
}

#[test]
fn an_address_of_ipv6_is_its_network() {
    let of = |text: &str| LoginSource::of(text.parse().unwrap());
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_eq!(of("2001:db8::1").to_string(), "2001:db8::/64");
}

/// Unknown names share one entry per address, and denials of one kind leave half of the log to the other kind.
#[test]
fn made_up_names_do_not_flood_the_log() {
    let mut log = AclLog::default();
    let denial = |reason, object: &str, user: &str| Denial {
        reason,
        context: Context::TopLevel,
        object: object.to_owned(),
        user: user.into(),
        count: 1,
    };
    let origin = |source, is_known_user| DenialOrigin { source, is_known_user };
    let entries = |log: &AclLog| {
        let mut out = Vec::new();
        let entries = log.latest(1000).iter().map(|entry| entry.to_value(0)).collect();
        encode(&Value::Array(entries), Protocol::Resp2, &mut out);
        String::from_utf8(out).unwrap()
    };
    log.note(denial(DenialReason::Command, "config|set", "app"), origin(address(1), true), String::new(), 0, 128);
    log.note(denial(DenialReason::Auth, "AUTH", "ops"), origin(address(2), true), String::new(), 0, 128);
    for at in 0..10_000 {
        let name = format!("name-{at}");
        log.note(denial(DenialReason::Auth, "AUTH", &name), origin(address(2), false), String::new(), 0, 128);
    }
    let text = entries(&log);
    assert!(text.starts_with("*3\r\n"), "{}", &text[..40]);
    assert!(text.contains(":10000\r\n") && text.contains("name-9999") && text.contains("config|set"), "{text}");
    for at in 0..10_000 {
        log.note(denial(DenialReason::Auth, "AUTH", "x"), origin(address(at), false), String::new(), 0, 128);
        log.note(denial(DenialReason::Auth, "AUTH", "ops"), origin(address(at), true), String::new(), 0, 128);
    }
    assert!(entries(&log).contains("config|set"));
    assert_eq!(entries(&log).matches("\r\nreason\r\n").count(), 128);
    for at in 0..10_000 {
        log.note(
            denial(DenialReason::Command, &format!("c-{at}"), "app"),
            origin(address(1), true),
            String::new(),
            0,
            128,
        );
    }
    assert_eq!(entries(&log).matches("\r\nAUTH\r\n").count(), 64);
    assert_eq!(entries(&log).matches("\r\nreason\r\n").count(), 128);
}
