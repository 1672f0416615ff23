//! Serial numbers: templates, periods, check digits, declarations.

use std::collections::HashSet;

use getid_core::server::{
    CheckDigit, CivilTime, CounterDeclaration, CounterKind, ReleasedNumbers, Reset, Template, UnknownZone,
};
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
    let is_written = template.write(STAMP, value, grows, &mut out);
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
    ] {
        assert_eq!(text(template, value, false).as_deref(), Some(expected));
    }
    assert_eq!(text("A{n:2}", 100, false), None);
    assert_eq!(text("A{n:2}", 100, true).as_deref(), Some("A100"));
    assert_eq!(CheckDigit::Mod97.of(b"0"), 98);
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
        assert_eq!(read, expected, "{text} by {template}");
    }
    let grown = |text: &str| Template::parse("A{n:2}").expect("a template").read(text, true).map(|(_, value)| value);
    let read = ["A09", "A100", "A010", "A9223372036854775807", "A9223372036854775808", "A9"].map(grown);
    assert_eq!(read, [Some(9), Some(100), None, Some(i64::MAX), None, None]);
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
        ("{luhn}{n:3}", "must be the last"),
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
        (
            "i serial {yyyyMM}{n:6} overflow grow reset year zone UTC",
            "i serial {yyyyMM}{n:6} zone UTC reset year overflow grow",
        ),
        ("i serial {n:6} gapless", "i serial {n:6} gapless"),
        ("i serial {n:6} cache 0 gapless overflow error", "i serial {n:6} gapless"),
        (
            "i serial R{yyyy}-{n:6} released void gapless zone UTC overflow grow",
            "i serial R{yyyy}-{n:6} zone UTC overflow grow gapless released void",
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
        ("i serial {n:6} gapless yes", "'yes' is not an option of a serial"),
        ("i serial {n:6} gapless gapless", "gapless is given twice"),
        ("i serial {n:6} gapless cache 100", "cache is '100', must be 0 or omitted with gapless"),
        ("i serial {n:6} gapless released later", "released is 'later', must be void"),
        ("i serial {n:6} gapless released", "released has no value"),
        ("i serial {n:6} released void", "released void is for a serial with gapless"),
        ("s sequence gapless", "gapless is an option of a serial, and a sequence has no ledger"),
    ] {
        let error = words(given).expect_err(given);
        assert!(error.contains(expected), "{given}: {error}");
    }
    let serial = declared("i serial {n:6}").expect("a serial");
    let CounterKind::Serial(serial) = serial.kind() else { panic!("a serial") };
    assert_eq!(serial.spec().max, 999_999);
}

#[test]
fn servers_of_a_store_agree_on_gaps() {
    let shared = |words: &str| declared(words).expect(words).shared_text();
    assert_eq!(shared("i serial {n:6} cache 0"), shared("i serial {n:6} cache 500"));
    assert_eq!(shared("i serial {n:6} gapless"), shared("i serial {n:6} cache 0 gapless"));
    for [one, other] in [
        ["i serial {n:6} cache 0", "i serial {n:6} gapless"],
        ["i serial {n:6} gapless", "i serial {n:6} gapless released void"],
    ] {
        assert_ne!(shared(one), shared(other));
    }
    let gapless = declared("i serial {n:6} gapless").expect("a serial");
    let CounterKind::Serial(serial) = gapless.kind() else { panic!("a serial") };
    assert_eq!((serial.spec().cache, gapless.gapless()), (0, Some(ReleasedNumbers::Reused)));
    assert_eq!(declared("s sequence").expect("a sequence").gapless(), None);
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
        which in 0..5_usize,
        grows: bool,
    ) {
        let text = ["{yyyyMMddHH}{n:3}", "{n:3}{yyyyMMdd}", "A{dd}{n:2}{MMyyyy}{luhn}", "{yyyy}{n:1}{mod97}", "{n:2}{mod97}"][which];
        let template = Template::parse(text).expect("a template");
        let (mut rows, mut texts) = (HashSet::new(), HashSet::new());
        for (stamp, value) in stamps.iter().flat_map(|stamp| values.iter().map(move |value| (*stamp, *value))) {
            let mut out = Vec::new();
            let period = template.finest().period(stamp);
            if template.write(stamp, value, grows, &mut out) && rows.insert((period, value)) {
                let text = String::from_utf8(out).expect("ASCII");
                let (read, counted) = template.read(&text, grows).expect("it was written by the template");
                prop_assert_eq!((template.finest().period(read), counted), (template.finest().period(stamp), value));
                prop_assert!(texts.insert(text.clone()), "{} twice", text);
            }
        }
    }
}
