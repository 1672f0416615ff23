//! Patterns of Redis's `KEYS`, `CONFIG GET` and `COMMAND LIST`: `*`, `?`, `[a-z]`, `[^a-z]`, and a backslash that makes
//! the next character literal.
//!
//! A pattern comes from a client, so its cost is bounded here for all callers. It has at most `PATTERN_BYTES_MAX`
//! bytes and is parsed once. Each element then tests a byte in one step, a set of a thousand bytes too. Backtracking
//! goes to the last `*` only. So a match takes at most as many steps as elements times bytes of text, where the usual
//! recursion is exponential. A pattern that requires more bytes than the text has fails after one comparison.

/// The longest pattern, bytes. No directive, command or file name is longer than 255.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024;

/// A parsed pattern, to be matched against many texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    elements: Vec<Element>,
    /// Bytes that a text requires: each element except `*` takes one.
    bytes_min: usize,
    /// Whether a text may be longer: the pattern has a `*`.
    has_star: bool,
    ignore_case: bool,
}

/// A pattern that is too long. `Display` is fit for an error reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern has at most {PATTERN_BYTES_MAX} bytes, and this one has {bytes}")]
pub struct PatternTooLong {
    /// The pattern's length.
    pub bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    /// `*`, or several in a row.
    Star,
    /// `?`, any one byte.
    Any,
    /// A literal byte.
    Byte(u8),
    /// `[...]`, one byte of a set.
    Set(Box<Set>),
}

impl Pattern {
    /// Parses a pattern; ASCII letter case counts unless `ignore_case`.
    ///
    /// # Errors
    ///
    /// [`PatternTooLong`] beyond `PATTERN_BYTES_MAX`.
    pub fn new(pattern: &[u8], ignore_case: bool) -> Result<Pattern, PatternTooLong> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternTooLong { bytes: pattern.len() });
        }
        let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
        let mut elements = Vec::new();
        let mut rest = pattern;
        loop {
            let (element, used) = match rest {
                [] => break,
                [b'*', ..] => (Element::Star, 1),
                [b'?', ..] => (Element::Any, 1),
                [b'[', set @ ..] => {
                    let (set, used) = Set::read(set, fold);
                    (Element::Set(Box::new(set)), 1 + used)
                }
                [b'\\', escaped, ..] => (Element::Byte(fold(*escaped)), 2),
                [literal, ..] => (Element::Byte(fold(*literal)), 1),
            };
            rest = &rest[used..];
            if element != Element::Star || elements.last() != Some(&Element::Star) {
                elements.push(element);
            }
        }
        let stars = elements.iter().filter(|element| **element == Element::Star).count();
        Ok(Pattern { bytes_min: elements.len() - stars, has_star: stars > 0, elements, ignore_case })
    }

    /// Whether it matches exactly one text, in one step a byte.
    pub fn is_literal(&self) -> bool {
        self.elements.iter().all(|element| matches!(element, Element::Byte(_)))
    }

    /// Whether all of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.matches_in_steps(text).0
    }

    /// Whether it matches every text that begins with `prefix`, because its last `*` takes what is behind a part of
    /// `prefix`.
    pub fn covers(&self, prefix: &[u8]) -> bool {
        let Some((Element::Star, head)) = self.elements.split_last() else { return false };
        let head = Pattern { elements: head.to_vec(), has_star: head.contains(&Element::Star), ..*self };
        (0..=prefix.len()).any(|len| head.matches(&prefix[..len]))
    }

    /// Returns whether all of `text` matches, and the number of elements that were compared with a byte.
    fn matches_in_steps(&self, text: &[u8]) -> (bool, usize) {
        if text.len() < self.bytes_min || (!self.has_star && text.len() > self.bytes_min) {
            return (false, 0);
        }
        let (mut at, mut rest, mut steps) = (0, 0, 0);
        // After a `*`: the element after it, and the first byte of text that the `*` does not cover yet.
        let mut star: Option<(usize, usize)> = None;
        while rest < text.len() {
            let takes = match self.elements.get(at) {
                Some(Element::Star) => {
                    at += 1;
                    star = Some((at, rest));
                    continue;
                }
                Some(element) => {
                    element.takes(if self.ignore_case { text[rest].to_ascii_lowercase() } else { text[rest] })
                }
                None => false,
            };
            steps += 1;
            if takes {
                at += 1;
                rest += 1;
            } else if let Some((after, swallowed)) = star {
                at = after;
                rest = swallowed + 1;
                star = Some((after, rest));
            } else {
                return (false, steps);
            }
        }
        (self.elements[at..].iter().all(|element| *element == Element::Star), steps)
    }
}

impl Element {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Element::Star | Element::Any => true,
            Element::Byte(literal) => *literal == byte,
            Element::Set(set) => set.has(byte),
        }
    }
}

/// Whether a path or a name contains a wildcard.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// A set of bytes, one bit for each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set([u64; 4]);

