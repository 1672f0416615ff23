//! Serial numbers: templates, periods, check digits, declarations.

use std::collections::HashSet;

use getid_core::server::{CheckDigit, CivilTime, CounterDeclaration, CounterKind, Reset, Template, UnknownZone};
use proptest::prelude::*;

const STAMP: CivilTime = CivilTime { year: 2026, month: 11, day: 2, hour: 9 };

fn declared(words: &str) -> Result<CounterDeclaration, String> {
    let words: Vec<_> = words.split(' ').collect();
    let zone =
        |name: &str| if name == "Nowhere" { Err(UnknownZone { name: name.to_owned(), similar: None }) } else { Ok(()) };
    let errors = |errors: Vec<getid_core::server::CounterError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    CounterDeclaration::parse(&words, zone).expect("a sequence or a serial").map_err(errors)
}

fn text(template: &str, value: i64, grows: bool) -> Option<String> {
    let mut out = b"before".to_vec();
    let template = Template::parse(template).expect("a template");
    let is_written = template.write(STAMP, "ACME", value, grows, &mut out);
    assert_eq!(is_written, out.len() > 6);
    is_written.then(|| String::from_utf8(out.split_off(6)).expect("ASCII"))
}

#[test]
fn templates_and_their_texts() {
    for (template, value, expected) in [
        ("INV{yyyyMMdd}-{n:6}", 42, "INV20261102-000042"),
        ("{yy}{MM}/{n:3}", 7, "2611/007"),
        ("{n:1}", 9, "9"),
        ("{HH}{n:18}", 1, "09000000000000000001"),
        // 7992739871 is Luhn's example: its digit is 3.
        ("799273987{n:1}{luhn}", 1, "79927398713"),
        // An IBAN of the standard, with country and digits at the end: GB82 WEST 1234 5698 7654 32.
        ("WEST{n:14}GB{mod97}", 12_345_698_765_432, "WEST12345698765432GB82"),
        ("5-{n:2}{damm}", 72, "5-724"),
        ("2-{n:2}{verhoeff}", 36, "2-363"),
        ("0000-0002-{n:4}-009{mod11-2}", 1825, "0000-0002-1825-0097"),
        ("ab{n:3}{mod11-2}", 79, "ab079X"),
        ("A1-2425G-ABC{n:7}-{mod37-36}", 1_234_002, "A1-2425G-ABC1234002-M"),
        ("{rf}{n:12}", 539_007_547_034, "RF18539007547034"),
        // Check digits at the end cover what is behind those at the front, which cover them too.
        ("{rf}57{n:1}{damm}", 2, "RF745724"),
    ] {
        assert_eq!(text(template, value, false).as_deref(), Some(expected));
    }
    assert_eq!(text("A{n:2}", 100, false), None);
    assert_eq!(text("A{n:2}", 100, true).as_deref(), Some("A100"));
}

/// A text that a template has written is read, and no other text. The stamp has the shown fields, and the first value
/// of others.
#[test]
fn texts_of_templates_are_read() {
    let stamp = |year, month, day, hour| CivilTime { year, month, day, hour };
    for (template, text, expected) in [
        ("ORD{yyyyMMdd}-{n:6}", "ORD20261125-000001", Some((stamp(2026, 11, 25, 0), 1))),
        ("{yy}{MM}/{n:3}", "2611/007", Some((stamp(26, 11, 1, 0), 7))),
        ("{yyyy}{yy}{n:1}", "2026269", Some((stamp(2026, 1, 1, 0), 9))),
        ("{HH}{n:18}", "23000000000000000001", Some((stamp(0, 1, 1, 23), 1))),
        ("799273987{n:1}{luhn}", "79927398713", Some((CivilTime::FIRST, 1))),
        ("A{n:2}", "A99", Some((CivilTime::FIRST, 99))),
        // A wrong check digit, year or text, and times that do not exist.
        ("799273987{n:1}{luhn}", "79927398714", None),
        ("{yyyy}{yy}{n:1}", "2026259", None),
        ("A{n:2}", "B99", None),
        ("{MM}{n:1}", "131", None),
        ("{MM}{n:1}", "001", None),
        ("{dd}{n:1}", "321", None),
        ("{yyyyMMdd}{n:1}", "202602291", None),
        ("{yyyyMMdd}{n:1}", "202802291", Some((stamp(2028, 2, 29, 0), 1))),
        ("{HH}{n:1}", "241", None),
        // Too short, too long, and characters that are not digits.
        ("A{n:2}", "A9", None),
        ("A{n:2}", "", None),
        ("A{n:2}", "A100", None),
        ("A{n:2}", "A+9", None),
        ("A{n:2}", "A-9", None),
        ("{yyyy}{n:1}", "+2261", None),
        ("A{n:2}", "A\u{e4}", None),
        ("A{n:2}", "A9\u{e4}", None),
        ("\u{41}{n:3}", "\u{1f600}", None),
    ] {
        let read = Template::parse(template).expect("a template").read(text, false);
        let read = read.map(|(stamp, value, key)| {
            assert_eq!(key, "");
            (stamp, value)
        });
        assert_eq!(read, expected, "{text} by {template}");
    }
    let grown = |text: &str| Template::parse("A{n:2}").expect("a template").read(text, true).map(|(_, value, _)| value);
    let read = ["A09", "A100", "A010", "A9223372036854775807", "A9223372036854775808", "A9"].map(grown);
    assert_eq!(read, [Some(9), Some(100), None, Some(i64::MAX), None, None]);
}

