//! Declarations of named generators: their meaning, and their mistakes.

use getid_core::server::CounterDeclaration;
use getid_core::{Declaration, KINDS, Number, Role, no_dates};

use proptest::prelude::*;

use crate::support::declared;

/// Valid declarations: one of each kind, and of each option.
const RIGHT: &[&str] = &[
    "tweets twitter",
    "tweets twitter datacenter 3 epoch 1420041600000",
    "tweets twitter datacenter 31 worker 0",
    "lua redis-lua one-server 0",
    "lua redis-lua shard:10? counter:12 one-server 4294967295",
    "trace uuid7",
    "trace uuid7 counter-start 0..4095 one-server 3",
    "old uuid1 node 5",
    "old uuid6 clock-seq 16383 node 281474976710655",
    "doc objectid process 1",
    "h hibernate address 10.1.2.3 process 5",
    "h hibernate address 167838211",
    "article layout time:39@1ms idc:2 server-id:7 business:4 counter:7 epoch 1451577600000 idc 1 business 3 \
     counter-start 0..9",
    "short js53 format base62 prefix T- overflow grow",
    "short js53 pad 64 overflow error",
    "sorted ulid prefix user_ counter-start 0..15 one-server 0",
    "user typeid prefix user",
    "user typeid",
    "doc xid machine 1 process 65535 prefix x",
    "random nanoid",
    "random nanoid alphabet base58 length 15 prefix n-",
    "random nanoid alphabet ab length 128",
    "short tsid",
    "short tsid node:8 counter:14 epoch 0 prefix T-",
    "column tsid time:41 format integer",
    "column twitter format integer",
    "span trace64",
    "span trace64 noise:100 format hex",
    "photo instagram",
    "post mastodon one-server 0",
    "order yitter",
    "tweets snowflake",
    "id uuid4 prefix id:",
    "meituan leaf",
    "meituan leaf counter-start 0..0",
    "meituan leaf counter-start 0..4095",
    "meituan leaf counter:4",
    "meituan leaf counter:0",
    "a-word-of-the-record twitter format hex prefix formerly",
    "a-word-of-the-record twitter prefix formerly overflow grow",
    "zeros layout zero:3 time:40@100us server-id:20 zero 0",
    "wide layout time:60@100ns server-id:2 noise:66 epoch -12219292800000",
    "no-random fork counter:19 random:0",
    "A-Z_a.z:0-9 baidu time:29 worker:21 epoch 1474300800000",
];

/// Fields with the names of options that are newer than records. Each word behind them is the value of the field.
#[test]
fn a_field_keeps_the_name_of_a_newer_option() {
    for record in [
        "g layout time:41@1ms length:5 counter:12 epoch 1420041600000 length 3 one-server 0",
        "g layout time:41@1ms answer:3? counter:12 epoch 1420041600000 one-server 0",
        "g layout time:41@1ms seal:2 key-file:5 alphabet:5 counter:9 epoch 0 seal 1 key-file 31 alphabet 7 \
         one-server 0",
    ] {
        let declaration = Declaration::from_text(record).unwrap_or_else(|| panic!("{record}"));
        assert_eq!((declaration.to_text().as_str(), declaration.declared_text().as_str()), (record, record));
    }
    // The order of a configuration's words is free.
    let declaration = declared("g layout seal 1 time:41@1ms length 3 seal:2 counter:9 length:5 one-server 0");
    let values = ["seal", "length"].map(|name| declaration.layout().field(name).map(|field| field.role));
    assert_eq!(values, [Some(Role::Constant(1)), Some(Role::Constant(3))]);
    // Elsewhere they are options.
    assert_eq!(declared("id nanoid length 12").id_bytes_max(), 12);
    let declaration = declared("s layout time:41@1ms server-id:5 counter:12 key-file /seal:1 seal answer sealed");
    assert!(declaration.seal().is_some());
}

#[test]
fn the_canonical_text_reads_back() {
    for text in RIGHT {
        let declaration = declared(text);
        let written = declaration.to_text();
        assert_eq!(Declaration::from_text(&written), Some(declaration), "{written}");
    }
}

