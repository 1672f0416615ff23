//! `getid worker`: an operator's commands about pools of worker ids, sent to a server.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::output::{EXIT_FAILED, finish, print, print_error};
use super::server_args::{SERVER_HELP, ServerArgs, TIMEOUT_MS_DEFAULT};
use getid_text::printable::printable;
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

pub(super) fn run(args: &WorkerArgs) -> ExitCode {
    let WorkerCommand::Init(args) = &args.command;
    match init(args) {
        Ok(line) => finish(print(|out| writeln!(out, "{line}")), ExitCode::SUCCESS),
        Err((message, code)) => {
            print_error(&message);
            code
        }
    }
}

fn init(args: &WorkerInitArgs) -> Result<String, (String, ExitCode)> {
    let failed = |message: String| (message, ExitCode::from(EXIT_FAILED));
    let pool = printable(&args.pool);
    if !args.new {
        return Err(failed(format!(
            "worker pool '{pool}': add --new if no id of it was ever leased, in this store or another one; any other pool \
             opens by itself when its 'longest' has passed"
        )));
    }
    let endpoint = args.at.endpoint(args.server.as_deref(), TIMEOUT_MS_DEFAULT).map_err(failed)?;
    let mut request = Vec::new();
    push_request(&mut request, &["WORKERID", "INIT", &args.pool, "NEW"]);
    let replies = endpoint.request_once(&request, 1).map_err(|error| failed(format!("{endpoint}: {error}")))?;
    match replies.first() {
        Some(Reply::Other(text)) if text == "+OK" => Ok(format!("{endpoint}: worker pool '{pool}' is open")),
        Some(Reply::Error(text)) => Err((format!("{endpoint}: {}", printable(text)), ExitCode::FAILURE)),
        _ => Err(failed(format!("{endpoint}: no OK for WORKERID INIT. Is the server a getid?"))),
    }
}
