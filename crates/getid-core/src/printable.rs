//! Characters of foreign text (names, arguments, messages of databases) that are escaped before it is shown in error
//! replies, logs, reports and tools.

use core::fmt;

/// Returns true if a character is not displayed but has an effect: control characters, line and paragraph separators,
/// those that change the direction of writing, and tags.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Largest part of a word that an error quotes, characters.
pub(crate) const QUOTED_MAX: usize = 64;

/// Displays the beginning of a foreign text in quotes, with unprintable characters escaped.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'")?;
        for c in self.0.chars().take(QUOTED_MAX) {
            write!(f, "{}", c.escape_debug())?;
        }
        f.write_str(if self.0.chars().count() > QUOTED_MAX { "...'" } else { "'" })
    }
}
