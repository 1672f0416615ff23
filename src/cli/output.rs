//! Printing that survives a closed pipe.
//!
//! `println!` panics when the reader has gone, and `getid decode < ids | head` is an everyday command. Here a closed
//! pipe means that nobody wants to hear more, and every other error is said.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Runs `write` on a buffered standard output and flushes it.
pub(super) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)?;
    out.flush()
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

/// `1 connection`, `2 connections`, `1,000 connections`.
pub(super) fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// `12,345,678`.
pub(super) fn thousands(number: u64) -> String {
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

/// One line on standard error. Where that is closed too, there is nobody left to tell.
pub(super) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "getid: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| plural(count, "server")), ["0 servers", "1 server", "2 servers"]);
    }
}
