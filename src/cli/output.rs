//! Output that survives a closed pipe.
//!
//! `println!` panics when the reader has closed the pipe, and `getid decode < ids | head` is an everyday command. Here
//! a closed pipe is an error of the output like others, with which a tool ends quietly (`exit`).

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use getid_text::printable::printable;
use getid_tools::paint::{Colored, bad_on_stderr, doubt_on_stderr};

/// Runs `write` on a buffered standard output and flushes it, after an error too: the output precedes the message.
pub(super) fn print<T, E: From<io::Error>>(write: impl FnOnce(&mut dyn Write) -> Result<T, E>) -> Result<T, E> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&mut out);
    out.flush()?;
    written
}

/// Prints a report, as one line of JSON or as text.
pub(super) fn print_report(report: &(impl Serialize + Display), json: bool) -> io::Result<()> {
    print(|out| {
        if json {
            serde_json::to_writer(&mut *out, report)?;
            out.write_all(b"\n")
        } else {
            write!(out, "{report}")
        }
    })
}

/// Prints an error on standard error, mostly one line. If that is closed too, the message is lost.
///
/// Everything that the message quotes is escaped here: an argument, a path, or a server's reply.
pub(super) fn print_error(message: &str) {
    write_line(&bad_on_stderr("getid:"), message);
}

/// Prints a note, which is no error, on standard error. It is escaped.
pub(super) fn print_note(message: &str) {
    write_line(&doubt_on_stderr("getid:"), message);
}

/// Writes a line by one write call, so that lines of several programs do not mix.
fn write_line(name: &Colored<&str>, message: &str) {
    let line = format!("{name} {}\n", escape_lines(message));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Returns `message` with control characters escaped in each of its lines.
fn escape_lines(message: &str) -> String {
    message.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Returns a progress bar over `count` items, or else over so many seconds. indicatif draws it on standard error, and
/// only on a terminal.
pub(super) fn progress_bar(count: Option<u64>, seconds: f64) -> ProgressBar {
    let ms = || u64::try_from(Duration::from_secs_f64(seconds).as_millis()).unwrap_or(u64::MAX);
    let template = if count.is_some() { "{bar:30} {percent:>3} %  {msg}" } else { "{bar:30} {elapsed:>4}  {msg}" };
    let bar = ProgressBar::new(count.unwrap_or_else(ms));
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_its_lines_and_cannot_control_the_terminal() {
        assert_eq!(
            escape_lines("no folder /a\u{1b}[31m\rb\nto continue, \u{202e}x"),
            "no folder /a\\u{1b}[31m\\rb\nto continue, \\u{202e}x"
        );
    }
}
