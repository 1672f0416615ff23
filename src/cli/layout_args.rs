//! Options that select the IDs a tool works on: by their layout, or by their generator.

use std::path::PathBuf;

use clap::Args;
use getid_core::{DeclarationError, Epoch, Layout, LayoutError};

use super::exit::{EXIT_NEGATIVE, ToolError};
use super::tool_config::{environment, load};
use getid_config::{Config, ConfigReport, Sources, counter_help, declaration_help, epoch, kind_meant};
use getid_text::plural::counted;
use getid_text::printable::printable_up_to;
use getid_text::suggest::did_you_mean;
use getid_text::timestamp::{self, TimeError};
use getid_text::zone::Zone;
use getid_tools::recognition::Candidates;
use getid_tools::subject::{Subject, SubjectError};

/// Flags that divide the bits of IDs.
///
/// What they leave open is as for a server that starts here with this file: environment over file over defaults. So in
/// a server's container no flag is needed.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Layout (as the servers have it)")]
pub(super) struct LayoutArgs {
    /// The servers' configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Bits of the server-id
    #[arg(long, value_name = "BITS")]
    id_range: Option<u32>,
    /// Bits of the shard
    #[arg(long, value_name = "BITS")]
    shard_range: Option<u32>,
    /// Bits of the random part
    #[arg(long, value_name = "BITS")]
    random_range: Option<u32>,
    /// When IDs start to count: Unix ms, RFC 3339, or a date in UTC
    #[arg(long, value_name = "TIME")]
    epoch: Option<String>,
}

/// Flags that select the IDs that a tool works on.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Layout (as the servers have it)")]
pub(super) struct SubjectArgs {
    /// A kind or the words of a declaration, as in 'twitter epoch 2016-01-01T00:00:00Z'
    ///
    /// `getid layout --list` shows the kinds. Constants need no values, because IDs contain them.
    #[arg(long = "layout", value_name = "WORDS", conflicts_with_all = UNNAMED)]
    #[arg(conflicts_with_all = ["generator", "config"])]
    words: Option<String>,
    /// A generator of the configuration; `-` is the unnamed one
    #[arg(long, value_name = "NAME", conflicts_with_all = UNNAMED, allow_hyphen_values = true)]
    generator: Option<String>,
    #[command(flatten)]
    unnamed: LayoutArgs,
}

/// Name by which `--generator` selects the unnamed generator. No generator may have this name.
const UNNAMED_NAME: &str = "-";

/// Largest number of generators that an error names.
const NAMED_MAX: usize = 10;

/// Names of the flags for the unnamed generator's layout.
const UNNAMED: [&str; 4] = ["id_range", "shard_range", "random_range", "epoch"];

/// Error of the flags that select IDs, or of the configuration that they name.
#[derive(Debug, thiserror::Error)]
pub(super) enum SubjectArgsError {
    #[error("configuration:\n{0}")]
    Configuration(#[from] ConfigReport),
    /// The words of a declaration are wrong; `place` is where they come from.
    #[error("{}", mistakes(.place, .errors))]
    Declaration { place: &'static str, errors: Vec<SubjectError> },
    #[error("no kind and no generator has the name '{name}'; did you mean '{similar}'?")]
    NoKind { name: String, similar: String },
    #[error(
        "--generator {}: the configuration has no such generator; {}",
        printable_up_to(.name, 64),
        names_there(.similar.as_deref(), .names)
    )]
    NoGenerator { name: String, similar: Option<String>, names: Vec<String> },
    #[error("--epoch: {0}")]
    Epoch(TimeError),
    #[error("--epoch {0}: must be Unix ms 0 to {most}", most = Epoch::UNIX_MS_MAX)]
    EpochRange(String),
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl ToolError for SubjectArgsError {
    /// Returns the exit code of the tools that work without a server.
    fn exit_code(&self) -> u8 {
        EXIT_NEGATIVE
    }
}

/// Formats the mistakes in a declaration.
fn mistakes(place: &str, errors: &[SubjectError]) -> String {
    if let [error] = errors {
        return format!("{place}: {}", sentence(error));
    }
    let lines: Vec<_> = errors.iter().map(|error| format!("\n  {}", sentence(error))).collect();
    format!("{place} has {}:{}", counted(errors.len() as u64, "mistake"), lines.concat())
}

/// Formats the generators that a configuration has in place of an unknown one.
fn names_there(similar: Option<&str>, names: &[String]) -> String {
    match similar {
        Some(similar) => format!("did you mean '{similar}'?"),
        None if names.is_empty() => "it has none; --config FILE names the servers' configuration".to_owned(),
        None => {
            let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
            format!("it has {}{more}", names[..names.len().min(NAMED_MAX)].join(", "))
        }
    }
}

impl SubjectArgs {
    /// Returns the subject that the flags select, or all errors in them.
    pub(super) fn subject(&self) -> Result<Subject, SubjectArgsError> {
        match (&self.words, &self.generator) {
            (Some(words), _) => parse_declared("--layout", words),
            (None, Some(name)) if name == UNNAMED_NAME => self.unnamed.layout().map(Subject::Unnamed),
            (None, Some(name)) => generator(&self.unnamed.load()?, name),
            (None, None) => self.unnamed.layout().map(Subject::Unnamed),
        }
    }