/// A seal is declared, and no part of a record.
#[test]
fn a_seal_changes_no_id() {
    for (text, seal) in [
        ("o fork seal key-file /k", "seal key-file /k alphabet base58"),
        ("o fork seal key-file k:1 answer integer", "seal key-file k:1 alphabet base58"),
        ("o js53 answer sealed alphabet hex key-file k seal", "seal key-file k alphabet hex answer sealed"),
        ("o tsid time:41 format integer seal key-file k", "seal key-file k alphabet base58"),
        ("o twitter seal key-file k alphabet zyxwvutsrq worker 3", "seal key-file k alphabet zyxwvutsrq"),
    ] {
        let sealed = declared(text);
        assert_eq!(sealed.seal().map(ToString::to_string).as_deref(), Some(seal), "{text}");
        assert_eq!(declared(&sealed.declared_text()), sealed);
        let plain = sealed.clone().without_seal();
        assert_eq!(sealed.declared_text(), format!("{} {seal}", plain.declared_text()));
        assert_eq!((sealed.to_text(), sealed.common_text()), (plain.to_text(), plain.common_text()));
        assert_eq!((sealed.may_replace(&plain), plain.may_replace(&sealed)), (Ok(()), Ok(())));
        assert!(sealed.is_integer());
    }
    for (text, expected) in [
        ("o fork key-file k", "key-file is for a sealed generator: add 'seal key-file /etc/getid/seal.keys'"),
        ("o tsid seal key-file k", "IDs of tsid are texts: write 'tsid time:41 format integer' with the seal"),
        ("o fork answer sealed", "answer is for a sealed generator"),
        ("o fork alphabet base58", "alphabet needs 'format sqids' or 'seal'"),
        ("o uuid7 alphabet base58", "alphabet is not an option of uuid7"),
        ("o fork seal", "seal has no key-file, must have one, as in: seal key-file /etc/getid/seal.keys"),
        ("o fork seal key-file", "key-file"),
        ("o fork seal seal key-file k", "seal"),
        ("o fork seal key-file \u{e4}", "key-file is '\u{e4}', must be a path of 1 to 255 printable ASCII characters"),
        ("o fork seal key-file k alphabet abc", "alphabet: it has 3 characters, must have at least 10 for a seal"),
        ("o fork seal key-file k alphabet 01234567899", "alphabet: it has the character '9' twice"),
        ("o fork seal key-file k answer text", "answer is 'text', must be sealed or integer"),
        ("o uuid7 seal key-file k", "seal is for integers, and uuid7 is written in its own way"),
        ("o fork seal key-file k pad 3", "pad is given together with seal, must be alone"),
        ("o discord seal key-file k", "seal is for integers of at most 63 bits, and the layout has 64"),
        ("o layout seal:2 time:41@1ms seal 3", "seal"),
    ] {
        let words: Vec<_> = text.split(' ').collect();
        let errors = Declaration::parse(&words, no_dates).expect_err(text);
        assert!(errors.iter().any(|error| error.to_string().contains(expected)), "{text}: {errors:?}");
    }
}

