//! `getid get`: IDs for shell scripts, one a line, with nothing but this binary.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use getid_core::server::is_name;

use super::generator_args::GeneratorArgs;
use super::output::{EXIT_FAILED, finish, print, print_error};
use super::server_args::{SERVER_HELP, ServerArgs, TIMEOUT_MS_DEFAULT};
use getid_text::plural::counted;
use getid_text::printable::printable;
use getid_tools::address::names_server;
use getid_tools::client::Endpoint;
use getid_tools::replies::{Reply, push_request};

/// Requests in flight. They are GETID, because only the server decides how many IDs an MGETID may draw
/// (`id-mgetid-max`).
const PIPELINE: u64 = 1000;

/// Arguments of `getid get`.
#[derive(Args)]
#[command(override_usage = "getid get [SERVER] [NAME] [-n N] [OPTIONS]", after_help = format!("\
{SERVER_HELP}

NAME is a named generator, of any kind. Use --generator for a name that is a number or has a colon. A number alone is N.

IDs are printed one a line, in the order in which the server gives them. Exit code 0: all IDs were printed; 1: the server refused
an ID, and the IDs before it were printed; 2: the command line is wrong, or the server was not reached.

Examples:
  getid get
  getid get -n 1000 > ids.txt
  getid get 10.0.0.5:7890 -n 5 | getid decode
  getid get trace
  getid get order -n 5
  getid get lua --field shard=53 | getid decode --layout redis-lua
  order_id=$(getid get --unix /run/getid/getid.sock)"))]
pub(super) struct GetArgs {
    /// The server, the generator, and the number of IDs
    #[arg(value_name = "SERVER|NAME|N", num_args = 0..=3, allow_negative_numbers = true)]
    words: Vec<String>,
    /// Number of IDs [default: 1]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    generator: GeneratorArgs,
    #[command(flatten)]
    at: ServerArgs,
}

pub(super) fn run(args: &GetArgs) -> ExitCode {
    let (endpoint, request) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(message) => {
            print_error(&message);
            return ExitCode::from(EXIT_FAILED);
        }
    };
    let mut code = ExitCode::SUCCESS;
    let mut drawn = 0;
    let printed = print(|out| {
        if let Err(error) = draw(&endpoint, &request, &mut drawn, out) {
            let (message, exit) = match error {
                DrawError::Print(error) => return Err(error),
                DrawError::Refused(message) => (message, ExitCode::FAILURE),
                DrawError::Failed(message) => (message, ExitCode::from(EXIT_FAILED)),
            };
            out.flush()?;
            let after = if drawn > 0 { format!("; {} before it", counted(drawn, "ID")) } else { String::new() };
            print_error(&format!("{endpoint}: {message}{after}"));
            code = exit;
        }
        Ok(())
    });
    finish(printed, code)
}

/// The requests to send.
struct DrawRequest {
    /// One GETID.
    bytes: Vec<u8>,
    count: u64,
    /// Whether the IDs are those of a named generator, which may be texts.
    is_named: bool,
}

fn prepare(args: &GetArgs) -> Result<(Endpoint, DrawRequest), String> {
    let PositionalArgs { server, count, name } = parse_words(&args.words)?;
    let named = args.generator.generator.as_deref();
    if let (Some(name), Some(_)) = (name, named) {
        return Err(format!("'{name}' names a generator, and --generator another: use one of them"));
    }
    if let (Some(word), Some(flag)) = (count, args.count) {
        return Err(format!("'{word}' is a number of IDs, and -n {flag} is another: use one of them"));
    }
    let count = count.or(args.count).unwrap_or(1);
    let name = named.or(name);
    let mut request = vec!["GETID".to_owned()];
    request.extend(args.generator.fields.words(name)?);
    let mut bytes = Vec::new();
    push_request(&mut bytes, &request);
    let request = DrawRequest { bytes, count, is_named: name.is_some() };
    Ok((args.at.endpoint(server, TIMEOUT_MS_DEFAULT)?, request))
}

#[derive(Default)]
struct PositionalArgs<'a> {
    server: Option<&'a str>,
    count: Option<u64>,
    name: Option<&'a str>,
}

fn parse_words(words: &[String]) -> Result<PositionalArgs<'_>, String> {
    let mut parsed = PositionalArgs::default();
    for word in words {
        let number = word.parse().ok().filter(|&number: &u64| number > 0 && word.bytes().all(|b| b.is_ascii_digit()));
        if names_server(word) {
            if parsed.server.replace(word).is_some() {
                return Err("two servers were named; get uses one".to_owned());
            }
        } else if let Some(number) = number {
            if parsed.count.replace(number).is_some() {
                return Err(format!("'{word}': the number of IDs was given before"));
            }
        } else if is_name(word) && word.contains(|char: char| char.is_ascii_alphabetic()) {
            if parsed.name.replace(word).is_some() {
                return Err(format!("'{word}': a generator was named before"));
            }
        } else {
            return Err(format!(
                "'{word}' is neither a number of IDs (1 or more) nor a server (HOST:PORT, a path, redis://HOST:PORT) \
                 nor a generator's name"
            ));
        }
    }
    Ok(parsed)
}

enum DrawError {
    Print(io::Error),
    Refused(String),
    Failed(String),
}

fn draw(endpoint: &Endpoint, request: &DrawRequest, drawn: &mut u64, out: &mut dyn Write) -> Result<(), DrawError> {
    let failed = |error: getid_tools::client::ClientError| DrawError::Failed(error.to_string());
    let mut connection = endpoint.connect().map_err(failed)?;
    while *drawn < request.count {
        let requests = usize::try_from((request.count - *drawn).min(PIPELINE)).unwrap_or(1);
        for reply in endpoint.request(&mut connection, &request.bytes.repeat(requests), requests).map_err(failed)? {
            match reply {
                Reply::Id(id) => writeln!(out, "{id}").map_err(DrawError::Print)?,
                Reply::Text(id) if request.is_named => writeln!(out, "{}", printable(&id)).map_err(DrawError::Print)?,
                Reply::Error(text) => return Err(DrawError::Refused(refusal(&text))),
                Reply::Other(text) | Reply::Text(text) => {
                    return Err(DrawError::Failed(format!("'{}' instead of an ID", printable(&text))));
                }
                Reply::Ids(_) => return Err(DrawError::Failed("a list instead of an ID".to_owned())),
            }
            *drawn += 1;
        }
        // Flush, so that a reader of the pipe gets the IDs as they arrive.
        out.flush().map_err(DrawError::Print)?;
    }
    Ok(())
}

fn refusal(text: &str) -> String {
    let help = match text.split(' ').next() {
        Some("NOAUTH") => " --password-file FILE or REDISCLI_AUTH sets the password, --user the user",
        Some("ERR") if text.contains("unknown command") => " Is the server a getid?",
        _ => "",
    };
    format!("{}{help}", printable(text))
}
