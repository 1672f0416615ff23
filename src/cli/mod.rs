//! The command line: one file for each subcommand.
//!
//! Arguments are checked here, before anything is opened or started. Output goes through `output`, so that `getid
//! decode ... | head` ends quietly. Only errors and remarks go to standard error. Exit codes: 0 is success; `exit` has
//! the others.

mod bench;
mod check_config;
mod claim;
mod claim_store;
mod cluster;
mod completions;
mod decode;
mod encode;
mod exit;
mod generator_args;
mod get;
mod help;
mod holders;
mod import;
mod layout;
mod layout_args;
mod number;
mod output;
mod pasted;
mod ping;
mod record_text;
mod seal;
mod sequence;
pub mod serve;
mod server_args;
mod span;
pub mod state;
mod tool_config;
mod verify;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use getid_system::names;
use getid_text::printable::{is_unprintable, printable};

/// Parses the command line of this process and runs the subcommand.
pub fn run() -> ExitCode {
    names::look_up_without_libraries();
    if let Some(words) = words_of_serve(std::env::args_os().skip(1)) {
        return serve::run(words);
    }
    let ended = match parse().command {
        CliCommand::Serve(ServeWords { words }) => Ok(serve::run(words)),
        CliCommand::CheckConfig(args) => check_config::run(args.words),
        CliCommand::Decode(args) => decode::run(&args),
        CliCommand::Encode(args) => encode::run(&args),
        CliCommand::Span(args) => span::run(&args),
        CliCommand::Seal(args) => seal::seal(&args),
        CliCommand::Open(args) => seal::open(&args),
        CliCommand::Layout(args) => layout::run(&args),
        CliCommand::Ping(args) => ping::run(&args),
        CliCommand::Get(args) => get::run(&args),
        CliCommand::Number(args) => number::run(&args),
        CliCommand::Import(args) => import::run(&args),
        CliCommand::Sequence(args) => sequence::run(&args),
        CliCommand::Claim(args) => claim::run(&args),
        CliCommand::Cluster(args) => cluster::run(&args),
        CliCommand::State(args) => state::run(&args),
        CliCommand::Worker(args) => worker::run(&args),
        CliCommand::Verify(args) => verify::run(&args),
        CliCommand::Bench(args) => bench::run(&args),
        CliCommand::Completions(args) => completions::run(&args, Cli::command()),
    };
    ended.unwrap_or_else(|error| error.report())
}

fn parse() -> Cli {
    let matches = command().try_get_matches().unwrap_or_else(|error| escape_arguments(with_suggestion(error)).exit());
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Words that people try as subcommands, and the subcommand that they mean.
const SUBCOMMAND_SYNONYMS: [(&[&str], &str); 13] = [
    (&["start", "run", "server", "daemon"], "serve"),
    (&["check", "test", "validate", "lint", "config"], "check-config"),
    (&["next", "new", "id", "generate", "gen", "draw", "getid", "mget", "mgetid"], "get"),
    (&["parse", "explain", "inspect", "read", "decodeid"], "decode"),
    (&["compose", "construct", "build", "encodeid"], "encode"),
    (&["range", "between", "idspan"], "span"),
    (&["sealid", "encrypt", "hide", "obfuscate"], "seal"),
    (&["openid", "unseal", "decrypt", "reveal"], "open"),
    (&["kinds", "kind", "propose", "generators", "generator", "snowflake", "twitter", "uuid"], "layout"),
    (&["health", "healthcheck", "ready", "status"], "ping"),
    (&["benchmark", "load"], "bench"),
    (&["numbers", "ledger", "invoice", "gapless"], "number"),
    (&["seq", "count", "incr", "counter", "counters"], "sequence"),
];

/// Returns `error` with a suggestion for an unknown subcommand.
fn with_suggestion(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let typed = typed.to_ascii_lowercase();
    if let Some((_, meant)) = SUBCOMMAND_SYNONYMS.iter().find(|(words, _)| words.contains(&typed.as_str())) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![(*meant).to_owned()]));
    }
    error
}

