//! `getid completions`: shell scripts that complete commands, options, directives, kinds and generators.
//!
//! A script contains all words except the names of generators. It gets those from this program when they are needed,
//! with the words typed so far, so that the file of `--config` counts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, ValueEnum, ValueHint};
use clap_complete::Shell;
use getid_core::server::{COUNTER_KINDS, kind_words};

use super::exit::{CliError, finish};
use super::output::print;
use super::tool_config::{environment, load};
use getid_config::Sources;
use getid_config::directive::Directive;

/// Arguments of `getid completions`.
#[derive(Args)]
#[command(after_help = "\
Names of generators are those of the configuration behind --config, or of the environment and /etc/getid/getid.conf.

Examples:
  getid completions bash > /etc/bash_completion.d/getid
  getid completions zsh > /usr/local/share/zsh/site-functions/_getid
  getid completions fish > ~/.config/fish/completions/getid.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: CompletionOutput,
    /// The words that were typed
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true, requires = "shell")]
    words: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum CompletionOutput {
    Bash,
    Elvish,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Zsh,
    /// Prints the names of generators, for the scripts.
    #[value(hide = true)]
    Generators,
}

/// Prints a script for `command`, or the names of generators.
pub(super) fn run(args: &CompletionsArgs, command: Command) -> Result<ExitCode, CliError> {
    let shell = match args.shell {
        CompletionOutput::Bash => Some(Shell::Bash),
        CompletionOutput::Elvish => Some(Shell::Elvish),
        CompletionOutput::Fish => Some(Shell::Fish),
        CompletionOutput::PowerShell => Some(Shell::PowerShell),
        CompletionOutput::Zsh => Some(Shell::Zsh),
        CompletionOutput::Generators => None,
    };
    let text = shell.map_or_else(|| names(&args.words), |shell| script(shell, command));
    finish(print(|out| out.write_all(text.as_bytes())), ExitCode::SUCCESS)
}

/// Placeholder for the names of generators, replaced when a script is made.
const NAMES: &str = "GENERATOR_NAMES";

