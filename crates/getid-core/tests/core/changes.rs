//! Changes of a declaration between two lives: each harmful and each harmless one by name. And a fleet whose servers
//! are changed one after another, which must not give an ID twice.

use std::collections::HashMap;

use getid_core::server::checks::{Fault, plant};
use getid_core::server::{Change, Composer};
use getid_core::{Declaration, Number, RandomCycle, Role, no_dates};

use crate::random::Random;
use crate::support::declared;

const ARTICLE: &str = "layout time:39@1ms idc:2 server-id:7 business:4 counter:7 epoch 1451577600000 idc 1 business 3";

/// Name of the change, declaration before, declaration after.
const HARMLESS: &[(&str, &str, &str)] = &[
    ("nothing", ARTICLE, ARTICLE),
    ("an earlier epoch", "twitter", "twitter epoch 1288834974656"),
    (
        "another value of a constant",
        ARTICLE,
        "layout time:39@1ms idc:2 server-id:7 business:4 counter:7 \
      epoch 1451577600000 idc 2 business 0",
    ),
    ("another value given by hand", "twitter datacenter 1", "twitter datacenter 2"),
    ("a wider time", "keets", "keets time:42"),
    ("a narrower time", "keets", "keets time:40"),
    (
        "zeros above the time",
        "layout time:39@1ms server-id:7 epoch 0",
        "layout z:2 time:39@1ms server-id:7 z 0 epoch 0",
    ),
    ("random bits of the counter", "fork", "fork counter:4 random:15"),
    ("noise for random", "layout time:41@1ms server-id:7 random:5", "layout time:41@1ms server-id:7 noise:5"),
    ("another field of the request", "redis-lua one-server 0", "redis-lua shard:10 counter:12 one-server 0"),
    ("another start of the counter", "leaf", "leaf counter-start 0..9"),
    (
        "another name of a constant",
        "layout time:41@1ms server-id:7 idc:2 idc 1",
        "layout time:41@1ms server-id:7 dc:2 dc 1",
    ),
    ("two fields of the server-id in one", "twitter", "leaf"),
    ("the same fields, declared", "leaf", "layout time:41@1ms server-id:10 counter:12 epoch 1288834974657"),
    ("one server from now on", "twitter", "twitter one-server 3"),
    ("all servers, which have a server-id", "twitter one-server 3", "twitter"),
    ("another one of servers that have a server-id", "twitter one-server 3", "twitter one-server 4"),
    ("another one server of UUIDs", "uuid7 one-server 0", "uuid7 one-server 1"),
    ("a drawn value given", "uuid1 node 5", "uuid1 node 6"),
    ("overflow", "twitter format hex", "twitter format hex overflow grow"),
    ("no overflow", "twitter format hex overflow grow", "twitter format hex"),
    ("a format with a prefix", "twitter", "twitter format base62 prefix T-"),
    ("another prefix", "twitter format hex prefix A-", "twitter format base62 prefix B-"),
    ("a longer prefix that no text has", "twitter format hex prefix A", "twitter format hex prefix Ax"),
    ("a longer prefix that makes it longer", "twitter format hex prefix A", "twitter format hex prefix A0"),
    ("no time before and now", "uuid4", "uuid4"),
    ("a prefix of a text kind", "ulid", "ulid prefix user_"),
    ("no prefix of a text kind", "uuid7 prefix a", "uuid7"),
    ("a prefix that begins as the one before", "objectid prefix a", "objectid prefix aa"),
    ("another type", "typeid prefix user", "typeid prefix order"),
    ("other random characters", "nanoid", "nanoid alphabet base58 length 15 prefix n-"),
    ("fewer random bits", "trace64", "trace64 noise:60 format base62"),
    ("another word for a kind", "snowflake", "twitter"),
];

