//! Check digits of a serial number, which reveal a mistyped one.
//!
//! A rule covers the digits of a text, or its digits and letters, and skips all other characters. A rule at the end
//! covers what is between it and a rule at the front; a rule at the front covers all that is behind it.
//!
//! Invariant: the check digits of a rule have a fixed width.

use alloc::vec::Vec;

/// Beginning of a creditor reference, with zeros in place of its check digits.
pub(super) const REFERENCE_HEAD: &[u8; 4] = b"RF00";

/// Longest creditor reference, bytes (ISO 11649).
pub(super) const REFERENCE_BYTES_MAX: usize = 25;

/// Rule by which check digits are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDigit {
    /// `RF` and two digits in front of the text: a creditor reference (ISO 11649). The text followed by these four
    /// characters, read as by [`CheckDigit::Mod97`], is 1 modulo 97.
    Reference,
    /// One digit by Luhn's rule (ISO/IEC 7812-1, annex B), over the decimal digits of the text. It finds each wrong
    /// digit, and each swap of neighbours except 09 and 90.
    Luhn,
    /// One digit by Damm's rule, over the decimal digits of the text. It finds each wrong digit and each swap of
    /// neighbours.
    Damm,
    /// One digit by Verhoeff's rule, over the decimal digits of the text. It finds each wrong digit and each swap of
    /// neighbours.
    Verhoeff,
    /// One digit or `X` by MOD 11-2 (ISO/IEC 7064), over the decimal digits of the text. It finds each wrong digit and
    /// each swap of two digits that are less than ten places apart.
    Mod11_2,
    /// Two digits by MOD 97-10 (ISO/IEC 7064), over digits and letters as in IBANs, A as 10 to Z as 35 in either case.
    /// The text followed by them is 1 modulo 97. It finds each digit in place of another and each letter in place of
    /// another, and each swap of neighbours except of 1 and B, 2 and M, 3 and X.
    Mod97,
    /// One digit or letter by MOD 37,36 (ISO/IEC 7064), over digits and letters in either case. It finds each wrong
    /// character, and all but 1 of 630 swaps of neighbours.
    Mod37_36,
}

impl CheckDigit {
    /// All rules, in the order of the documents.
    pub const ALL: [CheckDigit; 7] = [
        CheckDigit::Reference,
        CheckDigit::Luhn,
        CheckDigit::Damm,
        CheckDigit::Verhoeff,
        CheckDigit::Mod11_2,
        CheckDigit::Mod97,
        CheckDigit::Mod37_36,
    ];

    /// Returns the word in a template.
    pub const fn word(self) -> &'static str {
        match self {
            CheckDigit::Reference => "rf",
            CheckDigit::Luhn => "luhn",
            CheckDigit::Damm => "damm",
            CheckDigit::Verhoeff => "verhoeff",
            CheckDigit::Mod11_2 => "mod11-2",
            CheckDigit::Mod97 => "mod97",
            CheckDigit::Mod37_36 => "mod37-36",
        }
    }

    /// Returns the number of characters that it adds to a text.
    pub const fn width(self) -> usize {
        match self {
            CheckDigit::Reference => REFERENCE_HEAD.len(),
            CheckDigit::Mod97 => 2,
            _ => 1,
        }
    }

    /// Returns true if it stands in front of the text that it covers.
    pub const fn is_front(self) -> bool {
        matches!(self, CheckDigit::Reference)
    }

    /// Returns true if it covers letters too.
    pub const fn covers_letters(self) -> bool {
        matches!(self, CheckDigit::Reference | CheckDigit::Mod97 | CheckDigit::Mod37_36)
    }

    /// Computes the check digits of the text that begins at `start` of `out`, and places them: behind the text, or over
    /// the two characters in front of it.
    pub(super) fn complete(self, start: usize, out: &mut Vec<u8>) {
        let text = out.get(start..).unwrap_or_default();
        let digits = text.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| usize::from(byte - b'0'));
        match self {
            CheckDigit::Reference => {
                let number = mod97(text.iter().chain(b"RF"));
                if let Some(place) = start.checked_sub(2).and_then(|at| out.get_mut(at..start)) {
                    place.copy_from_slice(&number);
                }
            }
            CheckDigit::Luhn => out.push(luhn(digits)),
            CheckDigit::Damm => out.push(decimal(digits.fold(0, |row, digit| DAMM[row][digit]))),
            CheckDigit::Verhoeff => out.push(verhoeff(digits)),
            CheckDigit::Mod11_2 => {
                let rest = digits.fold(0, |rest, digit| (rest + digit) * 2 % 11);
                out.push(match (12 - rest) % 11 {
                    10 => b'X',
                    digit => decimal(digit),
                });
            }
            CheckDigit::Mod97 => out.extend_from_slice(&mod97(text.iter())),
            CheckDigit::Mod37_36 => out.push(mod37_36(text)),
        }
    }
}

