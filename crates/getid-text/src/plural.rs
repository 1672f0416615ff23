//! Numbers with a noun, for people: `1 client`, `12,345 clients`.

/// Returns `number` and the noun in singular or plural.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// The most names that a text lists.
const NAMED_MAX: usize = 10;

/// Returns `a, b, and 990 more`: the first ten names and the number of the others.
pub fn listed(names: &[String]) -> String {
    let (shown, others) = names.split_at(names.len().min(NAMED_MAX));
    let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
    format!("{}{more}", shown.join(", "))
}

/// Returns the number with commas: `12,345,678`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_is_singular_and_all_else_plural() {
        for (number, expected) in [(0, "0 clients"), (1, "1 client"), (2, "2 clients"), (1001, "1,001 clients")] {
            assert_eq!(counted(number, "client"), expected);
        }
    }
}