fn script(shell: Shell, command: Command) -> String {
    // clap_complete panics when a write fails, so it gets memory to write to.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_completions(command), "getid", &mut script);
    let script = String::from_utf8_lossy(&script);
    // How each shell runs this program for the names.
    match shell {
        Shell::Bash => script.replace(NAMES, r#"$(getid completions generators "${COMP_WORDS[@]}" 2>/dev/null)"#),
        // `$words` has no options where a value without a name is completed.
        Shell::Zsh => script.replace(NAMES, "$(getid completions generators ${(z)BUFFER} 2>/dev/null)"),
        Shell::Fish => script.replace(&format!("{NAMES}\\t''"), FISH_NAMES) + &fish_values(),
        _ => script.replace(NAMES, ""),
    }
}

const FISH_NAMES: &str = "(getid completions generators (commandline -opc) 2>/dev/null)";

/// Returns completions of values without a name, for which `clap_complete` writes nothing in fish.
fn fish_values() -> String {
    let kinds = kind_words().chain(COUNTER_KINDS).collect::<Vec<_>>().join(" ");
    let line = |command: &str, words: &str| {
        format!("complete -c getid -n \"__fish_getid_using_subcommand {command}\" -f -a \"{words}\"\n")
    };
    let named: String = ["get", "seal", "open"].map(|command| line(command, FISH_NAMES)).concat();
    named + &line("layout", &format!("{kinds} {FISH_NAMES}"))
}

/// The configuration file of an installed server.
const INSTALLED: &str = "/etc/getid/getid.conf";

/// Returns the names of a server's generators, one a line; empty if the configuration cannot be read.
fn names(words: &[String]) -> String {
    let installed = || Some(PathBuf::from(INSTALLED)).filter(|path| path.exists());
    let file = typed_file(words).or_else(installed);
    let sources = Sources { file, environment: environment(), ..Sources::default() };
    let Ok(config) = load(&sources) else { return String::new() };
    config.generator_names().map(|name| name.to_owned() + "\n").collect()
}

/// Returns the file of `--config`. bash splits `--config=FILE` into three words, and no shell has expanded a `~` yet.
fn typed_file(words: &[String]) -> Option<PathBuf> {
    let (at, text) = words.iter().enumerate().find_map(|(at, word)| Some((at, word.strip_prefix("--config")?)))?;
    let path = match text.strip_prefix('=') {
        Some(path) => path,
        None => words[at + 1..].iter().find(|word| *word != "=")?,
    };
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let expanded = path.strip_prefix("~/").and_then(|rest| Some(home()?.join(rest)));
    Some(expanded.unwrap_or_else(|| PathBuf::from(path)))
}

/// Returns the command line as shells complete it: with directives, kinds, and a placeholder for names of generators.
pub(super) fn with_completions(command: Command) -> Command {
    with_names(with_directives(command))
}

/// Adds kinds of layouts and names of generators as values to choose from. The real command line leaves them open.
fn with_names(command: Command) -> Command {
    let kinds = || kind_words().chain(COUNTER_KINDS);
    let (is_get, is_seal) = (command.get_name() == "get", ["seal", "open"].contains(&command.get_name()));
    let command = command.mut_args(|arg| match (arg.get_id().as_str(), arg.get_long()) {
        ("words", None) if is_get => arg.value_parser(PossibleValuesParser::new([NAMES])),
        ("name", None) if is_seal => arg.value_parser(PossibleValuesParser::new([NAMES])),
        (_, Some("generator")) => arg.value_parser(PossibleValuesParser::new([NAMES])),
        (_, Some("layout")) => arg.value_parser(PossibleValuesParser::new(kinds())),
        ("kind", None) => arg.value_parser(PossibleValuesParser::new(kinds().chain([NAMES]))),
        _ => arg,
    });
    command.mut_subcommands(with_names)
}

/// Adds the directives to `serve` and `check-config`. The real command line only passes them on.
fn with_directives(mut command: Command) -> Command {
    let directive = |row: &'static Directive| {
        let (least, most) = row.words();
        let mut flag =
            Arg::new(row.name).long(row.name).help(row.doc).value_name("VALUE").num_args(least.max(1)..=most.max(1));
        if !row.choices().is_empty() {
            flag = flag.value_parser(PossibleValuesParser::new(row.choices()));
        }
        if row.is_path() {
            flag = flag.value_hint(ValueHint::AnyPath);
        }
        flag
    };
    for name in ["serve", "check-config"] {
        command = command.mut_subcommand(name, |serve| {
            let serve = serve.mut_arg("words", |words| {
                words.trailing_var_arg(false).allow_hyphen_values(false).value_hint(ValueHint::FilePath)
            });
            serve.args(Directive::ALL.iter().map(directive))
        });
    }
    let connect = Arg::new("connect").long("connect").help("Open the stores of sequences").num_args(0);
    command = command.mut_subcommand("check-config", |check| check.arg(connect));
    command
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn scripts_contain_the_directives() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell, crate::cli::Cli::command());
            for row in Directive::ALL {
                let flag = if shell == Shell::Fish { format!("-l {} ", row.name) } else { format!("--{}", row.name) };
                let places = script.matches(&flag).count();
                assert!(places >= 2, "{shell}: {flag} is known in {places} places");
            }
            assert!(script.contains("notice"), "{shell}: values of loglevel");
        }
    }

    #[test]
    fn scripts_contain_kinds_and_query_generators() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = script(shell, crate::cli::Cli::command());
            assert!(!script.contains(NAMES), "{shell}");
            if [Shell::Bash, Shell::Zsh, Shell::Fish].contains(&shell) {
                assert!(script.matches("getid completions generators ").count() >= 5, "{shell}");
                assert!(script.contains("objectid-decimal"), "{shell}");
            }
        }
    }

    #[test]
    fn names_come_from_the_typed_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("getid.conf");
        std::fs::write(&file, "generator tweets twitter\ngenerator order serial ORD{n:3}\n").unwrap();
        let file = file.display().to_string();
        for words in [
            vec!["getid", "get", "--config", &file],
            vec!["getid", &format!("--config={file}")],
            vec!["getid", "--config", "=", &file, "--generator"],
        ] {
            let words: Vec<_> = words.into_iter().map(str::to_owned).collect();
            assert_eq!(names(&words), "tweets\norder\n");
        }
        let words = ["getid", "--config", "~/getid.conf"].map(str::to_owned);
        assert_eq!(typed_file(&words), Some(PathBuf::from(std::env::var_os("HOME").unwrap()).join("getid.conf")));
        assert_eq!(typed_file(&words[..2]), None);
    }
}
