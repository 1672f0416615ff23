//! `getid decode`, `span` and `layout` for layouts and kinds of named generators. The IDs are published examples of the
//! systems that use the layouts.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::Server;
use crate::support::program::{PATIENCE, finish};

fn getid(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_getid"));
    command.args(args).env_clear();
    command
}

fn output(args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = getid(args).output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(!stderr.contains("panicked"), "{stderr}");
    (status.code(), stdout, stderr)
}

/// Returns the output of a command, which must succeed.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let (code, stdout, stderr) = output(args);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}: {stdout}");
    stdout
}

/// Asserts that a command fails with one sentence on standard error and prints nothing else.
#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let (code, stdout, stderr) = output(args);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{args:?}");
    assert!(stderr.contains(expected), "{args:?}: {stderr}");
}

/// An example: layout, ID, time, Unix ms, ticks since the epoch, fields.
type Worked = (&'static str, &'static str, &'static str, i64, u64, &'static str);

const WORKED: &[Worked] = &[
    (
        "fork",
        "786733662132504385",
        "2026-11-20T14:37:23.714Z",
        1_795_185_443_714,
        375_143_843_714,
        r#"{"server-id": 0, "counter": 1, "random": 833}"#,
    ),
    (
        "twitter",
        "1541815603606036480",
        "2022-06-28T16:07:40.105Z",
        1_656_432_460_105,
        367_597_485_448,
        r#"{"datacenter": 11, "worker": 26, "counter": 0}"#,
    ),
    (
        "leaf",
        "1169786042799259000",
        "2019-09-06T01:35:00.834Z",
        1_567_733_700_834,
        278_898_726_177,
        r#"{"worker": 39, "counter": 3448}"#,
    ),
    (
        "keets",
        "1425888877473599488",
        "2025-10-09T08:53:20.123Z",
        1_760_000_000_123,
        339_958_400_123,
        r#"{"worker": 1001, "counter": 0}"#,
    ),
    (
        "discord",
        "175928847299117063",
        "2016-04-30T11:18:25.796Z",
        1_462_015_105_796,
        41_944_705_796,
        r#"{"worker": 1, "process": 0, "counter": 7}"#,
    ),
    (
        "sonyflake",
        "587991760442015912",
        "2025-10-09T08:53:20.120Z",
        1_760_000_000_120,
        35_047_040_012,
        r#"{"counter": 0, "machine": 49320}"#,
    ),
    (
        "sonyflake2",
        "40786083402743807",
        "2025-10-09T08:53:20.120Z",
        1_760_000_000_120,
        2_431_040_012,
        r#"{"counter": 255, "machine": 65535}"#,
    ),
    (
        "sonyflake2 time:41@1ms counter:12 machine:10",
        "101965208477499393",
        "2025-10-09T08:53:20.123Z",
        1_760_000_000_123,
        24_310_400_123,
        r#"{"counter": 0, "machine": 1}"#,
    ),
    (
        "baidu",
        "9223372002495045632",
        "2024-11-20T13:24:15.000Z",
        1_732_109_055_000,
        268_435_455,
        r#"{"worker": 1, "counter": 0}"#,
    ),
    (
        "baidu time:29 worker:21 epoch 2016-09-20T00:00:00+08:00",
        "180363646902239241",
        "2017-01-19T04:15:46.000Z",
        1_484_799_346_000,
        10_498_546,
        r#"{"worker": 4, "counter": 9}"#,
    ),
    (
        "redis-lua",
        "5982076948468487172",
        "2015-03-13T09:18:06.130Z",
        1_426_238_286_130,
        1_426_238_286_130,
        r#"{"shard": 277, "counter": 4}"#,
    ),
    (
        "icicle",
        "1275955091060293631",
        "2025-10-09T08:53:20.123Z",
        1_760_000_000_123,
        304_211_399_807,
        r#"{"shard": 1023, "counter": 4095}"#,
    ),
    (
        "chronos",
        "366379383866785792",
        "2014-04-16T05:33:53.818Z",
        1_397_626_433_818,
        1_397_626_433_818,
        r#"{"counter": 0}"#,
    ),
    (
        "pd",
        "461373440032505855",
        "2025-10-09T08:53:20.123Z",
        1_760_000_000_123,
        1_760_000_000_123,
        r#"{"counter": 262143}"#,
    ),
    (
        "js53",
        "1392469606904837",
        "2025-10-09T08:53:20.123Z",
        1_760_000_000_123,
        339_958_400_123,
        r#"{"server-id": 2, "counter": 5}"#,
    ),
    (
        "layout time:39@1ms idc:2 server-id:7 business:4 counter:7 epoch 2016-01-01T00:00:00+08:00",
        "46017553399431242",
        "2017-05-22T14:29:18.780Z",
        1_495_463_358_780,
        43_885_758_780,
        r#"{"idc": 3, "server-id": 72, "business": 0, "counter": 74}"#,
    ),
    (
        "objectid",
        "507f1f77bcf86cd799439011",
        "2012-10-17T21:13:27.000Z",
        1_350_508_407_000,
        1_350_508_407,
        r#"{"process": "bcf86cd799", "counter": 4427793}"#,
    ),
    (
        "uuid7",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "2022-02-22T19:22:22.000Z",
        1_645_557_742_000,
        1_645_557_742_000,
        r#"{"counter": 3267, "noise": "18c4dc0c0c07398f"}"#,
    ),
    (
        "ksuid",
        "0ujtsYcgvSTl8PAuAdqWYSMnLOv",
        "2017-10-10T04:00:47.000Z",
        1_507_608_047_000,
        107_608_047,
        r#"{"counter": 11903437, "noise": "34b5f99d1154fb6853345c9735"}"#,
    ),
    (
        "hibernate",
        "c0a80011-5d3e-1798-815d-3ef79be70001",
        "2017-07-14T02:40:00.999Z",
        1_500_000_000_999,
        1_500_000_000_999,
        r#"{"address": "192.168.0.17", "process": "5d3e798", "counter": 1}"#,
    ),
];