/// Returns `error` with control characters escaped in the arguments that it quotes.
fn escape_arguments(mut error: clap::Error) -> clap::Error {
    let quoted = |(kind, value): (ContextKind, &ContextValue)| match value {
        ContextValue::String(text) if text.contains(is_unprintable) => Some((kind, printable(text).into_owned())),
        _ => None,
    };
    let quoted: Vec<_> = error.context().filter_map(quoted).collect();
    for (kind, text) in quoted {
        error.insert(kind, ContextValue::String(text));
        // clap's suggestion quotes the same argument.
        error.remove(ContextKind::Suggested);
    }
    error
}

/// Returns the definition of the command line, from which `--help` and the manual are made.
///
/// A subcommand shows the version of the program, under the program's name.
pub fn command() -> clap::Command {
    help::arrange(Cli::command().mut_subcommands(|command| command.display_name("getid")))
}

/// Returns the words after `serve`, where clap would only pass them on.
///
/// A server that never runs clap needs some 300 KB less memory for its whole life, and starts sooner.
fn words_of_serve(mut args: impl Iterator<Item = OsString>) -> Option<Vec<String>> {
    if args.next()? != "serve" {
        return None;
    }
    let words: Vec<String> = args.map(OsString::into_string).collect::<Result<_, _>>().ok()?;
    let is_for_clap = |word: &String| {
        word.starts_with('-') && !word.starts_with("--") || ["--", "--help", "--version"].contains(&word.as_str())
    };
    (!words.first().is_some_and(is_for_clap)).then_some(words)
}

#[derive(Parser)]
#[command(name = "getid", version, about, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  getid serve                              # port 7890, loopback
  getid serve /etc/getid/getid.conf --server-id 1
  getid get
  redis-cli -p 7890 GETID
  getid decode 144182182078841378")]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run the server
    ///
    /// Takes a configuration file and directives, as redis-server does. A directive on the command line wins over one
    /// in the environment (`GETID_SERVER_ID` for server-id), which wins over the file. Without a file the defaults
    /// hold: port 7890, loopback only, server-id 0, state in /var/lib/getid for root, else in ~/.local/state/getid.
    #[command(override_usage = "getid serve [FILE] [--DIRECTIVE VALUE]...", after_help = SERVE_EXAMPLES)]
    Serve(ServeWords),
    /// Check a configuration without a start: its warnings and errors, and the addresses to listen on
    ///
    /// Takes the same words as `getid serve`, the environment included; without a file it checks what a start without
    /// one would use. Prints warnings and OK and exits 0, or prints every error with its place and exits 1.
    ///
    /// With --connect it opens the stores of sequences as a start does, which creates missing native tables. A store
    /// that cannot be used is an error. Without it nothing is opened.
    #[command(override_usage = "getid check-config [FILE] [--connect] [--DIRECTIVE VALUE]...", after_help = CHECK_CONFIG_EXAMPLES)]
    CheckConfig(ServeWords),
    /// Decode IDs of any kind into time and fields
    Decode(decode::DecodeArgs),
    /// Compose the ID of a time and values of fields, for comparison
    Encode(Box<encode::EncodeArgs>),
    /// The lowest and the highest ID of a time span, for WHERE id BETWEEN
    Span(span::SpanArgs),
    /// Print the sealed texts of IDs, as SEALID does
    Seal(seal::SealArgs),
    /// Print the IDs of sealed texts, as OPENID does
    Open(seal::OpenArgs),
    /// Explain a layout: its bits, capacity, end and evenness; or propose one for a load
    Layout(Box<layout::ExplainArgs>),
    /// Check the health of a server: it replies PONG, or it gives IDs
    Ping(Box<ping::PingArgs>),
    /// Draw IDs from a server and print them, one a line
    Get(Box<get::GetArgs>),
    /// Show, create and raise sequences in their stores, and print the SQL of their tables
    Sequence(Box<sequence::SequenceArgs>),
    /// Reserve, commit and release numbers without gaps, and export their ledger
    Number(number::NumberArgs),
    /// Take over counters of a Redis as sequences that continue above them
    ///
    /// Prints the result for each counter, or the reason why it was left out. Exits 1 if a counter was left out.
    Import(Box<import::ImportArgs>),
    /// Show claims of server-ids in a claim store, release them, or take them from their holder
    Claim(claim::ClaimArgs),
    /// Initialise a claim store for a fleet, and show what its servers share
    Cluster(cluster::ClusterArgs),
    /// Show, advance or move the state a server keeps on disk or in a claim store
    State(state::StateArgs),
    /// Open a new pool of worker ids at once
    Worker(worker::WorkerArgs),
    /// Draw IDs as clients do, and check that none repeats and that all are in order
    ///
    /// Opens connections to one or several servers, draws for a time or a count, and judges every ID.
    Verify(Box<verify::VerifyArgs>),
    /// Measure a server: requests a second, latency, CPU time per request
    Bench(Box<bench::BenchArgs>),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

