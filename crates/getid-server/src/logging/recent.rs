//! The newest lines of the log, kept in memory for the page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The most lines that are kept.
pub const LINES_MAX: usize = 100;

/// The most characters of a line that are kept. At 4 bytes each, 100 lines take at most 160 KB.
const CHARS_MAX: usize = 400;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentLine {
    /// When the line was logged, Unix ms.
    pub unix_ms: i64,
    /// The line's level: `notice`, `warning` or `error`.
    pub level: &'static str,
    /// Message and fields, without unprintable characters.
    pub text: String,
}

/// The newest lines, the oldest first.
#[derive(Default)]
pub(super) struct RecentLines(Mutex<VecDeque<RecentLine>>);

impl RecentLines {
    pub(super) fn push(&self, mut line: RecentLine) {
        if let Some((end, _)) = line.text.char_indices().nth(CHARS_MAX) {
            // A copy, since a truncated text would keep the memory of the whole line.
            line.text = format!("{}…", &line.text[..end]);
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub(super) fn all(&self) -> Vec<RecentLine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_long_ones_are_cut() {
        let recent = RecentLines::default();
        for at in 0..150 {
            recent.push(RecentLine { unix_ms: at, level: "notice", text: "ü".repeat(1000) });
        }
        let all = recent.all();
        assert_eq!((all.len(), all[0].unix_ms, all[99].unix_ms), (LINES_MAX, 50, 149));
        assert!(all.iter().all(|line| line.text.chars().count() == CHARS_MAX + 1));
        let kept = recent.0.lock().unwrap();
        assert!(kept.iter().all(|line| line.text.capacity() <= 4 * (CHARS_MAX + 1)), "{}", kept[0].text.capacity());
    }
}
