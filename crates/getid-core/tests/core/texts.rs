//! Numbers as text: texts sort as the numbers do and are read back, and no other text is read.

use getid_core::{Declaration, Format, ID_BITS_MAX, KINDS, Number, Radix, Shape};
use proptest::prelude::*;

use crate::support::declared;

fn written(format: &Format, number: Number) -> Option<String> {
    let mut text = Vec::new();
    format.write(number, &mut text).then(|| String::from_utf8(text).unwrap())
}

fn formats() -> impl Strategy<Value = Format> {
    let radix = prop::sample::select(Radix::ALL.to_vec());
    let prefix = prop_oneof![Just(String::new()), "[!#-&(-\\[\\]-~]{0,8}"];
    (radix, 1..=64_u32, prefix, any::<bool>()).prop_map(|(radix, pad, prefix, grows)| Format {
        radix,
        pad,
        prefix,
        grows,
    })
}

/// Generates numbers of all lengths.
fn numbers() -> impl Strategy<Value = Number> {
    let words = (any::<u128>(), any::<u128>());
    (words, Number::BITS - ID_BITS_MAX..Number::BITS)
        .prop_map(|((high, low), shift)| Number::from_words(high, low) >> shift)
}

/// Returns the digits of a number, computed the slow way.
fn digits(radix: Radix, mut number: Number) -> Vec<u8> {
    let alphabet = radix.alphabet();
    let mut digits = Vec::new();
    while number > 0 || digits.is_empty() {
        digits.insert(0, alphabet[usize::try_from(number % alphabet.len() as u128).unwrap()]);
        number /= alphabet.len() as u128;
    }
    digits
}

proptest! {
    #[test]
    fn a_text_is_prefix_zeros_and_digits(format in formats(), number in numbers()) {
        let digits = String::from_utf8(digits(format.radix, number)).unwrap();
        let missing = (format.pad as usize).checked_sub(digits.len());
        let zero = char::from(format.radix.alphabet()[0]).to_string();
        let expected = match missing {
            Some(zeros) => Some(format!("{}{}{digits}", format.prefix, zero.repeat(zeros))),
            None if format.grows => Some(format!("{}{digits}", format.prefix)),
            None => None,
        };
        prop_assert_eq!(written(&format, number), expected);
    }

    #[test]
    fn a_text_is_read_back(format in formats(), number in numbers()) {
        if let Some(text) = written(&format, number) {
            prop_assert_eq!(format.read(&text), Some(number));
            prop_assert!(text.len() <= format.bytes_max(ID_BITS_MAX));
            // Neither with a digit more or less.
            prop_assert_eq!(format.read(&text[..text.len() - 1]).filter(|&read| read == number), None);
            prop_assert_eq!(format.read(&format!("{text}0")).filter(|&read| read == number), None);
        }
    }

    #[test]
    fn texts_of_one_width_sort_as_numbers(format in formats(), a in numbers(), b in numbers(), near: bool) {
        let b = if near { a.wrapping_add(Number::ONE) } else { b };
        let format = Format { grows: false, ..format };
        if let (Some(first), Some(second)) = (written(&format, a), written(&format, b)) {
            prop_assert_eq!(a.cmp(&b), first.as_bytes().cmp(second.as_bytes()));
        }
    }

    #[test]
    fn what_is_read_is_what_is_written(format in formats(), text in "[0-9A-Za-z]{0,40}") {
        let text = format!("{}{text}", format.prefix);
        if let Some(number) = format.read(&text) {
            let again = written(&format, number).unwrap();
            // Letters of either case if the radix ignores it, and Crockford's look-alikes.
            let same = |text: &str| match format.radix {
                Radix::Hex | Radix::Base36 => text.to_ascii_lowercase(),
                Radix::Base32 => text.to_ascii_uppercase().replace('O', "0").replace(['I', 'L'], "1"),
                _ => text.to_owned(),
            };
            prop_assert_eq!(same(&again[format.prefix.len()..]), same(&text[format.prefix.len()..]));
        }
    }

    /// Texts of ordered kinds have the order of their numbers.
    #[test]
    fn texts_of_kinds_sort_as_numbers(kind in 0..KINDS.len(), a in numbers(), b in numbers(), near: bool) {
        let kind = &KINDS[kind];
        prop_assume!(!kind.fields.is_empty());
        let declaration = declared(&format!("t {}", kind.word));
        let bits = declaration.layout().bits();
        let mask = Number::MAX >> (Number::BITS - bits);
        let (a, b) = (a & mask, if near { a.wrapping_add(Number::ONE) } else { b } & mask);
        let text = |number| {
            let mut text = Vec::new();
            assert!(declaration.write(number, &mut text));
            text
        };
        let texts = [text(a), text(b)];
        for (number, text) in [a, b].into_iter().zip(&texts) {
            prop_assert_eq!(declaration.read(std::str::from_utf8(text).unwrap()), Some(number));
            prop_assert!(text.len() <= declaration.id_bytes_max());
        }
        if declaration.is_ordered() && kind.shape != Shape::Number {
            prop_assert_eq!(a.cmp(&b), texts[0].cmp(&texts[1]));
        } else {
            prop_assert_eq!(a == b, texts[0] == texts[1]);
        }
    }

    #[test]
    fn nothing_is_read_by_accident(kind in 0..KINDS.len(), text in ".{0,40}") {
        let kind = &KINDS[kind];
        prop_assume!(!kind.fields.is_empty());
        let declaration = declared(&format!("t {}", kind.word));
        if let Some(number) = declaration.read(&text) {
            let mut again = Vec::new();
            prop_assert!(declaration.write(number, &mut again));
            let zeros = text.trim_start_matches('0');
            let again = String::from_utf8(again).unwrap();
            let same = |text: &str| if kind.shape == Shape::Ksuid { text.to_owned() } else { text.to_lowercase() };
            prop_assert_eq!(same(again.trim_start_matches('0')).replace('-', ""), same(zeros).replace('-', ""));
        }
    }
}

