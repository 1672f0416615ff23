//! `getid get`: IDs for shell scripts, one a line, with nothing but this binary.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

use super::output::{EXIT_FAILED, complain, finish, print};
use super::server_args::{SERVER_HELP, ServerArgs, TIMEOUT_MS_DEFAULT};
use crate::text::plural::counted;
use crate::text::printable::printable;
use crate::tools::address::names_server;
use crate::tools::client::Endpoint;
use crate::tools::replies::{Reply, push_request};

/// Requests in flight. GETID, not MGETID: how many IDs that may give is the server's affair (`id-mgetid-max`).
const PIPELINE: u64 = 1000;

/// Arguments of `getid get`.
#[derive(Args)]
#[command(override_usage = "getid get [SERVER] [N] [OPTIONS]", after_help = format!("\
{SERVER_HELP}

IDs come one a line, ascending, as the server gives them. Exit code 0: all came; 1: the server refused one, which ends it,
and those before it were printed; 2: the command line is wrong, or the server was not reached.

Examples:
  getid get
  getid get 1000 > ids.txt
  getid get 10.0.0.5:7890 5 | getid decode
  order_id=$(getid get --unix /run/getid/getid.sock)"))]
pub(super) struct GetArgs {
    /// The server, and how many IDs [default: 1]
    #[arg(value_name = "SERVER|N", num_args = 0..=2, allow_negative_numbers = true)]
    words: Vec<String>,
    #[command(flatten)]
    at: ServerArgs,
}

pub(super) fn run(args: &GetArgs) -> ExitCode {
    let prepared =
        words(&args.words).and_then(|(server, count)| Ok((args.at.endpoint(server, TIMEOUT_MS_DEFAULT)?, count)));
    let (endpoint, count) = match prepared {
        Ok(prepared) => prepared,
        Err(message) => {
            complain(&message);
            return ExitCode::from(EXIT_FAILED);
        }
    };
    let mut code = ExitCode::SUCCESS;
    let mut drawn = 0;
    let printed = print(|out| {
        if let Err(stop) = draw(&endpoint, count, &mut drawn, out) {
            let (message, exit) = match stop {
                Stop::Print(error) => return Err(error),
                Stop::Refused(message) => (message, ExitCode::FAILURE),
                Stop::Failed(message) => (message, ExitCode::from(EXIT_FAILED)),
            };
            out.flush()?;
            let after = if drawn > 0 { format!("; {} came before", counted(drawn, "ID")) } else { String::new() };
            complain(&format!("{endpoint}: {message}{after}"));
            code = exit;
        }
        Ok(())
    });
    finish(printed, code)
}

fn words(words: &[String]) -> Result<(Option<&str>, u64), String> {
    let (mut server, mut count) = (None, None);
    for word in words {
        if names_server(word) {
            if server.replace(word.as_str()).is_some() {
                return Err("two servers were named; get asks one".to_owned());
            }
            continue;
        }
        let number = word.parse().ok().filter(|&number: &u64| number > 0 && word.bytes().all(|b| b.is_ascii_digit()));
        let Some(number) = number else {
            return Err(format!(
                "'{word}' is neither a number of IDs (1 or more) nor a server (HOST:PORT, a path, redis://HOST:PORT)"
            ));
        };
        if count.replace(number).is_some() {
            return Err(format!("'{word}': how many IDs was said before"));
        }
    }
    Ok((server, count.unwrap_or(1)))
}

enum Stop {
    Print(io::Error),
    Refused(String),
    Failed(String),
}

fn draw(endpoint: &Endpoint, count: u64, drawn: &mut u64, out: &mut dyn Write) -> Result<(), Stop> {
    let failed = |error: crate::tools::client::ClientError| Stop::Failed(error.to_string());
    let mut connection = endpoint.connect().map_err(failed)?;
    let mut request = Vec::new();
    push_request(&mut request, &["GETID"]);
    while *drawn < count {
        let requests = usize::try_from((count - *drawn).min(PIPELINE)).unwrap_or(1);
        for reply in endpoint.ask(&mut connection, &request.repeat(requests), requests).map_err(failed)? {
            match reply {
                Reply::Id(id) => {
                    writeln!(out, "{id}").map_err(Stop::Print)?;
                    *drawn += 1;
                }
                Reply::Error(text) => return Err(Stop::Refused(refusal(&text))),
                Reply::Other(text) => return Err(Stop::Failed(format!("'{}' instead of an ID", printable(&text)))),
                Reply::Ids(_) => return Err(Stop::Failed("a list instead of an ID".to_owned())),
            }
        }
        // Whoever reads along sees them as they come.
        out.flush().map_err(Stop::Print)?;
    }
    Ok(())
}

fn refusal(text: &str) -> String {
    let help = match text.split(' ').next() {
        Some("NOAUTH") => " --password-file FILE or REDISCLI_AUTH gives the password, --user the user",
        Some("ERR") if text.contains("unknown command") => " Is it a getid?",
        _ => "",
    };
    format!("{}{help}", printable(text))
}