#[test]
fn worked_ids_of_every_preset_are_decoded() {
    for &(layout, id, time, unix_ms, tick, fields) in WORKED {
        let fields: Value = serde_json::from_str(fields).unwrap();
        let mut expected = json!({"id": id, "time": time, "unix_ms": unix_ms, "tick": tick});
        expected.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let decoded: Value = serde_json::from_str(&printed(&["decode", "--json", "--layout", layout, id])).unwrap();
        assert_eq!(decoded, expected, "{layout}");
        let table = printed(&["decode", "--layout", layout, id]);
        for field in fields.as_object().unwrap() {
            assert!(table.contains(field.0) && table.contains(time), "{table}");
        }
    }
}

#[test]
fn wide_fields_are_strings_in_json_and_columns_are_aligned() {
    let rfc = "c232ab00-9414-11ec-b3c8-9f6bdeced846";
    let json = format!(
        "{{\"id\":\"{rfc}\",\"time\":\"2022-02-22T19:22:22.0000000Z\",\"unix_ms\":1645557742000,\
         \"tick\":\"138648505420000000\",\"clock-seq\":13256,\"node\":\"9f6bdeced846\"}}\n"
    );
    assert_eq!(printed(&["decode", "--json", "--layout", "uuid1", rfc]), json);
    assert_eq!(
        printed(&["decode", "--layout", "uuid1", &rfc.to_uppercase(), rfc]),
        "                                  id time (UTC)                         unix_ms                tick clock-seq         node
c232ab00-9414-11ec-b3c8-9f6bdeced846 2022-02-22T19:22:22.0000000Z 1645557742000  138648505420000000     13256 9f6bdeced846
c232ab00-9414-11ec-b3c8-9f6bdeced846 2022-02-22T19:22:22.0000000Z 1645557742000  138648505420000000     13256 9f6bdeced846
"
    );
    // A field has the name of a standard JSON key.
    let layout = "layout time:41@1ms tick:3 server-id:9 tock:64 epoch 0";
    assert_eq!(
        printed(&["decode", "--json", "--layout", layout, "130000000000000000000000000000000000"])
            .matches("tick")
            .count(),
        2
    );
}

