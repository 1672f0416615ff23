//! Random users, compared between a session and a real `redis-server`: permitted commands, and invalid rules.
//!
//! ```text
//! cargo test --test protocol acl_live:: -- --ignored
//! ```

use std::collections::HashSet;

use crate::acl::rows;
use crate::shell::{Options, Shell};
use crate::support::redis::RedisServer;
use crate::support::{Random, Wire};
use getid_redis::acl::User;
use getid_redis::command::Command;

const USERS: usize = 400;

fn ask(redis: &mut Wire, request: &str) -> Vec<u8> {
    redis.send(format!("{request}\r\n"));
    redis.reply()
}

fn words(redis: &mut Wire, request: &str) -> Vec<String> {
    let text = String::from_utf8(ask(redis, request)).unwrap();
    text.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

#[test]
#[ignore = "needs redis-server"]
fn every_name_that_redis_knows_is_known() {
    let server = RedisServer::start(&[]);
    let mut redis = server.connect();
    let commands = words(&mut redis, "COMMAND LIST");
    assert!(commands.len() > 300, "{}", commands.len());
    let categories = words(&mut redis, "ACL CAT").into_iter().map(|name| format!("@{name}"));
    for name in commands.into_iter().chain(categories) {
        for sign in ['+', '-'] {
            let taken = User::new("u").apply_rule(format!("{sign}{name}").as_bytes());
            assert!(taken.is_ok(), "{sign}{name}");
        }
    }
}

/// A generator's name is to GETID as a key is to GET, and to DECODEID as to commands with a key elsewhere in the
/// arguments. So Redis is asked about GET.
#[test]
#[ignore = "needs redis-server"]
fn key_patterns_mean_what_they_mean_in_redis() {
    let server = RedisServer::start(&[]);
    let mut redis = server.connect();
    let mut shell = Shell::new(&Options { generators: true, ..Options::default() });
    let rules = [
        "~*",
        "allkeys -get",
        "~orders:*",
        "%R~orders:*",
        "%W~orders:*",
        "%W~orders:eu %R~orders:[a-f]?",
        "%R~*",
        "~orders:eu -get (+get ~tweets)",
        "resetkeys (+get ~tweets) (~orders:*)",
        "-get +get|orders:eu ~o* (-@all +get %R~t?eets)",
        "-@all ~*",
        "(allkeys +@all)",
        "~ORDERS:EU ~\\\\*",
    ];
    let mut allowed = 0;
    for rules in rules {
        // In both, the rules concern the command of the request.
        let (ours, theirs) = (rules.replace("get", "getid"), rules);
        let set = |rules: &str| format!("ACL SETUSER u reset nopass on +@all {rules}");
        shell.talk(format!("{}\r\n", set(&ours)).as_bytes(), usize::MAX);
        assert_eq!(ask(&mut redis, &set(theirs)), b"+OK\r\n", "{rules}");
        for key in ["orders:eu", "orders:", "tweets", "*", "x"] {
            let ours = shell.talk(format!("ACL DRYRUN u GETID {key}\r\n").as_bytes(), usize::MAX);
            let theirs = ask(&mut redis, &format!("ACL DRYRUN u GET {key}"));
            // The lengths before the texts differ by that of the name.
            let text = |reply: &[u8]| {
                let text = String::from_utf8_lossy(reply).replace("getid", "get");
                text.lines().last().unwrap_or_default().to_owned()
            };
            assert_eq!(text(&ours), text(&theirs), "{rules}: {key}");
            allowed += usize::from(ours == b"+OK\r\n");
        }
    }
    assert!(allowed > 10, "{allowed}");
}

/// Commands that read, write, do both or neither, with one key, several, or a declared number; and channels.
#[test]
#[ignore = "needs redis-server"]
fn rights_to_keys_and_channels_are_those_of_redis() {
    let server = RedisServer::start(&[]);
    let mut redis = server.connect();
    let mut shell = Shell::new(&Options::default());
    let rules = [
        "~*",
        "~a",
        "%R~a",
        "%W~a",
        "%R~a %W~b",
        "%R~a %W~a",
        "~a ~b",
        "%R~* (%W~a +@all)",
        "~a (~b +@all)",
        "~a -incr (~a +incr &*)",
        "&*",
        "~* &a",
        "~* &a* &b",
        "~* (&b +@all)",
        "~x &x",
    ];
    let calls = [
        "GET a",
        "INCR a",
        "INCRBY a 1",
        "HINCRBY a cur 1",
        "EXISTS a",
        "EXISTS a b",
        "MGET a b",
        "MGET b a c",
        "SET a 1",
        "SET a 1 GET",
        "SET b 1 NX GET",
        "SETNX a 1",
        "GETSET a 1",
        "DEL a b",
        "EXPIRE a 1",
        "PERSIST a",
        "RENAME a b",
        "MSET a 1 b 2",
        "OBJECT ENCODING a",
        "HGETALL a",
        "KEYS *",
        "SCAN 0",
        "EVAL x 1 a b",
        "EVALSHA x 2 a b",
        "EVALSHA x 0 b",
        "SUBSCRIBE a",
        "SUBSCRIBE a b",
        "PSUBSCRIBE a",
        "PSUBSCRIBE a*",
        "UNSUBSCRIBE c",
        "PUBLISH a b",
        "PUBLISH b a",
    ];
    let mut allowed = 0;
    for rules in rules {
        let set = format!("ACL SETUSER u reset nopass on +@all {rules}");
        shell.talk(format!("{set}\r\n").as_bytes(), usize::MAX);
        assert_eq!(ask(&mut redis, &set), b"+OK\r\n", "{rules}");
        for call in calls {
            let dry = format!("ACL DRYRUN u {call}");
            let (ours, theirs) = (shell.talk(format!("{dry}\r\n").as_bytes(), usize::MAX), ask(&mut redis, &dry));
            assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{rules}: {call}");
            allowed += usize::from(ours == b"+OK\r\n");
        }
    }
    assert!(allowed > 100 && allowed < rules.len() * calls.len() * 3 / 4, "{allowed}");
}

#[test]
#[ignore = "needs redis-server"]
fn random_users_may_do_the_same_in_redis() {
    let server = RedisServer::start(&[]);
    let mut redis = server.connect();
    let theirs = words(&mut redis, "COMMAND LIST");
    let known: HashSet<&str> = theirs.iter().map(String::as_str).collect();
    // WATCH and MEMORY USAGE have keys in Redis, and 7.2 accepted fewer arguments for COMMAND GETKEYS. Containers are
    // never run by themselves.
    let apart = ["watch", "memory|usage", "command|getkeys", "command|getkeysandflags"];
    let common: Vec<&Command> =
        rows().filter(|row| known.contains(row.full_name) && !apart.contains(&row.full_name)).collect();
    let asked: Vec<&Command> =
        common.iter().copied().filter(|row| row.subcommands.is_empty() || row.accepts(1)).collect();
    assert!(asked.len() > 40, "{}", asked.len());

    let mut names: Vec<String> = common.iter().map(|row| row.full_name.to_uppercase()).collect();
    names.extend(words(&mut redis, "ACL CAT").into_iter().map(|name| format!("@{name}")));
    names.extend(["@all", "@all", "get", "set", "cluster", "cluster|info", "config|get"].map(str::to_owned));
    let wrong = ["nope", "@nope", "config|nope", "", "config|get|x", "config|"].map(str::to_owned);
    let firsts = ["select|0", "select|1", "echo|1", "ping|1", "client|x", "info|1"].map(str::to_owned);
    let others = [
        "on",
        "off",
        "nopass",
        "resetpass",
        ">p",
        "<p",
        "#1",
        "~a",
        "%R~a",
        "~*",
        "allkeys",
        "resetkeys",
        "&c",
        "&*",
        "resetchannels",
        "reset",
        "clearselectors",
        "sanitize-payload",
        "blah",
        "%",
        "%X~a",
        "allcommands",
        "nocommands",
    ]
    .map(str::to_owned);

    // A fixed seed: the same users in each run.
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let single = |random: &mut Random| match random.below(40) {
        0 => format!("+{}", random.pick(&wrong)),
        1 => format!("-{}", random.pick(&wrong)),
        2..5 => format!("+{}", random.pick(&firsts)),
        5..10 => random.pick(&others),
        10..30 => format!("+{}", random.pick(&names)),
        _ => format!("-{}", random.pick(&names)),
    };
    let mut shell = Shell::new(&Options::default());
    let (mut taken, mut refused, mut allowed) = (0, 0, 0);
    for number in 0..USERS {
        let count = random.below(8);
        let rules: Vec<String> = (0..count)
            .map(|_| match random.below(12) {
                0 => format!("({} {})", single(&mut random), single(&mut random)),
                _ => single(&mut random),
            })
            .collect();
        let request = format!("ACL SETUSER u reset {}", rules.join(" "));
        let (ours, theirs) = (shell.talk(format!("{request}\r\n").as_bytes(), usize::MAX), ask(&mut redis, &request));
        assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "user {number}: {request}");
        if ours == b"+OK\r\n" {
            taken += 1;
        } else {
            refused += 1;
        }
        for row in &asked {
            let words = row.full_name.matches('|').count() + 1;
            let more = " 1".repeat((row.arity.unsigned_abs() as usize).saturating_sub(words));
            let dry = format!("ACL DRYRUN u {}{more}", row.full_name.replace('|', " "));
            let (ours, theirs) = (shell.talk(format!("{dry}\r\n").as_bytes(), usize::MAX), ask(&mut redis, &dry));
            assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{request}: {dry}");
            allowed += usize::from(ours == b"+OK\r\n");
        }
    }
    assert!(taken > USERS / 4 && refused > USERS / 10, "{taken} taken, {refused} refused");
    assert!(allowed > asked.len() * USERS / 20, "{allowed} allowed");
}
