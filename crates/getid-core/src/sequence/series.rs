//! Keys of series: a generator with series has a counter for each of them, such as one for each tenant.

use core::fmt;

use super::key::{SERIES_BYTES_MAX, is_series};

/// End of a sentence about a valid key of a series, for errors.
pub const SERIES_RULE: &str = "1 to 40 bytes of A-Z a-z 0-9 _ . -";

/// A valid key of a series, or none (the default).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    bytes: [u8; SERIES_BYTES_MAX],
    len: u8,
}

impl Series {
    /// No key: the generator has no series.
    pub const NONE: Series = Series { bytes: [0; SERIES_BYTES_MAX], len: 0 };

    /// Parses a key, as [`SERIES_RULE`] describes it. Unless `is_exact`, small letters become capitals.
    pub fn parse(text: &str, is_exact: bool) -> Option<Series> {
        if !is_series(text) {
            return None;
        }
        let mut series = Series { len: u8::try_from(text.len()).ok()?, ..Series::NONE };
        let bytes = series.bytes.get_mut(..text.len())?;
        bytes.copy_from_slice(text.as_bytes());
        if !is_exact {
            bytes.make_ascii_uppercase();
        }
        Some(series)
    }

    /// Returns the key; empty for none.
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.len)).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Returns true if it is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Series {
    fn default() -> Series {
        Series::NONE
    }
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::{SERIES_RULE, Series};
    use crate::sequence::SERIES_BYTES_MAX;

    #[test]
    fn a_key_is_folded_unless_it_is_exact() {
        let folded = |text| Series::parse(text, false).map(|series| series.as_str().len());
        assert_eq!(Series::parse("acme-1.B_c", false).unwrap().as_str(), "ACME-1.B_C");
        assert_eq!(Series::parse("acme", true).unwrap().as_str(), "acme");
        assert_eq!(folded(&"x".repeat(SERIES_BYTES_MAX)), Some(SERIES_BYTES_MAX));
        for bad in ["", "a b", "a/b", "a@b", "a:b", "\u{e9}", "a\0", &"x".repeat(SERIES_BYTES_MAX + 1)] {
            assert_eq!(Series::parse(bad, false), None, "{bad:?}");
        }
        assert!(Series::NONE.is_empty() && Series::NONE.as_str().is_empty());
        assert!(SERIES_RULE.contains(&format!("1 to {SERIES_BYTES_MAX} ")));
    }
}
