//! A number and what it counts, for people: `1 client`, `2 clients`.

/// `number` and the word that fits it.
pub fn count(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    match number.try_into() {
        Ok(1) => format!("1 {one}"),
        Ok(number) => format!("{number} {many}"),
        Err(_) => many.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn one_is_singular_and_all_else_plural() {
        for (number, expected) in [(0_u64, "0 clients"), (1, "1 client"), (2, "2 clients"), (101, "101 clients")] {
            assert_eq!(count(number, "client", "clients"), expected);
        }
    }
}
