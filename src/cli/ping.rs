//! `getid ping`: a health check that needs only this binary.
//!
//! It sends a request and waits for the reply: a port that accepts while the server hangs is not healthy. A server that
//! asks for a password is healthy: it has read a request and replied, and no restart would give it a password. So
//! NOAUTH and NOPERM count as alive, and a password that was given and is wrong does not.
//!
//! A live server may still give no IDs: its disk is full, or its clock is absurd. `--ids` checks that with IDREADY,
//! which draws no ID and needs no password.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;

use super::exit::{CliError, EXIT_NEGATIVE, ToolError, finish};
use super::output::print;
use super::server_args::{SERVER_HELP, ServerArgs, ServerArgsError};
use getid_text::printable::printable;
use getid_tools::client::ClientError;
use getid_tools::paint::good;
use getid_tools::replies::{Reply, push_request};

/// Time-out without `--timeout-ms`, ms.
const TIMEOUT_MS_DEFAULT: u64 = 1000;

/// Arguments of `getid ping`.
#[derive(Args)]
#[command(after_help = format!("\
{SERVER_HELP}

Exit code 0: the server replied PONG, or that it requires a password (NOAUTH) or does not permit this user to ping
(NOPERM): it is alive. With --ids: it gives IDs now, which needs no password. Exit code 1: anything else, such as no reply
in time.

Examples:
  getid ping
  getid ping 10.0.0.5:7890 --timeout-ms 500
  getid ping --unix /run/getid/getid.sock
  getid ping rediss://ids.example.com:7891 --cacert ca.pem
  HEALTHCHECK CMD [\"getid\", \"ping\", \"--ids\"]   # in a Dockerfile"))]
pub(super) struct PingArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    /// Check by IDREADY whether IDs are given now, and not only for a PONG
    #[arg(long)]
    ids: bool,
    #[command(flatten)]
    at: ServerArgs,
}

/// Reason why a server does not count as healthy.
#[derive(Debug, thiserror::Error)]
enum PingError {
    #[error(transparent)]
    Server(#[from] ServerArgsError),
    #[error("{endpoint}: {error}")]
    Probe { endpoint: String, error: ProbeError },
}

/// Error of a request that checks a server.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{}", printable(.0))]
    ErrorReply(String),
    #[error("'{}' instead of {expected}", printable(.found))]
    OtherReply { found: String, expected: &'static str },
    #[error("an ID instead of {expected}")]
    Id { expected: &'static str },
}

/// Docker reserves exit code 2 of a health check, so every failure is 1.
impl ToolError for PingError {
    fn exit_code(&self) -> u8 {
        EXIT_NEGATIVE
    }
}

/// Sends one request.
pub(super) fn run(args: &PingArgs) -> Result<ExitCode, CliError> {
    let endpoint = args.at.endpoint(args.server.as_deref(), TIMEOUT_MS_DEFAULT).map_err(PingError::from)?;
    let probe = if args.ids { Probe::Ids } else { Probe::Pong };
    let mut request = Vec::new();
    push_request(&mut request, &[probe.command()]);
    let started = Instant::now();
    let answer = endpoint.request_once(&request, 1);
    let elapsed_ms = started.elapsed().as_secs_f64() * 1000.0;
    let verdict = answer.map_err(ProbeError::from).and_then(|replies| judge(replies.first(), probe));
    let verdict = verdict.map_err(|error| PingError::Probe { endpoint: endpoint.to_string(), error })?;
    let verdict = good(verdict);
    finish(print(|out| writeln!(out, "{endpoint}: {verdict} in {elapsed_ms:.1} ms")), ExitCode::SUCCESS)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Probe {
    Pong,
    Ids,
}

impl Probe {
    const fn command(self) -> &'static str {
        match self {
            Probe::Pong => "PING",
            Probe::Ids => "IDREADY",
        }
    }
}

fn judge(reply: Option<&Reply>, probe: Probe) -> Result<&'static str, ProbeError> {
    let (expected, verdict) = match probe {
        Probe::Pong => ("PONG", "PONG"),
        Probe::Ids => ("READY", "READY, gives IDs"),
    };
    match reply {
        Some(Reply::Error(error)) => match error.split(' ').next() {
            Some("NOAUTH") if probe == Probe::Pong => Ok("alive, requires a password"),
            Some("NOPERM") if probe == Probe::Pong => Ok("alive, this user may not ping"),
            _ => Err(ProbeError::ErrorReply(error.clone())),
        },
        Some(Reply::Other(text)) if text.strip_prefix('+') == Some(expected) => Ok(verdict),
        Some(Reply::Other(text)) => Err(ProbeError::OtherReply { found: text.clone(), expected }),
        _ => Err(ProbeError::Id { expected }),
    }
}