/// Of a text that is wrong in one digit, the check digits are found wrong, those at the end first.
#[test]
fn wrong_check_digits_are_distinguished_from_other_mistakes() {
    let wrong = |template: &str, text: &str| {
        let check = Template::parse(template).expect("a template").wrong_check(text, true);
        check.map(CheckDigit::word)
    };
    for (template, text, expected) in [
        ("A{n:3}{luhn}", "A0018", None),
        ("A{n:3}{luhn}", "A0019", Some("luhn")),
        ("A{n:3}{luhn}", "A0028", Some("luhn")),
        ("A{n:3}{luhn}", "A001x", Some("luhn")),
        ("A{n:3}{luhn}", "B0018", None),
        ("A{n:3}{luhn}", "A0x18", None),
        ("A{n:3}{luhn}", "A018", None),
        ("A{n:3}{luhn}", "A00\u{e9}8", None),
        ("A{n:3}{luhn}", "A00\u{e9}", None),
        ("A{n:3}{luhn}", "", None),
        ("A{n:3}", "A0018", None),
        ("{n:3}{mod97}", "00195", None),
        ("{n:3}{mod97}", "00159", Some("mod97")),
        ("{n:3}{mod11-2}", "079X", None),
        ("{n:3}{mod11-2}", "079x", Some("mod11-2")),
        ("{yyyyMM}{n:1}{damm}", "20261301", None),
        ("{rf}{n:4}{damm}", "RF060572", None),
        ("{rf}57{n:1}{damm}", "RF745724", None),
        ("{rf}57{n:1}{damm}", "RF745734", Some("damm")),
        ("{rf}57{n:1}{damm}", "RF475724", Some("rf")),
        ("{rf}57{n:1}{damm}", "RF6\u{e9}5724", None),
        ("{rf}57{n:1}{damm}", "RF3", None),
        ("{rf}57{n:1}{damm}", "\u{1f600}\u{1f600}", None),
    ] {
        assert_eq!(wrong(template, text), expected, "{text} by {template}");
    }
}

/// A key may have letters, so its check digits cover letters, and a creditor reference has no room for it.
#[test]
fn check_digits_cover_the_key_of_a_series() {
    for (check, expected) in [
        ("{luhn}", Some("'{luhn}' covers digits only")),
        ("{damm}", Some("'{damm}' covers digits only")),
        ("{verhoeff}", Some("'{verhoeff}' covers digits only")),
        ("{mod11-2}", Some("use a check digit over letters, {mod37-36} or {mod97}")),
        ("{mod97}", None),
        ("{mod37-36}", None),
    ] {
        let error = Template::parse(&format!("{{key}}-{{n:3}}{check}")).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), expected.is_some(), "{check}: {error:?}");
        assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{check}");
    }
    let error = Template::parse("{rf}{key}X{n:3}").expect_err("no room").to_string();
    assert!(error.contains("of A-Z and 0-9, and a {key} may have more, and '_', '.' and '-'"), "{error}");
}