impl Set {
    /// Parses a set after its `[`. Returns it and the bytes used, including its `]`. An unclosed set ends with the
    /// pattern, as in Redis.
    fn read(text: &[u8], fold: impl Fn(u8) -> u8) -> (Set, usize) {
        let negated = text.first() == Some(&b'^');
        let mut at = usize::from(negated);
        let mut set = Set([0; 4]);
        loop {
            match &text[at..] {
                [] => break,
                [b']', ..] => {
                    at += 1;
                    break;
                }
                [b'\\', escaped, ..] => {
                    set.add(fold(*escaped));
                    at += 2;
                }
                [from, b'-', to, ..] => {
                    let (low, high) = (fold(*from).min(fold(*to)), fold(*from).max(fold(*to)));
                    (low..=high).for_each(|byte| set.add(byte));
                    at += 3;
                }
                [literal, ..] => {
                    set.add(fold(*literal));
                    at += 1;
                }
            }
        }
        if negated {
            set.0 = set.0.map(|bits| !bits);
        }
        (set, at)
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
        Pattern::new(pattern, ignore_case).unwrap().matches(text)
    }

    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), true), expected, "{pattern:?} on {text:?}");
    }

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, yes, no) in [
            ("*", "", "\u{0}never"),
            ("port", "PORT", "ports"),
            ("*max*", "maxclients", "min"),
            ("id-*-ms", "id-max-borrow-ms", "id-max-borrow-msx"),
            ("h?", "hz", "h"),
            ("[hx]z", "hz", "az"),
            ("[^h]z", "az", "hz"),
            ("[a-c]", "B", "d"),
            ("[c-a]", "b", "d"),
            (r"\*", "*", "a"),
            (r"[\]]", "]", "\\"),
            ("[a", "a", "b"),
            ("a***b", "ab", "a"),
            ("a\\", "a\\", "a"),
            ("[a-cx]*", "X", "d"),
            ("p?rt", "part", "poort"),
            ("a*b*c", "aXbYbZc", "acb"),
            ("**a**", "xax", "x"),
        ] {
            check(pattern, yes, true);
            if no != "\u{0}never" {
                check(pattern, no, false);
            }
        }
        assert!(!matches(b"port", b"PORT", false));
        check("", "", true);
        check("", "a", false);
        check("[]", "a", false);
    }

    #[test]
    fn a_pattern_covers_a_prefix_by_its_last_star() {
        for (pattern, expected) in [
            ("*", true),
            ("inv*", true),
            ("invoice/*", true),
            ("i*e/*", true),
            ("i?voice/**", true),
            ("invoice/", false),
            ("invoice/?", false),
            ("invoice/[^A]*", false),
            ("invoice/\\*", false),
            ("invoice/[*", false),
            ("invoice/A*", false),
            ("*A", false),
            ("", false),
        ] {
            assert_eq!(Pattern::new(pattern.as_bytes(), false).unwrap().covers(b"invoice/"), expected, "{pattern}");
        }
    }

    #[test]
    fn a_hostile_pattern_is_matched_in_few_steps() {
        let text = "id-watermark-lead-ms";
        let many = text.len() * text.len();
        let sets = "[zzzzzzz]".repeat(100);
        for (pattern, steps_max) in [
            ("a*".repeat(500) + "b", many),
            (format!("*[{}", "z".repeat(1000)), text.len()),
            (format!("*{sets}"), 0),
            (format!("*{}", "[^z]".repeat(text.len())) + "z", 0),
            (format!("*{}z", "?".repeat(text.len() / 2)), many),
            ("?".repeat(1024), 0),
            ("*?".repeat(512), 0),
        ] {
            let (matches, steps) = Pattern::new(pattern.as_bytes(), true).unwrap().matches_in_steps(text.as_bytes());
            assert!(!matches, "{pattern}");
            assert!(steps <= steps_max, "{steps} steps for {pattern}");
        }
    }

    #[test]
    fn a_pattern_has_a_longest_length() {
        assert!(Pattern::new(&[b'*'; PATTERN_BYTES_MAX], false).unwrap().matches(b"x"));
        let error = Pattern::new(&[b'*'; PATTERN_BYTES_MAX + 1], false).unwrap_err();
        assert_eq!(error.to_string(), "a pattern has at most 1024 bytes, and this one has 1025");
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_with_stars_put_in(text in "[a-z]{0,12}", cuts in prop::collection::vec(0usize..13, 0..4)) {
            let mut pattern = text.clone();
            for cut in cuts {
                pattern.insert(cut.min(text.len()).min(pattern.len()), '*');
            }
            prop_assert!(matches(pattern.as_bytes(), text.as_bytes(), false));
        }

        #[test]
        fn no_pattern_panics(pattern in prop::collection::vec(any::<u8>(), 0..40), text in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = matches(&pattern, &text, true);
        }
    }
}
