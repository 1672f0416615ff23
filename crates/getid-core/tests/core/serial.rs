//! Serial numbers: templates, periods, check digits, declarations.

use std::collections::HashSet;

use getid_core::server::{
    CheckDigit, CivilTime, CounterDeclaration, CounterKind, FiscalStart, ReleasedNumbers, Reset, Template, UnknownZone,
};
use jiff::ToSpan as _;
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
        ("{yyyy}Q{quarter}-{n:3}", 7, "2026Q4-007"),
        ("{week-year}W{week}-{n:3}", 7, "2026W45-007"),
        ("FY{fiscal-year}-{n:3}", 7, "FY2026-007"),
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
        // The first day that shows the same.
        ("{yyyy}Q{quarter}-{n:3}", "2026Q4-007", Some((stamp(2026, 10, 1, 0), 7))),
        ("{week-year}W{week}-{n:3}", "2026W01-007", Some((stamp(2025, 12, 29, 0), 7))),
        ("{week-year}W{week}-{n:3}", "2026W53-007", Some((stamp(2026, 12, 28, 0), 7))),
        ("{yyyy}W{week}-{n:3}", "2026W01-007", Some((stamp(2026, 1, 1, 0), 7))),
        ("{week}.{dd}.{MM}-{n:3}", "53.30.12-007", Some((stamp(4, 12, 30, 0), 7))),
        ("{yyyyMMdd}W{week}{HH}{n:1}", "20261102W45097", Some((stamp(2026, 11, 2, 9), 7))),
        ("{yy}{week}{n:1}", "26537", Some((stamp(26, 12, 28, 0), 7))),
        ("{yy}{MM}{dd}{n:1}", "0002297", Some((stamp(0, 2, 29, 0), 7))),
        ("{yyyyMMdd}W{week}{n:1}", "20261102W447", None),
        ("{week-year}W{week}-{n:3}", "2025W53-007", None),
        ("{week-year}W{week}-{n:3}", "2026W00-007", None),
        ("{week-year}W{week}-{n:3}", "2026W54-007", None),
        ("{week-year}W{week}-{n:3}", "0000W00-007", None),
        ("{week-year}W{week}-{n:3}", "9999W53-007", None),
        ("{quarter}{MM}-{n:1}", "202-7", None),
        ("{quarter}{n:1}", "57", None),
        ("{week}{MM}{n:1}", "30027", None),
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

/// All intervals, fiscal years from 04-06.
fn resets() -> [Reset; 8] {
    Reset::all(FiscalStart::parse("04-06").expect("a start"))
}

#[test]
fn a_template_shows_the_period_in_which_its_counter_begins_again() {
    use Reset::{Day, Hour, Month, Never, Quarter, Week, Year};
    for (template, finest, without_year, allowed) in [
        ("{n:6}", Never, None, &[Never][..]),
        ("{yyyy}-{n:6}", Year, None, &[Never, Year]),
        ("{MM}{yyyy}-{n:6}", Month, None, &[Never, Year, Quarter, Month]),
        ("{MM}{dd}-{n:6}", Never, Some(Day), &[Never]),
        ("{week}-{n:6}", Never, Some(Week), &[Never]),
        ("{HH}{quarter}-{n:6}", Never, Some(Hour), &[Never]),
        ("{yyyy}{dd}-{n:6}", Year, None, &[Never, Year]),
        ("{yyyy}{quarter}-{n:6}", Quarter, None, &[Never, Year, Quarter]),
        ("{week-year}{week}-{n:6}", Week, None, &[Never, Week]),
        // The month distinguishes week 1 in January from week 1 in December.
        ("{yyyy}{MM}{week}-{n:6}", Week, None, &[Never, Year, Quarter, Month, Week]),
        ("{yyyy}{week}{dd}-{n:6}", Day, None, &[Never, Year, Quarter, Month, Week, Day]),
        ("{yyMMdd}-{n:6}", Day, None, &[Never, Year, Quarter, Month, Week, Day]),
        ("{yyyy}{HH}{n:6}", Year, None, &[Never, Year]),
        ("{yyyyMMddHH}{n:6}", Hour, None, &[Never, Year, Quarter, Month, Week, Day, Hour]),
    ] {
        let template = Template::parse(template).expect("a template");
        assert_eq!((template.finest(), template.shown_without_year()), (finest, without_year), "{}", template.text());
        let is_fiscal = |reset: &Reset| matches!(reset, Reset::FiscalYear(_));
        let possible = Reset::all(FiscalStart::JANUARY).into_iter().filter(|reset| !is_fiscal(reset));
        let found: Vec<_> = possible.filter(|&reset| template.check_reset(reset).is_ok()).collect();
        assert_eq!(found, allowed, "{}", template.text());
    }
    assert!(Template::parse("{yy}{n:6}").expect("a template").has_short_years());
    assert!(!Template::parse("{yy}{week-year}{n:6}").expect("a template").has_short_years());
}

