//! Subcommands that change the state of one number.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use getid_core::server::ledger::DUE_S_MAX;

use super::super::exit::{CliError, finish};
use super::super::output::print;
use super::super::server_args::{ServerArgs, TIMEOUT_MS_DEFAULT};
use super::error::NumberError;
use getid_text::printable::printable;
use getid_tools::replies::{ErrorText, push_request};

pub(super) const ACT_EXIT_CODES: &str = "\
Exit code 0: it is done, also if it was done before; 1: the server refused, and nothing has changed; 2: the command line
is wrong, or the server was not reached. After a lost connection repeat the command: it has the same result.";

pub(super) const RESERVE_EXAMPLES: &str = "\
Examples:
  getid number reserve invoice order-77
  getid number reserve invoice order-77 --series ACME --due 600
  number=$(getid number reserve invoice order-77 10.0.0.5:7890)";

pub(super) const COMMIT_EXAMPLES: &str = "\
Examples:
  getid number commit invoice order-77
  getid number commit invoice order-77 10.0.0.5:7890 --user shop
  getid number commit invoice order-77 --series ACME";

pub(super) const RELEASE_EXAMPLES: &str = "\
Examples:
  getid number release invoice order-77";

pub(super) const VOID_EXAMPLES: &str = "\
Examples:
  getid number void invoice order-77 --reason 'printed on a torn sheet'";

pub(super) const SETTLE_EXAMPLES: &str = "\
Examples:
  getid number settle invoice R2026-000017 --void --reason 'no invoice of it exists'
  getid number settle invoice R2026-000018 --commit --reason 'found in the archive'";

#[derive(Args)]
pub(super) struct ReserveArgs {
    #[command(flatten)]
    of: RequestArgs,
    /// Seconds after which the reserved number is reported as overdue [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=i64::from(DUE_S_MAX)))]
    due: Option<u32>,
}

#[derive(Args)]
pub(super) struct RequestArgs {
    /// The generator, which is declared with 'gapless'
    #[arg(value_name = "NAME")]
    name: String,
    /// Your name for what has the number, such as that of an order
    #[arg(value_name = "REQUEST")]
    request: String,
    /// The server
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    /// The key of the series, if the generator has a series for each key
    #[arg(long, value_name = "KEY")]
    series: Option<String>,
    #[command(flatten)]
    at: ServerArgs,
}

impl RequestArgs {
    /// Returns the words that name the series.
    fn key_words(&self) -> impl Iterator<Item = &str> {
        self.series.as_deref().map(|series| ["KEY", series]).into_iter().flatten()
    }
}

#[derive(Args)]
pub(super) struct VoidArgs {
    #[command(flatten)]
    of: RequestArgs,
    /// Why the number is not used, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Args)]
#[command(group = ArgGroup::new("state").required(true))]
pub(super) struct SettleArgs {
    /// The generator, which is declared with 'gapless'
    #[arg(value_name = "NAME")]
    name: String,
    /// The number, as it was given
    #[arg(value_name = "TEXT")]
    text: String,
    /// The server
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    /// The number is used
    #[arg(long, group = "state")]
    commit: bool,
    /// The number is not used, and never will be
    #[arg(long, group = "state")]
    void: bool,
    /// Why it is settled so, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    at: ServerArgs,
}

/// Reserves a number and prints it.
pub(super) fn reserve(args: &ReserveArgs) -> Result<ExitCode, CliError> {
    let due = args.due.map(|due| due.to_string());
    let mut words = vec!["NUMBER", "RESERVE", &args.of.name, "REQUEST", &args.of.request];
    words.extend(args.of.key_words());
    words.extend(due.as_deref().map(|due| ["DUE", due]).into_iter().flatten());
    let text = run_one(&args.of.at, args.of.server.as_deref(), &words, None)?;
    finish(print(|out| writeln!(out, "{}", printable(&text))), ExitCode::SUCCESS)
}

/// Commits the number of a request.
pub(super) fn commit(args: &RequestArgs) -> Result<ExitCode, CliError> {
    act(args, "COMMIT", &[], "committed")
}

/// Releases the number of a request.
pub(super) fn release(args: &RequestArgs) -> Result<ExitCode, CliError> {
    act(args, "RELEASE", &[], "released")
}

/// Makes the number of a request void.
pub(super) fn void(args: &VoidArgs) -> Result<ExitCode, CliError> {
    act(&args.of, "VOID", &["REASON", &args.reason], "void")
}

fn act(args: &RequestArgs, verb: &str, more: &[&str], done: &str) -> Result<ExitCode, CliError> {
    let mut words = [&["NUMBER", verb, &args.name, &args.request][..], more].concat();
    words.extend(args.key_words());
    run_one(&args.at, args.server.as_deref(), &words, Some("OK"))?;
    finish(print(|out| writeln!(out, "{} {done}", printable(&args.request))), ExitCode::SUCCESS)
}

/// Settles a number.
pub(super) fn settle(args: &SettleArgs) -> Result<ExitCode, CliError> {
    let (verb, done) = if args.commit { ("COMMIT", "committed") } else { ("VOID", "void") };
    let words = ["NUMBER", "SETTLE", &args.name, &args.text, verb, "REASON", &args.reason];
    run_one(&args.at, args.server.as_deref(), &words, Some("OK"))?;
    finish(print(|out| writeln!(out, "{} {done}", printable(&args.text))), ExitCode::SUCCESS)
}

/// Sends one command and returns its reply, which must be `expected` if that is given, and a text otherwise.
fn run_one(
    at: &ServerArgs,
    server: Option<&str>,
    words: &[&str],
    expected: Option<&'static str>,
) -> Result<String, NumberError> {
    let server = at.endpoint(server, TIMEOUT_MS_DEFAULT)?;
    let endpoint = server.to_string();
    let mut request = Vec::new();
    push_request(&mut request, words);
    let asked = server.connect().and_then(|mut connection| server.request_values(&mut connection, &request, 1));
    let replies = asked.map_err(|error| NumberError::Client { endpoint: endpoint.clone(), error })?;
    match replies.into_iter().next() {
        Some(Err(ErrorText(text))) => Err(NumberError::Refused { endpoint, text }),
        Some(Ok(reply)) => {
            let found = reply.iter().map(|word| String::from_utf8_lossy(word.text())).collect::<Vec<_>>().join(" ");
            let is_expected = expected.map_or(reply.len() == 1 && !found.is_empty(), |expected| found == expected);
            let expected = expected.unwrap_or("a number");
            if is_expected { Ok(found) } else { Err(NumberError::Unexpected { endpoint, found, expected }) }
        }
        None => Err(NumberError::Unexpected { endpoint, found: String::new(), expected: "a reply" }),
    }
}
