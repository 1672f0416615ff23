//! Worked IDs of other systems, from `layout-vectors.json`: each is split and composed again.

use getid_core::server::{Composer, request_bits};
use getid_core::{Declaration, FieldLayout, Number, RandomCycle, Role, UtcMs};
use serde_json::Value;
use uuid::{Uuid, Variant};

use crate::support::declared;

/// Our word for a field, and the file's if that differs.
type Words = (&'static str, &'static str);

/// The declaration for each layout of the file, and the file's names of its fields.
const LAYOUTS: &[(&str, &str, &[Words])] = &[
    ("orig_redis_fork_2_9_10", "fork", &[("server-id", "server"), ("counter", "shard")]),
    ("orig_redis_fork_4_8_9", "fork server-id:4 counter:8 random:9", &[("server-id", "server"), ("counter", "shard")]),
    ("twitter_snowflake", "twitter", &[("counter", "sequence")]),
    ("leaf_snowflake", "leaf", &[("counter", "sequence")]),
    ("discord", "discord", &[("counter", "increment")]),
    ("keets2012", "keets", &[("counter", "sequence")]),
    ("keets2012_origin_5_5", "twitter epoch 1420041600000", &[("counter", "sequence")]),
    ("sonyflake_v1", "sonyflake", &[("counter", "sequence")]),
    ("sonyflake_v2", "sonyflake2", &[("counter", "sequence")]),
    ("sonyflake_v2_custom_12_10_1ms", "sonyflake2 time:41@1ms counter:12 machine:10", &[("counter", "sequence")]),
    ("baidu_default", "baidu", &[("time", "delta_s"), ("counter", "sequence")]),
    ("baidu_29_21_13", "baidu time:29 worker:21 epoch 1474300800000", &[("time", "delta_s"), ("counter", "sequence")]),
    ("redis_lua_41_12_10", "redis-lua", &[("counter", "sequence")]),
    ("icicle", "icicle", &[("counter", "sequence")]),
    ("chronos", "chronos", &[("counter", "logical")]),
    ("pd_tso", "pd", &[("time", "physical_ms"), ("counter", "logical")]),
];

/// Entries of the file that are not bits of an ID, and entries with a separate test below.
const OTHERS: &[&str] = &[
    "baidu_readme_example",
    "flickr_ticket",
    "hibernate_custom_version_one",
    "leaf_adaptive_step",
    "leaf_segment",
    "mongo_objectid",
    "tinyid_segment",
    "uuid",
];

