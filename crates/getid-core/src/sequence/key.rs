//! Key of a counter: the name of its sequence, and for a serial number its series and the period of its counter.

use alloc::boxed::Box;
use alloc::format;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::declaration::{NAME_BYTES_MAX, is_name};

/// Longest period, bytes: `H20261122T23` has 12.
const PERIOD_BYTES_MAX: usize = 16;

/// Longest key of a series, bytes.
pub const SERIES_BYTES_MAX: usize = 40;

/// Returns true if `series` is valid as the key of a series: 1 to [`SERIES_BYTES_MAX`] bytes of `A-Z a-z 0-9 _ . -`.
pub fn is_series(series: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=SERIES_BYTES_MAX).contains(&series.len()) && series.bytes().all(is_known)
}

/// End of a sentence about a valid name of a sequence, for errors.
pub const SEQUENCE_NAME_RULE: &str =
    "1 to 128 bytes of A-Z a-z 0-9 _ . : - { } #, blanks inside, @ between { and }, and is not '.', '..' or '-'";

/// Returns true if `name` is valid for a sequence, as [`SEQUENCE_NAME_RULE`] describes.
///
/// No such name ends a quoted text in SQL, or equals another one after trailing blanks are cut.
pub fn is_sequence_name(name: &str) -> bool {
    let is_in_range = (1..=NAME_BYTES_MAX).contains(&name.len());
    let is_known = |part: &str| part.bytes().all(|byte| NAME_BYTES[usize::from(byte)]);
    // CosId counts in `cosid:{shop.order@2026}.adder`. Without the braces, `order@2026` is the key of a period.
    let is_grouped = || {
        let parts = name.split_once('{').and_then(|(before, rest)| Some((before, rest.rsplit_once('}')?)));
        parts.is_some_and(|(before, (group, after))| {
            is_known(before) && group.split('@').all(is_known) && is_known(after)
        })
    };
    let is_trimmed = !name.starts_with(' ') && !name.ends_with(' ');
    is_in_range && (is_known(name) || is_grouped()) && is_trimmed && ![".", "..", "-"].contains(&name)
}

/// For each byte, whether a name of a sequence may have it. Each request checks a name, so this is a table.
static NAME_BYTES: [bool; 256] = {
    let (mut bytes, mut byte) = ([false; 256], 0_u8);
    while byte < 128 {
        bytes[byte as usize] =
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-' | b'{' | b'}' | b'#' | b' ');
        byte += 1;
    }
    bytes
};

/// A name as a word of a command in an error or a log line, which may be pasted into redis-cli or a shell: in double
/// quotes if it has a character that one of them does not take as it is. No valid name has one that is special within
/// such quotes.
#[derive(Clone, Copy, Debug)]
pub struct NameWord<'a>(pub &'a str);

impl fmt::Display for NameWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-/@".contains(&byte);
        let quote = if self.0.bytes().all(is_bare) { "" } else { "\"" };
        write!(f, "{quote}{}{quote}", self.0)
    }
}

/// A counter in a store: a name; the key of its series, empty unless its generator has one counter for each key; and a
/// period, empty unless it counts the serial numbers of that period.
///
/// Its text is `name`, `name/SERIES`, `name@period` or `name/SERIES@period`. No name has a `/`. A name may have an `@`
/// between braces, which no generator's name has: such a text is a name without a period.
///
/// Keys are in the order of names, then series, then periods, as databases have their rows.
#[derive(Clone)]
pub struct Key(KeyText);

/// Splits the text of a key at the `@` before its period.
fn split_period(text: &str) -> (&str, Option<&str>) {
    match text.split_once('@') {
        Some((rest, period)) if !rest.contains('{') => (rest, Some(period)),
        _ => (text, None),
    }
}

/// Longest text that needs no allocation, bytes: a million sequences in memory have a key each.
const INLINE_BYTES_MAX: usize = 22;

#[derive(Clone)]
enum KeyText {
    Inline { len: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Boxed(Box<str>),
}

impl KeyText {
    fn new(text: &str) -> KeyText {
        let mut bytes = [0; INLINE_BYTES_MAX];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(text.as_bytes());
                KeyText::Inline { len, bytes }
            }
            _ => KeyText::Boxed(text.into()),
        }
    }
}

impl Key {
    /// Creates the key of the sequence of this name; `None` if the name is not valid.
    pub fn new(name: &str) -> Option<Key> {
        is_sequence_name(name).then(|| Key::of_text(name))
    }

    fn of_text(text: &str) -> Key {
        Key(KeyText::new(text))
    }

    /// Creates the key of one period of a serial number, whose name is a generator's; `None` if name or period is not
    /// valid.
    pub fn of_period(name: &str, period: &str) -> Option<Key> {
        Key::of(name, "", period).filter(|key| !key.period().is_empty())
    }

