//! Characters of foreign text (names, arguments, messages of databases) that are escaped before it is shown in error
//! replies, logs, reports and tools.

/// Returns true if a character is not displayed but has an effect: control characters, line and paragraph separators,
/// and those that change the direction of writing.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}
