//! Digits that close a serial number, by which a mistyped one is noticed.

/// How they are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDigit {
    /// One digit by Luhn's rule (ISO/IEC 7812-1, annex B), over the decimal digits of the text; letters and signs are
    /// passed over.
    Luhn,
    /// Two digits by MOD 97-10 (ISO/IEC 7064), over digits and letters as IBANs have them, A as 10 to Z as 35 whatever
    /// their case; signs are passed over. The text with them behind it is 1 modulo 97.
    Mod97,
}

impl CheckDigit {
    /// The word in a template.
    pub const fn word(self) -> &'static str {
        match self {
            CheckDigit::Luhn => "luhn",
            CheckDigit::Mod97 => "mod97",
        }
    }

    /// How many digits it has.
    pub const fn digits(self) -> usize {
        match self {
            CheckDigit::Luhn => 1,
            CheckDigit::Mod97 => 2,
        }
    }

    /// The number that closes `text`, below 10 or 100.
    pub fn of(self, text: &[u8]) -> u8 {
        match self {
            CheckDigit::Luhn => {
                let digits = text.iter().rev().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0');
                // The digit that comes behind them is the first from the right.
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
