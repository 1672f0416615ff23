//! Texts of Sqids: those of the specification, one for each number, and no others are read.

use getid_core::server::{CounterDeclaration, UnknownZone};
use getid_core::{Declaration, Format, Notation, Number, no_dates};
use proptest::prelude::*;

use crate::support::declared;

/// Declares a sequence: its values are written as they are.
fn sequence(options: &str) -> Result<CounterDeclaration, String> {
    let words: Vec<&str> = "orders sequence".split(' ').chain(options.split_whitespace()).collect();
    let no_zones = |name: &str| Err(UnknownZone { name: name.to_owned(), similar: None });
    let declared = CounterDeclaration::parse(&words, no_zones).expect("a sequence");
    declared.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "))
}

fn format(options: &str) -> Format {
    let getid_core::server::CounterKind::Sequence(Some(format)) = sequence(options).unwrap().kind().clone() else {
        panic!("a format")
    };
    format
}

fn written(format: &Format, number: u64) -> Option<String> {
    let mut text = Vec::new();
    format.write(number.into(), &mut text).then(|| String::from_utf8(text).unwrap())
}

/// Numbers and texts of the tests of the specification (sqids.org), as far as they are of one number.
#[test]
fn texts_are_those_of_the_specification() {
    let plain = format("format sqids");
    for (number, text) in ["bM", "Uk", "gb", "Ef", "Vq", "uw", "OI", "AX", "p6", "nJ"].into_iter().enumerate() {
        assert_eq!(written(&plain, number as u64).as_deref(), Some(text));
        assert_eq!(plain.read(text), Some(Number::from(number as u64)));
    }
    // Its text without the list of words is aho1e.
    assert_eq!(written(&plain, 4_572_721).as_deref(), Some("JExTR"));
    assert_eq!(plain.read("JExTR"), Some(Number::from(4_572_721_u64)));
    // Other texts of a number, texts of several numbers and of none.
    for wrong in ["aho1e", "86Rf07", "SvIz", "", "b", "*", "bM-", " bM", "bMü"] {
        assert_eq!(plain.read(wrong), None, "{wrong}");
    }
}

/// Texts that the libraries of `PyPI` (`sqids` 0.5.2) and npm (`sqids` 0.3.0) write, which agree.
#[test]
fn texts_are_those_of_other_libraries() {
    let vectors: serde_json::Value = serde_json::from_str(include_str!("sqids-vectors.json")).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert!(vectors.len() > 100);
    for vector in vectors {
        let [options, number, text] = ["options", "number", "text"].map(|field| vector[field].as_str().unwrap());
        let (format, number) = (format(options), number.parse::<u64>().unwrap());
        assert_eq!(written(&format, number).as_deref(), Some(text), "{options}: {number}");
        assert_eq!(format.read(text), Some(Number::from(number)), "{options}: {text}");
    }
}

const OPTIONS: [&str; 6] = [
    "format sqids",
    "format sqids pad 10",
    "format sqids pad 64 prefix o_",
    "format sqids alphabet base58",
    "format sqids alphabet 0123456789abcdef pad 8",
    "format sqids alphabet zyx-_ prefix zyx",
];

/// Generates numbers of all lengths.
fn numbers() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
}

proptest! {
    #[test]
    fn a_text_is_read_back_and_no_longer_than_its_bound(options in 0..OPTIONS.len(), number in numbers()) {
        let format = format(OPTIONS[options]);
        let text = written(&format, number).expect("these alphabets have a text for it");
        prop_assert_eq!(format.read(&text), Some(Number::from(number)));
        let bits = u64::BITS - number.leading_zeros();
        prop_assert!(text.len() <= format.bytes_max(bits.max(1)), "{} of {} bits", text, bits);
        let digits = &text[format.prefix.len()..];
        prop_assert!(text.starts_with(&format.prefix) && digits.len() >= format.pad as usize);
        prop_assert!(digits.bytes().all(|byte| format.notation.alphabet().contains(&byte)), "{}", text);
        let next = written(&format, number.wrapping_add(1));
        prop_assert_ne!(next.as_deref(), Some(text.as_str()));
    }

    /// A number that is read has this text, to the letter.
    #[test]
    fn no_other_text_is_read(options in 0..OPTIONS.len(), text in "[0-9a-zA-Z_-]{1,14}", others in ".{0,20}") {
        let format = format(OPTIONS[options]);
        for text in [format!("{}{text}", format.prefix), text, others] {
            if let Some(number) = format.read(&text) {
                prop_assert_eq!(written(&format, u64::try_from(number).unwrap()), Some(text));
            }
        }
    }
}