/// Periods are texts of a letter and a day, in the order of their times.
#[test]
fn periods_have_texts() {
    let periods = resets().map(|reset| reset.period(STAMP).unwrap_or_default());
    let expected = ["", "F20260406", "Y20260101", "Q20261001", "M20261101", "W20261102", "D20261102", "H20261102T09"];
    assert_eq!(periods, expected);
    for (period, reset) in periods.iter().zip(resets()).skip(1) {
        assert!(getid_core::server::Key::of_period("invoice", period).is_some(), "{period}");
        let (read, first) = Reset::of_period(period).expect("a period");
        assert_eq!((read, reset.period(first).as_ref()), (reset, Some(period)));
        assert_eq!((reset.first_of(period), Reset::parse(&reset.to_string())), (Some(first), Some(reset)));
    }
    assert_eq!(Reset::parse("never"), Some(Reset::Never));
    for bad in [
        "",
        "Y",
        "2026",
        "Y2026",
        "Y20260102",
        "Q20260201",
        "M20260102",
        "W20260101",
        "D20260229",
        "F20240229",
        "H20260101",
        "H20260101T24",
        "D20260101T00",
        "X20260101",
        "Y+0260101",
        "\u{e9}20260101",
        "D2026010\u{e9}",
    ] {
        assert_eq!(Reset::of_period(bad), None, "{bad}");
    }
    for bad in ["", "fiscal-year", "fiscal-year 02-29", "fiscal-year 4-6", "day 04-06", "daily", "year "] {
        assert_eq!(Reset::parse(bad), None, "{bad}");
    }
    for bad in ["", "02-29", "13-01", "04-31", "4-6", "04-006", "0406", "04-\u{e9}"] {
        assert_eq!(FiscalStart::parse(bad), None, "{bad}");
    }
}