    /// Returns the candidates for IDs. If the flags name a generator or a layout, it is the only one. Otherwise they
    /// are the unnamed generator, the configuration's generators, and all kinds.
    pub(super) fn candidates(&self) -> Result<Candidates, SubjectArgsError> {
        if self.words.is_some() || self.generator.is_some() || self.unnamed.has_layout() {
            return Ok(Candidates::named(self.subject()?));
        }
        let config = self.unnamed.load()?;
        let unnamed = Subject::Unnamed(self.unnamed.layout_over(config.layout)?);
        Ok(Candidates::all(unnamed, all_generators(&config)))
    }

    /// Returns the configured generator of this name, or the kind.
    pub(super) fn generator_or_kind(&self, word: &str) -> Result<Subject, SubjectArgsError> {
        let config = match self.unnamed.load() {
            Ok(config) => Some(config),
            // A kind needs no configuration, but a configuration that was named must be readable.
            Err(_) if self.unnamed.config.is_none() => None,
            Err(error) => return Err(error),
        };
        let generators: Vec<Subject> = config.iter().flat_map(all_generators).collect();
        if let Some(subject) = generators.iter().find(|subject| subject.name() == Some(word)) {
            return Ok(subject.clone());
        }
        let similar = || did_you_mean(word, generators.iter().filter_map(Subject::name));
        parse_declared("the layout", word).map_err(|error| match similar().filter(|_| kind_meant(word).is_none()) {
            Some(similar) => SubjectArgsError::NoKind { name: word.to_owned(), similar: similar.to_owned() },
            None => error,
        })
    }
}

/// Returns all generators of a configuration.
fn all_generators(config: &Config) -> impl Iterator<Item = Subject> {
    let clocks = config.generators.iter().map(|declaration| Subject::Declared(Box::new((**declaration).clone())));
    clocks.chain(config.counters.iter().map(|counter| Subject::Counted(Box::new((**counter).clone()))))
}

/// Returns the generator of this name. Fails with the names that exist.
fn generator(config: &Config, name: &str) -> Result<Subject, SubjectArgsError> {
    let subjects: Vec<Subject> = all_generators(config).collect();
    if let Some(subject) = subjects.iter().find(|subject| subject.name() == Some(name)) {
        return Ok(subject.clone());
    }
    let names = || subjects.iter().filter_map(Subject::name);
    let similar = did_you_mean(name, names()).map(str::to_owned);
    Err(SubjectArgsError::NoGenerator { name: name.to_owned(), similar, names: names().map(str::to_owned).collect() })
}

/// Parses the declaration `words`. Fails with all errors; `place` is where the words come from.
pub(super) fn parse_declared(place: &'static str, words: &str) -> Result<Subject, SubjectArgsError> {
    Subject::parse(words, epoch, Zone::check).map_err(|errors| SubjectArgsError::Declaration { place, errors })
}

impl LayoutArgs {
    /// Returns the layout that the flags set. Fails if they do not fit together.
    pub(super) fn layout(&self) -> Result<Layout, SubjectArgsError> {
        self.layout_over(self.load()?.layout)
    }

    /// Whether a flag sets a part of the unnamed generator's layout.
    fn has_layout(&self) -> bool {
        self.id_range.is_some() || self.shard_range.is_some() || self.random_range.is_some() || self.epoch.is_some()
    }

    fn load(&self) -> Result<Config, SubjectArgsError> {
        let sources = Sources { file: self.config.clone(), environment: environment(), ..Sources::default() };
        Ok(load(&sources)?)
    }

    /// Returns the path of the servers' configuration file, if it was given.
    pub(super) fn config(&self) -> Option<PathBuf> {
        self.config.clone()
    }

    /// Returns `base` with the given flags applied.
    pub(super) fn layout_over(&self, base: Layout) -> Result<Layout, SubjectArgsError> {
        let epoch = match &self.epoch {
            None => base.epoch(),
            Some(text) => {
                let unix_ms = timestamp::parse_unix_ms(text).map_err(SubjectArgsError::Epoch)?;
                u64::try_from(unix_ms)
                    .ok()
                    .and_then(Epoch::from_unix_ms)
                    .ok_or_else(|| SubjectArgsError::EpochRange(text.clone()))?
            }
        };
        Ok(Layout::new(
            epoch,
            self.id_range.unwrap_or(base.server_bits()),
            self.shard_range.unwrap_or(base.shard_bits()),
            self.random_range.unwrap_or(base.random_bits()),
        )?)
    }
}

/// Formats an error, with its remedy where the error does not show it.
fn sentence(error: &SubjectError) -> String {
    let help = match error {
        SubjectError::Declaration(DeclarationError::Kind { word }) => {
            Some(kind_meant(word).unwrap_or_else(|| "'getid layout --list' shows the kinds".to_owned()))
        }
        SubjectError::Declaration(error) => declaration_help(error),
        SubjectError::Counter(error) => counter_help(error),
    };
    match help {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    }
}