/// The longest text is that of the largest number, with and without digits to fill it up, and at another shift too.
#[test]
fn the_largest_number_has_the_longest_text() {
    for options in OPTIONS {
        let format = format(options);
        let text = written(&format, u64::MAX).unwrap();
        assert_eq!(text.len(), format.bytes_max(64), "{options}");
        assert!(!format.write(Number::from(u64::MAX) + 1, &mut Vec::new()), "{options}: a number of 65 bits");
    }
    let shortest = format("format sqids alphabet abc");
    assert_eq!(shortest.bytes_max(64), 65, "a character for the shift, and 64 binary digits");
    assert_eq!(sequence("format sqids").unwrap().id_bytes_max(), 12);
    assert_eq!(declared("t discord format sqids prefix t_").id_bytes_max(), 14);
}

/// Alphabets of a few letters have numbers whose texts all have a word: such a number is refused, and never written in
/// another way.
#[test]
fn a_number_without_a_text_is_refused() {
    let format = format("format sqids alphabet bop0");
    let numbers = (0..500).map(|n: u64| Number::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1));
    let mut text = b"before".to_vec();
    let refused: Vec<_> = numbers.filter(|&number| !format.write(number, &mut text)).collect();
    assert!((1..250).contains(&refused.len()), "{refused:?}");
    text.truncate(6);
    assert!(!format.write(refused[0], &mut text) && text == b"before", "nothing is appended");
}

/// A text of hostile length costs no more than one of the longest length.
#[test]
fn a_text_of_many_numbers_is_not_taken_apart() {
    let format = format("format sqids");
    let separators: String = std::iter::repeat_n("Mb", 1 << 19).collect();
    let start = std::time::Instant::now();
    assert_eq!(format.read(&separators), None);
    // To take it apart takes minutes.
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn declarations_have_one_text() {
    for (given, canonical) in [
        ("format sqids", "format sqids"),
        ("pad 1 format sqids", "format sqids"),
        ("prefix o_ pad 8 format sqids", "format sqids pad 8 prefix o_"),
        ("format sqids alphabet base58", "format sqids alphabet base58"),
        ("format sqids alphabet abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "format sqids"),
        ("alphabet zyx-_ format sqids pad 64", "format sqids alphabet zyx-_ pad 64"),
    ] {
        assert_eq!(sequence(given).unwrap().words()[2..].join(" "), canonical);
        assert_eq!(sequence(given), sequence(canonical));
        let declaration = declared(&format!("t twitter {given}"));
        assert!(declaration.to_text().ends_with(canonical), "{}", declaration.to_text());
        assert_eq!(Declaration::from_text(&declaration.to_text()), Some(declaration));
    }
}

#[test]
fn each_mistake_has_its_sentence() {
    for (options, expected) in [
        ("format sqids alphabet ab", "the alphabet has 2 characters, must have at least 3 with format sqids"),
        ("format sqids alphabet abca", "alphabet: it has the character 'a' twice, must have each once"),
        ("format sqids alphabet ab.", "alphabet: it has the character '.', must have only A-Z a-z 0-9 _ -"),
        ("format sqids pad 65", "pad is '65', must be"),
        (
            "format sqids overflow grow",
            "overflow is not for format sqids, whose texts grow with their numbers: leave it out",
        ),
        ("format hex alphabet abc", "alphabet is for seal and format sqids, and"),
        ("alphabet abc", "alphabet is for seal and format sqids, and"),
    ] {
        let words = format!("t twitter {options}");
        let errors = Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).expect_err(options);
        let [error] = &errors[..] else { panic!("{options}: {errors:?}") };
        let unread = "alphabet needs 'format sqids' or 'seal'";
        let of_clock = if expected.starts_with("alphabet is for") { unread } else { expected };
        assert!(error.to_string().starts_with(of_clock), "{options}: {error}");
        let error = sequence(options).expect_err(options);
        assert!(error.starts_with(expected), "{options}: {error}");
    }
    let wide = "t layout time:41@1ms server-id:10 noise:20 format sqids";
    let errors = Declaration::parse(&wide.split(' ').collect::<Vec<_>>(), no_dates).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "format sqids is for numbers of at most 64 bits, and the layout has 71: take base62"
    );
}

/// Numbers ascend, and their texts do not.
#[test]
fn texts_have_no_order() {
    let declaration = declared("t twitter format sqids");
    assert!(declaration.is_ordered() && !declaration.has_ordered_texts() && !declaration.is_integer());
    assert!(declared("t twitter format base62").has_ordered_texts());
    assert!(matches!(declaration.format().unwrap().notation, Notation::Sqids(_)));
}