const SERVE_EXAMPLES: &str = "\
Examples:
  getid serve
  getid serve /etc/getid/getid.conf
  getid serve --port 7000 --server-id 1 --dir /var/lib/getid
  getid serve getid.toml --bind 0.0.0.0 --loglevel verbose
  GETID_SERVER_ID=2 getid serve getid.conf

Directives are described in config/getid.conf; `getid check-config` checks a file.";

const CHECK_CONFIG_EXAMPLES: &str = "\
Examples:
  getid check-config /etc/getid/getid.conf
  getid check-config getid.toml --server-id 3
  getid check-config /etc/getid/getid.conf --connect
  GETID_PORT=7000 getid check-config          # no file: the environment and the defaults";

/// The words of `getid serve` and `getid check-config`, passed on unchanged: the configuration decides which of them
/// are directives.
#[derive(Args)]
struct ServeWords {
    /// Configuration file (.conf or .toml), then directives
    #[arg(value_name = "FILE|--DIRECTIVE VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
        completions::with_completions(Cli::command()).debug_assert();
    }

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        if line.starts_with("getid serve") {
            let own = words_of_serve(line.split_whitespace().skip(1).map(OsString::from));
            assert_eq!(own.expect("needs no clap"), expected, "as clap has it");
        }
        match Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command) {
            Ok(CliCommand::Serve(ServeWords { words }) | CliCommand::CheckConfig(ServeWords { words })) => {
                assert_eq!(words, expected);
            }
            Ok(_) => panic!("another command"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn wrong_arguments_cannot_control_the_terminal() {
        for (word, shown) in [("--\u{1b}[31mx", r"'--\u{1b}[31mx'"), ("a\u{1b}[2J\rb", r"'a\u{1b}[2J\rb'")] {
            for line in [vec!["getid", word], vec!["getid", "claim", "show", word]] {
                let Err(error) = command().try_get_matches_from(&line) else { panic!("{line:?} is taken") };
                let text = escape_arguments(error).render().to_string();
                assert!(text.contains(shown) && !text.contains(['\u{1b}', '\r']), "{line:?}: {text:?}");
            }
        }
    }

    #[test]
    fn synonyms_suggest_a_subcommand() {
        for (words, meant) in SUBCOMMAND_SYNONYMS {
            for word in words {
                let Err(error) = command().try_get_matches_from(["getid", word]) else { panic!("{word} is taken") };
                let text = escape_arguments(with_suggestion(error)).render().to_string();
                assert!(text.contains(&format!("similar subcommand exists: '{meant}'")), "{word}: {text}");
            }
        }
    }

    #[test]
    fn words_of_serve_are_passed_on_unchanged() {
        check("getid serve", &[]);
        check("getid serve a.conf", &["a.conf"]);
        check("getid serve --port 7000", &["--port", "7000"]);
        check(
            "getid serve a.conf --port 7000 --bind -::1 127.0.0.1",
            &["a.conf", "--port", "7000", "--bind", "-::1", "127.0.0.1"],
        );
        check("getid serve --slowlog-log-slower-than -1", &["--slowlog-log-slower-than", "-1"]);
        check("getid check-config a.toml --id-range 3", &["a.toml", "--id-range", "3"]);
    }

    #[test]
    fn clap_handles_help_and_other_commands() {
        for line in ["", "serve -h", "serve --help", "serve --version", "serve -V", "serve -- x", "decode 1", "serv"] {
            assert_eq!(words_of_serve(line.split_whitespace().map(OsString::from)), None, "{line}");
        }
    }

    #[test]
    fn help_of_a_subcommand_is_its_own() {
        for line in ["getid serve --help", "getid serve -h", "getid check-config --help"] {
            let error = Cli::try_parse_from(line.split_whitespace()).err().map(|error| error.kind());
            assert_eq!(error, Some(clap::error::ErrorKind::DisplayHelp), "{line}");
        }
    }
}