/// Returns the digit of a number below 10.
fn decimal(number: usize) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or_default()
}

/// Returns the value of a digit or letter, 0 to 35; `None` for other characters.
fn value(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(36)
}

fn luhn(digits: impl DoubleEndedIterator<Item = usize>) -> u8 {
    // The check digit will be the first from the right.
    let doubled = digits.rev().enumerate().map(|(place, digit)| match (place % 2 == 0, digit) {
        (true, 5..) => 2 * digit - 9,
        (true, _) => 2 * digit,
        (false, _) => digit,
    });
    decimal(10 - doubled.sum::<usize>() % 10)
}

/// Damm's quasigroup of order 10: totally antisymmetric, with zeros in its diagonal.
const DAMM: [[usize; 10]; 10] = [
    [0, 3, 1, 7, 5, 9, 8, 6, 4, 2],
    [7, 0, 9, 2, 1, 5, 4, 8, 6, 3],
    [4, 2, 0, 6, 8, 7, 1, 3, 5, 9],
    [1, 7, 5, 0, 9, 8, 3, 4, 2, 6],
    [6, 1, 2, 3, 0, 4, 5, 9, 7, 8],
    [3, 6, 7, 4, 2, 0, 9, 5, 8, 1],
    [5, 8, 6, 9, 7, 2, 0, 1, 3, 4],
    [8, 9, 4, 5, 3, 6, 2, 0, 1, 7],
    [9, 4, 3, 8, 6, 1, 7, 2, 0, 5],
    [2, 5, 8, 1, 4, 3, 6, 7, 9, 0],
];

/// Verhoeff's permutation of the digits. It is applied as often as a digit's place from the right, modulo 8.
const VERHOEFF: [usize; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];

fn verhoeff(digits: impl DoubleEndedIterator<Item = usize>) -> u8 {
    // The check digit has place 0.
    let permuted = digits.rev().zip(1..).map(|(digit, place)| (0..place % 8).fold(digit, |digit, _| VERHOEFF[digit]));
    match permuted.fold(0, dihedral) {
        rotation @ 1..5 => decimal(5 - rotation),
        own_inverse => decimal(own_inverse),
    }
}

/// Multiplies in the dihedral group of the pentagon: 0 to 4 are rotations, 5 to 9 reflections.
fn dihedral(one: usize, other: usize) -> usize {
    let turned = if one < 5 { one + other } else { 10 + one - other };
    turned % 5 + if (one < 5) == (other < 5) { 0 } else { 5 }
}

/// Returns the two digits by which the text becomes 1 modulo 97.
fn mod97<'a>(text: impl Iterator<Item = &'a u8>) -> [u8; 2] {
    let values = text.filter_map(|&byte| value(byte));
    let rest = values.fold(0, |rest, value| (rest * if value < 10 { 10 } else { 100 } + value) % 97);
    let number = usize::try_from(98 - rest * 100 % 97).unwrap_or_default();
    [decimal(number / 10), decimal(number)]
}

