//! Reasons why an import ends before its last counter, or leaves counters out.

use getid_core::server::Key;

use crate::cli::exit::{EXIT_FAILED, EXIT_NEGATIVE, ToolError};
use crate::cli::sequence::stores::StoresError;
use crate::cli::server_args::ServerArgsError;
use getid_text::plural::counted;
use getid_tools::client::{ClientError, Endpoint};

#[derive(Debug, thiserror::Error)]
pub(super) enum ImportError {
    #[error(transparent)]
    Stores(#[from] StoresError),
    #[error(transparent)]
    Address(#[from] ServerArgsError),
    #[error("{endpoint}: {error}")]
    Client { endpoint: String, error: ClientError },
    #[error(transparent)]
    Reply(#[from] ErrorReply),
    #[error("{endpoint}: the reply to SCAN is not one of Redis")]
    NoScan { endpoint: String },
    #[error("{endpoint}: the reply to GET {key} is not a number; is the server a getid?")]
    NoNumber { endpoint: String, key: Key },
    #[error("{} left out; the lines above give the reasons", counted(*.counters, "counter"))]
    LeftOut { counters: u64 },
}

impl ImportError {
    pub(super) fn client(endpoint: &Endpoint, error: ClientError) -> ImportError {
        ImportError::Client { endpoint: endpoint.to_string(), error }
    }
}

impl ToolError for ImportError {
    fn exit_code(&self) -> u8 {
        if matches!(self, ImportError::LeftOut { .. }) { EXIT_NEGATIVE } else { EXIT_FAILED }
    }
}

/// A server's error reply, in printable characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{endpoint}: {text}")]
pub(super) struct ErrorReply {
    pub(super) endpoint: String,
    pub(super) text: String,
}
