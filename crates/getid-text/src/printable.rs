//! Text from outside (names, paths, a server's replies) made safe to show on one line.
//!
//! Logs, reports and tools print outside text through this module. So no name can start a new line, control a terminal,
//! or show its letters in another order. The crate `getid-redis` escapes error replies in the same way.

use std::borrow::Cow;

pub use getid_core::server::is_unprintable;

/// Returns `text` with unprintable characters escaped as in Rust: `\n`, `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_unprintable) { Cow::Owned(escape(text.chars())) } else { Cow::Borrowed(text) }
}

/// Returns [`printable`] of the first `chars_max` characters, followed by `...` if there are more.
pub fn printable_up_to(text: &str, chars_max: usize) -> String {
    let mut out = escape(text.chars().take(chars_max));
    if text.chars().nth(chars_max).is_some() {
        out.push_str("...");
    }
    out
}

fn escape(characters: impl Iterator<Item = char>) -> String {
    characters.fold(String::new(), |mut out, character| {
        if is_unprintable(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_escaped() {
        for (text, shown) in [
            ("orders", "orders"),
            ("größe \\ \"x\"", "größe \\ \"x\""),
            ("a\nb\r\t\0", r"a\nb\r\t\u{0}"),
            ("\u{1b}[2J", r"\u{1b}[2J"),
            ("\u{9b}2J\u{7f}", r"\u{9b}2J\u{7f}"),
            ("x\u{202e}y\u{2028}z\u{2066}\u{61c}", r"x\u{202e}y\u{2028}z\u{2066}\u{61c}"),
        ] {
            assert_eq!(printable(text), shown);
            assert_eq!(printable_up_to(text, 100), shown);
        }
        assert_eq!(printable_up_to("a\nb", 2), "a\\n...");
    }
}
