//! Printing that survives a closed pipe.
//!
//! `println!` panics when the reader has gone, and `getid decode < ids | head` is an everyday command. Here a closed
//! pipe means that nobody wants to hear more, and every other error is said.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::text::printable::printable;
use crate::tools::paint::{Colored, bad_on_stderr, doubt_on_stderr};

/// Exit code of a tool whose command line is wrong, or that could not do what it was asked.
pub(super) const EXIT_FAILED: u8 = 2;

/// Runs `write` on a buffered standard output and flushes it.
pub(super) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)?;
    out.flush()
}

/// Prints a report, as one line of JSON or for people.
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

/// The exit code after printing: `code`, unless what was to be printed got lost on a real error.
pub(super) fn finish(printed: io::Result<()>, code: ExitCode) -> ExitCode {
    match printed {
        Ok(()) => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => code,
        Err(error) => {
            complain(&format!("writing to standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// A message on standard error, mostly one line. Where that is closed too, there is nobody left to tell.
///
/// Escaped here, whatever the message quotes: an argument, a path, or what a server answered.
pub(super) fn complain(message: &str) {
    write_line(&bad_on_stderr("getid:"), message);
}

/// The same of what is no failure.
pub(super) fn remark(message: &str) {
    write_line(&doubt_on_stderr("getid:"), message);
}

/// One write, so that lines of several programs do not mix.
fn write_line(name: &Colored<&str>, message: &str) {
    let line = format!("{name} {}\n", escaped(message));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// `message` with everything in its lines escaped that a terminal would obey.
fn escaped(message: &str) -> String {
    message.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// A bar over `count` of something, or else over so many seconds. On standard error, and only when that is a terminal:
/// indicatif sees to it.
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
    fn a_complaint_keeps_its_lines_and_controls_no_terminal() {
        assert_eq!(
            escaped("no folder /a\u{1b}[31m\rb\nto go on, \u{202e}x"),
            "no folder /a\\u{1b}[31m\\rb\nto go on, \\u{202e}x"
        );
    }
}
