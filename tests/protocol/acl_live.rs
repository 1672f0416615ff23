//! Random users, asked the same of a session and of a real `redis-server`: who may run what, and which rules are wrong.
//!
//! ```text
//! cargo test --test protocol acl_live:: -- --ignored
//! ```

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::shell::{Options, RedisServer, Shell};
use getid::acl::User;
use getid::command::{Command, TABLE};

const USERS: usize = 400;

struct Redis {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Redis {
    fn new(server: &RedisServer) -> Redis {
        let stream = server.connect();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Redis { stream, reader }
    }

    /// One reply as its bytes, of a request that is answered by a line, a bulk string, or an array of such.
    fn reply(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader.read_until(b'\n', &mut bytes).unwrap();
        let number = str::from_utf8(&bytes[1..]).unwrap_or("").trim().parse::<i64>().unwrap_or(-1);
        match bytes[0] {
            b'$' => {
                let mut bulk = vec![0; usize::try_from(number + 2).unwrap_or(0)];
                self.reader.read_exact(&mut bulk).unwrap();
                bytes.extend(bulk);
            }
            b'*' => (0..number).for_each(|_| bytes.extend(self.reply())),
            _ => {}
        }
        bytes
    }

    fn ask(&mut self, request: &str) -> Vec<u8> {
        self.stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        self.reply()
    }

    fn words(&mut self, request: &str) -> Vec<String> {
        let text = String::from_utf8(self.ask(request)).unwrap();
        text.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$'])).map(str::to_owned).collect()
    }
}

fn rows() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands))
}

/// A small generator: the same users in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn one_of<'a>(&mut self, words: &'a [String]) -> &'a str {
        &words[self.below(words.len())]
    }
}

#[test]
#[ignore = "needs redis-server"]
fn every_name_that_redis_knows_is_known() {
    let server = RedisServer::start(None);
    let mut redis = Redis::new(&server);
    let commands = redis.words("COMMAND LIST");
    assert!(commands.len() > 300, "{}", commands.len());
    let categories = redis.words("ACL CAT").into_iter().map(|name| format!("@{name}"));
    for name in commands.into_iter().chain(categories) {
        for sign in ['+', '-'] {
            let taken = User::new("u").apply_rule(format!("{sign}{name}").as_bytes());
            assert!(taken.is_ok(), "{sign}{name}");
        }
    }
}

#[test]
#[ignore = "needs redis-server"]
fn random_users_may_do_the_same_in_redis() {
    let server = RedisServer::start(None);
    let mut redis = Redis::new(&server);
    let theirs = redis.words("COMMAND LIST");
    let known: HashSet<&str> = theirs.iter().map(String::as_str).collect();
    // WATCH and MEMORY USAGE have keys in Redis, and 7.2 took fewer arguments for COMMAND GETKEYS; containers are never run by themselves.
    let apart = ["watch", "memory|usage", "command|getkeys", "command|getkeysandflags"];
    let common: Vec<&Command> =
        rows().filter(|row| known.contains(row.full_name) && !apart.contains(&row.full_name)).collect();
    let asked: Vec<&Command> =
        common.iter().copied().filter(|row| row.subcommands.is_empty() || row.accepts(1)).collect();
    assert!(asked.len() > 40, "{}", asked.len());

    let mut names: Vec<String> = common.iter().map(|row| row.full_name.to_uppercase()).collect();
    names.extend(redis.words("ACL CAT").into_iter().map(|name| format!("@{name}")));
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

    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let single = |dice: &mut Dice| match dice.below(40) {
        0 => format!("+{}", dice.one_of(&wrong)),
        1 => format!("-{}", dice.one_of(&wrong)),
        2..5 => format!("+{}", dice.one_of(&firsts)),
        5..10 => dice.one_of(&others).to_owned(),
        10..30 => format!("+{}", dice.one_of(&names)),
        _ => format!("-{}", dice.one_of(&names)),
    };
    let mut shell = Shell::new(&Options::default());
    let (mut taken, mut refused, mut allowed) = (0, 0, 0);
    for number in 0..USERS {
        let count = dice.below(8);
        let rules: Vec<String> = (0..count)
            .map(|_| match dice.below(12) {
                0 => format!("({} {})", single(&mut dice), single(&mut dice)),
                _ => single(&mut dice),
            })
            .collect();
        let request = format!("ACL SETUSER u reset {}", rules.join(" "));
        let (ours, theirs) = (shell.talk(format!("{request}\r\n").as_bytes(), usize::MAX), redis.ask(&request));
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
            let (ours, theirs) = (shell.talk(format!("{dry}\r\n").as_bytes(), usize::MAX), redis.ask(&dry));
            assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{request}: {dry}");
            allowed += usize::from(ours == b"+OK\r\n");
        }
    }
    assert!(taken > USERS / 4 && refused > USERS / 10, "{taken} taken, {refused} refused");
    assert!(allowed > asked.len() * USERS / 10, "{allowed} allowed");
}
