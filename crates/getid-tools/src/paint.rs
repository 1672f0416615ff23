//! Colours for verdicts: green for good, yellow for not judged, red for wrong.
//!
//! Only a terminal gets colours, and none if `NO_COLOR` is set or `TERM` is `dumb` (<https://no-color.org>).

use std::fmt;
use std::io;
use std::sync::LazyLock;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

const GOOD: Style = AnsiColor::Green.on_default();
const DOUBT: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Whether standard output shows colours.
static STDOUT: LazyLock<bool> = LazyLock::new(|| AutoStream::choice(&io::stdout()) != ColorChoice::Never);

/// A text in a colour, if colours are shown.
pub struct Colored<T> {
    style: Style,
    text: T,
    is_shown: bool,
}

impl<T: fmt::Display> fmt::Display for Colored<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Colored { style, text, is_shown } = self;
        if *is_shown { write!(f, "{style}{text}{style:#}") } else { text.fmt(f) }
    }
}

/// Colours a good verdict, for standard output.
pub fn good<T>(text: T) -> Colored<T> {
    Colored { style: GOOD, text, is_shown: *STDOUT }
}

/// Colours an unjudged or doubtful verdict, for standard output.
pub fn doubt<T>(text: T) -> Colored<T> {
    Colored { style: DOUBT, text, is_shown: *STDOUT }
}

/// Colours a wrong verdict, for standard output.
pub fn bad<T>(text: T) -> Colored<T> {
    Colored { style: BAD, text, is_shown: *STDOUT }
}

/// Colours an error, for standard error.
pub fn bad_on_stderr<T>(text: T) -> Colored<T> {
    Colored { style: BAD, text, is_shown: stderr_shows() }
}

/// Colours a remark, for standard error.
pub fn doubt_on_stderr<T>(text: T) -> Colored<T> {
    Colored { style: DOUBT, text, is_shown: stderr_shows() }
}

fn stderr_shows() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_itself_where_there_are_no_colours() {
        let painted = |is_shown| Colored { style: GOOD, text: "ok", is_shown }.to_string();
        assert_eq!(painted(false), "ok");
        assert_eq!(painted(true), "\u{1b}[32mok\u{1b}[0m");
    }
}