#[test]
fn ids_of_generators_over_sequences_are_read() {
    for (words, id, value) in [
        ("s sequence", "42", Some(42)),
        ("s sequence", "042x", None),
        ("s sequence", "-1", None),
        ("s sequence", "9223372036854775808", None),
        ("s sequence format base62 pad 4 prefix O-", "O-001A", Some(72)),
        ("s sequence format base62 pad 4 prefix O-", "001A", None),
        ("s sequence format hex pad 20", "0000ffffffffffffffff", None),
        ("i serial {n:3}", "007", Some(7)),
        ("i serial {n:3}", "1000", None),
        ("i serial {n:3} overflow grow", "1000", Some(1000)),
    ] {
        let read = declared(words).expect("declared").read(id).map(|read| read.value);
        assert_eq!(read, value, "{id} by {words}");
    }
}

#[test]
fn mistakes_in_templates() {
    for (template, expected) in [
        ("INV", "must have a counter"),
        ("{n:3}{n:3}", "has several"),
        ("{n}", "must give the number of digits"),
        ("{n:0}", "1 to 18"),
        ("{n:19}", "1 to 18"),
        ("{n:+3}", "1 to 18"),
        ("{n:3", "no closing brace"),
        ("{n:3}}", "no opening one"),
        ("{}{n:3}", "not a field"),
        ("{yyy}{n:3}", "not a field"),
        ("{mm}{n:3}", "not a field"),
        ("{luhn}{n:3}", "'{luhn}' must be the last"),
        ("{n:3}{damm}{mod97}", "'{damm}' must be the last"),
        ("A{rf}{n:3}", "'{rf}' must be the first"),
        ("{rf}{rf}{n:3}", "'{rf}' must be the first"),
        (
            "{n:3}{mod11}",
            "at the front {rf}, and at the end one of {luhn}, {damm}, {verhoeff}, {mod11-2}, {mod97}, {mod37-36}",
        ),
        ("{rf}INV-{n:3}", "at most 25 characters of A-Z and 0-9, and 'INV-' has other characters"),
        ("{rf}inv{n:3}", "'inv' has other characters"),
        ("{rf}ABCD{n:18}", "at most 25 characters of A-Z and 0-9, and its texts would have 26"),
        ("a\u{1}{n:3}", "printable"),
        ("ä{n:3}", "printable"),
    ] {
        let error = Template::parse(template).expect_err(template).to_string();
        assert!(error.contains(expected), "{template}: {error}");
    }
    let long = format!("{}{{n:1}}", "x".repeat(124));
    assert!(Template::parse(&long).is_err());
}

#[test]
fn a_template_shows_the_period_in_which_its_counter_begins_again() {
    for (template, finest, in_part, errors) in [
        ("{n:6}", Reset::Never, None, 4),
        ("{yyyy}-{n:6}", Reset::Year, None, 3),
        ("{MM}{yyyy}-{n:6}", Reset::Month, None, 2),
        ("{MM}{dd}-{n:6}", Reset::Never, Some(Reset::Day), 4),
        ("{yyyy}{dd}-{n:6}", Reset::Year, Some(Reset::Day), 3),
        ("{yyMMdd}-{n:6}", Reset::Day, None, 1),
        ("{yyyyMMddHH}{n:6}", Reset::Hour, None, 0),
    ] {
        let template = Template::parse(template).expect("a template");
        assert_eq!((template.finest(), template.finest_in_part()), (finest, in_part));
        let refused = Reset::ALL.into_iter().filter(|&reset| template.check_reset(reset).is_err());
        assert_eq!(refused.count(), errors, "{}", template.text());
    }
    assert!(Template::parse("{yy}{n:6}").expect("a template").has_short_years());
    let periods = Reset::ALL.map(|reset| reset.period(STAMP).unwrap_or_default());
    assert_eq!(periods, ["", "2026", "202611", "20261102", "20261102T09"]);
    for period in &periods[1..] {
        assert!(getid_core::server::Key::of_period("invoice", period).is_some(), "{period}");
    }
}