fn vectors() -> Value {
    serde_json::from_str(include_str!("layout-vectors.json")).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Composes an ID from the values of its fields.
fn compose(declaration: &Declaration, value_of: impl Fn(&str) -> u64) -> Number {
    let layout = declaration.layout();
    let (mut server_id, mut requests, mut random, mut noise) = (0, Vec::new(), 0, 0);
    for field in layout.fields() {
        let value = value_of(&field.name);
        match field.role {
            Role::Server => server_id = (server_id << field.bits) | value,
            Role::Request => requests.push(value),
            Role::Random => random = value,
            Role::Noise => noise = u128::from(value),
            _ => {}
        }
    }
    // With the cycle 0, 1, 2 ... the ID with number n has the random value n.
    let cycle = RandomCycle::new((0..1 << layout.bits_of(Role::Random)).collect());
    let composer =
        Composer::new(layout, u32::try_from(server_id).unwrap(), |name| Some(value_of(name)), cycle).unwrap();
    let counter = if layout.counter_bits() > 0 { value_of("counter") } else { 0 };
    let time = if layout.has_time() { value_of("time") } else { 0 };
    let slot = time << layout.counter_bits() | counter;
    composer.number(slot, random, noise, request_bits(layout, &requests).unwrap())
}

fn fields(layout: &FieldLayout, number: Number) -> Vec<(&str, u128)> {
    layout.places().map(|(field, shift)| (field.name.as_str(), FieldLayout::value(field, shift, number))).collect()
}

/// Returns a Unix time in ns as the file writes it, in ms.
fn instant(unix_ns: i128) -> String {
    UtcMs(i64::try_from(unix_ns.div_euclid(1_000_000)).unwrap()).to_string()
}

#[test]
fn every_worked_id_is_read_and_made() {
    let all = vectors();
    let known: Vec<_> = LAYOUTS.iter().map(|(key, ..)| *key).chain(OTHERS.iter().copied()).collect();
    for key in all.as_object().unwrap().keys() {
        assert!(known.contains(&key.as_str()), "{key} has no test");
    }
    for &(key, words, names) in LAYOUTS {
        let (case, declaration) = (&all[key], declared(&format!("t {words}")));
        let layout = declaration.layout();
        let their = |name: &str| {
            names.iter().find(|(ours, _)| *ours == name).map_or(name.to_owned(), |(_, it)| (*it).to_owned())
        };
        let widths = case["widths_msb_first"].as_object().unwrap();
        assert_eq!(widths.len(), layout.fields().len(), "{key}");
        for field in layout.fields() {
            assert_eq!(u64::from(field.bits), number(&widths[&their(&field.name)]), "{key} {}", field.name);
        }
        assert_eq!(layout.epoch_unix_ms(), case["epoch_ms"].as_i64().unwrap(), "{key}");
        assert_eq!(layout.unit().ns(), number(&case["unit_ms"]) * 1_000_000, "{key}");
        assert_eq!(instant(layout.unix_ns(layout.last_tick())), case["last_time_iso"].as_str().unwrap(), "{key}");
        let list = case["vectors"].as_array().unwrap();
        assert!(list.len() >= 2, "{key}");
        for vector in list {
            let text = vector["id"].as_str().unwrap();
            let id = declaration.read(text).unwrap_or_else(|| panic!("{key} {text}"));
            assert_eq!(format!("{id:016x}"), vector["hex"].as_str().unwrap(), "{key}");
            let value_of = |name: &str| number(&vector["fields"][&their(name)]);
            for (name, value) in fields(layout, id) {
                assert_eq!(value, u128::from(value_of(name)), "{key} {text} {name}");
            }
            let tick = layout.tick_of(id).unwrap();
            assert_eq!(instant(layout.unix_ns(tick)), vector["time"].as_str().unwrap(), "{key} {text}");
            assert_eq!(layout.tick_at(layout.unix_ns(tick)), Some(tick), "{key} {text}");
            assert_eq!(compose(&declaration, value_of), id, "{key} {text}");
            let mut written = Vec::new();
            assert!(declaration.write(id, &mut written));
            assert_eq!(String::from_utf8(written).unwrap(), text, "{key}");
        }
    }
}

#[test]
fn baidus_readme_is_read_in_all_the_ways_it_may_be_meant() {
    let case = &vectors()["baidu_readme_example"];
    for way in case["decodes_as"].as_array().unwrap() {
        let [time, worker, counter] = [0, 1, 2].map(|i| number(&way["widths"][i]));
        for (epoch, key) in
            [(1_463_673_600_000_i64, "time_epoch_2016-05-20+08"), (1_474_300_800_000, "time_epoch_2016-09-20+08")]
        {
            let declaration = declared(&format!("t baidu time:{time} worker:{worker} counter:{counter} epoch {epoch}"));
            let id = declaration.read(case["id"].as_str().unwrap()).unwrap();
            let values: Vec<_> = fields(declaration.layout(), id).into_iter().map(|(_, value)| value).collect();
            let expected: Vec<_> = way["fields"].as_array().unwrap().iter().map(|n| u128::from(number(n))).collect();
            assert_eq!(values, expected, "{way}");
            let tick = declaration.layout().tick_of(id).unwrap();
            let time = instant(declaration.layout().unix_ns(tick)).replace(".000Z", "Z");
            assert_eq!(time, way[key].as_str().unwrap());
        }
    }
}

fn check_text(words: &str, text: &str, values: &[(&str, u64)]) -> Number {
    let declaration = declared(&format!("t {words}"));
    let id = declaration.read(text).unwrap_or_else(|| panic!("{words}: {text}"));
    let expected: Vec<_> = values.iter().map(|&(name, value)| (name, u128::from(value))).collect();
    assert_eq!(fields(declaration.layout(), id), expected, "{text}");
    let value_of = |name: &str| values.iter().find(|(known, _)| *known == name).unwrap().1;
    let composed = compose(&declaration, value_of);
    let mut written = Vec::new();
    assert!(declaration.write(composed, &mut written));
    assert_eq!(String::from_utf8(written).unwrap(), text, "{words}");
    id
}

#[test]
fn hibernates_worked_ids() {
    for vector in vectors()["hibernate_custom_version_one"]["vectors"].as_array().unwrap() {
        let ip = vector["ip"].as_str().unwrap();
        let address = ip.split('.').fold(0, |address, byte| address << 8 | byte.parse::<u64>().unwrap());
        // `(int) (start ms >>> 8)`, whose bits 12 to 15 make room for the version.
        let start = number(&vector["jvm_start_ms"]) >> 8 & 0xffff_ffff;
        let process = start >> 16 << 12 | start & 0xfff;
        let values = [
            ("time", number(&vector["now_ms"])),
            ("address", address),
            ("process", process),
            ("counter", number(&vector["counter"])),
        ];
        let id = check_text("hibernate", vector["uuid"].as_str().unwrap(), &values);
        let layout = declared("t hibernate");
        let tick = layout.layout().tick_of(id).unwrap();
        assert_eq!(layout.layout().unix_ns(tick), i128::from(number(&vector["decoded"]["time_ms"])) * 1_000_000);
    }
}

#[test]
fn worked_object_ids() {
    for vector in vectors()["mongo_objectid"]["vectors"].as_array().unwrap() {
        let text = vector["oid"].as_str().unwrap();
        let process = u64::from_str_radix(vector["random5"].as_str().unwrap(), 16).unwrap();
        let values = [("time", number(&vector["ts"])), ("process", process), ("counter", number(&vector["counter"]))];
        let id = check_text("objectid", text, &values);
        let decimal = format!("{:029}", u128::from_str_radix(text, 16).unwrap());
        assert_eq!(check_text("objectid-decimal", &decimal, &values), id);
        let time = instant(declared("t objectid").layout().unix_ns(u64::try_from(id >> 64).unwrap()));
        assert_eq!(time.replace(".000Z", "Z"), vector["time"].as_str().unwrap());
    }
}

#[test]
fn worked_uuids() {
    for vector in vectors()["uuid"].as_array().unwrap() {
        let (text, version) = (vector["uuid"].as_str().unwrap(), number(&vector["version"]));
        let declaration = declared(&format!("t uuid{version}"));
        let layout = declaration.layout();
        let id = declaration.read(text).unwrap();
        let mut written = Vec::new();
        assert!(declaration.write(id, &mut written));
        assert_eq!(String::from_utf8(written).unwrap(), text);
        let values = fields(layout, id);
        let value_of = |name: &str| u64::try_from(values.iter().find(|(known, _)| *known == name).unwrap().1).unwrap();
        if let Some(unix_ms) = vector["unix_ms"].as_i64() {
            assert_eq!(layout.unix_ns(value_of("time")), i128::from(unix_ms) * 1_000_000);
        }
        if version == 1 {
            assert_eq!(value_of("time"), number(&vector["ts_100ns"]));
            assert_eq!(value_of("clock-seq"), number(&vector["clock_seq"]));
            assert_eq!(format!("{:012x}", value_of("node")), vector["node"].as_str().unwrap());
        }
        // With another version it is no ID.
        for other in [1, 4, 6, 7].into_iter().filter(|&other| other != version) {
            assert_eq!(declared(&format!("t uuid{other}")).read(text), None, "{text} as version {other}");
        }
    }
}

/// The other examples of RFC 9562, appendices A and B: version 6 of the same time, clock sequence and node.
#[test]
fn rfc_9562_has_the_same_time_in_versions_1_and_6() {
    let values = [("time", 138_648_505_420_000_000), ("clock-seq", 13_256), ("node", 0x9f6b_dece_d846)];
    check_text("uuid1", "c232ab00-9414-11ec-b3c8-9f6bdeced846", &values);
    check_text("uuid6", "1ec9414c-232a-6b00-b3c8-9f6bdeced846", &values);
    let (counter, noise) = (0xcc3, 0x18c4_dc0c_0c07_398f);
    check_text(
        "uuid7",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        &[("time", 1_645_557_742_000), ("counter", counter), ("noise", noise)],
    );
}

/// The KSUID of Segment's README (`ksuid -f inspect`), whose payload is B5A1CD34B5F99D1154FB6853345C9735, and the
/// smallest and the largest KSUID of its tests.
#[test]
fn worked_ksuids() {
    let declaration = declared("t ksuid");
    let layout = declaration.layout();
    let largest = [u128::from(u32::MAX), (1 << 24) - 1, (1 << 104) - 1];
    for (text, values, time) in [
        (
            "0ujtsYcgvSTl8PAuAdqWYSMnLOv",
            [107_608_047, 0xb5_a1cd, 0x34_b5f9_9d11_54fb_6853_345c_9735],
            "2017-10-10T04:00:47.000Z",
        ),
        ("000000000000000000000000000", [0; 3], "2014-05-13T16:53:20.000Z"),
        ("aWgEPTl1tmebfsQzFP4bxwgy80V", largest, "2150-06-19T23:21:35.000Z"),
    ] {
        let id = declaration.read(text).unwrap();
        assert_eq!(fields(layout, id).into_iter().map(|(_, value)| value).collect::<Vec<_>>(), values, "{text}");
        assert_eq!(instant(layout.unix_ns(layout.tick_of(id).unwrap())), time, "{text}");
        let [time, counter, noise] = values;
        let slot = u64::try_from(time << 24 | counter).unwrap();
        let composer = Composer::new(layout, 0, |_| None, None).unwrap();
        let mut written = Vec::new();
        assert!(declaration.write(composer.number(slot, 0, noise, Number::ZERO), &mut written));
        assert_eq!(String::from_utf8(written).unwrap(), text);
    }
    for wrong in ["aWgEPTl1tmebfsQzFP4bxwgy80W", "zzzzzzzzzzzzzzzzzzzzzzzzzzz", "0ujtsYcgvSTl8PAuAdqWYSMnLO", "", "0"] {
        assert_eq!(declaration.read(wrong), None, "{wrong}");
    }
    let other_case = "0ujtsYcgvSTl8PAuAdqWYSMnLOv".to_uppercase();
    assert_ne!(declaration.read(&other_case), declaration.read("0ujtsYcgvSTl8PAuAdqWYSMnLOv"), "the case counts");
    for wrong in [format!("0{other_case}"), other_case.replace('0', "-"), format!("{}ü", &other_case[..25])] {
        assert_eq!(declaration.read(&wrong), None, "{wrong}");
    }
}

#[test]
fn crate_uuid_reads_what_is_written() {
    let mut random = crate::random::Random(9562);
    for version in [1, 4, 6, 7_u8] {
        let declaration = declared(&format!("t uuid{version}"));
        let layout = declaration.layout();
        for _ in 0..2000 {
            let id = Number::from(random.next()) << 64 | Number::from(random.next());
            let id = id & (u128::MAX >> 6);
            let mut written = Vec::new();
            assert!(declaration.write(id, &mut written));
            let text = std::str::from_utf8(&written).unwrap();
            let uuid = Uuid::parse_str(text).unwrap();
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (usize::from(version), Variant::RFC4122));
            assert_eq!(uuid.to_string(), text);
            assert_eq!(declaration.read(text), Some(id), "{text}");
            assert_eq!(declaration.read(&text.to_uppercase()), Some(id), "{text}");
            let Some(tick) = layout.tick_of(id) else { continue };
            let (seconds, nanos) = uuid.get_timestamp().unwrap().to_unix();
            let unix_ns = layout.unix_ns(tick);
            // The crate's times are never before 1970.
            if unix_ns >= 0 {
                assert_eq!(i128::from(seconds) * 1_000_000_000 + i128::from(nanos), unix_ns, "{text}");
            }
        }
    }
}
