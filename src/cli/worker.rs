//! `getid worker`: an operator's commands about pools of worker ids, sent to a server.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::exit::{CliError, EXIT_FAILED, EXIT_NEGATIVE, ToolError, finish};
use super::output::print;
use super::server_args::{SERVER_HELP, ServerArgs, ServerArgsError, TIMEOUT_MS_DEFAULT};
use getid_text::printable::printable;
use getid_tools::client::ClientError;
use getid_tools::replies::{Reply, push_request};

const INIT_EXAMPLES: &str = "\
Exit code 0: the pool is open, also if it was before; 1: the server refused, and nothing has changed; 2: the command line is
wrong, or the server was not reached.

Examples:
  getid worker init orders --new
  getid worker init orders 10.0.0.5:7890 --new --user admin --password-file /etc/getid/password";

/// Arguments of `getid worker`.
#[derive(Args)]
pub(super) struct WorkerArgs {
    #[command(subcommand)]
    command: WorkerCommand,
}

#[derive(Subcommand)]
enum WorkerCommand {
    /// Open a new pool of worker ids at once
    ///
    /// A pool without a record leases nothing for its `longest`, as earlier leases may last until then. This declares
    /// to a running server that there were none, by WORKERID INIT. A pool that has leased is refused.
    #[command(after_help = format!("{SERVER_HELP}\n\n{INIT_EXAMPLES}"))]
    Init(Box<WorkerInitArgs>),
}

#[derive(Args)]
struct WorkerInitArgs {
    /// The pool, as 'worker-pool' names it
    #[arg(value_name = "POOL")]
    pool: String,
    /// The server
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    /// No worker id of a pool of this name was ever leased, in this store or another one. Never after a restore: two
    /// programs would make the same IDs
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    at: ServerArgs,
}

/// Reason why a pool is not opened.
#[derive(Debug, thiserror::Error)]
enum WorkerInitError {
    #[error(
        "worker pool '{}': add --new if no id of it was ever leased, in this store or another one; any other pool opens by \
         itself when its 'longest' has passed",
        printable(.0)
    )]
    NotNew(String),
    #[error(transparent)]
    Server(#[from] ServerArgsError),
    #[error("{endpoint}: {error}")]
    Client { endpoint: String, error: ClientError },
    #[error("{endpoint}: {}", printable(.text))]
    Refused { endpoint: String, text: String },
    #[error("{endpoint}: no OK for WORKERID INIT. Is the server a getid?")]
    NoOk { endpoint: String },
}

impl ToolError for WorkerInitError {
    fn exit_code(&self) -> u8 {
        if matches!(self, WorkerInitError::Refused { .. }) { EXIT_NEGATIVE } else { EXIT_FAILED }
    }
}

pub(super) fn run(args: &WorkerArgs) -> Result<ExitCode, CliError> {
    let WorkerCommand::Init(args) = &args.command;
    let line = init(args)?;
    finish(print(|out| writeln!(out, "{line}")), ExitCode::SUCCESS)
}

fn init(args: &WorkerInitArgs) -> Result<String, WorkerInitError> {
    if !args.new {
        return Err(WorkerInitError::NotNew(args.pool.clone()));
    }
    let server = args.at.endpoint(args.server.as_deref(), TIMEOUT_MS_DEFAULT)?;
    let endpoint = server.to_string();
    let mut request = Vec::new();
    push_request(&mut request, &["WORKERID", "INIT", &args.pool, "NEW"]);
    match server.request_once(&request, 1) {
        Err(error) => Err(WorkerInitError::Client { endpoint, error }),
        Ok(replies) => match replies.into_iter().next() {
            Some(Reply::Other(text)) if text == "+OK" => {
                Ok(format!("{endpoint}: worker pool '{}' is open", printable(&args.pool)))
            }
            Some(Reply::Error(text)) => Err(WorkerInitError::Refused { endpoint, text }),
            _ => Err(WorkerInitError::NoOk { endpoint }),
        },
    }
}