fn mod37_36(text: &[u8]) -> u8 {
    let values = text.iter().filter_map(|&byte| value(byte));
    let product = values.fold(36, |product, value| match (product + value) % 36 {
        0 => 36 * 2 % 37,
        sum => sum * 2 % 37,
    });
    let check = char::from_digit((37 - product) % 36, 36).unwrap_or_default();
    u8::try_from(check.to_ascii_uppercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned as _;
    use alloc::collections::BTreeSet;
    use alloc::string::String;
    use alloc::vec::Vec;
    use alloc::{format, vec};

    use proptest::prelude::*;

    use super::{CheckDigit, REFERENCE_HEAD};

    const DIGITS: &str = "0123456789";
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    fn complete(check: CheckDigit, text: &str) -> String {
        let mut out = if check.is_front() { REFERENCE_HEAD.to_vec() } else { Vec::new() };
        let start = out.len();
        out.extend_from_slice(text.as_bytes());
        check.complete(start, &mut out);
        assert_eq!(out.len(), text.len() + check.width());
        String::from_utf8(out).unwrap()
    }

    fn is_right(check: CheckDigit, text: &str) -> bool {
        let body = if check.is_front() { &text[check.width()..] } else { &text[..text.len() - check.width()] };
        complete(check, body) == text
    }

    /// Examples that the rules' authors, standards and registries published.
    #[test]
    fn published_examples() {
        for (check, text, expected) in [
            (CheckDigit::Luhn, "7992739871", "79927398713"),
            (CheckDigit::Damm, "572", "5724"),
            (CheckDigit::Verhoeff, "236", "2363"),
            (CheckDigit::Verhoeff, "12345", "123451"),
            (CheckDigit::Verhoeff, "142857", "1428570"),
            (CheckDigit::Verhoeff, "8473643095483728456789", "84736430954837284567892"),
            (CheckDigit::Mod11_2, "0794", "07940"),
            (CheckDigit::Mod11_2, "079", "079X"),
            // Identifiers of ORCID and ISNI.
            (CheckDigit::Mod11_2, "0000-0002-1825-009", "0000-0002-1825-0097"),
            (CheckDigit::Mod11_2, "000000012146438", "000000012146438X"),
            (CheckDigit::Mod97, "794", "79444"),
            (CheckDigit::Mod97, "0", "098"),
            (CheckDigit::Mod97, "west12345698765432gb", "west12345698765432gb82"),
            // A Global Release Identifier.
            (CheckDigit::Mod37_36, "A1-2425G-ABC1234002-", "A1-2425G-ABC1234002-M"),
            (CheckDigit::Mod37_36, "a12425gabc1234002", "a12425gabc1234002M"),
            (CheckDigit::Reference, "539007547034", "RF18539007547034"),
            (CheckDigit::Reference, "000000000539007547034", "RF18000000000539007547034"),
            (CheckDigit::Reference, "2348231", "RF712348231"),
        ] {
            assert_eq!(complete(check, text), expected, "{}", check.word());
        }
    }

    /// Returns the texts that differ from `text` in one character, each within its own kind.
    fn mistyped(text: &str, others: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (at, right) in text.char_indices() {
            let before = &text[..at];
            let wrong = others.chars().filter(|&wrong| wrong != right);
            texts.extend(wrong.map(|wrong| format!("{before}{wrong}{}", &text[at + 1..])));
        }
        texts
    }

    /// Returns the texts that differ from `text` by a swap of two characters with this distance, and the swapped ones.
    fn swapped(text: &str, distance: usize) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        for at in 0..text.len().saturating_sub(distance) {
            let mut bytes = text.as_bytes().to_vec();
            bytes.swap(at, at + distance);
            let mut pair = [bytes[at], bytes[at + distance]];
            pair.sort_unstable();
            texts.push((String::from_utf8(bytes).unwrap(), String::from_utf8(pair.to_vec()).unwrap()));
        }
        texts.retain(|(swapped, _)| swapped != text);
        texts
    }

    /// Returns all texts of this length.
    fn all_texts(alphabet: &str, len: u32) -> Vec<String> {
        (0..len).fold(vec![String::new()], |texts, _| {
            let longer = |text: &String| alphabet.chars().map(|next| format!("{text}{next}")).collect::<Vec<_>>();
            texts.iter().flat_map(longer).collect()
        })
    }

    /// The pairs that a rule takes for each other's swap, in all texts of two and of three digits.
    #[test]
    fn every_wrong_digit_and_every_swap_that_the_rule_promises_is_found() {
        for (check, missed) in [
            (CheckDigit::Luhn, &["09"][..]),
            (CheckDigit::Damm, &[]),
            (CheckDigit::Verhoeff, &[]),
            (CheckDigit::Mod11_2, &[]),
            (CheckDigit::Mod97, &[]),
            (CheckDigit::Mod37_36, &["01", "23", "45", "67", "89"]),
            (CheckDigit::Reference, &[]),
        ] {
            let mut found = BTreeSet::new();
            for body in all_texts(DIGITS, 2).into_iter().chain(all_texts(DIGITS, 3)) {
                let text = complete(check, &body);
                let others = if check == CheckDigit::Mod11_2 { "0123456789X" } else { DIGITS };
                let wrong = mistyped(&text, others).into_iter().filter(|wrong| is_mistake(check, wrong));
                wrong.for_each(|wrong| assert!(!is_right(check, &wrong), "{wrong} for {text} by {}", check.word()));
                let swaps = swapped(&text, 1).into_iter().filter(|(wrong, _)| is_mistake(check, wrong));
                let unseen = swaps.filter(|(wrong, _)| is_right(check, wrong));
                found.extend(unseen.map(|(_, pair)| pair));
            }
            assert_eq!(found.into_iter().collect::<Vec<_>>(), missed, "{}", check.word());
        }
    }

    /// Returns true if the text has the form of one with check digits: its `RF`, and `X` at its end only.
    fn is_mistake(check: CheckDigit, text: &str) -> bool {
        let has_head = !check.is_front() || text.starts_with("RF");
        has_head && (check != CheckDigit::Mod11_2 || !text[..text.len() - 1].contains('X'))
    }

    #[test]
    fn every_wrong_letter_and_nearly_every_swap_of_neighbours_is_found() {
        let alphabet = DIGITS.to_owned() + LETTERS;
        let (mut swaps, mut unseen) = (0, 0);
        for body in all_texts(&alphabet, 2) {
            let text = complete(CheckDigit::Mod37_36, &body);
            for wrong in mistyped(&text, &alphabet) {
                assert!(!is_right(CheckDigit::Mod37_36, &wrong), "{wrong} for {text}");
            }
            for (wrong, _) in swapped(&text, 1) {
                swaps += 1;
                unseen += usize::from(is_right(CheckDigit::Mod37_36, &wrong));
            }
        }
        assert_eq!((swaps, unseen), (2520, 4));
        for body in all_texts(LETTERS, 2) {
            for check in [CheckDigit::Mod97, CheckDigit::Reference] {
                let text = complete(check, &body);
                let start = if check.is_front() { check.width() } else { 0 };
                let letters = &text[start..start + 2];
                for wrong in
                    mistyped(letters, LETTERS).into_iter().chain(swapped(letters, 1).into_iter().map(|(text, _)| text))
                {
                    assert!(!is_right(check, &text.replacen(letters, &wrong, 1)), "{wrong} for {text}");
                }
            }
        }
        let pairs = all_texts(&alphabet, 2).into_iter().filter(|pair| {
            let swapped = swapped(pair, 1);
            swapped
                .iter()
                .any(|(other, _)| complete(CheckDigit::Mod97, other)[2..] == complete(CheckDigit::Mod97, pair)[2..])
        });
        assert_eq!(pairs.collect::<Vec<_>>(), ["1B", "2M", "3X", "B1", "M2", "X3"]);
    }

    proptest! {
        /// The place of a digit in a long text makes no difference.
        #[test]
        fn wrong_digits_of_long_texts_are_found(body in "[0-9]{1,40}") {
            for check in CheckDigit::ALL {
                let text = complete(check, &body);
                for wrong in mistyped(&text, DIGITS).into_iter().filter(|wrong| is_mistake(check, wrong)) {
                    prop_assert!(!is_right(check, &wrong), "{} for {} by {}", wrong, text, check.word());
                }
                let distances = match check {
                    CheckDigit::Luhn | CheckDigit::Mod37_36 => 0..0,
                    CheckDigit::Mod11_2 => 1..10,
                    _ => 1..2,
                };
                for (wrong, _) in distances.flat_map(|distance| swapped(&text, distance)) {
                    let is_form = is_mistake(check, &wrong);
                    prop_assert!(!is_form || !is_right(check, &wrong), "{} for {} by {}", wrong, text, check.word());
                }
            }
        }
    }
}
