//! Suggestions for misspelled words.

/// The largest value of [`allowed_distance`]: words whose lengths differ by more are not compared.
const MISTAKES_MAX: usize = 3;

/// Returns the known word that is nearest to `typed`; of several, the first.
pub fn did_you_mean<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.filter_map(|word| Some((distance(typed, word)?, word)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// Whether `typed` is probably a misspelling of `word`.
pub fn is_near(typed: &str, word: &str) -> bool {
    distance(typed, word).is_some()
}

/// Returns the number of letters inserted, omitted, changed or swapped with a neighbour; `None` if they are too many
/// for a misspelling.
fn distance(typed: &str, word: &str) -> Option<usize> {
    let may_be_near = typed.len().abs_diff(word.len()) <= MISTAKES_MAX;
    may_be_near.then(|| strsim::osa_distance(typed, word)).filter(|distance| *distance <= allowed_distance(word))
}

/// Returns the most mistakes with which a text still counts as a misspelled `word`.
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
