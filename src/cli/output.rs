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

/// One line on standard error. Where that is closed too, there is nobody left to tell.
pub(super) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "getid: {message}");
}
