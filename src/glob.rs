//! Patterns as `KEYS`, `CONFIG GET` and `COMMAND LIST` of Redis have them: `*`, `?`, `[a-z]`, `[^a-z]`, and a backslash that takes a
//! meaning away.
//!
//! The pattern comes from a client, so its cost is bounded: one place to go back to, the last `*`, makes it at most
//! pattern length times text length steps, where the usual recursion is exponential.

/// Whether all of `text` matches `pattern`; ASCII letter case counts unless `ignore_case`.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut at, mut rest) = (0, 0);
    // After a `*`: the pattern behind it, and the text it has not swallowed yet.
    let mut star: Option<(usize, usize)> = None;
    while rest < text.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, rest));
                continue;
            }
            Some(_) => element(&pattern[at..], text[rest], ignore_case),
            None => None,
        };
        if let Some(used) = step {
            at += used;
            rest += 1;
        } else if let Some((after, swallowed)) = star {
            at = after;
            rest = swallowed + 1;
            star = Some((after, rest));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Whether a path or name has anything that makes it a pattern.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Bytes of the pattern that one byte of the text used up; `None`: they don't match.
fn element(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => {
            let (used, found) = in_set(set, byte, fold);
            found.then_some(1 + used)
        }
        [b'\\', escaped, ..] => (fold(*escaped) == fold(byte)).then_some(2),
        [literal, ..] => (fold(*literal) == fold(byte)).then_some(1),
        [] => None,
    }
}

/// A set behind its `[`: bytes used, its `]` included, and whether `byte` is in it. One that never ends ends with the
/// pattern, as in Redis.
fn in_set(set: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (usize, bool) {
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    let wanted = fold(byte);
    loop {
        match &set[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= fold(*escaped) == wanted;
                at += 2;
            }
            [from, b'-', to, ..] => {
                let (low, high) = (fold(*from).min(fold(*to)), fold(*from).max(fold(*to)));
                found |= (low..=high).contains(&wanted);
                at += 3;
            }
            [literal, ..] => {
                found |= fold(*literal) == wanted;
                at += 1;
            }
        }
    }
    (at, found != negated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
    fn a_hostile_pattern_ends_soon() {
        let pattern = "a*".repeat(5000) + "b";
        check(&pattern, &"a".repeat(20_000), false);
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
