//! How a tool ends: its error, and the exit code.
//!
//! Each tool has an error type of its own, whose sentence has the values and the remedy. A function that also prints
//! returns a [`CliError`]. Only [`CliError::report`] turns an error into text.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use super::output::print_error;

/// Exit code of a negative answer: a bad ID, no PONG, a violation.
pub(super) const EXIT_NEGATIVE: u8 = 1;

/// Exit code of a wrong command line, or of a request that could not be carried out.
pub(super) const EXIT_FAILED: u8 = 2;

/// An error whose cause is another crate's.
pub(super) type Cause = Box<dyn Error + Send + Sync>;

/// Error of one tool, or of flags that tools share.
pub(super) trait ToolError: Error {
    /// Returns the exit code.
    fn exit_code(&self) -> u8 {
        EXIT_FAILED
    }
}

/// Reason why a tool stops before it has done its work.
#[derive(Debug)]
pub(super) enum CliError {
    /// Standard output cannot be written, or its reader has closed it.
    Print(io::Error),
    /// The tool's own error.
    Tool(Box<dyn ToolError>),
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError::Print(error)
    }
}

impl<E: ToolError + 'static> From<E> for CliError {
    fn from(error: E) -> CliError {
        CliError::Tool(Box::new(error))
    }
}

impl CliError {
    /// Prints the error. Returns the exit code. A reader that has closed its pipe is no error.
    pub(super) fn report(&self) -> ExitCode {
        match self {
            CliError::Print(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            CliError::Print(error) => {
                print_error(&format!("writing to standard output: {error}"));
                ExitCode::FAILURE
            }
            CliError::Tool(error) => {
                print_error(&error.to_string());
                ExitCode::from(error.exit_code())
            }
        }
    }
}

/// Returns the exit code after printing: `code`, unless output was lost by an error other than a closed pipe.
pub(super) fn finish(printed: io::Result<()>, code: ExitCode) -> Result<ExitCode, CliError> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(code),
    }
}