/// Name of the change, declaration before, declaration after, and the expected error.
const HARMFUL: &[(&str, &str, &str, &str)] = &[
    (
        "a later epoch",
        "twitter",
        "twitter epoch 1288834974658",
        "its epoch was 1288834974657 (Unix ms) and is \
      1288834974658 now, which is later",
    ),
    ("another unit", "sonyflake", "sonyflake time:39@1ms", "its unit was 10ms and is 1ms now"),
    ("fewer bits below the time", "leaf", "leaf counter:11", "there were 22 bits below its time and are 21 now"),
    ("more bits below the time", "leaf", "leaf worker:11", "there were 22 bits below its time and are 23 now"),
    (
        "integers for texts",
        "tsid",
        "tsid format integer",
        "its format was format base32 pad 13 and is none now, without a prefix of its own that distinguishes them",
    ),
    ("a TypeID for a UUID", "uuid7", "typeid", "its kind was uuid7 and is typeid now"),
    ("noise for a time", "twitter", "trace64", "its kind was twitter and is trace64 now"),
    ("a UUID of another version", "uuid6", "uuid7", "its kind was uuid6 and is uuid7 now"),
    ("no time", "uuid7", "uuid4", "its kind was uuid7 and is uuid4 now"),
    ("text for integers", "twitter", "objectid", "its kind was twitter and is objectid now"),
    (
        "a constant's place",
        ARTICLE,
        "layout time:39@1ms server-id:7 idc:2 business:4 counter:7 epoch 1451577600000 \
      idc 1 business 3",
        "its field 'idc' had another place, width or source of its value before",
    ),
    (
        "a constant's width",
        "layout time:41@1ms server-id:7 idc:2 counter:5 idc 1",
        "layout time:41@1ms server-id:7 \
      idc:3 counter:4 idc 1",
        "its field 'idc' had another place, width or source of its value before",
    ),
    (
        "two constants' places",
        "layout time:41@1ms server-id:7 a:2 b:2 a 1 b 1",
        "layout time:41@1ms server-id:7 b:2 \
      a:2 a 1 b 1",
        "its field 'b' had another place, width or source of its value before",
    ),
    (
        "a constant more",
        "fork",
        "layout time:42@1ms server-id:2 idc:1 counter:8 random:10 idc 0",
        "its field 'idc' had another place, width or source of its value before",
    ),
    (
        "a constant less",
        "layout time:41@1ms server-id:7 idc:1 counter:8 idc 0",
        "layout time:41@1ms server-id:7 \
      counter:9",
        "its field 'idc' had another place, width or source of its value before",
    ),
    (
        "a wider server-id",
        "fork",
        "fork server-id:3 counter:8",
        "its field 'server-id' had another place, width or source of its value before",
    ),
    (
        "the server-id's place",
        "layout time:41@1ms server-id:4 counter:4",
        "layout time:41@1ms counter:4 server-id:4",
        "its field 'server-id' had another place, width or source of its value before",
    ),
    (
        "the server-id's bits in another order",
        "twitter",
        "layout time:41@1ms worker:5 server-id:5 counter:12 epoch 0 worker 0",
        "its field 'worker\' had another place, width or source of its value before",
    ),
    (
        "a worker field by hand",
        "twitter",
        "twitter datacenter 1",
        "its field 'datacenter' had another place, width or source of its value before",
    ),
    (
        // A server that missed two changes would meet one that has them.
        "a worker field by hand, of one server",
        "twitter one-server 3",
        "twitter datacenter 1 one-server 3",
        "its field 'datacenter' had another place, width or source of its value before",
    ),
    (
        "a worker field that was given by hand",
        "twitter worker 1",
        "twitter",
        "its field 'datacenter' had another place, width or source of its value before",
    ),
    (
        "another one server",
        "redis-lua one-server 0",
        "redis-lua one-server 1",
        "it belonged to server-id 0 and belongs \
      to server-id 1 now, and its IDs do not show whose they are",
    ),
    (
        "another one server, by hand",
        "twitter datacenter 1 worker 1 one-server 0",
        "twitter datacenter 1 worker 1 one-server 1",
        "it belonged to server-id 0 and belongs to server-id 1 now, and its IDs do not show whose they are",
    ),
    (
        "another one server of drawn values",
        "objectid process 1 one-server 0",
        "objectid process 1 one-server 1",
        "it belonged to server-id 0 and belongs to server-id 1 now, and its IDs do not show whose they are",
    ),
    (
        "a format",
        "twitter",
        "twitter format hex",
        "its format was none and is format hex pad 16 now, without a prefix of its own that distinguishes them",
    ),
    (
        "another format",
        "twitter format hex",
        "twitter format base62",
        "its format was format hex pad 16 and is format \
      base62 pad 11 now, without a prefix of its own that distinguishes them",
    ),
    (
        "another width",
        "twitter format hex",
        "twitter format hex pad 20",
        "its format was format hex pad 16 and is format \
      hex pad 20 now, without a prefix of its own that distinguishes them",
    ),
    (
        "the prefix of before",
        "twitter format hex prefix T-",
        "twitter format base62 prefix T-",
        "its format was format hex pad 16 prefix T- and is format base62 pad 11 prefix T- now, without a prefix of its \
         own that distinguishes them",
    ),
    (
        "no prefix",
        "twitter format hex prefix T-",
        "twitter format hex",
        "its format was format hex pad 16 prefix T- and is \
      format hex pad 16 now, without a prefix of its own that distinguishes them",
    ),
    (
        "a prefix of digits",
        "twitter",
        "twitter format hex prefix 1",
        "its format was none and is format hex pad 16 prefix \
      1 now, without a prefix of its own that distinguishes them",
    ),
    (
        "a prefix of digits and as many less",
        "twitter format decimal pad 19",
        "twitter format decimal pad 18 prefix 1",
        "its format was format decimal pad 19 and is format decimal pad 18 prefix 1 now, without a prefix of its own \
         that distinguishes them",
    ),
];

