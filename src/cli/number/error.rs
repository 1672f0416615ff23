//! Errors of `getid number`.

use std::io;
use std::path::PathBuf;

use super::super::exit::{EXIT_FAILED, EXIT_NEGATIVE, ToolError};
use super::super::server_args::ServerArgsError;
use getid_text::printable::printable;
use getid_tools::client::ClientError;
use getid_tools::ledger::InvalidPage;

/// Reason why a command about a number is not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum NumberError {
    #[error(transparent)]
    Server(#[from] ServerArgsError),
    #[error("{endpoint}: {error}")]
    Client { endpoint: String, error: ClientError },
    #[error("{endpoint}: {}{}", printable(.text), help(.text))]
    Refused { endpoint: String, text: String },
    #[error("{endpoint}: '{}' instead of {expected}. Is the server a getid of this version?", printable(.found))]
    Unexpected { endpoint: String, found: String, expected: &'static str },
    #[error("{endpoint}: {error}")]
    Page { endpoint: String, error: InvalidPage },
    #[error(
        "{endpoint}: a page of the ledger has the cursor of an earlier one, or too many pages in a row are empty, so the \
         list has no end. Is the server a getid of this version?"
    )]
    Endless { endpoint: String },
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
}

impl ToolError for NumberError {
    fn exit_code(&self) -> u8 {
        if matches!(self, NumberError::Refused { .. }) { EXIT_NEGATIVE } else { EXIT_FAILED }
    }
}

fn help(text: &str) -> &'static str {
    match text.split(' ').next() {
        Some("NOAUTH") => " --password-file FILE or REDISCLI_AUTH sets the password, --user the user",
        Some("ERR") if text.contains("unknown command") => " Is the server a getid of this version?",
        _ => "",
    }
}
