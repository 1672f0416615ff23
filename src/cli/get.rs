//! `getid get`: IDs for shell scripts, one a line, with nothing but this binary.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use getid_core::server::is_name;

use super::exit::{CliError, EXIT_FAILED, EXIT_NEGATIVE, ToolError};
use super::generator_args::{FieldError, GeneratorArgs};
use super::output::print;
use super::server_args::{SERVER_HELP, ServerArgs, ServerArgsError, TIMEOUT_MS_DEFAULT};
use getid_text::plural::counted;
use getid_text::printable::printable;
use getid_tools::address::names_server;
use getid_tools::client::{ClientError, Endpoint};
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

/// Reason why not all IDs are drawn.
#[derive(Debug, thiserror::Error)]
enum GetError {
    #[error("two servers were named; get uses one")]
    TwoServers,
    #[error("'{0}': the number of IDs was given before")]
    SecondCount(String),
    #[error("'{word}' is a number of IDs, and -n {flag} is another: use one of them")]
    TwoCounts { word: u64, flag: u64 },
    #[error("'{0}': a generator was named before")]
    SecondName(String),
    #[error("'{0}' names a generator, and --generator another: use one of them")]
    TwoNames(String),
    #[error(
        "'{0}' is neither a number of IDs (1 or more) nor a server (HOST:PORT, a path, redis://HOST:PORT) nor a \
         generator's name"
    )]
    UnknownWord(String),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Server(#[from] ServerArgsError),
    /// The server did not give the ID after the first `drawn` ones.
    #[error("{endpoint}: {error}{}", after(*.drawn))]
    Draw { endpoint: String, error: DrawError, drawn: u64 },
}

/// Error of a server that is asked for an ID.
#[derive(Debug, thiserror::Error)]
enum DrawError {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server's error reply.
    #[error("{}{}", printable(.0), help(.0))]
    Refused(String),
    #[error("'{}' instead of an ID", printable(.0))]
    NoId(String),
    #[error("a list instead of an ID")]
    List,
}

impl ToolError for GetError {
    fn exit_code(&self) -> u8 {
        match self {
            GetError::Draw { error: DrawError::Refused(_), .. } => EXIT_NEGATIVE,
            _ => EXIT_FAILED,
        }
    }
}

fn after(drawn: u64) -> String {
    if drawn > 0 { format!("; {} before it", counted(drawn, "ID")) } else { String::new() }
}

fn help(text: &str) -> &'static str {
    match text.split(' ').next() {
        Some("NOAUTH") => " --password-file FILE or REDISCLI_AUTH sets the password, --user the user",
        Some("ERR") if text.contains("unknown command") => " Is the server a getid?",
        _ => "",
    }
}

pub(super) fn run(args: &GetArgs) -> Result<ExitCode, CliError> {
    let (endpoint, request) = prepare(args)?;
    print(|out| draw(&endpoint, &request, out))?;
    Ok(ExitCode::SUCCESS)
}

/// The requests to send.
struct DrawRequest {
    /// One GETID.
    bytes: Vec<u8>,
    count: u64,
    /// Whether the IDs are those of a named generator, which may be texts.
    is_named: bool,
}

fn prepare(args: &GetArgs) -> Result<(Endpoint, DrawRequest), GetError> {
    let PositionalArgs { server, count, name } = parse_words(&args.words)?;
    let named = args.generator.generator.as_deref();
    if let (Some(name), Some(_)) = (name, named) {
        return Err(GetError::TwoNames(name.to_owned()));
    }
    if let (Some(word), Some(flag)) = (count, args.count) {
        return Err(GetError::TwoCounts { word, flag });
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

fn parse_words(words: &[String]) -> Result<PositionalArgs<'_>, GetError> {
    let mut parsed = PositionalArgs::default();
    for word in words {
        let number = word.parse().ok().filter(|&number: &u64| number > 0 && word.bytes().all(|b| b.is_ascii_digit()));
        if names_server(word) {
            if parsed.server.replace(word).is_some() {
                return Err(GetError::TwoServers);
            }
        } else if let Some(number) = number {
            if parsed.count.replace(number).is_some() {
                return Err(GetError::SecondCount(word.clone()));
            }
        } else if is_name(word) && word.contains(|char: char| char.is_ascii_alphabetic()) {
            if parsed.name.replace(word).is_some() {
                return Err(GetError::SecondName(word.clone()));
            }
        } else {
            return Err(GetError::UnknownWord(word.clone()));
        }
    }
    Ok(parsed)
}

fn draw(endpoint: &Endpoint, request: &DrawRequest, out: &mut dyn Write) -> Result<(), CliError> {
    let mut drawn = 0;
    let failed = |error, drawn| GetError::Draw { endpoint: endpoint.to_string(), error, drawn };
    let mut connection = endpoint.connect().map_err(|error| failed(error.into(), 0))?;
    while drawn < request.count {
        let requests = usize::try_from((request.count - drawn).min(PIPELINE)).unwrap_or(1);
        let replies = endpoint.request(&mut connection, &request.bytes.repeat(requests), requests);
        for reply in replies.map_err(|error| failed(error.into(), drawn))? {
            let error = match reply {
                Reply::Id(id) => {
                    writeln!(out, "{id}")?;
                    drawn += 1;
                    continue;
                }
                Reply::Text(id) if request.is_named => {
                    writeln!(out, "{}", printable(&id))?;
                    drawn += 1;
                    continue;
                }
                Reply::Error(text) => DrawError::Refused(text),
                Reply::Other(text) | Reply::Text(text) => DrawError::NoId(text),
                Reply::Ids(_) => DrawError::List,
            };
            return Err(failed(error, drawn).into());
        }
        // Flush, so that a reader of the pipe gets the IDs as they arrive.
        out.flush()?;
    }
    Ok(())
}