#[test]
fn declarations_and_their_mistakes() {
    let words = |words: &str| declared(words).map(|declared| declared.words().join(" "));
    for (given, canonical) in [
        ("short sequence format base62 pad 7", "short sequence format base62 pad 7"),
        ("s sequence", "s sequence"),
        ("s sequence answer sealed seal key-file k", "s sequence seal key-file k alphabet base58 answer sealed"),
        ("s sequence format hex", "s sequence format hex pad 16"),
        ("s sequence pad 9 overflow grow prefix A-", "s sequence format decimal pad 9 prefix A- overflow grow"),
        ("i serial INV{yyyyMMdd}-{n:6} zone Asia/Shanghai", "i serial INV{yyyyMMdd}-{n:6} zone Asia/Shanghai"),
        ("i serial {n:6} reset never cache 0", "i serial {n:6} cache 0"),
        ("i serial {rf}AB{n:6} overflow grow", "i serial {rf}AB{n:6} overflow grow"),
        ("i serial {rf}ABC{n:18}", "i serial {rf}ABC{n:18}"),
        (
            "i serial {yyyyMM}{n:6} overflow grow reset year zone UTC",
            "i serial {yyyyMM}{n:6} zone UTC reset year overflow grow",
        ),
    ] {
        assert_eq!(words(given).as_deref(), Ok(canonical));
        assert_eq!(declared(given), declared(canonical));
    }
    for (given, expected) in [
        ("i serial", "has its template"),
        ("i serial {yyyy}{n:6}", "has a zone"),
        ("i serial {yyyy}{n:6} zone Nowhere", "zone is 'Nowhere', must be the name of a time zone"),
        ("i serial {yyyy}{n:6} zone UTC reset day", "must show {yyyy}{MM}{dd}"),
        ("i serial {n:6} reset daily", "reset is 'daily'"),
        ("i serial {n:6} overflow wrap", "must be error or grow"),
        ("i serial {rf}AB{n:6}{luhn} overflow grow", "a counter has up to 19 digits, its texts would have up to 26"),
        ("i serial {n:6} cache -1", "cache is '-1'"),
        ("i serial {n:6} step 2", "not an option of a serial"),
        ("i serial {n:6} reset", "reset has no value"),
        ("s sequence format base64", "hex, base32, base36, base58, base62 or sqids"),
        ("s sequence pad 0", "pad is '0'"),
        ("s sequence pad 4 pad 5", "given twice"),
        ("s sequence cycle yes", "not an option of a sequence"),
        ("s sequence seal", "seal has no key-file"),
        ("s sequence alphabet base58", "alphabet is for seal and format sqids"),
        ("s sequence seal key-file k prefix A-", "prefix is given together with seal"),
        ("s sequence seal key-file k overflow grow", "overflow is given together with seal"),
        ("i serial {n:6} seal", "'seal' is not an option of a serial"),
    ] {
        let error = words(given).expect_err(given);
        assert!(error.contains(expected), "{given}: {error}");
    }
    let serial = declared("i serial {n:6}").expect("a serial");
    let CounterKind::Serial(serial) = serial.kind() else { panic!("a serial") };
    assert_eq!(serial.spec().max, 999_999);
}

/// Any two of key, year and number have different texts, whatever is between the key and its neighbours. All keys of up
/// to three characters of a small alphabet are tried.
#[test]
fn texts_of_different_keys_differ() {
    let letters = ["A", "0", "1", "-", "."];
    let mut keys = letters.map(str::to_owned).to_vec();
    for length in 1..3 {
        let longer: Vec<String> = keys.iter().filter(|key| key.len() == length).cloned().collect();
        keys.extend(longer.iter().flat_map(|key| letters.map(|letter| format!("{key}{letter}"))));
    }
    let stamps = [2026, 1001].map(|year| CivilTime { year, ..CivilTime::FIRST });
    for template in [
        "{key}-{n:1}",
        "{n:1}-{key}",
        "{key}-0{n:1}",
        "{key}0-{n:1}",
        "{key}-1-{n:2}",
        "{n:1}1-1{key}",
        "{n:1}A1{key}",
        "{key}.{yyyy}{n:1}",
        "{key}-{yyyy}-{n:1}",
        "{yyyy}-{key}-{n:1}",
        "{yyyy}-{n:1}-{key}",
        "{n:1}{yyyy}A{key}",
        "{n:2}.{yyyy}.{key}1",
        "1{key}1A1{n:1}{mod97}",
        "{key}--{n:1}",
        "{n:1}-{key}-{mod97}",
    ] {
        let parsed = Template::parse(template).expect(template);
        assert!(parsed.has_key() && parsed.bytes_max() <= 128);
        for grows in [false, true] {
            let mut texts = HashSet::new();
            let numbers = (0..12).chain([99, 100, 101, 110, 111, 1000, 1001, 10_110]);
            for (key, value, stamp) in keys
                .iter()
                .flat_map(|key| numbers.clone().map(move |value| (key, value)))
                .flat_map(|(key, value)| stamps.map(|stamp| (key, value, stamp)))
            {
                let mut out = Vec::new();
                if (parsed.has_date() || stamp == stamps[0]) && parsed.write(stamp, key, value, grows, &mut out) {
                    let text = String::from_utf8(out).expect("ASCII");
                    let read = parsed.read(&text, grows).expect(&text);
                    assert_eq!((read.1, read.2), (value, key.as_str()), "{text} by {template}");
                    assert!(texts.insert(text.clone()), "{text} twice by {template}");
                }
            }
            assert!(texts.len() >= 155 * 10, "{template}");
        }
    }
    assert_eq!(keys.len(), 155);
}