/// Such names are refused in a configuration; a record may have them from before.
#[test]
fn names_that_a_path_cannot_mean_are_refused() {
    for name in ["-", ".", ".."] {
        for kind in ["twitter", "uuid7"] {
            let words = [name, kind];
            let errors = Declaration::parse(&words, no_dates).expect_err(name);
            let [error] = &errors[..] else { panic!("one mistake: {errors:?}") };
            let expected = format!("the generator's name '{name}' means another thing in a path of the HTTP port");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
        let recorded = format!("{name} uuid7");
        assert_eq!(Declaration::from_text(&recorded).map(|declaration| declaration.to_text()), Some(recorded));
        for words in [&[name, "sequence"][..], &[name, "serial", "{n:3}"], &[name, "serial"]] {
            let errors = CounterDeclaration::parse(words, |_| Ok(())).expect("a counter").expect_err(name);
            assert!(errors[0].to_string().contains("means another thing in a path"), "{errors:?}");
        }
    }
    for name in ["--", "...", "-.", ".a", "a-"] {
        assert!(Declaration::parse(&[name, "uuid7"], no_dates).is_ok(), "{name}");
    }
}

/// Declaration, the start of its counter, and its text for a configuration and for a record.
#[test]
fn a_kind_has_a_counter_start_of_its_own() {
    for (words, start, configured, recorded) in [
        ("leaf", 99, " counter-start 0..99", " counter-start 0..99"),
        ("leaf counter-start 0..9", 9, " counter-start 0..9", " counter-start 0..9"),
        ("leaf counter-start 0..0", 0, " counter-start 0..0", ""),
        ("leaf counter:4", 15, " counter-start 0..15", " counter-start 0..15"),
        ("leaf counter:0", 0, "", ""),
        ("twitter", 0, "", ""),
    ] {
        let declaration = declared(&format!("t {words}"));
        assert_eq!(declaration.counter_start(), start, "{words}");
        let counter_start = |text: &str| text.find(" counter-start").map_or(String::new(), |at| text[at..].to_owned());
        let texts = [declaration.declared_text(), declaration.common_text(), declaration.to_text()];
        assert_eq!(texts.each_ref().map(|text| counter_start(text)), [configured, configured, recorded], "{words}");
        assert_eq!(declared(&declaration.declared_text()), declaration, "{words}");
    }
    // A record from before this kind had one.
    let old = "t leaf time:41@1ms worker:10 counter:12 epoch 1288834974657";
    let recorded = Declaration::from_text(old).expect("a record");
    assert_eq!((recorded.counter_start(), recorded.to_text().as_str()), (0, old));
    assert_eq!(declared("t leaf").may_replace(&recorded), Ok(()));
}

/// A configuration has the address with dots, and a record its number.
#[test]
fn hibernate_takes_an_address() {
    let declaration = declared("h hibernate address 10.1.2.3");
    assert_eq!(declaration.drawn_value("address"), Some(0x0a01_0203));
    assert_eq!(declaration.declared_text(), "h hibernate address 10.1.2.3");
    assert_eq!(declaration.to_text(), "h hibernate address 167838211");
    for text in ["h hibernate address 10.1.2.3", "h hibernate address 167838211"] {
        assert_eq!(declared(text), declaration, "{text}");
    }
    assert_eq!(Declaration::from_text("h hibernate address 167838211"), Some(declaration.clone()));
    let mut text = Vec::new();
    assert!(declaration.write(Number::from(0x0a01_0203_u32) << 43_u32, &mut text));
    assert!(text.starts_with(b"0a010203-"), "{text:?}");
}

#[test]
fn every_kind_can_be_declared_by_its_word() {
    for kind in KINDS.iter().filter(|kind| !kind.fields.is_empty()) {
        let declaration = declared(&format!("t {}", kind.word));
        assert_eq!(
            (declaration.kind(), Declaration::from_text(&declaration.to_text())),
            (kind, Some(declaration.clone()))
        );
    }
}

/// Words behind the name, the text for a configuration, and the text of the number 1.
#[test]
fn how_ids_are_written_is_declared() {
    for (words, declared_text, one) in [
        ("snowflake format integer", "twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657", "1"),
        ("tsid", "tsid time:42@1ms node:10 counter:12 epoch 1577836800000 format base32 pad 13", "0000000000001"),
        (
            "tsid prefix T-",
            "tsid time:42@1ms node:10 counter:12 epoch 1577836800000 format base32 pad 13 prefix T-",
            "T-0000000000001",
        ),
        ("tsid time:41 format integer", "tsid time:41@1ms node:10 counter:12 epoch 1577836800000 format integer", "1"),
        ("trace64", "trace64 noise:63", "1"),
        ("ulid prefix u_", "ulid prefix u_", "u_00000000000000000000000001"),
        ("typeid prefix user", "typeid prefix user", "user_0000000000e008000000000001"),
        ("nanoid", "nanoid length 21", "AAAAAAAAAAAAAAAAAAAAB"),
        (
            "nanoid alphabet xyz length 40 prefix n",
            "nanoid alphabet xyz length 40 prefix n",
            &*format!("n{}y", "x".repeat(39)),
        ),
        ("xid prefix x-", "xid prefix x-", "x-0000000000000000000g"),
    ] {
        let declaration = declared(&format!("t {words}"));
        assert_eq!(declaration.declared_text(), format!("t {declared_text}"), "{words}");
        assert_eq!(declared(&declaration.declared_text()), declaration, "{words}");
        let mut text = Vec::new();
        assert!(declaration.write(Number::ONE, &mut text));
        assert_eq!((std::str::from_utf8(&text), declaration.read(one)), (Ok(one), Some(Number::ONE)), "{words}");
        assert!(declaration.id_bytes_max() >= one.len(), "{words}");
    }
}

/// Only kinds with a server-id, or whose random bits distinguish servers, may have several servers.
#[test]
fn noise_alone_distinguishes_servers() {
    for (words, is_same, is_ordered) in [
        ("trace64", false, false),
        ("nanoid", false, false),
        ("ulid", false, true),
        ("typeid", false, true),
        ("xid", false, true),
        ("mastodon", true, true),
        ("layout time:41@1ms noise:22", true, true),
        ("tsid", false, true),
    ] {
        let declaration = declared(&format!("t {words}"));
        let found = (declaration.is_same_on_servers(10), declaration.is_ordered());
        assert_eq!(found, (is_same, is_ordered), "{words}");
    }
}

/// A declaration with one mistake, and the error.
const WRONG: &[(&str, &str)] = &[
    ("t ulid format hex", "format is for integers, and ulid is written in its own way"),
    ("t ulid pad 30", "pad is for integers, and ulid is written in its own way"),
    ("t ulid epoch 0", "epoch is for integers with a time, and ulid is none: its epoch can't be changed"),
    ("t ulid noise:63", "'noise:63': the fields of ulid can't be changed"),
    ("t ulid alphabet base58", "alphabet is not an option of ulid"),
    ("t twitter length 21", "length is not an option of twitter"),
    ("t trace64 epoch 0", "epoch is for kinds with a time, and trace64 has none"),
    ("t trace64 counter-start 0..3", "counter-start needs a counter, and the layout has none"),
    (
        "t trace64 noise:59",
        "the noise has 59 bits, must have at least 60: with fewer, two of 1.3 billion IDs would be equal with a chance \
         of more than one half",
    ),
    ("t tsid format integer pad 3", "pad is for texts, and the format is integer: remove one of them"),
    ("t twitter format integer prefix T", "prefix is for texts, and the format is integer: remove one of them"),
    ("t uuid7 prefix ä", "prefix is 'ä', must be up to 64 printable ASCII characters without spaces and quotes"),
    (
        "t typeid prefix user_",
        "prefix is 'user_', must be up to 63 small letters and _, a letter first and last: a TypeID has another _ \
         behind its prefix by itself",
    ),
    (
        "t nanoid length 9",
        "length is '9', must be 10 to 21 for an alphabet of 64 characters: a shorter text has fewer than 60 random \
         bits, so two of 1.3 billion would be equal with a chance of one half; a longer one has more than 128 bits",
    ),
    (
        "t nanoid alphabet hex length 33",
        "length is '33', must be 15 to 32 for an alphabet of 16 characters: a shorter text has fewer than 60 random \
         bits, so two of 1.3 billion would be equal with a chance of one half; a longer one has more than 128 bits",
    ),
    (
        "t nanoid length +15",
        "length is '+15', must be 10 to 21 for an alphabet of 64 characters: a shorter text has fewer than 60 random \
         bits, so two of 1.3 billion would be equal with a chance of one half; a longer one has more than 128 bits",
    ),
    ("t nanoid alphabet aa", "alphabet: it has the character 'a' twice, must have each once"),
    (
        "",
        "the generator's name is '', must be 1 to 128 bytes of A-Z a-z 0-9 _ . : - | the kind is missing, as in: generator tweets twitter",
    ),
    ("a b/c", "'b/c' is not a kind of generator"),
    ("a/b twitter", "the generator's name is 'a/b', must be 1 to 128 bytes of A-Z a-z 0-9 _ . : -"),
    ("t", "the kind is missing, as in: generator tweets twitter"),
    ("t Twitter", "'Twitter' is not a kind of generator"),
    ("t layout", "the layout has no fields, must have some, as in: layout time:41@1ms server-id:10 counter:12"),
    ("t layout server-id:10", "the layout has no time, must have one, as in: time:41@1ms"),
    ("t layout time:41", "'time:41' has no unit, must have one, as in time:41@1ms"),
    (
        "t layout time:41@1m",
        "the unit is '1m', must be a whole number of ns, us, ms or s: a multiple of 100ns, at most a day",
    ),
    (
        "t layout time:41@150ns",
        "the unit is '150ns', must be a whole number of ns, us, ms or s: a multiple of 100ns, at most a day",
    ),
    (
        "t layout time:41@0s",
        "the unit is '0s', must be a whole number of ns, us, ms or s: a multiple of 100ns, at most a day",
    ),
    ("t layout time:65@1ms", "'time' has 65 bits, must have 1 to 64"),
    ("t layout time:0@1ms", "'time' has 0 bits, must have 1 to 64"),
    ("t baidu time:0", "'time' has 0 bits, must have 1 to 64"),
    ("t layout time:41@1ms counter:64", "'counter' has 64 bits, must have 1 to 63"),
    ("t layout time:41@1ms counter:24", "time and counter have 65 bits together, must have at most 64"),
    ("t layout time:41@1ms random:22", "'random' has 22 bits, must have 1 to 21"),
    ("t layout time:41@1ms noise:120", "the fields have 161 bits together, must have at most 160"),
    ("t layout time:1@1ms noise:129", "'noise' has 129 bits, must have 1 to 128"),
    ("t layout time:41@1ms idc:65 idc 0", "'idc' has 65 bits, must have 1 to 64"),
    ("t layout time:41@1ms idc:2? idc:2?", "the field 'idc' is there twice, must be there once"),
    (
        "t layout server-id:2 time:41@1ms",
        "'server-id' is in a wrong place: above the time there may be nothing but constants of 0",
    ),
    (
        "t layout counter:2 time:41@1ms",
        "'counter' is in a wrong place: above the time there may be nothing but constants of 0",
    ),
    ("t layout s:2? time:41@1ms", "'s' is in a wrong place: above the time there may be nothing but constants of 0"),
    ("t layout s:2 time:41@1ms s 1", "'s' is in a wrong place: above the time there may be nothing but constants of 0"),
    ("t layout noise:2 time:41@1ms", "'noise' is in a wrong place: random and noise lie below time and counter"),
    (
        "t layout time:41@1ms random:2 counter:2",
        "'random' is in a wrong place: random and noise lie below time and counter",
    ),
    ("t layout time:41@1ms counter:2?", "the field 'counter' can't come with the request"),
    ("t twitter worker:5?", "the field 'worker' can't come with the request"),
    (
        "t layout time:41@1ms idc:2@1ms idc 1",
        "'idc:2@1ms' is not a field, must be NAME:BITS, time:BITS@UNIT, or NAME:BITS? for one that comes with the request",
    ),
    (
        "t layout time:41@1ms idc:+2",
        "'idc:+2' is not a field, must be NAME:BITS, time:BITS@UNIT, or NAME:BITS? for one that comes with the request",
    ),
    (
        "t layout time:41@1ms :2",
        "':2' is not a field, must be NAME:BITS, time:BITS@UNIT, or NAME:BITS? for one that comes with the request",
    ),
    (
        "t layout time:41@1ms server-id:5 alphabet:5 alphabet 1 seal key-file /k",
        "'alphabet' is an option and can't be a field's name",
    ),
    ("t layout time:41@1ms epoch:2", "'epoch' is an option and can't be a field's name"),
    ("t layout time:41@1ms formerly:2", "'formerly' is an option and can't be a field's name"),
    ("t twitter shard:2", "the kind has no field 'shard', it has time, datacenter, worker, counter"),
    ("t uuid7 counter:13", "'counter:13': the fields of uuid7 can't be changed"),
    ("t uuid7 epoch 0", "epoch is for integers with a time, and uuid7 is none: its epoch can't be changed"),
    ("t uuid7 overflow grow", "overflow is for integers, and uuid7 is written in its own way"),
    ("t twitter epoch", "'epoch' has no value behind it"),
    ("t twitter epoch 0 epoch 0", "'epoch' is given twice, must be given once"),
    ("t twitter epoch 2016-01-01", "epoch is '2016-01-01': must be a number of Unix ms"),
    ("t twitter epoch +1", "epoch is '+1': must be a number of Unix ms"),
    ("t twitter epoch 253402300800000", "epoch is '253402300800000': must lie in the years 1 to 9999"),
    (
        "t twitter wroker 1",
        "'wroker' is not an option; there are epoch, counter-start, one-server, format, pad, prefix, overflow, alphabet, \
         length, seal, key-file, answer, and the fields datacenter, worker",
    ),
    (
        "t twitter formerly hex/16/error/",
        "'formerly' is not an option; there are epoch, counter-start, one-server, format, pad, prefix, overflow, alphabet, \
         length, seal, key-file, answer, and the fields datacenter, worker",
    ),
    ("t twitter worker 32", "worker is '32', must be a whole number from 0 to 31"),
    (
        "t hibernate address 10.1.2",
        "address is '10.1.2', must be an IPv4 address such as 10.1.2.3, or its number from 0 to 4294967295",
    ),
    (
        "t hibernate address 10.1.2.256",
        "address is '10.1.2.256', must be an IPv4 address such as 10.1.2.3, or its number from 0 to 4294967295",
    ),
    (
        "t hibernate address 4294967296",
        "address is '4294967296', must be an IPv4 address such as 10.1.2.3, or its number from 0 to 4294967295",
    ),
    (
        "t hibernate address +1",
        "address is '+1', must be an IPv4 address such as 10.1.2.3, or its number from 0 to 4294967295",
    ),
    ("t hibernate process 10.1.2.3", "process is '10.1.2.3', must be a whole number from 0 to 268435455"),
    (
        "t layout time:41@1ms address:32 address 10.1.2.3",
        "address is '10.1.2.3', must be a whole number from 0 to 4294967295",
    ),
    ("t twitter worker -1", "worker is '-1', must be a whole number from 0 to 31"),
    ("t twitter counter 1", "the field 'counter' can't be given a value"),
    ("t redis-lua shard x", "the field 'shard' can't be given a value"),
    ("t layout time:41@1ms idc:2", "the field 'idc' has no value, must have one, as in: idc 0 (up to 3)"),
    ("t twitter counter-start 0..4096", "counter-start is '0..4096', must be 0..N with N at most 4095, as in 0..9"),
    ("t twitter counter-start 0..+1", "counter-start is '0..+1', must be 0..N with N at most 4095, as in 0..9"),
    ("t twitter counter-start 9", "counter-start is '9', must be 0..N with N at most 4095, as in 0..9"),
    ("t timestamp-ms counter-start 0..0", "counter-start needs a counter, and the layout has none"),
    ("t fork counter:0 counter-start 0..9", "counter-start needs a counter, and the layout has none"),
    ("t twitter one-server 4294967296", "one-server is '4294967296', must be a whole number from 0 to 4294967295"),
    (
        "t twitter format base64",
        "format is 'base64', must be one of decimal, hex, base32, base36, base58, base62, sqids, or integer",
    ),
    ("t twitter pad 0", "pad is '0', must be a whole number from 1 to 64"),
    ("t twitter pad 65", "pad is '65', must be a whole number from 1 to 64"),
    ("t twitter prefix ü", "prefix is 'ü', must be up to 64 printable ASCII characters without spaces and quotes"),
    ("t twitter overflow wrap", "overflow is 'wrap', must be error or grow"),
];

fn mistakes(words: &[&str]) -> Vec<String> {
    Declaration::parse(words, no_dates).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn every_mistake_has_its_sentence() {
    for &(text, expected) in WRONG {
        assert_eq!(mistakes(&text.split(' ').collect::<Vec<_>>()).join(" | "), expected, "{text}");
    }
    let long_name = "n".repeat(129);
    assert_eq!(mistakes(&[&long_name, "twitter"]).len(), 1);
    let long_prefix = "p".repeat(65);
    assert_eq!(mistakes(&["t", "twitter", "prefix", &long_prefix]).len(), 1);
    let long_field = format!("{}:2?", "f".repeat(33));
    assert_eq!(mistakes(&["t", "layout", "time:41@1ms", &long_field]).len(), 1);
    let mut many = vec!["t", "twitter"];
    many.extend(["worker"; 641]);
    assert_eq!(mistakes(&many), ["the declaration has more than 640 words"]);
}

#[test]
fn an_error_quotes_no_more_than_its_bound() {
    let word = "x".repeat(1 << 16);
    for words in
        [vec!["t", &word], vec![&word, "twitter"], vec!["t", "twitter", &word, &word], vec!["t", "uuid7", "pad", &word]]
    {
        assert!(mistakes(&words).iter().all(|text| text.len() < 300), "{:?}", mistakes(&words));
    }
}

#[test]
fn thirty_mistakes_are_thirty_sentences() {
    let mut words = vec!["a/b", "layout", "server-id:99", "time:41", "x", "1"];
    let fields: Vec<_> = (0..20).map(|n| format!("f{n}:2")).collect();
    words.extend(fields.iter().map(String::as_str));
    words.extend([
        "epoch",
        "soon",
        "counter-start",
        "0..9",
        "format",
        "hexx",
        "pad",
        "0",
        "prefix",
        "\"",
        "overflow",
        "wrap",
    ]);
    // The name, two fields, the place of one of them, the option x, the values of 20 fields, and six options.
    let mistakes_found = mistakes(&words);
    assert_eq!(mistakes_found.len(), 31, "{mistakes_found:#?}");
    // For an unknown kind the expected fields are unknown, but the options are not.
    words[1] = "snowfleck";
    let mistakes_found = mistakes(&words);
    assert_eq!(mistakes_found.len(), 7, "{mistakes_found:#?}");
}

#[test]
fn servers_differ_by_their_fields() {
    for (text, bits, by_hand, is_same_of_3_bits) in [
        ("t twitter", 10, 0, false),
        ("t twitter worker 1 datacenter 2", 10, 2, false),
        ("t js53", 3, 0, false),
        ("t layout time:41@1ms server-id:2 counter:9", 2, 0, true),
        ("t chronos", 0, 0, true),
        ("t uuid7", 0, 0, false),
        ("t objectid process 1", 0, 0, false),
        ("t layout time:41@1ms idc:5 idc 1", 0, 0, true),
    ] {
        let declaration = declared(text);
        assert_eq!(declaration.server_bits(), bits, "{text}");
        assert_eq!(declaration.by_hand().len(), by_hand, "{text}");
        assert_eq!(declaration.is_same_on_servers(3), is_same_of_3_bits, "{text}");
        assert!(!declaration.is_same_on_servers(0), "{text}: there is one server");
    }
}

#[test]
fn drawn_values_are_drawn_once() {
    let mut first = declared("t uuid1 node 5");
    first.draw_missing(|_, _| u64::MAX);
    // A drawn node is marked as no network card's; a given node stays unchanged.
    assert_eq!((first.drawn_value("clock-seq"), first.drawn_value("node")), (Some(16_383), Some(5)));
    let mut node = declared("t uuid6");
    node.draw_missing(|_, _| 0);
    assert_eq!(node.drawn_value("node"), Some(1 << 40));
    let mut second = declared("t uuid1");
    second.keep_drawn(&first);
    second.draw_missing(|name, _| panic!("{name} is known"));
    assert_eq!(second.drawn_value("node"), Some(5));
    assert_eq!(Declaration::from_text(&second.to_text()).unwrap().to_text(), second.to_text());
}

#[test]
fn what_is_an_integer() {
    for (text, is_integer) in [
        ("t twitter", true),
        ("t timestamp-us", true),
        ("t discord", false),
        ("t chronos", false),
        ("t twitter format decimal", false),
        ("t uuid4", false),
        ("t layout time:60@1ms server-id:4", false),
    ] {
        assert_eq!(declared(text).is_integer(), is_integer, "{text}");
    }
    // Wider numbers are decimal text.
    let mut written = Vec::new();
    assert!(declared("t discord").write(u64::MAX.into(), &mut written));
    assert_eq!(written, b"18446744073709551615");
    assert_eq!(declared("t discord").read("18446744073709551616"), None);
}

/// Generates words of declarations, valid and invalid ones.
fn words() -> impl Strategy<Value = Vec<String>> {
    let kinds: Vec<_> = KINDS.iter().map(|kind| kind.word.to_owned()).collect();
    let field = (
        prop::sample::select(vec![
            "time",
            "counter",
            "random",
            "noise",
            "server-id",
            "worker",
            "datacenter",
            "idc",
            "x_1",
        ]),
        0..50_u32,
        prop::sample::select(vec!["", "", "", "@1ms", "@100ns", "@7s", "?"]),
    )
        .prop_map(|(name, bits, end)| format!("{name}:{bits}{end}"));
    let option = prop::sample::select(vec![
        "epoch 0",
        "epoch -1",
        "counter-start 0..7",
        "one-server 3",
        "format hex",
        "format base58",
        "pad 30",
        "prefix a-",
        "prefix formerly",
        "overflow grow",
        "worker 1",
        "datacenter 2",
        "idc 0",
        "idc 1",
        "x_1 0",
        "node 5",
        "process 9",
        "formerly hex/1/grow/",
        "epoch",
        "x",
    ])
    .prop_map(str::to_owned);
    let part = prop_oneof![field, option];
    (prop::sample::select(kinds), prop::collection::vec(part, 0..7)).prop_map(|(kind, parts)| {
        let kind_and_time = if kind == "layout" { "layout time:30@1ms".to_owned() } else { kind };
        let text = format!("t {kind_and_time} {}", parts.join(" "));
        text.split_whitespace().map(str::to_owned).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_is_declared_has_a_text_that_reads_back(words in words()) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        match Declaration::parse(&words, no_dates) {
            Ok(mut declaration) => {
                prop_assert_eq!(Declaration::from_text(&declaration.to_text()), Some(declaration.clone()));
                declaration.draw_missing(|_, bits| u64::from(bits));
                let read = Declaration::from_text(&declaration.to_text());
                prop_assert_eq!(read.map(|read| read.to_text()), Some(declaration.to_text()));
                prop_assert_eq!(declaration.may_replace(&declaration), Ok(()));
            }
            Err(errors) => prop_assert!(!errors.is_empty()),
        }
    }

    #[test]
    fn no_text_of_a_record_does_harm(text in "t (layout|fork|uuid7|twitter)( [a-z0-9:@?./-]{1,12}){0,8}") {
        if let Some(declaration) = Declaration::from_text(&text) {
            prop_assert_eq!(declaration.to_text(), text);
        }
    }
}

/// A record has room for 16,384 bytes: a field for each bit, long names, and the largest number of former formats.
#[test]
fn the_longest_text_has_a_bound() {
    let mut words = vec!["n".repeat(128), "layout".to_owned(), "time:1@86400s".to_owned()];
    for n in 0..159 {
        let name = format!("{n:032}");
        words.extend([format!("{name}:1"), name, "1".to_owned()]);
    }
    words.extend(["epoch", "-62135596800000", "one-server", "4294967295", "overflow", "grow"].map(str::to_owned));
    let with_prefix = |n: usize| {
        let mut words = words.clone();
        words.extend(["pad".to_owned(), "64".to_owned(), "prefix".to_owned(), format!("{n:064}").replace('0', "-")]);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        Declaration::parse(&words, no_dates).unwrap()
    };
    let mut declaration = with_prefix(1);
    for n in (2..=9).chain(11..=19).take(15) {
        let mut next = with_prefix(n);
        next.keep_drawn(&declaration);
        assert_eq!(next.may_replace(&declaration), Ok(()));
        declaration = next;
    }
    let text = declaration.to_text();
    assert_eq!(text.matches(" formerly ").count(), 15);
    assert!(Declaration::from_text(&text).is_some());
    assert!((10_000..16_000).contains(&text.len()), "{}", text.len());
}
