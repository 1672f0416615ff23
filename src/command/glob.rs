//! Globs as Redis's `CONFIG GET` and `COMMAND LIST` have them: `*`, `?`, `[abc]`, `[^a-z]` and `\` in front of any of them.

/// Whether `text` matches `pattern`; letter case is ignored.
///
/// Redis's own matcher tries again for every `*`, so that a pattern like `a*a*a*a*b` takes forever. Here only the last
/// `*` is ever tried again: what an earlier one could take more, the last one can take as well. Time is at most
/// `pattern.len() * text.len()`.
pub fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Behind the last `*`, and the text it was tried at last.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        let step = match (p < pattern.len(), text.get(t)) {
            (false, None) => return true,
            (true, Some(&byte)) => one_matches(&pattern[p..], byte),
            (true, None) | (false, Some(_)) => None,
        };
        if let Some(len) = step {
            p += len;
            t += 1;
            continue;
        }
        match retry {
            Some((behind, tried)) if tried < text.len() => {
                retry = Some((behind, tried + 1));
                (p, t) = (behind, tried + 1);
            }
            _ => return false,
        }
    }
}

/// If the pattern's first element, which is no `*`, matches `byte`: the element's length.
fn one_matches(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let (negated, mut at) = if rest.first() == Some(&b'^') { (true, 1) } else { (false, 0) };
            let mut found = false;
            // A class that does not close ends with the pattern, as in Redis.
            while let Some(&first) = rest.get(at) {
                if first == b']' {
                    at += 1;
                    break;
                }
                if first == b'\\' && at + 1 < rest.len() {
                    found |= rest[at + 1].eq_ignore_ascii_case(&byte);
                    at += 2;
                } else if let [low, b'-', high, ..] = rest[at..] {
                    let (low, high) = (low.to_ascii_lowercase(), high.to_ascii_lowercase());
                    found |= (low.min(high)..=low.max(high)).contains(&byte.to_ascii_lowercase());
                    at += 3;
                } else {
                    found |= first.eq_ignore_ascii_case(&byte);
                    at += 1;
                }
            }
            (found != negated).then_some(1 + at)
        }
        [b'\\', escaped, ..] => escaped.eq_ignore_ascii_case(&byte).then_some(2),
        [first, ..] => first.eq_ignore_ascii_case(&byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for text in matching {
            assert!(glob_matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for text in others {
            assert!(!glob_matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn globs_match_as_in_redis() {
        check("*", &["", "port"], &[]);
        check("", &[""], &["x"]);
        check("port", &["port", "PORT"], &["por", "ports", ""]);
        check("*max*", &["max", "maxclients", "id-mgetid-max"], &["ma", "m-a-x"]);
        check("p?rt", &["port", "part"], &["prt", "poort"]);
        check("[a-cx]*", &["apple", "X", "c"], &["d", ""]);
        check("[^a-c]*", &["d"], &["a", "B", ""]);
        check("[c-a]", &["b"], &["d"]);
        check("a[bc", &["ab", "ac"], &["ad", "a"]);
        check("[\\]]", &["]"], &["\\"]);
        check("\\*", &["*"], &["x", "\\*"]);
        check("a\\", &["a\\"], &["a"]);
        check("a*b*c", &["abc", "aXbYbZc"], &["acb", "ab"]);
        check("**a**", &["a", "xax"], &["x"]);
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = "a*".repeat(1000) + "b";
        let text = "a".repeat(10_000);
        assert!(!glob_matches(pattern.as_bytes(), text.as_bytes()));
    }
}