#[test]
fn a_key_stands_apart_from_digits() {
    for (template, expected) in [
        ("{key}{n:3}", "must be a character that is no digit"),
        ("{n:3}{key}", "must be a character that is no digit"),
        ("{key}00{n:3}", "must be a character that is no digit"),
        ("{key}{yyyy}-{n:3}", "must be a character that is no digit"),
        ("{yyyy}{key}-{n:3}", "must be a character that is no digit"),
        ("{n:3}-{key}{mod97}", "must be a character that is no digit"),
        ("{key}-{key}-{n:3}", "must have one {key}"),
        ("{key}-{n:3}{luhn}", "'{luhn}' covers digits only"),
        ("{key}", "must have a counter"),
        ("{KEY}-{n:3}", "{key}"),
    ] {
        let error = Template::parse(template).expect_err(template).to_string();
        assert!(error.contains(expected), "{template}: {error}");
    }
    let long = format!("{}{{key}}-{{n:3}}", "x".repeat(69));
    let error = Template::parse(&long).expect_err("too long").to_string();
    assert!(error.contains("up to 129 bytes"), "{error}");
}

#[test]
fn series_are_declared() {
    let words = |words: &str| declared(words).map(|declared| declared.words().join(" "));
    for (given, canonical) in [
        ("i serial INV-{key}-{n:5}", "i serial INV-{key}-{n:5}"),
        ("i serial {key}-{n:5} unique-per key key-case upper", "i serial {key}-{n:5}"),
        (
            "i serial {n:5} keys-max 7 keys declared key-case exact unique-per key",
            "i serial {n:5} unique-per key key-case exact keys declared keys-max 7",
        ),
        ("i serial {key}-{n:5} keys-max 100000 keys on-first-use", "i serial {key}-{n:5}"),
    ] {
        assert_eq!(words(given).as_deref(), Ok(canonical));
        assert_eq!(declared(given), declared(canonical));
    }
    for (given, expected) in [
        ("i serial {n:5} unique-per tenant", "unique-per is 'tenant', must be key"),
        ("i serial {n:5} key-case exact", "key-case is for a serial with a series for each key"),
        ("i serial {n:5} keys declared", "or add 'unique-per key'"),
        ("i serial {n:5} keys-max 5", "keys-max is for a serial"),
        ("i serial {key}-{n:5} key-case lower", "must be upper or exact"),
        ("i serial {key}-{n:5} keys any", "must be on-first-use or declared"),
        ("i serial {key}-{n:5} keys-max 0", "keys-max is '0', must be 1 to 10000000"),
        ("i serial {key}-{n:5} keys-max +5", "keys-max is '+5'"),
        ("s sequence unique-per key", "not an option of a sequence"),
    ] {
        let error = words(given).expect_err(given);
        assert!(error.contains(expected), "{given}: {error}");
    }
    let shared = |words: &str| declared(words).expect(words).shared_text();
    assert_eq!(shared("i serial {key}-{n:5} keys-max 7 cache 3"), "serial {key}-{n:5}");
    for option in ["key-case exact", "keys declared"] {
        assert_eq!(shared(&format!("i serial {{key}}-{{n:5}} {option}")), format!("serial {{key}}-{{n:5}} {option}"));
    }
    for (words, id, expected) in [
        ("i serial INV-{key}-{n:3}", "INV-ACME-1-007", Some(("ACME-1", 7))),
        ("i serial INV-{key}-{n:3}", "INV-acme-007", None),
        ("i serial INV-{key}-{n:3} key-case exact", "INV-acme-007", Some(("acme", 7))),
        ("i serial INV-{key}-{n:3}", "INV-A/B-007", None),
        ("i serial INV-{key}-{n:3}", "INV--007", None),
        ("i serial A{key}-{n:3}-{mod37-36}", "AACME-007-5", Some(("ACME", 7))),
        ("i serial A{key}-{n:3}-{mod37-36}", "AACNE-007-5", None),
        ("i serial INV-{key}-{n:3}", "INV-A-1007", None),
        ("i serial INV-{key}-{n:3} overflow grow", "INV-A-1007", Some(("A", 1007))),
        ("i serial {n:3} unique-per key", "007", Some(("", 7))),
    ] {
        let declared = declared(words).expect(words);
        let read = declared.read(id);
        assert_eq!(read.as_ref().map(|read| (read.series.as_str(), read.value)), expected, "{id} by {words}");
        assert!(declared.series().is_some());
    }
    let too_long = format!("INV-{}-007", "A".repeat(41));
    assert_eq!(declared("i serial INV-{key}-{n:3}").expect("declared").read(&too_long), None);
}