/// A text with a superfluous zero is not read, in any spelling of the zero.
#[test]
fn a_zero_too_many_is_not_read() {
    let format = Format { radix: Radix::Base32, pad: 1, prefix: String::new(), grows: true };
    for text in ["0A", "OA", "oA", "0OA"] {
        assert_eq!(format.read(text), None, "{text}");
    }
    assert_eq!(format.read("O"), Some(Number::ZERO), "a zero alone is a number");
}

#[test]
fn alphabets_are_in_ascii_order() {
    for radix in Radix::ALL {
        let expected: usize =
            radix.word().strip_prefix("base").map_or(if radix == Radix::Hex { 16 } else { 10 }, |n| n.parse().unwrap());
        assert_eq!(radix.alphabet().len(), expected);
        assert!(radix.alphabet().is_sorted_by(|a, b| a < b), "{}", radix.word());
    }
}

/// By default a format has all digits that the widest ID needs, and no more.
#[test]
fn the_default_width_holds_the_widest_id() {
    for radix in Radix::ALL {
        for bits in 1..=ID_BITS_MAX {
            let format = Format { radix, pad: radix.digits_of(bits), prefix: String::new(), grows: false };
            let last = Number::MAX >> (Number::BITS - bits);
            let text = written(&format, last).unwrap_or_else(|| panic!("{bits} bits in {}", radix.word()));
            assert_ne!(text.as_bytes()[0], radix.alphabet()[0], "{bits} bits in {}", radix.word());
        }
    }
    let text = |words: &str, number: u64| {
        let mut text = Vec::new();
        assert!(declared(words).write(number.into(), &mut text));
        String::from_utf8(text).unwrap()
    };
    let last = (1 << 63) - 1;
    assert_eq!(text("t twitter format base62", last), "AzL8n0Y58m7");
    assert_eq!(text("t twitter format base58", last), "NQm6nKp8qFC");
    assert_eq!(text("t twitter format base32 prefix T-", 0), "T-0000000000000");
    assert_eq!(text("t js53 format hex", 255), "000000000000ff");
    assert_eq!(text("t discord", 255), "255");
}

/// A layout may have 160 bits, in any format or as decimal digits.
#[test]
fn the_widest_layout_is_written_and_read() {
    let fields = "layout time:41@1ms server-id:10 counter:12 noise:97";
    let last = Number::MAX >> (Number::BITS - ID_BITS_MAX);
    for (words, expected) in [
        (fields.to_owned(), "1461501637330902918203684832716283019655932542975"),
        (format!("{fields} format base32 prefix W-"), "W-ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ"),
        (format!("{fields} format hex"), "ffffffffffffffffffffffffffffffffffffffff"),
    ] {
        let declaration = declared(&format!("t {words}"));
        assert!(!declaration.is_integer() && declaration.id_bytes_max() == expected.len());
        let mut text = Vec::new();
        assert!(declaration.write(last, &mut text));
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(declaration.read(expected), Some(last));
    }
    let decimal = declared(&format!("t {fields}"));
    assert_eq!(decimal.read("1461501637330902918203684832716283019655932542976"), None, "161 bits");
    assert_eq!(decimal.read(&"9".repeat(100)), None, "more than 256 bits");
    assert_eq!(decimal.read(&format!("{}7", "0".repeat(100))), Some(Number::new(7)));
}

#[test]
fn what_is_past_its_width_is_refused_or_grows() {
    let short = declared("t twitter format base62 pad 2 prefix T");
    let mut text = b"before".to_vec();
    assert!(short.write(Number::new(62 * 62 - 1), &mut text) && text == b"beforeTzz");
    assert!(!short.write(Number::new(62 * 62), &mut text) && text == b"beforeTzz", "nothing is appended");
    let grows = declared("t twitter format base62 pad 2 prefix T overflow grow");
    assert!(grows.write(Number::new(62 * 62), &mut text) && text == b"beforeTzzT100");
    assert_eq!(grows.read("T100"), Some(Number::new(62 * 62)));
    for wrong in ["T010", "T1", "100", "", "T", "T1_0", "Tüü"] {
        assert_eq!(grows.read(wrong), None, "{wrong}");
    }
    assert_eq!(short.read("T100"), None);
    // A number with more bits than the layout is no ID of it, though the format would hold it.
    let narrow = declared("t js53 format decimal");
    assert_eq!(narrow.read("9007199254740991"), Some(Number::new((1 << 53) - 1)));
    assert_eq!(narrow.read("9007199254740992"), None);
}

#[test]
fn a_decimal_object_id_has_29_digits_of_96_bits() {
    let declaration: Declaration = declared("t objectid-decimal");
    let text = |number: u128| format!("{number:029}");
    assert_eq!(declaration.read(&text(u128::MAX >> 32)), Some(Number::new(u128::MAX >> 32)));
    assert_eq!(declaration.read(&text((u128::MAX >> 32) + 1)), None);
    assert_eq!(declaration.read("1"), None);
    assert_eq!(declared("t hibernate").read("0a010203-99c8-1d7d-8199-c82cc07b8000"), None, "a counter of 16 bits");
}