#[test]
fn harmless_changes_pass() {
    for (what, old, new) in HARMLESS {
        let (old, new) = (declared(&format!("t {old}")), declared(&format!("t {new}")));
        assert_eq!(new.may_replace(&old), Ok(()), "{what}");
    }
}

#[test]
fn harmful_changes_are_refused() {
    for (what, old, new, sentence) in HARMFUL {
        let (old, new) = (declared(&format!("t {old}")), declared(&format!("t {new}")));
        let refused = new.may_replace(&old).err().unwrap_or_else(|| panic!("{what} passes"));
        assert_eq!(refused.to_string(), *sentence, "{what}");
    }
}

/// Makes one step in a chain of declarations, each of which replaces the previous one.
fn replace(old: &Declaration, words: &str) -> Result<Declaration, Change> {
    let mut new = declared(words);
    new.keep_drawn(old);
    new.may_replace(old)?;
    Ok(Declaration::from_text(&new.to_text()).expect("the record reads back"))
}

#[test]
fn a_format_of_long_ago_counts() {
    let first = declared("t twitter format base62 prefix A-");
    let second = replace(&first, "t twitter format hex prefix B-").unwrap();
    let formerly = "t twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657 format hex pad 16 prefix B- \
                    formerly base62/11/error/A-";
    assert_eq!(second.to_text(), formerly);
    assert_eq!(format!("{} formerly base62/11/error/A-", second.declared_text()), formerly);
    // Another format with the prefix of the first one: some of its texts were given already.
    assert!(matches!(replace(&second, "t twitter format hex prefix A-"), Err(Change::Format { .. })));
    // The first format itself: numbers are larger, so texts differ.
    let third = replace(&second, "t twitter format base62 prefix A-").unwrap();
    assert!(third.to_text().ends_with("prefix A- formerly hex/16/error/B-"), "{}", third.to_text());
    // Its texts were longer while it grew.
    let grown = declared("t twitter format decimal pad 4 prefix b overflow grow");
    let short = replace(&grown, "t twitter format decimal pad 4 prefix b").unwrap();
    assert!(
        replace(&declared("t twitter format decimal pad 4 prefix b"), "t twitter format hex pad 5 prefix b1").is_ok()
    );
    assert!(matches!(replace(&short, "t twitter format hex pad 5 prefix b1"), Err(Change::Format { .. })));
    // Integers, texts, and integers again.
    let text = replace(&declared("t twitter"), "t twitter format hex prefix X-").unwrap();
    assert!(replace(&text, "t twitter").is_ok());
    assert!(matches!(replace(&text, "t twitter format hex"), Err(Change::Format { .. })));
}

#[test]
fn formats_that_are_kept_have_a_bound() {
    let mut now = declared("t twitter");
    for n in 0..16 {
        now = replace(&now, &format!("t twitter format hex prefix p{n}-")).unwrap();
    }
    let refused = replace(&now, "t twitter format hex prefix p-").unwrap_err();
    assert_eq!(refused.to_string(), "its format was another one 16 times before");
    // Declarations without a change pass.
    assert!(replace(&now, "t twitter format hex prefix p15- epoch 0").is_ok());
}

/// Parts of small layouts, one choice of each, so that IDs of wrong changes meet soon.
const PARTS: &[&[&str]] = &[
    &["time:7@1ms", "time:7@2ms", "time:8@1ms"],
    &["server-id:2", "server-id:1", "region:2", ""],
    &["idc:1", "counter:1", "dc:1"],
    &["counter:1", "counter:2", "random:2", "noise:2", "shard:2?", "random:1"],
    &["epoch 0", "epoch -20", "epoch -21", "epoch -9"],
    &["", "one-server 0", "one-server 1"],
    &["", "format decimal", "format hex", "format base62", "pad 5"],
    &["", "prefix a", "prefix b-", "prefix a0", "prefix a-"],
    &["", "overflow grow"],
];

/// The choice of each part, and a value for the constants.
#[derive(Clone)]
struct SmallChoice([usize; PARTS.len()], u64);

impl SmallChoice {
    fn random(random: &mut Random) -> SmallChoice {
        SmallChoice(std::array::from_fn(|part| random.index(PARTS[part].len())), random.below(4))
    }

    /// Returns a copy with one or two other parts.
    fn changed(&self, random: &mut Random) -> SmallChoice {
        let mut new = self.clone();
        for _ in 0..=random.below(2) {
            let part = random.index(PARTS.len());
            new.0[part] = random.index(PARTS[part].len());
        }
        new.1 = random.below(4);
        new
    }