#[test]
fn templates_that_can_write_the_same_text_are_found() {
    for (one, other, can_meet) in [
        ("INV-{key}-{n:5}", "INV-{key}-{n:5}", true),
        ("INV-{key}-{n:5}", "ORD-{key}-{n:5}", false),
        ("{key}-{n:5}", "ORD-{n:5}", true),
        ("{key}-{n:5}", "ORD/{n:5}", false),
        ("{key}-{n:5}", "{n:3}", false),
        ("INV-{key}-{n:5}", "INV-{yyyy}-{n:5}", true),
        ("INV-{key}-{n:5}", "INV-{yyyy}-{n:4}", false),
        ("INV-{key}/{n:5}", "INV-{yyyy}-{n:5}", false),
        ("{n:5}", "{n:6}", false),
        ("A{n:5}{mod11-2}", "A{n:5}X", true),
        ("A{n:5}{mod37-36}", "A{n:5}X", true),
        ("A{n:5}{damm}", "A{n:5}X", false),
        ("{rf}{n:5}", "RF{n:7}", true),
        ("{rf}{n:5}", "INV{n:6}", false),
    ] {
        let parse = |text| Template::parse(text).expect(text);
        assert_eq!(parse(one).can_meet(&parse(other), [false; 2]), can_meet, "{one} and {other}");
        assert_eq!(parse(other).can_meet(&parse(one), [false; 2]), can_meet, "{other} and {one}");
    }
    let [short, long] = ["A{n:5}", "A{n:6}"].map(|text| Template::parse(text).expect(text));
    assert!(short.can_meet(&long, [true, false]) && !short.can_meet(&long, [false, true]));
}

fn stamps() -> impl Strategy<Value = CivilTime> {
    (1900..2100_u16, 1..13_u8, 1..29_u8, 0..24_u8).prop_map(|(year, month, day, hour)| CivilTime {
        year,
        month,
        day,
        hour,
    })
}

proptest! {
    /// Texts of different values or periods always differ.
    #[test]
    fn no_two_periods_or_values_have_the_same_text(
        stamps in prop::collection::vec(stamps(), 2..20),
        values in prop::collection::vec(0..2000_i64, 2..20),
        which in 0..8_usize,
        grows: bool,
    ) {
        let text = [
            "{yyyyMMddHH}{n:3}", "{n:3}{yyyyMMdd}", "A{dd}{n:2}{MMyyyy}{luhn}", "{yyyy}{n:1}{mod97}", "{n:2}{mod97}",
            "{rf}{yyyyMM}{n:3}", "{rf}{n:2}{yyyy}{verhoeff}", "B{n:1}{yyyy}{mod11-2}",
        ][which];
        let template = Template::parse(text).expect("a template");
        let (mut rows, mut texts) = (HashSet::new(), HashSet::new());
        for (stamp, value) in stamps.iter().flat_map(|stamp| values.iter().map(move |value| (*stamp, *value))) {
            let mut out = Vec::new();
            let period = template.finest().period(stamp);
            if template.write(stamp, "", value, grows, &mut out) && rows.insert((period, value)) {
                let text = String::from_utf8(out).expect("ASCII");
                let (read, counted, _) = template.read(&text, grows).expect("it was written by the template");
                prop_assert_eq!((template.finest().period(read), counted), (template.finest().period(stamp), value));
                prop_assert!(texts.insert(text.clone()), "{} twice", text);
            }
        }
    }
}