    /// Creates the key of a counter of a generator, with its series and its period, each of which may be empty; `None`
    /// if one of them is not valid.
    pub fn of(name: &str, series: &str, period: &str) -> Option<Key> {
        if series.is_empty() && period.is_empty() {
            return Key::new(name);
        }
        let is_period = period.len() <= PERIOD_BYTES_MAX && period.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_name(name) || !is_period || !(series.is_empty() || is_series(series)) {
            return None;
        }
        let slash = if series.is_empty() { "" } else { "/" };
        let at = if period.is_empty() { "" } else { "@" };
        Some(Key::of_text(&format!("{name}{slash}{series}{at}{period}")))
    }

    /// Parses the text of a key.
    pub fn parse(text: &str) -> Option<Key> {
        let (rest, period) = split_period(text);
        let (name, series) = rest.split_once('/').map_or((rest, None), |(name, series)| (name, Some(series)));
        let is_empty = |part: Option<&str>| part.is_some_and(str::is_empty);
        if is_empty(period) || is_empty(series) {
            return None;
        }
        Key::of(name, series.unwrap_or_default(), period.unwrap_or_default())
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.without_period().split('/').next().unwrap_or_default()
    }

    /// Returns the key of its series; empty if its generator has no series.
    pub fn series(&self) -> &str {
        self.without_period().split_once('/').map_or("", |(_, series)| series)
    }

    /// Returns the key of its series alone, without a period.
    #[must_use]
    pub fn series_key(&self) -> Key {
        Key::of_text(self.without_period())
    }

    /// Returns its text without the period.
    pub fn without_period(&self) -> &str {
        split_period(self.as_str()).0
    }

    /// Returns its period; empty for a sequence.
    pub fn period(&self) -> &str {
        split_period(self.as_str()).1.unwrap_or_default()
    }

    /// Returns its text.
    pub fn as_str(&self) -> &str {
        // It was made of a text.
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns the bytes of its text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            KeyText::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            KeyText::Boxed(text) => text.as_bytes(),
        }
    }

    /// Returns true if it is the key of a sequence, or of a generator's only counter: it has no series and no period.
    pub fn is_plain(&self) -> bool {
        !self.as_str().contains('/') && self.period().is_empty()
    }

    fn parts(&self) -> [&str; 3] {
        [self.name(), self.series(), self.period()]
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        self.parts().cmp(&other.parts())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.as_str()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::{Key, NameWord};

    #[test]
    fn a_name_is_quoted_in_a_command_if_a_blank_or_a_brace_needs_it() {
        for (name, word) in [
            ("orders", "orders"),
            ("a.b:c_d-e", "a.b:c_d-e"),
            ("invoice/ACME@Y20260101", "invoice/ACME@Y20260101"),
            ("{orders}", "\"{orders}\""),
            ("my orders", "\"my orders\""),
            ("#1", "\"#1\""),
        ] {
            assert_eq!(NameWord(name).to_string(), word);
        }
    }

    #[test]
    fn a_key_is_its_text() {
        for (text, parts) in [
            ("orders", ["orders", "", ""]),
            ("invoice@Y20260101", ["invoice", "", "Y20260101"]),
            ("cosid:{a.b@2026}.adder", ["cosid:{a.b@2026}.adder", "", ""]),
            ("invoice/ACME", ["invoice", "ACME", ""]),
            ("invoice/ACME-1.b@H20261122T23", ["invoice", "ACME-1.b", "H20261122T23"]),
        ] {
            let key = Key::parse(text).unwrap();
            assert_eq!([key.name(), key.series(), key.period()], parts);
            assert_eq!(Key::of(parts[0], parts[1], parts[2]), Some(key.clone()));
            assert_eq!(key.as_str(), text);
        }
        for bad in [
            "",
            "/",
            "@",
            "a/",
            "a@",
            "/A",
            "a/@Y20260101",
            "a/B@",
            "a/B/C",
            "a/B@c@d",
            "a/\u{e9}",
            "a b/C",
            "a@b{",
            "{a@b",
            "{a@b}/C",
        ] {
            assert_eq!(Key::parse(bad), None, "{bad}");
        }
        assert_eq!(Key::of("a", &"x".repeat(41), ""), None);
    }

    #[test]
    fn a_key_of_any_length_is_small() {
        assert!(size_of::<Key>() <= 24, "{}", size_of::<Key>());
        for len in [1, 21, 22, 23, 128] {
            let text = "k".repeat(len);
            let (key, other) = (Key::new(&text).unwrap(), Key::new(&"l".repeat(len)).unwrap());
            assert_eq!((key.as_str(), key.as_bytes()), (&*text, text.as_bytes()));
            assert!(key == key.clone() && key < other, "{text}");
        }
    }

    #[test]
    fn keys_are_in_the_order_of_their_parts() {
        let keys = ["a", "a@2026", "a@2027", "a/B", "a/B@2026", "a/B-1@2026", "a-b", "a.b@2026", "a:b"];
        let keys = keys.map(|text| Key::parse(text).unwrap());
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!(keys.iter().filter(|key| key.is_plain()).count(), 3);
    }
}