    fn declared(&self) -> Option<Declaration> {
        let parts = PARTS.iter().zip(self.0).map(|(part, index)| part[index]).filter(|part| !part.is_empty());
        let mut words: Vec<_> = parts.flat_map(|part| part.split(' ')).map(str::to_owned).collect();
        for (field, last) in [("region", 3), ("idc", 1), ("dc", 1)] {
            if words.iter().any(|word| word.starts_with(&format!("{field}:"))) {
                words.extend([field.to_owned(), (self.1 & last).to_string()]);
            }
        }
        let words: Vec<_> = ["t", "layout"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let declaration = Declaration::parse(&words, no_dates).ok()?;
        (declaration.one_server().is_some() || !declaration.is_same_on_servers(2)).then_some(declaration)
    }
}

/// A server of the fleet: its present declaration, and up to when its IDs reach, ms.
struct Server {
    id: u32,
    at: usize,
    position_ms: i64,
}

/// Returns the numbers of accepted and of refused changes; and an ID that was given twice, with the declarations.
fn fleet(seed: u64) -> (u32, u32, Option<String>) {
    let mut random = Random(seed);
    let (mut parts, first) = loop {
        let parts = SmallChoice::random(&mut random);
        if let Some(declaration) = parts.declared() {
            break (parts, declaration);
        }
    };
    // All declarations of the fleet, one after another.
    let mut declarations = vec![first];
    let (mut passed, mut refused) = (0, 0);
    for _ in 0..40 {
        let changed = parts.changed(&mut random);
        let Some(mut new) = changed.declared() else { continue };
        let old = declarations.last().unwrap();
        new.keep_drawn(old);
        match new.may_replace(old) {
            Ok(()) if new != *old => {
                passed += 1;
                declarations.push(new);
                parts = changed;
            }
            Ok(()) => {}
            Err(_) => refused += 1,
        }
    }
    let mut given: HashMap<Vec<u8>, String> = HashMap::new();
    let mut servers = [0, 1, 2].map(|id| Server { id, at: 0, position_ms: 0 });
    for now_ms in 0..60 {
        for server in &mut servers {
            // One server after another, at random times.
            if server.at + 1 < declarations.len() && random.one_in(10) {
                server.at += 1;
            }
            let declaration = &declarations[server.at];
            if declaration.one_server().is_some_and(|id| id != server.id) || random.one_in(3) {
                continue;
            }
            let layout = declaration.layout();
            let random_bits = layout.bits_of(Role::Random);
            let cycle = RandomCycle::new((0..1 << random_bits).collect());
            let Some(composer) = Composer::new(layout, server.id, |_| None, cycle) else { continue };
            let unit_ms = i64::try_from(layout.unit().ns() / 1_000_000).unwrap();
            let tick = (server.position_ms.max(now_ms) - layout.epoch_unix_ms() + unit_ms - 1) / unit_ms;
            server.position_ms = tick * unit_ms + layout.epoch_unix_ms() + 1;
            let slot = u64::try_from(tick).unwrap() << layout.counter_bits() | random.below(1 << layout.counter_bits());
            let noise = u128::from(random.next());
            let request =
                layout.shift_of(Role::Request).map_or(Number::ZERO, |shift| Number::from(random.below(4)) << shift);
            let mut text = Vec::new();
            if tick > i64::try_from(layout.last_tick()).unwrap()
                || !declaration.write(composer.number(slot, random.next(), noise, request), &mut text)
            {
                continue;
            }
            let whose = format!("server {} at {now_ms}: {}", server.id, declaration.to_text());
            let again = format!("{}: {whose}", String::from_utf8_lossy(&text));
            if let Some(before) = given.insert(text, whose) {
                return (passed, refused, Some(format!("{before}\n{again}")));
            }
        }
    }
    (passed, refused, None)
}

#[test]
fn a_fleet_that_is_changed_server_by_server_gives_no_id_twice() {
    let (mut all_passed, mut all_refused) = (0, 0);
    for seed in 0..1500 {
        let (passed, refused, twice) = fleet(seed);
        assert_eq!(twice, None, "seed {seed}: {}", twice.as_deref().unwrap_or_default());
        all_passed += passed;
        all_refused += refused;
    }
    assert!(all_passed > 5000 && all_refused > 5000, "{all_passed} passed, {all_refused} were refused");
}

#[test]
fn a_fleet_finds_out_what_is_wrong() {
    for fault in [Fault::LaterEpochAccepted, Fault::ServersShareLayout] {
        let _planted = plant(fault);
        assert!((0..1000).any(|seed| fleet(seed).2.is_some()), "{fault:?} is not seen");
    }
}