#[test]
fn a_kind_without_time_has_none() {
    let id = "919108f7-52d1-4320-9bac-f847db4148a8";
    let table = printed(&["decode", "--layout", "uuid4", id]);
    assert!(table.ends_with(" holds no time            2464423dd4b44c81bacf847db4148a8\n"), "{table}");
    let json = printed(&["decode", "--json", "--layout", "uuid4", id]);
    assert!(json.contains(r#""time":null,"unix_ms":null,"noise":"#), "{json}");
    refused(&["span", "--layout", "uuid4", "2026-01-01", "now"], "IDs of uuid4 hold no time");
    assert!(printed(&["layout", "uuid4"]).contains("\ntime       none\n"));
}

#[test]
fn texts_of_formats_are_read() {
    let layout = "twitter format base62 prefix T-";
    let json = printed(&["decode", "--json", "--layout", layout, "T-1q2y0ZPhQJU", "[\"T-00000000001\"]"]);
    let ids: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((ids.len(), &ids[0]["id"], &ids[1]["counter"]), (2, &json!("T-1q2y0ZPhQJU"), &json!(1)));
    // Output of redis-cli, from standard input.
    let input = "1) \"T-00000000001\"\n2) \"T-00000000002\"\n";
    let output = finish(&mut getid(&["decode", "--json", "--layout", layout]), input, PATIENCE, false);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
}

#[test]
fn an_id_that_does_not_decode_is_an_error() {
    for (layout, id, expected) in [
        ("js53", "9007199254740992", "is not an ID of js53: must be 0 to 9007199254740991"),
        ("twitter", "9223372036854775808", "must be 0 to 9223372036854775807"),
        ("discord", "18446744073709551616", "must be 0 to 18446744073709551615"),
        ("uuid7", "919108f7-52d1-4320-9bac-f847db4148a8", "must be a UUID of version 7"),
        ("hibernate", "0a010203-99c8-1d7d-8199-c82cc07bffff", "last four digits are 7fff or less"),
        ("objectid", "507f1f77bcf86cd79943901", "must be 24 hex digits"),
        ("objectid-decimal", "1", "must be 29 digits, at most 79228162514264337593543950335"),
        (
            "ksuid",
            "aWgEPTl1tmebfsQzFP4bxwgy80W",
            "must be a KSUID, 27 digits of base62, at most aWgEPTl1tmebfsQzFP4bxwgy80V",
        ),
        ("twitter format base58", "1541815603606036480", "must be 11 digits of base58"),
        ("twitter format hex overflow grow", "xyz", "must be 16 or more digits of hex"),
    ] {
        refused(&["decode", "--layout", layout, id], expected);
    }
    // The other IDs are decoded.
    let (code, stdout, stderr) = output(&["decode", "--layout", "uuid4", "x", "919108f7-52d1-4320-9bac-f847db4148a8"]);
    assert_eq!((code, stdout.lines().count()), (Some(1), 2));
    assert!(stderr.contains("argument 1: 'x' is not an ID of uuid4"), "{stderr}");
}

#[test]
fn mistakes_in_a_layout_are_reported_together() {
    refused(
        &["decode", "--layout", "twiter", "5"],
        "--layout: 'twiter' is not a kind of generator; did you mean 'twitter'?",
    );
    refused(&["decode", "--layout", "", "5"], "--layout: the kind is missing");
    refused(&["layout", "xyz"], "the layout: 'xyz' is not a kind of generator; 'getid layout --list' shows the kinds");
    for (typed, meant) in [("Sequence", "'sequence'"), ("uuid", "'uuid7' or 'uuid4'")] {
        refused(&["layout", typed], &format!("'{typed}' is not a kind of generator; did you mean {meant}?"));
        refused(&["decode", "--layout", typed, "5"], &format!("did you mean {meant}?"));
    }
    refused(
        &["layout", "serial"],
        "the layout: a serial has its template behind the kind, such as 'INV{yyyyMMdd}-{n:6}'",
    );
    refused(&["layout", "serial", "ORD{yyyy}{n:6}", "zone", "Mars"], "zone is 'Mars', must be the name of a time zone");
    refused(&["decode", "--layout", "twitter epoch 2016-01-01", "5"], "must be a time with a zone");
    let (_, _, stderr) = output(&["span", "--layout", "twitter time:x counter:99 foo 7 pad", "1", "2"]);
    assert!(stderr.starts_with("getid: --layout has 4 mistakes:\n  'time:x' is not a field"), "{stderr}");
    assert_eq!(stderr.lines().count(), 5, "{stderr}");
    for flags in [
        &["--layout", "twitter", "--id-range", "3"][..],
        &["--generator", "x", "--epoch", "0"],
        &["--layout", "twitter", "--generator", "x"],
    ] {
        assert_eq!(output(&[&["decode"], flags, &["5"]].concat()).0, Some(2), "{flags:?}");
    }
}

#[test]
fn generators_of_a_configuration_are_found_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("getid.conf");
    std::fs::write(&file, "generator tweets twitter worker 3\ngenerator short leaf format base62\ngenerator invoices serial INV-{yyyy}-{n:6} zone UTC\n\
                             generator tickets sequence\n").unwrap();
    let file = file.to_str().unwrap();
    // The fields come from the ID, not from the declaration.
    let json = printed(&["decode", "--json", "--generator", "tweets", "--config", file, "1541815603606036480"]);
    assert!(json.contains(r#""datacenter":11,"worker":26"#), "{json}");
    let span = printed(&["span", "--generator", "short", "--config", file, "2020-01-01", "2020-01-02", "--json"]);
    assert!(span.contains(r#""lowest":"1RXiBB1"#), "{span}");
    refused(&["decode", "--generator", "tweet", "--config", file, "5"], "no such generator; did you mean 'tweets'?");
    refused(&["decode", "--generator", "orders", "--config", file, "5"], "it has tweets, short, invoices, tickets");
    // Generators that count are generators too, and may be the only ones.
    let counters = dir.path().join("counters.conf");
    std::fs::write(&counters, "generator order serial O{n:6} reset never\n").unwrap();
    let counters = counters.to_str().unwrap();
    refused(&["layout", "--generator", "ordr", "--config", counters], "no such generator; did you mean 'order'?");
    refused(&["layout", "--generator", "tweets", "--config", counters], "no such generator; it has order");
    refused(&["decode", "--generator", "orders", "5"], "it has none; --config FILE names the servers' configuration");
    for (name, about) in [("invoices", "invoices: serial, a template"), ("tickets", "tickets: sequence, the values")] {
        let text = printed(&["layout", "--generator", name, "--config", file]);
        assert!(text.starts_with(about), "{text}");
        assert_eq!(printed(&["layout", name, "--config", file]), text);
    }
    refused(
        &["layout", "twets", "--config", file],
        "no kind and no generator has the name 'twets'; did you mean 'tweets'?",
    );
    refused(&["layout", "tweets", "--config", "/none.conf"], "/none.conf");
    refused(&["span", "--generator", "tickets", "--config", file, "2026-01-01", "now"], "IDs of tickets are counted");
    let text = printed(&["layout", "tweets", "--config", file]);
    assert_eq!(printed(&["layout", "--generator", "tweets", "--config", file]), text);
    assert!(text.starts_with("tweets: twitter, Twitter's Snowflake\n"), "{text}");
    assert!(
        text.contains("worker         5        12  0 to            31  3, given by hand: servers must differ"),
        "{text}"
    );
}

#[test]
fn ids_of_a_time_are_composed() {
    let tweet = ["encode", "--layout", "twitter", "--time", "1656432460105", "worker=26", "datacenter=11"];
    assert_eq!(printed(&tweet), "1541815603606036480\n");
    assert_eq!(printed(&[&tweet[..], &["--highest"]].concat()), "1541815603606040575\n");
    let json: Value = serde_json::from_str(&printed(&[&tweet[..], &["--json"]].concat())).unwrap();
    let time = "2022-06-28T16:07:40.105Z";
    let expected = serde_json::json!({ "id": "1541815603606036480", "time": time, "unix_ms": 1_656_432_460_105_i64 });
    assert_eq!(json, expected);
    assert_eq!(
        printed(&["encode", "--time", "2017-03-06T09:37:01.966Z", "random=546", "server_id=0"]),
        "144182182078841378\n"
    );
    for (words, expected) in [
        (&["encode", "--time", "x"][..], "--time: 'x' is not a time"),
        (&["encode", "--time", "-1"], "1969-12-31T23:59:59.999Z is before the first time that an id can carry"),
        (&["encode", "--time", "now", "shard"], "'shard' is not FIELD=VALUE"),
        (&["encode", "--time", "now", "shard=512"], "'512' is out of range: field 'shard' takes 0 to 511"),
        (&["encode", "--time", "now", "x=1"], "there is no field 'x'; the fields are server_id (0 to 3), shard"),
        (&["encode", "--time", "now", "shard=1", "shard=1"], "field 'shard' is given twice"),
        (&["encode", "--time", "now", "--layout", "uuid4"], "IDs of uuid4: its ids hold no time"),
        (&["encode", "--time", "now", "--layout", "sequence"], "IDs of sequence are counted, and hold no time"),
        (&["encode", "--time", "2080-01-01", "--layout", "twitter format hex pad 2"], "more digits than 'pad'"),
    ] {
        refused(words, expected);
    }
}

#[test]
fn spans_hold_all_ids_of_their_time() {
    let span = |layout: &str, from: &str, to: &str| {
        let json: Value = serde_json::from_str(&printed(&["span", "--json", "--layout", layout, from, to])).unwrap();
        (json["lowest"].as_str().unwrap().to_owned(), json["highest"].as_str().unwrap().to_owned())
    };
    let owned = |(lowest, highest): (&str, &str)| (lowest.to_owned(), highest.to_owned());
    assert_eq!(
        span("twitter", "1656432460105", "1656432460105"),
        owned(("1541815603604488192", "1541815603608682495"))
    );
    // An ID of the 10 ms, or of the second, in which the span begins.
    assert_eq!(
        span("sonyflake", "1573458330709", "1573458330709"),
        owned(("275026772355973120", "275026772372750335"))
    );
    assert_eq!(span("objectid", "1350508407999", "1350508408000").0, "507f1f770000000000000000");
    // The span contains all 100 ns ticks of a millisecond.
    assert_eq!(
        span("uuid6", "1645557742000", "1645557742000"),
        owned(("1ec9414c-232a-6b00-8000-000000000000", "1ec9414c-232d-620f-bfff-ffffffffffff"))
    );
    refused(&["span", "--layout", "uuid1", "2020-01-01", "2020-01-02"], "IDs of uuid1 do not sort by their time");
    refused(
        &["span", "--layout", "baidu", "2020-01-01", "2026-01-01"],
        "TO 2026-01-01T00:00:00.000Z lies past 2024-11-20T13:24:15.999Z",
    );
    refused(
        &["span", "--layout", "twitter", "2010-01-01", "2026-01-01"],
        "lies before the epoch, 2010-11-04T01:42:54.657Z",
    );
    let growing = "twitter format base62 pad 10 overflow grow";
    refused(&["span", "--layout", growing, "2010-12-01", "2026-01-01"], "grow longer than 'pad'");
}

#[test]
fn a_layout_is_explained() {
    assert_eq!(
        printed(&["layout"]).split("\n\nid % n").next().unwrap().replace(|c: char| c.is_ascii_digit(), "0"),
        "the unnamed generator

  62                           20          18        9
+----------------------------+-----------+---------+----------+
|            time            | server-id | counter |  random  |
|          42 bits           |  2 bits   | 9 bits  | 10 bits  |
+----------------------------+-----------+---------+----------+

field      bits  from bit  values              content
time         42        21  0 to 4398046511103  1ms since 2014-12-31T16:00:00.000Z
server-id     2        19  0 to             3  the server-id
counter       9        10  0 to           511  IDs of the same 1ms, from 0 on
random       10         0  0 to          1023  each value once in any 1,024 IDs in a row

width      63 bits
capacity   512,000 IDs a second on each server
servers    4 (2 bits)
time       from 2014-12-31T16:00:00.000Z to 2154-05-14T23:35:11.103Z, 46,559 days left
order      each server's IDs ascend
written    an integer of up to 19 digits"
            .replace(|c: char| c.is_ascii_digit(), "0")
    );
    assert!(
        printed(&["layout", "--id-range", "0", "--random-range", "12"])
            .contains("servers    1: no field of an ID distinguishes servers")
    );
    for (words, expected) in [
        ("baidu", "from 2016-05-19T16:00:00.000Z to 2024-11-20T13:24:15.000Z, over"),
        ("baidu", "its time is over: no ID can be given"),
        ("sonyflake", "to 2188-11-16T03:28:58.870Z"),
        ("sonyflake", "the time of an ID is precise to 10ms"),
        ("twitter", "JavaScript's numbers hold 53 bits"),
        ("discord", "64 bits: an ID is text for clients"),
        ("redis-lua", "comes with each request, as in GETID redis-lua shard 1"),
        ("redis-lua", "IDs ascend for each value of 'shard' by itself"),
        ("redis-lua one-server 2", "servers    1, the one with server-id 2\n"),
        ("timestamp-ms", "each ID takes 1ms for itself"),
        ("uuid7", "written    a UUID of version 7"),
        ("ksuid", "written    a KSUID, 27 digits of base62"),
        ("ksuid", "a collation that distinguishes capitals from small letters"),
        ("hibernate", "order      none"),
        (
            "leaf format base62 pad 10",
            "from 2017-03-08T02:18:56.908Z on, numbers have more than 10 digits, and they are refused",
        ),
        ("leaf format base58", "a collation that distinguishes capitals from small letters"),
        ("leaf epoch 4000000000000", "its time has not begun"),
        ("leaf --mod 4 --rate 100", "id % 4 at 100 IDs a second: even"),
        ("leaf counter-start 0..0 --mod 4 --rate 100", "id % 4 at 100 IDs a second: the emptiest remainder has"),
        ("js53", "declared by\n  generator NAME js53 time:41@1ms server-id:3 counter:9 epoch 1420041600000"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let text = printed(&[&["layout"], words.as_slice()].concat());
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    let json: Value =
        serde_json::from_str(&printed(&["layout", "twitter", "--json", "--mod", "10", "--rate", "5"])).unwrap();
    assert_eq!((&json["capacity_per_s"], &json["last_time"]), (&json!(4_096_000), &json!("2080-07-10T17:30:30.208Z")));
    assert_eq!((&json["fields"][1]["lowest_bit"], &json["evenness"][0]["even"]), (&json!(17), &json!(false)));
    refused(&["layout", "twitter", "worker:65"], "the layout: 'worker' has 65 bits");
}

#[test]
fn a_layout_is_proposed_and_can_be_declared() {
    for (servers, rate, modulus) in
        [("20", "50000", "1024"), ("1", "1", "1"), ("1000", "1000000", "7"), ("3", "900000", "96")]
    {
        let args = ["layout", "--servers", servers, "--rate", rate, "--mod", modulus, "--json"];
        let json: Value = serde_json::from_str(&printed(&args)).unwrap();
        let line = json["declaration"].as_str().unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let output =
            getid(&["check-config", "--server-id", "0", "--dir", "/tmp", "--id-range", "0", "--shard-range", "11"])
                .arg("--generator")
                .args(&words[1..])
                .output()
                .unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        assert_eq!(json["layout"]["evenness"][0]["even"], json!(true), "{line}");
    }
    let text = printed(&["layout", "--servers", "20", "--rate", "50000", "--mod", "1024"]);
    assert!(text.contains("\ngenerator orders layout time:42@1ms server-id:5 counter:6 random:10\n\nwhy\n"), "{text}");
    refused(
        &["layout", "--servers", "2000000", "--rate", "1000000000", "--mod", "1048576"],
        "no layout of 63 bits holds it",
    );
    for wrong in [
        &["--servers", "0", "--rate", "1"][..],
        &["--servers", "5"],
        &["--servers", "5", "--rate", "1", "twitter"],
        &["--servers", "5", "--rate", "1", "--id-range", "3"],
        &["--servers", "5", "--rate", "1", "--mod", "1048577"],
        &["--rate", "1000000001"],
        &["--mod", "0"],
        &["--list", "twitter"],
        &["twitter", "--generator", "x"],
    ] {
        assert_eq!(output(&[&["layout"], wrong].concat()).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn kinds_are_listed() {
    let text = printed(&["layout", "--list"]);
    for kind in getid_core::KINDS {
        assert!(text.lines().any(|line| line.split(' ').next() == Some(kind.word)), "{}\n{text}", kind.word);
    }
    let json: Value = serde_json::from_str(&printed(&["layout", "--list", "--json"])).unwrap();
    assert_eq!(
        json["kinds"].as_array().unwrap().len(),
        getid_core::KINDS.len() + getid_core::server::COUNTER_KINDS.len()
    );
}

#[test]
fn a_generator_over_a_sequence_is_explained() {
    let text = printed(&["layout", "serial", "ORD{yyyy}-{n:6}", "zone", "Asia/Shanghai", "cache", "0"]);
    for part in [
        "serial: a template over a counter",
        "-000042\n",
        "\ntemplate   ORD{yyyy}-{n:6}\n",
        "\ncounter    1 to 999,999, and from 1 again each year (Asia/Shanghai)\n",
        "\ntime       the year that it shows\n",
        "\nwritten    text of 14 characters\n",
        "'cache 0': a crash skips what was under way\n",
        "\ndeclared by\n  generator NAME serial ORD{yyyy}-{n:6} zone Asia/Shanghai cache 0\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    for (words, order, limit) in [
        (&["gapless"][..], "none", "the next request gets a released number, below later ones"),
        (&["gapless", "released", "void"], "each server's IDs ascend", "a released number is void"),
    ] {
        let text = printed(&[&["layout", "serial", "R{n:6}"], words].concat());
        let order = format!("\norder      {order}\n");
        for part in [&order, limit, "while that is away, no number is given\n", "NUMBER LEDGER lists them\n"] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains("'cache 0'"), "{text}");
    }
    let json: Value = serde_json::from_str(&printed(&["layout", "sequence", "format", "base62", "--json"])).unwrap();
    assert_eq!(
        (&json["kind"], &json["reset"], &json["example"]),
        (&json!("sequence"), &json!("never"), &json!("0000000000g"))
    );
}

#[test]
fn serial_numbers_and_sequences_are_decoded() {
    let order = "serial ORD{yyyyMMdd}-{n:6} zone Asia/Shanghai";
    assert_eq!(
        printed(&["decode", "--layout", order, "ORD20261125-000001"]),
        "                id period begins (UTC)            unix_ms               value
ORD20261125-000001 2026-11-24T16:00:00.000Z 1795536000000                   1
"
    );
    let json = printed(&["decode", "--json", "--layout", "sequence format base62 pad 4 prefix T-", "T-001A"]);
    assert_eq!(json, "{\"id\":\"T-001A\",\"time\":null,\"unix_ms\":null,\"value\":\"72\"}\n");
    refused(&["decode", "--layout", order, "ORD20261325-000001"], "must be a text of the template ORD{yyyyMMdd}-{n:6}");
}

#[test]
fn pasted_ids_are_recognized() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("getid.conf");
    std::fs::write(&file, "generator order serial ORD{yyyyMMdd}-{n:6} zone UTC\ngenerator tweets twitter\n").unwrap();
    let file = file.to_str().unwrap();
    // A tweet of yesterday. By the unnamed generator's layout, its time is always in the future.
    let unix_ms = getid_system::clock::wall_unix_ms() - 24 * 3600 * 1000;
    let tweet = ((unix_ms - 1_288_834_974_657) << 22).to_string();
    let ids = [
        "787043147958976551",
        "ORD20261125-000001",
        "919108f7-52d1-4320-9bac-f847db4148a8",
        "507f1f77bcf86cd799439011",
        &tweet,
    ];
    let text = printed(&[&["decode", "--config", file][..], &ids].concat());
    let heads: Vec<&str> = text.lines().filter(|line| line.contains(", ") || line.contains(" random")).collect();
    assert_eq!(heads.len(), 5, "{text}");
    for (head, expected) in
        heads.iter().zip(["shard random", "order: serial, ORD", "uuid4, UUID", "objectid, Mongo", "tweets: twitter, "])
    {
        assert!(head.contains(expected), "{head}: {expected}");
    }
    let json = printed(&[&["decode", "--json", "--config", file][..], &ids].concat());
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&Value> = rows.iter().map(|row| &row["kind"]).collect();
    assert_eq!(kinds, [&Value::Null, &json!("serial"), &json!("uuid4"), &json!("objectid"), &json!("twitter")]);
    assert_eq!((&rows[1]["generator"], &rows[1]["value"]), (&json!("order"), &json!("1")));
    assert_eq!(rows[4]["unix_ms"], json!(unix_ms));
    // The unnamed generator can be selected for all IDs.
    for unnamed in [&["--generator", "-"][..], &["--epoch", "1420041600000"]] {
        let json = printed(&[&["decode", "--json", "--config", file, &tweet][..], unnamed].concat());
        assert!(json.contains("\"shard\":") && !json.contains("twitter"), "{json}");
    }

    refused(
        &["decode", "ORD20261125-000001"],
        "; --config FILE adds the generators of a configuration; no kind reads it",
    );
}

/// Without a configuration, the time of another system's ID is in the future. Then all readings follow.
#[test]
fn an_id_of_another_system_has_all_its_readings() {
    let unix_ms = getid_system::clock::wall_unix_ms() - 24 * 3600 * 1000;
    let tweet = ((unix_ms - 1_288_834_974_657) << 22).to_string();
    let text = printed(&["decode", &tweet]);
    let heads: Vec<&str> = text.lines().filter(|line| line.contains(", ") || line.contains(" random")).collect();
    assert!(heads[0].contains("shard random") && heads[1].starts_with("twitter, Twitter's Snowflake"), "{text}");
    assert!(heads.len() > 2 && heads.len() <= 9, "{text}");
    assert_eq!(printed(&["decode", "--readings", &tweet]), text);
    // One object a line: the unnamed generator's has no kind.
    let json = printed(&["decode", "--readings", "--json", &tweet]);
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows[0]["kind"].is_null(), &rows[1]["kind"]), (true, &json!("twitter")), "{json}");
    assert_eq!((rows.len(), &rows[1]["unix_ms"]), (heads.len(), &json!(unix_ms)), "{json}");
    // Scripts get one row for each ID; a note names the option once.
    for args in [&["decode", "--json", &tweet, &tweet][..], &["decode", "-"]] {
        let input = format!("{tweet}\n{tweet}\n");
        let output = finish(&mut getid(args), &input, PATIENCE, false);
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        let ids = stdout.lines().filter(|line| line.contains(&tweet)).count();
        assert_eq!((ids, stderr.matches(&format!("'getid decode --readings {tweet}'")).count()), (2, 1), "{stderr}");
    }
    for flags in [&["--layout", "twitter"][..], &["--generator", "-"]] {
        assert_eq!(output(&[&["decode", "--readings", &tweet], flags].concat()).0, Some(2), "{flags:?}");
    }
}

/// A kind whose lowest bits are a counter is even only with the option.
#[test]
fn counter_start_is_proposed() {
    for (args, expected) in [
        (&["twitter"][..], Some("counter-start 0..1023: id % n is even at every rate, for n up to 1,024")),
        (&["twitter", "--mod", "100"], Some("counter-start 0..3: id % 100 is even at every rate")),
        (&["leaf"], Some("counter-start 0..1023: ")),
        (&["js53"], Some("counter-start 0..511: id % n is even at every rate, for n up to 512")),
        (&["leaf", "--mod", "100"], None),
        (&["twitter", "counter-start", "0..1023"], None),
        (&["fork", "--mod", "1024"], None),
        (&["sonyflake"], None),
        (&["uuid7"], None),
    ] {
        let text = printed(&[&["layout"], args].concat());
        let proposal = text.lines().find_map(|line| line.strip_prefix("proposal   "));
        assert!(proposal.is_some_and(|line| line.starts_with(expected.unwrap_or("-"))) || expected.is_none(), "{text}");
        assert_eq!(proposal.is_some(), expected.is_some(), "{text}");
    }
    let json: Value = serde_json::from_str(&printed(&["layout", "twitter", "--json"])).unwrap();
    assert_eq!(json["proposal"]["option"], json!("counter-start 0..1023"));
}

#[test]
fn get_bench_and_verify_support_serial_numbers_and_sequences() {
    let lines = ["order serial ORD{yyyyMMdd}-{n:6} zone UTC", "ticket sequence", "short sequence format base62 pad 7"];
    let words = lines.iter().flat_map(|line| ["--generator"].into_iter().chain(line.split(' ')));
    let server = Server::start(&words.collect::<Vec<_>>());
    let port = server.port.to_string();
    for line in lines {
        let name = line.split(' ').next().unwrap();
        let ids = printed(&["get", "-p", &port, name, "-n", "3"]);
        assert_eq!(ids.lines().count(), 3, "{ids}");
        let declared = format!("generator {line}");
        printed(&[&["decode", "--layout", &declared][..], &ids.lines().collect::<Vec<_>>()].concat());
        printed(&["bench", "-p", &port, "--generator", name, "-n", "200", "-c", "2"]);
        for more in [&[][..], &["--batch", "50"]] {
            let args = ["verify", "-p", &port, "-c", "4", "-P", "8", "-n", "2000", "--layout", &declared, "--json"];
            let report: Value = serde_json::from_str(&printed(&[&args[..], more].concat())).unwrap();
            assert_eq!((&report["ok"], &report["generator"]), (&json!(true), &json!(name)), "{report}");
            let judged = |check: &str| {
                let checks = report["checks"].as_array().unwrap();
                checks.iter().find(|row| row["check"] == json!(check)).unwrap()["made"].clone()
            };
            for (check, made) in
                [("duplicate", true), ("real-time-order", true), ("clock", false), ("server-id", false)]
            {
                assert_eq!(judged(check), json!(made), "{name}: {check}");
            }
        }
    }
    let (code, _, stderr) = output(&["get", "-p", &port, "5", "-n", "3"]);
    assert_eq!((code, stderr.contains("use one of them")), (Some(2), true), "{stderr}");
}

#[test]
fn get_and_bench_draw_from_a_named_generator() {
    let generators = ["tweets twitter", "orders:eu leaf format base62", "trace uuid7", "lua redis-lua one-server 0"];
    let words = generators.iter().flat_map(|line| ["--generator"].into_iter().chain(line.split(' ')));
    let server = Server::start(&words.collect::<Vec<_>>());
    let port = server.port.to_string();
    let got = |args: &[&str]| {
        let text = printed(&[&["get", "-p", &port], args].concat());
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (args, layout, count) in [
        (&["tweets"][..], "twitter", 1),
        (&["2500", "tweets"], "twitter", 2500),
        (&["trace", "3"], "uuid7", 3),
        (&["2", "--generator", "orders:eu"], "leaf format base62", 2),
        (&["2", "lua", "--field", "shard=53"], "redis-lua", 2),
    ] {
        let ids = got(args);
        assert!(ids.len() == count && ids.is_sorted(), "{args:?}: {ids:?}");
        let input = ids.join("\n");
        let output = finish(&mut getid(&["decode", "--json", "--layout", layout]), &input, PATIENCE, false);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(0), count), "{args:?}: {text}");
        assert!(layout != "redis-lua" || text.contains(r#""shard":53,"#), "{text}");
    }
    for (args, code, expected) in [
        (&["tweet"][..], 1, "no generator 'tweet'"),
        (&["lua"], 1, "needs a value for its field 'shard'"),
        (&["lua", "trace"], 2, "'trace': a generator was named before"),
        (&["lua", "--generator", "trace"], 2, "use one of them"),
        (&["--field", "shard=1"], 2, "the unnamed generator has no such field"),
        (&["lua", "--field", "shard"], 2, "must be NAME=VALUE, as in shard=53"),
    ] {
        let (found, stdout, stderr) = output(&[&["get", "-p", &port], args].concat());
        assert_eq!((found, stdout.as_str()), (Some(code), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    let bench = |args: &[&str]| output(&[&["bench", "-p", &port, "-n", "200", "-c", "2", "--json"], args].concat());
    for args in
        [&["--generator", "tweets"][..], &["--generator", "lua", "--field", "shard=1"], &["MGETID", "5", "trace"]]
    {
        let (code, stdout, stderr) = bench(args);
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
        let report: Value = serde_json::from_str(&stdout).unwrap();
        assert!(report["requests"].as_u64() >= Some(200), "{report}");
    }
    let (code, _, stderr) = bench(&["--generator", "tweets", "PING"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("a command was given"), "{stderr}");
}

#[test]
fn scripts_and_help_contain_the_flags() {
    let script = printed(&["completions", "bash"]);
    for flag in ["--layout", "--generator", "--list", "--servers", "--rate", "--mod", "--field"] {
        assert!(script.contains(flag), "{flag}");
    }
    assert!(printed(&["--help"]).contains("\n  layout "));
    for (command, parts) in [
        ("decode", &["--layout <WORDS>", "--generator <NAME>", "getid decode --layout twitter"][..]),
        ("span", &["--layout <WORDS>", "--generator <NAME>", "getid span --layout"]),
        ("layout", &["getid layout --servers 20 --rate 50000 --mod 1024", "--list"]),
        ("get", &["--generator <NAME>", "--field <NAME=VALUE>", "getid get trace", "-n, --count <N>"]),
        ("bench", &["--generator <NAME>", "--field <NAME=VALUE>", "getid bench --generator order"]),
        ("verify", &["--generator <NAME>", "--field <NAME=VALUE>", "--layout 'generator trace uuid7'"]),
    ] {
        let help = printed(&[command, "--help"]);
        for part in parts {
            assert!(help.contains(part), "{part:?} in\n{help}");
        }
    }
}
