//! Check digits at the end of a serial number, which reveal a mistyped one.

/// Rule by which check digits are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDigit {
    /// One digit by Luhn's rule (ISO/IEC 7812-1, annex B), over the decimal digits of the text; letters and signs are
    /// skipped.
    Luhn,
    /// Two digits by MOD 97-10 (ISO/IEC 7064), over digits and letters as in IBANs, A as 10 to Z as 35 in either case;
    /// signs are skipped. The text followed by them is 1 modulo 97.
    Mod97,
}

impl CheckDigit {
    /// Returns the word in a template.
    pub const fn word(self) -> &'static str {
        match self {
            CheckDigit::Luhn => "luhn",
            CheckDigit::Mod97 => "mod97",
        }
    }

    /// Returns the number of check digits.
    pub const fn digits(self) -> usize {
        match self {
            CheckDigit::Luhn => 1,
            CheckDigit::Mod97 => 2,
        }
    }

    /// Returns true if it covers digits only: a mistyped letter stays unnoticed.
    pub const fn is_of_digits_only(self) -> bool {
        match self {
            CheckDigit::Luhn => true,
            CheckDigit::Mod97 => false,
        }
    }

    /// Returns the check number of `text`, below 10 or 100.
    pub fn of(self, text: &[u8]) -> u8 {
        match self {
            CheckDigit::Luhn => {
                let digits = text.iter().rev().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0');
                // The check digit will be the first from the right.
                let doubled = digits.enumerate().map(|(place, digit)| match (place % 2 == 0, digit) {
                    (true, 5..) => 2 * digit - 9,
                    (true, _) => 2 * digit,
                    (false, _) => digit,
                });
                let sum: u32 = doubled.map(u32::from).sum();
                u8::try_from((10 - sum % 10) % 10).unwrap_or_default()
            }
            CheckDigit::Mod97 => {
                let rest = text.iter().fold(0_u32, |rest, &byte| match byte {
                    b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
                    _ if byte.is_ascii_alphabetic() => {
                        (rest * 100 + u32::from(byte.to_ascii_uppercase() - b'A') + 10) % 97
                    }
                    _ => rest,
                });
                u8::try_from(98 - rest * 100 % 97).unwrap_or_default()
            }
        }
    }
}