/// Each of these templates shows two days of different periods alike.
#[test]
fn templates_that_repeat_are_refused_with_both_days() {
    for (words, days, remedy) in [
        ("{fiscal-year}{MM}-{n:4} fiscal-start 04-06", ["2000-04-30", "2001-04-01"], "reset fiscal-year"),
        ("{fiscal-year}{quarter}-{n:4} fiscal-start 05-01", ["2000-06-30", "2001-04-01"], "reset fiscal-year"),
        ("{yyyy}{week}-{n:4}", ["2000-01-02", "2000-12-25"], "reset year"),
        ("{week-year}{MM}{dd}-{n:4}", ["2003-12-29", "2004-12-29"], "reset never"),
        ("{fiscal-year}{week}-{n:4} fiscal-start 04-06", ["2000-04-09", "2001-04-02"], "reset fiscal-year"),
        ("{fiscal-year}{week}-{n:4} fiscal-start 01-01", ["2000-01-02", "2000-12-25"], "reset year"),
        ("{week-year}-{n:4}", ["2001-12-31", "2002-01-01"], "reset never"),
        ("{yyyy}{dd}-{n:4}", ["2000-01-01", "2000-02-01"], "reset year"),
    ] {
        let error = declared(&format!("i serial {words} zone UTC")).expect_err(words);
        for expected in days.into_iter().chain([remedy]) {
            assert!(error.contains(expected), "{words}: {error}");
        }
        declared(&format!("i serial {words} zone UTC {remedy}")).expect(words);
    }
    let hours = declared("i serial {yyyyMMdd}{n:6} zone UTC reset hour").expect_err("its hours repeat");
    assert!(hours.contains("the hours of a day show the same. Show {yyyy}{MM}{dd}{HH}, or"), "{hours}");
    for words in [
        "{fiscal-year}{MM}-{n:4} fiscal-start 04-01",
        "{fiscal-year}{quarter}-{n:4} fiscal-start 04-01 fiscal-name end",
        "{fiscal-year}-{n:4} fiscal-start 04-06",
        "{fiscal-year}{MM}{dd}-{n:4} fiscal-start 04-06",
        "{yyyyMMdd}-{n:4} fiscal-start 04-06 reset fiscal-year",
        "{week-year}{week}-{n:4}",
        "{yy}{quarter}-{n:4}",
    ] {
        declared(&format!("i serial {words} zone UTC")).expect(words);
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
        (
            "i serial {fiscal-year}-{n:6} fiscal-name end zone UTC fiscal-start 04-06 reset fiscal-year",
            "i serial {fiscal-year}-{n:6} zone UTC fiscal-start 04-06 fiscal-name end",
        ),
        (
            "i serial {fiscal-year}-{n:6} zone UTC fiscal-start 01-01 fiscal-name end",
            "i serial {fiscal-year}-{n:6} zone UTC fiscal-start 01-01",
        ),
        (
            "i serial {yyyyMMdd}-{n:6} zone UTC reset fiscal-year fiscal-start 04-06",
            "i serial {yyyyMMdd}-{n:6} zone UTC reset fiscal-year fiscal-start 04-06",
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
    let serial = declared("i serial {n:6}").expect("a serial");
    let CounterKind::Serial(serial) = serial.kind() else { panic!("a serial") };
    assert_eq!(serial.spec().max, 999_999);
}

#[test]
fn mistakes_in_declarations_have_sentences() {
    let words = |words: &str| declared(words).map(|declared| declared.words().join(" "));
    for (given, expected) in [
        ("i serial", "has its template"),
        ("i serial {yyyy}{n:6}", "has a zone"),
        ("i serial {yyyy}{n:6} zone Nowhere", "zone is 'Nowhere', must be the name of a time zone"),
        ("i serial {yyyy}{n:6} zone UTC reset day", "show the same. Show {yyyy}{MM}{dd}, or declare 'reset year'"),
        (
            "i serial {n:6} reset daily",
            "reset is 'daily', must be never, fiscal-year, year, quarter, month, week, day or hour",
        ),
        ("i serial {fiscal-year}{n:6} zone UTC", "need the first day of it, such as 'fiscal-start 04-06'"),
        ("i serial {yyyyMMdd}{n:6} zone UTC reset fiscal-year", "need the first day of it"),
        ("i serial {fiscal-year}{n:6} zone UTC fiscal-start 02-29", "fiscal-start is '02-29', must be a day"),
        ("i serial {fiscal-year}{n:6} zone UTC fiscal-start 04-01 fiscal-name both", "must be start or end"),
        ("i serial {yyyy}{n:6} zone UTC fiscal-start 04-06", "fiscal-start is for {fiscal-year}"),
        ("i serial {yyyy}{n:6} zone UTC fiscal-name end", "fiscal-name is for {fiscal-year}"),
        ("i serial {fiscal-yer}{n:6} zone UTC", "'{fiscal-yer}' is not a field"),
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
    // An option behind an unknown word is read.
    let error = words("i serial {yyyy}{n:6} gaples zone UTC").expect_err("an unknown option");
    assert!(error.contains("'gaples'") && !error.contains("UTC"), "{error}");
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
        ("i serial {n:5} unique-per key gapless", "show the key in the template, as in 'R-{key}-{n:6}'"),
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
/// Declarations with each field and each interval, and without years.
const SERIALS: [&str; 21] = [
    "{rf}{yyyyMM}{n:3}",
    "{rf}{n:2}{yyyy}{verhoeff}",
    "B{n:1}{yyyy}{mod11-2}",
    "{yyyyMMddHH}{n:3}",
    "{n:3}{yyyyMMdd}",
    "A{dd}{n:2}{MMyyyy}{luhn}",
    "{yyyy}{n:1}{mod97}",
    "{n:2}{mod97}",
    "{yyyy}.{quarter}.{n:2}",
    "{week-year}.{week}.{n:2}",
    "{fiscal-year}-{n:2} fiscal-start 04-06",
    "{fiscal-year}-{n:2} fiscal-start 12-31 fiscal-name end",
    "{fiscal-year}{MM}-{n:2} fiscal-start 07-01 fiscal-name end",
    "{fiscal-year}{quarter}-{n:2} fiscal-start 10-01",
    "{yyyyMMdd}-{n:2} fiscal-start 04-06 reset fiscal-year",
    "{yyyyMMdd}-{n:2} reset week",
    "{yyyyMM}.{week}-{n:2}",
    "{yyyy}.{week}-{n:2} reset year",
    "{week-year}{MM}{dd}-{n:2} reset never",
    "{yyyy}{week}{dd}-{n:2}",
    "{week}{dd}-{n:2} reset never",
];

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
    // Days near the turn of a year are frequent, because weeks and years differ there.
    let dates = prop_oneof![
        (1900..2100_u16, 1..13_u8, 1..29_u8),
        (2020..2030_u16, Just(12_u8), 25..32_u8),
        (2020..2030_u16, Just(1_u8), 1..8_u8),
        (2020..2030_u16, Just(4_u8), 1..9_u8),
    ];
    (dates, 0..24_u8).prop_map(|((year, month, day), hour)| CivilTime { year, month, day, hour })
}

proptest! {
    /// Texts of different values or periods always differ, and are read as their period and value.
    #[test]
    fn no_two_periods_or_values_have_the_same_text(
        stamps in prop::collection::vec(stamps(), 2..20),
        values in prop::collection::vec(0..2000_i64, 2..20),
        which in 0..SERIALS.len(),
        grows: bool,
    ) {
        // A creditor reference has no room for a longer counter.
        let overflow = if grows && !SERIALS[which].starts_with("{rf}") { "grow" } else { "error" };
        let grows = overflow == "grow";
        let words = format!("i serial {} zone UTC overflow {overflow}", SERIALS[which]);
        let declared = declared(&words).expect("declared");
        let CounterKind::Serial(serial) = declared.kind() else { panic!("a serial") };
        let (mut rows, mut texts) = (HashSet::new(), HashSet::new());
        for (stamp, value) in stamps.iter().flat_map(|stamp| values.iter().map(move |value| (*stamp, *value))) {
            let mut out = Vec::new();
            let period = serial.reset.period(stamp);
            if serial.write(stamp, "", value, &mut out) && rows.insert((period.clone(), value)) {
                let text = String::from_utf8(out).expect("ASCII");
                let (read, counted, _) = serial.template.read(&text, grows).expect("it was written by the template");
                prop_assert!(serial.reset == Reset::Never || serial.reset.period(read) == period);
                prop_assert_eq!(counted, value);
                prop_assert!(texts.insert(text.clone()), "{} twice", text);
            }
        }
    }

    /// The periods of each interval divide time: a period begins with its first day, ends before the next one, has
    /// ended by its last day and no day before, and texts are in the order of times.
    #[test]
    fn periods_divide_time(stamp in stamps(), later in stamps(), start in (1..13_u8, 1..29_u8)) {
        let start = FiscalStart::new(start.0, start.1).expect("a start");
        let (day, after) = (stamp.date().expect("a day"), later.date().expect("a day"));
        for reset in Reset::all(start).into_iter().skip(1) {
            let (first, next) = (reset.first_day(day), reset.next_day(day).expect("in the calendar"));
            prop_assert!(first <= day && day < next, "{} {} {}", first, day, next);
            prop_assert_eq!(reset.first_day(next), next);
            prop_assert_eq!(reset.first_day(first), first);
            let last = next.yesterday().expect("in the calendar");
            prop_assert_eq!((reset.first_day(last), last.tomorrow()), (first, Some(next)));
            let period = reset.period(stamp).expect("a period");
            prop_assert!(Reset::has_ended(&period, last));
            prop_assert!(!Reset::has_ended(&period, last.yesterday().expect("a day")));
            prop_assert_eq!(Reset::has_ended(&period, after), after >= last);
            let other = reset.period(later).expect("a period");
            prop_assert!(stamp.max(later) == later || other <= period);
            prop_assert!(stamp.max(later) == stamp || period <= other);
        }
    }
}

/// The calendar is that of another implementation, over more than 400 years and at both ends.
#[test]
fn the_calendar_is_right() {
    use getid_core::server::CivilDay;
    let dates = jiff::civil::date(0, 1, 3).series(1.day()).take(1000);
    let cycle = jiff::civil::date(1899, 12, 1).series(1.day()).take(147_000);
    let last = jiff::civil::date(9999, 1, 1).series(1.day()).take(364);
    let first = CivilDay::new(0, 1, 1).expect("the first day");
    assert_eq!((first.number(), first.yesterday(), first.monday()), (0, None, first));
    for date in dates.chain(cycle).chain(last) {
        let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
        let own = CivilDay::new(date.year().unsigned_abs(), month, day).expect("a day");
        assert_eq!(own.to_string(), date.to_string());
        assert_eq!(CivilDay::of_number(own.number()), own);
        let week = date.iso_week_date();
        assert_eq!(own.iso_week(), (week.year().unsigned_abs(), week.week().unsigned_abs()), "{own}");
        let monday = date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).expect("a day");
        assert_eq!(own.monday().to_string(), monday.to_string());
        let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).expect("a time").timestamp().as_millisecond();
        assert_eq!([midnight, midnight + 86_399_999].map(CivilDay::of_unix_ms), [own, own]);
        let tomorrow = date.tomorrow().ok().map(|date| date.to_string());
        assert_eq!(own.tomorrow().map(|day| day.to_string()), tomorrow);
    }
    let last = CivilDay::new(9999, 12, 31).expect("the last day");
    assert_eq!((last.tomorrow(), last.next_monday(), last.iso_week()), (None, None, (9999, 52)));
    assert_eq!([i64::MIN, i64::MAX].map(|ms| CivilDay::of_unix_ms(ms).to_string()), ["0000-01-01", "9999-12-31"]);
    for (year, month, day) in [(2026, 2, 29), (1900, 2, 29), (2026, 0, 1), (2026, 13, 1), (2026, 4, 31), (10_000, 1, 1)]
    {
        assert_eq!(CivilDay::new(year, month, day), None);
    }
}
