//! Which word was probably meant by one that nobody knows.

/// The most mistakes [`allowed_distance`] allows: words whose lengths differ by more are not compared.
const MISTAKES_MAX: usize = 3;

/// The known word that was probably meant; of several that are equally near, the first.
pub fn did_you_mean<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.filter_map(|word| Some((distance(typed, word)?, word)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// Whether `word` was probably meant.
pub fn is_near(typed: &str, word: &str) -> bool {
    distance(typed, word).is_some()
}

/// Letters put in, left out, changed or swapped with their neighbour; `None` where there are too many for a slip.
fn distance(typed: &str, word: &str) -> Option<usize> {
    let may_be_near = typed.len().abs_diff(word.len()) <= MISTAKES_MAX;
    may_be_near.then(|| strsim::osa_distance(typed, word)).filter(|distance| *distance <= allowed_distance(word))
}

/// Typing mistakes that are still taken for a mistyped `word`.
fn allowed_distance(word: &str) -> usize {
    match word.len() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => MISTAKES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found() {
        let known = || ["port", "id-range", "maxclients", "appendonly", "logfile"].into_iter();
        for (typed, meant) in [
            ("prot", Some("port")),
            ("id_range", Some("id-range")),
            ("max-clients", Some("maxclients")),
            ("appendonyl", Some("appendonly")),
            ("logfiel", Some("logfile")),
            ("zzzz", None),
            ("", None),
        ] {
            assert_eq!(did_you_mean(typed, known()), meant, "{typed}");
        }
        assert_eq!(did_you_mean(&"a".repeat(1 << 20), known()), None);
    }
}
